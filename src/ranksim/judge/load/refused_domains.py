"""Where a run could make no domain, so that what goes on within one was not exercised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.records import parsed_object
from ranksim.report import units

LIMITS = (402, 403)
"""Statuses by which an account or a key refuses one more domain; other refusals are provoked or pass."""


@dataclass(slots=True)
class RefusedDomains:
    """Domains that were asked for, from the lines of a trace: made, and refused, by the name of the key."""

    bound: set[str] = field(default_factory=set)
    """Keys that are bound to one domain, and never make any."""
    environments: dict[str, str] = field(default_factory=dict)
    """Where each key belongs; it makes nothing elsewhere."""
    made: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    why: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> RefusedDomains:
        """Read a trace."""
        refused = cls()
        for line in lines:
            refused.take(line)
        return refused

    def take(self, line: Mapping[str, Any]) -> None:
        """Learn from a line."""
        if line.get("kind") != "exchange":
            for name, key in (line.get("keys") or {}).items():
                self.environments[name] = str(key.get("environment"))
                self.bound |= {name} if key.get("domain_id") else set()
            return
        key, status = str(line.get("api_key")), line.get("status")
        is_creation = line.get("operations") == ["domains.create"]
        home = self.environments.get(key) == line.get("environment")
        if status is None or not is_creation or not home or key in self.bound:
            return
        self.made[key] += status < 300
        if status in LIMITS:
            self.refused[key] += 1
            reply = parsed_object(line.get("response") or "") or {}
            self.why[key] = f"{status} {reply.get('code') or ''}".strip()

    def lines(self) -> list[str]:
        """Say of each key that was refused domains how many, and what would help."""
        return [
            f"{units.count(number)} of {units.many(self.made[key] + number, 'domain')} could not be made "
            f"with the key {key} ({self.why[key]}): what goes on within one was not exercised there; "
            "`use_domains` in a target file names some that may be used"
            for key, number in sorted(self.refused.items())
        ]
