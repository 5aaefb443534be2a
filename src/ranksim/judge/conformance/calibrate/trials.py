"""Options tried: the judges look at a trace with each option of an assumption taken for granted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, TypeAlias, get_args, get_origin

from ranksim.core.clock import Micros
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import RateClass
from ranksim.core.records import Passed
from ranksim.judge.conformance.history.history import History, ObservedRun
from ranksim.judge.conformance.judge import Judge
from ranksim.judge.conformance.judging import FAMILIES, Maker, judge_history
from ranksim.judge.conformance.rate.windows import BY_CLASS, REMAINING, AccountWindows, Owner, WindowJudge
from ranksim.judge.conformance.rate.windows import RULES as WINDOW_RULES
from ranksim.judge.conformance.spending.activity import AccountActivity
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.spending import PARTS, RULES, SpendingJudge, SpendingPart
from ranksim.judge.conformance.spending.statements import BusinessClock
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding, Tally

Pin: TypeAlias = tuple[str, Any]
"""An assumption, and an option of it that is taken for granted."""


@dataclass(frozen=True, slots=True)
class Watched(Options):
    """Options that remember which of the `open` ones make a difference when they are taken for granted."""

    open: Mapping[str, Sequence[Pin]] = field(default_factory=dict)
    differing: set[Pin] = field(default_factory=set)

    def default(self, name: str) -> Any:
        """The policy's value of an assumption."""
        self.differing.update(self.open.get(name, ()))
        return getattr(self.policy.assumptions, name)

    def pinned(self, name: str) -> bool:
        """Return whether the policy states this assumption."""
        self.differing.update(self.open.get(name, ()))
        return name in self.assumptions

    def may_be(self, name: str, value: object) -> bool:
        """Return whether an assumption may have this value: not where another is taken for granted."""
        self.differing.update(pin for pin in self.open.get(name, ()) if pin[1] != value)
        return name not in self.assumptions or bool(getattr(self.policy.assumptions, name) == value)

    def must_be(self, name: str, value: object) -> bool:
        """Return whether the policy states this value: as where that is taken for granted."""
        self.differing.update(pin for pin in self.open.get(name, ()) if pin[1] == value)
        return name in self.assumptions and bool(getattr(self.policy.assumptions, name) == value)

    def pinning(self, group: Iterable[Pin]) -> Options:
        """Return the options with some taken for granted; nothing else becomes stated."""
        pins = dict(group)
        assumptions = self.policy.replace(assumptions=pins).assumptions
        policy = self.policy.model_copy(update={"assumptions": assumptions})
        return Options(policy, self.assumptions | pins.keys(), self.statuses)


class Stop(Exception):
    """A trial needs to tell no more."""


@dataclass(slots=True)
class TrialTally(Tally):
    """Ends a trial as soon as a rule breaks that does not with everything open."""

    broken_anyway: Collection[str] = ()

    def broke(self, rule: str, evidence: Evidence, *, case: str = ANY) -> None:
        """Note that the rule broke."""
        Tally.broke(self, rule, evidence, case=case)
        if rule not in self.broken_anyway:
            raise Stop


@dataclass
class Family:
    """One family of rules: what it finds with everything open, and which options make it break.

    What judges spending is several families. `against` has what breaks under an option, and of which rule.
    """

    options: Watched
    tally: Tally
    against: dict[Pin, tuple[str, Evidence]] = field(default_factory=dict)
    untried: set[str] = field(default_factory=set)
    """The assumptions of which not every option was tried, for want of time."""

    def groups(self, enough: bool) -> list[list[Pin]]:
        """Return the options to be tried, one of each assumption together; none if there was `enough`.

        Where a rule is broken already, what breaks it otherwise may hide another: each is tried by itself.
        """
        tried = self.options.differing - self.against.keys()
        if enough:
            self.untried |= {name for name, _ in tried}
            return []
        pins = [[pin for pin in pins if pin in tried] for pins in self.options.open.values()]
        groups = [[pin for pin in group if pin is not None] for group in zip_longest(*pins)]
        return [[pin] for group in groups for pin in group] if self.tally.breaches() else groups

    def try_out(self, judge: Callable[[Options, Tally], None], enough: bool) -> None:
        """Note which options break something; none is tried if there was `enough`."""
        todo = self.groups(enough)
        while todo:
            group, tally = todo.pop(), TrialTally(self.tally.rules, broken_anyway=self.tally.breaches())
            with suppress(Stop):
                judge(self.options.pinning(group), tally)
            todo += self.note(group, tally)

    def note(self, group: list[Pin], tally: Tally) -> list[list[Pin]]:
        """Note what deviates under an option and did not with everything open; return the halves of several.

        To take more for granted can only break more: where nothing breaks under several options, none of them
        is tried by itself.
        """
        broken = self.tally.breaches()
        new = next((breach for breach in tally.breaches().items() if breach[0] not in broken), None)
        if new and len(group) == 1:
            self.against[group[0]] = new
        half = len(group) // 2
        return [group[half:], group[:half]] if new and half else []


