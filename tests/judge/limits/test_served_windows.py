"""Windows of a policy, served and then judged by the same table: each algorithm explains itself."""

import random
from pathlib import Path
from typing import Any

import pytest

from ranksim.core.clock import SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.rate_table import WindowTable
from ranksim.core.rules.windows import KINDS, QUEUE
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service
from ranksim.judge.limits.calls import LimitedCall
from ranksim.judge.limits.judged import LimitVerdict, judge_limit

START = instant("2026-03-04T10:00:00Z")


def calls_under(window: dict[str, Any], seed: int, count: int = 300) -> list[LimitedCall]:
    """Draw calls to a service with one window: bursts of about the limit, and pauses of all lengths."""
    print(f"seed {seed}")
    draws, now = random.Random(seed), START
    service = Service(Policy(windows=[{"name": "one", "per": "key", **window}]), seed=1)
    key = service.issue_key(service.open_account("a", "agency", START), "k", START)
    calls = []
    while len(calls) < count:
        now += draws.choice([SECOND // 10, SECOND, 3 * SECOND, 9 * SECOND])
        for _ in range(draws.choice([1, 3, 12])):
            now += draws.choice([2000, 50_000])
            reply = service.handle(Call("domains.list", key), now).reply
            done = now + reply.wait + 1000
            calls.append(LimitedCall(f"x{len(calls)}", now - 1000, done, reply.status, reply.headers))
    return calls


@pytest.mark.fact("U1")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("algorithm", [*KINDS[:QUEUE], "concurrency"])
def test_an_algorithm_that_is_served_explains_its_calls(algorithm: str, seed: int) -> None:
    calls = calls_under({"limit": "10/4s", "algorithm": algorithm}, seed)
    judged = judge_limit(calls, 10, 4 * SECOND, lasting=algorithm == "concurrency")
    assert judged.verdict != LimitVerdict.BROKEN, judged.evidence
    assert algorithm in judged.algorithms


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_limit_that_is_served_one_higher_is_caught(seed: int) -> None:
    for algorithm in (*KINDS[:QUEUE], "concurrency"):
        calls = calls_under({"limit": "11/4s", "algorithm": algorithm}, seed)
        judged = judge_limit(calls, 10, 4 * SECOND, lasting=algorithm == "concurrency")
        assert judged.verdict == LimitVerdict.BROKEN, algorithm


@pytest.mark.parametrize("seed", range(5))
def test_calls_at_once_of_which_one_is_refused_too_many_are_caught(seed: int) -> None:
    calls = calls_under({"limit": "9/4s", "algorithm": "concurrency"}, seed)
    judged = judge_limit(calls, 10, 4 * SECOND, lasting=True)
    assert judged.verdict == LimitVerdict.BROKEN
    assert judged.evidence is not None
    assert "at most 9 other calls were under way" in judged.evidence.says


def test_a_burst_of_its_own_is_a_bucket_of_that_size() -> None:
    window = {"limit": "60/60s", "burst": 5, "algorithm": "gcra"}
    assert judge_limit(calls_under(window, 1), 5, 5 * SECOND).algorithm == "gcra"


def test_the_windows_of_a_policy_are_read_as_a_table(tmp_path: Path) -> None:
    policy = Policy(windows=[{"name": "one", "per": "key", "limit": "10/4s"}])
    path = tmp_path / "policy.yaml"
    path.write_text(policy.dump())
    assert WindowTable.load(str(path)).windows == policy.windows
