"""The clock of a world: integer time, order within an instant, a caller's environment."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import simpy

from ranksim.core.clock import DAY, HOUR, SECOND
from ranksim.twin.sim.simpy_clock import SimpyClock

START = 1_767_225_600 * SECOND


def test_time_is_the_start_plus_the_ticks() -> None:
    time = SimpyClock(start=START)
    seen: list[int] = []
    time.at(START + 5, lambda: seen.append(time.now))
    time.after(7, lambda: seen.append(time.now))
    time.env.run()
    assert seen == [START + 5, START + 7]
    assert isinstance(time.env.now, int)


def test_of_one_instant_the_urgent_come_first_then_the_earlier_made() -> None:
    time = SimpyClock()
    seen: list[str] = []
    time.at(10, seen.append, "call 1")
    time.at(10, seen.append, "job ends", urgent=True)
    time.at(10, seen.append, "call 2")
    time.at(10, seen.append, "wake", urgent=True)
    time.env.run()
    assert seen == ["job ends", "wake", "call 1", "call 2"]


def test_what_is_cancelled_is_not_called() -> None:
    time = SimpyClock()
    seen: list[str] = []
    due = time.after(5, seen.append, "no")
    time.after(3, due.cancel)
    time.env.run()
    due.cancel()
    assert seen == []


def test_the_past_is_refused() -> None:
    time = SimpyClock(start=START)
    with pytest.raises(ValueError, match="in the past"):
        time.at(START - 1, print)


@pytest.mark.parametrize(
    ("initial", "tick"),
    [(0, 1), (0, SECOND), (0.0, SECOND), (0.0, HOUR), (0.0, 7), (0, DAY)],
)
def test_microseconds_survive_any_tick(initial: float, tick: int) -> None:
    time = SimpyClock(simpy.Environment(initial), start=START, tick=tick)
    wanted = [START + t for t in (1, 999_999, SECOND + 1, HOUR - 1, 30 * DAY + 123_457)]
    seen: list[int] = []
    for when in wanted:
        time.at(when, lambda: seen.append(time.now))
    time.env.run()
    assert seen == wanted


def test_whole_ticks_keep_an_integer_clock_integer() -> None:
    time = SimpyClock(start=START, tick=SECOND)
    seen: list[tuple[int, type]] = []
    time.after(90 * SECOND, lambda: seen.append((time.now, type(time.env.now))))
    time.env.run()
    assert seen == [(START + 90 * SECOND, int)]


def test_processes_wait_in_microseconds() -> None:
    time = SimpyClock(tick=SECOND)
    seen: list[int] = []

    def walk() -> Generator[simpy.Event, None, str]:
        yield time.timeout(1_500_000)
        seen.append(time.now)
        return "done"

    process = time.process(walk())
    time.env.run()
    assert (seen, process.value) == ([1_500_000], "done")
