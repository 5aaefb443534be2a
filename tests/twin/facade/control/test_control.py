"""The control API: every answer is checked against what its own OpenAPI document says of it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE, instant, iso
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.administration import LIMITS
from ranksim.core.service.calls import Answer, Attempt
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.control import worlds
from ranksim.twin.facade.control.document import control_document
from ranksim.twin.facade.control.routes import ROUTES
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin

START = instant("2026-03-04T10:00:00Z")

POLICY = Policy().replace(catalogue={"job_durations": {"crawl": "20m", "ai_scan": "5m"}})


@cache
def described() -> Any:
    """Return the document as it is served; it takes a while to make, so not while tests are collected."""
    return json.loads(json.dumps(control_document()))


def make(**options: Any) -> Twin:
    return Twin(
        options.pop("policy", POLICY), **{"clock": "manual", "start": START, "sender": Scripted()} | options
    )


class Panel:
    """A client of the control API, which checks every answer; `api` calls the service with the demo key."""

    def __init__(self, twin: Twin, client: httpx.AsyncClient) -> None:
        self.twin = twin
        self.client = client

    async def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        response = await self.client.request(method, f"/_ranksim{path}", **more)
        check(method, path, response)
        return response

    async def get(self, path: str, /, **query: Any) -> Any:
        return ok(await self.send("GET", path, params=query))

    async def post(self, path: str, /, **body: Any) -> Any:
        return ok(await self.send("POST", path, json=body))

    async def patch(self, path: str, /, **body: Any) -> Any:
        return ok(await self.send("PATCH", path, json=body))

    async def delete(self, path: str) -> Any:
        return ok(await self.send("DELETE", path))

    async def refused(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        response = await self.send(method, path, **more)
        assert response.status_code >= 400, response.text
        problem = response.json()
        return problem["status"], problem["detail"]

    async def api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        sent = {"authorization": f"Bearer {self.twin.keys['production']}"} | headers
        return await self.client.request(method, f"/v1{path}", json=body, headers=sent)

    async def made(self, path: str, /, **body: Any) -> Any:
        response = await self.api("POST", path, body)
        assert response.is_success, response.text
        return response.json()["data"]

    async def job(self, kind: str = "crawl") -> str:
        domain = await self.made("/domains", host="a.example")
        return str((await self.made("/jobs", kind=kind, domain_id=domain["id"]))["id"])

    async def endpoint(self) -> str:
        return str((await self.made("/webhooks", url="https://hooks.example/a"))["id"])


def ok(response: httpx.Response) -> Any:
    assert response.is_success, response.text
    return response.json()


def check(method: str, path: str, response: httpx.Response) -> None:
    """Check an answer against the document, and what all have in common."""
    headers = response.headers
    assert not any(name.startswith(("access-control", "ratelimit")) for name in headers)
    if response.is_success:
        template, operation = next(
            (template, operations[method.lower()])
            for template, operations in described()["paths"].items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), f"/_ranksim{path}")
            and method.lower() in operations
        )
        said = operation["responses"].get(str(response.status_code))
        assert said is not None, (template, response.status_code)
        schema = said["content"]["application/json"]["schema"]
        assert headers["content-type"] == "application/json"
    else:
        schema = described()["components"]["schemas"]["Problem"]
        assert headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == response.status_code
    from jsonschema import Draft202012Validator

    strict = {**schema, "components": described()["components"]}
    Draft202012Validator(strict, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(response.json())


@asynccontextmanager
async def panel(twin: Twin | None = None, **options: Any) -> AsyncIterator[Panel]:
    twin = twin or make()
    transport = httpx.ASGITransport(Facade(twin, **options))
    async with httpx.AsyncClient(transport=transport, base_url="http://twin") as client:
        yield Panel(twin, client)
    await twin.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


def test_the_address_that_is_printed_lists_what_there_is() -> None:
    async def story() -> None:
        async with panel() as control:
            for path in ("/_ranksim", "/_ranksim/"):
                listed = ok(await control.client.get(path))
                assert listed["GET /_ranksim/clock"] == "Read the clock"
                assert {"GET /_ranksim/events", "POST /_ranksim/trigger"} < listed.keys()

    run(story)


# The clock


def test_the_clock_is_read_and_set() -> None:
    async def story() -> None:
        async with panel() as control:
            clock = await control.get("/clock")
            assert clock == {
                "world_id": control.twin.world_id,
                "now": iso(START),
                "clock": "manual",
                "traffic_clock": "same",
                "traffic_now": iso(START),
                "signature_clock": "virtual",
                "next_due": None,
            }
            set_ = await control.patch("/clock", clock="scaled:1/1000000", signature_clock="wall")
            assert (set_["clock"], set_["traffic_clock"], set_["signature_clock"]) == (
                "scaled:1/1000000",
                "same",
                "wall",
            )
            await control.patch("/clock", clock="manual", traffic_clock="wall")
            clock = await control.get("/clock")
            assert clock["now"][:16] == iso(START)[:16]
            assert clock["traffic_now"] > clock["now"]

    run(story)


def test_time_is_advanced_by_to_and_next() -> None:
    async def story() -> None:
        async with panel() as control:
            job = await control.job()
            assert (await control.get("/clock"))["next_due"] == iso(START + 20 * MINUTE)
            first = await control.post("/clock/advance", by="5m")
            assert (first["settled"], first["now"], first["happened"]) == (True, iso(START + 5 * MINUTE), [])
            done = await control.post("/clock/advance", next=True)
            assert done["now"] == iso(START + 20 * MINUTE)
            assert [(one["what"], one["job_id"]) for one in done["happened"]] == [("job.done", job)]
            last = await control.post("/clock/advance", to=iso(START + DAY))
            assert last["now"] == last["target"] == iso(START + DAY)

    run(story)


def test_time_is_advanced_until_something_is_so() -> None:
    async def story() -> None:
        twin = make(sender=Scripted(lambda attempt: 500))
        async with panel(twin) as control:
            job = await control.job("ai_scan")
            done = await control.post("/clock/advance", until={"job": job})
            assert (done["met"], done["now"]) == (True, iso(START + 5 * MINUTE))
            endpoint = await control.endpoint()
            for _ in range(4):
                await control.made(f"/webhooks/{endpoint}/test")
            done = await control.post("/clock/advance", until={"endpoint": endpoint})
            assert done["met"]
            assert done["happened"][-1]["what"] == "endpoint.disabled"
            late = await control.job()
            done = await control.post("/clock/advance", until={"job": late}, by="1m")
            assert (done["met"], done["settled"]) == (False, True)
            month = await control.post("/clock/advance", until={"meter": "research_lookups"}, by="1h")
            assert month["met"] is False
            month = await control.post("/clock/advance", until={"meter": "research_lookups"})
            assert (month["met"], month["now"]) == (True, "2026-04-04T10:00:00Z")

    run(story)


def test_a_clock_that_runs_meanwhile_is_advanced_too() -> None:
    async def story() -> None:
        twin = make(clock="real", read_wall=count(START).__next__)
        async with panel(twin) as control:
            assert (await control.post("/clock/advance", next=True))["settled"]
            month = await control.post("/clock/advance", until={"meter": "research_lookups"}, by="0s")
            assert (month["settled"], month["met"]) == (True, False)
            month = await control.post("/clock/advance", until={"meter": "research_lookups"}, by="400d")
            assert month["met"]
            assert month["now"].startswith("2026-04-04T10:00:00.")

    run(story)


BAD_ADVANCES: list[tuple[dict[str, Any], str]] = [
    ({}, "body: give one of by, to, next and until"),
    ({"by": "1h", "to": "2026-03-05T00:00:00Z"}, "body: give one of by, to, next and until"),
    ({"by": 3600}, "body: by: write a duration such as '1h30m' or '250ms', found 3600"),
    ({"by": "-1h"}, "clock: expected a duration of 0 or more, since clocks go forward only"),
    ({"to": "2026-03-01T00:00:00Z"}, "clock: expected an instant that is not in the past"),
    ({"to": "yesterday"}, "body: to: 'yesterday' is not an ISO 8601 instant"),
    ({"bye": "1h"}, "body: bye: no such field; did you mean 'by'?"),
    ({"until": {}}, "body: until: give one of job, endpoint and meter"),
    ({"until": {"job": "a", "meter": "b"}}, "body: until: give one of job, endpoint and meter"),
    ({"until": {"job": "none"}}, "until.job: there is no job 'none'"),
    ({"until": {"endpoint": "none"}}, "until.endpoint: there is no webhook endpoint 'none'"),
    ({"until": {"meter": "none"}}, "until.meter: account 'acc_0000000001' has the meters "),
    (
        {"until": {"meter": "research_lookups", "account": "none"}},
        "until.account: there is no account 'none'",
    ),
    ({"until": {"job": "a", "account": "none"}}, "body: until: account goes with meter alone"),
    ({"by": "1h", "timeout": -1}, "body: timeout: expected at least 0.0, found -1"),
]


@pytest.mark.parametrize(("body", "detail"), BAD_ADVANCES)
def test_a_bad_advance_is_explained_and_moves_nothing(body: dict[str, Any], detail: str) -> None:
    async def story() -> None:
        async with panel() as control:
            status, said = await control.refused("POST", "/clock/advance", json=body)
            assert status == 422
            assert said.startswith(detail), said
            assert (await control.get("/clock"))["now"] == iso(START)

    run(story)


@pytest.mark.parametrize("body", [{"clock": "fast"}, {"clock": "scaled:0"}, {"traffic_clock": "none"}])
def test_a_bad_clock_is_refused(body: dict[str, Any]) -> None:
    async def story() -> None:
        async with panel() as control:
            assert (await control.refused("PATCH", "/clock", json=body))[0] == 422
            assert (await control.get("/clock"))["clock"] == "manual"

    run(story)


class Waiting(Scripted):
    """A sender whose receiver answers when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.answers = asyncio.Event(), asyncio.Event()

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        self.called.set()
        await self.answers.wait()
        return await super().send(attempt, timeout_s)


