"""Worlds with one planted cause each: what is asked, when it sets in, and the change that undoes it.

All months have 31 days, and the plan is pro: 5,000 slots, 90 USD of provider cost, 50 briefs a week, a crawl
of a domain a day.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE, Micros
from ranksim.planner.study.engines import Worlds as StudyWorlds
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.why.changes import knobs, study_path
from ranksim.twin.sim.why.explanation import Why

FOUR = "scans: [{engine_devices: [google/desktop, google/mobile], geographies: [US, DE]}]"


@dataclass(frozen=True)
class Planted:
    """A world, what is asked of it, and the answer: µs since the start, the parameter, its new value."""

    name: str
    asked: str
    moment: Micros
    change: str
    new: str
    text: str
    kind: str = "cause"


def world(length: str, body: str, start: str = "2026-03-01T00:00:00Z") -> str:
    return f"scenario: 1\nstart: {start}\nlength: {length}\n{body}"


PLANTED = [
    # 4,000 slots, and one more each day: 4,013 when the import brings 985. In all 30 come, so 970 fit.
    Planted(
        "an import",
        "refusals.slot_limit_exceeded",
        12 * DAY + 12 * HOUR,
        "scenario.timeline[0].count",
        "970",
        world(
            "30d",
            """
accounts: {acme: {plan: pro, portfolio: {keywords: 4000}}}
clients:
  growth: {kind: caller, account: acme, mix: {keywords.create: 1}, every: 1d}
timeline:
  - {at: 12d12h, do: add_keywords, account: acme, count: 985}
""",
        ),
    ),
    # Of 1,000 words a tenth goes each day from the 8th on: 400 slots held a day, where 1,000 are left for 22
    # days: 11 words a day.
    Planted(
        "a churned list",
        "refusals.slot_limit_exceeded",
        8 * DAY,
        "scenario.clients.sync.share",
        "0.011",
        world(
            "30d",
            f"""
accounts: {{acme: {{plan: pro, portfolio: {{keywords: 1000, {FOUR}}}}}}}
clients:
  sync: {{kind: keyword_sync, account: acme, every: day, share: 0.1, starts: 8d}}
""",
        ),
    ),
    # 200 words are removed, and their 800 slots held until the month ends, on the 15th; 400 words want 1,600.
    Planted(
        "a month's end",
        "refusals.slot_limit_exceeded",
        12 * DAY,
        "scenario.timeline[1].at",
        "2w",
        world(
            "28d",
            f"""
accounts:
  acme: {{plan: pro, anchor: 2026-02-15T00:00:00Z, portfolio: {{keywords: 1000, {FOUR}}}}}
timeline:
  - {{at: 3d, do: remove_keywords, account: acme, count: 200}}
  - {{at: 12d, do: add_keywords, account: acme, count: 400}}
""",
        ),
    ),
    # Eight runs of four minutes: with c workers the last waits ⌈8 / c⌉ − 1 rounds, of which 10 min are two.
    Planted(
        "a slow pool",
        "jobs.rank_run.wait.max > 10m",
        2 * DAY,
        "scenario.timeline[0].capacity",
        "3",
        world(
            "4d",
            """
accounts: {acme: {plan: pro, portfolio: {domains: 8, keywords: 10}}}
clients:
  nightly: {kind: schedule, account: acme, job: rank_run, every: day, at: "02:00"}
pools: {rank_run: {capacity: 8, duration: 4m}}
timeline:
  - {at: 2d, do: resize_pool, pool: rank_run, capacity: 1}
""",
        ),
    ),
    # The event of 02:10 is tried for the last time 516 minutes later, at 10:46.
    Planted(
        "a receiver down",
        "endpoints.erp.lost",
        DAY,
        "scenario.receivers.erp.outages[0].for",
        "10h46m",
        world(
            "3d",
            """
accounts: {acme: {plan: pro, portfolio: {domains: 1}}}
clients:
  nightly: {kind: schedule, account: acme, job: crawl, every: day, at: "02:00"}
