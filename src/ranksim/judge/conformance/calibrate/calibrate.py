"""Calibrate: what a trace shows of the open choices of a deployment (U), by elimination.

An option is excluded when the judges find that a rule breaks with it and does not without, when a single
exchange rules it out (`exclusions`), or when no cooldown fits it (`cooldowns`). Each of these
is sound, so what is left is all that can be. Lengths and durations are measured beside, statuses read off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, get_args, get_origin

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.policy import Policy
from ranksim.core.records import Passed
from ranksim.judge.conformance.calibrate import policy_file
from ranksim.judge.conformance.calibrate.cooldowns import FIELDS as OF_COOLDOWNS
from ranksim.judge.conformance.calibrate.cooldowns import cooldowns
from ranksim.judge.conformance.calibrate.exclusions import Sign, signs
from ranksim.judge.conformance.calibrate.measures import measures
from ranksim.judge.conformance.calibrate.outcome import CalibrationOutcome, Choice
from ranksim.judge.conformance.calibrate.spending_trials import SpendingTrial, SpendingTrials
from ranksim.judge.conformance.calibrate.statuses import statuses
from ranksim.judge.conformance.calibrate.windows import phases, reset_signs
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import Source, read
from ranksim.judge.conformance.judging import FAMILIES, Maker, show
from ranksim.judge.conformance.spending.spending import PARTS, SpendingJudge, SpendingPart
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding, Tally, Verdict
from ranksim.report.progress import Tell, noted, part, shares


class Calibration(CalibrationOutcome):
    """What a trace pins, and the policy that follows from it."""

    __slots__ = ()

    def __repr__(self) -> str:
        pinned = sum(choice.pinned for choice in self.choices)
        return f"<Calibration: {pinned} of {len(self.choices)} choices pinned>"

    def _repr_html_(self) -> str:
        from ranksim.report.notebook import fragment
        from ranksim.report.tables import View

        rows = tuple(
            (
                ", ".join(f"U{number}" for number in choice.numbers),
                choice.name or choice.says,
                str(choice.left[0]),
                str(choice.default),
            )
            for choice in self.choices
            if choice.pinned
        )
        view = View("Pinned choices", ("number", "choice", "found", "default"), 4, rows)
        return fragment("Calibration", [f"{len(rows)} of {len(self.choices)} choices pinned"], [view])

    def policy(self) -> Policy:
        """The policy of this deployment, as far as it is pinned; the rest is as in the policy given."""
        return policy_file.policy_of(self)

    def dump(self) -> str:
        """That policy as YAML which states what is pinned, defaults too, each with what pins it."""
        return policy_file.dump(self)


READING, SPENDING = 0.2, 0.5
"""Up to which share of the time a trace is read, and options of spending are tried; then come the others."""


def calibrate(
    source: Source | History,
    policy: Policy | None = None,
    enough: Callable[[], bool] = lambda: False,
    progress: Tell | None = None,
) -> Calibration:
    """Find out what a trace (a path, its lines, one in memory, or read) tells about the open choices.

    What `policy` states is taken for granted. Once there was `enough`, no further option is tried: what was
    not stays open, and `untried` has its names. `progress` is told how far it is; without it a notebook shows
    it. Raises BadInput for a broken trace.
    """
    with noted("calibrating", progress) as tell:
        passed = shares(part(tell, 0.0, READING))
        history = source if isinstance(source, History) else read(source, passed=passed)
        return _calibrated(history, Options.of(policy), enough, tell)


def _calibrated(history: History, options: Options, enough: Callable[[], bool], tell: Tell) -> Calibration:
    opened = _opened(history, options)
    differences = tuple(difference for family in opened for difference in family.tally.differences)
    findings = [finding for family in opened for finding in family.tally.findings()]
    waits = cooldowns(history, options)
    against = _merged(signs(history, options), waits.against)
    deviating = {finding.rule.name: finding for finding in findings if finding.verdict == Verdict.DEVIATES}
    trying, passed = part(tell, SPENDING, 1.0), shares(part(tell, READING, SPENDING))
    untried = _try_spending(history, options, opened, against, enough, passed)
    choices: list[Choice] = []
    names = list(_choices(options))
    for number, name in enumerate(names):
        trying(number / len(names), "")
        if name == "reset_reports":
            against |= _merged(reset_signs(history, options, _windows(choices, options)), {})
        if not _try(name, history, options, opened, against.get(name, {}), enough):
            untried.add(name)
        choice = _choice(name, options, opened, against.get(name, {}))
        choices.append(replace(choice, shown=waits.refused or name not in OF_COOLDOWNS))
    return Calibration(
        choices=(*choices, *_scope(findings)),
        statuses=tuple(statuses(history, options)),
        measures=(
            *phases(history, options, _windows(choices, options)),
            *waits.measures,
            *measures(history, options),
        ),
        differences=differences,
        deviating=tuple(deviating.values()),
        untried=tuple(choice.name for choice in choices if choice.name in untried and not choice.pinned),
        history=history,
        base=options.policy,
    )


def _windows(choices: list[Choice], options: Options) -> tuple[Any, ...]:
    """The algorithms of rate windows that are left."""
    left = [choice.left for choice in choices if choice.name == "window"]
    return left[0] if left else options.candidates("window")


# Elimination


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

    @property
    def broken(self) -> frozenset[str]:
        """The rules that deviate with everything open."""
        return frozenset(
            finding.rule.name for finding in self.tally.findings() if finding.verdict == Verdict.DEVIATES
        )


def _opened(history: History, options: Options) -> list[Family]:
    def watched() -> Watched:
        return Watched(options.policy, options.assumptions, options.statuses)

    parts = [(part, watched()) for part in PARTS]
    trials = [SpendingTrial(part, about) for part, about in parts]
    spending = SpendingTrials(options, trials, lambda: False)
    others = [(make, watched()) for make in FAMILIES if make is not SpendingJudge]
    judges = [make(about) for make, about in others]
    show(history, [*judges, spending])
    families = {
        make: [Family(make, judge.tally, frozenset(about.consulted))]
        for (make, about), judge in zip(others, judges, strict=True)
    }
    families[SpendingJudge] = [
        Family(SpendingJudge, trial.tally, frozenset(about.consulted), part)
        for (part, about), trial in zip(parts, trials, strict=True)
    ]
    return [family for make in FAMILIES for family in families[make]]


def _try_spending(
    history: History,
    options: Options,
    families: list[Family],
    excluded: Mapping[str, Mapping[Any, Evidence]],
    enough: Callable[[], bool],
    passed: Passed,
) -> set[str]:
    """Try each option that a part of the rules of spending asks about; return the names of those cut off."""
    trials, names = [], set()
    for family in families:
        if family.part is None:
            continue
        for name in [name for name in _choices(options) if name in family.consulted]:
            for value in options.candidates(name):
                if value not in excluded.get(name, {}):
                    trials.append(SpendingTrial(family.part, _pinning(name, value, options)))
                    family.trials[name, value] = trials[-1].tally
                    names.add(name)
    judge = SpendingTrials(options, trials, enough)
    show(history, [judge], passed)
    return names if judge.cut else set()


def _try(
    name: str,
    history: History,
    options: Options,
    families: list[Family],
    excluded: Mapping[Any, Evidence],
    enough: Callable[[], bool],
) -> bool:
    """Try each option of an assumption that another family asks about; return whether there was time to."""
    asking = [family for family in families if family.part is None and name in family.consulted]
    values = [value for value in options.candidates(name) if value not in excluded]
    if not asking or not values:
        return True
    if enough():
        return False
    tried = [
        (family, value, family.make(_pinning(name, value, options))) for family in asking for value in values
    ]
    show(history, [judge for _, _, judge in tried])
    for family, value, judge in tried:
        family.trials[name, value] = judge.tally
    return True


def _pinning(name: str, value: Any, options: Options) -> Options:
    """Return the options with one more taken for granted; nothing else becomes stated."""
    assumptions = options.policy.replace(assumptions={name: value}).assumptions
    policy = options.policy.model_copy(update={"assumptions": assumptions})
    return Options(policy, options.assumptions | {name}, options.statuses)


def _merged(
    signs: Iterable[Sign], more: Mapping[str, Mapping[Any, Evidence]]
) -> dict[str, dict[Any, Evidence]]:
    merged = {name: dict(against) for name, against in more.items()}
    for name, value, evidence in signs:
        merged.setdefault(name, {}).setdefault(value, evidence)
    return merged


def _choices(options: Options) -> Iterator[str]:
    """Return the assumptions that are choices and open."""
    for name, about in Assumptions.model_fields.items():
        if not options.pinned(name) and (
            about.annotation is bool or get_origin(about.annotation) is not None
        ):
            values = get_args(about.annotation)
            if about.annotation is bool or (values and all(isinstance(value, str) for value in values)):
                yield name


def numbers_of(description: str | None) -> tuple[int, ...]:
    """Read the U numbers at the head of a field's description, such as "U56, U89: a dry run"."""
    head = (description or "").partition(":")[0]
    return tuple(int(number) for number in re.findall(r"U(\d+)", head))


