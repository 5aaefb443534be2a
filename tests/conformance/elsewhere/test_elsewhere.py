"""A second deployment, written from the specification alone, loaded for real and judged.

`deployment.py` beside this file is one plain program that shares nothing with ranksim and decides otherwise
wherever the specification lets it. It runs as a process, `ranksim load` drives it over sockets in real time,
and `compare` must find nothing in what it recorded, decide a stated number of rules, and see what a switch of
the program breaks on purpose.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ranksim.conformance.calibrate.calibrate import calibrate
from ranksim.conformance.compare import Judgement, compare
from ranksim.conformance.verdict.verdicts import Verdict
from ranksim.contract.policy import Policy

pytestmark = pytest.mark.heavy

PROGRAM = Path(__file__).with_name("deployment.py")
FASTER = 10
"""Rate windows of 6 s, so that 20 s of load see several."""

CONFORMING = {
    "everyday": (("--window", "clock"), 48),
    "ladder": (("--widening", "write"), 45),
    "retry": (("--window", "log"), 48),
    "walk": (("--widening", "write", "--window", "log"), 28),
    "webhooks": (("--scale", "60"), 50),
}
"""Profile → the choices of the deployment, and how many rules are decided at least."""

BROKEN = {
    "rate-more expensive": ("burst", "rate.expensive"),
    "twice keyword_briefs.create": ("retry", "idempotency.once"),
    "signed-other": ("webhooks", "webhook.signature"),
    "offset-paging": ("walk", "paging.once"),
}
"""What the program breaks → the profile that exposes it, and the rule that deviates."""


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Path]:
    """Run the program; give a target file of its addresses and keys."""
    command = [sys.executable, str(PROGRAM), "--traffic-scale", str(FASTER), *options]
    scale = options[options.index("--scale") + 1] if "--scale" in options else "1"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            about = json.loads(process.stdout.readline())
            keys, scope = about["keys"], about["scopes"]["scoped"]
            target = folder / "target.yaml"
            target.write_text(
                "exclusive: true\n"
                f"traffic_scale: {FASTER}\n"
                f"time_scale: {scale}\n"
                "environments:\n"
                f"  production: {about['url']}\n"
                f"  sandbox: {about['sandbox_url']}\n"
                "keys:\n"
                f"  main: {{token: {keys['main']}}}\n"
                f"  second: {{token: {keys['second']}, purpose: second}}\n"
                f"  scoped: {{token: {keys['scoped']}, purpose: scoped, domain_id: {scope}}}\n"
                f"  small: {{token: {keys['small']}, purpose: near_limit}}\n"
                f"  late: {{token: {keys['late']}, purpose: past_due}}\n"
                f"  test: {{token: {keys['test_main']}, environment: sandbox, purpose: other_environment}}\n",
                encoding="utf-8",
            )
            yield target
        finally:
            process.terminate()


def loaded(target: Path, profile: str, length: str = "20s") -> Path:
    """Run `ranksim load`, and give the trace that it wrote."""
    out = target.parent / profile
    command = [sys.executable, "-m", "ranksim", "load", "--target", str(target), "--profile", profile]
    command += ["--duration", length, "--seed", "7", "--out", str(out)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RANKSIM_", "LOCUST_"))}
    done = subprocess.run(command, cwd=target.parent, env=kept, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "trace.jsonl"


def broken(judgement: Judgement) -> list[tuple[str, str]]:
    return [(one.rule.name, one.evidence[0].says) for one in judgement.deviating]


@pytest.mark.parametrize("profile", CONFORMING)
def test_a_deployment_that_nobody_fitted_to_the_judge_differs_in_nothing(
    profile: str, tmp_path: Path
) -> None:
    options, least = CONFORMING[profile]
    with served(tmp_path, *options) as target:
        trace = loaded(target, profile)
    judgement = compare(trace)
    assert broken(judgement) == []
    assert judgement.agreement[1] >= least


@pytest.mark.parametrize("name", BROKEN)
def test_what_it_breaks_on_purpose_is_found(name: str, tmp_path: Path) -> None:
    profile, rule = BROKEN[name]
    with served(tmp_path, "--break", name) as target:
        trace = loaded(target, profile)
    assert compare(trace).finding(rule).verdict == Verdict.DEVIATES


CHOSEN = {
    "window": "clock",
    "tracking_class": "expensive",
    "expensive_debits_write": True,
    "reset_format": "epoch",
    "retry_after_format": "seconds",
    "dry_run_class": "same",
    "dry_run_reply": "live_error",
    "cooldown_scope": "domain",
    "cooldown_from": "acceptance",
    "failed_run_arms": True,
    "failure_counted": "attempt",
    "signature_time": "attempt",
}
"""What the program chose; a trace may leave other values beside it."""


def test_calibration_excludes_no_choice_that_it_made(tmp_path: Path) -> None:
    with served(tmp_path) as target:
        trace = loaded(target, "calibration", "40s")
    found = calibrate(trace)
    left = {choice.name: choice.left for choice in found.choices}
    assert {name: left[name] for name, value in CHOSEN.items() if value not in left[name]} == {}
    assert left["reset_format"] == ("epoch",)
    assert broken(compare(trace, Policy.parse(found.dump()))) == []
