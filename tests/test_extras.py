"""Errors that ask for a library name the lines that install it; its extra has it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from ranksim import cli
from ranksim.core import extras
from ranksim.core.errors import BadInput

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "ranksim"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
CALLS = {"install_line", "missing", "imported"}


def asked() -> Iterator[tuple[str, str, list[str]]]:
    """Each call of `ranksim.core.extras` in the package: where, the function, its arguments."""
    for path in sorted(SOURCES.rglob("*.py")):
        if path.name == "extras.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name), args=args) if name in CALLS:
                    words = [str(a.value) if isinstance(a, ast.Constant) else ast.unparse(a) for a in args]
                    yield f"{path.relative_to(SOURCES)}:{node.lineno}", name, words


def test_the_message_says_what_is_needed_and_the_line_that_installs_it() -> None:
    assert str(extras.missing("plots need matplotlib", "plots")) == (
        "plots need matplotlib, which is not installed; "
        "pip install matplotlib pandas pyarrow (in a checkout: pip install -c constraints.txt '.[plots]')"
    )


def test_libraries_are_those_of_the_extra_by_name() -> None:
    assert extras.libraries("plots") == ["matplotlib", "pandas", "pyarrow"]
    assert {"uvicorn", "httpx", "uvloop"} <= set(extras.libraries("server"))
    assert extras.libraries("notebook") == ["ipykernel"]


def test_what_is_not_installed_at_all_names_the_line_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", requires)
    assert extras.install_line("study") == "(in a checkout: pip install -c constraints.txt '.[study]')"


def test_what_is_there_is_imported_and_what_is_not_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extras.imported("json", "nothing needs JSON", "plots").loads("1") == 1
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(BadInput, match=r"^Sobol needs SciPy, which is not installed; .* '\.\[study\]'\)$"):
        extras.imported("scipy", "Sobol needs SciPy", "study")


@pytest.mark.slow
def test_every_error_asks_for_an_extra_that_brings_its_library() -> None:
    found = list(asked())
    assert {where.split(":")[0] for where, _, _ in found} >= {
        "cli.py",
        "core/trace.py",
        "twin/sim/results.py",
    }
    for where, name, words in found:
        extra = words[-1]
        assert extra in EXTRAS, where
        if name == "imported":
            module = words[0].split(".")[0]
            assert any(re.match(rf"{module}\b", one) for one in EXTRAS[extra]), where
            assert module.casefold() in words[1].casefold(), where


def test_no_message_or_page_names_a_distribution_that_no_index_has() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *SOURCES.rglob("*.py"),
    ]
    assert [str(page) for page in pages if re.search(r"ranksim\[\w", page.read_text("utf-8"))] == []


@pytest.mark.parametrize("module", ["httptools", "uvicorn"])
def test_serve_names_its_extra(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "argv", ["ranksim", "serve", "--port", "0"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"ranksim: {extras.missing(f'serving needs {module}', 'server')}\n"
