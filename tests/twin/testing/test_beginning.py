"""A fake that begins as a scenario says: from its file, after a simulation, in a test, and as the demo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ranksim as rs
from ranksim.core.clock import DAY, instant
from ranksim.core.errors import BadInput
from ranksim.testing import World
from ranksim.twin.testing.beginning import DEMO, beginning_of

NEAR = """\
scenario: 1
start: 2026-03-27T10:00:00Z
length: 1d
accounts:
  acme:
    plan: pro
    anchor: 2026-03-01T00:00:00Z
    portfolio: {domains: 10, keywords: 499}
    used: {spent: 89.90 USD, metrics: {keyword_brief_refreshes: 49}}
"""

QUEUE = """\
scenario: 1
start: 2026-03-02T00:00:00Z
length: 2d
accounts:
  acme: {plan: pro, keys: [main, spare], portfolio: {domains: 3, keywords: 10}}
clients:
  nightly: {kind: schedule, account: acme, job: rank_run, every: day, at: "01:00"}
pools:
  rank_run: {capacity: 1, duration: 20m}
receivers:
  erp: {account: acme, latency: 1s}
timeline:
  - {at: 2026-03-02T12:00:00Z, do: set_status, account: acme, status: past_due}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "world.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def slots(world: World) -> dict[str, Any]:
    data: dict[str, Any] = world.client().get("/v1/slots").json()["data"]
    return data


@pytest.mark.fact("S63", "U48")
def test_nine_lines_are_an_account_near_all_its_limits(tmp_path: Path) -> None:
    """4,990 of 5,000 slots, 49 of 50 briefs, 89.90 of 90 USD: the next of each is the last, or too much."""
    with World.of(written(tmp_path, NEAR)) as world:
        client = world.client()
        assert (slots(world)["used"], slots(world)["limit"]) == (4_990, 5_000)
        assert world.clock.now == instant("2026-03-27T10:00:00Z")
        domain, other = (each["id"] for each in client.get("/v1/domains").json()["data"][:2])
        two = {"domain_id": domain, "keywords": ["one", "two"]}
        assert client.post("/v1/keyword-briefs", json=two).json()["code"] == "quota_exhausted"
        runs = [{"kind": "rank_run", "domain_id": each} for each in (domain, other)]
        ran, refused = (client.post("/v1/jobs", json=run) for run in runs)
        assert (ran.status_code, refused.json()["code"]) == (202, "cost_cap_reached")  # passed once (U48)


def test_a_reset_and_a_fork_begin_as_the_file_says(tmp_path: Path) -> None:
    with World.of(written(tmp_path, NEAR)) as world:
        key = world.key
        world.client().post("/v1/domains", json={"host": "new.example"})
        world.clock.advance("1d")
        with world.fork() as other:
            assert len(other.client().get("/v1/domains").json()["data"]) == 11
        world.reset()
        assert (world.key, world.clock.now) == (key, instant("2026-03-27T10:00:00Z"))
        assert len(world.client().get("/v1/domains").json()["data"]) == 10


def test_until_an_instant_there_is_the_history_of_the_simulation(tmp_path: Path) -> None:
    """At 01:30 one of three runs is done, one runs, one waits for the only worker; the fake ends the two."""
    path = written(tmp_path, QUEUE)
    with World.of(path, until="2026-03-02T01:30:00Z") as world:
        jobs = world.client().get("/v1/jobs").json()["data"]
        assert sorted(job["status"] for job in jobs) == ["done", "running", "running"]
        assert world.clock.now == instant("2026-03-02T01:30:00Z")
        world.clock.advance("10h")
        again = world.client().get("/v1/jobs").json()["data"]
        assert {job["status"] for job in again} == {"done"}
        world.reset()
        assert world.client().get("/v1/jobs").json()["data"] == jobs
    with World.of(rs.Scenario.load(path), until="2026-03-02T13:00:00Z") as world:
        assert world.client().get("/v1/account").json()["data"]["status"] == "past_due"


@pytest.mark.slow
def test_the_marker_names_a_file_beside_the_test(tmp_path: Path) -> None:
    written(tmp_path, NEAR)
    (tmp_path / "test_near.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.ranksim(world='world.yaml')\n"
        "def test_near(ranksim):\n"
        "    assert ranksim.client().get('/v1/slots').json()['data']['available'] == 10\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_near.py")]
    assert subprocess.run(command, capture_output=True, cwd=tmp_path).returncode == 0


