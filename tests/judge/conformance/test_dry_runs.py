"""Dry runs: what a trace shows of their doing nothing, and telling the truth."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ranksim.core.contract.policy import Policy

Steps = Callable[[ModuleType], list[Any]]


def jobs(d: ModuleType, at: float, *ids: str) -> Any:
    """A complete list of jobs."""
    items = [{"id": id, "kind": "crawl", "status": "done"} for id in ids]
    return d.call(at, "jobs.list", items, more={"has_more": False, "next_cursor": None})


def run(d: ModuleType, at: float, on: str = "d1", **more: Any) -> Any:
    """A rank run asked for."""
    return d.job(at, "rank_run", on=on, **more)


def two_runs(d: ModuleType, joined: int = 200) -> list[Any]:
    """A rank run of another domain, joined by a second call."""
    return [run(d, 0, "d2", id="a"), run(d, 1, "d2", id="a", status=joined)]


def tracked(d: ModuleType, used: int, *calls: Any) -> list[Any]:
    """Calls on a list of the trace's own, tracked by a scan, where so many of 20 slots are taken."""
    return [d.domain(-9), d.listed(-8), d.scan(-7), d.slots(0, used), *calls, d.slots(9, used)]


TABLE: list[tuple[str, str, Steps, str]] = [
    # free
    (
        "free: nothing used",
        "dry_run.free",
        lambda d: [d.usage(0, 2), d.briefs(1, dry=True), d.usage(2, 2)],
        "held",
    ),
    (
        "free: a unit used",
        "dry_run.free",
        lambda d: [d.usage(0, 2), d.briefs(1, dry=True), d.usage(2, 3)],
        "broke",
    ),
    (
        "free: a slot used",
        "dry_run.free",
        lambda d: [d.slots(0, 2), d.words(1, "a", dry=True), d.slots(2, 3)],
        "broke",
    ),
    (
        "free: cost reserved",
        "dry_run.free",
        lambda d: [d.cost(0), d.job(1, dry=True), d.cost(2, "0.00", "0.10")],
        "broke",
    ),
    (
        "free: cost settled, where cost is reserved and none was",
        "dry_run.free",
        lambda d: [d.cost(-9, "0.10", "0.10"), d.cost(0, "0.20"), d.job(1, dry=True), d.cost(2, "0.30")],
        "broke",
    ),
    (
        "free: cost settled, where work may settle that reserved nothing",
        "dry_run.free",
        lambda d: [d.cost(0, "0.20"), d.job(1, dry=True), d.cost(2, "0.30")],
        "held",
    ),
    (
        "free: cost settled, while what is reserved stayed",
        "dry_run.free",
        lambda d: [d.cost(0, "0.20", "0.10"), d.job(1, dry=True), d.cost(2, "0.30", "0.10")],
        "broke",
    ),
    (
        "free: cost settled, of what was reserved",
        "dry_run.free",
        lambda d: [d.cost(0, "0.20", "0.10"), d.job(1, dry=True), d.cost(2, "0.30")],
        "held",
    ),
    (
        "free: a live call beside it",
        "dry_run.free",
        lambda d: [d.usage(0, 2), d.briefs(1, dry=True), d.briefs(1), d.usage(2, 3)],
        "-",
    ),
    # queues
    (
        "queues: nothing",
        "dry_run.queues",
        lambda d: [jobs(d, 0, "a"), d.job(1, dry=True), jobs(d, 2, "a")],
        "held",
    ),
    (
        "queues: a job appears",
        "dry_run.queues",
        lambda d: [jobs(d, 0, "a"), d.job(1, dry=True), jobs(d, 2, "a", "b")],
        "broke",
    ),
    (
        "queues: a job of a live call appears",
        "dry_run.queues",
        lambda d: [jobs(d, 0), d.job(1, dry=True), d.job(2, id="b"), jobs(d, 3, "b")],
        "held",
    ),
    (
        "queues: a job of a lost call may appear",
        "dry_run.queues",
        lambda d: [jobs(d, 0), d.job(1, dry=True), d.job(2, lost=True), jobs(d, 5, "b")],
        "held",
    ),
    (
        "queues: a call joins what only the dry run can have started",
        "dry_run.queues",
        lambda d: [*two_runs(d), run(d, 4, dry=True, report=d.report()), run(d, 5, id="c", status=200)],
        "broke",
    ),
    (
        "queues: a call begins a run of its own after a dry run",
        "dry_run.queues",
        lambda d: [*two_runs(d), run(d, 4, dry=True, report=d.report()), run(d, 5, id="c")],
        "held",
    ),
    (
        "queues: a lost call may have begun what was joined",
        "dry_run.queues",
        lambda d: [
            *two_runs(d),
            run(d, 4, dry=True, report=d.report()),
            run(d, 5, lost=True),
            run(d, 6, id="c", status=200),
        ],
        "held",
    ),
    (
        "queues: all of GraphQL has one status",
        "dry_run.queues",
        lambda d: [
            *two_runs(d),
            run(d, 4, dry=True, report=d.report()),
            run(d, 5, id="c", status=200).model_copy(update={"surface": "graphql"}),
        ],
        "held",
    ),
    (
        "queues: joins and runs may have one status",
        "dry_run.queues",
        lambda d: [
            *two_runs(d, joined=202),
            run(d, 4, dry=True, report=d.report()),
            run(d, 5, id="c"),
        ],
        "held",
    ),
    (
        "queues: the job it answered exists",
        "dry_run.queues",
        lambda d: [d.job(1, dry=True, report={"id": "j", "status": "queued"}), d.shown(2, "j")],
        "broke",
    ),
    # verdict
    (
        "verdict: yes and granted",
        "dry_run.verdict",
        lambda d: [d.job(0, dry=True, report=d.report()), d.job(1)],
        "held",
    ),
    (
        "verdict: yes and refused",
        "dry_run.verdict",
        lambda d: [d.words(0, "a", dry=True, report=d.report()), d.words(1, "a", **d.full())],
        "broke",
    ),
    (
        "verdict: no and granted",
        "dry_run.verdict",
        lambda d: [d.job(0, dry=True, report=d.report(1)), d.job(1)],
        "broke",
    ),
    (
        "verdict: cooling and granted later",
        "dry_run.verdict",
        lambda d: [d.job(0, dry=True, report=d.report(6)), d.job(1)],
        "open",
    ),
    (
        "verdict: slots and granted, when a month may have ended",
        "dry_run.verdict",
        lambda d: [d.words(0, "a", dry=True, report=d.report(5)), d.words(1, "a")],
        "open",
    ),
    (
        "verdict: another call between",
        "dry_run.verdict",
        lambda d: [d.words(0, "a", dry=True, report=d.report()), d.scan(1), d.words(2, "a", **d.full())],
        "-",
    ),
    (
        "verdict: cooldown first, then slots",
        "dry_run.verdict",
        lambda d: [d.words(0, "a", dry=True, report=d.report(6)), d.words(1, "a", **d.full())],
        "broke",
    ),
    (
        "verdict: yes where no slot is free",
        "dry_run.verdict",
        lambda d: tracked(d, 20, d.words(1, "a", "b", dry=True, report=d.report())),
        "broke",
    ),
    (
        "verdict: yes where one word of two fits, which may be granted in part (U64)",
        "dry_run.verdict",
        lambda d: tracked(d, 19, d.words(1, "a", "b", dry=True, report=d.report())),
        "-",
    ),
    # order
    (
        "order: the first that fails",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=d.report(2, 4, 6))],
        "held",
    ),
    (
        "order: the last that fails",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=d.report(2, 6, refusal=6))],
        "broke",
    ),
    (
        "order: allowed though one fails",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=d.report(6, refusal=0))],
        "broke",
    ),
    ("order: five checks", "dry_run.order", lambda d: [d.job(0, dry=True, report=short(d))], "open"),
    (
        "order: five checks, and not the first that fails",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=short(d, 2, 4, refusal=4))],
        "broke",
    ),
    (
        "order: five checks, allowed though one fails",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=short(d, 4, refusal=0))],
        "broke",
    ),
    (
        "order: five checks, refused with one that is listed as met",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=short(d, refusal=3))],
        "broke",
    ),
    (
        "order: five checks, refused with the sixth",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=short(d, 6))],
        "open",
    ),
    (
        "order: five checks, refused with one before those that are listed to fail",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report={**short(d, 1, 4), "checks": d.report(1, 4)["checks"][1:]})],
        "open",
    ),
    (
        "order: five checks, listed otherwise",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report={**d.report(2, 4), "checks": short(d, 2, 4)["checks"][::-1]})],
        "open",
    ),
    (
        "order: five checks, and a run to join",
        "dry_run.order",
        lambda d: [d.job(0, "rank_run", dry=True, report=short(d, 4, refusal=0, joins="j1"))],
        "open",
    ),
    (
        "order: five checks, and names of its own",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=renamed(short(d, refusal=3)))],
        "open",
    ),
    (
        "order: words that do not fit, refused with the cooldown",
        "dry_run.order",
        lambda d: tracked(d, 20, d.words(1, "a", dry=True, report=short(d, 6))),
        "broke",
    ),
    (
        "order: words that another may have added, refused with the cooldown",
        "dry_run.order",
        lambda d: tracked(d, 20, d.words(1, "a", dry=True, report=short(d, 6)), d.words(0.5, "A")),
        "open",
    ),
    ("order: listed otherwise", "dry_run.order", lambda d: [d.job(0, dry=True, report=turned(d))], "held"),
    (
        "order: listed otherwise, and refused by the second",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=turned(d, 2, 4, refusal=4))],
        "broke",
    ),
    (
        "order: listed up to the first failure",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=cut(d, 2))],
        "open",
    ),
    (
        "order: listed up to the first failure, and refused by another",
        "dry_run.order",
        lambda d: [d.job(0, dry=True, report=cut(d, 2, refusal=4))],
        "broke",
    ),
    ("order: another form", "dry_run.order", lambda d: [d.job(0, dry=True)], "open"),
    ("order: the live error", "dry_run.order", lambda d: [d.job(0, dry=True, **d.LACKING)], "open"),
]


