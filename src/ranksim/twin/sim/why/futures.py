"""Worlds that are asked one thing: whether something happens in them, and when first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from simpy.events import Event

from ranksim.core.callers.programs import AnyClient, Poller
from ranksim.core.clock import Micros
from ranksim.core.draws import Purpose, derive, entity
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Answer, Attempt, Call, Reply
from ranksim.core.service.events import (
    DeliverySuppressed,
    EndpointDisabled,
    JobEnded,
    JobQueued,
    JobStarted,
    ServiceEvent,
)
from ranksim.core.service.operations import TABLE, is_read_only
from ranksim.report import units
from ranksim.report.progress import Tell
from ranksim.twin.sim.expectations import READERS, show
from ranksim.twin.sim.metric_families import REFUSING
from ranksim.twin.sim.metrics import check_name, scalars, unit_of
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.statistics import ReplicationTally, SilentTally
from ranksim.twin.sim.timeline import OfReceiver, ResizePool
from ranksim.twin.sim.why.explanation import Happening
from ranksim.twin.sim.world import Fork, World

SHRINKS = ("active", "held", "used", "pending", "mean_waiting")
"""Counts that may fall again, so that there is no first moment from which on they are too high."""

_ASKED = re.compile(r"([^\s<>=]+)(?:\s*>\s*(.+))?")


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a metric that only grows comes to lie above a bound, such as whether there is any refusal."""

    metric: str
    bound: float = 0

    @classmethod
    def parse(cls, text: str) -> Question:
        """Read `METRIC`, which asks whether there is any, or `METRIC > VALUE`. Raises BadInput."""
        match = _ASKED.fullmatch(text.strip())
        if match is None:
            raise BadInput(
                f"why {text!r}: expected METRIC or METRIC > VALUE, such as refusals.slot_limit_exceeded"
            )
        metric, bound = match.groups()
        try:
            check_name(metric)
        except ValueError as error:
            raise BadInput(f"why: {error}") from None
        if not _grows(metric):
            raise BadInput(
                f"why {metric}: it may fall again, so there is no moment at which it is decided; ask for a "
                "count, such as refusals.total, or for what ends in .max"
            )
        return cls(metric, 0 if bound is None else _bound(metric, bound))

    def __str__(self) -> str:
        more = f" > {show(self.bound, unit_of(self.metric))}" if self.bound else ""
        return f"{self.metric}{more}"

    @property
    def code(self) -> str:
        """The error code that it is about, or ""."""
        family, _, code = self.metric.partition(".")
        return code if family == "refusals" and code != "total" else ""

    @property
    def of_calls(self) -> bool:
        """Whether it is about refused calls, which can be watched one by one."""
        return self.metric.startswith("refusals.") or _client_of(self.metric) != ""

    @property
    def waiting(self) -> str:
        """The kind of the jobs whose waits it is about, or ""; these can be watched one by one, too."""
        return (
            self.metric[5:-9] if self.metric.startswith("jobs.") and self.metric.endswith(".wait.max") else ""
        )

    @property
    def receiver(self) -> str:
        """The receiver that it is about, or ""."""
        family, _, rest = self.metric.partition(".")
        return rest.partition(".")[0] if family == "endpoints" else ""

    def describe(self, value: float) -> str:
        """Return in words that the answer is yes, with the value that made it so."""
        unit, field = unit_of(self.metric), self.metric.rpartition(".")[2]
        reached, more = show(value, unit), f" more than {show(self.bound, unit)}" if self.bound else ""
        if self.waiting:
            return f"a {self.waiting} job waits{more} ({reached})"
        if self.receiver and field.startswith("lost"):
            return f"receiver {self.receiver} loses {units.many(int(value), 'event')}"
        return f"{self.metric} is{more or ' not 0'} ({reached})"

    def counts(self, client: str, reply: Reply) -> bool:
        """Return whether a call is one of those that it is about."""
        if reply.outcome not in REFUSING:
            return False
        whose = _client_of(self.metric)
        return client == whose if whose else self.code in ("", reply.code)


def _client_of(metric: str) -> str:
    return metric[8:-9] if metric.startswith("clients.") and metric.endswith(".refusals") else ""