def test_an_advance_that_cannot_settle_says_so_and_can_be_resumed() -> None:
    async def story() -> None:
        sender = Waiting()
        async with panel(make(sender=sender)) as control:
            endpoint, _ = await control.endpoint(), await control.job()
            stuck = await control.post("/clock/advance", by="1h", timeout=0)
            assert (stuck["settled"], stuck["now"]) == (False, iso(START + 20 * MINUTE))
            assert [one["endpoint_id"] for one in stuck["waiting"]] == [endpoint]
            (delivery,) = (await control.get("/deliveries"))["data"]
            assert (delivery["state"], delivery["attempts_made"], delivery["next_attempt_at"]) == (
                "out",
                0,
                None,
            )
            sender.answers.set()
            done = await control.post("/clock/advance", to=stuck["target"])
            assert (done["settled"], done["now"]) == (True, iso(START + HOUR))

    run(story)


def test_while_time_moves_another_advance_conflicts_and_a_new_world_ends_it() -> None:
    async def story() -> None:
        sender = Waiting()
        async with panel(make(sender=sender)) as control:
            await control.endpoint()
            await control.job()
            moving = asyncio.create_task(control.send("POST", "/clock/advance", json={"by": "1h"}))
            await sender.called.wait()
            status, detail = await control.refused("POST", "/clock/advance", json={"by": "1h"})
            assert (status, detail) == (409, "clock: an advance is under way; wait until it has returned")
            assert (await control.get("/clock"))["now"] == iso(START + 20 * MINUTE)
            await control.post("/reset")
            sender.answers.set()
            assert (await moving).status_code == 409

    run(story)


