"""What customers of columns would have been billed and refused: by name, by day, and in a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recorded_calls import generated, policy_of

from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec
from ranksim.core.clock import DAY, instant
from ranksim.core.contract.facts import Spend
from ranksim.core.contract.policy import Policy, shipped_catalogue
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.rows import READ, UNSTATED, CallRow, to_records
from ranksim.planner.pricing.audit import audit, sample
from ranksim.planner.pricing.back_test import back_test
from ranksim.planner.pricing.column_back_test import ColumnBackTest, back_test_columns
from ranksim.planner.pricing.column_run import ColumnRun
from ranksim.planner.pricing.columns import ColumnAccount, Columns
from ranksim.planner.pricing.importing import columns_of
from ranksim.planner.pricing.pareto import changed
from ranksim.planner.pricing.recorded_sides import Side
from ranksim.planner.pricing.recording import read_recording

EXAMPLES = Path(__file__).parents[3] / "examples" / "pricing"
START = instant("2026-09-01T00:00:00Z")
PLANS = shipped_catalogue("illustrative")
USD = 1_000_000


def columns(*rows: CallRow, accounts: int = 1, plan: str = "starter") -> Columns:
    spec = AccountSpec(plan=plan, anchor=START, portfolio=PortfolioSpec(keywords=50))
    calls = to_records(sorted(rows, key=lambda row: (row.account, row.at)), CallRow)
    return Columns(
        "by hand",
        tuple(ColumnAccount(f"a{n}", spec, int((calls["account"] == n).sum()), n) for n in range(accounts)),
        keys=accounts, things=0, start=START, end=START + 40 * DAY, calls=len(calls), left_out={},
        chunks=lambda: iter([calls.copy()]),
    )  # fmt: skip


def brief(day: int, account: int = 0, recorded: int = 0, size: int = 1) -> CallRow:
    """Briefs at noon."""
    return CallRow(
        account=account, key=account, at=START + day * DAY + DAY // 2, activity=Spend.KEYWORD_BRIEFS,
        size=size, recorded=recorded,
    )  # fmt: skip


def tried(tested: Columns, *plans: str) -> ColumnBackTest:
    return back_test_columns(tested, [Side(PLANS, plan) for plan in plans], compiled=False)


def test_a_customer_is_billed_and_refused_by_day() -> None:
    # Ten a week on starter: 8 on Tuesday, 3 refused on Wednesday, 2 granted on Thursday, next month one.
    tested = tried(columns(brief(0, size=8), brief(1, size=3), brief(2, size=2), brief(35)), "starter")
    (customer,) = tested.customers
    assert (customer["revenue"], customer["cost"]) == (2 * 29 * USD, 11 * 30_000)
    assert customer["sentence"] == (
        "On starter you would have been billed 58.00 USD for 2 months, and 1 of your 4 calls would have been "
        "refused on 1 day, first on 2026-09-02: 1 quota_exhausted (never before)."
    )
    assert tested.tables["days"] == [
        {
            "side": "A", "account": "a0", "day": "2026-09-02", "operation": "keyword_briefs",
            "code": "quota_exhausted", "calls": 1,
        }
    ]  # fmt: skip
    assert [(row["month"], row["revenue"], row["cost"]) for row in tested.tables["invoices"]] == [
        (1, 29 * USD, 300_000),
        (2, 29 * USD, 30_000),
    ]


def test_nobody_is_told_of_refusals_who_had_none() -> None:
    (customer,) = tried(columns(brief(0)), "starter").customers
    assert customer["sentence"].endswith("and none of your 1 calls would have been refused.")


def test_what_was_met_before_is_not_new() -> None:
    served = columns(brief(0, size=8), brief(1, size=3), brief(2, size=4, recorded=4), brief(35))
    tested = tried(served, "starter")
    assert (tested.share, "(never before)" in tested.customers[0]["sentence"]) == (0, False)
    assert tested.censored == [{"code": "quota_exhausted", "customers": 1, "calls": 1, "still_refused": 1}]
    wider = tried(served, "pro")
    assert wider.censored[0]["still_refused"] == 0
    assert any("1 customer met a refusal when they were recorded" in note for note in wider.notes)


def test_a_refusal_without_a_recorded_reason_was_met_before_at_its_own_call() -> None:
    calls = [brief(day, size=8, recorded=recorded) for day, recorded in ((0, 0), (1, UNSTATED), (8, 0))]
    tested = tried(columns(*calls), "starter")
    assert (tested.share, "(never before)" in tested.customers[0]["sentence"]) == (0, False)
    assert tested.refusals == [
        {"code": "quota_exhausted", "recorded": 0, "a": 1},
        {"code": "reason not recorded", "recorded": 1, "a": 0},
    ]
    assert tested.censored == [
        {"code": "reason not recorded", "customers": 1, "calls": 1, "still_refused": 1}
    ]
    assert "1 quota_exhausted (1 before, reason not recorded)." in tested.customers[0]["sentence"]
    why = "The reason of 1 call refused when recorded was not recorded: to be refused there again counts as"
    assert any(note.startswith(why) for note in tested.notes)
    mixed = tried(columns(calls[1], brief(2, size=8, recorded=4), brief(3, size=8)), "starter")
    assert "2 quota_exhausted (1 before)." in mixed.customers[0]["sentence"]
    more = tried(columns(brief(1, size=8), calls[1], brief(2, size=8, recorded=4)), "starter")
    assert "2 quota_exhausted (2 before, reason not recorded of 1)." in more.customers[0]["sentence"]
    # Refused where it was served when recorded: that is new.
    elsewhere = tried(
        columns(calls[0], replace(calls[1], recorded=0), brief(9, recorded=UNSTATED)), "starter"
    )
    assert (elsewhere.share, elsewhere.censored[0]["still_refused"]) == (1, 0)


def test_refusals_after_the_first_of_a_customer_count_as_calls() -> None:
    # "pro" has 50 a week: it refuses the first call, too. The reply of the third was lost.
    calls = columns(brief(0, size=60, recorded=4), brief(1, size=20), brief(2, size=20, recorded=-1))
    for plan, refused, anew in (
        ("pro", 1, "0 are newly refused and 0 newly admitted under A"),
        ("starter", 3, "1 are newly refused (of 1 customer) and 0 newly admitted under A"),
    ):
        tested = tried(calls, plan)
        assert (tested.share, int(tested.refused_then.sum())) == (0, 1)
        headline = (
            f"{anew}, compared with the recording; {refused} are refused in all. 0 % of the customers meet"
        )
        assert headline in tested.sentence
        assert f"{refused} quota_exhausted (1 before)" in tested.customers[0]["sentence"]
    both = tried(calls, "pro", "starter")
    assert both.refused_anew.tolist() == [2]
    assert ", 2 are newly refused (of 1 customer) and 0 newly admitted under B, compared with A; 3 are" in (
        both.sentence
    )
    back = tried(calls, "starter", "pro")
    assert ", 0 are newly refused and 2 newly admitted under B, compared with A; 1 are" in back.sentence


def test_two_sides_are_compared() -> None:
    rows = [brief(0, size=12), brief(0, account=1, size=9)]
    tested = tried(columns(*rows, accounts=2), "pro", "starter")
    assert tested.share == 0.5
    assert tested.sentence == (
        "Of 2 calls of 2 customers, 1 are newly refused (of 1 customer) and 0 newly admitted under B, "
        "compared with A; 1 are refused in all. 50 % of the customers meet a refusal that they never met "
        "under A. B bills 116.00 USD at a provider cost of 0.27 USD, A 516.00 USD at 0.63 USD."
    )
    assert tested.refusals == [{"code": "quota_exhausted", "recorded": 0, "a": 0, "b": 1}]


def test_it_agrees_with_the_back_test_of_the_same_recording() -> None:
    recording = read_recording(EXAMPLES / "trace.jsonl")
    sides = [Side(PLANS, "starter"), Side(PLANS, "pro")]
    imported = columns_of(recording)
    slow, fast = back_test(recording, sides), back_test_columns(imported, sides, compiled=False)
    for some in (sides, sides[:1], sides[::-1]):
        rows = [
            row["change"]
            for row in back_test(recording, some).calls
            if "not_found" not in (row["a_code"], row.get("b_code"))
        ]
        of_columns = back_test_columns(imported, some, compiled=False)
        assert of_columns.refused_anew.sum() == rows.count("newly refused")
        assert of_columns.admitted_anew == rows.count("newly admitted")
    for name, one in zip("AB", fast.served, strict=True):
        assert (slow.total("revenue", name), slow.total("cost", name)) == (one.revenue.sum(), one.cost.sum())
    codes = {row["code"]: (row["a"], row["b"]) for row in slow.refusals if row["code"] != "not_found"}
    assert {row["code"]: (row["a"], row["b"]) for row in fast.refusals} == codes
    assert [one.audit.text for one in fast.served] == [
        "16 calls of 1 account made again at a service one by one: all equal."
    ] * 2


@pytest.mark.parametrize("code", ["quota_exhausted", "cooldown_active", ""])
def test_a_code_counts_whatever_the_status_in_both(code: str, tmp_path: Path) -> None:
    body = json.dumps({"kind": "rank_run", "domain_id": "dom_1"}).replace('"', '""')
    (calls := tmp_path / "calls.csv").write_text(
        "time,account,method,path,status,error_code,body\n"
        f'2026-06-01T09:00:00Z,acme,POST,/v1/jobs,429,{code},"{body}"\n'
    )
    recording = read_recording(calls)
    both = (
        back_test(recording, [Side(PLANS, "pro")]),
        back_test_columns(columns_of(recording), [Side(PLANS, "pro")], compiled=False),
    )
    expected = {"code": code or "rate_limited", "recorded": 1, "a": 0}
    assert [answer.refusals for answer in both] == [[expected]] * 2


@pytest.mark.slow
def test_one_call_in_a_thousand_is_audited() -> None:
    many, policy = generated(40, 6_000, seed=4), policy_of({})
    tested = back_test_columns(many, [Side(policy.catalogue)], policy=policy, compiled=False)
    (one,) = tested.served
    assert 1_000 <= one.audit.calls < 1_300
    assert one.audit.unequal == 0
    # A wrong outcome would be found.
    worse = back_test_columns(many, [Side(policy.catalogue, "pro")], policy=policy, compiled=False)
    assert not np.array_equal(worse.served[0].refused, one.refused)


def test_only_accounts_that_are_followed_whole_are_audited() -> None:
    some = columns(*(brief(0, account=n) for n in range(4)), accounts=4)
    odd = tuple(replace(one, unmodelled={"x": 1} if n else {}) for n, one in enumerate(some.accounts))
    assert sample(replace(some, accounts=odd), seed=1) == [0]
    assert sorted(sample(some, seed=1)) == [0, 1, 2, 3]
    assert len(sample(some, seed=1, budget=2)) == 2


def test_an_audit_of_some_accounts_counts_their_months_as_all_do() -> None:
    # The month of who calls first, and of the one audited, ends on the last of September: its ceiling is met.
    early, late = brief(0), [brief(10, account=1, size=10), brief(31, account=1)]
    both = columns(early, *late, accounts=2)
    both = replace(both, start=early.at, accounts=tuple(_unanchored(one) for one in both.accounts))
    policy = Policy().replace(catalogue={"plans": {"starter": {"cost_ceiling": "0.3 USD"}}})
    run = ColumnRun(both, Side(policy.catalogue), policy, 1, compiled=False)
    (rows,) = both.chunks()
    run.serve(rows)
    checked = audit(both, rows[rows["account"] == 1], run.sold, run.policy, 1)
    assert (checked.calls, checked.unequal) == (2, 0), checked.text


def _unanchored(account: ColumnAccount) -> ColumnAccount:
    return replace(account, spec=account.spec.model_copy(update={"anchor": None}))


def test_what_is_left_out_is_told() -> None:
    (one,) = columns(brief(0)).accounts
    some = replace(columns(brief(0)), left_out={"by a GraphQL document": 7},
                   accounts=(replace(one, unmodelled={"odd things": 3}),))  # fmt: skip
    notes = " ".join(tried(some, "pro").notes)
    assert "Not in the columns: 7 by a GraphQL document." in notes
    assert "come out otherwise: 3 odd things." in notes
    assert "Worker pools that customers share and webhooks are not there" in notes
    metered = shipped_catalogue("illustrative-metered")
    failing = back_test_columns(some, [Side(metered, "team")], compiled=False)
    assert any("although the catalogue lets some fail" in note for note in failing.notes)


def test_in_what_two_catalogues_differ_is_listed_first() -> None:
    dearer = changed(PLANS, {"plans.starter.price": "31 USD"}).model_copy(update={"name": "dearer"})
    tested = back_test_columns(columns(brief(0)), [Side(PLANS), Side(dearer)], compiled=False)
    assert [(one["path"], one["a"], one["b"]) for one in tested.tables["terms"]] == [
        ("plans.starter.price", "29 USD", "31 USD")
    ]
    assert tested.views()[0].title == "What B changes"
    assert tried(columns(brief(0)), "starter").tables["terms"] == []


@pytest.mark.parametrize(
    ("prices", "name"),
    [
        ({"starter": "39 USD"}, "with starter.price 39 USD"),
        ({"starter": "39 USD", "pro": "139 USD", "agency": "500 USD"}, "changed in 3 values"),
    ],
)
def test_names_of_sides_differ(prices: dict[str, str], name: str) -> None:
    other = changed(PLANS, {f"plans.{plan}.price": price for plan, price in prices.items()})
    tested = back_test_columns(columns(brief(0)), [Side(PLANS), Side(other)], compiled=False)
    assert tested.sides == (f"own plans of {PLANS.name}", f"own plans of {PLANS.name} {name}")


def test_what_one_catalogue_leaves_out_holds_for_both() -> None:
    bare = PLANS.model_validate(PLANS.model_dump(exclude={"job_durations"}, exclude_unset=True))
    tested = back_test_columns(columns(brief(0)), [Side(bare), Side(PLANS)], compiled=False)
    assert "A leaves out job_durations; both run as B states." in " ".join(tested.notes)
    assert tested.terms == ()


def test_moves_and_own_plans() -> None:
    only = PLANS.model_copy(update={"name": "new", "plans": {"pro": PLANS.plans["pro"]}})
    reads = columns(CallRow(at=START, key=0, activity=READ))
    moved = back_test_columns(reads, [Side(PLANS), Side(only, moves={"starter": "pro"})], compiled=False)
    assert [int(one.revenue.sum()) for one in moved.served] == [2 * 29 * USD, 2 * 129 * USD]
    assert moved.sides[1] == "own plans of new, starter → pro"
    assert moved.customers[1]["sentence"].startswith("On pro you would have been billed 258.00 USD")
    with pytest.raises(BadInput, match="move: no customer is on 'startr'; expected one of starter"):
        back_test_columns(reads, [Side(PLANS), Side(PLANS, moves={"startr": "pro"})], compiled=False)
    with pytest.raises(BadInput, match=r"new has no plan 'starter'.*--move starter=PLAN"):
        back_test_columns(reads, [Side(PLANS), Side(only)], compiled=False)
    with pytest.raises(BadInput, match="nobody says which plan account a0 is on"):
        back_test_columns(columns(brief(0), plan=""), [Side(PLANS)], compiled=False)


def test_money_is_exact_to_the_micro_dollar() -> None:
    many, policy = generated(5, 900, seed=9), policy_of({})
    tested = back_test_columns(many, [Side(policy.catalogue)], policy=policy, compiled=False)
    rows = tested.tables["invoices"]
    assert sum(row["cost"] for row in rows) == tested.served[0].cost.sum()
    assert Policy().catalogue.plans["pro"].price == 129 * USD


def test_frames_have_days_and_dollars() -> None:
    pytest.importorskip("pandas")
    tested = tried(columns(brief(0, size=8), brief(1, size=3), brief(35)), "starter")
    assert tested.frame()["revenue_usd"].tolist() == [58]
    assert tested.frame(integers=True)["revenue_uusd"].tolist() == [58 * USD]
    assert tested.frame("days")["day"][0].isoformat() == "2026-09-02T00:00:00+00:00"
    assert tested.frame("invoices")["cost_usd"].tolist() == [0.24, 0.03]
    assert tested.frame("invoices")["ends"][0].isoformat() == "2026-10-01T00:00:00+00:00"
    begins = [day.isoformat() for day in tested.frame("invoices")["begins"]]
    assert begins == ["2026-09-01T00:00:00+00:00", "2026-10-01T00:00:00+00:00"]
    assert repr(tested).startswith("<ColumnBackTest: ")
    assert tested.sentence in tested._repr_html_()


def test_invoices_and_days_are_shown_on_request() -> None:
    many = columns(*(brief(day, n, size=11) for n in range(40) for day in (0, 8, 35)), accounts=40)
    views = {view.table: view for view in tried(many, "pro", "starter").views()}
    invoices, days = views["invoices"], views["days"]
    first, second = "2026-09-01", "2026-10-01"
    assert [row[:5] for row in invoices.rows[:5]] == [
        ("A", "a0", "pro", "1", first), ("A", "a0", "pro", "2", second),
        ("B", "a0", "starter", "1", first), ("B", "a0", "starter", "2", second),
        ("A", "a1", "pro", "1", first),
    ]  # fmt: skip
    assert (len(invoices.rows), invoices.note, invoices.folded) == (60, "The first 60 of 160.", True)
    assert days.rows[0] == ("a0", "2026-09-01", "keyword_briefs", "quota_exhausted", "1")
    assert (len(days.rows), days.note) == (60, "Most calls first. The first 60 of 120.")
    assert views["customers"].note == "Most refused first. The first 20 of 40."
    assert "days" not in {view.table for view in tried(many, "pro").views()}


def test_margins_of_customers_are_shown_and_drawn() -> None:
    # Briefs of 0.03 USD for one month: 5 by a0, 20 by a1, of which starter lets no more than ten pass.
    calls = columns(*(brief(0, 0) for _ in range(5)), *(brief(0, 1) for _ in range(20)), accounts=2)
    calls = replace(calls, end=START + 20 * DAY)
    both, one = tried(calls, "starter", "pro"), tried(calls, "pro")
    changes = [("a0", 28_850_000, 128_850_000, 100 * USD), ("a1", 28_700_000, 128_400_000, 99_700_000)]
    assert [
        (row["account"], row["margin_a"], row["margin_b"], row["change"]) for row in both.margins
    ] == changes
    assert [row["account"] for row in one.margins] == ["a1", "a0"]
    view = next(view for view in both.views() if view.title == "Margins of customers")
    headings = ("account", "revenue A", "revenue B", "margin A", "margin B", "change")
    assert (view.headings, view.table, view.note) == (headings, "customers", "Changed most first.")
    assert (
        both.plot("margins").get_title() == "Margin of all customers: 57.55 USD under A, 257.25 USD under B"
    )
    assert one.plot().get_title() == "Margin of all customers: 257.25 USD under A"  # nothing is refused


def test_margins_are_the_same_of_a_recording_and_its_columns() -> None:
    recording = read_recording(EXAMPLES / "trace.jsonl")
    sides = [Side(PLANS, "starter"), Side(PLANS, "pro")]
    columned = back_test_columns(columns_of(recording), sides, compiled=False)
    assert back_test(recording, sides).margins == columned.margins


def test_an_audit_of_nothing_is_not_all_equal() -> None:
    some = columns(brief(0))
    odd = replace(some, accounts=(replace(some.accounts[0], unmodelled={"odd things": 1}),))
    notes = back_test_columns(odd, [Side(Policy().catalogue, "starter")], compiled=False).notes
    assert [note for note in notes if note.startswith("Audit")] == [
        "Audit of A: no call could be made again: each account has some that columns cannot follow."
    ]


def test_audits_that_come_to_the_same_are_one_note_and_what_there_is_none_of_is_none() -> None:
    sides = [Side(Policy().catalogue, "starter"), Side(Policy().catalogue, "pro")]
    tested = back_test_columns(columns(brief(0), brief(1)), sides, compiled=False)
    assert [note for note in tested.notes if note.startswith("Audit")] == [
        "Audit of A and B: 2 calls of 1 account made again at a service one by one: all equal."
    ]
    assert not any(": none." in note or ": nothing." in note for note in tested.notes)
