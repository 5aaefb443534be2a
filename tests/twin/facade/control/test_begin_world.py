"""POST /_ranksim/state: another world begins, as a scenario or a snapshot says."""

from __future__ import annotations

from threading import get_ident

import pytest

from ranksim.testing import World

YAML = """\
scenario: 1
start: 2026-03-27T10:00:00Z
length: 1d
accounts:
  acme: {plan: starter, portfolio: {domains: 3, keywords: 4}, used: {spent: 1.50 USD}}
"""


def post(world: World, body: str, media: str = "application/yaml") -> tuple[int, dict[str, object]]:
    reply = world.client(world.control_token).post(
        "/_ranksim/state", content=body, headers={"Content-Type": media}
    )
    return reply.status_code, reply.json()


def domains(world: World) -> int:
    return len(world.client(world.key).get("/v1/domains").json()["data"])


def test_a_world_begins_as_a_scenario_says_and_a_reset_returns_to_it() -> None:
    with World() as world:
        status, shown = post(world, YAML)
        assert (status, shown["now"]) == (200, "2026-03-27T10:00:00Z")
        assert domains(world) == 3
        world.client(world.key).post("/v1/domains", json={"host": "new.example"})
        saved = world.snapshot().decode()
        world.reset()
        assert domains(world) == 3
        assert post(world, saved, "application/json")[0] == 200
        assert domains(world) == 4


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("", "expected a mapping"),
        ("accounts: {}", "accounts"),
        (YAML.replace("starter", "startr"), "no plan 'startr'; did you mean 'starter'?"),
        (YAML + "policy: /etc/passwd\n", "no files are read here"),
        (YAML + "policy: {catalogue: /etc/passwd}\n", "no files are read here"),
        (
            YAML + "assumptions: {inactive_statuses: []}\n",
            "its policy is another than the one that is served",
        ),
        (YAML + "timeline: [{at: 1h, do: resize_pool, pool: rank_run, capacity: 1}]\n", "pool"),
        ('{"ranksim_snapshot": 1}', "expected the JSON that a snapshot of ranksim gave"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_the_world_stays(body: str, sentence: str) -> None:
    with World() as world:
        before = world.twin.world_id
        status, problem = post(world, body)
        assert (status, world.twin.world_id) == (422, before)
        assert sentence in str(problem["detail"])


def test_bytes_that_are_no_text_are_refused() -> None:
    with World() as world:
        reply = world.client(world.control_token).post("/_ranksim/state", content=b"\xff\xfe")
        assert (reply.status_code, reply.json()["detail"]) == (400, "The body is no text in UTF-8.")


def test_the_world_is_given_as_a_scenario_that_begins_as_it_stands() -> None:
    with World() as world:
        post(world, YAML)
        made = world.client(world.key).post("/v1/domains", json={"host": "new.example"})
        assert made.status_code == 201
        control = world.client(world.control_token)
        stated = control.get("/_ranksim/state?as=scenario")
        assert stated.json()["accounts"]["acme"]["sites"][-1]["host"] == "new.example"
        usage = world.client(world.key).get("/v1/account/usage").json()["data"]
        with World() as other:
            assert post(other, stated.text, "application/json")[0] == 200
            assert other.key == world.key
            assert domains(other) == 4
            assert other.client(other.key).get("/v1/account/usage").json()["data"] == usage
        assert control.get("/_ranksim/state?as=yaml").status_code == 422
        assert "serial" in control.get("/_ranksim/state").json()


def test_a_reset_simulates_off_the_loop_that_answers_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        post(world, YAML)
        origin, threads = world.twin.origin, list[int]()
        assert origin is not None
        opened = origin.open
        monkeypatch.setattr(origin, "open", lambda: (threads.append(get_ident()), opened())[1])
        world.control().post("/reset").raise_for_status()
        assert len(set(threads)) == len(threads) == 2
