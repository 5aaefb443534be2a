"""What a trace does not say is held against nobody: every judge against each kind of it.

Conforming rehearsals lose, in some exchanges or in all, what a recorder may not have known; nothing deviates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from tests.judge.conformance.test_soundness import NETWORKS, Run
from tests.kit import spending

from ranksim.bridges.rehearsal import rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.clock import SECOND
from ranksim.core.errors import BadInput
from ranksim.core.trace import Exchange, Header, Trace, TraceKey, as_line
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.report.as_dict import judgement_data
from ranksim.judge.profiles import profile

Less = Callable[[Exchange], dict[str, Any]]
"""What an exchange would say, had something of it not been recorded."""


def lost(exchange: Exchange) -> dict[str, Any]:
    return {"received": None, "status": None, "response_headers": {}, "response": "", "effect": "unknown"}


def cut(exchange: Exchange) -> dict[str, Any]:
    return {"response": (exchange.response or "")[: len(exchange.response or "") // 2]}


def lost_document(exchange: Exchange) -> dict[str, Any]:
    return {"operations": (), "body": "", **lost(exchange)} if exchange.surface == "graphql" else {}


def unless_lost(**fields: Any) -> Less:
    return lambda exchange: {} if exchange.status is None else fields


LESS: dict[str, Less] = {
    "the headers of replies": unless_lost(response_headers=None),
    "the bodies of replies": unless_lost(response=None),
    "the whole reply but its status": unless_lost(response_headers=None, response=None),
    "the reply": lost,
    "the headers of requests": lambda exchange: {"request_headers": None},
    "the bodies of requests": lambda exchange: {"body": None},
    "the queries": lambda exchange: {"query": None},
    "the operations": lambda exchange: {"operations": ()},
    "the operations and the reply": lambda exchange: {"operations": (), **lost(exchange)},
    "GraphQL documents and their replies": lost_document,
    "the operations and the headers": lambda exchange: {"operations": (), "response_headers": None},
    "the keys": lambda exchange: {"api_key": ""},
}
"""By what is not recorded: what is left of an exchange."""

KEPT = ("x-request-id", "ratelimit-limit", "date")
"""The headers that some recorders keep."""


def without(trace: Trace, less: Less, share: float, draw: Random) -> Trace:
    some = [one.model_copy(update=less(one)) if draw.random() < share else one for one in trace.exchanges]
    return Trace(trace.header, some, trace.deliveries, trace.notes)


CUT = "with replies that break off"

NO_JSON = frozenset({"header.json", "error.body", "guards.codes"})
"""What a reply that is no JSON breaks, which a trace says of it where it was cut."""


def of_few_headers(trace: Trace) -> Trace:
    header = trace.header.model_copy(update={"response_headers": KEPT})
    some = [
        one.model_copy(
            update={
                "response_headers": {
                    k: v for k, v in (one.response_headers or {}).items() if k.lower() in KEPT
                }
            }
        )
        for one in trace.exchanges
    ]
    return Trace(header, some, trace.deliveries, trace.notes)


def of_unknown_accounts(trace: Trace) -> Trace:
    keys = {name: key.model_copy(update={"account": ""}) for name, key in trace.header.keys.items()}
    return Trace(
        trace.header.model_copy(update={"keys": keys}), trace.exchanges, trace.deliveries, trace.notes
    )


def written_twice(trace: Trace, share: float, draw: Random) -> Iterator[str]:
    """The lines of a trace, some of them twice."""
    entries = [trace.header, *trace.exchanges, *trace.deliveries, *trace.notes]
    for entry in entries:
        line = as_line(entry.model_dump())
        yield line
        if draw.random() < share and not isinstance(entry, Header):
            yield line


def variants(trace: Trace, seed: int) -> Iterator[tuple[str, Trace | list[str]]]:
    """What a recording would be, had it recorded less."""
    for name, less in LESS.items():
        for share in (0.05, 0.4, 1.0):
            yield f"without {name}, {share:.0%}", without(trace, less, share, Random(f"{name}/{seed}"))
    for share in (0.05, 1.0):
        yield f"{CUT}, {share:.0%}", without(trace, cut, share, Random(f"cut/{seed}"))
    yield "of few headers", of_few_headers(trace)
    yield "of unknown accounts", of_unknown_accounts(trace)
    for share in (0.05, 0.3):
        yield f"written twice, {share:.0%}", list(written_twice(trace, share, Random(seed)))


def alarms(run: Run) -> list[str]:
    service, target = make_world(run.policy(), run.seed)
    trace = rehearse(
        profile(run.profile),
        service,
        target,
        users=run.users,
        duration=90 * SECOND,
        seed=run.seed,
        network=NETWORKS[run.network],
    )
    return [
        f"{run} {what}: {finding.rule.name}: {finding.evidence[0].says}"
        for what, source in (("whole", trace), *variants(trace, run.seed))
        for finding in compare(source).deviating
        if not (what.startswith(CUT) and finding.rule.name in NO_JSON)
    ]


RUNS = [
    Run("everyday", "first_hit", "usual", 2, 61_001, odds=50),
    Run("breadth", "clock", "slow-there", None, 61_002, odds=50),
    Run("retry", "sliding_log", "lossy", 3, 61_003, odds=4),
    Run("race", "sliding_counter", "usual", None, 61_004, odds=50),
    Run("scope", "gcra", "usual", None, 61_005, odds=4),
    Run("burst", "first_hit", "slow-back", None, 61_006, odds=50),
    Run("ladder", "first_hit", "usual", None, 61_007, odds=10),
    Run("webhooks", "clock", "usual", None, 61_008, odds=4),
    Run("smoke", "first_hit", "lossy", None, 61_009, odds=4),
    Run("walk", "gcra", "slow-back", None, 61_010, odds=50),
]


IN_THE_GATE = ("race", "webhooks", "smoke", "walk")
"""Profiles whose variants take seconds; those of the others take minutes in all."""


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, marks=pytest.mark.slow if run.profile in IN_THE_GATE else pytest.mark.heavy)
        for run in RUNS
    ],
    ids=str,
)
def test_what_is_not_recorded_is_held_against_nobody(run: Run) -> None:
    assert alarms(run) == []


# By hand


def read(at: float, left: int, **fields: Any) -> Exchange:
    headers = {"RateLimit-Limit": "600", "RateLimit-Remaining": str(left), "RateLimit-Reset": "60"}
    made = spending.call(
        at, "labels.list", [], more={"has_more": False, "next_cursor": None}, headers=headers
    )
    return made.model_copy(update=fields)


def a_trace(*exchanges: Exchange, kept: tuple[str, ...] | None = ("date",)) -> Trace:
    header = Header(keys={"main": TraceKey(account="acme")}, exclusive=True, response_headers=kept)
    return Trace(header, list(exchanges))


LIMITS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


def deviating(trace: Trace | list[str]) -> list[str]:
    return [finding.rule.name for finding in compare(trace).deviating]


GRAPHQL = {
    "surface": "graphql",
    "method": "POST",
    "path": "/graphql",
    "operations": (),
    "received": None,
    "status": None,
    "response": "",
    "response_headers": {},
}


@pytest.mark.fact("S105")
@pytest.mark.parametrize(
    ("fields", "deviates"),
    [
        (GRAPHQL | {"body": '{"query": "{ me { id } }"}'}, False),
        (GRAPHQL | {"body": ""}, False),
        (GRAPHQL | {"body": None}, False),
        (GRAPHQL | {"operations": ("labels.list",), "body": '{"query": "{ labels { id } }"}'}, False),
        (GRAPHQL | {"operations": ("domains.create",), "body": '{"query": "mutation { m }"}'}, True),
        ({"status": None, "received": None, "path": "/v1/unheard-of", "operations": ()}, False),
        ({"status": None, "received": None, "api_key": ""}, False),
        ({"effect": "none", "status": None, "received": None}, True),
    ],
)
def test_a_lost_call_of_an_unknown_operation_may_count_in_any_window(
    fields: dict[str, Any], deviates: bool
) -> None:
    between = read(2, 0, **fields)
    found = deviating(a_trace(read(0, 599), read(1, 598), between, read(3, 596), kept=LIMITS))
    assert ("rate.remaining" in found) == deviates


@pytest.mark.fact("S60")
@pytest.mark.parametrize(
    "fields",
    [
        {"surface": "app", "api_key": None, "account": "acme", "path": "/app/briefs", "operations": ()},
        {"path": "/v1/everything-at-once", "operations": ()},
        {"path": "/v1/everything-at-once", "operations": (), "status": None, "received": None},
        {"api_key": "", "operations": ()},
        {"body": None},
    ],
)
def test_what_an_unknown_write_did_is_no_miscount(fields: dict[str, Any]) -> None:
    write = spending.call(10, "labels.create", {"id": "l1"}, body={"name": "n"}).model_copy(update=fields)
    trace = a_trace(spending.usage(0, 0), write, spending.usage(20, 3))
    assert deviating(trace) == []
    assert "quota.counted" in deviating(a_trace(spending.usage(0, 0), spending.usage(20, 3)))


def logged(at: float, status: int = 200, **fields: Any) -> dict[str, Any]:
    """A line that a gateway's log is made into: of headers and bodies it has nothing."""
    sent = round((1_000_000 + at) * SECOND)
    line = {
        "kind": "exchange",
        "id": f"log{at}",
        "sent": sent,
        "received": sent + 10_000,
        "operations": [],
        "method": "GET",
        "path": "/v1/domains",
        "status": status,
    }
    return line | fields


