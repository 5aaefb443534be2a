"""What the tests of the service share: one account at a desk, and a clock of the test's own."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ranksim.core.clock import instant
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Answer, Attempt, Body, Call, Reply, Task
from ranksim.core.service.service import Service

START = instant("2026-03-04T10:00:00Z")
"""A Wednesday; the desk's billing months begin at this time on the 4th."""

JOB_KINDS = ("rank_run", "crawl", "site_optimization", "ai_scan")

DESK_PLAN: dict[str, Any] = {
    "price": "0 USD",
    "capabilities": ("rank_tracking", "site_crawl", "site_optimization", "ai_visibility", "keyword_briefs"),
    "quotas": {
        "research_lookups": {"limit": 100, "period": "month"},
        "keyword_brief_refreshes": {"limit": 10, "period": "week", "consumed_by": ("keyword_briefs",)},
    },
    "slot_limit": 20,
    "dimensions": {"max_engine_devices": 4, "max_geographies": 3},
    "cost_ceiling": "10 USD",
    "cooldowns": {"rank_run": "1h", "crawl": "1d", "site_optimization": "1d", "ai_scan": "0s"},
    "page_cap": 10,
    "call_cap": 10,
}

DESK_COSTS = {
    "rank_run_page": "0.10 USD",
    "crawl_page": "0.10 USD",
    "site_optimization_page": "0.20 USD",
    "ai_scan_call": "0.30 USD",
    "keyword_brief": "0.50 USD",
}
"""With caps of 10: a crawl is 1 USD, a site optimization 2 USD, an AI scan 3 USD, a brief 0.50 USD."""


