"""The largest portfolio that a plan carries: which limit binds first, and the headroom of the others."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

from ranksim.core.clock import Micros, iso
from ranksim.core.contract.parameters import Settings
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import BadInput, check_kind
from ranksim.planner.capacity.bursts import BURST, most_domains
from ranksim.planner.capacity.common import (
    expect_one_of,
    plan_named,
)
from ranksim.planner.capacity.later import MONTH_BEGINS
from ranksim.planner.capacity.limits import MOST, RATE, Limit, allowed_alone, check_add_ons, plan_limits
from ranksim.planner.capacity.planned import OwnAccount
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.workload import LoadUnder, Workload
from ranksim.planner.readings import consulting
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer
from ranksim.report.readings import NO_READINGS, READINGS, Readings, under_readings
from ranksim.report.table_spec import Tables, TableSpec
from ranksim.report.tables import View
from ranksim.twin.sim.scenario import Scenario, with_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Grown = Literal["keywords", "domains"]


@dataclass(frozen=True, slots=True)
class Headroom:
    """A limit at the largest portfolio; `allows` is how far it alone would let it grow, None without end."""

    limit: Limit
    allows: int | None

    @property
    def used(self) -> float:
        """The share of what there is that is needed."""
        return self.limit.used if self.limit.there else float(self.limit.need > 0)


LIMITS = TableSpec(
    {"name": "text", "need": "", "there": "", "used": "share", "allows": "count"},
    keys=("name",),
    metrics=("need", "there", "used", "allows"),
    headings={"name": "limit", "there": "there is"},
)


@dataclass(frozen=True, slots=True)
class CarriedFrom:
    """The most that a plan carries from an instant on (µs), None without end; what binds, what changes."""

    at: Micros
    most: int | None
    binding: str
    changes: str

    @property
    def number(self) -> str:
        """The most in words."""
        return "as many as you like" if self.most is None else units.count(self.most)


TIMES = TableSpec(
    others={"at": "instant", "changes": "text", "most": "count", "binding": "text"}, keys=("at",)
)


@dataclass(frozen=True, slots=True, repr=False)
class Largest(ReadyAnswer):
    """The answer: the most keywords a domain or domains, and every limit there, the tightest first.

    `most` is None when nothing binds below `MOST`, and 0 when even one is too many. Of an account of a
    scenario that changes it is the least over its `times`.
    """

    kind = "capacity portfolio"
    plots = ("limits",)
    TABLES = MappingProxyType({"answer": LIMITS, "times": TIMES, "readings": READINGS})

    portfolio: Portfolio | Workload
    plan: str
    grow: Grown
    most: int | None
    limits: tuple[Headroom, ...]
    remarks: tuple[str, ...] = ()
    readings: Readings = NO_READINGS
    times: tuple[CarriedFrom, ...] = ()

    @property
    def title(self) -> str:
        """The title, which names the plan."""
        return f"The largest portfolio of the plan {self.plan}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What it hangs on, and what to know of what was asked."""
        return self.readings.around(*self.remarks)

    @property
    def verdict(self) -> str:
        """How many it carries: what other assumptions may change."""
        if self.most is None:
            return f"it carries as many {self.grow} as you like"
        return f"it carries {units.many(self.most, self.grow.removesuffix('s'))}"

    @property
    def binding(self) -> Limit:
        """The limit that binds first."""
        return self.limits[0].limit

    @property
    def sentence(self) -> str:
        """The answer in a sentence, and when it holds."""
        return self._carries + self._in_time

    @property
    def _carries(self) -> str:
        if self.most is None:
            return f"Nothing on the plan {self.plan} binds below {MOST:,} {self.grow}."
        each = " a domain" if self.grow == "keywords" and self.portfolio.domains > 1 else ""
        return (
            f"The plan {self.plan} carries {units.many(self.most, self.grow.removesuffix('s'))}{each}; "
            f"what binds first: {self.binding.name} ({self.binding.refusal})."
        )

    @property
    def _in_time(self) -> str:
        """Say when that is so, and what it carries at other times, where that is another number."""
        numbers = [next(group) for _, group in groupby(self.times, key=lambda then: then.most)]
        if len(numbers) < 2:
            return ""
        least = next(then for then in numbers if then.most == self.most)
        others = (f"{then.number} {self._since(then)}" for then in numbers if then is not least)
        return f" That is {self._since(least)}; it carries {', '.join(others)}."

    def _since(self, then: CarriedFrom) -> str:
        when = f", when {then.changes}" if then.changes else ""
        return "from the beginning" if then is self.times[0] else f"from {iso(then.at)}{when}"

    @property
    def tables(self) -> Tables:
        """One row a limit: the need there, what there is, the share used, and what it alone allows.

        In `times`, of a scenario that changes, a row a time.
        """
        rows = [{**asdict(room.limit), "used": room.used, "allows": room.allows} for room in self.limits]
        times = {"times": [asdict(then) for then in self.times]} if self.times else {}
        return {"answer": rows, **times, **self.readings.tables()}

    def views(self) -> list[View]:
        """The answer as tables for people."""
        table = LIMITS._replace(headings={**LIMITS.headings, "allows": f"{self.grow} it allows"})
        limits = table.view(f"Limits of the plan {self.plan}", self.rows())
        rows = [(iso(then.at), then.changes or "–", then.binding, then.number) for then in self.times]
        headings = ("from", "what changes", "what binds first", f"{self.grow} at most")
        return [*limits, *([View("As things change", headings, 3, tuple(rows))] if rows else [])]

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.planner.capacity import plots

        return plots.portfolio(self.rows(), self._carries.rstrip("."), ax)


