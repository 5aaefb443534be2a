"""Servers to compare under load, each in a process of its own: `python facade_servers.py bare|facade`.

Both run on uvicorn with uvloop and httptools, and print the port, the key and an id that POST needs. `bare`
is the least program that could do it: a plain ASGI handler that checks the key, validates what comes and what
goes with TypeAdapter, and sends the same bytes, without any rule or state. At /cpu each tells how much
processor time it has used.
"""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

import uvicorn
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ranksim.contract.policy import Policy
from ranksim.facade.app import create_app
from ranksim.facade.sender import Scripted
from ranksim.facade.server import spare_the_collector
from ranksim.facade.twin import Twin
from ranksim.service.calls import Call
from ranksim.serving.listener import bound
from ranksim.serving.uvicorn_protocol import configured

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


def bare() -> tuple[Any, str, str]:
    """The least program that answers these two requests."""
    twin, domain = furnished()
    key = twin.keys["production"]
    page = twin.call(Call("keywords.list", key=key)).body
    assert page is not None
    one = twin.call(
        Call("keyword_briefs.create", key=key, body={"domain_id": domain, "keywords": ["a"]})
    ).body
    pages, wanted, anything = TypeAdapter(Page), TypeAdapter(Wanted), TypeAdapter(dict[str, Any])
    sent = b"Bearer " + key.encode()

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

    return app, key, domain


def facade() -> tuple[Any, str, str]:
    """The whole fake deployment."""
    twin, domain = furnished()
    return create_app(twin), twin.keys["production"], domain


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
    app, key, domain = {"bare": bare, "facade": facade}[sys.argv[1]]()
    app = measured(app)
    spare_the_collector()
    if sys.argv[1] == "bare":
        config = uvicorn.Config(
            app, interface="asgi3", log_config=None, access_log=False, lifespan="off", ws="none",
            server_header=False, date_header=False, loop="uvloop", http="httptools",
        )  # fmt: skip
    else:
        config = configured(app, lifespan="on", loop="uvloop")
    listener: socket.socket = bound("127.0.0.1", 0)
    listener.listen()
    print(listener.getsockname()[1], key, domain, flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
