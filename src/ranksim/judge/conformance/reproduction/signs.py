"""By what in replies a finding shows again: for each rule, expressions that a shell script evaluates, too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
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


_NOTHING = object()
_KINDS = {str: "text", bool: "boolean", type(None): "null", dict: "more", list: "more"}


@dataclass(frozen=True, slots=True)
class ReplyRead:
    """A reply, by the step of a script that asks for it, and the key that asked."""

    step: str
    name: str
    exchange: Exchange
    key: TraceKey | None

    @property
    def reply(self) -> Any:
        """The parsed body."""
        return parsed(self.exchange.response)

    @property
    def values(self) -> dict[str, Any]:
        """The scalars of the reply, by place."""
        return dict(places(self.reply))

    def _of(self, function: str, label: str, recorded: str, *words: str) -> Expression:
        return Expression(label, (function, self.step, *words), recorded)

    def answer(self) -> Expression:
        """Return the status, and the code of an error."""
        code = self.values.get("code", "")
        return self._of("answer", f"{self.name} was answered", f"{self.exchange.status} {code}".strip())

    def header(self, name: str) -> Expression:
        """Return a header, or none."""
        value = lowered(self.exchange.response_headers).get(name.lower(), "none")
        return self._of("header", f"{name} of {self.name}", value, name)

    def place(self, at: str) -> Expression:
        """Return a scalar as JSON, or none."""
        value = self.values.get(at, _NOTHING)
        return self._of("place", f"{at} of {self.name}", "none" if value is _NOTHING else _scalar(value), at)

    def kind(self, at: str) -> Expression:
        """Return what sort of value stands at a place."""
        value = self.reply
        for name in at.split("."):
            inside = value if isinstance(value, dict) else {}
            if isinstance(value, list):
                inside = {str(number): part for number, part in enumerate(value)}
            value = inside.get(name, _NOTHING)
        sort = "none" if value is _NOTHING else _KINDS.get(type(value), "number")
        return self._of("kind", f"{at} of {self.name} is", sort, at)

    def listed(self, item: str) -> Expression:
        """Return whether a page shows an item."""
        there = item in [value for value in self.values.values() if isinstance(value, str)]
        return self._of("listed", f"{self.name} shows it", "yes" if there else "no", item)

    def others(self, field: str, own: str) -> Expression:
        """Return whether a page shows a thing with another value than one's own in a field."""
        values = [value for at, value in self.values.items() if re.fullmatch(rf"data\.[0-9]+\.{field}", at)]
        other = "yes" if {*values} - {own, None} else "no"
        return self._of("others", f"{self.name} lists another domain's", other, field, own)

    def count(self) -> Expression:
        """Return how many items a page shows."""
        return self._of("count", f"items of {self.name}", str(len(items_of(self.exchange))))

    def content(self) -> Expression:
        """Return all that it says."""
        content = sorted((at, _scalar(value)) for at, value in self.values.items())
        return self._of("content", f"what {self.name} says", str(content))


def _scalar(value: Any) -> str:
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
"""Says what shows a finding again, by the replies of its evidence."""


def _answers(replies: Reads, piece: Evidence) -> Signs:
    """How each call was answered; over GraphQL that tells nothing."""
    return [read.answer() for read in replies] if replies[-1].exchange.surface == "rest" else []


def _last(*looks: Callable[[ReplyRead], Expression]) -> Showing:
    """What the last reply says at some places is what it said there."""
    return lambda replies, piece: [look(replies[-1]) for look in looks]


def _accessed(replies: Reads, piece: Evidence) -> Signs:
    """A call succeeds that should not; a list has what is another domain's or account's."""
    last, answers = replies[-1], _answers(replies, piece)
    if not isinstance(last.reply, dict) or not isinstance(last.reply.get("data"), list):
        return answers
    own = last.key.domain_id if last.key is not None else None
    foreign = re.search(r"was shown (\S+), which", piece.says)
    if own:
        return [*answers, last.others("id" if last.exchange.path.endswith("/domains") else "domain_id", own)]
    return [*answers, last.listed(foreign[1])] if foreign else []


def _headers(*names: str) -> Showing:
    """A header is missing, or of another form; numbers in it do not matter, and whole ones are right."""

    def signs(replies: Reads, piece: Evidence) -> Signs:
        looks = [_masked(replies[-1].header(name)) for name in names]
        return [sign for sign in looks if sign.recorded != "9"]

    return signs


