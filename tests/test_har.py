"""HAR files and access logs as traces: nothing is accused for what was not recorded."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim import cli
from ranksim.core.errors import BadInput
from ranksim.core.har import ImportOptions, trace_of
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.conformance.compare import compare

ROOT = Path(__file__).parents[1]
API = "https://api.example.com"
RECORDED = ROOT / "notebooks/data/everyday.jsonl.gz"


def har_of(trace: Trace, base: str = "https://api.example.com", **tokens: str) -> dict[str, Any]:
    """A trace as another tool would have recorded it: by the millisecond, with tokens."""

    def pairs(values: Any) -> list[dict[str, str]]:
        return [{"name": name, "value": value} for name, value in values.items()]

    def entry(seen: Exchange) -> dict[str, Any]:
        query = "&".join(f"{name}={value}" for name, value in (seen.query or {}).items())
        started = datetime.fromtimestamp(seen.sent // 1000 / 1000, UTC).isoformat(timespec="milliseconds")
        headers = {**(seen.request_headers or {}), "Authorization": f"Bearer {seen.api_key}-token"}
        return {
            "startedDateTime": started,
            "time": round(((seen.received or seen.sent) - seen.sent) / 1000, 3),
            "request": {
                "method": seen.method,
                "url": f"{base}{seen.path}" + (f"?{query}" if query else ""),
                "headers": pairs(headers),
                "postData": {"text": seen.body} if seen.body else None,
                "bodySize": len(seen.body or ""),
            },
            "response": {
                "status": seen.status or 0,
                "headers": pairs(seen.response_headers or {}),
                "content": {"size": len(seen.response or ""), "text": seen.response or ""},
            },
        }

    return {"log": {"version": "1.2", "entries": [entry(seen) for seen in trace.exchanges]}}


def written(folder: Path, har: dict[str, Any], name: str = "session.har") -> Path:
    path = folder / name
    path.write_text(json.dumps(har), encoding="utf-8")
    return path


def one_call(**more: Any) -> dict[str, Any]:
    request = {
        "method": "GET",
        "url": "https://api.example.com/v1/domains?limit=2",
        "headers": [],
        "bodySize": 0,
    }
    content = {"size": 2, "text": "{}"}
    entry = {
        "startedDateTime": "2026-03-04T10:00:00.250+01:00",
        "time": 12.5,
        "request": request | more.pop("request", {}),
        "response": {"status": 200, "headers": [], "content": content} | more.pop("response", {}),
    }
    return {"log": {"entries": [entry | more]}}


def test_a_har_of_a_trace_gives_the_verdicts_of_the_trace(tmp_path: Path) -> None:
    """All that is decided natively and needs neither webhooks nor finer instants is decided alike."""
    original = Trace.read(RECORDED)
    path = written(tmp_path, har_of(original))
    imported, notes = trace_of([path], ImportOptions(complete=True, exclusive=True))
    assert len(imported.exchanges) == len(original.exchanges)
    accounts = {key.account for key in imported.header.keys.values() if key.account}
    assert accounts <= {key.account for key in original.header.keys.values()}
    native, foreign = compare(original), compare(imported)
    deviating = {finding.rule.name for finding in native.deviating}
    assert {finding.rule.name for finding in foreign.deviating} <= deviating
    conform = {
        side: {finding.rule.name for finding in judgement.findings if str(finding.verdict) == "conforms"}
        for side, judgement in (("native", native), ("foreign", foreign))
    }
    assert len(conform["foreign"]) > 0.7 * len(conform["native"]), notes


def test_instants_are_wide_enough_for_what_was_rounded(tmp_path: Path) -> None:
    trace, _ = trace_of([written(tmp_path, one_call())], ImportOptions())
    [call] = trace.exchanges
    at = 1_772_614_800_250_000
    assert (call.sent, call.received) == (at - 1_000, at + 12_500 + 1_000)
    assert (call.path, call.query, call.environment) == ("/v1/domains", {"limit": "2"}, "production")
    assert (call.body, call.response, call.status) == ("", "{}", 200)


def test_what_is_not_there_is_not_recorded_and_no_secret_is_kept(tmp_path: Path) -> None:
    secret = '{"data":{"signing_secret":"whsec_abc"}}'
    packed = {"size": 9, "text": base64.b64encode(secret.encode()).decode(), "encoding": "base64"}
    token = [{"name": "authorization", "value": "Bearer rk_live_7"}, {"name": "Cookie", "value": "c"}]
    har = one_call(request={"method": "POST", "headers": token, "bodySize": 40}, response={"content": packed})
    har["log"]["entries"] += one_call(response={"status": 0})["log"]["entries"]
    har["log"]["entries"] += one_call(response={"content": {"size": 5}})["log"]["entries"]
    trace, notes = trace_of([written(tmp_path, har)], ImportOptions())
    created, lost, blank = trace.exchanges
    assert created.api_key == "key-1"
    assert created.body is None
    assert created.request_headers == {}
    assert "whsec_abc" not in (created.response or "")
    assert (lost.status, lost.received, lost.api_key) == (None, None, "")
    assert blank.response is None
    text = "".join(entry.model_dump_json() for entry in trace.exchanges) + trace.header.model_dump_json()
    assert "rk_live_7" not in text
    assert any("key-1 is" in note for note in notes)
    assert any("of 2 calls no key was recorded" in note for note in notes)


def test_other_addresses_are_left_out_and_several_files_are_one_run(tmp_path: Path) -> None:
    other = one_call(request={"url": "https://cdn.example.net/app.js"})
    early = one_call(startedDateTime="2026-03-04T08:00:00Z")
    account = '{"data":{"id":"acct_9"}}'
    token = [{"name": "Authorization", "value": "Bearer x"}]
    mine = one_call(
        request={"url": "https://api.example.com/v1/account", "headers": token},
        response={"content": {"size": 9, "text": account}},
    )
    files = [written(tmp_path, har, f"{at}.har") for at, har in enumerate((other, mine, early))]
    trace, notes = trace_of(files, ImportOptions())
    assert [call.id for call in trace.exchanges] == ["3.1", "2.1"]
    assert trace.header.keys["key-1"].account == "acct_9"
    assert "1 calls of other addresses were left out" in notes
    assert not trace.header.exclusive
    assert trace.header.capture == "partial"


def test_an_access_log_accuses_nobody(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    lines = [
        f'10.0.0.{1 + number % 2} - - [04/Mar/2026:10:00:{number:02d} +0000] "GET /v1/domains?limit=2 '
        f'HTTP/1.1" {429 if number > 50 else 200} 512'
        for number in range(60)
    ]
    log.write_text("\n".join([*lines, lines[0].replace("/v1/domains?limit=2", "/health")]), encoding="utf-8")
    for options in (ImportOptions(), ImportOptions(by_client=True), ImportOptions(one_key=True)):
        trace, _ = trace_of([log], options)
        assert len(trace.exchanges) == 60
        assert not compare(trace).deviating
    assert len(trace_of([log], ImportOptions(by_client=True))[0].header.keys) == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"log": {}}', "expected a HAR file"),
        ('{"log": {"entries": [{}]}}', "expected a HAR file"),
        ('{"log": {"entries": []}}', "has no call of the API"),
        ("hello", "expected a line of an access log"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "file"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=why):
        trace_of([path], ImportOptions())


def test_two_addresses_that_look_like_the_api_are_asked_for(tmp_path: Path) -> None:
    har = one_call()
    har["log"]["entries"] += one_call(request={"url": "https://other.example.com/v1/x"})["log"]["entries"]
    path = written(tmp_path, har)
    with pytest.raises(BadInput, match=r"^--host: expected which of"):
        trace_of([path], ImportOptions())
    trace, _ = trace_of([path], ImportOptions(hosts={"production": "https://api.example.com"}))
    assert len(trace.exchanges) == 1


def test_the_command_writes_a_trace_that_compare_reads(tmp_path: Path) -> None:
    path, out = written(tmp_path, har_of(Trace.read(RECORDED))), tmp_path / "trace.jsonl.gz"
    ran = CliRunner().invoke(
        cli.app, ["trace", "import", str(path), "--out", str(out), "--account", "key-1=acme"]
    )
    assert ran.exit_code == 0, ran.output
    assert ran.output.splitlines()[-1] == f"next: ranksim compare {out}"
    assert Trace.read(out).header.keys["key-1"].account == "acme"
    wrong = CliRunner().invoke(
        cli.app, ["trace", "import", str(path), "--out", str(out), "--account", "key-77=a"]
    )
    assert wrong.exit_code == 2


def test_accounts_that_nothing_tells_are_asked_for_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked tells the key's calls, as its token is shown nowhere."""
    tokens = [[{"name": "Authorization", "value": f"Bearer secret-{number}"}] for number in range(3)]
    hars = [one_call(request={"url": f"{API}/v1/domains", "headers": token}) for token in tokens]
    entries = [entry for har in hars for entry in har["log"]["entries"]]
    path, out = written(tmp_path, {"log": {"entries": entries}}), tmp_path / "trace.jsonl"
    words = ["trace", "import", str(path), "--out", str(out), "--account", "key-2=acct_2"]
    asked, given = list[str](), iter(["acct_1 ", ""])

    def prompt(question: str, **options: object) -> str:
        asked.append(question)
        return next(given)

    monkeypatch.setattr("ranksim.bridges.trace_import_cli.typer.prompt", prompt)
    for terminal, owners in ((False, ["", "acct_2", ""]), (True, ["acct_1", "acct_2", ""])):
        stdin = SimpleNamespace(isatty=partial(bool, terminal))
        monkeypatch.setattr("ranksim.bridges.trace_import_cli.sys", SimpleNamespace(stdin=stdin))
        done = CliRunner().invoke(cli.app, words)
        assert done.exit_code == 0, done.output
        assert [key.account for key in Trace.read(out).header.keys.values()] == owners
        out.unlink()
    assert [question.partition(" at ")[0] for question in asked] == [
        f"The account of key-{number} (1 call, the first GET /v1/domains" for number in (1, 3)
    ]
    assert "secret" not in str(asked)
    assert "whose key-3 is, no GET /v1/account tells" in done.output