def _grows(metric: str) -> bool:
    field = metric.rpartition(".")[2]
    return field not in SHRINKS if unit_of(metric) == "count" else field == "max"


def _bound(metric: str, text: str) -> float:
    unit = unit_of(metric)
    try:
        return float(READERS[unit][0](text.strip()) if unit in READERS else text)
    except ValueError:
        expected = READERS[unit][1] if unit in READERS else "a number"
        raise BadInput(f"why {metric}: expected {expected} behind >, found {text!r}") from None


class Watch(SilentTally):
    """Watches for what first makes the answer yes, and counts nothing else."""

    def __init__(self, question: Question, world_of: Scenario) -> None:
        super().__init__(world_of.start, world_of.length, world_of.length)
        self.question = question
        self.found: Happening | None = None
        self.stop: Event | None = None

    def find(self, happening: Happening) -> None:
        """Keep what made the answer yes, and let the run end."""
        if self.found is None:
            self.found = happening
            self.end_now()

    def end_now(self) -> None:
        """Let the run end, unless it has."""
        if self.stop is not None and not self.stop.triggered:
            self.stop.succeed()


class CallWatch(Watch):
    """Watches for the call whose refusal is one too many."""

    seen = 0

    def call(self, now: Micros, client: str, call: Call, reply: Reply) -> None:
        """Look at a call."""
        if self.question.counts(client, reply):
            self.seen += 1
            if self.seen > self.question.bound:
                refusal = _of_call(now, client, reply)
                number = f", {self.seen:,} of them" if self.seen > 1 else ""
                self.find(refusal._replace(text=f"{refusal.text}{number}"))


class WaitWatch(Watch):
    """Watches for the job that waits too long."""

    def __init__(self, question: Question, world_of: Scenario) -> None:
        super().__init__(question, world_of)
        self.queued: dict[str, Micros] = {}

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        """Look at jobs that are handed to their pool, and taken up."""
        for event in events:
            match event:
                case JobQueued(kind=kind) if kind == self.question.waiting:
                    self.queued[event.job] = event.at
                case JobStarted() if event.job in self.queued:
                    wait = event.at - self.queued.pop(event.job)
                    if wait > self.question.bound:
                        self.find(Happening(event.at, self.question.describe(wait)))


class Diary(ReplicationTally):
    """Counts as usual, and writes down what happened when."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario.start, scenario.length, scenario.length, **_usual(scenario))
        self.happenings: list[Happening] = []

    def call(self, now: Micros, client: str, call: Call, reply: Reply) -> None:
        """Count a call and write it down."""
        super().call(now, client, call, reply)
        self.happenings.append(_of_call(now, client, reply))

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        """Count what became true, and write down what became of jobs and endpoints."""
        events = tuple(events)
        super().observe(events)
        for event in events:
            match event:
                case JobStarted():
                    self.happenings.append(Happening(event.at, f"a {event.kind} job starts"))
                case JobEnded():
                    self.happenings.append(Happening(event.at, f"a {event.kind} job is {event.outcome}"))
                case EndpointDisabled():
                    name = self.endpoint_names.get(event.endpoint, event.endpoint)
                    text = f"the endpoint of receiver {name} is disabled"
                    self.happenings.append(Happening(event.at, text, receiver=name))
                case DeliverySuppressed(by_account=False):
                    name = self.endpoint_names.get(event.endpoint, event.endpoint)
                    text = f"an event is not sent to receiver {name}, whose endpoint is disabled"
                    self.happenings.append(Happening(event.at, text, receiver=name))

    def attempt(self, now: Micros, task: Attempt, answer: Answer, acted: bool) -> None:
        """Count a webhook attempt and write it down."""
        super().attempt(now, task, answer, acted)
        name = self.endpoint_names.get(task.endpoint, task.url)
        outcome = answer.error or answer.status
        self.happenings.append(Happening(now, f"attempt {task.number} at {name}: {outcome}", receiver=name))


def _of_call(now: Micros, client: str, reply: Reply) -> Happening:
    refused = f" is refused: {reply.code}" if reply.outcome in REFUSING else ""
    return Happening(now, f"{reply.operation} of {client}{refused}", client)


def _usual(scenario: Scenario) -> dict[str, Any]:
    """What a tally must know of a scenario's policy."""
    policy = scenario.policy
    return {
        "attempts": policy.facts.webhook_attempts,
        "rate_class_of": {operation.name: operation.rate_class(policy).label for operation in TABLE},
        "reserved_counts": policy.assumptions.spent_counts == "settled_and_reserved",
        "catalogue": policy.catalogue,
    }


