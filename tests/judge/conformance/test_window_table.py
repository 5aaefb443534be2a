"""`compare` under a policy with a table of windows: each is judged, and the three classes as ever."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import pytest

from ranksim.core.clock import MILLISECOND, SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.rate_table import WindowTable
from ranksim.core.errors import BadInput
from ranksim.core.rules.windows import KINDS, QUEUE
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service
from ranksim.core.trace import Exchange, Header, Trace, TraceKey
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.compare import Judgement, compare
from ranksim.judge.conformance.verdict.verdicts import Verdict

START = instant("2026-03-04T10:00:00Z")
CLASSES = WindowTable.load(str(files("ranksim").joinpath("data/windows/rank-tracking.yaml"))).windows
OPERATIONS = (
    ("domains.list", "GET", "/v1/domains", {}),
    ("domains.update", "PATCH", "/v1/domains/{id}", {"label": "x"}),
    ("jobs.create", "POST", "/v1/jobs", {"kind": "crawl", "dry_run": True}),
)


def traced(policy: Policy, seed: int, longest: int, bursts: Sequence[int], *, held: bool = False) -> Trace:
    """Return the trace of drawn calls of two keys to a service: bursts, and pauses up to some seconds.

    Where replies are `held`, they come when a clock that runs lets them go.
    """
    print(f"seed {seed}")
    draws, beside, now = random.Random(seed), random.Random(seed), START
    service = Service(policy, seed=1)
    account = service.open_account("a", "agency", START)
    tokens = {name: service.issue_key(account, name, START) for name in ("one", "two")}
    made = Call("domains.create", body={"host": "a.example"}, surface="app", account=account)
    domain = service.handle(made, START).reply.body["data"]["id"]
    exchanges = []
    for _ in range(80):
        now += draws.choice([0, draws.randrange(longest * SECOND), 2 * longest * SECOND])
        operation, method, path, fields = draws.choice(OPERATIONS)
        key = draws.choice(list(tokens))
        body = {**fields, "domain_id": domain} if method == "POST" else fields or None
        for _ in range(draws.choice(bursts)):
            now += draws.choice([0, 2 * MILLISECOND])
            headers = {"x-team": beside.choice("ab"), "x-plan": beside.choice(["gold", "golden", "silver"])}
            if body and "label" in body:
                body = {**body, "label": beside.choice(["x", "3", "12"])}
            call = Call(operation, tokens[key], {"id": domain}, body=body, headers=headers)
            reply = service.handle(call, now).reply
            exchanges.append(
                Exchange(
                    id=f"x{len(exchanges)}",
                    sent=now - MILLISECOND,
                    received=now + MILLISECOND + reply.wait * held,
                    operations=(operation,),
                    method=method,
                    path=path.format(id=domain),
                    status=reply.status,
                    api_key=key,
                    account="a",
                    query={},
                    request_headers=headers,
                    body=None if body is None else json.dumps(body),
                    response_headers=reply.headers,
                    response=json.dumps(reply.body),
                )
            )
    keys = {name: TraceKey(account="a") for name in tokens}
    return Trace(Header(started=START - SECOND, keys=keys, exclusive=True), exchanges)


def verdict(judgement: Judgement, rule: str) -> Verdict:
    return next(finding.verdict for finding in judgement.findings if finding.rule.name == rule)


RATES = {"read": 12, "write": 8, "expensive": 5}
SMALL = tuple(entry.model_copy(update={"limit": f"{RATES[entry.name]}/60s"}) for entry in CLASSES)


@pytest.mark.fact("S102", "S103", "S104", "U1")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("beyond", [0, 1])
def test_the_classes_as_a_table_have_the_same_verdicts(seed: int, beyond: int) -> None:
    served = {name: limit + beyond for name, limit in RATES.items()}
    trace = traced(Policy(facts={"rates": served}), seed, 60, (2, 6, 14))
    settled = {"dry_run_class": "same", "expensive_debits_write": False, "graphql_cost": "request"}
    by_class = compare(
        trace, Policy(facts={"rates": RATES}, assumptions=settled | {"tracking_class": "write"})
    )
    by_table = compare(trace, Policy(windows=SMALL))
    verdicts = set()
    for name in RATES:
        verdicts.add(verdict(by_table, f"window.{name}"))
        assert verdict(by_table, f"window.{name}") == verdict(by_class, f"rate.{name}"), name
    assert (Verdict.DEVIATES if beyond else Verdict.CONFORMS) in verdicts


TABLE: list[dict[str, Any]] = [
    {"name": "all", "limit": "60/10s"},
    {"name": "domains", "match": "* /v1/domains*", "per": "key", "limit": "20/4s"},
    {"name": "path", "match": ["POST *", "PATCH *"], "per": "path", "limit": "15/2s"},
]


@pytest.mark.parametrize("algorithm", KINDS[:QUEUE])
def test_each_window_of_a_table_conforms_to_itself(algorithm: str) -> None:
    policy = Policy(windows=[entry | {"algorithm": algorithm} for entry in TABLE])
    judgement = compare(traced(policy, 1, 10, (5, 30, 90)), policy)
    assert [finding.rule.name for finding in judgement.deviating] == []


@pytest.mark.slow
@pytest.mark.fact("S105", "U88")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("algorithm", KINDS[: QUEUE + 1])
def test_what_is_told_to_be_left_of_a_window_is_judged(algorithm: str, seed: int) -> None:
    one = {"name": "one", "per": "key", "limit": "20/4s", "algorithm": algorithm}
    policy = Policy(windows=[one])
    trace = traced(policy, seed, 10, (5, 30, 90), held=True)
    assert verdict(compare(trace, policy), "rate.remaining") == Verdict.CONFORMS

    def off(exchange: Exchange, by: int) -> Exchange:
        headers = dict(exchange.response_headers or {})
        headers["RateLimit-Remaining"] = str(max(0, int(headers["RateLimit-Remaining"]) + by))
        return exchange.model_copy(update={"response_headers": headers})

    wrong = [off(exchange, 1 if exchange.status == 200 else 0) for exchange in trace.exchanges]
    assert verdict(compare(Trace(trace.header, wrong), policy), "rate.remaining") == Verdict.DEVIATES


@pytest.mark.fact("U1")
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_calls_at_once_conform_to_themselves_whether_or_not_the_clock_runs(seed: int, held: bool) -> None:
    policy = Policy(windows=[entry | {"algorithm": "concurrency"} for entry in TABLE])
    judgement = compare(traced(policy, seed, 10, (5, 30, 90), held=held), policy)
    assert [finding.rule.name for finding in judgement.deviating] == []


@pytest.mark.parametrize("beside", [-2, 2])
def test_calls_at_once_of_which_others_are_admitted_deviate(beside: int) -> None:
    promised = {"name": "places", "per": "key", "algorithm": "concurrency", "limit": "20/4s"}
    served = promised | {"limit": f"{20 + beside}/4s"}
    trace = traced(Policy(windows=[served]), 1, 10, (5, 30, 90), held=True)
    assert verdict(compare(trace, Policy(windows=[promised])), "window.places") == Verdict.DEVIATES


BY_HEADERS: list[dict[str, Any]] = [
    {"name": "team", "headers": {"X-Plan": "gold*"}, "per": "header:X-Team", "limit": "20/4s"},
    {"name": "labels", "match": "PATCH *", "weigh": "response:/data/label", "limit": "60/4s"},
    {"name": "each", "match": "PATCH *", "per": "request:/label", "limit": "9/4s"},
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("algorithm", KINDS[:QUEUE])
def test_windows_that_read_headers_and_replies_conform_to_themselves(algorithm: str, seed: int) -> None:
    policy = Policy(windows=[entry | {"algorithm": algorithm} for entry in BY_HEADERS])
    judgement = compare(traced(policy, seed, 10, (5, 30, 90)), policy)
    assert [finding.rule.name for finding in judgement.deviating] == []


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "by"), [(BY_HEADERS[0], 5), (BY_HEADERS[1], 80), (BY_HEADERS[2], 12)])
def test_windows_that_read_headers_and_replies_are_caught(wrong: dict[str, Any], by: int) -> None:
    number, _, length = wrong["limit"].partition("/")
    served = [wrong | {"limit": f"{int(number) + by}/{length}", "algorithm": "sliding_log"}]
    trace = traced(Policy(windows=served), 1, 10, (5, 30, 90))
    policy = Policy(windows=[wrong])
    assert verdict(compare(trace, policy), f"window.{wrong['name']}") == Verdict.DEVIATES
    bare = [exchange.model_copy(update={"request_headers": None}) for exchange in trace.exchanges]
    blind = verdict(compare(Trace(trace.header, bare), policy), f"window.{wrong['name']}")
    assert blind == (Verdict.UNDECIDED if "headers" in wrong else Verdict.DEVIATES)


def as_graphql(exchange: Exchange) -> Exchange:
    """Return a call as GraphQL puts it, where no pointer into a body of REST leads anywhere."""
    body = json.dumps({"query": "mutation { x }", "variables": {"input": json.loads(exchange.body or "{}")}})
    response = json.dumps({"data": {"x": json.loads(exchange.response or "{}")}})
    changed = {"surface": "graphql", "method": "POST", "path": "/graphql", "body": body, "response": response}
    return exchange.model_copy(update=changed)


def without_reply(exchange: Exchange) -> Exchange:
    return exchange.model_copy(update={"response": None})


def without_team(exchange: Exchange) -> Exchange:
    return exchange.model_copy(update={"request_headers": {"x-plan": "gold"}})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("window", "hide", "kept"),
    [
        (BY_HEADERS[2], as_graphql, None),
        (
            {"name": "weighs", "match": "PATCH *", "weigh": "request:/label", "limit": "60/4s"},
            as_graphql,
            None,
        ),
        (BY_HEADERS[1], as_graphql, None),
        (BY_HEADERS[1], without_reply, None),
        (BY_HEADERS[0], without_team, ("x-plan",)),
    ],
)
def test_what_a_trace_does_not_show_is_held_against_nobody(
    window: dict[str, Any], hide: Callable[[Exchange], Exchange], kept: tuple[str, ...] | None, seed: int
) -> None:
    beside = {
        "name": "beside",
        "match": "PATCH *",
        "per": "key",
        "limit": "30/4s",
        "algorithm": "sliding_log",
    }
    policy = Policy(windows=[window | {"algorithm": "sliding_log"}, beside])
    trace = traced(policy, seed, 10, (5, 30, 90))
    header = trace.header.model_copy(update={"request_headers": kept})
    judgement = compare(Trace(header, [hide(exchange) for exchange in trace.exchanges]), policy)
    names = [finding.rule.name for finding in judgement.deviating]
    assert [name for name in names if name.startswith(("window.", "rate.remaining"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("wrong", TABLE, ids=lambda entry: entry["name"])
def test_a_window_that_admits_more_deviates_and_no_other(wrong: dict[str, Any]) -> None:
    number, _, length = wrong["limit"].partition("/")
    alone = [wrong | {"limit": f"{int(number) + 2}/{length}", "algorithm": "sliding_log"}]
    judgement = compare(traced(Policy(windows=alone), 1, 10, (5, 30, 90)), Policy(windows=[wrong]))
    assert verdict(judgement, f"window.{wrong['name']}") == Verdict.DEVIATES


@pytest.mark.slow
def test_status_and_headers_are_enough_to_see_that_more_are_admitted() -> None:
    reads = {"name": "reads", "match": "GET *", "per": "key", "limit": "20/4s"}
    trace = traced(Policy(windows=[reads | {"limit": "45/4s"}]), 1, 10, (5, 30, 90))
    bare = [exchange.model_copy(update={"response": None}) for exchange in trace.exchanges]
    judgement = compare(Trace(trace.header, bare), Policy(windows=[reads]))
    assert verdict(judgement, "window.reads") == Verdict.DEVIATES


@pytest.mark.slow
def test_a_window_can_be_required_by_name() -> None:
    policy = Policy(windows=TABLE[:1])
    judgement = compare(traced(policy, 1, 10, (5, 30, 90)), policy)
    assert judgement.missing(["window.all"]) == ()
    with pytest.raises(BadInput, match=r"no rule is named 'window\.other'"):
        judgement.missing(["window.other"])


def test_weights_and_addresses_leave_refusals_open() -> None:
    policy = Policy(windows=[{"name": "client", "per": "client", "limit": "5/2s"}])
    judgement = compare(traced(policy, 1, 10, (5, 30)), policy)
    assert verdict(judgement, "window.client") == Verdict.UNDECIDED


def test_calibration_says_that_it_knows_classes_alone() -> None:
    with pytest.raises(BadInput, match="leave windows out"):
        calibrate(Trace(Header(), []), Policy(windows=TABLE))
