"""A judgement as JUnit XML: one test case a rule, one suite a family, as CI servers read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from ranksim.core.printable import LINES, printable
from ranksim.judge.report.judgement import cases_left, exhibit_lines, readings_line, verdict
from ranksim.judge.report.of_a_check import check_of, suite, why_open

Plain = Mapping[str, Any]


def junit(judgement: Plain) -> str:
    """Return the XML. A rule that deviates, or is required and does not conform, is a failure.

    Other rules that are undecided or not exercised are skipped, with the reason. Of a check there is a suite
    of its tasks, too.
    """
    families: dict[str, list[Plain]] = defaultdict(list)
    for rule in judgement["rules"]:
        families[rule["name"].partition(".")[0]].append(rule)
    check = check_of(judgement)
    root = ElementTree.Element("testsuites", name=f"ranksim {'compare' if check is None else 'check'}")
    for family, rules in families.items():
        cases = [_case(family, rule, judgement) for rule in rules]
        ElementTree.SubElement(
            root,
            "testsuite",
            name=family,
            tests=str(len(cases)),
            failures=str(sum(case.find("failure") is not None for case in cases)),
            errors="0",
            skipped=str(sum(case.find("skipped") is not None for case in cases)),
        ).extend(cases)
    if check is not None:
        root.append(suite(check))
    ElementTree.indent(root)
    return printable(ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n", LINES)


def _case(family: str, rule: Plain, judgement: Plain) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", classname=f"ranksim.{family}", name=f"{rule['name']}: {rule['says']}"
    )
    if rule["follows"]:
        sentence = f"broken only where {rule['follows']} is: {rule['because']}"
        ElementTree.SubElement(case, "skipped", message=sentence)
    elif rule["verdict"] == "deviates":
        first = rule["evidence"][0]
        failure = ElementTree.SubElement(case, "failure", message=first["says"], type="deviates")
        lines = [
            line
            for piece in rule["evidence"]
            for line in (
                piece["says"],
                *(f"  {label}: {piece[label]}" for label in ("expected", "found") if piece[label]),
                *("  " + text for text in exhibit_lines(piece, judgement["exhibits"])),
                *([f"  {readings_line(piece)}"] if piece["readings"] else []),
            )
        ]
        failure.text = "\n".join(lines)
    elif rule["name"] in judgement["missing"]:
        ElementTree.SubElement(case, "failure", message=_why(rule, judgement), type="required")
    elif rule["verdict"] != "conforms":
        ElementTree.SubElement(case, "skipped", message=_why(rule, judgement))
    if len(rule["cases"]) > 1 and rule["exercised"]:
        output = ElementTree.SubElement(case, "system-out")
        output.text = "\n".join(_cases(rule))
    return case


def _cases(rule: Plain) -> list[str]:
    """Return the cases of a rule in lines: what was exercised, by what, and what is left."""
    lines = [f"{rule['exercised']} of {len(rule['cases'])} cases exercised"]
    for case in rule["cases"]:
        if case["held"] or case["broken"]:
            lines.append(
                f"{case['name']}: {'broken' if case['broken'] else 'held'} ({', '.join(case['by'])})"
            )
    left = cases_left(rule)
    return [*lines, f"not exercised: {left}"] if left else lines


def _why(rule: Plain, judgement: Plain) -> str:
    because = why_open(judgement, rule)
    if because:
        return f"{rule['verdict']}: {because}"
    if rule["verdict"] == "not exercised":
        return f"not exercised; profile that would: {rule['exercise'] or 'none'}"
    if rule["verdict"] == "conforms":
        return f"{verdict(rule)}; not exercised: {cases_left(rule)}"
    reasons = "; ".join(reason["why"] for reason in rule["reasons"][:2])
    return f"undecided: {reasons}"
