"""Calibration: what is true is never excluded, what a run shows is pinned, and the policy reads back."""

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.kit.traces import START, a_trace, call
from typer.testing import CliRunner

from ranksim.bridges.rehearsal import Network, rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.cli import app
from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.service.service import Service
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.conformance.calibrate.calibrate import Calibration, assumption_numbers, calibrate
from ranksim.judge.conformance.calibrate.exclusions import reset_signs
from ranksim.judge.conformance.calibrate.job_lifetimes import fit_lognormal, job_durations, median_bounds
from ranksim.judge.conformance.calibrate.measures import phases
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.history.history import Offset
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.profiles import profile


def recorded(
    name: str, assumptions: Mapping[str, Any], statuses: Mapping[str, int] = {}
) -> tuple[Trace, Policy]:
    """A rehearsed run of a profile against a deployment with these options, and its policy."""
    policy = compact(Policy().replace(assumptions=assumptions, statuses=statuses))
    service, target = make_world(policy, seed=1)
    return rehearse(profile(name), service, target, seed=3, network=Network(loss=0.01)), policy


def excluded_truths(found: Calibration, policy: Policy) -> dict[str, Any]:
    """The choices whose true value is not among what is left."""
    return {
        choice.name: choice.against
        for choice in found.choices
        if choice.name and getattr(policy.assumptions, choice.name) not in choice.left
    }


VARIANTS: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("everyday", {}, {}),
    ("everyday", {"window": "sliding_log", "tracking_class": "expensive", "dry_run_class": "read"}, {}),
    ("everyday", {"reset_format": "epoch", "dry_run_reply": "live_error"}, {"created": 200}),
    ("ladder", {"cooldown_from": "finish", "month": "calendar"}, {"cooldown_active": 429}),
]


def test_a_notebook_shows_what_is_pinned() -> None:
    late = call("domains.list", 5, 5.1, status=429, code="rate_limited", headers={"Retry-After": "30"})
    found = calibrate(a_trace([*a_read_plan("seo"), late]))
    shown = found._repr_html_()
    pinned = [choice for choice in found.choices if choice.pinned]
    assert pinned
    assert f"{len(pinned)} of {len(found.choices)} choices pinned" in shown
    assert all((choice.name or choice.says) in shown for choice in pinned[:12])


@pytest.mark.slow
def test_without_time_options_stay_open_and_are_named() -> None:
    trace, policy = recorded("everyday", {"window": "sliding_log"})
    history = compare(trace).history
    cut, whole = calibrate(history, enough=lambda: True), calibrate(history)
    assert {"window", "join"} <= set(cut.untried)
    assert whole.untried == ()
    assert excluded_truths(cut, policy) == {}
    pinned = {choice.name for choice in whole.choices if choice.pinned}
    assert {choice.name for choice in cut.choices if choice.pinned} <= pinned
    assert "# Not tried with every option, for want of time: " in cut.dump()
    assert "for want of time" not in whole.dump()


@pytest.mark.slow
@pytest.mark.fact("U1", "U2", "U5", "U10", "U23", "U46", "U51", "U56", "U104")
@pytest.mark.parametrize(("name", "assumptions", "statuses"), VARIANTS, ids=str)
def test_what_is_true_is_never_excluded_and_what_shows_is_pinned(
    name: str, assumptions: dict[str, Any], statuses: dict[str, int]
) -> None:
    trace, policy = recorded(name, assumptions, statuses)
    found = calibrate(trace)
    assert excluded_truths(found, policy) == {}
    left = {choice.name: choice.left for choice in found.choices}
    for option, value in assumptions.items():
        if option not in ("month", "window"):
            assert left[option] == (value,)
    shown = {one.name: one.status for one in found.statuses}
    assert {case: shown[case] for case in statuses} == statuses
    read = Policy.parse(found.dump())
    assert read.assumptions == found.policy().assumptions
    assert read.statuses == found.policy().statuses
    assert {one.rule.name for one in compare(trace, read).deviating} == {
        one.rule.name for one in found.deviating
    }


