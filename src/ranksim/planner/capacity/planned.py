"""The workload of an account of a scenario: its portfolios, what its clients have done by the calendar, and
what it has used so far.

What other clients send is drawn, recorded or written in Python: it is not counted, but told.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.callers.programs import AnyClient, Programmed, Python
from ranksim.core.callers.programs.planned import (
    ClientPlan,
    Occasions,
    OccasionStarts,
    OccasionWork,
    TrackedPart,
)
from ranksim.core.clock import (
    Micros,
    billing_month,
    calendar_anchor,
    format_duration,
    week_start,
)
from ranksim.core.contract.plans import JobLabel, Plan
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput, no_such
from ranksim.planner.capacity.bursts import least_gaps
from ranksim.planner.capacity.common import plan_named
from ranksim.planner.capacity.portfolio import Portfolio, runs_of, work_of
from ranksim.planner.capacity.sync import dealt
from ranksim.planner.capacity.workload import MONTH, JobStarts, PlannedWork, Uncounted, Used, Workload
from ranksim.report import units
from ranksim.twin.sim.scenario import Scenario, scenario_of
from ranksim.twin.sim.timeline import (
    Action,
    AddKeywords,
    ChangePlan,
    PauseScan,
    RemoveKeywords,
    ResumeScan,
    SetAddOn,
    SetStatus,
)

TRACKED = ("domains", "keywords", "pairings", "geographies")
"""What a portfolio says that a scenario says itself."""

KINDS: tuple[JobLabel, ...] = get_args(JobLabel)
"""The kinds of jobs."""

SETS = {
    "run_every": "rank_run",
    "crawls": "crawl",
    "optimizations": "site_optimization",
    "ai_scans": "ai_scan",
    "briefs": "keyword_briefs",
    "churn": "keywords",
}
"""What a portfolio says of work, and the operation that it is."""


class Recurring(NamedTuple):
    """A client that acts at occasions, with what it plans for each of them."""

    name: str
    client: Programmed
    occasions: Occasions
    work: Sequence[OccasionWork]
    starts: OccasionStarts | None


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """An account of a scenario, such as that of a mirrored world, as every question may start from it.

    `load` is what it tracks and has done, `plan` is the one it is on; `now` is when the
    scenario begins, and `anchor` where its billing months are counted from (both µs). `lists` has the
    number of keywords of each list, `sizes` how many slots a word has in one domain or another.
    """

    load: Workload
    plan: Plan
    policy: Policy
    now: Micros
    anchor: Micros
    lists: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def held(self) -> int:
        """Slots that are held to the end of the month (S26)."""
        return 0 if self.load.used is None else self.load.used.held

    @property
    def slots_left(self) -> int:
        """Slots that neither are used by what is tracked nor held."""
        return max(0, self.plan.slot_limit - self.load.slots - self.held)

    def room_for_words(self) -> str:
        """Say for how many more words there are slots."""
        held = f" and {self.held:,} held" if self.held else ""
        fitting = [(self.slots_left // each, each) for each in self.sizes if each]
        if len(fitting) > 1:
            words = " or ".join(
                f"{room:,} more words of {units.many(each, 'slot')}" for room, each in fitting
            )
            words += " each fit"
        else:
            words = f"{fitting[0][0]:,} more words fit" if fitting else "no scan is active"
        return (
            f"Of the {self.plan.slot_limit:,} slots of the plan {self.plan.name} {self.load.slots:,} are used"
            f"{held}: {words}."
        )

    def jobs(self) -> dict[JobLabel, int]:
        """Return how many jobs of each kind one occasion starts at most, as long as it may be spread over."""
        together: Counter[tuple[JobLabel, Micros]] = Counter()
        for one in self.load.starts:
            if one.kind in KINDS:
                together.update(dict.fromkeys(((one.kind, at) for at in one.times), one.domains))
        most: dict[JobLabel, int] = {}
        for (kind, _), jobs in together.items():
            most[kind] = max(most.get(kind, 0), jobs)
        return most


def own_account(scenario: Scenario, account: str = "", *, simulate: bool = True, **done: Any) -> OwnAccount:
    """Return an account by its name, or the only one; the rest as in `workload_of`. Raises BadInput."""
    load = workload_of(scenario, account, simulate=simulate, **done)
    plan = plan_named(scenario.policy, load.plan)
    spec = scenario.accounts[load.name]
    lists = (dealt(one.keywords, one.lists) * len(one.hosts(load.name)) for one in spec.portfolios)
    sizes = sorted({sum(_slots(scan) for scan in one.scans if scan.active) for one in spec.portfolios})
    return OwnAccount(
        load,
        plan,
        scenario.policy,
        scenario.start,
        _anchor(spec, scenario),
        tuple(chain.from_iterable(lists)),
        tuple(sizes),
    )


def workload_of(
    scenario: Scenario | str | Path, account: str = "", *, simulate: bool = True, **done: Any
) -> Workload:
    """Return the workload of an account of a scenario or its file, by its name, or of the only one there is.

    What cannot be counted is simulated, where that is asked for, to tell how much it is.
    `done` are fields of a `Portfolio` about what is done, `crawls=2`, which stand in place of what the
    scenario's clients do of it. Raises BadInput.
    """
    for field in TRACKED:
        if field in done:
            raise BadInput(f"{field}: the scenario says it; leave it out, or leave the scenario out")
    scenario = scenario_of(scenario)
    name = account_named(scenario, account)
    spec = scenario.accounts[name]
    parts = [
        TrackedPart(
            len(one.hosts(name)), one.keywords, sum(_slots(scan) for scan in one.scans if scan.active)
        )
        for one in spec.portfolios
    ]
    if not parts:
        raise BadInput(f"{scenario.name}: account {name!r} has no portfolio; give it one")
    clients = {label: one for label, one in scenario.clients.items() if {name, None} & set(one.owners)}
    given = Portfolio(**done)
    replaced = {operation for field, operation in SETS.items() if field in done}
    begun = billing_month(_anchor(spec, scenario), scenario.start)[0]
    sizes = {operation: getattr(given, what) for operation, what in SIZED.items()}
    plans = {label: client.planned(parts, sizes) for label, client in clients.items()}
    recurring = list(_recurring(clients, plans))
    planned = [work for one in recurring for work in _work(one, scenario, begun)]
    work = [one for one in planned if one.operation not in replaced]
    if not any(one.operation == "rank_run" for one in work):
        replaced.add("rank_run")
    for part in parts:
        own = work_of(given, part.domains, part.keywords, part.each)
        work += [one for one in own if one.operation in replaced]
    total = sum(part.domains for part in parts)
    starts = [one for one in _starts(recurring, spec, scenario) if one.kind not in replaced and one.domains]
    if "rank_run" in replaced:
        starts.insert(0, replace(runs_of(given, total), key=_key(None, spec)))
    joins = scenario.policy.assumptions.join in ("after_health", "before_checks")
    running = {"rank_run": _shortest(scenario, "rank_run")} if joins else {}
    scans = [scan for one in spec.portfolios for scan in one.scans if scan.active]
    uncounted = [label for label, plan in plans.items() if plan is None]
    simulated = [label for label in uncounted if not isinstance(clients[label], Python)]
    changes = [one for one in scenario.timeline if isinstance(one, CHANGES) and one.account == name]
    left_out = None
    if simulate and (simulated or changes):
        from ranksim.planner.capacity.left_out import left_out_of  # worlds take time to import

        left_out = left_out_of(scenario, name, uncounted)
    load = Workload(
        domains=total,
        keywords=sum(part.domains * part.keywords for part in parts),
        each=max(part.each for part in parts),
        slots=sum(part.domains * part.keywords * part.each for part in parts),
        pairings=max((len(scan.engine_devices) for scan in scans), default=1),
        geographies=max((len(scan.geographies) for scan in scans), default=1),
        work=tuple(work),
        starts=tuple(starts),
        gaps=least_gaps(starts, running),
        start_within=given.start_within,
        keys=given.keys,
        add_ons=done.get("add_ons", spec.add_ons),
        name=name,
        plan=spec.plan,
        used=_used(spec, scenario),
        left_out=left_out or Uncounted(),
        notes=(
            *_notes(recurring, work, given, done),
            *_not_simulated(clients),
            *_bounds(recurring, scenario),
            *_left_out(left_out, changes, simulated),
        ),
    )
    return load.over(given.spread) if "spread" in done else load


def account_named(scenario: Scenario, name: str) -> str:
    """Return the name of an account of a scenario, or of the only one. Raises BadInput."""
    known = list(scenario.accounts)
    if name in known:
        return name
    if name:
        raise BadInput(f"account: {no_such('account', name, tuple(known))}")
    if len(known) > 1:
        raise BadInput(f"account: {scenario.name} has {len(known)}, {', '.join(known)}; name one")
    return known[0]


def _slots(scan: Any) -> int:
    """Slots that a scan takes of a word (S23)."""
    return len(scan.engine_devices) * len(scan.geographies)


def _recurring(
    clients: Mapping[str, AnyClient], plans: Mapping[str, ClientPlan | None]
) -> Iterator[Recurring]:
    """Yield the clients that act at occasions."""
    for name, client in clients.items():
        plan = plans[name]
        if plan is not None and plan.occasions is not None and not isinstance(client, Python):
            yield Recurring(name, client, plan.occasions, plan.work, plan.starts)


def _work(one: Recurring, scenario: Scenario, begun: Micros) -> Iterator[PlannedWork]:
    """Yield the work of a client's occasions in the billing month that has `begun` (µs)."""
    client, occasions = one.client, one.occasions
    first = occasions.phase(scenario.start + client.starts, begun)
    most = _most(client, occasions, scenario)
    for work in one.work:
        yield PlannedWork(work.operation, work.count, 1, occasions.period, work.size, first, most)


