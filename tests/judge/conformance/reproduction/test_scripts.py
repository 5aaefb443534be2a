"""Scripts of findings, run by sh and curl against a deployment that deviates, and that does no more."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.judge.conformance.elsewhere.sockets import ran, served
from tests.judge.conformance.elsewhere.virtual import elsewhere
from tests.judge.conformance.test_graphql_lists import page
from tests.kit.traces import a_trace, call, created, hook
from typer.testing import CliRunner

from ranksim import cli
from ranksim.core.clock import MILLISECOND, SECOND
from ranksim.core.trace import Exchange, Header, Note, Trace, TraceKey
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.exhibits import exhibits
from ranksim.judge.conformance.reproduction.script import Reproduction, reproductions

ACCOUNTS = {"main": "Studio", "second": "Studio", "scoped": "Studio", "other": "Other"}
MARK = "ranksim-9a313c9f"
PLAIN = {"Content-Type": "text/plain"}


class Live:
    """A deployment that listens, and a client of it that records what it does."""

    def __init__(self, *breaks: str, traffic_scale: int = 1) -> None:
        numbers = elsewhere.Numbers(keys=elsewhere.ALL_KEYS, window="log")
        self.deployment = elsewhere.Deployment(numbers, breaks=breaks, traffic_scale=traffic_scale)
        self.deployment.open_accounts()
        handler = type("Handler", (elsewhere.Handler,), {"deployment": self.deployment})
        self.server = elsewhere.Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,)).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        keys = {
            name: TraceKey(account=of, domain_id=self.deployment.scopes[name], variable=f"T_{name.upper()}")
            for name, of in ACCOUNTS.items()
        }
        self.trace = Trace(Header(targets={"it": self.url}, keys=keys, exclusive=True))
        self.trace.notes.append(Note.model_validate({"t": 0, "rate": 1, "traffic_rate": traffic_scale}))
        self.http = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        self.domain = self.call("main", "POST", "/v1/domains", {"host": f"{MARK}-a.example"})["data"]["id"]

    def call(
        self, key: str | None, method: str, path: str, body: Any = None, query: Any = None, **headers: str
    ) -> Any:
        """Make a call, write it down, and give its parsed reply."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        token = {} if key is None else {"authorization": f"Bearer {self.deployment.named[key]}"}
        text = "" if body is None else json.dumps(body)
        told |= {"content-type": "application/json"} if text else {}
        sent = elsewhere.now()
        reply = self.http.request(method, path, content=text, params=query, headers=told | token)
        self.trace.exchanges.append(
            Exchange(
                id=f"x{sent}", sent=sent, received=elsewhere.now(), operations=(), method=method,
                path=path, status=reply.status_code, target="it", api_key=key, query=query or {},
                request_headers=told, body=text, response_headers=dict(reply.headers), response=reply.text,
            )
        )  # fmt: skip
        return reply.json() if reply.content[:1] == b"{" else None

    def made(self, rule: str, folder: Path) -> Reproduction:
        """Judge what was recorded, read from a file; give what shows a finding."""
        self.trace.exchanges.sort(key=lambda exchange: exchange.sent)
        self.trace.write(folder / "trace.jsonl")
        judgement = compare(folder / "trace.jsonl")
        assert rule in [finding.rule.name for finding in judgement.deviating]
        shown = exhibits([folder / "trace.jsonl"], judgement)
        return reproductions([folder / "trace.jsonl"], judgement, shown)[rule]

    def run(self, script: str, **more: str) -> tuple[int, str]:
        """Run a script here, with the keys in its environment; give its exit code and what it prints."""
        keys = {f"T_{name.upper()}": self.deployment.named[name] for name in ACCOUNTS}
        env = {"PATH": os.environ["PATH"], "BASE": self.url, **keys, **more}
        done = subprocess.run(["sh"], input=script, env=env, capture_output=True, text=True)
        assert not done.stderr, done.stderr + done.stdout
        return done.returncode, done.stdout

    def close(self) -> None:
        self.http.close()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    started = list[Live]()

    def start(*breaks: str, traffic_scale: int = 1) -> Live:
        started.append(Live(*breaks, traffic_scale=traffic_scale))
        return started[-1]

    yield start
    for one in started:
        one.close()


def keyword_list(live: Live, words: int = 0) -> str:
    body = {"domain_id": live.domain, "name": f"{MARK} list"}
    listed: str = live.call("main", "POST", "/v1/keyword-lists", body)["data"]["id"]
    if words:
        keywords = [f"{MARK} word {number}" for number in range(words)]
        live.call("main", "POST", "/v1/keywords", {"list_id": listed, "keywords": keywords})
    return listed


