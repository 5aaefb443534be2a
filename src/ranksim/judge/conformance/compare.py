"""Compare a trace with the rulebook: a verdict for every rule.

A trace is read and packed, brought in order of sending, and shown once to the judges of all families
(`judging`). Headers and bodies are checked exchange by exchange while it is read, so that raw texts need not
be kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from ranksim.core.contract.facts import Facts
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput, near
from ranksim.core.trace import Exchange
from ranksim.judge.conformance.calls.schema_checks import SchemaJudge
from ranksim.judge.conformance.history.graphql import Json
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.history.trace_reader import Source, read_history
from ranksim.judge.conformance.joining import address_notes, join
from ranksim.judge.conformance.judging import FAMILIES, Maker, judge_history, shared_out
from ranksim.judge.conformance.rate.elimination import Excluded
from ranksim.judge.conformance.rate.table import TableJudge
from ranksim.judge.conformance.rate.windows import Owner, Window, WindowJudge
from ranksim.judge.conformance.verdict import verdicts
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Rule
from ranksim.judge.conformance.verdict.unseen import unseen_cases
from ranksim.judge.conformance.verdict.verdicts import (
    Difference,
    Finding,
    Tally,
    Verdict,
    merged_differences,
    merged_findings,
)
from ranksim.report.progress import Tell, nobody, noted, part, shares

RULES: Final[tuple[Rule, ...]] = tuple(rule for make in FAMILIES for rule in make(Options.of()).tally.rules)
"""Every rule that a trace can show to be broken."""

RULE_NAMED: Final = {rule.name: rule for rule in RULES}


@dataclass(frozen=True, slots=True, repr=False)
class Judgement:
    """What a trace shows: a finding for every rule, and the assumptions whose default it excludes.

    `exhibits` holds the exchanges that evidence points at, by id. `histories` are the traces in the order in
    which they were given. `facts` are the stated numbers that they were judged by.
    """

    findings: tuple[Finding, ...]
    differences: tuple[Difference, ...]
    exhibits: dict[str, Observation]
    histories: tuple[History, ...]
    facts: Facts = field(default_factory=Facts)

    @property
    def history(self) -> History:
        """The first trace, mostly the only one."""
        return self.histories[0]

    def __repr__(self) -> str:
        return f"<Judgement: {self._about}>"

    @property
    def _about(self) -> str:
        names = ", ".join(finding.rule.name for finding in self.deviating)
        exercised, cases = self.coverage
        return (
            f"{f'deviates: {names}' if names else 'nothing deviates'}; {exercised} of {cases} cases exercised"
        )

    @property
    def coverage(self) -> tuple[int, int]:
        """(cases exercised, cases in all)."""
        return verdicts.coverage(self.findings)

    @property
    def agreement(self) -> tuple[int, int]:
        """(cases that conform, cases decided)."""
        return verdicts.agreement(self.findings)

    @property
    def rules_decided(self) -> tuple[int, int]:
        """(rules that conform or deviate, rules in all)."""
        return verdicts.rules_decided(self.findings)

    @property
    def unseen(self) -> tuple[tuple[str, int], ...]:
        """What did not happen, and how many cases nothing could show for want of it; most important first."""
        cases = {
            (finding.rule.name, case.name): case.exercised
            for finding in self.findings
            for case in finding.cases
        }
        return tuple(unseen_cases(cases))

    def finding(self, rule: str) -> Finding:
        """The finding of one rule. Raises KeyError when there is no such rule."""
        for finding in self.findings:
            if finding.rule.name == rule:
                return finding
        raise KeyError(rule)

    @property
    def deviating(self) -> tuple[Finding, ...]:
        """The findings of rules that deviate."""
        return tuple(finding for finding in self.findings if finding.verdict == Verdict.DEVIATES)

    @property
    def unpromised(self) -> int:
        """How many refusals were found that no rule promises; of a window, one."""
        return sum(
            case.broken
            for finding in self.findings
            for case in finding.cases
            if re.fullmatch(finding.rule.refuses, case.name)
        )

    def about(self, rules: Collection[str]) -> Judgement:
        """The same, of some rules alone and of all that deviate."""
        deviating = self.deviating
        kept = (finding for finding in self.findings if finding.rule.name in rules or finding in deviating)
        return replace(self, findings=tuple(kept))

    def missing(self, required: Iterable[str]) -> tuple[Finding, ...]:
        """The findings of required rules that do not conform.

        `required` holds rule names, families ("rate"), S numbers ("S102") or "all"; with ":all" behind
        ("rate:all") a rule must conform in each of its cases. Raises BadInput for a name that no rule has.
        """
        wanted = check_required(required, [finding.rule for finding in self.findings])
        return tuple(
            finding
            for finding in self.findings
            if finding.rule.name in wanted
            and (
                finding.verdict != Verdict.CONFORMS
                or (wanted[finding.rule.name] and not finding.in_all_cases)
            )
        )


IN_ALL_CASES: Final = ":all"
"""Behind what is required: in every case."""


def check_required(required: Iterable[str], rules: Sequence[Rule] = RULES) -> dict[str, bool]:
    """Return the names of required rules, and whether in all cases; `required` is as in `Judgement.missing`.

    Raises BadInput.
    """
    wanted = dict[str, bool]()
    for name in required:
        bare = name.removesuffix(IN_ALL_CASES)
        for rule in rules_named("--require", bare, rules):
            wanted[rule] = wanted.get(rule, False) or bare != name
    return wanted


def rules_named(option: str, name: str, rules: Sequence[Rule] = RULES) -> list[str]:
    """Return the rules of a name: a rule, a family ("rate"), an S number ("S102") or "all".

    Raises BadInput where it names none, at the `option` that has it.
    """
    named = [rule.name for rule in rules if _is_named(rule, name)]
    if not named:
        families = dict.fromkeys(rule.name.partition(".")[0] for rule in rules)
        hint = near(name, [*families, *(rule.name for rule in rules)])
        raise BadInput(f"{option}: no rule is named {name!r}; `ranksim compare --rules` lists them{hint}")
    return named


def _is_named(rule: Rule, name: str) -> bool:
    if name == "all" or name == rule.name or name == rule.name.partition(".")[0]:
        return True
    return name[:1] == "S" and name[1:].isdigit() and int(name[1:]) in rule.facts


READING = 0.5
"""How much of the time reading takes; the rest is judging."""


def compare(source: Source, policy: Policy | None = None) -> Judgement:
    """Judge a trace (a path, its lines, or one in memory) rule by rule.

    What `policy` states is pinned; any other assumption stays open. Raises BadInput for a broken trace.
    """
    return compare_all([source], policy)


def compare_all(
    sources: Sequence[Source], policy: Policy | None = None, progress: Tell | None = None, workers: int = 1
) -> Judgement:
    """Judge several traces of one deployment jointly (`joining` says what is joined); ids are "2/x17" then.

    `progress` is told how far it is; without it a notebook shows it. `workers` processes share the families,
    and each reads the traces, which are paths then. Raises BadInput for a broken trace, for none, and for
    traces of different deployments.
    """
    if not sources:
        raise BadInput("compare: no trace was given; expected the file that `ranksim check load` wrote")
    with noted("judging", progress) as tell:
        if workers == 1:
            return _judgement(*_judged(sources, policy, FAMILIES, tell), policy)
        return _shared(sources, policy, tell, workers)


def _shared(sources: Sequence[Source], policy: Policy | None, tell: Tell, workers: int) -> Judgement:
    """Judge with as many processes, of which this is one."""
    from concurrent.futures.process import BrokenProcessPool  # read late: most judge in one process

    from ranksim.core.processes import DIED, Workers

    first, *rest = shared_out(workers)
    with Workers(len(rest)) as executor:
        tasks = [executor.submit(_tallies, sources, policy, families) for families in rest]
        histories, tallies = _judged(sources, policy, first, tell)
        try:
            for task in tasks:
                for counted, added in zip(tallies, task.result(), strict=True):
                    counted |= added
        except BrokenProcessPool:
            raise BadInput(DIED) from None
    return _judgement(histories, tallies, policy)


def _tallies(
    sources: Sequence[Source], policy: Policy | None, families: Sequence[Maker]
) -> list[dict[Maker, Tally]]:
    return _judged(sources, policy, families, nobody)[1]


def _judged(
    sources: Sequence[Source], policy: Policy | None, families: Sequence[Maker], tell: Tell
) -> tuple[list[History], list[dict[Maker, Tally]]]:
    """Return the traces, and what some families count in each."""
    options, several, each = Options.of(policy), len(sources) > 1, 1 / len(sources)
    reading, judging = part(tell, 0.0, READING), part(tell, READING, 1.0)
    schemas = [SchemaJudge(options) if SchemaJudge in families else None for _ in sources]
    by_table = options.policy.windows and WindowJudge in families
    tables = [TableJudge(options) if by_table else None for _ in sources]
    histories = list[History]()
    for number, (source, *raw) in enumerate(zip(sources, schemas, tables, strict=True)):
        passed = shares(part(reading, number * each, (number + 1) * each))
        judges_raw = [judge for judge in raw if judge is not None]
        watch = partial(_watch, judges_raw) if judges_raw else None
        histories.append(read_history(source, watch, f"{number + 1}/" if several else "", passed))
        address_notes([history.run.header for history in histories])
    if several:
        join(histories)
    tallies = list[dict[Maker, Tally]]()
    excluded: dict[Owner, dict[Window, Excluded]] = {}
    for number, (history, schema, table) in enumerate(zip(histories, schemas, tables, strict=True)):
        judges = {make: schema if make is SchemaJudge and schema else make(options) for make in families}
        if table is not None:
            judges[WindowJudge] = table
        windows = [judge for judge in judges.values() if isinstance(judge, WindowJudge)]
        for judge in windows:
            judge.earlier = excluded
        passed = shares(part(judging, number * each, (number + 1) * each))
        judge_history(history, list(judges.values()), passed)
        for judge in windows:
            excluded |= judge.excluded
        tallies.append({make: judge.tally for make, judge in judges.items()})
    return histories, tallies


def _watch(
    judges: Sequence[SchemaJudge | TableJudge], exchange: Exchange, seen: Observation, reply: Json
) -> None:
    for judge in judges:
        judge.see_raw(exchange, seen, reply)


def _judgement(
    histories: Sequence[History], tallies: Sequence[Mapping[Maker, Tally]], policy: Policy | None
) -> Judgement:
    """Return what all families count in all traces as one."""
    findings = [[row for make in FAMILIES for row in families[make].findings()] for families in tallies]
    merged = merged_findings(findings) if len(tallies) > 1 else tuple(findings[0])
    in_order = (SchemaJudge, *FAMILIES)  # what was seen in reading came first
    differences = merged_differences(families[make] for families in tallies for make in in_order)
    exhibits = _exhibits(merged, differences, histories)
    return Judgement(merged, differences, exhibits, tuple(histories), Options.of(policy).facts)


def _exhibits(
    findings: Sequence[Finding], differences: Sequence[Difference], histories: Sequence[History]
) -> dict[str, Observation]:
    """Return the exchanges that evidence points at, by id."""
    pieces = [piece for finding in findings for piece in finding.evidence]
    pieces += [difference.evidence for difference in differences]
    named = {name for piece in pieces for name in piece.named}
    return {seen.id: seen for history in histories for seen in history.named(named)}
