"""What a budget permits: a cap that holds within its stated bound, and dry runs alone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from heapq import heappop, heappush
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksim.core.callers.steps import Pause, Received, Send
from ranksim.judge.deployment.budget import LOOKED, LOST, Budget, account_named, guarded
from ranksim.judge.deployment.prices import ELSEWHERE, LARGE_JOB, UNSEEN_JOB, spends

JOB = Send("jobs.create", "main", body={"kind": "crawl", "domain_id": "dom_1"})
BRIEF = Send("keyword_briefs.create", "main", body={"keywords": ["word"], "domain_id": "dom_1"})
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
    tried = budget.permit(JOB)
    assert tried is not None
    assert tried.body == {"kind": "crawl", "domain_id": "dom_1", "dry_run": True}
    kept = [Send("jobs.create", raw=b"{}"), WIDER, NARROW, GRAPHQL_JOB, Send("labels.create", raw=b"{")]
    kept += [Send("domains.create", body={"host": "a.example"}), Send("webhooks.test", path={"id": "e"})]
    kept.append(Send("domains.delete", path={"id": "dom_1"}))
    assert [budget.permit(send) for send in kept] == [None] * len(kept)
    assert budget.refused == len(kept)
    asking = Send("domains.create", "", surface="preflight")
    assert budget.permit(asking) is asking


class Books:
    """An account whose usage can be read, by a clock of its own: each call takes a millisecond (µs)."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.spent = 0
        self.now = 0
        self.month = "2026-04-01"
        for number in range(1, 4):  # the run's own
            data = {"data": {"id": f"dom_{number}"}}
            budget.saw(Send("domains.create"), Received(201, data, {}, 0, 0))

    def reads(self, key: str = "main", spent: int | None = None) -> None:
        """Read what was spent."""
        self.now += 1000
        text = str((self.spent if spent is None else spent) / 1_000_000)
        body = {"data": {"cost": {"spent": text, "resets_at": self.month}}}
        answer = Received(200, body, {}, self.now, self.now + 1000)
        self.now += 1000
        self.budget.saw(Send("account.usage", key), answer)

    def replies(self, send: Send, status: int = 202, job: str = "", costs: int = 0) -> None:
        """Have the reply of a call come, which costs so much (µUSD)."""
        self.now += 1000
        self.spent += costs
        data = {"id": job, "kind": "crawl", "finished_at": None} if job else {}
        self.budget.saw(send, Received(status, {"data": data}, {}, self.now - 1000, self.now))

    def ends(self, job: str, costs: int = 0) -> None:
        """Have somebody see that a job has ended, which costs so much then (µUSD)."""
        self.now += 1000
        self.spent += costs
        data = {"id": job, "kind": "crawl", "status": "done", "finished_at": "2026-03-02T09:00:00Z"}
        answer = Received(200, {"data": data}, {}, self.now, self.now)
        self.budget.saw(Send("jobs.get", path={"kind": "crawl", "id": job}), answer)

    def makes(self, send: Send, costs: int) -> bool:
        """Make a call, if it is permitted, and read what it has cost."""
        permitted = self.budget.permit(send)
        if permitted is not None:
            self.replies(permitted, costs=costs, job=f"job_{self.now}" if "jobs" in send.operation else "")
            self.reads()
        return permitted is not None


def opened(cap: int, **accounts: str) -> Books:
    books = Books(Budget(cap=cap, accounts=accounts))
    books.reads()
    return books


def again(send: Send) -> Send:
    """The same call once more."""
    return replace(send)


def test_nothing_is_spent_where_nobody_can_read_what_was() -> None:
    budget = Budget(cap=1_000_000)
    assert budget.permit(BRIEF) is None
    budget.saw(USAGE, Received(200, {"data": {}}, {}, 0, 1))
    assert budget.permit(BRIEF) is None
    assert budget.permit(DRY) is DRY


def test_a_call_of_unknown_price_goes_alone() -> None:
    books = opened(10_000_000)
    first = books.budget.permit(BRIEF)
    assert first is BRIEF
    assert books.budget.permit(again(BRIEF)) is None
    assert books.budget.permit(JOB) is None
    assert books.budget.must_wait(JOB)
    books.replies(first, costs=30_000)
    assert books.budget.permit(again(BRIEF)) is None  # the reading that shows it was not made yet
    books.reads()
    assert books.budget.permit(again(BRIEF)) is not None
    assert books.budget.permit(again(BRIEF)) is not None
    assert books.budget.permit(JOB) is None  # of unknown price, beside what costs something


