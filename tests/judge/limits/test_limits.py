"""`ranksim.limits` and the command: recordings and probes, what they print, and what they refuse."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from time import monotonic_ns
from xml.etree.ElementTree import fromstring

import pytest
from tests.judge.limits.limiters import Limiter, VirtualProber, ruled
from typer.testing import CliRunner

import ranksim as rs
from ranksim import cli
from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.core.contract.quota import RateQuota
from ranksim.core.errors import BadInput
from ranksim.core.trace import Trace
from ranksim.judge.limits.calls import LimitedCall
from ranksim.judge.limits.driver import ProbeRequest
from ranksim.judge.limits.probes import Volley
from ranksim.judge.limits.probing import ProbePlan, as_trace, probe

SITE = "http://127.0.0.1:1/"


def burst(count: int, limit: int, begin: Micros = 0, key: str = "") -> list[LimitedCall]:
    """Calls one after another, of which the first `limit` are admitted."""
    return [
        LimitedCall(
            f"{key}{at}", begin + at * 1000, begin + at * 1000 + 800, 200 if at < limit else 429, key=key
        )
        for at in range(count)
    ]


# In Python


def test_a_limit_that_is_kept_and_one_that_is_not() -> None:
    draw = Random(3)
    prober = VirtualProber(ruled("sliding_log", 20, 2 * SECOND), draw, MILLISECOND)
    judgement, calls = probe(ProbePlan((ProbeRequest(SITE),), "20/2s", most=500), prober=prober)
    assert judgement.holds
    assert judgement.algorithm == "sliding_log"
    assert rs.limits(calls, "20/2s").holds
    broken = rs.limits(calls, "21/2s")
    assert not broken.holds
    assert broken.broken[0].judged.nearest == 20
    assert "21 in 2s is BROKEN: fewer are admitted" in str(broken)
    with pytest.raises(TypeError, match="holds"):
        bool(broken)
    assert rs.limits(as_trace(calls, SITE), "20/2s").algorithm == "sliding_log"


def test_each_caller_has_a_limit_of_its_own() -> None:
    calls = [*burst(8, 5, key="a"), *burst(13, 11, begin=100, key="b")]
    judgement = rs.limits(calls, "5/10s")
    assert [part.who for part in judgement.broken] == ["b"]
    assert "of 2 callers 1 broken" in judgement.summary()


def test_several_limits_explain_each_others_refusals() -> None:
    calls = [LimitedCall("first", 0, 900, 200), *burst(6, 3, begin=300 * SECOND)]
    assert rs.limits(calls, "10/60s").broken  # refused after three, of ten
    assert not rs.limits(calls, "10/60s", "3/10s").broken
    assert not rs.limits(calls, "10/60s", shared=True).broken


def test_calls_that_state_another_limit_are_counted_by_that() -> None:
    stated = {"X-RateLimit-Limit": "5"}
    own = [LimitedCall(f"a{at}", at * 1000, at * 1000 + 9, 200 if at < 5 else 429, stated) for at in range(6)]
    other = [
        LimitedCall(f"b{at}", at * 1000, at * 1000 + 9, 200, {"X-RateLimit-Limit": "9"}) for at in range(8)
    ]
    assert not rs.limits([*own, *other], "5/10s").broken
    assert rs.limits([*own, *other], "5/10s").parts[0].count == 6


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("600/60s", RateQuota(600, 60 * SECOND)),
        ("20 in 2s", RateQuota(20, 2 * SECOND)),
        ("100/min", RateQuota(100, 60 * SECOND)),
        ("5/1h30m", RateQuota(5, 5400 * SECOND)),
    ],
)
def test_limits_are_read(text: str, quota: RateQuota) -> None:
    assert RateQuota.parse(text) == quota


@pytest.mark.parametrize("text", ["", "600", "x/2s", "5/0s", "0/2s", "5/2parsec", "5/400d"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"^limit: expected"):
        RateQuota.parse(text)


# Headers


def stating(limit: int, lie: int = 0, wait: int = 2) -> tuple[Limiter, VirtualProber]:
    """A fixed window that says what is left, `lie` too many, and to wait so many seconds."""
    left = {"count": 0, "opened": -(10**9)}

    def take(now: Micros) -> int:
        if now >= left["opened"] + SECOND:
            left.update(opened=now, count=0)
        if left["count"] >= limit:
            return 0
        left["count"] += 1
        return 1

    def headers(now: Micros, admitted: int) -> dict[str, str]:
        said = {"RateLimit": f"limit={limit}, remaining={limit - left['count'] + lie}, reset=1"}
        return said if admitted else {**said, "Retry-After": f"{wait}"}

    return take, VirtualProber(take, Random(1), MILLISECOND, headers)


def test_headers_that_are_true_and_that_lie() -> None:
    plan = ProbePlan((ProbeRequest(SITE),), "10/1s", most=300)
    true = probe(plan, prober=stating(10)[1])[0].parts[0].statements
    assert (true.wrong, true.dialects) == ((), ("RateLimit",))
    assert true.stated > 50
    lying = probe(plan, prober=stating(10, lie=1)[1])[0]
    assert len(lying.parts[0].statements.wrong) > 5
    assert lying.holds  # the limit itself is kept
    assert "Remaining can be right in" in lying.summary()


def test_a_wait_is_kept_and_how_much_longer_it_is_than_needed() -> None:
    plan = ProbePlan((ProbeRequest(SITE),), "10/1s", most=300)
    stated = probe(plan, prober=stating(10)[1])[0].parts[0].statements
    assert stated.honoured > 0
    assert stated.again == ()
    assert stated.longer is not None
    assert SECOND < stated.longer < 2 * SECOND


# A limit that nobody states


@pytest.mark.parametrize(
    ("kind", "limit", "length"),
    [("first_hit", 20, 2), ("sliding_log", 12, 5), ("gcra", 10, 10), ("sliding_counter", 30, 60)],
)
def test_a_limit_is_found(kind: str, limit: int, length: int) -> None:
    prober = VirtualProber(ruled(kind, limit, length * SECOND), Random(2), MILLISECOND)
    judgement, _ = probe(ProbePlan((ProbeRequest(SITE),), most=2000, length=3600 * SECOND), prober=prober)
    assert judgement.quotas == (RateQuota(limit, length * SECOND),)
    assert judgement.algorithm == kind


def test_no_limit_is_met() -> None:
    prober = VirtualProber(lambda now: 1, Random(2), MILLISECOND)
    with pytest.raises(BadInput, match="none was refused"):
        probe(ProbePlan((ProbeRequest(SITE),), most=300), prober=prober)


# Scope and harm


@pytest.mark.parametrize(
    ("shared", "says"), [(False, "key has a limit of its own"), (True, "key shares the limit")]
)
def test_whether_another_key_shares_the_limit(shared: bool, says: str) -> None:
    ours = ruled("gcra", 10, SECOND)
    theirs = ours if shared else ruled("gcra", 10, SECOND)

    class TwoKeys(VirtualProber):
        def volley(self, volley: Volley, endpoint: ProbeRequest | None = None) -> list[LimitedCall]:
            self.limiter = ours if endpoint is None else theirs
            return super().volley(volley, endpoint)

    plan = ProbePlan((ProbeRequest(SITE),), "10/1s", {"key": ProbeRequest(SITE)}, most=1000)
    judgement, _ = probe(plan, prober=TwoKeys(ours, Random(1), MILLISECOND))
    assert judgement.scope == (("key", says),)
    assert f"scope      {says}" in judgement.summary()


@pytest.mark.slow
def test_probing_ends_at_a_sign_of_harm(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Limited) -> None:
        type(self).count += 1
        self.send_response(200 if type(self).count < 30 else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    monkeypatch.setattr(Limited, "do_GET", fail)
    Limited.count = 0
    done = CliRunner().invoke(cli.app, ["limits", address, "--limit", "20/500ms"])
    assert "at a sign of harm" in done.stdout
    assert Limited.count < 120


# Recordings


def test_an_access_log_by_client(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    line = '{} - - [17/May/2015:10:05:0{} +0000] "GET /widgets HTTP/1.1" {} 5\n'
    rows = [line.format("10.0.0.1", 1, 200) for _ in range(50)] + [line.format("10.0.0.2", 2, 200)] * 3
    log.write_text("".join(rows), encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["limits", str(log), "--limit", "20/60s", "--by", "client"])
    assert done.exit_code == 1
    assert "of 2 callers 1 broken, 1 open" in done.stdout
    assert "caller     10.0.0.1" in done.stdout
    together = rs.limits(log, "100/1s", by="all")
    assert (len(together.parts), together.parts[0].count) == (1, 53)


def test_a_har_file_by_header(tmp_path: Path) -> None:
    def entry(at: int, status: int) -> dict[str, object]:
        return {
            "startedDateTime": f"2026-01-01T00:00:00.{at:03d}Z",
            "time": 1.5,
            "request": {
                "method": "GET",
                "url": "https://api.example.com/widgets?page=1",
                "headers": [{"name": "X-Team", "value": "red"}],
            },
            "response": {"status": status, "headers": [{"name": "RateLimit-Limit", "value": "5"}]},
        }

    har = tmp_path / "calls.har"
    har.write_text(json.dumps({"log": {"entries": [entry(at, 200) for at in range(12)]}}), encoding="utf-8")
    judgement = rs.limits(har, "5/10s", by="header:X-Team")
    assert [part.who for part in judgement.broken] == ["red"]
    har.write_text('{"log": 1}', encoding="utf-8")
    with pytest.raises(BadInput, match="expected an access log, a HAR file"):
        rs.limits(har, "5/10s")


WINDOWS = """windows:
  - {name: search, match: "GET /search*", per: client, limit: 5/60s}
  - {name: everything, per: all, limit: 40/60s}
