"""The processes of a run and what they say to one another: one leads, and workers, if any, run the users.

Messages go through Locust's runners. A worker asks what the run is and is told, compares clocks where it is
on another machine, records a part of its own, and says when it is closed. Where it does not see the leader's
directory it sends its part along.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import gevent
from gevent.event import AsyncResult, Event

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, MINUTE, SECOND, Micros
from ranksim.core.errors import BadInput, read_at
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.load import merging
from ranksim.judge.load.options import LoadOptions, writable
from ranksim.judge.load.recorder import AnchoredClock, machine
from ranksim.judge.load.run import LoadRun, Part, RunSettings, Shared, reach_from_message
from ranksim.judge.load.summary import Summary
from ranksim.judge.load.thresholds import Threshold, verdict_lines

ASK, TELL, PING, PONG = "ranksim_ask", "ranksim_tell", "ranksim_ping", "ranksim_pong"
STOP, LINES, DONE, ENDED = "ranksim_stop", "ranksim_lines", "ranksim_done", "ranksim_ended"
"""What is the run; this is it; what time is it; this; stop; of my part; it is closed; a program has ended."""

SECONDS = "RANKSIM_LOAD_SECONDS"
"""The environment variable that says how long the load goes on, without what comes before and after."""

PROBLEM = "RANKSIM_LOAD_PROBLEM"
"""The environment variable that names the file where to say why nothing could be loaded."""

READING: Micros = 3 * MINUTE
"""How long it may take to read the state after a load."""

GRACE = 5.0
"""Seconds that workers have to close their parts, beyond what users have to stop."""

PINGS = 5
"""How often two clocks are compared, at the beginning and again at the end."""

CHUNK = 1 << 18
"""Bytes of a part that go into one message."""

log = logging.getLogger("ranksim.load")


class WorkerContext:
    """What the users of this process need: their part, what they can exercise, and their numbers."""

    def __init__(self) -> None:
        self.ready = Event()
        self.part: Part | None = None
        self.reach: Reach | None = None
        self.ended: Callable[[], None] = lambda: None
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
        self._place = 0

    def number(self, profile: str) -> int:
        """Return the number of the next user of a profile, which no user of another process has."""
        assert self.part is not None
        return next(self._numbers[profile]) * self.part.shared.processes + self._place

    def take(self, part: Part, place: int) -> None:
        """Let the users begin."""
        self.part, self._place, self._numbers = part, place, defaultdict(count)
        self.reach = reach_from_message(part.shared.reach, part.target)
        self.ready.set()

    def leave(self) -> None:
        """Let no user begin any more."""
        self.ready.clear()
        self.part = None


class Leader:
    """The process that Locust calls local or master: opens the run and finishes it.

    `profile` names what is run; `distributed` says that workers run the users.
    """

    def __init__(self, environment: Any, context: WorkerContext, profile: str, *, distributed: bool) -> None:
        self.environment = environment
        self.runner = environment.runner
        self.context = context
        self.profile = profile
        self.distributed = distributed
        self.run: LoadRun | None = None
        self._opening: gevent.Greenlet | None = None
        self._asked: list[str] = []
        self._places = count()
        self._working: set[str] = set()
        self._finished = 0
        self._thresholds: list[Threshold] = []
        self._closed = Event()
        self._closed.set()
        context.ended = self._one_ended
        if distributed:
            self.runner.register_message(ASK, self._on_ask)
            self.runner.register_message(PING, self._on_ping)
            self.runner.register_message(LINES, self._on_lines)
            self.runner.register_message(DONE, lambda environment, msg: self._working.discard(msg.node_id))
            self.runner.register_message(ENDED, lambda environment, msg: self._one_ended())

    def leave(self) -> None:
        """Stop what is under way, before Locust settles its exit code; a master sees to that itself.

        A run that is being finished is, also where Locust's time is over meanwhile: its trace is not one yet.
        """
        if self._opening is not None:
            gevent.kill(self._opening)  # a run that has not begun leaves nothing
        if not self.distributed:
            self.runner.stop()
        self._closed.wait((READING + MINUTE) / SECOND)

    def begin(self) -> None:
        """Open the run before the first user begins; when that cannot be, end with exit code 2."""
        self._finished, self._places = 0, count()
        self._working.clear()
        options = LoadOptions.of(self.environment)
        workers = self.runner.worker_count if self.distributed else 0
        users = max(1, self.runner.target_user_count)
        settings = RunSettings(
            options.directory(self.profile), self.profile, users, workers, options.seed, options.gzip
        )
        self._opening = gevent.getcurrent()
        try:
            self._thresholds = [read_at("--fail-on", Threshold.parse, text) for text in options.fail_on]
            self.run = LoadRun(writable(options.target()), settings)
        except BadInput as error:
            self._refuse(error)
            return
        finally:
            self._opening = None
        if self.distributed:
            waiting, self._asked = self._asked, []
            for client in waiting:
                self._tell(client)
        else:
            self.context.take(self.run.part, 0)
        if seconds := os.environ.get(SECONDS):
            gevent.spawn_later(float(seconds), self._leave)

    def end(self) -> None:
        """Finish the run once all users have ended and all parts are closed."""
        self._closed.clear()
        try:
            self._finish()
        finally:
            self._closed.set()

    def _finish(self) -> None:
        run = self.run
        if run is None:
            if self._thresholds:
                log.error("nothing was loaded, so no threshold holds")
                self.environment.process_exit_code = 1
            return
        if self.distributed:
            self._gather()
        self.run = None
        self.context.leave()
        try:
            merged = run.finish(_totals(self.environment.stats), until=run.clock.now() + READING)
        except (BadInput, OSError) as error:
            log.error("%s", error)
            self.environment.process_exit_code = 2
            return
        log.info("%d exchanges and %d deliveries in %s", merged.exchanges, merged.deliveries, run.path)
        self._judge(run)

    def _judge(self, run: LoadRun) -> None:
        """Hold the run against the thresholds of Locust's command line; what fails is in the exit code."""
        if not self._thresholds:
            return
        summary = Summary.held_against(run.path, self._thresholds, run.target.policy)
        verdicts, self._thresholds = summary.judged(self._thresholds), []
        for line in verdict_lines(verdicts):
            log.info("%s", line)
        if not all(each.holds for each in verdicts):
            self.environment.process_exit_code = 1

    def _refuse(self, error: BadInput) -> None:
        log.error("%s", error)
        self.environment.process_exit_code = 2
        if problem := os.environ.get(PROBLEM):
            Path(problem).write_text(str(error), encoding="utf-8")
        gevent.spawn(self._leave)

    def _leave(self) -> None:
        options = self.environment.parsed_options
        if options is not None and options.headless:
            self.runner.quit()
        else:
            self.runner.stop()

    def _one_ended(self) -> None:
        """A program came to its end. When all have, so has the run."""
        self._finished += 1
        if self._finished >= self.runner.target_user_count:
            log.info("all programs came to their end")
            gevent.spawn(self._leave)

    def _gather(self) -> None:
        """Have workers stop, and wait until their parts are closed, or they are gone."""
        self.runner.send_message(STOP, {})
        with gevent.Timeout((self.environment.stop_timeout or 0) + GRACE, False):
            while self._working - {
                worker.id for worker in self.runner.clients.all if worker.state == "missing"
            }:
                gevent.sleep(0.05)
        if self._working:
            log.warning(
                "%d workers did not close their parts in time; what they recorded on this machine is in the "
                "trace, and on others is not",
                len(self._working),
            )

    def _on_ask(self, environment: Any, msg: Any) -> None:
        if self.run is None:
            self._asked.append(msg.node_id)
        else:
            self._tell(msg.node_id)

    def _tell(self, client: str) -> None:
        assert self.run is not None
        self._working.add(client)
        shared = {"place": next(self._places), "shared": self.run.shared.to_message()}
        self.runner.send_message(TELL, shared, client)

    def _on_ping(self, environment: Any, msg: Any) -> None:
        if self.run is not None:
            self.runner.send_message(PONG, {"now": self.run.clock.now()}, msg.node_id)

    def _on_lines(self, environment: Any, msg: Any) -> None:
        """Take in some of a part from a worker that writes elsewhere."""
        if self.run is not None:
            with (self.run.directory / f"part-w{int(msg.data['place']) + 1}.jsonl").open("ab") as part:
                part.write(msg.data["lines"])


