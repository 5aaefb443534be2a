"""What a run creates carries its mark, and is removed when the run is over, where the API allows it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ranksim.callers.discovery import Reach
from ranksim.callers.manners import pages, politely
from ranksim.callers.steps import Pause, Received, Send
from ranksim.clock import DISTANT_FUTURE, Micros

MOST_REMOVED = 2_000
"""Resources removed for one key."""


def mark(seed: int) -> str:
    """Return the mark of a run: what its hosts, names and Idempotency-Keys begin with."""
    return f"ranksim-{seed % (1 << 48):x}"


def remove_created(
    reach: Reach, seeds: Sequence[int], receiver: str = "", until: Micros = DISTANT_FUTURE
) -> Generator[Any, Any, list[str]]:
    """Remove what a run created: domains, and what a deployment keeps of them or was made beside.

    Only what carries a mark of the run is touched, one for each of its `seeds`, and endpoints whose URL
    begins with `receiver`, where the run's receiver was reached. Slots of what is removed stay held to the
    month's end (S26). After `until`, an instant of the recorder's clock, nothing more is removed. Return in
    words what could not be removed, or not be looked for.
    """
    ours, left, keys = tuple(f"{mark(seed)}-" for seed in seeds), list[str](), set[tuple[str, str]]()
    for key in reach.usable():
        if key.purpose == "scoped" or (key.account and (key.environment, key.account) in keys):
            continue
        keys.add((key.environment, key.account))
        domains = yield from _found(reach, key.name, "domains.list", left)
        hosts = [one for one in domains if _carries(ours, one.get("host"))]
        within = {str(one.get("id")) for one in hosts}
        kept = list[dict[str, Any]]()
        for one in hosts:
            if (yield from _remove(key.name, "domains", one, until)):
                kept.append(one)
        for kind in ("scans", "webhooks", "keyword_lists"):
            found = yield from _found(reach, key.name, f"{kind}.list", left)
            for one in found:
                url = str(one.get("url", ""))
                named = str(one.get("name") or "").startswith(ours) or _carries(ours, url)
                heard = bool(receiver) and url.startswith(receiver)
                if named or heard or str(one.get("domain_id")) in within:
                    left += yield from _remove(key.name, kind, one, until)
        for one in kept:  # what was in its way is gone now
            left += yield from _remove(key.name, "domains", one, until)
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


def _remove(key: str, kind: str, item: dict[str, Any], until: Micros) -> Generator[Any, Any, list[str]]:
    """Remove one thing; return in words that it was left, and why, or nothing."""
    now: Micros = yield Pause(0)
    if now > until:
        return [f"{kind} {item['id']} with the key {key}: there was no time left"]
    answer: Received = yield from politely(Send(f"{kind}.delete", key, path={"id": str(item["id"])}))
    if answer.ok or answer.status in (404, 410):
        return []
    return [f"{kind} {item['id']} with the key {key}: {_answered(answer)}"]


def _answered(answer: Received) -> str:
    return f"{answer.status} {answer.code}".strip() if answer.status else answer.error or "no reply"
