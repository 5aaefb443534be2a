"""Locust users that run the profiles; the one module that imports Locust, which patches sockets and time.

A locustfile says `Burst = user_class("burst")`. The process that leads (local or master) opens the run
before the users begin and finishes it after they have ended; workers learn from it what they need, record a
part each, and tell when they are done.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from locust import User, events, task
from locust.runners import LocalRunner, MasterRunner, WorkerRunner
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING, LOCUST_STATE_WAITING

from ranksim.clock import MILLISECOND, SECOND
from ranksim.errors import BadInput
from ranksim.load.driver import drive
from ranksim.load.options import Options, add_arguments
from ranksim.load.profiles import Profile, profile
from ranksim.load.run import Part, Run, Shared, Wishes, reach_from_message
from ranksim.load.session import Outcome, refused
from ranksim.load.steps import Send

ASK, TELL, STOP, DONE, ENDED = (
    "ranksim_ask", "ranksim_tell", "ranksim_stop", "ranksim_done", "ranksim_ended",
)  # fmt: skip
"""Messages: what is the run; this is it; stop; my part is closed; a program came to its end."""

SECONDS = "RANKSIM_LOAD_SECONDS"
"""The environment variable that says how long the load goes on, what comes before and after not counted."""

PROBLEM = "RANKSIM_LOAD_PROBLEM"
"""The environment variable that names the file where to say why nothing could be loaded."""

PARENT = "RANKSIM_LOAD_PARENT"
"""The environment variable that names the process which is to be followed to its end."""

GRACE = 5.0
"""Seconds that workers have to close their parts, beyond what users have to stop."""

log = logging.getLogger("ranksim.load")


def user_class(name: str) -> type[User]:
    """Make the class of users that run a profile. Raises BadInput when there is no such profile."""
    known = profile(name)
    title = "".join(word.capitalize() for word in known.name.replace("-", "_").split("_"))
    made: type[User] = type(
        title,
        (ProfileUser,),
        {"abstract": False, "profile": known, "__doc__": known.aim, "__module__": __name__},
    )
    return made


class ProfileUser(User):
    """One user of a profile: runs its program to the end, then stays idle until the run stops."""

    abstract = True
    profile: Profile

    @task
    def perform(self) -> None:
        """Run the program."""
        with self._idle():
            LOAD.ready.wait()
        part, reach = LOAD.part, LOAD.reach
        if part is None:
            with self._idle():
                Event().wait()
            return
        number = LOAD.number()
        program = self.profile.program(reach, number, part.shared.users, part.shared.seed)
        session = part.session(f"{self.profile.name}-{number}")
        try:
            drive(
                part.guarded(program), session, part.ear,
                heard=self._heard, idle=self._idle, stopped=lambda: self._state == LOCUST_STATE_STOPPING,
            )  # fmt: skip
        finally:
            session.close()
        if self._state != LOCUST_STATE_STOPPING:
            LOAD.ended()
            with self._idle():
                Event().wait()

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """A wait in which Locust may stop the user at once."""
        if self._state == LOCUST_STATE_RUNNING:
            self._state = LOCUST_STATE_WAITING
        yield
        if self._state == LOCUST_STATE_WAITING:
            self._state = LOCUST_STATE_RUNNING

    def _heard(self, send: Send, outcome: Outcome) -> None:
        """Count a call in Locust's statistics. A refusal that the API promises is no failure."""
        received = outcome.received
        name = send.operation + (" (lost on purpose)" if send.lose else "")
        self.environment.events.request.fire(
            request_type="GraphQL" if send.surface == "graphql" else "REST",
            name=name,
            response_time=(received.received - received.sent) / MILLISECOND,
            response_length=outcome.length,
            response=None,
            context={},
            exception=None if send.lose else _failure(outcome),
            start_time=received.sent / SECOND,
            url=None,
        )


