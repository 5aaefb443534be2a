"""Calibrate: what a trace tells about the open choices of a deployment (U), by elimination.

An option is excluded when the judges find that a rule breaks with it and does not without, when a single
exchange rules it out (`calibrate_signs`), or when no cooldown fits it (`calibrate_cooldowns`). Each of these
is sound, so what is left is all that can be. Lengths and durations are measured beside, statuses read off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from ranksim.conformance.calibrate import policy_file
from ranksim.conformance.calibrate.cooldowns import cooldowns
from ranksim.conformance.calibrate.exclusions import Sign, signs
from ranksim.conformance.calibrate.found import Choice, Found
from ranksim.conformance.calibrate.measures import measures
from ranksim.conformance.calibrate.statuses import statuses
from ranksim.conformance.calibrate.windows import phases, reset_signs
from ranksim.conformance.history.history import History
from ranksim.conformance.history.trace_reader import Source, read
from ranksim.conformance.judging import FAMILIES, Maker, judged, show
from ranksim.conformance.verdict.options import Options
from ranksim.conformance.verdict.verdicts import Difference, Evidence, Finding, Tally, Verdict
from ranksim.contract.assumptions import Assumptions
from ranksim.contract.policy import Policy


class Calibration(Found):
    """What a trace pins, and the policy that follows from it."""

    __slots__ = ()

    def __repr__(self) -> str:
        pinned = sum(choice.pinned for choice in self.choices)
        return f"<Calibration: {pinned} of {len(self.choices)} choices pinned>"

    def policy(self) -> Policy:
        """The policy of this deployment, as far as it is pinned; the rest is as in the policy given."""
        return policy_file.policy_of(self)

    def dump(self) -> str:
        """That policy as YAML which states what is pinned, defaults too, each with what pins it."""
        return policy_file.dump(self)


def calibrate(source: Source, policy: Policy | None = None) -> Calibration:
    """Find out what a trace (a path, its lines, or one in memory) tells about the open choices.

    What `policy` states is taken for granted. Raises BadInput for a broken trace.
    """
    options = Options.of(policy)
    history = read(source)
    opened = _opened(history, options)
    differences = tuple(one for family in opened for one in family.tally.differences)
    findings = [finding for family in opened for finding in family.tally.findings()]
    waits = cooldowns(history, options)
    against = _merged(signs(history, options), waits.against)
    choices: list[Choice] = []
    for name in _choices(options):
        if name == "reset_reports":
            against |= _merged(reset_signs(history, options, _windows(choices, options)), {})
        choices.append(_choice(name, history, options, opened, against.get(name, {})))
    return Calibration(
        choices=(*choices, *_scope(findings)),
        statuses=tuple(statuses(history, options)),
        measures=(
            *phases(history, options, _windows(choices, options)),
            *waits.measures,
            *measures(history, options),
        ),
        differences=differences,
        deviating=tuple(finding for finding in findings if finding.verdict == Verdict.DEVIATES),
        history=history,
        base=options.policy,
    )


def _windows(choices: list[Choice], options: Options) -> tuple[Any, ...]:
    """The algorithms of rate windows that are left."""
    found = [choice.left for choice in choices if choice.name == "window"]
    return found[0] if found else options.candidates("window")


# Elimination


@dataclass(frozen=True, slots=True)
class Watched(Options):
    """Options that remember which assumptions were asked about; the others make no difference."""

    asked: set[str] = field(default_factory=set)

    def default(self, name: str) -> Any:
        """The policy's value of an assumption."""
        self.asked.add(name)
        return getattr(self.policy.assumptions, name)

    def pinned(self, name: str) -> bool:
        """Return whether the policy states this assumption."""
        self.asked.add(name)
        return name in self.assumptions


@dataclass(frozen=True, slots=True)
class Family:
    """One family of rules judged with everything open, and the assumptions that its judge asked about."""

    make: Maker
    tally: Tally
    asked: frozenset[str]

    @property
    def broken(self) -> frozenset[str]:
        """The rules that deviate with everything open."""
        return frozenset(one.rule.name for one in self.tally.findings() if one.verdict == Verdict.DEVIATES)


def _opened(history: History, options: Options) -> list[Family]:
    watched = [Watched(options.policy, options.assumptions, options.statuses) for _ in FAMILIES]
    judges = [make(about) for make, about in zip(FAMILIES, watched, strict=True)]
    show(history, judges)
    return [
        Family(make, judge.tally, frozenset(about.asked))
        for make, judge, about in zip(FAMILIES, judges, watched, strict=True)
    ]


def _merged(
    found: Iterable[Sign], more: Mapping[str, Mapping[Any, Evidence]]
) -> dict[str, dict[Any, Evidence]]:
    merged = {name: dict(against) for name, against in more.items()}
    for name, value, evidence in found:
        merged.setdefault(name, {}).setdefault(value, evidence)
    return merged


def _choices(options: Options) -> Iterator[str]:
    """Return the assumptions that are choices and open."""
    for name, about in Assumptions.model_fields.items():
        if not options.pinned(name) and (
            about.annotation is bool or get_origin(about.annotation) is not None
        ):
            values = get_args(about.annotation)
            if about.annotation is bool or (values and all(isinstance(one, str) for one in values)):
                yield name


def numbers_of(description: str | None) -> tuple[int, ...]:
    """Read the U numbers at the head of a field's description, such as "U56, U89: a dry run"."""
    head = (description or "").partition(":")[0]
    return tuple(int(number) for number in re.findall(r"U(\d+)", head))


def _choice(
    name: str,
    history: History,
    options: Options,
    families: list[Family],
    known: Mapping[Any, Evidence],
) -> Choice:
    about = Assumptions.model_fields[name]
    numbers = numbers_of(about.description)
    candidates = options.candidates(name)
    against = {value: evidence for value, evidence in known.items() if value in candidates}
    asking = [family for family in families if name in family.asked]
    for value in candidates:
        evidence = against.get(value) or _excluded(name, value, asking, history, options)
        if evidence is not None:
            against[value] = evidence
    for difference in (one for family in families for one in family.tally.differences):
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


def _excluded(
    name: str, value: Any, asking: list[Family], history: History, options: Options
) -> Evidence | None:
    """What breaks when this option is taken for granted and does not when it is not."""
    assumptions = options.policy.replace(assumptions={name: value}).assumptions
    policy = options.policy.model_copy(update={"assumptions": assumptions})  # nothing else becomes stated
    pinned = Options(policy, options.assumptions | {name}, options.statuses)
    for family in asking:
        for finding in judged(family.make, history, pinned).findings():
            if finding.verdict == Verdict.DEVIATES and finding.rule.name not in family.broken:
                return finding.evidence[0]
    return None


def _scope(findings: list[Finding]) -> Iterator[Choice]:
    """Choose whether rate windows are per key (S102), which the text states and no field sets."""
    for finding in findings:
        if finding.rule.name != "rate.per_key" or finding.verdict not in (Verdict.CONFORMS, Verdict.DEVIATES):
            continue
        kept, gone = ("key", "account") if finding.verdict == Verdict.CONFORMS else ("account", "key")
        why = (
            finding.evidence[0] if finding.evidence else Evidence("the keys of an account used more together")
        )
        yield Choice("", (1,), "whose calls one rate window counts", "key", (kept,), {gone: why})
