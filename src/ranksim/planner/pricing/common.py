"""What the questions of pricing share."""

from collections.abc import Mapping
from typing import Any

from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.clock import Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.report import units
from ranksim.report.answer import Row
from ranksim.report.units import instant

FEWEST = 2
"""Replications without which there is no interval."""


DEMAND = "Nobody is assumed to leave, or to buy another plan, because of a price or a refusal."
"""What is told of answers that let the same customers ask for the same whatever it costs."""


MOST_NAMED = 4
"""Of more accounts than these it is told how many they are."""


def anchored_notes(specs: Mapping[str, AccountSpec], start: Micros, policy: Policy) -> tuple[str, ...]:
    """Say of which recorded accounts nobody says when their billing months begin (U51); `start` is in µs."""
    names = [name for name, spec in specs.items() if spec.anchor is None]
    if not names or policy.assumptions.month == "calendar":
        return ()
    who = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names):,} accounts"
    return (
        f"Billing months of {who} are counted from the first call of the recording, {instant(start)}, since "
        "nobody says when they begin: accounts that are described may have an anchor.",
    )


def check_replications(replications: int, precision: float | None = None) -> None:
    """Raise BadInput unless replications suffice for an interval, and a `precision` is a share."""
    if replications < FEWEST:
        raise BadInput(f"replications: expected at least {FEWEST}, without which there is no interval, found "
                       f"{replications}")  # fmt: skip
    if precision is not None and not 0 < precision < 1:
        raise BadInput(f"precision: expected a share between 0 and 1, found {precision}")


def margin_of_b(margin: Mapping[str, Any]) -> str:
    """Return how much more or less margin B earns than A, by the row of their difference (µUSD)."""
    sign = 1 if margin["difference"] >= 0 else -1
    ends = sorted(sign * end for end in (margin["low"], margin["high"]) if end is not None)
    if not margin["difference"] and not any(ends):
        return "B earns the same margin as A"
    size = units.write("money", abs(margin["difference"]), *ends)
    same = "" if ends else " (the same in every replication)"
    return f"B earns {size} {'more' if sign > 0 else 'less'} margin than A{same}"


def reason_rows(counts: Mapping[str, int]) -> list[Row]:
    """Return a row of a table for each reason: how many calls there are for it."""
    return [{"reason": reason, "calls": count} for reason, count in counts.items()]


def reasons_text(counts: Mapping[str, int], nothing: str = "nothing") -> str:
    """Return a list of how many there are for each reason; `nothing` where there are none."""
    return "; ".join(f"{count:,} {reason}" for reason, count in counts.items()) or nothing