def test_calls_of_an_unknown_operation_are_counted(tmp_path: Path) -> None:
    calls = ["GET,/v1/usage", "GET,/v1/domains/", "POST,/graphql", "OPTIONS,/v1/jobs", "PUT,/v1/domains"]
    table = tmp_path / "calls.csv"
    lines = (f"2026-03-04T10:00:0{number}Z,{call},200" for number, call in enumerate(calls))
    table.write_text("\n".join(["time,method,path,status", *lines]))
    trace, notes = trace_of([table], ImportOptions(one_key=True))
    assert len(trace.exchanges) == len(calls)
    assert "calls of an unknown operation: 2, the first GET /v1/usage" in notes
    table.write_text("\n".join(["time,method,path,status", "2026-03-04T10:00:00Z,GET,/v1/jobs,200"]))
    _, notes = trace_of([table], ImportOptions(one_key=True))
    assert not any("unknown operation" in note for note in notes)


def test_a_table_of_calls_becomes_a_trace(tmp_path: Path) -> None:
    """Columns have the names that are given; an account has a key; what is not there is not recorded."""
    table, out = tmp_path / "calls.csv", tmp_path / "trace.jsonl"
    table.write_text(
        "ts;customer;verb;url;code;took;why\n"
        "2026-03-04T10:00:00.250Z;acme;get;/v1/domains?limit=2;200;12.5;\n"
        "2026-03-04T10:00:01Z;bolt;POST;https://api.example.com/v1/scans;429;3;rate_limited\n"
        "2026-03-04T10:00:02Z;acme;GET;/v1/jobs;;;\n"
        "2026-03-04T10:00:03Z;acme;GET;/health;200;1;\n"
    )
    columns = "time=ts,account=customer,method=verb,path=url,status=code,duration_ms=took,error_code=why"
    words = ["trace", "import", str(table), "--out", str(out), "--columns-are", columns]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    assert "3 calls; keys: key-1 of acme, key-2 of bolt" in done.output
    trace = Trace.read(out)
    by_path = {call.path: call for call in trace.exchanges}
    listed, refused, lost = (by_path[f"/v1/{name}"] for name in ("domains", "scans", "jobs"))
    at = 1_772_618_400_250_000
    assert (listed.sent, listed.received) == (at - 1_000, at + 12_500 + 1_000)
    assert (listed.method, listed.query, listed.api_key, listed.status) == (
        "GET",
        {"limit": "2"},
        "key-1",
        200,
    )
    assert (refused.sent, refused.received) == (at - 250_000, at + 1_753_000)
    assert (refused.query, refused.body, refused.response, refused.error) == (
        None,
        None,
        None,
        "rate_limited",
    )
    assert (lost.status, lost.received) == (None, None)
    assert not compare(trace).deviating


