"""What a load run may spend of somebody's money: a cap, or dry runs alone."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from ranksim.callers.steps import Pause, Received, Send, Spawn
from ranksim.contract.quantities import MICRO_USD
from ranksim.service.operations import OPERATIONS

BLIND = 5
"""Spending calls that are permitted between two readings of what was spent, once a price is known."""

WIDENING = ("list_ids", "engine_devices", "geographies", "active")
"""Fields of a scan whose change can commit more spending, without a dry run to try it by (E19)."""

HELD_BACK = "calls were held back by the spend cap or --dry-run-only"
"""The note of a trace that has the number of calls which were not permitted."""


@dataclass(slots=True)
class _AccountSpend:
    """What is known of one key's account: µUSD spent at first and at last, and calls permitted since.

    `resets_at` is when what was spent begins anew, and `earlier` what was spent by us before it last did.
    """

    first: int | None = None
    last: int = 0
    resets_at: Any = None
    earlier: int = 0
    since: int = 0
    dearest: int | None = None

    def spent(self) -> int:
        """The most that was spent, calls since the last reading counted at the dearest price seen."""
        in_period = 0 if self.first is None else self.last - self.first
        return self.earlier + in_period + self.since * (self.dearest or 0)


@dataclass(slots=True)
class Budget:
    """Permits what may be sent. `cap` is µUSD for the whole run, None for no cap.

    What was spent is known from readings of account usage alone. Between two of them one spending call is
    permitted while no price is known, then at most `BLIND`, each counted at the dearest price seen. So the
    cap can be overshot by one call of unknown price, by what `BLIND` calls turn out dearer than any before,
    and by what the deployment books only after the reading. Without such readings nothing that spends is
    permitted. Where accounts are shared by several processes, each needs its share of the cap.
    """

    cap: int | None = None
    dry_run_only: bool = False
    accounts: Mapping[str, str] = field(default_factory=dict)
    """Name of a key to its account, where known; keys of one account share what it spends."""
    refused: int = 0
    """Calls that were not permitted."""
    _accounts: dict[str, _AccountSpend] = field(default_factory=dict)

    def permit(self, send: Send) -> Send | None:
        """Return what may be sent in place of a call, or None: nothing."""
        permitted = self._permit(send)
        self.refused += permitted is None
        return permitted

    def _permit(self, send: Send) -> Send | None:
        if send.operation == "scans.update" and self.dry_run_only and _widens(send):
            return None
        if not spends(send):
            return send
        if self.dry_run_only:
            if send.body is None or send.raw is not None or send.surface != "rest":
                return None
            return replace(send, body={**send.body, "dry_run": True})
        if self.cap is None:
            return send
        account = self._of(send.key)
        if account.first is None or account.since >= (1 if account.dearest is None else BLIND):
            return None
        if self.spent() + max(1, account.dearest or 0) > self.cap:
            return None
        account.since += 1
        return send

    def reading(self, send: Send) -> Send | None:
        """Return the reading that is wanted before a spending call can be permitted, or None."""
        if self.cap is None or self.dry_run_only or not spends(send):
            return None
        account = self._of(send.key)
        stale = account.first is None or account.since > 0
        return Send("account.usage", send.key) if stale and self.spent() < self.cap else None

    def saw(self, send: Send, received: Received) -> None:
        """Learn from an answer what was spent."""
        if send.operation != "account.usage" or self.cap is None:
            return
        cost = received.data.get("cost") if isinstance(received.data, Mapping) else None
        spent = spent_of(cost) if isinstance(cost, Mapping) else None
        if not isinstance(cost, Mapping) or spent is None:
            return
        account, resets_at = self._of(send.key), cost.get("resets_at")
        if resets_at != account.resets_at and spent < account.last:
            account.earlier = account.spent()
            account.first = account.last = account.since = 0
        account.resets_at = resets_at
        if account.first is None:
            account.first = account.last = spent
        if account.since and spent > account.last:
            price = -(-(spent - account.last) // account.since)
            account.dearest = max(account.dearest or 0, price)
        elif account.since and account.dearest is None:
            account.dearest = 0
        account.last, account.since = max(account.last, spent), 0

    def _of(self, key: str) -> _AccountSpend:
        return self._accounts.setdefault(self.accounts.get(key) or key, _AccountSpend())

    def spent(self) -> int:
        """Return the most that this run has spent so far, as far as can be known, in µUSD."""
        return sum(account.spent() for account in self._accounts.values())


def guarded(program: Generator[Any, Any, Any], budget: Budget) -> Generator[Any, Any, Any]:
    """Run a program with what a budget permits; what it does not permit is answered like silence.

    Readings that the budget wants are sent in between.
    """
    answer: Any = None
    while True:
        try:
            step = program.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(step, Send):
            answer = yield from _guarded_send(step, budget)
        elif isinstance(step, Spawn):
            answer = yield Spawn(guarded(step.program, budget))
        else:
            answer = yield step


def _guarded_send(send: Send, budget: Budget) -> Generator[Any, Any, Received]:
    wanted = budget.reading(send)
    if wanted is not None:
        budget.saw(wanted, (yield wanted))
    permitted = budget.permit(send)
    if permitted is None:
        now = yield Pause(1_000)
        return Received(0, None, {}, now, now)
    answer: Received = yield permitted
    budget.saw(permitted, answer)
    return answer


def spends(send: Send) -> bool:
    """Return whether a call can spend or commit spend: one of the seven, and no dry run (S51)."""
    operation = OPERATIONS.get(send.operation)
    if operation is None or not operation.spends:
        return False
    if send.body is None or send.raw is not None:
        return True
    if send.surface != "rest":
        return "dryRun: true" not in str(send.body.get("query"))
    return send.body.get("dry_run") is not True


def _widens(send: Send) -> bool:
    return send.body is None or any(name in send.body for name in WIDENING)


def spent_of(cost: Mapping[str, Any]) -> int | None:
    """Read µUSD spent from the cost in account usage, text or a number; None where it does not say."""
    if "spent" in cost:
        return micros_of(cost["spent"])
    parts = [micros_of(cost[name]) for name in ("settled", "reserved") if name in cost]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def micros_of(amount: Any) -> int | None:
    """Read an amount of dollars, text or a number, as µUSD; None where it is none."""
    try:
        return int(Decimal(str(amount)) * MICRO_USD)
    except (ArithmeticError, ValueError):
        return None
