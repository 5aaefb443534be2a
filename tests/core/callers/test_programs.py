"""Clients: when they call, with what, and how they take a refusal; in a tiny world with scripted replies."""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter, ValidationError

from ranksim.core.callers.portfolio import Actor
from ranksim.core.callers.programs import ClientSpec, Python, program_of, rooted_in
from ranksim.core.callers.programs.client import Client
from ranksim.core.callers.request_factory import CREATE, UPDATE
from ranksim.core.callers.steps import Received, Send
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, WEEK, Micros, instant, time_of_day, weekday
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.operations import OPERATIONS
from ranksim.twin.sim.clients import Credentials, start_python
from ranksim.twin.sim.player import Player
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

DATA = Path(__file__).parents[3] / "scenarios" / "data"
MONDAY = instant("2026-01-05T00:00:00Z")
SPEC: TypeAdapter[Any] = TypeAdapter(ClientSpec)


def spec_of(**fields: Any) -> Any:
    """Read a client as a scenario would."""
    return SPEC.validate_json(json.dumps({"account": "acme", **fields}))


@dataclass
class Made:
    """A call that was made: when, by whom, and what."""

    t: Micros
    client: str
    call: Call


@dataclass
class SmallWorld:
    """A world of a heap and a function that answers; due callbacks of one instant run in the order made."""

    reply_to: Callable[[Call, Micros], Reply] = lambda call, now: Reply(200, {"data": []})
    length: Micros = WEEK
    seed: int = 1
    start: Micros = MONDAY
    now: Micros = MONDAY
    calls: list[Made] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    abandoned: list[tuple[str, str, int]] = field(default_factory=list)
    actors: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lists = {"dom_1": ["lst_1"], "dom_2": ["lst_2"], "dom_3": ["lst_3"]}
        keys = {"main": "token-main", "second": "token-second"}
        self.actors["acme"] = Actor("acme", "acct_1", keys=keys, domains=list(lists), lists=lists)
        self.actors["other"] = Actor("other", "acct_2", "sandbox", {"only": "token-other"}, ["dom_9"])
        self.actors["bare"] = Actor("bare", "acct_3")
        self._heap: list[tuple[Micros, int, Callable[..., object], Any]] = []
        self._serial = count()
        self.credentials = Credentials()
        self.player: Any = Player(cast(Any, self), self)

    @property
    def end(self) -> Micros:
        return self.start + self.length

    @property
    def pending(self) -> int:
        return len(self._heap)

    def credential(self, account: str, key: str | None) -> str:
        return self.credentials.add(self.actors[account], key)

    def call(self, call: Call, client: str) -> Reply:
        self.calls.append(Made(self.now, client, call))
        return self.reply_to(call, self.now)

    def answer(self, send: Send, client: str, now: int) -> Received:
        reply = self.call(self.credentials.call_of(send, client), client)
        return Received(reply.status, reply.body, reply.headers, self.now, self.now)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def given_up(self, client: str, operation: str, tries: int) -> None:
        self.abandoned.append((client, operation, tries))

    def at(self, when: Micros, function: Callable[..., object], *args: Any) -> None:
        assert when >= self.now
        heappush(self._heap, (when, next(self._serial), function, args))

    def after(self, delay: Micros, function: Callable[..., object], *args: Any) -> None:
        self.at(self.now + delay, function, *args)

    def timeout(self, delay: Micros) -> Micros:
        return delay

    def process(self, generator: Generator[Micros, None, None]) -> None:
        def step() -> None:
            delay = next(generator, None)
            if delay is not None:
                self.after(delay, step)

        self.after(0, step)

    def run(self) -> list[Made]:
        while self._heap and self._heap[0][0] < self.end:
            self.now, _, function, args = heappop(self._heap)
            function(*args)
        return self.calls


def start(world: Any, name: str, spec: Any) -> None:
    """Set a client to work in a world."""
    if isinstance(spec, Python):
        start_python(world, name, spec)
    else:
        world.player.play(program_of(world, name, spec), name)


def play(world: SmallWorld | None = None, /, **fields: Any) -> list[Made]:
    """Run one client in a small world."""
    world = world or SmallWorld()
    start(world, "client", spec_of(**fields))
    return world.run()


def hours(made: list[Made]) -> list[float]:
    return [(one.t - MONDAY) / HOUR for one in made]


LIMITED = Reply(429, {"code": "rate_limited"}, {"Retry-After": "30"}, "rate_limited", outcome="limited")


