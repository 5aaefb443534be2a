"""Judge the rate windows of a policy's table, each by the calls that it counts (S102-S104, U1, U4).

Each window is a rule of its own, `window.NAME`. What a refusal is of is what its RateLimit-Limit says, or the
one window that counts the call; a refusal that may be of another may have counted here, and need not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ranksim.core.clock import DISTANT_FUTURE, SECOND, Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.rate_table import Weigher, WindowEntry
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.judge import Judge
from ranksim.judge.conformance.rate.elimination import (
    DRIFT,
    NO_FEWER,
    WindowReadings,
    closest,
    examine,
    pinned_sides,
    with_readings,
)
from ranksim.judge.conformance.rate.ledger import (
    ADMITTED,
    REFUSED,
    UNSURE,
    Interpretation,
    outcome_of,
    steady,
)
from ranksim.judge.conformance.rate.window_calls import NOTHING, CallIntervals, WindowCalls, hidden_calls
from ranksim.judge.conformance.rate.windows import NO_REFUSAL
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Requirement, Rule
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

FAMILY = "window"


def table_rules(policy: Policy) -> tuple[Rule, ...]:
    """Return the rules that the windows of a policy's table are."""
    return tuple(
        Rule(
            f"{FAMILY}.{entry.name}",
            f"{entry.quota} for {', '.join(entry.match)} per {entry.per}, no more and no fewer",
            (102, 103, 104),
            (1, 4),
            exercise="burst",
            essential=NO_REFUSAL,
            refuses=f".*, {NO_FEWER}",
            needs=(Requirement.RATE_LIMIT,),
        )
        for entry in policy.windows
    )


