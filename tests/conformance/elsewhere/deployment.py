"""A second deployment of the API: one plain program, written from its specification alone.

It shares no code, no structure and no assumption with ranksim, so that a judge of deployments meets one
that nobody fitted to it. It runs in real time, with a thread for each connection, jobs that take seconds
and webhooks that are sent.

Where the specification leaves a choice open, this one differs from ranksim's defaults where another team
might:

- rate windows are aligned to the clock's minutes (or `--window log`), RateLimit-Reset is an instant,
  expensive calls count as writes too, what widens tracking is expensive (or `--widening write`), and
  callers without a key have a limit of their own, and are not counted;
- 402 entitlement_required, 403 for the account's and the plan's limits and for another domain, 429
  cooldown_active, 400 validation, 409 idempotency_mismatch, 422 invalid_cursor; 201 for a job, 200 with a
  body for a removal;
- an Idempotency-Key belongs to the account, compares bytes, keeps successes only, waits for its twin, and
  marks no replay;
- lists are newest first, a full page always says has_more, a limit above 200 is refused, ids are UUIDs;
- a refused dry run is the error itself; a run is joined where its cooldown would be checked; failed runs
  arm cooldowns;
- money is text, a job is charged its estimate at acceptance and only if that fits under the ceiling,
  months are those of the calendar, only the checks that the table of operations names apply, and a
  keyword that returns counts anew;
- each endpoint gets an event id of its own, retries are jittered, and the test event is called `ping`;
- there is no GraphQL: what is not under /v1 is answered by no part of the API.

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
import secrets
import signal
import sys
import threading
import time
import traceback
import uuid
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

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
BREAKAGES = ("window-limit", "idempotency", "signature", "offset-paging", "quota", "request-id")

PLANS = {
    "studio": {
        "capabilities": ["site_optimization", "ai_scan"],
        "dimensions": {"scans": 40, "engine_devices": 6, "geographies": 5},
        "slot_limit": 400,
        "page_cap": 300,
        "call_cap": 40,
        "ceiling": 60_000_000,  # µUSD, as all money here
        "cooldown_seconds": {"rank_run": 6, "crawl": 9, "site_optimization": 12, "ai_scan": 0},
        "quotas": {"research_lookups": (200, "month"), "brief_refreshes": (25, "week")},
    },
    "corner": {
        "capabilities": [],
        "dimensions": {"scans": 3, "engine_devices": 2, "geographies": 2},
        "slot_limit": 12,
        "page_cap": 50,
        "call_cap": 0,
        "ceiling": 60_000,
        "cooldown_seconds": {"rank_run": 3, "crawl": 4, "site_optimization": 12, "ai_scan": 0},
        "quotas": {"research_lookups": (10, "month"), "brief_refreshes": (4, "week")},
    },
}


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
    """Wall time in µs. Two readings are never equal, so that what is created is totally ordered."""

    def __init__(self):
        self.last, self.lock = 0, threading.Lock()

    def __call__(self):
        with self.lock:
            self.last = max(time.time_ns() // 1000, self.last + 1)
            return self.last


now = Clock()


def iso(at):
    if at is None:
        return None
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="milliseconds")


def month_of(at):
    """Begin and end of the calendar month."""
    first = datetime.fromtimestamp(at / SECOND, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after = (first + timedelta(days=32)).replace(day=1)
    return int(first.timestamp()) * SECOND, int(after.timestamp()) * SECOND


def week_of(at):
    """Begin and end of the week, which begins on Monday at midnight."""
    day = datetime.fromtimestamp(at / SECOND, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = int((day - timedelta(days=day.weekday())).timestamp()) * SECOND
    return monday, monday + 7 * DAY


def usd(amount):
    return f"{amount / 1e6:.4f}"


# ---------------------------------------------------------------- accounts


class Account:
    """What one customer has in one environment. All of it is guarded by the deployment's lock."""

    def __init__(self, name, plan, status="active"):
        self.id, self.name, self.status = str(uuid.uuid4()), name, status
        self.plan_name, self.plan = plan, PLANS[plan]
        self.tables = defaultdict(dict)  # resource → id → row; fields with an underscore are not shown
        self.spent = defaultdict(int)  # by month
        self.used = defaultdict(int)  # by metric and begin of its period
        self.held = defaultdict(int)  # by month
        self.started = {}  # (domain, kind) → when it was accepted last
        self.idempotency = {}
        self.deliveries = {}

    def add(self, table, **fields):
        at = now()
        row = {"id": str(uuid.uuid4()), **fields, "created_at": iso(at), "_at": at}
        self.tables[table][row["id"]] = row
        return row

    def slots(self, scans=None, more=()):
        """The slots in use: one for each scan, keyword, pairing and geography, `more` being further words."""
        words = defaultdict(set)
        for row in self.tables["keywords"].values():
            words[row["list_id"]].add(fold(row["keyword"]))
        for list_id, word in more:
            words[list_id].add(fold(word))
        return {
            (scan["id"], word, pair["engine"], pair["device"], place(geography))
            for scan in (self.tables["scans"].values() if scans is None else scans)
            if scan["active"]
            for list_id in scan["list_ids"]
            for word in words[list_id]
            for pair in scan["engine_devices"]
            for geography in scan["geographies"]
        }

    def hold(self, before):
        """Keep what was freed since `before` until the end of the month."""
        self.held[month_of(now())[0]] += len(before - self.slots())

    def slot_usage(self):
        start, end = month_of(now())
        active, held, limit = len(self.slots()), self.held[start], self.plan["slot_limit"]
        return {
            "limit": limit,
            "used": active + held,
            "active": active,
            "held": held,
            "available": max(0, limit - active - held),
            "resets_at": iso(end),
        }

    def metric(self, name):
        limit, period = self.plan["quotas"][name]
        start, end = (month_of if period == "month" else week_of)(now())
        metric = {"metric": name, "used": self.used[name, start], "limit": limit, "resets_at": iso(end)}
        return metric, period, start


