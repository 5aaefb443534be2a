"""Goal-seek: the smallest or largest value of a parameter that is shown to meet a condition.

Bisection over a grid of values, on the assumption that the condition only gets easier along it. Each value
is replicated until its replications show that the condition holds or fails, or until there are as many as
the study allows; then the value stays undecided, and the finding says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ranksim.study.condition import MetricCondition
from ranksim.study.design import Point, point, written
from ranksim.study.runs import Runs
from ranksim.study.scale import Scale
from ranksim.study.spec import CheckedSpec, Goal

Status = Literal["found", "undecided", "unreachable", "failed"]

WORDS = {True: "holds", False: "fails", None: "undecided"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value that was tried: its estimate with the interval, and whether the condition was decided."""

    value: Any
    replications: int
    mean: float | None
    low: float | None
    high: float | None
    decision: str


@dataclass(slots=True)
class GoalResult:
    """What a goal came to at one point of the design, in a sentence and in its parts."""

    point: str
    parameter: str
    status: Status
    answer: Any
    text: str
    candidates: list[Candidate] = field(default_factory=list)


class _Failed(Exception):
    """A candidate could not be run."""


def seek(study: CheckedSpec, goal: Goal, at: Point, runs: Runs) -> GoalResult:
    """Seek a goal from one point of the design on. Raises BadInput."""
    return _Search(study, goal, at, runs).finding()


def bounds_of_error(level: float, values: int, most: int, least: int) -> float:
    """Return the error that one look at one value is allowed, for the whole search to have 1 - `level`.

    It is shared out evenly over the looks and over the values that a search can come to (Bonferroni).
    """
    tried = 2 + 2 * math.ceil(math.log2(max(2, values)))
    return (1 - level) / (min(tried, values) * len(looks(least, most)))


def looks(least: int, most: int) -> list[int]:
    """Return the numbers of replications after which a candidate is looked at: each twice the one before."""
    counts = [max(2, least)]
    while counts[-1] < most:
        counts.append(min(2 * counts[-1], most))
    return counts


class _Search:
    """One search; candidates go by an index that grows as the condition gets easier."""

    def __init__(self, study: CheckedSpec, goal: Goal, at: Point, runs: Runs) -> None:
        self.study, self.goal, self.at, self.runs = study, goal, at, runs
        self.condition = MetricCondition.parse(goal.such_that, study.engine)
        self.scale = Scale.between(*goal.between, goal.step)
        self.looks = looks(study.spec.replications, goal.max_replications)
        self.error = bounds_of_error(
            study.spec.confidence, self.scale.count, goal.max_replications, study.spec.replications
        )
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
            return self._made("failed", None, f"{self._sought()} cannot be sought: {error}")
        return self._found(best, best if worst is None else worst)

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
        decision, values = None, []
        for replications in self.looks:
            self.runs.ensure([(trial, replications)])
            if reason := self.runs.failure(trial, replications):
                raise _Failed(f"at {written(value)}: {reason}")
            values = self.runs.observed(trial, self.condition.metric, replications)
            decision = self.condition.decide(values, self.error)
            if decision is not None:
                break
        estimate = self.condition.estimate(values, self.study.spec.confidence)
        return decision, Candidate(value, replications, *estimate, WORDS[decision])

    def _found(self, best: int, worst: int) -> GoalResult:
        """The condition holds at `best`; candidates from `worst` up to it are undecided."""
        meets = f"{written(self.value(best))} meets {self.goal.such_that}"
        if best == 0:
            return self._made("found", self.value(best), f"{meets}, and is the end of the range")
        if worst == best:
            fails = f"{written(self.value(best - 1))} does not"
            return self._made("found", self.value(best), f"{meets}, {fails}")
        undecided = ", ".join(
            written(candidate.value)
            for index, (decision, candidate) in sorted(self.tried.items())
            if decision is None and index < best
        )
        return self._made(
            "undecided",
            self.value(best),
            f"{meets}, but smaller values may" if self.goal.smallest else f"{meets}, but larger values may",
            f": undecided after {self.goal.max_replications} replications at {undecided}",
        )

    def _none(self, easiest: int) -> GoalResult:
        decision, candidate = self.tried[easiest]
        near = f"{self.condition.shown(candidate.mean)}"
        if candidate.low is not None and candidate.high is not None and candidate.low < candidate.high:
            near += f" ({self.condition.shown(candidate.low)} to {self.condition.shown(candidate.high)})"
        end = written(candidate.value)
        if decision is None:
            text = f"even {end} is undecided after {candidate.replications} replications, with {near}"
            return self._made("undecided", None, text)
        text = f"even {end} does not meet {self.goal.such_that}: it comes to {near}"
        return self._made("unreachable", None, text)

    def _sought(self) -> str:
        return f"{'smallest' if self.goal.smallest else 'largest'} {self.goal.parameter}"

    def _made(self, status: Status, answer: Any, *text: str) -> GoalResult:
        candidates = [candidate for _, (_, candidate) in sorted(self.tried.items())]
        if not self.goal.smallest:
            candidates.reverse()
        return GoalResult(self.at.label, self.goal.parameter, status, answer, "".join(text), candidates)


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


def rows(findings: list[GoalResult]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the tables `goals` and `candidates`."""
    goals = [
        {
            "point": finding.point,
            "parameter": finding.parameter,
            "status": finding.status,
            "answer": None if finding.answer is None else written(finding.answer),
            "text": finding.text,
        }
        for finding in findings
    ]
    return goals, list(_candidate_rows(findings))


def _candidate_rows(findings: list[GoalResult]) -> Iterator[dict[str, Any]]:
    for finding in findings:
        for candidate in finding.candidates:
            yield {
                "point": finding.point,
                "value": written(candidate.value),
                "replications": candidate.replications,
                "mean": candidate.mean,
                "low": candidate.low,
                "high": candidate.high,
                "decision": candidate.decision,
            }
