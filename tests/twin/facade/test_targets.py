"""One suite for every target: each operation, over REST and GraphQL, socketless, in a thread, in a process.

All six ways begin with the same world, meet the same call, and live through the same day after one that may
change something. What is answered, what the webhook receiver gets and the state at the end must be equal,
byte for byte.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from ranksim.core.clock import iso
from ranksim.core.service.operations import OPERATIONS
from ranksim.testing import Receiver, Server, World
from ranksim.twin.facade.twin import Twin

SEED = 7
TOKEN = "control"

BY_THE_CONNECTION = {"date", "server", "connection", "transfer-encoding"}
"""Headers that the server of HTTP adds, where there is one."""

TAKEN = re.compile(rb'"duration":\d+')
"""The wall time that a receiver took to answer: the one thing in a state that no clock of ours decides."""


@dataclass
class Left:
    """What a run leaves behind: the answers over its surface, the deliveries, and the state at the end."""

    answers: list[tuple[int, dict[str, str], bytes]]
    deliveries: list[tuple[str, dict[str, str], bytes]]
    state: bytes


class Target:
    """A deployment that is reached over HTTP alone, with the world of the tests saved in it."""

    def __init__(self, client: httpx.Client, receiver: Receiver) -> None:
        self.client, self.receiver = client, receiver

    def control(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {TOKEN}", **more.pop("headers", {})}
        response = self.client.request(method, f"/_ranksim{path}", headers=headers, **more)
        assert response.is_success, response.text
        return response

    def state(self) -> bytes:
        return self.control("GET", "/state").content

    def run(self, request: dict[str, Any], headers: dict[str, str], times: int, wait: str) -> Left:
        """Send a request so many times to the saved world, let time go by, and tell what is left."""
        self.control("POST", "/snapshots/stage/restore")
        self.receiver.clear()
        answers = [self.client.request(**request, headers=headers) for _ in range(times)]
        assert self.control("POST", "/clock/advance", json={"by": wait}).json()["settled"]
        state = self.state()
        assert TAKEN.search(state), "the deliveries of the saved world are part of the state"
        return Left([told(answer) for answer in answers], self._delivered(), TAKEN.sub(b"", state))

    def _delivered(self) -> list[tuple[str, dict[str, str], bytes]]:
        """What the receiver got, in an order of its own: attempts of one instant go out side by side."""
        came = [
            (one.path, {n: t for n, t in one.headers.items() if n.startswith("service-")}, one.body)
            for one in self.receiver.requests
        ]
        return sorted(came, key=repr)


def told(answer: httpx.Response) -> tuple[int, dict[str, str], bytes]:
    headers = {name: text for name, text in answer.headers.items() if name not in BY_THE_CONNECTION}
    return answer.status_code, headers, answer.content


@contextmanager
def process(*flags: str) -> Iterator[dict[str, Any]]:
    """A `ranksim serve` of its own; gives what it announces."""
    running = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ranksim",
            "serve",
            "--port",
            "0",
            "--json",
            "--signature-clock",
            "virtual",
            *flags,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())
    finally:
        running.kill()
        running.communicate()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver(200) as listening:
        yield listening


@pytest.fixture(scope="module")
def targets(stage: Any, receiver: Receiver) -> Iterator[dict[str, Target]]:
    """The three targets, each begun alike and then given the stage, whose webhooks go to the receiver."""
    twin = Twin(clock="manual", start=stage.now, empty=True)
    twin.service, twin.keys = stage.service.fork(), {"production": stage.key}
    world = re.sub(rb"https://(webhook2?)\.example/", f"{receiver.url}/\\1/".encode(), twin.snapshot())
    assert world.count(receiver.url.encode()) == 2
    settings: dict[str, Any] = {"seed": SEED, "plan": "pro", "signature_clock": "virtual", "start": stage.now}
    settings["control_token"] = TOKEN
    flags = ["--seed", str(SEED), "--plan", "pro", "--clock", "manual", "--start", iso(stage.now)]
    flags += ["--control-token", TOKEN]
    with ExitStack() as stack:
        inprocess = stack.enter_context(World(**settings))
        inprocess.mount(receiver.url, receiver)
        threaded = stack.enter_context(Server(**settings))
        served = stack.enter_context(process(*flags))
        sent = {"authorization": f"Bearer {stage.key}"}
        over_http = httpx.Client(base_url=served["base_url"], headers=sent, timeout=600, trust_env=False)
        clients = {
            "inprocess": inprocess.client(stage.key, timeout=600),
            "threaded": threaded.client(stage.key, timeout=600),
            "process": stack.enter_context(over_http),
        }
        found = {name: Target(client, receiver) for name, client in clients.items()}
        assert len({target.state() for target in found.values()}) == 1, "they begin alike"
        for target in found.values():
            headers = {"content-type": "application/json"}
            target.control("PUT", "/snapshots/stage", content=world, headers=headers)
        yield found


def at_the_receiver(sample: Any, receiver: Receiver) -> Any:
    """Let an endpoint that a sample creates be on this machine, so that what it is sent arrives."""
    if sample.operation != "webhooks.create" or sample.code:
        return sample
    return replace(sample, body=sample.body | {"url": f"{receiver.url}/made"})


@pytest.mark.slow
@pytest.mark.fact("S1", "S3", "S4", "S47", "U33", "U83")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_target_and_surface_answers_alike_and_leaves_the_same_state(
    stage: Any, targets: dict[str, Target], receiver: Receiver, operation: str
) -> None:
    found = [at_the_receiver(sample, receiver) for sample in stage.samples() if sample.operation == operation]
    assert found
    method = OPERATIONS[operation].method
    for sample in found:
        wait = "0s" if method == "GET" or sample.code else "1d"
        for key in [None, "k"] if method == "POST" else [None]:
            headers = {} if key is None else {"idempotency-key": key}
            times = 1 if key is None else 2  # the second is the replay
            graphql = {"method": "POST", "url": "/graphql", "json": sample.in_graphql()}
            runs = {
                surface: {name: target.run(request, headers, times, wait) for name, target in targets.items()}
                for surface, request in {"rest": sample.in_rest(), "graphql": graphql}.items()
            }
            for surface, of_targets in runs.items():
                for name, left in of_targets.items():
                    where = (sample.name, surface, name)
                    first = of_targets["inprocess"]
                    assert left.answers == first.answers, where
                    assert left.deliveries == first.deliveries, where
                    assert left.state == runs["rest"]["inprocess"].state, where
            rest, asked = (runs[surface]["inprocess"] for surface in ("rest", "graphql"))
            assert rest.deliveries == asked.deliveries, sample.name
            assert rest.deliveries or wait == "0s", "within the day a job ends, whatever was called"
            compare(sample, rest, asked)


def compare(sample: Any, rest: Left, graphql: Left) -> None:
    """Check that GraphQL says what REST says, in its own form."""
    for (status, headers, payload), (graphql_status, graphql_headers, answer) in zip(
        rest.answers, graphql.answers, strict=True
    ):
        said = json.loads(payload) if payload else {}
        assert graphql_status == 200, sample.name
        body = json.loads(answer)
        if sample.code:
            assert (said["code"], [error["extensions"] for error in body["errors"]]) == (sample.code, [said])
        else:
            assert (status < 300, "errors" in body) == (True, False), sample.name
            assert sample.data_of(body, status, said) == said.get("data"), sample.name
        limits = {name: text for name, text in headers.items() if name.startswith(("x-", "rate", "idem"))}
        assert len(limits) >= 4
        assert limits.items() <= graphql_headers.items(), sample.name
