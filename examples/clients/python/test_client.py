"""The client against a fake: nine things that go wrong or run out. `pytest examples/clients/python`."""

from __future__ import annotations

import httpx
import pytest
from client import Client, Refused, verified

from ranksim.testing import World

CRAWL = {"kind": "crawl", "dry_run": True}
near = pytest.mark.ranksim(world="../near.yaml")


@pytest.fixture
def client(ranksim: World) -> Client:
    return Client(ranksim.client(), ranksim.clock.sleep)


@pytest.fixture
def domain(client: Client) -> str:
    return str(client.call("POST", "/v1/domains", {"host": "a.example"})["data"]["id"])


def test_a_full_rate_window_is_waited_for(ranksim: World, client: Client, domain: str) -> None:
    for _ in range(21):  # 20 a minute
        client.call("POST", "/v1/jobs", CRAWL | {"domain_id": domain})
    ranksim.requests.assert_made(operation="jobs.create", status=429, times=1)
    assert str(ranksim.clock) == "2026-03-02T09:01:00Z"


def test_a_gateway_that_fails_is_asked_again(ranksim: World, client: Client) -> None:
    ranksim.faults.add("account.get", status=502, body="html", times=2)
    assert client.call("GET", "/v1/account")["data"]["plan"] == "pro"
    ranksim.requests.assert_made(operation="account.get", times=3)


def test_a_lost_answer_does_nothing_twice(ranksim: World, client: Client) -> None:
    ranksim.faults.add("domains.create", drop_after_rate=1, times=1)
    client.call("POST", "/v1/domains", {"host": "a.example"})
    assert [domain["host"] for domain in client.each("/v1/domains")] == ["a.example"]


def test_who_answers_too_late_is_asked_again(ranksim: World, client: Client) -> None:
    ranksim.faults.add("account.get", latency="1h", times=1)
    client.http.timeout = httpx.Timeout(0.5)
    assert client.call("GET", "/v1/account")["data"]["plan"] == "pro"
    assert str(ranksim.clock) == "2026-03-02T09:00:01Z"  # it slept once


@near
def test_pages_are_read_to_the_end(client: Client) -> None:
    words = [keyword["id"] for keyword in client.each("/v1/keywords")]
    assert (len(words), len(set(words))) == (4990, 4990)


@near
def test_slots_run_out(client: Client) -> None:
    listed = next(client.each("/v1/keyword-lists"))["id"]
    body = {"list_id": listed, "keywords": [f"new {n}" for n in range(11)]}
    with pytest.raises(Refused) as refused:
        client.call("POST", "/v1/keywords", body)
    assert refused.value.code == "slot_limit_exceeded"


@near
def test_a_quota_runs_out_and_comes_back_with_the_week(ranksim: World, client: Client) -> None:
    brief = {"keyword_id": next(client.each("/v1/keywords"))["id"]}
    client.call("POST", "/v1/keyword-briefs", brief)
    with pytest.raises(Refused) as refused:
        client.call("POST", "/v1/keyword-briefs", brief)
    assert refused.value.code == "quota_exhausted"
    ranksim.clock.advance(meter="keyword_brief_refreshes")
    client.call("POST", "/v1/keyword-briefs", brief)


def test_a_webhook_is_verified(ranksim: World, client: Client, domain: str) -> None:
    receiver = ranksim.receiver(200)
    secret = ranksim.subscribe(receiver)["secret"]
    job = client.call("POST", "/v1/jobs", {"kind": "crawl", "domain_id": domain})["data"]["id"]
    ranksim.clock.advance(job=job)
    (came,) = receiver.requests
    assert came.json()["data"]["job"]["id"] == job
    assert verified(came.body, came.headers["service-signature"], secret)
    assert not verified(came.body + b" ", came.headers["service-signature"], secret)


def test_the_sandbox_is_a_world_apart(ranksim: World, client: Client, domain: str) -> None:
    sandbox = Client(ranksim.client(environment="sandbox"))
    assert list(sandbox.each("/v1/domains")) == []
