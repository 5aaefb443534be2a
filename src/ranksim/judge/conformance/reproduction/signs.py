"""By what in replies a finding shows again: for each rule, expressions that a shell script evaluates, too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ranksim.core.records import parsed
from ranksim.core.trace import Exchange, TraceKey
from ranksim.judge.conformance.calls.responses import ERROR_FIELDS, wrong_fields
from ranksim.judge.conformance.calls.schema_checks import COLLECTIONS, SINGLES, TIMESTAMPS, is_utc
from ranksim.judge.conformance.history.exchange_reader import lowered, route
from ranksim.judge.conformance.reproduction.needed import items_of, places
from ranksim.judge.conformance.verdict.verdicts import Evidence


@dataclass(frozen=True, slots=True)
class Expression:
    """What a script evaluates, a function of its runtime and arguments; what that was in the trace."""

    label: str
    words: tuple[str | Expression, ...]
    recorded: str


@dataclass(frozen=True, slots=True)
class ReplyRead:
    """A reply, by the step of a script that asks for it, and the key that asked."""

    step: str
    name: str
    exchange: Exchange
    key: TraceKey | None

    @property
    def body(self) -> dict[str, Any]:
        """The parsed body, empty where it is no object."""
        body = parsed(self.exchange.response)
        return body if isinstance(body, dict) else {}

    @property
    def values(self) -> dict[str, Any]:
        """The scalars of the body, by place."""
        return dict(places(parsed(self.exchange.response)))

    def sign(self, function: str, *words: str) -> Expression:
        """Return what one of `RUNTIME` makes of the reply."""
        label, recorded = RUNTIME[function]
        return Expression(
            label.format(*words, of=self.name), (function, self.step, *words), recorded(self, *words)
        )


def _kind(read: ReplyRead, at: str) -> str:
    values = read.values
    if any(place.startswith(f"{at}.") for place in values):
        return "more"
    return _KINDS.get(type(values[at]), "number") if at in values else "none"


_KINDS = {str: "text", bool: "boolean", type(None): "null", dict: "more", list: "more"}


def _others(read: ReplyRead, field: str, own: str) -> str:
    values = {value for at, value in read.values.items() if re.fullmatch(rf"data\.[0-9]+\.{field}", at)}
    return _YES[bool(values - {own, None})]


_YES = {True: "yes", False: "no"}

RUNTIME: Mapping[str, tuple[str, Callable[..., str]]] = {
    "answer": (
        "{of} was answered",
        lambda read: f"{read.exchange.status} {read.values.get('code', '')}".strip(),
    ),
    "header": (
        "{} of {of}",
        lambda read, name: lowered(read.exchange.response_headers).get(name.lower(), "none"),
    ),
    "place": ("{} of {of}", lambda read, at: _json(read.values[at]) if at in read.values else "none"),
    "kind": ("{} of {of} is", _kind),
    "listed": ("{of} shows it", lambda read, item: _YES[item in [*read.values.values()]]),
    "others": ("{of} lists another domain's", _others),
    "count": ("items of {of}", lambda read: str(len(items_of(read.exchange)))),
    "content": ("what {of} says", lambda read: str(sorted((at, _json(v)) for at, v in read.values.items()))),
}
"""What `data/reproduction.sh` makes of a reply, by its function: in words, and as it was in the trace."""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _literal(text: str) -> Expression:
    """Return what is the same each time, but for names and ids that are new."""
    return Expression("", ("printf", "%s", text), text)


def _relation(label: str, first: Expression, other: Expression) -> Expression:
    """Return whether two are the same."""
    same = "the same" if first.recorded == other.recorded else "different"
    return Expression(label, ("relation", first, other), same)


def _masked(text: Expression) -> Expression:
    """Return it with 9 for each number."""
    return Expression(text.label, ("masked", text), re.sub("[0-9]+", "9", text.recorded))


Reads = Sequence[ReplyRead]
Signs = list[Expression]
"""None where replies alone do not show a finding."""

Showing = Callable[[Reads, Evidence], Signs]
"""Returns what shows a finding again, by the replies of its evidence."""


def _answers(replies: Reads, piece: Evidence) -> Signs:
    """How each call was answered."""
    return [read.sign("answer") for read in replies]


def _last(*looks: str) -> Showing:
    """What the last reply says at some places is what it said there."""
    return lambda replies, piece: [replies[-1].sign(*look.split()) for look in looks]


def _headers(*names: str) -> Showing:
    """A header is missing, or of another form; numbers in it do not matter, and whole ones are right."""

    def signs(replies: Reads, piece: Evidence) -> Signs:
        looks = [_masked(replies[-1].sign("header", name)) for name in names]
        return [sign for sign in looks if sign.recorded != "9"]

    return signs


def _echo(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    sent = _literal(lowered(read.exchange.request_headers).get("x-request-id", ""))
    return [_relation("X-Request-Id sent and got", sent, read.sign("header", "X-Request-Id"))]


def _error_id(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    plain = Expression("", ("text", read.step, "request_id"), str(read.values.get("request_id", "none")))
    same = _relation("request_id and X-Request-Id", plain, read.sign("header", "X-Request-Id"))
    return [read.sign("answer"), same]


def _fields(replies: Reads, piece: Evidence) -> Signs:
    """Fields that the evidence names are missing or misshapen, of the first thing that lacks one."""
    read, names = replies[-1], piece.says.partition(" missing ")[2].split(", ")
    operation, _ = route(read.exchange.method, read.exchange.path)
    fields = SINGLES.get(operation) or COLLECTIONS.get(operation) or {}
    data = read.body.get("data")
    for number, thing in enumerate(data if isinstance(data, list) else [data]):
        at = f"data.{number}" if isinstance(data, list) else "data"
        wrong = wrong_fields(thing, fields) if isinstance(thing, dict) else []
        if signs := [read.sign("kind", f"{at}.{name}") for name in wrong if name in names]:
            return [read.sign("answer"), *signs, read.sign("kind", at)]
    return []


def _accessed(replies: Reads, piece: Evidence) -> Signs:
    """A call succeeds that should not; a list has what is another domain's or account's."""
    last, answers = replies[-1], _answers(replies, piece)
    if not isinstance(last.body.get("data"), list):
        return answers
    if last.key is not None and last.key.domain_id:
        field = "id" if last.exchange.path.endswith("/domains") else "domain_id"
        return [*answers, last.sign("others", field, last.key.domain_id)]
    foreign = re.search(r"was shown (\S+), which", piece.says)
    return [*answers, last.sign("listed", foreign[1])] if foreign else []


def _times(replies: Reads, piece: Evidence) -> Signs:
    """A timestamp is of another form."""
    values = replies[-1].values.items()
    stated = ((at, value) for at, value in values if at.rpartition(".")[2] in TIMESTAMPS)
    wrong = [at for at, value in stated if value and not is_utc(value)]
    return [_masked(replies[-1].sign("place", at)) for at in wrong[:1]]


_PLAIN = re.compile(r'"[ -.0-9:-\[\]-~]*"|true|false|null|[0-9]+')


def _patched(replies: Reads, piece: Evidence) -> Signs:
    """The newest PATCH is not what is shown of a field whose JSON can be written in one way alone."""
    last = replies[-1]
    patch = next((read for read in reversed(replies) if read.exchange.method == "PATCH"), last)
    for at, value in places(parsed(patch.exchange.body)):
        sent, shows = _literal(_json(value)), last.sign("place", f"data.{at}")
        if "none" != shows.recorded != sent.recorded and _PLAIN.fullmatch(sent.recorded):
            return [*_answers(replies, piece), _relation(f"{at} as sent and as shown", sent, shows)]
    return []


def _replayed(replies: Reads, piece: Evidence) -> Signs:
    """Two replies to one key are not the same, though both did something."""
    first, last, answers = replies[0], replies[-1], _answers(replies, piece)
    same = _relation(f"{first.name} and {last.name} say", first.sign("content"), last.sign("content"))
    return [*answers, same] if same.recorded == "different" else []


def _paged(replies: Reads, piece: Evidence) -> Signs:
    """An item is on pages on which it should not be, or on none."""
    pages = [read for read in replies if read.exchange.method == "GET" and "has_more" in read.values]
    return [read.sign("listed", piece.says.partition(" is ")[0]) for read in pages]


SIGNS: Mapping[str, Showing] = {
    **dict.fromkeys(
        (
            *("access.key", "access.public", "access.environment"),
            *("access.scoped_endpoints", "access.scoped_writes", "cooldown.enforced", "cooldown.refused"),
            *("idempotency.mismatch", "paging.cursor", "paging.walk", "resource.unconditional"),
        ),
        _answers,
    ),
    **dict.fromkeys(("access.scope", "access.tenant"), _accessed),
    **dict.fromkeys(("cooldown.join", "idempotency.once", "idempotency.replay"), _replayed),
    **dict.fromkeys(("paging.once", "paging.complete"), _paged),
    **dict.fromkeys(("paging.limit", "paging.default"), _last("count", "place has_more")),
    "paging.end": _last("place has_more", "kind next_cursor"),
    "header.request_id": _headers("X-Request-Id"),
    "header.request_id_echo": _echo,
    "header.json": _last("header Content-Type", "kind data", "kind code"),
    "header.deprecation": _headers("Deprecation", "Sunset"),
    "header.cross_origin": _headers("Access-Control-Allow-Origin", "Access-Control-Allow-Headers"),
    "error.body": _last("answer", "place status", *(f"kind {name}" for name in ERROR_FIELDS)),
    "error.type": _last("answer", "place type", "place documentation_url"),
    "error.request_id": _error_id,
    "rate.headers": _headers("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
    "resource.envelope": _last("answer", "kind data", "kind has_more", "kind next_cursor"),
    "resource.fields": _fields,
    "resource.timestamps": _times,
    "resource.patch": _patched,
}
"""What shows a finding on each rule; on others no script is written."""

DEPENDS: Mapping[str, str] = {
    "webhook": "it needs a webhook receiver",
    "rate": "it depends on all calls of a minute",
    "job": "it depends on how jobs run",
    "idempotency": "it depends on calls in flight, or on a day's wait",
    "cooldown": "it depends on how long a wait is",
    "access": "it depends on what a key was accepted for before",
    "paging": "it is of pages over GraphQL",
    "resource": "it depends on more than one reply",
}
"""Why no script shows a finding, by family; of others it depends on what the account has used."""
