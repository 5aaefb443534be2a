"""`ranksim explain`: every id that a report can show is told, and what it points at exists."""

from __future__ import annotations

import importlib
import json
import re

import pytest
from typer.testing import CliRunner

from ranksim import cli
from ranksim.conformance.compare import RULES
from ranksim.conformance.explain import Explanation, explain, names
from ranksim.contract.assumptions import ASSUMPTIONS, assumption
from ranksim.contract.facts import CHECK_OF
from ranksim.contract.views import QuotaMeta
from ranksim.service.errors import TEXTS

STATED = (
    [f"S{number}" for number in range(1, 116)]
    + [f"U{number}" for number in range(1, len(ASSUMPTIONS) + 1)]
    + [f"E{number}" for number in range(1, 51)]
    + [rule.name for rule in RULES]
    + [*TEXTS, *CHECK_OF]
)


def exists(place: str) -> bool:
    """Return whether a dotted place is a module, or something in one."""
    words = place.split(".")
    for length in range(len(words), 0, -1):
        try:
            found = importlib.import_module(".".join(words[:length]))
        except ModuleNotFoundError:
            continue
        for word in words[length:]:
            if not hasattr(found, word):
                return False
            found = getattr(found, word)
        return True
    return False


def test_every_id_is_told_and_decided_somewhere() -> None:
    for name in STATED:
        told = explain(name)
        assert told.name == name
        assert len(told.says) > 5, name
        assert told.decided, name
        assert name in names()


def test_what_decides_an_id_can_be_imported() -> None:
    places = {place for name in names() for place in explain(name).decided}
    missing = sorted(place for place in places if not exists(place))
    assert missing == []


def test_every_number_that_rules_name_is_told() -> None:
    for rule in RULES:
        for number in rule.facts:
            assert rule in explain(f"S{number}").rules
        for number in rule.assumptions:
            assert rule in explain(f"U{number}").rules


def lines(told: Explanation) -> dict[str, str]:
    return dict(told.lines)


def test_a_code_tells_its_status_its_check_and_its_meta() -> None:
    quota = lines(explain("quota_exhausted"))
    assert (quota["status"], quota["check"]) == ("402 (stated)", "4 of 6, quota")
    assert quota["meta"].split(", ") == list(QuotaMeta.__annotations__)
    assert lines(explain("cooldown_active"))["status"] == "409 (assumed, U23)"
    assert lines(explain("unauthorized"))["check"] == "none of the six"


@pytest.mark.parametrize(
    "code", ["cost_cap_reached", "slot_limit_exceeded", "cooldown_active", "rate_limited"]
)
def test_the_meta_of_a_code_is_what_the_assumption_says(code: str) -> None:
    said = assumption(7 if code == "rate_limited" else 26).default
    for name in lines(explain(code))["meta"].split(", "):
        assert re.search(rf"\b{name}\b", said), name


def test_letters_of_any_case_are_read_and_families_list_their_rules() -> None:
    assert explain("s105") == explain("S105")
    assert explain("Rate.Headers").name == "rate.headers"
    assert {rule.name for rule in explain("rate").rules} == {
        r.name for r in RULES if r.name.startswith("rate.")
    }


def test_the_command_prints_text_and_json() -> None:
    told = CliRunner().invoke(cli.app, ["explain", "S105", "rate.headers"])
    assert told.exit_code == 0
    assert "rate.headers" in told.stdout
    assert "ranksim.rules.windows.remaining" in told.stdout
    told = CliRunner().invoke(cli.app, ["explain", "E12", "--json"])
    assert [row["name"] for row in json.loads(told.stdout)] == ["E12"]


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("quota_exhasted", "quota_exhausted"),
        ("rate.header", "rate.headers"),
        ("S116", "S115"),
        ("", "expected"),
    ],
)
def test_an_unknown_id_is_bad_input_with_what_is_near(typed: str, near: str) -> None:
    told = CliRunner().invoke(cli.app, ["explain", typed])
    assert told.exit_code == 2
    assert near in told.stderr
