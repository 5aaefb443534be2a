"""Idempotency-Keys as rules: legal forms, fingerprints, what is remembered."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.rules.idempotency import fingerprint, is_stored, is_valid, unquoted

DEFAULT = Assumptions()
RAW = Assumptions(fingerprint="raw")
SUCCESS = Assumptions(idempotency_stores="success")


@pytest.mark.fact("U32")
@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("a", True),
        ("", False),
        ("x" * 255, True),
        ("x" * 256, False),
        ('"a"', True),
        ('""', False),
        ('"', True),
        ('"' + "x" * 255 + '"', True),
        ('"' + "x" * 256 + '"', False),
        ('"' + "x" * 254, True),
    ],
)
def test_a_key_has_1_to_255_characters_without_its_quotes(key: str, valid: bool) -> None:
    assert is_valid(key, DEFAULT) is valid


@pytest.mark.fact("U32")
def test_the_longest_key_is_an_assumption() -> None:
    short = Assumptions(idempotency_key_max=3)
    assert is_valid("abc", short)
    assert not is_valid("abcd", short)


@pytest.mark.fact("U32")
@pytest.mark.parametrize(("key", "bare"), [('"a"', "a"), ("a", "a"), ('"a', '"a'), ('a"', 'a"'), ('"', '"')])
def test_quotes_are_optional(key: str, bare: str) -> None:
    assert unquoted(key) == bare


def digest(body: Any, raw: bytes | None = None, said: Assumptions = DEFAULT, **other: Any) -> str:
    request: dict[str, Any] = {"operation": "webhooks.test", "path": {"id": "w"}, "query": {"q": "1"}}
    return fingerprint(**(request | other), body=body, raw=raw, assumptions=said)


@pytest.mark.fact("U28", "S48")
@pytest.mark.parametrize(
    "other",
    [
        {"operation": "webhooks.create"},
        {"path": {"id": "v"}},
        {"path": {}},
        {"query": {"q": "2"}},
        {"query": {}},
        {"path": {"id": "w", "q": "1"}, "query": {}},
        {"body": {"a": 2}},
        {"body": {"a": "1"}},
        {"body": {"a": 1, "b": None}},
        {"body": {}},
        {"body": None},
    ],
)
def test_operation_path_query_and_body_tell_requests_apart(other: dict[str, Any]) -> None:
    body = other.pop("body", {"a": 1})
    assert digest(body, **other) != digest({"a": 1})


@pytest.mark.fact("U28")
def test_the_order_of_members_is_no_difference_unless_bytes_count() -> None:
    one, two = {"a": [1, {"x": 1, "y": 2}], "b": 2}, {"b": 2, "a": [1, {"y": 2, "x": 1}]}
    assert digest(one, b"one") == digest(two, b"two")
    assert digest(one, b"one", RAW) != digest(two, b"two", RAW)
    assert digest(one, b"one", RAW) == digest(one, b"one", RAW)
    assert digest(one, None, RAW) == digest(two, None, RAW)


@pytest.mark.fact("U28")
def test_the_order_of_query_parameters_is_no_difference() -> None:
    assert digest({}, query={"a": "1", "b": "2"}) == digest({}, query={"b": "2", "a": "1"})


@pytest.mark.fact("E2")
def test_a_dry_run_of_false_is_not_an_absent_one() -> None:
    assert digest({"kind": "crawl", "dry_run": False}) != digest({"kind": "crawl"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)
bodies = st.dictionaries(st.text(max_size=2), json_values, max_size=3)


@pytest.mark.fact("U28", "S48")
@given(bodies, bodies)
def test_bodies_have_one_fingerprint_exactly_if_they_are_equal(one: Any, two: Any) -> None:
    # repr tells True from 1, which Python takes for equal.
    assert (digest(one) == digest(two)) == (canonical(one) == canonical(two))


def canonical(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return repr(value)


@pytest.mark.fact("U29", "U93")
@pytest.mark.parametrize(
    ("status", "check", "kept"),
    [
        (200, 0, True),
        (201, 0, True),
        (202, 0, True),
        (400, 0, True),
        (401, 0, False),
        (402, 2, True),
        (402, 3, True),
        (402, 4, True),
        (402, 5, True),
        (403, 0, False),
        (403, 1, True),
        (404, 0, False),
        (405, 0, False),
        (409, 0, True),
        (409, 6, True),
        (413, 0, False),
        (415, 0, False),
        (422, 0, False),
        (422, 5, True),
        (429, 0, False),
        (429, 6, True),
        (500, 0, True),
    ],
)
def test_what_is_remembered(status: int, check: int, kept: bool) -> None:
    assert is_stored(status, check, DEFAULT) is kept
    assert is_stored(status, check, SUCCESS) is (status < 300)


@pytest.mark.fact("U93")
def test_what_is_not_remembered_is_an_assumption() -> None:
    said = Assumptions(idempotency_not_stored=(500,))
    assert is_stored(422, 0, said)
    assert not is_stored(500, 0, said)
