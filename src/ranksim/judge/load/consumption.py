"""What a run used up: money, metered units and slots, by the readings of a trace before, in and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.clock import Micros
from ranksim.core.records import parsed_object
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.deployment.prices import spent_amount
from ranksim.report import units

SPENDS = {name: operation.spends for name, operation in OPERATIONS.items()}
"""Which operations can spend."""

READINGS = ("account.usage", "slots.get")


@dataclass(slots=True)
class _Account:
    """The first, the largest and the latest reading of each amount of one account, and when it begins anew.

    `earlier` is what it had grown by when it last did. `read` is when money was last read, and `spending`
    when a call was last under way that may have spent some (µs).
    """

    first: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    resets_at: dict[str, Any] = field(default_factory=dict)
    earlier: Counter[str] = field(default_factory=Counter)
    read: Micros | None = None
    spending: Micros | None = None
    why: str = ""

    def take(self, name: str, amount: Any, resets_at: Any) -> None:
        if not isinstance(amount, int) or isinstance(amount, bool):
            return
        fell = amount < self.latest.get(name, amount)
        if self.resets_at.setdefault(name, resets_at) != resets_at:
            self.resets_at[name] = resets_at
            if fell:  # else it is a period that moves along
                self.earlier[name] = self.grown(name)
                self.first[name] = self.most[name] = 0
        self.first.setdefault(name, amount)
        self.most[name] = max(self.most.get(name, amount), amount)
        self.latest[name] = amount

    def grown(self, name: str) -> int:
        return self.earlier[name] + self.latest[name] - self.first[name]


@dataclass(frozen=True, slots=True)
class AccountSpent:
    """What an account spent, in µUSD: by its last reading, and at the height, with what was reserved then.

    `unread` says what no reading shows, "" where they show all.
    """

    account: str
    spent: int
    height: int
    unread: str = ""


@dataclass(slots=True)
class UsedUp:
    """What was used up, account by account, from the lines of a trace in their order.

    What others use of the accounts meanwhile counts, too: readings do not tell.
    """

    owners: Mapping[str, str] = field(default_factory=dict)
    """Name of a key to its account."""
    accounts: dict[str, _Account] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> UsedUp:
        """Learn from all lines of a trace."""
        used = cls()
        for line in lines:
            if line.get("kind") == "exchange":
                used.exchange(line)
            elif "ranksim_trace" in line:
                used.header(line)
        return used

    def header(self, line: Mapping[str, Any]) -> None:
        """Learn from a trace's header whose each key is."""
        keys = line.get("keys") or {}
        of = {name: (key.get("account") or name, key.get("environment") or "") for name, key in keys.items()}
        keys_by_account = Counter(account for account, _ in set(of.values()))
        self.owners = {  # environments may use one id for two accounts (S1)
            name: account if keys_by_account[account] == 1 else f"{account} in {environment}"
            for name, (account, environment) in of.items()
        }

    def exchange(self, line: Mapping[str, Any]) -> None:
        """Learn from an exchange, if it is a reading that was answered, or one that may spend."""
        operations: Any = line.get("operations") or ()
        key = line.get("api_key") or ""
        owner = self.owners.get(key, key)
        if line.get("effect") != "none" and any(SPENDS.get(operation) for operation in operations):
            self._account(owner).spending = line.get("received") or line["sent"]
        if len(operations) == 1 and operations[0] in READINGS and line.get("surface", "rest") == "rest":
            self._read(owner, operations[0], line)

    def _read(self, owner: str, operation: str, line: Mapping[str, Any]) -> None:
        reply = parsed_object(line["response"]) if line.get("status") == 200 else None
        data = (reply or {}).get("data")
        if isinstance(data, Mapping):
            self.reading(owner, operation, data, line["sent"])
        elif operation == "account.usage":
            self._account(owner).why = line.get("error") or str(line.get("status") or "no reply")

    def _account(self, owner: str) -> _Account:
        return self.accounts.setdefault(owner, _Account())

    def reading(self, owner: str, operation: str, data: Mapping[str, Any], sent: Micros) -> None:
        """Learn from what a reading said of an account that was sent at an instant."""
        account = self._account(owner)
        if operation == "slots.get":
            account.take("slots", data.get("used"), None)  # held ones go at the month's end: a fall, at worst
            return
        cost = data.get("cost")
        if isinstance(cost, Mapping):
            spent = spent_amount(cost)
            account.take("", spent, cost.get("resets_at"))
            account.read = account.read if spent is None else sent
        metrics = data.get("metrics")
        for metric in metrics if isinstance(metrics, list) else ():
            if isinstance(metric, Mapping):
                account.take(str(metric.get("metric")), metric.get("used"), metric.get("resets_at"))

    def spent(self) -> int:
        """Return the µUSD that were spent on all accounts."""
        return sum(account.grown("") for account in self.accounts.values() if "" in account.latest)

    def by_account(self) -> list[AccountSpent]:
        """Return what each account spent that was read, or that may have spent anything."""
        lines = []
        for name, account in sorted(self.accounts.items()):
            spends = account.spending is not None
            if account.read is None and spends:
                lines.append(
                    AccountSpent(name, 0, 0, f"its usage was not read ({account.why or 'not asked'})")
                )
            elif account.read is not None:
                height = account.earlier[""] + account.most[""] - account.first[""]
                later = spends and (account.spending or 0) > account.read
                unread = "its usage was not read after its last call that can spend" if later else ""
                lines.append(AccountSpent(name, account.grown(""), height, unread))
        return lines

    def lines(self) -> list[str]:
        """Return a line for each account of which something was used up, or one that says: nothing was."""
        lines = []
        for name, account in sorted(self.accounts.items()):
            parts = [units.usd(account.grown(""))] if "" in account.latest and account.grown("") > 0 else []
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
