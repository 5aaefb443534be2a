"""Cooldowns and joins: what a trace shows of who may run the same thing again."""

from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from ranksim.core.contract.policy import Policy
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.spending.activity import SpendWork
from ranksim.judge.conformance.spending.cooldown_groups import CooldownGroup

Steps = Callable[[ModuleType], list[Any]]


def lasting(d: ModuleType, *calls: Any, seconds: int = 100) -> list[Any]:
    """Calls where crawls and rank runs have a cooldown, on a domain that the trace made."""
    return [d.entitled(-2, crawl=seconds, rank_run=seconds), d.domain(-1), *calls]


def early(d: ModuleType, gap: float) -> list[Any]:
    """Two crawls that both were done, the second begun after the first was seen done."""
    return lasting(d, d.job(0, id="a"), d.shown(10, "a"), d.job(gap, id="b"), d.shown(gap + 9, "b"))


def at_places(d: ModuleType, *pairs: tuple[float, float]) -> list[Any]:
    """Crawls with a cooldown of 4 s, two on each of some domains: when the first, and how long after it."""
    calls = [d.domain(-1 + n / 10, f"d{n}") for n in range(len(pairs))]
    for n, (begun, gap) in enumerate(pairs):
        calls += [
            d.job(begun, id=f"a{n}", on=f"d{n}"),
            d.shown(begun + 1, f"a{n}"),
            d.job(begun + gap, id=f"b{n}", on=f"d{n}"),
            d.shown(begun + gap + 1, f"b{n}"),
        ]
    return [d.entitled(-2, crawl=4), *calls]


def beside_a_run(d: ModuleType, *calls: Any) -> list[Any]:
    """Two crawls of another domain that ran at once: with a cooldown of 100 s, none begins at acceptance."""
    two = [d.job(0, id="p", on="d2"), d.job(10, id="q", on="d2"), d.shown(21, "p"), d.shown(22, "q")]
    return lasting(d, d.domain(-0.5, "d2"), *two, d.job(30, id="a"), *calls)


def apart(d: ModuleType, *calls: Any) -> list[Any]:
    """Crawls of three domains within 100 s, each of which was done: domains share no cooldown."""
    made = [d.domain(-1 + n / 10, f"d{n}") for n in (1, 2, 3)]
    for n, begun in ((2, 0), (1, 1), (3, 20)):
        made += [d.job(begun, id=f"j{n}", on=f"d{n}"), d.shown(begun + 8, f"j{n}")]
    return [d.entitled(-2, crawl=100), *made, *calls]


