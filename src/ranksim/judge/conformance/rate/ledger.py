"""Who debits which rate window: the exchanges of each API key as arrays, and the calls of one window of it.

Which class an exchange debits is what its RateLimit-Limit says, where that is one of the three limits, and
else the class of its operation (S102-S104). What a reading leaves open (U3, U10, U11) decides which exchanges
one window counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.service.operations import OPERATIONS, Operation
from ranksim.judge.conformance.history.history import History, ObservedRun
from ranksim.judge.conformance.history.observation import AFTER_RATE_LIMIT, Observation
from ranksim.judge.conformance.rate.window_calls import NONE, Ints
from ranksim.judge.conformance.verdict.options import Options

ADMITTED, UNSURE, REFUSED = 0, 1, 2

EPOCH = 100_000_000
"""A RateLimit-Reset from here on is an instant in Unix seconds, not a number of seconds (U5)."""


@dataclass(frozen=True, slots=True)
class Interpretation:
    """One reading of what is open: the algorithm (U1), and what counts where (U3, U4, U10, U11)."""

    window: str = "first_hit"
    refused_count: bool = False
    debits_write: bool = False
    dry_run: str = "same"
    graphql: str = "request"

    def departs(self, default: Interpretation) -> int:
        """Count the fields in which it departs from another."""
        return sum(getattr(self, name) != getattr(default, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class KeyLedger:
    """The exchanges of one key, or of all keys of an account, as parallel arrays in order of sending.

    `kind` is ADMITTED, UNSURE or REFUSED. `remaining` and `reset` are -1 where a header is missing.
    """

    name: str
    sent: Ints
    done: Ints
    who: Ints
    kind: Ints
    rate_class: Ints
    dry: Ints
    graphql: Ints
    limit: Ints
    remaining: Ints
    reset: Ints
    log: CallLog

    def has(self, rate_class: RateClass) -> bool:
        """Whether any exchange debits this class."""
        return bool((self.rate_class == rate_class).any())

    def any_dry(self, rate_class: RateClass) -> bool:
        """Whether dry runs debit this class, as far as is known."""
        return bool((self.dry[self.rate_class == rate_class] == 1).any())

    def any_graphql(self) -> bool:
        """Whether any exchange is a GraphQL request."""
        return bool((self.graphql == 1).any())

    def merged(self, other: KeyLedger, name: str) -> KeyLedger:
        """Return both keys' exchanges as if they were one key's."""
        order = np.argsort(np.concatenate([self.sent, other.sent]), kind="stable")
        columns: dict[str, Any] = {
            column: np.concatenate([getattr(self, column), getattr(other, column)])[order]
            for column in COLUMNS
        }
        return replace(self, name=name, **columns)


COLUMNS = {
    **dict.fromkeys(("sent", "done", "who", "limit", "remaining", "reset"), "q"),
    **dict.fromkeys(("kind", "rate_class", "dry", "graphql"), "b"),
}
"""The arrays of a ledger, and of what numbers they are."""


def steady(run: ObservedRun) -> bool:
    """Return whether windows ran at one known speed, and no clock was moved under them."""
    speed = run.traffic_rate
    if not 1 <= speed <= 1000:
        return False
    apart = run.rate != speed
    return apart or all(
        earlier.business is not None
        and later.business is not None
        and abs(later.business - earlier.business - (later.t - earlier.t) * speed) < SECOND
        for earlier, later in zip(run.paces, run.paces[1:], strict=False)
    )


ByLimit: TypeAlias = Mapping[int | None, RateClass]
"""A class by its RateLimit-Limit; none where that is None."""


def classes_by_limit(options: Options) -> ByLimit:
    """Find a class by its limit, where no two have the same (S102-S104), and windows are those of classes."""
    if options.policy.windows:
        return {}
    rates = options.facts.rates
    by_limit: ByLimit = {rates.of(rate_class): rate_class for rate_class in RateClass}
    return by_limit if len(by_limit) == len(RateClass) else {}


def nominal(exchange: Observation, options: Options) -> RateClass | None:
    """Return the class of an exchange by S102-S104, U2 and U10; None for what debits no key (U8, U87)."""
    return _class(exchange, options.default("tracking_class"), options.default("dry_run_class"))


def _class(exchange: Observation, tracking: str, dry_run: str) -> RateClass | None:
    if exchange.method == "OPTIONS" or not exchange.key:
        return None
    operations = _operations(exchange)
    if not operations:
        return RateClass.READ if exchange.method in ("GET", "HEAD") else RateClass.WRITE
    if all(operation.keyless for operation in operations):
        return None
    if exchange.dry_run and operations[0].spends and dry_run == "read":
        return RateClass.READ
    tracked = RateClass.EXPENSIVE if tracking == "expensive" else RateClass.WRITE
    return max(tracked if operation.tracking else operation.rate for operation in operations)


def _operations(exchange: Observation) -> list[Operation]:
    several = () if exchange.surface == "rest" else exchange.operations
    return [OPERATIONS[name] for name in several or (exchange.operation,) if name in OPERATIONS]


def limited(exchange: Observation) -> bool:
    """Return whether the rate limit refused an exchange: a 429 that has no code of another refusal (S106)."""
    return exchange.status == 429 and exchange.code not in AFTER_RATE_LIMIT and not exchange.reply_unrecorded


def foreign(exchange: Observation, run: ObservedRun) -> bool:
    """Return whether a call carries a key that is none where it was sent: its caller is charged (U8, U9)."""
    keys = run.header.keys
    return bool(keys) and (exchange.key not in keys or keys[exchange.key].environment != exchange.environment)


Rows: TypeAlias = tuple[tuple[tuple[int, ...], ...], ...]
"""Of each kind of call how it is counted: once, or in each class that it may have debited."""

StatedLimits: TypeAlias = dict[tuple[str, bool], dict[int, None]]
"""Each RateLimit-Limit stated for an operation, or for its dry run, in order of the last statement."""

_alike = attrgetter(
    *("environment", "account", "key", "surface", "operation", "method", "status", "code"),
    *("dry_run", "limit", "replayed", "repeat", "happened"),
)
"""What of an exchange tells how it is counted, but for the operations of a GraphQL call."""


@dataclass
class CallLog:
    """Calls in order of sending: a few numbers of each, and an example of each kind of call.

    `limits` may be shared with other logs of a run. A log that `resumes` goes on where another was forgotten.
    """

    limits: StatedLimits = field(default_factory=dict)
    resumes: bool = False
    _examples: list[Observation] = field(default_factory=list)
    _numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The place of each kind's example."""
    _kind: array[int] = field(default_factory=lambda: array("I"))
    _sent: array[int] = field(default_factory=lambda: array("q"))
    _done: array[int] = field(default_factory=lambda: array("q"))
    _remaining: array[int] = field(default_factory=lambda: array("q"))
    _reset: array[int] = field(default_factory=lambda: array("q"))
    _ids: bytearray = field(default_factory=bytearray)
    _ends: array[int] = field(default_factory=lambda: array("Q", [0]))

    def add(self, exchange: Observation) -> None:
        """Log the next call."""
        rest, limit = exchange.surface == "rest", exchange.limit
        alike = (() if rest else exchange.operations, *_alike(exchange))
        number = self._numbers.setdefault(alike, len(self._examples))
        if number == len(self._examples):
            self._examples.append(exchange)
        if limit is not None and exchange.ok and rest and not exchange.replayed:
            limits = self.limits.setdefault((exchange.operation, exchange.dry_run), {})
            limits.pop(limit, None)
            limits[limit] = None
        self._kind.append(number)
        stale = exchange.repeat  # headers of a replay may be those of the first reply
        self._sent.append(exchange.sent)
        self._done.append(exchange.received)
        self._remaining.append(-1 if exchange.remaining is None or stale else exchange.remaining)
        self._reset.append(-1 if exchange.reset is None or stale else exchange.reset)
        self._ids += exchange.id.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._ids))

    def id(self, position: int) -> str:
        """Return the id of the call at this position."""
        return self._ids[self._ends[position] : self._ends[position + 1]].decode("utf-8", "surrogatepass")

    def sent(self, position: int) -> Micros:
        """Return when it was sent."""
        return self._sent[position]

    @property
    def busy(self) -> Micros:
        """When the last call was sent."""
        return self._sent[-1]

    def ledgers(self, rows: Rows) -> list[KeyLedger]:
        """Return the ledger of each key, in order of first use, where kinds of calls count as `rows` say."""
        if not len(self._kind):
            return []
        kinds = np.frombuffer(self._kind, np.uint32)
        count = np.array([len(combination) for combination in rows], np.int64)[kinds]
        who = np.repeat(np.arange(len(kinds)), count)
        nth = np.arange(len(who)) - np.repeat(np.cumsum(count) - count, count)
        starts = np.cumsum([0, *(len(combination) for combination in rows)])[:-1]
        flat = [row for combination in rows for row in combination]
        place = starts[kinds[who]] + nth
        columns = {
            name: np.array([row[at] for row in flat], np.dtype(COLUMNS[name]))[place] if flat else NONE
            for at, name in enumerate(("kind", "rate_class", "dry", "graphql", "limit"))
        }
        own = {"sent": self._sent, "done": self._done, "remaining": self._remaining, "reset": self._reset}
        columns |= {name: np.frombuffer(column, np.int64)[who] for name, column in own.items()}
        columns["who"] = who
        owners = [(exchange.environment, exchange.account, exchange.key) for exchange in self._examples]
        numbers = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
        owned = np.array([numbers[owner] for owner in owners], np.int64)[kinds[who]]
        combination, firsts = np.unique(owned, return_index=True)
        names = list(numbers)
        ledgers = []
        for number in combination[np.argsort(firsts)]:
            chosen = np.flatnonzero(owned == number)
            key = names[int(number)][2]
            ledgers.append(KeyLedger(key, **{name: columns[name][chosen] for name in COLUMNS}, log=self))
        return ledgers

    def rows(self, run: ObservedRun, options: Options) -> Rows:
        """Return how each kind of call is counted under some options."""
        by_limit = classes_by_limit(options)
        learnt = {
            name: by_limit[limit]
            for name, limits in self.limits.items()
            for limit in limits
            if limit in by_limit
        }
        rows = []
        for exchange in self._examples:
            counts = [] if foreign(exchange, run) else _counts(exchange, by_limit, learnt, options)
            limit = -1 if exchange.limit is None else exchange.limit
            own = int(exchange.dry_run), int(exchange.surface == "graphql"), limit
            rows.append(tuple((kind, int(rate_class), *own) for kind, rate_class in counts))
        return tuple(rows)


