"""Worlds: accounts, jobs and webhooks end to end, order within an instant, and a caller's environment."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest
import simpy

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Answer, Attempt, Call, Reply
from ranksim.core.service.events import EndpointDisabled, JobEnded, JobQueued, JobStarted, ServiceEvent
from ranksim.core.service.service import Service
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

BASE = """\
start: 2026-01-05T00:00:00Z
length: 2d
accounts:
  acme:
    plan: pro
    keys: [main, {name: shop, domain: site1.acme.example}]
    portfolio: {domains: 2, keywords: 10, lists: 3, labels: 1, competitors: 2}
"""


class Log:
    """A tally that writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.endpoint_names: dict[str, str] = {}
        self.outages: dict[str, Any] = {}

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        for event in events:
            match event:
                case JobQueued():
                    self.lines.append((event.at, "queued", event.kind))
                case JobStarted():
                    self.lines.append((event.at, "started", event.kind))
                case JobEnded():
                    self.lines.append((event.at, "ended", event.kind, event.outcome))
                case EndpointDisabled(by_account=False):
                    name = self.endpoint_names[event.endpoint]
                    self.lines.append((event.at, "disabled", name, event.reason))

    def call(self, now: int, client: str, call: Call, reply: Reply) -> None:
        self.lines.append((now, "call", client, call.operation, reply.status))

    def pool(self, now: int, kind: str, busy: int, capacity: int | None, waiting: int) -> None:
        self.lines.append((now, "pool", kind, busy, capacity, waiting))

    def attempt(self, now: int, task: Attempt, answer: Answer, acted: bool) -> None:
        self.lines.append((now, "attempt", task.number, answer.error or answer.status, acted))

    def sample(self, now: int, service: Service) -> None:
        self.lines.append((now, "sample"))

    def finish(self, now: int, service: Service) -> str:
        self.lines.append((now, "finish"))
        return "statistics"

    def note(self, text: str) -> None:
        self.lines.append((0, "note", text))

    def of(self, *what: str) -> list[tuple[Any, ...]]:
        return [line for line in self.lines if line[1] in what]


def scenario(extra: str = "", base: str = BASE) -> Scenario:
    return Scenario.parse(base + extra, "world.yaml")


def make(extra: str = "", **options: Any) -> tuple[World, Log]:
    log = Log()
    world = World(scenario(extra), tally=log, **options)
    return world, log


def after(world: World, delay: int, operation: str, body: Any = None, **call: Any) -> list[Reply]:
    """Have the account's main key call so long after the start; the reply appears in the list."""
    replies: list[Reply] = []
    made = Call(operation, key=world.actors["acme"].keys["main"], body=body, **call)
    world.at(world.start + delay, lambda: replies.append(world.call(made, "tester")))
    return replies


def job(world: World, delay: int, kind: str, domain: int = 0) -> list[Reply]:
    domain_id = world.actors["acme"].domains[domain]
    return after(world, delay, "jobs.create", {"kind": kind, "domain_id": domain_id})


def since(world: World, lines: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(line[0] - world.start, *line[1:]) for line in lines]


# Accounts


def test_a_portfolio_is_made_through_the_service() -> None:
    world, log = make()
    actor = world.actors["acme"]
    account = world.service.state.accounts[actor.account]
    assert list(actor.hosts) == ["site1.acme.example", "site2.acme.example"]
    assert actor.domains == account.domains
    assert [len(actor.lists[domain]) for domain in actor.domains] == [3, 3]
    assert (len(account.keywords), len(account.labels), len(account.competitors)) == (20, 2, 4)
    assert (account.books.active, len(account.scans)) == (20, 2)
    lists = [len(world.service.state.keyword_lists[which].words) for which in account.keyword_lists]
    assert lists == [4, 3, 3, 4, 3, 3]
    assert log.of("call") == []
    assert actor.fresh_words(actor.domains[0], 2) == ["keyword 11", "keyword 12"]
    assert actor.words[actor.domains[1]] == 10


