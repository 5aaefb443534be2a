"""Mutants: the rule behind each fact of the table is broken, and a test that claims the fact must fail.

    python -m pytest -m mutants tests/mutants

Every mutant is applied to a copy of src and tests, and only tests below the drivers that claim its fact run.
Results are kept in `.cache/mutants/results.jsonl` (or the folder RANKSIM_MUTANTS_CACHE names) under a digest
of the mutation and all that could change its result: a run that was interrupted goes on where it stopped.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

pytestmark = pytest.mark.mutants

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("RANKSIM_MUTANTS_CACHE", ROOT / ".cache" / "mutants"))
FEWEST_FACTS = 60
FOLDERS = ("contract", "rules", "service")
"""Where the tests that must notice stand: with the rules, below the drivers."""
SELECTED = "not heavy and not mutants and not compiled and not browser"
"""Slow tests are among those that must notice."""
PASSED, FAILED = 0, 1
"""Exit codes of pytest; others say that it could not run."""


@dataclass(frozen=True)
class Mutant:
    """Break the rule behind a fact: in `file`, below src/ranksim, `old` becomes `new`."""

    fact: str
    file: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Give the text of the file with the mutation."""
        assert text.count(self.old) == 1, f"{self.file} has {text.count(self.old)} times {self.old!r}"
        return text.replace(self.old, self.new)


def table() -> list[Mutant]:
    rows = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))
    return [Mutant(**row) for row in rows["mutant"]]


MUTANTS = table()
FACTS = {mutant.fact for mutant in MUTANTS}


def name_of(mutant: Mutant) -> str:
    return f"{mutant.fact}-{Path(mutant.file).stem}"


def claims(path: Path) -> set[str]:
    """Read the facts that the tests of a file claim."""
    return {
        argument.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fact"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


@cache
def claimed(workshop: Path) -> dict[Path, set[str]]:
    paths = [path for folder in FOLDERS for path in (workshop / "tests" / folder).glob("test_*.py")]
    return {path: claims(path) for path in sorted(paths)}


def files_claiming(workshop: Path, facts: set[str]) -> list[Path]:
    return [path for path, found in claimed(workshop).items() if facts & found]


# Results


def digest(workshop: Path, facts: set[str], mutation: str) -> str:
    """Digest a mutation with everything that could change what becomes of it."""
    parts = [*sorted(facts), mutation, (workshop / "pyproject.toml").read_text(encoding="utf-8")]
    sources = [path for path in (workshop / "src").rglob("*") if path.suffix in (".py", ".yaml")]
    shared = [*(workshop / "tests").rglob("conftest.py"), *(workshop / "tests" / "kit").rglob("*.py")]
    tests = [*shared, *files_claiming(workshop, facts)]
    for path in sorted({*sources, *tests}):
        parts += [str(path.relative_to(workshop)), path.read_text(encoding="utf-8")]
    return sha256("\0".join(parts).encode()).hexdigest()


def known() -> dict[str, int]:
    """Read the exit codes of earlier runs."""
    path = CACHE / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return {row["digest"]: row["exit"] for row in rows}


def note(facts: set[str], key: str, code: int) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", encoding="utf-8")
    with (CACHE / "results.jsonl").open("a", encoding="utf-8") as results:
        results.write(json.dumps({"facts": sorted(facts), "digest": key, "exit": code}) + "\n")


# Running


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of src and tests that mutants may break."""
    copy = tmp_path_factory.mktemp("mutants")
    for folder in "src", "tests":
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "mutants"))
    shutil.copy2(ROOT / "pyproject.toml", copy)
    yield copy
    shutil.rmtree(copy)


def run_tests(workshop: Path, facts: set[str], *, write_bytecode: bool) -> tuple[int, str]:
    """Run the tests that claim some facts against the copy, up to the first that fails."""
    environment = os.environ | {"PYTHONPATH": str(workshop / "src"), "CI": "1"}
    if not write_bytecode:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", SELECTED]
    options += [f"--fact={fact}" for fact in sorted(facts)]
    files = [str(path) for path in files_claiming(workshop, facts)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=workshop,
        env=environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout[-2_000:] + done.stderr[-2_000:]


def outcome(workshop: Path, facts: set[str], mutant: Mutant | None = None) -> tuple[int, str]:
    """Give the exit code of the tests, from an earlier run if nothing has changed since."""
    key = digest(workshop, facts, repr(mutant))
    earlier = known().get(key)
    if earlier is not None:
        return earlier, "known from an earlier run"
    if mutant is None:
        code, output = run_tests(workshop, facts, write_bytecode=True)
    else:
        with applied(workshop, mutant):
            code, output = run_tests(workshop, facts, write_bytecode=False)
    if code == PASSED or (code == FAILED and mutant is not None):
        note(facts, key, code)
    return code, output


@contextmanager
def applied(workshop: Path, mutant: Mutant) -> Iterator[None]:
    """Break the copy, and mend it again: with its old time of change, which its bytecode goes by."""
    path = workshop / "src" / "ranksim" / mutant.file
    before, text = path.stat(), path.read_text(encoding="utf-8")
    path.write_text(mutant.apply(text), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_the_table_covers_many_facts() -> None:
    assert len(FACTS) >= FEWEST_FACTS
    assert len(set(MUTANTS)) == len(MUTANTS)


def test_all_is_well_before_anything_is_broken(workshop: Path) -> None:
    unclaimed = [fact for fact in sorted(FACTS) if not files_claiming(workshop, {fact})]
    assert not unclaimed
    code, output = outcome(workshop, FACTS)
    assert code == PASSED, output


@pytest.mark.parametrize("mutant", MUTANTS, ids=name_of)
def test_a_test_that_claims_the_fact_notices(workshop: Path, mutant: Mutant) -> None:
    code, output = outcome(workshop, {mutant.fact}, mutant)
    assert code == FAILED, f"exit code {code}: {mutant}\n{output}"
