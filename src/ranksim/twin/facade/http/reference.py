"""The reference page: OpenAPI documents as one HTML page, with a form to try each operation.

Script and style are files of their own (`facade.page`), so that its policy lets nothing else run. Without
the script all of it can be read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from ranksim.core.contract.register import assumption
from ranksim.twin.facade.http.examples import ExampleExchange

Part = Mapping[str, Any]

HEAD = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/docs.css"><script src="/docs/docs.js" defer></script></head>"""
"""How each page with forms begins."""

CALLER = """\
<form id="caller" aria-label="Who calls">
<label>Environment <select id="environment">
<option value="">production</option><option value="/sandbox">sandbox</option></select></label>
<label>API key <input id="key" autocomplete="off" spellcheck="false"></label>
<small>What the forms send; a key stays in this page's memory alone.</small></form>
<noscript><p>The forms need JavaScript; all else can be read without.</p></noscript>"""
"""Whose key the forms send, and where to."""

LOCKED = """\
<h2 id="control">Control API</h2>
<p>What moves the clock, opens accounts, makes faults and tells what happened is described here to whoever
has the control token, which <code>ranksim serve</code> prints at the start.</p>
<form id="unlock" action="/docs#control"><label>Control token
<input name="token" autocomplete="off" spellcheck="false" required></label> <button>Show</button>
<p class="bad" role="status"></p></form>"""
"""What stands for the control API where the token is missing."""


def page(
    document: Part,
    examples: Mapping[str, ExampleExchange],
    control: Part | None = None,
    bodies: Mapping[str, Any] | None = None,
) -> str:
    """Render the service's document, with an example for each operation that has one.

    The `control` API's document comes after it, with `bodies` that its forms begin with.
    """
    sent = {name: one.body for name, one in examples.items()}
    service = _Reference(document, "", sent, examples)
    info = document["info"]
    operations, deliveries = service.operations("paths"), service.operations("webhooks")
    contents = [_contents(document["tags"], operations), "<h2>webhook deliveries</h2>"]
    contents += [_entry("", operation) for _, _, operation in deliveries]
    parts = [
        "<h2>Operations</h2>",
        *(service.operation(*operation) for operation in operations),
        "<h2>Webhook deliveries</h2>",
        *(service.operation(*delivery) for delivery in deliveries),
    ]
    shapes = list(service.shapes())
    if control is None:
        parts.append(LOCKED)
        contents.append('<h2><a href="#control">control</a></h2>')
    else:
        written = {name: json.dumps(body, indent=2) for name, body in (bodies or {}).items()}
        other = _Reference(control, "control-", written, {})
        commands = other.operations("paths")
        contents.append(_contents(control["tags"], commands, "control-"))
        parts += ['<h2 id="control">Control API</h2>', *_about(control)]
        parts += [other.operation(*command) for command in commands]
        shapes += other.shapes()
    return "\n".join(
        [
            HEAD.format(title=f"{escape(info['title'])}: API reference"),
            f'<body><nav aria-label="Contents">{"".join(contents)}</nav><main>',
            f"<h1>{escape(info['title'])} <small>/v{escape(info['version'])}</small></h1>",
            *_about(document),
            '<p>The same as <a href="/openapi.json">OpenAPI 3.1</a> and, for <a href="/graphql">GraphQL</a>, '
            'as its <a href="/schema.graphql">schema</a>. A <span class="mark">U</span> marks what is '
            "assumed; pointed at, it says what.</p>",
            CALLER,
            *parts,
            "<h2>Shapes</h2>",
            *shapes,
            '<datalist id="ids"></datalist></main></body></html>',
        ]
    )


def _about(document: Part) -> Iterator[str]:
    for paragraph in document["info"]["description"].split("\n\n"):
        yield f"<p>{_text(paragraph)}</p>"


