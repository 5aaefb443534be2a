"""The register is complete, and it and the policy fields agree."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from ranksim.core.contract import assumptions
from ranksim.core.contract.assumptions import Assumptions, Statuses
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import assumption, register
from ranksim.core.contract.yamlfile import read_yaml

SECTIONS = {"assumptions": Assumptions, "statuses": Statuses}
FIELDS = [(section, name) for section, model in SECTIONS.items() for name in model.model_fields]


def numbers_of(section: str, name: str) -> set[int]:
    """The U numbers at the head of a field's description."""
    head = (SECTIONS[section].model_fields[name].description or "").partition(":")[0]
    return {int(number.removeprefix("U")) for number in head.split(", ")}


def values_of(name: str) -> list[Any]:
    """The values an assumption may take, when they can be listed."""
    annotation = Assumptions.model_fields[name].annotation
    return [False, True] if annotation is bool else list(get_args(annotation))


def written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_register_is_complete_and_in_order() -> None:
    assert [entry.number for entry in register()] == list(range(1, 113))


@pytest.mark.parametrize("entry", register(), ids=lambda entry: f"U{entry.number}")
def test_every_entry_is_filled_in(entry: Any) -> None:
    for text in (entry.area, entry.statement, entry.default, entry.reason, entry.observe):
        assert text == text.strip() != ""
    assert entry.confidence in ("high", "medium", "low")
    assert len(set(entry.options)) == len(entry.options) != 1


def test_the_json_of_the_register_says_what_its_yaml_says() -> None:
    data = Path(assumptions.__file__).parents[2] / "data"
    written = read_yaml(data / "assumptions.yaml").data
    read = json.loads((data / "assumptions.json").read_text("utf-8"))
    assert read == {str(number): entry for number, entry in written.items()}, "run scripts/shipped_json"


def test_assumption_by_number() -> None:
    assert assumption(1).fields == ("assumptions.window",)
    with pytest.raises(KeyError, match="there is no U113"):
        assumption(113)


@pytest.mark.parametrize(("section", "name"), FIELDS)
def test_every_field_is_in_the_register(section: str, name: str) -> None:
    listed = {entry.number for entry in register() if f"{section}.{name}" in entry.fields}
    assert numbers_of(section, name) == listed


def test_the_register_names_only_fields_that_exist() -> None:
    known = {f"{section}.{name}" for section, name in FIELDS}
    known |= {"catalogue." + name for name in ("plans", "unit_costs", "capability_of")}
    known |= {"catalogue.plans.*." + name for name in ("quotas", "cooldowns")}
    assert {field for entry in register() for field in entry.fields} <= known


LITERALS = [
    name for name in Assumptions.model_fields if Assumptions.model_fields[name].annotation is bool
] + [
    name
    for name in Assumptions.model_fields
    if values_of(name) and all(isinstance(value, str) for value in values_of(name))
]


@pytest.mark.parametrize("name", sorted(set(LITERALS)))
def test_every_value_of_a_choice_is_accepted_and_in_the_register(name: str) -> None:
    for value in values_of(name):
        policy = Policy.parse(f"assumptions: {{{name}: {written(value)}}}")
        assert getattr(policy.assumptions, name) == value
    options = [set(assumption(number).options) for number in numbers_of("assumptions", name)]
    if name != "failed_run_arms":  # U46 lists the options of its two other choices
        assert all(option >= {written(value) for value in values_of(name)} for option in options)


@pytest.mark.parametrize("name", sorted(set(LITERALS)))
def test_the_first_value_of_a_choice_is_its_default(name: str) -> None:
    default = getattr(Assumptions(), name)
    assert default == (True if name == "ceiling_stops_tracking" else values_of(name)[0])


@pytest.mark.parametrize(
    ("number", "option", "fields"),
    [
        pytest.param(entry.number, option, entry.fields, id=f"U{entry.number}-{option}")
        for entry in register()
        if any(field.startswith(("assumptions.", "statuses.")) for field in entry.fields)
        for option in entry.options
    ],
)
def test_every_option_is_accepted_by_a_field(number: int, option: str, fields: tuple[str, ...]) -> None:
    accepted = []
    for field in fields:
        section, _, name = field.partition(".")
        try:
            policy = Policy.parse(f"{section}: {{{name}: {option}}}")
        except ValueError:
            continue
        accepted.append(written(getattr(getattr(policy, section), name)))
    assert option in accepted


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("unauthorized", 401),
        ("forbidden", 403),
        ("not_found", 404),
        ("out_of_scope", 404),
        ("invalid_cursor", 400),
        ("idempotency_key_invalid", 400),
        ("idempotency_mismatch", 422),
        ("idempotency_in_progress", 409),
        ("entitlement_required", 403),
        ("subscription_inactive", 402),
        ("cost_cap_reached", 402),
        ("slot_limit_exceeded", 402),
        ("cooldown_active", 409),
        ("allowance_exhausted", 402),
        ("endpoint_disabled", 409),
        ("invalid_request", 400),
        ("validation_failed", 422),
        ("method_not_allowed", 405),
        ("unsupported_media_type", 415),
        ("payload_too_large", 413),
        ("internal_error", 500),
        ("created", 201),
        ("job_accepted", 202),
        ("job_joined", 200),
        ("dry_run", 200),
        ("deleted", 204),
        ("test_accepted", 202),
        ("preflight", 204),
    ],
)
def test_default_statuses(name: str, status: int) -> None:
    assert getattr(Statuses(), name) == status


def test_defaults_that_are_no_choice() -> None:
    assumptions = Assumptions()
    assert assumptions.replay_header == "Idempotent-Replayed"
    assert assumptions.idempotency_key_max == 255
    assert assumptions.week_offset == 0
    assert assumptions.inactive_statuses == ("past_due", "unpaid", "canceled")
    assert assumptions.retry_jitter_percent == 0
    assert assumptions.deliveries_retention == 7 * 86_400_000_000
    assert assumptions.idempotency_not_stored == (401, 403, 404, 405, 413, 415, 422, 429)