@pytest.mark.parametrize("key", [{}, {"api_key": "main"}])
def test_a_log_without_headers_and_bodies_accuses_nobody(key: dict[str, Any]) -> None:
    header = {"ranksim_trace": 1, "keys": {"main": {"account": "acme"}}, "exclusive": True}
    calls = [logged(at, status, **key) for at, status in enumerate((200, 404, 401, 429, 200, 402, 500, 503))]
    calls += [logged(at, 201, method="POST", path="/v1/jobs", **key) for at in range(20, 60)]
    judgement = compare([json.dumps(line) for line in (header, *calls)])
    assert [finding.rule.name for finding in judgement.deviating] == []


@pytest.mark.fact("S102")
def test_statuses_and_limits_alone_show_that_a_limit_is_not_kept() -> None:
    calls = [read(at / 100, 0, response=None, response_headers=None) for at in range(1_300)]
    assert "rate.read" in deviating(a_trace(*calls))
    assert deviating(a_trace(*calls[:600])) == []


def test_headers_that_a_recorder_does_not_keep_are_not_missing() -> None:
    bare = read(0, 0, response_headers={"X-Request-Id": "r"})
    missing = {"rate.headers"}
    assert missing.issubset(deviating(a_trace(bare, kept=None)))
    assert missing.isdisjoint(deviating(a_trace(bare, kept=("x-request-id",))))
    none = bare.model_copy(update={"response_headers": {}})
    assert "header.request_id" in deviating(a_trace(none, kept=None))
    assert deviating(a_trace(none, kept=())) == []


