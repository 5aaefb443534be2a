"""No GraphQL request works the service before it is charged, nor holds up the loop; its cost is bounded."""

import asyncio
from collections.abc import Callable
from typing import Any

import graphql as core
import httpx
import pytest

from ranksim.core.clock import instant
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Call
from ranksim.core.surface import graphql
from ranksim.core.surface.graphql_cost import conflict, fragments_of, introspected, measured
from ranksim.core.surface.graphql_schema import SCHEMA
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.listener import Listener

START = instant("2026-03-04T10:00:00Z")

KIND = "name type{name ofType{name fields{name}}}"
INTROSPECTION = f"__schema{{types{{name fields{{name args{{{KIND}}} {KIND[5:]}}}}}}}"
D1 = {
    "introspection a hundred times": "{" + " ".join(f"a{n}:{INTROSPECTION}" for n in range(100)) + "}",
    "one field six hundred times": "{" + "domains{nodes{id}} " * 600 + "}",
}
"""What stopped the whole server for seconds."""


def spread(count: int) -> str:
    parts = " ".join(f"fragment F{n} on Query{{domains{{nodes{{id}}}}}}" for n in range(count))
    return "{" + " ".join(f"...F{n}" for n in range(count)) + "}" + parts


LARGEST: dict[str, str] = {
    **D1,
    "introspection": core.get_introspection_query(),
    "introspection, all of it": core.get_introspection_query(
        specified_by_url=True, directive_is_repeatable=True,
        schema_description=True, input_value_deprecation=True,
    ),
    "types in types": "{__schema{types{fields{type{fields{type{name kind description}}}}}}}",
    "one field, as often as may be": "{" + "domains{nodes{id}} " * 280 + "}",
    "fragments that say the same": spread(150),
    "mistakes": "{" + " ".join(f"domain{n}x" for n in range(900)) + "}",
    "long names": "{" + ("d" * 1000 + " ") * 29 + "}",
    "nested": "{a" * 600,
    "lists in lists": '{domain(id:' + "[" * 900 + "]" * 900 + "){id}}",
    "a long text": '{domain(id:"' + "x" * 29_000 + '"){id}}',
    "a block of text": '{domain(id:"""' + "x \\n" * 7_000 + '"""){id}}',
    "a long comment": "#" + "x" * 29_000 + "\n{slots{used}}",
    "variables in many operations": " ".join(
        f"query Q{n}($v:ID!){{...F}}" for n in range(60)
    ) + " fragment F on Query{" + " ".join(f"a{n}:domain(id:$v){{id}}" for n in range(99)) + "}",
    "pages": "{" + " ".join(f"a{n}:domains(first:200){{nodes{{id}}}}" for n in range(5)) + "}",
    "more pages": "{" + " ".join(f"a{n}:domains(first:200){{nodes{{id}}}}" for n in range(20)) + "}",
    "pages of positions": "{"
    + " ".join(f"a{n}:positions(first:200){{nodes{{url}}}}" for n in range(5)) + "}",
    "pages of keywords": "{"
    + " ".join(f"a{n}:keywords(first:200){{nodes{{id keyword}}}}" for n in range(5)) + "}",
}  # fmt: skip


def furnished() -> Twin:
    """A twin with 1,000 keywords, which are tracked, and 200 domains."""
    twin = Twin(clock="manual", start=START, sender=Scripted(), plan="agency")

    def made(operation: str, body: dict[str, Any]) -> Any:
        reply = twin.call(Call(operation, key=twin.keys["production"], body=body))
        assert reply.body is not None
        assert "data" in reply.body, reply.body
        return reply.body["data"]

    twin.administer("waive", limits=["rate", "quota", "slots", "cost_ceiling", "cooldown"])
    for number in range(200):
        domain = made("domains.create", {"host": f"{number}.example.com"})["id"]
    words = made("keyword_lists.create", {"domain_id": domain, "name": "all"})["id"]
    for number in range(10):
        made("keywords.create", {"list_id": words, "keywords": [f"k {number} {n}" for n in range(100)]})
    return twin


