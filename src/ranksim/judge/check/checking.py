"""A check under way: tasks begun as they are worth it, and what was recorded judged again and again."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.judge.check.choice import MOST_ROUNDS, Rounds, times_for
from ranksim.judge.check.crew import GONE, HEARD_EVERY, CheckRecording, Crew
from ranksim.judge.check.plan import REPORTS, CheckPlan, Closing
from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.verdict.rule import Rule
from ranksim.judge.deployment.cleanup import Created, Left
from ranksim.judge.load.consumption import AccountSpent, UsedUp
from ranksim.judge.load.leaked_resources import created_in, left_over
from ranksim.report import units

JUDGED_EVERY: Micros = 10 * SECOND
"""Between the end of a judgement and the next, at least; three times as long as it took, at least."""


@dataclass(slots=True)
class Turn:
    """A task as it was begun, by its number; when, from the start of the check, and when stopped (µs)."""

    number: int
    task: str
    began: Micros
    stopped: Micros | None = None


def monotonic() -> Micros:
    """Return the instant of a clock that nobody sets, in µs."""
    return time.monotonic_ns() // 1000


def beside(work: Callable[[], Judgement]) -> Future[Judgement]:
    """Do something beside everything else, in a thread that keeps no process from ending."""
    done: Future[Judgement] = Future()

    def perform() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # whoever asks for the result gets it
            done.set_exception(error)

    threading.Thread(target=perform, daemon=True).start()
    return done


@dataclass(slots=True)
class Checking:
    """What a check knows while it runs; `show` is called whenever there is news.

    `began` is the instant by `now` from which its time counts, and `reports` how many times as long as
    judging what is written of it takes.
    `beside` has something judged while everything else goes on. `tidy` removes within a time (µs) what was
    created, where the process that makes the calls cannot, and returns what is left.
    """

    plan: CheckPlan
    crew: Crew
    recording: CheckRecording
    policy: Policy | None
    show: Callable[[Checking], None]
    began: Micros
    reports: int = REPORTS
    tidy: Callable[[Created, Micros], list[Left]] = lambda created, length: []
    now: Callable[[], Micros] = monotonic
    beside: Callable[[Callable[[], Judgement]], Future[Judgement]] = beside
    report: Callable[[Checking, Judgement], object] | None = None
    """Makes what is made of a judgement in the end: tried while calls begin, to know what it takes here."""
    rounds: Rounds = field(init=False)
    closing: Closing = field(init=False)
    turns: dict[int, Turn] = field(default_factory=dict)
    """Tasks as they were begun, by number."""
    calls_ended: Micros = 0
    """When no task called any more, from the start (µs)."""
    cut: dict[str, int] = field(default_factory=dict)
    """Tasks that were stopped in the midst, with how many of their programs had not been once through."""
    answers: Counter[str] = field(default_factory=Counter)
    spent: int = 0
    """What was spent in µUSD: by what tasks have read, in the end by what the whole trace says."""
    money: list[AccountSpent] = field(default_factory=list)
    """The same by account."""
    removing: Micros = 0
    """How long it takes in the end to remove what was created."""
    judgement: Judgement | None = None
    troubles: list[str] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    """What was created and is there still."""
    stopping: str = ""
    """Why no further task is begun, "" while that is not so."""
    early: bool = False
    """Whether something else than its time ended it."""
    whole: bool = False
    """Whether the trace was written."""
    tidied: bool = False
    """Whether it is known what is left of what was created."""
    gone: bool = False
    """Whether the process has ended that makes the calls."""
    stopped_at_once: bool = False
    """Whether nobody waited for what was created to be removed."""
    _broken: bool = False
    """Whether something could not be recorded."""
    _judging: Future[Judgement] | None = None
    _judging_since: Micros = 0
    _judging_calls: int = 0
    _asked: int = 0
    _finishing: int = 0
    """How often it had been asked to stop when it began to."""
    _judged: Micros = 0
    _pause: Micros = JUDGED_EVERY

    def __post_init__(self) -> None:
        self.rounds = Rounds.of(self.plan)
        self.closing = self.plan.closing(self.reports)

    @property
    def elapsed(self) -> Micros:
        """How long it has run, in µs."""
        return self.now() - self.began

    @property
    def left_of_time(self) -> Micros:
        """How long it may still take, with all that its end takes, in µs."""
        return max(0, self.plan.time - self.elapsed)

    @property
    def remaining(self) -> Micros:
        """How long tasks may still run, in µs."""
        return max(0, self.left_of_time - self.closing.length(self.answers.total(), self.removing))

    def ask_to_stop(self) -> None:
        """Stop in good order; asked again, at once."""
        self._asked += 1

    def run(self) -> None:
        """Run the check to its end, whatever that is."""
        self._judged = self.now()
        if self.report is not None:
            self.beside(partial(self._try_report, self.report))
        while not self.stopping:
            self._begin_what_fits()
            if not self.rounds.running and not self.rounds.later(self.remaining) and not self.stopping:
                self._stop("nothing is left to run that time allows", early=False)
            self._hear(HEARD_EVERY)
            self._judge_when_due()
            for number in self.rounds.needless():
                self.turns[number].stopped = self.turns[number].stopped or self.elapsed
                self.crew.tell(stop=number)
            if self._asked:
                self._stop("it was asked to stop")
            elif self.remaining == 0:
                self._stop(f"--time {units.duration(self.plan.time)} was over", early=False)
            self.show(self)
        self._finish()

    def _try_report(self, report: Callable[[Checking, Judgement], object]) -> Judgement:
        judgement, began = self.recording.judged(self.policy), self.now()
        report(self, judgement)
        self.closing.reported(self.now() - began)
        return judgement

    def _stop(self, why: str, *, early: bool = True) -> None:
        """Begin no further task; the first reason stands."""
        if not self.stopping:
            self.stopping, self.early = why, early

    def _begin_what_fits(self) -> None:
        while not self.stopping:
            task = self.rounds.next(self.remaining)
            if task is None:
                return
            number = self.rounds.number
            self.turns[number] = Turn(number, task.name, self.elapsed)
            self.crew.tell(begin={"task": task.name, "number": number})

    def _judge_when_due(self) -> None:
        """Have what is recorded judged beside everything else, once the last time is long enough ago."""
        if self._judging is not None:
            self._take_judgement()
        elif self.now() - self._judged >= self._pause:
            takes = self.closing.judging(self.answers.total())
            if self.remaining >= 2 * takes:  # else it would hold up the last one
                self._judging_since, self._judging_calls = self.now(), self.answers.total()
                self._judging = self.beside(lambda: self.recording.judged(self.policy))

    def _take_judgement(self) -> None:
        """Take in what was judged, once it is."""
        if self._judging is None or not self._judging.done():
            return
        judging, self._judging = self._judging, None
        self._judged = self.now()
        took = self._judged - self._judging_since
        self._pause = max(JUDGED_EVERY, 3 * took)
        error = judging.exception()
        if error is not None:
            self.troubles.append(f"what was recorded by {self._at} could not be judged: {error}")
            return
        self.judgement = judging.result()
        self.closing.judged(self._judging_calls, took)
        self.rounds.judged(self.judgement.findings)

    @property
    def _at(self) -> str:
        return units.duration((self._judging_since - self.began) // SECOND * SECOND)

    def _hear(self, seconds: float) -> None:
        """Take in what the other process says: all that waits, and what comes within so many seconds."""
        message = self.crew.hear(seconds)
        while message is not None:
            self._take(message)
            message = self.crew.hear(0.0)

    def _take(self, message: Mapping[str, Any]) -> None:
        if "counts" in message:
            self.answers = Counter(message["counts"]["answers"])
            self.spent = message["counts"]["spent"]
            self.removing = message["counts"]["removing"]
        elif "ended" in message:
            task = self.rounds.ended(message["ended"])
            if message["cut"] and self.rounds.begun[task.name] == 1:
                self.cut[task.name] = message["cut"]
        elif "written" in message:
            self.whole = True
        elif "done" in message:
            self.left = [Left(**part | {"ids": tuple(part["ids"])}) for part in message["done"]["left"]]
            self.tidied = True
        elif "broken" in message:
            self._broken = True
            if message["broken"] not in self.troubles:
                self.troubles.append(message["broken"])
            self._stop("what came could not be recorded")
        elif message is GONE:
            if not self.tidied:
                self.troubles.append("the process that makes the calls was ended")
            self._stop("the process that makes the calls was ended")
            self.gone = True

    def _finish(self) -> None:
        """Have the other process end in good order, at once when asked again; judge all that is there.

        Where judging it all is not done when what comes after it must begin, the judgement before it stands.
        """
        calls, self._finishing, self.calls_ended = self.answers.total(), self._asked, self.elapsed
        left = self.left_of_time
        if self.early:  # nobody wants to wait for all of it
            left = min(left, self.closing.length(calls, self.removing))
        ending = max(left - self.closing.reporting(calls), self.closing.least // 2)
        reading = max(0, left - self.closing.after_reading(calls, self.removing))
        self.crew.tell(finish={"reading": reading, "ending": ending})
        self._wait(lambda: self.whole or self.tidied)
        must = self.began + self.plan.time - self.closing.reporting(calls)
        self._wait_for(self._judging, must)
        self._take_judgement()
        if not self.whole:
            self._write_trace()
        by, last = self._at, self.beside(lambda: self.recording.judged(self.policy))
        self._wait_for(last, must)
        if last.done() or self.judgement is None:
            self.judgement = last.result()
        else:
            self.troubles.append(
                f"there was no time to judge what came after {by}; `ranksim compare` does, from the trace"
            )
        self._wait(lambda: self.tidied)
        if not self.tidied:
            self.left = self._tidied()
        used = UsedUp.of(self.recording.lines())
        self.spent, self.money = used.spent(), used.by_account()
        self.crew.close()

    def _tidied(self) -> list[Left]:
        """Remove what a process created that is gone, unless nobody waits; return what is left."""
        if self.stopped_at_once:
            return left_over(self.recording.lines())
        return self.tidy(
            created_in(self.recording.lines()), max(min(self.left_of_time, MINUTE), self.closing.least // 2)
        )

    def _write_trace(self) -> None:
        """Write the trace that the process which makes the calls did not write; say so where that fails."""
        try:
            self.recording.write(missing=self._broken)
            self.whole = True
        except (OSError, BadInput) as error:
            if str(error) not in self.troubles:
                self.troubles.append(str(error))

    def _wait_for(self, judging: Future[Judgement] | None, must: Micros) -> None:
        """Wait until something is judged, at most until an instant where there is a judgement already."""
        while judging is not None and not judging.done() and (self.judgement is None or self.now() < must):
            self._hear_on()

    def _wait(self, there: Callable[[], bool]) -> None:
        """Wait until something is there that the other process does."""
        while not there() and not self.gone:
            self._hear_on()

    def _hear_on(self) -> None:
        """Take in what comes while all ends; asked once more, have it end at once."""
        self._hear(HEARD_EVERY)
        self.show(self)
        if self._asked > self._finishing and not self.tidied and not self.gone:
            self.troubles.append("it was stopped at once: what was created may be left")
            self.crew.kill()
            self._finishing, self.stopped_at_once = self._asked, True

    # What is told of it in the end

    def not_run(self) -> dict[str, str]:
        """Return which tasks did not run, or not to their ends, and why."""
        reasons = {}
        for task in self.plan.tasks:
            takes = f"takes {units.duration(task.needs.length)}"
            if self.plan.too_long(task):
                time, left = units.duration(self.plan.time), units.duration(self.plan.for_calls)
                reasons[task.name] = f"{takes}, and --time {time} leaves {left} for calls"
            elif not self.rounds.begun[task.name]:
                reasons[task.name] = f"{takes}, and {self.stopping or 'it never had its turn'}"
            elif task.name in self.cut:
                cut = f"{self.cut[task.name]} of {units.many(len(task.users), 'program')}"
                reasons[task.name] = f"{self.stopping}; {cut} had not been once through"
        return reasons

    def undecided_because(self) -> dict[str, str]:
        """Return for each rule that is not decided, why not, and what it waits for."""
        reasons, times = {}, self._times()
        for finding in () if self.judgement is None else self.judgement.findings:
            name = finding.rule.name
            if name not in self.plan.rules or finding.verdict in ("conforms", "deviates"):
                continue
            lack = self.plan.held_back(name)
            if lack is not None:
                reasons[name] = f"{lack.why}; wants {lack.would}"
                continue
            seen = f"{finding.reasons[0][0]}" if finding.reasons else "nothing came up that would show it"
            reasons[name] = seen + self._waits_for(finding.rule, times)
        return reasons

    def _times(self) -> dict[str, Micros]:
        """Return in how much time each task would have its turn that had none."""
        never = [task for task in self.plan.tasks if not self.rounds.begun[task.name]]
        return {} if self.early else times_for(self.plan, never)

    def _waits_for(self, rule: Rule, times: Mapping[str, Micros]) -> str:
        """Return what would decide a rule: tasks that did not run through, else what they try."""
        serving = [task for task in self.plan.tasks if task.serves(rule.name)]
        waits = [task for task in serving if not self.rounds.begun[task.name] or task.name in self.cut]
        if not waits:
            often = all(self.rounds.begun[task.name] >= MOST_ROUNDS for task in serving)
            return (f", in {MOST_ROUNDS} rounds" if often else "") + _would_show(rule)
        if self.early:
            titles = ", ".join(task.title for task in waits)
            return f"; {self.stopping} before {titles} had run through"
        wants = {task.title: times.get(task.name, self.plan.time) for task in waits}
        least = min(wants.values())
        names = ", ".join(name for name, time in wants.items() if time == least)
        longer = "a longer --time" if least == self.plan.time else f"--time {units.duration(least)}"
        return f"; wants {longer}, for {names}"


def _would_show(rule: Rule) -> str:
    """Return what the profiles of a rule try, as what would show it."""
    tried = [what for part in rule.exercise.split("; ") if (what := part.partition(": ")[2])]
    if not tried and rule.cases:
        tried = ["one of its cases, which `ranksim explain` names"]
    return f"; would show it: {'; or '.join(tried)}" if tried else ""
