"""Traces: written stably and without secrets, read strictly by line; access logs and series of counts."""

import errno
import gzip
import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest

from ranksim.core import records
from ranksim.core.clock import HOUR, SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.records import LogLine, parsed, parsed_object, read_access_log, read_rates
from ranksim.core.service.calls import Answer, Attempt, Call, Fault, Reply
from ranksim.core.service.service import Service
from ranksim.core.trace import Exchange, Header, Trace, digest, entries, hide_secrets, safe_headers
from ranksim.core.trace_writer import TraceWriter

NOW = instant("2026-01-05T09:00:00Z")

HEADER = '{"ranksim_trace": 1, "started": 5}\n'
EXCHANGE: dict[str, Any] = {
    "kind": "exchange",
    "id": "x1",
    "target": "sandbox",
    "sent": 10,
    "received": 12,
    "api_key": "ci",
    "operations": ["jobs.create"],
    "method": "POST",
    "path": "/v1/jobs",
    "status": 202,
    "response": '{"data": {}}',
}
DELIVERY = {"kind": "delivery", "received": 20, "endpoint": "whk_1", "status": 200}


def line(entry: dict[str, Any], **changes: Any) -> str:
    return json.dumps({**entry, **changes}) + "\n"


# Reading


def test_a_trace_is_read_in_the_order_of_its_lines() -> None:
    note = '{"kind": "note", "t": 7, "text": "moved", "rate": 60}\n'
    trace = Trace.read([HEADER, line(EXCHANGE), note, line(DELIVERY), line(EXCHANGE, id="x2")])
    assert trace.header == Header(started=5)
    assert [exchange.id for exchange in trace.exchanges] == ["x1", "x2"]
    assert trace.exchanges[0].operations == ("jobs.create",)
    assert trace.deliveries[0].endpoint == "whk_1"
    assert trace.notes[0].model_extra == {"rate": 60}


@pytest.mark.fact("E46")
def test_unknown_fields_do_not_break_a_reader() -> None:
    trace = Trace.read(
        [
            '{"ranksim_trace": 1, "started": 5, "new": {"a": 1}}\n',
            line(EXCHANGE, new=[1], response='{"data": {}, "new": 1}'),
            line(DELIVERY, new=None, signature={"valid": True, "new": 1}),
        ]
    )
    assert trace.exchanges[0] == Exchange.model_validate_json(
        line(EXCHANGE, response='{"data": {}, "new": 1}')
    )
    assert trace.deliveries[0].signature.valid is True


