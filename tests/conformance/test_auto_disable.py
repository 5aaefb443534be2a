"""Twenty consecutive failures disable an endpoint, and a success starts anew."""

from typing import Any

import pytest
from tests.conformance.building import (
    Entry,
    an_endpoint,
    attempt,
    call,
    created,
    found,
    hook,
    judged,
    listed,
    policy_of,
)

from ranksim.conformance.webhooks import auto_disable

DISABLED, RESET = auto_disable.DISABLED, auto_disable.RESET


def failures(count: int, first: float = 0, status: int = 500, start: int = 0) -> list[Entry]:
    """Fail so many events, a second apart."""
    return [hook(first + n, event=f"evt_{start + n}", status=status) for n in range(count)]


def look(sent: float, enabled: bool) -> Entry:
    shown = an_endpoint(enabled=enabled, disabled_reason=None if enabled else "20 failures")
    return call("webhooks.get", sent, sent + 0.1, shown, path={"id": "whk_1"})


def told(sent: float, count: int, **answers: Any) -> Entry:
    """List so many attempts, those in `answers` otherwise."""
    return listed(sent, *(attempt(f"evt_{n}", 1, answers.get(f"evt_{n}", 500)) for n in range(count)))


OK_10 = {"evt_10": 200}

TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "at twenty": (DISABLED, [created(), *failures(20), look(25, False), told(99, 20)], "held"),
    "at nineteen": (DISABLED, [created(), *failures(19), look(25, False), told(99, 19)], "broken"),
    "at nineteen that came, and one that did not": (
        DISABLED,
        [created(), *failures(19), look(25, False), told(99, 20)],
        "held",
    ),
    "at nineteen, with no list of what did not come": (
        DISABLED,
        [created(), *failures(19), look(25, False)],
        "open",
    ),
    "at nineteen, with 410": (
        DISABLED,
        [created(), *failures(19, status=410), look(25, False), told(99, 19)],
        "differs 71",
    ),
    "not yet at nineteen": (RESET, [created(), *failures(19), look(50, True)], "nothing"),
    "not at twenty": (DISABLED, [created(), *failures(20), look(50, True)], "differs 66"),
    "not at twenty, though seen so by the deployment": (
        DISABLED,
        [created(), *failures(20), look(25, True), told(99, 20)],
        "differs 66",
    ),
    "not yet, as the last answer may be lost": (DISABLED, [created(), *failures(20), look(25, True)], "open"),
    "attempts after twenty": (
        DISABLED,
        [created(), *failures(20), *failures(1, 60, start=20)],
        "differs 66",
    ),
    "attempts under way at twenty": (
        DISABLED,
        [created(), *failures(20), *failures(1, 23, start=20)],
        "open",
    ),
    "a success in between": (
        RESET,
        [
            created(),
            *failures(10),
            hook(10, event="evt_10"),
            *failures(10, 30, start=11),
            look(60, True),
            told(99, 21, **OK_10),
        ],
        "held",
    ),
    "disabled all the same": (
        RESET,
        [
            created(),
            *failures(10),
            hook(10, event="evt_10"),
            *failures(10, 30, start=11),
            look(60, False),
            told(99, 21, **OK_10),
        ],
        "broken",
    ),
    "a success whose answer was lost": (
        DISABLED,
        [
            created(),
            *failures(10),
            hook(10, event="evt_10"),
            *failures(10, 30, start=11),
            look(60, False),
            told(99, 21, evt_10=None),
        ],
        "held",
    ),
    "a success that overlaps the last failures": (
        DISABLED,
        [created(), *failures(10), hook(5, 14, event="evt_99"), *failures(10, 10, start=10), look(90, True)],
        "open",
    ),
    "an endpoint made disabled": (
        DISABLED,
        [created(1, -10, enabled=False), *failures(3), look(25, False), told(99, 3)],
        "nothing",
    ),
    "an endpoint that was changed": (
        DISABLED,
        [
            created(),
            *failures(3),
            call("webhooks.update", 5, None, path={"id": "whk_1"}, body={"enabled": False}),
            look(25, False),
            told(99, 3),
        ],
        "nothing",
    ),
}


@pytest.mark.fact("S91", "S92", "E22", "E25")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_disabling(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(auto_disable, entries), rule) == expected


def test_counting_by_event_is_another_way() -> None:
    entries = [created(), *failures(20), look(99, True), *failures(1, 120, start=20)]
    assert found(judged(auto_disable, entries, policy_of(failure_counted="attempt")), DISABLED) == "broken"
    assert found(judged(auto_disable, entries, policy_of(failure_counted="event")), DISABLED) == "open"


def test_under_either_way_six_failed_attempts_of_twenty_events_are_enough() -> None:
    events = [hook(n, event=f"evt_{n}", attempt=6, status=500) for n in range(20)]
    assert found(judged(auto_disable, [created(), *events, look(99, True)]), DISABLED) == "broken"


def test_the_default_excluded_is_a_difference() -> None:
    sixth = [hook(40 + n, event=f"evt_{n}", attempt=6, status=500) for n in range(20)]
    entries = [created(), *failures(20), *sixth, look(99, False), told(120, 20)]
    assert found(judged(auto_disable, entries), DISABLED) == "differs 66"