def in_a_loop(story: Callable[[Twin, Any], Any], twin: Twin | None = None) -> Any:
    """Run a story against a served twin."""

    twin = twin or Twin(clock="manual", start=START, sender=Scripted())

    async def told() -> Any:
        listener = await Listener(Facade(twin)).open()
        try:
            async with httpx.AsyncClient(base_url=listener.url, timeout=60, trust_env=False) as client:
                return await story(twin, client)
        finally:
            await listener.close()
            await twin.close()

    return asyncio.run(told())


async def post(client: Any, query: str, key: str = "", **more: Any) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return await client.post("/graphql", json={"query": query, **more}, headers=headers)


@pytest.mark.parametrize("name", LARGEST)
def test_without_a_key_nothing_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("was read")

    for what in ("parse", "validate", "execute_sync", "parse_json"):
        monkeypatch.setattr(graphql, what, never)

    async def story(twin: Twin, client: Any) -> None:
        for key in ("", "no"):
            answer = await post(client, LARGEST[name], key)
            assert answer.status_code == 401
            assert answer.json()["errors"][0]["extensions"]["code"] == "unauthorized"

    in_a_loop(story)


def test_what_the_rate_limit_would_refuse_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(twin: Twin, client: Any) -> None:
        key = twin.keys["production"]
        for _ in range(600):
            assert (await post(client, "{slots{used}}", key)).status_code == 200
        monkeypatch.setattr(graphql, "validate", None)
        answer = await post(client, LARGEST["introspection"] + " ", key)
        assert (answer.status_code, answer.headers["RateLimit-Limit"]) == (429, "600")
        for _ in range(120):
            assert (await post(client, "{", key)).status_code == 400
        monkeypatch.setattr(graphql, "parse", None)
        answer = await post(client, "mutation{deleteLabel(id:1){id}}", key)
        assert (answer.status_code, answer.headers["RateLimit-Limit"]) == (429, "120")

    in_a_loop(story)


@pytest.mark.fact("U112")
@pytest.mark.parametrize("query", ["{", "{nothing}", *D1.values()])
def test_what_is_refused_unexecuted_costs_a_unit_of_the_write_class(query: str) -> None:
    async def story(twin: Twin, client: Any) -> None:
        answer = await post(client, query, twin.keys["production"])
        assert answer.status_code in (400, 422)
        assert (answer.headers["RateLimit-Limit"], answer.headers["RateLimit-Remaining"]) == ("120", "119")

    in_a_loop(story)


