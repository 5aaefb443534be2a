"""A result in a notebook: how it shows itself, its frames with units, its summary, expectations and page."""

from __future__ import annotations

import builtins
import dataclasses
import pickle
import re
from collections.abc import Callable
from html import escape as html_escape
from pathlib import Path

import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

import ranksim as rs
from ranksim.core.contract.quantities import Distribution
from ranksim.core.errors import BadInput
from ranksim.inference.estimate import Estimate
from ranksim.planner.capacity.outage import Outage
from ranksim.planner.capacity.sync import Sync
from ranksim.report import units
from ranksim.report.figure import BLUE, to_svg
from ranksim.report.heading import answer_of
from ranksim.report.measured import MetricComparison, MetricEstimate
from ranksim.report.plots import plot

FILE = Path(__file__).parents[3] / "scenarios" / "quickstart.yaml"
CRAWLS = rs.Scenario.parse("""
scenario: 1
start: 2026-03-01T00:00:00Z
length: 1d
accounts: {acme: {plan: pro, portfolio: {domains: 1}}}
clients: {crawls: {kind: schedule, account: acme, job: crawl, every: day}}
""")
POPULATION = FILE.parents[1] / "examples" / "pricing" / "population.yaml"


@pytest.fixture(scope="module")
def result() -> rs.Result:
    return rs.run(FILE)


@pytest.mark.slow
def test_a_file_is_run_by_its_name(result: rs.Result) -> None:
    assert result.to_json() == rs.run(str(FILE)).to_json() == rs.run(rs.Scenario.load(FILE)).to_json()


def test_expectations_and_summary(result: rs.Result) -> None:
    assert len(result.expectations) == 9
    assert all(one.holds for one in result.expectations)
    assert result.summary().startswith("One agency for a week\n1w from 2026-01-05T00:00:00Z, 1 account")
    assert "129.00 USD invoice of the last month" in result.summary()
    assert "<title>One agency for a week" in result.page(plots=False)


def test_a_result_from_json_has_the_expectations_of_its_run_but_no_scenario(result: rs.Result) -> None:
    again = rs.Result.from_json(result.to_json())
    assert again.expectations == result.expectations
    with pytest.raises(BadInput, match=r"JSON alone knows no scenario; `Result\.load` the directory"):
        again.summary()
    assert "<table>" in again._repr_html_()


def test_frames_carry_datetimes_timedeltas_and_dollars(result: rs.Result) -> None:
    spend = result.spend
    assert spend["t"].iloc[0] == pd.Timestamp("2026-01-05", tz="UTC")
    raw = result.frame("spend", integers=True)
    assert (spend["settled_usd"] * 1_000_000).round().tolist() == raw["settled_uusd"].tolist()
    assert raw["t"].iloc[0] == 1_767_571_200_000_000
    waits = result.jobs["wait_p95"]
    assert waits.dt.total_seconds().max() <= 20 * 60
    assert str(result.endpoints["disabled_at"].dtype).startswith("datetime64")
    assert result.endpoints["disabled_at"].iloc[0].date().isoformat() == "2026-01-07"
    assert result.delays["delay"].iloc[-1] < pd.Timedelta("1min")
    assert result.slots["used"].max() == 1280


@pytest.mark.parametrize("table", ["calls", "refusals", "windows", "meters", "slots", "jobs"])
def test_every_frame_has_the_rows_of_its_table(result: rs.Result, table: str) -> None:
    assert len(result.frame(table)) == len(result.tables[table])


