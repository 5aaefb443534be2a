"""What is sent where nothing but reading is done, and how fast."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.callers.steps import Pause, Received, Send
from ranksim.core.callers.target import Target
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND, Micros
from ranksim.judge.deployment.reading_pace import LOOKS, ReadingPace, reading, reads

TARGET = Target.simple("http://127.0.0.1:9", "rk_1")

LIST = Send("domains.list")


def answer(now: Micros, status: int = 200, **headers: str) -> Received:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Received(status, {"data": []}, named, now, now)


def pace_of(percent: int = 1, **changes: Any) -> ReadingPace:
    return ReadingPace(TARGET.model_copy(update=changes), percent)


def graphql(query: str, operation: str = "domains.list") -> Send:
    return Send(operation, body={"query": query}, surface="graphql")


@pytest.mark.parametrize(
    ("send", "is_read"),
    [
        (LIST, True),
        (Send("jobs.get", path={"kind": "crawl", "id": "1"}), True),
        (graphql("query { domains { nodes { id } } }"), True),
        (graphql("{ slots { used } }"), True),
        (graphql("mutation { deleteDomain(id: 1) { id } }"), False),
        (graphql("query { domains { nodes { id } } }", "jobs.create"), False),
        (Send("domains.create", body={"host": "a.example.com"}), False),
        (Send("jobs.create", body={"kind": "crawl", "dry_run": True}), False),
        (Send("webhooks.delete", path={"id": "none"}), False),
        (Send("domains.list", surface="preflight", origin="https://a.example.com"), False),
    ],
)
def test_what_reads(send: Send, is_read: bool) -> None:
    assert reads(send) is is_read


def test_what_does_not_read_is_answered_like_silence_and_counted() -> None:
    pace = pace_of()

    def program() -> Generator[Any, Any, Received]:
        return (yield Send("domains.create", body={"host": "a.example.com"}))

    running = reading(program(), pace)
    assert isinstance(next(running), Pause)
    with pytest.raises(StopIteration) as ended:
        running.send(5)
    assert (ended.value.value.status, pace.held_back) == (0, 1)


def test_a_window_has_its_share_and_the_next_one_begins_after_the_replies() -> None:
    pace = pace_of()
    for number in range(6):  # 1 % of 600
        assert pace.wait(LIST, number) == 0
        pace.saw(LIST, answer(number + SECOND))
    assert pace.wait(LIST, 10 * SECOND) == MINUTE + SECOND - 10 * SECOND
    assert pace.wait(Send("slots.get"), 10 * SECOND) > 0
    assert pace.wait(Send("slots.get", "another"), 10 * SECOND) == 0
    assert pace.wait(LIST, MINUTE + SECOND) == 0
    assert pace.wait(LIST, MINUTE + SECOND) == 1


def test_what_is_under_way_counts_as_long_as_it_is() -> None:
    pace = pace_of()
    for _ in range(6):
        assert pace.wait(LIST, 0) == 0
    assert pace.wait(LIST, 10 * MINUTE) == LOOKS
    pace.saw(LIST, answer(10 * MINUTE, status=0))  # it may still come
    assert pace.wait(LIST, 10 * MINUTE) == 2 * MINUTE
    for _ in range(5):
        pace.saw(LIST, answer(10 * MINUTE))
    assert pace.wait(LIST, 11 * MINUTE - 1) == 1
    assert pace.wait(LIST, 11 * MINUTE) == 0


def test_a_program_that_is_ended_leaves_no_call_under_way() -> None:
    pace = pace_of()

    def program() -> Generator[Any, Any, None]:
        yield LIST

    for _ in range(6):
        running = reading(program(), pace)
        next(running)
        assert running.send(0) is LIST
        running.close()
    assert pace.wait(LIST, 0) == 2 * MINUTE


def test_a_smaller_limit_is_learnt_and_holds_for_what_was_not_called_yet() -> None:
    pace = pace_of(10)
    assert pace.wait(LIST, 0) == 0
    pace.saw(LIST, answer(0, ratelimit_limit="20, 20;w=60", ratelimit_remaining="19"))
    assert pace.wait(Send("slots.get"), 1) == 0
    pace.saw(Send("slots.get"), answer(1, ratelimit_limit="20"))
    assert pace.wait(Send("jobs.list"), 2) > 0  # a tenth of 20 is two


def test_a_larger_limit_is_not_believed() -> None:
    pace = pace_of()
    for number in range(6):
        assert pace.wait(LIST, number) == 0
        pace.saw(LIST, answer(number, ratelimit_limit="100000"))
    assert pace.wait(LIST, 6) > 0


def test_of_a_tiny_limit_one_call_is_made() -> None:
    pace = pace_of()
    assert pace.wait(LIST, 0) == 0
    pace.saw(LIST, answer(0, ratelimit_limit="3"))
    assert pace.wait(LIST, 1) > 0
    assert pace.wait(LIST, MINUTE) == 0


@pytest.mark.parametrize(
    ("status", "left", "silent"), [(200, "60", False), (200, "59", True), (429, "600", True)]
)
def test_others_come_first(status: int, left: str, silent: bool) -> None:
    pace = pace_of(10)
    assert pace.wait(LIST, 0) == 0
    pace.saw(LIST, answer(SECOND, status, ratelimit_limit="600", ratelimit_remaining=left))
    assert (pace.wait(LIST, SECOND) == MINUTE) is silent
    assert pace.wait(Send("domains.list", "another"), SECOND) == 0
    assert pace.wait(LIST, SECOND + MINUTE) == 0


def test_a_faster_clock_has_shorter_windows() -> None:
    pace = pace_of(traffic_scale=60)
    for _ in range(6):
        assert pace.wait(LIST, 0) == 0
        pace.saw(LIST, answer(0))
    assert pace.wait(LIST, 0) == SECOND


def test_calls_without_a_key_of_the_target_share_what_an_address_has() -> None:
    pace = pace_of()
    for key in ("", "unknown") * 3:
        assert pace.wait(Send("domains.list", key), 0) == 0
    assert pace.wait(Send("domains.list", ""), 0) == LOOKS


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(0, 30)), max_size=60))
def test_no_window_there_has_more_whenever_calls_arrive(calls: list[tuple[int, int, int]]) -> None:
    """Whatever is under way together, and wherever between sending and reply a call is counted."""
    pace, arrived, now = pace_of(), list[Micros](), 0
    under_way: list[tuple[Micros, Send]] = []
    for gap, latency, counted in calls:
        now += gap * 100 * MILLISECOND
        send = Send("domains.list")
        while True:
            for ends, call in sorted(under_way, key=lambda one: one[0]):
                if ends <= now:
                    pace.saw(call, answer(ends))
                    under_way.remove((ends, call))
            wait = pace.wait(send, now)
            if not wait:
                break
            now += wait
        arrived.append(now + min(counted, latency) * SECOND)
        under_way.append((now + latency * SECOND, send))
    for first in arrived:
        assert sum(first <= other < first + MINUTE for other in arrived) <= 6
