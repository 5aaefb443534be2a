"""The Python examples of the README and of docs/ run, page by page, from the root of the checkout."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> str:
    """Give the examples of a page as one program, each line where it stands in the page."""
    text = page.read_text(encoding="utf-8")
    program = ["\n"] * text.count("\n")
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for offset, line in enumerate(block[1].splitlines(keepends=True)):
            program[first + offset] = line
    return "".join(program)


RUNNING = [page for page in PAGES if examples(page).strip() and "architecture" not in str(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(examples(page), str(page), "exec"), {"__name__": page.stem})


def test_there_are_examples() -> None:
    assert {page.name for page in RUNNING} >= {"README.md", "python.md"}


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[!R]*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_what_was_rejected_and_is_listed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    parts = re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)
    assert parts[:4] == ["Decision", "Context", "Rejected", "Consequences"]
    assert parts[4:] in ([], ["Figures"])
    title = text.splitlines()[0].removeprefix("# ")
    assert f"- [{title}]({page.name})\n" in (page.parent / "README.md").read_text(encoding="utf-8")


ROOMS = {
    "core/rules": ("core", "Rules"),
    "core/service": ("core", "The service"),
    "core/callers": ("core", "Callers"),
    "twin/sim": ("twin", "The simulation"),
    "twin/facade": ("twin", "The facade"),
    "twin/view": ("twin", "View"),
    "judge/conformance": ("judge", "Conformance"),
    "judge": ("judge", "Profiles and deployment"),
    "judge/load": ("judge", "Load"),
    "judge/check": ("judge", "Check"),
    "judge/mirror": ("judge", "Mirror"),
    "planner/study": ("planner", "Studies"),
    "planner/fleet": ("planner", "The fleet"),
}
"""Rooms, and where a table names their modules: the page of the wing, and the section."""


@pytest.mark.parametrize(("room", "place"), ROOMS.items(), ids=ROOMS)
def test_the_map_names_what_there_is(room: str, place: tuple[str, str]) -> None:
    page, section = place
    text = (ROOT / "docs" / "architecture" / f"{page}.md").read_text(encoding="utf-8")
    part = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    folder = ROOT / "src" / "ranksim" / room
    for row in re.findall(r"^\| (.+?) \|", part, re.MULTILINE):
        inner = folder
        for name in re.findall(r"`([\w/]+(?:\.\w+)?)`", row):
            if name.endswith("/"):
                inner = folder / name
                assert inner.is_dir(), name
            elif "." in name:
                assert (inner / name).exists() or (folder / name).exists(), name
            elif name != room:
                assert (inner / f"{name}.py").exists(), name


LINK = re.compile(r"\[[^\]]+\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []


def test_the_tests_that_the_page_on_security_names_are_there() -> None:
    """Each row of its tables with the test that shows it, marked as the row says."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| Promised")]
    assert len(rows) > 20
    for row in rows:
        kinds = re.findall(r"(?:(slow|heavy|browser): )?`(tests/[\w/]+\.py)::(\w+)`", row)
        assert kinds, row
        for kind, file, name in kinds:
            code = (ROOT / file).read_text(encoding="utf-8")
            found = re.search(
                rf"((?:^@pytest.*\n(?:^[ \]\)].*\n)*)*)^(?:async )?def {name}\(", code, re.MULTILINE
            )
            assert found, f"{file}::{name}"
            marks = set(re.findall(r"^@pytest\.mark\.(slow|heavy|browser)\b", found[1], re.MULTILINE))
            of_all = re.search(r"^pytestmark = (\[.*?^\]|[^\n]*)", code, re.MULTILINE | re.DOTALL)
            marks |= set(re.findall(r"\bmark\.(slow|heavy|browser)\b", of_all[1] if of_all else ""))
            assert marks == ({kind} if kind else set()), f"{file}::{name} is marked {marks}"