def _starts(recurring: Sequence[Recurring], spec: AccountSpec, scenario: Scenario) -> Iterator[JobStarts]:
    """Yield when clients start what is charged to the expensive class of their keys, as the world would.

    That is as long as it takes to see every occasion twice.
    """
    policy = scenario.policy.assumptions
    by_key = [one for one in recurring if one.starts is not None and one.client.surface != "app"]
    again = math.lcm(*(one.occasions.period for one in by_key))
    end = scenario.start + min(MONTH, 2 * again) + max((one.client.starts for one in by_key), default=0)
    for _, client, occasions, _, starts in by_key:
        assert starts is not None
        key = _key(client.key, spec)
        if client.surface == "graphql" and policy.graphql_cost == "separate":
            key += "/graphql"
        stops = end if client.stops is None else min(end, scenario.start + client.stops)
        times = tuple(occasions.times(scenario.start + client.starts, stops))
        calls = 2 if starts.dry_run_first and policy.dry_run_class == "same" else 1
        yield JobStarts(
            starts.operation, starts.requests, times, starts.spread, client.max_tries, calls, key, starts.gap
        )


def _key(name: str | None, spec: AccountSpec) -> str:
    """The key that a client uses: the one of its own, or the account's first."""
    return name or (spec.keys[0].name if spec.keys else "")