def test_a_job_whose_kind_was_seen_elsewhere_goes_beside_another_for_the_same() -> None:
    books = opened(10_000_000)
    there = Send("jobs.create", "main", body={"kind": "crawl", "domain_id": "dom_2"})
    first = books.budget.permit(there)
    assert first is there
    assert books.budget.permit(again(there)) is None  # nothing tells what a crawl costs
    books.replies(first, costs=100_000)
    books.reads()
    one, two = books.budget.permit(JOB), books.budget.permit(again(JOB))
    assert one is not None
    assert two is not None
    assert books.budget.spent() == 100_000 + ELSEWHERE * 100_000 + 2 * ELSEWHERE * 100_000
    assert books.budget.permit(BRIEF) is None
    books.replies(one, costs=120_000)
    books.replies(two, costs=0)
    books.reads()
    assert books.budget.spent() == 220_000
    assert books.budget.permit(again(JOB)) is not None


def test_what_calls_in_flight_may_cost_is_held() -> None:
    """Of 0.25 USD, 0.03 are spent and 0.03 and thrice 0.06 held: what is read meanwhile frees nothing."""
    books = opened(250_000)
    assert books.makes(BRIEF, 30_000)
    flying = [books.budget.permit(again(BRIEF)) for _ in range(5)]
    assert [one is not None for one in flying] == [True, True, True, True, False]
    assert books.budget.spent() == 30_000 + 30_000 + 3 * 60_000
    books.reads()
    assert books.budget.permit(again(BRIEF)) is None
    assert books.budget.must_wait(again(BRIEF))
    for one in flying[:2]:
        assert one is not None
        books.replies(one, costs=30_000)
    books.reads()
    assert books.budget.spent() == 3 * 30_000 + 2 * 60_000
    assert books.budget.permit(again(BRIEF)) is None  # 0.04 USD are left, and 0.06 wanted
    assert books.budget.must_wait(again(BRIEF))


def test_a_reading_made_before_the_reply_shows_nothing() -> None:
    books = opened(1_000_000)
    assert books.budget.permit(BRIEF) is BRIEF
    asked = books.now
    books.replies(BRIEF, costs=30_000)
    body = {"data": {"cost": {"spent": "0", "resets_at": books.month}}}
    books.budget.saw(USAGE, Received(200, body, {}, asked, books.now + 1))
    assert books.budget.permit(again(BRIEF)) is None
    books.reads()
    assert books.budget.spent() == 30_000


def test_what_is_shown_before_the_reply_is_what_the_call_cost() -> None:
    books = opened(3 * UNSEEN_JOB)
    assert books.budget.permit(JOB) is JOB
    books.spent = 900_000
    books.reads()
    books.replies(JOB, job="job_1")
    books.reads()
    assert books.budget.spent() == 900_000
    assert books.budget.permit(again(JOB)) is not None
    assert books.budget.spent() == 2 * 900_000


def test_a_call_without_a_reply_is_held_for_a_while() -> None:
    books = opened(1_000_000)
    assert books.budget.permit(BRIEF) is BRIEF
    books.replies(BRIEF, status=0)
    books.reads()
    assert books.budget.permit(again(BRIEF)) is None
    books.now += LOST
    books.spent += 30_000
    books.reads()
    assert books.budget.permit(again(BRIEF)) is not None


def test_what_was_stopped_before_its_reply_is_held_for_a_while() -> None:
    books = opened(1_000_000)
    running = guarded(iter_of(BRIEF), books.budget)
    assert isinstance(running.send(None), Pause)
    assert running.send(books.now) is BRIEF
    running.close()
    assert books.budget.permit(again(BRIEF)) is None
    books.now += LOST + 1000
    books.reads()
    assert books.budget.permit(again(BRIEF)) is not None


def iter_of(send: Send) -> Generator[Any, Any, None]:
    yield send


def test_a_job_of_a_kind_never_seen_may_cost_a_dollar() -> None:
    books = opened(UNSEEN_JOB - 1)
    assert books.budget.permit(JOB) is None
    assert not books.budget.must_wait(JOB)
    books = opened(2 * UNSEEN_JOB)
    assert books.makes(JOB, 100_000)
    elsewhere = Send("jobs.create", "main", body={"kind": "crawl", "domain_id": "dom_2"})
    assert books.makes(elsewhere, 0)  # of pages that may be five times as many
    third = Send("jobs.create", "main", body={"kind": "crawl", "domain_id": "dom_3"})
    books.budget.cap = 100_000 + ELSEWHERE * 100_000
    assert books.budget.permit(third) is third
    fourth = Send("jobs.create", "main", body={"kind": "crawl", "domain_id": "dom_1"})
    assert books.budget.permit(fourth) is None  # its price is known, but the third goes alone


