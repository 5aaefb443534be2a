"""The shapes of an answer: a single resource, a collection, nothing; and the page of a list (S8-S11)."""

from collections.abc import Callable, Mapping, Sequence

from ranksim.core.contract.views import NoticeView
from ranksim.core.rules.paging import Id, bind, decode, encode, page_limit, take_page
from ranksim.core.service.calls import Body, Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.errors import problem


def single(body: Mapping[str, object], status: int = 200, outcome: str = "ok") -> Reply:
    """Answer with one resource under `data` (S8)."""
    return Reply(status, {"data": body}, {}, "", 0, outcome)  # by position, which is half as dear as by name


def collection(
    items: Sequence[Mapping[str, object]] | None, next_cursor: str | None, notice: NoticeView | None = None
) -> Reply:
    """Answer with a page: `data`, `has_more`, `next_cursor` (null on the last page, S9); a notice (S10).

    Without `items` nobody will look at them.
    """
    body: Body = {} if items is None else {"data": items}
    body["has_more"] = next_cursor is not None
    body["next_cursor"] = next_cursor
    if notice is not None:
        body["notice"] = notice
    return Reply(200, body)


def nothing(status: int) -> Reply:
    """Answer without a body (204)."""
    return Reply(status, None)


# Lists


def filters_of(request: Request, *names: str) -> dict[str, str]:
    """Return the filters of these names that a call sent."""
    query = request.call.query
    return {name: query[name] for name in names if name in query}


def paged(
    ctx: Context,
    request: Request,
    ids: Sequence[Id],
    filters: Mapping[str, str],
    keep: Callable[[Id], bool] | None,
    show: Callable[[Id], Mapping[str, object]],
    notice: NoticeView | None = None,
) -> Reply:
    """Answer a list call with the page that it asks for (S9, S30, S31, S43-S46).

    `ids` ascend in order of creation. `filters` are those sent that the operation knows (`filters_of`);
    `keep` gets an id and must apply them, and the scope of the key, on every page anew (E41), or is None to
    keep all. `show` makes an item; nobody makes one where the driver will not read the page.
    """
    query = request.call.query
    policy = ctx.policy
    limit = page_limit(query.get("limit"), policy.facts, policy.assumptions)
    if limit is None:
        expected = f"a whole number from 1 to {policy.facts.page_max}"
        meta = {"errors": [{"field": "limit", "expected": expected}]}
        return problem(policy, "validation_failed", f"limit is {expected}.", meta)
    digest = ""
    after: Id | None = None
    if "cursor" in query:
        digest = bind(request.call.operation, request.account.id, filters)
        anchor = decode(query["cursor"], digest)
        if anchor is None:
            detail = "The cursor is malformed or belongs to a query with other filters."
            return problem(policy, "invalid_cursor", detail)
        if ids:
            after = type(ids[0])(anchor)
    graphql = request.call.surface == "graphql"
    page, next_after = take_page(ids, after, limit, keep, items=request.reads or graphql)
    if not digest and (graphql or next_after is not None):
        digest = bind(request.call.operation, request.account.id, filters)
    next_cursor = None if next_after is None else encode(str(next_after), digest)
    reply = collection([show(item) for item in page] if request.reads else None, next_cursor, notice)
    if graphql:
        reply.cursors = [encode(str(item), digest) for item in page]
    return reply
