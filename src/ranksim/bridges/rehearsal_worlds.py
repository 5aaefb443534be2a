"""Worlds to rehearse in: a service with accounts and keys of every purpose, and a target of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ranksim.bridges.rehearsal import START
from ranksim.core.callers.portfolio import Actor
from ranksim.core.callers.target import Purpose, Target, TargetKey
from ranksim.core.clock import HOUR, MINUTE, SECOND, Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.service import Service

OPENED_BEFORE = 3 * HOUR
"""How long before the start of a rehearsal the accounts were opened."""

MOST_RUNS = 30
"""Domains on which an account runs jobs in order to overspend."""

URLS = {"production": "https://api.rehearsal.example", "sandbox": "https://sandbox.rehearsal.example"}

ALL = ("rank_tracking", "site_crawl", "site_optimization", "ai_visibility", "keyword_briefs")

COMPACT: Mapping[str, Any] = {
    "name": "compact",
    "note": "limits so small that a run of minutes meets them all; nobody's prices",
    "plans": {
        "basic": {
            "price": "10 USD",
            "capabilities": ["rank_tracking", "site_crawl", "keyword_briefs"],
            "quotas": {
                "keyword_brief_refreshes": {"limit": 6, "period": "week", "consumed_by": ["keyword_briefs"]},
                "rank_runs": {"limit": 6, "period": "month", "consumed_by": ["rank_run"]},
                "keyword_changes": {"limit": 60, "period": "month", "consumed_by": ["keywords"]},
            },
            "slot_limit": 40,
            "dimensions": {"max_engine_devices": 2, "max_geographies": 2},
            "cost_ceiling": "0.4 USD",
            "cooldowns": {"rank_run": "20m", "crawl": "30m", "keywords": "5s", "keyword_briefs": "5s"},
            "page_cap": 500,
            "call_cap": 0,
        },
        "full": {
            "price": "100 USD",
            "capabilities": list(ALL),
            "quotas": {
                "research_lookups": {"limit": 100, "period": "month"},
                "keyword_brief_refreshes": {"limit": 40, "period": "week", "consumed_by": ["keyword_briefs"]},
                "rank_runs": {"limit": 200, "period": "month", "consumed_by": ["rank_run"]},
            },
            "slot_limit": 400,
            "dimensions": {"max_engine_devices": 3, "max_geographies": 3},
            "cost_ceiling": "5 USD",
            "cooldowns": {"rank_run": "20s", "crawl": "40s", "site_optimization": "30s"},
            "page_cap": 2000,
            "call_cap": 100,
        },
    },
    "unit_costs": {
        "rank_run_page": "0.001 USD",
        "crawl_page": "0.0002 USD",
        "site_optimization_page": "0.0005 USD",
        "ai_scan_call": "0.01 USD",
        "keyword_brief": "0.03 USD",
    },
    "job_durations": {
        "rank_run": {"lognormal": {"median": "4s", "sigma": 0.4}},
        "crawl": {"lognormal": {"median": "8s", "sigma": 0.4}},
        "site_optimization": {"lognormal": {"median": "5s", "sigma": 0.4}},
        "ai_scan": {"lognormal": {"median": "3s", "sigma": 0.4}},
    },
    "job_failure_rates": {"rank_run": 100, "crawl": 100, "site_optimization": 100, "ai_scan": 100},
}
"""A catalogue with small limits, short jobs and short cooldowns."""


def compact(policy: Policy | None = None) -> Policy:
    """Return a policy with the compact catalogue in place of its own."""
    from json import dumps

    from ranksim.core.contract.plans import Catalogue

    catalogue = Catalogue.model_validate_json(dumps(COMPACT))
    return (policy or Policy()).model_copy(update={"catalogue": catalogue})


def make_world(policy: Policy | None = None, seed: int = 0, start: Micros = START) -> tuple[Service, Target]:
    """Make a service whose accounts a load run can use, and the target with all their keys.

    Keys: main (a full account), second (the same account), scoped (one domain of it), other (another
    account), test (the sandbox), late (past due, and beyond all its limits) and tight (near its limits, on a
    cheaper plan). The scoped key's domain and the first one of late may be used. Without a policy the limits
    are those of `compact`. `start` is when the rehearsal begins by the deployment's clock: an account that is
    used before it was opened breaks rules.
    """
    policy = compact() if policy is None else policy
    service = Service(policy, seed)
    opened = start - OPENED_BEFORE
    better, cheaper = _plans(policy)
    keys: dict[str, TargetKey] = {}

    def issue(name: str, account: str, purpose: Purpose, domain: str | None = None) -> str:
        token = service.issue_key(account, name, opened, domain)
        environment = service.state.accounts[account].environment
        keys[name] = TargetKey(
            token=token, environment=environment, purpose=purpose, account=account, domain_id=domain
        )
        return token

    alpha = service.open_account("alpha", better, opened)
    main = issue("main", alpha, "full")
    issue("second", alpha, "second")
    issue("scoped", alpha, "scoped", _domain(service, main, "scoped.example.com", opened))
    _domain(service, main, "www.example.com", opened)
    beta = service.open_account("beta", better, opened)
    _domain(service, issue("other", beta, "other_account"), "other.example.com", opened)
    sandbox = service.open_account("sandbox", better, opened, environment="sandbox")
    token = issue("test", sandbox, "other_environment")
    _domain(service, token, "test.example.com", opened, environment="sandbox")
    late = service.open_account("late", cheaper, opened)
    token = issue("late", late, "past_due")
    _use_up(service, token, opened, leave=0)
    _overspend(service, token, start - 6 * MINUTE)
    service.set_status(late, "past_due", start - SECOND)
    tight = service.open_account("tight", cheaper, opened)
    _use_up(service, issue("tight", tight, "near_limit"), opened, leave=2)
    used = [key.domain_id for key in keys.values() if key.domain_id is not None]
    used.append(service.state.accounts[late].domains[0])
    return service, Target(environments=URLS, keys=keys, exclusive=True, use_domains=tuple(used))


def mirrored_target(
    target: Target, service: Service, actors: Mapping[str, Actor], hosts: Mapping[str, str]
) -> Target:
    """Return a deployment's target with its twin's tokens and ids; keys without a place there are left out.

    `hosts` are those of the deployment's domains, by their ids.
    """
    keys = {
        name: key.model_copy(
            update={
                "token": token,
                "environment": actor.environment,
                "account": actor.account,
                "domain_id": service.state.keys[token].domain,
            }
        )
        for actor in actors.values()
        for name, token in actor.keys.items()
        if (key := target.keys.get(name)) is not None
    }
    ids = {host: domain for actor in actors.values() for host, domain in actor.hosts.items()}
    used = [ids[hosts[domain]] for domain in target.use_domains if hosts.get(domain) in ids]
    failing = ids.get(hosts.get(target.failing_domain or "", ""))
    return target.model_copy(
        update={"keys": keys, "use_domains": tuple(used), "failing_domain": failing, "environments": URLS}
    )


def _plans(policy: Policy) -> tuple[str, str]:
    """Return the plan of a full account, the second dearest, and of one near its limits, the next cheaper."""
    plans = sorted(policy.catalogue.plans.values(), key=lambda plan: plan.price)
    names = [plan.name for plan in plans]
    better = names[-2] if len(names) > 2 else names[-1]
    return better, names[max(0, names.index(better) - 1)]


def _call(
    service: Service, token: str, operation: str, body: Mapping[str, Any], now: Micros, environment: str
) -> Reply:
    call = Call(operation, token, body=dict(body), environment=environment)
    reply = service.handle(call, now).reply
    service.written(reply, now)
    return reply


def _domain(service: Service, token: str, host: str, now: Micros, environment: str = "production") -> str:
    reply = _call(service, token, "domains.create", {"host": host}, now, environment)
    assert reply.body is not None
    return str(reply.body["data"]["id"])


def _use_up(service: Service, token: str, opened: Micros, leave: int) -> None:
    """Use an account's slots and weekly briefs until so many units are left of each."""
    account = service.state.accounts[service.state.keys[token].account]
    plan = service.policy.catalogue.plans[account.plan]
    domain = _domain(service, token, f"{account.name}.example.com", opened)
    now = opened

    def do(operation: str, body: Mapping[str, Any]) -> Reply:
        nonlocal now
        now += 10_000_000
        return _call(service, token, operation, body, now, "production")

    made = do("keyword_lists.create", {"domain_id": domain, "name": "all"})
    assert made.body is not None
    listed = made.body["data"]["id"]
    scan = {
        "domain_id": domain,
        "list_ids": [listed],
        "engine_devices": ["google/desktop"],
        "geographies": [{"country": "DE"}],
    }
    do("scans.create", scan)
    words = [f"word {index}" for index in range(max(0, plan.slot_limit - leave))]
    if words:
        do("keywords.create", {"list_id": listed, "keywords": words})
    briefs = account.meters.get(plan.metric_of("keyword_briefs") or "")
    wanted = 0 if briefs is None else max(0, briefs.limit - leave)
    if wanted:
        do("keyword_briefs.create", {"domain_id": domain, "keywords": [f"w {n}" for n in range(wanted)]})


def _overspend(service: Service, token: str, now: Micros) -> None:
    """Start jobs, the first of them on the first domain, until the month's cost ceiling is well reached."""
    account = service.state.accounts[service.state.keys[token].account]
    domain = account.domains[0]
    for number in range(MOST_RUNS):
        for kind in ("rank_run", "crawl"):
            _call(service, token, "jobs.create", {"kind": kind, "domain_id": domain}, now, "production")
        now += 8 * SECOND
        domain = _domain(service, token, f"{account.name}-{number}.example.com", now)