TABLE: list[tuple[str, str, Steps, str]] = [
    # enforced
    (
        "enforced: while the first ran, and soon after another had ended",
        "cooldown.enforced",
        lambda d: beside_a_run(d, d.shown(150, "a", "running"), d.shown(152, "a"), d.job(153, id="b")),
        "broke",
    ),
    (
        "enforced: while the first ran, and after another that may have ended long before",
        "cooldown.enforced",
        lambda d: beside_a_run(d, d.shown(40, "a", "running"), d.shown(152, "a"), d.job(153, id="b")),
        "held",
    ),
    (
        "enforced: while the first ran, and soon after another had failed",
        "cooldown.enforced",
        lambda d: beside_a_run(
            d, d.shown(150, "a", "running"), d.shown(152, "a", "failed"), d.job(153, id="b")
        ),
        "held",
    ),
    (
        "enforced: a fifth too early, at three places in a second",
        "cooldown.enforced",
        lambda d: at_places(d, (0, 3.4), (10.33, 3.4), (20.66, 3.4)),
        "broke",
    ),
    (
        "enforced: a fifth too early, at one place in a second",
        "cooldown.enforced",
        lambda d: at_places(d, (0, 3.4), (10, 3.4), (20, 3.4)),
        "held",
    ),
    (
        "enforced: where the second is rounded up, or the first down",
        "cooldown.enforced",
        lambda d: at_places(d, (0.9, 3.2), (10.33, 3.7), (20.1, 4)),
        "held",
    ),
    ("enforced: after the cooldown", "cooldown.enforced", lambda d: early(d, 101), "held"),
    ("enforced: 20 % too early", "cooldown.enforced", lambda d: early(d, 80), "broke"),
    ("enforced: within the slack of clocks", "cooldown.enforced", lambda d: early(d, 99.5), "held"),
    (
        "enforced: the first may have failed",
        "cooldown.enforced",
        lambda d: lasting(d, d.job(0, id="a"), d.job(50, id="b"), d.shown(60, "b")),
        "open",
    ),
    (
        "enforced: the first failed",
        "cooldown.enforced",
        lambda d: lasting(
            d, d.job(0, id="a"), d.shown(9, "a", "failed"), d.job(50, id="b"), d.shown(60, "b")
        ),
        "open",
    ),
    (
        "enforced: another domain",
        "cooldown.enforced",
        lambda d: lasting(d, d.job(0), d.domain(1, "d2"), d.job(2, on="d2")),
        "-",
    ),
    (
        "enforced: a third run may have failed and cleared it",
        "cooldown.enforced",
        lambda d: [*early(d, 50), d.job(20, lost=True)],
        "open",
    ),
    (
        "enforced: briefs never fail",
        "cooldown.enforced",
        lambda d: [d.entitled(0, keyword_briefs=10), d.briefs(1, **d.cooling(3)), d.briefs(5), d.briefs(9)],
        "broke",
    ),
    (
        "enforced: briefs may have no such check",
        "cooldown.enforced",
        lambda d: [d.entitled(0, keyword_briefs=10), d.briefs(5), d.briefs(9)],
        "-",
    ),
    # refused
    (
        "refused: soon after",
        "cooldown.refused",
        lambda d: lasting(d, d.job(0), d.job(50, **d.cooling(50))),
        "held",
    ),
    (
        "refused: long after, where each domain has its own",
        "cooldown.refused",
        lambda d: lasting(
            d,
            d.job(0, id="a"),
            d.shown(9, "a"),
            d.domain(10, "d2"),
            d.job(11, on="d2", id="b"),
            d.shown(19, "b"),
            d.job(150, **d.cooling(1)),
        ),
        "broke",
    ),
    (
        "refused: long after, where a run of another domain may have finished just then",
        "cooldown.refused",
        lambda d: lasting(d, d.job(0, id="a"), d.shown(9, "a"), d.job(130, **d.cooling(1))),
        "open",
    ),
    (
        "refused: never asked for before",
        "cooldown.refused",
        lambda d: lasting(d, d.job(5, **d.cooling(9))),
        "open",
    ),
    (
        "refused: a call without an answer",
        "cooldown.refused",
        lambda d: lasting(d, d.job(0, lost=True), d.job(300, **d.cooling(9))),
        "held",
    ),
    (
        "refused: it may have run before the trace",
        "cooldown.refused",
        lambda d: [d.entitled(-2, crawl=100), d.job(5, **d.cooling(9))],
        "open",
    ),
    # stated
    (
        "stated: what is left",
        "cooldown.stated",
        lambda d: lasting(d, d.job(0, id="a"), d.job(50, **d.cooling(50)), d.shown(51, "a")),
        "held",
    ),
    (
        "stated: 20 % too little",
        "cooldown.stated",
        lambda d: lasting(d, d.job(0, id="a"), d.job(50, **d.cooling(30)), d.shown(51, "a")),
        "broke",
    ),
    (
        "stated: more than there is",
        "cooldown.stated",
        lambda d: lasting(d, d.job(0, id="a"), d.shown(40, "a"), d.job(50, **d.cooling(120))),
        "broke",
    ),
    (
        "stated: more than there is, with what is left of the run perhaps",
        "cooldown.stated",
        lambda d: lasting(d, d.job(0, id="a"), d.job(50, **d.cooling(120)), d.shown(51, "a")),
        "open",
    ),
    (
        "stated: and not kept",
        "cooldown.stated",
        lambda d: [
            d.domain(-1),
            d.job(0, id="a"),
            d.job(5, **d.cooling(95)),
            d.shown(9, "a"),
            d.job(50, id="b"),
            d.shown(60, "b"),
        ],
        "broke",
    ),
    (
        "stated: more than is left",
        "cooldown.stated",
        lambda d: apart(d, d.job(50, on="d1", **d.cooling(65))),
        "broke",
    ),
    (
        "stated: what is left, if it began when the run was over",
        "cooldown.stated",
        lambda d: apart(d, d.job(50, on="d1", **d.cooling(58))),
        "held",
    ),
    (
        "stated: more than is left of it, and a call got lost",
        "cooldown.stated",
        lambda d: apart(d, d.job(10, on="d1", lost=True), d.job(50, on="d1", **d.cooling(65))),
        "held",
    ),
    (
        "stated: more than is left of it, and less than of a call that got lost",
        "cooldown.stated",
        lambda d: apart(d, d.job(30, on="d1", lost=True), d.job(50, on="d1", **d.cooling(65))),
        "broke",
    ),
    (
        "stated: what is left of no call that got lost",
        "cooldown.stated",
        lambda d: apart(
            d, d.domain(120, "d4"), d.job(150, on="d4", lost=True), d.job(180, on="d4", **d.cooling(60))
        ),
        "broke",
    ),
    (
        "stated: what is left of a call that got lost and was done late",
        "cooldown.stated",
        lambda d: lasting(d, d.job(0, lost=True), d.job(180, **d.cooling(60))),
        "-",
    ),
    (
        "stated: the run may have failed",
        "cooldown.stated",
        lambda d: [d.domain(-1), d.job(0, id="a"), d.job(5, **d.cooling(95)), d.job(50, id="b")],
        "open",
    ),
    # join
    (
        "join: the one that runs",
        "cooldown.join",
        lambda d: [d.job(0, "rank_run", id="a"), d.job(1, "rank_run", id="a", status=200)],
        "held",
    ),
    (
        "join: once so, once otherwise",
        "cooldown.join",
        lambda d: [
            d.job(0, "rank_run", id="a"),
            d.job(1, "rank_run", id="a", status=200),
            d.job(2, "rank_run", id="b"),
            d.shown(3, "a", "running", "rank_run"),
        ],
        "broke",
    ),
    (
        "join: both joined and refused for its cooldown, and before its health",
        "cooldown.join",
        lambda d: [
            d.job(0, "rank_run", id="a"),
            d.job(1, "rank_run", id="b"),
            d.job(1.5, "rank_run", id="a", status=200),
            d.shown(3, "a", "running", "rank_run"),
        ],
        "broke",
    ),
    # joins_only
    ("joins only: each its own", "cooldown.joins_only", lambda d: [d.job(0), d.job(1)], "held"),
    (
        "joins only: two crawls, one job",
        "cooldown.joins_only",
        lambda d: [d.job(0, id="a"), d.job(1, id="a")],
        "broke",
    ),
    (
        "joins only: a repeat",
        "cooldown.joins_only",
        lambda d: [d.job(0, id="a", idempotency_key="k"), d.job(1, id="a", idempotency_key="k")],
        "-",
    ),
    (
        "joins only: a run that has finished",
        "cooldown.joins_only",
        lambda d: [
            d.job(0, "rank_run", id="a"),
            d.shown(1, "a", "done", "rank_run"),
            d.job(2, "rank_run", id="a"),
        ],
        "broke",
    ),
]