BROKEN = [
    pytest.param([""], "trace:1: expected one JSON object on a line, found an empty line", id="empty line"),
    pytest.param([], "trace: is empty; expected a trace", id="nothing"),
    pytest.param([line(EXCHANGE)], "trace:1: expected the header, which has ranksim_trace", id="no header"),
    pytest.param([HEADER, HEADER], "trace:2: expected one header, on line 1", id="two headers"),
    pytest.param(
        ['{"ranksim_trace": 2}\n'], "trace:1: ranksim_trace: expected one of 1, found 2", id="version"
    ),
    pytest.param(
        [HEADER, "{'a'}\n"], "trace:2: expected one JSON object on a line, found \"{'a'}\"", id="junk"
    ),
    pytest.param(
        [HEADER, line(EXCHANGE), line(EXCHANGE)[:40]],
        "trace:3: expected one JSON object on a line, found .*; the file was cut short, so record again",
        id="cut short",
    ),
    pytest.param(
        [HEADER, "[1]\n"], r"trace:2: expected a header, or kind exchange.*found '\[1\]'", id="a list"
    ),
    pytest.param([HEADER, '{"kind": "span"}\n'], "trace:2: expected a header, or kind exchange", id="kind"),
    pytest.param([HEADER, "{}\n"], "trace:2: expected a header, or kind exchange", id="no kind"),
    pytest.param([HEADER, '{"kind": "exchange"}\n'], "trace:2: id: is missing", id="missing"),
    pytest.param(
        [HEADER, line(EXCHANGE, sent=1.5)], "trace:2: sent: expected a whole number", id="float time"
    ),
    pytest.param(
        [HEADER, line(EXCHANGE, sent="10")], "trace:2: sent: expected a whole number", id="text time"
    ),
    pytest.param([HEADER, line(EXCHANGE, sent=-1)], "trace:2: sent: expected at least 0", id="negative"),
    pytest.param(
        [HEADER, line(EXCHANGE, sent=2**63)],
        "trace:2: sent: expected at most 253402300799999999",
        id="after the year 9999",
    ),
    pytest.param([HEADER, line(EXCHANGE, received=9)], "trace:2: received is before sent", id="backwards"),
    pytest.param(
        [HEADER, line(EXCHANGE, effect="some")], "trace:2: effect: expected one of yes", id="effect"
    ),
    pytest.param([HEADER, line(EXCHANGE, query={"a": 1})], "trace:2: query.a: expected text", id="query"),
    pytest.param(
        [HEADER, line(DELIVERY, received=10, answered=9)],
        "trace:2: answered is before received",
        id="answered backwards",
    ),
    pytest.param(
        ['{"ranksim_trace": 1, "targets": {"a": "", "b": ""}}', line(EXCHANGE, target="c")],
        r"trace:2: target: expected one that the header declares \(a, b\), found 'c'; add it to targets",
        id="undeclared target",
    ),
    pytest.param(
        [
            '{"ranksim_trace": 1, "keys": {"main": {}}}',
            line(EXCHANGE, api_key="unknown"),
            line(EXCHANGE, api_key="other"),
        ],
        r"trace:3: api_key: expected one that the header declares \(main\), found 'other'; add it to keys",
        id="undeclared key",
    ),
    pytest.param([HEADER, line(DELIVERY, endpoint=None)], "trace:2: endpoint: expected text", id="endpoint"),
]


@pytest.mark.parametrize(("lines", "message"), BROKEN)
def test_a_broken_line_is_refused_by_its_number(lines: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}"):
        Trace.read(lines)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.xz"])
def test_a_line_without_end_is_refused_before_it_is_held(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "LONGEST_LINE", 1 << 20)
    bare = len(line(EXCHANGE, body=""))
    for size in ((1 << 20) - bare, (1 << 20) + 1 - bare):
        content = (HEADER + line(EXCHANGE, body="x" * size)).encode()
        packed = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)(content)
        (tmp_path / name).write_bytes(packed)
        if size + bare > 1 << 20:
            with pytest.raises(BadInput, match=r"t\.jsonl.*:2: is longer than 1 MiB; expected text in lines"):
                Trace.read(tmp_path / name)
        else:
            assert len(Trace.read(tmp_path / name).exchanges) == 1


def test_a_broken_line_of_a_file_is_refused_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(HEADER + line(EXCHANGE) + "\n")
    with pytest.raises(
        BadInput, match=r"run\.jsonl:3: expected one JSON object on a line, found an empty line"
    ):
        Trace.read(path)


def test_a_trace_is_read_as_it_comes() -> None:
    first = next(entries(iter([HEADER, "broken"])))
    assert isinstance(first, Header)


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_packed_files(tmp_path: Path, suffix: str, pack: Any) -> None:
    whole, cut = tmp_path / f"a.jsonl.{suffix}", tmp_path / f"b.jsonl.{suffix}"
    packed = pack((HEADER + line(EXCHANGE)).encode())
    whole.write_bytes(packed)
    cut.write_bytes(packed[:-12])
    assert len(Trace.read(whole).exchanges) == 1
    with pytest.raises(BadInput, match=f"b.jsonl.{suffix}: is damaged or cut short"):
        Trace.read(cut)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "no such file; check the path"),
        (lambda path: path.mkdir(), "cannot be read"),
        (lambda path: path.write_bytes(HEADER.encode() + b"\xff\xfe\n"), ":2: expected UTF-8 text"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, prepare: Any, message: str) -> None:
    path = tmp_path / "t.jsonl"
    prepare(path)
    with pytest.raises(BadInput, match=message):
        Trace.read(path)


# Writing


@pytest.fixture
def service() -> Service:
    return Service(Policy(), seed=1)