def largest(
    portfolio: Portfolio | Scenario | OwnAccount | Workload | LoadUnder | str | Path,
    plan: str = "",
    policy: Policy | str | Path | None = None,
    *,
    account: str = "",
    grow: Grown = "keywords",
    settings: Settings = MappingProxyType({}),
) -> Largest:
    """Find how many keywords a domain, or how many domains, a plan carries at most, all else as given.

    Of an account of a scenario or its file (the only one, unless it is named) domains and words are on
    average, what is used of the month counts, and `plan` and `policy` are its own unless given; where clients
    begin or stop, or the timeline changes something, each time is looked at, with what there is then, on the
    plan that the account has then unless one is given.
    The number that `portfolio` has of what is varied does not matter. `settings` are parameters of the
    scenario and the policy by path, as of `Scenario.changed`. The answer's `readings` are what other
    assumptions would make of it. Raises BadInput.
    """
    own = portfolio if isinstance(portfolio, OwnAccount) else None
    if isinstance(portfolio, str | Path):
        portfolio = Scenario.load(portfolio)
    if settings:
        stated = portfolio if isinstance(portfolio, Scenario) else None
        stated, policy = with_parameters(settings, stated, policy)
        portfolio = stated or portfolio
    if isinstance(portfolio, Scenario):
        own = OwnAccount(portfolio, account)
    elif account:
        raise BadInput("account: only a scenario has accounts; leave it out")
    if own is not None:
        policy, portfolio = policy or own.policy, own.load
    policy = policy_of(policy)
    if not callable(portfolio):
        check_kind("largest", portfolio, Portfolio | Workload, "a portfolio, a scenario or its file")
    expect_one_of(("keywords", "domains"), "grow", grow)
    sized = cast("Portfolio | Workload | LoadUnder", portfolio)

    def ask(policy: Policy) -> Largest:
        if own is not None:
            return _least(own, policy, plan, grow)
        return _largest(sized(policy) if callable(sized) else sized, plan, policy, grow)

    answer, readings = under_readings(consulting(ask), policy, lambda answer: answer.verdict)
    return replace(answer, remarks=() if own is None else own.notes_under(policy), readings=readings)


def _least(own: OwnAccount, policy: Policy, plan: str, grow: Grown) -> Largest:
    """Return the least that is carried at any time, and what at each if there are several.

    A time that leaves it as it was is left out where a plan is given, or nothing but a month begins, or
    neither what is needed nor the policy changes.
    """
    times: list[CarriedFrom] = []
    least = before = state = None
    for then in own.states(policy, plan):
        if (then.load, then.policy) == state:
            continue
        state = then.load, then.policy
        answer = _largest(then.load, then.load.plan, then.policy, grow)
        now = answer.plan, answer.most, answer.binding.name
        if now != before or (then.changes and not plan):
            changes = then.changes or (MONTH_BEGINS if before else "")
            times.append(CarriedFrom(then.at, answer.most, answer.binding.name, changes))
        if least is None or _number(answer) < _number(least):
            least = answer
        before = now
    assert least is not None
    return replace(least, times=tuple(times) if len(times) > 1 else ())


def _number(answer: Largest) -> int:
    return MOST if answer.most is None else answer.most


def _largest(portfolio: Portfolio | Workload, plan: str, policy: Policy, grow: Grown) -> Largest:
    check_add_ons(portfolio.add_ons, policy)
    bought = plan_named(policy, plan)
    load = portfolio if isinstance(portfolio, Workload) else portfolio.workload
    allows = allowed_alone(lambda n: _workload(portfolio, grow, n), bought, policy)
    started = most_domains(load, [bought], policy)[plan]
    if started is not None:
        allows.append(started if grow == "domains" else MOST if load.domains <= started else 0)
    most = min(allows)
    there = _workload(portfolio, grow, max(most, 1))
    needed = plan_limits(there, bought, policy)
    if started is not None:
        needed.append(Limit(BURST, there.domains, started, "count", RATE))
    rooms = [
        Headroom(limit, None if allowed == MOST else allowed)
        for limit, allowed in zip(needed, allows, strict=True)
    ]
    rooms.sort(key=lambda room: (MOST if room.allows is None else room.allows, -room.used))
    return Largest(portfolio, plan, grow, None if most == MOST else most, tuple(rooms))


def _workload(portfolio: Portfolio | Workload, grow: Grown, n: int) -> Workload:
    if isinstance(portfolio, Workload):
        return portfolio.of_keywords(n) if grow == "keywords" else portfolio.of_domains(n)
    return (replace(portfolio, keywords=n) if grow == "keywords" else replace(portfolio, domains=n)).workload
