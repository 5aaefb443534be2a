"""What tests of the surfaces share: a service with something of everything, and sample calls on it."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import graphql as core

from ranksim.core.clock import DAY, HOUR, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Answer, Attempt, Body, Call, Reply, Task
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.service import Service
from ranksim.core.surface.graphql_schema import FIELDS, SCHEMA, snake
from ranksim.core.surface.operation_schemas import WIRES

START = instant("2026-03-04T10:00:00Z")

FIELD_OF = {operation: name for name, operation in FIELDS.items()}

ROOTS = {
    name: field for kind in (SCHEMA.query_type, SCHEMA.mutation_type) for name, field in kind.fields.items()
}


@dataclass
class Sample:
    """A call to make: one of an operation's ways to go."""

    name: str
    operation: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    code: str = ""
    """The error code that it gets, or ""."""

    def in_rest(self) -> dict[str, Any]:
        """Write it as a REST request: what `httpx.Client.request` takes."""
        operation = OPERATIONS[self.operation]
        url = f"/v1/{operation.path.format_map(self.path)}"
        return {"method": operation.method, "url": url, "params": dict(self.query), "json": self.body}

    def in_graphql(self) -> dict[str, Any]:
        """Write it as a GraphQL request of one root field that selects everything: the body of a POST."""
        name = FIELD_OF[self.operation]
        renamed = {"limit": "first", "cursor": "after"}
        arguments = {**self.path, **{renamed.get(n, camel(n)): v for n, v in self.query.items()}}
        if WIRES[self.operation].body is not None:
            arguments["input"] = self.body
        variables = {n: fitting(value, ROOTS[name].args[n].type) for n, value in arguments.items()}
        return {"query": document(name, arguments), "variables": variables}

    def data_of(self, answer: Any, status: int, body: Any) -> Any:
        """Give what a GraphQL answer says, as the `data` of REST, whose status and body are given."""
        name, wire = FIELD_OF[self.operation], WIRES[self.operation]
        found = plain(answer["data"][name], ROOTS[name].type)
        if status == 204:
            assert set(found) == {"id"}
            return None
        if OPERATIONS[self.operation].spends:
            [made] = [value for value in found.values() if value is not None]
            return made
        if wire.paged and name != "webhookEvents":
            assert [edge["node"] for edge in found["edges"]] == found["nodes"]
            info, cursors = found["page_info"], [edge["cursor"] for edge in found["edges"]]
            assert info["has_next_page"] == body["has_more"]
            assert (info["start_cursor"], info["end_cursor"]) == (
                (cursors or [None])[0],
                (cursors or [None])[-1],
            )
            assert body["next_cursor"] in (None, info["end_cursor"])
            return found["nodes"]
        return found


def selection(kind: Any) -> str:
    """Select every field of a type."""
    named = core.get_named_type(kind)
    if not isinstance(named, core.GraphQLObjectType):
        return ""
    return "{" + " ".join(f"{name} {selection(field.type)}" for name, field in named.fields.items()) + "}"


def document(name: str, arguments: dict[str, Any]) -> str:
    """Write a request of one root field, its arguments in variables of the same names."""
    field = ROOTS[name]
    kind = "mutation" if name in SCHEMA.mutation_type.fields else "query"
    types = " ".join(f"${argument}: {field.args[argument].type}" for argument in arguments)
    given = " ".join(f"{argument}: ${argument}" for argument in arguments)
    head = f"{kind} ({types}) {{ {name}({given})" if arguments else f"{kind} {{ {name}"
    return f"{head} {selection(field.type)} }}"


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def fitting(value: Any, kind: Any) -> Any:
    """Put a value of JSON in the form of an input type."""
    if isinstance(kind, core.GraphQLNonNull):
        return fitting(value, kind.of_type)
    if value is None:
        return None
    if isinstance(kind, core.GraphQLList):
        return [fitting(item, kind.of_type) for item in value]
    if isinstance(kind, core.GraphQLInputObjectType):
        return {camel(name): fitting(item, kind.fields[camel(name)].type) for name, item in value.items()}
    if isinstance(kind, core.GraphQLEnumType):
        return value.upper()
    if kind.name in ("Int", "Boolean") and isinstance(value, str):
        return json.loads(value)
    return value


