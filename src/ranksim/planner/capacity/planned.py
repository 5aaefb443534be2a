"""The workload of an account of a scenario: its portfolios, what its clients have done by the calendar, and
what it has used so far.

What other clients send is drawn, recorded or written in Python: it is not counted, but told.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from ranksim.core.callers.portfolio import PortfolioSpec
from ranksim.core.callers.programs import KeywordSync, Python
from ranksim.core.clock import (
    DAY,
    Micros,
    billing_month,
    calendar_anchor,
    month_end,
    week_start,
)
from ranksim.core.contract.parameters import Settings
from ranksim.core.contract.plans import JobLabel, Plan
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput, no_such
from ranksim.planner.capacity.assumed import SIZED, no_rank_runs
from ranksim.planner.capacity.bought import Bought, Change, change_text, changes_of, purchases
from ranksim.planner.capacity.bursts import least_gaps
from ranksim.planner.capacity.portfolio import Portfolio, runs_of, work_done
from ranksim.planner.capacity.recurring import Recurring, edges_of_others, notes_of_clients
from ranksim.planner.capacity.tracked import (
    active_scans,
    filled,
    lists_by_host,
    parts_of_account,
    tracked_slots,
    tracked_words,
)
from ranksim.planner.capacity.workload import (
    EVERY_MONTH,
    MONTH,
    JobStarts,
    Later,
    PlannedWork,
    Uncounted,
    Used,
    Workload,
    month_number,
)
from ranksim.report import units
from ranksim.report.progress import Tell, noted
from ranksim.twin.sim.scenario import Scenario, scenario_of
from ranksim.twin.sim.scenario_fields import scenario_notes
from ranksim.twin.sim.settings import after, in_order
from ranksim.twin.sim.timeline import counted_actions

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


class OwnAccount:
    """An account of a scenario, such as that of a mirrored world, as every question may start from it.

    `load` is what it tracks and has done, of the fields of a `Portfolio` in place of what its clients do
    (`done`), or of those alone that are at work `at` an instant (µs), with what lists are filled with by then
    or `until` another (µs); `now` is when the scenario begins (µs).
    Of what it simulates the first `months` are to be known, each as it is. `progress` is told how far that
    is; without it a notebook shows that.
    """

    def __init__(
        self,
        scenario: Scenario | str | Path,
        account: str = "",
        *,
        simulate: bool = True,
        progress: Tell | None = None,
        at: Micros | None = None,
        until: Micros | None = None,
        months: int = 1,
        **done: Any,
    ) -> None:
        for field in TRACKED:
            if field in done:
                raise BadInput(f"{field}: the scenario says what is tracked; leave it out, or change that")
        self.scenario = scenario_of(scenario)
        self.policy, self.now = self.scenario.policy, self.scenario.start
        self.name = name_of_account(self.scenario, account)
        self.spec = self.scenario.accounts[self.name]
        self.parts = parts_of_account(self.name, self.spec)
        if not self.parts:
            where = f"{self.scenario.name}: account {self.name!r}"
            raise BadInput(f"{where} has no domains; give it a portfolio, or sites")
        self.done, self.given = done, Portfolio(**done)
        self.clients = {
            label: client
            for label, client in self.scenario.clients.items()
            if {self.name, None} & set(client.owners)
        }
        sizes = {operation: getattr(self.given, what) for operation, what in SIZED.items()}
        last = at if until is None else until
        self.fills = {
            client.starts.on(self.now): client
            for client in self.clients.values()
            if isinstance(client, KeywordSync)
        }
        filling = [client for begins, client in self.fills.items() if last is None or begins <= last]
        self.filled = filled(self.parts, () if "churn" in done else filling)
        plans = {label: client.planned(self.filled, sizes) for label, client in self.clients.items()}
        self.uncounted = [label for label, plan in plans.items() if plan is None]
        self.recurring = [
            Recurring(label, client, plan.occasions, plan.work, plan.starts)
            for label, client in self.clients.items()
            if (plan := plans[label]) and plan.occasions is not None and not isinstance(client, Python)
        ]
        self.at_work = [each for each in self.recurring if each.is_at_work(at, self.now)]
        self.ended = [
            (each, occasions)
            for each in self.recurring
            if (occasions := each.ended(at, self.now, self.anchor))
        ]
        self.load = self._workload(simulate, months, progress)

    def under(self, policy: Policy) -> Workload:
        """Return its load under the assumptions of another policy; what is left out is as it was found."""
        assumed = self.policy.model_copy(update={"assumptions": policy.assumptions})
        load = self._counted(self.scenario.model_copy(update={"policy": assumed}), until=self.now)
        later = tuple(self._later(policy))
        times, notes = tuple(self.states(policy)), self.notes_under(policy)
        return replace(load, left_out=self.load.left_out, notes=notes, later=later, times=times)

    def notes_under(self, policy: Policy) -> tuple[str, ...]:
        """What to know of an answer that looks at each time, and of a policy of another catalogue at none."""
        return self.load.notes if policy.catalogue == self.policy.catalogue else self.notes

    def _counted(self, scenario: Scenario, at: Micros | None = None, until: Micros | None = None) -> Workload:
        return OwnAccount(scenario, self.name, simulate=False, at=at, until=until, **self.done).load

    def _later(self, policy: Policy) -> Iterator[Later]:
        """Yield its load and a policy once the timeline has set something, or a client fills lists.

        What is set is left out under another catalogue.
        """
        own = policy.catalogue == self.policy.catalogue
        stretches = {at: (sets, after_it) for at, sets, after_it in self._stretches()} if own else {}
        scenario, then = self.scenario, policy
        counted = policy if own else self.policy.model_copy(update={"assumptions": policy.assumptions})
        for at in sorted({*stretches, *(begins for begins in self.fills if begins > self.now)}):
            sets, scenario = stretches.get(at, ({}, scenario))
            if sets:
                then = counted = self._with_changes_of(scenario, policy)
            load = replace(self._counted(_under(scenario, counted), until=at), left_out=self.load.left_out)
            yield Later(at, self._month(at), sets, load, then)

    def states(self, policy: Policy, plan: str = "") -> Iterator[Later]:
        """Yield its load under a policy as the scenario begins, and when it changes or something is set.

        Only clients that are at work then count, on a plan, or on the one that it has then; what is set or
        bought is left out under another catalogue. What is not counted is that of the whole month.
        """
        own = policy.catalogue == self.policy.catalogue
        counted = policy if own else self.policy.model_copy(update={"assumptions": policy.assumptions})
        stretches = {at: (sets, after_it) for at, sets, after_it in self._stretches()} if own else {}
        edges = [edge for each in self.recurring for edge in each.edges(self.now)]
        bought = purchases(
            self.scenario, self.name, plans=own and not plan, add_ons=own and "add_ons" not in self.done
        )
        edges += [(at, change_text(action)) for at, actions in bought.items() for action in actions]
        edges += changes_of(self.scenario, self.name)
        edges += edges_of_others(self.clients, self.simulated, self.now)
        stops = [each.there(self.now)[1] for each in self.recurring if each.client.stops is not None]
        edges_of_months = {month_end(self.anchor, stop - 1) for stop in stops}
        times = {self.now, *stretches, *(at for at, _ in edges), *self.load.left_out.since, *edges_of_months}
        scenario, before, has = self.scenario, None, Bought(plan or self.spec.plan, self.load.add_ons)
        under = policy
        for at in sorted(times):
            sets, scenario = stretches.get(at, ({}, scenario))
            if sets:
                under = counted = self._with_changes_of(scenario, policy)
            month, load = self._month(at), self._counted(_under(scenario, counted), at)
            left_out, used = self.load.left_out.at(at), load.used if month == 1 else None
            has = reduce(Bought.after, bought.get(at, ()), has)
            load = replace(load, left_out=left_out, used=used, plan=has.plan, add_ons=has.add_ons)
            texts = tuple(text for when, text in edges if when == at)
            if sets or texts or (load, under) != before:
                yield Later(at, month, sets, load, under, texts)
            before = load, under

    def _stretches(self) -> Iterator[tuple[Micros, Settings, Scenario]]:
        """Yield when the timeline sets something, what that is, and the scenario as it goes on."""
        scenario = self.scenario
        for at, actions in groupby(in_order(scenario), key=lambda pair: pair[1].at.on(self.now)):
            sets = [action for _, action in actions]
            for action in sets:
                scenario = after(scenario, action)
            yield at, {each.path: each.value for each in sets}, scenario

    def _with_changes_of(self, scenario: Scenario, policy: Policy) -> Policy:
        """Return a policy with what a scenario has changed of its own."""
        changes = {
            section: changed
            for section in ("catalogue", "facts", "statuses", "assumptions")
            if (changed := getattr(scenario.policy, section)) != getattr(self.policy, section)
        }
        return policy.model_copy(update=changes)

    def _month(self, at: Micros) -> int:
        """Return the number, from 1, of the month from now on that has an instant."""
        return month_number(self.anchor, self.now, at)

    @property
    def plan(self) -> Plan:
        """The plan that it is on."""
        return self.policy.catalogue.plans[self.spec.plan]

    @property
    def lists(self) -> tuple[int, ...]:
        """The number of keywords of each list."""
        return tuple(words for _, lists in lists_by_host(self.name, self.spec) for words, _ in lists)

    @property
    def sizes(self) -> list[int]:
        """How many slots a word has in one domain or another."""
        return sorted({each for _, lists in lists_by_host(self.name, self.spec) for _, each in lists})

    @property
    def anchor(self) -> Micros:
        """Where the billing months of the account are counted from (U51)."""
        if self.policy.assumptions.month == "calendar":
            return calendar_anchor()
        return self.now if self.spec.anchor is None else self.spec.anchor

    @property
    def domains(self) -> int:
        """All domains of the account."""
        return sum(part.domains for part in self.parts)

    @property
    def simulated(self) -> list[str]:
        """The clients that are not counted but simulated."""
        return [name for name in self.uncounted if not isinstance(self.clients[name], Python)]

    @property
    def replaced(self) -> set[str]:
        """The operations that are done as is given, or as nobody says, in place of what clients plan."""
        replaced = {operation for field, operation in SETS.items() if field in self.done}
        planned = {work.operation for client in self.recurring for work in client.work}
        return replaced if "rank_run" in planned else replaced | {"rank_run"}

    def _workload(self, simulate: bool, months: int, progress: Tell | None) -> Workload:
        scans = active_scans(self.spec)
        work, starts = tuple(self._work()), tuple(self._starts())
        left_out, self.left_out_notes = self._left_out(simulate, months, progress)
        edges = {edge for start in starts for edge in (start.months.start, start.months.stop)}
        edges -= {1, EVERY_MONTH.stop}
        load = Workload(
            domains=self.domains,
            keywords=tracked_words(self.filled),
            each=max(part.each for part in self.parts),
            slots=tracked_slots(self.filled),
            pairings=max((len(scan.engine_devices) for scan in scans), default=1),
            geographies=max((len(scan.geographies) for scan in scans), default=1),
            work=work,
            starts=starts,
            gaps=self._gaps(starts),
            gaps_since={
                month: self._gaps([start for start in starts if month in start.months])
                for month in (sorted(edges | {1}) if edges else ())
            },
            lengths={
                kind: max(pool.duration.durations)
                for kind, pool in self.scenario.pools.items()
                if pool.duration is not None
            },
            start_within=self.given.start_within,
            keys=self.given.keys,
            add_ons=self.done.get("add_ons", self.spec.add_ons),
            name=self.name,
            plan=self.spec.plan,
            now=self.now,
            anchor=self.anchor,
            used=self._used(),
            left_out=left_out,
            notes=(*_notes_of(self, work), *self.left_out_notes),
        )
        return load.over(self.given.spread) if "spread" in self.done else load

    def _gaps(self, starts: Sequence[JobStarts]) -> dict[str, Micros]:
        together = self.policy.assumptions.cooldown_scope == "account"
        return least_gaps(starts, self._running(), together=together)

    def _work(self) -> Iterator[PlannedWork]:
        """Yield the work of the billing month that has begun: as clients plan it, or as it is given."""
        start, replaced = self.now, self.replaced
        begun = billing_month(self.anchor, start)[0]
        at_work = [(client, client.most(start), False) for client in self.at_work]
        ended = [(client, occasions, True) for client, occasions in self.ended]
        for client, most, over in (*at_work, *ended):
            period = client.occasions.period
            first = client.occasions.phase(client.client.starts.on(start), begun)
            for work in client.work:
                if work.operation not in replaced:
                    yield PlannedWork(
                        work.operation, work.count, 1, period, work.size,
                        first, most, client.months(start, self.anchor),
                        (begun + first) % period if client.occasions.is_even else None, client.there(start),
                        client.instants(start), ended=over,
                    )  # fmt: skip
        for part in self.filled:
            for own in work_done(self.given, part.domains, part.keywords, part.each, part.slots):
                if own.operation in replaced:
                    yield own if DAY % own.gap else replace(own, phase=0)

    def _starts(self) -> Iterator[JobStarts]:
        """Yield when clients start what is charged to the expensive class of their keys, as the world would.

        That is as long as it takes to see every occasion twice.
        """
        policy, start, replaced = self.policy.assumptions, self.now, self.replaced
        if "rank_run" in replaced:
            yield replace(runs_of(self.given, self.domains), key=self._key(None))
        by_key = [
            (recurring.client, recurring.occasions, recurring.starts, recurring.months(start, self.anchor))
            for recurring in self.at_work
            if recurring.starts is not None and recurring.client.surface != "app"
        ]
        number = {host: at for at, host in enumerate(host for part in self.parts for host in part.hosts)}
        again = math.lcm(*(occasions.period for _, occasions, *_ in by_key))
        end = min(MONTH, 2 * again) + max((client.starts.after(start) for client, *_ in by_key), default=0)
        for client, occasions, starts, months in by_key:
            if starts.operation in replaced or not starts.requests:
                continue
            is_apart = client.surface == "graphql" and policy.graphql_cost == "separate"
            stops = end if client.stops is None else min(end, client.stops.after(start))
            times = tuple(occasions.times(client.starts.on(start), start + stops))
            yield JobStarts(
                starts.operation,
                starts.requests,
                times,
                starts.spread,
                tries=client.max_tries,
                calls=2 if starts.dry_run_first and policy.dry_run_class == "same" else 1,
                key=self._key(client.key) + ("/graphql" if is_apart else ""),
                gap=starts.gap,
                numbers=tuple(number[host] for host in starts.hosts if host in number),
                months=months,
            )

    def _starts_of(self, hosts: Sequence[str]) -> tuple[JobStarts, ...]:
        """Return when jobs of further domains are started, by their hosts, which clients name or run all."""
        if not hosts:
            return ()
        spec = self.spec.model_copy(
            update={"further": (*self.spec.further, PortfolioSpec(domains=tuple(hosts), keywords=1))}
        )
        accounts = self.scenario.accounts | {self.name: spec}
        scenario = self.scenario.model_copy(update={"accounts": accounts, "timeline": ()})
        order = list(spec.hosts(self.name))
        place = {host: -1 - at for at, host in enumerate(hosts)}  # numbers that no other domain has
        own = iter([start.domains for start in self._starts() if not start.numbers])
        joined = []
        for start in self._counted(scenario).starts:
            numbers = tuple(place[order[number]] for number in start.numbers if order[number] in place)
            if not start.numbers:  # of all domains, or of none
                numbers = tuple(range(-1, next(own, start.domains) - start.domains - 1, -1))
            joined += [replace(start, domains=len(numbers), numbers=numbers)] if numbers else []
        return tuple(joined)

    def _key(self, name: str | None) -> str:
        """Return the key that a client uses: the one of its own, or the account's first."""
        return name or (self.spec.keys[0].name if self.spec.keys else "")

    def _running(self) -> dict[str, Micros]:
        """Return by kind how long a job takes at least (µs), where what starts meanwhile joins it."""
        policy, pool = self.policy, self.scenario.pools.get("rank_run")
        if policy.assumptions.join not in ("after_health", "before_checks"):
            return {}
        sized = pool is not None and (pool.duration or pool.per_unit)
        length = pool.duration if pool and sized else policy.catalogue.job_durations["rank_run"]
        if length is None or length.kind in ("lognormal", "exponential"):
            return {"rank_run": 0}
        return {"rank_run": min(length.durations)}

    def _used(self) -> Used | None:
        """Return what was used when the scenario begins, and how far its month and week are."""
        used, now = self.spec.used, self.now
        if used is None:
            return None
        begun, end = billing_month(self.anchor, now)
        week = week_start(now, self.policy.assumptions.week_offset)
        return Used(used.metrics, used.spent, used.held, now - begun, now - week, end - now)

    def _left_out(
        self, simulate: bool, months: int, progress: Tell | None
    ) -> tuple[Uncounted, Sequence[str]]:
        """Return how much is not counted of the account, as worlds show it, and say what that is."""
        changes = [
            change
            for change in self.scenario.timeline
            if isinstance(change, Change) and change.account == self.name
        ]
        clients = self.simulated
        what = [f"{counted_actions(changes)} of the timeline"] if changes else []
        what += [f"what these clients spend: {', '.join(clients)}"] if clients else []
        if not what:
            return Uncounted(), ()
        if not simulate:
            return Uncounted(), (f"Left out: {'; '.join(what)}. `ranksim run` simulates it.",)
        from ranksim.planner.capacity.left_out import left_out_of  # worlds take time to import

        with noted("simulating", progress) as tell:
            edges = [at for each in self.recurring for at, _ in each.edges(self.now)]
            left_out = left_out_of(
                self.scenario, self.name, clients, changes, self._starts_of, edges, self.anchor, months, tell
            )
        amounts = [
            units.many(left_out.slots, "slot"),
            f"{units.write('money', left_out.spent)} a month",
            *(f"{count:,} {metric}" for metric, count in left_out.metrics.items() if count),
        ]
        several = len(left_out.since) > 1
        counted = (
            "`fit` and `portfolio` count what is there at each time" if several else "every size counts it"
        )
        comes_to = f"That comes to {' and '.join(amounts)} more, in the month of most; {counted}"
        if changes:
            comes_to += (
                ". What is removed grows no more, what is added does not grow; the number of domains is "
                "without those of the timeline"
            )
        return left_out, (f"Simulated once: {'; '.join(what)}. {comes_to}.",)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the scenario does not say, and that an answer is about the time before what is set."""
        paths = dict.fromkeys(action.path for _, action in in_order(self.scenario))
        before = f"The timeline sets {', '.join(paths)}: this is about what holds before."
        return (*self.load.notes, before) if paths else self.load.notes

    @property
    def held(self) -> int:
        """Slots that are held to the end of the month (S26)."""
        return 0 if self.load.used is None else self.load.used.held

    @property
    def slots_left(self) -> int:
        """Slots that neither are used by what is tracked nor held; below 0 where they are too few."""
        return self.plan.slot_limit - tracked_slots(self.parts) - self.held

    def room_for_words(self, to_come: int = 0) -> str:
        """Say for how many more words there are slots, beside those `to_come` for what is replaced."""
        held = f" and {self.held:,} held" if self.held else ""
        left = self.slots_left - to_come
        fitting = [(max(0, left) // each, each) for each in self.sizes if each]
        if len(fitting) > 1:
            words = " or ".join(
                f"{room:,} more words of {units.many(each, 'slot')}" for room, each in fitting
            )
            words += " each fit"
        else:
            words = f"{fitting[0][0]:,} more words fit" if fitting else "no scan is active"
        if to_come:
            held += f", and to the month's end what is replaced takes {to_come:,}"
            words += ", if none of them is replaced"
        if left < 0:
            words = f"{units.many(-left, 'slot')} are lacking, and additions are refused"
        used = f"{tracked_slots(self.parts):,} are used{held}"
        return f"Of the {self.plan.slot_limit:,} slots of the plan {self.plan.name} {used}: {words}."

    def jobs(self) -> dict[JobLabel, int]:
        """Return how many jobs of each kind one occasion starts at most, as long as it may be spread over."""
        together: Counter[tuple[JobLabel, Micros]] = Counter()
        for start in self.load.starts:
            if start.kind in KINDS:
                together.update(dict.fromkeys(((start.kind, at) for at in start.times), start.domains))
        most: dict[JobLabel, int] = {}
        for (kind, _), jobs in together.items():
            most[kind] = max(most.get(kind, 0), jobs)
        return most


def _under(scenario: Scenario, policy: Policy) -> Scenario:
    return scenario.model_copy(update={"policy": policy})


def workload_of(
    scenario: Scenario | str | Path, account: str = "", *, simulate: bool = True, **done: Any
) -> Workload:
    """Return the workload of an account of a scenario or its file, by its name, or of the only one there is.

    What cannot be counted is simulated, where that is asked for, to tell how much it is.
    `done` are fields of a `Portfolio` about what is done, `crawls=2`, which stand in place of what the
    scenario's clients do of it. Raises BadInput.
    """
    return OwnAccount(scenario, account, simulate=simulate, **done).load


def name_of_account(scenario: Scenario, name: str) -> str:
    """Return the name of an account of a scenario, or of the only one. Raises BadInput."""
    names = tuple(scenario.accounts)
    if name in names:
        return name
    if name:
        raise BadInput(f"account: {no_such('account', name, names)}")
    if len(names) > 1:
        raise BadInput(f"account: {scenario.name} has {len(names)}, {', '.join(names)}; name one")
    return names[0]


# What the scenario does not say


def _notes_of(account: OwnAccount, work: Sequence[PlannedWork]) -> Iterator[str]:
    """Yield what the scenario does not say of an account's work, and what is taken in its place."""
    yield from scenario_notes(account.scenario)
    if not any(client.starts and client.starts.operation == "rank_run" for client in account.recurring):
        yield no_rank_runs(next(planned.gap for planned in work if planned.operation == "rank_run"))
    for operation in dict.fromkeys(planned.operation for planned in work):
        what = SIZED.get(operation, "")
        if what and what not in account.done:
            size = getattr(account.given, what)
            yield f"A {operation} is taken to have {size} {what}: no scenario says it, --{what} does."
    if more := tracked_words(account.filled) - tracked_words(account.parts):
        syncs = [name for name, client in account.clients.items() if isinstance(client, KeywordSync)]
        slots = units.many(tracked_slots(account.filled) - tracked_slots(account.parts), "slot")
        words = f"{units.many(more, 'word')} in {slots}"
        yield f"Counted as tracked, as clients first fill lists with them: {words} ({', '.join(syncs)})."
    yield from notes_of_clients(account.scenario, account.clients, account.recurring, account.anchor)
