"""Rehearsals: the trace is what a recorder would have written, and the same seed gives the same trace."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ranksim.bridges.rehearsal import START, Network, Rehearsal, rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.bridges.scripted_receivers import BASE
from ranksim.core.callers.steps import Listen, Pause, Program, Received, Send, Until
from ranksim.core.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Micros
from ranksim.core.contract.quantities import Distribution
from ranksim.core.service.calls import Answer, Call, StartJob, Step
from ranksim.core.service.service import Service
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles import Profile, profile
from ranksim.judge.profiles.fixtures import User

STILL = Distribution(kind="constant", durations=(20 * MILLISECOND,))
STEADY = Network(before=STILL, after=STILL, hook=STILL)


def play(*programs: Program, network: Network = STEADY, seed: int = 0, **options: Any) -> Rehearsal:
    """Run programs side by side in a world; `options` are those of `Rehearsal`."""
    service, target = make_world(seed=1)
    rehearsal = Rehearsal(service, target, network, seed, **options)
    rehearsal.together(programs, START + 12 * 60 * MINUTE)
    return rehearsal


def told(exchange: Exchange) -> Any:
    return json.loads(exchange.response)["data"]


def a_profile(program: Callable[[Reach, int, int, int], Program], users: int = 1) -> Profile:
    def plays(me: User) -> Program:
        return program(me.reach, me.number, me.users, me.seed)

    return Profile("test", "to test", (), users, MINUTE, plays)


# One call


def test_a_call_is_written_as_a_recorder_sees_it() -> None:
    def program() -> Program:
        answer = yield Send(
            "domains.create", body={"host": "ü.example.com"}, request_id="r-1", planned=START + 3
        )
        assert answer.status == 422
        answer = yield Send(
            "domains.create", body={"host": "new.example.com"}, idempotency_key="k-1", request_id="r-2"
        )
        assert (answer.status, answer.data["host"]) == (201, "new.example.com")
        assert (answer.sent, answer.received) == (START + 40_001, START + 80_001)
        answer = yield Send("keywords.list", "scoped", path={}, query={"limit": "3"})
        answer = yield Send("domains.get", path={"id": "a/b c"})
        assert answer.code == "not_found"
        yield Send("domains.list", "main", environment="sandbox")

    first, second, third, fourth, fifth = play(program()).trace.exchanges
    assert (first.status, first.planned, first.effect) == (422, START + 3, "none")
    assert json.loads(first.body) == {"host": "ü.example.com"}
    assert "ü" in first.body
    assert first.response_headers["content-type"] == "application/problem+json"
    body = json.loads(first.response)
    assert body["request_id"] == first.response_headers["x-request-id"] == "r-1"
    assert second.id == "x2"
    assert (second.sent, second.received, second.status) == (START + 40_001, START + 80_001, 201)
    assert (second.method, second.path, second.operations) == ("POST", "/v1/domains", ("domains.create",))
    assert (second.target, second.environment, second.api_key) == ("production", "production", "main")
    assert (second.effect, second.error, second.surface) == ("yes", None, "rest")
    assert second.request_headers == {
        "Content-Type": "application/json",
        "Idempotency-Key": "k-1",
        "X-Request-Id": "r-2",
    }
    assert {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"} <= set(second.response_headers)
    assert second.response_headers["content-length"] == str(len(second.response.encode()))
    assert second.response_headers["content-type"] == "application/json"
    assert (third.api_key, third.query, third.effect) == ("scoped", {"limit": "3"}, "none")
    assert third.request_headers == {}
    assert fourth.path == "/v1/domains/a%2Fb%20c"
    assert (fifth.environment, fifth.target, fifth.status) == ("sandbox", "sandbox", 401)


def test_keys_that_do_not_exist() -> None:
    def program() -> Program:
        for key in ("", "unknown"):
            answer = yield Send("domains.list", key)
            assert answer.status == 401
            answer = yield Send("webhook_events.list", key)
            assert answer.ok

    exchanges = play(program()).trace.exchanges
    assert [exchange.api_key for exchange in exchanges] == [None, None, "unknown", "unknown"]


@pytest.mark.parametrize(
    ("raw", "status"),
    [(b"{", 400), (b"[1]", 400), (b'{"host": "x.example.com"}', 201), (b"\xff", 400), (b"{}", 422)],
)
def test_raw_bodies(raw: bytes, status: int) -> None:
    def program() -> Program:
        answer = yield Send("domains.create", raw=raw)
        assert answer.status == status

    [exchange] = play(program()).trace.exchanges
    assert exchange.body == raw.decode("utf-8", "replace")


def test_a_date_has_whole_seconds_of_the_deployment() -> None:
    def program() -> Program:
        yield Pause(1_700 * MILLISECOND)
        yield Send("domains.list")

    for skew, second in ((0, 1), (-400 * MILLISECOND, 1), (5 * SECOND, 6)):
        [exchange] = play(program(), skew=skew).trace.exchanges
        said = parsedate_to_datetime(exchange.response_headers["date"]).timestamp()
        assert said == START // SECOND + second


def test_waiting() -> None:
    now: list[Micros] = []

    def program() -> Program:
        now.append((yield Pause(0)))
        now.append((yield Until(START + SECOND)))
        now.append((yield Until(START)))
        now.append((yield Pause(5)))

    play(program())
    assert now == [START, START + SECOND, START + SECOND, START + SECOND + 5]


def test_graphql_is_answered_as_over_sockets() -> None:
    job = 'mutation { createJob(input: {kind: CRAWL, domainId: "none"}) { job { id } } }'

    def program() -> Program:
        for query in ("{ domains(first: 1) { nodes { id } } }", job, "{ nothing }", "{"):
            yield Send("domains.list", surface="graphql", body={"query": query})

    listed, refused, unfit, unread = play(program()).trace.exchanges
    for one in (listed, refused, unfit, unread):
        assert (one.surface, one.method, one.path) == ("graphql", "POST", "/graphql")
        assert one.response_headers["content-type"] == "application/json"
    assert json.loads(listed.response)["data"]["domains"]["nodes"][0].keys() == {"id"}
    assert listed.response_headers["ratelimit-limit"] == "600"
    [error] = json.loads(refused.response)["errors"]
    assert error["extensions"]["code"] == "not_found"
    assert [one.status for one in (listed, refused, unfit, unread)] == [200, 200, 422, 400]
    assert [one.effect for one in (listed, refused)] == ["none", "unknown"]


# What gets lost


def creates(count: int) -> Program:
    for number in range(count):
        yield Send("labels.create", body={"domain_id": "none", "name": "x"}, idempotency_key=f"k{number}")
        yield Pause(SECOND)


def test_a_share_is_lost_half_of_it_without_effect() -> None:
    effects = []

    class Watched(Service):
        def handle(self, call: Call, now: int, traffic_now: int | None = None) -> Step:
            effects.append(call)
            return super().handle(call, now, traffic_now)

    rehearsal = Rehearsal(Watched(), make_world()[1], Network(loss=0.2), seed=9)
    rehearsal.together([creates(2_000)], START + 9_999 * MINUTE)
    exchanges = rehearsal.trace.exchanges
    lost = [exchange for exchange in exchanges if exchange.status is None]
    assert 340 < len(lost) < 460
    assert 1_750 < len(effects) < 1_850
    assert {(one.received, one.effect, one.error, one.response) for one in lost} == {
        (None, "unknown", "no reply", "")
    }
    assert len(rehearsal.unknown) == len(lost)
    assert [one.exchange for one in rehearsal.unknown] == [one.id for one in lost]


def test_lost_on_purpose_takes_effect_all_the_same() -> None:
    def program() -> Program:
        send = Send("domains.create", body={"host": "a.example.com"}, idempotency_key="k")
        answer = yield Send(**{name: getattr(send, name) for name in send.__slots__} | {"lose": True})
        assert (answer.status, answer.received - answer.sent) == (0, MILLISECOND)
        answer = yield send
        assert answer.status == 409
        yield Pause(SECOND)
        answer = yield send
        assert answer.headers["idempotent-replayed"] == "true"

    exchanges = play(program()).trace.exchanges
    assert [exchange.status for exchange in exchanges] == [None, 409, 201]


def test_what_is_lost_on_purpose_is_lost_on_a_fast_network_too() -> None:
    def program() -> Program:
        answer = yield Send("domains.create", body={"host": "a.example.com"}, lose=True)
        assert answer.status == 0

    fast = Distribution(kind="constant", durations=(20,))
    [exchange] = play(program(), network=Network(before=fast, after=fast, hook=fast)).trace.exchanges
    assert (exchange.status, exchange.effect) == (None, "unknown")


def test_a_call_under_way_at_the_end_is_unknown() -> None:
    def program() -> Program:
        yield Pause(MINUTE - 10 * MILLISECOND)
        yield Send("domains.create", body={"host": "late.example.com"}, idempotency_key="k")

    service, target = make_world()
    rehearsal = Rehearsal(service, target, STEADY)
    rehearsal.together([program()], START + MINUTE)
    [exchange] = rehearsal.trace.exchanges
    assert (exchange.status, exchange.received, exchange.effect) == (None, None, "unknown")
    assert [one.exchange for one in rehearsal.unknown] == ["x1"]
    assert rehearsal.now == START + MINUTE
    found = rehearsal.alone(listed())
    assert "late.example.com" in found


def listed() -> Any:
    yield Pause(SECOND)
    answer = yield Send("domains.list")
    return [domain["host"] for domain in answer.data]


def test_later_calls_overtake_some() -> None:
    def one(number: int) -> Program:
        yield Pause(number * MILLISECOND)
        yield Send("domains.create", body={"host": f"d{number}.example.com"})

    order = []
    for late in (0.0, 0.3):
        rehearsal = play(*map(one, range(40)), network=Network(before=STILL, after=STILL, late=late), seed=2)
        told_at = sorted(
            (told(exchange)["created_at"], exchange.id) for exchange in rehearsal.trace.exchanges
        )
        order.append([int(which[1:]) for _, which in told_at])
    assert order[0] == list(range(1, 41))
    assert order[1] != order[0]


# Webhooks

SCRIPTS = {
    "200": [("1", 200, True)],
    "204+9s": [("1", 204, True)],
    "200+11s,201": [("1", None, True), ("2", 201, True)],
    "timeout,200": [("1", None, True), ("2", 200, True)],
    "500,302:/x,200": [("1", 500, True), ("2", 302, True), ("3", 200, True)],
}


@pytest.mark.fact("S81", "S85", "S87", "S88", "S89", "S90")
@pytest.mark.parametrize(("script", "expected"), SCRIPTS.items(), ids=SCRIPTS)
def test_receivers_answer_by_script(script: str, expected: list[tuple[str, int | None, bool]]) -> None:
    def program() -> Program:
        url = yield Listen(script)
        made = yield Send("webhooks.create", body={"url": url})
        yield Send("webhooks.test", path={"id": made.data["id"]})
        yield Pause(30 * MINUTE)

    trace = play(program()).trace
    came = trace.deliveries
    found = [(one.headers["service-delivery-attempt"], one.status, one.signature.valid) for one in came]
    assert found == expected
    assert {one.endpoint for one in came} == {"/hooks/1"}
    gaps = [later.received - earlier.received for earlier, later in pairwise(came)]
    assert all(
        delay <= gap <= delay + 11 * SECOND for gap, delay in zip(gaps, (MINUTE, 5 * MINUTE), strict=False)
    )
    for one in came:
        assert one.answered is not None
        assert (one.status is None) == (10 * SECOND <= one.answered - one.received < 11 * SECOND)
        assert one.signature.t is not None
        assert 0 <= one.received // SECOND - one.signature.t <= 1


def test_a_stale_or_foreign_signature_is_told_apart() -> None:
    class Forging(Service):
        """Signs over another body."""

        def advance(self, now: int) -> Step:
            from dataclasses import replace

            step = super().advance(now)
            step.tasks = [
                task if isinstance(task, StartJob) else replace(task, body=task.body + b" ")
                for task in step.tasks
            ]
            return step

    def program() -> Program:
        url = yield Listen("200")
        made = yield Send("webhooks.create", body={"url": url})
        yield Send("webhooks.test", path={"id": made.data["id"]})
        yield Pause(SECOND)

    service, target = make_world(seed=1)
    forging = Forging.restore(service.save(), service.policy)
    rehearsal = Rehearsal(forging, target, STEADY)
    rehearsal.together([program()], START + MINUTE)
    [came] = rehearsal.trace.deliveries
    assert came.signature.valid is False


def test_an_endpoint_elsewhere_is_out_of_reach() -> None:
    def program() -> Program:
        made = yield Send("webhooks.create", body={"url": "https://elsewhere.example.com"})
        yield Send("webhooks.test", path={"id": made.data["id"]})
        yield Pause(SECOND)
        answer = yield Send("webhook_deliveries.list")
        assert [one["error"] for one in answer.data] == ["connection refused"]

    assert play(program()).trace.deliveries == []


def test_secrets_are_hidden() -> None:
    secrets: list[str] = []

    def program() -> Program:
        url = yield Listen("200")
        made = yield Send("webhooks.create", body={"url": url}, idempotency_key="k")
        secrets.append(made.data["secret"])
        again = yield Send("webhooks.create", body={"url": url}, idempotency_key="k")
        secrets.append(again.data["secret"])

    first, second = play(program()).trace.exchanges
    assert secrets[0] == secrets[1]
    assert secrets[0] not in first.response + second.response
    assert told(first)["secret"] == told(second)["secret"]
    assert told(first)["secret"].startswith("hidden:")


# Time that runs faster


def test_business_time_runs_faster() -> None:
    def program() -> Program:
        url = yield Listen("500")
        made = yield Send("webhooks.create", body={"url": url})
        yield Send("webhooks.test", path={"id": made.data["id"]})
        yield Pause(10 * MINUTE)

    service, target = make_world()
    target = target.model_copy(update={"time_scale": 60, "traffic_scale": 2})
    rehearsal = Rehearsal(service, target, STEADY)
    rehearsal.together([program()], START + MINUTE * 60)
    came = rehearsal.trace.deliveries
    assert [one.headers["service-delivery-attempt"] for one in came] == list("123456")
    assert [round((b.received - a.received) / SECOND) for a, b in pairwise(came)] == [
        1,
        5,
        30,
        120,
        360,
    ]


def test_the_header_says_whose_the_keys_are_and_how_time_runs() -> None:
    def program(reach: Reach, user: int, users: int, seed: int) -> Program:
        yield Send("domains.list", "unknown")

    service, target = make_world()
    trace = rehearse(a_profile(program), service, target)
    assert trace.header.exclusive
    assert trace.header.targets == target.environments
    assert set(trace.header.keys) == set(target.keys)
    assert trace.header.keys["main"].account == target.keys["main"].account
    assert trace.header.keys["scoped"].domain_id == target.keys["scoped"].domain_id
    assert trace.notes == []
    fast = target.model_copy(update={"time_scale": 60})
    [note] = rehearse(a_profile(program), make_world()[0], fast).notes
    assert note.model_extra == {"rate": 60, "traffic_rate": 1}


# Stand-ins


class Narrow:
    """A deployment with no more than what a rehearsal may ask."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.called: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        allowed = (
            "policy",
            "handle",
            "handle_batch",
            "advance",
            "next_due",
            "attempted",
            "started",
            "ended",
            "written",
        )
        if name not in allowed:
            raise AssertionError(f"a rehearsal may not look at {name}")
        self.called[name] += 1
        return getattr(self._service, name)


