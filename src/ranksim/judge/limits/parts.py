"""One limit, by the calls of one who is limited: judged, with its headers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ranksim.core.contract.quota import RateQuota
from ranksim.judge.limits.calls import REFUSALS, CallTable, LimitedCall
from ranksim.judge.limits.judged import JudgedLimit, judge_limit
from ranksim.judge.limits.statements import Statements, judge_statements


@dataclass(frozen=True, slots=True)
class LimitOf:
    """One limit, of one who is limited: how it was judged, and how true the headers are."""

    who: str
    quota: RateQuota
    judged: JudgedLimit
    statements: Statements
    count: int


def judge_part(
    who: str,
    calls: Sequence[LimitedCall],
    quota: RateQuota,
    *,
    refused: Collection[int] = REFUSALS,
    shared: bool = False,
    alone: bool = True,
    lasting: bool = False,
    weighs_replies: bool = False,
) -> LimitOf:
    """Judge one limit by the calls of one who is limited.

    Where it does not stand `alone`, a refusal may be of another limit; where calls weigh more than one, it
    may come before the limit is reached. Either is left out, so it is judged whether more were admitted.
    Where replies state this limit, calls that state another are counted by that one. `lasting`: each call is
    under way for the length of the quota. A call that `weighs_replies` is admitted while there is room for
    one: those of a window come to less than the limit and the heaviest of them.
    """
    about = f"{who}: calls" if who else "calls"
    own = [call for call in calls if call.stated.limit in (None, quota.limit)]
    if any(call.stated.limit == quota.limit for call in own):
        calls = own
    mixed = not alone or weighs_replies or any(call.weight != 1 for call in calls)
    beyond = max(call.weight for call in calls) - 1 if weighs_replies else 0
    judged = judge_limit(
        calls,
        quota.limit + beyond,
        quota.length,
        exclusive=not (mixed or shared),
        refusals=refused,
        mixed=mixed,
        about=about,
        lasting=lasting,
    )
    table = CallTable(sorted(calls, key=lambda call: call.sent), refused)
    return LimitOf(who, quota, judged, judge_statements(judged, table), len(calls))
