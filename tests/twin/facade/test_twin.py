"""The twin: calls at the clock's instant, settled advances, attempts in order, worlds that come and go."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from ranksim.core.callers.fault_rules import FaultRule
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, instant, iso
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules.webhooks import verify
from ranksim.core.service.calls import Answer, Attempt, Body, Call, Reply
from ranksim.core.service.service import Service
from ranksim.twin.facade.advance import AdvanceCondition, AdvanceUnderWay, meter_resets
from ranksim.twin.facade.journal.journaled_service import JournaledService
from ranksim.twin.facade.logged_event import LoggedEvent
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin

START = instant("2026-03-04T10:00:00Z")

POLICY = Policy().replace(
    catalogue={
        "job_durations": {"rank_run": "4m", "crawl": "20m", "site_optimization": "10m", "ai_scan": "5m"}
    }
)
"""Jobs take the same time, each kind its own, and none fails by itself."""


def make(answer: Callable[[Attempt], Answer | int] = lambda attempt: 200, **options: Any) -> Twin:
    return Twin(POLICY, **{"clock": "manual", "start": START, "sender": Scripted(answer)} | options)


def ask(twin: Twin, operation: str, body: Body | None = None, **more: Any) -> Reply:
    reply = twin.call(Call(operation, key=twin.keys["production"], body=body, **more))
    twin.written(reply)
    return reply


def must(twin: Twin, operation: str, body: Body | None = None, **more: Any) -> Any:
    reply = ask(twin, operation, body, **more)
    assert reply.status < 300, reply.body
    return None if reply.body is None else reply.body["data"]


def endpoint(twin: Twin, name: str = "a", **more: Any) -> Any:
    return must(twin, "webhooks.create", {"url": f"https://{name}.example/hooks"} | more)


def job(twin: Twin, kind: str = "crawl", domain: str = "") -> str:
    if not domain:
        domain = must(twin, "domains.create", {"host": f"d{len(twin.service.state.domains)}.example"})["id"]
    return str(must(twin, "jobs.create", {"kind": kind, "domain_id": domain})["id"])


STARTED = ["period.turned", "cost.reserved", "job.queued", "job.started", "call.granted"]
"""What a job of a new account begins with."""

ENDED = ["job.done", "cost.settled"]


def words(happened: list[LoggedEvent]) -> list[str]:
    return [happening.what for happening in happened]


def minutes(happened: list[LoggedEvent], what: str) -> list[int]:
    """When something happened, in minutes after the start."""
    return [(one.at - START) // MINUTE for one in happened if one.what == what]


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


# Calls


def test_there_are_two_accounts_with_a_key_each_the_same_for_the_same_seed() -> None:
    twin = make(seed=3)
    assert sorted(twin.keys) == ["production", "sandbox"]
    assert make(seed=3).keys == twin.keys != make(seed=4).keys
    assert must(twin, "account.get")["plan"] == "pro"
    sandbox = twin.call(Call("account.get", key=twin.keys["sandbox"], environment="sandbox"))
    assert sandbox.status == 200
    assert make(plan="starter").service.state.accounts["acc_0000000001"].plan == "starter"
    assert make(empty=True).keys == {}


def test_calls_are_answered_at_the_clocks_instant() -> None:
    twin = make()
    assert must(twin, "domains.create", {"host": "a.example"})["created_at"] == iso(START)
    asyncio.run(twin.advance(by=HOUR))
    assert must(twin, "domains.create", {"host": "b.example"})["created_at"] == iso(START + HOUR)


@pytest.mark.fact("S4")
def test_a_batch_is_one_request() -> None:
    twin = make()
    key = twin.keys["production"]
    calls = [Call(name, key=key, surface="graphql") for name in ("domains.list", "account.get")]
    replies = twin.call_batch(calls)
    assert [reply.status for reply in replies] == [200, 200]
    assert replies[-1].headers["RateLimit-Remaining"] == "599"


@pytest.mark.fact("S41")
def test_a_test_event_goes_out_at_once_without_an_advance() -> None:
    async def story() -> None:
        twin = make()
        hook = endpoint(twin)
        must(twin, "webhooks.test", path={"id": hook["id"]})
        await twin.advance(by=0)
        assert words(list(twin.event_log)) == ["delivery.queued", "attempt.sent", "attempt.answered"]
        assert twin.now() == START

    run(story)


# Advancing


def test_an_advance_returns_when_all_that_fell_due_is_done_in_order() -> None:
    async def story() -> None:
        twin = make()
        endpoint(twin)
        job(twin, "crawl"), job(twin, "rank_run")
        done = await twin.advance(by=HOUR)
        assert done.settled
        assert done.now == twin.now() == START + HOUR
        assert words(done.happened) == ["job.done", "attempt.sent", "attempt.answered"] * 2
        assert [one.details.get("kind") for one in done.happened[::3]] == ["rank_run", "crawl"]
        assert minutes(done.happened, "attempt.answered") == [4, 20]
        assert done.shown()["happened"][0]["at"] == iso(START + 4 * MINUTE)

    run(story)


@pytest.mark.fact("S90", "E22")
def test_the_whole_retry_timeline() -> None:
    async def story() -> None:
        twin = make(lambda attempt: 500)
        endpoint(twin)
        done = await twin.advance_to_next()
        assert (done.now, done.happened) == (START, [])
        crawl = job(twin)
        done = await twin.advance(until=AdvanceCondition(crawl))
        assert (done.met, done.now) == (True, START + 20 * MINUTE)
        done = await twin.advance(by=9 * HOUR)
        assert minutes(done.happened, "attempt.sent") == [21, 26, 56, 176, 536]
        assert [one.details["attempt"] for one in done.happened if one.what == "attempt.sent"] == [
            2,
            3,
            4,
            5,
            6,
        ]

    run(story)


def test_advances_go_to_an_instant_and_to_the_next_event() -> None:
    async def story() -> None:
        twin = make()
        job(twin)
        assert twin.next_due() == START + 20 * MINUTE
        assert (await twin.advance(to=START + MINUTE)).now == START + MINUTE
        done = await twin.advance_to_next()
        assert (done.now, words(done.happened)) == (START + 20 * MINUTE, ["job.done"])
        assert twin.next_due() is None

    run(story)


def test_a_clock_that_runs_meanwhile_goes_to_the_next_event_too() -> None:
    async def story() -> None:
        twin = make(clock="real", read_wall=count(START).__next__)
        assert (await twin.advance_to_next()).settled
        job(twin)
        done = await twin.advance_to_next()
        assert words(done.happened) == ["job.done"]
        assert 0 <= done.now - START - 20 * MINUTE < 100
        await twin.close()

    run(story)


@pytest.mark.fact("S91")
def test_an_advance_until_an_endpoint_is_disabled() -> None:
    async def story() -> None:
        twin = make(lambda attempt: 500)
        hook = endpoint(twin)
        for _ in range(7):
            must(twin, "webhooks.test", path={"id": hook["id"]})
        done = await twin.advance(until=AdvanceCondition(endpoint=hook["id"]))
        assert (done.met, done.now) == (True, START + 6 * MINUTE)
        assert words(done.happened)[-1] == "attempt.answered"
        disabled = next(one for one in done.happened if one.what == "endpoint.disabled")
        assert disabled.details["reason"] == "20 consecutive failed deliveries"

    run(story)


@pytest.mark.fact("S108", "S110")
@pytest.mark.parametrize(
    ("metric", "at"),
    [("keyword_brief_refreshes", "2026-03-09T00:00:00Z"), ("research_lookups", "2026-04-04T10:00:00Z")],
)
def test_an_advance_until_a_meter_resets(metric: str, at: str) -> None:
    twin = make()
    account = must(twin, "account.get")["id"]
    resets = meter_resets(twin.service.state, twin.policy, account, metric, twin.now())
    assert iso(resets) == at
    shown = {one["metric"]: one["resets_at"] for one in must(twin, "account.usage")["metrics"]}
    assert shown[metric] == at
    asyncio.run(twin.advance(to=resets))
    assert meter_resets(twin.service.state, twin.policy, account, metric, twin.now()) > resets


def test_a_condition_that_never_comes_true_is_told() -> None:
    async def story() -> None:
        twin = make()
        hook = endpoint(twin)
        job(twin)
        done = await twin.advance(until=AdvanceCondition(endpoint=hook["id"]))
        assert (done.settled, done.met, done.now) == (True, False, START + 20 * MINUTE)
        crawl = job(twin)
        done = await twin.advance(until=AdvanceCondition(crawl), by=MINUTE)
        assert (done.met, done.now) == (False, START + 20 * MINUTE)

    run(story)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "a duration"),
        ({"by": 1, "to": START + 1}, "not both"),
        ({"by": -1}, "0 or more"),
        ({"to": START - 1}, "forward only"),
        ({"by": 10_000 * 366 * DAY}, "year 10000"),
        ({"until": AdvanceCondition("job_1")}, "no job"),
        ({"until": AdvanceCondition(endpoint="whk_1")}, "no webhook endpoint"),
    ],
)
def test_an_advance_that_makes_no_sense_is_refused(wanted: dict[str, Any], message: str) -> None:
    twin = make()
    with pytest.raises(BadInput, match=message):
        asyncio.run(twin.advance(**wanted))
    assert twin.now() == START


@pytest.mark.parametrize(("account", "metric"), [("acc_9", "research_lookups"), ("acc_0000000001", "sums")])
def test_a_meter_that_does_not_exist_is_refused(account: str, metric: str) -> None:
    twin = make()
    with pytest.raises(BadInput, match="until"):
        meter_resets(twin.service.state, twin.policy, account, metric, START)


# Attempts under way


class Gate:
    """A sender that answers when told to."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[Answer]] = {}
        self.calls = 0
        self.numbers: list[int] = []

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        assert timeout_s == 10.0
        self.calls += 1
        self.numbers.append(attempt.attempt)
        future = self.waiting[attempt.endpoint] = asyncio.get_running_loop().create_future()
        return await future

    async def until(self, calls: int) -> None:
        while self.calls < calls:
            await asyncio.sleep(0)

    async def close(self) -> None: ...


