"""The sample calls of the surfaces, each on every way that a call can go through the service."""

from typing import Any

import pytest
from tests.core.service.ways import EveryWay

from ranksim.core.service.calls import Call
from ranksim.core.service.operations import OPERATIONS


@pytest.mark.slow
@pytest.mark.fact("S4", "S9", "U86")
def test_sample_calls_go_every_way(stage: Any) -> None:
    samples = stage.samples()
    assert len(samples) > 200
    for sample in samples:
        for key in (stage.key, stage.scoped):
            given = {"path": sample.path, "query": sample.query, "body": sample.body}
            service = EveryWay(stage.service.fork())
            reply = service.handle(Call(sample.operation, key, **given), stage.now).reply
            assert key != stage.key or reply.code == sample.code, sample.name
            if OPERATIONS[sample.operation].method == "POST":
                for _ in range(2):
                    call = Call(sample.operation, key, **given, idempotency_key="k")
                    service.written(service.handle(call, stage.now).reply, stage.now)
