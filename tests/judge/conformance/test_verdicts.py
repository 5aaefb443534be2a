"""Verdicts from what held, broke and stayed open; coverage apart from agreement."""

import ast
import re
from pathlib import Path

import pytest
from tests.kit.traces import a_trace, call

import ranksim.judge.conformance
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Trace
from ranksim.judge.conformance.compare import RULES as ALL_RULES
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.judging import FAMILIES, Judge
from ranksim.judge.conformance.rate.windows import BY_CLASS, REMAINING
from ranksim.judge.conformance.report.as_dict import judgement_data
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Rule
from ranksim.judge.conformance.verdict.unseen import UNSEEN, unseen_cases
from ranksim.judge.conformance.verdict.verdicts import (
    IN_KEEPING,
    KEPT,
    Evidence,
    Tally,
    Verdict,
    agreement,
    coverage,
    merged_findings,
    missing_cases,
    rules_decided,
)

SPLIT = {
    rule.name: rule.cases
    for make in FAMILIES
    for rule in make(Options.of()).tally.rules
    if rule.cases or rule.name in (*BY_CLASS.values(), REMAINING, "access.accepted", "quota.counted")
}
"""Rules that have cases, some by the keys and plans of a deployment."""


@pytest.mark.parametrize(
    "module", sorted(Path(ranksim.judge.conformance.__file__).parent.rglob("*.py")), ids=str
)
def test_what_breaks_a_rule_with_cases_is_of_one(module: Path) -> None:
    """A breach of no case stands beside the case that it broke, which then seems not exercised."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    named = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for one in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if not isinstance(one.func, ast.Attribute) or one.func.attr not in ("broke", "check"):
            continue
        if not ast.unparse(one.func.value).endswith("tally") or any(
            word.arg == "case" for word in one.keywords
        ):
            continue
        rule = ast.unparse(one.args[0])
        name = named.get(rule, rule.strip("'"))
        assert name not in SPLIT, f"{module}:{one.lineno}: {name}"


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


def test_coverage_and_agreement_count_cases() -> None:
    """A rule that was exercised and never decided covers nothing."""
    tally = Tally(RULES)
    tally.held("a.one")
    tally.broke("a.two", BROKEN)
    tally.open("a.three", "nobody knows")
    assert coverage(tally.findings()) == (2, 4)
    assert agreement(tally.findings()) == (1, 2)
    assert rules_decided(tally.findings()) == (2, 4)


SPLIT = (Rule("b.split", "", (), cases=("north", "south")),)


def test_a_case_is_exercised_by_what_would_have_shown_it_broken() -> None:
    tally = Tally(SPLIT)
    tally.expect("b.split", "east")
    tally.held("b.split", 3, case="south", by=("x1", "x2"))
    tally.held("b.split", case="south", by=("x2", "x3", "x4"))
    [finding] = tally.findings()
    assert [(case.name, case.held, case.by) for case in finding.cases] == [
        ("north", 0, ()),
        ("south", 4, ("x1", "x2", "x3")),
        ("east", 0, ()),
    ]
    assert (finding.exercised, finding.left, finding.in_all_cases) == (1, ("north", "east"), False)
    assert coverage([finding]) == (1, 3)


def test_an_instance_of_several_cases_is_counted_once() -> None:
    tally = Tally(SPLIT)
    tally.held("b.split", case="north", by=("x1",))
    tally.covers("b.split", "south", ("x1",))
    [finding] = tally.findings()
    assert (finding.held, finding.exercised, finding.in_all_cases) == (1, 2, True)


def test_a_case_that_broke_is_exercised_and_does_not_conform() -> None:
    tally = Tally(SPLIT)
    tally.held("b.split", case="north", by=("x1",))
    tally.check("b.split", False, BROKEN, case="north")
    tally.check("b.split", True, Evidence("", ("x9",)), case="south")
    [finding] = tally.findings()
    assert [(case.exercised, case.conforms) for case in finding.cases] == [(True, False), (True, True)]
    assert (finding.verdict, agreement([finding])) == (Verdict.DEVIATES, (1, 2))
    assert finding.cases[0].by == ("x1", "x2")


def test_what_is_of_no_case_counts_beside_them() -> None:
    tally = Tally(SPLIT)
    tally.held("b.split")
    [finding] = tally.findings()
    assert (finding.exercised, len(finding.cases)) == (1, 3)


@pytest.mark.parametrize("maker", FAMILIES)
def test_no_rule_conforms_in_no_case(maker: type[Judge]) -> None:
    """What could not have shown a breach decides nothing, however often it held, in one run or several."""
    tally = maker(Options.of()).tally
    for rule in tally.rules:
        tally.held(rule.name, 7, case=None)
    runs = [tally.findings(), tally.findings()]
    for finding in (*tally.findings(), *merged_findings(runs)):
        assert (finding.verdict, finding.exercised) == (Verdict.UNDECIDED, 0)
        assert dict(finding.reasons) == {IN_KEEPING: finding.held}
    for rule in tally.rules:
        tally.held(rule.name)
    for finding in merged_findings([*runs, tally.findings()]):
        reasons = tuple((says, 1) for says in missing_cases(finding.rule, [ANY]))
        verdict = Verdict.UNDECIDED if reasons else Verdict.CONFORMS
        assert (finding.verdict, finding.exercised, finding.reasons) == (verdict, 1, reasons)


EXAMPLES = (
    *("key main, no more", "keyword_briefs, at once", "keyword_briefs"),
    *("no key, read", "a wrong key, read", "job.completed", "job.failed", "failed"),
    *("an answer within 10 s", "a late 2xx", "a last page", "a page before others", "at once"),
)
"""Cases, some of them of a deployment's keys and metrics."""