def record(path: Path, service: Service, salt: bytes = b"salt") -> tuple[str, str, str]:
    """Record a small run: create an endpoint, again under one key, and test it. Give the secrets."""
    account = service.open_account("acme", "pro", NOW)
    token = service.issue_key(account, "ci", NOW)
    with TraceWriter(path, started=NOW, salt=salt) as writer:
        writer.watch(service.state)
        body = {"url": "https://hooks.example/ü", "event_types": [], "domain_id": None}
        call = Call("webhooks.create", key=token, body=body, idempotency_key="k-1")
        for second in (0, 1):
            reply = service.handle(call, NOW + second * SECOND).reply
            writer.exchange(NOW + second * SECOND, "client", call, reply)
            service.written(reply, NOW + second * SECOND)
        endpoint = str((reply.body or {})["data"]["id"])
        call = Call("webhooks.test", key=token, path={"id": endpoint}, request_id="mine")
        step = service.handle(call, NOW + 2 * SECOND)
        reply, tasks = step.reply, step.tasks
        writer.exchange(NOW + 2 * SECOND, "client", call, reply, sent=NOW + SECOND, received=NOW + 3 * SECOND)
        tasks += service.advance(NOW + 2 * SECOND).tasks
        (attempt,) = [task for task in tasks if isinstance(task, Attempt)]
        writer.delivery(NOW + 3 * SECOND, NOW + 4 * SECOND, attempt, Answer(200), True)
        writer.delivery(NOW + 3 * SECOND, NOW + 13 * SECOND, attempt, Answer(None, "timeout"), True)
        writer.delivery(NOW + 3 * SECOND, NOW + 3 * SECOND, attempt, Answer(None, "refused"), False)
        call = Call("", key="no-such-token", fault=Fault("not_found"), method="GET")
        writer.exchange(NOW + 5 * SECOND, "stray", call, Reply(401, {"code": "unauthorized"}))
        writer.note(NOW, "the end", rate=1)
    return token, service.state.endpoints[endpoint].secret, endpoint


def test_what_is_written_is_read_back(tmp_path: Path, service: Service) -> None:
    path = tmp_path / "t.jsonl"
    _, _, endpoint = record(path, service)
    trace = Trace.read(path)
    assert trace.header.keys["acme/ci"].account == "acme"
    created, replayed, tested, stray = trace.exchanges
    assert (created.api_key, created.method, created.path) == ("acme/ci", "POST", "/v1/webhooks")
    assert created.request_headers == {"Idempotency-Key": "k-1"}
    assert json.loads(created.body)["url"] == "https://hooks.example/ü"
    assert (created.sent, created.received, created.status, created.effect) == (NOW, NOW, 201, "yes")
    assert (replayed.effect, replayed.response_headers["Idempotent-Replayed"]) == ("none", "true")
    assert tested.path == f"/v1/webhooks/{endpoint}/test"
    assert (tested.sent, tested.received) == (NOW + SECOND, NOW + 3 * SECOND)
    assert tested.request_headers == {"X-Request-Id": "mine"}
    assert (stray.api_key, stray.operations, stray.method, stray.effect) == ("unknown", (), "GET", "none")
    assert [(d.status, d.answered) for d in trace.deliveries] == [(200, NOW + 4 * SECOND), (None, None)]
    assert all(d.signature.valid and d.signature.t == NOW // SECOND + 2 for d in trace.deliveries)
    assert trace.notes[0].text == "the end"


@pytest.mark.fact("S21", "E32")
def test_no_secret_enters_a_trace(tmp_path: Path, service: Service) -> None:
    path = tmp_path / "t.jsonl"
    token, secret, _ = record(path, service)
    text = path.read_text()
    assert token not in text
    assert secret not in text
    assert "no-such-token" not in text
    created, replayed, *_ = Trace.read(path).exchanges
    shown = [json.loads(exchange.response)["data"]["secret"] for exchange in (created, replayed)]
    assert shown[0] == shown[1]
    assert shown[0].startswith("hidden:")


def test_equal_runs_write_equal_files(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "a.jsonl.gz", "b.jsonl.gz")]
    for path in paths:
        record(path, Service(Policy(), seed=1))
    plain, again, packed, packed_again = (path.read_bytes() for path in paths)
    assert plain == again == gzip.decompress(packed)
    assert packed == packed_again
    assert packed[3:8] == bytes(5), "neither name nor time"
    assert all(list(json.loads(text)) == sorted(json.loads(text)) for text in plain.decode().splitlines())


