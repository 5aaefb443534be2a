"""A second deployment of the API: one plain program, written from its specification alone.

It shares no code, no structure and no assumption with ranksim, so that a judge of deployments meets one
that nobody fitted to it. It runs in real time, with a thread for each connection, jobs that take seconds
and webhooks that are sent.

Where the specification leaves a choice open, this one differs from ranksim's defaults where another team
might. `Numbers` holds what `--varied` draws by the seed: how rate windows run, plans and their limits, jobs,
cooldowns, how lists are ordered, money is booked, keys are stored and runs are joined. What is always so:

- callers without a key have a limit of their own, and are not counted;
- 402 entitlement_required, 403 for the account's and the plan's limits and for another domain, 429
  cooldown_active, 400 validation, 409 idempotency_mismatch, 422 invalid_cursor; 201 for a job, 200 with a
  body for a removal;
- an Idempotency-Key compares bytes, waits for its twin, and marks no replay;
- a limit above 200 is refused, ids are UUIDs, money is text, and a keyword that returns counts anew;
- each endpoint gets an event id of its own, retries are jittered, and the test event is called `ping`;
- there is no GraphQL: what is not under /v1 is answered by no part of the API.

`--break` breaks it in some of the ways that `breakages.py` beside this file lists.

The table of wire forms that no text shows (paths, names of fields) is followed, so that a client can be
written.
"""

import argparse
import base64
import hashlib
import hmac
import http.client
import json
import random
import re
import signal
import sys
import threading
import time
import traceback
import uuid
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from spoiling import spoil
from tight import tightened

DOCS = "https://docs.elsewhere.example"
JOB_KINDS = ("rank_run", "crawl", "site_optimization", "ai_scan")
EVENT_TYPES = {
    "job.completed": "A job finished successfully.",
    "job.failed": "A job ended in an error.",
}
RETRY_DELAYS = (60, 300, 1800, 7200, 21600)  # seconds
RATES = {"read": 600, "write": 120, "expensive": 20, "nobody": 60}  # a minute
SECOND = 1_000_000  # clocks count µs
DAY = 86400 * SECOND
RACE = SECOND // 100  # while calls do not see each other, where it is broken so
SPENDING = (*JOB_KINDS, "keyword_briefs", "keywords", "scans")
CHECKS = ("capability", "subscription", "cost_ceiling", "quota", "slots", "cooldown")
WINDOW_NAMES = ("clock", "first", "log", "counter", "gcra")

STUDIO = {
    "capabilities": ["site_optimization", "ai_scan"],
    "dimensions": {"scans": 40, "engine_devices": 6, "geographies": 5},
    "slot_limit": 400,
    "page_cap": 300,
    "call_cap": 40,
    "ceiling": 60_000_000,  # µUSD, as all money here
    "cooldown_seconds": {"rank_run": 6, "crawl": 9, "site_optimization": 12, "ai_scan": 0},
    "quotas": {
        "research_lookups": (200, "month", ()),
        "brief_refreshes": (25, "week", ("keyword_briefs",)),
    },
}
CORNER = {
    "capabilities": [],
    "dimensions": {"scans": 3, "engine_devices": 2, "geographies": 2},
    "slot_limit": 12,
    "page_cap": 50,
    "call_cap": 0,
    "ceiling": 60_000,
    "cooldown_seconds": {"rank_run": 3, "crawl": 4, "site_optimization": 12, "ai_scan": 0},
    "quotas": {
        "research_lookups": (10, "month", ()),
        "brief_refreshes": (4, "week", ("keyword_briefs",)),
    },
}


@dataclass
class Numbers:
    """What another team might have chosen, and its plans."""

    window: str = "clock"
    widening: str = "expensive"  # the rate class of what widens tracking
    expensive_writes: bool = True  # expensive calls count as writes too
    reset: str = "epoch"  # or seconds
    newest_first: bool = True
    exact_more: bool = False  # a full page says has_more only if there is more
    account_keys: bool = True  # an Idempotency-Key belongs to the account, else to the API key
    stores_refusals: bool = False
    dry_report: bool = False  # a refused dry run is a report, not the error itself
    join: str = "late"  # where a cooldown would be checked; or early, behind the second check
    booking: str = "acceptance"  # or reserve: the estimate first, and what it was when it is done
    at_ceiling: bool = False  # spending is refused at the ceiling, not where it would pass it
    all_gated: bool = False  # the ceiling stops briefs, keywords and scans too
    failed_arms: bool = True
    month: str = "calendar"  # or from the 17th
    secret: str = "signing_secret"
    job_seconds: tuple = (1.0, 4.0)
    failing: float = 0.15
    small_spent: bool = False  # the past-due account has used up all it had
    undeletable: tuple = ()  # resources that cannot be removed
    keeps_date: bool = False  # a Date header is written anew once a second at most
    latency: tuple = ()  # seconds of a reply, at least and at most; else a few ms
    words: int = 20  # keywords in a list from the beginning
    keys: tuple = ("main", "second", "scoped", "small", "late", "test_main")
    studio: dict = field(default_factory=lambda: STUDIO)
    corner: dict = field(default_factory=lambda: CORNER)


ALL_KEYS = ("main", "second", "third", "scoped", "scoped2", "other", "other2", "small", "late", "late2")
ALL_KEYS += ("test_main", "test_second")


def drawn(seed, *, quick=False):
    """Numbers of another team; `quick` ones have jobs and cooldowns of seconds, and keys of every kind."""
    draw = random.Random(f"elsewhere/{seed}")

    def between(low, high):
        """A whole number, small ones as often as great ones."""
        return round(low * (high / low) ** draw.random())

    def cooldowns(most):
        lengths = [0, between(2, 12), between(5, 60), 3600, 86400]
        some = dict.fromkeys(JOB_KINDS[:3], 0)
        some |= {kind: draw.choice(lengths[1:3] if quick else lengths) for kind in some}
        some["ai_scan"] = 0
        return some | {
            name: between(2, most) for name in ("keywords", "keyword_briefs") if draw.random() < 0.4
        }

    def plan(**given):
        given["cooldown_seconds"] = cooldowns(8)
        given["quotas"] = {
            "research_lookups": (between(3, 100_000), "month", ()),
            "brief_refreshes": (given.pop("briefs"), "week", ("keyword_briefs",)),
        }
        if draw.random() < 0.5:
            given["quotas"]["rank_checks"] = (given.pop("runs"), "month", ("rank_run",))
        given.pop("runs", None)
        return given

    shortest = between(1, 6 if quick else 300)
    count = len(ALL_KEYS) if quick else draw.randint(1, len(ALL_KEYS))
    others = draw.sample(ALL_KEYS[1:], count - 1)
    return Numbers(
        window=draw.choice(WINDOW_NAMES),
        widening=draw.choice(("expensive", "write")),
        expensive_writes=draw.random() < 0.5,
        reset=draw.choice(("epoch", "seconds")),
        newest_first=draw.random() < 0.5,
        exact_more=draw.random() < 0.5,
        account_keys=draw.random() < 0.5,
        stores_refusals=draw.random() < 0.5,
        dry_report=draw.random() < 0.5,
        join=draw.choice(("late", "early")),
        booking=draw.choice(("acceptance", "reserve")),
        at_ceiling=draw.random() < 0.5,
        all_gated=draw.random() < 0.5,
        failed_arms=draw.random() < 0.5,
        month=draw.choice(("calendar", "17th")),
        secret=draw.choice(("signing_secret", "secret")),
        job_seconds=(shortest, min(1200, shortest * draw.uniform(1.2, 4.0))),
        failing=draw.uniform(0.05, 0.3),
        small_spent=True,
        keys=tuple(name for name in ALL_KEYS if name == "main" or name in others),
        studio=plan(
            capabilities=["site_optimization", "ai_scan"],
            dimensions={"scans": between(20, 500), "engine_devices": 6, "geographies": 5},
            slot_limit=between(300, 1500 if quick else 100_000),
            page_cap=between(50, 2000),
            call_cap=between(3, 100),
            ceiling=between(3, 100_000) * 1_000_000,
            briefs=between(25, 100_000),
            runs=between(100, 100_000),
        ),
        corner=plan(
            capabilities=[],
            dimensions={"scans": 6, "engine_devices": 2, "geographies": 2},
            slot_limit=between(3, 60),
            page_cap=between(20, 100),
            call_cap=0,
            ceiling=between(60, 900) * 1000,
            briefs=between(3, 12),
            runs=between(3, 30),
        ),
    )


REFUSALS = {
    "invalid_parameter": (400, "", "Correct the request."),
    "invalid_idempotency_key": (400, "An Idempotency-Key has 1 to 255 characters.", "Correct the request."),
    "malformed_json": (400, "The body is not JSON.", "Correct the request."),
    "invalid_api_key": (401, "No key of this environment.", "Send a key."),
    "entitlement_required": (402, "The plan lacks this.", "Upgrade."),
    "quota_exhausted": (402, "The allowance is used up.", "Wait for its reset."),
    "out_of_scope": (403, "", "Correct the request."),
    "subscription_inactive": (403, "The account is past due.", "Pay the open invoice."),
    "cost_cap_reached": (403, "This would pass the monthly ceiling.", "Wait."),
    "slot_limit_exceeded": (403, "Not enough free slots.", "Track less."),
    "resource_missing": (404, "", "Check the id."),
    "method_not_allowed": (405, "", "Correct the request."),
    "endpoint_disabled": (409, "This endpoint is disabled.", "Enable it first."),
    "idempotency_mismatch": (
        409,
        "This Idempotency-Key came with another request before.",
        "Correct the request.",
    ),
    "unsupported_media_type": (415, "Send JSON.", "Correct the request."),
    "invalid_cursor": (422, "This cursor belongs to another query.", "Begin again without a cursor."),
    "cooldown_active": (429, "This ran a moment ago.", "Wait."),
    "too_many_requests": (429, "Too many.", "Slow down."),
    "idempotency_in_progress": (409, "The first request still runs.", "Try again."),
    "precondition_required": (428, "If-Match is required.", "Send it."),
    "stale": (412, "Somebody else changed it.", "Read it again."),
    "server_fault": (500, "Something broke here.", "Try again."),
}
"""Code → status, detail and remedy."""


