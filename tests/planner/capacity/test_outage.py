"""Outages of receivers: the table of simultaneous events, cases by hand, and simulated worlds beside them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim import cli
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.planner.capacity.outage import (
    Outage,
    OutageCost,
    attempts_of,
    disabled_after,
    outage_cost,
)
from ranksim.planner.capacity.outage_world import scenario_outage, simulate_outage
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario

RARE = 1000 * DAY


@pytest.mark.fact("E22", "S90", "S91")
@pytest.mark.parametrize(
    ("events", "minutes"),
    [(25, 0), (20, 0), (19, 1), (10, 1), (9, 6), (7, 6), (6, 36), (5, 36), (4, 156), (3, None), (1, None)],
)
def test_events_that_come_at_once(events: int, minutes: int | None) -> None:
    assert disabled_after(events) == (None if minutes is None else minutes * MINUTE)


@pytest.mark.fact("S90", "U67")
def test_the_schedule_of_attempts() -> None:
    down, late = attempts_of(Policy()), attempts_of(Policy(), "late")
    assert [t // MINUTE for t in down.sent] == [0, 1, 6, 36, 156, 516]
    assert down.failed == down.sent == down.counted
    assert [b - a for a, b in zip(down.sent, late.sent, strict=True)] == [n * 10 * SECOND for n in range(6)]


@pytest.mark.fact("U66")
def test_where_only_lost_events_count_it_takes_twenty_of_them() -> None:
    policy = Policy().replace(assumptions={"failure_counted": "event"})
    assert disabled_after(19, policy) is None
    assert disabled_after(20, policy) == 516 * MINUTE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "share"),
    [
        (6 * HOUR, 0),  # shorter than the schedule: only late
        (12 * HOUR, 204 / 720),  # came in the first 720 − 516 minutes
        (1032 * MINUTE, 0.5),
    ],
)
def test_a_single_event_is_lost_when_all_its_attempts_fall_into_the_outage(length: int, share: float) -> None:
    for outage in (Outage(length, RARE), Outage(length, length, law="regular")):
        found = outage_cost(outage).expected
        assert found.exhausted / found.events == pytest.approx(share, abs=1e-3)
        assert found.delayed / found.events == pytest.approx(1 - share, abs=1e-3)
        assert found.disabled == pytest.approx(0, abs=1e-9)


def test_twenty_at_once_disable_with_the_first_group() -> None:
    """One group of twenty in an hour's outage: all are cancelled, later ones suppressed."""
    found = outage_cost(Outage(HOUR, HOUR, together=20)).expected
    assert found.disabled == pytest.approx(1 - math.exp(-1))
    assert found.cancelled == pytest.approx(20 * (1 - math.exp(-1)), rel=1e-6)  # the first group, if any
    assert found.suppressed == pytest.approx(20 * math.exp(-1), rel=1e-6)
    assert found.delayed == pytest.approx(0, abs=1e-9)


def test_regular_events_by_hand() -> None:
    """Every 20 min for 80 min: four events, of which each phase but the latest reaches twenty failures never.

    Events at φ, φ+20, φ+40, φ+60 have had 4 attempts when 36 minutes old, 3 when 6, 2 when 1, 1 at once. At
    t = 80 − φ after the first: 4 + 4 + 4 + (3 or 2 or 1) < 20. So all come late.
    """
    found = outage_cost(Outage(80 * MINUTE, 20 * MINUTE, law="regular")).expected
    assert (found.events, found.delayed, found.disabled) == (4, 4, 0)


def test_nineteen_at_once_are_one_short() -> None:
    """In half a minute each is tried once: no group alone disables, and all come late."""
    found = outage_cost(Outage(30 * SECOND, RARE, together=19)).expected
    assert found.delayed == pytest.approx(found.events)
    assert found.disabled == pytest.approx(0, abs=1e-9)


