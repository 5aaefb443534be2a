"""What an outage of a webhook receiver loses, doubles and disables (S90, S91, U66, U69, E22, E24, E27).

Every attempt of an event that came at u fails while the outage lasts, at u + 0, 1, 6, 36, 156 and 516
minutes (S90). With the last of its attempts an event is lost; the 20th failure in a row disables the
endpoint (S91), which cancels all that wait and lets later events pass by. So everything follows from when
the 20th failure falls.

Events that come at random (Poisson) are computed exactly. The failures up to t are a sum of independent
Poisson numbers, one for each number of attempts that an event can have had by then, added up by Panjer's
recursion (H. H. Panjer, ASTIN Bulletin 12, 1981); and given one event, the others are what they were without
it (the Slivnyak–Mecke theorem), so each mean is an integral over the moment at which that event came. Regular
events are followed one by one and averaged over their phase.

What is under way when the outage ends counts as over, which matters only for receivers that are slow to fail.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import SECOND, Micros, iso
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import check_kind
from ranksim.core.rules.webhooks import retry_at
from ranksim.inference.estimate import Estimate
from ranksim.planner.capacity.common import (
    DurationField,
    check_numbers,
    ends_of,
    expect,
    expect_one_of,
    question_repr,
)
from ranksim.report.answer import ReadyAnswer
from ranksim.report.table_spec import Row, Tables, TableSpec
from ranksim.report.tables import View
from ranksim.report.units import count, duration, many, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Law = Literal["poisson", "regular"]
Failure = Literal["down", "late"]

MOMENTS = 2000
"""Moments of the outage, or phases of the events, over which a mean is taken: the middles of equal parts."""

MANY = 10_000
"""Regular events of one outage; more would take long to follow, and disable at once anyway."""

NUMBERS = TableSpec(
    {"what": "text", "expected": "count", "simulated": "count"},
    keys=("name",),
    metrics=("expected", "simulated"),
)

WHAT = {
    "events": "events that came during the outage",
    "delayed": "delivered late",
    "exhausted": "lost: all attempts failed",
    "cancelled": "lost: cancelled as the endpoint was disabled",
    "suppressed": "lost: came while the endpoint was disabled",
    "duplicates": "done twice: acted on, and sent again",
    "disabled": "endpoint disabled (chance)",
}
"""The numbers of an outcome, and what they are called."""


@dataclass(frozen=True)
class Outage:
    """An outage of `length` (µs), and the events it meets: `together` at once, one such group `every` µs.

    A receiver that is "down" refuses each attempt at once. One that is "late" acts on each, but answers
    after the sender has given up (E24), so each attempt takes the whole timeout to fail. Times may be text:
    "3h".
    """

    length: DurationField = DurationField()
    every: DurationField = DurationField()
    together: int = 1
    law: Law = "poisson"
    failure: Failure = "down"

    __repr__ = question_repr

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        check_numbers(self)
        expect(self.length > 0, "length", "a duration above 0", self.length)
        expect(self.every > 0, "every", "a duration above 0", self.every)
        expect(self.together >= 1, "together", "1 or more", self.together)
        expect_one_of(("poisson", "regular"), "law", self.law)
        if self.law == "regular":
            least = -(-self.length // MANY)
            expected = f"{duration(least)} or more with law regular"
            expect(self.every >= least, "every", expected, duration(self.every))
        expect_one_of(("down", "late"), "failure", self.failure)


NONE = 1e-6
"""Fewer events than this, on average, are none to people."""

AFTERWARDS = (
    "An endpoint that was disabled stays so after the outage: until somebody enables it nothing is sent, "
    "which is not counted here."
)
"""What is told of outages that may disable an endpoint."""


@dataclass(frozen=True)
class ScenarioOutage:
    """An outage of `length` (µs) that meets the job events of an `account` of a `scenario`, by their names.

    It begins `at` an instant (µs), or at any moment of the `span` (µs) from `start` on. A `failure` is that
    of an `Outage`.
    """

    scenario: str
    account: str
    start: Micros
    span: DurationField = DurationField()
    length: DurationField = DurationField()
    failure: Failure = "down"
    at: Micros | None = None

    __repr__ = question_repr

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        expect(self.length > 0, "length", "a duration above 0", self.length)
        expect_one_of(("down", "late"), "failure", self.failure)

    @property
    def begins(self) -> str:
        """When it begins, in words."""
        if self.at is not None:
            return f"at {iso(self.at)}"
        return f"at any moment of {duration(self.span)} from {iso(self.start)} on"


@dataclass(frozen=True, slots=True)
class Extremes:
    """Of outages that begin at any moment: the share that meets no event, and the most that one loses.

    `at` is when an outage begins (µs) that loses so many.
    """

    quiet: float
    most_lost: float
    at: Micros


def _few(events: float) -> str:
    return count(events if events >= NONE else 0)


class OutageOutcome(NamedTuple):
    """What becomes of the events of one outage, on average; `disabled` is the chance that it disables."""

    events: float
    delayed: float
    exhausted: float
    cancelled: float
    suppressed: float
    duplicates: float
    disabled: float

    @property
    def lost(self) -> float:
        """Events that never arrive, though a receiver that was late may have acted on some of them."""
        return self.exhausted + self.cancelled + self.suppressed


@dataclass(frozen=True, slots=True, repr=False)
class OutageCost(ReadyAnswer):
    """The answer: the expected outcome, and that of simulated worlds, by name, where there were any.

    `curve` is the chance that the endpoint is disabled by a time since the beginning of the outage (µs), and
    `extremes` tell how far outages differ by when they begin, and `assumed` is what a scenario does not say,
    and what of its timeline is left out.
    `disabled_at` is when that is (µs since the beginning), where it is the same in every outage looked at;
    `rule` says in a sentence what disables it.
    """

    kind = "capacity outage"
    title = "What an outage of a receiver costs"
    plots = ("outage",)
    TABLES = MappingProxyType({"answer": NUMBERS})

    outage: Outage | ScenarioOutage
    expected: OutageOutcome
    curve: tuple[tuple[Micros, float], ...]
    simulated: dict[str, Estimate]
    extremes: Extremes | None = None
    assumed: tuple[str, ...] = ()
    disabled_at: Micros | None = None
    rule: str = ""

    @property
    def lost(self) -> float:
        """Events that never arrive, though a receiver that was late may have acted on some of them."""
        return self.expected.lost

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        lost, delayed = _few(self.lost), _few(self.expected.delayed)
        text = (
            f"Of {many(self.expected.events, 'event')} in {duration(self.outage.length)}, "
            f"{lost} {'is' if lost == '1' else 'are'} lost and "
            f"{delayed} {'comes' if delayed == '1' else 'come'} late; "
            f"the endpoint is {self._disabled()}"
        )
        if self.expected.duplicates:
            text += f"; {_few(self.expected.duplicates)} are done again"
        if self.extremes is None:
            return text + "."
        most = self.extremes
        return (
            f"{text}: means over all moments at which it may begin. At {percent(most.quiet)} of these no "
            f"event comes; from {iso(most.at)} on it loses {count(most.most_lost)}."
        )

    def _disabled(self) -> str:
        """Whether and when the endpoint is disabled: a chance, where outages begin at any moment."""
        if self.disabled_at is not None:
            begins = None if isinstance(self.outage, Outage) else self.outage.at
            on = "" if begins is None else f", at {iso((begins + self.disabled_at) // SECOND * SECOND)}"
            return f"disabled {duration(self.disabled_at)} after it begins{on}"
        if not isinstance(self.outage, Outage) and self.outage.at is not None:
            return "disabled" if self.expected.disabled else "not disabled"
        return f"disabled with a chance of {percent(self.expected.disabled)}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the numbers."""
        outage = self.outage
        if isinstance(outage, Outage):
            means = "Means are over outages that begin at any moment."
            return (means, AFTERWARDS, self.rule, *self.assumed)
        return (
            f"Events are the ends of all jobs of account {outage.account}, as scenario {outage.scenario} has "
            f"them in time; the outage begins {outage.begins}.",
            AFTERWARDS,
            self.rule,
            *self.assumed,
        )

    @property
    def tables(self) -> Tables:
        """One row for each number."""
        rows: list[Row] = []
        for name, what in WHAT.items():
            seen = ends_of("simulated", self.simulated.get(name))
            rows.append({"name": name, "what": what, "expected": getattr(self.expected, name), **seen})
        return {"answer": rows}

    def views(self) -> list[View]:
        """The answer as tables for people."""
        rows = [row | {"expected": row["expected"] if row["expected"] >= NONE else 0} for row in self.rows()]
        return NUMBERS.without_empty(rows).view(f"An outage of {duration(self.outage.length)}", rows)

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.planner.capacity import plots

        return plots.outage(self.curve, self.rows(), ax)