# Taking a refusal of the rate limit


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, [0, 30, 60]),
        ({"on_limit": "obey", "retry_every": "5s"}, [0, 30, 60]),
        ({"on_limit": "ignore", "retry_every": "5s"}, [0, 5, 10]),
        ({"max_tries": 2}, [0, 30]),
        ({"max_tries": 1}, [0]),
    ],
)
def test_a_limited_client_tries_again(fields: dict[str, Any], seconds: list[int]) -> None:
    replies = iter([LIMITED, LIMITED, Reply(200, {})])
    world = SmallWorld(lambda call, now: next(replies))
    made = play(world, kind="caller", times=["0s"], mix={"account.get": 1}, **fields)
    assert [(one.t - MONDAY) / SECOND for one in made] == seconds


def test_a_retry_after_may_be_a_date() -> None:
    headers = {"Retry-After": "Mon, 05 Jan 2026 00:01:00 GMT"}
    replies = iter([Reply(429, {}, headers, "rate_limited", outcome="limited")] * 2 + [Reply(200, {})])
    world = SmallWorld(lambda call, now: next(replies))
    made = play(world, kind="caller", times=["15s"], mix={"account.get": 1})
    # A date that has come is no reason to wait.
    assert [(one.t - MONDAY) / SECOND for one in made] == [15, 60, 60]


def test_backoff_is_a_draw_below_a_doubling_ceiling() -> None:
    fields = {"on_limit": "backoff", "retry_every": "1s", "backoff_max": "6s", "max_tries": 6}
    waits: list[list[float]] = []
    for seed in range(200):
        made = play(
            SmallWorld(lambda call, now: LIMITED, seed=seed),
            kind="caller",
            times=["0s"],
            mix={"account.get": 1},
            **fields,
        )
        times = [one.t for one in made]
        waits.append([(b - a) / SECOND for a, b in pairwise(times)])
    for which, ceiling in enumerate((1, 2, 4, 6, 6)):
        drawn = [wait[which] for wait in waits]
        assert 0.8 * ceiling < max(drawn) <= ceiling
        assert abs(sum(drawn) / len(drawn) - ceiling / 2) < ceiling / 10
    assert all(wait[3] != wait[4] for wait in waits)


def test_other_refusals_are_taken() -> None:
    refused = Reply(409, {}, {"Retry-After": "30"}, "cooldown_active", 6, "refused")
    world = SmallWorld(lambda call, now: refused)
    assert len(play(world, kind="caller", times=["0s"], mix={"jobs.create": 1})) == 1


def test_one_idempotency_key_for_all_tries_of_a_post() -> None:
    replies = iter([LIMITED, Reply(202, {}), Reply(202, {})])
    world = SmallWorld(lambda call, now: next(replies))
    made = play(world, kind="caller", every="1h", stops="2h", mix={"jobs.create": 1}, idempotency_keys=True)
    assert [one.call.idempotency_key for one in made] == ["client-0", "client-0", "client-1"]
    made = play(kind="caller", times=["0s"], mix={"jobs.list": 1}, idempotency_keys=True)
    assert made[0].call.idempotency_key is None


