"""What the questions of capacity share: plans, and checks of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from numbers import Real
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import Micros, duration, format_duration, in_micros, instant
from ranksim.core.contract.plans import Plan
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput, check_integer, listed, near
from ranksim.inference.estimate import Estimate
from ranksim.report.table_spec import Row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WITHOUT_END = 10**15
"""A ceiling (µUSD) or a number of slots that nobody reaches."""


def check_numbers(question: DataclassInstance) -> None:
    """Make NumPy's whole numbers Python's; raise BadInput where a number's field holds something else."""
    for field in fields(question):
        given = getattr(question, field.name)
        if field.type == "int":
            object.__setattr__(question, field.name, check_integer(field.name, given))
        elif field.type == "float":
            require_number(field.name, given)


def check_least(question: object, least: int, *names: str) -> None:
    """Raise BadInput where one of these fields is less than it may be."""
    for name in names:
        expect(getattr(question, name) >= least, name, f"{least} or more", getattr(question, name))


def require_number(what: str, given: object) -> None:
    """Raise BadInput unless a number is given."""
    expect(isinstance(given, Real) and not isinstance(given, bool), what, "a number", repr(given))


def ends_of(name: str, estimate: Estimate | None) -> Row:
    """Return an estimate as the columns of a row: `name`, and the ends of its interval."""
    mean, low, high = estimate or (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def only_plan(policy: Policy, **changes: Any) -> Policy:
    """Return a policy whose one plan, "capacity", refuses nothing but by `changes` (fields of `Plan`)."""
    catalogue = policy.catalogue
    roomy: dict[str, Any] = {
        "name": "capacity",
        "capabilities": tuple(sorted(set(catalogue.capability_of.values()))),
        "quotas": {},
        "cooldowns": {},
        "cost_ceiling": WITHOUT_END,
        "slot_limit": WITHOUT_END,
    }
    plan = next(iter(catalogue.plans.values())).model_copy(update=roomy | changes)
    alone = catalogue.model_copy(update={"plans": {"capacity": plan}, "add_ons": {}})
    return policy.model_copy(update={"catalogue": alone})


def plan_named(policy: Policy, name: str) -> Plan:
    """Return a plan of a policy's catalogue. Raises BadInput when there is none of that name."""
    plans = policy.catalogue.plans
    if name not in plans:
        raise BadInput(f"plan: no plan {name!r}; expected one of {listed(plans, name)}")
    return plans[name]


def expect(holds: bool, what: str, expected: str, given: object) -> None:
    """Raise BadInput, naming what was expected, unless a condition on the input holds."""
    if not holds:
        raise BadInput(f"{what}: expected {expected}, found {given}")


def expect_one_of(words: Iterable[str], what: str, given: str) -> None:
    """Raise BadInput, with what comes near, unless a word is among those known."""
    names = list(words)
    expect(given in names, what, f"one of {', '.join(names)}", f"{given}{near(given, names)}")


def micros(what: str, given: Micros | str) -> Micros:
    """Return a duration in µs, given so or as text such as "12h". Raises BadInput."""
    return _read(duration, what, given)


def moment(what: str, given: Micros | str) -> Micros:
    """Return an instant in µs, given so or as text such as "2026-03-01". Raises BadInput."""
    return _read(instant, what, given)


def _read(reader: Callable[[str], Micros], what: str, given: Micros | str) -> Micros:
    try:
        return in_micros(given, reader)
    except ValueError as error:
        raise BadInput(f"{what}: {error}") from None


class DurationField:
    """A field of a frozen dataclass without slots: µs, which may be given as text such as "12h".

    Type checkers see both in the call that makes the object, and µs in what it then is.
    """

    def __init__(self, default: Micros | None = None) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn under which name it stands."""
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Micros:
        """Return the duration (µs), or the default where a class is asked."""
        if instance is not None:
            length: Micros = vars(instance)[self._name]
            return length
        if self._default is None:
            raise AttributeError(self._name)  # so a dataclass learns that there is no default
        return self._default

    def __set__(self, instance: object, given: Micros | str) -> None:
        """Keep a duration. Raises BadInput for text that is none."""
        vars(instance)[self._name] = micros(self._name, given)


def question_repr(question: DataclassInstance) -> str:
    """Return the call that makes a question, with durations as text: `Peak(over='1h', …)`."""

    def written(name: str) -> str:
        value = getattr(question, name)
        is_duration = isinstance(vars(type(question)).get(name), DurationField)
        return f"{name}={(format_duration(value) if is_duration else value)!r}"

    return f"{type(question).__name__}({', '.join(written(field.name) for field in fields(question))})"
