"""Designs: which points, what they are called, with what they are compared."""

from collections.abc import Callable
from typing import Any

import pytest

from ranksim.planner.study.design import baseline, check_baseline, points, short_names
from ranksim.planner.study.study import Study

Make = Callable[..., Study]


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({}, ["base"]),
        ({"factors": {"toy.workers": [1, 2], "toy.pause": ["1s", "2s"]}},
         ["workers=1, pause=1s", "workers=1, pause=2s", "workers=2, pause=1s", "workers=2, pause=2s"]),
        ({"variants": {"now": {}, "new": {"toy.workers": 3}}}, ["now", "new"]),
        ({"variants": {"now": {}, "new": {"toy.price": "3 USD"}}, "factors": {"toy.workers": [1, 2]}},
         ["now, workers=1", "now, workers=2", "new, workers=1", "new, workers=2"]),
        ({"goal": {"smallest": "toy.workers", "between": [1, 4], "such_that": "level > 1"}}, []),
        ({"sensitivity": {"parameters": {"toy.first": [0, 1]}}}, []),
    ],
)  # fmt: skip
def test_points(study: Make, fields: dict[str, Any], labels: list[str]) -> None:
    assert [point.label for point in points(study(**fields))] == labels


def test_a_point_sets_what_is_changed_everywhere_too(study: Make) -> None:
    made = study(change={"toy.price": "9 USD", "toy.workers": 7}, factors={"toy.workers": [2, 3]})
    assert [(p.built.price, p.built.workers) for p in points(made)] == [(9_000_000, 2), (9_000_000, 3)]


@pytest.mark.parametrize(
    ("fields", "against"),
    [
        ({"factors": {"toy.workers": [1, 2, 3]}}, {"workers=2": "workers=1", "workers=3": "workers=1"}),
        ({"factors": {"toy.workers": [1, 2]}, "baseline": "workers=2"}, {"workers=1": "workers=2"}),
        ({"variants": {"a": {}, "b": {}, "c": {}}, "baseline": "b"}, {"a": "b", "c": "b"}),
        ({"variants": {"a": {}}, "factors": {"toy.workers": [1, 2]}, "baseline": "a, workers=2"},
         {"a, workers=1": "a, workers=2"}),
        ({"variants": {"a": {}, "b": {}}, "factors": {"toy.workers": [1, 2]}},
         {"b, workers=1": "a, workers=1", "b, workers=2": "a, workers=2"}),
    ],
)  # fmt: skip
def test_what_is_compared(study: Make, fields: dict[str, Any], against: dict[str, str]) -> None:
    made = study(**fields)
    design = points(made)
    check_baseline(made, design)
    found = {point.label: baseline(made.spec, design, point) for point in design}
    assert {label: other.label for label, other in found.items() if other is not None} == against


def test_points_that_mean_the_same_share_their_runs(study: Make) -> None:
    made = points(study(variants={"a": {}, "b": {"toy.pause": "60s"}, "c": {"toy.pause": "1m"}}))
    assert made[0].key != made[1].key == made[2].key


def test_a_value_that_only_some_points_cannot_use_is_their_problem(study: Make) -> None:
    design = points(study(variants={"a": {"toy.workers": 1}, "b": {"toy.workers": 1, "toy.breaks": [1]}}))
    assert [point.problem for point in design] == ["", ""]


def test_short_names() -> None:
    assert short_names(["a.plans.pro.price", "a.plans.team.price", "a.length"]) == {
        "a.plans.pro.price": "pro.price",
        "a.plans.team.price": "team.price",
        "a.length": "length",
    }