def test_a_stranger_is_read_only_when_asking_for_event_types(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(twin: Twin, client: Any) -> None:
        assert (await post(client, "{webhookEvents{type}}")).status_code == 200
        assert (await post(client, "{webhookEvents{type} slots{used}}")).status_code == 401
        monkeypatch.setattr(graphql, "parse", None)
        assert (await post(client, "{webhookEvents{type}}" + " " * 2_000)).status_code == 401

    in_a_loop(story)


@pytest.mark.fact("U111")
@pytest.mark.parametrize(
    ("limit", "fits", "does_not", "status", "says"),
    [
        ({"characters": 15}, "{slots{used }}", "{slots{used   }}", 422, "16 characters, more than 15"),
        ({"tokens": 6}, "{slots{used}}", "{slots{used month}}", 400, "tokens"),
        ({"depth": 2}, "{slots{used}}", "{domains{nodes{id}}}", 422, "deeper than 2"),
        ({"root_fields": 1}, "{slots{used}}", "{a:slots{used} b:slots{used}}", 422, "More than 1 root"),
        ({"aliases": 1}, "{a:slots{used}}", "{a:slots{b:used}}", 422, "2 aliases, more than 1"),
        (
            {"aliases": 2},
            "{...A} fragment A on Query{a:slots{used}}",
            "{...A ...A ...A} fragment A on Query{a:slots{used}}",
            422,
            "3 aliases",
        ),
        ({"fields_selected": 2}, "{slots{used}}", "{slots{used limit}}", 422, "3 fields, more than 2"),
        ({"values": 100}, "{jobs(first:50){nodes{id}}}", "{jobs(first:51){nodes{id}}}", 422, "102 values"),
        ({"items": 50}, "{jobs(first:50){nodes{id}}}", "{jobs{nodes{id}} slots{used}}", 422, "51 items"),
        ({"values": 200}, "{__schema{queryType{name}}}", "{__schema{types{name kind}}}", 422, "schema"),
    ],
)  # fmt: skip
def test_each_limit_is_of_the_policy(
    limit: dict[str, int], fits: str, does_not: str, status: int, says: str
) -> None:
    async def story() -> None:
        policy = Policy().replace(assumptions={"graphql_limits": limit})
        twin = Twin(policy, clock="manual", start=START, sender=Scripted())
        listener = await Listener(Facade(twin)).open()
        async with httpx.AsyncClient(base_url=listener.url, trust_env=False) as client:
            good = await post(client, fits, twin.keys["production"])
            assert good.status_code == 200, good.text
            refused = await post(client, does_not, twin.keys["production"])
            [error] = refused.json()["errors"]
            assert (refused.status_code, error["extensions"]["status"]) == (status, status)
            assert says in error["message"]
        await listener.close()
        await twin.close()

    asyncio.run(story())


@pytest.mark.parametrize("field", ["types", "queryType", "directives", "inputFields", "ofType"])
def test_a_field_that_a_part_of_the_schema_has_not_is_measured_all_the_same(field: str) -> None:
    """What is wrong with it is said when the document is validated."""
    document = core.parse(f"{{__schema{{types{{{field}{{name}}}}}}}}")
    assert isinstance(measured(document, Policy().assumptions.graphql_limits, SCHEMA), int)


def test_what_is_asked_of_the_schema_is_counted_as_it_is_answered() -> None:
    def told(value: Any) -> int:
        if isinstance(value, dict):
            return sum(1 + told(inner) for inner in value.values())
        return sum(map(told, value)) if isinstance(value, list) else 0

    for query in (
        core.get_introspection_query(),
        "{__schema{types{fields{name type{name ofType{name fields{name}}}}}}}",
        "{__schema{...S}} fragment S on __Schema{mutationType{fields{args{name}}}}",
    ):
        document = core.parse(query)
        answered = told(core.execute_sync(SCHEMA, document).data) - 1  # the root field itself
        part = next(one for one in document.definitions if isinstance(one, core.OperationDefinitionNode))
        counted = introspected(part.selection_set, fragments_of(document), SCHEMA)
        assert answered <= counted <= 1.2 * answered + 10


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("{a:slots{used} a:slots{limit}}", None),
        ("{a:slots{used} a:usage{id}}", "'slots' and 'usage' are different fields"),
        ("{domain(id:1){id} domain(id:1){host}}", None),
        ("{domain(id:1){id} domain(id:2){host}}", "differing arguments"),
        ("{domain(id:1){id} ...F} fragment F on Query{domain(id:2){host}}", "differing arguments"),
        (
            "{domain(id:1){a:id} ...F} fragment F on Query{domain(id:1){...G}} fragment G on Domain{a:host}",
            "'id' and 'host'",
        ),
        ("query A{domain(id:1){id}} query B{domain(id:2){id}}", None),
        ("{domains(first:1,after:null){nodes{id}} domains(after:null,first:1){nodes{host}}}", None),
    ],
)  # fmt: skip
def test_fields_of_one_name_must_say_the_same(query: str, says: str | None) -> None:
    document = core.parse(query)
    found = conflict(document)
    assert (found is None) == (says is None)
    assert found is None or says is None or says in found.message
    theirs = core.validate(SCHEMA, document, [core.OverlappingFieldsCanBeMergedRule])
    assert (not theirs) == (found is None)
