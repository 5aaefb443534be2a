"""What a workload leaves out of a scenario, as worlds show it: changes over time, clients that draw."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import add
from typing import Any, NamedTuple

from ranksim.core.callers.programs import AnyClient, Python, Schedule
from ranksim.core.clock import DAY, HOUR, Micros, month_end, months_between
from ranksim.core.contract.plans import Plan
from ranksim.core.rules.admission import held_at, reserved_at, settled_at, used_at
from ranksim.core.service.service import Service
from ranksim.planner.capacity.common import WITHOUT_END
from ranksim.planner.capacity.tracked import lists_by_host
from ranksim.planner.capacity.workload import MONTH, JobStarts, Uncounted
from ranksim.report.progress import Tell, nobody, part
from ranksim.twin.sim.misfits import hosts_at_last, hosts_before
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.statistics import SilentTally, tally_of
from ranksim.twin.sim.timeline import (
    AddDomains,
    IssueKey,
    OfAccount,
    PauseScan,
    RemoveDomains,
    RemoveKeywords,
    ResumeScan,
    Set,
)
from ranksim.twin.sim.world import World

Span = tuple[Micros, Micros]
"""A time, from an instant until another."""

Samples = Sequence[tuple[Micros, Sequence[int]]]
"""Instants, and what an account used then: slots, cost of the month (µUSD), units of each metric."""

JOINING = 4
"""Months in a row of which one at least has five of a weekday, whichever it is."""

LEAVING = 9
"""Months in a row of which one at least of 31 days has only four of a weekday, whichever it is."""

YEAR = 12
"""The months after the last change that are looked at, at most."""

StartsOf = Callable[[Sequence[str]], tuple[JobStarts, ...]]
"""When jobs of further domains are started, by their hosts."""


def left_out_of(
    scenario: Scenario,
    account: str,
    clients: Collection[str],
    changes: Collection[OfAccount],
    starts_of: StartsOf,
    anchor: Micros,
    months: int,
    tell: Tell,
) -> Uncounted:
    """Return what an account needs for `changes` and for some clients, beyond what it needs without them.

    Worlds show it, in which no limit of a plan refuses anything but cooldowns do: one without either, one
    with both, and one in which of the changes only those are that remove what the account begins with. They
    go on until each weekday has been five times in a month after the last change, and for so many billing
    `months`, counted from `anchor` (µs, U51), but for no more than a year after that change. Where nothing
    changes, 31 days or as long as the scenario lasts are looked at. Clients in Python of the user's, and what
    the timeline sets but unit costs, are in none. `tell` is told how far it is. Raises BadInput.
    """
    start = scenario.start
    times = sorted([*_edges(scenario, clients), *(change.at.on(start) for change in changes)])
    leaving = [change for change in changes if _leaves(change, changes, scenario)]
    if not times:
        world = _unlimited(scenario, account, max(scenario.length, MONTH), from_now=True)
        still = _worlds(world, account, start, clients, changes, leaving, tell).beyond(start, world.end)
        return replace(_largest([Uncounted(), still]), by_month={1: still})
    spans = _billing_months(start, anchor, times[-1], LEAVING if leaving else JOINING, months)
    world = _unlimited(scenario, account, spans[-1][1] - start)
    worlds = _worlds(world, account, anchor, clients, changes, leaving, tell)
    began = frozenset(scenario.accounts[account].hosts(account))

    def started(begin: Micros, end: Micros) -> tuple[JobStarts, ...]:
        """When jobs of what has joined are started, at the time (µs) at which that is the most."""
        stages = [_until(world, at + 1, changes) for at in (begin, *times) if begin <= at < end]
        joined = ([host for host in hosts_at_last(stage, account) if host not in began] for stage in stages)
        return max(map(starts_of, joined), key=_domains)

    exact = {
        number: replace(worlds.beyond(*span), starts=started(*span)) for number, span in enumerate(spans, 1)
    }
    by_month = dict(_months_of_most(worlds, exact, spans, times))
    return replace(_largest([Uncounted(), *by_month.values()]), by_month=by_month, exact=exact)


def _billing_months(start: Micros, anchor: Micros, last: Micros, further: int, months: int) -> list[Span]:
    """Return so many billing months from `start` on, but `further` after the `last` change or a year."""
    spans = [(start, month_end(anchor, start))]
    after = 0
    while after < further or (len(spans) < months and after < YEAR):
        spans.append((spans[-1][1], month_end(anchor, spans[-1][1])))
        after += spans[-1][0] >= last
    return spans


def _months_of_most(
    worlds: _Worlds, exact: Mapping[int, Uncounted], spans: Sequence[Span], times: Sequence[Micros]
) -> Iterator[tuple[int, Uncounted]]:
    """Yield from which month on how much it is in the month of most until something changes again.

    A month in which something does has what there is before, meanwhile and afterwards.
    """
    changes = {
        number: [at for at in times if begin <= at < end] for number, (begin, end) in enumerate(spans, 1)
    }
    still = dict[int, Uncounted]()
    for changing, group in groupby(exact, key=lambda number: bool(changes[number])):
        if not changing:
            first, *more = group
            most = worlds.beyond(spans[first - 1][0], spans[[first, *more][-1] - 1][1])
            still |= dict.fromkeys((first, *more), replace(most, starts=exact[first].starts))
    around = {0: Uncounted(), **exact, **still}
    for number, (begin, _) in enumerate(spans, 1):
        if number in still:
            if number - 1 not in still:
                yield number, still[number]
            continue
        before = [around[number - 1]] if changes[number][-1] > begin else []  # else there is not a day of it
        yield number, _largest([exact[number], *before, around[number + 1]])


def _edges(scenario: Scenario, clients: Collection[str]) -> list[Micros]:
    """When some clients begin after the first month, or stop (µs)."""
    start, edges = scenario.start, list[Micros]()
    for client in map(scenario.clients.__getitem__, clients):
        assert not isinstance(client, Python)
        begins = client.starts.on(start)
        edges += [begins] if begins >= start and months_between(start, begins) else []
        edges += [] if client.stops is None else [client.stops.on(start)]
    return edges


class _Worlds(NamedTuple):
    """What an account uses of money, slots and metrics: without any change, with all, with what removes.

    Months are counted from `anchor` (µs); of each of the `metrics` it is stated whether it is by month.
    """

    anchor: Micros
    metrics: Mapping[str, bool]
    rest: Samples
    everything: Samples
    less: Samples

    def beyond(self, since: Micros, until: Micros) -> Uncounted:
        """Return what changes need at most in a time (µs), and how much less it is for what they remove.

        That is the most of all months, which have four or five of a weekday; what is removed is as little as
        in any month of 31 days, if there is one, since it is counted as in these.
        """
        months = list[tuple[Micros, Micros]]()
        while not months or months[-1][1] < until:
            begin = months[-1][1] if months else since
            months.append((begin, min(until, month_end(self.anchor, begin))))
        longest = [month for month in months if month[1] - month[0] == MONTH] or months
        removed = self._more(self.less, self.rest, (since, until), longest)
        added = self._more(self.everything, self.less, (since, until), months)
        return replace(self._uncounted(map(add, added, removed)), removed=self._uncounted(removed))

    def _more(self, samples: Samples, than: Samples, time: Span, months: Sequence[Span]) -> list[int]:
        """How much more than in another world is used at most, in a month of what is counted by month."""
        in_all, *by_month = (
            [most - other for most, other in zip(_most(samples, *span), _most(than, *span), strict=True)]
            for span in (time, *months)
        )
        monthly = (False, True, *self.metrics.values())
        return [
            max(differences) if by else more
            for by, more, differences in zip(monthly, in_all, zip(*by_month, strict=True), strict=True)
        ]

    def _uncounted(self, amounts: Iterable[int]) -> Uncounted:
        slots, spent, *units = amounts
        return Uncounted(slots, spent, dict(zip(self.metrics, units, strict=True)))


def _worlds(
    world: Scenario,
    account: str,
    anchor: Micros,
    clients: Collection[str],
    changes: Collection[OfAccount],
    leaving: Collection[OfAccount],
    tell: Tell,
) -> _Worlds:
    """Return what an account uses in the worlds of a scenario without limits, to its end."""
    stages = [_until(world, world.start, changes, clients), _until(world, world.end, changes)]
    stages += [_until(world, world.end, changes, clients, leaving)] if leaving else []
    rest, everything, *less = (
        _samples(stage, account, part(tell, number / len(stages), (number + 1) / len(stages)))
        for number, stage in enumerate(stages)
    )
    return _Worlds(anchor, _metrics(world), rest, everything, *(less or [rest]))


def _leaves(change: OfAccount, changes: Collection[OfAccount], scenario: Scenario) -> bool:
    """Whether a change takes away what the account begins with, and nothing else."""
    hosts = {host for host, _ in lists_by_host(change.account, scenario.accounts[change.account])}
    if isinstance(change, RemoveDomains):
        if isinstance(change.domains, int):
            return not any(isinstance(each, AddDomains) for each in changes)
        return hosts.issuperset(change.domains)
    if isinstance(change, RemoveKeywords | PauseScan | ResumeScan):
        return change.domain is None or change.domain in hosts
    return False


def _metrics(scenario: Scenario) -> dict[str, bool]:
    """The metrics of all plans, and whether any has an allowance a month of it."""
    plans = scenario.policy.catalogue.plans.values()
    periods = sorted((metric, quota.period) for plan in plans for metric, quota in plan.quotas.items())
    return {metric: (metric, "month") in periods for metric, _ in periods}


def _largest(amounts: Sequence[Uncounted]) -> Uncounted:
    """By amount the largest; of what is removed the least is, as that is below 0."""
    metrics = {metric for each in amounts for metric in each.metrics}
    return Uncounted(
        max(each.slots for each in amounts),
        max(each.spent for each in amounts),
        {metric: max(each.metrics.get(metric, 0) for each in amounts) for metric in sorted(metrics)},
        starts=max((each.starts for each in amounts), key=_domains),
        removed=_largest([each.removed or Uncounted() for each in amounts])
        if any(each.removed for each in amounts)
        else None,
    )


def _domains(starts: Sequence[JobStarts]) -> int:
    return sum(start.domains for start in starts)


def _most(samples: Samples, since: Micros, until: Micros) -> list[int]:
    return [max(used) for used in zip(*(row for at, row in samples if since <= at < until), strict=True)]


class _AccountSamples(SilentTally):
    """Samples what one account has used, each time as of the microsecond before."""

    account = ""
    metrics: Sequence[str] = ()
    tell: Tell = nobody
    length: Micros = MONTH

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.samples: list[tuple[Micros, Sequence[int]]] = []

    def sample(self, now: Micros, service: Service) -> None:
        """Look at the account's slots, money and allowances."""
        if now == self.start:
            return  # the world is being made
        if (now - self.start) % DAY == 0:
            self.tell((now - self.start) / self.length, "")
        account, at = service.state.accounts[self.account], now - 1
        books = account.books
        spent = settled_at(at, books) + (reserved_at(at, books) if self.reserved_counts else 0)
        meters = map(account.meters.get, self.metrics)
        units = (0 if meter is None else used_at(at, meter) for meter in meters)
        self.samples.append((at, (books.active + held_at(at, books), spent, *units)))


