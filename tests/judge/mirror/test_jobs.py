"""What is fitted to the jobs of an account: planted lengths and failures are recovered, calendars found."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim import cli
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, instant, iso
from ranksim.core.contract.quantities import Distribution
from ranksim.inference.estimate import Estimate
from ranksim.judge.mirror.fitted import FEWEST
from ranksim.judge.mirror.jobs import by_chance, fit_jobs, left_out, schedules, starts_of, unended
from ranksim.testing import Server
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

WORLDS = 200
FIRST = 4_100


def listed(world: World) -> list[dict[str, Any]]:
    """The jobs of a world as the API lists them."""
    return [
        {
            "kind": job.kind, "status": job.status, "domain_id": job.domain,
            "created_at": iso(job.created_at),
            "finished_at": job.finished_at and iso(job.finished_at),
        }
        for job in world.service.state.jobs.values()
    ]  # fmt: skip


def planted(seed: int, median: int, sigma: float, failing: float, days: int = 20) -> World:
    """A world whose rank runs take so long, and fail so often."""
    duration = {"lognormal": {"median": median, "sigma": sigma}}
    scenario = Scenario.model_validate(
        {
            "start": 0, "length": days * DAY, "seed": seed,
            "accounts": {"acme": {"plan": "agency", "portfolio": {"domains": 5, "keywords": 3}}},
            "clients": {"runs": {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "day"}},
            "pools": {"rank_run": {"capacity": "unlimited", "duration": duration, "failure_rate": failing}},
        }
    )  # fmt: skip
    world = World(scenario)
    world.run()
    return world


def _within(found: Estimate, truth: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


@pytest.mark.slow
def test_planted_lengths_and_failures_are_within_their_intervals_in_95_of_100_worlds() -> None:
    """Binomial: of 200 worlds with a coverage of 95 %, fewer than 181 are seen once in 200 times."""
    lengths = failures = 0
    for seed in range(FIRST, FIRST + WORLDS):
        draw = random.Random(seed)
        median, sigma = draw.randrange(20 * SECOND, 20 * MINUTE), draw.uniform(0.1, 1.0)
        failing = draw.uniform(0.0, 0.4)
        fitted = fit_jobs(listed(planted(seed, median, sigma, failing)))["rank_run"]
        lengths += _within(fitted.median, median)
        failures += _within(fitted.failed, failing)
    print(f"within their intervals, from seed {FIRST}: {lengths} medians, {failures} shares of {WORLDS}")
    assert lengths >= 181
    assert failures >= 181


def test_a_length_without_chance_is_a_constant() -> None:
    fitted = fit_jobs(listed(planted(1, 4 * MINUTE, 0.0, 0.0)))["rank_run"]
    assert fitted.distribution == "4m"
    assert (fitted.failed.mean, fitted.failed.low) == (0.0, 0.0)
    assert Distribution.model_validate(fitted.distribution).durations == (4 * MINUTE,)


def test_too_few_ends_and_what_has_not_ended_fit_nothing() -> None:
    jobs = listed(planted(1, 4 * MINUTE, 0.3, 0.0, days=20))
    running = [{**job, "status": "running", "finished_at": None} for job in jobs]
    assert fit_jobs(running) == fit_jobs(jobs[: FEWEST - 1]) == {}
    assert fit_jobs([{"kind": "crawl"}, {"kind": "crawl", "status": "done", "created_at": 7}]) == {}


def jobs_at(*starts: tuple[str, int], kind: str = "crawl") -> list[dict[str, Any]]:
    return [{"kind": kind, "domain_id": domain, "created_at": iso(at)} for domain, at in starts]


def test_jobs_are_watched_for_from_the_oldest_of_any_kind_to_the_mirror() -> None:
    crawls = jobs_at(*(("a", (10 + n // 8) * DAY + n) for n in range(24)))
    jobs = [*crawls, *jobs_at(("a", 0), kind="rank_run")]
    [(name, seen)] = by_chance(jobs, "acme", (), (48 * DAY, 48 * DAY))
    assert (name, seen.daily.mean, seen.client["every"]) == ("acme-crawl", 0.5, "2d")
    assert seen.daily.low is not None
    assert seen.daily.low < 0.2


def listed_briefs(*starts: tuple[str, int]) -> list[dict[str, Any]]:
    briefs = [{**brief, "keyword": "seo"} for brief in jobs_at(*starts)]
    return starts_of({"keyword_briefs.list": [{**brief, "kind": None} for brief in briefs]})


def test_briefs_are_refreshed_by_the_calendar_or_by_rate_and_what_is_left_out_is_said() -> None:
    hosts = {name: f"{name}.example" for name in "abcd"}
    weekly = listed_briefs(*((name, (7 * n + 5) * DAY + 9 * HOUR) for name in "abcd" for n in range(4)))
    [(name, client)] = schedules(weekly, "acme", hosts)
    assert (name, client) == ("acme-keyword_briefs", {
        "kind": "brief_refresher", "account": "acme", "keywords": 4, "every": "week", "at": "09:00",
        "weekday": "tuesday",
    })  # fmt: skip
    draw = random.Random(5)
    seldom = listed_briefs(*(("a", int(draw.uniform(0, 90) * DAY)) for _ in range(40)))
    assert list(schedules(seldom, "acme", hosts)) == []
    [(name, seen)] = by_chance(seldom, "acme", (), (0, 90 * DAY))
    assert (name, seen.client["mix"]) == ("acme-keyword_briefs", {"keyword_briefs.create": 1})
    assert list(left_out(seldom, "acme", {name})) == []
    [said] = left_out(seldom[:7], "acme", ())
    assert "keyword_briefs came 7 times, by no calendar and too seldom for a rate" in said
    assert "add one of kind brief_refresher" in said


@pytest.mark.parametrize(
    ("starts", "says"),
    [
        ([(d, n * DAY + 3_600 * SECOND) for d in "ab" for n in range(4)],
         {"every": "day", "at": "01:00", "domains": "all"}),
        ([("a", n * DAY) for n in range(4)], {"every": "day", "at": "00:00", "domains": ["a.example"]}),
        ([("a", (7 * n + 4) * DAY) for n in range(4)], {"every": "week", "weekday": "monday"}),
        ([("a", n * DAY // 2) for n in range(6)], {"every": "12h"}),
        ([("a", n * n * DAY) for n in range(6)], None),
        ([("a", 0), ("a", DAY)], None),
    ],
)  # fmt: skip
def test_a_calendar_is_found_where_starts_go_by_one(starts: Any, says: dict[str, Any] | None) -> None:
    clients = dict(schedules(jobs_at(*starts), "acme", {"a": "a.example", "b": "b.example"}))
    if says is None:
        assert clients == {}
    else:
        assert says.items() <= clients["acme-crawl"].items()


@pytest.mark.slow
def test_a_mirror_of_ninety_days_runs_fits_and_prices_without_an_edit(tmp_path: Path) -> None:
    out = tmp_path / "twin"

    def ask(*words: object) -> str:
        result = CliRunner().invoke(cli.app, list(map(str, words)), env={"RANKSIM_KEY": server.key})
        assert result.exit_code == 0, result.output
        return result.output

    demo = Path(cli.__file__).parent / "data" / "demo.yaml"
    with Server.of(demo, until="2026-03-20T12:00:00Z") as server:
        said = ask("mirror", "--host", server.url, "--out", out)
    assert "rank_run: fitted to " in said
    world = Scenario.load(out / "world.yaml")
    ranks, crawls = world.clients["agency-rank_run"], world.clients["agency-crawl"]
    assert (ranks.model_dump()["every"], crawls.model_dump()["every"]) == ("day", "week")
    assert "Jobs done: " in ask("run", out / "world.yaml", "--set", "scenario.length=7d")
    assert "rank_run every 1d" in ask("capacity", "fit", "--scenario", out / "world.yaml")
    ask("price", "compare", "--scenario", out / "world.yaml", "--b", "illustrative")


def test_of_jobs_whose_end_nobody_saw_it_is_said_what_is_known() -> None:
    """A job is under way as it was seen so, no longer ago than the longest of its kind, or any, took."""
    at = [f"2026-03-02T{hour:02}:00:00Z" for hour in range(10)]
    ended = {"kind": "crawl", "status": "done", "created_at": at[0], "finished_at": at[2]}
    young = {"kind": "crawl", "status": "queued", "created_at": at[8]}
    old, lost = young | {"created_at": at[5]}, {"kind": "crawl", "created_at": at[8]}
    other = {"kind": "rank_run"}  # of which no end was seen
    now = instant(at[9])
    (under_way,) = unended([ended, young, young | other], now)
    assert under_way == "2 jobs were under way there when last seen, and not here"
    first, unsure = unended([ended, young, old, old | other, lost], now)
    assert first.startswith("1 job was under way")
    assert unsure.startswith("of 3 jobs it is not known whether they have ended: no reply and no webhook")
    (under_way,) = unended([old, young | other], now)  # nothing tells how long any takes
    assert under_way.startswith("2 jobs were under way")
    assert list(unended([ended], now)) == []
