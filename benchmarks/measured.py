"""What is measured of one checkout, in a process of its own: `python measured.py`, its src on the path.

A line "name count" on standard input does a thing so often, and is answered with the processor time that it
took, in ns; of what runs beside others, the time on the clock. Other versions of ranksim must be able to run
this file, so it uses nothing that they may lack.
"""

from __future__ import annotations

import gc
import inspect
import sys
import time
from collections.abc import Callable
from typing import Any

from ranksim.core.clock import HOUR, SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.rules.windows import NAMES
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service

START = instant("2026-03-04T10:00:00Z")

PLAN: dict[str, Any] = {
    "price": "0 USD",
    "capabilities": ("rank_tracking", "site_crawl", "keyword_briefs"),
    "quotas": {
        "lookups": {"limit": 10**9, "period": "month"},
        "briefs": {"limit": 10**9, "period": "week", "consumed_by": ("keyword_briefs",)},
    },
    "slot_limit": 10**9,
    "dimensions": {"max_engine_devices": 9, "max_geographies": 9},
    "cost_ceiling": "1000000 USD",
    "cooldowns": {"rank_run": "0s", "crawl": "0s", "site_optimization": "0s", "ai_scan": "0s"},
    "page_cap": 1000,
    "call_cap": 1000,
}
"""A plan on which nothing runs out."""

RATES = {"read": 10**9, "write": 10**9, "expensive": 10**9}

POLICY = Policy().replace(facts={"rates": RATES}, catalogue={"plans": {"wide": PLAN}})

READS = "reads" in inspect.signature(Service.handle).parameters
"""Whether a driver can say that it will not read a page; before, each was built."""


class Desk:
    """A service with one account, a key, a domain, a list with 50 keywords, and a crawl under way."""

    def __init__(self) -> None:
        self.service = Service(POLICY, seed=1)
        self.now = START
        account = self.service.open_account("desk", "wide", START)
        self.key = self.service.issue_key(account, "main", START)
        self.domain = self.made("domains.create", {"host": "www.example.com"})["id"]
        self.list = self.made("keyword_lists.create", {"domain_id": self.domain, "name": "all"})["id"]
        words = [f"running shoes {number}" for number in range(50)]
        self.made("keywords.create", {"list_id": self.list, "keywords": words})
        self.job = self.made("jobs.create", {"kind": "crawl", "domain_id": self.domain})["id"]

    def made(self, operation: str, body: dict[str, Any]) -> Any:
        reply = self.service.handle(Call(operation, key=self.key, body=body), self.now).reply
        assert reply.body is not None
        assert reply.status < 300, reply.body
        return reply.body["data"]

    def call(
        self,
        operation: str,
        count: int,
        body: Any = None,
        path: Any = None,
        apart: int = SECOND // 10,
        **more: Any,
    ) -> int:
        """Make a call so often, `apart` µs from one to the next."""
        handle, key, now = self.service.handle, self.key, self.now
        path = path or {}
        begun = time.process_time_ns()
        for _ in range(count):
            now += apart
            handle(Call(operation, key=key, path=path, body=body), now, **more)
        took = time.process_time_ns() - begun
        self.now = now
        return took

    def words(self, count: int) -> int:
        """Add so many keywords, one a call."""
        bodies = [
            {"list_id": self.list, "keywords": [f"word {self.now} {number}"]} for number in range(count)
        ]
        handle, key, now = self.service.handle, self.key, self.now
        begun = time.process_time_ns()
        for body in bodies:
            now += SECOND // 10
            handle(Call("keywords.create", key=key, body=body), now)
        took = time.process_time_ns() - begun
        self.now = now
        return took


def refused(desk: Desk, count: int) -> int:
    """Make calls that the rate limit refuses."""
    service = Service(Policy().replace(facts={"rates": {"read": 1, "write": 1, "expensive": 1}}), seed=1)
    key = service.issue_key(service.open_account("desk", "pro", START), "main", START)
    service.handle(Call("account.usage", key=key), START)
    begun = time.process_time_ns()
    for number in range(count):
        service.handle(Call("account.usage", key=key), START + number)
    return time.process_time_ns() - begun


def lives(_: Desk, count: int) -> int:
    """Run a world in which so many crawls are asked for, queued, drawn, run, ended and told of."""
    from ranksim.twin.sim.scenario import Scenario
    from ranksim.twin.sim.world import World

    scenario = Scenario.model_validate(
        {
            "scenario": 1,
            "start": START,
            "length": f"{count}m",
            "policy": POLICY,
            "accounts": {"desk": {"plan": "wide", "portfolio": {"domains": 3}}},
            "clients": {
                "one": {
                    "kind": "caller",
                    "account": "desk",
                    "mix": {"jobs.create": {"body": {"kind": "crawl"}}},
                    "every": "1m",
                }
            },
            "pools": {"crawl": {"capacity": 100}},
            "receivers": {"there": {"account": "desk"}},
        }
    )
    world = World(scenario)
    begun = time.process_time_ns()
    world.run()
    took = time.process_time_ns() - begun
    assert len(world.service.state.jobs) == count
    return took