def _choice(name: str, options: Options, families: list[Family], excluded: Mapping[Any, Evidence]) -> Choice:
    about = Assumptions.model_fields[name]
    numbers = numbers_of(about.description)
    candidates = options.candidates(name)
    against = {value: evidence for value, evidence in excluded.items() if value in candidates}
    asking = [family for family in families if name in family.consulted]
    broken = {rule for family in families for rule in family.broken}
    for value in candidates:
        evidence = against.get(value) or _excluded(name, value, asking, broken)
        if evidence is not None:
            against[value] = evidence
    for difference in chain.from_iterable(family.tally.differences for family in families):
        if difference.number in numbers and _says_so(difference, name, candidates):
            against.setdefault(candidates[0], difference.evidence)
    left = tuple(value for value in candidates if value not in against)
    says = (about.description or "").partition(": ")[2]
    return Choice(name, numbers, says, candidates[0], left or candidates, against if left else {})


def _says_so(difference: Difference, name: str, candidates: tuple[Any, ...]) -> bool:
    """Whether a difference excludes the default of this very assumption: it names it, or another option."""
    if ": " in difference.assumed:
        return difference.assumed.partition(": ")[0] == name
    return difference.assumed == str(candidates[0]) and difference.found in map(str, candidates[1:])


def _excluded(name: str, value: Any, asking: list[Family], broken: Collection[str]) -> Evidence | None:
    """What breaks when this option is taken for granted and does not when it is not."""
    for family in asking:
        tally = family.trials.get((name, value))
        for finding in () if tally is None else tally.findings():
            if finding.verdict == Verdict.DEVIATES and finding.rule.name not in broken:
                return finding.evidence[0]
    return None


def _scope(findings: list[Finding]) -> Iterator[Choice]:
    """Choose whether rate windows are per key (S102), which the text states and no field sets."""
    for finding in findings:
        if finding.rule.name != "rate.per_key" or finding.verdict not in (Verdict.CONFORMS, Verdict.DEVIATES):
            continue
        kept, excluded = ("key", "account") if finding.verdict == Verdict.CONFORMS else ("account", "key")
        why = (
            finding.evidence[0] if finding.evidence else Evidence("the keys of an account used more together")
        )
        yield Choice("", (1,), "whose calls one rate window counts", "key", (kept,), {excluded: why})