@pytest.mark.slow
def test_things_show_themselves(result: rs.Result) -> None:
    scenario = rs.Scenario.load(FILE)
    assert repr(scenario) == ("<Scenario 'quickstart': 1w from 2026-01-05T00:00:00Z, 1 account, 5 clients>")
    assert "<caption" in scenario._repr_html_()
    plain = {"domains": 2, "keywords": 100, "scans": ({},)}
    two = {"portfolio": plain, "further": ({"domains": 3, "keywords": 1000},)}
    [name] = scenario.accounts
    assert ">3,200</td>" in scenario.replace(accounts={name: two})._repr_html_()
    assert repr(rs.Policy().catalogue.plans["pro"]) == (
        "<Plan 'pro': 129 USD a month, 5,000 slots, provider cost up to 90 USD a month>"
    )
    assert "<th>slot_limit</th><td>5000</td>" in rs.Policy().catalogue.plans["pro"]._repr_html_()
    assert repr(rs.World(scenario)) == "<World of 'quickstart' at 2026-01-05T00:00:00Z: seed 1>"
    assert "jobs" not in rs.World(scenario)._repr_html_()
    html = result._repr_html_()
    assert "All 9 expectations hold." in html
    assert "holds: refusals.rate_limited is 80" in html
    assert "Numbers are means over" not in html
    answer = answer_of(result.heading, result.tables)
    assert f"<p><b>{html_escape(answer)}</b></p>" in html
    assert "Numbers are means over the 2 replications" in rs.run(FILE, replications=2)._repr_html_()
    assert "<script" not in html
    assert repr(rs.capacity.fit(rs.capacity.Portfolio(domains=30))).startswith("<Fit: The plan free fits")


@pytest.mark.slow
def test_a_plot_shows_its_figure_at_the_end_of_a_cell(result: rs.Result) -> None:
    for drawn in (
        result.plot("slots"),
        rs.capacity.fit(domains=30).plot(),
        rs.capacity.sync_time(Sync(keywords=1000)).plot(),
    ):
        for displayed in (drawn, drawn.figure):
            data, _ = DisplayFormatter().format(displayed)
            assert data["image/png"].startswith(b"\x89PNG")


@pytest.mark.slow
def test_an_estimate_shows_itself_in_its_unit(result: rs.Result) -> None:
    wait = result.metric("jobs.rank_run.wait.p95")
    assert wait.mean is not None
    assert (repr(wait), wait.unit) == (units.duration(wait.mean), "duration")
    assert repr(result.metric("spend.acme.spent")).endswith(" USD")
    assert repr(result.metric("refusals.share")).endswith(" %")
    wide = rs.run(FILE, replications=3).metric("jobs.rank_run.wait.p95")
    assert re.fullmatch(r"\S+ (± \S+|\(\S+ to \S+\))", str(wide)), wide
    again = pickle.loads(pickle.dumps(wide))
    assert (again, repr(again)) == (wide, repr(wide))
    mean, low, high = wide
    assert (wide.mean, wide.low, wide.high) == (mean, low, high)


def test_a_comparison_shows_what_changed_and_its_frame_has_units(result: rs.Result) -> None:
    roomy = rs.run(rs.Scenario.load(FILE).replace(pools={"rank_run": {"capacity": 5}}, expect=[]))
    compared = roomy.compare(result)
    changed = [row["metric"] for row in compared.tables["differences"] if row["difference"]]
    assert 0 < len(changed) < len(compared)
    # Of one replication each: what is drawn may differ by chance, and comes last.
    chance = [row["metric"] for row in compared if row["difference"] and result.sample(row["metric"]).drawn]
    assert chance == [row["metric"] for row in compared.changed if not row["sure"]]
    counts = f"{len(changed)} metrics of {len(compared)} changed, {len(chance)} of them perhaps by chance"
    assert repr(compared) == f"<Comparison of quickstart with quickstart: {counts}>"
    html = compared._repr_html_()
    assert counts in html
    assert changed[0] in html
    assert "calls.total" not in html
    frame = compared.frame().set_index("metric")
    assert frame.index[: len(changed)].tolist() == changed
    wait = frame.loc["jobs.rank_run.wait.p95"]
    assert wait["b"] < wait["a"] < 20 * 60
    assert wait["difference"] == pytest.approx(wait["b"] - wait["a"])
    disabled = compared.frame("differences.instant").set_index("metric").loc["endpoints.erp.disabled_at"]
    assert disabled["b"].date().isoformat() == "2026-01-07"
    assert isinstance(disabled["difference"], pd.Timedelta)
    raw = compared.frame(integers=True).set_index("metric")
    assert raw["b"]["jobs.rank_run.wait.p95"] == roomy.metric("jobs.rank_run.wait.p95").mean
    assert "0 metrics of" in result.compare(result)._repr_html_()


