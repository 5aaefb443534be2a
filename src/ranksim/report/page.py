"""One self-contained HTML page of a result: no script, nothing loaded from elsewhere, light and dark."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ranksim.core.contract.facts import FACTS
from ranksim.core.contract.register import register
from ranksim.core.printable import LINES, printable
from ranksim.report.assumptions import Basis, basis_lines
from ranksim.report.mentions import foldable, named_here, on_validity, pieces, with_links
from ranksim.report.readings import NO_READINGS, Readings
from ranksim.report.tables import Row, View, bounded, widths_within

MOST_ROWS = 200
"""Rows of one table that a page shows; all are in the tables beside it."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2026; --soft: #5b6470; --line: #d9dee5; --paper: #fff;
  --raised: #f5f7f9; --good: #00735a; --bad: #b34700; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaee; --soft: #a3adb9; --line: #363d47; --paper: #14171b; --raised: #1e2329;
    --good: #3fcfa4; --bad: #ff9350; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { margin: 0 0 .25rem; font-size: 1.75rem; line-height: 1.2; }
h2 { margin: 2.25rem 0 .5rem; font-size: 1.25rem; }
h3 { margin: 0 0 .35rem; font-size: 1rem; }
p { margin: .25rem 0; max-width: 50rem; }
.soft, figcaption { color: var(--soft); }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(11rem, 45%), 1fr)); gap: .75rem;
  margin: 1.25rem 0 0; padding: 0; list-style: none; }
@media (min-width: 40rem) {
  .numbers:has(> :nth-child(7):last-child), .numbers:has(> :nth-child(8):last-child) {
    grid-template-columns: repeat(4, 1fr); } }
@media (min-width: 40rem) and (max-width: 72rem) {
  .numbers:has(> :nth-child(6):last-child) { grid-template-columns: repeat(3, 1fr); } }
.numbers li { padding: .6rem .9rem; background: var(--raised); border-radius: .5rem;
  color: var(--soft); }
