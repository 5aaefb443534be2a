"""The second deployment in virtual time: its clock, timers and webhooks are those of a rehearsal."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parent))

import deployment as elsewhere
from pydantic_core import from_json

from ranksim.bridges.rehearsal import START, Rehearsal, Seen
from ranksim.bridges.rehearsal_worlds import URLS
from ranksim.core.callers.network import Network
from ranksim.core.callers.target import Target, TargetKey
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.service.calls import Answer, Attempt, Call, Reply, Step
from ranksim.core.service.routes import fill
from ranksim.twin.sim.player import Flight

PURPOSES = {
    "main": "full",
    "second": "second",
    "third": "second",
    "scoped": "scoped",
    "scoped2": "scoped",
    "other": "other_account",
    "other2": "other_account",
    "small": "near_limit",
    "late": "past_due",
    "late2": "past_due",
}


@dataclass(slots=True)
class Written(Reply):
    """A reply as the deployment wrote it."""

    seen: Seen = (0, {}, b"", None)


@dataclass
class Driven:
    """What a rehearsal asks of a service, asked of the deployment. `at` is the present instant, µs."""

    deployment: Any
    scale: int = 1
    at: Micros = START - 6 * MINUTE
    due: list[tuple[Micros, int, Any]] = field(default_factory=list)
    tasks: list[Any] = field(default_factory=list)
    answered: dict[int, Any] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        elsewhere.now.set(lambda: self.at)
        self.deployment.later, self.deployment.post = self.later, self.post
        self.deployment.linger = lambda seconds: None
        self.deployment.open_accounts()

    def later(self, seconds: float, act: Any) -> None:
        self.count += 1
        heappush(self.due, (self.at + int(seconds * 1_000_000), self.count, act))

    def post(self, url: str, raw: bytes, headers: Mapping[str, str], answered: Any) -> None:
        self.count += 1
        self.answered[self.count] = answered
        number = int(headers.get("service-delivery-attempt", "1"))
        event, kind = headers["service-event-id"], headers.get("service-event-type", "")
        titled = {name.title(): value for name, value in headers.items()}
        self.tasks.append(Attempt(self.count, 0, "", "", url, event, kind, number, titled, raw))

    def handle(self, call: Call, now: Micros, traffic_now: Micros | None = None) -> Step:
        self.at = now if traffic_now is None else traffic_now
        path = "/graphql" if call.surface == "graphql" else "/v1/" + fill(call.operation, call.path)
        if call.environment == "sandbox":
            path = "/sandbox" + path
        headers = {} if call.key is None else {"authorization": f"Bearer {call.key}"}
        named = {"idempotency-key": call.idempotency_key, "x-request-id": call.request_id}
        headers |= {name: value for name, value in named.items() if value is not None}
        if call.raw is not None:
            headers["content-type"] = "application/json"
        url = path + ("?" + urlencode(call.query) if call.query else "")
        answer = self.deployment.respond(call.method, url, headers, call.raw or b"")
        status, told, body = answer or (404, {}, b"")  # outside of the API
        if body:
            told["content-length"] = str(len(body))
        reply = Written(status, None, seen=(status, told, body, parsed(body)))
        return self._step([reply])

    def advance(self, now: Micros) -> Step:
        self.at = START + (now - START) // self.scale
        while self.due and self.due[0][0] <= self.at:
            heappop(self.due)[2]()
        return self._step([])

    def next_due(self) -> Micros | None:
        return START + (self.due[0][0] - START) * self.scale if self.due else None

    def started(self, job: str, now: Micros) -> Step:
        raise AssertionError("its jobs are its own")

    def ended(self, job: str, outcome: str, now: Micros) -> Step:
        raise AssertionError("its jobs are its own")

    def attempted(self, attempt: int, answer: Answer, now: Micros) -> Step:
        self.at = START + (now - START) // self.scale
        status = answer.status
        error = answer.error or (
            None if status and 200 <= status < 300 else f"The receiver answered {status}"
        )
        self.answered.pop(attempt)(status, error, answer.duration)
        return self._step([])

    def written(self, reply: Reply, now: Micros) -> None:
        pass

    def _step(self, replies: list[Reply]) -> Step:
        tasks, self.tasks = self.tasks, []
        return Step(replies, tasks, [])


class Elsewhere(Rehearsal):
    """A rehearsal against the second deployment, whose replies travel as it wrote them."""

    def render(self, flight: Flight, reply: Reply) -> Seen:
        assert isinstance(reply, Written)
        return reply.seen

    def over_graphql(self, call: Call) -> Reply:
        """Ask as over HTTP: the deployment knows no such path."""
        step = self.service.handle(call, self._business(self.now), self._traffic(self.now))
        return step.reply

    def _trust(self, body: Any) -> None:
        data = body.get("data") if isinstance(body, Mapping) else None
        for name in ("secret", "signing_secret"):
            if isinstance(data, Mapping) and isinstance(data.get(name), str):
                self.receivers.trust(str(data.get("url", "")), data[name])


def rehearsal(
    numbers: Any,
    seed: int,
    *,
    breaks: Iterable[str] = (),
    network: Network,
    scale: int = 1,
    exclusive: bool = True,
    use: bool = False,
    given: Iterable[str] | None = None,
) -> Elsewhere:
    """A rehearsal against a deployment of these numbers, broken in a way or none.

    Its target has the keys that are `given`, by default all of them. It lets a run `use` the scoped keys'
    domains, and the first one of the account that is past due.
    """
    made = elsewhere.Deployment(numbers, seed=seed, breaks=breaks, scale=scale)
    driven = Driven(made, scale)
    keys = target_keys(made.named, made.scopes)
    keys = keys if given is None else {name: keys[name] for name in given}
    used = [key.domain_id for key in keys.values() if key.domain_id is not None]
    used += [next(iter(one.tables["domains"])) for one in made.accounts if one.status == "past_due"]
    target = Target(
        environments=URLS,
        keys=keys,
        exclusive=exclusive,
        time_scale=scale,
        use_domains=tuple(used) if use else (),
    )
    driven.at = START
    return Elsewhere(driven, target, network, seed)


def hook_timeout(breaks: Container[str]) -> Micros:
    """How long a deployment that is broken so waits for a receiver, µs: the network does that for it."""
    return (20 if "patient" in breaks else 5 if "impatient" in breaks else 10) * SECOND


def target_keys(tokens: Mapping[str, str], scopes: Mapping[str, str | None]) -> dict[str, TargetKey]:
    """The deployment's keys as a target file has them: name → key, of names → tokens and domains."""
    return {
        name: TargetKey(
            token=token,
            environment="sandbox" if name.startswith("test") else "production",
            purpose="other_environment" if name.startswith("test") else PURPOSES[name],
            domain_id=scopes[name],
        )
        for name, token in tokens.items()
    }


def parsed(raw: bytes) -> Any:
    try:
        return from_json(raw)
    except ValueError:
        return None
