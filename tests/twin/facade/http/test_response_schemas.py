"""The shapes say what the service answers: every reply of every operation validates, with nothing unnamed."""

from typing import Any

import pytest

from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.surface.operation_schemas import WIRES, View, Wire
from ranksim.twin.facade.http.response_schemas import answer_schema, view_schemas


def strict(schema: Any) -> Any:
    """Forbid properties that a shape does not name, so that a forgotten one is noticed."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    stricter = {key: strict(value) for key, value in schema.items()}
    if "required" in schema and "additionalProperties" not in schema:
        stricter["additionalProperties"] = False
    return stricter


SCHEMAS = view_schemas()
COMPONENTS = {"schemas": strict(SCHEMAS)}


def expected(wire: Wire, reply: Reply, statuses: Any) -> list[View | None]:
    """Give the views that a reply of this status may have."""
    return [
        view
        for status, view in wire.answers
        if reply.status == (status if isinstance(status, int) else getattr(statuses, status))
    ]


def check(body: Any, *schemas: Any) -> None:
    import jsonschema

    validator = jsonschema.Draft202012Validator(
        {"anyOf": [strict(schema) for schema in schemas], "components": COMPONENTS},
        format_checker=jsonschema.FormatChecker(),
    )
    errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(body)]
    assert errors == []


@pytest.mark.fact("S8", "S9", "S10", "S11", "S94")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_reply_has_its_shape(stage: Any, operation: str) -> None:
    wire = WIRES[operation]
    samples = [sample for sample in stage.samples() if sample.operation == operation]
    assert samples
    for sample in samples:
        reply = stage.handle(sample)
        assert reply.code == sample.code, sample.name
        if sample.code:
            check(reply.body, {"$ref": "#/components/schemas/Problem"})
            continue
        views = expected(wire, reply, stage.policy.statuses)
        assert views, f"{sample.name} answered {reply.status}"
        if views == [None]:
            assert reply.body is None
        else:
            check(reply.body, *(answer_schema(wire, view) for view in views if view is not None))


def test_every_answer_of_every_operation_is_seen(stage: Any) -> None:
    seen = {
        (sample.operation, reply.status)
        for sample in stage.samples()
        if not sample.code
        for reply in [stage.handle(sample)]
    }
    statuses = stage.policy.statuses
    promised = {
        (operation, status if isinstance(status, int) else getattr(statuses, status))
        for operation, wire in WIRES.items()
        for status, _ in wire.answers
    }
    assert seen == promised


@pytest.mark.parametrize("operation", [name for name, wire in WIRES.items() if wire.notices])
def test_a_notice_has_its_shape(stage: Any, operation: str) -> None:
    service = stage.service.fork()
    key = service.issue_key(service.open_account("empty", "pro", stage.now), "k", stage.now)
    reply = service.handle(Call(operation, key), stage.now).reply
    assert "notice" in reply.body
    [(_, view)] = WIRES[operation].answers
    assert view is not None
    check(reply.body, answer_schema(WIRES[operation], view))


@pytest.mark.parametrize("operation", [name for name, wire in WIRES.items() if wire.body])
def test_every_operation_reads_the_body_it_names(stage: Any, operation: str) -> None:
    """A value of the wrong type in each field is refused by the field's name."""
    model = WIRES[operation].body
    assert model is not None
    path = {"id": "none"} if "{id}" in OPERATIONS[operation].path else {}
    for name in model.model_fields:
        reply = (
            stage.service.fork()
            .handle(Call(operation, stage.key, path, body={name: {"a": 1}}), stage.now)
            .reply
        )
        fields = [error["field"].partition(".")[0] for error in reply.body["meta"]["errors"]]
        assert name in fields


FILTERS = sorted({name for wire in WIRES.values() for name in wire.filters})


@pytest.mark.fact("U110", "U100", "S45")
@pytest.mark.parametrize("operation", [name for name, wire in WIRES.items() if wire.paged])
def test_an_operation_knows_the_filters_it_names_and_no_others(stage: Any, operation: str) -> None:
    """A cursor is bound to the filters that the operation knows, and to no other parameter."""
    path = {"id": stage.ids["analysis"]}
    first = stage.service.fork().handle(Call(operation, stage.key, path, {"limit": "1"}), stage.now).reply
    cursor = first.body["next_cursor"]
    if cursor is None:
        assert operation == "webhook_events.list"
        return
    values = {"date": "2026-03-04", "active": "true"}
    known = []
    for name in FILTERS:
        query = {"cursor": cursor, name: values.get(name, "x")}
        reply = stage.service.fork().handle(Call(operation, stage.key, path, query), stage.now).reply
        known += [name] * (reply.code == "invalid_cursor")
    assert known == sorted(WIRES[operation].filters)


@pytest.mark.fact("S12", "S13", "S94")
@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        ("Domain", "id host path label created_at last_full_crawl_at"),
        ("Job", "id kind status domain_id error_detail finished_at"),
        ("Problem", "type title status code detail remedy meta request_id documentation_url"),
        ("EventJob", "id kind status domain_id error_detail finished_at"),
        ("JobEvent", "id type created_at data"),
    ],
)
def test_what_the_specification_shows_is_not_an_assumption(shape: str, fields: str) -> None:
    assert set(fields.split()) <= set(SCHEMAS[shape]["required"])
    assert "x-assumption" not in SCHEMAS[shape]


def test_a_forgotten_property_is_noticed() -> None:
    with pytest.raises(AssertionError, match="not valid under any"):
        check({"code": "a", "message": "b", "more": 1}, {"$ref": "#/components/schemas/Notice"})
