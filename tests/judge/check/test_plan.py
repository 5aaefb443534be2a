"""What a check plans from what it reads: tasks, what they cannot decide, and what they use up."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from ranksim.bridges.rehearsal import Rehearsal
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.callers.steps import Received, Send
from ranksim.core.callers.target import Target
from ranksim.core.clock import HOUR, MINUTE, SECOND, instant
from ranksim.core.errors import BadInput
from ranksim.judge.check.choice import Rounds, choose, gain_in_cases, open_cases, turns, worth
from ranksim.judge.check.plan import CheckPlan, check_runs, make_plan
from ranksim.judge.check.plan_text import plan_lines
from ranksim.judge.check.tasks import alternate_keys, tasks
from ranksim.judge.conformance.compare import RULES, compare
from ranksim.judge.conformance.verdict.rule import Rule
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally, Verdict
from ranksim.judge.deployment.discovery import LISTS, Reach, explore, state
from ranksim.judge.profiles.profile import Needs

ALL = ("main", "second", "scoped", "other", "test", "late", "tight")


@cache
def reached(*keys: str, environments: int = 2) -> Reach:
    """What a world with these keys can exercise."""
    service, target = make_world(seed=1)
    urls = dict(list(target.environments.items())[:environments])
    target = target.model_copy(
        update={"keys": {name: target.keys[name] for name in keys}, "environments": urls}
    )
    reach: Reach = Rehearsal(service, target).alone(explore(target))
    return reach


def planned(reach: Reach, *only: str, time: int = 10 * MINUTE, receiver: bool = True) -> CheckPlan:
    return make_plan(reach, RULES, time, only, receiver=receiver)


def with_target(reach: Reach, **changes: object) -> Reach:
    return replace(reach, target=reach.target.model_copy(update=changes))


def test_one_key_does_all_but_what_wants_others() -> None:
    names = [task.name for task in tasks(reached("main", environments=1))]
    assert names == [
        *("smoke", "limits", "bursts", "scope", "breadth", "walk", "endpoints", "ladder of main"),
        *("cooldowns", "burst", "retry", "webhooks", "race", "everyday", "windows", "webhooks-long"),
        *("last", "ceiling of main"),
    ]


def test_without_a_key_that_works_there_is_nothing_to_do() -> None:
    assert tasks(Reach(Target.simple("http://127.0.0.1:9", "rk_1"))) == []


def test_each_key_has_a_ladder_and_windows_are_probed_by_the_second_key() -> None:
    found = {task.name: task for task in tasks(reached(*ALL))}
    assert {name for name in found if name.startswith("ladder")} == {
        f"ladder of {key}" for key in ALL if key != "second"
    }
    assert found["burst"].alone == {"second"}
    [program] = found["ladder of tight"].programs(reached(*ALL), 1)
    assert next(program).key == "tight"


def test_a_key_stands_in_for_the_main_one_and_the_main_one_for_it() -> None:
    reach = reached(*ALL).with_main("second")
    assert (reach.main, [key.name for key in reach.of("second")]) == ("second", ["main"])
    assert reached(*ALL).with_main("main") == reached(*ALL)


def test_what_spends_is_sent_by_turns_and_what_is_sent_again_with_the_same_key() -> None:
    """An Idempotency-Key may belong to the API key: under another one the work would be done twice."""
    one = Send("jobs.create", "main", body={}, idempotency_key="one")
    other, read = replace(one, idempotency_key="other"), Send("jobs.list", "main")
    program = (step for step in (one, one, read, other, other, one))
    sent = list(alternate_keys(program, ("spare",)))
    assert [step.key for step in sent] == ["main", "main", "main", "spare", "spare", "main"]


def test_tasks_that_want_a_key_or_an_account_alone_are_not_beside_others() -> None:
    one = {task.name: task for task in tasks(reached("main", environments=1))}
    assert not one["burst"].beside(one["walk"])
    assert not one["ladder of main"].beside(one["race"])
    assert one["walk"].beside(one["race"])
    many = {task.name: task for task in tasks(reached(*ALL))}
    assert many["burst"].beside(many["ladder of main"])
    assert many["ladder of late"].beside(many["everyday"])
    assert many["ladder of main"].beside(many["ladder of late"])


# What cannot be decided


def held_back(plan: CheckPlan) -> set[str]:
    return {rule for rule in plan.rules if plan.held_back(rule)}


def test_what_other_keys_would_decide_is_said() -> None:
    hours = {"idempotency.retention", "webhook.six_attempts"}
    assert held_back(planned(reached(*ALL))) == hours | {"header.deprecation"}
    alone = planned(reached("main", environments=1))
    assert held_back(alone) >= {
        "access.scope",
        "access.scoped_endpoints",
        "access.environment",
        "rate.per_key",
        "guards.health",
        "idempotency.retention",
    }
    said = "\n".join(plan_lines(alone))
    assert "not guards.health: no key's account is past due; wants a key with `purpose: past_due`" in said
    assert "not access.scope, access.scoped_endpoints, access.scoped_writes: no key is bound to one" in said
    assert f"can decide {len(alone.decidable)} of {len(RULES)} rules with these keys in 1h" in "\n".join(
        plan_lines(replace(alone, time=HOUR))
    )


def test_it_is_said_whose_calls_are_refused_meanwhile() -> None:
    at_limits = "key second will be at its rate limits for about 3m4s (a burst, rate limits): others with it "
    others = "else tasks leave 1 in 10 calls of each rate limit to others with these keys"
    ceiling = "what spends is refused on"
    said = "\n".join(plan_lines(planned(reached(*ALL))))
    assert (at_limits in said, others in said, ceiling in said) == (True, True, True)
    assert "key main will be at its rate limits" in "\n".join(plan_lines(planned(reached("main"))))
    brief = "\n".join(plan_lines(planned(reached(*ALL), time=2 * MINUTE)))
    assert "key second will be at its rate limits for about 4s (a burst): others with it" in brief
    assert others in brief
    capped = "\n".join(plan_lines(planned(with_target(reached(*ALL), spend_cap=2_000_000))))
    assert (at_limits in capped, ceiling in capped) == (True, False)
    read = planned(with_target(reached(*ALL), dry_run_only=True, read_only=True))
    assert "with these keys" not in "\n".join(plan_lines(read)).replace("rules with these keys in 10m", "")


def test_settings_and_hours_hold_rules_back() -> None:
    reach = reached(*ALL)
    assert held_back(planned(reach, receiver=False)) > {"webhook.sent", "webhook.test"}
    assert "webhooks" not in [task.name for task in planned(reach, receiver=False).tasks]
    dry = held_back(planned(with_target(reach, dry_run_only=True)))
    assert dry >= {"quota.refused", "guards.health", "guards.slots", "slots.refused", "error.meta"}
    assert "slots.limit" in dry  # it wants two calls at once, for real
    assert not {"dry_run.verdict", "guards.reads"} & dry
    one = held_back(planned(with_target(reached("main", environments=1), dry_run_only=True)))
    assert one >= {"guards.reads", "slots.limit"}
    assert "paging.once" in one
    key = reached("main").keys["main"]
    longer = replace(key, reads=key.reads | {"webhooks.list": [{"id": f"whk_{n}"} for n in range(8)]})
    full = with_target(replace(reached("main"), keys={"main": longer}), dry_run_only=True)
    assert "paging.once" not in held_back(planned(full))
    none = held_back(planned(with_target(reach, dry_run_only=True, use_domains=())))
    assert none - dry == {
        "rate.expensive",
        "dry_run.free",
        "dry_run.order",
        "dry_run.queues",
        "dry_run.verdict",
    }
    key = reached("main").keys["main"]
    empty = replace(key, reads=key.reads | {name: [] for name in LISTS})
    nothing = with_target(replace(reached("main"), keys={"main": empty}), dry_run_only=True)
    assert {"paging.once", "paging.default"} <= held_back(planned(nothing))
    read = planned(with_target(reach, dry_run_only=True, read_only=True, limit_share=5))
    assert held_back(read) - dry == {
        *("rate.read", "rate.expensive", "rate.retry_after", "rate.retry_after_honoured"),
        "rate.traffic_only",
        *("dry_run.free", "dry_run.order", "dry_run.queues", "dry_run.verdict"),
    }
    assert {task.name for task in read.tasks} == {"scope", "breadth", "everyday", "walk"}
    said = "\n".join(plan_lines(read))
    assert "at most 5 % of each rate limit of a key; where others use more, it waits" in said
    assert "no more than 5 % of a rate limit is used with --read-only" in said
    assert "dry_run.free, dry_run.queues, dry_run.verdict, dry_run.order: no dry runs are sent" in said
    assert "slots.refused" in held_back(planned(with_target(reach, exclusive=False)))
    fast = planned(with_target(reach, time_scale=240), time=HOUR)
    assert held_back(fast) == {"header.deprecation"}
    assert "webhooks-long" in [task.name for task in fast.runs]


# What stated numbers hide


def stating(time: int = 10 * MINUTE, **reads: object) -> str:
    """The plan of one key whose account states these numbers, by operation (with _ for its dot)."""
    reach = reached("main", environments=1)
    known = dict(reach.keys["main"].reads)
    for name, changed in reads.items():
        operation = name.replace("_", ".", 1)
        known[operation] = known[operation] | changed if isinstance(changed, dict) else changed
    key = replace(reach.keys["main"], reads=known)
    now = instant("2026-03-10T12:00:00Z")
    return "\n".join(plan_lines(planned(replace(reach, keys={"main": key}, date=now), time=time)))


def cooling(**seconds: int) -> dict[str, object]:
    return {"cooldown_seconds": {"rank_run": 20, "crawl": 40, "site_optimization": 30, **seconds}}


def test_cooldowns_whose_end_is_not_waited_for_are_named() -> None:
    assert "what follows the cooldown" not in stating(account_entitlements=cooling())
    said = stating(account_entitlements=cooling(crawl=86_400, site_optimization=301))
    assert (
        "  of cooldown.refused, cooldown.stated not what follows the cooldown of crawl, site_optimization: "
        "it lasts longer than a check waits, 5m (crawl 1d, site_optimization 5m1s); wants a key of a plan"
    ) in said
    assert "crawl 40s" in stating(time=30 * SECOND, account_entitlements=cooling())
    some = stating(account_entitlements=cooling(crawl=0))
    assert "not the cooldown of crawl: no plan of these keys states one" in some
    none = stating(account_entitlements=cooling(rank_run=0, crawl=0, site_optimization=0))
    assert (
        "  not cooldown.enforced, cooldown.refused, cooldown.stated: no plan of these keys states a" in none
    )
    assert "account.entitlements" in reached("main").keys["main"].reads


def test_a_month_that_does_not_turn_meanwhile_is_named() -> None:
    cost = {"spent": "0", "ceiling": "1", "resets_at": "2026-03-30T12:00:00Z"}
    slots = {"resets_at": "2026-03-10T12:09:00Z"}
    said = stating(account_usage={"cost": cost, "metrics": []}, slots_get=slots)
    assert "  of cost not what begins anew as a month or a week turns: the nearest reset is 20d away" in said
    soon = {**cost, "resets_at": "2026-03-10T12:05:00Z"}
    assert "begins anew" not in stating(account_usage={"cost": soon, "metrics": []}, slots_get=slots)


def test_a_ceiling_that_a_checks_jobs_may_not_reach_is_named() -> None:
    usage = {"cost": {"spent": "10.00", "ceiling": "90.00", "resets_at": "2026-03-30T12:00:00Z"}}
    said = stating(account_usage=usage)
    assert (
        "of guards.ceiling, cost.refused, cost.meta not what comes at a ceiling, where a job costs less than "
        "0.80 USD: 80.00 USD are left under the ceiling, and 100 jobs are started at most"
    ) in said
    near = {"cost": {**usage["cost"], "spent": "89.00"}}
    assert "what comes at a ceiling" not in stating(account_usage=near)


def test_limits_that_no_call_comes_up_to_hold_rules_back() -> None:
    metrics = [{"metric": "keyword_brief_refreshes", "limit": 100_000, "used": 0}]
    said = stating(slots_get={"limit": 160_000, "used": 0}, account_usage={"metrics": metrics})
    assert ": 160,000 slots are free at least, and one call asks for 36,000 at most; wants a key" in said
    assert ": 100,000 briefs are left at least, and one call asks for 9,000 at most; wants a key" in said
    assert "slots are free" not in stating(slots_get={"limit": 35_000, "used": 0})


def test_jobs_that_take_longer_than_a_check_are_named() -> None:
    job = {"created_at": "2026-03-10T10:00:00Z", "finished_at": "2026-03-10T10:20:00Z"}
    assert "not how a job ends: the jobs that are listed took 20m at least" in stating(jobs_list=[job])
    quick = {**job, "finished_at": "2026-03-10T10:00:05Z"}
    assert "how a job ends" not in stating(jobs_list=[job, quick])


def test_the_deployments_own_clock_is_read() -> None:
    def answers() -> Reach:
        program = explore(Target.simple("http://127.0.0.1:9", "rk_1"))
        send = next(program)
        try:
            while True:
                dated = {"Date": "Tue, 10 Mar 2026 12:00:00 GMT"} if send.key == "" else {}
                send = program.send(Received(401, {}, dated, 0, 0))
        except StopIteration as end:
            found: Reach = end.value
            return found

    assert answers().date == instant("2026-03-10T12:00:00Z")


def test_only_some_rules() -> None:
    plan = planned(reached(*ALL), "rate", "webhook.sent")
    assert len(plan.rules) == 11
    assert {task.name for task in plan.tasks} == {
        "breadth",
        "burst",
        "limits",
        "windows",
        "everyday",
        "endpoints",
        "webhooks",
        "webhooks-long",
    }
    with pytest.raises(BadInput, match=r"--only: no rule is named 'rates'; .*; did you mean 'rate'\?"):
        planned(reached(*ALL), "rates")


def test_rules_are_named_by_facts_too() -> None:
    assert planned(reached("main"), "S105").rules == ("rate.remaining", "rate.headers")


def promised(plan: CheckPlan) -> int:
    [said] = [line for line in plan_lines(plan) if line.startswith("can decide ")]
    return int(said.split()[2])


def test_what_can_be_decided_is_what_can_in_this_time() -> None:
    reach = reached("main", environments=1)
    found = [promised(planned(reach, time=time)) for time in (MINUTE, 3 * MINUTE, 10 * MINUTE, HOUR)]
    assert found[0] < found[1] < found[2] <= found[3]
    assert found[3] == len(planned(reach, time=HOUR).decidable)
    short = planned(reach, "rate.read", "paging", time=3 * MINUTE)
    said = plan_lines(short)
    assert "can decide 7 of 8 rules with these keys in 3m" in said
    where = "bursts of writes and reads, rate limits, how rates are limited"
    assert f"  not rate.read: no time for {where}; wants --time 6m" in said
    assert "can decide 8 of 8 rules with these keys in 6m" in plan_lines(replace(short, time=6 * MINUTE))


def test_where_no_task_can_be_run_there_is_no_check() -> None:
    reach = reached("main", environments=1)
    with pytest.raises(BadInput, match=r"--time: expected more than 1m, of which .* leave 45s for tasks"):
        check_runs(planned(reach, "webhook.sent", time=MINUTE))
    check_runs(planned(reach, "paging", time=MINUTE))


def test_what_is_sought_has_tasks_begun_for_it_though_it_may_not_be_there() -> None:
    plan = planned(reached("main", environments=1), "header.deprecation", "access.scope")
    assert plan.decidable == []
    breadth = next(task for task in plan.tasks if task.name == "breadth")
    scope = next(task for task in plan.tasks if task.name == "scope")
    assert gain_in_cases(plan, breadth, dict.fromkeys(plan.rules, 1)) == 1
    assert gain_in_cases(plan, scope, dict.fromkeys(plan.rules, 1)) == 0


def test_rules_that_reading_shows_are_decided_without_a_task() -> None:
    service, target = make_world(seed=1)
    target = target.model_copy(update={"keys": {"main": target.keys["main"]}})
    rehearsal = Rehearsal(service, target)
    reach = rehearsal.alone(explore(target))
    for _ in range(2):
        rehearsal.alone(state(reach))
    found = compare(rehearsal.finish(reach)).findings
    assert {one.rule.name for one in found if one.verdict == Verdict.CONFORMS} >= {
        rule.name for rule in RULES if rule.by_reading
    }


def test_what_it_takes_is_said() -> None:
    said = plan_lines(planned(reached(*ALL)))
    assert said[0] == "key main: full of acc_0000000001, production"
    [uses] = [line for line in said if line.startswith("asks for at most")]
    assert "slots stay held to the month's end" in uses
    [money] = [line for line in said if line.startswith("money: ")]
    assert money.startswith("money: no --spend-cap bounds it, the ceilings of these accounts at ")
    capped = plan_lines(planned(with_target(reached(*ALL), spend_cap=2_000_000)))
    assert any("money: stops spending at 2.00 USD" in line for line in capped)
    assert any("no job runs on the domains of `use_domains`" in line for line in capped)
    none = plan_lines(planned(with_target(reached(*ALL), spend_cap=2_000_000, use_domains=())))
    assert not any("no job runs on the domains" in line for line in none)
    changes_nothing = "spends, makes, changes and removes nothing: it reads, and sends dry runs "
    careful = with_target(reached(*ALL), dry_run_only=True, use_domains=("dom_1",))
    assert f"{changes_nothing}of jobs on dom_1" in plan_lines(planned(careful))
    careful = with_target(careful, use_domains=())
    assert f"{changes_nothing}on no domain, as `use_domains` names none" in plan_lines(planned(careful))
    [long] = [line for line in said if line.startswith("  not webhook retries of hours")]
    assert long.endswith("; would want --time 9h44m")


def test_what_stays_for_good_is_said() -> None:
    reach = reached("main", environments=1)
    stays = dict.fromkeys(("domains.delete", "keyword_lists.delete"), "405 method_not_allowed")
    kept = plan_lines(planned(replace(reach, lacks={**reach.lacks, **stays, "scans.delete": "501"})))
    assert (
        "cannot be removed again there: domains, keyword lists (405 method_not_allowed); scans (501); "
        "what is made of them stays, with its mark"
    ) in kept
    assert not any("cannot be removed" in line for line in plan_lines(planned(reach)))


def test_a_domain_that_may_be_used_and_that_no_key_lists_is_said() -> None:
    reach = reached("main", "scoped")
    told = "no key lists the domain {}, which the target says may be used: it is not"
    said = plan_lines(planned(with_target(reach, use_domains=("dom_9",), failing_domain="dom_8")))
    assert {told.format("dom_8"), told.format("dom_9")} <= {*said}
    seen = reach.keys["main"].ids("domains.list")
    assert not any("may be used" in one for one in plan_lines(planned(with_target(reach, use_domains=seen))))


def test_that_jobs_fail_by_chance_alone_is_said() -> None:
    said = "\n".join(plan_lines(planned(reached("main"))))
    why = "where a job fails, but by chance: no domain is named whose jobs fail; wants `failing_domain` in"
    assert why in said
    domain = reached("main").keys["main"].ids("domains.list")[0]
    assert why not in "\n".join(plan_lines(planned(with_target(reached("main"), failing_domain=domain))))


def test_one_of_a_thing_is_one() -> None:
    plan = planned(reached(*ALL), "webhook", time=MINUTE)
    [task] = [task for task in plan.tasks if task.name == "webhooks"]
    once = replace(task, needs=Needs(SECOND, jobs=1, slots=2))
    assert "asks for at most 1 job, 2 slots; " in "\n".join(plan_lines(replace(plan, tasks=(once,))))


def test_amounts_are_those_of_all_rounds_too() -> None:
    plan = planned(reached("main", environments=1), "webhook", "rate")
    once = sum(task.needs.jobs for task in plan.runs)
    said = "\n".join(plan_lines(plan))
    assert f"asks for at most {once} jobs" in said
    most = sum(task.needs.jobs * min(3, (plan.for_calls) // task.needs.length) for task in plan.runs)
    assert f"with further rounds, for what is undecided then: {most} jobs" in said
    assert most > once


def test_what_gets_no_turn_is_said_with_the_time_that_it_would_want() -> None:
    plan = planned(reached(*ALL), time=6 * MINUTE)
    in_time = turns(plan, plan.for_calls)
    assert "race" not in in_time
    [said] = [line for line in plan_lines(plan) if line.startswith("  not races")]
    assert "what matters more comes first; would want --time " in said
    assert "race" in turns(plan, HOUR)


def test_what_accounts_have_is_said_and_who_gets_it() -> None:
    """Of two slots and two briefs, which more tasks want."""
    said = plan_lines(planned(reached(*ALL)))
    start = said.index(
        "  account production acc_0000000132 has 2 briefs left: 1 for the six checks (key tight), "
        "1 for the last slots and briefs"
    )
    assert said[start + 1] == "    the six checks (key tight) would want 1 more"


# What to begin next


def test_nothing_comes_again_before_it_is_known_what_is_undecided() -> None:
    plan = planned(reached("main", environments=1), "webhook.sent")
    rounds = Rounds.of(plan)
    endpoints, webhooks = rounds.next(10 * MINUTE), rounds.next(10 * MINUTE)
    assert webhooks is not None
    assert endpoints is not None
    assert rounds.next(10 * MINUTE) is None
    assert (rounds.ended(1), rounds.ended(2)) == (endpoints, webhooks)
    assert rounds.next(10 * MINUTE) is None
    rounds.undecided, rounds.again = {"webhook.sent": 1}, True
    assert rounds.next(10 * MINUTE) is webhooks
    assert (rounds.begun["webhooks"], rounds.needless()) == (2, [])
    rounds.undecided = {}
    assert rounds.needless() == [rounds.number]


def test_what_comes_again_does_not_slow_down_what_runs_for_the_first_time() -> None:
    plan = planned(reached("main", environments=1))
    by_name = {task.name: task for task in plan.tasks}
    rounds = {task.name: 1 for task in plan.tasks}
    undecided = {"webhook.sent": 1}
    assert choose(plan, [by_name["everyday"]], rounds, undecided, plan.time) is None
    again = choose(plan, [by_name["everyday"]], {**rounds, "everyday": 2}, undecided, plan.time)
    assert again is not None
    assert again.name == "webhooks"


def test_what_ends_spending_on_an_account_comes_after_all_that_spends_there_and_keeps_nothing_waiting() -> (
    None
):
    plan = planned(reached("main", environments=1), time=HOUR)
    by_name = {task.name: task for task in plan.tasks}
    undecided = {"guards.ceiling": 9, "webhook.sent": 1}
    rounds = {task.name: 1 for task in plan.tasks if task.name not in ("ceiling of main", "webhooks")}
    chosen = choose(plan, [], rounds, undecided, plan.time)
    assert chosen is by_name["webhooks"]
    rounds["webhooks"] = 1
    assert choose(plan, [chosen], rounds, undecided, plan.time, again=False) is None
    assert choose(plan, [], rounds, undecided, plan.time, again=False) is by_name["ceiling of main"]


def test_beside_the_climb_of_an_account_near_its_limits_others_spend_there() -> None:
    found = {task.name: task for task in tasks(reached(*ALL))}
    assert not found["ceiling of tight"].beside(found["ladder of tight"])
    assert found["ceiling of tight"].beside(found["race"])
    assert "ceiling of main" not in found  # which nobody pays for where another one is near


def test_what_matters_comes_first_and_what_wants_its_account_quiet_is_kept_waiting_by_nothing_later() -> None:
    plan = planned(reached(*ALL))
    undecided, running = dict.fromkeys(plan.rules, 1), []
    while (task := choose(plan, running, {one.name: 1 for one in running}, undecided, plan.time)) is not None:
        running.append(task)
    names = [task.name for task in running]
    assert names[:2] == ["smoke", "limits"]
    assert not {"ladder of main", "everyday", "race", "last"} & {*names}
    done = [task for task in running if task.name not in ("smoke", "breadth", "scope")]
    later = choose(plan, done, dict.fromkeys(names, 1) | {"breadth": 1}, undecided, plan.time)
    assert later is not None
    assert later.name == "ladder of main"


def test_the_last_units_are_asked_for_once_nothing_else_wants_them_or_before_time_is_over() -> None:
    plan = planned(reached("main", environments=1))
    undecided = dict.fromkeys(plan.rules, 1)
    rest = {task.name: 1 for task in plan.tasks if task.name not in ("last", "ceiling of main")}
    chosen = choose(plan, [], rest, undecided, 5 * MINUTE)
    assert chosen is not None
    assert chosen.name == "last"
    busy = next(task for task in plan.tasks if task.name == "everyday")
    hurried = choose(plan, [busy], {"everyday": 1}, undecided, 70 * SECOND)
    assert hurried is chosen


def test_what_does_not_fit_the_time_or_the_running_tasks_is_not_begun() -> None:
    plan = planned(reached("main", environments=1), "rate")
    undecided = dict.fromkeys(plan.rules, 1)
    by_name = {task.name: task for task in plan.tasks}
    both = [by_name["everyday"], by_name["breadth"]]
    begun = dict.fromkeys(("everyday", "breadth"), 1)
    assert choose(plan, both, begun, undecided, plan.time, again=False) is None
    long = replace(plan, time=HOUR)
    assert choose(long, both, begun, undecided, HOUR, again=False) is None  # a burst wants the key alone
    chosen = choose(long, [], begun, undecided, HOUR, again=False)
    assert chosen is not None
    assert chosen.name == "burst"
    assert choose(long, [], begun, undecided, SECOND, again=False) is None


def test_the_ceiling_comes_while_there_is_time_for_it_after_the_last_units() -> None:
    """Both before what spends and was not begun, once just their time is left."""
    plan = planned(reached("main", environments=1))
    by_name = {task.name: task for task in plan.tasks}
    assert by_name["ceiling of main"].needs.length == 150 * SECOND  # few dollars are left
    begun, undecided = dict.fromkeys(("smoke", "limits", "bursts"), 1), dict.fromkeys(plan.rules, 1)
    [early, late] = [choose(plan, [], begun, undecided, left) for left in (5 * MINUTE, 210 * SECOND)]
    assert (early, late) == (by_name["scope"], by_name["last"])
    assert choose(plan, [], begun | {"last": 1}, undecided, 200 * SECOND) is by_name["ceiling of main"]
    busy = [by_name["ladder of main"]]
    assert choose(plan, busy, begun, undecided, 210 * SECOND) is not by_name["last"]


def test_a_task_comes_again_only_for_what_is_undecided_and_keeps_no_first_one_waiting() -> None:
    plan = planned(reached(*ALL), "webhook", "rate")
    rounds = {task.name: 1 for task in plan.tasks}
    assert choose(plan, [], rounds, {}, plan.time) is None
    chosen = choose(plan, [], rounds, {"webhook.sent": 2}, plan.time)
    assert chosen is not None
    assert chosen.name == "webhooks"
    often = {**rounds, "webhooks": 3, "endpoints": 3}
    assert choose(plan, [], often, {"webhook.sent": 2}, plan.time) is None
    assert gain_in_cases(plan, chosen, {"webhook.sent": 2, "rate.read": 7}) == 2
    held = planned(reached(*ALL), "webhook", receiver=False)
    assert gain_in_cases(held, chosen, {"webhook.sent": 2}) == 0


def test_what_decides_most_for_its_time_and_cost_comes_again_first() -> None:
    plan = planned(reached(*ALL))
    rounds, undecided = {task.name: 1 for task in plan.tasks}, dict.fromkeys(plan.rules, 1)
    first = choose(plan, [], rounds, undecided, plan.time)
    assert first is not None
    assert all(worth(plan, first, undecided) >= worth(plan, task, undecided) for task in plan.runs)


def test_a_task_that_waits_for_its_instant_alone_keeps_a_check_going() -> None:
    """With one key, the burst of expensive calls comes after a minute (S104)."""
    plan = planned(reached("main", environments=1), "rate.expensive", time=3 * MINUTE)
    rounds = Rounds.of(plan)
    rounds.begun.update(task.name for task in plan.tasks if task.name != "limits")
    waits = plan.for_calls - 30 * SECOND
    assert (rounds.next(waits), rounds.later(waits)) == (None, True)
    begun = rounds.next(plan.for_calls - MINUTE)
    assert begun is not None
    assert begun.name == "limits"
    assert not rounds.later(plan.for_calls - MINUTE)
    assert not Rounds.of(replace(plan, time=MINUTE)).later(SECOND)


def test_open_cases_are_those_that_nothing_decided() -> None:
    rules = [Rule(name, "…", (), cases=cases) for name, cases in (
        ("a.one", ("x", "y", "z")), ("a.two", ()), ("a.three", ()), ("a.four", ("x",)),
    )]  # fmt: skip
    tally = Tally(rules)
    tally.held("a.one", case="x")
    tally.held("a.two")
    tally.broke("a.three", Evidence("it broke"))
    assert open_cases(tally.findings()) == {"a.one": 2, "a.four": 1}
