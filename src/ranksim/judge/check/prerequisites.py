"""What keys, settings and stated numbers keep a check from deciding, and what would help.

Told from what was read, before anything else is sent. A rule that is out of reach here is left open by any
run with these keys; a rule that is not may be left open all the same, and the report says why then. Where a
rule can be decided without it, a part of the rule is told: the end of a cooldown of a day, the reset of a
month. Of numbers that nobody states, such as prices, nothing is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import HOUR, SECOND, Micros, instant
from ranksim.core.contract.facts import Facts
from ranksim.judge.conformance.compare import RULE_NAMED
from ranksim.judge.conformance.verdict.rule import Requirement
from ranksim.judge.deployment.discovery import LISTS, KeyReach, Reach
from ranksim.judge.deployment.prices import micros_of, spent_amount
from ranksim.judge.profiles.cooldowns import KINDS, LONGEST
from ranksim.judge.profiles.cost_cap import MOST_JOBS, steep
from ranksim.judge.profiles.precedence import MOST_WORDS
from ranksim.judge.profiles.webhooks import DELAYS
from ranksim.report import units


@dataclass(frozen=True, slots=True)
class Lack:
    """What rules need and a check has not; `why`, and what would help.

    Where only a `part` of them cannot be seen, it is told, and holds no rule back. What is `sought` all the
    same has tasks look for it as if nothing were lacking: it may turn up.
    """

    needs: tuple[Requirement, ...]
    why: str
    would: str
    part: str = ""
    sought: bool = False

    def covers(self, rule: str) -> bool:
        """Return whether it holds a rule back."""
        return not self.part and self.is_about(rule)

    def is_about(self, rule: str) -> bool:
        """Return whether it is about a rule, or a part of it."""
        return any(need in RULE_NAMED[rule].needs for need in self.needs)


FASTER = "a deployment whose time runs faster (time_scale)"

SMALLEST_PAGE = 7
"""Items of a page in walks, at least: a longer list has a second one."""

ALL_CAPABILITIES = 5
"""Kinds of work that a plan may include (S60): of keywords, crawls, optimisation, AI scans and briefs."""

SLOTS_OF_A_WORD = 4
"""Slots that one word of a ladder takes at most."""

CHEAP = 50_000
"""A job that costs less (µUSD) is not worth telling that it reaches no ceiling."""


def lacking(reach: Reach, time: Micros, *, receiver: bool) -> list[Lack]:
    """Return what cannot be decided within so long (µs), most telling first.

    `receiver` says that webhooks can be received.
    """
    why, would = "nothing is to go before there is a /v2", "a deployment that has one"
    return [
        *_keys(reach),
        *_settings(reach, receiver),
        *_operations(reach),
        Lack((Requirement.SUCCESSOR,), why, would, sought=True),
        *_hours(reach, time),
        *_cooldowns(reach, time),
        *_resets(reach, time),
        *_jobs(reach, time),
        *_ceilings(reach),
        *_rooms(reach),
    ]


# Keys and settings


def _keys(reach: Reach) -> Iterator[Lack]:
    lines = "a key with `purpose: {}` in the target file"
    if not reach.of("scoped"):
        why, would = "no key is bound to one domain", f"{lines.format('scoped')} and its domain_id"
        yield Lack((Requirement.SCOPED_KEY,), why, would)
        yield Lack((Requirement.SCOPED_WRITER,), why, would, sought=True)
    if len(reach.target.environments) < 2:
        why, would = "there is one environment", "a second one under `environments`"
        yield Lack((Requirement.ENVIRONMENT,), why, would)
    if len({key.name for key in reach.usable()}) < 2:
        yield Lack((Requirement.SECOND_KEY,), "there is one key", lines.format("second"))
    if len({(key.environment, key.account) for key in reach.usable()}) < 2:
        why = "all keys are of one account"
        yield Lack((Requirement.OTHER_ACCOUNT,), why, lines.format("other_account"))
    if not reach.of("past_due"):
        yield Lack((Requirement.PAST_DUE,), "no key's account is past due", lines.format("past_due"))
    if not any(_lacks_a_capability(key) for key in reach.usable()):
        why = "the plans of all keys include every kind of work, as far as they say"
        yield Lack((Requirement.LESSER_PLAN,), why, "a key of a plan without one of them")
    capped = reach.target.spend_cap is not None and not reach.target.dry_run_only
    if capped and not reach.of("near_limit"):
        cap = units.usd(reach.target.spend_cap or 0)
        why = f"--spend-cap {cap} ends spending before an account's ceiling does"
        yield Lack((Requirement.CEILING,), why, f"{lines.format('near_limit')}, of a small plan")


def _lacks_a_capability(key: KeyReach) -> bool:
    """Return whether a plan may lack something: it says less than another, or nothing at all."""
    capabilities = _mapping(key.reads.get("account.entitlements")).get("capabilities")
    return not isinstance(capabilities, list) or len(capabilities) < ALL_CAPABILITIES


def _settings(reach: Reach, receiver: bool) -> Iterator[Lack]:
    target = reach.target
    if not receiver and not target.dry_run_only:
        would = "`ranksim serve receive` where it does, and its URL as the target's `receiver`"
        yield Lack((Requirement.RECEIVER,), "the deployment reaches no webhook receiver", would)
    if target.dry_run_only:
        yield from _dry_runs(reach)
    elif target.failing_domain is None:
        why, would = "no domain is named whose jobs fail", "`failing_domain` in the target file"
        yield Lack((Requirement.FAILING_DOMAIN,), why, would, part="where a job fails, but by chance")
    if not target.exclusive:
        why = "others use these accounts meanwhile, who may explain it"
        yield Lack((Requirement.ALONE,), why, "accounts that nobody else uses, without --shared")


def _dry_runs(reach: Reach) -> Iterator[Lack]:
    instead, reading = "a --spend-cap in its place", reach.target.read_only
    option = "--read-only" if reading else "--dry-run-only"
    due = () if reach.of("past_due") else (Requirement.SPENDING_OR_PAST_DUE,)
    yield Lack((Requirement.SPENDING, *due), f"nothing is spent or made with {option}", instead)
    if reading:
        share = f"no more than {reach.target.limit_share} % of a rate limit is used with --read-only"
        yield Lack((Requirement.RATE_LIMIT,), share, instead)
        yield Lack(
            (Requirement.DOMAIN,), "no dry runs are sent with --read-only", "--dry-run-only in its place"
        )
    elif not reach.target.usable_domains:
        why = "no domain may be used for dry runs, and none is made with --dry-run-only"
        yield Lack((Requirement.DOMAIN,), why, "a domain under `use_domains` in the target file")
    if all(len(reach.keys[reach.main].ids(operation)) <= SMALLEST_PAGE for operation in LISTS):
        why = f"lists have hardly anything, and nothing is made to fill them with {option}"
        yield Lack((Requirement.LONG_LISTS,), why, instead)


def _operations(reach: Reach) -> Iterator[Lack]:
    for operation, need in (
        ("account.usage", Requirement.USAGE),
        ("slots.get", Requirement.SLOTS),
        ("jobs.list", Requirement.JOB_LIST),
        ("webhook_deliveries.list", Requirement.DELIVERY_LIST),
        ("webhooks.list", Requirement.ENDPOINT_LIST),
    ):
        if all(operation in key.lacks for key in reach.usable()):
            why = reach.lacks.get(operation, "not answered")
            yield Lack((need,), f"no key can read {operation} ({why})", "a key that can")


# Stated numbers


def _hours(reach: Reach, time: Micros) -> Iterator[Lack]:
    scale, remembered = reach.target.time_scale, Facts().idempotency_retention
    kept = remembered * 11 // 10 // scale
    if kept > time:
        why = f"a key is remembered for {units.duration(remembered // scale)}"
        yield Lack((Requirement.RETENTION,), why, f"--time {units.duration(kept)}, or {FASTER}")
    if DELAYS[0] // scale > time:
        why = f"the first retry comes after {units.duration(DELAYS[0] // scale)}"
        yield Lack((Requirement.RETRY,), why, "a longer --time")
    seventh = (sum(DELAYS) + DELAYS[-1] * 11 // 10) // scale
    if seventh > time:
        why = f"a seventh attempt would come after {units.duration(seventh)}"
        yield Lack((Requirement.ALL_RETRIES,), why, f"--time {units.duration(seventh + HOUR)}, or {FASTER}")


def _cooldowns(reach: Reach, time: Micros) -> Iterator[Lack]:
    """Cooldowns that no plan has, and those whose end is not waited for (S52-S54)."""
    entitled = [_mapping(key.reads.get("account.entitlements")) for key in reach.usable()]
    plans = [lengths for plan in entitled if (lengths := _mapping(plan.get("cooldown_seconds")))]
    if not plans:
        return
    stated = {kind: [plan[kind] for plan in plans if _is_length(plan.get(kind))] for kind in KINDS}
    absent = [kind for kind in KINDS if not stated[kind]]
    if len(absent) == len(KINDS):
        why, would = "no plan of these keys states a cooldown", "a key of a plan with cooldowns"
        yield Lack((Requirement.COOLDOWN,), why, would)
    elif absent:
        why, would = "no plan of these keys states one", "a key of a plan with cooldowns of all kinds"
        yield Lack((Requirement.EACH_COOLDOWN,), why, would, f"the cooldown of {', '.join(absent)}")
    yield from _long_cooldowns(stated, reach.target.time_scale, min(LONGEST, time))


def _long_cooldowns(stated: Mapping[str, list[int]], scale: int, waited: Micros) -> Iterator[Lack]:
    shortest = {kind: min(lengths) * SECOND // scale for kind, lengths in stated.items() if lengths}
    long = {kind: length for kind, length in shortest.items() if length > waited}
    if long:
        lasts = ", ".join(f"{kind} {units.duration(length)}" for kind, length in long.items())
        yield Lack(
            (Requirement.COOLDOWN_END,),
            f"it lasts longer than a check waits, {units.duration(waited)} ({lasts})",
            f"a key of a plan with shorter cooldowns, or {FASTER}",
            f"what follows the cooldown of {', '.join(long)}",
        )


def _resets(reach: Reach, time: Micros) -> Iterator[Lack]:
    """Months and weeks that do not turn meanwhile, by the deployment's own clock (S26, S62, S108, S110)."""
    if reach.date is None:
        return
    ends = defaultdict[Requirement, list[Micros]](list)
    for key in reach.usable():
        usage = _mapping(key.reads.get("account.usage"))
        ends[Requirement.COST_RESET] += _instants(usage.get("cost"))
        ends[Requirement.SLOT_RESET] += _instants(key.reads.get("slots.get"))
        for meter in _items(usage.get("metrics")):
            ends[Requirement.QUOTA_RESET] += _instants(meter)
    far = {need: min(instants) - reach.date for need, instants in ends.items() if instants}
    far = {need: left // reach.target.time_scale for need, left in far.items()}
    beyond = {need: left for need, left in far.items() if left > time}
    if beyond:
        why = f"the nearest reset is {units.duration(min(beyond.values()) // SECOND * SECOND)} away"
        part = "what begins anew as a month or a week turns"
        yield Lack(tuple(beyond), why, f"--time beyond it, or {FASTER}", part)


def _jobs(reach: Reach, time: Micros) -> Iterator[Lack]:
    """Jobs of which none ended in so short a time, as far as their list tells."""
    took = [
        ended - made
        for key in reach.usable()
        for job in _items(key.reads.get("jobs.list"))
        if (made := _instant(job.get("created_at"))) is not None
        and (ended := _instant(job.get("finished_at"))) is not None
    ]
    shortest = min(took, default=0) // reach.target.time_scale
    if took and shortest > time:
        why = f"the jobs that are listed took {units.duration(shortest)} at least"
        yield Lack((Requirement.JOB_END,), why, f"--time beyond that, or {FASTER}", "how a job ends")


def _ceilings(reach: Reach) -> Iterator[Lack]:
    """Ceilings so far away that each job would have to cost much to reach them (S62)."""
    if reach.target.spend_cap is not None or reach.target.dry_run_only:
        return  # what is told of those settings says it
    costs = [
        _mapping(_mapping(key.reads.get("account.usage")).get("cost"))
        for key in reach.usable()
        if steep(reach, key)
    ]
    left = [
        ceiling - spent
        for cost in costs
        if (spent := spent_amount(cost)) is not None
        and (ceiling := micros_of(cost.get("ceiling"))) is not None
    ]
    each = min(left, default=0) // MOST_JOBS
    if each > CHEAP:
        yield Lack(
            (Requirement.CEILING,),
            f"{units.usd(min(left))} are left under the ceiling, and {MOST_JOBS} jobs are started at most to "
            "reach it",
            "a key with `purpose: near_limit`, of an account near its ceiling",
            f"what comes at a ceiling, where a job costs less than {units.usd(each)}",
        )


def _rooms(reach: Reach) -> Iterator[Lack]:
    """More free slots, and more briefs left, than one call can ask for (S63, S64)."""
    rooms = [key.room() for key in reach.usable()]
    briefs = [key.left("brief") for key in reach.usable()]
    for noun, numbers, most, need in (
        ("slots are free", rooms, MOST_WORDS * SLOTS_OF_A_WORD, Requirement.FULL_SLOTS),
        ("briefs are left", briefs, MOST_WORDS, Requirement.NO_BRIEFS),
    ):
        least = min((number for number in numbers if number is not None), default=0)
        if least >= most:
            why = f"{units.count(least)} {noun} at least, and one call asks for {units.count(most)} at most"
            yield Lack((need,), why, "a key with `purpose: near_limit`, of a small plan")


# Small readings


def _mapping(reading: Any) -> Mapping[str, Any]:
    return reading if isinstance(reading, dict) else {}


def _items(reading: Any) -> list[Mapping[str, Any]]:
    return [item for item in reading if isinstance(item, dict)] if isinstance(reading, list) else []


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _instants(resource: Any) -> list[Micros]:
    """Return when something is reset, as a list of none or one."""
    resets_at = _instant(_mapping(resource).get("resets_at"))
    return [] if resets_at is None else [resets_at]


def _instant(text: Any) -> Micros | None:
    with suppress(ValueError):
        return instant(str(text))
    return None
