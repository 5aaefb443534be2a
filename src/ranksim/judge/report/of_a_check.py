"""What a page and JUnit tell of a check beside its judgement: what it did, did not, and why not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from xml.etree import ElementTree

from ranksim.judge.report.left import left_lines
from ranksim.judge.report.spent import cap_passed, spent_lines
from ranksim.report import units
from ranksim.report.page import foldable

Plain = Mapping[str, Any]


def check_of(judgement: Plain) -> Plain | None:
    """Return what a check did, or None where the judgement is of traces alone."""
    check: Plain | None = judgement.get("check")
    return check


def why_open(judgement: Plain, rule: Plain) -> str:
    """Return why a check did not decide a rule, and what it waits for; "" where no check tells."""
    check = check_of(judgement)
    if check is None or rule["verdict"] not in ("undecided", "not exercised"):
        return ""
    is_wanted = rule["name"] in check["rules"] or rule["verdict"] == "undecided"
    return str(check["undecided"].get(rule["name"], "" if is_wanted else "it was not asked for"))


def decided_line(check: Plain) -> str:
    """Return in a sentence how much was decided of what was asked for, and what that took."""
    rules = len(check["rules"])
    spent = "; ".join(spent_lines(check["accounts"], exclusive=check["exclusive"]))
    return (
        f"checked: {rules - len(check['undecided'])} of {units.many(rules, 'rule')} asked for decided by "
        f"{units.many(check['calls'], 'call')} of tasks, in {units.duration(check['took'])} of --time "
        f"{units.duration(check['time'])}; {spent}"
    )


def said_first(check: Plain) -> list[str]:
    """Return what stands before everything else: that more was spent than was allowed."""
    return cap_passed(check["accounts"], check["spend_cap"], exclusive=check["exclusive"])


def not_done(check: Plain) -> list[str]:
    """Return as HTML what a check did not decide, run or remove, and why; then its plan, folded."""
    plan = "\n".join(check["plan"])
    return [
        *_listed("Trouble", check["troubles"]),
        *_listed("What was there before", check["untouched"]),
        *_listed("Created, and not removed", left_lines(check["left"])),
        *_table("Not decided, and what it waits for", ("why", "rules"), by_reason(check["undecided"])),
        *_table("What did not run", ("task", "why"), check["not_run"].items()),
        f'<details class="piece"><summary>The plan</summary><pre>{escape(plan)}</pre></details>',
    ]


def by_reason(undecided: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each reason with the rules that it keeps open."""
    rules: dict[str, list[str]] = defaultdict(list)
    for rule, why in undecided.items():
        rules[why].append(rule)
    return [(why, ", ".join(names)) for why, names in rules.items()]


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    items = [f"<li>{foldable(line)}</li>" for line in lines]
    return [f"<h2>{title}</h2>", "<ul>", *items, "</ul>"] if items else []


def _table(title: str, headings: tuple[str, str], rows: Any) -> list[str]:
    cells = [f"<tr><td>{foldable(label)}</td><td>{foldable(other)}</td></tr>" for label, other in rows]
    heading = "".join(f"<th>{name}</th>" for name in headings)
    table = ['<div class="wide"><table>', f"<tr>{heading}</tr>", *cells, "</table></div>"]
    return [f"<h2>{title}</h2>", *table] if cells else []


def suite(check: Plain) -> ElementTree.Element:
    """Return a suite of JUnit: a test case a task, skipped where it did not run, or not to its end."""
    names = dict.fromkeys((*check["tasks"], *check["not_run"]))
    element = ElementTree.Element("testsuite", name="check", tests=str(len(names)), failures="0", errors="0")
    element.set("skipped", str(len(check["not_run"])))
    for name in names:
        case = ElementTree.SubElement(element, "testcase", classname="ranksim.check", name=f"task {name}")
        if name in check["not_run"]:
            ElementTree.SubElement(case, "skipped", message=check["not_run"][name])
    lines = [*said_first(check), decided_line(check), *check["untouched"]]
    lines += (f"created, and not removed: {line}" for line in left_lines(check["left"]))
    ElementTree.SubElement(element, "system-out").text = "\n".join(lines)
    if check["troubles"]:
        ElementTree.SubElement(element, "system-err").text = "\n".join(check["troubles"])
    return element
