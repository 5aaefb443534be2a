"""Advancing the clock: how far, from instant to instant, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import DAY, Micros, iso, month_end, week_end
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules import admission
from ranksim.core.service import jobs
from ranksim.core.service.calls import Attempt
from ranksim.core.service.state import State
from ranksim.twin.facade.logged_event import LoggedEvent, attempt_details

LONGEST_WAIT_FOR_A_CONDITION = 400 * DAY
"""How far an advance until a condition goes before it gives up."""


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

    def __repr__(self) -> str:
        met = {None: "", True: ", the condition came true", False: ", the condition did not"}[self.met]
        unsettled = "" if self.settled else f", {len(self.waiting)} attempts without an answer"
        return f"<Advance to {iso(self.now)}: {len(self.happened)} milestones{met}{unsettled}>"

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


@dataclass(frozen=True, slots=True)
class AdvanceCondition:
    """What becomes true as time goes on: a job finishes, or an endpoint is disabled, or deleted meanwhile."""

    job: str | None = None
    endpoint: str | None = None

    def check(self, state: State) -> None:
        """Raise BadInput when there is no such job or endpoint."""
        if self.job is not None and self.job not in state.jobs:
            raise BadInput(f"until.job: there is no job {self.job!r}")
        if self.endpoint is not None and self.endpoint not in state.endpoints:
            raise BadInput(f"until.endpoint: there is no webhook endpoint {self.endpoint!r}")

    def met(self, state: State) -> bool:
        """Return whether it is true."""
        if self.job is not None:
            return state.jobs[self.job].status in (jobs.DONE, jobs.FAILED)
        endpoint = state.endpoints.get(self.endpoint or "")
        return endpoint is None or not endpoint.enabled


def meter_resets(state: State, policy: Policy, account: str, metric: str, now: Micros) -> Micros:
    """Return the instant at which a metered allowance begins anew (S38, S108, S110). Raises BadInput."""
    if account not in state.accounts:
        raise BadInput(f"until.account: there is no account {account!r}")
    owner = state.accounts[account]
    if metric not in owner.meters:
        meters = ", ".join(sorted(owner.meters))
        raise BadInput(f"until.meter: account {account!r} has the meters {meters}, not {metric!r}")
    meter = owner.meters[metric]
    if now < meter.ends:
        return meter.ends
    if meter.period == admission.WEEK:
        return week_end(now, policy.assumptions.week_offset)
    return month_end(owner.books.anchor, now)