class Worker:
    """A process that runs some of the users, and records a part of its own."""

    def __init__(self, environment: Any, context: WorkerContext) -> None:
        self.environment = environment
        self.runner = environment.runner
        self.context = context
        self._elsewhere: Path | None = None
        self._place = 0
        self._ahead: tuple[Micros, Micros] | None = None
        self._pong: AsyncResult = AsyncResult()
        self._closing: gevent.Greenlet | None = None
        context.ended = lambda: self.runner.send_message(ENDED, {})
        self.runner.register_message(TELL, self._on_tell, concurrent=True)
        self.runner.register_message(PONG, lambda environment, msg: self._pong.set(msg.data["now"]))
        self.runner.register_message(STOP, lambda environment, msg: self.runner.stop(), concurrent=True)

    def begin(self) -> None:
        """Ask what the run is; users wait until it is told."""
        self.runner.send_message(ASK, {})

    def end(self) -> None:
        """Close the part, and say so; meanwhile Locust must go on listening, or clocks cannot be compared."""
        part = self.context.part
        self.context.leave()
        self._closing = gevent.spawn(self._close, part)

    def leave(self) -> None:
        """Stop, and wait until the part is closed."""
        self.runner.stop()
        if self._closing is not None:
            self._closing.join(timeout=2 * GRACE)

    def _close(self, part: Part | None) -> None:
        if part is not None:
            if self._ahead is not None:
                self._compare_again(part)
            part.close()
            if self._elsewhere is not None:
                self._send_along(part.recorder.path)
        self.runner.send_message(DONE, {})

    def _on_tell(self, environment: Any, msg: Any) -> None:
        shared = Shared.from_message(msg.data["shared"])
        self._place = msg.data["place"]
        self._elsewhere = self._ahead = None
        try:
            clock = self._clock(shared)
            if not (Path(shared.directory) / merging.HEADER).exists():
                self._elsewhere = Path(tempfile.mkdtemp(prefix="ranksim-part-"))
                shared = replace(shared, directory=str(self._elsewhere))
            part = Part(shared, LoadOptions.of(self.environment).target(), f"w{self._place + 1}", clock)
        except (BadInput, OSError) as error:
            log.error("%s", error)
            self.environment.process_exit_code = 2
            self.context.ready.set()
            return
        if self._ahead is not None:
            part.recorder.shift(*self._ahead)
        self.context.take(part, self._place % shared.processes)

    def _clock(self, shared: Shared) -> AnchoredClock:
        """The leader's clock, or where that is another machine's, one of our own, and compare them."""
        if shared.clock.machine == machine():
            return shared.clock
        clock = AnchoredClock.here()
        self._compare(clock)
        return clock

    def _compare(self, clock: AnchoredClock) -> None:
        """Bound by how much the leader's clock is ahead of ours, now and since it was first compared."""
        low, high = DISTANT_PAST, DISTANT_FUTURE
        for _ in range(PINGS):
            self._pong = AsyncResult()
            before = clock.now()
            self.runner.send_message(PING, {})
            now = self._pong.wait(timeout=GRACE)
            if now is None:
                raise BadInput("the leading process does not tell its time; see its log")
            low, high = max(low, now - clock.now()), min(high, now - before)
        if self._ahead is not None:
            low, high = min(low, self._ahead[0]), max(high, self._ahead[1])
        self._ahead = low, high

    def _compare_again(self, part: Part) -> None:
        try:
            self._compare(part.recorder.clock)
        except BadInput:
            part.recorder.note("clocks could not be compared at the end", clock_host=part.recorder.clock.host)
        if self._ahead is not None:
            part.recorder.shift(*self._ahead)

    def _send_along(self, path: Path) -> None:
        with path.open("rb") as part:
            while chunk := part.read(CHUNK):
                self.runner.send_message(LINES, {"place": self._place, "lines": chunk})
        shutil.rmtree(path.parent, ignore_errors=True)


def _totals(stats: Any) -> dict[str, Any]:
    """What Locust counted itself."""
    failed = {f"{row.method} {row.name}: {row.error}": row.occurrences for row in stats.errors.values()}
    return {"requests": stats.total.num_requests, "failures": stats.total.num_failures, "failed": failed}
