"""The largest portfolio that a plan carries: which limit binds first, and the headroom of the others.

Every limit is a need that grows with the portfolio, beside what there is. The month is the longest, of 31
days; work is spread over it as evenly as it can be, and no word is removed that comes back.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ranksim.capacity.common import expect, micros, plan_named
from ranksim.clock import DAY, HOUR, WEEK, Micros
from ranksim.contract.facts import CHECK_OF
from ranksim.contract.plans import Plan, SpendLabel
from ranksim.contract.policy import Policy
from ranksim.report import units
from ranksim.report.answer import Row
from ranksim.report.tables import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vary = Literal["keywords", "domains"]
Quantity = Literal["count", "money", "duration"]

MONTH = 31 * DAY
"""The longest billing month (µs)."""

MOST = 10_000_000
"""Beyond this many keywords or domains nothing is looked for."""


@dataclass(frozen=True, slots=True)
class Portfolio:
    """What an account tracks and starts: `domains`, each with so many `keywords`, and for each domain:

    a rank run every `run_every` (µs); `crawls`, `optimizations` and `ai_scans` a month, of so many `pages`
    or `questions` each; `briefs` a week. A share `churn` of the words is replaced in a month. The rank runs
    of all domains are started within `start_within` (µs), with `keys` API keys. Both times may be given as
    text: "12h".
    """

    domains: int = 1
    keywords: int = 1
    pairings: int = 1
    geographies: int = 1
    run_every: Micros = DAY
    crawls: int = 0
    optimizations: int = 0
    pages: int = 100
    ai_scans: int = 0
    questions: int = 50
    briefs: int = 0
    churn: float = 0.0
    start_within: Micros = HOUR
    keys: int = 1
    add_ons: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        for what in ("run_every", "start_within"):
            object.__setattr__(self, what, micros(what, getattr(self, what)))
        for what in ("domains", "keywords", "pairings", "geographies", "keys"):
            expect(getattr(self, what) >= 1, what, "1 or more", getattr(self, what))
        for what in ("crawls", "optimizations", "pages", "ai_scans", "questions", "briefs"):
            expect(getattr(self, what) >= 0, what, "0 or more", getattr(self, what))
        expect(self.run_every > 0, "run_every", "a duration above 0", self.run_every)
        expect(self.start_within > 0, "start_within", "a duration above 0", self.start_within)
        expect(0 <= self.churn < 100, "churn", "a share from 0 to below 100", self.churn)

    @property
    def pages_per_run(self) -> int:
        """Slots of one domain, which a rank run reads a page each for (S23)."""
        return self.keywords * self.pairings * self.geographies

    @property
    def replaced(self) -> int:
        """Words of one domain that are replaced in a month."""
        return math.ceil(self.churn * self.keywords)

    def units(self, operation: str, period: Micros) -> int:
        """How often all domains do something in a period (µs): jobs, or keywords for briefs and additions."""
        each = {
            "rank_run": -(-period // self.run_every),
            "crawl": -(-self.crawls * period // MONTH),
            "site_optimization": -(-self.optimizations * period // MONTH),
            "ai_scan": -(-self.ai_scans * period // MONTH),
            "keyword_briefs": -(-self.briefs * period // WEEK),
            "keywords": -(-self.replaced * period // MONTH),
        }
        return self.domains * each.get(operation, 0)


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a plan: what a portfolio needs of it, what there is, and the refusal that minds it.

    `metric` is the allowance that is meant, which add-ons enlarge, or "".
    """

    name: str
    need: int
    there: int
    quantity: Quantity
    refusal: str
    metric: str = ""

    @property
    def exceeded(self) -> bool:
        """Whether the portfolio needs more than there is."""
        return self.need > self.there

    @property
    def used(self) -> float:
        """The share of what there is that is needed; without end where there is nothing."""
        return self.need / self.there if self.there else math.inf if self.need else 0.0


@dataclass(frozen=True, slots=True)
class Headroom:
    """A limit at the largest portfolio; `allows` is how far it alone would let it grow, None without end."""

    limit: Limit
    allows: int | None

    @property
    def used(self) -> float:
        """The share of what there is that is needed."""
        return self.limit.used if self.limit.there else float(self.limit.need > 0)


