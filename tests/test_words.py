"""Names say what they hold: a pronoun makes the reader look for its noun."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "ranksim"

PRONOUNS = {"told", "said", "one", "found", "known", "asked", "shown", "mine", "gone", "whole"}
"""What no module, function, parameter or local is named."""

LEFT = {
    "twin/facade/advance.py: shown",
    "twin/facade/request_journal.py: shown",
    "twin/sim/results.py: why.asked",
    "twin/testing/control.py: shown",
    "twin/testing/world.py: told",
}
"""Names that were promised: tests and notebooks of users call them."""


def bound(function: ast.AST) -> set[str]:
    """The parameters and locals of a function, those of functions inside it included."""
    names = set()
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
    return names


def pronouns(path: Path) -> Iterator[str]:
    """Each module, function, parameter and local of a file that is named by a pronoun."""
    where = path.relative_to(PACKAGE).as_posix()
    if path.stem.strip("_") in PRONOUNS:
        yield where
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.strip("_") in PRONOUNS:
                yield f"{where}: {node.name}"
            yield from (f"{where}: {node.name}.{name}" for name in bound(node) if name.strip("_") in PRONOUNS)


def test_names_are_nouns_not_pronouns() -> None:
    assert {place for path in sorted(PACKAGE.rglob("*.py")) for place in pronouns(path)} == LEFT


@pytest.mark.parametrize("line", ["def told(): ...", "def f(one): ...", "def f():\n    found = 1"])
def test_a_pronoun_is_noticed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "a.py").write_text(line, encoding="utf-8")
    assert len(list(pronouns(tmp_path / "a.py"))) == 1
