"""What comes of an advance of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import Micros, iso
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Attempt
from ranksim.twin.facade.logged_event import LoggedEvent, attempt_details


class AdvanceUnderWay(BadInput):
    """The clock is being advanced already."""


@dataclass(frozen=True, slots=True)
class Advance:
    """What came of an advance.

    When it could not settle the clock stands at `now`, attempts `waiting` for their answers; to resume,
    advance to `target` or until the same condition. `met` tells whether the condition came true, if there
    was one.
    """

    settled: bool
    now: Micros
    target: Micros
    met: bool | None
    happened: list[LoggedEvent]
    waiting: list[Attempt]

    def shown(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "settled": self.settled,
            "now": iso(self.now),
            "target": iso(self.target),
            "met": self.met,
            "happened": [event.to_dict() for event in self.happened],
            "waiting": [attempt_details(attempt) for attempt in self.waiting],
        }
