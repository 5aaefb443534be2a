"""Calibrate: what a trace shows of the open choices of a deployment (U), by elimination.

An option is excluded when the judges find that a rule breaks with it and does not without (`trials`), when a
single exchange rules it out (`exclusions`), or when no cooldown fits it (`cooldowns`). Each of these
is sound, so what is left is all that can be. Lengths and durations are measured beside, statuses read off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.policy import Policy
from ranksim.judge.conformance.calibrate import policy_file
from ranksim.judge.conformance.calibrate.cooldowns import FIELDS as OF_COOLDOWNS
from ranksim.judge.conformance.calibrate.cooldowns import fit_cooldowns
from ranksim.judge.conformance.calibrate.exclusions import Sign, reset_signs, signs
from ranksim.judge.conformance.calibrate.measures import measures, phases, statuses
from ranksim.judge.conformance.calibrate.outcome import CalibrationOutcome, Choice
from ranksim.judge.conformance.calibrate.trials import Trials, choices_of
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import Source, read_history
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding, Verdict
from ranksim.report.progress import Tell, noted, part, shares


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(CalibrationOutcome):
    """What a trace pins, and the policy that follows."""

    def __repr__(self) -> str:
        pinned = sum(choice.pinned for choice in self.choices)
        return f"<Calibration: {pinned} of {len(self.choices)} choices pinned>"

    def _repr_html_(self) -> str:
        from ranksim.report.tables import View, fragment

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
        return policy_file.calibrated_policy(self)

    def dump(self) -> str:
        """That policy as YAML which states what is pinned, defaults too, each with what pins it."""
        return policy_file.dump(self)


READING = 0.2
"""Up to which share of the time a trace is read; then options are tried."""


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
    (policy or Policy()).check_by_class()
    with noted("calibrating", progress) as tell:
        passed = shares(part(tell, 0.0, READING))
        history = source if isinstance(source, History) else read_history(source, passed=passed)
        return _calibrated(history, Options.of(policy), enough, tell)


def _calibrated(history: History, options: Options, enough: Callable[[], bool], tell: Tell) -> Calibration:
    waits = fit_cooldowns(history, options)
    against = _merged(signs(history, options), waits.against)
    trials = Trials(history, options, enough, against, shares(part(tell, READING, 1.0)))
    choices, windows = list[Choice](), options.candidates("window")
    for name in choices_of(options):
        if name == "reset_reports":
            against |= _merged(reset_signs(history, options, windows), {})
        choice = _choice(name, options, trials, against.get(name, {}))
        choices.append(replace(choice, shown=waits.refused or name not in OF_COOLDOWNS))
        windows = choice.left if name == "window" else windows
    untried = (choice.name for choice in choices if choice.name in trials.untried and not choice.pinned)
    return Calibration(
        choices=(*choices, *_scope(trials.findings)),
        statuses=tuple(statuses(history, options)),
        measures=(*phases(history, options, windows), *waits.measures, *measures(history, options)),
        differences=trials.differences,
        deviating=trials.deviating,
        untried=tuple(untried),
        history=history,
        base=options.policy,
    )


def _merged(
    signs: Iterable[Sign], more: Mapping[str, Mapping[Any, Evidence]]
) -> dict[str, dict[Any, Evidence]]:
    merged = {name: dict(against) for name, against in more.items()}
    for name, value, evidence in signs:
        merged.setdefault(name, {}).setdefault(value, evidence)
    return merged


def assumption_numbers(description: str | None) -> tuple[int, ...]:
    """Read the U numbers at the head of a field's description, such as "U56, U89: a dry run"."""
    head = (description or "").partition(":")[0]
    return tuple(int(number) for number in re.findall(r"U(\d+)", head))


def _choice(name: str, options: Options, trials: Trials, excluded: Mapping[Any, Evidence]) -> Choice:
    about, candidates = Assumptions.model_fields[name], options.candidates(name)
    numbers, says = assumption_numbers(about.description), (about.description or "").partition(": ")[2]
    against = {value: evidence for value, evidence in excluded.items() if value in candidates}
    for value in candidates:
        evidence = against.get(value) or trials.broken_by(name, value)
        if evidence is not None:
            against[value] = evidence
    for difference in trials.differences:
        if difference.number in numbers and _says_so(difference, name, candidates):
            against.setdefault(candidates[0], difference.evidence)
    left = tuple(value for value in candidates if value not in against)
    return Choice(name, numbers, says, candidates[0], left or candidates, against if left else {})


def _says_so(difference: Difference, name: str, candidates: tuple[Any, ...]) -> bool:
    """Whether a difference excludes the default of this very assumption: it names it, or another option."""
    if ": " in difference.assumed:
        return difference.assumed.partition(": ")[0] == name
    return difference.assumed == str(candidates[0]) and difference.found in map(str, candidates[1:])


def _scope(findings: Iterable[Finding]) -> Iterator[Choice]:
    """Choose whether rate windows are per key (S102), which the text states and no field sets."""
    kept_by = {Verdict.CONFORMS: ("key", "account"), Verdict.DEVIATES: ("account", "key")}
    for finding in findings:
        if finding.rule.name == "rate.per_key" and finding.verdict in kept_by:
            kept, excluded = kept_by[finding.verdict]
            used_more = Evidence("the keys of an account used more together")
            why = finding.evidence[0] if finding.evidence else used_more
            yield Choice("", (1,), "whose calls one rate window counts", "key", (kept,), {excluded: why})
