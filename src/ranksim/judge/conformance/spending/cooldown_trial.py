"""One reading of U46 on trial: which instances of the rules of cooldowns hold under it, and what breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ranksim.core.clock import Micros
from ranksim.judge.conformance.spending.activity import JOBS, RefusedSpend, SpendCall
from ranksim.judge.conformance.spending.cooldown_groups import CooldownGroups, CooldownInterpretation
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

NOTHING = Evidence("")
"""That of an instance which broke nothing."""


@dataclass(slots=True)
class Trial:
    """What one reading of U46 makes of the instances of rules: how many hold or are open, and what breaks."""

    runs: CooldownGroups
    kind: CooldownInterpretation
    held: Counter[str] = field(default_factory=Counter)
    open: Counter[str] = field(default_factory=Counter)
    broke: list[tuple[str, str, Evidence]] = field(default_factory=list)
    """Rule, case, and what tells."""
    cases: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The cases of rules that were exercised, with the first exchanges that did."""
    begun: dict[str, tuple[Micros, Micros, SpendCall]] = field(default_factory=dict)
    """When works began their cooldown, as refusals told."""
    while_running: bool = False
    """Whether what cools from its finish was seen refused while it ran, so that none is granted beside it."""

    @property
    def by_domain(self) -> bool:
        """Whether a cooldown is of one domain."""
        return self.kind.scope == "domain"

    def from_finish(self, spend: str) -> bool:
        """Return whether a cooldown of an operation begins as its job ends."""
        return self.kind.begins == "finish" and spend in JOBS

    def covers(self, rule: str, case: str, *calls: SpendCall) -> None:
        """Note that an exchange would have shown a case broken."""
        self.cases.setdefault((rule, case), tuple(call.exchange.id for call in calls))

    def add(self, rule: str, holds: bool | None, evidence: Evidence = NOTHING, case: str = ANY) -> None:
        """Note one instance; None when nobody can tell."""
        if holds is None:
            self.open[rule] += 1
        elif holds:
            self.held[rule] += 1
        else:
            self.broke.append((rule, case, evidence))

    def tell(self, tally: Tally) -> None:
        """Report it to the tally."""
        for rule, count in self.held.items():
            tally.held(rule, count, case=None)
        for rule, count in self.open.items():
            tally.open(rule, "a run before may have failed, or what went before was not seen", count)
        for (rule, case), ids in self.cases.items():
            tally.covers(rule, case, ids)
        for rule, case, evidence in self.broke:
            tally.broke(rule, evidence, case=case)


def cooldown_evidence(
    runs: CooldownGroups, says: str, calls: Sequence[SpendCall], at: Micros, expected: str = ""
) -> Evidence:
    """Return evidence of calls, about a refusal where it ends with one, else about the first call."""
    ids = tuple(call.exchange.id for call in calls)
    about = calls[-1] if isinstance(calls[-1], RefusedSpend) else calls[0]
    return Evidence(says, ids, (), runs.about(about), at, expected)
