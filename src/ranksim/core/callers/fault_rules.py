"""Faults on purpose, as they are written in scenario files, in Python and over HTTP: flat rules, and bundles.

A rule says what befalls requests or webhook attempts, and which. What stands between a service and its
callers, a fake deployment, lets it happen; nothing here does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol

from pydantic import ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from ranksim.core.clock import Micros
from ranksim.core.contract.located import Located, validate
from ranksim.core.contract.patterns import fits_pattern
from ranksim.core.contract.quantities import Distribution, Duration, Frozen
from ranksim.core.errors import BadInput, no_such
from ranksim.core.service.calls import Call
from ranksim.core.service.operations import OPERATIONS

GRAPHQL = "graphql"
"""The operation that a GraphQL request counts as here: its fields are read later."""

DELIVERY = "delivery"
"""The operation that a webhook attempt counts as here."""

Delivery = Literal["twice", "tampered", "old_signature", "out_of_order"]
"""What becomes of a webhook attempt, besides that it may be late."""

Share = Annotated[float, Field(ge=0, le=1)]

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

BodyKind = Literal["problem", "html", "cut", "empty"]
"""What a body is: a problem (RFC 9457), a gateway's page, the first half of the answer's, or nothing."""

RetryAfterForm = Literal["seconds", "date"]
"""How Retry-After is written (RFC 9110, section 10.2.3)."""

DISTRIBUTION_SCHEMA: dict[str, Any] = {
    "description": "A duration such as 250ms, or a distribution: {uniform: {low: 1ms, high: 1s}}, "
    "{exponential: {mean: 50ms}}, {lognormal: {median: 50ms, sigma: 0.5}} or {empirical: [1s, 2s]}.",
    "anyOf": [
        {"type": "string"},
        {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": True},
    ],
}

Latency = Annotated[Distribution, WithJsonSchema(DISTRIBUTION_SCHEMA)]


OF_KEY = "The API key it befalls, by its name or its token; by default every one."


class FaultRule(Frozen):
    """What befalls requests of an operation, a path and a key, or webhook attempts, with what likelihood."""

    model_config = ConfigDict(title="Rule")  # its name in the OpenAPI document

    operation: str = Field(
        "*",
        description="Operations it befalls, such as jobs.create or jobs.*; GraphQL requests are 'graphql', "
        "webhook attempts 'delivery'.",
    )
    path: str | None = Field(
        None, description="Paths it befalls, such as /v1/jobs/*; of an attempt the URL of its endpoint."
    )
    key: str | None = Field(None, description=OF_KEY)
    environment: Literal["production", "sandbox"] | None = Field(None, description="By default both.")
    latency: Latency | None = Field(
        None, description="How long a request waits before its effect, in wall time."
    )
    latency_after: Latency | None = Field(
        None, description="How long an answer waits after the effect, in wall time."
    )
    error_rate: Share = Field(0.0, description="The share answered 500, without effect.")
    drop_before_rate: Share = Field(0.0, description="The share whose connection closes before the effect.")
    drop_after_rate: Share = Field(0.0, description="The share whose connection closes after the effect.")
    drop_during_rate: Share = Field(
        0.0, description="The share whose connection closes in the middle of the answer's body."
    )
    status: int | None = Field(None, ge=200, le=599, description="The status answered instead.")
    body: BodyKind | None = Field(
        None, description="The body instead: a problem, a gateway's HTML, the first half of it, or nothing."
    )
    text: str | None = Field(
        None, description="The body instead, as it is; give its Content-Type in headers."
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers of the answer, or in place of its."
    )
    retry_after: Duration | None = Field(None, description="Retry-After, such as 30s.")
    retry_after_form: RetryAfterForm = Field("seconds", description="Whether it is in seconds or a date.")
    answer_rate: Share = Field(1.0, description="The share of which the answer is another.")
    after_effect: bool = Field(False, description="Answered so after the effect, which stands.")
    bytes_per_second: int | None = Field(None, ge=1, description="How fast the answer's body comes.")
    delivery: Delivery | None = Field(None, description="What becomes of a webhook attempt.")
    times: int | None = Field(None, ge=1, description="How many requests it befalls; by default all.")
    lasts: Duration | None = Field(
        None, description="How long it is in force, on the service's clock; by default until it is removed."
    )

    @model_validator(mode="after")
    def _check(self) -> FaultRule:
        self._refuse_nonsense()
        return self

    def _refuse_nonsense(self) -> None:
        """Raise ValueError where the fields make no sense together."""
        late = self.latency is not None or self.latency_after is not None
        rates = self.error_rate or self.drop_before_rate or self.drop_after_rate or self.drop_during_rate
        if not (late or rates or self.answers or self.bytes_per_second or self.delivery):
            raise ValueError(
                "give at least one of latency, latency_after, error_rate, drop_before_rate, drop_after_rate, "
                "drop_during_rate, status, body, text, headers, retry_after, bytes_per_second, delivery"
            )
        if self.drop_before_rate + self.drop_after_rate + self.drop_during_rate > 1:
            raise ValueError("drop_before_rate, drop_after_rate and drop_during_rate together are at most 1")
        if self.lasts is not None and self.lasts <= 0:
            raise ValueError("lasts is a time such as 10m")
        for name, value in self.headers.items():
            if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
                raise ValueError(f"headers: {name!r} is no header that can be sent (RFC 9110, section 5.5)")
        if self.body is not None and self.text is not None:
            raise ValueError("body and text both say what the body is; give one of them")
        if self.operation == DELIVERY and (
            rates or self.answers or self.bytes_per_second or self.latency_after
        ):
            raise ValueError("a webhook attempt takes latency and delivery alone")
        if self.delivery is not None and self.operation != DELIVERY:
            raise ValueError("delivery is of webhook attempts; write operation: delivery")

    @field_validator("operation")
    @classmethod
    def _check_operation(cls, operation: str) -> str:
        if not any(fits_pattern(operation, name) for name in (*OPERATIONS, GRAPHQL, DELIVERY)):
            families = dict.fromkeys(f"{name.partition('.')[0]}.*" for name in OPERATIONS)
            choices = tuple(families) if "*" in operation else (*OPERATIONS, GRAPHQL, DELIVERY)
            raise ValueError(
                no_such("operation", operation, choices, "expected one such as jobs.create or jobs.*")
            )
        return operation

    @property
    def answers(self) -> bool:
        """Whether anything of the answer is another."""
        return (self.status, self.body, self.text, self.retry_after) != (None,) * 4 or bool(self.headers)

    @property
    def answers_instead(self) -> bool:
        """Whether the service is not asked, as it would be for a part of its answer, or for its effect."""
        return self.status is not None and not self.after_effect

    @property
    def drops(self) -> tuple[tuple[str, float], ...]:
        """When connections close, and the share of each."""
        return (
            ("before", self.drop_before_rate),
            ("after", self.drop_after_rate),
            ("during", self.drop_during_rate),
        )

    def befalls(self, call: Call, path: str = "", key: str | None = None) -> bool:
        """Return whether a request is one of the rule's; `key` is the name of its API key."""
        name = GRAPHQL if call.surface == "graphql" else call.operation
        return (
            fits_pattern(self.operation, name)
            and (self.path is None or fits_pattern(self.path, path))
            and self.key in (None, call.key, key)
            and self.environment in (None, call.environment)
        )