def test_a_frame_of_one_unit_has_columns_of_one_type(result: rs.Result) -> None:
    compared = rs.run(rs.Scenario.load(FILE).replace(plan="agency"), seed=result.seed).compare(result)
    kinds = {"duration": "m", "money": "f", "count": "f", "share": "f"}
    for unit, kind in kinds.items():
        frame = compared.frame(f"differences.{unit}")
        assert set(frame["unit"]) == {unit}
        for column in ("a", "b", "difference", "low", "high"):
            named = f"{column}_usd" if unit == "money" else column
            assert frame[named].dtype.kind == kind, (unit, column)
    assert compared.frame("differences.instant")["b"].dtype.kind == "M"
    assert sum(len(compared.frame(f"differences.{unit}")) for unit in (*kinds, "instant")) == len(compared)
    assert result.frame("totals.money")["unit"].eq("money").all()
    with pytest.raises(BadInput, match=r"frame: differences has rows of .*duration.*, found 'minutes'"):
        compared.frame("differences.minutes")


def test_a_frame_without_rows_has_types(result: rs.Result) -> None:
    assert not result.tables["notes"]
    assert not result.tables["queues_by_day"]
    assert result.frame("notes")["text"].dtype == pd.Series(["text"]).dtype
    kinds = {column: kind.kind for column, kind in result.frame("queues_by_day").dtypes.items()}
    numbers = dict.fromkeys(("jobs", "low", "high"), "f")
    assert {column: kinds[column] for column in ("t", "at", *numbers)} == {"t": "M", "at": "M"} | numbers
    none, some = result.compare(result, []).frame(), result.compare(result, "refusals.share").frame()
    assert set(none) == set(some)
    assert none["metric"].dtype == some["metric"].dtype
    assert none["difference"].dtype == some["difference"].dtype == float


def test_a_comparison_draws_what_changed_most(result: rs.Result) -> None:
    roomy = rs.run(rs.Scenario.load(FILE).replace(plan="agency"), seed=result.seed)
    compared = roomy.compare(result)
    axes = compared.plot()
    labels = [label.get_text().split(" (as ") for label in reversed(axes.get_yticklabels())]
    names = [name for name, *_ in labels]
    changed = {
        row["metric"]: abs(row["difference"] / row["a"])
        for row in compared.changed
        if row["a"] and row["unit"] != "instant"
    }
    drawn = {name: result.sample(name).drawn for name in changed}  # of one replication each: not sure
    goals = {each.metric for each in rs.Scenario.load(FILE).expect}
    assert names == sorted(names, key=lambda name: (name not in goals, drawn[name], -changed[name]))
    same = sum(int(number.split()[0]) for _, *others in labels for number in others)
    assert len(names) + same == len(changed)
    assert same > 0
    assert axes.get_xlabel() == "change, %; hollow: not sure"
    with pytest.raises(BadInput, match="no metric of 'quickstart' changed"):
        result.compare(result).plot()


@pytest.mark.slow
def test_a_comparison_says_how_much_of_it_chance_may_have_done() -> None:
    compared = rs.run(FILE, seed=1, replications=5).compare(rs.run(FILE, seed=2, replications=5))
    chance = [row for row in compared.changed if not row["sure"]]
    assert all(row["low"] <= 0 <= row["high"] for row in chance)
    assert 0 < len(chance) <= len(compared.changed)
    same = sum(row["low"] is None for row in compared.changed)
    text = f"{len(compared.changed)} metrics of {len(compared)} changed, "
    text += f"{same} of them by the same in all pairs, " * bool(same)
    text += f"{len(chance)} of them perhaps by chance"
    assert text in repr(compared)
    assert compared.notes == (f"{text}.", "Nothing but the seed differs: 2 and 1.")
    assert compared.notes[1] in compared.page(plots=False)
    assert compared.plot().get_title().replace("\n", " ").startswith(text)


