"""Everything about spending: the six checks, allowances, cost, slots, cooldowns and dry runs, by account."""

from __future__ import annotations

from ranksim.conformance import cooldowns, cost, dryruns, guards, joins, quotas, slots
from ranksim.conformance.accounts import dealings_of
from ranksim.conformance.history import History
from ranksim.conformance.options import Options
from ranksim.conformance.readings import BusinessClock
from ranksim.conformance.verdicts import Rule, Tally

RULES: tuple[Rule, ...] = (
    *guards.RULES,
    *cost.RULES,
    *quotas.RULES,
    *slots.RULES,
    *cooldowns.RULES,
    *joins.RULES,
    *dryruns.RULES,
)


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge what every account spent and was refused."""
    clock = BusinessClock(history)
    for dealings in dealings_of(history, options):
        guards.judge(dealings, clock, options, tally)
        cost.judge(dealings, clock, options, tally)
        quotas.judge(dealings, clock, options, tally)
        slots.judge(dealings, options, tally)
        cooldowns.judge(dealings, clock, options, tally)
        joins.judge(dealings, options, tally)
        dryruns.judge(dealings, clock, options, tally)
