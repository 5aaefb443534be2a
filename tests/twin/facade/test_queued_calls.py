"""A queue of calls in the served policy: a reply is held back, on the served clock."""

from ranksim.core.clock import SECOND
from ranksim.core.contract.policy import Policy
from ranksim.testing import Server


def test_a_call_waits_for_its_turn_on_the_served_clock() -> None:
    policy = Policy(windows=[{"name": "queue", "limit": "3/3000s", "algorithm": "queue"}])
    with Server(policy=policy, clock="scaled:1000") as server:
        begun = server.clock.now
        replies = [server.client().get("/v1/domains") for _ in range(2)]
        assert [reply.status_code for reply in replies] == [200, 200]
        assert server.clock.now - begun >= 1000 * SECOND


def test_calls_at_once_are_answered_when_they_have_taken_their_time() -> None:
    policy = Policy(windows=[{"name": "places", "limit": "1/1000s", "algorithm": "concurrency"}])
    with Server(policy=policy, clock="scaled:1000") as server:
        begun = server.clock.now
        replies = [server.client().get("/v1/domains") for _ in range(2)]
        assert [reply.status_code for reply in replies] == [200, 200]
        assert server.clock.now - begun >= 2000 * SECOND


def test_a_clock_that_stands_still_holds_nothing_back() -> None:
    policy = Policy(windows=[{"name": "queue", "limit": "3/3000s", "algorithm": "queue"}])
    with Server(policy=policy, clock="manual") as server:
        statuses = [server.client().get("/v1/domains").status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
