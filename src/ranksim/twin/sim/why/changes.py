"""What could be changed in a scenario, one parameter at a time, in the direction that asks less of it.

A knob is a parameter by its path, as studies write it, and the values to try in order, each further from the
one there is. How far a value lies is its difference from the old as a share of the larger of both; a
moment's, as a share of the run; what has no size, such as leaving something out, counts as a whole.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from pydantic import BaseModel

from ranksim.core.callers.programs.calendars import Calendar
from ranksim.core.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Micros, format_duration, iso
from ranksim.core.contract.parameters import present_value
from ranksim.core.contract.plans import Plan
from ranksim.core.contract.quantities import Distribution, Moment
from ranksim.core.money import MICRO_USD, format_money
from ranksim.twin.sim import settings
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import ChangePlan, EditEndpoint, Set, SetAddOn
from ranksim.twin.sim.why.explanation import LEFT_OUT, Path, enabling, in_line

CENT = MICRO_USD // 100
"""The step of money (µUSD)."""

MOST_TIMES = 16
"""How many times as much as there is a knob goes up to."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A parameter that could be changed: `value(1)` is the nearest value to try, `value(count)` the furthest.

    `size` says how far a value lies from the one there is, at most 1. `sold` is what a customer buys or
    a provider grants, as against what is done with it. `use` is the metric of what a limit limits, or "":
    the most of it that is used where the limit is far away is about as much as the limit must be.
    """

    path: Path
    old: Any
    count: int
    value: Callable[[int], Any]
    size: Callable[[int], float]
    write: Callable[[Any], str] = str
    sold: bool = False
    use: str = ""

    def turned(self, scenario: Scenario, index: int) -> Scenario:
        """Return the scenario with the value at an index."""
        changed: Scenario = _put(scenario, self.path, self.value(index))
        return changed

    def below(self, size: float) -> int:
        """Return the index of the furthest value that is nearer than a size; 0 where there is none."""
        return bisect_left(range(1, self.count + 1), size, key=self.size)

    def reaching(self, value: float) -> int:
        """Return the index of the nearest value that is not below another; of those that grow."""
        return 1 + bisect_left(range(1, self.count + 1), value, key=self.value)

    @property
    def parameter(self) -> str:
        """The parameter's name, whatever it is of, or that something is left out."""
        if self.value(1) == LEFT_OUT:
            return LEFT_OUT
        return next(part for part in reversed(self.path) if isinstance(part, str))


def study_path(path: Path) -> str:
    """Return a path as studies write it: scenario.timeline[0].count; of a policy, policy.catalogue.…"""
    text = "" if path[0] == "policy" else "scenario"
    for before, part in zip(("", *path), path, strict=False):
        if part == "length" and isinstance(before, int):
            part = "for"  # as files call it
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _put(old: Any, path: Path, value: Any) -> Any:
    """Return a copy with the value at a path; `LEFT_OUT` takes an item out, one behind the last is added."""
    if not path:
        return value
    part, *rest = path
    if isinstance(old, BaseModel):
        return old.model_copy(update={str(part): _put(getattr(old, str(part)), tuple(rest), value)})
    if isinstance(old, Mapping):
        if not rest and value == LEFT_OUT:
            return {name: kept for name, kept in old.items() if name != part}
        return {**old, part: _put(old.get(part), tuple(rest), value)}
    index = int(part)
    kept = () if not rest and value == LEFT_OUT else (_put(old[index] if rest else None, tuple(rest), value),)
    return (*old[:index], *kept, *old[index + 1 :])


def knobs(scenario: Scenario, account: str = "", limited: bool = True) -> list[Knob]:
    """Return what could be changed; with an `account`, of others only what they share with it.

    Only where calls are `limited` are pauses between them a remedy: elsewhere they keep work from being done.
    """
    turnable: list[Knob] = []
    for kind in scenario.pools:
        turnable += _of_pool(scenario, kind)
    for name, client in scenario.clients.items():
        if account in ("", client.account or account):
            turnable += _of_client(scenario, name, limited)
    for index, action in enumerate(scenario.timeline):
        if account in ("", getattr(action, "account", account)):
            turnable += _of_action(scenario, index)
    for name, receiver in scenario.receivers.items():
        if account in ("", receiver.account):
            turnable += _of_receiver(scenario, name)
    for name in scenario.accounts:
        if account in ("", name):
            turnable += _of_account(scenario, name)
    return turnable


