"""What every handler is given: the state, the policy and the request at hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappush

from ranksim.core.clock import billing_month
from ranksim.core.contract.facts import Spend
from ranksim.core.contract.plans import Plan
from ranksim.core.contract.policy import Policy
from ranksim.core.rules import terms
from ranksim.core.rules.books import Charge, Terms
from ranksim.core.service.calls import Call, Task
from ranksim.core.service.events import ServiceEvent
from ranksim.core.service.state import Account, State

MOST_MONTHS = 1 << 14
"""Anchors whose billing month is kept; beyond so many it is found anew."""

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
    wait: int = 0
    """How long (µs) a queue of calls holds back the request that was charged last."""
    charged: Sequence[Charge] = ()
    """What that request took of windows of a table, until its replies are weighed."""
    terms: Terms = field(init=False)
    bits: dict[str, int] = field(init=False)
    """Capability name to bit."""
    checks: dict[Spend, int] = field(init=False)
    needs: dict[Spend, int] = field(init=False)
    metered: dict[tuple[str, Spend], tuple[str, int]] = field(init=False)
    """The metric that an operation consumes on a plan, or "" (U106), and its cooldown (U46)."""
    resets_by_the_clock: bool = field(init=False)
    """Whether RateLimit-Reset is an instant (U5)."""
    months: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The billing month that was last asked for by its anchor."""

    def __post_init__(self) -> None:
        self.adopt(self.policy)

    def adopt(self, policy: Policy) -> None:
        """Put a policy in force, and what follows from it."""
        self.policy = policy
        self.terms = terms.terms_of(self.policy)
        self.bits = terms.capability_bits(self.policy.catalogue)
        self.checks = {spend: terms.checks_of(self.policy, spend) for spend in Spend}
        self.needs = {spend: terms.capability_needed(self.policy, spend, self.bits) for spend in Spend}
        self.resets_by_the_clock = self.policy.assumptions.reset_format == "epoch"
        self.metered = {
            (name, spend): (plan.metric_of(spend.label) or "", plan.cooldown_of(spend.label))
            for name, plan in self.policy.catalogue.plans.items()
            for spend in Spend
        }

    def plan_of(self, account: Account) -> Plan:
        """Return the plan an account is on."""
        return self.policy.catalogue.plans[account.plan]

    def month_end(self, anchor: int, now: int) -> int:
        """Return the end of the billing month of an anchor that holds `now` (U51)."""
        start, end = self.months.get(anchor, (now, now))
        if not start <= now < end:
            if len(self.months) >= MOST_MONTHS:
                self.months.clear()
            start, end = self.months[anchor] = billing_month(anchor, now)
        return end

    def schedule(self, due: int, what: str, which: str) -> None:
        """Put work on the agenda; of the same instant, what was scheduled first comes first."""
        heappush(self.state.agenda, (due, self.state.next_serial(), what, which))


@dataclass(slots=True)
class Request:
    """A call after access: who asks, and when. `scope` is the only domain a scoped key may see, or None.

    `reads` is False where the driver says that it will not look at the items of a page.
    """

    call: Call
    now: int
    account: Account
    scope: str | None = None
    key: str = ""
    reads: bool = True
