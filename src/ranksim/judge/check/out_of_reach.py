"""What the keys and settings of a check cannot decide, and which key, plan or setting would.

Told from what was read, before anything else is sent. A rule that is out of reach here is left open by any
run with these keys; a rule that is not may be left open all the same, and the report says why then.
"""

from __future__ import annotations

from collections.abc import Iterator

from ranksim.core.clock import HOUR, Micros
from ranksim.core.contract.facts import Facts
from ranksim.judge.check.lack import Lack
from ranksim.judge.check.stated_numbers import hidden_by_numbers
from ranksim.judge.conformance.verdict.rule import Requirement
from ranksim.judge.deployment.discovery import LISTS, KeyReach, Reach
from ranksim.judge.profiles.webhooks import DELAYS
from ranksim.report import units


def lacking(reach: Reach, time: Micros, *, receiver: bool) -> list[Lack]:
    """Return what cannot be decided within so long (µs), most telling first.

    `receiver` says that webhooks can be received.
    """
    return [
        *_keys(reach),
        *_settings(reach, receiver),
        *_operations(reach),
        NOTHING_GOES,
        *_hours(reach, time),
        *hidden_by_numbers(reach, time),
    ]


NOTHING_GOES = Lack(
    (Requirement.SUCCESSOR,),
    "nothing is to go before there is a /v2",
    "a deployment that has one",
    sought=True,
)

SMALLEST_PAGE = 7
"""Items of a page in walks, at least: a longer list has a second one."""


def _keys(reach: Reach) -> Iterator[Lack]:
    lines = "a key with `purpose: {}` in the target file"
    if not reach.of("scoped"):
        why, would = "no key is bound to one domain", f"{lines.format('scoped')} and its domain_id"
        yield Lack((Requirement.SCOPED_KEY,), why, would)
        yield Lack((Requirement.SCOPED_WRITER,), why, would, sought=True)
    if len(reach.target.environments) < 2:
        yield Lack(
            (Requirement.ENVIRONMENT,), "there is one environment", "a second one under `environments`"
        )
    if len({key.name for key in reach.usable()}) < 2:
        yield Lack((Requirement.SECOND_KEY,), "there is one key", lines.format("second"))
    if not reach.of("past_due"):
        yield Lack((Requirement.PAST_DUE,), "no key's account is past due", lines.format("past_due"))
    if not any(_lacks_a_capability(key) for key in reach.usable()):
        why = "the plans of all keys include every kind of work, as far as they say"
        yield Lack((Requirement.LESSER_PLAN,), why, "a key of a plan without one of them")
    if not reach.of("near_limit") and reach.target.spend_cap is not None:
        cap = units.usd(reach.target.spend_cap)
        why = f"--spend-cap {cap} ends spending before an account's ceiling does"
        yield Lack((Requirement.CEILING,), why, f"{lines.format('near_limit')}, of a small plan")


def _lacks_a_capability(key: KeyReach) -> bool:
    """Return whether a plan may lack something: it says less than another, or nothing at all."""
    entitlements = key.reads.get("account.entitlements")
    capabilities = entitlements.get("capabilities") if isinstance(entitlements, dict) else None
    return not isinstance(capabilities, list) or len(capabilities) < ALL_CAPABILITIES


ALL_CAPABILITIES = 5
"""Kinds of work that a plan may include (S60): of keywords, crawls, optimisation, AI scans and briefs."""


def _settings(reach: Reach, receiver: bool) -> Iterator[Lack]:
    target = reach.target
    if not receiver:
        yield Lack(
            (Requirement.RECEIVER,),
            "the deployment reaches no webhook receiver",
            "`ranksim receive` where it does, and its URL as the target's `receiver`",
        )
    if target.dry_run_only:
        yield Lack(
            (Requirement.SPENDING, *(() if reach.of("past_due") else (Requirement.SPENDING_OR_PAST_DUE,))),
            "nothing is spent or made with --dry-run-only",
            "a --spend-cap in its place",
        )
        if not target.usable_domains:
            yield Lack(
                (Requirement.DOMAIN,),
                "no domain may be used for dry runs, and none is made with --dry-run-only",
                "a domain under `use_domains` in the target file",
            )
        if all(len(reach.keys[reach.main].ids(operation)) <= SMALLEST_PAGE for operation in LISTS):
            yield Lack(
                (Requirement.LONG_LISTS,),
                "lists have hardly anything, and nothing is made to fill them with --dry-run-only",
                "a --spend-cap in its place",
            )
    if target.failing_domain is None and not target.dry_run_only:
        yield Lack(
            (Requirement.FAILING_DOMAIN,),
            "no domain is named whose jobs fail",
            "`failing_domain` in the target file",
            part="where a job fails, but by chance",
        )
    if not target.exclusive:
        yield Lack(
            (Requirement.ALONE,),
            "others use these accounts meanwhile, who may explain it",
            "accounts that nobody else uses, without --shared",
        )


def _operations(reach: Reach) -> Iterator[Lack]:
    for operation, need in (
        ("account.usage", Requirement.USAGE),
        ("slots.get", Requirement.SLOTS),
        ("jobs.list", Requirement.JOB_LIST),
        ("webhook_deliveries.list", Requirement.DELIVERY_LIST),
        ("webhooks.list", Requirement.ENDPOINT_LIST),
    ):
        readers = [key for key in reach.usable() if operation not in key.lacks]
        if not readers:
            why = reach.lacks.get(operation, "not answered")
            yield Lack((need,), f"no key can read {operation} ({why})", "a key that can")


def _hours(reach: Reach, time: Micros) -> Iterator[Lack]:
    scale, facts = reach.target.time_scale, Facts()
    kept = facts.idempotency_retention * 11 // 10 // scale
    if kept > time:
        yield Lack(
            (Requirement.RETENTION,),
            f"a key is remembered for {units.duration(facts.idempotency_retention // scale)}",
            f"--time {units.duration(kept)}, or a deployment whose time runs faster (time_scale)",
        )
    if DELAYS[0] // scale > time:
        yield Lack(
            (Requirement.RETRY,),
            f"the first retry comes after {units.duration(DELAYS[0] // scale)}",
            "a longer --time",
        )
    seventh = (sum(DELAYS) + DELAYS[-1] * 11 // 10) // scale
    if seventh > time:
        yield Lack(
            (Requirement.ALL_RETRIES,),
            f"a seventh attempt would come after {units.duration(seventh)}",
            f"--time {units.duration(seventh + HOUR)}, or a deployment whose time runs faster (time_scale)",
        )
