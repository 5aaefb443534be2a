"""Rate windows as a table of the policy: the classes are one such table, and others are served by it."""

import random
from collections import Counter
from importlib.resources import files
from typing import Any

import pytest

from ranksim.core.clock import SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.rate_table import WindowTable
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.operations import TABLE
from ranksim.core.service.service import Service

START = instant("2026-03-04T10:00:00Z")
CLASSES = WindowTable.load(str(files("ranksim").joinpath("data/windows/rank-tracking.yaml"))).windows


def served(*windows: dict[str, Any], **policy: Any) -> tuple[Service, str, str]:
    """Return a service under windows, and two of its keys."""
    service = Service(Policy(windows=windows, **policy), seed=1)
    account = service.open_account("agency", "agency", START)
    return service, *(service.issue_key(account, name, START) for name in ("one", "two"))


def ask(service: Service, key: str, now: int, operation: str = "domains.list", **fields: Any) -> Reply:
    return service.handle(Call(operation, key, **fields), now).reply


def admitted(service: Service, key: str, now: int, calls: int, **fields: Any) -> int:
    return [ask(service, key, now, **fields).status for _ in range(calls)].count(200)


# The three classes


def drawn_calls(draws: random.Random, keys: list[str]) -> list[tuple[Call, int]]:
    """Draw calls of every kind and when they come: bursts that pass the limits, and pauses."""
    calls, now = [], START
    for _ in range(40):
        now += draws.choice([0, SECOND, 20 * SECOND, 61 * SECOND])
        operation = draws.choice(TABLE)
        key = draws.choice([*keys, "unknown", None])
        body = {"dry_run": True, "kind": "crawl"} if operation.method == "POST" else None
        for _ in range(draws.choice([1, 25, 130, 610])):
            now += draws.choice([0, 1000])
            call = Call(operation.name, key, {"id": "none", "kind": "crawl"}, body=body, caller="10.0.0.1")
            call.method = draws.choice([operation.method] * 8 + ["OPTIONS"])
            if draws.random() < 0.05:
                call.operation, call.method = "", draws.choice(["GET", "HEAD", "POST", "TRACE"])
            calls.append((call, now))
    return calls


@pytest.mark.fact("S102", "S103", "S104", "U8", "U87")
@pytest.mark.parametrize("algorithm", ["first_hit", "sliding_counter", "gcra"])
@pytest.mark.parametrize("seed", range(4))
def test_the_classes_as_a_table_answer_with_the_same_bytes(algorithm: str, seed: int) -> None:
    print(f"seed {seed}")
    assumptions = {"window": algorithm}
    by_class, *keys = served(assumptions=assumptions)
    by_table, *_ = served(*CLASSES, assumptions=assumptions)
    outcomes: Counter[int] = Counter()
    for call, now in drawn_calls(random.Random(seed), keys):
        expected, reply = by_class.handle(call, now).reply, by_table.handle(call, now).reply
        assert reply == expected, call
        outcomes[reply.status] += 1
    assert min(outcomes[429], outcomes[200]) > 0, outcomes


# Other tables


def test_each_window_counts_what_it_matches_and_one_refusal_charges_none() -> None:
    service, key, other = served(
        {"name": "all", "limit": "5/60s"},
        {"name": "lists", "match": "GET /v1/domains", "per": "key", "limit": "3/60s"},
    )
    assert admitted(service, key, START, 5) == 3
    assert admitted(service, other, START, 5) == 2
    reply = ask(service, other, START)
    assert (reply.status, reply.rate_class, reply.headers["RateLimit-Limit"]) == (429, "all", "5")
    assert ask(service, other, START + 60 * SECOND).headers["RateLimit-Remaining"] == "2"


def test_a_call_that_no_window_counts_has_no_headers() -> None:
    service, key, _ = served({"name": "jobs", "match": "POST /v1/jobs", "limit": "1/60s"})
    assert "RateLimit-Limit" not in ask(service, key, START).headers