@dataclass(frozen=True, slots=True)
class Attempts:
    """When the attempts of an event that came at 0 are `sent` and have `failed` (µs), while all of them fail.

    `counted` are the failures that count towards the `need` of them, in a row, that disable the endpoint.
    """

    sent: tuple[Micros, ...]
    failed: tuple[Micros, ...]
    counted: tuple[Micros, ...]
    need: int

    @property
    def rule(self) -> str:
        """What disables an endpoint, in a sentence (S91, U66)."""
        if len(self.counted) == len(self.failed):
            return f"{many(self.need, 'failed attempt')} in a row, of any events, disable an endpoint (S91)."
        events = many(self.need, "event")
        return f"{events} in a row all of whose attempts failed disable an endpoint (S91, U66)."

    def counted_before(self, elapsed: Micros) -> int:
        """Failures that count before a time."""
        return bisect_left(self.counted, elapsed)


def attempts_of(policy: Policy, failure: Failure = "down") -> Attempts:
    """Return the retry schedule as the rules make it (S90, U67). Raises BadInput when it is jittered."""
    facts, assumptions = policy.facts, policy.assumptions
    jitter = assumptions.retry_jitter_percent
    expect(jitter == 0, "retry_jitter_percent", "0", jitter)
    takes = facts.webhook_timeout if failure == "late" else 0
    sent, failed = [0], [takes]
    while (due := retry_at(len(sent), failed[-1], failed[0], 0, facts, assumptions)) is not None:
        sent.append(due)
        failed.append(due + takes)
    counted = failed if assumptions.failure_counted == "attempt" else failed[-1:]
    return Attempts(tuple(sent), tuple(failed), tuple(counted), facts.webhook_disable_after)


