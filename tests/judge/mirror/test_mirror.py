"""`ranksim mirror`: a twin of an account by reading alone, and what the twin then says of itself."""

from __future__ import annotations

import json
import re
import shlex
import socket
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from tests.judge.conformance.elsewhere.test_elsewhere import served
from typer.testing import CliRunner

from ranksim import cli
from ranksim.core.callers.steps import Received
from ranksim.core.callers.target import Target
from ranksim.core.clock import SECOND, Micros, instant, iso
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service
from ranksim.judge.load.options import read_target
from ranksim.judge.mirror.reading import ReadAccount, Reading, read_mirrored
from ranksim.judge.mirror.world import world_of
from ranksim.planner.pricing.catalogues import read_catalogue
from ranksim.planner.pricing.own_account import compare_account, own_scenario
from ranksim.testing import Server
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

TOLD = ("account.usage", "account.entitlements", "slots.get")
"""What the deployment and its twin are both asked."""


def asked(host: str, key: str) -> dict[str, Any]:
    """Read an account over HTTP."""
    import httpx

    paths = {
        "account.usage": "account/usage",
        "account.entitlements": "account/entitlements",
        "slots.get": "slots",
    }
    with httpx.Client(base_url=f"{host}/v1/", headers={"Authorization": f"Bearer {key}"}) as client:
        return {name: client.get(paths[name]).json()["data"] for name in TOLD}


def twin_says(scenario: Scenario, account: str) -> dict[str, Any]:
    """Ask the twin the same at its first instant."""
    world = World(scenario)
    key = next(iter(world.actors[account].keys.values()))
    told = {}
    for name in TOLD:
        call = Call(name, key=key, environment=world.actors[account].environment)
        reply = world.service.handle(call, scenario.start).reply
        assert reply.body is not None
        told[name] = reply.body["data"]
    return told


def mirror(*words: object, key: str = "") -> Any:
    return CliRunner().invoke(cli.app, ["mirror", *map(str, words)], env={"RANKSIM_KEY": key})


def used_up(server: Server) -> str:
    """Have the first account track two domains, spend, and free some slots; return its key."""
    client = server.client()
    for number, words in enumerate((3, 5), 1):
        domain = client.post("/v1/domains", json={"host": f"site{number}.example"}).json()["data"]["id"]
        given = {"domain_id": domain, "name": "one"}
        list_id = client.post("/v1/keyword-lists", json=given).json()["data"]["id"]
        scan = {
            "domain_id": domain,
            "list_ids": [list_id],
            "engine_devices": [f"google/{device}" for device in ("desktop", "mobile")[:number]],
            "geographies": [{"country": "US"}],
        }
        assert client.post("/v1/scans", json=scan).status_code == 201
        body = {"list_id": list_id, "keywords": [f"keyword {word}" for word in range(words)]}
        added = client.post("/v1/keywords", json=body).json()["data"]["created"]
        if number == 1:
            assert client.delete(f"/v1/keywords/{added[0]['id']}").status_code == 204
            brief = {"domain_id": domain, "keywords": ["keyword 1", "keyword 2"]}
            assert client.post("/v1/keyword-briefs", json=brief).status_code in (200, 201)
            crawl = {"kind": "crawl", "domain_id": domain}
            assert client.post("/v1/jobs", json=crawl).status_code == 202
        hook = {"url": f"https://hooks.example/{number}", "event_types": [], "domain_id": domain}
        assert client.post("/v1/webhooks", json=hook).status_code == 201
    return str(server.key)


