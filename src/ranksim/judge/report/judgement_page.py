"""A judgement as one self-contained HTML page, readable by someone who did not run it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

from ranksim.core.clock import iso
from ranksim.judge.report.build_views import build_sentence, build_views
from ranksim.judge.report.judgement import (
    MODEL,
    cases_left,
    consequences,
    deviates,
    exhibit,
    fails,
    headline,
    model_sentence,
    model_view,
    reproduction,
    run_lines,
    times_broken,
    verdict,
    why_undecided,
)
from ranksim.judge.report.judgement_figures import FIGURES, staircase, timeline
from ranksim.judge.report.run_summary import (
    by_reason,
    check_of,
    decided_line,
    left_lines,
    overspent,
    why_open,
)
from ranksim.report import units
from ranksim.report.mentions import foldable, linked, on_validity, with_links
from ranksim.report.page import cell, figure, html_document, plots

Plain = Mapping[str, Any]

OWN_STYLE = """
@media (min-width: 40rem) {
  td.name wbr { display: none; } }
@media (min-width: 72rem) {
  tr.verdict td:nth-child(2) { white-space: nowrap; } }
@media (max-width: 40rem) {
  table:has(tr.verdict) tr:has(> th:nth-child(2)) { display: none; }
  tr.verdict { display: grid; grid-template-columns: 1fr 1fr 1fr; border-bottom: 1px solid var(--line); }
  tr.verdict td { border: 0; }
  tr.verdict td:first-child { grid-column: span 2; font-weight: 600; }
  tr.verdict td:last-child { grid-column: 1 / -1; order: 1; }
  tr.verdict td.number { order: 2; text-align: left; color: var(--soft); }
  tr.verdict td.number::after { content: " " attr(title); } }
