"""Faults on purpose: late and other answers, dropped connections, odd deliveries, by operation and key.

What a rule does to its n-th request is drawn at the address (seed, rule, n), so the same requests meet the
same faults in every run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from ranksim.core.clock import SECOND, Micros, instant, iso
from ranksim.core.contract.quantities import Distribution, Duration, Frozen
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.errors import BadInput, no_such
from ranksim.core.service.calls import Attempt, Call
from ranksim.core.service.operations import OPERATIONS
from ranksim.twin.facade.fault_answers import BodyKind, FaultAnswer, RetryAfterForm
from ranksim.twin.serving.parsing import fits_pattern

GRAPHQL = "graphql"
"""The operation that a GraphQL request counts as here: its fields are read later."""

DELIVERY = "delivery"
"""The operation that a webhook attempt counts as here."""

Delivery = Literal["twice", "tampered", "old_signature", "out_of_order"]
"""What becomes of a webhook attempt, besides that it may be late."""

Share = Annotated[float, Field(ge=0, le=1)]

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

EFFECTS = ("delayed", "failed", "dropped", "answered", "slowed", "altered")
"""What rules do, as they are counted."""

DISTRIBUTION_SCHEMA: dict[str, Any] = {
    "description": "A duration such as 250ms, or a distribution: {uniform: {low: 1ms, high: 1s}}, "
    "{exponential: {mean: 50ms}}, {lognormal: {median: 50ms, sigma: 0.5}} or {empirical: [1s, 2s]}.",
    "anyOf": [
        {"type": "string"},
        {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": True},
    ],
}

Latency = Annotated[Distribution, WithJsonSchema(DISTRIBUTION_SCHEMA)]


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
    key: str | None = Field(None, description="The API key it befalls; by default every one.")
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
        late = self.latency is not None or self.latency_after is not None
        rates = self.error_rate or self.drop_before_rate or self.drop_after_rate or self.drop_during_rate
        if not (late or rates or self.answer or self.bytes_per_second or self.delivery):
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
            rates or self.answer or self.bytes_per_second or self.latency_after
        ):
            raise ValueError("a webhook attempt takes latency and delivery alone")
        if self.delivery is not None and self.operation != DELIVERY:
            raise ValueError("delivery is of webhook attempts; write operation: delivery")
        return self

    @property
    def answer(self) -> FaultAnswer | None:
        """What of the answer is another, if anything is."""
        if (self.status, self.body, self.text, self.retry_after) == (None,) * 4 and not self.headers:
            return None
        return FaultAnswer(
            self.status, self.headers, self.retry_after, self.retry_after_form, self.body, self.text,
            self.after_effect,
        )  # fmt: skip

    @property
    def drops(self) -> tuple[tuple[str, float], ...]:
        """When connections close, and the share of each."""
        return (
            ("before", self.drop_before_rate),
            ("after", self.drop_after_rate),
            ("during", self.drop_during_rate),
        )

    def befalls(self, call: Call, path: str = "") -> bool:
        """Return whether a request is one of the rule's."""
        name = GRAPHQL if call.surface == "graphql" else call.operation
        return (
            fits_pattern(self.operation, name)
            and (self.path is None or fits_pattern(self.path, path))
            and self.key in (None, call.key)
            and self.environment in (None, call.environment)
        )


@dataclass(slots=True)
class InjectedFault:
    """What befalls one request. `drop` is "before", "after", "during" or ""; delays are wall time.

    `delay_s` comes before the effect, `delay_after_s` between it and the answer, of which `answer` may be
    another, and which comes at `bytes_per_second`. `delivery` is what becomes of a webhook attempt. `rules`
    are the ids of those that did something to it.
    """

    delay_s: float = 0.0
    drop: str = ""
    fails: bool = False
    rules: tuple[str, ...] = ()
    delay_after_s: float = 0.0
    answer: FaultAnswer | None = None
    bytes_per_second: int | None = None
    delivery: Delivery | None = None