# Worlds


def test_a_snapshot_is_gone_back_to() -> None:
    async def story() -> None:
        async with panel() as control:
            world = await control.get("/world")
            assert world["keys"] == control.twin.keys
            job = await control.job()
            saved = await control.post("/snapshots", name="before")
            assert (saved["name"], saved["now"]) == ("before", iso(START))
            await control.post("/clock/advance", by="1d")
            assert (await control.get(f"/jobs/{job}"))["status"] == "done"
            again = await control.post("/snapshots/before/restore")
            assert (again["now"], again["keys"]) == (iso(START), world["keys"])
            assert again["world_id"] != world["world_id"]
            assert (await control.get(f"/jobs/{job}"))["status"] == "running"
            assert (await control.get("/snapshots"))["data"] == [saved]
            assert await control.delete("/snapshots/before") == saved
            assert (await control.refused("POST", "/snapshots/before/restore"))[0] == 404

    run(story)


def test_a_fork_goes_on_and_leads_back() -> None:
    async def story() -> None:
        async with panel() as control:
            before = await control.get("/world")
            forked = await control.post("/fork", name="main")
            assert forked["world"]["world_id"] != before["world_id"]
            assert forked["world"]["now"] == before["now"]
            await control.job()
            await control.post("/snapshots/main/restore")
            assert (await control.get("/jobs"))["data"] == []

    run(story)


