"""A policy's assumptions as the integers and masks that the rules read."""

from ranksim.core.contract.facts import Decision, Spend
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy
from ranksim.core.rules import admission
from ranksim.core.rules.books import Terms

JOINS = {
    "after_health": admission.JOIN_AFTER_HEALTH,
    "before_checks": admission.JOIN_BEFORE_CHECKS,
    "after_checks": admission.JOIN_AFTER_CHECKS,
    "never": admission.JOIN_NEVER,
}
GATES = {"at_ceiling": admission.AT_CEILING, "would_exceed": admission.WOULD_EXCEED}
TIMINGS = {
    "reserve": admission.RESERVE,
    "acceptance": admission.AT_ACCEPTANCE,
    "completion": admission.AT_COMPLETION,
}

ALL_CHECKS = (1, 2, 3, 4, 5, 6)

TABLE: dict[Spend, tuple[int, ...]] = {
    Spend.RANK_RUN: (3, 6),
    Spend.CRAWL: (1, 3, 6),
    Spend.SITE_OPTIMIZATION: (1, 3, 6),
    Spend.AI_SCAN: (1, 3),
    Spend.KEYWORD_BRIEFS: (4,),
    Spend.KEYWORDS: (5,),
    Spend.SCANS: (1, 5),
}
"""What bounds each operation by the table of spending operations (S52-S58). Check 1 stands for plan
capability, caps and dimensions; check 2 stands for all (S61)."""

NAMES_CAPABILITY = frozenset({Spend.SITE_OPTIMIZATION, Spend.AI_SCAN})
"""The operations for which that table names a plan capability (S54, S55)."""

COMMITS = frozenset({Spend.KEYWORDS, Spend.SCANS})
"""The operations that buy nothing immediately (S57, S58)."""


def terms_of(policy: Policy) -> Terms:
    """Return the assumptions that admission reads."""
    assumptions = policy.assumptions
    return Terms(
        join=JOINS[assumptions.join],
        cost_gate=GATES[assumptions.cost_gate],
        cost_timing=TIMINGS[assumptions.cost_timing],
        spent_counts_reserved=int(assumptions.spent_counts == "settled_and_reserved"),
        cooldown_from_finish=int(assumptions.cooldown_from == "finish"),
        week_offset=assumptions.week_offset,
    )


def mask(checks: tuple[int, ...]) -> int:
    """Return the bits of a set of checks."""
    return sum(1 << check for check in checks)


def checks_of(policy: Policy, spend: Spend) -> int:
    """Return the mask of the checks that apply to an operation (U58, U90)."""
    if policy.assumptions.checks_apply == "table":
        return mask((Decision.SUBSCRIPTION_INACTIVE, *TABLE[spend]))
    if spend in COMMITS and not policy.assumptions.ceiling_stops_tracking:
        return mask(tuple(check for check in ALL_CHECKS if check != Decision.COST_CAP_REACHED))
    return mask(ALL_CHECKS)


def capability_bits(catalogue: Catalogue) -> dict[str, int]:
    """Number the capabilities of a catalogue: name → bit."""
    names = {name for plan in catalogue.plans.values() for name in plan.capabilities}
    names.update(catalogue.capability_of.values())
    return {name: 1 << number for number, name in enumerate(sorted(names))}


def capability_needed(policy: Policy, spend: Spend, bits: dict[str, int]) -> int:
    """Return the capability bit that check 1 wants for an operation, or 0 (U58, U60)."""
    if policy.assumptions.checks_apply == "table" and spend not in NAMES_CAPABILITY:
        return 0
    return bits[policy.catalogue.capability_for(spend.label)]
