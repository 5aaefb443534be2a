"""Worlds that are asked one thing: whether something happens in them, and when first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from simpy.events import Event

from ranksim.core.clock import HOUR, SECOND, Micros
from ranksim.core.contract.quantities import Moment
from ranksim.core.draws import Purpose, derive, entity
from ranksim.core.errors import BadInput, check_kind, read_at
from ranksim.core.service.calls import Answer, Attempt, Call, Reply
from ranksim.core.service.events import (
    DeliverySuppressed,
    EndpointDisabled,
    JobEnded,
    JobQueued,
    JobStarted,
    ServiceEvent,
)
from ranksim.report import units
from ranksim.report.heading import ExpectationVerdict
from ranksim.report.progress import Tell
from ranksim.twin.sim.drawn import is_drawn
from ranksim.twin.sim.expectations import READERS, Expectation, write_number
from ranksim.twin.sim.metric_families import LOST, REFUSING
from ranksim.twin.sim.metrics import WITHIN, check_name, scalars, unit_of
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.statistics import ReplicationTally, SilentTally, tally_of
from ranksim.twin.sim.timeline import EditEndpoint
from ranksim.twin.sim.why.explanation import Happening, Losses
from ranksim.twin.sim.world import Fork, World

SHRINKS = ("active", "held", "used", "pending", "mean_waiting")
"""Counts that may fall again, so that there is no first moment from which on they are too high."""

FORM = "METRIC or METRIC > VALUE, such as refusals.slot_limit_exceeded"
"""What is asked, in words."""

_ASKED = re.compile(r"([^\s<>=]+)(?:\s*(?:>(?!=)|<=|==(?=\s*0$))\s*(.+))?")
_WITHIN = re.compile(rf"(\S+?){re.escape(WITHIN)}(\w+).*")


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a metric that only grows comes to lie above a bound, such as whether there is any refusal."""

    metric: str
    bound: float = 0

    @classmethod
    def parse(cls, about: str | Expectation | ExpectationVerdict) -> Question:
        """Read `METRIC`, which asks whether there is any, or `METRIC > VALUE`. Raises BadInput.

        An expectation, `METRIC <= VALUE` or `METRIC == 0`, asks why it fails, also one of a result.
        """
        check_kind("why", about, str | Expectation | ExpectationVerdict, FORM)
        text = about.stated if isinstance(about, ExpectationVerdict) else str(about)
        if share := _WITHIN.fullmatch(text.strip()):
            waits = "{}.wait.max > {}".format(*share.groups())
            raise BadInput(
                f"why {text!r}: a share of waits may fall again, so there is no moment at which it is "
                f"decided; ask for the first that waits longer, {waits}"
            )
        match = _ASKED.fullmatch(text.strip())
        if match is None:
            raise BadInput(f"why {text!r}: expected {FORM}")
        metric, bound = match.groups()
        read_at("why", check_name, metric)
        if not _grows(metric):
            raise BadInput(
                f"why {metric}: it may fall again, so there is no moment at which it is decided; ask for a "
                "count, such as refusals.total, or for what ends in .max"
            )
        return cls(metric, 0 if bound is None else _bound(metric, bound))

    def __str__(self) -> str:
        more = f" > {write_number(self.bound, unit_of(self.metric))}" if self.bound else ""
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
        kind = self.metric.removeprefix("jobs.").removesuffix(".wait.max")
        return kind if self.metric == f"jobs.{kind}.wait.max" else ""

    @property
    def receiver(self) -> str:
        """The receiver that it is about, or ""."""
        family, name, *_ = (*self.metric.split("."), "")
        return name if family == "endpoints" else ""

    def describe(self, value: float) -> str:
        """Return in words that the answer is yes, with the value that made it so."""
        unit, field = unit_of(self.metric), self.metric.rpartition(".")[2]
        reached = write_number(value, unit)
        more = f" more than {write_number(self.bound, unit)}" if self.bound else ""
        if self.waiting:
            return f"{units.indefinite(self.waiting)} job waits{more} ({reached})"
        if self.receiver and field.startswith("lost"):
            return f"receiver {self.receiver} loses {units.many(int(value), 'event')}"
        return f"{self.metric} is{more or ' not 0'} ({reached})"

    def counts(self, client: str, reply: Reply) -> bool:
        """Return whether a call is one of those that it is about."""
        if reply.outcome not in REFUSING:
            return False
        whose = _client_of(self.metric)
        return client == whose if whose else self.code in ("", reply.code)


def _enabled(scenario: Scenario, receiver: str, times: Iterable[Micros]) -> Scenario:
    """Return the scenario with an endpoint enabled so long after the start."""
    again = (
        EditEndpoint(do="edit_endpoint", at=Moment(us=at), receiver=receiver, enabled=True) for at in times
    )
    return scenario.model_copy(update={"timeline": (*scenario.timeline, *again)})


