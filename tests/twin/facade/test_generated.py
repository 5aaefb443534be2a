"""Programs that were made from the served documents alone: generated requests, generated clients, a proxy.

Those that run on Node are skipped without it: `npm install --prefix tests/twin/facade/node` gets them.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from graphql import GraphQLError

from ranksim.core.clock import DAY, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Answer, Attempt, Call
from ranksim.core.service.operations import OPERATIONS
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.control.document import control_document
from ranksim.twin.facade.http.collection import write_bruno
from ranksim.twin.facade.http.examples import describe_service
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.loop_thread import LoopThread

pytestmark = pytest.mark.heavy

MIB = 1_048_576
PLENTY = {"read": 10**6, "write": 10**6, "expensive": 10**6}
"""Rate limits that generated requests do not reach."""


def write_documents(folder: Path) -> None:
    (folder / "api.json").write_text(json.dumps(describe_service(Policy())))
    (folder / "control.json").write_text(json.dumps(control_document()))


class Acknowledging:
    """A sender that opens no socket: every webhook is received."""

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        return Answer(200)

    async def close(self) -> None:
        pass


class Served:
    """A deployment behind a socket whose time stands still, with two domains that have results."""

    def __init__(self) -> None:
        policy = Policy().replace(facts={"rates": PLENTY})
        start = instant("2026-03-04T10:00:00Z")
        self.twin = Twin(policy, clock="manual", start=start, plan="agency", sender=Acknowledging())
        self.key = self.twin.keys["production"]
        self.loop = LoopThread()
        self.loop.call(self._furnish())
        # Bodies may be large, so that too many items are refused for being too many.
        # the documents describe the service, which ignores further fields, and generators bring some
        self.listener = Listener(Facade(self.twin, max_body=64 * MIB, strict_body=False))
        self.loop.call(self.listener.open())
        self.url = self.listener.url

    def _create(self, noun: str, body: dict[str, Any]) -> Any:
        reply = self.twin.call(Call(f"{noun}.create", self.key, body=body))
        assert reply.status < 300, reply.body
        return (reply.body or {})["data"]

    async def _furnish(self) -> None:
        for host in ("www.example.com", "example.org"):
            domain = {"domain_id": self._create("domains", {"host": host})["id"]}
            listed = self._create("keyword_lists", domain | {"name": "words"})["id"]
            self._create("keywords", {"list_id": listed, "keywords": ["boots", "shoes"]})
            scan = {"engine_devices": ["google/desktop"], "geographies": [{"country": "DE"}]}
            self._create("scans", domain | {"list_ids": [listed]} | scan)
            self._create("webhooks", {"url": "https://hooks.example"})
            for kind in ("rank_run", "crawl", "site_optimization", "ai_scan"):
                self._create("jobs", domain | {"kind": kind})
        await self.twin.advance(by=DAY)

    def close(self) -> None:
        self.loop.call(self.listener.close())
        self.loop.call(self.twin.close())
        self.loop.stop()


@pytest.fixture
def served() -> Iterator[Served]:
    deployment = Served()
    yield deployment
    deployment.close()


def generate_requests(served: Served, path: str, folder: Path, *options: str, settings: str = "") -> str:
    """Let schemathesis try a document out, all its checks on; gives its report, which must be good."""
    config = folder / "schemathesis.toml"
    config.write_text(settings)
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config)]
    command += ["run", served.url + path, "-H", f"Authorization: Bearer {served.key}"]
    command += ["--generation-database", "none", "--continue-on-failure", *options]
    hooks = {"SCHEMATHESIS_HOOKS": "exclusions", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | hooks, capture_output=True, text=True, timeout=3600, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    return done.stdout


@pytest.mark.fact("S94", "S96", "S105", "S107", "E36")
def test_generated_requests_find_nothing_wrong(served: Served, tmp_path: Path) -> None:
    said = generate_requests(served, "/openapi.json", tmp_path, "-n", "50")
    assert f"Tested: {len(OPERATIONS)}" in said


@pytest.mark.fact("S70", "E39")
def test_following_the_links_finds_nothing_wrong(served: Served, tmp_path: Path) -> None:
    """Only the links of the document, none that are guessed, so that long chains come about."""
    links = "[phases.stateful]\nmax-steps = 10\n[phases.stateful.inference]\nalgorithms = []\n"
    options = ("-n", "300", "--phases", "stateful")
    said = generate_requests(served, "/openapi.json", tmp_path, *options, settings=links)
    covered = re.search(r"(\d+) covered", said)
    assert covered is not None
    assert int(covered[1]) >= 15


@pytest.mark.fact("U83", "S4")
def test_generated_graphql_finds_nothing_wrong(served: Served, tmp_path: Path) -> None:
    said = generate_requests(served, "/graphql", tmp_path, "-n", "50")
    assert f"Tested: {len(OPERATIONS)}" in said


def generate_client(folder: Path, document: str, package: str) -> str:
    """Let openapi-python-client make a package of a document; gives what it said."""
    (folder / "config.yml").write_text("post_hooks: []\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", f"{document}.json"]
    command += ["--meta", "none", "--output-path", package, "--config", "config.yml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("document", ["api", "control"])
def test_a_generated_client_is_typed(tmp_path: Path, document: str) -> None:
    pytest.importorskip("mypy", reason="wants mypy")
    write_documents(tmp_path)
    generate_client(tmp_path, document, "tracked")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "tracked"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.fact("S44", "S47")
def test_a_generated_client_does_its_work(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "api.json").write_text(httpx.get(f"{served.url}/openapi.json", timeout=60).text)
    assert "WARNING" not in generate_client(tmp_path, "api", "tracked")
    monkeypatch.syspath_prepend(tmp_path)

    def api(operation: str) -> Any:
        noun = operation.partition(".")[0]
        return importlib.import_module(f"tracked.api.{noun}.{operation.replace('.', '_')}").sync

    models = importlib.import_module("tracked.models")
    client = importlib.import_module("tracked").AuthenticatedClient(served.url, served.key)
    with client as client:
        domain = api("domains.create")(client=client, body=models.DomainBody(host="new.example")).data
        made = api("keyword_lists.create")(
            client=client, body=models.NamedBody(domain_id=domain.id, name="words")
        ).data
        added = api("keywords.create")(
            client=client,
            body=models.KeywordsBody(list_id=made.id, keywords=[f"word {n}" for n in range(45)]),
        ).data
        assert len(added.created) == 45

        words, cursor = [], None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            page = api("keywords.list")(client=client, list_id=made.id, limit=10, **more)
            words += [keyword.keyword for keyword in page.data]
            cursor = page.next_cursor
            if not page.has_more:
                break
        assert words == [f"word {n}" for n in range(45)]

        body = models.JobBody(kind=models.JobBodyKind.CRAWL, domain_id=domain.id)
        job = api("jobs.create")(client=client, body=body, idempotency_key="once").data
        assert api("jobs.create")(client=client, body=body, idempotency_key="once").data.id == job.id
        served.loop.call(served.twin.advance(by=DAY))
        done_job = api("jobs.get")(job.kind, job.id, client=client).data
        assert (done_job.status.value, done_job.progress) == ("done", 100)
        refused = api("jobs.get")(job.kind, "none", client=client)
        assert refused.code == "not_found"
        assert api("crawled_pages.list")(client=client, domain_id=domain.id).has_more in (True, False)


@pytest.mark.fact("U83")
def test_a_client_of_gql_validates_what_it_sends_and_does_its_work(served: Served) -> None:
    """It asks for the schema, checks each document against it, and raises what is refused."""
    import gql  # of this test alone
    from gql.transport.exceptions import TransportQueryError
    from gql.transport.httpx import HTTPXTransport

    def made(number: int) -> Any:
        return {"input": {"host": f"gql-{number}.example"}}

    auth = {"authorization": f"Bearer {served.key}"}
    transport = HTTPXTransport(f"{served.url}/graphql", headers=auth, timeout=60)
    create = gql.gql("mutation($input: CreateDomainInput!) { createDomain(input: $input) { id host } }")
    page = gql.gql("query($after: String) { domains(first: 2, after: $after) "
                   "{ nodes { host } pageInfo { hasNextPage endCursor } } }")  # fmt: skip
    with gql.Client(transport=transport, fetch_schema_from_transport=True) as session:
        for number in range(5):
            create.variable_values = made(number)
            assert session.execute(create)["createDomain"]["host"] == f"gql-{number}.example"
        hosts, after = [], None
        while True:
            page.variable_values = {"after": after}
            found = session.execute(page)["domains"]
            hosts += [node["host"] for node in found["nodes"]]
            after = found["pageInfo"]["endCursor"]
            if not found["pageInfo"]["hasNextPage"]:
                break
        assert hosts[-5:] == [f"gql-{number}.example" for number in range(5)]
        create.variable_values = {"input": {"host": "no host"}}
        with pytest.raises(TransportQueryError) as refused:
            session.execute(create)
        assert (refused.value.errors or [{}])[0]["extensions"]["code"] == "validation_failed"
        with pytest.raises(GraphQLError, match="Cannot query field 'none'"):
            session.execute(gql.gql("{ none }"))  # before anything is sent


NODE = Path(__file__).with_name("node")

on_node = pytest.mark.skipif(
    shutil.which("node") is None or not (NODE / "node_modules").exists(),
    reason="wants Node, and `npm install --prefix tests/twin/facade/node`",
)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder with both documents, the client, and the tools in `node_modules/.bin`."""
    (tmp_path / "node_modules").symlink_to(NODE / "node_modules")
    for file in ("package.json", "client.ts", "graphql_clients.mjs", "redocly.yaml"):
        shutil.copy(NODE / file, tmp_path)
    write_documents(tmp_path)
    return tmp_path


