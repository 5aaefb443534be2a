"""Clients that work by the calendar: jobs, keyword lists kept in step, weekly briefs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from ranksim import clock, draws
from ranksim.callers.requests import briefs_body, job_body, keywords_body
from ranksim.clock import DAY, Micros
from ranksim.contract.plans import JobLabel
from ranksim.contract.quantities import Frozen
from ranksim.draws import Purpose
from ranksim.service.bodies import MOST_KEYWORDS
from ranksim.service.calls import Reply
from ranksim.sim.clients.common import (
    Client,
    Common,
    Count,
    Line,
    NotNegative,
    Positive,
    Request,
    TimeOfDay,
    World,
    data_of,
)

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PERIODS = ("day", "week", "month")

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

PAGE = "200"
"""Keywords asked for at once; the largest page there is (S43)."""


def _read_every(value: Any) -> Any:
    if value in PERIODS:
        return value
    try:
        every = clock.duration(value) if isinstance(value, str) else value
    except ValueError:
        every = 0
    if isinstance(every, int) and not isinstance(every, bool) and every > 0:
        return every
    raise ValueError(f"write day, week, month or a duration such as '6h', found {value!r}")


def _write_every(value: int | str) -> str:
    return value if isinstance(value, str) else clock.format_duration(value)


Every = Annotated[
    int | Literal["day", "week", "month"],
    BeforeValidator(_read_every),
    PlainSerializer(_write_every, return_type=str, when_used="json"),
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

    def times(self, start: Micros, end: Micros) -> Iterator[Micros]:
        """The instants to act at, in [start, end)."""
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


def follow(client: Client, spec: Calendar, act: Any) -> None:
    """Call `act(which)` at each calendar time of a client, `which` counting from 0."""
    times = enumerate(spec.times(client.start, client.end))

    def step(which: int) -> None:
        act(which)
        advance()

    def advance() -> None:
        found = next(times, None)
        if found is not None:
            client.world.at(found[1], step, found[0])

    advance()


# Jobs


class Poll(Frozen):
    """Look at a job every so often until it has finished, or for `timeout` at most."""

    every: Positive
    timeout: Positive


class Schedule(Calendar):
    """Start jobs by the calendar: one `job` kind for all domains, or for the first so many.

    The starts of one occasion are spread over `spread`, evenly or by draws. `dry_run_first` asks first
    whether the job would be accepted, and starts it only then. `poll` follows each job until it has finished.
    """

    kind: Literal["schedule"] = "schedule"
    job: JobLabel
    domains: Literal["all"] | Count = "all"
    spread: NotNegative = 0
    spread_by: Literal["even", "draws"] = "even"
    dry_run_first: bool = False
    poll: Poll | None = None


def start_schedule(world: World, name: str, spec: Schedule) -> None:
    """Set a schedule to work. Raises BadInput when its account has no domain."""
    client = Client(world, name, spec)
    client.requests(["jobs.create"])
    domains = client.actor.domains if spec.domains == "all" else client.actor.domains[: spec.domains]

    def act(which: int) -> None:
        for index, domain in enumerate(domains):
            if spec.spread_by == "even":
                delay = spec.spread * index // len(domains)
            else:
                address = which * len(domains) + index
                u = draws.uniform(world.seed, client.entity, address, Purpose.PHASE)
                delay = int(spec.spread * u)
            if world.now + delay < client.end:
                world.after(delay, start_job, domain)

    def start_job(domain: str) -> None:
        if spec.dry_run_first:
            ask = Request("jobs.create", body=job_body(spec.job, domain, dry_run=True))
            ask.then = lambda reply: start_if_allowed(reply, domain)
            client.send(ask)
        else:
            client.send(Request("jobs.create", body=job_body(spec.job, domain), then=started))

    def start_if_allowed(reply: Reply, domain: str) -> None:
        if (data_of(reply) or {}).get("allowed"):
            client.send(Request("jobs.create", body=job_body(spec.job, domain), then=started))

    def started(reply: Reply) -> None:
        job = data_of(reply)
        if spec.poll is not None and job is not None:
            path = {"kind": job["kind"], "id": job["id"]}
            world.after(spec.poll.every, look, spec.poll, path, world.now + spec.poll.timeout)

    def look(poll: Poll, path: dict[str, str], until: Micros) -> None:
        def seen(reply: Reply) -> None:
            job = data_of(reply)
            unfinished = job is not None and job["finished_at"] is None
            if unfinished and world.now + poll.every <= until:
                world.after(poll.every, look, poll, path, until)

        client.send(Request("jobs.get", path=path, then=seen))

    follow(client, spec, act)


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


def start_keyword_sync(world: World, name: str, spec: KeywordSync) -> None:
    """Set a keyword synchronisation to work. Raises BadInput when a domain has no keyword list."""
    client = Client(world, name, spec)
    factory = client.requests(["keywords.create"])
    line = Line(client, spec.gap)
    known: dict[str, list[str]] = {}
    """Ids of the keywords of each domain, as far as the client knows them."""

    def act(which: int) -> None:
        for index, domain in enumerate(client.actor.domains):
            if domain in known:
                change(domain, which, index)
            elif spec.first == "memory":
                known[domain] = []
                change(domain, which, index)
            else:
                known[domain] = []
                read(domain, which, index, {"domain_id": domain, "limit": PAGE})

    def read(domain: str, which: int, index: int, query: dict[str, str]) -> None:
        def seen(reply: Reply) -> None:
            known[domain] += [keyword["id"] for keyword in data_of(reply) or ()]
            cursor = reply.body.get("next_cursor") if reply.body else None
            if reply.status < 400 and cursor:
                read(domain, which, index, {**query, "cursor": cursor})
            else:
                change(domain, which, index)

        line.add(Request("keywords.list", query=query, then=seen))

    def change(domain: str, which: int, index: int) -> None:
        ids = known[domain]
        churn = round(spec.share * len(ids))
        for keyword in pick(ids, churn, which, index):
            line.add(Request("keywords.delete", path={"id": keyword}, then=removed(domain, keyword)))
        count = churn + max(0, spec.keywords - len(ids))
        words = client.actor.fresh_words(domain, count)
        list_id = factory.list_of(domain, 0)
        for at in range(0, count, spec.batch):
            body = keywords_body(list_id, words[at : at + spec.batch])
            line.add(Request("keywords.create", body=body, then=added(domain)))

    def pick(ids: list[str], count: int, which: int, index: int) -> list[str]:
        """Choose keywords by draws addressed by their ids, so that one more keyword moves no other."""
        purpose, entity = Purpose.CHURN, client.entity
        order = sorted(
            ids, key=lambda i: draws.bits(world.seed, entity ^ draws.entity(i), which << 20 | index, purpose)
        )
        return order[:count]

    def removed(domain: str, keyword: str) -> Any:
        def then(reply: Reply) -> None:
            if reply.status < 300 or reply.status == 404:
                known[domain] = [other for other in known[domain] if other != keyword]

        return then

    def added(domain: str) -> Any:
        return lambda reply: known[domain].extend(k["id"] for k in (data_of(reply) or {}).get("created", ()))

    follow(client, spec, act)


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


def start_brief_refresher(world: World, name: str, spec: BriefRefresher) -> None:
    """Set a refresher of briefs to work. Raises BadInput when its account has no domain."""
    client = Client(world, name, spec)
    factory = client.requests(["keyword_briefs.create"])
    line = Line(client, spec.gap)

    def act(which: int) -> None:
        requests = []
        for number, at in enumerate(range(0, spec.keywords, spec.batch)):
            domain = factory.domain(number)
            count = min(spec.batch, spec.keywords - at)
            words = factory.words_of(domain, which * spec.keywords + at, count)
            body = briefs_body(domain, words)
            requests.append(Request("keyword_briefs.create", body=body, then=refreshed))
        line.add(*requests)

    def refreshed(reply: Reply) -> None:
        if reply.status >= 400 and reply.outcome != "limited":
            line.drop()

    follow(client, spec, act)