def _samples(scenario: Scenario, account: str, tell: Tell) -> Samples:
    """Return what an account uses in a scenario's world, each hour of it."""
    longer = scenario.model_copy(update={"length": scenario.length + HOUR})  # a world does nothing at its end
    tally = tally_of(longer, _AccountSamples)
    world = World(longer, seed=replication_seed(scenario.seed, 0), tally=tally)
    tally.account, tally.metrics = world.actors[account].account, list(_metrics(scenario))
    tally.tell, tally.length = tell, scenario.length
    world.env.run(until=scenario.length + 1)
    return tally.samples


def _until(
    scenario: Scenario,
    until: Micros,
    changes: Collection[OfAccount],
    clients: Collection[str] = (),
    kept: Collection[OfAccount] | None = None,
) -> Scenario:
    """Return a scenario with those changes (of them `kept`) that come before `until`, without some clients.

    Neither are there hosts in it that are only added later: keys issued for these are for all domains.
    """
    kept = changes if kept is None else kept
    timeline = [
        each
        for each in scenario.timeline
        if each not in changes or (each in kept and each.at.on(scenario.start) < until)
    ]
    then = scenario.model_copy(update={"timeline": tuple(timeline)})
    for at, each in enumerate(timeline):
        if isinstance(each, IssueKey) and each.domain not in hosts_before(then, each.account):
            timeline[at] = each.model_copy(update={"domain": None})
    then = then.model_copy(update={"timeline": tuple(timeline)})
    stated = {name: _of_hosts(client, then) for name, client in then.clients.items() if name not in clients}
    there = {name: client for name, client in stated.items() if client is not None}
    return then.model_copy(update={"clients": there})