def tool(folder: Path, name: str, *arguments: str) -> str:
    """Run one of Node's tools; gives what it wrote."""
    command = [name if name == "node" else str(NODE / "node_modules" / ".bin" / name), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@on_node
def test_a_typescript_client_may_leave_out_what_is_optional(served: Served, node: Path) -> None:
    """openapi-typescript at its default settings; what it makes passes `tsc --strict`, and works."""
    for name in ("api", "control"):
        tool(node, "openapi-typescript", f"{name}.json", "-o", f"{name}.ts")
    module = ("--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext")
    tool(node, "tsc", "--strict", *module, "--types", "node", "client.ts")
    statuses, listed, code = json.loads(tool(node, "node", "client.js", served.url, served.key))
    assert (statuses, listed, code) == ([201, 201, 201, 201, 202, 200, 422], 1, "validation_failed")


@on_node
@pytest.mark.fact("U83")
def test_graphql_clients_work_as_they_come_or_say_what_to_change(served: Served, node: Path) -> None:
    """Apollo Client and urql, which sends queries by GET unless it is asked not to."""
    found = json.loads(tool(node, "node", "graphql_clients.mjs", f"{served.url}/graphql", served.key))
    listed, made, refused = found["apollo"]
    assert [len(listed["nodes"]), made["host"], refused] == [1, "apollo.example", "validation_failed"]
    said, listed, made, refused = found["urql"]
    assert "\n" not in said
    assert said.endswith("send the document as JSON in the body (of urql, say preferGetMethod: false).")
    assert [len(listed["nodes"]), made["host"], refused] == [1, "urql.example", "validation_failed"]


@on_node
def test_bruno_runs_its_collection(served: Served, node: Path) -> None:
    write_bruno(describe_service(Policy()), node / "collection")
    options = ["-r", "--env", "fake", "--env-var", f"host={served.url}", "--env-var", f"key={served.key}"]
    tool(node / "collection", "bru", "run", *options, "--reporter-json", "../report.json")
    (report,) = json.loads((node / "report.json").read_text("utf-8"))
    statuses = {sent["name"]: sent["response"]["status"] for sent in report["results"]}
    assert statuses.keys() == OPERATIONS.keys()
    assert (statuses["domains.create"], statuses["domains.list"], statuses["jobs.get"]) == (201, 200, 404)
    assert set(statuses.values()) <= {200, 201, 404}, statuses


@on_node
def test_a_linter_finds_nothing_but_what_is_meant_so(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redocly's recommended rules; `redocly.yaml` gives a reason for each that is off."""
    monkeypatch.setenv("REDOCLY_TELEMETRY", "off")
    monkeypatch.setenv("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
    for name in ("api", "control"):
        said = json.loads(tool(node, "redocly", "lint", f"{name}.json", "--format", "json"))
        assert (said["totals"]["errors"], said["totals"]["warnings"], said["problems"]) == (0, 0, [])


@on_node
def test_spectral_has_no_warning(node: Path) -> None:
    (node / ".spectral.yaml").write_text('extends: ["spectral:oas"]')
    tool(node, "spectral", "lint", "api.json", "control.json", "--fail-severity", "warn")


@on_node
def test_a_mock_made_of_the_document_answers_with_its_examples(node: Path) -> None:
    command = ["node_modules/.bin/prism", "mock", "api.json", "--port", "0"]
    with subprocess.Popen(command, cwd=node, stdout=subprocess.PIPE, text=True) as mock:
        try:
            assert mock.stdout is not None
            url = next(
                found[0] for line in mock.stdout if (found := re.search(r"http://127[\d.]+:\d+", line))
            )
            head = {"authorization": "Bearer any"}
            account = httpx.get(f"{url}/v1/account", headers=head, timeout=60).json()["data"]
            assert account["plan"] in Policy().catalogue.plans
            wanted = head | {"prefer": "code=404"}
            refused = httpx.get(f"{url}/v1/domains/none", headers=wanted, timeout=60).json()
            assert (refused["code"], refused["status"]) == ("not_found", 404)
        finally:
            mock.terminate()


SAMPLES: list[tuple[str, str, Any]] = [
    ("GET", "/v1/domains?limit=1", None),
    ("GET", "/v1/domains?cursor=none", None),
    ("GET", "/v1/domains/none", None),
    ("POST", "/v1/domains", {"host": "proxied.example"}),
    ("POST", "/v1/jobs", {"kind": "crawl", "domain_id": "none"}),
    ("POST", "/v1/webhooks", {"url": "HTTP://127.0.0.1:9/"}),
    *(
        ("GET", f"/v1/{path}", None)
        for path in (
            "account", "account/usage", "account/entitlements", "slots", "keywords", "scans", "positions",
            "webhooks", "webhook-events", "webhook-deliveries", "jobs/crawl",
        )
    ),
]  # fmt: skip


@on_node
def test_a_validating_proxy_finds_nothing_wrong(served: Served, node: Path) -> None:
    """Prism compares each answer with the document, and names what is wrong with it in a header."""
    command = ["node_modules/.bin/prism", "proxy", "api.json", served.url, "--port", "0"]
    with subprocess.Popen(command, cwd=node, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            url = next(
                found[0] for line in proxy.stdout if (found := re.search(r"http://127[^\s\x1b]+", line))
            )
            auth = {"authorization": f"Bearer {served.key}"}
            with httpx.Client(base_url=url, headers=auth, timeout=60) as client:
                for method, path, body in SAMPLES:
                    answer = client.request(method, path, json=body)
                    assert "x-request-id" in answer.headers, (path, answer.text)
                    wrong = json.loads(answer.headers.get("sl-violations", "[]"))
                    # Of requests it mistakes one schema for another (5.14: a job's body for a domain's).
                    assert [one for one in wrong if one["location"][0] == "response"] == [], path
        finally:
            proxy.kill()
