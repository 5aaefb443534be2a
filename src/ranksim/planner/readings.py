"""Questions that are answered by computing, as `report.readings` asks them: they tell what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ranksim.core.contract.policy import Policy
from ranksim.core.service.consulted import Consulting
from ranksim.report.readings import Question

T = TypeVar("T")


def consulting(ask: Callable[[Policy], T]) -> Question[T]:
    """Return a question that reads its policy itself as one that tells what it read."""

    def question(policy: Policy) -> tuple[T, Iterable[str]]:
        noted = Consulting(policy)
        return ask(noted.policy), noted.names()

    return question
