"""A webhook consumer, as one is written against the real service: nothing here knows of ranksim.

It verifies the signature of the raw body, takes each event once, and fetches the job that an event names.
"""

from __future__ import annotations

import json

import httpx
import stripe
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Consumer:
    """Keeps the jobs that failed. `api` is a client of the service, `secret` that of the endpoint."""

    def __init__(self, api: httpx.Client, secret: str) -> None:
        self.api = api
        self.secret = secret
        self.seen: set[str] = set()
        self.failed: dict[str, str] = {}
        self.app = Starlette(routes=[Route("/hooks", self.hook, methods=["POST"])])

    async def hook(self, request: Request) -> Response:
        """Take one delivery. Only a 2xx within ten seconds keeps the service from trying again."""
        body = (await request.body()).decode()
        try:
            stripe.WebhookSignature.verify_header(
                body, request.headers.get("Service-Signature", ""), self.secret, tolerance=300
            )
        except stripe.SignatureVerificationError:
            return Response(status_code=400)
        event = json.loads(body)
        if event["id"] not in self.seen and event["type"] == "job.failed":
            await run_in_threadpool(self.fetch, event["data"]["job"])
        self.seen.add(event["id"])
        return Response(status_code=204)

    def fetch(self, named: dict[str, str]) -> None:
        """An event holds identifiers: what became of the job is read from the API."""
        reply = self.api.get(f"/v1/jobs/{named['kind']}/{named['id']}")
        job = reply.raise_for_status().json()["data"]
        self.failed[job["id"]] = job["error_detail"]