async def answered_backwards(clock: str) -> list[str]:
    """Let three endpoints answer in reverse order of sending, and give the order that was noted."""
    gate = Gate()
    twin = make(sender=gate, clock=clock)
    hooks = [endpoint(twin, name)["id"] for name in "abc"]
    for hook in hooks:
        must(twin, "webhooks.test", path={"id": hook})
    await gate.until(3)
    for hook in reversed(hooks):
        gate.waiting[hook].set_result(Answer(200))
        for _ in range(5):
            await asyncio.sleep(0)
    await twin.advance(by=0)
    order = [one.details["endpoint_id"] for one in twin.event_log if one.what == "attempt.answered"]
    await twin.close()
    return ["abc"[hooks.index(hook)] for hook in order]


@pytest.mark.parametrize(("clock", "order"), [("manual", "abc"), ("real", "cba"), ("scaled:2", "cba")])
def test_outcomes_apply_in_order_of_sending_or_of_completion(clock: str, order: str) -> None:
    assert "".join(asyncio.run(answered_backwards(clock))) == order


@pytest.mark.parametrize("clock", ["manual", "real"])
def test_calls_are_served_while_an_attempt_is_out(clock: str) -> None:
    async def story() -> None:
        gate = Gate()
        twin = make(sender=gate, clock=clock, start=START)
        hook = endpoint(twin)["id"]
        crawl = job(twin)
        advancing = asyncio.ensure_future(twin.advance(by=HOUR))
        await gate.until(1)
        at = twin.now()
        shown = must(twin, "jobs.get", path={"kind": "crawl", "id": crawl})
        assert shown["status"] == "done"
        assert (
            must(twin, "domains.create", {"host": "b.example"})["created_at"]
            == iso(at)
            == shown["finished_at"]
        )
        gate.waiting[hook].set_result(Answer(200))
        done = await advancing
        assert done.settled
        assert done.now >= at + 40 * MINUTE
        await twin.close()

    run(story)


