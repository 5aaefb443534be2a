"""A population: the customers of a service as distributions, read from YAML."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from ranksim.core.clock import SECOND, format_duration
from ranksim.core.contract.facts import Decision
from ranksim.core.contract.located import Located, explain_mistakes, validate
from ranksim.core.contract.parameters import Settings, as_in_files, laid, tree_of
from ranksim.core.contract.public import Public
from ranksim.core.contract.quantities import NUMBER, WHOLE, Duration, Frozen, Instant, also
from ranksim.core.contract.yamlfile import load_yaml, read_yaml
from ranksim.core.errors import BadInput, check_kind
from ranksim.planner.fleet.amounts import Amount
from ranksim.planner.fleet.rows import OUTCOMES

Weight = Annotated[float, Field(ge=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[Duration, Field(gt=0)]

MOST_ACCOUNTS = 10_000_000
MOST_BACKLOG = 1_000

ONE = Amount.constant(1.0)
NONE = Amount.constant(0.0)


class BusyTimes(Frozen):
    """When customers are busy: weights of the 24 hours of their day and the 7 days from Monday.

    `zones` spreads their clocks: time ahead of UTC → weight. A weight is relative to the average of the week.
    """

    hours: Annotated[tuple[Weight, ...], Field(min_length=24, max_length=24)] = (1.0,) * 24
    days: Annotated[tuple[Weight, ...], Field(min_length=7, max_length=7)] = (1.0,) * 7
    zones: Annotated[dict[Duration, Weight], Field(min_length=1)] = Field(default_factory=lambda: {0: 1.0})

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("hours", "days"):
            if not max(getattr(self, name)) > 0:
                raise ValueError(f"{name}: expected at least one weight above 0")
        if not max(self.zones.values()) > 0:
            raise ValueError("zones: expected at least one weight above 0")
        return self


class InitialPortfolio(Frozen):
    """What customers track from the start: domains, and per domain keywords, scanned pairings and places.

    `pages` and `questions` are what jobs find on a domain. What the plan has no room for is left out.
    """

    domains: Amount = ONE
    keywords: Amount = Amount.constant(50.0)
    engine_devices: Annotated[int, Field(ge=0, le=1000)] = 1
    geographies: Annotated[int, Field(ge=0, le=1000)] = 1
    pages: Amount = Amount.constant(200.0)
    questions: Amount = Amount.constant(40.0)


class Usage(Frozen):
    """Calls a day of one customer, by activity: a distribution over customers each."""

    rank_run: Amount = NONE
    crawl: Amount = NONE
    site_optimization: Amount = NONE
    ai_scan: Amount = NONE
    keyword_briefs: Amount = NONE
    keywords: Amount = NONE
    scans: Amount = NONE
    read: Amount = NONE
    write: Amount = NONE
    remove_keywords: Amount = NONE

    def of(self, activity: str) -> Amount:
        """The rate of an activity, calls a day."""
        amount: Amount = getattr(self, activity)
        return amount


class Range(Frozen):
    """A whole number from `low` to `high`, all alike; written as one number where they are the same."""

    model_config = also(WHOLE)

    low: Annotated[int, Field(ge=1, le=10_000)] = 1
    high: Annotated[int, Field(ge=1, le=10_000)] = 1

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"low": value, "high": value} if isinstance(value, int) and value is not True else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError("expected low at most high")
        return self


class Sizes(Frozen):
    """How many keywords one request brings."""

    keyword_briefs: Range = Range()
    keywords: Range = Range(low=10, high=10)
    remove_keywords: Range = Range(low=10, high=10)


class React(Frozen):
    """What a customer does about a refusal: comes back with a chance of `retry`, up to `tries` tries in all.

    `wait` "told" comes back when the reply says that it helps: after Retry-After, or when the period ends;
    where nothing helps, never. "backoff" waits a draw below `first`, doubled with each try up to `most`.
    """

    retry: Share = 0.0
    wait: Literal["told", "backoff"] = "told"
    tries: Annotated[int, Field(ge=1, le=255)] = 5
    first: Positive = SECOND
    most: Positive = 300 * SECOND


class AfterRefusal(Frozen):
    """What customers do about each refusal; by default they give up.

    A customer keeps at most `backlog` refused requests in mind, and gives up any more.
    """

    rate_limited: React = React()
    entitlement_required: React = React()
    subscription_inactive: React = React()
    cost_cap_reached: React = React()
    quota_exhausted: React = React()
    slot_limit_exceeded: React = React()
    cooldown_active: React = React()
    backlog: Annotated[int, Field(ge=0, le=MOST_BACKLOG)] = 32

    def of(self, outcome: int) -> React:
        """The reaction to an outcome by its number in `rows.OUTCOMES`."""
        if outcome in (Decision.GRANTED, Decision.JOINED):
            return React()
        reaction: React = getattr(self, OUTCOMES[outcome])
        return reaction


class PlanChoice(Frozen):
    """One plan of a segment's mix: its weight, and the add-ons that come with it; may be the weight alone."""

    model_config = also(NUMBER)

    weight: Weight = 1.0
    add_ons: dict[str, Annotated[int, Field(ge=0, le=1_000_000)]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"weight": value} if isinstance(value, int | float) and value is not True else value