@pytest.mark.slow
def test_a_comparison_says_what_differs_and_what_is_paired() -> None:
    scenario = rs.Scenario.load(FILE)
    now = rs.run(scenario, seed=1, replications=3)
    capacity = {"scenario.pools.rank_run.capacity": 8}
    then = rs.run(scenario, seed=1, replications=2, settings=capacity)
    differs = "What differs, A and B: scenario.pools.rank_run.capacity (3 and 8)."
    pairs = "Of 3 and 2 replications the first 2 of both are compared."
    assert then.compare(now).notes[1:] == (differs, pairs)
    assert differs in then.compare(now).summary()
    of_one_name = "quickstart (A) against quickstart (B): scenario.pools.rank_run.capacity (3 and 8)"
    assert then.compare(now).summary().startswith(f"{of_one_name}\n")
    assert f"<title>{of_one_name}" in then.compare(now).page(plots=False)
    named = rs.run(scenario.replace(name="five"), seed=1, settings=capacity)
    assert named.compare(now).summary().startswith("quickstart (A) against five (B)\n")
    unrelated = rs.run(scenario, seed=2, replications=3, settings=capacity).compare(now)
    seeds = "Seeds differ, 1 and 2: pairs share no random numbers, so there is no gain."
    assert unrelated.notes[1:] == (differs, seeds)
    assert {row["gain"] for row in unrelated} == {row["gain_high"] for row in unrelated} == {None}
    rates = {f"policy.facts.rates.{name}": 500 for name in ("read", "write", "expensive")}
    pool = {"scenario.pools.rank_run.queue_limit": 50, "scenario.pools.rank_run.failure_rate": 0.1}
    much = rs.run(scenario, seed=1, settings=capacity | rates | pool)
    assert much.compare(now).notes[1].endswith(" and 1 more.")
    assert " and 4 more\n" in much.compare(now).summary()


def test_no_wait_is_drawn_as_falling_by_more_than_all_of_it() -> None:
    row = {"metric": "jobs.crawl.wait.max", "unit": "duration", "a": 10, "b": 1, "difference": -9}
    row |= {"pairs": 5, "agreeing": 5, "sure": True}
    ended = row | {
        "metric": "jobs.crawl.wait.p50",
        "a": 0,
        "difference": 1,
        "low": None,
    }  # nothing before
    changes = {"jobs.crawl.wait.max": Estimate(-0.9, -1.5, -0.3)}
    drawn = MetricComparison("a", "b", [row | {"low": -15, "high": -3}, ended], changes=changes).plot()
    assert drawn.get_title().replace("\n", " ").endswith("; 1 without a percentage not drawn")
    assert [list(line.get_xdata()) for line in drawn.lines][:2] == [[-100, -30], [-90]]


def test_the_interval_of_a_change_lies_on_the_side_of_0_of_its_difference() -> None:
    row = {"unit": "duration", "a": 10, "pairs": 5, "agreeing": 5, "sure": True}
    fell = row | {"metric": "fell", "b": 8, "difference": -2, "low": -3, "high": -1}
    rose = row | {"metric": "rose", "b": 12, "difference": 2, "low": 1, "high": 3}
    maybe = row | {"metric": "maybe", "b": 12, "difference": 2, "low": -1, "high": 5, "sure": False}
    changes = {"fell": Estimate(-0.2, -0.3, 0.1), "rose": Estimate(0.2, -0.1, 0.3)}
    changes["maybe"] = Estimate(0.2, -0.1, 0.5)
    drawn = MetricComparison("a", "b", [fell, rose, maybe], changes=changes).plot()
    lines = [list(line.get_xdata()) for line in drawn.lines if line.get_marker() != "o"]
    assert sorted(lines[:3]) == [[-30, 0], [-10, 50], [0, 30]]