pools: {crawl: {capacity: 1, duration: 10m}}
receivers: {erp: {account: acme, outages: [{from: 1d, for: 12h}]}}
""",
        ),
    ),
    # A run costs 1.60 USD; the 57th begins at 89.60 and may cross 90 (U48). After ten that leaves 47 for 20
    # days: one each 10 h 12.8 min.
    Planted(
        "a raised run-every",
        "refusals.cost_cap_reached",
        10 * DAY,
        "scenario.clients.often.every",
        "10h13m",
        world(
            "30d",
            f"""
accounts: {{acme: {{plan: pro, portfolio: {{keywords: 1000, {FOUR}}}}}}}
clients:
  daily: {{kind: schedule, account: acme, job: rank_run, every: 1d, stops: 10d}}
  often: {{kind: schedule, account: acme, job: rank_run, every: 6h, starts: 10d}}
""",
        ),
    ),
    # 250 words of four slots fit; in the 25 days that are left one each 2 h 24 min.
    Planted(
        "a growth",
        "refusals.slot_limit_exceeded",
        5 * DAY,
        "scenario.clients.growth.every",
        "2h24m",
        world(
            "30d",
            f"""
accounts: {{acme: {{plan: pro, portfolio: {{keywords: 1000, {FOUR}}}}}}}
clients:
  growth: {{kind: caller, account: acme, mix: {{keywords.create: 1}}, every: 1h, starts: 5d}}
""",
        ),
    ),
    # Four runs a day of 0.16 USD are 19.20 USD in 30 days; starter has 10 USD, pro 90. The cause, the plan,
    # would raise the invoice by 100 USD, and fewer keywords would not.
    Planted(
        "a cost ceiling",
        "refusals.cost_cap_reached",
        8 * DAY,
        "scenario.accounts.acme.portfolio.keywords",
        "210",
        world(
            "30d",
            """
accounts: {acme: {plan: pro, portfolio: {keywords: 400}}}
clients:
  often: {kind: schedule, account: acme, job: rank_run, every: 6h}
timeline:
  - {at: 8d, do: change_plan, account: acme, plan: starter}
""",
        ),
        kind="done",
    ),
    # 30 starts, of which 20 pass in a minute: the 21st must come a minute after the first, 20 / 30 of 90 s.
    Planted(
        "a rate burst",
        "refusals.rate_limited",
        2 * DAY,
        "scenario.clients.crawls.spread",
        "1m30s",
        world(
            "5d",
            """
accounts: {acme: {plan: pro, portfolio: {domains: 30}}}
clients:
  crawls: {kind: schedule, account: acme, job: crawl, every: day, at: "03:00", starts: 2d}
""",
        ),
    ),
    # 60 briefs a week, of 50.
    Planted(
        "a weekly quota",
        "refusals.quota_exhausted",
        2 * DAY,
        "scenario.clients.briefs.keywords",
        "50",
        world(
            "20d",
            """
accounts: {acme: {plan: pro, portfolio: {keywords: 100}}}
clients:
  briefs: {kind: brief_refresher, account: acme, keywords: 60, batch: 10, weekday: friday, starts: 2d}
""",
            "2026-03-02T00:00:00Z",
        ),
    ),
    Planted(
        "a cooldown",
        "refusals.cooldown_active",
        3 * DAY,
        "scenario.clients.crawls.every",
        "1d",
        world(
            "10d",
            """
accounts: {acme: {plan: pro, portfolio: {domains: 2}}}
clients:
  crawls: {kind: schedule, account: acme, job: crawl, every: 12h, starts: 3d}
""",
        ),
    ),
    # 600 reads a minute: 300 are the dashboard's.
    Planted(
        "a key's pacing",
        "refusals.rate_limited",
        4 * MINUTE,
        "scenario.clients.export.every",
        "200ms",
        world(
            "7m",
            """
accounts: {acme: {plan: pro, portfolio: {domains: 1, keywords: 10}}}
clients:
  dashboard: {kind: poller, account: acme, operation: domains.list, every: 200ms}
  export: {kind: caller, account: acme, mix: {keywords.list: 1}, every: 150ms, starts: 4m}
""",
        ),
    ),
    Planted(
        "a key withdrawn",
        "clients.reports.refusals",
        5 * DAY,
        "scenario.timeline[0]",
        "left out",
        world(
            "8d",
            """
