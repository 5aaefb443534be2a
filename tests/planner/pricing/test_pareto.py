"""Margin against blocked customers: points told by hand, and which are not beaten."""

from __future__ import annotations

from unittest import mock

import pytest
from flat_customers import CALENDAR, USD, catalogue, population

from ranksim.core.errors import BadInput
from ranksim.planner.pricing import pareto as module
from ranksim.planner.pricing.demand import Demand
from ranksim.planner.pricing.pareto import Frontier, pareto, path_headings
from ranksim.planner.pricing.plots import frontier
from ranksim.report import units
from ranksim.report.figure import new_figure

FLAT = catalogue({"flat": {"price": 4 * USD}})
GRID = {
    "plans.flat.cost_ceiling": ["1.50 USD", "10 USD"],
    "plans.flat.price": ["3 USD", "4 USD", "5 USD"],
}


def small() -> Frontier:
    return pareto(population(), FLAT, GRID, policy=CALENDAR, replications=2)


def test_points_told_by_hand() -> None:
    margins = {
        (p["plans.flat.cost_ceiling"], p["plans.flat.price"]): (p["margin"] / USD, p["blocked"], p["best"])
        for p in small().points
    }
    # 10 customers, who cost 3.60 USD each, or 1.50 USD where the ceiling blocks them all.
    assert margins == {
        (1_500_000, 3 * USD): (15, 1, False),
        (1_500_000, 4 * USD): (25, 1, False),
        (1_500_000, 5 * USD): (35, 1, True),
        (10 * USD, 3 * USD): (-6, 0, False),
        (10 * USD, 4 * USD): (4, 0, False),
        (10 * USD, 5 * USD): (14, 0, True),
    }


def test_one_choice_that_is_best_is_told_once() -> None:
    prices = {"plans.flat.price": GRID["plans.flat.price"]}
    answer = pareto(population(), FLAT, prices, policy=CALENDAR, replications=2)
    alone, ax = answer.sentence, answer.plot("frontier", new_figure().subplots())
    assert "1 of 3 points is not beaten" in " ".join(ax.get_title(loc) for loc in ("left", "center", "right"))
    assert alone.startswith("One of 3 choices is not beaten: ")
    assert " to " not in alone.removesuffix(".")


def test_that_nobody_is_blocked_is_not_certain() -> None:
    bound = 1 - 0.025 ** (1 / 20)  # ten customers, twice
    for point in small().points:
        edges = (point["blocked_low"], point["blocked_high"], point["of"])
        assert edges == pytest.approx((0, bound, 20) if point["blocked"] == 0 else (1 - bound, 1, 20))


def test_changes_are_to_the_catalogue_as_it_is() -> None:
    # As it is: a price of 4 USD without a ceiling that binds, a margin of 4 USD.
    assert [round(p["change"] / USD, 6) for p in small().points] == [11, 21, 31, -10, 0, 10]


def test_who_leaves_earns_nothing_at_any_point() -> None:
    demand = Demand(price=0.4, refused=0.25)
    tried = pareto(population(), FLAT, GRID, policy=CALENDAR, replications=2, demand=demand)
    # Of a bill of 4 USD: a tenth comes at 3 USD, and leaves at 5 USD; the ceiling costs a quarter.
    assert [point["margin"] / USD for point in tried.points] == pytest.approx(
        [15 * 1.1 * 0.75, 25 * 0.75, 35 * 0.9 * 0.75, -6 * 1.1, 4, 14 * 0.9]
    )
    assert tried.notes[0] == demand.sentence


def test_who_leaves_is_told_by_the_catalogue_as_it_is_however_many_are_tried() -> None:
    grid = {"plans.flat.cost_ceiling": [f"{n} USD" for n in range(1, 13)]}
    tried = pareto(population(), FLAT, grid, policy=CALENDAR, replications=2, demand=Demand(refused=1.0))
    assert [round(point["margin"] / USD, 6) for point in tried.points] == [0] * 3 + [4] * 9


def test_a_tie_is_told_as_one() -> None:
    tie = {"plans.flat.cost_ceiling": ["50 USD", "90 USD"]}
    answer = pareto(population(), FLAT, tie, policy=CALENDAR, replications=2)
    place = units.usd(answer.points[0]["margin"])
    assert answer.sentence == f"2 of 2 choices are not beaten: all come to {place} and 0 % blocked."


