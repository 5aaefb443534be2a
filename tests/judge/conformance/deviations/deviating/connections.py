"""Deviations of lists and jobs over GraphQL alone (S4, S43-S46, S70): those of REST are as they should be."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from deviating.kit import Alter, Deviation, Handler, Headers, Patch, handled, nothing
from deviating.repeats import by_offset, filters_ignored, newest_first
from ranksim.core.callers.steps import Send
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import Facts
from ranksim.core.rules import admission, paging
from ranksim.core.rules.paging import Id
from ranksim.core.service import replies
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request


def over_graphql(
    broken: Callable[[Patch], None], operation: str = "keywords.list"
) -> Callable[[Patch], None]:
    """Break an operation for calls over GraphQL; the `endCursor` is what a page continues by."""

    def around(handler: Handler, ctx: Context, request: Request) -> Reply:
        if request.call.surface != "graphql":
            return handler(ctx, request)
        with Patch.context() as patch:
            broken(patch)
            reply = handler(ctx, request)
        following = reply.body.get("next_cursor") if reply.body is not None else None
        if following is not None:
            reply.cursors = [*reply.cursors[:-1], following]
        return reply

    return handled(operation, around)


def without_check(check: str) -> Callable[[Patch], None]:
    """Leave a check out where a job is asked for over GraphQL."""
    return over_graphql(lambda inner: inner.setattr(admission, check, lambda *_: False), "jobs.create")


def sized(change: Callable[[str | None, int], int]) -> Callable[[Patch], None]:
    """Give pages of other sizes: `change` is given what was asked for, and the right size."""

    def broken(patch: Patch) -> None:
        def page_limit(text: str | None, facts: Facts, assumptions: Assumptions) -> int | None:
            limit = paging.page_limit(text, facts, assumptions)
            return None if limit is None else change(text, limit)

        patch.setattr(replies, "page_limit", page_limit)

    return over_graphql(broken)


def cursor_good_once(patch: Patch) -> None:
    """Refuse every seventh cursor, as one that expires does."""
    number = count(1)

    def decode(cursor: str, query_digest: str) -> str | None:
        return paging.decode(cursor, query_digest) if next(number) % 7 else None

    over_graphql(lambda inner: inner.setattr(replies, "decode", decode))(patch)


def the_whole_account(handler: Handler, ctx: Context, request: Request) -> Reply:
    """List the domains of a scoped key's account."""
    scope = request.scope if request.call.surface == "rest" else None
    return handler(ctx, replace(request, scope=scope))


def the_last_again(patch: Patch) -> None:
    """Begin each further page with the last item of the one before."""

    def walk(
        ids: Sequence[Id],
        after: Id | None,
        limit: int,
        keep: Callable[[Id], bool] | None = None,
        *,
        items: bool = True,
    ) -> tuple[list[Id], Id | None]:
        shown = [one for one in ids if (keep is None or keep(one)) and after is not None and one <= after]
        return paging.take_page(ids, shown[-2] if len(shown) > 1 else after, limit, keep)

    patch.setattr(replies, "take_page", walk)


def told(change: Callable[[Any], None]) -> Alter:
    """Change the pageInfo of connections."""

    def alter(send: Send, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
        data = json.loads(body).get("data") if send.surface == "graphql" and status == 200 else None
        if not data:
            return status, headers, body
        for shown in data.values():
            if isinstance(shown, dict) and "pageInfo" in shown:
                change(shown["pageInfo"])
        text = json.dumps({"data": data}).encode()
        headers["content-length"] = str(len(text))
        return status, headers, text

    return alter


def _no_cursor(told: Any) -> None:
    told["endCursor"] = None


def _no_more(told: Any) -> None:
    told["hasNextPage"] = False


OVER_GRAPHQL = (
    Deviation("graphql-first-and-one", (43,), ("walk",), sized(lambda text, size: size + (text is not None))),
    Deviation("graphql-page-default-51", (43,), ("walk",), sized(lambda text, size: size + (text is None))),
    Deviation("graphql-page-default-20", (43,), ("walk",), sized(lambda text, size: size if text else 20)),
    Deviation("graphql-page-limit-201", (43,), ("walk",), sized(lambda text, size: size + (size == 200))),
    Deviation("graphql-cursors-expire", (44,), ("walk",), cursor_good_once),
    Deviation("graphql-no-end-cursor", (44,), ("walk",), nothing, told(_no_cursor)),
    Deviation("graphql-ends-early", (46,), ("walk",), nothing, told(_no_more)),
    Deviation("graphql-cursor-good-under-other-filters", (45,), ("walk",), over_graphql(filters_ignored)),
    Deviation("graphql-an-item-twice", (46,), ("walk",), over_graphql(the_last_again)),
    Deviation("graphql-an-item-skipped", (46,), ("walk",), over_graphql(newest_first)),
    Deviation(
        "graphql-scoped-key-lists-others", (70,), ("scope",), handled("domains.list", the_whole_account)
    ),
    Deviation("graphql-offset-paging", (46,), ("walk",), over_graphql(by_offset)),
    Deviation("graphql-spends-past-due", (4, 61), ("ladder",), without_check("is_inactive")),
    Deviation("graphql-spends-without-capability", (4, 60), ("ladder",), without_check("lacks_capability")),
    Deviation("graphql-spends-at-the-ceiling", (4, 62), ("ladder",), without_check("over_ceiling")),
    Deviation("graphql-runs-while-cooling", (4, 65), ("ladder",), without_check("is_cooling")),
)