"""


def test_windows_as_a_table(tmp_path: Path) -> None:
    log, table = tmp_path / "access.log", tmp_path / "windows.yaml"
    line = '{} - - [17/May/2015:10:05:01 +0000] "GET {} HTTP/1.1" {} 5\n'
    rows = [line.format("h1", "/search?q=1", 200) for _ in range(12)] + [
        line.format("h2", "/widgets", 200)
    ] * 20
    log.write_text("".join(rows), encoding="utf-8")
    table.write_text(WINDOWS, encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["limits", str(log), "--windows", str(table), "--json"])
    assert done.exit_code == 1, done.output
    found = {row["who"]: row["verdict"] for row in json.loads(done.stdout)["tables"]["limits"]}
    assert found == {"search: h1": "broken", "everything": "open"}


def test_an_algorithm_that_was_promised(tmp_path: Path) -> None:
    prober = VirtualProber(ruled("gcra", 10, SECOND), Random(3), MILLISECOND)
    _, calls = probe(ProbePlan((ProbeRequest(SITE),), "10/1s", most=500), prober=prober)
    trace, table = tmp_path / "calls.jsonl", tmp_path / "windows.yaml"
    as_trace(calls, SITE).write(trace)
    for algorithm, code in (("gcra", 0), ("sliding_log", 1)):
        row = f"{{name: all, limit: 10/1s, algorithm: {algorithm}}}"
        table.write_text(f"windows: [{row}]", encoding="utf-8")
        done = CliRunner().invoke(cli.app, ["limits", str(trace), "--windows", str(table)])
        assert done.exit_code == code, done.output
    assert "is BROKEN: by another algorithm" in done.output


def test_calls_that_weigh_more_than_one(tmp_path: Path) -> None:
    """What a reply weighs is known too late for its own call: a window of 50 ends with 89 at most.

    Six calls of forty tokens are more than two such windows; a refusal says nothing.
    """
    har, table = tmp_path / "calls.har", tmp_path / "windows.yaml"

    def entry(at: int, status: int, tokens: object) -> dict[str, object]:
        text = json.dumps({"usage": [{"total": tokens}]})
        return {
            "startedDateTime": f"2026-01-01T00:00:0{at}.000Z",
            "time": 1.5,
            "request": {"method": "POST", "url": "https://api.example.com/chat", "headers": []},
            "response": {"status": status, "headers": [], "content": {"text": text}},
        }

    entries = [entry(0, 200, 40), entry(1, 429, "many"), *(entry(at, 200, 40) for at in range(2, 7))]
    har.write_text(json.dumps({"log": {"entries": entries}}), encoding="utf-8")
    for limit, code in ((50, 1), (81, 0)):
        row = f'{{name: tokens, weigh: "response:/usage/0/total", limit: {limit}/60s}}'
        table.write_text(f"windows: [{row}]", encoding="utf-8")
        done = CliRunner().invoke(cli.app, ["limits", str(har), "--windows", str(table)])
        assert done.exit_code == code, done.output


def test_a_refusal_of_another_window_says_nothing_of_an_edge(tmp_path: Path) -> None:
    """Refused by one window, admitted a second later by both: no edge of the other stands between."""
    own = ruled("clock", 100, 60 * SECOND)
    calls = []
    for at in range(0, 40 * SECOND, SECOND * 7 // 3):
        for number in range(5):
            status = 200 if number < 3 and own(at) else 429
            calls.append(LimitedCall(f"x{at}-{number}", at + number * 1000, at + number * 1000 + 500, status))
    minute = rs.limits(calls, "100/60s", "3/1s").parts[0].judged
    assert "clock" in minute.algorithms


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{name: a, limit: many}", "expected calls and a time such as 600/60s"),
        ("{name: a, limit: 5/2s, per: moon}", "expected one of client, key, path, all, header:NAME"),
        ("{name: a, limit: 5/2s, algorithm: magic}", "algorithm"),
        ('{name: a, limit: 5/2s, weigh: "body:/n"}', "expected such as response:/usage/total_tokens"),
        ("{name: a, limit: 5/2s, match: /nothing}", "none matches /nothing"),
    ],
)
def test_mistakes_in_a_table_are_told(row: str, says: str, tmp_path: Path) -> None:
    log, table = tmp_path / "access.log", tmp_path / "windows.yaml"
    log.write_text('h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5\n', encoding="utf-8")
    table.write_text(f"windows: [{row}]", encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["limits", str(log), "--windows", str(table)])
    assert done.exit_code == 2, done.output
    assert says in done.output


# The command, over sockets


class Limited(BaseHTTPRequestHandler):
    """Ten calls in half a second, from the first on."""

    protocol_version = "HTTP/1.1"
    lock, opened, count, most = threading.Lock(), 0, 0, 10

    def do_GET(self) -> None:
        with self.lock:
            now = monotonic_ns()
            if now >= type(self).opened + 500_000_000:
                type(self).opened, type(self).count = now, 0
            admitted = type(self).count < self.most
            type(self).count += admitted
        body = b"admitted" if admitted else b"refused"
        self.send_response(200 if admitted else 429)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Limited)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/widgets"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_probing_over_sockets(address: str, tmp_path: Path) -> None:
    out, page, junit = (
        tmp_path / "calls.jsonl",
        tmp_path / "new" / "page.html",
        tmp_path / "of" / "limits.xml",
    )
    words = ["limits", address, "--limit", "10/500ms", "--out", str(out)]
    done = CliRunner().invoke(cli.app, [*words, "--html", str(page), "--junit", str(junit)])
    assert done.exit_code == 0, done.output
    assert re.search(r"^limit +10 in 500ms holds: never more, never fewer", done.stdout, re.M)
    assert re.search(r"^algorithm +fixed window from the first call", done.stdout, re.M)
    assert "What it is not" in page.read_text(encoding="utf-8")
    assert fromstring(junit.read_text(encoding="utf-8")).find(".//failure") is None
    assert len(Trace.read(out).exchanges) > 50
    again = CliRunner().invoke(cli.app, ["limits", str(out), "--limit", "12/500ms", "--junit", str(junit)])
    assert again.exit_code == 1
    assert fromstring(junit.read_text(encoding="utf-8")).find(".//failure") is not None


def test_the_plan_is_said_and_nothing_is_sent(address: str) -> None:
    Limited.count = 0
    done = CliRunner().invoke(cli.app, ["limits", address, "--limit", "10/500ms", "--plan-only"])
    assert done.exit_code == 0
    assert re.match(r"plan +6 rounds, about \d+ calls in \d+s; at most 5,000 in 5m; GET only", done.stdout)
    assert Limited.count == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing.log", "--limit", "5/2s"], "nothing.log"),
        (["http://127.0.0.1:1/", "FILE"], "expected URLs or recordings, and found both"),
        (["FILE"], "--limit: expected the limit that a recording is held against"),
        (["FILE", "--limit", "many"], "limit: expected calls and a time such as 600/60s"),
        (["FILE", "--limit", "5/2s", "--by", "moon"], "--by: expected one of client, key, path, all"),
        (["http://127.0.0.1:1/", "-H", "nonsense"], "--header: expected such as"),
        (["http://127.0.0.1:1/", "-H", "A: env:NO_SUCH_VARIABLE_HERE"], "NO_SUCH_VARIABLE_HERE is not set"),
        (["http://127.0.0.1:1/", "--refused", "200"], "--refused: expected statuses from 400 to 599"),
        (["http://127.0.0.1:1/", "--limit", "5/2s", "--limit", "9/9s"], "expected one limit of an API"),
        (["https://api.example.com/", "--limit", "5/2s"], "--yes: expected beyond this machine"),
        (["http://127.0.0.1:1/", "--limit", "5/2s"], "and it was not answered"),
    ],
)
def test_mistakes_are_told(words: list[str], says: str, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text('h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5\n', encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["limits", *(str(log) if word == "FILE" else word for word in words)])
    assert done.exit_code == 2, done.output
    assert says in done.output