def test_a_window_by_path_knows_each_path_with_its_ids() -> None:
    service, key, _ = served({"name": "one", "match": "GET /v1/domains/*", "per": "path", "limit": "1/60s"})
    of = {"operation": "domains.get"}
    assert ask(service, key, START, path={"id": "a"}, **of).status == 404
    assert ask(service, key, START, path={"id": "b"}, **of).status == 404
    assert ask(service, key, START, path={"id": "a"}, **of).status == 429


def test_a_call_takes_what_it_weighs() -> None:
    points = {
        "name": "points",
        "match": "POST *",
        "per": "key",
        "weigh": "request:/size/n",
        "limit": "10/60s",
    }
    service, key, _ = served(points)
    size = {"operation": "domains.create", "body": {"host": "a.example", "size": {"n": 7}}}
    assert ask(service, key, START, **size).headers["RateLimit-Remaining"] == "3"
    assert ask(service, key, START, **size).status == 429
    assert ask(service, key, START, operation="domains.create", body={}).headers["RateLimit-Remaining"] == "2"


def test_headers_tell_which_window_counts_for_whom_and_how_much() -> None:
    team = {
        "name": "team",
        "headers": {"X-Plan": "gold*"},
        "per": "header:X-Team",
        "weigh": "request-header:X-Cost",
        "limit": "10/60s",
    }
    service, key, _ = served(team)
    assert service.policy.windows[0].reads == {"x-plan", "x-team", "x-cost"}

    def left(**headers: str) -> str | None:
        stated = {f"x-{name}": text for name, text in headers.items()}
        return ask(service, key, START, headers=stated).headers.get("RateLimit-Remaining")

    assert (left(plan="gold", team="a"), left(plan="golden", team="a", cost="4")) == ("9", "5")
    assert (left(plan="gold", team="b", cost="11"), left(plan="gold", team="b")) == ("10", "9")
    assert (left(plan="gold"), left(plan="silver", team="a"), left()) == ("9", None, None)


def test_what_stands_in_the_body_tells_for_whom_a_call_is_counted() -> None:
    service, key, _ = served({"name": "host", "match": "POST *", "per": "request:/host", "limit": "5/60s"})
    bodies = [{"host": "a.example"}, {"host": "a.example"}, {"host": "b.example"}, {}, None]
    replies = [ask(service, key, START, "domains.create", body=body) for body in bodies]
    assert [reply.headers["RateLimit-Remaining"] for reply in replies] == ["4", "3", "4", "4", "3"]


def test_what_a_reply_weighs_is_charged_once_it_is_made() -> None:
    """A call is admitted while there is room for one, and takes what it says whether or not there is room."""
    lists = {
        "name": "lists",
        "match": "* */keyword-lists",
        "per": "key",
        "weigh": "response:/data/name",
        "limit": "60/60s",
    }
    service, key, _ = served(lists)
    domain = (ask(service, key, START, "domains.create", body={"host": "a.example"}).body or {})["data"]["id"]

    def named(name: str, after: int = 0) -> Reply:
        body = {"domain_id": domain, "name": name}
        return ask(service, key, START + after, "keyword_lists.create", body=body)

    replies = [named(name) for name in ("50", "5", "20", "1")]
    assert [reply.status for reply in replies] == [201, 201, 201, 429]
    assert [reply.headers["RateLimit-Remaining"] for reply in replies] == ["10", "5", "0", "0"]
    assert named("no number", 61 * SECOND).headers["RateLimit-Remaining"] == "59"
    assert named("7", 61 * SECOND).headers["RateLimit-Remaining"] == "52"


def test_a_bucket_has_a_burst_of_its_own() -> None:
    bucket = {"name": "bucket", "per": "key", "limit": "60/60s", "algorithm": "gcra", "burst": 5}
    service, key, _ = served(bucket)
    assert admitted(service, key, START, 9) == 5
    assert admitted(service, key, START + 3 * SECOND, 9) == 3


