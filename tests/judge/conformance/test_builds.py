"""A build against its baseline: latency by operation, refusals and verdicts."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from tests.kit.traces import a_trace, call
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.conformance.compare import Judgement, compare
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.report.builds import BuildComparison, LatencyChange, compare_builds
from ranksim.judge.report.build_views import build_sentence, build_views

USUAL = {"domains.list": 0.05, "labels.list": 0.02, "jobs.list": 0.005}
"""Seconds that operations take."""


def recorded(seed: int, slower: float = 1.0, calls: int = 800, refused: int = 0) -> Trace:
    """A load whose latencies remember each other, of which every so-manieth call is refused."""
    draw, mood, now = random.Random(seed), 0.0, 0.0
    entries: list[Exchange] = []
    for number in range(calls):
        mood = 0.8 * mood + draw.gauss(0, 0.15)
        operation = draw.choice(list(USUAL))
        took = slower * USUAL[operation] * math.exp(mood + draw.gauss(0, 0.3))
        now += 0.3 + took
        limited = refused and number % refused == 0
        code, status = ("rate_limited", 429) if limited else ("", 200)
        entries.append(call(operation, now, now + took, [], code=code, status=status))
    return a_trace(entries)


def against(baseline: Trace, build: Trace) -> BuildComparison:
    return compare_builds(compare(baseline), compare(build))


def latencies(baseline: Trace, build: Trace) -> LatencyChange:
    """All operations together, without any verdict."""
    old, new = (Judgement((), (), {}, (read_history(trace),)) for trace in (baseline, build))
    return compare_builds(old, new).latencies[0]


@pytest.mark.slow
def test_a_build_that_is_a_fifth_slower_is_told_and_equal_ones_are_not() -> None:
    slow = [latencies(recorded(seed), recorded(100 + seed, 1.2)) for seed in range(10)]
    equal = [latencies(recorded(seed), recorded(200 + seed)) for seed in range(20)]
    assert sum(row.says == "slower" for row in slow) >= 9, [row.change for row in slow]
    assert sum(row.says in ("slower", "faster") for row in equal) <= 1, [row.change for row in equal]


def test_another_mix_of_operations_is_no_change_of_latency() -> None:
    """Calls of the slow operation are left out of the build: its mean falls, and nothing got faster."""
    baseline, other = recorded(1), recorded(2)
    kept = [seen for at, seen in enumerate(other.exchanges) if seen.path != "/v1/domains" or at % 4 == 0]
    row = latencies(baseline, a_trace(kept))
    assert row.says in ("alike", "open")
    assert row.p50 < row.p50_before * 0.8


def test_refusals_and_verdicts_that_changed_are_told() -> None:
    builds = against(recorded(1), recorded(2, refused=5))
    [refusal] = builds.refusals
    assert refusal.answer == "429 rate_limited"
    assert (refusal.before, refusal.share) == (0.0, 0.2)
    assert refusal.low is not None
    assert refusal.low > 0.1
    deviating = [change for change in builds.verdicts if change.verdict == "deviates"]
    assert deviating
    assert {change.before for change in deviating} <= {"conforms", "undecided", "not exercised"}


@pytest.mark.slow
def test_the_command_says_slower_last_and_fails(tmp_path: Path) -> None:
    for name, trace in (("old", recorded(3)), ("new", recorded(4, 1.5))):
        trace.write(tmp_path / f"{name}.jsonl")
    words = ["compare", str(tmp_path / "new.jsonl"), "--against", str(tmp_path / "old.jsonl")]
    ran = CliRunner().invoke(app, [*words, "--html", str(tmp_path / "page.html")])
    assert ran.exit_code == 1
    assert ran.output.splitlines()[-1].startswith("Slower than its baseline: +")
    assert "Against the baseline" in (tmp_path / "page.html").read_text("utf-8")
    plain = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["builds"]
    assert plain["latencies"][0]["says"] == "slower"
    assert [view.title for view in build_views(plain)] == ["Latency by operation, build against baseline"]
    assert build_sentence(plain).endswith("no rule deviates that did not, or did")


def test_builds_without_an_operation_in_common_are_not_compared() -> None:
    builds = against(a_trace([call("domains.list", 0, 1, [])]), a_trace([call("labels.list", 0, 1, [])]))
    assert builds.latencies == ()
    plain = {"latencies": [], "refusals": [], "verdicts": []}
    assert build_sentence(plain).startswith("No operation was answered in both builds")
