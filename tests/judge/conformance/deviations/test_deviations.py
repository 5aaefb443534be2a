"""Deviations: each deployment of the table breaks one fact, and a judge must say so.

    python -m pytest tests/judge/conformance/deviations               # a few of them
    python -m pytest -m heavy tests/judge/conformance/deviations      # all, with and without lost replies

The heavy run writes `docs/conformance-mutants.md` anew and fails where it had said otherwise. What each
deviation came to is kept in `.cache/deviations/results.jsonl` under a digest of the sources: a run that was
interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from deviating import SIZES, TABLE, Deviation

from ranksim.judge.conformance.compare import Judgement, compare
from ranksim.judge.conformance.following import causes
from ranksim.judge.conformance.verdict.verdicts import Finding

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "conformance-mutants.md"
CACHE = Path(os.environ.get("RANKSIM_DEVIATIONS_CACHE", ROOT / ".cache" / "deviations"))

LOST = 0.02
SEEDS = (11, 12, 13, 14)
"""Seeds of the runs with lost replies."""

FEW = (
    "limit-write-121",
    "order-5-6-swapped",
    "quota-kept-after-refusal",
    "crawls-join-too",
    "idempotency-doubled-in-flight",
    "cursor-good-under-other-filters",
    "signed-over-re-serialised-bytes",
    "disabled-at-19",
    "wrong-environment-accepted",
    "error-without-remedy",
)
"""Those of the default run."""

MISSED: dict[str, str] = {
    "results-in-the-body": "fields may be added at any time (S113), so one more in a body proves nothing",
}
"""What no judge can catch, and why: listed in the page, not dropped."""

DIFFERS: dict[str, str] = {
    "capability-not-checked": "which capability an operation needs is a plan's number (U60)",
    "dry-run-reports-backwards": "in which order a dry run lists its checks is assumed (U89)",
    "gone-ends-a-delivery": "some senders take 410 for good; U71 says that ours does not",
}
"""What is caught as an assumption that differs only, since the fact leaves it open."""


@dataclass(frozen=True)
class Caught:
    """What became of a deviation: the profile that exposes it, the rule, its evidence, and the loss rate."""

    profile: str
    rule: str
    says: str
    differs: tuple[int, ...]
    with_loss: int

    @property
    def how(self) -> str:
        """How it was caught without loss."""
        if self.rule:
            return "deviates"
        return f"U{self.differs[0]} differs" if self.differs else "missed"


def named(name: str) -> Deviation:
    return next(deviation for deviation in TABLE if deviation.name == name)


def told(deviation: Deviation, judgement: Judgement) -> Finding | None:
    """Give the finding that shows a deviation: of a rule that states a broken fact, causes first; or any."""
    following = causes(judgement.deviating)
    found = sorted(judgement.deviating, key=lambda one: one.rule.name in following)
    own = [one for one in found if set(one.rule.facts) & set(deviation.facts)]
    return next(iter(own or found), None)


def without_loss(deviation: Deviation) -> tuple[str, Finding | None, tuple[int, ...]]:
    """Try one profile after the other until a rule deviates, each with two seeds.

    A job whose cost leaps over the last tenth of a ceiling shows nothing of it, so one seed may miss.
    """
    differs: list[tuple[str, tuple[int, ...]]] = []
    for profile, seed in product(deviation.profiles, (1, 2)):
        judgement = deviation.judged(profile, seed)
        finding = told(deviation, judgement)
        if finding is not None:
            return profile, finding, ()
        differs.append((profile, tuple(one.number for one in judgement.differences)))
    profile, numbers = max(differs, key=lambda found: len(found[1]))
    return profile, None, numbers


def with_loss(deviation: Deviation, profile: str) -> int:
    """Count the runs with lost replies in which a rule deviates."""
    return sum(bool(deviation.judged(profile, seed, LOST).deviating) for seed in SEEDS)


def became(deviation: Deviation) -> Caught:
    """Find out what becomes of a deviation, or look it up where nothing has changed since."""
    key = sha256(f"{sources()} {deviation.name}".encode()).hexdigest()
    path = CACHE / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for row in (json.loads(line) for line in lines if line.endswith("}")):
        if row["digest"] == key:
            return Caught(**{**row["caught"], "differs": tuple(row["caught"]["differs"])})
    profile, finding, differs = without_loss(deviation)
    caught = Caught(
        profile,
        finding.rule.name if finding else "",
        finding.evidence[0].says if finding else "",
        differs,
        with_loss(deviation, profile) if finding else 0,
    )
    note({"name": deviation.name, "digest": key, "caught": vars(caught)})
    return caught


@cache
def sources() -> str:
    """Digest all that could change what becomes of a deviation."""
    files = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "src").rglob("*.yaml"),
        *Path(__file__).parent.rglob("*.py"),
    ]
    parts = [f"{path.relative_to(ROOT)}\0{path.read_text(encoding='utf-8')}" for path in sorted(files)]
    return sha256("\0".join(parts).encode()).hexdigest()


def note(row: dict[str, Any]) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", encoding="utf-8")
    with (CACHE / "results.jsonl").open("a", encoding="utf-8") as results:
        results.write(json.dumps(row) + "\n")


# The default run


def test_the_table_is_large_and_its_names_are_its_own() -> None:
    assert len(TABLE) >= 48
    assert len({deviation.name for deviation in TABLE}) == len(TABLE)
    assert {*FEW, *MISSED, *DIFFERS} <= {deviation.name for deviation in TABLE}
    assert all(profile in SIZES for deviation in TABLE for profile in deviation.profiles)
    assert not set(MISSED) & set(DIFFERS)


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_a_few_deviations_are_found(name: str) -> None:
    deviation = named(name)
    _, finding, _ = without_loss(deviation)
    assert finding is not None, f"seed 1, {deviation.profiles}"
    assert finding.evidence[0].size > 0
    assert finding.evidence[0].says


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("signed-over-re-serialised-bytes", "over the body written anew as JSON with spaces"),
        ("signature-in-uppercase", "over the raw body, in upper-case hex"),
        ("signed-without-t", "over the raw body, without t"),
    ],
)
def test_a_wrong_signature_is_told_with_its_mistake(name: str, mistake: str) -> None:
    finding = named(name).judged("webhooks", seed=1).finding("webhook.signature")
    assert finding.evidence[0].says.endswith(f": it is what HMAC-SHA256 gives {mistake}")


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_nothing_stays_broken(name: str) -> None:
    """After a deviation has been tried the service conforms again."""
    deviation = named(name)
    with deviation.applied():
        pass
    profile = deviation.profiles[0]
    conforming = Deviation("none", (), (profile,))
    if SIZES[profile][0] * SIZES[profile][1] < 10**10:
        assert not conforming.judged(profile, seed=1).deviating


# All of them


@pytest.mark.heavy
@pytest.mark.parametrize("deviation", TABLE, ids=lambda deviation: deviation.name)
def test_a_rule_deviates(deviation: Deviation) -> None:
    caught = became(deviation)
    expected = "missed" if deviation.name in MISSED else "deviates"
    if deviation.name in DIFFERS:
        assert caught.how.endswith("differs"), caught
    else:
        assert caught.how.startswith(expected), caught


@pytest.mark.heavy
def test_the_page_says_so() -> None:
    """The page is written anew; where it said otherwise, look at what changed and keep it."""
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    text = page([(deviation, became(deviation)) for deviation in TABLE])
    if text != before:
        PAGE.write_text(text, encoding="utf-8")
    assert text == before, f"{PAGE} was written anew"


def page(rows: list[tuple[Deviation, Caught]]) -> str:
    """Write the table of what became of each deviation."""
    caught = sum(one.how == "deviates" for _, one in rows)
    differ = sum(one.how.endswith("differs") for _, one in rows)
    lost = sum(one.with_loss for _, one in rows)
    runs = len(SEEDS) * sum(one.how == "deviates" for _, one in rows)
    lines = [
        "# Deviating deployments, and what `compare` says of them",
        "",
        "Each row is a deployment that breaks one fact: the rulebook with one rule wrapped, run in",
        "virtual time under a profile, and judged from the trace alone; `tests/judge/conformance/deviations`",
        "writes this page.",
        "",
        f"- {len(rows)} deviations; without lost replies {caught} are found as a rule that deviates,",
        f"  {differ} as an assumption that differs, {len(rows) - caught - differ} are missed.",
        f"- With {LOST:.0%} of the replies lost, {lost} of {runs} runs of those found show a rule that",
        f"  deviates ({lost / max(1, runs):.0%}; {len(SEEDS)} seeds each, on the profile named).",
        "- What is *pinned* deviates only where a policy states that assumption; it is judged by one that",
        "  does.",
        "",
        "| deviation | breaks | profile | rule | without loss | with 2 % lost | evidence |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(deviation, one) for deviation, one in rows]
    return "\n".join(lines) + "\n" + "".join(_reasons("Missed", MISSED) + _reasons("Left open", DIFFERS))


def _row(deviation: Deviation, caught: Caught) -> str:
    facts = ", ".join(f"S{number}" for number in deviation.facts)
    if deviation.pinned:
        facts += " (pinned: " + ", ".join(deviation.pinned) + ")"
    loss = f"{caught.with_loss} of {len(SEEDS)}" if caught.rule else "–"
    says = caught.says.replace("|", "\\|")
    cells = (deviation.name, facts, caught.profile, caught.rule or "–", caught.how, loss, says)
    return "| " + " | ".join(cells) + " |"


def _reasons(title: str, reasons: dict[str, str]) -> list[str]:
    return [f"\n## {title}\n\n", *(f"- {name}: {why}\n" for name, why in reasons.items())] if reasons else []


def test_a_run_that_conforms_differs_from_nothing() -> None:
    """The rehearsals of this table, with nothing broken, show nothing broken."""
    conforming = Deviation("none", (), ("everyday",))
    judgement = compare(conforming.rehearsed("everyday", seed=3))
    assert not judgement.deviating