def _echo(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    sent = _literal(lowered(read.exchange.request_headers).get("x-request-id", ""))
    return [_relation("X-Request-Id sent and got", sent, read.header("X-Request-Id"))]


def _error(replies: Reads, piece: Evidence) -> Signs:
    """Fields of an error are missing or misshapen, or its status is another one."""
    read, body = replies[-1], replies[-1].reply
    body = body if isinstance(body, dict) else {}
    signs = [read.kind(name) for name in wrong_fields(body, ERROR_FIELDS)]
    signs += [read.place("status")] if body.get("status") != read.exchange.status else []
    return signs and [read.answer(), *signs]


def _error_id(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    plain = Expression("", ("text", read.step, "request_id"), str(read.values.get("request_id", "none")))
    return [read.answer(), _relation("request_id and X-Request-Id", plain, read.header("X-Request-Id"))]


def _fields(replies: Reads, piece: Evidence) -> Signs:
    """A field of a resource is missing or misshapen."""
    read = replies[-1]
    operation, _ = route(read.exchange.method, read.exchange.path)
    fields = SINGLES.get(operation) or COLLECTIONS.get(operation) or {}
    data = read.reply.get("data") if isinstance(read.reply, dict) else None
    things = (
        {f"data.{at}": thing for at, thing in enumerate(data)} if isinstance(data, list) else {"data": data}
    )
    for at, thing in things.items():
        wrong = wrong_fields(thing, fields) if isinstance(thing, dict) else []
        signs = [read.kind(f"{at}.{name}") for name in wrong if name in piece.says.partition(" missing ")[2]]
        if signs:
            return [read.answer(), *signs, read.kind(at)]
    return []


def _times(replies: Reads, piece: Evidence) -> Signs:
    """A timestamp is of another form."""
    values = replies[-1].values.items()
    wrong = [
        at for at, value in values if at.rpartition(".")[2] in TIMESTAMPS and value and not is_utc(value)
    ]
    return [_masked(replies[-1].place(at)) for at in wrong[:1]]


def _envelope(replies: Reads, piece: Evidence) -> Signs:
    """A list has no has_more or next_cursor, any other success no data."""
    read = replies[-1]
    right = {"has_more": ("boolean",), "next_cursor": ("text", "null")}
    if not isinstance(read.reply, dict) or not isinstance(read.reply.get("data"), list):
        right = {"data": ("text", "more", "null", "boolean", "number")}
    signs = [read.kind(name) for name, kinds in right.items() if read.kind(name).recorded not in kinds]
    return signs and [read.answer(), *signs]


_PLAIN = re.compile(r'"[ -.0-9:-\[\]-~]*"|true|false|null|[0-9]+')


def _patched(replies: Reads, piece: Evidence) -> Signs:
    """The newest PATCH is not what is shown of a field whose JSON can be written in one way alone."""
    last = replies[-1]
    patch = next((read for read in reversed(replies) if read.exchange.method == "PATCH"), last)
    for at, value in places(parsed(patch.exchange.body)):
        sent, shows = _literal(_scalar(value)), last.place(f"data.{at}")
        if "none" != shows.recorded != sent.recorded and _PLAIN.fullmatch(sent.recorded):
            return [*_answers(replies, piece), _relation(f"{at} as sent and as shown", sent, shows)]
    return []


def _replayed(replies: Reads, piece: Evidence) -> Signs:
    """Two replies to one key are not the same, though both did something."""
    first, last, answers = replies[0], replies[-1], _answers(replies, piece)
    same = _relation(f"{first.name} and {last.name} say", first.content(), last.content())
    return [*answers, same] if answers and same.recorded == "different" else []


def _paged(replies: Reads, piece: Evidence) -> Signs:
    """An item is on pages on which it should not be, or on none."""
    pages = [read for read in replies if read.exchange.method == "GET" and "has_more" in read.values]
    return [read.listed(piece.says.partition(" is ")[0]) for read in pages]


_SIZE = _last(methodcaller("count"), methodcaller("place", "has_more"))

SIGNS: Mapping[str, Showing] = {
    **dict.fromkeys(("access.scope", "access.tenant"), _accessed),
    **dict.fromkeys(("access.key", "access.public", "access.environment"), _answers),
    **dict.fromkeys(("access.scoped_endpoints", "access.scoped_writes"), _answers),
    **dict.fromkeys(("cooldown.enforced", "cooldown.refused"), _answers),
    **dict.fromkeys(("cooldown.join", "idempotency.once", "idempotency.replay"), _replayed),
    "idempotency.mismatch": _answers,
    **dict.fromkeys(("paging.cursor", "paging.walk"), _answers),
    **dict.fromkeys(("paging.once", "paging.complete"), _paged),
    **dict.fromkeys(("paging.limit", "paging.default"), _SIZE),
    "paging.end": _last(methodcaller("place", "has_more"), methodcaller("kind", "next_cursor")),
    "header.request_id": _headers("X-Request-Id"),
    "header.request_id_echo": _echo,
    "header.json": _last(
        methodcaller("header", "Content-Type"), methodcaller("kind", "data"), methodcaller("kind", "code")
    ),
    "header.deprecation": _headers("Deprecation", "Sunset"),
    "header.cross_origin": _headers("Access-Control-Allow-Origin", "Access-Control-Allow-Headers"),
    "error.body": _error,
    "error.type": _last(
        methodcaller("answer"), *(methodcaller("place", at) for at in ("type", "documentation_url"))
    ),
    "error.request_id": _error_id,
    "rate.headers": _headers("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
    "resource.envelope": _envelope,
    "resource.fields": _fields,
    "resource.timestamps": _times,
    "resource.patch": _patched,
    "resource.unconditional": _answers,
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
