"""A judgement as people and CI servers read it: terminal, page, JUnit."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from ranksim.core.errors import BadInput
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.exhibits import exhibits
from ranksim.judge.conformance.report.as_dict import Plain, judgement_data
from ranksim.judge.report import judgement as report
from ranksim.judge.report.judgement_page import page
from ranksim.judge.report.junit import junit
from ranksim.judge.report.run_summary import cap_passed, spent_lines

RATES = {"RateLimit-Limit": "600", "RateLimit-Reset": "60"}
HEADER = {"ranksim_trace": 1, "keys": {"main": {"account": "acme"}}, "exclusive": True}


def exchange(number: int, **changes: object) -> str:
    """Give a line of a trace: a list read by the key main, as every service answers it."""
    page = {"data": [{"id": "kwl_1"}], "has_more": False, "next_cursor": None}
    line = {
        "kind": "exchange",
        "id": f"x{number}",
        "sent": number * 1_000_000,
        "received": number * 1_000_000 + 5_000,
        "api_key": "main",
        "operations": ["keyword_lists.list"],
        "method": "GET",
        "path": "/v1/keyword-lists",
        "query": {},
        "status": 200,
        "response_headers": {
            **RATES,
            "X-Request-Id": f"r-{number}",
            "RateLimit-Remaining": str(599 - number),
        },
        "response": json.dumps(page),
    }
    return json.dumps(line | changes)


def judged(*lines: str, required: tuple[str, ...] = ()) -> Plain:
    """Judge a trace of these lines and give the plain form."""
    trace = [json.dumps(HEADER), *lines]
    judgement = compare(trace)
    return judgement_data(
        judgement, trace="run.jsonl", required=required, exhibits=exhibits([trace], judgement)
    )


def printed(found: Plain, width: int = 100) -> str:
    """Give what the terminal shows, without colour."""
    console = Console(file=StringIO(), width=width, highlight=False)
    for part in report.summary(found):
        console.print(part)
    return console.file.getvalue()


CONFORMING = judged(*(exchange(number) for number in range(3)))
NO_ID = {"response_headers": {**RATES, "RateLimit-Remaining": "598"}}
DEVIATING = judged(exchange(0), exchange(1, **NO_ID))
EMPTY = judged()


def test_a_conforming_trace_says_so_and_fails_nothing() -> None:
    assert report.headline(CONFORMING).startswith("Nothing deviates; ")
    assert not report.fails(CONFORMING)


def test_what_did_not_happen_stands_in_the_headline_by_what_matters() -> None:
    unseen = [(one["what"], one["cases"]) for one in CONFORMING["unseen"]]
    assert unseen[0][0] == "no two calls met at once"
    assert unseen[1][0] == "no job failed"
    told = [f"{what}: {count} cases not seen" for what, count in unseen]
    more = f"{len(unseen) - 3} more like it"
    assert report.headline(CONFORMING) == "; ".join(["Nothing deviates", *told[:3], more])
    assert f"did not happen: {'; '.join(told)}" in printed(CONFORMING, width=4000)
    assert f"<h1>Nothing deviates; {told[0]}; {len(unseen) - 1} more like it</h1>" in page(CONFORMING)
    assert "not seen" not in report.headline({**CONFORMING, "unseen": []})


def test_a_rule_without_an_essential_case_is_undecided_and_says_for_want_of_what() -> None:
    found = judged(*(exchange(number) for number in range(3)), required=("paging.end",))
    (rule,) = (rule for rule in found["rules"] if rule["name"] == "paging.end")
    assert (rule["verdict"], rule["exercised"]) == ("undecided", 1), rule
    assert rule["reasons"] == [{"why": "no page before others was seen", "count": 1}]
    assert "paging.end: no page before others was seen" in printed(found, width=200)
    assert report.fails(found)


def test_a_deviation_is_named_with_its_exchange() -> None:
    text = printed(DEVIATING)
    assert report.headline(DEVIATING) == "1 rule deviates: header.request_id"
    assert report.fails(DEVIATING)
    assert "broken 1 time, held 1 time" in text
    assert re.search(r"x1  1970-01-01T00:00:01Z  5ms  main  GET /v1/keyword-lists → 200", text)


def test_nothing_exercised_is_no_success() -> None:
    assert report.headline(EMPTY) == "Nothing was exercised, so nothing can be said"


@pytest.mark.parametrize("name", ["all", "rate", "rate.read", "S102"])
def test_a_thin_trace_passes_no_requirement(name: str) -> None:
    found = judged(*(exchange(number) for number in range(3)), required=(name,))
    assert "rate.read" in found["missing"]
    assert report.fails(found)
    assert "not conform: " in report.headline(found)


def test_required_rules_are_named_beside_what_deviates() -> None:
    found = judged(exchange(0), exchange(1, **NO_ID), required=("rate.read", "header.request_id"))
    said = "1 rule deviates: header.request_id; 1 required rule does not conform: rate.read"
    assert report.headline(found) == said
    short = "1 rule deviates; 1 required rule does not conform"
    assert report.headline(found, names=False) == short
    text = page(found)
    assert f"<h1>{said}</h1>" in text
    assert f"<title>{short}" in text
    assert re.search(r'class="bad" href="#rate.read">rate.read</a>: not exercised', text.replace("<wbr>", ""))


def test_a_required_rule_that_conforms_is_enough() -> None:
    assert not report.fails(judged(exchange(0), required=("header.request_id",)))


def test_every_rule_not_exercised_is_listed_with_its_profile() -> None:
    text = " ".join(printed(EMPTY, width=400).split())
    for rule in EMPTY["rules"]:
        assert rule["name"] in text


def test_no_table_is_shown_where_nothing_was_exercised() -> None:
    assert re.search(r"^rule +verdict", printed(EMPTY), re.MULTILINE) is None
    assert re.search(r"^rule +verdict", printed(CONFORMING), re.MULTILINE)


def test_names_and_reasons_are_whole_on_a_narrow_terminal() -> None:
    undecided = {"verdict": "undecided", "open": 5, "reasons": [{"why": "it overlaps", "count": 5}]}
    rules = [rule | (undecided if rule["name"] == "slots.limit" else {}) for rule in CONFORMING["rules"]]
    text = printed({**CONFORMING, "rules": rules}, width=60)
    assert re.search(r"^rule +verdict +held +broken +open *$", text, re.MULTILINE)
    assert "Undecided, and why\n  slots.limit: it overlaps" in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in printed(DEVIATING, width).splitlines()) <= width


def test_the_plain_form_is_json() -> None:
    assert json.loads(json.dumps(DEVIATING)) == DEVIATING


# Cases


def with_cases(rule: str, *cases: Plain, required: bool = False) -> Plain:
    """Give the conforming judgement with other cases of a rule."""
    split = {"verdict": "conforms", "exercised": sum(bool(case["held"]) for case in cases), "cases": [*cases]}
    rules = [one | (split if one["name"] == rule else {}) for one in CONFORMING["rules"]]
    return {**CONFORMING, "rules": rules, "missing": [rule] if required else []}


NORTH = {"name": "north, all", "held": 2, "broken": 0, "by": ["x0", "x1"]}
SOUTH = {"name": "south, all", "held": 0, "broken": 0, "by": []}
WEST = SOUTH | {"name": "west"}
PARTLY = with_cases("rate.read", NORTH, SOUTH)
WANTED = with_cases("rate.read", NORTH, SOUTH, WEST, required=True) | {"required": ["rate:all"]}


def test_conforms_without_all_cases_says_so() -> None:
    assert re.search(r"rate.read +partly conforms: 1 of 2 cases", printed(PARTLY))
    assert "partly conforms: 1 of 2 cases" in page(PARTLY)
    assert not re.search(r"rate.read +partly", printed(with_cases("rate.read", NORTH)))


def test_the_page_names_what_exercised_each_case_and_what_is_left() -> None:
    text = read(PARTLY).text
    assert "north, all: held x0, x1" in text
    assert "not exercised: south, all" in text


def test_what_a_check_left_open_is_told_by_the_check_alone() -> None:
    whole, of_a_check = printed(PARTLY), printed(PARTLY | {"check": {"undecided": {}}})
    assert "Not exercised, by the profile that would" in whole
    assert "Not exercised" not in of_a_check


def test_all_cases_may_be_required() -> None:
    assert report.headline(WANTED) == (
        "Nothing deviates, but 1 required rule does not conform in all cases: rate.read"
    )
    assert "Required in all cases, and not exercised in\n  rate.read: south, all; west" in printed(WANTED)
    assert "required: rate:all" in printed(WANTED)
    failure = cases(WANTED)["rate.read"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "partly conforms: 1 of 3 cases; not exercised: south, all; west"
    head = read(WANTED).text.partition("Verdicts")[0]
    assert "required: rate:all" in head
    assert re.search(r"rate\.read: partly conforms: 1 of 3 cases; not exercised: south, all; west", head), (
        head
    )


def test_the_verdict_counts_what_conforms_in_some_cases_apart() -> None:
    found = judged(exchange(0), required=("rate.write",))
    rules = [
        next((wanted for wanted in WANTED["rules"] if wanted["name"] == rule["name"] == "rate.read"), rule)
        for rule in found["rules"]
    ]
    mixed = {**found, "rules": rules, "missing": ["rate.read", "rate.write"]}
    said = "Nothing deviates, but 1 required rule does not conform: rate.write; "
    assert report.headline(mixed) == said + "1 does not conform in all cases: rate.read"
    short = "Nothing deviates, but 1 required rule does not conform, 1 does not conform in all cases"
    assert report.headline(mixed, names=False) == short


def test_junit_names_cases() -> None:
    told = cases(PARTLY)["rate.read"].find("system-out")
    assert told is not None
    assert told.text == "1 of 2 cases exercised\nnorth, all: held (x0, x1)\nnot exercised: south, all"


def test_all_cases_are_asked_for_with_a_word_behind() -> None:
    lines = [json.dumps(HEADER), exchange(0)]
    judgement = compare(lines)
    assert not judgement.missing(["header.request_id"])
    wanted = {finding.rule.name for finding in judgement.missing(["header:all"])}
    assert "header.request_id_echo" in wanted
    with pytest.raises(BadInput, match="no rule is named 'heather'"):
        judgement.missing(["heather:all"])


# JUnit


def cases(found: Plain) -> dict[str, ElementTree.Element]:
    """Give the test cases of the XML by the rule's name."""
    root = ElementTree.fromstring(junit(found))
    return {case.attrib["name"].partition(":")[0]: case for case in root.iter("testcase")}


