"""Which of its open points a service was asked about: the assumptions that its answers rest on."""

from __future__ import annotations

from typing import Any, cast

from ranksim.core.contract.assumptions import Assumptions, Statuses
from ranksim.core.contract.policy import Policy
from ranksim.core.rules.books import Terms


class NotedValues:
    """Values that know which of them were read; from the second time on a read costs what it did."""

    def __init__(self, values: object) -> None:
        self.__dict__["_values"] = values

    def __getattr__(self, name: str) -> Any:
        """Return a value that was not read yet, and keep it, so that it is found without this."""
        value = getattr(self.__dict__["_values"], name)
        self.__dict__[name] = value
        return value


def read_of(values: Any) -> set[str]:
    """Return the names of noted values that were read."""
    return {name for name in vars(values) if not name.startswith("_")}


TERMS = {"spent_counts_reserved": "spent_counts", "cooldown_from_finish": "cooldown_from"}
"""Terms that have another name than their assumption."""


class Consulting:
    """A policy whose assumptions and statuses are noted as they are read, and the terms made of it."""

    def __init__(self, policy: Policy) -> None:
        self.assumptions, self.statuses = NotedValues(policy.assumptions), NotedValues(policy.statuses)
        self.policy = policy.model_copy(
            update={
                "assumptions": cast("Assumptions", self.assumptions),
                "statuses": cast("Statuses", self.statuses),
            }
        )
        self.terms = NotedValues(None)

    def noted(self, terms: Terms) -> Terms:
        """Return terms that are noted as they are read; to have made them is no reading of assumptions."""
        self.terms = NotedValues(terms)
        for name in Terms.__slots__:
            vars(self.assumptions).pop(TERMS.get(name, name), None)
        return cast("Terms", self.terms)

    def names(self) -> tuple[str, ...]:
        """Return what was read, as the fields of a policy."""
        read = read_of(self.assumptions) | {TERMS.get(name, name) for name in read_of(self.terms)}
        return (
            *(f"assumptions.{name}" for name in sorted(read & set(Assumptions.model_fields))),
            *(f"statuses.{name}" for name in sorted(read_of(self.statuses) & set(Statuses.model_fields))),
        )
