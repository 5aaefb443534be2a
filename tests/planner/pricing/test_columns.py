"""Recorded calls as columns: what a trace or a log becomes, that it decides alike, and the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exchanges import Line, call, recorded
from recorded_calls import generated
from typer.testing import CliRunner

import ranksim as rs
from ranksim.cli import app
from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec
from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy, shipped_catalogue
from ranksim.core.errors import BadInput
from ranksim.core.tables import is_parquet
from ranksim.core.trace_writer import TraceWriter
from ranksim.planner.fleet.recorded_fleet import RecordedFleet
from ranksim.planner.fleet.rows import FAULTY, LIMITED, NOT_FOUND, READ, REMOVE, Records
from ranksim.planner.pricing.back_test import back_test, read_accounts
from ranksim.planner.pricing.catalogues import selling
from ranksim.planner.pricing.columns import (
    COLUMNS,
    OUTCOME_OF,
    Columns,
    account_number,
    accounts_for,
    read_columns,
    save_columns,
)
from ranksim.planner.pricing.importing import AGAIN, BESIDE, GONE, LISTED, REPEATS, SCANS, columns_of
from ranksim.planner.pricing.recorded_sides import Side
from ranksim.planner.pricing.recording import Recording, read_recording, read_rules

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "pricing"
PLANS = shipped_catalogue("illustrative")


def rows_of(columns: Columns) -> Records:
    return np.concatenate(list(columns.chunks()))


def check(
    recording: Recording,
    plan: str = "",
    accounts: Mapping[str, AccountSpec] | None = None,
    policy: Policy | None = None,
) -> int:
    """Every call comes out as it does at a service, with the same cost; gives how many calls there were."""
    policy = policy or Policy()
    tested = back_test(recording, [Side(policy.catalogue, plan)], accounts=accounts, policy=policy)
    columns = columns_of(recording, accounts=accounts)
    assert columns.left_out == dict(tested.left_out)
    sold = [(plan or one.spec.plan, tuple(sorted(one.spec.add_ons.items()))) for one in columns.accounts]
    policy = selling(policy, policy.catalogue)
    fleet = RecordedFleet(accounts_for(columns, sold, policy, 1), policy, 1, compiled=False)
    chunks = list(columns.chunks())
    for chunk in chunks:
        fleet.serve(chunk)
    rows = np.concatenate(chunks)
    rows = rows[np.argsort(rows["at"], kind="stable")]
    assert len(rows) == len(tested.calls) == columns.calls
    for row, expected in zip(rows, tested.calls, strict=True):
        code, outcome = expected["a_code"], int(row["outcome"])
        found = {LIMITED} if code == "rate_limited" else {OUTCOME_OF[code]} if code in OUTCOME_OF else {0, 7}
        assert outcome in ({NOT_FOUND, FAULTY} if code and code not in OUTCOME_OF else found), expected
        assert row["amount"] == expected["a_cost"], expected
    return len(rows)


@pytest.mark.parametrize("plan", ["free", "starter", "pro", "agency"])
def test_the_example_trace_and_log_come_out_as_at_a_service(plan: str) -> None:
    assert check(read_recording(EXAMPLES / "trace.jsonl"), plan) == 16
    assert check(read_recording(EXAMPLES / "access.log", read_rules(EXAMPLES / "rules.yaml")), plan) == 5


def test_accounts_that_are_described_come_out_as_at_a_service() -> None:
    check(read_recording(EXAMPLES / "trace.jsonl"), accounts=read_accounts(EXAMPLES / "accounts.yaml"))


@pytest.mark.parametrize("name", ["two-keys-one-quota", "past-due-account", "monday-reset"])
def test_a_simulated_recording_comes_out_as_at_a_service(name: str, tmp_path: Path) -> None:
    scenario, path = rs.Scenario.load(ROOT / "scenarios" / f"{name}.yaml"), tmp_path / "world.jsonl"
    with TraceWriter(path, started=scenario.start) as trace:
        world = rs.World(scenario, trace=trace)
        trace.watch(world.service.state)
        world.run()
    assert check(read_recording(path), accounts=dict(scenario.accounts), policy=scenario.policy) > 50


def test_what_is_made_on_the_way_is_followed(tmp_path: Path) -> None:
    def made(which: str) -> dict[str, Any]:
        return {"status": 201, "response": json.dumps({"data": {"id": which}})}

    created = {"data": {"created": [{"id": "kw_b", "keyword": "B"}, {"id": "kw_a", "keyword": "a"}]}}
    scan = {
        "domain_id": "dom_n", "list_ids": ["list_n"], "engine_devices": ["google/desktop"],
        "geographies": [{"country": "US"}, {"country": "DE"}],
    }  # fmt: skip
    recording = recorded(
        tmp_path,
        call(0, "POST", "/v1/domains", {"host": "new.example"}, **made("dom_n")),
        call(1, "POST", "/v1/keyword-lists", {"domain_id": "dom_n", "name": "n"}, **made("list_n")),
        call(2, "POST", "/v1/keywords", {"list_id": "list_n", "keywords": ["a", "B ", "b"]},
             status=201, response=json.dumps(created)),
        call(3, "POST", "/v1/scans", scan, **made("scan_n")),
        call(4, "POST", "/v1/jobs", {"kind": "rank_run", "domain_id": "dom_n"}, **made("job_n")),
        call(5, "GET", "/v1/jobs/rank_run/job_n"),
        call(6, "DELETE", "/v1/keywords/kw_b", status=204),
        call(7000, "POST", "/v1/jobs", {"kind": "rank_run", "domain_id": "dom_n"}, **made("job_m")),
        call(7001, "POST", "/v1/jobs", {"kind": "crawl", "domain_id": "dom_n", "dry_run": True}),
        call(7002, "POST", "/v1/jobs", {"kind": "crawl"}, status=422,
             response='{"code": "validation_failed"}'),
    )  # fmt: skip
    columns = columns_of(recording)
    (account,), rows = columns.accounts, rows_of(columns)
    assert (account.unmodelled, account.made_domains) == ({}, (f"new1.account{account.number}.example",))
    assert rows["size"][2] == 2  # two words, one of them twice
    assert (rows["pairings"][3], rows["places"][3]) == (1, 2)
    assert rows["needs"][5] == rows["makes"][4] >= 0
    assert (rows["activity"][6], rows["domain"][6]) == (REMOVE, rows["domain"][4])
    assert rows["idle"].tolist()[-2:] == [1, 2]
    for plan in ("pro", "free"):
        check(recording, plan)


def test_what_the_kernel_cannot_follow_is_counted(tmp_path: Path) -> None:
    def words(number: int, *keywords: str, **fields: Any) -> Line:
        return call(number, "POST", "/v1/keywords", {"list_id": "list_1", "keywords": keywords}, **fields)

    created = {"data": {"created": [{"id": "kw_a", "keyword": "a"}]}}
    scan = {
        "domain_id": "dom_1", "list_ids": ["list_1"], "engine_devices": ["google/desktop"],
        "geographies": [{"country": "US"}], "active": False,
    }  # fmt: skip
    recording = recorded(
        tmp_path,
        words(0, "a", status=201, response=json.dumps(created)),
        words(1, "a", "b", status=201),
        call(2, "DELETE", "/v1/keywords/kw_a", status=204),
        words(3, "a", status=201),
        call(4, "POST", "/v1/keyword-lists", {"domain_id": "dom_1", "name": "n"}, status=201,
             response='{"data": {"id": "list_2"}}'),
        call(5, "POST", "/v1/keywords", {"list_id": "list_2", "keywords": ["x"]}, status=201),
        call(6, "POST", "/v1/scans", scan, status=201),
        call(7, "DELETE", "/v1/keyword-lists/list_2", status=204),
        call(8, "POST", "/v1/jobs", {"kind": "crawl", "domain_id": "dom_1"}, status=202,
             request_headers={"Idempotency-Key": "k"}),
        call(9, "POST", "/v1/jobs", {"kind": "crawl", "domain_id": "dom_1"}, status=202,
             request_headers={"Idempotency-Key": "k"}),
    )  # fmt: skip
    (account,) = columns_of(recording).accounts
    assert account.unmodelled == {LISTED: 1, AGAIN: 1, BESIDE: 2, SCANS: 1, GONE: 1, REPEATS: 1}


def test_a_call_that_its_rate_limit_refused_is_no_original_of_its_key(tmp_path: Path) -> None:
    accounts = {"acme": AccountSpec(plan="pro", portfolio=PortfolioSpec(domains=1, keywords=3))}

    def brief(second: int, key: str, status: int, code: str = "") -> Line:
        body = {"domain_id": "dom_1", "keywords": [f"word {key}"]}
        return call(second, "POST", "/v1/keyword-briefs", body, status=status, response=json.dumps(
            {"code": code} if code else {"data": {}}), id=f"{key} {second}",
            request_headers={"Idempotency-Key": key})  # fmt: skip

    limit = Policy().facts.rates.of(RateClass.EXPENSIVE)
    recording = recorded(
        tmp_path, *(brief(0, str(number), 201) for number in range(limit)),
        brief(0, "late", 429, "rate_limited"), brief(90, "late", 201), brief(180, "late", 201),
    )  # fmt: skip
    assert check(recording, accounts=accounts) == limit + 3
    columns = columns_of(recording, accounts=accounts)
    assert columns.unmodelled == {REPEATS: 1}
    assert rows_of(columns)["idle"].tolist() == [0] * (limit + 2) + [1]


def test_outcomes_as_recorded(tmp_path: Path) -> None:
    def read(number: int, status: int | None, code: str = "") -> Line:
        return call(number, "GET", "/v1/account", status=status, response=json.dumps({"code": code}))

    recording = recorded(
        tmp_path, read(0, 200), read(1, None), read(2, 429), read(3, 402, "quota_exhausted"),
        read(4, 402, "allowance_exhausted"), read(5, 404, "not_found"), read(6, 422, "validation_failed"),
    )  # fmt: skip
    assert rows_of(columns_of(recording))["recorded"].tolist() == [0, -1, LIMITED, 4, 4, NOT_FOUND, FAULTY]


# The file


def test_a_file_holds_the_same_calls_of_salted_names(tmp_path: Path) -> None:
    columns, path = generated(5, 900, seed=3), tmp_path / "calls.parquet"
    save_columns(columns, path, salt="s")
    back = read_columns(path)
    assert is_parquet(path)
    assert not is_parquet(EXAMPLES / "trace.jsonl")
    for name in COLUMNS:
        assert np.array_equal(rows_of(back)[name], rows_of(columns)[name]), name
    assert [one.name for one in back.accounts] == [
        str(account_number(one.name, "s")) for one in columns.accounts
    ]
    for name in ("keys", "things", "start", "end", "calls", "left_out"):
        assert getattr(back, name) == getattr(columns, name)
    for ours, theirs in zip(columns.accounts, back.accounts, strict=True):
        assert (theirs.calls, theirs.things) == (ours.calls, ours.things)
        assert len(theirs.hosts) == len(ours.hosts)
        domains = {"domains": ours.portfolio.domains}
        portfolio = theirs.portfolio.model_copy(update=domains)
        assert theirs.spec.model_copy(update={"portfolio": portfolio}) == ours.spec
    assert b"a0" not in path.read_bytes().split(b"ranksim_columns")[1][:200]
    assert account_number("a0", "s") != account_number("a0", "t")


def test_names_can_be_given_back(tmp_path: Path) -> None:
    save_columns(generated(2, 40, seed=3), path := tmp_path / "calls.parquet", salt="s")
    names = {str(account_number("a0", "s")): "acme"}
    assert [one.name for one in read_columns(path, names).accounts] == [
        "acme",
        str(account_number("a1", "s")),
    ]


def test_neither_names_nor_a_salt_change_what_is_drawn(tmp_path: Path) -> None:
    def pages(columns: Columns) -> list[int]:
        sold = [("pro", ())] * len(columns.accounts)
        made: list[int] = accounts_for(columns, sold, Policy(), 1).domains["pages"].tolist()
        return made

    crawl = {"domain_id": "dom_7", "kind": "crawl"}
    columns = columns_of(recorded(tmp_path, call(0, "POST", "/v1/jobs", crawl, status=202)))
    for salt in ("s", "t"):
        save_columns(columns, path := tmp_path / "calls.parquet", salt)
        names = {str(account_number(one.name, salt)): one.name for one in columns.accounts}
        assert pages(read_columns(path)) == pages(read_columns(path, names)) == pages(columns)


def test_hosts_are_not_told(tmp_path: Path) -> None:
    spec = AccountSpec(plan="pro", portfolio=PortfolioSpec(domains=("secret.example",)))
    recording = recorded(tmp_path, call(0, "GET", "/v1/domains"))
    save_columns(columns_of(recording, accounts={"acme": spec}), path := tmp_path / "calls.parquet", salt="s")
    (account,) = read_columns(path).accounts
    assert account.hosts == (f"site1.account{account.number}.example",)
    assert b"secret" not in path.read_bytes()
    assert b"acme" not in path.read_bytes()


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(BadInput, match="expected columns of recorded calls as Parquet"):
        read_columns(tmp_path / "x.parquet")


def test_calls_that_are_no_columns_yet(tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text("time,account,method,path\n")
    remedy = "no columns of recorded calls; make them with ranksim price import .*calls.csv --columns"
    with pytest.raises(BadInput, match=remedy):
        read_columns(tmp_path / "calls.csv")


def test_a_table_of_something_else(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "x.parquet")
    remedy = "price import .*x.parquet --columns calls.parquet, and give these; --columns-are"
    with pytest.raises(BadInput, match=remedy):
        read_columns(tmp_path / "x.parquet")


def test_an_import_replaces_no_file_of_another_kind(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "export.parquet"
    words = ["price", "import", str(EXAMPLES / "trace.jsonl"), "--columns", str(path)]
    for _ in range(2):  # and again, over columns
        assert CliRunner().invoke(app, words).exit_code == 0
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), path)
    before = path.read_bytes()
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, path.read_bytes()) == (2, before)
    assert f"{path}: is there already and no file of ranksim price import" in refused.stderr


def test_reads_are_reads() -> None:
    rows = rows_of(columns_of(read_recording(EXAMPLES / "trace.jsonl")))
    assert READ in rows["activity"]
