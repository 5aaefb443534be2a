"""The judges of spending over whole runs: silent on every conforming deployment, loud on deviating ones."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

import pytest

from ranksim.bridges.rehearsal import Network, rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.core.clock import DAY, week_end
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import Decision
from ranksim.core.contract.policy import Policy
from ranksim.core.rules import admission
from ranksim.core.service import account, jobs, slots, spend_decision
from ranksim.core.service import spending as service_spending
from ranksim.core.service.state import Job
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.judging import judged
from ranksim.judge.conformance.spending.spending import SpendingJudge
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Tally, Verdict
from ranksim.judge.profiles import profile

PROFILES = ("everyday", "race", "ladder", "retry", "calibration")

DECIDE, BOOK, FITTING = admission.decide, admission.book, slots._widening
REPORT, META, RUNNING = spend_decision.report, spend_decision.meta_of, jobs.running_of


def run(name: str, seed: int, policy: Policy, *, loss: float = 0.0, late: float = 0.0) -> History:
    """Rehearse a profile against a deployment with this policy."""
    service, target = make_world(policy, seed)
    network = Network(loss=loss, late=late)
    return read_history(rehearse(profile(name), service, target, seed=seed, network=network))


def judge(history: History, pinned: Policy | None = None) -> Tally:
    return judged(SpendingJudge, history, Options.of(pinned))


def broken(tally: Tally) -> dict[str, str]:
    """The rules that deviate, each with a sentence of evidence."""
    found = [finding for finding in tally.findings() if finding.verdict == Verdict.DEVIATES]
    return {finding.rule.name: finding.evidence[0].says for finding in found}


# Conforming deployments


def choices() -> Mapping[str, tuple[Any, ...]]:
    """The assumptions that are a choice, with their options."""
    fields = Assumptions.model_fields.items()
    flags = {name: (False, True) for name, field in fields if field.annotation is bool}
    return flags | {
        name: get_args(field.annotation) for name, field in fields if get_origin(field.annotation) is Literal
    }


def drawn(seed: int, share: float) -> Policy:
    """A policy with this share of its assumptions drawn at random."""
    generator = random.Random(seed)
    said = {
        name: generator.choice(options) for name, options in choices().items() if generator.random() < share
    }
    print(f"seed {seed}: {said}")
    return compact(Policy().replace(assumptions=said))


@pytest.mark.slow
@pytest.mark.fact("S59", "S63", "S64", "S65", "S66")
@pytest.mark.parametrize("name", PROFILES)
def test_a_conforming_deployment_never_deviates_and_is_mostly_decided(name: str) -> None:
    tally = judge(run(name, 1, compact()))
    assert broken(tally) == {}
    exercised = [finding for finding in tally.findings() if finding.verdict != Verdict.NOT_EXERCISED]
    # What wants an essential case conforms but for what this profile does not do.
    conforming = [one for one in exercised if one.verdict == Verdict.CONFORMS or one.wanting]
    assert len(conforming) >= 0.75 * len(exercised)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [("race", 11), ("ladder", 12), ("retry", 13), ("everyday", 14)])
def test_whatever_is_left_open_may_be_so(name: str, seed: int) -> None:
    policy = drawn(seed, 0.5)
    history = run(name, seed, policy, loss=0.02, late=0.05)
    assert broken(judge(history)) == {}
    assert broken(judge(history, policy)) == {}


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_conforming_deployment_deviates(seed: int) -> None:
    policy = drawn(seed, (seed % 4) / 4)
    for name in PROFILES:
        history = run(name, seed, policy, loss=0.02, late=0.05)
        assert broken(judge(history)) == {}, name
        assert broken(judge(history, policy)) == {}, name


# Deviating ones

Patch = tuple[Any, str, Any]


def ordered(*order: int) -> Any:
    """The six checks in another order; the join stands where it stood."""

    def decide(now: int, ask: Any, books: Any, meter: Any, cooldown: Any, terms: Any) -> int:
        fails = {
            1: admission.lacks_capability(ask, books),
            2: admission.is_inactive(ask, books),
            3: admission.over_ceiling(now, ask, books, terms),
            4: admission.over_quota(now, ask, meter),
            5: admission.over_slots(now, ask, books),
            6: admission.is_cooling(now, ask, cooldown),
            Decision.JOINED: ask.running,
        }
        return next((check for check in order if fails[check]), 0)

    return decide


def then(extra: Callable[..., None]) -> Any:
    """Decide as ever, then do something more."""

    def decide(now: int, ask: Any, books: Any, meter: Any, cooldown: Any, terms: Any) -> int:
        decision = DECIDE(now, ask, books, meter, cooldown, terms)
        extra(now, decision, ask, books, meter, cooldown, terms)
        return decision

    return decide


def consume(now: int, ask: Any, books: Any, meter: Any, terms: Any) -> None:
    if now >= meter.ends:
        admission.turn_meter(now, meter, books, terms)
    meter.used += ask.units


def not_rolled_back(
    now: int, decision: int, ask: Any, books: Any, meter: Any, cooldown: Any, terms: Any
) -> None:
    if decision in (5, 6) and not ask.dry_run:
        consume(now, ask, books, meter, terms)


def dry_consumes(
    now: int, decision: int, ask: Any, books: Any, meter: Any, cooldown: Any, terms: Any
) -> None:
    if decision == 0 and ask.dry_run:
        consume(now, ask, books, meter, terms)


def dry_reserves(
    now: int, decision: int, ask: Any, books: Any, meter: Any, cooldown: Any, terms: Any
) -> None:
    if decision == 0 and ask.dry_run:
        books.reserved += ask.estimate


def dry_widens(now: int, decision: int, ask: Any, books: Any, meter: Any, cooldown: Any, terms: Any) -> None:
    if decision == 0 and ask.dry_run:
        books.active += ask.slots


def join_charges(
    now: int, decision: int, ask: Any, books: Any, meter: Any, cooldown: Any, terms: Any
) -> None:
    if decision == Decision.JOINED and not ask.dry_run:
        consume(now, ask, books, meter, terms)


def quota_of(more: int) -> Any:
    def over(now: int, ask: Any, meter: Any) -> bool:
        limited = admission.applies(4, ask) and meter.limit >= 0 and ask.units > 0
        return limited and admission.used_at(now, meter) + ask.units > meter.limit + more

    return over


def slots_of(more: int) -> Any:
    def over(now: int, ask: Any, books: Any) -> bool:
        added = ask.slots - ask.revived
        used = books.active + admission.held_at(now, books)
        return ask.beyond == 5 or (added > 0 and used + added > books.slot_limit + more)

    return over


def cooling(percent: int) -> Any:
    def is_cooling(now: int, ask: Any, cooldown: Any) -> bool:
        return admission.applies(6, ask) and now < cooldown.since + cooldown.length * percent // 100

    return is_cooling


def not_counted(now: int, ask: Any, books: Any, meter: Any, cooldown: Any, terms: Any) -> None:
    """Lose what is booked at an odd millisecond, as an update that another overwrites."""
    BOOK(now, ask, books, meter, cooldown, terms)
    if now // 1_000 % 2 and meter.limit >= 0:
        meter.used -= ask.units


def fewer_slots(*args: Any, **more: Any) -> Any:
    widening = FITTING(*args, **more)
    return type(widening)(widening.slots - 1, widening.tuples) if widening.slots > 1 else widening


def without(field: str, check: int) -> Any:
    def meta(ctx: Any, request: Any, refusal: Any, ask: Any, rows: Any) -> Any:
        found = META(ctx, request, refusal, ask, rows)
        return {name: value for name, value in found.items() if refusal != check or name != field}

    return meta


def last_refusal(ctx: Any, request: Any, refusal: Any, ask: Any, rows: Any, running: Any) -> Any:
    """Report the last check that fails instead of the first."""
    failing = [
        number
        for number, fails in enumerate(spend_decision.failing_checks(ctx, request, ask, rows), 1)
        if fails
    ]
    last = Decision(failing[-1]) if failing and refusal != Decision.JOINED else refusal
    return REPORT(ctx, request, last, ask, rows, running)


def queues(ctx: Any, request: Any, refusal: Any, ask: Any, rows: Any, running: Any) -> Any:
    """Start the job that a dry run asks for."""
    body = request.call.body
    if refusal == Decision.GRANTED and "kind" in body:
        job = Job(
            ctx.state.new_id("job"),
            request.account.id,
            body["domain_id"],
            body["kind"],
            "queued",
            request.now,
            1,
            0,
            0,
        )
        jobs.accept(ctx, job)
    return REPORT(ctx, request, refusal, ask, rows, running)


def latest_run(ctx: Any, domain: Any, kind: str) -> Any:
    """Join the last run even when it has finished."""
    runs = [job for job in ctx.state.jobs.values() if (job.domain, job.kind) == (domain.id, kind)]
    return runs[-1] if runs else None


DEVIATIONS: list[tuple[str, str, tuple[Patch, ...], str]] = [
    (
        "the subscription before the plan",
        "ladder",
        ((admission, "decide", ordered(2, 1, 7, 3, 4, 5, 6)),),
        "guards.capability",
    ),
    (
        "the ceiling before the subscription",
        "ladder",
        ((admission, "decide", ordered(1, 7, 3, 2, 4, 5, 6)),),
        "guards.health",
    ),
    (
        "the allowance before the ceiling",
        "ladder",
        ((admission, "decide", ordered(1, 2, 7, 4, 3, 5, 6)),),
        "dry_run.order",
    ),
    (
        "slots before the allowance",
        "ladder",
        ((admission, "decide", ordered(1, 2, 7, 3, 5, 4, 6)),),
        "dry_run.order",
    ),
    (
        "cooldown before slots",
        "ladder",
        ((admission, "decide", ordered(1, 2, 7, 3, 4, 6, 5)),),
        "dry_run.order",
    ),
    ("past due spends", "ladder", ((admission, "is_inactive", lambda *_: False),), "guards.health"),
    ("no ceiling", "ladder", ((admission, "over_ceiling", lambda *_: False),), "guards.ceiling"),
    ("one unit too few", "race", ((admission, "over_quota", quota_of(-1)),), "quota.refused"),
    ("no allowance", "race", ((admission, "over_quota", lambda *_: False),), "quota.limit"),
    ("a refusal consumes", "race", ((admission, "decide", then(not_rolled_back)),), "quota.counted"),
    ("updates are lost", "race", ((admission, "book", not_counted),), "quota.counted"),
    ("a join is charged", "ladder", ((admission, "decide", then(join_charges)),), "quota.counted"),
    ("a dry run consumes", "ladder", ((admission, "decide", then(dry_consumes)),), "dry_run.free"),
    ("a dry run reserves", "ladder", ((admission, "decide", then(dry_reserves)),), "dry_run.free"),
    ("a dry run takes slots", "ladder", ((admission, "decide", then(dry_widens)),), "slots.counted"),
    ("a dry run queues", "ladder", ((service_spending, "report", queues),), "dry_run.queues"),
    (
        "a dry run names the last failure",
        "ladder",
        ((service_spending, "report", last_refusal),),
        "dry_run.order",
    ),
    ("one slot too many", "ladder", ((admission, "over_slots", slots_of(1)),), "slots.limit"),
    ("one slot too few", "race", ((admission, "over_slots", slots_of(-1)),), "slots.refused"),
    ("a slot is not counted", "race", ((slots, "_widening", fewer_slots),), "slots.counted"),
    (
        "cooldowns are 20 % short",
        "calibration",
        ((admission, "is_cooling", cooling(80)),),
        "cooldown.enforced",
    ),
    ("no cooldowns", "calibration", ((admission, "is_cooling", lambda *_: False),), "cooldown.enforced"),
    ("a finished run is joined", "ladder", ((jobs, "running_of", latest_run),), "cooldown.joins_only"),
    (
        "no reset in the meta of a quota",
        "race",
        ((spend_decision, "meta_of", without("resets_at", 4)),),
        "quota.meta",
    ),
    (
        "no reset in the meta of a ceiling",
        "ladder",
        ((spend_decision, "meta_of", without("resets_at", 3)),),
        "cost.meta",
    ),
    (
        "weeks reset on Tuesdays",
        "everyday",
        ((account, "meter_resets", lambda ctx, owner, meter, now: week_end(now, DAY)),),
        "quota.reset",
    ),
]


LONG = {
    "the allowance before the ceiling",
    "slots before the allowance",
    "past due spends",
    "a dry run reserves",
    "a dry run takes slots",
    "one slot too many",
    "a finished run is joined",
    "no reset in the meta of a ceiling",
}
"""Those that others resemble."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "patches", "rule"),
    [
        pytest.param(*row[1:], id=row[0], marks=[pytest.mark.heavy] if row[0] in LONG else [])
        for row in DEVIATIONS
    ],
)
def test_a_deviation_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, patches: tuple[Patch, ...], rule: str
) -> None:
    for module, function, changed in patches:
        monkeypatch.setattr(module, function, changed)
    assert rule in broken(judge(run(name, 1, compact())))
