"""Judge rate windows: how many calls of each class a key may make, however they are counted (S102-S106).

Which of five algorithms a deployment uses is not stated (U1), nor whether refused calls count (U4). A rule
deviates when no algorithm, with or without refused calls, explains what was admitted and refused, or what the
headers say about it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from ranksim.core.clock import DAY, DISTANT_FUTURE, Micros
from ranksim.core.contract.facts import RATE_LABELS, RateClass
from ranksim.core.trace import Header
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.judge import Judge
from ranksim.judge.conformance.rate.elimination import (
    NO_FEWER,
    NO_MORE,
    Examined,
    Excluded,
    closest,
    examine,
    pinned_sides,
    with_readings,
)
from ranksim.judge.conformance.rate.headers import LIMITS
from ranksim.judge.conformance.rate.key_window import FIELDS, KeyWindow, default_reading
from ranksim.judge.conformance.rate.ledger import CallLog, KeyLedger, Rows, StatedLimits, steady
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally

READ, WRITE, EXPENSIVE = "rate.read", "rate.write", "rate.expensive"
REMAINING = "rate.remaining"
PER_KEY = "rate.per_key"

OPEN = (1, 3, 4, 10, 11)

FACT_OF = dict(zip(RATE_LABELS, (102, 103, 104), strict=True))
"""The fact that states the limit of each class."""

BY_CLASS = {RateClass.READ: READ, RateClass.WRITE: WRITE, RateClass.EXPENSIVE: EXPENSIVE}

NO_REFUSAL = {".*, no more": "no refusal shows that no more would have been admitted"}

TOO_EARLY = (
    Cause("rate.traffic_only", "the refusal that comes too early is one with calls left"),
    Cause("rate.headers", "without RateLimit-Limit nobody knows which window refused"),
)
ONE_LIMITER = "one limiter counts the calls of all classes, and both go wrong in the same way"

RULES = declare(
    Rule(
        READ,
        "A key makes $reads reads in $window, no more and no fewer",
        (102, 106),
        OPEN,
        ways=(
            Breach(102, "more read calls are admitted in 60 s", "key {key}, no more"),
            Breach(102, "fewer read calls are admitted in 60 s", "key {key}, no fewer"),
        ),
        follows=TOO_EARLY,
        essential=NO_REFUSAL,
        refuses=f".*, {NO_FEWER}",
        needs=(Requirement.RATE_LIMIT,),
    ),
    Rule(
        WRITE,
        "A key makes $writes writes in $window, no more and no fewer",
        (103, 106),
        (2, *OPEN),
        ways=(
            Breach(103, "more write calls are admitted in 60 s", "key {key}, no more"),
            Breach(103, "fewer write calls are admitted in 60 s", "key {key}, no fewer"),
        ),
        follows=(*TOO_EARLY, Cause(READ, ONE_LIMITER, alike=True)),
        essential=NO_REFUSAL,
        refuses=f".*, {NO_FEWER}",
        needs=(Requirement.RATE_LIMIT, Requirement.SPENDING),
    ),
    Rule(
        EXPENSIVE,
        "A key makes $expensive expensive calls in $window, no more and no fewer",
        (104, 106),
        OPEN,
        ways=(
            Breach(104, "more expensive calls are admitted in 60 s", "key {key}, no more"),
            Breach(104, "fewer expensive calls are admitted in 60 s", "key {key}, no fewer"),
        ),
        follows=(*TOO_EARLY, Cause(READ, ONE_LIMITER, alike=True), Cause(WRITE, ONE_LIMITER, alike=True)),
        essential=NO_REFUSAL,
        refuses=f".*, {NO_FEWER}",
        needs=(Requirement.RATE_LIMIT, Requirement.DOMAIN),
    ),
    Rule(
        REMAINING,
        "What RateLimit-Remaining and -Reset say agrees with what was admitted and refused",
        (105,),
        (1, 5, 88),
        exercise="everyday; burst",
        ways=(Breach(105, "RateLimit-Remaining is not what was counted", "key {key}, read"),),
        follows=(
            *(
                Cause(name, "a window that admits otherwise tells otherwise", place=True)
                for name in BY_CLASS.values()
            ),
            *(
                Cause(name, "a limiter that counts no calls has all of them left", place=True, uncounted=True)
                for name in BY_CLASS.values()
            ),
        ),
        by_reading=True,
    ),
    Rule(
        PER_KEY,
        "Each key has windows of its own",
        (102, 103, 104),
        exercise="scope; burst with two keys",
        ways=tuple(
            Breach(fact, f"keys share a window of {name} calls", name) for name, fact in FACT_OF.items()
        ),
        needs=(Requirement.SECOND_KEY,),
    ),
    exercise="burst",
    looks_at=LIMITS,
)

Owner: TypeAlias = tuple[str, str]
"""Environment and account."""

Window: TypeAlias = tuple[str, RateClass]
"""Key and class."""

ExaminedKey: TypeAlias = Examined[KeyWindow]

IDLE: Final = DAY
"""Traffic time without a call after which the windows of an account are long empty (S102-S106)."""

UNPINNED = "another limit, under some algorithm, explains what was refused as well"


@dataclass(slots=True)
class AccountWindows:
    """The windows of one account: whatever is assumed, what a reading fails on is found out once."""

    log: CallLog
    run: ObservedRun
    _ledgers: dict[Rows, list[KeyLedger]] = field(default_factory=dict)
    _windows: dict[tuple[int, ...], KeyWindow] = field(default_factory=dict)

    def _window(self, ledgers: Sequence[KeyLedger], rate_class: RateClass, options: Options) -> KeyWindow:
        """Return the window of one key, or that of several that share it."""
        name = (*map(id, ledgers), rate_class)
        if name not in self._windows:
            ledger = ledgers[0]
            for other in ledgers[1:]:
                ledger = ledger.merged(other, f"{ledger.name} and {other.name}")
            self._windows[name] = KeyWindow(ledger, rate_class, self.run, options)
        return replace(self._windows[name], options=options)

    def judge_scope(
        self,
        rate_class: RateClass,
        options: Options,
        tally: Tally,
        excluded: dict[Window, Excluded],
        *,
        trial: bool = False,
    ) -> Iterator[ExaminedKey]:
        """Judge whether an account's keys share one window: explained together, and not alone.

        They are apart when together they cannot be explained in any way, and each alone can. Yields what is
        left of each key's, if they do not share one; a `trial` asks for that only where one is not explained.
        """
        rows = self.log.rows(self.run, options)
        if rows not in self._ledgers:
            self._ledgers[rows] = self.log.ledgers(rows)
        ledgers = [ledger for ledger in self._ledgers[rows] if ledger.has(rate_class)]
        by_key: dict[str, ExaminedKey] = {}
        for ledger in ledgers:
            window, name = self._window([ledger], rate_class, options), (ledger.name, rate_class)
            by_key[ledger.name] = examine(window, excluded.get(name, {}))
            excluded[name] = by_key[ledger.name].excluded
        unexplained = not all(examined.surviving for examined in by_key.values())
        if len(ledgers) > 1 and (unexplained or not trial):
            together = examine(self._window(ledgers, rate_class, options), {})
            if _share(by_key, rate_class, tally, explained=bool(together.surviving)):
                tally.open(BY_CLASS[rate_class], "the keys of the account share a window", len(by_key))
                return
        yield from by_key.values()


def _share(
    by_key: Mapping[str, ExaminedKey], rate_class: RateClass, tally: Tally, *, explained: bool
) -> bool:
    """Note whether keys share a window, where all together are `explained`; return whether they do."""
    failing = next((examined for examined in by_key.values() if not examined.surviving), None)
    if failing is not None and explained:
        evidence = with_readings(next(iter(failing.against.values())), failing)
        says = f"{evidence.says}; but the keys {', '.join(by_key)} of the account share a window"
        evidence = replace(evidence, says=says, expected="a window for each key")
        tally.broke(PER_KEY, evidence, case=rate_class.label)
        return True
    if failing is not None:
        tally.open(PER_KEY, "the windows of a key cannot be explained by themselves")
    elif explained:
        tally.open(PER_KEY, "the keys of the account did not use enough at a time to tell")
    else:
        ids = [
            name
            for examined in by_key.values()
            for name in examined.calls.evidence("", *examined.calls.admitted.who[:1]).exchanges
        ]
        tally.held(PER_KEY, case=rate_class.label, by=ids)
    return False


@dataclass
class WindowJudge(Judge):
    """Judges the windows of each key and class: of each call it keeps a row of numbers."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    logs: dict[Owner, CallLog] = field(default_factory=dict)
    limits: StatedLimits = field(default_factory=dict)
    excluded: dict[Owner, dict[Window, Excluded]] = field(default_factory=dict)
    """Of each account whose calls were forgotten, what cannot have admitted and refused them."""
    earlier: dict[Owner, dict[Window, Excluded]] = field(default_factory=dict)
    """The same of earlier traces."""
    _header: Header = field(default_factory=Header)
    """Whose keys are expected."""

    def wants(self, like: Observation) -> bool:
        """All calls that may have happened."""
        return like.happened is not False

    def see(self, exchange: Observation) -> None:
        """Log it."""
        owner = exchange.environment, exchange.account
        if owner not in self.logs:
            self.logs[owner] = CallLog(self.limits, resumes=owner in self.excluded)
        self.logs[owner].add(exchange)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge and forget the calls of each account that is idle; at the end, of every one."""
        if steady(run):
            if self._header is not run.header:
                self._expect(run)
            for owner, log in list(self.logs.items()):
                if (watermark - log.busy) * run.traffic_rate >= IDLE:
                    self.judge_account(owner, AccountWindows(self.logs.pop(owner), run))
        elif watermark == DISTANT_FUTURE:
            for rule in RULES:
                self.tally.open(rule.name, "the clock of the rate windows was changed while running")

    def _expect(self, run: ObservedRun) -> None:
        """Note that each key that the trace names has windows of each class, each with two sides."""
        self._header = run.header
        for key in run.header.keys:
            for rate_class, rule in BY_CLASS.items():
                self.tally.expect(rule, *(f"key {key}, {side}" for side in (NO_MORE, NO_FEWER)))
                self.tally.expect(REMAINING, f"key {key}, {rate_class.label}")

    def judge_account(self, owner: Owner, windows: AccountWindows) -> None:
        """Judge the windows of one account."""
        excluded = self.excluded.setdefault(owner, dict(self.earlier.get(owner, {})))
        for rate_class in RateClass:
            for examined in windows.judge_scope(rate_class, self.options, self.tally, excluded):
                self._judge_window(examined)

    def _judge_window(self, examined: ExaminedKey) -> None:
        calls, window, tally = examined.calls, examined.window, self.tally
        key, rule = f"key {window.ledger.name}", BY_CLASS[window.rate_class]
        about = f"{key}, {window.rate_class.label}"
        if not examined.acting:
            side, against = closest(examined)
            tally.broke(rule, with_readings(against, examined), case=f"{key}, {side}")
            return
        tested = pinned_sides(examined)
        if tested:
            tally.held(rule, case=None)
            for case, ids in tested.items():
                tally.covers(rule, f"{key}, {case}", ids)
        elif len(calls.refused):
            tally.open(rule, UNPINNED if calls.exclusive else "others may have used the windows")
        if not len(calls.stated):
            return
        if not examined.surviving:
            against = with_readings(examined.against[examined.acting[0]], examined)
            tally.broke(REMAINING, against, case=about)
            return
        tally.held(REMAINING, case=about, by=calls.evidence("", int(calls.stated.who[0])).exchanges)
        default = default_reading(self.options)
        for name, (assumption, number) in FIELDS.items():
            assumed = getattr(default, name)
            left = sorted({str(getattr(reading, name)) for reading in examined.surviving})
            if str(assumed) not in left:
                against = next(iter(examined.against.values()))
                tally.differs(number, f"{assumption}: {assumed}", " or ".join(left), against)
