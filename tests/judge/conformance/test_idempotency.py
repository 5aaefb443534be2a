"""One Idempotency-Key, one piece of work: what repetitions may be answered."""

from typing import Any

import pytest
from tests.kit.traces import DAY, START, Entry, call, found, judged, policy_of

from ranksim.core.trace import Note
from ranksim.judge.conformance.calls import idempotency

ONCE, REPLAY, MISMATCH = idempotency.ONCE, idempotency.REPLAY, idempotency.MISMATCH
REPLAYED = {"Idempotent-Replayed": "true"}
HOST = {"host": "a.example"}


def post(sent: float, received: float | None, made: str = "dom_1", **more: Any) -> Entry:
    """Create a domain under the key k, or be refused."""
    said = {"body": HOST, "once": "k", "data": {"id": made, "host": "a.example"}} | more
    return call("domains.create", sent, received, **said)


def again(sent: float, received: float | None, made: str = "dom_1", **more: Any) -> Entry:
    """Repeat it, marked as a replay."""
    return post(sent, received, made, headers=REPLAYED, **more)


def job(sent: float, received: float, code: str = "", **more: Any) -> Entry:
    data = None if code else {"id": "job_1"}
    request = {"body": {"kind": "crawl", "domain_id": "dom_1"}, "once": "k"} | more
    return call("jobs.create", sent, received, data, code=code, **request)


CRAWL = {"body": {"kind": "crawl", "domain_id": "dom_2"}}
OTHER = {"body": {"host": "b.example"}}
MISMATCHED = {"code": "idempotency_mismatch", "status": 422}
FULL = {"code": "slot_limit_exceeded"}
BUSY = {"code": "idempotency_in_progress"}

TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "the same work": (ONCE, [post(0, 1), again(2, 3)], "held"),
    "other work": (ONCE, [post(0, 1), again(2, 3, "dom_2")], "broken"),
    "other work by twins that overlap": (ONCE, [post(0, 3), again(1, 2, "dom_2")], "broken"),
    "other work after a lost one": (ONCE, [post(0, None), post(1, 2), again(3, 4, "dom_2")], "broken"),
    "other work just before the end of the day": (
        ONCE,
        [post(0, 1), again(DAY - 62, DAY - 61, "dom_2")],
        "broken",
    ),
    "other work about a day later": (ONCE, [post(0, 1), post(DAY - 30, DAY + 1, "dom_2")], "nothing"),
    "other work under another API key": (ONCE, [post(0, 1), post(2, 3, "dom_2", key="second")], "nothing"),
    "the work of before the run, and new": (
        ONCE,
        [again(0, 1), post(2, 3, "dom_2")],
        "nothing",
    ),
    "the same words": (REPLAY, [post(0, 1), again(2, 3)], "held"),
    "another status": (REPLAY, [post(0, 1, status=201), again(2, 3, status=200)], "broken"),
    "other words": (REPLAY, [post(0, 1), again(2, 3, data={"id": "dom_1", "host": "b"})], "broken"),
    "created, then already there": (
        REPLAY,
        [post(0, 1, data={"created": [{"id": "kw_1"}]}), again(2, 3, data={"created": []})],
        "broken",
    ),
    "created, then found there by work done again": (
        ONCE,
        [post(0, 1, data={"created": [{"id": "kw_1"}]}), again(2, 3, data={"created": []})],
        "broken",
    ),
    "nothing to create, twice": (
        ONCE,
        [post(0, 1, data={"created": []}), again(2, 3, data={"created": []})],
        "nothing",
    ),
    "no mark of a replay": (REPLAY, [post(0, 1), post(2, 3)], "differs 31"),
    "a success, then a refusal of the checks": (REPLAY, [job(0, 1), job(2, 3, "cooldown_active")], "broken"),
    "a success, and a refusal that may precede it": (
        REPLAY,
        [job(0, 3), job(2, 4, "cooldown_active")],
        "differs 29",  # a refusal that is stored is what the success would have repeated
    ),
    "a success, then a limit": (REPLAY, [job(0, 1), job(2, 3, "rate_limited", status=429)], "nothing"),
    "a refusal again": (REPLAY, [job(0, 1, "cooldown_active"), job(2, 3, "cooldown_active")], "held"),
    "a refusal, then a success": (REPLAY, [job(0, 1, "cooldown_active"), job(2, 3)], "differs 29"),
    "begun before the run": (REPLAY, [again(0, 1), again(2, 3)], "open"),
    "another body": (MISMATCH, [post(0, 1), post(2, 3, **OTHER, **MISMATCHED)], "held"),
    "another body that succeeds": (MISMATCH, [post(0, 1), post(2, 3, "dom_2", **OTHER)], "broken"),
    "another body that gets the first work": (MISMATCH, [post(0, 1), again(2, 3, **OTHER)], "broken"),
    "another body beside it": (MISMATCH, [post(0, 3), post(1, 2, "dom_2", **OTHER)], "broken"),
    "another body beside it, refused": (MISMATCH, [post(0, 3), post(1, 2, **OTHER, **MISMATCHED)], "held"),
    "a repetition is a mismatch after another body was": (
        MISMATCH,
        [post(0, 1), post(2, 3, **OTHER, **MISMATCHED), post(4, 5, **MISMATCHED)],
        "broken",
    ),
    "another body after a refusal": (
        MISMATCH,
        [job(0, 1, "quota_exhausted"), job(2, 3, **CRAWL)],
        "differs 29",
    ),
    "another body after two mismatches of it": (
        MISMATCH,
        [
            post(0, 9, **MISMATCHED),
            post(1, 2, **OTHER, **MISMATCHED),
            post(3, 4),
            post(5, 6, "dom_2", **OTHER),
        ],
        "broken",
    ),
    "other work under a body of false": (
        ONCE,
        [post(0, 1), again(2, 3, "dom_2", body=HOST | {"dry_run": False})],
        "broken",
    ),
    "a mismatch a day later, where the other body was refused as one": (
        MISMATCH,
        [post(0, 1), post(2, 3, **OTHER, **MISMATCHED), post(DAY, DAY + 1, **MISMATCHED)],
        "broken",
    ),
    "another body a day later": (MISMATCH, [post(0, 1), post(DAY, DAY + 1, "dom_2", **OTHER)], "nothing"),
    "dry_run false or absent": (
        MISMATCH,
        [post(0, 1), again(2, 3, body=HOST | {"dry_run": False})],
        "nothing",
    ),
    "dry run, then for real": (
        MISMATCH,
        [post(0, 1, body=HOST | {"dry_run": True}), post(2, 3)],
        "broken",
    ),
    "another path": (
        MISMATCH,
        [post(0, 1), call("labels.create", 2, 3, {"id": "lab_1"}, body=HOST, once="k")],
        "differs 28",
    ),
    "a mismatch of the same text": (MISMATCH, [post(0, 1), post(2, 3, **MISMATCHED)], "broken"),
    "a mismatch of permuted members": (
        MISMATCH,
        [post(0, 1), post(2, 3, raw='{ "host":"a.example"}', **MISMATCHED)],
        "differs 28",
    ),
    "a mismatch with another key's body": (
        MISMATCH,
        [post(0, 1, key="second", **OTHER), post(2, 3, **MISMATCHED)],
        "differs 27",
    ),
    "a mismatch with another account's body": (
        MISMATCH,
        [post(0, 1, key="other", **OTHER), post(2, 3), post(4, 5, **MISMATCHED)],
        "broken",
    ),
    "a mismatch out of the blue": (MISMATCH, [post(0, 1, **MISMATCHED), post(2, 3, **MISMATCHED)], "open"),
    "in flight beside its twin": (idempotency.IN_FLIGHT, [post(0, 3), post(1, 2, **BUSY)], "held"),
    "in flight after a lost twin": (idempotency.IN_FLIGHT, [post(0, None), post(9, 10, **BUSY)], "held"),
    "in flight just after its twin": (idempotency.IN_FLIGHT, [post(0, 1), post(1.5, 2, **BUSY)], "open"),
    "in flight long after its twin": (idempotency.IN_FLIGHT, [post(0, 1), post(3, 4, **BUSY)], "broken"),
    "in flight after a call that never was": (
        idempotency.IN_FLIGHT,
        [post(0, None, effect="none"), post(3, 4, **BUSY)],
        "broken",
    ),
    "forgotten after a day": (
        idempotency.RETENTION,
        [post(0, 1), post(DAY + 90, DAY + 91, "dom_2")],
        "held",
    ),
    "remembered after a day": (idempotency.RETENTION, [post(0, 1), again(DAY + 90, DAY + 91)], "broken"),
    "remembered about a day": (idempotency.RETENTION, [post(0, 1), again(DAY, DAY + 1)], "nothing"),
}


@pytest.mark.fact("S28", "S47", "S48", "S111", "E1", "E2", "E3", "E4", "E5", "E6", "E7")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_repetitions(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(idempotency, entries), rule) == expected