def _failure(outcome: Outcome) -> Exception | None:
    if outcome.error:
        return ConnectionError(outcome.error)
    if outcome.received.ok or refused(outcome):
        return None
    return RuntimeError(f"answered {outcome.received.status} {outcome.received.code}".strip())


class Load:
    """What this process does in the run that is under way. Locust has one environment a process."""

    def __init__(self) -> None:
        self.environment: Any = None
        self.ready = Event()
        self.run: Run | None = None
        self.part: Part | None = None
        self.reach: Any = None
        self._numbers = count()
        self._place, self._places = 0, 1
        self._parts = count(1)
        self._asked: list[str] = []
        self._working: set[str] = set()
        self._finished = 0

    # In every process

    def number(self) -> int:
        """Give the next user's number, which no user of another process has."""
        return next(self._numbers) * self._places + self._place

    def ended(self) -> None:
        """A program came to its end. When all have, so has the run."""
        runner = self.environment.runner
        if isinstance(runner, WorkerRunner):
            runner.send_message(ENDED, {})
        else:
            self.one_ended()

    def _begin(self, part: Part, place: int) -> None:
        self.part, self._place, self._places = part, place, part.shared.processes
        self.reach = reach_from_message(part.shared.reach, part.target)
        self._numbers = count()
        self.ready.set()

    def _end(self) -> None:
        self.ready.clear()
        self.part = None

    # In the process that leads

    def lead(self) -> None:
        """Open the run before the first user begins; when that cannot be, end with exit code 2."""
        runner, options = self.environment.runner, Options.of(self.environment)
        self._parts, self._finished, self._asked = count(1), 0, []
        self._working = set()
        try:
            target = options.target()
            self.run = Run(target, self._wishes(options))
        except BadInput as error:
            self._refuse(error)
            return
        if isinstance(runner, MasterRunner):
            for client in self._asked:
                self._tell(client)
        else:
            self._begin(self.run.part, 0)
        if seconds := os.environ.get(SECONDS):
            gevent.spawn_later(float(seconds), self._leave)

    def _wishes(self, options: Options) -> Wishes:
        runner = self.environment.runner
        names = ",".join(
            cls.profile.name for cls in self.environment.user_classes if issubclass(cls, ProfileUser)
        )
        return Wishes(
            options.directory(names),
            names,
            max(1, runner.target_user_count),
            runner.worker_count if isinstance(runner, MasterRunner) else 0,
            options.seed,
            options.gzip,
        )

    def _refuse(self, error: BadInput) -> None:
        log.error("%s", error)
        self.environment.process_exit_code = 2
        if problem := os.environ.get(PROBLEM):
            Path(problem).write_text(str(error), encoding="utf-8")
        gevent.spawn(self._leave)

    def _leave(self) -> None:
        runner, options = self.environment.runner, self.environment.parsed_options
        runner.quit() if options is not None and options.headless else runner.stop()

    def asked(self, environment: Any, msg: Any) -> None:
        """Tell a worker of the run, at once or when it has been opened."""
        if self.run is None:
            self._asked.append(msg.node_id)
        else:
            self._tell(msg.node_id)

    def _tell(self, client: str) -> None:
        assert self.run is not None
        place = next(self._parts)
        self._working.add(client)
        data = {"place": place, "shared": self.run.shared.to_message()}
        self.environment.runner.send_message(TELL, data, client)

    def one_ended(self, environment: Any = None, msg: Any = None) -> None:
        """Take in that a program came to its end."""
        runner = self.environment.runner
        self._finished += 1
        if self._finished >= runner.target_user_count:
            log.info("all programs came to their end")
            gevent.spawn(self._leave)

    def done(self, environment: Any, msg: Any) -> None:
        """A worker closed its part."""
        self._working.discard(msg.node_id)

    def follow_up(self) -> None:
        """Finish the run once all users have ended and all parts are closed."""
        runner, run = self.environment.runner, self.run
        if run is None:
            return
        self.run = None
        if isinstance(runner, MasterRunner):
            self._gather(runner)
        self._end()
        try:
            merged = run.finish(_totals(self.environment.stats))
        except (BadInput, OSError) as error:
            log.error("%s", error)
            self.environment.process_exit_code = 2
            return
        log.info("%d exchanges and %d deliveries in %s", merged.exchanges, merged.deliveries, run.path)

    def _gather(self, runner: Any) -> None:
        """Have workers stop, and wait until their parts are closed, or they are gone."""
        runner.send_message(STOP, {})
        patience = gevent.Timeout((self.environment.stop_timeout or 0) + GRACE, False)
        with patience:
            while self._working:
                gevent.sleep(0.05)
        if self._working:
            log.warning("%d workers did not close their parts; what they wrote is kept", len(self._working))

    # In a worker

    def told(self, environment: Any, msg: Any) -> None:
        """Begin a part of the run that the master tells of."""
        try:
            shared = Shared.from_message(msg.data["shared"])
            target = Options.of(self.environment).target()
            place = msg.data["place"]
            self._begin(Part(shared, target, f"w{place}"), (place - 1) % shared.processes)
        except (BadInput, OSError) as error:
            log.error("%s", error)
            self.environment.process_exit_code = 2
            self.ready.set()

    def close(self) -> None:
        """Close this worker's part, and say so."""
        if self.part is not None:
            self.part.close()
        self._end()
        self.environment.runner.send_message(DONE, {})

    def stop(self, environment: Any, msg: Any) -> None:
        """Stop the users of this worker, which closes its part."""
        self.environment.runner.stop()


