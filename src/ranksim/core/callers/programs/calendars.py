"""Clients that work by the calendar: jobs, keyword lists kept in step, weekly briefs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from ranksim.core import clock, draws
from ranksim.core.callers.portfolio import Actor
from ranksim.core.callers.programs.client import (
    Client,
    ClientPlan,
    Common,
    Count,
    Line,
    NotNegative,
    OccasionStarts,
    OccasionWork,
    Positive,
    Setting,
    Then,
    TimeOfDay,
    TrackedPart,
    data_of,
)
from ranksim.core.callers.request_factory import RequestFactory
from ranksim.core.callers.requests import briefs_body, job_body, keywords_body
from ranksim.core.callers.retry import is_limited
from ranksim.core.callers.steps import Pause, Program, Received, Send, Spawn, Until
from ranksim.core.clock import DAY, WEEK, Micros
from ranksim.core.contract.plans import JobLabel
from ranksim.core.contract.quantities import Frozen
from ranksim.core.contract.views import created_by
from ranksim.core.draws import Purpose
from ranksim.core.service.bodies import MOST_KEYWORDS

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PERIODS = {"day": DAY, "week": WEEK, "month": 31 * DAY}
"""The periods of the calendar, with how long they are at most (µs)."""

FAR = 1 << 62
"""After every instant."""

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

PAGE = "200"
"""Keywords asked for at once; the largest page there is (S43)."""


def _read_every(value: Any) -> Any:
    if isinstance(value, str) and value in PERIODS:
        return value
    try:
        every = clock.duration(value) if isinstance(value, str) else value
    except ValueError:
        every = 0
    if isinstance(every, int) and not isinstance(every, bool) and every > 0:
        return every
    raise ValueError(f"write day, week, month or a duration such as '6h', found {value!r}")


Every = Annotated[
    int | Literal["day", "week", "month"],
    BeforeValidator(_read_every, json_schema_input_type=str),
    PlainSerializer(
        lambda every: every if isinstance(every, str) else clock.format_duration(every),
        return_type=str,
        when_used="json",
    ),
]


class Calendar(Common):
    """A client that acts at calendar times, UTC.

    `every` "day", "week" and "month" act at `at` of the day, of the `weekday`, or of the `day` of the month
    (its last day when it has fewer). A duration acts first at the first `at`, or at once without one, and
    then every so often.
    """

    every: Every = "day"
    at: TimeOfDay | None = None
    weekday: Weekday = "monday"
    day: Annotated[int, Field(ge=1, le=31)] = 1

    @property
    def period(self) -> Micros:
        """The longest time between two occasions (µs)."""
        return PERIODS[self.every] if isinstance(self.every, str) else self.every

    @property
    def is_even(self) -> bool:
        """Whether any two occasions are a period apart: months differ."""
        return self.every != "month"

    def phase(self, start: Micros, begun: Micros) -> Micros:
        """Return how long after `begun` the first occasion is (µs) of a client at work from `start` on."""
        if isinstance(self.every, int):  # an interval runs on from the client's own first occasion
            return (next(self.times(start, FAR)) - begun) % self.every
        return next(self.times(begun, FAR)) - begun

    def times(self, start: Micros, end: Micros) -> Iterator[Micros]:
        """Yield the instants to act at, in [start, end)."""
        t = self._first(start)
        while t < end:
            yield t
            t = t + self.every if isinstance(self.every, int) else self._first(t + 1)

    def _first(self, t: Micros) -> Micros:
        """The first instant at or after `t`."""
        at = self.at or 0
        match self.every:
            case "week":
                offset = DAYS.index(self.weekday) * DAY + at
                return clock.week_end(t - 1, offset)
            case "month":
                # January 1970 has 31 days, so it can hold any day of a month.
                return clock.month_end((self.day - 1) * DAY + at, t - 1)
            case "day":
                return t + (at - t) % DAY
            case _:
                return t if self.at is None else t + (at - t) % DAY


Act = Callable[[int, Micros], Program]
"""What a client does at one of its calendar times, counted from 0, and the present instant."""


def follow(client: Client, spec: Calendar, act: Act) -> Program:
    """Act at each calendar time of a client; what takes time is spawned, so that no time is missed."""
    for which, at in enumerate(spec.times(client.start, client.end)):
        now: Micros = yield Until(at)
        yield from act(which, now)


# Jobs


class Poll(Frozen):
    """Look at a job every so often until it has finished, or for `timeout` at most."""

    every: Positive
    timeout: Positive


class Schedule(Calendar):
    """Start jobs by the calendar: one `job` kind for all domains, for the first so many, or for some hosts.

    The starts of one occasion are spread over `spread`, evenly or by draws. `dry_run_first` asks first
    whether the job would be accepted, and starts it only then. `poll` follows each job until it has finished.
    """

    kind: Literal["schedule"] = "schedule"
    job: JobLabel
    domains: Literal["all"] | Count | Annotated[tuple[str, ...], Field(min_length=1)] = "all"
    spread: NotNegative = 0
    spread_by: Literal["even", "draws"] = "even"
    dry_run_first: bool = False
    poll: Poll | None = None

    @property
    def operations(self) -> frozenset[str]:
        """The operations that the client calls."""
        return frozenset({"jobs.create"} if self.poll is None else {"jobs.create", "jobs.get"})

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> ClientPlan:
        """Return the jobs of each occasion: the first domains come first, whatever each of them tracks."""
        hosts, each = self.domains if isinstance(self.domains, tuple) else (), self.domains
        remaining = each if isinstance(each, int) else sum(part.domains for part in tracked)
        work, reached = [], 0
        for part in tracked:
            count = len({*hosts} & {*part.hosts}) if hosts else min(remaining, part.domains)
            remaining, reached = remaining - count, reached + count
            size = part.slots if self.job == "rank_run" else sizes[self.job]
            if count:
                work.append(OccasionWork(self.job, count, size))
        drawn = self.spread_by == "draws"
        starts = OccasionStarts(self.job, reached, self.spread, drawn, self.dry_run_first, hosts=hosts)
        return ClientPlan(self, tuple(work), starts)


def schedule(setting: Setting, name: str, spec: Schedule) -> Program:
    """Start jobs by the calendar. Raises BadInput when the account has no domain."""
    client = Client(setting, name, spec)
    client.requests(["jobs.create"])

    def act(which: int, now: Micros) -> Program:
        domains = _chosen(client.actor, spec.domains)
        for index, domain in enumerate(domains):
            if spec.spread_by == "even":
                delay = spec.spread * index // len(domains)
            else:
                address = which * len(domains) + index
                delay = int(spec.spread * draws.uniform(client.seed, client.entity, address, Purpose.PHASE))
            if now + delay < client.end:
                yield Spawn(_start_job(client, spec, domain, delay))

    return follow(client, spec, act)


def _chosen(actor: Actor, domains: str | int | tuple[str, ...]) -> list[str]:
    """Return the domains of an account that are meant, as far as there are such now."""
    if isinstance(domains, tuple):
        return [actor.hosts[host] for host in domains if host in actor.hosts]
    return actor.domains[: domains if isinstance(domains, int) else None]


def _start_job(client: Client, spec: Schedule, domain: str, delay: Micros) -> Program:
    """Start a job after a delay, and follow it until it has finished."""
    yield Pause(delay)
    if spec.dry_run_first:
        answer = yield from client.ask(Send("jobs.create", body=job_body(spec.job, domain, dry_run=True)))
        if not (data_of(answer) or {}).get("allowed"):
            return
    answer = yield from client.ask(Send("jobs.create", body=job_body(spec.job, domain)))
    job = data_of(answer)
    if spec.poll is None or job is None:
        return
    path = {"kind": job["kind"], "id": job["id"]}
    until = answer.received + spec.poll.timeout
    while True:
        yield Pause(spec.poll.every)
        answer = yield from client.ask(Send("jobs.get", path=path))
        job = data_of(answer)
        if job is None or job["finished_at"] is not None or answer.received + spec.poll.every > until:
            return


# Keywords

Batch = Annotated[int, Field(ge=1, le=MOST_KEYWORDS)]
"""Keywords in one request."""


class KeywordSync(Calendar):
    """Keep keyword lists in step with a source that changes: now and then remove a share and add as many new.

    `first` "list" reads the keywords there are, page by page, when the client first comes to a domain;
    "memory" knows only what it added itself, and starts with `keywords` new ones per domain. `share` of the
    known keywords, chosen by draws, is removed one by one; as many new ones are added in batches of `batch`,
    and more until there are `keywords`. Requests go one after the other, `gap` apart.
    """

    kind: Literal["keyword_sync"] = "keyword_sync"
    first: Literal["list", "memory"] = "list"
    share: Annotated[float, Field(ge=0, le=1)] = 0.1
    keywords: Annotated[int, Field(ge=0)] = 0
    batch: Batch = 100
    gap: NotNegative = 0

    @property
    def operations(self) -> frozenset[str]:
        """The operations that the client calls."""
        return frozenset({"keywords.list", "keywords.delete", "keywords.create"})

    def change(self, words: int) -> tuple[int, int]:
        """Return how many words an occasion removes and adds in a domain of which so many are known."""
        removed = round(self.share * words)
        return removed, removed + max(0, self.keywords - words)

    def changes(self, words: int) -> Iterator[tuple[int, int]]:
        """Yield what each occasion, from the first on, removes and adds in a domain of so many words."""
        words = words if self.first == "list" else 0
        while True:
            removed, added = self.change(words)
            yield removed, added
            words += added - removed

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> ClientPlan:
        """Return how many words each occasion adds in domains that track alike."""

        def added(part: TrackedPart) -> int:
            words = self.keywords if self.first == "memory" else max(part.keywords, self.keywords)
            return part.domains * round(self.share * words)

        work = (OccasionWork("keywords", added(part), part.each) for part in tracked if added(part))
        return ClientPlan(self, tuple(work))


def keyword_sync(setting: Setting, name: str, spec: KeywordSync) -> Program:
    """Keep keyword lists in step. Raises BadInput when a domain has no keyword list."""
    client = Client(setting, name, spec)
    factory = client.requests(["keywords.create"])
    return follow(client, spec, _Sync(client, factory, spec).act)


class _Sync:
    """A keyword synchronisation at work: `known` are the ids of a domain's keywords, as far as it knows.

    They are the keys of a dictionary: a word is taken out in no time, however long the list is.
    """

    def __init__(self, client: Client, factory: RequestFactory, spec: KeywordSync) -> None:
        self.client, self.factory, self.spec = client, factory, spec
        self.line = Line(client, spec.gap)
        self.known: dict[str, dict[str, None]] = {}

    def act(self, which: int, now: Micros) -> Program:
        """Bring every domain up to date, after a first look at what it has."""
        for index, domain in enumerate(tuple(self.client.actor.domains)):
            if domain in self.known or self.spec.first == "memory":
                self.known.setdefault(domain, {})
                requests = self._changes(domain, which, index)
            else:
                self.known[domain] = {}
                requests = iter([self._page(domain, which, index, {"domain_id": domain, "limit": PAGE})])
            for send, then in requests:
                self.line.add(send, then)
        if self.line.idle:
            yield Spawn(self.line.work())

    def _page(self, domain: str, which: int, index: int, query: dict[str, str]) -> tuple[Send, Then]:
        def seen(answer: Received) -> None:
            self._learn(domain, data_of(answer))
            cursor = answer.body.get("next_cursor") if answer.body else None
            if answer.status < 400 and cursor:
                self.line.add(*self._page(domain, which, index, {**query, "cursor": cursor}))
                return
            for send, then in self._changes(domain, which, index):
                self.line.add(send, then)

        return Send("keywords.list", query=query), seen

    def _changes(self, domain: str, which: int, index: int) -> Iterator[tuple[Send, Then]]:
        """Make the requests that remove a share of a domain's keywords and add as many new ones."""
        spec, ids = self.spec, list(self.known[domain])
        churn, count = spec.change(len(ids))
        for keyword in self._picked(ids, churn, which, index):
            yield Send("keywords.delete", path={"id": keyword}), partial(self._removed, domain, keyword)
        words = self.client.actor.fresh_words(domain, count)
        list_id = self.factory.list_of(domain, 0)
        for at in range(0, count, spec.batch):
            body = keywords_body(list_id, words[at : at + spec.batch])
            yield Send("keywords.create", body=body), partial(self._added, domain)

    def _picked(self, ids: list[str], count: int, which: int, index: int) -> list[str]:
        """Choose keywords by draws addressed by their ids, so that one more keyword moves no other."""
        seed, entity = self.client.seed, self.client.entity
        address, purpose = which << 20 | index, Purpose.CHURN
        drawn = draws.bits_of_many(seed, [entity ^ draws.entity(i) for i in ids], address, purpose)
        return [keyword for _, keyword in sorted(zip(drawn, ids, strict=True))[:count]]

    def _removed(self, domain: str, keyword: str, answer: Received) -> None:
        if 0 < answer.status < 300 or answer.status == 404:
            self.known[domain].pop(keyword, None)

    def _added(self, domain: str, answer: Received) -> None:
        self._learn(domain, created_by(data_of(answer)))

    def _learn(self, domain: str, keywords: Iterable[dict[str, Any]] | None) -> None:
        self.known[domain].update(dict.fromkeys(keyword["id"] for keyword in keywords or ()))


