"""What a keyword sync of a scenario asks for, by hand and as its world shows it: requests, time, room."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import ranksim as rs
from ranksim.cli import app
from ranksim.core.callers.programs import KeywordSync
from ranksim.core.clock import MINUTE, WEEK, billing_month
from ranksim.core.contract.located import Located
from ranksim.core.rules.windows import NAMES
from ranksim.planner.capacity.own_sync import occasion_of, slots_to_come
from ranksim.planner.capacity.planned import OwnAccount
from ranksim.planner.capacity.sync import Sync, eager, rate_window_of, sync_time
from ranksim.planner.capacity.tracked import tracked_slots
from ranksim.twin.sim.world import World

SYNC = {"kind": "keyword_sync", "account": "acme", "every": "week", "weekday": "monday", "at": "08:00"}

# 23 domains of 60 or 80 words, of which 17 × 3 and 6 × 4 are replaced on each of the five Mondays of March.
WEEKLY = {
    "start": "2026-03-01T00:00:00Z",
    "length": "31d",
    "accounts": {
        "acme": {
            "plan": "agency",
            "portfolio": {"domains": [f"{n}.large" for n in range(6)], "keywords": 80},
            "further": [{"domains": [f"{n}.small" for n in range(17)], "keywords": 60}],
        }
    },
    "clients": {"sync": {**SYNC, "share": 0.05}},
}


SLOTS = "policy.catalogue.plans.agency.slot_limit"


def weekly(slots: int = 2_500, **changes: Any) -> rs.Scenario:
    return rs.Scenario.read(Located("weekly", WEEKLY, {})).changed({SLOTS: slots}).replace(**changes)


def asked(tmp_path: Any, scenario: rs.Scenario, *flags: str) -> dict[str, Any]:
    path = tmp_path / "world.yaml"
    path.write_text(json.dumps(scenario.model_dump(mode="json", exclude_unset=True)), encoding="utf-8")
    result = CliRunner().invoke(app, ["capacity", "sync", "--scenario", str(path), "--json", *flags])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


class Writes:
    """Notes when the writes of a world were sent, and what they were answered."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def watch(self, state: object) -> None: ...
    def delivery(self, *args: object) -> None: ...
    def lost(self, *args: object, **_: object) -> None: ...
    def exchange(self, now: int, client: str, call: Any, reply: Any, **_: Any) -> None:
        if call.operation in ("keywords.create", "keywords.delete"):
            self.seen.append((now, reply.status))

    def between(self, begin: int, end: int) -> list[tuple[int, int]]:
        return [(now, status) for now, status in self.seen if begin <= now < end]


def writes(scenario: rs.Scenario) -> Writes:
    trace = Writes()
    World(scenario, trace=trace).run()
    return trace


# By hand


@pytest.mark.fact("S26", "S103")
def test_what_a_client_replaces_each_week_is_counted(tmp_path: Any) -> None:
    """75 removals and 23 additions; 60 a minute pass, so that the last 38 come a minute later."""
    scenario = weekly().changed({"policy.facts.rates.write": 60})
    answer = asked(tmp_path, scenario)
    assert answer["answer"].startswith("98 requests, 23 to add and 75 to remove, take 1m without refusals")
    by_way = {(row["window"], row["way"]): row for row in answer["tables"]["answer"]}
    assert by_way["first_hit", "wait"]["time"] == MINUTE
    assert by_way["first_hit", "retry"]["refused"] == 1
    seen = writes(scenario.replace(length="5d")).seen
    assert (len(seen), sum(status == 429 for _, status in seen)) == (99, 1)


@pytest.mark.fact("S26", "S27")
def test_five_mondays_hold_the_slots_of_what_they_replace(tmp_path: Any) -> None:
    """1,500 words of 2,500 slots leave 1,000; five Mondays hold 5 × 75, so that 625 more words fit."""
    notes = asked(tmp_path, weekly())["notes"]
    assert (
        "Of the 2,500 slots of the plan agency 1,500 are used, and to the month's end what is replaced takes "
        "375: 625 more words fit, if none of them is replaced."
    ) in notes
    for more, refused in ((625, 0), (626, 1)):
        added = {"at": "3d", "do": "add_keywords", "account": "acme", "domain": "0.large", "count": more}
        changed = weekly(timeline=[added])
        left_out = asked(tmp_path, changed)["notes"]
        assert "Left out: 1 × add_keywords of the timeline. `ranksim run` simulates it." in left_out
        seen = rs.run(changed, seed=1)
        assert seen.metric("refusals.slot_limit_exceeded").mean == refused


