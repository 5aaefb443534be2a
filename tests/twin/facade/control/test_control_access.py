"""The control API belongs to who started the server: no key, webhook, page or other name reaches it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ranksim.core.clock import instant
from ranksim.core.service.calls import Attempt
from ranksim.testing import NeedsControl, Server, World, asgi_app, open_target
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.http_sender import HttpSender
from ranksim.twin.facade.twin import Twin
from ranksim.twin.receiver.receiver import Receiver
from ranksim.twin.serving.control_auth import names_of
from ranksim.twin.serving.listener import Listener

START = instant("2026-03-04T10:00:00Z")


def served(story: Callable[[Any, httpx.AsyncClient, Listener], Any], **options: Any) -> None:
    async def told() -> None:
        sender = HttpSender()
        twin = Twin(clock="manual", start=START, sender=sender, signature_clock="wall")
        listener = await Listener(Facade(twin, control_names=names_of("127.0.0.1"), **options)).open()
        sender.own_ports.add(listener.port)
        try:
            async with httpx.AsyncClient(base_url=listener.url, trust_env=False) as client:
                await story(twin, client, listener)
        finally:
            await listener.close()
            await twin.close()

    asyncio.run(told())


NAMES = {
    "the address": ("127.0.0.1:{port}", {}, 200),
    "another loopback name": ("localhost:{port}", {}, 200),
    "loopback of IPv6": ("[::1]:{port}", {}, 200),
    "another port, as a mapped one has": ("localhost:9", {}, 200),
    "its own origin": ("127.0.0.1:{port}", {"Origin": "http://127.0.0.1:{port}"}, 200),
    "another name": ("evil.example", {}, 403),
    "another name, of that origin": ("evil.example:{port}", {"Origin": "http://evil.example:{port}"}, 403),
    "a name that begins as loopback does": ("127.0.0.1.evil.example", {}, 403),
    "another address": ("192.0.2.1:{port}", {}, 403),
    "no name": ("", {}, 403),
    "another scheme": ("127.0.0.1:{port}", {"Origin": "https://127.0.0.1:{port}"}, 403),
    "another port's page": ("127.0.0.1:{port}", {"Origin": "http://127.0.0.1:1"}, 403),
    "a webhook": ("127.0.0.1:{port}", {"User-Agent": "ranksim-webhooks/1"}, 403),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", ["/keys", "/state", "/reset"])
def test_it_is_served_under_its_own_names_alone(name: str, path: str) -> None:
    host, more, status = NAMES[name]

    async def story(twin: Twin, client: httpx.AsyncClient, listener: Listener) -> None:
        headers = {key: text.format(port=listener.port) for key, text in {"Host": host, **more}.items()}
        method = "POST" if path == "/reset" else "GET"
        answer = await client.request(method, f"/_ranksim{path}", headers=headers)
        assert (answer.status_code == 403) == (status == 403), answer.text
        assert answer.is_success == (status == 200)
        assert twin.keys["production"] not in answer.text or status == 200

    served(story)


def test_a_name_can_be_added() -> None:
    async def story() -> None:
        twin = Twin(clock="manual", start=START)
        listener = await Listener(Facade(twin, control_names=names_of("127.0.0.1", ["Twin.Test"]))).open()
        async with httpx.AsyncClient(base_url=listener.url, trust_env=False) as client:
            answer = await client.get("/_ranksim/clock", headers={"Host": "twin.test:80"})
            assert answer.status_code == 200
        await listener.close()
        await twin.close()

    asyncio.run(story())


def test_the_token_goes_in_a_header_or_for_reading_in_the_address() -> None:
    async def story(twin: Twin, client: httpx.AsyncClient, listener: Listener) -> None:
        assert (await client.get("/_ranksim/clock")).status_code == 401
        assert (await client.get("/_ranksim/clock?token=no")).status_code == 401
        assert (await client.get("/_ranksim/clock?token=secret")).status_code == 200
        assert (await client.get("/_ranksim/jobs?token=secret&status=running")).status_code == 200
        assert (await client.post("/_ranksim/reset?token=secret")).status_code == 401
        key = {"Authorization": f"Bearer {twin.keys['production']}"}
        assert (await client.get("/_ranksim/clock?token=secret", headers=key)).status_code == 401
        sent = {"Authorization": "Bearer secret"}
        assert (await client.post("/_ranksim/reset", headers=sent)).is_success
        async with client.stream("GET", "/_ranksim/events?token=secret&after=0") as events:
            assert events.status_code == 200

    served(story, token="secret")


# Webhooks


def attempt(url: str) -> Attempt:
    return Attempt(1, 1, "whk_1", "acc_1", url, "evt_1", "job.completed", 1, {}, b"{}")


OWN = ["127.0.0.1", "localhost", "127.0.0.2", "0.0.0.0", "2130706433", "0x7f000001"]


@pytest.mark.parametrize("host", OWN)
@pytest.mark.parametrize("path", ["/_ranksim/reset", "/v1/domains"])
def test_no_webhook_goes_to_the_server_itself(host: str, path: str) -> None:
    async def story(twin: Twin, client: httpx.AsyncClient, listener: Listener) -> None:
        key = {"Authorization": f"Bearer {twin.keys['production']}"}
        await client.post("/v1/domains", json={"host": "example.com"}, headers=key)
        url = f"http://{host}:{listener.port}{path}"
        made = await client.post("/v1/webhooks", json={"url": url, "event_types": []}, headers=key)
        if made.status_code == 422:
            return  # no URL of the API
        endpoint = made.json()["data"]["id"]
        assert (await client.post(f"/v1/webhooks/{endpoint}/test", headers=key)).status_code == 202
        advanced = await client.post("/_ranksim/clock/advance", json={"by": "1m"})
        assert advanced.status_code == 200, advanced.text
        [first, *_] = (await client.get("/v1/webhook-deliveries", headers=key)).json()["data"]
        assert first["status_code"] is None
        assert "this deployment itself listens" in json.dumps(first)
        assert len((await client.get("/v1/domains", headers=key)).json()["data"]) == 1

    served(story)


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"])
def test_no_webhook_goes_to_a_link_local_address(host: str) -> None:
    async def story() -> None:
        sender = HttpSender()
        answer = await sender.send(attempt(f"http://{host}/latest/meta-data"), 5)
        assert (answer.status, "link-local" in (answer.error or "")) == (None, True)
        await sender.close()

    asyncio.run(story())


def test_receivers_on_this_machine_stay_possible_and_what_they_redirect_to_is_not_called() -> None:
    async def story(twin: Twin, client: httpx.AsyncClient, listener: Listener) -> None:
        key = {"Authorization": f"Bearer {twin.keys['production']}"}
        await client.post("/v1/domains", json={"host": "example.com"}, headers=key)
        receiver = Receiver(f"307:{listener.url}/_ranksim/reset").start()
        try:
            for host in ("127.0.0.1", "localhost"):
                url = receiver.url.replace("127.0.0.1", host)
                made = await client.post("/v1/webhooks", json={"url": url, "event_types": []}, headers=key)
                await client.post(f"/v1/webhooks/{made.json()['data']['id']}/test", headers=key)
            await client.post("/_ranksim/clock/advance", json={"by": "1m"})
            assert len(receiver.requests) >= 2
        finally:
            receiver.stop()
        assert len((await client.get("/v1/domains", headers=key)).json()["data"]) == 1

    served(story)


def test_any_receiver_allows_the_server_itself_but_not_its_control_api() -> None:
    async def story(twin: Twin, client: httpx.AsyncClient, listener: Listener) -> None:
        sender = HttpSender(receivers="any")
        sender.own_ports.add(listener.port)
        assert (await sender.send(attempt(f"{listener.url}/v1/domains"), 5)).status == 401
        assert (await sender.send(attempt(f"{listener.url}/_ranksim/reset"), 5)).status == 403
        await sender.close()

    served(story)


# Worlds of tests


@pytest.mark.parametrize("kind", [World, Server])
def test_a_world_has_a_token_and_gives_a_client_that_sends_it(kind: type[World]) -> None:
    with kind(plan="pro") as world, kind() as other:
        assert world.control_token != other.control_token
        assert world.client().get("/_ranksim/clock").status_code == 401
        control = world.control()
        assert control.get("/clock").json()["clock"] == "manual"
        assert control.post("/clock/advance", json={"by": "1m"}).status_code == 200
        fork = world.fork()
        assert fork.control().get("/clock").status_code == 200
        fork.close()
    with kind(control_token="fixed") as world:
        sent = {"Authorization": "Bearer fixed"}
        assert world.client(headers=sent).get("/_ranksim/clock").status_code == 200
    with kind(control_token="") as world:
        assert world.client().get("/_ranksim/clock").status_code == 200


def test_an_app_has_its_token() -> None:
    async def story() -> None:
        app = asgi_app(clock="manual")
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://anything.test") as client:
            assert (await client.get("/_ranksim/clock")).status_code == 401
            sent = {"Authorization": f"Bearer {app.token}"}
            assert (await client.get("/_ranksim/clock", headers=sent)).status_code == 200

    asyncio.run(story())


def test_a_real_deployment_has_no_control_api() -> None:
    with open_target("http://127.0.0.1:9", "key") as there, pytest.raises(NeedsControl):
        there.control()


def test_a_served_world_gets_no_webhook_of_its_own() -> None:
    with Server() as world:
        world.subscribe(f"{world.url}/_ranksim/reset", path="", event_types=[])
        client = world.client()
        [endpoint] = client.get("/v1/webhooks").json()["data"]
        client.post(f"/v1/webhooks/{endpoint['id']}/test")
        world.clock.advance("1m")
        [first, *_] = client.get("/v1/webhook-deliveries").json()["data"]
        assert "this deployment itself listens" in json.dumps(first)