def test_a_large_portfolio_books_all_its_slots() -> None:
    portfolio = """\
    portfolio:
      domains: 40
      keywords: 300
      scans: [{engine_devices: [google/desktop, bing/mobile], geographies: [US, {country: DE, language: de}]}]
"""
    text = BASE.replace("plan: pro", "plan: agency").splitlines(keepends=True)[:-1]
    world = World(scenario(portfolio, "".join(text)))
    assert world.service.state.accounts[world.actors["acme"].account].books.active == 48_000


def test_keys_work_and_a_scoped_one_sees_its_domain_alone() -> None:
    world, _ = make()
    keys = world.actors["acme"].keys
    seen = [world.call(Call("domains.list", key=keys[name])).body for name in ("main", "shop")]
    assert [len((body or {})["data"]) for body in seen] == [2, 1]


def test_a_past_due_account_owns_its_portfolio_and_cannot_spend() -> None:
    text = BASE.replace("plan: pro", "plan: pro\n    status: past_due")
    world = World(scenario(base=text))
    replies = job(world, 0, "rank_run")
    world.run()
    assert replies[0].code == "subscription_inactive"
    assert world.service.state.accounts[world.actors["acme"].account].books.active == 20


def test_a_portfolio_that_the_plan_refuses_is_bad_input() -> None:
    text = BASE.replace("lists: 3", "scans: [{geographies: [US, DE, FR, IT, ES, PT]}]")
    with pytest.raises(BadInput, match=r"accounts\.acme\.portfolio\.scans\[0\]\.geographies: asks for 6"):
        World(scenario(base=text))


# Jobs


def test_a_job_of_a_pool_waits_runs_and_ends() -> None:
    world, log = make("pools: {rank_run: {capacity: 1, duration: 4m}}\n")
    first, second = job(world, 0, "rank_run", 0), job(world, MINUTE, "rank_run", 1)
    world.run()
    assert [reply[0].status for reply in (first, second)] == [202, 202]
    assert since(world, log.of("queued", "started", "ended", "pool")) == [
        (0, "pool", "rank_run", 0, 1, 0),
        (0, "queued", "rank_run"),
        (0, "started", "rank_run"),
        (0, "pool", "rank_run", 1, 1, 0),
        (MINUTE, "queued", "rank_run"),
        (MINUTE, "pool", "rank_run", 1, 1, 1),
        (4 * MINUTE, "ended", "rank_run", "done"),
        (4 * MINUTE, "started", "rank_run"),
        (4 * MINUTE, "pool", "rank_run", 1, 1, 0),
        (8 * MINUTE, "ended", "rank_run", "done"),
        (8 * MINUTE, "pool", "rank_run", 0, 1, 0),
    ]


def only_job(world: World) -> Any:
    (made,) = world.service.state.jobs.values()
    return made


def test_what_a_job_costs_is_its_estimate_times_the_factor() -> None:
    world, _ = make("pools: {rank_run: {capacity: 1, duration: 1m, cost_factor: 1.5}}\n")
    job(world, 0, "rank_run")
    world.run()
    done = only_job(world)
    assert done.estimate > 0
    assert done.cost == round(1.5 * done.estimate)


def test_a_job_that_a_full_queue_refuses_fails() -> None:
    world, log = make("pools: {crawl: {capacity: 0, queue_limit: 0}}\n")
    job(world, 0, "crawl")
    world.run()
    assert (only_job(world).status, only_job(world).error_detail) == ("failed", "queue full")
    assert [line[1] for line in log.of("queued", "started", "ended")] == ["queued", "ended"]


def test_a_worker_that_always_fails() -> None:
    world, _ = make("pools: {crawl: {capacity: 1, failure_rate: 1, error: blocked}}\n")
    job(world, 0, "crawl")
    world.run()
    assert (only_job(world).status, only_job(world).error_detail) == ("failed", "blocked")


