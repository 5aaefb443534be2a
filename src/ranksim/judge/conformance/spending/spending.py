"""Everything about spending: the six checks, allowances, cost, slots, cooldowns and dry runs, by account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ranksim.core.clock import Micros
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.spending import (
    check_precedence,
    cooldowns,
    cost,
    dry_runs,
    joins,
    quotas,
    slots,
)
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.by_account import ObservedAccounts
from ranksim.judge.conformance.spending.statements import BusinessClock
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Rule
from ranksim.judge.conformance.verdict.verdicts import Tally

SpendingPart: TypeAlias = Callable[[AccountAudit], None]

JUDGED: Final = (check_precedence, cost, quotas, slots, cooldowns, joins, dry_runs)

PARTS: Final[tuple[SpendingPart, ...]] = tuple(module.judge for module in JUDGED)
"""What judges all that an account did, one after the other; none changes it, and two may judge one rule."""

RULES: tuple[Rule, ...] = tuple(rule for module in JUDGED for rule in module.RULES)


@dataclass
class SpendingJudge:
    """Judges what every account spent and was refused, account by account."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    accounts: ObservedAccounts = field(default_factory=ObservedAccounts)

    def wants(self, like: Observation) -> bool:
        """What any account's key did, and jobs that were begun without one."""
        did = like.key != "" and like.happened is not False
        return did or (like.ok and like.operation == "jobs.create")

    def see(self, exchange: Observation) -> None:
        """Keep it with its account."""
        self.accounts.add(exchange)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Keep what may tell the end of a job."""
        self.accounts.add_attempt(attempt)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge each account that was idle for a month; at the end, every one."""
        clock = BusinessClock(run)
        for activity in self.accounts.activity(watermark, run, self.options):
            audit = AccountAudit(activity, clock, self.options, self.tally)
            for judge in PARTS:
                judge(audit)
