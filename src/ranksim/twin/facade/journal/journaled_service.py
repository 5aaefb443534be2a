"""A service whose inputs are recorded, and how recorded inputs are replayed.

The service is deterministic, so its inputs lead to its state. What can be refused is recorded once it is
done, everything else before: a call that breaks the service is recorded too, and breaks it again.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Literal, Protocol, get_args

from ranksim.core.clock import Micros
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Answer, Call, Fault, Reply, Step
from ranksim.core.service.service import Service
from ranksim.core.service.state import Event, State

log = logging.getLogger("ranksim.facade")

Administration = Literal[
    "open_account", "issue_key", "withdraw_key", "change_plan", "set_add_on", "set_status", "waive"
]
"""What the API itself does not offer: methods of `Service`, and of `JournaledService`."""

ADMINISTRATION = frozenset[str](get_args(Administration))

OF_WORLDS = frozenset({"trigger_job", "change_policy"})
"""Inputs that worlds and the control API have beside these."""


class NotKept(Exception):
    """What was asked for cannot be kept, so it was undone: nothing of it has happened."""


class Record(Protocol):
    """Told of every input of a world, in order: a method, the instant, the arguments.

    Methods are those of `Service`, and some more: "moved" (an advance ended at the instant), "set_clock",
    "began" (another world), "snapshot" (a saved world), "faults" (the rules, changed or struck) and
    "timeline" (where it stands). "advance" is told where it hands out attempts.
    """

    def __call__(self, method: str, now: Micros, arguments: dict[str, Any]) -> None:
        """Note one input."""


class JournaledService:
    """A service, with `record` told of every input. Its methods are those of `Service`."""

    def __init__(self, service: Service, record: Record) -> None:
        self.service, self._record = service, record
        self.policy, self.next_due, self.admits = service.policy, service.next_due, service.admits
        self.save, self.fork = service.save, service.fork

    def __getattr__(self, name: str) -> Any:
        """Return what administers, and records it: a method of `ADMINISTRATION` or `OF_WORLDS`."""
        if name not in ADMINISTRATION | OF_WORLDS:
            raise AttributeError(f"{name} is no input of a service, and nothing that is read of it")
        return partial(self._administer, name)

    @property
    def state(self) -> State:
        """All state, as plain data; read it, do not write it."""
        return self.service.state

    # Inputs

    def handle(self, call: Call, now: int, traffic_now: int | None = None, *, reads: bool = True) -> Step:
        """Answer one call at `now`; whether anybody reads what it lists changes no state."""
        self._record("handle", now, {"call": call, "traffic_now": traffic_now})
        return self.service.handle(call, now, traffic_now, reads=reads)

    def handle_batch(self, calls: Sequence[Call], now: int, traffic_now: int | None = None) -> Step:
        """Answer the calls of one GraphQL request, in order."""
        self._record("handle_batch", now, {"calls": list(calls), "traffic_now": traffic_now})
        return self.service.handle_batch(calls, now, traffic_now)

    def written(self, reply: Reply, now: int) -> None:
        """Note that a reply was written; only one that ends a flight is an input."""
        if reply.flight:
            self._record("written", now, {"flight": reply.flight})
            self.service.written(reply, now)

    def advance(self, now: int) -> Step:
        """Do all work that is due at `now`.

        A replay does due work by itself; the instant is recorded where attempts go out, so that no number of
        an attempt that went out is given away again.
        """
        step = self.service.advance(now)
        if step.tasks:
            self._record("advance", now, {})
        return step

    def started(self, job: str, now: int) -> Step:
        """Report that a pool's worker took up a job."""
        self._record("started", now, {"job": job})
        return self.service.started(job, now)

    def ended(
        self, job: str, outcome: str, now: int, cost: int | None = None, error: str | None = None
    ) -> Step:
        """Report that a job ended. Raises BadInput."""
        step = self.service.ended(job, outcome, now, cost, error)
        self._record("ended", now, {"job": job, "outcome": outcome, "cost": cost, "error": error})
        return step

    def attempted(self, attempt: int, answer: Answer, now: int) -> Step:
        """Report what a receiver answered to an attempt, or that it did not."""
        self._record("attempted", now, {"attempt": attempt, "answer": answer})
        return self.service.attempted(attempt, answer, now)

    def resume(self, now: int) -> Step:
        """Hand out again the attempts that were under way when the state was saved."""
        self._record("resume", now, {})
        return self.service.resume(now)

    def resend(self, event: Event, endpoint: str, now: int) -> None:
        """Deliver an event to an endpoint once more. Raises BadInput."""
        sent = asdict(replace(event, open=0))
        self.service.resend(event, endpoint, now)
        self._record("resend", now, {"event": sent, "endpoint": endpoint})

    def _administer(self, method: str, now: int, **arguments: Any) -> Any:
        result = getattr(self.service, method)(now=now, **arguments)
        self._record(method, now, arguments)
        return result


def replay_input(service: Service, method: str, now: int, arguments: dict[str, Any]) -> None:
    """Replay one recorded input, parsed from JSON, on a service. Raises BadInput for an unknown one."""
    match method:
        case "handle" | "handle_batch":
            if method == "handle":
                arguments["call"] = _call(arguments["call"])
            else:
                arguments["calls"] = [_call(fields) for fields in arguments["calls"]]
            try:
                getattr(service, method)(now=now, **arguments)
            except Exception:
                log.exception("a call failed, as it did when it came")
        case "written":
            service.written(Reply(0, None, flight=arguments["flight"]), now)
        case "attempted":
            service.attempted(arguments["attempt"], Answer(**arguments["answer"]), now)
        case "resend":
            service.resend(Event(**arguments["event"]), arguments["endpoint"], now)
        case "started" | "ended" | "advance" | "resume" | "trigger_job":
            getattr(service, method)(now=now, **arguments)
        case _ if method in ADMINISTRATION:
            getattr(service, method)(now=now, **arguments)
        case _:
            raise BadInput(f"state file: expected an input that this version knows, found {method!r}")


def _call(fields: dict[str, Any]) -> Call:
    call = Call(**fields)
    if call.raw is not None:
        call.raw = bytes_of(fields["raw"])
    if isinstance(call.fault, dict):
        call.fault = Fault(**call.fault)
    else:  # files that were begun when a fault was a code alone
        call.fault = Fault(str(call.fault)) if call.fault else None
    return call


def bytes_of(text: str) -> bytes:
    """Return bytes that a recorded input has as text."""
    return b64decode(text, altchars=b"-_")
