"""What every handler is given: the state, the policy and the request at hand."""

from dataclasses import dataclass, field
from heapq import heappush

from ranksim.contract.plans import Plan
from ranksim.contract.policy import Policy
from ranksim.rules.books import Terms
from ranksim.service.calls import Call, Task
from ranksim.service.state import Account, State

JOB_ENDS = "job"
ATTEMPT_DUE = "attempt"


@dataclass(slots=True)
class Context:
    """The service's parts: policy, its terms as integers, state, and the tasks of the step under way."""

    policy: Policy
    terms: Terms
    state: State
    pooled: frozenset[str] = frozenset()
    """Job kinds whose jobs a driver's worker pool runs; the service runs the others itself."""
    tasks: list[Task] = field(default_factory=list)

    def plan_of(self, account: Account) -> Plan:
        """Give the plan an account is on."""
        return self.policy.catalogue.plans[account.plan]

    def schedule(self, due: int, what: str, which: str) -> None:
        """Put work on the agenda; of the same instant, what was scheduled first comes first."""
        heappush(self.state.agenda, (due, self.state.next_serial(), what, which))


@dataclass(slots=True)
class Request:
    """A call after access: who asks, and when. `scope` is the only domain a scoped key may see, or None."""

    call: Call
    now: int
    account: Account
    scope: str | None = None
    key: str = ""
