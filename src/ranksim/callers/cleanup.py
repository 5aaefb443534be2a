"""What a run creates carries its mark, and is removed when the run is over, where the API allows it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ranksim.callers.discovery import Reach
from ranksim.callers.manners import pages, politely
from ranksim.callers.steps import Program, Received, Send

MOST_REMOVED = 2_000
"""Resources removed for one key."""


def mark(seed: int) -> str:
    """Return the mark of a run: what its hosts, names and Idempotency-Keys begin with."""
    return f"ranksim-{seed % (1 << 48):x}"


def remove_created(reach: Reach, seeds: Sequence[int], receiver: str = "") -> Generator[Any, Any, list[str]]:
    """Remove what a run created: scans, endpoints, lists, then domains, and keywords with them.

    Only what carries a mark of the run is touched, one for each of its `seeds`, and endpoints whose URL
    begins with `receiver`, where the run's receiver was reached. Slots of what is removed stay held to the
    month's end (S26). Return in words what could not be removed, or not be looked for.
    """
    ours, left = tuple(f"{mark(seed)}-" for seed in seeds), list[str]()
    for key in reach.usable():
        if key.purpose == "scoped":
            continue
        domains = yield from _found(reach, key.name, "domains.list", left)
        hosts = [one for one in domains if _carries(ours, one.get("host"))]
        within = {str(one.get("id")) for one in hosts}
        for kind in ("scans", "webhooks", "keyword_lists"):
            found = yield from _found(reach, key.name, f"{kind}.list", left)
            for one in found:
                url = str(one.get("url", ""))
                named = str(one.get("name") or "").startswith(ours) or _carries(ours, url)
                heard = bool(receiver) and url.startswith(receiver)
                if named or heard or str(one.get("domain_id")) in within:
                    yield from _remove(key.name, kind, one, left)
        for one in hosts:
            yield from _remove(key.name, "domains", one, left)
    return left


def _carries(marks: Sequence[str], text: Any) -> bool:
    return any(one in str(text or "") for one in marks)


def _found(reach: Reach, key: str, operation: str, left: list[str]) -> Any:
    if not reach.can(operation, key):
        return []
    first: Received = yield from politely(Send(operation, key, query={"limit": "1"}))
    if not first.ok:
        left.append(f"{operation} with the key {key}: {_answered(first)}, so nothing was looked for there")
        return []
    items = yield from pages(Send(operation, key))
    return [item for item in items if isinstance(item, dict) and "id" in item][:MOST_REMOVED]


def _remove(key: str, kind: str, item: dict[str, Any], left: list[str]) -> Program:
    answer: Received = yield from politely(Send(f"{kind}.delete", key, path={"id": str(item["id"])}))
    if not answer.ok and answer.status not in (404, 410):
        left.append(f"{kind} {item['id']} with the key {key}: {_answered(answer)}")


def _answered(answer: Received) -> str:
    return f"{answer.status} {answer.code}".strip() if answer.status else answer.error or "no reply"
