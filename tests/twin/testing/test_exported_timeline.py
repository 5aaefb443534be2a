"""A served world exported as a scenario, which begins as it stands: its timeline goes on as it would have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ranksim.core.clock import DAY, HOUR, MINUTE, instant, iso
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call
from ranksim.twin.facade.journal.backup import export_scenario
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.sim.served import ServedTimeline
from ranksim.twin.testing.beginning import origin_of

START = instant("2026-03-02T09:00:00Z")
ACTIONS: tuple[dict[str, Any], ...] = (
    {"do": "change_plan", "account": "acme", "plan": "agency"},
    {"do": "set_add_on", "account": "acme", "add_on": "brief_pack", "count": 2},
    {"do": "set_status", "account": "acme", "status": "past_due"},
    {"do": "issue_key", "account": "acme", "key": "main"},
    {"do": "issue_key", "account": "acme", "key": "bound", "domain": "site1.acme.example"},
    {"do": "withdraw_key", "account": "acme", "key": "main"},
    {"do": "pause_scan", "account": "acme", "domain": "site2.acme.example"},
    {"do": "resume_scan", "account": "acme"},
    {"do": "add_domains", "account": "acme", "domains": 2},
    {"do": "add_domains", "account": "acme", "domains": ["own.example"], "keywords": 1},
    {"do": "remove_domains", "account": "acme", "domains": 1},
    {"do": "remove_domains", "account": "acme", "domains": ["site1.acme.example"]},
    {"do": "add_keywords", "account": "acme", "count": 2},
    {"do": "remove_keywords", "account": "acme", "count": 1, "domain": "site3.acme.example"},
    {"do": "edit_endpoint", "receiver": "erp", "event_types": ["job.failed"]},
    {"do": "edit_endpoint", "receiver": "crm", "enabled": False},
    {"do": "enable_endpoint", "receiver": "crm"},
    {"do": "receiver_down", "receiver": "erp"},
    {"do": "receiver_up", "receiver": "erp"},
    {"do": "fault", "operation": "jobs.create", "status": 503, "lasts": "40m"},
    {"do": "clear_faults"},
)
CALLS: tuple[tuple[str, Any], ...] = (
    ("domains.delete", 0),
    ("domains.delete", 1),
    ("domains.create", {"host": "bought.example"}),
    ("webhooks.delete", 0),
    ("webhooks.create", {"url": "https://bought.example/hook", "event_types": []}),
)
"""What clients do before the export, once each, since no scenario removes the last domain: on the domain or
endpoint of a place, or with a body.
"""

at = st.integers(0, 23).map(lambda quarter: quarter * HOUR // 4 + MINUTE)


def twin_of(scenario: dict[str, Any]) -> Twin:
    origin = origin_of((json.dumps(scenario), None), None)
    return Twin(origin=origin, read_origin=origin_of, sender=Scripted(), clock="manual")


def call(twin: Twin, operation: str, **fields: Any) -> Any:
    account = next(iter(twin.service.state.accounts))
    return twin.call(Call(operation, surface="app", account=account, **fields)).body


def move(twin: Twin, to: int) -> None:
    twin.clock.move_to(to)
    twin.work(to)


def do(twin: Twin, operation: str, on: Any) -> None:
    if isinstance(on, dict):
        call(twin, operation, body=on)
        return
    state = twin.service.state
    ids = list(state.domains if operation.startswith("domains") else state.endpoints)
    if on < len(ids):
        call(twin, operation, path={"id": ids[on]})


def scans(twin: Twin) -> list[tuple[str, str, bool, int]]:
    state = twin.service.state
    return sorted(
        (state.domains[scan.domain].host, scan.name, scan.active, len(scan.lists))
        for scan in state.scans.values()
    )


def shown(twin: Twin) -> dict[str, Any]:
    """What of a world is the same after an export, but for ids of what is made later."""
    state, timeline = twin.service.state, twin.timeline
    assert isinstance(timeline, ServedTimeline)
    account = next(iter(state.accounts.values()))
    names = {endpoint: name for name, endpoint in timeline.endpoints.items()}
    return {
        "account": (account.plan, account.status, account.add_ons, account.books),
        "slots": call(twin, "slots.get")["data"],
        "usage": call(twin, "account.usage")["data"],
        "hosts": [state.domains[id].host for id in account.domains],
        "words": sorted((state.domains[word.domain].host, word.text) for word in state.keywords.values()),
        "scans": scans(twin),
        "keys": sorted(
            (key.name.partition("-")[0], key.domain and state.domains[key.domain].host)
            for key in state.keys.values()
            if not key.withdrawn and key.domain in (None, *account.domains)
        ),
        "endpoints": [(id, each.event_types, each.enabled) for id, each in state.endpoints.items()],
        "down": sorted(
            names[id]
            for id in state.endpoints
            if id in names and timeline.receivers[names[id]].is_down(twin.now())
        ),
        "faults": twin.faults.stated(twin.now()),
    }


@given(
    st.lists(st.tuples(at, st.sampled_from(ACTIONS)), unique_by=lambda drawn: str(drawn[1])),
    st.lists(st.sampled_from(CALLS), unique_by=str),
    st.integers(0, 6 * HOUR),
)
def test_what_a_timeline_has_before_it_is_done_to_the_world_that_is_exported(
    drawn: list[tuple[int, dict[str, Any]]], calls: list[tuple[str, Any]], after: int
) -> None:
    """Whatever it is, and whatever clients did before: both worlds show the same until all is done."""
    scenario = {
        "start": iso(START),
        "length": "7h",
        "accounts": {"acme": {"plan": "pro", "portfolio": {"domains": 5, "keywords": 4, "lists": 2}}},
        "receivers": {
            "erp": {"account": "acme", "when_down": 503, "outages": [{"from": "1h", "for": "4h"}]},
            "crm": {"account": "acme"},
        },
        "timeline": [{"at": iso(START + when), **action} for when, action in drawn],
    }
    try:
        twin = twin_of(scenario)
    except BadInput:
        assume(False)
    move(twin, START + after)
    for operation, on in calls:
        do(twin, operation, on)
    again = twin_of(twin.stated())
    again.work(again.now())
    assert shown(again) == shown(twin)
    assert again.stated() == twin.stated()
    for _ in range(7):
        for world in (twin, again):
            move(world, world.now() + HOUR)
        assert shown(again) == shown(twin)


CALLED = """\
start: 2026-03-02T09:00:00Z
length: 1d
accounts:
  acme:
    plan: pro
    keys: [{name: app, token: my-own-token, calls: [{of: write, count: 120}]}]
