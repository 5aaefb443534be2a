"""What is judged while a run goes on: what was decided stays so, as `ranksim check` shows it."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from tests.judge.conformance.test_soundness import Run

from ranksim.bridges.rehearsal import rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.conformance.compare import compare
from ranksim.judge.profiles import profile

LATE = 50 * MILLISECOND
"""By how much the server is late, now and then, with a Date header that it makes once a second."""


def with_late_date(exchange: Exchange, late: Micros) -> Exchange:
    if exchange.received is None:
        return exchange
    answered = (exchange.sent + exchange.received) // 2
    date = formatdate((answered - late) // SECOND, usegmt=True)
    headers = {name: value for name, value in (exchange.response_headers or {}).items() if name != "Date"}
    return exchange.model_copy(update={"response_headers": headers | {"Date": date}})


def until(trace: Trace, end: Micros) -> Trace:
    """What of a trace was recorded by an instant: calls under way have no reply as yet."""
    nothing = {"received": None, "status": None, "response_headers": {}, "response": "", "effect": "unknown"}
    sent = [one for one in trace.exchanges if one.sent <= end]
    calls = [
        one if one.received is not None and one.received <= end else one.model_copy(update=nothing)
        for one in sent
    ]
    came = [one for one in trace.deliveries if (one.answered or one.received) <= end]
    return Trace(trace.header, calls, came, trace.notes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["everyday", "webhooks"])
def test_no_case_that_was_decided_is_open_later(name: str) -> None:
    service, target = make_world(Run(name, "first_hit", "usual", None, 4_242, odds=50).policy(), 4_242)
    trace = rehearse(profile(name), service, target, duration=100 * SECOND, seed=4_242)
    trace.exchanges = [with_late_date(one, LATE * (number % 2)) for number, one in enumerate(trace.exchanges)]
    began, ended = trace.exchanges[0].sent, max(one.sent for one in trace.exchanges)
    decided = set[tuple[str, str]]()
    for part in range(1, 9):
        judgement = compare(until(trace, began + (ended - began) * part // 8))
        assert judgement.history.run.offset.bounded
        found = {
            (one.rule.name, case.name) for one in judgement.findings for case in one.cases if case.exercised
        }
        assert decided - found == set()
        assert not judgement.deviating
        decided = found
