"""Which cases matter most: those without which a rule is undecided, and what a headline tells was not seen.

Both by patterns of `rule/case`, as regular expressions that match it whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

_LIMIT: Final = {".*, no more": "no refusal shows that no more would have been admitted"}
_AT_ONCE: Final = "(.*, )?at once"

ESSENTIAL: Final[Mapping[str, Mapping[str, str]]] = {
    "rate.read": _LIMIT,
    "rate.write": _LIMIT,
    "rate.expensive": _LIMIT,
    "quota.counted": {"[^,]*": "no unit of an allowance was used between two readings"},
    "quota.limit": {_AT_ONCE: "no two calls for the last units of an allowance met at once"},
    "slots.limit": {_AT_ONCE: "no two calls for the last slots met at once"},
    "cooldown.enforced": {_AT_ONCE: "no two calls for the same thing met at once"},
    "idempotency.once": {_AT_ONCE: "no two calls under one Idempotency-Key met at once"},
    "job.reason": {"failed": "no job failed"},
    "webhook.outcome": {
        "job[.]completed": "no job.completed arrived whose job was read",
        "job[.]failed": "no job.failed arrived whose job was read",
    },
    "webhook.timeout": {
        "an answer within 10 s": "no answer that took more than 5 s was seen to count",
        "no answer|a late 2xx": "no attempt was answered late",
    },
    "paging.end": {
        "a last page": "no last page was seen",
        "a page before others": "no page before others was seen",
    },
    "access.key": {
        "no key, .*": "nothing was called without a key",
        "a wrong key, .*": "nothing was called with an unknown key",
    },
}
"""By rule: the cases of which one must have held before it conforms, and what to say where none did.

They are what a rule is about and serial or kind traffic never meets: several at once, the other side of a
limit, an end that failed.
"""

UNSEEN: Final[tuple[tuple[str, str], ...]] = (
    ("no two calls met at once", f".*/{_AT_ONCE}"),
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


def lacking(rule: str, held: Collection[str]) -> Iterator[str]:
    """Return what to say of each essential case of a rule of which none has held."""
    for pattern, says in ESSENTIAL.get(rule, {}).items():
        if not any(re.fullmatch(pattern, case) for case in held):
            yield says


def unseen(cases: Mapping[tuple[str, str], bool]) -> Iterator[tuple[str, int]]:
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