def scenario(name: str) -> Callable[[Desk, int], int]:
    """Run so many hours of a scenario, and count its calls."""

    def run(_: Desk, hours: int) -> int:
        from ranksim.twin.sim.runner import run as run_scenario
        from ranksim.twin.sim.scenario import Scenario

        given = Scenario.load(f"scenarios/{name}.yaml")
        if hours:
            given = given.replace(length=f"{hours}h", expect=[])
        begun = time.process_time_ns()
        run_scenario(given, replications=1)
        return time.process_time_ns() - begun

    return run


def customers(accounts: int) -> Any:
    """The customers of the examples, so many of them."""
    from ranksim.planner.fleet.population import Population

    return Population.load("examples/pricing/population.yaml").replace(accounts=accounts)


def compared(_: Desk, replications: int) -> int:
    """Compare the catalogues of the examples on 10,000 customers, so many replications; once compiled."""
    from ranksim.planner.pricing.catalogues import read_catalogue
    from ranksim.planner.pricing.compare import compare

    a, b = read_catalogue("illustrative"), read_catalogue("examples/pricing/tighter.yaml")
    compare(customers(10), a, b, replications=2)
    begun = time.process_time_ns()
    compare(customers(10_000), a, b, replications=replications)
    return time.process_time_ns() - begun


def served(threads: int) -> Callable[[Desk, int], int]:
    """Serve a fleet of so many customers on threads, once compiled: the time on the clock."""

    def run(_: Desk, accounts: int) -> int:
        from ranksim.planner.fleet.engine import simulate_fleet

        simulate_fleet(customers(1), compiled=True)
        begun = time.perf_counter_ns()
        simulate_fleet(customers(accounts), threads=threads, compiled=True)
        return time.perf_counter_ns() - begun

    return run


def spun(_: Desk, millions: int) -> int:
    """Compute, and nothing else: the time on the clock."""
    total, begun = 0, time.perf_counter_ns()
    for number in range(millions * 1_000_000):
        total += number * number
    return time.perf_counter_ns() - begun


def recorded(window: str) -> Callable[[Desk, int], int]:
    """Serve so many million recorded calls, made before, under a rate window."""

    def run(_: Desk, millions: int) -> int:
        from test_recorded import fleet_of, made

        columns = made(millions)
        fleet, took = fleet_of(columns, window), 0
        for chunk in columns.chunks():
            begun = time.process_time_ns()
            fleet.serve(chunk)
            took += time.process_time_ns() - begun
        return took

    return run


UNREAD = {"reads": False} if READS else {}

THINGS: dict[str, Callable[[Desk, int], int]] = {
    "jobs.get": lambda desk, n: desk.call("jobs.get", n, path={"kind": "crawl", "id": desk.job}),
    "account.usage": lambda desk, n: desk.call("account.usage", n),
    "keywords.list": lambda desk, n: desk.call("keywords.list", n),
    "keywords.list unread": lambda desk, n: desk.call("keywords.list", n, **UNREAD),
    "jobs.create dry run": lambda desk, n: desk.call(
        "jobs.create", n, {"kind": "crawl", "domain_id": desk.domain, "dry_run": True}
    ),
    "jobs.create": lambda desk, n: desk.call(
        "jobs.create", n, {"kind": "crawl", "domain_id": desk.domain}, apart=HOUR
    ),
    "jobs.create beside hundreds": lambda desk, n: desk.call(
        "jobs.create", n, {"kind": "crawl", "domain_id": desk.domain}, apart=4 * SECOND
    ),
    "keywords.create": lambda desk, n: desk.words(n),
    "429": refused,
    "life of a job": lives,
    "real-arrivals-month": scenario("real-arrivals-month"),
    "agency-month": scenario("agency-month"),
    "retry-storm-obey": scenario("retry-storm-obey"),
    "retry-storm-ignore": scenario("retry-storm-ignore"),
    "price compare, 10,000 customers": compared,
    "a fleet on one thread": served(1),
    "a fleet on two threads": served(2),
    "computing": spun,
    **{f"recorded {window}": recorded(window) for window in NAMES},
}
"""What is done so often, on a desk of its own, and returns the processor time that it took, in ns."""


def main() -> None:
    """Answer until the input ends."""
    desks: dict[str, Desk] = {}
    for line in sys.stdin:
        name, _, count = line.strip().rpartition(" ")
        if name not in desks:
            desks[name] = Desk()
        gc.collect()
        gc.disable()
        took = THINGS[name](desks[name], int(count))
        gc.enable()
        print(took, flush=True)


if __name__ == "__main__":
    main()
