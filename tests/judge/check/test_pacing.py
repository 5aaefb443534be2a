"""The pace of a check: below every limit, in whatever way a window counts."""

from __future__ import annotations

from random import Random

import pytest

from ranksim.core.callers.steps import Pause, Program, Received, Send, Until
from ranksim.core.clock import MINUTE, SECOND
from ranksim.judge.check.pacing import Pacer, paced

JOB = Send("jobs.create", "main", body={})


def most_within(instants: list[int], window: int) -> int:
    """The most instants that any window holds."""
    ordered = sorted(instants)
    return max(sum(one <= other < one + window for other in ordered) for one in ordered)


@pytest.mark.fact("S102", "S103", "S104")
def test_no_window_holds_more_than_nine_tenths_of_a_limit() -> None:
    draw = Random("pace")
    pacer, now, sent = Pacer(MINUTE), 0, []
    for _ in range(200):
        now += draw.randrange(2 * SECOND)
        at = pacer.when(JOB, now)
        assert at >= now
        sent.append(at)
    assert most_within(sent, MINUTE) == 18


def test_keys_and_classes_are_counted_apart() -> None:
    pacer = Pacer(MINUTE)
    for _ in range(18):
        assert pacer.when(JOB, 0) == 0
    assert pacer.when(JOB, 0) == MINUTE
    assert pacer.when(Send("jobs.create", "second", body={}), 0) == 0
    assert pacer.when(Send("domains.list", "main"), 0) == 0
    assert [pacer.when(Send("domains.list", ""), 0) for _ in range(700)] == [0] * 700


def test_what_never_waits_has_others_wait() -> None:
    pacer = Pacer(MINUTE)
    assert [pacer.when(JOB, SECOND, waits=False) for _ in range(25)] == [SECOND] * 25
    assert pacer.when(JOB, 2 * SECOND) == SECOND + MINUTE


def test_a_smaller_limit_that_is_stated_is_kept_to() -> None:
    pacer = Pacer(MINUTE)
    for said in ("10, 10;w=60", "40", "soon"):
        pacer.saw(JOB, Received(200, None, {"RateLimit-Limit": said}, 0, 1))
    assert [pacer.when(JOB, 0) for _ in range(10)] == [0] * 9 + [MINUTE]


def test_what_counts_in_another_class_leaves_its_own_alone() -> None:
    """A public list that is limited as calls without a key are holds up no other reading (S39)."""
    pacer, public = Pacer(MINUTE), Send("webhook_events.list", "main")
    pacer.saw(public, Received(200, None, {"RateLimit-Limit": "10"}, 0, 1))
    assert [pacer.when(public, 0) for _ in range(10)] == [0] * 9 + [MINUTE]
    listed = Send("domains.list", "main")
    pacer.saw(listed, Received(401, None, {"RateLimit-Limit": "10"}, 0, 1))  # of a key that was unknown there
    assert [pacer.when(listed, 0) for _ in range(540)] == [0] * 540


def test_a_program_waits_before_it_sends() -> None:
    def program() -> Program:
        for _ in range(19):
            yield JOB
        yield Pause(5)

    steps = paced(program(), Pacer(MINUTE))
    waits, step = [], next(steps)
    while True:
        if isinstance(step, Pause) and step.duration == 5:
            break
        if isinstance(step, Until):
            waits.append(step.instant)
        step = steps.send(Received(201, None, {}, 0, 1) if isinstance(step, Send) else 0)
    assert waits == [MINUTE]
