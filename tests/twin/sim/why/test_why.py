"""Why something happened: other futures, what can be asked, and who has no part in it."""

from __future__ import annotations

import json
from math import comb, exp, factorial

import pytest

import ranksim as rs
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call, Reply
from ranksim.inference.shares import chance
from ranksim.planner.study.engines import Worlds as StudyWorlds
from ranksim.report import units
from ranksim.report.progress import nobody
from ranksim.twin.sim.expectations import Expectation
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.statistics import ReplicationTally
from ranksim.twin.sim.why.answer import _Prevention, narrowed, why
from ranksim.twin.sim.why.changes import knobs, study_path
from ranksim.twin.sim.why.explanation import (
    LEFT_OUT,
    Chance,
    Happening,
    Losses,
    Path,
    Remedy,
    TurningPoint,
    Unchanged,
    Why,
)
from ranksim.twin.sim.why.futures import Question, Rerunner
from ranksim.twin.sim.why.moments import action_at, as_of, planned_moments
from ranksim.twin.sim.world import Fork, World

# Other futures

HEAD = "scenario: 1\nstart: 2026-03-01T00:00:00Z\n"
RANDOM = f"""{HEAD}
length: 10d
accounts: {{acme: {{plan: pro, portfolio: {{keywords: 4985}}}}}}
clients:
  growth: {{kind: caller, account: acme, mix: {{keywords.create: 1}}, every: 12h, arrivals: poisson}}
"""


class Log(ReplicationTally):
    """When calls are made."""

    times: list[int]

    def call(self, now: Micros, client: str, call: Call, reply: Reply) -> None:
        self.times.append(now)


def calls(scenario: Scenario, seed: int, fork: Fork | None = None) -> list[int]:
    log = Log(scenario.start, scenario.length, scenario.length)
    log.times = []
    World(scenario, seed=seed, tally=log, fork=fork).run()
    return log.times


def test_a_fork_has_the_same_past_and_another_future() -> None:
    scenario = Scenario.parse(RANDOM)
    at = scenario.start + 5 * DAY
    run_itself, fork = calls(scenario, 1), calls(scenario, 1, Fork(at, 2))
    assert [t for t in run_itself if t <= at] == [t for t in fork if t <= at] != []
    assert [t for t in run_itself if t > at][1:] != [t for t in fork if t > at][1:]
    assert fork == calls(scenario, 1, Fork(at, 2))


@pytest.mark.slow
def test_the_chance_at_the_start_is_that_of_the_law() -> None:
    """15 words fit, and 20 come on average: refused is who sees 16 or more."""
    scenario = Scenario.parse(RANDOM)
    worlds = Rerunner(Question.parse("refusals.slot_limit_exceeded"), nobody)
    hits = sum(worlds.happens(scenario, seed) for seed in range(200))
    law = 1 - sum(exp(-20) * 20**n / factorial(n) for n in range(16))
    p_value = sum(comb(200, k) * law**k * (1 - law) ** (200 - k) for k in range(hits + 1))
    assert 0.001 < p_value < 0.999, (hits, law)


def test_what_sets_in_later_is_not_there_yet() -> None:
    scenario = Scenario.parse(f"""{HEAD}
length: 30d
accounts: {{acme: {{plan: pro, portfolio: {{keywords: 10}}}}}}
clients:
  growth: {{kind: caller, account: acme, mix: {{keywords.create: 1}}, every: 1h, starts: 5d}}
timeline:
  - {{at: 12d, do: add_keywords, account: acme, count: 5}}
""")
    starts, later = planned_moments(scenario)
    assert (starts.at, starts.path) == (scenario.start + 5 * DAY, ("clients", "growth"))
    assert (later.at, later.path) == (scenario.start + 12 * DAY, ("timeline", 0))
    assert as_of(scenario, later.at - 1).timeline == ()
    assert as_of(scenario, later.at).timeline == scenario.timeline
    assert as_of(scenario, starts.at - 1).clients == {}


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("do: add_domains, account: acme, domains: 10", "add_domains (domains: 10, account: acme)"),
        (
            "do: add_domains, account: acme, scans: [{engine_devices: [google/mobile], geographies: [US]}]",
            "add_domains (scans: [{engine_devices: [google/mobile], geographies: [{country: US}]}], "
            "account: acme)",
        ),
        (
            "do: remove_domains, account: acme, domains: [a.com, b.com, c.com, d.com]",
            "remove_domains (account: acme, domains: [a.com, b.com, c.com, …])",
        ),
        (
            "do: set, path: scenario.receivers.erp.latency, value: {exponential: {mean: 4s}}",
            "scenario.receivers.erp.latency set to {exponential: {mean: 4s}}",
        ),
        ("do: edit_endpoint, receiver: erp, enabled: false", "edit_endpoint (receiver: erp, enabled: false)"),
    ],
)
def test_an_action_is_told_as_its_file_states_it(action: str, text: str) -> None:
    portfolio = "{domains: [a.com, b.com, c.com, d.com, e.com], keywords: 100}"
    scenario = Scenario.parse(f"""{HEAD}
length: 2d
accounts: {{acme: {{plan: pro, portfolio: {portfolio}}}}}
receivers: {{erp: {{account: acme}}}}
timeline: [{{at: 1d, {action}}}]
""")
    assert [step.text for step in planned_moments(scenario)] == [text]


