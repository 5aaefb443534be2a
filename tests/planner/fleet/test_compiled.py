"""Compiled and interpreted fleets decide alike, and a compiled one notices that a rule was edited."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from any_fleets import METERED, WORDS, policies, populations
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ranksim
from ranksim.core import draws
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules.windows import NAMES
from ranksim.planner.fleet import compiled, kernel, requests
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.rows import ACTIVITIES, OUTCOMES

SMALL = Population.parse("""
accounts: 3
start: 2026-03-01T00:00:00Z
length: 3d
segments: {some: {plans: team, usage: {read: 20, rank_run: 5, keywords: 2}}}
""")


@pytest.mark.slow
@pytest.mark.fact("S59", "U1")
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(populations(), policies(), WORDS)
def test_interpreted_and_compiled_decide_alike(
    same: Any, population: Population, policy: Policy, seed: int
) -> None:
    interpreted = simulate_fleet(population, policy, seed, compiled=False, log=5_000)
    same(interpreted, simulate_fleet(population, policy, seed, compiled=True, log=5_000))


BUSY = Population.parse("""
accounts: 8
start: 2026-03-12T00:00:00Z
length: 40d
churn: 0.3
segments:
  some:
    plans: {team: 1, studio: 1}
    past_due: 0.1
    portfolio: {domains: {uniform: {low: 1, high: 3}}, keywords: 150}
    usage:
      {read: 9, write: 3, rank_run: 9, crawl: 2, site_optimization: 2, ai_scan: 4,
       keyword_briefs: 9, keywords: 4, scans: 1, remove_keywords: 3}
    after_refusal: {rate_limited: {retry: 0.9}, cooldown_active: {retry: 0.9, wait: backoff, first: 1h}}
""")


@pytest.mark.fact("S51", "S59", "U1")
@pytest.mark.parametrize("window", NAMES)
def test_every_window_operation_and_outcome(same: Any, window: str) -> None:
    """One busy population meets all there is: the two engines agree, request by request."""
    policy = METERED.replace(
        facts={"rates": {"read": 2, "write": 1, "expensive": 2}, "rate_window": "20m"},
        assumptions={"window": window, "refused_calls_count": True},
        catalogue={"plans": {"studio": {"cost_ceiling": "9 USD"}}},
    )
    interpreted = simulate_fleet(BUSY, policy, 1, compiled=False, log=20_000)
    made = simulate_fleet(BUSY, policy, 1, compiled=True, log=20_000)
    same(interpreted, made)
    met = Counter((ACTIVITIES[entry["activity"]], OUTCOMES[entry["outcome"]]) for entry in made.log)
    assert {activity for activity, outcome in met if outcome == "granted"} == set(ACTIVITIES)
    assert {activity for activity, outcome in met if outcome == "rate_limited"} == set(ACTIVITIES)
    assert {outcome for _, outcome in met} == set(OUTCOMES)


# Draws


@given(WORDS, WORDS, st.integers(0, 2**40), st.sampled_from(draws.Purpose))
def test_the_kernel_draws_the_addressed_numbers(seed: int, entity: int, index: int, purpose: int) -> None:
    expected = draws.bits(seed, entity, index, purpose) >> 11
    assert requests.draw_number(requests.stream(seed, entity, purpose), index) == expected
    assert compiled_draw()(seed, entity, index, int(purpose)) == expected


@cache
def compiled_draw() -> Any:
    numba = pytest.importorskip("numba")
    compiled.compiled(kernel.run)
    stream, drawn = requests.stream, requests.draw_number

    @numba.njit
    def draw(seed: int, entity: int, index: int, purpose: int) -> int:
        return drawn(stream(seed, entity, purpose), index)

    return draw


# Without Numba

RULES = (
    *("core/rules/windows.py", "core/rules/admission.py", "core/rules/books.py"),
    *("core/clock.py", "planner/fleet/kernel.py"),
)


def test_without_numba_a_fleet_is_interpreted_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    result = simulate_fleet(SMALL, METERED)
    assert result.engine == "interpreted"
    assert "pip install -c constraints.txt '.[fleet]'" in result.notes[0]
    with pytest.raises(BadInput, match=r"need Numba, .*'\.\[fleet\]'"):
        simulate_fleet(SMALL, METERED, compiled=True)


def test_a_compiled_result_has_no_remark(same: Any) -> None:
    result = simulate_fleet(SMALL, METERED)
    assert (result.engine, result.notes) == ("compiled", ())
    same(result, simulate_fleet(SMALL, METERED, compiled=False))


# The cache

PROGRAM = """
from ranksim.planner.fleet.compiled import cache_directory
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.core.contract.policy import Policy
segment = {"plans": {"pro": {}}, "usage": {"read": 3000.0}}
population = Population(accounts=1, start=0, length=86_400_000_000, segments={"some": segment})
policy = Policy().replace(facts={"rates": {"read": 1}}, assumptions={"window": "clock"})
result = simulate_fleet(population, policy, compiled=True)
kept = len(list(cache_directory().rglob("*.nbi")))
print(result.scalars()["refusals.rate_limited"], cache_directory().name, kept)
"""


def run_copy(root: Path, cached: Path) -> list[str]:
    """Run PROGRAM in a process of its own, on the package that lies below `root`."""
    environment = os.environ | {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(cached)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.compiled
def test_an_edited_rule_is_seen_by_the_next_run(tmp_path: Path) -> None:
    """The pitfall: Numba's cache alone would go on with the old rule, which lies in another file."""
    root, cached = tmp_path / "copy", tmp_path / "cache"
    shutil.copytree(Path(ranksim.__file__).parent, root / "ranksim")
    before = run_copy(root, cached)
    assert run_copy(root, cached) == before, "the second run finds what the first compiled"
    rules = root / "ranksim" / "core" / "rules" / "windows.py"
    text = rules.read_text("utf-8")
    assert text.count("if w.count < w.limit:") == 1
    rules.write_text(text.replace("if w.count < w.limit:", "if w.count < 5 * w.limit:"), "utf-8")
    after = run_copy(root, cached)
    assert float(after[0]) < float(before[0]) / 2
    assert after[1] != before[1]
    rules.write_text(text, "utf-8")
    assert run_copy(root, cached) == before


def test_the_cache_is_named_after_all_that_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ranksim"
    shutil.copytree(Path(ranksim.__file__).parent, package)
    names = {compiled.source_digest(package)}
    assert names == {compiled.source_digest(Path(ranksim.__file__).parent)}
    for part in RULES:
        file = package / part
        file.write_text(file.read_text("utf-8") + "\n", "utf-8")
        names.add(compiled.source_digest(package))
    assert len(names) == 6
    (tmp_path / "file").write_text("", "utf-8")
    assert compiled.is_writable(tmp_path / "new" / "directory")
    assert not compiled.is_writable(tmp_path / "file" / "directory")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert compiled.cache_directory().parents[1] == tmp_path
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert compiled.cache_directory().parents[1] == tmp_path / "mine"