"""
"""Names of rules; a verdict on a narrow screen: its rule and verdict, what it says, and its counts below."""

CLASSES = {"conforms": "good", "deviates": "bad", "undecided": "soft", "not exercised": "soft"}

MOST_ANSWERS = 40

EXPLAINED = (
    "A rule deviates only if no placement of the calls between sending and reply explains what was seen: "
    "on a conforming deployment nothing deviates, however many calls overlap. Undecided rules were "
    "exercised, but what was seen leaves both answers open, as each of them says."
)


def page(judgement: Plain, images: Mapping[str, str] | None = None) -> str:
    """Return the page as text; plots are left out where matplotlib is not installed.

    `images` are the plots of the load as SVG, by name, where they are drawn already.
    """
    title, check = headline(judgement, names=False), check_of(judgement)
    about = [*([] if check is None else [decided_line(check)]), *run_lines(judgement)]
    body = [
        *(f'<p class="bad">{escape(line)}</p>' for line in ([] if check is None else overspent(check))),
        f"<h1>{escape(headline(judgement, names=fails(judgement)))}</h1>",
        *(f'<p class="soft">{foldable(line)}</p>' for line in about),
        f"<p>{escape(EXPLAINED)}</p>",
        *_numbers(judgement),
        *_required(judgement),
        *_deviations(judgement),
        *_differences(judgement["differences"]),
        *([] if check is None else _not_done(check)),
        *_families(judgement),
        *_model(judgement["model"]),
        *_builds(judgement["builds"]),
        *plots(_images(judgement) if images is None else images, "Load"),
        *_answers(judgement["answers"]),
        *_missing(judgement),
        f"<footer>ranksim {'compare' if check is None else 'check'}. S numbers are facts of the "
        "specification, U numbers what it leaves open; “ranksim explain S105” tells what any of them says, "
        f"and so of rules and error codes. {on_validity()}</footer>",
    ]
    return html_document(title, body, FIGURES + OWN_STYLE)


def _numbers(judgement: Plain) -> list[str]:
    coverage, agreement = judgement["coverage"], judgement["agreement"]
    numbers = (
        (f"{coverage['exercised']} of {coverage['cases']}", "cases exercised (coverage)"),
        (f"{agreement['conforming']} of {agreement['decided']}", "exercised cases conform (agreement)"),
        (f"{coverage['rules_decided']} of {coverage['rules']}", "rules decided"),
        (units.count(judgement["exchanges"]), "exchanges"),
        (units.count(judgement["lost"]), "without a reply"),
        (units.count(judgement["deliveries"]), "webhook attempts"),
    )
    items = [f"<li><b>{escape(value)}</b>{escape(label)}</li>" for value, label in numbers]
    return ['<ul class="numbers">', *items, "</ul>"]


def _not_done(check: Plain) -> list[str]:
    """Return what a check did not decide, run or remove, and why; then its plan, folded."""
    plan = "\n".join(check["plan"])
    skipped = [(check["titles"].get(name, name), why) for name, why in check["not_run"].items()]
    return [
        *_listed("Trouble", check["troubles"]),
        *_listed("What was there before", check["untouched"]),
        *_listed("Created, and not removed", left_lines(check["left"])),
        *_pairs("Not decided, and what it waits for", ("why", "rules"), by_reason(check["undecided"])),
        *_pairs("What did not run", ("task", "why"), skipped),
        f'<details class="piece"><summary>The plan</summary><pre>{escape(plan)}</pre></details>',
    ]


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    items = [f"<li>{foldable(line)}</li>" for line in lines]
    return [f"<h2>{title}</h2>", "<ul>", *items, "</ul>"] if items else []


def _pairs(title: str, headings: tuple[str, str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    rows = [f"<tr><td>{foldable(label)}</td><td>{foldable(other)}</td></tr>" for label, other in pairs]
    return [f"<h2>{title}</h2>", *_table(headings, rows)] if rows else []


def _required(judgement: Plain) -> list[str]:
    """Return the required rules that do not conform, each with its verdict and the cases that are missing."""
    items = []
    for rule in judgement["rules"]:
        if rule["name"] in judgement["missing"]:
            left = cases_left(rule) if rule["verdict"] == "conforms" else ""
            words = f"{verdict(rule)}{f'; not exercised: {left}' if left else ''}"
            link = f'<a class="bad" href="#{escape(rule["name"])}">{foldable(rule["name"])}</a>'
            items.append(f"<li>{link}: {escape(words)}</li>")
    return ["<p>Required, and not conforming:</p>", "<ul>", *items, "</ul>"] if items else []


def _deviations(judgement: Plain) -> list[str]:
    broken = [rule for rule in judgement["rules"] if deviates(rule)]
    parts = ["<h2>What deviates, and what proves it</h2>"] if broken else []
    for rule in broken:
        parts.append(
            f'<h3><span class="bad">{escape(rule["name"])}</span> {escape(rule["says"])} '
            f"({_facts(rule, judgement)})</h3>"
        )
        link = f'<a href="#{escape(rule["name"])}">the rule and its cases</a>'
        parts.append(f'<p class="soft">{times_broken(rule)}; the smallest evidence ({link}):</p>')
        for number, (piece, *more) in enumerate(_alike(rule["evidence"])):
            parts += _evidence(piece, judgement, unfolded=number == 0)
            if more:
                named = escape(", ".join(map(_named, more)))
                parts.append(f'<p class="soft">and {len(more)} more like it: {named}</p>')
        parts += [f"<p>{foldable(line)}</p>" for line in reproduction(rule)]
        follow = consequences(rule, judgement)
        parts += ["<p>What follows from it, and is no cause of its own:</p>"] if follow else []
        for consequence in follow:
            sentence = f"{consequence['because']}; broken {units.many(consequence['broken'], 'time')}"
            name = escape(consequence["name"])
            parts.append(
                f'<details class="piece"><summary><a href="#{name}">{name}</a>: {escape(sentence)}</summary>'
            )
            parts += [*_evidence(consequence["evidence"][0], judgement, unfolded=False), "</details>"]
    return parts


def _alike(evidence: Sequence[Plain]) -> list[list[Plain]]:
    """Return the pieces in groups whose words are the same but for numbers and what the pieces point at."""
    groups: dict[str, list[Plain]] = defaultdict(list)
    for piece in evidence:
        words = "\n".join(piece[part] for part in ("about", "expected", "found", "says"))
        for name in (*piece["exchanges"], *piece["deliveries"]):
            words = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "#", words)
        groups[re.sub(r"\d+", "#", words)].append(piece)
    return list(groups.values())


def _named(piece: Plain) -> str:
    """Return what a piece points at by name; of more than two, the first and the last."""
    names = [*piece["exchanges"], *(f"delivery {name}" for name in piece["deliveries"])]
    return " and ".join(names) if len(names) < 3 else f"{names[0]} … {names[-1]}"


def _facts(rule: Plain, judgement: Plain) -> str:
    """Return the facts of a rule; what each says is told where the pointer rests."""
    facts = judgement["facts"]
    return ", ".join(linked(f"S{number}", facts.get(f"S{number}", "")) for number in rule["facts"])


def _evidence(piece: Plain, judgement: Plain, *, unfolded: bool) -> list[str]:
    """Return a piece of evidence: expected, found, the difference in words, and what was exchanged, whole."""
    about = f"{piece['about']}: " if piece["about"] else ""
    rows = [("expected", piece["expected"]), ("found", piece["found"]), ("difference", piece["says"])]
    cells = "".join(f"<dt>{label}</dt><dd>{escape(value)}</dd>" for label, value in rows if value)
    parts = ['<div class="piece">', f"<p>{escape(about)}</p>" if about else "", f"<dl>{cells}</dl>"]
    parts += [draw(piece[name]) for name, draw in DRAWN.items() if name in piece]
    for name in piece["exchanges"]:
        parts.append(_exchange(name, judgement["exhibits"].get(name), unfolded))
    for name in piece["deliveries"]:
        parts += [_attempt(name, attempt, unfolded) for attempt in judgement["attempts"].get(name, [])[:1]]
    if piece["readings"]:
        excluded = [
            f"{reading['reading']}: {reading['says']} ({', '.join(reading['exchanges'])})"
            for reading in piece["readings"]
        ]
        summary = "no reading of what is open explains it: what excludes each"
        parts.append(_folded(summary, excluded, unfolded=False))
    return [*parts, "</div>", *_calls_around(piece)]


DRAWN = {"staircase": staircase, "timeline": timeline}
"""Figures of a piece of evidence; where one has neither, the calls around it are drawn."""


def _calls_around(piece: Plain) -> list[str]:
    around = piece.get("around") or []
    if sum(row["marked"] for row in around) < 2 or not DRAWN.keys().isdisjoint(piece) or not _can_draw():
        return []
    from ranksim.judge.report.judgement_plots import evidence_image

    caption = "each bar is a call from sending to reply; the named ones prove it"
    return [figure("calls around the evidence", evidence_image(around), caption)]


def _exchange(name: str, exchange: Plain | None, unfolded: bool) -> str:
    """Return an exchange whole, folded below its line; where the trace was not read again, the line alone."""
    line = name if exchange is None else f"{name}  {exhibit(exchange)}"
    if exchange is None or "curl" not in exchange:
        return f"<pre>{escape(line)}</pre>"
    query = "&".join(f"{key}={value}" for key, value in exchange["query"].items())
    lines = [
        f"{exchange['method']} {exchange['path']}{'?' if query else ''}{query}",
        *_message(exchange["request_headers"], exchange["body"]),
        "",
        f"{exchange['status'] or 'no reply'}",
        *_message(exchange["response_headers"], exchange["response"]),
    ]
    return _folded(line, [*lines, "", exchange["curl"]], unfolded)


def _message(headers: Mapping[str, str], body: str) -> list[str]:
    return [*(f"{name}: {value}" for name, value in headers.items()), *(["", body] if body else [])]


def _attempt(name: str, attempt: Plain, unfolded: bool) -> str:
    """Return a webhook attempt whole, folded below its line."""
    answer = "no answer" if attempt["status"] is None else attempt["status"]
    valid = {True: "the signature is valid", False: "the signature is not valid", None: "not verified"}
    lines = [
        f"to {attempt['endpoint']}, {valid[attempt['signature']]}",
        *_message(attempt["headers"], ""),
        "",
        attempt["body"],
    ]
    return _folded(f"delivery {name}  {iso(attempt['received'])} → {answer}", lines, unfolded)


def _folded(summary: str, lines: Sequence[str], unfolded: bool) -> str:
    state = " open" if unfolded else ""
    text = escape("\n".join(lines))
    return f"<details{state}><summary>{escape(summary)}</summary><pre>{text}</pre></details>"


def _differences(differences: Sequence[Plain]) -> list[str]:
    if not differences:
        return []
    rows = [
        f"<tr><td>{with_links('U' + str(row['number']))}</td>"
        f"{_cells(row['statement'], row['assumed'], row['found'], row['evidence']['says'])}</tr>"
        for row in differences
    ]
    return [
        "<h2>Assumptions that differ</h2>",
        "<p>The specification leaves these open; the trace excludes the default. They fail nothing.</p>",
        *_table(("number", "what is open", "assumed", "found", "because"), rows),
    ]


def _families(judgement: Plain) -> list[str]:
    families: dict[str, list[Plain]] = defaultdict(list)
    for rule in judgement["rules"]:
        if rule["verdict"] != "not exercised":
            families[rule["name"].partition(".")[0]].append(rule)
    if not families:
        return []
    rows = []
    for family, members in families.items():
        rows.append(f'<tr><th colspan="6">{escape(family)}</th></tr>')
        rows += [_verdict_row(rule, judgement) for rule in members]
    heading = ("rule", "verdict", "held", "broken", "open", "what it says")
    return ["<h2>Verdicts</h2>", *_table(heading, rows)]


def _verdict_row(rule: Plain, judgement: Plain) -> str:
    open_because = why_open(judgement, rule) or (why_undecided(rule) if rule["reasons"] else "")
    why = f" Open: {open_because}." if rule["reasons"] else ""
    says = rule["says"].rstrip(".")
    numbers = "".join(
        f'<td class="number" title="{name}">{units.count(rule[name]) if rule[name] else "–"}</td>'
        for name in ("held", "broken", "open")
    )
    return (
        f'<tr class="verdict" id="{escape(rule["name"])}"><td>{escape(rule["name"])}</td>'
        f'<td class="{CLASSES[rule["verdict"]]}">{escape(verdict(rule))}</td>{numbers}'
        f'<td>{escape(says)}. ({_facts(rule, judgement)})<span class="soft">{escape(why)}</span>'
        f"{_cases(rule)}</td></tr>"
    )


def _cases(rule: Plain) -> str:
    """Return the cases of a rule that has several, folded: what was exercised, by what, and what is left."""
    if len(rule["cases"]) < 2:
        return ""
    items = [
        f"<li>{escape(case['name'])}: {'broken' if case['broken'] else 'held'}"
        f' <span class="soft">{escape(", ".join(case["by"]))}</span></li>'
        for case in rule["cases"]
        if case["held"] or case["broken"]
    ]
    left = cases_left(rule)
    items += [f'<li class="soft">not exercised: {escape(left)}</li>'] if left else []
    summary = f"{rule['exercised']} of {len(rule['cases'])} cases"
    return f"<details><summary>{summary}</summary><ul>{''.join(items)}</ul></details>"


def _model(rows: Sequence[Plain] | None) -> list[str]:
    if rows is None:
        return []
    view = model_view(rows)
    lines = [f"<tr>{_cells(*row)}</tr>" for row in view.rows]
    text = f"<p>{escape(model_sentence(rows))}</p><p>{escape(MODEL)}</p>"
    return ["<h2>Measured against the model</h2>", text, *_table(view.headings, lines)]


def _builds(builds: Plain | None) -> list[str]:
    if builds is None:
        return []
    parts = ["<h2>Against the baseline</h2>", f"<p>{escape(build_sentence(builds))}.</p>"]
    for view in build_views(builds):
        lines = [f"<tr>{_cells(*row)}</tr>" for row in view.rows]
        parts += [f"<h3>{escape(view.title)}</h3>", *_table(view.headings, lines)]
    return parts


def _answers(answers: Sequence[Plain]) -> list[str]:
    rows = [
        f"<tr><td>{escape(row['operation'] or '–')}</td><td>{row['status'] or 'no reply'}</td>"
        f'<td>{escape(row["code"])}</td><td class="number">{units.count(row["count"])}</td></tr>'
        for row in answers[:MOST_ANSWERS]
    ]
    return ["<h2>Answers</h2>", *_table(("operation", "status", "code", "count"), rows)] if rows else []


def _missing(judgement: Plain) -> list[str]:
    """Return what was not exercised, with what would do so; a check tells why it did not."""
    rows = [
        f'<tr id="{escape(rule["name"])}"><td class="name">{foldable(rule["name"])}</td>'
        f"{_cells(rule['says'].rstrip('.') + '.', why_open(judgement, rule) or rule['exercise'])}</tr>"
        for rule in judgement["rules"]
        if rule["verdict"] == "not exercised"
    ]
    if not rows:
        return []
    would = "profile that would exercise it" if check_of(judgement) is None else "why not"
    return ["<h2>Not exercised</h2>", *_table(("rule", "what it says", would), rows)]


def _images(judgement: Plain) -> dict[str, str]:
    if not _can_draw():
        return {}
    from ranksim.judge.report.judgement_plots import images

    return images(judgement)


def _can_draw() -> bool:
    return find_spec("matplotlib") is not None


def _table(headings: Sequence[str], rows: Iterable[str]) -> list[str]:
    numeric = {"held", "broken", "open", "count"}
    cells = "".join(
        f'<th class="number">{name}</th>' if name in numeric else f"<th>{escape(name)}</th>"
        for name in headings
    )
    return ['<div class="wide"><table>', f"<tr>{cells}</tr>", *rows, "</table></div>"]


def _cells(*texts: str) -> str:
    return "".join(cell("td", text, False) for text in texts)