def _read_plans(value: Any) -> Any:
    return {value: {}} if isinstance(value, str) else value


class Segment(Frozen):
    """Customers of one kind, a `share` of the population: their plans, portfolio, usage, time and temper.

    `plans` is a plan's name or a mix by weight. `past_due` is the share of accounts that cannot spend.
    `arrivals` "steady" spaces the calls of a customer evenly instead of at random.
    """

    share: Weight = 1.0
    plans: Annotated[
        dict[str, PlanChoice],
        Field(min_length=1),
        BeforeValidator(_read_plans, json_schema_input_type=str | dict[str, PlanChoice]),
    ]
    portfolio: InitialPortfolio = InitialPortfolio()
    usage: Usage = Usage()
    sizes: Sizes = Sizes()
    calendar: BusyTimes = BusyTimes()
    arrivals: Literal["poisson", "steady"] = "poisson"
    after_refusal: AfterRefusal = AfterRefusal()
    past_due: Share = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not max(choice.weight for choice in self.plans.values()) > 0:
            raise ValueError("plans: expected at least one weight above 0")
        return self


class Population(Public):
    """`accounts` customers of several segments over [start, start + length).

    `joins` is the share of them that join during the run, evenly over it; `churn` the share that leaves in 30
    days; `growth` the growth of usage in 30 days. With a `seed` of its own the customers stay the same in
    every replication, and only what they do is drawn anew.
    """

    population: Literal[1] = 1
    name: str = ""
    accounts: Annotated[int, Field(ge=1, le=MOST_ACCOUNTS)]
    start: Instant
    length: Positive
    segments: Annotated[dict[str, Segment], Field(min_length=1)]
    joins: Share = 0.0
    churn: Annotated[float, Field(ge=0, lt=1)] = 0.0
    growth: Annotated[float, Field(ge=-0.9, le=10)] = 0.0
    seed: int | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not max(segment.share for segment in self.segments.values()) > 0:
            raise ValueError("segments: expected at least one share above 0")
        return self

    def __repr__(self) -> str:
        return (
            f"<Population {self.name!r}: {self.accounts:,} accounts over {format_duration(self.length)}, "
            f"segments {', '.join(self.segments)}>"
        )

    @property
    def end(self) -> int:
        """The instant at which the run stops; nothing of that instant happens any more."""
        return self.start + self.length

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a population file. Raises BadInput naming the line of the first mistake."""
        return cls.read(read_yaml(path, "population"))

    @classmethod
    def parse(cls, text: str, where: str = "population") -> Self:
        """Read a population from YAML text; `where` names it in errors. Raises BadInput."""
        return cls.read(load_yaml(text, where))

    @classmethod
    def read(cls, located: Located) -> Self:
        """Read a population from YAML already loaded, such as a section of a study. Raises BadInput."""
        return validate(cls, located)

    def replace(self, **changes: Any) -> Self:
        """A population with some fields changed: `replace(accounts=500, segments={"shop": {...}})`.

        Nested mappings are merged. Raises BadInput.
        """
        try:
            return type(self).model_validate(_merged(self, changes))
        except ValidationError as error:
            raise explain_mistakes(type(self), error, Located("replace", changes, {})) from None

    def changed(self, settings: Settings) -> Self:
        """The population with parameters set by path, `{"population.accounts": 500}`; others are left.

        `population.plan` is the plan of all. Raises BadInput.
        """
        changes = laid(self, tree_of(settings, "population"))
        if "plan" not in changes:
            return self.replace(**changes)
        plan = changes.pop("plan")
        if not isinstance(plan, str):
            raise BadInput(f"plan: expected the name of a plan, found {plan!r}")
        return self.replace(**changes).on(plan)

    def on(self, plan: str, add_ons: dict[str, int] | None = None) -> Self:
        """The same customers, all on one plan with these add-ons: what would that plan have been for them?"""
        choice = {plan: PlanChoice(add_ons=add_ons or {})}
        segments = {
            name: segment.model_copy(update={"plans": choice}) for name, segment in self.segments.items()
        }
        return self.model_copy(update={"segments": segments})


def _merged(old: Any, new: Any) -> Any:
    """Lay `new` over `old`, in the form that strict validation takes."""
    if isinstance(new, list | tuple):
        return tuple(new)
    if not isinstance(new, dict) or isinstance(old, Amount | Range):
        return as_in_files(new)
    kept = dict(old) if isinstance(old, BaseModel | dict) else {}
    return kept | {key: _merged(kept.get(key), value) for key, value in new.items()}


def population_of(source: Population | str | Path) -> Population:
    """Return a population, read first where it is the path of a file. Raises BadInput."""
    check_kind("population", source, Population | str | Path, "a population or the path of its file")
    return source if isinstance(source, Population) else Population.load(source)
