"""The order of the six checks: what a trace shows of who refuses first."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ranksim.core.contract.policy import Policy

Steps = Callable[[ModuleType], list[Any]]


def late(d: ModuleType, *calls: Any) -> list[Any]:
    """Calls of an account that is past due before and after."""
    return [d.status(0, "past_due"), *calls, d.status(9, "past_due")]


def spent(d: ModuleType, *calls: Any) -> list[Any]:
    """Calls of an account at its ceiling before and after."""
    return [d.cost(0, "5.01"), *calls, d.cost(9, "5.01")]


def exactly(d: ModuleType, before: str) -> list[Any]:
    """A job at 5.00 of 5.00 USD, of a deployment that wrote another amount before."""
    return [d.cost(-9, before, spent=before), d.cost(0, "5.00"), d.job(1), d.cost(9, "5.00")]


def given_back(d: ModuleType) -> list[Any]:
    """A deployment that charges jobs at acceptance and gives back what a failed one had cost (U49)."""
    failed = [d.job(-9, "crawl", id="j1"), d.cost(0, "5.01"), d.job(1), d.cost(9, "5.02")]
    return [*failed, d.shown(9.5, "j1", "failed")]


def used_up(d: ModuleType, *calls: Any) -> list[Any]:
    """Calls of an account whose allowance is used up before and after."""
    return [d.usage(0, 10), *calls, d.usage(9, 10)]


def runs_used_up(d: ModuleType, *calls: Any, after: int = 10) -> list[Any]:
    """Calls for rank runs, whose allowance of 10 is used up before; one failed, which may give units back."""
    which = {"metric": "rank_checks", "resets_at": "2026-04-01T00:00:00Z"}
    about = {**which, "period": "month"}
    begun = [d.job(-9, "rank_run", id="a"), d.shown(-5, "a", "failed", "rank_run")]
    refused = d.job(1, "rank_run", **d.exhausted(**which))
    return [*begun, d.usage(0, 10, **about), refused, *calls, d.usage(9, after, **about)]


def one_free(d: ModuleType, devices: int, *calls: Any) -> list[Any]:
    """Calls with one slot free of 20, on a list whose words take as many as there are devices."""
    begun = [d.domain(-9), d.listed(-8), d.scan(-7, devices=devices), d.slots(0, 19)]
    return [*begun, *calls, d.slots(9, 19)]


def lacking(d: ModuleType, *calls: Any) -> list[Any]:
    """Calls on a plan where a site optimization was refused for its capability."""
    return [d.entitled(0, "a"), d.job(1, "site_optimization", **d.LACKING), *calls, d.entitled(9, "a")]


def room(d: ModuleType, *calls: Any, left: int = 1) -> list[Any]:
    """Calls on a domain and a list of the trace's own, tracked by a scan, with so many slots left of 20."""
    begun = [d.domain(-9), d.listed(-8), d.scan(-7), d.slots(0, 20 - left)]
    return [*begun, *calls, d.slots(9, 20 - left)]


def reserving(d: ModuleType, *calls: Any, until: str) -> list[Any]:
    """Calls of an account that has settled 4 of 5 USD and reserved another, with what is reserved after."""
    return [d.cost(0, "4.00", "1.05"), *calls, d.cost(9, "4.00", until)]


def none_listed(d: ModuleType, live: Any) -> list[Any]:
    """A call on a plan that lists no capability, where an AI scan was refused for its own."""
    return [d.entitled(0), d.job(1, "ai_scan", **d.LACKING), live, d.entitled(9)]


def odd_code(d: ModuleType, *around: Any, status: str = "past_due") -> list[Any]:
    """A rank run refused as nobody knows what, of an account of such a status, with calls around it."""
    odd = d.job(2, "rank_run", code="no_money", status=403)
    return [d.status(0, status), *around, odd, d.status(9, status)]


def shown(d: ModuleType, *failing: int) -> Callable[[Any], list[Any]]:
    """A call between two dry runs of the same that show these checks to fail."""

    def between(live: Any) -> list[Any]:
        said = d.report(*failing)
        return [d.briefs(1, dry=True, report=said), live, d.briefs(8, dry=True, report=said)]

    return between


