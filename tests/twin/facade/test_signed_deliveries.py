"""Deliveries over a socket verify in stripe's own library, and what was changed on the way does not."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from ranksim.core.clock import MINUTE, instant
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.http_sender import HttpSender
from ranksim.twin.facade.twin import Twin
from ranksim.twin.receiver.receiver import Received, Receiver
from ranksim.twin.serving.listener import Listener

DELIVERIES = 5


def delivered(signature_clock: str) -> tuple[str, list[Received]]:
    """The secret of an endpoint, and what came to it: five events, each signed by that clock."""

    async def told() -> tuple[str, list[Received]]:
        twin = Twin(
            clock="manual",
            start=instant("2026-03-04T10:00:00Z"),
            sender=HttpSender(),
            signature_clock=signature_clock,
        )
        listener = await Listener(Facade(twin)).open()
        receiver = Receiver(200).start()
        try:
            auth = {"Authorization": f"Bearer {twin.keys['production']}"}
            async with httpx.AsyncClient(base_url=listener.url, headers=auth, trust_env=False) as client:
                made = (await client.post("/v1/webhooks", json={"url": receiver.url})).json()["data"]
                for _ in range(DELIVERIES):
                    await client.post(f"/v1/webhooks/{made['id']}/test")
                await twin.advance(by=MINUTE)
            return made["secret"], list(receiver.wait(DELIVERIES, 60))
        finally:
            receiver.stop()
            await listener.close()
            await twin.close()

    return asyncio.run(told())


def verdict(body: bytes, signature: str, secret: str, tolerance: int | None = 300) -> Any:
    import stripe

    try:
        return stripe.Webhook.construct_event(body, signature, secret, tolerance)["id"]
    except stripe.SignatureVerificationError:
        return None


def test_deliveries_verify_in_stripes_library_and_nothing_else_does() -> None:
    secret, came = delivered("wall")
    assert len(came) == DELIVERIES
    for one in came:
        assert verdict(one.body, one.signature, secret) == one.json()["id"]
    first, second = came[:2]
    assert first.signature != second.signature
    at, _, signed = first.signature.partition(",")
    forged = {
        "a body that was changed": (first.body.replace(b"true", b"false"), first.signature, secret),
        "a body with a blank more": (first.body + b" ", first.signature, secret),
        "another's signature": (first.body, second.signature, secret),
        "another time": (first.body, f"t={int(at[2:]) + 1},{signed}", secret),
        "no signature": (first.body, at, secret),
        "another secret": (first.body, first.signature, "whsec_other"),
    }
    for name, given in forged.items():
        assert verdict(*given) is None, name


@pytest.mark.parametrize(("age", "verifies"), [(0, True), (290, True), (310, False)])
def test_the_tolerance_is_of_the_signatures_time(age: int, verifies: bool) -> None:
    secret, came = delivered("wall")
    signed_at = int(came[0].signature.partition(",")[0][2:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: signed_at + age)
        found = verdict(came[0].body, came[0].signature, secret)
    assert (found is not None) == verifies


def test_a_clock_under_control_signs_its_own_time_unless_told_otherwise() -> None:
    secret, came = delivered("virtual")
    assert verdict(came[0].body, came[0].signature, secret) is None
    assert verdict(came[0].body, came[0].signature, secret, tolerance=None) is not None