def label(live: Live) -> str:
    made = live.call("main", "POST", "/v1/labels", {"domain_id": live.domain, "name": f"{MARK} l"})
    return str(made.get("data", made)["id"])


def crawl(live: Live, **headers: str) -> Any:
    return live.call("main", "POST", "/v1/jobs", {"kind": "crawl", "domain_id": live.domain}, **headers)


def once(live: Live) -> Any:
    body = {"domain_id": live.domain, "name": f"{MARK} list"}
    return live.call("main", "POST", "/v1/keyword-lists", body, idempotency_key="once")


def twice(live: Live) -> None:
    once(live)
    once(live)


def at_once(live: Live) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: once(live), range(2)))


def mismatched(live: Live) -> None:
    crawl(live, idempotency_key=f"{MARK}-key")
    body = {"kind": "rank_run", "domain_id": live.domain}
    live.call("main", "POST", "/v1/jobs", body, idempotency_key=f"{MARK}-key")


def cooled(live: Live) -> None:
    live.call("main", "GET", "/v1/account/entitlements")
    job = crawl(live)["data"]["id"]
    token = {"authorization": f"Bearer {live.deployment.named['main']}"}
    while live.http.get(f"/v1/jobs/crawl/{job}", headers=token).json()["data"]["status"] != "done":
        pass
    live.call("main", "GET", f"/v1/jobs/crawl/{job}")
    crawl(live)


def others_listed(live: Live) -> None:
    live.call("other", "GET", "/v1/account")
    live.call("main", "GET", "/v1/account")
    live.call("main", "GET", f"/v1/domains/{live.domain}")
    live.call("other", "GET", f"/v1/domains/{live.domain}")


def beyond(live: Live) -> None:
    live.call("scoped", "GET", f"/v1/labels/{label(live)}")
    live.call("main", "GET", "/v1/labels")


def listed_beyond(live: Live) -> None:
    label(live)
    live.call("scoped", "GET", "/v1/labels")


def walked(live: Live) -> None:
    listed = keyword_list(live, 9)
    shown = live.call("main", "GET", "/v1/keywords", query={"list_id": listed})
    first = live.call("main", "GET", "/v1/keywords", query={"list_id": listed, "limit": "4"})
    live.call("main", "DELETE", f"/v1/keywords/{shown['data'][1]['id']}")
    query = {"list_id": listed, "limit": "4", "cursor": first["next_cursor"]}
    while query["cursor"]:
        query["cursor"] = live.call("main", "GET", "/v1/keywords", query=dict(query))["next_cursor"]
    live.call("main", "GET", "/v1/keywords", query={"list_id": listed})


def paged(live: Live) -> None:
    listed = keyword_list(live, 5)
    first = live.call("main", "GET", "/v1/keywords", query={"list_id": listed, "limit": "3"})
    query = {"list_id": listed, "limit": "3", "cursor": first["next_cursor"]}
    live.call("main", "GET", "/v1/keywords", query=query)


def patched(live: Live) -> None:
    path = f"/v1/domains/{live.domain}"
    live.call("main", "GET", path)
    live.call("main", "PATCH", path, {"label": "new"})
    live.call("main", "GET", path)


def read(live: Live) -> None:
    live.call("main", "GET", f"/v1/domains/{live.domain}", x_request_id="mine-1", origin="https://a.example")


def missing(live: Live) -> None:
    live.call("main", "GET", "/v1/domains/none", x_request_id="mine-1")


def domains(live: Live) -> None:
    live.call("main", "GET", "/v1/domains")


