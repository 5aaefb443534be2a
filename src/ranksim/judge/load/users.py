"""Locust users that run the profiles; the one module that imports Locust, which patches sockets and time.

A locustfile says `Burst = user_class("burst")`.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import gevent
from gevent.event import Event
from gevent.pool import Group
from locust import User, events, task
from locust.runners import MasterRunner, WorkerRunner
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING, LOCUST_STATE_WAITING

from ranksim.core.callers.steps import Program, Send
from ranksim.core.clock import MILLISECOND, SECOND
from ranksim.core.errors import BadInput
from ranksim.judge.load.driver import drive
from ranksim.judge.load.options import LoadOptions, add_arguments
from ranksim.judge.load.processes import GRACE, READING, Leader, Worker, WorkerContext
from ranksim.judge.load.run import TIDYING, Part
from ranksim.judge.load.session import CallOutcome, Session, refused
from ranksim.judge.load.summary import CUT
from ranksim.judge.profiles import Profile, profile

PARENT = "RANKSIM_LOAD_PARENT"
"""The environment variable that names the process which is to be followed to its end."""

ALONE = 2 * GRACE + (READING + TIDYING) / SECOND
"""Seconds that a load may take to end in good order which nobody waits for any more."""

CONTEXT = WorkerContext()
"""Where the users of this process find what they need. Locust has one environment a process."""


def user_class(which: str | Profile) -> type[User]:
    """Make the class of users that run a profile, of ours by its name, or any. Raises BadInput."""
    chosen = profile(which) if isinstance(which, str) else which
    title = "".join(word.capitalize() for word in chosen.name.replace("-", "_").split("_"))
    inside = {"abstract": False, "profile": chosen, "__doc__": chosen.aim, "__module__": __name__}
    return type(title, (ProfileUser,), inside)


class ProfileUser(User):
    """One user of a profile: runs its program to the end, then stays idle until the run stops."""

    abstract = True
    profile: Profile

    @task
    def perform(self) -> None:
        """Run the program."""
        with self._idle():
            CONTEXT.ready.wait()
        part, reach = CONTEXT.part, CONTEXT.reach
        if part is not None and reach is not None:
            number = CONTEXT.number(self.profile.name)
            program = self.profile.program(reach, number, part.shared.users, part.shared.seed, load=True)
            beside = Beside(part, f"{self.profile.name}-{number}", self._observe)
            session = part.session(beside.client)
            once = False

            def lap() -> bool:
                nonlocal once
                once = True
                return True

            try:
                drive(
                    part.guarded(program),
                    session,
                    part.receiver,
                    on_call=self._observe,
                    idle=self._idle,
                    stopped=self._stopping,
                    spawn=beside.spawn,
                    on_lap=lap,
                )
                once = once or not self._stopping()
                with self._idle():
                    beside.wait()
            except BadInput as error:
                logging.getLogger("ranksim.load").error("%s", error)
            finally:
                if not once:
                    part.recorder.note(CUT, client=beside.client)
                session.close()
                beside.stop(self.environment.stop_timeout or 0)
            if not self._stopping():
                CONTEXT.ended()
        if not self._stopping():
            with self._idle():
                Event().wait()

    def _stopping(self) -> bool:
        return bool(self._state == LOCUST_STATE_STOPPING)

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """A wait in which Locust may stop the user at once."""
        if self._state == LOCUST_STATE_RUNNING:
            self._state = LOCUST_STATE_WAITING
        yield
        if self._state == LOCUST_STATE_WAITING:
            self._state = LOCUST_STATE_RUNNING

    def _observe(self, send: Send, outcome: CallOutcome) -> None:
        """Count a call in Locust's statistics. A refusal that the API promises is no failure."""
        received = outcome.received
        self.environment.events.request.fire(
            request_type="GraphQL" if send.surface == "graphql" else "REST",
            name=send.operation + (" (lost on purpose)" if send.lose else ""),
            response_time=(received.received - received.sent) / MILLISECOND,
            response_length=outcome.length,
            response=None,
            context={},
            exception=None if send.lose else _failure(outcome),
            start_time=received.sent / SECOND,
            url=None,
        )


class Beside:
    """Programs beside that of a user, each with connections of its own, which are used again."""

    def __init__(self, part: Part, client: str, on_call: Callable[[Send, CallOutcome], None]) -> None:
        self.part, self.client, self.on_call = part, client, on_call
        self._running = Group()
        self._sessions: list[Session] = []
        self._stopped = Event()

    def spawn(self, program: Program) -> None:
        """Begin a program; what it may spend, the user's program has seen to."""
        self._running.spawn(self._perform, program)

    def wait(self) -> None:
        """Wait until all programs have come to their ends, those that they begin as well."""
        self._running.join()

    def stop(self, seconds: float) -> None:
        """End all programs before their next steps; calls under way have so many seconds to be answered."""
        self._stopped.set()
        self._running.join(timeout=seconds)
        self._running.kill()
        for session in self._sessions:
            session.close()

    def _perform(self, program: Program) -> None:
        session = self._sessions.pop() if self._sessions else self.part.session(self.client)
        try:
            drive(
                program,
                session,
                self.part.receiver,
                on_call=self.on_call,
                stopped=self._stopped.is_set,
                spawn=self.spawn,
                sleep=self._stopped.wait,
            )
        finally:
            self._sessions.append(session)


def _failure(outcome: CallOutcome) -> Exception | None:
    if outcome.error:
        return ConnectionError(outcome.error)
    if outcome.received.ok or refused(outcome):
        return None
    return RuntimeError(f"answered {outcome.received.status} {outcome.received.code}".strip())


# Locust's events


def _on_init(environment: Any, runner: Any, **_: Any) -> None:
    """Assign this process its role in the runs to come."""
    here: Leader | Worker
    if isinstance(runner, WorkerRunner):
        here = Worker(environment, CONTEXT)
        # Locust counts every few seconds; what came since then would be missing from the leader's totals.
        environment.events.test_stop.add_listener(lambda **_: runner._send_stats())
    else:
        _set_host(environment)
        names = "-".join(kind.profile.name for kind in environment.user_classes)
        here = Leader(environment, CONTEXT, names, distributed=isinstance(runner, MasterRunner))
    environment.events.test_start.add_listener(lambda **_: here.begin())
    environment.events.test_stop.add_listener(lambda **_: here.end())
    environment.events.quitting.add_listener(lambda **_: here.leave())
    if parent := os.environ.get(PARENT):
        gevent.spawn(_stop_with_parent, os.getppid() if isinstance(runner, WorkerRunner) else int(parent))


def _set_host(environment: Any) -> None:
    """Show where a target file leads to."""
    options = LoadOptions.of(environment)
    if options.file:
        with suppress(BadInput):  # which is told when the run begins
            environment.host = next(iter(options.target().environments.values()))


def _stop_with_parent(parent: int) -> None:
    """Stop when the program that started this one is gone, lest load goes on that nobody watches."""
    while os.getppid() == parent:
        gevent.sleep(1)
    logging.getLogger("ranksim.load").error("the program that started this load is gone; stopping")
    os.kill(os.getpid(), signal.SIGTERM)
    gevent.sleep(ALONE)
    os._exit(1)


hooks: Any = events
hooks.init_command_line_parser.add_listener(lambda parser, **_: add_arguments(parser))
hooks.init.add_listener(_on_init)