def _counts(
    exchange: Observation, by_limit: ByLimit, learnt: Mapping[tuple[str, bool], RateClass], options: Options
) -> list[tuple[int, RateClass]]:
    """Return the kind and class by which an exchange is counted: each class that it may have debited.

    Where it has no RateLimit-Limit, and the open choices (U2, U10) or an unknown operation leave several
    classes, it may or may not count in any of them. So may a 429 of an expensive call, which may be of the
    writes' window (U3).
    """
    assumed = nominal(exchange, options)
    if assumed is None:
        return []
    kind, stated, expensive = outcome_of(exchange), by_limit.get(exchange.limit), RateClass.EXPENSIVE
    if stated is None and exchange.surface == "rest" and exchange.named:
        stated = learnt.get((exchange.operation, exchange.dry_run))
    if stated is not None:
        unnamed = (kind, exchange.limit, stated) == (REFUSED, None, expensive)
        return [(UNSURE if unnamed else kind, stated)]
    if exchange.limit is not None and kind != UNSURE:
        return [(kind, assumed)]
    classes = _open_classes(exchange, options) if exchange.named else list(RateClass)
    sure = len(classes) == 1 and not (kind == REFUSED and expensive in classes)
    return [(kind if sure else UNSURE, rate_class) for rate_class in classes]


