"""By what in replies a finding shows again: for each rule, expressions that a shell script evaluates, too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ranksim.core.records import parsed
from ranksim.core.trace import Exchange, TraceKey
from ranksim.judge.conformance.calls.responses import ERROR_FIELDS, Fields, wrong_fields
from ranksim.judge.conformance.calls.schema_checks import COLLECTIONS, SINGLES, TIMESTAMPS, is_utc
from ranksim.judge.conformance.history.exchange_reader import lowered, route
from ranksim.judge.conformance.reproduction.needed import items_of, places
from ranksim.judge.conformance.verdict.verdicts import Evidence


@dataclass(frozen=True, slots=True)
class Expression:
    """What a script evaluates, a function of its runtime and arguments, and what that was in the trace."""

    words: tuple[str | Expression, ...]
    recorded: str


@dataclass(frozen=True, slots=True)
class ReplyRead:
    """A reply by the step of a script that asks for it, and the key that asked."""

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

    def _of(self, function: str, recorded: str, *words: str) -> Expression:
        return Expression((function, self.step, *words), recorded)

    def answer(self) -> Expression:
        """Return the status, and the code of an error."""
        code = self.values.get("code", "")
        return self._of("answer", f"{self.exchange.status} {code}".strip())

    def header(self, name: str) -> Expression:
        """Return a header, or none."""
        return self._of("header", lowered(self.exchange.response_headers).get(name.lower(), "none"), name)

    def place(self, at: str) -> Expression:
        """Return a scalar as JSON, or none."""
        value = self.values.get(at, _NOTHING)
        return self._of("place", "none" if value is _NOTHING else _scalar(value), at)

    def kind(self, at: str) -> Expression:
        """Return what sort of value stands at a place."""
        value = self.reply
        for name in at.split("."):
            inside = isinstance(value, list) and name.isdecimal() and int(name) < len(value)
            value = (
                value[int(name)]
                if inside
                else value.get(name, _NOTHING)
                if isinstance(value, dict)
                else _NOTHING
            )
        return self._of("kind", "none" if value is _NOTHING else _KINDS.get(type(value), "number"), at)

    def listed(self, item: str) -> Expression:
        """Return whether a page shows an item."""
        there = item in {value for value in self.values.values() if isinstance(value, str)}
        return self._of("listed", "yes" if there else "no", item)

    def content(self) -> Expression:
        """Return all that it says."""
        return self._of("content", str(sorted((at, _scalar(value)) for at, value in self.values.items())))


_NOTHING = object()
_KINDS = {str: "text", bool: "boolean", type(None): "null", dict: "more", list: "more"}


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def relation(first: Expression, other: Expression) -> Expression:
    """Return whether two are the same."""
    same = "the same" if first.recorded == other.recorded else "different"
    return Expression(("relation", first, other), same)


def masked(text: Expression) -> Expression:
    """Return it with 9 for each number."""
    return Expression(("masked", text), re.sub("[0-9]+", "9", text.recorded))


def literal(text: str) -> Expression:
    """Return what is the same each time, but for names and ids that are new."""
    return Expression(("printf", "%s", text), text)


Signs = dict[str, Expression]
"""By name; none where replies alone do not show it."""

Reads = Sequence[ReplyRead]
Showing = Callable[[Reads, Evidence], Signs]
"""Says what shows a finding again, by the replies of its evidence."""


def all_answers(replies: Reads) -> Signs:
    """Return how each call was answered."""
    return {f"{read.name} was answered": read.answer() for read in replies}


def _accessed(replies: Reads, piece: Evidence) -> Signs:
    """A call succeeds that should not; a list has what is another domain's or account's."""
    last = replies[-1]
    if isinstance(last.reply, dict) and isinstance(last.reply.get("data"), list):
        own = last.key.domain_id if last.key is not None else None
        foreign = re.search(r"was shown (\S+), which", piece.says)
        if foreign is not None and not own:
            return all_answers(replies) | {f"{last.name} lists it": last.listed(foreign[1])}
        field = "id" if last.exchange.path.endswith("/domains") else "domain_id"
        theirs = {value for at, value in last.values.items() if re.fullmatch(rf"data\.[0-9]+\.{field}", at)}
        there = Expression(("others", last.step, field, str(own)), "yes" if theirs - {own, None} else "no")
        return all_answers(replies) | {f"{last.name} lists another domain's": there} if own else {}
    return all_answers(replies) if last.exchange.surface == "rest" else {}


def _headers(*names: str) -> Showing:
    """A header is missing, or of another form; numbers in it do not matter, and whole ones are right."""

    def signs(replies: Reads, piece: Evidence) -> Signs:
        read = replies[-1]
        looks = {f"{name} of {read.name}": masked(read.header(name)) for name in names}
        return {name: sign for name, sign in looks.items() if sign.recorded != "9"}

    return signs


def _echo(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    sent = literal(lowered(read.exchange.request_headers).get("x-request-id", ""))
    return {"X-Request-Id sent and got": relation(sent, read.header("X-Request-Id"))}


def _json(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    kinds = {f"{at} of it": read.kind(at) for at in ("data", "code")}
    return {f"Content-Type of {read.name}": read.header("Content-Type")} | kinds


def _error(replies: Reads, piece: Evidence) -> Signs:
    """Fields of an error are missing or misshapen, or its status is another one."""
    read = replies[-1]
    signs = all_answers([read]) | {
        f"{name} of it": read.kind(name) for name in _wrong(read.reply, ERROR_FIELDS)
    }
    if isinstance(read.reply, dict) and read.reply.get("status") != read.exchange.status:
        signs["status in its body"] = read.place("status")
    return signs if len(signs) > 1 else {}


def _wrong(thing: Any, fields: Fields) -> list[str]:
    return wrong_fields(thing if isinstance(thing, dict) else {}, fields)


def _error_type(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    return all_answers([read]) | {f"{at} of it": read.place(at) for at in ("type", "documentation_url")}


def _error_id(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    named = Expression(("text", read.step, "request_id"), str(read.values.get("request_id", "none")))
    return all_answers([read]) | {"request_id and X-Request-Id": relation(named, read.header("X-Request-Id"))}


def _fields(replies: Reads, piece: Evidence) -> Signs:
    """A field of a resource is missing or misshapen."""
    read = replies[-1]
    operation, _ = route(read.exchange.method, read.exchange.path)
    fields = SINGLES.get(operation) or COLLECTIONS.get(operation) or {}
    data = read.reply.get("data") if isinstance(read.reply, dict) else None
    for at, thing in enumerate(data) if isinstance(data, list) else [(-1, data)]:
        wrong = [name for name in _wrong(thing, fields) if name in piece.says.partition(" missing ")[2]]
        if wrong and isinstance(thing, dict):
            base = f"data.{at}" if at >= 0 else "data"
            named = {f"{base}.{name} of {read.name}": read.kind(f"{base}.{name}") for name in wrong}
            return all_answers([read]) | named | {f"{base} of it": read.kind(base)}
    return {}


def _times(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    for at, value in read.values.items():
        if at.rpartition(".")[2] in TIMESTAMPS and value and not is_utc(value):
            return {f"{at} of {read.name}": masked(read.place(at))}
    return {}


def _envelope(replies: Reads, piece: Evidence) -> Signs:
    """A list has no has_more or next_cursor, any other success no data."""
    read = replies[-1]
    kinds = {name: read.kind(name) for name in ("data", "has_more", "next_cursor")}
    good = {"data": ("text", "more", "null", "boolean", "number"), "has_more": ("boolean",)}
    listed = isinstance(read.reply, dict) and isinstance(read.reply.get("data"), list)
    looked = ("has_more", "next_cursor") if listed else ("data",)
    wrong = {name for name in looked if kinds[name].recorded not in good.get(name, ("text", "null"))}
    signs = {f"{name} of {read.name}": kinds[name] for name in kinds if name in wrong}
    return signs and all_answers([read]) | signs


def _patched(replies: Reads, piece: Evidence) -> Signs:
    """The newest PATCH is not what is shown of its fields."""
    last = replies[-1]
    patch = next((read for read in reversed(replies) if read.exchange.method == "PATCH"), last)
    for at, value in places(parsed(patch.exchange.body)):
        sent, shows = literal(_scalar(value)), last.place(f"data.{at}")
        if "none" != shows.recorded != sent.recorded:
            return all_answers(replies) | {f"{at} of {last.name} and what was sent": relation(sent, shows)}
    return {}


def _replayed(replies: Reads, piece: Evidence) -> Signs:
    """Two replies to one key are not the same, though both did something."""
    first, other = replies[0], replies[-1]
    same = relation(first.content(), other.content())
    differ = {f"{first.name} and {other.name} say": same} if same.recorded == "different" else {}
    return differ and all_answers(replies) | differ


def _paged(replies: Reads, piece: Evidence) -> Signs:
    """An item is on pages on which it should not be, or on none."""
    item, pages = piece.says.partition(" is ")[0], [read for read in replies if _is_page(read)]
    return {f"{read.name} shows it": read.listed(item) for read in pages}


def _is_page(read: ReplyRead) -> bool:
    return read.exchange.method == "GET" and isinstance(read.reply, dict) and "has_more" in read.reply


def _ended(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    return {f"has_more of {read.name}": read.place("has_more"), "its next_cursor": read.kind("next_cursor")}


def _counted(replies: Reads, piece: Evidence) -> Signs:
    read = replies[-1]
    count = Expression(("count", read.step), str(len(items_of(read.exchange))))
    return {f"items of {read.name}": count, "has_more of it": read.place("has_more")}


def _answered(replies: Reads, piece: Evidence) -> Signs:
    return all_answers(replies) if replies[-1].exchange.surface == "rest" else {}


SIGNS: Mapping[str, Showing] = {
    **dict.fromkeys(("access.scope", "access.tenant"), _accessed),
    **{
        f"access.{name}": _answered
        for name in ("key", "public", "environment", "scoped_endpoints", "scoped_writes")
    },
    **{f"cooldown.{name}": _answered for name in ("enforced", "refused")},
    **dict.fromkeys(("cooldown.join", "idempotency.once", "idempotency.replay"), _replayed),
    **dict.fromkeys(
        ("idempotency.mismatch", "paging.cursor", "paging.walk", "resource.unconditional"), _answered
    ),
    **dict.fromkeys(("paging.once", "paging.complete"), _paged),
    **dict.fromkeys(("paging.limit", "paging.default"), _counted),
    "paging.end": _ended,
    "header.request_id": _headers("X-Request-Id"),
    "header.request_id_echo": _echo,
    "header.json": _json,
    "header.deprecation": _headers("Deprecation", "Sunset"),
    "header.cross_origin": _headers("Access-Control-Allow-Origin", "Access-Control-Allow-Headers"),
    "error.body": _error,
    "error.type": _error_type,
    "error.request_id": _error_id,
    "rate.headers": _headers("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
    "resource.envelope": _envelope,
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
