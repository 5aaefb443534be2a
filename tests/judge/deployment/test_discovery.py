"""What exploring finds out, and that no answer of somebody else's program breaks it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksim.bridges.rehearsal import Rehearsal
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.callers.steps import Received, Send
from ranksim.core.callers.target import Target
from ranksim.core.errors import BadInput
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.deployment.discovery import KeyReach, declared, explore, irremovable, state

Answers = Callable[[Send], Received]


def run(program: Generator[Any, Any, Any], answers: Answers, most: int = 2_000) -> tuple[Any, list[Any]]:
    """Run a program against a function; gives what it returns and its steps."""
    steps: list[Any] = []
    answer: Any = None
    for _ in range(most):
        try:
            step = program.send(answer)
        except StopIteration as end:
            return end.value, steps
        steps.append(step)
        answer = answers(step) if isinstance(step, Send) else 0
    raise AssertionError(f"the program did not end within {most} steps")


def reply(status: int, body: Any = None, **headers: str) -> Received:
    return Received(status, body, headers, 0, 1)


SIMPLE = Target.simple("http://127.0.0.1:9", "rk_1")


def test_a_world_is_found_out() -> None:
    service, target = make_world(seed=4)
    reach = Rehearsal(service, target).alone(explore(target))
    assert reach.main == "main"
    assert {name: key.purpose for name, key in reach.keys.items()} == {
        name: key.purpose for name, key in target.keys.items()
    }
    assert all(key.usable for key in reach.keys.values())
    for name in ("main", "second", "other", "test", "late", "tight"):
        assert reach.keys[name].account == target.keys[name].account
    assert reach.keys["main"].account == reach.keys["second"].account
    assert set(reach.keys["scoped"].lacks) == {
        "account.get",
        "account.entitlements",
        "account.usage",
        "slots.get",
    }
    assert reach.lacks == {}
    assert reach.can("graphql")
    assert reach.can("slots.get")
    assert not reach.can("slots.get", "scoped")
    main = reach.keys["main"]
    assert main.room() == 400
    assert main.left("brief") == 40
    assert reach.keys["tight"].room() == 2
    assert reach.keys["tight"].left("brief") == 2
    assert reach.keys["late"].left("brief") == 0
    assert len(main.ids("domains.list")) == 2


def test_purposes_are_found_out_where_the_target_does_not_say() -> None:
    service, target = make_world(seed=4)
    keys = {name: key.model_copy(update={"purpose": "full", "domain_id": None, "account": ""})
            for name, key in target.keys.items()}  # fmt: skip
    target = target.model_copy(update={"keys": keys})
    reach = Rehearsal(service, target).alone(explore(target))
    found = {name: key.purpose for name, key in reach.keys.items()}
    assert found == {
        "main": "full",
        "second": "second",
        "scoped": "scoped",
        "other": "other_account",
        "test": "other_environment",
        "late": "past_due",
        "tight": "other_account",
    }
    assert reach.keys["scoped"].domain_id is not None
    assert reach.keys["scoped"].account == reach.keys["main"].account != ""


def named(target: Target, **accounts: str) -> Target:
    """A target that names the accounts of these keys, and no others."""
    keys = {name: key.model_copy(update={"account": accounts.get(name, "")})
            for name, key in target.keys.items()}  # fmt: skip
    return target.model_copy(update={"keys": keys})


def test_keys_of_one_account_have_the_one_name_that_the_target_gives_any_of_them() -> None:
    service, target = make_world(seed=4)
    target = named(target, main="acme", scoped="acme", other="shop")
    reach = Rehearsal(service, target).alone(explore(target))
    keys = declared(target, reach.keys)
    assert {name: keys[name].account for name in ("main", "second", "scoped", "other")} == {
        "main": "acme",
        "second": "acme",
        "scoped": "acme",
        "other": "shop",
    }
    assert keys["tight"].account == reach.keys["tight"].account_id


@pytest.mark.parametrize(
    "accounts", [{"main": "acme", "other": "acme"}, {"main": "acme", "second": "shop"}], ids=str
)
def test_a_target_that_names_accounts_falsely_is_refused(accounts: dict[str, str]) -> None:
    service, target = make_world(seed=4)
    target = named(target, **accounts)
    with pytest.raises(BadInput, match=r"^target: the keys \w+ and \w+ are of the accounts acme and"):
        Rehearsal(service, target).alone(explore(target))


ODD: dict[str, tuple[Received, bool, str]] = {
    "all is missing": (reply(404, {"code": "not_found"}), False, ""),
    "nothing is allowed": (reply(403), True, "403"),
    "the key is refused": (reply(401, {"code": "unauthorized"}), False, ""),
    "silence": (reply(0), False, ""),
    "a page of HTML": (reply(200, None), True, "200, and not what was expected"),
    "a bare list": (reply(200, []), True, "200, and not what was expected"),
    "data of another kind": (reply(200, {"data": "x"}), True, "200, and not what was expected"),
    "errors": (reply(500, {"oops": 1}), True, "500, and not what was expected"),
}


@pytest.mark.parametrize(("answer", "usable", "why"), ODD.values(), ids=ODD)
def test_odd_answers(answer: Received, usable: bool, why: str) -> None:
    reach, _ = run(explore(SIMPLE), lambda send: answer)
    key = reach.keys["main"]
    assert key.usable == usable
    assert bool(key.reason) != usable
    assert reach.main == ("main" if usable else "")
    if usable:
        assert set(reach.lacks.values()) == {why}
        assert not reach.can("account.usage")
    assert run(state(reach), lambda send: answer)[1] == []


def test_one_delete_of_what_nobody_has_tells_what_cannot_be_removed() -> None:
    def answer(send: Send) -> Received:
        assert (OPERATIONS[send.operation].method, send.path) == ("DELETE", {"id": "ranksim-none"})
        status = {"domains.delete": 405, "labels.delete": 403, "scans.delete": 501, "webhooks.delete": 410}
        return reply(status.get(send.operation, 404), {"code": "no"})

    kept, steps = run(irremovable("main"), answer)
    assert kept == {"domains.delete": "405 no", "labels.delete": "403 no", "scans.delete": "501 no"}
    assert len(steps) == 7
    assert run(irremovable("main"), lambda send: reply(0))[0] == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("data", "id", "metrics", "cost", "limit", "used", "code", "next_cursor", "status")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("status", [[], {}, ["past_due"], 1])
def test_a_status_of_the_account_that_is_no_text_is_no_status(status: Any) -> None:
    reach, _ = run(explore(SIMPLE), lambda send: reply(200, {"data": {"id": "a", "status": status}}))
    assert reach.keys["main"].purpose == "full"


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from((200, 201, 204, 302, 404, 429, 500)), JSON), min_size=1))
@settings(max_examples=100)
def test_no_answer_breaks_it(answers: list[tuple[int, Any]]) -> None:
    given = iter(answers * 2_000)

    def answer(send: Send) -> Received:
        return reply(*next(given))

    reach, _ = run(explore(SIMPLE), answer)
    key = reach.keys["main"]
    key.room(), key.left("brief"), key.ids("domains.list")
    run(state(reach), answer, 20_000)


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 10**400, -(10**400), True, "9", None])
def test_a_number_that_cannot_be_counted_with_is_not_known(number: Any) -> None:
    reads = {
        "slots.get": {"limit": number, "used": 1.5},
        "account.usage": {"metrics": [{"metric": "briefs", "limit": 5, "used": number}]},
    }
    key = KeyReach("main", "production", "full", usable=True, reads=reads)
    assert (key.room(), key.left("brief")) == (None, None)


def test_every_page_is_read_up_to_a_bound() -> None:
    endless = reply(200, {"data": [{"id": "a"}], "has_more": True, "next_cursor": "c"})
    reach, _ = run(explore(SIMPLE), lambda send: endless)
    _, steps = run(state(reach), lambda send: endless)
    walked = [step for step in steps if step.operation == "domains.list"]
    assert [step.query.get("cursor") for step in walked] == [None] + ["c"] * (len(walked) - 1)
    assert len(walked) == 25


def test_a_deployment_that_puts_off_for_ever_is_asked_once_a_key_and_named() -> None:
    late = reply(429, {"code": "rate_limited"}, **{"retry-after": "1000000000"})
    reach, steps = run(explore(SIMPLE), lambda send: late)
    assert [step.operation for step in steps if isinstance(step, Send)] == [
        "webhook_events.list",
        "domains.list",
    ]
    assert not reach.keys["main"].usable
    assert "429 with Retry-After 1000000000" in reach.keys["main"].reason


def test_what_is_put_off_for_ever_later_is_a_lack() -> None:
    late = reply(429, {"code": "rate_limited"}, **{"retry-after": "1000000000"})
    fine = reply(200, {"data": []})
    reach, _ = run(explore(SIMPLE), lambda send: late if send.operation == "scans.list" else fine)
    assert "Retry-After 1000000000" in reach.keys["main"].lacks["scans.list"]
