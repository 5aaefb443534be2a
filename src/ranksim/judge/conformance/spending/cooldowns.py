"""Cooldowns: how soon the same thing may run again, and what a refusal says of it (S65).

What a cooldown covers and where it begins is open (U46): each check is tried under every reading, and a rule
breaks when none is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ranksim.core.clock import DISTANT_PAST, SECOND, Micros, format_millis
from ranksim.judge.conformance.spending.activity import (
    AT_ONCE,
    ROWS,
    RefusedSpend,
    SpendCall,
    SpendWork,
)
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.cooldown_groups import (
    COOLDOWN,
    CooldownGroups,
    CooldownInterpretation,
)
from ranksim.judge.conformance.spending.cooldown_trial import Trial, cooldown_evidence
from ranksim.judge.conformance.spending.stated_waits import judge_stated, latest_begin
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import MET_AT_ONCE, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

COOLED = tuple(spend for spend, row in ROWS.items() if COOLDOWN in row)
"""The operations that the table bounds by a cooldown (S52-S54)."""

STATING = dict(zip(COOLED, (52, 53, 54), strict=True))
"""The fact that states each."""

LATE = ", in its last fifth"
"""Behind what cools: asked for again when a cooldown that is a fifth too short would be over."""

COOLDOWN_FIELDS = (">kind", ">domain_id", "Retry-After", "meta.available_at", "data.id")

RULES = declare(
    Rule(
        "cooldown.enforced",
        "The same thing is not accepted again before its cooldown is over.",
        (52, 53, 54, 65),
        (46, 91, 106, 109),
        exercise="race: several start the same job at once; ladder: repeat a job",
        ways=(
            *(Breach(number, f"{kind} is granted while it cools", kind) for kind, number in STATING.items()),
            *(
                Breach(number, f"{kind} is granted to several at once", f"{kind}{AT_ONCE}")
                for kind, number in STATING.items()
            ),
            *(
                Breach(number, f"{kind} cools a fifth too short", f"{kind}{LATE}")
                for kind, number in STATING.items()
            ),
            Breach(4, "crawl over GraphQL is granted while it cools", "crawl"),
        ),
        follows=(Cause("cooldown.join", "a second run is what should have been joined"),),
        essential={MET_AT_ONCE: "no two calls for the same thing met at once"},
    ),
    Rule(
        "cooldown.refused",
        "cooldown_active comes only where the same thing ran so short a time ago.",
        (65,),
        (46, 91),
        exercise="ladder: repeat a job on the same domain and on another",
        cases=(*(f"{spend}, when it is over" for spend in COOLED), "on another domain"),
        ways=(Breach(65, "{} is refused when its cooldown is over", "{}, when it is over", COOLED),),
        refuses=".*",
        needs=(Requirement.COOLDOWN_END,),
    ),
    Rule(
        "cooldown.stated",
        "The wait that a refusal states is what is left of the cooldown, and is kept.",
        (65,),
        (23, 26, 46, 91),
        exercise="ladder: repeat a job, and read entitlements",
        ways=(Breach(65, "the wait stated for {} is another", "{}", COOLED),),
        follows=(
            Cause("cooldown.enforced", "the same acceptance, which should not have been"),
            Cause("cooldown.refused", "the same refusal"),
        ),
        needs=(Requirement.COOLDOWN_END,),
    ),
    looks_at=COOLDOWN_FIELDS,
    needs=(Requirement.SPENDING, Requirement.FAILING_DOMAIN, Requirement.COOLDOWN, Requirement.EACH_COOLDOWN),
)


LONGER = 4
"""A cooldown that lasts too long does so by this part of it: what is accepted later shows nothing."""


def judge(audit: AccountAudit) -> None:
    """Judge the cooldowns of one account: as the first reading says that nothing excludes, else the default.

    Where nothing was refused as it says, the default is excluded, and there may be no cooldown.
    """
    runs, tally = CooldownGroups(audit.activity, audit.clock.rate, audit.options), audit.tally
    waits = _waits(runs)
    if not audit.clock.rate:
        if waits:
            tally.open("cooldown.refused", "business time changed its pace while running", len(waits))
        return
    trials = tried(runs)
    default, chosen = trials[0], left_of(trials)[0]
    if chosen is not default:
        refuses = chosen.held["cooldown.refused"] or chosen.held["cooldown.stated"]
        instead = chosen.kind if refuses else default.kind.without(chosen.kind)
        tally.differs(46, default.kind, instead, default.broke[0][2])
    chosen.tell(tally)
    for refused in waits:
        _note_arming(left_of(trials), refused, tally)


def _waits(runs: CooldownGroups) -> list[RefusedSpend]:
    return [refused for refused in runs.activity.refusals if refused.check == COOLDOWN and refused.spend]


def tried(runs: CooldownGroups) -> list[Trial]:
    """Try each reading of U46 on what was accepted, and on the refusals of check 6."""
    trials, waits = [Trial(runs, kind) for kind in kinds_of(runs.options)], _waits(runs)
    for trial in trials:
        trial.while_running = any(_ran(trial, refused) for refused in waits)
        judge_enforced(trial)
        for refused in waits:
            judge_refused(trial, refused)
            judge_stated(trial, refused)
    return trials


def _ran(trial: Trial, refused: SpendCall) -> bool:
    """Return whether all that can be the reason of a refusal surely ran, on a domain of this trace."""
    runs = trial.runs
    if not (trial.by_domain and trial.from_finish(refused.spend) and refused.domain in runs.activity.domains):
        return False
    before = runs.sharing(refused, trial.kind).upto(refused.high)
    running = [work for work in before if runs.fate(work).alive >= refused.high]
    over = (work for work in before if work not in running)
    return bool(running) and all(runs.latest_end(work, trial.kind) < refused.low for work in over)


def left_of(trials: Sequence[Trial]) -> Sequence[Trial]:
    """Return the readings that nothing excludes; all of them where each is excluded."""
    return [trial for trial in trials if not trial.broke] or trials


def readings_left(runs: CooldownGroups) -> list[CooldownInterpretation]:
    """Return the readings of U46 that nothing of an account excludes."""
    return [trial.kind for trial in left_of(tried(runs))]


def _note_arming(left: Sequence[Trial], refused: SpendCall, tally: Tally) -> None:
    """A refusal where all that can have begun its cooldown had failed: a failed run arms (U46).

    What went before the trace had not, on a domain that was made in it, or where a run was accepted since. So
    it is under every reading that is `left`.
    """
    runs, failed = left[0].runs, list[SpendWork]()
    for trial in left if runs.activity.alone else ():
        before = runs.sharing(refused, trial.kind).upto(refused.high)
        failed = [work for work in before if runs.latest_end(work, trial.kind) >= refused.low]
        made = trial.by_domain and refused.domain in runs.activity.domains
        begun = made or any(work.sure for work in before)
        if not (failed and begun and all(runs.unfailed(work, refused.low) is False for work in failed)):
            return
    if failed:
        says = f"{refused.spend} was refused as cooldown_active, and each run before it had failed"
        evidence = cooldown_evidence(runs, says, (failed[-1], refused), refused.low)
        tally.differs(46, "a failed run does not arm", "it does", evidence)


def kinds_of(options: Options) -> list[CooldownInterpretation]:
    """Return the readings of U46 that are left, the default first."""
    scopes, begins = options.candidates("cooldown_scope"), options.candidates("cooldown_from")
    return [CooldownInterpretation(scope, begin) for scope, begin in product(scopes, begins)]


# Checks


def judge_enforced(trial: Trial) -> None:
    """Two acceptances of the same thing lie at least its cooldown apart, unless the first failed meanwhile.

    The first was accepted no sooner than its call was sent, the second no later than it was answered; the
    cooldown begins at the acceptance, or at a finish that was observed before the second call, and that came
    after the last reply that showed the job under way.
    """
    runs, by_domain = trial.runs, trial.by_domain
    for spend, works in list(runs.works.items()):
        if not runs.lengths.get(spend) or not runs.applies(spend):
            continue
        last: dict[str, SpendWork] = {}
        early: list[tuple[SpendWork, SpendWork]] = []
        sure = (work for work in works if work.sure and (work.domain or not by_domain))
        for work in sorted(sure, key=lambda work: work.low):
            if len(work.calls) > 1 and _met(work):
                trial.covers("cooldown.enforced", f"{spend}{AT_ONCE}", work)
            subject = work.domain if by_domain else ""
            first, last[subject] = last.get(subject), work
            if first is not None:
                _judge_pair(trial, first, work)
                if _early(trial, first, work):
                    early.append((first, work))
            elif by_domain and work.domain in runs.activity.domains and len(last) > 1:
                trial.covers("cooldown.refused", "on another domain", work)
        _judge_early(trial, early)


def _met(work: SpendWork) -> bool:
    """Return whether two requests that overlapped got one run: each might have been granted its own."""
    first = work.answered_first
    return not first.lost and any(
        not other.lost
        and other.sent <= first.received
        and None is not other.idempotency_key != first.idempotency_key
        for other in work.calls
    )


def _early(trial: Trial, first: SpendWork, second: SpendWork) -> bool:
    """Return whether the second surely came too early, by less than what whole seconds hide."""
    runs, length, latest = trial.runs, trial.runs.lengths[first.spend], max(first.high, second.high)
    gap, slack = (latest - first.low) * runs.rate, runs.slack(latest - first.low)
    if not length - slack <= gap < length - (slack - SECOND) or first.high >= second.low:
        return False
    if trial.kind.begins == "finish" and not runs.fate(first).done < second.low:
        return False
    return runs.unfailed(first, latest) is True and not runs.may_clear(first, second, trial.kind)


def _judge_early(trial: Trial, pairs: Sequence[tuple[SpendWork, SpendWork]]) -> None:
    """Break when no reckoning in whole seconds explains all pairs that came too early by less than one.

    Lemma. A cooldown may count from the last whole second before its begin, or end with the whole second in
    which a call comes. Let a pair miss m of the cooldown, from the first's sending to the second's answer. By
    the first reckoning no whole second of the deployment's clock lies in the m before that sending, by the
    second none in the m after that answer. Whole seconds of one clock lie a second apart: where such spans of
    all pairs, laid upon each other, leave no place in a second for one, that reckoning explains them not.
    Both at once hide more than a second, which no pair may. Spans are trimmed by what clocks drift meanwhile.
    """
    runs = trial.runs
    for start in range(len(pairs)):
        length = runs.lengths[pairs[start][0].spend]
        near = [pair for pair in pairs[start:] if pair[0].low - pairs[start][0].low <= NEAR]
        if len(near) < 2:
            continue
        spans: tuple[list[tuple[Micros, Micros]], ...] = ([], [])
        for first, second in near:
            latest = second.high
            drift = runs.slack(latest - near[0][0].low) - SECOND
            begun, missing = first.low * runs.rate, length - (latest - first.low) * runs.rate
            spans[0].append((begun - missing + drift, begun - drift))
            spans[1].append((latest * runs.rate + drift, latest * runs.rate + missing - drift))
        if all(_leave_no_place(spans_of_count) for spans_of_count in spans):
            spend, lasts = near[0][0].spend, format_millis(length)
            gaps = ", ".join(f"{format_millis((b.high - a.low) * runs.rate)}" for a, b in near)
            says = (
                f"{spend} was accepted again within {gaps}, with a cooldown of "
                f"{lasts}, and no count in whole seconds explains all of it"
            )
            calls, expected = [work for pair in near for work in pair], f"{spend} accepted once in {lasts}"
            evidence = cooldown_evidence(runs, says, calls, near[0][1].low, expected)
            trial.add("cooldown.enforced", False, evidence, f"{spend}{LATE}")
            return


NEAR = 60 * SECOND
"""Pairs within it are laid upon each other: what clocks drift meanwhile is little of a second."""


def _leave_no_place(spans: Sequence[tuple[Micros, Micros]]) -> bool:
    """Return whether spans, each at its place in a second, cover all of it."""
    pieces: list[tuple[Micros, Micros]] = []
    for low, high in spans:
        if high > low:
            place, long = low % SECOND, min(high - low, SECOND)
            pieces += [(place, min(place + long, SECOND)), (0, place + long - SECOND)]
    reached = 0
    for low, high in sorted(pieces):
        if low > reached:
            return False
        reached = max(reached, high)
    return reached >= SECOND


def _judge_pair(trial: Trial, first: SpendWork, second: SpendWork) -> None:
    runs, spend, latest, begun = trial.runs, first.spend, max(first.high, second.high), first.low
    length, from_finish = runs.lengths[spend], trial.from_finish(spend)
    finished = runs.fate(first).done < second.low
    if from_finish and finished:
        begun = max(begun, runs.fate(first).alive)
    gap, at_once = (latest - begun) * runs.rate, first.high >= second.low
    if gap >= length - runs.slack(latest - begun):
        trial.add("cooldown.enforced", True)
        if (
            not at_once and gap <= length + length // LONGER + SECOND
        ):  # it could have been refused all the same
            trial.covers("cooldown.refused", f"{spend}, when it is over", first, second)
        return
    running = trial.while_running and runs.fate(first).alive >= latest
    lasted = runs.unfailed(first, latest) and (finished or running or not from_finish)
    if at_once:  # either may have been the first
        lasted = lasted and runs.unfailed(second, latest)
    broken = lasted and not runs.may_clear(first, second, trial.kind)
    what, since = ("accepted again", " of its end") if begun > first.low else ("accepted twice", "")
    says = (
        f"{spend} was {what} within {format_millis(gap)}{since}, with a cooldown of {format_millis(length)}"
    )
    expected = f"{spend} accepted once in {format_millis(length)}"
    evidence = cooldown_evidence(runs, says, (first, second), second.low, expected)
    late = not at_once and _is_late(trial, first, second)
    case = f"{spend}{AT_ONCE if at_once else LATE if late else ''}"
    trial.add("cooldown.enforced", False if broken else None, evidence, case)


def judge_refused(trial: Trial, refused: SpendCall) -> None:
    """A refusal needs an acceptance, or a finish, less than the cooldown before it.

    Every call that may have begun it is taken at its latest; a call without an answer may have begun it at
    any time. What went before the trace may have, unless the domain was made in it or the cooldown is over.
    """
    runs = trial.runs
    if not runs.activity.alone:
        trial.add("cooldown.refused", None)
        return
    length, group = runs.lengths.get(refused.spend), runs.sharing(refused, trial.kind)
    own, latest = group.latest(refused.high), latest_begin(trial, refused)
    nearest = min(latest, refused.low)
    elapsed, slack = (refused.low - nearest) * runs.rate, runs.slack(refused.low - nearest)
    holds: bool | None = None
    if own > DISTANT_PAST and (length is None or (refused.low - own) * runs.rate < length):
        holds = True
        if length is not None:
            _cover_enforced(trial, refused)
    says, ids = f"{refused.spend} was refused as cooldown_active", [refused.exchange.id]
    case = f"{refused.spend}, when it is over"
    if latest == DISTANT_PAST:
        says += ", although it had never been asked for on this domain, which was made in this run"
        holds, case, ids = False, "on another domain", [runs.activity.domains[refused.domain].id, *ids]
    elif length is not None and elapsed - slack >= length:
        says += (
            f" {format_millis(elapsed)} after the last time it can have been accepted, "
            f"with a cooldown of {format_millis(length)}"
        )
        holds = False
    evidence = Evidence(
        says, tuple(ids), (), runs.about(refused), refused.low, "no refusal as cooldown_active"
    )
    trial.add("cooldown.refused", holds, evidence, case)


def _cover_enforced(trial: Trial, refused: SpendCall) -> None:
    """Note what a refusal shows not to have been granted: again, and at once with another."""
    group = trial.runs.sharing(refused, trial.kind)
    first, beside = group.last_before(refused.low), group.beside(refused)
    if first is not None:
        trial.covers("cooldown.enforced", refused.spend, first, refused)
        if beside is None and _is_late(trial, first, refused):
            trial.covers("cooldown.enforced", f"{refused.spend}{LATE}", first, refused)
    if beside is not None:
        trial.covers("cooldown.enforced", f"{refused.spend}{AT_ONCE}", beside, refused)


def _is_late(trial: Trial, first: SpendWork, again: SpendCall) -> bool:
    """Return whether a call came when the cooldown lasts that would be over if it were a fifth too short."""
    runs, length = trial.runs, trial.runs.lengths.get(again.spend)
    begun = runs.latest_beginning(first, trial.kind)
    return (
        length is not None
        and length * 4 // 5 <= (again.low - begun) * runs.rate
        and (again.high - first.low) * runs.rate <= length
    )
