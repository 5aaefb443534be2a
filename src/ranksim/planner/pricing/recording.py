"""What was recorded, as calls to make again: of a trace, an access log, or a table of CSV or Parquet."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.callers.recordings import RecordingRule, idempotency_key_of, request_header
from ranksim.core.clock import Micros
from ranksim.core.contract.facts import JobKind
from ranksim.core.contract.located import validate
from ranksim.core.contract.quantities import Frozen
from ranksim.core.contract.views import created_by
from ranksim.core.contract.yamlfile import read_yaml, refuse_yaml
from ranksim.core.errors import BadInput
from ranksim.core.records import OFTEN, Passed, parsed_object, quote, read_raw_lines
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.routes import match, nearest, path_values
from ranksim.core.tables import (
    REQUIRED,
    UNREADABLE,
    Bad,
    Duplicates,
    columns_with,
    exchange_of,
    is_table,
    read_log,
    read_table,
)
from ranksim.core.trace import UNKNOWN_KEY, UNSEEN, Exchange, Trace, TraceKey
from ranksim.planner.pricing.job_endings import JOB_READS, JobEnding, began_at, endings_in, endings_of
from ranksim.planner.pricing.recorded_sides import ENDLESS, reasons_text
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

SAME_CALL = "with the request id and all values of an earlier one"
UNKNOWN = "of an unknown operation"
FIRST_BAD = "The first that cannot be read is"
FIRST_UNKNOWN = f"The first {UNKNOWN} is"
NO_ACCOUNT = "without an account"
NO_OBJECT = "with a body that is no JSON object"
NO_EFFECT = "without a reply, and without effect"

NUMBERS = 1 << 37
"""The least number of an account, and how many there are: so ids that begin with one are equally long."""

Refers = tuple[tuple[str, str], ...]
"""(resource, id) pairs."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One recorded call: what to send again, and what was answered.

    `made` are the ids that the recorded reply gave to what the call created; those of keywords with their
    words. `cursor` is where the recorded page went on. `drafted` says that body and path are to be made up,
    as a rule says, for none was recorded. If it is known, `units` is what the job that it asks for wants,
    `began` when that did, and `ending` how it ended.
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
    units: int | None = None
    began: Micros | None = None
    ending: JobEnding | None = None

    @property
    def job_kind(self) -> str:
        """The kind of the job that the call asks for, a rank run where it does not say; "" for no job."""
        return str((self.body or {}).get("kind", JobKind.RANK_RUN)) if self.operation == "jobs.create" else ""

    def refers(self) -> Refers:
        """What the call is about, by resource and id."""
        references = [] if "id" not in self.path else [(self.operation.partition(".")[0], self.path["id"])]
        for given in (self.query, self.body or {}):
            for name, resource in REFERENCES.items():
                value = given.get(name)
                values = value if isinstance(value, list) else [value]
                references += [(resource, id_) for id_ in values if isinstance(id_, str)]
        return tuple(references)


