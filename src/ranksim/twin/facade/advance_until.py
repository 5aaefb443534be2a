"""What an advance can run until: a job finished, an endpoint disabled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ranksim.core.clock import Micros, month_end, week_end
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules import admission
from ranksim.core.service import jobs
from ranksim.core.service.state import State


class AdvanceCondition(Protocol):
    """Something that becomes true as time goes on."""

    def check(self, state: State) -> None:
        """Raise BadInput when it speaks of something that does not exist."""

    def met(self, state: State) -> bool:
        """Return whether it is true."""


@dataclass(frozen=True, slots=True)
class UntilJobFinished:
    """A job is done or has failed."""

    job: str

    def check(self, state: State) -> None:
        """Raise BadInput when there is no such job."""
        if self.job not in state.jobs:
            raise BadInput(f"until.job: there is no job {self.job!r}")

    def met(self, state: State) -> bool:
        """Return whether the job has finished."""
        return state.jobs[self.job].status in (jobs.DONE, jobs.FAILED)


@dataclass(frozen=True, slots=True)
class UntilEndpointDisabled:
    """A webhook endpoint is disabled, or was deleted meanwhile."""

    endpoint: str

    def check(self, state: State) -> None:
        """Raise BadInput when there is no such endpoint."""
        if self.endpoint not in state.endpoints:
            raise BadInput(f"until.endpoint: there is no webhook endpoint {self.endpoint!r}")

    def met(self, state: State) -> bool:
        """Return whether the endpoint is disabled."""
        endpoint = state.endpoints.get(self.endpoint)
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
