"""REST paths, below their version prefix: of which operation one is, what stands in its places, and filled.

Percent signs are the caller's: values are taken and given as they are.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache

from ranksim.core.service.operations import OPERATIONS, TABLE


def path_parameters(operation: str) -> tuple[str, ...]:
    """Return the names of the places in an operation's path, such as "id"."""
    return tuple(part[1:-1] for part in OPERATIONS[operation].path.split("/") if part.startswith("{"))


def values_in(form: str, path: str) -> dict[str, str] | None:
    """Return what stands in the places of a form such as "jobs/{kind}/{id}"; None for another form's path."""
    names, parts = form.split("/"), path.split("/")
    if len(names) != len(parts):
        return None
    values = {}
    for name, part in zip(names, parts, strict=True):
        if name.startswith("{"):
            values[name[1:-1]] = part
        elif name != part:
            return None
    return values


def path_values(operation: str, path: str) -> dict[str, str] | None:
    """Return what stands in the places of an operation's path; None for a path that is not of its form."""
    return values_in(OPERATIONS[operation].path, path)


_FORMS: dict[tuple[str, int], dict[str, dict[str, str]]] = {}
"""First segment and number of slashes → form of a path → method → operation. No path is of two forms."""

for _operation in TABLE:
    _start = _operation.path.split("/")[0], _operation.path.count("/")
    _FORMS.setdefault(_start, {}).setdefault(_operation.path, {})[_operation.method] = _operation.name


_LITERAL = {form: methods for forms in _FORMS.values() for form, methods in forms.items() if "{" not in form}
"""Paths without places → method → operation."""


def nearest(method: str, path: str) -> str:
    """Return the operation nearest to a call of none: of the path most like it, by its method; or ""."""
    methods, _ = offered(path)
    if not methods:
        like = get_close_matches(path, [each.path for each in TABLE], n=1)
        methods = {each.method: each.name for each in TABLE if each.path in like}
    return next((methods[each] for each in get_close_matches(method, methods, n=1, cutoff=0)), "")


def offered(path: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return what a path offers, method → operation, and what stands in its places, which is never empty.

    Both are empty where there is nothing.
    """
    if path in _LITERAL:
        return _LITERAL[path], {}
    for form, methods in _FORMS.get((path.split("/", 1)[0], path.count("/")), {}).items():
        values = values_in(form, path)
        if values is not None and all(values.values()):
            return methods, values
    return {}, {}


@lru_cache(maxsize=1 << 14)  # recordings show the same paths again and again
def match(method: str, path: str) -> tuple[str, Mapping[str, str]]:
    """Return the operation of a method and path, and what stands in its places; ("", {}) where none fits."""
    for operation in TABLE:
        if operation.method == method and (values := path_values(operation.name, path)) is not None:
            return operation.name, values
    return "", {}


def fill(operation: str, values: Mapping[str, str]) -> str:
    """Return an operation's path with values in its places. Raises KeyError for one that is missing."""
    return OPERATIONS[operation].path.format_map(values)
