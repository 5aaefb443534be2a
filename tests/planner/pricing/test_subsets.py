"""What a recorded account comes to depends neither on its name nor on who else was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from exchanges import Line, call, recorded

from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec
from ranksim.core.clock import HOUR, SECOND
from ranksim.core.contract.policy import shipped_catalogue
from ranksim.planner.pricing.back_test import back_test
from ranksim.planner.pricing.column_back_test import ColumnBackTest, back_test_columns
from ranksim.planner.pricing.columns import Columns, read_columns, save_columns
from ranksim.planner.pricing.importing import columns_of
from ranksim.planner.pricing.recorded_sides import Side
from ranksim.planner.pricing.recording import Recording, read_recording

METERED = shipped_catalogue("illustrative-metered")
"""Some of its jobs fail."""

PLANS = shipped_catalogue("illustrative")
NAMES = ("acme", "beta", "coda")


def drawn_lines(random: Random) -> Iterator[Line]:
    """Three weeks of jobs and briefs; accounts begin together, some calls of theirs fall on one instant."""
    for number in range(60):
        account = NAMES[number % 3] if number < 3 else random.choice(NAMES)
        domain: dict[str, Any] = {"domain_id": f"dom_{account}_{random.randrange(2)}"}
        at = 0 if number < 3 else random.randrange(21 * 24) * HOUR // SECOND
        kind = random.choice(["crawl", "ai_scan", "rank_run", "site_optimization", "briefs"])
        if kind == "briefs":
            body, path = domain | {"keywords": [f"word {number}"]}, "/v1/keyword-briefs"
        else:
            body, path = domain | {"kind": kind}, "/v1/jobs"
        yield call(at, "POST", path, body, id=f"x{number}", api_key=account, status=202)


def of(tmp_path: Path, lines: list[Line], names: tuple[str, ...]) -> Recording:
    keys = {name: {"account": name} for name in NAMES}
    return recorded(tmp_path, *(line for line in lines if line["api_key"] in names), keys=keys)


def tried(columns: Columns | Path) -> ColumnBackTest:
    return back_test_columns(columns, [Side(PLANS, "starter"), Side(PLANS, "agency")], compiled=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_part_of_the_accounts_comes_to_what_it_comes_to_among_all(seed: int, tmp_path: Path) -> None:
    lines = list(drawn_lines(Random(seed)))
    sides = [Side(METERED, "team"), Side(METERED, "studio")]
    one_by_one, customers = {}, {}
    parts = [part for size in (3, 2, 1) for part in combinations(NAMES, size)]
    for part in parts:
        recording = of(tmp_path, lines, part)
        result = tried(columns_of(recording, keywords=5))
        assert [side.audit.unequal for side in result.served] == [0, 0], result.notes
        calls = {row["id"]: row for row in back_test(recording, sides, keywords=5).calls}
        by_account = {(row["side"], row["account"]): row for row in result.customers}
        if part == NAMES:
            one_by_one, customers = calls, by_account
        assert calls == {which: one_by_one[which] for which in calls}
        assert by_account == {which: customers[which] for which in by_account}
    assert len({row["cost"] for row in customers.values()}) == len(customers)


def test_a_file_of_columns_comes_to_the_same_under_any_name(tmp_path: Path) -> None:
    recording = of(tmp_path, list(drawn_lines(Random(9))), NAMES)
    columns = columns_of(recording, keywords=5)
    save_columns(columns, path := tmp_path / "calls.parquet", names=(names := tmp_path / "names.csv"))
    expected = tried(columns).customers
    assert tried(read_columns(path, names)).customers == expected
    nameless = tried(path).customers
    assert [row | {"account": ""} for row in nameless] == [row | {"account": ""} for row in expected]
    slow = back_test(recording, [Side(PLANS, "starter"), Side(PLANS, "agency")], keywords=5)
    assert slow.total("cost", "A") == sum(row["cost"] for row in expected if row["side"] == "A")
    assert slow.total("cost", "B") == sum(row["cost"] for row in expected if row["side"] == "B")
    assert read_recording(tmp_path / "trace.jsonl").numbers == recording.numbers


def costs(recording: Recording, domains: int | tuple[str, ...], seed: int, path: Path) -> set[int]:
    """What an account costs by calls, by columns and by a file of these, µUSD."""
    described = {"acme": AccountSpec(plan="agency", portfolio=PortfolioSpec(domains=domains, keywords=9))}
    columns = columns_of(recording, accounts=described)
    save_columns(columns, path)
    of = [back_test_columns(each, [Side(PLANS)], seed=seed, compiled=False) for each in (columns, path)]
    assert all(answer.served[0].audit.unequal == 0 for answer in of)
    slow = back_test(recording, [Side(PLANS)], accounts=described, seed=seed)
    return {slow.total("cost", "A"), *(sum(row["cost"] for row in answer.customers) for answer in of)}


@pytest.mark.parametrize("seed", range(1, 4))
def test_calls_and_columns_cost_the_same_whatever_hosts_are_called(seed: int, tmp_path: Path) -> None:
    def lines(host: str) -> Iterator[Line]:
        made = {"status": 201, "response": '{"data": {"id": "dom_new"}}'}
        spare = {"status": 201, "response": '{"data": {"id": "dom_spare"}}'}
        yield call(0, "POST", "/v1/domains", {"host": f"spare.{host}"}, api_key="acme", **spare)
        yield call(1, "POST", "/v1/domains", {"host": host}, api_key="acme", **made)
        yield call(2, "POST", "/v1/domains", {"host": "no host"}, api_key="acme", status=422)
        for number, domain in enumerate(("dom_a", "dom_new"), 3):
            body = {"kind": "site_optimization", "domain_id": domain}
            yield call(number, "POST", "/v1/jobs", body, api_key="acme", status=202)

    amounts = set[int]()
    for host, domains in (("b.com", 1), ("c.com", ("a.com",))):
        recording = of(tmp_path, list(lines(host)), NAMES)
        amounts |= costs(recording, domains, seed, tmp_path / "calls.parquet")
    assert len(amounts) == 1


def test_the_same_calls_at_the_same_instants_are_of_two_accounts(tmp_path: Path) -> None:
    lines = [call(0, "GET", "/v1/domains", id=name, api_key=name) for name in NAMES]
    numbers = of(tmp_path, lines, NAMES).numbers
    assert len(set(numbers.values())) == len(NAMES)