@dataclass(repr=False)
class Recording:
    """Calls in order of time, why others cannot be made again, the keys, and what was there before.

    `before` maps (account, resource) to the ids that calls name and no recorded call made, ascending.
    `first_bad` says what is wrong with the first row that was skipped, or body that is no JSON object,
    `first_unknown` where the first call of an unknown operation stands, and which operation is near.
    `endings` says how jobs ended, by id; `unread` of which account and resource something was made whose
    reply was not recorded. `began` is when a trace says that it was begun (µs).
    """

    where: str
    calls: list[RecordedCall] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    keys: dict[str, TraceKey] = field(default_factory=dict)
    before: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    first_bad: str = ""
    first_unknown: str = ""
    duplicates: Duplicates = field(default_factory=Duplicates)
    endings: dict[str, JobEnding] = field(default_factory=dict)
    unread: set[tuple[str, str]] = field(default_factory=set)
    began: Micros | None = None

    def __repr__(self) -> str:
        calls, accounts = units.many(len(self.calls), "call"), units.many(len(self.accounts), "account")
        return f"<Recording: {calls} of {accounts}, {self.left_out.total():,} left out>"

    @property
    def accounts(self) -> list[str]:
        """The accounts that called, in order."""
        return list(dict.fromkeys(call.account for call in self.calls))

    def unstated_jobs(self, specs: Mapping[str, AccountSpec]) -> Counter[str]:
        """How many calls ask for jobs of which nobody says what they want, by kind, or when they ended.

        A rank run is of one where nobody describes its account; `specs` are the accounts by name.
        """
        jobs = [call for call in self.calls if call.job_kind]
        counts = Counter(
            call.job_kind
            for call in jobs
            if call.units is None
            if call.job_kind != JobKind.RANK_RUN or not specs[call.account].plan
        )
        accepted = [call for call in jobs if 0 < (call.status or 0) < 400]
        dry = sum((call.body or {}).get("dry_run") is True for call in accepted if call.ending is None)
        counts[ENDLESS] = sum(call.ending is None for call in accepted) - dry
        return counts

    @property
    def start(self) -> Micros:
        """When the recording begins (µs): with its first call, or before that, if a trace says so."""
        first = self.calls[0].at
        return first if self.began is None else min(self.began, first)

    def lasts(self, call: RecordedCall) -> Micros | None:
        """How long the job that a call asks for ran (µs), None where nobody says.

        One that had not ended goes on until the recording ends.
        """
        if call.ending is None:
            return None
        if call.ending.at is None:
            return self.calls[-1].at + 1 - call.at
        return max(0, call.ending.at - (call.at if call.began is None else call.began))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each account, which addresses its draws: a digest of its own calls by instant and
        operation, so that neither its name nor who else called changes it.
        """
        digests: defaultdict[str, blake2b] = defaultdict(lambda: blake2b(digest_size=8))
        for call in self.calls:
            digests[call.account].update(f"{call.at} {call.operation}\n".encode())
        accounts: dict[int, str] = {}
        for account, digest in digests.items():
            number = NUMBERS + int.from_bytes(digest.digest(), "big") % NUMBERS
            while number in accounts:  # who made the same calls at the same instants
                number += 1
            accounts[number] = account
        return {account: number for number, account in accounts.items()}

    def leave_out(self, error: BadInput) -> None:
        """Count a row that cannot be read."""
        self.left_out[UNREADABLE] += 1
        self.first_bad = self.first_bad or str(error)

    def each(self, tell: Tell) -> Iterator[RecordedCall]:
        """Yield every call; `tell` reports how many have passed."""
        for number, call in enumerate(self.calls):
            if number % OFTEN == 0:
                passed = f"{units.many(number, 'call')} of {units.count(len(self.calls))}"
                tell(number / len(self.calls), passed)
            yield call

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

    def why_unrepeatable(self, call: RecordedCall, resource: str) -> str:
        """Return why a call cannot be made again that names a resource which no portfolio has."""
        origin = "from before the recording"
        if (call.account, resource) in self.unread:
            origin = "whose ids are unknown, as replies that tell them are not recorded"
        return f"about {resource.replace('_', ' ')} {origin}"


class Rules(Frozen):
    """Which operation a call without a recorded body becomes, and what body it gets: the first that fits."""

    rules: Annotated[tuple[RecordingRule, ...], Field(min_length=1)]


def read_rules(path: str | Path) -> tuple[RecordingRule, ...]:
    """Read a file of rules. Raises BadInput."""
    return validate(Rules, read_yaml(path, "map")).rules


def read_recording(
    path: str | Path,
    rules: Sequence[RecordingRule] = (),
    progress: Tell | None = None,
    *,
    columns_are: Mapping[str, str] | None = None,
    account_from: str = "",
    skip_bad: bool = False,
) -> Recording:
    """Read a trace, an access log in common or combined format, or a table; .gz and .xz too. Raises BadInput.

    A table is a CSV file, or Parquet; `columns_are` says which column holds a field, as `read_table` has it.
    `account_from` says what names the account of a call: of an access log `user` or `address`, which is the
    default; of a table a column; of a trace a request header instead of the key's account. `skip_bad` leaves
    lines of logs and rows of tables out that cannot be read. `progress` is told how much has been read;
    without it a notebook shows that.
    """
    with noted("reading", progress) as tell:
        return _read(Path(path), rules, shares(tell), dict(columns_are or {}), account_from, skip_bad)


def _read(
    path: Path,
    rules: Sequence[RecordingRule],
    passed: Passed,
    columns_are: dict[str, str],
    account_from: str,
    skip_bad: bool,
) -> Recording:
    refuse_yaml(path, "trace")
    made = Recording(str(path))
    bad = made.leave_out if skip_bad else _refuse
    place: Callable[[str], str] = str
    if columns_are or is_table(path):
        columns = columns_with(path, columns_are, account_from)
        exchanges = _of_table(path, columns, passed, bad, made.duplicates)
    elif next(read_raw_lines(path), b"").lstrip().startswith(b"{"):
        if skip_bad:
            raise BadInput(f"{path}: is a trace, of which nothing is skipped; leave --skip-bad out")
        trace = Trace.read(path, passed)
        made.keys, exchanges = dict(trace.header.keys), _of_trace(trace, account_from)
        place = partial(_place_in_trace, path)
        made.endings.update(endings_of(trace))
        made.began = trace.header.started or None
    else:
        exchanges = _of_log(path, passed, account_from, bad, made.duplicates)
        place = partial(_place_in_log, path)
    _add(made, exchanges, rules, place)
    if made.duplicates.same_calls:
        made.left_out[SAME_CALL] = made.duplicates.same_calls
    if not made.calls:
        why = reasons_text(dict(made.left_out.most_common(3)), "it holds none")
        account = "say with --account-from what names the customers"
        remedy = account if NO_ACCOUNT in made.left_out else "record calls of this API"
        remedy += made.first_unknown and f"; of no operation of it is {made.first_unknown}"
        remedy = made.first_bad or remedy
        raise BadInput(f"{path}: no call of it can be replayed ({why}); {remedy}")
    made.calls.sort(key=lambda call: call.at)
    made.calls = [_ended(call, made.endings) for call in _with_units(made.calls)]
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


def _with_units(calls: list[RecordedCall]) -> list[RecordedCall]:
    """Return calls in which jobs that nobody says the units of want what the same did on their domain before.

    Or later, where none was before. Rank runs do not: what they want changes with keywords and scans.
    """
    latest: dict[tuple[str, str, str], int] = {}
    for call in reversed(calls):
        if call.units is not None:
            latest[_job_of(call)] = call.units
    filled = []
    for call in calls:
        if call.units is not None:
            latest[_job_of(call)] = call.units
        elif call.job_kind not in ("", JobKind.RANK_RUN) and (units := latest.get(_job_of(call))) is not None:
            call = replace(call, units=units)
        filled.append(call)
    return filled


def _ended(call: RecordedCall, endings: Mapping[str, JobEnding]) -> RecordedCall:
    """Return a call with the ending of the job that it made."""
    ending = endings.get(call.made[0][0]) if call.job_kind and call.made else None
    return call if ending is None else replace(call, ending=ending)


def _job_of(call: RecordedCall) -> tuple[str, str, str]:
    return call.account, call.job_kind, str((call.body or {}).get("domain_id"))


def _add(
    made: Recording,
    exchanges: Iterable[Exchange],
    rules: Sequence[RecordingRule],
    place: Callable[[str], str],
) -> None:
    """Add the calls of exchanges; the first rule that fits makes up what has no body.

    `place` says where the exchange of an id stands.
    """
    for exchange in exchanges:
        rule = next((r for r in rules if r.fits(exchange.method, exchange.path)), None)
        if rule is not None and parsed_object(exchange.body) is None:
            body = json.dumps(rule.body)
            made_up = {"operations": (rule.operation,), "path": "", "query": rule.query, "body": body}
            call = _of_exchange(exchange.model_copy(update=made_up), made.keys, drafted=True)
        else:
            call = _of_exchange(exchange, made.keys)
        if isinstance(call, str):
            made.left_out[call] += 1
            if call.startswith(NO_OBJECT) and not made.first_bad:
                made.first_bad = (
                    f"{place(exchange.id)}: body: expected a JSON object, found {quote(exchange.body or '')}"
                )
            if call == UNKNOWN and not made.first_unknown:
                made.first_unknown = f"{place(exchange.id)}: {_with_nearest(exchange)}"
        else:
            made.calls.append(call)
            resource, _, verb = call.operation.rpartition(".")
            if verb == "create" and (call.status or 0) < 400 and not exchange.response:
                made.unread.add((call.account, resource))
            if call.operation in JOB_READS:
                for which, ending in endings_in((parsed_object(exchange.response) or {}).get("data")):
                    made.endings.setdefault(which, ending)


def _with_nearest(exchange: Exchange) -> str:
    """Return what was called that is no operation, and which one is nearest."""
    called = quote(f"{exchange.method} {exchange.path}")
    name = nearest(exchange.method, exchange.path.rpartition(PREFIX)[2].removeprefix("/"))
    if not name:
        return f"{called}, and none is near"
    return f"{called}; the nearest is {OPERATIONS[name].method} {PREFIX}{OPERATIONS[name].path} ({name})"


def _place_in_log(path: Path, which: str) -> str:
    """Return where the line of an id stands in an access log."""
    return f"{path}:{which.removeprefix('line ')}"


def _place_in_trace(path: Path, which: str) -> str:
    """Return where the exchange of an id stands in a trace."""
    for number, line in enumerate(read_raw_lines(path), 1):
        entry = parsed_object(line.decode(errors="replace")) or {}
        if (entry.get("kind"), entry.get("id")) == ("exchange", which):
            return f"{path}:{number}"
    return f"{path}: {which}"


def _of_trace(trace: Trace, account_from: str) -> Iterator[Exchange]:
    """Yield the exchanges of a trace with their accounts: those of their keys, or what a header says.

    One whose sender never saw the reply has what a note says of its effect.
    """
    notes = (note.model_extra or {} for note in trace.notes if note.text == UNSEEN)
    unseen = {
        note["call"]: {"arrived": note["arrived"]}
        | ({"response": note["response"], "effect": "yes"} if note["status"] < 400 else {})
        for note in notes
    }
    for exchange in trace.exchanges:
        declared = trace.header.keys.get(exchange.api_key or "")
        account = exchange.account or (declared and (declared.account or exchange.api_key)) or ""
        if account_from:
            account = request_header(exchange, account_from) or ""
        yield exchange.model_copy(update={"account": account, **unseen.get(exchange.id, {})})


def _of_table(
    path: Path, columns_are: Mapping[str, str], passed: Passed, bad: Bad, duplicates: Duplicates
) -> Iterator[Exchange]:
    """Yield the calls of a table; an error code stands in place of what a call was refused with."""
    required = (*REQUIRED, "account")
    for exchange in read_table(path, columns_are, passed, bad, required=required, duplicates=duplicates):
        if exchange.error and ((exchange.status or 0) >= 400 or not exchange.response):
            yield exchange.model_copy(update={"response": json.dumps({"code": exchange.error})})
        else:
            yield exchange


def _refuse(error: BadInput) -> None:
    raise BadInput(f"{error}; or leave out what cannot be read with --skip-bad") from None


def _of_log(
    path: Path, passed: Passed, account_from: str, bad: Bad, duplicates: Duplicates
) -> Iterator[Exchange]:
    """Read an access log as exchanges of its clients: their addresses, or the users they log in as."""
    for where, line in read_log(path, account_from, passed, bad, duplicates):
        account = line.user if account_from == "user" else line.client
        number = where.rpartition(":")[2]
        yield exchange_of(f"line {number}", line.t, account, line.method, line.path, line.status)


def _of_exchange(
    exchange: Exchange, keys: Mapping[str, TraceKey], drafted: bool = False
) -> RecordedCall | str:
    """Return the call of an exchange, or why it cannot be made again."""
    operation, values = _operation_of(exchange)
    body, key = parsed_object(exchange.body), exchange.api_key or None
    if why := _why_left_out(exchange, operation, body, keys.get(key or "")):
        return why
    answer = parsed_object(exchange.response) or {}
    wrapped = answer.get("error")  # as services do that are not the specification's
    status = exchange.status or (200 if exchange.effect == "yes" else 500)
    code = answer.get("code") or (wrapped.get("code") if isinstance(wrapped, dict) else "")
    return RecordedCall(
        id=exchange.id,
        at=exchange.sent if exchange.arrived is None else exchange.arrived,
        account=exchange.account,
        operation=operation,
        status=exchange.status,
        code=str(code or ""),
        key=key,
        surface=exchange.surface,
        path=values,
        query=exchange.query or {},
        body=body,
        idempotency_key=idempotency_key_of(exchange),
        made=tuple(made_by(operation, answer)) if status < 400 else (),
        cursor=str(answer.get("next_cursor") or ""),
        drafted=drafted,
        units=exchange.units if operation == "jobs.create" else None,
        began=began_at(answer) if operation == "jobs.create" else None,
    )


def _operation_of(exchange: Exchange) -> tuple[str, Mapping[str, str]]:
    """Return the operation of an exchange, "" where it is unknown, and what stands in its path."""
    operation, values = _matched(exchange.method, exchange.path)
    if exchange.operations and exchange.operations[0] in OPERATIONS:
        operation = exchange.operations[0]
        values = path_values(operation, exchange.path.removeprefix(PREFIX)) or values
    return operation, values


def _why_left_out(exchange: Exchange, operation: str, body: Any, declared: TraceKey | None) -> str:
    """Return why an exchange cannot be made again, by what the header says of its key; "" where it can."""
    if len(exchange.operations) > 1 or (exchange.surface == "graphql" and "query" in (body or {})):
        return "by a GraphQL document"
    if not operation:
        return UNKNOWN
    if declared and declared.environment != exchange.environment:
        return "sent where their key does not belong"
    if exchange.api_key == UNKNOWN_KEY or (not exchange.api_key and exchange.surface != "app"):
        return "without a key that the header names"
    if not exchange.account:
        return NO_ACCOUNT
    if exchange.status is None and exchange.effect == "none":
        return NO_EFFECT
    if OPERATIONS[operation].method in BODIES and operation not in BODILESS and body is None:
        body = NO_OBJECT if exchange.body else "without a body"
        return f"{body}, and no rule of --map gives one"
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
