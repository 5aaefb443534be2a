"""A condition that a goal sets on its replications, and whether it is shown to hold, or to fail.

Either on the mean of a metric, `refusals.total <= 10`, or on the chance that a replication shows something,
`P(refusals.total > 0) < 1%`. A mean is of what was observed, and a share that of the trials of all
replications. A chance is one of all replications: one in which the metric has no value, as a wait where no
job came, does not show the event, whichever way it is written.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ranksim.inference import evidence
from ranksim.inference.decisions import Allowed, Range, above, share_above
from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.shares import chance
from ranksim.report import units
from ranksim.twin.sim.expectations import READERS

if TYPE_CHECKING:
    from ranksim.planner.study.engines import Engine

SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
RANGES: dict[str, Range] = {"share": "fraction", "count": "count", "duration": "from 0"}
"""What the unit of a metric says of its values."""

_BOUND = r"(<=|>=|<|>)\s*([^<>=]+)"
_CHANCE = re.compile(rf"P\(\s*([^\s<>=]+)\s*{_BOUND}\)\s*{_BOUND}")
_MEAN = re.compile(rf"([^\s<>=()]+)\s*{_BOUND}")


@dataclass(frozen=True, slots=True)
class MetricCondition:
    """A condition on the mean of `metric`, or with `event` on the chance that the metric shows the event.

    `sign` and `bound` say what the mean or the chance must keep; `event` is the sign and bound of what a
    single replication may show.
    """

    text: str
    metric: str
    unit: str
    sign: str
    bound: float
    event: tuple[str, float] | None = None

    @classmethod
    def parse(cls, text: str, engine: Engine) -> MetricCondition:
        """Read a condition. Raises ValueError saying what was expected."""
        if match := _CHANCE.fullmatch(text.strip()):
            metric, event_sign, event, sign, bound = match.groups()
            engine.check_metric(metric)
            unit = engine.unit_of(metric)
            chance = _number(bound, "share")
            if not 0 < chance < 1:
                raise ValueError(f"expected a chance between 0 and 100 %, found {bound.strip()!r}")
            return cls(text, metric, unit, sign, chance, (event_sign, _number(event, unit)))
        if match := _MEAN.fullmatch(text.strip()):
            metric, sign, bound = match.groups()
            engine.check_metric(metric)
            unit = engine.unit_of(metric)
            return cls(text, metric, unit, sign, _number(bound, unit))
        raise ValueError(
            "expected a condition such as 'refusals.total <= 10' or 'P(refusals.total > 0) < 1%', "
            f"found {text!r}"
        )

    def decide(self, sample: MetricSample, allowed: Allowed) -> bool | None:
        """Return whether replications show that the condition holds or fails; None if neither.

        It is said wrongly with a chance of at most `allowed`; `inference.decisions` says what that assumes.
        """
        if not sample.drawn:
            return self._holds(sample)
        if self.event is not None:
            events, of = self.events(sample.values), len(sample.values)
            more = evidence.of_chance(events, of, self.bound).decided(allowed.total)
        elif sample.independent:
            hits, trials = sample.hits
            more = evidence.of_chance(sum(hits), sum(trials), self.bound).decided(allowed.total)
        elif sample.trials is not None:
            more = share_above(*sample.hits, self.bound, allowed)
        else:
            more = above(sample.observed, self.bound, RANGES.get(self.unit, "any"), allowed)
        return more if more is None or self.sign in (">", ">=") else not more

    def least_replications(self, allowed: Allowed, most: int) -> int | None:
        """Return how many replications of a world show that it holds, if all meet it in full; at most `most`.

        None of what is neither a chance nor a share, which other values can show earlier.
        """
        if self.decides[1] != "share" or not 0 < self.bound < 1:
            return None
        is_more, error = self.sign in (">", ">="), allowed.ever if self.event is None else allowed.total

        def shows(count: int) -> bool:
            return evidence.of_chance(count * is_more, count, self.bound).decided(error) is is_more

        return bisect_left(range(most), True, key=shows)

    def _holds(self, sample: MetricSample) -> bool | None:
        """Whether it holds where all replications are as the first; None where that has no value."""
        mean = self.estimate(sample, LEVEL).mean
        return None if mean is None else SIGNS[self.sign](mean, self.bound)

    def estimate(self, sample: MetricSample, level: float) -> Estimate:
        """Return the mean or the chance with its two-sided interval."""
        if self.event is None:
            return interval(sample, level)
        estimated = chance(self.events(sample.values), len(sample.values), level)
        return estimated if sample.drawn else Estimate(estimated.mean, None, None)

    def events(self, values: Sequence[float | None]) -> int:
        """Count the replications that show the event; one in which there is no value (None) does not."""
        if self.event is None:
            return 0
        sign, bound = self.event
        return sum(value is not None and SIGNS[sign](value, bound) for value in values)

    @property
    def decides(self) -> tuple[str, str]:
        """What is held against the bound, and its unit: the metric, or a chance."""
        return (self.metric, self.unit) if self.event is None else ("chance", "share")

    def write(self, value: float | None) -> str:
        """A mean or chance as people read it."""
        return units.write(self.decides[1], value)


def _number(text: str, unit: str) -> float:
    """A bound in the metric's unit, as a file writes it. Raises ValueError."""
    text = text.strip()
    try:
        if unit in READERS:
            read: Callable[[str], Any] = READERS[unit][0]
            return float(read(text))
        if unit == "share" and text.endswith("%"):
            return float(f"{text[:-1].strip()}e-2")  # 99.9 / 100 is not 0.999
        return float(text.replace("_", ""))
    except ValueError:
        what = (
            READERS[unit][1] if unit in READERS else "a share such as 95%" if unit == "share" else "a number"
        )
        raise ValueError(f"expected {what}, found {text!r}") from None
