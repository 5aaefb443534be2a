"""The reference page: an OpenAPI document as one HTML page that needs nothing else, not even a script."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from ranksim.contract.assumptions import assumption
from ranksim.facade.http.examples import ExampleExchange

Part = Mapping[str, Any]

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --mark: #b45309; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; display: grid; grid-template-columns: 17rem 1fr; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; }
nav { border-right: 1px solid var(--line); }
nav h2 { font-size: .8rem; text-transform: uppercase; margin: 1rem 0 .2rem; }
nav a { display: block; font-size: .85rem; color: inherit; text-decoration: none; }
nav a:hover { text-decoration: underline; }
main { padding: 1rem 2rem 6rem; max-width: 62rem; min-width: 0; }
section { border-top: 1px solid var(--line); padding: .5rem 0 1rem; }
h3 { margin: .5rem 0; font-size: 1.05rem; overflow-wrap: anywhere; }
pre { overflow-x: auto; background: var(--soft); padding: .5rem; font-size: .8rem; margin: .4rem 0; }
code, pre, .method { font: .85em ui-monospace, monospace; }
.method { display: inline-block; min-width: 4.2em; font-weight: 700; }
.mark { color: var(--mark); font-size: .75rem; border: 1px solid; border-radius: 3px; padding: 0 .3em; }
table { border-collapse: collapse; width: 100%; margin: .4rem 0; font-size: .9rem; }
td { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; }
tr { border-top: 1px solid var(--soft); }
td:first-child { white-space: nowrap; }
caption { text-align: left; font-weight: 600; padding-top: .4rem; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border: 0; } }
"""


def page(document: Part, examples: Mapping[str, ExampleExchange]) -> str:
    """Render a document, with an example for each operation that has one."""
    operations = list(_operations(document["paths"]))
    deliveries = list(_operations(document["webhooks"]))
    info = document["info"]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}: API reference</title><style>{STYLE}</style></head><body>",
        f"<nav>{_contents(document['tags'], operations, deliveries)}</nav><main>",
        f"<h1>{escape(info['title'])} <small>/v{escape(info['version'])}</small></h1>",
        *(f"<p>{_text(paragraph)}</p>" for paragraph in info["description"].split("\n\n")),
        '<p>The same as <a href="/openapi.json">OpenAPI 3.1</a> and, for GraphQL, as its '
        '<a href="/schema.graphql">schema</a>. A <span class="mark">U</span> marks what is assumed; '
        "pointed at, it says what.</p>",
        "<h2>Operations</h2>",
        *(_operation(document, *operation, examples) for operation in operations),
        "<h2>Webhook deliveries</h2>",
        *(_operation(document, *delivery, {}) for delivery in deliveries),
        "<h2>Shapes</h2>",
        *(_shape(name, schema) for name, schema in document["components"]["schemas"].items()),
        "</main></body></html>",
    ]
    return "\n".join(parts)


def _operations(paths: Part) -> Iterator[tuple[str, str, Part]]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _contents(
    tags: Iterable[Part], operations: list[tuple[str, str, Part]], deliveries: list[tuple[str, str, Part]]
) -> str:
    parts = []
    for tag in tags:
        parts.append(f"<h2>{escape(tag['name'])}</h2>")
        parts += [_entry(operation) for _, _, operation in operations if tag["name"] in operation["tags"]]
    parts.append("<h2>webhook deliveries</h2>")
    parts += [_entry(operation) for _, _, operation in deliveries]
    return "".join(parts)


def _entry(operation: Part) -> str:
    name = escape(operation["operationId"])
    return f'<a href="#{name}">{name}</a>'


def _operation(
    document: Part, path: str, method: str, operation: Part, examples: Mapping[str, ExampleExchange]
) -> str:
    name = escape(operation["operationId"])
    facts = [f"<code>{name}</code>"]
    if "x-rate-class" in operation:
        facts.append(f"rate class {escape(operation['x-rate-class'])}")
    if operation.get("security") == []:
        facts.append("no key needed")
    parts = [
        f'<section id="{name}"><h3><span class="method">{method}</span> <code>{escape(path)}</code></h3>',
        f"<p>{_text(operation['summary'])} {_text(operation.get('description', ''))}</p>",
        f"<p><small>{' · '.join(facts)}</small> {_mark(operation)}</p>",
        _parameters(document, operation.get("parameters", ())),
        _body(operation.get("requestBody")),
        _responses(document, operation["responses"]),
        _example(examples.get(operation["operationId"])),
        "</section>",
    ]
    return "".join(parts)


def _parameters(document: Part, parameters: Iterable[Part]) -> str:
    rows = []
    for given in parameters:
        parameter = _found(document, given)
        need = "" if parameter.get("required") else "optional"
        about = f"{_text(parameter.get('description', ''))} {_mark(parameter)}"
        rows.append(
            (
                f"<code>{escape(parameter['name'])}</code>",
                parameter["in"],
                _type(parameter["schema"]),
                need,
                about,
            )
        )
    return _table("Parameters", rows)


def _body(body: Part | None) -> str:
    if body is None:
        return ""
    return f"<p><b>Body</b> {_type(body['content']['application/json']['schema'])}</p>"


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


def _responses(document: Part, responses: Part) -> str:
    rows = []
    for status, given in responses.items():
        response = _found(document, given)
        content = response.get("content", {})
        shapes = ", ".join(_type(media["schema"]) for media in content.values())
        rows.append((status, f"{_text(response['description'])} {_mark(response)}", shapes))
    return _table("Responses", rows)


def _shape(name: str, schema: Part) -> str:
    required = schema.get("required", ())
    rows = [
        (
            f"<code>{escape(field)}</code>",
            _type(given),
            "" if field in required else "optional",
            f"{_text(given.get('description', ''))} {_mark(given)}",
        )
        for field, given in schema.get("properties", {}).items()
    ]
    about = f"<p>{_text(schema.get('description', ''))} {_mark(schema)}</p>"
    table = _table("", rows) if rows else f"<p>{_type(schema)}</p>"
    return f'<section id="shape-{escape(name)}"><h3>{escape(name)}</h3>{about}{table}</section>'


def _found(document: Part, part: Part) -> Part:
    """Follow a reference into the document."""
    while "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        part = document["components"][kind][name]
    return part


def _type(schema: Part) -> str:
    """Write what a schema allows in a few words, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#shape-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
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
