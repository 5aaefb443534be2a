"""Goal-seek: found, undecided, out of reach; and how often it is wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from ranksim.core.errors import BadInput
from ranksim.planner.study.goal import first_index, short_budget
from ranksim.planner.study.results import StudyResult
from ranksim.planner.study.study import Study

Make = Callable[..., Study]


def sought(study: Make, goal: dict[str, Any], **fields: Any) -> StudyResult:
    return study(goal=goal, **fields).run()


@pytest.mark.parametrize("count", range(1, 20))
def test_bisection_finds_the_first(count: int) -> None:
    for first in range(count + 1):
        asked: list[int] = []

        def holds(index: int, first: int = first, asked: list[int] = asked) -> bool:
            asked.append(index)
            return index >= first

        assert first_index(count, holds) == (None if first == count else first)
        assert len(asked) == len(set(asked)) <= 1 + count.bit_length()


@pytest.mark.parametrize(
    ("goal", "answer", "text"),
    [
        # level is workers plus a draw in (0, 1): 5.5 on average
        ({"smallest": "toy.workers", "between": [1, 20], "such_that": "level >= 5.2"}, 5,
         "5 meets level >= 5.2, 4 does not"),
        ({"largest": "toy.workers", "between": [1, 20], "such_that": "level <= 5.8"}, 5,
         "5 meets level <= 5.8, 6 does not"),
        ({"smallest": "toy.workers", "between": [1, 20], "such_that": "P(level < 5) < 1%"}, 5,
         "5 meets P(level < 5) < 1%, 4 does not"),
        ({"largest": "toy.workers", "between": [1, 20], "such_that": "P(cost > 6 USD) < 1%"}, 5,
         "5 meets P(cost > 6 USD) < 1%, 6 does not"),
        ({"smallest": "toy.workers", "between": [3, 5], "such_that": "level >= 2"}, 3,
         "3 meets level >= 2, and is the end of the range"),
        ({"smallest": "toy.first", "between": [0, 1], "step": 0.25, "such_that": "linear >= 1.2"}, 0.5,
         "0.5 meets linear >= 1.2, 0.25 does not"),
    ],
)  # fmt: skip
def test_a_goal_is_found(study: Make, goal: dict[str, Any], answer: float, text: str) -> None:
    result = sought(study, goal | {"max_replications": 1280})
    (row,) = result.tables["goals"]
    assert (row["status"], row["answer"], row["text"]) == ("found", answer, text)
    assert {candidate["decision"] for candidate in result.tables["candidates"]} <= {"holds", "fails"}


@pytest.mark.parametrize(
    ("sense", "condition", "text"),
    [
        ("smallest", "level >= 90", "even 20 does not meet level >= 90: it comes to 20.5 ("),
        ("largest", "level <= 1", "even 1 does not meet level <= 1: it comes to 1."),
        ("smallest", "chance >= 95%", "even 20 does not meet chance >= 95%: it comes to 18.2 % ("),
        ("smallest", "P(level < 30) < 1%", "it comes to 100 % ("),
    ],
)
def test_a_goal_that_cannot_be_reached(study: Make, sense: str, condition: str, text: str) -> None:
    goal = {sense: "toy.workers", "between": [1, 20], "such_that": condition}
    with pytest.raises(BadInput) as caught:
        sought(study, goal)
    assert str(caught.value).startswith("study: goal: cannot be reached: ")
    assert text in str(caught.value)


def test_a_goal_that_only_some_points_reach(study: Make) -> None:
    goal = {"smallest": "toy.workers", "between": [1, 4], "such_that": "linear >= 2"}
    result = sought(study, goal, variants={"low": {}, "high": {"toy.first": 1}})
    assert [(row["point"], row["status"]) for row in result.tables["goals"]] == [
        ("low", "unreachable"),
        ("high", "found"),
    ]


def test_what_stays_undecided_is_said_with_what_it_would_take(study: Make) -> None:
    goal = {
        "smallest": "toy.workers",
        "between": [1, 20],
        "such_that": "level >= 5.45",
        "max_replications": 100,
    }
    result = sought(study, goal)
    (row,) = result.tables["goals"]
    assert (row["status"], row["answer"]) == ("undecided", 6)
    assert row["text"] == (
        "6 meets level >= 5.45, but smaller values may: undecided after 100 replications at 5 "
        "(about 200 would tell)"
    )
    candidates = {candidate["value"]: candidate for candidate in result.tables["candidates"]}
    assert [candidates[value]["decision"] for value in "456"] == ["fails", "undecided", "holds"]
    assert [candidates[value]["would_take"] for value in "456"] == [None, 200, None]
    more = sought(study, goal | {"max_replications": 900}).tables["goals"][0]
    assert more["text"] == "5 meets level >= 5.45, 4 does not"


def test_a_mean_on_the_bound_is_not_decided(study: Make) -> None:
    goal = {"smallest": "toy.workers", "between": [1, 9], "such_that": "steady >= 5", "max_replications": 90}
    (row,) = sought(study, goal).tables["goals"]
    assert (row["status"], row["answer"]) == ("undecided", 6)
    assert row["text"].endswith("at 5 (it lies so near the bound that 23,040 would not tell)")


def test_an_end_that_stays_undecided(study: Make) -> None:
    goal = {"smallest": "toy.workers", "between": [1, 5], "such_that": "level >= 5.5", "max_replications": 20}
    (row,) = sought(study, goal).tables["goals"]
    assert (row["status"], row["answer"]) == ("undecided", None)
    assert row["text"].startswith(
        "whether even 5 meets level >= 5.5 is undecided after 20 replications, with 5."
    )
    assert "would" in row["text"]


def test_what_is_undecided_is_shown_in_words(study: Make) -> None:
    goal = {"smallest": "toy.workers", "between": [1, 5], "such_that": "level >= 5.5", "max_replications": 20}
    result = sought(study, goal)
    (row,) = result.tables["goals"]
    assert f"goal undecided: {row['text']}" in repr(result)
    assert "None" not in repr(result)
    more = sought(study, goal | {"between": [1, 20], "such_that": "level >= 5.45", "max_replications": 100})
    assert "goal undecided: 6 meets level >= 5.45, but smaller values may: " in repr(more)
    assert "goal found: 5" in repr(sought(study, goal | {"such_that": "level >= 5", "max_replications": 200}))


def test_a_goal_is_sought_at_each_point(study: Make) -> None:
    goal = {"smallest": "toy.workers", "between": [1, 9], "such_that": "linear >= 3"}
    made = study(goal=goal, variants={"low": {"toy.second": 2}, "high": {"toy.second": 4}}, replications=2)
    assert [(row["point"], row["answer"]) for row in made.run().tables["goals"]] == [
        ("low", 1),
        ("high", 1),
    ]
    same = study(goal=goal, factors={"toy.workers": [1, 2]}, change={"toy.first": 1}, replications=2)
    assert [row["point"] for row in same.run().tables["goals"]] == ["base"]


def test_a_value_that_cannot_be_run_fails_the_search(study: Make) -> None:
    goal = {"smallest": "toy.workers", "between": [-5, 5], "such_that": "level >= 9"}
    with pytest.raises(BadInput, match="cannot be reached"):
        sought(study, goal)
    result = sought(study, goal | {"such_that": "level >= 3"}, change={"toy.breaks": [4]})
    (row,) = result.tables["goals"]
    assert row["status"] == "failed"
    assert "at 5: ZeroDivisionError: the toy broke" in row["text"]


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["own >= 5.45", "P(own < 5.1) < 5%"])
def test_an_answer_is_seldom_wrong(study: Make, condition: str) -> None:
    """At 5 the mean is 5.5, and 10 % are below 5.1: 5 meets the first condition, narrowly, not the second."""
    right = {"own >= 5.45": 5, "P(own < 5.1) < 5%": 6}[condition]
    goal = {"smallest": "toy.workers", "between": [1, 8], "such_that": condition, "max_replications": 640}
    wrong = decided = 0
    for seed in range(40):
        (row,) = sought(study, goal, seed=seed).tables["goals"]
        decided += row["status"] == "found"
        wrong += row["status"] == "found" and row["answer"] != right
    assert decided > 10
    assert wrong <= 0.05 * 40


@pytest.mark.parametrize("condition", ["P(level > 30) < 1%", "P(level < 30) > 99%"])
def test_how_many_replications_a_chance_takes_is_said_before_any_is_spent(
    study: Make, condition: str
) -> None:
    goal = {"smallest": "toy.workers", "between": [1, 2], "such_that": condition}
    sentence = short_budget(study(goal=goal))
    assert sentence.startswith(f"goal: if all replications of a value meet {condition}, it takes at least ")
    assert sentence.endswith(
        " to show that, and 320 are run at most; raise max_replications, or ask for less"
    )
    least = int(sentence.split(" it takes at least ")[1].split()[0])
    decisions = [
        sought(study, goal | {"max_replications": most}).tables["candidates"][-1]["decision"]
        for most in (least - 1, least)
    ]
    assert decisions == ["undecided", "holds"]
    assert short_budget(study(goal=goal | {"max_replications": least})) == ""


def test_no_replications_are_named_where_others_may_do(study: Make) -> None:
    goal = {"smallest": "toy.workers", "between": [1, 2], "max_replications": 2}
    assert short_budget(study(goal=goal | {"such_that": "level >= 1"})) == ""
    assert short_budget(study()) == ""
    rare = short_budget(study(goal=goal | {"such_that": "P(level > 30) < 0.00001%"}))
    assert "it takes more than 1,000,000 to show that, and 10 are run at most;" in rare
