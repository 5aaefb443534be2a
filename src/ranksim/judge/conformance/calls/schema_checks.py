"""Judge headers and bodies, exchange by exchange: what every response must look like (S8-S17, S94-S99, S107).

Checks are made while the trace is read, before raw texts are dropped, and nearly all of them need one
exchange alone. Unknown fields are no fault (S113, E46); a missing or misshapen one is.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.facts import EVENT_TYPES
from ranksim.core.contract.views import DomainView, JobView
from ranksim.core.service.operations import TABLE
from ranksim.core.trace import Exchange
from ranksim.judge.conformance.calls import choices
from ranksim.judge.conformance.calls.responses import (
    JSON,
    RESPONSE_RULES,
    Fields,
    check_error,
    check_extensions,
    check_headers,
    check_json,
    check_one,
    expected_names,
    is_text,
    stated_fields,
    text_or_null,
    wrong_fields,
)
from ranksim.judge.conformance.history.exchange_reader import lowered
from ranksim.judge.conformance.history.fields import instant_or_none
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation, leaves
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Breach, Cause, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally

ENVELOPE = "resource.envelope"
FIELDS = "resource.fields"
TIMES = "resource.timestamps"
EVENTS = "resource.event_types"

TIMESTAMPS = ("created_at", "finished_at", "last_full_crawl_at", "resets_at")
"""The fields that are shown to be timestamps (S17); any other name may mean anything (S113)."""

ANSWERED = tuple(operation.name for operation in TABLE if operation.method != "DELETE")
"""The operations that answer with data."""

RULES = declare(
    Rule(
        ENVELOPE,
        "A success is {data}, a collection {data, has_more, next_cursor}",
        (8, 9),
        cases=ANSWERED,
        ways=(
            Breach(8, "a single comes without `data`", "account.get"),
            Breach(8, "a creation comes without `data`", "domains.create"),
            Breach(9, "a collection has no `has_more`", "domains.list"),
        ),
        looks_at=("has_more", "next_cursor"),
        by_reading=True,
    ),
    Rule(
        FIELDS,
        "A resource has the fields that are shown for it",
        (12, 13, 16, 38),
        (42, 43, 85, 109),
        ways=(
            Breach(12, "a Domain lacks a field when it is read", "domains.get"),
            Breach(12, "a Domain lacks a field in a list", "domains.list"),
            Breach(12, "a Domain lacks a field when it is created", "domains.create"),
            Breach(12, "a Domain lacks a field when it is updated", "domains.update"),
            Breach(13, "a Job lacks a field when it is created", "jobs.create"),
            Breach(13, "a Job lacks a field when it is read", "jobs.get"),
            Breach(13, "a Job lacks a field in a list", "jobs.list"),
            Breach(38, "a metric has no resets_at", "account.usage"),
            Breach(2, "a resource has other fields in sandbox", "in {environment}"),
        ),
        looks_at=("data",),
        follows=(Cause(ENVELOPE, "what stands elsewhere is missing here"),),
        by_reading=True,
    ),
    Rule(
        TIMES,
        "Timestamps are ISO 8601 in UTC",
        (17,),
        ways=(
            Breach(17, "created_at is not ISO 8601 in UTC", "created_at"),
            Breach(17, "finished_at is not", "finished_at"),
            Breach(17, "last_full_crawl_at is not", "last_full_crawl_at"),
            Breach(17, "resets_at is not", "resets_at"),
        ),
        looks_at=("data.created_at", "data.finished_at", "data.updated_at"),
        by_reading=True,
    ),
    Rule(
        EVENTS,
        "GET /v1/webhook-events lists the event types of today",
        (39, 75),
        (78,),
        ways=(
            Breach(39, "it lists none of today's types"),
            Breach(75, "today's event types are not those two"),
        ),
        looks_at=("data",),
        by_reading=True,
    ),
    *RESPONSE_RULES,
    exercise="everyday",
)

DOMAIN = stated_fields(DomainView)
"""S12, with null where the thing has not happened (U43)."""

JOB = stated_fields(JobView)
"""S13."""

SINGLES: Mapping[str, Fields] = {
    **dict.fromkeys(("domains.get", "domains.create", "domains.update"), DOMAIN),
    **dict.fromkeys(("jobs.create", "jobs.get"), JOB),
}

COLLECTIONS: Mapping[str, Fields] = {"domains.list": DOMAIN, "jobs.list": JOB}

SHOWN_COLLECTIONS = frozenset({"domains.list", "keywords.list"})
"""Operations that are stated to answer with a collection; of others only a list shows that they do."""

CRAWLED = "last_full_crawl_at"
FINISHED = "finished_at"
LATER = (CRAWLED, FINISHED)
"""Timestamps of what happens later: how they look before is not shown, so they may be missing then (U43)."""

GATEWAY = frozenset({502, 503, 504})
"""Statuses with which something in front of the deployment answers in its stead."""

Domain: TypeAlias = tuple[str, str, str]
"""Environment, account and id of a domain."""


@dataclass
class SchemaJudge(Judge):
    """Judges each exchange as it is read, and in the end what only two of them together can show.

    Raw texts are dropped after reading, so `see_raw` judges an exchange with them, and `see` nothing.
    """

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    _crawled: dict[Domain, Observation] = field(default_factory=dict)
    """What first showed a domain with its last full crawl."""
    _bare: dict[Domain, Observation] = field(default_factory=dict)
    """What last showed a domain without one."""
    _changed: set[Domain] = field(default_factory=set)

    def wants(self, like: Observation) -> bool:
        """Nothing that was read before."""
        return False

    def see_raw(self, exchange: Exchange, seen: Observation, reply: Json) -> None:
        """Judge the next exchange as it is read, with its parsed reply."""
        check_exchange(exchange, seen, reply, self.tally)
        choices.note_choice(seen, self.options, self.tally)
        if seen.operation in ("domains.update", "domains.delete"):
            self._changed.add((seen.environment, seen.account, seen.parameters.get("id", "")))
        elif seen.operation in ("domains.get", "domains.list") and seen.ok and isinstance(reply, dict):
            data = reply.get("data")
            for thing in data if isinstance(data, list) else [data]:
                if isinstance(thing, dict) and isinstance(thing.get("id"), str) and seen.surface == "rest":
                    self._see_domain((seen.environment, seen.account, thing["id"]), thing, seen)

    def _see_domain(self, domain: Domain, thing: dict[str, Json], seen: Observation) -> None:
        if thing.get(CRAWLED):
            self._crawled[domain] = min(
                self._crawled.get(domain, seen), seen, key=lambda reading: reading.received
            )
        else:
            self._bare[domain] = max(self._bare.get(domain, seen), seen, key=lambda reading: reading.sent)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """A full crawl that was shown has happened, so a later reading shows the last one, too (S12).

        A domain that was changed shows nothing here: its host may be another one since.
        """
        for domain, crawled in self._crawled.items() if watermark == DISTANT_FUTURE else ():
            bare = self._bare.get(domain)
            changed = domain in self._changed or run.mutable("domains", domain[-1]) or not run.exclusive
            if bare is not None and crawled.received < bare.sent and not changed:
                says = f"{bare.id} shows no {CRAWLED} of {domain[-1]}, and {crawled.id} did before"
                evidence = evidence_of(says, crawled, bare, about=bare.operation)
                self.tally.broke(FIELDS, evidence, case=bare.operation)


def check_exchange(exchange: Exchange, seen: Observation, reply: Json, tally: Tally) -> None:
    """Check one exchange with its parsed reply.

    Lost replies show no shape, and neither do answers from outside the API, of the web app or of a gateway,
    answers to GraphQL requests but for their headers, or what was not recorded.
    """
    if seen.lost or seen.outside or exchange.surface == "app":
        return
    if seen.status in GATEWAY and exchange.response is not None and not isinstance(reply, dict):
        tally.open(JSON, "a gateway answered in the deployment's stead")
        return
    headers = lowered(exchange.response_headers)
    check_headers(exchange, seen, headers, tally)
    if exchange.surface == "graphql" and isinstance(reply, dict) and seen.status == 200:
        check_extensions(reply, seen, tally)
    if _has_body(exchange, seen) and check_json(reply, headers, seen, tally):
        if seen.status >= 400:
            check_error(reply, headers.get("x-request-id", ""), seen, tally)
        elif seen.operation:
            _check_success(reply, seen, tally)


def _has_body(exchange: Exchange, seen: Observation) -> bool:
    """Return whether a reply over REST is to have a body, and was recorded with it."""
    if exchange.surface != "rest" or seen.method in ("OPTIONS", "HEAD") or seen.status in (204, 304):
        return False
    # where a success has no body is not stated
    return exchange.response is not None and (bool(exchange.response) or seen.status >= 400)


# Successes


def _check_success(reply: dict[str, Json], seen: Observation, tally: Tally) -> None:
    data, operation = reply.get("data"), seen.operation
    if isinstance(data, list) and operation.endswith(".list"):
        complete = isinstance(reply.get("has_more"), bool) and text_or_null(reply.get("next_cursor", 0))
        complete = complete or operation == "webhook_events.list"  # its fields are not shown (U78)
        says = "is a collection without has_more and next_cursor"
        check_one(ENVELOPE, complete, says, seen, tally, operation)
        _check_things(data, COLLECTIONS.get(operation), seen, tally)
    else:
        enveloped = "data" in reply and operation not in SHOWN_COLLECTIONS
        says, expected = "is a success without its data", "an object with data"
        check_one(ENVELOPE, enveloped, says, seen, tally, operation, expected)
        dry = seen.dry_run or seen.request_unrecorded  # as it may be, where what it asked for is not recorded
        _check_things([data], None if dry else SINGLES.get(operation), seen, tally)
    if operation == "webhook_events.list":
        named = set(filter(is_text, leaves(data)))
        says = f"lists {', '.join(sorted(named)) or 'nothing'}"
        check_one(EVENTS, named.issuperset(EVENT_TYPES), says, seen, tally)
    elif isinstance(data, dict) and operation == "account.usage":
        _check_usage(data.get("metrics"), seen, tally)
    elif isinstance(data, dict) and operation == "jobs.get" and "progress" not in data:
        evidence = evidence_of(f"{seen.id} shows a job without progress", seen)
        tally.differs(42, "progress", "no such field", evidence)


def _check_usage(metrics: Json, seen: Observation, tally: Tally) -> None:
    if isinstance(metrics, list) and metrics:  # where the list stands is assumed (U109)
        lacking = [metric for metric in metrics if wrong_fields(metric, {"resets_at": is_text})]
        says = f"shows {len(lacking)} metrics without resets_at"
        check_one(FIELDS, not lacking, says, seen, tally, seen.operation)


def _check_things(things: list[Json], fields: Fields | None, seen: Observation, tally: Tally) -> None:
    """Check each resource of a reply; what holds is counted, and the tally informed once."""
    sound, good_times = 0, Counter[str]()
    for thing in things:
        if not isinstance(thing, dict):
            continue
        if fields is not None:
            sound += _check_fields(thing, fields, seen, tally)
        for name in TIMESTAMPS:
            value = thing.get(name)
            if value is None or (value == "" and name in LATER):
                continue
            if is_utc(value):
                good_times[name] += 1
            else:
                check_one(TIMES, False, f"shows {name} {value!r}", seen, tally, name)
    if sound:
        tally.held(FIELDS, sound, case=seen.operation, by=(seen.id,))
        tally.covers(FIELDS, f"in {seen.environment}", (seen.id,))
    for name, count in good_times.items():
        tally.held(TIMES, count, case=name, by=(seen.id,))


def _check_fields(thing: dict[str, Json], fields: Fields, seen: Observation, tally: Tally) -> bool:
    """Return whether a resource has its fields; those of what has not happened may be absent (U43)."""
    absent = [name for name in LATER if name in fields and name not in thing]
    if FINISHED in absent and _has_finished(thing):
        absent.remove(FINISHED)
    wrong = [name for name in wrong_fields(thing, fields) if name not in absent]
    if wrong:
        says = f"shows {seen.operation} with wrong or missing {', '.join(wrong)}"
        check_one(FIELDS, False, says, seen, tally, seen.operation, expected_names(fields))
        tally.covers(FIELDS, f"in {seen.environment}", (seen.id,), holds=False)
    for name in absent:
        evidence = evidence_of(f"{seen.id} shows no {name}", seen, about=seen.operation)
        tally.differs(43, "null", "no such field", evidence)
    return not wrong


def _has_finished(job: dict[str, Json]) -> bool:
    """Return whether a job has surely finished: it is done, or failed by a usual name with a reason (U39)."""
    status = job.get("status")
    return status == "done" or (status in ("failed", "error") and bool(job.get("error_detail")))


_USUAL = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-6][0-9](\.[0-9]+)?(Z|\+00:00)"
)
"""How ISO 8601 in UTC is usually written; any other way is read with care."""


def is_utc(value: Json) -> bool:
    """Return whether a value is a timestamp as ISO 8601 in UTC (S17)."""
    if not isinstance(value, str):
        return False
    named = value.endswith(("Z", "+00:00", "+0000", "+00"))
    return _USUAL.fullmatch(value) is not None or (named and instant_or_none(value) is not None)