def test_who_only_reads_has_no_part_in_a_refusal() -> None:
    scenario = Scenario.parse(
        f"""{HEAD}
length: 1d
accounts: {{acme: {{plan: pro, portfolio: {{domains: 1}}}}, other: {{plan: pro, portfolio: {{domains: 1}}}}}}
clients:
  reads: {{kind: poller, account: acme, operation: jobs.list, every: 1m}}
  crawls: {{kind: schedule, account: acme, job: crawl, every: 6h}}
  others: {{kind: schedule, account: other, job: crawl, every: 6h}}
receivers: {{erp: {{account: acme}}}}
"""
    )
    small = narrowed(scenario, Question.parse("refusals.cooldown_active"), "acme")
    assert (list(small.clients), list(small.receivers)) == (["crawls"], [])
    limited = narrowed(scenario, Question.parse("refusals.rate_limited"), "acme")
    assert list(limited.clients) == ["reads", "crawls"]
    waits = narrowed(scenario, Question.parse("jobs.crawl.wait.max > 1m"), "")
    assert (list(waits.clients), list(waits.receivers)) == (["crawls", "others"], [])
    slots = narrowed(scenario, Question.parse("refusals.slot_limit_exceeded"), "acme")
    assert list(slots.clients) == []
    lost = narrowed(scenario, Question.parse("endpoints.erp.lost"), "acme")
    assert (list(lost.clients), list(lost.receivers)) == (["crawls"], ["erp"])


@pytest.mark.parametrize(
    ("poller", "has_part"),
    [
        ("key: own, every: 110ms", False),  # 546 in a minute, of 600
        ("key: own, every: 90ms", True),
        ("key: own, every: 1m, pages: 400", True),
        ("key: main, every: 110ms", True),
        ("every: 110ms", True),  # the account's first key
    ],
)
def test_who_polls_below_the_limit_has_no_part_in_it(poller: str, has_part: bool) -> None:
    scenario = Scenario.parse(f"""{HEAD}
length: 1d
accounts: {{acme: {{plan: pro, keys: [main, own], portfolio: {{domains: 1}}}}}}
clients:
  reads: {{kind: poller, account: acme, operation: jobs.list, {poller}}}
  crawls: {{kind: schedule, account: acme, job: crawl, every: 6h}}
""")
    small = narrowed(scenario, Question.parse("refusals.rate_limited"), "acme")
    assert ("reads" in small.clients) == has_part


def test_another_receiver_is_not_named() -> None:
    scenario = Scenario.load("scenarios/receiver-down-3h.yaml")
    worlds = Rerunner(Question.parse("endpoints.four.lost"), nobody)
    first, _ = worlds.first(scenario, 1)
    assert first is not None
    assert first.text == "receiver four loses 4 events: the endpoint of receiver four is disabled"


def test_events_that_a_disabled_endpoint_is_never_sent_are_counted() -> None:
    """Two of seven nights are lost at 20 a night: the first is cancelled, the second never sent."""
    scenario = Scenario.parse(f"""{HEAD}
length: 2d
accounts: {{acme: {{plan: pro, portfolio: {{domains: 20}}}}}}
clients: {{runs: {{kind: schedule, account: acme, job: rank_run, every: day, at: "01:00"}}}}
pools: {{rank_run: {{capacity: unlimited, duration: 1m}}}}
receivers: {{erp: {{account: acme, outages: [{{from: 30m, for: 1h}}]}}}}
""")
    first, _ = Rerunner(Question.parse("endpoints.erp.lost > 20"), nobody).first(scenario, 1)
    assert first is not None
    assert first.text.startswith("receiver erp loses ")
    assert first.text.endswith(": an event is not sent to receiver erp, whose endpoint is disabled")
    assert first.at - scenario.start == DAY + HOUR + MINUTE


