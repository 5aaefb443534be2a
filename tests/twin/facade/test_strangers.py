"""What strangers' clients tried in an evening, by the hundred: connections, cursors, queries, keys, names."""

import asyncio
import random
from typing import Any

import httpx
import pytest
from tests.kit.stage import LoopClock

from ranksim.core.clock import instant
from ranksim.core.service.calls import Call
from ranksim.core.surface import graphql
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving import uvicorn_protocol
from ranksim.twin.serving.listener import Listener

from .test_abuse import gone, post, run, victim
from .wire import answered, key

SEED = 1107


def furnished() -> Twin:
    """A twin with pages to walk: 7 domains, 7 keyword lists and 7 labels, and no rate limits."""
    twin = Twin(clock="manual", start=instant("2026-03-04T10:00:00Z"), sender=Scripted(), plan="agency")
    twin.administer("waive", limits=["rate", "quota", "slots"])
    made: Any = None
    for number in range(7):
        made = twin.call(Call("domains.create", twin.keys["production"], body={"host": f"{number}.example"}))
    domain = made.body["data"]["id"]
    for number in range(7):
        for noun in ("keyword_lists", "labels"):
            body = {"domain_id": domain, "name": f"{number}"}
            twin.call(Call(f"{noun}.create", twin.keys["production"], body=body))
    return twin


def test_four_hundred_slow_connections_end_in_time_and_hold_nobody_up() -> None:
    async def story() -> None:
        async with victim() as it:
            clock = LoopClock()
            heads = [
                b"GET /v1/domains HTTP/1.1\r\nHost: x\r\nX-Slow: ",
                post(it, b"/v1/domains", b"Content-Type: application/json", b"Content-Length: 999999"),
                post(it, b"/v1/domains", b"Transfer-Encoding: chunked") + b"ffff\r\n",
                b"",
            ]
            slow = [await it.open() for _ in range(400)]
            for number, (_, writer) in enumerate(slow):
                writer.write(heads[number % 4])
            began = clock.now
            while clock.now < began + uvicorn_protocol.REQUEST_SECONDS - 1:
                clock.now += 1
                for number, (_, writer) in enumerate(slow):
                    if number % 4 < 3:
                        writer.write(b"x")
                await it.check()
            assert not any(gone(reader) for reader, _ in slow)
            clock.now += 1
            for reader, _ in slow:
                ended = await asyncio.gather(reader.read(), return_exceptions=True)
                assert isinstance(ended[0], ConnectionError) or ended[0][:13] in (b"", b"HTTP/1.1 400 ")
            await it.check()

    run(story)


