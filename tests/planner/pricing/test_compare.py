"""A against B: money told by hand, limits that bind exactly, and the same customers on both sides."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from flat_customers import CALENDAR, USD, catalogue, population

import ranksim as rs
from ranksim.core.clock import DAY
from ranksim.core.contract.plans import Catalogue
from ranksim.core.errors import BadInput
from ranksim.inference.precision import FIRST_STAGE
from ranksim.planner.fleet.engine import Compiled
from ranksim.planner.pricing.bills import NONE, bills
from ranksim.planner.pricing.break_even import break_even
from ranksim.planner.pricing.compare import SHOWN, compare, margin_of_b
from ranksim.planner.pricing.demand import Demand
from ranksim.planner.pricing.paired_metrics import METRICS, PERCENTILES
from ranksim.planner.pricing.pareto import pareto
from ranksim.planner.pricing.plots import margins
from ranksim.report import units
from ranksim.report.figure import _narrow, new_figure

FLAT = catalogue({"flat": {"price": 30 * USD}})
TIGHT = catalogue({"flat": {"price": 20 * USD, "cost_ceiling": 1_500_000}}, "tight")


@pytest.mark.parametrize(
    ("low", "high", "sentence"),
    [
        (-20, -10, "B earns 15.00 ± 5.00 USD less margin than A"),
        (-20, 3, "B earns 15.00 (−3.00 to 20.00) USD less margin than A, which chance alone may explain"),
        (None, None, "B earns 15.00 USD less margin than A (the same in every replication)"),
    ],
)
def test_what_chance_alone_may_explain_is_told(low: int | None, high: int | None, sentence: str) -> None:
    ends = {name: None if end is None else end * USD for name, end in (("low", low), ("high", high))}
    assert margin_of_b({"difference": -15 * USD, "of": 10, **ends}) == sentence
    few = margin_of_b({"difference": -15 * USD, "of": 2, **ends})
    more = " (of 2 replications; ask for 10 or more)" if sentence.endswith("explain") else ""
    assert few == sentence + more


def test_money_told_by_hand() -> None:
    compared = compare(population(), FLAT, TIGHT, policy=CALENDAR, replications=2)
    # A: 10 × 30 USD, and 10 × 120 briefs × 0.03 USD. B: 10 × 20 USD, and the ceiling of 1.50 USD, 50 briefs.
    expected = {
        "revenue": (300, 200), "plan_prices": (300, 200), "add_ons": (0, 0), "cost": (36, 15),
        "margin": (264, 185),
    }  # fmt: skip
    assert {
        name: (compared.row(name)["a"] / USD, compared.row(name)["b"] / USD) for name in expected
    } == expected
    margin = compared.row("margin", "flat")
    assert (margin["difference"], margin["low"], margin["high"]) == (-79 * USD, None, None)
    assert "B earns 79.00 USD less margin than A (the same in every replication)" in compared.sentence


def test_people_are_told_what_differs_and_each_number_once() -> None:
    compared = compare(population(), FLAT, TIGHT, policy=CALENDAR, replications=2)
    assert compared.sentence.endswith("; 100 % of them meet cost_cap_reached, under A 0 %.")
    views = {view.title: view for view in compared.views()}
    money = [(row[0], row[1], row[-1]) for row in views["Money"].rows]
    changes = (("revenue (by the day)", "−100.00"), ("provider cost", "−21.00"), ("margin", "−79.00"))
    assert money == [(plan, name, f"{by} USD") for plan in ("flat", "all") for name, by in changes]
    assert {row[1] for row in views["Customers refused"].rows} == {
        "hit any", "hit cost cap reached", "wants more",
    }  # fmt: skip
    assert [row[0] for row in views["Margin of a customer, by percentile"].rows] == [*SHOWN]
    assert views["What would have been enough"].headings == (
        "plan", "needs", "under A", "under B", "potential A", "potential B",
    )  # fmt: skip
    assert views["What would have been enough"].note.startswith("Rows are alternatives: do not add them. ")
    note = views["What would have been enough"].note
    assert "if all of them bought it, which is no forecast. In" in note
    same = compare(population(), FLAT, FLAT, policy=CALENDAR, replications=2)
    assert same.sentence.endswith("; as many of them meet each refusal.")
    assert not {"Money", "Customers refused", "Blocked"} & {view.title for view in same.views()}


def test_the_refusal_of_the_headline_is_one_that_most_customers_newly_meet() -> None:
    """All are without the capability under A, and all meet the ceiling under B: none is refused as before."""
    lacking = catalogue({"flat": {"price": 30 * USD, "capabilities": ()}}, "lacking")
    compared = compare(population(), lacking, TIGHT, policy=CALENDAR, replications=2)
    assert compared.sentence.endswith("; 100 % of them meet cost_cap_reached, under A 0 %.")
    assert compared.newly_refused["hit_cost_cap_reached"] == 1
    drawn = compared.plot("limits").get_title()
    assert drawn == "cost_cap_reached: 0 % of customers under A, 100 % under B"
    relieved = compare(population(), TIGHT, FLAT, policy=CALENDAR, replications=2)
    assert relieved.sentence.endswith("; none of them meet cost_cap_reached, under A 100 %.")


@pytest.mark.parametrize("scale", [1, 1000])
def test_sums_of_a_narrow_figure_stand_beside_the_names_of_plans(scale: int) -> None:
    rows = [
        {"plan": plan, "metric": "margin", "difference": x * scale * USD, "low": None, "high": None}
        for plan, x in {"starter": 36.24, "pro": -5_266.69, "agency": 0, "all": -5_230.44}.items()
    ]
    ax = margins(rows, new_figure().subplots())
    drawn: Any = ax.figure
    for wide in (True, False):
        drawn.draw_without_rendering()
        names = [name.get_window_extent() for name in ax.get_yticklabels()]
        sums = [text.get_window_extent() for text in ax.texts]
        assert not any(one.overlaps(name) for one in sums for name in names), wide
        _narrow(drawn)


def test_frames_have_dollars_and_seconds() -> None:
    compared = compare(population(), FLAT, TIGHT, policy=CALENDAR, replications=2)
    frame = compared.frame().set_index(["plan", "metric"])
    assert frame.loc[("flat", "margin"), "difference"] == -79.0
    assert frame.loc[("all", "blocked"), "b"] > 17 * 86_400
    assert frame.loc[("flat", "hit_any"), "b"] == 1
    raw = compared.frame("differences", integers=True).set_index(["plan", "metric"])
    assert raw.loc[("flat", "margin"), "difference"] == -79 * USD
    money = compared.frame("differences.money").set_index(["plan", "metric"])
    assert money.loc[("flat", "margin"), "difference_usd"] == -79.0
    micros = compared.frame("differences.money", integers=True).set_index(["plan", "metric"])
    assert micros.loc[("flat", "margin"), "difference_uusd"] == -79 * USD
    blocked = compared.frame("differences.duration").set_index("plan").loc["all", "b"]
    assert blocked.total_seconds() == frame.loc[("all", "blocked"), "b"]
    shares = compared.frame("differences.share")
    assert set(shares["difference_unit"]) == {"share"}
    assert (shares["difference"] == shares["b"] - shares["a"]).all()
    assert compared.frame("margins")["a_usd"].max() == pytest.approx(26.4)
    with pytest.raises(BadInput, match="frame: expected one of changes, differences, margins, needs"):
        compared.frame("money")


def test_changes_have_types_where_there_are_none() -> None:
    same, other = (compare(population(), FLAT, b, policy=CALENDAR, replications=2) for b in (FLAT, TIGHT))
    assert not same.changes
    none, some = same.frame("changes"), other.frame("changes")
    assert none.dtypes.equals(some.dtypes)
    assert list(none) == ["path", "part", "name", "a", "b", "commercial"]


def test_refusals_as_customers_feel_them() -> None:
    compared = compare(population(), FLAT, TIGHT, policy=CALENDAR, replications=2)
    shares = {
        name: (compared.row(name)["a"], compared.row(name)["b"])
        for name in METRICS
        if name.startswith("hit_")
    }
    assert {name for name, (_, b) in shares.items() if b} == {"hit_any", "hit_cost_cap_reached"}
    assert shares["hit_cost_cap_reached"] == (0, 1)
    assert compared.row("wants_more")["b"] == 1
    # The 51st brief, of four a day, is refused in the 13th day; from then on to the end of the month.
    days = compared.row("blocked")["b"] / DAY
    assert 17 < days < 18


def test_a_against_itself_differs_by_nothing() -> None:
    varied = population(briefs="{lognormal: {median: 4, sigma: 1}}", accounts=50, steady=False)
    compared = compare(varied, FLAT, FLAT, policy=CALENDAR, replications=3)
    assert compared.row("margin")["a"] != compared.row("revenue")["a"]
    assert {(row["difference"], row["low"], row["high"]) for row in compared.differences} == {(0, 0, 0)}
    assert all(row["a"] == row["b"] for row in compared.margins)
    assert all(row["gain"] is None for row in compared.differences)
    assert "B earns the same margin as A" in compared.sentence


def test_pairing_reduces_the_variance() -> None:
    varied = population(briefs="{uniform: {low: 1, high: 10}}", accounts=50, steady=False)
    dearer = catalogue({"flat": {"price": 30 * USD, "cost_ceiling": 8 * USD}})
    row = compare(varied, FLAT, dearer, policy=CALENDAR, replications=6).row("cost")
    assert row["low"] < row["difference"] < row["high"] < 0
    assert row["gain"] > 2


def test_add_ons_are_paid() -> None:
    compared = compare(population("{flat: {add_ons: {brief_pack: 2}}}"), FLAT, FLAT, replications=2)
    assert compared.row("add_ons")["a"] == 10 * 2 * 15 * USD
    assert compared.row("revenue")["a"] == 10 * (30 + 2 * 15) * USD


def test_a_plan_that_has_somebody_in_one_replication_alone() -> None:
    few = population("{flat: 5, rare: 1}", accounts=4)
    sold = catalogue({"flat": {}, "rare": {}})
    compared = compare(few, sold, sold, replications=2, seed=0)  # in the second
    alone = compared.row("margin", "rare")
    assert (alone["difference"], alone["low"], alone["of"]) == (0, 0, 2)  # nothing in the first
    alone = compared.row("blocked", "rare")
    assert (alone["difference"], alone["low"], alone["of"]) == (0, 0, 1)  # as B changes nothing for it
    assert [row["plan"] for row in compared.differences if row["metric"] == "margin"] == [
        "flat",
        "rare",
        "all",
    ]
    ax = compared.plot("margin", new_figure().subplots())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["flat", "rare", "all"]
    with pytest.raises(BadInput, match=r"plot: expected one of .*margin.*found 'margins'"):
        compared.plot("margins")


def test_percentiles_are_those_of_the_accounts() -> None:
    varied = population(briefs="{lognormal: {median: 4, sigma: 1}}", accounts=40, steady=False).replace(
        seed=5
    )
    compared = compare(varied, FLAT, TIGHT, policy=CALENDAR, replications=2)
    from ranksim.twin.sim.runner import replication_seed

    runs = [
        rs.simulate_fleet(varied, CALENDAR.model_copy(update={"catalogue": FLAT}), replication_seed(1, index))
        for index in range(2)
    ]
    margins = np.concatenate([bills(run).margin for run in runs])
    rows = [row for row in compared.margins if row["plan"] == "all"]
    assert [row["a"] for row in rows] == np.percentile(margins, PERCENTILES, method="inverted_cdf").tolist()
    assert {(row["of"], row["base"]) for row in rows} == {(80, "customers")}


def test_percentiles_are_as_sure_as_margins_that_customers_had() -> None:
    # One customer in ten pays a hundred times as much, so that the p90 of some replications is theirs.
    sold = catalogue({"flat": {"price": 30 * USD}, "dear": {"price": 3000 * USD}})
    rare = population("{flat: 9, dear: 1}", accounts=40)
    compared = compare(rare, sold, sold, policy=CALENDAR, replications=5)
    (p90,) = (row for row in compared.margins if (row["plan"], row["percentile"]) == ("all", "p90"))
    assert {p90["a_low"], p90["a"], p90["a_high"]} <= {26_400_000, 2_996_400_000}


def test_who_needs_what() -> None:
    # 50 briefs cost 1.50 USD; who asks for 120 needs a ceiling of 3.60 USD: "large" has it, at 10 USD more.
    sold = catalogue(
        {
            "small": {"price": 5 * USD, "cost_ceiling": 1_500_000},
            "large": {"price": 15 * USD, "cost_ceiling": 3_600_000},
        }
    )
    compared = compare(population("small"), sold, sold, policy=CALENDAR, replications=2)
    ours = [(n.plan, n.needs, n.accounts, n.uplift) for n in compared.needs if n.side == "A"]
    assert ours == [("small", "large", 10, 10 * 10 * USD)]
    tiny = catalogue({"small": {"price": 5 * USD, "cost_ceiling": 1_500_000}})
    alone = compare(population("small"), tiny, tiny, policy=CALENDAR, replications=2)
    assert [(n.needs, n.accounts) for n in alone.needs if n.side == "A"] == [(NONE, 10)]


def test_customers_who_pay_too_much() -> None:
    sold = catalogue({"small": {"price": 5 * USD}, "large": {"price": 15 * USD}})
    need = compare(population("large"), sold, sold, replications=2).needs[0]
    assert (need.plan, need.needs, need.uplift) == ("large", "small", -100 * USD)


def test_customers_are_moved() -> None:
    small = catalogue({"basic": {"price": 10 * USD}, "flat": {"price": 30 * USD}})
    mixed = population("{basic: 1, flat: 1}", accounts=40)
    compared = compare(mixed, small, FLAT, moves={"basic": "flat"}, replications=2)
    assert compared.row("revenue")["b"] == 40 * 30 * USD
    # The same customers: those of "flat" pay what they paid, those of "basic" three times as much.
    assert compared.row("revenue", "flat")["difference"] == 0
    assert compared.row("revenue", "basic")["b"] == 3 * compared.row("revenue", "basic")["a"]


def test_customers_are_moved_from_a_plan_that_is_still_sold() -> None:
    sold = catalogue({"small": {"price": 5 * USD}, "large": {"price": 15 * USD}})
    compared = compare(population("small"), sold, sold, moves={"small": "large"}, replications=2)
    assert (compared.row("revenue")["a"], compared.row("revenue")["b"]) == (50 * USD, 150 * USD)
    assert compared.names == (sold.name, f"{sold.name}, small → large")


@pytest.mark.parametrize(("price", "share"), [(3_600_000, 0), (3_599_999, 1)])
def test_a_margin_of_nothing_is_not_negative(price: int, share: int) -> None:
    sold = catalogue({"flat": {"price": price}})
    compared = compare(population(), sold, sold, policy=CALENDAR, replications=2)
    assert compared.row("negative")["a"] == share


@pytest.mark.parametrize(
    ("plans", "moves", "message"),
    [
        (
            "basic",
            {},
            "B has no plan 'basic'; expected one of flat, or say where its customers go with --move",
        ),
        ("basic", {"basic": "gold"}, "move: B has no plan 'gold'; expected one of flat"),
        ("gold", {}, "segments.all.plans.gold: A has no plan 'gold'"),
        ("basic", {"basik": "flat"}, "move: no customer is on 'basik'; expected one of basic"),
    ],
)
def test_plans_that_are_not_on_sale(plans: str, moves: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput) as error:
        compare(population(plans), catalogue({"basic": {}}), FLAT, moves=moves)
    assert message in str(error.value)


def test_add_ons_that_are_not_on_sale() -> None:
    bare = FLAT.model_copy(update={"add_ons": {}})
    customers = population("{flat: {add_ons: {brief_pack: 2}}}")
    with pytest.raises(BadInput, match="B has no add-on 'brief_pack'") as error:
        compare(customers, FLAT, bare)
    lost = "if customers are to lose it, let B sell it with amount 1 for 0 USD"
    assert str(error.value).endswith(f"which no --move replaces; expected none, for there are none; {lost}")
    pack = FLAT.add_ons["brief_pack"].model_copy(update={"amount": 1, "price": 0})
    losing = FLAT.model_copy(update={"add_ons": {"brief_pack": pack}})
    compared = compare(customers, FLAT, losing, policy=CALENDAR, replications=2)
    assert compared.row("add_ons")["difference"] == -10 * 2 * FLAT.add_ons["brief_pack"].price


def test_one_replication_has_no_interval() -> None:
    with pytest.raises(BadInput, match="at least 2"):
        compare(population(), FLAT, TIGHT, replications=1)


@pytest.mark.parametrize("name", ["margin", "limits", "percentiles"])
def test_plots(name: str) -> None:
    compared = compare(population(), FLAT, TIGHT, policy=CALENDAR, replications=2)
    ax = compared.plot(name, new_figure().subplots())
    assert ax.get_xlabel()
    if name == "margin":
        assert [bar.get_width() for bar in ax.patches] == pytest.approx([-79, -79])
    if name == "percentiles":  # the intervals of A and B never lie on each other
        at = [float(line.get_xdata()[0]) % 1 for line in ax.lines if line.get_linestyle() != "None"]
        assert {round(place, 2) for place in at[:-1]} == {0.12, 0.88}


def test_nothing_is_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts: list[int] = []
    serve = Compiled.serve

    def counted(self: Compiled, side: int, rows: Any, first: int) -> None:
        accounts.extend(rows)
        serve(self, side, rows, first)

    monkeypatch.setattr(Compiled, "serve", counted)
    cheap = catalogue({"flat": {"price": 20 * USD}}, "cheap")
    compared = compare(population(), FLAT, cheap, policy=CALENDAR, replications=3)
    # Ten customers of three replications: a price changes nothing, and they are on the one plan there is.
    assert len(accounts) == 10 * 3
    assert {need.side for need in compared.needs} == {"A", "B"}
    compare(population(), FLAT, TIGHT, policy=CALENDAR, replications=3)
    assert len(accounts) == 10 * 3 + 2 * 10 * 3


def test_it_goes_on_until_the_difference_is_known() -> None:
    some = population().replace(seed=None, segments={"all": {"arrivals": "poisson"}})
    messages: list[str] = []
    compared = compare(some, FLAT, TIGHT, policy=CALENDAR, replications=2, precision=0.5,
                       progress=lambda share, text: messages.append(text))  # fmt: skip
    counted = [text.partition(", the margin changes by ")[0] for text in messages]
    assert counted == [units.many(number, "replication") for number in range(1, FIRST_STAGE + 1)]
    assert compared.replications == FIRST_STAGE
    margin = compared.row("margin")
    assert messages[-1].endswith(units.write("money", margin["difference"], margin["low"], margin["high"]))
    with pytest.raises(BadInput, match="precision: expected a share"):
        compare(some, FLAT, TIGHT, precision=2)


def test_what_never_differs_ends() -> None:
    compared = compare(population(), FLAT, FLAT, policy=CALENDAR, replications=2, precision=0.01)
    assert (compared.replications, compared.row("margin")["difference"]) == (FIRST_STAGE, 0)


def test_a_price_that_is_not_known_is_not_taken_for_nothing() -> None:
    unknown = catalogue({"flat": {"price": 0}}).model_copy(update={"prices_known": False})
    compared = compare(population(), unknown, FLAT, policy=CALENDAR, replications=2)
    assert "The margin is not known, since A does not know what flat costs" in compared.sentence
    assert "36.00 USD under A and 36.00 USD under B" in compared.sentence
    metrics = {row["metric"] for row in compared.differences}
    assert "cost" in metrics
    assert not {"revenue", "plan_prices", "add_ons", "margin", "negative"} & metrics
    assert (compared.margins, compared.needs, compared.plots) == ((), (), ("limits",))
    assert compared.views()
    assert compared.notes
    assert compared.title == f"Catalogue A ({compared.names[0]}) against catalogue B ({compared.names[1]})"
    [price] = [row for row in compared.tables["changes"] if row["path"] == "plans.flat.price"]
    assert (price["a"], price["b"]) == ("not known", "30 USD")


def test_a_price_that_only_b_does_not_know_is_not_taken_for_nothing() -> None:
    unknown = catalogue({"flat": {"price": 0}}).model_copy(update={"prices_known": False})
    compared = compare(population(), FLAT, unknown, policy=CALENDAR, replications=2)
    assert "The margin is not known, since B does not know what flat costs" in compared.sentence
    assert compared.margins == ()


def test_nobody_is_assumed_to_leave_and_that_is_said() -> None:
    compared = compare(population(accounts=1), FLAT, TIGHT, policy=CALENDAR, replications=2)
    assumption = "Nobody is assumed to leave, or to buy another plan, because of a price or a refusal."
    assert compared.notes[0] == assumption
    assert assumption in compared._repr_html_()
    assert (
        "Further tables: margins, needs, more of differences; frame(NAME) has one." in compared._repr_html_()
    )
    assert "What would have been enough" not in compared._repr_html_()
    assert " Of 1 customer in 30d, B earns" in compared.sentence
    assert "of them" not in compared.sentence  # one is no share of customers


def test_who_leaves_pays_and_costs_nothing() -> None:
    # The bill rises by half from 30 USD: with 0.4 for 1 a fifth of them leaves.
    dearer = catalogue({"flat": {"price": 45 * USD}}, "dearer")
    compared = compare(population(), FLAT, dearer, policy=CALENDAR, replications=2, demand=Demand(price=0.4))
    expected = {"customers": 8, "revenue": 8 * 45 * USD, "cost": 8 * 3.6 * USD, "margin": 8 * 41.4 * USD}
    assert {name: compared.row(name)["b"] for name in expected} == pytest.approx(expected)
    assert compared.row("customers")["a"] == 10
    assert compared.row("margin")["a"] == 10 * 26.4 * USD
    assert compared.row("blocked")["difference"] == compared.row("negative")["difference"] == 0
    (stay,) = (view for view in compared.views() if view.title == "Customers who stay or come")
    assert [row[-1] for row in stay.rows] == ["−2", "−2"]
    assert compared.notes[0].startswith(
        "Assumed, not measured: of customers whose bill rises by a tenth 4 % leave"
    )


def test_who_is_newly_refused_may_leave() -> None:
    demand = Demand(refused=0.25)
    compared = compare(population(), FLAT, TIGHT, policy=CALENDAR, replications=2, demand=demand)
    assert compared.row("customers")["b"] == 7.5
    loose = compare(population(), TIGHT, TIGHT, policy=CALENDAR, replications=2, demand=demand)
    assert loose.row("customers")["b"] == 10  # they were refused before, too


def test_who_was_out_of_quota_and_meets_the_ceiling_now_is_newly_refused() -> None:
    quotas = FLAT.plans["flat"].quotas
    few = {name: quota.model_copy(update={"limit": 20}) for name, quota in quotas.items()}  # of 28 a week
    short = catalogue({"flat": {"price": 30 * USD, "quotas": few}})
    both = catalogue({"flat": {"price": 30 * USD, "quotas": few, "cost_ceiling": 1_500_000}}, "both")
    arguments = {"policy": CALENDAR, "replications": 2, "demand": Demand(refused=0.25)}
    compared = compare(population(), short, both, **arguments)
    assert compared.row("customers")["b"] == 7.5
    grid = {"plans.flat.cost_ceiling": ["1.5 USD"]}
    (point,) = pareto(population(), short, grid, **arguments).points
    assert point["margin"] == pytest.approx(compared.row("margin")["b"])
    assert compare(population(), both, short, **arguments).row("customers")["b"] == 10


def test_plans_whose_price_stays_keep_their_customers() -> None:
    plans = "{flat: 1, other: 1}"
    a = catalogue({"flat": {"price": 30 * USD}, "other": {"price": 10 * USD}})
    b = catalogue({"flat": {"price": 45 * USD}, "other": {"price": 10 * USD}})
    compared = compare(population(plans), a, b, policy=CALENDAR, replications=2, demand=Demand(price=1.0))
    other, flat = compared.row("margin", "other"), compared.row("customers", "flat")
    assert (other["difference"], other["low"], other["high"]) == (0, 0, 0)
    assert flat["b"] == pytest.approx(flat["a"] / 2)


def test_what_a_population_leaves_out_of_failures_is_in_the_notes() -> None:
    rates = {**FLAT.job_failure_rates, "rank_run": 500, "crawl": 25}
    customers, failing = population(), FLAT.model_copy(update={"job_failure_rates": rates})
    left_out = "left out is how often jobs fail (rank_run 50 %, crawl 2.5 %), which a scenario has."
    grid = {"plans.flat.price": ["30 USD", "45 USD"]}
    for answer in (
        compare(customers, FLAT, failing, policy=CALENDAR, replications=2),
        pareto(customers, failing, grid, policy=CALENDAR, replications=2),
        break_even(customers, failing, policy=CALENDAR, replications=2),
    ):
        assert sum(note.endswith(left_out) for note in answer.notes) == 1
    same = compare(customers, FLAT, FLAT, policy=CALENDAR, replications=2)
    assert not any("jobs fail" in note for note in same.notes)


def test_that_a_bill_of_nothing_drives_nobody_away_is_said() -> None:
    free = catalogue({"flat": {"price": 0}, "other": {"price": 10 * USD}})
    paid = catalogue({"flat": {"price": 45 * USD}, "other": {"price": 10 * USD}})
    customers, price = population("{flat: 1, other: 1}"), Demand(price=1.0)

    def unmoved_notes(a: Catalogue, b: Catalogue, demand: Demand | None) -> list[str]:
        compared = compare(customers, a, b, policy=CALENDAR, replications=2, demand=demand)
        assert compared.row("customers")["b"] == 10
        return [note for note in compared.notes if "paid nothing" in note]

    assert not unmoved_notes(free, paid, None)
    assert not unmoved_notes(free, free, price)
    [note] = unmoved_notes(free, paid, price)
    assert re.fullmatch(
        r"\d+ of 20 customers paid nothing before, and would pay under B: that is a rise by no ratio, so "
        r"none of them is taken to leave because of it\.",
        note,
    )
    grid = {"plans.flat.price": ["0 USD", "45 USD"]}
    frontier = pareto(customers, free, grid, policy=CALENDAR, replications=2, demand=price)
    assert any("and would pay under some of the catalogues: " in note for note in frontier.notes)


def test_a_bill_that_is_not_known_does_not_rise() -> None:
    unknown = catalogue({"flat": {"price": 0}}).model_copy(update={"prices_known": False})
    with pytest.raises(
        BadInput, match=r"--leave-price: A does not know what flat costs .*no bill is known to"
    ):
        compare(population(), unknown, FLAT, replications=2, demand=Demand(price=0.1))


def test_one_customer_is_no_share_of_customers() -> None:
    compared = compare(population(accounts=1), FLAT, TIGHT, policy=CALENDAR, replications=2)
    assert re.search(
        r"; that customer meets \w+ in \d+ % of the replications, under A in 0 %\.$", compared.sentence
    )