DOWN = f"""{HEAD}
length: 6d
accounts: {{acme: {{plan: pro, portfolio: {{domains: 5}}}}}}
clients: {{runs: {{kind: schedule, account: acme, job: rank_run, every: day, at: "01:00"}}}}
receivers: {{erp: {{account: acme, outages: [{{from: 30m, for: 3h}}]}}}}
"""


@pytest.mark.parametrize("metric", ["endpoints.erp.lost", "deliveries.lost_suppressed", "jobs.rank_run.done"])
def test_a_world_ends_as_soon_as_a_count_is_too_high(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, ends = Scenario.parse(DOWN), []
    finish = World.finish
    monkeypatch.setattr(World, "finish", lambda world: (ends.append(world.now), finish(world))[1])
    assert Rerunner(Question(metric, 4), nobody).happens(scenario, 1)
    assert not Rerunner(Question(metric, 1_000), nobody).happens(scenario, 1)
    assert ends[0] <= scenario.start + 2 * DAY < ends[1] == scenario.end


def test_where_nothing_is_drawn_an_answer_has_no_intervals_and_the_least_that_is_enough() -> None:
    """Six jobs for two workers: the last two wait for two of 6 min; of 5 min, for the 10 min allowed."""
    scenario = Scenario.parse(f"""{HEAD}
length: 1d
accounts: {{shop: {{plan: pro, portfolio: {{domains: 6, keywords: 20}}}}}}
clients: {{nightly: {{kind: schedule, account: shop, job: rank_run, every: day, at: "02:00"}}}}
pools: {{rank_run: {{capacity: 2, duration: 6m, per_unit: 0s}}}}
""")
    answer = run(scenario, replications=20).why("jobs.rank_run.wait.max > 10m")
    assert answer.otherwise == (1.0, None, None)
    assert [(row.estimate, row.futures) for row in answer.chances] == [((1.0, None, None), 1)] * 2
    assert {change.prevented for change in answer.changes} == {(1.0, None, None)}
    duration = next(change for change in answer.changes if change.path.endswith("duration"))
    assert (duration.old, duration.new) == ("6m", "5m")
    assert "a run with it confirms that, and nothing is drawn, so that is sure." in answer.sentence
    assert " to 100) %" not in answer.summary()
    assert "other worlds" not in answer.summary()


def test_durations_that_are_drawn_are_shortened_to_what_people_write() -> None:
    scenario = Scenario.parse(LONG_WAITS)
    knob = next(knob for knob in knobs(scenario) if knob.path[-1] == "duration")
    assert [knob.write(knob.value(index)) for index in (1, 17, 100)] == [
        "{exponential: {mean: 4m57s}}",
        "{exponential: {mean: 4m9s}}",
        "{exponential: {mean: 0s}}",
    ]


@pytest.mark.parametrize(("failing", "runs"), [("0", 1), ("0.1", 5)])
def test_where_nothing_is_drawn_a_world_is_run_once(failing: str, runs: int) -> None:
    scenario = Scenario.parse(f"""{HEAD}
length: 1d
accounts: {{acme: {{plan: pro, portfolio: {{domains: 3}}}}}}
clients: {{nightly: {{kind: schedule, account: acme, job: rank_run, every: day, at: "02:00"}}}}
pools: {{rank_run: {{capacity: 1, duration: 4m, failure_rate: {failing}}}}}
""")
    worlds = Rerunner(Question.parse("jobs.rank_run.wait.max > 7m"), nobody)
    assert all(worlds.happens(scenario, seed) for seed in range(5))
    assert worlds.runs == runs


@pytest.mark.slow
def test_with_fewer_worlds_it_is_said_what_was_not_tried() -> None:
    sentence: list[str] = []
    scenario = Scenario.parse(DOWN)
    answer = why(
        scenario, [1], "endpoints.erp.lost", progress=lambda _, text: sentence.append(text), max_worlds=50
    )
    assert answer.worlds < 80
    assert sentence[39] == "40 worlds of about 50"
    assert "parameter" in answer.fields()["untried"][-1]
    assert answer.sentence.endswith("; more worlds at most try more.")
    assert answer.change is not None
    few = why(scenario, [1], "endpoints.erp.lost", max_worlds=1)
    assert few.worlds < 40
    assert few.untried[0].startswith("whether it was inevitable before 2026-")
    everything = why(scenario, [1], "endpoints.erp.lost")
    assert (everything.untried, everything.worlds > 80) == ((), True)
    with pytest.raises(BadInput, match="max_worlds: expected at least 1, found 0"):
        why(scenario, [1], "endpoints.erp.lost", max_worlds=0)


@pytest.mark.slow
def test_all_that_a_disabled_endpoint_loses_is_told_and_that_it_may_be_enabled_again() -> None:
    """Five events are lost as it is disabled at night; of the next four nights none is sent."""
    answer = why(Scenario.parse(DOWN), [1], "endpoints.erp.lost > 15")
    assert answer.losses == Losses("erp", 30, 25, (3 * HOUR + 30 * MINUTE,), 5)
    sentence = (
        "By the end of the run erp loses 30 events, of which 25 came while its endpoint was disabled. "
        "Enabled again as the outage ends "
        "(timeline: {at: 3h30m, do: edit_endpoint, receiver: erp, enabled: true}), it loses 5."
    )
    assert sentence in answer.sentence
    enabled = next(change for change in answer.changes if change.path == "scenario.timeline[0]")
    assert enabled.sentence.startswith("scenario.timeline[0] nothing → {at: 3h30m, do: edit_endpoint")
    assert enabled.holds
    assert Rerunner(Question("refusals.total"), nobody).losses(Scenario.parse(DOWN), 1) is None


def test_a_slow_receiver_that_is_enabled_again_is_disabled_again() -> None:
    slow = Scenario.parse(DOWN.replace("outages: [{from: 30m, for: 3h}]", "latency: 30s"))
    losses = Rerunner(Question.parse("endpoints.erp.lost"), nobody).losses(slow, 1)
    assert losses is not None
    assert losses.ends == ()
    assert losses.again is not None
    assert losses.again > slow.start + DAY
    assert losses.again % SECOND > 0
    assert losses.tried % SECOND == 0
    again = units.instant(losses.again)
    assert len(again) == len("2026-03-02T00:00:00Z")
    assert losses.sentence.endswith(
        f"receiver: erp, enabled: true}}), it is disabled again at {again}, as it fails without an outage."
    )


def test_who_waits_too_long_is_watched() -> None:
    scenario = Scenario.parse(f"""{HEAD}
length: 1d
accounts: {{acme: {{plan: pro, portfolio: {{domains: 3}}}}}}
clients: {{nightly: {{kind: schedule, account: acme, job: crawl, every: day, at: "02:00"}}}}
pools: {{crawl: {{capacity: 1, duration: 4m}}}}
""")
    worlds = Rerunner(Question.parse("jobs.crawl.wait.max > 7m"), nobody)
    first, _ = worlds.first(scenario, 1)
    late = scenario.start + 2 * HOUR + 8 * MINUTE
    assert first == Happening(late, "a crawl job waits more than 7m (8m)")
    assert worlds.runs == 2  # it is seen when it happens, not looked for


def test_of_all_refusals_each_code_is_counted_beside_the_first() -> None:
    scenario = Scenario.parse(f"""{HEAD}
length: 5d
accounts: {{acme: {{plan: pro, portfolio: {{domains: 1, keywords: 4990}}}}}}
clients:
  crawls: {{kind: schedule, account: acme, job: crawl, every: 12h}}
  words: {{kind: caller, account: acme, mix: {{keywords.create: 1}}, every: 6h}}
""")
    result = run(scenario)
    codes = {
        code: int(result.metric(f"refusals.{code}").mean or 0)
        for code in ("cooldown_active", "slot_limit_exceeded")
    }
    assert min(codes.values()) > 0
    why = result.why("refusals.total == 0", futures=10)
    assert dict(why.refusals) == codes
    counts = " and ".join(f"{number} {code}" for code, number in why.refusals)
    assert f"In all the run has {sum(codes.values())} refusals: {counts}; refusals.CODE asks" in why.sentence
    assert json.loads(why.to_json())["refusals"] == codes
    alone = result.why("refusals.cooldown_active", futures=10)
    assert alone.refusals == ()


def test_a_chance_has_an_interval() -> None:
    assert Chance(0, "", 20, 20).estimate.low == pytest.approx(0.025 ** (1 / 20))


# What would have prevented it


@pytest.mark.parametrize(
    ("asked", "path", "limit", "body"),
    [
        # 240 words in all; 168 briefs in a week
        ("slot_limit_exceeded", "slot_limit", "5083", "{keywords.create: 1}, every: 1h"),
        (
            "quota_exhausted",
            "quotas.keyword_brief_refreshes.limit",
            "168",
            "{keyword_briefs.create: 1}, every: 1h",
        ),
    ],
)
def test_what_is_used_tells_how_large_a_limit_must_be(asked: str, path: str, limit: str, body: str) -> None:
    scenario = Scenario.parse(f"""{HEAD}
length: 10d
accounts: {{acme: {{plan: pro, portfolio: {{keywords: 4843}}}}}}
clients: {{more: {{kind: caller, account: acme, mix: {body}}}}}
""")
    worlds = Rerunner(Question.parse(f"refusals.{asked}"), nobody)
    start = TurningPoint(scenario.start, "", ())
    prevention = _Prevention(worlds, scenario, scenario, 1, 10, start, chance(10, 10))
    (knob,) = [one for one in knobs(scenario) if study_path(one.path).endswith(f"plans.pro.{path}")]
    index = prevention._smallest(knob, 0, knob.count, [1])
    assert index is not None
    assert knob.write(knob.value(index)) == limit
    assert worlds.runs == 4  # as far as it goes; what is used there; so much; a step less or more


@pytest.mark.parametrize(
    ("at", "causes", "title"),
    [
        (0, (), "refusals.total: inevitable from the start on"),
        (DAY + HOUR, (), "refusals.total: inevitable from 2026-03-02 01:00 on"),
        (0, (("timeline", 0),), "refusals.total: inevitable from 2026-03-01 00:00 on"),
    ],
)
def test_the_title_of_the_plot_is_the_finding(at: Micros, causes: tuple[Path, ...], title: str) -> None:
    pytest.importorskip("matplotlib")
    start = Scenario.parse(RANDOM).start
    first = Happening(start + 2 * DAY, "refused")
    chances = (Chance(start, "the start", 0, 10), Chance(first.at, "refused", 10, 10))
    moment = TurningPoint(start + at, "", causes)
    why = Why("refusals.total", "", 0, 1, start, first, moment, chances, chance(0, 10), (), 1)
    assert why.plot().get_title() == title


def remedy(path: str, size: float, hits: int, kind: str) -> Remedy:
    return Remedy(path, "1", "2", size, chance(hits, 20), kind)


SPREAD, WORKERS = remedy("a.spread", 0.01, 14, "done"), remedy("a.workers", 0.25, 20, "done")
LIMIT, OUTAGE = remedy("a.limit", 0.1, 20, "sold"), remedy("a.outage", 0.4, 20, "cause")
ACTION, SELDOM = remedy("a.action", 1, 20, "cause"), remedy("a.every", 0.967, 20, "done")


@pytest.mark.parametrize(
    ("changes", "named", "smallest"),
    [
        ((OUTAGE,), "a.outage 1 → 2, the smallest change in what set in at that moment; a run", ""),
        ((WORKERS, LIMIT), "in what is done; a run", "all, in what is bought or granted, is a.limit 1 → 2"),
        (
            (WORKERS, SPREAD),
            "in what is done that holds in nearly all other worlds; a run",
            "all is a.spread 1 → 2, which holds in 70 % of those tried",
        ),
        ((ACTION, SELDOM), "a.action 1 → 2, the smallest change in what set in", ""),
        ((SPREAD,), "That is not sure: no change that was found holds in nearly all", ""),
    ],
)
def test_it_is_told_why_a_change_is_named(changes: tuple[Remedy, ...], named: str, smallest: str) -> None:
    first, moment = Happening(1, "refused"), TurningPoint(0, "as the run starts", ())
    why = Why("refusals.total", "", 0, 1, 0, first, moment, (), chance(10, 10), changes, 1)
    assert named in why.sentence
    assert smallest in why.sentence
    assert ("The smallest of all" in why.sentence) == bool(smallest)


def unnamed(unchanged: Unchanged) -> str:
    first, moment = Happening(1, "refused"), TurningPoint(0, "as the run starts", ())
    return Why("refusals.total", "", 0, 1, 0, first, moment, (), chance(1, 20), (), 1, unchanged).sentence


def test_it_is_told_why_no_change_is_named() -> None:
    seldom = unnamed(Unchanged(2, 40, 3, 48))
    assert "3 changes would have prevented it in this run, but none is shown to prevent it in other" in seldom
    worlds = "worlds in which changes were tried"
    assert seldom.endswith(f"happens in 2 of the 40 {worlds}, which is too seldom to tell; 48 futures may.")
    assert unnamed(Unchanged(20, 20, 1)).endswith(f"it happens in 20 of the 20 {worlds}.")
    assert unnamed(Unchanged(9, 20, 0)).endswith("No change of one parameter that was tried prevents it.")


@pytest.mark.slow
def test_where_nothing_helps_it_is_told_what_was_tried_and_what_that_leaves() -> None:
    """An event is lost in each of three outages, of which any one may be left out."""
    outages = "{from: 1h, for: 24h}, {from: 50h, for: 16h}, {from: 74h, for: 16h}"
    nightly = "{kind: schedule, account: acme, job: crawl, every: day, at: '02:00'}"
    scenario = Scenario.parse(f"""{HEAD}
length: 5d
accounts: {{acme: {{plan: pro, portfolio: {{domains: 1}}}}}}
clients: {{a: {nightly}, b: {{kind: schedule, account: acme, job: crawl, every: day, at: "03:00"}}}}
pools: {{crawl: {{capacity: unlimited, duration: 10m}}}}
receivers: {{erp: {{account: acme, outages: [{outages}]}}}}
""")
    answer = why(scenario, [1], "endpoints.erp.lost")
    assert (answer.changes, len(answer.failed)) == ((), 30)
    assert (
        "No change of one parameter that was tried prevents it: 30 changes tried, each as far as it goes: "
        "scenario.receivers.erp.outages[0].for 1d → 1us leaves 2; "
    ) in answer.sentence
    assert answer.sentence.endswith("; and 26 more.")
    assert answer.fields()["failed"][0]["value"] == 2
    assert any("do: edit_endpoint" in change.text for change in answer.failed)


LONG_WAITS = f"""{HEAD}
length: 2h
policy: {{catalogue: illustrative}}
accounts: {{acme: {{plan: agency, portfolio: {{domains: 1, keywords: 3}}}}}}
clients:
  ci:
    kind: caller
    account: acme
    every: 4m
    arrivals: poisson
    mix: {{jobs.create: {{body: {{kind: ai_scan}}}}}}
pools: {{ai_scan: {{capacity: 3, duration: {{exponential: {{mean: 5m}}}}}}}}
"""


@pytest.mark.slow
def test_a_change_that_does_no_more_than_none_is_not_named() -> None:
    """One world in a hundred: any change would seem to prevent it in nearly all others."""
    why = run(Scenario.parse(LONG_WAITS), seed=3, replications=150).why("jobs.ai_scan.wait.max > 14m")
    assert why.unchanged is not None
    assert why.unchanged.left_out > 0
    assert why.changes == ()
    assert "No change of one parameter is named" in why.sentence


# What is asked


@pytest.mark.parametrize(
    ("asked", "value", "words"),
    [
        ("jobs.rank_run.wait.max > 10m", 669_000_000, "a rank_run job waits more than 10m (11m9s)"),
        ("jobs.rank_run.wait.max", 9_000_000, "a rank_run job waits (9s)"),
        ("jobs.ai_scan.wait.max", 9_000_000, "an ai_scan job waits (9s)"),
        ("endpoints.four.lost", 4, "receiver four loses 4 events"),
        ("endpoints.four.delay.max > 1h", 7_200_000_000, "endpoints.four.delay.max is more than 1h (2h)"),
        ("jobs.crawl.failed", 2, "jobs.crawl.failed is not 0 (2)"),
    ],
)
def test_what_was_asked_is_told_with_its_value(asked: str, value: float, words: str) -> None:
    assert Question.parse(asked).describe(value) == words


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("refusals.slot_limit_exceded", "did you mean 'refusals.slot_limit_exceeded'"),
        ("slots.acme.used", "it may fall again"),
        ("jobs.rank_run.wait.p95 > 5m", "it may fall again"),
        ("jobs.rank_run.wait.max > 5", "expected a duration such as '5m' behind >, found '5'"),
        ("refusals.total < 5", "expected METRIC or METRIC > VALUE"),
        ("refusals.total == 5", "expected METRIC or METRIC > VALUE"),
        (
            "jobs.crawl.wait.within.10m < 95%",
            "ask for the first that waits longer, jobs.crawl.wait.max > 10m",
        ),
    ],
)
def test_what_cannot_be_asked(text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence.replace("(", r"\(")):
        Question.parse(text)


