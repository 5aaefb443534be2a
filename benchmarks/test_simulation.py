"""Speed of simulated worlds against a bare SimPy loop, and what a million waiting retries weigh.

Ratios within one run: both sides are timed here, in turn, on the same machine.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest
import simpy

from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Answer, Attempt, Call
from ranksim.core.service.service import Service

CALLS = 50_000
START = 1_772_323_200_000_000


def bare_loop() -> int:
    """One SimPy process, one timeout a call, and nothing else."""

    def client(env: simpy.Environment) -> Any:
        for _ in range(CALLS):
            yield env.timeout(SECOND)

    env = simpy.Environment()
    env.process(client(env))
    env.run()
    return int(env.now) // SECOND


def served_loop(operation: str) -> tuple[Callable[[], int], Service]:
    """The same loop with a full service call at each step: key, window, rules, reply, headers."""
    service = Service(Policy(), seed=1)
    account = service.open_account("bench", "agency", START)
    key = service.issue_key(account, "main", START)
    domain = _app(service, account, "domains.create", {"host": "example.com"})
    keyword_list = _app(service, account, "keyword_lists.create", {"domain_id": domain, "name": "all"})
    words = [f"word {number}" for number in range(60)]
    _app(service, account, "keywords.create", {"list_id": keyword_list, "keywords": words}, whole=True)
    job = _app(service, account, "jobs.create", {"kind": "rank_run", "domain_id": domain})
    path = {"kind": "rank_run", "id": job} if operation == "jobs.get" else {}
    body = None
    if operation == "jobs.create":
        body = {"kind": "crawl", "domain_id": domain, "dry_run": True}

    def client(env: simpy.Environment) -> Any:
        for _ in range(CALLS):
            yield env.timeout(SECOND)
            now = START + env.now
            reply = service.handle(Call(operation, key=key, path=path, body=body), now).reply
            if reply.flight:
                service.written(reply, now)

    def loop() -> int:
        env = simpy.Environment()
        env.process(client(env))
        env.run()
        return int(env.now) // SECOND

    return loop, service


def _app(service: Service, account: str, operation: str, body: dict[str, Any], *, whole: bool = False) -> str:
    call = Call(operation, body=body, surface="app", account=account)
    reply = service.handle(call, START).reply
    assert reply.status < 300, reply.body
    assert reply.body is not None
    return "" if whole else str(reply.body["data"]["id"])


def _seconds(run: Callable[[], object]) -> float:
    begun = perf_counter()
    run()
    return perf_counter() - begun


@pytest.mark.parametrize(
    "operation", ["jobs.get", "account.usage", "slots.get", "domains.list", "jobs.create", "keywords.list"]
)
def test_service_calls_against_a_bare_loop(benchmark: Any, operation: str) -> None:
    loop, _ = served_loop(operation)
    bare = min(_seconds(bare_loop) for _ in range(3))
    benchmark.pedantic(loop, rounds=1, iterations=1)
    served = benchmark.stats.stats.min
    benchmark.extra_info["calls_per_second"] = round(CALLS / served)
    benchmark.extra_info["ratio_to_bare_simpy"] = round(bare / served, 3)
    assert served > 0


RETRIES = 1_000_000


def test_a_million_pending_retries(benchmark: Any) -> None:
    """A receiver is down: events pile up, and every one has a retry waiting. Bytes and seconds a retry."""

    def pile() -> tuple[int, float]:
        policy = Policy().replace(facts={"webhook_disable_after": 10**9})
        service = Service(policy, seed=1, pooled=("crawl",))
        account = service.open_account("bench", "agency", START)
        _app(service, account, "webhooks.create", {"url": "https://example.com/hook", "event_types": []})
        endpoint = next(iter(service.state.endpoints))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = perf_counter()
        for number in range(RETRIES):
            now = START + MINUTE + number // 100
            call = Call("webhooks.test", path={"id": endpoint}, surface="app", account=account)
            tasks = service.handle(call, now).tasks
            for task in (*tasks, *service.advance(now).tasks):
                if isinstance(task, Attempt):
                    service.attempted(task.attempt, Answer(503, None, 1_000), now)
        took = perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert len(service.state.deliveries) == RETRIES
        return (after - before) * 1024, took

    grown, took = benchmark.pedantic(pile, rounds=1, iterations=1)
    benchmark.extra_info["bytes_per_pending_retry"] = grown // RETRIES
    benchmark.extra_info["retries_per_second"] = round(RETRIES / took)


PEAK = """
import json, resource, sys
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
scenario = Scenario.load(sys.argv[1]).replace(length=sys.argv[2], expect=[])
run(scenario, replications=1)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
"""


def test_memory_of_the_agency_month(benchmark: Any) -> None:
    """Peak memory of a fresh process that runs the agency for a month, and for two."""

    def peak(length: str) -> int:
        command = [sys.executable, "-c", PEAK, "scenarios/agency-month.yaml", length]
        environment = os.environ | {"PYTHONPATH": "src"}
        printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        return int(json.loads(printed))

    month = benchmark.pedantic(peak, args=("30d",), rounds=1, iterations=1)
    two = peak("60d")
    benchmark.extra_info["peak_mb_one_month"] = round(month / 1e6)
    benchmark.extra_info["peak_mb_two_months"] = round(two / 1e6)
    assert month < 300e6