def test_without_a_pool_in_the_scenario_every_job_starts_at_once() -> None:
    world, log = make()
    job(world, 0, "rank_run")
    world.run()
    assert only_job(world).status == "done"
    assert log.of("queued", "started") == [
        (world.start, "queued", "rank_run"),
        (world.start, "started", "rank_run"),
    ]


@pytest.mark.parametrize(
    "pools",
    [
        "pools: {rank_run: {capacity: 1, duration: 10m}}\n",
        "pools: {rank_run: {capacity: unlimited, duration: 10m}}\n",
    ],
)
def test_what_falls_due_precedes_a_call_of_the_same_instant(pools: str) -> None:
    world, _ = make(pools)
    status: list[str] = []

    def look(when: int) -> None:
        path = {"kind": "rank_run", "id": only_job(world).id}
        reply = world.call(Call("jobs.get", key=world.actors["acme"].keys["main"], path=path))
        status.append((reply.body or {})["data"]["status"])

    def plan() -> None:
        made = only_job(world)
        end = made.due or world.start + 10 * MINUTE
        for when in (end - 1, end):
            world.at(when, look, when)

    world.at(world.start, lambda: None)
    job(world, 0, "rank_run")
    world.at(world.start, plan)
    world.run()
    assert status == ["running", "done"]


def test_a_reply_is_written_at_once_so_a_repeat_is_replayed() -> None:
    world, _ = make()
    body = {"host": "new.example"}
    replies = [after(world, delay, "domains.create", body, idempotency_key="once") for delay in (0, 0, HOUR)]
    world.run()
    assert [reply[0].outcome for reply in replies] == ["ok", "replayed", "replayed"]


# Webhooks

RECEIVER = "receivers: {{erp: {{account: acme, {}}}}}\npools: {{rank_run: {{capacity: 1, duration: 4m}}}}\n"


def attempts(world: World, log: Log) -> list[tuple[Any, ...]]:
    return [(at, *rest) for at, _, *rest in since(world, log.of("attempt"))]


@pytest.mark.fact("S76", "S87", "S90")
def test_an_event_is_tried_again_until_the_receiver_is_back() -> None:
    world, log = make(RECEIVER.format("outages: [{from: 0s, for: 10m}], latency: 1s"))
    job(world, 0, "rank_run")
    world.run()
    assert attempts(world, log) == [
        (4 * MINUTE, 1, "connection refused", False),
        (5 * MINUTE, 2, "connection refused", False),
        (10 * MINUTE + SECOND, 3, 200, True),
    ]


@pytest.mark.fact("E24", "S88", "S93")
def test_a_receiver_that_is_slow_acts_and_gets_the_event_again() -> None:
    world, log = make(RECEIVER.format("latency: 10100ms"))
    job(world, 0, "rank_run")
    world.run()
    first, second = attempts(world, log)[:2]
    assert first == (4 * MINUTE + 10 * SECOND, 1, "timeout", True)
    assert second == (5 * MINUTE + 20 * SECOND, 2, "timeout", True)


def test_an_attempts_outcome_precedes_a_call_of_the_same_instant() -> None:
    world, _ = make(RECEIVER.format("latency: 1s"))
    after(world, 0, "webhooks.test", path={"id": world.endpoints["erp"]})
    looks = [after(world, delay, "webhook_deliveries.list") for delay in (SECOND - 1, SECOND)]
    world.run()
    assert [len((reply[0].body or {})["data"]) for reply in looks] == [0, 1]


@pytest.mark.fact("S91", "E27")
def test_what_is_answered_after_an_endpoint_was_disabled_changes_nothing() -> None:
    world, log = make(RECEIVER.format("latency: 1s, script: [500]"))
    for _ in range(25):
        after(world, 0, "webhooks.test", path={"id": world.endpoints["erp"]})
    world.run()
    assert len(since(world, log.of("disabled"))) == 1
    assert len(log.of("attempt")) == 25


