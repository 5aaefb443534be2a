"""Plans, add-ons, unit costs and the catalogues that hold them.

The specification shows hardly any number of a plan (U60), so every one of them is data of a catalogue.
"""

import re
from collections.abc import Collection, Mapping
from html import escape
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ranksim.core.clock import MINUTE
from ranksim.core.contract.public import Public
from ranksim.core.contract.quantities import Distribution, Duration, Frozen, Money
from ranksim.core.money import format_money

SpendLabel = Literal[
    "rank_run", "crawl", "site_optimization", "ai_scan", "keyword_briefs", "keywords", "scans"
]
JobLabel = Literal["rank_run", "crawl", "site_optimization", "ai_scan"]
Count = Annotated[int, Field(ge=0)]
NonNegativeMoney = Annotated[Money, Field(ge=0)]
NonNegativeDuration = Annotated[Duration, Field(ge=0)]


def _read_rate(value: Any) -> Any:
    if isinstance(value, str) and (share := re.fullmatch(r"(\d+)(?:\.(\d))? ?%", value)):
        return int(share[1] + (share[2] or "0"))
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"write a share such as '10 %', or failures in a thousand such as 100, found {value!r}")


Thousandths = Annotated[int, Field(ge=0, le=1000)]
FailureRate = Annotated[Thousandths, BeforeValidator(_read_rate, json_schema_input_type=str | Thousandths)]
"""Failures in a thousand; in files also a share such as '10 %'."""

CAPABILITY_OF: dict[SpendLabel, str] = {
    "rank_run": "rank_tracking",
    "crawl": "site_crawl",
    "site_optimization": "site_optimization",
    "ai_scan": "ai_visibility",
    "keyword_briefs": "keyword_briefs",
    "keywords": "rank_tracking",
    "scans": "rank_tracking",
}
"""The capability that check 1 asks for, by operation (U60)."""

JOB_DURATIONS: dict[JobLabel, Distribution] = {
    "rank_run": Distribution(kind="constant", durations=(4 * MINUTE,)),
    "crawl": Distribution(kind="constant", durations=(20 * MINUTE,)),
    "site_optimization": Distribution(kind="constant", durations=(10 * MINUTE,)),
    "ai_scan": Distribution(kind="constant", durations=(5 * MINUTE,)),
}
"""How long a job takes when a catalogue does not say (nothing in the specification does)."""

JOB_FAILURE_RATES: dict[JobLabel, int] = dict.fromkeys(JOB_DURATIONS, 0)
"""Failures in a thousand when a catalogue does not say: none."""


HOW_JOBS_RUN: dict[str, Collection[str]] = {
    "capability_of": CAPABILITY_OF,
    "job_durations": JOB_DURATIONS,
    "job_failure_rates": JOB_FAILURE_RATES,
}
"""The parts of a catalogue that are no commercial terms, and that it may leave out; what each is about."""


class Quota(Frozen):
    """A metered allowance: at most `limit` units a period (S63, S108, S110, U106)."""

    limit: Count
    period: Literal["week", "month"]
    consumed_by: tuple[SpendLabel, ...] = ()


class Dimensions(Frozen):
    """The largest scan a plan allows (S33)."""

    max_engine_devices: Count
    max_geographies: Count


class AddOn(Frozen):
    """More of one metric for a monthly price; several of the same stack (S109)."""

    metric: str
    amount: Annotated[int, Field(ge=1)]
    price: NonNegativeMoney


class UnitCosts(Frozen):
    """What one unit of work costs the provider (U60)."""

    rank_run_page: NonNegativeMoney
    crawl_page: NonNegativeMoney
    site_optimization_page: NonNegativeMoney
    ai_scan_call: NonNegativeMoney
    keyword_brief: NonNegativeMoney


class Plan(Public):
    """What an account on this plan may do, hold and spend; `price` and `cost_ceiling` are per month.

    A catalogue names its plans by their keys, so `name` need not be written.
    """

    name: str = ""
    price: NonNegativeMoney
    capabilities: tuple[str, ...]
    quotas: dict[str, Quota]
    slot_limit: Count
    dimensions: Dimensions
    cost_ceiling: NonNegativeMoney
    cooldowns: dict[SpendLabel, NonNegativeDuration]
    page_cap: Count
    call_cap: Count

    @model_validator(mode="after")
    def _one_metric_an_operation(self) -> Self:
        consumed = [operation for quota in self.quotas.values() for operation in quota.consumed_by]
        for operation in consumed:
            if consumed.count(operation) > 1:
                raise ValueError(f"{operation} consumes at most one metric of a plan, once")
        return self

    def __repr__(self) -> str:
        return (
            f"<Plan {self.name!r}: {format_money(self.price)} a month, {self.slot_limit:,} slots, "
            f"provider cost up to {format_money(self.cost_ceiling)} a month>"
        )

    def _repr_html_(self) -> str:
        terms = self.model_dump(mode="json")
        cells = (f"<th>{escape(name)}</th><td>{escape(str(term))}</td>" for name, term in terms.items())
        rows = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<p><b>{escape(repr(self))}</b></p><table>{rows}</table>"

    def metric_of(self, operation: str) -> str | None:
        """The metric that a spending operation consumes, or None (U106)."""
        for metric, quota in self.quotas.items():
            if operation in quota.consumed_by:
                return metric
        return None

    def cooldown_of(self, operation: str) -> int:
        """The cooldown of a spending operation in µs, 0 for none (U46, U106)."""
        return next((length for name, length in self.cooldowns.items() if name == operation), 0)


