"""Cooldowns: how soon the same thing may run again, and what a refusal says of it (S65).

What a cooldown covers and where it begins is open (U46): each check is tried under every reading, and a rule
breaks when none is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND, Micros, format_millis
from ranksim.judge.conformance.history.fields import whole
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import (
    AT_ONCE,
    JOBS,
    ROWS,
    AccountActivity,
    RefusedSpend,
    SpendWork,
)
from ranksim.judge.conformance.spending.cooldown_groups import CooldownGroups, CooldownInterpretation
from ranksim.judge.conformance.spending.statements import BusinessClock
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, MET_AT_ONCE, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

COOLDOWN = 6
"""The check of cooldowns."""

COOLED = tuple(spend for spend, row in ROWS.items() if COOLDOWN in row)
"""The operations that the table bounds by a cooldown (S52-S54)."""

STATING = dict(zip(COOLED, (52, 53, 54), strict=True))
"""The fact that states each."""

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


Wait: TypeAlias = tuple[Micros, Micros]
"""The least and the most that a stated wait may be, in business time."""

LONGER = 4
"""A cooldown that lasts too long does so by this part of it: what is accepted later shows nothing."""


@dataclass(slots=True)
class Trials:
    """What each reading of U46 makes of the instances of a rule: how many hold, what breaks, what is open."""

    held: dict[tuple[str, CooldownInterpretation], int] = field(default_factory=lambda: defaultdict(int))
    broke: dict[tuple[str, CooldownInterpretation], list[tuple[str, Evidence]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """In which case, and what tells."""
    open: dict[tuple[str, CooldownInterpretation], int] = field(default_factory=lambda: defaultdict(int))
    cases: dict[tuple[str, CooldownInterpretation], dict[str, tuple[str, ...]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """The cases that were exercised, with the first exchanges that did."""

    def covers(self, rule: str, kind: CooldownInterpretation, case: str, *ids: str) -> None:
        """Note that an exchange would have shown a case broken."""
        self.cases[rule, kind].setdefault(case, ids)

    def add(
        self, rule: str, kind: CooldownInterpretation, holds: bool | None, evidence: Evidence, case: str = ANY
    ) -> None:
        """Note one instance; None when nobody can tell."""
        if holds is None:
            self.open[rule, kind] += 1
        elif holds:
            self.held[rule, kind] += 1
        else:
            self.broke[rule, kind].append((case, evidence))

    def left(self, kinds: Sequence[CooldownInterpretation]) -> list[CooldownInterpretation]:
        """Return the readings that nothing excludes; all of them where each is excluded."""
        excluded = {kind for (_, kind), breaks in self.broke.items() if breaks}
        return [kind for kind in kinds if kind not in excluded] or list(kinds)

    def tell(self, kinds: Sequence[CooldownInterpretation], tally: Tally) -> None:
        """Report to the tally what the first reading says that nothing excludes, else the default.

        Where nothing was refused as it says, the default is excluded, and there may be no cooldown.
        """
        chosen = self.left(kinds)[0]
        for (_, kind), breaks in self.broke.items():
            if kind == kinds[0] != chosen and breaks:
                refuses = any(self.held[rule, chosen] for rule in ("cooldown.refused", "cooldown.stated"))
                tally.differs(46, kinds[0], chosen if refuses else kinds[0].without(chosen), breaks[0][1])
        for (rule, kind), count in self.held.items():
            if kind == chosen:
                tally.held(rule, count, case=None)
        for (rule, kind), count in self.open.items():
            if kind == chosen and count:
                tally.open(rule, "a run before may have failed, or what went before was not seen", count)
        for (rule, kind), cases in self.cases.items():
            for case, ids in cases.items() if kind == chosen else ():
                tally.covers(rule, case, ids)
        for (rule, kind), breaks in self.broke.items():
            for case, evidence in breaks if kind == chosen else ():
                tally.broke(rule, evidence, case=case)


def judge(activity: AccountActivity, clock: BusinessClock, options: Options, tally: Tally) -> None:
    """Judge the cooldowns and joins of one account."""
    runs = CooldownGroups(activity, clock.rate, options)
    waits = [refused for refused in activity.refusals if refused.check == 6 and refused.spend]
    if not clock.rate:
        if waits:
            tally.open("cooldown.refused", "business time changed its pace while running", len(waits))
        return
    kinds = kinds_of(options)
    tried(runs, waits, kinds).tell(kinds, tally)
    for refused in waits:
        _note_arming(runs, refused, tally)


def tried(
    runs: CooldownGroups, waits: Sequence[RefusedSpend], kinds: Sequence[CooldownInterpretation]
) -> Trials:
    """Try each reading of U46 on what was accepted, and on the refusals of check 6."""
    trials = Trials()
    for kind in kinds:
        judge_enforced(runs, kind, trials)
        for refused in waits:
            judge_refused(runs, refused, kind, trials)
            judge_stated(runs, refused, kind, trials)
    return trials


def readings_left(runs: CooldownGroups) -> list[CooldownInterpretation]:
    """Return the readings of U46 that nothing of an account excludes."""
    waits = [refused for refused in runs.activity.refusals if refused.check == 6 and refused.spend]
    kinds = kinds_of(runs.options)
    return tried(runs, waits, kinds).left(kinds)


def _note_arming(runs: CooldownGroups, refused: RefusedSpend, tally: Tally) -> None:
    """A refusal on a domain of this trace where all that ran had failed: a failed run arms (U46)."""
    if not runs.activity.alone or refused.domain not in runs.activity.domains:
        return
    before = [work for work in runs.works[refused.spend] + runs.works[""] if work.low <= refused.high]
    if before and all(runs.unfailed(work, refused.low) is False for work in before):
        says = f"{refused.spend} was refused as cooldown_active, and each run before it had failed"
        ids = (before[-1].exchange.id, refused.exchange.id)
        evidence = Evidence(says, ids, (), runs.about(refused), refused.low)
        tally.differs(46, "a failed run does not arm", "it does", evidence)


def kinds_of(options: Options) -> list[CooldownInterpretation]:
    """Return the readings of U46 that are left, the default first."""
    scopes, begins = options.candidates("cooldown_scope"), options.candidates("cooldown_from")
    return [CooldownInterpretation(scope, begin) for scope, begin in product(scopes, begins)]


# Checks


def judge_enforced(runs: CooldownGroups, kind: CooldownInterpretation, trials: Trials) -> None:
    """Two acceptances of the same thing lie at least its cooldown apart, unless the first failed meanwhile.

    The first was accepted no sooner than its call was sent, the second no later than it was answered; the
    cooldown begins at the acceptance, or at a finish that was observed before the second call, and that came
    after the last reply that showed the job under way.
    """
    for spend, works in list(runs.works.items()):
        length = runs.lengths.get(spend)
        if not length or not runs.minded(spend):
            continue
        last: dict[str, SpendWork] = {}
        early: list[tuple[SpendWork, SpendWork]] = []
        for work in sorted((w for w in works if w.sure), key=lambda w: w.low):
            if kind.scope == "domain" and not work.domain:
                continue
            subject = work.domain if kind.scope == "domain" else ""
            first, last[subject] = last.get(subject), work
            if first is not None:
                _judge_pair(runs, first, work, length, kind, trials)
                if _early(runs, first, work, length, kind):
                    early.append((first, work))
            elif (
                kind.scope == "domain"
                and runs.activity.domains.get(work.domain) is not None
                and len(last) > 1
            ):
                trials.covers("cooldown.refused", kind, "on another domain", work.exchange.id)
        _judge_early(runs, early, length, kind, trials)


def _early(
    runs: CooldownGroups, first: SpendWork, second: SpendWork, length: Micros, kind: CooldownInterpretation
) -> bool:
    """Return whether the second surely came too early, by less than what whole seconds hide."""
    latest = max(first.high, second.high)
    gap, slack = (latest - first.low) * runs.rate, runs.slack(latest - first.low)
    if not length - slack <= gap < length - (slack - SECOND) or first.high >= second.low:
        return False
    if kind.begins == "finish" and not runs.fate(first).done < second.low:
        return False
    return runs.unfailed(first, latest) is True and not runs.may_clear(first, second, kind)


def _judge_early(
    runs: CooldownGroups,
    pairs: Sequence[tuple[SpendWork, SpendWork]],
    length: Micros,
    kind: CooldownInterpretation,
    trials: Trials,
) -> None:
    """Break when no reckoning in whole seconds explains all pairs that came too early by less than one.

    Lemma. A cooldown may count from the last whole second before its begin, or end with the whole second in
    which a call comes. Let a pair miss m of the cooldown, from the first's sending to the second's answer. By
    the first reckoning no whole second of the deployment's clock lies in the m before that sending, by the
    second none in the m after that answer. Whole seconds of one clock lie a second apart: where such spans of
    all pairs, laid upon each other, leave no place in a second for one, that reckoning explains them not.
    Both at once hide more than a second, which no pair may. Spans are trimmed by what clocks drift meanwhile.
    """
    for start in range(len(pairs)):
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
            gaps = ", ".join(f"{format_millis((b.high - a.low) * runs.rate)}" for a, b in near)
            says = (
                f"{near[0][0].spend} was accepted again within {gaps}, with a cooldown of "
                f"{format_millis(length)}, and no count in whole seconds explains all of it"
            )
            ids = tuple(work.exchange.id for pair in near for work in pair)
            expected = f"{near[0][0].spend} accepted once in {format_millis(length)}"
            evidence = Evidence(says, ids, (), runs.about(near[0][0]), near[0][1].low, expected)
            trials.add("cooldown.enforced", kind, False, evidence, near[0][0].spend)
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


def _judge_pair(
    runs: CooldownGroups,
    first: SpendWork,
    second: SpendWork,
    length: Micros,
    kind: CooldownInterpretation,
    trials: Trials,
) -> None:
    latest, begun = max(first.high, second.high), first.low
    from_finish = kind.begins == "finish" and first.spend in JOBS
    finished = runs.fate(first).done < second.low
    if from_finish and finished:
        begun = max(begun, runs.fate(first).alive)
    gap = (latest - begun) * runs.rate
    if gap >= length - runs.slack(latest - begun):
        trials.add("cooldown.enforced", kind, True, Evidence(""))
        soon = gap <= length + length // LONGER + SECOND  # it could have been refused all the same
        if first.high < second.low and soon:
            over = f"{first.spend}, when it is over"
            trials.covers("cooldown.refused", kind, over, first.exchange.id, second.exchange.id)
        return
    lasted = runs.unfailed(first, latest)
    if first.high >= second.low:  # either may have been the first
        lasted = lasted and runs.unfailed(second, latest)
    if from_finish:
        lasted = lasted and finished
    if lasted and runs.may_clear(first, second, kind):
        lasted = None
    what = "accepted again" if begun > first.low else "accepted twice"
    since = " of its end" if begun > first.low else ""
    says = (
        f"{first.spend} was {what} within {format_millis(gap)}{since}, "
        f"with a cooldown of {format_millis(length)}"
    )
    ids = (first.exchange.id, second.exchange.id)
    expected = f"{first.spend} accepted once in {format_millis(length)}"
    evidence = Evidence(says, ids, (), runs.about(first), second.low, expected)
    case = f"{first.spend}{AT_ONCE if first.high >= second.low else ''}"
    trials.add("cooldown.enforced", kind, False if lasted else None, evidence, case)


def judge_refused(
    runs: CooldownGroups, refused: RefusedSpend, kind: CooldownInterpretation, trials: Trials
) -> None:
    """A refusal needs an acceptance, or a finish, less than the cooldown before it.

    Every call that may have begun it is taken at its latest; a call without an answer may have begun it at
    any time. What went before the trace may have, unless the domain was made in it or the cooldown is over.
    """
    if not runs.activity.alone:
        trials.add("cooldown.refused", kind, None, Evidence(""))
        return
    made = runs.activity.domains.get(refused.domain) if kind.scope == "domain" else None
    own, latest = runs.sharing(refused, kind).latest(refused.high), _latest_begin(runs, refused, kind)
    nearest = min(latest, refused.low)
    length = runs.lengths.get(refused.spend)
    elapsed = (refused.low - nearest) * runs.rate
    says = f"{refused.spend} was refused as cooldown_active"
    first = runs.sharing(refused, kind).last_before(refused.low)
    explained = own > DISTANT_PAST and (length is None or (refused.low - own) * runs.rate < length)
    holds: bool | None = True if explained else None
    if explained and first is not None and length is not None:
        trials.covers("cooldown.enforced", kind, refused.spend, first.exchange.id, refused.exchange.id)
    beside = runs.sharing(refused, kind).beside(refused) if explained and length is not None else None
    if beside is not None:
        case = f"{refused.spend}{AT_ONCE}"
        trials.covers("cooldown.enforced", kind, case, beside.exchange.id, refused.exchange.id)
    if latest == DISTANT_PAST:
        says += ", although it had never been asked for on this domain, which was made in this run"
        holds = False
    elif length is not None and elapsed - runs.slack(refused.low - nearest) >= length:
        says += (
            f" {format_millis(elapsed)} after the last time it can have been accepted, "
            f"with a cooldown of {format_millis(length)}"
        )
        holds = False
    ids = (
        (made.id, refused.exchange.id)
        if made is not None and latest == DISTANT_PAST
        else (refused.exchange.id,)
    )
    evidence = Evidence(says, ids, (), runs.about(refused), refused.low, "no refusal as cooldown_active")
    never = latest == DISTANT_PAST
    case = "on another domain" if never else f"{refused.spend}, when it is over"
    trials.add("cooldown.refused", kind, holds, evidence, case)


def judge_stated(
    runs: CooldownGroups, refused: RefusedSpend, kind: CooldownInterpretation, trials: Trials
) -> None:
    """The stated wait ends the cooldown's length after the anchor, and no acceptance comes before its end.

    The anchor is the last acceptance before, or one during the call; it surely is not later than that, so
    wait and elapsed time together reach the length. It is known only while no run has failed. Where business
    time runs faster than the caller's, either may be meant.
    """
    stated = wait_of(refused.exchange)
    if stated is None:
        return
    waits = waits_of(stated, runs.rate)
    if kind.scope == "domain" and not refused.domain:
        return
    length = runs.lengths.get(refused.spend)
    first = runs.sharing(refused, kind).last_before(refused.low)
    if first is not None and length is not None:
        _judge_length(runs, refused, first, waits, length, kind, trials)
    _judge_kept(runs, refused, min(low for low, _ in waits), kind, trials)


def _judge_length(
    runs: CooldownGroups,
    refused: RefusedSpend,
    first: SpendWork,
    waits: Sequence[Wait],
    length: Micros,
    kind: CooldownInterpretation,
    trials: Trials,
) -> None:
    span = refused.high - first.low
    holding = [_length_holds(runs, refused, first, wait, length, kind) for wait in waits]
    holds = True if True in holding else None if None in holding else False
    stated = " or ".join(format_millis(high) for _, high in waits)
    says = (
        f"accepted at most {format_millis(span * runs.rate)} before, "
        f"refused with {stated} to wait, and the cooldown is {format_millis(length)}"
    )
    ids = (first.exchange.id, refused.exchange.id)
    least = format_millis(max(0, length - span * runs.rate) // SECOND * SECOND)
    expected = f"{least} to {format_millis(length)} to wait"
    evidence = Evidence(says, ids, (), runs.about(refused), refused.low, expected)
    trials.add("cooldown.stated", kind, holds, evidence, refused.spend)
    if holds:
        trials.covers("cooldown.stated", kind, refused.spend, *ids)


def _length_holds(
    runs: CooldownGroups,
    refused: RefusedSpend,
    first: SpendWork,
    wait: Wait,
    length: Micros,
    kind: CooldownInterpretation,
) -> bool | None:
    span, (least, most) = refused.high - first.low, wait
    holds: bool | None = span * runs.rate + most + runs.slack(span) >= length
    if not holds and not runs.unfailed(first, refused.high):
        holds = None
    running = kind.begins == "finish" and (
        runs.latest_beginning(first, kind) >= refused.low or not runs.activity.alone
    )
    if least > length + runs.slack(span):
        return None if running else False  # what is left of the run may be in it, as it is estimated
    if not running and _more_than_left(runs, refused, least, length, kind):
        return False
    return holds


def _more_than_left(
    runs: CooldownGroups, refused: RefusedSpend, wait: Micros, length: Micros, kind: CooldownInterpretation
) -> bool:
    """Return whether a stated wait is more than what is left after the latest that can have begun it.

    The end may be rounded up to a whole second, and the wait once more.
    """
    if not runs.activity.alone:
        return False
    latest = _latest_begin(runs, refused, kind)
    left = length - (refused.low - latest) * runs.rate
    return latest <= refused.low and wait > left + runs.slack(refused.low - latest) + SECOND


def _latest_begin(runs: CooldownGroups, refused: RefusedSpend, kind: CooldownInterpretation) -> Micros:
    """Return the latest instant at which the cooldown of a refusal can have begun; DISTANT_FUTURE: unbound.

    What went before the trace may have begun it, or its finish, unless the domain was made in it.
    """
    latest = runs.sharing(refused, kind).latest(refused.high)
    if kind.scope == "domain" and refused.domain in runs.activity.domains:
        return latest
    finishes = kind.begins == "finish" and refused.spend in JOBS
    return max(latest, DISTANT_FUTURE if finishes else runs.activity.begins)


def _judge_kept(
    runs: CooldownGroups, refused: RefusedSpend, wait: Micros, kind: CooldownInterpretation, trials: Trials
) -> None:
    """Break when the same thing was accepted before the stated wait was over, and no run had failed.

    A run that was not seen may have begun the cooldown, and have failed.
    """
    shared = runs.sharing(refused, kind)
    second = shared.first_after(refused.high)
    if second is None or (kind.scope == "domain" and second.domain != refused.domain):
        return
    span = second.high - refused.low
    if span * runs.rate >= wait - runs.slack(span):
        trials.add("cooldown.stated", kind, True, Evidence(""))
        return
    before = shared.upto(refused.high)
    seen = runs.activity.alone and shared.last_before(refused.low) is not None
    lasted = seen and all(work.sure and runs.unfailed(work, second.high) for work in before)
    says = f"refused with {format_millis(wait)} to wait, and accepted {format_millis(span * runs.rate)} later"
    ids = (refused.exchange.id, second.exchange.id)
    expected = f"cooldown_active until {format_millis(wait)} have passed"
    evidence = Evidence(says, ids, (), runs.about(refused), second.low, expected)
    trials.add("cooldown.stated", kind, False if lasted else None, evidence, refused.spend)


def waits_of(stated: int, rate: int) -> list[Wait]:
    """Return what stated seconds may mean (business µs), at a rate of business time.

    They are seconds of business time, or of the caller's clock, as HTTP has it: whole ones, so that what was
    rounded up to the last of them is not known.
    """
    business = stated * SECOND
    if rate == 1:
        return [(business, business)]
    return [(business, business), (max(0, stated - 1) * SECOND * rate, business * rate)]


def wait_of(exchange: Observation) -> int | None:
    """Return the seconds that a refusal says to wait, by its meta, else its Retry-After."""
    stated = whole(exchange.meta.get("retry_after"))
    return exchange.retry_after if stated is None and not exchange.old else stated
