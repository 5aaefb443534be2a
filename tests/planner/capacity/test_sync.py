"""Syncs under the write limit: by hand, against a simulated client, and as properties of the pace."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules.windows import NAMES
from ranksim.planner.capacity.sync import (
    RateWindow,
    Sync,
    SyncSchedule,
    eager,
    evenly,
    fastest_pace,
    sync_time,
)
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World


def found(sync: Sync, window: str, way: str, **policy: Any) -> SyncSchedule:
    plans = sync_time(sync, Policy().replace(**policy)).plans
    return next(plan for plan in plans if (plan.window, plan.way) == (window, way))


HALF = SECOND // 2


@pytest.mark.fact("S103", "U1")
@pytest.mark.parametrize(
    ("window", "way", "time", "refused"),
    [
        # 300 requests at 120 a minute: 120 at once, 120 a minute later, 60 after two
        ("first_hit", "retry", 2 * MINUTE, 2),
        ("first_hit", "wait", 2 * MINUTE, 0),
        ("first_hit", "paced", 299 * HALF, 0),
        ("clock", "wait", 2 * MINUTE, 0),
        ("sliding_log", "wait", 2 * MINUTE, 0),
        ("sliding_log", "paced", 299 * HALF, 0),
        # 120 at once, then each token half a second after the other: 180 × 0.5 s
        ("gcra", "wait", 90 * SECOND, 0),
        ("gcra", "paced", 299 * HALF, 0),
        # Retry-After is a whole second, which refills two tokens: refused once for every two
        ("gcra", "retry", 90 * SECOND, 90),
    ],
)
def test_three_hundred_requests(window: str, way: str, time: int, refused: int) -> None:
    plan = found(Sync(30_000, batch=100), window, way)
    assert (plan.time, plan.refused, plan.calls) == (time, refused, 300 + refused)


def test_at_exactly_the_limit_the_sliding_counter_refuses_an_even_pace() -> None:
    window = RateWindow("sliding_counter", 120, MINUTE)
    assert evenly(window, Sync(300, batch=1), HALF).refused == 1
    assert fastest_pace([window], Sync(300, batch=1)) == -(-MINUTE // 119)


def test_what_fits_one_window_is_sent_at_once() -> None:
    answer = sync_time(Sync(12_000, batch=100, latency=200_000))
    assert {(plan.time, plan.refused) for plan in answer.plans} == {(24 * SECOND, 0)}


@pytest.mark.fact("E37")
def test_pacing_leaves_room_for_the_others() -> None:
    sync = Sync(24_000, batch=100, others=60)  # 60 a minute are left
    eager_one, paced = found(sync, "first_hit", "wait"), found(sync, "first_hit", "paced")
    assert (eager_one.time, eager_one.others_refused) == (MINUTE, 60)
    assert (paced.pace, paced.time, paced.others_refused) == (SECOND, 239 * SECOND, 0)
    assert sync_time(sync).best == paced


@pytest.mark.parametrize(("requests", "refused"), [(60, 0), (61, 1)])
def test_a_burst_that_ends_early_still_takes_from_the_others(requests: int, refused: int) -> None:
    window, sync = RateWindow("first_hit", 120, MINUTE), Sync(requests, batch=1, others=60)
    assert evenly(window, sync, 0).others_refused == refused
    assert (fastest_pace([window], sync) == 0) is (refused == 0)


@pytest.mark.fact("U2")
def test_the_rate_class_is_the_policys() -> None:
    plan = found(Sync(4000, batch=100), "first_hit", "wait", assumptions={"tracking_class": "expensive"})
    assert plan.time == MINUTE  # 40 requests at 20 a minute


@pytest.mark.fact("U4")
def test_refused_calls_of_others_can_starve_a_sync() -> None:
    policy = {"assumptions": {"refused_calls_count": True}}
    sync = Sync(24_000, batch=100, others=60)
    assert found(sync, "first_hit", "retry", **policy).time is None
    assert found(sync, "first_hit", "paced", **policy).time == 239 * SECOND


@pytest.mark.fact("S100", "U6")
@pytest.mark.parametrize("window", NAMES)
def test_a_simulated_client_takes_as_long(window: str) -> None:
    """A client of a world that obeys Retry-After sends the same calls at the same instants."""
    scenario = Scenario.model_validate(
        {
            "name": "sync", "start": 90 * SECOND, "length": 20 * MINUTE,
            "policy": Policy().replace(assumptions={"window": window}),
            "accounts": {"acme": {"plan": "agency", "portfolio": {"domains": 1}}},
            "clients": {
                "sync": {
                    "kind": "keyword_sync", "account": "acme", "every": "1h", "first": "memory",
                    "keywords": 3000, "batch": 10, "max_tries": 9,
                }
            },
        }
    )  # fmt: skip
    seen: list[tuple[int, int]] = []

    class Recorder:
        def watch(self, state: object) -> None: ...
        def delivery(self, *args: object) -> None: ...
        def exchange(self, now: int, client: str, call: object, reply: Any) -> None:
            seen.append((now, reply.status))

    World(scenario, trace=Recorder()).run()
    window = RateWindow(window, 120, MINUTE, start=90 * SECOND)
    plan = eager(window, Sync(3000, batch=10), "retry")
    assert (seen[-1][0] - 90 * SECOND, len(seen)) == (plan.time, plan.calls)
    assert sum(status == 429 for _, status in seen) == plan.refused


@settings(max_examples=40)
@given(
    requests=st.integers(1, 90),
    limit=st.integers(2, 20),
    others=st.integers(0, 6),
    latency=st.sampled_from([0, 1, 100_000, 3 * SECOND]),
    start=st.integers(0, 2 * MINUTE),
)
def test_the_pace_is_never_refused_and_waiting_is_never_slower(
    requests: int, limit: int, others: int, latency: int, start: int
) -> None:
    sync = Sync(requests, batch=1, latency=latency, others=min(others, limit - 1))
    for name in NAMES:
        window = RateWindow(name, limit, MINUTE, start=start)
        pace = fastest_pace([window], sync)
        if pace is not None:
            plan = evenly(window, sync, pace)
            assert (plan.refused, plan.others_refused, plan.calls) == (0, 0, requests)
        if not sync.others:
            assert pace is not None
            waited, retried = eager(window, sync, "wait"), eager(window, sync, "retry")
            assert waited.refused == 0
            assert waited.time is not None
            assert retried.time is not None
            assert waited.time <= retried.time
            assert waited.time <= evenly(window, sync, pace).time


@pytest.mark.parametrize(
    ("sync", "message"),
    [
        ({"keywords": 0}, "keywords: expected something to send, found nothing"),
        ({"keywords": 10, "batch": 0}, "batch: expected 1 or more, found 0"),
        ({"keywords": 10**9}, "keywords: expected at most 200000 requests; make batches larger"),
        ({"keywords": 10, "latency": -1}, "latency: expected 0 or more, found -1"),
        ({"keywords": 10, "others": 120}, "others: expected fewer than the 120 calls of a window, found 120"),
    ],
)
def test_bad_input(sync: dict[str, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        sync_time(Sync(**sync))


def test_it_draws_a_bar_for_each_way() -> None:
    answer = sync_time(Sync(30_000))
    ax = answer.plot()
    assert len(ax.patches) == len(answer.plans) == 15
    assert ax.get_xlabel() == "minutes from the first call to the last reply"
    assert answer.views()[0].rows[0][0] == "first_hit"
