"""`--time` bounds the whole command: what the end takes is measured as judging goes, by a clock passed in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from ranksim.bridges.rehearsal import Rehearsal
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Trace
from ranksim.judge.check.checking import Checking
from ranksim.judge.check.crew import GONE
from ranksim.judge.check.plan import CLOSING, CheckPlan, Closing, make_plan
from ranksim.judge.conformance.compare import RULES, Judgement, compare
from ranksim.judge.deployment.discovery import explore
from ranksim.judge.load.consumption import AccountSpent


@cache
def planned(time: Micros, read: Micros = 20 * SECOND) -> CheckPlan:
    service, target = make_world(seed=1)
    reach = Rehearsal(service, target).alone(explore(target))
    return make_plan(reach, RULES, time, ("paging",), receiver=True, read=read)


@dataclass
class Busy:
    """A machine with a clock of its own: ten calls a second are made, and judging one takes `per_call` µs.

    Judging goes on beside everything else, `later` times as slow from `turns` on.
    """

    per_call: Micros
    turns: Micros = 10**15
    later: int = 1
    at: Micros = 0
    finish: Mapping[str, Micros] = field(default_factory=dict)
    judged: list[tuple[Micros, Micros]] = field(default_factory=list)
    """When each judgement began and ended."""
    _ends: Micros | None = None
    _written: bool = False
    _future: Future[Judgement] | None = None
    _stopped: Micros | None = None

    @property
    def calls(self) -> int:
        return 10 * (min(self.at, self._stopped or self.at) // SECOND)

    def now(self) -> Micros:
        return self.at

    def pass_on(self, by: Micros) -> None:
        self.at += by
        if self._future is not None and self._ends is not None and self.at >= self._ends:
            self._future.set_result(compare(Trace()))
            self.judged[-1] = (self.judged[-1][0], self.at)
            self._future = None

    def beside(self, work: Callable[[], Judgement]) -> Future[Judgement]:
        assert self._future is None, "two judgements at a time slow each other"
        slow = self.later if self.at >= self.turns else 1
        self._future, self._ends = Future(), self.at + self.calls * self.per_call * slow
        self.judged.append((self.at, 0))
        return self._future

    # What makes the calls

    def tell(self, **message: Any) -> None:
        if "finish" in message:
            self.finish, self._stopped = message["finish"], self.at

    def hear(self, seconds: float) -> Mapping[str, Any] | None:
        if not seconds:
            return None
        self.pass_on(round(seconds * SECOND))
        if self._stopped is None:
            return {"counts": {"answers": {"200": self.calls}, "spent": 0, "removing": 6 * SECOND}}
        since = self.at - self._stopped
        if not self._written and since >= self.finish["reading"]:
            self._written = True
            return {"written": True}
        if self._written and since >= min(self.finish["ending"], self.finish["reading"] + 6 * SECOND):
            return {"done": {"left": []}}
        return GONE if since > 10_000 * SECOND else None

    def kill(self) -> None: ...

    def close(self) -> None: ...


class Nothing:
    """A recording that is judged elsewhere."""

    def judged(self, policy: Policy | None) -> Judgement:
        raise AssertionError("judging is up to the machine here")

    def lines(self) -> Iterator[dict[str, Any]]:
        return iter(())

    def write(self, *, missing: bool) -> None:
        raise AssertionError("who makes the calls writes it")


def checked(machine: Busy, plan: CheckPlan) -> Checking:
    checking = Checking(
        plan,
        machine,
        Nothing(),
        None,
        lambda news: None,
        0,
        now=machine.now,
        beside=machine.beside,
    )
    checking.run()
    return checking


@pytest.mark.parametrize("per_call", [0, 100, 3_000, 10_000, 15_000])
def test_what_is_left_after_the_last_judgement_does_for_the_page_and_the_policy(per_call: Micros) -> None:
    machine, time = Busy(per_call), 10 * MINUTE
    checking = checked(machine, planned(time))
    assert checking.troubles == []
    assert machine.judged[-1][0] >= (machine._stopped or 0)  # all of it was judged
    last = machine.calls * per_call
    assert checking.left_of_time >= min(3 * last, time // 4 - SECOND), checking.left_of_time


@pytest.mark.parametrize(("takes", "kept"), [(0, 0), (40, 40), (300, 150)])
def test_what_reports_take_on_this_machine_is_tried_and_kept(takes: int, kept: int) -> None:
    """Even those of few calls take seconds: modules to load, figures to draw."""
    machine, tried = Busy(0), list[Judgement]()

    class Recorded(Nothing):
        def judged(self, policy: Policy | None) -> Judgement:
            return compare(Trace())

    def beside(work: Callable[[], Judgement]) -> Future[Judgement]:
        if not tried:
            tried.append(work())
            return Future()
        return machine.beside(work)

    checking = Checking(
        planned(10 * MINUTE),
        machine,
        Recorded(),
        None,
        lambda news: None,
        0,
        now=machine.now,
        beside=beside,
        report=lambda checking, judgement: machine.pass_on(takes * SECOND),
    )
    checking.run()
    assert kept * SECOND <= checking.left_of_time <= (max(kept, 30) + 2) * SECOND
    assert checking.closing.reporting(0) == kept * SECOND


def test_judging_takes_a_quarter_of_the_time_at_most_while_tasks_run() -> None:
    machine = Busy(15_000)
    checked(machine, planned(20 * MINUTE))
    pairs = zip(machine.judged, machine.judged[1:], strict=False)
    for (began, ended), (again, _) in list(pairs)[:-1]:
        assert again - ended >= 3 * (ended - began)


def test_where_judging_became_slow_the_judgement_before_it_stands() -> None:
    machine, time = Busy(3_000, turns=8 * MINUTE, later=30), 10 * MINUTE
    checking = checked(machine, planned(time))
    assert [
        trouble for trouble in checking.troubles if "there was no time to judge what came after" in trouble
    ]
    assert checking.judgement is not None
    assert machine.at <= time


def test_what_the_plan_admits_is_begun_in_the_shortest_time_too() -> None:
    plan = planned(MINUTE, 2_300_000)
    assert [task.name for task in plan.runs] == ["walk"]
    machine = Busy(0, at=plan.read)
    checking = checked(machine, plan)
    assert (dict(checking.rounds.begun), checking.not_run()) == ({"walk": 1}, {})
    assert machine.at <= MINUTE


def test_of_a_short_time_a_quarter_is_kept_for_the_end_at_least() -> None:
    assert [Closing(time * SECOND).length(0, 0) // SECOND for time in (60, 100, 120, 600)] == [15, 25, 30, 30]
    assert Closing(MINUTE, read=10 * SECOND).length(0, 0) == 22_500_000


def test_the_end_has_half_of_the_time_at_most_and_half_a_minute_at_least() -> None:
    closing = Closing(10 * MINUTE, read=5 * SECOND)
    assert closing.length(0, 0) == CLOSING
    closing.judged(1_000, 4 * SECOND)
    assert closing.judging(2_000) == 8 * SECOND
    assert closing.length(2_000, 0) == 10 * SECOND + 5 * 8 * SECOND
    assert closing.length(2_000, 100 * SECOND) == 10 * SECOND + 100 * SECOND + 3 * 8 * SECOND
    closing.judged(1_000, 60 * SECOND)
    assert closing.length(5_000, 0) == 5 * MINUTE
    assert closing.reporting(5_000) == 10 * MINUTE // 4


def test_what_was_spent_is_told_by_the_readings_before_and_after_too() -> None:
    """A check told 6.12 USD of 122.24: what came before its tasks' first reading, and after their last."""

    def usage(client: str, sent: int, spent: str) -> dict[str, Any]:
        shown = json.dumps({"data": {"cost": {"spent": spent, "resets_at": "2026-04-01"}}})
        said = {"operations": ["account.usage"], "api_key": "main", "client": client, "surface": "rest"}
        return {"kind": "exchange", "sent": sent, "received": sent, "status": 200, "response": shown} | said

    class Recorded(Nothing):
        def lines(self) -> Iterator[dict[str, Any]]:
            yield {"ranksim_trace": 1, "keys": {"main": {"account": "acct_1"}}}
            amounts = (
                ("explore", "10.00"),
                ("ladder 0", "113.00"),
                ("ladder 0", "119.12"),
                ("after", "132.24"),
            )
            for sent, (client, spent) in enumerate(amounts):
                yield usage(client, sent, spent)

    machine = Busy(0)
    checking = Checking(
        planned(MINUTE),
        machine,
        Recorded(),
        None,
        lambda news: None,
        0,
        now=machine.now,
        beside=machine.beside,
    )
    checking.run()
    assert checking.spent == 122_240_000
    assert checking.money == [AccountSpent("acct_1", 122_240_000, 122_240_000)]
