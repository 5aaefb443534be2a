"""The pytest plugin, seen from the project of somebody who uses it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ranksim import pytest_plugin

SMALL = """\
# Six hours of one pipeline.
scenario: 1  # the version
name: small
start: 2026-03-01T00:00:00Z
length: 6h
accounts:
  acme:
    plan: starter
    portfolio: {keywords: 20}
clients:
  ci:
    kind: caller
    account: acme
    every: 20m
    mix: {jobs.create: 1, keywords.list: 3}
expect:
  - calls.total == 18
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project, with this plugin alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    more = {
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "ranksim.pytest_plugin", *words],
        cwd=project, capture_output=True, text=True, check=False, env=kept | more,
    )  # fmt: skip


WORLDS = """\
import pytest
from ranksim.testing import World


def ask(world):
    client = world.client()
    domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
    for _ in range(2):
        answer = client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})
    world.clock.advance("1s")
    answer.raise_for_status()


def test_with_a_fixture(ranksim):
    ask(ranksim)


def test_with_its_own():
    with World() as world:
        ask(world)


def test_without_any_request(ranksim):
    ranksim.requests.assert_made(operation="jobs.create")


def test_that_has_none():
    assert not "a world"


def test_that_passes(ranksim):
    ranksim.client().get("/v1/domains")
"""


@pytest.mark.slow
def test_a_test_that_fails_shows_the_clock_and_what_refused_its_last_requests(project: Path) -> None:
    (project / "test_worlds.py").write_text(WORLDS)
    done = run(project, "--tb=short", "test_worlds.py")
    assert "4 failed, 1 passed" in done.stdout
    assert done.stdout.count(" ranksim http://ranksim.test ") == 3
    assert done.stdout.count("\nclock 2026-03-02T09:00:01Z (manual)\ndue: job_") == 2
    assert done.stdout.count("\nthe last 3 of 3 requests:\n") == 2
    assert done.stdout.count("  POST    /v1/jobs  409 cooldown_active (check 6, cooldown)  key demo  ") == 2
    assert done.stdout.count('\n    sent     {"kind":"crawl","domain_id":"dom_') == 2
    assert done.stdout.count('"code":"cooldown_active"') == 2
    nothing = "nothing is due\nno endpoint, so no webhook is sent\nno requests\n"
    assert f"\nclock 2026-03-02T09:00:00Z (manual)\n{nothing}" in done.stdout
    assert "testing/requests.py" not in done.stdout  # the failure is in the test, not in what it asserts with


BAD_ARGUMENTS = """\
import socket
import pytest
from ranksim.testing import Server, World


def test_a_plan_that_there_is_not():
    World(plan="gold")


def test_a_start_that_is_no_instant():
    World(start="yesterday")


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        Server(port=taken.getsockname()[1])


class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("there is nothing behind this proxy")


def test_a_variable_that_does_not_say_what_it_is():
    proxy = Proxy()
    assert proxy.__dict__


def test_a_world_that_cannot_tell(monkeypatch):
    world = World()
    world.told = lambda: 1 / 0
    assert world.twin is None


def test_the_one_after_them():
    World().close()
"""


@pytest.mark.slow
def test_no_test_that_fails_ends_the_session(project: Path) -> None:
    (project / "test_worlds.py").write_text(BAD_ARGUMENTS)
    done = run(project, "--tb=short", "test_worlds.py")
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert "5 failed, 1 passed" in done.stdout
    assert done.stdout.count(" ranksim http://ranksim.test ") == 1
    assert "this world cannot be shown (ZeroDivisionError: division by zero)" in done.stdout
    assert "E   ranksim.core.errors.BadInput: plan: expected one of " in done.stdout
    assert "E   ranksim.core.errors.BadInput: clock: 'yesterday' is not an ISO 8601 instant" in done.stdout


