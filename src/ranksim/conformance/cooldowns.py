"""Cooldowns, and the join of a rank run under way: who may run the same thing again, and when (S52, S65).

What a cooldown covers and where it begins is open (U46), as is where a join stands (U45): each check is tried
under every option, and a rule breaks when none is left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, product

from ranksim.clock import SECOND, Micros
from ranksim.conformance.asks import JOBS, RANK_RUN, Dealings, Fate, Refused, Work, minds
from ranksim.conformance.history import NEVER, Seen
from ranksim.conformance.options import Options
from ranksim.conformance.readings import BusinessClock, whole
from ranksim.conformance.verdicts import Evidence, Rule, Tally

RULES = (
    Rule(
        "cooldown.enforced",
        "The same thing is not accepted again before its cooldown is over.",
        (52, 53, 54, 65),
        (46, 91, 106, 109),
        "race: several start the same job at once; ladder: repeat a job",
    ),
    Rule(
        "cooldown.refused",
        "cooldown_active comes only where the same thing ran so short a time ago.",
        (65,),
        (46, 91),
        "ladder: repeat a job on the same domain and on another",
    ),
    Rule(
        "cooldown.stated",
        "The wait that a refusal states is what is left of the cooldown, and is kept.",
        (65,),
        (23, 26, 46, 91),
        "ladder: repeat a job, and read entitlements",
    ),
    Rule(
        "cooldown.join",
        "A rank run asked for while one runs gives the one that runs.",
        (52,),
        (45,),
        "race: several ask for a rank run of one domain at once",
    ),
    Rule(
        "cooldown.joins_only",
        "Only a rank run is joined, and only while it runs.",
        (52, 53, 54, 55),
        (45,),
        "race: several ask for each kind of job at once",
    ),
)

DRIFT = 1000
"""Clocks of two machines differ by less than one part in so many."""

JOINS = ("after_health", "before_checks", "after_checks", "never")


@dataclass(frozen=True, slots=True)
class Kind:
    """One reading of U46: what a cooldown covers, and where it begins."""

    scope: str
    begins: str

    def __str__(self) -> str:
        return f"per {self.scope}, from {self.begins}"


@dataclass(slots=True)
class Trials:
    """What each reading of U46 makes of the instances of a rule: how many hold, what breaks, what is open."""

    held: dict[tuple[str, Kind], int] = field(default_factory=lambda: defaultdict(int))
    broke: dict[tuple[str, Kind], list[Evidence]] = field(default_factory=lambda: defaultdict(list))
    open: dict[tuple[str, Kind], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, rule: str, kind: Kind, holds: bool | None, evidence: Evidence) -> None:
        """Note one instance; None when nobody can tell."""
        if holds is None:
            self.open[rule, kind] += 1
        elif holds:
            self.held[rule, kind] += 1
        else:
            self.broke[rule, kind].append(evidence)

    def tell(self, kinds: Sequence[Kind], tally: Tally) -> None:
        """Tell the tally what the first reading says that nothing excludes, else the default."""
        excluded = {kind for (_, kind), found in self.broke.items() if found}
        chosen = next((kind for kind in kinds if kind not in excluded), kinds[0])
        for (_, kind), found in self.broke.items():
            if kind == kinds[0] != chosen and found:
                tally.differs(46, kinds[0], chosen, found[0])
        for (rule, kind), count in self.held.items():
            if kind == chosen:
                tally.held(rule, count)
        for (rule, kind), count in self.open.items():
            if kind == chosen and count:
                tally.open(rule, "a run before may have failed, or what went before was not seen", count)
        for (rule, kind), found in self.broke.items():
            for evidence in found if kind == chosen else ():
                tally.broke(rule, evidence)


def judge(dealings: Dealings, clock: BusinessClock, options: Options, tally: Tally) -> None:
    """Judge the cooldowns and joins of one account."""
    judge_joins_only(dealings, tally)
    judge_join(dealings, options, tally)
    runs = Runs(dealings, clock.rate, options)
    waits = [refused for refused in dealings.refusals if refused.check == 6 and refused.spend]
    if not clock.rate:
        if waits:
            tally.open("cooldown.refused", "business time changed its pace while running", len(waits))
        return
    trials = Trials()
    kinds = kinds_of(options)
    for kind in kinds:
        judge_enforced(runs, kind, trials)
        for refused in waits:
            judge_refused(runs, refused, kind, trials)
            judge_stated(runs, refused, kind, trials)
    trials.tell(kinds, tally)


def kinds_of(options: Options) -> list[Kind]:
    """Give the readings of U46 that are left, the default first."""
    scopes, begins = options.candidates("cooldown_scope"), options.candidates("cooldown_from")
    return [Kind(scope, begin) for scope, begin in product(scopes, begins)]


# Runs


class Shared:
    """Works that share a cooldown, or may, in order of sending, with the latest begin of each."""

    def __init__(self, works: Sequence[Work], begins: Sequence[Micros]) -> None:
        ordered = sorted(zip(works, begins, strict=True), key=lambda pair: pair[0].low)
        self.works = [work for work, _ in ordered]
        self._lows = [work.low for work in self.works]
        self._latest = [-NEVER, *accumulate((begun for _, begun in ordered), max)]

    def upto(self, t: Micros) -> list[Work]:
        """Give the works that can have been accepted by `t`."""
        return self.works[: bisect_right(self._lows, t)]

    def latest(self, t: Micros) -> Micros:
        """Give the latest beginning among those; -NEVER for none."""
        return self._latest[bisect_right(self._lows, t)]

    def last_before(self, t: Micros) -> Work | None:
        """Give the last sure work that was answered before `t`, by its sending."""
        for place in range(bisect_right(self._lows, t) - 1, -1, -1):
            work = self.works[place]
            if work.sure and work.high < t:
                return work
        return None

    def first_after(self, t: Micros) -> Work | None:
        """Give the first sure work that was sent after `t`."""
        for place in range(bisect_right(self._lows, t), len(self.works)):
            if self.works[place].sure:
                return self.works[place]
        return None


class Runs:
    """The works of an account by what they do, how long their cooldown is, and what became of them."""

    def __init__(self, dealings: Dealings, rate: int, options: Options) -> None:
        self.dealings, self.rate, self.options = dealings, max(1, rate), options
        self.clears = "clear" in options.candidates("cooldown_after_failure")
        self.works: dict[str, list[Work]] = defaultdict(list)
        self._on: dict[tuple[str, str], list[Work]] = defaultdict(list)
        self._shared: dict[tuple[str, str, Kind], Shared] = {}
        for work in dealings.works:
            self.works[work.spend].append(work)
            self._on[work.spend, work.domain].append(work)
        self.lengths = self._lengths()

    def sharing(self, asked: Work | Refused, kind: Kind) -> Shared:
        """Give the works that share a cooldown with what was asked, or may."""
        domain = "" if kind.scope == "account" else asked.domain
        known = self._shared.get((asked.spend, domain, kind))
        if known is not None:
            return known
        if domain:
            works = self._on[asked.spend, domain] + self._on[asked.spend, ""] + self.works[""]
        else:
            works = self.works[asked.spend] + self.works[""]
        shared = Shared(works, [self.latest_beginning(work, kind) for work in works])
        self._shared[asked.spend, domain, kind] = shared
        return shared

    def latest_beginning(self, work: Work, kind: Kind) -> Micros:
        """Give the latest instant at which a work can have begun a cooldown, NEVER when nothing bounds it."""
        if kind.begins == "finish" and work.spend in JOBS:
            fate = self.fate(work)
            return fate.done if fate.done < NEVER else fate.failed
        return work.high

    def may_clear(self, first: Work, second: Work, kind: Kind) -> bool:
        """Tell whether a third run may have failed between two, and have cleared the cooldown (U91).

        Runs from before the trace are taken not to fail just then.
        """
        if not self.clears or first.spend not in JOBS:
            return False
        latest = max(first.high, second.high)
        others = [work for work in self.sharing(first, kind).upto(latest) if work not in (first, second)]
        return any(not self.unfailed(work, latest) and self.fate(work).failed >= first.low for work in others)

    def minded(self, spend: str) -> bool:
        """Tell whether the cooldown surely applies to an operation (U58)."""
        return minds(self.dealings, spend, 6, self.options)

    def _lengths(self) -> dict[str, Micros]:
        """Take the lengths of cooldowns from entitlements, where these never change."""
        stated = [entitled.cooldowns for entitled in self.dealings.entitled]
        return dict(stated[0]) if stated and all(found == stated[0] for found in stated) else {}

    def fate(self, work: Work) -> Fate:
        """Give what was seen of a work's job; nothing else can fail once it is answered."""
        if work.spend in JOBS:
            return self.dealings.fates.get(work.id, Fate())
        return Fate(done=work.high)

    def unfailed(self, work: Work, until: Micros) -> bool | None:
        """Tell whether a work had surely not failed by an instant; False where it surely had."""
        fate = self.fate(work)
        if fate.done < NEVER or fate.alive >= until:
            return True
        return False if fate.failed < until else None

    def slack(self, span: Micros) -> Micros:
        """Give what clocks may drift over a span of the trace, and what whole seconds hide, business time."""
        return self.rate * (abs(span) // DRIFT) + SECOND

    def about(self, work: Work | Refused) -> str:
        """Name what is repeated."""
        return f"{self.dealings.about}, {work.spend} on {work.domain or 'a domain not known'}"


# Checks


def judge_enforced(runs: Runs, kind: Kind, trials: Trials) -> None:
    """Two acceptances of the same thing lie at least its cooldown apart, unless the first failed meanwhile.

    The first was accepted no sooner than its call was sent, the second no later than it was answered; the
    cooldown begins at the acceptance, or at a finish that was seen before the second call.
    """
    for spend, works in list(runs.works.items()):
        length = runs.lengths.get(spend)
        if not length or not runs.minded(spend):
            continue
        last: dict[str, Work] = {}
        for work in sorted((w for w in works if w.sure), key=lambda w: w.low):
            if kind.scope == "domain" and not work.domain:
                continue
            subject = work.domain if kind.scope == "domain" else ""
            first, last[subject] = last.get(subject), work
            if first is not None:
                _judge_pair(runs, first, work, length, kind, trials)


def _judge_pair(runs: Runs, first: Work, second: Work, length: Micros, kind: Kind, trials: Trials) -> None:
    latest = max(first.high, second.high)
    gap = (latest - first.low) * runs.rate
    if gap >= length - runs.slack(latest - first.low):
        trials.add("cooldown.enforced", kind, True, Evidence(""))
        return
    lasted = runs.unfailed(first, latest)
    if first.high >= second.low:  # either may have been the first
        lasted = lasted and runs.unfailed(second, latest)
    if kind.begins == "finish" and first.spend in JOBS:
        lasted = lasted and runs.fate(first).done < second.low
    if lasted and runs.may_clear(first, second, kind):
        lasted = None
    says = (
        f"{first.spend} was accepted twice within {gap / SECOND:.3f} s, "
        f"with a cooldown of {length // SECOND} s"
    )
    ids = (first.seen.id, second.seen.id)
    evidence = Evidence(says, ids, about=runs.about(first), at=second.low)
    trials.add("cooldown.enforced", kind, False if lasted else None, evidence)


def judge_refused(runs: Runs, refused: Refused, kind: Kind, trials: Trials) -> None:
    """A refusal needs an acceptance, or a finish, less than the cooldown before it.

    Every call that may have begun it is taken at its latest; a call without an answer may have begun it at
    any time. What went before the trace may have, unless the domain was made in it or the cooldown is over.
    """
    if not runs.dealings.alone:
        trials.add("cooldown.refused", kind, None, Evidence(""))
        return
    made = runs.dealings.made.get(refused.domain) if kind.scope == "domain" else None
    own = latest = runs.sharing(refused, kind).latest(refused.high)
    if made is None:  # a run from before the trace may have begun it, or its finish
        finishes = kind.begins == "finish" and refused.spend in JOBS
        latest = max(latest, NEVER if finishes else runs.dealings.begins)
    nearest = min(latest, refused.low)
    length = runs.lengths.get(refused.spend)
    elapsed = (refused.low - nearest) * runs.rate
    says = f"{refused.spend} was refused as cooldown_active"
    explained = own > -NEVER and (length is None or (refused.low - own) * runs.rate < length)
    holds: bool | None = True if explained else None
    if latest == -NEVER:
        says += ", although it had never been asked for on this domain, which was made in this run"
        holds = False
    elif length is not None and elapsed - runs.slack(refused.low - nearest) >= length:
        says += (
            f" {elapsed / SECOND:.3f} s after the last time it can have been accepted, "
            f"with a cooldown of {length // SECOND} s"
        )
        holds = False
    ids = (made.id, refused.seen.id) if made is not None and latest == -NEVER else (refused.seen.id,)
    trials.add(
        "cooldown.refused", kind, holds, Evidence(says, ids, about=runs.about(refused), at=refused.low)
    )


def judge_stated(runs: Runs, refused: Refused, kind: Kind, trials: Trials) -> None:
    """The stated wait ends the cooldown's length after the anchor, and no acceptance comes before its end.

    The anchor is the last acceptance before, or one during the call; it surely is not later than that, so
    wait and elapsed time together reach the length. It is known only while no run has failed.
    """
    wait = wait_of(refused.seen)
    if wait is None:
        return
    if kind.scope == "domain" and not refused.domain:
        return
    length = runs.lengths.get(refused.spend)
    first = runs.sharing(refused, kind).last_before(refused.low)
    if first is not None and length is not None:
        _judge_length(runs, refused, first, wait * SECOND, length, kind, trials)
    _judge_kept(runs, refused, wait * SECOND, kind, trials)


def _judge_length(
    runs: Runs, refused: Refused, first: Work, wait: Micros, length: Micros, kind: Kind, trials: Trials
) -> None:
    span = refused.high - first.low
    holds: bool | None = span * runs.rate + wait + runs.slack(span) >= length
    if not holds and not runs.unfailed(first, refused.high):
        holds = None
    if wait > length + runs.slack(span):
        holds = False
    says = (
        f"accepted at most {span * runs.rate / SECOND:.3f} s before, "
        f"refused with {wait // SECOND} s to wait, and the cooldown is {length // SECOND} s"
    )
    ids = (first.seen.id, refused.seen.id)
    evidence = Evidence(says, ids, about=runs.about(refused), at=refused.low)
    trials.add("cooldown.stated", kind, holds, evidence)


def _judge_kept(runs: Runs, refused: Refused, wait: Micros, kind: Kind, trials: Trials) -> None:
    """Break when the same thing was accepted before the stated wait was over, and no run had failed."""
    shared = runs.sharing(refused, kind)
    second = shared.first_after(refused.high)
    if second is None or (kind.scope == "domain" and second.domain != refused.domain):
        return
    span = second.high - refused.low
    if span * runs.rate >= wait - runs.slack(span):
        trials.add("cooldown.stated", kind, True, Evidence(""))
        return
    before = shared.upto(refused.high)
    known = shared.last_before(refused.low) is not None
    lasted = known and all(work.sure and runs.unfailed(work, second.high) for work in before)
    says = f"refused with {wait // SECOND} s to wait, and accepted {span * runs.rate / SECOND:.3f} s later"
    evidence = Evidence(says, (refused.seen.id, second.seen.id), about=runs.about(refused), at=second.low)
    trials.add("cooldown.stated", kind, False if lasted else None, evidence)


def wait_of(seen: Seen) -> int | None:
    """Give the seconds of business time that a refusal says to wait, of its meta, else of its Retry-After."""
    stated = whole(seen.meta.get("retry_after"))
    return seen.retry_after if stated is None and not seen.replayed else stated


# Joins


def judge_joins_only(dealings: Dealings, tally: Tally) -> None:
    """One job is returned by calls that are no repeats of each other only when it is a rank run that runs.

    Two calls without an Idempotency-Key in common are two requests, and each gets a job of its own.
    """
    for work in dealings.works:
        if work.spend not in JOBS or not work.id:
            continue
        first = min(work.calls, key=lambda seen: seen.received)
        for seen in work.calls:
            if not _apart(first, seen):
                continue
            done = min(dealings.fates[work.id].done, dealings.fates[work.id].failed)
            wrong = ""
            if work.spend != RANK_RUN:
                wrong = f"two requests for a {work.spend} were answered with one job"
            elif done < seen.sent:
                wrong = "a request was answered with a rank run that had finished before it was sent"
            evidence = Evidence(wrong, (first.id, seen.id), about=dealings.about, at=seen.sent)
            tally.check("cooldown.joins_only", not wrong, evidence)
        if work.spend != RANK_RUN and len(work.calls) == 1 and work.sure:
            tally.held("cooldown.joins_only")


def _apart(first: Seen, seen: Seen) -> bool:
    """Tell whether two exchanges surely are two requests, not one and its replay."""
    if seen is first or seen.lost or seen.replayed or first.replayed:
        return False
    return seen.idempotency_key is None or seen.idempotency_key != first.idempotency_key


def judge_join(dealings: Dealings, options: Options, tally: Tally) -> None:
    """While a rank run surely is under way, each option of U45 leaves certain answers only.

    A run that an answer showed queued or running after the call was over was under way throughout it.
    """
    left = list(options.candidates("join"))
    default = left[0]
    shown: dict[str, Evidence] = {}
    found = list(_asked_while_running(dealings))
    for low, outcome, seen, run in found:
        says = f"a rank run was under way ({run.id}), and another request for it was {outcome}"
        evidence = Evidence(says, (run.seen.id, seen.id), about=dealings.about, at=low)
        for option in set(left) - set(_allowed(outcome)):
            left.remove(option)
            shown[option] = evidence
    if not left:
        tally.broke("cooldown.join", shown[default])
        return
    tally.held("cooldown.join", len(found))
    if default not in left:
        tally.differs(45, default, left[0], shown[default])


def _allowed(outcome: str) -> tuple[str, ...]:
    if outcome == "joined":
        return JOINS[:3]
    if outcome in ("refused at check 1", "refused at check 2"):
        return ("after_health", "after_checks", "never")
    if outcome.startswith("refused"):
        return ("after_checks", "never")
    return ("never",)


def _asked_while_running(dealings: Dealings) -> Iterator[tuple[Micros, str, Seen, Work]]:
    """Give the requests for a rank run that lie wholly within another's: (when, outcome, call, the other)."""
    runs: dict[str, list[Work]] = defaultdict(list)
    for work in dealings.works:
        if work.spend == RANK_RUN and work.domain and work.id:
            runs[work.domain].append(work)
    for refused in dealings.refusals:
        if refused.spend == RANK_RUN:
            run = _under_way(dealings, runs[refused.domain], refused.low, refused.high)
            if run is not None:
                yield refused.low, f"refused at check {refused.check}", refused.seen, run
    for works in list(runs.values()):
        for work in works:
            yield from _answered(dealings, works, work)
        for first, second in pairwise(works):
            latest = max(first.high, second.high)
            running = min(dealings.fates[first.id].alive, dealings.fates[second.id].alive)
            if first.sure and second.sure and running > latest and first.high >= second.low:
                yield second.low, "answered with another run", second.seen, first


def _answered(
    dealings: Dealings, works: Sequence[Work], work: Work
) -> Iterator[tuple[Micros, str, Seen, Work]]:
    """Give how the calls were answered that returned one run."""
    keys = Counter(seen.idempotency_key for seen in work.calls)
    first = min(work.calls, key=lambda seen: seen.received)
    for seen in work.calls:
        if seen.lost or seen.replayed or (seen.idempotency_key and keys[seen.idempotency_key] > 1):
            continue
        run = work if _apart(first, seen) else _under_way(dealings, works, seen.sent, seen.received)
        if run is not None:
            yield seen.sent, "joined" if run is work else "answered with another run", seen, run


def _under_way(dealings: Dealings, runs: Sequence[Work], low: Micros, high: Micros) -> Work | None:
    """Give a run that was answered before `low`, and shown queued or running by a call sent after `high`."""
    for run in runs:
        if run.high < low and dealings.fates[run.id].alive > high:
            return run
    return None
