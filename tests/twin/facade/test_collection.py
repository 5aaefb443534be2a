"""The requests of the OpenAPI document, as an .http file and as a collection of Bruno."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ranksim import cli
from ranksim.testing import World


def invoke(*words: str) -> str:
    done = CliRunner().invoke(cli.app, ["explain", "schema", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_an_http_file_has_a_request_for_each_operation_that_the_fake_understands() -> None:
    text = invoke("openapi", "--requests", "http")
    sections = re.split(r"(?m)^### ", text)
    document = json.loads(invoke("openapi"))
    operations = {
        operation["operationId"] for path in document["paths"].values() for operation in path.values()
    }
    assert {section.partition(":")[0] for section in sections[1:]} == operations
    assert sections[0].startswith("@host = http://127.0.0.1:8080\n@key = \n")
    with World(plan="agency") as world, world.client() as client:
        statuses = {}
        for section in sections[1:]:
            head, _, body = section.partition("\n\n")
            name, line = head.splitlines()[0].partition(":")[0], head.splitlines()[1]
            method, _, url = line.partition(" ")
            path = re.sub(r"{{(id|kind)}}", "dom_1", url.removeprefix("{{host}}"))
            content = body.strip() or None
            headers = {"Content-Type": "application/json"} if content else {}
            statuses[name] = client.request(method, path, content=content, headers=headers).status_code
    assert statuses["domains.list"] == 200
    assert statuses["domains.create"] == 201
    assert not {name: status for name, status in statuses.items() if status in (400, 405, 415, 500)}


def test_a_collection_of_bruno(tmp_path: Path) -> None:
    folder = tmp_path / "collection"
    said = invoke("openapi", "--requests", "bruno", "--out", str(folder))
    files = list(folder.rglob("*.bru"))
    assert said == f"{len(files) - 1} requests written to {folder}\n"
    assert json.loads((folder / "bruno.json").read_text(encoding="utf-8"))["type"] == "collection"
    assert "host: http://127.0.0.1:8080" in (folder / "environments" / "fake.bru").read_text(encoding="utf-8")
    text = (folder / "domains" / "domains.update.bru").read_text(encoding="utf-8")
    assert "patch {\n  url: {{host}}/v1/domains/:id\n  body: json\n  auth: bearer\n}" in text
    assert "params:path {\n  id: \n}" in text
    body = re.search(r"body:json {\n(.*?)\n}", text, re.S)
    assert body is not None
    assert json.loads(body[1])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["openapi", "--requests", "postman"], "expected http, which is printed, or bruno with --out DIR"),
        (["openapi", "--requests", "bruno"], "expected http, which is printed, or bruno with --out DIR"),
        (["scenario", "--requests", "http"], "expected the document openapi, found scenario"),
    ],
)
def test_mistakes(words: list[str], says: str) -> None:
    done = CliRunner().invoke(cli.app, ["explain", "schema", *words])
    assert done.exit_code == 2
    assert says in done.output
