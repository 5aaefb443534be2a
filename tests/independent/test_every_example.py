"""Every number that an example of the docs asserts has a check here, and no check here imports ranksim.

A check names what it is about: `@pytest.mark.example("docs/capacity.md", "steady.room")` is about the
assertion that holds this text, or about this text of the page.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = ["README.md", *(page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md")))]

NO_NUMBERS = {
    "docs/conformance.md": ["judgement.deviating", 'finding("idempotency.once")'],  # words
    "docs/trace-format.md": ['finding("resource.envelope")', 'finding("header.request_id")'],  # words
    "docs/facade.md": [
        '["status"] == "done"',
        "came.valid",
        '["job"]["id"] == job',
        '["plan"] == "pro"',
    ],  # words, ids
    "docs/pricing.md": [
        '{"newly admitted"}',
        "exported.calls",
        "accounts[0].name",
    ],  # words; two ways to read the same
    "docs/python.md": [
        '"refusals.total"}',  # words
        "policy.dump()",  # there and back
        "windw",  # words
        '"PeriodTurned"',  # words
        "trace.exchanges[0]",  # that there are some
        "exchange.status == 202",  # that there is one
    ],
    "docs/tutorial.md": ['"cooldown_active"'],  # words
    "docs/studies.md": [
        "capacty",
        '"more hands", "now"',
    ],  # words; a sign
}
"""Assertions that state no number, or none that could be computed otherwise."""


def plain(text: str) -> str:
    return " ".join(text.split())


def assertions(page: str) -> list[str]:
    """The assertions in the Python examples of a page, as they stand there."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for block in BLOCK.finditer(text):
        try:
            tree = ast.parse(block[1])
        except SyntaxError:  # the map shows the shape of calls
            assert page == "docs/architecture.md"
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                found.append(plain(ast.get_source_segment(block[1], node) or ""))
    return found


def claims() -> Iterator[tuple[str, str, str]]:
    """(page, text, test) of each mark in this folder."""
    for file in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.example":
                    page, *texts = (ast.literal_eval(argument) for argument in mark.args)
                    yield from ((page, plain(text), f"{file.name}::{node.name}") for text in texts)


@pytest.mark.parametrize("page", [page for page in PAGES if assertions(page)])
def test_every_number_is_checked(page: str) -> None:
    checked = [text for of, text, _ in claims() if of == page] + NO_NUMBERS.get(page, [])
    assert [one for one in assertions(page) if not any(text in one for text in checked)] == []


def test_every_check_is_about_something() -> None:
    stale = [
        (page, text, test)
        for page, text, test in claims()
        if text not in plain((ROOT / page).read_text(encoding="utf-8"))
    ]
    assert stale == []
    exceptions = [(page, text) for page, texts in NO_NUMBERS.items() for text in texts]
    assert [(p, t) for p, t in exceptions if sum(t in one for one in assertions(p)) != 1] == []


@pytest.mark.parametrize("file", sorted(HERE.glob("*.py")), ids=lambda file: file.name)
def test_nothing_is_shared_with_what_is_checked(file: Path) -> None:
    """No import of ranksim, by whatever way, nor of the other tests' helpers."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in ("__import__", "import_module", "importlib.import_module")
    assert imported <= {*sys.stdlib_module_names, "pytest", "numpy", "scipy", "dateutil", "ruamel"}