def test_the_first_briefs_are_few() -> None:
    """Nine keywords were the first call of all under a cap of 0.05 USD, and cost 0.27 USD."""
    books = opened(50_000)
    assert books.budget.permit(replace(BRIEF, body={"keywords": ["word"] * 9})) is None
    assert books.makes(BRIEF, 10_000)
    assert books.budget.permit(replace(BRIEF, body={"keywords": ["word"] * 5})) is None
    assert books.budget.permit(replace(BRIEF, body={"keywords": ["word"] * 4})) is not None


@pytest.mark.parametrize("cap", [2_000_000, 30_000_000, 1_000_000_000])
def test_many_keywords_of_unknown_price_are_not_asked_for(cap: int) -> None:
    """A brief of 500 keywords cost 100 USD, of a cap of 30: each of them was taken to cost 0.05."""
    books = opened(cap)
    many = replace(BRIEF, body={"keywords": ["word"] * 500})
    assert books.budget.permit(many) is None
    assert not books.budget.must_wait(many)
    assert books.makes(BRIEF, 200_000)
    assert (books.budget.permit(again(many)) is not None) == (cap > 100_000_000)


@pytest.mark.parametrize(
    "brief",
    [
        Send("keyword_briefs.create", "main", raw=b'{"keywords": ["a", "b", "c", "d", "e", "f"]}'),
        Send(
            "keyword_briefs.create",
            "main",
            body={"query": "mutation", "variables": {"keywords": ["word"] * 6}},
            surface="graphql",
        ),
    ],
    ids=["raw", "graphql"],
)
def test_keywords_are_counted_however_they_are_written(brief: Send) -> None:
    assert opened(1_000_000_000).budget.permit(brief) is None


def test_a_job_on_a_domain_that_was_there_before_may_cost_much() -> None:
    """A scan of 200 questions cost 6 USD, of a cap of 2."""
    scan = Send("jobs.create", "main", body={"kind": "ai_scan", "domain_id": "dom_old"})
    variables = {"query": "mutation", "variables": {"kind": "AI_SCAN", "domain": "dom_old"}}
    for asked in (scan, replace(scan, body=variables, surface="graphql")):
        books = opened(2_000_000)
        assert books.makes(JOB, 10_000)
        assert books.budget.permit(asked) is None
        assert not books.budget.must_wait(asked)
        books = opened(LARGE_JOB)
        assert books.makes(asked, 6_000_000)
        assert books.budget.permit(again(scan)) is None  # one like it is known to cost 6 USD now


def test_jobs_that_fail_as_the_target_says_are_taken_for_small_ones() -> None:
    failing = Send("jobs.create", "main", body={"kind": "crawl", "domain_id": "dom_old"})
    books = opened(2_000_000)
    assert books.budget.permit(failing) is None
    books.budget.prices.failing_domain = "dom_old"
    assert books.budget.permit(failing) is failing


def test_a_job_may_cost_more_once_its_domain_has_more_to_do() -> None:
    """A rank run of 0.012 USD cost 0.024 with a second scan, of 0.02 that were left."""
    run = Send("jobs.create", "main", body={"kind": "rank_run", "domain_id": "dom_1"})
    listing = Send("keyword_lists.create", "main", body={"domain_id": "dom_1", "name": "a"})
    words = Send("keywords.create", "main", body={"list_id": "list_1", "keywords": ["word"]})
    scan = Send("scans.create", "main", body={"domain_id": "dom_1", "list_ids": ["list_1"]})
    elsewhere = Send("scans.create", "main", body={"domain_id": "dom_2", "list_ids": []})
    for grows, permitted in ((words, False), (scan, False), (elsewhere, True)):
        books = opened(50_000)
        books.budget.saw(listing, Received(201, {"data": {"id": "list_1"}}, {}, 0, 0))
        assert books.makes(run, 12_000)
        assert books.makes(again(run), 12_000)
        assert books.makes(grows, 0)
        assert (books.budget.permit(again(run)) is not None) is permitted


def test_a_job_that_books_nothing_at_first_is_held_until_it_has_ended() -> None:
    books = opened(3 * UNSEEN_JOB)
    assert books.budget.permit(JOB) is JOB
    books.replies(JOB, job="job_1")
    books.reads()
    assert books.budget.permit(again(JOB)) is None
    wanted = books.budget.wanted(again(JOB), books.now + LOOKED)
    assert wanted is not None
    assert (wanted.operation, dict(wanted.path)) == ("jobs.get", {"kind": "crawl", "id": "job_1"})
    books.ends("job_1", costs=700_000)
    assert books.budget.permit(again(JOB)) is None
    books.reads()
    assert books.budget.spent() == 700_000
    assert books.budget.permit(again(JOB)) is not None
    assert books.budget.permit(again(JOB)) is not None
    assert books.budget.permit(again(JOB)) is None  # 0.7 + 0.7 + 2 × 0.7 + 2 × 0.7 of 3 USD


