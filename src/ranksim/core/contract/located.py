"""Values of YAML files that know where they stand, validated by a model, every mistake one clear sentence."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ranksim.core.errors import BadInput, near

Part = str | int
ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Located:
    """A value read from YAML that knows where each of its parts stands.

    `data` is plain (dict, list, str, int, float, bool, None); `where` names the file; `path` is where `data`
    stands in it; `lines` maps the path of every part of the file to its line, counted from 1.
    """

    where: str
    data: Any
    lines: dict[tuple[Part, ...], int]
    path: tuple[Part, ...] = ()

    def __getitem__(self, part: Part) -> "Located":
        """The part of a mapping or list, still located."""
        return Located(self.where, self.data[part], self.lines, (*self.path, part))

    def without(self, key: str) -> "Located":
        """The same mapping without one key."""
        rest = {name: value for name, value in self.data.items() if name != key}
        return Located(self.where, rest, self.lines, self.path)

    def error(self, message: str, *path: Part) -> BadInput:
        """The error that says where: 'policy.yaml:12: assumptions.window: …'; `path` starts at `data`."""
        full = (*self.path, *path)
        ancestor = full
        while ancestor not in self.lines and ancestor:
            ancestor = ancestor[:-1]
        line = f":{self.lines[ancestor]}" if ancestor in self.lines else ""
        there = f"{dotted(full)}: " if full else ""
        return BadInput(f"{self.where}{line}: {there}{message}")


def validate(model: type[ModelT], located: Located, context: Mapping[str, Any] | None = None) -> ModelT:
    """The model that a located value describes. Raises BadInput naming what is wrong with it, a line each.

    `context` is handed to the model's validators, such as the environment variables that a token names.
    """
    try:
        # JSON mode: lists may stand for tuples, numbers may not stand for durations or money.
        return model.model_validate_json(json.dumps(located.data), context=context)
    except ValidationError as error:
        raise explain_mistakes(model, error, located) from None


MOST_MISTAKES = 200
"""Mistakes of one file that are told: more than anybody writes who means this kind of file."""


def explain_mistakes(model: type[BaseModel], error: ValidationError, located: Located) -> BadInput:
    """The sentences for a validation error, a line each, in the order of the file; what is missing last."""
    return together(sentences(model, error, located))


def sentences(model: type[BaseModel], error: ValidationError, located: Located) -> list[str]:
    """The sentences for a validation error, in the order of the file; what is missing last."""
    placed = _apt([(known_path(details, located), details) for details in error.errors()])

    def order(item: tuple[tuple[Part, ...], ErrorDetails]) -> tuple[bool, int]:
        path, details = item
        return details["type"] == "missing", located.lines.get((*located.path, *path), 0)

    unique: dict[str, None] = {}
    meant: set[tuple[Part, ...]] = set()
    for path, details in sorted(placed, key=order):
        if path in meant:  # a misspelt field also leaves its right name missing, which it explains
            continue
        if details["type"] == "extra_forbidden":
            meant |= {(*path[:-1], name) for name in near_fields(model, details["loc"])}
        forms = [each for at, each in placed if at == path and _another_type(each)]
        sentence = _either(model, forms) if details in forms else _sentence(model, details)
        unique[str(located.error(sentence, *path))] = None
    return list(unique)


def _apt(errors: list[tuple[tuple[Part, ...], ErrorDetails]]) -> list[tuple[tuple[Part, ...], ErrorDetails]]:
    """Leave out what other forms of a value would have asked for where the form that was meant is known.

    Where several forms may stand, each tells its mistake. That the value is of another type says nothing
    where one form took its type and found something in it; nor do members that are missing for being wrong.
    """
    deep = {path[:end] for path, _ in errors for end in range(len(path))}
    taken = {path for path, details in errors if not _another_type(details)}

    def says(path: tuple[Part, ...], details: ErrorDetails) -> bool:
        if _another_type(details):
            return path not in deep and path not in taken
        return details["type"] != "too_short" or path not in deep

    return [(path, details) for path, details in errors if says(path, details)]


def _another_type(details: ErrorDetails) -> bool:
    """Whether a form of a value refused its type; options that have names are a type of their own."""
    return details["type"].endswith("_type") or details["type"] in ("literal_error", "enum")


def _either(model: type[BaseModel], forms: Sequence[ErrorDetails]) -> str:
    """The sentence for a value of none of the types that may stand: all of them, and what was found."""
    parts = [_sentence(model, details).partition(", found ") for details in forms]
    expected = dict.fromkeys(head.removeprefix("expected ") for head, _, _ in parts)
    value = max((tail for _, _, tail in parts), key=len)  # with what is near, if anything is
    return f"expected {' or '.join(expected)}, found {value}"


def together(mistakes: Iterable[str]) -> BadInput:
    """One error of the sentences of several, a line each; of many the first."""
    lines = list(mistakes)
    more = [f"and {len(lines) - MOST_MISTAKES} more"] if len(lines) > MOST_MISTAKES else []
    return BadInput("\n".join([*lines[:MOST_MISTAKES], *more]))


def known_path(details: ErrorDetails, located: Located) -> tuple[Part, ...]:
    """The path of an error without the steps that only the model knows (union tags and the like)."""
    path: list[Part] = []
    value = located.data
    for part in details["loc"]:
        parts = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if part in parts:
            path.append(part)
            value = value[part]
    if details["type"] == "missing":
        path.append(details["loc"][-1])
    return tuple(path)


EXPECTED = {
    "expected": "{text}",
    "string_too_short": "at least {min_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "text",
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "a mapping"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}
"""What was expected, by pydantic's type of a mistake; the fields are those of its context."""