def test_twenty_at_once_are_not_sent_again() -> None:
    """The first attempts of a group disable, so a late receiver acts on each event once."""
    found = outage_cost(Outage(HOUR, RARE, together=20, failure="late")).expected
    assert found.duplicates / found.events == pytest.approx(
        10 / 3600, abs=5e-4
    )  # came in the last ten seconds


@pytest.mark.fact("E27")
def test_regular_events_that_disable() -> None:
    """Every 5 min: failures by age are 1 (0 min), 2 (1 min), 3 (6 min), 4 (36 min).

    30 minutes after the first event there are seven, with 3 × 5 + 2 + 1 = 18 failures. A minute later the
    sixth has had its third and the seventh its second: 6 × 3 + 2 = 20. So each phase is disabled 31 min
    after its first event, and seven events are cancelled.
    """
    found = outage_cost(Outage(HOUR, 5 * MINUTE, law="regular")).expected
    assert found.disabled == 1
    assert found.cancelled == pytest.approx(7)
    assert found.suppressed == pytest.approx(5)


@pytest.mark.fact("E24")
def test_a_late_receiver_does_each_event_again_with_each_attempt() -> None:
    """A rare event in three hours of late answers: up to five attempts fall in, and one comes after.

    Attempts are sent 0, 1:10, 6:20, 36:30, 156:40 after the event; each that falls into the outage is acted
    on, and so is the first after it, so the average is the sum of what is left of the outage after each.
    """
    found = outage_cost(Outage(3 * HOUR, RARE, failure="late")).expected
    left = [180 * 60 - seconds for seconds in (70, 380, 2190, 9400)]
    assert found.duplicates / found.events == pytest.approx(1 + sum(left) / (180 * 60), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "outage",
    [
        Outage(3 * HOUR, 45 * MINUTE),
        Outage(12 * HOUR, 5 * HOUR),
        Outage(HOUR, 10 * MINUTE, failure="late"),
        Outage(3 * HOUR, 2 * HOUR, together=4),
        Outage(3 * HOUR, 30 * MINUTE, law="regular"),
        Outage(4 * HOUR, 3 * HOUR, together=4, law="regular"),
        Outage(2 * HOUR, 35 * MINUTE, law="regular", failure="late"),
    ],
    ids=lambda o: f"{o.law}-{o.failure}-{o.length // HOUR}h-{o.together}",
)
def test_simulated_worlds_agree(outage: Outage) -> None:
    answer = simulate_outage(outage, replications=150, seed=11)
    for row in answer.rows():
        spread = row["simulated_high"] - row["simulated_low"]
        assert abs(row["simulated"] - row["expected"]) <= 0.8 * spread + 1e-6, row  # 1.6 half widths
    total = answer.expected
    parts = total.delayed + total.exhausted + total.cancelled + total.suppressed
    assert parts == pytest.approx(total.events)


@pytest.mark.slow
def test_what_no_simulated_outage_showed_is_not_excluded() -> None:
    answer = simulate_outage(Outage(3 * HOUR, 20 * MINUTE, together=2), replications=60)
    (late,) = (row for row in answer.rows() if row["name"] == "delayed")
    assert late["simulated"] == 0
    assert late["simulated_low"] <= late["expected"] <= late["simulated_high"]


def test_the_curve_ends_at_the_chance_of_being_disabled() -> None:
    for law in ("poisson", "regular"):
        answer: OutageCost = outage_cost(Outage(3 * HOUR, 25 * MINUTE, law=law))
        chances = [chance for _, chance in answer.curve]
        assert chances == sorted(chances)
        assert chances[0] == 0
        assert chances[-1] == pytest.approx(answer.expected.disabled)


