"""What a fake deployment costs a test: its start and stop, and the whole retry timeline of a webhook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import stripe
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ranksim.testing import Receiver, Server, World
from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.loop_thread import LoopThread

TARGETS = pytest.mark.parametrize("kind", [World, Server], ids=["world", "server"])
MOST_SECONDS = 1.0
"""Of wall time for six attempts over 8 h 36 min, in a stock framework with a stock verifier."""


@TARGETS
def test_start_and_stop(benchmark: Callable[..., Any], kind: type[World]) -> None:
    def open_and_close() -> None:
        kind().close()

    open_and_close()  # loads modules and plans
    benchmark.pedantic(open_and_close, rounds=50, iterations=1)


def test_start_and_stop_of_a_receiver(benchmark: Callable[..., Any]) -> None:
    def open_and_close() -> None:
        Receiver().start().stop()

    open_and_close()
    benchmark.pedantic(open_and_close, rounds=50, iterations=1)


@TARGETS
def test_six_attempts(benchmark: Callable[..., Any], kind: type[World]) -> None:
    def timeline(world: World, job: str) -> None:
        world.jobs.fail(job)
        world.clock.advance("8h36m")

    def prepare() -> tuple[tuple[World, str], dict[str, Any]]:
        came.clear()
        world = kind()
        worlds.append(world)
        secret = ""

        async def hook(request: Request) -> Response:
            body = (await request.body()).decode()
            stripe.WebhookSignature.verify_header(body, request.headers["Service-Signature"], secret, 300)
            came.append(request.headers["Service-Delivery-Attempt"])
            return Response(status_code=204 if len(came) == 6 else 503)

        app = Starlette(routes=[Route("/hooks", hook, methods=["POST"])])
        if kind is Server:
            receiver = Listening(app)
            worlds.append(receiver)
            secret = world.subscribe(f"{receiver.url}/hooks")["secret"]
        else:
            world.mount("https://consumer.example", app)
            secret = world.subscribe("https://consumer.example/hooks")["secret"]
        client = world.client()
        domain = client.post("/v1/domains", json={"host": "example.com"}).json()["data"]["id"]
        job = client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain}).json()["data"]["id"]
        return (world, job), {}

    came: list[str] = []
    worlds: list[Any] = []
    benchmark.pedantic(timeline, setup=prepare, rounds=5)
    for world in worlds:
        world.close()
    assert came == ["1", "2", "3", "4", "5", "6"]
    assert benchmark.stats.stats.max < MOST_SECONDS


class Listening:
    """An app on a free port, in a thread."""

    def __init__(self, app: Any) -> None:
        self.thread = LoopThread("consumer")
        self.listener = Listener(app)
        self.thread.call(self.listener.open())
        self.url = self.listener.url

    def close(self) -> None:
        self.thread.call(self.listener.close())
        self.thread.stop()
