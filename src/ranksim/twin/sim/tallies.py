"""What is counted of jobs of a kind and their workers, of each webhook endpoint, and of open deliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.clock import Micros
from ranksim.core.service.calls import Answer, Attempt
from ranksim.core.service.state import State
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.hours import Hours
from ranksim.twin.sim.metric_families import LOST
from ranksim.twin.sim.series import account_names, unique

MAX_DISABLINGS = 20
"""The most disablings of one endpoint, and spans in which it was disabled, that are kept."""

MAX_OUTAGES = 100
"""The most outages of one receiver that are kept."""

COLUMNS = (
    "events",
    "acknowledged",
    *LOST,
    "pending",
    "duplicates",
    "disabled",
    "disablings",
    "disabled_spans",
)
"""What of an endpoint is plain data already."""

Outages = Callable[[Micros], list[tuple[Micros, Micros]]]
"""Returns when a receiver is down, [begin, end] in µs, until an instant."""


@dataclass(slots=True)
class JobTally:
    """The jobs of a kind, and their pool as it stands since `changed`.

    `busy`, `offered` and `waiting` are integrals over time (µs) of the pool's `running` jobs, its `capacity`
    (None: unlimited) and its `queue`. `most_running` and `most_queued` are the most since the sample before,
    `at_once` the most of both together since the hour began.
    """

    changed: Micros = 0
    running: int = 0
    capacity: int | None = 0
    queue: int = 0
    most_running: int = 0
    most_queued: int = 0
    at_once: int = 0
    max_waiting: int = 0
    offered: int | None = 0
    busy: int = 0
    waiting: int = 0
    queued: int = 0
    started: int = 0
    done: int = 0
    failed: int = 0
    wait: Histogram = field(default_factory=Histogram)

    def pool(self, now: Micros, running: int, capacity: int | None, queue: int) -> None:
        """Note the pool's new state; the one before lasted until `now`."""
        self.pass_time(now)
        self.running, self.capacity, self.queue = running, capacity, queue
        if queue > self.most_queued:
            self.most_queued = queue
            self.max_waiting = max(self.max_waiting, queue)
        if running > self.most_running:
            self.most_running = running
        if running + queue > self.at_once:
            self.at_once = running + queue

    def pass_time(self, now: Micros) -> None:
        """Integrate the pool up to `now`."""
        passed = now - self.changed
        self.busy += self.running * passed
        self.waiting += self.queue * passed
        if self.capacity is None:
            self.offered = None
        elif self.offered is not None:
            self.offered += self.capacity * passed
        self.changed = now

    def sample(self) -> tuple[int, int, int | None]:
        """Return the most that ran and waited since the sample before, and how many workers there are."""
        row = self.most_running, self.most_queued, self.capacity
        self.most_running, self.most_queued = self.running, self.queue
        return row

    def reset(self, now: Micros) -> JobTally:
        """Return a tally that starts afresh, with the pool as it stands."""
        return JobTally(
            changed=now,
            running=self.running,
            capacity=self.capacity,
            queue=self.queue,
            most_running=self.running,
            most_queued=self.queue,
            at_once=self.running + self.queue,
            max_waiting=self.queue,
            offered=None if self.capacity is None else 0,
        )

    def row(self, joined: int) -> dict[str, Any]:
        """Return the counts as plain data; `joined` calls became part of a job that was under way (E10)."""
        counts = {column: getattr(self, column) for column in ("queued", "started", "done", "failed")}
        pool = {column: getattr(self, column) for column in ("max_waiting", "busy", "offered", "waiting")}
        return {**counts, "joined": joined, **pool, "wait": self.wait.to_plain()}