def disabled_after(events: int, policy: Policy | str | Path | None = None) -> Micros | None:
    """Return when `events` that come at once, and always fail, disable their endpoint: µs or None (E22)."""
    expect(events >= 1, "events", "1 or more", events)
    attempts = attempts_of(policy_of(policy))
    each = -(-attempts.need // events)
    return attempts.counted[each - 1] if each <= len(attempts.counted) else None


def check_cancels(policy: Policy) -> None:
    """Raise BadInput for a policy that only pauses a disabled endpoint (U69)."""
    expect(policy.assumptions.on_disable == "cancel", "on_disable", "cancel", policy.assumptions.on_disable)


def outage_cost(outage: Outage, policy: Policy | str | Path | None = None) -> OutageCost:
    """Compute what an outage costs: exactly for random events, averaged over the phase for regular ones.

    The receiver is healthy before and after, and nobody enables the endpoint again before the outage ends.
    Raises BadInput for a policy with jittered retries, or that only pauses a disabled endpoint (U69).
    """
    check_kind("outage", outage, Outage, "an Outage('3h', '45m'); `scenario_outage` takes a scenario")
    policy = policy_of(policy)
    check_cancels(policy)
    attempts = attempts_of(policy, outage.failure)
    if outage.law == "poisson":
        failures = Failures(attempts, outage)
        curve = tuple((t, 1 - failures.below(t)) for t in _times(outage.length))
        return OutageCost(outage, _at_random(outage, failures), curve, {}, rule=attempts.rule)
    phases = ((2 * step + 1) * outage.every / (2 * MOMENTS) for step in range(MOMENTS))
    instants = (np.arange(phase, outage.length, outage.every) for phase in phases)
    ends = [followed(came, outage.length, attempts, outage.failure, outage.together) for came in instants]
    expected, curve, disabled_at = averaged(ends, outage.length)
    return OutageCost(outage, expected, curve, {}, disabled_at=disabled_at, rule=attempts.rule)


def averaged(
    outages: Sequence[tuple[OutageOutcome, float]], length: Micros
) -> tuple[OutageOutcome, tuple[tuple[Micros, float], ...], Micros | None]:
    """Return the mean of outages as `followed` gives them, and the share disabled by a time (µs).

    Return when all are disabled, too; None unless that is within a second of each other.
    """
    disabled = [end for _, end in outages]
    curve = ((t, sum(end <= t for end in disabled) / len(outages)) for t in _times(length))
    at = round(disabled[0]) if max(disabled) - min(disabled) < SECOND else None  # inf - inf is not a number
    return mean_of([outcome for outcome, _ in outages]), tuple(curve), at


def _times(length: Micros) -> list[Micros]:
    return [length * step // 100 for step in range(101)]


# Random events


class Failures:
    """The failures of groups of events that come at random: how likely it is that they are still too few."""

    def __init__(self, attempts: Attempts, outage: Outage) -> None:
        self.attempts = attempts
        self.rate = 1 / outage.every
        self.need = -(-attempts.need // outage.together)
        """Failed attempts of groups that disable: a group fails as one."""

    def below(self, t: Micros, own: int = 0) -> float:
        """Return the chance that by `t` fewer than needed have failed, `own` more failures counted in."""
        need = self.need - own
        if need <= 0:
            return 0.0
        ages = [max(0, t - at) for at in self.attempts.counted]
        # Groups between two of these ages have had so many failures.
        means = [self.rate * (a - b) for a, b in zip(ages, [*ages[1:], 0], strict=True)]
        chances = [math.exp(-sum(means))]
        for n in range(1, need):
            terms = (k * mean * chances[n - k] for k, mean in enumerate(means[:n], 1))
            chances.append(sum(terms) / n)
        return min(1.0, sum(chances))


def _at_random(outage: Outage, failures: Failures) -> OutageOutcome:
    """Add up what becomes of an event, over the moments at which it may come."""
    length = outage.length
    moments = [(2 * step + 1) * length // (2 * MOMENTS) for step in range(MOMENTS)]
    outcomes = [_of_event(u, outage, failures) for u in moments]
    scale = length * failures.rate * outage.together
    scaled = OutageOutcome(*(scale * mean for mean in mean_of(outcomes)))
    return scaled._replace(disabled=1 - failures.below(length))


def _of_event(u: Micros, outage: Outage, failures: Failures) -> OutageOutcome:
    """Return the chances of what becomes of an event of a group that came at `u`."""
    attempts, length = failures.attempts, outage.length
    suppressed = 1 - failures.below(u)
    over = min(length, u + attempts.failed[-1])
    alive = failures.below(over, attempts.counted_before(over - u))
    exhausted = alive if u + attempts.failed[-1] < length else 0.0
    delayed = alive - exhausted
    sent_again = sum(
        failures.below(u + sent, attempts.counted_before(sent))
        for sent in attempts.sent[1:]
        if u + sent < length
    )
    duplicates = sent_again + delayed if outage.failure == "late" else 0.0
    return OutageOutcome(1.0, delayed, exhausted, 1 - suppressed - alive, suppressed, duplicates, 0.0)


def mean_of(outcomes: Sequence[OutageOutcome]) -> OutageOutcome:
    """Return the mean of what becomes of events."""
    return OutageOutcome(*(math.fsum(values) / len(outcomes) for values in zip(*outcomes, strict=True)))


# Regular events


def followed(
    came: NDArray[np.float64], length: Micros, attempts: Attempts, failure: Failure, together: int = 1
) -> tuple[OutageOutcome, float]:
    """Follow groups of events that `came` so long (µs) after an outage of some length began.

    Return what becomes of them, and when the endpoint is disabled (µs since then, or inf).
    """
    failing = _before(came, attempts.counted, length)
    need = -(-attempts.need // together)
    end = float(np.partition(failing, need - 1)[need - 1]) if len(failing) >= need else math.inf
    over = min(end, length)
    created = came[came <= end]
    exhausted = int(np.count_nonzero(created + attempts.failed[-1] <= over))
    delayed = len(created) - exhausted if end == math.inf else 0
    cancelled = len(created) - exhausted - delayed
    made = len(_before(created, attempts.sent, over))
    duplicates = made + delayed - len(created) if failure == "late" else 0
    groups = (len(came), delayed, exhausted, cancelled, len(came) - len(created), duplicates)
    events = [number * together for number in groups]
    return OutageOutcome._make([*events, float(end < math.inf)]), end


def _before(came: NDArray[np.float64], offsets: Sequence[Micros], end: float) -> NDArray[np.float64]:
    """The instants that lie so long after these, as far as they come before an end."""
    times = (came[:, None] + np.array(offsets, dtype=np.float64)[None, :]).ravel()
    return times[times < end]
