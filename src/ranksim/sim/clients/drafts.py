"""Drafts: realistic requests for each operation, made from what an account has and a client has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field, model_validator

from ranksim import draws
from ranksim.callers.portfolio import host_label
from ranksim.contract.quantities import Frozen
from ranksim.draws import Purpose
from ranksim.errors import BadInput
from ranksim.service.calls import Body, Reply
from ranksim.service.operations import OPERATIONS
from ranksim.sim.clients.common import Client, OperationName, Request, data_of

REMEMBERED = 500
"""Ids of a resource that a client keeps in mind; older ones are forgotten."""

WHOLE_ACCOUNT = frozenset({"domains", "slots", "account", "webhooks", "webhook_deliveries", "webhook_events"})
"""Resources that are read without asking for one domain."""

FREE = frozenset({"domains", "webhooks"})
"""Resources that can be made without a domain."""


def on_one(operation: str) -> bool:
    """Tell whether an operation is about one thing, which the client must know already."""
    return "{id}" in OPERATIONS[operation].path


def path_parameters(operation: str) -> list[str]:
    """The names that stand for something in an operation's path."""
    return [part[1:-1] for part in OPERATIONS[operation].path.split("/") if part.startswith("{")]


class Item(Frozen):
    """One operation of a mix: its weight, and what to put in place of the draft's body, query and path."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    body: dict[str, Any] = Field(default_factory=dict)
    query: dict[str, str] = Field(default_factory=dict)
    path: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"weight": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Mix = Annotated[dict[OperationName, Item], Field(min_length=1)]
"""Operations by weight: {positions.list: 5, jobs.create: {weight: 1, body: {kind: crawl}}}."""


class Drafts:
    """Makes the requests of one client; `operations` are all that it will be asked for.

    The domain goes round, from a drawn first one. Where an operation is about one thing (`keywords.delete`),
    the client takes one it has seen in an earlier list or creation; while it has seen none, it looks at the
    list instead. Raises BadInput when the account lacks the domains or lists that the operations need.
    """

    def __init__(self, client: Client, operations: Iterable[str]) -> None:
        self.client = client
        self.actor = client.actor
        self.seen: dict[str, list[Mapping[str, str]]] = {}
        operations = list(operations)
        self.learns = {operation.partition(".")[0] for operation in operations if on_one(operation)}
        domains = self.actor.domains
        self.phase = (
            draws.below(len(domains), client.world.seed, client.entity, 0, Purpose.PHASE) if domains else 0
        )
        self._queries = [{"domain_id": domain} for domain in domains]
        if "domains" in self.learns:
            self.seen["domains"] = [{"id": domain} for domain in domains]
        if "keyword_lists" in self.learns:
            self.seen["keyword_lists"] = [{"id": i} for lists in self.actor.lists.values() for i in lists]
        self._check(operations)

    def _check(self, operations: Iterable[str]) -> None:
        for operation in operations:
            resource, _, action = operation.partition(".")
            if action == "create" and resource not in FREE:
                self.domain(0)
            if action == "create" and resource in ("keywords", "scans"):
                for domain in self.actor.domains:
                    self.list_of(domain, 0)

    def make(self, operation: str, number: int, item: Item | None = None) -> Request:
        """Make the request for an operation; `number` addresses its draws. Raises BadInput."""
        resource, _, action = operation.partition(".")
        if on_one(operation):
            request = self._on_one(resource, action, number)
        elif action == "create":
            request = Request(operation, body=CREATE[resource](self, number))
        else:
            request = Request(operation, query=self._query(resource, number))
        if item is not None and request.operation == operation:
            _lay_over(request, item)
        if resource in self.learns:
            sent = request
            request.then = lambda reply: self.learn(resource, sent, reply)
        return request

    def domain(self, number: int) -> str:
        """Give the domain whose turn it is. Raises BadInput when the account has none."""
        domains = self.actor.domains
        if not domains:
            raise BadInput(
                f"clients.{self.client.name}: account {self.actor.name!r} has no domain; give it one"
            )
        return domains[(number + self.phase) % len(domains)]

    def list_of(self, domain: str, number: int) -> str:
        """Give a keyword list of a domain. Raises BadInput when it has none."""
        lists = self.actor.lists.get(domain)
        if not lists:
            raise BadInput(
                f"clients.{self.client.name}: account {self.actor.name!r} has a domain without keyword list; "
                "give it one"
            )
        return lists[number // max(1, len(self.actor.domains)) % len(lists)]

    def learn(self, resource: str, request: Request, reply: Reply) -> None:
        """Remember the ids that a reply shows, and forget what was deleted or is gone."""
        known = self.seen.setdefault(resource, [])
        if request.operation.endswith(".delete"):
            if reply.status < 300 or reply.status == 404:
                self.seen[resource] = [path for path in known if path != request.path]
            return
        data = data_of(reply)
        if isinstance(data, dict):
            data = data.get("created", [data])
        if not isinstance(data, list):
            return
        ids = {path["id"] for path in known}
        for thing in data:
            path = _path_of(resource, thing)
            if path and path["id"] not in ids:
                known.append(path)
                ids.add(path["id"])
        del known[:-REMEMBERED]

    def _query(self, resource: str, number: int) -> Mapping[str, str]:
        if resource in WHOLE_ACCOUNT or not self._queries:
            return {}
        return self._queries[(number + self.phase) % len(self._queries)]

    def _on_one(self, resource: str, action: str, number: int) -> Request:
        known = self.seen.get(resource)
        if not known:
            return Request(f"{resource}.list", query=self._query(resource, number))
        client = self.client
        index = draws.below(len(known), client.world.seed, client.entity, number, Purpose.IDENTIFIER)
        body = UPDATE[resource](number) if action == "update" else None
        return Request(f"{resource}.{action}", path=known[index], body=body)


def _lay_over(request: Request, item: Item) -> None:
    """Put what a mix says in place of what the draft says."""
    if item.body:
        request.body = {**(request.body or {}), **item.body}
    if item.query:
        request.query = {**request.query, **item.query}
    if item.path:
        request.path = {**request.path, **item.path}


def _path_of(resource: str, thing: Any) -> dict[str, str] | None:
    if not isinstance(thing, dict) or not isinstance(thing.get("id"), str):
        return None
    return {"kind": thing["kind"], "id": thing["id"]} if resource == "jobs" else {"id": thing["id"]}


# The bodies of U108, one function each


def _domain(drafts: Drafts, number: int) -> Body:
    return {"host": f"new{number}.{host_label(drafts.client.name).lower()}.example"}


def _named(drafts: Drafts, number: int) -> Body:
    return {"domain_id": drafts.domain(number), "name": f"{drafts.client.name} {number}"}


def _keywords(drafts: Drafts, number: int) -> Body:
    domain = drafts.domain(number)
    return {"list_id": drafts.list_of(domain, number), "keywords": drafts.actor.fresh_words(domain, 1)}


def _competitor(drafts: Drafts, number: int) -> Body:
    return {"domain_id": drafts.domain(number), "host": f"rival{number}.example"}


def _scan(drafts: Drafts, number: int) -> Body:
    domain = drafts.domain(number)
    return {
        "domain_id": domain,
        "name": f"{drafts.client.name} {number}",
        "list_ids": [drafts.list_of(domain, number)],
        "engine_devices": ["google/mobile"],
        "geographies": [{"country": "US"}],
    }


def _job(drafts: Drafts, number: int) -> Body:
    return {"kind": "rank_run", "domain_id": drafts.domain(number)}


def _briefs(drafts: Drafts, number: int) -> Body:
    return {
        "domain_id": (domain := drafts.domain(number)),
        "keywords": brief_words(drafts, domain, number, 1),
    }


def brief_words(drafts: Drafts, domain: str, number: int, count: int) -> list[str]:
    """Give words of a domain to refresh the briefs of, going round those that it tracks."""
    made = max(drafts.actor.words.get(domain, 0), count)
    return [f"keyword {(number + i) % made + 1}" for i in range(count)]


def _webhook(drafts: Drafts, number: int) -> Body:
    return {
        "url": f"https://hooks.example/{quote(drafts.client.name)}/{number}",
        "event_types": [],
        "domain_id": None,
    }


CREATE: dict[str, Callable[[Drafts, int], Body]] = {
    "domains": _domain,
    "keyword_lists": _named,
    "keywords": _keywords,
    "labels": _named,
    "competitors": _competitor,
    "scans": _scan,
    "jobs": _job,
    "keyword_briefs": _briefs,
    "webhooks": _webhook,
}

UPDATE: dict[str, Callable[[int], Body]] = {
    "domains": lambda number: {"label": f"label {number}"},
    "keyword_lists": lambda number: {"name": f"list {number}"},
    "keywords": lambda number: {"label_ids": []},
    "labels": lambda number: {"name": f"label {number}"},
    "competitors": lambda number: {"host": f"rival{number}.example"},
    "scans": lambda number: {"active": number % 2 == 1},
    "webhooks": lambda number: {"event_types": []},
}
