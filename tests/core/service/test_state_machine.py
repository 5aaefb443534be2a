"""Random stories of one account, told to two services, one of which is saved and restored on the way."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, billing_month, month_end, week_end, week_start
from ranksim.core.rules import admission
from ranksim.core.service.calls import Call, Reply, StartJob
from ranksim.core.service.service import Service

SPENDING = ("jobs.create", "keyword_briefs.create", "keywords.create", "scans.create", "scans.update")
POOLED = ("crawl", "ai_scan")
BRIEF_COST = 500_000


def quotas(briefs: int, words: int, scans: int) -> dict[str, Any]:
    return {
        "keyword_brief_refreshes": {"limit": briefs, "period": "week", "consumed_by": ("keyword_briefs",)},
        "words": {"limit": words, "period": "month", "consumed_by": ("keywords",)},
        "ai_scans": {"limit": scans, "period": "month", "consumed_by": ("ai_scan",)},
    }


COOLDOWNS = {"rank_run": "1h", "crawl": "1d", "keywords": "1s"}
PLANS = {
    "desk": {"slot_limit": 4, "cost_ceiling": "6 USD", "quotas": quotas(5, 9, 1), "cooldowns": COOLDOWNS},
    "small": {
        "slot_limit": 3,
        "cost_ceiling": "3 USD",
        "quotas": quotas(2, 4, 1),
        "cooldowns": {},
        "dimensions": {"max_engine_devices": 1, "max_geographies": 1},
        "capabilities": ("rank_tracking", "keyword_briefs"),
    },
    "large": {
        "slot_limit": 40,
        "cost_ceiling": "40 USD",
        "quotas": quotas(20, 30, 9),
        "cooldowns": COOLDOWNS,
    },
}

POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"re_add": "counts_again", "cost_gate": "would_exceed", "cooldown_from": "finish"},
    {"narrowing": "freed", "cost_timing": "acceptance", "join": "never", "over_slots": "partial"},
    {"hold_identity": "scan_tuple", "cost_timing": "completion", "quota_refund": "on_failure"},
    {"scan_counts": "list_keyword", "quota_grant": "partial", "patch_checks": "all", "month": "calendar"},
    {"cooldown_scope": "account", "failed_run_arms": True, "week_offset": "-5h", "join": "after_checks"},
    {"cooldown_after_failure": "clear", "dimension_refusal": "slot_limit_exceeded", "cap": "refuse"},
)

some_words = st.lists(st.sampled_from(["a", "b", "c", "d", "A ", "e"]), min_size=1, max_size=3)
some_pairings = st.lists(st.sampled_from(["google/desktop", "google/mobile"]), min_size=1, max_size=2)
some_countries = st.lists(st.sampled_from(["DE", "FR"]), min_size=1, max_size=2, unique=True)
some_kinds = st.sampled_from(["rank_run", "crawl", "site_optimization", "ai_scan"])
which_one = st.integers(0, 5)
live_or_dry = st.sampled_from([False, False, True])


class Stories(RuleBasedStateMachine):
    """`desk` is never saved; `twin` hears the same story and is saved and restored now and then."""

    def __init__(self, open_desk: Any) -> None:
        super().__init__()
        self.open_desk = open_desk

    @initialize(assumptions=st.sampled_from(POLICIES), seed=st.integers(0, 3))
    def open(self, assumptions: dict[str, Any], seed: int) -> None:
        plain = self.open_desk.PLAN
        self.desk, self.twin = (
            self.open_desk(
                PLANS["desk"],
                assumptions=assumptions,
                catalogue={
                    "plans": {name: {**plain, **PLANS[name]} for name in ("small", "large")},
                    "job_failure_rates": {"rank_run": 300, "site_optimization": 300},
                },
                facts={"rates": {"read": 10**6, "write": 10**6, "expensive": 10**6}},
                pooled=POOLED,
                seed=seed,
                words=["a", "b"],
                scan=True,
            )
            for _ in range(2)
        )
        self.said = assumptions
        other = self.both(lambda desk: desk.new_list())
        self.lists = [self.desk.list, other]

    # Both services

    def both(self, do: Callable[[Any], Any]) -> Any:
        """Do the same on both desks, which must answer alike."""
        mine, twins = do(self.desk), do(self.twin)
        assert mine == twins
        return mine

    def call(self, operation: str, body: dict[str, Any] | None, id: str = "") -> Reply:
        """Make a call, and hold it to what a refusal, a dry run and a grant may do to the books."""
        desk = self.desk
        self.both(lambda one: one.at(one.now))
        before, standing = desk.picture(), self.standing()
        reply: Reply = self.both(lambda one: one.call(operation, body, id=id))
        if reply.code or reply.outcome == "dry_run":
            assert desk.picture() == before, reply
        elif operation in SPENDING and reply.outcome != "joined":
            self.within_the_plan(standing, self.standing())
        return reply

    def spend(self, operation: str, body: dict[str, Any], dry_run: bool) -> None:
        """Ask first, by a dry run; then the call, unless only the dry run is wanted."""
        told = self.call(operation, {**body, "dry_run": True})
        if dry_run or told.status != 200:
            return
        assert told.body is not None
        report = told.body["data"]
        reply = self.call(operation, body)
        assert reply.code == told.code == (report["refusal"] or {}).get("code", "")
        assert report["allowed"] is (reply.code == "")
        if report["would_join"]:
            assert reply.body is not None
            assert reply.body["data"]["id"] == report["would_join"]

    # The books, read

    @property
    def account(self) -> Any:
        return self.desk.service.state.accounts[self.desk.account]

    def standing(self) -> dict[str, tuple[int, int]]:
        """What is used of what, at this instant."""
        now, books = self.desk.now, self.account.books
        terms = self.desk.service._ctx.terms
        used = {name: (admission.used_at(now, m), m.limit) for name, m in self.account.meters.items()}
        used["slots"] = (books.active + admission.held_at(now, books), books.slot_limit)
        used["cost"] = (admission.spent_at(now, books, terms), books.ceiling)
        return used

    def within_the_plan(self, before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> None:
        """A grant passes no limit, unless a lowered plan already did; only a job may cross the ceiling."""
        for name, (used, limit) in after.items():
            if name == "cost" and self.said.get("cost_gate") != "would_exceed":
                assert used == before[name][0] or before[name][0] < limit
            else:
                assert used <= limit or used <= before[name][0], name

    # What happens

    @rule(kind=some_kinds, dry_run=live_or_dry)
    def job(self, kind: str, dry_run: bool) -> None:
        self.spend("jobs.create", {"kind": kind, "domain_id": self.desk.domain}, dry_run)

    @rule(words=some_words, dry_run=live_or_dry)
    def briefs(self, words: list[str], dry_run: bool) -> None:
        self.spend("keyword_briefs.create", {"domain_id": self.desk.domain, "keywords": words}, dry_run)

    @rule(words=some_words, which=which_one, dry_run=live_or_dry)
    def keywords(self, words: list[str], which: int, dry_run: bool) -> None:
        self.spend("keywords.create", {"list_id": self.lists[which % 2], "keywords": words}, dry_run)

    @rule(
        pairings=some_pairings,
        countries=some_countries,
        lists=which_one,
        active=st.booleans(),
        dry_run=live_or_dry,
    )
    def scan(
        self, pairings: list[str], countries: list[str], lists: int, active: bool, dry_run: bool
    ) -> None:
        body = {
            "domain_id": self.desk.domain,
            "list_ids": [self.lists[:1], self.lists[1:], self.lists][lists % 3],
            "engine_devices": pairings,
            "geographies": [{"country": country} for country in countries],
            "active": active,
        }
        self.spend("scans.create", body, dry_run)

    @rule(
        which=which_one,
        pairings=some_pairings | st.none(),
        countries=some_countries | st.none(),
        active=st.booleans() | st.none(),
    )
    def change_scan(
        self, which: int, pairings: list[str] | None, countries: list[str] | None, active: bool | None
    ) -> None:
        body: dict[str, Any] = {}
        if pairings is not None:
            body["engine_devices"] = pairings
        if countries is not None:
            body["geographies"] = [{"country": country} for country in countries]
        if active is not None:
            body["active"] = active
        scans = self.account.scans
        if scans:
            self.call("scans.update", body, scans[which % len(scans)])

    @rule(which=which_one, what=st.sampled_from(["keyword", "keyword", "scan"]))
    def remove(self, which: int, what: str) -> None:
        ids = self.account.keywords if what == "keyword" else self.account.scans
        if ids:
            assert self.call(f"{what}s.delete", None, ids[which % len(ids)]).status == 204

    @rule(chance=st.integers(1, 20))
    def remove_everything(self, chance: int) -> None:
        """Delete the domain, seldom, and begin with a new one."""
        if chance != 13:
            return
        assert self.call("domains.delete", None, self.desk.domain).status == 204
        domain = self.both(lambda desk: desk.new_domain("new.example"))
        self.desk.domain = self.twin.domain = domain
        self.lists = [self.both(lambda desk: desk.new_list()) for _ in range(2)]

    @rule(
        which=which_one, outcome=st.sampled_from(["done", "failed"]), cost=st.none() | st.integers(0, 10**6)
    )
    def end_a_job(self, which: int, outcome: str, cost: int | None) -> None:
        jobs = self.desk.service.state.jobs
        handed_out = [task.job for task in self.desk.tasks if isinstance(task, StartJob)]
        running = [job for job in handed_out if jobs[job].status in ("queued", "running")]
        if running:
            job = running[which % len(running)]
            self.both(lambda desk: desk.ended(job, outcome, cost))

    @rule(duration=st.sampled_from([SECOND, 10 * MINUTE, HOUR, DAY]))
    def wait(self, duration: int) -> None:
        self.both(lambda desk: desk.wait(duration))

    @rule(edge=st.sampled_from(["week", "month"]), off=st.sampled_from([-1, 0, 1]))
    def wait_for_a_reset(self, edge: str, off: int) -> None:
        now, anchor = self.desk.now, self.account.books.anchor
        offset = self.desk.service._ctx.terms.week_offset
        reset = week_end(now, offset) if edge == "week" else month_end(anchor, now)
        self.both(lambda desk: desk.at(max(now, reset + off)))

    @rule(plan=st.sampled_from(["desk", "small", "large"]))
    def change_plan(self, plan: str) -> None:
        self.both(lambda desk: desk.change_plan(plan))

    @rule(count=st.integers(0, 2))
    def set_add_on(self, count: int) -> None:
        self.both(lambda desk: desk.set_add_on("brief_pack", count))

    @rule(status=st.sampled_from(["active", "active", "past_due"]))
    def set_status(self, status: str) -> None:
        self.both(lambda desk: desk.set_status(status))

    @rule()
    def save_and_restore(self) -> None:
        twin = self.twin
        saved = twin.service.save()
        twin.service = Service.restore(saved, twin.policy, POOLED)
        assert twin.service.save() == saved == self.desk.service.save()

    @precondition(lambda self: self.account.scans)
    @rule(kind=some_kinds)
    def fork(self, kind: str) -> None:
        """What happens to a fork does not happen here, and the same happens to both."""
        desk, service = self.desk, self.desk.service
        before, forked = service.save(), service.fork()
        body = {"kind": kind, "domain_id": desk.domain}
        for number in range(2):
            call = Call("jobs.create", desk.key, body=body, request_id=f"fork {number}")
            step = forked.handle(call, desk.now)
            reply, tasks = step.reply, step.tasks
            forked.written(reply, desk.now)
            step = service.fork().handle(call, desk.now)
            same, same_tasks = step.reply, step.tasks
            if number == 0:
                assert (same, same_tasks) == (reply, tasks)
        forked.advance(desk.now + DAY)
        assert service.save() == before

    # What always holds

    @invariant()
    def active_slots_are_what_the_scans_track(self) -> None:
        state = self.desk.service.state
        tuples: list[tuple[str, ...]] = []
        for scan in (state.scans[scan] for scan in self.account.scans):
            words = [word for which in scan.lists for word in state.keyword_lists[which].words]
            if self.said.get("scan_counts") != "list_keyword":
                words = list(set(words))
            if scan.active:
                tuples += [(w, p, g) for w in words for p in scan.engine_devices for g in scan.geographies]
        assert self.account.books.active == len(tuples)

    @invariant()
    def held_slots_are_the_holds(self) -> None:
        held = admission.held_at(self.desk.now, self.account.books)
        if held:
            assert held == sum(self.account.holds.values())
            assert min(self.account.holds.values()) > 0
        assert held >= 0

    @invariant()
    def cost_is_that_of_the_months_work(self) -> None:
        now, books, state = self.desk.now, self.account.books, self.desk.service.state
        start, end = billing_month(books.anchor, now)
        jobs = [job for job in state.jobs.values() if start <= job.created_at < end]
        unfinished = sum(job.estimate for job in jobs if job.status in ("queued", "running"))
        finished = sum(job.cost for job in jobs)
        briefs = BRIEF_COST * sum(start <= brief.created_at < end for brief in state.briefs.values())
        timing = self.said.get("cost_timing", "reserve")
        if timing == "acceptance":
            finished = sum(job.estimate for job in jobs)
        assert admission.settled_at(now, books) == finished + briefs
        assert admission.reserved_at(now, books) == (unfinished if timing == "reserve" else 0)

    @invariant()
    def allowances_are_what_their_period_made(self) -> None:
        now, state = self.desk.now, self.desk.service.state
        week = week_start(now, self.desk.service._ctx.terms.week_offset)
        month, _ = billing_month(self.account.books.anchor, now)
        briefs = sum(brief.created_at >= week for brief in state.briefs.values())
        refunds = self.said.get("quota_refund") == "on_failure"
        scans = sum(
            job.kind == "ai_scan" and job.created_at >= month and not (refunds and job.status == "failed")
            for job in state.jobs.values()
        )
        used = {name: used for name, (used, _) in self.standing().items()}
        assert (used["keyword_brief_refreshes"], used["ai_scans"]) == (briefs, scans)

    def teardown(self) -> None:
        if hasattr(self, "desk"):
            assert self.desk.tasks == self.twin.tasks
            assert self.desk.service.save() == self.twin.service.save()


@pytest.mark.slow
@pytest.mark.fact("S59", "S63", "S66", "E11", "E12", "E16", "E17", "E49", "U45", "U89")
def test_any_story(open_desk: Any) -> None:
    run_state_machine_as_test(
        lambda: Stories(open_desk),
        settings=settings(
            max_examples=300,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
