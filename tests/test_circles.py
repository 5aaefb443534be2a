"""No module needs, by any way round, one that needs it: imports for types and inside functions count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    paths = sorted((SOURCE / "ranksim").rglob("*.py"))
    parts = {path: path.relative_to(SOURCE).with_suffix("").parts for path in paths}
    return {".".join(names[:-1] if names[-1] == "__init__" else names): path for path, names in parts.items()}


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a file imports anywhere, `import_module("…")` included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    inner = f"{module}.{alias.name}"
                    yield inner if inner in known else module
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module))],
            ):
                yield module


def test_no_import_circle() -> None:
    known = modules()
    graph: TopologicalSorter[str] = TopologicalSorter()
    for name, path in known.items():
        if name != "ranksim":  # its public names are lazy
            for needed in imported(path, known):
                if needed in known and needed not in ("ranksim", name):
                    graph.add(name, needed)
    try:
        graph.prepare()
    except CycleError as error:
        circle = error.args[1]
        raise AssertionError("needs, each the one before: " + " → ".join(circle)) from None