@pytest.mark.parametrize("rule", [rule for rule in ALL_RULES if rule.essential], ids=lambda rule: rule.name)
def test_a_rule_conforms_once_its_essential_cases_held(rule: Rule) -> None:
    """In whichever run, and however often the others held; a breach of any other case still deviates."""
    name, lists = rule.name, []
    for pattern in rule.essential:
        case = next(case for case in (*rule.cases, *EXAMPLES) if re.fullmatch(pattern, case))
        tally = Tally([rule])
        tally.held(name, 9, case="key main, no fewer")
        tally.held(name, case=case)
        [finding] = tally.findings()
        left = [says for other, says in rule.essential.items() if other != pattern]
        assert finding.verdict == (Verdict.UNDECIDED if left else Verdict.CONFORMS)
        assert [why for why, _ in finding.reasons] == left
        assert finding.exercised == 2
        lists.append(tally.findings())
    [joined] = merged_findings(lists)
    assert (joined.verdict, joined.reasons) == (Verdict.CONFORMS, ())
    tally.broke(name, Evidence("wrong", ("x1",)), case="another")
    assert tally.findings()[0].verdict == Verdict.DEVIATES


def test_essential_cases_and_what_is_told_unseen_are_cases_that_rules_have() -> None:
    known = {rule.name: rule.cases or EXAMPLES for rule in ALL_RULES}
    for rule in ALL_RULES:
        for pattern in rule.essential:
            assert any(re.fullmatch(pattern, case) for case in known[rule.name]), (rule.name, pattern)
    places = [f"{name}/{case}" for name, cases in known.items() for case in cases]
    for says, pattern in UNSEEN:
        assert any(re.fullmatch(pattern, place) for place in places), says


def test_what_happened_nowhere_is_counted_and_what_happened_once_is_not() -> None:
    failed = {("job.reason", "failed"): False, ("job.final", "failed"): False}
    cases = {("quota.limit", "briefs, at once"): False, **failed}
    assert list(unseen_cases(cases)) == [("no two calls met at once", 1), ("no job failed", 2)]
    assert list(unseen_cases(cases | {("job.final", "failed"): True})) == [("no two calls met at once", 1)]
    assert list(unseen_cases({})) == []


def test_evidence_writes_durations_in_one_notation() -> None:
    """As 9m36.717s, which files take, and not as 576.717 s."""
    package = Path(ranksim.judge.conformance.__file__).parent
    computed = re.compile(r"""f["'].*\} s\b""")
    found = [path.name for path in package.rglob("*.py") if computed.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_texts_of_rules_have_the_numbers_of_the_policy() -> None:
    policy = Policy.model_validate({"facts": {"rates": {"read": 20}, "page_default": 5}})
    for given, reads, page in ((policy, 20, 5), (None, 600, 50)):
        says = {rule["name"]: rule["says"] for rule in judgement_data(compare(Trace(), given))["rules"]}
        assert says["rate.read"] == f"A key makes {reads} reads in 1m, no more and no fewer"
        assert says["paging.default"] == f"Without a limit a page has {page} items where more are there"
        assert says["resource.envelope"] == "A success is {data}, a collection {data, has_more, next_cursor}"
    assert all("$" not in rule.says for rule in ALL_RULES)


@pytest.mark.parametrize("rule", [rule for rule in ALL_RULES if rule.refuses], ids=lambda rule: rule.name)
def test_a_rule_that_tells_refusals_has_a_way_that_is_one(rule: Rule) -> None:
    cases = [case for way in rule.ways for _, case in way.each()]
    assert any(re.fullmatch(rule.refuses, case) for case in cases), cases


def test_refusals_that_nothing_promises_are_counted_and_no_others() -> None:
    refused = call("domains.list", 0, 0.1, code="rate_limited", status=429)
    public = call("webhook_events.list", 1, 1.1, code="unauthorized", status=401, key=None)
    stranger = call("domains.list", 2, 2.1, code="unauthorized", status=401, key=None)
    unprotected = call("domains.list", 3, 3.1, [], key=None)
    assert compare(a_trace([refused, stranger])).unpromised == 0
    assert compare(a_trace([refused, stranger, unprotected])).finding("access.key").broken == 1
    assert compare(a_trace([refused, stranger, unprotected])).unpromised == 0
    assert compare(a_trace([refused, public, stranger])).unpromised == 1
