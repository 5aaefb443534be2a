"""Whatever JSON a deployment answers with, a trace of it can be judged, calibrated and written down."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit import traces as b

from ranksim.bridges.rehearsal import Network, rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.clock import SECOND
from ranksim.core.errors import BadInput
from ranksim.core.trace import Trace
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.report.as_dict import judgement_data
from ranksim.judge.profiles import profile


def survives(trace: Trace) -> None:
    """Judge, calibrate and write down a trace; what is found does not matter."""
    json.dumps(judgement_data(compare(trace)), ensure_ascii=False).encode()
    calibrate(trace).dump().encode()


# Parts of what was recorded, replaced

NUMBERS = (0, -1, 1, 200, 1.5, 20.0, 1e308, 10**30, -(10**30))
TEXTS = (
    "",
    "x",
    "12",
    "2026-03-02T09:00:00Z",
    "9999-12-31T23:59:59Z",
    "1e999999",
    "done",
    "rank_run",
    "\ud800",
)
SCALARS = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
NAMES = st.sampled_from(
    ("id", "data", "metric", "used", "limit", "kind", "status", "meta", "code", "job", "x")
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
HEADERS = (
    "",
    "x",
    "-1",
    "20, 20;w=60",
    "9" * 20,
    "²",
    "Sun, 06 Nov 9999 08:49:37",
    "Mon, 1 Jan 0000 00:00:00 GMT",
)
BROKEN = ("[" * 100_000, "[" * 400 + "]" * 400, "{", "null", "[]", '"x"', '{"data": NaN}', "1" * 5_000)


@cache
def recorded(name: str) -> Trace:
    """A short run of a profile."""
    service, target = make_world(seed=1)
    length = 20 * SECOND
    return rehearse(
        profile(name), service, target, users=2, duration=length, seed=1, network=Network(loss=0.02)
    )


class Mangler:
    """Replaces parts of texts: each with a chance of one in `rarity`."""

    def __init__(self, seed: int, rarity: int, values: list[Any]) -> None:
        self.draw, self.rarity, self.values = Random(seed), rarity, values

    def hits(self, rarer: int = 1) -> bool:
        return self.draw.randrange(self.rarity * rarer) == 0

    def text(self, text: str) -> str:
        if not text or self.hits(rarer=10):
            return self.draw.choice(BROKEN) if text else text
        try:
            return json.dumps(self.value(json.loads(text)))
        except ValueError:
            return text

    def value(self, value: Any) -> Any:
        if self.hits():
            return self.draw.choice(self.values)
        if isinstance(value, dict):
            return {name: self.value(inner) for name, inner in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, list) else value

    def headers(self, headers: dict[str, str]) -> dict[str, str]:
        return {
            name: self.draw.choice(HEADERS) if self.hits(rarer=3) else value
            for name, value in headers.items()
        }

    def trace(self, trace: Trace) -> Trace:
        exchanges = [
            one.model_copy(
                update={
                    "body": self.text(one.body) if self.hits() else one.body,
                    "query": self.headers(one.query),
                    "response": self.text(one.response),
                    "response_headers": self.headers(one.response_headers),
                }
            )
            for one in trace.exchanges
        ]
        deliveries = [
            one.model_copy(update={"body": self.text(one.body), "headers": self.headers(one.headers)})
            for one in trace.deliveries
        ]
        return replace(trace, exchanges=exchanges, deliveries=deliveries)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    name=st.sampled_from(("everyday", "ladder", "race", "retry", "scope", "walk", "webhooks")),
    seed=st.integers(0, 10**6),
    rarity=st.sampled_from((3, 10, 40, 200)),
    values=st.lists(VALUES, min_size=8, max_size=8),
)
def test_any_json_in_place_of_any_part_can_be_judged(
    name: str, seed: int, rarity: int, values: list[Any]
) -> None:
    try:
        survives(Mangler(seed, rarity, values).trace(recorded(name)))
    except BadInput as refused:
        if not str(refused).startswith("keys: the header gives"):  # as where an account has another id
            raise


# What once could not be read

JOB = b.a_job()
USAGE = {"metrics": [{"metric": "m", "used": 1, "limit": 5, "period": "month"}], "cost": {"ceiling": "1.00"}}
ODD = {
    "kind of a job": b.call(
        "jobs.get", 1, 2, JOB | {"kind": ["crawl"]}, path={"kind": "crawl", "id": "job_1"}
    ),
    "state of a job": b.call("jobs.list", 1, 2, [JOB | {"status": {}}]),
    "kind asked for": b.call("jobs.create", 1, 2, JOB, body={"kind": {}, "domain_id": []}),
    "amount": b.call("account.usage", 1, 2, {"cost": {"settled": "1e999999", "spent": "1e99"}}),
    "nesting": b.call("domains.list", 1, 2, reply="[" * 100_000),
    "lone surrogate": b.call("domains.list", 1, 2, reply='{"code": "\\ud800"}', status=400),
    "limit asked for": b.call("domains.list", 1, 2, [], query={"limit": "²"}, status=400),
    "long limit": b.call("domains.list", 1, 2, [], query={"limit": "9" * 5_000}),
    "body that is a list": b.call("jobs.create", 1, 2, JOB, body=[1]),
}


@pytest.mark.parametrize("entry", ODD.values(), ids=ODD.keys())
def test_odd_values_can_be_judged(entry: Any) -> None:
    survives(b.a_trace([b.call("jobs.create", 0, 0.5, JOB, body={"kind": "crawl"}, status=202), entry]))


def test_events_of_a_job_without_a_name_can_be_judged() -> None:
    made = b.call("jobs.create", 0, 0.5, JOB, body={"kind": "crawl"}, status=202)
    survives(b.a_trace([b.created(), made, b.hook(1, job={"id": ["job_1"], "status": []})]))


@pytest.mark.parametrize(
    ("entitled", "usage"),
    [
        ({"capabilities": 7}, USAGE),
        ({}, {"metrics": [None, "x", 1]}),
        ({"dimensions": {"engine_devices": 10**30}}, USAGE),
        ({}, {"metrics": [{"metric": "m", "limit": 10**30, "period": "week"}]}),
        ({}, {"cost": {"ceiling": "1e999999"}}),
        ({"cooldown_seconds": {"crawl": 10**30}}, {}),
    ],
    ids=["capabilities", "metrics", "dimensions", "limit", "ceiling", "cooldown"],
)
def test_odd_plans_can_be_calibrated(entitled: dict[str, Any], usage: dict[str, Any]) -> None:
    survives(
        b.a_trace(
            [
                b.call("account.get", 0, 1, {"id": "acc", "plan": "pro", "status": "active"}),
                b.call("account.entitlements", 1, 2, entitled),
                b.call("account.usage", 2, 3, usage),
            ]
        )
    )


def test_a_list_of_no_domain_that_can_be_read_can_be_judged() -> None:
    slots = {"used": 5, "limit": 90, "held": 1, "resets_at": "2026-04-01T00:00:00Z"}
    made = {"id": "lst_1", "domain_id": []}
    words = {"list_id": "lst_1", "keywords": ["a", "b"]}
    survives(
        b.a_trace(
            [
                b.call("slots.get", 0, 1, slots),
                b.call("keyword_lists.create", 1, 2, made, body={"domain_id": []}, status=201),
                b.call("keywords.create", 2, 3, {"created": []}, body=words, status=201),
                b.call("slots.get", 4, 5, slots),
            ]
        )
    )
