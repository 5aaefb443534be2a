"""Servers to compare under load, each in a process of its own: `python facade_servers.py NAME`.

All run on uvicorn with uvloop and httptools, and print the port, the key and an id that POST needs. `bare`
is the least program that could do it: a plain ASGI handler that checks the key, validates what comes and what
goes with TypeAdapter, and sends the same bytes, without any rule or state. `facade` is the whole deployment.
Those of `STEPS` do more and more of what the facade does, so that the difference of two is what a step costs.
At /cpu each tells how much processor time it has used.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import Any

import uvicorn
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Call, Reply
from ranksim.twin.facade.app import MIB, Facade
from ranksim.twin.facade.http.requests import payload_of, read_request, write_headers
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.server import spare_the_collector
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.listener import bind_socket
from ranksim.twin.serving.uvicorn_config import configured

RATES = {"read": 10**9, "write": 10**9, "expensive": 10**9}

PLAN: dict[str, Any] = {
    "price": "0 USD",
    "capabilities": ("rank_tracking", "keyword_briefs"),
    "quotas": {"briefs": {"limit": 10**9, "period": "week", "consumed_by": ("keyword_briefs",)}},
    "slot_limit": 10**9,
    "dimensions": {"max_engine_devices": 9, "max_geographies": 9},
    "cost_ceiling": "1000000 USD",
    "cooldowns": {"rank_run": "1h", "crawl": "1d", "site_optimization": "1d", "ai_scan": "0s"},
    "page_cap": 1000,
    "call_cap": 1000,
}
"""A plan on which nothing runs out, so that every POST passes all six checks and is booked."""


def furnished() -> tuple[Twin, str]:
    """A twin with 50 keywords, and the id of their domain."""
    policy = Policy().replace(facts={"rates": RATES}, catalogue={"plans": {"wide": PLAN}})
    twin = Twin(policy, clock="real", sender=Scripted(), plan="wide")

    def made(operation: str, body: dict[str, Any]) -> Any:
        reply = twin.call(Call(operation, key=twin.keys["production"], body=body))
        assert reply.body is not None
        return reply.body["data"]

    domain = made("domains.create", {"host": "www.example.com"})["id"]
    words = made("keyword_lists.create", {"domain_id": domain, "name": "all"})["id"]
    made("keywords.create", {"list_id": words, "keywords": [f"running shoes {n}" for n in range(50)]})
    return twin, domain


class Word(TypedDict):
    """An item of the collection."""

    id: str
    keyword: str
    list_id: str
    domain_id: str
    label_ids: list[str]
    created_at: str


class Page(TypedDict):
    """The collection."""

    data: list[Word]
    has_more: bool
    next_cursor: str | None


class Wanted(TypedDict):
    """The body of the POST."""

    domain_id: str
    keywords: list[str]


def examples(twin: Twin, domain: str) -> tuple[Any, Any]:
    """Return the bodies that answer the two requests: a page, and a brief."""
    key = twin.keys["production"]
    page = twin.call(Call("keywords.list", key=key)).body
    brief = Call("keyword_briefs.create", key=key, body={"domain_id": domain, "keywords": ["a"]})
    one = twin.call(brief).body
    assert page is not None
    assert one is not None
    return page, one


def bare(twin: Twin, domain: str) -> Any:
    """Return the least program that answers these two requests."""
    page, one = examples(twin, domain)
    pages, wanted, anything = TypeAdapter(Page), TypeAdapter(Wanted), TypeAdapter(dict[str, Any])
    sent = b"Bearer " + twin.keys["production"].encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        assert headers[b"authorization"] == sent
        status = 200
        if scope["method"] == "POST":
            message = await receive()
            wanted.validate_json(message["body"])
            status, body = 201, anything.dump_json(one)
        else:
            body = pages.dump_json(pages.validate_python(page))
        answered = [
            (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)),
            (b"x-request-id", b"req_000000000001"), (b"ratelimit-limit", b"600"),
            (b"ratelimit-remaining", b"599"), (b"ratelimit-reset", b"60"),
        ]  # fmt: skip
        await send({"type": "http.response.start", "status": status, "headers": answered})
        await send({"type": "http.response.body", "body": body})

    return app


STEPS = ("http", "read", "service", "json", "answer", "facade")
"""Servers that do more and more: HTTP alone; the request is read; the service asked; its answer made JSON;
headers and counts; all, which is the journal of requests besides."""


def up_to(last: str, twin: Twin, domain: str) -> Any:
    """Return an app that does the steps of the facade up to one, and sends bytes that stand ready."""
    page, one = examples(twin, domain)
    reply = twin.call(Call("account.get", key=twin.keys["production"]))
    headers = write_headers({"Date": "Wed, 04 Mar 2026 10:00:00 GMT", **reply.headers}, None)
    ready = {"GET": (200, payload_of(Reply(200, page))), "POST": (201, payload_of(Reply(201, one)))}
    steps = STEPS.index(last)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        status, body = ready[scope["method"]]
        if steps >= 1:
            path = scope["raw_path"].decode("latin-1").removeprefix("/v1/")
            request = await read_request(scope, receive, path, "production", most=MIB)
            if steps >= 2:
                reply = twin.call(request.call)
                if steps >= 3:
                    body = payload_of(reply)
        await scope["ranksim.respond"](status, [*headers, (b"content-length", b"%d" % len(body))], body)

    return app


def served(name: str, twin: Twin, domain: str) -> Any:
    """Return the app of a name."""
    if name == "bare":
        return bare(twin, domain)
    if STEPS.index(name) < STEPS.index("answer"):
        return up_to(name, twin, domain)
    app = Facade(twin)
    if name == "answer":
        twin.requests = None
    else:
        asyncio.run(remember(app, twin))
    return app


async def remember(app: Any, twin: Twin) -> None:
    """Fill the journal of requests: a journal that still grows asks the system for memory."""
    headers = [(b"authorization", b"Bearer " + twin.keys["production"].encode()), (b"accept", b"*/*")]
    scope = {
        "type": "http", "method": "GET", "path": "/v1/keywords", "raw_path": b"/v1/keywords",
        "query_string": b"", "headers": headers,
    }  # fmt: skip

    async def send(_: Any) -> None:
        """Drop what would be sent."""

    assert twin.requests is not None
    while not twin.requests.forgotten:
        await app(
            {**scope, "headers": [(name, bytes(bytearray(text))) for name, text in headers]}, None, send
        )


def measured(app: Any) -> Any:
    """Add /cpu, in ns of processor time."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/cpu":
            body = b"%d" % time.process_time_ns()
            headers = [(b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        else:
            await app(scope, receive, send)

    return serve


def main() -> None:
    """Serve until killed."""
    twin, domain = furnished()
    app = measured(served(sys.argv[1], twin, domain))
    spare_the_collector()
    if sys.argv[1] == "bare":
        config = uvicorn.Config(
            app, interface="asgi3", log_config=None, access_log=False, lifespan="off", ws="none",
            server_header=False, date_header=False, loop="uvloop", http="httptools",
        )  # fmt: skip
    else:
        config = configured(app, lifespan="off", loop="uvloop")
    listener: socket.socket = bind_socket("127.0.0.1", 0)
    listener.listen()
    print(listener.getsockname()[1], twin.keys["production"], domain, flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