.numbers b { display: block; color: var(--ink); font-size: 1.35rem; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.numbers b.bad { color: var(--bad); }
.answer { font-size: 1.15rem; font-weight: 600; }
.tables { display: flex; flex-wrap: wrap; gap: 1.5rem; }
.tables section { flex: 1 1 auto; max-width: 100%; }
.wide { overflow-x: auto; background:
  linear-gradient(90deg, var(--paper) 40%, transparent) 0 / 2.5rem 100% no-repeat local,
  linear-gradient(-90deg, var(--paper) 40%, transparent) 100% / 2.5rem 100% no-repeat local,
  linear-gradient(90deg, var(--line), transparent) 0 / .8rem 100% no-repeat scroll,
  linear-gradient(-90deg, var(--line), transparent) 100% / .8rem 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: .8rem; }
td.long { min-width: 9rem; }
.wide ~ .soft { font-size: .85rem; }
.all { display: none; }
summary h3 { display: inline; cursor: pointer; }
th, td { padding: .3rem .35rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top;
  overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.plots { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 1rem 0 0; min-width: 0; max-width: 48rem; }
figure > svg { display: block; width: 100%; height: auto; background: #fff;
  border: 1px solid var(--line); border-radius: .5rem; }
@media (prefers-color-scheme: dark) {
  figure > svg { filter: invert(.91) hue-rotate(180deg); border-color: #c9c2ba; } }
figure > svg.slim { display: none; }
@media (max-width: 40rem) {
  figure { overflow-x: auto; }
  figure > svg { min-width: 30rem; }
  figure > svg.broad { display: none; }
  figure > svg.slim { display: block; min-width: 0; }
  th { white-space: normal; }
  .stacks thead { display: none; }
  .plots { gap: 0; }
  .stacks tr { display: flex; flex-wrap: wrap; column-gap: 1rem; padding: .3rem 0;
    border-bottom: 1px solid var(--line); }
  .stacks td { display: flex; flex: 1 1 auto; justify-content: space-between; gap: .75rem; padding: 0;
    border: 0; white-space: normal; text-align: right; }
  .stacks td, .stacks td.long { min-width: calc(50% - .5rem); max-width: 100%; }
  .stacks td:first-child { flex-grow: 0; justify-content: start; min-width: 20%; font-weight: 600; }
  .stacks td::before { content: attr(data-of); color: var(--soft); font-weight: 400; text-align: left; }
  .wide:has(+ .all > :not(:checked)) .rest { display: none; }
  label.all { display: block; padding: .3rem 0; color: var(--soft); font-size: .85rem; cursor: pointer; } }
.line { white-space: nowrap; }
pre { overflow-x: auto; padding: .75rem 1rem; background: var(--raised); border-radius: .5rem; }
.piece { margin: .5rem 0 1rem; padding-left: .9rem; border-left: 3px solid var(--line); }
.piece pre { margin: .25rem 0 .5rem; font-size: .8rem; white-space: pre-wrap; }
.piece summary { font-size: .85rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .9rem; margin: .25rem 0; }
dt { color: var(--soft); }
dd { margin: 0; }
a { color: inherit; text-decoration: underline dotted; }
.told { margin-top: 2.25rem; font-size: .85rem; }
summary { cursor: pointer; color: var(--soft); }
.told dt { scroll-margin-top: 1rem; }
.told :target, .told :target + dd { color: var(--ink); font-weight: 600; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .9rem; }
"""


def tables_page(
    title: str,
    lines: Sequence[str],
    answers: Iterable[View],
    drawn: Mapping[str, str],
    basis: Basis | None = None,
) -> str:
    """A page of tables and plots, such as that of a study: the title, the question, the answer, lines on it.

    After them stands what the answer rests on, and the command that asks it again.
    """
    basis = basis or Basis()
    parts = [f"<h1>{foldable(title)}</h1>"]
    parts += [f"<p>{foldable(basis.question)}</p>"] if basis.question else []
    parts += [f'<p class="answer">{with_links(line)}</p>' for line in lines[:1]]
    parts += [f"<p>{with_links(line)}</p>" for line in lines[1:]]
    tables = [bounded(view, MOST_ROWS) for view in answers]
    for view in tables:
        if view.leads:
            parts += [f"<h2>{foldable(view.title)}</h2>", *_rows(view)]
    rest = [*plots(drawn, "Figures"), *tables_of(view for view in tables if not view.leads)]
    rests = assumptions_of(basis.rests_on, basis.overrides)
    return html_document(title, [*parts, *rest, *rests, *page_footer(basis.command)])


def page_footer(command: str, before: str = "") -> list[str]:
    """Return how to ask the same again, and a footer: what is `before`, and what numbers of a page are."""
    numbers = (
        "What the specification states are facts (S), what it leaves open is assumed (U): "
        f"S1 to S{len(FACTS)}, U1 to U{len(register())}; “ranksim explain U1” tells of each."
    )
    again = ["<h2>Run it again</h2>", f"<pre>{escape(command)}</pre>"] if command else []
    return [*again, f"<footer>{before}{numbers} {on_validity()}</footer>"]


def html_document(title: str, body: Iterable[str], style: str = "") -> str:
    """A whole HTML document around a body, with the style of all pages and more; nothing else is loaded.

    Before the footer, the last part of the body, stands what the facts and assumptions say that it names.
    """
    *parts_before, footer = body
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">",
        f"<title>{escape(title)} – ranksim</title>",
        f"<style>{STYLE}{style}</style>",
        "</head>",
        "<body>",
        *parts_before,
        *named_here(parts_before),
        footer,
        "</body>",
        "</html>",
    ]
    return printable("\n".join(parts) + "\n", LINES)


BAD, NUMBER, LONG, ONE_LINE, STACKS = (
    f' class="{name}"' for name in ("bad", "number", "long", "line", "stacks")
)

AMOUNT = re.compile(r"[−-]?[\d.,]+ \w+")
"""An amount with its unit, such as 90 USD."""

MANY_CHARACTERS, LONG_ROOM = 30, 20
"""Text longer than this keeps room for some words a line, however narrow the page: for so many characters."""


def plots(drawn: Mapping[str, str], title: str) -> list[str]:
    """Return figures of a page side by side below a title; nothing where there are none."""
    if not drawn:
        return []
    figures = (figure(name, svg) for name, svg in drawn.items())
    return [f"<h2>{title}</h2>", '<div class="plots">', *figures, "</div>"]


def figure(name: str, svg: str, caption: str = "") -> str:
    """Return a figure of a page; pointed at, its parts tell more."""
    label = f'<svg role="img" aria-label="Plot: {escape(name)}" '
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{svg.replace('<svg ', label)}{below}</figure>"


def tables_of(views: Iterable[View]) -> list[str]:
    """Return tables of a page side by side below a title, folded ones last; nothing where there are none."""
    parts = []
    for view in sorted(views, key=lambda view: view.folded):
        title, rows = f"<h3>{foldable(view.title)}</h3>", _rows(view)
        if view.folded:
            title, rows = f"<details><summary>{title}</summary>", [*rows, "</details>"]
        parts += ["<section>", title, *rows, "</section>"]
    return ["<h2>Tables</h2>", '<div class="tables">', *parts, "</div>"] if parts else []


def _rows(view: View) -> list[str]:
    stacks = _is_wide(view)
    rows = [
        ("<tr>" if at < FIRST_ROWS else '<tr class="rest">')
        + "".join(
            cell("td", text, index >= view.words, heading if stacks else "")
            for index, (heading, text) in enumerate(zip(view.headings, row, strict=True))
        )
        + "</tr>"
        for at, row in enumerate(view.rows)
    ]
    more = [f'<label class="all"><input type="checkbox"> all {len(rows)} rows</label>']
    note = [f'<p class="soft">{escape(view.note)}</p>'] if view.note else []
    body = table(view.headings, view.words, rows, stacks=stacks)
    return [*body, *(more if len(rows) > FIRST_ROWS else []), *note]


FIRST_ROWS = 8
"""Rows of a table that stand on a phone at first; a click shows the rest."""

PHONE = 48
"""Characters of a table's row that a phone shows."""

MOST_LINES = 2
"""Lines that a row may take on a phone, on average, where its text is broken between words."""


def _is_wide(view: View) -> bool:
    """Tell whether each row of a table stands as a stack on a phone, where it would be wide or long."""
    columns = [_widths(view, index) for index in range(len(view.headings))]
    spare = PHONE - sum(least + 2 for least, _ in columns)
    if spare < 0:
        return True
    widths = widths_within(columns, spare)
    lines = (
        max(-(-len(text) // width) for text, width in zip(row, widths, strict=True)) for row in view.rows
    )
    return sum(lines) > MOST_LINES * len(view.rows)


def _widths(view: View, index: int) -> tuple[int, int]:
    """The least width of a column of a page, and its whole width, in characters."""
    heading, cells = view.headings[index], [row[index] for row in view.rows]
    unbroken = [text for text in cells if index >= view.words or AMOUNT.fullmatch(text)]
    parts = " ".join(pieces(text) for text in (heading, *cells) if text not in unbroken).split()
    room = LONG_ROOM if any(len(text) > MANY_CHARACTERS for text in cells) else 1
    return max(room, *map(len, (*unbroken, *parts))), max(room, *map(len, (heading, *cells)))


def assumptions_of(
    rests_on: Sequence[Row], overrides: Sequence[tuple[str, str, str]], readings: Readings = NO_READINGS
) -> list[str]:
    """Return what a result rests on: what would change it, what differs, and all else in a line."""
    lines = [f"<p>{with_links(line)}</p>" for line in basis_lines(rests_on, overrides, readings)]
    what = "the result rests on" if rests_on else "differ from their default"
    return [f"<h2>Assumptions that {what}</h2>", *lines] if lines else []


def table(headings: Sequence[str], words: int, rows: Sequence[str], *, stacks: bool = False) -> list[str]:
    """Return a table, whose `rows` are HTML; in a narrow page each may stand as a stack."""
    head = "".join(cell("th", heading, index >= words) for index, heading in enumerate(headings))
    return [
        f'<div class="wide"><table{STACKS if stacks else ""}>',
        f"<thead><tr>{head}</tr></thead>",
        "<tbody>",
        *rows,
        "</tbody>",
        "</table></div>",
    ]


def cell(tag: str, text: str, number: bool, of: str = "") -> str:
    """Return a cell of a table; one of long text keeps some room, and an amount stands in one line.

    `of` is the heading that stands beside it where rows stand as stacks.
    """
    if number:
        kind = NUMBER
    elif AMOUNT.fullmatch(text):
        kind = ONE_LINE
    else:
        kind = LONG if tag == "td" and len(text) > MANY_CHARACTERS else ""
    beside = f' data-of="{escape(of)}"' if of else ""
    return f"<{tag}{kind}{beside}>{foldable(text)}</{tag}>"