def _open_classes(exchange: Observation, options: Options) -> list[RateClass]:
    """Return the classes that an exchange may debit by the open choices (U2, U10)."""
    choices = product(options.candidates("tracking_class"), options.candidates("dry_run_class"))
    classes = {_class(exchange, str(tracking), str(dry_run)) for tracking, dry_run in choices}
    return sorted(rate_class for rate_class in classes if rate_class is not None)


def outcome_of(exchange: Observation) -> int:
    """Return ADMITTED, REFUSED or UNSURE (U86, U87).

    Admitted for certain: successes, and refusals that come after the rate limit.
    """
    if limited(exchange):
        return REFUSED
    answered = 200 <= exchange.status <= 399 or exchange.code in AFTER_RATE_LIMIT
    return ADMITTED if answered and not exchange.repeat else UNSURE


def logged(history: History) -> CallLog:
    """Log the calls of a whole history that may have happened."""
    log = CallLog()
    for exchange in history.where(lambda like: like.happened is not False and not like.request_unrecorded):
        log.add(exchange)
    return log


def is_counted(policy: Policy, exchange: Observation) -> bool:
    """Return whether a window of the table counts an exchange for certain, whatever its headers."""
    lines = [*request_lines(exchange)]
    return any(not entry.headers and any(entry.matches(*line) for line in lines) for entry in policy.windows)


def request_lines(exchange: Observation) -> Iterator[tuple[str, str]]:
    """Yield the method and path of a call, or those that its operations over GraphQL have over REST."""
    if exchange.surface != "graphql":
        yield exchange.method, exchange.path.partition("?")[0]
        return
    for name in exchange.operations or (exchange.operation,):
        if name in OPERATIONS:
            yield OPERATIONS[name].method, f"/v1/{OPERATIONS[name].path}"
