"""`ranksim explain`: every id that a report can show is told, and what it points at exists."""

from __future__ import annotations

import importlib
import json
import re
from functools import cache

import pytest
from typer.testing import CliRunner

from ranksim import cli
from ranksim.core.contract.facts import CHECK_OF, EVENT_TYPES
from ranksim.core.contract.register import assumption, register
from ranksim.core.contract.views import QuotaMeta
from ranksim.core.errors import BadInput
from ranksim.core.service.errors import TEXTS
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.compare import RULES, compare
from ranksim.judge.conformance.exhibits import exhibits
from ranksim.judge.conformance.explain import Explanation, explain, names
from ranksim.judge.conformance.report.as_dict import judgement_data
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.ways import ways, ways_page
from ranksim.judge.report.judgement_page import page
from ranksim.judge.report.junit import junit

STATED = (
    [f"S{number}" for number in range(1, 116)]
    + [f"U{number}" for number in range(1, len(register()) + 1)]
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


def test_a_setting_of_a_policy_is_told_as_its_assumption() -> None:
    assert explain("window").name == "U1"
    with pytest.raises(BadInput, match="near it are window"):
        explain("windw")


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


@pytest.mark.slow
def test_what_is_told_as_judged_is_told_here() -> None:
    """Every way to break a fact or to choose otherwise, as the page has it, with its case or why none can."""
    for way in ways():
        told = explain(way.of).text()
        assert "no rule of its own" not in told
        assert f"    {way.says}: {way.rule or f'not seen: {way.why}'}" in told
        assert way.case in told or way.case == ANY or not way.rule
    assert "a page has more than 200: paging.limit, keywords.list, largest" in explain("S43").text()
    assert "calls over GraphQL do not count for rate windows: assumption differs, U11" in explain("S4").text()
    assert "page_limit_over: refuse: assumption differs\n" in explain("U34").text()


def test_codes_and_edge_cases_have_the_cases_of_rules() -> None:
    by_name = {rule.name: rule for rule in RULES}
    assert "guards.codes, quota_exhausted" in explain("quota_exhausted").text()
    assert "    idempotency.mismatch, dry, then for real\n" in explain("E1").text()
    assert "    dry_run.order, capability before subscription; " in explain("E12").text()
    assert "no rule of its own" in explain("E46").text()
    for name in (f"E{number}" for number in range(1, 51)):
        for way in explain(name).ways:
            assert set(way.case.split("; ")) <= set(by_name[way.rule].cases), name


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
    assert "ranksim.core.rules.windows.remaining" in told.stdout
    told = CliRunner().invoke(cli.app, ["explain", "E12", "--json"])
    assert [row["name"] for row in json.loads(told.stdout)["tables"]["explained"]] == ["E12"]


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


# What reports show


@cache
def reports() -> dict[str, str]:
    """Give a text of each kind of report that names ids."""
    trace = [
        json.dumps({"ranksim_trace": 1, "keys": {"main": {"account": "acme"}}, "exclusive": True}),
        *(
            json.dumps(
                {
                    "kind": "exchange",
                    "id": f"x{number}",
                    "sent": number * 1_000_000,
                    "received": number * 1_000_000 + 5_000,
                    "api_key": "main",
                    "operations": ["jobs.create"],
                    "method": "POST",
                    "path": "/v1/jobs",
                    "status": 409,
                    "body": '{"kind": "crawl", "domain_id": "d"}',
                    "response": json.dumps({"code": code, "status": 402, "meta": {}}),
                }
            )
            for number, code in enumerate([*CHECK_OF, "rate_limited", "not_found"])
        ),
    ]
    judgement = compare(trace)
    found = judgement_data(judgement, trace="run.jsonl", exhibits=exhibits([trace], judgement))
    listed = CliRunner().invoke(cli.app, ["compare", "--rules"]).stdout
    assumed = CliRunner().invoke(cli.app, ["explain", "assumptions"]).stdout
    return {
        "page": page(found),
        "junit": junit(found),
        "json": json.dumps(found),
        "rules": listed,
        "assumptions": assumed,
        "what is judged": ways_page(),
        "calibration": calibrate(trace).dump(),
    }


FAMILIES_OF_RULES = "|".join(dict.fromkeys(rule.name.partition(".")[0] for rule in RULES))
A_RULE = re.compile(rf"(?<![\w./-])(?:{FAMILIES_OF_RULES})\.[a-z_]+\b(?!\.)")
A_NUMBER = re.compile(r"(?<![\w/-])[SUE][0-9]{1,3}(?![\w.-])")
A_CODE = re.compile(r'"code": "(\w+)"')
OF_THE_API = frozenset({*OPERATIONS, *EVENT_TYPES})
"""Names of the API itself, which look like rules."""


@pytest.mark.parametrize("name", reports())
def test_every_id_in_a_report_is_told(name: str) -> None:
    text = reports()[name]
    ids = set(A_NUMBER.findall(text)) | set(A_RULE.findall(text)) | set(A_CODE.findall(text))
    ids -= OF_THE_API
    assert ids or name == "calibration"
    for one in ids:
        assert explain(one).name == one
