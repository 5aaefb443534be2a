"""What one replication counts and samples, in memory that does not grow with the length of the run; but for a
peak a day of each series of a long one.

A `ReplicationTally` observes everything that happens; `finish` gives a `Replication`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from ranksim.core.clock import DISTANT_FUTURE, HOUR, Micros, billing_month, iso
from ranksim.core.contract.facts import JobKind, RateClass
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy
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
from ranksim.core.service.state import Account, State
from ranksim.core.service.window_table import key_windows, window_by_operation
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.hours import Hours
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.series import SampledSeries, account_names, series_names
from ranksim.twin.sim.tallies import DeliveryTally, JobTally, Outages

if TYPE_CHECKING:
    from ranksim.twin.sim.scenario import Scenario

MAX_SAMPLES = 1_000
"""The most samples of a series that are kept; a finer grid is thinned, every peak still seen."""

MAX_NOTES = 100
"""The most different notes that are kept."""

LEFT_OUT = f"notes beyond the first {MAX_NOTES} are left out"

NO_LIMIT = 1 << 62
"""What remains of a window in a reply that tells of none."""

Tally = TypeVar("Tally")


@dataclass(slots=True)
class _Travels:
    """The calls of one client over a network."""

    unanswered: int = 0
    response_time: Histogram = field(default_factory=Histogram)


class ReplicationTally:
    """Counts and samples one replication of a scenario that runs in [start, start + length).

    What happens before `warm_up` (µs after the start) is dropped. `attempts` is how often a delivery is tried
    (S90). `policy` tells which rate window counts an operation.
    `endpoint_names` may be filled with endpoint id to name; otherwise endpoints go by their URL; `outages`
    with endpoint id to what tells when its receiver is down, [begin, end] in µs, until an instant.
    `reserved_counts` says whether reserved cost counts as spent (U96). `on_sample` hears each sample's `now`.
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
        policy: Policy | None = None,
        reserved_counts: bool = True,
        catalogue: Catalogue | None = None,
        on_sample: Callable[[Micros], None] | None = None,
    ) -> None:
        self.start = start
        self.end = start + length
        self.seed = seed
        self._policy = policy or Policy()
        self.rate_class_of = window_by_operation(self._policy)
        self.endpoint_names: dict[str, str] = {}
        self.outages: dict[str, Outages] = {}
        self.reserved_counts = reserved_counts
        self.catalogue = catalogue
        self.on_sample = on_sample
        self._cut = start + warm_up if warm_up else DISTANT_FUTURE
        self._hours = Hours(start, length)
        self._due = min(self._cut, self._hours.due)
        self._stride = max(1, -(-length // (max(1, sample_every) * MAX_SAMPLES)))
        self._turn = 0
        self._sampled: Micros | None = None
        self._calls: dict[tuple[str, str, str, int, str, int], int] = {}
        self._rates: dict[tuple[str, str, bool], list[int]] = {}
        self._windows: dict[tuple[str, str], list[int]] = {}
        self._no_slots: dict[str, int] = {}
        self._jobs: dict[str, JobTally] = {}
        self._waiting: dict[str, Micros] = {}
        width = max(1, -(-length // MAX_SAMPLES))
        self._deliveries = DeliveryTally(attempts, width, self.endpoint_names, self.outages, self._hours)
        self._series = SampledSeries()
        self._invoiced: dict[tuple[str, Micros], int | None] = {}
        self._notes: dict[str, int] = {}
        self._travels: dict[str, _Travels] = {}
        self._given_up: Counter[tuple[str, str, int]] = Counter()

    # What happens

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        """Count what became true in the service: jobs on their way, endpoints disabled, slots lacking."""
        for event in events:
            match event:
                case JobQueued():
                    self._kind(event.at, event.kind).queued += 1
                    self._waiting[event.job] = event.at
                case JobStarted():
                    jobs = self._kind(event.at, event.kind)
                    jobs.started += 1
                    jobs.wait.add(event.at - self._waiting.pop(event.job, event.at))
                case JobEnded():
                    jobs = self._kind(event.at, event.kind)
                    if event.outcome == "done":
                        jobs.done += 1
                    else:
                        jobs.failed += 1
                    self._waiting.pop(event.job, None)  # one that never started has no wait
                case EndpointDisabled(by_account=False):
                    self._deliveries_at(event.at).disabled(event.at, event.endpoint, event.reason)
                case EndpointEnabled():
                    self._deliveries_at(event.at).endpoint(event.endpoint).enable(event.at)
                case DeliverySuppressed(by_account=False):
                    self._deliveries_at(event.at).suppressed(event.at, event.endpoint)
                case CallRefused(code="slot_limit_exceeded"):
                    self._no_slots[event.account] = self._no_slots.get(event.account, 0) + 1

    def call(self, now: Micros, client: str, call: Call, reply: Reply) -> None:
        """Count a call and its reply."""
        if now >= self._due:
            self._pass(now)
        code = reply.code
        what = (client, reply.operation, reply.outcome, reply.status, code, reply.check)
        self._calls[what] = self._calls.get(what, 0) + 1
        if call.key is not None:
            rate = (call.key, reply.operation, code == "rate_limited")
            window = self._rates.get(rate)
            if window is None:
                window = self._rates[rate] = [0, NO_LIMIT, 0]
            window[0] += 1
            left = int(reply.headers.get("RateLimit-Remaining", NO_LIMIT))
            if left < window[1]:
                window[1] = left
                window[2] = int(reply.headers["RateLimit-Limit"])

    def answered(self, now: Micros, client: str, response_time: Micros) -> None:
        """Observe that a reply reached its client over the network, so long (µs) after the call was sent."""
        self._travels_of(now, client).response_time.add(response_time)

    def unanswered(self, now: Micros, client: str) -> None:
        """Observe that a client gave a call up without a reply."""
        self._travels_of(now, client).unanswered += 1

    def given_up(self, now: Micros, client: str, operation: str, tries: int) -> None:
        """Count a call that a client gave up, as the rate limit refused the last of its tries."""
        self._pass(now)
        self._given_up[client, operation, tries] += 1

    def _travels_of(self, now: Micros, client: str) -> _Travels:
        self._pass(now)
        return self._travels.setdefault(client, _Travels())

    def pool(self, now: Micros, kind: str, busy: int, capacity: int | None, waiting: int) -> None:
        """Note a pool's new state; the one before lasted until `now`. `capacity` None is unlimited."""
        self._kind(now, kind).pool(now, busy, capacity, waiting)

    def attempt(self, now: Micros, task: Attempt, answer: Answer, acted: bool) -> None:
        """Count an attempt as it is answered; `acted` says whether the receiver acted on the event."""
        self._deliveries_at(now).attempt(now, task, answer, acted)

    def note(self, text: str) -> None:
        """Keep a remark; the same text twice is counted, and so are those that find no room."""
        if text not in self._notes and len(self._notes) >= MAX_NOTES:
            text = LEFT_OUT
        self._notes[text] = self._notes.get(text, 0) + 1

    def sample(self, now: Micros, service: Service) -> None:
        """Read the service's state into the series: on a fixed grid of `sample_every`, in order of time.

        It is that of the microsecond before, so that what resets now is seen as it was used.
        """
        self._pass(now)
        self._deliveries.close_cancelled(service.state)
        self._read(now, max(self.start, now - 1), service.state, keep=self._turn % self._stride == 0)
        self._turn += 1
        if self.on_sample is not None:
            self.on_sample(now)

    def note_peaks(self, now: Micros, service: Service) -> None:
        """Look at what is used the microsecond before it resets, for the peaks alone."""
        self._pass(now)
        self._read(now, max(self.start, now - 1), service.state, keep=False)

    def reset(self, now: Micros) -> None:
        """Drop every count and sample before `now`; what is queued, open or running then stays so."""
        self._cut = DISTANT_FUTURE
        self.start = now
        self._turn = 0
        self._sampled = None
        self._calls.clear()
        self._travels.clear()
        self._given_up.clear()
        self._rates.clear()
        self._windows.clear()
        self._no_slots.clear()
        self._hours.reset(now)
        self._due = self._hours.due
        self._series.clear()
        self._invoiced.clear()
        for kind, jobs in self._jobs.items():
            self._jobs[kind] = jobs.reset(now)
        self._deliveries.reset(now)

    def finish(self, now: Micros, service: Service) -> Replication:
        """Return the statistics up to `now`, the end, which itself is outside the run.

        The last sample stands at `now` and shows the service in the last microsecond before it, so that an
        allowance that resets at the very end is seen as it was used.
        """
        self._pass(now)
        state = service.state
        self._deliveries.close_cancelled(state)
        self._deliveries.open_unanswered(state)
        if self._sampled != now:
            self._read(now, now - 1, state, keep=True)
        if now > self._hours.due - HOUR:
            self._close_hour()
        for jobs in self._jobs.values():
            jobs.pass_time(now)
        notes = dict(self._notes)
        if self._stride > 1:
            notes[f"one sample in {self._stride} is kept; peaks are of all samples"] = 1
        joined = sum(count for what, count in self._calls.items() if what[2] == "joined")  # rank runs (E10)
        return Replication(
            seed=self.seed,
            start=self.start,
            end=now,
            calls=_rows(("client", "operation", "outcome", "status", "code", "check"), self._calls),
            jobs={
                kind.value: self._jobs[kind].row(joined if kind == JobKind.RANK_RUN else 0)
                for kind in JobKind
                if kind in self._jobs
            },
            endpoints=self._deliveries.rows(now, self.start, state),
            series=self._series.rows(state, self._jobs),
            notes=dict(sorted(notes.items())),
            network={
                client: {"unanswered": row.unanswered, "response_time": row.response_time.to_plain()}
                for client, row in sorted(self._travels.items())
            },
            consulted=service.consulted(),
            invoices=self._invoice_rows(state),
            hours=self._hours.rows(
                partial(series_names, state, account_names(state) | self._deliveries.named())
            ),
            given_up=_rows(("client", "operation", "tries"), self._given_up),
        )

    # Jobs and deliveries

    def _kind(self, now: Micros, kind: str) -> JobTally:
        self._pass(now)
        jobs = self._jobs.get(kind)
        if jobs is None:
            jobs = self._jobs[kind] = JobTally(now)
        return jobs

    def _deliveries_at(self, now: Micros) -> DeliveryTally:
        self._pass(now)
        return self._deliveries

    def _pass(self, now: Micros) -> None:
        """Drop what came before the end of the warm-up, once that has passed; close hours that are over."""
        if now >= self._cut:
            self.reset(self._cut)
        while now >= self._hours.due:
            self._close_hour()
        self._due = min(self._cut, self._hours.due)

    def _close_hour(self) -> None:
        self._fold_rates()
        for kind, jobs in self._jobs.items():
            self._hours.observe("queues", (kind,), jobs.at_once)
            jobs.at_once = jobs.running + jobs.queue
        self._hours.close()

    def _fold_rates(self) -> None:
        """Put what replies told of operations together by window, for the sample and the hour."""
        for (token, operation, refused), (count, left, limit) in self._rates.items():
            which = token, name = token, self.rate_class_of.get(operation, "")
            window = self._windows.setdefault(which, [0, 0, NO_LIMIT, 0])
            window[refused] += count
            window[2:] = min(window[2:], [left, limit])
            if name:
                self._hours.observe("windows", which, limit - left, count if refused else 0)
        self._rates.clear()

    # Samples

    def _read(self, now: Micros, at: Micros, state: State, keep: bool) -> None:
        """Sample the state as of `at` under the time `now`; without `keep` for the peaks alone."""
        self._sampled = now if keep else self._sampled
        for account in state.accounts.values():
            books = account.books
            month, _ = billing_month(books.anchor, at)
            self._invoiced[account.id, month] = self._price_of(account)
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
            # A window frees what is over, and resets nothing, so it is read at the instant itself.
            self._read_windows(now, min(now, self.end - 1), state)
            self._read_queues(now)

    def _read_windows(self, now: Micros, at: Micros, state: State) -> None:
        self._fold_rates()
        most = len(self._policy.windows) or len(RateClass)  # not those that GraphQL may have apart
        for token, key in state.keys.items():
            for name, window, ring in islice(key_windows(self._policy, state, key), most):
                *counts, left, limit = self._windows.get((token, name), (0, 0, NO_LIMIT, 0))
                still = remaining(at, window, ring)
                left = min(left, still) if limit == window.limit else still
                row = (*counts, still, window.limit - left, window.limit, window.length)
                self._series.add("windows", (token, name), now, row, True)
        self._windows.clear()

    def _read_queues(self, now: Micros) -> None:
        for kind in JobKind:
            jobs = self._jobs.get(kind)
            row = (0, 0, None) if jobs is None else jobs.sample()
            self._series.add("queues", (kind.value,), now, row, True)

    # Rows

    def _invoice_rows(self, state: State) -> list[dict[str, Any]]:
        """What each account pays for each billing month, by what it had at its end, or at that of the run."""
        if self.catalogue is None:
            return []
        names = account_names(state)
        return [
            {"account": names[account], "month": iso(month)[:7], "uusd": price}
            for (account, month), price in sorted(self._invoiced.items())
        ]

    def _price_of(self, account: Account) -> int | None:
        """Return what an account's plan and add-ons cost a month now (µUSD), None where that is not known."""
        if self.catalogue is None or not self.catalogue.knows_price_of(account.plan):
            return None
        return self.catalogue.price_of(account.plan, account.add_ons)


def _rows(names: tuple[str, ...], counts: Mapping[Any, int]) -> list[dict[str, Any]]:
    """Return counts as rows, sorted, with a column for each part of their keys."""
    return [{**dict(zip(names, what, strict=True)), "count": count} for what, count in sorted(counts.items())]


class SilentTally(ReplicationTally):
    """Counts nothing: what looks at a world for one thing overrides what it looks at."""

    def _look_away(self, *happening: Any, **more: Any) -> None: ...

    call = observe = attempt = pool = sample = note_peaks = given_up = _look_away


def tally_of(scenario: Scenario, kind: Callable[..., Tally], **options: Any) -> Tally:
    """Return a tally, of a kind, of a run of a scenario by its policy; with further options of the kind."""
    policy = scenario.policy
    given = {
        "sample_every": scenario.sample_every,
        "attempts": policy.facts.webhook_attempts,
        "policy": policy,
        "reserved_counts": policy.assumptions.spent_counts == "settled_and_reserved",
        "catalogue": policy.catalogue,
    }
    return kind(scenario.start, scenario.length, **given | options)
