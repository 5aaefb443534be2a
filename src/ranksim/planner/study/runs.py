"""The replications of a study: which are there, which are missing, and the values they gave."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ranksim.core.errors import BadInput
from ranksim.inference.kinds import MetricSample
from ranksim.inference.precision import FIRST_STAGE, is_precise
from ranksim.planner.study.design import Point
from ranksim.planner.study.engines import Measurement, value_of
from ranksim.planner.study.pools import Task, TaskRunner
from ranksim.planner.study.spec import CheckedSpec
from ranksim.planner.study.store import Outcome, Store
from ranksim.report.progress import Tell
from ranksim.twin.sim.metrics import WITHIN, unknown

Values: TypeAlias = Mapping[str, float | None]
GROWTH = 1.5
"""How many times as many replications a point gets that is not yet precise."""


class Runs:
    """Runs what is missing on a pool, keeps it in a store, and remembers the values of some metrics.

    Replication i of every point has the same random numbers, and whether more are wanted is asked only after
    whole rounds, so that neither the pool nor an interruption changes which replications there are.
    """

    def __init__(
        self,
        study: CheckedSpec,
        store: Store,
        pool: TaskRunner,
        metrics: Sequence[str],
        tell: Tell,
    ) -> None:
        self._study, self._store, self._pool, self._tell = study, store, pool, tell
        self._units = {metric: study.engine.unit_of(metric) for metric in metrics}
        self._names: set[str] = set()
        self._done: dict[str, dict[int, Values | str]] = {}
        self._wanted: dict[str, int] = {}
        self._finished = 0
        for key, replication, outcome in store.results():
            self._take(key, replication, outcome)

    def ensure(self, wanted: Iterable[tuple[Point, int]]) -> None:
        """Run what is missing of the first so many replications of each point. Raises BadInput."""
        missing = [
            task for point, count in wanted if not point.problem for task in self._missing(point, count)
        ]
        tasks = list({(task.point, task.replication): task for task in missing}.values())
        self._finished = sum(self._wanted.values()) - len(tasks)
        self._show()
        for task, outcome in self._pool.run(tasks):
            self._store.add(task.point, task.replication, outcome)
            self._take(task.point, task.replication, outcome)
            self._finished += 1
            self._show()
        self._check_names()

    def _missing(self, point: Point, count: int) -> Iterator[Task]:
        """Yield what a point lacks of its first `count` replications, and note that they are wanted."""
        if point.key not in self._wanted:
            self._store.name_point(point.key, point.settings)
        self._wanted[point.key] = max(count, self._wanted.get(point.key, 0))
        done = self._done.setdefault(point.key, {})
        engine, seed = self._study.engine, self._study.spec.seed
        for replication in range(count):
            if replication not in done:
                yield Task(point.key, replication, engine, point.built, seed)

    def replicate(self, points: Sequence[Point]) -> dict[str, int]:
        """Replicate points as often as the study says; give how often that was, by key."""
        spec = self._study.spec
        first = spec.replications
        if spec.precision is not None:
            first = max(first, min(FIRST_STAGE, spec.precision.max_replications))
        counts = dict.fromkeys((point.key for point in points), first)
        self.ensure((point, first) for point in points)
        while spec.precision is not None:
            open_points = [
                point
                for point in points
                if counts[point.key] < spec.precision.max_replications
                and not self.failure(point, counts[point.key])
                and not self.is_precise(point, counts[point.key])
            ]
            if not open_points:
                break
            for point in open_points:
                more = math.ceil(counts[point.key] * GROWTH)
                counts[point.key] = min(more, spec.precision.max_replications)
            self.ensure((point, counts[point.key]) for point in open_points)
        return counts

    def is_precise(self, point: Point, replications: int) -> bool:
        """Return whether the metrics that the study's precision is about are known well enough."""
        precision, level = self._study.spec.precision, self._study.spec.confidence
        return precision is None or all(
            is_precise(self.sample(point, metric, replications), precision.relative, level)
            for metric in precision.of
        )

    def values(self, point: Point, metric: str, replications: int) -> list[float | None]:
        """Return a metric of the first so many replications; None where it failed or observed nothing."""
        done = self._done.get(point.key, {})
        given = [done.get(replication) for replication in range(replications)]
        return [None if isinstance(values, str | None) else values[metric] for values in given]

    def sample(self, point: Point, metric: str, replications: int) -> MetricSample:
        """Return a metric of the first so many replications with what its interval goes by."""
        engine = self._study.engine
        trials = engine.trials_of(metric)
        return MetricSample(
            engine.kind_of(metric),
            self.values(point, metric, replications),
            None if trials is None else self.values(point, trials, replications),
            independent=engine.has_independent_trials(metric),
            drawn=self.is_drawn(point, metric),
        )

    def is_drawn(self, point: Point, metric: str) -> bool:
        """Return whether a metric may differ from one replication of a point to another."""
        return bool(point.problem) or self._study.engine.is_drawn(point.built, metric)

    def failures(self, point: Point, replications: int) -> Iterator[tuple[int | None, str]]:
        """Yield what went wrong: the replication, or None where the point has no input, and the reason."""
        if point.problem:
            yield None, point.problem
            return
        done = self._done.get(point.key, {})
        for replication in range(replications):
            outcome = done.get(replication)
            if isinstance(outcome, str):
                yield replication, outcome

    def failure(self, point: Point, replications: int) -> str:
        """Return the first thing that went wrong at a point, or nothing."""
        return next((reason for _, reason in self.failures(point, replications)), "")

    def _take(self, key: str, replication: int, outcome: Outcome) -> None:
        if isinstance(outcome, Measurement):
            self._names |= outcome.metrics.keys()
            values = {metric: value_of(outcome, metric, unit) for metric, unit in self._units.items()}
            self._done.setdefault(key, {})[replication] = values
        else:
            self._done.setdefault(key, {})[replication] = outcome

    def _check_names(self) -> None:
        """Raise BadInput for a metric that no replication has."""
        if self._names:
            for metric in self._units:
                if WITHIN not in metric and metric not in self._names:
                    raise BadInput(f"{self._study.spec.name}: {unknown(metric, self._names)}")

    def _show(self) -> None:
        wanted = sum(self._wanted.values())
        self._tell(self._finished / max(1, wanted), f"{self._finished} of {wanted} replications")
