"""Break-even prices and ceilings against what can be told by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flat_customers import CALENDAR, USD, catalogue, population

from ranksim.core.errors import BadInput
from ranksim.planner.pricing.bills import Bills
from ranksim.planner.pricing.break_even import CeilingTrial, _even, break_even, fewest, is_unsafe
from ranksim.report.figure import new_figure


@pytest.mark.slow
def test_the_price_is_the_mean_cost() -> None:
    answer = break_even(
        population(), catalogue({"flat": {"price": 30 * USD}}), policy=CALENDAR, replications=2
    )
    plan = answer.of("flat")
    assert (plan.even, plan.even_low, plan.even_high) == (3_600_000, None, None)  # no width from agreement


def test_it_is_the_cost_of_all_replications_over_their_months() -> None:
    """One customer who costs 10 USD, then three who cost 2 each: 4 USD a month, not the mean of 10 and 2."""

    def bill(costs: list[int]) -> Bills:
        cost = np.array(costs, dtype=np.int64) * USD
        nothing, months = np.zeros_like(cost), np.ones(len(costs))
        return Bills(np.array(["flat"] * len(costs)), months, nothing, nothing, cost)

    even, low, high, replications = _even([bill([10]), bill([2, 2, 2])], "flat", 0.95)
    assert (even, replications) == (4 * USD, 2)
    assert low is not None
    assert high is not None
    assert (low + high) / 2 == pytest.approx(4 * USD)
    assert _even([bill([3]), bill([3])], "flat", 0.95) == (3 * USD, None, None, 2)


def test_a_price_that_is_not_known_breaks_nowhere_even() -> None:
    unknown = catalogue({"flat": {"price": 0}}).model_copy(update={"prices_known": False})
    with pytest.raises(BadInput, match="plan: flat does not know what flat costs a month; write it into"):
        break_even(population(), unknown, replications=2)


def test_add_ons_pay_part_of_it() -> None:
    plans = "{flat: {add_ons: {brief_pack: 1}}}"
    answer = break_even(population(plans), catalogue({"flat": {}}), policy=CALENDAR, replications=2)
    assert answer.of("flat").even == 3_600_000 - 15_000_000


@pytest.mark.parametrize(("price", "safe"), [(3_000_000, 3), (2_990_000, 2), (1_020_000, 1), (1_010_000, 0)])
def test_the_highest_safe_ceiling(price: int, safe: int) -> None:
    # The brief that crosses a ceiling is made (U48): 3 USD let 100 briefs pass for 3.00, 1 USD 34 for 1.02.
    sold = catalogue({"flat": {"price": price}})
    answer = break_even(population(accounts=150), sold, policy=CALENDAR, replications=2)
    assert (answer.of("flat").safe, answer.of("flat").needless) == (safe * USD, False)
    assert {row[-1] for row in answer.views()[1].rows} == {"yes", "no"}


def test_no_ceiling_is_needed_where_nobody_costs_more() -> None:
    sold = catalogue({"flat": {"price": 4 * USD}})
    answer = break_even(population(accounts=150), sold, policy=CALENDAR, replications=2)
    assert (answer.of("flat").safe, answer.of("flat").needless) == (3_600_000, True)
    assert "no ceiling is needed: nobody costs more than 3.60 USD" in answer.sentence


def test_a_ceiling_that_is_not_needed_though_some_cost_more_than_they_pay_is_told_as_such() -> None:
    sold = catalogue({"flat": {"price": 4 * USD}})
    plan = break_even(population(accounts=150), sold, policy=CALENDAR, replications=2).of("flat")
    sentence = replace(plan, price=3 * USD).text
    assert "so few customers cost more than they pay" in sentence
    assert "the dearest costs 3.60 USD" in sentence
    assert "nobody" not in sentence


@pytest.mark.parametrize(("accounts", "safe"), [(149, None), (150, 3_600_000)])
def test_too_few_customers_show_nothing(accounts: int, safe: int | None) -> None:
    assert fewest(0.01, 0.95) == 299
    sold = catalogue({"flat": {"price": 4 * USD}})
    answer = break_even(population(accounts=accounts), sold, policy=CALENDAR, replications=2)
    assert answer.of("flat").safe == safe
    assert any("this needs 299 customers" in note for note in answer.notes) == (safe is None)
    assert answer.of("flat").needless is (None if safe is None else True)
    assert answer.tables["plans"][0]["needless"] is answer.of("flat").needless
    assert answer.views()[0].rows[0][1] == ("not known" if safe is None else "no")
    assert ("too few customers to say which ceiling is safe" in answer.sentence) == (safe is None)


@pytest.mark.parametrize(("price", "needed"), [(0, "yes"), (4 * USD, "not known")])
def test_few_customers_who_lose_show_that_a_ceiling_is_needed(price: int, needed: str) -> None:
    sold = catalogue({"flat": {"price": price}})
    answer = break_even(population(accounts=4), sold, policy=CALENDAR, replications=2)
    plan = answer.of("flat")
    assert (plan.safe, plan.needless) == (None, False if needed == "yes" else None)
    assert answer.views()[0].rows[0][1] == needed
    assert ("a ceiling is needed, but none could be shown to be safe" in answer.sentence) == (not price)
    assert any("this needs 299 customers" in note for note in answer.notes)


def test_one_loser_of_few_does_not_show_that_a_ceiling_is_needed() -> None:
    assert not is_unsafe(CeilingTrial("flat", 0, 9, 1, 0.5, False), 0.01, 0.95)  # 1 - 0.99**9 > 0.05
    assert is_unsafe(CeilingTrial("flat", 0, 5, 1, 0.5, False), 0.01, 0.95)  # 1 - 0.99**5 < 0.05


def test_a_risk_near_nothing_needs_a_multitude() -> None:
    assert fewest(1e-17, 0.95) == pytest.approx(2.9957e17, rel=1e-4)


def test_a_plan_that_nobody_is_on() -> None:
    sold = catalogue({"flat": {}, "rare": {}})
    with pytest.raises(BadInput, match="plan: nobody is on rare in any replication"):
        break_even(population("{flat: 1, rare: 0}"), sold, plans=["rare"], replications=2)


def test_a_share_may_lose() -> None:
    varied = population(briefs="{uniform: {low: 1, high: 10}}", accounts=200)
    sold = catalogue({"flat": {"price": 8 * USD}})
    answer = break_even(varied, sold, policy=CALENDAR, risk=0.2, replications=2)
    strict = break_even(varied, sold, policy=CALENDAR, risk=0.02, replications=2)
    # 8 USD are 267 briefs, 8.9 a day: about 12 % cost more, which 20 % allows and 2 % does not.
    assert answer.of("flat").needless
    assert strict.of("flat").safe == 7 * USD
    last = {trial.ceiling: trial for trial in strict.trials}
    # A ceiling of 8 USD ends at 8.01 USD, which is more than they pay.
    assert last[7 * USD].negative == 0 < 0.02 * 400 < last[8 * USD].negative == last[9 * USD].negative


def test_wrong_questions() -> None:
    sold = catalogue({"flat": {}, "gold": {}})
    with pytest.raises(BadInput, match="no customer is on 'gold'; expected one of flat"):
        break_even(population(), sold, plans=["gold"])
    with pytest.raises(BadInput, match="between 0 and 1"):
        break_even(population(), sold, risk=0)


@pytest.mark.parametrize("name", ["prices", "ceilings"])
def test_plots(name: str) -> None:
    answer = break_even(
        population(), catalogue({"flat": {"price": 3 * USD}}), policy=CALENDAR, replications=2
    )
    ax = answer.plot(name, new_figure().subplots())
    assert "USD" in ax.get_xlabel()
    once = {trial.plan: trial for trial in answer.trials}
    assert replace(answer, trials=tuple(once.values())).plots == ("prices",)
    if name == "prices":
        assert {line.get_xdata()[0] for line in ax.lines} == {3.0, 3.6}
        assert ax.get_xlim()[0] == 0


def test_a_plan_that_breaks_even_below_nothing_is_drawn() -> None:
    flat = catalogue({"flat": {"price": 3 * USD}})
    answer = break_even(population(), flat, policy=CALENDAR, replications=2)
    (plan,) = answer.balances
    paid = replace(answer, balances=(replace(plan, even=-6e6, even_low=-7e6, even_high=-5e6),))
    ax = paid.plot("prices", new_figure().subplots())
    assert ax.get_xlim()[0] < -7
    assert "breaks even -6.00" in {text.get_text() for text in ax.texts}