def fold(word):
    return word.strip().lower()


def place(geography):
    return json.dumps(geography, sort_keys=True)


@dataclass
class Key:
    account: Account
    scope: str | None = None  # the domain that it is bound to
    buckets: dict = field(default_factory=dict)


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
    ids: tuple = ()
    body: dict = field(default_factory=dict)

    @property
    def account(self):
        return self.key.account

    def row(self, table, row_id, what):
        """A row by its id, if the key may see it."""
        row = self.account.tables[table].get(row_id) if isinstance(row_id, str) else None
        if row is None:
            raise missing(what)
        if not self.sees(table, row):
            raise Refusal("out_of_scope", f"This key is bound to another domain than this {what}.")
        return row

    def sees(self, table, row):
        return self.key.scope in (None, row["id"] if table == "domains" else row.get("domain_id"))

    def whole_account(self):
        if self.key.scope is not None:
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


WINDOWS = {"clock": ClockWindow, "log": SlidingLog}


def rate_headers(limit, remaining, reset):
    return {
        "ratelimit-limit": str(limit),
        "ratelimit-remaining": str(max(0, remaining)),
        "ratelimit-reset": str(-(-reset // SECOND)),
    }


def charge(deployment, key, kind):
    """Take one call from the key's budget. Returns the headers, and seconds to wait if none was left."""
    at = now()
    kinds = ("expensive", "write") if kind == "expensive" else (kind,)
    extra = 3 if deployment.breaks == "window-limit" else 0
    window = WINDOWS[deployment.options.window]
    length = 60 * SECOND // deployment.options.traffic_scale
    buckets = [key.buckets.setdefault(kind, window(RATES[kind] + extra, length)) for kind in kinds]
    for kind, bucket in zip(kinds, buckets, strict=True):
        left, reset = bucket.look(at)
        if left <= 0:
            wait = (reset - at) * deployment.options.traffic_scale
            return rate_headers(RATES[kind], 0, reset), max(1, -(-wait // SECOND))
    for bucket in buckets:
        bucket.take(at)
    left, reset = buckets[0].look(at)
    return rate_headers(RATES[kinds[0]], left - extra, reset), None


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
    """One page of rows, the newest first."""
    limit = call.query.get("limit", "50")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= 200:
        raise invalid("limit must be a number from 1 to 200.", field="limit", maximum=200)
    size = int(limit)
    chosen = {name: call.query[name] for name in filters if name in call.query}
    bound = hashlib.sha256(json.dumps([call.account.id, table, chosen], sort_keys=True).encode()).hexdigest()[
        :16
    ]
    rows = [row for row in rows if call.sees(table, row) and all(fits(row, *item) for item in chosen.items())]
    rows.sort(key=lambda row: row["_at"], reverse=True)
    skip = 0
    if "cursor" in call.query:
        cursor = unseal(call.deployment, call.query["cursor"], bound)
        if call.deployment.breaks == "offset-paging":
            skip = cursor["skip"]
        else:
            rows = [row for row in rows if row["_at"] < cursor["at"]]
    page = rows[skip : skip + size]
    more = len(page) == size  # whether the next page has anything is not looked up
    cursor = (
        seal(call.deployment, {"bound": bound, "at": page[-1]["_at"], "skip": skip + size}) if more else None
    )
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
        text = call.text(name)
        domain = call.row("domains", call.text("domain_id"), "domain")
        return one(call.account.add(table, domain_id=domain["id"], **{name: text}), 201)

    return create


def update(table, *names):
    def patch(call):
        row = call.row(table, call.ids[0], "resource")
        row.update({name: call.text(name, optional=name == "path") for name in names if name in call.body})
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
        before = account.slots()
        del account.tables[table][row["id"]]
        owned = {"domains": "domain_id", "keyword-lists": "list_id"}.get(table)
        if owned:
            for rows in account.tables.values():
                for item in [item for item in rows.values() if item.get(owned) == row["id"]]:
                    del rows[item["id"]]
        for scan in account.tables["scans"].values():
            scan["list_ids"] = [name for name in scan["list_ids"] if name in account.tables["keyword-lists"]]
        account.hold(before)
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


def guard(call, *, capability=None, cost=None, metric=None, units=0, widens=0, run=None):
    """The checks that apply to an operation, in order. Returns a run that is joined instead of refused."""
    account, plan = call.account, call.account.plan
    if capability and capability not in plan["capabilities"]:
        raise Refusal("entitlement_required", meta={"capability": capability})
    if account.status == "past_due":
        raise Refusal("subscription_inactive")
    start, end = month_of(now())
    if cost is not None and account.spent[start] + cost > plan["ceiling"]:
        amounts = {"amount_spent": account.spent[start], "ceiling": plan["ceiling"]}
        meta = {name: {"amount": usd(amount), "currency": "USD"} for name, amount in amounts.items()}
        meta["reset_date"] = iso(end)[:10]
        raise Refusal("cost_cap_reached", meta=meta)
    if metric:
        meta = account.metric(metric)[0]
        if meta["used"] + units > meta["limit"]:
            raise Refusal("quota_exhausted", meta=meta)
    usage = account.slot_usage()
    if widens and usage["used"] + widens > usage["limit"]:
        meta = {"used": usage["used"], "limit": usage["limit"], "needed": widens}
        raise Refusal("slot_limit_exceeded", meta=meta)
    if run:
        domain_id, kind = run
        for job in account.tables["jobs"].values() if kind == "rank_run" else ():
            if (job["domain_id"], job["kind"]) == run and job["finished_at"] is None:
                return job
        seconds = plan["cooldown_seconds"][kind] / call.deployment.scale
        wait = account.started.get(run, -DAY) + int(seconds * SECOND) - now()
        if wait > 0:
            meta = {"kind": kind, "domain_id": domain_id, "ready_at": iso(now() + wait)}
            headers = {"retry-after": str(-(-int(wait * call.deployment.scale) // SECOND))}
            raise Refusal("cooldown_active", meta=meta, headers=headers)
    return None


def rehearsed(**more):
    return Reply(200, {"data": {"dry_run": True, "allowed": True, **more}})


def start_job(call):
    account, deployment, dry_run = call.account, call.deployment, call.dry_run()
    kind = call.body.get("kind")
    if kind not in JOB_KINDS:
        raise invalid("kind must be one of " + ", ".join(JOB_KINDS) + ".", field="kind")
    domain = call.row("domains", call.text("domain_id"), "domain")
    scans = [scan for scan in account.tables["scans"].values() if scan["domain_id"] == domain["id"]]
    cost = {
        "rank_run": 2_000 * max(1, len(account.slots(scans))),
        "crawl": 500 * account.plan["page_cap"],
        "site_optimization": 350_000,
        "ai_scan": 12_000 * account.plan["call_cap"],
    }[kind]
    capability = kind if kind in ("site_optimization", "ai_scan") else None
    joined = guard(call, capability=capability, cost=cost, run=(domain["id"], kind))
    if dry_run:
        return rehearsed(cost_estimate=usd(cost), would_join=joined and joined["id"])
    if joined:
        return Reply(200, {"data": shown_job(deployment, joined)})
    account.started[domain["id"], kind] = now()
    account.spent[month_of(now())[0]] += cost
    seconds = deployment.draws.uniform(1.0, 4.0) / deployment.scale
    fails = deployment.draws.random() < 0.15
    job = account.add(
        "jobs",
        status="pending",
        kind=kind,
        domain_id=domain["id"],
        progress=0.0,
        error_detail=None,
        finished_at=None,
        cost=usd(cost),
        _seconds=seconds,
    )
    deployment.later(seconds / 10, lambda: take_up(deployment, job))
    deployment.later(seconds, lambda: finish_job(deployment, account, job, fails))
    return Reply(201, {"data": shown_job(deployment, job)})


def take_up(deployment, job):
    with deployment.lock:
        if job["finished_at"] is None:  # a timer that is late finds the job over
            job["status"] = "running"


def finish_job(deployment, account, job, fails):
    with deployment.lock:
        at = now()
        job.update(status="error" if fails else "done", finished_at=iso(at))
        job["error_detail"] = "The provider did not answer." if fails else None
        job["progress"] = job["progress"] if fails else 1.0
        domain = account.tables["domains"].get(job["domain_id"])
        if domain and job["kind"] == "crawl" and not fails:
            domain["last_full_crawl_at"] = iso(at)
        names = ("id", "kind", "status", "domain_id", "error_detail", "finished_at")
        event = {"job": {name: job[name] for name in names}}
        emit(deployment, account, "job.failed" if fails else "job.completed", event, job["domain_id"])


def shown_job(deployment, job):
    if job["finished_at"] is None:
        job["progress"] = round(min(0.99, (now() - job["_at"]) / SECOND / job["_seconds"]), 3)
    return public(job)


def read_job(call):
    job = call.row("jobs", call.ids[1], "job")
    if job["kind"] != call.ids[0]:
        raise missing("job")
    return Reply(200, {"data": shown_job(call.deployment, job)})


def create_keywords(call):
    account, dry_run = call.account, call.dry_run()
    words = {fold(word): word.strip() for word in texts(call, "keywords", filled=True)}
    owner = call.row("keyword-lists", call.text("list_id"), "keyword list")
    present = {
        fold(row["keyword"]) for row in account.tables["keywords"].values() if row["list_id"] == owner["id"]
    }
    fresh = [word for folded, word in words.items() if folded not in present]
    added = len(account.slots(more=[(owner["id"], word) for word in fresh]) - account.slots())
    guard(call, widens=added)
    if dry_run:
        return rehearsed(slots_added=added)
    common = {"list_id": owner["id"], "domain_id": owner["domain_id"]}
    rows = [account.add("keywords", keyword=word, label_ids=[], **common) for word in fresh]
    created = [public(row) for row in rows]
    data = {"created": created, "already_present": len(words) - len(fresh), "slots_added": added}
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


def check_dimensions(call, scan, others):
    limits = call.account.plan["dimensions"]
    sizes = {name: len(scan[name]) for name in ("engine_devices", "geographies")} | {"scans": others + 1}
    for name, size in sizes.items():
        if size > limits[name]:
            meta = {"dimension": name, "requested": size, "limit": limits[name]}
            raise Refusal("slot_limit_exceeded", f"The plan allows fewer {name}.", meta=meta)


def create_scan(call):
    account, dry_run = call.account, call.dry_run()
    domain = call.row("domains", call.text("domain_id"), "domain")
    blank = {"name": "scan", "active": True, "list_ids": [], "engine_devices": [], "geographies": []}
    fields = scan_fields(call, {"domain_id": domain["id"], **blank})
    added = len(account.slots([{"id": "new", **fields}]))
    guard(call)
    check_dimensions(call, fields, len(account.tables["scans"]))
    guard(call, widens=added)
    if dry_run:
        return rehearsed(slots_added=added)
    return one(account.add("scans", **fields), 201)


def update_scan(call):
    account = call.account
    scan = call.row("scans", call.ids[0], "scan")
    fields = scan_fields(call, scan)
    before, after = account.slots([scan]), account.slots([fields])
    if after - before:
        check_dimensions(call, fields, len(account.tables["scans"]) - 1)
        usage = account.slot_usage()
        if usage["used"] + len(after - before) > usage["limit"]:
            meta = {"used": usage["used"], "limit": usage["limit"], "needed": len(after - before)}
            raise Refusal("slot_limit_exceeded", meta=meta)
    everything = account.slots()
    scan.update(fields)
    account.hold(everything)
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
    guard(call, metric="brief_refreshes", units=units)
    if dry_run:
        return rehearsed(units=units)
    _, _, start = account.metric("brief_refreshes")
    if not (call.deployment.breaks == "quota" and call.deployment.draws.random() < 0.5):
        account.used["brief_refreshes", start] += units
    account.spent[month_of(now())[0]] += 4_000 * units
    summary = "What the five best pages have in common."
    briefs = [account.add("keyword-briefs", domain_id=d, keyword=word, summary=summary) for d, word in wanted]
    return Reply(201, {"data": {"id": str(uuid.uuid4()), "briefs": [public(row) for row in briefs]}})


# ---------------------------------------------------------------- account


def read_account(call):
    account = call.account
    start, end = month_of(now())
    data = {"id": account.id, "name": account.name, "plan": account.plan_name, "status": account.status}
    return Reply(200, {"data": {**data, "period_start": iso(start), "period_end": iso(end)}})


def read_usage(call):
    account = call.account
    start, end = month_of(now())
    metrics = []
    for name in account.plan["quotas"]:
        metric, period, _ = account.metric(name)
        metrics.append({**metric, "remaining": metric["limit"] - metric["used"], "period": period})
    cost = {"spent": usd(account.spent[start]), "ceiling": usd(account.plan["ceiling"]), "currency": "USD"}
    return Reply(200, {"data": {"cost": {**cost, "resets_at": iso(end)}, "metrics": metrics}})


def read_entitlements(call):
    plan = call.account.plan
    names = ("capabilities", "dimensions", "slot_limit", "page_cap", "call_cap", "cooldown_seconds")
    return Reply(200, {"data": {name: plan[name] for name in names}})


def read_slots(call):
    return Reply(200, {"data": call.account.slot_usage()})


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
        call.row("domains", fields["domain_id"], "domain")
    return fields


def create_webhook(call):
    fields = endpoint_fields(call, {"url": None, "event_types": [], "domain_id": None, "enabled": True})
    secret = "whsec_" + secrets.token_hex(24)
    private = {"_secret": secret, "_failures": 0, "_generation": 0}
    made = call.account.add("webhooks", disabled_reason=None, **fields, **private)
    return one(made, 201, signing_secret=secret)


def update_webhook(call):
    row = call.row("webhooks", call.ids[0], "webhook endpoint")
    fields = endpoint_fields(call, row)
    if fields["enabled"] and not row["enabled"]:
        row.update(disabled_reason=None, _failures=0)
    if row["enabled"] and not fields["enabled"]:
        row.update(disabled_reason="switched off", _generation=row["_generation"] + 1)
    row.update(fields)
    return one(row)


def test_webhook(call):
    row = call.row("webhooks", call.ids[0], "webhook endpoint")
    if not row["enabled"]:
        raise Refusal("endpoint_disabled")
    event = new_event("ping", {"test": True, "endpoint_id": row["id"]})
    call.deployment.later(
        0, lambda: attempt(call.deployment, call.account, row, event, 1, row["_generation"])
    )
    return Reply(202, {"data": {"event_id": event["id"], "endpoint_id": row["id"]}})


def new_event(kind, data):
    return {"id": str(uuid.uuid4()), "type": kind, "created_at": iso(now()), "data": data}


def emit(deployment, account, kind, data, domain_id):
    for row in list(account.tables["webhooks"].values()):
        wanted = not row["event_types"] or kind in row["event_types"]
        if row["enabled"] and wanted and row["domain_id"] in (None, domain_id):
            send_later(deployment, 0, account, row, new_event(kind, data), 1)


def send_later(deployment, seconds, account, row, event, number):
    generation = row["_generation"]
    deployment.later(seconds, lambda: attempt(deployment, account, row, event, number, generation))


def attempt(deployment, account, row, event, number, generation):
    """Send an event once, and see to what follows from the answer."""
    with deployment.lock:
        gone = row["id"] not in account.tables["webhooks"]
        if gone or not row["enabled"] or row["_generation"] != generation:
            return
    began = now()
    status, error = post_event(deployment, row, event, number)
    acknowledged = status is not None and 200 <= status < 300 and error is None
    with deployment.lock:
        at = now()
        next_delay = None
        row["_failures"] = 0 if acknowledged else row["_failures"] + 1
        if row["_failures"] >= 20 and row["enabled"]:
            row.update(enabled=False, disabled_reason="20 deliveries in a row failed")
            row["_generation"] += 1
        if not acknowledged and row["enabled"] and row["_generation"] == generation and number < 6:
            next_delay = RETRY_DELAYS[number - 1] / deployment.scale * deployment.draws.uniform(0.95, 1.05)
            send_later(deployment, next_delay, account, row, event, number + 1)
        delivery_id = str(uuid.uuid4())
        account.deliveries[delivery_id] = {
            "id": delivery_id,
            "endpoint_id": row["id"],
            "domain_id": row["domain_id"],
            "event_id": event["id"],
            "event_type": event["type"],
            "attempt": number,
            "status_code": status,
            "error": error,
            "duration_ms": (at - began) // 1000,
            "next_attempt_at": None if next_delay is None else iso(at + int(next_delay * SECOND)),
            "created_at": iso(began),
            "_at": at,
        }


def post_event(deployment, row, event, number):
    """The status and what went wrong, each if there was any."""
    raw = json.dumps(event, indent=1, ensure_ascii=False).encode()
    timestamp = int(time.time())
    signed = json.dumps(event).encode() if deployment.breaks == "signature" else raw
    digest = hmac.new(row["_secret"].encode(), f"{timestamp}.".encode() + signed, hashlib.sha256).hexdigest()
    headers = {
        "content-type": "application/json",
        "service-signature": f"t={timestamp},v1={digest}",
        "service-event-id": event["id"],
        "service-event-type": event["type"],
        "service-delivery-attempt": str(number),
    }
    url = urlsplit(row["url"])
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    began = time.monotonic()
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
        return None, f"{type(problem).__name__}: {problem}"
    if time.monotonic() - began > 10:
        return None, "No response within 10 seconds"
    return status, None if 200 <= status < 300 else f"The receiver answered {status}"


def read_deliveries(call):
    recent = [row for row in call.account.deliveries.values() if row["_at"] > now() - 7 * DAY]
    return collection(call, "deliveries", recent, ("endpoint_id", "event_id"))


def event_types():
    data = [{"type": name, "description": text} for name, text in EVENT_TYPES.items()]
    return Reply(200, {"object": "list", "data": data, "has_more": False, "next_cursor": None})


# ---------------------------------------------------------------- routes

ID = "/([^/]+)"


def routes(widening):
    """(method, pattern of the path, class of its rate limit, what it does)."""
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
    table += [("DELETE", f"/{name}{ID}", "write", remove(name)) for name in removable]
    empty = (
        "crawled-pages",
        "analyses",
        "ai-visibility",
        "ai-visibility/industries",
        "backlinks",
        "integrations",
    )
    table += [("GET", f"/{name}", "read", read_nothing) for name in empty]
    return [(method, re.compile(f"/v1{pattern}"), kind, act) for method, pattern, kind, act in table]


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
    name = call.headers.get("Idempotency-Key")
    if call.method != "POST" or name is None:
        return act(call)
    if not 1 <= len(name) <= 255:
        raise Refusal("invalid_idempotency_key")
    store, lock = call.account.idempotency, call.deployment.lock
    fingerprint = (call.path, json.dumps(call.query, sort_keys=True), call.raw)
    while True:
        with lock:
            first = store.get(name)
            if first is None or (first.reply and first.at <= now() - DAY):
                mine = store[name] = Attempted(fingerprint, now())
                break
        if first.fingerprint != fingerprint:
            raise Refusal("idempotency_mismatch")
        first.done.wait()
        if first.reply and call.deployment.breaks != "idempotency":
            return first.reply
        if first.reply:
            return act(call)
    try:
        mine.reply = act(call)
        return mine.reply
    finally:
        if mine.reply is None:
            with lock:
                del store[name]
        mine.done.set()


# ---------------------------------------------------------------- the server


class Deployment:
    """The two environments with their keys, and the lock that guards everything in them."""

    def __init__(self, options):
        self.options, self.scale, self.breaks = options, options.scale, options.breaks
        self.lock = threading.RLock()
        self.secret = secrets.token_bytes(32)
        self.draws = random.Random(options.seed)
        self.routes = routes(options.widening)
        self.keys = {"production": {}, "sandbox": {}}
        self.named = {}
        for environment, prefix in (("production", "el_live_"), ("sandbox", "el_test_")):
            studio, corner, late = (
                Account("Studio", "studio"),
                Account("Corner", "corner"),
                Account("Late", "studio"),
            )
            late.status = "past_due"
            for account in (studio, corner, late):
                furnish(account)
            scope = next(iter(studio.tables["domains"]))
            accounts = {"main": (studio, None), "second": (studio, None), "scoped": (studio, scope)}
            accounts |= {"small": (corner, None), "late": (late, None)}
            for name, (account, scoped) in accounts.items():
                token = prefix + secrets.token_hex(16)
                self.keys[environment][token] = Key(account, scoped)
                self.named[name if environment == "production" else f"test_{name}"] = token
            if environment == "production":
                self.scope = scope

    def later(self, seconds, act):
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()


def furnish(account):
    """What an account has from the beginning."""
    for number in range(3):
        host = f"site{number}.{account.name.lower()}.example"
        domain = account.add("domains", host=host, path=None, label=f"Site {number}", last_full_crawl_at=None)
        words = account.add("keyword-lists", domain_id=domain["id"], name="first list")
        for word in range(2 if account.plan_name == "corner" else 20):
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
        self.limits = rate_headers(RATES["nobody"], RATES["nobody"], now() + 60 * SECOND)
        given = self.headers.get("X-Request-Id", "")
        printable = 1 <= len(given) <= 255 and given.isascii() and given.isprintable()
        request_id = given if printable else str(uuid.uuid4())
        try:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = self.answer(raw)
        except Refusal as refusal:
            reply = problem(refusal, request_id)
        except Exception:
            traceback.print_exc()
            reply = problem(Refusal("server_fault"), request_id)
        if reply is None:
            return self.send_error(404)
        if self.deployment.breaks == "request-id" and reply.status >= 400:
            request_id = str(uuid.uuid4())
        self.write(reply, request_id)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = do_HEAD = do_OPTIONS = serve

    def answer(self, raw):
        """Preflight, key, rate, path, Idempotency-Key, body, in this order; None outside the API."""
        deployment, url = self.deployment, urlsplit(self.path)
        if self.command == "OPTIONS":
            return Reply(
                204, None, {"access-control-allow-methods": "*", "access-control-allow-headers": "*"}
            )
        environment, path = "production", url.path
        if path.startswith("/sandbox/"):
            environment, path = "sandbox", path.removeprefix("/sandbox")
        if not path.startswith("/v1/"):
            return None
        method = "GET" if self.command == "HEAD" else self.command
        if (method, path) == ("GET", "/v1/webhook-events"):
            return event_types()
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        key = deployment.keys[environment].get(token.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            headers = {"www-authenticate": 'Bearer realm="elsewhere"'}
            raise Refusal("invalid_api_key", headers=headers)
        matches = [(route, match) for route in deployment.routes if (match := route[1].fullmatch(path))]
        found = next(((route, match) for route, match in matches if route[0] == method), None)
        kind = found[0][2] if found else "read" if method == "GET" else "write"
        with deployment.lock:
            self.limits, wait = charge(deployment, key, kind)
        if wait:
            meta = {"class": kind, "retry_after": wait}
            headers = {"retry-after": str(wait)}
            raise Refusal("too_many_requests", meta=meta, headers=headers)
        if not matches:
            raise missing("path")
        if not found:
            allowed = {"allow": ", ".join(route[0] for route, _ in matches)}
            raise Refusal("method_not_allowed", f"Not with {method}.", headers=allowed)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        call = Call(deployment, key, method, path, query, raw, self.headers, found[1].groups())
        return once(call, lambda call: act(call, found[0][3]))

    def write(self, reply, request_id):
        body = b"" if reply.payload is None else json.dumps(reply.payload).encode()
        kind = "application/json" if reply.status < 400 else "application/problem+json"
        headers = {"content-type": f"{kind}; charset=utf-8", "content-length": str(len(body))} if body else {}
        headers |= {
            "date": formatdate(usegmt=True),
            "x-request-id": request_id,
            "access-control-allow-origin": "*",
            "access-control-expose-headers": "*",
            **self.limits,
            **reply.headers,
        }
        self.send_response_only(reply.status)
        for name, value in headers.items():
            self.send_header(name, value)
        if reply.status not in (204,) and not body:
            self.send_header("content-length", "0")
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")
        self.wfile.flush()

    def log_message(self, *_):
        pass


def act(call, do):
    """Read the body, take the time that work takes, and do it."""
    if call.method in ("POST", "PATCH") and call.raw:
        if "json" not in call.headers.get("Content-Type", "application/json"):
            raise Refusal("unsupported_media_type")
        try:
            call.body = json.loads(call.raw)
        except ValueError:
            raise Refusal("malformed_json") from None
        if not isinstance(call.body, dict):
            raise invalid("The body must be an object.")
    time.sleep(random.uniform(0.0, 0.004 if call.method == "GET" else 0.015))
    with call.deployment.lock:
        return do(call)


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
    parser.add_argument("--window", choices=sorted(WINDOWS), default="clock")
    parser.add_argument("--widening", choices=("expensive", "write"), default="expensive")
    parser.add_argument("--break", dest="breaks", choices=BREAKAGES, help="deviate from the specification")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    deployment = Deployment(arguments())
    Handler.deployment = deployment
    server = Server(("127.0.0.1", deployment.options.port), Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    about = {"url": url, "sandbox_url": f"{url}/sandbox", "keys": deployment.named, "scope": deployment.scope}
    print(json.dumps(about), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.serve_forever()


if __name__ == "__main__":
    main()