@pytest.mark.parametrize(
    ("outage", "assumptions", "message"),
    [
        ({"length": 0}, {}, "length: expected a duration above 0, found 0"),
        ({"every": 0}, {}, "every: expected a duration above 0, found 0"),
        ({"every": 1, "law": "regular"}, {}, "every: expected 360ms or more with law regular, found 1µs"),
        ({"together": 0}, {}, "together: expected 1 or more, found 0"),
        ({}, {"retry_jitter_percent": 10}, "retry_jitter_percent: expected 0, found 10"),
        ({}, {"on_disable": "pause"}, "on_disable: expected cancel, found pause"),
    ],
)
def test_bad_input(outage: dict[str, Any], assumptions: dict[str, Any], message: str) -> None:
    policy = Policy().replace(assumptions=assumptions)
    with pytest.raises(BadInput, match=message):
        outage_cost(Outage(**{"length": HOUR, "every": HOUR} | outage), policy)


def test_it_draws_what_is_computed_and_what_was_seen() -> None:
    ax = simulate_outage(Outage(3 * HOUR, 45 * MINUTE), replications=5).plot()
    assert {text.get_text() for text in ax.texts} == {"computed", "simulated"}
    assert ax.get_xlabel() == "hours since the outage began"


def test_what_hardly_ever_happens_is_none() -> None:
    told = outage_cost(Outage(3 * HOUR, 2 * MINUTE))
    assert 0 < told.expected.delayed < 1e-6
    assert "are lost and 0 come late" in told.sentence
    assert dict(row[:2] for row in told.views()[0].rows)["delivered late"] == "0"


# Of a scenario


def of_groups(*groups: int, clients: str, length: str = "30d", more: str = "") -> Scenario:
    """An account with groups of so many domains, whose rank runs take no time."""
    spelled = [
        f"{{domains: [{', '.join(f'd{one}.g{number}.example' for one in range(domains))}], keywords: 10}}"
        for number, domains in enumerate(groups)
    ]
    return Scenario.parse(f"""
name: groups
start: 2026-03-01T00:00:00Z
length: {length}
accounts: {{us: {{plan: agency, portfolio: {spelled[0]}, further: [{", ".join(spelled[1:])}]}}}}
clients: {clients}
pools: {{rank_run: {{capacity: unlimited, duration: 0s, failure_rate: 0}}}}
{more}
""")


BOTH = """
  daily: {kind: schedule, account: us, job: rank_run, every: day, at: "01:00"}
  often: {kind: schedule, account: us, job: rank_run, every: 2h, at: "00:30", domains: 3}
"""


def test_events_of_a_scenario_are_those_of_all_its_schedules() -> None:
    """Fifteen domains a day, of which three every two hours: not those of the busiest alone."""
    scenario = of_groups(3, 12, clients="{" + ", ".join(BOTH.strip().splitlines()) + "}")
    answer = scenario_outage(scenario, HOUR)
    # Three of the daily runs meet the cooldown of the run half an hour before.
    assert answer.expected.events == pytest.approx((12 + 3 * 12) / 24, abs=0.01)


NIGHTS = 'nightly: {kind: schedule, account: us, job: rank_run, every: day, at: "01:00", spread: 11m}'


def test_an_outage_at_a_moment_is_told_as_it_comes() -> None:
    scenario = of_groups(30, clients="{" + NIGHTS + "}")
    night = scenario_outage(scenario, "3h", at="1d30m")
    assert (night.expected.events, night.lost, night.expected.disabled) == (30, 30, 1)
    said = "the endpoint is disabled 33m56s after it begins, at 2026-03-02T01:03:56Z."
    assert night.sentence == f"Of 30 events in 3h, 30 are lost and 0 come late; {said}"
    day = scenario_outage(scenario, "3h", at="1d12h")
    assert (day.expected.events, day.lost, day.expected.disabled) == (0, 0, 0)
    any_moment = scenario_outage(scenario, "3h")
    assert any_moment.extremes is not None
    assert any_moment.extremes.most_lost == 30
    assert any_moment.extremes.quiet == pytest.approx(1 - (3 * 60 + 11 * 29 / 30) / 1440, abs=1e-3)
    assert (
        "means over all moments at which it may begin. At 86.8 % of these no event comes"
        in any_moment.sentence
    )
    assert any_moment.notes[0].startswith(
        "Events are the ends of all jobs of account us, as scenario groups has"
    )
    assert "until somebody enables it nothing is sent" in any_moment.notes[1]
    assert any_moment.views()[0].headings == ("what", "expected")


