"""Findings are what they were: rules, verdicts, cases, counts, exchanges of evidence, differences, exhibits.

`digests.json` has the digests of what was found of each run of `test_soundness.RUNS`, of each deviation with
and without lost replies, and of the recorded trace of a notebook. They change where a rule or a rehearsal
changes on purpose, and not with the words that tell of it: those of some runs stand in `texts.json`.
`python -m pytest -n 2 -m "heavy or not heavy"` of this module, with RANKSIM_DIGESTS=write, writes both anew,
and which rules there were: a rule that came since is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from deviating import TABLE
from tests.judge.conformance.test_soundness import RUNS

from ranksim.judge.conformance.compare import RULES, Judgement, compare
from ranksim.judge.conformance.verdict.verdicts import Evidence

HERE = Path(__file__).parent
FILE = HERE / "digests.json"
TEXTS = HERE / "texts.json"
RECORDED = HERE.parents[3] / "notebooks" / "data" / "everyday.jsonl.gz"

LOST, LOST_SEED = 0.02, 11

FEW = frozenset(
    {
        "sound-calibration-sliding_counter-usual-1-1212",
        "sound-burst-sliding_log-slow-back-1-1030",
        "sound-windows-clock-usual-1-1044",
        "sound-retry-first_hit-lossy-1-1083",
        "sound-race-gcra-slow-back-1-1078",
        "sound-everyday-clock-slow-back-1-1006",
        "sound-scope-sliding_counter-slow-back-1-1174",
        "recorded-everyday",
        "dev-quota-not-atomic-race-1",
        "dev-crawls-join-too-race-1",
        "dev-scoped-key-reads-other-domains-scope-1",
        "dev-event-types-need-a-key-scope-11-lost",
        "dev-cooldown-20-percent-long-race-1",
    }
)
"""Those of the default run: the shortest."""


WRITING = os.environ.get("RANKSIM_DIGESTS") == "write"

NAMES = " ".join(sorted(rule.name for rule in RULES))

DIGESTED = frozenset((NAMES if WRITING else json.loads(FILE.read_text("utf-8"))["rules"]).split())
"""The rules that there were when the digests were written: others are left out, so that changes show."""

YOUNGER_NUMBERS: frozenset[int] = frozenset()
"""Assumptions that are told to differ since, likewise left out."""


def digest(judgement: Judgement) -> str:
    """Digest what was found, but for younger rules and assumptions."""

    def evidence(piece: Evidence) -> list[Any]:
        return [piece.exchanges, piece.deliveries, piece.about, piece.at]

    findings = [
        [
            found.rule.name,
            str(found.verdict),
            *(found.held, found.broken, found.open),
            [[case.name, case.held, case.broken] for case in found.cases],
            [evidence(piece) for piece in found.evidence],
        ]
        for found in judgement.findings
        if found.rule.name in DIGESTED
    ]
    older = [one for one in judgement.differences if one.number not in YOUNGER_NUMBERS]
    differences = [[one.number, one.assumed, one.found, evidence(one.evidence)] for one in older]
    pieces = [one.evidence for one in older]
    pieces += [piece for one in judgement.findings if one.rule.name in DIGESTED for piece in one.evidence]
    named = {name for piece in pieces for name in piece.exchanges} & judgement.exhibits.keys()
    told = {"findings": findings, "differences": differences, "exhibits": sorted(named)}
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def texts(judgement: Judgement) -> list[str]:
    """Return what is said of what was found: evidence, reasons why something is open, differences."""
    lines = []
    for found in judgement.findings:
        if found.rule.name not in DIGESTED:
            continue
        lines += [f"{found.rule.name}, {found.verdict}: {piece.says}" for piece in found.evidence]
        lines += [f"{found.rule.name}, open: {reason}" for reason, _ in found.reasons[:2]]
    return [*lines, *(f"U{one.number}: {one.found}: {one.evidence.says}" for one in judgement.differences)]


Made = Callable[[], Judgement]


def corpus() -> Iterator[tuple[str, Made]]:
    """Name every trace, with what judges it."""
    yield "recorded-everyday", lambda: compare(RECORDED)
    for run in RUNS:
        yield f"sound-{run}", run.judged
    for deviation in TABLE:
        runs = [(deviation.profiles[0], 1, 0.0)]
        runs += [(profile, LOST_SEED, LOST) for profile in deviation.profiles[:2]]
        for profile, seed, loss in runs:
            name = f"dev-{deviation.name}-{profile}-{seed}{'-lost' if loss else ''}"
            yield name, lambda d=deviation, run=(profile, seed, loss): d.judged(*run)


CORPUS = dict(corpus())


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FEW else pytest.mark.heavy) for name in CORPUS],
)
def test_findings_are_what_they_were(name: str) -> None:
    judgement = CORPUS[name]()
    found = {FILE: digest(judgement)} | ({TEXTS: texts(judgement)} if name in FEW else {})
    for file, value in found.items():
        if WRITING:
            with FILE.open("r") as lock:  # others write beside it
                flock(lock, LOCK_EX)
                known = json.loads(file.read_text("utf-8"))
                known |= {name: value} | ({"rules": NAMES} if file == FILE else {})
                file.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n", "utf-8")
        else:
            assert value == json.loads(file.read_text("utf-8"))[name]


def test_nothing_was_recorded_twice_or_forgotten() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")).keys() == CORPUS.keys() | {"rules"}
    assert CORPUS.keys() >= FEW
    assert json.loads(TEXTS.read_text(encoding="utf-8")).keys() == FEW