def test_an_advance_that_cannot_settle_stops_there_and_can_be_resumed() -> None:
    async def story() -> None:
        gate = Gate()
        twin = make(sender=gate)
        hook = endpoint(twin)["id"]
        job(twin)
        done = await twin.advance(by=HOUR, timeout=0.01)
        assert not done.settled
        assert (done.now, done.target) == (START + 20 * MINUTE, START + HOUR)
        assert [attempt.endpoint for attempt in done.waiting] == [hook]
        assert words(done.happened) == ["job.done", "attempt.sent"]
        assert done.shown()["waiting"][0]["endpoint_id"] == hook
        again = await twin.advance(to=done.target, timeout=0.01)
        assert (again.settled, again.now, again.happened) == (False, START + 20 * MINUTE, [])
        gate.waiting[hook].set_result(Answer(500))
        await asyncio.sleep(0)
        gate.numbers.clear()
        resumed = asyncio.ensure_future(twin.advance(to=done.target))
        for calls in (2, 3, 4):
            await gate.until(calls)
            gate.waiting[hook].set_result(Answer(200 if calls == 4 else 500))
        done = await resumed
        assert (done.settled, done.now) == (True, START + HOUR)
        assert minutes(done.happened, "attempt.sent") == [21, 26, 56]

    run(story)


