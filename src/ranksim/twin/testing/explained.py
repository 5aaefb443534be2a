"""What a world says when a test fails: its clock, what is due, endpoints, attempts and the last requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest

from pydantic_core import to_json

from ranksim.core.clock import MINUTE, SECOND, Micros, format_duration, iso
from ranksim.core.service.context import JOB_ENDS
from ranksim.core.service.state import State
from ranksim.twin.facade.logged_event import AnsweredCall
from ranksim.twin.facade.terminal import call_line
from ranksim.twin.facade.twin import Twin

LONGEST = 600
"""Characters of a body that are shown."""

MOST = 5
"""Requests, endpoints and pieces of work that are named."""


def explain_failure(twin: Twin, most: int = MOST) -> str:
    """Return what a test may wait for, and the last requests, those refused with what was sent and said."""
    state, now = twin.service.state, twin.now()
    lines = [f"clock {iso(now)} ({twin.clock.rate})", *_due(state, now), *_endpoints(state)]
    if twin.faults.active:
        lines.append(f"fault rules in force: {', '.join(twin.faults.active)}")
    calls = [event.entry for event in twin.event_log if isinstance(event.entry, AnsweredCall)]
    lines.append(f"the last {min(most, len(calls))} of {len(calls)} requests:" if calls else "no requests")
    for call in calls[-most:]:
        lines.append(call_line(call))
        entry = None if twin.requests is None else twin.requests.find(call.number)
        if entry is not None and call.failed:
            exchange = entry.shown()
            bodies = (("sent", exchange["body"]), ("answered", exchange["response"]))
            lines += [f"    {name:9}{_short(body)}" for name, body in bodies if body is not None]
    return "\n".join(lines)


def _due(state: State, now: Micros) -> Iterator[str]:
    """Say what falls due next, by name, and that time has to move for it."""
    if not state.agenda:
        yield "nothing is due"
        return
    for due, _, what, which in nsmallest(MOST, state.agenda):
        ahead = max(0, due - now)
        unit = SECOND if ahead >= MINUTE else 1_000 if ahead >= SECOND else 1
        when = f"in {format_duration(ahead // unit * unit)}" if ahead else "now"
        if what == JOB_ENDS:
            job = state.jobs[str(which)]
            domain = state.domains.get(job.domain)
            yield f"due: {job.id} ({job.kind} of {domain.host if domain else job.domain}) ends {when}"
        else:
            delivery = state.deliveries.get(int(which))
            if delivery is not None:
                to = f"{delivery.event} to {delivery.endpoint}"
                yield f"due: attempt {delivery.made + 1} of {to} {when}"
    if (others := len(state.agenda) - MOST) > 0:
        yield f"     and {others} more"


def _endpoints(state: State) -> Iterator[str]:
    """Say which endpoints subscribe to what, and what came of their attempts."""
    outcomes: dict[str, Counter[str]] = {}
    for attempt in state.attempts.values():
        outcome = str(attempt.status_code or attempt.error or "no answer")
        outcomes.setdefault(attempt.endpoint, Counter())[outcome] += 1
    for endpoint in list(state.endpoints.values())[:MOST]:
        takes = ", ".join(endpoint.event_types) or "all events"
        of = f" of {endpoint.domain}" if endpoint.domain else ""
        off = "" if endpoint.enabled else f"; disabled: {endpoint.disabled_reason}"
        came = outcomes.get(endpoint.id, Counter())
        answers = ", ".join(f"{outcome} × {count}" for outcome, count in came.items())
        yield f"{endpoint.id} {endpoint.url} takes {takes}{of}{off}; attempts: {answers or 'none'}"
    if not state.endpoints:
        yield "no endpoint, so no webhook is sent"
    elif (others := len(state.endpoints) - MOST) > 0:
        yield f"and {others} more endpoints"


def _short(body: object) -> str:
    text = to_json(body).decode("utf-8", "replace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text):,} characters)"
