"""Rate limits through the service: classes, windows and their options, and the headers that tell of them."""

from typing import Any

import pytest

from ranksim.core.clock import DAY, MINUTE, SECOND, instant
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.operations import TABLE
from ranksim.core.service.service import Service

START = instant("2026-03-04T10:00:00Z")
WINDOWS = ("first_hit", "clock", "sliding_log", "sliding_counter", "gcra")


def shown(reply: Reply) -> tuple[int, int, int]:
    """Read limit, remaining and reset."""
    return (
        int(reply.headers["RateLimit-Limit"]),
        int(reply.headers["RateLimit-Remaining"]),
        int(reply.headers["RateLimit-Reset"]),
    )


def admitted(desk: Any, calls: int) -> int:
    """Make dry runs, which are of the expensive class, and count those let through."""
    return [desk.job("crawl", dry_run=True).status for _ in range(calls)].count(200)


# Classes


EXPENSIVE = {"jobs.create", "keyword_briefs.create"}


@pytest.mark.fact("S102", "S103", "S104", "U2")
@pytest.mark.parametrize("operation", TABLE, ids=lambda operation: operation.name)
def test_the_class_of_an_operation(desk: Any, operation: Any) -> None:
    limit = 20 if operation.name in EXPENSIVE else 600 if operation.method == "GET" else 120
    reply = desk.call(operation.name, id="none", kind="crawl", key=desk.token("fresh"))
    assert shown(reply) == (limit, limit - 1, 60)


@pytest.mark.fact("U2")
def test_tracking_may_be_of_the_expensive_class(open_desk: Any) -> None:
    desk = open_desk(assumptions={"tracking_class": "expensive"})
    limits = {
        operation.name
        for operation in TABLE
        if shown(desk.call(operation.name, id="none", kind="crawl"))[0] == 20
    }
    assert limits == EXPENSIVE | {"keywords.create", "scans.create"}


@pytest.mark.fact("S102", "S103", "S104", "S100", "U3")
@pytest.mark.parametrize(
    ("limit", "operation"), [(600, "domains.get"), (120, "domains.update"), (20, "jobs.create")]
)
def test_a_key_has_so_many_calls_a_minute(desk: Any, limit: int, operation: str) -> None:
    desk.wait(MINUTE)
    for left in range(limit - 1, -1, -1):
        assert shown(desk.call(operation, {}, id="none")) == (limit, left, 60)
    reply = desk.call(operation, {}, id="none")
    assert (reply.status, reply.code, reply.outcome) == (429, "rate_limited", "limited")
    assert shown(reply) == (limit, 0, 60)
    assert reply.headers["Retry-After"] == "60"
    desk.wait(MINUTE - 1)
    assert desk.call(operation, {}, id="none").status == 429
    desk.wait(1)
    assert shown(desk.call(operation, {}, id="none")) == (limit, limit - 1, 60)


@pytest.mark.fact("U3", "S103", "S104")
def test_classes_are_apart(desk: Any) -> None:
    desk.wait(MINUTE)
    assert admitted(desk, 25) == 20
    assert shown(desk.call("labels.list"))[1] == 599
    assert shown(desk.keywords("a"))[1] == 119


@pytest.mark.fact("U3")
def test_an_expensive_call_may_debit_writes(open_desk: Any) -> None:
    given = {"assumptions": {"expensive_debits_write": True}}
    desk = open_desk(**given, facts={"rates": {"write": 4, "expensive": 3}})
    desk.wait(MINUTE)
    assert shown(desk.job("crawl", dry_run=True)) == (3, 2, 60)
    assert shown(desk.keywords("a")) == (4, 2, 60)
    assert shown(desk.keywords("b")) == (4, 1, 60)
    assert shown(desk.job("crawl", dry_run=True)) == (3, 1, 60)
    write_full = desk.job("crawl", dry_run=True)
    assert (write_full.status, shown(write_full)) == (429, (4, 0, 60))
    assert write_full.body["meta"]["class"] == "write"
    desk.wait(MINUTE)
    assert [desk.job("crawl", dry_run=True).status for _ in range(3)] == [200] * 3
    expensive_full = desk.job("crawl", dry_run=True)
    assert (expensive_full.status, shown(expensive_full)) == (429, (3, 0, 60))
    assert shown(desk.keywords("c")) == (4, 0, 60)