def test_an_outage_at_a_moment_is_that_of_the_run() -> None:
    """The same outage in the world, which goes on to the end of the retries."""
    outage = "receivers: {erp: {account: us, latency: 0, outages: [{from: 1d30m, for: 45m}]}}"
    scenario = of_groups(30, clients="{" + NIGHTS + "}", length="2d", more=outage)
    answer = scenario_outage(scenario, 45 * MINUTE, at="1d30m")
    counted = run(scenario)
    for name, metric in (("cancelled", "lost_cancelled"), ("suppressed", "lost_suppressed")):
        assert getattr(answer.expected, name) == counted.metric(f"endpoints.erp.{metric}").mean
    disabled_at = counted.metric("endpoints.erp.disabled_at").mean
    assert disabled_at is not None
    since = disabled_at - scenario.start - DAY - 30 * MINUTE
    assert answer.disabled_at == since
    assert "the endpoint is disabled 33m56s after it begins, at 2026-03-02T01:03:56Z" in answer.sentence
    steps = 45 * MINUTE / 100
    assert [chance for t, chance in answer.curve if abs(t - since) > steps] == [
        float(t > since) for t, _ in answer.curve if abs(t - since) > steps
    ]


def test_events_are_those_of_its_own_jobs_where_it_has_any() -> None:
    """Crawls alone come to three events; without a client, ranks are run daily, as the notes then say."""
    crawls = "{crawls: {kind: schedule, account: us, job: crawl, every: day, at: '01:00'}}"
    own = scenario_outage(of_groups(3, clients=crawls), "1d", at="1d")
    assert own.expected.events == 3
    assert not any("No client of the scenario runs ranks" in note for note in own.notes)
    assumed = scenario_outage(of_groups(3, clients="{}"), "1d", at="1d")
    assert any("No client of the scenario runs ranks" in note for note in assumed.notes)


def test_moments_are_those_of_the_scenario() -> None:
    scenario = of_groups(1, clients="{" + NIGHTS + "}")
    with pytest.raises(
        BadInput, match=r"at: expected a moment from 2026-03-01T00:00:00Z until before 2026-03-31"
    ):
        scenario_outage(scenario, HOUR, at="30d")


LATER = """\
receivers: {erp: {account: us}}
timeline:
  - {do: set, at: 15d, path: policy.facts.webhook_disable_after, value: 40}
  - {do: set, at: 20d, path: scenario.receivers.erp.latency, value: 1h}
  - {do: receiver_down, at: 21d, receiver: erp}
"""
DISABLES = "failed attempts in a row, of any events, disable an endpoint (S91)."


def test_what_a_timeline_sets_of_deliveries_holds_for_outages_that_begin_then() -> None:
    scenario = of_groups(30, clients="{" + NIGHTS + "}", more=LATER)
    before, after = (scenario_outage(scenario, "3h", at=at) for at in ("14d30m", "15d30m"))
    assert (before.disabled_at, before.rule) == (33 * MINUTE + 56 * SECOND, f"20 {DISABLES}")
    assert after.rule == f"40 {DISABLES}"
    assert after.disabled_at is not None
    assert after.disabled_at > before.disabled_at
    stated = of_groups(30, clients="{" + NIGHTS + "}")
    stated = stated.replace(policy=Policy().changed({"policy.facts.webhook_disable_after": 40}))
    assert after.expected == scenario_outage(stated, "3h", at="15d30m").expected
    any_moment = scenario_outage(scenario, "3h")
    assert any_moment.rule == f"20 {DISABLES} From 2026-03-16T00:00:00Z on: 40 {DISABLES}"
    for answer in (before, after, any_moment):
        assert answer.notes[-2:] == (
            "The timeline sets policy.facts.webhook_disable_after at 2026-03-16T00:00:00Z: that holds for "
            "outages that begin then or later, and one under way goes on as it began.",
            "Receivers are taken to be healthy before and after the outage: left out is what the timeline "
            "does to them (1 × set scenario.receivers.erp.latency, 1 × receiver_down). `ranksim run` "
            "simulates it.",
        )


