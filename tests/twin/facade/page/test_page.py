"""The live page as files: who is sent it, under which policy, and the state behind it."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ranksim.testing import World

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

TOKEN = {"authorization": "Bearer hands"}

SCRIPTS = ("page.js", "docs.js", "graphql.js")


@pytest.fixture
def world() -> Iterator[World]:
    with World(plan="pro", seed=1, control_token="hands") as made:
        yield made


def nobody(world: World) -> Any:
    """A client that sends no key."""
    client = world.client()
    del client.headers["authorization"]
    return client


@pytest.mark.parametrize("path", ["/", "/_ranksim"])
def test_a_browser_is_sent_a_page_that_asks_for_the_token(world: World, path: str) -> None:
    answer = nobody(world).get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert 'src="/_ranksim/page.js"' in answer.text
    assert "wants the token" in answer.text
    assert world.key not in answer.text


@pytest.mark.parametrize(
    ("path", "more"),
    [("/", {}), ("/", {"accept": "application/json"}), ("/", {"accept": "*/*"}), ("/other", BROWSER)],
)
def test_others_are_answered_by_the_service_as_ever(world: World, path: str, more: dict[str, str]) -> None:
    answer = nobody(world).get(path, headers=more)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert nobody(world).post("/", headers=BROWSER).json()["code"] == "unauthorized"


def test_a_program_is_told_what_the_control_api_has(world: World) -> None:
    answer = nobody(world).get("/_ranksim", headers=TOKEN)
    assert (answer.status_code, answer.json()["GET /_ranksim/clock"]) == (200, "Read the clock")


@pytest.mark.parametrize("path", ["/", "/_ranksim", "/_ranksim/page.js", "/_ranksim/page.css"])
def test_the_page_is_served_under_its_own_names_and_to_no_other_origin(world: World, path: str) -> None:
    client = nobody(world)
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        assert client.get(path, headers=BROWSER | TOKEN | headers).status_code == 403


def test_the_policy_lets_nothing_run_or_load_but_the_page_itself(world: World) -> None:
    client = nobody(world)
    forms = ("/docs", "/docs/docs.js", "/docs/swagger-ui-bundle.js", "/graphql", "/sandbox/graphql")
    for path in ("/", "/_ranksim/page.js", "/_ranksim/page.css", *forms):
        said = client.get(path, headers=BROWSER | TOKEN).headers
        policy = dict(part.split(" ", 1) for part in said["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert (said["x-content-type-options"], said["referrer-policy"]) == ("nosniff", "no-referrer")
        if path in forms:
            assert set(" ".join(policy.values()).split()) <= {"'none'", "'self'", "'unsafe-inline'", "data:"}
            assert "'unsafe-inline'" not in policy["script-src"]
        else:
            assert policy["style-src"] == policy["script-src"]
            assert policy["require-trusted-types-for"] == "'script'"


def test_a_head_of_the_page_has_no_body(world: World) -> None:
    answer = nobody(world).head("/", headers=BROWSER | TOKEN)
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 1_000


def text_of(name: str) -> str:
    return files("ranksim.twin.facade.page").joinpath(name).read_text("utf-8")


def test_script_and_style_are_small_and_fetch_nothing_from_elsewhere() -> None:
    assert sum(len(text_of(name).encode()) for name in (*SCRIPTS, "page.css")) < 100_000
    for name in ("page.html", "docs.html", "graphql.html", *SCRIPTS, "page.css"):
        addresses = set(re.findall(r"https?://[^\s\"'`)]*", text_of(name)))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name  # a name space, which nothing fetches


def test_the_script_makes_no_markup_of_text() -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc"
    )
    for script in map(text_of, SCRIPTS):
        assert not re.findall(forbidden, script)
        assert not re.findall(r"\.(href|src)\s*=|\"(href|src)\"", script)
    assert "style=" not in text_of("page.html")
    assert not re.findall(r"\son\w+=", text_of("page.html"))


# The pages with forms


@pytest.mark.parametrize("path", ["/graphql", "/sandbox/graphql"])
def test_a_browser_that_opens_graphql_gets_a_page_and_nothing_is_counted(world: World, path: str) -> None:
    client = nobody(world)
    answer = client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "/docs/graphiql.min.js" in answer.text
    assert client.head(path, headers=BROWSER).content == b""
    assert world.requests.count() == 0


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "application/graphql-response+json"])
def test_programs_are_answered_by_graphql_as_ever(world: World, accept: str) -> None:
    answer = world.client().get("/graphql", headers={"accept": accept})
    assert (answer.status_code, answer.headers["allow"]) == (405, "OPTIONS, POST")
    assert answer.json()["errors"][0]["extensions"]["code"] == "method_not_allowed"
    sent = world.client().post("/graphql", json={"query": "{slots{used}}"}, headers=BROWSER)
    assert sent.json() == {"data": {"slots": {"used": 0}}}


def test_the_control_api_is_described_to_whoever_may_use_it(world: World) -> None:
    client = nobody(world)
    assert "/_ranksim/clock/advance" in client.get("/docs/control.json", headers=TOKEN).json()["paths"]
    for wrong, status in (
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        (TOKEN | {"host": "evil.example"}, 403),
        (TOKEN | {"origin": "http://evil.example"}, 403),
    ):
        answer = client.get("/docs/control.json", headers=wrong)
        assert (answer.status_code, "paths" in answer.json()) == (status, False)


def test_every_file_that_a_page_names_is_served(world: World) -> None:
    client = nobody(world)
    for page in ("/docs", "/graphql"):
        named = re.findall(r'(?:src|href)="(/[^"]+)"', client.get(page, headers=BROWSER).text)
        assert len(named) >= 3
        for path in named:
            answer = client.get(path)
            assert (answer.status_code, bool(answer.content)) == (200, True), path
            assert answer.headers["content-type"].partition(";")[0] in ("text/javascript", "text/css")


# The state behind it


def begun(world: World) -> tuple[str, str]:
    """Make a domain, an endpoint that nobody answers, and a crawl."""
    client = world.client()
    domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
    receiver = world.receiver(500)
    endpoint = world.subscribe(receiver)["id"]
    client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})
    return domain, endpoint


def test_the_overview_shows_what_the_api_shows(world: World) -> None:
    domain, endpoint = begun(world)
    client, control = world.client(), world.control()
    usage = client.get("/v1/account/usage").json()["data"]
    slots = client.get("/v1/slots").json()["data"]
    seen = control.get("/overview").json()
    account = seen["accounts"][0]
    assert (account["plan"], account["status"], account["environment"]) == ("pro", "active", "production")
    assert account["cost"] == {
        name: usage["cost"][name] for name in ("settled", "reserved", "spent", "ceiling", "resets_at")
    }
    assert account["slots"] == {name: slots[name] for name in ("active", "held", "limit", "resets_at")}
    for quota, shown in zip(account["quotas"], usage["metrics"], strict=True):
        assert quota == {name: shown[name] for name in ("metric", "used", "limit", "period", "resets_at")}
    assert [(one["domain_id"], one["spend"]) for one in account["cooldowns"]] == [(domain, "crawl")]
    windows = {one["class"]: one["remaining"] for one in account["keys"][0]["windows"]}
    assert windows == {"read": 598, "write": 118, "expensive": 19}
    assert (seen["jobs"][0]["kind"], seen["jobs"][0]["host"]) == ("crawl", "a.example")
    assert (seen["next_due"]["what"], seen["next_due"]["id"]) == ("job", seen["jobs"][0]["id"])
    assert (seen["endpoints"][0]["id"], seen["endpoints"][0]["failures"]) == (endpoint, 0)
    assert seen["answered"] == {"2xx": 5}
    json.dumps(seen)


def test_the_overview_shows_attempts_and_when_the_next_is(world: World) -> None:
    begun(world)
    control = world.control()
    world.clock.advance(job=control.get("/overview").json()["jobs"][0]["id"])
    world.clock.advance("10m")
    endpoint = control.get("/overview").json()["endpoints"][0]
    assert endpoint["failures"] == len(endpoint["attempts"]) > 1
    assert endpoint["waiting"][0]["at"] == endpoint["attempts"][0]["next_attempt_at"]
    sent = control.get(f"/attempts/{endpoint['attempts'][0]['id']}/request").json()
    assert sent["url"] == endpoint["url"]
    assert json.loads(sent["body"])["type"] == "job.completed"
    assert sent["headers"]["Service-Signature"].startswith("t=")
    assert control.get("/attempts/att_0000009999/request").status_code == 404


def test_jobs_under_way_come_before_those_that_ended(world: World) -> None:
    domain, _ = begun(world)
    crawl = world.control().get("/overview").json()["jobs"][0]["id"]
    world.client().post("/v1/jobs", json={"kind": "rank_run", "domain_id": domain})
    world.jobs.fail(crawl, "no")
    shown = world.control().get("/overview").json()["jobs"]
    assert [(one["kind"], one["status"]) for one in shown] == [("rank_run", "running"), ("crawl", "failed")]


def test_what_a_timeline_does_is_due_where_it_comes_first(tmp_path: Path) -> None:
    """And can be advanced to; after it a job is due, as ever."""
    path = tmp_path / "world.yaml"
    path.write_text(
        "{start: 2026-03-02T09:00:00Z, length: 1d, accounts: {acme: {plan: pro, portfolio: {}}}, "
        "timeline: [{at: 5s, do: change_plan, account: acme, plan: agency}]}",
        "utf-8",
    )
    with World.of(path) as world:
        domain = world.client().get("/v1/domains").json()["data"][0]["id"]
        world.client().post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})
        due = world.control().get("/overview").json()["next_due"]
        assert due == {"at": "2026-03-02T09:00:05Z", "what": "timeline", "id": "the timeline"}
        world.clock.advance("5s")
        assert world.control().get("/overview").json()["next_due"]["what"] == "job"