@pytest.mark.slow
@pytest.mark.fact("U39", "U46")
def test_other_names_of_job_states_exclude_no_truth() -> None:
    trace, policy = recorded("calibration", {"failed_run_arms": True})
    names = {'"queued"': '"pending"', '"running"': '"in_progress"', '"failed"': '"error"'}

    def renamed(found: re.Match[str]) -> str:
        return names[found[0]]

    trace.exchanges = [
        exchange.model_copy(update={"response": re.sub("|".join(names), renamed, exchange.response)})
        for exchange in trace.exchanges
    ]
    found = calibrate(trace)
    assert excluded_truths(found, policy) == {}
    assert {choice.name: choice.left for choice in found.choices}["cooldown_from"] == ("acceptance",)


@pytest.mark.slow
@pytest.mark.fact("U58", "U60")
def test_names_of_capabilities_that_nobody_stated_exclude_no_truth() -> None:
    trace, policy = recorded("ladder", {})
    trace.exchanges = [
        exchange.model_copy(update={"response": exchange.response.replace('"keyword_briefs"', '"briefs"')})
        for exchange in trace.exchanges
    ]
    found = calibrate(trace)
    assert excluded_truths(found, policy) == {}


def check_the_calibration_profile(assumptions: dict[str, Any], pinned: set[str]) -> Calibration:
    trace, policy = recorded("calibration", assumptions)
    found = calibrate(trace)
    assert excluded_truths(found, policy) == {}
    assert pinned <= {choice.name for choice in found.choices if choice.pinned}
    return found


RATES = {"window", "refused_calls_count", "expensive_debits_write", "reset_format", "retry_after_format"}


@pytest.mark.slow
@pytest.mark.fact("U1", "U3", "U4", "U5", "U6", "U46", "U66")
def test_the_calibration_profile_pins_windows_cooldowns_and_the_count_of_failures() -> None:
    pinned = {
        *RATES,
        "cooldown_from",
        "cooldown_scope",
        "failed_run_arms",
        "failure_counted",
        "signature_time",
    }
    found = check_the_calibration_profile({}, pinned)
    full = compact().catalogue.plans["full"]
    for kind in ("crawl", "rank_run"):
        measures = [one for one in found.measures if one.name == f"cooldown {kind}"]
        assert any(one.low <= full.cooldown_of(kind) <= (one.high or 0) for one in measures)
    assert found.choice("").left == ("key",)
    assert found.measure("retry delay 1").low <= MINUTE + SECOND
    for kind in ("crawl", "ai_scan"):
        fit = found.measure(f"job duration {kind}").fit
        assert fit is not None
        true = compact().catalogue.duration_of(kind).durations[0]
        assert true / 2 < fit.durations[0] < 2 * true
    plan = found.policy().catalogue.plans["full"]
    assert (plan.slot_limit, plan.cooldowns["crawl"]) == (full.slot_limit, full.cooldowns["crawl"])


@pytest.mark.heavy
@pytest.mark.parametrize("window", ["clock", "sliding_log", "sliding_counter", "gcra"])
@pytest.mark.parametrize("refused", [False, True])
def test_the_calibration_profile_tells_the_algorithms_apart(window: str, refused: bool) -> None:
    found = check_the_calibration_profile({"window": window, "refused_calls_count": refused}, {"window"})
    assert found.choice("window").left == (window,)
    assert refused in found.choice("refused_calls_count").left


@pytest.mark.heavy
@pytest.mark.parametrize(
    "assumptions",
    [
        {"cooldown_scope": "account"},
        {"cooldown_from": "finish", "failed_run_arms": True},
        {"cooldown_after_failure": "clear"},
        {"failure_counted": "event", "retry_jitter_percent": 10},
        {"expensive_debits_write": True, "retry_from": "first_attempt"},
    ],
    ids=str,
)
def test_the_calibration_profile_never_excludes_the_truth(assumptions: dict[str, Any]) -> None:
    check_the_calibration_profile(assumptions, set())


@pytest.mark.slow
def test_what_a_policy_states_is_not_asked() -> None:
    trace, _ = recorded("scope", {})
    found = calibrate(trace, Policy.parse("assumptions: {reset_format: delta, month: calendar}"))
    assert {"reset_format", "month"}.isdisjoint(choice.name for choice in found.choices)
    assert "month: calendar" in found.dump()


