"""Recorded calls of a warehouse: a CSV or Parquet file says what a trace or an access log of them says."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exchanges import NOON
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.core.callers.recordings import RecordingRule
from ranksim.core.contract.facts import Decision
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.rows import UNSTATED
from ranksim.planner.pricing.columns import Columns, save_columns
from ranksim.planner.pricing.importing import columns_of, recorded_outcome
from ranksim.planner.pricing.recording import Recording, read_recording, read_rules

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "pricing"
AS_NAMED = {
    "time": "ts", "account": "customer", "method": "verb", "path": "url", "status": "code", "body": "payload",
    "response": "reply",
}  # fmt: skip
Values = Mapping[str, Any]


def row(**values: Any) -> dict[str, Any]:
    """A call that reads, at noon, but for these values."""
    return {"time": NOON, "account": "acme", "method": "GET", "path": "/v1/domains", "status": 200} | values


def write_csv(path: Path, rows: Sequence[Values], delimiter: str = ",") -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode())
    return path


def write_parquet(path: Path, rows: Sequence[Values]) -> Path:
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra `plots`")
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist([dict(values) for values in rows]), path)
    return path


def same(made: Columns, expected: Columns) -> None:
    """Both have the same rows, the same accounts, and leave as many calls out."""
    np.testing.assert_array_equal(*(np.concatenate(list(each.chunks())) for each in (made, expected)))
    assert made.accounts == expected.accounts
    assert sum(made.left_out.values()) == sum(expected.left_out.values())


def test_columns_are_not_written_where_a_name_says_otherwise(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra `plots`")
    path = tmp_path / "calls.csv"
    words = ["price", "import", str(EXAMPLES / "trace.jsonl"), "--columns", str(path)]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    assert (result.exit_code, path.exists()) == (2, False)
    assert "calls.csv: columns are written as Parquet; name the file calls.parquet" in result.output
    with pytest.raises(BadInput, match="columns are written as Parquet"):
        save_columns(columns_of(read_recording(EXAMPLES / "trace.jsonl")), path)


def test_recordings_and_columns_are_short_when_printed() -> None:
    recording = read_recording(EXAMPLES / "trace.jsonl")
    assert repr(recording) == "<Recording: 17 calls of 1 account, 2 left out>"
    assert repr(columns_of(recording)) == "<Columns: 16 calls of 1 account, 3 left out>"


def test_a_table_under_the_name_of_the_other_kind_is_read(tmp_path: Path) -> None:
    for path in (
        write_csv(tmp_path / "calls.parquet", [row()]), write_csv(tmp_path / "calls.tsv", [row()], "\t"),
        write_parquet(tmp_path / "calls.csv", [row()]),
    ):  # fmt: skip
        assert read_recording(path).calls[0].at == NOON


# The same calls


def example_rows() -> list[dict[str, Any]]:
    with (EXAMPLES / "calls.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_trace_as_csv_and_as_parquet(tmp_path: Path) -> None:
    trace = columns_of(read_recording(EXAMPLES / "trace.jsonl"))
    as_csv = EXAMPLES / "calls.csv"
    packed = tmp_path / "calls.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + as_csv.read_bytes()))
    semicolons = write_csv(tmp_path / "calls.txt", example_rows(), ";")
    rows = [
        line
        | {"ts": datetime.fromisoformat(line["ts"]), "code": int(line["code"]), "more": [1.5]}
        | {"payload": json.loads(line["payload"]) if "kind" in line["payload"] else None}
        for line in example_rows()
    ]
    parquet = write_parquet(tmp_path / "calls", example_rows())
    for path in (as_csv, packed, semicolons, parquet):
        same(columns_of(read_recording(path, columns_are=AS_NAMED)), trace)
    typed = columns_of(read_recording(write_parquet(tmp_path / "typed", rows), columns_are=AS_NAMED))
    calls = np.concatenate(list(trace.chunks()))
    of_typed = np.concatenate(list(typed.chunks()))  # the two jobs and the two looks at them
    np.testing.assert_array_equal(of_typed["at"], calls["at"][-4:])
    np.testing.assert_array_equal(of_typed["activity"], calls["activity"][-4:])


def test_an_access_log_as_csv_and_as_parquet(tmp_path: Path) -> None:
    rules = read_rules(EXAMPLES / "rules.yaml")
    log = read_recording(EXAMPLES / "access.log", rules)
    lines = (EXAMPLES / "access.log").read_text(encoding="utf-8").splitlines()
    rows = [
        {
            "time": datetime.strptime(line[line.index("[") + 1 : line.index("]")], "%d/%b/%Y:%H:%M:%S %z"),
            "account": line.split()[0],
            "method": line.split('"')[1].split()[0],
            "path": "https://api.example" + line.split('"')[1].split()[1],
            "status": float(line.split()[8]),
        }
        for line in lines
    ]
    for path in (write_csv(tmp_path / "log.csv", rows), write_parquet(tmp_path / "log.parquet", rows)):
        table = read_recording(path, rules)
        assert table.left_out == log.left_out
        same(columns_of(table), columns_of(log))


def test_what_columns_hold_beside_the_usual(tmp_path: Path) -> None:
    body = {"kind": "rank_run", "note": 'a "quoted"\nline'}
    calls = [
        row(path="/v1/domains?limit=5", key="", error_code="", idempotency_key="", body=""),
        row(method="post", path="/v1/jobs", status=409, key="second", error_code="cooldown_active",
            idempotency_key="again", body=json.dumps(body, indent=1)),
        row(account="", key="", error_code="", idempotency_key="", body=""),
        row(status="", key="", error_code="", idempotency_key="", body=""),
        row(path="//[", key="", error_code="", idempotency_key="", body=""),
    ]  # fmt: skip
    recording = read_recording(write_csv(tmp_path / "calls.csv", calls))
    first, second, unanswered = recording.calls
    assert (first.query, first.key, first.body) == ({"limit": "5"}, "log", None)
    assert (second.key, second.code, second.idempotency_key) == ("second", "cooldown_active", "again")
    assert (second.operation, second.body) == ("jobs.create", body)
    assert unanswered.status is None
    assert unanswered.id == f"{tmp_path / 'calls.csv'}:8"  # the body takes four lines
    assert recording.left_out == {"without an account": 1, "of an unknown operation": 1}


@pytest.mark.parametrize("response", [{"error": {"code": "quota_exhausted"}}, {"error": "no"}, "no", ""])
def test_the_code_of_a_refusal_is_that_of_its_column_or_its_response(tmp_path: Path, response: Any) -> None:
    body = json.dumps({"kind": "crawl", "domain_id": "dom_7"})
    call = row(method="POST", path="/v1/jobs", status=402, body=body, error_code="")
    call |= {"response": json.dumps(response) if response else ""}
    coded = {**call, "error_code": "quota_exhausted"}
    made = row(method="POST", path="/v1/jobs", status=201, body=body, error_code="none")
    made |= {"response": json.dumps({"data": {"id": "job_1"}})}
    recording = read_recording(write_csv(tmp_path / "calls.csv", [coded, made]))
    assert [each.code for each in recording.calls] == ["quota_exhausted", ""]
    assert [len(each.made) for each in recording.calls] == [0, 1]
    (alone,) = read_recording(write_csv(tmp_path / "alone.csv", [call])).calls
    assert alone.code == ("quota_exhausted" if "code" in str(response) else "")
    words = ["price", "import", str(tmp_path / "alone.csv"), "--columns", str(tmp_path / "alone.parquet")]
    text = CliRunner().invoke(app, words).stdout
    assert (
        "Note: of 1 refused call nobody says the error code" in text and "429 without a code is" in text
    ) is (alone.code == "")
    assert recorded_outcome(alone) == (Decision.QUOTA_EXHAUSTED if alone.code else UNSTATED)


def test_a_rule_makes_up_only_what_was_not_recorded(tmp_path: Path) -> None:
    recorded = {"kind": "rank_run", "domain_id": "dom_7"}
    jobs = [row(method="POST", path="/v1/jobs", body=body) for body in (recorded, None)]
    of_another = row(body={"size": 5})  # so that Parquet has a null there in the others
    table = write_parquet(tmp_path / "calls.parquet", [*jobs, of_another])
    first, second, _ = read_recording(table, read_rules(EXAMPLES / "rules.yaml")).calls
    assert (first.body, first.drafted) == (recorded, False)
    assert (second.body, second.drafted) == ({"kind": "crawl"}, True)


def test_a_rule_holds_for_a_trace_too() -> None:
    ruled = read_recording(EXAMPLES / "trace.jsonl", [RecordingRule(method="POST", operation="jobs.create")])
    assert [call.operation for call in ruled.calls if call.drafted] == ["jobs.create"]
    assert "without a body, and no rule of --map gives one" not in ruled.left_out


def test_a_column_stands_for_one_field(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "calls.csv", [row(error_code=404)])
    recording = read_recording(path, columns_are={"status": "error_code"})
    assert (recording.calls[0].status, recording.calls[0].code) == (404, "")


# Instants

SECONDS = NOON // 10**6


@pytest.mark.parametrize(
    "text",
    [
        "2026-09-02T12:00:00Z", "2026-09-02 12:00:00", "2026-09-02 12:00:00 UTC", "2026-09-02 14:00:00+02",
        "2026-09-02T12:00:00.000000+00:00", SECONDS, f"{SECONDS}.0", "1.7883504E9", SECONDS * 1000, NOON,
    ],
)  # fmt: skip
def test_instants_as_warehouses_write_them(text: object, tmp_path: Path) -> None:
    assert read_recording(write_csv(tmp_path / "calls.csv", [row(time=text)])).calls[0].at == NOON


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_of_parquet(unit: str, zone: str | None, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra `plots`")
    from pyarrow import parquet

    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    at = pa.array([SECONDS * per_second + per_second // 2 + (unit == "ns")], pa.timestamp(unit, zone))
    table = pa.Table.from_pylist([row()]).set_column(0, "time", at)
    parquet.write_table(table, tmp_path / "calls", coerce_timestamps=None, version="2.6")
    half = 0 if unit == "s" else 500_000
    assert read_recording(tmp_path / "calls").calls[0].at == NOON + half


@given(st.datetimes(datetime(1973, 3, 4), datetime(2400, 1, 1), timezones=st.just(UTC)))
def test_an_epoch_is_of_the_unit_that_its_size_tells(moment: datetime) -> None:
    from ranksim.core.tables import _instant

    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    micros = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    assert _instant(str(micros)) == _instant(moment.isoformat()) == micros
    assert _instant(f"{micros // 10**6}.{micros % 10**6:06d}") == micros
    assert _instant(str(micros // 1000)) == micros // 1000 * 1000


# Accounts


def accounts(recording: Recording) -> list[str]:
    return [call.account for call in recording.calls]


def test_accounts_are_users_of_a_log_columns_or_headers(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    line = '192.0.2.1 - {} [02/Sep/2026:12:00:00 +0000] "GET /v1/domains HTTP/1.1" 200 1\n'
    log.write_text(line.format("ann") + line.format("-") + line.format("bob"), encoding="utf-8")
    users = read_recording(log, account_from="user")
    assert (accounts(users), users.left_out) == (["ann", "bob"], {"without an account": 1})
    for given_ in ("", "address"):
        assert accounts(read_recording(log, account_from=given_)) == ["192.0.2.1"] * 3
    table = write_csv(tmp_path / "calls.csv", [row(tenant="t1"), row(tenant="t2")])
    assert accounts(read_recording(table, account_from="tenant")) == ["t1", "t2"]
    trace = tmp_path / "trace.jsonl"
    exchange = {
        "kind": "exchange", "id": "x1", "sent": NOON, "received": NOON, "api_key": "main", "operations": [],
        "method": "GET", "path": "/v1/domains", "status": 200, "request_headers": {"x-tenant": "t3"},
    }  # fmt: skip
    header = {"ranksim_trace": 1, "keys": {"main": {"account": "acme"}}}
    lines = (header, exchange, exchange | {"id": "x2", "request_headers": {}})
    trace.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    headers = read_recording(trace, account_from="X-Tenant")
    assert (accounts(headers), headers.left_out) == (["t3"], {"without an account": 1})


# Wrong inputs

HEAD = "time,account,method,path,status\n"
GOOD = "2026-09-02,acme,GET,/v1/domains,200\n"


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("", "", "calls.csv:1: expected one column 'time', the time of each call, found an empty line"),
        ("ts,account,method,path\n", "", ":1: expected one column 'time', the time of each call, found 'ts,"),
        (HEAD + GOOD, "--columns-are body=payload", ":1: expected one column 'payload', the body of each"),
        (HEAD + GOOD, "--account-from tenant", ":1: expected one column 'tenant', the account of each call"),
        (HEAD + GOOD, "--columns-are tiem=ts", "no such field of a call 'tiem'; did you mean 'time'?"),
        (HEAD + GOOD, "--columns-are time", "--columns-are: expected FIELD=COLUMN such as time=ts, found"),
        (HEAD + GOOD, "--columns-are account=a --account-from b", "name two columns of accounts; give one"),
        ("path," + HEAD + GOOD, "", ":1: expected one column 'path', the path of each call, found several"),
        (HEAD + GOOD + "2026-09-02,acme,GET\n", "", ":3: expected 5 values, as many as the first line"),
        (HEAD + GOOD.replace("2026-09-02", "noon"), "", ":2: time: expected an instant such as 2026"),
        (HEAD + GOOD.replace("2026-09-02", "20260902"), "", ":2: time: expected an instant such as 2026"),
        (HEAD + GOOD.replace("2026-09-02", "1969-09-02"), "", ":2: time: expected an instant such as 2026"),
        (HEAD + GOOD.replace("2026-09-02", "NaN"), "", ":2: time: expected an instant such as 2026"),
        (HEAD + GOOD.replace("200", "OK"), "", ":2: status: expected 100 to 599, or nothing where no reply"),
        (HEAD + GOOD.replace("acme", '"ac\\"me"'), "", ":2: expected CSV, in which a quote within quotes is"),
        (HEAD + GOOD.replace("acme", '"acme'), "", ":2: expected CSV, in which a quote within quotes is"),
        (HEAD + GOOD.replace("acme", ""), "", "(1 without an account); say with --account-from"),
        (HEAD + GOOD.replace("GET", "PUT"), "", "(1 of an unknown operation); record calls of this API; of"),
        (HEAD + GOOD.replace("GET", "POST"), "", "(1 without a body, and no rule of --map gives one)"),
        (HEAD, "", "no call of it can be replayed (it holds none)"),
    ],
)  # fmt: skip
def test_wrong_tables(text: str, flags: str, message: str, tmp_path: Path) -> None:
    path, out = tmp_path / "calls.csv", tmp_path / "out.parquet"
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(
        app, ["price", "import", str(path), "--columns", str(out), *flags.split()], env={"COLUMNS": "300"}
    )
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert not out.exists()


def test_a_back_test_maps_columns_as_an_import_does(tmp_path: Path) -> None:
    path = EXAMPLES / "calls.csv"
    words = ["price", "back-test", str(path), "--plan", "starter", "--plan", "pro", "--json"]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "500"})
    assert (result.exit_code, "--columns-are time=COLUMN" in result.stderr) == (2, True), result.stderr
    columns = ",".join(f"{field}={column}" for field, column in AS_NAMED.items())
    of_table = CliRunner().invoke(app, [*words, "--columns-are", columns])
    assert of_table.exit_code == 0, of_table.stderr
    of_trace = CliRunner().invoke(app, [*words[:2], str(EXAMPLES / "trace.jsonl"), *words[3:]])
    tables = [json.loads(each.stdout)["tables"] for each in (of_table, of_trace)]
    assert tables[0]["refusals"] == tables[1]["refusals"] != []
    assert [row["cost"] for row in tables[0]["invoices"]] == [row["cost"] for row in tables[1]["invoices"]]
    bad = tmp_path / "calls.csv"
    bad.write_text(HEAD + GOOD + GOOD.replace("2026-09-02", "noon"), encoding="utf-8")
    words = ["price", "back-test", str(bad), "--plan", "pro"]
    stopped = CliRunner().invoke(app, words, env={"COLUMNS": "500"})
    assert (stopped.exit_code, "cannot be read with --skip-bad" in stopped.stderr) == (2, True)
    skipped = CliRunner().invoke(app, [*words, "--skip-bad"], env={"COLUMNS": "500"}).stdout
    assert "Not replayed: 1 in lines or rows that cannot be read." in skipped
    assert f"The first that cannot be read is {bad}:3: time: expected an instant" in skipped


def test_a_back_test_reads_parquet_whose_columns_are_said(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "calls.parquet", [row(who="t1"), row(who="t2", time=NOON + 1)])
    words = ["price", "back-test", str(path), "--plan", "pro", "--json"]
    answer = CliRunner().invoke(app, [*words, "--account-from", "who"])
    assert answer.exit_code == 0, answer.stderr
    assert {call["account"] for call in json.loads(answer.stdout)["tables"]["calls"]} == {"t1", "t2"}


BAD = (
    (HEAD + GOOD + GOOD.replace("2026-09-02", "noon") + "1,2\n" + GOOD, ":3: time: expected an instant", 2),
    (HEAD + GOOD + GOOD.replace("acme", '"ac\nme"x') + GOOD, ":3: expected CSV, in which a quote", 2),
)


@pytest.mark.parametrize(("text", "first", "count"), BAD, ids=["values", "quotes over two lines"])
def test_rows_that_cannot_be_read_are_skipped_and_counted(
    text: str, first: str, count: int, tmp_path: Path
) -> None:
    path, out = tmp_path / "calls.csv", tmp_path / "out.parquet"
    path.write_text(text, encoding="utf-8")
    words = ["price", "import", str(path), "--columns", str(out)]
    stopped = CliRunner().invoke(app, words, env={"COLUMNS": "500"})
    assert stopped.exit_code == 2
    assert "; or leave out what cannot be read with --skip-bad" in stopped.stderr
    result = CliRunner().invoke(app, [*words, "--skip-bad"])
    assert result.stdout.startswith("2 calls of 1 account"), result.output
    assert f"Left out: {count} in lines or rows that cannot be read.\nThe first that cann" in result.stdout
    assert f"{path}{first}" in result.stdout


def test_lines_of_logs_and_rows_of_parquet_are_skipped(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(b"\xff\nnonsense\n" + (EXAMPLES / "access.log").read_bytes())
    clean, damaged = read_recording(EXAMPLES / "access.log"), read_recording(log, skip_bad=True)
    assert len(damaged.calls) == len(clean.calls)
    assert damaged.left_out - clean.left_out == {"in lines or rows that cannot be read": 2}
    table = read_recording(write_parquet(tmp_path / "calls", [row(status=7), row()]), skip_bad=True)
    assert (len(table.calls), table.first_bad.partition(", ")[0].rpartition(" row ")[2][:9]) == (
        1,
        "1: status",
    )
    log.write_bytes(b"\xff\nnonsense\n")
    with pytest.raises(
        BadInput, match=r"no call .* \(2 in lines or rows .*\); .*access.log:1: expected UTF-8"
    ):
        read_recording(log, skip_bad=True)
    with pytest.raises(BadInput, match="is a trace, of which nothing is skipped; leave --skip-bad out"):
        read_recording(EXAMPLES / "trace.jsonl", skip_bad=True)


def test_rows_that_say_the_same_are_told_and_those_of_one_request_id_counted_once(tmp_path: Path) -> None:
    """Of the same values nobody knows whether a call was made again; a request id tells that it was not."""
    path, out = tmp_path / "calls.csv", tmp_path / "out.parquet"
    calls = [row(), row(status=404), row(), row(), row(time=NOON + 1)]
    words = ["price", "import", str(path), "--columns", str(out)]
    write_csv(path, calls)
    recording = read_recording(path)
    assert (len(recording.calls), recording.duplicates.alike) == (5, 2)
    alike = "Calls that say in all that is read what an earlier one says: 2, the first at calls.csv:4; each"
    result = CliRunner().invoke(app, words)
    assert f"\nNote: {alike} counts, and is billed, as" in result.stdout, result.output
    assert "--columns-are request_id=COLUMN." in result.stdout
    for recorded in (path, out):
        answer = CliRunner().invoke(app, ["price", "back-test", str(recorded), "--plan", "pro"])
        assert alike in " ".join(answer.output.split()), answer.output
    named = [call | {"rid": f"r{number // 2}"} for number, call in enumerate([*calls, calls[-1]])]
    write_csv(path, [*named, named[2]])
    flags = ["--columns-are", "request_id=rid"]
    result = CliRunner().invoke(app, [*words, *flags])
    assert result.stdout.startswith("4 calls of 1 account"), result.output
    assert "Left out: 3 with the request id and all values of an earlier one.\n" in result.stdout
    assert "an earlier one, 3 were left out, the first at calls.csv:5." in result.stdout
    assert alike[:20] not in result.stdout
    same(
        columns_of(read_recording(path, columns_are={"request_id": "rid"})),
        columns_of(read_recording(write_parquet(tmp_path / "calls", [*named, named[2]]),
                                  columns_are={"request_id": "rid"})),
    )  # fmt: skip


def test_lines_of_a_log_that_say_the_same_are_told(tmp_path: Path) -> None:
    line = '192.0.2.1 - - [02/Sep/2026:12:00:00 +0000] "GET /v1/domains HTTP/1.1" 200 1\n'
    log = tmp_path / "access.log"
    log.write_text(line + line.replace("200", "404") + line, encoding="utf-8")
    recording = read_recording(log)
    assert (len(recording.calls), recording.duplicates.first_alike) == (3, "access.log:3")


def test_a_body_that_is_no_json_stops_nothing_and_is_told(tmp_path: Path) -> None:
    broken = row(method="POST", path="/v1/jobs", body='{"domain_id": ')
    path = write_csv(tmp_path / "calls.csv", [row(body=""), broken])
    out = tmp_path / "out.parquet"
    result = CliRunner().invoke(app, ["price", "import", str(path), "--columns", str(out)])
    assert result.exit_code == 0, result.output
    assert "Left out: 1 with a body that is no JSON object, and no rule of --map gives one." in result.stdout
    first = (
        f"The first that cannot be read is {path}:3: body: expected a JSON object, found '{{\"domain_id\":'."
    )
    assert first in result.stdout


def test_wrong_parquet_and_logs(tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    wrong = write_parquet(tmp_path / "wrong.parquet", [row(), row(status=7)])
    for path, message in (
        (broken, "expected a complete Parquet file"),
        (wrong, "wrong.parquet: row 2: status: exp"),
    ):
        with pytest.raises(BadInput) as error:
            read_recording(path)
        assert message in str(error.value)
    with pytest.raises(
        BadInput, match=r"an access log has user or address, found 'X-Tenant'; write its calls"
    ):
        read_recording(EXAMPLES / "access.log", account_from="X-Tenant")


def test_columns_are_no_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra `plots`")

    path = tmp_path / "columns.parquet"
    save_columns(columns_of(read_recording(EXAMPLES / "trace.jsonl")), path, "salt")
    with pytest.raises(BadInput, match="has recorded calls as columns; give it to ranksim price back-test"):
        read_recording(path)


def test_a_column_of_units_says_what_jobs_want(tmp_path: Path) -> None:
    body = json.dumps({"kind": "crawl", "domain_id": "dom_7"})
    crawl = {"method": "POST", "path": "/v1/jobs", "status": 202, "body": body}
    crawls = [row(**crawl, pages=pages, time=NOON + n) for n, pages in enumerate(("", "70", "30.0", "0"))]
    path = write_csv(tmp_path / "calls.csv", [*crawls, row(pages="5", time=NOON + 9)])
    recording = read_recording(path, columns_are={"units": "pages"})
    assert [call.units for call in recording.calls] == [70, 70, 30, 0, None]
    (chunk,) = columns_of(recording).chunks()
    assert chunk["size"].tolist() == [71, 71, 31, 1, 0]
    copy = tmp_path / "trace.jsonl"
    words = ["trace", "import", str(path), "--columns-are", "units=pages", "--out", str(copy)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert [call.units for call in read_recording(copy).calls][:4] == [70, 70, 30, 0]
    for pages in ("7.5", "-1", "many", "2000000000"):
        wrong = write_csv(tmp_path / "wrong.csv", [row(**crawl, units=pages)])
        with pytest.raises(
            BadInput, match=r"wrong.csv:2: units: expected a whole number of pages, questions"
        ):
            read_recording(wrong)
