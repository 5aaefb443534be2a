"""Tables, metrics, comparison and JSON of a result."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ranksim.core.clock import HOUR, MINUTE
from ranksim.core.errors import BadInput
from ranksim.core.money import MICRO_USD
from ranksim.inference.counts import counted
from ranksim.inference.differences import excess
from ranksim.report.summary import run_views
from ranksim.schema import schema
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.results import Result
from ranksim.twin.sim.tables import COLUMNS


def histogram(*values: int) -> dict[str, Any]:
    counted = Histogram()
    for value in values:
        counted.add(value)
    return counted.to_plain()


def calls(
    count: int, code: str = "", outcome: str = "granted", check: int = 0, status: int = 202
) -> dict[str, Any]:
    return {
        **{"client": "ci", "operation": "jobs.create", "outcome": outcome, "status": status},
        **{"code": code, "check": check, "count": count},
    }


def replication(index: int, granted: int, refused: int, **changes: Any) -> Replication:
    fields: dict[str, Any] = {
        "seed": index,
        "start": 0,
        "end": HOUR,
        "calls": [calls(granted), calls(refused, "quota_exhausted", "refused", 4, 402)],
        "jobs": {
            "rank_run": {
                **{"queued": 4, "started": 4, "done": 3, "failed": 1, "joined": 2, "max_waiting": 2 + index},
                **{"busy": HOUR, "offered": 2 * HOUR, "waiting": HOUR // 2},
                "wait": histogram(0, 0, 100, 200),
            }
        },
        "endpoints": [
            {
                **{"endpoint": "shop", "account": "acme", "events": 10, "acknowledged": 5 + index},
                **{"lost_exhausted": 3, "lost_cancelled": 1, "pending": 1 - index, "duplicates": 2},
                **{"lost_suppressed": 0, "disabled": index},
                "disabled_spans": [[MINUTE, HOUR]] if index else [],
                "disablings": [[MINUTE, "20 consecutive failed deliveries"]] if index else [],
                "attempts": [{"attempt": 1, "sent": 10, "acknowledged": 4, "failed": 6}],
                "answers": {"200": 4, "timeout": 6},
                "delay": histogram(100, 100, 250),
                "outages": [[10, 20], [30, 40 + index]],
                "stretches": [[0, 2, 6 + 2 * index, 250, index], [60, 0, 1, None, 1]],
            }
        ],
        "series": {
            "slots": [
                {
                    **{"account": "acme", "peak": 9, "t": [0, MINUTE], "active": [1, 5 + index]},
                    **{"held": [0, 2], "used": [1, 7 + index], "limit": [10, 10], "refused": [0, 1]},
                }
            ],
            "meters": [
                {"account": "acme", "metric": "lookups", "peak": 5, "t": [0], "used": [5], "limit": [-1]}
            ],
            "spend": [
                {
                    **{"account": "acme", "peak": 30, "t": [0], "settled_uusd": [10]},
                    **{"reserved_uusd": [20], "spent_uusd": [30], "ceiling_uusd": [100]},
                }
            ],
            "windows": [
                {
                    **{"account": "acme", "key": "main", "rate_class": "expensive", "peak": 1},
                    **{"t": [0, MINUTE], "admitted": [3, 4], "refused": [0, 1], "remaining": [17, 16]},
                    **{"fullest": [3, 4 + 2 * index], "limit": [20, 20], "length": [MINUTE, MINUTE]},
                }
            ],
            "queues": [
                {
                    **{"kind": "rank_run", "peak": 2, "t": [0, MINUTE], "running": [0, 1 + index]},
                    **{"waiting": [0, 2], "workers": [None, 1]},
                }
            ],
        },
        "hours": {
            "windows": [
                {
                    **{"account": "acme", "key": "main", "rate_class": "expensive"},
                    **{"profile": [[0, 0, 4, 1]], "days": [[0, 4 + 2 * index, index]]},
                }
            ],
            "queues": [{"kind": "rank_run", "profile": [[0, 0, 3, 1]], "days": [[0, 3, 0]]}],
            "delivering": [{"endpoint": "shop", "profile": [[0, 0, 250, 5]], "days": [[0, 250, index]]}],
        },
        "notes": {"odd": 2},
        "given_up": [{"client": "ci", "operation": "jobs.create", "tries": 5, "count": index}],
    }
    return Replication(**(fields | changes))


def result(*counts: tuple[int, int], seed: int = 1, **changes: Any) -> Result:
    made = [replication(index, *pair, **changes) for index, pair in enumerate(counts)]
    return Result("quickstart", seed, made, remarks=["all is well"])


TWO = ((10, 2), (14, 4))


# Tables


def test_every_row_has_the_columns_of_its_table() -> None:
    tables = result(*TWO).tables
    assert list(tables) == list(COLUMNS)
    for name, rows in tables.items():
        assert rows, name
        for row in rows:
            assert tuple(row) == COLUMNS[name]


def test_a_queue_without_limit_has_no_workers_to_be_full_of() -> None:
    first, second = result(*TWO).tables["queues"]
    assert (first["workers"], first["waiting"]) == (None, 0)
    assert (second["running"], second["workers"], second["waiting"]) == (1.5, 1, 2)


def test_deliveries_over_time_are_means_over_all_replications() -> None:
    began, later = result(*TWO).tables["delivering"]
    assert began == {
        **{"t": 0, "endpoint": "shop", "acknowledged": 2, "failed": 7, "delay": 250, "lost": 0.5},
    }
    assert (later["t"], later["failed"], later["delay"], later["lost"]) == (60, 1, None, 1)


def test_an_outage_says_which_share_of_the_replications_has_it() -> None:
    rows = result(*TWO).tables["outages"]
    assert [(row["t"], row["until"], row["share"]) for row in rows] == [
        (10, 20, 1),
        (30, 40, 0.5),
        (30, 41, 0.5),
    ]


def test_counts_have_the_interval_of_counts() -> None:
    refused, granted = sorted(result(*TWO).tables["calls"], key=lambda row: row["count"])
    assert (granted["outcome"], granted["count"]) == ("granted", 12.0)
    assert (granted["count"], granted["low"], granted["high"]) == counted([10, 14])
    assert refused["status"] == 402


def test_every_count_and_share_that_people_read_has_its_interval() -> None:
    answer = result(*TWO).tables
    for view in run_views(answer):
        if view.title not in ("Waits for a worker", "Delays of webhook deliveries"):
            for row in view.rows:
                for heading, cell in zip(view.headings[view.words :], row[view.words :], strict=True):
                    exact = heading == "limit" or cell.endswith("USD")  # stated; the same in both worlds
                    assert exact or "±" in cell or " to " in cell, (view.title, heading, cell)
    for row in answer["totals"]:
        assert row["what"] == "provider_cost" or row["low"] < row["value"] < row["high"], row["what"]


def test_clients_and_endpoints_together_have_the_interval_of_their_sum() -> None:
    other = {"client": "dashboard", "operation": "jobs.create", "outcome": "granted", "status": 202}
    both = [calls(10), calls(2, "quota_exhausted", "refused", 4, 402), {**calls(5), **other}]
    ends = replication(0, 0, 0).endpoints
    worlds = [
        replication(0, 0, 0, calls=both, endpoints=[*ends, {**ends[0], "endpoint": "erp"}]),
        replication(1, 14, 4),
    ]
    answer = Result("quickstart", 1, worlds).tables
    granted, refused = answer["operations"]
    assert (granted["count"], granted["low"], granted["high"]) == counted([15, 14])
    assert (refused["outcome"], refused["count"]) == ("refused", 3)
    (attempt,) = answer["attempts"]
    assert (attempt["sent"], attempt["sent_low"], attempt["sent_high"]) == counted([20, 10])
    (code,) = answer["codes"]
    assert (code["check"], code["code"], code["share"]) == (4, "quota_exhausted", 1)


def test_levels_are_the_last_and_the_highest_of_each_replication() -> None:
    lookups, cost, slots = (result(*TWO).frame("levels").loc[index] for index in (1, 2, 0))
    assert (slots["resource"], slots["last"], slots["highest"], slots["limit"]) == ("slots", 7.5, 9, 10)
    assert (lookups["resource"], lookups["last"]) == ("lookups", 5)
    assert (cost["resource"], cost["unit"], cost["last"]) == ("spend", "money", 30 / MICRO_USD)


def test_one_replication_has_no_interval() -> None:
    for row in result((10, 2)).tables["calls"]:
        assert (row["low"], row["high"]) == (None, None)


def test_a_refusal_has_its_share_of_the_calls_of_its_operation() -> None:
    (row,) = result(*TWO).tables["refusals"]
    assert (row["code"], row["check"], row["client"], row["count"]) == ("quota_exhausted", 4, "ci", 3.0)
    assert row["share"] == pytest.approx(3 / 15)


def test_a_replayed_refusal_is_no_refusal() -> None:
    replayed = result((3, 1), calls=[calls(3), calls(1, "quota_exhausted", "replayed", 4, 402)])
    assert replayed.tables["refusals"] == []
    assert replayed.metric("refusals.total").mean == 0


def test_what_one_replication_never_saw_counts_nothing_there() -> None:
    made = [replication(0, 10, 2), replication(1, 10, 2, calls=[])]
    assert [row["count"] for row in Result("x", 1, made).tables["calls"]] == [5.0, 1.0]


def test_series_are_means_at_each_instant() -> None:
    first, second = result(*TWO).tables["slots"]
    assert (first["t"], second["t"]) == (0, MINUTE)
    assert (second["active"], second["held"], second["used"], second["limit"]) == (5.5, 2, 7.5, 10)
    assert (first["low"], first["high"]) == counted([1, 1])[1:]
    assert second["low"] < 7.5 < second["high"]


@pytest.mark.parametrize(
    ("table", "metric"),
    [
        ("slots", "slots.acme.used"),
        ("meters", "meters.acme.lookups.used"),
        ("spend", "spend.acme.spent"),
    ],
)
def test_a_level_at_the_end_has_one_interval_however_it_is_asked(table: str, metric: str) -> None:
    alike = Result("alike", 1, [replication(0, 10, 2)] * 5)
    for answer in (result(*TWO), alike, result(TWO[0])):
        value = answer.metric(metric)
        last = answer.tables[table][-1]
        assert (last["low"], last["high"]) == (value.low, value.high)


def test_jobs_have_waits_and_utilisation() -> None:
    (row,) = result(*TWO).tables["jobs"]
    assert (row["kind"], row["queued"], row["done"], row["failed"], row["joined"]) == ("rank_run", 4, 3, 1, 2)
    assert (row["wait_mean"], row["wait_p50"], row["wait_p95"]) == (75, 0, 200)
    assert (row["utilisation"], row["utilisation_low"]) == (0.5, None)  # the same in both: no telling
    assert (row["mean_waiting"], row["max_waiting"]) == (0.5, 2.5)


def test_deliveries_delays_and_endpoints() -> None:
    tables = result(*TWO).tables
    (deliveries,) = tables["deliveries"]
    assert (deliveries["attempt"], deliveries["sent"], deliveries["acknowledged"]) == (1, 10, 4)
    assert [(row["answer"], row["count"]) for row in tables["answers"]] == [("200", 4), ("timeout", 6)]
    assert {row["quantile"]: row["delay"] for row in tables["delays"]}[0.5] == 100
    (endpoint,) = tables["endpoints"]
    assert (endpoint["events"], endpoint["acknowledged"], endpoint["lost"], endpoint["pending"]) == (
        10,
        5.5,
        4,
        0.5,
    )
    assert (endpoint["disabled"], endpoint["disabled_at"], endpoint["disabled_in"]) == (0.5, MINUTE, 0.5)
    assert endpoint["reason"] == "20 consecutive failed deliveries"


def test_notes_say_which_replication() -> None:
    assert result((1, 1)).tables["notes"] == [
        {"replication": None, "text": "all is well", "count": 1},
        {"replication": 0, "text": "odd", "count": 2},
    ]


# Metrics


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("calls.total", 15),
        ("calls.granted", 12),
        ("calls.accepted", 12),
        ("calls.ok", 0),
        ("refusals.total", 3),
        ("refusals.quota_exhausted", 3),
        ("refusals.cooldown_active", 0),
        ("refusals.share", 6 / 30),
        ("clients.ci.total", 15),
        ("clients.ci.refusals", 3),
        ("clients.ci.refused", 3),
        ("jobs.rank_run.done", 3),
        ("jobs.rank_run.joined", 2),
        ("jobs.rank_run.wait.p95", 200),
        ("jobs.rank_run.wait.mean", 75),
        ("jobs.rank_run.utilisation", 0.5),
        ("jobs.rank_run.max_waiting", 2.5),
        ("jobs.crawl.done", 0),
        ("jobs.crawl.wait.p95", None),
        ("deliveries.lost", 4),
        ("deliveries.duplicates", 2),
        ("deliveries.sent", 10),
        ("deliveries.delay.p50", 100),
        ("endpoints.shop.disabled", 0.5),
        ("endpoints.shop.disabled_at", MINUTE),
        ("endpoints.shop.lost_cancelled", 1),
        ("slots.acme.max_used", 9),
        ("slots.acme.used", 7.5),
        ("spend.acme.max", 30),
        ("spend.acme.settled", 10),
        ("meters.acme.lookups.used", 5),
        ("windows.acme.main.expensive.refused", 1),
    ],
)
def test_metrics(name: str, mean: float | None) -> None:
    assert result(*TWO).metric(name).mean == pytest.approx(mean)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refusals.totl", "quickstart: no metric 'refusals.totl'; did you mean 'refusals.total'"),
        ("slots.acne.used", "quickstart: no metric 'slots.acne.used'; did you mean 'slots.acme.used'"),
        (
            "jobs.crawl.within.5m",
            "quickstart: no metric 'jobs.crawl.within.5m'; write jobs.KIND.wait.within.",
        ),
        ("zebra", "quickstart: no metric 'zebra'; metrics begin with one of calls, clients, deliveries"),
    ],
)
def test_an_unknown_metric_is_bad_input(name: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        result(*TWO).metric(name)
    assert str(caught.value).startswith(message)


# Comparison


def test_a_comparison_pairs_the_replications() -> None:
    first, second = result((20, 5), (30, 16), (40, 24)), result((20, 4), (30, 14), (40, 21))
    (row,) = first.compare(second, ["refusals.total"])
    assert (row["a"], row["b"], row["difference"]) == (13, 15, 2)
    assert (row["difference"], row["low"], row["high"]) == excess([1.0, 2.0, 3.0])
    assert row["gain"] == pytest.approx(91 + 73)
    assert row["gain_low"] < row["gain"] < row["gain_high"]
    assert (row["unit"], row["difference_unit"], row["pairs"]) == ("count", "count", 3)


def test_differences_of_shares_are_fractions_of_1_as_shares_are() -> None:
    first, second = result((20, 5), (30, 16)), result((20, 4), (30, 14))
    (row,) = first.compare(second, ["refusals.share"])
    assert (row["unit"], row["difference_unit"]) == ("share", "share")
    assert row["difference"] == pytest.approx(21 / 71 - 18 / 68)
    assert row["low"] < row["difference"] < row["high"]


def test_a_difference_of_shares_that_are_told_apart_is_not_told_as_nothing() -> None:
    text = result((9945, 55)).compare(result((9944, 56)), "refusals.share").summary()
    assert text.split("difference\n")[1].split()[-6:] == ["0.56", "%", "0.55", "%", "−0.01", "points"]


def test_one_pair_of_what_is_drawn_may_be_chance() -> None:
    then, now = result((20, 5), (20, 5)), result((90, 5), (93, 5))
    now.replications[1].endpoints[0]["disablings"] = [[2 * MINUTE, "20 consecutive failed deliveries"]]
    compared = now.compare(then, ["endpoints.shop.disabled_at", "calls.total"])
    assert [(row["low"], row["pairs"]) for row in compared if row["unit"] == "instant"] == [(None, 1)]
    assert compared.notes[0] == "2 metrics of 2 changed, 1 of them perhaps by chance."
    assert [row["metric"] for row in compared.tables["differences"]] == [
        "calls.total",
        "endpoints.shop.disabled_at",
    ]


def test_what_differs_by_the_same_in_all_pairs_is_a_fact_of_these() -> None:
    then, now = result(*[(20, 5)] * 5), result(*[(90 + i, 5) for i in range(5)])
    for replication in (*then.replications, *now.replications):
        replication.endpoints[0]["disablings"] = [[MINUTE, "20 consecutive failed deliveries"]]
    for replication in now.replications:
        replication.endpoints[0]["disablings"][0][0] += MINUTE
    names = ["endpoints.shop.disabled_at", "calls.total"]
    compared = now.compare(then, names)
    assert [(row["low"], row["pairs"]) for row in compared if row["unit"] == "instant"] == [(None, 5)]
    assert compared.notes[0] == "2 metrics of 2 changed, 1 of them by the same in all pairs."
    assert [row["metric"] for row in compared.tables["differences"]] == names[::-1]
    assert all(row["sure"] for row in compared)
    assert "1m, the same in all 5 pairs" in " ".join(compared.summary().split())
    then.fixed = now.fixed = ("",)
    (_, cell) = sure = now.compare(then, names)
    assert (cell["low"], cell["pairs"]) == (None, 1)
    assert sure.notes[0] == "2 metrics of 2 changed."
    assert "the same in all" not in sure.summary()


def test_counts_and_money_that_differ_by_the_same_in_all_pairs_say_the_same() -> None:
    then, now = (result(*[(count, 5)] * 2) for count in (20, 90))
    for replication in now.replications:
        replication.series["spend"][0]["spent_uusd"][0] += 70_000
    compared = now.compare(then, ["calls.total", "spend.acme.spent"])
    assert [(row["low"], row["high"], row["pairs"]) for row in compared] == [(None, None, 2)] * 2
    assert compared.notes[0].startswith("2 metrics of 2 changed, 2 of them by the same in all pairs.")
    assert compared.summary().count("the same in all 2 pairs") == 2


def test_where_nothing_is_drawn_one_pair_is_sure() -> None:
    then, now = (result((count, 5)) for count in (20, 90))
    then.fixed = now.fixed = ("",)
    (row,) = compared = now.compare(then, "calls.total")
    assert (row["difference"], row["low"], row["pairs"]) == (70, None, 1)
    assert compared.notes[0] == "1 metric of 1 changed."


def test_pairs_that_all_differ_the_same_way_say_so_beside_the_interval() -> None:
    then = result(*[(20, 5)] * 5)
    now = result(*[(20, count) for count in (6, 6, 6, 6, 90)])
    (row,) = compared = now.compare(then, "refusals.total")
    assert row["low"] < 0
    assert (row["pairs"], row["agreeing"], row["sure"]) == (5, 5, False)
    assert compared.notes[0] == "1 metric of 1 changed, 1 of them perhaps by chance."
    assert re.search(r"17\.8 \(.* to .*\), in 5 of 5 pairs", compared.summary())
    unlike = result(*[(20, count) for count in (5, 6, 6, 6, 90)])
    assert "of 5 pairs" not in unlike.compare(then, "refusals.total").summary()
    six, seven = result(*[(20, 5)] * 6), result(*[(20, count) for count in (6, 6, 6, 6, 6, 90)])
    (row,) = compared = seven.compare(six, "refusals.total")
    assert (row["low"] < 0, row["sure"]) == (True, True)
    assert compared.notes[0] == "1 metric of 1 changed."
    assert "in 6 of 6 pairs" in compared.summary()


def test_a_comparison_is_a_document_as_other_results_are() -> None:
    first, second = result((20, 5), (30, 16)), result((20, 4), (30, 14))
    compared = first.compare(second, ["refusals.total", "calls.total"])
    plain = json.loads(compared.to_json())
    assert list(plain) == list(json.loads(first.to_json()))[: len(plain)]
    assert (plain["kind"], plain["title"]) == ("comparison", "quickstart (A) against quickstart (B)")
    assert (plain["answer"], *plain["notes"]) == compared.notes
    assert plain["tables"] == compared.tables
    assert [error.message for error in Draft202012Validator(schema("result")).iter_errors(plain)] == []


def test_a_comparison_is_of_what_both_have() -> None:
    here, there = result((1, 1)), result((1, 1), series={})
    rows = {row["metric"]: row for row in here.compare(there)}
    assert "slots.acme.used" not in rows
    assert "jobs.crawl.wait.p95" not in rows
    assert rows["calls.total"]["difference"] == 0
    assert (rows["calls.total"]["low"], rows["calls.total"]["gain"]) == (None, None)


# JSON


def test_equal_results_are_equal_bytes_and_read_back() -> None:
    text = result(*TWO).to_json()
    back = Result.from_json(text)
    assert text == result(*TWO).to_json() == back.to_json()
    assert back.replications == result(*TWO).replications
    assert text.endswith("}\n")
    plain = json.loads(text)
    assert list(plain)[:3] == ["kind", "version", "title"]
    assert plain["tables"]["refusals"][0]["code"] == "quota_exhausted"


OF_ANOTHER_VERSION = result(*TWO).replications[0].to_plain()
del OF_ANOTHER_VERSION["endpoints"][0]["lost_suppressed"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "out.json: not JSON: "),
        ("[]", "out.json: expected a result of ranksim run, version 1; write it again"),
        ('{"kind": "run", "version": 2}', "out.json: expected a result of ranksim run, version 1"),
        ('{"kind": "study", "version": 1}', "out.json: expected a result of ranksim run, version 1"),
        ('{"kind": "run", "version": 1}', "out.json: not a complete result ('replications'); write it again"),
        (
            json.dumps(json.loads(result(*TWO).to_json()) | {"replications": [OF_ANOTHER_VERSION]}),
            "out.json: not a complete result ('lost_suppressed'); write it again",
        ),
        (
            '{"kind": "run", "version": 1, "replications": [{}]}',
            "out.json: not a complete result (Replication",
        ),
    ],
)
def test_what_is_no_result_is_bad_input(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        Result.from_json(text, "out.json")
    assert str(caught.value).startswith(message)


# Frames


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "notes"])
def test_every_table_is_a_frame(name: str) -> None:
    answer = result(*TWO)
    frame = getattr(answer, name)
    raw = list(answer.frame(name, integers=True).columns)
    ends = {end: f"{end}_uusd" for end in ("low", "high")} if name == "spend" else {}
    assert raw == [ends.get(column, column) for column in COLUMNS[name]]
    assert list(frame.columns) == [column.replace("_uusd", "_usd") for column in raw]
    assert len(frame) == len(answer.tables[name])
    assert list(getattr(Result("empty", 1, []), name).columns) == list(frame.columns)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("integers", [False, True])
def test_unknown_ends_of_intervals_are_numbers(name: str, integers: bool) -> None:
    """Those of one replication are, whose every interval is unknown."""
    frame = result(TWO[0]).frame(name, integers=integers)
    ends = [column for column in frame if str(column).endswith(("low", "high"))]
    assert "object" not in {str(frame[column].dtype) for column in ends if len(frame)}
    if "share" in frame and ends:
        assert frame["share_low"].isna().all()


def test_an_unknown_table_is_bad_input() -> None:
    with pytest.raises(
        BadInput, match=r"expected one of totals, operations, codes.*replications, found 'apples'"
    ):
        result(*TWO).frame("apples")


def test_an_unknown_plot_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"expected one of timeline, slots, .*, found 'apples'"):
        result(*TWO).plot("apples")


@pytest.mark.parametrize(("ask", "module"), [("frame", "pandas"), ("plot", "matplotlib")])
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, ask: str, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=rf"need {module}, .* '\.\[plots\]'"):
        getattr(result(*TWO), ask)("slots")


def test_a_quantile_has_one_value_in_tables_and_metrics() -> None:
    """Three runs of 20 short waits and one of 40 long ones: a run counts as much as any other."""
    made = []
    for index, (wait, times) in enumerate([(10, 20), (20, 20), (30, 20), (100, 40)]):
        waits = Histogram()
        for _ in range(times):
            waits.add(wait)
        one = replication(index, 10, 2)
        for job in one.jobs.values():
            job["wait"] = waits.to_plain()
        made.append(one)
    answer = Result("x", 1, made)
    (row,) = answer.tables["jobs"]
    for name in ("p50", "p95", "p99"):
        ends = (row[f"wait_{name}"], row[f"wait_{name}_low"], row[f"wait_{name}_high"])
        assert ends == answer.metric(f"jobs.rank_run.wait.{name}")
    assert row["wait_p50"] == 40
    delays = {one["quantile"]: (one["delay"], one["low"], one["high"]) for one in answer.tables["delays"]}
    assert delays
    (endpoint,) = {one["endpoint"] for one in answer.tables["delays"]}
    for quantile, name in ((0.5, "p50"), (0.95, "p95"), (1, "max")):
        assert delays[quantile] == answer.metric(f"endpoints.{endpoint}.delay.{name}")


def test_what_is_no_text_is_no_result(tmp_path: Path) -> None:
    picture = tmp_path / "figure.png"
    picture.write_bytes(b"\x89PNG\r\n")
    with pytest.raises(BadInput, match=r"figure\.png: is no text; give a result\.json"):
        Result.load(picture)
