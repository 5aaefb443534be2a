"""Pages, cursors and walks."""

from typing import Any

import pytest
from tests.kit.traces import HOUR, Entry, a_trace, call, found, judged, policy_of

from ranksim.judge.conformance.calls import pages, pagination
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.exhibits import exhibits
from ranksim.judge.conformance.report.as_dict import judgement_data

ONCE, COMPLETE, CURSOR, WALK = pages.ONCE, pages.COMPLETE, pages.CURSOR, pages.WALK
LIST_1, LIST_2 = {"list_id": "l1"}, {"list_id": "l2"}


def page(
    sent: float, items: str, more: str | None = None, cursor: str | None = None, /, **query: str
) -> Entry:
    """Read a page of keywords, each named by a letter."""
    asked = dict(query) if cursor is None else {**query, "cursor": cursor}
    return call("keywords.list", sent, sent + 1, [{"id": item} for item in items], more=more, query=asked)


def bad(sent: float, cursor: str, status: int = 400, operation: str = "keywords.list", **query: str) -> Entry:
    return call(
        operation, sent, sent + 1, code="invalid_cursor", status=status, query={**query, "cursor": cursor}
    )


def sized(count: int, more: str | None = None, **query: str) -> Entry:
    return call("domains.list", 0, 1, [{"id": str(i)} for i in range(count)], more=more, query=query)


def made(sent: float, items: str, **more: Any) -> Entry:
    data = {"created": [{"id": item, "list_id": "l1"} for item in items]}
    return call("keywords.create", sent, sent + 1, data, body={"list_id": "l1"}, **more)


def patched(sent: float, item: str) -> Entry:
    return call("keywords.update", sent, sent + 1, {"id": item}, path={"id": item}, body={"label_ids": []})


def deleted(sent: float, received: float | None, item: str, **refused: Any) -> Entry:
    how = refused or {"status": 204, "reply": ""}
    return call("keywords.delete", sent, received, path={"id": item}, **how)


NOT_FOUND = {"code": "not_found", "status": 404}
LIST_DELETED = call("keyword_lists.delete", 1, 2, status=204, reply="", path={"id": "l1"})


# Walks that show that list_id chooses: b is there before and after, and not in the list l1.
CHOOSES = [page(-9, "ab"), page(-7, "a", **LIST_1), page(-5, "ab")]

TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "each item once": (ONCE, [page(0, "ab", "c1"), page(2, "cd", None, "c1")], "held"),
    "an item twice": (ONCE, [page(0, "ab", "c1"), page(2, "bc", None, "c1")], "broken"),
    "an item twice on one page": (ONCE, [page(0, "aa")], "broken"),
    "an item in two walks": (ONCE, [page(0, "ab", "c1"), page(2, "ab", "c1")], "held"),
    "an item that was changed meanwhile": (
        ONCE,
        [page(0, "ab", "c1"), patched(2, "b"), page(4, "bc", None, "c1")],
        "held",
    ),
    "an item again, its label chosen by": (
        ONCE,
        [page(0, "ab", "c1", label_id="x"), page(2, "bc", None, "c1", label_id="x")],
        "nothing",
    ),
    "what was there throughout": (COMPLETE, [page(0, "ab"), page(2, "ab"), page(4, "ab")], "held"),
    "left out": (COMPLETE, [page(0, "ab"), page(2, "a"), page(4, "ab")], "broken"),
    "left out on the seam": (
        COMPLETE,
        [page(0, "abc"), page(2, "a", "c1"), page(4, "c", None, "c1"), page(6, "abc")],
        "broken",
    ),
    "left out after its creation": (COMPLETE, [made(0, "b"), page(2, "a"), page(4, "ab")], "broken"),
    "left out of its list": (
        COMPLETE,
        [made(0, "b"), page(2, "a", **LIST_1), page(4, "ab", **LIST_1)],
        "broken",
    ),
    "created meanwhile": (COMPLETE, [page(2, "a"), made(2.5, "b"), page(4, "ab")], "nothing"),
    "deleted": (COMPLETE, [page(0, "ab"), deleted(1, 2, "b"), page(3, "a"), page(5, "a")], "held"),
    "deleted by a call that was lost": (
        COMPLETE,
        [page(0, "ab"), deleted(1, None, "b"), page(9, "ab"), page(11, "a"), page(13, "a")],
        "held",
    ),
    "deleted along with its list": (
        COMPLETE,
        [page(0, "ab"), LIST_DELETED, page(3, "a"), page(5, "a")],
        "held",
    ),
    "deleted twice": (
        COMPLETE,
        [page(0, "ab"), deleted(2, 3, "b"), deleted(4, 5, "b"), page(6, "a")],
        "nothing",
    ),
    "deleted soon": (COMPLETE, [page(0, "ab"), deleted(2, 3, "b", status=202), page(4, "ab")], "nothing"),
    "not found by a key of less scope": (
        COMPLETE,
        [page(0, "ab"), deleted(2, 3, "b", key="scoped", **NOT_FOUND), page(4, "ab")],
        "nothing",
    ),
    "told of again when it is gone": (
        COMPLETE,
        [made(0, "b"), page(2, "ab"), deleted(4, 5, "b"), made(6, "b"), page(8, "a")],
        "nothing",
    ),
    "gone though nothing deleted it": (COMPLETE, [page(0, "ab"), page(2, "a"), page(4, "a")], "broken"),
    "gone though a DELETE of it was refused": (
        COMPLETE,
        [page(0, "ab"), deleted(1, 2, "b", code="forbidden", status=403), page(3, "a"), page(5, "a")],
        "broken",
    ),
    "gone before the one DELETE": (COMPLETE, [page(0, "ab"), page(2, "a"), deleted(4, 5, "b")], "broken"),
    "told of again, and never shown": (COMPLETE, [made(0, "b"), page(2, "a")], "nothing"),
    "shown though it was deleted": (COMPLETE, [page(0, "ab"), deleted(2, 3, "b"), page(4, "ab")], "broken"),
    "shown before and after it was not found": (
        COMPLETE,
        [page(0, "ab"), deleted(2, None, "b"), deleted(4, 5, "b", **NOT_FOUND), page(6, "ab")],
        "broken",
    ),
    "not walked to the end": (COMPLETE, [page(0, "ab"), page(2, "a", "c1"), page(4, "ab")], "nothing"),
    "a walk of which nothing is known": (
        COMPLETE,
        [page(0, "a", "c1"), page(2, "b", None, "c1")],
        "open",
    ),
    "other filters refused": (
        CURSOR,
        [page(0, "a", "c1", **LIST_1), bad(2, "c1", **LIST_2)],
        "held",
    ),
    "other filters accepted": (
        CURSOR,
        [*CHOOSES, page(0, "a", "c1", **LIST_1), page(2, "b", None, "c1", **LIST_2)],
        "broken",
    ),
    "filters dropped": (
        CURSOR,
        [*CHOOSES, page(0, "a", "c1", **LIST_1), page(2, "b", None, "c1")],
        "broken",
    ),
    "a filter that may do nothing": (
        CURSOR,
        [page(0, "a", "c1", **LIST_1), page(2, "b", None, "c1", **LIST_2)],
        "open",
    ),
    "another status": (
        CURSOR,
        [page(0, "a", "c1", **LIST_1), bad(2, "c1", status=422, **LIST_2)],
        "differs 16",
    ),
    "a cursor that other filters gave out, too": (
        CURSOR,
        [
            *CHOOSES,
            page(0, "a", "c1", **LIST_1),
            page(2, "b", "c1", **LIST_2),
            page(4, "d", None, "c1", **LIST_2),
        ],
        "nothing",
    ),
    "a cursor of another list": (
        CURSOR,
        [page(0, "a", "c1"), call("labels.list", 2, 3, [], query={"cursor": "c1"})],
        "differs 36",
    ),
    "returned unchanged": (WALK, [page(0, "a", "c1"), page(2, "b", None, "c1")], "held"),
    "returned with another limit": (
        WALK,
        [page(0, "a", "c1"), page(2, "b", None, "c1", limit="7")],
        "held",
    ),
    "refused though unchanged": (WALK, [page(0, "a", "c1"), bad(2, "c1")], "broken"),
    "refused with another limit": (WALK, [page(0, "a", "c1"), bad(2, "c1", limit="7")], "differs 35"),
    "refused after hours": (WALK, [page(0, "a", "c1"), bad(2 * HOUR, "c1")], "differs 36"),
    "refused for its rate": (
        WALK,
        [page(0, "a", "c1"), call("keywords.list", 2, 3, code="rate_limited", query={"cursor": "c1"})],
        "nothing",
    ),
    "fifty": (pages.LIMIT, [sized(50)], "held"),
    "fifty-one": (pages.LIMIT, [sized(51)], "broken"),
    "seven of seven": (pages.LIMIT, [sized(7, limit="7")], "held"),
    "eight of seven": (pages.LIMIT, [sized(8, limit="7")], "broken"),
    "200 of 1000": (pages.LIMIT, [sized(200, limit="1000")], "held"),
    "201 of 1000": (pages.LIMIT, [sized(201, limit="1000")], "broken"),
    "1000 refused": (
        pages.LIMIT,
        [call("domains.list", 0, 1, code="validation_failed", status=422, query={"limit": "1000"})],
        "differs 34",
    ),
    "none asked for, some given": (pages.LIMIT, [sized(50, limit="0")], "differs 34"),
    "the end": (pages.END, [sized(3)], "held"),
    "more, and no cursor": (
        pages.END,
        [call("domains.list", 0, 1, reply={"data": [], "has_more": True, "next_cursor": None})],
        "broken",
    ),
    "no more, and a cursor": (
        pages.END,
        [call("domains.list", 0, 1, reply={"data": [], "has_more": False, "next_cursor": "c"})],
        "broken",
    ),
    "an empty last page": (pages.END, [page(0, "a", "c1"), page(2, "", None, "c1")], "differs 38"),
    "an empty last page after a removal": (
        pages.END,
        [page(0, "a", "c1"), deleted(1, None, "b"), page(2, "", None, "c1")],
        "held",
    ),
}