timeline: [{at: 30s, do: change_plan, account: acme, plan: agency}]
"""


def refused_for(twin: Twin) -> str:
    """Return for how many seconds a call that writes is refused, or "" where it is not."""
    return twin.call(Call("domains.create", key="my-own-token", body={})).headers.get("Retry-After", "")


@pytest.mark.fact("S103")
def test_a_state_file_is_exported_with_windows_and_what_is_pending(tmp_path: Path) -> None:
    origin = origin_of((CALLED, None), None)
    twin = Twin(origin=origin, read_origin=origin_of, sender=Scripted(), clock="manual")
    log = attach(twin, tmp_path / "state.db")
    move(twin, START + MINUTE // 6)
    assert refused_for(twin) == "50"
    log.close()
    stated = json.loads(export_scenario(tmp_path / "state.db", twin.policy, origin_of))
    assert stated == twin.stated()
    again = twin_of(stated)
    assert refused_for(again) == "50"
    move(again, START + MINUTE // 2)
    assert next(iter(again.service.state.accounts.values())).plan == "agency"


@pytest.mark.parametrize("wall", [0, START + 30 * DAY])
@pytest.mark.fact("S103")
def test_windows_on_the_wall_clock_go_on_from_the_start_of_the_scenario(wall: int) -> None:
    """Whichever of the two is later: windows never wait for a wall clock that is behind the scenario."""
    reads = [wall]
    twin = Twin(
        origin=origin_of((CALLED, None), None),
        sender=Scripted(),
        clock="manual",
        traffic_clock="wall",
        read_wall=lambda: reads[0],
    )
    for _ in range(2):
        assert refused_for(twin) == ("60" if wall < START else "")
        (calls,) = twin.stated()["accounts"]["acme"]["keys"][0]["calls"]
        assert (calls["at"], calls.get("count", 1)) == (iso(START), 120 if wall < START else 1)
        reads[0] += MINUTE
        assert refused_for(twin) == ""
        reads[0] += MINUTE
        twin.reset()