def test_junit_has_one_case_for_each_rule() -> None:
    assert list(cases(DEVIATING)) == [rule["name"] for rule in DEVIATING["rules"]]


def test_junit_fails_what_deviates_and_skips_what_was_not_exercised() -> None:
    found = cases(DEVIATING)
    failure = found["header.request_id"].find("failure")
    assert failure is not None
    assert "x1" in (failure.text or "")
    assert found["rate.read"].find("skipped") is not None
    assert found["header.json"].find("failure") is None
    assert found["header.json"].find("skipped") is None


def test_junit_fails_a_required_rule_that_was_not_exercised() -> None:
    failure = cases(judged(exchange(0), required=("rate.read",)))["rate.read"].find("failure")
    assert failure is not None
    assert "not exercised" in failure.attrib["message"]


def test_junit_counts_add_up() -> None:
    for suite in ElementTree.fromstring(junit(DEVIATING)):
        marks = [case[0].tag for case in suite if len(case)]
        assert int(suite.attrib["tests"]) == len(suite)
        assert int(suite.attrib["failures"]) == marks.count("failure")
        assert int(suite.attrib["skipped"]) == marks.count("skipped")


@pytest.mark.parametrize("letter", ["\\u0001", "\\ud800", "\\uffff"])
def test_junit_escapes_what_xml_cannot_hold(letter: str) -> None:
    found = judged(exchange(0, id="odd", **NO_ID))
    text = junit(json.loads(json.dumps(found).replace('"odd', f'"o{letter}dd')))
    assert f"o{letter}dd" in ElementTree.tostring(ElementTree.fromstring(text.encode()), encoding="unicode")