def _shortest(scenario: Scenario, kind: JobLabel) -> Micros:
    """How long a job of a kind takes at least (µs)."""
    pool = scenario.pools.get(kind)
    if pool is not None and (pool.duration or pool.per_unit):
        drawn = pool.duration
    else:
        drawn = scenario.policy.catalogue.job_durations[kind]
    return 0 if drawn is None or drawn.kind in ("lognormal", "exponential") else min(drawn.durations)


def _anchor(spec: AccountSpec, scenario: Scenario) -> Micros:
    """Where the billing months of an account are counted from (U51)."""
    if scenario.policy.assumptions.month == "calendar":
        return calendar_anchor()
    return scenario.start if spec.anchor is None else spec.anchor


def _used(spec: AccountSpec, scenario: Scenario) -> Used | None:
    """Return what was used when the scenario begins, and how far its month and week are."""
    if spec.used is None:
        return None
    now = scenario.start
    begun = billing_month(_anchor(spec, scenario), now)[0]
    week = week_start(now, scenario.policy.assumptions.week_offset)
    return Used(spec.used.metrics, spec.used.spent, spec.used.held, now - begun, now - week)


SIZED: Mapping[str, str] = {"crawl": "pages", "site_optimization": "pages", "ai_scan": "questions"}
"""What a portfolio calls the size of a job that a scenario leaves open."""


