"""What a timeline sets: from its instant on a world is the one in which it has that value."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.clock import DAY, SECOND
from ranksim.core.errors import BadInput
from ranksim.core.rules.admission import used_at
from ranksim.core.service.calls import Call
from ranksim.twin.sim.drawn import is_drawn
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

BASE = """\
start: 2026-02-16T00:00:00Z
length: 28d
accounts:
  acme:
    plan: pro
    keys: [main, spare]
    portfolio: {domains: 3, keywords: 40}
    anchor: 2026-01-01T00:00:00Z
clients:
  nightly: {kind: schedule, account: acme, job: rank_run, every: day}
  briefs: {kind: brief_refresher, account: acme, keywords: 60, batch: 10}
  sync: {kind: keyword_sync, account: acme, every: week, keywords: 45}
  reads: {kind: caller, account: acme, mix: {domains.list: 1}, times: [1d, 1d, 1d, 2d, 2d]}
pools: {rank_run: {capacity: 1, duration: 2m}}
receivers: {erp: {account: acme}}
"""
PRO = "policy.catalogue.plans.pro"
BRIEFS = f"{PRO}.quotas.keyword_brief_refreshes.limit"
LATENCY = "scenario.receivers.erp.latency"

SETTINGS: list[tuple[str, Any]] = [
    (BRIEFS, 30),
    (f"{PRO}.price", "149 USD"),
    (f"{PRO}.cost_ceiling", "1 USD"),
    (f"{PRO}.slot_limit", 130),
    (f"{PRO}.cooldowns.rank_run", "36h"),
    (f"{PRO}.capabilities", ["rank_tracking"]),
    ("policy.catalogue.unit_costs.rank_run_page", "1 USD"),
    ("policy.catalogue.job_failure_rates.rank_run", 1000),
    ("policy.facts.rates.read", 2),
    ("policy.facts.webhook_timeout", "100ms"),
    ("policy.assumptions.cost_gate", "would_exceed"),
    ("policy.assumptions.weekly_exhaustion_code", "allowance_exhausted"),
    ("scenario.pools.rank_run.capacity", 3),
    ("scenario.pools.rank_run.duration", {"uniform": {"low": "1m", "high": "9m"}}),
    ("scenario.pools.rank_run.queue_limit", 1),
    ("scenario.pools.rank_run.discipline", "lifo"),
    (LATENCY, "12s"),
    ("scenario.receivers.erp.status", 500),
]


def scenario(*settings: tuple[str, str, Any]) -> Scenario:
    timeline = [{"at": at, "do": "set", "path": path, "value": value} for at, path, value in settings]
    return Scenario.parse(BASE, "base.yaml").replace(timeline=timeline)


def metrics(of: Scenario) -> dict[str, float | None]:
    result = run(of, replications=1)
    return {name: result.metric(name).mean for name in result.metrics}


@cache
def as_it_is() -> dict[str, float | None]:
    return metrics(scenario())


@pytest.mark.parametrize(("path", "value"), SETTINGS)
def test_what_is_set_as_the_world_begins_is_as_if_it_had_been_so(path: str, value: Any) -> None:
    begun = scenario().changed({path: value})
    assert metrics(scenario(("0s", path, value))) == metrics(begun)
    assert metrics(begun) != as_it_is() or "discipline" in path or "cost_gate" in path


def present(path: str) -> Any:
    """What a path leads to, as a file writes it."""
    plain: Any = {"scenario": scenario().model_dump(mode="json")}
    plain["policy"] = plain["scenario"]["policy"]
    for part in path.split("."):
        plain = plain[part]
    return plain


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 27), st.sampled_from([path for path, _ in SETTINGS])), max_size=6))
def test_what_is_set_to_what_it_is_changes_nothing(actions: list[tuple[int, str]]) -> None:
    unchanged = scenario(*((f"{day}d", path, present(path)) for day, path in actions))
    assert metrics(unchanged) == as_it_is()


@pytest.mark.fact("S63", "S108")
def test_a_weekly_quota_that_halves_is_half_of_it_from_then_on() -> None:
    world = World(scenario(("14d", BRIEFS, present(BRIEFS) // 2)))
    account = world.service.state.accounts[world.actors["acme"].account]
    used: list[int] = []
    for day in (13, 20):
        at = world.start + day * DAY
        world.at(at, lambda at=at: used.append(used_at(at, account.meters["keyword_brief_refreshes"])))
    world.run()
    assert used == [50, 20]  # asked for in tens


def test_months_are_invoiced_at_the_price_of_their_end() -> None:
    raised = metrics(scenario(("13d", f"{PRO}.price", "200 USD")))  # on 1 March
    assert raised["invoice.acme.2026-02"] == 129_000_000
    assert raised["invoice.acme.2026-03"] == 200_000_000


def test_settings_add_up_in_order_of_time() -> None:
    quotas = f"{PRO}.quotas"
    world = World(
        scenario(
            ("3d", quotas, {"keyword_brief_refreshes": {"limit": 7}}),
            ("2d", f"{PRO}.slot_limit", 1),
            ("4d", BRIEFS, 9),
            ("4d", "scenario.pools.rank_run.capacity", 5),
        )
    )
    world.run()
    plan = world.service.policy.catalogue.plans["pro"]
    assert (plan.slot_limit, plan.quotas["keyword_brief_refreshes"].limit) == (1, 9)
    assert world.pools["rank_run"].capacity == 5
    assert world.scenario.pools["rank_run"].duration == scenario().pools["rank_run"].duration


def test_a_number_of_a_distribution_is_set_by_itself() -> None:
    """Jobs that start before take the old time, each drawn with the same numbers, those after a tenth."""
    mean = "scenario.pools.rank_run.duration.exponential.mean"
    drawn = Scenario.parse(BASE.replace("duration: 2m", "duration: {exponential: {mean: 20m}}"), "drawn.yaml")
    action = {"at": "14d", "do": "set", "path": mean, "value": "2m"}

    def busy(of: Scenario) -> int:
        busy: int = run(of, replications=1).replications[0].jobs["rank_run"]["busy"]
        return busy

    def half(of: Scenario) -> int:
        return busy(of.replace(length="14d"))

    before, after = drawn, drawn.changed({mean: "2m"})
    assert busy(drawn.replace(timeline=[action])) == half(before) + busy(after) - half(after)
    assert half(before) == pytest.approx(10 * half(after))


def test_what_another_action_resized_stays_so_where_something_else_is_set() -> None:
    timeline = [
        {"at": "1d", "do": "resize_pool", "pool": "rank_run", "capacity": 4},
        {"at": "2d", "do": "set", "path": "scenario.pools.rank_run.duration", "value": "3m"},
    ]
    world = World(scenario().replace(timeline=timeline))
    world.run()
    assert world.pools["rank_run"].capacity == 4


@pytest.mark.fact("S102")
@pytest.mark.parametrize("window", ["first_hit", "clock", "sliding_log", "sliding_counter", "gcra"])
def test_a_rate_limit_counts_what_was_admitted_before_it_changed(window: str) -> None:
    world = World(
        Scenario.parse(BASE, "base.yaml").replace(
            assumptions={"window": window}, policy={"facts": {"rates": {"read": 10}}},
            timeline=[
                {"at": "24h20s", "do": "set", "path": "policy.facts.rates.read", "value": 5},
                {"at": "24h20s", "do": "set", "path": "policy.facts.rates.read", "value": 8},
            ],
        )
    )  # fmt: skip
    seen: list[int] = []

    def calls(count: int) -> None:
        key = world.actors["acme"].keys["spare"]
        seen.extend(world.call(Call("domains.list", key=key)).status for _ in range(count))

    world.at(world.start + DAY + 20 * SECOND - 1, calls, 4)
    world.at(world.start + DAY + 20 * SECOND + 1, calls, 6)
    world.run()
    assert seen == [200] * 8 + [429] * 2


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("scenario.clients.nightly.every", "12h", "path: scenario.clients.nightly.every cannot change "
         "while a world runs: clients are programs under way; let one stop and another start"),
        ("scenario.length", "3d", "path: scenario.length cannot change while a world runs: it is decided"),
        ("scenario.accounts.acme.plan", "free", "accounts change by change_plan"),
        ("scenario.plan", "free", "accounts change by change_plan"),
        ("scenario.receivers.erp.url", "", "an endpoint changes by edit_endpoint"),
        ("scenario.receivers.erp", {"latency": "1s"}, "an endpoint changes by edit_endpoint"),
        ("policy.assumptions.window", "gcra", "rate windows that are open were opened by it; what can: "),
        ("policy.assumptions", {"window": "gcra"}, "it is many values"),
        ("policy.catalogue", "illustrative-metered", "it is many values; set what changes of them"),
        ("policy.facts.webhook_delays", ["1m"], "deliveries under way are planned by it"),
        ("policy.assumptions.keyword_folding", "exact", "books and slots are counted by it from the start"),
        ("policy.assumptions.fingerprint", "raw", "replies are stored by it"),
        ("scenario.receivers.erq.latency", "1s", "path: no parameter 'scenario.receivers.erq.latency': "
         "scenario.receivers has no 'erq'; did you mean 'erp'?"),
        ("world.length", "1d", "path: no parameter 'world.length': no input 'world'"),
        (LATENCY, "soon", "value: receivers.erp.latency: 'soon' is not a duration"),
        (LATENCY, 3, "value: write a duration such as '1h30m' or '250ms', found 3"),
        (f"{PRO}.price", 149, "value: write an amount such as '149 USD', found 149"),
        (f"{PRO}.slot_limit", -1, "value: catalogue.plans.pro.slot_limit: expected at least 0, found -1"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_refused_with_its_line_and_reason(path: str, value: Any, message: str) -> None:
    action = json.dumps({"at": "1d", "do": "set", "path": path, "value": value})
    with pytest.raises(BadInput) as refused:
        Scenario.parse(f"{BASE}timeline:\n  - {action}\n", "base.yaml")
    assert str(refused.value).startswith("base.yaml:17: timeline[0].")
    assert message in str(refused.value)


def test_a_value_is_wrong_where_it_does_not_fit_what_was_set_before() -> None:
    at_once = ("1d", f"{PRO}.quotas.keyword_brief_refreshes.consumed_by", ["rank_run"])
    with pytest.raises(BadInput, match=r"timeline\[1\].value: .*consumes at most one metric"):
        scenario(at_once, ("2d", f"{PRO}.quotas.research_lookups.consumed_by", ["rank_run"]))


@pytest.mark.parametrize(
    ("path", "value", "drawn"),
    [(LATENCY, "1s", False), (LATENCY, {"exponential": {"mean": "1s"}}, True), (LATENCY, "11s", True),
     ("scenario.pools.rank_run.failure_rate", 0.1, True), ("scenario.pools.rank_run.capacity", 2, False)],
)  # fmt: skip
def test_what_is_set_may_be_drawn(path: str, value: Any, drawn: bool) -> None:
    nightly = {"nightly": scenario().clients["nightly"].model_dump(mode="json", exclude_unset=True)}
    still = Scenario.parse(BASE.partition("clients:")[0] + BASE[BASE.index("pools:") :])
    of = still.replace(clients=nightly, timeline=scenario(("1d", path, value)).timeline)
    assert is_drawn(of, "calls.total") is drawn


def test_a_run_with_settings_is_that_of_the_scenario_changed_first() -> None:
    scenario = Scenario.parse(BASE)
    settings = {"scenario.length": "2d", "policy.facts.rates.expensive": 2}
    assert run(scenario, settings=settings).to_json() == run(scenario.changed(settings)).to_json()
    assert run(scenario, settings=settings).to_json() != run(scenario).to_json()
