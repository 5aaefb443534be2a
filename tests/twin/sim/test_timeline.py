"""The timeline: each action does what it says, at its instant."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.state import Account, Endpoint
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

BASE = """\
start: 2026-01-05T00:00:00Z
length: 2d
accounts:
  acme:
    plan: pro
    keys: [main, spare]
    portfolio: {domains: 2, keywords: 10, scans: [{}, {geographies: [DE]}]}
pools: {crawl: {capacity: 0, duration: 1m}}
receivers: {erp: {account: acme}}
timeline:
"""


def make(*actions: str) -> World:
    lines = "".join(f"  - {{{action}}}\n" for action in actions)
    return World(Scenario.parse(BASE + lines, "timeline.yaml"))


def account(world: World) -> Account:
    return world.service.state.accounts[world.actors["acme"].account]


def endpoint(world: World) -> Endpoint:
    return world.service.state.endpoints[world.endpoints["erp"]]


def around(world: World, at: int, look: Callable[[World], Any]) -> tuple[Any, Any]:
    """What `look` sees a microsecond before an instant, and then in it, after the timeline."""
    seen: list[Any] = []
    for when in (at - 1, at):
        world.at(world.start + when, lambda: seen.append(look(world)))
    world.run()
    before, after = seen
    return before, after


def used(world: World) -> tuple[int, int]:
    reply = world.app_call(world.actors["acme"], "slots.get", None)
    data = (reply.body or {})["data"]
    return data["active"], data["held"]


def call(world: World, key: str = "main") -> Reply:
    return world.call(Call("domains.list", key=world.actors["acme"].keys[key]))


def hosts(world: World) -> list[int]:
    """The numbers of the domains that there are, in the service as in the account at work."""
    domains = [domain.host for domain in world.service.state.domains.values()]
    assert domains == list(world.actors["acme"].hosts)
    return [int(host.partition(".")[0].removeprefix("site")) for host in domains]


def scans(world: World) -> list[bool]:
    return [scan.active for scan in world.service.state.scans.values()]


@pytest.mark.parametrize(
    ("action", "look", "before", "after"),
    [
        ("do: change_plan, account: acme, plan: agency", lambda w: account(w).plan, "pro", "agency"),
        ("do: set_add_on, account: acme, add_on: brief_pack, count: 3", lambda w: account(w).add_ons,
         {}, {"brief_pack": 3}),
        ("do: set_status, account: acme, status: unpaid", lambda w: account(w).status, "active", "unpaid"),
        ("do: issue_key, account: acme, key: late", lambda w: "late" in w.actors["acme"].keys, False, True),
        ("do: withdraw_key, account: acme, key: spare", lambda w: call(w, "spare").status, 200, 401),
        ("do: pause_scan, account: acme", used, (40, 0), (0, 40)),
        ("do: pause_scan, account: acme, domain: site2.acme.example", scans,
         [True] * 4, [True, True, False, False]),
        ("do: add_domains, account: acme, domains: 2", hosts, [1, 2], [1, 2, 3, 4]),
        ("do: add_domains, account: acme, domains: [new.example]", used, (40, 0), (60, 0)),
        ("do: add_domains, account: acme, domains: 3, keywords: 7, scans: [{}]", used, (40, 0), (61, 0)),
        ("do: add_domains, account: acme, keywords: 2480", used, (40, 0), (5000, 0)),
        ("do: remove_domains, account: acme, domains: [site1.acme.example]", hosts, [1, 2], [2]),
        ("do: remove_domains, account: acme, domains: 1", used, (40, 0), (20, 20)),
        ("do: add_keywords, account: acme, count: 5", used, (40, 0), (60, 0)),
        ("do: add_keywords, account: acme, count: 5, domain: site1.acme.example", used, (40, 0), (50, 0)),
        ("do: remove_keywords, account: acme, count: 3", used, (40, 0), (28, 12)),
        ("do: remove_keywords, account: acme, count: 99, domain: site2.acme.example", used,
         (40, 0), (20, 20)),
        ("do: edit_endpoint, receiver: erp, event_types: [job.failed]", lambda w: endpoint(w).event_types,
         [], ["job.failed"]),
        ("do: edit_endpoint, receiver: erp, enabled: false", lambda w: endpoint(w).enabled, True, False),
        ("do: receiver_down, receiver: erp", lambda w: w.receivers["erp"].down, False, True),
        ("do: resize_pool, pool: crawl, capacity: 4", lambda w: w.pools["crawl"].capacity, 0, 4),
        ("do: resize_pool, pool: crawl, capacity: unlimited", lambda w: w.pools["crawl"].capacity, 0, None),
    ],
)  # fmt: skip
@pytest.mark.fact("S27")
def test_an_action(action: str, look: Callable[[World], Any], before: Any, after: Any) -> None:
    def copied(world: World) -> Any:
        seen = look(world)
        return seen.copy() if isinstance(seen, dict | list) else seen

    assert around(make(f"at: 1d, {action}"), DAY, copied) == (before, after)


def test_what_was_paused_down_or_disabled_comes_back() -> None:
    world = make(
        "at: 1h, do: pause_scan, account: acme",
        "at: 1h, do: receiver_down, receiver: erp",
        "at: 1h, do: edit_endpoint, receiver: erp, enabled: false",
        "at: 2h, do: resume_scan, account: acme",
        "at: 2h, do: receiver_up, receiver: erp",
        "at: 2h, do: enable_endpoint, receiver: erp",
    )

    def look(world: World) -> tuple[list[bool], bool, bool]:
        return scans(world), world.receivers["erp"].down, endpoint(world).enabled

    assert around(world, 2 * HOUR, look) == (([False] * 4, True, False), ([True] * 4, False, True))


def test_keywords_of_a_list_that_is_gone_are_left_alone() -> None:
    world = make("at: 1h, do: remove_keywords, account: acme, count: 3")
    actor = world.actors["acme"]
    deleted = actor.lists[actor.domains[0]][0]
    world.at(world.start, lambda: world.app_call(actor, "keyword_lists.delete", None, id=deleted))
    # The list of the first domain held 20 slots, and three keywords of the second go.
    assert around(world, HOUR, used) == ((20, 20), (14, 26))


def test_an_issued_key_may_be_scoped_and_replace_an_old_token() -> None:
    world = make("at: 1h, do: issue_key, account: acme, key: main, domain: site2.acme.example")

    def look(world: World) -> tuple[str, int]:
        return world.actors["acme"].keys["main"], len((call(world).body or {})["data"])

    (old, both), (new, one) = around(world, HOUR, look)
    assert old != new
    assert (both, one) == (2, 1)


def test_more_workers_take_up_what_waits() -> None:
    world = make("at: 1h, do: resize_pool, pool: crawl, capacity: 1")
    body = {"kind": "crawl", "domain_id": world.actors["acme"].domains[0]}
    made = world.call(Call("jobs.create", key=world.actors["acme"].keys["main"], body=body))
    world.run()
    job = world.service.state.jobs[(made.body or {})["data"]["id"]]
    times = [(t or 0) - world.start for t in (job.started_at, job.finished_at)]
    assert times == [HOUR, HOUR + MINUTE]


def test_calls_of_the_timeline_are_counted_as_its_own() -> None:
    lines: list[tuple[str, str, int]] = []

    class Count:
        def __init__(self) -> None:
            self.endpoint_names: dict[str, str] = {}
            self.outages: dict[str, object] = {}

        def call(self, now: int, client: str, call: Call, reply: Reply) -> None:
            lines.append((client, call.operation, reply.status))

        def observe(self, *_: object) -> None: ...

        def pool(self, *_: object) -> None: ...

        def sample(self, *_: object) -> None: ...

        def finish(self, *_: object) -> None: ...

    text = BASE + "  - {at: 1d, do: add_keywords, account: acme, count: 5000, domain: site1.acme.example}\n"
    World(Scenario.parse(text, "timeline.yaml"), tally=Count()).run()
    assert lines == [("timeline", "keywords.create", 402)]


DISABLED = "at: 1h, do: edit_endpoint, receiver: erp, enabled: false"
SO_ALREADY = "it is so already"
UNSENT = "the endpoint of receiver erp is disabled, and nothing is sent to it from then on"


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("do: set, path: scenario.pools.crawl.duration, value: 60s", SO_ALREADY),
        ("do: set, path: policy.facts.rates.read, value: 600", SO_ALREADY),
        ("do: set, path: policy.facts.rates.read, value: 121", ""),
        ("do: resize_pool, pool: crawl, capacity: 0", SO_ALREADY),
        ("do: resize_pool, pool: crawl, capacity: unlimited", ""),
        ("do: enable_endpoint, receiver: erp", SO_ALREADY),
        ("do: edit_endpoint, receiver: erp, event_types: [job.failed]", ""),
        ("do: change_plan, account: acme, plan: pro", SO_ALREADY),
        ("do: set_add_on, account: acme, add_on: brief_pack, count: 0", SO_ALREADY),
        ("do: set_status, account: acme, status: active", SO_ALREADY),
        ("do: receiver_up, receiver: erp", "no receiver_down came before it"),
        ("do: receiver_down, receiver: erp", ""),
    ],
)
def test_an_action_that_changes_nothing_is_noted(action: str, reason: str) -> None:
    text = f"timeline[0] ({action[4:].partition(',')[0]}, 2026-01-05T02:00:00Z) changes nothing: {reason}"
    assert run(make(f"at: 2h, {action}").scenario).notes == ((text,) if reason else ())


@pytest.mark.parametrize(("capacity", "reason"), [(0, ""), (2, SO_ALREADY), ("unlimited", "")])
def test_what_is_set_after_a_pool_was_resized_is_held_against_what_it_was_resized_to(
    capacity: int | str, reason: str
) -> None:
    text = "at: 1h, do: resize_pool, pool: crawl, capacity: 2"
    path = "scenario.pools.crawl.capacity"
    scenario = make(text).scenario.replace(
        timeline=[
            {"at": "1h", "do": "resize_pool", "pool": "crawl", "capacity": 2},
            {"at": "2h", "do": "set", "path": path, "value": capacity},
        ]
    )
    world = World(scenario)
    world.run()
    assert world.pools["crawl"].capacity == (None if capacity == "unlimited" else capacity)
    note = f"timeline[1] (set, 2026-01-05T02:00:00Z) changes nothing: {reason}"
    assert run(scenario).notes == ((note,) if reason else ())


@pytest.mark.parametrize(
    "change", ["receiver_down, receiver: erp", "set, path: scenario.receivers.erp.latency, value: 8s"]
)
def test_a_change_of_a_receiver_that_nothing_is_sent_to_is_noted(change: str) -> None:
    nightly = "{kind: schedule, account: acme, job: crawl, every: day, starts: 1d}"
    working = BASE.replace("capacity: 0", "capacity: 1").replace(
        "receivers:", f"clients: {{c: {nightly}}}\nreceivers:"
    )

    def notes(*more: str, after: str = DISABLED) -> tuple[str, ...]:
        actions = "".join(f"  - {{{action}}}\n" for action in (after, f"at: 2h, do: {change}", *more))
        return run(Scenario.parse(working + actions)).notes

    where = f"timeline[1] ({change.partition(',')[0]}, 2026-01-05T02:00:00Z)"
    assert notes() == (f"{where} changes nothing: {UNSENT}",)
    assert notes("at: 3h, do: enable_endpoint, receiver: erp") == ()
    assert notes(after="at: 1h, do: resize_pool, pool: crawl, capacity: 2") == ()


def test_what_changes_nothing_in_some_replications_is_noted_of_so_many() -> None:
    """An endpoint that failures disable in some replications is enabled in all."""
    flaky = (
        BASE.replace("capacity: 0", "capacity: unlimited")
        .replace("domains: 2", "domains: 9")
        .replace(
            "erp: {account: acme}",
            "erp: {account: acme, mtbf: {exponential: {mean: 6h}}, mttr: {constant: 9h}}",
        )
    )
    client = "clients: {c: {kind: schedule, account: acme, job: crawl, every: day}}\n"
    result = run(
        Scenario.parse(client + flaky + "  - {at: 30h, do: enable_endpoint, receiver: erp}\n"), replications=8
    )
    count = sum("timeline[0] (" in text for each in result.replications for text in each.notes)
    assert 0 < count < 8
    assert result.notes == (
        f"in {count} of 8 replications timeline[0] (enable_endpoint, 2026-01-06T06:00:00Z) changes nothing: "
        f"{SO_ALREADY}",
    )


def test_actions_of_one_instant_happen_as_written() -> None:
    world = make(
        "at: 1h, do: change_plan, account: acme, plan: agency",
        "at: 1h, do: change_plan, account: acme, plan: free",
        "at: 2026-01-05T01:00:00Z, do: change_plan, account: acme, plan: pro",
    )
    world.run()
    assert account(world).plan == "pro"


# Domains that come and go, and who starts jobs for them

GROWING = """\
start: 2026-03-01T00:00:00Z
length: 4d
accounts:
  us:
    plan: agency
    portfolio: {domains: %s, keywords: 10}
    further: [{domains: [big.example], keywords: 90}]
