"""Everything about spending: the six checks, allowances, cost, slots, cooldowns and dry runs, by account."""

from __future__ import annotations

from ranksim.conformance.history.history import History
from ranksim.conformance.spending import check_precedence, cooldowns, cost, dry_runs, joins, quotas, slots
from ranksim.conformance.spending.by_account import activity_of
from ranksim.conformance.spending.statements import BusinessClock
from ranksim.conformance.verdict.options import Options
from ranksim.conformance.verdict.verdicts import Rule, Tally

RULES: tuple[Rule, ...] = (
    *check_precedence.RULES,
    *cost.RULES,
    *quotas.RULES,
    *slots.RULES,
    *cooldowns.RULES,
    *joins.RULES,
    *dry_runs.RULES,
)


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge what every account spent and was refused."""
    clock = BusinessClock(history)
    for dealings in activity_of(history, options):
        check_precedence.judge(dealings, clock, options, tally)
        cost.judge(dealings, clock, options, tally)
        quotas.judge(dealings, clock, options, tally)
        slots.judge(dealings, options, tally)
        cooldowns.judge(dealings, clock, options, tally)
        joins.judge(dealings, options, tally)
        dry_runs.judge(dealings, clock, options, tally)