# Briefs


class BriefRefresher(Calendar):
    """Refresh keyword briefs by the calendar: `keywords` each time, in requests of `batch`, until refused.

    The requests go round the domains, one after the other, `gap` apart.
    """

    kind: Literal["brief_refresher"] = "brief_refresher"
    every: Every = "week"
    keywords: Count
    batch: Batch = 1
    gap: NotNegative = 0

    @property
    def operations(self) -> frozenset[str]:
        """The operations that the client calls."""
        return frozenset({"keyword_briefs.create"})

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> ClientPlan:
        """Return the keywords that each occasion refreshes, and its requests."""
        starts = OccasionStarts("keyword_briefs", -(-self.keywords // self.batch), gap=self.gap)
        return ClientPlan(self, (OccasionWork("keyword_briefs", self.keywords),), starts)


def brief_refresher(setting: Setting, name: str, spec: BriefRefresher) -> Program:
    """Refresh keyword briefs by the calendar. Raises BadInput when the account has no domain."""
    client = Client(setting, name, spec)
    factory = client.requests(["keyword_briefs.create"])
    line = Line(client, spec.gap)

    def act(which: int, now: Micros) -> Program:
        for number, at in enumerate(range(0, spec.keywords, spec.batch)):
            domain = factory.domain(number)
            count = min(spec.batch, spec.keywords - at)
            words = factory.words_of(domain, which * spec.keywords + at, count)
            line.add(Send("keyword_briefs.create", body=briefs_body(domain, words)), refreshed)
        if line.idle:
            yield Spawn(line.work())

    def refreshed(answer: Received) -> None:
        if answer.status >= 400 and not is_limited(answer):
            line.drop()

    return follow(client, spec, act)
