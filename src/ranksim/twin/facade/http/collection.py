"""An OpenAPI document as requests to send: an .http file of editors, or a collection of Bruno.

Formats: JetBrains' HTTP client and VS Code's REST Client (`### name`, `@variable`, `{{variable}}`); Bruno's
markup language (bru) with an environment beside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranksim.core.files import new_directory

Document = Mapping[str, Any]

HOST = "http://127.0.0.1:8080"
"""Where a fake listens by default."""

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request of one operation: `path` as in the document, with `ids` in it; `body` is JSON text or ""."""

    name: str
    summary: str
    tag: str
    method: str
    path: str
    query: tuple[str, ...]
    body: str

    @property
    def ids(self) -> list[str]:
        """The names in the path that stand for something."""
        return re.findall(r"{(\w+)}", self.path)


def sample_requests(document: Document) -> Iterator[SampleRequest]:
    """Yield a request for each operation of a document, with its first example as a body."""
    shared = document["components"]["parameters"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method not in METHODS:
                continue
            parameters = [
                shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
                for each in operation.get("parameters", ())
            ]
            query = tuple(
                each["name"] for each in parameters if each["in"] == "query" and each.get("required")
            )
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            example = content.get("example")
            if example is None and content.get("examples"):
                example = next(iter(content["examples"].values()))["value"]
            yield SampleRequest(
                operation["operationId"],
                operation.get("summary", ""),
                next(iter(operation.get("tags", ("requests",)))),
                method.upper(),
                path,
                query,
                "" if example is None else json.dumps(example, indent=2, ensure_ascii=False),
            )


def http_file(document: Document) -> str:
    """Return a document as an .http file: variables first, then a request each."""
    requests = list(sample_requests(document))
    names = sorted({name for request in requests for name in (*request.ids, *request.query)})
    lines = [f"@host = {HOST}", "@key = ", *(f"@{name} = " for name in names)]
    for request in requests:
        query = "&".join(f"{name}={{{{{name}}}}}" for name in request.query)
        path = re.sub(r"{(\w+)}", r"{{\1}}", request.path) + (f"?{query}" if query else "")
        lines += ["", f"### {request.name}: {request.summary}", f"{request.method} {{{{host}}}}{path}"]
        lines.append("Authorization: Bearer {{key}}")
        if request.body:
            lines += ["Content-Type: application/json", "", request.body]
    return "\n".join(lines) + "\n"


def write_bruno(document: Document, folder: Path) -> int:
    """Write a document as a collection of Bruno into a new folder; return how many requests it has.

    The environment `fake` has the variables. Raises BadInput where the folder has something in it.
    """
    requests = list(sample_requests(document))
    with new_directory(folder) as made:
        title = document["info"]["title"]
        about = {"version": "1", "name": title, "type": "collection"}
        (made / "bruno.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        (made / "environments").mkdir()
        fake = _block("vars", f"host: {HOST}", "key: ")
        (made / "environments" / "fake.bru").write_text(fake, encoding="utf-8")
        for number, request in enumerate(requests, 1):
            place = made / request.tag
            place.mkdir(exist_ok=True)
            (place / f"{request.name}.bru").write_text(_bru(request, number), encoding="utf-8")
    return len(requests)


def _bru(request: SampleRequest, number: int) -> str:
    path = re.sub(r"{(\w+)}", r":\1", request.path)
    query = "&".join(f"{name}=" for name in request.query)
    url = f"{{{{host}}}}{path}" + (f"?{query}" if query else "")
    body = "json" if request.body else "none"
    blocks = [
        _block("meta", f"name: {request.name}", "type: http", f"seq: {number}"),
        _block(request.method.lower(), f"url: {url}", f"body: {body}", "auth: bearer"),
    ]
    if request.query:
        blocks.append(_block("params:query", *(f"{name}: " for name in request.query)))
    if request.ids:
        blocks.append(_block("params:path", *(f"{name}: " for name in request.ids)))
    blocks.append(_block("auth:bearer", "token: {{key}}"))
    if request.body:
        blocks.append(_block("body:json", *request.body.splitlines()))
    if request.summary:
        blocks.append(_block("docs", request.summary))
    return "\n".join(blocks)


def _block(name: str, *lines: str) -> str:
    return f"{name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