def test_a_call_of_a_table_without_its_length_lies_within_the_longest(tmp_path: Path) -> None:
    rows = [{"time": "2026-03-04T10:00:00.250Z", "method": "GET", "path": "/v1/domains", "status": 200}]
    table, packed = tmp_path / "calls.csv", tmp_path / "calls.parquet"
    table.write_text("\n".join(",".join(map(str, part)) for part in (rows[0], rows[0].values())))
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra `plots`")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), packed)
    at = 1_772_618_400_250_000
    for path in (table, packed):
        trace, notes = trace_of([path], ImportOptions(longest=2_000_000, one_key=True))
        [call] = trace.exchanges
        assert (call.sent, call.received) == (at - 2_000_000, at + 2_001_000)
        assert (call.api_key, trace.header.keys["key-1"].account) == ("key-1", "")
        unnamed, notes = trace_of([path], ImportOptions())
        assert unnamed.exchanges[0].api_key == ""
        assert any("no key was recorded" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "columns", "why"),
    [
        ("time,method,path\nnoon,GET,/v1/domains\n", "", "calls.csv:2: time: expected an instant such as"),
        ("time,method,url\n", "", "calls.csv:1: expected one column 'path', the path of each call, found"),
        ("time,method,path\n1772618400,GET\n", "", "calls.csv:2: expected 3 values"),
        (
            "time,method,path,duration_s\n1772618400,GET,/v1/domains,nan\n", "",
            "calls.csv:2: duration_s: expected a number from 0 on, of less than a day, found 'nan'",
        ),
        ("time,method,path\n", "verb=x", "--columns-are: no such field of a call 'verb'"),
        ("time,method,path\n", "verb", "--columns-are: expected FIELD=COLUMN such as time=ts, found 'verb'"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_refused_with_its_row(
    tmp_path: Path, text: str, columns: str, why: str
) -> None:
    table = tmp_path / "calls.csv"
    table.write_text(text)
    words = ["trace", "import", str(table), "--out", str(tmp_path / "trace.jsonl"), "--columns-are", columns]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 2
    assert why in " ".join(done.stderr.split()).replace(f"{tmp_path}/", "")


def test_lines_and_rows_that_cannot_be_read_are_skipped_and_counted(tmp_path: Path) -> None:
    """`trace import` has the flag of `price import`, in its words; what is there twice is told."""
    log, table, out = tmp_path / "access.log", tmp_path / "calls.csv", tmp_path / "trace.jsonl"
    line = '10.0.0.1 - - [04/Mar/2026:10:00:00 +0000] "GET /v1/domains HTTP/1.1" 200 5\n'
    log.write_text(f"nonsense\n{line}more\n{line}")
    head, good = "time,method,path,request_id\n", "1772618400,GET,/v1/domains,r{}\n"
    table.write_text(head + good.format(1) + good.format(2).replace("1772618400", "noon") + good.format(1))
    words = ["trace", "import", str(log), str(table), "--out", str(out)]
    stopped = CliRunner().invoke(cli.app, words)
    assert stopped.exit_code == 2
    text = " ".join(stopped.stderr.split())
    assert text.endswith("found 'nonsense'; or leave out what cannot be read with --skip-bad"), text
    done = CliRunner().invoke(cli.app, [*words, "--skip-bad"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("3 calls; keys"), done.output
    first = f"the first that cannot be read is {log}:1: expected a line of an access log, such as"
    assert f"note: left out: 3 in lines or rows that cannot be read\nnote: {first}" in done.output
    assert "and the request id of an earlier one, 1 were left out, the first at calls.csv:4" in done.output
    assert "what an earlier one says: 1, the first at access.log:4; each" in done.output
    har = written(tmp_path, one_call())
    refused = CliRunner().invoke(cli.app, ["trace", "import", str(har), "--out", str(out), "--skip-bad"])
    assert "is a HAR file, of which nothing is skipped; leave --skip-bad out" in " ".join(
        refused.stderr.split()
    )
    log.write_text("nonsense\n")
    with pytest.raises(BadInput, match=r"among 0; .*access\.log:1: expected a line"):
        trace_of([log], ImportOptions(skip_bad=True))


def test_accounts_come_from_the_user_of_a_log_or_a_header(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(
        "".join(
            f'10.0.0.1 - {user} [04/Mar/2026:10:00:0{at} +0000] "GET /v1/domains HTTP/1.1" 200 5\n'
            for at, user in enumerate(("acme", "bolt", "acme", "-"))
        )
    )
    trace, _ = trace_of([log], ImportOptions(account_from="user"))
    assert [key.account for key in trace.header.keys.values()] == ["acme", "bolt"]
    assert [call.api_key for call in trace.exchanges] == ["key-1", "key-2", "key-1", ""]
    with pytest.raises(BadInput, match="an access log has user or address, found 'X-Customer'"):
        trace_of([log], ImportOptions(account_from="X-Customer"))
    har = one_call(request={"headers": [{"name": "x-customer", "value": "acme"}]})
    trace, _ = trace_of([written(tmp_path, har)], ImportOptions(account_from="X-Customer"))
    assert {name: key.account for name, key in trace.header.keys.items()} == {"key-1": "acme"}