def _notes(
    recurring: Sequence[Recurring], work: Sequence[PlannedWork], given: Portfolio, done: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what the scenario does not say, and what is taken in its place."""
    if not any(one.starts is not None and one.starts.operation == "rank_run" for one in recurring):
        every = format_duration(next(one.gap for one in work if one.operation == "rank_run"))
        yield f"No client of the scenario runs ranks: every domain is taken to be run every {every}."
    for operation in dict.fromkeys(one.operation for one in work):
        what = SIZED.get(operation, "")
        if what and what not in done:
            yield f"A {operation} is taken to have {getattr(given, what)} {what}: the scenario does not say."
    hasty = [one.name for one in recurring if _is_spread(one) and one.client.on_limit != "obey"]
    if hasty:
        yield f"These clients are taken to call again when Retry-After has gone: {', '.join(hasty)}."


def _is_spread(one: Recurring) -> bool:
    """Return whether a client's requests are spread over time, whatever becomes of the ones before."""
    return one.starts is not None and one.starts.gap is None


def _not_simulated(clients: Mapping[str, AnyClient]) -> Iterator[str]:
    programs = [name for name, one in clients.items() if isinstance(one, Python)]
    if programs:
        yield f"Not counted is what these clients spend: {', '.join(programs)}; `ranksim run` simulates it."


def _bounds(recurring: Sequence[Recurring], scenario: Scenario) -> Iterator[str]:
    """Say of which clients another month is counted than the scenario's first, or other instants."""
    drawn = [one.name for one in recurring if one.starts is not None and one.starts.drawn]
    if drawn:
        yield f"These clients are taken to spread their starts evenly: {', '.join(drawn)}."
    networked = [
        one.name for one in recurring if one.client.network is not None or scenario.network is not None
    ]
    if networked:
        yield f"Calls are taken to need no time, though these clients have a network: {', '.join(networked)}."
    for name, client, occasions, *_ in recurring:
        if client.starts:
            first = occasions.times(scenario.start + client.starts, scenario.start + MONTH)
            yield (
                f"{name} begins {format_duration(client.starts)} into the scenario: a whole month of it is "
                f"counted, {-(-MONTH // occasions.period)} occasions, "
                f"of which the first month has {len(list(first))}."
            )
        if client.stops is not None:
            most = _most(client, occasions, scenario) or 0
            yield (
                f"{name} stops {format_duration(client.stops)} into the scenario: a month has at most its "
                f"{units.many(most, 'occasion')}."
            )


def _most(client: Programmed, occasions: Occasions, scenario: Scenario) -> int | None:
    """Return how many occasions a client has in all, None where it never stops."""
    if client.stops is None:
        return None
    return len(list(occasions.times(scenario.start + client.starts, scenario.start + client.stops)))


def _left_out(left_out: Uncounted | None, changes: Sequence[Action], clients: Sequence[str]) -> Iterator[str]:
    """Say what is not counted of an account, and how much that is."""
    done = Counter(one.do for one in changes)
    what = [f"{', '.join(f'{count:,} × {do}' for do, count in done.items())} of the timeline"] if done else []
    what += [f"what these clients spend: {', '.join(clients)}"] if clients else []
    if not what:
        return
    if left_out is None:
        yield f"Left out: {'; '.join(what)}. `ranksim run` simulates it."
        return
    amounts = [
        units.many(left_out.slots, "slot"),
        f"{units.write('money', left_out.spent)} a month",
        *(f"{count:,} {metric}" for metric, count in left_out.metrics.items() if count),
    ]
    yield f"Left out: {'; '.join(what)}. Simulated once, that comes to {' and '.join(amounts)} more at most."


CHANGES = AddKeywords | RemoveKeywords | PauseScan | ResumeScan | ChangePlan | SetAddOn | SetStatus
"""Changes of the timeline that change what an account needs, or has."""