# Who calls


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("token-main", "rest", "", "production")),
        ({"key": "second"}, ("token-second", "rest", "", "production")),
        ({"key": "issued-later"}, ("none", "rest", "", "production")),
        ({"surface": "graphql"}, ("token-main", "graphql", "", "production")),
        ({"surface": "app"}, (None, "app", "acct_1", "production")),
        ({"account": "other"}, ("token-other", "rest", "", "sandbox")),
        ({"account": "bare", "surface": "app"}, (None, "app", "acct_3", "production")),
    ],
)
def test_whose_call_it_is(fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    (made,) = play(kind="caller", times=["0s"], mix={"account.get": 1}, **fields)
    call = made.call
    assert (call.key, call.surface, call.account, call.environment) == expected
    assert made.client == "client"


@pytest.mark.fact("S39")
def test_a_keyless_operation_is_called_without_key() -> None:
    (made,) = play(kind="caller", times=["0s"], mix={"webhook_events.list": 1})
    assert (made.call.key, made.call.caller) == (None, "client")


def test_a_key_that_is_issued_later_is_used_from_then_on() -> None:
    world = SmallWorld()
    keys = world.actors["acme"].keys
    world.at(MONDAY + 90 * MINUTE, lambda: keys.update(late="token-late"))
    made = play(world, kind="caller", key="late", every="1h", stops="3h", mix={"account.get": 1})
    assert [one.call.key for one in made] == ["none", "none", "token-late"]


# Callers


def test_a_caller_calls_at_its_rate_between_start_and_stop() -> None:
    made = play(kind="caller", every="2h", starts="1h", stops="8h", mix={"account.get": 1})
    assert hours(made) == [1, 3, 5, 7]


def test_two_callers_race_in_turn() -> None:
    world = SmallWorld()
    for name, key in (("a", "main"), ("b", "second")):
        mix = {"keyword_briefs.create": 1}
        start(world, name, spec_of(kind="caller", key=key, times=["1h", "1h", "2h"], mix=mix))
    made = world.run()
    assert [one.client for one in made] == ["a", "b", "a", "b", "a", "b"]
    assert hours(made) == [1, 1, 1, 1, 2, 2]


def test_a_mix_is_chosen_by_weight_and_its_bodies_laid_over_the_drafts() -> None:
    mix = {
        "jobs.create": {"weight": 3, "body": {"kind": "crawl", "dry_run": True}},
        "positions.list": {"query": {"limit": "1"}},
        "webhooks.get": {"weight": 0.5, "path": {"id": "whk_7"}},
    }
    made = play(kind="caller", every="1m", mix=mix, arrivals="poisson")
    counts = Counter(one.call.operation for one in made)
    total = len(made)
    assert abs(total - 10_080) < 400
    assert abs(counts["jobs.create"] / total - 3 / 4.5) < 0.03
    jobs = [one.call.body for one in made if one.call.operation == "jobs.create"]
    assert {body["kind"] for body in jobs if body} == {"crawl"}
    assert {body["domain_id"] for body in jobs if body} == {"dom_1", "dom_2", "dom_3"}
    reads = [one.call.query for one in made if one.call.operation == "positions.list"]
    assert all(query["limit"] == "1" and query["domain_id"].startswith("dom_") for query in reads)


def test_people_in_the_web_app() -> None:
    made = play(kind="app_users", users=5, every="1h", mix={"jobs.create": 1})
    assert abs(len(made) - 5 * 168) < 4 * (5 * 168) ** 0.5
    assert {one.call.surface for one in made} == {"app"}


def test_few_events_are_pending_however_many_arrivals() -> None:
    world = SmallWorld(length=DAY)
    start(world, "client", spec_of(kind="caller", every="10s", mix={"account.get": 1}))
    assert world.pending == 1
    world.run()
    assert world.pending == 0
    assert len(world.calls) == DAY // (10 * SECOND)


def test_the_same_seed_makes_the_same_calls() -> None:
    fields = {
        "kind": "caller",
        "every": "1h",
        "arrivals": "poisson",
        "mix": {"jobs.create": 1, "slots.get": 1},
    }
    first, again, other = (play(SmallWorld(seed=seed), **fields) for seed in (1, 1, 2))
    assert first == again
    assert [one.t for one in first] != [one.t for one in other]


# Schedules


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"every": "day", "at": "02:00"}, [2 + 24 * day for day in range(7)]),
        ({"every": "day"}, [24 * day for day in range(7)]),
        ({"every": "week", "weekday": "thursday", "at": "06:30"}, [3 * 24 + 6.5]),
        ({"every": "week"}, [0]),
        ({"every": "month", "day": 7, "at": "12:00"}, [2 * 24 + 12]),
        ({"every": "60h"}, [0, 60, 120]),
        ({"every": "60h", "at": "01:00"}, [1, 61, 121]),
        ({"every": "day", "at": "02:00", "starts": "3h", "stops": "2d3h"}, [26, 50]),
    ],
)
def test_calendar_times(fields: dict[str, Any], expected: list[float]) -> None:
    made = play(kind="schedule", job="crawl", domains=1, **fields)
    assert hours(made) == expected
    assert {json.dumps(one.call.body) for one in made} == {'{"kind": "crawl", "domain_id": "dom_1"}'}


def test_a_month_without_the_day_uses_its_last() -> None:
    world = SmallWorld(length=100 * DAY)
    made = play(world, kind="schedule", job="crawl", domains=1, every="month", day=31)
    days = ["2026-01-31", "2026-02-28", "2026-03-31"]
    assert [one.t for one in made] == [instant(f"{day}T00:00:00Z") for day in days]