@pytest.mark.fact("E37", "S102", "S103", "S104")
def test_limits_are_per_key_and_spending_is_per_account(open_desk: Any) -> None:
    desk = open_desk({"cost_ceiling": "1 USD"}, facts={"rates": {"expensive": 3}}, words=["a"], scan=True)
    second = desk.token("second")
    desk.must(desk.briefs("x"))
    assert desk.usage()["used"] == 1
    desk.must(desk.briefs("y", key=second))
    assert desk.usage()["used"] == 2
    assert desk.job("crawl", key=second).code == "cost_cap_reached"
    assert desk.job("crawl").code == "cost_cap_reached"
    assert desk.slots() == desk.get("slots.get", key=second)
    assert admitted(desk, 5) == 1
    assert desk.job("crawl", dry_run=True, key=second).status == 200
    assert desk.job("crawl", dry_run=True, key=second).status == 429


@pytest.mark.fact("E37")
def test_two_keys_share_cooldowns(desk: Any) -> None:
    desk.must(desk.job("crawl"))
    assert desk.job("crawl", key=desk.token("second")).code == "cooldown_active"


@pytest.mark.fact("S106")
def test_traffic_and_spending_do_not_mix(open_desk: Any) -> None:
    desk = open_desk(facts={"rates": {"expensive": 11}})
    for number in range(10):
        desk.must(desk.briefs(str(number)))
    exhausted = desk.briefs("x")
    assert (exhausted.status, exhausted.code) == (402, "quota_exhausted")
    assert "Retry-After" not in exhausted.headers
    limited = desk.briefs("x")
    assert (limited.status, limited.code, limited.check) == (429, "rate_limited", 0)
    assert desk.usage()["used"] == 10
    desk.wait(MINUTE)
    assert desk.briefs("x").code == "quota_exhausted"


# Windows


@pytest.mark.fact("U1", "E35")
@pytest.mark.parametrize(
    ("window", "second", "passed"),
    [
        ("first_hit", 0, (1, 19, 0, 20, 0, 20)),
        ("clock", 45, (1, 19, 1, 0, 20, 20)),
        ("sliding_log", 0, (1, 19, 0, 1, 19, 20)),
        ("sliding_counter", 0, (1, 19, 0, 1, 9, 20)),
        ("gcra", 0, (1, 19, 1, 10, 10, 20)),
    ],
)
def test_a_probe_tells_the_windows_apart(
    open_desk: Any, window: str, second: int, passed: tuple[int, ...]
) -> None:
    desk = open_desk(assumptions={"window": window}, now=START + second * SECOND)
    start = desk.now
    found = []
    for at, calls in (0, 1), (29_000, 19), (35_000, 1), (60_500, 20), (89_500, 20), (209_500, 20):
        desk.at(start + at * 1_000)
        found.append(admitted(desk, calls))
    assert tuple(found) == passed


@pytest.mark.fact("E35", "U1")
def test_forty_calls_in_a_second_are_legal_at_the_edge_of_a_fixed_window(desk: Any) -> None:
    assert admitted(desk, 1) == 1
    desk.wait(59_500_000)
    assert admitted(desk, 20) == 19
    desk.wait(500_000)
    assert admitted(desk, 21) == 20


@pytest.mark.fact("U88", "S100", "U6")
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("spread", [0, 1_500_000])
def test_a_refusal_says_when_the_next_call_is_admitted(open_desk: Any, window: str, spread: int) -> None:
    given = {"assumptions": {"window": window}, "facts": {"rates": {"expensive": 5}}}
    desk = open_desk(**given, now=START + 47 * SECOND)
    while (reply := desk.job("crawl", dry_run=True)).status == 200:
        desk.wait(spread)
    wait = int(reply.headers["Retry-After"])
    assert shown(reply) == (5, 0, wait)
    assert reply.body["meta"] == {"class": "expensive", "limit": 5, "window_seconds": 60, "retry_after": wait}
    assert 1 <= wait <= 120
    desk.wait((wait - 1) * SECOND)
    assert admitted(desk, 1) == 0
    desk.wait(SECOND)
    assert admitted(desk, 1) == 1