def _contents(tags: Iterable[Part], operations: list[tuple[str, str, Part]], apart: str = "") -> str:
    parts = []
    for tag in tags:
        parts.append(f"<h2>{escape(apart.replace('-', ' ') + tag['name'])}</h2>")
        parts += [
            _entry(apart, operation) for _, _, operation in operations if tag["name"] in operation["tags"]
        ]
    return "".join(parts)


def _entry(apart: str, operation: Part) -> str:
    name = escape(operation["operationId"])
    return f'<a href="#{apart}{name}">{name}</a>'


class _Reference:
    """One document rendered; `apart` begins its anchors, `sent` are the bodies that forms begin with."""

    def __init__(
        self, document: Part, apart: str, sent: Mapping[str, str], examples: Mapping[str, ExampleExchange]
    ) -> None:
        self.document, self.apart, self.sent, self.examples = document, apart, sent, examples

    def operations(self, kind: str) -> list[tuple[str, str, Part]]:
        """List path, method and operation of everything under `paths` or `webhooks`."""
        paths: Part = self.document[kind]
        return [(path, name.upper(), one) for path, methods in paths.items() for name, one in methods.items()]

    def operation(self, path: str, method: str, operation: Part) -> str:
        """Render one operation."""
        name = escape(operation["operationId"])
        facts = [f"<code>{name}</code>"]
        if "x-rate-class" in operation:
            facts.append(f"rate class {escape(operation['x-rate-class'])}")
        if operation.get("security") == []:
            facts.append("no key needed")
        parameters = [self._found(given) for given in operation.get("parameters", ())]
        parts = [
            f'<section id="{self.apart}{name}">'
            f'<h3><span class="method">{method}</span> <code>{escape(path)}</code></h3>',
            f"<p>{_text(operation['summary'])} {_text(operation.get('description', ''))}</p>",
            f"<p><small>{' · '.join(facts)}</small> {_mark(operation)}</p>",
            self._parameters(parameters),
            self._body(operation.get("requestBody")),
            self._responses(operation["responses"]),
            _example(self.examples.get(operation["operationId"])),
            self._form(path, method, operation, parameters) if path.startswith("/") else "",
            "</section>",
        ]
        return "".join(parts)

    def shapes(self) -> Iterator[str]:
        """Render the shapes that operations refer to."""
        for name, schema in self.document["components"]["schemas"].items():
            required = schema.get("required", ())
            rows = [
                (
                    f"<code>{escape(field)}</code>",
                    self._type(given),
                    "" if field in required else "optional",
                    f"{_text(given.get('description', ''))} {_mark(given)}",
                )
                for field, given in schema.get("properties", {}).items()
            ]
            about = f"<p>{_text(schema.get('description', ''))} {_mark(schema)}</p>"
            table = _table("", rows) if rows else f"<p>{self._type(schema)}</p>"
            yield (
                f'<section id="{self.apart}shape-{escape(name)}"><h3>{escape(name)}</h3>'
                f"{about}{table}</section>"
            )

    def _parameters(self, parameters: Iterable[Part]) -> str:
        return _table(
            "Parameters",
            [
                (
                    f"<code>{escape(parameter['name'])}</code>",
                    parameter["in"],
                    self._type(parameter["schema"]),
                    "" if parameter.get("required") else "optional",
                    f"{_text(parameter.get('description', ''))} {_mark(parameter)}",
                )
                for parameter in parameters
            ],
        )

    def _body(self, body: Part | None) -> str:
        if body is None:
            return ""
        return f"<p><b>Body</b> {self._type(body['content']['application/json']['schema'])}</p>"

    def _responses(self, responses: Part) -> str:
        rows = []
        for status, given in responses.items():
            response = self._found(given)
            content = response.get("content", {})
            shapes = ", ".join(self._type(media["schema"]) for media in content.values())
            rows.append((status, f"{_text(response['description'])} {_mark(response)}", shapes))
        return _table("Responses", rows)

    def _form(self, path: str, method: str, operation: Part, parameters: Iterable[Part]) -> str:
        """Render what tries an operation: a field for each parameter, and the body."""
        name = operation["operationId"]
        fields = [self._field(parameter) for parameter in parameters]
        if "requestBody" in operation:
            body = self.sent.get(name, "{}")
            lines = min(body.count("\n") + 1, 16)
            fields.append(
                f'<label class="wide">body <textarea data-in="body" rows="{lines}" spellcheck="false">'
                f"{escape(body)}</textarea></label>"
            )
        return (
            f'<details class="try"><summary>Try it</summary><form data-method="{method}" '
            f'data-path="{escape(path)}" data-whose="{"token" if self.apart else "key"}" '
            f'aria-label="{escape(name)}">{"".join(fields)}<button>Send</button></form></details>'
        )

    def _field(self, parameter: Part) -> str:
        name, schema = escape(parameter["name"]), parameter["schema"]
        given = f'name="{name}" data-in="{parameter["in"]}"'
        if parameter.get("required") and parameter["in"] == "path":
            given += " required"
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        choices = ["true", "false"] if schema.get("type") == "boolean" else schema.get("enum")
        if choices is None:
            known = ' list="ids"' if name == "id" or name.endswith("_id") else ""
            return f'<label>{name} <input {given}{known} autocomplete="off" spellcheck="false"></label>'
        options = "".join(f"<option>{escape(str(choice))}</option>" for choice in choices)
        empty = "" if parameter.get("required") else "<option></option>"
        return f"<label>{name} <select {given}>{empty}{options}</select></label>"

    def _found(self, part: Part) -> Part:
        """Follow a reference into the document."""
        while "$ref" in part:
            _, _, kind, name = part["$ref"].split("/")
            part = self.document["components"][kind][name]
        return part

    def _type(self, schema: Part) -> str:
        """Write what a schema allows in a few words, as HTML."""
        if "$ref" in schema:
            name = escape(schema["$ref"].rpartition("/")[2])
            return f'<a href="#{self.apart}shape-{name}">{name}</a>'
        if "anyOf" in schema:
            return " or ".join(self._type(part) for part in schema["anyOf"])
        if "enum" in schema:
            return " | ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
        if "const" in schema:
            return f"<code>{escape(str(schema['const']))}</code>"
        if schema.get("type") == "array":
            return f"list of {self._type(schema['items'])}"
        kinds = schema.get("type", "any")
        words = " or ".join(kinds) if isinstance(kinds, list) else kinds
        if "format" in schema:
            words += f" ({schema['format']})"
        bounds = [f"{words_of} {schema[key]}" for key, words_of in _BOUNDS.items() if key in schema]
        return escape(" ".join([words, *bounds]))


