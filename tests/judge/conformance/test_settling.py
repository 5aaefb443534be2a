"""Judges settle at any moment, forget past their horizon, and find nothing that is not so for it."""

from __future__ import annotations

import json
import pickle
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.kit.traces import a_trace, at, call

from ranksim.bridges.rehearsal import START, Network, rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.clock import DAY, DISTANT_FUTURE, HOUR, MINUTE, Micros
from ranksim.core.trace import DeliveryAttempt
from ranksim.judge.conformance.calls.idempotency import IdempotencyJudge
from ranksim.judge.conformance.calls.jobs import PROGRESS, JobJudge
from ranksim.judge.conformance.calls.pagination import PaginationJudge
from ranksim.judge.conformance.calls.updates import UpdateJudge
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.history.packed import ObservationLog
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.judging import FAMILIES, Judge, Maker, judged
from ranksim.judge.conformance.rate.windows import WindowJudge
from ranksim.judge.conformance.spending.spending import SpendingJudge
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Tally, Verdict
from ranksim.judge.profiles import profile

OPEN = Options.of()


def rehearsed(name: str, start: Micros = START) -> History:
    service, target = make_world(None, 7, start)
    trace = rehearse(
        profile(name),
        service,
        target,
        duration=MINUTE,
        seed=7,
        start=start,
        network=Network(loss=0.02),
    )
    return read_history(trace)


def deviating(name: str, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "deviations"))
    from deviating import TABLE

    [deviation] = [one for one in TABLE if one.name == name]
    return read_history(deviation.rehearsed(deviation.profiles[0], 1, 0.0))


def told(judge: Judge, *parts: History, cut_every: int = 1) -> Tally:
    """Show parts one after the other, and have the judge settle all the time."""
    for history in parts:
        for attempt in history.arrived:
            judge.see_attempt(attempt)
        for number, seen in enumerate(history.seen):
            if number % cut_every == 0:
                judge.settle(seen.sent, history.run)
            if judge.wants(seen):
                judge.see(seen)
    judge.settle(DISTANT_FUTURE, parts[-1].run)
    return judge.tally


class Sizing(pickle.Pickler):
    """Writes what a judge keeps of what it saw, of each observation its number alone."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Observation):
            return int, (value.index,)
        if isinstance(value, Tally | Options):
            return int, ()
        return (list, (list(value),)) if isinstance(value, ObservationLog) else NotImplemented


def size(judge: Judge) -> int:
    """Return how many bytes what a judge keeps takes."""
    memory = BytesIO()
    Sizing(memory).dump(vars(judge))
    return len(memory.getvalue())


@pytest.mark.parametrize("maker", FAMILIES)
@pytest.mark.parametrize("name", ["retry", "walk", "scope"])
def test_settling_all_the_time_changes_no_finding(name: str, maker: Maker) -> None:
    history = rehearsed(name)
    whole, cut = judged(maker, history, OPEN), told(maker(OPEN), history)
    assert (cut.findings(), cut.differences) == (whole.findings(), whole.differences)


DAYS_LATER = START + 10 * DAY


def test_an_idempotency_key_is_forgotten_and_what_was_found_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    history = deviating("idempotency-doubled-in-flight", monkeypatch)
    broken = {found.rule.name for found in judged(IdempotencyJudge, history, OPEN).findings() if found.broken}
    assert broken
    judge = IdempotencyJudge(OPEN)
    for seen in history.seen:
        if judge.wants(seen):
            judge.see(seen)
    judge.settle(DAYS_LATER, history.run)
    assert not judge.posts
    assert {found.rule.name for found in judge.tally.findings() if found.broken} == broken


def test_a_key_that_comes_back_past_the_horizon_is_a_new_one() -> None:
    """The same worlds again, days later: the same keys do new work, which is no deviation."""
    tally = told(IdempotencyJudge(OPEN), rehearsed("retry"), rehearsed("retry", DAYS_LATER))
    assert not [found for found in tally.findings() if found.verdict == Verdict.DEVIATES]


def test_a_key_is_kept_up_to_the_horizon() -> None:
    history = rehearsed("retry")
    judge = IdempotencyJudge(OPEN)
    for seen in history.seen:
        if judge.wants(seen):
            judge.see(seen)
    kept = len(judge.posts)
    assert kept
    judge.settle(history.seen[-1].sent + 24 * HOUR, history.run)
    assert len(judge.posts) == kept


@pytest.mark.parametrize(
    "maker", [maker for maker in FAMILIES if maker.__name__ in ("HeaderJudge", "AccessJudge")]
)
def test_what_one_exchange_decides_is_decided_when_it_settles(maker: Maker) -> None:
    """Nothing waits of calls that were settled, however many there were."""
    history = rehearsed("everyday")
    judge = maker(OPEN)
    for seen in history.seen:
        judge.see(seen)
    judge.settle(history.run.ended, history.run)
    assert not judge.pending
    assert any(found.held for found in judge.tally.findings())


@pytest.mark.parametrize(
    ("maker", "name", "gap"),
    [
        (WindowJudge, "burst", 2 * DAY),
        (SpendingJudge, "ladder", 40 * DAY),
        (JobJudge, "everyday", 4 * DAY),
        (PaginationJudge, "walk", 3 * DAY),
        (UpdateJudge, "everyday", 4 * DAY),
    ],
)
def test_what_is_idle_is_judged_and_forgotten(maker: Maker, name: str, gap: Micros) -> None:
    """What was found is what the end would find, and the same world again later is no deviation."""
    history = rehearsed(name)
    judge = maker(OPEN)
    for attempt in history.arrived:
        judge.see_attempt(attempt)
    for seen in history.seen:
        if judge.wants(seen):
            judge.see(seen)
    before = size(judge)
    judge.settle(START + gap, history.run)
    assert size(judge) < before / 4
    assert judge.tally.findings() == judged(maker, history, OPEN).findings()
    again = told(judge, rehearsed(name, START + gap))
    assert not [found for found in again.findings() if found.verdict == Verdict.DEVIATES]


def test_an_event_of_a_name_that_two_accounts_have_tells_of_no_job() -> None:
    """Not even where the other account's job is told of after what the event would contradict."""
    ended = {"id": "7", "kind": "rank_run", "status": "done"}
    alive = {**ended, "status": "running"}
    headers = {"Service-Event-Type": "job.completed", "Service-Event-Id": "e"}
    body = json.dumps({"data": {"job": ended}})
    entries = [
        call("jobs.create", 0, 1, alive, body={"kind": "rank_run"}),
        DeliveryAttempt(received=at(20), endpoint="/hooks", headers=headers, body=body),
        call("jobs.list", 30, 31, [alive]),
    ]
    other = call("jobs.list", 40, 41, [ended], key="other")
    for more, broken in (([], 1), ([other], 0)):
        history = read_history(a_trace([*entries, *more]))
        [found] = [one for one in told(JobJudge(OPEN), history).findings() if one.rule.name == PROGRESS]
        assert found.broken == broken
