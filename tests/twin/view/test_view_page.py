"""A run on the live page, in a real browser: scrubbed, with the state and the reason of each refusal.

.venv/bin/python -m pytest -m browser tests/twin/view
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from ranksim.bridges.growing import GrowingRun
from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.loop_thread import LoopThread
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.view.simulated import SimulatedRun
from ranksim.twin.view.viewer import ShownRun, Viewer

SPEC = spec_from_file_location(
    "ranksim_browser", Path(__file__).parents[1] / "facade" / "page" / "browser.py"
)
assert SPEC is not None
assert SPEC.loader is not None
browser = module_from_spec(SPEC)
SPEC.loader.exec_module(browser)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser.CHROMIUM is None, reason="wants Chromium"),
]

SECOND = 1_000_000
START = 1_772_618_400 * SECOND


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@contextmanager
def served(recording: ShownRun) -> Iterator[str]:
    thread = LoopThread("viewer")
    listener = Listener(Viewer(recording, "hands"), "127.0.0.1", 0)
    thread.call(listener.open())
    try:
        yield f"{listener.url}/?token=hands"
    finally:
        thread.call(listener.close())
        thread.stop()


@pytest.fixture(scope="module")
def run() -> SimulatedRun:
    scenario = Scenario.load(Path("scenarios/quickstart.yaml"))
    return SimulatedRun(scenario.replace(length="3d", timeline=[], expect=[]))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_a_run_is_scrubbed_and_shows_how_things_stood_and_why_calls_were_refused(
    chromium: Any, run: SimulatedRun, width: int, dark: bool, tmp_path: Path
) -> None:
    with served(run) as url:
        tab = chromium.open(url, width, dark=dark)
        tab.until("document.querySelectorAll('.account').length === 1")
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.text("#now") == "2026-01-08 00:00:00.000 UTC"
        assert tab.text("#jobs h2") != "Jobs"
        tab.run(
            "(() => { const it = document.getElementById('instant'); it.value = 0; "
            "it.dispatchEvent(new Event('input')); })()"
        )
        tab.until("document.getElementById('h-jobs').textContent === 'Jobs'")  # none was there yet
        tab.press_button("+1 h")
        tab.until("document.getElementById('now').textContent === '2026-01-05 01:00:00.000 UTC'")
        tab.run(
            "(() => { const it = document.getElementById('instant'); it.value = 10000; "
            "it.dispatchEvent(new Event('input')); })()"
        )
        tab.until("document.getElementById('now').textContent === '2026-01-08 00:00:00.000 UTC'")
        tab.click("document.getElementById('refused')")
        why = "/window|^[1-6] /.test(one.textContent)"
        refused = f"[...document.querySelectorAll('.row .why')].find((one) => {why})"
        tab.until(f"Boolean({refused})")
        tab.click(refused)
        tab.until("document.querySelector('#detail .why')")
        assert "Refused by" in tab.text("#detail")
        at = tab.run("document.querySelector('.row[aria-selected=true] .at').textContent")
        tab.press_button("Show the world then")
        tab.until("document.getElementById('now').textContent !== '2026-01-08 00:00:00.000 UTC'")
        assert at[-5:] in tab.text("#now")
        tab.until("document.querySelector('#detail .why')")  # the same call stays open
        hands = "[...document.querySelectorAll('.account button, .job button, .endpoint button')]"
        assert tab.run(f"{hands}.filter((one) => one.offsetParent).length") == 0  # nothing can be changed
        tab.picture(tmp_path.parent / f"run-{width}-{'dark' if dark else 'light'}.png")
        assert tab.errors() == []
        tab.close()


def line(number: int, *, ended: bool = True) -> str:
    sent = {
        "kind": "exchange", "id": str(number), "sent": START + number * SECOND, "operations": ["jobs.list"],
        "method": "GET", "path": f"/v1/call/{number}", "query": {}, "request_headers": {}, "body": "",
        "api_key": None, "target": "", "environment": "production", "surface": "rest", "clock_host": "h",
    }  # fmt: skip
    end = {
        "ended": str(number), "received": START + number * SECOND + 500, "status": 200,
        "response_headers": {}, "response": "{}", "effect": "none", "error": None,
    }  # fmt: skip
    return f"{json.dumps(sent)}\n" + (f"{json.dumps(end)}\n" if ended else "")


def test_a_load_under_way_is_followed(chromium: Any, tmp_path: Path) -> None:
    parts = tmp_path / ".parts-1"
    parts.mkdir()
    (parts / "header.json").write_text(json.dumps({"ranksim_trace": 1, "started": START}))
    part = parts / "part-1.jsonl"
    part.write_text("".join(map(line, range(3))))
    with served(GrowingRun(tmp_path, lambda: START + 10_000 * SECOND)) as url:
        tab = chromium.open(url, 1000)
        tab.until("document.getElementById('link').textContent === '3 calls so far'")
        with part.open("a") as file:
            file.write("".join(map(line, range(3, 5))))
        tab.until("document.getElementById('link').textContent === '5 calls so far'")
        tab.until(
            "[...document.querySelectorAll('.row')].some((one) => one.textContent.includes('/v1/call/4'))"
        )
        assert tab.errors() == []
        tab.close()