class Catalogue(Public):
    """Everything that is sold, what it costs to provide, and how long jobs take.

    `plans` is keyed by plan name, `add_ons` by add-on name; `job_failure_rates` are failures in a thousand,
    or shares such as '10 %'.
    Where `prices_known` is false, as of a mirrored account, a price of 0 means that it is not known.
    """

    name: str
    note: str
    prices_known: bool = True
    plans: Annotated[dict[str, Plan], Field(min_length=1)]
    add_ons: dict[str, AddOn] = Field(default_factory=dict)
    unit_costs: UnitCosts
    capability_of: dict[SpendLabel, str] = CAPABILITY_OF
    job_durations: dict[JobLabel, Distribution] = JOB_DURATIONS
    job_failure_rates: dict[JobLabel, FailureRate] = JOB_FAILURE_RATES

    @field_validator("plans")
    @classmethod
    def _name_plans(cls, plans: dict[str, Plan]) -> dict[str, Plan]:
        """A plan is named by its key."""
        return {key: plan.model_copy(update={"name": key}) for key, plan in plans.items()}

    @field_validator("capability_of")
    @classmethod
    def _complete_capabilities(cls, given: dict[SpendLabel, str]) -> dict[SpendLabel, str]:
        return CAPABILITY_OF | given

    @field_validator("job_durations")
    @classmethod
    def _complete_durations(cls, given: dict[JobLabel, Distribution]) -> dict[JobLabel, Distribution]:
        return JOB_DURATIONS | given

    @field_validator("job_failure_rates")
    @classmethod
    def _complete_failure_rates(cls, given: dict[JobLabel, int]) -> dict[JobLabel, int]:
        return JOB_FAILURE_RATES | given

    def completed_by(self, other: Self) -> Self:
        """Return the catalogue with what it leaves out of `HOW_JOBS_RUN` as the other states it."""
        return self.model_copy(update={name: getattr(other, name) for name in self.left_to(other)})

    def left_to(self, other: Self) -> tuple[str, ...]:
        """Return the names in `HOW_JOBS_RUN` that this catalogue leaves out and the other states."""
        return tuple(
            name
            for name in HOW_JOBS_RUN
            if name in other.model_fields_set and name not in self.model_fields_set
        )

    def capability_for(self, operation: str) -> str:
        """The capability that check 1 asks for (U60)."""
        return next(name for label, name in self.capability_of.items() if label == operation)

    def __repr__(self) -> str:
        sold = [f"plans {', '.join(self.plans)}"]
        sold += [f"add-ons {', '.join(self.add_ons)}"] if self.add_ons else []
        return f"<Catalogue {self.name!r}: {'; '.join(sold)}>"

    def knows_price_of(self, plan: str) -> bool:
        """Whether it is known what a plan costs a month."""
        return self.prices_known or self.plans[plan].price > 0

    def price_of(self, plan: str, add_ons: Mapping[str, int]) -> int:
        """What a plan with so many of some add-ons costs a month (µUSD): the invoice (S109)."""
        return self.plans[plan].price + sum(
            count * self.add_ons[name].price for name, count in add_ons.items()
        )

    def duration_of(self, kind: str) -> Distribution:
        """How long a job of a kind takes when the service runs it itself."""
        return self.job_durations[cast(JobLabel, kind)]

    def failure_rate_of(self, kind: str) -> int:
        """Failures in a thousand jobs of a kind that the service runs itself."""
        return self.job_failure_rates[cast(JobLabel, kind)]

    @model_validator(mode="after")
    def _add_ons_extend_quotas(self) -> Self:
        metrics = {metric for plan in self.plans.values() for metric in plan.quotas}
        for key, add_on in self.add_ons.items():
            if add_on.metric not in metrics:
                raise ValueError(f"the add-on {key!r} extends {add_on.metric!r}, a quota that no plan has")
        return self