accounts: {acme: {plan: pro, portfolio: {domains: 1, keywords: 10}}}
clients:
  reports: {kind: caller, account: acme, mix: {keywords.list: 1}, every: 1h}
timeline:
  - {at: 5d, do: withdraw_key, account: acme, key: main}
""",
        ),
    ),
    # A job takes 12 h. Of d jobs of the first morning two are done by the second, and the third starts: then
    # d − 3 wait and d come, which a queue of 8 takes for d = 5.
    Planted(
        "a queue too short",
        "jobs.crawl.failed",
        DAY,
        "scenario.clients.more.domains",
        "5",
        world(
            "3d",
            """
accounts: {acme: {plan: pro, portfolio: {domains: 20}}}
clients:
  more: {kind: schedule, account: acme, job: crawl, every: day, at: "06:00", starts: 1d}
pools: {crawl: {capacity: 1, queue_limit: 8, duration: 12h}}
""",
        ),
    ),
]

# Twelve runs of about five minutes each: of three workers' four rounds the last waits three, of six workers'
# two it waits one.
FEW_WORKERS = world(
    "7d",
    """
accounts: {acme: {plan: pro, portfolio: {domains: 12, keywords: 100}}}
clients:
  nightly: {kind: schedule, account: acme, job: rank_run, every: day, at: "02:00"}
pools: {rank_run: {capacity: 3}}
""",
)

QUICK = ("a cooldown", "a key withdrawn", "a weekly quota")


def asked(planted: Planted) -> tuple[Scenario, Why]:
    scenario = Scenario.parse(planted.text, planted.name)
    return scenario, run(scenario).why(planted.asked)


def check(planted: Planted) -> None:
    scenario, why = asked(planted)
    assert why.moment.at - scenario.start == planted.moment, why.sentence
    assert why.change is not None
    assert (why.change.path, why.change.new) == (planted.change, planted.new), why.sentence
    assert (why.change.kind, why.change.prevented.mean) == (planted.kind, 1), why.sentence
    assert [one.hits for one in why.chances if one.at < why.moment.at] == [0] * sum(
        one.at < why.moment.at for one in why.chances
    )


@pytest.mark.slow
@pytest.mark.parametrize("planted", [p for p in PLANTED if p.name in QUICK], ids=lambda p: p.name)
def test_a_planted_cause_is_named(planted: Planted) -> None:
    check(planted)


@pytest.mark.heavy
@pytest.mark.parametrize("planted", [p for p in PLANTED if p.name not in QUICK], ids=lambda p: p.name)
def test_every_planted_cause_is_named(planted: Planted) -> None:
    check(planted)


@pytest.mark.heavy
def test_more_workers_are_named_where_a_smaller_change_is_not_sure() -> None:
    why = run(Scenario.parse(FEW_WORKERS, "few workers")).why("jobs.rank_run.wait.max > 10m")
    assert not why.moment.causes
    assert why.change is not None
    assert (why.change.path, why.change.old) == ("scenario.pools.rank_run.capacity", "3")
    assert int(why.change.new) in (5, 6)
    assert why.change.holds
    smallest = min(why.changes, key=lambda one: one.size)
    assert (smallest.path, smallest.holds) == ("scenario.clients.nightly.spread", False)
    assert why.sentence.startswith("a rank_run job waits more than 10m (10m8.475s), 2026-03-01T02:10:08")
    assert "The smallest of all is scenario.clients.nightly.spread 0s → 11m42s" in why.sentence


def test_there_are_twelve_worlds_at_least() -> None:
    assert len({planted.name for planted in PLANTED}) >= 12


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: p.name)
def test_parameters_are_those_of_studies(planted: Planted) -> None:
    scenario = Scenario.parse(planted.text)
    for knob in knobs(scenario):
        if isinstance(knob.path[-1], str) and knob.path[-2] != "add_ons":
            StudyWorlds(scenario).check_path(study_path(knob.path))
        assert knob.count == 0 or 0 < knob.size(1) <= knob.size(knob.count) <= 1, study_path(knob.path)
        if knob.count:
            knob.turned(scenario, 1).check()