@dataclass(slots=True)
class Rerunner:
    """Runs worlds and looks for the answer; `runs` counts them, `tell` is told of each.

    `share` is how much of the search is over, as far as whoever searches knows.
    """

    question: Question
    tell: Tell
    runs: int = 0
    share: float = 0.0

    @property
    def watches(self) -> bool:
        """Whether what is asked can be watched, so that a world ends as soon as it happens."""
        return self.question.of_calls or self.question.waiting != ""

    def happens(self, scenario: Scenario, seed: int, fork: Fork | None = None) -> bool:
        """Return whether it happens in a world, or in another future of it."""
        if self.watches:
            return self._watched(scenario, seed, fork) is not None
        return self.value(scenario, seed, fork=fork) > self.question.bound

    def value(
        self, scenario: Scenario, seed: int, until: Micros | None = None, fork: Fork | None = None
    ) -> float:
        """Return what is asked of a world, of all of it or of what has happened when `until` has passed."""
        return self.metric(self.question.metric, scenario, seed, until, fork)

    def metric(
        self,
        name: str,
        scenario: Scenario,
        seed: int,
        until: Micros | None = None,
        fork: Fork | None = None,
    ) -> float:
        """Return a metric of a world, as `value` does; 0 where it has none."""
        tally = ReplicationTally(scenario.start, scenario.length, scenario.sample_every, **_usual(scenario))
        return self._measured(scenario, seed, tally, until, fork).get(name) or 0

    def first(self, scenario: Scenario, seed: int) -> tuple[Happening | None, list[Happening]]:
        """Return what first made the answer yes, or None, and all that happened before it."""
        first = self._watched(scenario, seed, None) if self.watches else None
        if self.watches and first is None:
            return None, []
        diary = Diary(scenario)
        ended = self._measured(scenario, seed, diary, first.at if first else None, None)
        happenings = sorted(diary.happenings, key=lambda happening: happening.at)
        if first is None:
            if (ended.get(self.question.metric) or 0) <= self.question.bound:
                return None, happenings
            first = self._bisected(scenario, seed, happenings)
        return first, [happening for happening in happenings if happening.at < first.at]

    def _bisected(self, scenario: Scenario, seed: int, happenings: list[Happening]) -> Happening:
        """Find what made the answer yes by ending the run earlier and earlier."""
        times = sorted({happening.at for happening in happenings})
        low, high = -1, len(times) - 1  # yes by the end of the run, which may be after the last of them
        value = self.value(scenario, seed, until=times[high])
        if not value > self.question.bound:
            return Happening(
                scenario.end, f"{self.question.describe(self.value(scenario, seed))} as the run ends"
            )
        while high - low > 1:
            middle = (low + high) // 2
            if (now := self.value(scenario, seed, until=times[middle])) > self.question.bound:
                high, value = middle, now
            else:
                low = middle
        then = [happening for happening in happenings if happening.at == times[high]]
        about = [happening for happening in then if happening.receiver == self.question.receiver] or then
        return about[-1]._replace(text=f"{self.question.describe(value)}: {about[-1].text}")

    def _watched(self, scenario: Scenario, seed: int, fork: Fork | None) -> Happening | None:
        watch = (CallWatch if self.question.of_calls else WaitWatch)(self.question, scenario)
        quiet = scenario.model_copy(update={"sample_every": scenario.length})
        world = self._world(quiet, seed, watch, fork)
        watch.stop = world.env.event()
        world.at(world.end, watch.end_now, urgent=True)
        world.tally = watch
        if watch.found is None:
            world.env.run(until=watch.stop)
        return watch.found

    def _measured(
        self,
        scenario: Scenario,
        seed: int,
        tally: ReplicationTally,
        until: Micros | None,
        fork: Fork | None,
    ) -> dict[str, float | None]:
        world = self._world(scenario, seed, tally, fork)
        if until is None or until + 1 >= scenario.end:
            world.run()
        else:
            world.env.run(until=until + 1 - scenario.start)
            world.finish()
        assert world.replication is not None
        return scalars(world.replication)

    def _world(self, scenario: Scenario, seed: int, tally: ReplicationTally, fork: Fork | None) -> World:
        self.runs += 1
        self.tell(self.share, units.many(self.runs, "world"))
        return World(scenario, seed=seed, tally=tally, fork=fork)


