"""What a world tells when a test fails: its clock, and the last requests with what refused them."""

from __future__ import annotations

from pydantic_core import to_json

from ranksim.core.clock import iso
from ranksim.twin.facade.event_lines import call_line
from ranksim.twin.facade.logged_event import AnsweredCall
from ranksim.twin.facade.twin import Twin

LONGEST = 600
"""Characters of a body that are shown."""


def told(twin: Twin, most: int = 5) -> str:
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
            shown = entry.shown()
            bodies = ((name, shown[field]) for name, field in BODIES)
            lines += [f"    {name:9}{_short(body)}" for name, body in bodies if body is not None]
    return "\n".join(lines)


BODIES = (("sent", "body"), ("answered", "response"))


def _short(body: object) -> str:
    text = to_json(body).decode("utf-8", "replace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text):,} characters)"
