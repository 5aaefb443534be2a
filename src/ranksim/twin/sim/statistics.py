"""What one replication counts and samples, in memory that does not grow with the length of the run.

A `ReplicationTally` observes everything that happens; `finish` gives a `Replication`, plain data that can be
pickled, written as JSON and put into tables (`results`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, Micros, billing_month, iso
from ranksim.core.contract.facts import JobKind, RateClass
from ranksim.core.contract.plans import Catalogue
from ranksim.core.rules.admission import held_at, reserved_at, settled_at, used_at
from ranksim.core.rules.windows import remaining
from ranksim.core.service.calls import Answer, Attempt, Call, Reply
from ranksim.core.service.events import (
    CallRefused,
    DeliverySuppressed,
    EndpointDisabled,
    EndpointEnabled,
    JobEnded,
    JobQueued,
    JobStarted,
    ServiceEvent,
)
from ranksim.core.service.service import Service
from ranksim.core.service.state import State
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.series import SampledSeries, account_names, unique

MAX_SAMPLES = 1_000
"""The most samples of a series that are kept; a finer grid is thinned, every peak still seen."""

MAX_NOTES = 100
"""The most different notes that are kept."""

LEFT_OUT = f"notes beyond the first {MAX_NOTES} are left out"

MAX_DISABLINGS = 20
"""The most disablings of one endpoint, and spans in which it was disabled, that are kept."""

MAX_OUTAGES = 100
"""The most outages of one receiver that are kept."""

NO_LIMIT = 1 << 62
"""What remains of a window in a reply that tells of none."""


@dataclass(slots=True)
class Replication:
    """The statistics of one replication, from `start` (after the warm-up) to `end`, both µs, as plain data.

    - `calls`: rows of client, operation, outcome, status, code, check, count
    - `jobs` by kind: queued, started, done, failed, joined, max_waiting; `busy`, `offered` and `waiting` are
      the time integrals (µs) of the pool's busy workers, its capacity (None: unlimited) and its queue;
      `wait` (µs) is a histogram
    - `endpoints`: rows of endpoint, account, events, acknowledged, lost_exhausted, lost_cancelled,
      lost_suppressed (never sent, as failures had disabled it), pending, duplicates, `disabled` (how often),
      `disablings` ([instant, reason], the first few), `disabled_spans` ([begin, end] of the time it stayed
      so, the first few), `attempts` (rows of attempt, sent, acknowledged, failed), `answers` (status or error
      to count), `delay` (histogram, µs), `outages` ([begin, end] of its receiver, the first few),
      `stretches` of time, each a thousandth of the run, in which something was tried or became of an event:
      rows of its begin, the attempts that were acknowledged and that failed in it, and of the events that
      came in it the longest delay (µs, None without one) and how many were lost
    - `series` by table: rows of its names, `peak`, and lists of equal length: t and the columns of `COLUMNS`
    - `invoices`: rows of account, month ("2026-03", in which the billing month begins), uusd: the price of
      the plan and add-ons that it had at the last sample of that month; None where a price is not known
    - `notes`: text to how often it was noted
    - `consulted`: the fields of the policy that the service read, which are no statistics
    - `network` by client that calls over one: `unanswered`, how many calls got no reply in time, and
      `response_time`, of the others (histogram, µs); empty without a network
    """

    seed: int
    start: Micros
    end: Micros
    calls: list[dict[str, Any]]
    jobs: dict[str, dict[str, Any]]
    endpoints: list[dict[str, Any]]
    series: dict[str, list[dict[str, Any]]]
    notes: dict[str, int]
    network: dict[str, dict[str, Any]] = field(default_factory=dict)
    consulted: tuple[str, ...] = ()
    invoices: list[dict[str, Any]] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """Return the statistics as one dict, for JSON; without `network` where there is none."""
        plain = asdict(self)
        del plain["consulted"]
        if not self.network:
            del plain["network"]
        return plain


@dataclass(slots=True)
class _Travels:
    """The calls of one client over a network."""

    unanswered: int = 0
    response_time: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class _Jobs:
    """One job kind: its counts, and its pool as it stands since `changed`."""

    queued: int = 0
    started: int = 0
    done: int = 0
    failed: int = 0
    wait: Histogram = field(default_factory=Histogram)
    changed: Micros = 0
    busy: int = 0
    capacity: int | None = 0
    waiting: int = 0
    busy_time: int = 0
    offered_time: int | None = 0
    waiting_time: int = 0
    max_waiting: int = 0
    most_busy: int = 0
    """The most since the sample before, as `most_waiting` is."""
    most_waiting: int = 0

    def pass_time(self, now: Micros) -> None:
        """Integrate the pool up to `now`."""
        passed = now - self.changed
        self.busy_time += self.busy * passed
        self.waiting_time += self.waiting * passed
        if self.capacity is None:
            self.offered_time = None
        elif self.offered_time is not None:
            self.offered_time += self.capacity * passed
        self.changed = now

    def reset(self, now: Micros) -> _Jobs:
        """Start counting afresh, with the pool as it stands."""
        return _Jobs(
            changed=now,
            busy=self.busy,
            capacity=self.capacity,
            waiting=self.waiting,
            max_waiting=self.waiting,
            most_busy=self.busy,
            most_waiting=self.waiting,
            offered_time=None if self.capacity is None else 0,
        )


@dataclass(slots=True)
class _Endpoint:
    """What became of the deliveries to one endpoint."""

    account: str
    url: str
    events: int = 0
    acknowledged: int = 0
    exhausted: int = 0
    cancelled: int = 0
    suppressed: int = 0
    duplicates: int = 0
    disabled: int = 0
    disablings: list[list[Any]] = field(default_factory=list)
    disabled_since: Micros | None = None
    disabled_spans: list[list[Micros]] = field(default_factory=list)
    attempts: dict[int, list[int]] = field(default_factory=dict)
    """Attempt number to [acknowledged, failed]."""
    answers: dict[str, int] = field(default_factory=dict)
    delay: Histogram = field(default_factory=Histogram)
    stretches: dict[int, list[int]] = field(default_factory=dict)
    """Number of a stretch of time to [acknowledged, failed, longest delay or -1, lost]."""

    def stretch(self, number: int) -> list[int]:
        """Return what there is to count of a stretch of time."""
        found = self.stretches.get(number)
        if found is None:
            found = self.stretches[number] = [0, 0, -1, 0]
        return found

    def enable(self, now: Micros) -> None:
        """End the time in which it is disabled, if it is."""
        if self.disabled_since is not None and len(self.disabled_spans) < MAX_DISABLINGS:
            self.disabled_spans.append([self.disabled_since, now])
        self.disabled_since = None

    def reset(self, now: Micros) -> _Endpoint:
        """Start counting afresh; one that is disabled stays so."""
        since = None if self.disabled_since is None else now
        return _Endpoint(self.account, self.url, disabled_since=since)


@dataclass(slots=True)
class _Open:
    """A delivery (event × endpoint) that is neither acknowledged nor given up."""

    endpoint: str
    created: Micros
    acted: bool = False


class ReplicationTally:
    """Counts and samples one replication of a scenario that runs in [start, start + length).

    What happens before `warm_up` (µs after the start) is dropped. `attempts` is how often a delivery is tried
    (S90). `rate_class_of` tells the rate class of an operation; calls of others are in no window.
    `endpoint_names` may be filled with endpoint id to name; otherwise endpoints go by their URL; `outages`
    with endpoint id to what tells when its receiver is down, [begin, end] in µs, until an instant.
    `reserved_counts` says whether reserved cost counts as spent (U96). `on_sample` is called with `now` at
    each sample, to show progress.
    """

    def __init__(
        self,
        start: Micros,
        length: int,
        sample_every: int,
        *,
        seed: int = 0,
        warm_up: int = 0,
        attempts: int = 6,
        rate_class_of: Mapping[str, str] | None = None,
        reserved_counts: bool = True,
        catalogue: Catalogue | None = None,
        on_sample: Callable[[Micros], None] | None = None,
    ) -> None:
        self.start = start
        self.end = start + length
        self.seed = seed
        self.attempts = attempts
        self.rate_class_of = rate_class_of or {}
        self.endpoint_names: dict[str, str] = {}
        self.outages: dict[str, Callable[[Micros], list[tuple[Micros, Micros]]]] = {}
        self.reserved_counts = reserved_counts
        self.catalogue = catalogue
        self.on_sample = on_sample
        self._cut = start + warm_up if warm_up else DISTANT_FUTURE
        self._stride = max(1, -(-length // (max(1, sample_every) * MAX_SAMPLES)))
        self._stretch = max(1, -(-length // MAX_SAMPLES))
        self._turn = 0
        self._sampled: Micros | None = None
        self._calls: dict[tuple[str, str, str, int, str, int], int] = {}
        self._rates: dict[tuple[str, str, bool], list[int]] = {}
        self._no_slots: dict[str, int] = {}
        self._jobs: dict[str, _Jobs] = {}
        self._waiting: dict[str, Micros] = {}
        self._endpoints: dict[str, _Endpoint] = {}
        self._open: dict[int, _Open] = {}
        self._series = SampledSeries()
        self._sold: dict[tuple[str, Micros], tuple[str, dict[str, int]]] = {}
        self._notes: dict[str, int] = {}
        self._travels: dict[str, _Travels] = {}

    # What happens

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        """Count what became true in the service: jobs on their way, endpoints disabled, slots lacking."""
        for event in events:
            match event:
                case JobQueued():
                    self.job_queued(event.at, event.kind, event.job)
                case JobStarted():
                    self.job_started(event.at, event.kind, event.job)
                case JobEnded():
                    self.job_ended(event.at, event.kind, event.job, event.outcome)
                case EndpointDisabled(by_account=False):
                    self.endpoint_disabled(event.at, event.endpoint, event.reason)
                case EndpointEnabled():
                    self.endpoint_enabled(event.at, event.endpoint)
                case DeliverySuppressed(by_account=False):
                    self.delivery_suppressed(event.at, event.endpoint)
                case CallRefused(code="slot_limit_exceeded"):
                    self._no_slots[event.account] = self._no_slots.get(event.account, 0) + 1

    def call(self, now: Micros, client: str, call: Call, reply: Reply) -> None:
        """Count a call and its reply."""
        if now >= self._cut:
            self.reset(self._cut)
        code = reply.code
        what = (client, reply.operation, reply.outcome, reply.status, code, reply.check)
        self._calls[what] = self._calls.get(what, 0) + 1
        if call.key is not None:
            rate = (call.key, reply.operation, code == "rate_limited")
            seen = self._rates.get(rate)
            if seen is None:
                seen = self._rates[rate] = [0, NO_LIMIT, 0]
            seen[0] += 1
            left = int(reply.headers.get("RateLimit-Remaining", NO_LIMIT))
            if left < seen[1]:
                seen[1] = left
                seen[2] = int(reply.headers["RateLimit-Limit"])

    def answered(self, now: Micros, client: str, response_time: Micros) -> None:
        """Observe that a reply reached its client over the network, so long (µs) after the call was sent."""
        self._travels_of(now, client).response_time.add(response_time)

    def unanswered(self, now: Micros, client: str) -> None:
        """Observe that a client gave a call up without a reply."""
        self._travels_of(now, client).unanswered += 1

    def _travels_of(self, now: Micros, client: str) -> _Travels:
        if now >= self._cut:
            self.reset(self._cut)
        return self._travels.setdefault(client, _Travels())

    def job_queued(self, now: Micros, kind: str, job: str) -> None:
        """Note that a job was handed to its pool."""
        self._kind(now, kind).queued += 1
        self._waiting[job] = now

    def job_started(self, now: Micros, kind: str, job: str) -> None:
        """Note that a worker took a job up: its wait ends."""
        jobs = self._kind(now, kind)
        jobs.started += 1
        jobs.wait.add(now - self._waiting.pop(job, now))

    def job_ended(self, now: Micros, kind: str, job: str, outcome: str) -> None:
        """Note that a job ended, "done" or "failed"; one that never started has no wait."""
        jobs = self._kind(now, kind)
        if outcome == "done":
            jobs.done += 1
        else:
            jobs.failed += 1
        self._waiting.pop(job, None)

    def pool(self, now: Micros, kind: str, busy: int, capacity: int | None, waiting: int) -> None:
        """Note a pool's new state; the one before lasted until `now`. `capacity` None is unlimited."""
        jobs = self._kind(now, kind)
        jobs.pass_time(now)
        jobs.busy, jobs.capacity, jobs.waiting = busy, capacity, waiting
        if waiting > jobs.most_waiting:
            jobs.most_waiting = waiting
            jobs.max_waiting = max(jobs.max_waiting, waiting)
        if busy > jobs.most_busy:
            jobs.most_busy = busy

    def attempt(self, now: Micros, task: Attempt, answer: Answer, acted: bool) -> None:
        """Note an attempt as it is answered; `acted` says whether the receiver acted on the event.

        The first attempt is sent as the event is created, so that its duration tells when that was.
        """
        if now >= self._cut:
            self.reset(self._cut)
        endpoint = self._endpoint(task.endpoint, task.account, task.url)
        delivery = self._open.get(task.delivery)
        if delivery is None:
            endpoint.events += 1
            delivery = self._open[task.delivery] = _Open(task.endpoint, now - answer.duration)
        if acted:
            endpoint.duplicates += delivery.acted
            delivery.acted = True
        success = answer.status is not None and 200 <= answer.status < 300
        endpoint.attempts.setdefault(task.number, [0, 0])[0 if success else 1] += 1
        said = answer.error or str(answer.status)
        endpoint.answers[said] = endpoint.answers.get(said, 0) + 1
        tried = now // self._stretch
        stretch = endpoint.stretch(tried)
        stretch[0 if success else 1] += 1
        if success:
            endpoint.acknowledged += 1
            delay = now - delivery.created
            endpoint.delay.add(delay)
            made = delivery.created // self._stretch
            if made != tried:
                stretch = endpoint.stretch(made)
            if delay > stretch[2]:
                stretch[2] = delay
            del self._open[task.delivery]
        elif task.number >= self.attempts:
            endpoint.exhausted += 1
            endpoint.stretch(delivery.created // self._stretch)[3] += 1
            del self._open[task.delivery]

    def endpoint_disabled(self, now: Micros, endpoint: str, reason: str) -> None:
        """Note that an endpoint was disabled. What that cancels is seen at the next sample."""
        if now >= self._cut:
            self.reset(self._cut)
        row = self._endpoint(endpoint)
        row.disabled += 1
        row.disabled_since = now
        if len(row.disablings) < MAX_DISABLINGS:
            row.disablings.append([now, reason])

    def endpoint_enabled(self, now: Micros, endpoint: str) -> None:
        """Note that an endpoint was enabled again."""
        if now >= self._cut:
            self.reset(self._cut)
        self._endpoint(endpoint).enable(now)

    def delivery_suppressed(self, now: Micros, endpoint: str) -> None:
        """Note an event that an endpoint was never sent, as failures had disabled it."""
        if now >= self._cut:
            self.reset(self._cut)
        row = self._endpoint(endpoint)
        row.events += 1
        row.suppressed += 1
        row.stretch(now // self._stretch)[3] += 1

    def note(self, text: str) -> None:
        """Keep a remark; the same text twice is counted, and so are those that find no room."""
        if text not in self._notes and len(self._notes) >= MAX_NOTES:
            text = LEFT_OUT
        self._notes[text] = self._notes.get(text, 0) + 1

    def sample(self, now: Micros, service: Service) -> None:
        """Read the service's state into the series: on a fixed grid of `sample_every`, in order of time."""
        if now >= self._cut:
            self.reset(self._cut)
        self._close_cancelled(service.state)
        self._read(now, now, service.state, keep=self._turn % self._stride == 0)
        self._turn += 1
        if self.on_sample is not None:
            self.on_sample(now)

    def reset(self, now: Micros) -> None:
        """Drop every count and sample before `now`; what is queued, open or running then stays so."""
        self._cut = DISTANT_FUTURE
        self.start = now
        self._turn = 0
        self._sampled = None
        self._calls.clear()
        self._travels.clear()
        self._rates.clear()
        self._no_slots.clear()
        self._series.clear()
        self._sold.clear()
        for kind, jobs in self._jobs.items():
            self._jobs[kind] = jobs.reset(now)
        self._endpoints = {name: row.reset(now) for name, row in self._endpoints.items()}
        for delivery in self._open.values():
            self._endpoints[delivery.endpoint].events += 1

    def finish(self, now: Micros, service: Service) -> Replication:
        """Return the statistics up to `now`, the end, which itself is outside the run.

        The last sample stands at `now` and shows the service in the last microsecond before it, so that an
        allowance that resets at the very end is seen as it was used.
        """
        if now >= self._cut:
            self.reset(self._cut)
        state = service.state
        self._close_cancelled(state)
        self._open_unanswered(state)
        if self._sampled != now:
            self._read(now, now - 1, state, keep=True)
        for jobs in self._jobs.values():
            jobs.pass_time(now)
        notes = dict(self._notes)
        if self._stride > 1:
            notes[f"one sample in {self._stride} is kept; peaks are of all samples"] = 1
        return Replication(
            seed=self.seed,
            start=self.start,
            end=now,
            calls=self._call_rows(),
            jobs={kind.value: self._job_row(kind) for kind in JobKind if kind in self._jobs},
            endpoints=self._endpoint_rows(now, state),
            series=self._series.rows(state, self._jobs),
            notes=dict(sorted(notes.items())),
            network={
                client: {"unanswered": row.unanswered, "response_time": row.response_time.to_plain()}
                for client, row in sorted(self._travels.items())
            },
            consulted=service.consulted(),
            invoices=self._invoice_rows(state),
        )

    # Jobs and deliveries

    def _kind(self, now: Micros, kind: str) -> _Jobs:
        if now >= self._cut:
            self.reset(self._cut)
        jobs = self._jobs.get(kind)
        if jobs is None:
            jobs = self._jobs[kind] = _Jobs(changed=now)
        return jobs

    def _endpoint(self, endpoint: str, account: str = "", url: str = "") -> _Endpoint:
        row = self._endpoints.get(endpoint)
        if row is None:
            row = self._endpoints[endpoint] = _Endpoint(account, url)
        elif url and not row.url:
            row.account, row.url = account, url
        return row

    def _close_cancelled(self, state: State) -> None:
        """Count as cancelled what is still open here but forgotten by the service."""
        gone = [number for number in self._open if number not in state.deliveries]
        for number in gone:
            delivery = self._open.pop(number)
            endpoint = self._endpoints[delivery.endpoint]
            endpoint.cancelled += 1
            endpoint.stretch(delivery.created // self._stretch)[3] += 1

    def _open_unanswered(self, state: State) -> None:
        """Know every endpoint, and count the events of which not even one attempt has been answered yet."""
        for endpoint in state.endpoints.values():
            self._endpoint(endpoint.id, endpoint.account, endpoint.url)
        for number, delivery in state.deliveries.items():
            if number not in self._open:
                row = self._endpoint(delivery.endpoint)
                row.events += 1
                self._open[number] = _Open(delivery.endpoint, delivery.created_at)

    # Samples

    def _read(self, now: Micros, at: Micros, state: State, keep: bool) -> None:
        """Sample the state as of `at` under the time `now`; without `keep` for the peaks alone."""
        self._sampled = now if keep else self._sampled
        for account in state.accounts.values():
            books = account.books
            month, _ = billing_month(books.anchor, at)
            self._sold[account.id, month] = account.plan, dict(account.add_ons)
            held = held_at(at, books)
            used = books.active + held
            row = (books.active, held, used, books.slot_limit, self._no_slots.get(account.id, 0))
            self._series.add("slots", (account.id,), now, row, keep)
            settled, reserved = settled_at(at, books), reserved_at(at, books)
            spent = settled + reserved if self.reserved_counts else settled
            costs = (settled, reserved, spent, books.ceiling)
            self._series.add("spend", (account.id,), now, costs, keep)
            for metric, meter in account.meters.items():
                units = used_at(at, meter)
                self._series.add("meters", (account.id, metric), now, (units, meter.limit), keep)
        if keep:
            self._no_slots.clear()
            self._read_windows(now, at, state)
            self._read_queues(now)

    def _read_windows(self, now: Micros, at: Micros, state: State) -> None:
        rates: dict[tuple[str, str], tuple[list[int], list[tuple[int, int]]]] = {}
        for (token, operation, refused), (count, left, limit) in self._rates.items():
            rate_class = self.rate_class_of.get(operation, "")
            counts, told = rates.setdefault((token, rate_class), ([0, 0], []))
            counts[refused] += count
            told.append((left, limit))
        self._rates.clear()
        for token, key in state.keys.items():
            for which in RateClass:
                counts, told = rates.get((token, which.label), ([0, 0], []))
                window = key.windows[which]
                still = remaining(at, window, key.rings[which])
                left, limit = min([*told, (still, window.limit)])
                row = (*counts, still, limit - left, limit, window.length)
                self._series.add("windows", (token, which.label), now, row, True)

    def _read_queues(self, now: Micros) -> None:
        for kind in JobKind:
            jobs = self._jobs.get(kind)
            if jobs is None:
                self._series.add("queues", (kind.value,), now, (0, 0, None), True)
                continue
            row = (jobs.most_busy, jobs.most_waiting, jobs.capacity)
            self._series.add("queues", (kind.value,), now, row, True)
            jobs.most_busy, jobs.most_waiting = jobs.busy, jobs.waiting

    # Rows

    def _call_rows(self) -> list[dict[str, Any]]:
        names = ("client", "operation", "outcome", "status", "code", "check")
        return [
            {**dict(zip(names, what, strict=True)), "count": count}
            for what, count in sorted(self._calls.items())
        ]

    def _invoice_rows(self, state: State) -> list[dict[str, Any]]:
        """What each account pays for each billing month, by what it had at its end, or at that of the run."""
        catalogue, names = self.catalogue, account_names(state)
        if catalogue is None:
            return []
        return [
            {
                "account": names[account],
                "month": iso(month)[:7],
                "uusd": catalogue.price_of(plan, add_ons) if catalogue.knows_price_of(plan) else None,
            }
            for (account, month), (plan, add_ons) in sorted(self._sold.items())
        ]

    def _job_row(self, kind: str) -> dict[str, Any]:
        jobs = self._jobs[kind]
        joined = sum(count for what, count in self._calls.items() if what[2] == "joined")  # rank runs (E10)
        return {
            "queued": jobs.queued,
            "started": jobs.started,
            "done": jobs.done,
            "failed": jobs.failed,
            "joined": joined if kind == JobKind.RANK_RUN else 0,
            "max_waiting": jobs.max_waiting,
            "busy": jobs.busy_time,
            "offered": jobs.offered_time,
            "waiting": jobs.waiting_time,
            "wait": jobs.wait.to_plain(),
        }

    def _outages(self, endpoint: str, now: Micros) -> list[list[Micros]]:
        """Return when an endpoint's receiver was down, of what statistics are about."""
        if endpoint not in self.outages:
            return []
        found = sorted(self.outages[endpoint](now))
        return [[max(begin, self.start), min(end, now)] for begin, end in found if end > self.start][
            :MAX_OUTAGES
        ]

    def _endpoint_rows(self, now: Micros, state: State) -> list[dict[str, Any]]:
        accounts = account_names(state)
        names = unique(
            {
                which: self.endpoint_names.get(which) or row.url or which
                for which, row in self._endpoints.items()
            }
        )
        pending: dict[str, int] = {}
        for row in self._endpoints.values():
            row.enable(now)
        for delivery in self._open.values():
            pending[delivery.endpoint] = pending.get(delivery.endpoint, 0) + 1
        rows = [
            {
                "endpoint": names[which],
                "account": accounts.get(row.account, row.account),
                "events": row.events,
                "acknowledged": row.acknowledged,
                "lost_exhausted": row.exhausted,
                "lost_cancelled": row.cancelled,
                "lost_suppressed": row.suppressed,
                "pending": pending.get(which, 0),
                "duplicates": row.duplicates,
                "disabled": row.disabled,
                "disablings": row.disablings,
                "disabled_spans": row.disabled_spans,
                "attempts": [
                    {"attempt": number, "sent": good + bad, "acknowledged": good, "failed": bad}
                    for number, (good, bad) in sorted(row.attempts.items())
                ],
                "answers": dict(sorted(row.answers.items())),
                "delay": row.delay.to_plain(),
                "outages": self._outages(which, now),
                "stretches": [
                    [number * self._stretch, good, bad, delay if delay >= 0 else None, lost]
                    for number, (good, bad, delay, lost) in sorted(row.stretches.items())
                ],
            }
            for which, row in self._endpoints.items()
        ]
        return sorted(rows, key=lambda row: str(row["endpoint"]))


class SilentTally(ReplicationTally):
    """Counts nothing: what looks at a world for one thing overrides what it looks at."""

    def call(self, now: Micros, client: str, call: Call, reply: Reply) -> None:
        """Look away."""

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        """Look away."""

    def attempt(self, now: Micros, task: Attempt, answer: Answer, acted: bool) -> None:
        """Look away."""

    def pool(self, now: Micros, kind: str, busy: int, capacity: int | None, waiting: int) -> None:
        """Look away."""

    def sample(self, now: Micros, service: Service) -> None:
        """Look away."""