FEW = 10
"""So many trials at least, and half of those there may be, are enough where they agree."""


def tried(succeeds: Callable[[int], bool], most: int) -> tuple[int, int]:
    """Return how many of how many trials succeed: of `most`, or of the first few where these all agree."""
    few = min(most, max(FEW, most // 2))
    hits = sum(succeeds(number) for number in range(few))
    if hits in (0, few):
        return hits, few
    return hits + sum(succeeds(number) for number in range(few, most)), most


def other(seed: int, kind: str, number: int) -> int:
    """Return the seed of another future or world; those of different kinds are independent."""
    return derive(seed, entity(f"why/{kind}"), number, Purpose.REPLICATION)


def narrowed(scenario: Scenario, question: Question, account: str) -> Scenario:
    """Leave out who cannot have part in what happens to an account, so that many worlds can be tried.

    Clients that only read take no part unless calls are counted, or the rate limit refuses and they may come
    to it; nor do those that only start jobs where slots are lacking. Receivers take part in what is asked of
    receivers only, and what is of other accounts in nothing where no workers are shared.
    """
    if question.of_calls and not question.code:
        return scenario
    shared = any(pool.capacity != "unlimited" for pool in scenario.pools.values())
    apart = account and not shared and not any(isinstance(one, ResizePool) for one in scenario.timeline)
    clients = {
        name: one
        for name, one in scenario.clients.items()
        if not (apart and one.account not in (None, account)) and _has_part(scenario, question, one)
    }
    named = {action.receiver for action in scenario.timeline if isinstance(action, OfReceiver)}
    asked = question.metric.startswith(("endpoints.", "deliveries."))
    receivers = {
        name: one
        for name, one in scenario.receivers.items()
        if name in named or (asked and (not apart or one.account == account))
    }
    return scenario.model_copy(update={"clients": clients, "receivers": receivers})


def _has_part(scenario: Scenario, question: Question, client: AnyClient) -> bool:
    if question.code == "rate_limited":
        return not _keeps_below(scenario, client)
    if _only_reads(client):
        return False
    if question.code == "slot_limit_exceeded" and _only_starts_jobs(client):
        return scenario.policy.assumptions.expensive_debits_write  # else they leave writes as they are
    return True


def _keeps_below(scenario: Scenario, client: AnyClient) -> bool:
    """Whether a client polls so seldom, with a key of its own, that the rate limit never refuses it."""
    keys = [_key_of(scenario, one) for one in scenario.clients.values()]
    if not isinstance(client, Poller) or not _only_reads(client) or None in keys:
        return False
    facts = scenario.policy.facts
    polls = 1 + facts.rate_window // client.every
    return keys.count(_key_of(scenario, client)) == 1 and polls * client.pages <= facts.rates.read


def _key_of(scenario: Scenario, client: AnyClient) -> tuple[str, str] | None:
    """The account and the key that a client calls with; None where it may be any."""
    if client.account is None:
        return None
    return client.account, client.key or scenario.accounts[client.account].keys[0].name


def _only_reads(client: AnyClient) -> bool:
    return client.operations is not None and is_read_only(client.operations)


def _only_starts_jobs(client: AnyClient) -> bool:
    """Return whether a client takes no slots: none of what it calls changes what is tracked."""
    operations = client.operations
    return operations is not None and is_read_only(operations - {"jobs.create", "keyword_briefs.create"})