def test_two_advances_at_once_are_refused() -> None:
    async def story() -> None:
        gate = Gate()
        twin = make(sender=gate)
        hook = endpoint(twin)["id"]
        must(twin, "webhooks.test", path={"id": hook})
        first = asyncio.ensure_future(twin.advance(by=HOUR))
        await gate.until(1)
        with pytest.raises(AdvanceUnderWay):
            await twin.advance(by=1)
        gate.waiting[hook].set_result(Answer(200))
        assert (await first).settled
        assert (await twin.advance(by=1)).settled

    run(story)


def test_an_advance_that_is_given_up_leaves_the_clock_usable() -> None:
    async def story() -> None:
        gate = Gate()
        twin = make(sender=gate)
        hook = endpoint(twin)["id"]
        job(twin)
        first = asyncio.ensure_future(twin.advance(by=HOUR))
        await gate.until(1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        gate.waiting[hook].set_result(Answer(200))
        assert (await twin.advance(by=HOUR)).now == START + HOUR + 20 * MINUTE

    run(story)


def test_a_sender_that_breaks_is_a_failed_attempt() -> None:
    async def story() -> None:
        def broken(attempt: Attempt) -> int:
            raise ZeroDivisionError

        twin = make(broken)
        must(twin, "webhooks.test", path={"id": endpoint(twin)["id"]})
        done = await twin.advance(by=0)
        assert done.happened[-1].details["error"] == "failed: ZeroDivisionError"

    run(story)


def test_attempts_wait_for_an_event_loop() -> None:
    twin = make()
    must(twin, "webhooks.test", path={"id": endpoint(twin)["id"]})
    assert words(list(twin.event_log)) == ["delivery.queued", "attempt.sent"]
    assert words(asyncio.run(twin.advance(by=0)).happened) == ["attempt.answered"]


def test_what_was_under_way_when_the_twin_stopped_is_sent_when_it_runs_again() -> None:
    gate = Gate()
    twin = make(sender=gate)
    hook = endpoint(twin)["id"]

    async def stop() -> None:
        must(twin, "webhooks.test", path={"id": hook})
        await gate.until(1)
        await twin.close()

    async def go_on() -> None:
        await twin.start()
        await gate.until(2)
        gate.waiting[hook].set_result(Answer(200))
        assert (await twin.advance(by=0)).settled

    run(stop)
    run(go_on)
    assert gate.numbers[0] == gate.numbers[1]


# Clocks


@pytest.mark.parametrize("clock", ["real", "scaled:1000000"])
def test_a_running_clock_does_what_falls_due_by_itself(clock: str) -> None:
    async def story() -> None:
        twin = Twin(
            Policy().replace(catalogue={"job_durations": {"crawl": "20ms" if clock == "real" else "20m"}}),
            clock=clock,
            sender=Scripted(),
        )
        await twin.start()
        endpoint(twin)
        job(twin)
        seen: list[LoggedEvent] = []
        while "attempt.answered" not in words(seen):
            await twin.event_log.wait(len(seen))
            seen = list(twin.event_log)
        assert words(seen) == [*STARTED, *ENDED, "delivery.queued", "attempt.sent", "attempt.answered"]
        await twin.close()

    run(story)


def test_a_clock_that_is_started_does_what_falls_due() -> None:
    async def story() -> None:
        twin = make()
        job(twin)
        twin.set_clock("scaled:1000000")
        while "job.done" not in words(list(twin.event_log)):
            await twin.event_log.wait(twin.event_log.last)
        twin.set_clock("manual")
        assert twin.now() >= START + 20 * MINUTE

    run(story)


@pytest.mark.fact("S102")
def test_rate_windows_turn_on_the_wall_while_business_time_stands_still() -> None:
    read = [START]
    twin = make(traffic_clock="wall", read_wall=lambda: read[0])
    first = ask(twin, "domains.list")
    read[0] += MINUTE
    second = ask(twin, "domains.list")
    assert [reply.headers["RateLimit-Remaining"] for reply in (first, second)] == ["599", "599"]
    twin.set_clock(traffic="same")
    assert ask(twin, "domains.list").headers["RateLimit-Remaining"] == "598"


@pytest.mark.fact("S84", "S86")
@pytest.mark.parametrize(("clock", "valid"), [("wall", True), ("virtual", False)])
def test_signatures_can_satisfy_receivers_that_live_in_wall_time(clock: str, valid: bool) -> None:
    async def story() -> None:
        sender = Scripted()
        now = START + 90 * DAY
        twin = make(sender=sender, signature_clock=clock, read_wall=lambda: now)
        hook = endpoint(twin)
        must(twin, "webhooks.test", path={"id": hook["id"]})
        await twin.advance(by=0)
        (sent,) = sender.sent
        signature = sent.headers["Service-Signature"]
        assert verify(hook["secret"], signature, sent.body, now // SECOND) is valid
        assert verify(hook["secret"], signature, sent.body, START // SECOND) is not valid

    run(story)


# Jobs that are forced


@pytest.mark.fact("S76")
@pytest.mark.parametrize(("outcome", "error"), [("done", None), ("failed", "No luck.")])
def test_a_job_can_be_forced_and_what_was_drawn_for_it_is_void(outcome: str, error: str | None) -> None:
    async def story() -> None:
        sender = Scripted()
        twin = make(sender=sender)
        endpoint(twin)
        crawl = job(twin)
        await twin.advance(by=MINUTE)
        twin.finish_job(crawl, outcome, error)
        done = await twin.advance(by=HOUR)
        assert words(list(twin.event_log)) == [
            *STARTED,
            "clock.advanced",
            f"job.{outcome}",
            "cost.settled",
            "delivery.queued",
            "attempt.sent",
            "attempt.answered",
            "clock.advanced",
        ]
        assert words(done.happened) == ["attempt.answered"]
        shown = json.loads(sender.sent[0].body)["data"]["job"]
        assert (shown["status"], shown["error_detail"]) == (outcome, error)
        assert shown["finished_at"] == iso(START + MINUTE)

    run(story)


def test_forcing_what_cannot_be_forced_is_refused() -> None:
    twin = make()
    crawl = job(twin)
    with pytest.raises(BadInput, match="there is none"):
        twin.finish_job("job_9", "done")
    with pytest.raises(BadInput, match="one of done, failed"):
        twin.finish_job(crawl, "lost")
    twin.finish_job(crawl, "done")
    with pytest.raises(BadInput, match="has ended"):
        twin.finish_job(crawl, "failed")


def test_administration_passes_on_what_the_api_lacks() -> None:
    twin = make()
    account = twin.administer("open_account", name="other", plan="free")
    token = twin.administer("issue_key", account=account, name="first")
    assert twin.call(Call("account.get", key=token)).status == 200
    with pytest.raises(BadInput, match="administration"):
        twin.administer("save")
    with pytest.raises(BadInput, match="plan"):
        twin.administer("change_plan", account=account, plan="none")


# Random advances


def scripted(attempt: Attempt) -> Answer:
    """Fail by a pattern that depends on the delivery alone."""
    good = (attempt.delivery * 7 + attempt.number * 3) % 7 < 1
    return Answer(200 if good else 503, None, 1000)


def furnished() -> Twin:
    """A world with jobs of all kinds under way and four endpoints, one of them bound to a domain."""
    twin = make(scripted)
    domains = [must(twin, "domains.create", {"host": f"d{n}.example"})["id"] for n in range(3)]
    for name, more in [("a", {}), ("b", {"event_types": ["job.failed"]}), ("c", {"domain_id": domains[0]})]:
        endpoint(twin, name, **more)
    for domain in domains:
        for kind in ("rank_run", "crawl", "site_optimization", "ai_scan"):
            job(twin, kind, domain)
    return twin


async def advanced_at_random(twin: Twin, source: random.Random, total: int) -> list[tuple[int, str, Body]]:
    """Advance by `total` in random steps of every form, and give what happened."""
    end, happened = twin.now() + total, []
    while twin.now() < end:
        left, form = end - twin.now(), source.randrange(4)
        if form == 0 and (due := twin.next_due()) is not None and due <= end:
            done = await twin.advance_to_next()
        elif form == 1:
            done = await twin.advance(to=twin.now() + min(left, source.choice((0, 1, MINUTE, HOUR))))
        else:
            done = await twin.advance(by=min(left, source.randrange(1, total)))
        assert done.settled
        happened += done.happened
    return [(one.at, one.what, one.details) for one in happened]


async def equal_to_one_big_advance(sequences: int, seed: int) -> None:
    start, total = furnished(), 10 * HOUR
    snapshot, big = start.snapshot(), make(scripted)
    big.restore(snapshot)
    done = await big.advance(by=total)
    expected = [(one.at, one.what, one.details) for one in done.happened]
    assert len(expected) > 100
    saved = big.service.save()
    twin = make(scripted)
    for number in range(sequences):
        twin.restore(snapshot)
        happened = await advanced_at_random(twin, random.Random(f"{seed}/{number}"), total)
        assert happened == expected, f"sequence {seed}/{number}"
        assert twin.service.save() == saved, f"sequence {seed}/{number}"


@pytest.mark.slow
def test_random_advances_equal_one_big_advance() -> None:
    asyncio.run(equal_to_one_big_advance(200, seed=1))


@pytest.mark.heavy
def test_ten_thousand_random_advances_equal_one_big_advance() -> None:
    asyncio.run(equal_to_one_big_advance(10_000, seed=2))


# Worlds


def test_a_snapshot_brings_a_world_back() -> None:
    async def story() -> None:
        twin = make()
        endpoint(twin)
        crawl = job(twin)
        saved, world, before = twin.snapshot(), twin.world_id, twin.service.save()
        await twin.advance(by=HOUR)
        twin.restore(saved)
        assert (twin.now(), twin.service.save()) == (START, before)
        assert twin.world_id != world
        assert must(twin, "jobs.get", path={"kind": "crawl", "id": crawl})["status"] == "running"
        assert words((await twin.advance(by=HOUR)).happened)[0] == "job.done"

    run(story)


@pytest.mark.fact("S102")
@pytest.mark.parametrize(("saved_under", "restored_under"), [("same", "wall"), ("wall", "same")])
def test_rate_windows_do_not_go_back_when_a_world_is_restored_under_another_clock(
    saved_under: str, restored_under: str
) -> None:
    business = {"same": START + DAY, "wall": START - DAY}[saved_under]
    twin = make(start=business, traffic_clock=saved_under, read_wall=lambda: START)
    ask(twin, "domains.list")
    snapshot = twin.snapshot()
    twin.set_clock(traffic=restored_under)
    twin.restore(snapshot)
    assert ask(twin, "domains.list").headers["RateLimit-Reset"] == "60"


def test_restoring_sends_again_what_was_under_way_under_the_same_number() -> None:
    async def story() -> None:
        gate = Gate()
        twin = make(sender=gate)
        hook = endpoint(twin)["id"]
        must(twin, "webhooks.test", path={"id": hook})
        await gate.until(1)
        saved, old = twin.snapshot(), gate.waiting[hook]
        twin.restore(saved)
        await gate.until(2)
        assert gate.numbers[0] == gate.numbers[1]
        assert old.cancelled()
        gate.waiting[hook].set_result(Answer(200))
        done = await twin.advance(by=0)
        assert words(done.happened) == ["attempt.answered"]

    run(story)


def test_an_attempt_to_an_endpoint_that_was_deleted_meanwhile_is_not_sent_again() -> None:
    async def story() -> None:
        gate = Gate()
        twin = make(sender=gate)
        hook = endpoint(twin)["id"]
        must(twin, "webhooks.test", path={"id": hook})
        await gate.until(1)
        must(twin, "webhooks.delete", path={"id": hook})
        twin.restore(twin.snapshot())
        assert (await twin.advance(by=0)).settled
        (record,) = must(twin, "webhook_deliveries.list")
        assert (record["status_code"], record["error"]) == (None, "endpoint deleted")
        assert gate.calls == 1

    run(story)


def test_a_reset_begins_anew() -> None:
    async def story() -> None:
        twin = make()
        keys, saved, world = twin.keys, twin.service.save(), twin.world_id
        job(twin)
        await twin.advance(by=HOUR)
        twin.reset()
        assert (twin.now(), twin.keys, twin.service.save()) == (START, keys, saved)
        assert twin.world_id != world

    run(story)


def test_after_a_reset_the_same_requests_meet_the_same_faults() -> None:
    twin = make()

    def met() -> list[bool]:
        twin.faults.add(FaultRule(error_rate=0.5))
        return [twin.faults.pick(Call("domains.list")).fails for _ in range(20)]

    first = met()
    twin.reset()
    assert not twin.faults.active
    assert met() == first


def test_an_advance_ends_when_another_world_begins() -> None:
    async def story() -> None:
        gate = Gate()
        twin = make(sender=gate)
        must(twin, "webhooks.test", path={"id": endpoint(twin)["id"]})
        advancing = asyncio.ensure_future(twin.advance(by=HOUR))
        await gate.until(1)
        twin.reset()
        with pytest.raises(BadInput, match="another world"):
            await advancing
        assert twin.now() == START

    run(story)


@pytest.mark.parametrize("saved", [b"", b"[]", b"{}", b"nonsense", b'{"ranksim_snapshot": 1}'])
def test_what_is_no_snapshot_is_refused_and_changes_nothing(saved: bytes) -> None:
    twin = make()
    world = twin.world_id
    with pytest.raises(BadInput, match="snapshot"):
        twin.restore(saved)
    assert twin.world_id == world


@pytest.mark.parametrize(
    "changes",
    [
        {"now": 10**30},
        {"now": -(10**17)},
        {"now": 1.5},
        {"now": float("inf")},
        {"traffic": 10**30},
        {"traffic": None},
        {"keys": {"production": 7}},
        {"keys": ["production"]},
    ],
)
def test_a_snapshot_with_something_wrong_in_its_heading_is_refused(changes: dict[str, Any]) -> None:
    twin = make()
    world, saved = twin.world_id, json.loads(twin.snapshot())
    saved |= changes
    with pytest.raises(BadInput, match="snapshot: expected the JSON"):
        twin.restore(json.dumps(saved).encode())
    assert twin.world_id == world


def test_an_advance_that_runs_out_of_time_in_another_world_says_so() -> None:
    async def story() -> None:
        gate = Gate()
        twin = make(sender=gate)
        must(twin, "webhooks.test", path={"id": endpoint(twin)["id"]})
        await gate.until(1)
        before = twin.snapshot()
        until = AdvanceCondition(job(twin))
        advancing = asyncio.ensure_future(twin.advance(until=until, timeout=0.05))
        await asyncio.sleep(0)
        twin.restore(before)
        with pytest.raises(BadInput, match="another world"):
            await advancing
        await twin.close()

    run(story)


def test_a_snapshot_of_another_policy_is_refused() -> None:
    twin = make()
    with pytest.raises(BadInput, match="another policy"):
        twin.restore(Twin(Policy(), clock="manual").snapshot())


# Inputs


def test_the_inputs_alone_rebuild_the_state() -> None:
    """What a journal is told is enough to replay a world on a bare service."""

    async def story() -> None:
        twin = make(scripted)
        replayed = Service.restore(twin.service.save(), POLICY)

        def replay(method: str, now: int, arguments: dict[str, Any]) -> None:
            if method == "written":
                replayed.written(Reply(0, None, flight=arguments["flight"]), now)
            elif method == "moved":
                replayed.advance(now)
            elif method in ("handle", "handle_batch"):
                first, traffic = arguments.values()
                getattr(replayed, method)(first, now, traffic)
            else:
                getattr(replayed, method)(now=now, **arguments)

        twin.service = JournaledService(twin.service, replay)
        twin.clock.changed = lambda what: replay(what, twin.now(), {})
        endpoint(twin)
        crawl = job(twin)
        must(twin, "domains.create", {"host": "x.example"}, idempotency_key="once")
        job(twin, "rank_run")
        await twin.advance(by=HOUR)
        twin.administer("set_status", account=must(twin, "account.get")["id"], status="past_due")
        assert ask(twin, "jobs.create", {"kind": "crawl", "domain_id": "x"}).status >= 400
        twin.finish_job(job_of_sandbox(twin), "failed")
        await twin.advance(by=9 * HOUR)
        assert replayed.save() == twin.service.save()
        assert crawl in replayed.state.jobs

    def job_of_sandbox(twin: Twin) -> str:
        sandbox = {"key": twin.keys["sandbox"], "environment": "sandbox"}
        domain = twin.call(Call("domains.create", body={"host": "s.example"}, **sandbox)).body["data"]["id"]
        body = {"kind": "crawl", "domain_id": domain}
        return twin.call(Call("jobs.create", body=body, **sandbox)).body["data"]["id"]

    run(story)
