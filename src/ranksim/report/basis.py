"""What a page tells of an answer beside it: what was asked, what it rests on, and how to ask it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ranksim.core.contract.policy import Policy
from ranksim.report.assumptions import overrides, rests_on


@dataclass(frozen=True, slots=True)
class Basis:
    """The question in words, the assumptions behind its answer, and the command that asks it again.

    `rests_on` are rows of `report.assumptions`, `overrides` those that differ from their default.
    """

    question: str = ""
    rests_on: tuple[Mapping[str, Any], ...] = ()
    overrides: tuple[tuple[str, str, str], ...] = ()
    command: str = ""


def basis_of(question: str, policy: Policy, consulted: Iterable[str] = (), command: str = "") -> Basis:
    """Return what an answer rests on that was found under a policy, by reading these fields of it."""
    return Basis(question, rests_on(policy, consulted), overrides(policy), command)