def a_read_plan(*capabilities: str, start: float = 0) -> list[Exchange]:
    """What a key reads of an account whose plan grants an AI scan between, whatever it lists."""
    entitled, metered = {"capabilities": list(capabilities)}, {"metrics": [], "cost": {}}
    job = {"id": "job_1", "kind": "ai_scan", "domain_id": "d1", "status": "queued", "error_detail": None}
    return [
        call("account.get", start, start + 0.1, {"id": "alpha", "plan": "gold", "status": "active"}),
        call("account.usage", start + 1, start + 1.1, metered),
        call("account.entitlements", start + 2, start + 2.1, entitled),
        call(
            "jobs.create",
            start + 3,
            start + 3.1,
            job,
            status=202,
            body={"kind": "ai_scan", "domain_id": "d1"},
        ),
        call("account.entitlements", start + 4, start + 4.1, entitled),
    ]


@pytest.mark.fact("U60")
def test_a_plan_that_was_read_says_nothing_of_what_needs_which_capability() -> None:
    trace = a_trace(a_read_plan("rank_tracking"))
    found = calibrate(trace)
    written = Policy.parse(found.dump())
    assert written.catalogue.plans["gold"].capabilities == ("rank_tracking",)
    assert "capability_of" not in found.dump()
    for policy in (written, found.policy()):
        assert compare(trace, policy).deviating == found.deviating
    service = Service(written, seed=1)
    assert service.open_account("alpha", "gold", START)


@pytest.mark.fact("U60")
def test_a_catalogue_of_which_nothing_was_learnt_is_not_stated() -> None:
    trace = a_trace(a_read_plan("seo", "ai"))  # names that the rules do not know
    found = calibrate(trace)
    assert "catalogue" not in YAML(typ="safe", pure=True).load(found.dump())
    assert "catalogue" not in found.policy().model_fields_set
    assert Policy.parse(found.dump()) == found.policy()


@pytest.mark.fact("U60")
def test_a_catalogue_that_was_given_is_stated() -> None:
    given = Policy.parse("catalogue: illustrative")
    trace = a_trace(a_read_plan("rank_tracking"))
    assert "capability_of" in calibrate(trace, given).dump()
    assert "catalogue: illustrative\n" in calibrate(a_trace(a_read_plan("seo", "ai")), given).dump()


@pytest.mark.slow
def test_what_is_open_is_not_stated_beside_what_is_pinned() -> None:
    trace, _ = recorded("scope", {})
    found = calibrate(trace, Policy.parse("assumptions: {month: calendar}"))
    stated = found.policy().assumptions.model_fields_set
    assert stated == set(YAML(typ="safe", pure=True).load(found.dump())["assumptions"])
    assert {choice.name for choice in found.choices if not choice.pinned}.isdisjoint(stated)


@pytest.mark.slow
def test_no_comment_of_the_file_ends_in_a_blank() -> None:
    trace, _ = recorded("scope", {})
    dumped = calibrate(trace).dump()
    assert "\n#\n# Measured:\n" in dumped
    assert [line for line in dumped.splitlines() if line != line.rstrip()] == []


# Windows


@pytest.mark.fact("U1")
@pytest.mark.parametrize("ahead", [0, 7 * SECOND])
def test_the_phase_of_clock_windows(limiters: ModuleType, ahead: int) -> None:
    """Windows stand at whole minutes of the deployment's clock, which is `ahead` of the trace's."""
    network = limiters.Network(random.Random(1))
    calls = network.burst(RateClass.EXPENSIVE, cycles=4)
    history = limiters.history(limiters.Limiter("clock"), calls)
    for seen in history.seen:
        seen.sent, seen.received = seen.sent - ahead, seen.received - ahead
    history.run.offset = Offset(ahead - 1000, ahead + 1000, 1)
    [found] = phases(history, Options.of(None), ("clock",))
    assert found.high is not None
    assert found.low <= 0 <= found.high or found.low <= MINUTE <= found.high
    assert found.high - found.low < 3 * SECOND
    assert list(phases(history, Options.of(None), ("clock", "gcra"))) == []


