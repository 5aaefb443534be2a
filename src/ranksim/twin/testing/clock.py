"""The clock of a world inside a test, and the jobs whose end a test may decide."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypedDict, Unpack

from ranksim.core.clock import SECOND, Micros, in_micros, instant, iso, length_in_micros
from ranksim.core.errors import BadInput, read_at
from ranksim.twin.facade.advance import Advance, AdvanceCondition, AdvanceUnderWay, meter_resets
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.loop_thread import LoopThread

Length: TypeAlias = str | timedelta
Moment: TypeAlias = str | Micros


class HowFar(TypedDict, total=False):
    """How far time moves on, and how long that may take."""

    to: Moment | None
    """An instant."""
    job: str
    """Until this job has finished."""
    endpoint: str
    """Until this webhook endpoint is disabled."""
    meter: str
    """Until this metered allowance begins anew,"""
    account: str
    """of this account (default the first one)."""
    timeout: float | None
    """Seconds of wall time that webhooks may take."""


class NotSettled(AssertionError):
    """Time was moved and not everything that fell due could be done; the message says what is missing."""


class PartOfWorld:
    """What a test does with one part of a world, on the world's loop."""

    def __init__(self, twin: Twin, thread: LoopThread) -> None:
        self._twin, self._thread = twin, thread


class Clock(PartOfWorld):
    """The clock of a world, which goes forward only."""

    _followers: tuple[Callable[[datetime], object], ...] = ()

    @property
    def now(self) -> Micros:
        """The current instant, µs since the epoch."""
        return self._twin.now()

    def __str__(self) -> str:
        return iso(self.now)

    def __repr__(self) -> str:
        return f"<Clock {self}, {self._twin.clock.rate}>"

    def sleep(self, seconds: float) -> None:
        """Move time on by so many seconds: what a client may be given as its sleep, such as after a 429."""
        self.advance(timedelta(seconds=seconds))

    async def sleep_async(self, seconds: float) -> None:
        """The same for a client that awaits it."""
        await self.advance_async(timedelta(seconds=seconds))

    def follow(self, move_to: Callable[[datetime], object]) -> None:
        """Let another clock be moved to this one's instant, now and after each advance.

        `move_to` is that of a time-machine or freezegun: `with time_machine.travel(0, tick=False) as
        traveller: world.clock.follow(traveller.move_to)`.
        """
        self._followers = (*self._followers, move_to)
        move_to(datetime.fromtimestamp(self.now / SECOND, UTC))

    def _moved(self, advance: Advance) -> Advance:
        for move_to in self._followers:
            move_to(datetime.fromtimestamp(advance.now / SECOND, UTC))
        return advance

    def advance(self, by: Length | None = None, **further: Unpack[HowFar]) -> Advance:
        """Move time on, and return when everything that fell due was done, webhooks answered included.

        `by` is a length with its unit, "36m" or a timedelta; `HowFar` has what else may be said. What does
        not come within `by`, or 400 days, is given up, which `met` of the answer tells. Raises NotSettled,
        and BadInput, also for a plain number.
        """
        return self._moved(self._thread.call(self._advance(by, **further)))

    async def advance_async(self, by: Length | None = None, **further: Unpack[HowFar]) -> Advance:
        """The same without blocking the loop of the caller."""
        return self._moved(await self._thread.call_async(self._advance(by, **further)))

    def next(self, timeout: float | None = None) -> Advance:
        """Move on to the next piece of work that is due; where there is none time stays."""
        return self._moved(self._thread.call(settled(self._twin.advance_to_next(timeout))))

    def settle(self, timeout: float | None = None) -> Advance:
        """Let what is due now be done and what is out be answered."""
        return self.advance("0s", timeout=timeout)

    def set(self, clock: str | None = None, traffic: str | None = None, signature: str | None = None) -> None:
        """Change how time runs ("manual", "real", "scaled:60") from here on. Raises BadInput."""
        self._thread.run(lambda: self._twin.set_clock(clock, traffic, signature))

    async def _advance(
        self,
        by: Length | None,
        to: Moment | None = None,
        job: str = "",
        endpoint: str = "",
        meter: str = "",
        account: str = "",
        timeout: float | None = None,
    ) -> Advance:
        twin = self._twin
        until = AdvanceCondition(job or None, endpoint or None) if job or endpoint else None
        if job and endpoint:
            raise BadInput("clock: expected a job or an endpoint, not both")
        if account and not meter:
            raise BadInput("clock: account says whose meter is meant; give meter too")
        if meter and (by, to) != (None, None):
            raise BadInput("clock: a meter says how far to go; leave out by and to")
        instant = None if to is None else moment_of(to)
        if meter:
            state = twin.service.state
            owner = account or state.keys[twin.keys["production"]].account
            instant = meter_resets(state, twin.policy, owner, meter, twin.now())
        length = None if by is None else length_micros(by)
        return await settled(twin.advance(by=length, to=instant, until=until, timeout=timeout))


class Jobs(PartOfWorld):
    """The jobs of a world, whose outcome a test may decide; the webhooks of it are answered on return."""

    def __repr__(self) -> str:
        jobs = self._thread.run(lambda: list(self._twin.service.state.jobs.values()))
        under_way = [job.id for job in jobs if job.finished_at is None]
        return f"<Jobs: {len(jobs)}, under way: {', '.join(under_way[:5]) or 'none'}>"

    def finish(self, job: str, cost: int | None = None) -> None:
        """Let a job be done now, at a `cost` in µUSD (default: its estimate). Raises BadInput."""
        self._end(job, "done", None, cost)

    def fail(self, job: str, error: str = "failed by the test") -> None:
        """Let a job fail now with this error_detail; it costs nothing (U49). Raises BadInput."""
        self._end(job, "failed", error, None)

    def _end(self, job: str, outcome: str, error: str | None, cost: int | None) -> None:
        async def ended() -> None:
            self._twin.finish_job(job, outcome, error, cost)
            await settled_now(self._twin)

        self._thread.call(ended())


async def settled(moving: Coroutine[Any, Any, Advance]) -> Advance:
    """Let time move on. Raises NotSettled where something that fell due could not be done."""
    advance = await moving
    if not advance.settled:
        waiting = ", ".join(
            f"attempt {attempt.number} of {attempt.event} to {attempt.url}" for attempt in advance.waiting
        )
        raise NotSettled(f"time stands at {iso(advance.now)}, still without an answer: {waiting}")
    return advance


async def settled_now(twin: Twin) -> None:
    """Let what is due now be done; where an advance is under way, that does it. Raises NotSettled."""
    with suppress(AdvanceUnderWay):
        await settled(twin.advance(by=0))


def length_micros(length: Length) -> Micros:
    """Return a length in µs. Raises BadInput."""
    return read_at("clock", length_in_micros, length)


def moment_of(moment: Moment, where: str = "clock") -> Micros:
    """Return a moment in µs since the epoch; `where` says in an error what it is of. Raises BadInput."""
    return read_at(where, lambda moment: in_micros(moment, instant), moment)
