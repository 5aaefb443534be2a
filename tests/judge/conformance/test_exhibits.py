"""What evidence shows: the exchanges whole, without secrets, and what was found where the rule looks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.kit.traces import a_trace, call, created, error, hook

from ranksim.core.trace import Header, Trace, TraceKey
from ranksim.judge.conformance.compare import RULE_NAMED, RULES, compare, compare_all
from ranksim.judge.conformance.exhibits import (
    Exhibits,
    as_plain,
    attempt_as_plain,
    exhibits,
    found_in,
)
from ranksim.judge.conformance.following import causes
from ranksim.judge.conformance.report.as_dict import judgement_data
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally
from ranksim.judge.report.judgement import summary
from ranksim.judge.report.judgement_page import page
from ranksim.judge.report.junit import junit
from ranksim.report.terminal import rendered

LIMITS = {"RateLimit-Limit": "600", "RateLimit-Remaining": "599", "RateLimit-Reset": "12.5x"}


def trace() -> Trace:
    """Give a call whose header is no number, and an attempt whose signature is not valid."""
    sent = call("keywords.list", 0, 1, [], query={"limit": "2"}, headers=LIMITS)
    sent = sent.model_copy(update={"request_headers": {"Cookie": "session=1", "X-Request-Id": "r"}})
    return a_trace([sent, created(), hook(3, valid=False)])


def test_what_was_found_is_what_the_trace_says_there() -> None:
    judgement = compare(trace())
    whole = exhibits([trace()], judgement)
    [piece] = [one for one in judgement.finding("rate.headers").evidence if one.exchanges == ("x1",)]
    said = found_in(RULE_NAMED["rate.headers"], piece, whole)
    assert said == (
        "x1 was answered 200, RateLimit-Limit 600, RateLimit-Remaining 599, RateLimit-Reset 12.5x"
    )
    [piece] = judgement.finding("webhook.signature").evidence
    said = found_in(RULE_NAMED["webhook.signature"], piece, whole)
    assert said.startswith("attempt evt_1/1 was answered 200, Service-Signature t=")
    assert attempt_as_plain(whole.attempts["evt_1/1"][0])["status"] == 200


@pytest.mark.slow
def test_where_bytes_matter_bodies_stand_as_they_were_sent() -> None:
    body = '{"id":"evt_1",\n "é":1}'
    attempt = hook(3, valid=False).model_copy(update={"body": body})
    reply = call("keywords.list", 0, 1, [], headers={"Content-Type": "text/plain"})
    recorded = a_trace([reply, created(), attempt])
    judgement = judgement_data(compare(recorded), exhibits=exhibits([recorded], compare(recorded)))
    found = {rule["name"]: rule["evidence"][0]["found"] for rule in judgement["rules"] if rule["evidence"]}
    assert found["webhook.signature"].endswith(r"""body of 23 bytes '{"id":"evt_1",\n "é":1}'""")
    assert f"body of {len(reply.response or '')} bytes {reply.response!r}" in found["header.json"]
    for told in (page(judgement), junit(judgement), rendered(summary(judgement))):
        assert re.search(r"body of\s+23\s+bytes", told)
    longer = attempt.model_copy(update={"body": "x" * 5_000})
    piece = Evidence("", deliveries=("evt_1/1",))
    said = found_in(RULE_NAMED["webhook.signature"], piece, Exhibits(attempts={"evt_1/1": [longer]}))
    assert said.endswith(f"body of 5000 bytes '{'x' * 4_000}'…")


def test_a_request_that_matters_byte_by_byte_is_shown_so() -> None:
    sent = call("keywords.create", 0, 1, body={"text": "a"})
    rule, piece = RULE_NAMED["idempotency.mismatch"], Evidence("", ("x1",))
    said = found_in(rule, piece, Exhibits({"x1": sent}))
    assert said.endswith(f"sent a body of {len(sent.body or '')} bytes {sent.body!r}")
    unseen = sent.model_copy(update={"body": None})
    assert found_in(rule, piece, Exhibits({"x1": unseen})).endswith("sent a body that was not recorded")


def test_the_call_can_be_made_again_and_no_secret_is_shown() -> None:
    judgement = compare(trace())
    whole = exhibits([trace()], judgement)
    targets = {whole.exchanges["x1"].target: "https://api.example"}
    told = as_plain(whole.exchanges["x1"], Header(targets=targets))
    assert told["curl"].startswith("curl -i -X GET 'https://api.example/v1/keywords?limit=2'")
    assert "Bearer $RANKSIM_KEY" in told["curl"]
    named = {"main": TraceKey(variable="SRE_MAIN")}
    again = as_plain(whole.exchanges["x1"], Header(targets=targets, keys=named))
    assert '"Authorization: Bearer $SRE_MAIN"' in again["curl"]
    assert "session" not in json.dumps(told)


def test_exchanges_are_found_in_files_and_by_the_number_of_their_trace(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.jsonl" for name in "ab"]
    for path in paths:
        trace().write(path)
    judgement = compare_all(paths)
    whole = exhibits(paths, judgement)
    assert set(whole.exchanges) >= {"1/x1", "2/x1"}
    assert len(whole.attempts["evt_1/1"]) == 2
    lines = paths[0].read_text("utf-8").splitlines()
    assert "x1" in exhibits([lines], compare(lines)).exchanges


def test_every_rule_says_where_it_looks() -> None:
    assert [rule.name for rule in RULES if not rule.looks_at] == []


def test_every_evidence_tells_what_was_expected() -> None:
    refused = call("jobs.create", 0, 1, code="cooldown_active", status=409, body={"kind": "crawl"})
    wrong = refused.model_copy(update={"response": json.dumps(error("cooldown_active", 402))})
    [piece] = compare(a_trace([wrong])).finding("error.body").evidence
    assert piece.expected.startswith("status 409 in the body, and the fields type, title")


# One cause, one finding


def tally(*broken: tuple[str, str, str]) -> Tally:
    """Break rules: the name, the exchange, and what it is about."""
    told = Tally([RULE_NAMED[name] for name in dict.fromkeys(name for name, _, _ in broken)])
    for name, exchange, about in broken:
        told.broke(name, Evidence("no", (exchange,), about=about))
    return told


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ([("error.body", "x1", ""), ("guards.codes", "x1", "")], {"guards.codes": "error.body"}),
        ([("error.body", "x1", ""), ("guards.codes", "x1", ""), ("guards.codes", "x2", "")], {}),
        ([("error.body", "x1", ""), ("rate.headers", "x1", "")], {}),
        ([("rate.read", "x1", "main"), ("rate.remaining", "x2", "main")], {"rate.remaining": "rate.read"}),
        ([("rate.read", "x1", "main"), ("rate.remaining", "x1", "second")], {}),
        (
            [("rate.write", "x1", "key main, write calls"), ("rate.remaining", "x2", "key b, write calls")],
            {"rate.remaining": "rate.write"},
        ),
        (
            [("rate.write", "x1", "key main, write calls"), ("rate.remaining", "x2", "key main, read calls")],
            {},
        ),
        ([("rate.read", "x1", "main"), ("rate.write", "x2", "main")], {"rate.write": "rate.read"}),
        (
            [("dry_run.verdict", "x1", ""), ("dry_run.order", "x1", "")],
            {"dry_run.order": "dry_run.verdict"},
        ),
        (
            [
                ("rate.read", "x1", "key main, read calls"),
                ("rate.traffic_only", "x1", ""),
                ("rate.remaining", "x1", "key main, read calls"),
            ],
            {"rate.read": "rate.traffic_only", "rate.remaining": "rate.traffic_only"},
        ),
        (
            [("error.body", "x1", ""), ("quota.meta", "x1", ""), ("error.meta", "x1", "")],
            {"quota.meta": "error.body", "error.meta": "error.body"},
        ),
        (
            [
                ("dry_run.queues", "x1", "account a"),
                ("cost.counted", "x2", "account a"),
                ("dry_run.free", "x3", "account a"),
            ],
            {"cost.counted": "dry_run.queues", "dry_run.free": "dry_run.queues"},
        ),
        (
            [
                ("dry_run.queues", "x1", "account a"),
                ("cost.counted", "x2", "account a"),
                ("cost.counted", "x3", "account b"),
            ],
            {},
        ),
    ],
)
def test_a_finding_follows_where_each_of_its_instances_does(
    broken: list[tuple[str, str, str]], expected: dict[str, str]
) -> None:
    found = causes(tally(*broken).findings())
    assert {name: cause.rule for name, cause in found.items()} == expected


@pytest.mark.parametrize(
    ("live", "dry", "follows"),
    [
        (["before slots"], ["quota before slots"], True),
        (["before slots", "before cooldown"], ["quota before slots"], True),
        (["before cooldown"], ["quota before slots"], False),
        (["before slots"], ["quota before slots", "slots before cooldown"], False),
    ],
)
def test_dry_runs_that_are_out_of_order_follow_from_calls_that_are_in_the_same_pairs(
    live: list[str], dry: list[str], follows: bool
) -> None:
    told = Tally([RULE_NAMED[name] for name in ("guards.quota", "dry_run.order")])
    for number, case in enumerate(live):
        told.broke("guards.quota", Evidence("no", (f"x{number}",)), case=case)
    for number, case in enumerate(dry):
        told.broke("dry_run.order", Evidence("no", (f"y{number}",)), case=case)
    assert ("dry_run.order" in causes(told.findings())) == follows


def test_windows_that_admit_too_many_are_not_why_others_refuse_too_early() -> None:
    told = Tally([RULE_NAMED[name] for name in ("rate.read", "rate.write")])
    told.broke("rate.read", Evidence("601 calls were admitted", ("x1", "x601")))
    told.broke("rate.write", Evidence("refused", ("x2",)))
    assert causes(told.findings()) == {}


@pytest.mark.parametrize(
    ("says", "side", "follows"),
    [
        ("an admitted call is told RateLimit-Remaining 600 of 600", "no more", True),
        ("an admitted call is told RateLimit-Remaining 600 of 600", "no fewer", False),
        ("RateLimit-Remaining is 598 of 600: 2 were counted", "no more", False),
    ],
)
def test_a_limiter_that_counts_nothing_has_all_left_in_every_class(
    says: str, side: str, follows: bool
) -> None:
    told = Tally([RULE_NAMED[name] for name in ("rate.expensive", "rate.remaining")])
    beyond = Evidence("49 calls were admitted", ("x1", "x49"), about="key main, expensive calls")
    told.broke("rate.expensive", beyond, case=f"key main, {side}")
    told.broke("rate.remaining", Evidence(says, ("x9",), about="key main, read calls"))
    assert ("rate.remaining" in causes(told.findings())) == follows


@pytest.mark.parametrize(
    ("case", "expected"), [("expensive", {"rate.traffic_only": "rate.remaining"}), ("read", {})]
)
def test_a_refusal_is_told_what_every_call_of_its_class_is_told(case: str, expected: dict[str, str]) -> None:
    told = Tally([RULE_NAMED[name] for name in ("rate.remaining", "rate.traffic_only")])
    told.broke("rate.remaining", Evidence("20 of 20", ("x1",), about="key main, expensive calls"))
    told.broke("rate.traffic_only", Evidence("1 left", ("x9",), about="key main, jobs.create"), case=case)
    assert {name: cause.rule for name, cause in causes(told.findings()).items()} == expected


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("was 6, and it shows 5 (expected at least 6)", {"dry_run.free": "quota.counted"}),
        ("shows 1, but at most 0 can have been reached", {}),
    ],
)
def test_a_count_that_falls_short_is_why_it_rises_around_dry_runs(
    says: str, expected: dict[str, str]
) -> None:
    told = Tally([RULE_NAMED[name] for name in ("quota.counted", "dry_run.free")])
    told.broke("quota.counted", Evidence(says, ("x1", "x2"), about="account a"))
    told.broke("dry_run.free", Evidence("0 before, 1 after", ("x7", "x8", "x9"), about="account a"))
    assert {name: cause.rule for name, cause in causes(told.findings()).items()} == expected


def test_consequences_name_rules_and_lead_to_a_first_cause() -> None:
    paths = [((rule.name,), frozenset[str]()) for rule in RULES]
    while paths:
        path, whole = paths.pop()
        for cause in RULE_NAMED[path[-1]].follows:
            assert cause.rule in RULE_NAMED
            unbroken = whole.union(cause.unless)
            if unbroken.isdisjoint((*path, cause.rule)):
                assert cause.rule not in path
                paths.append(((*path, cause.rule), unbroken))