@pytest.mark.fact("S52", "S53", "S65", "U46", "U91")
@pytest.mark.parametrize(
    ("rule", "steps", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_a_trace_shows_of_cooldowns(d: ModuleType, rule: str, steps: Steps, expected: str) -> None:
    assert d.verdict(rule, steps(d)) == expected


@pytest.mark.fact("S65")
@pytest.mark.parametrize(
    ("at", "stated", "expected"),
    [
        (0.5, 2, "held"),  # seconds of the caller's clock: 1.5 are left
        (0.5, 45, "held"),  # seconds of business time
        (0.2, 1, "broke"),
        (0.5, 70, "broke"),  # more than there is, by either
    ],
)
def test_a_wait_may_count_seconds_of_either_clock(
    d: ModuleType, at: float, stated: int, expected: str
) -> None:
    """A cooldown of a minute is over after 2 s where business time runs 30 times as fast."""
    refused = d.job(at, **d.cooling(stated), took=0.01)
    steps = lasting(d, d.job(0, id="a", took=0.01), d.shown(0.1, "a"), refused, seconds=60)
    assert d.verdict("cooldown.stated", steps, rate=30) == expected


@pytest.mark.fact("U46")
def test_what_is_left_of_a_run_is_in_no_cooldown_that_began_with_it(d: ModuleType) -> None:
    steps = lasting(d, d.job(0, id="a"), d.job(50, **d.cooling(120)), d.shown(51, "a"))
    pinned = Policy().replace(assumptions={"cooldown_from": "acceptance"})
    assert d.verdict("cooldown.stated", steps, pinned) == "broke"


@pytest.mark.fact("U46")
def test_what_begins_a_cooldown_is_not_found_where_nothing_was_refused_for_one(d: ModuleType) -> None:
    """Two runs accepted one after the other are as well those of a deployment without cooldowns."""
    steps = lasting(d, d.job(0, id="a"), d.job(50, id="b"), d.shown(51, "a", "running"))
    [found] = [one for one in d.judged(steps).differences if one.number == 46]
    assert (found.assumed, found.found) == ("per domain, from acceptance", "not from acceptance")
    steps += [d.shown(60, "b"), d.job(70, **d.cooling(90))]
    [found] = [one for one in d.judged(steps).differences if one.number == 46]
    assert found.found == "per domain, from finish"
    for known, pinned in ((steps[:-2], False), (steps, True)):
        choice = calibrate(d.history(known)).choice("cooldown_from")
        assert (choice.left, choice.pinned) == (("finish",), pinned)


@pytest.mark.fact("S65")
def test_a_cooldown_that_is_a_fifth_too_short_shows_in_its_last_fifth(d: ModuleType) -> None:
    def cases(*again: Any, seconds: int = 100) -> dict[str, bool]:
        steps = lasting(d, d.job(0, id="a"), d.shown(10, "a"), *again, d.shown(120, "a"), seconds=seconds)
        finding = d.finding(d.judged(steps), "cooldown.enforced")
        return {case.name: case.conforms for case in finding.cases if case.exercised}

    late = "crawl, in its last fifth"
    assert cases(d.job(50, **d.cooling(50))) == {"crawl": True}
    assert cases(d.job(90, **d.cooling(10))) == {"crawl": True, late: True}
    assert cases(d.job(90, id="b")) == {late: False}
    assert cases(d.job(60, id="b")) == {"crawl": False}


@pytest.mark.fact("S65", "U46")
@pytest.mark.parametrize(
    ("refused_at", "wait", "broken"), [(22, 98, True), (40, 88, False)], ids=["while it ran", "once it ended"]
)
def test_what_is_refused_while_it_runs_is_not_granted_to_two_at_once(
    d: ModuleType, refused_at: float, wait: int, broken: bool
) -> None:
    """By a cooldown from its finish alone both were in order, and the refusal while it ran was not."""
    steps = [d.shown(26, "j3", "running"), d.job(refused_at, on="d3", **d.cooling(wait)), d.domain(200, "d4")]
    twins = [d.job(201, id=name, on="d4", took=2) for name in ("b", "c")]
    looks = [d.shown(at, name, "running") for at, name in ((205, "b"), (206, "c"))]
    finding = d.finding(d.judged(apart(d, *steps, *twins, *looks)), "cooldown.enforced")
    assert [case.name for case in finding.cases if case.broken] == ["crawl, at once"] * broken


@pytest.mark.fact("S52")
def test_two_rank_runs_at_once_of_which_one_is_joined_are_not_both_granted(d: ModuleType) -> None:
    def run(sent: float, key: str) -> Any:
        return d.job(sent, kind="rank_run", id="a", took=2, idempotency_key=key)

    for second, met in ((run(1, "k2"), True), (run(3, "k2"), False), (run(1, "k1"), False)):
        finding = d.finding(d.judged(lasting(d, run(0, "k1"), second)), "cooldown.enforced")
        assert ("rank_run, at once" in [case.name for case in finding.cases if case.conforms]) == met


@pytest.mark.fact("U46")
@pytest.mark.parametrize(("first", "differing"), [("failed", {46}), ("done", set())])
def test_a_refusal_after_failed_runs_alone_shows_that_these_arm(
    d: ModuleType, first: str, differing: set[int]
) -> None:
    """The domain was there before, and its first run shows that nothing cooled."""
    steps = [d.entitled(-2, crawl=100), d.job(0, id="a", on="d9"), d.shown(5, "a", first)]
    assert d.differing([*steps, d.job(10, on="d9", **d.cooling(90))]) == differing


@pytest.mark.fact("U46")
def test_a_refusal_on_another_domain_excludes_one_cooldown_a_domain(d: ModuleType) -> None:
    steps = lasting(d, d.job(0), d.domain(1, "d2"), d.job(2, on="d2", **d.cooling(98)))
    assert d.verdict("cooldown.refused", steps) == "held"
    assert d.differing(steps) == {46}
    assert (
        d.verdict("cooldown.refused", steps, Policy().replace(assumptions={"cooldown_scope": "domain"}))
        == "broke"
    )


@pytest.mark.fact("U46")
def test_no_reading_fits_when_domains_share_it_once_and_once_not(d: ModuleType) -> None:
    steps = lasting(
        d,
        d.job(0, id="a"),
        d.domain(1, "d2"),
        d.shown(5, "a"),
        d.job(6, on="d2", id="b"),
        d.shown(9, "b"),
        d.domain(10, "d3"),
        d.job(11, on="d3", **d.cooling(98)),
    )
    assert d.verdict("cooldown.refused", steps) == "broke"


@pytest.mark.fact("U45")
@pytest.mark.parametrize(
    ("second", "left"),
    [("joined", set()), ("new", {45}), ("cooldown", {45})],
)
def test_other_answers_to_a_run_under_way_exclude_the_default(
    d: ModuleType, second: str, left: set[int]
) -> None:
    answers = {
        "joined": lambda: d.job(1, "rank_run", id="a", status=200),
        "new": lambda: d.job(1, "rank_run", id="b"),
        "cooldown": lambda: d.job(1, "rank_run", **d.cooling(5)),
    }
    steps = [
        d.domain(-1),
        d.job(0, "rank_run", id="a"),
        answers[second](),
        d.shown(3, "a", "running", "rank_run"),
    ]
    assert d.verdict("cooldown.join", steps) == "held"
    assert d.differing(steps) == left
    verdict = d.verdict("cooldown.join", steps, Policy().replace(assumptions={"join": "after_health"}))
    assert verdict == ("broke" if left else "held")


def test_a_scaled_clock_shortens_the_cooldown(d: ModuleType) -> None:
    assert d.verdict("cooldown.enforced", early(d, 80), rate=60) == "held"
    assert d.verdict("cooldown.enforced", lasting(d, *early(d, 80)[2:], seconds=6000), rate=60) == "broke"


@pytest.mark.fact("S53", "S65")
def test_a_cooldown_is_shown_to_hold_for_several_at_once_where_they_met(d: ModuleType) -> None:
    pinned = Policy().replace(assumptions={"cooldown_from": "acceptance"})

    def seen(*entries: Any) -> tuple[str, list[str]]:
        found = d.finding(d.judged(lasting(d, *entries), pinned), "cooldown.enforced")
        return found.verdict, [case.name for case in found.cases if case.exercised]

    assert seen(d.job(1, took=1), d.job(1.2, **d.cooling(100))) == ("conforms", ["crawl, at once"])
    assert seen(d.job(1), d.job(2, **d.cooling(100))) == ("undecided", ["crawl"])
    both = [d.job(1, id="a", took=1), d.job(1.2, id="b"), d.shown(3, "a"), d.shown(3, "b")]
    assert seen(*both) == ("deviates", ["crawl, at once"])


@pytest.mark.fact("S65", "U46")
@pytest.mark.parametrize(("second", "expected"), [(55, "broke"), (40, "-")])
def test_two_waits_tell_of_one_end_where_only_one_call_can_have_begun_it(
    d: ModuleType, second: int, expected: str
) -> None:
    """A call that got lost began it at 10 s, by a refusal; a later one has it begin then too, or at 25 s."""
    pinned = Policy().replace(assumptions={"cooldown_from": "acceptance", "cooldown_scope": "domain"})
    refusals = [d.job(30, **d.cooling(80)), d.job(70, **d.cooling(second))]
    steps = lasting(d, d.job(0, lost=True), *refusals)
    assert d.verdict("cooldown.stated", steps, pinned) == expected


@pytest.mark.parametrize("took", [0.1, 1])
def test_what_may_have_begun_a_cooldown_is_looked_for_no_further_than_needed(
    d: ModuleType, took: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand calls that met each refusal looks at a few of those that were accepted."""
    looked = Counter[str]()
    begun_since = CooldownGroup.begun_since

    def counted(group: CooldownGroup, t: int, end: int) -> Iterator[SpendWork]:
        for work in begun_since(group, t, end):
            looked[work.id] += 1
            yield work

    monkeypatch.setattr(CooldownGroup, "begun_since", counted)
    calls = [d.job(n / 1000, id=f"j{n}", took=took) for n in range(500)]
    calls += [d.job(n / 1000, took=took, **d.cooling(100)) for n in range(500)]
    steps = lasting(d, *sorted(calls, key=lambda call: call.sent))
    assert d.verdict("cooldown.stated", steps) != "broke"
    assert 500 <= looked.total() <= 500 * 4 * 3