@pytest.mark.fact("U88")
@pytest.mark.parametrize(
    ("window", "reports", "reset"),
    [
        ("first_hit", "algorithm", 50),
        ("first_hit", "full", 50),
        ("clock", "algorithm", 3),
        ("clock", "full", 3),
        ("sliding_log", "algorithm", 50),
        ("sliding_log", "full", 60),
        ("sliding_counter", "algorithm", 3),
        ("sliding_counter", "full", 34),
        ("gcra", "algorithm", 3),
        ("gcra", "full", 3),
    ],
)
def test_what_reset_points_at(open_desk: Any, window: str, reports: str, reset: int) -> None:
    """Two calls of 20, at :47 and :57."""
    desk = open_desk(assumptions={"window": window, "reset_reports": reports}, now=START + 47 * SECOND)
    desk.job("crawl", dry_run=True)
    desk.wait(10 * SECOND)
    assert shown(desk.job("crawl", dry_run=True))[2] == reset


@pytest.mark.fact("U4", "U88")
@pytest.mark.parametrize(("counts", "passed"), [(False, (1, 0, 1)), (True, (1, 0, 0))])
def test_a_refused_call_may_extend_the_window(open_desk: Any, counts: bool, passed: tuple[int, ...]) -> None:
    given = {"assumptions": {"refused_calls_count": counts}, "facts": {"rates": {"expensive": 1}}}
    desk = open_desk(**given)
    found = []
    for wait in 0, 59 * SECOND, SECOND:
        desk.wait(wait)
        found.append(admitted(desk, 1))
    assert tuple(found) == passed


@pytest.mark.fact("U4")
def test_a_refused_call_of_a_stranger_may_extend_the_window(open_desk: Any) -> None:
    desk = open_desk(assumptions={"refused_calls_count": True}, facts={"rates": {"read": 1}})
    statuses = []
    for wait in 0, 59 * SECOND, SECOND:
        desk.wait(wait)
        statuses.append(desk.call("domains.list", key="wrong").status)
    assert statuses == [401, 429, 429]


@pytest.mark.fact("S102", "S103", "S104")
def test_limits_and_window_come_from_the_policy(open_desk: Any) -> None:
    desk = open_desk(facts={"rates": {"expensive": 2}, "rate_window": "10s"})
    assert admitted(desk, 3) == 2
    reply = desk.job("crawl", dry_run=True)
    assert shown(reply) == (2, 0, 10)
    assert reply.body["meta"]["window_seconds"] == 10
    desk.wait(10 * SECOND)
    assert admitted(desk, 3) == 2


# How the headers are written