def test_what_was_spent_before_does_not_count() -> None:
    books = Books(Budget(cap=500_000))
    books.spent = 100_000_000
    books.reads()
    assert books.makes(BRIEF, 500_000)
    assert books.budget.permit(again(BRIEF)) is None
    assert books.budget.wanted(again(BRIEF), books.now) is None


def test_a_call_of_known_price_is_permitted_only_where_it_fits() -> None:
    books = opened(1_000_000)
    assert books.makes(BRIEF, 300_000)
    assert books.budget.permit(replace(BRIEF, body={"keywords": ["a", "b", "c"]})) is None
    assert books.budget.permit(replace(BRIEF, body={"keywords": ["a", "b"]})) is not None


def test_what_was_spent_before_the_month_turned_still_counts() -> None:
    books = opened(1_000_000)
    assert books.makes(BRIEF, 400_000)
    books.reads(spent=200_000)  # a job failed and gave back what was reserved for it
    assert books.budget.spent() == 400_000
    books.month, books.spent = "2026-05-01", 100_000
    books.reads()
    assert books.budget.spent() == 400_000 + 100_000
    assert books.makes(again(BRIEF), 400_000)
    assert books.budget.permit(again(BRIEF)) is None


def test_a_cost_that_is_no_number_says_nothing() -> None:
    budget = Budget(cap=1_000_000)
    for spent in ("Infinity", "NaN", "1e999999999", "much", None, [1]):
        budget.saw(USAGE, usage(spent))
        assert budget.permit(JOB) is None


def test_keys_of_one_account_share_what_it_spends() -> None:
    books = opened(1_000_000, main="acc_1", second="acc_1")
    books.spent = 600_000
    books.reads("second")
    assert books.budget.spent() == 600_000


@pytest.mark.fact("S1")
def test_an_id_names_another_account_in_each_environment() -> None:
    assert account_named("sandbox", "acc_1") != account_named("production", "acc_1")
    assert account_named("sandbox", "") == ""


def program() -> Generator[Any, Any, int]:
    granted = 0
    for number in range(30):
        answer = yield Send("jobs.create", "main", body={"kind": "crawl", "domain_id": f"dom_{number % 3}"})
        granted += answer.ok
        yield Pause(1)
    return granted


@given(
    st.lists(st.integers(0, 300_000), min_size=90, max_size=90),
    st.lists(st.integers(1, 400_000), min_size=30, max_size=30),
    st.integers(0, 4_000_000),
)
@settings(max_examples=60)
def test_the_cap_is_passed_by_one_call_at_most(prices: list[int], takes: list[int], cap: int) -> None:
    """Three programs side by side, calls of any price and length: beyond the cap lies one call at most.

    Those that follow a first one of its domain cost no more than it did.
    """
    budget, spent, now, granted = Budget(cap=cap), 0, 0, 0
    for number in range(3):
        made = {"data": {"id": f"dom_{number}"}}
        budget.saw(Send("domains.create"), Received(201, made, {}, 0, 0))
    costs, lengths = iter(prices), cycle(takes)
    known: dict[str, int] = {}
    ends: list[tuple[int, int, Any, Any, int]] = []
    for number in range(3):
        heappush(ends, (0, number, guarded(program(), budget), None, 0))
    over = []
    while ends:
        now, number, running, step, sent = heappop(ends)
        answer: Any = now
        if isinstance(step, Send) and step.operation == "account.usage":
            answer = Received(200, usage(str(spent / 1_000_000)).body, {}, sent, now)
        elif isinstance(step, Send) and step.operation == "jobs.create":
            assert step.body is not None
            domain, price = str(step.body["domain_id"]), next(costs)
            price = min(price, known.setdefault(domain, price))
            spent, granted = spent + price, granted + 1
            over += [price] if spent > cap else []
            job = {"id": f"job_{granted}", "kind": "crawl", "finished_at": None}
            answer = Received(202, {"data": job}, {}, sent, now)
        elif isinstance(step, Send):
            answer = Received(404, {}, {}, sent, now)
        elif step is None:
            answer = None
        with suppress(StopIteration):
            step = running.send(answer)
            length = step.duration if isinstance(step, Pause) else next(lengths)
            heappush(ends, (now + length, number, running, step, now))
    assert len(over) <= 1
    assert budget.spent() >= spent
    assert granted == 90 or budget.refused


def test_what_is_not_permitted_is_answered_like_silence() -> None:
    running = guarded(program(), Budget(cap=0))
    steps, answer = [], None
    for now in range(0, 90, 10):
        step = running.send(answer)
        steps.append(step)
        answer = now if isinstance(step, Pause) else usage("0")
    spending = [step for step in steps if isinstance(step, Send) and step.operation != "account.usage"]
    assert (spending, len(steps)) == ([], 9)