@pytest.mark.slow
def test_what_falls_to_nothing_in_every_pair_falls_by_all_of_it() -> None:
    late = CRAWLS.replace(
        accounts={"acme": {"portfolio": {"domains": 4}}}, pools={"crawl": {"capacity": 1}}, length="2d"
    )
    served = {"scenario.pools.crawl.capacity": 4}
    before, after = (rs.run(late, replications=5, settings=settings) for settings in ({}, served))
    names = ["jobs.crawl.wait.max", "jobs.crawl.mean_waiting"]
    drawn = after.compare(before, names).plot()
    assert [list(line.get_xdata()) for line in drawn.lines if line.get_marker() != "o"][:2] == [
        [-100, -100]
    ] * 2


def test_the_title_counts_all_that_is_not_drawn() -> None:
    row = {"metric": "calls", "unit": "count", "a": 10, "b": 1, "difference": -9, "low": None, "high": None}
    row |= {"pairs": 1, "agreeing": 1, "sure": True}
    drawn = MetricComparison("a", "b", [row | {"b": at} for at in range(14)] + [row | {"a": 0}]).plot()
    title = "15 metrics of 15 changed; 2 that changed less and 1 without a percentage not drawn"
    assert drawn.get_title().replace("\n", " ") == title


def test_a_figure_has_first_what_is_sure_and_what_is_not_is_hollow() -> None:
    row = {"unit": "duration", "a": 10, "b": 11, "pairs": 5, "sure": True}
    rows = [
        row | {"metric": "maybe", "difference": 9, "low": -1, "high": 19, "sure": False},
        row | {"metric": "perhaps", "difference": 8, "low": -1, "high": 17, "sure": False},
        row | {"metric": "less", "difference": 1, "low": 0.5, "high": 1.5},
        row | {"metric": "more", "difference": -2, "low": -3, "high": -1},
    ]
    drawn = MetricComparison("a", "b", rows).plot()
    names = [label.get_text() for label in reversed(drawn.get_yticklabels())]
    assert names == ["more", "less", "maybe", "perhaps"]
    dots = [line.get_markerfacecolor() for line in drawn.lines if line.get_marker() == "o"]
    assert dots == ["white", "white", BLUE, BLUE]
    assert drawn.get_xlabel() == "change, %; hollow: not sure"
    many = [row | {"metric": f"sure {at}", "difference": 5, "low": 4, "high": 6 + at} for at in range(11)]
    title = MetricComparison("a", "b", [*rows, *many]).plot().get_title().replace("\n", " ")
    assert title.endswith("; 1 that changed less and 2 of the unsure not drawn")


@pytest.mark.parametrize("narrow", [False, True])
def test_a_figure_of_long_names_has_room_for_its_title_and_its_label(narrow: bool) -> None:
    row = {"unit": "count", "a": 10, "b": 200, "difference": 190, "low": -1, "high": 381, "pairs": 5}
    row |= {"agreeing": 5}
    rows = [
        row | {"metric": f"endpoints.erp.lost_suppressed_anew_{at:04}", "b": 200 + at, "sure": at < 8}
        for at in range(39)
    ]
    axes = MetricComparison("a", "b", rows).plot()
    figure = axes.figure
    if narrow:
        to_svg(figure)  # leaves it so
    figure.draw_without_rendering()
    title, label = figure.texts[-1:] or [axes.title], axes.xaxis.label
    for text in (*title, label):
        assert text.get_text()
        extent = text.get_window_extent()
        assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width
    assert [tick.get_text() for tick in axes.get_xticklabels()][-1] == "2,000"


def test_what_changed_most_stands_first_and_nothing_twice() -> None:
    row = {"unit": "count", "low": -30, "high": -20, "a": 25, "b": 0, "difference": -25}
    row |= {"pairs": 3, "agreeing": 3, "sure": True}
    share = row | {"unit": "share", "a": 0.006, "difference": -0.006, "low": -0.007, "high": -0.005}
    rows = [
        row | {"metric": "calls.refused"},
        row | {"metric": "calls.total", "a": 100, "b": 75},
        row | {"metric": "endpoints.shop.lost", "a": 0, "b": 3, "difference": 3, "low": 1, "high": 5},
        share | {"metric": "refusals.share"},
        row | {"metric": "refusals.total"},
        row | {"metric": "slots.acme.used", "a": 10, "b": 9, "difference": -1, "low": -1.2, "high": -0.8},
    ]
    compared = MetricComparison("a", "b", rows, goals=["slots.acme.used"])
    order = ["slots.acme.used", "endpoints.shop.lost", "calls.refused", "refusals.total", "refusals.share"]
    assert [each["metric"] for each in compared.tables["differences"]] == [*order, "calls.total"]
    summary = compared.summary()
    assert "calls.refused, as refusals.total and 1 more " in summary
    assert "refusals.share" not in summary
    names = [label.get_text() for label in reversed(compared.plot().get_yticklabels())]
    assert names == ["slots.acme.used", "calls.refused (as 2 others)", "calls.total"]
    assert "1 without a percentage not drawn" in " ".join(compared.plot().get_title().split())


