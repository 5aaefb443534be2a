"""The jobs that a peak brings, and the share of them that some workers start in time, in closed form.

The closed form is M/M/c (A. K. Erlang, 1917): with c workers and an offered load of a = arrival rate × mean
duration, a job waits with chance C(c, a), and longer than t with C(c, a) × exp(−(c − a) × t / mean duration).
Durations that are not exponential scale the exponent by 2 / (1 + v), v their squared coefficient of
variation: the approximation of A. O. Allen and J. Cunneen (A. O. Allen, "Probability, Statistics, and
Queueing Theory", 2nd ed. 1990), with the exponential tail of heavy traffic (J. F. C. Kingman, 1962;
J. Köllerström, 1974). A rate that changes is taken stretch by stretch, each as if it lasted (the pointwise
stationary approximation: L. Green and P. Kolesar, Management Science 37, 1991). Jobs that all come at one
instant have a fluid instead: c workers start c at once, and c for every mean duration after that (at its
end, and so exactly, where durations are constant).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, pvariance

from ranksim.core.clock import HOUR, Micros
from ranksim.core.contract.quantities import Distribution
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.service.calls import StartJob
from ranksim.planner.capacity.common import DurationField, check_numbers, expect, question_repr

MANY = 100_000
"""Jobs of a peak; more would take long to simulate."""

Arrivals = Sequence[tuple[Micros, StartJob]]
"""Jobs of one kind, each with the instant (µs) at which it was queued."""


@dataclass(frozen=True)
class Peak:
    """The jobs of one kind that a peak brings, and how long they take.

    They come at random moments within `over` (µs), a stretch cut into equal parts with `profile` as the
    weights of the parts; all at one instant when `over` is 0.
    """

    jobs: int
    service: Distribution
    over: DurationField = DurationField(HOUR)
    profile: tuple[float, ...] = (1.0,)

    __repr__ = question_repr

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        check_numbers(self)
        expect(1 <= self.jobs <= MANY, "jobs", f"1 to {MANY}", self.jobs)
        expect(self.over >= 0, "over", "0 or more", self.over)
        fine = bool(self.profile) and all(0 <= weight < math.inf for weight in self.profile)
        expect(fine and sum(self.profile) > 0, "profile", "weights, one of them above 0", self.profile)
        expect(self.mean > 0, "duration", "a mean above 0", self.mean)

    @property
    def mean(self) -> float:
        """Mean duration of a job (µs)."""
        return self.service.mean()

    @property
    def is_drawn(self) -> bool:
        """Whether chance decides anything: jobs that come at once and take one time leave nothing to it."""
        return self.over > 0 or self.service.kind != "constant"

    @property
    def loads(self) -> tuple[tuple[float, float], ...]:
        """Each part of the profile: its share of the jobs, and its offered load in workers."""
        total, part = sum(self.profile), self.over / len(self.profile)
        shares = [weight / total for weight in self.profile]
        return tuple((share, self.jobs * share * self.mean / part) for share in shares if share)

    @property
    def load(self) -> float:
        """The highest offered load: the workers that would never be idle; all jobs when they come at once."""
        return max(load for _, load in self.loads) if self.over else float(self.jobs)

    def arrivals(self, kind: str, seed: int) -> Arrivals:
        """Draw when the jobs come, of a kind: each in a part of the profile by weight, evenly there."""
        draw = partial(uniform, seed, entity(kind), purpose=Purpose.ARRIVAL)
        return [
            (self._moment(draw(number)), StartJob(f"{kind}{number}", kind, "", f"{kind}{number}", 0))
            for number in range(self.jobs)
        ]

    def _moment(self, u: float) -> Micros:
        left, part = u * sum(self.profile), self.over / len(self.profile)
        for index, weight in enumerate(self.profile):
            if left < weight:
                return int((index + left / weight) * part)
            left -= weight
        return self.over


def squared_variation(service: Distribution) -> float:
    """Return the squared coefficient of variation of a duration: its variance over its squared mean."""
    first, last = service.durations[0], service.durations[-1]
    match service.kind:
        case "constant":
            return 0.0
        case "exponential":
            return 1.0
        case "uniform":
            return (last - first) ** 2 / 12 / ((first + last) / 2) ** 2
        case "lognormal":
            return math.expm1(service.sigma**2)
        case "empirical":
            return pvariance(service.durations) / fmean(service.durations) ** 2


def erlang_c(workers: int, load: float) -> float:
    """Return the chance that a job waits in M/M/c, 1 where the load is not below the workers.

    By the recursion of Erlang's loss formula, B(0) = 1 and B(c) = a B(c−1) / (c + a B(c−1)).
    """
    if load >= workers:
        return 1.0
    blocked = 1.0
    for c in range(1, workers + 1):
        blocked = load * blocked / (c + load * blocked)
    return workers * blocked / (workers - load * (1 - blocked))


def started_by_formula(peak: Peak, workers: int, within: Micros) -> float:
    """Return the share of jobs that start within `within` (µs), as the module says."""
    if workers >= peak.jobs:
        return 1.0  # nobody waits, however long jobs take
    if peak.over == 0:
        turns = within / peak.mean
        full_turns = math.floor(turns) if peak.service.kind == "constant" else turns
        return min(1.0, workers * (1 + full_turns) / peak.jobs)
    faster = 2 / (1 + squared_variation(peak.service))
    started = 0.0
    for share, load in peak.loads:
        if load < workers:
            exponent = -faster * (workers - load) * within / peak.mean
            started += share * (1 - erlang_c(workers, load) * math.exp(exponent))
    return started
