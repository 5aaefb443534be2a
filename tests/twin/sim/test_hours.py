"""What is kept of the hours of a long run: against counts of its trace and of its events, and by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from math import log
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest
from tests.kit.results import START
from tests.twin.sim.test_statistics import service

from ranksim.core.clock import DAY, HOUR, MINUTE, instant
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.events import JobEnded, JobQueued
from ranksim.inference.counts import counted
from ranksim.report import plots
from ranksim.twin.sim.hours import Hours
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.results import Result
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.statistics import ReplicationTally, tally_of
from ranksim.twin.sim.world import World

TEXT = """
scenario: 1
start: 2026-03-05T00:00:00Z
length: 12d
seed: 3
accounts: {shop: {plan: pro, keys: [runs, dashboard], portfolio: {domains: 30, keywords: 5}}}
clients:
  nightly: {kind: schedule, account: shop, key: runs, job: rank_run, domains: 25, every: day, at: "01:30"}
  dashboard:
    kind: caller
    account: shop
    key: dashboard
    mix: {slots.get: 1}
    every: 20m
    arrivals: poisson
    rhythm: {hours: [0,0,0,0,0,0,1,2,4,8,9,9,6,8,9,9,8,5,2,1,1,0,0,0], days: [9,9,9,9,9,1,1]}
pools: {rank_run: {capacity: 3, duration: {lognormal: {median: 20m, sigma: 0.6}}}}
receivers:
  erp:
    account: shop
    latency: {lognormal: {median: 400ms, sigma: 0.7}}
    outages: [{from: 2026-03-08T01:30:00Z, for: 25m}]
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    path = tmp_path_factory.mktemp("hours") / "shop.yaml"
    path.write_text(TEXT)
    return Scenario.load(path)


