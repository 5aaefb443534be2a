"""What a budget permits: a cap that holds within its stated bound, and dry runs alone."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ranksim.callers.budget import BLIND, Budget, guarded, spends
from ranksim.callers.steps import Pause, Received, Send

JOB = Send("jobs.create", "main", body={"kind": "crawl", "domain_id": "dom_1"})
DRY = Send("jobs.create", "main", body={"kind": "crawl", "domain_id": "dom_1", "dry_run": True})
READ = Send("domains.list", "main")
USAGE = Send("account.usage", "main")
WIDER = Send("scans.update", "main", path={"id": "scan_1"}, body={"geographies": [{"country": "DE"}]})
NARROW = Send("scans.update", "main", path={"id": "scan_1"}, body={"name": "new"})
GRAPHQL_JOB = Send("jobs.create", "main", body={"query": "mutation { createJob }"}, surface="graphql")


def usage(spent: Any) -> Received:
    return Received(200, {"data": {"cost": {"spent": spent}}}, {}, 0, 1)


def test_what_spends() -> None:
    assert spends(JOB)
    assert spends(Send("jobs.create", "main", raw=b'{"dry_run": true}'))
    assert spends(GRAPHQL_JOB)
    assert not spends(DRY)
    assert not spends(READ)
    assert not spends(Send("domains.create", "main", body={"host": "a.example.com"}))
    dry = {"query": "mutation { createJob(input: {dryRun: true}) { job { id } } }"}
    assert not spends(Send("jobs.create", "main", body=dry, surface="graphql"))


def test_without_a_cap_everything_is_permitted() -> None:
    budget = Budget()
    assert [budget.permit(send) for send in (JOB, READ, WIDER)] == [JOB, READ, WIDER]
    assert budget.refused == 0


def test_dry_run_only() -> None:
    budget = Budget(dry_run_only=True)
    assert budget.permit(READ) is READ
    assert budget.permit(NARROW) is NARROW
    tried = budget.permit(JOB)
    assert tried is not None
    assert tried.body == {"kind": "crawl", "domain_id": "dom_1", "dry_run": True}
    for send in (Send("jobs.create", raw=b"{}"), WIDER, GRAPHQL_JOB):
        assert budget.permit(send) is None
    assert budget.refused == 3


def test_nothing_is_spent_where_nobody_can_read_what_was() -> None:
    budget = Budget(cap=1_000_000)
    assert budget.permit(JOB) is None
    budget.saw(USAGE, Received(200, {"data": {}}, {}, 0, 1))
    assert budget.permit(JOB) is None
    assert budget.permit(DRY) is DRY


def test_one_call_while_no_price_is_known_then_a_few() -> None:
    budget = Budget(cap=10_000_000)
    budget.saw(USAGE, usage("3.00"))
    assert budget.permit(JOB) is JOB
    assert budget.permit(JOB) is None
    budget.saw(USAGE, usage("3.40"))
    assert [budget.permit(JOB) for _ in range(BLIND + 1)] == [JOB] * BLIND + [None]
    assert budget.spent() == 400_000 + BLIND * 400_000


def test_what_was_spent_before_does_not_count() -> None:
    budget = Budget(cap=500_000)
    budget.saw(USAGE, usage(100))
    assert budget.permit(JOB) is JOB
    budget.saw(USAGE, usage(100.5))
    assert budget.permit(JOB) is None
    assert budget.reading(JOB) is None


def test_a_call_of_known_price_is_permitted_only_where_it_fits() -> None:
    budget = Budget(cap=1_000_000)
    budget.saw(USAGE, usage(0))
    assert budget.permit(JOB) is JOB
    budget.saw(USAGE, usage("0.60"))
    assert budget.permit(JOB) is None


def test_what_was_spent_before_the_month_turned_still_counts() -> None:
    budget = Budget(cap=1_000_000)

    def read(spent: str, resets_at: str) -> None:
        data = {"cost": {"spent": spent, "resets_at": resets_at}}
        budget.saw(USAGE, Received(200, {"data": data}, {}, 0, 1))

    read("7.00", "2026-04-01")
    assert budget.permit(JOB) is JOB
    read("7.40", "2026-04-01")
    assert budget.permit(JOB) is JOB
    read("7.20", "2026-04-01")  # a job failed and gave back what was reserved for it
    assert budget.spent() == 400_000
    assert budget.permit(JOB) is JOB
    read("0.10", "2026-05-01")
    assert budget.spent() == 400_000 + 400_000 + 100_000
    assert budget.permit(JOB) is None


def test_a_cost_that_is_no_number_says_nothing() -> None:
    budget = Budget(cap=1_000_000)
    for spent in ("Infinity", "NaN", "1e999999999", "much", None, [1]):
        budget.saw(USAGE, usage(spent))
        assert budget.permit(JOB) is None


def test_keys_of_one_account_share_what_it_spends() -> None:
    budget = Budget(cap=1_000_000, accounts={"main": "acc_1", "second": "acc_1"})
    budget.saw(USAGE, usage("1.00"))
    budget.saw(Send("account.usage", "second"), usage("1.60"))
    assert budget.spent() == 600_000


def program() -> Generator[Any, Any, int]:
    granted = 0
    for _ in range(60):
        answer = yield JOB
        granted += answer.ok
        yield Pause(1)
    return granted


@given(st.lists(st.integers(0, 300_000), min_size=60, max_size=60), st.integers(0, 2_000_000))
@settings(max_examples=60)
def test_the_cap_is_overshot_by_no_more_than_said(prices: list[int], cap: int) -> None:
    """Beyond the cap lie at most one call of unknown price and what `BLIND` calls are dearer than before."""
    budget, spent, dearest, bound = Budget(cap=cap), 0, 0, 0
    running, answer, price = guarded(program(), budget), None, iter(prices)
    try:
        while True:
            step = running.send(answer)
            answer = None
            if isinstance(step, Pause):
                answer = 0
            elif step.operation == "account.usage":
                answer = usage(str(spent / 1_000_000))
            else:
                cost = next(price)
                bound = max(bound, cost if not dearest else BLIND * max(0, cost - dearest))
                spent, dearest = spent + cost, max(dearest, cost)
                answer = Received(202, {"data": {"id": "job_1"}}, {}, 0, 1)
    except StopIteration as end:
        granted = end.value
    assert spent <= cap + bound
    assert granted == 60 or spent + dearest >= cap or budget.refused


def test_what_is_not_permitted_is_answered_like_silence() -> None:
    running = guarded(program(), Budget(cap=0))
    steps, answer = [], None
    for _ in range(6):
        step = running.send(answer)
        steps.append(step)
        answer = 0 if isinstance(step, Pause) else usage("0")
    assert all(isinstance(step, Pause) for step in steps)
