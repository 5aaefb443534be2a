"""A judgement for a terminal: the verdicts, what proves each deviation, and what was not exercised."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import iso
from ranksim.judge.report.build_views import build_sentence, build_views
from ranksim.report import units
from ranksim.report.tables import View

if TYPE_CHECKING:
    from rich.console import RenderableType

Plain = Mapping[str, Any]

STYLES = {"conforms": "green", "deviates": "bold red", "undecided": "yellow", "not exercised": "dim"}
"""Verdict to its style on a terminal."""

MOST_EVIDENCE = 2
"""Pieces of evidence shown for a rule; all are in the JSON."""


def summary(judgement: Plain) -> list[RenderableType]:
    """Return what to print: the verdict, the run, evidence, differences, the table, what is missing."""
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(headline(judgement), style="bold red" if fails(judgement) else "bold green"),
        *(Text(line) for line in run_lines(judgement)),
    ]
    if judgement["builds"] is not None:
        parts += [Text(), Text(build_sentence(judgement["builds"]), style="bold")]
        parts += [part for view in build_views(judgement["builds"]) for part in (Text(), view)]
    rules = judgement["rules"]
    for rule in rules:
        if deviates(rule):
            parts += [Text(), *_deviation(rule, judgement)]
    differences = map(_difference, judgement["differences"])
    parts += _section("Assumptions that the trace excludes (they fail nothing)", differences)
    if judgement["model"] is not None:
        parts += [Text(), Text("Measured against the model", style="bold")]
        parts += [Text(model_sentence(judgement["model"])), Text(MODEL), Text()]
        parts.append(model_view(notable(judgement["model"]) if "check" in judgement else judgement["model"]))
    parts += _verdicts(rules)
    is_check = "check" in judgement  # which says itself what it did not decide, and what that waits for
    parts += _section("Undecided, and why", () if is_check else _undecided(rules))
    parts += _section("Required in all cases, and not exercised in", _required(judgement))
    return parts if is_check else parts + _section(UNTRIED, _not_exercised(rules))


UNTRIED = "Not exercised, by the profile that would"


def _section(title: str, lines: Iterable[str]) -> list[RenderableType]:
    """Return lines below a title; nothing where there are none."""
    from rich.text import Text

    parts = [_indented(line) for line in lines]
    return [Text(), Text(title, style="bold"), *parts] if parts else []


def _indented(line: str, by: int = 2) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(line, overflow="fold"), (0, 0, 0, by))


MODEL = (
    "Intervals are 95 %. A row is within if the whole difference lies within the margin, and left if none of "
    "it does; a measured share without an interval, if it lies in the predicted one or beyond the margin."
)


def model_sentence(rows: Sequence[Plain]) -> str:
    """Return what of a deployment left the prediction of a model, and how much else was compared."""
    left = dict.fromkeys(row["name"].partition(": ")[0] for row in rows if row["says"] == "left")
    within = sum(row["says"] == "within" for row in rows)
    unknown = sum(row["says"] not in ("within", "left") for row in rows)
    what = f"Left the prediction: {', '.join(left)}" if left else "Nothing left the prediction"
    return f"{what}; {within} within, {unknown} open or not known"


def notable(rows: Sequence[Plain]) -> list[Plain]:
    """Return the rows that left, and those of all kinds of calls together."""
    return [row for row in rows if row["says"] == "left" or not DETAIL.search(row["name"])]


DETAIL = re.compile(": |^calls refused")
"""What the names of rows have that are of one kind of call."""


def model_view(rows: Sequence[Plain]) -> View:
    """Return what was measured beside what was predicted, ready to show."""
    cells = tuple(
        (
            row["name"],
            _with_interval(row, "measured"),
            _with_interval(row, "predicted"),
            "–"
            if row["margin"] is None
            else f"± {units.write(units.difference_of(row['quantity']), row['margin'])}",
            row["says"],
        )
        for row in rows
    )
    return View("", ("what", "measured", "predicted", "margin", "verdict"), 5, cells)


def _with_interval(row: Plain, side: str) -> str:
    return units.write(row["quantity"], row[side], row[f"{side}_low"], row[f"{side}_high"])


def fails(judgement: Plain) -> bool:
    """Return whether a rule deviates, or a required one does not conform."""
    return bool(judgement["missing"]) or any(rule["verdict"] == "deviates" for rule in judgement["rules"])


def deviates(rule: Plain) -> bool:
    """Return whether a rule deviates, and not only because another one does."""
    return rule["verdict"] == "deviates" and not rule["follows"]


def consequences(rule: Plain, judgement: Plain) -> list[Plain]:
    """Return the rules that deviate only because this one does."""
    return [other for other in judgement["rules"] if other["follows"] == rule["name"]]


def headline(judgement: Plain, *, names: bool = True) -> str:
    """Return the whole verdict in one sentence, with the names of the rules that fail or without.

    What only follows from a deviation is counted apart. Where nothing deviates, what did not happen is told,
    what matters most first.
    """
    deviating = [rule["name"] for rule in judgement["rules"] if deviates(rule)]
    follow = [rule["name"] for rule in judgement["rules"] if rule["follows"]]
    missing = [name for name in judgement["missing"] if name not in (*deviating, *follow)]
    failed = _failed(missing, judgement, names)
    if deviating:
        sentence = _deviating(deviating, len(follow), names)
        return f"{sentence}; {failed}" if missing else sentence
    if missing:
        return f"Nothing deviates, but {failed}"
    if all(rule["verdict"] == "not exercised" for rule in judgement["rules"]):
        return "Nothing was exercised, so nothing can be said"
    return "; ".join(["Nothing deviates", *_unseen(judgement["unseen"], MOST_UNSEEN if names else 1)])


def _deviating(rules: Sequence[str], follow: int, names: bool) -> str:
    """Say how many rules deviate, which, and how many more follow from them."""
    sentence = f"{units.many(len(rules), 'rule')} {'deviate' if len(rules) > 1 else 'deviates'}"
    sentence += f": {', '.join(rules)}" if names else ""
    if follow:
        sentence += f", from which {units.count(follow)} more {'follow' if follow > 1 else 'follows'}"
    return sentence


MOST_UNSEEN = 3
"""Kinds of things that did not happen, told in a headline; all of them stand below it."""


def _unseen(unseen: Sequence[Plain], most: int) -> list[str]:
    """Say what did not happen, and how many cases nothing could show for want of it."""
    sentences = [f"{row['what']}: {units.many(row['cases'], 'case')} not seen" for row in unseen[:most]]
    return (
        [*sentences, f"{units.count(len(unseen) - most)} more like it"] if len(unseen) > most else sentences
    )


def _failed(missing: Sequence[str], judgement: Plain, names: bool) -> str:
    """Say how many required rules do not conform, and how many do, but not in all the cases asked for."""
    conforming = {rule["name"] for rule in judgement["rules"] if rule["verdict"] == "conforms"}
    groups = (
        ("not conform", [name for name in missing if name not in conforming]),
        ("not conform in all cases", [name for name in missing if name in conforming]),
    )
    sentences: list[str] = []
    for what, group in groups:
        if group:
            count = units.count(len(group)) if sentences else units.many(len(group), "required rule")
            named = f": {', '.join(group)}" if names else ""
            sentences.append(f"{count} {'do' if len(group) > 1 else 'does'} {what}{named}")
    return ("; " if names else ", ").join(sentences)


def run_lines(judgement: Plain) -> list[str]:
    """Return the run in lines: what was recorded, how much of the rules it shows, and by which clock."""
    coverage, agreement = judgement["coverage"], judgement["agreement"]
    several = len(judgement["traces"]) > 1
    lines = [
        (f"{number}/  " if several else "") + _trace_line(recorded)
        for number, recorded in enumerate(judgement["traces"], 1)
    ]
    lines += [
        f"coverage: {coverage['exercised']} of {units.many(coverage['cases'], 'case')} exercised, and "
        f"{coverage['rules_decided']} of {units.many(coverage['rules'], 'rule')} decided; "
        f"agreement: {agreement['conforming']} of {agreement['decided']} exercised cases conform",
    ]
    if judgement["unseen"]:
        lines.append(f"did not happen: {'; '.join(_unseen(judgement['unseen'], len(judgement['unseen'])))}")
    if judgement["required"]:
        lines.append(f"required: {', '.join(judgement['required'])}")
    if judgement["policy"]:
        lines.append(f"what {judgement['policy']} states is taken for granted")
    lines.append(f"relied on: {'; '.join(judgement['relied_on'])}")
    return [*lines, *_clock(judgement)]


def _trace_line(recorded: Plain) -> str:
    """Return what one trace holds, in a line."""
    lost = f", {units.count(recorded['lost'])} without a reply" if recorded["lost"] else ""
    began, lasted = units.instant(recorded["started"]), recorded["ended"] - recorded["started"]
    return (
        f"{recorded['trace'] or 'trace'}: {units.many(recorded['exchanges'], 'exchange')}{lost}, "
        f"{units.many(recorded['deliveries'], 'webhook attempt')}, {units.duration(lasted)} from {began}"
    )


def _clock(judgement: Plain) -> list[str]:
    offset = judgement["clock_offset"]
    if offset is None:
        return []
    if offset["low"] > offset["high"]:
        return ["the deployment's Date headers contradict each other: several clocks, or one that drifts"]
    low, high = (units.duration(offset[side]) for side in ("low", "high"))
    return [f"the deployment's clock is {low} to {high} ahead of the recorder's"]


def verdict(rule: Plain) -> str:
    """Return the verdict on a rule in words: where it conforms in some of its cases, so."""
    cases, word = len(rule["cases"]), str(rule["verdict"])
    if word == "conforms" and rule["exercised"] < cases:
        return f"partly conforms: {rule['exercised']} of {cases} cases"
    return word


def cases_left(rule: Plain) -> str:
    """Return the names of the cases that nothing decided, which have commas; "" where there are none."""
    return "; ".join(case["name"] for case in rule["cases"] if not case["held"] and not case["broken"])


def _deviation(rule: Plain, judgement: Plain) -> list[RenderableType]:
    from rich.text import Text

    facts = ", ".join(f"S{number}" for number in rule["facts"])
    parts: list[RenderableType] = [
        Text.assemble((f"{rule['name']} deviates", STYLES["deviates"]), f"  {rule['says']} ({facts})"),
        _indented(times_broken(rule)),
    ]
    for piece in rule["evidence"][:MOST_EVIDENCE]:
        about = f"{piece['about']}: " if piece["about"] else ""
        parts.append(_indented(f"{about}{piece['says']}"))
        parts += [_indented(line, 4) for line in evidence_lines(piece, judgement["exhibits"])]
    parts += [_indented(line) for line in reproduction(rule)]
    for consequence in consequences(rule, judgement):
        parts.append(_indented(f"from it follows {consequence['name']}: {consequence['because']}"))
    return parts


def reproduction(rule: Plain) -> list[str]:
    """Return which script shows a deviation again, or why none does, where scripts were asked for."""
    return [f"to show it again: {rule['script']}"] if rule["script"] else []


def times_broken(rule: Plain) -> str:
    """Return how often a rule was broken and held."""
    return f"broken {units.many(rule['broken'], 'time')}, held {units.many(rule['held'], 'time')}"


def evidence_lines(piece: Plain, exhibits: Mapping[str, Plain]) -> list[str]:
    """Return what a piece expects, what was found, what it points at, and what excludes each reading."""
    lines = [f"{label}: {piece[label]}" for label in ("expected", "found") if piece[label]]
    for name in piece["exchanges"]:
        lines.append(f"{name}  {exhibit(exhibits[name])}" if name in exhibits else name)
    lines += [f"delivery {name}" for name in piece["deliveries"]]
    if piece["readings"]:
        excluded = (f"{row['reading']} by {' '.join(row['exchanges'])}" for row in piece["readings"])
        lines.append(f"no reading explains it; excluded are {'; '.join(excluded)}")
    return lines


def exhibit(exchange: Plain) -> str:
    """Return one exchange in a line: when, how long, who, what, and what came back."""
    took, answer = "no reply", "lost"
    if exchange["received"] is not None:
        took = units.duration(exchange["received"] - exchange["sent"])
        answer = f"{exchange['status']} {exchange['code']}".strip()
    request = f"{exchange['method']} {exchange['path']}"
    line = f"{iso(exchange['sent'])}  {took}  {exchange['key'] or 'no key'}  {request} → {answer}"
    request_id = _request_id(exchange)
    return f"{line}  {request_id}" if request_id else line


def _request_id(exchange: Plain) -> str:
    """Return the X-Request-Id of a reply, which is what its logs are searched for, or ""."""
    headers = exchange.get("response_headers") or {}
    return next((value for name, value in headers.items() if name.lower() == "x-request-id"), "")


def _difference(difference: Plain) -> str:
    evidence = difference["evidence"]
    by = ", ".join((*evidence["exchanges"], *evidence["deliveries"]))
    return (
        f"U{difference['number']} {difference['statement']}: assumed {difference['assumed']}, "
        f"found {difference['found']} ({evidence['says']}; {by})"
    )


def _verdicts(rules: Sequence[Plain]) -> list[RenderableType]:
    from rich.text import Text

    exercised = [rule for rule in rules if rule["verdict"] != "not exercised"]
    if not exercised:
        return []
    numbers = ("held", "broken", "open")
    rows = [
        (rule["name"], verdict(rule), *(units.count(rule[name]) if rule[name] else "–" for name in numbers))
        for rule in exercised
    ]
    table = View("Rules that were exercised", ("rule", "verdict", *numbers), 2, tuple(rows))
    return [Text(), table]


def why_undecided(rule: Plain) -> str:
    """Return why instances of a rule are open, and where it is undecided the profile that shows more."""
    would = f"; profile that would show more: {rule['exercise']}" if rule["verdict"] == "undecided" else ""
    return f"{rule['reasons'][0]['why']}{would}"


def _required(judgement: Plain) -> list[str]:
    """Return which cases of required rules were not exercised, where all were asked for."""
    missing = [rule for rule in judgement["rules"] if rule["name"] in judgement["missing"]]
    return [f"{rule['name']}: {cases_left(rule)}" for rule in missing if rule["verdict"] == "conforms"]


def _undecided(rules: Sequence[Plain]) -> list[str]:
    undecided = [rule for rule in rules if rule["verdict"] == "undecided" and rule["reasons"]]
    return [f"{rule['name']}: {why_undecided(rule)}" for rule in undecided]


def _not_exercised(rules: Sequence[Plain]) -> list[str]:
    wanting: dict[str, list[str]] = defaultdict(list)
    for rule in rules:
        if rule["verdict"] == "not exercised":
            wanting[rule["exercise"] or "–"].append(rule["name"])
    return [f"{profile}: {', '.join(names)}" for profile, names in wanting.items()]