@dataclass(slots=True)
class EndpointTally:
    """What became of the deliveries to one endpoint.

    `attempts` maps the number of an attempt to how many were acknowledged and failed; `stretches` the number
    of a stretch of time to these counts in it, and of the events that came in it the longest delay, or -1,
    and how many were lost.
    """

    account: str
    url: str
    events: int = 0
    acknowledged: int = 0
    lost_exhausted: int = 0
    lost_cancelled: int = 0
    lost_suppressed: int = 0
    pending: int = 0
    duplicates: int = 0
    disabled: int = 0
    disablings: list[list[Any]] = field(default_factory=list)
    disabled_since: Micros | None = None
    disabled_spans: list[list[Micros]] = field(default_factory=list)
    attempts: dict[int, list[int]] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    delay: Histogram = field(default_factory=Histogram)
    outages: list[list[Micros]] = field(default_factory=list)
    stretches: dict[int, list[int]] = field(default_factory=dict)

    def stretch(self, number: int) -> list[int]:
        """Return what there is to count of a stretch of time."""
        counts = self.stretches.get(number)
        if counts is None:
            counts = self.stretches[number] = [0, 0, -1, 0]
        return counts

    def enable(self, now: Micros) -> None:
        """End the time in which it is disabled, if it is."""
        if self.disabled_since is not None and len(self.disabled_spans) < MAX_DISABLINGS:
            self.disabled_spans.append([self.disabled_since, now])
        self.disabled_since = None

    def reset(self, now: Micros) -> EndpointTally:
        """Return a tally that starts afresh; an endpoint that is disabled stays so."""
        since = None if self.disabled_since is None else now
        return EndpointTally(self.account, self.url, disabled_since=since)

    def row(self, width: int) -> dict[str, Any]:
        """Return the counts as plain data; a stretch is so wide (µs), and begins at a multiple of that."""
        return {
            **{column: getattr(self, column) for column in COLUMNS},
            "attempts": [
                {"attempt": number, "sent": good + bad, "acknowledged": good, "failed": bad}
                for number, (good, bad) in sorted(self.attempts.items())
            ],
            "answers": dict(sorted(self.answers.items())),
            "delay": self.delay.to_plain(),
            "outages": self.outages,
            "stretches": [
                [number * width, good, bad, delay if delay >= 0 else None, lost]
                for number, (good, bad, delay, lost) in sorted(self.stretches.items())
            ],
        }


@dataclass(slots=True)
class _Open:
    """A delivery (event × endpoint) that is neither acknowledged nor given up."""

    endpoint: str
    created: Micros
    acted: bool = False


