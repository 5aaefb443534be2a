"""What is answered to fixed requests, as text: compared with what was recorded (`test_recorded`)."""

import json
import re
from dataclasses import replace
from hashlib import sha256
from typing import Any

import httpx

from ranksim.testing import Receiver, World
from ranksim.twin.facade.twin import Twin

RECEIVER = "https://receiver.test"

WORLD_ID = re.compile(r"world_[0-9a-f]{16}")

TWO_FIELDS = "{ a: account { id } b: slots { used } domains { nodes { id } } }"

WRONG = (
    ("GET", "/v1/nothing", {}),
    ("PATCH", "/v1/jobs", {}),
    ("POST", "/v1/domains", {"content": b'{"host": 1'}),
    ("POST", "/v1/domains", {"content": b"[]"}),
    ("POST", "/v1/domains", {"content": b'{"host": "a.example"}', "headers": {"content-type": "text/plain"}}),
    ("POST", "/v1/domains", {"json": {"host": "a.example"}, "headers": {"idempotency-key": "x" * 300}}),
    ("POST", "/v1/domains", {"content": b"x" * 1_048_577}),
    ("GET", "/v1/domains?limit=0&nothing=1", {}),
    ("GET", "/v1/domains", {"headers": {"authorization": "Bearer none"}}),
    ("GET", "/v1/domains", {"headers": {"authorization": "Basic none"}}),
    ("HEAD", "/v1/domains", {}),
    ("OPTIONS", "/v1/domains", {}),
    ("OPTIONS", "/graphql", {}),
    ("GET", "/graphql", {}),
    ("POST", "/graphql", {"json": {"query": "{ nothing }"}}),
    (
        "POST",
        "/graphql",
        {"json": {"query": TWO_FIELDS}},
    ),
    ("POST", "/graphql", {"json": {"query": "{ account {"}, "headers": {"accept": "application/json"}}),
    ("GET", "/sandbox/v1/account", {}),
    ("GET", "/livez", {}),
    ("GET", "/openapi.json", {}),
    ("GET", "/schema.graphql", {}),
    ("GET", "/docs", {}),
)
"""Requests that are no operation's, or are refused before it."""


def digest(text: str) -> str:
    """Tell one text from another."""
    return sha256(text.encode()).hexdigest()[:16]


def texts_of(response: httpx.Response) -> list[Any]:
    """Return all that an answer says, but for which world it was."""
    content = WORLD_ID.sub("world_id", response.content.decode("utf-8", "replace"))
    return [response.status_code, sorted(response.headers.multi_items()), content]


def texts_of_deliveries(receiver: Receiver) -> list[Any]:
    """Return what a receiver got, in an order of its own."""
    return sorted([one.path, sorted(one.headers.items()), one.body.decode()] for one in receiver.requests)


def answers(stage: Any) -> dict[str, str]:
    """Return what each sample call is answered, by name: over REST and GraphQL, once and replayed."""
    stage_world = re.sub(rb"https://(webhook2?)\.example/", rb"https://receiver.test/\1/", snapshot_of(stage))
    found = {}
    with World(seed=7, plan="pro", signature_clock="virtual", start=stage.now) as world:
        receiver = Receiver(200, clock=world.twin.now, tolerance=None)
        world.mount(RECEIVER, receiver)
        client = world.client(stage.key, timeout=600)
        for sample in stage.samples():
            if sample.operation == "webhooks.create" and not sample.code:
                sample = replace(sample, body=sample.body | {"url": f"{RECEIVER}/made"})
            rest = sample.in_rest()
            said: list[Any] = []
            for key in [None, "k"] if rest["method"] == "POST" else [None]:
                for request in (rest, {"method": "POST", "url": "/graphql", "json": sample.in_graphql()}):
                    world.restore(stage_world)
                    receiver.clear()
                    headers = {} if key is None else {"idempotency-key": key}
                    for _ in range(1 if key is None else 2):
                        said.append(texts_of(client.request(**request, headers=headers)))
                    if rest["method"] != "GET" and not sample.code:
                        world.clock.advance("1d")
                    said.append(texts_of_deliveries(receiver))
            found[sample.name] = json.dumps(said)
        for number, (method, url, more) in enumerate(WRONG):
            world.restore(stage_world)
            headers = {"authorization": f"Bearer {stage.key}"} | more.get("headers", {})
            response = client.request(method, url, **{**more, "headers": headers})
            found[f"{number}: {method} {url}"] = json.dumps(texts_of(response))
    return found


def snapshot_of(stage: Any) -> bytes:
    """Return the world of the sample calls."""
    twin = Twin(clock="manual", start=stage.now, empty=True)
    twin.service, twin.keys = stage.service.fork(), {"production": stage.key}
    return twin.snapshot()


