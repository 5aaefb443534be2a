"""Paths: every operation's path, filled, is found again."""

import pytest

from ranksim.service.operations import OPERATIONS
from ranksim.service.routes import fill, match, parameters, values_of


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_filled_path_is_that_of_its_operation(name: str) -> None:
    values = {place: f"{place}_1" for place in parameters(name)}
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
    assert values_of("domains.get", "domains/a%20b") == {"id": "a%20b"}
    assert values_of("domains.get", "keywords/1") is None


def test_a_missing_value_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="id"):
        fill("domains.get", {})
