"""REST paths, below their version prefix: of which operation one is, what stands in its places, and filled.

Percent signs are the caller's: values are taken and given as they are.
"""

from collections.abc import Mapping
from functools import lru_cache

from ranksim.service.operations import OPERATIONS, TABLE


def parameters(operation: str) -> tuple[str, ...]:
    """Return the names of the places in an operation's path, such as "id"."""
    return tuple(part[1:-1] for part in OPERATIONS[operation].path.split("/") if part.startswith("{"))


def values_of(operation: str, path: str) -> dict[str, str] | None:
    """Return what stands in the places of an operation's path; None for a path that is not of its form."""
    names, parts = OPERATIONS[operation].path.split("/"), path.split("/")
    if len(names) != len(parts):
        return None
    values = {}
    for name, part in zip(names, parts, strict=True):
        if name.startswith("{"):
            values[name[1:-1]] = part
        elif name != part:
            return None
    return values


@lru_cache(maxsize=1 << 14)  # recordings show the same paths again and again
def match(method: str, path: str) -> tuple[str, Mapping[str, str]]:
    """Return the operation of a method and path, and what stands in its places; ("", {}) where none fits."""
    for operation in TABLE:
        if operation.method == method and (values := values_of(operation.name, path)) is not None:
            return operation.name, values
    return "", {}


def fill(operation: str, values: Mapping[str, str]) -> str:
    """Return an operation's path with values in its places. Raises KeyError for one that is missing."""
    return OPERATIONS[operation].path.format_map(values)
