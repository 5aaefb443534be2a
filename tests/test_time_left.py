"""Whatever takes long tells which share of it is done, so that the time left can be shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ranksim as rs
from ranksim.core.clock import MINUTE
from ranksim.core.contract.policy import shipped_catalogue
from ranksim.core.contract.quantities import Distribution
from ranksim.core.records import read_lines
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.compare import compare_all
from ranksim.planner.capacity.queueing import Peak
from ranksim.planner.capacity.workers import workers_needed
from ranksim.planner.fleet.population import Population
from ranksim.planner.pricing import recording as recordings
from ranksim.planner.pricing.back_test import back_test, read_accounts
from ranksim.planner.pricing.break_even import break_even
from ranksim.planner.pricing.column_back_test import back_test_columns
from ranksim.planner.pricing.importing import columns_of
from ranksim.planner.pricing.recorded_sides import Side
from ranksim.planner.pricing.recording import read_recording
from ranksim.planner.pricing.search import search
from ranksim.report.progress import Tell, part
from ranksim.twin.sim.scenario import Scenario

EXAMPLES = Path(__file__).parents[1] / "examples" / "pricing"
TRACE = EXAMPLES / "trace.jsonl"
PLANS = shipped_catalogue("illustrative")
ACCOUNTS = EXAMPLES / "accounts.yaml"
RECORDED = Path(__file__).parents[1] / "notebooks" / "data" / "everyday.jsonl.gz"
TAKES = Distribution(kind="constant", durations=(4 * MINUTE,), sigma=0.0)
COOLDOWN = """
scenario: 1
start: 2026-03-01T00:00:00Z
length: 4d
accounts: {acme: {plan: pro, portfolio: {domains: 1}}}
clients:
  crawls: {kind: schedule, account: acme, job: crawl, every: 12h, starts: 2d}
"""


def peak(tell: Tell) -> None:
    workers_needed({"crawl": Peak(20, TAKES), "rank_run": Peak(5, TAKES)}, replications=2, progress=tell)


def ceilings(tell: Tell) -> None:
    few = Population.load(EXAMPLES / "population.yaml").replace(accounts=3, length="5d")
    break_even(few, PLANS, plans=["pro"], replications=2, step=5_000_000, compiled=False, progress=tell)


def replayed(tell: Tell) -> None:
    recording = read_recording(TRACE)
    back_test(recording, [Side(PLANS, "pro")], accounts=read_accounts(ACCOUNTS), progress=tell)


def imported(tell: Tell) -> None:
    columns_of(read_recording(TRACE), accounts=read_accounts(ACCOUNTS), progress=tell)


def served(tell: Tell) -> None:
    columns = columns_of(read_recording(TRACE), accounts=read_accounts(ACCOUNTS))
    back_test_columns(columns, [Side(PLANS, "pro"), Side(PLANS, "starter")], compiled=False, progress=tell)


def searched(tell: Tell) -> None:
    columns = columns_of(read_recording(TRACE), accounts=read_accounts(ACCOUNTS))
    grid = {"plans.pro.slot_limit": list(range(100, 130)), "plans.pro.price": ["99 USD", "149 USD"]}
    search(columns, PLANS, grid, plan="pro", first=1, compiled=False, progress=tell)


def asked(tell: Tell) -> None:
    rs.run(Scenario.parse(COOLDOWN)).why("refusals.cooldown_active", progress=tell)


def judged(tell: Tell) -> None:
    compare_all([RECORDED, RECORDED], progress=tell)


def calibrated(tell: Tell) -> None:
    calibrate(RECORDED, progress=tell)


WORK = [peak, ceilings, replayed, imported, served, searched, asked, judged, calibrated]


@pytest.mark.parametrize("work", WORK)
def test_the_share_that_is_done_grows(work: Callable[[Tell], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "OFTEN", 3)
    told: list[float | None] = []
    work(lambda share, text: told.append(share))
    shares = [share for share in told if share is not None]
    assert shares == told
    assert shares == sorted(shares)
    assert len(set(shares)) >= 3
    assert shares[0] <= 0.25
    assert 0.3 <= shares[-1] <= 1


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_so_does_that_of_a_file_that_is_read(tmp_path: Path, suffix: str) -> None:
    from ranksim.core.records import OPENERS

    path = tmp_path / f"lines{suffix}"
    with OPENERS.get(suffix, open)(path, "wb") as file:
        file.writelines(b"%0200d\n" % (number * 7919) for number in range(5_000))
    shares: list[float] = []
    assert len(list(read_lines(path, shares.append))) == 5_000
    assert len(shares) == 5
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1


def test_a_part_of_the_work_is_a_part_of_the_share() -> None:
    told: list[tuple[float | None, str]] = []
    half = part(lambda *what: told.append(what), 0.5, 1.0)
    half(0.0, "begun")
    half(0.5, "")
    half(7, "beyond what was thought")
    half(None, "nobody knows")
    assert told == [(0.5, "begun"), (0.75, ""), (1.0, "beyond what was thought"), (None, "nobody knows")]
