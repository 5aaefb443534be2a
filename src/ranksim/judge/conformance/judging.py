"""All judges, and the one pass in which each exchange of a history is shown to those that want it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.core.records import Passed
from ranksim.judge.conformance.calls.access import AccessJudge
from ranksim.judge.conformance.calls.idempotency import IdempotencyJudge
from ranksim.judge.conformance.calls.jobs import JobJudge
from ranksim.judge.conformance.calls.pagination import PaginationJudge
from ranksim.judge.conformance.calls.schema_checks import SchemaJudge
from ranksim.judge.conformance.calls.tenants import TenantJudge
from ranksim.judge.conformance.calls.updates import UpdateJudge
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.history.packed import Taker
from ranksim.judge.conformance.judge import Judge
from ranksim.judge.conformance.rate.headers import HeaderJudge
from ranksim.judge.conformance.rate.table import TableJudge
from ranksim.judge.conformance.rate.windows import WindowJudge
from ranksim.judge.conformance.spending.spending import SpendingJudge
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Tally
from ranksim.judge.conformance.webhooks.attempts import AttemptJudge
from ranksim.judge.conformance.webhooks.auto_disable import AutoDisableJudge
from ranksim.judge.conformance.webhooks.completeness import CompletenessJudge
from ranksim.judge.conformance.webhooks.endpoints import share_log
from ranksim.judge.conformance.webhooks.retries import RetryJudge

BY_HEADERS: Final = (WindowJudge, TableJudge, HeaderJudge)
"""The judges of status and headers, which look at what a reply says only to tell a refusal by its code."""

SETTLED_EVERY: Final = 128
"""Exchanges after which judges settle what they can: while their details are near, and so that few wait."""


Maker: TypeAlias = Callable[[Options], Judge]

FAMILIES: Final[tuple[Maker, ...]] = (
    WindowJudge,
    HeaderJudge,
    SpendingJudge,
    JobJudge,
    IdempotencyJudge,
    PaginationJudge,
    AccessJudge,
    TenantJudge,
    AttemptJudge,
    CompletenessJudge,
    RetryJudge,
    AutoDisableJudge,
    UpdateJudge,
    SchemaJudge,
)
"""The judges, in the order of the report."""

EFFORT: Final[Mapping[Maker, int]] = {SpendingJudge: 8, SchemaJudge: 4, JobJudge: 2, PaginationJudge: 2}
"""How much time a family takes beside the others, about; one that is not named takes 1."""


def shared_out(workers: int) -> list[list[Maker]]:
    """Return the families in so many shares of about equal effort, or fewer, none of which is empty."""
    portions: list[list[Maker]] = [[] for _ in range(min(workers, len(FAMILIES)))]
    for family in sorted(FAMILIES, key=lambda family: -EFFORT.get(family, 1)):
        min(portions, key=lambda portion: sum(EFFORT.get(make, 1) for make in portion)).append(family)
    return portions


def judge_history(history: History, judges: Sequence[Judge], passed: Passed = lambda share: None) -> None:
    """Show a whole history to judges, and have them settle all of it.

    `passed` is told which share was shown.
    """
    share_log(judges)
    for attempt in history.arrived:
        for judge in judges:
            judge.see_attempt(attempt)

    def takers(like: Observation) -> list[Taker]:
        if like.request_unrecorded:
            return []
        if not like.reply_unrecorded:
            return [judge.see for judge in judges if judge.wants(like)]
        lost = like.as_lost()
        return [
            judge.see if isinstance(judge, BY_HEADERS) else _as_lost(judge)
            for judge in judges
            if judge.wants(like if isinstance(judge, BY_HEADERS) else lost)
        ]

    for number, watermark in enumerate(history.hand_out(takers), 1):
        if number % SETTLED_EVERY == 0:
            passed(number / len(history.seen))
            for judge in judges:
                judge.settle(watermark, history.run)
    for judge in reversed(judges):  # the arrays of windows, the first judge's, take the most room
        judge.settle(DISTANT_FUTURE, history.run)


def _as_lost(judge: Judge) -> Taker:
    """Show a judge an exchange as if its reply had been lost."""
    return lambda seen: judge.see(seen.as_lost())


def judged(maker: Maker, history: History, options: Options) -> Tally:
    """Have one judge look at a whole history."""
    judge = maker(options)
    judge_history(history, [judge])
    return judge.tally