LOAD = Load()


def _totals(stats: Any) -> dict[str, Any]:
    """What Locust counted itself."""
    return {
        "requests": stats.total.num_requests,
        "failures": stats.total.num_failures,
        "failed": {
            f"{error.method} {error.name}: {error.error}": error.occurrences
            for error in stats.errors.values()
        },
    }


# Locust's events


def _on_parser(parser: Any) -> None:
    add_arguments(parser)


def _on_init(environment: Any, runner: Any, **_: Any) -> None:
    LOAD.environment = environment
    if environment.host is None and not isinstance(runner, WorkerRunner):
        options = Options.of(environment)
        if options.file:
            environment.host = next(iter(options.target().environments.values()))
    if isinstance(runner, MasterRunner):
        runner.register_message(ASK, LOAD.asked)
        runner.register_message(DONE, LOAD.done)
        runner.register_message(ENDED, LOAD.one_ended)
    if isinstance(runner, WorkerRunner):
        runner.register_message(TELL, LOAD.told)
        runner.register_message(STOP, LOAD.stop)
    if parent := os.environ.get(PARENT):
        gevent.spawn(_stop_with_parent, os.getppid() if isinstance(runner, WorkerRunner) else int(parent))


def _on_start(environment: Any, **_: Any) -> None:
    if isinstance(environment.runner, WorkerRunner):
        environment.runner.send_message(ASK, {})
    else:
        LOAD.lead()


def _on_stop(environment: Any, **_: Any) -> None:
    if isinstance(environment.runner, WorkerRunner):
        LOAD.close()
    else:
        LOAD.follow_up()


def _on_quitting(environment: Any, **_: Any) -> None:
    if isinstance(environment.runner, LocalRunner):
        environment.runner.stop()


def _listen(hooks: Any) -> None:
    hooks.init_command_line_parser.add_listener(_on_parser)
    hooks.init.add_listener(_on_init)
    hooks.test_start.add_listener(_on_start)
    hooks.test_stop.add_listener(_on_stop)
    hooks.quitting.add_listener(_on_quitting)


_listen(events)


def _stop_with_parent(parent: int) -> None:
    """Stop when the program that started this one is gone, lest load goes on that nobody watches."""
    while os.getppid() == parent:
        gevent.sleep(1)
    log.error("the program that started this load is gone; stopping")
    os.kill(os.getpid(), signal.SIGTERM)
    gevent.sleep(2 * GRACE)
    os._exit(1)
