"""What a study runs: simulated worlds of a scenario. An engine builds a point's input and observes it.

An engine is plain data, so that it travels to other processes and machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from ranksim.core.callers.programs import Arrivals
from ranksim.core.clock import Micros
from ranksim.core.contract.parameters import Settings, check_path
from ranksim.core.errors import BadInput
from ranksim.core.rulebook import RULEBOOK
from ranksim.inference.kinds import Kind
from ranksim.twin.sim import drawn
from ranksim.twin.sim import metrics as names
from ranksim.twin.sim.expectations import Expectation
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.runner import replicate, warm_up_of
from ranksim.twin.sim.scenario import Scenario

WARM_UPS: dict[tuple[str, int], Micros] = {}
"""What this process found of points whose warm-up is sought, by their meaning and seed."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one replication of a point gave: its metrics, and histograms from which others are computed."""

    metrics: dict[str, float | None]
    histograms: dict[str, dict[str, Any]] = field(default_factory=dict)


class Engine(Protocol):
    """Builds what a point asks for, and observes one replication of it."""

    name: ClassVar[str]
    sources: ClassVar[tuple[str, ...]]
    """The parts of the package that decide what is observed."""
    usual: ClassVar[tuple[str, ...]]
    """The metrics that a study measures when it does not say."""

    def roots(self) -> Mapping[str, BaseModel]:
        """Return the inputs that parameters lead into, by name."""

    def check_path(self, path: str) -> None:
        """Raise ValueError unless a study can set this parameter."""

    def check_metric(self, metric: str) -> None:
        """Raise ValueError when no run could give this metric."""

    def unit_of(self, metric: str) -> str:
        """Return the unit of a metric: count, share, duration, instant or money."""

    def kind_of(self, metric: str) -> Kind:
        """Return what a metric is to `inference`, which chooses its interval by that."""

    def trials_of(self, metric: str) -> str | None:
        """Return the metric that counts the trials of which this one is the share, or None."""

    def has_independent_trials(self, metric: str) -> bool:
        """Return whether trials of a share have nothing to do with each other, unlike calls of one world."""

    def is_drawn(self, built: Any, metric: str) -> bool:
        """Return whether a metric may differ from one replication of an input to another."""

    def build(self, settings: Settings) -> Any:
        """Return the input with parameters set. Raises BadInput when its parts do not fit together."""

    def meaning(self, built: Any) -> str:
        """Return an input as text: the same for inputs that mean the same."""

    def consulted(self, seed: int) -> Iterable[str]:
        """Return the fields of the policy that runs read."""

    def observe(self, built: Any, seed: int, index: int) -> Measurement:
        """Run one replication, which has the same random numbers at every point."""


@dataclass(frozen=True, slots=True)
class Worlds:
    """Simulated worlds of a scenario; paths of policy files are read from `folder`."""

    scenario: Scenario
    folder: Path = Path()

    name: ClassVar[str] = "worlds"
    sources: ClassVar[tuple[str, ...]] = (*RULEBOOK, "core/callers", "twin/sim")
    usual: ClassVar[tuple[str, ...]] = ("calls.total", "refusals.total", "refusals.share")

    RESERVED: ClassVar[tuple[str, ...]] = (
        *("scenario", "scenario.scenario", "scenario.name", "scenario.title", "scenario.description"),
        *("scenario.seed", "scenario.replications", "scenario.expect", "scenario.policy"),
    )

    def roots(self) -> Mapping[str, BaseModel]:
        """The scenario and its policy."""
        return self.scenario.roots

    def check_path(self, path: str) -> None:
        """Raise ValueError for a parameter that there is not, or that the study decides."""
        check_path(path, self.roots(), self.RESERVED)

    def check_metric(self, metric: str) -> None:
        """Raise ValueError for a metric that no run of the scenario has."""
        names.check_name(metric)
        expecting = self.scenario.model_copy(update={"expect": (Expectation.model_construct(metric=metric),)})
        try:
            expecting.check()
        except BadInput as error:
            raise ValueError(f"{metric}: {str(error).partition('expect[0]: ')[2]}") from None

    def unit_of(self, metric: str) -> str:
        """The unit of a scenario's metric."""
        return names.unit_of(metric)

    def kind_of(self, metric: str) -> Kind:
        """What a scenario's metric is to `inference`."""
        return names.metric_of(metric).kind

    def trials_of(self, metric: str) -> str | None:
        """The metric that counts the trials of a share: of jobs that were queued, or of calls."""
        return names.metric_of(metric).trials

    def has_independent_trials(self, metric: str) -> bool:
        """Never: what befalls one call or job of a world befalls others."""
        return False

    def is_drawn(self, built: Scenario, metric: str) -> bool:
        """Whether a scenario's metric may depend on the seed."""
        return drawn.is_drawn(built, metric)

    def build(self, settings: Settings) -> Scenario:
        """The scenario with parameters set. Raises BadInput."""
        return self.scenario.changed(settings, self.folder)

    def meaning(self, built: Scenario) -> str:
        """What of a scenario decides its runs; recordings are told by their bytes."""
        plain = built.model_dump(mode="json")
        for name in ("name", "title", "description", "seed", "replications", "expect"):
            del plain[name]
        for name, client in built.clients.items():
            if isinstance(client, Arrivals):
                plain["clients"][name]["source"] |= _recording(client)
        return json.dumps(plain, sort_keys=True)

    def consulted(self, seed: int) -> Iterable[str]:
        """The fields of the policy that the service reads in a run of the scenario, which this takes."""
        return replicate(self.scenario, seed, 0, 0).consulted

    def observe(self, built: Scenario, seed: int, index: int) -> Measurement:
        """One replication: its metrics, and the waits of each kind of job."""
        replication = replicate(built, seed, self._warm_up(built, seed), index)
        waits = {
            f"jobs.{kind}.wait": row["wait"]
            for kind, row in replication.jobs.items()
            if Histogram.from_plain(row["wait"]).count
        }
        return Measurement(names.scalars(replication), waits)

    def _warm_up(self, built: Scenario, seed: int) -> Micros:
        """What a point leaves out of each replication's start; pilots run once in a process."""
        if built.warm_up not in ("mser", "welch"):
            return warm_up_of(built, seed).length
        key = (self.meaning(built), seed)
        if key not in WARM_UPS:
            WARM_UPS[key] = warm_up_of(built, seed).length
        return WARM_UPS[key]


def _recording(client: Arrivals) -> dict[str, str]:
    """The file that a client replays, told by its bytes instead of its path. Raises BadInput."""
    source = client.source
    kind = "rates" if source.rates is not None else "log" if source.log is not None else "trace"
    path = Path(getattr(source, kind))
    try:
        return {kind: sha256(path.read_bytes()).hexdigest()}
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a readable recording") from None


# Metrics computed from what is kept


def value_of(observation: Measurement, metric: str, unit: str) -> float | None:
    """Return a metric of a replication, None where nothing was observed; what was never counted is 0.

    A mean of nobody, as that of the accounts of a plan that has none, is nothing observed.
    """
    if names.WITHIN in metric:
        jobs, bound = names.within_of(metric)
        plain = observation.histograms.get(f"{jobs}.wait")
        waits = Histogram.from_plain(plain) if plain else Histogram()
        return names.share_within(waits, observation.metrics.get(f"{jobs}.queued") or 0, bound)
    missing = 0.0 if unit in ("count", "money") and not metric.endswith(".mean") else None
    return observation.metrics.get(metric, missing)