# The page


class Links(HTMLParser):
    """Collects what a page would load from elsewhere, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = [value or "" for name, value in attrs if name in ("src", "href")]
        self.loads += [value for value in named if not value.startswith("#")]  # which stays on the page

    def handle_data(self, data: str) -> None:
        self.text += data


def read(found: Plain) -> Links:
    """Parse the page of a judgement."""
    links = Links()
    links.feed(page(found))
    return links


def test_the_page_loads_nothing() -> None:
    assert read(DEVIATING).loads == []


def test_the_page_shows_verdicts_evidence_and_load() -> None:
    links = read(DEVIATING)
    assert "header.request_id" in links.text
    assert "x1 has no X-Request-Id" in links.text
    assert (
        page(DEVIATING).count('aria-label="Plot: ') == 4
    )  # two figures, each for wide pages and for narrow ones


def test_each_verdict_stacks_on_a_narrow_screen() -> None:
    """Its counts stand below what it says there, so each must name itself."""
    text = page(DEVIATING)
    rows = re.findall(r'<tr class="verdict" id="[\w.]+">.*?</tr>', text)
    shown = [rule for rule in DEVIATING["rules"] if rule["verdict"] != "not exercised"]
    assert len(rows) == len(shown) > 0
    for row in rows:
        assert re.findall(r'<td class="number" title="(\w+)">', row) == ["held", "broken", "open"]
    assert "@media (max-width: 40rem)" in text


def test_the_page_shows_what_was_exchanged_whole() -> None:
    text, told = page(DEVIATING), read(DEVIATING).text
    assert "<dt>expected</dt><dd>Every response carries X-Request-Id</dd>" in text
    assert "<dt>found</dt><dd>x1 was answered 200, no X-Request-Id</dd>" in text
    assert "<dt>difference</dt><dd>x1 has no X-Request-Id</dd>" in text
    assert "<details open><summary>x1 " in text
    assert "RateLimit-Remaining: 598" in told
    assert '"has_more": false' in told
    assert 'curl -i -X GET /v1/keyword-lists -H "Authorization: Bearer $RANKSIM_KEY"' in told
    assert 'href="#header.request_id"' in text
    assert '<tr class="verdict" id="header.request_id">' in text
    assert '<a href="#S' in text
    assert '<dt id="S' in text[text.index("<summary>Facts and assumptions named here") :]


WRONG = json.dumps({"code": "forbidden", "status": 402, "request_id": "r-1"})
CHAIN = judged(exchange(0), exchange(1, status=403, response=WRONG))


def test_what_follows_is_listed_below_its_cause_and_counted_apart() -> None:
    names = [rule["name"] for rule in CHAIN["rules"] if rule["verdict"] == "deviates"]
    follow = {rule["name"]: {"follows": "error.body", "because": "the same"} for rule in CHAIN["rules"][:1]}
    rules = [
        rule
        | ({"verdict": "deviates"} | follow[rule["name"]] if rule["name"] in follow else {})
        | ({"evidence": DEVIATING["rules"][0]["evidence"] or [PIECE]} if rule["name"] in follow else {})
        for rule in CHAIN["rules"]
    ]
    found = {**CHAIN, "rules": rules}
    assert names == ["error.body"]
    assert report.headline(found) == "1 rule deviates: error.body, from which 1 more follows"
    second = {"verdict": "deviates", "follows": "error.body", "because": "the same"}
    two = {**found, "rules": [rule | (second if n == 1 else {}) for n, rule in enumerate(rules)]}
    assert report.headline(two) == "1 rule deviates: error.body, from which 2 more follow"
    assert "from it follows rate.read: the same" in printed(found, width=200)
    assert "What follows from it" in page(found)
    assert cases(found)["rate.read"].find("failure") is None
    skipped = cases(found)["rate.read"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "broken only where error.body is: the same"


PIECE = {
    **{"expected": "", "found": "", "says": "it", "about": "", "at": 0},
    **{"exchanges": [], "deliveries": [], "readings": []},
}


def test_evidence_of_an_elimination_names_what_excludes_each_reading() -> None:
    headers = {**RATES, "X-Request-Id": "r", "RateLimit-Remaining": "0"}
    at_once = {"sent": 0, "received": 900_000, "response_headers": headers}
    found = judged(*(exchange(number, **at_once) for number in range(1300)))
    (rule,) = (rule for rule in found["rules"] if rule["name"] == "rate.read")
    readings = rule["evidence"][0]["readings"]
    assert len(readings) == 9
    names = [reading["reading"] for reading in readings]
    assert {"first_hit", "gcra, refused calls counted"} < set(names)
    told = f"no reading explains it; excluded are first_hit by {' '.join(readings[0]['exchanges'])}; "
    failure = cases(found)["rate.read"].find("failure")
    assert failure is not None
    assert told in printed(found, width=2000)
    assert told in str(failure.text)
    assert f"gcra: {readings[names.index('gcra')]['says']}" in page(found)


def test_the_page_counts_one_time_and_several() -> None:
    assert "broken 1 time, held 1 time; the smallest evidence" in page(DEVIATING)


def test_pieces_that_differ_in_numbers_only_are_shown_once() -> None:
    lines = [exchange(number, **NO_ID) for number in (*range(3), 10)]
    other = exchange(20, operations=["labels.list"], path="/v1/labels", **NO_ID)
    found = judged(*lines, other)
    (rule,) = (rule for rule in found["rules"] if rule["name"] == "header.request_id")
    assert [piece["exchanges"] for piece in rule["evidence"]] == [["x0"], ["x1"], ["x2"], ["x10"], ["x20"]]
    (shown,) = re.findall(r'<h3><span class="bad">header\.request_id.*?(?=<h[23])', page(found), re.DOTALL)
    assert shown.count('<div class="piece">') == 2
    assert "x0 has no X-Request-Id" in shown
    assert '<p class="soft">and 3 more like it: x1, x2, x10</p>' in shown
    assert "labels.list: " in shown


def test_the_page_escapes_what_the_deployment_said() -> None:
    found = judged(exchange(0, path="/v1/<script>alert(1)</script>", operations=[], **NO_ID))
    assert "<script>" not in page(found)


def test_the_page_of_an_empty_trace_says_so() -> None:
    assert "Nothing was exercised" in read(EMPTY).text


@pytest.mark.slow
def test_evidence_of_two_exchanges_is_drawn() -> None:
    created = {"operations": ["labels.create"], "method": "POST", "path": "/v1/labels", "status": 201,
               "request_headers": {"Idempotency-Key": "k"}, "body": "{}"}  # fmt: skip
    twice = [exchange(n, **created, response=json.dumps({"data": {"id": f"lab_{n}"}})) for n in range(2)]
    links = read(judged(*twice))
    assert "calls from sending to reply" not in links.text
    assert "each bar is a call" in links.text


# Of a check

CHECKED = CONFORMING | {
    "check": {
        "time": 120_000_000,
        "took": 90_000_000,
        "calls": 3,
        "plan": ["key main: full of acme", "takes at most 2m: walk 30s"],
        "rules": ["paging.once", "rate.read", "rate.write", "slots.limit", "header.request_id"],
        "tasks": {"walk": 1, "scope": 1},
        "not_run": {"burst": "takes 3m, and --time 2m leaves 1m30s", "walk": "it was asked to stop"},
        "titles": {"burst": "rate limits", "walk": "pages of lists"},
        "undecided": {
            "rate.read": "nothing came up; a longer --time runs burst",
            "rate.write": "nothing came up; a longer --time runs burst",
            "slots.limit": "there is no room; wants an account with <less>",
        },
        "troubles": ["the process that makes the calls was ended"],
        "left": [
            {"kind": "scans", "key": "main", "why": "there was no time left", "ids": []},
            {"kind": "domains", "key": "main", "why": "405", "ids": [f"dom_{n}" for n in range(103)]},
        ],
        "untouched": ["untouched: what was there before reads the same after: 4 domains"],
        "spent": 1_500_000,
        "spend_cap": 2_000_000,
        "exclusive": True,
        "accounts": [
            {"account": "acme", "spent": 1_500_000, "height": 1_900_000, "unread": ""},
            {"account": "other", "spent": 0, "height": 0, "unread": "its usage was not read (405)"},
        ],
    }
}


@pytest.mark.slow
def test_the_page_of_a_check_tells_what_it_did_and_what_not() -> None:
    text = " ".join(read(CHECKED).text.split())
    assert "checked: 2 of 5 rules asked for decided by 3 calls of tasks, in 1m30s of --time 2m" in text
    rows = page(CHECKED).replace("<wbr>", "")
    assert "<td>nothing came up; a longer --time runs burst</td><td>rate.read, rate.write</td>" in rows
    assert "there is no room; wants an account with <less>" in text
    assert "<td>rate limits</td><td>takes 3m, and --time 2m leaves 1m30s</td>" in rows
    assert "takes at most 2m: walk 30s" in text
    assert "the process that makes the calls was ended" in text
    assert "untouched: what was there before reads the same after: 4 domains" in text
    assert "103 domains with the key main: 405 (dom_0, dom_1, dom_2 and 100 more)" in text
    assert "scans with the key main may be left: there was no time left" in text
    assert "ranksim check. S numbers" in text
    assert "What did not run" not in read(CONFORMING).text
    row = re.search(r'<tr id="slots.limit">.*?</tr>', page(CHECKED))
    assert row is not None
    assert "there is no room" in row[0]
    assert "it was not asked for" in page(CHECKED)


@pytest.mark.slow
def test_a_cap_that_was_passed_is_said_before_all_else_everywhere() -> None:
    told = (
        "the spend cap of 1.60 USD was passed: 1.50 USD spent, 1.90 USD at the height with what was reserved"
    )
    passed = CHECKED | {"check": CHECKED["check"] | {"spend_cap": 1_600_000}}
    assert page(passed).index(told) < page(passed).index("<h1>")
    assert str(ElementTree.fromstring(junit(passed))[-1].findtext("system-out")).startswith(told)
    assert cap_passed(passed["check"]["accounts"], 1_600_000, exclusive=True) == [told]
    assert cap_passed(passed["check"]["accounts"], None, exclusive=True) == []
    [shared] = cap_passed(passed["check"]["accounts"], 1_600_000, exclusive=False)
    assert "may have been passed" in shared
    assert shared.endswith(", with what others spent there")
    assert "was passed" not in read(CHECKED).text + junit(CHECKED)


def test_what_was_spent_is_told_alike_everywhere_and_what_nobody_could_read() -> None:
    lines = spent_lines(CHECKED["check"]["accounts"], exclusive=True)
    assert lines == [
        "spent at least 1.50 USD by usage before and after",
        "not all that other spent is known: its usage was not read (405)",
    ]
    text = " ".join(read(CHECKED).text.split())
    out = str(ElementTree.fromstring(junit(CHECKED))[-1].findtext("system-out"))
    assert all(line in text and line in out for line in lines)
    assert spent_lines([], exclusive=True) == ["spent nothing: nothing was called that can spend"]
    two = [{"account": name, "spent": 500_000, "height": 500_000, "unread": ""} for name in "ab"]
    assert spent_lines(two, exclusive=True) == [
        "spent 1.00 USD by usage before and after: a 0.50 USD, b 0.50 USD"
    ]


def test_junit_of_a_check_has_its_tasks_and_why_rules_are_open() -> None:
    root = ElementTree.fromstring(junit(CHECKED))
    assert root.attrib["name"] == "ranksim check"
    found = {case.attrib["name"].partition(": ")[0]: case for case in root.iter("testcase")}
    skipped = {
        name: case[0].attrib["message"] for name, case in found.items() if case.find("skipped") is not None
    }
    assert skipped["rate.read"] == "not exercised: nothing came up; a longer --time runs burst"
    assert skipped["rate.per_key"] == "not exercised: it was not asked for"
    assert skipped["task rate limits"] == "takes 3m, and --time 2m leaves 1m30s"
    assert "task scope" not in skipped
    tasks = root[-1]
    assert (tasks.attrib["tests"], tasks.attrib["skipped"]) == ("3", "2")
    assert tasks.findtext("system-err") == "the process that makes the calls was ended"


def test_an_exchange_is_named_with_the_id_that_its_logs_are_searched_for() -> None:
    exhibit = {"sent": 0, "received": 1000, "status": 200, "code": "", "key": "main", "method": "GET"}
    headers = {"path": "/v1/domains", "response_headers": {"x-request-id": "req_7"}}
    assert report.exhibit({**exhibit, **headers}).endswith("GET /v1/domains → 200  req_7")