class Watched(ReplicationTally):
    """A tally that notes when jobs come and end, by their events alone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.changes: list[tuple[int, int]] = []

    def observe(self, events: Any) -> None:
        events = list(events)
        queued = [(event.at, 1) for event in events if isinstance(event, JobQueued)]
        self.changes += queued + [(event.at, -1) for event in events if isinstance(event, JobEnded)]
        super().observe(events)


def hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def check(result: Result, table: str, column: str, most: dict[datetime, int], **series: str) -> None:
    """Compare both tables of a series with the most of each hour, as it was counted elsewhere."""
    first = datetime.fromtimestamp(result.replications[0].start / 1e6, UTC)
    hours = [first + timedelta(hours=number) for number in range(12 * 24)]
    among = {"all": range(7), "weekdays": range(5), "weekend": range(5, 7)}
    rows = [row for row in result.tables[f"{table}_by_hour"] if series.items() <= row.items()]
    assert len(rows) == 72
    for row in rows:
        of_days = sorted(
            most.get(at, 0) for at in hours if at.hour == row["hour"] and at.weekday() in among[row["days"]]
        )
        assert row["median"] == median_low(of_days), row
        assert row["p90"] == of_days[-(-9 * len(of_days) // 10) - 1], row
        assert row["p10"] == of_days[-(-len(of_days) // 10) - 1], row
    days = [row for row in result.tables[f"{table}_by_day"] if series.items() <= row.items()]
    assert len(days) == 12
    for number, row in enumerate(days):
        of_hours = {at: most.get(at, 0) for at in hours[24 * number : 24 * number + 24]}
        assert row[column] == max(of_hours.values())
        highest = next((at for at, value in of_hours.items() if value and value == row[column]), None)
        assert row["at"] == (None if highest is None else round(highest.timestamp() * 1e6))


def check_delays(result: Result, trace: Path) -> None:
    """Compare the tables of delays with the first acknowledged attempt of each event of a trace."""
    came: dict[str, datetime] = {}
    arrived: dict[str, int] = {}
    for line in trace.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("kind") == "delivery":
            event = json.loads(entry["body"])
            came[event["id"]] = datetime.fromisoformat(event["created_at"])
            if entry["status"] == 200:
                since = came[event["id"]] - datetime(1970, 1, 1, tzinfo=UTC)
                arrived[event["id"]] = entry["answered"] - since // timedelta(microseconds=1)
    assert max(arrived.values()) > 5 * MINUTE > 100_000 > min(arrived.values())
    among = {"all": range(7), "weekdays": range(5), "weekend": range(5, 7)}
    for row in result.tables["delivering_by_hour"]:
        of_hour = sorted(
            delay
            for event, delay in arrived.items()
            if came[event].hour == row["hour"] and came[event].weekday() in among[row["days"]]
        )
        for column, tenths in (("p10", 1), ("median", 5), ("p90", 9)):
            quantile = of_hour[-(-tenths * len(of_hour) // 10) - 1] if of_hour else None
            assert row[column] == (None if quantile is None else pytest.approx(quantile, rel=1 / 128))
    assert len(result.tables["delivering_by_day"]) == 12
    for row in result.tables["delivering_by_day"]:
        date = datetime.fromtimestamp(row["t"] / 1e6, UTC).date()
        delay, event = max((delay, event) for event, delay in arrived.items() if came[event].date() == date)
        assert (row["delay"], row["lost"]) == (delay, 0)
        assert row["at"] == round(hour_of(came[event]).timestamp() * 1e6)


def test_the_tables_of_windows_and_of_delays_agree_with_the_trace(scenario: Scenario, tmp_path: Path) -> None:
    result = run(scenario, replications=1, trace=tmp_path / "trace.jsonl")
    most: dict[str, dict[datetime, int]] = {"runs": defaultdict(int), "dashboard": defaultdict(int)}
    refused: dict[Any, int] = defaultdict(int)
    for line in (tmp_path / "trace.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "RateLimit-Limit" not in (entry.get("response_headers") or {}):
            continue
        headers = entry["response_headers"]
        at = datetime.fromtimestamp(entry["sent"] / 1e6, UTC)
        key = "dashboard" if entry["method"] == "GET" else "runs"
        used = int(headers["RateLimit-Limit"]) - int(headers["RateLimit-Remaining"])
        most[key][hour_of(at)] = max(most[key][hour_of(at)], used)
        refused[key, at.date()] += entry["status"] == 429
    assert sum(most["dashboard"].values()) > 100
    check(result, "windows", "fullest", most["dashboard"], key="dashboard", rate_class="read")
    check(result, "windows", "fullest", most["runs"], key="runs", rate_class="expensive")
    for row in result.tables["windows_by_day"]:
        assert row["refused"] == refused[row["key"], datetime.fromtimestamp(row["t"] / 1e6, UTC).date()]
    check_delays(result, tmp_path / "trace.jsonl")
    assert sum(refused.values()) == 12 * 5  # 25 starts at once, 20 of which pass


def test_the_tables_of_queues_agree_with_the_events_of_jobs(scenario: Scenario) -> None:
    tally = tally_of(scenario, Watched)
    world = World(scenario, seed=5, tally=tally)
    world.run()
    result = Result("shop", 1, [tally.finish(scenario.end, world.service)])
    most: dict[datetime, int] = defaultdict(int)
    number, changes = 0, sorted(tally.changes)
    for (at, change), (until, _) in zip(changes, [*changes[1:], (scenario.end, 0)], strict=True):
        number += change
        hour = at // HOUR
        while until > at and hour * HOUR < until:
            moment = datetime.fromtimestamp(hour * 3600, UTC)
            most[moment] = max(most[moment], number)
            hour += 1
    assert max(most.values()) > 20
    check(result, "queues", "jobs", most, kind="rank_run")


@pytest.mark.slow
def test_a_result_of_before_opens_and_is_drawn_over_time(scenario: Scenario) -> None:
    result = run(scenario, replications=1)
    plain = json.loads(result.to_json())
    assert plain["replications"][0].pop("hours")
    before = Result.from_json(json.dumps(plain))
    again = Result.from_json(result.to_json())
    assert again.tables == result.tables
    for table in ("windows", "queues", "delivering"):
        assert before.tables[f"{table}_by_day"] == before.tables[f"{table}_by_hour"] == []
        assert before.tables[table] == result.tables[table]
    for name, panels in {"windows": 2, "jobs": 0, "delays": 0}.items():
        ax = plots.plot(before.tables, name)
        assert len(ax.child_axes) == panels
        assert ax.get_title()
    assert [len(result.plot(name).child_axes) for name in ("windows", "jobs", "delays")] == [4, 2, 2]


def test_of_ten_days_nothing_is_kept() -> None:
    for length, kept in ((10 * DAY, 0), (10 * DAY + HOUR, 1)):
        hours = Hours(START, length)
        hours.observe("queues", ("rank_run",), 3)
        hours.close()
        assert len(hours.rows(lambda table, which: which)) == kept
        assert (hours.due < START + DAY) == bool(kept)


def test_jobs_of_hours_in_which_nothing_happens_are_kept() -> None:
    start = instant("2026-03-06T00:00:00Z")
    tally = ReplicationTally(start, 12 * DAY, DAY)
    tally.pool(start + 30 * MINUTE, "crawl", 2, 2, 5)
    tally.pool(start + 40 * MINUTE, "crawl", 2, 2, 1)
    tally.pool(start + 5 * HOUR + 1, "crawl", 0, 2, 0)
    tally.pool(start + 25 * HOUR, "crawl", 1, 2, 0)
    tally.pool(start + 25 * HOUR + 1, "crawl", 0, 2, 0)
    (row,) = tally.finish(start + 12 * DAY, service()).hours["queues"]
    friday = [[0, 0, 7, 1], *([0, hour, 3, 1] for hour in range(1, 6))]
    assert row == {
        "kind": "crawl",
        "profile": [*friday, [1, 1, 1, 1]],
        "days": [[start, 7, 0], [start + 25 * HOUR, 1, 0]],
    }


def test_calls_that_no_window_of_keys_counts_have_no_hours() -> None:
    tally = ReplicationTally(START, 12 * DAY, DAY)
    headers = {"RateLimit-Limit": "20", "RateLimit-Remaining": "4"}
    for operation, at in (("jobs.create", START), ("elsewhere", START + DAY)):
        reply = Reply(200, None, operation=operation, headers=headers)
        tally.call(at, "ci", Call(operation, key="rk_1"), reply)
    (row,) = tally.finish(START + 12 * DAY, service()).hours["windows"]
    assert (row["rate_class"], row["days"]) == ("expensive", [[START, 16, 0]])


def test_what_comes_before_the_end_of_the_warm_up_is_dropped() -> None:
    start = instant("2026-03-02T00:00:00Z")
    tally = ReplicationTally(start, 12 * DAY, DAY, warm_up=DAY + 30 * MINUTE)
    tally.pool(start, "crawl", 9, None, 0)
    tally.pool(start + DAY + 29 * MINUTE, "crawl", 2, None, 0)
    tally.pool(start + DAY + 45 * MINUTE, "crawl", 0, None, 0)
    replication = tally.finish(start + 12 * DAY, service())
    assert replication.hours["queues"][0]["days"] == [[start + DAY, 2, 0]]
    first, *_ = Result("late", 1, [replication]).tables["queues_by_day"]
    assert (first["t"], first["at"], first["jobs"]) == (start + DAY + 30 * MINUTE, start + DAY, 2)


def test_events_are_kept_by_when_they_came_and_the_lost_are_counted() -> None:
    hours, friday = Hours(START, 12 * DAY), instant("2026-03-06T23:50:00Z")
    assert START < friday < START + 12 * DAY
    for delay in (30 * MINUTE, None, 40 * MINUTE, None):
        hours.event("whk_1", friday, delay)
    hours.event("whk_1", friday + 20 * MINUTE, None)
    (row,) = hours.rows(lambda table, which: which)["delivering"]
    assert [[weekend, hour, events] for weekend, hour, _, events in row["profile"]] == [
        [0, 23, 1],
        [0, 23, 1],
    ]
    at = friday // HOUR * HOUR
    assert row["days"] == [[at, 40 * MINUTE, 2], [at + HOUR, None, 1]]


def test_replications_without_an_event_tell_nothing_of_how_late_it_came() -> None:
    def of(index: int, *days: list[int]) -> Replication:
        hours = {"delivering": [{"endpoint": "erp", "profile": [], "days": list(days)}]}
        return Replication(index, START, START + 11 * DAY, [], {}, [], {}, {}, hours=hours)

    result = Result("days", 1, [of(0, [START, 3 * MINUTE, 1]), of(1, [START, MINUTE, 2]), of(2)])
    first, second, *_ = result.tables["delivering_by_day"]
    assert (first["delay"], first["lost"], first["at"]) == (2 * MINUTE, 1, START)
    assert (second["delay"], second["lost"], second["at"]) == (None, 0, None)


def test_a_day_of_which_all_events_were_lost_has_no_delay_and_one_at_once_has_none_to_speak_of() -> None:
    hours = Hours(START, 11 * DAY)
    for day, delays in enumerate(((None, None), (None, 0), (0, None, MINUTE))):
        for delay in delays:
            hours.event("erp", START + day * DAY, delay)
    hourly = hours.rows(lambda table, which: which)
    result = Result("days", 1, [Replication(0, START, START + 11 * DAY, [], {}, [], {}, {}, hours=hourly)])
    rows = result.tables["delivering_by_day"][:3]
    assert [(row["delay"], row["lost"]) for row in rows] == [(None, 2), (0, 1), (MINUTE, 1)]
    assert [row["at"] is None for row in rows] == [True, False, False]
    assert result.frame("delivering_by_day")["delay"].isna().tolist() == [True, False, False, *[True] * 8]


def replication(index: int, *days: list[int]) -> Replication:
    hours = {"queues": [{"kind": "crawl", "profile": [], "days": list(days)}]} if days else {}
    return Replication(index, START, START + 11 * DAY, [], {}, [], {}, {}, hours=hours)


def test_a_day_of_replications_is_their_mean_in_the_hour_that_most_have() -> None:
    late, early = START + 20 * HOUR, START + 3 * HOUR
    several = [[early, 9, 0]], [[late, 4, 0]], [[late, 2, 0]], []
    result = Result("days", 1, [replication(index, *days) for index, days in enumerate(several)])
    first, second, *_ = result.tables["queues_by_day"]
    assert (first["jobs"], first["at"], len(result.tables["queues_by_day"])) == (15 / 4, late, 11)
    assert first["low"] < 15 / 4 < first["high"]
    assert (second["jobs"], second["at"], second["low"]) == (0, None, 0)
    assert second["high"] == pytest.approx(-log(0.025) / 4)  # Garwood's, of none in four replications


def test_the_most_of_a_day_has_the_interval_of_its_kind() -> None:
    def of(index: int, longest: int) -> Replication:
        hours = {
            "delivering": [{"endpoint": "erp", "profile": [], "days": [[START, longest, 0]]}],
            "queues": [{"kind": "crawl", "profile": [], "days": [[START, longest // MINUTE, 0]]}],
        }
        return Replication(index, START, START + 11 * DAY, [], {}, [], {}, {}, hours=hours)

    differing, alike = [of(0, MINUTE), of(1, 9 * MINUTE)], [of(0, 3 * MINUTE), of(1, 3 * MINUTE)]
    for result in (Result("days", 1, differing), Result("days", 1, alike)):
        jobs = result.tables["queues_by_day"][0]
        most = [replication.hours["queues"][0]["days"][0][1] for replication in result.replications]
        assert (jobs["jobs"], jobs["low"], jobs["high"]) == counted(most)
        assert 0 <= jobs["low"] < jobs["jobs"] < jobs["high"]
    first, second = (
        Result("days", 1, of_both).tables["delivering_by_day"][0] for of_both in (differing, alike)
    )
    assert (first["delay"], first["low"]) == (5 * MINUTE, 0)
    assert first["high"] > 9 * MINUTE
    assert (second["delay"], second["low"], second["high"]) == (3 * MINUTE, None, None)
