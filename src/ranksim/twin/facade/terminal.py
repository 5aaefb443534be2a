"""The log of what happens: a line for each call and each webhook attempt, for people or as JSON."""

from __future__ import annotations

import asyncio
from json import dumps
from typing import Literal, TextIO

from ranksim.core.clock import MILLISECOND, SECOND, Micros, iso
from ranksim.core.contract.facts import CHECK_NAMES
from ranksim.core.printable import printable
from ranksim.core.service.events import EndpointDisabled
from ranksim.report.units import duration
from ranksim.twin.facade.logged_event import AnsweredCall, LoggedEvent, ReportedAttempt
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.wall_clock import wall

TOGETHER_SECONDS = 0.05
"""How long lines are gathered: under load one write tells of many calls."""


class Terminal:
    """Writes a line for each call and each webhook attempt of a twin, in a thread that no request waits for.

    Lines are as people read them or, with the `form` "json", objects with the time of writing beside the
    twin's. Where more happens than is remembered while a terminal is slow, a line says how much was left out.
    """

    def __init__(self, twin: Twin, stream: TextIO, form: Literal["lines", "json"] = "lines") -> None:
        self._twin, self._stream, self._form = twin, stream, form
        self._told = twin.event_log.last
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to tell, on the running event loop."""
        self._following = asyncio.create_task(self._follow())

    @property
    def ended(self) -> bool:
        """Whether nobody is told any more."""
        return self._following is not None and self._following.done()

    async def stop(self) -> None:
        """Tell the rest, and end."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            await self._tell()

    async def _follow(self) -> None:
        while True:
            await self._twin.event_log.wait(self._told)
            await asyncio.sleep(TOGETHER_SECONDS)
            if not await self._tell():
                return

    async def _tell(self) -> bool:
        """Write what has happened since; return whether anybody can read it."""
        events = self._twin.event_log.since(self._told)
        if not events:
            return True
        missed = events[0].seq - self._told - 1
        self._told = events[-1].seq
        return await asyncio.to_thread(self._write, events, missed)

    def _write(self, events: list[LoggedEvent], missed: int) -> bool:
        if self._form == "json":
            time = iso(wall())
            lines = [dumps({"time": time, "what": "missed", "count": missed})] if missed else []
            lines += [dumps({"time": time, **event.to_dict()}) for event in events if line_of(event)]
        else:
            lines = [f"({missed:,} more happened than could be written)"] if missed else []
            lines += [line for line in map(line_of, events) if line is not None]
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except OSError:  # the terminal is gone
            return False
        return True


# Lines


def line_of(event: LoggedEvent) -> str | None:
    """Write an event as a line; None for what has no line of its own."""
    match event.entry:
        case AnsweredCall() as call:
            return call_line(call)
        case ReportedAttempt() as reported:
            return attempt_line(reported)
        case EndpointDisabled(by_account=False) as disabled:
            return f"{write_instant(disabled.at)}  {disabled.endpoint} is disabled: {disabled.reason}"
    return None


def call_line(call: AnsweredCall) -> str:
    """Write a call: instant, method, path and query, status, what refused it, its key, how long it took."""
    words = [
        write_instant(call.at),
        f"{call.method:6}",
        printable(call.path + (call.query and f"?{call.query}")),
    ]
    answered = " ".join((str(call.status), *why_refused(call))) if call.status else ""
    words.append(f"dropped {call.dropped} {answered or 'its effect'}" if call.dropped else answered)
    if call.faults:
        words.append(f"by {', '.join(call.faults)}")
    words.append(f"key {printable(call.key)}" if call.key else "no key")
    words.append(duration(call.took))
    return "  ".join(words)


def why_refused(call: AnsweredCall) -> list[str]:
    """Return the code of a refusal and who refused: one of the six checks, or the class of a rate window."""
    words = [call.code] if call.code else []
    if call.check:
        words.append(f"(check {call.check}, {CHECK_NAMES[call.check - 1]})")
    elif call.rate_class:
        words.append(f"({call.rate_class} window)")
    return words


def attempt_line(reported: ReportedAttempt) -> str:
    """Write an attempt: instant, event, its number, where to, what was answered, when the next one is."""
    attempt, answered = reported.attempt, reported.answered
    outcome = str(answered.status_code or answered.error or "no answer")
    if answered.next_attempt_at is not None:
        outcome += f", again at {write_instant(answered.next_attempt_at)}"
    elif answered.outcome != "acknowledged":
        outcome += f", {answered.outcome}"
    what = f"{attempt.event_type} {attempt.event} attempt {attempt.number}"
    return "  ".join(
        (write_instant(reported.at), "->    ", what, f"to {printable(attempt.url)}", printable(outcome))
    )


def write_instant(at: Micros) -> str:
    """Write an instant in UTC, to the millisecond."""
    seconds = iso(at // SECOND * SECOND).removesuffix("Z").replace("T", " ")
    return f"{seconds}.{at % SECOND // MILLISECOND:03d}"