@dataclass(frozen=True, slots=True)
class Largest:
    """The answer: the most keywords a domain or domains, and every limit there, the tightest first.

    `most` is None when nothing binds below `MOST`, and 0 when even one is too many.
    """

    portfolio: Portfolio
    plan: str
    vary: Vary
    most: int | None
    limits: tuple[Headroom, ...]

    @property
    def binding(self) -> Limit:
        """The limit that binds first."""
        return self.limits[0].limit

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        if self.most is None:
            return f"Nothing on the plan {self.plan} binds below {MOST:,} {self.vary}."
        each = " a domain" if self.vary == "keywords" and self.portfolio.domains > 1 else ""
        return (
            f"The plan {self.plan} carries {self.most:,} {self.vary}{each}; "
            f"what binds first: {self.binding.name} ({self.binding.refusal})."
        )

    def rows(self) -> list[Row]:
        """One row a limit: the need there, what there is, the share used, and what it alone allows."""
        return [{**asdict(room.limit), "used": room.used, "allows": room.allows} for room in self.limits]

    def views(self) -> list[View]:
        """The answer as tables for people."""
        headings = ("limit", "need", "there is", "used", f"{self.vary} it allows")
        cells = tuple(
            (
                room.limit.name,
                units.write(room.limit.quantity, room.limit.need),
                units.write(room.limit.quantity, room.limit.there),
                units.percent(room.used),
                units.write("count", room.allows),
            )
            for room in self.limits
        )
        return [View(f"Limits of the plan {self.plan}", headings, 1, cells)]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of each limit that is used. Raises BadInput without matplotlib."""
        from ranksim.capacity import plots

        return plots.portfolio(self.rows(), self.sentence, ax)


def limits(portfolio: Portfolio, plan: Plan, policy: Policy, elapsed: Micros = MONTH) -> list[Limit]:
    """Return every limit of a plan, with what a portfolio needs of it, in the order of the checks.

    `elapsed` (µs) is how much of the month has gone: needed is what was asked for so far. No work is refused
    while no need exceeds what there is; the ceiling, where a job that crosses it completes (U48
    "at_ceiling"), lets pass less than one job more.
    """
    cost = provider_cost(portfolio, plan, policy, elapsed)
    return [
        *_plan_limits(portfolio, plan, policy),
        Limit(SPEND, cost, plan.cost_ceiling, "money", COST),
        *_quotas(portfolio, plan, policy, elapsed),
        Limit("keyword slots", _slots(portfolio, elapsed), plan.slot_limit, "count", SLOTS),
        *_cooldowns(portfolio, plan),
        _rate(portfolio, policy),
    ]


CAPABILITY, _, COST, QUOTA, SLOTS, COOLDOWN = CHECK_OF
RATE = "rate_limited"
SPEND = "provider cost a month"
"""What the ceiling of a plan bounds: what the work costs the provider, which is no part of the bill."""


def _plan_limits(portfolio: Portfolio, plan: Plan, policy: Policy) -> Iterator[Limit]:
    """What check 1 minds: capabilities, dimensions, and caps where they refuse (S60, U47, U59)."""
    for operation in ("rank_run", "crawl", "site_optimization", "ai_scan", "keyword_briefs"):
        if portfolio.units(operation, MONTH):
            capability = policy.catalogue.capability_for(operation)
            yield Limit(
                f"capability {capability}", 1, int(capability in plan.capabilities), "count", CAPABILITY
            )
    refusal = policy.assumptions.dimension_refusal
    most = plan.dimensions
    yield Limit("engine-device pairings", portfolio.pairings, most.max_engine_devices, "count", refusal)
    yield Limit("geographies", portfolio.geographies, most.max_geographies, "count", refusal)
    if policy.assumptions.cap == "refuse":
        if portfolio.crawls or portfolio.optimizations:
            yield Limit("pages of a crawl", portfolio.pages, plan.page_cap, "count", CAPABILITY)
        if portfolio.ai_scans:
            yield Limit("questions of an AI scan", portfolio.questions, plan.call_cap, "count", CAPABILITY)


def provider_cost(portfolio: Portfolio, plan: Plan, policy: Policy, elapsed: Micros = MONTH) -> int:
    """Return what all work so far costs the provider (µUSD), cut to the caps (S52-S56, U47)."""
    costs = policy.catalogue.unit_costs
    pages, questions = min(portfolio.pages, plan.page_cap), min(portfolio.questions, plan.call_cap)
    each = {
        "rank_run": portfolio.pages_per_run * costs.rank_run_page,
        "crawl": pages * costs.crawl_page,
        "site_optimization": pages * costs.site_optimization_page,
        "ai_scan": questions * costs.ai_scan_call,
        "keyword_briefs": costs.keyword_brief,
    }
    return sum(portfolio.units(operation, elapsed) * cost for operation, cost in each.items())


def _quotas(portfolio: Portfolio, plan: Plan, policy: Policy, elapsed: Micros) -> Iterator[Limit]:
    """Every metered allowance that the portfolio uses, with add-ons (S63, S109, U106)."""
    for metric, quota in plan.quotas.items():
        period = min(elapsed, WEEK if quota.period == "week" else MONTH)
        need = sum(portfolio.units(operation, period) for operation in quota.consumed_by)
        bought = sum(
            count * policy.catalogue.add_ons[name].amount
            for name, count in portfolio.add_ons.items()
            if policy.catalogue.add_ons[name].metric == metric
        )
        if need:
            name = f"{metric} a {quota.period}"
            yield Limit(name, need, quota.limit + bought, "count", QUOTA, metric)


def _slots(portfolio: Portfolio, elapsed: Micros) -> int:
    """Slots in use when so much of a month has gone: words that were replaced are held (S26)."""
    words = portfolio.domains * portfolio.keywords + portfolio.units("keywords", elapsed)
    return words * portfolio.pairings * portfolio.geographies


def _cooldowns(portfolio: Portfolio, plan: Plan) -> Iterator[Limit]:
    """The least time between two runs of a domain, and the time there is (S65, U46)."""
    month: dict[SpendLabel, int] = {
        "crawl": portfolio.crawls,
        "site_optimization": portfolio.optimizations,
        "ai_scan": portfolio.ai_scans,
    }
    gaps = {"rank_run": portfolio.run_every} | {name: MONTH // n for name, n in month.items() if n}
    for operation, gap in gaps.items():
        if plan.cooldown_of(operation):
            yield Limit(f"cooldown of {operation}", plan.cooldown_of(operation), gap, "duration", COOLDOWN)


def _rate(portfolio: Portfolio, policy: Policy) -> Limit:
    """Starts of rank runs through the expensive class while they are started (S104)."""
    windows = max(1, portfolio.start_within // policy.facts.rate_window)
    there = portfolio.keys * policy.facts.rates.expensive * windows
    within = units.duration(portfolio.start_within)
    return Limit(f"job starts in {within}", portfolio.domains, there, "count", RATE)


def largest(
    portfolio: Portfolio, plan: str, policy: Policy | None = None, *, vary: Vary = "keywords"
) -> Largest:
    """Find how many keywords a domain, or how many domains, a plan carries at most, all else as given.

    The number that `portfolio` has of what is varied does not matter. Raises BadInput.
    """
    policy = policy or Policy()
    expect(vary in ("keywords", "domains"), "vary", "keywords or domains", vary)
    check_add_ons(portfolio, policy)
    bought = plan_named(policy, plan)
    allows = allowed_alone(portfolio, bought, policy, vary)
    most = min(allows)
    found = [
        Headroom(limit, None if allowed == MOST else allowed)
        for limit, allowed in zip(
            limits(_varied(portfolio, vary, max(most, 1)), bought, policy), allows, strict=True
        )
    ]
    found.sort(key=lambda room: (MOST if room.allows is None else room.allows, -room.used))
    return Largest(portfolio, plan, vary, None if most == MOST else most, tuple(found))


def check_add_ons(portfolio: Portfolio, policy: Policy) -> None:
    """Raise BadInput for an add-on that the catalogue does not sell, and for fewer than none."""
    known = policy.catalogue.add_ons
    for name, count in portfolio.add_ons.items():
        expect(name in known, "add_ons", f"one of {', '.join(known)}", name)
        expect(count >= 0, f"add_ons.{name}", "0 or more", count)


def allowed_alone(portfolio: Portfolio, plan: Plan, policy: Policy, vary: Vary) -> list[int]:
    """Return how far each of a plan's `limits` alone lets a portfolio grow, `MOST` without end."""
    return [_allowed(portfolio, plan, policy, vary, at) for at in range(len(limits(portfolio, plan, policy)))]


def _allowed(portfolio: Portfolio, plan: Plan, policy: Policy, vary: Vary, at: int) -> int:
    """The most that one limit allows; needs only grow, so it is found by halving."""

    def exceeded(n: int) -> bool:
        return limits(_varied(portfolio, vary, n), plan, policy)[at].exceeded

    return bisect_left(range(1, MOST + 1), True, key=exceeded)


def _varied(portfolio: Portfolio, vary: Vary, n: int) -> Portfolio:
    return replace(portfolio, keywords=n) if vary == "keywords" else replace(portfolio, domains=n)