@pytest.mark.fact("S91", "S22", "E22")
def test_a_disabled_endpoint_is_told_once() -> None:
    world, log = make(RECEIVER.format("when_down: 503, outages: [{from: 0s, for: 2d}], latency: 0s"))
    for _ in range(10):
        after(world, 0, "webhooks.test", path={"id": world.endpoints["erp"]})
    world.run()
    (disabled,) = since(world, log.of("disabled"))
    assert disabled[:3] == (MINUTE, "disabled", "erp")
    assert len(log.of("attempt")) == 20


def test_a_receiver_hears_of_its_domain_and_types_alone() -> None:
    world, log = make(RECEIVER.format("domain: site2.acme.example, event_types: [job.completed]"))
    job(world, 0, "rank_run", 0)
    job(world, 0, "rank_run", 1)
    world.run()
    assert [line[1:] for line in attempts(world, log)] == [(1, 200, True)]


@pytest.mark.parametrize(
    ("url", "answer"),
    [("https://receiver.example/erp", 200), ("https://x.example", "no receiver at this address")],
)
def test_an_endpoint_made_by_a_client_reaches_the_receiver_of_its_url(url: str, answer: int | str) -> None:
    world, log = make(RECEIVER.format("event_types: [job.failed]"))
    after(world, 0, "webhooks.create", {"url": url, "event_types": [], "domain_id": None})
    job(world, 0, "rank_run")
    world.run()
    assert attempts(world, log)[0][2] == answer


@pytest.mark.parametrize("name", ["erp_slow", '"the ERP, new/ä"', "-x"])
def test_a_receiver_may_have_any_name(name: str) -> None:
    world, log = make(RECEIVER.format("latency: 1s").replace("erp", name, 1))
    job(world, 0, "rank_run")
    world.run()
    assert attempts(world, log)[0][2] == 200


def test_an_endpoint_deleted_while_an_attempt_is_out_is_no_trouble() -> None:
    world, log = make(RECEIVER.format("latency: 5s"))
    after(world, 0, "webhooks.test", path={"id": world.endpoints["erp"]})
    after(world, SECOND, "webhooks.delete", path={"id": world.endpoints["erp"]})
    world.run()
    assert attempts(world, log) == [(5 * SECOND, 1, 200, True)]


def test_a_tick_is_at_least_a_microsecond() -> None:
    with pytest.raises(BadInput, match=r"^tick: expected at least 1 µs, found 0$"):
        make(env=simpy.Environment(), tick=0)


def test_an_endpoint_that_the_service_refuses_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"receivers\.erp: the service refused the endpoint"):
        make(RECEIVER.format("event_types: [job.nonsense]"))


# Time


def test_a_run_is_sampled_from_start_to_end_and_closed_there() -> None:
    world, log = make("sample_every: 12h\n")
    late = after(world, 2 * DAY, "account.get")
    assert world.run() == "statistics"
    assert since(world, log.lines) == [
        (0, "sample"),
        (12 * HOUR, "sample"),
        (24 * HOUR, "sample"),
        (36 * HOUR, "sample"),
        (48 * HOUR, "finish"),
    ]
    assert (late, world.now, world.tally) == ([], world.end, None)
    assert world.finish() == "statistics"


BUSY = (
    "pools: {rank_run: {capacity: 1}, crawl: {capacity: 2, failure_rate: 0.5}}\n"
    "receivers: {erp: {account: acme, latency: {uniform: {low: 1s, high: 20s}}, "
    "mtbf: {exponential: {mean: 2h}}, mttr: {exponential: {mean: 10m}}}}\n"
)


def busy(**options: Any) -> tuple[World, Log]:
    """A world with jobs every hour and a bit, in pools that queue."""
    world, log = make(BUSY, **options)
    for hour in range(40):
        for domain in (0, 1):
            for kind in ("rank_run", "crawl", "site_optimization"):
                job(world, hour * (HOUR + SECOND), kind, domain)
    return world, log


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    logs = []
    for seed in (3, 3, 4):
        world, log = busy(seed=seed)
        world.run()
        logs.append(log.lines)
    assert len(logs[0]) > 400
    assert logs[0] == logs[1] != logs[2]


