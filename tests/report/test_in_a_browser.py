"""Pages in a real browser: on a phone nothing runs out of the page, and figures can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.twin.facade.page import browser

from ranksim.planner.study.study import Study
from ranksim.report.page import tables_page
from ranksim.report.tables import View
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser.CHROMIUM is None, reason="there is no Chromium"),
]


def of_run() -> str:
    return run(Scenario.load(ROOT / "scenarios" / "agency-month.yaml")).page()


def of_study() -> str:
    return Study.load(ROOT / "examples" / "studies" / "workers.yaml").run().page()


PAGES = {"run": of_run, "study": of_study}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_on_a_phone(name: str, dark: bool, chromium: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGES[name](), encoding="utf-8")
    tab = chromium.open((tmp_path / "page.html").as_uri(), 400, 800, dark=dark)
    assert tab.run("document.documentElement.scrollWidth") == 400
    widths = tab.run(
        "[...document.querySelectorAll('figure svg')].map((one) => one.clientWidth).filter((one) => one)"
    )
    assert 300 < min(widths) <= max(widths) <= 400
    assert tab.run("[...document.querySelectorAll('h1, h2, .answer')].every((one) => one.scrollWidth <= 400)")
    assert tab.errors() == []
    tab.close()


LINES_OF_TILES = """[...document.querySelectorAll('.numbers b')].map(
    (one) => Math.round(one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)))"""


@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_a_moment_in_a_tile_takes_a_line_for_its_day_and_one_for_its_time(
    width: int, chromium: Any, tmp_path: Path
) -> None:
    text = run(Scenario.load(ROOT / "scenarios" / "receiver-down-9h.yaml")).page()
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    tab = chromium.open((tmp_path / "page.html").as_uri(), width, 800)
    assert "2026-01-05" in tab.run("document.querySelector('.numbers').textContent")
    assert max(tab.run(LINES_OF_TILES)) == 2
    widths = tab.run(
        "[...document.querySelectorAll('.numbers li')].map((one) => Math.round(one.clientWidth))"
    )
    assert max(widths) - min(widths) <= 1
    tab.close()


def test_a_link_to_an_assumption_unfolds_what_it_says(chromium: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(tables_page("A study", ["by U48"], [], {}), encoding="utf-8")
    tab = chromium.open((tmp_path / "page.html").as_uri(), 400, 800)
    assert not tab.run("document.querySelector('details').open")
    tab.run("document.querySelector('a[href=\"#U48\"]').click()")
    tab.until("document.querySelector('details').open")
    tab.close()


WIDE = View(
    "Refused", ("plan", "metric", "A", "B", "difference"), 2,
    tuple(("pro", f"hit code {n}", "10 USD", "20 USD", "10 (9.5 to 10.5) points") for n in range(20)),
)  # fmt: skip


def test_rows_of_a_wide_table_are_short_on_a_phone_and_a_click_shows_all(
    chromium: Any, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(tables_page("A study", [], [WIDE], {}), encoding="utf-8")
    tab = chromium.open((tmp_path / "page.html").as_uri(), 400, 800)
    heights = "[...document.querySelectorAll('tbody tr')].map((one) => one.clientHeight)"
    assert [height > 0 for height in tab.run(heights)] == [True] * 8 + [False] * 12
    assert tab.run("document.querySelector('table').scrollWidth") <= 368
    line = tab.run("parseFloat(getComputedStyle(document.querySelector('td')).lineHeight)")
    assert max(tab.run(heights)) < 4 * line  # five cells in three lines
    tab.click("document.querySelector('.all input')")
    assert min(tab.run(heights)) > 0
    tab.click("document.querySelector('.all input')")
    tab.size(1200, 800)
    assert min(tab.run(heights)) > 0
    assert tab.run("document.querySelector('.all').clientHeight") == 0
    tab.close()
