"""The tight bench: one conforming run and one broken one in the gate, and more in the heavy suite.

    python -m pytest -m heavy tests/judge/conformance/elsewhere/test_tight_bench.py

Results are kept from run to run, as `tight_bench.py` says; RANKSIM_TIGHT_SEEDS chooses the seeds of runs that
conform (FIRST:COUNT), and RANKSIM_TIGHT_WAYS that of the broken ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.judge.conformance.elsewhere import sockets, tight_bench
from tests.judge.conformance.elsewhere.breakages import breakages
from tests.judge.conformance.elsewhere.results import SHOWN


@pytest.mark.parametrize("seed", range(40))
def test_everything_is_scarce(seed: int) -> None:
    numbers = tight_bench.numbers_of(seed)
    assert 2_000_000 <= numbers.studio["ceiling"] <= 8_000_000
    for plan in (numbers.studio, numbers.corner):
        assert 8 <= plan["slot_limit"] <= 20
        assert 0 <= plan["quotas"]["brief_refreshes"][0] <= 5
        assert all(0 <= length <= 60 for length in plan["cooldown_seconds"].values())
    assert 0 <= numbers.latency[0] < numbers.latency[1] <= 0.4


def test_the_ranges_are_used() -> None:
    drawn = [tight_bench.numbers_of(seed) for seed in range(40)]
    assert {one.studio["quotas"]["brief_refreshes"][0] for one in drawn} == set(range(6))
    assert {one.keeps_date for one in drawn} == {False, True}
    assert {name for one in drawn for name in one.undeletable} >= {"domains", "webhooks"}
    assert any(not one.undeletable for one in drawn)
    assert {0} < {length for one in drawn for length in one.studio["cooldown_seconds"].values()}


def test_a_kind_that_cannot_be_removed_is_refused_as_a_method() -> None:
    numbers = tight_bench.numbers_of(1)
    deployment = tight_bench.elsewhere.Deployment(tight_bench.replace(numbers, undeletable=("domains",)))
    deployment.linger = lambda seconds: None
    deployment.open_accounts()
    asked = {"authorization": f"Bearer {deployment.named['main']}"}
    assert deployment.respond("DELETE", "/v1/domains/any", asked, b"")[0] == 405
    assert deployment.respond("DELETE", "/v1/labels/any", asked, b"")[0] == 404


def test_a_date_header_may_be_a_second_old() -> None:
    numbers = tight_bench.replace(tight_bench.numbers_of(1), keeps_date=True)
    deployment = tight_bench.elsewhere.Deployment(numbers)
    clock = tight_bench.elsewhere.now
    dates = []
    for at in (10_900_000, 11_700_000, 12_000_000):
        clock.set(lambda at=at: at)
        dates.append(deployment.date()[-6:-4])
    assert dates == ["10", "10", "12"]


@pytest.mark.slow
def test_a_conforming_deployment_where_everything_is_scarce_raises_no_alarm() -> None:
    assert tight_bench.conforming(5)["alarms"] == []


@pytest.mark.slow
def test_a_way_is_found_where_everything_is_scarce() -> None:
    (way,) = [one for one in breakages() if one.name == "S43: a page has more than 200"]
    (row,) = tight_bench.tried([way], 5, "one")
    assert row["found"] in SHOWN


SEEDS = os.environ.get("RANKSIM_TIGHT_SEEDS", "10000:100")
WAYS = int(os.environ.get("RANKSIM_TIGHT_WAYS", "10001"))


@pytest.mark.heavy
def test_tight_conforming_runs_raise_no_alarm() -> None:
    assert [row for row in tight_bench.run_conforming(SEEDS) if row["alarms"]] == []


@pytest.mark.heavy
@pytest.mark.parametrize("keys", tight_bench.KEYS)
def test_ways_are_found_where_everything_is_scarce(keys: str) -> None:
    tight_bench.run_ways(WAYS, keys)
    tight_bench.run_alone(WAYS, keys)
    rows = tight_bench.RESULTS.became(WAYS, keys)
    found = [row for row in rows if row["found"] in SHOWN]
    assert len(found) >= LEAST[keys] * len(rows), [row["way"] for row in rows if row not in found]


LEAST = {"all": 0.7, "one": 0.5}


@pytest.mark.heavy
def test_a_check_over_sockets_where_everything_is_scarce(tmp_path: Path) -> None:
    assert sockets.tight(5, tmp_path)["alarms"] == []


@pytest.mark.heavy
def test_a_check_over_sockets_finds_a_break_where_everything_is_scarce(tmp_path: Path) -> None:
    assert sockets.tight(5, tmp_path, "no-more domains.list")["alarms"] != []