class SpendingTrials(SpendingJudge):
    """Judges each account by each part with everything open, then under options: it is put together once.

    Once there was `enough` it tries no more, so that a trial may have found less than there is.
    """

    def __init__(
        self, options: Options, families: Mapping[SpendingPart, Family], enough: Callable[[], bool]
    ) -> None:
        super().__init__(options)
        self.families, self.enough = families, enough

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge each account that was idle for a month; at the end, every one."""
        clock = BusinessClock(run)
        for activity in self.accounts.activity(watermark, run, self.options):
            judges = {part: partial(_audited, part, activity, clock) for part in self.families}
            for part, family in self.families.items():
                family.options.differing.clear()
                judges[part](family.options, family.tally)
            for part, family in self.families.items():
                family.try_out(judges[part], self.enough())


def _audited(
    part: SpendingPart, activity: AccountActivity, clock: BusinessClock, options: Options, tally: Tally
) -> None:
    part(AccountAudit(activity, clock, options, tally))


class WindowTrials(WindowJudge):
    """Judges the windows of each account, then under options: what a reading explains is found out once."""

    def __init__(self, family: Family, enough: Callable[[], bool]) -> None:
        super().__init__(family.options, family.tally)
        self.family, self.enough = family, enough

    def judge_account(self, owner: Owner, windows: AccountWindows) -> None:
        """Judge the windows of one account."""
        super().judge_account(owner, windows)
        self.family.try_out(partial(_explained, windows), self.enough())


def _explained(windows: AccountWindows, options: Options, tally: Tally) -> None:
    """Note which windows no reading explains, without asking how near the limit was pinned."""
    for rate_class in RateClass:
        for examined in windows.judge_scope(rate_class, options, tally, {}, trial=True):
            if not examined.acting:
                tally.broke(BY_CLASS[rate_class], next(iter(examined.against.values())))
            elif len(examined.calls.stated) and not examined.surviving:
                tally.broke(REMAINING, examined.against[examined.acting[0]])


class Trials:
    """What the families of rules find in a trace with everything open, and with each option tried.

    `excluded` are the options that need not be tried; `passed` is told which share was judged.
    """

    def __init__(
        self,
        history: History,
        options: Options,
        enough: Callable[[], bool],
        excluded: Mapping[str, Mapping[Any, Evidence]],
        passed: Passed,
    ) -> None:
        is_open = {
            name: [(name, value) for value in options.candidates(name) if value not in excluded.get(name, {})]
            for name in choices_of(options)
        }
        watching = partial(Watched, options.policy, options.assumptions, options.statuses, is_open)
        self.families, by_maker, judges = list[Family](), dict[Maker, Family](), list[Judge]()
        for make in FAMILIES:
            watched = watching()
            if make is SpendingJudge:
                parts = {part: Family(watching(), Tally(RULES)) for part in PARTS}
                self.families += parts.values()
                judges.append(SpendingTrials(options, parts, enough))
            elif make is WindowJudge:
                self.families.append(Family(watched, Tally(WINDOW_RULES)))
                judges.append(WindowTrials(self.families[-1], enough))
            else:
                judges.append(make(watched))
                by_maker[make] = Family(watched, judges[-1].tally)
                self.families.append(by_maker[make])
        judge_history(history, judges, passed)
        _try_out(history, by_maker, enough())
        self.untried = {name for family in self.families for name in family.untried}
        """The assumptions of which not every option was tried, for want of time."""
        self.findings = [finding for family in self.families for finding in family.tally.findings()]
        broken = {finding.rule.name: finding for finding in self.findings if finding.broken}
        self.deviating: tuple[Finding, ...] = tuple(broken.values())
        self.differences: tuple[Difference, ...] = tuple(
            difference for family in self.families for difference in family.tally.differences
        )

    def broken_by(self, name: str, value: Any) -> Evidence | None:
        """Return what breaks when this option is taken for granted and does not when it is not."""
        broken = {finding.rule.name for finding in self.deviating}
        for family in self.families:
            rule, evidence = family.against.get((name, value), ("", None))
            if evidence is not None and rule not in broken:
                return evidence
        return None


def _try_out(history: History, families: Mapping[Maker, Family], enough: bool) -> None:
    """Try the options of families that look at a whole history, each time all that are to be tried."""
    todo = [(make, group) for make, family in families.items() for group in family.groups(enough)]
    while todo:
        judges = [make(families[make].options.pinning(group)) for make, group in todo]
        judge_history(history, judges)
        tried = zip(todo, judges, strict=True)
        todo = [(make, half) for (make, g), judge in tried for half in families[make].note(g, judge.tally)]


def choices_of(options: Options) -> Iterator[str]:
    """Return the assumptions that are choices and open."""
    for name, about in Assumptions.model_fields.items():
        if not options.pinned(name) and (
            about.annotation is bool or get_origin(about.annotation) is not None
        ):
            values = get_args(about.annotation)
            if about.annotation is bool or (values and all(isinstance(value, str) for value in values)):
                yield name
