"""What a run creates carries its mark, and is removed when the run is over, where the API allows it."""

from __future__ import annotations

from typing import Any

from ranksim.callers.discovery import Reach
from ranksim.callers.manners import pages, politely
from ranksim.callers.steps import Program, Send

MOST_REMOVED = 2_000
"""Resources removed for one key."""


def mark(seed: int) -> str:
    """Return the mark of a run: what its hosts, names and Idempotency-Keys begin with."""
    return f"ranksim-{seed % (1 << 48):x}"


def remove_created(reach: Reach, seed: int, receiver: str = "") -> Program:
    """Remove what the run created: scans, endpoints, lists, then domains, and keywords with them.

    Only what carries the run's mark is touched, and endpoints whose URL begins with `receiver`, where the
    run's receiver was reached. Slots of what is removed stay held to the month's end (S26).
    """
    ours = mark(seed) + "-"
    for key in reach.usable():
        if key.purpose == "scoped":
            continue
        domains = yield from _found(reach, key.name, "domains.list")
        hosts = [one for one in domains if ours in str(one.get("host", ""))]
        within = {str(one.get("id")) for one in hosts}
        for kind in ("scans", "webhooks", "keyword_lists"):
            found = yield from _found(reach, key.name, f"{kind}.list")
            for one in found:
                url = str(one.get("url", ""))
                named = str(one.get("name") or "").startswith(ours) or ours in url
                heard = bool(receiver) and url.startswith(receiver)
                if named or heard or str(one.get("domain_id")) in within:
                    yield from _remove(key.name, kind, one)
        for one in hosts:
            yield from _remove(key.name, "domains", one)


def _found(reach: Reach, key: str, operation: str) -> Any:
    if not reach.can(operation, key):
        return []
    items = yield from pages(Send(operation, key))
    return [item for item in items if isinstance(item, dict) and "id" in item][:MOST_REMOVED]


def _remove(key: str, kind: str, item: dict[str, Any]) -> Program:
    yield from politely(Send(f"{kind}.delete", key, path={"id": str(item["id"])}))