class Desk:
    """A service with one account that has a key, a domain and a keyword list.

    `plan` changes fields of `DESK_PLAN`, `assumptions`, `statuses` and `facts` sections of the policy, and
    `catalogue` other fields of the catalogue (further plans included). `words` and `scan` fill the list and
    track it on one pairing in one place, so that a rank run buys one page a word.
    """

    PLAN = DESK_PLAN

    def __init__(
        self,
        plan: Mapping[str, Any] | None = None,
        *,
        assumptions: Mapping[str, Any] | None = None,
        catalogue: Mapping[str, Any] | None = None,
        statuses: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
        words: Iterable[str] = (),
        scan: bool = False,
        pooled: Iterable[str] = (),
        seed: int = 1,
        now: int = START,
        anchor: int | None = None,
        environment: str = "production",
    ) -> None:
        given = dict(catalogue or {})
        plans = {"desk": DESK_PLAN | dict(plan or {})} | given.pop("plans", {})
        minutes = {"rank_run": "4m", "crawl": "20m", "site_optimization": "10m", "ai_scan": "5m"}
        self.policy = Policy().replace(
            assumptions=assumptions or {},
            statuses=statuses or {},
            facts=facts or {},
            catalogue={"plans": plans, "unit_costs": DESK_COSTS, "job_durations": minutes} | given,
        )
        self.service = Service(self.policy, seed, pooled)
        self.now = now
        self.environment = environment
        self.tasks: list[Task] = []
        """Everything the service has handed out."""
        self.account = self.service.open_account("desk", "desk", now, anchor, environment=environment)
        self.key = self.token("first")
        self.domain = self.new_domain("desk.example")
        self.list = self.new_list()
        if words:
            self.must(self.keywords(*words))
        if scan:
            self.must(self.scan())

    # Calls

    def call(
        self,
        operation: str,
        body: Body | None = None,
        *,
        id: str = "",
        kind: str = "",
        key: str | None = None,
        idempotency_key: str | None = None,
        query: Mapping[str, str] | None = None,
        written: bool = True,
        **more: Any,
    ) -> Reply:
        """Make one call now and report it written; `more` are other fields of `Call`."""
        path = {name: value for name, value in (("id", id), ("kind", kind)) if value}
        step = self.service.handle(
            Call(
                operation,
                key=self.key if key is None else key,
                path=path,
                query=query or {},
                body=body,
                idempotency_key=idempotency_key,
                environment=more.pop("environment", self.environment),
                **more,
            ),
            self.now,
        )
        reply, tasks = step.reply, step.tasks
        self.tasks += tasks
        if written:
            self.service.written(reply, self.now)
        return reply

    def job(
        self, kind: str = "rank_run", *, domain: str = "", dry_run: bool | None = None, **call: Any
    ) -> Reply:
        body = {"kind": kind, "domain_id": domain or self.domain}
        return self.call("jobs.create", _with(body, dry_run), **call)

    def keywords(self, *words: str, list_id: str = "", dry_run: bool | None = None, **call: Any) -> Reply:
        body = {"list_id": list_id or self.list, "keywords": list(words)}
        return self.call("keywords.create", _with(body, dry_run), **call)

    def scan(
        self,
        engine_devices: Iterable[str] = ("google/desktop",),
        countries: Iterable[str] = ("DE",),
        *,
        lists: Iterable[str] = (),
        domain: str = "",
        active: bool | None = None,
        dry_run: bool | None = None,
        **call: Any,
    ) -> Reply:
        body: Body = {
            "domain_id": domain or self.domain,
            "list_ids": list(lists) or [self.list],
            "engine_devices": list(engine_devices),
            "geographies": [{"country": country} for country in countries],
        }
        if active is not None:
            body["active"] = active
        return self.call("scans.create", _with(body, dry_run), **call)

    def briefs(self, *words: str, domain: str = "", dry_run: bool | None = None, **call: Any) -> Reply:
        body = {"domain_id": domain or self.domain, "keywords": list(words)}
        return self.call("keyword_briefs.create", _with(body, dry_run), **call)

    def spend(self, spend: str, **call: Any) -> Reply:
        """Do one of the seven things that spend: a job, a brief, a keyword that is new now, a small scan."""
        if spend == "keyword_briefs":
            return self.briefs("new", **call)
        if spend == "keywords":
            return self.keywords(f"new at {self.now}", **call)
        if spend == "scans":
            return self.scan(**call)
        return self.job(spend, **call)

    # What is there

    def token(self, name: str, domain: str | None = None) -> str:
        """Issue a further key, bound to one domain if that is given."""
        return self.service.issue_key(self.account, name, self.now, domain)

    def new_domain(self, host: str) -> str:
        return str(self.made("domains.create", {"host": host})["id"])

    def new_list(self, domain: str = "") -> str:
        body = {"domain_id": domain or self.domain, "name": "words"}
        return str(self.made("keyword_lists.create", body)["id"])

    def made(self, operation: str, body: Body, **call: Any) -> Any:
        return self.must(self.call(operation, body, **call))

    def must(self, reply: Reply) -> Any:
        """Give the data of a reply that must be a success."""
        assert reply.status < 300, reply.body
        return data(reply)

    def get(self, operation: str, **call: Any) -> Any:
        return self.must(self.call(operation, **call))

    def shown(self, reply: Reply) -> Body:
        """Read the job that a reply began with, as it is now."""
        job = data(reply)
        shown: Body = self.get("jobs.get", kind=job["kind"], id=job["id"])
        return shown

    def slots(self) -> Body:
        slots: Body = self.get("slots.get")
        return slots

    def usage(self, metric: str = "keyword_brief_refreshes") -> Body:
        metrics = self.get("account.usage")["metrics"]
        return next(shown for shown in metrics if shown["metric"] == metric)

    def cost(self) -> tuple[str, str, str]:
        """Read what is settled, reserved and spent, in USD."""
        cost = self.get("account.usage")["cost"]
        return cost["settled"], cost["reserved"], cost["spent"]

    # Time and outcomes

    def wait(self, duration: int) -> None:
        self.at(self.now + duration)

    def at(self, now: int) -> None:
        """Move the clock on, and do what falls due."""
        self.now = now
        self.tasks += self.service.advance(now).tasks

    def ended(
        self, job: Reply | str, outcome: str = "done", cost: int | None = None, error: str | None = None
    ) -> None:
        """Report that a pool's job ended; `cost` in µUSD."""
        job_id = job if isinstance(job, str) else data(job)["id"]
        self.tasks += self.service.ended(job_id, outcome, self.now, cost, error).tasks

    def answer(self, attempt: Attempt, answer: Answer) -> None:
        """Report what a receiver answered."""
        self.tasks += self.service.attempted(attempt.attempt, answer, self.now).tasks

    def change_plan(self, plan: str) -> None:
        self.service.change_plan(self.account, plan, self.now)

    def set_status(self, status: str) -> None:
        self.service.set_status(self.account, status, self.now)

    def set_add_on(self, add_on: str, count: int) -> None:
        self.service.set_add_on(self.account, add_on, count, self.now)

    def picture(self) -> Body:
        """Give the saved state without what every request may change: its number and the rate windows."""
        state: Body = json.loads(self.service.save())
        del state["requests"], state["callers"], state["caller_rings"]
        for key in state["keys"].values():
            del key["windows"], key["rings"]
        return state


def _with(body: Body, dry_run: bool | None) -> Body:
    return body if dry_run is None else {**body, "dry_run": dry_run}


def data(reply: Reply) -> Any:
    assert reply.body is not None
    return reply.body["data"]
