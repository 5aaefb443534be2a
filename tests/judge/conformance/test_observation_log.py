"""Exchanges that wait in little room come back as they were."""

from tests.kit.traces import a_trace, call

from ranksim.judge.conformance.history import trace_reader
from ranksim.judge.conformance.history.packed import ObservationLog


def test_exchanges_come_back_as_they_were_from_one_reading_or_two() -> None:
    entries = [call("domains.list", sent, sent + 1, [{"id": str(sent)}]) for sent in (0, 2, 4)]
    readings = [list(trace_reader.read_history(a_trace(entries)).seen) for _ in range(2)]
    log = ObservationLog()
    for exchange in (*readings[0], *readings[1]):
        log.add(exchange)
    told = [(one.id, one.sent, one.received, one.data, one.shelf) for one in log]
    assert told == [
        (one.id, one.sent, one.received, one.data, one.shelf) for reading in readings for one in reading
    ]
    assert len(log) == 6