def test_an_outage_that_begins_when_a_disabled_endpoint_is_paused_is_refused() -> None:
    paused = "{do: set, at: 15d, path: policy.assumptions.on_disable, value: pause}"
    scenario = of_groups(3, clients="{" + NIGHTS + "}", more=f"timeline: [{paused}]")
    assert scenario_outage(scenario, "3h", at="14d").rule == f"20 {DISABLES}"
    with pytest.raises(
        BadInput, match="on_disable: expected cancel, found pause, as of 2026-03-16T00:00:00Z"
    ):
        scenario_outage(scenario, "3h")


@pytest.mark.parametrize(
    "words",
    [
        "outage --length 3h --every 45m --replications 0",
        "sync",
        "slots --adds 1",
        "workers --jobs crawl=40 --over 1h --replications 0",
    ],
)
def test_what_is_about_the_time_before_a_timeline_sets_something_says_so(words: str, tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(
        "start: 2026-03-01T00:00:00Z\nlength: 30d\n"
        "accounts: {us: {plan: pro, portfolio: {domains: 1, keywords: 10}}}\n"
        "timeline: [{do: set, at: 15d, path: policy.facts.webhook_disable_after, value: 40}]\n"
    )
    answered = CliRunner().invoke(cli.app, ["capacity", *words.split(), "--scenario", str(file)])
    assert answered.exit_code == 0, answered.output
    sets = "The timeline sets policy.facts.webhook_disable_after: this is about what holds before."
    assert sets in " ".join(answered.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--at 2d --every 1h", "--at: only a scenario has moments"),
        ("--scenario {file} --law regular", "a scenario says when its events come"),
        ("--scenario {file} --at soon", "at: write a time since the start such as 2d"),
    ],
)
def test_flags_that_do_not_go_together(words: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(
        "start: 2026-03-01T00:00:00Z\nlength: 1d\naccounts: {us: {plan: pro, portfolio: {domains: 1}}}\n"
    )
    told = CliRunner().invoke(
        cli.app, ["capacity", "outage", "--length", "3h", *words.format(file=file).split()]
    )
    assert told.exit_code == 2
    assert message in " ".join(told.output.split())


def test_one_event_is_told_in_the_singular() -> None:
    sentence = outage_cost(Outage(48 * MINUTE, 48 * MINUTE)).sentence
    assert re.match(r"Of 1 event in 48m, [\d.]+ are lost and 1 comes late; ", sentence)


def test_the_rule_that_disables_is_named() -> None:
    outage = Outage(HOUR, every=5 * MINUTE)
    rule = "20 failed attempts in a row, of any events, disable an endpoint (S91)."
    assert rule in outage_cost(outage).notes
    assert rule in scenario_outage("scenarios/agency-month.yaml", "3h", at="2d1h").notes
    policy = Policy().replace(assumptions={"failure_counted": "event"})
    assert outage_cost(outage, policy).notes[-1] == (
        "20 events in a row all of whose attempts failed disable an endpoint (S91, U66)."
    )


@pytest.mark.parametrize("number", ["0", "5"])
def test_replications_of_a_scenario_are_refused_where_none_are_made(number: str) -> None:
    command = ["capacity", "outage", "--length", "3h", "--scenario", "scenarios/agency-month.yaml"]
    result = CliRunner().invoke(cli.app, [*command, "--replications", number])
    assert result.exit_code == 2
    assert "--replications: one run of a scenario is followed, through many outages" in result.stderr
