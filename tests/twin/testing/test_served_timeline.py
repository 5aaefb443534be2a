"""A scenario's timeline while it is served: under every clock, over restarts, and what it cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ranksim.core.clock import HOUR, MINUTE, SECOND, instant
from ranksim.core.errors import BadInput
from ranksim.core.service.state import Account
from ranksim.testing import Receiver, World
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.testing.beginning import beginning_of, origin_of

NINE = instant("2026-03-02T09:00:00Z")

SCENARIO = """\
scenario: 1
start: 2026-03-02T09:00:00Z
length: 2d
accounts:
  acme: {plan: starter, portfolio: {domains: 2, keywords: 10}}
receivers:
  erp: {account: acme, url: "http://erp.example/hook", when_down: 503}
timeline:
  - {at: 2026-03-02T10:05:00Z, do: receiver_down, receiver: erp}
  - {at: 2026-03-02T10:00:00Z, do: change_plan, account: acme, plan: pro}
  - {at: 2026-03-02T10:10:00Z, do: add_domains, account: acme, domains: 1}
  - {at: 2026-03-02T10:15:00Z, do: remove_domains, account: acme, domains: 1}
  - {at: 2026-03-02T10:20:00Z, do: receiver_up, receiver: erp}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "world.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def account(twin: Twin) -> Account:
    return next(iter(twin.service.state.accounts.values()))


def plain(path: Path, **settings: Any) -> Twin:
    return Twin(**beginning_of(path), sender=Scripted(), read_origin=origin_of, **settings)


@pytest.mark.parametrize(("clock", "rate"), [("real", 1), ("scaled:60", 60)])
def test_the_plan_changes_on_the_served_clock(path: Path, clock: str, rate: int) -> None:
    wall = [0]
    twin = plain(path, clock=clock, read_wall=lambda: wall[0])
    for minutes, plan, domains in [(59, "starter", 2), (60, "pro", 2), (71, "pro", 3), (76, "pro", 2)]:
        wall[0] = minutes * MINUTE // rate
        assert twin.now() == NINE + minutes * MINUTE
        twin.work(twin.now())
        assert (account(twin).plan, len(account(twin).domains)) == (plan, domains)
    assert twin.next_due() is None or twin.next_due() == NINE + 80 * MINUTE


def test_an_advance_acts_at_each_instant_and_tells_it(path: Path) -> None:
    with World.of(path) as world:
        happened = world.clock.advance("1h12m").shown()["happened"]
        acted = [(each["at"], each["do"]) for each in happened if each["what"] == "timeline.acted"]
        assert acted == [
            ("2026-03-02T10:00:00Z", "change_plan"),
            ("2026-03-02T10:05:00Z", "receiver_down"),
            ("2026-03-02T10:10:00Z", "add_domains"),
        ]
        assert world.client().get("/v1/account").json()["data"]["plan"] == "pro"
        world.reset()
        assert world.client().get("/v1/account").json()["data"]["plan"] == "starter"
        world.clock.advance("1h")
        assert world.client().get("/v1/account").json()["data"]["plan"] == "pro"


def test_a_receiver_is_down_in_between(path: Path) -> None:
    """Nothing is sent to it meanwhile; what was refused is tried again, and arrives once it is back."""
    with World.of(path) as world:
        receiver = Receiver(clock=world.twin.now)
        world.mount("http://erp.example", receiver)
        domain = world.client().get("/v1/domains").json()["data"][0]["id"]
        world.clock.advance("1h5m")
        body = {"kind": "rank_run", "domain_id": domain}
        assert world.client().post("/v1/jobs", json=body).status_code == 202
        world.clock.advance("14m")
        attempts = world.client().get("/v1/webhook-deliveries").json()["data"]
        assert attempts
        assert {each["status_code"] for each in attempts} == {503}
        assert not receiver.requests
        world.clock.advance("3h")
        assert receiver.requests


@pytest.mark.parametrize("stopped", [30, 62, 66, 72, 90])
def test_a_restart_goes_on_and_a_reset_returns_to_the_start(path: Path, tmp_path: Path, stopped: int) -> None:
    """From the state file alone, wherever it was killed: the file of the scenario is not needed again."""
    wall = [0]
    first = plain(path, clock="real", read_wall=lambda: wall[0])
    log = attach(first, tmp_path / "state.db")
    wall[0] = stopped * MINUTE
    first.work(first.now())
    log.close()
    wall[0] = 95 * MINUTE
    again = Twin(sender=Scripted(), read_origin=origin_of, clock="real", read_wall=lambda: wall[0])
    log = attach(again, tmp_path / "state.db")
    first.work(first.now())
    assert again.now() == NINE + 95 * MINUTE
    assert again.service.save() == first.service.save()
    assert again.timeline.saved() == first.timeline.saved()
    assert again.timeline.saved()["done"] == 5
    again.reset()
    assert (again.now(), account(again).name, account(again).plan) == (NINE, "acme", "starter")
    again.clock.jump(NINE + HOUR)
    again.work(NINE + HOUR)
    assert account(again).plan == "pro"
    log.close()


def test_a_snapshot_goes_back_on_the_timeline_too(path: Path) -> None:
    with World.of(path) as world:
        world.clock.advance("1h1m")
        saved = world.snapshot()
        world.clock.advance("1h")
        world.restore(saved)
        assert world.twin.timeline.due == NINE + HOUR + 5 * MINUTE
        with world.fork() as other:
            other.clock.advance("10m")
            assert len(other.client().get("/v1/domains").json()["data"]) == 3


def test_what_others_did_meanwhile_is_refused_and_told(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    withdrawn = "  - {at: 2026-03-02T10:00:00Z, do: withdraw_key, account: acme, key: main}\n"
    path.write_text(SCENARIO + withdrawn.replace("10:00", "10:30"), encoding="utf-8")
    with World.of(path) as world:
        key = world.key
        world.run(lambda: world.twin.administer("withdraw_key", token=key))
        happened = world.clock.advance("2h").shown()["happened"]
        assert [each["do"] for each in happened if each["what"] == "timeline.acted"][-1] == "withdraw_key"


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("do: resize_pool, pool: rank_run, capacity: 2", "a fake has no pools"),
        ("do: set, path: policy.assumptions.inactive_statuses, value: []", "a fake serves one policy"),
    ],
)
def test_what_cannot_be_done_while_it_is_served_is_refused_at_the_start(
    tmp_path: Path, action: str, why: str
) -> None:
    path = tmp_path / "world.yaml"
    pools = "pools:\n  rank_run: {capacity: 1, duration: 20m}\n"
    path.write_text(f"{pools}{SCENARIO}  - {{at: 3h, {action}}}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=rf"world: timeline\[5\]: .* at 2026-03-02T12:00:00Z .*{why}.*--until"):
        beginning_of(path)
    late = beginning_of(path, NINE + 3 * HOUR + SECOND)["origin"]
    assert late.timeline({"done": 0, "actors": {}, "endpoints": {}, "down": []}).due > NINE + 9 * HOUR
