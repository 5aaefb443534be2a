"""What a workload leaves out of a scenario, as worlds show it: changes over time, clients that draw."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

from ranksim.core.callers.programs import AnyClient, Python, Schedule
from ranksim.core.clock import DAY, HOUR, Micros, month_end
from ranksim.core.contract.plans import Plan
from ranksim.core.rules.admission import held_at, reserved_at, settled_at, used_at
from ranksim.core.service.service import Service
from ranksim.planner.capacity.common import WITHOUT_END
from ranksim.planner.capacity.recurring import edges_of_others
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

Done = Sequence[tuple[Micros, str]]
"""When something was done (µs) that a plan may not offer, and which operation it was."""

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
    edges: Sequence[Micros],
    anchor: Micros,
    months: int,
    tell: Tell,
) -> Uncounted:
    """Return what an account needs for `changes` and for some clients, beyond what it needs without them.

    Worlds show it, in which no limit of a plan refuses anything but cooldowns do: one without either, one
    with both, and one in which of the changes only those are that remove what the account begins with. They
    go on until each weekday has been five times in a month after the last change, and for so many billing
    `months`, counted from `anchor` (µs, U51), but for no more than a year after that change; at `edges` (µs)
    other clients begin or stop. Where nothing changes, 31 days or as long as the scenario lasts are looked
    at. Clients in Python of the user's, and what the timeline sets but unit costs, are in none. `tell` is
    told how far it is. Raises BadInput.
    """
    start = scenario.start
    others = edges_of_others(scenario.clients, clients, start)
    times = sorted([*(at for at, _ in others), *(change.at.on(start) for change in changes)])
    leaving = [change for change in changes if _leaves(change, changes, scenario)]
    if not times:
        world = _unlimited(scenario, account, max(scenario.length, MONTH), from_now=True)
        still = _worlds(world, account, start, clients, changes, leaving, tell).beyond(start, world.end)
        return replace(_largest([Uncounted(), still]), since={start: still})
    spans = _billing_months(start, anchor, times[-1], LEAVING if leaving else JOINING, months)
    world = _unlimited(scenario, account, spans[-1][1] - start)
    worlds = _worlds(world, account, anchor, clients, changes, leaving, tell)
    began = frozenset(scenario.accounts[account].hosts(account))

    def started(at: Micros) -> tuple[JobStarts, ...]:
        """When jobs of what has joined by an instant (µs) are started."""
        hosts = hosts_at_last(_until(world, at + 1, changes), account)
        return starts_of([host for host in hosts if host not in began])

    instants = {start, *times, *(at for at in edges if start < at < world.end)}
    starts = {at: started(at) for at in sorted(instants)}
    since = dict(_by_time(worlds, starts, anchor, [change.at.on(start) for change in leaving], world.end))
    exact = {
        number: replace(worlds.beyond(begin, end), starts=_most_starts(starts, begin, end))
        for number, (begin, end) in enumerate(spans, 1)
    }
    most = _largest([Uncounted(), *since.values(), *exact.values()])
    return replace(most, since=since, exact=exact)


def _billing_months(start: Micros, anchor: Micros, last: Micros, further: int, months: int) -> list[Span]:
    """Return so many billing months from `start` on, but `further` after the `last` change or a year."""
    spans = [(start, month_end(anchor, start))]
    after = 0
    while after < further or (len(spans) < months and after < YEAR):
        spans.append((spans[-1][1], month_end(anchor, spans[-1][1])))
        after += spans[-1][0] >= last
    return spans


def _by_time(
    worlds: _Worlds,
    starts: Mapping[Micros, tuple[JobStarts, ...]],
    anchor: Micros,
    leaving: Sequence[Micros],
    end: Micros,
) -> Iterator[tuple[Micros, Uncounted]]:
    """Yield from which instant (µs) on how much it is until another, which begins where something changes.

    A change in the midst of a month is one time until the month ends, as what was spent and held before still
    counts, and another afterwards. `starts` has the instants with when jobs of what has joined are started;
    `leaving` are those of what removes, and what is there lasts until `end` (µs).
    """
    begin = min(starts)
    for at, until in pairwise([*starts, end]):
        turn = month_end(anchor, at - 1)  # `at` itself where a month begins
        there = [worlds.beyond(at, min(turn, until))] if at < turn else []
        leaves = min((other for other in leaving if other > turn), default=end)
        rest = [worlds.beyond(turn, until, leaves)] if turn < until else []
        yield at, replace(_largest([*there, *rest]), starts=starts[at])
        if there and rest and at > begin:
            yield turn, replace(rest[0], starts=starts[at])


def _most_starts(
    starts: Mapping[Micros, tuple[JobStarts, ...]], begin: Micros, end: Micros
) -> tuple[JobStarts, ...]:
    """When jobs of what has joined are started, at the time in a month at which that is the most."""
    before = max(at for at in starts if at <= begin)
    return max((starts[at] for at in starts if before <= at < end), key=_domains)


class _Worlds(NamedTuple):
    """What an account uses of money, slots and metrics: without any change, with all, with what removes.

    Months are counted from `anchor` (µs); of each of the `metrics` it is stated whether it is by month.
    `done` is what is done with all.
    """

    anchor: Micros
    metrics: Mapping[str, bool]
    rest: Samples
    everything: Samples
    less: Samples
    done: Done

    def beyond(self, since: Micros, until: Micros, goes: Micros | None = None) -> Uncounted:
        """Return what changes need at most in a time (µs), and how much less it is for what they remove.

        That is the most of all months, which have four or five of a weekday; what is removed is as little as
        in any month of 31 days, if there is one, since it is counted as in these, until more `goes` (µs).
        """
        goes = until if goes is None else goes
        months = self._months(since, goes)
        longest = [month for month in months if month[1] - month[0] == MONTH] or months
        removed = self._more(self.less, self.rest, (since, goes), longest)
        added = self._more(self.everything, self.less, (since, until), self._months(since, until))
        operations = frozenset(operation for at, operation in self.done if since <= at < until)
        amounts = self._uncounted(map(add, added, removed))
        return replace(amounts, removed=self._uncounted(removed), operations=operations)

    def _months(self, since: Micros, until: Micros) -> list[Span]:
        """Return the months of a time, and the parts of them that are in it."""
        months = [(since, min(until, month_end(self.anchor, since)))]
        while months[-1][1] < until:
            months.append((months[-1][1], min(until, month_end(self.anchor, months[-1][1]))))
        return months

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
    (rest, _), (everything, done), *less = (
        _samples(stage, account, part(tell, number / len(stages), (number + 1) / len(stages)))
        for number, stage in enumerate(stages)
    )
    return _Worlds(anchor, _metrics(world), rest, everything, less[0][0] if less else rest, done)


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
        operations=frozenset().union(*(each.operations for each in amounts)),
        removed=_largest([each.removed or Uncounted() for each in amounts])
        if any(each.removed for each in amounts)
        else None,
    )


def _domains(starts: Sequence[JobStarts]) -> int:
    return sum(start.domains for start in starts)


def _most(samples: Samples, since: Micros, until: Micros) -> list[int]:
    """Return the most of each in a time (µs), of one between two samples what there was at the first."""
    before = [row for at, row in samples if at < until][-1:] or [[0] * len(samples[0][1])]
    rows = [row for at, row in samples if since <= at < until] or before
    return [max(used) for used in zip(*rows, strict=True)]


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


def _samples(scenario: Scenario, account: str, tell: Tell) -> tuple[Samples, Done]:
    """Return what an account uses in a scenario's world, each hour of it, and what it does."""
    longer = scenario.model_copy(update={"length": scenario.length + HOUR})  # a world does nothing at its end
    tally = tally_of(longer, _AccountSamples)
    world = World(longer, seed=replication_seed(scenario.seed, 0), tally=tally)
    tally.account, tally.metrics = world.actors[account].account, list(_metrics(scenario))
    tally.tell, tally.length = tell, scenario.length
    world.env.run(until=scenario.length + 1)
    state = world.service.state
    jobs = [(job.created_at, job.kind) for job in state.jobs.values() if job.account == tally.account]
    briefs = [brief for brief in state.briefs.values() if brief.account == tally.account]
    return tally.samples, [*jobs, *((brief.created_at, "keyword_briefs") for brief in briefs)]


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
    """A scenario of so long in which neither money nor allowances nor slots end, and nothing is not offered.

    Its months are the account's, or counted `from_now` on.
    """

    def roomy(plan: Plan) -> Plan:
        quotas = {
            name: quota.model_copy(update={"limit": WITHOUT_END}) for name, quota in plan.quotas.items()
        }
        changes = {"quotas": quotas, "cost_ceiling": WITHOUT_END, "slot_limit": WITHOUT_END}
        changes["capabilities"] = tuple(dict.fromkeys(catalogue.capability_of.values()))
        return plan.model_copy(update=changes)

    policy, catalogue = scenario.policy, scenario.policy.catalogue
    plans = {name: roomy(plan) for name, plan in catalogue.plans.items()}
    catalogue = catalogue.model_copy(update={"plans": plans})
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
