"""The requests that a world inside a test was sent, and what explains a failure by them."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ranksim.core.clock import iso
from ranksim.core.errors import BadInput
from ranksim.twin.facade.logged_event import AnsweredCall
from ranksim.twin.facade.request_journal import Expected, JournalEntry, RequestJournal
from ranksim.twin.facade.terminal import call_line
from ranksim.twin.facade.twin import Twin
from ranksim.twin.testing.clock import PartOfWorld

LONGEST = 600
"""Characters of a body that are shown."""


class Requests(PartOfWorld):
    """The requests that a world was sent, oldest first: the last 10,000, or 64 MiB of them."""

    def search(self, **expected: Any) -> list[JournalEntry]:
        """Return the requests as expected; the arguments are fields of `request_journal.Expected`."""
        wanted = Expected(**expected)
        return self._thread.run(lambda: self._journal().search(wanted))

    def count(self, **expected: Any) -> int:
        """Count the requests as expected."""
        return len(self.search(**expected))

    def clear(self) -> None:
        """Forget the requests that came so far."""
        self._thread.run(lambda: self._journal().clear())

    def assert_made(self, times: int | None = None, **expected: Any) -> None:
        """Assert that such a request came, or that it came so many times.

        The AssertionError names the requests that came near, and what tells them apart.
        """
        __tracebackhide__ = True
        wanted = Expected(**expected)
        least = 1 if times is None else times
        verdict = self._thread.run(lambda: self._journal().verify(wanted, least, times))
        if not verdict:
            raise AssertionError(verdict.message)

    def _journal(self) -> RequestJournal:
        if self._twin.requests is None:
            raise BadInput("requests: this world keeps no journal")
        return self._twin.requests


def explain_failure(twin: Twin, most: int = 5) -> str:
    """Return the clock and the last `most` requests: those refused with what was sent and answered."""
    now, due = twin.now(), twin.next_due()
    waits = "nothing is due" if due is None else f"next due {iso(due)}"
    lines = [f"clock {iso(now)} ({twin.clock.rate}), {waits}"]
    calls = [event.entry for event in twin.event_log if isinstance(event.entry, AnsweredCall)]
    if twin.faults.active:
        lines.append(f"fault rules in force: {', '.join(twin.faults.active)}")
    lines.append(f"the last {min(most, len(calls))} of {len(calls)} requests:" if calls else "no requests")
    for call in calls[-most:]:
        lines.append(call_line(call))
        entry = None if twin.requests is None else twin.requests.find(call.number)
        if entry is not None and call.failed:
            exchange = entry.shown()
            bodies = (("sent", exchange["body"]), ("answered", exchange["response"]))
            lines += [f"    {name:9}{_short(body)}" for name, body in bodies if body is not None]
    return "\n".join(lines)


def _short(body: object) -> str:
    text = to_json(body).decode("utf-8", "replace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text):,} characters)"