def test_what_does_not_fit_is_told(tmp_path: Any) -> None:
    tight = weekly(1_800)
    assert any(
        "375: 75 slots are lacking, and additions are refused." in note
        for note in asked(tmp_path, tight)["notes"]
    )
    assert rs.run(tight, seed=1).metric("refusals.slot_limit_exceeded").mean


def test_flags_stand_in_place_of_what_a_client_does(tmp_path: Any) -> None:
    assert asked(tmp_path, weekly(), "--keywords", "1000")["answer"].startswith("10 requests take 0s")
    assert asked(tmp_path, weekly(), "--batch", "1")["answer"].startswith(
        "150 requests, 75 to add and 75 to remove"
    )
    bare = weekly().model_copy(update={"clients": {}})
    assert asked(tmp_path, bare)["answer"].startswith("23 requests take 0s")
    assert asked(tmp_path, bare, "--removals", "75")["answer"].startswith(
        "98 requests, 23 to add and 75 to remove"
    )


@pytest.mark.fact("U2", "S103", "S104")
def test_a_removal_is_a_write_whatever_class_an_addition_has() -> None:
    """130 removals pass in two minutes as writes; of 20 additions a minute take 20 from the other class."""
    expensive = {"tracking_class": "expensive"}
    policy = rs.Policy().replace(assumptions=expensive)
    times = {
        (removals, keywords): next(
            plan.time
            for plan in sync_time(Sync(keywords, batch=1, removals=removals), policy).plans
            if (plan.window, plan.way) == ("first_hit", "wait")
        )
        for removals, keywords in ((130, 0), (0, 21), (120, 20), (130, 20), (100, 21))
    }
    assert times == {(130, 0): MINUTE, (0, 21): MINUTE, (120, 20): 0, (130, 20): MINUTE, (100, 21): MINUTE}


@pytest.mark.fact("U3")
def test_an_expensive_addition_may_be_a_write_too() -> None:
    sync = Sync(20, batch=1, removals=110)
    for debits, time in ((False, 0), (True, MINUTE)):
        assumptions = {"tracking_class": "expensive", "expensive_debits_write": debits}
        plans = sync_time(sync, rs.Policy().replace(assumptions=assumptions)).plans
        assert {plan.time for plan in plans if (plan.window, plan.way) == ("first_hit", "wait")} == {time}


def test_whose_requests_they_are_is_told() -> None:
    """Filling up is more than replacing a twentieth; a network takes time that no flag says."""
    for client, number, sentence in (
        ({}, 1, "These are the requests of sync on an occasion."),
        ({"keywords": 100, "batch": 1}, 0, "These are the requests of sync on its first occasion."),
        ({"network": {"before": "50ms"}}, 1, "though it has a network; --latency says how long they take."),
    ):
        occasion = occasion_of(OwnAccount(weekly(clients={"sync": client})))
        assert occasion is not None
        assert (occasion.number, occasion.sentence.endswith(sentence)) == (number, True)
    people = weekly(clients={"sync": {"surface": "app"}})
    assert occasion_of(OwnAccount(people)) is None  # they have no rate limit, and hold slots
    assert slots_to_come(OwnAccount(people)) == 375


@pytest.mark.parametrize("removed", [(1, 2), (3,), (2, 2, 0)])
def test_removals_are_dealt_over_the_lists(removed: tuple[int, ...]) -> None:
    with pytest.raises(rs.BadInput, match="removed: expected the 4 removals, dealt over 2 lists, found"):
        Sync(10, lists=(4, 6), removals=4, removed=removed)
    assert list(Sync(3, lists=(2, 1), removals=3).calls) == ["remove", "remove", "add", "remove", "add"]


# As worlds show it