def test_a_stand_in_needs_a_policy_and_eight_methods() -> None:
    service, target = make_world(seed=3)
    narrow = Narrow(service)
    trace = rehearse(profile("webhooks"), narrow, target, users=2, duration=MINUTE, seed=1)
    assert len(trace.deliveries) > 20
    over = {"policy", "handle_batch"}
    assert set(narrow.called) == {"handle", "advance", "next_due", "attempted", "written", *over}


def test_jobs_that_are_handed_out_end_too() -> None:
    service, target = make_world(seed=1)
    pooled = Service.restore(service.save(), service.policy, pooled=("crawl",))

    def program() -> Program:
        found = yield Send("domains.list")
        made = yield Send("jobs.create", body={"kind": "crawl", "domain_id": found.data[0]["id"]})
        yield Pause(2 * MINUTE)
        answer = yield Send("jobs.get", path={"kind": "crawl", "id": made.data["id"]})
        assert answer.data["status"] == "done"

    rehearsal = Rehearsal(pooled, target, STEADY)
    rehearsal.together([program()], START + 5 * MINUTE)
    assert len(rehearsal.trace.exchanges) == 3


def test_replies_can_be_altered_on_their_way() -> None:
    def alter(
        send: Send, status: int, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        del headers["x-request-id"]
        return 418, headers | {"ratelimit-remaining": "7"}, b'{"data": {"altered": true}}'

    def program() -> Program:
        answer = yield Send("account.get")
        assert (answer.status, answer.data, answer.headers["ratelimit-remaining"]) == (
            418,
            {"altered": True},
            "7",
        )

    [exchange] = play(program(), alter=alter).trace.exchanges
    assert exchange.status == 418
    assert "x-request-id" not in exchange.response_headers
    assert exchange.response == '{"data": {"altered": true}}'


# As a whole


def lines(trace: Trace, folder: Path) -> bytes:
    trace.write(folder / "trace.jsonl")
    return (folder / "trace.jsonl").read_bytes()


def test_the_same_seed_gives_the_same_trace(tmp_path: Path) -> None:
    def once(seed: int) -> bytes:
        service, target = make_world(seed=1)
        network = Network(loss=0.02, late=0.05)
        return lines(
            rehearse(
                profile("everyday"), service, target, users=4, duration=MINUTE, seed=seed, network=network
            ),
            tmp_path,
        )

    assert once(5) == once(5)
    assert once(5) != once(6)


def test_the_file_is_a_trace(tmp_path: Path) -> None:
    service, target = make_world()
    path = tmp_path / "trace.jsonl.gz"
    trace = rehearse(profile("scope"), service, target, users=2, duration=20 * SECOND, path=path)
    again = Trace.read(path)
    assert again.exchanges == trace.exchanges
    assert again.header == trace.header


def test_no_token_enters_a_trace(tmp_path: Path) -> None:
    service, target = make_world()
    text = lines(rehearse(profile("scope"), service, target, users=5, duration=MINUTE), tmp_path).decode()
    assert all(key.token not in text for key in target.keys.values())


def test_a_spend_cap_holds_in_a_rehearsal() -> None:
    service, target = make_world(seed=1)
    capped = target.model_copy(update={"spend_cap": 500_000})
    rehearse(profile("race"), service, capped, users=3, duration=3 * MINUTE)
    account = service.state.accounts[target.keys["main"].account]
    assert 0 < account.books.settled + account.books.reserved < 1_500_000
    service, target = make_world(seed=1)
    rehearse(profile("race"), service, target.model_copy(update={"dry_run_only": True}), users=3)
    assert not any(job.account == account.id for job in service.state.jobs.values())


def intervals(exchanges: Sequence[Exchange]) -> list[Micros]:
    return sorted(one.received - one.sent for one in exchanges if one.received is not None)


def test_latencies_are_as_said() -> None:
    def program() -> Program:
        for _ in range(3_000):
            yield Send("domains.list")
            yield Pause(SECOND)

    took = intervals(play(program(), network=Network(), seed=8).trace.exchanges)
    assert 28 * MILLISECOND < took[len(took) // 2] < 38 * MILLISECOND
    assert took[-1] > 2 * took[len(took) // 2]
    assert len(set(took)) > 2_000


def test_answers_of_receivers_are_reported_in_time() -> None:
    """An answer that reaches the deployment after its patience is a timeout, whatever the receiver thinks."""
    seen: list[Answer] = []

    class Watched(Service):
        def attempted(self, attempt: int, answer: Answer, now: int) -> Step:
            seen.append(answer)
            return super().attempted(attempt, answer, now)

    def program() -> Program:
        for script in ("200+9970ms", "200+9900ms"):
            url = yield Listen(script)
            assert url.startswith(BASE)
            made = yield Send("webhooks.create", body={"url": url})
            yield Send("webhooks.test", path={"id": made.data["id"]})
            yield Pause(20 * SECOND)

    service, target = make_world(seed=1)
    watched = Watched.restore(service.save(), service.policy)
    rehearsal = Rehearsal(watched, target, STEADY)
    rehearsal.together([program()], START + 45 * SECOND)
    assert seen == [Answer(None, "timeout", 10 * SECOND), Answer(200, None, 9_940 * MILLISECOND)]


def test_received_reads_envelopes() -> None:
    refused = Received(409, {"code": "cooldown_active"}, {}, 0, 1)
    assert (refused.ok, refused.code, refused.data) == (False, "cooldown_active", None)


@pytest.mark.heavy
def test_a_load_profile_is_simulated_for_a_day() -> None:
    service, target = make_world(seed=1)
    trace = rehearse(profile("everyday"), service, target, users=1, duration=DAY)
    hours = Counter((exchange.sent - START) // HOUR for exchange in trace.exchanges)
    assert set(hours) >= set(range(24))
    assert min(hours[hour] for hour in range(24)) > 1_000
