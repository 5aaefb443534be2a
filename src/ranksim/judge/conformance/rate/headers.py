"""Judge rate-limit headers exchange by exchange: three on every response, and Retry-After on a 429.

Whether what they say agrees with what was admitted is judged with the windows (`windows`).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import SECOND, Micros, format_millis
from ranksim.core.contract.facts import RATE_LABELS, RateClass
from ranksim.core.service.operations import OPERATIONS, TABLE
from ranksim.judge.conformance.history.fields import KINDS_OF_ANSWER, MARKED_ANSWERS, kind_of_answer
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.judge import Judge
from ranksim.judge.conformance.rate.ledger import (
    EPOCH,
    ByLimit,
    classes_by_limit,
    foreign,
    is_counted,
    limited,
    nominal,
    steady,
)
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

HEADERS = "rate.headers"
CLASSES = "rate.classes"
RETRY_AFTER = "rate.retry_after"
HONOURED = "rate.retry_after_honoured"
TRAFFIC_ONLY = "rate.traffic_only"

LIMITS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")

RULES = declare(
    Rule(
        HEADERS,
        "Every response carries RateLimit-Limit, -Remaining and -Reset, and they can be true",
        (105,),
        (5, 8),
        exercise="everyday",
        cases=KINDS_OF_ANSWER,
        ways=(Breach(105, "a RateLimit header is missing ({})", "{}", MARKED_ANSWERS),),
        by_reading=True,
    ),
    Rule(
        CLASSES,
        "An operation is counted in its class: read, write or expensive",
        (102, 103, 104),
        (2, 10, 11),
        exercise="everyday",
        cases=(
            *(operation.name for operation in TABLE if not operation.keyless),
            *(f"{operation.name}, dry" for operation in TABLE if operation.spends),
        ),
        ways=(
            Breach(102, "{} counts in another class", "{}", ("domains.list", "slots.get")),
            Breach(103, "{} counts in another class", "{}", ("domains.create", "webhooks.test")),
            Breach(104, "{} counts in another class", "{}", ("jobs.create", "keyword_briefs.create")),
        ),
        by_reading=True,
    ),
    Rule(
        RETRY_AFTER,
        "A 429 of the rate limit carries Retry-After",
        (100,),
        (6,),
        ways=(Breach(100, "a 429 of {} calls has no Retry-After", "{}", RATE_LABELS),),
        looks_at=(*LIMITS, "Retry-After"),
        needs=(Requirement.RATE_LIMIT,),
    ),
    Rule(
        HONOURED,
        "A call after Retry-After, and nothing in between, is admitted",
        (100,),
        (1, 4),
        ways=(Breach(100, "a {} call after Retry-After is refused again", "{}", RATE_LABELS),),
        looks_at=(*LIMITS, "Retry-After"),
        follows=(Cause(TRAFFIC_ONLY, "the refusal that comes too early is one with calls left"),),
        refuses=".*",
        needs=(Requirement.RATE_LIMIT,),
    ),
    Rule(
        TRAFFIC_ONLY,
        "The rate limit refuses only where it says that no call is left",
        (106,),
        (7,),
        ways=(Breach(106, "a {} call is refused while calls are left", "{}", RATE_LABELS),),
        follows=(
            Cause(
                "rate.remaining",
                "what is told to be left is wrong, and a refusal is told it, too",
                case=True,
                unless=("rate.read", "rate.write", "rate.expensive"),
            ),
        ),
        refuses=".*",
        needs=(Requirement.RATE_LIMIT,),
    ),
    exercise="burst",
    looks_at=LIMITS,
)

GATEWAY = (502, 503, 504)
"""Statuses that something before the service may answer, which knows nothing of its headers."""

Window: TypeAlias = tuple[str, str, RateClass]
"""Environment, key and class."""


@dataclass
class HeaderJudge(Judge):
    """Judges the headers of every response as it settles; of each window it keeps the last refusal."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    pending: list[Observation] = field(default_factory=list)
    """What was observed since it last settled."""
    refused: dict[Window, Observation] = field(default_factory=dict)
    """The refusal after which nothing else came to a window."""
    following: dict[Window, tuple[Observation, Observation]] = field(default_factory=dict)
    """A refusal with the call after it, until the next call shows that nothing lies between."""
    busy: dict[Window, Micros] = field(default_factory=lambda: defaultdict(int))
    """By when all earlier calls of a window were answered."""
    unsteady: bool = False
    """Whether it was said that the clock of the windows was changed."""
    limits: ByLimit = field(init=False)

    def __post_init__(self) -> None:
        self.limits = classes_by_limit(self.options)

    def see(self, exchange: Observation) -> None:
        """Keep it until the next settling."""
        self.pending.append(exchange)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge each response, and each call that followed a refusal."""
        even = steady(run)
        for exchange in self.pending:
            rate_class, is_own = nominal(exchange, self.options), not foreign(exchange, run)
            if not exchange.lost and exchange.surface != "app":
                self._judge_headers(exchange, rate_class is not None and is_own)
                if self.limits:
                    self._judge_class(exchange, rate_class)
                if limited(exchange):
                    self._judge_refusal(exchange, self._label(exchange, rate_class))
            if even:
                for pair in self._next_calls(exchange, rate_class) if is_own else ():
                    self._judge_honoured(*pair, run)
            elif limited(exchange) and not self.unsteady:
                self.unsteady = True
                self.tally.open(HONOURED, "the clock of the rate windows was changed while running")
        self.pending.clear()
        for window, pair in list(self.following.items()):
            if even and pair[1].received <= watermark:  # so no call that is yet to come lies between
                self._judge_honoured(*self.following.pop(window), run)

    def _next_calls(
        self, exchange: Observation, rate_class: RateClass | None
    ) -> Iterator[tuple[Observation, Observation]]:
        """Return each refusal with the call after it, where no other call of their window can lie between.

        Where a call is charged in more than one window, it is in the way in each, and when it is refused only
        its RateLimit-Limit tells by which.
        """
        if rate_class is None or exchange.happened is False:
            return
        own = self.limits.get(exchange.limit)
        for touched in _touched(exchange, rate_class, own):
            window = (exchange.environment, exchange.key, touched)
            pair = self.following.pop(window, None)
            if pair is not None and exchange.sent >= pair[1].received:
                yield pair
            alone, before = exchange.sent >= self.busy[window], self.refused.pop(window, None)
            self.busy[window] = max(self.busy[window], exchange.received)
            if before is not None and alone and (not limited(exchange) or own == touched):
                self.following[window] = before, exchange
            if alone and limited(exchange) and own == touched:
                self.refused[window] = exchange

    # The three headers

    def _judge_headers(self, exchange: Observation, keyed: bool) -> None:
        if not exchange.shows("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"):
            return
        given = zip(LIMITS, (exchange.limit, exchange.remaining, exchange.reset), strict=True)
        missing, kind = [name for name, value in given if value is None], kind_of_answer(exchange)
        windows = self.options.policy.windows
        if windows and len(missing) == len(LIMITS) and not is_counted(self.options.policy, exchange):
            return  # it need not have a window to tell of
        if missing and not exchange.outside:
            if exchange.status in GATEWAY and len(missing) == len(LIMITS):
                self.tally.open(HEADERS, "answered by a gateway")
            else:
                says = f"a {exchange.status} has no {', '.join(missing)} that is a whole number"
                self.tally.broke(HEADERS, _evidence(says, exchange), case=kind)
        if missing:
            return
        wrong = self._impossible(exchange, keyed)
        if wrong:
            self.tally.broke(HEADERS, _evidence(wrong, exchange), case=kind)
        else:
            self.tally.held(HEADERS, case=kind, by=(exchange.id,))
        stated = "epoch" if (exchange.reset or 0) >= EPOCH else "delta"
        # an instant instead of seconds is the other option of U5
        if exchange.reset:
            says = f"RateLimit-Reset is {exchange.reset}"
            self._format_differs(5, "reset_format", stated, says, exchange, rule=HEADERS, case=kind)

    def _format_differs(
        self, number: int, name: str, stated: str, says: str, exchange: Observation, *, rule: str, case: str
    ) -> None:
        """Note another choice than the assumed one, which breaks a rule, too, where it is pinned."""
        assumed, excluded = self.options.policy.assumptions, not self.options.may_be(name, stated)
        if stated == getattr(assumed, name):
            return
        evidence = _evidence(says, exchange)
        if excluded:
            self.tally.broke(rule, evidence, case=case)
        self.tally.differs(number, f"{name}: {getattr(assumed, name)}", stated, evidence)

    def _impossible(self, exchange: Observation, keyed: bool) -> str:
        """Return what of the three headers cannot be true, or ""; stated limits are those of keys (U8)."""
        limit, left = exchange.limit or 0, exchange.remaining or 0
        rates = [self.options.facts.rates.of(rate_class) for rate_class in RateClass]
        limits = [entry.quota.limit for entry in self.options.policy.windows] or rates
        if keyed and exchange.status != 401 and limit not in limits:
            return f"RateLimit-Limit is {limit}, and the limits are {', '.join(map(str, limits))}"
        if left > limit:
            return f"RateLimit-Remaining is {left}, above RateLimit-Limit {limit}"
        return ""

    # Classes

    def _judge_class(self, exchange: Observation, wanted: RateClass | None) -> None:
        """RateLimit-Limit names the class that an admitted call was counted in (S102-S104)."""
        stated, operation = self.limits.get(exchange.limit), OPERATIONS.get(exchange.operation)
        if wanted is None or stated is None or operation is None:
            return
        if exchange.status in (401, 429) or exchange.old:
            return
        case = exchange.operation + (", dry" if exchange.dry_run else "")
        if stated == wanted:
            self.tally.held(CLASSES, case=case, by=(exchange.id,))
            return
        says = f"RateLimit-Limit is {exchange.limit}, that of the class {stated.label}, and this is "
        expected = f"RateLimit-Limit {self.options.facts.rates.of(wanted)}"
        evidence = _evidence(says + wanted.label, exchange, expected=expected)
        name, number, acting = "", 0, stated.label
        if exchange.dry_run and RateClass.READ in (stated, wanted):
            name, number, acting = "dry_run_class", 10, "read" if stated == RateClass.READ else "same or free"
        elif operation.tracking and stated != RateClass.READ:
            name, number = "tracking_class", 2
        if not name or self.options.pinned(name):
            self.tally.broke(CLASSES, evidence, case=case)
        if name:
            self.tally.differs(number, f"{name}: {self.options.default(name)}", acting, evidence)

    # Refusals

    def _label(self, exchange: Observation, rate_class: RateClass | None) -> str:
        """Return the class whose window refused a call, as its RateLimit-Limit or its operation says."""
        own = self.limits.get(exchange.limit, rate_class)
        return "no key" if own is None else own.label

    def _judge_refusal(self, exchange: Observation, case: str) -> None:
        """A 429 says when to come back, and that nothing is left."""
        present = exchange.retry_after is not None or exchange.retry_at is not None
        if present or exchange.shows("retry-after"):
            absent = _evidence("a 429 has no Retry-After that can be read", exchange)
            self.tally.check(RETRY_AFTER, present, absent, case=case)
        if present:
            stated = "seconds" if exchange.retry_after is not None else "http_date"
            says = f"Retry-After is {stated.replace('_', ' ')}"
            self._format_differs(6, "retry_after_format", stated, says, exchange, rule=RETRY_AFTER, case=case)
        if exchange.surface != "rest":
            return
        if exchange.code != "rate_limited":
            evidence = _evidence(f"the code is {exchange.code!r}", exchange)
            self.tally.differs(7, "rate_limited", exchange.code or "no code", evidence)
        if exchange.remaining is not None:
            says = f"refused with 429 although RateLimit-Remaining is {exchange.remaining}"
            evidence = _evidence(says, exchange, expected="RateLimit-Remaining 0 with a 429")
            self.tally.check(TRAFFIC_ONLY, exchange.remaining == 0, evidence, case=case)

    def _judge_honoured(self, refused: Observation, following: Observation, run: ObservedRun) -> None:
        """A call that is sent when Retry-After has passed, with no other since the refusal, is not refused.

        Where others may have used the windows a second refusal would show nothing, so an admission does
        neither.
        """
        wait = _wait(refused, run, SECOND // run.traffic_rate)
        slack = self.options.facts.rate_window // run.traffic_rate // 5000
        if wait is None or following.sent < wait + slack or following.lost or following.reply_unrecorded:
            return
        if limited(following) and not run.exclusive:
            self.tally.open(HONOURED, "others may have used the windows")
            return
        waited = format_millis(following.sent - refused.received)
        says = f"refused again {waited} after a 429 whose Retry-After was {refused.retry_after}"
        case = self._label(following, nominal(following, self.options)) if run.exclusive else None
        evidence = _evidence(says, refused, following, expected="no 429")
        self.tally.check(HONOURED, not limited(following), evidence, case=case)


def _evidence(says: str, *exchanges: Observation, expected: str = "") -> Evidence:
    about = f"key {exchanges[0].key or 'none'}, {exchanges[0].operation or exchanges[0].path}"
    ids = tuple(exchange.id for exchange in exchanges)
    return Evidence(says, ids, about=about, at=exchanges[0].sent, expected=expected)


def _wait(refused: Observation, run: ObservedRun, second: Micros) -> Micros | None:
    """When a refused caller may come back, on the trace's clock."""
    if refused.retry_after is not None:
        return refused.received + refused.retry_after * second
    if refused.retry_at is not None and run.offset.bounded and run.rate == 1:
        return refused.retry_at * SECOND - run.offset.low
    return None


def _touched(exchange: Observation, rate_class: RateClass, own: RateClass | None) -> set[RateClass]:
    """Return the classes that a call may be charged in: its own, writes too (U3), or where else it may count.

    Without a RateLimit-Limit additions may count as expensive (U2) and dry runs as reads (U10).
    """
    if own is None and not exchange.named:
        return set(RateClass)
    touched = {rate_class} if own is None else {rate_class, own}
    if own is None and exchange.operation in OPERATIONS and OPERATIONS[exchange.operation].tracking:
        touched.add(RateClass.EXPENSIVE)
    if own is None and exchange.dry_run:
        touched.add(RateClass.READ)
    return touched | {RateClass.WRITE} if RateClass.EXPENSIVE in touched else touched
