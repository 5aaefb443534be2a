"""The bench: a few of its runs in the gate, and all of them in the heavy suite.

    python -m pytest -m heavy tests/judge/conformance/elsewhere/test_bench.py

Results are kept from run to run, as `bench.py` says; RANKSIM_SEEDS and RANKSIM_SOCKETS choose the seeds of
runs that conform, in virtual time and over sockets (FIRST:COUNT), and RANKSIM_WAYS that of the broken ones.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.judge.conformance.elsewhere import bench
from tests.judge.conformance.elsewhere.breakages import NOT_BROKEN, ROWS, breakages, groups

from ranksim.judge.conformance.ways import ways

FEW = (
    "S43: a page has more than 200",
    "S59: quota refuses where subscription fails too",
    "S90: the retry after 1 min comes at another time",
    "S94: a field is missing of the error cooldown_active",
    "S21: the secret is shown in the list",
    "S14: a job asked for as crawl is of another kind",
)


def test_nearly_every_way_that_a_case_shows_has_a_switch() -> None:
    broken = {one.way.says for one in breakages()}
    assert len(broken) >= 380
    assert set(NOT_BROKEN) <= {way.says for way in ways()}
    used = {row[0] for row in ROWS if any(re.fullmatch(row[0], way.says) for way in ways())}
    assert used == {row[0] for row in ROWS}
    assert {one.name for group in groups(breakages()) for one in group} == {one.name for one in breakages()}


def test_every_switch_is_one_of_the_deployments() -> None:
    """A switch that is misspelt would be a deployment that conforms."""
    source = "".join(
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in ("deployment.py", "spoiling.py", "virtual.py")
    )
    for one in breakages():
        switch = one.breaks.split()[0]
        assert f'"{switch}"' in source or f'"{switch} ' in source or f'"{one.breaks}"' in source, switch


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5000, 5002, 5003])
def test_a_conforming_deployment_of_other_numbers_raises_no_alarm(seed: int) -> None:
    assert bench.conforming(seed)["alarms"] == []


@pytest.mark.slow
def test_a_few_ways_are_found_by_their_cases() -> None:
    group = [one for one in breakages() if one.name in FEW]
    _, rows = bench.tried(group, 1, "default", None)
    assert {row["way"]: row["found"] for row in rows} == dict.fromkeys(FEW, "case")


SEEDS = os.environ.get("RANKSIM_SEEDS", "10000:300")
SOCKETS = os.environ.get("RANKSIM_SOCKETS", "1:40")
WAYS = int(os.environ.get("RANKSIM_WAYS", "1"))


@pytest.mark.heavy
def test_conforming_runs_raise_no_alarm() -> None:
    assert [row for row in bench.run_conforming(SEEDS) if row["alarms"]] == []


@pytest.mark.heavy
def test_conforming_runs_over_sockets_raise_no_alarm() -> None:
    assert [row for row in bench.run_sockets(SOCKETS) if row["alarms"]] == []


@pytest.mark.heavy
def test_ways_are_found() -> None:
    bench.run_ways(WAYS)
    bench.run_alone(WAYS)
    rows = bench.RESULTS.became(WAYS, "default")
    found = [row for row in rows if row["found"] in ("case", "rule", "differs")]
    assert len(found) >= 0.7 * len(rows), [row["way"] for row in rows if row not in found]
