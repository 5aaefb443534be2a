"""The timeline: each action does what it says, at its instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.state import Account, Endpoint
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
    gone = actor.lists[actor.domains[0]][0]
    world.at(world.start, lambda: world.app_call(actor, "keyword_lists.delete", None, id=gone))
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


def test_actions_of_one_instant_happen_as_written() -> None:
    world = make(
        "at: 1h, do: change_plan, account: acme, plan: agency",
        "at: 1h, do: change_plan, account: acme, plan: free",
        "at: 2026-01-05T01:00:00Z, do: change_plan, account: acme, plan: pro",
    )
    world.run()
    assert account(world).plan == "pro"
