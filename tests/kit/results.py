"""A result made by hand, small and complete, in the shape that reports read."""

from __future__ import annotations

from typing import Any

from ranksim.core.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, instant

Rows = list[dict[str, Any]]

START = instant("2026-03-01T00:00:00Z")
TIMES = [START + step * 3 * HOUR for step in range(81)]
OPERATIONS = ("jobs.create", "keywords.list", "keyword_briefs.create")
OUTCOMES = (("ok", 200, 12_345.5), ("refused", 402, 31), ("limited", 429, 4))
CODES = {
    "rate_limited": 0,
    "cost_cap_reached": 3,
    "quota_exhausted": 4,
    "slot_limit_exceeded": 5,
    "cooldown_active": 6,
}
METRICS = {"research_lookups": 100, "keyword_brief_refreshes": 60}


class Fake:
    """Makes the tables of so many accounts, over ten days with a sample every three hours."""

    def __init__(self, accounts: int = 1, replications: int = 20) -> None:
        self.accounts = ["acme", *(f"acme-{n}" for n in range(1, accounts))]
        self.replications = replications

    def interval(self, value: float, share: float = 0.05) -> dict[str, Any]:
        if self.replications == 1:
            return {"low": None, "high": None}
        return {"low": value * (1 - share), "high": value * (1 + share)}

    def ends(self, name: str, value: float | None, share: float = 0.05) -> dict[str, Any]:
        wide = value is not None and self.replications > 1
        low, high = (value * (1 - share), value * (1 + share)) if wide and value is not None else (None, None)
        return {name: value, f"{name}_low": low, f"{name}_high": high}

    def tables(self) -> dict[str, Rows]:
        return {
            "totals": self.totals(),
            "operations": self.operations(),
            "codes": self.codes(),
            "levels": self.levels(),
            "calls": self.calls(),
            "refusals": self.refusals(),
            "given_up": [],
            "windows": self.windows(),
            "queues": self.queues(),
            "meters": self.meters(),
            "slots": self.slots(),
            "spend": self.spend(),
            **{
                f"{name}_by_{unit}": []
                for unit in ("hour", "day")
                for name in ("windows", "queues", "delivering")
            },
            "jobs": self.jobs(),
            "attempts": self.attempts(),
            "deliveries": self.deliveries(),
            "answers": [],
            "delays": self.delays(),
            "endpoints": self.endpoints(),
            "delivering": self.delivering(),
            "outages": self.outages(),
            "disabled": [],
            "notes": [{"replication": 0, "text": "one sample in 2 is kept", "count": 1}],
        }

    def totals(self) -> Rows:
        many = {"calls": ("count", 74_283.0), "refused": ("share", 0.001), "jobs_done": ("count", 820.5)}
        many |= {"events": ("count", 1_640), "provider_cost": ("money", 9_440_000)}
        return [
            {"what": what, "unit": unit, "value": value} | self.interval(value)
            for what, (unit, value) in many.items()
        ]

    def operations(self) -> Rows:
        return [
            {"operation": operation, "outcome": outcome, "status": status, "count": 2 * n}
            | self.interval(2 * n)
            for operation in OPERATIONS
            for outcome, status, n in OUTCOMES
        ]

    def codes(self) -> Rows:
        return [
            {"check": check, "code": code, "count": 40 - 6 * check}
            | self.interval(40 - 6 * check, 0.2)
            | self.ends("share", (40 - 6 * check) / 92)
            for code, check in CODES.items()
        ]

    def levels(self) -> Rows:
        units = {"slots": "count", **dict.fromkeys(METRICS, "count"), "spend": "money"}
        levels = {"slots": (510, 510, 500), "spend": (8_800_000, 9_440_000, 10_000_000)}
        levels |= {"research_lookups": (100, 100, 100), "keyword_brief_refreshes": (53.3, 53.3, 60)}
        return [
            {"account": account, "resource": resource, "unit": unit}
            | self.ends("last", levels[resource][0])
            | self.ends("highest", levels[resource][1])
            | {"limit": levels[resource][2]}
            for account in self.accounts
            for resource, unit in units.items()
        ]

    def calls(self) -> Rows:
        return [
            {"client": client, "operation": operation, "outcome": outcome, "status": status, "count": n}
            | self.interval(n)
            for client in ("ci", "dashboard")
            for operation in OPERATIONS
            for outcome, status, n in OUTCOMES
        ]

    def refusals(self) -> Rows:
        return [
            {
                "code": code,
                "check": check,
                "client": "ci",
                "operation": "jobs.create",
                "count": 40 - 6 * check,
            }
            | self.interval(40 - 6 * check, 0.2)
            | {"share": 0.1, "share_low": 0.08, "share_high": 0.12}
            for code, check in CODES.items()
        ]

    def windows(self) -> Rows:
        return [
            {"t": t, "account": account, "key": "main", "rate_class": rate_class}
            | {"admitted": 40 + i * 7 % 50, "refused": max(0, i * 7 % 50 - 45), "remaining": 3}
            | {"fullest": min(20, i % 24), "limit": 600 if rate_class == "read" else 20, "length": MINUTE}
            | self.interval(min(20, i % 24))
            for account in self.accounts
            for rate_class in ("read", "expensive")
            for i, t in enumerate(TIMES)
        ]

    def queues(self) -> Rows:
        return [
            {"t": t, "kind": kind, "running": min(i, 4), "waiting": max(0, i % 12 - 4) if workers else 0}
            | {"workers": workers}
            | self.interval(3)
            for kind, workers in (("rank_run", 4), ("crawl", None))
            for i, t in enumerate(TIMES)
        ]

    def meters(self) -> Rows:
        return [
            {"t": t, "account": account, "metric": metric, "used": used, "limit": limit} | self.interval(used)
            for account in self.accounts
            for metric, limit in METRICS.items()
            for i, t in enumerate(TIMES)
            for used in [min(limit, i * limit / (70 if metric == "research_lookups" else 90))]
        ]

    def slots(self) -> Rows:
        return [
            {"t": t, "account": account, "active": active, "held": held, "used": active + held, "limit": 500}
            | {"refused": 0}
            | self.interval(active + held)
            for n, account in enumerate(self.accounts)
            for i, t in enumerate(TIMES)
            for active, held in [(300 + 2 * i - 7 * n, max(0, i - 30))]
        ]

    def spend(self) -> Rows:
        return [
            {"t": t, "account": account, "settled_uusd": settled, "reserved_uusd": reserved}
            | {"spent_uusd": settled + reserved, "ceiling_uusd": 10_000_000}
            | self.interval(settled + reserved)
            for n, account in enumerate(self.accounts)
            for i, t in enumerate(TIMES)
            for settled, reserved in [(i * (110_000 - n * 5_000), (i % 4) * 250_000)]
        ]

    def jobs(self) -> Rows:
        slow = (41 * SECOND, 12 * SECOND, 4 * MINUTE, 31 * MINUTE)
        rows = [
            ("rank_run", 812.0, 800.5, 9.5, 31, slow, 0.874),
            ("crawl", 20, 20, 0, 0, (0, 0, 0, 3 * SECOND), None),
        ]
        return [
            {
                "kind": kind,
                **self.ends("queued", queued),
                **self.ends("started", queued),
                **self.ends("done", done),
                **self.ends("failed", failed),
                **self.ends("joined", joined),
                "wait_mean": waits[0],
                **self.interval(waits[0]),
                **self.ends("wait_p50", waits[1]),
                **self.ends("wait_p95", waits[2]),
                **self.ends("wait_p99", waits[3]),
                **self.ends("utilisation", busy),
                **self.ends("mean_waiting", 1.5),
                **self.ends("max_waiting", 9),
            }
            for kind, queued, done, failed, joined, waits, busy in rows
        ]

    def attempts(self) -> Rows:
        return [
            {"attempt": attempt}
            | self.ends("sent", 2 * (820 // attempt))
            | self.ends("acknowledged", 2 * (700 // attempt))
            | self.ends("failed", 2 * (820 // attempt - 700 // attempt))
            for attempt in range(1, 7)
        ]

    def deliveries(self) -> Rows:
        return [
            {"endpoint": endpoint, "attempt": attempt, "sent": 820 // attempt}
            | self.interval(820 // attempt)
            | self.ends("acknowledged", 700 // attempt)
            | self.ends("failed", 820 // attempt - 700 // attempt)
            for endpoint in ("ops", "slack")
            for attempt in range(1, 7)
        ]

    def delays(self) -> Rows:
        quantiles = {0.5: 0.2 * SECOND, 0.95: 66 * SECOND, 0.99: 6 * HOUR, 1.0: 0.7 * DAY}
        return [
            {"endpoint": endpoint, "quantile": quantile, "delay": delay} | self.interval(delay)
            for endpoint in ("ops", "slack")
            for quantile, delay in quantiles.items()
        ]

    def endpoints(self) -> Rows:
        return [
            {"endpoint": endpoint, "account": "acme"}
            | self.ends("events", 820)
            | self.ends("acknowledged", 790)
            | {"lost": 20}
            | self.interval(20)
            | self.ends("lost_exhausted", 18)
            | self.ends("lost_cancelled", 2)
            | self.ends("lost_suppressed", 0)
            | self.ends("pending", 10)
            | self.ends("duplicates", 3)
            | self.ends("disabled", 1)
            | {"disabled_at": START + DAY, "disabled_at_low": None, "disabled_at_high": None}
            | {"disabled_in": 1, "reason": "20 consecutive failures"}
            for endpoint in ("ops", "slack")
        ]

    def delivering(self) -> Rows:
        return [
            {"t": START + hour * HOUR, "endpoint": endpoint, "acknowledged": good, "failed": bad}
            | {"delay": delay, "lost": lost}
            for endpoint in ("ops", "slack")
            for hour, good, bad, delay, lost in (
                (3, 9, 0, 200 * MILLISECOND, 0),
                (25, 0, 12, 16.8 * HOUR, 20 if endpoint == "ops" else 0),
                (43, 4, 0, None, 0),
            )
        ]

    def outages(self) -> Rows:
        day = {"t": START + 20 * HOUR, "until": START + 40 * HOUR}
        return [{"endpoint": "ops", **day, "share": 1}, {"endpoint": "slack", **day, "share": 0.5}]