@pytest.mark.fact("S9", "S31", "S43", "S44", "S45", "S46", "E39", "E40")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_paging(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(pagination, entries), rule) == expected


@pytest.mark.fact("S46")
def test_what_others_may_have_deleted_may_be_gone() -> None:
    entries = [page(0, "ab"), page(2, "a"), page(4, "a")]
    assert found(judged(pagination, entries, exclusive=False), COMPLETE) == "held"
    entries += [page(6, "ab")]
    assert found(judged(pagination, entries, exclusive=False), COMPLETE) == "broken"


@pytest.mark.fact("S46")
def test_evidence_of_an_item_is_what_cannot_all_be_right() -> None:
    pages = [page(0, "ab"), page(2, "ab"), page(4, "a", "c1"), page(6, "", None, "c1"), page(8, "ab")]
    [finding] = [one for one in judged(pagination, pages).findings() if one.rule.name == COMPLETE]
    [evidence] = finding.evidence
    assert evidence.exchanges == ("x1", "x3", "x4")
    says = (
        "b is shown by x1, then left out of the walk from x3 to x4, and nothing deleted it; x5 shows it again"
    )
    assert (evidence.says, evidence.between) == (says, ("x5",))


MOVED = [page(0, "abcd"), page(2, "ab", "c1"), deleted(4, 5, "a"), page(6, "d", None, "c1"), page(9, "bcd")]
PUSHED = [page(0, "ab", "c1"), made(2, "z"), page(4, "bc", None, "c1")]
WITHDRAWN = [page(0, "ab", "c1"), deleted(2, 3, "b"), bad(4, "c1")]