clients:
  nightly: {kind: schedule, account: us, job: rank_run, every: day, at: "02:00", domains: %s}
pools: {rank_run: 2}
"""


def done(domains: int, of: Any, *actions: dict[str, Any]) -> tuple[float | None, ...]:
    timeline = f"timeline: {json.dumps(actions)}\n"
    result = run(Scenario.parse(GROWING % (domains, of) + timeline), replications=1)
    names = ("jobs.rank_run.done", "slots.us.max_used", "spend.us.max")
    return tuple(result.metric(name).mean for name in names)


def test_domains_that_are_added_at_once_are_as_if_they_had_been_there() -> None:
    added = {"at": "0s", "do": "add_domains", "account": "us", "domains": 4}
    assert done(2, "all", added) == done(6, "all")
    assert done(2, "all") != done(6, "all")


@pytest.mark.parametrize(
    "fields", [{"domains": 4}, {"domains": ["new.example"]}, {"keywords": 3}, {"scans": [{}]}]
)
def test_what_is_added_is_the_same_in_a_scenario_that_was_written_and_read(fields: dict[str, Any]) -> None:
    added = json.dumps([{"at": "1d", "do": "add_domains", "account": "us", **fields}])
    stated = Scenario.parse(GROWING % (2, "all") + f"timeline: {added}\n")
    read = Scenario.parse(stated.model_dump_json())
    assert (read, read.model_dump_json()) == (stated, stated.model_dump_json())
    assert run(read, replications=1).to_json() == run(stated, replications=1).to_json()


@pytest.mark.parametrize(
    ("of", "runs"),
    [("all", 3 + 5 + 5 + 3), (2, 4 * 2), (4, 3 + 4 + 4 + 3), ("[big.example]", 4),
     ("[site5.us.example, big.example]", 1 + 2 + 2 + 1), ("[new.example]", 0)],
)  # fmt: skip
def test_schedules_follow_the_domains_that_there_are(of: str, runs: int) -> None:
    actions: list[dict[str, Any]] = [
        {"at": "1d", "do": "add_domains", "account": "us", "domains": 1},
        {"at": "1d", "do": "add_domains", "account": "us", "domains": 1},
        {"at": "3d", "do": "remove_domains", "account": "us", "domains": 2},
        {"at": "95h", "do": "add_domains", "account": "us", "domains": ["new.example"]},
    ]
    assert done(2, of, *actions)[0] == runs


@pytest.mark.slow
def test_a_domain_that_finds_too_few_slots_is_there_without_a_scan() -> None:
    many = {"at": "1d", "do": "add_domains", "account": "us", "keywords": 10**6 // 5}
    jobs, slots, *_ = done(2, "all", many)
    assert (jobs, slots) == (3 + 4 * 3, 110)


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("domains: [big.exampel]", "clients.nightly.domains: no domain 'big.exampel'; did you mean"),
        ("domains: []", "clients.nightly.domains: expected at least 1, found 0"),
        ("starts: 2026-02-01T00:00:00Z", "clients.nightly.starts: 2026-02-01T00:00:00Z is outside the run"),
        ("starts: 5", "clients.nightly.starts: write a time since the start such as '2d'"),
        ("starts: 2026-02-30", "clients.nightly.starts: '2026-02-30' names a day that does not exist"),
        ("stops: 0s", "clients.nightly: starts and stops are times since the start"),
    ],
)  # fmt: skip
def test_a_client_that_cannot_be(client: str, message: str) -> None:
    text = (GROWING % (2, "all")).replace("domains: all", client)
    with pytest.raises(BadInput) as refused:
        Scenario.parse(text, "s.yaml")
    assert str(refused.value).startswith(f"s.yaml:9: {message}")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            "do: remove_domains, account: us, domains: 3",
            "domains: account 'us' has 3 then; leave one",
        ),
        (
            "do: remove_domains, account: us, domains: [x.example]",
            "domains: no domain 'x.example'; did you",
        ),
        (
            "do: pause_scan, account: us, domain: site4.us.example",
            "domain: no domain 'site4.us.example'",
        ),
        ("do: add_domains, account: us, keywrods: 3", "keywrods: no such field; did you mean 'keywords'?"),
    ],
)
def test_an_action_that_cannot_be(action: str, message: str) -> None:
    later = "{at: 2d, do: add_domains, account: us, domains: 1}"
    text = f"{GROWING % (2, 'all')}timeline:\n  - {later}\n  - {{at: 1d, {action}}}\n"
    with pytest.raises(BadInput) as refused:
        Scenario.parse(text, "s.yaml")
    assert str(refused.value).startswith(f"s.yaml:13: timeline[1].{message}")


def test_what_was_added_has_its_name_from_then_on() -> None:
    actions = [
        {"at": "1d", "do": "add_domains", "account": "us", "domains": 1},
        {"at": "2d", "do": "pause_scan", "account": "us", "domain": "site4.us.example"},
        {"at": "2d", "do": "remove_domains", "account": "us", "domains": ["site1.us.example"]},
    ]
    world = World(Scenario.parse(GROWING % (2, "all")).replace(timeline=actions))
    world.run()
    assert list(world.actors["us"].hosts) == ["site2.us.example", "big.example", "site4.us.example"]


def test_clients_start_and_stop_at_instants() -> None:
    text = GROWING % (2, "all")
    for times in (
        "starts: 1d, stops: 3d",
        "starts: 2026-03-02T00:00:00Z, stops: 2026-03-04T00:00:00Z",
        "starts: 1d, stops: 2026-03-04T00:00:00Z",
    ):
        result = run(Scenario.parse(text.replace("domains: all", times)), replications=1)
        assert result.metric("jobs.rank_run.done").mean == 2 * 3
