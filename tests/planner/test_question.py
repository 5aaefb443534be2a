"""A question made a command: what its signature must be."""

from __future__ import annotations

import pytest

from ranksim.planner.question import command


def polls(clients: int) -> None:
    """How often clients may poll; its annotation is text, as those of this module are."""


def test_a_question_whose_annotations_are_postponed_is_refused() -> None:
    with pytest.raises(AssertionError, match="leave out `from __future__ import annotations`"):
        command(polls, lambda answer, out, plots: None)
