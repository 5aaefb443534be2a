"""A client as applications write one for the real service: nothing here knows of ranksim."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import stripe


class Refused(Exception):
    """The service said no, and would say it again."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem["detail"])
        self.code: str = problem["code"]


class Client:
    """Waits as long as it is asked to, repeats what may have been lost, and does nothing twice."""

    def __init__(self, http: httpx.Client, sleep: Callable[[float], object] = time.sleep) -> None:
        self.http, self.sleep = http, sleep

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Idempotency-Key": str(uuid.uuid4())} if method == "POST" else {}
        for attempt in range(5):
            wait = 2.0**attempt
            try:
                reply = self.http.request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                pass  # whether it was done nobody knows, so the key goes with it once more
            else:
                if reply.is_success:
                    return reply.json()
                again = reply.status_code >= 500 or reply.json()["code"] == "rate_limited"
                if not again:
                    raise Refused(reply.json())
                wait = float(reply.headers.get("Retry-After", wait))
            self.sleep(wait)
        raise TimeoutError(f"{method} {path}: no answer after 5 attempts")

    def each(self, path: str) -> Iterator[Any]:
        """All items of a list, page by page."""
        cursor = ""
        while True:
            page = self.call("GET", f"{path}?limit=100{cursor}")
            yield from page["data"]
            if not page["has_more"]:
                return
            cursor = f"&cursor={page['next_cursor']}"


def verified(body: bytes, signature: str, secret: str) -> bool:
    """Whether a webhook is from the service: it signs as Stripe does."""
    try:
        stripe.WebhookSignature.verify_header(body.decode(), signature, secret, tolerance=300)
    except stripe.SignatureVerificationError:
        return False
    return True
