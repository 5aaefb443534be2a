"""Everything about spending: the six checks, allowances, cost, slots, cooldowns and dry runs, by account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ranksim.clock import Micros
from ranksim.conformance.history.history import ObservedRun
from ranksim.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.conformance.spending import check_precedence, cooldowns, cost, dry_runs, joins, quotas, slots
from ranksim.conformance.spending.activity import AccountActivity
from ranksim.conformance.spending.by_account import ObservedAccounts
from ranksim.conformance.spending.statements import BusinessClock
from ranksim.conformance.verdict.options import Options
from ranksim.conformance.verdict.verdicts import Rule, Tally


@dataclass(frozen=True, slots=True)
class SpendingPart:
    """Some rules, and what judges them of all that an account did; it changes nothing of that."""

    rules: tuple[Rule, ...]
    judge: Callable[[AccountActivity, BusinessClock, Options, Tally], None]


def _judge_checks(did: AccountActivity, clock: BusinessClock, options: Options, tally: Tally) -> None:
    """Judge the checks, and dry runs, of which those of certain failures are judged beside the checks."""
    check_precedence.judge(did, clock, options, tally)
    dry_runs.judge(did, clock, options, tally)


PARTS: Final = (
    SpendingPart((*check_precedence.RULES, *dry_runs.RULES), _judge_checks),
    SpendingPart(cost.RULES, cost.judge),
    SpendingPart(quotas.RULES, quotas.judge),
    SpendingPart(slots.RULES, lambda did, clock, options, tally: slots.judge(did, options, tally)),
    SpendingPart(cooldowns.RULES, cooldowns.judge),
    SpendingPart(joins.RULES, lambda did, clock, options, tally: joins.judge(did, options, tally)),
)

RULES: tuple[Rule, ...] = tuple(
    rule
    for module in (check_precedence, cost, quotas, slots, cooldowns, joins, dry_runs)
    for rule in module.RULES
)
"""All rules of spending, in the order in which they are told."""


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
            for part in PARTS:
                part.judge(activity, clock, options, tally)