@pytest.mark.parametrize(("initial", "tick"), [(0, 1), (0, SECOND), (0.0, SECOND), (0.0, MINUTE)], ids=str)
def test_in_a_callers_environment_everything_is_the_same(initial: float, tick: int) -> None:
    own, expected = busy()
    own.run()
    env = simpy.Environment(initial)
    ticks: list[float] = []

    def metronome() -> Generator[simpy.Event, None, None]:
        while True:
            yield env.timeout(HOUR / tick)
            ticks.append(env.now)

    env.process(metronome())
    world, log = busy(env=env, tick=tick)
    env.run(until=3 * DAY // tick)
    assert log.lines == expected.lines
    assert world.replication == "statistics"
    assert len(ticks) == 71


def test_a_world_may_begin_late_in_a_callers_environment() -> None:
    env = simpy.Environment(7)
    world, log = make(env=env, tick=SECOND)
    assert world.now == world.start + 7 * SECOND
    replies = job(world, 8 * SECOND, "rank_run")
    world.run()
    assert (replies[0].status, env.now) == (202, 2 * DAY // SECOND)
    assert since(world, log.lines)[-1] == (2 * DAY, "finish")


CLIENTS = """
clients:
  steady: {kind: caller, account: acme, every: 12h, mix: {account.get: 1}}
  later: {kind: poller, account: acme, every: 12h, operation: jobs.list, starts: 1d}
"""


def test_the_clients_of_a_world_that_begins_late_begin_with_it() -> None:
    world, log = make(CLIENTS, env=simpy.Environment(3600), tick=SECOND)
    world.run()
    calls = [(t, what) for t, what, *_ in since(world, log.lines) if what == "call"]
    assert [t for t, _ in calls] == [hours * HOUR for hours in (1, 13, 24, 25, 36, 37)]


def test_a_timeline_cannot_begin_before_its_world() -> None:
    action = "timeline:\n  - {at: 30m, do: set_status, account: acme, status: past_due}\n"
    with pytest.raises(BadInput, match=r"^timeline\[0\]\.at: .*T00:30:00Z is past, the environment stands"):
        make(action, env=simpy.Environment(3600), tick=SECOND)


def test_a_client_may_be_a_generator_in_the_callers_environment() -> None:
    env = simpy.Environment()
    world, log = make(env=env, tick=SECOND)
    seen: list[tuple[float, int]] = []

    def client() -> Generator[simpy.Event, None, None]:
        for _ in range(3):
            reply = world.call(Call("account.get", key=world.actors["acme"].keys["main"]), "mine")
            seen.append((env.now, reply.status))
            yield world.timeout(90 * SECOND)

    world.process(client())
    env.run(until=1000)
    assert seen == [(0, 200), (90, 200), (180, 200)]
    assert [line[2] for line in log.of("call")] == ["mine"] * 3


def test_what_goes_wrong_in_a_client_is_not_swallowed() -> None:
    world, _ = make()

    def stumble() -> None:
        raise RuntimeError("bug of mine")

    world.after(HOUR, stumble)
    with pytest.raises(RuntimeError, match="bug of mine"):
        world.run()


def test_a_trace_gets_every_exchange_and_delivery() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.lines: list[tuple[Any, ...]] = []
            self.state: object = None

        def watch(self, state: object) -> None:
            self.state = state

        def exchange(self, now: int, client: str, call: Call, reply: Reply) -> None:
            self.lines.append((now, client, call.operation, reply.status))

        def delivery(self, sent: int, answered: int, task: Attempt, answer: Answer, acted: bool) -> None:
            self.lines.append((sent, answered, answer.status, acted))

    trace = Recorder()
    world, _ = make(RECEIVER.format("latency: 2s"), trace=trace)
    after(world, 0, "webhooks.test", path={"id": world.endpoints["erp"]})
    world.run()
    start = world.start
    assert trace.state is world.service.state
    assert trace.lines == [(start, "tester", "webhooks.test", 202), (start, start + 2 * SECOND, 200, True)]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length_of_a_run() -> None:
    world = World(scenario().replace(length="30d"))
    call = Call("slots.get", key=world.actors["acme"].keys["main"])
    counts: list[int] = []

    def every(delay: int, function: Callable[[], object]) -> None:
        function()
        world.after(delay, every, delay, function)

    def count() -> None:
        gc.collect()
        counts.append(len(gc.get_objects()))

    every(5 * MINUTE, lambda: world.call(call, "reader"))
    every(10 * DAY, count)
    world.run()
    assert len(counts) == 3
    assert counts[2] - counts[1] < 50


def test_a_remark_goes_to_the_statistics() -> None:
    world, log = make()
    world.note("by the way")
    assert log.of("note") == [(0, "note", "by the way")]
    World(scenario()).note("nobody listens")


def test_clients_of_the_scenario_are_at_work() -> None:
    world, log = make(
        "clients: {look: {kind: poller, account: acme, operation: account.get, every: 6h, stops: 1d}}\n"
    )
    world.run()
    assert since(world, log.of("call")) == [
        (hours * HOUR, "call", "look", "account.get", 200) for hours in (0, 6, 12, 18)
    ]


def test_a_world_checks_its_scenario() -> None:
    broken = scenario().model_copy(update={"warm_up": 3 * DAY})
    with pytest.raises(BadInput, match="warm_up"):
        World(broken)


@pytest.mark.fact("S91")
def test_events_that_a_disabled_endpoint_never_gets_are_counted_as_lost() -> None:
    """Of thirty a night for a week the first night's disable it: none of 210 arrives."""
    counted = run(
        Scenario.parse("""\
start: 2026-03-02T00:00:00Z
length: 7d
accounts: {us: {plan: agency, portfolio: {domains: 30}}}
clients: {runs: {kind: schedule, account: us, job: rank_run, every: day, at: "01:00"}}
pools: {rank_run: {capacity: unlimited, duration: 2m}}
receivers: {erp: {account: us, outages: [{from: 30m, for: 3h}]}, other: {account: us}}
""")
    )
    erp, other = counted.tables["endpoints"]
    assert (erp["events"], erp["acknowledged"], erp["lost"], erp["pending"]) == (210, 0, 210, 0)
    assert erp["lost_cancelled"] + erp["lost_suppressed"] == 210
    assert erp["lost_suppressed"] >= 180  # six whole nights
    assert (other["events"], other["acknowledged"], other["lost_suppressed"]) == (210, 210, 0)
    (off,) = counted.tables["disabled"]
    assert (off["endpoint"], off["until"], off["share"]) == ("erp", counted.replications[0].end, 1)
    assert counted.metric("deliveries.lost").mean == 210
    totals = {row["what"]: row["value"] for row in counted.tables["totals"]}
    assert (totals["events"], totals["lost"]) == (420, 210)


def test_samples_of_a_long_run_show_an_allowance_as_each_week_ends() -> None:
    """Six briefs a day are 42 a week, from a Monday on."""
    briefs = {"kind": "brief_refresher", "account": "acme", "keywords": 6, "every": "1d"}
    scenario = Scenario.model_validate(
        {
            "start": "2026-03-02T00:00:00Z", "length": "210d",
            "accounts": {"acme": {"plan": "pro", "portfolio": {"domains": 1, "keywords": 6}}},
            "clients": {"briefs": briefs},
        }
    )  # fmt: skip
    result = run(scenario)
    meters = result.tables["meters"]
    used = [row["used"] for row in meters if row["metric"] == "keyword_brief_refreshes"]
    assert used[7::7] == [42] * 30
    assert result.metric("spend.acme.max").mean == 31 * 6 * 30_000