TABLE: dict[str, tuple[str, str, Callable[[Live], Any]]] = {
    "done twice": ("idempotency.once", "twice keyword_lists.create", twice),
    "done twice at once": ("idempotency.once", "twice-at-once keyword_lists.create", at_once),
    "another replay": ("idempotency.replay", "other-replay keyword_lists.create", twice),
    "another body": ("idempotency.mismatch", "any-body-anew jobs.create", mismatched),
    "cools too short": ("cooldown.enforced", "granted cooldown crawl", cooled),
    "another account's": ("access.tenant", "reads-account domains", others_listed),
    "another domain's": ("access.scope", "reads-beyond labels", beyond),
    "another domain's, listed": ("access.scope", "lists-beyond labels", listed_beyond),
    "offsets": ("paging.complete", "offset-paging", walked),
    "an item twice": ("paging.once", "page-twice", paged),
    "too long a page": ("paging.limit", "page-long limit", paged),
    "a cursor refused": ("paging.walk", "cursor-refused keywords.list", paged),
    "an end that says more": ("paging.end", "cursor-on-last", domains),
    "a PATCH ignored": ("resource.patch", "patch-ignored domains", patched),
    "no X-Request-Id": ("header.request_id", "no-header x-request-id success", read),
    "no origin": ("header.cross_origin", "no-cors success", read),
    "no JSON": ("header.json", "not-json domains.list", domains),
    "deprecated": ("header.deprecation", "deprecated", read),
    "no limit": ("rate.headers", "no-header ratelimit-limit success", read),
    "lacks a remedy": ("error.body", "error-lacks 404", missing),
    "another type": ("error.type", "error-type 404", missing),
    "another request_id": ("error.request_id", "error-id 404", missing),
    "lacks a field": ("resource.fields", "no-field domains.get label", read),
    "lacks a field in a list": ("resource.fields", "no-field domains.list label", domains),
    "local time": ("resource.timestamps", "time-form created_at", read),
    "no data": ("resource.envelope", "no-data labels.create", label),
    "no has_more": ("resource.envelope", "no-more domains.list", domains),
}


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "way", "calls"), TABLE.values(), ids=TABLE)
def test_a_script_shows_what_deviates_and_nothing_else(
    rule: str, way: str, calls: Callable[[Live], Any], live: Callable[..., Live], tmp_path: Path
) -> None:
    one = live(way)
    calls(one)
    made = one.made(rule, tmp_path)
    assert made.script, made.why_not
    assert not [token for token in one.deployment.named.values() if token in made.script]
    code, says = one.run(made.script)
    assert code == 1, f"{made.script}\n{says}"
    one.deployment.breaks = frozenset()
    code, says = one.run(made.script)
    assert code == 0, f"{made.script}\n{says}"


def machine() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def clock() -> Iterator[Any]:
    """The deployments' clock, which goes by the machine's again at the end."""
    yield elsewhere.now
    elsewhere.now.set(machine)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["more", "fewer"])
def test_a_burst_shows_a_limit(way: str, live: Callable[..., Live], tmp_path: Path, clock: Any) -> None:
    one = live(f"rate-{way} expensive", traffic_scale=10)
    body = {"kind": "crawl", "domain_id": one.domain, "dry_run": True}
    start = elsewhere.now()
    for instant in range(start, start + 14 * SECOND, 20 * MILLISECOND):
        clock.set(lambda at=instant: at)
        one.call("main", "POST", "/v1/jobs", body)
    clock.set(machine)
    made = one.made("rate.expensive", tmp_path)
    assert made.script, made.why_not
    once = {"TRIES": "1", "WINDOW": "60" if way == "more" else "1"}
    code, says = live(f"rate-{way} expensive").run(made.script, **once)
    assert code == 1, f"{made.script}\n{says}"
    code, says = live().run(made.script, **once)
    assert code == 0, f"{made.script}\n{says}"


# Without a deployment


def reproduced(entries: list[Any]) -> dict[str, Reproduction]:
    trace = a_trace(entries)
    judgement = compare(trace)
    return reproductions([trace], judgement, exhibits([trace], judgement))


def test_what_is_made_first_is_found_in_what_gave_out_its_id() -> None:
    made = call("domains.create", 0, 1, {"id": "dom_7"}, status=201, body={"host": f"{MARK}-a.example"})
    listed = call("keyword_lists.create", 2, 3, {"id": "l_1"}, status=201, body={"domain_id": "dom_7"})
    again = listed.model_copy(update={"sent": listed.sent + 1})
    other = call("labels.create", 3, 4, {"id": "lab_1"}, status=201, body={"domain_id": "dom_7"})
    read = call("keyword_lists.get", 5, 6, {"id": "l_1"}, path={"id": "l_1"}, headers={"X-Request-Id": ""})
    read = read.model_copy(update={"response_headers": {"Content-Type": "text/plain"}})
    script = reproduced([made, listed, again, other, read])["header.json"].script
    calls = [line.split()[3:5] for line in script.splitlines() if line.startswith("  call s")]
    assert [(method, url.partition("/v1/")[2]) for method, url in calls] == [
        ("POST", "domains"),
        ("POST", "keyword-lists"),
        ("GET", 'keyword-lists/"${v1}"'),
    ]
    assert '"ranksim-${RUN}0"' in script
    assert MARK not in script.partition("steps() {")[2]