@pytest.mark.parametrize(
    ("expected", "question"),
    [("refusals.total == 0", "refusals.total"), ("jobs.crawl.wait.max <= 10m", "jobs.crawl.wait.max > 10m")],
)
def test_of_an_expectation_it_is_asked_why_it_fails(expected: str, question: str) -> None:
    assert Question.parse(expected) == Question.parse(question)
    assert Question.parse(Expectation.model_validate(expected)) == Question.parse(question)
    result = run(Scenario.parse(DOWN).replace(expect=[expected]))
    assert Question.parse(result.expectations[0]) == Question.parse(question)


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        ("refusals.total < 5", "why 'refusals.total < 5': expected METRIC or METRIC > VALUE"),
        ("refusals.total >= 5", "why 'refusals.total >= 5': expected METRIC or METRIC > VALUE"),
        (
            "jobs.crawl.wait.within.10m >= 0.95",
            "ask for the first that waits longer, jobs.crawl.wait.max > 10m",
        ),
    ],
)
def test_an_expectation_is_refused_as_its_text_is(expected: str, sentence: str) -> None:
    for asked in (expected, Expectation.model_validate(expected)):
        with pytest.raises(BadInput, match=sentence):
            Question.parse(asked)


def test_a_result_is_asked_why_its_expectation_fails_in_few_worlds() -> None:
    result = run(Scenario.parse(DOWN).replace(expect=["endpoints.erp.lost <= 15"]))
    answer = result.why(result.expectations[0], max_worlds=1)
    assert answer.question == "endpoints.erp.lost > 15"
    assert answer.worlds < 40
    assert answer.untried


