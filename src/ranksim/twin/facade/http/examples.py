"""An exchange for each operation, as examples: made by calling a service of its own under the same policy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import urlencode

from ranksim.core.callers.http import method_of, path_of
from ranksim.core.callers.portfolio import Actor
from ranksim.core.callers.request_factory import RequestFactory
from ranksim.core.callers.requests import domain_body, job_body, list_body
from ranksim.core.callers.steps import Send
from ranksim.core.clock import DAY, MINUTE, Micros, instant
from ranksim.core.contract.facts import JobKind
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Answer, Attempt, Call, Reply, Step
from ranksim.core.service.operations import TABLE
from ranksim.core.service.service import Service

START = "2026-03-02T09:00:00Z"
LAST = ("delete",)
"""Actions that come last, when there is nothing left to show of the thing."""

MOST_ITEMS = 1
"""How many items of a list an example shows."""


@dataclass(frozen=True, slots=True)
class ExampleExchange:
    """One request and what was answered; bodies as indented JSON, "" without one."""

    method: str
    target: str
    body: str
    status: int
    answer: str


def examples(policy: Policy) -> dict[str, ExampleExchange]:
    """Return an example for each operation that can be exercised, by its name."""
    shown = _ExampleCaller(policy)
    names = sorted((one.name for one in TABLE), key=lambda name: name.rpartition(".")[2] in LAST)
    creates = [name for name in names if name.endswith(".create")]
    for number, name in enumerate(creates):
        shown.call(name, number)
    shown.run_jobs()
    return {name: shown.example(name, 100 + number) for number, name in enumerate(names)}


class _ExampleCaller:
    """Calls for an account on the largest plan, which has a domain."""

    def __init__(self, policy: Policy) -> None:
        self._now: Micros = instant(START)
        self._service = Service(policy, seed=1)
        plan = max(policy.catalogue.plans.items(), key=lambda one: one[1].slot_limit)[0]
        account = self._service.open_account("example", plan, self._now)
        self._key = self._service.issue_key(account, "example", self._now)
        domain = self._domain = self._made("domains.create", domain_body("example.com"))
        listed = self._made("keyword_lists.create", list_body(domain, "brand"))
        actor = Actor(
            "example", account, keys={"example": self._key}, domains=[domain],
            hosts={"example.com": domain}, lists={domain: [listed]},
        )  # fmt: skip
        self._factory = RequestFactory("example", actor, self._service.state, [one.name for one in TABLE])

    def call(self, name: str, number: int) -> tuple[Send, Reply]:
        """Make a request of an operation, and learn from its answer."""
        send = self._factory.make(name, number)
        reply = self._ask(
            Call(send.operation, key=self._key, path=send.path, query=send.query, body=send.body)
        )
        self._factory.learn(send, reply.status, reply.body)
        return send, reply

    def example(self, name: str, number: int) -> ExampleExchange:
        """Make a request of an operation as an example."""
        send, reply = self.call(name, number)
        if send.operation != name:  # nothing of the kind was known yet: it looked at the list instead
            send, reply = self.call(name, number)
        query = f"?{urlencode(send.query)}" if send.query else ""
        answer = dict(reply.body or {})
        if isinstance(answer.get("data"), list):
            answer["data"] = answer["data"][:MOST_ITEMS]
        return ExampleExchange(
            method_of(send), path_of(send) + query, _json(send.body), reply.status, _json(answer or None)
        )

    def run_jobs(self) -> None:
        """Run a job of each kind, and let three days pass, in which they end and webhooks are taken."""
        for kind in JobKind:
            self._ask(Call("jobs.create", key=self._key, body=job_body(kind, self._domain)))
        end = self._now + 3 * DAY
        while (due := self._service.next_due()) is not None and due <= end:
            self._follow(self._service.advance(due), due)
        self._now = end

    def _made(self, name: str, body: dict[str, object]) -> str:
        data = (self._ask(Call(name, key=self._key, body=body)).body or {})["data"]
        return str(data["id"])

    def _ask(self, call: Call) -> Reply:
        self._now += MINUTE  # so that no rate window refuses an example
        step = self._service.handle(call, self._now)
        self._service.written(step.reply, self._now)
        self._follow(step, self._now)
        return step.reply

    def _follow(self, step: Step, now: Micros) -> None:
        for task in step.tasks:
            if isinstance(task, Attempt):
                self._follow(self._service.attempted(task.attempt, Answer(200), now), now)


def _json(body: object) -> str:
    return "" if body is None else json.dumps(body, indent=2, ensure_ascii=False)