def test_a_new_token_under_an_old_name_is_another_key(tmp_path: Path, service: Service) -> None:
    path = tmp_path / "t.jsonl"
    account = service.open_account("acme", "pro", NOW)
    with TraceWriter(path, started=NOW) as writer:
        writer.watch(service.state)
        for number in range(3):
            token = service.issue_key(account, "main", NOW)
            call = Call("domains.list", token)
            reply = service.handle(call, NOW + number).reply
            writer.exchange(NOW + number, "a client", call, reply)
            service.withdraw_key(token, NOW + number)
    trace = Trace.read(path)
    names = ["acme/main", "acme/main.2", "acme/main.3"]
    assert [one.api_key for one in trace.exchanges] == names
    assert list(trace.header.keys) == names


def test_a_salt_changes_every_digest(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    record(first, Service(Policy(), seed=1), b"one")
    record(second, Service(Policy(), seed=1), b"two")
    assert first.read_text() != second.read_text()


def test_nothing_is_left_of_a_trace_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("the old one")
    with pytest.raises(TypeError), TraceWriter(path, started=NOW) as writer:
        writer.note(NOW, "cannot be written", what=object())
    assert path.read_text() == "the old one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.jsonl"]


def test_nothing_is_left_of_a_trace_whose_end_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left"), TraceWriter(tmp_path / "t.jsonl", started=NOW):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["b.jsonl", "b.jsonl.gz", "b.jsonl.xz"])
def test_a_trace_can_be_written_again(tmp_path: Path, service: Service, name: str) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / name
    record(first, service)
    trace = Trace.read(first)
    trace.write(second)
    assert Trace.read(second) == trace


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("", False),
        ("not json, but secret", False),
        ('{"data": {"id": "secret"}}', False),
        ('{"data": {"secret": null}}', False),
        ('{ "data":{"secret": "whsec_\\u00fc/1" } }', True),
        ('{"data": [{"webhook": {"signing_secret": "s"}}]}', True),
        ('{"data": {"secret": "whsec_a\\/b+c\\u003d"}}', True),
        ('{"secret": "whsec_1", "secret": "whsec_2", "again": "whsec_1"}', True),
        ('{"signingSecret": "whsec_1", "CLIENT_SECRET": "whsec_2"}', True),
        ('\ufeff{"secret": "whsec_1",}', True),
        ('{"secret": "whsec_\\ud800\\x"}', True),
        ('{"secret": "whsec_1", "deep": ' + "[" * 5_000, True),
    ],
)
def test_only_secrets_are_hidden(text: str, hidden: bool) -> None:
    after = hide_secrets(text, b"salt")
    assert (after != text) == hidden
    assert ("hidden:" in after) == hidden
    assert "whsec" not in after


def test_a_secret_has_one_digest_however_it_is_escaped() -> None:
    slashes = [hide_secrets(f'{{"secret":"a{slash}b"}}', b"salt") for slash in ("/", "\\/", "\\u002f")]
    assert slashes == [f'{{"secret":"{digest("a/b", b"salt")}"}}'] * 3


def test_credentials_are_left_out_of_headers() -> None:
    headers = {"authorization": "Bearer x", "Cookie": "a", "Accept": "*/*", "Idempotency-Key": "k"}
    assert safe_headers(headers) == {"Accept": "*/*", "Idempotency-Key": "k"}


# Frames


def test_a_frame_has_a_row_for_each_exchange() -> None:
    pytest.importorskip("pandas")
    trace = Trace.read([HEADER, line(EXCHANGE), line(EXCHANGE, id="x2"), line(DELIVERY)])
    frame = trace.frame()
    assert frame["id"].tolist() == ["x1", "x2"]
    assert trace.frame(integers=True)["sent"].tolist() == [10, 10]
    deliveries = trace.frame("deliveries")
    for instants in (frame["sent"], frame["received"], frame["planned"], deliveries["answered"]):
        assert str(instants.dtype) == "datetime64[us, UTC]"
    assert frame["sent"][0].isoformat() == "1970-01-01T00:00:00.000010+00:00"
    assert len(deliveries) == 1
    with pytest.raises(BadInput, match=r"^frame: expected exchanges or deliveries, found 'calls'"):
        trace.frame("calls")  # type: ignore[arg-type]  # the name is refused when it is asked for, too
    assert list(Trace().frame().columns) == list(frame.columns)


