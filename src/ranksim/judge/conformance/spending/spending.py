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
from ranksim.judge.conformance.spending.activity import AccountActivity
from ranksim.judge.conformance.spending.by_account import ObservedAccounts
from ranksim.judge.conformance.spending.statements import BusinessClock
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Rule
from ranksim.judge.conformance.verdict.verdicts import Tally

SpendingPart: TypeAlias = Callable[[AccountActivity, BusinessClock, Options, Tally], None]

PARTS: Final[tuple[SpendingPart, ...]] = (
    check_precedence.judge,
    cost.judge,
    quotas.judge,
    lambda did, clock, options, tally: slots.judge(did, options, tally),
    cooldowns.judge,
    lambda did, clock, options, tally: joins.judge(did, options, tally),
    dry_runs.judge,
)
"""What judges all that an account did, one after the other; none changes it, and two may judge one rule."""

RULES: tuple[Rule, ...] = (
    *check_precedence.RULES,
    *cost.RULES,
    *quotas.RULES,
    *slots.RULES,
    *cooldowns.RULES,
    *joins.RULES,
    *dry_runs.RULES,
)


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
        clock, options, tally = BusinessClock(run), self.options, self.tally
        for activity in self.accounts.activity(watermark, run, options):
            for judge in PARTS:
                judge(activity, clock, options, tally)