def test_what_did_not_happen_has_no_reason() -> None:
    scenario = Scenario.parse(RANDOM).replace(length="6h")
    with pytest.raises(BadInput, match="it did not happen in 1 replication"):
        run(scenario).why("refusals.slot_limit_exceeded")


def test_a_bound_is_read_in_its_unit() -> None:
    assert Question.parse("jobs.crawl.wait.max > 2h") == Question("jobs.crawl.wait.max", 2 * HOUR)
    assert str(Question.parse("jobs.crawl.wait.max > 2h")) == "jobs.crawl.wait.max > 2h"


def test_what_is_done_daily_may_be_done_every_few_days() -> None:
    scenario = Scenario.parse(DOWN)
    (every,) = [one for one in knobs(scenario) if study_path(one.path).endswith("runs.every")]
    assert (every.write(every.old), every.count) == ("day", 29)
    assert [(every.write(every.value(i)), round(every.size(i), 3)) for i in (1, 29)] == [
        ("2d", 0.5),
        ("30d", 0.967),
    ]
    assert every.turned(scenario, 1).clients["runs"].every == 2 * DAY


@pytest.mark.parametrize(
    ("runs", "old", "furthest"),
    [
        ('every: day, at: "02:00"', "02:00", "14:00"),
        ("every: day", "00:00", "12:00"),
        ('every: week, at: "21:30:15"', "21:30:15", "23:59:15"),
        ("every: 6h", "", ""),  # acts as it starts
    ],
)
def test_where_events_may_be_lost_work_may_begin_later_in_the_day(runs: str, old: str, furthest: str) -> None:
    scenario = Scenario.parse(DOWN.replace('every: day, at: "01:00"', runs))
    ways = [one for one in knobs(scenario) if study_path(one.path) == "scenario.clients.runs.at"]
    texts = [(way.write(way.old), way.write(way.value(way.count))) for way in ways]
    assert texts == ([(old, furthest)] if old else [])
    for way in ways:
        way.turned(scenario, way.count).check()
    unheard = scenario.model_copy(update={"receivers": {}})
    assert not [one for one in knobs(unheard) if one.path[-1] == "at"]