@pytest.mark.fact("S105", "U5")
@pytest.mark.parametrize("now", [START, START + 1, START + 999_999])
def test_reset_as_seconds_or_as_an_instant(open_desk: Any, now: int) -> None:
    delta = open_desk(now=now)
    delta.job("crawl", dry_run=True)
    delta.wait(12_300_000)
    assert shown(delta.job("crawl", dry_run=True)) == (20, 18, 48)
    epoch = open_desk(now=now, assumptions={"reset_format": "epoch"})
    epoch.job("crawl", dry_run=True)
    epoch.wait(12_300_000)
    assert shown(epoch.job("crawl", dry_run=True))[2] == -(-(now + MINUTE) // SECOND)


@pytest.mark.fact("U6")
def test_retry_after_as_a_date(open_desk: Any) -> None:
    given = {"assumptions": {"retry_after_format": "http_date"}, "facts": {"rates": {"expensive": 1}}}
    desk = open_desk(**given)
    desk.must(desk.job("crawl"))
    assert desk.job("crawl").headers["Retry-After"] == "Wed, 04 Mar 2026 10:01:00 GMT"
    desk.wait(MINUTE)
    assert desk.job("crawl").headers["Retry-After"] == "Thu, 05 Mar 2026 10:00:00 GMT"


# Who is charged, and what


@pytest.mark.fact("U9", "U87")
@pytest.mark.parametrize(
    ("order", "operation", "limit"),
    [
        ("auth_first", "jobs.create", 600),
        ("limiter_first", "jobs.create", 20),
        ("limiter_first", "labels.create", 120),
        ("limiter_first", "labels.list", 600),
    ],
)
def test_a_bad_key_is_counted_by_its_caller_or_by_itself(
    open_desk: Any, order: str, operation: str, limit: int
) -> None:
    desk = open_desk(assumptions={"limiter_order": order})
    assert shown(desk.call(operation, key="bad", caller="a")) == (limit, limit - 1, 60)
    assert shown(desk.call(operation, key="bad", caller="a")) == (limit, limit - 2, 60)
    elsewhere = shown(desk.call(operation, key="bad", caller="b"))
    another = shown(desk.call(operation, key="worse", caller="a"))
    by_caller = (limit - 1, limit - 3)
    by_token = (limit - 3, limit - 1)
    assert (elsewhere[1], another[1]) == (by_caller if order == "auth_first" else by_token)


@pytest.mark.fact("U9")
@pytest.mark.parametrize(("order", "last"), [("auth_first", 401), ("limiter_first", 429)])
def test_which_of_401_and_429_is_decided_first(open_desk: Any, order: str, last: int) -> None:
    desk = open_desk(assumptions={"limiter_order": order})
    statuses = [desk.job("crawl", key="bad").status for _ in range(21)]
    assert statuses == [401] * 20 + [last]


@pytest.mark.fact("U9")
@pytest.mark.parametrize("order", ["auth_first", "limiter_first"])
def test_a_request_with_no_key_is_counted_by_its_caller(open_desk: Any, order: str) -> None:
    desk = open_desk(assumptions={"limiter_order": order})
    for _ in range(2):
        reply = desk.service.handle(Call("jobs.create", caller="a"), desk.now).reply
    assert shown(reply) == (600, 598, 60)


@pytest.mark.fact("U10", "S106")
@pytest.mark.parametrize(
    ("rate_class", "told", "expensive_left", "reads_left"),
    [("same", (20, 19, 60), 18, 599), ("read", (600, 599, 60), 19, 598), ("free", (20, 20, 0), 19, 599)],
)
def test_how_a_dry_run_is_counted(
    open_desk: Any, rate_class: str, told: tuple[int, int, int], expensive_left: int, reads_left: int
) -> None:
    desk = open_desk(assumptions={"dry_run_class": rate_class})
    assert shown(desk.job("crawl", dry_run=True)) == told
    assert shown(desk.job("crawl", dry_run=False))[1] == expensive_left
    assert shown(desk.call("labels.list"))[1] == reads_left


@pytest.mark.fact("U10")
def test_a_free_dry_run_passes_a_full_window(open_desk: Any) -> None:
    desk = open_desk(assumptions={"dry_run_class": "free"}, facts={"rates": {"expensive": 1}})
    desk.must(desk.job("crawl"))
    assert desk.job("ai_scan").status == 429
    assert desk.job("ai_scan", dry_run=True).status == 200
    assert desk.made("labels.create", {"domain_id": desk.domain, "name": "x", "dry_run": True})


def test_the_web_app_passes_no_window(open_desk: Any) -> None:
    desk = open_desk(facts={"rates": {"read": 1}})
    for _ in range(3):
        reply = desk.call("domains.list", key="", surface="app", account=desk.account)
        assert reply.status == 200
        assert list(reply.headers) == ["X-Request-Id"]
    assert shown(desk.call("domains.list")) == (1, 0, 60)


def test_only_rate_windows_read_the_traffic_clock(desk: Any) -> None:
    service: Service = desk.service
    create = Call("labels.create", key=desk.token("second"), body={"domain_id": desk.domain, "name": "x"})
    first = service.handle(create, START, START + DAY).reply
    assert shown(first) == (120, 119, 60)
    assert first.body is not None
    assert first.body["data"]["created_at"] == "2026-03-04T10:00:00Z"
    second = service.handle(create, START + 7 * DAY, START + DAY + 30 * SECOND).reply
    assert shown(second) == (120, 118, 30)
    third = service.handle_batch([create], START + 7 * DAY, START + DAY + 60 * SECOND).replies
    assert shown(third[0]) == (120, 119, 60)
