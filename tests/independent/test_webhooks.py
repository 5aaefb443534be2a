"""When attempts come, and how much of a limit is left: sums of the numbers on the page."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Page = Callable[[str], dict[str, Any]]

MINUTE = 60_000_000
GAPS = (1, 5, 30, 120, 360)
"""Minutes between the attempts of a delivery that fails."""


def attempts_until(answers: list[bool], minutes: int) -> list[int]:
    """The minutes of the attempts within a time, the last being the first that is acknowledged."""
    found = []
    for number, at in enumerate((0, *accumulate(GAPS))):
        if at > minutes:
            break
        found.append(at)
        if answers[min(number, len(answers) - 1)]:
            break
    return found


@pytest.mark.example(
    "README.md",
    "[came.attempt for came in receiver.requests] == [1, 2, 3, 4]",
    "36 minutes after the first (1 + 5 + 30)",
)
@pytest.mark.example("docs/facade.md", "[came.attempt for came in receiver.requests] == [1, 2, 3, 4]")
@pytest.mark.parametrize("text", ["README.md", "docs/facade.md"])
def test_the_fourth_attempt_comes_after_36_minutes(page: Page, text: str) -> None:
    receiver = page(text)["receiver"]
    expected = attempts_until([False, False, False, True], 36)
    assert expected == [0, 1, 6, 36]
    assert [came.attempt for came in receiver.requests] == list(range(1, len(expected) + 1))
    first = receiver.requests[0].received
    waits = [came.received - first for came in receiver.requests]
    assert [round(wait / MINUTE) for wait in waits] == expected


@pytest.mark.example("docs/tutorial.md", "[request.attempt for request in receiver.requests] == [1, 2]")
def test_the_second_attempt_comes_after_a_minute(page: Page) -> None:
    receiver = page("docs/tutorial.md")["receiver"]
    expected = attempts_until([False, True], 1)
    assert expected == [0, 1]
    assert [came.attempt for came in receiver.requests] == list(range(1, len(expected) + 1))


@pytest.mark.example(
    "docs/facade.md", '(reply.status_code, reply.headers["RateLimit-Remaining"]) == (202, "19")'
)
def test_one_of_twenty_starts_is_used(page: Page) -> None:
    reply = page("docs/facade.md")["reply"]
    assert int(reply.headers["RateLimit-Remaining"]) == int(reply.headers["RateLimit-Limit"]) - 1 == 20 - 1


@pytest.mark.example("docs/python.md", "[MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR]")
def test_a_receiver_that_stays_down_is_tried_six_times(page: Page) -> None:
    sent = page("docs/python.md")["sent"]
    assert [at - sent[0] for at in sent] == [at * MINUTE for at in attempts_until([False], 10**6)]
    assert len(sent) == 6
