"""The best catalogue of a grid for recorded customers: halving, who is refused anew, and what is assumed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec
from ranksim.core.clock import DAY, instant
from ranksim.core.contract.facts import Spend
from ranksim.core.contract.policy import shipped_catalogue
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.rows import UNSTATED, CallRow, to_records
from ranksim.planner.pricing.columns import ColumnAccount, Columns, read_columns, save_columns
from ranksim.planner.pricing.demand import Demand
from ranksim.planner.pricing.replay import RecordedAccount
from ranksim.planner.pricing.search import search

START = instant("2026-09-01T00:00:00Z")
PLANS = shipped_catalogue("illustrative")
USD = 1_000_000
BRIEFS = "plans.pro.quotas.keyword_brief_refreshes.limit"
PRICE, CEILING = "plans.pro.price", "plans.pro.cost_ceiling"


def columns(*briefs: int, recorded: int = 0) -> Columns:
    """An account for each number: so many briefs, one an hour, on the first day; one month."""
    spec = AccountSpec(plan="pro", anchor=START, portfolio=PortfolioSpec())
    rows = [
        CallRow(
            account=account, key=account, at=START + n * DAY // 40, activity=Spend.KEYWORD_BRIEFS, size=1,
            recorded=recorded if n == count - 1 else 0,
        )
        for account, count in enumerate(briefs)
        for n in range(count)
    ]  # fmt: skip
    calls = to_records(rows, CallRow)
    return Columns(
        "by hand", tuple(ColumnAccount(f"a{n}", spec, count, n) for n, count in enumerate(briefs)),
        keys=len(briefs), things=0, start=START, end=START + 20 * DAY, calls=len(calls), left_out={},
        chunks=lambda: iter([calls.copy()]),
    )  # fmt: skip


def test_the_best_is_the_dearest_that_refuses_nobody_anew() -> None:
    # 20 customers with 5 briefs; an allowance of 4 refuses them all, at any price.
    answer = search(columns(*[5] * 20), PLANS, {PRICE: ["99 USD", "149 USD"], BRIEFS: [4, 5]}, compiled=False)
    best = answer.best
    assert best is not None
    assert best["point"] == "pro.price 149 USD, pro.quotas.keyword_brief_refreshes.limit 5"
    assert (best["change"], best["change_low"], best["change_high"]) == (400 * USD, None, None)  # all alike
    assert best["margin"] == 20 * (149 * USD - 5 * 30_000)
    shares = {row[BRIEFS]: (row["newly_refused"], row["allowed"]) for row in answer.candidates}
    assert shares == {4: (1, False), 5: (0, True)}
    ax = answer.plot()
    assert ax.get_title() == "149 USD, 5 earns most: 20.00 USD more a customer"
    assert {tick.get_text() for tick in ax.get_yticklabels()} >= {"149 USD, 5", "99 USD, 4"}
    assert sorted({text.get_text() for text in ax.texts}) == ["best", "earns less", "refuses too many"]
    # What differs in prices alone is served once: the catalogue as it is, and two allowances.
    assert answer.served == 3 * 100
    assert answer.sentence.startswith("Of 4 catalogues, pro.price 149 USD")


def test_a_refusal_that_was_met_before_is_not_new() -> None:
    grid = {BRIEFS: [4]}
    assert search(columns(*[5] * 9), PLANS, grid, compiled=False).best is None
    assert search(columns(*[5] * 9, recorded=4), PLANS, grid, compiled=False).best is not None
    unstated = search(columns(*[5] * 9, recorded=UNSTATED), PLANS, grid, compiled=False)
    assert unstated.best is not None
    assert any(note.startswith("The reason of 9 calls refused when recorded") for note in unstated.notes)


def test_none_is_allowed() -> None:
    answer = search(columns(*[5] * 9), PLANS, {BRIEFS: [3, 4]}, compiled=False)
    assert answer.tornado == ()
    assert answer.sentence == (
        "Under none of 2 catalogues do fewer than 1 % of these customers meet a refusal that they never met. "
        "Most of those refused meet quota_exhausted."
    )
    assert {row["code"] for row in answer.candidates} == {"quota_exhausted"}


def test_whom_the_catalogue_as_it_is_refuses_is_told_beside_the_candidates() -> None:
    # The allowance is 50 a week: one of ten asks for 51, and all were let pass when they were recorded.
    answer = search(columns(*[5] * 9, 51), PLANS, {PRICE: ["129 USD", "149 USD"]}, compiled=False)
    assert answer.now == (1, 10)
    sentence = (
        " 10 % of these customers meet one under the catalogue as it is, which is not quite the one that"
    )
    assert (answer.best, sentence in answer.sentence) == (None, True)
    assert "the catalogue as it is" not in search(columns(5), PLANS, {BRIEFS: [4]}, compiled=False).sentence


def test_what_is_assumed_of_jobs_is_told() -> None:
    row = CallRow(account=0, key=0, at=START, activity=Spend.RANK_RUN, recorded=0)
    (own,) = columns(1).accounts
    spec = AccountSpec(plan="", anchor=START, portfolio=PortfolioSpec(domains=1, keywords=400))
    owner = replace(columns(1), accounts=(replace(own, spec=spec),))
    run = replace(owner, chunks=lambda: iter([to_records([row], CallRow)]))
    answer = search(run, PLANS, {BRIEFS: [5]}, plan="pro", compiled=False)
    assert any("400 keywords are assumed on each of 1 domain" in note for note in answer.notes)


def test_a_best_that_earns_less_or_the_same_is_said_to() -> None:
    def gained(*prices: str) -> str:
        return search(columns(*[5] * 9), PLANS, {PRICE: [*prices]}, risk=0.5, compiled=False).sentence

    assert "never met: 90.00 USD less than the catalogue as it is." in gained("119 USD")
    assert "never met: the same as the catalogue as it is." in gained("129 USD")
    assert "never met: 90.00 USD more than the catalogue as it is." in gained("139 USD")


def test_what_few_customers_do_not_show_is_not_known() -> None:
    """To show a share below one in a hundred takes 299 customers of whom none meets a refusal."""

    def told(customers: int, risk: float = 0.01) -> str:
        return search(
            columns(*[5] * customers), PLANS, {PRICE: ["139 USD"]}, risk=risk, compiled=False
        ).sentence

    few = "would meet one: whether fewer than 1 % is not known from 20 customers, since even if none of them"
    assert f"{few} meets one that needs 299." in told(20)
    assert told(299).endswith(" would meet one.")
    assert "not known" not in told(20, risk=0.2)
    assert "10.00 USD more (one customer shows no interval) than the catalogue as it is." in told(1)


def test_who_earns_the_same_does_not_earn_less() -> None:
    # Of five briefs an allowance of 5 and one of 8 refuse none.
    for allowances in ([5, 8], [8, 5]):
        answer = search(columns(*[5] * 20), PLANS, {BRIEFS: [*allowances, 4]}, compiled=False)
        standing = {row[BRIEFS]: row["standing"] for row in answer.candidates}
        first, other = allowances
        assert standing == {first: "best", other: "earns the same", 4: "refuses too many"}
        assert any(note.startswith("1 other catalogue earns the same as the best") for note in answer.notes)


def test_of_those_that_earn_the_same_the_best_refuses_fewest() -> None:
    # The sixth brief of one customer costs nothing here, and an allowance of 5 refuses it.
    free = PLANS.model_copy(update={"unit_costs": PLANS.unit_costs.model_copy(update={"keyword_brief": 0})})
    answer = search(columns(*[5] * 99, 6), free, {BRIEFS: [5, 6]}, risk=0.02, compiled=False)
    assert answer.best is not None
    assert answer.best[BRIEFS] == 6
    assert answer.candidates[1]["standing"] == "earns the same"


def test_changes_are_of_all_customers() -> None:
    view = search(columns(*[5] * 9), PLANS, {BRIEFS: [5]}, compiled=False).views()[0]
    assert "change of all customers in 1 month" in view.headings
    longer = replace(columns(5, 5), end=START + 100 * DAY)
    late = RecordedAccount(plan="pro", anchor=START, portfolio=PortfolioSpec(), left=START + 40 * DAY)
    longer = replace(longer, accounts=(replace(longer.accounts[0], spec=late), longer.accounts[1]))
    answer = search(longer, PLANS, {PRICE: ["99 USD"]}, plan="pro", compiled=False)
    assert answer.months == (2, 4)
    assert answer.best is not None
    assert answer.best["change"] == -30 * USD * 6
    assert "change of all customers in 2 to 4 months" in answer.views()[0].headings


def test_who_spends_least_by_refusing_too_many_crowds_nobody_out() -> None:
    # 12 of 30 ask for nine briefs: fewer than nine refuse too many, though not surely of the first ten.
    some = columns(*[5, 5, 5, 9, 9] * 6)
    answer = search(some, PLANS, {BRIEFS: [5, 6, 7, 8, 9, 10]}, risk=0.3, first=10, compiled=False)
    assert answer.best is not None
    assert answer.best[BRIEFS] in (9, 10)


def test_fewer_than_the_risk_is_a_share_of_all_customers() -> None:
    some = columns(*[5] * 99, 9)
    assert search(some, PLANS, {BRIEFS: [6]}, compiled=False).best is None  # 1 of 100 is not below 1 %
    answer = search(some, PLANS, {BRIEFS: [6]}, risk=0.011, compiled=False)
    assert answer.best is not None
    assert answer.best["newly_refused_low"] < 0.01 < answer.best["newly_refused_high"]


def test_halving_keeps_the_better_third_and_ends_what_surely_refuses_too_many() -> None:
    some = columns(*[5] * 40)
    grid = {PRICE: [f"{n} USD" for n in range(100, 109)], BRIEFS: [4, 5]}
    answer = search(some, PLANS, grid, first=10, compiled=False)
    ended = [row for row in answer.candidates if not row["final"]]
    assert {row["customers"] for row in ended} == {10}
    assert len(ended) == 15  # nine that refuse all, and two thirds of nine
    assert all(row["rounds"] == 1 for row in ended)
    standing = Counter((row[BRIEFS], row["standing"]) for row in answer.candidates)
    assert standing == {
        (5, "best"): 1, (5, "earns less"): 2, (5, "earns less, out in round 1"): 6,
        (4, "refuses too many, out in round 1"): 9,
    }  # fmt: skip
    (view, _) = answer.views()
    assert view.headings[:4] == ("standing", "pro price", "keyword brief refreshes limit", "customers")
    assert view.rows[0][:4] == ("best", "108.00 USD", "5", "40")
    assert view.words == 1  # amounts are not broken
    best = answer.best
    assert best is not None
    assert (best["point"].split(",")[0], best["customers"]) == ("pro.price 108 USD", 40)
    unhalved = search(some, PLANS, grid, compiled=False).best
    assert unhalved is not None
    assert unhalved["point"] == best["point"]


def test_customers_are_the_same_in_whatever_order_candidates_stand() -> None:
    some = columns(*range(1, 31))
    one = search(some, PLANS, {PRICE: ["90 USD", "95 USD", "99 USD", "100 USD"]}, first=5, compiled=False)
    other = search(some, PLANS, {PRICE: ["100 USD", "99 USD", "95 USD", "90 USD"]}, first=5, compiled=False)
    margins = [{row["point"]: row["margin"] for row in answer.candidates} for answer in (one, other)]
    assert margins[0] == margins[1]


def test_demand_is_assumed_and_varied() -> None:
    # From 129 to 193.50 USD is half as much again: with 1 for 1 half of the customers leave.
    demand = Demand(price=1.0)
    some = columns(*[5] * 8)
    answer = search(some, PLANS, {PRICE: ["193.50 USD"]}, demand=demand, compiled=False)
    cost = 5 * 30_000
    (row,) = answer.candidates
    assert row["margin"] == pytest.approx(8 * (193_500_000 - cost) / 2)
    price = next(row for row in answer.tornado if row["assumption"].startswith("leave where the bill"))
    assert price["change_at_low"] == pytest.approx(8 * 64_500_000)
    assert price["change_at_high"] == pytest.approx(8 * ((193_500_000 - cost) / 2 - (129_000_000 - cost)))
    assert answer.tornado[0] is price
    assert any("of customers whose bill rises by a tenth 10 % leave" in note for note in answer.notes)


def test_who_is_refused_anew_may_leave() -> None:
    demand = Demand(refused=0.25)
    answer = search(columns(*[5] * 4), PLANS, {BRIEFS: [4]}, demand=demand, risk=0.999, compiled=False)
    assert answer.candidates[0]["margin"] == pytest.approx(4 * (129 * USD - 4 * 30_000) * 0.75)


@pytest.mark.parametrize(
    ("grid", "how", "message"),
    [
        ({}, {}, "at least one path"),
        ({PRICE: ["1 USD"]}, {"risk": 0.0}, "risk: expected a share"),
        ({PRICE: ["1 USD"]}, {"first": 0}, "first: expected at least 1"),
        ({PRICE: [f"{n} USD" for n in range(2_001)]}, {}, "2,001 points are more than"),
        ({"plans.gold.price": ["1 USD"]}, {}, "gold"),
    ],
)
def test_what_cannot_be_searched(grid: dict[str, list[object]], how: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        search(columns(1), PLANS, grid, compiled=False, **how)


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    path, out = tmp_path / "calls.parquet", tmp_path / "out"
    save_columns(columns(*[5] * 6), path, salt="s")
    words = ["price", "search", str(path), "--vary", f"{PRICE}=99 USD,149 USD", "--out", str(out)]
    result = CliRunner().invoke(app, [*words, "--leave-price", "0.1"], env={"COLUMNS": "250"})
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(
        "Of 2 catalogues, pro.price 149 USD earns most with fewer than 1 % of these "
    )
    assert "If demand answered otherwise" in result.stdout
    assert (out / "tables" / "tornado.parquet").exists()
    wrong = CliRunner().invoke(app, [*words[:-2], "--leave-refused", "2"])
    assert (wrong.exit_code, "--leave-refused: expected a share" in wrong.stderr) == (2, True)


def test_frames_have_dollars() -> None:
    pytest.importorskip("pandas")
    answer = search(columns(*[5] * 20), PLANS, {PRICE: ["99 USD", "149 USD"]}, compiled=False)
    assert answer.frame()["change_usd"].max() == 400
    assert sorted(answer.frame()[f"{PRICE}_usd"]) == [99, 149]
    written = answer._spec("candidates").in_files(answer.rows())
    assert sorted(row[f"{PRICE}_uusd"] for row in written) == [99 * USD, 149 * USD]
    assert answer.frame("candidates", integers=True)["change_uusd"].max() == 400 * USD
    assert {"change_usd_low", "margin_usd"} <= {*answer.frame()}
    assert "change_at_low_usd" in answer.frame("tornado")


def test_columns_and_a_catalogue_are_given_by_their_paths_too(tmp_path: Path) -> None:
    path, grid = tmp_path / "calls.parquet", {PRICE: ["99 USD"]}
    save_columns(columns(*[5] * 6), path, salt="s")
    by_path = search(str(path), "illustrative", grid, compiled=False)
    assert by_path.tables == search(read_columns(path), PLANS, grid, compiled=False).tables