class Refusal(Exception):
    """An answer in the form of an error."""

    def __init__(self, code, detail="", *, meta=None, headers=None):
        super().__init__(code)
        self.code, self.meta, self.headers = code, meta or {}, headers or {}
        self.status, usual, self.remedy = REFUSALS[code]
        self.detail = detail or usual


@dataclass
class Reply:
    status: int
    payload: dict | None
    headers: dict = field(default_factory=dict)


def invalid(detail, **meta):
    return Refusal("invalid_parameter", detail, meta=meta)


def missing(what):
    return Refusal("resource_missing", f"There is no such {what}.")


# ---------------------------------------------------------------- time


class Clock:
    """The machine's time in µs, or another. No two readings are equal, so what is created is ordered."""

    def __init__(self):
        self.lock = threading.Lock()
        self.set(lambda: time.time_ns() // 1000)

    def set(self, read):
        """Go by another clock from now on."""
        self.read, self.last = read, 0

    def __call__(self):
        with self.lock:
            self.last = max(self.read(), self.last + 1)
            return self.last


now = Clock()
chance = random.Random()


def new_id():
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def iso(at):
    if at is None:
        return None
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="milliseconds")


@lru_cache(maxsize=64)
def month_from(day, first):
    """Begin and end of the month that a day (since 1970) is in, which begins on its `first` day."""
    date = datetime.fromtimestamp(day * 86400, UTC)
    begin = date.replace(day=first)
    if begin > date:
        begin = (begin.replace(day=1) - timedelta(days=1)).replace(day=first)
    after = (begin.replace(day=1) + timedelta(days=32)).replace(day=first)
    return int(begin.timestamp()) * SECOND, int(after.timestamp()) * SECOND


