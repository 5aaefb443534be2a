"""Worlds as an engine: what is kept of a replication, and metrics computed from it."""

from pathlib import Path

import pytest

from ranksim.core.errors import BadInput
from ranksim.planner.study.engines import Measurement, Worlds, value_of
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.scenario import Scenario

SCENARIO = """
start: 2026-01-05T00:00:00Z
length: {length}
accounts:
  acme: {{plan: pro, portfolio: {{domains: 8, keywords: 5}}}}
clients:
  nightly: {{kind: schedule, account: acme, job: rank_run, every: day, at: "02:00"}}
pools: {{rank_run: {{capacity: 1, duration: 4m}}}}
"""


def observed(length: str) -> Measurement:
    worlds = Worlds(Scenario.parse(SCENARIO.format(length=length)))
    return worlds.observe(worlds.build({}), 1, 0)


@pytest.mark.parametrize(
    ("length", "bound", "share"),
    [
        ("1d", "0s", 1 / 8),
        ("1d", "3m", 1 / 8),
        ("1d", "4m", 2 / 8),  # exactly four minutes are within four
        ("1d", "27m", 7 / 8),
        ("1d", "1h", 1.0),
        ("2h10m", "1h", 3 / 8),  # after ten minutes three have started; the others are late
    ],
)
def test_the_share_that_starts_within(length: str, bound: str, share: float) -> None:
    metric = f"jobs.rank_run.wait.within.{bound}"
    assert value_of(observed(length), metric, "share") == share


def test_a_share_of_nothing_is_not_observed() -> None:
    assert value_of(observed("1h"), "jobs.rank_run.wait.within.5m", "share") is None
    assert value_of(Measurement({}), "calls.total", "count") == 0.0
    assert value_of(Measurement({}), "refusals.share", "share") is None
    assert value_of(Measurement({}), "plans.pro.spend.total", "money") == 0.0
    assert value_of(Measurement({}), "plans.pro.spend.mean", "money") is None  # of nobody


def test_waits_up_to_the_bound_are_within() -> None:
    waits = Histogram()
    for seconds in (299, 300, 301, 310):
        waits.add(seconds * 1_000_000)
    kept = Measurement({"jobs.crawl.queued": 4}, {"jobs.crawl.wait": waits.to_plain()})
    assert value_of(kept, "jobs.crawl.wait.within.5m", "share") == 2 / 4


def test_a_recording_is_told_by_its_bytes(tmp_path: Path) -> None:
    replay = "{{kind: arrivals, account: acme, mix: {{account.usage: 1}}, source: {{rates: rates.txt}}}}"
    text = SCENARIO.replace("clients:\n", f"clients:\n  replay: {replay}\n").format(length="1d")
    meanings = []
    for name, rates in (("one", "1 2 3"), ("two", "1 2 3"), ("three", "1 2 4")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rates.txt").write_text(rates)
        worlds = Worlds(Scenario.parse(text, str(tmp_path / name / "scenario.yaml")))
        meanings.append(worlds.meaning(worlds.build({})))
    assert meanings[0] == meanings[1] != meanings[2]


def test_a_variant_that_does_not_say_how_jobs_run_has_it_from_the_base(tmp_path: Path) -> None:
    sold = (Path(__file__).parents[3] / "examples" / "pricing" / "tighter.yaml").read_text("utf-8")
    (tmp_path / "tighter.yaml").write_text(sold, "utf-8")
    (tmp_path / "policy.yaml").write_text("catalogue: tighter.yaml\n", "utf-8")
    base = Scenario.parse(SCENARIO.format(length="1d"))
    worlds = Worlds(base, tmp_path)
    for settings in ({"policy.catalogue": "tighter.yaml"}, {"policy": "policy.yaml"}):
        catalogue = worlds.build(settings).policy.catalogue
        assert catalogue.name == "tighter"
        assert catalogue.job_durations == base.policy.catalogue.job_durations
    (tmp_path / "tighter.yaml").write_text(sold + "job_durations: {crawl: 3m}\n", "utf-8")
    with pytest.raises(BadInput, match="job_durations: says nothing of rank_run"):
        worlds.build({"policy.catalogue": "tighter.yaml"})
