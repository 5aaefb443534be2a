"""What came of a calibration: choices, statuses and measures, with what pins each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import assumption
from ranksim.judge.conformance.calibrate.measures import Measure, Shown
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding


@dataclass(frozen=True, slots=True)
class Choice:
    """One assumption with a few options: which are left, and what excludes each other one.

    `name` is the field of a policy's assumptions, "" for a scope that no field sets. Where it is not `shown`,
    the others are excluded and nothing speaks for what is left: there may be something else altogether.
    """

    name: str
    numbers: tuple[int, ...]
    says: str
    default: Any
    left: tuple[Any, ...]
    against: Mapping[Any, Evidence]
    shown: bool = True

    @property
    def pinned(self) -> bool:
        """Whether one option is left of several, and shown."""
        return len(self.left) == 1 and bool(self.against) and self.shown

    @property
    def observe(self) -> str:
        """What would pin the choice."""
        return assumption(self.numbers[0]).observe


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationOutcome:
    """What a trace pins: choices, statuses and measures, with what pins each.

    `deviating` are the rules that the deployment breaks under every option; what is said of assumptions that
    they lean on is then worth little. `untried` names the choices of which not every
    option was tried, for want of time.
    """

    choices: tuple[Choice, ...]
    statuses: tuple[Shown, ...]
    measures: tuple[Measure, ...]
    differences: tuple[Difference, ...]
    deviating: tuple[Finding, ...]
    untried: tuple[str, ...]
    history: History
    base: Policy

    def choice(self, name: str) -> Choice:
        """The choice of that name. Raises KeyError when there is none."""
        for choice in self.choices:
            if choice.name == name:
                return choice
        raise KeyError(name)

    def measure(self, name: str) -> Measure:
        """The first measure of that name. Raises KeyError when the trace has none."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise KeyError(name)
