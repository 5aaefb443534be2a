"""What a trace may lack, for its headline, by patterns of `rule/case` that match it whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ranksim.judge.conformance.verdict.rule import MET_AT_ONCE

UNSEEN: Final[tuple[tuple[str, str], ...]] = (
    ("no two calls met at once", f".*/{MET_AT_ONCE}"),
    ("no job failed", r".*/(.* )?failed|.*/job[.]failed.*"),
    ("no rate limit was reached", r"rate[.](read|write|expensive|retry_after.*|traffic_only)/.*|.*/429"),
    ("nothing was refused at the cost ceiling", r"(guards[.]ceiling|cost[.](refused|meta))/.*|.*/.*cost_c.*"),
    ("no allowance was used up", r"(guards[.]quota|quota[.](limit|refused|meta))/.*|.*/quota_exhausted"),
    ("no slots ran out", r"(guards[.]slots|slots[.](limit|refused))/.*|.*/slot_limit_exceeded"),
    ("no cooldown was met", r"cooldown[.].*|.*/cooldown_active"),
    ("no Idempotency-Key was used twice", r"idempotency[.].*|.*/idempotency_mismatch"),
    ("no webhook arrived", r"webhook[.](signature|fresh|headers|body|event|sent|acknowledged)/.*"),
    ("no webhook was tried again", r"webhook[.](retried|retry_delays|timeout|redirect|six_attempts)/.*"),
    ("no domain-scoped key was used", r"access[.]scope.*"),
    ("no walk met removals", ".*, while items go"),
    ("nothing was dry-run", r"dry_run[.].*|.*/(.*, )?dry|.*/dry run"),
    ("nothing was called over GraphQL", ".*/(over )?GraphQL.*"),
)
"""What a trace may lack, what matters most first, and the cases that hang on it; a case is of the first."""


def unseen_cases(cases: Mapping[tuple[str, str], bool]) -> Iterator[tuple[str, int]]:
    """Return what did not happen, and how many cases hang on it, what matters most first.

    `cases` tells of each rule's case, by both names, whether it was exercised. What happened in one case of
    its kind did happen.
    """
    left = dict(cases)
    for says, pattern in UNSEEN:
        kind = [names for names in left if re.fullmatch(pattern, "/".join(names))]
        exercised = [left.pop(names) for names in kind]
        if exercised and not any(exercised):
            yield says, len(kind)