def test_a_twin_has_the_limits_the_portfolio_and_what_is_used(tmp_path: Path) -> None:
    with Server() as server:
        key = used_up(server)
        before = asked(server.url, key)
        told = mirror("--host", server.url, "--out", tmp_path / "twin", key=key)
        assert told.exit_code == 0, told.stderr
        assert asked(server.url, key) == before, "reading changed what there is"
    scenario = Scenario.load(tmp_path / "twin" / "world.yaml")
    [name] = scenario.accounts
    twin = twin_says(scenario, name)
    assert twin["account.entitlements"] == before["account.entitlements"]
    assert twin["slots.get"] == before["slots.get"]
    for meter, same in zip(before["account.usage"]["metrics"], twin["account.usage"]["metrics"], strict=True):
        assert meter == same
    cost, same = before["account.usage"]["cost"], twin["account.usage"]["cost"]
    assert {same[part] for part in ("spent", "ceiling", "resets_at")} == {
        cost[part] for part in ("spent", "ceiling", "resets_at")
    }
    assert len(scenario.receivers) == 2
    assert "1 job was under way there when last seen, and not here" in told.stdout
    assert scenario.accounts[name].used is not None
    [cooling] = scenario.accounts[name].used.cooldowns
    asked_for = scenario.start - SECOND  # in the second that the Date tells, and the world starts after it
    assert (cooling.spend, cooling.domain, cooling.since) == ("crawl", "site1.example", asked_for)
    for number, code in ((1, "cooldown_active"), (2, None)):
        world = World(scenario)
        actor = world.actors[name]
        body = {"kind": "crawl", "domain_id": actor.hosts[f"site{number}.example"]}
        call = Call("jobs.create", key=next(iter(actor.keys.values())), body=body)
        reply = world.service.handle(call, scenario.start).reply
        assert (reply.body or {}).get("code") == code, reply
    [note] = run(scenario).tables["notes"]
    assert note["text"].startswith("Made up, as nobody observed it: how the receiver endpoint-1 answers; ")
    assert "next: ranksim run" in told.stdout


def test_a_twin_is_written_again_where_nothing_else_lies(tmp_path: Path) -> None:
    out = tmp_path / "twin"
    with Server() as server:
        words = ("--host", server.url, "--out", out)
        assert mirror(*words, key=server.key).exit_code == 0
        key = used_up(server)
        assert mirror(*words, key=key).exit_code == 0
        again = (out / "world.yaml").read_text(encoding="utf-8")
        assert "site1.example" in again
        (out / "notes.txt").write_text("mine", encoding="utf-8")
        told = mirror(*words, key=key)
    assert (told.exit_code, "holds notes.txt, which ranksim did not write" in told.stderr) == (2, True)
    assert (out / "world.yaml").read_text(encoding="utf-8") == again
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "catalogue.yaml").write_text("name: acme\n", encoding="utf-8")
    told = mirror("--host", "http://127.0.0.1:9", "--out", tmp_path / "mine", key="k")
    assert (told.exit_code, "is not empty" in told.stderr) == (2, True)  # before anything is read


def test_what_comes_next_names_an_account_where_there_are_several(tmp_path: Path) -> None:
    with Server() as server:
        used_up(server)
        target = tmp_path / "target.yaml"
        target.write_text(
            f"environments: {{production: {server.url}, sandbox: {server.url}/sandbox}}\n"
            f"keys: {{main: {{token: {server.key}}},\n"
            f"  test: {{token: {server.sandbox_key}, environment: sandbox}}}}\n",
            encoding="utf-8",
        )
        told = mirror("--target", target, "--out", tmp_path / "twin")
        alone = mirror("--host", server.url, "--out", tmp_path / "one", key=server.key)
    assert "--account" not in alone.stdout
    [fit] = re.findall(r"ranksim (capacity fit .*)", told.stdout)
    assert " --account " in fit
    result = CliRunner().invoke(cli.app, fit.split())
    assert result.exit_code == 0, result.output
    assert re.search(r"price compare --scenario \S+ --account \S+ --b CATALOGUE", told.stdout)


@pytest.mark.parametrize("after", [0, 300_000, 1_300_000])
def test_a_cooldown_that_begins_while_it_is_read_is_not_lost(after: Micros) -> None:
    """A reply's Date has no fraction, so a job of the same second, or one begun since, is later than it."""
    began = instant("2026-03-04T10:00:00Z")
    now = began + SECOND  # read of a Date
    lists = {
        "domains.list": [{"id": "dom_1", "host": "a.example"}],
        "jobs.list": [{"kind": "crawl", "domain_id": "dom_1", "created_at": iso(began + after)}],
    }
    entitled = {"cooldown_seconds": {"crawl": 60}}
    account = ReadAccount("acme", "production", {"main": None}, {"account.entitlements": entitled}, lists)
    world = world_of(Reading((account,), {}, began), "http://127.0.0.1", now).scenario
    [cooling] = world["accounts"]["acme"]["used"]["cooldowns"]
    assert cooling["since"] == iso(min(began + after, now))
    assert world["start"] == iso(now)