def control() -> dict[str, str]:
    """Return what a story told to the control API is answered, step by step."""
    found: dict[str, str] = {}
    with World(seed=3, plan="pro", signature_clock="virtual", control_token="") as world:
        script = (500, "302:/moved", "timeout", 200)
        receiver = Receiver(*script, clock=world.twin.now, tolerance=None)
        world.mount(RECEIVER, receiver)
        client = world.client(timeout=600)
        ids: dict[str, str] = {"key": world.key}

        def ask(method: str, path: str, body: Any = None, keep: str = "", **more: Any) -> Any:
            response = client.request(method, path.format_map(ids), json=body, **more)
            found[f"{len(found)}: {method} {path}"] = json.dumps(texts_of(response))
            said = response.json() if response.content[:1] == b"{" else {}
            if keep:
                ids[keep] = said.get("data", said)["id"]
            return said

        def ctl(method: str, path: str, body: Any = None, keep: str = "", **more: Any) -> Any:
            return ask(method, "/_ranksim" + path, body, keep, **more)

        for path in (
            "/openapi.json",
            "/clock",
            "/world",
            "/plans",
            "/accounts",
            "/keys",
            "/limits",
            "/nothing",
        ):
            ctl("GET", path)
        ask("POST", "/v1/domains", {"host": "a.example"}, "domain")
        ask("POST", "/v1/webhooks", {"url": f"{RECEIVER}/hooks"}, "endpoint")
        ask("POST", "/v1/webhooks", {"url": "https://nobody.test/hooks"}, "silent")
        crawl = {"kind": "crawl", "domain_id": ids["domain"]}
        ask("POST", "/v1/jobs", crawl, "job")
        ask("POST", "/v1/jobs", crawl)
        ctl("POST", "/clock/advance", {"by": "1m"})
        ctl("POST", "/clock/advance", {"until": {"job": ids["job"]}, "by": "3d"})
        ctl("POST", "/snapshots", {"name": "first"})
        ctl("GET", "/snapshots")
        for rule in (
            {"operation": "jobs.*", "error": "internal_error", "times": 1},
            {"operation": "jobs.list", "latency": "10us", "error_rate": 0.5},
        ):
            ctl("POST", "/faults", rule)
        ask("POST", "/v1/jobs", {"kind": "rank_run", "domain_id": ids["domain"]})
        ask("POST", "/v1/jobs", {"kind": "rank_run", "domain_id": ids["domain"]}, "rank")
        for _ in range(4):
            ask("GET", "/v1/jobs")
        ctl("GET", "/faults")
        ctl("POST", "/jobs/{rank}/finish", {"outcome": "failed", "error": "blocked", "cost": "0.15 USD"})
        ctl("POST", "/jobs/{rank}/finish", {"outcome": "failed"})
        ctl("GET", "/jobs")
        ctl("GET", "/deliveries")
        ctl("POST", "/clock/advance", {"next": True})
        ctl("POST", "/clock/advance", {"until": {"endpoint": ids["silent"]}})
        for path in ("/attempts", "/deliveries", "/jobs/{job}", "/state/nothing", "/state"):
            ctl("GET", path)
        ctl("POST", "/accounts", {"name": "other", "plan": "starter", "key": "one"}, "account")
        ctl("PATCH", "/accounts/{account}", {"plan": "agency", "status": "past_due"})
        ctl("PATCH", "/accounts/{account}", {"plan": "none"})
        ctl("POST", "/keys", {"account_id": ids["account"], "name": "two"})
        ctl("POST", "/keys/{key}/reset")
        ctl("PATCH", "/limits", {"cooldown": False})
        ctl("PATCH", "/clock", {"clock": "manual", "traffic_clock": "same"})
        ctl("PATCH", "/clock", {"signature_clock": "none"})
        ctl("POST", "/requests/verify", {"expected": {"operation": "jobs.list"}, "at_least": 9})
        ctl("GET", "/requests?limit=50")
        ctl("GET", "/requests/3")
        ctl("POST", "/fork", {"name": "second"})
        ctl("POST", "/snapshots/first/restore")
        ctl("GET", "/snapshots/first")
        ctl("DELETE", "/snapshots/first")
        ctl("DELETE", "/faults")
        ctl("POST", "/clock/advance", {"by": "-1m"})
        ctl("POST", "/clock/advance", {"by": "2h"}, headers={"content-type": "text/plain"})
        ask("GET", "/metrics")
        events = [one.to_dict() | {"ms": 0} for one in world.twin.event_log]  # ms are the machine's
        shown = [WORLD_ID.sub("world_id", json.dumps(one)) for one in events]
        found["happenings"] = json.dumps(shown)
        found["deliveries"] = json.dumps(texts_of_deliveries(receiver))
        ctl("POST", "/reset")
        ctl("GET", "/state")
    return found