def test_one_metric_is_compared_by_its_name(result: rs.Result) -> None:
    assert [row["metric"] for row in result.compare(result, "calls.total")] == ["calls.total"]


@pytest.mark.slow
def test_an_estimate_has_its_value_in_its_unit(result: rs.Result) -> None:
    wait = result.metric("jobs.rank_run.wait.p95")
    assert wait.value == pd.Timedelta(wait.mean, "us") < pd.Timedelta("20min")
    assert result.metric("spend.acme.spent").value == result.metric("spend.acme.spent").mean / 1_000_000 < 10
    assert result.metric("endpoints.erp.disabled_at").value.date().isoformat() == "2026-01-07"
    assert result.metric("calls.total").value == 10_580
    several = rs.run(rs.Scenario.load(FILE), replications=3).metric("jobs.rank_run.wait.p95")
    low, high = several.interval
    assert pd.Timedelta(0) <= low < several.value < high
    assert wait.interval == (None, None)


def test_without_a_name_a_result_gives_its_totals_and_the_first_of_its_plots(result: rs.Result) -> None:
    assert result.frame().equals(result.totals)
    assert result.plots[0] == "timeline"
    assert result.plot().get_title() == result.plot("timeline").get_title()
    crawls = rs.run(CRAWLS)
    assert "timeline" not in crawls.plots
    assert crawls.plot().get_title() == crawls.plot(crawls.plots[0]).get_title()
    with pytest.raises(BadInput, match=r"this result has nothing to draw; `frame\(\)` has its numbers"):
        plot({})


def test_a_metric_is_a_number_in_seconds_dollars_or_as_it_is(result: rs.Result) -> None:
    wait, spent = result.metric("jobs.rank_run.wait.p95"), result.metric("spend.acme.spent")
    assert float(wait) == pytest.approx(wait.value.total_seconds())
    assert float(spent) == pytest.approx(spent.value)
    assert float(result.metric("refusals.quota_exhausted")) == 1
    with pytest.raises(BadInput, match=r"^endpoints\.shop\.disabled_at: nothing was observed, so"):
        float(MetricEstimate(None, None, None, "instant", "endpoints.shop.disabled_at"))
    late = pickle.loads(pickle.dumps(wait))
    assert late.name == wait.name == "jobs.rank_run.wait.p95"


def test_a_frame_has_a_row_a_replication_and_a_column_a_metric(result: rs.Result) -> None:
    frame = result.frame("replications")
    assert list(frame) == list(result.metrics)
    assert frame.index.name == "replication"
    assert {str(dtype) for dtype in frame.dtypes} <= {
        "float64", "int64", "timedelta64[us]", "datetime64[us, UTC]"
    }  # fmt: skip
    assert len(frame) == len(result.replications)
    assert frame["refusals.quota_exhausted"].tolist() == result.values("refusals.quota_exhausted")
    wait, spent = frame["jobs.rank_run.wait.p95"], frame["spend.acme.spent"]
    assert wait.mean().total_seconds() == pytest.approx(float(result.metric("jobs.rank_run.wait.p95")))
    assert spent.mean() == pytest.approx(float(result.metric("spend.acme.spent")))
    raw = result.frame("replications", integers=True)["spend.acme.spent"]
    assert raw.tolist() == result.values("spend.acme.spent")


