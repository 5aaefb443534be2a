"""What a judge may take for granted: facts always, an assumption only where a policy pins it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import Facts
from ranksim.core.contract.policy import Policy


@dataclass(frozen=True, slots=True)
class Options:
    """The open choices of a deployment (U), as far as no policy pins them.

    An assumption or status that the policy states is pinned, even at its default's value; all others are
    open: every option must fail before a rule deviates. Plan numbers are never taken from a policy (U60):
    what the deployment lets a key read is what counts.
    """

    policy: Policy
    assumptions: frozenset[str]
    statuses: frozenset[str]

    @classmethod
    def of(cls, policy: Policy | None = None) -> Options:
        """Open everything that `policy` does not state; None states nothing."""
        if policy is None:
            return cls(Policy(), frozenset(), frozenset())
        return cls(
            policy,
            frozenset(policy.assumptions.model_fields_set),
            frozenset(policy.statuses.model_fields_set),
        )

    @property
    def facts(self) -> Facts:
        """The numbers that the specification states; they are never open."""
        return self.policy.facts

    def default(self, name: str) -> Any:
        """The policy's value of an assumption, pinned or not."""
        return getattr(self.policy.assumptions, name)

    def pinned(self, name: str) -> bool:
        """Return whether the policy states this assumption."""
        return name in self.assumptions

    def may_be(self, name: str, value: object) -> bool:
        """Return whether an assumption may have this value, for all that the policy states."""
        return not self.pinned(name) or self.default(name) == value

    def must_be(self, name: str, value: object) -> bool:
        """Return whether the policy states this value of an assumption."""
        return self.pinned(name) and bool(self.default(name) == value)

    @property
    def names_capabilities(self) -> bool:
        """Return whether the policy states which capability each operation needs (U60)."""
        catalogue = self.policy.catalogue
        return "catalogue" in self.policy.model_fields_set and "capability_of" in catalogue.model_fields_set

    def candidates(self, name: str) -> tuple[Any, ...]:
        """The values an assumption may have, the default first: one when it is pinned.

        Raises ValueError for an assumption that is not a choice: a number or a list has no finite options.
        """
        value = self.default(name)
        if self.pinned(name):
            return (value,)
        annotation = Assumptions.model_fields[name].annotation
        if annotation is bool:
            return (value, not value)
        if get_origin(annotation) is Literal:
            return (value, *(option for option in get_args(annotation) if option != value))
        raise ValueError(f"assumption {name} is not a choice; read its default, or whether it is pinned")

    def status(self, name: str) -> int | None:
        """The pinned status of a code or case, or None when any error status would do."""
        return getattr(self.policy.statuses, name) if name in self.statuses else None

    def default_status(self, name: str) -> int:
        """The policy's status of a code or case, pinned or not."""
        status: int = getattr(self.policy.statuses, name)
        return status
