"""What a run used up: money, metered units and slots, by the readings of a trace before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ranksim.callers.budget import spent_of
from ranksim.records import parsed_object
from ranksim.report import units

READINGS = ("account.usage", "slots.get")


@dataclass(slots=True)
class _Account:
    """The first and the latest reading of each amount of one account, and when it begins anew."""

    first: dict[str, int] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    resets_at: dict[str, Any] = field(default_factory=dict)

    def take(self, name: str, amount: Any, resets_at: Any) -> None:
        if not isinstance(amount, int) or isinstance(amount, bool):
            return
        if self.resets_at.setdefault(name, resets_at) != resets_at:
            self.first[name], self.resets_at[name] = 0, resets_at
        self.first.setdefault(name, amount)
        self.latest[name] = amount

    def grown(self, name: str) -> int:
        return self.latest[name] - self.first[name]


@dataclass(slots=True)
class UsedUp:
    """What was used up, account by account, from the lines of a trace in their order.

    What was used before a period ended within the run is not counted.
    """

    owners: Mapping[str, str] = field(default_factory=dict)
    """Name of a key to its account."""
    accounts: dict[str, _Account] = field(default_factory=dict)

    def header(self, line: Mapping[str, Any]) -> None:
        """Learn from a trace's header whose each key is."""
        keys = line.get("keys") or {}
        of = {name: (key.get("account") or name, key.get("environment") or "") for name, key in keys.items()}
        known = Counter(account for account, _ in set(of.values()))
        self.owners = {  # environments may use one id for two accounts (S1)
            name: account if known[account] == 1 else f"{account} in {environment}"
            for name, (account, environment) in of.items()
        }

    def exchange(self, line: Mapping[str, Any]) -> None:
        """Learn from an exchange, if it is a reading that was answered."""
        operations: Any = line.get("operations") or ()
        if line.get("status") != 200 or len(operations) != 1 or operations[0] not in READINGS:
            return
        reply = parsed_object(line["response"]) if line.get("surface", "rest") == "rest" else None
        data = None if reply is None else reply.get("data")
        if isinstance(data, Mapping):
            key = line.get("api_key") or ""
            self.reading(self.owners.get(key, key), operations[0], data)

    def reading(self, owner: str, operation: str, data: Mapping[str, Any]) -> None:
        """Learn from what a reading said of an account."""
        account = self.accounts.setdefault(owner, _Account())
        if operation == "slots.get":
            account.take("slots", data.get("used"), None)  # held ones go at the month's end: a fall, at worst
            return
        cost = data.get("cost")
        if isinstance(cost, Mapping):
            account.take("", spent_of(cost), cost.get("resets_at"))
        metrics = data.get("metrics")
        for metric in metrics if isinstance(metrics, list) else ():
            if isinstance(metric, Mapping):
                account.take(str(metric.get("metric")), metric.get("used"), metric.get("resets_at"))

    def spent(self) -> int:
        """Return the µUSD that were spent on all accounts."""
        return sum(account.grown("") for account in self.accounts.values() if "" in account.latest)

    def lines(self) -> list[str]:
        """Return a line for each account of which something was used up, or one that says: nothing was."""
        lines = []
        for name, account in sorted(self.accounts.items()):
            parts = [units.usd(account.grown(""))] if account.latest.get("") and account.grown("") > 0 else []
            parts += [
                f"{units.count(account.grown(metric))} {metric}"
                for metric in sorted(account.latest)
                if metric and account.grown(metric) > 0
            ]
            if parts:
                held = ", of which those removed stay held to the month's end" if "slots" in parts[-1] else ""
                lines.append(f"used up of {name}: {', '.join(parts)}{held}")
        if lines or not self.accounts:
            return lines
        return ["used up: nothing, by what the accounts' usage says"]