def test_a_snapshot_goes_from_one_deployment_to_another() -> None:
    async def story() -> None:
        async with panel() as one, panel(make(seed=9)) as other:
            job = await one.job()
            await one.post("/snapshots", name="here")
            world = (await one.send("GET", "/snapshots/here")).content
            sent = {"content": world, "headers": {"content-type": "application/json"}}
            there = ok(await other.send("PUT", "/snapshots/there", **sent))
            assert there == {"name": "there", "now": iso(START), "bytes": len(world)}
            await other.post("/snapshots/there/restore")
            assert (await other.get(f"/jobs/{job}"))["status"] == "running"
            assert other.twin.keys == one.twin.keys
            assert (await other.get("/world"))["seed"] == one.twin.seed
            assert (await other.post("/reset"))["seed"] == 9

    run(story)


def test_a_snapshot_that_is_none_is_refused_and_changes_nothing() -> None:
    async def story() -> None:
        async with panel() as control, panel(make(policy=Policy())) as other:
            status, detail = await control.refused("PUT", "/snapshots/x", json={"a": 1})
            assert (status, detail) == (422, "body: expected the JSON that a snapshot of ranksim gave")
            ok(await control.send("PUT", "/snapshots/x", json={"ranksim_snapshot": 1, "now": 0}))
            world = control.twin.world_id
            assert (await control.refused("POST", "/snapshots/x/restore"))[0] == 422
            await other.post("/snapshots", name="y")
            theirs = (await other.send("GET", "/snapshots/y")).json()
            ok(await control.send("PUT", "/snapshots/y", json=theirs))
            status, detail = await control.refused("POST", "/snapshots/y/restore")
            assert (status, "taken under another policy" in detail) == (422, True)
            assert control.twin.world_id == world
            for bad in ("a b", "x" * 101):
                body = {"json": {"ranksim_snapshot": 1, "now": 0}}
                assert (await control.refused("PUT", f"/snapshots/{bad}", **body))[0] == 422
                assert (await control.refused("POST", "/snapshots", json={"name": bad}))[0] == 422

    run(story)


