"""Verdicts from what held, broke and stayed open; coverage apart from agreement."""

import pytest

from ranksim.conformance.verdict.verdicts import KEPT, Evidence, Rule, Tally, Verdict, agreement, coverage

RULES = tuple(Rule(f"a.{name}", "", ()) for name in ("one", "two", "three", "four"))
BROKEN = Evidence("no", ("x1", "x2"))


@pytest.mark.parametrize(
    ("held", "broken", "opened", "verdict"),
    [
        (0, 0, 0, Verdict.NOT_EXERCISED),
        (0, 0, 3, Verdict.UNDECIDED),
        (1, 0, 9, Verdict.CONFORMS),
        (9, 1, 9, Verdict.DEVIATES),
    ],
)
def test_a_verdict(held: int, broken: int, opened: int, verdict: Verdict) -> None:
    tally = Tally(RULES)
    tally.held("a.one", held)
    for _ in range(broken):
        tally.broke("a.one", BROKEN)
    if opened:
        tally.open("a.one", "nobody knows", opened)
    finding = tally.findings()[0]
    assert (finding.verdict, finding.held, finding.broken, finding.open) == (verdict, held, broken, opened)


def test_the_smallest_and_earliest_evidence_is_kept() -> None:
    tally = Tally(RULES)
    for at in range(9, 0, -1):
        tally.check("a.one", False, Evidence("three", ("x1", "x2", "x3"), at=at))
        tally.check("a.one", False, Evidence("one", ("x1",), at=at))
    [finding, *_] = tally.findings()
    assert (finding.broken, len(finding.evidence)) == (18, KEPT)
    assert [(found.says, found.at) for found in finding.evidence[:2]] == [("one", 1), ("one", 2)]


def test_reasons_come_most_frequent_first() -> None:
    tally = Tally(RULES)
    tally.open("a.one", "rare")
    tally.open("a.one", "frequent", 2)
    assert tally.findings()[0].reasons == (("frequent", 2), ("rare", 1))


def test_an_assumption_differs_once() -> None:
    tally = Tally(RULES)
    tally.differs(29, "all", "success", BROKEN)
    tally.differs(29, "all", "something else", BROKEN)
    assert [(found.number, found.found) for found in tally.differences] == [(29, "success")]
    assert tally.findings()[0].verdict == Verdict.NOT_EXERCISED


def test_an_undeclared_rule_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Tally(RULES).held("a.five")


def test_coverage_and_agreement() -> None:
    tally = Tally(RULES)
    tally.held("a.one")
    tally.broke("a.two", BROKEN)
    tally.open("a.three", "nobody knows")
    assert coverage(tally.findings()) == (3, 4)
    assert agreement(tally.findings()) == (1, 2)