def test_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    Trace.read([HEADER, line(EXCHANGE, query={"a": "b"})]).to_parquet(path)
    frame = pandas.read_parquet(path)
    assert frame["status"].tolist() == [202]
    assert frame["sent"][0].isoformat() == "1970-01-01T00:00:00.000010+00:00"
    assert frame["query"].tolist() == ['{"a":"b"}']
    assert frame["operations"].tolist() == ['["jobs.create"]']


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(BadInput, match=r"need pandas, which is not installed; .* '\.\[plots\]'"):
        Trace().frame()


# Other records


COMMON = 'client-1 - - [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 512'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COMMON, LogLine(instant("2015-05-17T10:05:03Z"), "client-1", "GET", "/a?b=c", 200, 512)),
        (
            COMMON + ' "-" "Agent (x; \\"y\\")"',
            LogLine(1431857103 * SECOND, "client-1", "GET", "/a?b=c", 200, 512),
        ),
        (
            COMMON + ' "-" "cut in the age',
            LogLine(1431857103 * SECOND, "client-1", "GET", "/a?b=c", 200, 512),
        ),
        (
            COMMON.replace("+0000", "-0430").replace("512", "-"),
            LogLine(1431857103 * SECOND + 4 * HOUR + HOUR // 2, "client-1", "GET", "/a?b=c", 200, 0),
        ),
    ],
)
def test_lines_of_an_access_log(tmp_path: Path, text: str, expected: LogLine) -> None:
    path = tmp_path / "access.log"
    path.write_text(text + "\n")
    assert list(read_access_log(path)) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "",
        COMMON[:60],
        COMMON.removesuffix(" 200 512"),
        COMMON.replace("May", "Mai"),
        COMMON.replace("17/May", "31/Feb"),
        COMMON.replace("10:05:03", "24:05:03"),
        COMMON.replace('"GET', '"\\x16\\x03'),
        COMMON + " and more",
        "GET /a HTTP/1.1",
    ],
)
def test_a_garbled_line_of_an_access_log_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "access.log"
    path.write_text(COMMON + "\n" + text + "\n")
    with pytest.raises(
        BadInput, match=r"access\.log:2: expected a line of an access log, such as 'host - - \["
    ):
        list(read_access_log(path))


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("{", None),
        ('{"a": 1}', {"a": 1}),
        ("12", 12),
        (DEEP, None),
        (f'{{"a": {DEEP}}}', None),
        ('"\\ud800"', "?"),
        (f'["\\ud800", {DEEP}]', None),
    ],
    ids=range(8),
)
def test_json_of_strangers(text: str, value: Any) -> None:
    assert parsed(text) == value
    assert parsed_object(text) == (value if isinstance(value, dict) else None)


@pytest.mark.parametrize("chunk", [1, 2, 3, 64])
def test_counts_do_not_depend_on_how_they_are_read(tmp_path: Path, chunk: int) -> None:
    path = tmp_path / "rates.txt"
    path.write_text("10 0  7\n\n123\n4")
    assert [int(n) for some in read_rates(path, chunk) for n in some] == [10, 0, 7, 123, 4]


@pytest.mark.parametrize("chunk", [1, 4, 64])
@pytest.mark.parametrize("word", ["-1", "1.5", "x", "1_0", "²", "1" * 16])
def test_what_is_no_count_is_refused(tmp_path: Path, word: str, chunk: int) -> None:
    path = tmp_path / "rates.txt"
    path.write_text(f"10 0\n\n1 {word} 3\n4\n")
    with pytest.raises(BadInput, match=r"rates\.txt:3: expected counts, whole numbers between blanks, found"):
        list(read_rates(path, chunk))
