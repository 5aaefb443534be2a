"""Realistic requests for each operation, made from what an account has and a client has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Protocol
from urllib.parse import quote

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from ranksim.core import draws
from ranksim.core.callers.portfolio import Actor, host_label
from ranksim.core.callers.requests import (
    briefs_body,
    competitor_body,
    domain_body,
    job_body,
    keywords_body,
    named_body,
    scan_body,
    webhook_body,
)
from ranksim.core.callers.steps import Send
from ranksim.core.contract.quantities import NUMBER, Frozen, also
from ranksim.core.contract.views import created_by
from ranksim.core.draws import Purpose
from ranksim.core.errors import BadInput, near
from ranksim.core.service.calls import Body
from ranksim.core.service.operations import OPERATIONS

REMEMBERED = 500
"""Ids of a resource that a client keeps in mind; older ones are forgotten."""

WHOLE_ACCOUNT = frozenset({"domains", "slots", "account", "webhooks", "webhook_deliveries", "webhook_events"})
"""Resources that are read without asking for one domain."""

FREE = frozenset({"domains", "webhooks"})
"""Resources that can be made without a domain."""


def on_one(operation: str) -> bool:
    """Return whether an operation is about one thing, which the client must know already."""
    return "{id}" in OPERATIONS[operation].path


def _read_operation(value: Any) -> Any:
    if value not in OPERATIONS:
        hint = near(value, OPERATIONS) or f"; they are {', '.join(OPERATIONS)}"
        raise ValueError(f"expected an operation, found {value!r}{hint}")
    return value


OperationName = Annotated[
    str, BeforeValidator(_read_operation), WithJsonSchema({"type": "string", "enum": list(OPERATIONS)})
]
"""A name of the operations table, such as "jobs.create"."""


class Item(Frozen):
    """One operation of a mix: its weight, and what to put in place of the draft's body, query and path."""

    model_config = also(NUMBER)

    weight: Annotated[float, Field(gt=0)] = 1.0
    body: dict[str, Any] = Field(default_factory=dict)
    query: dict[str, str] = Field(default_factory=dict)
    path: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"weight": value} if isinstance(value, int | float) and not isinstance(value, bool) else value

    def lay_over(self, send: Send) -> None:
        """Put what the mix says in place of what the draft says, before it is sent."""
        if self.body:
            send.body = {**(send.body or {}), **self.body}
        if self.query:
            send.query = {**send.query, **self.query}
        if self.path:
            send.path = {**send.path, **self.path}


class Seeded(Protocol):
    """What has the seed of a run: a client, or the state of a service."""

    @property
    def seed(self) -> int:
        """What addresses draws."""


