"""Webhook receivers: latency against the ten seconds, scripts, outages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND
from ranksim.core.service.calls import Answer, Attempt
from ranksim.twin.sim.receivers import ReceiverSpec, SimulatedReceiver

START = 1_767_225_600 * SECOND
TIMEOUT = 10 * SECOND


def receiver(seed: int = 1, **spec: Any) -> SimulatedReceiver:
    text = json.dumps({"account": "acme", **spec})
    read = ReceiverSpec.model_validate_json(text)
    return SimulatedReceiver("erp", read, start=START, timeout=TIMEOUT, seed=seed)


def attempt(number: int = 1) -> Attempt:
    return Attempt(1, 1, "whk_1", "acc_1", "https://x.example", "evt_1", "job.completed", number, {}, b"{}")


@pytest.mark.parametrize(
    ("spec", "answer", "acted", "delay"),
    [
        ({}, Answer(200, None, 200_000), True, 200_000),
        ({"status": 204, "latency": "1s"}, Answer(204, None, SECOND), True, SECOND),
        ({"status": 500}, Answer(500, None, 200_000), False, 200_000),
        ({"status": 302}, Answer(302, None, 200_000), False, 200_000),
        ({"latency": "10s"}, Answer(200, None, TIMEOUT), True, TIMEOUT),
        ({"latency": "10s1us"}, Answer(None, "timeout", TIMEOUT), True, TIMEOUT),
        ({"latency": "1h"}, Answer(None, "timeout", TIMEOUT), True, TIMEOUT),
        ({"latency": "1h", "status": 500}, Answer(None, "timeout", TIMEOUT), False, TIMEOUT),
        ({"script": ["refused"]}, Answer(None, "connection refused", 0), False, 0),
        ({"script": ["timeout"]}, Answer(None, "timeout", TIMEOUT), False, TIMEOUT),
    ],
)
@pytest.mark.fact("S88", "E24")
def test_answers(spec: dict[str, Any], answer: Answer, acted: bool, delay: int) -> None:
    assert receiver(**spec).answer(attempt(), START) == (answer, acted, delay)


def test_a_script_goes_by_the_attempt_number() -> None:
    scripted = receiver(script=[500, 503, 200])
    numbers = [1, 2, 1, 3, 4, 6]
    answers = [scripted.answer(attempt(number), START)[0].status for number in numbers]
    assert answers == [500, 503, 500, 200, 200, 200]


def test_a_script_may_go_round_by_request() -> None:
    scripted = receiver(script=[500, 200], script_by="cycle")
    assert [scripted.answer(attempt(1), START)[0].status for _ in range(5)] == [500, 200, 500, 200, 500]


@pytest.mark.parametrize(
    ("when_down", "answer", "delay"),
    [
        ("refused", Answer(None, "connection refused", 0), 0),
        ("timeout", Answer(None, "timeout", TIMEOUT), TIMEOUT),
        (503, Answer(503, None, 200_000), 200_000),
    ],
)
def test_what_an_outage_looks_like(when_down: str | int, answer: Answer, delay: int) -> None:
    broken = receiver(outages=[{"from": "0s", "for": "1h"}], when_down=when_down)
    assert broken.answer(attempt(), START) == (answer, False, delay)


def test_outages_are_half_open_and_may_be_instants() -> None:
    broken = receiver(outages=[{"from": "1h", "for": "30m"}, {"from": "2026-01-01T03:00:00Z", "for": "1s"}])
    edges = [HOUR - 1, HOUR, HOUR + 30 * MINUTE - 1, HOUR + 30 * MINUTE, 3 * HOUR, 3 * HOUR + SECOND]
    assert [broken.is_down(START + edge) for edge in edges] == [False, True, True, False, True, False]


def test_down_from_outside() -> None:
    up = receiver()
    up.down = True
    assert up.answer(attempt(), START)[0].error == "connection refused"
    up.down = False
    assert up.answer(attempt(), START)[0].status == 200


def test_it_tells_when_it_was_down() -> None:
    broken = receiver(outages=[{"from": "1h", "for": "30m"}], mtbf="2h", mttr="1h")
    broken.bring_up(START)
    broken.take_down(START + 4 * HOUR)
    broken.take_down(START + 5 * HOUR)
    broken.bring_up(START + 6 * HOUR)
    hours = [((a - START) / HOUR, (b - START) / HOUR) for a, b in sorted(broken.outages(START + 6 * HOUR))]
    assert hours == [(1, 1.5), (2, 3), (4, 6), (5, 6)]


def test_random_outages_that_are_told_are_those_that_were_met() -> None:
    broken = receiver(mtbf={"exponential": {"mean": "9h"}}, mttr={"exponential": {"mean": "1h"}})
    told = broken.outages(START + 9 * DAY)
    met = [broken.is_down(START + at * MINUTE) for at in range(9 * 24 * 60)]
    assert met == [any(a <= START + at * MINUTE < b for a, b in told) for at in range(9 * 24 * 60)]


def test_random_outages_begin_up_and_alternate() -> None:
    broken = receiver(mtbf="2h", mttr="1h")
    hours = [broken.is_down(START + hour * HOUR) for hour in range(9)]
    assert hours == [False, False, True, False, False, True, False, False, True]


def test_random_outages_take_their_share_of_time() -> None:
    broken = receiver(mtbf={"exponential": {"mean": "9h"}}, mttr={"exponential": {"mean": "1h"}})
    times = range(START, START + 2000 * DAY, 40 * MINUTE)
    assert sum(map(broken.is_down, times)) / len(times) == pytest.approx(0.1, rel=0.1)


def test_outages_do_not_depend_on_when_one_looks() -> None:
    spec = {"mtbf": {"exponential": {"mean": "9h"}}, "mttr": {"exponential": {"mean": "1h"}}}
    often, seldom = receiver(**spec), receiver(**spec)
    seen = {t: often.is_down(t) for t in range(START, START + 30 * DAY, HOUR)}
    assert all(seldom.is_down(t) == seen[t] for t in range(START, START + 30 * DAY, 7 * HOUR))
    assert seen != {t: receiver(seed=2, **spec).is_down(t) for t in seen}


def test_latency_is_drawn_afresh_for_each_request() -> None:
    def latencies(seed: int) -> list[int]:
        slow = receiver(seed=seed, latency={"uniform": {"low": "1s", "high": "2s"}})
        return [slow.answer(attempt(), START)[2] for _ in range(5)]

    assert len(set(latencies(1))) == 5
    assert latencies(1) == latencies(1) != latencies(2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mtbf": "1h"}, "both mtbf and mttr"),
        ({"mtbf": "0s", "mttr": "0s"}, "above zero"),
        ({"status": 99}, "greater than or equal"),
        ({"script": []}, "at least 1"),
        ({"outages": [{"from": "1h"}]}, "required"),
    ],
)
def test_wrong_specifications_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        receiver(**wrong)