def test_a_key_that_is_not_recorded_is_another_thing_than_none() -> None:
    with_none, unrecorded = read(0, 599, api_key=None), read(0, 599, api_key="")
    assert "access.key" in deviating(a_trace(with_none))
    assert "access.key" not in deviating(a_trace(unrecorded))
    left_out = logged(0, response=unrecorded.response)
    header = {"ranksim_trace": 1, "keys": {"main": {"account": "acme"}}}
    assert deviating([json.dumps(header), json.dumps(left_out)]) == []
    relied_on = judgement_data(compare(a_trace(unrecorded)))["relied_on"]
    assert any(
        said.startswith("of 1 of 1 exchanges it is not recorded whose they were") for said in relied_on
    )


def lines_of(*exchanges: Exchange) -> list[str]:
    trace = a_trace(*exchanges)
    return [as_line(entry.model_dump()) for entry in (trace.header, *exchanges)]


def test_equal_lines_are_one_exchange_and_that_is_told() -> None:
    header, first, second = lines_of(read(0, 599), read(1, 598))
    judgement = compare([header, first, second, first + "\n", second])
    assert (len(judgement.history.seen), judgement.deviating) == (2, ())
    assert (
        "2 lines repeat another one to the letter, and were read once"
        in judgement_data(judgement)["relied_on"]
    )


def test_another_exchange_of_the_same_id_is_refused_by_its_line() -> None:
    header, first, second = lines_of(read(0, 599, id="x7"), read(1, 598, id="x7"))
    with pytest.raises(BadInput, match=r"^trace:3: id: 'x7' is that of another exchange above"):
        compare([header, first, second])


# Whose keys are


def account_read(at: float, key: str, account: str, **fields: Any) -> Exchange:
    made = spending.call(at, "account.get", {"id": account, "status": "active"}, key=key)
    return made.model_copy(update=fields)


@pytest.mark.parametrize(
    ("stated", "read", "contradicts"),
    [
        (("acme", "acme"), ("acc_1", "acc_1"), False),
        (("acme", "acme"), ("acc_1", "acc_2"), True),
        (("acme", "shop"), ("acc_1", "acc_1"), True),
        (("acme", "shop"), ("acc_1", "acc_2"), False),
        (("acme", ""), ("acc_1", "acc_2"), False),
    ],
)
def test_accounts_of_the_header_that_replies_contradict_are_refused(
    stated: tuple[str, str], read: tuple[str, str], contradicts: bool
) -> None:
    keys = {name: TraceKey(account=account) for name, account in zip("ab", stated, strict=True)}
    calls = [account_read(at, name, read[at]) for at, name in enumerate("ab")]
    trace = Trace(Header(keys=keys, exclusive=True, response_headers=("date",)), calls)
    if not contradicts:
        assert deviating(trace) == []
        return
    with pytest.raises(BadInput) as refused:
        compare(trace)
    assert str(refused.value).startswith(
        f"keys: the header gives a the account acme and b the account {stated[1]}, and GET /v1/account says "
        f"acc_1 and {read[1]}"
    )


def test_an_account_has_an_id_of_its_own_in_each_environment() -> None:
    keys = {"a": TraceKey(account="acme"), "s": TraceKey(account="acme", environment="sandbox")}
    calls = [account_read(0, "a", "acc_1"), account_read(1, "s", "acc_9", environment="sandbox")]
    assert deviating(Trace(Header(keys=keys, response_headers=("date",)), calls)) == []
