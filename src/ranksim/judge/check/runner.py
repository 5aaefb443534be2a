"""The process that makes the calls of a check: it is told which tasks to begin, and tells how they go on.

It is a process of its own so that judging does not hold up its calls, and so that each of the two outlives
the other: where it is gone, what it recorded is judged; where the one that started it is gone, it stops,
removes what was created and writes the trace. They speak in lines of JSON, one message a line: what to do on
standard input, what became of it on standard output.

    → {"open": {"options": {…}, "out": DIR, "seed": N, "gzip": false, "opening": MICROS}}
    ← {"reach": {…}, "directory": PARTS, "trace": PATH, "clock": {…}, "receiver": true} or {"problem": text}
    → {"begin": {"task": NAME, "number": N}}, {"stop": N}, {"abandon": true} or
      {"finish": {"reading": MICROS, "ending": MICROS}}
    ← {"ended": N, "cut": n, "stopped": true}, {"counts": {…}}, {"broken": text}
    ← {"written": true} once the trace is, and {"done": {"left": […]}} once all is removed that can be

Where nobody tells anything any more before it has opened, or it is to abandon all, it ends at once. No later
part of it takes longer than it was told, or than `ALONE` says: calls, and waits between them, have deadlines.

Programs run in threads, a session and a part of the trace for each. Only their calls and waits are side by
side: one program at a time takes a step, so that what they share needs no other care.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from ranksim.core.callers.steps import Send
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.check.pacing import Pacer, paced
from ranksim.judge.check.ration import RATIONED, Ration, rationed
from ranksim.judge.check.tasks import CheckTask, tasks
from ranksim.judge.deployment.budget import account_named
from ranksim.judge.load.consumption import READINGS, UsedUp
from ranksim.judge.load.driver import drive
from ranksim.judge.load.options import LoadOptions
from ranksim.judge.load.run import LoadRun, Part, RunSettings, reach_to_message
from ranksim.judge.load.session import CallOutcome
from ranksim.judge.profiles.windows import window_of

PROFILE = "check"
"""What the header of the trace names as its profile."""

COUNTED_EVERY = 1.0
"""Seconds between two messages of counts."""

ENDING: Micros = 10 * SECOND
"""How long calls under way have when tasks are stopped, where so much is left."""

ALONE: Micros = 3 * MINUTE
"""How long the end may take where nobody waits for it any more."""

MADE = ("domains.create", "webhooks.create", "scans.create")
REMOVED = ("domains.delete", "webhooks.delete", "scans.delete")
"""What is removed one by one in the end, as far as no program removed it; the rest goes with its domain."""

EACH: Micros = SECOND // 10
"""What removing one of them takes where the rate limit admits it."""


class Runner:
    """A run under way, the tasks that it was told to begin, and what they count."""

    def __init__(self, run: LoadRun, out: TextIO) -> None:
        self.run = run
        self.tasks = {task.name: task for task in tasks(run.reach)}
        self.pacer = Pacer(window_of(run.reach))
        self.ration = Ration.of(run.reach, self.tasks.values())
        self.began: dict[int, RunningTask] = {}
        self.seeds = [run.shared.seed]
        self.answers: Counter[str] = Counter()
        self.used = UsedUp()
        for name, key in run.reach.keys.items():  # before any task
            for operation in READINGS:
                if isinstance(read := key.reads.get(operation), Mapping):
                    self.used.reading(self._owner(name), operation, read, run.clock.now())
        self.there: dict[str, str] = {}
        """What is to be removed, by id: the key that made it."""
        self.steps = threading.Lock()
        self._out = out
        self._saying = threading.Lock()
        self._ended = threading.Event()

    def say(self, **message: Any) -> None:
        """Tell what became of something; that nobody listens any more, the end of the input tells."""
        with self._saying, suppress(OSError):
            print(json.dumps(message), file=self._out, flush=True)

    def obey(self, messages: Iterator[Mapping[str, Any]]) -> Mapping[str, Micros] | None:
        """Do what is told, until that is to finish, or nobody tells any more.

        Return how long reading the state after may take, and the end in all (µs); None when all is to be
        abandoned.
        """
        threading.Thread(target=self._count, daemon=True).start()
        for message in messages:
            if "begin" in message:
                self.begin(self.tasks[message["begin"]["task"]], message["begin"]["number"])
            elif "stop" in message:
                self.began[message["stop"]].stop.set()
            elif "abandon" in message:
                return None
            else:
                finish: Mapping[str, Micros] = message["finish"]
                return finish
        return {"reading": ALONE // 2, "ending": ALONE}

    def begin(self, task: CheckTask, number: int) -> None:
        """Begin a task, with things and names of its own; `number` is told with all that becomes of it."""
        seed = self.run.shared.seed + number
        self.seeds.append(seed)
        self.began[number] = RunningTask(self, task, number, seed)

    def finish(self, reading: Micros, ending: Micros) -> None:
        """Stop all tasks and read the state after; write the trace, and then remove what was created.

        The one takes so long at most, and all of it, in µs; of both a third is kept at least.
        """
        clock = self.run.clock
        began = clock.now()
        until, ends = began + min(max(reading, ending // 3), 2 * ending // 3), began + ending
        stopped = began + min(ENDING, (until - began) // 2)
        for running in self.began.values():
            running.stop.set()
        for running in self.began.values():
            running.join(max(0, stopped - clock.now()) / SECOND)
        self._ended.set()
        if self.ration.held_back:
            self.run.part.recorder.note(RATIONED, calls=self.ration.held_back)
        try:
            self.run.finish(removing=False, until=until)
            self.say(written=True)
        except (OSError, BadInput) as error:
            self.say(broken=str(error))
        self.say(done={"left": [asdict(part) for part in self.run.remove(self.seeds, ends)]})

    def saw(self, send: Send, outcome: CallOutcome) -> None:
        """Count an answer, and learn from it what was spent."""
        with self.steps:
            received = outcome.received
            answer = f"{received.status} {received.code}".strip() if received.status else "no reply"
            self.answers[answer] += 1
            if received.ok and send.operation in MADE and isinstance(received.data, Mapping):
                # Repeated under its Idempotency-Key, it is one.
                self.there[str(received.data.get("id"))] = send.key
            elif received.ok and send.operation in REMOVED:
                self.there.pop(str(send.path.get("id")), None)
            if received.ok and send.operation in READINGS and isinstance(received.data, Mapping):
                self.used.reading(self._owner(send.key), send.operation, received.data, received.sent)

    def _owner(self, name: str) -> str:
        key = self.run.reach.keys.get(name)
        return name if key is None else account_named(key.environment, key.account) or key.name

    def _count(self) -> None:
        while not self._ended.wait(COUNTED_EVERY):
            with self.steps:
                spent = self.used.spent()
                counts = {"answers": dict(self.answers), "spent": spent, "removing": self.removing()}
            self.say(counts=counts)

    def removing(self) -> Micros:
        """Return how long it takes at most to remove what is there, account by account (µs)."""
        keys = self.run.reach.keys
        owners = Counter((keys[key].environment, keys[key].account or key) for key in self.there.values())
        now, takes = self.run.clock.now(), EACH * len(self.there)
        for owner, count in owners.items():
            first = next(key for key in keys.values() if (key.environment, key.account or key.name) == owner)
            takes += self.pacer.wait_for(Send("domains.delete", first.name), count, now)
        return takes


class RunningTask:
    """A task that was begun: a thread for each of its programs."""

    def __init__(self, runner: Runner, task: CheckTask, number: int, seed: int) -> None:
        self.runner, self.task, self.number = runner, task, number
        self.stop = threading.Event()
        self.laps: dict[int, int] = {}
        self._left = len(task.users)
        self._beside = 0
        self._threads = [
            threading.Thread(target=self._perform, args=(user, program), daemon=True)
            for user, program in zip(task.users, task.programs(runner.run.reach, seed), strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def join(self, seconds: float) -> None:
        """Wait for its programs, so many seconds for all."""
        ends = time.monotonic() + seconds
        for thread in self._threads:  # those that begin meanwhile as well
            thread.join(max(0.0, ends - time.monotonic()))

    def _perform(self, user: int, program: Generator[Any, Any, Any]) -> None:
        # What is held for a call is held no longer than it takes: it waits for its pace before.
        steps = paced(program, self.runner.pacer, waits=self.task.waits)
        steps = self.runner.run.part.guarded(rationed(steps, self.runner.ration, self.task.name))

        def lap() -> bool:
            self.laps[user] = self.laps.get(user, 0) + 1
            return self.laps[user] < self.task.laps

        if self._drive(user, f"{self.number}.{user}", steps, lap) and not self.stop.is_set():
            self.laps[user] = max(1, self.laps.get(user, 0))
        self._close()

    def _spawn(self, user: int, program: Generator[Any, Any, Any]) -> None:
        """Begin a program beside that of a user, which sees to what it may spend and write to."""
        with self.runner.steps:
            self._left += 1
            self._beside += 1
            name = f"{self.number}.{user}.{self._beside}"

        def perform() -> None:
            self._drive(user, name, program)
            self._close()

        self._threads.append(threading.Thread(target=perform, daemon=True))
        self._threads[-1].start()

    def _drive(
        self,
        user: int,
        name: str,
        steps: Generator[Any, Any, Any],
        on_lap: Callable[[], bool] | None = None,
    ) -> bool:
        """Run a program with a session and a part of the trace of its own; return whether nothing broke."""
        runner = self.runner
        try:
            part = Part(runner.run.shared, runner.run.target, name)
            session = part.session(f"{self.task.name} {user}")
        except OSError as error:
            runner.say(broken=str(error))
            return False
        try:
            drive(
                _in_turn(steps, runner.steps),
                session,
                part.receiver,
                on_call=runner.saw,
                stopped=self.stop.is_set,
                spawn=lambda program: self._spawn(user, program),
                on_lap=on_lap,
                sleep=self.stop.wait,
            )
            return True
        except (OSError, BadInput) as error:
            runner.say(broken=str(error))
            return False
        finally:
            session.close()
            try:
                part.recorder.close()
            except OSError as error:
                runner.say(broken=str(error))

    def _close(self) -> None:
        """End a program; the last one tells that the task has ended, and which program was cut."""
        with self.runner.steps:
            self._left -= 1
            last = self._left == 0
            if last:
                self.runner.ration.ended(self.task.name)
        if last:
            cut = [user for user in self.task.users if not self.laps.get(user)]
            self.runner.say(ended=self.number, cut=len(cut), stopped=self.stop.is_set())


def _in_turn(program: Generator[Any, Any, Any], steps: threading.Lock) -> Generator[Any, Any, Any]:
    """Run a program so that no other takes a step at the same time."""
    answer: Any = None
    while True:
        with steps:
            try:
                step = program.send(answer)
            except StopIteration as end:
                return end.value
        answer = yield step


class _AbandonedError(BaseException):
    """Whoever started this process is gone, or wants no more of it."""


class Commands:
    """What is told on standard input, read in a thread of its own, so that its end is noticed at once.

    Until `opened`, that end and what is to be abandoned interrupt the main thread: nothing was made by then.
    """

    def __init__(self, lines: TextIO) -> None:
        self._lines = lines
        self._told: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._interrupts = True
        signal.signal(signal.SIGUSR1, self._interrupted)
        threading.Thread(target=self._listen, daemon=True).start()

    def opened(self) -> None:
        """Interrupt no more."""
        self._interrupts = False

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield what is told, to its end."""
        while (message := self._told.get()) is not None:
            yield message

    def _listen(self) -> None:
        for line in self._lines:
            message = json.loads(line)
            self._told.put(message)
            if "abandon" in message:
                break
        self._told.put(None)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def _interrupted(self, number: int, frame: object) -> None:
        if self._interrupts:
            self._interrupts = False
            raise _AbandonedError


