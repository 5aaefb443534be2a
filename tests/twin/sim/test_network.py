"""Clients that call over a network: how long it takes, what is lost, and what they then do."""

from __future__ import annotations

from typing import Any

import pytest

import ranksim as rs
from ranksim.core.callers.network import Network, Ways
from ranksim.core.clock import MILLISECOND, SECOND, Micros, instant
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call, Reply
from ranksim.twin.sim.world import World

START = instant("2026-01-05T00:00:00Z")

BASE = """
start: 2026-01-05T00:00:00Z
length: 10m
accounts:
  acme: {plan: agency, portfolio: {domains: 1}}
"""


def scenario(
    network: str, client: str = "mix: {labels.create: 1}, times: [1m]", more: str = ""
) -> rs.Scenario:
    """A scenario with one client and a network."""
    clients = f"clients:\n  ci: {{kind: caller, account: acme, {client}}}\n{more}"
    return rs.Scenario.parse(f"{BASE}network: {network}\n{clients}")


class Seen:
    """A recorder that keeps what was exchanged and lost: (sent, effect, received, operation, outcome)."""

    def __init__(self) -> None:
        self.exchanges: list[tuple[Micros, Micros, str, str]] = []
        self.lost_at: list[tuple[Micros, str]] = []

    def watch(self, state: Any) -> None: ...

    def exchange(self, now: Micros, client: str, call: Call, reply: Reply, **at: Micros) -> None:
        sent, received = at.get("sent", now), at.get("received", now)
        self.exchanges.append((sent - START, received - START, call.operation, reply.outcome))

    def lost(self, sent: Micros, client: str, call: Call, arrives: bool) -> str:
        self.lost_at.append((sent - START, call.operation))
        return ""

    def unseen(self, *effect: Any) -> None: ...

    def delivery(self, *attempt: Any) -> None: ...


def observed(made: rs.Scenario, **options: Any) -> tuple[Seen, World]:
    seen = Seen()
    world = World(made, trace=seen, **options)
    world.run()
    return seen, world


def test_a_call_takes_effect_on_its_way_and_is_answered_at_its_end() -> None:
    seen, world = observed(scenario("{before: 100ms, after: 250ms}"))
    [(sent, received, operation, outcome)] = seen.exchanges
    assert (sent, received, operation, outcome) == (60 * SECOND, 60 * SECOND + 350_000, "labels.create", "ok")
    [label] = world.service.state.labels.values()
    assert label.created_at == START + 60 * SECOND + 100 * MILLISECOND