def _client_of(metric: str) -> str:
    client = metric.removeprefix("clients.").removesuffix(".refusals")
    return client if metric == f"clients.{client}.refusals" else ""


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


class Stopping:
    """A tally that may let the run end early."""

    stop: Event | None = None

    def run(self, world: World) -> None:
        """Run a world to its end, or until this is known to be enough."""
        self.stop = world.env.event()
        world.at(world.end, self.end_now, urgent=True)
        world.env.run(until=self.stop)

    def end_now(self) -> None:
        """Let the run end, unless it has."""
        if self.stop is not None and not self.stop.triggered:
            self.stop.succeed()


class Counting(Stopping, ReplicationTally):
    """Counts as usual, and lets the run end once what is asked is known to be too many."""

    question: Question

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        """Count what became true, and look whether that is too many."""
        super().observe(events)
        self._look()

    def attempt(self, now: Micros, task: Attempt, answer: Answer, acted: bool) -> None:
        """Count a webhook attempt, and look whether that is too many."""
        super().attempt(now, task, answer, acted)
        self._look()

    def _look(self) -> None:
        about, _, field = self.question.metric.rpartition(".")
        rows: list[Any] = [row for kind, row in self._jobs.items() if about == f"jobs.{kind}"]
        for endpoint, row in self._deliveries.endpoints.items():
            if about in ("deliveries", f"endpoints.{self.endpoint_names.get(endpoint)}"):
                rows.append(row)
        counts = [getattr(row, of, 0) for row in rows for of in (LOST if field == "lost" else (field,))]
        if sum(counts) > self.question.bound:
            self.end_now()


class Watch(Stopping, SilentTally):
    """Watches for what first makes the answer yes, and counts nothing else."""

    def __init__(self, question: Question, world_of: Scenario) -> None:
        super().__init__(world_of.start, world_of.length, world_of.length)
        self.question = question
        self.found: Happening | None = None

    def find(self, happening: Happening) -> None:
        """Keep what made the answer yes, and let the run end."""
        if self.found is None:
            self.found = happening
            self.end_now()


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

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
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
                    self.happenings.append(Happening(event.at, f"{units.indefinite(event.kind)} job starts"))
                case JobEnded():
                    text = f"{units.indefinite(event.kind)} job is {event.outcome}"
                    self.happenings.append(Happening(event.at, text))
                case EndpointDisabled():
                    self._write(event, "the endpoint of receiver {} is disabled")
                case DeliverySuppressed(by_account=False):
                    self._write(event, "an event is not sent to receiver {}, whose endpoint is disabled")

    def _write(self, event: EndpointDisabled | DeliverySuppressed, text: str) -> None:
        name = self.endpoint_names.get(event.endpoint, event.endpoint)
        self.happenings.append(Happening(event.at, text.format(name), receiver=name))

    def attempt(self, now: Micros, task: Attempt, answer: Answer, acted: bool) -> None:
        """Count a webhook attempt and write it down."""
        super().attempt(now, task, answer, acted)
        name = self.endpoint_names.get(task.endpoint, task.url)
        outcome = answer.error or answer.status
        self.happenings.append(Happening(now, f"attempt {task.number} at {name}: {outcome}", receiver=name))


def _of_call(now: Micros, client: str, reply: Reply) -> Happening:
    refused = f" is refused: {reply.code}" if reply.outcome in REFUSING else ""
    return Happening(now, f"{reply.operation} of {client}{refused}", client)