def _of_hosts(client: AnyClient, scenario: Scenario) -> AnyClient | None:
    """A client without the hosts that its account never has, None where it names no others."""
    if not isinstance(client, Schedule) or not isinstance(client.domains, tuple):
        return client
    hosts = hosts_before(scenario, client.account)
    there = tuple(host for host in client.domains if host in hosts)
    return client.model_copy(update={"domains": there}) if there else None


def _unlimited(scenario: Scenario, account: str, length: Micros, *, from_now: bool = False) -> Scenario:
    """A scenario of so long in which neither money nor allowances nor slots end.

    Its months are the account's, or counted `from_now` on.
    """

    def roomy(plan: Plan) -> Plan:
        quotas = {
            name: quota.model_copy(update={"limit": WITHOUT_END}) for name, quota in plan.quotas.items()
        }
        changes = {"quotas": quotas, "cost_ceiling": WITHOUT_END, "slot_limit": WITHOUT_END}
        return plan.model_copy(update=changes)

    policy = scenario.policy
    plans = {name: roomy(plan) for name, plan in policy.catalogue.plans.items()}
    catalogue = policy.catalogue.model_copy(update={"plans": plans})
    assumptions, spec = policy.assumptions, scenario.accounts[account]
    if from_now:
        assumptions = assumptions.model_copy(update={"month": "anchor"})
        spec = spec.model_copy(update={"anchor": scenario.start})
    changes = {
        "policy": policy.model_copy(update={"catalogue": catalogue, "assumptions": assumptions}),
        "length": length,
        "accounts": scenario.accounts | {account: spec},
        "clients": {
            name: client for name, client in scenario.clients.items() if not isinstance(client, Python)
        },
        "timeline": tuple(
            each
            for each in scenario.timeline
            if not isinstance(each, Set) or each.path.startswith("policy.catalogue.unit_costs")
        ),
        "expect": (),
        "sample_every": HOUR,
    }
    return scenario.model_copy(update=changes)