def test_a_queue_of_calls_holds_back_the_reply() -> None:
    """Six in six seconds as nginx has it without `nodelay`: one leaves every second, the sixth after five."""
    policy = "policy:\n  windows: [{name: queue, limit: 6/6s, algorithm: queue}]\n"
    client = "mix: {slots.get: 1}, times: [1m, 1m, 1m, 64s]"
    seen, _ = observed(scenario("{before: 0s, after: 10ms}", client, policy))
    waited = [(received - sent) // SECOND for sent, received, *_ in seen.exchanges]
    assert waited == [0, 1, 2, 0]


def test_the_response_time_is_measured() -> None:
    result = rs.run(scenario("{before: 100ms, after: 250ms}", "mix: {slots.get: 1}, every: 10s"))
    assert result.metric("clients.ci.response_time.max").mean == pytest.approx(350 * MILLISECOND, rel=0.01)
    assert result.metric("clients.ci.unanswered").mean == 0
    assert "network" in result.replications[0].to_plain()


def test_without_a_network_results_say_nothing_of_one() -> None:
    made = rs.Scenario.parse(
        f"{BASE}clients:\n  ci: {{kind: caller, account: acme, mix: {{slots.get: 1}}, every: 1m}}"
    )
    result = rs.run(made)
    assert "network" not in result.replications[0].to_plain()


@pytest.mark.fact("S47")
def test_a_lost_reply_of_a_post_with_an_idempotency_key_is_asked_for_again_and_replayed() -> None:
    client = "mix: {labels.create: 1}, times: [1m], idempotency_keys: true, max_tries: 3, retry_every: 2s"
    result = rs.run(scenario("{before: 100ms, after: 100ms, lost_replies: 1, give_up: 5s}", client))
    metrics = {name: result.metric(f"clients.ci.{name}").mean for name in ("ok", "replayed", "unanswered")}
    assert metrics == {"ok": 1, "replayed": 2, "unanswered": 3}
    seen, world = observed(scenario("{lost_replies: 1, give_up: 5s}", client))
    assert [at // SECOND for at, _ in seen.lost_at] == [60, 67, 74]  # 5 s without a reply, and 2 s of pause
    assert len(world.service.state.labels) == 1


@pytest.mark.parametrize(
    ("operation", "tries"),
    [("labels.create", 1), ("slots.get", 3), ("keyword_lists.delete", 3), ("keyword_lists.update", 1)],
)
def test_a_lost_call_is_repeated_only_where_that_can_do_no_harm(operation: str, tries: int) -> None:
    client = f"mix: {{{operation}: 1}}, times: [1m], max_tries: 3"
    seen, _ = observed(scenario("{lost_requests: 1, give_up: 1s}", client))
    assert [what for _, what in seen.lost_at] == [operation] * tries
    assert seen.exchanges == []


def test_a_reply_that_takes_longer_than_the_client_waits_is_lost_to_it() -> None:
    seen, world = observed(scenario("{before: 1s, after: 5s, give_up: 3s}"))
    assert seen.lost_at == [(60 * SECOND, "labels.create")]
    assert len(world.service.state.labels) == 1


def test_a_client_may_have_a_network_of_its_own() -> None:
    client = "mix: {slots.get: 1}, times: [1m], network: {before: 1s, after: 1s}"
    more = "  other: {kind: caller, account: acme, mix: {slots.get: 1}, times: [2m]}\n"
    seen, _ = observed(scenario("{before: 10ms, after: 10ms}", client, more))
    assert [received - sent for sent, received, _, _ in seen.exchanges] == [2 * SECOND, 20 * MILLISECOND]


def test_calls_do_not_wait_for_the_replies_of_those_before() -> None:
    seen, _ = observed(scenario("{before: 30s, after: 20s, give_up: 1m}", "mix: {slots.get: 1}, every: 10s"))
    assert [sent // SECOND for sent, *_ in seen.exchanges[:4]] == [0, 10, 20, 30]


def test_a_poller_waits_for_its_reply() -> None:
    text = "clients:\n  ci: {kind: poller, account: acme, operation: slots.get, every: 1m}"
    seen, _ = observed(rs.Scenario.parse(f"{BASE}network: {{before: 10s, after: 20s}}\n{text}"))
    assert [sent // SECOND for sent, *_ in seen.exchanges[:3]] == [0, 90, 180]


@pytest.mark.slow
def test_neither_other_clients_nor_the_number_of_processes_change_what_travels() -> None:
    network = "{lost_requests: 0.1, lost_replies: 0.1, give_up: 2s}"
    client = "mix: {slots.get: 1, labels.create: 1}, every: 5s, idempotency_keys: true"
    alone = scenario(network, client).replace(replications=3)
    plain = [[one.to_plain() for one in rs.run(alone, workers=workers).replications] for workers in (1, 2)]
    assert plain[0] == plain[1]
    assert plain[0][0]["network"]["ci"]["unanswered"] > 0
    assert len({str(replication["network"]) for replication in plain[0]}) == 3
    more = "  other: {kind: caller, account: acme, mix: {slots.get: 1}, every: 3s}\n"
    beside = rs.run(scenario(network, client, more).replace(replications=3)).replications
    assert [one.network["ci"] for one in beside] == [one["network"]["ci"] for one in plain[0]]


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ("{lost_requests: 0.6, lost_replies: 0.5}", "shares of all calls"),
        ("{loss: 0.1}", "loss"),
        ("{give_up: 0s}", "give_up"),
        ("{before: soon}", "before"),
    ],
)
def test_a_network_that_cannot_be_is_refused(network: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        scenario(network)


def test_the_shares_of_what_is_lost_are_as_declared() -> None:
    ways = Ways(Network(loss=0.3, lost_requests=0.1), 1, "ci")
    drawn = [ways.request(number) for number in range(20_000)]
    assert sum(not way.arrives for way in drawn) == pytest.approx(2_000, rel=0.1)
    assert sum(way.arrives and not way.answered for way in drawn) == pytest.approx(4_000, rel=0.1)