WAITING = """\
import unittest
import pytest
from ranksim.testing import World

def started(world):
    client = world.client()
    domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
    client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})

@pytest.fixture
def own():
    with World(seed=1) as world:
        yield Client(world)

class Client:
    def __init__(self, world):
        self.http = world.client()
        self.receiver = world.receiver(500)
        world.subscribe(self.receiver)
        started(world)

def test_that_waits_for_a_webhook(own):
    assert len(own.receiver.requests) == 1

class TestCase(unittest.TestCase):
    def setUp(self):
        self.world = World(seed=1)
        self.addCleanup(self.world.close)

    def test_in_a_case(self):
        self.assertEqual(self.world.client().get("/v1/jobs?limit=7").json()["data"], [1])

def test_a_mistake_ends_in_the_code_of_its_author():
    with World() as world:
        world.clock.advance("soon")
"""


@pytest.mark.slow
def test_a_failed_test_says_what_it_may_wait_for(project: Path) -> None:
    (project / "test_waiting.py").write_text(WAITING)
    told = run(project, "test_waiting.py").stdout
    first, second = told.split("ranksim http://ranksim.test")[1:3]
    assert re.search(r"due: job_\d+ \(crawl of a\.example\) ends in \d+m\d+s", first)
    assert re.search(r"whk_\d+ http\S+ takes all events; attempts: none", first)
    assert "GET     /v1/jobs?limit=7  200" in second
    assert "no endpoint, so no webhook is sent" in second
    mistake = told.partition("test_a_mistake_ends_in_the_code_of_its_author __")[2]
    mistake = mistake.partition("ranksim http")[0]
    assert 'world.clock.advance("soon")' in mistake
    assert "clock: 'soon' is not a duration" in mistake
    assert "src/ranksim" not in mistake
    assert "loop_thread" not in mistake
    assert "3 failed" in told


@pytest.mark.slow
def test_under_unittest_alone_an_error_carries_how_its_world_stands(project: Path) -> None:
    (project / "test_alone.py").write_text(
        "import unittest\nfrom ranksim.testing import World\nclass TestCase(unittest.TestCase):\n"
        "    def test_it(self):\n        with World() as world:\n"
        "            self.assertEqual(world.client().get('/v1/domains').status_code, 404)\n"
    )
    environ = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [sys.executable, "-m", "unittest", "test_alone"]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False, env=kept | environ)
    assert "AssertionError: 200 != 404" in done.stderr
    assert "clock 2026-03-02T09:00:00Z (manual)\nnothing is due\n" in done.stderr
    assert "GET     /v1/domains  200" in done.stderr


def test_a_file_that_cannot_be_read_is_no_scenario(tmp_path: Path) -> None:
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "nothing")
    assert not pytest_plugin.is_scenario(tmp_path / "dangling.yaml")


def test_the_project_file_names_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"ranksim": pytest_plugin.__name__}


@pytest.mark.slow
def test_a_scenario_is_a_test(project: Path) -> None:
    done = run(project, "-v")
    assert "small.yaml::scenario PASSED" in done.stdout
    assert done.returncode == 0


@pytest.mark.slow
def test_a_failed_expectation_is_listed_without_a_traceback(project: Path) -> None:
    both = "  - calls.total <= 10\n  - refusals.total == 1000\n  - calls.total >= 1\n"
    (project / "small.yaml").write_text(SMALL.replace("  - calls.total == 18\n", both))
    done = run(project)
    assert done.returncode == 1
    assert "____ scenario small ____" in done.stdout
    assert "\ncalls.total is 18, expected at most 10: 8 above\n" in done.stdout
    assert "expected exactly 1000" in done.stdout
    assert "calls.total >= 1" not in done.stdout
    assert "Traceback" not in done.stdout
    assert "runtest" not in done.stdout