@pytest.mark.slow
def test_a_later_run_would_not_have_met_the_outage() -> None:
    """Runs end at 02:01, and what is sent then is tried for the last time 8 h 36 min later."""
    text = DOWN.replace("01:00", "02:00").replace("from: 30m, for: 3h", "from: 1d1h, for: 10h")
    text = text.replace("domains: 5", "domains: 2") + "pools: {rank_run: {capacity: unlimited, duration: 1m}}"
    asked = why(Scenario.parse(text), [1], "endpoints.erp.lost", futures=10)
    (later,) = [change for change in asked.changes if change.path == "scenario.clients.runs.at"]
    assert (later.old, later.new, later.kind, later.holds) == ("02:00", "02:23", "done", True)


SLOW = f"""{HEAD}
length: 3d
accounts: {{acme: {{plan: pro, portfolio: {{domains: 2}}}}}}
clients: {{runs: {{kind: schedule, account: acme, job: rank_run, every: day, at: "01:00"}}}}
pools: {{rank_run: {{capacity: unlimited, duration: 1m}}}}
receivers: {{erp: {{account: acme}}}}
timeline:
  - {{at: 2d, do: set, path: scenario.receivers.erp.latency, value: 5s}}
  - {{at: 1d, do: set, path: scenario.receivers.erp.latency, value: 12s}}
  - {{at: 1d, do: set, path: policy.catalogue.plans.pro.cost_ceiling, value: 80 USD}}
  - {{at: 1d, do: set, path: policy.catalogue.plans.pro.slot_limit, value: 3000}}
  - {{at: 1d, do: set, path: scenario.pools.rank_run.duration, value: {{exponential: {{mean: 4m}}}}}}
"""


