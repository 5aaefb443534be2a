"""Every fact has its ways to be broken, each with a case that there is or a reason why none can show it."""

import re
from pathlib import Path

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.register import register
from ranksim.judge.conformance.compare import RULES
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.ways import CALIBRATED, DIFFERS, OPEN, ways, ways_page

ROOT = Path(__file__).parents[3]
WAYS = list(ways())
CASES = {rule.name: rule.cases for rule in RULES}
FACTS = 115


def test_the_page_is_current() -> None:
    said = (ROOT / "docs" / "what-is-judged.md").read_text(encoding="utf-8")
    assert said == ways_page(), "scripts/what_is_judged writes it anew"


def test_every_fact_and_every_rule_is_in_it() -> None:
    assert {way.of for way in WAYS if way.of[0] == "S"} == {f"S{number}" for number in range(1, FACTS + 1)}
    assert {way.rule for way in WAYS} >= {rule.name for rule in RULES}
    assert len({(way.of, way.says) for way in WAYS}) == len(WAYS)


def test_a_way_is_shown_by_a_case_that_there_is_or_tells_why_not() -> None:
    known = {one.number for one in register()}
    for way in WAYS:
        assert bool(way.rule) != bool(way.why), way
        if way.rule == DIFFERS:
            assert int(way.case[1:]) in known, way
        elif way.rule:
            assert way.case in CASES[way.rule] or way.case == ANY or "{" in way.case, way


def test_every_choice_is_told_or_tells_why_not() -> None:
    assert not OPEN.keys() & CALIBRATED
    assert OPEN.keys() | CALIBRATED <= Assumptions.model_fields.keys()


def test_what_is_told_to_differ_is_told_somewhere() -> None:
    """The judges name the number of each choice that the page says they tell."""
    texts = [
        path.read_text(encoding="utf-8") for path in (ROOT / "src/ranksim/judge/conformance").rglob("*.py")
    ]
    told = {int(number) for text in texts for number in re.findall(r"differs\(\s*(\d+)", text)}
    told |= {
        int(number)
        for text in texts
        for number in re.findall(r'^    "\w+": (?:\("\w+", )?(\d+)\)?,$', text, re.M)
    }
    told |= {2, 10, 19, 20, 21, 22, 23}  # told by a name, in `headers` and in `check_precedence`
    assert {int(way.case[1:]) for way in WAYS if way.rule == DIFFERS} <= told
