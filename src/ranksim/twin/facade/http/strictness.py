"""Typos found: query parameters and fields of bodies that an operation does not know.

The service is assumed to ignore both (U84, U100), and then a typo reads more than it should, or does nothing,
or spends. A fake exists to find this; docs/decisions/unknown-query-refused.md says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from ranksim.core.errors import near
from ranksim.core.service.bodies import ERRORS_SHOWN, RequestBody
from ranksim.core.service.calls import Call, Fault


def unknown_parameters(call: Call) -> Fault | None:
    """Refuse query parameters that an operation does not know."""
    accepted = query_parameters(call.operation)
    unknown = [(name, accepted) for name in call.query if name not in accepted]
    return _refused(call.operation, "query parameter", "parameter", unknown, "U100", "query")


def unknown_fields(call: Call) -> Fault | None:
    """Refuse fields of a body, and of the objects in it, that an operation does not know."""
    from ranksim.core.surface.operation_schemas import WIRES

    unknown = list(_unknown(WIRES[call.operation].body, call.body or {}))
    return _refused(call.operation, "field", "field", unknown[:ERRORS_SHOWN], "U84", "body")


def query_parameters(operation: str) -> tuple[str, ...]:
    """Return the query parameters that an operation knows; every collection knows limit and cursor (S43)."""
    from ranksim.core.surface.operation_schemas import WIRES

    wire = WIRES[operation]
    return ("limit", "cursor", *wire.filters) if wire.paged else ()


def _refused(
    operation: str,
    what: str,
    short: str,
    unknown: list[tuple[str, tuple[str, ...]]],
    source: str,
    switch: str,
) -> Fault | None:
    """Return the fault that names each unknown name, given with those known in its place."""
    if not unknown:
        return None
    name, accepted = unknown[0]
    return Fault(
        "validation_failed",
        f"The {what} {name!r} is unknown{near(name.rpartition('.')[2], accepted) or ';'} {operation} takes: "
        f"{_listed(accepted)}. The service is assumed to ignore it ({source}); --no-strict-{switch}, or "
        f"strict_{switch}=False in a test, does so too.",
        [{"field": name, "expected": f"a {short} among: {_listed(accepted)}"} for name, accepted in unknown],
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _unknown(
    model: type[RequestBody] | None, body: dict[str, Any], at: str = ""
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the place of each field that a body's model does not know, with those that it knows there."""
    accepted = () if model is None else tuple(model.model_fields)
    for name, value in body.items():
        if model is None or name not in accepted:
            yield at + name, accepted
        elif isinstance(value, list) and (inner := _model_within(model, name)) is not None:
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _unknown(inner, item, f"{at}{name}.{index}.")


@cache
def _model_within(model: type[RequestBody], name: str) -> type[RequestBody] | None:
    """Return the model of the objects in a list, or None where its items are none."""
    return next(_models(model.model_fields[name].annotation), None)


def _models(annotation: Any) -> Iterator[type[RequestBody]]:
    if isinstance(annotation, type) and issubclass(annotation, RequestBody):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
