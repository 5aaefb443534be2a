"""Whether Locust or the facade is the slower side: `python benchmarks/locust_costs.py`, a table.

32 users of one process wait for nothing but their answers, once with Locust's own client, `FastHttpUser`, and
once with the session of `ranksim check load`, which writes every call down. What counts is the processor time
that both sides take for a request, of the same requests: the one that takes more would be waited for if each
had a processor of its own. Of many slices the one with the least of both counts.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gevent
from facade_costs import CONNECTIONS, Server, running, used
from locust import FastHttpUser, task
from locust.env import Environment

from ranksim.core.callers.steps import Send
from ranksim.core.callers.target import Target, TargetKey
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.judge.load.session import Session

EACH, SLICES = 6, 25
"""How many requests a user makes in a slice, and how many slices there are."""


def of_locust(server: Server, method: str) -> Callable[[], None]:
    """Return what makes a slice of requests with users of Locust."""
    body = {"domain_id": server.domain, "keywords": ["trail shoes"]}
    headers = {"Authorization": f"Bearer {server.key}"}

    class Caller(FastHttpUser):
        host = f"http://127.0.0.1:{server.port}"

        @task
        def call(self) -> None:
            if method == "GET":
                self.client.get("/v1/keywords", headers=headers)
            else:
                self.client.post("/v1/keyword-briefs", json=body, headers=headers)

    environment = Environment(user_classes=[Caller])
    users = [Caller(environment) for _ in range(CONNECTIONS)]

    def many(user: Caller) -> None:
        for _ in range(EACH):
            user.call()

    return lambda: gevent.joinall([gevent.spawn(many, user) for user in users], raise_error=True)


def of_a_session(server: Server, method: str, folder: Path) -> Callable[[], None]:
    """Return what makes a slice of requests with sessions of `ranksim check load`."""
    keys = {"main": TargetKey(token=server.key)}
    target = Target(environments={"production": f"http://127.0.0.1:{server.port}"}, keys=keys)
    clock = AnchoredClock.here()
    recorder = PartRecorder(folder / "part.jsonl", part="1", clock=clock, salt=b"salt", tokens=[server.key])
    sessions = [Session(target, recorder) for _ in range(CONNECTIONS)]
    body = {"domain_id": server.domain, "keywords": ["trail shoes"]}
    send = Send("keywords.list") if method == "GET" else Send("keyword_briefs.create", body=body)

    def many(session: Session) -> None:
        for _ in range(EACH):
            outcome = session.perform(send)
            assert outcome.received.status in (200, 201), outcome

    return lambda: gevent.joinall([gevent.spawn(many, one) for one in sessions], raise_error=True)


def cost(server: Server, make: Callable[[], None]) -> tuple[float, float]:
    """Return what a request of a slice took here and at the server, in µs of processor time."""
    with socket.create_connection(("127.0.0.1", server.port)) as asking:
        there, here = used(asking), time.process_time_ns()
        make()
        took, at_server = time.process_time_ns() - here, used(asking) - there
    return took / (EACH * CONNECTIONS) / 1e3, at_server / (EACH * CONNECTIONS) / 1e3


def main() -> None:
    """Print the table."""
    print("| µs of processor time a request | caller | facade | the facade takes |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, running("facade") as server:
        for method in ("GET", "POST"):
            for name, make in (
                ("FastHttpUser of Locust", of_locust(server, method)),
                ("session of `ranksim check load`", of_a_session(server, method, Path(folder))),
            ):
                make()
                here, there = min((cost(server, make) for _ in range(SLICES)), key=sum)
                print(f"| {method}, {name} | {here:.0f} | {there:.0f} | {there / here:.2f} |", flush=True)


if __name__ == "__main__":
    main()
