"""Faults on purpose: late and other answers, dropped connections, odd deliveries, by operation and key.

What a rule does to its n-th request is drawn at the address (seed, rule, n), so the same requests meet the
same faults in every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.callers.fault_rules import DELIVERY, Delivery, FaultRule
from ranksim.core.clock import SECOND, Micros, instant, iso
from ranksim.core.contract.patterns import fits_pattern
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Attempt, Call

EFFECTS = ("delayed", "failed", "dropped", "answered", "slowed", "altered")
"""What rules do, as they are counted."""


@dataclass(slots=True)
class InjectedFault:
    """What befalls one request. `drop` is "before", "after", "during" or ""; delays are wall time.

    `delay_s` comes before the effect, `delay_after_s` between it and the answer, which is as the rule
    `answer` says, and comes at `bytes_per_second`. `delivery` is what becomes of a webhook attempt. `rules`
    are the ids of those that did something to it.
    """

    delay_s: float = 0.0
    drop: str = ""
    fails: bool = False
    rules: tuple[str, ...] = ()
    delay_after_s: float = 0.0
    answer: FaultRule | None = None
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

    def stated(self, now: Micros) -> list[dict[str, Any]]:
        """Return the rules in force at an instant as a scenario that starts then states them."""
        rules = []
        for active in self.active.values():
            if active.is_in_force(now):
                rule = active.rule
                remaining = {
                    "times": None if rule.times is None else rule.times - active.seen,
                    "lasts": None if active.until is None else active.until - now,
                }
                rules.append(rule.model_copy(update=remaining).model_dump(mode="json", exclude_defaults=True))
        return rules

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
        """Put a rule in force at an instant, after those that are."""
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

    def reset(self, seed: int, rules: Iterable[tuple[Micros, FaultRule]] = ()) -> None:
        """Put these rules in force alone, each since an instant, and number anew: draws go by numbers."""
        self._seed, self._made = seed, 0
        self.active.clear()
        for since, rule in rules:
            self.add(rule, since)
        self.changed()

    def pick(
        self, call: Call, path: str = "", now: Micros = 0, key: str | None = None
    ) -> InjectedFault | None:
        """Draw what befalls a request: delays add up, of drops and answers the first rule's counts.

        `key` is the name of its API key.
        """
        return self._picked(now, lambda rule: rule.befalls(call, path, key)) if self.active else None

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
        drawn = uniform(self._seed, entity(f"{active.id} answer"), index, Purpose.OUTAGE)
        if rule.answers and drawn < rule.answer_rate:
            fault.answer = fault.answer or rule
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
