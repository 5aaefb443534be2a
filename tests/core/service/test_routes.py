"""Paths: every operation's path, filled, is found again."""

from itertools import combinations

import pytest

from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.routes import fill, match, offered, path_parameters, path_values


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_filled_path_is_that_of_its_operation(name: str) -> None:
    values = {place: f"{place}_1" for place in path_parameters(name)}
    path = fill(name, values)
    assert "{" not in path
    assert match(OPERATIONS[name].method, path) == (name, values)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "nothing"), ("PUT", "domains"), ("GET", "domains/1/2/3/4"), ("GET", "/domains"), ("GET", "")],
)
def test_a_path_of_no_operation_is_none(method: str, path: str) -> None:
    assert match(method, path) == ("", {})


def test_values_are_taken_as_they_are() -> None:
    assert path_values("domains.get", "domains/a%20b") == {"id": "a%20b"}
    assert path_values("domains.get", "keywords/1") is None


def test_a_missing_value_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="id"):
        fill("domains.get", {})


def test_no_path_is_of_two_forms() -> None:
    """So the first form that fits is the only one, whatever the order of the table."""
    forms = [form.split("/") for form in {operation.path for operation in OPERATIONS.values()}]
    for one, other in combinations(forms, 2):
        alike = [a == b or "{" in a + b for a, b in zip(one, other, strict=False)]
        assert len(one) != len(other) or not all(alike), (one, other)


def test_a_path_offers_every_method_of_its_form() -> None:
    assert offered("domains") == ({"GET": "domains.list", "POST": "domains.create"}, {})
    methods, values = offered("domains/a")
    assert (sorted(methods), values) == (["DELETE", "GET", "PATCH"], {"id": "a"})
    assert offered("domains/") == ({}, {})