def monthly_invoice(scenario: Scenario) -> int | None:
    """Return what its accounts cost a month (µUSD), as the timeline leaves them; None where nobody says."""
    catalogue = scenario.policy.catalogue
    plans = {name: account.plan for name, account in scenario.accounts.items()}
    add_ons = {name: dict(account.add_ons) for name, account in scenario.accounts.items()}
    for action in sorted(scenario.timeline, key=lambda action: action.at.on(scenario.start)):
        if isinstance(action, ChangePlan):
            plans[action.account] = action.plan
        elif isinstance(action, SetAddOn):
            add_ons[action.account][action.add_on] = action.count
    if not all(map(catalogue.knows_price_of, plans.values())):
        return None
    return sum(catalogue.price_of(plan, add_ons[name]) for name, plan in plans.items())


PERIODS = {"day": DAY, "week": 7 * DAY, "month": 30 * DAY}
"""About how long periods of the calendar are."""


def _of_client(scenario: Scenario, name: str, limited: bool) -> Iterator[Knob]:
    client, at = scenario.clients[name], ("clients", name)
    fields = dict(client)
    every: Any = fields.get("every")
    length = PERIODS.get(every, every)
    yield from _of_period((*at, "every"), every)
    if scenario.receivers and isinstance(client, Calendar) and (client.at or isinstance(every, str)):
        yield _later_in_day((*at, "at"), client.at or 0)
    for field in ("spread", "gap") if limited else ("spread",):
        if field in fields:
            yield _longer((*at, field), fields[field], length or DAY)
    if fields.get("share"):
        yield _less_share((*at, "share"), fields["share"])
    for field in ("keywords", "users", "max_tries", "pages") if limited else ("keywords", "users"):
        if isinstance(fields.get(field), int) and fields[field] > 1:
            yield _fewer((*at, field), fields[field], 1)
    domains = _domains(scenario, client.account)
    if "domains" in fields and domains > 1:
        old = fields["domains"]
        if not isinstance(old, tuple):
            yield _fewer((*at, "domains"), domains if old == "all" else old, 1, old)
    if limited and fields.get("on_limit", "obey") != "obey":
        yield from _choices((*at, "on_limit"), fields["on_limit"], {"obey": 1.0})
    yield from _left_out(at, client.kind)


def _of_period(path: Path, every: str | Micros | None) -> Iterator[Knob]:
    if every == "day":
        yield replace(_ladder(path, DAY, DAY, 29, write=_period), old=every)
    elif isinstance(every, str):
        length = PERIODS[every]
        longer = {period: 1 - length / other for period, other in PERIODS.items() if other > length}
        yield from _choices(path, every, longer)
    elif every:
        yield _longer(path, every)


def _period(every: str | Micros) -> str:
    return every if isinstance(every, str) else format_duration(every)


def _domains(scenario: Scenario, account: str | None) -> int:
    return len(scenario.accounts[account].hosts(account)) if account in scenario.accounts and account else 0


def _of_action(scenario: Scenario, index: int) -> Iterator[Knob]:
    action, at = scenario.timeline[index], ("timeline", index)
    when = action.at.on(scenario.start) - scenario.start
    number = getattr(action, "count", None)
    if isinstance(number, int) and number > 1 and action.do != "set_add_on":
        yield _fewer((*at, "count"), number, 1)
    capacity = getattr(action, "capacity", None)
    if isinstance(capacity, int):
        yield _more((*at, "capacity"), capacity)
    if isinstance(action, ChangePlan):
        yield from _larger_plans(scenario, (*at, "plan"), action.plan, sold=False)
    if isinstance(action, Set):
        yield from _of_set(scenario, index, action)
    yield _later((*at, "at"), when, scenario.length)
    yield from _left_out(at, action.do)


