"""All state as data: saved, restored and forked whole; the same calls give the same bytes."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Answer, Attempt, Call, Task
from ranksim.core.service.service import Service
from ranksim.core.service.state import State

RICH = {
    "assumptions": {"window": "sliding_log", "retry_jitter_percent": 10, "graphql_cost": "separate"},
    "facts": {"rates": {"read": 50, "write": 40, "expensive": 20}},
    "catalogue": {
        "job_durations": {"ai_scan": {"uniform": {"low": "1m", "high": "10m"}}},
        "job_failure_rates": {"ai_scan": 500},
        "add_ons": {"briefs": {"metric": "keyword_brief_refreshes", "amount": 50, "price": "15 USD"}},
    },
}


def begin(open_desk: Any, seed: int = 1) -> Any:
    """Open a desk and bring every part of its state to life."""
    desk = open_desk(
        {"cost_ceiling": "100 USD"}, **RICH, seed=seed, words=["a", "b"], scan=True, pooled=["crawl"]
    )
    desk.set_add_on("briefs", 2)
    desk.service.waive(["subscription"], desk.now)
    desk.made("labels.create", {"domain_id": desk.domain, "name": "x"})
    desk.made("competitors.create", {"domain_id": desk.domain, "host": "rival.example"})
    for number in range(2):
        url = {"url": f"https://hooks.example/{number}"}
        desk.made("webhooks.create", url, idempotency_key=f"hook {number}")
    word = desk.call("keywords.list").body["data"][0]["id"]
    assert desk.call("keywords.delete", id=word).status == 204
    desk.must(desk.job())
    desk.must(desk.briefs("c", "d"))
    desk.must(desk.job("crawl", idempotency_key="in flight", written=False))
    desk.must(desk.job("ai_scan"))
    desk.call("domains.list", key="wrong", caller="192.0.2.1")
    desk.call("domains.list", surface="graphql")
    desk.wait(5 * MINUTE)
    for attempt in [task for task in desk.tasks if isinstance(task, Attempt)][:1]:
        desk.answer(attempt, Answer(500, duration=123_000))
    return desk


def go_on(desk: Any) -> list[Any]:
    """Live through two more days, and tell everything that could be seen."""
    seen: list[Any] = []
    desk.tasks = []

    def saw(reply: Any) -> None:
        seen.append((reply.status, reply.body, reply.headers, reply.outcome))

    for step in range(12):
        saw(desk.job("crawl", idempotency_key="in flight"))
        saw(desk.job("ai_scan"))
        saw(desk.job())
        saw(desk.keywords(f"new {step}"))
        saw(desk.call("domains.list", key="wrong", caller="192.0.2.1"))
        for read in ("webhook_deliveries.list", "account.usage", "slots.get", "positions.list"):
            saw(desk.call(read))
        waiting = answer_all(desk, step)
        seen += waiting
        due = desk.service.next_due()
        seen.append(due)
        desk.at(max(desk.now, min(due or desk.now, desk.now + HOUR)))
        desk.wait(10 * MINUTE * step)
    desk.service.written(desk.job("crawl", idempotency_key="last", written=False), desk.now)
    return seen


def answer_all(desk: Any, step: int) -> list[Task]:
    """Answer every attempt handed out, mostly badly."""
    tasks, desk.tasks = desk.tasks, []
    for task in tasks:
        if isinstance(task, Attempt):
            desk.answer(task, Answer(200 if step % 5 == 4 else 503, duration=step * 1_000))
    return tasks


def moved(desk: Any, service: Service) -> Any:
    """Give a desk with the same clock that calls another service."""
    other = copy.copy(desk)
    other.service, other.tasks = service, []
    return other


def parts(state: State) -> dict[str, Any]:
    return {part.name: getattr(state, part.name) for part in fields(state)}


def test_the_state_of_these_tests_has_something_everywhere(open_desk: Any) -> None:
    state = begin(open_desk).service.state
    assert [name for name, part in parts(state).items() if not part] == []
    assert any(endpoint.waiting for endpoint in state.endpoints.values())
    assert any(ring for key in state.keys.values() for ring in key.rings)
    assert any(entry.in_flight for entry in state.stored.values())


def test_a_restored_state_is_the_saved_one(open_desk: Any) -> None:
    desk = begin(open_desk)
    saved = desk.service.save()
    restored = Service.restore(saved, desk.policy, ["crawl"])
    assert restored.state == desk.service.state
    assert restored.save() == saved
    assert json.loads(saved) == json.loads(restored.save())
    assert restored.next_due() == desk.service.next_due()


@pytest.mark.parametrize(
    "copied",
    [
        lambda service: Service.restore(service.save(), service.policy, ["crawl"]),
        lambda service: service.fork(),
    ],
    ids=["restore", "fork"],
)
def test_a_copy_goes_on_as_the_original_does(open_desk: Any, copied: Callable[[Service], Service]) -> None:
    desk = begin(open_desk)
    other = moved(desk, copied(desk.service))
    first = go_on(desk)
    assert go_on(other) == first
    assert other.service.save() == desk.service.save()
    numbers = [task.number for task in first if isinstance(task, Attempt)]
    assert {2, 3} <= set(numbers)


def test_pending_retries_outlive_a_restart(open_desk: Any) -> None:
    desk = begin(open_desk)
    [waiting] = [due for due, _, what, _ in desk.service.state.agenda if what == "attempt"]
    restored = Service.restore(desk.service.save(), desk.policy, ["crawl"])
    early = [task for task in restored.advance(waiting - 1).tasks if isinstance(task, Attempt)]
    assert {attempt.number for attempt in early} <= {1}
    [retry] = restored.advance(waiting).tasks
    assert isinstance(retry, Attempt)
    assert (retry.number, retry.headers["Service-Delivery-Attempt"]) == (2, "2")


def test_a_fork_shares_nothing(open_desk: Any) -> None:
    desk = begin(open_desk)
    fork = desk.service.fork()
    shared = {id(one) for one in reachable(fork.state)} & {id(one) for one in reachable(desk.service.state)}
    assert shared == set()
    before = desk.service.save()
    go_on(moved(desk, fork))
    assert desk.service.save() == before != fork.save()


def reachable(one: Any) -> Iterator[Any]:
    """Walk everything in a state that can be changed."""
    if is_dataclass(one):
        yield one
        for part in fields(one):
            yield from reachable(getattr(one, part.name))
    elif isinstance(one, dict):
        yield one
        for value in one.values():
            yield from reachable(value)
    elif isinstance(one, list | tuple):
        if isinstance(one, list):
            yield one
        for value in one:
            yield from reachable(value)


def test_records_hold_ids_and_no_references(open_desk: Any) -> None:
    """Every mutable object of the state is reached by one path."""
    found = [id(one) for one in reachable(begin(open_desk).service.state)]
    assert len(found) == len(set(found))


def test_the_state_is_plain_data(open_desk: Any) -> None:
    def leaves(one: Any) -> Iterator[Any]:
        if is_dataclass(one):
            for part in fields(one):
                yield from leaves(getattr(one, part.name))
        elif isinstance(one, dict):
            for key, value in one.items():
                yield from (key, *leaves(value))
        elif isinstance(one, list | tuple):
            for value in one:
                yield from leaves(value)
        else:
            yield one

    kinds = {type(leaf) for leaf in leaves(begin(open_desk).service.state) if not isinstance(leaf, Enum)}
    assert kinds == {int, str, bool, type(None)}


def test_the_same_calls_give_the_same_bytes(open_desk: Any) -> None:
    first, second = begin(open_desk), begin(open_desk)
    assert go_on(first) == go_on(second)
    assert first.service.save() == second.service.save()


def test_another_seed_gives_other_secrets_and_durations(open_desk: Any) -> None:
    one, two = begin(open_desk, 1).service.state, begin(open_desk, 2).service.state
    for state in one, two:
        assert len({endpoint.secret for endpoint in state.endpoints.values()}) == 2
    assert {e.secret for e in one.endpoints.values()}.isdisjoint(e.secret for e in two.endpoints.values())
    assert set(one.keys).isdisjoint(two.keys)
    assert [j.due for j in one.jobs.values()] != [j.due for j in two.jobs.values()]


def test_when_a_driver_advances_makes_no_difference(open_desk: Any) -> None:
    """Waking at every instant that is due, or only with the next call, comes to the same."""
    lazy, eager = begin(open_desk), begin(open_desk)
    for desk in lazy, eager:
        desk.tasks = []
        until = desk.now + DAY
        while desk is eager and (due := desk.service.next_due()) is not None and due <= until:
            desk.at(due)
        desk.now = until
        desk.must(desk.call("jobs.list"))
    assert lazy.tasks == eager.tasks
    assert lazy.service.save() == eager.service.save()


@pytest.mark.parametrize(
    "saved",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b"{}",
        b'{"seed": 1}',
        b"not json",
        b"\xff\xfe",
        b'{"ranksim_trace": 1}',
    ],
)
def test_what_is_no_state_is_bad_input(saved: bytes) -> None:
    with pytest.raises(
        BadInput, match=r"^saved state: expected the JSON that a service of this version saved$"
    ):
        Service.restore(saved)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.pop("agenda"),
        lambda state: state.update(extra=1),
        lambda state: state.update(seed="1"),
        lambda state: state.update(serial=1.5),
        lambda state: state.update(accounts=[]),
        lambda state: next(iter(state["accounts"].values())).pop("books"),
        lambda state: state["agenda"].append([1, 2, "job"]),
    ],
)
def test_a_spoilt_state_is_bad_input(desk: Any, spoil: Callable[[dict[str, Any]], Any]) -> None:
    state = json.loads(desk.service.save())
    assert Service.restore(json.dumps(state, indent=1).encode(), desk.policy).state == desk.service.state
    spoil(state)
    with pytest.raises(BadInput, match=r"^saved state: expected"):
        Service.restore(json.dumps(state).encode(), desk.policy)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"name": "default"}, r"accounts\.acc_\d+\.plan: expected a plan of the policy, found 'desk'"),
        (
            {"plans": {"desk": {"quotas": {"seats": {"limit": 1, "period": "month"}}}}},
            r"accounts\.acc_\d+\.meters: expected 'seats', which plan 'desk' of the policy meters",
        ),
        (
            {"add_ons": {}},
            r"accounts\.acc_\d+\.add_ons: expected add-ons of the policy, found 'brief_pack'",
        ),
        (
            {"graphql_cost": "separate"},
            r"keys of acc_\d+: expected 6 rate windows \(U11\), found 3",
        ),
    ],
)
def test_a_state_belongs_to_its_policy(desk: Any, policy: dict[str, Any], message: str) -> None:
    desk.set_add_on("brief_pack", 1)
    catalogue = desk.policy.catalogue
    match policy:
        case {"plans": plans}:
            other = desk.policy.replace(catalogue={"plans": plans})
        case {"add_ons": _}:
            other = desk.policy.replace(catalogue=catalogue.model_copy(update={"add_ons": {}}))
        case {"graphql_cost": _}:
            other = desk.policy.replace(assumptions=policy)
        case _:
            other = Policy()
    with pytest.raises(BadInput, match=f"^saved state: {message}$"):
        Service.restore(desk.service.save(), other)


def test_a_new_service_can_be_saved() -> None:
    service = Service(seed=7)
    assert Service.restore(service.save()).state == State(seed=7)
    assert service.handle(Call("webhook_events.list"), 0).reply.status == 200