def test_what_a_scenario_says_is_not_said_twice(tmp_path: Path) -> None:
    path = written(tmp_path, NEAR)
    for settings in ({"plan": "free"}, {"seed": 4}, {"start": None}, {"policy": rs.Policy()}):
        with pytest.raises(BadInput, match="world: a scenario says policy, plan, seed and start"):
            World.of(path, **settings)
    with pytest.raises(BadInput, match="until: expected together with a world"):
        World(until="2026-03-28T00:00:00Z")
    with pytest.raises(BadInput, match="until: expected an instant up to 2026-03-28T10:00:00Z"):
        World.of(path, until="2026-04-28T00:00:00Z")
    with pytest.raises(BadInput, match=r"nowhere\.yaml"):
        World.of(tmp_path / "nowhere.yaml")


def test_what_does_not_act_while_it_is_served_is_told(tmp_path: Path) -> None:
    lines: list[str] = []
    beginning_of(written(tmp_path, QUEUE), tell=lines.append)
    assert lines == ["world: its clients do not act while it is served; --until simulates them first"]
    beginning_of(written(tmp_path, NEAR), tell=lines.append)
    beginning_of(written(tmp_path, QUEUE), instant("2026-03-02T02:00:00Z"), lines.append)
    assert len(lines) == 1


@pytest.mark.slow
def test_the_demo_has_ninety_days_of_all_there_is() -> None:
    demo = rs.Scenario.load(str(DEMO))
    assert demo.length == 90 * DAY
    service, _, _ = beginning_of(None)["origin"].open()
    state = service.state
    assert {job.kind for job in state.jobs.values()} >= {"rank_run", "crawl"}
    assert {job.status for job in state.jobs.values()} >= {"done", "failed"}
    assert {account.status for account in state.accounts.values()} == {"active", "past_due"}
    assert any(not endpoint.enabled for endpoint in state.endpoints.values())


@pytest.mark.slow
def test_serve_takes_a_scenario_file_before_or_after_its_options(tmp_path: Path) -> None:
    path = str(written(tmp_path, NEAR))
    for words in ([path, "--clock", "manual"], ["--clock", "manual", path], ["--world", path]):
        command = [sys.executable, "-m", "ranksim", "serve", "--port", "0", "--json", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["now"] >= "2026-03-27T10:00:00Z"
        finally:
            process.kill()
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{}", "--plan", "free"], "--plan: {} says it; leave it out, or write it there"),
        (["--until", "2026-03-27T12:00:00Z"], "--until: expected together with a scenario file"),
        (["--demo", "{}"], "--demo: expected without a scenario and --until"),
        (["--demo", "--seed", "3"], "--seed: the demo says it"),
        (["{}", "--until", "noon"], "--until: expected an instant such as"),
    ],
)
def test_what_contradicts_a_scenario_is_refused(tmp_path: Path, words: list[str], says: str) -> None:
    path = str(written(tmp_path, NEAR))
    command = [sys.executable, "-m", "ranksim", "serve", *(word.replace("{}", path) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert says.replace("{}", path) in done.stderr


FIXED = """\
scenario: 1
start: 2026-03-27T10:00:00Z
length: 1d
accounts:
  acme:
    plan: pro
    id: acc_0000000100
    keys: [{name: main, token: my-fixed-key}]
    sites:
      - {host: one.example, id: dom_0000000200, lists: [{name: brand, keywords: [shoes, boots]}]}
      - {host: two.example, id: dom_0000000300}
receivers:
  erp: {account: acme, id: whk_0000000400, url: "https://erp.example/hook", secret: whsec_mine}
"""


def test_ids_keys_and_secrets_are_those_that_the_file_states(tmp_path: Path) -> None:
    path = written(tmp_path, FIXED)
    for until in (None, "2026-03-27T11:00:00Z"):
        with World.of(path, until=until) as world:
            assert world.key == "my-fixed-key"
            client = world.client()
            domains = client.get("/v1/domains").json()["data"]
            assert [each["id"] for each in domains] == ["dom_0000000200", "dom_0000000300"]
            assert client.get("/v1/account").json()["data"]["id"] == "acc_0000000100"
            endpoints = world.twin.service.state.endpoints
            assert {id: each.secret for id, each in endpoints.items()} == {"whk_0000000400": "whsec_mine"}
            made = client.post("/v1/domains", json={"host": "new.example"}).json()["data"]["id"]
            assert made > "dom_0000000400"


def test_ids_that_do_not_ascend_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, FIXED.replace("dom_0000000300", "dom_0000000150"))
    expected = r"acme\.sites\[1\]\.id: dom_0000000150 is past, as ids ascend; state one after dom_0000000200"
    with pytest.raises(BadInput, match=expected):
        World.of(path)
    with pytest.raises(BadInput, match=r"sites\[0\]\.id"):
        World.of(written(tmp_path, FIXED.replace("dom_0000000200", "dom_acme")))