@pytest.mark.parametrize("noun", ["domains", "keyword_lists", "labels"])
def test_no_forged_cursor_gets_in(noun: str) -> None:
    """400 of them: changed by a character, cut, mixed, made up, of another list, of another environment."""
    twin, draw = furnished(), random.Random(SEED)
    real: dict[str, str] = {}
    for one in ("domains", "keyword_lists", "labels"):
        reply = twin.call(Call(f"{one}.list", twin.keys["production"], query={"limit": "2"}))
        assert reply.body is not None
        real[one] = reply.body["next_cursor"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    good, others = real[noun], [cursor for one, cursor in real.items() if one != noun]
    forged = [
        *others,
        "",
        " ",
        "\x00",
        "=",
        "null",
        "-1",
        "../../etc/passwd",
        "' OR 1=1 --",
        "é" * 50,
        good * 2,
    ]
    while len(forged) < 400:
        at, kind = draw.randrange(len(good)), draw.randrange(5)
        forged.append(
            [
                good[:at] + draw.choice(alphabet) + good[at + 1 :],
                good[:at],
                good[:at] + draw.choice(others)[at:],
                "".join(draw.sample(good, len(good))),
                "".join(draw.choices(alphabet, k=draw.randrange(1, 200))),
            ][kind]
        )
    for cursor in forged:
        reply = twin.call(Call(f"{noun}.list", twin.keys["production"], query={"cursor": cursor}))
        assert cursor == good or reply.code == "invalid_cursor", cursor
    reply = twin.call(Call(f"{noun}.list", twin.keys["production"], query={"cursor": good}))
    assert reply.status == 200
    elsewhere = Call(f"{noun}.list", twin.keys["sandbox"], environment="sandbox", query={"cursor": good})
    assert twin.call(elsewhere).code == "invalid_cursor"


QUERIES = [
    "limit=0", "limit=-1", "limit=1e3", "limit=99999999999999999999", "limit=%31%30%30%30", "limit=",
    "limit=٣",
    "limit=1&limit=2", "%00=1", "limit%00=1", "a[b]=c", "&&&", "=", "cursor=%ff", "domain_id=%F0%28%8C%28",
    "limit=1;drop", "__proto__=1", "?limit=1",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_odd_queries_get_an_answer(query: str) -> None:
    request = b"GET /v1/labels?%b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n" % (
        query.encode(),
        key(),
    )
    wrote, _ = asyncio.run(answered([request]))
    assert wrote[9:12] in (b"200", b"400", b"422")


def test_fifteen_hundred_keys_of_240_bytes_are_kept_apart() -> None:
    twin = furnished()
    for number in range(1_500):
        for replayed in (False, True):
            call = Call("domains.create", twin.keys["production"], body={"host": f"k{number}.example"})
            call.idempotency_key = f"{number:0240d}"
            reply = twin.call(call)
            twin.written(reply)
            assert reply.body is not None
            assert reply.body["data"]["host"] == f"k{number}.example"
            assert ("Idempotent-Replayed" in reply.headers) == replayed


SMUGGLED = b"GET /v1/account HTTP/1.1\r\nHost: x\r\nX-Request-Id: smuggled\r\n\r\n"
FRAMINGS = [
    (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    (b"Transfer-Encoding: chunked", b"Content-Length: 0"),
    (b"Transfer-Encoding: chunked, identity",),
    (b"Transfer-Encoding: xchunked",),
    (b"Transfer-Encoding: identity, chunked, identity",),
    (b"Transfer-Encoding : chunked",),
    (b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    (b" Transfer-Encoding: chunked",),
    (b"X: y\r\n Transfer-Encoding: chunked",),
    (b"Transfer-Encoding:\x0bchunked",),
    (b"Transfer-Encoding: \x00chunked",),
    (b"Content-Length: 5", b"Content-Length: 6"),
    (b"Content-Length: 5, 6",),
    (b"Content-Length: 0x5",),
    (b"Content-Length: +5",),
    (b"Content-Length: -0",),
    (b"Content-Length: 5 5",),
    (b"Content-Length: \xef\xbc\x95",),
    (b"Content-Length: 18446744073709551616",),
    (b"Content-Length:",),
    (b"Content-Length: 5\n",),
    (b"X: y\rZ: 1",),
    (b"X\x00: y",),
    (b"X y",),
    (b": y",),
]


@pytest.mark.parametrize("fields", FRAMINGS)
def test_nothing_is_smuggled_behind_what_can_be_framed_in_two_ways(fields: tuple[bytes, ...]) -> None:
    """It is refused and the connection closed, so that nothing behind it is a request."""
    head = b"\r\n".join([b"POST /v1/domains HTTP/1.1", b"Host: x", *fields]) + b"\r\n\r\n"
    wrote, closed = asyncio.run(answered([head + b"0\r\n\r\n" + SMUGGLED]))
    assert b"smuggled" not in wrote
    assert wrote.count(b"HTTP/1.1 ") == wrote.count(b"HTTP/1.1 400 ") <= 1
    assert closed


@pytest.mark.parametrize("sent", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01" + b"\0" * 500])
def test_another_protocol_is_closed(sent: bytes) -> None:
    wrote, closed = asyncio.run(answered([sent]))
    assert wrote[:13] in (b"", b"HTTP/1.1 400 ")
    assert closed


def test_documents_without_end_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphql, "MOST_KNOWN", 20)
    twin = furnished()

    async def story() -> None:
        listener = await Listener(Facade(twin)).open()
        auth = {"Authorization": f"Bearer {twin.keys['production']}"}
        async with httpx.AsyncClient(base_url=listener.url, headers=auth, trust_env=False) as client:
            for number in range(50):
                query = f"{{a{number}: slots {{used}}}}"
                assert (await client.post("/graphql", json={"query": query})).status_code == 200
        await listener.close()
        await twin.close()

    asyncio.run(story())
    assert len(graphql.KNOWN) <= graphql.MOST_KNOWN


def test_the_page_shows_nothing_that_users_wrote() -> None:
    twin = furnished()

    async def story() -> None:
        listener = await Listener(Facade(twin)).open()
        auth = {"Authorization": f"Bearer {twin.keys['production']}"}
        async with httpx.AsyncClient(base_url=listener.url, headers=auth, trust_env=False) as client:
            evil = "<script>alert('evil')</script>"
            for path in ("/v1/domains", "/sandbox/v1/domains"):
                await client.post(path, json={"host": "a.example", "path": f"/{evil}", "label": evil})
            browser = {"accept": "text/html"}
            paths = ("/docs", "/openapi.json", "/docs/control.json", "/graphql", "/docs/graphql.json")
            shown = [await client.get(path, headers=browser) for path in paths]
        for page in shown:
            assert page.status_code == 200
            assert "evil" not in page.text
            own = page.text.count('<script src="/docs/') + page.text.count('<script src="/_ranksim/token.js"')
            assert page.text.count("<script") == own
        await listener.close()
        await twin.close()

    asyncio.run(story())


TRAILER = b"X-Trailer: " + b"y" * 65_000 + b"\r\n"


@pytest.mark.heavy
def test_four_hundred_megabytes_of_trailers_are_not_kept() -> None:
    from .test_memory import connect, heading, settled
    from .test_serve import serving

    with serving() as one:
        before = settled(one.process)
        for _ in range(4):
            connection = connect(one)
            connection.settimeout(60)
            sent = heading(one, "POST /v1/domains", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
            try:
                connection.sendall(sent)
                for _ in range(100 * 16):  # 100 MB
                    connection.sendall(TRAILER)
            except OSError:
                pass  # refused and closed
            connection.close()
        assert settled(one.process) <= before + 30
        assert httpx.get(one.base + "/livez", timeout=60).status_code == 200