def test_a_rotating_window_begins_with_the_call_after_a_silence() -> None:
    service, key, _ = served({"name": "table", "per": "key", "limit": "4/10s", "algorithm": "rotating"})
    begin = START + 7 * SECOND
    assert admitted(service, key, begin, 9) == 4
    assert admitted(service, key, begin + 9 * SECOND, 9) == 0
    assert admitted(service, key, begin + 15 * SECOND, 9) == 2


def test_a_queue_says_how_long_a_reply_is_held_back() -> None:
    service, key, _ = served({"name": "queue", "per": "key", "limit": "3/3s", "algorithm": "queue"})
    replies = [ask(service, key, START + now) for now in (0, 0, 0, 0, SECOND, SECOND + SECOND // 2)]
    seconds = [(reply.status, reply.wait / SECOND) for reply in replies]
    assert seconds == [(200, 0), (200, 1), (200, 2), (429, 0), (200, 2), (429, 0)]
    assert ask(service, key, START + 2 * SECOND).wait == 2 * SECOND
    account = next(iter(service.state.accounts))
    assert service.handle(Call("account.get", surface="app", account=account), START).reply.wait == 0


def test_calls_at_once_hold_a_place_each_until_they_are_answered() -> None:
    places = {"name": "places", "per": "key", "limit": "2/3s", "algorithm": "concurrency"}
    service, key, _ = served(places)
    replies = [ask(service, key, START + now) for now in (0, SECOND, SECOND, 3 * SECOND, 3 * SECOND)]
    assert [(reply.status, reply.wait) for reply in replies] == [
        *[(200, 3 * SECOND)] * 2, (429, 0), (200, 3 * SECOND), (429, 0)
    ]  # fmt: skip
    assert (replies[1].headers["RateLimit-Remaining"], replies[2].headers["Retry-After"]) == ("0", "2")
    kept = Policy(assumptions={"refused_calls_count": True}, windows=[places])
    service = Service(kept, seed=1)
    key = service.issue_key(service.open_account("a", "agency", START), "k", START)
    assert [ask(service, key, START + now * SECOND).status for now in (0, 1, 2, 3)] == [200, 200, 429, 200]


def test_graphql_counts_as_its_calls_do_over_rest() -> None:
    service, key, _ = served({"name": "lists", "match": "GET /v1/domains", "per": "key", "limit": "1/60s"})
    calls = [Call(name, key, surface="graphql") for name in ("domains.list", "slots.get", "domains.list")]
    assert [reply.status for reply in service.handle_batch(calls, START).replies] == [200, 200, 200]
    assert service.handle_batch(calls[:1], START).replies[0].status == 429


def test_windows_are_switched_off_with_the_rate_limits() -> None:
    service, key, _ = served({"name": "lists", "per": "key", "limit": "1/60s"})
    service.waive(("rate",), START)
    assert admitted(service, key, START, 5) == 5


@pytest.mark.parametrize(
    ("window", "sentence"),
    [
        ({"per": "header:"}, "expected one of client, key, path, all, header:NAME or request"),
        ({"weigh": "tokens"}, "expected such as response:/usage/total_tokens"),
        ({"algorithm": "leaky"}, "algorithm"),
        ({"burst": 3}, "only algorithm gcra"),
        ({"weigh": "request:/n", "algorithm": "concurrency"}, "each call takes one place"),
        ({"limit": "5 apples"}, "expected calls and a time"),
        ({"name": "with space"}, "name"),
    ],
)
def test_what_a_policy_cannot_count_is_one_sentence(window: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Policy(windows=[{"name": "one", "limit": "1/60s", **window}])


def test_a_policy_with_windows_reads_back() -> None:
    policy = Policy(windows=CLASSES)
    assert Policy.parse(policy.dump()) == policy