@dataclass(slots=True)
class CountedCalls:
    """The calls that one window counts for one who is limited, in order of sending."""

    ids: list[str] = field(default_factory=list)
    begun: list[Micros] = field(default_factory=list)
    times: list[tuple[Micros, Micros, int]] = field(default_factory=list)
    """When each was sent and answered, and its place among `ids`; once for each unit that it takes."""
    kinds: list[int] = field(default_factory=list)
    weighed: bool = False
    """Whether some call takes more than one, so that a refusal may come before the limit is reached."""

    def add(self, exchange: Observation, kind: int, weight: int) -> None:
        """Note the next call, or another count of the last one."""
        if not self.ids or self.ids[-1] != exchange.id:
            self.ids.append(exchange.id)
            self.begun.append(exchange.sent)
        self.weighed |= weight != 1
        self.times += [(exchange.sent, exchange.received, len(self.ids) - 1)] * weight
        self.kinds += [kind] * weight

    def id(self, position: int) -> str:
        """Return the id of the call at this position."""
        return self.ids[position]

    def sent(self, position: int) -> Micros:
        """Return when it was sent."""
        return self.begun[position]

    def window(self, entry: WindowEntry, about: str, run: ObservedRun) -> WindowCalls:
        """Return the calls as those of a window of the table."""
        times, kinds = np.array(self.times, np.int64).reshape(-1, 3), np.array(self.kinds, np.int64)
        if self.weighed:
            kinds[kinds == REFUSED] = UNSURE
        admitted, unsure, refused = (
            CallIntervals.of(*times[kinds == kind].T) for kind in (ADMITTED, UNSURE, REFUSED)
        )
        start, length = int(times[0, 0]), entry.quota.length // run.traffic_rate
        hidden = hidden_calls(entry.quota.limit, start, length)
        return WindowCalls(
            about=f"{about}, {entry.name} calls",
            limit=entry.quota.limit,
            length=length,
            slack=max(1, length // DRIFT),
            second=SECOND // run.traffic_rate,
            exclusive=run.exclusive and not self.weighed,
            admitted=admitted,
            possible=admitted.joined(unsure).joined(hidden),
            refused=refused,
            stated=NOTHING,
            log=self,
            start=start,
            began=start,
        )


@dataclass(slots=True)
class TableReadings(WindowReadings):
    """The calls of one window: its algorithm where table or policy state it, and else those of U1."""

    counted: WindowCalls
    names: tuple[str, ...]
    refused_count: tuple[bool, ...]
    _against: dict[tuple[Interpretation, bool], Evidence | None] = field(default_factory=dict)

    def readings(self) -> list[Interpretation]:
        """Return each algorithm, with refused calls counted or not where that is open (U4)."""
        return [Interpretation(name, refused) for refused in self.refused_count for name in self.names]

    def calls(self, reading: Interpretation) -> WindowCalls:
        """Return the calls, which every reading counts alike."""
        return self.counted


@dataclass
class TableJudge(Judge):
    """Judges each window of the policy's table, apart for each who is limited, once all calls were shown."""

    options: Options
    tally: Tally = field(init=False)
    groups: dict[tuple[str, str], CountedCalls] = field(default_factory=dict)
    """By the name of a window and who is limited."""

    def __post_init__(self) -> None:
        self.tally = Tally(table_rules(self.options.policy))

    def wants(self, like: Observation) -> bool:
        """All calls that may have happened."""
        return like.happened is not False

    def see(self, exchange: Observation) -> None:
        """Note it in each window that counts it."""
        lines = [*_request_lines(exchange)]
        matching = [
            entry for entry in self.options.policy.windows if any(entry.matches(*line) for line in lines)
        ]
        kind, stated = outcome_of(exchange), exchange.limit
        if exchange.status == 401 and kind == ADMITTED:
            kind = UNSURE
        for entry in matching:
            who = _who(entry, exchange)
            if who is None:
                continue
            rivals = [other.quota.limit for other in matching if other is not entry]
            sure = not rivals or (stated == entry.quota.limit and stated not in rivals)
            counted = self.groups.setdefault((entry.name, who), CountedCalls())
            weigh, body = Weigher(entry.weigh), exchange.body if entry.weigh else None
            counted.add(
                exchange, UNSURE if kind == REFUSED and not sure else kind, weigh.of_json(body) if body else 1
            )
            if len(exchange.operations) > 1:  # they may count one by one (U11)
                counted.add(exchange, UNSURE, len(exchange.operations) - 1)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge every window at the end."""
        if watermark != DISTANT_FUTURE:
            return
        for entry in self.options.policy.windows:
            rule = f"{FAMILY}.{entry.name}"
            if entry.per == "client":
                self.tally.open(rule, "a trace does not say from which address a call came")
            elif not steady(run):
                self.tally.open(rule, "the clock of the rate windows was changed while running")
            else:
                for (name, who), counted in self.groups.items():
                    foreign = entry.per == "key" and run.header.keys and who not in run.header.keys
                    if name == entry.name and not foreign:
                        self._judge_window(entry, f"{entry.per} {who}", counted, run)
        self.groups.clear()

    def _judge_window(self, entry: WindowEntry, who: str, counted: CountedCalls, run: ObservedRun) -> None:
        rule, options = f"{FAMILY}.{entry.name}", self.options
        names = (stated_reading(entry),) if entry.algorithm else options.candidates("window")
        calls = counted.window(entry, who, run)
        examined = examine(TableReadings(calls, names, options.candidates("refused_calls_count")), {})
        if not examined.acting:
            side, against = closest(examined)
            self.tally.broke(rule, with_readings(against, examined), case=f"{who}, {side}")
            return
        tested = pinned_sides(examined)
        if tested:
            self.tally.held(rule, case=None)
        for side, ids in tested.items():
            self.tally.covers(rule, f"{who}, {side}", ids)
        if not tested and len(calls.refused):
            self.tally.open(rule, "another limit explains what was refused as well")


def stated_reading(entry: WindowEntry) -> str:
    """Return the reading that is held against calls of a window whose algorithm is stated."""
    return "places" if entry.algorithm == "concurrency" else entry.algorithm or ""


def _request_lines(exchange: Observation) -> Iterator[tuple[str, str]]:
    """Yield the method and path of a call, or those that its operations over GraphQL have over REST."""
    if exchange.surface != "graphql":
        yield exchange.method, exchange.path.partition("?")[0]
        return
    for name in exchange.operations or (exchange.operation,):
        if name in OPERATIONS:
            yield OPERATIONS[name].method, f"/v1/{OPERATIONS[name].path}"


def _who(entry: WindowEntry, exchange: Observation) -> str | None:
    """Return for whom a window counts a call; None for nobody that is known."""
    if entry.per == "key":
        return exchange.key or None
    return {"path": exchange.path, "all": exchange.environment}.get(entry.per)
