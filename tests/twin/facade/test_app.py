"""The HTTP surface over real sockets: what every response carries, whatever it is."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from ranksim.core.clock import DAY, MINUTE, SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.twin.facade import app as surface
from ranksim.twin.facade.answering import Deprecation, Dropped
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.faults import InjectedFault
from ranksim.twin.facade.request_journal import RecordedExchange, split_headers
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.listener import Listener

START = instant("2026-03-04T10:00:00Z")

RATE_HEADERS = ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset")

JSON = "application/json"


def make(**options: Any) -> Twin:
    return Twin(**{"clock": "manual", "start": START, "sender": Scripted()} | options)


@asynccontextmanager
async def serving(twin: Twin, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a twin behind a socket, which sends the production key unless told otherwise."""
    listener = await Listener(Facade(twin, **options)).open()
    headers = {"authorization": f"Bearer {twin.keys['production']}"}
    try:
        async with httpx.AsyncClient(base_url=listener.url, headers=headers, timeout=600) as client:
            yield client
    finally:
        await listener.close()
        await twin.close()


@asynccontextmanager
async def direct(twin: Twin, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The same without a socket."""
    transport = httpx.ASGITransport(Facade(twin, **options))
    headers = {"authorization": f"Bearer {twin.keys['production']}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://twin", headers=headers) as client:
        yield client


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


def broken(*_: object) -> None:
    raise ZeroDivisionError


# What every response carries

Rows = list[tuple[str, str, str, dict[str, Any]]]

ROWS: Rows = [
    ("200", "GET", "/v1/domains", {}),
    ("201", "POST", "/v1/domains", {"json": {"host": "a.example"}}),
    ("204", "OPTIONS", "/v1/domains", {"headers": {"authorization": ""}}),
    ("204", "OPTIONS", "/anything", {"headers": {"authorization": ""}}),
    ("200", "GET", "/v1/webhook-events", {"headers": {"authorization": ""}}),
    ("200", "HEAD", "/v1/domains", {}),
    ("400", "POST", "/v1/domains", {"content": b"{", "headers": {"content-type": JSON}}),
    ("400", "GET", "/v1/domains?cursor=x", {}),
    ("401", "GET", "/v1/domains", {"headers": {"authorization": ""}}),
    ("401", "GET", "/v1/domains", {"headers": {"authorization": "Bearer nonsense"}}),
    ("401", "GET", "/sandbox/v1/domains", {}),
    ("401", "GET", "/", {"headers": {"authorization": ""}}),
    ("404", "GET", "/", {}),
    ("404", "GET", "/v1", {}),
    ("404", "GET", "/v1/", {}),
    ("404", "GET", "/v1/nothing", {}),
    ("404", "GET", "/v1/domains/dom_9", {}),
    ("404", "GET", "/v2/domains", {}),
    ("404", "POST", "/v1/nothing", {"content": b"{"}),
    ("405", "PUT", "/v1/domains", {"json": {}}),
    ("405", "DELETE", "/v1/domains", {}),
    ("405", "GET", "/graphql", {}),
    ("409", "POST", "/v1/webhooks/{disabled}/test", {}),
    ("413", "POST", "/v1/domains", {"content": b" " * 2_000_000, "headers": {"content-type": JSON}}),
    ("413", "POST", "/graphql", {"content": b" " * 2_000_000, "headers": {"content-type": JSON}}),
    ("415", "POST", "/v1/domains", {"content": b"{}", "headers": {"content-type": "text/plain"}}),
    ("415", "POST", "/graphql", {"content": b"{}", "headers": {"content-type": "text/plain"}}),
    ("422", "POST", "/v1/domains", {"json": {}}),
    ("422", "GET", "/v1/domains?limit=0", {}),
    ("500", "GET", "/v1/keywords", {}),
]


@pytest.mark.fact("S1", "S73", "S94", "S96", "S105", "S107", "E36", "U80", "U86")
@pytest.mark.parametrize("serve", [serving, direct])
def test_every_response_has_its_headers_and_every_error_a_complete_body(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        twin = make()
        async with serve(twin) as client:
            hook = await client.post("/v1/webhooks", json={"url": "https://a.example", "enabled": False})
            disabled = hook.json()["data"]["id"]
            handle = twin.call
            for status, method, path, sent in ROWS:
                monkeypatch.setattr(
                    twin, "call", lambda call: handle(call) if call.operation != "keywords.list" or call.fault
                    else broken()
                )  # fmt: skip
                response = await client.request(method, path.format(disabled=disabled), **sent)
                where = f"{method} {path}"
                assert str(response.status_code) == status, f"{where}: {response.text}"
                check(where, response)

    run(story)
    assert "ZeroDivisionError" in caplog.text


def check(where: str, response: httpx.Response) -> None:
    headers = response.headers
    assert headers["x-request-id"], where
    assert all(headers[name].isdigit() for name in RATE_HEADERS), where
    assert headers["access-control-allow-origin"] == "*", where
    assert headers["date"] == "Wed, 04 Mar 2026 10:00:00 GMT", where
    if response.status_code < 400:
        return
    body = response.json()
    if "graphql" in where:
        (error,) = body["errors"]
        body = error["extensions"]
    else:
        assert headers["content-type"] == "application/problem+json", where
    assert list(body) == [
        "type", "title", "status", "code", "detail", "remedy", "meta", "request_id", "documentation_url",
    ]  # fmt: skip
    assert body["status"] == response.status_code, where
    assert body["request_id"] == headers["x-request-id"], where
    assert body["detail"], where


@pytest.mark.fact("S100", "S105", "U7")
def test_a_429_too() -> None:
    async def story() -> None:
        async with serving(make(policy=Policy().replace(facts={"rates": {"read": 1}}))) as client:
            assert (await client.get("/v1/domains")).status_code == 200
            response = await client.get("/v1/domains")
            assert response.status_code == 429
            check("429", response)
            assert response.headers["retry-after"] == "60"
            keyless = {"authorization": ""}
            assert (await client.options("/v1/domains", headers=keyless)).status_code == 204
            response = await client.get("/v1/domains", headers=keyless)
            assert response.status_code == 429
            check("429 without a key", response)

    run(story)


@pytest.mark.fact("S107", "S96")
def test_a_request_id_that_is_sent_is_used() -> None:
    async def story() -> None:
        async with serving(make()) as client:
            response = await client.get("/v1/nothing", headers={"x-request-id": "mine 1"})
            assert response.headers["x-request-id"] == response.json()["request_id"] == "mine 1"

    run(story)


# Environments and surfaces


@pytest.mark.fact("S1", "S2", "S3", "E48")
def test_each_environment_takes_its_own_keys_only() -> None:
    async def story() -> None:
        twin = make()
        async with direct(twin) as client:
            for environment, base in (("production", "/v1"), ("sandbox", "/sandbox/v1")):
                for whose, token in twin.keys.items():
                    sent = {"authorization": f"Bearer {token}"}
                    got = await client.get(f"{base}/account", headers=sent)
                    assert got.status_code == (200 if whose == environment else 401)

    run(story)


@pytest.mark.fact("S8", "S9", "S30", "S16", "S44")
def test_a_walk_through_the_api() -> None:
    async def story() -> None:
        twin = make()
        async with serving(twin) as client:
            ids = []
            for name in "abc":
                made = await client.post("/v1/domains", json={"host": f"{name}.example"})
                ids.append(made.json()["data"]["id"])
            page = (await client.get("/v1/domains", params={"limit": 2})).json()
            assert [one["id"] for one in page["data"]] == ids[:2]
            rest = (await client.get("/v1/domains", params={"cursor": page["next_cursor"]})).json()
            assert ([one["id"] for one in rest["data"]], rest["has_more"]) == (ids[2:], False)
            made = await client.post("/v1/jobs", json={"kind": "crawl", "domain_id": ids[0]})
            assert made.status_code == 202
            await twin.advance(by=DAY)
            job = made.json()["data"]["id"]
            shown = (await client.get(f"/v1/jobs/crawl/{job}")).json()["data"]
            assert (shown["status"], shown["progress"]) == ("done", 100)
            gone = await client.delete(f"/v1/domains/{ids[2]}")
            assert (gone.status_code, gone.content) == (204, b"")
            assert "content-length" not in gone.headers
            assert (await client.patch(f"/v1/domains/{ids[1]}", json={"label": "x"})).json()["data"][
                "label"
            ] == "x"

    run(story)


def test_head_is_get_without_a_body() -> None:
    async def story() -> None:
        for serve in (serving, direct):
            async with serve(make()) as client:
                got, head = await client.get("/v1/domains"), await client.head("/v1/domains")
                assert head.content == b""
                assert (
                    head.headers["content-length"] == got.headers["content-length"] == str(len(got.content))
                )

    run(story)


@pytest.mark.parametrize(
    ("path", "allow"),
    [("/v1/domains", "GET, HEAD, OPTIONS, POST"), ("/v1/webhooks/x/test", "OPTIONS, POST"),
     ("/graphql", "OPTIONS, POST"), ("/nothing", "GET, HEAD, POST, PATCH, DELETE, OPTIONS")],
)  # fmt: skip
@pytest.mark.fact("S73", "U80")
def test_a_preflight_needs_no_key_and_says_what_is_allowed(path: str, allow: str) -> None:
    async def story() -> None:
        async with direct(make()) as client:
            sent = {
                "authorization": "",
                "origin": "https://app.example",
                "access-control-request-method": "POST",
            }
            response = await client.options(path, headers=sent)
            assert response.status_code == 204
            assert response.headers["allow"] == response.headers["access-control-allow-methods"] == allow
            assert "Idempotency-Key" in response.headers["access-control-allow-headers"]

    run(story)


def test_a_405_says_what_is_allowed() -> None:
    async def story() -> None:
        async with direct(make()) as client:
            assert (await client.put("/v1/slots")).headers["allow"] == "GET, HEAD, OPTIONS"
            assert (await client.get("/graphql")).headers["allow"] == "OPTIONS, POST"

    run(story)


def test_details_of_faults_are_told() -> None:
    async def story() -> None:
        async with direct(make(), max_body=10) as client:
            sent = {"content-type": JSON}
            wrong = await client.post("/v1/domains", content=b"{]", headers=sent)
            assert (
                wrong.json()["detail"]
                == "The body is not JSON in UTF-8: key must be a string at line 1 column 2."
            )
            wrong = await client.post("/v1/domains", content=b"x" * 11, headers=sent)
            assert wrong.json()["detail"] == "The body is larger than 10 bytes."
            stranger = await client.get("/v1/domains?hots=a", headers={"authorization": ""})
            assert stranger.json()["code"] == "unauthorized"
            assert "hots" not in stranger.text

    run(story)


@pytest.mark.fact("U100", "U24")
def test_a_typo_in_a_query_is_refused_unless_that_was_not_wanted() -> None:
    async def story() -> None:
        async with direct(make()) as client:
            wrong = await client.get("/v1/keywords?domain=a")
            said = wrong.json()
            assert (wrong.status_code, said["code"]) == (422, "validation_failed")
            assert said["detail"] == (
                "The query parameter 'domain' is unknown; did you mean 'domain_id'? keywords.list takes: "
                "limit, cursor, domain_id, list_id, label_id, keyword. The service is assumed to ignore it "
                "(U100); --no-strict-query, or strict_query=False in a test, does so too."
            )
            expected = "a parameter among: limit, cursor, domain_id, list_id, label_id, keyword"
            assert said["meta"] == {"errors": [{"field": "domain", "expected": expected}]}
            unmade = await client.post("/v1/domains?hots=a", json={"host": "a.example"})
            assert unmade.json()["meta"]["errors"][0]["field"] == "hots"
            assert (await client.get("/v1/domains")).json()["data"] == []
        async with direct(make(), strict_query=False) as client:
            assert (await client.get("/v1/keywords?domain=a")).status_code == 200

    run(story)


@pytest.mark.fact("U84", "U24")
def test_a_typo_in_a_body_starts_nothing_unless_that_was_wanted() -> None:
    async def story() -> None:
        async with direct(make()) as client:
            domain = (await client.post("/v1/domains", json={"host": "a.example"})).json()["data"]["id"]
            wrong = {"kind": "crawl", "domain_id": domain, "dryRun": True}
            paid = await client.post("/v1/jobs", json=wrong)
            assert (paid.status_code, paid.json()["code"]) == (422, "validation_failed")
            assert paid.json()["meta"]["errors"] == [
                {"field": "dryRun", "expected": "a field among: kind, domain_id, dry_run"}
            ]
            assert (await client.get("/v1/jobs")).json()["data"] == []
        async with direct(make(), strict_body=False) as client:
            domain = (await client.post("/v1/domains", json={"host": "a.example"})).json()["data"]["id"]
            assert (await client.post("/v1/jobs", json=wrong | {"domain_id": domain})).status_code == 202

    run(story)


@pytest.mark.fact("U83", "U112")
def test_a_typo_in_a_variable_starts_nothing_unless_that_was_wanted() -> None:
    document = (
        "mutation Begin($domain: ID!, $dry: Boolean) "
        "{ createJob(input: {kind: CRAWL, domainId: $domain, dryRun: $dry}) { job { id } } }"
    )

    async def story() -> None:
        for strict, made in ((True, 0), (False, 1)):
            async with direct(make(), strict_body=strict) as client:
                domain = (await client.post("/v1/domains", json={"host": "a.example"})).json()["data"]["id"]
                wanted = {"query": document, "variables": {"domain": domain, "dri": True}}
                answer = await client.post("/graphql", json=wanted)
                assert answer.status_code == (422 if strict else 200)
                if strict:
                    (error,) = answer.json()["errors"]
                    assert error["extensions"]["code"] == "validation_failed"
                    assert error["message"].startswith(
                        "The variable 'dri' is not declared; did you mean 'dry'? the document declares: "
                    )
                assert len((await client.get("/v1/jobs")).json()["data"]) == made
                right = wanted | {"variables": {"domain": domain, "dry": True}}
                assert (await client.post("/graphql", json=right)).status_code == 200

    run(story)


@pytest.mark.fact("U83")
def test_whoever_gets_graphql_is_told_that_it_is_posted() -> None:
    async def story() -> None:
        async with direct(make()) as client:
            refused = await client.get("/graphql?query={__typename}")
            assert (refused.status_code, refused.headers["allow"]) == (405, "OPTIONS, POST")
            said = refused.json()["errors"][0]
            assert said["message"] == said["extensions"]["detail"]
            assert said["message"].startswith("GraphQL is POST only: ")

    run(story)


@pytest.mark.fact("U83")
def test_the_query_of_a_graphql_request_is_not_looked_at() -> None:
    async def story() -> None:
        async with direct(make()) as client:
            body = {"query": "{ slots { used } }"}
            assert (await client.post("/graphql?_=1718&x=", json=body)).json() == {
                "data": {"slots": {"used": 0}}
            }
            assert (await client.get("/graphql?query=%7Bslots%7Bused%7D%7D&_=1718")).status_code == 405
            assert (await client.options("/graphql?_=1718")).status_code == 204

    run(story)


@pytest.mark.fact("S4", "U83")
def test_graphql_shares_the_surface() -> None:
    async def story() -> None:
        twin = make()
        async with serving(twin) as client:
            query = {"query": "{ domains { edges { node { host } } } }"}
            response = await client.post("/graphql", json=query)
            assert (response.status_code, response.json()) == (200, {"data": {"domains": {"edges": []}}})
            check("graphql", response)
            assert response.headers["ratelimit-remaining"] == "599"
            assert (await client.post("/sandbox/graphql", json=query)).status_code == 401
            sandbox = {"authorization": f"Bearer {twin.keys['sandbox']}"}
            assert (await client.post("/sandbox/graphql", json=query, headers=sandbox)).status_code == 200

    run(story)


# Idempotency


@pytest.mark.fact("S28", "S47", "S48", "U31", "U92")
def test_a_repeated_key_is_replayed_once_the_first_reply_was_written() -> None:
    async def story() -> None:
        async with serving(make()) as client:
            sent = {"idempotency-key": "one"}
            first = await client.post("/v1/domains", json={"host": "a.example"}, headers=sent)
            again = await client.post("/v1/domains", json={"host": "a.example"}, headers=sent)
            other = await client.post("/v1/domains", json={"host": "b.example"}, headers=sent)
            assert (first.status_code, again.status_code, other.status_code) == (201, 201, 422)
            assert again.content == first.content
            assert again.headers["idempotent-replayed"] == "true"
            assert len((await client.get("/v1/domains")).json()["data"]) == 1

    run(story)


def test_a_reply_that_cannot_be_written_ends_its_flight_too() -> None:
    async def story() -> None:
        twin = make()
        app = Facade(twin)
        scope = {
            "type": "http", "method": "POST", "path": "/v1/domains", "raw_path": b"/v1/domains",
            "query_string": b"", "client": None,
            "headers": [
                (b"authorization", f"Bearer {twin.keys['production']}".encode()),
                (b"content-type", b"application/json"), (b"idempotency-key", b"one"),
            ],
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b'{"host":"a.example"}'}

        async def send(message: Any) -> None:
            raise ConnectionResetError

        with pytest.raises(ConnectionResetError):
            await app(scope, receive, send)
        (stored,) = twin.service.state.stored.values()
        assert not stored.in_flight

    run(story)


# Deprecation


@pytest.mark.fact("S114", "U81")
def test_a_deprecated_v1_says_so_and_v2_is_there() -> None:
    async def story() -> None:
        since, sunset = instant("2026-06-01T00:00:00Z"), instant("2027-06-01T00:00:00Z")
        async with serving(make(), deprecation=Deprecation(since, sunset)) as client:
            for path in ("/v1/domains", "/v1/nothing", "/sandbox/v1/domains"):
                old = await client.get(path)
                assert old.headers["deprecation"] == f"@{since // SECOND}"
                assert old.headers["sunset"] == "Tue, 01 Jun 2027 00:00:00 GMT"
            new = await client.get("/v2/domains")
            assert (new.status_code, "deprecation" in new.headers) == (200, False)
            assert (await client.get("/sandbox/v2/domains")).status_code == 401

    run(story)


@pytest.mark.fact("U81")
def test_nothing_is_deprecated_by_default() -> None:
    async def story() -> None:
        async with direct(make()) as client:
            headers = (await client.get("/v1/domains")).headers
            assert not {"deprecation", "sunset"} & set(headers)

    run(story)


# Around the service


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/livez", "text/plain"), ("/readyz", "text/plain"), ("/openapi.json", JSON), ("/docs", "text/html"),
     ("/schema.graphql", "text/plain")],
)  # fmt: skip
def test_what_describes_the_service_needs_no_key(path: str, kind: str) -> None:
    async def story() -> None:
        async with direct(make()) as client:
            response = await client.get(path, headers={"authorization": ""})
            assert response.status_code == 200
            assert response.headers["content-type"].startswith(kind)
            assert response.content

    run(story)


def test_documents_can_be_left_out() -> None:
    async def story() -> None:
        async with direct(make(), docs=False) as client:
            for path in ("/openapi.json", "/docs", "/schema.graphql"):
                assert (await client.get(path)).status_code == 404

    run(story)


def test_the_control_api_can_want_a_token() -> None:
    async def story() -> None:
        async with direct(make(), token="secret") as client:
            for sent in ({}, {"authorization": ""}, {"authorization": "Bearer secre"}):
                assert (await client.get("/_ranksim/clock", headers=sent)).status_code == 401
            good = {"authorization": "Bearer secret"}
            assert (await client.get("/_ranksim/clock", headers=good)).status_code != 401

    run(story)


def test_the_server_starts_and_stops_the_twin() -> None:
    async def story() -> None:
        twin = make(clock="scaled:100000000")
        app = Facade(twin)
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        key = twin.keys["production"]
        domain = twin.call(surface.Call("domains.create", key=key, body={"host": "a.example"})).body["data"][
            "id"
        ]
        twin.call(surface.Call("jobs.create", key=key, body={"kind": "crawl", "domain_id": domain}))
        running = asyncio.ensure_future(app({"type": "lifespan"}, inbox.get, outbox.put))
        inbox.put_nowait({"type": "lifespan.startup"})
        assert await outbox.get() == {"type": "lifespan.startup.complete"}
        while "job.done" not in [one.what for one in twin.event_log]:
            await twin.event_log.wait(twin.event_log.last)
        inbox.put_nowait({"type": "lifespan.shutdown"})
        assert await outbox.get() == {"type": "lifespan.shutdown.complete"}
        await running

    run(story)


# Hooks


class Faults:
    def __init__(self, fault: InjectedFault) -> None:
        self.fault = fault
        self.seen: list[str] = []

    def pick(self, call: Any, path: str, now: int, key: str | None) -> InjectedFault | None:
        self.seen.append(call.operation)
        return self.fault if call.operation == "domains.create" else None


@pytest.mark.parametrize(
    ("fault", "effect"),
    [(InjectedFault(drop="before"), 0), (InjectedFault(drop="after"), 1), (InjectedFault(fails=True), 0)],
)
def test_faults_break_requests_before_or_after_their_effect(fault: InjectedFault, effect: int) -> None:
    async def story() -> None:
        twin = make()
        async with serving(twin) as client:
            twin.faults = Faults(fault)
            if fault.fails:
                response = await client.post("/v1/domains", json={"host": "a.example"})
                assert response.status_code == 500
                check("a fault", response)
            else:
                with pytest.raises(httpx.TransportError):
                    await client.post("/v1/domains", json={"host": "a.example"})
            assert len((await client.get("/v1/domains")).json()["data"]) == effect
            assert twin.faults.seen == ["domains.create", "domains.list"]

    run(story)


def test_without_a_socket_a_drop_is_an_exception() -> None:
    async def story() -> None:
        twin = make()
        async with direct(twin) as client:
            twin.faults = Faults(InjectedFault(drop="before"))
            with pytest.raises(Dropped):
                await client.post("/v1/domains", json={})

    run(story)


def test_the_journal_hears_of_every_exchange_and_a_reply_waits_until_it_is_kept() -> None:
    async def story() -> None:
        twin, order = make(), []

        class Journal:
            last = 0

            def record(self, exchange: RecordedExchange) -> None:
                order.append(exchange)

        async def commit() -> None:
            order.append("kept")

        twin.requests, twin.commit = Journal(), commit
        async with direct(twin, strict_query=False) as client:
            await client.post("/v1/domains?x=1", json={"host": "a.example"})
            order.append("answered")
        kept, exchange, answered = order
        assert (kept, answered) == ("kept", "answered")
        assert (exchange.at, exchange.method, exchange.path, exchange.query) == (
            START,
            "POST",
            "/v1/domains",
            b"x=1",
        )
        assert (exchange.operations, exchange.account, exchange.status) == (
            ("domains.create",),
            "acc_0000000001",
            201,
        )
        assert json.loads(exchange.body) == {"host": "a.example"}
        assert json.loads(exchange.response)["data"]["host"] == "a.example"
        assert split_headers(exchange.response_headers)[b"ratelimit-limit"] == b"120"

    run(story)


def test_business_time_can_be_moved_between_two_requests() -> None:
    async def story() -> None:
        twin = make()
        async with serving(twin) as client:
            for _ in range(2):
                assert (await client.get("/v1/domains")).headers["ratelimit-remaining"] == "599"
                await twin.advance(by=MINUTE)
            await twin.advance(by=SECOND - 1)
            assert (await client.get("/v1/domains")).headers["date"] == "Wed, 04 Mar 2026 10:02:00 GMT"

    run(story)
