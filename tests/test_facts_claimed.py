"""Every fact (S) and edge case (E) of the specification is claimed by a test.

The claims are read from the sources, so the answer does not depend on which tests are selected.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REQUIRED = [f"S{n}" for n in range(1, 116)] + [f"E{n}" for n in range(1, 51)]

# What no test of ours can show, each with its reason.
EXCLUDED = {
    "S113": "a promise about additions that are not announced; nothing of it can be seen from outside",
}


def claims(source: str) -> Iterator[str]:
    """Yield the numbers in `pytest.mark.fact(...)`, wherever it stands: decorator, pytestmark or marks."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fact":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value
                else:
                    raise ValueError(f"line {node.lineno}: a fact number must be written as a plain string")


@cache
def claimed() -> set[str]:
    files = [path for folder in ("tests", "scenarios") for path in (ROOT / folder).rglob("*.py")]
    sources = [path.read_text("utf-8") for path in files if path != Path(__file__)]
    return {number for source in sources if ".fact(" in source for number in claims(source)}


def test_every_fact_and_edge_case_is_claimed() -> None:
    known = claimed() | set(EXCLUDED)
    missing = [number for number in REQUIRED if number not in known]
    assert not missing, f"{len(missing)} claimed by no test: {' '.join(missing)}"


def test_few_facts_are_excluded_and_none_of_them_is_claimed() -> None:
    assert len(EXCLUDED) <= 10
    assert set(EXCLUDED) <= set(REQUIRED)
    assert not set(EXCLUDED) & claimed()


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ("@pytest.mark.fact('S1', 'E2')\ndef test(): ...", ["S1", "E2"]),
        ("pytestmark = [pytest.mark.heavy, pytest.mark.fact('S3')]", ["S3"]),
        ("pytest.param(1, marks=pytest.mark.fact('S4'))", ["S4"]),
        ("# pytest.mark.fact('S5')", []),
    ],
)
def test_claims_are_found_wherever_they_stand(source: str, numbers: list[str]) -> None:
    assert list(claims(source)) == numbers


def test_a_computed_claim_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1: a fact number must be written as a plain string"):
        list(claims("pytest.mark.fact(f'S{n}')"))
