"""Options tried: the judges look at a trace with each option of an assumption taken for granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from ranksim.core.clock import Micros
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.records import Passed
from ranksim.judge.conformance.history.history import History, ObservedRun
from ranksim.judge.conformance.judging import FAMILIES, Maker, judge_history
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.spending import PARTS, RULES, SpendingJudge, SpendingPart
from ranksim.judge.conformance.spending.statements import BusinessClock
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding, Tally, Verdict


@dataclass(frozen=True, slots=True)
class Watched(Options):
    """Options that remember which assumptions were consulted; the others make no difference."""

    consulted: set[str] = field(default_factory=set)

    def default(self, name: str) -> Any:
        """The policy's value of an assumption."""
        self.consulted.add(name)
        return getattr(self.policy.assumptions, name)

    def pinned(self, name: str) -> bool:
        """Return whether the policy states this assumption."""
        self.consulted.add(name)
        return name in self.assumptions


@dataclass(frozen=True, slots=True)
class SpendingTrial:
    """One part of judging what was spent, under some options, and what it found."""

    part: SpendingPart
    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))


@dataclass
class SpendingTrials(SpendingJudge):
    """A judge of each account under the options of each trial: what it did is put together once for all.

    Once there was `enough` it leaves out what is left, so a trial may have found less than there is.
    """

    trials: list[SpendingTrial] = field(default_factory=list)
    enough: Callable[[], bool] = lambda: False
    cut: bool = False
    """Whether anything was left out."""

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge each account that was idle for a month; at the end, every one."""
        clock = BusinessClock(run)
        for activity in self.accounts.activity(watermark, run, self.options):
            for trial in self.trials:
                if self.enough():
                    self.cut = True
                    return
                trial.part(AccountAudit(activity, clock, trial.options, trial.tally))


@dataclass(frozen=True, slots=True)
class Family:
    """One family of rules judged with everything open, and the assumptions that its judge consulted.

    What judges spending is several, one for each `part`; `trials` has what an option of an assumption
    shows, where it was tried.
    """

    make: Maker
    tally: Tally
    consulted: frozenset[str]
    part: SpendingPart | None = None
    trials: dict[tuple[str, Any], Tally] = field(default_factory=dict)


class Trials:
    """What the families of rules find in a trace with everything open, and with each option tried."""

    def __init__(self, history: History, options: Options, enough: Callable[[], bool]) -> None:
        self.history, self.options, self.enough = history, options, enough
        self.families = self._opened()
        self.findings = [finding for family in self.families for finding in family.tally.findings()]
        broken = {f.rule.name: f for f in self.findings if f.verdict == Verdict.DEVIATES}
        self.deviating: tuple[Finding, ...] = tuple(broken.values())
        self.differences: tuple[Difference, ...] = tuple(
            difference for family in self.families for difference in family.tally.differences
        )
        self.untried: set[str] = set()
        """The assumptions of which not every option was tried, for want of time."""
        self._broken = broken.keys()

    def _watched(self) -> Watched:
        return Watched(self.options.policy, self.options.assumptions, self.options.statuses)

    def _opened(self) -> list[Family]:
        parts = [(part, self._watched()) for part in PARTS]
        trials = [SpendingTrial(part, about) for part, about in parts]
        others = [(make, self._watched()) for make in FAMILIES if make is not SpendingJudge]
        judges = [make(about) for make, about in others]
        judge_history(self.history, [*judges, SpendingTrials(self.options, trials=trials)])
        families = {
            make: [Family(make, judge.tally, frozenset(about.consulted))]
            for (make, about), judge in zip(others, judges, strict=True)
        }
        families[SpendingJudge] = [
            Family(SpendingJudge, trial.tally, frozenset(about.consulted), part)
            for (part, about), trial in zip(parts, trials, strict=True)
        ]
        return [family for make in FAMILIES for family in families[make]]

    def try_spending(self, excluded: Mapping[str, Mapping[Any, Evidence]], passed: Passed) -> None:
        """Try each option that a part of the rules of spending asks about, and that is not excluded."""
        judge, names = SpendingTrials(self.options, enough=self.enough), set[str]()
        for family in self.families:
            if family.part is None:
                continue
            for name in [name for name in choices_of(self.options) if name in family.consulted]:
                for value in self._values(name, excluded.get(name, {})):
                    judge.trials.append(SpendingTrial(family.part, self._pinning(name, value)))
                    family.trials[name, value] = judge.trials[-1].tally
                    names.add(name)
        judge_history(self.history, [judge], passed)
        self.untried |= names if judge.cut else set()

    def try_out(self, name: str, excluded: Mapping[Any, Evidence]) -> None:
        """Try each option of an assumption that another family asks about, and that is not excluded."""
        asking = [family for family in self.families if family.part is None and name in family.consulted]
        values = self._values(name, excluded)
        if not asking or not values:
            return
        if self.enough():
            self.untried.add(name)
            return
        tried = [
            (family, value, family.make(self._pinning(name, value))) for family in asking for value in values
        ]
        judge_history(self.history, [judge for _, _, judge in tried])
        for family, value, judge in tried:
            family.trials[name, value] = judge.tally

    def broken_by(self, name: str, value: Any) -> Evidence | None:
        """Return what breaks when this option is taken for granted and does not when it is not."""
        for family in self.families:
            tally = family.trials.get((name, value))
            for finding in () if tally is None else tally.findings():
                if finding.verdict == Verdict.DEVIATES and finding.rule.name not in self._broken:
                    return finding.evidence[0]
        return None

    def _values(self, name: str, excluded: Mapping[Any, Evidence]) -> list[Any]:
        return [value for value in self.options.candidates(name) if value not in excluded]

    def _pinning(self, name: str, value: Any) -> Options:
        """Return the options with one more taken for granted; nothing else becomes stated."""
        options = self.options
        assumptions = options.policy.replace(assumptions={name: value}).assumptions
        policy = options.policy.model_copy(update={"assumptions": assumptions})
        return Options(policy, options.assumptions | {name}, options.statuses)


def choices_of(options: Options) -> Iterator[str]:
    """Return the assumptions that are choices and open."""
    for name, about in Assumptions.model_fields.items():
        if not options.pinned(name) and (
            about.annotation is bool or get_origin(about.annotation) is not None
        ):
            values = get_args(about.annotation)
            if about.annotation is bool or (values and all(isinstance(value, str) for value in values)):
                yield name