def test_snapshots_are_not_without_number(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with panel() as control:
            await control.post("/snapshots", name="a")
            await control.post("/snapshots", name="b")
            assert (await control.refused("POST", "/snapshots", json={"name": "c"}))[0] == 409
            await control.post("/snapshots", name="b")
            world = control.twin.world_id
            assert (await control.refused("POST", "/fork", json={"name": "c"}))[0] == 409
            assert control.twin.world_id == world

    monkeypatch.setattr(worlds, "MOST_SNAPSHOTS", 2)
    run(story)


def test_a_reset_begins_anew() -> None:
    async def story() -> None:
        async with panel() as control:
            before = await control.get("/world")
            await control.job()
            await control.patch("/limits", quota=False)
            await control.post("/faults", error_rate=1)
            await control.post("/clock/advance", by="1d")
            after = await control.post("/reset")
            assert after | {"world_id": ""} == before | {"world_id": ""}
            assert after["world_id"] != before["world_id"]
            assert (await control.get("/jobs"))["data"] == (await control.get("/faults"))["data"] == []
            assert all((await control.get("/limits")).values())
            assert (await control.get("/requests"))["count"] == 0

    run(story)


def test_the_state_is_shown() -> None:
    async def story() -> None:
        async with panel() as control:
            job = await control.job()
            state = await control.get("/state")
            assert state == json.loads(control.twin.service.save())
            assert list(state["jobs"]) == [job]

    run(story)


# Accounts


def test_an_account_is_opened_and_can_be_used() -> None:
    async def story() -> None:
        async with panel() as control:
            opened = await control.post(
                "/accounts", name="acme", plan="starter", environment="sandbox", add_ons={"brief_pack": 2}
            )
            assert (opened["plan"], opened["environment"], opened["status"]) == (
                "starter",
                "sandbox",
                "active",
            )
            (key,) = opened["keys"]
            assert key["key"].startswith("rk_test_")
            headers = {"authorization": f"Bearer {key['key']}"}
            shown = (await control.client.get("/sandbox/v1/account", headers=headers)).json()["data"]
            assert (shown["id"], shown["name"]) == (opened["id"], "acme")
            assert await control.get(f"/accounts/{opened['id']}") == opened
            names = [account["name"] for account in (await control.get("/accounts"))["data"]]
            assert names == ["demo", "demo", "acme"]
            bare = await control.post("/accounts", name="bare", key=None, anchor="2026-01-31T00:00:00Z")
            assert (bare["keys"], bare["plan"]) == ([], "pro")
            assert bare["billing_anchor"] == "2026-01-31T00:00:00Z"

    run(story)


def test_an_account_changes_all_or_nothing() -> None:
    async def story() -> None:
        async with panel() as control:
            account = (await control.get("/accounts"))["data"][0]
            path = f"/accounts/{account['id']}"
            changed = await control.patch(path, plan="starter", status="past_due", add_ons={"brief_pack": 3})
            assert changed == account | {
                "plan": "starter",
                "status": "past_due",
                "add_ons": {"brief_pack": 3},
            }
            for bad in (
                {"plan": "gold"},
                {"status": "late"},
                {"add_ons": {"x": 1}},
                {"add_ons": {"brief_pack": -1}},
            ):
                body = {"plan": "pro", "status": "active", "add_ons": {"brief_pack": 0}} | bad
                status, detail = await control.refused("PATCH", path, json=body)
                assert (status, next(iter(bad)) in detail) == (422, True)
                assert await control.get(path) == changed
            assert (await control.refused("GET", "/accounts/none"))[0] == 404
            assert (await control.refused("PATCH", "/accounts/none", json={"plan": "pro"}))[0] == 404
            assert (await control.refused("POST", "/accounts", json={"name": "x", "plan": "gold"}))[0] == 422

    run(story)


def test_keys_are_issued_reset_and_withdrawn() -> None:
    async def story() -> None:
        async with panel() as control:
            account = (await control.get("/accounts"))["data"][0]["id"]
            domain = (await control.made("/domains", host="a.example"))["id"]
            key = await control.post("/keys", account_id=account, name="narrow", domain_id=domain)
            new = await control.post(f"/keys/{key['key']}/reset")
            assert new | {"key": key["key"]} == key
            listed = (await control.get("/keys", account_id=account))["data"]
            assert [(one["name"], one["withdrawn"]) for one in listed] == [
                ("demo", False),
                ("narrow", True),
                ("narrow", False),
            ]
            assert len((await control.get("/keys"))["data"]) == 4
            statuses = [
                (await control.client.get("/v1/domains", headers={"authorization": f"Bearer {one['key']}"}))
                for one in (key, new)
            ]
            assert [response.status_code for response in statuses] == [401, 200]
            assert (await control.delete(f"/keys/{new['key']}"))["withdrawn"]
            for method, path in (("DELETE", f"/keys/{new['key']}"), ("POST", "/keys/none/reset")):
                assert (await control.refused(method, path))[0] == 404
            assert (await control.refused("POST", "/keys", json={"account_id": "none"}))[0] == 404
            wrong = {"account_id": account, "domain_id": "none"}
            assert (await control.refused("POST", "/keys", json=wrong))[0] == 422

    run(story)


def test_plans_are_listed() -> None:
    async def story() -> None:
        async with panel() as control:
            plans = await control.get("/plans")
            assert list(plans["plans"]) == list(POLICY.catalogue.plans)
            assert plans["plans"]["pro"]["slot_limit"] == POLICY.catalogue.plans["pro"].slot_limit
            assert list(plans["add_ons"]) == list(POLICY.catalogue.add_ons)

    run(story)


# Limits


def test_limits_are_switched_off_and_on() -> None:
    async def story() -> None:
        async with panel() as control:
            assert await control.get("/limits") == dict.fromkeys(LIMITS, True)
            domain = (await control.made("/domains", host="a.example"))["id"]
            body = {"kind": "crawl", "domain_id": domain}
            assert (await control.api("POST", "/jobs", body)).status_code == 202
            assert (await control.api("POST", "/jobs", body)).json()["code"] == "cooldown_active"
            off = await control.patch("/limits", cooldown=False, quota=False)
            assert [limit for limit, on in off.items() if not on] == ["quota", "cooldown"]
            assert (await control.api("POST", "/jobs", body)).status_code == 202
            await control.patch("/limits", rate=False)
            for _ in range(30):
                assert (await control.api("POST", "/jobs", body)).status_code == 202
            on = await control.patch("/limits", cooldown=True)
            assert [limit for limit, on in on.items() if not on] == ["rate", "quota"]
            assert (await control.api("POST", "/jobs", body)).json()["code"] == "cooldown_active"
            assert (await control.refused("PATCH", "/limits", json={"speed": False}))[0] == 422

    run(story)


# Jobs and deliveries


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"outcome": "done"}, ("done", None, None)),
        ({"outcome": "done", "cost": "0.25 USD"}, ("done", None, "0.25 USD")),
        ({"outcome": "failed", "error": "no robots"}, ("failed", "no robots", "0.00 USD")),
    ],
)
def test_a_job_ends_as_it_is_told(body: dict[str, Any], expected: tuple[Any, ...]) -> None:
    async def story() -> None:
        async with panel() as control:
            job = await control.job()
            assert (await control.get("/jobs", status="running", kind="crawl"))["data"][0]["id"] == job
            shown = await control.post(f"/jobs/{job}/finish", **body)
            status, error, cost = expected
            assert (shown["status"], shown["error_detail"]) == (status, error)
            assert shown["cost"] == (cost or shown["estimate"])
            assert shown["finished_at"] == iso(START)
            assert (await control.get("/jobs", status="running"))["data"] == []
            assert (await control.refused("POST", f"/jobs/{job}/finish", json=body))[0] == 409
            assert (await control.refused("POST", "/jobs/none/finish", json=body))[0] == 404
            wrong = {"outcome": "joined"}
            assert (await control.refused("POST", f"/jobs/{job}/finish", json=wrong))[0] == 422

    run(story)


