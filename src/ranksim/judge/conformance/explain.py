"""What the ids in reports mean: facts (S), assumptions (U), edge cases (E), rules, families and error codes.

The sentences ship with the package (`data/specification.yaml`); where something is decided is read from the
sources, whose docstrings and comments name the numbers, so it cannot be out of date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from ranksim.core.contract.facts import CHECK_NAMES, CHECK_OF
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import assumption, register
from ranksim.core.contract.yamlfile import load_yaml
from ranksim.core.errors import BadInput
from ranksim.core.service.errors import TEXTS, status_of
from ranksim.judge.conformance.compare import RULE_NAMED, RULES
from ranksim.judge.conformance.judging import FAMILIES
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Rule
from ranksim.judge.conformance.ways import Departure, ways

DECIDING = ("core/rules", "core/service", "core/contract", "core/clock.py", "twin/facade", "twin/receiver")
"""The parts of the package whose sources say what they decide by naming its number."""

LISTS_ALL = ("register", "assumptions.py")
"""Files of `contract` that list every number and decide nothing."""

SHOWN = 8
"""Places shown of those where something is decided."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One id explained: its text, labelled lines about it, the rules that judge it, where it is decided.

    `ways` are those to do otherwise, each with the case that shows it, or with why none can.
    """

    name: str
    kind: str
    says: str
    lines: tuple[tuple[str, str], ...] = ()
    rules: tuple[Rule, ...] = ()
    decided: tuple[str, ...] = ()
    ways: tuple[Departure, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "kind": self.kind,
            "says": self.says,
            **dict(self.lines),
            "rules": [{"name": rule.name, "says": rule.says} for rule in self.rules],
            "ways": [{"says": way.says, "shown": _where_seen(way)} for way in self.ways],
            "decided": list(self.decided),
        }

    def text(self) -> str:
        """Return it as text for a terminal or a pipe; long lines are not broken."""
        lines = [f"{self.name}  {self.says}"]
        lines += [f"  {label}: {text}" for label, text in self.lines if text]
        if self.rules:
            lines.append("  judged by:")
            lines += [f"    {rule.name}  {rule.says}" for rule in self.rules]
        elif not self.ways and self.kind in ("fact", "assumption", "edge case"):
            lines.append("  judged by: no rule of its own")
        if self.ways:
            lines.append("  cases:")
            lines += ["    " + ": ".join(filter(None, (way.says, _where_seen(way)))) for way in self.ways]
        if self.decided:
            lines.append("  decided in:")
            lines += [f"    {place}" for place in self.decided]
        return "\n".join(lines) + "\n"


def _where_seen(way: Departure) -> str:
    """Return the rule and the case that show a way to do otherwise, or why nothing does."""
    if not way.rule:
        return f"not seen: {way.why}"
    unsaid = way.case in (ANY, way.of) and way.of not in TEXTS
    return way.rule if unsaid else f"{way.rule}, {way.case}"


def explain(name: str) -> Explanation:
    """Return what an id means: S105, U34, E12, rate.headers, rate, quota_exhausted; letters of any case.

    So is the name of an assumption's setting in a policy: `window` is U1.

    Raises BadInput for an unknown one, with names that are near it.
    """
    wanted = name.strip()
    number = re.fullmatch(r"([SUE])([0-9]{1,3})", wanted.upper())
    if number is not None and wanted.upper() in names():
        return _NUMBERED[number[1]](int(number[2]))
    lowered = wanted.lower()
    if lowered in TEXTS:
        return _code(lowered)
    if lowered in RULE_NAMED:
        return _rule(lowered)
    if any(rule.name.startswith(f"{lowered}.") for rule in RULES):
        return _family(lowered)
    if lowered in _settings():
        return _assumption(_settings()[lowered])
    by_lower = {identifier.lower(): identifier for identifier in (*names(), *_settings())}
    near = get_close_matches(lowered, by_lower, n=4, cutoff=0.5)
    hint = f"; near it are {', '.join(by_lower[lower] for lower in near)}" if near else ""
    raise BadInput(
        f"explain: {name!r} names nothing{hint}; expected a fact (S1 to S{len(_texts('facts'))}), "
        f"an assumption (U1 to U{len(register())}), an edge case (E1 to E{len(_texts('edge_cases'))}), "
        "a rule, a family of rules or an error code"
    )


@cache
def names() -> tuple[str, ...]:
    """Return every id that can be explained."""
    families = dict.fromkeys(rule.name.partition(".")[0] for rule in RULES)
    return (
        *(f"S{number}" for number in _texts("facts")),
        *(f"U{entry.number}" for entry in register()),
        *(f"E{number}" for number in _texts("edge_cases")),
        *families,
        *(rule.name for rule in RULES),
        *TEXTS,
    )


@cache
def _settings() -> Mapping[str, int]:
    """Return the number of the first assumption that a setting of a policy is of."""
    fields = [(name.rpartition(".")[2], entry.number) for entry in register() for name in entry.fields]
    return dict(reversed(fields))


# The kinds


def _fact(number: int) -> Explanation:
    judging = tuple(rule for rule in RULES if number in rule.facts)
    return _numbered(f"S{number}", "fact", _texts("facts")[number], judging)


def _assumption(number: int) -> Explanation:
    entry = assumption(number)
    lines = (
        ("assumed", entry.default),
        ("options", ", ".join(entry.options)),
        ("because", entry.reason),
        ("confidence", entry.confidence),
        ("observe", entry.observe),
        ("set by", ", ".join(entry.fields)),
    )
    judging = tuple(rule for rule in RULES if number in rule.assumptions)
    return _numbered(f"U{number}", "assumption", entry.statement, judging, lines)


def _numbered(
    name: str, kind: str, says: str, judging: tuple[Rule, ...], lines: tuple[tuple[str, str], ...] = ()
) -> Explanation:
    otherwise = tuple(way for way in ways() if way.of == name)
    return Explanation(name, kind, says, lines, judging, _decided(name, judging), otherwise)


def _edge_case(number: int) -> Explanation:
    name, says = f"E{number}", _texts("edge_cases")[number]
    judged = [text.partition(", ") for text in _specification()["judged"].get(name, ())]
    judging = tuple(dict.fromkeys(RULE_NAMED[rule] for rule, _, _ in judged))
    cases = [(rule, case or "; ".join(RULE_NAMED[rule].cases)) for rule, _, case in judged]
    ways_of_it = tuple(Departure(name, "", rule, case) for rule, case in cases if case)
    return Explanation(name, "edge case", says, (), judging, _decided(name), ways_of_it)


_NUMBERED = {"S": _fact, "U": _assumption, "E": _edge_case}


def _rule(name: str) -> Explanation:
    rule = RULE_NAMED[name]
    lines = (
        ("facts", "; ".join(f"S{number} {_texts('facts')[number]}" for number in rule.facts)),
        ("leans on", "; ".join(f"U{number} {assumption(number).statement}" for number in rule.assumptions)),
        ("cases", ", ".join(rule.cases)),
        ("exercised by", rule.exercise),
    )
    return Explanation(name, "rule", rule.says, lines, (), (judges()[name],))


def _family(name: str) -> Explanation:
    members = tuple(rule for rule in RULES if rule.name.startswith(f"{name}."))
    places = tuple(dict.fromkeys(judges()[rule.name] for rule in members))
    return Explanation(name, "family", f"{len(members)} rules", (), members, places)


def _code(code: str) -> Explanation:
    title, remedy = TEXTS[code]
    about = _specification()["codes"][code]
    check = CHECK_OF.get("quota_exhausted" if code == "allowance_exhausted" else code)
    lines = (
        ("status", str(status_of(Policy(), code)) + _stated_status(code)),
        ("check", f"{check} of 6, {CHECK_NAMES[check - 1]}" if check else "none of the six"),
        ("meta", ", ".join(about.get("meta", ())) or "empty"),
        ("title", title),
        ("remedy", remedy),
    )
    judging = tuple(rule for rule in RULES if not set(about.get("facts", ())).isdisjoint(rule.facts))
    cases = tuple(Departure(code, rule.says, rule.name, code) for rule in RULES if code in rule.cases)
    return Explanation(code, "error code", about["when"], lines, judging, _decided(code), cases)


def _stated_status(code: str) -> str:
    described = type(Policy().statuses).model_fields.get(code)
    number = re.match(r"U[0-9]+", described.description or "") if described is not None else None
    return f" (assumed, {number[0]})" if number is not None else " (stated)"


# The texts


@cache
def _specification() -> Mapping[str, Any]:
    source = files("ranksim").joinpath("data", "specification.yaml")
    specification: dict[str, Any] = load_yaml(source.read_text(encoding="utf-8"), "specification.yaml").data
    return specification


@cache
def _texts(kind: str) -> Mapping[int, str]:
    return {int(number): text for number, text in _specification()[kind].items()}


def fact_text(number: int) -> str:
    """Return what a fact says. Raises KeyError when there is none of that number."""
    return _texts("facts")[number]


# Where it is decided


@cache
def judges() -> Mapping[str, str]:
    """Return the class that judges each rule, by the rule's name."""
    places = {}
    for make in FAMILIES:
        judge = make(Options.of())
        for rule in judge.tally.rules:
            places[rule.name] = f"{type(judge).__module__}.{type(judge).__qualname__}"
    return places