TABLE: list[tuple[str, str, Steps, str]] = [
    # 1
    (
        "capability: refused again",
        "guards.capability",
        lambda d: lacking(d, d.job(2, "site_optimization", **d.LACKING)),
        "held",
    ),
    (
        "capability: granted after",
        "guards.capability",
        lambda d: lacking(d, d.job(2, "site_optimization")),
        "broke",
    ),
    (
        "capability: the subscription first",
        "guards.capability",
        lambda d: lacking(d, d.job(2, "site_optimization", **d.INACTIVE)),
        "broke",
    ),
    (
        "capability: the plan may have changed",
        "guards.capability",
        lambda d: [*lacking(d, d.job(2, "site_optimization"))[:-1], d.entitled(9, "a", "b")],
        "-",
    ),
    (
        "capability: by dry runs",
        "guards.capability",
        lambda d: shown(d, 1, 2)(d.briefs(4, **d.INACTIVE)),
        "broke",
    ),
    # 2
    ("health: refused", "guards.health", lambda d: late(d, d.job(1, **d.INACTIVE)), "held"),
    ("health: spends", "guards.health", lambda d: late(d, d.job(1)), "broke"),
    ("health: words too", "guards.health", lambda d: late(d, d.words(1, "a")), "broke"),
    ("health: the ceiling first", "guards.health", lambda d: late(d, d.job(1, **d.capped())), "broke"),
    (
        "health: the allowance first",
        "guards.health",
        lambda d: late(d, d.briefs(1, **d.exhausted())),
        "broke",
    ),
    ("health: slots first", "guards.health", lambda d: late(d, d.words(1, "a", **d.full())), "broke"),
    ("health: cooldown first", "guards.health", lambda d: late(d, d.job(1, **d.cooling(5))), "broke"),
    ("health: the plan before it", "guards.health", lambda d: late(d, d.job(1, **d.LACKING)), "-"),
    (
        "health: paid meanwhile",
        "guards.health",
        lambda d: [d.status(0, "past_due"), d.job(1), d.status(2, "active")],
        "-",
    ),
    ("health: a run may be joined", "guards.health", lambda d: late(d, d.job(1, "rank_run")), "open"),
    # 3
    ("ceiling: refused", "guards.ceiling", lambda d: spent(d, d.job(1, **d.capped())), "held"),
    ("ceiling: spends", "guards.ceiling", lambda d: spent(d, d.job(1)), "broke"),
    ("ceiling: cooldown first", "guards.ceiling", lambda d: spent(d, d.job(1, **d.cooling(5))), "broke"),
    ("ceiling: 4.996", "guards.ceiling", lambda d: [d.cost(0, "5.00"), d.job(1), d.cost(9, "5.01")], "-"),
    ("ceiling: 5 exactly", "guards.ceiling", lambda d: exactly(d, "3.123456"), "broke"),
    ("ceiling: 5 exactly, of four decimals", "guards.ceiling", lambda d: exactly(d, "3.1234"), "-"),
    ("ceiling: only less than a dollar is finer", "guards.ceiling", lambda d: exactly(d, "0.123456"), "-"),
    ("ceiling: given back", "guards.ceiling", lambda d: given_back(d), "-"),
    ("ceiling: words may be free", "guards.ceiling", lambda d: spent(d, d.words(1, "a")), "-"),
    (
        "ceiling: what is reserved may be released",
        "guards.ceiling",
        lambda d: [d.cost(0, "4.00", "1.00"), d.job(1), d.cost(9, "5.00")],
        "-",
    ),
    (
        "ceiling: a new month",
        "guards.ceiling",
        lambda d: [d.cost(0, "5.00"), d.job(1), d.cost(9, "0.00", resets_at="2026-05-01T00:00:00Z")],
        "-",
    ),
    # 4
    ("quota: refused", "guards.quota", lambda d: used_up(d, d.briefs(1, **d.exhausted())), "held"),
    ("quota: cooldown first", "guards.quota", lambda d: used_up(d, d.briefs(1, **d.cooling(5))), "broke"),
    ("quota: granted", "guards.quota", lambda d: used_up(d, d.briefs(1)), "broke"),
    (
        "quota: a crawl may not consume it",
        "guards.quota",
        lambda d: used_up(d, d.job(1, **d.cooling(5))),
        "-",
    ),
    (
        "quota: cooldown first, of what failed jobs may give back",
        "guards.quota",
        lambda d: runs_used_up(d, d.job(2, "rank_run", **d.cooling(5))),
        "broke",
    ),
    (
        "quota: of what failed jobs may give back, and another was accepted in between",
        "guards.quota",
        lambda d: runs_used_up(d, d.job(2, "rank_run", **d.cooling(5)), d.job(3, "crawl")),
        "-",
    ),
    (
        "quota: of what failed jobs may give back, and less is used after",
        "guards.quota",
        lambda d: runs_used_up(d, d.job(2, "rank_run", **d.cooling(5)), after=9),
        "-",
    ),
    ("quota: by dry runs", "guards.quota", lambda d: shown(d, 4, 6)(d.briefs(4, **d.cooling(5))), "broke"),
    # 5
    ("slots: by dry runs", "guards.slots", lambda d: shown(d, 5, 6)(d.briefs(4, **d.cooling(5))), "broke"),
    (
        "slots: another call in between",
        "guards.slots",
        lambda d: [*shown(d, 5, 6)(d.briefs(4, **d.cooling(5))), d.job(5)],
        "-",
    ),
    # healthy, reads, codes
    ("slots: more than fit", "guards.slots", lambda d: room(d, d.words(1, "a", "b")), "broke"),
    ("slots: as many as fit", "guards.slots", lambda d: room(d, d.words(1, "a")), "-"),
    ("slots: refused", "guards.slots", lambda d: room(d, d.words(1, "a", "b", **d.full())), "held"),
    (
        "slots: the cooldown first",
        "guards.slots",
        lambda d: room(d, d.words(1, "a", **d.cooling(5)), left=0),
        "broke",
    ),
    (
        "slots: the cooldown first, where a part may be granted",
        "guards.slots",
        lambda d: room(d, d.words(1, "a", "b", **d.cooling(5))),
        "-",
    ),
    (
        "slots: the cooldown first, where others were refused although one of them would fit",
        "guards.slots",
        lambda d: one_free(d, 1, d.words(1, "x", "y", **d.full()), d.words(2, "a", "b", **d.cooling(5))),
        "broke",
    ),
    (
        "slots: the cooldown first, where others were refused of which none would fit",
        "guards.slots",
        lambda d: one_free(d, 2, d.words(1, "x", "y", **d.full()), d.words(2, "a", "b", **d.cooling(5))),
        "held",
    ),
    (
        "slots: a part was granted",
        "guards.slots",
        lambda d: room(d, d.words(1, "a", "b", created=["a"])),
        "-",
    ),
    (
        "slots: refused words that may be in the list",
        "guards.slots",
        lambda d: [
            d.domain(-9),
            d.listed(-8),
            d.scan(-7),
            d.words(-6, "A"),
            *room(d, left=0)[3:4],
            d.words(1, "a", **d.cooling(5)),
            d.slots(9, 20),
        ],
        "-",
    ),
    (
        "slots: a scan over words",
        "guards.slots",
        lambda d: [
            d.domain(-9),
            d.listed(-8),
            d.words(-7, "a"),
            d.slots(0, 17),
            d.scan(1, devices=2, places=2),
            d.slots(9, 21),
        ],
        "broke",
    ),
    (
        "slots: a scan may have been narrowed meanwhile",
        "guards.slots",
        lambda d: room(d, d.call(0.5, "scans.update", path={"id": "s9"}), d.words(1, "a", "b")),
        "-",
    ),
    (
        "capability: none is listed, and one was refused",
        "guards.capability",
        lambda d: none_listed(d, d.job(2, "site_optimization")),
        "broke",
    ),
    (
        "capability: none is listed, and a crawl needs none",
        "guards.capability",
        lambda d: none_listed(d, d.job(2, "crawl")),
        "-",
    ),
    (
        "ceiling: reserved to the end, and the cooldown first",
        "guards.ceiling",
        lambda d: reserving(d, d.job(1, **d.cooling(5)), until="1.05"),
        "broke",
    ),
    (
        "ceiling: some was given back meanwhile",
        "guards.ceiling",
        lambda d: reserving(d, d.job(1, **d.cooling(5)), until="0.99"),
        "-",
    ),
    (
        "ceiling: what is reserved may be of another job",
        "guards.ceiling",
        lambda d: reserving(d, d.job(0.5, "ai_scan"), d.job(1, **d.cooling(5)), until="1.05"),
        "-",
    ),
    (
        "codes: of a past-due account that may reach it",
        "guards.codes",
        lambda d: odd_code(d, d.job(1, "ai_scan", **d.INACTIVE), d.job(3, "ai_scan", **d.INACTIVE)),
        "broke",
    ),
    (
        "codes: of one that nobody saw reach it again",
        "guards.codes",
        lambda d: odd_code(d, d.job(1, "ai_scan", **d.INACTIVE)),
        "held",
    ),
    (
        "codes: of an account in order",
        "guards.codes",
        lambda d: odd_code(d, d.job(1, "ai_scan"), d.job(3, "ai_scan"), status="active"),
        "-",
    ),
    ("healthy: is not", "guards.healthy", lambda d: late(d, d.job(1, **d.INACTIVE)), "held"),
    (
        "healthy: is",
        "guards.healthy",
        lambda d: [d.status(0, "active"), d.job(1, **d.INACTIVE), d.status(2, "active")],
        "broke",
    ),
    ("reads: go on", "guards.reads", lambda d: late(d, d.usage(1)), "held"),
    ("reads: go on at the ceiling", "guards.reads", lambda d: spent(d, d.slots(1, 0)), "held"),
    (
        "reads: of briefs go on when these are used up",
        "guards.reads",
        lambda d: used_up(d, d.briefs(1, **d.exhausted()), d.call(2, "keyword_briefs.list", [])),
        "held",
    ),
    (
        "reads: stop",
        "guards.reads",
        lambda d: late(d, d.call(1, "domains.list", **d.INACTIVE)),
        "broke",
    ),
    (
        "reads: stop at the ceiling",
        "guards.reads",
        lambda d: [d.call(1, "keyword_briefs.list", **d.capped())],
        "broke",
    ),
    ("codes: one of the six", "guards.codes", lambda d: [d.job(0, **d.LACKING)], "held"),
    (
        "codes: payment_required",
        "guards.codes",
        lambda d: [d.job(0, "rank_run", code="payment_required", status=402)],
        "broke",
    ),
    (
        "codes: beyond a cap",
        "guards.codes",
        lambda d: [d.job(0, "crawl", code="page_cap_exceeded", status=402)],
        "open",
    ),
    (
        "codes: of another refusal, whose status is open",
        "guards.codes",
        lambda d: [d.job(0, code="idempotency_mismatch", status=402)],
        "-",
    ),
    (
        "codes: not of a check",
        "guards.codes",
        lambda d: [d.job(0, code="validation_failed", status=422)],
        "-",
    ),
]