def main() -> int:
    """Run a check's calls, told on standard input. Return the exit code: 0, or 2 when nothing could begin."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the process that tells what to do
        signal.signal(number, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints does not come between the messages
    commands = Commands(sys.stdin)
    run: LoadRun | None = None
    try:
        opening = next(iter(commands), {}).get("open")
        if opening is None:
            return 0
        target = LoadOptions(**opening["options"]).target()
        settings = RunSettings(
            Path(opening["out"]),
            PROFILE,
            seed=opening["seed"],
            gzip=opening["gzip"],
            opening=opening["opening"],
        )
        run = LoadRun(target, settings)
        commands.opened()
    except BadInput as error:
        print(json.dumps({"problem": str(error)}), file=out, flush=True)
        return 2
    except _AbandonedError:
        if run is not None:
            run.abandon()
        return 0
    runner = Runner(run, out)
    runner.say(
        reach=reach_to_message(run.reach),
        directory=str(run.directory.resolve()),
        trace=str(run.path.resolve()),
        clock=asdict(run.clock),
        receiver=bool(run.shared.receiver),
    )
    within = runner.obey(iter(commands))
    if within is None:
        run.abandon()
        return 0
    runner.finish(**within)
    return 0


if __name__ == "__main__":
    sys.exit(main())
