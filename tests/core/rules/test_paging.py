"""Page sizes, cursors bound to their query, and walks while others write."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import Facts
from ranksim.core.rules.paging import bind, decode, encode, page_limit, take_page

FACTS = Facts()
CLAMP = Assumptions()
REFUSE = Assumptions(page_limit_over="refuse")


def everything(_: object) -> bool:
    return True


@pytest.mark.fact("S43", "U34")
@pytest.mark.parametrize(
    ("text", "clamped", "refused"),
    [
        (None, 50, 50),
        ("1", 1, 1),
        ("007", 7, 7),
        ("200", 200, 200),
        ("201", 200, None),
        ("9" * 10_000, 200, None),
        ("0", None, None),
        ("-1", None, None),
        ("", None, None),
        ("ten", None, None),
        ("1.0", None, None),
        ("1_0", None, None),
        (" 5", None, None),
        ("+5", None, None),
        ("٣", None, None),
        ("5\n", None, None),
    ],
)
def test_limit(text: str | None, clamped: int | None, refused: int | None) -> None:
    assert page_limit(text, FACTS, CLAMP) == clamped
    assert page_limit(text, FACTS, REFUSE) == refused


DIGEST = bind("keywords.list", "acc_1", {"list_id": "kwl_1", "domain_id": "dom_1"})


@pytest.mark.fact("S45", "U36")
@pytest.mark.parametrize(
    ("operation", "account", "filters", "accepted"),
    [
        ("keywords.list", "acc_1", {"domain_id": "dom_1", "list_id": "kwl_1"}, True),
        ("keywords.list", "acc_1", {"domain_id": "dom_1", "list_id": "kwl_2"}, False),
        ("keywords.list", "acc_1", {"domain_id": "dom_1"}, False),
        ("keywords.list", "acc_1", {"domain_id": "kwl_1", "list_id": "dom_1"}, False),
        ("keywords.list", "acc_1", {}, False),
        ("labels.list", "acc_1", {"domain_id": "dom_1", "list_id": "kwl_1"}, False),
        ("keywords.list", "acc_2", {"domain_id": "dom_1", "list_id": "kwl_1"}, False),
    ],
)
def test_a_cursor_belongs_to_its_query(
    operation: str, account: str, filters: dict[str, str], accepted: bool
) -> None:
    cursor = encode("kw_0000000042", DIGEST)
    assert decode(cursor, bind(operation, account, filters)) == ("kw_0000000042" if accepted else None)


def test_filters_cannot_be_glued_into_each_other() -> None:
    assert bind("o", "a", {"x": "1", "y": "2"}) != bind("o", "a", {"x": "11:y1:2"})
    assert bind("o", "a", {"x": "", "y": "1"}) != bind("o", "a", {"x": "1", "y": ""})


@pytest.mark.fact("U36", "U100")
@pytest.mark.parametrize(
    "cursor", ["", " ", "a", "kw_0000000042", "AAAA", "=", "%%%", "é", "A" * 17, "A" * 10_000, "null"]
)
def test_a_malformed_cursor_is_refused(cursor: str) -> None:
    assert decode(cursor, DIGEST) is None


@pytest.mark.fact("U36")
@given(st.data())
def test_a_cursor_with_anything_changed_is_refused(data: st.DataObject) -> None:
    cursor = encode("kw_0000000042", DIGEST)
    place = data.draw(st.integers(0, len(cursor)))
    other = data.draw(st.text(alphabet="ABCXYZabcxyz0189-_=+/ \n", max_size=3))
    changed = cursor[:place] + other + cursor[place + data.draw(st.integers(0, 2)) :]
    assert decode(changed, DIGEST) == ("kw_0000000042" if changed == cursor else None)


def test_a_cursor_cannot_be_moved_to_another_id() -> None:
    content = urlsafe_b64decode(encode("kw_0000000042", DIGEST) + "==")
    moved = urlsafe_b64encode(content.replace(b"42", b"41")).decode().rstrip("=")
    assert decode(moved, DIGEST) is None


@given(st.text(max_size=40), st.text(max_size=20))
def test_a_cursor_is_url_safe_and_reads_back(after: str, query: str) -> None:
    cursor = encode(after, query)
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert decode(cursor, query) == after


@pytest.mark.fact("S9", "U38", "E40")
@pytest.mark.parametrize(
    ("count", "limit", "pages"),
    [
        (0, 3, [0]),
        (1, 3, [1]),
        (3, 3, [3]),
        (4, 3, [3, 1]),
        (6, 3, [3, 3]),
        (7, 3, [3, 3, 1]),
        (2, 1, [1, 1]),
    ],
)
def test_the_last_page_says_that_it_is_the_last(count: int, limit: int, pages: list[int]) -> None:
    ids = list(range(10, 10 + count))
    seen: list[int] = []
    sizes = []
    after: int | None = None
    while True:
        page, after = take_page(ids, after, limit, everything)
        seen += page
        sizes.append(len(page))
        if after is None:
            break
    assert sizes == pages
    assert seen == ids


@pytest.mark.fact("E40")
def test_filtered_rows_are_not_counted_as_more() -> None:
    assert take_page([1, 2, 3, 4, 5], None, 2, lambda one: one < 3) == ([1, 2], None)
    assert take_page([1, 2, 3, 4, 5], None, 2, lambda one: one % 2 == 1) == ([1, 3], 3)


@pytest.mark.fact("E39")
def test_a_walk_goes_on_behind_an_id_that_is_gone() -> None:
    assert take_page([1, 2, 4, 5], 3, 2) == ([4, 5], None)
    assert take_page([1, 2, 4, 5], 3, 2, everything) == ([4, 5], None)


@pytest.mark.fact("S46", "E39")
@given(
    st.lists(st.integers(0, 99), unique=True, max_size=40).map(sorted),
    st.lists(
        st.tuples(st.integers(1, 7), st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99))), max_size=30
    ),
    st.booleans(),
)
def test_a_walk_neither_skips_nor_repeats_while_others_write(
    start: list[int], steps: list[tuple[int, set[int], set[int]]], even_only: bool
) -> None:
    """Between any two pages ids are added and deleted, the anchor too, and the page size changes (U35)."""
    present = set(start)
    throughout = set(start)
    seen: list[int] = []
    after: int | None = None
    for limit, added, deleted in [*steps, (1_000, set(), set())]:
        page, after = take_page(sorted(present), after, limit, lambda one: not even_only or one % 2 == 0)
        assert len(page) <= limit
        seen += page
        if after is None:
            break
        present = (present | added) - deleted
        throughout &= present
    assert after is None
    assert seen == sorted(set(seen))
    assert {one for one in throughout if not even_only or one % 2 == 0} <= set(seen)
    assert not even_only or all(one % 2 == 0 for one in seen)


@given(st.sets(st.integers(0, 60)), st.integers(-1, 61), st.integers(1, 70))
def test_a_walk_that_keeps_all_needs_no_questions(ids: set[int], after: int, limit: int) -> None:
    ordered = sorted(ids)
    for start in (None, after):
        assert take_page(ordered, start, limit) == take_page(ordered, start, limit, everything)
        assert take_page(ordered, start, limit, items=False) == ([], take_page(ordered, start, limit)[1])
