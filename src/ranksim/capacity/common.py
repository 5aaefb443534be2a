"""What the questions of capacity share: plans, and checks of the input."""

from __future__ import annotations

from ranksim.clock import Micros, duration
from ranksim.contract.plans import Plan
from ranksim.contract.policy import Policy
from ranksim.errors import BadInput

WITHOUT_END = 10**15
"""A ceiling (µUSD) or a number of slots that nobody reaches."""


def plan_named(policy: Policy, name: str) -> Plan:
    """Return a plan of a policy's catalogue. Raises BadInput when there is none of that name."""
    plans = policy.catalogue.plans
    if name not in plans:
        raise BadInput(f"plan: no plan {name!r}; expected one of {', '.join(plans)}")
    return plans[name]


def expect(holds: bool, what: str, expected: str, found: object) -> None:
    """Raise BadInput, naming what was expected, unless a condition on the input holds."""
    if not holds:
        raise BadInput(f"{what}: expected {expected}, found {found}")


def micros(what: str, given: Micros | str) -> Micros:
    """Return a duration in µs, given so or as text such as "12h". Raises BadInput for other text."""
    if not isinstance(given, str):
        return given
    try:
        return duration(given)
    except ValueError as error:
        raise BadInput(f"{what}: {error}") from None
