"""A world without a service, for tests of the runner; spawned processes import it too."""

import os
from types import SimpleNamespace
from typing import Any

from ranksim.core.clock import MINUTE
from ranksim.core.contract.policy import Policy
from ranksim.core.draws import below, entity
from ranksim.core.rules.books import Books
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.state import Account, State

LENGTH = 100 * MINUTE


def scenario(**changes: Any) -> Any:
    """What the runner and its result read of a scenario."""
    fields = {
        "name": "tiny",
        "made_up": (),
        "faults": (),
        "timeline": (),
        "title": "",
        "description": "",
        "accounts": {},
        "expect": (),
        "start": 0,
        "length": LENGTH,
        "seed": 1,
        "replications": 3,
        "sample_every": MINUTE,
        "warm_up": "none",
        "precision": None,
        "policy": Policy(),
    }
    return SimpleNamespace(**{**fields, **changes})


def precision(of: str = "refusals.total", relative: float = 0.1, max_replications: int = 50) -> Any:
    return SimpleNamespace(of=of, relative=relative, max_replications=max_replications)


class TinyWorld:
    """Each minute a call is refused with one chance in two; in the first twenty minutes ten more are."""

    def __init__(self, scenario: Any, *, seed: int, tally: Any, trace: Any = None) -> None:
        self.scenario, self.seed, self.tally, self.trace = scenario, seed, tally, trace
        self.endpoints: dict[str, str] = {}
        account = Account("acct_1", "acme", "production", "pro", "active", 0, Books(month_ends=2**60))
        self.service = SimpleNamespace(state=State(accounts={"acct_1": account}), consulted=tuple)

    def run(self) -> None:
        for minute in range(self.scenario.length // MINUTE):
            now = self.scenario.start + minute * MINUTE
            self.tally.sample(now, self.service)
            refused = below(2, self.seed, entity("tiny"), minute, 0) + (10 if minute < 20 else 0)
            for _ in range(refused):
                self._call(now, Reply(402, None, code="quota_exhausted", check=4, outcome="refused"))
            self._call(now, Reply(202, None, outcome="granted"))
            self.service.state.accounts["acct_1"].books.active += refused

    def _call(self, now: int, reply: Reply) -> None:
        call = Call("jobs.create")
        reply.operation = call.operation
        self.tally.call(now, "ci", call, reply)
        if self.trace is not None:
            self.trace.exchange(now, "ci", call, reply)


class BrokenWorld(TinyWorld):
    def run(self) -> None:
        raise ZeroDivisionError("the world ended")


class DyingWorld(TinyWorld):
    def run(self) -> None:
        os._exit(3)
