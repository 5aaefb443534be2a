"""Deviations of idempotency (S28, S47, S48, S111), paging (S9, S43-S46) and jobs (S13-S16)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from deviating.kit import HOUR, Deviation, Patch
from ranksim.core.rules import idempotency, paging
from ranksim.core.rules.paging import Id
from ranksim.core.service import jobs, replies
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Request
from ranksim.core.service.operations import Operation
from ranksim.core.service.service import Service
from ranksim.core.service.state import Stored

# Idempotency


def executed_again(
    when: Callable[[Service, Stored, Request, Operation], bool],
) -> Callable[[Patch], None]:
    """Run the handler once more where a stored reply should have decided."""

    def apply(patch: Patch) -> None:
        execute_once = Service._execute_once

        def again(self: Service, request: Request, operation: Operation, owner: str, index: int) -> Reply:
            name = f"{owner} {index} {idempotency.unquoted(request.call.idempotency_key or '')}"
            entry = self.state.stored.get(name)
            if entry is not None and when(self, entry, request, operation):
                return operation.handler(self._ctx, request)
            return execute_once(self, request, operation, owner, index)

        patch.setattr(Service, "_execute_once", again)

    return apply


def _differs(service: Service, entry: Stored, request: Request, operation: Operation) -> bool:
    call = request.call
    said = service.policy.assumptions
    print_ = idempotency.fingerprint(call.operation, call.path, call.query, call.body, call.raw, said)
    return print_ != entry.fingerprint


def _replayed(change: Callable[[Service, Any], None]) -> Callable[[Patch], None]:
    """Change what is replayed."""

    def apply(patch: Patch) -> None:
        repeat = Service._repeat

        def repeated(self: Service, entry: Stored, print_: str, now: int) -> Reply:
            reply = repeat(self, entry, print_, now)
            data = (reply.body or {}).get("data")
            if reply.outcome == "replayed" and isinstance(data, dict):
                reply.body = json.loads(json.dumps(reply.body))
                change(self, reply.body["data"])
            return reply

        patch.setattr(Service, "_repeat", repeated)

    return apply


def _new_id(service: Service, data: Any) -> None:
    if "id" in data:
        data["id"] += "x"


def _as_it_is_now(service: Service, data: Any) -> None:
    job = service.state.jobs.get(str(data.get("id")))
    if job is not None:
        data["status"] = "running" if job.status == "queued" else job.status
        data["progress"] = min(100, data["progress"] + 1)


def body_ignored(patch: Patch) -> None:
    """Replay the first reply to any body."""
    patch.setattr(idempotency, "fingerprint", lambda *_: "the same")


# Paging


def by_offset(patch: Patch) -> None:
    """Let a cursor say how many items to skip."""

    def walk(
        ids: Sequence[Id],
        after: Id | None,
        limit: int,
        keep: Callable[[Id], bool] | None = None,
        *,
        items: bool = True,
    ) -> tuple[list[Id], Any]:
        kept = [one for one in ids if keep is None or keep(one)]
        said = str(after or 0)  # of a connection of GraphQL the cursor is an item's
        start = int(said) if said.isdigit() else bisect_right(kept, said, key=str)
        page = kept[start : start + limit]
        return page, str(start + limit) if start + limit < len(kept) else None

    patch.setattr(replies, "take_page", walk)


def from_a_lost_anchor(patch: Patch) -> None:
    """Begin anew where the item of the cursor is gone."""

    def walk(
        ids: Sequence[Id],
        after: Id | None,
        limit: int,
        keep: Callable[[Id], bool] | None = None,
        *,
        items: bool = True,
    ) -> tuple[list[Id], Id | None]:
        return paging.take_page(ids, after if after in ids else None, limit, keep)

    patch.setattr(replies, "take_page", walk)


def newest_first(patch: Patch) -> None:
    """Skip one item at each turn of the page."""

    def walk(
        ids: Sequence[Id],
        after: Id | None,
        limit: int,
        keep: Callable[[Id], bool] | None = None,
        *,
        items: bool = True,
    ) -> tuple[list[Id], Id | None]:
        page, following = paging.take_page(ids, after, limit, keep)
        if following is None:
            return page, None
        return page, paging.take_page(ids, following, 1, keep)[0][0]

    patch.setattr(replies, "take_page", walk)


def filters_ignored(patch: Patch) -> None:
    """Accept a cursor under any filters."""

    def bind(operation: str, account: str, filters: Mapping[str, str]) -> str:
        return paging.bind(operation, account, {})

    patch.setattr(replies, "bind", bind)


def always_more(patch: Patch) -> None:
    """Say that there is more on the last page too."""
    collection = replies.collection

    def said(*given: Any) -> Reply:
        reply = collection(*given)
        assert reply.body is not None
        reply.body["has_more"] = True
        return reply

    patch.setattr(replies, "collection", said)


def cursor_good_once(patch: Patch) -> None:
    """Refuse every seventh cursor, as one that expires does."""
    number = count(1)

    def decode(cursor: str, query_digest: str) -> str | None:
        return paging.decode(cursor, query_digest) if next(number) % 7 else None

    patch.setattr(replies, "decode", decode)


# Jobs


def shown(change: Callable[[Any, int], None]) -> Callable[[Patch], None]:
    """Change how jobs are shown."""

    def apply(patch: Patch) -> None:
        show, number = jobs.show_job, count()

        def changed(*given: Any) -> Any:
            body = show(*given)
            change(body, next(number))
            return body

        patch.setattr(jobs, "show_job", changed)

    return apply


def _goes_back(body: Any, number: int) -> None:
    if body["status"] in ("done", "failed") and number % 3 == 0:
        body.update(status="running", finished_at=None, error_detail=None, progress=99)


def _no_reason(body: Any, number: int) -> None:
    body["error_detail"] = None


def _another_kind(body: Any, number: int) -> None:
    body["kind"] = "crawl" if body["kind"] == "ai_scan" else body["kind"]


REPEATS = (
    Deviation(
        "idempotency-doubled-in-flight",
        (47,),
        ("retry",),
        executed_again(lambda service, entry, request, operation: entry.in_flight),
    ),
    Deviation("replay-with-a-new-id", (47,), ("retry",), _replayed(_new_id)),
    Deviation("replay-shows-the-present", (47,), ("retry",), _replayed(_as_it_is_now)),
    Deviation("mismatch-executed", (48,), ("retry",), executed_again(_differs)),
    Deviation("mismatch-replayed", (48,), ("retry",), body_ignored),
    Deviation(
        "keys-ignored-for-labels",
        (28, 47),
        ("retry",),
        executed_again(lambda service, entry, request, operation: operation.name == "labels.create"),
    ),
    Deviation(
        "keys-ignored-for-tests",
        (28, 47),
        ("retry",),
        executed_again(lambda service, entry, request, operation: operation.name == "webhooks.test"),
    ),
    Deviation("retention-1h", (47, 111), ("retry",), promises={"idempotency_retention": HOUR}, time_scale=60),
    Deviation("offset-paging", (46,), ("walk",), by_offset),
    Deviation("anchor-gone-begins-anew", (46,), ("walk",), from_a_lost_anchor),
    Deviation("an-item-skipped-at-each-page", (46,), ("walk",), newest_first),
    Deviation("page-limit-201", (43,), ("walk",), promises={"page_max": 201}),
    Deviation("page-default-51", (43,), ("walk",), promises={"page_default": 51}),
    Deviation("page-default-20", (43,), ("walk",), promises={"page_default": 20}),
    Deviation("cursor-good-under-other-filters", (45,), ("walk",), filters_ignored),
    Deviation("has-more-on-the-last-page", (9, 44), ("walk",), always_more),
    Deviation("cursors-expire", (44,), ("walk",), cursor_good_once),
    Deviation("job-goes-back", (16,), ("everyday", "webhooks"), shown(_goes_back)),
    Deviation("failed-without-a-reason", (15,), ("everyday", "webhooks"), shown(_no_reason)),
    Deviation("job-of-another-kind", (14, 34), ("everyday", "webhooks"), shown(_another_kind)),
)
