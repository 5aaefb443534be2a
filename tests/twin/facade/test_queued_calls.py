"""A queue of calls in the served policy: a reply is held back, on the served clock."""

import pytest

from ranksim.core.clock import SECOND
from ranksim.core.contract.policy import Policy
from ranksim.testing import Server


@pytest.mark.parametrize(
    ("limit", "algorithm", "seconds"), [("3/3000s", "queue", 1000), ("1/1000s", "concurrency", 2000)]
)
def test_a_reply_is_held_back_on_the_served_clock(limit: str, algorithm: str, seconds: int) -> None:
    """In a queue until the turn of its call, and of calls at once until it has taken its time."""
    policy = Policy(windows=[{"name": "held", "limit": limit, "algorithm": algorithm}])
    with Server(policy=policy, clock="scaled:1000") as server:
        begun = server.clock.now
        replies = [server.client().get("/v1/domains") for _ in range(2)]
        assert [reply.status_code for reply in replies] == [200, 200]
        assert server.clock.now - begun >= seconds * SECOND


def test_a_clock_that_stands_still_holds_nothing_back() -> None:
    policy = Policy(windows=[{"name": "queue", "limit": "3/3000s", "algorithm": "queue"}])
    with Server(policy=policy, clock="manual") as server:
        statuses = [server.client().get("/v1/domains").status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
