"""Hand-made traces of calls that spend: a call a line, instants in seconds after a Wednesday noon."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from itertools import count
from typing import Any

from tests.kit import traces

from ranksim.core.clock import MINUTE, SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Exchange, Header, Note, Trace, TraceKey
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.judging import judged as told
from ranksim.judge.conformance.spending.spending import SpendingJudge
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Finding, Tally

NOON = instant("2026-03-04T12:00:00Z")
MONDAY = "2026-03-09T00:00:00Z"
MONTH = "2026-04-01T00:00:00Z"

METRIC = "keyword_brief_refreshes"
_ids = count(1)


def call(
    at: float,
    operation: str,
    data: Any = None,
    *,
    body: Mapping[str, Any] | None = None,
    code: str = "",
    meta: Mapping[str, Any] | None = None,
    status: int = 200,
    took: float = 0.1,
    lost: bool = False,
    key: str = "main",
    idempotency_key: str = "",
    replayed: bool = False,
    path: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Exchange:
    """One exchange, sent `at` seconds and answered `took` seconds later, or never."""
    shown = {"Date": formatdate(NOON // SECOND + at + took / 2, usegmt=True), **(headers or {})}
    if replayed:
        shown["Idempotent-Replayed"] = "true"
    made = traces.call(
        operation,
        at,
        None if lost else at + took,
        code=code,
        meta=meta,
        status=status,
        reply=None if code else {"data": data, **(more or {})},
        body=body,
        key=key,
        path=path,
        once=idempotency_key or None,
        headers=shown,
        start=NOON,
    )
    return made.model_copy(update={"id": f"x{next(_ids)}"})


# Readings


def usage(
    at: float, used: int = 0, limit: int = 10, *, cost: Mapping[str, str] | None = None, **more: Any
) -> Exchange:
    meter = {
        "metric": METRIC,
        "used": used,
        "limit": limit,
        "remaining": max(0, limit - used),
        "period": "week",
        "resets_at": MONDAY,
    }
    meter |= {name: more.pop(name) for name in list(more) if name in (*meter, "metric")}
    return call(at, "account.usage", {"metrics": [meter], "cost": cost or {}}, **more)


def cost(
    at: float, settled: str = "0.00", reserved: str = "0.00", *, ceiling: str = "5.00", **more: Any
) -> Exchange:
    spent = f"{float(settled) + float(reserved):.2f}"
    stated = {
        "settled": settled,
        "reserved": reserved,
        "spent": spent,
        "ceiling": ceiling,
        "resets_at": MONTH,
    }
    stated |= {name: more.pop(name) for name in list(more) if name in stated}
    return call(at, "account.usage", {"metrics": [], "cost": stated}, **more)


def slots(at: float, active: int, held: int = 0, limit: int = 20, **more: Any) -> Exchange:
    used = active + held
    stated = {
        "active": active,
        "held": held,
        "used": used,
        "limit": limit,
        "available": max(0, limit - used),
        "resets_at": MONTH,
    }
    stated |= {name: more.pop(name) for name in list(more) if name in stated}
    return call(at, "slots.get", stated, **more)


def status(at: float, said: str) -> Exchange:
    return call(at, "account.get", {"id": "acc", "status": said})


def entitled(at: float, *capabilities: str, **cooldowns: int) -> Exchange:
    data = {
        "capabilities": list(capabilities),
        "dimensions": {"engine_devices": 2, "geographies": 2},
        "cooldown_seconds": cooldowns,
    }
    return call(at, "account.entitlements", data)


def shown(at: float, id: str, said: str = "done", kind: str = "crawl") -> Exchange:
    data = {"id": id, "kind": kind, "status": said, "domain_id": "d1", "error_detail": None}
    return call(at, "jobs.get", data, path={"kind": kind, "id": id})


# Calls that spend


def domain(at: float, id: str = "d1") -> Exchange:
    return call(at, "domains.create", {"id": id}, body={"host": "a.example"}, status=201)


def listed(at: float, id: str = "l1", of: str = "d1") -> Exchange:
    return call(at, "keyword_lists.create", {"id": id}, body={"domain_id": of, "name": "n"}, status=201)


def briefs(at: float, number: int = 1, *, dry: bool = False, **more: Any) -> Exchange:
    body = {"domain_id": "d1", "keywords": [f"word {n}" for n in range(number)]}
    made = next(_ids)
    items = [{"id": f"b{made}-{n}", "domain_id": "d1"} for n in range(number)]
    return spend(at, "keyword_briefs.create", body, {"id": f"b{made}", "briefs": items}, dry, **more)


def words(
    at: float,
    *texts: str,
    to: str = "l1",
    dry: bool = False,
    added: int | None = None,
    created: Iterable[str] | None = None,
    present: int = 0,
    **more: Any,
) -> Exchange:
    body = {"list_id": to, "keywords": list(texts)}
    made: dict[str, Any] = {
        "list_id": to,
        "created": [
            {"id": f"k{next(_ids)}", "keyword": text} for text in (texts if created is None else created)
        ],
        "already_present": present,
    }
    if added is not None:
        made["slots_added"] = added
    return spend(at, "keywords.create", body, made, dry, **more)


def created_ids(made: Exchange) -> list[str]:
    """The ids of the keywords that a call made."""
    return [one["id"] for one in json.loads(made.response)["data"]["created"]]


def scan(
    at: float,
    *,
    devices: int = 1,
    places: int = 1,
    of: str = "l1",
    lists: Iterable[str] = (),
    on: str = "d1",
    id: str = "",
    dry: bool = False,
    **more: Any,
) -> Exchange:
    body = {
        "domain_id": on,
        "list_ids": list(lists) or [of],
        "engine_devices": [f"google/device{n}" for n in range(devices)],
        "geographies": [{"country": country} for country in ("DE", "FR", "IT")[:places]],
    }
    return spend(at, "scans.create", body, {"id": id or f"s{next(_ids)}"}, dry, **more)


def job(
    at: float, kind: str = "crawl", *, id: str = "", on: str = "d1", dry: bool = False, **more: Any
) -> Exchange:
    body = {"kind": kind, "domain_id": on}
    made = {
        "id": id or f"j{next(_ids)}",
        "kind": kind,
        "status": "running",
        "domain_id": on,
        "error_detail": None,
    }
    if "code" not in more:
        more.setdefault("status", 202)
    return spend(at, "jobs.create", body, made, dry, **more)


def spend(at: float, operation: str, body: dict[str, Any], made: Any, dry: bool, **more: Any) -> Exchange:
    if dry:
        body = {**body, "dry_run": True}
        made = more.pop("report", {"dry_run": True, "allowed": True})
        more["status"] = more.pop("status", 200) if "code" in more else 200
    else:
        more.setdefault("status", 402 if "code" in more else 201)
    return call(at, operation, made, body=body, **more)


NAMES = ("capability", "subscription", "cost_ceiling", "quota", "slots", "cooldown")
CODES = (
    "entitlement_required",
    "subscription_inactive",
    "cost_cap_reached",
    "quota_exhausted",
    "slot_limit_exceeded",
    "cooldown_active",
)


def report(*failing: int, refusal: int | None = None, joins: str | None = None) -> dict[str, Any]:
    """What a dry run says when these checks fail; it refuses with the first unless said otherwise."""
    first = refusal if refusal is not None else (failing[0] if failing else 0)
    checks = [
        {"check": name, "ok": number not in failing, "code": code if number in failing else None, "meta": {}}
        for number, (name, code) in enumerate(zip(NAMES, CODES, strict=True), 1)
    ]
    return {
        "dry_run": True,
        "allowed": not first,
        "would_join": joins,
        "refusal": {"code": CODES[first - 1], "meta": {}} if first else None,
        "checks": checks,
    }


# Refusals: what stands behind each code


def exhausted(used: int = 10, limit: int = 10, **more: Any) -> dict[str, Any]:
    meta = {"metric": METRIC, "used": used, "limit": limit, "resets_at": MONDAY}
    return {"code": "quota_exhausted", "status": 402, "meta": {**meta, **more}}


def capped(spent: str = "5.00", ceiling: str = "5.00") -> dict[str, Any]:
    meta = {"spent": spent, "ceiling": ceiling, "currency": "USD", "resets_at": MONTH}
    return {"code": "cost_cap_reached", "status": 402, "meta": meta}


def full(used: int = 20, requested: int = 1, limit: int = 20, *, held: int | None = 0) -> dict[str, Any]:
    meta = {"used": used, "held": held, "limit": limit, "requested": requested}
    return {"code": "slot_limit_exceeded", "status": 402, "meta": meta}


def cooling(seconds: int) -> dict[str, Any]:
    return {"code": "cooldown_active", "status": 409, "meta": {"retry_after": seconds}}


LACKING = {"code": "entitlement_required", "status": 403}
INACTIVE = {"code": "subscription_inactive", "status": 402}


# Judging


def history(exchanges: Iterable[Exchange], *, exclusive: bool = True, rate: int = 1) -> History:
    keys = {name: TraceKey(account="acc") for name in ("main", "second")}
    keys["scoped"] = TraceKey(account="acc", domain_id="dom_1")
    trace = Trace(Header(keys=keys, exclusive=exclusive), list(exchanges))
    if rate != 1:
        note = {"kind": "note", "t": NOON - MINUTE, "rate": rate, "traffic_rate": 1}
        trace.notes.append(Note.model_validate(note))
    return read_history(trace)


def judged(exchanges: Iterable[Exchange], policy: Policy | None = None, **how: Any) -> Tally:
    return told(SpendingJudge, history(exchanges, **how), Options.of(policy))


def finding(tally: Tally, rule: str) -> Finding:
    return next(found for found in tally.findings() if found.rule.name == rule)


def verdict(rule: str, exchanges: Iterable[Exchange], policy: Policy | None = None, **how: Any) -> str:
    """What becomes of one rule: "held", "broke", "open" or "-"."""
    found = finding(judged(exchanges, policy, **how), rule)
    if found.broken:
        assert found.evidence[0].says
        assert found.evidence[0].exchanges
        return "broke"
    return "held" if found.held else "open" if found.open else "-"


def differing(exchanges: Iterable[Exchange], policy: Policy | None = None, **how: Any) -> set[int]:
    """The numbers of the assumptions whose default is excluded."""
    return {difference.number for difference in judged(exchanges, policy, **how).differences}
