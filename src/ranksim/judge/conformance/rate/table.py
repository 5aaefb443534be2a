"""Judge the rate windows of a policy's table, each by the calls that it counts (S102-S104, U1, U4).

Each window is a rule of its own, `window.NAME`. What a refusal is of is what its RateLimit-Limit says, or the
one window that counts the call; a refusal that may be of another may have counted here, and need not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ranksim.core.clock import DISTANT_FUTURE, SECOND, Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.rate_table import Weigher, WindowEntry, headers_read, who_states
from ranksim.core.trace import Exchange
from ranksim.judge.conformance.history.exchange_reader import lowered
from ranksim.judge.conformance.history.graphql import Json
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
    request_lines,
    steady,
)
from ranksim.judge.conformance.rate.window_calls import (
    NOTHING,
    CallIntervals,
    StatedCounts,
    WindowCalls,
    hidden_calls,
)
from ranksim.judge.conformance.rate.windows import NO_REFUSAL, REMAINING
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Requirement, Rule
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

FAMILY = "window"


def table_rules(policy: Policy) -> tuple[Rule, ...]:
    """Return the rules that the windows of a policy's table are, and that of what is told to be left."""
    if not policy.windows:
        return ()
    left = Rule(
        REMAINING, "What RateLimit-Remaining says agrees with what was admitted and refused", (105,), (1, 88)
    )
    return left, *(
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
    stated: list[tuple[Micros, Micros, int, int]] = field(default_factory=list)
    """When admitted calls were sent and answered, their places, and how many their headers count."""
    most: int = 1
    """What some call takes; where it is more than one, a refusal may come before the limit is reached."""

    def add(self, exchange: Observation, kind: int, weight: int) -> None:
        """Note the next call, or another count of the last one."""
        if not self.ids or self.ids[-1] != exchange.id:
            self.ids.append(exchange.id)
            self.begun.append(exchange.sent)
        self.most = max(self.most, weight)
        self.times += [(exchange.sent, exchange.received, len(self.ids) - 1)] * weight
        self.kinds += [kind] * weight

    def add_stated(self, exchange: Observation, counted: int) -> None:
        """Note how many calls the headers of the last one say are counted, itself included."""
        self.stated.append((exchange.sent, exchange.received, len(self.ids) - 1, counted))

    def _stated_counts(self) -> StatedCounts:
        """Return what headers say; nothing where calls weigh more than one."""
        if not self.stated or self.most > 1:
            return NOTHING
        sent, done, who, counted = np.array(self.stated, np.int64).T
        return StatedCounts(sent, done, who, counted, np.ones_like(sent), np.zeros_like(sent))

    def id(self, position: int) -> str:
        """Return the id of the call at this position."""
        return self.ids[position]

    def sent(self, position: int) -> Micros:
        """Return when it was sent."""
        return self.begun[position]

    def window(self, entry: WindowEntry, about: str, run: ObservedRun) -> WindowCalls:
        """Return the calls as those of a window of the table.

        Lemma: a call whose weight its reply tells is admitted while there is room for one, so those of a
        window come to less than the limit and the heaviest of them.
        """
        limit = entry.quota.limit + (self.most - 1 if entry.weighs_replies else 0)
        times, kinds = np.array(self.times, np.int64).reshape(-1, 3), np.array(self.kinds, np.int64)
        weighed = self.most > 1 or entry.weighs_replies
        if weighed:
            kinds[kinds == REFUSED] = UNSURE
        admitted, unsure, refused = (
            CallIntervals.of(*times[kinds == kind].T) for kind in (ADMITTED, UNSURE, REFUSED)
        )
        start, length = int(times[0, 0]), entry.quota.length // run.traffic_rate
        hidden = hidden_calls(limit, start, length)
        return WindowCalls(
            about=f"{about}, {entry.name} calls",
            limit=limit,
            length=length,
            slack=max(1, length // DRIFT),
            second=SECOND // run.traffic_rate,
            exclusive=run.exclusive and not weighed,
            admitted=admitted,
            possible=admitted.joined(unsure).joined(hidden),
            refused=refused,
            stated=self._stated_counts(),
            log=self,
            start=start,
            began=start,
            lasting=entry.algorithm == "concurrency",
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
    content: dict[str, dict[str, tuple[str | None, int] | None]] = field(default_factory=dict)
    """By exchange, who is limited and what it takes, by the windows that read headers or bodies.

    None where an exchange does not show it: headers that were not recorded, and bodies of GraphQL.
    """
    blind: set[str] = field(default_factory=set)
    """The windows of which some exchange does not show what they read."""

    def __post_init__(self) -> None:
        self.tally = Tally(table_rules(self.options.policy))

    def see_raw(self, exchange: Exchange, seen: Observation, reply: Json) -> None:
        """Note what windows that read headers or bodies make of an exchange."""
        headers, answered = lowered(exchange.request_headers), lowered(exchange.response_headers)
        for entry in self.options.policy.windows:
            if not entry.reads_content:
                continue
            content = self.content.setdefault(seen.id, {})
            unrecorded = exchange.request_headers is None and entry.reads
            if unrecorded or (seen.surface == "graphql" and entry.reads_bodies):
                content[entry.name] = None
                self.blind.add(entry.name)
            elif any(entry.matches(*line, headers) for line in request_lines(seen)):
                who = who_states(entry.per, headers, seen.body) if ":" in entry.per else _who(entry, seen)
                weight = Weigher(entry.weigh).of_parsed(headers, seen.body, answered, reply)
                content[entry.name] = who, max(weight, int(entry.weighs_replies))

    def wants(self, like: Observation) -> bool:
        """All calls that may have happened."""
        return like.happened is not False

    def see(self, exchange: Observation) -> None:
        """Note it in each window that counts it; its RateLimit-Limit names the one that refused it."""
        lines, content = [*request_lines(exchange)], self.content.pop(exchange.id, {})
        counting = [
            entry
            for entry in self.options.policy.windows
            if entry.name in content
            or (not entry.reads_content and any(entry.matches(*line) for line in lines))
        ]
        kind, stated = outcome_of(exchange), exchange.limit
        if exchange.status == 401 and kind == ADMITTED:
            kind = UNSURE
        for entry in counting:
            who, weight = content.get(entry.name, (_who(entry, exchange), 1)) or (None, 1)
            if who is None:
                continue
            rivals = [other.quota.limit for other in counting if other is not entry]
            own = stated == entry.quota.limit and stated not in rivals
            counted = self.groups.setdefault((entry.name, who), CountedCalls())
            counted.add(exchange, UNSURE if kind == REFUSED and rivals and not own else kind, weight)
            if len(exchange.operations) > 1:  # they may count one by one (U11)
                counted.add(exchange, UNSURE, len(exchange.operations) - 1)
            states = own and kind == ADMITTED and not exchange.old and not exchange.repeat
            if states and exchange.remaining is not None and entry.algorithm != "concurrency":
                counted.add_stated(exchange, entry.quota.limit - exchange.remaining)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge every window at the end."""
        if watermark != DISTANT_FUTURE:
            return
        kept, windows = run.header.request_headers, self.options.policy.windows
        unkept = kept is not None and not headers_read(windows).issubset(map(str.lower, kept))
        for entry in windows:
            rule = f"{FAMILY}.{entry.name}"
            if entry.per == "client":
                self.tally.open(rule, "a trace does not say from which address a call came")
            elif unkept or entry.name in self.blind:
                self.tally.open(rule, "the trace does not show of every call what windows read of it")
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
        names = (entry.algorithm,) if entry.algorithm else options.candidates("window")
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
        if not len(calls.stated):
            return
        about = f"{who}, {entry.name}"
        if examined.surviving:
            self.tally.held(REMAINING, case=about, by=(calls.log.id(int(calls.stated.who[0])),))
        else:
            against = with_readings(examined.against[examined.acting[0]], examined)
            self.tally.broke(REMAINING, against, case=about)


def _who(entry: WindowEntry, exchange: Observation) -> str | None:
    """Return for whom a window counts a call; None for nobody that is known."""
    if entry.per == "key":
        return exchange.key or None
    return {"path": exchange.path, "all": exchange.environment}.get(entry.per)
