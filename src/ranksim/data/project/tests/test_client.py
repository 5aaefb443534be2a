"""Tests of a client against a fake deployment, in this process and in its own time: replace ours by yours."""

from ranksim.testing import World


def test_a_receiver_that_fails_three_times_gets_the_event_36_minutes_later() -> None:
    with World() as world:
        receiver = world.receiver(500, 500, 500, 200)
        world.subscribe(receiver, event_types=["job.failed"])
        client = world.client()  # an httpx.Client without a socket; a Server has a URL for any other client
        domain = client.post("/v1/domains", json={"host": "example.com"}).json()["data"]["id"]
        job = client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain}).json()["data"]["id"]
        world.jobs.fail(job, "robots.txt forbids the crawl")
        world.clock.advance("36m")
        assert [came.attempt for came in receiver.requests] == [1, 2, 3, 4]


def test_a_second_crawl_within_a_day_is_refused() -> None:
    with World() as world:
        client = world.client()
        domain = client.post("/v1/domains", json={"host": "example.com"}).json()["data"]["id"]
        wanted = {"kind": "crawl", "domain_id": domain}
        assert client.post("/v1/jobs", json=wanted).status_code == 202
        world.clock.advance("1h")
        refused = client.post("/v1/jobs", json=wanted)
        assert (refused.status_code, refused.json()["code"]) == (409, "cooldown_active")
