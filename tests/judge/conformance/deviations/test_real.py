"""Real runs: a facade on a socket, `ranksim check load` as a process, and `compare` on what it recorded.

The deviating facades have the same rules wrapped as in the rehearsals; one that conforms differs in nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deviating import TABLE, Deviation

from ranksim.bridges.rehearsal_worlds import compact
from ranksim.judge.conformance.compare import Judgement, compare
from ranksim.judge.conformance.verdict.verdicts import Verdict
from ranksim.testing import Server

pytestmark = pytest.mark.heavy

DEVIATING = {
    "limit-expensive-21": ("burst", "12s"),
    "mismatch-executed": ("retry", "40s"),
    "cursor-good-under-other-filters": ("walk", "40s"),
    "signed-over-re-serialised-bytes": ("webhooks", "20s"),
    "wrong-environment-accepted": ("scope", "12s"),
    "crawls-join-too": ("race", "70s"),
}
"""Deviation → the profile that exposes it, and for how long it runs."""

CONFORMING = {"everyday": "30s", "burst": "30s", "retry": "30s", "webhooks": "30s", "ladder": "30s"}


@contextmanager
def served(folder: Path) -> Iterator[Path]:
    """Serve a facade with compact limits; give the target file of its demo accounts."""
    with Server(clock="real", start=None, policy=compact(), plan="full", seed=5) as server:
        target = folder / "target.yaml"
        target.write_text(
            "exclusive: true\n"
            "environments:\n"
            f"  production: {server.base_url()}\n"
            f"  sandbox: {server.base_url('sandbox')}\n"
            "keys:\n"
            f"  main: {{token: {server.key}}}\n"
            f"  test: {{token: {server.sandbox_key}, environment: sandbox, purpose: other_environment}}\n",
            encoding="utf-8",
        )
        yield target


def loaded(target: Path, profile: str, length: str, *words: str) -> Path:
    """Run `ranksim check load`, and give the trace that it wrote."""
    out = target.parent / f"out-{profile}-{len(words)}"
    command = [
        sys.executable,
        "-m",
        "ranksim",
        "check",
        "load",
        "--target",
        str(target),
        "--profile",
        profile,
    ]
    command += ["--duration", length, "--seed", "3", "--out", str(out), *words]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RANKSIM_", "LOCUST_"))}
    done = subprocess.run(command, cwd=target.parent, env=kept, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "trace.jsonl"


@pytest.mark.parametrize("name", DEVIATING)
def test_a_deviating_facade_is_found(name: str, tmp_path: Path) -> None:
    deviation = next(one for one in TABLE if one.name == name)
    profile, length = DEVIATING[name]
    with deviation.applied(), served(tmp_path) as target:
        trace = loaded(target, profile, length)
    assert compare(trace, deviation.judged_by()).deviating, name


@pytest.mark.parametrize("profile", CONFORMING)
def test_a_conforming_facade_differs_in_nothing(profile: str, tmp_path: Path) -> None:
    with served(tmp_path) as target:
        trace = loaded(target, profile, CONFORMING[profile])
    judgement = compare(trace)
    assert not [(one.rule.name, one.evidence[0]) for one in judgement.deviating]
    exercised, _ = judgement.coverage
    _, decided = judgement.agreement
    assert exercised >= 30
    assert decided >= 0.8 * exercised


def decided(judgement: Judgement) -> dict[str, Verdict]:
    """Give the verdict on every rule that was decided."""
    return {
        one.rule.name: one.verdict
        for one in judgement.findings
        if one.verdict in (Verdict.CONFORMS, Verdict.DEVIATES)
    }


@pytest.mark.parametrize("name", ["none", "expensive-counted-as-write"])
def test_two_worker_processes_give_the_verdicts_of_one(name: str, tmp_path: Path) -> None:
    """A master with two workers and a single process agree on every rule that both decided."""
    deviation = next((one for one in TABLE if one.name == name), Deviation("none", (), ()))
    verdicts = []
    for words in ((), ("--processes", "2")):
        folder = tmp_path / f"with-{len(words)}"
        folder.mkdir()
        with deviation.applied(), served(folder) as target:
            trace = loaded(target, "everyday", "30s", *words)
        verdicts.append(decided(compare(trace)))
    alone, together = verdicts
    assert (Verdict.DEVIATES in alone.values()) == (name != "none")
    both = alone.keys() & together.keys()
    assert len(both) >= 40
    assert {name: alone[name] for name in both} == {name: together[name] for name in both}
