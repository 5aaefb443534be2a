"""Faults on purpose: whom they befall, how often, and what they leave of a request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from ranksim.core.callers.fault_rules import FaultRule
from ranksim.core.clock import instant
from ranksim.core.contract.located import Located, validate
from ranksim.core.contract.patterns import fits_pattern
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call
from ranksim.twin.facade import app as surface
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.faults import Faults, InjectedFault
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.listener import Listener

START = instant("2026-03-04T10:00:00Z")


def rule(**fields: Any) -> FaultRule:
    return FaultRule.model_validate(fields or {"error_rate": 1.0})


def picked(faults: Faults, count: int = 200, call: Call | None = None) -> list[InjectedFault | None]:
    return [faults.pick(call or Call("jobs.create", key="k")) for _ in range(count)]


@asynccontextmanager
async def serving(twin: Twin) -> AsyncIterator[httpx.AsyncClient]:
    listener = await Listener(Facade(twin)).open()
    headers = {"authorization": f"Bearer {twin.keys['production']}"}
    try:
        async with httpx.AsyncClient(base_url=listener.url, headers=headers, timeout=600) as client:
            yield client
    finally:
        await listener.close()
        await twin.close()


def make() -> Twin:
    return Twin(clock="manual", start=START, sender=Scripted())


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("jobs.create", "jobs.create", True),
        ("jobs.create", "jobsxcreate", False),
        ("jobs.*", "jobs.get", True),
        ("jobs.*", "keywords.list", False),
        ("*.list", "jobs.list", True),
        ("/v1/jobs/*/job_1", "/v1/jobs/crawl/job_1", True),
        ("/v1/jobs", "/v1/jobs/", False),
        ("a[b]*", "a[b]c\nd", True),
        ("a?*", "a?c", True),
        ("a?*", "abc", False),
        ("[!a]", "b", False),
        ("*a" * 30 + "b", "a" * 300, False),
    ],
)
def test_patterns(pattern: str, text: str, expected: bool) -> None:
    assert fits_pattern(pattern, text) == expected


@pytest.mark.parametrize(
    ("whom", "befallen"),
    [
        ({}, [True, True, True, True]),
        ({"operation": "jobs.create"}, [True, False, False, False]),
        ({"operation": "*.list"}, [False, True, True, False]),
        ({"operation": "graphql"}, [False, False, False, True]),
        ({"key": "a"}, [True, True, False, False]),
        ({"environment": "sandbox"}, [False, False, True, False]),
        ({"operation": "*.list", "key": "b"}, [False, False, True, False]),
    ],
)
def test_a_rule_befalls_an_operation_and_a_key(whom: dict[str, Any], befallen: list[bool]) -> None:
    calls = [
        Call("jobs.create", key="a"),
        Call("domains.list", key="a"),
        Call("domains.list", key="b", environment="sandbox"),
        Call("", key="c", surface="graphql"),
    ]
    faults = Faults()
    faults.add(rule(**whom, error_rate=1.0))
    assert [faults.pick(call) is not None for call in calls] == befallen


def test_without_rules_nothing_is_picked() -> None:
    assert picked(Faults(), 3) == [None] * 3


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, "give at least one of latency, latency_after, error_rate"),
        ({"drop_before_rate": 0.6, "drop_after_rate": 0.6}, "together are at most 1"),
        ({"error_rate": 1.1}, "less than or equal to 1"),
        ({"error_rate": -0.1}, "greater than or equal to 0"),
        ({"error_rate": 1.0, "times": 0}, "greater than or equal to 1"),
        ({"latency": "soon"}, "not a duration"),
    ],
)
def test_a_bad_rule_is_explained(fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        FaultRule.model_validate(fields)


def test_shares_are_of_requests() -> None:
    faults = Faults(seed=3)
    active = faults.add(rule(error_rate=0.25, drop_before_rate=0.1, drop_after_rate=0.3))
    fates = [fate for fate in picked(faults, 4_000) if fate is not None]
    counted = [
        sum(fate.fails for fate in fates),
        sum(fate.drop == "before" for fate in fates),
        sum(fate.drop == "after" for fate in fates),
    ]
    # Five standard deviations of a binomial with 4,000 trials are at most 158.
    assert all(abs(n - expected) < 158 for n, expected in zip(counted, (1000, 400, 1200), strict=True))
    shown = active.to_dict()
    assert shown["seen"] == 4_000
    effects = {name: count for name, count in shown["effects"].items() if count}
    assert effects == {"failed": counted[0], "dropped": counted[1] + counted[2]}


@pytest.mark.parametrize(
    ("operation", "hint"),
    [
        ("jobs.crate", "did you mean 'jobs.create'"),
        ("jbos.*", "did you mean 'jobs.*'"),
        ("POST /v1/jobs", "expected one such as jobs.create or jobs.*"),
    ],
)
def test_a_rule_for_an_operation_that_does_not_exist_is_refused(operation: str, hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        validate(FaultRule, Located("fault", {"operation": operation, "error_rate": 1}, {}))
    assert str(caught.value).startswith(f"fault: operation: no such operation {operation!r}; {hint}")
    for known in ("*", "*.create", "jobs.*", "graphql"):
        assert rule(operation=known, error_rate=1.0).operation == known


def test_the_same_requests_meet_the_same_faults() -> None:
    def fates(seed: int) -> list[InjectedFault | None]:
        faults = Faults(seed)
        faults.add(rule(latency={"exponential": {"mean": "20ms"}}, error_rate=0.5, drop_after_rate=0.5))
        return picked(faults)

    assert fates(1) == fates(1)
    assert fates(1) != fates(2)


def test_one_rule_does_not_sway_the_draws_of_another() -> None:
    alone, both = Faults(), Faults()
    alone.add(rule(error_rate=0.5))
    both.add(rule(error_rate=0.5))
    both.add(rule(latency="1s"))
    assert [one and one.fails for one in picked(alone)] == [one and one.fails for one in picked(both)]


def test_delays_add_up_and_the_first_drop_counts() -> None:
    faults = Faults()
    faults.add(rule(latency="250ms", drop_after_rate=1.0))
    faults.add(rule(latency="1s", drop_before_rate=1.0, error_rate=1.0))
    assert picked(faults, 1) == [InjectedFault(1.25, "after", True, ("fault_1", "fault_2"))]


def test_a_rule_of_some_times_is_spent() -> None:
    faults = Faults()
    faults.add(rule(operation="jobs.*", error_rate=1.0, times=2))
    assert faults.pick(Call("domains.list")) is None
    assert [one is not None for one in picked(faults, 4)] == [True, True, False, False]


def test_rules_end() -> None:
    faults = Faults()
    first, second = faults.add(rule()), faults.add(rule())
    faults.remove(first.id)
    assert list(faults.active) == [second.id]
    with pytest.raises(BadInput, match="there is none with the id 'fault_1'"):
        faults.remove(first.id)
    faults.clear()
    assert faults.add(rule()).id not in (first.id, second.id)


# Over a socket


@pytest.mark.parametrize(
    ("fields", "status", "effect"),
    [
        ({"error_rate": 1}, 500, 0),
        ({"drop_before_rate": 1}, None, 0),
        ({"drop_after_rate": 1}, None, 1),
        ({"operation": "jobs.*", "error_rate": 1}, 201, 1),
        ({"key": "other", "error_rate": 1}, 201, 1),
    ],
)
def test_a_rule_breaks_answers_before_or_after_the_effect(
    fields: dict[str, Any], status: int | None, effect: int
) -> None:
    async def story() -> None:
        async with serving(make()) as client:
            made = await client.post("/_ranksim/faults", json={"operation": "domains.create"} | fields)
            assert made.status_code == 201
            try:
                response = await client.post("/v1/domains", json={"host": "a.example"})
                assert response.status_code == status
                assert response.headers["x-request-id"]
            except httpx.RemoteProtocolError:
                assert status is None
            assert len((await client.get("/v1/domains")).json()["data"]) == effect
            assert (await client.request("DELETE", f"/_ranksim/faults/{made.json()['id']}")).is_success
            assert (await client.post("/v1/domains", json={"host": "b.example"})).status_code == 201

    run(story)


@pytest.mark.parametrize(
    "fault",
    [
        {"drop_before_rate": 1},
        {"drop_after_rate": 1},
        {"drop_during_rate": 1},
        {"drop_during_rate": 1, "bytes_per_second": 1_000_000},
        {"drop_during_rate": 1, "status": 204},
    ],
    ids=["before", "after", "during", "during a slow one", "without a body"],
)
def test_a_connection_that_is_dropped_on_purpose_is_no_error_of_the_server(
    fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving(make()) as client:
            await client.post("/_ranksim/faults", json=fault | {"times": 1})
            if "status" in fault:
                assert (await client.get("/v1/domains")).status_code == 204
            else:
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.get("/v1/domains")
            assert (await client.get("/v1/domains")).status_code == 200

    run(story)
    assert [one.getMessage() for one in caplog.records if one.name.startswith(("uvicorn", "asyncio"))] == []


def test_a_lost_answer_is_replayed() -> None:
    async def story() -> None:
        async with serving(make()) as client:
            await client.post("/_ranksim/faults", json={"drop_after_rate": 1, "times": 1})
            once: dict[str, Any] = {"json": {"host": "a.example"}, "headers": {"idempotency-key": "1"}}
            with pytest.raises(httpx.RemoteProtocolError):
                await client.post("/v1/domains", **once)
            again = await client.post("/v1/domains", **once)
            assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
            assert len((await client.get("/v1/domains")).json()["data"]) == 1

    run(story)


def test_an_error_leaves_the_idempotency_key_unused() -> None:
    async def story() -> None:
        async with serving(make()) as client:
            await client.post("/_ranksim/faults", json={"error_rate": 1, "times": 1})
            once: dict[str, Any] = {"json": {"host": "a.example"}, "headers": {"idempotency-key": "1"}}
            assert (await client.post("/v1/domains", **once)).status_code == 500
            assert (await client.post("/v1/domains", **once)).status_code == 201

    run(story)


def test_a_delay_is_waited_for_in_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(delay: float) -> None:
        waited.append(delay)

    async def story() -> None:
        twin = make()
        async with serving(twin) as client:
            await client.post("/_ranksim/faults", json={"operation": "graphql", "latency": "1h"})
            monkeypatch.setattr(surface.asyncio, "sleep", sleep)
            assert (await client.post("/graphql", json={"query": "{ domains { nodes { id } } }"})).is_success
            assert (await client.get("/v1/domains")).is_success
            monkeypatch.undo()
            assert waited == [3600.0]
            assert twin.now() == START

    run(story)