def test_what_is_set_may_be_set_less_far_from_what_was() -> None:
    scenario = Scenario.parse(SLOW)
    ways = {one.path[1]: one for one in knobs(scenario) if one.path[2:] == ("value",)}
    values = {index: (way.old, way.value(1), way.value(way.count)) for index, way in ways.items()}
    assert values == {
        0: ("5s", "5.01s", "12s"),  # the one before in time
        1: ("12s", "11.99s", "200ms"),
        2: ("80 USD", "80.01 USD", "90 USD"),
        3: (3000, 3001, 5000),
    }
    for way in ways.values():
        StudyWorlds(scenario).check_path(study_path(way.path))
        assert 0 < way.size(1) < way.size(way.count) < 1
        way.turned(scenario, 1).check()


@pytest.mark.slow
def test_how_far_a_value_may_be_set_is_told_with_the_action() -> None:
    """A delivery takes 10 s at most."""
    asked = why(Scenario.parse(SLOW), [1], "endpoints.erp.lost", futures=10)
    action = "the timeline's set of scenario.receivers.erp.latency at 2026-03-02T00:00:00Z: 12s → 10s"
    assert action in asked.sentence
    assert asked.changes[0].path == "scenario.timeline[1].value"
    assert asked.views()[1].rows[0][0] == action.partition(": 12s")[0]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("timeline", 0), "the timeline's withdraw_key (account: acme, key: main) at 2026-03-02T00:00:00Z"),
        (("timeline", 0, "at"), ""),
        (("timeline", 1), ""),
    ],
)
def test_an_action_that_is_left_out_is_told_in_words(path: Path, words: str) -> None:
    scenario = Scenario.parse(f"""{HEAD}
length: 2d
accounts: {{acme: {{plan: pro, keys: [main, other]}}}}
timeline: [{{at: 1d, do: withdraw_key, account: acme, key: main}}]
""")
    assert action_at(scenario, path) == words
    left_out = Remedy(study_path(path), "withdraw_key", LEFT_OUT, 1, chance(20, 20), "cause", action=words)
    assert left_out.sentence == f"{words or study_path(path)} left out"


