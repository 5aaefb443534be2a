"""Options tried: the judges look at a trace with each option of an assumption taken for granted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding, Tally


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


Pin: TypeAlias = tuple[str, Any]
"""An assumption, and an option of it that is taken for granted."""


@dataclass
class Family:
    """One family of rules: what it finds with everything open, and which options make it break.

    What judges spending is several families. `open` has the options of each assumption that nothing excludes
    so far; `against` what breaks under an option, and of which rule.
    """

    make: Maker
    options: Watched
    open: Mapping[str, Sequence[Any]]
    tally: Tally
    part: SpendingPart | None = None
    against: dict[Pin, tuple[str, Evidence]] = field(default_factory=dict)

    @property
    def pins(self) -> Iterator[list[Pin]]:
        """Yield the options to be tried of each assumption that its judge consulted, the default first."""
        for name, values in self.open.items():
            if name in self.options.consulted:
                yield [(name, value) for value in values if (name, value) not in self.against]

    def try_out(self, judge: Callable[[Options], Tally]) -> None:
        """Note which options break something, trying one of each assumption together.

        To take more for granted can only break more: where nothing breaks under several options, none of them
        is tried by itself.
        """
        todo = [[pin for pin in group if pin is not None] for group in zip_longest(*self.pins)]
        while todo:
            group = todo.pop()
            if not self._broke(group, judge(self.pinning(group))) or len(group) == 1:
                continue
            todo += [group[len(group) // 2 :], group[: len(group) // 2]]

    def _broke(self, group: Sequence[Pin], tally: Tally) -> bool:
        """Note what deviates under options and did not with everything open, if it is of one option."""
        broken = {finding.rule.name for finding in self.tally.findings() if finding.broken}
        for finding in tally.findings():
            if finding.broken and finding.rule.name not in broken:
                if len(group) == 1:
                    self.against[group[0]] = finding.rule.name, finding.evidence[0]
                return True
        return False

    def note(self, pin: Pin, tally: Tally) -> None:
        """Note what deviates under one option and did not with everything open."""
        self._broke([pin], tally)

    def pinning(self, group: Iterable[Pin]) -> Options:
        """Return the options with some taken for granted; nothing else becomes stated."""
        pins = dict(group)
        assumptions = self.options.policy.replace(assumptions=pins).assumptions
        policy = self.options.policy.model_copy(update={"assumptions": assumptions})
        return Options(policy, self.options.assumptions | pins.keys(), self.options.statuses)


@dataclass
class SpendingTrials(SpendingJudge):
    """Judges each account by each part with everything open, then under options: it is put together once.

    Once there was `enough` it tries no more, so that a trial may have found less than there is.
    """

    families: Sequence[Family] = ()
    enough: Callable[[], bool] = lambda: False
    cut: bool = False
    """Whether anything was left out."""

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge each account that was idle for a month; at the end, every one."""
        clock = BusinessClock(run)
        for activity in self.accounts.activity(watermark, run, self.options):
            for family in self.families:
                _audited(family, activity, clock, family.options)
            for family in self.families:
                self.cut = self.cut or self.enough()
                if not self.cut:
                    family.try_out(partial(_audited, family, activity, clock))


def _audited(family: Family, activity: AccountActivity, clock: BusinessClock, options: Options) -> Tally:
    """Return what one part finds of an account, under options."""
    assert family.part is not None
    tally = family.tally if options is family.options else Tally(RULES)
    family.part(AccountAudit(activity, clock, options, tally))
    return tally


@dataclass
class WindowTrials(WindowJudge):
    """Judges the windows of each account, then under options: what a reading explains is found out once."""

    family: Family | None = None
    enough: Callable[[], bool] = lambda: False
    cut: bool = False
    """Whether anything was left out."""

    def judge_account(self, owner: Owner, windows: AccountWindows) -> None:
        """Judge the windows of one account."""
        super().judge_account(owner, windows)
        self.cut = self.cut or self.enough()
        if self.family is not None and not self.cut:
            self.family.try_out(partial(_explained, windows))


def _explained(windows: AccountWindows, options: Options) -> Tally:
    """Return which windows no reading explains, without asking how near the limit was pinned."""
    tally = Tally(WINDOW_RULES)
    for rate_class in RateClass:
        for examined in windows.judge_scope(rate_class, options, tally, {}):
            if not examined.acting:
                tally.broke(BY_CLASS[rate_class], next(iter(examined.against.values())))
            elif len(examined.calls.stated) and not examined.surviving:
                tally.broke(REMAINING, examined.against[examined.acting[0]])
    return tally


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
        self.families = list[Family]()
        self._options = options
        self._open = {
            name: [value for value in options.candidates(name) if value not in excluded.get(name, {})]
            for name in choices_of(options)
        }
        spending, windows = SpendingTrials(options, enough=enough), WindowTrials(options, enough=enough)
        judge_history(history, list(self._judges(spending, windows)), passed)
        tried = [family for family in self.families if family.make not in (SpendingJudge, WindowJudge)]
        self.untried: set[str] = set()
        """The assumptions of which not every option was tried, for want of time."""
        late = enough()
        if not late:
            _try_each(history, tried)
        for family in self.families:
            cut = late if family in tried else windows.cut if family.part is None else spending.cut
            self.untried |= {pins[0][0] for pins in family.pins if pins and cut}
        self.findings = [finding for family in self.families for finding in family.tally.findings()]
        broken = {finding.rule.name: finding for finding in self.findings if finding.broken}
        self.deviating: tuple[Finding, ...] = tuple(broken.values())
        self.differences: tuple[Difference, ...] = tuple(
            difference for family in self.families for difference in family.tally.differences
        )

    def _judges(self, spending: SpendingTrials, windows: WindowTrials) -> Iterator[Judge]:
        """Yield the judge of each family, with everything open."""
        for make in FAMILIES:
            if make is SpendingJudge:
                spending.families = [self._family(make, Tally(RULES), part) for part in PARTS]
                yield spending
            elif make is WindowJudge:
                windows.family = self._family(make, windows.tally)
                windows.options = windows.family.options
                yield windows
            else:
                family = self._family(make, Tally(()))
                judge = make(family.options)
                family.tally = judge.tally
                yield judge

    def _family(self, make: Maker, tally: Tally, part: SpendingPart | None = None) -> Family:
        options = Watched(self._options.policy, self._options.assumptions, self._options.statuses)
        self.families.append(Family(make, options, self._open, tally, part))
        return self.families[-1]

    def broken_by(self, name: str, value: Any) -> Evidence | None:
        """Return what breaks when this option is taken for granted and does not when it is not."""
        broken = {finding.rule.name for finding in self.deviating}
        for family in self.families:
            rule, evidence = family.against.get((name, value), ("", None))
            if evidence is not None and rule not in broken:
                return evidence
        return None


def _try_each(history: History, families: Iterable[Family]) -> None:
    """Try each option by itself, all of them in one pass."""
    tried = [
        (family, pin, family.make(family.pinning([pin])))
        for family in families
        for pins in family.pins
        for pin in pins
    ]
    judge_history(history, [judge for _, _, judge in tried])
    for family, pin, judge in tried:
        family.note(pin, judge.tally)


def choices_of(options: Options) -> Iterator[str]:
    """Return the assumptions that are choices and open."""
    for name, about in Assumptions.model_fields.items():
        if not options.pinned(name) and (
            about.annotation is bool or get_origin(about.annotation) is not None
        ):
            values = get_args(about.annotation)
            if about.annotation is bool or (values and all(isinstance(value, str) for value in values)):
                yield name
