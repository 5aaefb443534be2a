"""A second deployment, written from the specification alone, loaded for real and judged.

`deployment.py` beside this file is one plain program that shares nothing with ranksim and decides otherwise
wherever the specification lets it. It runs as a process, `ranksim check load` drives it over sockets in real
time, and `compare` must find nothing in what it recorded, decide a stated number of rules, and see what a
switch of the program breaks on purpose.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.judge.conformance.elsewhere.sockets import ran, served

from ranksim.core.contract.policy import Policy
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.compare import Judgement, compare
from ranksim.judge.conformance.verdict.verdicts import Verdict

pytestmark = pytest.mark.heavy

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


def loaded(target: Path, profile: str, length: str = "20s") -> Path:
    """Run `ranksim check load`, and give the trace that it wrote."""
    return ran("check load", target, "--profile", profile, "--duration", length, "--seed", "7", out=profile)


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