def short(d: ModuleType, *failing: int, **more: Any) -> Any:
    said = d.report(*failing, **more)
    return {**said, "checks": said["checks"][:5]}


def renamed(said: Any) -> Any:
    return {**said, "checks": [{**check, "check": check["check"].upper()} for check in said["checks"]]}


def turned(d: ModuleType, *failing: int, **more: Any) -> Any:
    said = d.report(*failing, **more)
    return {**said, "checks": said["checks"][::-1]}


def cut(d: ModuleType, failing: int, **more: Any) -> Any:
    said = d.report(failing, **more)
    return {**said, "checks": said["checks"][:failing]}


@pytest.mark.fact("S29", "S59", "S66", "U89")
@pytest.mark.parametrize(
    ("rule", "steps", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_a_trace_shows_of_dry_runs(d: ModuleType, rule: str, steps: Steps, expected: str) -> None:
    assert d.verdict(rule, steps(d)) == expected


@pytest.mark.fact("U56", "U89")
def test_other_forms_of_the_answer_differ(d: ModuleType) -> None:
    live = [d.job(0, dry=True, **d.LACKING)]
    assert d.differing(live) == {56}
    assert (
        d.verdict("dry_run.order", live, Policy().replace(assumptions={"dry_run_reply": "report"})) == "broke"
    )
    assert d.differing([d.job(0, dry=True)]) == {89}
    assert d.differing([d.job(0, dry=True, report=turned(d, 2, 4))]) == {89}
    assert d.differing([d.job(0, dry=True, report=cut(d, 2))]) == {89}


@pytest.mark.fact("U89")
def test_a_check_of_another_name_is_no_other_order(d: ModuleType) -> None:
    def told(report: dict[str, Any]) -> tuple[str, str]:
        [found] = d.judged([d.job(0, dry=True, report=report)]).differences
        return found.assumed, found.found

    report = d.report()
    report["checks"][2]["check"] = "cost"
    assert told(report) == ("cost_ceiling", "cost")
    assert told(turned(d, 2, 4)) == ("six checks in their order", "another order")


@pytest.mark.fact("U46")
def test_a_cooldown_that_may_begin_at_a_finish_may_begin_after_a_dry_run(d: ModuleType) -> None:
    steps = [d.job(0, dry=True, report=d.report()), d.job(1, **d.cooling(5))]
    assert d.verdict("dry_run.verdict", steps) == "open"
    pinned = Policy().replace(assumptions={"cooldown_from": "acceptance"})
    assert d.verdict("dry_run.verdict", steps, pinned) == "broke"


@pytest.mark.fact("S65", "S66", "U46")
def test_a_yes_while_it_cools_breaks_where_what_was_accepted_tells_when_cooldowns_begin(
    d: ModuleType,
) -> None:
    """While its run is under way a cooldown cannot have begun, if it begins at a finish."""
    again = [d.job(11, id="b"), d.job(13, dry=True, report=d.report()), d.shown(15, "b")]
    before = [d.entitled(-9, crawl=10), d.job(0, id="a")]
    assert d.verdict("dry_run.verdict", [*before, *again]) == "-"
    soon = [*before, d.shown(6, "a", "running"), d.shown(8, "a")]  # 3 s after its finish the next is accepted
    assert d.verdict("dry_run.verdict", [*soon, *again]) == "broke"


def test_foreign_traffic_leaves_it_open(d: ModuleType) -> None:
    steps = [d.usage(0, 2), d.briefs(1, dry=True), d.usage(2, 3)]
    assert d.verdict("dry_run.free", steps, exclusive=False) == "open"


def cases(d: ModuleType, rule: str, entries: list[Any]) -> dict[str, str]:
    found = d.finding(d.judged(entries), rule).cases
    return {case.name: "broke" if case.broken else "held" for case in found if case.exercised}


@pytest.mark.fact("S29", "S66")
def test_what_dry_runs_of_one_operation_spent_is_its_case(d: ModuleType) -> None:
    before, after = d.cost(0, "0.20", "0.10"), d.cost(3, "0.30", "0.10")
    one, other = d.job(1, dry=True, report=d.report()), d.job(2, "ai_scan", dry=True, report=d.report())
    assert cases(d, "dry_run.free", [before, one, after]) == {"crawl": "broke"}
    assert "crawl" not in cases(d, "dry_run.free", [before, one, other, after])
    assert cases(d, "dry_run.free", [before, one, d.cost(3, "0.20", "0.10")]) == {"crawl": "held"}


@pytest.mark.fact("S38", "S66")
def test_a_count_that_dry_runs_explain_is_their_finding_alone(d: ModuleType) -> None:
    steps = [d.usage(0, 2), d.briefs(1, dry=True), d.briefs(2), d.usage(3, 4)]
    assert d.verdict("dry_run.free", steps) == "broke"
    assert d.verdict("quota.counted", steps) == "open"
    further = [*steps, d.usage(4, 5)]  # by itself, too
    assert d.verdict("dry_run.free", further) == "-"
    assert d.verdict("quota.counted", further) == "broke"


@pytest.mark.fact("S29", "S66")
def test_reserved_cost_that_stayed_shows_nothing_where_none_is_ever_reserved(d: ModuleType) -> None:
    entries = [d.cost(0, "0.20"), d.job(1, dry=True, report=d.report()), d.cost(3, "0.20")]
    assert cases(d, "dry_run.free", entries) == {}


@pytest.mark.fact("S66")
def test_a_kind_is_shown_to_start_nothing_by_a_yes_and_by_lists_that_would_show_it(d: ModuleType) -> None:
    tried = d.job(1, dry=True, report=d.report())
    assert cases(d, "dry_run.queues", [jobs(d, 0), tried, jobs(d, 3)]) == {"crawl": "held"}
    refused = d.job(1, dry=True, report=d.report(6))
    assert cases(d, "dry_run.queues", [jobs(d, 0), refused, jobs(d, 3)]) == {}
    scans = [jobs(d, at).model_copy(update={"query": {"kind": "ai_scan"}}) for at in (0, 3)]
    assert cases(d, "dry_run.queues", [scans[0], tried, scans[1]]) == {}


@pytest.mark.fact("S52", "S66")
def test_a_rank_run_that_was_joined_later_may_be_the_dry_runs(d: ModuleType) -> None:
    tried = run(d, 1, dry=True, report=d.report())
    assert cases(d, "dry_run.queues", [jobs(d, 0), tried, jobs(d, 3)]) == {"rank_run": "held"}
    later = run(d, 2, id="b")
    assert cases(d, "dry_run.queues", [jobs(d, 0), tried, later, jobs(d, 3, "b")]) == {}
    elsewhere = run(d, 2, "d2", id="b")
    both = [jobs(d, 0), tried, elsewhere, jobs(d, 3, "b")]
    assert cases(d, "dry_run.queues", both) == {"rank_run": "held"}


@pytest.mark.fact("S66", "S70")
def test_lists_of_a_key_bound_to_another_domain_show_nothing(d: ModuleType) -> None:
    tried = d.job(1, dry=True, report=d.report())
    own = d.job(1, on="dom_1", dry=True, report=d.report())
    lists = [jobs(d, at).model_copy(update={"api_key": "scoped"}) for at in (0, 3)]
    assert cases(d, "dry_run.queues", [lists[0], tried, lists[1]]) == {}
    assert cases(d, "dry_run.queues", [lists[0], own, lists[1]]) == {"crawl": "held"}


@pytest.mark.fact("S52", "S66")
def test_a_run_of_its_own_shows_that_the_dry_run_had_started_none_that_lasted(d: ModuleType) -> None:
    tried = [*two_runs(d), run(d, 4, dry=True, report=d.report()), run(d, 5, id="c")]
    shown = d.shown(9, "c", "running", "rank_run")
    assert cases(d, "dry_run.queues", [*tried, shown]) == {"rank_run": "held"}
    assert cases(d, "dry_run.queues", tried) == {}  # it may have been over
