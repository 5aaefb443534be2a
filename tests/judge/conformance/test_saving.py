"""A judge whose memory was saved and loaded in the middle of a trace finds what it would have found."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ranksim.bridges.rehearsal import Network, rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.clock import DISTANT_FUTURE, MINUTE
from ranksim.core.errors import BadInput
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.conformance.calls.schema_checks import FIELDS, SchemaJudge
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.history.trace_reader import read
from ranksim.judge.conformance.judging import FAMILIES, Judge, Maker, judged
from ranksim.judge.conformance.saving import load, save
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.profiles import profile

OPEN = Options.of()


def traced(name: str) -> Trace:
    service, target = make_world(None, 5)
    return rehearse(profile(name), service, target, duration=MINUTE, seed=5, network=Network(loss=0.02))


def rehearsed(name: str) -> History:
    return read(traced(name))


@pytest.fixture(scope="module", params=["retry", "webhooks", "walk", "burst"])
def history(request: pytest.FixtureRequest) -> History:
    return rehearsed(request.param)


@pytest.mark.parametrize("maker", FAMILIES)
def test_a_judge_goes_on_where_it_was_saved(history: History, maker: Maker) -> None:
    judge: Judge = maker(OPEN)
    middle = len(history.seen) // 2
    for number, seen in enumerate(history.seen):
        if number == middle:
            judge.settle(seen.sent, history.run)
            for attempt in history.arrived:
                judge.see_attempt(attempt)
            judge = load(maker, OPEN, save(judge))
        if judge.wants(seen):
            judge.see(seen)
    judge = load(maker, OPEN, save(judge))
    judge.settle(DISTANT_FUTURE, history.run)
    whole = judged(maker, history, OPEN)
    assert (judge.tally.findings(), judge.tally.differences) == (whole.findings(), whole.differences)


def test_the_judge_of_raw_texts_goes_on_where_it_was_saved() -> None:
    trace, whole = traced("everyday"), SchemaJudge(OPEN)
    for n, one in enumerate(trace.exchanges[: len(trace.exchanges) // 4]):
        crawled = one.response.replace('crawl_at":null', 'crawl_at":"2026-03-02T06:00:00Z"')
        trace.exchanges[n] = one.model_copy(update={"response": crawled})
    judges, middle = [SchemaJudge(OPEN)], len(trace.exchanges) // 2

    def see_raw(exchange: Exchange, seen: Observation, reply: Any) -> None:
        whole.see_raw(exchange, seen, reply)
        if seen.index == middle:
            judges.append(load(SchemaJudge, OPEN, save(judges[-1])))
        judges[-1].see_raw(exchange, seen, reply)

    run = read(trace, see_raw).run
    judges.append(load(SchemaJudge, OPEN, save(judges[-1])))
    for judge in (whole, judges[-1]):
        judge.settle(DISTANT_FUTURE, run)
    assert (judges[-1].tally.findings(), judges[-1].tally.differences) == (
        whole.tally.findings(),
        whole.tally.differences,
    )
    assert [found.rule.name for found in whole.tally.findings() if found.broken] == [FIELDS]


def test_no_other_judge_remembers_it() -> None:
    first, second = FAMILIES[:2]
    with pytest.raises(BadInput, match=r"is that of WindowJudge, version 8, not of HeaderJudge"):
        load(second, OPEN, save(first(OPEN)))


@pytest.mark.parametrize("memory", [b"", b"nonsense", pickle.dumps((1, print, {}))])
def test_nothing_is_made_of_what_is_no_memory(memory: bytes) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load(FAMILIES[0], OPEN, memory)
