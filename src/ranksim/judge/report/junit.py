"""A judgement as JUnit XML: one test case a rule, one suite a family, as CI servers read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ranksim.core.printable import LINES, printable
from ranksim.judge.report.judgement import cases_left, evidence_lines, reproduction, verdict
from ranksim.judge.report.run_summary import check_of, decided_line, left_lines, overspent, why_open

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
    root = Element("testsuites", name=f"ranksim {'compare' if check is None else 'check'}")
    for family, rules in families.items():
        root.append(_suite(family, [_case(family, rule, judgement) for rule in rules]))
    if check is not None:
        root.append(_tasks(check))
    return _xml(root)


def junit_of_checks(name: str, cases: Mapping[str, str]) -> str:
    """Return the XML of one suite: its cases by name, each with what failed, "" for nothing."""
    elements = []
    for case, failure in cases.items():
        elements.append(Element("testcase", classname=f"ranksim.{name}", name=case))
        if failure:
            SubElement(elements[-1], "failure", message=failure)
    root = Element("testsuites", name=f"ranksim {name}")
    root.append(_suite(name, elements))
    return _xml(root)


def _xml(root: Element) -> str:
    indent(root)
    return printable(tostring(root, encoding="unicode", xml_declaration=True) + "\n", LINES)


def _suite(name: str, cases: Sequence[Element]) -> Element:
    def count(outcome: str) -> str:
        return str(sum(case.find(outcome) is not None for case in cases))

    suite = Element("testsuite", name=name, tests=str(len(cases)), failures=count("failure"), errors="0")
    suite.set("skipped", count("skipped"))
    suite.extend(cases)
    return suite


def _tasks(check: Plain) -> Element:
    """Return a suite with a test case for each task of a check, skipped where it did not run to its end."""
    cases = []
    for name in dict.fromkeys((*check["tasks"], *check["not_run"])):
        title = check["titles"].get(name, name)
        cases.append(Element("testcase", classname="ranksim.check", name=f"task {title}"))
        if name in check["not_run"]:
            SubElement(cases[-1], "skipped", message=check["not_run"][name])
    suite = _suite("check", cases)
    lines = [*overspent(check), decided_line(check), *check["untouched"]]
    lines += (f"created, and not removed: {line}" for line in left_lines(check["left"]))
    SubElement(suite, "system-out").text = "\n".join(lines)
    if check["troubles"]:
        SubElement(suite, "system-err").text = "\n".join(check["troubles"])
    return suite


def _case(family: str, rule: Plain, judgement: Plain) -> Element:
    case = Element("testcase", classname=f"ranksim.{family}", name=f"{rule['name']}: {rule['says']}")
    if rule["follows"]:
        SubElement(case, "skipped", message=f"broken only where {rule['follows']} is: {rule['because']}")
    elif rule["verdict"] == "deviates":
        pieces = rule["evidence"]
        failure = SubElement(case, "failure", message=pieces[0]["says"], type="deviates")
        lines = []
        for piece in pieces:
            lines.append(piece["says"])
            lines += [f"  {line}" for line in evidence_lines(piece, judgement["exhibits"])]
        lines += reproduction(rule)
        failure.text = "\n".join(lines)
    elif rule["name"] in judgement["missing"]:
        SubElement(case, "failure", message=_why(rule, judgement), type="required")
    elif rule["verdict"] != "conforms":
        SubElement(case, "skipped", message=_why(rule, judgement))
    if len(rule["cases"]) > 1 and rule["exercised"]:
        SubElement(case, "system-out").text = "\n".join(_cases(rule))
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
