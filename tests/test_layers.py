"""Below the drivers nothing reads a clock, draws at random, does I/O, or computes with floats."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "ranksim"

PURE = [f"core/{part}" for part in ("clock.py", "draws.py", "contract", "rules", "service", "callers")]
INTEGER = ["core/clock.py", "core/rules", "core/service"]

IMPURE_MODULES = {
    "asyncio", "concurrent", "ctypes", "glob", "http", "httpx", "locust", "logging",
    "multiprocessing", "numba", "os", "pathlib", "random", "requests", "secrets", "shutil", "signal",
    "simpy", "socket", "sqlite3", "starlette", "subprocess", "tempfile", "threading", "time", "urllib3",
    "uuid",
}  # fmt: skip
IMPURE_CALLS = {"__import__", "breakpoint", "exec", "eval", "input", "open", "print"}
CLOCK_READERS = {"now", "today", "utcnow"}  # methods of datetime and date

# Files that may import what the others may not, each with its reason.
MAY_IMPORT = {
    "core/callers/programs/__init__.py": {
        "pathlib"
    },  # joins paths of recordings; records and trace read them
    "core/callers/programs/call_streams.py": {"pathlib"},  # the same
    "core/callers/programs/arriving.py": {"pathlib"},  # the same
    "core/contract/policy.py": {"pathlib"},  # reads and writes a policy as YAML
    "core/contract/yamlfile.py": {"pathlib"},  # the reader and writer that policies use
}
# Files that may compute with floats, each with its reason.
MAY_FLOAT = {
    "core/callers/arrivals.py": "gaps and shares are drawn as floats, and become integer instants at once",
    "core/callers/programs/calendars.py": "a share of keywords is churned",
    "core/callers/programs/call_streams.py": "weights and scales of streams",
    "core/callers/programs/poller.py": "an interval grows by a factor, and is rounded",
    "core/callers/programs/arriving.py": "weights of a mix",
    "core/callers/network.py": "shares of calls are lost",
    "core/callers/request_factory.py": "weights of a mix",
    "core/service/synthetic_data.py": "invented results are neither time nor money",
}


def files(*parts: str) -> list[str]:
    """The Python files below these parts of the package, as paths relative to it."""
    found = [
        path
        for part in parts
        for path in ([PACKAGE / part] if part.endswith(".py") else (PACKAGE / part).rglob("*.py"))
    ]
    return sorted(path.relative_to(PACKAGE).as_posix() for path in found)


def impurities(tree: ast.AST, allowed: set[str]) -> Iterator[str]:
    """Yield what reaches for the world: forbidden imports, wall clocks, built-in I/O."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                imported = {alias.name.split(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                imported = {module.split(".")[0]}
            case _:
                imported = set()
        for name in sorted(imported & IMPURE_MODULES - allowed):
            yield f"line {node.lineno}: imports {name}"
        match node:
            case ast.Attribute(
                value=ast.Name(id="datetime" | "date") | ast.Attribute(attr="datetime" | "date"), attr=attr
            ):
                if attr in CLOCK_READERS:
                    yield f"line {node.lineno}: reads the wall clock with {attr}()"
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield f"line {node.lineno}: calls {name}()"


def floats(tree: ast.AST) -> Iterator[str]:
    """Yield what is not integer arithmetic: float literals, true division, calls of float()."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=float() as value):
                yield f"line {node.lineno}: the float {value}"
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                yield f"line {node.lineno}: true division"
            case ast.Call(func=ast.Name(id="float")):
                yield f"line {node.lineno}: calls float()"


def parsed(name: str) -> ast.AST:
    return ast.parse((PACKAGE / name).read_text("utf-8"))


@pytest.mark.parametrize("name", files(*PURE))
def test_below_the_drivers_nothing_reaches_for_the_world(name: str) -> None:
    assert list(impurities(parsed(name), MAY_IMPORT.get(name, set()))) == []


@pytest.mark.parametrize("name", [name for name in files(*INTEGER) if name not in MAY_FLOAT])
def test_time_and_money_are_integers(name: str) -> None:
    assert list(floats(parsed(name))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "from random import random",
        "import os.path",
        "x = datetime.now()",
        "x = datetime.datetime.utcnow()",
        "x = datetime.date.today()",
        "open('x')",
    ],
)
def test_an_impurity_is_noticed(line: str) -> None:
    assert len(list(impurities(ast.parse(line), set()))) == 1


@pytest.mark.parametrize("line", ["x = 0.5", "x = 1e6", "x = a / b", "x /= 2", "x = float(a)"])
def test_a_float_is_noticed(line: str) -> None:
    assert len(list(floats(ast.parse(line)))) == 1


@pytest.mark.parametrize(
    "line", ["from ranksim.core.clock import DAY", "x = window.now", "x = a // b", "x = 10**6"]
)
def test_pure_integer_code_passes(line: str) -> None:
    assert [*impurities(ast.parse(line), set()), *floats(ast.parse(line))] == []


def test_every_exception_names_a_file_that_needs_it() -> None:
    for name, allowed in MAY_IMPORT.items():
        unused = [
            module for module in sorted(allowed) if not list(impurities(parsed(name), allowed - {module}))
        ]
        assert unused == [], f"{name} no longer needs them"
    assert [name for name in MAY_FLOAT if not list(floats(parsed(name)))] == []


# Other people's insides


def private_imports(tree: ast.Module) -> Iterator[str]:
    """Yield what is imported of other packages and begins with an underscore, but for type checkers."""
    checked = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING"
        for inner in outer.body
        for node in ast.walk(inner)
    }
    for node in ast.walk(tree):
        names = list[str]()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = [part for part in name.split(".") if part.startswith("_") and not part.startswith("__")]
            if parts and not name.startswith("ranksim") and id(node) not in checked:
                yield name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from pydantic._internal import a", ["pydantic._internal.a"]),
        ("import typer._click", ["typer._click"]),
        ("from __future__ import annotations\nimport json", []),
        ("if TYPE_CHECKING:\n    from pydantic._internal import a", []),
    ],
)
def test_private_imports_are_seen(text: str, found: list[str]) -> None:
    assert list(private_imports(ast.parse(text))) == found


def test_no_private_module_of_another_package_is_imported() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in private_imports(ast.parse(path.read_text("utf-8")))
    }
    assert not found
