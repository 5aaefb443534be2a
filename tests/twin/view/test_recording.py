"""A trace as the page shows it: in order, up to an instant, and why each call was refused."""

import asyncio
import json
import re
import signal
from pathlib import Path

import httpx
import pytest

from ranksim.core.clock import SECOND
from ranksim.core.errors import BadInput
from ranksim.twin.view.recording import MOST, TraceEvents
from ranksim.twin.view.viewer import Viewer, serve_recording

START = 1_772_618_400 * SECOND


def exchange(number: int, status: int | None = 200, response: str = "", **more: object) -> str:
    at = START + number * SECOND
    entry = {
        "kind": "exchange", "id": str(number), "sent": at, "received": at + 2_000,
        "operations": ["jobs.create"], "method": "POST", "path": "/v1/jobs",
        "status": status, "response": response, **more,
    }  # fmt: skip
    return json.dumps(entry)


def problem(code: str, **meta: object) -> str:
    return json.dumps({"code": code, "meta": meta})


HEADER = json.dumps({"ranksim_trace": 1, "started": START})

SENT = {"Service-Event-Id": "evt_1"}

DELIVERY = json.dumps(
    {"kind": "delivery", "received": START + 3 * SECOND, "endpoint": "whk_1", "status": 500, "headers": SENT}
)

TRACE = [
    HEADER,
    exchange(1),
    exchange(4, 429, problem("rate_limited", **{"class": "read"})),
    exchange(2, 409, problem("cooldown_active"), body='{"kind": "crawl"}'),
    exchange(5, None, error="timeout", received=None),
    exchange(6, 200, response_headers={"Idempotent-Replayed": "true"}),
    DELIVERY,
    json.dumps({"kind": "note", "t": START, "text": "began"}),
]


def test_events_stand_in_order_of_time_with_why_each_call_was_refused() -> None:
    recording = TraceEvents(TRACE)
    assert recording.overview()["recording"] == {
        "first": START, "last": START + 6 * SECOND, "calls": 5, "events": 7
    }  # fmt: skip
    events = recording.until(START + 60 * SECOND)["events"]
    assert [one["seq"] for one in events] == [1, 2, 3, 4, 5, 6, 7]
    assert [one["what"] for one in events] == [
        "note",
        "call",
        "call",
        "attempt.received",
        "call",
        "call",
        "call",
    ]
    calls = [one for one in events if one["what"] == "call"]
    assert [(one["status"], one["code"], one["check"], one["outcome"]) for one in calls] == [
        (200, None, None, "ok"),
        (409, "cooldown_active", 6, "refused"),
        (429, "rate_limited", None, "limited"),
        (None, None, None, "no answer"),
        (200, None, None, "replayed"),
    ]
    assert (calls[2]["rate_class"], calls[0]["ms"]) == ("read", 2.0)
    assert (events[3]["status_code"], events[3]["event_id"]) == (500, "evt_1")


def test_a_note_is_a_note_whatever_it_says_besides() -> None:
    note = json.dumps({"kind": "note", "t": START, "text": "began", "what": "call", "seq": 99})
    (event,) = TraceEvents([HEADER, note]).until(START)["events"]
    assert (event["what"], event["seq"], event["text"]) == ("note", 1, "began")


def test_scrubbing_shows_the_last_events_up_to_an_instant() -> None:
    recording = TraceEvents([HEADER, *map(exchange, range(MOST + 500))])
    assert recording.until(START - 1) == {"count": 0, "events": []}
    assert recording.until(START)["count"] == 1
    found = recording.until(START + (MOST + 99) * SECOND)
    assert (found["count"], len(found["events"]), found["events"][0]["seq"]) == (MOST + 100, MOST, 101)


def test_an_exchange_is_shown_as_the_journal_shows_one() -> None:
    recording = TraceEvents(TRACE)
    shown = recording.exchange(3)
    assert shown is not None
    assert (shown["status"], shown["body"], shown["response"]["code"]) == (
        409,
        {"kind": "crawl"},
        "cooldown_active",
    )
    assert [recording.exchange(number) for number in (0, 1, 4, 99)] == [None] * 4


def test_a_trace_without_anything_is_refused() -> None:
    with pytest.raises(BadInput, match="no call, no delivery and no note"):
        TraceEvents([HEADER])


def test_the_viewer_wants_its_token_and_serves_the_page_and_what_it_asks_for(tmp_path: Path) -> None:
    import asyncio

    async def story() -> None:
        transport = httpx.ASGITransport(Viewer(TraceEvents(TRACE), "hands"))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            auth = {"authorization": "Bearer hands"}
            assert (await client.get("/_ranksim/overview")).status_code == 401
            assert (
                await client.get("/_ranksim/overview", headers=auth | {"host": "evil.example"})
            ).status_code == 403
            assert (await client.get("/_ranksim/overview", headers=auth)).json()["recording"]["calls"] == 5
            found = await client.get(f"/_ranksim/recording?until={START + SECOND}", headers=auth)
            assert found.json()["count"] == 2
            assert (await client.get("/_ranksim/requests/3", headers=auth)).json()["status"] == 409
            for path in ("/_ranksim/requests/1", "/_ranksim/requests/x", "/v1/jobs"):
                assert (await client.get(path, headers=auth)).status_code == 404
            browser = {"accept": "text/html"}
            assert (await client.get("/", headers=browser)).status_code == 200
            assert (await client.get("/_ranksim/page.js")).status_code == 200

    asyncio.run(story())


def test_what_was_refused_over_graphql_is_shown_with_its_code() -> None:
    refused = json.dumps({"data": None, "errors": [{"extensions": {"code": "cooldown_active"}}]})
    odd = [json.dumps({"errors": wrong}) for wrong in ([], [1], "many", None)]
    lines = [exchange(number, 200, text, surface="graphql") for number, text in enumerate([refused, *odd])]
    events = TraceEvents([HEADER, *lines, exchange(9, 200, refused)]).until(START + 60 * SECOND)["events"]
    assert [(one["code"], one["check"], one["outcome"]) for one in events] == [
        ("cooldown_active", 6, "refused"), *[(None, None, "ok")] * 5
    ]  # fmt: skip


def test_the_address_that_is_printed_can_be_copied_with_all_that_follows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def printed() -> str:
        serving = asyncio.ensure_future(
            serve_recording(Viewer(TraceEvents(TRACE), "t0ken"), "127.0.0.1", 0, "t0ken")
        )
        while not (said := capsys.readouterr().out):
            await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)
        await serving
        return said

    said = asyncio.run(printed())
    assert re.fullmatch(
        r"ranksim shows the run until Ctrl-C at http://127\.0\.0\.1:\d+/\?token=t0ken\n", said
    )
