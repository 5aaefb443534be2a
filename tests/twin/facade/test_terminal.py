"""Lines for people: what they say of calls and attempts, and how a terminal is told of them."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ranksim.core.printable import printable
from ranksim.testing import World
from ranksim.twin.facade.event_log import KEPT
from ranksim.twin.facade.logged_event import AnsweredCall
from ranksim.twin.facade.terminal import Terminal, line_of
from ranksim.twin.facade.twin import Twin

TOOK = re.compile(r"[\d.]+(µs|ms|s)$", re.MULTILINE)


@pytest.fixture
def world() -> Iterator[World]:
    with World(start="2026-03-04T10:00:00Z") as made:
        yield made


def lines(world: World) -> list[str]:
    written = (line_of(event) for event in world.twin.event_log.since(0))
    return [TOOK.sub("#", line) for line in written if line is not None]


def test_a_call_is_a_line_with_what_refused_it(world: World) -> None:
    client, at = world.client(), "2026-03-04 10:00:00.000"
    domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
    for _ in range(2):
        client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})
    world.client("nobodys").get("/v1/jobs?limit=1")
    assert lines(world) == [
        f"{at}  POST    /v1/domains  201  key demo  #",
        f"{at}  POST    /v1/jobs  202  key demo  #",
        f"{at}  POST    /v1/jobs  409 cooldown_active (check 6, cooldown)  key demo  #",
        f"{at}  GET     /v1/jobs?limit=1  401 unauthorized  no key  #",
    ]


def test_a_rate_window_and_a_fault_are_named(world: World) -> None:
    client = world.client()
    for _ in range(21):
        client.post("/v1/jobs", json={})
    assert "  429 rate_limited (expensive window)  " in lines(world)[-1]
    world.faults.add("domains.list", error_rate=1)
    answer = client.get("/v1/domains")
    assert "  500 internal_error  by fault_1  " in lines(world)[-1]
    assert answer.headers["Ranksim-Fault"] == "fault_1"
    assert "Ranksim-Fault" not in client.get("/v1/account").headers
    world.faults.clear()
    world.faults.add("domains.list", drop_before_rate=1)
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/v1/domains")
    assert "  /v1/domains  dropped before its effect  by fault_2  key demo  " in lines(world)[-1]
    world.faults.clear()
    world.faults.add("domains.list", drop_after_rate=1)
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/v1/domains")
    assert "  /v1/domains  dropped after 200  by fault_3  key demo  " in lines(world)[-1]


def test_what_a_test_shows_that_fails_has_what_was_refused_over_graphql(world: World) -> None:
    client = world.client()
    client.post("/graphql", json={"query": "{ __typename }"})
    client.post("/graphql", json={"query": '{ domain(id: "none") { id } }'})
    told = world.told().splitlines()
    assert [line.split()[0] for line in told[4:]] == ["2026-03-04", "2026-03-04", "sent", "answered"]
    assert '"code":"not_found"' in told[-1]


def test_an_attempt_is_a_line_with_its_next(world: World) -> None:
    receiver = world.receiver(503, "timeout", 200)
    world.subscribe(receiver)
    (delivery,) = world.deliveries.trigger("job.failed")
    world.clock.advance("6m")
    what, where = f"->      job.failed {delivery['event_id']} attempt", f"to {receiver.url}/hooks"
    assert [line for line in lines(world) if "->" in line] == [
        f"2026-03-04 10:00:00.000  {what} 1  {where}  503, again at 2026-03-04 10:01:00.000",
        f"2026-03-04 10:01:00.000  {what} 2  {where}  timeout, again at 2026-03-04 10:06:00.000",
        f"2026-03-04 10:06:00.000  {what} 3  {where}  200",
    ]


def test_nothing_of_a_callers_moves_the_cursor() -> None:
    assert printable("/v1/\x1b[2J\x9b1m\n\r\u202eé") == "/v1/\\u001b[2J\\u009b1m\\u000a\\u000d\\u202eé"


def test_a_terminal_is_told_of_all_and_of_what_was_too_much() -> None:
    async def story() -> str:
        twin, stream = Twin(clock="manual", start=0), io.StringIO()
        terminal = Terminal(twin, stream)
        terminal.start()
        for number in range(KEPT + 5):
            twin.event_log.note(number, "clock.set", {})
        await terminal.stop()
        await twin.close()
        return stream.getvalue()

    assert asyncio.run(story()) == "(5 more happened than could be written)\n"


def test_the_json_log_has_the_code_key_query_and_duration_of_calls_and_what_is_left_out() -> None:
    async def story() -> list[dict[str, Any]]:
        twin, stream = Twin(clock="manual", start=0), io.StringIO()
        terminal = Terminal(twin, stream, "json")
        terminal.start()
        for number in range(KEPT + 5):
            twin.event_log.note(number, "clock.set", {})
        refused = AnsweredCall(
            7, 0, "rest", "production", "GET", "/v1/domains", ("domains.list",), "acc_1", "demo", 429,
            "rate_limited", 0, "limited", "default", (), 1_500, "limit=3",
        )  # fmt: skip
        twin.event_log.add(refused)
        await terminal.stop()
        await twin.close()
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    missed, call = asyncio.run(story())
    assert (missed["what"], missed["count"]) == ("missed", 6)
    assert call["at"] == "1970-01-01T00:00:00.000007Z" != call["time"] == missed["time"]
    shown = ("what", "method", "path", "query", "status", "code", "key", "rate_class", "ms")
    assert [call[name] for name in shown] == [
        "call", "GET", "/v1/domains", "limit=3", 429, "rate_limited", "demo", "default", 1.5,
    ]  # fmt: skip


def test_a_terminal_that_is_gone_is_left_alone() -> None:
    class Gone(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError

    async def story() -> bool:
        twin = Twin(clock="manual", start=0)
        terminal = Terminal(twin, Gone())
        terminal.start()
        twin.event_log.note(0, "clock.set", {})
        while not terminal.ended:
            await asyncio.sleep(0)
        await terminal.stop()
        await twin.close()
        return terminal.ended

    assert asyncio.run(story())
