"""A plan in words: what it can decide, how long it takes, and what it uses up at most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ranksim.core.clock import Micros
from ranksim.judge.check.choice import rounds_in, times_for, turns
from ranksim.judge.check.pacing import SHARE, SPARE
from ranksim.judge.check.plan import CheckPlan
from ranksim.judge.check.ration import BRIEFS, SLOTS, Ration
from ranksim.judge.check.tasks import PROBES, CheckTask
from ranksim.judge.conformance.compare import RULE_NAMED
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.deployment.prices import LARGE_JOB, micros_of, spent_amount
from ranksim.judge.load.leaked_resources import staying
from ranksim.judge.report.run_summary import amounts
from ranksim.report import units

BURSTS = ("limits", "bursts", *PROBES)
"""Profiles that use up what a key may call in a minute."""

FEW = 4
"""So many rules are named one by one, more by their families."""


def plan_lines(plan: CheckPlan) -> list[str]:
    """Return the plan as lines of text."""
    reach, target, time = plan.reach, plan.reach.target, units.duration(plan.time)
    in_time = turns(plan, plan.for_calls)
    runs = [task for task in plan.tasks if task.name in in_time]
    waiting, times = _waiting(plan, runs), times_for(plan, [task for task in plan.tasks if task not in runs])
    decidable = len(plan.decidable) - sum(map(len, waiting.values()))
    texts = [f"{_key(key)}" for key in reach.keys.values()]
    texts.append(f"can decide {decidable} of {units.many(len(plan.rules), 'rule')} with these keys in {time}")
    texts += _held_back(plan)
    for tasks, rules in waiting.items():
        would = min(times[task.name] for task in tasks)
        names = ", ".join(task.title for task in tasks)
        texts.append(f"  not {', '.join(rules)}: no time for {names}; wants --time {units.duration(would)}")
    texts += _in_part(plan)
    texts.append(f"takes at most {time}, in this order" if runs else f"{time}: no task has the time")
    texts += [f"  {units.duration(task.needs.length)} {task.title}: {task.aim}" for task in runs]
    texts += _no_turn(plan, times)
    texts += _spending(plan)
    texts += _refused(runs, reach)
    texts += staying(reach.lacks)
    texts += _unseen(reach)
    if target.time_scale != 1 or target.traffic_scale != 1:
        texts.append(
            f"time runs {target.time_scale} times as fast there, rate windows {target.traffic_scale} times"
        )
    return texts


def _held_back(plan: CheckPlan) -> list[str]:
    """Return which rules cannot be decided, by what keeps them from it."""
    held = defaultdict[str, list[str]](list)
    for rule in plan.rules:
        if (lack := plan.held_back(rule)) is not None:
            held[f"{lack.why}; wants {lack.would}"].append(rule)
    return [f"  not {', '.join(rules)}: {why}" for why, rules in held.items()]


def _in_part(plan: CheckPlan) -> Iterator[str]:
    """Yield which parts of rules cannot be seen."""
    for lack in plan.lacks:
        rules = [rule for rule in plan.decidable if lack.part and lack.is_about(rule)]
        if rules:
            families = list(dict.fromkeys(rule.partition(".")[0] for rule in rules))
            named = ", ".join(rules if len(rules) <= FEW else families)
            yield f"  of {named} not {lack.part}: {lack.why}; wants {lack.would}"


def _key(key: KeyReach) -> str:
    whose = f" of {key.account}" if key.account else ""
    if not key.usable:
        return f"key {key.name}: not usable ({key.reason})"
    return f"key {key.name}: {key.purpose.replace('_', ' ')}{whose}, {key.environment}"


def _waiting(plan: CheckPlan, runs: Sequence[CheckTask]) -> dict[tuple[CheckTask, ...], list[str]]:
    """Return the rules that nothing but time keeps from being decided, by the tasks that are for them."""
    waiting = defaultdict[tuple[CheckTask, ...], list[str]](list)
    for rule in plan.decidable:
        serving = tuple(task for task in plan.tasks if task.serves(rule))
        if serving and not RULE_NAMED[rule].by_reading and not any(task in runs for task in serving):
            waiting[serving].append(rule)
    return waiting


def _no_turn(plan: CheckPlan, times: Mapping[str, Micros]) -> Iterator[str]:
    """Say what does not fit into the time beside what comes before it, and how much time would do."""
    for task in plan.tasks:
        if task.name not in times:
            continue
        takes = f"  not {task.title}: going through takes {units.duration(task.needs.length)}"
        first = "" if plan.too_long(task) else ", and what matters more comes first"
        yield f"{takes}{first}; would want --time {units.duration(times[task.name])}"


def _spending(plan: CheckPlan) -> list[str]:
    """Return the most that a check uses up, at first and with further rounds, and what is left of it."""
    target = plan.reach.target
    if target.read_only:
        share = f"at most {target.limit_share} % of each rate limit of a key"
        return [
            f"reads, and makes, changes, removes and spends nothing: {share}; where others use more, it waits"
        ]
    if target.dry_run_only:
        used = ", ".join(sorted(target.usable_domains))
        where = f"of jobs on {used}" if used else "on no domain, as `use_domains` names none"
        return [f"spends, makes, changes and removes nothing: it reads, and sends dry runs {where}"]
    once = amounts([task.needs.times(task.laps) for task in plan.runs])
    if not once:
        return ["spends nothing"]
    rounds = [(task, rounds_in(task, plan.for_calls)) for task in plan.runs]
    most = amounts([task.needs.times(task.laps * count) for task, count in rounds])
    texts = [f"asks for at most {once}; slots stay held to the month's end"]
    if most != once:
        texts.append(f"  with further rounds, for what is undecided then: {most} in all")
    texts += _scarce(plan)
    left = _left(plan.reach)
    cap = (
        "no --spend-cap bounds it"
        if target.spend_cap is None
        else f"stops spending at {units.usd(target.spend_cap)}"
    )
    ceilings = "" if left is None else f", the ceilings of these accounts at {units.usd(left)} more"
    texts.append(f"money: {cap}{ceilings}; what a job costs is not stated before it has run")
    if target.use_domains and target.spend_cap is not None and target.spend_cap < LARGE_JOB:
        texts.append(
            f"  no job runs on the domains of `use_domains`, where one may cost {units.usd(LARGE_JOB)}; "
            "wants a --spend-cap of more than that"
        )
    return texts


def _scarce(plan: CheckPlan) -> Iterator[str]:
    """Say what accounts have of slots and briefs where it is less than tasks ask for, and who gets it."""
    ration = Ration.of(plan.reach, plan.runs)
    most = {BRIEFS: 0, SLOTS: 0}
    for task in plan.runs:
        most[BRIEFS] += task.needs.briefs
        most[SLOTS] += task.needs.slots
    for scarce, left in ration.left.items():
        account, name = scarce
        if left >= most[name]:
            continue
        given = {task.title: ration.claims.get(task.name, {}).get(scarce, 0) for task in plan.runs}
        kept = ", ".join(f"{units.count(number)} for {title}" for title, number in given.items() if number)
        yield f"  account {account} has {units.count(left)} {name} left" + (f": {kept}" if kept else "")
        for task in plan.runs:
            if wanting := ration.wanting.get(task.name, {}).get(scarce):
                yield f"    {task.title} would want {units.count(wanting)} more"


def _refused(runs: Sequence[CheckTask], reach: Reach) -> Iterator[str]:
    """Say of which keys and accounts other clients are refused meanwhile, and for how long."""
    alone = defaultdict[str, list[CheckTask]](list)
    for task in runs:
        for key in sorted(task.uses) if task.profile in BURSTS else ():
            alone[key].append(task)
    for key, probes in alone.items():
        length = units.duration(sum(task.needs.length for task in probes))
        names = ", ".join(task.title for task in probes)
        limits = f"key {key} will be at its rate limits for about {length} ({names})"
        yield f"{limits}: others with it are refused then"
    if runs and not reach.target.read_only:
        tasks = "else tasks" if alone else "tasks"
        yield f"{tasks} leave {SPARE - SHARE} in {SPARE} calls of each rate limit to others with these keys"
    ends = sorted({account for task in runs if task.profile == "ceiling" for account in task.spends})
    if ends and reach.target.spend_cap is None and not reach.target.dry_run_only:
        names = ", ".join(ends)
        yield f"what spends is refused on {names} once its cost ceiling is reached, to the month's end"


def _unseen(reach: Reach) -> Iterator[str]:
    """Say which domains that may be used no key was seen to reach."""
    seen = {domain for key in reach.usable() for domain in (*key.ids("domains.list"), key.domain_id)}
    for domain in sorted(reach.target.usable_domains - seen):
        yield f"no key lists the domain {domain}, which the target says may be used: it is not"


def _left(reach: Reach) -> int | None:
    """Return the µUSD that are left under the cost ceilings of all accounts, None where one does not say."""
    left: dict[str, int | None] = {}
    for key in reach.usable():
        usage = key.reads.get("account.usage")
        cost = usage.get("cost") if isinstance(usage, dict) else None
        if isinstance(cost, dict) and key.account:
            spent, ceiling = spent_amount(cost), micros_of(cost.get("ceiling"))
            left[key.account] = None if spent is None or ceiling is None else max(0, ceiling - spent)
    values = list(left.values())
    stated = [value for value in values if value is not None]
    return sum(stated) if stated and len(stated) == len(values) else None
