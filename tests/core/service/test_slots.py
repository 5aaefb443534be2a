"""Slots through the service: what counts, what is held, what is revived, and what is refused."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranksim.core.clock import DAY, SECOND, instant

DESKTOP, MOBILE = "google/desktop", "google/mobile"


def numbers(desk: Any) -> tuple[int, int]:
    slots = desk.slots()
    return slots["active"], slots["held"]


def word_id(desk: Any, word: str) -> str:
    shown = desk.call("keywords.list", query={"keyword": word}).body["data"]
    return str(shown[0]["id"])


def remove(desk: Any, *words: str) -> None:
    for word in words:
        assert desk.call("keywords.delete", id=word_id(desk, word)).status == 204


def patch(desk: Any, scan: str, **body: Any) -> Any:
    return desk.call("scans.update", body, id=scan)


@pytest.mark.fact("S37", "U61")
def test_slot_usage_adds_up(open_desk: Any) -> None:
    desk = open_desk({"slot_limit": 10}, words=["a", "b", "c"], scan=True)
    remove(desk, "a")
    assert desk.slots() == {
        "active": 2,
        "held": 1,
        "used": 3,
        "limit": 10,
        "available": 7,
        "resets_at": "2026-04-04T10:00:00Z",
    }


@pytest.mark.fact("U97", "U15")
def test_a_domain_scoped_key_does_not_read_slots(desk: Any) -> None:
    reply = desk.call("slots.get", key=desk.token("bound", desk.domain))
    assert (reply.status, reply.code) == (403, "forbidden")


@pytest.mark.fact("S24", "S25", "E42")
def test_scans_count_each_for_itself(desk: Any) -> None:
    desk.must(desk.keywords("a"))
    assert numbers(desk) == (0, 0)
    desk.must(desk.scan([DESKTOP, MOBILE], ["DE", "AT"]))
    assert numbers(desk) == (4, 0)
    desk.must(desk.scan([DESKTOP], ["DE"]))
    assert numbers(desk) == (5, 0)
    desk.must(desk.keywords("b"))
    assert numbers(desk) == (10, 0)


@pytest.mark.fact("E42", "U62")
def test_a_paused_scan_counts_nothing_new_but_what_it_had_is_held(open_desk: Any) -> None:
    desk = open_desk(words=["a", "b"])
    scan = desk.must(desk.scan())["id"]
    desk.must(patch(desk, scan, active=False))
    assert numbers(desk) == (0, 2)
    desk.must(desk.keywords("c"))
    assert numbers(desk) == (0, 2)
    desk.must(patch(desk, scan, active=True))
    assert numbers(desk) == (3, 0)


@pytest.mark.fact("E47", "S57")
def test_keywords_take_slots_only_where_an_active_scan_covers_the_list(desk: Any) -> None:
    other = desk.new_list()
    desk.must(desk.scan())
    assert desk.must(desk.keywords("a", "b", list_id=other))["slots_added"] == 0
    assert desk.must(desk.keywords("a", "b"))["slots_added"] == 2
    assert numbers(desk) == (2, 0)


@pytest.mark.fact("E43", "U64", "U65")
def test_repeated_and_present_keywords_count_once(open_desk: Any) -> None:
    desk = open_desk(words=["Red Shoes"], scan=True)
    answer = desk.must(desk.keywords(" red shoes ", "boots", "BOOTS", "Boots "))
    assert [keyword["keyword"] for keyword in answer["created"]] == ["boots"]
    assert (answer["already_present"], answer["slots_added"]) == (3, 1)
    assert numbers(desk) == (2, 0)


@pytest.mark.fact("U94")
@pytest.mark.parametrize(("scope", "created"), [("list", 1), ("domain", 0)])
def test_present_means_in_the_list_or_in_the_domain(open_desk: Any, scope: str, created: int) -> None:
    desk = open_desk(assumptions={"existing_scope": scope}, words=["a"])
    assert len(desk.must(desk.keywords("A", list_id=desk.new_list()))["created"]) == created


@pytest.mark.fact("U94")
@pytest.mark.parametrize(("scan_counts", "slots"), [("keyword", 3), ("list_keyword", 4)])
def test_a_word_in_two_lists_of_one_scan(open_desk: Any, scan_counts: str, slots: int) -> None:
    desk = open_desk(assumptions={"scan_counts": scan_counts}, words=["a", "b"])
    other = desk.new_list()
    desk.must(desk.scan(lists=[desk.list, other]))
    desk.must(desk.keywords("b", "c", list_id=other))
    assert numbers(desk) == (slots, 0)
    desk.call("keyword_lists.delete", id=other)
    assert numbers(desk) == (2, slots - 2)


@pytest.mark.fact("S26", "S27", "E17", "U51")
def test_holds_last_to_the_end_of_the_billing_month_exactly(open_desk: Any) -> None:
    desk = open_desk(words=["a", "b", "c"], scan=True)
    resets_at = instant(desk.slots()["resets_at"])
    remove(desk, "a", "b")
    desk.at(resets_at - SECOND)
    assert numbers(desk) == (1, 2)
    desk.at(resets_at)
    assert numbers(desk) == (1, 0)
    assert desk.must(desk.keywords("a"))["slots_added"] == 1
    assert numbers(desk) == (2, 0)


@pytest.mark.fact("E17")
def test_a_job_that_straddles_the_month_revives_no_hold(open_desk: Any) -> None:
    desk = open_desk(words=["a", "b"], scan=True)
    remove(desk, "a")
    resets_at = instant(desk.slots()["resets_at"])
    desk.at(resets_at - SECOND)
    desk.must(desk.job("rank_run"))
    desk.at(resets_at + DAY)
    desk.must(desk.job("rank_run"))
    assert numbers(desk) == (1, 0)
    assert desk.must(desk.keywords("a"))["slots_added"] == 1
    assert numbers(desk) == (2, 0)


@pytest.mark.fact("E18", "S64", "U63", "U26")
def test_removing_at_the_limit_makes_room_for_the_same_word_only(open_desk: Any) -> None:
    desk = open_desk({"slot_limit": 2}, words=["a", "b"], scan=True)
    remove(desk, "a")
    refused = desk.keywords("c")
    assert (refused.status, refused.code, refused.check) == (402, "slot_limit_exceeded", 5)
    assert refused.body["meta"] == {"used": 2, "held": 1, "limit": 2, "requested": 1}
    assert desk.must(desk.keywords("a"))["slots_added"] == 0
    assert numbers(desk) == (2, 0)


@pytest.mark.fact("U63")
def test_adding_again_may_count_again(open_desk: Any) -> None:
    desk = open_desk({"slot_limit": 3}, assumptions={"re_add": "counts_again"}, words=["a", "b"], scan=True)
    remove(desk, "a")
    assert desk.must(desk.keywords("a"))["slots_added"] == 1
    assert numbers(desk) == (2, 1)


@pytest.mark.fact("U94")
@pytest.mark.parametrize(("identity", "after"), [("tuple", (1, 0)), ("scan_tuple", (1, 1))])
def test_a_hold_belongs_to_the_tuple_or_to_its_scan(
    open_desk: Any, identity: str, after: tuple[int, int]
) -> None:
    desk = open_desk(assumptions={"hold_identity": identity}, words=["a"])
    scan = desk.must(desk.scan())["id"]
    desk.call("scans.delete", id=scan)
    assert numbers(desk) == (0, 1)
    desk.must(desk.scan())
    assert numbers(desk) == after


@pytest.mark.fact("U62", "S27")
@pytest.mark.parametrize(("narrowing", "held"), [("held", True), ("freed", False)])
@pytest.mark.parametrize(
    ("change", "active"),
    [
        ({"active": False}, 0),
        ({"engine_devices": [DESKTOP]}, 4),
        ({"geographies": [{"country": "AT"}]}, 4),
        ({"engine_devices": [MOBILE], "geographies": [{"country": "DE"}]}, 2),
    ],
)
def test_narrowing_a_scan_holds_or_frees(
    open_desk: Any, narrowing: str, held: bool, change: dict[str, Any], active: int
) -> None:
    desk = open_desk(assumptions={"narrowing": narrowing}, words=["a", "b"])
    scan = desk.must(desk.scan([DESKTOP, MOBILE], ["DE", "AT"]))["id"]
    desk.must(patch(desk, scan, **change))
    assert numbers(desk) == (active, (8 - active) if held else 0)


@pytest.mark.fact("U62", "S26")
def test_removed_keywords_lists_and_scans_are_held_even_where_narrowing_frees(open_desk: Any) -> None:
    desk = open_desk(assumptions={"narrowing": "freed"}, words=["a", "b"])
    scan = desk.must(desk.scan())["id"]
    remove(desk, "a")
    assert numbers(desk) == (1, 1)
    desk.call("scans.delete", id=scan)
    assert numbers(desk) == (0, 2)


@pytest.mark.fact("U62")
def test_exchanging_a_device_at_the_limit_needs_room_only_where_narrowing_holds(open_desk: Any) -> None:
    for narrowing, status in (("held", 402), ("freed", 200)):
        desk = open_desk({"slot_limit": 1}, assumptions={"narrowing": narrowing}, words=["a"])
        scan = desk.must(desk.scan())["id"]
        assert patch(desk, scan, engine_devices=[MOBILE]).status == status
        assert numbers(desk) == (1, 0)


@pytest.mark.fact("E19", "U95")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"engine_devices": [DESKTOP, MOBILE]}, "slot_limit_exceeded"),
        ({"geographies": [{"country": "DE"}, {"country": "AT"}]}, "slot_limit_exceeded"),
        ({"geographies": [{"country": c} for c in ("DE", "AT", "CH", "LI")]}, "entitlement_required"),
        ({"engine_devices": ["a/a", "a/b", "a/c", "a/d", "a/e"]}, "entitlement_required"),
        ({"name": "other"}, ""),
        ({"geographies": [{"country": "DE"}]}, ""),
    ],
)
def test_a_patch_that_widens_a_scan_is_checked_and_a_refusal_changes_nothing(
    open_desk: Any, change: dict[str, Any], code: str
) -> None:
    desk = open_desk({"slot_limit": 2}, words=["a", "b"])
    scan = desk.must(desk.scan())["id"]
    before = desk.picture()
    reply = patch(desk, scan, **change)
    assert reply.code == code
    if code:
        assert desk.picture() == before


@pytest.mark.fact("U95")
@pytest.mark.parametrize(
    ("checks", "code"),
    [("dimensions_slots", ""), ("all", "subscription_inactive"), ("none", "")],
)
def test_a_widening_patch_may_run_all_checks(open_desk: Any, checks: str, code: str) -> None:
    desk = open_desk(assumptions={"patch_checks": checks}, words=["a"])
    scan = desk.must(desk.scan())["id"]
    desk.set_status("past_due")
    assert patch(desk, scan, engine_devices=[DESKTOP, MOBILE]).code == code
    assert patch(desk, scan, active=False).code == ""


@pytest.mark.fact("U95")
def test_a_widening_patch_may_run_no_check(open_desk: Any) -> None:
    desk = open_desk({"slot_limit": 1}, assumptions={"patch_checks": "none"}, words=["a"])
    scan = desk.must(desk.scan())["id"]
    desk.must(patch(desk, scan, engine_devices=[DESKTOP, MOBILE]))
    assert numbers(desk) == (2, 0)


@pytest.mark.fact("U64")
@pytest.mark.parametrize(("over_slots", "created"), [("refuse_whole", None), ("partial", ["a", "kept", "b"])])
def test_more_keywords_than_room_are_refused_whole_or_fitted(
    open_desk: Any, over_slots: str, created: list[str] | None
) -> None:
    desk = open_desk({"slot_limit": 6}, assumptions={"over_slots": over_slots}, words=["kept"])
    desk.must(desk.scan([DESKTOP, MOBILE]))
    remove(desk, "kept")
    before = desk.picture()
    reply = desk.keywords("a", "kept", "b", "c")
    if created is None:
        assert reply.code == "slot_limit_exceeded"
        assert desk.picture() == before
    else:
        assert [keyword["keyword"] for keyword in desk.must(reply)["created"]] == created
        assert numbers(desk) == (6, 0)


# Everything at once, against counting one by one

WORDS = ["a", "A", "b", "c", "d"]
PAIRINGS = [[DESKTOP], [MOBILE], [DESKTOP, MOBILE]]
COUNTRIES = [["DE"], ["AT"], ["DE", "AT"]]
STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 1), st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(
        st.just("scan"),
        st.integers(1, 3),
        st.sampled_from(PAIRINGS),
        st.sampled_from(COUNTRIES),
        st.booleans(),
    ),
    st.tuples(
        st.just("patch"),
        st.integers(0, 9),
        st.integers(1, 3),
        st.sampled_from(PAIRINGS),
        st.sampled_from(COUNTRIES),
        st.booleans(),
    ),
    st.tuples(st.just("delete scan"), st.integers(0, 9)),
    st.tuples(st.just("delete list"), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.sampled_from([DAY, 20 * DAY])),
)


class Recount:
    """Counts every tuple one by one and keeps the holds by itself."""

    def __init__(self, desk: Any, assumptions: dict[str, str]) -> None:
        self.desk, self.assumptions = desk, assumptions
        self.active = self.count()
        self.holds: Counter[str] = Counter()
        self.resets_at = desk.slots()["resets_at"]

    def count(self) -> Counter[str]:
        state = self.desk.service.state
        found: Counter[str] = Counter()
        for scan in state.scans.values():
            words = [k.text.strip().casefold() for k in state.keywords.values() if k.list_id in scan.lists]
            if self.assumptions.get("scan_counts") != "list_keyword":
                words = sorted(set(words))
            owner = scan.id if self.assumptions.get("hold_identity") == "scan_tuple" else ""
            for word in words if scan.active else []:
                for pairing in scan.engine_devices:
                    found.update(f"{owner}|{word}|{pairing}|{place}" for place in scan.geographies)
        return found

    def follow(self, step: str) -> None:
        """Take in what a step did; every other step is compared by `check`."""
        resets_at = self.desk.slots()["resets_at"]
        if resets_at != self.resets_at:
            self.holds.clear()
            self.resets_at = resets_at
        active = self.count()
        lost, gained = self.active - active, active - self.active
        if self.assumptions.get("re_add") != "counts_again":
            self.holds -= gained
        if not (step == "patch" and self.assumptions.get("narrowing") == "freed"):
            self.holds += lost
        self.active = active

    def check(self) -> None:
        slots = self.desk.slots()
        assert slots["active"] == self.active.total()
        assert slots["held"] == self.holds.total()
        assert slots["used"] <= slots["limit"]
        account = self.desk.service.state.accounts[self.desk.account]
        if slots["held"]:
            assert sum(account.holds.values()) == account.books.held == slots["held"]


def take(desk: Any, step: Any, lists: list[str]) -> None:
    """Make the call of one step, if what it needs is there."""
    state = desk.service.state
    scans, words = list(state.scans), list(state.keywords)
    alive = [which for which in lists if which in state.keyword_lists]
    what, *given = step
    if what == "wait":
        desk.wait(given[0])
    elif what == "add" and lists[given[0]] in alive:
        desk.keywords(*given[1], list_id=lists[given[0]])
    elif what == "remove" and words:
        desk.call("keywords.delete", id=words[given[0] % len(words)])
    elif what == "delete list" and lists[given[0]] in alive:
        desk.call("keyword_lists.delete", id=lists[given[0]])
    elif what == "delete scan" and scans:
        desk.call("scans.delete", id=scans[given[0] % len(scans)])
    elif what in ("scan", "patch"):
        *which, chosen, pairings, countries, active = given
        covered = [list_id for bit, list_id in enumerate(lists) if chosen >> bit & 1 and list_id in alive]
        body = {
            "domain_id": desk.domain,
            "list_ids": covered,
            "engine_devices": pairings,
            "geographies": [{"country": country} for country in countries],
            "active": active,
        }
        if what == "scan":
            desk.call("scans.create", body)
        elif scans:
            desk.call("scans.update", body, id=scans[which[0] % len(scans)])


FREE = {"rates": {"read": 10**6, "write": 10**6, "expensive": 10**6}}


@pytest.mark.fact("S24", "S26", "S27", "U62", "U63", "U94")
@pytest.mark.parametrize(
    "assumptions",
    [
        {},
        {"narrowing": "freed"},
        {"re_add": "counts_again"},
        {"hold_identity": "scan_tuple"},
        {"scan_counts": "list_keyword"},
        {"over_slots": "partial"},
        {"existing_scope": "domain"},
    ],
    ids=lambda assumptions: "".join(assumptions.values()) or "default",
)
@given(steps=st.lists(STEPS, min_size=10, max_size=30))
# The fixture gives a class, so there is nothing to reset between examples.
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_the_books_equal_a_recount_whatever_happens(
    open_desk: Any, assumptions: dict[str, str], steps: list[Any]
) -> None:
    desk = open_desk({"slot_limit": 12}, assumptions=assumptions, facts=FREE, words=["a", "b"], scan=True)
    lists = [desk.list, desk.new_list()]
    recount = Recount(desk, assumptions)
    for step in steps:
        take(desk, step, lists)
        recount.follow(step[0])
        recount.check()