def test_a_twins_files_are_read_by_the_other_commands(tmp_path: Path) -> None:
    with Server() as server:
        key = used_up(server)
        assert mirror("--host", server.url, "--out", tmp_path / "twin", key=key).exit_code == 0
    policy = Policy.load(tmp_path / "twin" / "policy.yaml")
    assert list(policy.catalogue.plans) == ["pro"]
    assert read_catalogue(str(tmp_path / "twin" / "catalogue.yaml")).plans == policy.catalogue.plans
    words = ["capacity", "fit", "--policy", str(tmp_path / "twin" / "policy.yaml"), "--json"]
    assert CliRunner().invoke(cli.app, words).exit_code == 0
    world = ["capacity", "fit", "--scenario", str(tmp_path / "twin" / "world.yaml"), "--json"]
    answer = json.loads(CliRunner().invoke(cli.app, world).stdout)
    assert [row["plan"] for row in answer["tables"]["answer"]] == ["pro"]
    assert any("What is used of the month so far is counted" in note for note in answer["notes"])
    assert any("does not know what every plan costs" in note for note in answer["notes"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world of a mirrored account: 12 slots of 7 words on two domains, one slot held, two briefs used."""
    out = tmp_path_factory.mktemp("mirrored") / "twin"
    with Server() as server:
        key = used_up(server)
        assert mirror("--host", server.url, "--out", out, key=key).exit_code == 0
    return out / "world.yaml"


FROM_AN_ACCOUNT = {
    "capacity slots --adds 100 --law fixed": "2,493 fresh words fit; by day 31 an addition has been refused",
    "capacity sync --batch 3": "3 requests take",
    "capacity workers --replications 0": "Workers so that 95 % start within 5m: 1 for rank_run.",
    "capacity outage --length 3h": "Of 0.25 events in 3h",  # of two a day
    "capacity fit": "The plan pro fits, for a price that is not known; the work costs the provider",
    "capacity fit --catalogue illustrative": "The plan starter fits, for 29.00 USD a month",
    "capacity portfolio --grow domains": "The plan pro carries 100 domains; what binds first: job starts",
    "price compare --b {tighter} --replications 2": "B differs from A in",
    "price pareto --vary 'plans.pro.price=90 USD,99 USD' --replications 2": "One of 2 choices is not beaten",
}


@pytest.mark.parametrize("question", FROM_AN_ACCOUNT)
def test_questions_start_from_a_mirrored_account(question: str, world: Path) -> None:
    tighter = Path(__file__).parents[3] / "examples" / "pricing" / "tighter.yaml"
    words = [*shlex.split(question.format(tighter=tighter)), "--scenario", str(world), "--json"]
    told = CliRunner().invoke(cli.app, words)
    assert (told.exit_code, FROM_AN_ACCOUNT[question] in told.stdout) == (0, True), told.output
    notes = json.loads(told.stdout).get("notes", [])
    assumed = "No client of the scenario runs ranks: every domain is taken to be run every 1d."
    assert (assumed in notes) == (question.split()[1] not in ("slots", "sync"))


def test_a_mirrored_account_is_priced_as_it_would_run(world: Path) -> None:
    own = own_scenario(Scenario.load(world))
    assert (own.account, own.plan) == ("demo", "pro")
    answer = compare_account(world, "illustrative", replications=2)
    runs = run(own.scenario, replications=2)
    used = own.scenario.accounts["demo"].used
    assert used is not None
    assert answer.row("cost")["a"] == runs.metric("spend.demo.max").mean - used.spent  # in one billing month
    assert [row["metric"] for row in answer.differences if row["unit"] == "money"] == ["cost"]
    assert "The margin is not known, since A does not know what pro costs" in answer.sentence


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "price break-even --population {world}",
            "of one account `ranksim capacity fit --scenario` says the",
        ),
        ("price search {world} --vary plans.pro.price=9", "a search wants the recorded calls of many"),
        ("price compare --b illustrative --population {world}", "give it as --scenario"),
        (
            "price compare --b illustrative",
            "expected either customers or an account of a --scenario, found n",
        ),
        ("price pareto --vary a=1 --population {world} --scenario {world}", "of a --scenario, found both"),
        (
            "price pareto --vary plans.pro.slot_limit=5 --population {world}",
            "is a scenario, with accounts rather",
        ),
        ("capacity sync", "--keywords: expected it, or an account that says it, with --scenario FILE"),
        ("capacity workers --account demo", "--account: only a scenario has accounts"),
        ("capacity slots --adds 1 --scenario {world} --account nobody", "account: no such account 'nobody'"),
    ],
)
def test_what_cannot_start_from_an_account_says_so_in_one_sentence(
    words: str, message: str, world: Path
) -> None:
    told = CliRunner().invoke(cli.app, words.format(world=world).split())
    assert (told.exit_code, told.stdout) == (2, "")
    assert message in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_twin_is_served_with_what_is_used(tmp_path: Path) -> None:
    with Server() as server:
        key = used_up(server)
        before = asked(server.url, key)
        told = mirror("--host", server.url, "--out", tmp_path / "twin", key=key)
    policy = Policy.load(tmp_path / "twin" / "policy.yaml")
    assert (
        f"serve --policy {tmp_path / 'twin'}/policy.yaml --state {tmp_path / 'twin'}/world.db" in told.stdout
    )
    target = read_target(tmp_path / "twin" / "target.yaml")
    twin = Twin(policy, sender=Scripted())
    log = attach(twin, tmp_path / "twin" / "world.db")
    try:
        [about] = target.keys.values()
        assert twin.keys == {"production": about.token}
        replies = {name: twin.call(Call(name, key=about.token)) for name in (*TOLD, "webhooks.list")}
        data = {name: (reply.body or {})["data"] for name, reply in replies.items()}
        assert data["account.entitlements"] == before["account.entitlements"]
        assert data["slots.get"] == before["slots.get"]
        assert [(one["metric"], one["used"]) for one in data["account.usage"]["metrics"]] == [
            (one["metric"], one["used"]) for one in before["account.usage"]["metrics"]
        ]
        assert data["account.usage"]["cost"]["spent"] == before["account.usage"]["cost"]["spent"]
        assert len(data["webhooks.list"]) == 2
    finally:
        log.close()


@pytest.mark.slow
def test_a_deployment_of_others_has_a_twin_too(tmp_path: Path) -> None:
    with served(tmp_path) as target:
        told = mirror("--target", target, "--out", tmp_path / "twin")
        assert told.exit_code == 0, told.stderr
    scenario = Scenario.load(tmp_path / "twin" / "world.yaml")
    assert len(scenario.accounts) >= 2
    environments = {account.environment for account in scenario.accounts.values()}
    assert environments == {"production", "sandbox"}
    for name, account in scenario.accounts.items():
        plan = scenario.policy.catalogue.plans[account.plan]
        twin = twin_says(scenario, name)
        assert twin["slots.get"]["limit"] == plan.slot_limit
        assert account.used is not None
        assert {
            meter["metric"]: meter["used"] for meter in twin["account.usage"]["metrics"]
        } == account.used.metrics
    run(scenario)


def test_a_key_that_tells_of_no_account_is_refused(tmp_path: Path) -> None:
    with Server() as server:
        told = mirror("--host", server.url, "--out", tmp_path / "twin", key="rk_live_wrong")
    assert (told.exit_code, "no key of the target tells" in told.stderr) == (2, True)
    assert "(main: 401: the key is refused)" in told.stderr
    assert not (tmp_path / "twin").exists()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{closed.getsockname()[1]}"
        told = mirror("--host", host, "--out", tmp_path / "twin", key="rk_live_any")
    assert (told.exit_code, "main: nothing was answered: connection refused" in told.stderr) == (2, True), (
        told.stderr
    )
    told = mirror("--host", "http://127.0.0.1:9", "--target", tmp_path, key="k")
    assert (told.exit_code, "expected either" in told.stderr) == (2, True)


# What an account has used when it starts

WORLD = """
scenario: 1
start: 2026-03-04T10:00:00Z
length: 1h
accounts:
  acme:
    plan: pro
    anchor: 2026-02-10T00:00:00Z
    portfolio: {domains: [a.example], keywords: 4}
    further: [{domains: [b.example], keywords: 2, scans: [{active: false}]}]
    used: {metrics: {keyword_brief_refreshes: 7}, spent: 3.25 USD, held: 5}
"""


def test_what_is_used_counts_in_the_period_of_the_start() -> None:
    scenario = Scenario.parse(WORLD)
    told = twin_says(scenario, "acme")
    assert (told["slots.get"]["active"], told["slots.get"]["held"]) == (4, 5)
    used = {meter["metric"]: meter["used"] for meter in told["account.usage"]["metrics"]}
    assert used["keyword_brief_refreshes"] == 7
    assert told["account.usage"]["cost"]["settled"] == "3.25"
    world = World(scenario)
    key = next(iter(world.actors["acme"].keys.values()))
    later = instant("2026-03-10T00:00:00Z")  # the month and the week have turned
    reply = world.service.handle(Call("account.usage", key=key), later).reply
    assert '"used": 7' not in json.dumps(reply.body)
    assert reply.body is not None
    assert reply.body["data"]["cost"]["settled"] == "0.00"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("keyword_brief_refreshes", "keyword_brief_refresh", "used.metrics"),
        ("keywords: 2, scans: [{active: false}]", "keywords: 100000", "further"),
        ("held: 5", "held: -5", "used.held"),
    ],
)
def test_what_cannot_be_used_or_tracked_is_refused_with_its_line(old: str, new: str, where: str) -> None:
    with pytest.raises(BadInput, match=where):
        Scenario.parse(WORLD.replace(old, new))


def test_a_deployment_that_never_ends_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte comes before each read has waited for long; the call, and reading in all, have their ends."""
    ended = threading.Event()

    def slowly(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                    while not ended.wait(0.02):
                        connection.sendall(b" ")
            except OSError:
                if ended.is_set():
                    return

    monkeypatch.setattr("ranksim.judge.mirror.mirror.PATIENCE", 0.1)
    monkeypatch.setattr("ranksim.judge.mirror.mirror.READING", SECOND // 4)
    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=slowly, args=(server,))
        serving.start()
        try:
            result = mirror("--host", f"http://127.0.0.1:{server.getsockname()[1]}", key="rk_1")
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)
            serving.join()
    assert result.exit_code == 2, result.output
    assert "the deployment could not be read within" in " ".join(result.output.split())


def read_without_counts(key: str, service: Service, *, words: bool) -> Reading:
    """Read an account whose lists do not say how many keywords they have, and perhaps not show these."""
    program = read_mirrored(Target.simple("http://127.0.0.1", key))
    now, answer = 0, None
    while True:
        try:
            step = program.send(answer)
        except StopIteration as ended:
            return cast("Reading", ended.value)
        call = Call(step.operation, key=key, query=step.query)
        reply = service.handle(call, now).reply if step.surface != "graphql" else None
        if reply is None or (step.operation == "keywords.list" and not words):
            answer = Received(404, {"code": "not_found"}, {}, now, now)
            continue
        body = reply.body
        if step.operation == "keyword_lists.list" and body is not None:
            body = {**body, "data": [{**one, "keyword_count": None} for one in body["data"]]}
        answer = Received(reply.status, body, reply.headers, now, now)


@pytest.mark.parametrize("words", [True, False])
def test_keywords_are_counted_where_lists_do_not_count_them(words: bool) -> None:
    world = World(
        Scenario.parse(
            "start: 2026-03-01\nlength: 1d\naccounts: {acme: {plan: pro, portfolio: {domains: 2, "
            "lists: 2, keywords: 250}, further: [{domains: [a.example], keywords: 7}]}}\n"
        )
    )
    [key] = world.actors["acme"].keys.values()
    twin = world_of(read_without_counts(key, world.service, words=words), "http://127.0.0.1", 0)
    account = twin.scenario["accounts"]["acme"]
    tracked = [one["keywords"] for one in (account["portfolio"], *account["further"])]
    assert tracked == ([250, 250, 7] if words else [0, 0, 0])
    told = [note for note in twin.notes if "keyword_count" in note]
    assert told == (
        []
        if words
        else [
            "acme: 5 keyword lists show no keyword_count, and keywords cannot be counted (404 not_found), so "
            "none are tracked there in this world: write how many there are into the portfolios of world.yaml"
        ]
    )
