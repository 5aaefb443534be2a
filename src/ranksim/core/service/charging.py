"""Which class of rate limits a call is charged to, as far as the call decides it (S102-S104, U2, U3, U10)."""

from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Call
from ranksim.core.service.operations import OPERATIONS

READING = ("GET", "HEAD")

KEYLESS = frozenset(operation.name for operation in OPERATIONS.values() if operation.keyless)
"""The operations that need no key (S39)."""

PREFLIGHT = "OPTIONS"
"""The method of a CORS preflight, which needs no key (U80, U86, U87)."""


def needs_key(call: Call) -> bool:
    """Return whether a call is for those alone who have a key."""
    return call.operation not in KEYLESS and call.method != PREFLIGHT


def charged_classes(policy: Policy) -> dict[str, RateClass]:
    """Return the class by operation where a call over REST always costs one unit of one class.

    The others need no key (S39), depend on whether the call is a dry run (U10), or cost two units (U3).
    """
    assumptions = policy.assumptions
    classes = {name: operation.rate_class(policy) for name, operation in OPERATIONS.items()}
    return {
        name: rate_class
        for name, rate_class in classes.items()
        if name not in KEYLESS
        and not (assumptions.dry_run_class != "same" and OPERATIONS[name].spends)
        and not (assumptions.expensive_debits_write and rate_class == RateClass.EXPENSIVE)
    }


def nominal_class(policy: Policy, call: Call) -> RateClass:
    """Return the class of a call by its operation, or by its method where it has none."""
    operation = OPERATIONS.get(call.operation)
    if operation is not None:
        return operation.rate_class(policy)
    return RateClass.READ if call.method in READING else RateClass.WRITE


def charged_class(policy: Policy, call: Call) -> RateClass | None:
    """Return the class a call is charged in; None for a dry run that is free (U10, U87)."""
    operation, dry_run_class = OPERATIONS.get(call.operation), policy.assumptions.dry_run_class
    if (
        dry_run_class != "same"
        and operation is not None
        and operation.spends
        and call.body is not None
        and call.body.get("dry_run") is True
    ):
        return RateClass.READ if dry_run_class == "read" else None
    return nominal_class(policy, call)