def test_deliveries_tell_when_they_are_tried_again() -> None:
    async def story() -> None:
        twin = make(sender=Scripted(lambda attempt: 503))
        async with panel(twin) as control:
            endpoint, job = await control.endpoint(), await control.job()
            await control.post(f"/jobs/{job}/finish", outcome="failed", error="x")
            await control.post("/clock/advance", by="2m")
            (delivery,) = (await control.get("/deliveries", endpoint_id=endpoint))["data"]
            assert (delivery["state"], delivery["attempts_made"], delivery["next_attempt"]) == (
                "waiting",
                2,
                3,
            )
            assert delivery["next_attempt_at"] == iso(START + 6 * MINUTE)
            records = (await control.get("/attempts", event_id=delivery["event_id"]))["data"]
            assert [(one["attempt"], one["status_code"]) for one in records] == [(2, 503), (1, 503)]
            assert records[0]["next_attempt_at"] == delivery["next_attempt_at"]
            assert (await control.get("/deliveries", endpoint_id="none"))["data"] == []
            assert (await control.get("/attempts", account_id="none"))["data"] == []
            assert len((await control.get("/attempts", limit=1))["data"]) == 1

    run(story)


def test_a_delivery_is_paused_with_its_endpoint() -> None:
    async def story() -> None:
        policy = POLICY.replace(assumptions={"on_disable": "pause"})
        async with panel(make(policy=policy, sender=Scripted(lambda attempt: 503))) as control:
            endpoint = await control.endpoint()
            await control.made(f"/webhooks/{endpoint}/test")
            await control.post("/clock/advance", by="0s")
            assert (await control.api("PATCH", f"/webhooks/{endpoint}", {"enabled": False})).is_success
            (delivery,) = (await control.get("/deliveries"))["data"]
            assert (delivery["state"], delivery["next_attempt_at"]) == ("paused", None)

    run(story)


# Requests


