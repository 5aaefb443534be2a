"""What a world began with, where a scenario describes it, for a twin that itself reads no scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ranksim.core.callers.fault_rules import FaultRule, FaultTarget
from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Answer, Attempt, Step
from ranksim.core.service.service import Service


class Timeline(Protocol):
    """What happens to a served world from outside its clients."""

    due: Micros
    """When it acts next; DISTANT_FUTURE once it has done all."""

    def act(self, service: Any, faults: FaultTarget, now: Micros) -> tuple[list[Step], dict[str, Any]]:
        """Do what is due to a service and its faults; return what came of it, and what it was, as an event
        tells it.
        """

    def answer(self, attempt: Attempt, now: Micros) -> Answer | None:
        """Return what a sender sees of a receiver that is down, or None: it is asked."""

    def saved(self) -> dict[str, Any]:
        """Return where it stands, as JSON."""

    def lay_over(self, stated: dict[str, Any], now: Micros) -> dict[str, Any]:
        """Return a scenario of the world as it stands at an instant, with what happens to it from then on."""


Source: TypeAlias = tuple[str, Micros | None]
"""A scenario as text, and up to when it is simulated first."""


Described: TypeAlias = tuple[Source, dict[str, Any]] | None
"""The scenario that a world began with, and where its timeline stands; None: no scenario."""


class Origin(Protocol):
    """How a world begins that a scenario describes."""

    source: Source
    policy: Policy
    seed: int
    start: Micros
    faults: Sequence[tuple[Micros, FaultRule]]
    """The fault rules in force then, and since when."""

    def open(self) -> tuple[Service, dict[str, str], Timeline]:
        """Return a service, the first key of each environment, and what happens from then on.

        Raises BadInput.
        """

    def timeline(self, saved: Mapping[str, Any]) -> Timeline:
        """Return what happens from where it was saved on."""


class Still:
    """A timeline on which nothing happens; it is what it was saved as."""

    due = DISTANT_FUTURE

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        self._saved = dict(saved or {})

    def act(self, service: Any, faults: FaultTarget, now: Micros) -> tuple[list[Step], dict[str, Any]]:
        """Do nothing."""
        return [], {}

    def answer(self, attempt: Attempt, now: Micros) -> Answer | None:
        """Leave it to the receiver."""
        return None

    def saved(self) -> dict[str, Any]:
        """Return what it was saved as."""
        return self._saved

    def lay_over(self, stated: dict[str, Any], now: Micros) -> dict[str, Any]:
        """Return the scenario as it is."""
        return stated


class Unread:
    """An origin of which only the text is passed on, where nothing reads scenarios."""

    def __init__(self, source: Source, policy: Policy | None = None) -> None:
        self.source, self.policy = source, policy or Policy()
        self.seed, self.start = 0, 0
        self.faults: Sequence[tuple[Micros, FaultRule]] = ()

    def open(self) -> tuple[Service, dict[str, str], Timeline]:
        """Raise BadInput."""
        raise BadInput("scenario: cannot be read here; serve it with ranksim serve, or use ranksim.testing")

    def timeline(self, saved: Mapping[str, Any]) -> Timeline:
        """Return a timeline that stands still."""
        return Still(saved)


ReadOrigin: TypeAlias = Callable[[Source, Policy | None], Origin]
"""Reads a scenario; one that says no policy is of the policy passed. Raises BadInput."""