@pytest.mark.parametrize(
    ("entries", "rule", "why"),
    [
        ([created(), hook(0, valid=False)], "webhook.signature", "it needs a webhook receiver"),
        ([page(0, "abcdefghijk", "e", first=3)], "paging.limit", "it is of pages over GraphQL"),
        (
            [
                call(
                    "domains.update", 0, 1, {"id": "d"}, path={"id": "d1"}, body={"label": "x"}, headers=PLAIN
                )
            ],
            "header.json",
            "it changes what was there before",
        ),
        (
            [call("domains.get", 0, 1, {"id": "7"}, path={"id": "7"}, headers=PLAIN)],
            "header.json",
            "its ids are plain numbers, which each kind of thing may have",
        ),
    ],
)
def test_where_no_calls_show_it_the_reason_is_told(entries: list[Any], rule: str, why: str) -> None:
    assert reproduced(entries)[rule] == Reproduction(why_not=why)


@pytest.mark.parametrize(("value", "scripts"), [("new", True), ("née", False), ("a/b", False), (7, True)])
def test_values_that_json_may_write_otherwise_are_not_compared(value: Any, scripts: bool) -> None:
    made = call("domains.create", 0, 1, {"id": "dom_7", "label": "old"}, status=201)
    of: Any = {"path": {"id": "dom_7"}}
    patch = call("domains.update", 2, 3, {"id": "dom_7", "label": value}, body={"label": value}, **of)
    read = call("domains.get", 4, 5, {"id": "dom_7", "label": "old"}, **of)
    assert bool(reproduced([made, patch, read])["resource.patch"].script) is scripts


@pytest.mark.parametrize("odd", ["$(touch x)", "`touch x`", '"; touch x; "', "'; touch x; '", "a\ntouch x"])
def test_what_a_trace_says_is_never_run(odd: str, tmp_path: Path) -> None:
    key, headers = {"main": TraceKey(variable=odd)}, {"X-Odd": odd}
    read = call("domains.get", 0, 1, {"id": odd}, path={"id": "d1"}, query={"label": odd}, headers=PLAIN)
    read = read.model_copy(update={"id": odd, "request_headers": headers, "method": "GET", "target": odd})
    trace = Trace(Header(keys=key, targets={odd: f"http://127.0.0.1:9/{odd}"}), [read])
    judgement = compare(trace)
    script = reproductions([trace], judgement, exhibits([trace], judgement))["header.json"].script
    named = re.sub(r"\W", "_", odd)
    env = {"PATH": os.environ["PATH"], named: "k"}
    subprocess.run(["sh"], input=script, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert list(tmp_path.iterdir()) == []


def test_compare_writes_scripts_and_its_reports_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    read = call("domains.get", 0, 1, {"id": "d"}, path={"id": "d1"}, headers=PLAIN)
    a_trace([read, created(), hook(3, valid=False)]).write("trace.jsonl")
    words = "compare trace.jsonl --repro repro --html page.html --junit junit.xml"
    told = CliRunner().invoke(cli.app, words.split())
    assert told.exit_code == 1
    assert {path.name for path in Path("repro").iterdir()} == {"header.json.sh", "rate.headers.sh"}
    assert os.access("repro/header.json.sh", os.X_OK)
    for text in (told.stdout, Path("page.html").read_text(), Path("junit.xml").read_text()):
        text = re.sub(r"<wbr>", "", " ".join(text.split()))
        assert "to show it again: sh repro/header.json.sh" in text
        assert "to show it again: no script, as it needs a webhook receiver" in text


@pytest.mark.heavy
def test_a_check_writes_scripts_that_show_what_it_found(tmp_path: Path) -> None:
    ways = (
        "error-lacks 404",
        "reads-beyond labels",
        "no-header x-request-id 404",
        "twice keyword_lists.create",
    )
    with served(tmp_path, "--seed", "1", *(word for way in ways for word in ("--break", way))) as target:
        keys = json.loads(target.read_text(encoding="utf-8"))["keys"]
        options = ["--time", "3m", "--only", "error,header,access,idempotency", "--yes", "--seed", "1"]
        folder = ran("check", target, *options, out="out").parent / "repro"
        env = {f"RANKSIM_KEY_{name.upper()}": key["token"] for name, key in keys.items()}
        codes = {
            path.stem: subprocess.run([path], env={**os.environ, **env}, capture_output=True).returncode
            for path in folder.iterdir()
        }
    assert set(codes.values()) == {1}, codes
    assert {"error.body", "access.scope", "header.request_id", "idempotency.once"} <= codes.keys()