@dataclass(slots=True)
class Rerunner:
    """Runs worlds and looks for the answer; `runs` counts them, `tell` is told of each.

    `most` is how many there are to be, about; `share` is how much of the search is over, as far as whoever
    searches knows. Where nothing is drawn a world is run once, and `last` is what came of it.
    """

    question: Question
    tell: Tell
    most: int | None = None
    runs: int = 0
    share: float = 0.0
    last: tuple[Scenario, Micros, bool] | None = None

    def over(self, share: float = 1.0) -> bool:
        """Return whether a share of the worlds that there are to be have been run."""
        return self.most is not None and self.runs >= share * self.most

    def is_exact(self, scenario: Scenario) -> bool:
        """Return whether a world of a scenario is like any other, as nothing is drawn in it."""
        return not is_drawn(scenario, self.question.metric)

    @property
    def watches(self) -> bool:
        """Whether what is asked can be watched, so that a world ends as soon as it happens."""
        return self.question.of_calls or self.question.waiting != ""

    def happens(self, scenario: Scenario, seed: int, fork: Fork | None = None) -> bool:
        """Return whether it happens in a world, or in another future of it."""
        at = fork.at if fork else scenario.start
        if self.last is not None and self.last[:2] == (scenario, at):
            return self.last[2]
        happens = self._happens(scenario, seed, fork)
        self.last = (scenario, at, happens) if self.is_exact(scenario) else None
        return happens

    def _happens(self, scenario: Scenario, seed: int, fork: Fork | None) -> bool:
        if self.watches:
            return self._watched(scenario, seed, fork) is not None
        tally = tally_of(scenario, Counting)
        tally.question = self.question
        world = self._world(scenario, seed, tally, fork)
        tally.run(world)
        replication = world.finish()
        assert replication is not None
        return (scalars(replication).get(self.question.metric) or 0) > self.question.bound

    def value(
        self,
        scenario: Scenario,
        seed: int,
        metric: str = "",
        until: Micros | None = None,
    ) -> float:
        """Return a metric of a world, what is asked unless named, when `until` has passed or at the end.

        0 where the world has no such metric.
        """
        tally = tally_of(scenario, ReplicationTally)
        measured = scalars(self._measured(scenario, seed, tally, until))
        return measured.get(metric or self.question.metric) or 0

    def refusals(self, scenario: Scenario, seed: int) -> tuple[tuple[str, int], ...]:
        """Return all refusals of the run by code, the most first, where they are asked for together."""
        if self.question.metric != "refusals.total":
            return ()
        measured = scalars(self._measured(scenario, seed, tally_of(scenario, ReplicationTally), None))
        of_codes = (name for name in measured if Question(name).code and unit_of(name) == "count")
        codes = [(Question(name).code, int(measured[name] or 0)) for name in of_codes]
        return tuple(sorted((row for row in codes if row[1]), key=lambda row: -row[1]))

    def losses(self, scenario: Scenario, seed: int) -> Losses | None:
        """Return what the receiver loses that it is about, and would lose if it were enabled after outages.

        None where it is about no losses, or none of them comes of a disabled endpoint.
        """
        name, start = self.question.receiver, scenario.start
        if not self.question.metric.startswith(f"endpoints.{name}.lost"):
            return None
        replication = self._measured(scenario, seed, tally_of(scenario, ReplicationTally), None)
        row = next(row for row in replication.endpoints if row["endpoint"] == name)
        if not row["lost_suppressed"]:
            return None
        disabled = row["disablings"][0][0]
        ends = tuple(end - start for _, end in row["outages"] if disabled < end < scenario.end)
        later, again = (disabled - start) // SECOND * SECOND + HOUR, None
        if not ends and later < scenario.length:
            tally = tally_of(scenario, ReplicationTally)
            rows = self._measured(_enabled(scenario, name, (later,)), seed, tally, None).endpoints
            disablings = next(row for row in rows if row["endpoint"] == name)["disablings"]
            again = next((at for at, _ in disablings if at > start + later), None)
        enabled = _enabled(scenario, name, ends)
        lost = f"endpoints.{name}.lost"
        both = int(scalars(replication)[lost] or 0), row["lost_suppressed"]
        return Losses(
            name,
            *both,
            ends,
            int(self.value(enabled, seed, lost)) if ends else both[0],
            *(() if again is None else (later, again)),
        )

    def first(self, scenario: Scenario, seed: int) -> tuple[Happening | None, list[Happening]]:
        """Return what first made the answer yes, or None, and all that happened before it."""
        first = self._watched(scenario, seed, None) if self.watches else None
        if self.watches and first is None:
            return None, []
        diary = tally_of(scenario, Diary, sample_every=scenario.length)
        ended = self._measured(scenario, seed, diary, first.at if first else None)
        happenings = sorted(diary.happenings, key=lambda happening: happening.at)
        if first is None:
            if (scalars(ended).get(self.question.metric) or 0) <= self.question.bound:
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
        world.tally = watch
        if watch.found is None:
            watch.run(world)
        return watch.found

    def _measured(
        self, scenario: Scenario, seed: int, tally: ReplicationTally, until: Micros | None
    ) -> Replication:
        world = self._world(scenario, seed, tally, None)
        if until is None or until + 1 >= scenario.end:
            world.run()
        else:
            world.env.run(until=until + 1 - scenario.start)
            world.finish()
        assert world.replication is not None
        return world.replication

    def _world(self, scenario: Scenario, seed: int, tally: ReplicationTally, fork: Fork | None) -> World:
        self.runs += 1
        most = "" if self.most is None else f" of about {self.most}"
        self.tell(self.share, f"{units.many(self.runs, 'world')}{most}")
        return World(scenario, seed=seed, tally=tally, fork=fork)


FEW = 10
"""So many trials at least, and half of those there may be, are enough where they agree."""


def successes(succeeds: Callable[[int], bool], most: int) -> tuple[int, int]:
    """Return how many of how many trials succeed: of `most`, or of the first few where these all agree."""
    few = min(most, max(FEW, most // 2))
    hits = sum(succeeds(number) for number in range(few))
    if hits in (0, few):
        return hits, few
    return hits + sum(succeeds(number) for number in range(few, most)), most


def other(seed: int, kind: str, number: int) -> int:
    """Return the seed of another future or world; those of different kinds are independent."""
    return derive(seed, entity(f"why/{kind}"), number, Purpose.REPLICATION)
