"""Locust users: real runs of one process with plain `locust`, and what Locust makes of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.kit.runs import LOADTESTS, Start, answers, assert_no_secret, by_users, in_flight, so_far, until

from ranksim.core.trace import Exchange, Trace
from ranksim.judge.profiles import OF_LOADS
from ranksim.testing import Server

AROUND = {"explore", "before", "resolve", "after"}


@pytest.mark.slow
def test_only_users_imports_locust_or_patches_anything() -> None:
    program = """
import pkgutil, sys, importlib
import ranksim.judge.load
for found in pkgutil.walk_packages(ranksim.judge.load.__path__, "ranksim.judge.load."):
    if found.name != "ranksim.judge.load.users":
        importlib.import_module(found.name)
import gevent.monkey
assert "locust" not in sys.modules
assert not gevent.monkey.is_module_patched("socket")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_profile_of_loads_has_a_locustfile() -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in LOADTESTS.glob("*.py")}
    assert set(files) == {profile.name for profile in OF_LOADS}
    for profile in OF_LOADS:
        text = files[profile.name]
        assert f'user_class("{profile.name}")' in text
        assert profile.aim in text


@pytest.mark.slow
def test_a_run_is_recorded_to_the_calls_that_were_in_flight_when_it_was_stopped(
    start: Start, deployment: Server, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = start(
        "locust", "-f", str(LOADTESTS / "everyday.py"), "--host", deployment.url, "--headless",
        "--only-summary", "--users", "3", "--spawn-rate", "3", "--out", str(out),
        RANKSIM_KEY=deployment.key,
    )  # fmt: skip
    until(lambda: by_users(out) >= 20)
    with deployment.control(timeout=600) as client:
        client.post("/faults", json={"latency": "10m", "times": 3}).raise_for_status()
        until(lambda: client.get("/faults").json()["data"][0]["effects"]["delayed"] == 3)
    until(lambda: in_flight(out) == 3)
    run.process.send_signal(signal.SIGINT)

    assert run.wait() == 0, run.said()
    trace = Trace.read(out / "trace.jsonl")
    assert [path.name for path in out.iterdir()] == ["trace.jsonl"]
    unseen = [one for one in trace.exchanges if one.status is None]
    assert [(one.received, one.effect, one.error) for one in unseen] == [
        (None, "unknown", "stopped before a reply was seen")
    ] * 3
    sent = [one.sent for one in trace.exchanges]
    assert sent == sorted(sent)
    clients = Counter(one.client for one in trace.exchanges)
    assert set(clients) >= {"explore", "before", "after", "everyday-0", "everyday-1", "everyday-2"}
    users = [one for one in trace.exchanges if one.client not in AROUND]
    [totals] = [note.model_extra for note in trace.notes if note.text == "what Locust counted"]
    assert totals is not None
    assert totals["requests"] == len(users) - 3
    assert totals["failures"] == 0
    assert trace.header.exclusive
    assert trace.header.keys["main"].account
    assert trace.header.targets == {"production": deployment.url}
    assert_no_secret(tmp_path, deployment.key)


@pytest.mark.slow
def test_refusals_are_no_failures_and_errors_of_the_server_are(
    start: Start, deployment: Server, tmp_path: Path
) -> None:
    with deployment.control(timeout=600) as client:
        rule = {"operation": "keyword_lists.create", "error_rate": 1.0}
        client.post("/faults", json=rule).raise_for_status()
    target = tmp_path / "target.yaml"
    target.write_text(
        f"environments: {{production: {deployment.url}}}\nkeys: {{main: {{token: 'env:MINE'}}}}\n",
        encoding="utf-8",
    )
    scope = 'from ranksim.load.users import user_class\n\nScope = user_class("scope")\n'
    (tmp_path / "scope.py").write_text(scope, encoding="utf-8")
    run = start(
        "locust", "-f", f"{tmp_path}/scope.py,{LOADTESTS}/everyday.py", "--headless",
        "--only-summary", "--users", "2", "--spawn-rate", "2", "--target", str(target), "--gzip",
        MINE=deployment.key,
    )  # fmt: skip
    out = until(lambda: next(tmp_path.glob("load-*"), None))
    until(lambda: {400, 500} <= {answer // 100 * 100 for answer in answers(out)})
    run.process.send_signal(signal.SIGINT)

    assert run.wait() == 1, run.said()
    [packed] = tmp_path.glob("load-*/trace.jsonl.gz")
    trace = Trace.read(packed)
    assert trace.header.exclusive
    users = [one for one in trace.exchanges if one.client not in AROUND and one.status is not None]
    refused = [one for one in users if 400 <= (one.status or 0) < 500]
    broken = [one for one in users if (one.status or 0) >= 500]
    assert refused
    assert broken
    [totals] = [note.model_extra for note in trace.notes if note.text == "what Locust counted"]
    assert totals is not None
    assert totals["failures"] == len(broken)
    assert {one.effect for one in broken} == {"unknown"}
    assert_no_secret(tmp_path, deployment.key)


@pytest.mark.slow
def test_a_key_that_does_not_work_ends_locust_before_any_user_begins(
    start: Start, deployment: Server, tmp_path: Path
) -> None:
    run = start(
        "locust", "-f", str(LOADTESTS / "everyday.py"), "--host", deployment.url, "--headless",
        "--out", str(tmp_path / "out"),
        RANKSIM_KEY="rk_live_nobody",
    )  # fmt: skip

    assert run.wait() == 2
    assert "no key of the target works (main: 401: the key is refused)" in run.said()
    assert not (tmp_path / "out").exists()
    assert deployment.requests.count(method="POST") == 0


@pytest.mark.slow
def test_a_target_file_that_is_not_there_ends_locust_with_one_line_and_no_traceback(
    start: Start, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    run = start(
        "locust", "-f", str(LOADTESTS / "everyday.py"), "--headless", "--target", "none.yaml", "--out", out
    )

    assert run.wait() == 2
    assert "none.yaml: no such file" in run.said()
    assert "Traceback" not in run.said()
    assert not (tmp_path / "out").exists()


CLIENTS = """
name: shop
start: 2026-03-01T00:00:00Z
length: 1h
accounts:
  shop:
    plan: pro
    portfolio: {domains: 2, keywords: 4, labels: 1}
clients:
  stream: {kind: caller, account: shop, every: 200ms, mix: {positions.list: 2, labels.create: 1}}
  dashboard: {kind: poller, account: shop, operation: jobs.list, every: 500ms}
  nightly: {kind: schedule, account: shop, job: crawl, every: 1s, poll: {every: 300ms, timeout: 1m}}
  people: {kind: app_users, account: shop, every: 1s, mix: {domains.list: 1}}
"""

LOCUSTFILE = """
import ranksim as rs
from ranksim.judge.profiles.scenario_clients import scenario_clients
from ranksim.load.users import user_class

Shop = user_class(scenario_clients(rs.Scenario.load("shop.yaml")))
"""


@pytest.mark.slow
def test_a_scenarios_clients_call_a_deployment_and_leave_nothing_behind(
    start: Start, deployment: Server, tmp_path: Path
) -> None:
    (tmp_path / "shop.yaml").write_text(CLIENTS, encoding="utf-8")
    (tmp_path / "shop.py").write_text(LOCUSTFILE, encoding="utf-8")
    out = tmp_path / "out"
    run = start(
        "locust", "-f", "shop.py", "--host", deployment.url, "--headless", "--only-summary",
        "--users", "3", "--spawn-rate", "3", "--out", str(out), "--spend-cap", "none",
        RANKSIM_KEY=deployment.key,
    )  # fmt: skip
    wanted = {"positions.list", "labels.create", "jobs.list", "jobs.create", "jobs.get"}
    until(lambda: wanted <= operations(out))
    run.process.send_signal(signal.SIGINT)

    assert run.wait() == 0, run.said()
    trace = Trace.read(out / "trace.jsonl")
    by_user = {
        client: {one.operations[0] for one in trace.exchanges if one.client == client and one.operations}
        for client in ("shop-0", "shop-1", "shop-2")
    }
    made = {"domains.create", "keyword_lists.create", "keywords.create", "scans.create", "labels.create"}
    assert by_user["shop-0"] == made | {"positions.list"}
    assert by_user["shop-1"] == made | {"jobs.list"}
    assert by_user["shop-2"] == made | {"jobs.create", "jobs.get"}
    created = [one for one in trace.exchanges if "domains.create" in one.operations and one.response]
    domains = {told(one)["id"] for one in created}
    assert len(domains) == 2
    with deployment.client(timeout=600) as client:
        left = client.get("/v1/domains", headers={"Authorization": f"Bearer {deployment.key}"}).json()["data"]
    assert not domains & {one["id"] for one in left}
    assert_no_secret(tmp_path / "out", deployment.key)


def operations(out: Path) -> set[str]:
    """What users have called so far."""
    lines = [line for part in so_far(out).values() for line in part]
    return {name for line in lines if "-" in line.get("client", "") for name in line["operations"]}


def told(exchange: Exchange) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(exchange.response)["data"]
    return found