def plain(value: Any, kind: Any) -> Any:
    """Put an answer in the form of JSON."""
    if isinstance(kind, core.GraphQLNonNull):
        return plain(value, kind.of_type)
    if value is None:
        return None
    if isinstance(kind, core.GraphQLList):
        return [plain(item, kind.of_type) for item in value]
    if isinstance(kind, core.GraphQLObjectType):
        return {snake(name): plain(item, kind.fields[name].type) for name, item in value.items()}
    return value.lower() if isinstance(kind, core.GraphQLEnumType) else value


class Stage:
    """One account on the pro plan: two domains, all kinds of jobs done, webhooks delivered and failed."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.service = Service(self.policy, seed=7)
        self.now = START
        self.account = self.service.open_account("demo", "pro", self.now)
        self.key = self.service.issue_key(self.account, "first", self.now)
        self.ids: dict[str, str] = {}
        self._furnish()
        self.scoped = self.service.issue_key(self.account, "bound", self.now, self.ids["domain"])

    def call(self, operation: str, body: Body | None = None, **path: str) -> Any:
        call = Call(operation, self.key, path, body=body)
        step = self.service.handle(call, self.now)
        reply, tasks = step.reply, step.tasks
        self.service.written(reply, self.now)
        self._receive(tasks)
        assert reply.status < 300, reply.body
        return None if reply.body is None else reply.body["data"]

    def wait(self, duration: int) -> None:
        self.now += duration
        self._receive(self.service.advance(self.now).tasks)

    def _receive(self, tasks: list[Task]) -> None:
        """Answer each attempt as soon as it is out: good at first, then not."""
        for task in tasks:
            assert isinstance(task, Attempt)
            answer = Answer(200, None, 80_000) if task.attempt % 2 else Answer(None, "timeout", 10_000_000)
            self._receive(self.service.attempted(task.attempt, answer, self.now).tasks)

    def _make(self, name: str, operation: str, body: Body) -> None:
        self.ids[name] = self.call(operation, body)["id"]

    def _furnish(self) -> None:
        ids = self.ids
        self._make("domain", "domains.create", {"host": "www.example.com", "path": "/shop"})
        self._make("other", "domains.create", {"host": "example.org"})
        for name in ("list", "list2"):
            self._make(name, "keyword_lists.create", {"domain_id": ids["domain"], "name": name})
        for name in ("label", "label2"):
            self._make(name, "labels.create", {"domain_id": ids["domain"], "name": name})
        for name in ("competitor", "competitor2"):
            self._make(
                name, "competitors.create", {"domain_id": ids["domain"], "host": f"{name}.example.net"}
            )
        added = self.call("keywords.create", {"list_id": ids["list"], "keywords": ["shoes", "boots", "hats"]})
        ids["keyword"] = added["created"][0]["id"]
        self.call("keywords.update", {"label_ids": [ids["label"]]}, id=ids["keyword"])
        scan = {
            "domain_id": ids["domain"],
            "list_ids": [ids["list"]],
            "engine_devices": ["google/desktop", {"engine": "google", "device": "mobile"}],
            "geographies": [{"country": "DE", "language": "de"}, {"country": "FR"}],
        }
        self._make("scan", "scans.create", scan)
        self._make("scan2", "scans.create", scan | {"name": "second", "active": False})
        for name in ("webhook", "webhook2"):
            self._make(name, "webhooks.create", {"url": f"https://{name}.example/hook"})
        self._make(
            "disabled",
            "webhooks.create",
            {"url": "http://hook.example", "enabled": False, "domain_id": ids["domain"]},
        )
        for _ in range(2):
            for kind in ("rank_run", "crawl", "site_optimization", "ai_scan"):
                for domain in ("domain", "other"):
                    job = self.call("jobs.create", {"kind": kind, "domain_id": ids[domain]})
                    ids[kind] = job["id"]
            self.wait(DAY + HOUR)
        ids["analysis"] = self.call_list("analyses.list")[0]["id"]
        for word in ("shoes", "boots"):
            body = {"domain_id": ids["domain"], "keywords": [word]}
            self._make("brief", "keyword_briefs.create", body)
        self._make("running", "jobs.create", {"kind": "rank_run", "domain_id": ids["domain"]})

    def call_list(self, operation: str) -> list[Any]:
        found: list[Any] = self.call(operation)
        return found

    def handle(self, sample: Sample, service: Service | None = None, **more: Any) -> Reply:
        """Make a sample's call over REST, on a fork unless a service is given."""
        given = {"key": self.key} | more
        call = Call(sample.operation, path=sample.path, query=sample.query, body=sample.body, **given)
        reply = (service or self.service.fork()).handle(call, self.now).reply
        return reply

    def samples(self) -> list[Sample]:
        """Give the ways to call: every operation at least once, in the order of the table."""
        ids = self.ids
        domain, listed = {"domain_id": ids["domain"]}, {"limit": "1", "domain_id": ids["domain"]}
        named = domain | {"name": "new"}
        scan = {
            **domain,
            "list_ids": [ids["list"], ids["list2"]],
            "engine_devices": [{"engine": "bing", "device": "desktop"}],
            "geographies": [{"country": "DE", "location_id": "1004", "language": "de"}],
        }
        words = {"list_id": ids["list"], "keywords": ["Shoes", "socks"]}
        brief = domain | {"keywords": ["shoes", "socks"]}
        crawl = {"kind": "crawl", "domain_id": ids["other"]}

        def at(name: str) -> dict[str, str]:
            return {"id": ids[name]}

        def of(operation: str, *rows: tuple[Any, ...]) -> list[Sample]:
            return [Sample(f"{operation}-{row[0]}", operation, *row[1:]) for row in rows]

        def listing(operation: str, *filtered: dict[str, str]) -> list[Sample]:
            queries = ({}, {"limit": "1"}, {"limit": "1000"}, *filtered)
            rows = [(str(number), {}, query) for number, query in enumerate(queries)]
            wrong = [
                ("no-page", {}, {"limit": "0"}, None, "validation_failed"),
                ("no-cursor", {}, {"cursor": "x"}, None, "invalid_cursor"),
            ]
            return of(operation, *rows, *wrong)

        def item(noun: str, name: str, patch: Body, wrong: Body) -> list[Sample]:
            none = {"id": "none"}
            return [
                *of(f"{noun}.get", ("one", at(name)), ("none", none, {}, None, "not_found")),
                *of(
                    f"{noun}.update",
                    ("all", at(name), {}, patch),
                    ("nothing", at(name), {}, {}),
                    ("wrong", at(name), {}, wrong, "validation_failed"),
                    ("none", none, {}, {}, "not_found"),
                ),
                *of(f"{noun}.delete", ("one", at(name)), ("none", none, {}, None, "not_found")),
            ]

        def spending(operation: str, body: Body, *rows: tuple[Any, ...]) -> list[Sample]:
            dry = body | {"dry_run": True}
            return of(operation, ("live", {}, {}, body), ("dry", {}, {}, dry), *rows)

        return [
            *listing("domains.list"),
            *of(
                "domains.create",
                ("host", {}, {}, {"host": "Shop.Example.net"}),
                ("all", {}, {}, {"host": "a.example", "path": "/x", "label": "A"}),
                ("wrong", {}, {}, {"host": "no host"}, "validation_failed"),
            ),
            *item("domains", "domain", {"path": None, "label": "L"}, {"label": " "}),
            *listing("keyword_lists.list", listed),
            *of("keyword_lists.create", ("one", {}, {}, named)),
            *item("keyword_lists", "list", {"name": "N"}, {"name": ""}),
            *listing(
                "keywords.list",
                listed,
                {"list_id": ids["list"], "label_id": ids["label"], "keyword": "SHOES"},
            ),
            *spending(
                "keywords.create",
                words,
                ("wrong", {}, {}, words | {"keywords": []}, "validation_failed"),
                ("none", {}, {}, words | {"list_id": "none"}, "not_found"),
            ),
            *item("keywords", "keyword", {"label_ids": [ids["label2"]]}, {"label_ids": [""]}),
            *listing("labels.list", listed),
            *of("labels.create", ("one", {}, {}, named)),
            *item("labels", "label", {"name": "N"}, {"name": "x" * 201}),
            *listing("competitors.list", listed),
            *of("competitors.create", ("one", {}, {}, domain | {"host": "b.example"})),
            *item("competitors", "competitor", {"host": "c.example"}, {"host": "c"}),
            *listing("scans.list", listed, {"active": "true"}, {"active": "false"}),
            *spending(
                "scans.create",
                scan,
                (
                    "wide",
                    {},
                    {},
                    scan | {"geographies": [{"country": a + "X"} for a in "ABCDEF"]},
                    "entitlement_required",
                ),
            ),
            *item(
                "scans", "scan", {"name": "S", "active": False, "list_ids": [ids["list2"]]}, {"list_ids": []}
            ),
            *of("slots.get", ("one",)),
            *listing("jobs.list", listed, {"kind": "crawl", "status": "done"}),
            *spending(
                "jobs.create",
                crawl,
                ("joined", {}, {}, {"kind": "rank_run", **domain}),
                ("would-join", {}, {}, {"kind": "rank_run", **domain, "dry_run": True}),
                ("not-dry", {}, {}, crawl | {"dry_run": False}),
            ),
            *of(
                "jobs.get",
                ("running", {"kind": "rank_run", "id": ids["running"]}),
                ("done", {"kind": "crawl", "id": ids["crawl"]}),
                ("other-kind", {"kind": "ai_scan", "id": ids["crawl"]}, {}, None, "not_found"),
            ),
            *listing("keyword_briefs.list", listed),
            *spending(
                "keyword_briefs.create",
                brief,
                ("id", {}, {}, {"keyword_id": ids["keyword"]}),
                ("ids", {}, {}, {"keyword_ids": [ids["keyword"]], "dry_run": False}),
                ("both", {}, {}, brief | {"keyword_id": ids["keyword"]}, "validation_failed"),
                ("many", {}, {}, domain | {"keywords": [str(n) for n in range(99)]}, "quota_exhausted"),
            ),
            *listing("positions.list", listed, {"keyword_id": ids["keyword"], "date": "2026-03-04"}),
            *listing("positions.history", listed, {"keyword_id": ids["keyword"], "date": "2026-03-05"}),
            *of("account.get", ("one",)),
            *of("account.usage", ("one",)),
            *of("account.entitlements", ("one",)),
            *listing("webhooks.list", listed),
            *of(
                "webhooks.create",
                ("url", {}, {}, {"url": "https://a.example/x"}),
                ("all", {}, {}, {"url": "http://b.example", "event_types": ["job.failed"], **domain}),
                ("wrong", {}, {}, {"url": "ftp://b.example"}, "validation_failed"),
            ),
            *item("webhooks", "webhook", {"enabled": False, "event_types": []}, {"event_types": ["job.new"]}),
            *of(
                "webhooks.test",
                ("one", at("webhook")),
                ("disabled", at("disabled"), {}, None, "endpoint_disabled"),
            ),
            *listing("webhook_deliveries.list", {"endpoint_id": ids["webhook"]}),
            *of("webhook_events.list", ("all",)),
            *listing("crawled_pages.list", listed),
            *listing("analyses.list", listed),
            *of(
                "analyses.findings",
                ("all", {"id": ids["analysis"]}),
                ("first", {"id": ids["analysis"]}, {"limit": "1"}),
                ("none", {"id": "none"}, {}, None, "not_found"),
            ),
            *listing("ai_visibility.list", listed),
            *listing("ai_visibility.industries", listed),
            *listing("backlinks.list", listed),
            *listing("integrations.list", listed),
        ]


class LoopClock:
    """The clock of the running event loop, which only the test moves: no machine is too slow for it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        loop.time = self.monotonic  # type: ignore[method-assign]  # what asyncio reads for all its timers

    def monotonic(self) -> float:
        """Read it, in seconds."""
        return self.now

    def monotonic_ns(self) -> int:
        """Read it, in nanoseconds."""
        return round(self.now * 1e9)