def test_an_evenly_spread_schedule() -> None:
    made = play(SmallWorld(length=DAY), kind="schedule", job="rank_run", at="02:00", spread="3h")
    assert hours(made) == [2, 3, 4]
    assert [(one.call.body or {})["domain_id"] for one in made] == ["dom_1", "dom_2", "dom_3"]


def test_a_spread_schedule_starts_nothing_after_its_client_stops() -> None:
    made = play(kind="schedule", job="rank_run", at="02:00", spread="3h", stops="3h1us")
    assert hours(made) == [2, 3]
    made = play(kind="schedule", job="rank_run", at="02:00", spread="3h", stops="3h")
    assert hours(made) == [2]


def test_a_schedule_spread_by_draws() -> None:
    made = play(kind="schedule", job="rank_run", at="02:00", spread="3h", spread_by="draws")
    assert len(made) == 21
    assert all(2 * HOUR <= time_of_day(one.t) < 5 * HOUR for one in made)
    assert len({one.t % DAY for one in made}) == 21


@pytest.mark.parametrize(("allowed", "dry_runs"), [(True, [True, None]), (False, [True])])
def test_a_dry_run_first(allowed: bool, dry_runs: list[Any]) -> None:
    world = SmallWorld(lambda call, now: Reply(200, {"data": {"allowed": allowed}}), length=DAY)
    made = play(world, kind="schedule", job="rank_run", domains=1, dry_run_first=True)
    assert [(one.call.body or {}).get("dry_run") for one in made] == dry_runs


def test_a_refused_dry_run_starts_nothing() -> None:
    world = SmallWorld(lambda call, now: Reply(402, {"code": "cost_cap_reached"}), length=DAY)
    assert len(play(world, kind="schedule", job="rank_run", domains=1, dry_run_first=True)) == 1