def test_prices_alone_are_not_simulated_again() -> None:
    with mock.patch.object(module, "simulate_sides", wraps=module.simulate_sides) as simulate:
        small()
    # Two ceilings and the catalogue as it is, in each of two replications.
    assert [len(call.args[0]) for call in simulate.call_args_list] == [3, 3]


def test_values_have_a_column_for_each_path() -> None:
    (view,) = small().views()
    assert view.headings[:3] == ("not beaten", "flat cost ceiling", "flat price")
    assert view.rows[0][:3] == ("yes", "10.00 USD", "5.00 USD")
    ending_alike = [f"plans.{plan}.quotas.briefs.limit" for plan in ("flat", "pro")]
    assert [*path_headings(ending_alike).values()] == [
        "plans flat quotas briefs limit", "plans pro quotas briefs limit",
    ]  # fmt: skip


def test_equal_points_do_not_beat_each_other() -> None:
    grid = {"plans.flat.page_cap": [10, 20]}
    assert [p["best"] for p in pareto(population(), FLAT, grid, replications=2).points] == [True, True]


def test_quotas_are_set_by_path() -> None:
    grid = {"plans.flat.quotas.keyword_brief_refreshes.limit": [10, 1000]}
    few, many = pareto(population(), FLAT, grid, policy=CALENDAR, replications=2).points
    # September touches five weeks from Monday, of which the last is cut: 10 briefs in each.
    assert (few["blocked"], many["blocked"]) == (1, 0)
    assert few["margin"] == 10 * (4 * USD - 50 * 30_000)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "at least one path"),
        ({"plans.flat.price": []}, "at least one path"),
        ({"plans.gold.price": ["1 USD"]}, "no parameter 'plans.gold.price': plans has no 'gold'"),
        ({"plans.flat.prize": ["1 USD"]}, "did you mean 'price'"),
        ({"plans.flat.price": [149]}, "plans.flat.price: write an amount such as '149 USD', found 149"),
        ({"plans.flat.price": [-5]}, "price: write an amount of at least 0 such as '15 USD', found -5"),
        ({"plans.flat.price": ["much"]}, "plans.flat.price: write an amount such as '15 USD'"),
        ({"plans.flat.price": ["1 USD"] * 50, "plans.flat.page_cap": [1] * 50}, "2,500 points are more than"),
    ],
)
def test_wrong_grids(grid: dict[str, list[object]], message: str) -> None:
    with pytest.raises(BadInput) as error:
        pareto(population(), FLAT, grid)
    assert message in str(error.value)
    assert not str(error.value).startswith("grid: plans")


def test_the_plot_joins_what_is_not_beaten() -> None:
    ax = small().plot("frontier", new_figure().subplots())
    line = next(line for line in ax.lines if line.get_linestyle() == "--")
    assert list(line.get_xdata()) == [0, 100]


def test_what_blue_means_stands_above_the_names_and_not_in_the_title() -> None:
    ax = small().plot("frontier", new_figure().subplots())
    (label,) = (text for text in ax.texts if text.get_text() == "not beaten")
    numbered = {text.get_color() for text in ax.texts if text.get_text().startswith("1")}
    assert numbered == {label.get_color()}
    titles = " ".join(ax.get_title(loc) for loc in ("left", "center", "right"))
    assert "points are not beaten; the best margin" in " ".join(titles.split())


def test_the_plot_names_points_by_their_values_and_the_values_once() -> None:
    ax = small().plot("frontier", new_figure().subplots())
    *points, label = (text.get_text() for text in ax.texts)
    assert label.startswith("named by\nflat.")
    assert ax.texts[-1].get_horizontalalignment() == "left"  # beside the Axes, where it covers no point
    assert points
    assert not any("flat." in point for point in points)
    numbers = [point for point in points if point.isdigit()]
    assert numbers == [point.partition(":")[0] for point in points if ":" in point]
    assert len(numbers) == sum(row["best"] for row in small().tables["points"])


def test_long_paths_leave_the_axes_and_the_title_their_room() -> None:
    long = "flat.quotas.keyword_brief_refreshes.limit"
    rows = [row | {"point": row["point"].replace("flat.price", long)} for row in small().tables["points"]]
    ax = frontier(rows, "customers", new_figure().subplots())
    assert "flat.quotas.\nkeyword_brief_refreshes.\nlimit" in ax.texts[-1].get_text()
    assert max(map(len, ax.get_title().splitlines())) <= 48