_BOUNDS = {
    "minimum": "≥",
    "maximum": "≤",
    "minLength": "length ≥",
    "maxLength": "length ≤",
    "default": "default",
}


def _example(example: ExampleExchange | None) -> str:
    if example is None:
        return ""
    request = ["curl"] + (["-X", example.method] if example.method != "GET" else [])
    request += ['"$BASE' + example.target + '"', "-H", '"Authorization: Bearer $KEY"']
    if example.body:
        request += ["-H", '"Content-Type: application/json"', "-d", f"'{example.body}'"]
    answer = f"{example.status}\n{example.answer}".rstrip()
    return (
        f"<details><summary>Example</summary><pre>{escape(' '.join(request))}</pre>"
        f"<pre>{escape(answer)}</pre></details>"
    )


def _mark(part: Part) -> str:
    said = part.get("x-assumption")
    if not said:
        return ""
    assumed = [assumption(int(one[1:])) for one in said.split(", ")]
    title = "\n".join(f"U{one.number}, assumed: {one.statement}: {one.default}" for one in assumed)
    return f'<span class="mark" title="{escape(title)}">{escape(said)}</span>'


def _text(text: str) -> str:
    """Write text with `code` in it as HTML."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _table(caption: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    if not lines:
        return ""
    return f"<table>{f'<caption>{caption}</caption>' if caption else ''}{lines}</table>"