@pytest.mark.parametrize(
    ("pinned", "rule", "entries"),
    [
        ({"idempotency_stores": "all"}, REPLAY, [job(0, 1, "quota_exhausted"), job(2, 3)]),
        ({"replay_header": "Idempotent-Replayed"}, REPLAY, [post(0, 1), post(2, 3)]),
        (
            {"fingerprint": "canonical"},
            MISMATCH,
            [post(0, 1), post(2, 3, raw='{ "host":"a.example"}', **MISMATCHED)],
        ),
    ],
)
def test_what_a_policy_pins_is_a_deviation(pinned: dict[str, Any], rule: str, entries: list[Entry]) -> None:
    assert found(judged(idempotency, entries, policy_of(**pinned)), rule) == "broken"


@pytest.mark.parametrize(
    ("rule", "entries", "case"),
    [
        (REPLAY, [job(0, 1), job(2, 3, "cooldown_active")], "jobs.create"),
        (MISMATCH, [post(0, 1, body=HOST | {"dry_run": True}), post(2, 3)], "dry, then for real"),
        (MISMATCH, [post(0, 1), post(2, 3, "dom_2", **OTHER)], "domains.create"),
        (MISMATCH, [post(0, 1), post(2, 3, **MISMATCHED)], "domains.create"),
    ],
)
def test_what_is_broken_is_the_case_that_would_have_held(rule: str, entries: list[Entry], case: str) -> None:
    [finding] = [one for one in judged(idempotency, entries).findings() if one.rule.name == rule]
    assert [one.name for one in finding.cases if one.broken] == [case]


def test_other_work_by_a_mutation_excludes_that_the_key_is_honoured() -> None:
    one = call(
        "domains.create", 0, 1, surface="graphql", body=HOST, once="k", reply={"data": {"x": {"id": "a"}}}
    )
    two = call(
        "domains.create", 2, 3, surface="graphql", body=HOST, once="k", reply={"data": {"x": {"id": "b"}}}
    )
    assert found(judged(idempotency, [one, two]), ONCE) == "differs 33"


def test_under_scaled_time_the_day_is_shorter() -> None:
    note = Note.model_validate({"t": START, "business": START, "rate": 60})
    entries = [note, post(0, 1), again(DAY // 60 + 9, DAY // 60 + 10)]
    assert found(judged(idempotency, entries), idempotency.RETENTION) == "broken"


@pytest.mark.fact("S47", "U29")
def test_what_a_refusal_excludes_does_not_hide_work_done_twice() -> None:
    """Refusals are not stored here, so that the key is for the first success."""
    tally = judged(idempotency, [post(0, 1, **FULL), post(2, 3), post(4, 5, "dom_2")])
    assert [one.number for one in tally.differences] == [29, 31]
    assert found(tally, ONCE) == "broken"


@pytest.mark.fact("S47")
def test_work_done_again_and_again_is_one_finding_until_it_begins_anew() -> None:
    tally = judged(idempotency, [post(0, 1), *(again(2 * n, 2 * n + 1, "dom_2") for n in range(1, 4))])
    [finding] = [one for one in tally.findings() if one.rule.name == ONCE]
    assert (finding.broken, finding.evidence[0].exchanges) == (1, ("x1", "x2"))


def crowd(**last: Any) -> list[Entry]:
    """A thousand twins that meet, of which the last may differ."""
    twins = [post(number / 1000, 5 + number / 1000) for number in range(999)]
    return [*twins, post(0.999, 5.999, **last)]


@pytest.mark.fact("E7")
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (crowd(), "held"),
        (crowd(made="dom_2"), "broken"),
        ([post(n / 1000, 5 + n / 1000, f"dom_{n}") for n in range(1000)], "open"),
    ],
)
def test_a_thousand_twins_that_meet(entries: list[Entry], expected: str) -> None:
    tally = judged(idempotency, entries)
    if expected == "open":
        [finding] = [one for one in tally.findings() if one.rule.name == REPLAY]
        assert finding.reasons[0][0] == "too many calls met at once to tell"
    else:
        assert found(tally, ONCE) == expected


def test_evidence_is_the_pair() -> None:
    tally = judged(idempotency, [post(0, 1), again(2, 3, "dom_2")])
    [finding] = [finding for finding in tally.findings() if finding.rule.name == ONCE]
    assert finding.evidence[0].exchanges == ("x1", "x2")
    assert "dom_1 and dom_2" in finding.evidence[0].says


@pytest.mark.fact("S47")
def test_a_twin_that_was_refused_while_the_first_was_in_flight_did_no_work() -> None:
    for refused, met in ((again(1, 2, **BUSY), True), (again(4, 5, **BUSY), False)):
        finding = next(
            one for one in judged(idempotency, [post(0, 3), refused]).findings() if one.rule.name == ONCE
        )
        held = [case.name for case in finding.cases if case.held]
        assert (f"domains.create{idempotency.AT_ONCE}" in held) == met
