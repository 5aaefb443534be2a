"""What a plan comes to at one size of a portfolio, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ranksim.report import units
from ranksim.report.table_spec import Row


@dataclass(frozen=True, slots=True)
class Size:
    """What a plan comes to at one size of the portfolio: whether it `fits`, and the money of a month (µUSD).

    `helps` are the add-ons, by count, without which it does not fit; `price` is that of the plan and of all
    add-ons, and None where no add-ons are enough or prices are not known. `cost` is what the work would
    cost the provider; `breaks` names the limits that it exceeds, and that no add-on enlarges.
    """

    domains: int
    fits: bool
    helps: Mapping[str, int]
    price: int | None
    cost: int
    breaks: tuple[str, ...] = ()

    def row(self, size: str) -> Row:
        """The size as part of a plan's row, whose columns end with what says the size."""
        return {
            f"fits{size}": self.fits,
            f"helps{size}": add_ons_text(self.helps),
            f"price{size}_uusd": self.price,
            f"provider_cost{size}_uusd": self.cost,
        }

    @property
    def word(self) -> str:
        """Whether it fits, in a word or two."""
        return "no" if not self.fits else f"with {add_ons_text(self.helps)}" if self.helps else "yes"

    @property
    def for_price(self) -> str:
        """What it costs whoever pays the invoice."""
        return (
            "for a price that is not known" if self.price is None else f"for {units.usd(self.price)} a month"
        )


def cheapest(sizes: Mapping[str, Size], present: str) -> str | None:
    """Return the plan with the lowest price a month among those that fit, None where none does.

    Of plans whose prices are not known, which come last, it is the `present` one, else the first.
    """

    def costs(plan: str) -> tuple[bool, int, bool]:
        price = sizes[plan].price
        return price is None, price or 0, plan != present

    return min((plan for plan, size in sizes.items() if size.fits), key=costs, default=None)


def plan_text(plan: str | None, sizes: Mapping[str, Size]) -> str:
    """Name a plan with the add-ons that make it fit, nothing where there is none."""
    if plan is None:
        return ""
    helps = sizes[plan].helps
    return f"{plan} with {add_ons_text(helps)}" if helps else plan


def add_ons_text(add_ons: Mapping[str, int]) -> str:
    """Name add-ons with their counts."""
    return " and ".join(f"{count:,} {name}" for name, count in add_ons.items())


def used_text(used: float) -> str:
    """Write the share of a limit that is used; beyond it, how many times the limit."""
    return factor_text(used) if used > 1 else units.percent(used)


def factor_text(factor: float) -> str:
    """Write a factor of the domains there are."""
    return f"×{factor:,.0f}" if factor >= 100 else f"×{factor:.3g}"