def test_further_portfolios_may_be_smaller_too() -> None:
    scenario = Scenario.parse(f"""{HEAD}
length: 1d
accounts: {{acme: {{plan: pro, portfolio: {{keywords: 9}}, further: [{{domains: 3, keywords: 5}}]}}}}
""")
    places = {study_path(one.path): one for one in knobs(scenario) if "further" in one.path}
    assert list(places) == [
        "scenario.accounts.acme.further[0].keywords",
        "scenario.accounts.acme.further[0].domains",
    ]
    assert (
        places["scenario.accounts.acme.further[0].keywords"]
        .turned(scenario, 2)
        .accounts["acme"]
        .further[0]
        .keywords
        == 3
    )


BRIEFS = """
scenario: 1
start: 2026-03-01T00:00:00Z
length: 28d
accounts: {acme: {plan: starter, portfolio: {domains: 2}}}
clients:
  briefs: {kind: brief_refresher, account: acme, keywords: 30, batch: 10, weekday: friday}
"""


@pytest.mark.fact("S109")
def test_of_what_is_sold_the_cheaper_comes_first_and_a_limit_without_a_price_last() -> None:
    """Ten of 30 briefs a week fit on starter: asking less costs nothing, a pack 15 USD, pro 100 USD more."""
    answer = rs.run(Scenario.parse(BRIEFS), seed=1).why("refusals.quota_exhausted")
    ranked = [(change.path.rpartition(".")[2], change.money) for change in answer.changes]
    assert ranked == [("keywords", 0), ("brief_pack", 15_000_000), ("plan", 100_000_000), ("limit", None)]
    pack = answer.changes[1]
    assert pack.sentence == "scenario.accounts.acme.add_ons.brief_pack 0 → 1 (15.00 USD a month more)"
    assert answer.frame("changes")["monthly_usd"][1] == 15.0