def test_requests_are_searched() -> None:
    async def story() -> None:
        async with panel() as control:
            job = await control.job()
            await control.api("GET", f"/jobs/crawl/{job}")
            await control.api("GET", "/jobs/crawl/none")
            await control.client.get("/v1/domains", headers={"authorization": "Bearer wrong"})
            for query, expected in (
                ({}, [5, 4, 3, 2, 1]),
                ({"operation": "jobs.*"}, [4, 3, 2]),
                ({"operation": "jobs.get", "status": 404}, [4]),
                ({"path": "/v1/jobs/crawl/*"}, [4, 3]),
                ({"method": "POST"}, [2, 1]),
                ({"key": "wrong"}, [5]),
                ({"environment": "sandbox"}, []),
                ({"limit": 1}, [5]),
            ):
                found = await control.get("/requests", **query)
                assert [one["id"] for one in found["data"]] == expected, query
                assert found["count"] == (5 if "limit" in query else len(expected))
            one = await control.get("/requests/1")
            assert (one["operations"], one["status"], one["body"]) == (
                ["domains.create"],
                201,
                {"host": "a.example"},
            )
            assert one["response"]["data"]["host"] == "a.example"
            assert one["response_headers"]["ratelimit-limit"] == "120"
            assert (await control.refused("GET", "/requests/6"))[0] == 404
            assert (await control.refused("GET", "/requests/count"))[0] == 404
            assert (await control.refused("GET", "/requests?stat=1"))[1].startswith(
                "query: stat: no such field"
            )
            assert await control.delete("/requests") == {"count": 5}
            assert (await control.get("/requests"))["data"] == []

    run(story)


def test_requests_are_verified_and_misses_explained() -> None:
    async def story() -> None:
        async with panel() as control:
            await control.job()
            expected = {"operation": "jobs.create", "body": {"kind": "rank_run"}, "status": 202}
            verdict = await control.post("/requests/verify", expected=expected)
            assert (verdict["verified"], verdict["count"]) == (False, 0)
            near = verdict["near_misses"][0]
            assert near["request"]["id"] == 2
            assert near["differences"] == [{"field": "body.kind", "expected": "rank_run", "found": "crawl"}]
            assert "body.kind: expected 'rank_run', found 'crawl'" in verdict["message"]
            assert (await control.post("/requests/verify", expected=expected, times=0))["verified"]
            both = {"times": 1, "at_most": 2}
            assert (await control.refused("POST", "/requests/verify", json=both))[0] == 422
            never = {"expected": expected, "at_least": 5, "at_most": 2}
            status, detail = await control.refused("POST", "/requests/verify", json=never)
            assert (status, detail) == (422, "body: at_least is more than at_most")

    run(story)


def test_without_a_journal_there_are_no_requests() -> None:
    async def story() -> None:
        twin = make()
        twin.requests = None
        async with panel(twin) as control:
            await control.job()
            assert (await control.refused("GET", "/requests"))[0] == 404

    run(story)


# Form


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "detail"),
    [
        ("GET", "//", {}, 404, "There is nothing here"),
        ("GET", "/nothing", {}, 404, "There is nothing here"),
        ("GET", "/accounts/", {}, 404, "There is nothing here"),
        ("PUT", "/clock", {}, 405, "This path takes GET, PATCH."),
        ("OPTIONS", "/clock", {}, 405, "This path takes GET, PATCH."),
        ("POST", "/events", {}, 405, "This path takes GET."),
        ("POST", "/fork", {"content": b"{"}, 400, "The body is not JSON in UTF-8"),
        ("POST", "/fork", {"content": b"[]"}, 400, "Malformed request. Send a JSON object"),
        ("POST", "/fork", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "Unsupported"),
        ("POST", "/fork", {"content": b" " * 1_100_000}, 413, "The body is larger than 1048576 bytes."),
        ("POST", "/fork", {}, 422, "body: name: is missing; add it"),
        ("POST", "/fork", {"json": {"name": 1}}, 422, "body: name: expected text, found 1"),
        ("GET", "/jobs?status=late", {}, 422, "query: status: expected one of queued, running, done, failed"),
        ("GET", "/jobs?limit=0", {}, 422, "query: limit: expected at least 1"),
        ("GET", "/events?after=-1", {}, 422, "query: after: expected at least 0"),
        ("GET", "/clock", {"headers": {"origin": "https://evil.example"}}, 403, "The control API is not for"),
        ("POST", "/reset", {"headers": {"origin": "null"}}, 403, "The control API is not for"),
        ("GET", "/clock", {"headers": {"origin": "http://["}}, 403, "The control API is not for"),
        ("GET", "/requests/" + "9" * 5_000, {}, 404, "request: there is none with the number"),
        ("PUT", "/snapshots/x", {"json": {"ranksim_snapshot": 1, "now": 10**30}}, 422, "body: expected"),
        ("PUT", "/snapshots/x", {"json": {"ranksim_snapshot": 1, "now": -(10**17)}}, 422, "body: expected"),
    ],
)
def test_a_bad_request_gets_a_clear_problem(
    method: str, path: str, more: dict[str, Any], status: int, detail: str
) -> None:
    async def story() -> None:
        async with panel() as control:
            headers = {"content-type": "application/json"} | more.pop("headers", {})
            said = await control.refused(method, path, **more, headers=headers)
            assert (said[0], said[1][: len(detail)]) == (status, detail)

    run(story)