def _of_set(scenario: Scenario, index: int, action: Set) -> Iterator[Knob]:
    """What lies between the value that is set, where that is a number of something, and the one before."""
    before = scenario
    for _, earlier in takewhile(lambda pair: pair[0] != index, settings.in_order(scenario)):
        before = settings.after(before, earlier)
    roots = (settings.after(before, action).roots, before.roots)
    old, aim = (_number(present_value(action.path, root)) for root in roots)
    given, path = action.value, ("timeline", index, "value")
    if old is None or aim is None or old == aim:
        return
    money = isinstance(given, str) and given.endswith("USD")
    write = format_money if money else format_duration if isinstance(given, str) else int
    step = _step(max(old, aim)) if write is format_duration else min(CENT if money else 1, abs(aim - old))
    ladder = _ladder(path, old, step if aim > old else -step, abs(aim - old) // step)
    yield replace(ladder, old=given, value=lambda index: write(ladder.value(index)))


def _number(value: Any) -> int | None:
    """A number, amount or duration, as of what always takes as long; None for anything else."""
    if isinstance(value, Distribution) and value.kind == "constant":
        value = value.durations[0]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _of_pool(scenario: Scenario, kind: Any) -> Iterator[Knob]:
    pool, at = scenario.pools[kind], ("pools", kind)
    if isinstance(pool.capacity, int):
        yield _more((*at, "capacity"), pool.capacity)
    if pool.queue_limit is not None:
        yield _more((*at, "queue_limit"), pool.queue_limit)
    if pool.duration is not None:
        yield _quicker((*at, "duration"), pool.duration)
    if pool.failure_rate:
        yield _less_share((*at, "failure_rate"), pool.failure_rate)


def _of_receiver(scenario: Scenario, name: str) -> Iterator[Knob]:
    receiver, at = scenario.receivers[name], ("receivers", name)
    for index, outage in enumerate(receiver.outages):
        over = Moment(us=outage.begin.on(scenario.start) - scenario.start + outage.length)
        enabled = EditEndpoint(do="edit_endpoint", at=over, receiver=name, enabled=True)
        put: Path = ("timeline", len(scenario.timeline))
        yield Knob(put, None, 1, _always(enabled), _always(1.0), _in_file)
        yield _shorter((*at, "outages", index, "length"), outage.length, 1)
        yield from _left_out((*at, "outages", index), "down")
    if receiver.latency.durations[0]:
        yield _quicker((*at, "latency"), receiver.latency)
    if receiver.mttr is not None:
        yield _quicker((*at, "mttr"), receiver.mttr)


def _of_account(scenario: Scenario, name: str) -> Iterator[Knob]:
    account, at = scenario.accounts[name], ("accounts", name)
    places: list[Path] = [] if account.portfolio is None else [(*at, "portfolio")]
    places += [(*at, "further", number) for number in range(len(account.further))]
    for place, portfolio in zip(places, account.portfolios, strict=True):
        if portfolio.keywords > 1:
            yield _fewer((*place, "keywords"), portfolio.keywords, 0)
        if isinstance(portfolio.domains, int) and portfolio.domains > 1:
            yield _fewer((*place, "domains"), portfolio.domains, 1)
    if account.used is not None:
        for metric, used in account.used.metrics.items():
            if used:
                yield _fewer((*at, "used", "metrics", metric), used, 0)
        if account.used.held:
            yield _fewer((*at, "used", "held"), account.used.held, 0)
    catalogue = scenario.policy.catalogue
    yield from _larger_plans(scenario, (*at, "plan"), account.plan, sold=True)
    for add_on in catalogue.add_ons:
        yield _ladder((*at, "add_ons", add_on), account.add_ons.get(add_on, 0), 1, MOST_TIMES, sold=True)
    later = {action.plan for action in scenario.timeline if isinstance(action, ChangePlan)}
    for plan in (account.plan, *sorted(later - {account.plan})):
        yield from _of_plan(catalogue.plans[plan], plan, name)


def _of_plan(plan: Plan, name: str, account: str) -> Iterator[Knob]:
    at: Path = ("policy", "catalogue", "plans", name)
    yield _more((*at, "slot_limit"), plan.slot_limit, f"slots.{account}.max_used")
    spent = f"spend.{account}.max"
    yield _more((*at, "cost_ceiling"), plan.cost_ceiling, spent, step=CENT, write=format_money)
    for metric, quota in plan.quotas.items():
        yield _more((*at, "quotas", metric, "limit"), quota.limit, f"meters.{account}.{metric}.max")
    for operation, length in plan.cooldowns.items():
        if length:
            yield _shorter((*at, "cooldowns", operation), length, 0, sold=True)


# Kinds of knobs


def _ladder(
    path: Path, old: int, step: int, count: int, *, least: int = 0, of: int = 0, **about: Any
) -> Knob:
    """So many steps up, or down to at `least` something; how far: as a share `of` it, or of the larger."""

    def size(index: int) -> float:
        return index * abs(step) / (of or max(old, old + index * step))

    return Knob(path, old, count, lambda index: max(least, old + index * step), size, **about)


def _fewer(path: Path, old: int, least: int, given: Any = None) -> Knob:
    return replace(_ladder(path, old, -1, old - least), old=given or old)


def _more(path: Path, old: int, use: str = "", *, step: int = 1, **about: Any) -> Knob:
    """More of something by steps; of a limit, which is sold, `use` is the metric of what it limits."""
    count = max(1, MOST_TIMES * max(old, 1) // step)
    return _ladder(path, old, step, count, sold=use != "", use=use, **about)


def _longer(path: Path, old: Micros, of: Micros = DAY) -> Knob:
    """A longer duration; one that is nothing is measured by what it is a part `of`."""
    step = _step(old or min(of, 100 * MINUTE))
    count = max(1, (MOST_TIMES * old or of) // step)
    return _ladder(path, old, step, count, of=0 if old else of, write=format_duration)


def _shorter(path: Path, old: Micros, least: Micros, *, sold: bool = False) -> Knob:
    step = _step(old)
    count = -(-(old - least) // step)
    return _ladder(path, old, -step, count, least=least, sold=sold, write=format_duration)


def _step(length: Micros) -> Micros:
    """The grain in which people write a duration."""
    grains = ((DAY, HOUR), (HOUR, MINUTE), (MINUTE, SECOND), (SECOND, SECOND // 100))
    return next((grain for unit, grain in grains if length >= 2 * unit), MILLISECOND)


def _less_share(path: Path, old: float) -> Knob:
    return Knob(path, old, 100, lambda i: round(old * (100 - i) / 100, 6), lambda i: i / 100, "{:g}".format)


def _quicker(path: Path, old: Distribution) -> Knob:
    """Shorter durations on their grain: what always takes as long by the grain itself, else by per cents."""
    longest = max(old.durations)
    grain = _step(min(filter(None, old.durations), default=0))
    count = -(-longest // grain) if old.kind == "constant" else 100

    def value(index: int) -> Distribution:
        if old.kind == "constant":
            return old.model_copy(update={"durations": (max(0, longest - index * grain),)})
        durations = tuple(length * (100 - index) // 100 // grain * grain for length in old.durations)
        return old.model_copy(update={"durations": durations})

    def size(index: int) -> float:
        return min(1.0, index * grain / longest) if old.kind == "constant" else index / 100

    return Knob(path, old, count, value, size, lambda drawn: in_line(drawn.model_dump(mode="json")))


def _later(path: Path, old: Micros, length: Micros) -> Knob:
    """A later moment of a run of some length, up to half of what is left."""
    step = _step(length) if length < 2 * DAY else MINUTE
    most = (length - old) // 2  # what comes later than that is as good as left out

    def moment(index: int) -> Moment:
        return Moment(us=old + index * step)

    def write(given: Moment) -> str:
        return format_duration(given.us)

    return Knob(path, moment(0), most // step, moment, lambda index: index * step / length, write)


def _later_in_day(path: Path, old: Micros) -> Knob:
    """A later time of the same day, by up to twelve hours; how far is a share of a day."""
    count = min(12 * HOUR, DAY - 1 - old) // MINUTE
    return _ladder(path, old, MINUTE, count, of=DAY, write=lambda time: iso(time)[11:-1].removesuffix(":00"))


def _choices(path: Path, old: Any, sizes: Mapping[str, float], *, sold: bool = False) -> Iterator[Knob]:
    """One knob for each value, of which it is said how far it lies: they are no ladder."""
    for value, size in sizes.items():
        yield Knob(path, old, 1, _always(value), _always(size), sold=sold)


def _in_file(action: EditEndpoint | None) -> str:
    return "nothing" if action is None else enabling(action.at.us, action.receiver)


def _always(value: Any) -> Callable[[int], Any]:
    return lambda _: value


def _left_out(path: Path, old: str) -> Iterator[Knob]:
    return _choices(path, old, {LEFT_OUT: 1.0})


def _larger_plans(scenario: Scenario, path: Path, old: str, *, sold: bool) -> Iterator[Knob]:
    """The dearer plans; how far one lies is how much dearer it is."""
    plans = scenario.policy.catalogue.plans
    price = plans[old].price
    dearer = sorted((plan.price, name) for name, plan in plans.items() if plan.price > price)
    yield from _choices(path, old, {name: 1 - price / other for other, name in dearer}, sold=sold)
