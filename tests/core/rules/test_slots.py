"""Counting tuples in blocks, and matching them with holds."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.rules.slots import Block, consume, difference, fold, put, revived_by, size, words_counted


@pytest.mark.fact("U65", "U103")
@pytest.mark.parametrize(
    ("text", "casefold", "exact"),
    [
        ("shoes", "shoes", "shoes"),
        ("  Red Shoes\t", "red shoes", "Red Shoes"),
        ("STRASSE", "strasse", "STRASSE"),
        ("Straße", "strasse", "Straße"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ", "ΣΊΣΥΦΟΣ"),
        ("red  shoes", "red  shoes", "red  shoes"),
    ],
)
def test_keywords_are_compared_trimmed_and_folded(text: str, casefold: str, exact: str) -> None:
    assert fold(text, "casefold") == casefold
    assert fold(text, "exact") == exact


@pytest.mark.fact("S23", "S25")
@pytest.mark.parametrize(
    ("words", "engine_devices", "geographies", "slots"),
    [
        (["w"], ["google/desktop", "google/mobile"], ["DE//", "AT//"], 4),
        (["w"], ["google/desktop"], ["DE//"], 1),
        (["v", "w"], ["google/desktop", "bing/desktop", "bing/mobile"], ["DE//"], 6),
        ([], ["google/desktop"], ["DE//"], 0),
    ],
)
def test_a_slot_is_keyword_by_engine_and_device_by_geography(
    words: list[str], engine_devices: list[str], geographies: list[str], slots: int
) -> None:
    block = Block("dom", words, engine_devices, geographies)
    assert block.size() == slots
    assert len(set(block.identities())) == slots


@pytest.mark.fact("U94")
def test_an_identity_names_owner_keyword_pairing_and_place() -> None:
    block = Block("dom_1", ["red shoes"], ["google/desktop"], ["DE/2276/de"])
    assert list(block.identities()) == ["dom_1|red shoes|google/desktop|DE/2276/de"]


@pytest.mark.fact("U94")
@pytest.mark.parametrize(
    ("scan_counts", "words"), [("keyword", ["a", "b", "c"]), ("list_keyword", ["a", "b", "b", "c"])]
)
def test_a_word_in_two_lists_of_a_scan_counts_once_or_twice(scan_counts: str, words: list[str]) -> None:
    assert words_counted([["a", "b"], ["b", "c"]], scan_counts) == words


def blocks(words: st.SearchStrategy[list[str]]) -> st.SearchStrategy[Block]:
    places = st.lists(st.sampled_from("xyz"), unique=True)
    return st.builds(Block, st.just("dom"), words, places, places)


REPEATED = st.lists(st.sampled_from("abcd"), max_size=6)


@given(blocks(REPEATED), blocks(REPEATED))
def test_a_difference_holds_what_counting_one_by_one_leaves(whole: Block, part: Block) -> None:
    found = difference(whole, part)
    written = Counter(identity for block in found for identity in block.identities())
    assert written == Counter(whole.identities()) - Counter(part.identities())
    assert size(found) == written.total()


@given(
    blocks(REPEATED), st.dictionaries(st.sampled_from([f"dom|{w}|x|y" for w in "abcd"]), st.integers(1, 3))
)
def test_holds_are_consumed_one_for_one(block: Block, holds: dict[str, int]) -> None:
    taken = revived_by([block], holds)
    assert Counter(taken) == Counter(holds) & Counter(block.identities())
    left = dict(holds)
    consume(left, taken)
    assert Counter(left) == Counter(holds) - Counter(taken)
    assert 0 not in left.values()


@given(blocks(REPEATED), blocks(REPEATED))
def test_every_tuple_puts_one_hold(first: Block, second: Block) -> None:
    holds: dict[str, int] = {}
    put(holds, [first, second])
    assert Counter(holds) == Counter(first.identities()) + Counter(second.identities())