def week_of(at):
    """Begin and end of the week, which begins on Monday at midnight."""
    day = datetime.fromtimestamp(at / SECOND, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = int((day - timedelta(days=day.weekday())).timestamp()) * SECOND
    return monday, monday + 7 * DAY


def usd(amount):
    return f"{amount / 1e6:.4f}"


# ---------------------------------------------------------------- accounts


def size(slots):
    return sum(map(len, slots.values()))


def added(before, after):
    """How many slots of `after` there were not `before`."""
    return sum(len(words - before.get(where, set())) for where, words in after.items())


class Account:
    """What one customer has in one environment. All of it is guarded by the deployment's lock."""

    def __init__(self, deployment, name, plan, status="active"):
        self.id, self.name, self.status = new_id(), name, status
        self.deployment, self.wrong = deployment, deployment.wrong
        self.plan_name, self.plan = plan, getattr(deployment.numbers, plan)
        self.tables = defaultdict(dict)  # resource → id → row; fields with an underscore are not shown
        self.words = defaultdict(set)  # of each list, folded
        self.spent = defaultdict(int)  # by month
        self.reserved = defaultdict(int)  # by month
        self.used = defaultdict(int)  # by metric and begin of its period
        self.held = defaultdict(int)  # by month
        self.started = defaultdict(list)  # (domain, what) → when it was accepted
        self.accepted = defaultdict(int)  # when the latest spending of a sort was
        self.idempotency, self.buckets = {}, {}
        self.deliveries = {}

    def add(self, table, **fields):
        at = now()
        row = {"id": new_id(), **fields, "created_at": iso(at), "_at": at}
        self.tables[table][row["id"]] = row
        if table == "keywords":
            self.words[row["list_id"]].add(fold(row["keyword"]))
        return row

    def drop(self, table, row):
        del self.tables[table][row["id"]]
        if table == "keywords":
            self.words[row["list_id"]].discard(fold(row["keyword"]))

    def month(self):
        return month_from(now() // DAY, 1 if self.deployment.numbers.month == "calendar" else 17)

    def slots(self, scans=None, more=None):
        """The slots in use: for each scan, pairing and geography, the words; `more` are words of a list."""
        wrong, words = self.wrong, self.words
        if more:
            words = words | {more[0]: words[more[0]].union(map(fold, more[1]))}
        once, paired, placed = (wrong("slots-flat", what) for what in ("scans", "pairs", "places"))
        found = {}
        for scan in self.tables["scans"].values() if scans is None else scans:
            if not scan["active"] or wrong("slots-none scans"):
                continue
            lists = [words[list_id] for list_id in scan["list_ids"] if words[list_id]]
            some = lists[0] if len(lists) == 1 else set().union(*lists)
            if wrong("slots-flat words") or wrong("slots-none keywords"):
                some = {"all"} if some else set()
            name = "any" if once else scan["id"]
            for pair in scan["engine_devices"][: 1 if paired else None]:
                for geography in scan["geographies"][: 1 if placed else None]:
                    where = (name, pair["engine"], pair["device"], place(geography))
                    found[where] = found[where] | some if where in found else some
        return found

    def freeing(self):
        """The slots in use as they are now, to `hold` what goes."""
        return {where: set(words) for where, words in self.slots().items()}

    def hold(self, before, table=""):
        """Keep what was freed since `before` until the end of the month."""
        if not self.wrong("freed", table):
            self.held[self.month()[0]] += added(self.slots(), before)

    def slot_usage(self):
        start, end = self.month()
        active, held, limit = size(self.slots()), self.held[start], self.plan["slot_limit"]
        used = active if self.wrong("held-apart") else active + held
        if self.wrong("more-slots"):
            limit += 10
        return {
            "limit": self.plan["slot_limit"],
            "used": used,
            "active": active,
            "held": held,
            "available": max(0, limit - active - held),
            "resets_at": iso(end),
            "_limit": limit,
        }

    def metric(self, name):
        limit, period, _ = self.plan["quotas"][name]
        start, end = self.month() if period == "month" else week_of(now())
        if self.wrong("reset", period):
            end += 2 * DAY if period == "week" else 40 * DAY
        metric = {"metric": name, "used": self.used[name, start], "limit": limit, "resets_at": iso(end)}
        return metric, period, start

    def costs(self):
        start, end = self.month()
        return self.spent[start], self.reserved[start], end


def noun(table):
    return table.replace("-", "_")


@lru_cache(maxsize=4096)
def fold(word):
    return word.strip().lower()


def place(geography):
    return json.dumps(geography, sort_keys=True)


@dataclass
class Key:
    account: Account
    scope: str | None = None  # the domain that it is bound to
    buckets: dict = field(default_factory=dict)
    idempotency: dict = field(default_factory=dict)


@dataclass
class Call:
    """A request after its key was accepted."""

    deployment: "Deployment"
    key: Key
    method: str
    path: str
    query: dict
    raw: bytes
    headers: object
    name: str = ""
    ids: tuple = ()
    body: dict = field(default_factory=dict)
    reaching: str = ""  # what would be wrong where another domain's things were reached

    @property
    def account(self):
        return self.key.account

    def row(self, table, row_id, what):
        """A row by its id, if the key may see it."""
        row = self.account.tables[table].get(row_id) if isinstance(row_id, str) else None
        if row is None and self.method == "GET" and self.account.wrong("reads-account", noun(table)):
            row = next((row for row in self.everybodys(table) if row["id"] == row_id), None)
        if row is None:
            raise missing(what)
        if not self.sees(table, row) and not self.account.wrong(
            self.reaching or f"reads-beyond {noun(table)}"
        ):
            raise Refusal("out_of_scope", f"This key is bound to another domain than this {what}.")
        return row

    def everybodys(self, table):
        """The rows of all accounts."""
        mine = self.account.environment
        owners = [one for one in self.deployment.accounts if one.environment == mine]
        return [row for one in owners for row in one.tables[table].values()]

    def sees(self, table, row):
        return self.key.scope in (None, row["id"] if table == "domains" else row.get("domain_id"))

    def whole_account(self):
        if self.key.scope is not None and not self.account.wrong("account-endpoint"):
            raise Refusal("out_of_scope", "A domain-scoped key cannot do this for the whole account.")

    def text(self, name, *, optional=False):
        value = self.body.get(name)
        if value is None and optional:
            return None
        if not isinstance(value, str) or not value.strip():
            raise invalid(f"{name} must be text.", field=name)
        return value

    def dry_run(self):
        value = self.body.get("dry_run", False)
        if not isinstance(value, bool):
            raise invalid("dry_run must be true or false.", field="dry_run")
        return value


# ---------------------------------------------------------------- rate windows


class ClockWindow:
    """At most `limit` calls in each minute of the clock."""

    def __init__(self, limit, length):
        self.limit, self.length, self.minute, self.count = limit, length, 0, 0

    def look(self, at):
        """Calls left, and when more come."""
        minute = at // self.length
        if minute > self.minute:
            self.minute, self.count = minute, 0
        return self.limit - self.count, (self.minute + 1) * self.length

    def take(self, at):
        self.count += 1


class FirstHit(ClockWindow):
    """At most `limit` calls in the minute from a call on that no minute covers yet."""

    def look(self, at):
        if at >= self.minute + self.length:
            return self.limit, at + self.length
        return self.limit - self.count, self.minute + self.length

    def take(self, at):
        if at >= self.minute + self.length:
            self.minute, self.count = at, 0
        self.count += 1


class SlidingLog:
    """At most `limit` calls in any 60 s."""

    def __init__(self, limit, length):
        self.limit, self.length, self.log = limit, length, deque()

    def look(self, at):
        while self.log and self.log[0] <= at - self.length:
            self.log.popleft()
        return self.limit - len(self.log), (self.log[0] if self.log else at) + self.length

    def take(self, at):
        self.log.append(at)


class SlidingCounter:
    """This minute's calls, and of those of the minute before the share that still lies within 60 s."""

    def __init__(self, limit, length):
        self.limit, self.length, self.minute, self.count, self.before = limit, length, 0, 0, 0

    def look(self, at):
        minute = at // self.length
        if minute > self.minute:
            self.before = self.count if minute == self.minute + 1 else 0
            self.minute, self.count = minute, 0
        end = (minute + 1) * self.length
        left = self.limit - self.count - -(-self.before * (end - at) // self.length)
        if self.count >= self.limit:  # and still none is left when the next minute begins
            return left, end + self.length - (self.limit - 1) * self.length // self.count
        if left > 0 or not self.before:
            return left, end
        room = (self.limit - self.count - 1) * self.length // self.before
        return left, max(at + 1, end - room)

    def take(self, at):
        self.count += 1


class Bucket:
    """A bucket of `limit` tokens, of which one comes back each 60 s / limit (GCRA)."""

    def __init__(self, limit, length):
        self.limit, self.gap, self.full = limit, length / limit, 0

    def look(self, at):
        missing = max(0.0, self.full - at) / self.gap
        left = int(self.limit - missing + 1e-9)
        return left, round(at + self.gap) if left <= 0 else max(at, round(self.full))

    def take(self, at):
        self.full = max(self.full, at) + self.gap


WINDOWS = dict(zip(WINDOW_NAMES, (ClockWindow, FirstHit, SlidingLog, SlidingCounter, Bucket), strict=True))


def rate_headers(deployment, limit, remaining, reset):
    shown = max(0, reset - now()) * deployment.traffic_scale
    if deployment.numbers.reset == "epoch":
        shown = reset
    return {
        "ratelimit-limit": str(limit),
        "ratelimit-remaining": str(max(0, remaining)),
        "ratelimit-reset": str(-(-shown // SECOND)),
    }


def charge(deployment, key, kind):
    """Take one call from the key's budget. Returns the headers, and seconds to wait if none was left."""
    at, wrong, numbers = now(), deployment.wrong, deployment.numbers
    kinds = ("expensive", "write") if kind == "expensive" and numbers.expensive_writes else (kind,)
    length = 60 * SECOND // deployment.traffic_scale
    buckets = []
    for name in kinds:
        extra = 3 if wrong("rate-more", name) else -3 if wrong("rate-fewer", name) else 0
        owner = key.account if wrong("rate-shared", name) else key
        bucket = owner.buckets.setdefault(name, WINDOWS[numbers.window](RATES[name] + extra, length))
        buckets.append((name, extra, bucket))
    for name, _, bucket in buckets:
        left, reset = bucket.look(at)
        if left <= 0 or (wrong("rate-random", kind) and deployment.draws.random() < 0.04):
            wait = max(1, -(-(reset - at) * deployment.traffic_scale // SECOND))
            if wrong("retry-early", kind):
                wait = max(1, wait // 4)
            return rate_headers(deployment, RATES[name], max(0, left), reset), wait
    for _, _, bucket in buckets:
        bucket.take(at)
    name, extra, bucket = buckets[0]
    left, reset = bucket.look(at)
    left += 1 if wrong("remaining") else 0
    return rate_headers(deployment, RATES[name], left - extra, reset), None


# ---------------------------------------------------------------- lists


def seal(deployment, value):
    text = base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return f"{text}.{hmac.new(deployment.secret, text.encode(), 'sha256').hexdigest()[:16]}"


def unseal(deployment, cursor, bound):
    text, _, digest = cursor.partition(".")
    expected = hmac.new(deployment.secret, text.encode(), "sha256").hexdigest()[:16]
    if hmac.compare_digest(digest.encode(), expected.encode()):
        value = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if value["bound"] == bound:
            return value
    raise Refusal("invalid_cursor")


def collection(call, table, rows, filters=(), extra=None):
    """One page of rows, the newest first or last."""
    wrong, name = call.account.wrong, call.name
    limit = call.query.get("limit", "50")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= 200:
        raise invalid("limit must be a number from 1 to 200.", field="limit", maximum=200)
    size = int(limit)
    if name == "keywords.list":
        given = call.query.get("limit")
        size += 10 if wrong("page-long default") and given is None else 0
        size -= 20 if wrong("page-short default") and given is None else 0
        size += 10 if wrong("page-long largest") and size == 200 else 0
        size += 1 if wrong("page-long limit") and given is not None and size < 200 else 0
    chosen = {name: call.query[name] for name in filters if name in call.query}
    bound = hashlib.sha256(json.dumps([call.account.id, table, chosen], sort_keys=True).encode()).hexdigest()[
        :16
    ]
    if wrong("cursor-anywhere", name):
        bound = "any"
    beyond = wrong("lists-beyond", noun(table))
    if wrong("lists-account", noun(table)):
        rows = call.everybodys(table)
    rows = [
        row
        for row in rows
        if (beyond or call.sees(table, row)) and all(fits(row, *item) for item in chosen.items())
    ]
    newest = call.deployment.numbers.newest_first
    rows.sort(key=lambda row: row["_at"], reverse=newest)
    skip = 0
    if "cursor" in call.query:
        if wrong("cursor-refused", name):
            raise Refusal("invalid_cursor")
        cursor = unseal(call.deployment, call.query["cursor"], bound)
        if wrong("offset-paging"):
            skip = cursor["skip"]
        else:
            twice = wrong("page-twice")
            rows = [
                row
                for row in rows
                if (row["_at"] < cursor["at"] if newest else row["_at"] > cursor["at"])
                or (twice and row["_at"] == cursor["at"])
            ]
            if wrong("page-gap"):
                rows = rows[1:]
    page = rows[skip : skip + size]
    more = len(rows) > skip + size if call.deployment.numbers.exact_more else len(page) == size
    if wrong("walk-ends", name):
        more = False
    cursor = (
        seal(call.deployment, {"bound": bound, "at": page[-1]["_at"], "skip": skip + size}) if more else None
    )
    if wrong("cursor-on-last") and not more:
        cursor = seal(call.deployment, {"bound": bound, "at": 0 if newest else now(), "skip": 0})
    if wrong("cursor-missing"):
        cursor = None
    if wrong("more-on-last") and not more:
        more = True
    shown = [public(row) for row in page]
    return Reply(
        200, {"object": "list", "has_more": more, "next_cursor": cursor, "data": shown, **(extra or {})}
    )


def fits(row, name, value):
    if name == "label_id":
        return value in row["label_ids"]
    if name == "active":
        return value == str(row["active"]).lower()
    return row.get(name) == value


def public(row):
    return {name: value for name, value in row.items() if not name.startswith("_")}


def one(row, status=200, **more):
    return Reply(status, {"data": {**public(row), **more}})


FILTERS = {
    "domains": (),
    "keyword-lists": ("domain_id",),
    "labels": ("domain_id",),
    "competitors": ("domain_id",),
    "keywords": ("domain_id", "list_id", "label_id", "keyword"),
    "scans": ("domain_id", "active"),
    "jobs": ("domain_id", "kind", "status"),
    "keyword-briefs": ("domain_id", "keyword"),
    "webhooks": ("domain_id",),
}


def read_list(table):
    return lambda call: collection(call, table, call.account.tables[table].values(), FILTERS[table])


def read_one(table):
    return lambda call: one(call.row(table, call.ids[0], "resource"))


# ---------------------------------------------------------------- configuration


def create_domain(call):
    call.whole_account()
    host, path = call.text("host"), call.text("path", optional=True)
    label = call.text("label", optional=True) or host
    return one(call.account.add("domains", host=host, path=path, label=label, last_full_crawl_at=None), 201)


def create_of_domain(table, name):
    """Keyword lists, labels and competitors have one text of their own, beside their domain."""

    def create(call):
        call.reaching = f"makes-beyond {call.name}"
        text = call.text(name)
        domain = call.row("domains", call.text("domain_id"), "domain")
        return one(call.account.add(table, domain_id=domain["id"], **{name: text}), 201)

    return create


def update(table, *names):
    def patch(call):
        row, wrong = call.row(table, call.ids[0], "resource"), call.account.wrong
        if wrong("if-match", table) and "if-match" not in call.headers:
            raise Refusal("precondition_required")
        if wrong("stale", table) and row.get("_patched", 0) > now() - 5 * SECOND:
            raise Refusal("stale")
        changes = {name: call.text(name, optional=name == "path") for name in names if name in call.body}
        if not wrong("patch-ignored", table) and not (wrong("first-wins", table) and "_patched" in row):
            row.update(changes, _patched=now())
        return one(row)

    return patch


def update_keyword(call):
    row = call.row("keywords", call.ids[0], "keyword")
    if "label_ids" in call.body:
        label_ids = texts(call, "label_ids")
        for label_id in label_ids:
            if call.row("labels", label_id, "label")["domain_id"] != row["domain_id"]:
                raise invalid("A label of another domain.", field="label_ids")
        row["label_ids"] = label_ids
    return one(row)


def remove(table):
    def delete(call):
        account = call.account
        row = call.row(table, call.ids[0], "resource")
        if table == "domains":
            call.whole_account()
        before = account.freeing()
        account.drop(table, row)
        owned = {"domains": "domain_id", "keyword-lists": "list_id"}.get(table)
        if owned:
            for other, rows in list(account.tables.items()):
                for item in [item for item in rows.values() if item.get(owned) == row["id"]]:
                    account.drop(other, item)
        for scan in account.tables["scans"].values():
            scan["list_ids"] = [name for name in scan["list_ids"] if name in account.tables["keyword-lists"]]
        account.hold(before, noun(table))
        return Reply(200, {"data": {"id": row["id"], "deleted": True}})

    return delete


def texts(call, name, *, filled=False):
    values = call.body.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() for value in values):
        raise invalid(f"{name} must be an array of text.", field=name)
    if filled and not values:
        raise invalid(f"{name} must not be empty.", field=name)
    return values


# ---------------------------------------------------------------- spending


@dataclass
class Spend:
    """What a request would spend: `op` is one of SPENDING, whose `cost` the ceiling `gates` or not."""

    op: str
    domain_id: str
    cost: int = 0
    gates: bool = True
    units: int = 1  # of each metric that it takes from
    widens: int = 0


def lacks_capability(call, spend):
    capability = spend.op if spend.op in ("site_optimization", "ai_scan") else None
    if capability and capability not in call.account.plan["capabilities"]:
        return Refusal("entitlement_required", meta={"capability": capability})
    return None


def is_past_due(call, spend):
    if call.account.wrong("healthy-refused") and chance.random() < 0.1:
        return Refusal("subscription_inactive")
    return Refusal("subscription_inactive") if call.account.status == "past_due" else None


def passes_ceiling(call, spend):
    account, numbers = call.account, call.deployment.numbers
    spent, reserved, end = account.costs()
    ceiling = account.plan["ceiling"] // (2 if account.wrong("ceiling-early") else 1)
    over = spent + reserved >= ceiling if numbers.at_ceiling else spent + reserved + spend.cost > ceiling
    if not over or not (spend.gates or numbers.all_gated):
        return None
    shown = account.plan["ceiling"] + (1_000_000 if account.wrong("other-ceiling") else 0)
    amounts = {"amount_spent": spent + reserved, "ceiling": shown}
    meta = {name: {"amount": usd(amount), "currency": "USD"} for name, amount in amounts.items()}
    return Refusal("cost_cap_reached", meta={**meta, "reset_date": iso(end)[:10]})


def takes_of(account, op):
    return [name for name, (_, _, ops) in account.plan["quotas"].items() if op in ops]


def passes_quota(call, spend):
    account = call.account
    for name in takes_of(account, spend.op):
        meta, _, start = account.metric(name)
        early = 3 if account.wrong("quota-early") else -5 if account.wrong("quota-more") else 0
        if meta["used"] + spend.units + early > meta["limit"]:
            if account.wrong("refusal-keeps"):
                account.used[name, start] += 1
            return Refusal("quota_exhausted", meta=meta)
    return None


def passes_slots(call, spend):
    usage = call.account.slot_usage()
    early = 4 if call.account.wrong("slots-early", spend.op) else 0
    if spend.widens and usage["used"] + spend.widens + early > usage["_limit"]:
        meta = {"used": usage["used"], "limit": usage["limit"], "needed": spend.widens}
        return Refusal("slot_limit_exceeded", meta=meta)
    return None


def cools(call, spend):
    account, scale = call.account, call.deployment.scale
    seconds = account.plan["cooldown_seconds"].get(spend.op, 0) / scale
    if account.wrong("cools-longer", spend.op):
        seconds *= 1.5
    if spend.op == "rank_run" and account.wrong("joins-some"):
        return None
    if account.wrong("cools-shorter", spend.op):
        seconds *= 0.8
    domain_id = "any" if account.wrong("cools-account") else spend.domain_id
    started = max(account.started[domain_id, spend.op], default=-400 * DAY)
    wait = started + int(seconds * SECOND) - now()
    if wait <= 0:
        return None
    stated = wait * 2 + 5 * SECOND if account.wrong("other-wait", spend.op) else wait
    meta = {"kind": spend.op, "domain_id": spend.domain_id, "ready_at": iso(now() + stated)}
    headers = {"retry-after": str(-(-int(stated * scale) // SECOND))}
    return Refusal("cooldown_active", meta=meta, headers=headers)


FAILING = dict(
    zip(
        CHECKS,
        (lacks_capability, is_past_due, passes_ceiling, passes_quota, passes_slots, cools),
        strict=True,
    )
)


def running(call, spend):
    """The run that this one would join."""
    wrong, runs = call.account.wrong, list(call.account.tables["jobs"].values())
    for job in reversed(runs):
        same = (job["domain_id"], job["kind"]) == (spend.domain_id, spend.op)
        ended = job["finished_at"] is not None and not wrong("joins-ended", spend.op)
        if same and not ended and (spend.op == "rank_run" or wrong("joins", spend.op)):
            call.deployment.joined += 1
            some = wrong("joins-some") and call.deployment.joined % 2 == 0
            return None if wrong("never-joins") or some else job
    return None


def raced(call, spend, check):
    """Whether a call does not see, in a check, the one before it with which it is under way."""
    if not call.account.wrong("raced", spend.op if check == "cooldown" else check):
        return False
    return now() < call.account.accepted[spend.op] + RACE


def guard(call, spend, dry_run, before_slots=None):
    """The checks in their order, of which the first that fails is raised. Returns a run to be joined.

    A dry run that reports returns the refusal instead.
    """
    wrong, numbers = call.account.wrong, call.deployment.numbers
    order = list(CHECKS)

    def fails(check):
        refusal = before_slots() if check == "slots" and before_slots else None
        return refusal or FAILING[check](call, spend)

    for later in CHECKS:
        for earlier in CHECKS[: CHECKS.index(later)]:
            # where one of the two alone fails, it is as ever
            if wrong("dry-order" if dry_run else "order", later, earlier) and fails(earlier) and fails(later):
                order.remove(later)
                order.insert(order.index(earlier), later)
    join = None
    if spend.op in JOB_KINDS and not raced(call, spend, "cooldown"):
        join = running(call, spend)
    for check in order:
        if join and check == ("cooldown" if numbers.join == "late" else "cost_ceiling"):
            return join
        refusal = fails(check)
        if refusal is None or wrong("granted", check, spend.op) or raced(call, spend, check):
            continue
        if dry_run and (wrong("dry-blind", refusal.code) or wrong("dry-allows", spend.op)):
            continue
        if dry_run and numbers.dry_report:
            return refusal
        raise refusal
    return None


def take(call, spend):
    """Book what a request spends at once."""
    account, wrong = call.account, call.account.wrong
    domain_id = "any" if wrong("cools-account") else spend.domain_id
    account.started[domain_id, spend.op].append(now())
    account.accepted[spend.op] = now()
    for name in takes_of(account, spend.op):
        if not (wrong("quota-free") or (wrong("quota") and call.deployment.draws.random() < 0.5)):
            account.used[name, account.metric(name)[2]] += spend.units
    if wrong("tracking-costs", spend.op):
        account.spent[account.month()[0]] += 10_000


def rehearsed(call, spend, outcome, **more):
    """The reply of a dry run."""
    if call.account.wrong("dry-spends", spend.op):
        take(call, spend)
        account = call.account
        account.held[account.month()[0]] += spend.widens
        account.spent[account.month()[0]] += max(spend.cost, 10_000)
    if isinstance(outcome, Refusal):
        refusal = {
            "code": outcome.code,
            "status": outcome.status,
            "detail": outcome.detail,
            "meta": outcome.meta,
        }
        return Reply(200, {"data": {"dry_run": True, "allowed": False, "refusal": refusal}})
    return Reply(200, {"data": {"dry_run": True, "allowed": True, **more}})


def start_job(call):
    account, deployment, dry_run = call.account, call.deployment, call.dry_run()
    wrong, numbers = account.wrong, deployment.numbers
    kind = call.body.get("kind")
    if kind not in JOB_KINDS:
        raise invalid("kind must be one of " + ", ".join(JOB_KINDS) + ".", field="kind")
    call.reaching = f"starts-beyond {kind}"
    domain = call.row("domains", call.text("domain_id"), "domain")
    scans = [scan for scan in account.tables["scans"].values() if scan["domain_id"] == domain["id"]]
    cost = {
        "rank_run": 2_000 * max(1, size(account.slots(scans))),
        "crawl": 500 * account.plan["page_cap"],
        "site_optimization": 350_000,
        "ai_scan": 12_000 * account.plan["call_cap"],
    }[kind]
    spend = Spend(kind, domain["id"], cost)
    outcome = guard(call, spend, dry_run)
    joined = outcome if isinstance(outcome, dict) else None
    if dry_run and not wrong("dry-real", kind):
        if wrong("dry-starts", kind) and outcome is None:
            begin_job(deployment, account, domain, spend, quietly=True)
        return rehearsed(call, spend, outcome, cost_estimate=usd(cost), would_join=joined and joined["id"])
    if joined:
        account.reserved[account.month()[0]] += cost if wrong("join-paid") else 0
        return Reply(200, {"data": shown_job(deployment, joined)})
    take(call, spend)
    if numbers.booking == "acceptance":
        account.spent[account.month()[0]] += cost
    else:
        account.reserved[account.month()[0]] += cost
    return Reply(201, {"data": shown_job(deployment, begin_job(deployment, account, domain, spend))})


def begin_job(deployment, account, domain, spend, *, quietly=False):
    seconds = deployment.draws.uniform(*deployment.numbers.job_seconds) / deployment.scale
    fails = deployment.draws.random() < deployment.numbers.failing
    fails = fails or domain["id"] in deployment.failing_domains
    kind = spend.op
    if account.wrong("other-kind", kind):
        kind = JOB_KINDS[(JOB_KINDS.index(kind) + 1) % 4]
    job = account.add(
        "jobs",
        status="pending",
        kind=kind,
        domain_id=domain["id"],
        progress=0.0,
        error_detail=None,
        finished_at=None,
        cost=usd(spend.cost),
        _seconds=seconds,
        _spend=spend,
        _quietly=quietly,
        _month=account.month()[0],
    )
    deployment.later(seconds / 10, lambda: take_up(deployment, job))
    deployment.later(seconds, lambda: finish_job(deployment, account, job, fails))
    return job


def take_up(deployment, job):
    with deployment.lock:
        if job["finished_at"] is None:  # a timer that is late finds the job over
            job["status"] = "running"


def finish_job(deployment, account, job, fails):
    with deployment.lock:
        at, wrong, spend = now(), deployment.wrong, job["_spend"]
        ended = "failed" if fails else "done"
        job.update(status="error" if fails else "done", finished_at=iso(at))
        job["error_detail"] = "The provider did not answer." if fails else None
        job["progress"] = job["progress"] if fails else 1.0
        if wrong("runs-again", ended):
            deployment.later(1, lambda: job.update(status="running", finished_at=None))
        if wrong("changes", ended):
            deployment.later(1, lambda: job.update(finished_at=iso(now())))
        if deployment.numbers.booking == "reserve" and not job["_quietly"]:
            account.reserved[job["_month"]] -= 0 if fails and wrong("reserve-kept") else spend.cost
            account.spent[job["_month"]] += 0 if fails else spend.cost * 4 // 5
        if wrong("cost-falls"):
            account.spent[job["_month"]] -= spend.cost // 2
        arms = deployment.numbers.failed_arms or wrong("failed-arms")
        if fails and not arms and not job["_quietly"]:
            accepted = account.started[job["domain_id"], spend.op]
            before = [one for one in accepted if one <= job["_at"]]
            if before:
                accepted.remove(max(before))
        domain = account.tables["domains"].get(job["domain_id"])
        if domain and job["kind"] == "crawl" and not fails:
            domain["last_full_crawl_at"] = iso(at)
        if wrong("untold", job["kind"], ended) or wrong("untold", "all", "all"):
            return
        names = ("id", "kind", "status", "domain_id", "error_detail", "finished_at")
        event = {"job": {name: job[name] for name in names}}
        told = "job.failed" if fails else "job.completed"
        for name in EVENT_TYPES:
            if wrong("told-as", name):
                told = name
        emit(deployment, account, told, event, job["domain_id"])


def shown_job(deployment, job):
    if job["finished_at"] is None:
        done = min(0.99, (now() - job["_at"]) / SECOND / job["_seconds"])
        job["progress"] = round(0.99 - done if deployment.wrong("progress-falls") else done, 3)
    return public(job)


def read_job(call):
    job = call.row("jobs", call.ids[1], "job")
    if job["kind"] != call.ids[0] and not call.account.wrong("any-kind"):
        raise missing("job")
    return Reply(200, {"data": shown_job(call.deployment, job) | {"kind": call.ids[0]}})


def create_keywords(call):
    account, dry_run = call.account, call.dry_run()
    words = {fold(word): word.strip() for word in texts(call, "keywords", filled=True)}
    owner = call.row("keyword-lists", call.text("list_id"), "keyword list")
    present = account.words[owner["id"]]
    fresh = [word for folded, word in words.items() if folded not in present]
    widens = added(account.slots(), account.slots(more=(owner["id"], fresh)))
    spend = Spend("keywords", owner["domain_id"], gates=False, widens=widens)
    outcome = guard(call, spend, dry_run)
    if dry_run and not account.wrong("dry-real", "keywords"):
        return rehearsed(call, spend, outcome, slots_added=widens)
    take(call, spend)
    common = {"list_id": owner["id"], "domain_id": owner["domain_id"]}
    rows = [account.add("keywords", keyword=word, label_ids=[], **common) for word in fresh]
    created = [public(row) for row in rows]
    data = {"created": created, "already_present": len(words) - len(fresh), "slots_added": widens}
    return Reply(201, {"data": {"list_id": owner["id"], **data}})


def scan_fields(call, scan):
    """The fields of a scan with what the body changes, checked."""
    body, fields = call.body, dict(scan)
    for name in ("name", "active", "engine_devices", "geographies"):
        if name in body:
            fields[name] = body[name]
    if "list_ids" in body:
        fields["list_ids"] = list(dict.fromkeys(texts(call, "list_ids")))
        for list_id in fields["list_ids"]:
            if call.row("keyword-lists", list_id, "keyword list")["domain_id"] != fields["domain_id"]:
                raise invalid("A list of another domain.", field="list_ids")
    if not isinstance(fields["active"], bool):
        raise invalid("active must be true or false.", field="active")
    for name in ("engine_devices", "geographies"):
        if not isinstance(fields[name], list) or not fields[name]:
            raise invalid(f"{name} must be an array with something in it.", field=name)
    pairs = [pair.split("/", 1) if isinstance(pair, str) else pair for pair in fields["engine_devices"]]
    pairs = [
        dict(zip(("engine", "device"), pair, strict=False)) if isinstance(pair, list) else pair
        for pair in pairs
    ]
    if not all(isinstance(pair, dict) and {"engine", "device"} <= set(pair) for pair in pairs):
        raise invalid("An engine and a device each.", field="engine_devices")
    fields["engine_devices"] = [{"engine": pair["engine"], "device": pair["device"]} for pair in pairs]
    if not all(
        isinstance(place, dict) and isinstance(place.get("country"), str) for place in fields["geographies"]
    ):
        raise invalid("A country each.", field="geographies")
    return fields


def beyond_dimensions(call, scan, others):
    limits = call.account.plan["dimensions"]
    sizes = {name: len(scan[name]) for name in ("engine_devices", "geographies")} | {"scans": others + 1}
    for name, size in sizes.items():
        if size > limits[name]:
            meta = {"dimension": name, "requested": size, "limit": limits[name]}
            return Refusal("slot_limit_exceeded", f"The plan allows fewer {name}.", meta=meta)
    return None


def create_scan(call):
    account, dry_run = call.account, call.dry_run()
    call.reaching = f"makes-beyond {call.name}"
    domain = call.row("domains", call.text("domain_id"), "domain")
    blank = {"name": "scan", "active": True, "list_ids": [], "engine_devices": [], "geographies": []}
    fields = scan_fields(call, {"domain_id": domain["id"], **blank})
    scans = [*account.tables["scans"].values(), {"id": "new", **fields}]
    widens = added(account.slots(), account.slots(scans))
    spend = Spend("scans", domain["id"], gates=False, widens=widens)
    outcome = guard(
        call, spend, dry_run, lambda: beyond_dimensions(call, fields, len(account.tables["scans"]))
    )
    if dry_run and not account.wrong("dry-real", "scans"):
        return rehearsed(call, spend, outcome, slots_added=widens)
    take(call, spend)
    return one(account.add("scans", **fields), 201)


def update_scan(call):
    account = call.account
    scan = call.row("scans", call.ids[0], "scan")
    fields = scan_fields(call, scan)
    widens = added(account.slots([scan]), account.slots([fields]))
    if widens:
        refusal = beyond_dimensions(call, fields, len(account.tables["scans"]) - 1)
        if refusal:
            raise refusal
        usage = account.slot_usage()
        if usage["used"] + widens > usage["limit"]:
            meta = {"used": usage["used"], "limit": usage["limit"], "needed": widens}
            raise Refusal("slot_limit_exceeded", meta=meta)
    everything = account.freeing()
    scan.update(fields)
    account.hold(everything, "patch")
    return one(scan)


def create_briefs(call):
    account, dry_run = call.account, call.dry_run()
    if "keyword_ids" in call.body or "keyword_id" in call.body:
        ids = (
            texts(call, "keyword_ids", filled=True)
            if "keyword_ids" in call.body
            else [call.text("keyword_id")]
        )
        rows = [call.row("keywords", keyword_id, "keyword") for keyword_id in dict.fromkeys(ids)]
        wanted = [(row["domain_id"], row["keyword"]) for row in rows]
    else:
        words = {fold(word): word for word in texts(call, "keywords", filled=True)}
        domain = call.row("domains", call.text("domain_id"), "domain")
        wanted = [(domain["id"], word) for word in words.values()]
    units = len(wanted)
    spend = Spend("keyword_briefs", wanted[0][0], 4_000 * units, gates=False, units=units)
    outcome = guard(call, spend, dry_run)
    if dry_run and not account.wrong("dry-real", "keyword_briefs"):
        return rehearsed(call, spend, outcome, units=units)
    take(call, spend)
    account.spent[account.month()[0]] += spend.cost
    summary = "What the five best pages have in common."
    briefs = [account.add("keyword-briefs", domain_id=d, keyword=word, summary=summary) for d, word in wanted]
    return Reply(201, {"data": {"id": new_id(), "briefs": [public(row) for row in briefs]}})


# ---------------------------------------------------------------- account


def read_account(call):
    account = call.account
    start, end = account.month()
    data = {"id": account.id, "name": account.name, "plan": account.plan_name, "status": account.status}
    return Reply(200, {"data": {**data, "period_start": iso(start), "period_end": iso(end)}})


def read_usage(call):
    account, wrong = call.account, call.account.wrong
    spent, reserved, end = account.costs()
    metrics = []
    for name in account.plan["quotas"]:
        metric, period, start = account.metric(name)
        if wrong("used-grows"):
            account.used[name, start] += 1
        more = 1 if wrong("quota-sum") else 0
        metrics.append(
            {**metric, "remaining": max(0, metric["limit"] - metric["used"]) + more, "period": period}
        )
    cost = {"spent": usd(spent + reserved), "ceiling": usd(account.plan["ceiling"]), "currency": "USD"}
    if call.deployment.numbers.booking == "reserve":
        cost |= {"settled": usd(spent), "reserved": usd(reserved)}
        if wrong("cost-sum"):
            cost["spent"] = usd(spent + reserved + 1_000_000)
    if wrong("reset cost"):
        end += 5 * DAY
    return Reply(200, {"data": {"cost": {**cost, "resets_at": iso(end)}, "metrics": metrics}})


def read_entitlements(call):
    plan = call.account.plan
    names = ("capabilities", "dimensions", "slot_limit", "page_cap", "call_cap", "cooldown_seconds")
    return Reply(200, {"data": {name: plan[name] for name in names}})


def read_slots(call):
    return Reply(200, {"data": public(call.account.slot_usage())})


def read_nothing(call):
    """What this deployment has no data for yet."""
    return collection(call, call.path, [], ("domain_id", "keyword_id", "date"))


def read_positions(call):
    notice = {"notice": {"code": "no_positions", "message": "Nothing was measured yet."}}
    return collection(call, call.path, [], ("domain_id", "keyword_id", "date"), notice)


# ---------------------------------------------------------------- webhooks


def endpoint_fields(call, row):
    fields = {name: row[name] for name in ("url", "event_types", "domain_id", "enabled")}
    fields.update({name: call.body[name] for name in fields if name in call.body})
    if not isinstance(fields["url"], str) or not re.fullmatch(r"https?://[^\s/]+(/\S*)?", fields["url"]):
        raise invalid("url must be an address of http or https.", field="url")
    types = fields["event_types"]
    if not isinstance(types, list) or not all(
        isinstance(name, str) and name in EVENT_TYPES for name in types
    ):
        raise invalid("event_types must be an array of types that exist.", field="event_types")
    if not isinstance(fields["enabled"], bool):
        raise invalid("enabled must be true or false.", field="enabled")
    if fields["domain_id"] is None:
        call.whole_account()
    else:
        call.reaching = "endpoint-beyond"
        call.row("domains", fields["domain_id"], "domain")
    return fields


def create_webhook(call):
    fields = endpoint_fields(call, {"url": None, "event_types": [], "domain_id": None, "enabled": True})
    secret = f"whsec_{chance.getrandbits(192):048x}"
    private = {"_secret": secret, "_failures": 0, "_generation": 0}
    made = call.account.add("webhooks", disabled_reason=None, **fields, **private)
    return one(made, 201, **{call.deployment.numbers.secret: secret})


def update_webhook(call):
    row = call.row("webhooks", call.ids[0], "webhook endpoint")
    fields = endpoint_fields(call, row)
    if fields["enabled"] and not row["enabled"]:
        kept = row["_failures"] if call.account.wrong("enable-keeps-count") else 0
        row.update(disabled_reason=None, _failures=kept)
    if row["enabled"] and not fields["enabled"]:
        row.update(disabled_reason="switched off", _generation=row["_generation"] + 1)
    row.update(fields)
    return one(row)


def test_webhook(call):
    row = call.row("webhooks", call.ids[0], "webhook endpoint")
    if not row["enabled"]:
        raise Refusal("endpoint_disabled")
    event = new_event("ping", {"test": True, "endpoint_id": row["id"]})
    if not call.account.wrong("test-unsent"):
        send_later(call.deployment, 0, call.account, row, event, 1)
    return Reply(202, {"data": {"event_id": event["id"], "endpoint_id": row["id"]}})


def new_event(kind, data):
    return {"id": new_id(), "type": kind, "created_at": iso(now()), "data": data}


def emit(deployment, account, kind, data, domain_id):
    wrong = deployment.wrong
    everywhere = [other for other in deployment.accounts if other.environment == account.environment]
    for owner in everywhere if wrong("hook-any-account") else [account]:
        for row in list(owner.tables["webhooks"].values()):
            wanted = not row["event_types"] or kind in row["event_types"] or wrong("hook-unlisted", kind)
            if wrong("hook-some") and not row["event_types"] and kind == "job.failed":
                continue
            here = row["domain_id"] in (None, domain_id) or wrong("hook-any-domain")
            if row["enabled"] and wanted and here:
                send_later(deployment, 0, owner, row, new_event(kind, data), 1)


def send_later(deployment, seconds, account, row, event, number, first=None):
    generation = row["_generation"]
    deployment.later(seconds, lambda: attempt(deployment, account, row, event, number, generation, first))


def attempt(deployment, account, row, event, number, generation, first):
    """Send an event once, and see to what follows from the answer."""
    with deployment.lock:
        gone = row["id"] not in account.tables["webhooks"]
        paused = deployment.wrong("retries-paused") and not row["enabled"]
        if gone or (not paused and (not row["enabled"] or row["_generation"] != generation)):
            return
    if paused:
        send_later(deployment, 5, account, row, event, number, first)
        return
    began, wrong = now(), deployment.wrong
    first = first or began
    if wrong("retry-new-id") and number > 1:
        event = {**event, "id": new_id()}
    raw, headers = signed(deployment, row, event, number, first)

    def answered(status, error, duration):
        acknowledged = status is not None and 200 <= status < 300 and error is None
        if wrong("not-acknowledged", str(status)):
            acknowledged, error = False, "The receiver did not answer"
        with deployment.lock:
            at = now()
            next_delay = None
            row["_failures"] = (
                0 if acknowledged and not wrong("count-kept") else row["_failures"] + (not acknowledged)
            )
            if row["_failures"] >= (14 if wrong("disabled-early") else 20) and row["enabled"]:
                reason = None if wrong("no-reason") else "20 deliveries in a row failed"
                row.update(enabled=False, disabled_reason=reason)
                row["_generation"] += not wrong("retries-paused")
            kind = "no answer" if status is None else f"{status // 100}xx"
            most = 7 if wrong("seventh") else 6
            goes_on = not wrong("no-retry", kind) and not wrong("not-made", str(number + 1))
            if (
                not acknowledged
                and row["enabled"]
                and row["_generation"] == generation
                and number < most
                and goes_on
            ):
                delays = (*RETRY_DELAYS, 21600)
                next_delay = delays[number - 1] / deployment.scale * deployment.draws.uniform(0.95, 1.05)
                if wrong("delay", str(number)):
                    next_delay *= 1.7
                send_later(deployment, next_delay, account, row, event, number + 1, first)
            shown = (
                {"2xx": 500, "3xx": 200, "4xx": 500, "5xx": 404}[kind] if wrong("listed", kind) else status
            )
            delivery_id = new_id()
            account.deliveries[delivery_id] = {
                "id": delivery_id,
                "endpoint_id": row["id"],
                "domain_id": row["domain_id"],
                "event_id": event["id"],
                "event_type": event["type"],
                "attempt": number,
                "status_code": shown,
                "error": error,
                "duration_ms": duration // 1000,
                "next_attempt_at": None
                if next_delay is None
                else iso(began + duration + int(next_delay * SECOND)),
                "created_at": iso(began),
                "_at": at,
            }

    deployment.post(row["url"], raw, headers, answered)


def signed(deployment, row, event, number, first):
    """The bytes and headers of an attempt."""
    wrong = deployment.wrong
    ping = event["type"] == "ping"
    how = "test" if ping else "first" if number == 1 else "retry"
    if not ping and wrong("body-lacks", event["type"]):
        job = {name: value for name, value in event["data"]["job"].items() if name != "finished_at"}
        event = {**event, "data": {"job": job}}
    raw = json.dumps(event, indent=1, ensure_ascii=False).encode()
    timestamp = (first if wrong("first-time") else now()) // SECOND - (1000 if wrong("old", how) else 0)
    text = f"{timestamp}.".encode() + (json.dumps(event).encode() if wrong("signed-other") else raw)
    if wrong("signed-bare"):
        text = raw
    if wrong("badly-signed", how):
        text += b"!"
    digest = hmac.new(row["_secret"].encode(), text, hashlib.sha256).hexdigest()
    if wrong("capitals"):
        digest = digest.upper()
    headers = {
        "content-type": "text/plain" if wrong("content-type", how) else "application/json",
        "service-signature": f"t={timestamp},v1={digest}",
        "service-event-id": event["id"],
        "service-event-type": event["type"],
        "service-delivery-attempt": str((number - 1) % 2 + 1 if wrong("numbers-anew") else number),
    }
    for name in ("service-event-type", "service-delivery-attempt"):
        if wrong("no-hook-header", name, how):
            del headers[name]
    return raw, headers


def post(address, raw, headers, answered):
    """POST an attempt, and tell its status and what went wrong, each if there was any, and µs it took."""
    url = urlsplit(address)
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    began, status, error = time.monotonic(), None, None
    try:
        connection = connect(url.netloc, timeout=10)
        try:
            connection.request(
                "POST", (url.path or "/") + (f"?{url.query}" if url.query else ""), raw, headers
            )
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as problem:
        error = f"{type(problem).__name__}: {problem}"
    duration = time.monotonic() - began
    if duration > 10:
        status, error = None, "No response within 10 seconds"
    if status is not None and not 200 <= status < 300:
        error = f"The receiver answered {status}"
    answered(status, error, int(duration * SECOND))


def read_deliveries(call):
    recent = [row for row in call.account.deliveries.values() if row["_at"] > now() - 7 * DAY]
    return collection(call, "deliveries", recent, ("endpoint_id", "event_id"))


def event_types(deployment):
    known = {} if deployment.wrong("no-types") else dict(EVENT_TYPES)
    if deployment.wrong("other-types"):
        del known["job.failed"]
    data = [{"type": name, "description": text} for name, text in known.items()]
    return Reply(200, {"object": "list", "data": data, "has_more": False, "next_cursor": None})


# ---------------------------------------------------------------- routes

ID = "/([^/]+)"


VERBS = {"POST": "create", "PATCH": "update", "DELETE": "delete"}


def name_of(method, pattern):
    """What an operation is called: "domains.get"."""
    table, _, rest = pattern[1:].partition("/")
    if rest in ("usage", "entitlements", "history", "industries"):
        return f"{noun(table)}.{rest}"
    if pattern.endswith("/test"):
        return "webhooks.test"
    single = rest or table in ("account", "slots")
    return f"{noun(table)}.{VERBS.get(method) or ('get' if single else 'list')}"


def routes(deployment):
    """First part of the path → (method, pattern, class of its rate limit, name, what it does)."""
    widening = deployment.numbers.widening
    table = [
        ("POST", "/domains", "write", create_domain),
        ("POST", "/keyword-lists", "write", create_of_domain("keyword-lists", "name")),
        ("POST", "/labels", "write", create_of_domain("labels", "name")),
        ("POST", "/competitors", "write", create_of_domain("competitors", "host")),
        ("POST", "/keywords", widening, create_keywords),
        ("POST", "/scans", widening, create_scan),
        ("POST", "/jobs", "expensive", start_job),
        ("POST", "/keyword-briefs", "expensive", create_briefs),
        ("POST", "/webhooks", "write", create_webhook),
        ("POST", f"/webhooks{ID}/test", "write", test_webhook),
        ("PATCH", f"/domains{ID}", "write", update("domains", "host", "path", "label")),
        ("PATCH", f"/keyword-lists{ID}", "write", update("keyword-lists", "name")),
        ("PATCH", f"/labels{ID}", "write", update("labels", "name")),
        ("PATCH", f"/competitors{ID}", "write", update("competitors", "host")),
        ("PATCH", f"/keywords{ID}", "write", update_keyword),
        ("PATCH", f"/scans{ID}", "write", update_scan),
        ("PATCH", f"/webhooks{ID}", "write", update_webhook),
        ("GET", f"/jobs{ID}{ID}", "read", read_job),
        ("GET", "/account", "read", read_account),
        ("GET", "/account/usage", "read", read_usage),
        ("GET", "/account/entitlements", "read", read_entitlements),
        ("GET", "/slots", "read", read_slots),
        ("GET", "/positions", "read", read_positions),
        ("GET", "/positions/history", "read", read_positions),
        ("GET", "/webhook-deliveries", "read", read_deliveries),
    ]
    table += [("GET", f"/{name}", "read", read_list(name)) for name in FILTERS]
    table += [("GET", f"/{name}{ID}", "read", read_one(name)) for name in FILTERS if name != "jobs"]
    removable = ("domains", "keyword-lists", "labels", "competitors", "keywords", "scans", "webhooks")
    kept = deployment.numbers.undeletable
    table += [("DELETE", f"/{name}{ID}", "write", remove(name)) for name in removable if name not in kept]
    empty = (
        "crawled-pages",
        "analyses",
        "ai-visibility",
        "ai-visibility/industries",
        "backlinks",
        "integrations",
    )
    table += [("GET", f"/{name}", "read", read_nothing) for name in empty]
    found = defaultdict(list)
    for method, pattern, kind, do in table:
        name = name_of(method, pattern)
        if deployment.wrong("other-class", name):
            kind = "read" if kind == "write" else "write"
        found[pattern.split("/")[1]].append((method, re.compile(f"/v1{pattern}"), kind, name, do))
    return found


# ---------------------------------------------------------------- idempotency


@dataclass
class Attempted:
    """A POST under an Idempotency-Key: on its way, or answered with success."""

    fingerprint: tuple
    at: int
    done: threading.Event = field(default_factory=threading.Event)
    reply: Reply | None = None


def once(call, act):
    """Do a POST once for its Idempotency-Key, and answer a repetition with the first answer."""
    name, wrong = call.headers.get("idempotency-key"), call.account.wrong
    if call.method != "POST" or name is None or wrong("key-ignored", call.name):
        return act(call)
    if not 1 <= len(name) <= 255:
        raise Refusal("invalid_idempotency_key")
    numbers, lock = call.deployment.numbers, call.deployment.lock
    store = (call.account if numbers.account_keys else call.key).idempotency
    body = call.raw
    if wrong("dry-same"):
        body = re.sub(rb'(, ?)?"dry_run": ?(true|false)', b"", body)
    fingerprint = (
        call.path,
        json.dumps(call.query, sort_keys=True),
        b"" if wrong("any-body", call.name) else body,
    )
    forgotten = 60 * SECOND if wrong("forgets") else 2 * DAY if wrong("remembers") else DAY
    while True:
        with lock:
            first = store.get(name)
            if first is None or (first.reply and first.at <= now() - forgotten):
                mine = store[name] = Attempted(fingerprint, now())
                break
        if wrong("always-in-flight") and call.deployment.draws.random() < 0.5:
            raise Refusal("idempotency_in_progress")
        if first.fingerprint != fingerprint and wrong("any-body-anew", call.name):
            return act(call)
        if first.fingerprint != fingerprint:
            raise Refusal("idempotency_mismatch")
        first.done.wait()
        if wrong("twice", call.name) or (wrong("twice-at-once", call.name) and now() < first.at + SECOND):
            return act(call)
        if first.reply and wrong("other-replay", call.name):
            payload = json.loads(json.dumps(first.reply.payload))
            payload["data"] = {**payload.get("data", {}), "replied_at": iso(now())}
            return Reply(first.reply.status, payload, first.reply.headers)
        if first.reply:
            return first.reply
    try:
        mine.reply = act(call)
        return mine.reply
    except Refusal as refusal:
        if numbers.stores_refusals and refusal.code in KEPT:
            mine.reply = problem(refusal, "")
        raise
    finally:
        if mine.reply is None:
            with lock:
                del store[name]
        mine.done.set()


KEPT = (
    "entitlement_required",
    "subscription_inactive",
    "cost_cap_reached",
    "quota_exhausted",
    "slot_limit_exceeded",
    "cooldown_active",
)
"""Refusals that are an answer like another to those who store them."""


# ---------------------------------------------------------------- the server


class Deployment:
    """The two environments with their keys, and the lock that guards everything in them.

    `later` has something done after so many seconds, `post` sends an attempt, and `linger` takes the time
    that work takes; whoever drives it by another clock puts others in their place.
    """

    def __init__(self, numbers, *, seed=1, scale=1, traffic_scale=1, breaks=()):
        self.numbers, self.scale, self.traffic_scale = numbers, scale, traffic_scale
        self.breaks = frozenset(breaks)
        self.lock = threading.RLock()
        self.draws = random.Random(seed)
        chance.seed(f"chance/{seed}")
        self.secret = chance.randbytes(32)
        self.linger = time.sleep
        self.routes = routes(self)
        self.keys = {"production": {}, "sandbox": {}}
        self.accounts, self.named, self.scopes = [], {}, {}
        self.failing_domains = set()  # domains whose jobs all fail, by id
        self.joined = 0  # how many runs could be joined
        self.dated = 0, ""  # when a Date header was written, and as what

    def wrong(self, *way):
        """Whether this is a way in which it is broken."""
        return bool(self.breaks) and " ".join(way) in self.breaks

    def open_accounts(self):
        """Furnish each environment with accounts, and give out keys."""
        for environment, prefix in (("production", "el_live_"), ("sandbox", "el_test_")):
            studio = self.account(environment, "Studio", "studio")
            made = {"main": (studio, None), "second": (studio, None), "third": (studio, None)}
            domains = list(studio.tables["domains"])
            made |= {"scoped": (studio, domains[0]), "scoped2": (studio, domains[1])}
            if environment == "production":
                made["other"] = (self.account(environment, "Other", "studio"), None)
                made["other2"] = (made["other"][0], None)
                made["small"] = (self.account(environment, "Corner", "corner"), None)
                if self.numbers.small_spent:
                    use_up(made["small"][0], leave=2)
                late = self.account(environment, "Late", "corner" if self.numbers.small_spent else "studio")
                late.status = "past_due"
                if self.numbers.small_spent:
                    use_up(late)
                made |= {"late": (late, None), "late2": (late, None)}
            for name, (account, scope) in made.items():
                name = name if environment == "production" else f"test_{name}"
                if name in self.numbers.keys:
                    token = prefix + f"{chance.getrandbits(128):032x}"
                    self.keys[environment][token] = Key(account, scope)
                    self.named[name], self.scopes[name] = token, scope

    def account(self, environment, name, plan):
        account = Account(self, name, plan)
        account.environment = environment
        furnish(account)
        self.accounts.append(account)
        return account

    def later(self, seconds, act):
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()

    def post(self, url, raw, headers, answered):
        post(url, raw, headers, answered)

    def date(self):
        at = now()
        if at >= self.dated[0] + (SECOND if self.numbers.keeps_date else 0):
            self.dated = at, formatdate(at / SECOND, usegmt=True)
        return self.dated[1]

    def respond(self, method, url, headers, raw):
        """Answer a request: (status, headers, body), or None outside the API. Headers are in lower case."""
        limits = rate_headers(
            self, RATES["nobody"], RATES["nobody"], now() + 60 * SECOND // self.traffic_scale
        )
        given = headers.get("x-request-id", "")
        printable = 1 <= len(given) <= 255 and given.isascii() and given.isprintable()
        request_id = given if printable and not self.wrong("id-replaced") else new_id()
        name, sandbox = "", url.startswith("/sandbox/")
        try:
            reply, name = self.answer(method, urlsplit(url), headers, raw, limits)
        except Refusal as refusal:
            reply, name = problem(refusal, request_id), getattr(refusal, "name", "")
        except Exception:
            traceback.print_exc()
            reply = problem(Refusal("server_fault"), request_id)
        if reply is None:
            return None
        body = reply.payload
        if reply.status >= 400 and body:
            body = {**body, "request_id": request_id}
        headers = {
            "date": self.date(),
            "x-request-id": request_id,
            "access-control-allow-origin": "*",
            "access-control-expose-headers": "*",
            **limits,
            **reply.headers,
        }
        status = reply.status
        if self.breaks and body is not None:
            breaks = {said.removeprefix("sandbox ") for said in self.breaks} if sandbox else self.breaks
            status, body = spoil(breaks, name, status, headers, json.loads(json.dumps(body)))
        if body is None:
            return status, headers, b""
        plain = status < 400 or self.wrong("plain-errors")
        kind = "application/json" if plain else "application/problem+json"
        headers["content-type"] = f"{kind}; charset=utf-8"
        return status, headers, body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(self, method, url, headers, raw, limits):
        """Preflight, key, rate, path, Idempotency-Key, body, in this order; `limits` learns the limit."""
        if method == "OPTIONS":
            allowed = {"access-control-allow-methods": "*", "access-control-allow-headers": "*"}
            return Reply(403 if self.wrong("preflight") else 204, None, allowed), "preflight"
        environment, path = "production", url.path
        if path.startswith("/sandbox/"):
            environment, path = "sandbox", path.removeprefix("/sandbox")
        if not path.startswith("/v1/"):
            return None, ""
        method = "GET" if method == "HEAD" else method
        public = (method, path) == ("GET", "/v1/webhook-events")
        if public and not self.wrong("events-keyed"):
            return event_types(self), "webhook_events.list"
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = self.key_of(environment, token.strip()) if scheme.lower() == "bearer" else None
        reads = "read" if method == "GET" else "write"
        if key is None and self.wrong("keyless", "unknown" if token else "none", reads):
            key = next(iter(self.keys[environment].values()))
        if key is not None and self.wrong("key-refused") and self.draws.random() < 0.03:
            key = None
        if key is None:
            raise Refusal("invalid_api_key", headers={"www-authenticate": 'Bearer realm="elsewhere"'})
        first = path.split("/")[2]
        near = () if self.wrong("unrouted", first) else self.routes.get(first, ())
        matches = [(route, match) for route in near if (match := route[1].fullmatch(path))]
        found = next(((route, match) for route, match in matches if route[0] == method), None)
        kind, name = (found[0][2], found[0][3]) if found else (reads, "")
        with self.lock:
            told, wait = charge(self, key, kind)
        limits.update(told)
        if wait:
            meta = {"class": kind, "retry_after": wait}
            raise Refusal("too_many_requests", meta=meta, headers={"retry-after": str(wait)})
        if not matches:
            raise missing("path")
        if not found:
            allowed = {"allow": ", ".join(route[0] for route, _ in matches)}
            raise Refusal("method_not_allowed", f"Not with {method}.", headers=allowed)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        call = Call(self, key, method, path, query, raw, headers, name, found[1].groups())
        try:
            return once(call, lambda call: act(call, found[0][4])), name
        except Refusal as refusal:
            refusal.name = name
            raise

    def key_of(self, environment, token):
        key = self.keys[environment].get(token)
        elsewhere = "production" if environment == "sandbox" else "sandbox"
        if key is None and self.wrong("any-environment", environment):
            key = self.keys[elsewhere].get(token)
        return key


def act(call, do):
    """Read the body, take the time that work takes, and do it."""
    if call.method in ("POST", "PATCH") and call.raw:
        if "json" not in call.headers.get("content-type", "application/json"):
            raise Refusal("unsupported_media_type")
        try:
            call.body = json.loads(call.raw)
        except ValueError:
            raise Refusal("malformed_json") from None
        if not isinstance(call.body, dict):
            raise invalid("The body must be an object.")
    usual = (0.0, 0.004 if call.method == "GET" else 0.015)
    call.deployment.linger(chance.uniform(*(call.deployment.numbers.latency or usual)))
    wrong = call.account.wrong
    if call.method == "GET" and (
        (wrong("reads-refused past-due") and call.account.status == "past_due")
        or (
            wrong("reads-refused ceiling")
            and call.account.costs()[0] * 10 >= call.account.plan["ceiling"] * 9
        )
        or (
            wrong("reads-refused briefs") and call.name == "keyword_briefs.list" and used_briefs(call.account)
        )
    ):
        raise Refusal("subscription_inactive" if wrong("reads-refused past-due") else "cost_cap_reached")
    with call.deployment.lock:
        reply = do(call)
    if wrong("secret-shown", call.name):
        shown = reply.payload["data"]
        for endpoint in shown if isinstance(shown, list) else [shown]:
            endpoint["secret"] = call.account.tables["webhooks"][endpoint["id"]]["_secret"]
    return reply


def used_briefs(account):
    metric = account.metric("brief_refreshes")[0]
    return metric["used"] >= metric["limit"]


def use_up(account, leave=0):
    """Have a customer use up allowances and slots, but for a few; without these, money too."""
    for name in account.plan["quotas"]:
        metric, _, start = account.metric(name)
        account.used[name, start] = max(0, metric["limit"] - leave)
    usage = account.slot_usage()
    account.held[account.month()[0]] += max(0, usage["limit"] - usage["used"] - leave)
    if leave:
        return
    account.spent[account.month()[0]] = account.plan["ceiling"] + 1000
    for domain_id in account.tables["domains"]:
        for op in account.plan["cooldown_seconds"]:
            account.started[domain_id, op].append(now())


def furnish(account):
    """What an account has from the beginning."""
    for number in range(3):
        host = f"site{number}.{account.name.lower()}.example"
        domain = account.add("domains", host=host, path=None, label=f"Site {number}", last_full_crawl_at=None)
        words = account.add("keyword-lists", domain_id=domain["id"], name="first list")
        for word in range(2 if account.plan_name == "corner" else account.deployment.numbers.words):
            fields = {"list_id": words["id"], "domain_id": domain["id"], "label_ids": []}
            account.add("keywords", keyword=f"word {word} of {number}", **fields)
        if number == 0:
            account.add(
                "scans",
                domain_id=domain["id"],
                name="first scan",
                active=True,
                list_ids=[words["id"]],
                engine_devices=[{"engine": "google", "device": "desktop"}],
                geographies=[{"country": "NL"}],
            )


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    deployment: Deployment

    def serve(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.deployment.respond(self.command, self.path, headers, raw)
        if answer is None:
            return self.send_error(404)
        status, headers, body = answer
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")
        self.wfile.flush()

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = do_HEAD = do_OPTIONS = serve

    def log_message(self, *_):
        pass


def problem(refusal, request_id):
    url = f"{DOCS}/api/errors#{refusal.code}"
    payload = {
        "status": refusal.status,
        "code": refusal.code,
        "title": refusal.code.replace("_", " ").capitalize(),
        "type": url,
        "documentation_url": url,
        "detail": refusal.detail,
        "remedy": refusal.remedy,
        "meta": refusal.meta,
        "request_id": request_id,
        "severity": "error",
    }
    return Reply(refusal.status, payload, refusal.headers)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """A client that hung up is none of our faults."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="jobs, cooldowns and retries run so many times as fast"
    )
    parser.add_argument("--traffic-scale", type=int, default=1, help="rate windows run so many times as fast")
    parser.add_argument("--window", choices=WINDOW_NAMES)
    parser.add_argument("--widening", choices=("expensive", "write"))
    parser.add_argument("--varied", action="store_true", help="draw what it chooses by the seed")
    parser.add_argument("--tight", action="store_true", help="draw that, and from tight ranges")
    parser.add_argument("--break", dest="breaks", action="append", default=[], help="a way of breakages.py")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = arguments()
    numbers = drawn(options.seed, quick=True) if options.varied or options.tight else Numbers()
    numbers = tightened(numbers, options.seed) if options.tight else numbers
    numbers = replace(
        numbers, window=options.window or numbers.window, widening=options.widening or numbers.widening
    )
    deployment = Deployment(
        numbers,
        seed=options.seed,
        scale=options.scale,
        traffic_scale=options.traffic_scale,
        breaks=options.breaks,
    )
    deployment.open_accounts()
    Handler.deployment = deployment
    server = Server(("127.0.0.1", options.port), Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    about = {
        "url": url,
        "sandbox_url": f"{url}/sandbox",
        "keys": deployment.named,
        "scopes": deployment.scopes,
    }
    print(json.dumps(about), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.serve_forever()


if __name__ == "__main__":
    main()