@pytest.mark.fact("U88")
@pytest.mark.parametrize("full", [False, True])
def test_what_reset_points_at_in_a_sliding_log(limiters: ModuleType, full: bool) -> None:
    calls = limiters.Network(random.Random(2)).steady(RateClass.EXPENSIVE, 0.9)
    history = limiters.history(limiters.Limiter("sliding_log", full_reset=full), calls)
    found = {value for _, value, _ in reset_signs(history, Options.of(None), ("sliding_log",))}
    assert found == {"algorithm" if full else "full"}


# Jobs


@pytest.mark.parametrize("poll", [1, SECOND])
def test_a_lognormal_is_found_again_behind_polls(poll: int) -> None:
    rng = random.Random(5)
    durations = [int(8 * SECOND * rng.lognormvariate(0, 0.4)) for _ in range(400)]
    spans = [(one // poll * poll, (one // poll + 1) * poll) for one in durations]
    fit = fit_lognormal(spans)
    assert fit.durations[0] == pytest.approx(8 * SECOND, rel=0.08)
    assert fit.sigma == pytest.approx(0.4, abs=0.05)
    low, high = median_bounds(spans)
    assert low <= 8 * SECOND <= high
    assert high - low < 2 * SECOND + poll


@pytest.mark.parametrize(("polled", "fits"), [((3, 4), True), ((4,), False)])
def test_durations_are_fitted_only_where_polls_tell_them(polled: tuple[int, ...], fits: bool) -> None:
    """Six jobs end 3 to 4 s after acceptance; where nobody looked before, they may have ended at once."""
    job = {"kind": "crawl", "domain_id": "d1", "error_detail": None, "finished_at": None}
    calls = []
    for number in range(6):
        begun, name = 10 * number, f"job_{number}"
        running, done = job | {"id": name, "status": "running"}, job | {"id": name, "status": "done"}
        calls.append(call("jobs.create", begun, begun + 0.1, running, status=202, body={"kind": "crawl"}))
        for second in polled:
            shown = running if second == 3 else done
            path = {"kind": "crawl", "id": name}
            calls.append(call("jobs.get", begun + second, begun + second + 0.1, shown, path=path))
    [(kind, low, high, count, fit)] = job_durations(read_history(a_trace(calls)))
    assert (kind, count, fit is not None) == ("crawl", 6, fits)
    assert low < 3.5 * SECOND < high


def test_the_numbers_of_a_field() -> None:
    assert assumption_numbers("U56, U89: a dry run that would be refused") == (56, 89)
    assert assumption_numbers(None) == ()


# The command line


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    trace, _ = recorded("scope", {})
    trace.write(tmp_path / "trace.jsonl")
    out = tmp_path / "policy.yaml"
    done = CliRunner().invoke(app, ["trace", "calibrate", str(tmp_path / "trace.jsonl"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "choices pinned" in done.output
    assert Policy.load(out).name == "calibrated"
    told = CliRunner().invoke(app, ["trace", "calibrate", str(tmp_path / "trace.jsonl"), "--json"])
    found = json.loads(told.stdout)
    assert {"choices", "statuses", "measures"} <= set(found["tables"])
    judged = CliRunner().invoke(app, ["compare", str(tmp_path / "trace.jsonl"), "--policy", str(out)])
    assert judged.exit_code == 0, judged.output


def test_the_command_refuses_what_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{\n")
    done = CliRunner().invoke(
        app, ["trace", "calibrate", str(tmp_path / "bad.jsonl"), "--out", str(tmp_path / "p.yaml")]
    )
    assert done.exit_code == 2
    assert "bad.jsonl:1" in done.stderr
    assert not (tmp_path / "p.yaml").exists()


@pytest.mark.slow
def test_parts_of_spending_may_judge_one_rule() -> None:
    """The checks look at dry runs, too: a part that knew its own rules alone would stop a calibration."""
    trace = Path(__file__).parents[3] / "notebooks" / "data" / "everyday.jsonl.gz"
    found = calibrate(trace)
    assert "window" in {choice.name for choice in found.choices if choice.pinned}
    assert "dry_run.verdict" in {finding.rule.name for finding in compare(trace).findings}