WITHIN = "jobs.rank_run.wait.within.10m"


def test_a_share_of_waits_that_is_expected_is_a_metric_like_others() -> None:
    plain = rs.Scenario.load(FILE).replace(length="3d", timeline=[], expect=[])
    expecting = rs.run(plain.replace(expect=[f"{WITHIN} >= 10%"]))
    share = expecting.metric(WITHIN).mean
    assert share is not None
    assert expecting.frame("replications")[WITHIN].tolist() == [share]
    assert expecting.metrics[WITHIN]["value"] == share
    silent = rs.run(plain)
    assert WITHIN not in silent.metrics
    (row,) = [row for row in silent.compare(expecting) if row["metric"] == WITHIN]
    assert (row["a"], row["b"], row["difference"]) == (share, share, 0)
    read = rs.Result.from_json(expecting.to_json())
    assert read.to_json() == expecting.to_json()
    assert WITHIN in read.frame("replications")


def test_replications_have_the_metrics_that_are_named(result: rs.Result) -> None:
    frame = result.frame("replications", metrics=[WITHIN, "calls.total"])
    assert list(frame) == [WITHIN, "calls.total"]
    assert frame[WITHIN].tolist() == result.values(WITHIN)
    assert list(result.frame("replications", metrics="calls.total")) == ["calls.total"]
    with pytest.raises(BadInput, match=r"no metric .calls\.totl.; did you mean .calls\.total."):
        result.frame("replications", metrics=["calls.totl"])
    with pytest.raises(BadInput, match="frame: metrics are of the table replications, found 'totals'"):
        result.frame(metrics=["calls.total"])
    with pytest.raises(BadInput, match="metrics: expected names, as `metrics` has them, found 3"):
        result.frame("replications", metrics=3)  # type: ignore[arg-type]