def _decided(name: str, judging: tuple[Rule, ...] = ()) -> tuple[str, ...]:
    """Return where something is decided; of what no source names, where it is judged."""
    named = tuple(dict.fromkeys(_places().get(name, ())))
    listed = tuple(f"ranksim.{place}" for place in _specification()["where"].get(name, ()))
    judged = tuple(dict.fromkeys(judges()[rule.name] for rule in judging))
    return (named or listed or judged)[:SHOWN]


_NUMBER = re.compile(r"\b([SUE])([0-9]{1,3})\b(?:\s*(?:to|-|–)\s*\1([0-9]{1,3})\b)?")
_CODE = re.compile(f'"({"|".join(TEXTS)})"|Decision\\.({"|".join(CHECK_OF).upper()})')


@cache
def _places() -> Mapping[str, tuple[str, ...]]:
    """Return, for each number and code, the functions and classes whose sources name it."""
    places_of: dict[str, list[str]] = {}
    root = files("ranksim")
    for part in DECIDING:
        name = "ranksim." + part.removesuffix(".py").replace("/", ".")
        for module, source in sorted(_sources(root.joinpath(part), name)):
            text = source.read_text(encoding="utf-8")
            owners = _owners(ast.parse(text))
            for line_number, line in enumerate(text.splitlines(), 1):
                for name in _named(
                    line, codes=part in ("core/rules", "core/service") and "service.errors" not in module
                ):
                    inside = [owner for first, last, owner in owners if first <= line_number <= last]
                    places_of.setdefault(name, []).append(".".join([module, *inside[-1:]]))
    return {name: tuple(places) for name, places in places_of.items()}


def _named(line: str, *, codes: bool) -> Iterator[str]:
    for letter, first, last in _NUMBER.findall(line):
        for number in range(int(first), int(last or first) + 1):
            yield f"{letter}{number}"
    if codes:
        for quoted, decision in _CODE.findall(line):
            yield quoted or decision.lower()


def _owners(tree: ast.Module) -> list[tuple[int, int, str]]:
    """Return the functions and classes of a module: first and last line, dotted name, inner after outer."""
    owners = []
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    while todo:
        node, outer = todo.pop(0)
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}.{inner.name}".lstrip(".")
                first = min([inner.lineno, *(mark.lineno for mark in inner.decorator_list)])
                owners.append((first, inner.end_lineno or inner.lineno, name))
                todo.append((inner, name))
            else:
                todo.append((inner, outer))
    return owners


def _sources(place: Traversable, module: str) -> Iterator[tuple[str, Traversable]]:
    if place.is_dir():
        for inner in place.iterdir():
            if inner.is_dir() or (inner.name.endswith(".py") and not inner.name.startswith(LISTS_ALL)):
                name = inner.name.removesuffix(".py")
                yield from _sources(inner, module if name == "__init__" else f"{module}.{name}")
    elif place.name.endswith(".py"):
        yield module, place