class RequestFactory:
    """Makes the requests of one client of an account; `operations` are all that it will be asked for.

    The domain goes round, from a drawn first one; draws are addressed by the seed of `seeded` and the
    client's name. Where an operation is about one thing (`keywords.delete`), the client takes one it has seen
    in an earlier list or creation; while it has seen none, it looks at the list instead. Raises BadInput when
    the account lacks the domains or lists that the operations need.
    """

    def __init__(self, name: str, actor: Actor, seeded: Seeded, operations: Iterable[str]) -> None:
        self.name = name
        self.actor = actor
        self.seeded = seeded
        self.entity = draws.entity(name)
        self.seen: dict[str, list[Mapping[str, str]]] = {}
        self._ids: dict[str, set[str]] = {}
        operations = list(operations)
        self.learns = {operation.partition(".")[0] for operation in operations if on_one(operation)}
        domains = actor.domains
        self.phase = draws.below(len(domains), seeded.seed, self.entity, 0, Purpose.PHASE) if domains else 0
        if "domains" in self.learns:
            self.seen["domains"] = [{"id": domain} for domain in domains]
        if "keyword_lists" in self.learns:
            self.seen["keyword_lists"] = [{"id": i} for lists in actor.lists.values() for i in lists]
        self._check(operations)

    def _check(self, operations: Iterable[str]) -> None:
        for operation in operations:
            resource, _, action = operation.partition(".")
            if action == "create" and resource not in FREE:
                self.domain(0)
            if action == "create" and resource in ("keywords", "scans"):
                for domain in self.actor.domains:
                    self.list_of(domain, 0)

    def make(self, operation: str, number: int, item: Item | None = None) -> Send:
        """Make the request for an operation; `number` addresses its draws. Raises BadInput.

        A list from which nothing is learnt is not read.
        """
        resource, _, action = operation.partition(".")
        if on_one(operation):
            send = self._on_one(resource, action, number)
        elif action == "create":
            send = Send(operation, body=CREATE[resource](self, number))
        else:
            send = Send(operation, query=self._query(resource, number), reads=self.reads(operation))
        if item is not None and send.operation == operation:
            item.lay_over(send)
        return send

    def reads(self, operation: str) -> bool:
        """Return whether something is learnt from the replies of an operation."""
        return operation.partition(".")[0] in self.learns

    def domain(self, number: int) -> str:
        """Return the domain whose turn it is. Raises BadInput when the account has none."""
        domains = self.actor.domains
        if not domains:
            raise BadInput(f"clients.{self.name}: account {self.actor.name!r} has no domain; give it one")
        return domains[(number + self.phase) % len(domains)]

    def list_of(self, domain: str, number: int) -> str:
        """Return a keyword list of a domain. Raises BadInput when it has none."""
        lists = self.actor.lists.get(domain)
        if not lists:
            raise BadInput(
                f"clients.{self.name}: account {self.actor.name!r} has a domain without keyword list; "
                "give it one"
            )
        return lists[number // max(1, len(self.actor.domains)) % len(lists)]

    def words_of(self, domain: str, number: int, count: int) -> list[str]:
        """Return words of a domain to refresh the briefs of, going round those that it tracks."""
        made = max(self.actor.words.get(domain, 0), count)
        return [f"keyword {(number + i) % made + 1}" for i in range(count)]

    def learn(self, send: Send, status: int, body: Body | None) -> None:
        """Remember the ids that a reply to a request shows, and forget what was deleted or is gone."""
        resource, _, action = send.operation.partition(".")
        if resource not in self.learns:
            return
        if action == "delete":
            if status < 300 or status == 404:
                self.seen[resource] = [path for path in self.seen.get(resource, ()) if path != send.path]
                self._ids.pop(resource, None)
            return
        data = body.get("data") if status < 400 and body else None
        things = data if isinstance(data, list) else created_by(data) or [data]
        self._remember(resource, [path for path in (_path_of(resource, thing) for thing in things) if path])

    def _remember(self, resource: str, paths: Iterable[Mapping[str, str]]) -> None:
        """Keep the latest of the paths that were not seen before."""
        seen = self.seen.setdefault(resource, [])
        ids = self._ids.get(resource)
        if ids is None:
            ids = self._ids[resource] = {path["id"] for path in seen}
        for path in paths:
            if path["id"] not in ids:
                seen.append(path)
                ids.add(path["id"])
        ids.difference_update(path["id"] for path in seen[:-REMEMBERED])
        del seen[:-REMEMBERED]

    def _query(self, resource: str, number: int) -> Mapping[str, str]:
        if resource in WHOLE_ACCOUNT or not self.actor.domains:
            return {}
        return {"domain_id": self.domain(number)}

    def _on_one(self, resource: str, action: str, number: int) -> Send:
        seen = self.seen.get(resource)
        if not seen:
            return Send(f"{resource}.list", query=self._query(resource, number))
        index = draws.below(len(seen), self.seeded.seed, self.entity, number, Purpose.IDENTIFIER)
        body = UPDATE[resource](number) if action == "update" else None
        return Send(f"{resource}.{action}", path=seen[index], body=body)


def _path_of(resource: str, thing: Any) -> dict[str, str] | None:
    if not isinstance(thing, dict) or not isinstance(thing.get("id"), str):
        return None
    return {"kind": thing["kind"], "id": thing["id"]} if resource == "jobs" else {"id": thing["id"]}


def _keywords(factory: RequestFactory, number: int) -> Body:
    domain = factory.domain(number)
    return keywords_body(factory.list_of(domain, number), factory.actor.fresh_words(domain, 1))


def _scan(factory: RequestFactory, number: int) -> Body:
    domain, name = factory.domain(number), f"{factory.name} {number}"
    lists = [factory.list_of(domain, number)]
    return scan_body(domain, lists, name, ["google/mobile"], [{"country": "US"}])


def _named(factory: RequestFactory, number: int) -> Body:
    return named_body(factory.domain(number), f"{factory.name} {number}")


def _briefs(factory: RequestFactory, number: int) -> Body:
    domain = factory.domain(number)
    return briefs_body(domain, factory.words_of(domain, number, 1))


CREATE: dict[str, Callable[[RequestFactory, int], Body]] = {
    "domains": lambda factory, number: domain_body(f"new{number}.{host_label(factory.name).lower()}.example"),
    "keyword_lists": _named,
    "keywords": _keywords,
    "labels": _named,
    "competitors": lambda factory, number: competitor_body(factory.domain(number), f"rival{number}.example"),
    "scans": _scan,
    "jobs": lambda factory, number: job_body("rank_run", factory.domain(number)),
    "keyword_briefs": _briefs,
    "webhooks": lambda factory, number: webhook_body(f"https://hooks.example/{quote(factory.name)}/{number}"),
}
"""What makes the body of a creation, by its noun."""

UPDATE: dict[str, Callable[[int], Body]] = {
    "domains": lambda number: {"label": f"label {number}"},
    "keyword_lists": lambda number: {"name": f"list {number}"},
    "keywords": lambda number: {"label_ids": []},
    "labels": lambda number: {"name": f"label {number}"},
    "competitors": lambda number: {"host": f"rival{number}.example"},
    "scans": lambda number: {"active": number % 2 == 1},
    "webhooks": lambda number: {"event_types": []},
}
