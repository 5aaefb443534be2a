"""What every handler is given: the state, the policy and the request at hand."""

from dataclasses import dataclass, field
from heapq import heappush

from ranksim.contract.facts import Spend
from ranksim.contract.plans import Plan
from ranksim.contract.policy import Policy
from ranksim.rules import terms
from ranksim.rules.books import Terms
from ranksim.service.calls import Call, Task
from ranksim.service.events import ServiceEvent
from ranksim.service.state import Account, State

JOB_ENDS = "job"
ATTEMPT_DUE = "attempt"


@dataclass(slots=True)
class Context:
    """The service's parts: policy, state, what follows from the policy, what the step under way led to."""

    policy: Policy
    state: State
    pooled: frozenset[str] = frozenset()
    """Job kinds whose jobs a driver's worker pool runs; the service runs the others itself."""
    tasks: list[Task] = field(default_factory=list)
    events: list[ServiceEvent] = field(default_factory=list)
    terms: Terms = field(init=False)
    bits: dict[str, int] = field(init=False)
    """Capability name to bit."""
    checks: dict[Spend, int] = field(init=False)
    needs: dict[Spend, int] = field(init=False)

    def __post_init__(self) -> None:
        self.terms = terms.terms_of(self.policy)
        self.bits = terms.capability_bits(self.policy.catalogue)
        self.checks = {spend: terms.checks_of(self.policy, spend) for spend in Spend}
        self.needs = {spend: terms.capability_needed(self.policy, spend, self.bits) for spend in Spend}

    def plan_of(self, account: Account) -> Plan:
        """Return the plan an account is on."""
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
