"""What a check cannot decide, why, and which key, plan or setting would."""

from __future__ import annotations

from dataclasses import dataclass

from ranksim.judge.conformance.compare import RULE_NAMED
from ranksim.judge.conformance.verdict.rule import Requirement


@dataclass(frozen=True, slots=True)
class Lack:
    """What rules need and a check has not; `why`, and what would help.

    Where only a `part` of them cannot be seen, it is told, and holds no rule back. What is `sought` all the
    same has tasks look for it as if nothing were lacking: it may turn up.
    """

    needs: tuple[Requirement, ...]
    why: str
    would: str
    part: str = ""
    sought: bool = False

    def covers(self, rule: str) -> bool:
        """Return whether it holds a rule back."""
        return not self.part and self.is_about(rule)

    def is_about(self, rule: str) -> bool:
        """Return whether it is about a rule, or a part of it."""
        return any(need in RULE_NAMED[rule].needs for need in self.needs)