def test_a_kernel_shows_a_summary_as_plain_lines(
    result: rs.Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class ZMQInteractiveShell:
        """What rich takes for a kernel."""

    plain = result.summary()
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    assert result.summary() == plain
    assert capsys.readouterr().out == ""
    assert DisplayFormatter().format(plain)[0]["text/plain"] == plain


@pytest.mark.slow
def test_what_is_saved_is_loaded_with_page_summary_and_why(result: rs.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    assert {"result.json", "scenario.json", "page.html", "tables", "plots"} == {
        path.name for path in (tmp_path / "kept").iterdir()
    }
    page = (tmp_path / "kept" / "page.html").read_text(encoding="utf-8")
    answer = "112 jobs were done and 1.3 % of 10,580 calls were refused."
    assert answer in page
    assert "<svg" in page
    read = rs.Result.load(tmp_path / "kept")
    assert (read.to_json(), read.summary()) == (result.to_json(), result.summary())
    assert answer in read.page(plots=False)
    assert "erp is disabled" in read.why("deliveries.lost", futures=1).sentence
    read.save(str(tmp_path / "kept"), plots=False)
    assert not (tmp_path / "kept" / "plots").exists()
    with pytest.raises(BadInput, match="JSON alone knows no scenario"):
        rs.Result.from_json(result.to_json()).save(tmp_path / "new")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(BadInput, match="holds no results of ranksim"):
        result.save(tmp_path / "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "mine"]


@pytest.mark.slow
def test_a_saved_result_is_loaded_by_its_file_or_directory(result: rs.Result, tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"result\.json: cannot be read \(No such file .*`ranksim run --out` wrote"
    ):
        rs.Result.load(tmp_path)
    (tmp_path / "result.json").write_text(result.to_json(), encoding="utf-8")
    for path in (tmp_path, str(tmp_path / "result.json")):
        assert rs.Result.load(path).to_json() == result.to_json()
    scenario = rs.Scenario.load(FILE).model_dump_json()
    (tmp_path / "scenario.json").write_text(scenario, encoding="utf-8")
    read = rs.Result.load(tmp_path)
    assert read.heading == dataclasses.replace(result.heading, rests_on=())
    assert (read.summary(), read.to_json()) == (result.summary(), result.to_json())
    assert "<title>One agency for a week" in read.page(plots=False)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda result: rs.run(3), "scenario: expected a scenario or the path of its file, found 3"),
        (lambda result: rs.run(FILE, settings=["scenario.length=7d"]), "settings: expected values by path"),
        (lambda result: result.metric(3), "metric: expected the name of one"),
        (lambda result: result.why(3), "why: expected METRIC or METRIC > VALUE"),
        (lambda result: result.compare("results"), "compare: expected another result"),
        (
            lambda result: rs.compare(result),
            "trace: expected the path of a trace.* a result has `Result.compare`",
        ),
        (lambda result: rs.Result.from_json({}), "result: expected the text that `to_json` gave"),
        (lambda result: rs.capacity.largest(3, "agency"), "largest: expected a portfolio, a scenario"),
        (lambda result: rs.capacity.workers_needed(FILE), "workers: expected peaks by kind of job"),
        (lambda result: rs.capacity.slot_use(FILE, 1000), "slots: expected a Churn"),
        (lambda result: rs.capacity.slot_use(rs.capacity.Churn(9), "9"), "limit: expected a whole number"),
        (lambda result: rs.capacity.outage_cost(FILE), "outage: expected an Outage"),
        (lambda result: rs.capacity.sync_time(30000), "sync: expected a Sync"),
        (lambda result: rs.price.pareto(POPULATION, "illustrative", "x"), "grid: expected values by path"),
        (
            lambda result: rs.price.break_even(POPULATION, "illustrative", plans="pro"),
            r"plans: expected names of plans, as \['pro'\], found 'pro'",
        ),
        (
            lambda result: rs.Scenario("x.yaml"),
            "Scenario: expected fields by name, .*; `Scenario.load` reads",
        ),
        (lambda result: rs.Study("x.yaml"), "Study: expected what `Study.load` or `Study.of` make"),
        (
            lambda result: rs.Result.load(result.to_json()),
            "result: expected a path.* `Result.from_json` reads",
        ),
        (lambda result: rs.Result.from_json("/runs/1"), "result: not JSON: .*, or its path to `Result.load`"),
        (
            lambda result: rs.compare(POPULATION.with_name("access.log")),
            r".*access\.log:1: expected one JSON object on a line, .* `ranksim trace import` makes a trace",
        ),
        (
            lambda result: rs.run(FILE, settings={"pools.rank_run.capacity": 8}),
            ".*no input 'pools'; did you mean 'scenario.pools.rank_run.capacity'",
        ),
        (lambda result: rs.simulate_fleet(3), "population: expected a population or the path of its file"),
    ],
)
def test_a_thing_of_a_wrong_kind_is_told_in_a_sentence(
    result: rs.Result, wrong: Callable[[rs.Result], object], says: str
) -> None:
    with pytest.raises(BadInput, match=f"^{says}"):
        wrong(result)


@pytest.mark.slow
def test_a_judgement_has_a_row_for_each_rule(tmp_path: Path) -> None:
    rs.run(FILE, replications=1, trace=tmp_path / "trace.jsonl")
    judgement = rs.compare(tmp_path / "trace.jsonl")
    frame = judgement.frame()
    assert sorted(frame["rule"]) == sorted(finding.rule.name for finding in judgement.findings)
    assert list(frame["verdict"])[-1] == "not exercised"
    assert set(frame["verdict"]) >= {"conforms", "not exercised"}


def test_durations_may_be_text() -> None:
    assert rs.capacity.Portfolio(run_every="12h").run_every == 43_200_000_000
    assert Sync(10, latency="50ms").latency == 50_000
    assert Outage("3h", "45m").length == 10_800_000_000
    with pytest.raises(BadInput, match=r"^run_every: .*12 hours"):
        rs.capacity.Portfolio(run_every="12 hours")
    assert rs.capacity.Peak(3, Distribution.model_validate("4m"), over="30m").over == 1_800_000_000
    with pytest.raises(TypeError, match="'length'"):
        Outage(every="45m")
    with pytest.raises(BadInput, match=r"^keywords: expected 0 or more, found -5$"):
        Sync(-5)