@st.composite
def worlds(draw: st.DrawFn) -> rs.Scenario:
    """A scenario of one account, whose domains differ, and whose words a client replaces each week."""
    scans = st.lists(
        st.integers(1, 3).map(
            lambda number: {"engine_devices": ["google/desktop", "google/mobile", "bing/desktop"][:number]}
        ),
        min_size=1,
        max_size=2,
    )
    group = st.fixed_dictionaries(
        {"keywords": st.integers(0, 30), "lists": st.integers(1, 2), "scans": scans}
    )
    groups: list[dict[str, Any]] = draw(st.lists(group, min_size=1, max_size=3))
    for number, part in enumerate(groups):
        sites = range(draw(st.integers(1, 3)))
        part["domains"] = [f"site{site}.group{number}.example" for site in sites]
    client = {
        **SYNC,
        "weekday": draw(st.sampled_from(["sunday", "monday", "tuesday"])),
        "share": draw(st.sampled_from([0.05, 0.2, 0.5])),
        "first": draw(st.sampled_from(["list", "memory"])),
        "keywords": draw(st.sampled_from([0, 10, 25])),
        "batch": draw(st.sampled_from([1, 4, 100])),
        "gap": draw(st.sampled_from(["0s", "1s", "7s"])),
        "max_tries": 99,
    }
    assumptions = {
        "window": draw(st.sampled_from(NAMES)),
        "tracking_class": draw(st.sampled_from(["write", "expensive"])),
        "expensive_debits_write": draw(st.booleans()),
    }
    rates = {"read": 1_200, "write": draw(st.integers(3, 60)), "expensive": draw(st.integers(2, 20))}
    return rs.Scenario.read(
        Located(
            "drawn",
            {
                "start": draw(st.sampled_from(["2026-03-01T00:00:00Z", "2026-03-10T00:00:00Z"])),
                "length": "31d",
                "policy": {"facts": {"rates": rates}, "assumptions": assumptions},
                "accounts": {
                    "acme": {
                        "plan": "agency",
                        "anchor": "2026-03-01T00:00:00Z",
                        "portfolio": groups[0],
                        "further": groups[1:],
                    }
                },
                "clients": {"sync": client},
            },
            {},
        )
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(worlds())
def test_requests_refusals_and_time_are_those_of_the_world(scenario: rs.Scenario) -> None:
    """Of the second occasion, or of the first, which has more requests where it fills the lists."""
    occasion, client = occasion_of(OwnAccount(scenario)), scenario.clients["sync"]
    assert isinstance(client, KeywordSync)
    trace = writes(scenario.replace(length="21d"))
    if occasion is None:
        assert not trace.seen
        return
    begins = list(client.times(scenario.start, scenario.start + 3 * WEEK))
    during = trace.between(*begins[occasion.number : occasion.number + 2])
    assert sum(status != 429 for _, status in during) == occasion.sync.requests
    if occasion.number or client.first == "memory":  # there are no reads between the writes
        first = during[0][0]
        plan = eager(rate_window_of(occasion.sync, scenario.policy, first), occasion.sync, "retry")
        refused = sum(status == 429 for _, status in during)
        assert (during[-1][0] - first, len(during), refused) == (plan.time, plan.calls, plan.refused)


@pytest.mark.slow
@settings(max_examples=60)
@given(worlds())
def test_slots_to_come_are_those_of_the_world(scenario: rs.Scenario) -> None:
    """What is used when the billing month ends is what is tracked at first and what comes until then."""
    own = OwnAccount(scenario)
    used = tracked_slots(own.parts) + slots_to_come(own)
    month = scenario.model_copy(update={"length": billing_month(own.anchor, own.now)[1] - own.now})
    assert rs.run(month, seed=1).metric("slots.acme.max_used").mean == used
    for slots, refused in ((used, False), (used - 1, True)):
        if slots >= tracked_slots(own.parts):
            seen = rs.run(month.changed({SLOTS: slots}), seed=1)
            assert bool(seen.metric("refusals.slot_limit_exceeded").mean) is refused


@pytest.mark.parametrize(("beside", "refused"), [(625, False), (626, True)])
def test_as_many_fresh_words_fit_beside_the_sync_as_in_a_run(
    tmp_path: Any, beside: int, refused: bool
) -> None:
    """Words that come on 4 March, when the sync has read its lists, and are none of those it replaces."""
    words = {"at": "3d", "do": "add_keywords", "account": "acme", "domain": "0.large", "count": beside}
    seen = rs.run(weekly(timeline=(words,)), seed=1)
    assert bool(seen.metric("refusals.slot_limit_exceeded").mean) is refused
    path = tmp_path / "world.yaml"
    path.write_text(json.dumps(weekly().model_dump(mode="json", exclude_unset=True)), encoding="utf-8")
    command = ["capacity", "slots", "--scenario", str(path), "--adds", "0", "--law", "fixed", "--json"]
    result = CliRunner().invoke(app, command)
    answer = json.loads(result.stdout)
    assert answer["answer"].startswith("625 fresh words fit; by day 31")
    used = [day["used_mean"] for day in answer["tables"]["answer"]]
    assert (used[0], used[1], used[30]) == (1_500, 1_575, 1_875)