class DeliveryTally:
    """Counts deliveries by endpoint id; one is tried so many `attempts` (S90), a stretch is `width` µs.

    An endpoint without one of the `names` goes by its URL; `outages` are those of its receiver; `hours` keep
    how late events arrive, and which are lost.
    """

    def __init__(
        self,
        attempts: int,
        width: Micros,
        names: Mapping[str, str],
        outages: Mapping[str, Outages],
        hours: Hours,
    ) -> None:
        self.endpoints: dict[str, EndpointTally] = {}
        self._names = names
        self._outages = outages
        self._hours = hours
        self._attempts = attempts
        self._width = width
        self._open: dict[int, _Open] = {}

    def endpoint(self, endpoint: str, account: str = "", url: str = "") -> EndpointTally:
        """Return what is counted of an endpoint, of which more may have become known."""
        row = self.endpoints.get(endpoint)
        if row is None:
            row = self.endpoints[endpoint] = EndpointTally(account, url)
        elif url and not row.url:
            row.account, row.url = account, url
        return row

    def attempt(self, now: Micros, task: Attempt, answer: Answer, acted: bool) -> None:
        """Count an attempt as it is answered; `acted` says whether the receiver acted on the event.

        The first attempt is sent as the event is created, so that its duration tells when that was.
        """
        endpoint = self.endpoint(task.endpoint, task.account, task.url)
        delivery = self._open.get(task.delivery)
        if delivery is None:
            endpoint.events += 1
            delivery = self._open[task.delivery] = _Open(task.endpoint, now - answer.duration)
        if acted:
            endpoint.duplicates += delivery.acted
            delivery.acted = True
        success = answer.status is not None and 200 <= answer.status < 300
        endpoint.attempts.setdefault(task.number, [0, 0])[0 if success else 1] += 1
        response = answer.error or str(answer.status)
        endpoint.answers[response] = endpoint.answers.get(response, 0) + 1
        tried = now // self._width
        stretch = endpoint.stretch(tried)
        stretch[0 if success else 1] += 1
        if success:
            endpoint.acknowledged += 1
            delay = now - delivery.created
            endpoint.delay.add(delay)
            self._hours.event(task.endpoint, delivery.created, delay)
            created = delivery.created // self._width
            if created != tried:  # a delay is shown where its event came, not where it ended
                stretch = endpoint.stretch(created)
            if delay > stretch[2]:
                stretch[2] = delay
            del self._open[task.delivery]
        elif task.number >= self._attempts:
            endpoint.lost_exhausted += 1
            self._lose(task.endpoint, delivery.created)
            del self._open[task.delivery]

    def _lose(self, endpoint: str, created: Micros) -> None:
        self.endpoints[endpoint].stretch(created // self._width)[3] += 1
        self._hours.event(endpoint, created, None)

    def disabled(self, now: Micros, endpoint: str, reason: str) -> None:
        """Count a disabling. What that cancels is seen by `close_cancelled`."""
        row = self.endpoint(endpoint)
        row.disabled += 1
        row.disabled_since = now
        if len(row.disablings) < MAX_DISABLINGS:
            row.disablings.append([now, reason])

    def suppressed(self, now: Micros, endpoint: str) -> None:
        """Count an event that an endpoint was never sent, as failures had disabled it."""
        row = self.endpoint(endpoint)
        row.events += 1
        row.lost_suppressed += 1
        self._lose(endpoint, now)

    def close_cancelled(self, state: State) -> None:
        """Count as cancelled what is still open here but forgotten by the service."""
        for number in [number for number in self._open if number not in state.deliveries]:
            delivery = self._open.pop(number)
            self.endpoints[delivery.endpoint].lost_cancelled += 1
            self._lose(delivery.endpoint, delivery.created)

    def open_unanswered(self, state: State) -> None:
        """Know every endpoint, and count the events of which not even one attempt has been answered yet."""
        for endpoint in state.endpoints.values():
            self.endpoint(endpoint.id, endpoint.account, endpoint.url)
        for number, delivery in state.deliveries.items():
            if number not in self._open:
                row = self.endpoint(delivery.endpoint)
                row.events += 1
                self._open[number] = _Open(delivery.endpoint, delivery.created_at)

    def rows(self, now: Micros, since: Micros, state: State) -> list[dict[str, Any]]:
        """Return what was counted of each endpoint in [since, now) as plain data, sorted by name."""
        accounts = account_names(state)
        named = self.named()
        pending = Counter(delivery.endpoint for delivery in self._open.values())
        rows = []
        for which, row in self.endpoints.items():
            row.enable(now)
            row.pending = pending[which]
            spans = sorted(self._outages[which](now)) if which in self._outages else []
            spans = [(begin, end) for begin, end in spans if end > since][:MAX_OUTAGES]
            row.outages = [[max(begin, since), min(end, now)] for begin, end in spans]
            account = accounts.get(row.account, row.account)
            rows.append({"endpoint": named[which], "account": account, **row.row(self._width)})
        return sorted(rows, key=lambda row: str(row["endpoint"]))

    def named(self) -> dict[str, str]:
        """Return the name of each endpoint id: its own, its URL, or the id."""
        return unique({key: self._names.get(key) or row.url or key for key, row in self.endpoints.items()})

    def reset(self, now: Micros) -> None:
        """Start counting afresh; what is open stays so."""
        self.endpoints = {endpoint: row.reset(now) for endpoint, row in self.endpoints.items()}
        for delivery in self._open.values():
            self.endpoints[delivery.endpoint].events += 1
