"""Growth in time: the factor of the domains in each month, until when each plan fits, and what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ranksim.core.clock import Micros, iso
from ranksim.core.errors import BadInput
from ranksim.planner.capacity.common import expect, require_number
from ranksim.planner.capacity.plan_size import Size, cheapest, factor_text, plan_text
from ranksim.report import units
from ranksim.report.table_spec import Row, TableSpec
from ranksim.report.tables import View

YEAR = 12
"""The months of a year, which a rate is looked at for."""

MOST_MONTHS = 120
LARGEST = 1000
"""The largest factor that is looked at."""

RATE = re.compile(
    r"(?:[×x]\s*)?(?P<number>[-−]?\d+(?:\.\d+)?)\s*(?P<percent>%)?\s*(?:/|a|per)\s*(?P<per>month|year)"
    r"(?:\s+for\s+(?P<span>\d+)\s*(?P<unit>month|year)s?)?"
)
EXPECTED = (
    "a factor such as 2, a rate such as '×2 / year' or '5 % / month for 2 years', or factors by month: "
    "1,1.2,1.5"
)

MONTHS = TableSpec(
    others={"begins": "instant", "price_uusd": "money", "provider_cost_uusd": "money", "factor": "count"},
    keys=("month", "plan"),
)


def growth_of(growth: float | str) -> tuple[float, tuple[float, ...]]:
    """Return the largest factor of a growth, and those by month, none where it is a factor alone.

    A rate is compounded monthly, over a year unless it says for how long: month k is looked at with what
    there is at its end. Raises BadInput.
    """
    if not isinstance(growth, str):
        require_number("growth", growth)
        expect(1 <= growth <= LARGEST, "growth", f"a factor from 1 to {LARGEST}", growth)
        return growth, ()
    path = _path(growth)
    if len(path) == 1:
        return growth_of(path[0])
    expect(len(path) <= MOST_MONTHS, "growth", f"at most {MOST_MONTHS} months", len(path))
    outside = next((factor for factor in path if not 0.001 <= factor <= LARGEST), None)
    if outside is not None:
        raise BadInput(f"growth: expected factors from 0.001 to {LARGEST}, found {outside:g} in {growth!r}")
    return max(1.0, *path), path


def _path(text: str) -> tuple[float, ...]:
    rate = RATE.fullmatch(text.strip().removeprefix("+"))
    if rate:
        factor = float(rate["number"].replace("−", "-"))
        factor = 1 + factor / 100 if rate["percent"] else factor
        power = 1 / YEAR if rate["per"] == "year" else 1
        expect(0 < factor <= LARGEST, "growth", f"a factor above 0 and up to {LARGEST}", repr(text))
        months = int(rate["span"] or 1) * (YEAR if rate["unit"] != "month" else 1)
        expect(1 <= months <= MOST_MONTHS, "growth", f"1 to {MOST_MONTHS} months", months)
        return tuple(factor ** (month * power) for month in range(1, months + 1))
    try:
        factors = tuple(float(part.strip().lstrip("×x")) for part in text.split(","))
    except ValueError:
        raise BadInput(f"growth: expected {EXPECTED}, found {text!r}") from None
    if not all(map(math.isfinite, factors)):
        raise BadInput(f"growth: expected {EXPECTED}, found {text!r}")
    return factors


def grown_domains(domains: int, factor: float) -> int:
    """Return so many times some domains, rounded up; a millionth of one is no further domain but rounding."""
    return math.ceil(round(domains * factor, 6))


@dataclass(frozen=True, slots=True)
class GrownMonth:
    """A month from now on, numbered from 1: the factor and number of its domains, and every plan's size.

    `present` is the plan that the account has, or "", and `begins` when the month does, where that is stated.
    """

    month: int
    factor: float
    domains: int
    sizes: Mapping[str, Size]
    present: str = ""
    begins: Micros | None = None

    @property
    def date(self) -> str:
        """When it begins, such as 2026-07, with the day if that is not the first; or ""."""
        date = "" if self.begins is None else iso(self.begins)[:10]
        return date.removesuffix("-01")

    @property
    def numbered(self) -> str:
        """Its number, with that month."""
        return f"{self.month} ({self.date})" if self.date else f"{self.month}"

    @property
    def plan(self) -> str | None:
        """The cheapest plan that fits, None where none does."""
        return cheapest(self.sizes, self.present)

    @property
    def choice(self) -> str:
        """That plan with its add-ons, or that there is none."""
        return plan_text(self.plan, self.sizes) or "no plan"

    @property
    def price(self) -> int | None:
        """The invoice under that plan (µUSD), None where none fits or its price is not known."""
        return None if self.plan is None else self.sizes[self.plan].price

    def rows(self) -> Iterator[Row]:
        """Yield a row a plan; money is µUSD."""
        for plan, size in self.sizes.items():
            month = {"month": self.month, "begins": self.begins, "factor": self.factor}
            yield {
                **month,
                "domains": self.domains,
                "plan": plan,
                **size.row(""),
                "breaks": list(size.breaks),
                "cheapest": plan == self.plan,
            }


def fits_until(plan: str, months: Sequence[GrownMonth]) -> int:
    """Return the last month until which a plan fits in each, with add-ons if need be; 0 for none."""
    ends = (month.month - 1 for month in months if not month.sizes[plan].fits)
    return next(ends, months[-1].month)


def choices(months: Sequence[GrownMonth]) -> list[tuple[str, list[GrownMonth]]]:
    """Return the cheapest plans that fit, each with the months in a row in which it does."""
    return [(choice, list(group)) for choice, group in groupby(months, key=lambda month: month.choice)]


def growth_verdict(months: Sequence[GrownMonth]) -> str:
    """Return which plan fits in which months."""
    if not any(month.plan for month in months):
        return f"no plan fits in any of {len(months)} months"
    return ", ".join(f"{choice} {_span(group, months[-1], dated=False)}" for choice, group in choices(months))


def growth_sentence(months: Sequence[GrownMonth], now: str | None) -> str:
    """Say until when each plan is enough, why it is not afterwards, and what all months cost.

    Nothing where no plan ever is. `now` is the plan that fits before the first month, None for none.
    """
    if not any(month.plan for month in months):
        return ""
    parts, before = [], now
    for choice, group in choices(months):
        breaks = () if before is None else group[0].sizes[before].breaks
        why = f" (what breaks of {before}: {', '.join(breaks)})" if breaks else ""
        parts.append(f"{choice} {_span(group, months[-1])}{why}")
        before = group[-1].plan or before
    return f"Month by month: {'; '.join(parts)}. {_cost(months)}"


def _span(group: Sequence[GrownMonth], last: GrownMonth, *, dated: bool = True) -> str:
    first, end = group[0].month, group[-1].month
    if first == 1 and end == last.month:
        return f"in all {end} months"
    begins, ends = (f", {month.date}" if dated and month.date else "" for month in (group[0], group[-1]))
    if end == last.month:
        return f"from month {first}{begins}"
    if first == end:
        return f"in month {first}{begins}"
    if first == 1:
        return f"until month {end}{ends}"
    return f"in months {first} to {end}{begins}{ends.replace(',', ' to')}"


def _cost(months: Sequence[GrownMonth]) -> str:
    prices = [month.price for month in months if month.price is not None]
    which = "" if len(prices) == len(months) else " that have a price"
    those = "month that has a price costs" if len(prices) == 1 else f"{len(prices)} months{which} cost"
    work = sum(month.sizes[month.plan].cost for month in months if month.price is not None and month.plan)
    cost = f"The {those} {units.usd(sum(prices))}, and the provider {units.usd(work)}."
    return cost if prices else "What they cost is not known."


def months_view(months: Sequence[GrownMonth]) -> View:
    """Return the months as a table for people: the growth, the cheapest plan that fits, and money."""
    rows = tuple(
        (
            month.numbered,
            month.choice,
            factor_text(month.factor),
            units.count(month.domains),
            units.text(None) if month.price is None else units.usd(month.price),
            units.text(None) if month.plan is None else units.usd(month.sizes[month.plan].cost),
        )
        for month in months
    )
    headings = ("month", "cheapest plan", "stated growth", "domains", "price", "provider cost")
    note = "A month is counted with the domains at its end, rounded up: they may grow by more than stated."
    return View("Month by month", headings, 2, rows, note)


def when_view(months: Sequence[GrownMonth]) -> View:
    """Return when each plan fits as a table for people, and what it breaks in the first month without."""
    headings = ("plan", "fits", "what breaks otherwise", "add-ons from month")
    return View("When each plan fits", headings, 3, tuple(_when(plan, months) for plan in months[0].sizes))


def _when(plan: str, months: Sequence[GrownMonth]) -> tuple[str, ...]:
    spans = [[*group] for fits, group in groupby(months, lambda month: month.sizes[plan].fits) if fits]
    lacking = next((month.sizes[plan].breaks for month in months if not month.sizes[plan].fits), ())
    helped = next((month.numbered for month in months if month.sizes[plan].helps), None)
    return (
        plan,
        "; ".join(_span(group, months[-1]) for group in spans) or "in no month",
        ", ".join(lacking) or units.text(None),
        helped or units.text(None),
    )
