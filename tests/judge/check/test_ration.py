"""What an account has once is kept for the tasks that want it most."""

from __future__ import annotations

from typing import Any

import pytest

from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.callers.requests import GERMANY, briefs_body, create, keywords_body, scan_body
from ranksim.core.callers.steps import Program, Received, Send
from ranksim.judge.check.ration import BRIEFS, SLOTS, Ration, rationed
from ranksim.judge.check.tasks import CheckTask, Stage
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.profiles.profile import Needs

OWNER = "production acc_1"
_, TARGET = make_world(seed=1)


def account(slots: int | None, briefs: int | None) -> Reach:
    """One key of an account that has so much left; None is what cannot be read."""
    reads: dict[str, Any] = {}
    if slots is not None:
        reads["slots.get"] = {"limit": slots + 5, "used": 5}
    if briefs is not None:
        metrics = [{"metric": "brief_refreshes", "limit": briefs + 1, "used": 1}]
        reads["account.usage"] = {"metrics": metrics}
    key = KeyReach("main", "production", "full", usable=True, account="acc_1", reads=reads)
    return Reach(TARGET, {"main": key}, "main")


def task(name: str, profile: str) -> CheckTask:
    keys, owners = frozenset({"main"}), frozenset({OWNER})
    return CheckTask(name, profile, (0,), 1, "main", keys, owners, Needs(0), stage=Stage.BROAD)


TASKS = [task("everyday", "everyday"), task("breadth", "breadth"), task("last", "last")]


def briefs(count: int, once: str | None = None) -> Send:
    return create("keyword_briefs", "main", briefs_body("dom_1", ["word"] * count), once)


def granted(send: Send, **data: Any) -> Received:
    return Received(201, {"data": {"id": "new", **data}}, {}, 0, 0)


def test_what_others_claim_is_not_taken_and_what_nobody_claims_is() -> None:
    ration = Ration.of(account(20, 3), TASKS)
    assert ration.claims == {
        "breadth": {(OWNER, BRIEFS): 1, (OWNER, SLOTS): 8},
        "last": {(OWNER, BRIEFS): 1, (OWNER, SLOTS): 1},
    }
    assert ration.permits("everyday", briefs(1))
    assert not ration.permits("everyday", briefs(2))
    ration.saw("everyday", briefs(1), granted(briefs(1)))
    assert not ration.permits("everyday", briefs(1))
    assert ration.permits("last", briefs(1))
    ration.ended("breadth")
    assert ration.permits("everyday", briefs(1))


def test_what_asks_for_more_than_is_left_is_sent_as_it_takes_nothing() -> None:
    ration = Ration.of(account(20, 3), TASKS)
    assert ration.permits("everyday", briefs(4))
    body = briefs_body("dom_1", ["word"] * 2) | {"dry_run": True}
    assert ration.permits("everyday", create("keyword_briefs", "main", body))


def test_what_is_sent_again_under_its_key_takes_nothing_more() -> None:
    ration = Ration.of(account(20, 2), TASKS)
    twice = briefs(1, "once")
    ration.saw("breadth", twice, granted(twice))
    ration.saw("breadth", twice, granted(twice))
    assert ration.left[OWNER, BRIEFS] == 1
    assert ration.permits("everyday", twice)


def test_a_claim_that_is_not_there_is_named_and_the_least_claims_come_first() -> None:
    ration = Ration.of(account(5, 1), TASKS)
    assert ration.claims["last"] == {(OWNER, BRIEFS): 1, (OWNER, SLOTS): 1}
    assert ration.wanting == {"breadth": {(OWNER, BRIEFS): 1, (OWNER, SLOTS): 4}}


def test_what_cannot_be_read_is_kept_for_nobody() -> None:
    ration = Ration.of(account(None, None), TASKS)
    assert (ration.left, ration.claims) == ({}, {})
    assert ration.permits("everyday", briefs(500))


@pytest.mark.fact("S23", "S25")
def test_slots_are_counted_by_words_pairings_and_places() -> None:
    ration = Ration.of(account(12, 0), TASKS)
    pairs = [{"engine": "google", "device": device} for device in ("desktop", "mobile")]
    scan = create("scans", "main", scan_body("dom_1", ["lst_1"], "a", pairs, GERMANY))
    ration.saw("everyday", scan, granted(scan))
    two = create("keywords", "main", keywords_body("lst_1", ["one", "two"]))
    assert not ration.permits("everyday", two)  # four slots, of which three are for nobody
    assert ration.permits("breadth", two)
    ration.saw("breadth", two, granted(two))
    assert ration.left[OWNER, SLOTS] == 8
    wider = Send(
        "scans.update", "main", path={"id": "new"}, body={"geographies": [*GERMANY, {"country": "AT"}]}
    )
    assert not ration.permits("everyday", wider)
    reading = Send("slots.get", "main")
    ration.saw("last", reading, Received(200, {"data": {"limit": 17, "used": 2}}, {}, 0, 0))
    assert ration.left[OWNER, SLOTS] == 15


def test_what_is_not_permitted_is_answered_like_silence() -> None:
    def program() -> Program:
        answers.append((yield briefs(1)))

    answers: list[Received] = []
    ration = Ration.of(account(20, 2), TASKS)
    assert list(rationed(program(), ration, "everyday")) != [briefs(1)]
    assert ([answer.status for answer in answers], ration.held_back) == ([0], 1)