BUNDLES: Mapping[str, tuple[Mapping[str, Any], ...]] = MappingProxyType(
    {
        "flaky-gateway": (
            {"status": 502, "body": "html", "answer_rate": 0.1},
            {"status": 504, "body": "html", "answer_rate": 0.03, "after_effect": True},
            {"drop_during_rate": 0.02},
        ),
        "overloaded": (
            {"latency": {"exponential": {"mean": "400ms"}}},
            {"status": 503, "retry_after": "5s", "answer_rate": 0.2},
        ),
        "bad-deploy": ({"error_rate": 0.3}, {"body": "cut", "answer_rate": 0.05}),
        "slow-database": (
            {"latency": {"lognormal": {"median": "600ms", "sigma": 0.8}}},
            {"status": 504, "body": "html", "answer_rate": 0.02, "after_effect": True},
        ),
    }
)
"""The rules of each bundle, in order."""

BundleName = Literal["flaky-gateway", "overloaded", "bad-deploy", "slow-database"]


class BundleScope(Frozen):
    """Which requests a bundle of faults befalls, and for how long; by default all, until it is removed."""

    operation: str = Field("*", description="Operations, such as jobs.create or jobs.*.")
    path: str | None = Field(None, description="Paths, such as /v1/jobs/*.")
    key: str | None = Field(None, description=OF_KEY)
    environment: Literal["production", "sandbox"] | None = Field(None, description="By default both.")
    lasts: Duration | None = Field(None, description="How long, on the service's clock, such as 10m.")


def rules_of(bundle: str, scope: BundleScope) -> list[FaultRule]:
    """Return the rules of a bundle, for the requests of a scope. Raises BadInput."""
    if bundle not in BUNDLES:
        raise BadInput(no_such("bundle of faults", bundle, tuple(BUNDLES), f"there are {', '.join(BUNDLES)}"))
    shared = scope.model_dump(mode="json", exclude_none=True)
    return [validate(FaultRule, Located(bundle, {**shared, **rule}, {})) for rule in BUNDLES[bundle]]


OF_BUNDLES = ("bundle", *BundleScope.model_fields)
"""What is said of a bundle in a scenario."""


class StatedFault(FaultRule):
    """A fault of a scenario: a rule, or the name of a bundle and whom it befalls."""

    model_config = ConfigDict(title="StatedFault")

    bundle: BundleName | None = Field(
        None, description="A bundle of rules, in place of all but whom it befalls."
    )

    def _refuse_nonsense(self) -> None:
        if self.bundle is None:
            super()._refuse_nonsense()
            return
        for name, info in FaultRule.model_fields.items():
            if name not in OF_BUNDLES and getattr(self, name) != info.get_default(call_default_factory=True):
                raise ValueError(f"a bundle says its rules itself; give {', '.join(OF_BUNDLES)} alone")
        self.rules()

    def rules(self) -> list[FaultRule]:
        """Return the rule, or those of the bundle. Raises BadInput."""
        if self.bundle is not None:
            scope = {name: getattr(self, name) for name in BundleScope.model_fields}
            return rules_of(self.bundle, BundleScope(**scope))
        return [FaultRule.model_validate({name: getattr(self, name) for name in FaultRule.model_fields})]


class FaultTarget(Protocol):
    """What faults of a scenario are put in force in."""

    def add(self, rule: FaultRule, now: Micros) -> object:
        """Put a rule in force at an instant."""

    def clear(self) -> None:
        """End all rules."""
