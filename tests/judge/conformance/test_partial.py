"""A capture that is not whole: with exchanges missing at random, nothing deviates on a conforming deployment.

Every run is one that `test_soundness` could draw, thinned by a share of 0 to 60 %, shared or exclusive, with
some of its webhook attempts missing too.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from tests.judge.conformance.test_soundness import LENGTHS, NETWORKS, WINDOWS, Run
from tests.kit import spending

from ranksim.bridges.rehearsal import rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.clock import HOUR, MINUTE
from ranksim.core.trace import Exchange, Header, Trace, TraceKey
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.report.as_dict import judgement_data
from ranksim.judge.profiles import PROFILES, profile

NAMES = [one.name for one in PROFILES]


def drawn(seed: int) -> Run:
    draw = Random(f"partial/{seed}")
    name = NAMES[seed % len(NAMES)]
    users = draw.choice((None, 1, 3, 20)) if name not in ("windows", "calibration") else None
    network = draw.choice(list(NETWORKS))
    return Run(name, draw.choice(WINDOWS), network, users, seed, odds=draw.choice((2, 4, 50)))


def rehearsed(run: Run) -> Trace:
    service, target = make_world(run.policy(), run.seed)
    usual = min(LENGTHS.get(run.profile, 2 * MINUTE), 4 * MINUTE)
    return rehearse(
        profile(run.profile),
        service,
        target,
        users=run.users,
        duration=9 * HOUR if run.profile == "webhooks-long" else usual,
        seed=run.seed,
        network=NETWORKS[run.network],
    )


def thinned(trace: Trace, draw: Random) -> Trace:
    """The trace without a share of its exchanges, and perhaps of its attempts, saying that it is partial."""
    share, attempts = draw.uniform(0, 0.6), draw.choice((0.0, 0.3))
    header = trace.header.model_copy(update={"capture": "partial", "exclusive": draw.random() < 0.6})
    exchanges = [exchange for exchange in trace.exchanges if draw.random() >= share]
    deliveries = [came for came in trace.deliveries if draw.random() >= attempts]
    return Trace(header, exchanges, deliveries, trace.notes)


def alarms(seeds: range, thins: int) -> list[str]:
    found = []
    for seed in seeds:
        run = drawn(seed)
        trace, draw = rehearsed(run), Random(f"thinned/{seed}")
        for number in range(thins):
            for finding in compare(thinned(trace, draw)).deviating:
                found.append(f"{run} thinned {number}: {finding.rule.name}: {finding.evidence[0]}")
    return found


@pytest.mark.slow
def test_no_alarm_is_raised_on_partial_captures() -> None:
    assert alarms(range(40_000, 40_012), 1) == []


SEEDS = os.environ.get("RANKSIM_SEEDS", "41000:120")
"""Seeds of the heavy test, FIRST:COUNT."""


@pytest.mark.heavy
def test_no_alarm_is_raised_on_hundreds_of_partial_captures() -> None:
    first, count = map(int, SEEDS.split(":"))
    assert alarms(range(first, first + count), 5) == []


@pytest.mark.slow
def test_a_partial_capture_still_decides_much() -> None:
    trace = rehearsed(Run("everyday", "first_hit", "usual", None, 7, odds=10**9))
    header = trace.header.model_copy(update={"capture": "partial"})
    draw = Random("half")
    half = Trace(
        header, [one for one in trace.exchanges if draw.random() < 0.5], trace.deliveries, trace.notes
    )
    verdicts = [finding.verdict for finding in compare(half).findings]
    assert verdicts.count("conforms") >= 30
    assert "deviates" not in verdicts


# By hand


def partial(*exchanges: Exchange) -> Trace:
    keys = {"main": TraceKey(account="acme")}
    header = Header(started=spending.NOON, keys=keys, exclusive=True, capture="partial")
    return Trace(header, list(exchanges))


def test_a_call_in_flight_may_have_a_twin_that_is_missing() -> None:
    lone = spending.call(
        1,
        "keyword_briefs.create",
        code="idempotency_in_progress",
        status=409,
        idempotency_key="k",
        body={"n": 1},
    )
    finding = compare(partial(lone)).finding("idempotency.in_flight")
    assert (finding.verdict, finding.reasons[0][0]) == ("undecided", "its twin may not have been captured")
    whole = partial(lone)
    whole.header = whole.header.model_copy(update={"capture": "complete"})
    assert compare(whole).finding("idempotency.in_flight").verdict == "deviates"


@pytest.mark.fact("S47")
@pytest.mark.parametrize(
    ("capture", "later", "verdict"),
    [
        ("complete", 5, "conforms"),
        ("complete", 1.5, "not exercised"),
        ("partial", 5, "not exercised"),
    ],
)
def test_a_repetition_shows_that_no_call_is_in_flight_once_its_twin_has_landed(
    capture: str, later: float, verdict: str
) -> None:
    first, again = (spending.job(at, "crawl", id="j1", idempotency_key="k") for at in (1, later))
    trace = partial(first, again)
    trace.header = trace.header.model_copy(update={"capture": capture})
    assert compare(trace).finding("idempotency.in_flight").verdict == verdict


def replays(marked: bool) -> Trace:
    """Two crawls of one domain seem to be accepted half an hour apart: the first is an unmarked replay."""
    read = spending.entitled(0, crawl=3600)
    first = spending.job(1, "crawl", id="j1", idempotency_key="k1")
    second = spending.job(1800, "crawl", id="j2", idempotency_key="k2")
    later = [spending.shown(2, "j1"), spending.shown(1900, "j2")]
    other = spending.call(
        1950, "labels.create", {"id": "l1"}, idempotency_key="k3", replayed=marked, body={"n": 1}
    )
    return partial(read, first, second, *later, other)


def test_a_reply_under_a_key_may_be_the_replay_of_a_call_that_is_missing() -> None:
    assert compare(replays(marked=False)).finding("cooldown.enforced").verdict != "deviates"
    assert compare(replays(marked=True)).finding("cooldown.enforced").verdict == "deviates"


def test_so_may_those_after_it_under_that_key() -> None:
    """Neither was granted where the allowance was used up, if a call before both was not captured."""
    used_up, first = spending.usage(0, 10), spending.briefs(60, idempotency_key="k1")
    later = {"id": "again", "sent": first.sent + MINUTE, "received": (first.received or 0) + MINUTE}
    again = [first, first.model_copy(update=later), spending.usage(300, 10)]
    assert compare(partial(used_up, *again)).finding("guards.quota").verdict != "deviates"
    whole = partial(used_up, *again)
    whole.header = whole.header.model_copy(update={"capture": "complete"})
    assert compare(whole).finding("guards.quota").verdict == "deviates"


def test_the_report_says_what_it_relied_on() -> None:
    told = judgement_data(compare(partial()))["relied_on"]
    assert told[0].startswith("nobody else")
    assert told[1].startswith("the capture is partial")
    whole = partial()
    whole.header = Header(exclusive=False)
    assert [line.split()[0] for line in judgement_data(compare(whole))["relied_on"]] == ["others", "every"]


def test_a_header_says_that_a_capture_is_partial_only_where_it_is() -> None:
    assert "capture" not in Header().model_dump()
    assert Header(capture="partial").model_dump()["capture"] == "partial"
    assert Header.model_validate_json(Header(capture="partial").model_dump_json()).capture == "partial"
