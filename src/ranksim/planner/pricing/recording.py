"""What was recorded, as calls to make again: the exchanges of a trace, or the lines of an access log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from ranksim.core.callers.recordings import RecordingRule, idempotency_key_of
from ranksim.core.clock import Micros
from ranksim.core.contract.located import validate
from ranksim.core.contract.quantities import Frozen
from ranksim.core.contract.views import created_by
from ranksim.core.contract.yamlfile import read_yaml, refuse_yaml
from ranksim.core.errors import BadInput
from ranksim.core.records import OFTEN, Passed, parsed_object, read_access_log, read_lines
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.routes import match, path_values
from ranksim.core.trace import UNKNOWN_KEY, Exchange, Trace, TraceKey
from ranksim.planner.pricing.recorded_sides import reasons_text
from ranksim.report import units
from ranksim.report.progress import Tell, noted, shares

PREFIX = "/v1/"

REFERENCES = {
    "domain_id": "domains",
    "list_id": "keyword_lists",
    "list_ids": "keyword_lists",
    "keyword_id": "keywords",
    "keyword_ids": "keywords",
    "label_id": "labels",
    "label_ids": "labels",
}
"""Field of a body or a query → the resource whose ids it holds."""

BODIES = ("POST", "PATCH")
BODILESS = ("webhooks.test",)

Refers = tuple[tuple[str, str], ...]
"""(resource, id) pairs."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One recorded call: what to send again, and what was answered.

    `made` are the ids that the recorded reply gave to what the call created; those of keywords with their
    words. `cursor` is where the recorded page went on. `drafted` says that body and path are to be made up,
    for an access log has none.
    """

    id: str
    at: Micros
    account: str
    operation: str
    status: int | None
    code: str = ""
    key: str | None = None
    surface: str = "rest"
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    idempotency_key: str | None = None
    made: tuple[tuple[str, str], ...] = ()
    cursor: str = ""
    drafted: bool = False

    def refers(self) -> Refers:
        """What the call is about, by resource and id."""
        references = [] if "id" not in self.path else [(self.operation.partition(".")[0], self.path["id"])]
        for given in (self.query, self.body or {}):
            for name, resource in REFERENCES.items():
                value = given.get(name)
                values = value if isinstance(value, list) else [value]
                references += [(resource, id_) for id_ in values if isinstance(id_, str)]
        return tuple(references)


@dataclass
class Recording:
    """Calls in order of time, why others cannot be made again, the keys, and what was there before.

    `before` maps (account, resource) to the ids that calls name and no recorded call made, ascending.
    """

    where: str
    calls: list[RecordedCall] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    keys: dict[str, TraceKey] = field(default_factory=dict)
    before: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @property
    def accounts(self) -> list[str]:
        """The accounts that called, in order."""
        return list(dict.fromkeys(call.account for call in self.calls))

    def each(self, tell: Tell) -> Iterator[tuple[int, RecordedCall]]:
        """Yield every call with its number; `tell` reports how many have passed."""
        for number, call in enumerate(self.calls):
            if number % OFTEN == 0:
                passed = f"{units.many(number, 'call')} of {units.count(len(self.calls))}"
                tell(number / len(self.calls), passed)
            yield number, call

    @cached_property
    def created(self) -> set[tuple[str, str]]:
        """The account and the id of what recorded calls made."""
        return {(call.account, id_) for call in self.calls for id_, _ in call.made}

    def lacks(self, call: RecordedCall, owned: Container[str]) -> str:
        """Return the resource that a call names, and which is neither `owned` nor made by a call; or ""."""
        for resource, id_ in call.refers():
            if id_ not in owned and (call.account, id_) not in self.created:
                return resource
        return ""


def why_unrepeatable(resource: str) -> str:
    """Return why a call cannot be made again that names a resource which no portfolio has."""
    return f"about {resource.replace('_', ' ')} from before the recording"


class Rules(Frozen):
    """Which operation a line of an access log becomes, and what body it gets: the first rule that fits."""

    rules: Annotated[tuple[RecordingRule, ...], Field(min_length=1)]


def read_rules(path: str | Path) -> tuple[RecordingRule, ...]:
    """Read a file of rules. Raises BadInput."""
    return validate(Rules, read_yaml(path, "map")).rules


def read_recording(
    path: str | Path, rules: Sequence[RecordingRule] = (), progress: Tell | None = None
) -> Recording:
    """Read a trace, or an access log in common or combined format; .gz and .xz too. Raises BadInput.

    `progress` is told how much has been read; without it a notebook shows that.
    """
    with noted("reading", progress) as tell:
        return _read(path, rules, shares(tell))


def _read(path: str | Path, rules: Sequence[RecordingRule], passed: Passed) -> Recording:
    refuse_yaml(path, "trace")
    first = next(read_lines(path), "")
    is_trace = first.lstrip().startswith("{")
    made = _of_trace(path, passed) if is_trace else _of_log(path, rules, passed)
    if not made.calls:
        why = reasons_text(dict(made.left_out.most_common(3)), "it holds none")
        raise BadInput(f"{path}: no call of it can be replayed ({why}); record calls of this API")
    made.calls.sort(key=lambda call: call.at)
    seen: dict[tuple[str, str], dict[str, None]] = {}
    for call in made.calls:
        for resource, which in call.refers():
            if (call.account, which) not in made.created:
                seen.setdefault((call.account, resource), {})[which] = None
    for call in made.calls:
        if call.key in made.keys and (bound := made.keys[call.key].domain_id) is not None:
            seen.setdefault((call.account, "domains"), {})[bound] = None
    made.before = {place: sorted(ids) for place, ids in seen.items()}
    return made


# Traces


def _of_trace(path: str | Path, passed: Passed) -> Recording:
    trace = Trace.read(path, passed)
    made = Recording(str(path), keys=trace.header.keys)
    for exchange in trace.exchanges:
        call = _of_exchange(exchange, made.keys)
        if isinstance(call, str):
            made.left_out[call] += 1
        else:
            made.calls.append(call)
    return made


def _of_exchange(exchange: Exchange, keys: Mapping[str, TraceKey]) -> RecordedCall | str:
    """Return the call of an exchange, or why it cannot be made again."""
    operation, values = _operation_of(exchange)
    body, key, account = parsed_object(exchange.body), exchange.api_key or None, exchange.account
    declared = keys.get(key) if key else None
    if key and declared:
        account = account or declared.account or key
    if why := _why_left_out(exchange, operation, account, body, declared):
        return why
    answer = parsed_object(exchange.response) or {}
    return RecordedCall(
        id=exchange.id,
        at=exchange.sent,
        account=account,
        operation=operation,
        status=exchange.status,
        code=str(answer.get("code") or ""),
        key=key,
        surface=exchange.surface,
        path=values,
        query=exchange.query or {},
        body=body,
        idempotency_key=idempotency_key_of(exchange),
        made=tuple(made_by(operation, answer)) if (exchange.status or 500) < 400 else (),
        cursor=str(answer.get("next_cursor") or ""),
    )


def _operation_of(exchange: Exchange) -> tuple[str, Mapping[str, str]]:
    """Return the operation of an exchange, "" where it is unknown, and what stands in its path."""
    operation, values = _matched(exchange.method, exchange.path)
    if exchange.operations and exchange.operations[0] in OPERATIONS:
        operation = exchange.operations[0]
        values = path_values(operation, exchange.path.removeprefix(PREFIX)) or values
    return operation, values


def _why_left_out(
    exchange: Exchange, operation: str, account: str, body: Any, declared: TraceKey | None
) -> str:
    """Return why an exchange cannot be made again, by what the header says of its key; "" where it can."""
    if len(exchange.operations) > 1 or (exchange.surface == "graphql" and "query" in (body or {})):
        return "by a GraphQL document"
    if not operation:
        return "of an unknown operation"
    if declared and declared.environment != exchange.environment:
        return "sent where their key does not belong"
    if not account or exchange.api_key == UNKNOWN_KEY or (not exchange.api_key and exchange.surface != "app"):
        return "without a key that the header names"
    if OPERATIONS[operation].method in BODIES and operation not in BODILESS and body is None:
        return "without a body"
    return ""


def made_by(operation: str, answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a reply says was made: (id, what tells it apart among what the call made)."""
    data = answer.get("data")
    if not operation.endswith(".create") or not isinstance(data, dict):
        return
    created = created_by(data)
    for thing in [data] if created is None else created:
        if isinstance(thing, dict) and isinstance(thing.get("id"), str):
            yield thing["id"], str(thing.get("keyword", ""))


