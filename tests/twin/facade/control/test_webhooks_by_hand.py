"""Webhook events triggered and sent again: over the control API, from the command line, across a restart."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.testing import Receiver, Server, World
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted

from .test_control import make, panel


def came(receiver: Receiver) -> list[tuple[str, str, int]]:
    return [(one.event_type, one.event_id, one.attempt) for one in receiver.requests]


@pytest.fixture
def world() -> Any:
    with World(start="2026-03-04T10:00:00Z") as world:
        yield world


def test_an_event_is_triggered_for_those_who_take_it_and_its_job_can_be_read(world: World) -> None:
    all_, failed = world.receiver(200), world.receiver(200)
    world.subscribe(all_)
    endpoint = world.subscribe(failed, event_types=["job.failed"])
    usage = world.client().get("/v1/account/usage").json()["data"]
    (done,) = world.deliveries.trigger("job.completed")
    assert len(world.deliveries.trigger("job.failed")) == 2
    assert [one[0] for one in came(all_)] == ["job.completed", "job.failed"]
    assert [one[0] for one in came(failed)] == ["job.failed"]
    assert [one["endpoint_id"] for one in world.deliveries.attempts(endpoint["id"])] == [endpoint["id"]]
    assert all(one.valid for one in all_.requests + failed.requests)
    told = failed.requests[0].json()["data"]["job"]
    job = world.client().get(f"/v1/jobs/crawl/{told['id']}").json()["data"]
    assert {name: job[name] for name in told} == told
    assert done["event_id"] == all_.requests[0].event_id
    assert world.client().get("/v1/account/usage").json()["data"] == usage
    domain = {"kind": "crawl", "domain_id": told["domain_id"]}
    assert world.client().post("/v1/jobs", json=domain).status_code == 202  # no cooldown began


def test_a_test_event_goes_to_every_enabled_endpoint(world: World) -> None:
    one, two = world.receiver(200), world.receiver(200)
    world.subscribe(one, event_types=["job.failed"])
    off = world.subscribe(two)["id"]
    world.client().patch(f"/v1/webhooks/{off}", json={"enabled": False})
    assert len(world.deliveries.trigger("webhook.test")) == 1
    assert ([name for name, _, _ in came(one)], came(two)) == (["webhook.test"], [])


def test_an_event_of_one_domain_goes_to_the_endpoints_of_that_domain(world: World) -> None:
    hosts = [{"host": "a.example"}, {"host": "b.example"}]
    first, second = (world.client().post("/v1/domains", json=host).json()["data"]["id"] for host in hosts)
    receiver = world.receiver(200)
    world.subscribe(receiver, domain_id=second)
    world.deliveries.trigger("job.failed")
    assert receiver.requests[0].json()["data"]["job"]["domain_id"] == second
    with pytest.raises(ValueError, match=r"^event: no enabled endpoint of acc_\d+ takes job.failed; "):
        world.deliveries.trigger("job.failed", domain=first)


def test_an_event_is_sent_again_as_it_was_and_tried_again_as_any(world: World) -> None:
    receiver = world.receiver(200)
    world.subscribe(receiver)
    world.deliveries.trigger("job.failed")
    (attempt,) = world.deliveries.attempts()
    receiver.script(500, 200)
    delivery = world.deliveries.resend(attempt["id"])
    world.clock.advance("1m")
    event = delivery["event_id"]
    assert came(receiver) == [("job.failed", event, 1), ("job.failed", event, 1), ("job.failed", event, 2)]
    assert len({one.body for one in receiver.requests}) == 1
    assert all(one.valid for one in receiver.requests)
    assert len(world.deliveries.attempts(event=event)) == 3
    assert world.deliveries.unfinished() == []


def test_what_is_not_remembered_or_disabled_is_not_sent_again(world: World) -> None:
    receiver = world.receiver(200)
    endpoint = world.subscribe(receiver)["id"]
    world.deliveries.trigger("job.failed")
    (attempt,) = world.deliveries.attempts()
    world.client().patch(f"/v1/webhooks/{endpoint}", json={"enabled": False})
    with pytest.raises(ValueError, match=rf"^endpoint: {endpoint} is deleted or disabled; "):
        world.deliveries.resend(attempt["id"])
    world.client().patch(f"/v1/webhooks/{endpoint}", json={"enabled": True})
    world.restore(world.snapshot())
    with pytest.raises(ValueError, match=r"not remembered any more, .* `ranksim serve trigger job.failed`"):
        world.deliveries.resend(attempt["id"])
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/trigger", {"event": "job.fialed"}, 422, "event: no such event 'job.fialed'; did you mean 'job.f"),
        ("/trigger", {"event": "job.failed"}, 422, "event: no enabled endpoint of acc_0000000001 takes"),
        ("/trigger", {"event": "job.failed", "account_id": "acc_9"}, 422, "account: there is none with"),
        ("/trigger", {"event": "job.failed", "domain_id": "dom_9"}, 422, "domain: acc_0000000001 has none"),
        ("/attempts/att_9/resend", {}, 404, "attempt: there is none with the id 'att_9'"),
        ("/attempts/evt_9/resend", {}, 404, "attempt: there is none with the id 'evt_9'"),
        ("/attempts/nine/resend", {}, 404, "attempt: there is none with the id 'nine'"),
    ],
)
def test_mistakes_are_refused_in_a_sentence(path: str, body: Any, status: int, said: str) -> None:
    async def story() -> None:
        async with panel() as control:
            found = await control.refused("POST", path, json=body)
            assert found[0] == status
            assert found[1].startswith(said)

    asyncio.run(story())


def test_the_answers_are_as_the_document_says() -> None:
    async def story() -> None:
        async with panel() as control:
            await control.endpoint()
            (begun,) = (await control.post("/trigger", event="job.completed"))["data"]
            assert (begun["event_type"], begun["state"]) == ("job.completed", "out")
            await control.post("/clock/advance", by="0s")
            (attempt,) = (await control.get("/attempts"))["data"]
            again = await control.post(f"/attempts/{attempt['id']}/resend")
            assert (again["event_id"], again["next_attempt"]) == (begun["event_id"], 1)
            by_event = await control.post(f"/attempts/{begun['event_id']}/resend")
            assert by_event["event_id"] == begun["event_id"]
            assert by_event["id"] > again["id"]

    asyncio.run(story())


def test_a_restart_goes_on_from_what_was_triggered_and_sent_again(tmp_path: Path) -> None:
    async def story() -> bytes:
        twin = make(sender=Scripted())
        log = attach(twin, tmp_path / "state.db", every=1000)
        async with panel(twin) as control:
            await control.endpoint()
            await control.post("/trigger", event="job.failed")
            await control.post("/clock/advance", by="0s")
            (attempt,) = (await control.get("/attempts"))["data"]
            await control.post(f"/attempts/{attempt['id']}/resend")
            await control.post("/clock/advance", by="0s")
            saved = twin.service.save()
            await log.commit()
        log.close()
        return saved

    saved = asyncio.run(story())
    again = make()
    attach(again, tmp_path / "state.db").close()
    assert again.service.save() == saved


# From the command line


def spoken(*words: str, **variables: str) -> tuple[int, str]:
    said = CliRunner().invoke(app, words, env=variables)
    return said.exit_code, said.output


def test_commands_trigger_and_resend_at_a_running_deployment() -> None:
    with Server() as server:
        receiver = server.receiver(200)
        url = {"RANKSIM_URL": server.url}
        endpoint = server.subscribe(receiver, event_types=["job.failed"])["id"]
        token = ("--control-token", server.control_token)
        code, said = spoken("serve", "trigger", "job.failed", "--url", server.url, *token)
        server.clock.settle()
        (attempt,) = server.deliveries.attempts()
        assert (code, said) == (0, f"job.failed {attempt['event_id']} to {endpoint} {receiver.url}/hooks\n")
        code, again = spoken(
            "serve", "resend", attempt["id"], **url, RANKSIM_CONTROL_TOKEN=server.control_token
        )
        server.clock.settle()
        assert (code, again) == (0, said)
        assert len(receiver.requests) == 2
        code, said = spoken(
            "serve", "trigger", "job.fail", **url, RANKSIM_SERVE_CONTROL_TOKEN=server.control_token
        )
        assert code == 2
        assert said == (
            f"ranksim: {server.url}: answered 422: event: no such event 'job.fail'; did you mean "
            "'job.failed'?\n"
        )
        code, said = spoken("serve", "resend", "a/b", **url)
        assert code == 2
        assert said.startswith(f"ranksim: {server.url}: answered 401: Send the control token")


def test_commands_say_in_a_sentence_that_nothing_is_served_there() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        for words in (["serve", "trigger", "job.failed"], ["serve", "resend", "att_0000000001"]):
            code, said = spoken(*words, "--url", url)
            assert code == 2
            why = "cannot be reached ([Errno 111] Connection refused); expected the URL of a deployment"
            assert said == f"ranksim: {url}: {why}\n"
    code, said = spoken("serve", "trigger", "job.failed", "--url", "nowhere")
    assert (code, said.count("\n")) == (2, 1)
