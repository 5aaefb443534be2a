"""Every profile: what it exercises in a rehearsal, and that it survives whatever a deployment answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from graphql import parse, validate

from ranksim.bridges.rehearsal import Network, rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.core.callers.steps import Lap, Listen, Pause, Received, Send, Until
from ranksim.core.callers.target import Target
from ranksim.core.clock import HOUR, MINUTE, SECOND
from ranksim.core.contract.facts import Facts, RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.conformance.calls.pages import OVER
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.deployment.cleanup import mark
from ranksim.judge.deployment.discovery import KeyReach, Reach, explore
from ranksim.judge.profiles import PROFILES, profile
from ranksim.judge.profiles.fixtures import has_ended
from ranksim.judge.profiles.graphql import (
    DRY_RUN,
    READS,
    START,
    UPDATES,
    cursor_after,
    nodes_in,
    over_graphql,
)
from ranksim.judge.profiles.smoke import NOUNS
from ranksim.judge.profiles.windows import CLASSES, parts

NAMES = tuple(one.name for one in PROFILES)


@cache
def rehearsed(name: str, users: int = 5, seed: int = 3) -> Trace:
    service, target = make_world(seed=1)
    return rehearse(profile(name), service, target, users=users, seed=seed, network=Network(loss=0.02))


def code(exchange: Exchange) -> str:
    """The error code of a reply, or what a dry run says would be refused, or ""."""
    try:
        body = json.loads(exchange.response)
    except ValueError:
        return ""
    if exchange.surface == "graphql" and body.get("errors"):
        return str(body["errors"][0]["extensions"]["code"])
    if exchange.status is not None and exchange.status >= 300:
        return str(body["code"])
    data = body.get("data")
    refusal = data.get("refusal") if isinstance(data, dict) else None
    return f"dry {refusal['code']}" if refusal else ""


def codes(trace: Trace) -> Counter[str]:
    return Counter(map(code, trace.exchanges))


def test_profiles_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert profile("walk").name == "walk"
    with pytest.raises(BadInput, match=r"expected one of everyday, breadth, .* found 'wander'"):
        profile("wander")


def test_the_rules_that_a_profile_names_exist() -> None:
    from ranksim.judge.conformance.compare import RULES

    for known in PROFILES:
        for beginning in known.rules:
            assert any(rule.name.startswith(beginning) for rule in RULES), (known.name, beginning)


def test_every_rule_names_a_profile_that_exercises_it() -> None:
    from ranksim.judge.conformance.compare import RULES

    for rule in RULES:
        assert re.split(r"[^a-z-]", rule.exercise)[0] in NAMES, rule.name


# In a world that conforms


@pytest.mark.parametrize("users", [1, 5, 20])
@pytest.mark.parametrize("name", NAMES)
def test_every_profile_runs(name: str, users: int) -> None:
    trace = rehearsed(name, users)
    assert len(trace.exchanges) > 200
    for exchange in trace.exchanges:
        if exchange.status is not None and exchange.status >= 500:
            raise AssertionError(f"{exchange.id}: {exchange.response}")
    served = [one for one in trace.exchanges if one.status is not None and one.status < 300]
    assert len(served) > len(trace.exchanges) // 3


SIX = {
    "entitlement_required",
    "subscription_inactive",
    "cost_cap_reached",
    "quota_exhausted",
    "slot_limit_exceeded",
    "cooldown_active",
}

MEETS: dict[str, set[str]] = {
    "burst": {"rate_limited"},
    "windows": {"rate_limited"},
    "breadth": {"invalid_request", "validation_failed", "not_found", "unauthorized", "idempotency_mismatch"},
    "cooldowns": {"cooldown_active"},
    "race": {"quota_exhausted", "slot_limit_exceeded", "cooldown_active"},
    "retry": {"idempotency_mismatch", "idempotency_in_progress", "cooldown_active"},
    "walk": {"invalid_cursor", "validation_failed"},
    "ladder": SIX | {f"dry {code}" for code in SIX},
    "webhooks": {"endpoint_disabled"},
    "webhooks-long": {"endpoint_disabled"},
    "scope": {"unauthorized", "forbidden", "not_found"},
    "calibration": {"rate_limited", "cooldown_active", "endpoint_disabled"},
}


@pytest.mark.parametrize(("name", "wanted"), MEETS.items(), ids=MEETS)
def test_what_each_profile_meets(name: str, wanted: set[str]) -> None:
    assert wanted <= set(codes(rehearsed(name)))


@pytest.mark.parametrize("name", ["everyday", "soak"])
def test_everyday_traffic_stays_within_the_limits_of_reads(name: str) -> None:
    limited = [one for one in rehearsed(name).exchanges if one.status == 429 and one.method == "GET"]
    assert limited == []


def test_a_burst_meets_every_limit_in_every_class() -> None:
    classes = Counter(
        OPERATIONS[one.operations[0]].rate for one in rehearsed("burst").exchanges if one.status == 429
    )
    assert set(classes) == set(RateClass)


@pytest.mark.slow
def test_the_plan_tells_the_algorithms_apart() -> None:
    """P1, class of 20: how many of each burst are admitted under each algorithm."""
    expected = {
        "first_hit": [1, 19, 0, 20, 0],
        "sliding_log": [1, 19, 0, 1, 19],
        "gcra": [1, 19, 1, 10, 10],
    }
    still = Network()
    for window, admitted in expected.items():
        from ranksim.bridges.rehearsal_worlds import compact

        policy = compact().replace(assumptions={"window": window})
        service, target = make_world(policy, seed=1)
        trace = rehearse(profile("windows"), service, target, users=3, seed=2, network=still)
        tried = [one for one in trace.exchanges if one.operations == ("jobs.create",)]
        bursts: list[list[Exchange]] = []
        for one in tried:
            if not bursts or one.sent - bursts[-1][-1].sent > 4 * SECOND:
                bursts.append([])
            bursts[-1].append(one)
        assert [sum(one.status == 200 for one in burst) for burst in bursts] == admitted * 2, window


def test_racers_meet_within_milliseconds() -> None:
    trace = rehearsed("race")
    asked = [one for one in trace.exchanges if one.operations == ("jobs.create",) and one.method == "POST"]
    together = Counter(one.sent // SECOND for one in asked)
    assert max(together.values()) >= 5
    winners = Counter(one.sent // SECOND for one in asked if one.status == 202 and '"crawl"' in one.body)
    assert 1 in winners.values()


def test_twins_share_a_key_at_one_instant() -> None:
    sent: dict[str, list[int]] = {}
    for one in rehearsed("retry").exchanges:
        once = one.request_headers.get("Idempotency-Key", "")
        if "-twins-" in once:
            sent.setdefault(once, []).append(one.sent)
    assert sum(len(times) > 2 and times[1] - times[0] < 50_000 for times in sent.values()) > 15


@pytest.mark.fact("S47", "S52")
def test_smoke_sends_each_post_twice_at_once_and_a_job_once_more_under_another_key() -> None:
    sent: dict[str, list[int]] = {}
    service, target = make_world(seed=1)
    for one in rehearse(profile("smoke"), service, target, users=3, seed=3, network=Network()).exchanges:
        once = one.request_headers.get("Idempotency-Key", "")
        if one.method == "POST" and "-smoke-" in once:
            sent.setdefault(once, []).append(one.sent)
    twins = {once: times for once, times in sent.items() if once.endswith("-twin")}
    together = [once for once, at in twins.items() if sorted(at)[1] - min(at) < 50_000]
    met = {once.split("-smoke-")[1].split("-")[0] for once in together}
    assert met == {*NOUNS, "raced"}
    alone = {once.split("-smoke-")[1].split("-")[0] for once in sent if once.endswith("-alone")}
    assert alone == {"raced"}


@pytest.mark.fact("S63", "S64")
def test_the_last_units_are_asked_for_at_once_by_three_and_one_more_is_refused() -> None:
    judgement = compare(rehearsed("last", users=3))
    assert not judgement.deviating
    for rule in ("slots.limit", "quota.limit"):
        finding = judgement.finding(rule)
        cases = {case.name for case in finding.cases if case.name.endswith("at once")}
        assert cases - {*finding.left}, rule


@pytest.mark.fact("S111")
def test_a_post_is_repeated_before_and_after_the_retention_where_time_is_scaled() -> None:
    service, target = make_world(seed=1)
    fast = target.model_copy(update={"time_scale": 1440})
    trace = rehearse(profile("retry"), service, fast, users=1, duration=2 * MINUTE, seed=3)
    old = [one for one in trace.exchanges if "-old-" in one.request_headers.get("Idempotency-Key", "")]
    ids = [json.loads(one.response)["data"]["id"] for one in old]
    assert len(ids) == 3
    assert ids[0] == ids[1] != ids[2]


def test_walks_are_whole_and_their_anchors_vanish() -> None:
    trace = rehearsed("walk")
    deleted = {
        one.path.rpartition("/")[2] for one in trace.exchanges if one.method == "DELETE" and one.status == 204
    }
    anchors = set()
    for one in trace.exchanges:
        if one.operations == ("keywords.list",) and one.status == 200 and one.surface == "rest":
            data = json.loads(one.response)["data"]
            anchors |= {data[-1]["id"]} if data else set()
    assert len(deleted & anchors) > 5
    limits = {one.query.get("limit") for one in trace.exchanges}
    assert {"7", "53", "200", "201", "0", "-1", "many", None} <= limits


def test_the_ladder_climbs_dry_and_for_real() -> None:
    trace = rehearsed("ladder")
    spending = [one for one in trace.exchanges if OPERATIONS[one.operations[0]].spends]
    for operation in ("jobs.create", "keyword_briefs.create", "keywords.create", "scans.create"):
        for dry in (True, False):
            assert any(
                one.operations == (operation,) and ('"dry_run":true' in one.body) == dry for one in spending
            )
    assert {one.api_key for one in spending} >= {"main", "late", "tight"}


def test_failing_checks_come_in_pairs() -> None:
    """Which checks fail together in the dry runs of the ladder."""
    pairs = set()
    for one in rehearsed("ladder").exchanges:
        data = json.loads(one.response or "{}").get("data")
        if isinstance(data, dict) and data.get("dry_run") is True:
            failing = [number for number, check in enumerate(data["checks"], 1) if not check["ok"]]
            pairs |= {(a, b) for a in failing for b in failing if a < b}
    assert {(1, 2), (2, 3), (2, 4), (2, 5), (2, 6), (3, 4), (3, 6), (4, 5), (4, 6)} <= pairs


def test_twenty_failures_disable_and_a_success_between_does_not() -> None:
    trace = rehearsed("webhooks")
    shown = [json.loads(one.response)["data"] for one in trace.exchanges
             if one.operations == ("webhooks.get",) and one.status == 200]  # fmt: skip
    always = [one["enabled"] for one in shown if one["url"] == shown[0]["url"]]
    mixed = [one["enabled"] for one in shown if one["url"] != shown[0]["url"]]
    assert always == [True, False, True, True]  # as it was enabled again, and its count begins at zero
    assert mixed
    assert all(mixed)


@pytest.mark.fact("S91", "U70")
@pytest.mark.parametrize(("disabled_after", "endpoints"), [(20, 2), (1000, 1)])
def test_only_what_is_disabled_is_enabled_again(disabled_after: int, endpoints: int) -> None:
    """One of them is an endpoint that the program disabled itself."""
    service, target = make_world(compact(Policy(facts=Facts(webhook_disable_after=disabled_after))), 1)
    trace = rehearse(profile("webhooks"), service, target, users=5, seed=3)
    enabled = {one.path for one in trace.exchanges if one.body == '{"enabled":true}'}
    assert len(enabled) == endpoints


@pytest.mark.fact("S87")
def test_a_retry_after_each_kind_of_answer_is_waited_for() -> None:
    """Of 4xx, 410 is not enough: that it ends a delivery is a choice (U71)."""
    first = {one.status for one in rehearsed("webhooks").deliveries
             if one.headers["service-delivery-attempt"] == "1"}  # fmt: skip
    assert {200, 201, 204, 302, 404, 410, 500} <= first


def test_all_six_attempts_within_a_night() -> None:
    trace = rehearsed("webhooks-long", 1)
    attempts = Counter(one.headers["service-delivery-attempt"] for one in trace.deliveries)
    assert set(attempts) == set("123456")
    assert trace.exchanges[-1].sent - trace.header.started < 10 * HOUR


def test_a_soak_keeps_to_its_plan() -> None:
    trace = rehearsed("soak")
    planned = sorted(one.planned for one in trace.exchanges if one.planned is not None)
    gaps = [later - earlier for earlier, later in pairwise(planned)]
    assert all((instant - planned[0]) % 150_000 == 0 for instant in planned)
    assert max(gaps) <= 450_000
    assert all(one.sent >= one.planned for one in trace.exchanges if one.planned is not None)


def test_everything_made_carries_the_mark() -> None:
    for name in NAMES:
        for one in rehearsed(name).exchanges:
            if (
                one.operations
                and one.operations[0] in ("domains.create", "scans.create", "keyword_lists.create")
                and one.body
            ):
                assert mark(3) in one.body


@pytest.mark.parametrize("users", range(1, 12))
def test_every_class_has_someone_to_probe_it(users: int) -> None:
    shares: dict[RateClass, list[tuple[int, int]]] = {}
    for user in range(users):
        for rate_class, partner, partners in parts(user, users):
            shares.setdefault(rate_class, []).append((partner, partners))
    assert set(shares) == set(CLASSES)
    for those in shares.values():
        assert sorted(those) == [(number, len(those)) for number in range(len(those))]


# In a world that does not


def bare(target: Target) -> Reach:
    """What is known of a deployment that lets one key do everything and tells nothing."""
    return Reach(target, {"main": KeyReach("main", "production", "full", True)}, "main")


def drive(program: Any, answer: Any, most: int) -> Counter[str]:
    """Run up to so many steps; gives the operations sent."""
    sent: Counter[str] = Counter()
    value, now = None, 1_772_000_000 * SECOND
    for _ in range(most):
        try:
            step = program.send(value)
        except StopIteration:
            return sent
        if isinstance(step, Send):
            assert step.operation in OPERATIONS
            sent[step.operation] += 1
            now += SECOND // 20
            value = answer(step, now)
        elif isinstance(step, Pause):
            assert step.duration >= 0
            now += step.duration
            value = now
        elif isinstance(step, Until):
            now = max(now, step.instant)
            value = now
        elif isinstance(step, Lap):
            value = None
        else:
            assert isinstance(step, Listen)
            value = ""
    return sent


STATUSES = (200, 201, 202, 204, 302, 400, 401, 402, 403, 404, 405, 409, 422, 429, 500, 503, 0)
FIELDS = ("data", "id", "code", "kind", "status", "meta", "next_cursor", "has_more", "created", "refusal")


def junk(draw: Random, depth: int = 0) -> Any:
    choice = draw.randrange(9 if depth < 4 else 6)
    if choice < 6:
        return (None, True, draw.randrange(-5, 500), "text", 1.5, "")[choice]
    if choice == 6:
        return [junk(draw, depth + 1) for _ in range(draw.randrange(3))]
    return {name: junk(draw, depth + 1) for name in draw.sample(FIELDS, draw.randrange(1, 6))}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(6))
def test_no_reply_breaks_a_program(name: str, seed: int) -> None:
    draw = Random(f"{name}/{seed}")

    def answer(send: Send, now: int) -> Received:
        body = junk(draw)
        if draw.randrange(2):
            body = {"data": junk(draw), **(body if isinstance(body, dict) else {})}
        headers = {"retry-after": draw.choice(("1", "-1", "soon", "999999999"))} if draw.randrange(3) else {}
        return Received(draw.choice(STATUSES), body, headers, now - 1, now)

    target = Target.simple("http://127.0.0.1:9", "rk_1")
    explored: list[Reach] = []

    def exploring() -> Any:
        explored.append((yield from explore(target)))

    drive(exploring(), answer, 3_000)
    for reach in (bare(target), *explored):
        for user in range(3):
            drive(profile(name).program(reach, user, 3, seed), answer, 400)


REFUSALS: Mapping[str, Received] = {
    "all is missing": Received(404, {"code": "not_found"}, {}, 0, 1),
    "nothing is allowed": Received(403, {"code": "forbidden"}, {}, 0, 1),
    "silence": Received(0, None, {}, 0, 1),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
def test_little_reach_is_no_failure(name: str, answer: Received) -> None:
    reach = bare(Target.simple("http://127.0.0.1:9", "rk_1"))
    drive(profile(name).program(reach, 0, 1, 1), lambda send, now: answer, 600)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_key_that_works_nothing_is_sent(name: str) -> None:
    reach = Reach(Target.simple("http://127.0.0.1:9", "rk_1"))
    for user in range(3):
        assert not drive(profile(name).program(reach, user, 3, 1), lambda send, now: None, 50)


# GraphQL


def test_documents_fit_the_schema() -> None:
    from ranksim.core.surface.graphql_schema import SCHEMA

    for document in (*READS.values(), DRY_RUN, START, *(text for text, _ in UPDATES.values())):
        assert validate(SCHEMA, parse(document)) == []


def test_what_has_a_twin_over_graphql() -> None:
    job = Send("jobs.create", "main", body={"kind": "rank_run", "domain_id": "dom_1"}, idempotency_key="k")
    twin = over_graphql(job)
    assert twin is not None
    assert (twin.surface, twin.idempotency_key) == ("graphql", "k")
    assert twin.body == {"query": START, "variables": {"kind": "RANK_RUN", "domain": "dom_1"}}
    assert over_graphql(Send("labels.create", body={})) is None


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ({}, {}),
        ({"limit": "7", "cursor": "c"}, {"first": 7, "after": "c"}),
        ({"list_id": "l"}, {"listId": "l"}),
        ({"limit": "many"}, None),
        ({"label_id": "l"}, None),
    ],
)
def test_a_list_over_graphql_asks_for_the_same(
    query: dict[str, str], variables: dict[str, Any] | None
) -> None:
    twin = over_graphql(Send("keywords.list", "main", query=query))
    document = {"query": READS["keywords.list"], "variables": variables}
    assert (twin and twin.body) == (None if variables is None else document)


@pytest.mark.parametrize(
    ("told", "cursor"),
    [
        ({"hasNextPage": True, "endCursor": "c"}, "c"),
        ({"hasNextPage": False, "endCursor": "c"}, ""),
        ({"hasNextPage": True, "endCursor": None}, ""),
        ({"endCursor": "c"}, ""),
        (None, ""),
    ],
)
def test_a_page_after_which_none_comes_may_have_a_cursor(told: Any, cursor: str) -> None:
    body = {"data": {"keywords": {"nodes": [{"id": "k"}], "pageInfo": told}}}
    answer = Received(200, body, {}, 0, 1)
    assert (nodes_in(answer), cursor_after(answer)) == ([{"id": "k"}], cursor)
    assert (nodes_in(Received(0, None, {}, 0, 1)), cursor_after(Received(0, None, {}, 0, 1))) == ([], "")


@pytest.mark.fact("S4", "S43", "S44", "S45", "S46")
def test_a_walk_goes_over_graphql_too() -> None:
    """Every case of a list over GraphQL is exercised, in an eighth of the calls or less."""
    trace = rehearsed("walk", users=1)
    asked = [
        one for one in trace.exchanges if one.surface == "graphql" and one.operations != ("domains.list",)
    ]
    assert 8 * len(asked) <= len(trace.exchanges)
    left = [
        (finding.rule.name, case)
        for finding in compare(trace).findings
        for case in finding.left
        if case.startswith(OVER) and finding.rule.name.startswith("paging.")
    ]
    assert not left


@pytest.mark.fact("S4", "S49")
def test_breadth_updates_over_graphql_what_it_patched() -> None:
    trace = rehearsed("breadth")
    history = read_history(trace)
    made = [one for one in history.seen if one.surface == "graphql" and one.updates]
    assert [one.operation for one in made] == ["labels.update", "domains.update"]
    assert all(one.ok and one.parameters for one in made)
    assert history.run.exclusive
    [finding] = [one for one in compare(trace).findings if one.rule.name == "resource.patch"]
    assert finding.verdict == "conforms"


@pytest.mark.fact("S63", "S64", "S65")
@pytest.mark.parametrize("rule", ["quota.limit", "slots.limit", "cooldown.enforced"])
def test_the_ladder_asks_twice_at_once_for_what_is_left_of_an_account_near_its_limits(rule: str) -> None:
    finding = compare(rehearsed("rungs", 5)).finding(rule)
    exercised = [case.name for case in finding.cases if case.conforms]
    assert finding.verdict == "conforms"
    assert any(case.endswith("at once") for case in exercised)


@pytest.mark.slow
def test_durations_suit_what_the_programs_do() -> None:
    """A profile that ends by itself does so within its duration, with its own number of users."""
    for name in ("burst", "windows", "calibration", "webhooks-long"):
        known = profile(name)
        last = max(one.sent for one in rehearsed(name, known.users).exchanges)
        assert last - rehearsed(name, known.users).header.started < known.duration + 3 * MINUTE


@pytest.mark.fact("U39")
@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"status": "pending", "finished_at": None, "error_detail": None}, False),
        ({"status": "error", "finished_at": None, "error_detail": "no answer"}, True),
        ({"status": "cancelled", "finished_at": "2026-03-02T09:00:00Z"}, True),
        ({"status": "done"}, True),
        ({}, False),
    ],
    ids=str,
)
def test_a_job_is_over_in_states_of_any_name(job: dict[str, Any], expected: bool) -> None:
    assert has_ended(job) == expected


@pytest.mark.fact("S73")
def test_browsers_ask_whether_a_page_may_call() -> None:
    asked = [one for one in rehearsed("breadth").exchanges if one.method == "OPTIONS"]
    assert {one.request_headers["Access-Control-Request-Method"] for one in asked} == {"GET", "POST", "PATCH"}
    assert all(one.api_key is None and not one.operations for one in asked)
    [finding] = [
        one for one in compare(rehearsed("breadth")).findings if one.rule.name == "header.cross_origin"
    ]
    assert (finding.verdict, finding.left) == ("conforms", ())


@pytest.mark.fact("S65")
def test_a_job_is_asked_for_just_before_and_just_after_its_stated_cooldown() -> None:
    """The last refusal comes less than two seconds before the cooldown is over, the next call within one."""
    service, target = make_world(seed=1)
    trace = rehearse(profile("cooldowns"), service, target, users=3, seed=3, duration=MINUTE)
    jobs = [one for one in trace.exchanges if one.operations == ("jobs.create",)]
    for kind, seconds in (("crawl", 40), ("site_optimization", 30)):
        mine = [one for one in jobs if f'"kind":"{kind}"' in one.body]
        first = next(one for one in mine if one.status == 202)
        domain = json.loads(first.body)["domain_id"]
        mine = [one for one in mine if json.loads(one.body)["domain_id"] == domain]
        refused = [one.sent - first.sent for one in mine if code(one) == "cooldown_active"]
        again = next(one.sent - first.sent for one in mine if one.status == 202 and one is not first)
        before = max(gap for gap in refused if gap < again)
        assert again in refused  # of two at once one is granted
        assert (seconds - 2) * SECOND < before < seconds * SECOND <= again < (seconds + 1) * SECOND
