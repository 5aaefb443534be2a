"""The shapes of an answer: single resource, collection, problem (S8, S9, S11, S94)."""

from collections.abc import Mapping, Sequence

from ranksim.core.contract.views import NoticeView
from ranksim.core.service.calls import Body, Reply


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
