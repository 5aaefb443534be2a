"""What a check decides of a deployment that conforms, and in what order, rehearsed in virtual time."""

from __future__ import annotations

import json

import pytest
from tests.judge.conformance.elsewhere.virtual import elsewhere, rehearsal

from ranksim.bridges.rehearsal import Network
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.callers.target import UNKNOWN
from ranksim.core.clock import MINUTE
from ranksim.core.service.service import Service
from ranksim.judge.conformance.compare import RULES, compare
from ranksim.judge.conformance.verdict.verdicts import Verdict

from .in_virtual_time import check, check_in


@pytest.mark.slow
def test_ten_minutes_decide_nearly_all_with_keys_of_every_purpose() -> None:
    service, target = make_world(seed=21)
    checked = check(service, target, 10 * MINUTE, seed=21, network=Network(loss=0.01))
    judgement = compare(checked.trace)

    assert [finding.rule.name for finding in judgement.deviating] == []
    decided, rules = judgement.rules_decided
    # With one reply in a hundred lost the edges of a window stay open at some seeds: 101 or 102 at eight.
    assert (decided >= 100, rules) == (True, len(RULES)), [
        finding.rule.name
        for finding in judgement.findings
        if finding.verdict not in (Verdict.CONFORMS, Verdict.DEVIATES)
    ]
    # The ladder of the main key wants its account for more than half of the time.
    assert {task.name for task in checked.plan.runs} - set(checked.began) <= {"ladder of main"}
    assert set(checked.ended) == set(checked.began)
    # What wants a key or an account alone had it.
    by_name = {task.name: task for task in checked.plan.tasks}
    for names in checked.together:
        running = [by_name[name] for name in names]
        assert all(one.beside(other) for one in running for other in running if one is not other)


@pytest.mark.slow
def test_dry_runs_alone_spend_nothing() -> None:
    service, target = make_world(seed=22)
    target = target.model_copy(update={"dry_run_only": True})
    checked = check(service, target, 6 * MINUTE, seed=22)
    spending = {"jobs.create", "keyword_briefs.create", "keywords.create", "scans.create"}
    spent = [one for one in checked.trace.exchanges if spending.intersection(one.operations)]
    assert {one.surface for one in spent} == {"rest", "graphql"}
    for one in spent:
        asked = json.loads(one.body)
        assert asked["dry_run"] is True if one.surface == "rest" else "dryRun: true" in asked["query"], (
            one.body
        )
    assert len(checked.ended) >= 6, checked.ended
    judgement = compare(checked.trace)
    assert judgement.deviating == ()
    open_rules = {
        one.rule.name for one in judgement.findings if one.verdict not in (Verdict.CONFORMS, Verdict.DEVIATES)
    }
    assert open_rules & {*checked.plan.decidable} == set()
    used = [
        json.loads(one.response)["data"]["used"]
        for one in checked.trace.exchanges
        if (one.operations, one.surface, one.api_key, one.status) == (("slots.get",), "rest", "main", 200)
    ]
    assert used[0] == used[-1]


@pytest.mark.slow
@pytest.mark.parametrize("keys", [("main",), ()])
def test_reading_alone_decides_what_the_plan_says(keys: tuple[str, ...]) -> None:
    service, target = make_world(seed=22)
    kept = {name: target.keys[name] for name in keys or target.keys}
    target = target.model_copy(update={"dry_run_only": True, "read_only": True, "keys": kept})
    checked = check(service, target, 6 * MINUTE, seed=22)
    calls = checked.trace.exchanges
    assert {(one.method, one.surface) for one in calls} == {("GET", "rest"), ("POST", "graphql")}
    for key in (*kept, UNKNOWN, None):
        instants = [one.sent for one in calls if one.api_key == key]
        most = max(sum(first <= other < first + MINUTE for other in instants) for first in instants)
        assert most <= 60, key
    judgement = compare(checked.trace)
    assert judgement.deviating == ()
    decided = {one.rule.name for one in judgement.findings if one.verdict == Verdict.CONFORMS}
    assert {*checked.plan.decidable} <= decided


@pytest.mark.slow
@pytest.mark.parametrize(("cap", "seed"), [(50_000, 24), (500_000, 23), (2_000_000, 23)])
def test_a_spend_cap_holds(cap: int, seed: int) -> None:
    """What the accounts' books have in the end is within the cap, whatever was under way side by side.

    But for the last job, where it costs more than five times what its kind did elsewhere (docs/check.md):
    sites have a heavy tail of pages, and seed 23 draws such a job last. Nothing that spends follows it.
    """
    service, target = make_world(seed=seed)
    target = target.model_copy(update={"spend_cap": cap})
    before = spent_of_all(service)
    checked = check(service, target, 5 * MINUTE, seed=seed)
    spent = spent_of_all(service) - before
    assert 0 < spent <= checked.budget.spent()
    job = max(service.state.jobs.values(), key=lambda job: job.created_at)
    like = [one for one in service.state.jobs.values() if one.kind == job.kind and one is not job]
    dearer = job.estimate > 5 * max(one.estimate for one in like)
    assert checked.budget.spent() - (max(job.cost, job.estimate) if dearer else 0) <= cap
    assert compare(checked.trace).deviating == ()


def spent_of_all(service: Service) -> int:
    """What all accounts have spent and reserved (µUSD)."""
    books = [account.books for account in service.state.accounts.values()]
    return sum(one.settled + one.reserved for one in books)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "booking"), [(1, "acceptance"), (3, "reserve")])
def test_a_spend_cap_holds_at_a_deployment_of_others(seed: int, booking: str) -> None:
    """It books all at acceptance, or an estimate that it settles later; some replies are lost."""
    numbers = elsewhere.drawn(seed, quick=True)
    made = rehearsal(numbers, seed, network=Network(loss=0.01))
    made.target = made.target.model_copy(update={"spend_cap": 50_000})
    accounts = made.service.deployment.accounts
    before = sum(sum(one.spent.values()) + sum(one.reserved.values()) for one in accounts)
    checked = check_in(made, 5 * MINUTE, seed=seed, again=False)
    after = sum(sum(one.spent.values()) + sum(one.reserved.values()) for one in accounts)
    assert numbers.booking == booking
    assert 0 < after - before <= checked.budget.spent() <= 50_000