@pytest.mark.parametrize(("finished_after", "polls"), [(3, 3), (100, 6)])
def test_a_job_is_followed_until_it_has_finished(finished_after: int, polls: int) -> None:
    looks = count(1)

    def answer(call: Call, now: Micros) -> Reply:
        done = call.operation == "jobs.get" and next(looks) >= finished_after
        return Reply(200, {"data": {"id": "job_1", "kind": "crawl", "finished_at": "now" if done else None}})

    poll = {"every": "10m", "timeout": "1h"}
    world = SmallWorld(answer, length=DAY)
    created, *seen = play(world, kind="schedule", job="crawl", domains=1, at="00:00", poll=poll)
    assert created.call.operation == "jobs.create"
    assert [(one.t - MONDAY) // MINUTE for one in seen] == [10 * n for n in range(1, polls + 1)]
    assert all(one.call.path == {"kind": "crawl", "id": "job_1"} for one in seen)


# Pollers


def test_a_poller_slows_down_while_nothing_changes() -> None:
    def answer(call: Call, now: Micros) -> Reply:
        return Reply(200, {"data": ["new" if now >= MONDAY + 10 * HOUR else "old"]})

    slow = {"factor": 2, "most": "4h"}
    world = SmallWorld(answer, length=20 * HOUR)
    made = play(world, kind="poller", operation="jobs.list", every="1h", slow_down=slow)
    assert hours(made) == [0, 1, 3, 7, 11, 12, 14, 18]


def test_a_poller_slows_down_no_further_than_it_may() -> None:
    slow = {"factor": 1e300, "most": "4h"}
    world = SmallWorld(length=10 * HOUR)
    made = play(world, kind="poller", operation="jobs.list", every="1h", slow_down=slow)
    assert hours(made) == [0, 1, 5, 9]


def test_a_poller_follows_the_cursor() -> None:
    def answer(call: Call, now: Micros) -> Reply:
        page = int(call.query.get("cursor", 0))
        return Reply(200, {"data": [page], "has_more": page < 5, "next_cursor": str(page + 1)})

    world = SmallWorld(answer, length=2 * HOUR)
    query = {"domain_id": "dom_2"}
    made = play(world, kind="poller", operation="jobs.list", every="1h", pages=3, query=query)
    assert [dict(one.call.query) for one in made] == 2 * [
        query,
        query | {"cursor": "1"},
        query | {"cursor": "2"},
    ]


def test_a_poller_of_one_thing_finds_it_in_the_list() -> None:
    world = SmallWorld(lambda call, now: Reply(200, {"data": [{"id": "anl_1"}]}), length=3 * HOUR)
    made = play(world, kind="poller", operation="analyses.findings", every="1h")
    assert [one.call.operation for one in made] == ["analyses.list", "analyses.findings", "analyses.findings"]
    assert made[1].call.path == {"id": "anl_1"}


# Keywords and briefs


@dataclass
class Keywords:
    """A service that knows nothing but keywords."""

    ids: list[str] = field(default_factory=lambda: [f"kw_{n}" for n in range(250)])
    made: Iterator[int] = field(default_factory=lambda: count(1000))
    writes: int = 0
    limit: int = 10**9

    def __call__(self, call: Call, now: Micros) -> Reply:
        if call.operation == "keywords.list":
            at = int(call.query.get("cursor", 0))
            more = at + 200 < len(self.ids)
            page = [{"id": i} for i in self.ids[at : at + 200]]
            return Reply(
                200, {"data": page, "has_more": more, "next_cursor": str(at + 200) if more else None}
            )
        self.writes += 1
        if self.writes % self.limit == 0:
            return LIMITED
        if call.operation == "keywords.delete":
            self.ids.remove(call.path["id"])
            return Reply(204, None)
        created = [{"id": f"kw_{next(self.made)}"} for _ in (call.body or {})["keywords"]]
        self.ids += [one["id"] for one in created]
        return Reply(201, {"data": {"created": created}})


def one_domain(keywords: Keywords, **changes: Any) -> SmallWorld:
    world = SmallWorld(keywords, **changes)
    world.actors["acme"].domains = ["dom_1"]
    return world


def test_keywords_are_read_removed_and_added() -> None:
    keywords = Keywords()
    world = one_domain(keywords, length=2 * DAY)
    made = play(world, kind="keyword_sync", every="day", share=0.1, batch=10)
    first = [one for one in made if one.t == MONDAY]
    operations = [one.call.operation for one in first]
    assert operations == ["keywords.list"] * 2 + ["keywords.delete"] * 25 + ["keywords.create"] * 3
    batches = [(one.call.body or {})["keywords"] for one in first[-3:]]
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert len({word for batch in batches for word in batch}) == 25
    again = [one.call.operation for one in made if one.t > MONDAY]
    assert again == ["keywords.delete"] * 25 + ["keywords.create"] * 3
    assert len(keywords.ids) == 250


def test_keywords_from_memory_reach_their_number() -> None:
    keywords = Keywords(ids=[])
    world = one_domain(keywords, length=2 * DAY)
    fields = {"first": "memory", "keywords": 40, "share": 0.25, "batch": 15}
    made = play(world, kind="keyword_sync", every="day", **fields)
    operations = [one.call.operation for one in made]
    assert operations == ["keywords.create"] * 3 + ["keywords.delete"] * 10 + ["keywords.create"]
    assert len(keywords.ids) == 40


def test_a_limited_write_holds_up_those_behind_it() -> None:
    keywords = Keywords(limit=10)
    made = play(one_domain(keywords, length=DAY), kind="keyword_sync", share=0.1, batch=5)
    deleted = [one.call.path["id"] for one in made if one.call.operation == "keywords.delete"]
    assert [(one.t - MONDAY) // SECOND for one in made[2:]] == [0] * 10 + [30] * 10 + [60] * 10 + [90] * 3
    assert len(set(deleted)) == 25
    assert len(deleted) == 27
    assert len(keywords.ids) == 250


def test_a_line_goes_on_when_a_request_is_given_up() -> None:
    world = SmallWorld(lambda call, now: LIMITED, length=DAY)
    made = play(world, kind="brief_refresher", keywords=2, max_tries=3)
    assert [(one.t - MONDAY) // SECOND for one in made] == [0, 30, 60, 60, 90, 120]
    words = [(one.call.body or {})["keywords"] for one in made]
    assert words == [words[0]] * 3 + [words[3]] * 3


def test_a_gap_stands_between_requests() -> None:
    made = play(one_domain(Keywords(), length=DAY), kind="keyword_sync", share=0.01, batch=1, gap="1s")
    assert [(one.t - MONDAY) // SECOND for one in made] == [0, 1, 2, 3, 4, 5]


def test_a_gap_stands_between_requests_of_a_later_occasion() -> None:
    """Replies come at once, and what is removed and added is known from the day before."""
    fields = {"every": "day", "share": 0.01, "batch": 1, "gap": "1s"}
    made = play(one_domain(Keywords(), length=2 * DAY), kind="keyword_sync", **fields)
    again = [one.t - MONDAY - DAY for one in made if one.t >= MONDAY + DAY]
    assert again == [0, SECOND, 2 * SECOND, 3 * SECOND]


def test_briefs_are_refreshed_until_refused() -> None:
    answered = count(1)

    def answer(call: Call, now: Micros) -> Reply:
        if next(answered) in (4, 8):
            return Reply(402, {}, code="quota_exhausted", check=4, outcome="refused")
        return Reply(201, {"data": {}})

    world = SmallWorld(answer, length=2 * WEEK)
    made = play(world, kind="brief_refresher", keywords=20, batch=3)
    assert hours(made) == [0] * 4 + [168] * 4
    assert [weekday(one.t) for one in made] == [0] * 8
    bodies = [one.call.body or {} for one in made]
    assert all(len(body["keywords"]) == 3 for body in bodies)
    assert sorted({body["domain_id"] for body in bodies}) == ["dom_1", "dom_2", "dom_3"]


def test_briefs_come_to_their_number() -> None:
    made = play(kind="brief_refresher", keywords=7, batch=3)
    assert [len((one.call.body or {})["keywords"]) for one in made] == [3, 3, 1]


# Recorded arrivals


def test_counts_become_calls_of_the_mix(tmp_path: Path) -> None:
    (tmp_path / "rates.txt").write_text("30 0 60\n")
    spec = spec_of(
        kind="arrivals",
        source={"rates": "rates.txt", "interval": "1h"},
        mix={"account.get": 1, "jobs.list": 2},
        accounts=["other"],
    )
    world = SmallWorld()
    start(world, "client", rooted_in(spec, tmp_path))
    assert world.pending == 1
    made = world.run()
    assert Counter((one.t - MONDAY) // HOUR for one in made) == {0: 30, 2: 60}
    assert {one.call.operation for one in made} == {"account.get", "jobs.list"}
    assert set(Counter(one.call.key for one in made)) == {"token-main", "token-second", "token-other"}
    assert all((one.call.key == "token-other") == (one.call.environment == "sandbox") for one in made)


def test_a_log_becomes_calls_by_its_rules() -> None:
    source = {"log": str(DATA / "web-access-may-2015.log.gz")}
    rules = [
        {"method": "POST", "operation": "jobs.create", "body": {"kind": "crawl"}},
        {"path": "/blog/*", "operation": "positions.list", "query": {"limit": "1"}},
        {"path": "/presentations/*", "operation": "slots.get"},
    ]
    world = SmallWorld()
    made = play(world, kind="arrivals", source=source, map=rules, mix={"account.usage": 1})
    counts = Counter(one.call.operation for one in made)
    assert len(made) == 10_000
    assert counts["jobs.create"] == 5
    assert counts["positions.list"] == 1_930
    assert counts["slots.get"] == 2_304
    assert "the calls of each 1h" in world.notes[0]
    unmapped = play(SmallWorld(), kind="arrivals", source=source, map=rules)
    assert len(unmapped) == 10_000 - counts["account.usage"]


def test_each_recorded_client_keeps_to_one_key(tmp_path: Path) -> None:
    line = 'client-{} - - [17/May/2015:10:05:{:02} +0000] "GET /{} HTTP/1.1" 200 5\n'
    log = tmp_path / "a.log"
    log.write_text("".join(line.format(n % 20, n // 2, n % 20) for n in range(100)))
    rules = [{"path": f"/{n}", "operation": "jobs.list", "query": {"n": str(n)}} for n in range(20)]
    made = play(kind="arrivals", source={"log": str(log)}, map=rules, accounts=["other"])
    keys = {(one.call.query["n"], one.call.key) for one in made}
    assert len(keys) == 20
    assert len({key for _, key in keys}) == 3


def test_a_trace_is_played_again(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"ranksim_trace": 1},
        {"operations": ["jobs.create"], "method": "POST", "path": "/v1/jobs", "body": '{"kind":"crawl"}'},
        {"operations": ["jobs.get"], "method": "GET", "path": "/v1/jobs/crawl/job_3", "query": {"a": "b"}},
        {"operations": [], "method": "GET", "path": "/v1/nothing"},
        {"operations": ["jobs.get"], "method": "POST", "path": "/graphql", "surface": "graphql"},
        {"operations": ["jobs.get"], "method": "GET", "path": "/sandbox/v1/jobs/crawl/job_4"},
        {"operations": ["jobs.list"], "method": "POST", "path": "/graphql", "surface": "graphql"},
        {"operations": ["jobs.get"], "method": "GET", "path": "/v1/jobs"},
    ]
    for which, entry in enumerate(lines[1:]):
        sent = (100 + which) * SECOND
        entry |= {"kind": "exchange", "id": f"x{which}", "sent": sent, "received": None, "status": None}
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    world = SmallWorld()
    made = play(world, kind="arrivals", source={"trace": str(path)})
    assert [(one.t - MONDAY) // SECOND for one in made] == [0, 1, 4, 5]
    created, looked, again, listed = (one.call for one in made)
    assert (created.operation, created.body) == ("jobs.create", {"kind": "crawl"})
    assert (looked.path, looked.query) == ({"kind": "crawl", "id": "job_3"}, {"a": "b"})
    assert again.path == {"kind": "crawl", "id": "job_4"}
    assert listed.operation == "jobs.list"
    about = "clients.client: what a recorded jobs.get is about is not told by its path, as over GraphQL"
    assert world.notes == [f"{about}; it is left out"] * 2


# Python


def hourly(world: Any, name: str, times: int = 1) -> Generator[Any, Any, None]:
    for _ in range(times):
        yield world.timeout(HOUR)
        world.call(Call("account.get"), name)


def no_generator(world: Any, name: str) -> None: ...


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "my_clients", sys.modules[__name__])
    return "my_clients"


def test_a_generator_is_a_client(module: str) -> None:
    made = play(kind="python", function=f"{module}:hourly", options={"times": 3})
    assert hours(made) == [1, 2, 3]
    assert {one.client for one in made} == {"client"}


# Bad input

ONE = {"account.get": 1}
ONCE = {"kind": "caller", "times": ["0s"]}
STEADY = {"kind": "caller", "every": "1s"}
PEOPLE = {"kind": "app_users", "every": "1s", "mix": ONE}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "caller", "mix": ONE}, "write either every or times"),
        (
            {"kind": "caller", "mix": ONE, "every": "1s", "times": ["1s"]},
            "write either every or times",
        ),
        (
            {**STEADY, "mix": {"jobs.start": 1}},
            "expected an operation, found .jobs.start.; did you mean .jobs.list.",
        ),
        ({**STEADY, "mix": {}}, "at least 1 item"),
        ({**STEADY, "mix": {"account.get": 0}}, "greater than 0"),
        ({**STEADY, "mix": {"account.get": math.inf}}, "finite number"),
        (
            {**STEADY, "mix": ONE, "rhythm": {}},
            "a rhythm needs arrivals: poisson",
        ),
        (
            {**PEOPLE, "rhythm": {"hours": [1]}},
            "at least 24 items",
        ),
        (
            {**PEOPLE, "rhythm": {"days": [0] * 7}},
            "expected at least one weight above 0",
        ),
        (
            {**PEOPLE, "surface": "rest"},
            "Input should be 'app'",
        ),
        ({"kind": "schedule", "job": "crawl", "every": "hourly"}, "write day, week, month or a duration"),
        ({"kind": "schedule", "job": "crawl", "every": "0s"}, "write day, week, month or a duration"),
        ({"kind": "schedule", "job": "crawl", "at": "25:00"}, "write a time of day such as '02:00'"),
        ({"kind": "schedule", "job": "crawl", "weekday": "mon"}, "Input should be 'monday'"),
        ({"kind": "schedule", "job": "report"}, "Input should be 'rank_run'"),
        ({"kind": "poller", "operation": "jobs.list", "every": 60}, "write a duration such as"),
        (
            {"kind": "poller", "operation": "jobs.get", "every": "1m", "path": {"id": "job_1"}},
            "path: expected kind and id, found id",
        ),
        (
            {"kind": "poller", "operation": "jobs.list", "every": "1m", "path": {"id": "job_1"}},
            "path: expected nothing, found id",
        ),
        ({"kind": "arrivals", "source": {}}, "write exactly one of rates, log and trace"),
        (
            {"kind": "arrivals", "source": {"rates": "a", "log": "b"}},
            "write exactly one of rates, log and trace",
        ),
        ({"kind": "arrivals", "source": {"rates": "a"}}, "counts tell no operation; write a mix"),
        ({"kind": "arrivals", "source": {"log": "a"}}, "write a mix or a map"),
        (
            {"kind": "arrivals", "source": {"rates": "a"}, "mix": ONE, "align": "week"},
            "align: week needs source.began",
        ),
        (
            {"kind": "arrivals", "source": {"rates": "a", "spread": "1s"}},
            "counts are spread over their interval",
        ),
        ({"kind": "keyword_sync", "batch": 10_001}, "less than or equal to 10000"),
        ({"kind": "brief_refresher", "keywords": 1, "batch": 10_001}, "less than or equal to 10000"),
        ({"kind": "python", "function": "nothing"}, "should match pattern"),
        ({"kind": "robot"}, "does not match any of the expected tags"),
        ({"kind": "poller", "operation": "jobs.list", "every": "1m", "speed": 1}, "Extra inputs"),
    ],
)
def test_a_specification_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        spec_of(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"account": "nobody", **ONCE, "mix": ONE},
            "no account 'nobody'",
        ),
        (
            {"account": "bare", **ONCE, "mix": ONE},
            "has no key; give it one",
        ),
        (
            {
                "account": "bare",
                "surface": "app",
                "kind": "caller",
                "times": ["0s"],
                "mix": {"jobs.create": 1},
            },
            "has no domain; give it one",
        ),
        (
            {"account": "other", **ONCE, "mix": {"scans.create": 1}},
            "has a domain without keyword list; give it one",
        ),
        ({"account": "other", "kind": "keyword_sync"}, "has a domain without keyword list; give it one"),
        (
            {"kind": "arrivals", "source": {"log": "none.log"}, "mix": ONE},
            "none.log: no such file",
        ),
        (
            {"kind": "arrivals", "source": {"log": "x"}, "mix": ONE, "accounts": ["nobody"]},
            "no account 'nobody'",
        ),
        ({"kind": "python", "function": "no_such_module:f"}, "No module named 'no_such_module'"),
        ({"kind": "python", "function": "my_clients:f"}, "module 'my_clients' has no function 'f'"),
        ({"kind": "python", "function": "my_clients:MONDAY"}, "expected a function"),
        ({"kind": "python", "function": "my_clients:no_generator"}, "has no yield"),
        (
            {"kind": "python", "function": "my_clients:hourly", "options": {"a": 1}},
            "unexpected keyword argument 'a'",
        ),
    ],
)
def test_a_client_that_does_not_fit_its_world_is_refused(
    module: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        start(SmallWorld(), "client", spec_of(**fields))
    assert "clients.client" in str(caught.value) or "none.log" in str(caught.value)


def test_specifications_survive_json() -> None:
    fields = {"kind": "schedule", "job": "crawl", "every": "6h", "at": "02:30", "spread": "1h"}
    spec = spec_of(**fields)
    assert SPEC.validate_json(spec.model_dump_json()) == spec
    assert SPEC.validate_python(spec.model_dump()) == spec


# Against the real service: every draft is one that the service accepts


@pytest.fixture
def real() -> World:
    text = """
        start: 2026-01-05T00:00:00Z
        length: 1d
        accounts:
          acme: {plan: agency, portfolio: {domains: 2, lists: 2, keywords: 10, labels: 1, competitors: 1}}
    """
    return World(Scenario.parse(text))


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_the_service_accepts_every_draft(real: World, operation: str) -> None:
    client = Client(real, "client", spec_of(kind="caller", times=["0s"], mix={operation: 1}))
    factory = client.requests([operation])

    def call(send: Send) -> Reply:
        made = real.call_of(client.signed(send), "client")
        assert made is not None
        reply = real.call(made, "client")
        factory.learn(send, reply.status, reply.body)
        return reply

    resource, _, action = operation.partition(".")
    if resource == "webhooks" and action not in ("list", "create"):
        call(factory.make("webhooks.create", 0))
    if resource == "jobs" and action == "get":
        call(factory.make("jobs.create", 0))
    asked = set()
    for number in range(2):
        send = factory.make(operation, number)
        asked.add(send.operation)
        reply = call(send)
        assert reply.status < 300 or reply.code in ("cooldown_active", "endpoint_disabled"), reply.body
    # At the second time at the latest the client has seen one, unless there is none to be seen.
    assert operation in asked or operation == "analyses.findings"


def test_drafts_know_every_operation() -> None:
    makes = {name.partition(".")[0] for name in OPERATIONS if name.endswith(".create")}
    updates = {name.partition(".")[0] for name in OPERATIONS if name.endswith(".update")}
    assert (set(CREATE), set(UPDATE)) == (makes, updates)
    assert all(name.replace(".", " ").split()[0] + ".list" in OPERATIONS for name in updates)
