"""JSON Schema (draft 2020-12) of what the API answers, read from the views of the contract.

A schema names others as `#/components/schemas/NAME`. What the specification does not show carries
`x-assumption`.
"""

import inspect
import re
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from ranksim.core.contract import views
from ranksim.core.surface.operation_schemas import View, Wire

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}

_TYPES = {str: "string", int: "integer", bool: "boolean"}
_SOURCES = re.compile(r" \(([SU0-9, ]+)\)(?=\.$)")
"""The numbers of the specification and of assumptions that a docstring ends in."""


def name_of(view: View) -> str:
    """Return the name of a view's schema."""
    return view.__name__.removesuffix("View")


def ref(name: str) -> Schema:
    """Refer to a schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def view_schemas() -> dict[str, Schema]:
    """Return the schema of every view by its name."""
    all_views = (
        candidate
        for candidate in vars(views).values()
        if is_typeddict(candidate) and candidate.__name__.endswith("View")
    )
    return {name_of(view): record_schema(view) for view in all_views}


def record_schema(view: View) -> Schema:
    """Describe a view: an object whose properties are all there, null or not."""
    text = inspect.cleandoc(view.__doc__ or "")
    sources = _SOURCES.search(text)
    hints = get_type_hints(view, include_extras=True)
    schema = {
        "type": "object",
        "description": _SOURCES.sub("", text),
        "required": list(hints),
        "properties": {name: schema_of(hint) for name, hint in hints.items()},
    }
    assumptions = re.findall(r"U[0-9]+", sources[1]) if sources else []
    return schema | {"x-assumption": ", ".join(assumptions)} if assumptions else schema


def schema_of(hint: Any) -> Schema:
    """Return the schema of a type that a view's field may have."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        return ref(name_of(hint))
    if origin is None:
        return {"type": _TYPES[hint]}
    if origin is Annotated:
        schema = schema_of(arguments[0])
        for metadata in arguments[1:]:
            schema |= metadata.members if isinstance(metadata, views.JsonSchema) else {}
        return schema
    if origin in (Union, UnionType):
        [inner] = (argument for argument in arguments if argument is not NoneType)
        return _or_null(schema_of(inner))
    if origin is Literal:
        values = {"enum": list(arguments)} if len(arguments) > 1 else {"const": arguments[0]}
        return {"type": _TYPES[type(arguments[0])]} | values
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if arguments[1] is object:
        return {"type": "object"}
    return {"type": "object", "additionalProperties": schema_of(arguments[1])}


def _or_null(schema: Schema) -> Schema:
    if "$ref" in schema or "enum" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema | {"type": [schema["type"], "null"]}


def answer_schema(wire: Wire, view: View) -> Schema:
    """Return the whole body of an answer: one resource under `data` (S8) or a page (S9, S10)."""
    resource = ref(name_of(view))
    if not wire.paged:
        return {"type": "object", "required": ["data"], "properties": {"data": resource}}
    properties: Schema = {
        "data": {"type": "array", "items": resource},
        "has_more": schema_of(bool),
        "next_cursor": schema_of(str | None),
    }
    required = list(properties)
    if wire.notices:
        properties["notice"] = ref("Notice")
    return {"type": "object", "required": required, "properties": properties}