def _matched(method: str, path: str) -> tuple[str, Mapping[str, str]]:
    return match(method, path.removeprefix(PREFIX)) if path.startswith(PREFIX) else ("", {})


# Access logs


def _of_log(path: str | Path, rules: Sequence[RecordingRule], passed: Passed) -> Recording:
    """Read an access log: each client address is an account; a rule makes up what is not logged."""
    made = Recording(str(path))
    for number, line in enumerate(read_access_log(path, passed), 1):
        target = urlsplit(line.path)
        rule = next((r for r in rules if r.fits(line.method, target.path)), None)
        operation, values = _matched(line.method, target.path)
        if rule is None and not operation:
            made.left_out["of an unknown operation"] += 1
        elif rule is None and line.method in BODIES and operation not in BODILESS:
            made.left_out["without a body, and no rule of --map gives one"] += 1
        else:
            made.calls.append(
                RecordedCall(
                    id=f"line {number}",
                    at=line.t,
                    account=line.client,
                    operation=operation if rule is None else rule.operation,
                    status=line.status,
                    key="log",
                    path={} if rule is not None else values,
                    query=dict(parse_qsl(target.query)) if rule is None else rule.query,
                    body=None if rule is None else rule.body,
                    drafted=rule is not None,
                )
            )
    return made
