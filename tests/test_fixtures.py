"""The fixtures `ranksim`, `ranksim_server`, `ranksim_clock` and `ranksim_receiver`, in somebody's project."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ranksim import pytest_plugin
from ranksim.testing import Server

pytest_plugins = "pytester"

for name in (
    "httpx",
    "httpcore",
    "anyio.to_thread",
    "anyio._backends._asyncio",
    "ranksim.twin.serving.uvicorn_protocol",
):
    # pytester forgets the modules that an inner run is the first to read; read once more, halves of two
    # copies would meet in the tests after (a sender's connections were not used again).
    importlib.import_module(name)

CONSUMER = """
def test_the_fourth_attempt_comes_36_minutes_after_the_first(ranksim, ranksim_clock, ranksim_receiver):
    client = ranksim.client()
    ranksim_receiver.script(500, 500, 500, 200)
    ranksim.subscribe(ranksim_receiver)
    domain = client.post("/v1/domains", json={"host": "example.com"}).json()["data"]["id"]
    job = client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain}).json()["data"]["id"]
    ranksim.jobs.fail(job)
    ranksim_clock.advance("36m")
    came = ranksim_receiver.requests
    assert [one.valid for one in came] == [True] * 4
    assert (came[3].received - came[0].received) == 36 * 60 * 1_000_000
"""

ONE_WORLD = """
import httpx

def test_all_fixtures_are_of_one_world(ranksim, ranksim_server, ranksim_clock, ranksim_receiver):
    assert ranksim_server is ranksim and ranksim_clock is ranksim.clock
    reply = httpx.get(ranksim_server.url + "/v1/webhook-events", timeout=600, trust_env=False)
    assert reply.status_code == 200
    ranksim.subscribe(ranksim_receiver)
    mine = {"authorization": "Bearer " + ranksim_receiver.token}
    url = ranksim_receiver.url + "/_receiver"
    assert httpx.get(url, headers=mine, timeout=600, trust_env=False).status_code == 200

def test_another_test_has_another_world(ranksim):
    assert ranksim.client().get("/v1/webhooks").json()["data"] == []
    assert ranksim.url == "http://ranksim.test"
"""

MARKED = """
import pytest

pytestmark = pytest.mark.ranksim(plan="starter", seed=7, clock="real")

@pytest.mark.ranksim(clock="scaled:1/60", start="2026-01-31T00:00:00Z", policy="mine.yaml")
def test_the_closest_mark_wins(ranksim):
    account = ranksim.client().get("/v1/account").json()["data"]
    assert account["plan"] == "starter"
    assert account["period_start"].startswith("2026-01-31T00:00:00")
    assert str(ranksim.twin.clock.rate) == "scaled:1/60"
    assert (ranksim.twin.seed, ranksim.twin.policy.name) == (7, "mine")
    assert ranksim.client().get("/v1/domains?hots=a").status_code == 422

@pytest.mark.ranksim(strict_query=False, strict_body=False)
def test_a_typo_can_be_ignored(ranksim):
    assert ranksim.client().get("/v1/domains?hots=a").status_code == 200
    assert ranksim.client().post("/v1/domains", json={"host": "a.example", "lable": "a"}).status_code == 201
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose tests use this plugin and no other of those installed."""
    for name in ("RANKSIM_TARGET", "RANKSIM_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(entry for entry in sys.path if entry))
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers\n")
    return pytester


def run(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    """Run the project's tests in this process."""
    return project.runpytest_inprocess(*words, plugins=[pytest_plugin])


@pytest.mark.parametrize("target", ["", "inproc", "server"])
@pytest.mark.fact("S90", "S74")
def test_a_consumers_test_is_the_same_on_every_target(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setenv("RANKSIM_TARGET", target)
    project.makepyfile(CONSUMER)
    run(project, "-q").assert_outcomes(passed=1)


def test_one_world_per_test_with_a_port_where_one_is_wanted(project: pytest.Pytester) -> None:
    project.makepyfile(ONE_WORLD)
    run(project, "-q").assert_outcomes(passed=2)


def test_the_page_about_the_facade_shows_a_test_that_passes(project: pytest.Pytester) -> None:
    page = (Path(__file__).parents[1] / "docs" / "facade.md").read_text("utf-8")
    (shown,) = re.findall(r"^```python title=test_\w+\.py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    project.makepyfile(shown)
    run(project, "-q").assert_outcomes(passed=1)


def test_marks_say_what_the_world_is_like(project: pytest.Pytester) -> None:
    project.makepyfile(MARKED)
    (project.path / "mine.yaml").write_text("name: mine\n")
    run(project, "-q").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("plan='platinum'", "plan: expected one of *"),
        ("clock='slow'", "clock: expected real, manual, *"),
        ("plans='pro'", "marker ranksim: plans is unknown; it takes clock, control_token, plan, *"),
        ("'pro'", "marker ranksim: expected settings by name, such as plan='starter'"),
        ("policy='no.yaml'", "*no.yaml: *"),
    ],
)
def test_a_wrong_mark_is_one_line(project: pytest.Pytester, mark: str, message: str) -> None:
    project.makepyfile(f"import pytest\n@pytest.mark.ranksim({mark})\ndef test_it(ranksim):\n    pass\n")
    result = run(project, "-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("During handling *")


def test_a_wrong_target_is_one_line(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSIM_TARGET", "https://api.example")
    project.makepyfile("def test_it(ranksim):\n    pass\n")
    run(project, "-q").stdout.fnmatch_lines(["RANKSIM_KEY: expected an API key of *"])


@pytest.fixture
def sandbox() -> Iterator[Server]:
    """A deployment that tests reach by its URL alone."""
    with Server() as server:
        yield server


def test_on_a_real_deployment_what_needs_control_is_skipped(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, sandbox: Server
) -> None:
    monkeypatch.setenv("RANKSIM_TARGET", sandbox.url)
    monkeypatch.setenv("RANKSIM_KEY", sandbox.key)
    project.makepyfile(
        CONSUMER
        + """
def test_a_call(ranksim_server):
    assert ranksim_server.client().post("/v1/domains", json={"host": "a.example"}).status_code == 201

def test_a_clock(ranksim_clock):
    raise AssertionError

def test_later(ranksim):
    assert ranksim.client().get("/v1/domains").status_code == 200
    ranksim.account("acme")
    raise AssertionError
"""
    )
    result = run(project, "-q", "-rs")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines([f"SKIPPED*clock: {sandbox.url} is a real deployment, not under control*"])
    assert len(sandbox.client().get("/v1/domains").json()["data"]) == 1


def test_the_fixtures_are_listed_with_their_sense(project: pytest.Pytester) -> None:
    result = run(project, "--fixtures", "-q")
    result.stdout.fnmatch_lines_random(
        ["ranksim --*", "ranksim_server --*", "ranksim_clock --*", "ranksim_receiver --*"]
    )
    run(project, "--markers").stdout.fnmatch_lines(["@pytest.mark.ranksim(world, plan, policy, *"])


def test_a_suite_without_the_fixtures_loads_nothing_of_the_facade(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            heavy = {"httpx", "uvicorn", "pydantic", "simpy", "ranksim.testing", "ranksim.twin.facade"}
            assert not heavy & set(sys.modules)
        """
    )
    project.runpytest_subprocess("-q", "-p", "ranksim.pytest_plugin").assert_outcomes(passed=1)