@pytest.mark.fact("S44", "S46")
@pytest.mark.parametrize(
    ("rule", "entries", "says", "between"),
    [
        (COMPLETE, MOVED, "; x5 shows it again; x3 deleted a between x2 and x4", ("x3", "x5")),
        (ONCE, PUSHED, "x2 created z between x1 and x3", ("x2",)),
        (ONCE, [PUSHED[0], made(3.5, "z"), PUSHED[2]], "x2 created z about x1 and x3", ("x2",)),
        (ONCE, [PUSHED[0], deleted(2, 3, "a"), made(2, "z"), PUSHED[2]], "x3 created z between", ("x3",)),
        (COMPLETE, [*MOVED[:2], made(3.5, "z"), *MOVED[2:]], "x4 deleted a between", ("x4", "x6")),
        (ONCE, [PUSHED[0], deleted(2, None, "a"), PUSHED[2]], "by x3 of one walk", ()),
        (ONCE, [PUSHED[0], deleted(2, 3, "a", **NOT_FOUND), PUSHED[2]], "by x3 of one walk", ()),
        (WALK, WITHDRAWN, "x2 deleted b between x1 and x3", ("x2",)),
    ],
)
def test_the_write_between_the_pages_stands_beside_them(
    rule: str, entries: list[Entry], says: str, between: tuple[str, ...]
) -> None:
    [piece] = [one for name, one in judged(pagination, entries).breaches().items() if name == rule]
    assert (says in piece.says, piece.between) == (True, between)
    assert not {*piece.between} & {*piece.exchanges}


def test_what_came_between_is_shown_in_order_of_time() -> None:
    recorded = a_trace(MOVED)
    judgement = compare(recorded)
    told = judgement_data(judgement, exhibits=exhibits([recorded], judgement))
    [rule] = [rule for rule in told["rules"] if rule["name"] == COMPLETE]
    piece = rule["evidence"][0]
    assert (piece["exchanges"], piece["between"]) == (["x1", "x2", "x3", "x4", "x5"], ["x3", "x5"])
    assert told["exhibits"]["x3"]["method"] == "DELETE"
    assert "curl" in told["exhibits"]["x3"]


@pytest.mark.fact("S46")
def test_a_thousand_calls_that_meet_are_told_or_open() -> None:
    """Pages with and without an item, and DELETEs of it, all at once: anything may be the case in between."""
    meet = [page(5 + number / 1e5, "ab" if number % 2 else "a") for number in range(700)]
    meet += [deleted(5 + number / 1e5, 6, "b", **({} if number % 2 else NOT_FOUND)) for number in range(300)]
    entries = [page(0, "ab"), *sorted(meet, key=lambda entry: entry.sent), page(8, "a"), page(10, "a")]
    assert found(judged(pagination, entries), COMPLETE) == "held"
    again = [*entries, page(12, "ab")]
    assert found(judged(pagination, again), COMPLETE) == "broken"


@pytest.mark.parametrize(
    ("policy", "rule", "entries"),
    [
        (
            policy_of(page_limit_over="clamp"),
            pages.LIMIT,
            [call("domains.list", 0, 1, code="validation_failed", status=422, query={"limit": "1000"})],
        ),
        (
            policy_of(statuses={"invalid_cursor": 400}),
            CURSOR,
            [page(0, "a", "c1", **LIST_1), bad(2, "c1", status=422, **LIST_2)],
        ),
    ],
)
def test_what_a_policy_pins_is_a_deviation(policy: Any, rule: str, entries: list[Entry]) -> None:
    assert found(judged(pagination, entries, policy), rule) == "broken"
