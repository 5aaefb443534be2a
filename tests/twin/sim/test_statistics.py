"""What a tally counts, samples and forgets."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ranksim.core.clock import HOUR, MINUTE, SECOND
from ranksim.core.rules.books import Books, Meter, Window
from ranksim.core.service.calls import Answer, Attempt, Call, Reply
from ranksim.core.service.events import (
    DeliverySuppressed,
    EndpointDisabled,
    EndpointEnabled,
    JobEnded,
    JobQueued,
    JobStarted,
)
from ranksim.core.service.state import Account, Delivery, Endpoint, Key, State
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.metrics import scalars
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.statistics import MAX_NOTES, MAX_SAMPLES, ReplicationTally
from ranksim.twin.sim.tallies import MAX_DISABLINGS

START = 1_000 * HOUR
TIMEOUT = Answer(None, "timeout", 10 * SECOND)
GOOD = Answer(200, None, 2 * SECOND)
BAD = Answer(500, None, SECOND)


def service(**books: int) -> Any:
    """A service whose state has one account with one key and one endpoint."""
    state = State()
    account = Account(
        "acct_1", "acme", "production", "pro", "active", START, Books(month_ends=2**60, **books)
    )
    account.meters["lookups"] = Meter(limit=50, used=7, ends=2**60)
    state.accounts["acct_1"] = account
    key = Key("rk_1", "main", "acct_1", "production", None, START)
    key.windows = [Window(kind=0, limit=limit, length=MINUTE) for limit in (600, 120, 20)]
    key.rings = [[], [], []]
    state.keys["rk_1"] = key
    state.endpoints["whk_1"] = Endpoint("whk_1", "acct_1", "https://shop.example/hook", [], None, "s", START)
    return SimpleNamespace(state=state, consulted=tuple)


def tally(length: int = HOUR, every: int = MINUTE, **options: Any) -> ReplicationTally:
    return ReplicationTally(START, length, every, **options)


def call(counted: ReplicationTally, now: int, operation: str = "jobs.create", **reply: Any) -> None:
    counted.call(now, "ci", Call(operation, key="rk_1"), Reply(200, None, operation=operation, **reply))


def attempt(delivery: int, number: int, endpoint: str = "whk_1") -> Attempt:
    url = "https://shop.example/hook"
    return Attempt(0, delivery, endpoint, "acct_1", url, f"evt_{delivery}", "job.completed", number, {}, b"")


def opened(told: Any, *deliveries: int) -> None:
    for number in deliveries:
        told.state.deliveries[number] = Delivery(number, f"evt_{number}", "whk_1", START)


def ended(counted: ReplicationTally, told: Any = None) -> Replication:
    return counted.finish(counted.end, told or service())


def endpoint(replication: Replication) -> dict[str, Any]:
    (row,) = replication.endpoints
    return row


# Calls


def test_calls_are_counted_by_client_operation_outcome_status_code_and_check() -> None:
    counted = tally()
    for _ in range(3):
        call(counted, START, outcome="granted")
    call(counted, START, code="quota_exhausted", check=4, outcome="refused")
    refused, granted = sorted(ended(counted).calls, key=lambda row: row["count"])
    assert granted == {
        "client": "ci",
        "operation": "jobs.create",
        "outcome": "granted",
        "status": 200,
        "code": "",
        "check": 0,
        "count": 3,
    }
    assert (refused["code"], refused["check"], refused["count"]) == ("quota_exhausted", 4, 1)


def test_joined_calls_are_those_of_rank_runs() -> None:
    counted = tally()
    counted.pool(START, "rank_run", 0, 1, 0)
    counted.pool(START, "crawl", 0, 1, 0)
    call(counted, START, outcome="joined")
    jobs = ended(counted).jobs
    assert {kind: row["joined"] for kind, row in jobs.items()} == {"rank_run": 1, "crawl": 0}


# Jobs


def test_waits_and_outcomes_of_jobs() -> None:
    counted = tally()
    counted.observe([JobQueued(START, "acme", "dom_1", "a", "crawl")])
    counted.observe([JobQueued(START, "acme", "dom_1", "b", "crawl")])
    counted.observe([JobQueued(START, "acme", "dom_1", "full", "crawl")])
    counted.observe([JobEnded(START, "acme", "dom_1", "full", "crawl", "failed", 0, None)])
    counted.observe([JobStarted(START, "acme", "dom_1", "a", "crawl")])
    counted.observe([JobStarted(START + 100, "acme", "dom_1", "b", "crawl")])
    counted.observe([JobEnded(START + 200, "acme", "dom_1", "a", "crawl", "done", 0, None)])
    row = ended(counted).jobs["crawl"]
    wait = Histogram.from_plain(row["wait"])
    assert (row["queued"], row["started"], row["done"], row["failed"]) == (3, 2, 1, 1)
    assert (wait.count, wait.mean, wait.high) == (2, 50, 100)


def test_a_pool_is_weighted_by_time() -> None:
    counted = tally(length=100)
    counted.pool(START, "crawl", 0, 2, 0)
    counted.pool(START + 10, "crawl", 2, 2, 3)
    counted.pool(START + 60, "crawl", 1, 4, 0)
    row = ended(counted).jobs["crawl"]
    assert row["busy"] == 2 * 50 + 1 * 40
    assert row["offered"] == 2 * 60 + 4 * 40
    assert row["waiting"] == 3 * 50
    assert row["max_waiting"] == 3


def test_an_unlimited_pool_has_no_utilisation() -> None:
    counted = tally()
    counted.pool(START, "crawl", 5, None, 0)
    replication = ended(counted)
    assert replication.jobs["crawl"]["offered"] is None
    assert scalars(replication)["jobs.crawl.utilisation"] is None


# Deliveries


def test_an_acknowledged_delivery_has_a_delay_from_the_event_on() -> None:
    counted, told = tally(), service()
    opened(told, 1)
    counted.attempt(START + 10 * SECOND, attempt(1, 1), TIMEOUT, False)
    counted.attempt(START + 72 * SECOND, attempt(1, 2), GOOD, True)
    told.state.deliveries.clear()
    row = endpoint(ended(counted, told))
    assert Histogram.from_plain(row["delay"]).high == 72 * SECOND
    assert (row["endpoint"], row["account"]) == ("https://shop.example/hook", "acme")
    assert (row["events"], row["acknowledged"], row["pending"], row["duplicates"]) == (1, 1, 0, 0)
    assert row["attempts"] == [
        {"attempt": 1, "sent": 1, "acknowledged": 0, "failed": 1},
        {"attempt": 2, "sent": 1, "acknowledged": 1, "failed": 0},
    ]
    assert row["answers"] == {"200": 1, "timeout": 1}


@pytest.mark.fact("E24")
def test_acting_again_on_the_same_delivery_is_a_duplicate() -> None:
    counted, told = tally(), service()
    opened(told, 1, 2)
    counted.attempt(START, attempt(1, 1), TIMEOUT, True)
    counted.attempt(START, attempt(1, 2), TIMEOUT, True)
    counted.attempt(START, attempt(1, 3), GOOD, True)
    counted.attempt(START, attempt(2, 1), GOOD, True)
    assert endpoint(ended(counted, told))["duplicates"] == 2


def test_losses_are_exhausted_cancelled_or_still_pending() -> None:
    counted, told = tally(attempts=2), service()
    opened(told, 1, 2, 3, 4)
    counted.attempt(START, attempt(1, 1), BAD, False)
    counted.attempt(START + MINUTE, attempt(1, 2), BAD, False)
    for number in (2, 3):
        counted.attempt(START, attempt(number, 1), BAD, False)
    del told.state.deliveries[1], told.state.deliveries[2]
    row = endpoint(ended(counted, told))
    assert (row["lost_exhausted"], row["lost_cancelled"], row["pending"]) == (1, 1, 2)
    assert row["events"] == 4


def test_a_disabling_keeps_its_instant_and_reason() -> None:
    counted = tally()
    for _ in range(MAX_DISABLINGS + 5):
        counted.observe([
            EndpointDisabled(START + 5, "acme", "whk_1", "20 consecutive failed deliveries", False)
        ])  # fmt: skip
    row = endpoint(ended(counted))
    assert row["disabled"] == MAX_DISABLINGS + 5
    assert row["disablings"][0] == [START + 5, "20 consecutive failed deliveries"]
    assert len(row["disablings"]) == MAX_DISABLINGS


def test_what_is_never_sent_to_a_disabled_endpoint_is_lost() -> None:
    counted, ends = tally(length=1000 * MINUTE), START + 1000 * MINUTE
    counted.observe([
        EndpointDisabled(START + 5, "acme", "whk_1", "20 consecutive failed deliveries", False),
        DeliverySuppressed(START + MINUTE, "acme", "whk_1", "dom_1", "job_1", False),
        DeliverySuppressed(START + MINUTE, "acme", "whk_1", "dom_1", "job_2", False),
        EndpointEnabled(START + 2 * MINUTE, "acme", "whk_1"),
        EndpointDisabled(START + 3 * MINUTE, "acme", "whk_1", "disabled by the account", True),
        DeliverySuppressed(START + 4 * MINUTE, "acme", "whk_1", "dom_1", "job_3", True),
        EndpointEnabled(START + 5 * MINUTE, "acme", "whk_1"),
        EndpointDisabled(START + 6 * MINUTE, "acme", "whk_1", "20 consecutive failed deliveries", False),
    ])  # fmt: skip
    row = endpoint(ended(counted))
    assert (row["events"], row["lost_suppressed"], row["disabled"]) == (2, 2, 2)
    assert row["disabled_spans"] == [[START + 5, START + 2 * MINUTE], [START + 6 * MINUTE, ends]]
    assert row["stretches"] == [[START + MINUTE, 0, 0, None, 2]]


def test_an_endpoint_that_was_disabled_before_the_warm_up_ended_stays_so() -> None:
    counted = tally(length=HOUR, warm_up=MINUTE)
    counted.observe([EndpointDisabled(START, "acme", "whk_1", "20 consecutive failed deliveries", False)])
    counted.observe([DeliverySuppressed(START + SECOND, "acme", "whk_1", "dom_1", "job_1", False)])
    counted.observe([DeliverySuppressed(START + 2 * MINUTE, "acme", "whk_1", "dom_1", "job_1", False)])
    row = endpoint(ended(counted))
    assert (row["lost_suppressed"], row["disabled"]) == (1, 0)
    assert row["disabled_spans"] == [[START + MINUTE, START + HOUR]]


def test_an_endpoint_without_events_is_listed_and_may_have_a_name() -> None:
    counted = tally()
    counted.endpoint_names["whk_1"] = "shop"
    row = endpoint(ended(counted))
    assert (row["endpoint"], row["account"], row["events"]) == ("shop", "acme", 0)


# Samples


def test_samples_read_slots_spend_and_meters() -> None:
    told = service(active=5, held=2, slot_limit=10, settled=100, reserved=50, ceiling=1000)
    counted = tally(length=2 * MINUTE)
    counted.sample(START, told)
    told.state.accounts["acct_1"].books.active = 6
    replication = ended(counted, told)
    assert replication.series["slots"] == [
        {
            "account": "acme",
            "peak": 8,
            "t": [START, START + 2 * MINUTE],
            "active": [5, 6],
            "held": [2, 2],
            "used": [7, 8],
            "limit": [10, 10],
            "refused": [0, 0],
        }
    ]
    (spend,) = replication.series["spend"]
    assert [
        spend[column][0] for column in ("settled_uusd", "reserved_uusd", "spent_uusd", "ceiling_uusd")
    ] == [
        100,
        50,
        150,
        1000,
    ]
    (meter,) = replication.series["meters"]
    assert (meter["account"], meter["metric"], meter["used"][0], meter["limit"][0]) == (
        "acme",
        "lookups",
        7,
        50,
    )


def test_the_last_sample_shows_what_an_allowance_was_before_it_reset_at_the_end() -> None:
    told = service(held=2)
    counted = tally()
    told.state.accounts["acct_1"].meters["lookups"].ends = counted.end
    told.state.accounts["acct_1"].books.month_ends = counted.end
    replication = ended(counted, told)
    assert replication.series["meters"][0]["used"] == [7]
    assert replication.series["slots"][0]["held"] == [2]


def test_windows_count_calls_since_the_sample_before() -> None:
    told = service()
    counted = tally()
    counted.sample(START, told)
    for _ in range(3):
        call(counted, START + 1, outcome="granted")
    call(counted, START + 2, code="rate_limited", outcome="limited")
    told.state.keys["rk_1"].windows[2].opened = START + 1
    told.state.keys["rk_1"].windows[2].count = 3
    counted.sample(START + 5, told)
    counted.sample(START + MINUTE + 1, told)
    read, _, expensive = sorted(ended(counted, told).series["windows"], key=lambda row: row["remaining"])[
        ::-1
    ]
    assert (expensive["account"], expensive["key"], expensive["rate_class"]) == ("acme", "main", "expensive")
    assert expensive["admitted"][:3] == [0, 3, 0]
    assert expensive["refused"][:3] == [0, 1, 0]
    assert expensive["remaining"][:3] == [20, 17, 20]
    assert read["remaining"][0] == 600


def test_a_window_is_as_full_as_its_replies_told_between_samples() -> None:
    told = service()
    counted = tally()
    counted.sample(START, told)
    for at, left in ((1, "3"), (2, "1"), (3, "19")):
        headers = {"RateLimit-Limit": "20", "RateLimit-Remaining": left}
        call(counted, START + at * SECOND, outcome="granted", headers=headers)
    counted.sample(START + 4 * SECOND, told)
    counted.sample(START + MINUTE + 4 * SECOND, told)
    rows = {row["rate_class"]: row for row in ended(counted, told).series["windows"]}
    assert rows["expensive"]["fullest"][:3] == [0, 19, 0]
    assert (rows["expensive"]["limit"][1], rows["expensive"]["length"][1]) == (20, MINUTE)
    assert rows["read"]["fullest"][:3] == [0, 0, 0]


def test_a_window_that_a_call_of_another_class_filled_is_seen_at_the_sample() -> None:
    told = service()
    counted = tally()
    told.state.keys["rk_1"].windows[1].opened = START
    told.state.keys["rk_1"].windows[1].count = 7
    counted.sample(START + SECOND, told)
    write = next(row for row in ended(counted, told).series["windows"] if row["rate_class"] == "write")
    assert write["fullest"][0] == 7


def test_a_queue_is_sampled_with_the_most_since_the_sample_before() -> None:
    counted, told = tally(), service()
    counted.sample(START, told)
    counted.pool(START + 1, "crawl", 2, 2, 0)
    counted.pool(START + 2, "crawl", 2, 2, 5)
    counted.pool(START + 3, "crawl", 1, 2, 0)
    counted.sample(START + 4, told)
    counted.sample(START + 5, told)
    (row,) = ended(counted, told).series["queues"]
    assert (row["kind"], row["peak"]) == ("crawl", 5)
    assert row["running"][:3] == [0, 2, 1]
    assert row["waiting"][:3] == [0, 5, 0]
    assert row["workers"][:3] == [None, 2, 2]


def test_what_becomes_of_events_is_kept_by_when_they_were_created() -> None:
    counted, told = tally(length=1000 * MINUTE), service()
    counted.outages["whk_1"] = lambda end: [(START + 2 * HOUR, end + HOUR), (START - HOUR, START - 1)]
    counted.attempt(START + SECOND, attempt(1, 1), BAD, acted=False)
    counted.attempt(START + HOUR, attempt(1, 2), GOOD, acted=True)
    for number in range(1, 7):
        counted.attempt(START + MINUTE + number * SECOND, attempt(2, number), BAD, acted=False)
    row = endpoint(ended(counted, told))
    assert row["stretches"] == [
        [START, 0, 1, HOUR, 0],
        [START + MINUTE, 0, 6, None, 1],
        [START + HOUR, 1, 0, None, 0],
    ]
    assert row["outages"] == [[START + 2 * HOUR, counted.end]]


def test_accounts_that_share_a_name_go_by_id() -> None:
    told = service()
    told.state.accounts["acct_2"] = Account(
        "acct_2", "acme", "sandbox", "pro", "active", START, Books(month_ends=2**60)
    )
    assert [row["account"] for row in ended(tally(), told).series["slots"]] == ["acct_1", "acct_2"]


# Bounded memory


def test_samples_are_thinned_but_peaks_are_seen() -> None:
    told = service(active=1)
    counted = tally(length=10 * MAX_SAMPLES, every=1)
    for second in range(10 * MAX_SAMPLES):
        told.state.accounts["acct_1"].books.active = 99 if second == 5 else 1
        counted.sample(START + second, told)
    replication = ended(counted, told)
    (slots,) = replication.series["slots"]
    assert len(slots["t"]) == MAX_SAMPLES + 1
    assert (max(slots["active"]), slots["peak"]) == (1, 99)
    assert list(replication.notes) == ["one sample in 10 is kept; peaks are of all samples"]


def test_what_is_closed_is_forgotten() -> None:
    counted, told = tally(), service()
    for number in range(50):
        opened(told, number)
        counted.observe([JobQueued(START, "acme", "dom_1", f"job_{number}", "crawl")])
        counted.observe([JobStarted(START, "acme", "dom_1", f"job_{number}", "crawl")])
        counted.attempt(START, attempt(number, 1), BAD if number % 2 else GOOD, True)
        del told.state.deliveries[number]
    counted.sample(START + 1, told)
    assert not counted._deliveries._open
    assert not counted._waiting
    assert not counted._rates


def test_notes_are_counted_and_bounded() -> None:
    counted = tally()
    for number in range(2 * MAX_NOTES):
        counted.note(f"odd {number}")
        counted.note("odd 0")
    notes = ended(counted).notes
    assert len(notes) == MAX_NOTES + 1
    assert notes["odd 0"] == 2 * MAX_NOTES + 1
    assert notes[f"notes beyond the first {MAX_NOTES} are left out"] == MAX_NOTES


# Warm-up


def test_what_comes_before_the_warm_up_is_dropped() -> None:
    told = service()
    counted = tally(length=100, warm_up=40)
    opened(told, 1, 2)
    counted.pool(START, "crawl", 2, 2, 4)
    counted.sample(START, told)
    call(counted, START + 39, outcome="granted")
    counted.attempt(START + 1, attempt(1, 1), Answer(500, None, 0), False)
    counted.attempt(START + 1, attempt(2, 1), Answer(200, None, 0), True)
    del told.state.deliveries[2]
    call(counted, START + 40, outcome="ok")
    counted.attempt(START + 50, attempt(1, 2), Answer(200, None, 0), True)
    del told.state.deliveries[1]
    counted.pool(START + 60, "crawl", 1, 2, 0)
    replication = ended(counted, told)
    assert (replication.start, replication.end) == (START + 40, START + 100)
    assert [row["outcome"] for row in replication.calls] == ["ok"]
    crawl = replication.jobs["crawl"]
    assert (crawl["busy"], crawl["offered"], crawl["max_waiting"]) == (2 * 20 + 1 * 40, 2 * 60, 4)
    row = endpoint(replication)
    assert (row["events"], row["acknowledged"]) == (1, 1)
    assert Histogram.from_plain(row["delay"]).high == 49
    assert replication.series["slots"][0]["t"] == [START + 100]


def test_a_warm_up_ends_even_if_nothing_happens_after_it() -> None:
    counted = tally(length=100, warm_up=40)
    call(counted, START + 1)
    replication = ended(counted)
    assert replication.start == START + 40
    assert replication.calls == []


# The replication


def test_a_replication_is_plain_data_and_finishing_twice_changes_nothing() -> None:
    counted, told = tally(), service()
    opened(told, 1)
    call(counted, START, outcome="granted")
    counted.pool(START, "crawl", 1, 1, 0)
    counted.attempt(START + 1, attempt(1, 1), BAD, False)
    first = ended(counted, told)
    assert Replication(**json.loads(json.dumps(first.to_plain()))) == first
    assert ended(counted, told) == first