def test_pages_of_the_same_origin_may_ask() -> None:
    async def story() -> None:
        async with panel() as control:
            ok(await control.send("GET", "/clock", headers={"origin": "http://twin"}))

    run(story)


def test_a_failure_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with panel() as control:
            monkeypatch.setattr(Twin, "reset", lambda self: 1 // 0)
            assert (await control.refused("POST", "/reset"))[0] == 500

    run(story)


def test_a_head_has_no_body() -> None:
    async def story() -> None:
        async with panel() as control:
            for path in ("/clock", "/openapi.json"):
                response = await control.client.head(f"/_ranksim{path}")
                assert (response.status_code, response.content) == (200, b"")

    run(story)


def test_a_token_is_wanted_where_there_is_one() -> None:
    async def story() -> None:
        async with panel(token="secret") as control:
            for sent in ({}, {"authorization": "Bearer wrong"}):
                assert (await control.refused("GET", "/clock", headers=sent))[0] == 401
            ok(await control.send("GET", "/clock", headers={"authorization": "Bearer secret"}))

    run(story)


# The document


def test_the_document_is_served_valid_and_complete() -> None:
    import openapi_spec_validator  # loads slowly

    async def story() -> None:
        async with panel() as control:
            served = (await control.client.get("/_ranksim/openapi.json")).json()
            assert served == described()
        openapi_spec_validator.validate(described())
        paths = described()["paths"]
        said = {(method.upper(), path) for path, methods in paths.items() for method in methods}
        assert said == {(one.method, f"/_ranksim{one.path}") for one in ROUTES} | {
            ("GET", "/_ranksim/events")
        }
        operations = [operation for methods in paths.values() for operation in methods.values()]
        assert len({operation["operationId"] for operation in operations}) == len(operations)
        required = {
            one["operationId"]: one["requestBody"]["required"] for one in operations if "requestBody" in one
        }
        assert [name for name, needed in required.items() if not needed] == [
            "set_clock",
            "change_account",
            "set_limits",
            "add_faults",
            "verify_requests",
        ]
        parts = described()["components"]["schemas"]
        asked = {name: part for name, part in parts.items() if name.endswith("Body")}
        assert len(asked) > 5
        assert [name for name, part in asked.items() if "default'" in str(part["properties"])] == []
        tags = {tag["name"] for tag in described()["tags"]}
        assert all(set(operation["tags"]) <= tags for operation in operations)
        assert tags == {tag for operation in operations for tag in operation["tags"]}

    run(story)


# Over a restart


def test_what_was_controlled_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        file = tmp_path / "state.db"
        twin = make()
        kept = attach(twin, file)
        async with panel(twin) as control:
            account = await control.post("/accounts", name="acme")
            await control.post(f"/keys/{account['keys'][0]['key']}/reset")
            await control.patch(f"/accounts/{account['id']}", status="past_due")
            await control.patch("/limits", slots=False)
            job = await control.job()
            await control.post(f"/jobs/{job}/finish", outcome="failed")
            await control.post("/clock/advance", by="1h")
            before = await control.get("/state")
        kept.close()
        twin = make()
        kept = attach(twin, file)
        async with panel(twin) as control:
            assert await control.get("/state") == before
            assert (await control.get("/clock"))["now"] == iso(START + HOUR)
        kept.close()

    run(story)


def test_a_world_has_a_usual_plan() -> None:
    assert make().plan == "pro"
    assert make(plan="starter").plan == "starter"
    with pytest.raises(BadInput, match="plan: expected one of"):
        make(plan="gold")