@dataclass(slots=True)
class Active:
    """A rule in force, and what it did so far: requests `seen`, and how often each effect came.

    `until` (µs) is when it ends, if it is in force for a time.
    """

    id: str
    rule: FaultRule
    seen: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    until: Micros | None = None

    def is_in_force(self, now: Micros) -> bool:
        """Return whether it befalls requests any more."""
        return (self.rule.times is None or self.seen < self.rule.times) and (
            self.until is None or now < self.until
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        effects = {name: self.effects[name] for name in EFFECTS}
        until = None if self.until is None else iso(self.until)
        fields = self.rule.model_dump(mode="json")
        return {"id": self.id, **fields, "until": until, "seen": self.seen, "effects": effects}


class Faults:
    """The fault rules in force; `seed` addresses their draws."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._made = 0
        self.active: dict[str, Active] = {}
        self.changed: Callable[[], None] = lambda: None
        """Told when rules come, go or strike, so that they can be kept."""

    def saved(self) -> dict[str, Any]:
        """Return all that `resume` needs, as plain data."""
        return {"made": self._made, "rules": [active.to_dict() for active in self.active.values()]}

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Resume from what `saved` returned."""
        made, active = int(saved["made"]), {}
        for entry in saved["rules"]:
            given = {name: entry[name] for name in FaultRule.model_fields if name in entry}
            rule, effects = FaultRule.model_validate(given), Counter(entry["effects"])
            until = None if entry.get("until") is None else instant(entry["until"])
            active[entry["id"]] = Active(entry["id"], rule, int(entry["seen"]), effects, until)
        self._made, self.active = made, active

    def add(self, rule: FaultRule, now: Micros = 0) -> Active:
        """Put a rule in force at an instant, after those that are.

        Raises BadInput for one that befalls no operation.
        """
        if not any(fits_pattern(rule.operation, name) for name in (*OPERATIONS, GRAPHQL, DELIVERY)):
            families = dict.fromkeys(f"{name.partition('.')[0]}.*" for name in OPERATIONS)
            choices = tuple(families) if "*" in rule.operation else (*OPERATIONS, GRAPHQL, DELIVERY)
            hint = "expected one such as jobs.create or jobs.*"
            raise BadInput(f"operation: {no_such('operation', rule.operation, choices, hint)}")
        self._made += 1
        until = None if rule.lasts is None else now + rule.lasts
        active = Active(f"fault_{self._made}", rule, until=until)
        self.active[active.id] = active
        self.changed()
        return active

    def remove(self, rule: str) -> None:
        """End a rule. Raises BadInput."""
        if rule not in self.active:
            raise BadInput(f"fault: there is none with the id {rule!r}")
        del self.active[rule]
        self.changed()

    def clear(self) -> None:
        """End all rules."""
        self.active.clear()
        self.changed()

    def reset(self) -> None:
        """End all rules, and number them anew: what rules do is drawn by their numbers."""
        self._made = 0
        self.clear()

    def pick(self, call: Call, path: str = "", now: Micros = 0) -> InjectedFault | None:
        """Draw what befalls a request: delays add up, of drops and answers the first rule's counts."""
        return self._picked(now, lambda rule: rule.befalls(call, path)) if self.active else None

    def pick_delivery(self, attempt: Attempt, now: Micros) -> InjectedFault | None:
        """Draw what befalls a webhook attempt."""

        def befalls(rule: FaultRule) -> bool:
            return rule.operation == DELIVERY and (rule.path is None or fits_pattern(rule.path, attempt.url))

        return self._picked(now, befalls) if self.active else None

    def _picked(self, now: Micros, befalls: Callable[[FaultRule], bool]) -> InjectedFault | None:
        fault = None
        for active in self.active.values():
            if active.is_in_force(now) and befalls(active.rule):
                fault = fault or InjectedFault()
                self._strike(active, fault)
        if fault is not None:
            self.changed()
        return fault

    def _strike(self, active: Active, fault: InjectedFault) -> None:
        rule, who, index = active.rule, entity(active.id), active.seen
        before = active.effects.total()
        active.seen += 1
        if rule.latency is not None:
            fault.delay_s += rule.latency.at(uniform(self._seed, who, index, Purpose.LATENCY)) / SECOND
        if rule.latency_after is not None:
            drawn = uniform(self._seed, entity(f"{active.id} after"), index, Purpose.LATENCY)
            fault.delay_after_s += rule.latency_after.at(drawn) / SECOND
        if rule.latency is not None or rule.latency_after is not None:
            active.effects["delayed"] += 1
        drawn = uniform(self._seed, who, index, Purpose.LOSS)
        for when, share in rule.drops:
            if not fault.drop and drawn < share:
                fault.drop = when
                active.effects["dropped"] += 1
            drawn -= share
        answer = rule.answer
        if (
            answer
            and uniform(self._seed, entity(f"{active.id} answer"), index, Purpose.OUTAGE) < rule.answer_rate
        ):
            fault.answer = fault.answer or answer
            active.effects["answered"] += 1
        if rule.bytes_per_second is not None:
            fault.bytes_per_second = min(
                rule.bytes_per_second, fault.bytes_per_second or rule.bytes_per_second
            )
            active.effects["slowed"] += 1
        if rule.delivery is not None:
            fault.delivery = rule.delivery
            active.effects["altered"] += 1
        if uniform(self._seed, who, index, Purpose.OUTAGE) < rule.error_rate:
            fault.fails = True
            active.effects["failed"] += 1
        if active.effects.total() > before:
            fault.rules += (active.id,)