@pytest.mark.slow
def test_bad_input_is_a_failure_with_its_message(project: Path) -> None:
    (project / "small.yaml").write_text(SMALL.replace("starter", "startr"))
    done = run(project)
    assert done.returncode == 1
    assert "small.yaml:8: accounts.acme.plan: " in done.stdout
    assert "Traceback" not in done.stdout
    assert "BadInput" not in done.stdout.split("short test summary")[0]


@pytest.mark.slow
def test_a_bug_keeps_its_traceback(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import ranksim.twin.sim.runner as runner\n"
        "def broken(*args, **options): raise ZeroDivisionError('a bug')\n"
        "runner.run = broken\n"
    )
    done = run(project)
    assert done.returncode == 1
    assert "ZeroDivisionError: a bug" in done.stdout
    assert "def runtest" in done.stdout


@pytest.mark.slow
def test_the_digest_is_written_and_then_compared(project: Path) -> None:
    expected = project / "expected" / "small.json"
    assert run(project, "--ranksim-update").returncode == 0
    digest = json.loads(expected.read_text())
    assert digest["calls"]["ci keywords.list ok 200"] > 0
    assert set(digest) == {
        "scenario", "seed", "replications", "calls", "refusals", "jobs", "attempts", "endpoints",
    }  # fmt: skip
    assert run(project).returncode == 0

    (project / "small.yaml").write_text(SMALL.replace("length: 6h", "length: 7h").replace("18", "21"))
    done = run(project)
    assert done.returncode == 1
    assert "differs from expected/small.json (--ranksim-update writes it anew):" in done.stdout
    assert "\n  calls / ci keywords.list ok 200: expected " in done.stdout
    assert json.loads(expected.read_text()) == digest

    assert run(project, "--ranksim-update").returncode == 0
    assert json.loads(expected.read_text()) != digest
    assert sorted(path.name for path in expected.parent.iterdir()) == ["small.json"]


@pytest.mark.slow
def test_a_broken_digest_is_said(project: Path) -> None:
    (project / "expected").mkdir()
    (project / "expected" / "small.json").write_text("{")
    done = run(project)
    assert "small.json: not valid JSON" in done.stdout
    assert "write it with --ranksim-update" in done.stdout


def test_the_glob_says_which_files_are_looked_at(project: Path) -> None:
    (project / "other.scenario").write_text(SMALL)
    (project / "pytest.ini").write_text("[pytest]\nranksim_scenarios = *.scenario\n")
    done = run(project, "--collect-only", "-q")
    assert done.stdout.splitlines()[0] == "other.scenario::scenario"
    assert "1 test collected" in done.stdout


@pytest.mark.parametrize(
    ("text", "collected"),
    [
        (SMALL, True),
        ("---\n\n# note\nname: small\nscenario: 1\n", True),
        ("scenario:\n  name: default\n", False),
        ("study: 1\nbase:\n  scenario: 1\n", False),
        ("name: policy\n" * 30 + "scenario: 1\n", False),
        ("", False),
        ("\x00\ufffd", False),
    ],
)
def test_only_scenarios_are_collected(tmp_path: Path, text: str, collected: bool) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(text)
    assert pytest_plugin.is_scenario(path) == collected


def test_a_directory_without_scenarios_has_no_tests(project: Path) -> None:
    (project / "small.yaml").write_text("scenario:\n  name: default\n")
    (project / "latin.yaml").write_bytes(b"caf\xe9: 1\n")
    assert run(project).returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_loading_it_costs_other_suites_nothing(project: Path) -> None:
    (project / "small.yaml").unlink()
    (project / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    heavy = {'numpy', 'simpy', 'pydantic'}\n"
        "    heavy |= {'ranksim.core.contract', 'ranksim.twin.sim', 'ranksim.core.files'}\n"
        "    print('loaded:', sorted(heavy & set(sys.modules)), 'ranksim.pytest_plugin' in sys.modules)\n"
    )
    done = run(project, "--collect-only", "-q")
    assert "loaded: [] True" in done.stdout
