"""Faults on purpose: late answers, errors and dropped connections, per operation and key.

What a rule does to its n-th request is drawn at the address (seed, rule, n), so the same requests meet the
same faults in every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from ranksim.core.clock import SECOND
from ranksim.core.contract.quantities import Distribution, Frozen
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.errors import BadInput, no_such
from ranksim.core.service.calls import Call
from ranksim.core.service.operations import OPERATIONS
from ranksim.twin.serving.parsing import fits_pattern

GRAPHQL = "graphql"
"""The operation that a GraphQL request counts as here: its fields are read later."""

Share = Annotated[float, Field(ge=0, le=1)]

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
    """What befalls requests of an operation and a key, with what likelihood."""

    model_config = ConfigDict(title="Rule")  # its name in the OpenAPI document

    operation: str = Field(
        "*",
        description="Operations it befalls, such as jobs.create or jobs.*; GraphQL requests are 'graphql'.",
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
    times: int | None = Field(None, ge=1, description="How many requests it befalls; by default all.")

    @model_validator(mode="after")
    def _check(self) -> FaultRule:
        late = self.latency is not None or self.latency_after is not None
        if not (late or self.error_rate or self.drop_before_rate or self.drop_after_rate):
            raise ValueError(
                "give at least one of latency, latency_after, error_rate, drop_before_rate, drop_after_rate"
            )
        if self.drop_before_rate + self.drop_after_rate > 1:
            raise ValueError("drop_before_rate and drop_after_rate together are at most 1")
        return self

    def befalls(self, call: Call) -> bool:
        """Return whether a request is one of the rule's."""
        name = GRAPHQL if call.surface == "graphql" else call.operation
        return (
            fits_pattern(self.operation, name)
            and self.key in (None, call.key)
            and self.environment in (None, call.environment)
        )


@dataclass(slots=True)
class InjectedFault:
    """What befalls one request. `drop` is "before", "after" or ""; delays are wall time.

    `delay_s` comes before the effect, `delay_after_s` between it and the answer.

    `rules` are the ids of those that did something to it.
    """

    delay_s: float = 0.0
    drop: str = ""
    fails: bool = False
    rules: tuple[str, ...] = ()
    delay_after_s: float = 0.0


@dataclass(slots=True)
class Active:
    """A rule in force, and what it did so far: requests `seen`, and how often each effect came."""

    id: str
    rule: FaultRule
    seen: int = 0
    effects: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        effects = {name: self.effects[name] for name in ("delayed", "failed", "dropped")}
        return {"id": self.id, **self.rule.model_dump(mode="json"), "seen": self.seen, "effects": effects}


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
            active[entry["id"]] = Active(entry["id"], rule, int(entry["seen"]), effects)
        self._made, self.active = made, active

    def add(self, rule: FaultRule) -> Active:
        """Put a rule in force, after those that are. Raises BadInput for one that befalls no operation."""
        if not any(fits_pattern(rule.operation, name) for name in (*OPERATIONS, GRAPHQL)):
            families = dict.fromkeys(f"{name.partition('.')[0]}.*" for name in OPERATIONS)
            choices = tuple(families) if "*" in rule.operation else (*OPERATIONS, GRAPHQL)
            hint = "expected one such as jobs.create or jobs.*"
            raise BadInput(f"operation: {no_such('operation', rule.operation, choices, hint)}")
        self._made += 1
        active = Active(f"fault_{self._made}", rule)
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

    def pick(self, call: Call) -> InjectedFault | None:
        """Draw what befalls a request: delays add up, of drops the first rule's counts."""
        fault = None
        for active in self.active.values():
            rule = active.rule
            if (rule.times is None or active.seen < rule.times) and rule.befalls(call):
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
        if not fault.drop and drawn < rule.drop_before_rate + rule.drop_after_rate:
            fault.drop = "before" if drawn < rule.drop_before_rate else "after"
            active.effects["dropped"] += 1
        if uniform(self._seed, who, index, Purpose.OUTAGE) < rule.error_rate:
            fault.fails = True
            active.effects["failed"] += 1
        if active.effects.total() > before:
            fault.rules += (active.id,)
