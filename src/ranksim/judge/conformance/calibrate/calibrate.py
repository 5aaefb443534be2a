"""Calibrate: what a trace shows of the open choices of a deployment (U), by elimination.

An option is excluded when the judges find that a rule breaks with it and does not without (`trials`), when a
single exchange rules it out (`exclusions`), or when no cooldown fits it (`cooldowns`). Each of these
is sound, so what is left is all that can be. Lengths and durations are measured beside, statuses read off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.judge.conformance.calibrate import policy_file
from ranksim.judge.conformance.calibrate.cooldowns import FIELDS as OF_COOLDOWNS
from ranksim.judge.conformance.calibrate.cooldowns import fit_cooldowns
from ranksim.judge.conformance.calibrate.exclusions import Sign, reset_signs, signs
from ranksim.judge.conformance.calibrate.measures import Measure, Shown, measures, phases, statuses
from ranksim.judge.conformance.calibrate.outcome import CalibrationOutcome, Choice
from ranksim.judge.conformance.calibrate.trials import Trials, choices_of
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import Source, read_history
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Difference, Evidence, Finding, Verdict
from ranksim.report.answer import ReadyAnswer
from ranksim.report.document import MetricShown, number
from ranksim.report.progress import Tell, noted, part, shares
from ranksim.report.table_spec import Row, Tables, TableSpec
from ranksim.report.tables import View

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(CalibrationOutcome, ReadyAnswer):
    """What a trace pins, in the forms of every answer, and the policy that follows."""

    kind = "calibrate"
    TABLES = MappingProxyType(
        {
            "choices": TableSpec(title="Choices"),
            "statuses": TableSpec(),
            "measures": TableSpec(),
            "differences": TableSpec(columns=("assumption", "assumed", "found", "says")),
        }
    )

    about: str = "a trace"

    @property
    def sentence(self) -> str:
        """How much is pinned."""
        return f"{sum(choice.pinned for choice in self.choices)} of {len(self.choices)} choices pinned"

    @property
    def title(self) -> str:
        """The title of the page and of the document."""
        return f"What {self.about} tells of open choices"

    @property
    def tables(self) -> Tables:
        """Choices with what excludes options, statuses that were seen, measures, what differs."""
        return {
            "choices": [_choice_row(choice) for choice in self.choices],
            "statuses": [_status_row(observed) for observed in self.statuses],
            "measures": [_measure_row(measure) for measure in self.measures],
            "differences": [
                {
                    "assumption": f"U{difference.number}",
                    "assumed": difference.assumed,
                    "found": difference.found,
                    "says": difference.evidence.says,
                }
                for difference in self.differences
            ],
        }

    def views(self) -> list[View]:
        """What is pinned, and what is left of all else, with what would pin it."""
        pinned = tuple(
            (_numbers(choice), choice.name or choice.says, str(choice.left[0]), str(choice.default))
            for choice in self.choices
            if choice.pinned
        )
        still = tuple(
            (_numbers(choice), choice.name or choice.says, ", ".join(map(str, choice.left)), choice.observe)
            for choice in self.choices
            if not choice.pinned
        )
        views = (
            View("Pinned choices", ("number", "choice", "found", "default"), 4, pinned),
            View("Open choices", ("number", "choice", "left", "what would pin it"), 4, still, folded=True),
        )
        return [view for view in views if view.rows]

    @property
    def metrics(self) -> dict[str, MetricShown]:
        """How many choices there are, and how many are pinned."""
        counts = {"total": len(self.choices), "pinned": sum(choice.pinned for choice in self.choices)}
        return {f"choices.{name}": number("count", count) for name, count in counts.items()}

    def summary(self) -> str:
        """Return a few lines on how much was pinned."""
        pinned = [choice for choice in self.choices if choice.pinned]
        lines = [f"{self.sentence}{':' if pinned else ''}"]
        for choice in pinned:
            mark = "" if choice.left[0] == choice.default else f" (the default is {choice.default})"
            numbers = ", ".join(f"U{number}" for number in choice.numbers)
            lines.append(f"  {numbers:9} {choice.name or choice.says}: {choice.left[0]}{mark}")
        measured = f"{len(self.measures)} quantities measured"
        if self.measures:
            measured += ", with the exchanges that show them:"
        lines.append(f"{len(self.statuses)} statuses seen, {measured}")
        lines += [f"  {policy_file.measure_text(measure)}" for measure in self.measures]
        return "\n".join(lines)

    def _frame(self, name: str, rows: Sequence[Row], integers: bool) -> pd.DataFrame:
        """Return rows of a table as a frame; options, of which some are words, are text in all rows."""
        if name == "choices":
            rows = [
                row
                | {"default": str(row["default"]), "left": [*map(str, row["left"])]}
                | {"excluded": [out | {"value": str(out["value"])} for out in row["excluded"]]}
                for row in rows
            ]
        return super(Calibration, self)._frame(name, rows, integers)

    def fields(self) -> dict[str, Any]:
        """The rules that deviate whatever is assumed."""
        return {"deviating": [finding.rule.name for finding in self.deviating]}

    @property
    def plots(self) -> tuple[str, ...]:
        """The names of the plots; none where nothing is excluded."""
        return ("options",) if any(choice.against for choice in self.choices) else ()

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        """Draw how many options are left, and how many are excluded, of each choice that lost any."""
        from ranksim.report.figure import BLUE, GREY, finish, new_figure

        ax = new_figure().subplots() if ax is None else ax
        choices = [choice for choice in self.choices if choice.against]
        left = [len(choice.left) for choice in choices]
        excluded = [len(choice.against) for choice in choices]
        ax.barh(range(len(choices)), left, color=BLUE, label="left")
        ax.barh(range(len(choices)), excluded, left=left, color=GREY, label="excluded")
        ax.set_yticks(range(len(choices)), [choice.name or "scope" for choice in choices])
        ax.invert_yaxis()
        ax.legend(frameon=False, fontsize=8)
        return finish(ax, self.sentence, "options", grid="x")

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
    policy: Policy | str | Path | None = None,
    enough: Callable[[], bool] = lambda: False,
    progress: Tell | None = None,
) -> Calibration:
    """Find out what a trace (a path, its lines, one in memory, or read) tells about the open choices.

    What `policy` (or its file) states is taken for granted. Once there was `enough`, no further option is
    tried: what was not stays open, and `untried` has its names. `progress` is told how far it is; without it
    a notebook shows it. Raises BadInput for a broken trace.
    """
    policy = policy_of(policy)
    policy.check_by_class()
    with noted("calibrating", progress) as tell:
        passed = shares(part(tell, 0.0, READING))
        history = source if isinstance(source, History) else read_history(source, passed=passed)
        outcome = _calibrated(history, Options.of(policy), enough, tell)
    return replace(outcome, about=str(source)) if isinstance(source, str | Path) else outcome


def _numbers(choice: Choice) -> str:
    return ", ".join(f"U{number}" for number in choice.numbers)


def _choice_row(choice: Choice) -> Row:
    excluded = [
        {
            "value": value,
            "says": evidence.says,
            "exchanges": list(evidence.exchanges),
            "deliveries": list(evidence.deliveries),
        }
        for value, evidence in choice.against.items()
    ]
    return {
        "name": choice.name,
        "assumptions": [f"U{number}" for number in choice.numbers],
        "says": choice.says,
        "default": choice.default,
        "left": list(choice.left),
        "pinned": choice.pinned,
        "excluded": excluded,
        "observe": choice.observe,
    }


def _status_row(observed: Shown) -> Row:
    return {
        "name": observed.name,
        "assumptions": observed.number.split(", "),
        "default": observed.default,
        "status": observed.status,
        "seen": {str(status): count for status, count in observed.seen.items()},
        "example": observed.example,
    }


def _measure_row(measure: Measure) -> Row:
    return {
        "name": measure.name,
        "account": measure.account,
        "assumption": f"U{measure.number}",
        "low": measure.low,
        "high": measure.high,
        "unit": measure.unit,
        "count": measure.count,
        "exchanges": list(measure.exchanges),
        "fit": None if measure.fit is None else measure.fit.model_dump(mode="json"),
    }


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
