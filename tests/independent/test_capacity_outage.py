"""What an outage costs: attempts and failures in a row, listed one by one, in minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Page = Callable[[str], dict[str, Any]]

ATTEMPTS = (0, 1, 6, 36, 156, 516)
"""Minutes after an event at which it is tried, when all attempts before were refused."""

IN_A_ROW = 20


def outcome(events: list[float], length: float) -> dict[str, float]:
    """What becomes of events (minutes after an outage of `length` began), none of which was tried before."""
    failures = sorted(came + after for came in events for after in ATTEMPTS if came + after < length)
    off = failures[IN_A_ROW - 1] if len(failures) >= IN_A_ROW else None
    found = dict.fromkeys(("delayed", "exhausted", "cancelled", "suppressed"), 0)
    for came in events:
        if off is not None and came > off:
            found["suppressed"] += 1
        elif came + ATTEMPTS[-1] < length and (off is None or came + ATTEMPTS[-1] < off):
            found["exhausted"] += 1
        else:
            found["delayed" if off is None else "cancelled"] += 1
    return found | {"events": len(events), "disabled": int(off is not None)}


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", "disabled_after(events) for events in table} == table")
def test_events_that_come_together(page: Page) -> None:
    names = page("docs/capacity.md")
    for events in range(1, 40):
        failures = sorted(after for after in ATTEMPTS for _ in range(events))
        expected = failures[IN_A_ROW - 1] * 60_000_000 if len(failures) >= IN_A_ROW else None
        assert names["disabled_after"](events) == expected, events
        assert names["table"].get(events, expected) == expected


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", "rare.events == 1 and abs(rare.exhausted - 204 / 720)")
def test_a_single_event_in_twelve_hours(page: Page) -> None:
    rare = page("docs/capacity.md")["rare"]
    lost = [outcome([float(minute)], 720)["exhausted"] for minute in range(720)]
    assert (rare.events, sum(lost)) == (1, 204)
    assert rare.exhausted == pytest.approx(sum(lost) / 720, abs=1e-3)
    assert rare.delayed == pytest.approx(1 - sum(lost) / 720, abs=1e-3)


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md", "(hour.disabled, hour.cancelled, hour.suppressed, hour.delayed) == (1, 7, 5, 0)"
)
@pytest.mark.parametrize("phase", [0.001, 1.0, 2.5, 3.99, 4.999])
def test_an_event_every_five_minutes(page: Page, phase: float) -> None:
    hour = page("docs/capacity.md")["hour"]
    found = outcome([phase + 5 * k for k in range(12)], 60)
    assert {name: getattr(hour, name) for name in found} == pytest.approx(found)
    assert (found["disabled"], found["cancelled"], found["suppressed"], found["delayed"]) == (1, 7, 5, 0)


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", "abs(late.duplicates - (sent_again + 1))")
def test_a_receiver_that_acts_but_answers_late(page: Page) -> None:
    """Each attempt takes ten seconds to fail; the next come one, five and thirty minutes after that."""
    late = page("docs/capacity.md")["late"]
    duplicates = 0
    phases = 18_000
    for number in range(phases):
        came = attempt = (number + 0.5) * 1800 / phases
        for wait in (60, 300, 1800):
            if attempt >= 1800:
                break
            attempt += 10 + wait
            duplicates += 1
        assert attempt >= 1800 > came
    assert late.duplicates == pytest.approx(duplicates / phases, abs=1e-3)
