"""The join of a rank run under way: who gets the one that runs, and who one of its own (S52, U45)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ranksim.core.clock import Micros
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import JOBS, RANK_RUN, AccountActivity, SpendWork
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.cooldowns import COOLDOWN_FIELDS
from ranksim.judge.conformance.verdict.rule import Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence

RULES = declare(
    Rule(
        "cooldown.join",
        "A rank run asked for while one runs gives the one that runs.",
        (52,),
        (45,),
        exercise="race: several ask for a rank run of one domain at once",
        ways=(Breach(52, "a rank run that runs is joined now, and not another time"),),
    ),
    Rule(
        "cooldown.joins_only",
        "Only a rank run is joined, and only while it runs.",
        (52, 53, 54, 55),
        (45,),
        exercise="race: several ask for each kind of job at once",
        ways=(
            Breach(52, "a rank run that has ended is joined", "rank_run"),
            Breach(53, "a second crawl is joined", "crawl"),
            Breach(54, "a second site_optimization is joined", "site_optimization"),
            Breach(55, "a second ai_scan is joined", "ai_scan"),
        ),
    ),
    looks_at=COOLDOWN_FIELDS,
    needs=(Requirement.SPENDING, Requirement.FAILING_DOMAIN, Requirement.EACH_COOLDOWN),
)

JOINS = ("after_health", "before_checks", "after_checks", "never")


def judge(audit: AccountAudit) -> None:
    """Judge the joins of one account."""
    judge_joins_only(audit)
    judge_join(audit)


def judge_joins_only(audit: AccountAudit) -> None:
    """One job is returned by calls that are no repeats of each other only when it is a rank run that runs.

    Two calls without an Idempotency-Key in common are two requests, and each gets a job of its own.
    """
    activity, rule = audit.activity, "cooldown.joins_only"
    begun: dict[str | None, Micros] = {}
    for exchange in activity.spend_calls:  # a repeat of a call that got lost is answered as that one was (E6)
        key = exchange.idempotency_key
        begun[key] = min(exchange.sent, begun.get(key, exchange.sent))
    for work in activity.works:
        if work.spend not in JOBS or not work.id:
            continue
        first, over = work.answered_first, activity.fates[work.id].over
        for exchange in work.calls:
            if not _apart(first, exchange):
                continue
            key, wrong = exchange.idempotency_key, ""
            if work.spend != RANK_RUN:
                wrong = f"two requests for a {work.spend} were answered with one job"
            elif over < (begun.get(key, 0) if key else exchange.sent):
                wrong = "a request was answered with a rank run that had finished before it was sent"
            audit.check(rule, not wrong, wrong, (first.id, exchange.id), exchange.sent, case=work.spend)
        if work.spend != RANK_RUN and len(work.calls) == 1 and work.sure:
            audit.tally.held(rule, case=work.spend if _again(activity, work) else None, by=(first.id,))


def _again(activity: AccountActivity, work: SpendWork) -> bool:
    """Return whether another of the kind surely ran on its domain when it was asked for."""
    return any(
        other is not work
        and (other.spend, other.domain) == (work.spend, work.domain)
        and other.high < work.low
        and activity.fates[other.id].alive > work.high
        for other in activity.works
    )


def _apart(first: Observation, exchange: Observation) -> bool:
    """Return whether two exchanges surely are two requests, not one and its replay."""
    if exchange is first or exchange.lost or exchange.old or first.old:
        return False
    return exchange.idempotency_key is None or exchange.idempotency_key != first.idempotency_key


def judge_join(audit: AccountAudit) -> None:
    """While a rank run surely is under way, each option of U45 leaves certain answers only.

    A run that an answer showed queued or running after the call was over was under way throughout it.
    """
    activity, tally = audit.activity, audit.tally
    candidates = audit.options.candidates("join")
    excluded: dict[str, Evidence] = {}
    answers = list(_asked_while_running(activity))
    for low, outcome, exchange, run in answers:
        says = f"a rank run was under way ({run.id}), and another request for it was {outcome}"
        evidence = activity.evidence(says, (run.exchange.id, exchange.id), low)
        for option in set(candidates) - set(_allowed(outcome)):
            excluded.setdefault(option, evidence)
    left = [option for option in candidates if option not in excluded]
    if not left:
        tally.broke("cooldown.join", excluded[candidates[0]])
        return
    tally.held("cooldown.join", len(answers), by=[exchange.id for _, _, exchange, _ in answers[:1]])
    if left[0] != candidates[0]:
        tally.differs(45, candidates[0], left[0], excluded[candidates[0]])


def _allowed(outcome: str) -> tuple[str, ...]:
    if outcome == "joined":
        return JOINS[:3]
    if outcome in ("refused at check 1", "refused at check 2"):
        return ("after_health", "after_checks", "never")
    if outcome.startswith("refused"):
        return ("after_checks", "never")
    return ("never",)


def _asked_while_running(activity: AccountActivity) -> Iterator[tuple[Micros, str, Observation, SpendWork]]:
    """Return the requests for a rank run that lie wholly within another's: (when, outcome, call, other)."""
    runs: dict[str, list[SpendWork]] = defaultdict(list)
    for work in activity.works:
        if work.spend == RANK_RUN and work.domain and work.id:
            runs[work.domain].append(work)
    for refused in activity.refusals:
        if refused.spend == RANK_RUN:
            run = _under_way(activity, runs[refused.domain], refused.low, refused.high)
            if run is not None:
                yield refused.low, f"refused at check {refused.check}", refused.exchange, run
    for works in list(runs.values()):
        for work in works:
            yield from _answered(activity, works, work)
        for first, second in pairwise(works):
            latest = max(first.high, second.high)
            running = min(activity.fates[first.id].alive, activity.fates[second.id].alive)
            if first.sure and second.sure and running > latest and first.high >= second.low:
                yield second.low, "answered with another run", second.exchange, first


def _answered(
    activity: AccountActivity, works: Sequence[SpendWork], work: SpendWork
) -> Iterator[tuple[Micros, str, Observation, SpendWork]]:
    """Return how the calls were answered that returned one run."""
    keys = Counter(exchange.idempotency_key for exchange in work.calls)
    first = work.answered_first
    for exchange in work.calls:
        if exchange.lost or exchange.old or (exchange.idempotency_key and keys[exchange.idempotency_key] > 1):
            continue
        again = _apart(first, exchange)
        run = work if again else _under_way(activity, works, exchange.sent, exchange.received)
        if run is not None:
            yield exchange.sent, "joined" if run is work else "answered with another run", exchange, run


def _under_way(
    activity: AccountActivity, runs: Sequence[SpendWork], low: Micros, high: Micros
) -> SpendWork | None:
    """Return a run that was answered before `low` and shown queued or running by a call sent after `high`."""
    return next((run for run in runs if run.high < low and activity.fates[run.id].alive > high), None)