def _sentence(model: type[BaseModel], details: ErrorDetails) -> str:
    kind, given, context = details["type"], _quoted(details["input"]), details.get("ctx", {})
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind].format_map(context)}, found {given}"
    match kind:
        case "missing":
            return "is missing; add it"
        case "extra_forbidden":
            return _no_such_field(model, details["loc"])
        case "literal_error" | "enum":
            options = context["expected"].replace("'", "").replace(" or ", ", ")
            return f"expected one of {options}, found {given}{near(details['input'], options.split(', '))}"
        case "union_tag_invalid":
            options, tag = context["expected_tags"].replace("'", ""), context["tag"]
            hint = near(tag, options.split(", "))
            return f"expected {_bare(context)} to be one of {options}, found {tag!r}{hint}"
        case "union_tag_not_found":
            return f"{_bare(context)} is missing; add it"
        case "too_short":
            return f"expected at least {context['min_length']}, found {context['actual_length']}"
        case "too_long":
            return f"expected at most {context['max_length']}, found {context['actual_length']}"
        case "value_error":
            return str(context["error"])
        case _:
            message = details["msg"]
            return f"{message[0].lower()}{message[1:]}, found {given}"


def _bare(context: dict[str, Any]) -> str:
    """The name of a discriminating field, without its quotes."""
    return str(context["discriminator"]).strip("'")


def _quoted(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return repr(value)


def _no_such_field(model: type[BaseModel], path: tuple[Part, ...]) -> str:
    close = near_fields(model, path)
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(_fields(model, path))}"
    return f"no such field; {hint}"


def near_fields(model: type[BaseModel], path: tuple[Part, ...]) -> list[str]:
    """Return the field that a misspelt one may have meant, if any is near."""
    return get_close_matches(str(path[-1]), _fields(model, path), n=1)


def _fields(model: type[BaseModel], path: tuple[Part, ...]) -> list[str]:
    """Return the fields that could stand where a path ends."""
    types: list[Any] = [model]
    for part in path[:-1]:
        inner = [t for parent in types for t in _inside(parent, part)]
        types = inner or [t for t in types if _is_called(t, part)] or types
    return [info.alias or field for t in types if _is_model(t) for field, info in t.model_fields.items()]


def _is_called(kind: Any, tag: Part) -> bool:
    """Whether a member of a union is the one of that name, as a field of it says: `do: add_keywords`."""
    return _is_model(kind) and any(
        get_origin(field.annotation) is Literal and get_args(field.annotation) == (tag,)
        for field in kind.model_fields.values()
    )


def _inside(parent: Any, part: Part) -> Iterator[Any]:
    """The types that stand under one step of a path."""
    if _is_model(parent):
        if part in parent.model_fields:
            yield from _members(parent.model_fields[part].annotation)
    elif get_origin(parent) is dict:
        yield from _members(get_args(parent)[1])
    elif get_origin(parent) in (list, tuple):
        yield from _members(get_args(parent)[0])


def _members(annotation: Any) -> Iterator[Any]:
    """The members of a union, or the type itself, without its annotations."""
    if get_origin(annotation) is Annotated:
        yield from _members(get_args(annotation)[0])
    elif get_args(annotation) and get_origin(annotation) not in (dict, list, tuple):
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def dotted(path: tuple[Part, ...]) -> str:
    """Return a path as people write it: plans.pro.cooldowns, steps[2].at."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