@pytest.mark.fact("S51", "S59", "S60", "S61", "S62", "S63", "S64", "S67", "S97")
@pytest.mark.parametrize(
    ("rule", "steps", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_a_trace_shows_of_the_order(d: ModuleType, rule: str, steps: Steps, expected: str) -> None:
    assert d.verdict(rule, steps(d)) == expected


@pytest.mark.fact("U60")
def test_names_of_capabilities_count_only_where_a_policy_states_them(d: ModuleType) -> None:
    steps = [d.entitled(0, "rank_tracking"), d.job(1, "ai_scan"), d.entitled(2, "rank_tracking")]
    assert d.verdict("guards.capability", steps) == "-"
    assert d.differing(steps) == {60}
    stated = Policy(catalogue=Policy().catalogue)
    assert d.verdict("guards.capability", steps, stated) == "broke"
    named_otherwise = [d.entitled(0, "seo", "ai"), d.job(1, "ai_scan"), d.entitled(2, "seo", "ai")]
    assert d.verdict("guards.capability", named_otherwise, stated) == "-"


@pytest.mark.fact("U47", "S97")
def test_where_caps_cut_short_no_refusal_has_a_code_of_its_own(d: ModuleType) -> None:
    steps = [d.job(0, "crawl", code="page_cap_exceeded", status=402)]
    assert d.verdict("guards.codes", steps, Policy().replace(assumptions={"cap": "truncate"})) == "broke"


@pytest.mark.fact("U19", "U20", "U21", "U22", "U23")
def test_another_status_differs_or_breaks_where_pinned(d: ModuleType) -> None:
    steps = [d.job(0, **{**d.LACKING, "status": 402})]
    assert d.differing(steps) == {19}
    assert (
        d.verdict("guards.codes", steps, Policy().replace(statuses={"entitlement_required": 403})) == "broke"
    )


@pytest.mark.fact("U45", "U57")
def test_what_is_pinned_is_no_excuse(d: ModuleType) -> None:
    joined = late(d, d.job(1, "rank_run"))
    assert (
        d.verdict("guards.health", joined, Policy().replace(assumptions={"join": "after_health"})) == "broke"
    )
    unpaid = [d.status(0, "unpaid"), d.job(1), d.status(2, "unpaid")]
    assert d.verdict("guards.health", unpaid) == "-"
    pinned = Policy().replace(assumptions={"inactive_statuses": ["unpaid"]})
    assert d.verdict("guards.health", unpaid, pinned) == "broke"


@pytest.mark.fact("U58", "U90")
@pytest.mark.parametrize(
    ("assumptions", "expected"),
    [
        ({"checks_apply": "all"}, "-"),
        ({"checks_apply": "all", "ceiling_stops_tracking": False}, "-"),
        ({"checks_apply": "all", "ceiling_stops_tracking": True}, "broke"),
        ({"ceiling_stops_tracking": True}, "-"),
    ],
)
def test_the_ceiling_stops_words_only_where_nothing_else_may_be(
    d: ModuleType, assumptions: dict[str, Any], expected: str
) -> None:
    steps = spent(d, d.words(1, "a"))
    pinned = Policy.model_validate({"assumptions": assumptions})
    assert d.verdict("guards.ceiling", steps, pinned) == expected
