"""Bodies that forms for the control API begin with, by command."""

from __future__ import annotations

from typing import Any

BODIES: dict[str, dict[str, Any]] = {
    "set_clock": {"clock": "manual"},
    "advance": {"by": "36m"},
    "fork": {"name": "before"},
    "save": {"name": "before"},
    "put_snapshot": {},
    "open_account": {"name": "acme", "plan": "starter"},
    "change_account": {"plan": "pro"},
    "issue_key": {"account_id": "", "name": "second"},
    "set_limits": {"rate": False, "cooldown": False},
    "add_fault": {"operation": "jobs.*", "latency": "250ms", "error_rate": 0.1},
    "count_requests": {"operation": "jobs.create"},
    "verify_requests": {"expected": {"operation": "jobs.create"}, "times": 1},
    "near_misses": {"expected": {"operation": "jobs.create", "body": {"kind": "crawl"}}},
    "finish_job": {"outcome": "failed", "error": "robots.txt forbids the crawl"},
    "trigger": {"event": "job.failed"},
}
"""A body for each command that takes one."""
