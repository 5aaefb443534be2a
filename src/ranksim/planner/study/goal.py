"""Goal-seek: the smallest or largest value of a parameter that is shown to meet a condition.

Bisection over a grid of values, on the assumption that the condition only gets easier along it. Each value
is replicated until its replications show that the condition holds or fails, or until there are as many as
the study allows; then the value stays undecided, and the finding says so, and what it would take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ranksim.inference.decisions import GROWTH, allowed, error_of_value, first_stage, looks
from ranksim.inference.kinds import MetricSample
from ranksim.planner.study.condition import MetricCondition
from ranksim.planner.study.design import Point, point, written
from ranksim.planner.study.runs import Runs
from ranksim.planner.study.scale import Scale
from ranksim.planner.study.spec import CheckedSpec, Goal
from ranksim.report.table_spec import Row

Status = Literal["found", "undecided", "unreachable", "failed"]

MULTIPLES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""How many times as many replications are imagined, to say what would decide a value."""

MOST_NAMED = 1_000_000
"""More replications than that are not counted, to say how many a condition takes."""

WORDS = {True: "holds", False: "fails", None: "undecided"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value that was tried: its estimate with the interval, and whether the condition was decided.

    `would_take` is about how many replications would decide what is undecided; None for more than
    `MULTIPLES` reaches, and for what is decided.
    """

    value: Any
    replications: int
    mean: float | None
    low: float | None
    high: float | None
    decision: str
    would_take: int | None = None


@dataclass(slots=True)
class GoalResult:
    """What a goal came to at one point of the design, in a sentence and in its parts."""

    point: str
    parameter: str
    status: Status
    answer: Any
    text: str
    candidates: list[Candidate] = field(default_factory=list)


def short_budget(study: CheckedSpec) -> str:
    """Say before a goal is sought that its replications cannot show the condition even if all meet it; or "".

    Of a share in worlds, replications that differ a little may show it with fewer.
    """
    if (goal := study.spec.goal) is None:
        return ""
    condition = MetricCondition.parse(goal.such_that, study.engine)
    trial = point(study, {goal.parameter: goal.between[0]}, "")
    is_drawn = not trial.problem and study.engine.is_drawn(trial.built, condition.metric)
    if not is_drawn or (condition.event is None and study.engine.has_independent_trials(condition.metric)):
        return ""
    level, most = study.spec.confidence, max(study.spec.replications, goal.max_replications)
    error = error_of_value(level, Scale.between(*goal.between, goal.step).count)
    least = condition.least_replications(allowed(error, 1, 0, 1, first_stage(level)), MOST_NAMED)
    if least is None or least <= most:
        return ""
    takes = f"at least {least:,}" if least < MOST_NAMED else f"more than {MOST_NAMED:,}"
    return (
        f"goal: if all replications of a value meet {goal.such_that}, it takes {takes} to show that, and "
        f"{most:,} are run at most; raise max_replications, or ask for less"
    )


class _Failed(Exception):
    """A candidate could not be run."""


def seek(study: CheckedSpec, goal: Goal, at: Point, runs: Runs) -> GoalResult:
    """Seek a goal from one point of the design on. Raises BadInput."""
    return _Search(study, goal, at, runs).finding()


class _Search:
    """One search; candidates go by an index that grows as the condition gets easier."""

    def __init__(self, study: CheckedSpec, goal: Goal, at: Point, runs: Runs) -> None:
        self.study, self.goal, self.at, self.runs = study, goal, at, runs
        self.condition = MetricCondition.parse(goal.such_that, study.engine)
        self.scale = Scale.between(*goal.between, goal.step)
        level = study.spec.confidence
        self.stage = first_stage(level)
        self.looks = looks(study.spec.replications, goal.max_replications, self.stage)
        self.error = error_of_value(level, self.scale.count)
        self.tried: dict[int, tuple[bool | None, Candidate]] = {}

    def finding(self) -> GoalResult:
        """Search, and say what was found."""
        easiest = self.scale.count - 1
        try:
            best = first_index(self.scale.count, lambda index: self.judge(index) is True)
            if best is None:
                return self._none(easiest)
            # Where candidates were undecided, find how far down the condition is shown to fail.
            worst = first_index(best, lambda index: self.judge(index) is not False) if best else 0
        except _Failed as error:
            text = f"{self.goal.extreme} {self.goal.parameter} cannot be sought: {error}"
            return self._made("failed", None, text)
        return self._reached(best, best if worst is None else worst)

    def judge(self, index: int) -> bool | None:
        """Whether the condition holds at a candidate; None when that many replications show neither."""
        if index not in self.tried:
            self.tried[index] = self._judged(index)
        return self.tried[index][0]

    def value(self, index: int) -> Any:
        """The value at an index: the hardest first."""
        return self.scale.value(index if self.goal.smallest else self.scale.count - 1 - index)

    def _judged(self, index: int) -> tuple[bool | None, Candidate]:
        value = self.value(index)
        settings = {**self.at.settings, self.goal.parameter: value}
        trial = point(self.study, settings, f"{self.goal.parameter}={written(value)}")
        decision, before = None, 0
        is_drawn = self.runs.is_drawn(trial, self.condition.metric)
        for replications in self.looks if is_drawn else [1]:
            self.runs.ensure([(trial, replications)])
            if reason := self.runs.failure(trial, replications):
                raise _Failed(f"at {written(value)}: {reason}")
            sample = self.runs.sample(trial, self.condition.metric, replications)
            seen = len(sample.observed)  # a replication that observed nothing says nothing of a mean
            error = allowed(self.error, seen, before, self.looks[-1], self.stage)
            decision = self.condition.decide(sample, error)
            if decision is not None:
                break
            before = seen
        estimate = self.condition.estimate(sample, self.study.spec.confidence)
        more = self._would_take(sample) if decision is None and is_drawn else None
        return decision, Candidate(value, replications, *estimate, WORDS[decision], more)

    def _would_take(self, sample: MetricSample) -> int | None:
        """About how many replications like those there are would decide."""
        for times in MULTIPLES:
            count = times * self.looks[-1]
            error = allowed(self.error, count, round(count / GROWTH), count, self.stage)
            trials = None if sample.trials is None else [*sample.trials] * times
            more = sample._replace(values=[*sample.values] * times, trials=trials)
            if self.condition.decide(more, error) is not None:
                return count
        return None

    def _reached(self, best: int, worst: int) -> GoalResult:
        """The condition holds at `best`; candidates from `worst` up to it are undecided."""
        meets = f"{written(self.value(best))} meets {self.goal.such_that}"
        if best == 0:
            return self._made("found", self.value(best), f"{meets}, and is the end of the range")
        if worst == best:
            fails = f"{written(self.value(best - 1))} does not"
            return self._made("found", self.value(best), f"{meets}, {fails}")
        undecided = ", ".join(
            f"{written(candidate.value)} ({_takes(candidate)})"
            for index, (decision, candidate) in sorted(self.tried.items())
            if decision is None and index < best
        )
        return self._made(
            "undecided",
            self.value(best),
            f"{meets}, but {self.goal.extreme.removesuffix('st')}r values may",
            f": undecided after {self.goal.max_replications} replications at {undecided}",
        )

    def _none(self, easiest: int) -> GoalResult:
        decision, candidate = self.tried[easiest]
        near = f"{self.condition.write(candidate.mean)}"
        if candidate.low is not None and candidate.high is not None and candidate.low < candidate.high:
            near += f" ({self.condition.write(candidate.low)} to {self.condition.write(candidate.high)})"
        end = written(candidate.value)
        if decision is None:
            text = (
                f"whether even {end} meets {self.goal.such_that} is undecided after "
                f"{candidate.replications} replications, with {near}; {_takes(candidate)}"
            )
            return self._made("undecided", None, text)
        text = f"even {end} does not meet {self.goal.such_that}: it comes to {near}"
        return self._made("unreachable", None, text)

    def _made(self, status: Status, answer: Any, *text: str) -> GoalResult:
        candidates = [candidate for _, (_, candidate) in sorted(self.tried.items())]
        if not self.goal.smallest:
            candidates.reverse()
        return GoalResult(self.at.label, self.goal.parameter, status, answer, "".join(text), candidates)


def _takes(candidate: Candidate) -> str:
    """What it would take to decide a candidate, in words."""
    if candidate.mean is None:
        return "nothing is observed there"
    if candidate.would_take is None:
        most = candidate.replications * MULTIPLES[-1]
        return f"it lies so near the bound that {most:,} would not tell"
    return f"about {candidate.would_take:,} would tell"


def first_index(count: int, holds: Callable[[int], bool]) -> int | None:
    """The first of `count` indices at which what only becomes true holds, asking few of them; None if none.

    The last is asked first, so that what cannot be reached is known at once.
    """
    if not count or not holds(count - 1):
        return None
    low, high = -1, count - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def rows(findings: list[GoalResult]) -> tuple[list[Row], list[Row]]:
    """Return the tables `goals` and `candidates`."""
    goals = [
        {
            "point": finding.point,
            "parameter": finding.parameter,
            "status": finding.status,
            "answer": finding.answer,
            "text": finding.text,
        }
        for finding in findings
    ]
    candidates = [
        {"point": finding.point, **asdict(candidate), "value": written(candidate.value)}
        for finding in findings
        for candidate in finding.candidates
    ]
    return goals, candidates
