"""Manners: waiting when put off, sending again what was lost, walking lists."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import pytest

from ranksim.core.callers.retry import (
    LONGEST_WAIT,
    Manners,
    bounded_wait,
    insistently,
    is_limited,
    next_page,
    pages,
    parse_retry_after,
    politely,
)
from ranksim.core.callers.steps import Pause, Received, Send
from ranksim.core.clock import MINUTE, SECOND, instant


def reply(status: int, body: Any = None, **headers: str) -> Received:
    return Received(status, body, headers, 0, 1)


def run(program: Generator[Any, Any, Any], answers: Iterable[Received]) -> tuple[Any, list[Any]]:
    """Run a program with given answers; gives what it returns and its steps."""
    steps: list[Any] = []
    given = iter(answers)
    answer: Any = None
    while True:
        try:
            step = program.send(answer)
        except StopIteration as end:
            return end.value, steps
        steps.append(step)
        answer = next(given) if isinstance(step, Send) else 0


DATE = "Sun, 01 Mar 2026 12:00:30 GMT"


def test_what_was_put_off_or_lost_is_sent_again_where_that_is_harmless() -> None:
    table = (
        (Send("domains.list"), [reply(429, **{"retry-after": "3"}), reply(200)], [3 * SECOND], 200),
        (Send("domains.list"), [reply(0), reply(200)], [], 200),
        (Send("domains.create", body={}), [reply(0), reply(201)], [], 0),
        (Send("domains.create", body={}, idempotency_key="k"), [reply(0), reply(201)], [], 201),
        (
            Send("domains.create", body={}, idempotency_key="k"),
            [reply(409, {"code": "idempotency_in_progress"}), reply(201)],
            [SECOND // 4],
            201,
        ),
        (Send("domains.create", body={}), [reply(409, {"code": "cooldown_active"}), reply(201)], [], 409),
        (Send("domains.list"), [reply(0)] * 9, [], 0),
    )
    for send, answers, waits, status in table:
        last, steps = run(politely(send), answers)
        assert [step.duration for step in steps if isinstance(step, Pause)] == waits
        assert last.status == status


def test_a_retry_after_that_nobody_waits_for_is_the_answer() -> None:
    last, steps = run(politely(Send("domains.list")), [reply(429, **{"retry-after": "1000000000"})] * 4)
    assert [step.duration for step in steps if isinstance(step, Pause)] == [SECOND]
    assert len([step for step in steps if isinstance(step, Send)]) == 1
    assert last.status == 429


def test_retry_after_is_bounded_and_may_be_missing() -> None:
    for text, wait in (
        ("7", 7 * SECOND),
        ("0", SECOND),
        ("99999", LONGEST_WAIT),
        ("soon", SECOND),
        (DATE, SECOND),
    ):
        assert bounded_wait(reply(429, **{"retry-after": text})) == wait
    assert bounded_wait(reply(429)) == SECOND


@pytest.mark.fact("S100", "U6")
def test_retry_after_is_seconds_or_a_date() -> None:
    now = instant("2026-03-01T12:00:00.25Z")
    for text, wait in (
        ("0", 0),
        ("90", 90 * SECOND),
        ("1000000", 1_000_000 * SECOND),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30 * SECOND - SECOND // 4),
        ("Sun, 01 Mar 2026 12:00:30 -0000", 30 * SECOND - SECOND // 4),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("-1", None),
        ("1.5", None),
        ("Sun, 99 Mar 2026 11:00:00 GMT", None),
        ("", None),
    ):
        answer = Received(429, None, {"retry-after": text}, now, now)
        assert parse_retry_after(answer) == wait
    assert parse_retry_after(reply(429)) is None


def test_the_rate_limit_is_told_from_other_refusals() -> None:
    table = (
        (429, {}, True),
        (429, {"code": "slow_down"}, True),
        (503, {"code": "rate_limited"}, True),
        (429, {"code": "quota_exhausted"}, False),
        (402, {"code": "quota_exhausted"}, False),
        (200, {"code": "rate_limited"}, False),
        (0, None, False),
    )
    for status, body, limited in table:
        assert is_limited(reply(status, body)) == limited


LIMITED = reply(429, **{"retry-after": "7"})


def waits(manners: Manners, answers: Iterable[Received]) -> tuple[int, list[int]]:
    last, steps = run(insistently(Send("domains.list"), manners, lambda tries: 0.5), answers)
    return last.status, [step.duration for step in steps if isinstance(step, Pause)]


def test_a_client_that_obeys_waits_as_long_as_it_is_asked_to() -> None:
    assert waits(Manners(), [LIMITED, LIMITED, reply(200)]) == (200, [7 * SECOND] * 2)
    assert waits(Manners(), [reply(429), reply(200)]) == (200, [SECOND])


def test_a_client_that_backs_off_waits_half_of_twice_as_long_each_time() -> None:
    manners = Manners("backoff", 6, retry_every=4 * SECOND, backoff_max=MINUTE)
    expected = [2 * SECOND, 4 * SECOND, 8 * SECOND, 16 * SECOND, 30 * SECOND]
    assert waits(manners, [LIMITED] * 6) == (429, expected)


def test_a_client_that_ignores_what_it_is_told_waits_as_it_likes() -> None:
    assert waits(Manners("ignore", 3, retry_every=SECOND), [LIMITED] * 3) == (429, [SECOND] * 2)


def test_a_client_gives_up_after_its_tries_and_takes_other_refusals() -> None:
    assert waits(Manners(max_tries=1), [LIMITED]) == (429, [])
    assert waits(Manners(), [reply(402, {"code": "quota_exhausted"})]) == (402, [])


def test_a_lost_call_is_sent_again_where_that_does_no_harm() -> None:
    read, post = Send("domains.list"), Send("domains.create", body={})
    keyed = Send("domains.create", body={}, idempotency_key="k")
    in_flight = reply(409, {"code": "idempotency_in_progress"})
    table = (
        (read, [reply(0), reply(200)], [2 * SECOND], 200),
        (read, [reply(0)] * 5, [2 * SECOND] * 4, 0),
        (post, [reply(0)], [], 0),
        (keyed, [reply(0), in_flight, reply(201)], [2 * SECOND, SECOND], 201),
        (keyed, [reply(409, {"code": "cooldown_active"})], [], 409),
    )
    for send, answers, expected, status in table:
        last, steps = run(insistently(send, Manners(retry_every=2 * SECOND), lambda tries: 0.5), answers)
        assert [step.duration for step in steps if isinstance(step, Pause)] == expected
        assert last.status == status


@pytest.mark.fact("S44")
def test_a_list_is_walked_by_its_cursors() -> None:
    first = Send("labels.list", query={"domain_id": "dom_1"})
    one = reply(200, {"data": [1, 2], "next_cursor": "c1"})
    two = reply(200, {"data": [3], "next_cursor": None})
    assert next_page(first, one) == Send("labels.list", query={"domain_id": "dom_1", "cursor": "c1"})
    assert next_page(first, two) is None
    assert next_page(first, reply(500, {"next_cursor": "c1"})) is None
    items, steps = run(pages(first), [one, two])
    assert items == [1, 2, 3]
    assert [step.query for step in steps] == [
        {"limit": "200", "domain_id": "dom_1"},
        {"limit": "200", "domain_id": "dom_1", "cursor": "c1"},
    ]
    items, steps = run(pages(first, most=2), [one] * 3)
    assert (items, len(steps)) == ([1, 2, 1, 2], 2)
