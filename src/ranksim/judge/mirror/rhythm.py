"""Clients that call as was seen: so often, and at which hours of the day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, Micros, format_duration
from ranksim.inference.counts import counted, poisson_interval
from ranksim.inference.estimate import Estimate, farther
from ranksim.inference.shares import chance
from ranksim.report import units

FEWEST_CALLS = 20
"""Calls from which on a rate is taken from them."""

FEWEST_IN_RHYTHM = 100
SHORTEST_RHYTHM = 2 * DAY
"""Calls, and the time that they span, from which on their hours are looked at."""

PIECES = 20
"""Parts of the time watched whose counts tell how much the rate varies."""

TOGETHER = 1.5
"""Calls within a second of each other, on average, from which on it is said that they come in clusters."""

DAYTIME = range(6, 18)
"""The hours of the day, UTC, whose share is told with its interval."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How often something came: `daily`, and the share of it in `DAYTIME`, if its hours were looked at.

    `together` is how many came at once, on average, within a second of the one before; 1 of more than a call
    a minute.
    """

    count: int
    together: float
    daily: Estimate
    daytime: Estimate | None
    client: dict[str, Any]

    def sentence(self, name: str) -> str:
        """Say of how many calls this was taken, and how sure it is."""
        rate = "{:,.1f} ({:,.1f} to {:,.1f})".format(*self.daily)
        share = "" if self.daytime is None else units.write("share", *self.daytime)
        hours = f", {share} of them between 06:00 and 18:00 UTC" if share else ""
        many = f"; about {self.together:.1f} at once there, one at a time here"
        clusters = many if self.together >= TOGETHER else ""
        return f"{name}: as often as {self.count:,} calls were: {rate} a day{hours}{clusters}"


def caller(
    account: str,
    key: str | None,
    mix: Mapping[str, Any],
    instants: Sequence[Micros],
    watched: tuple[Micros, Micros],
) -> Seen | None:
    """Return a client that makes a mix of calls as often as they came at `instants` (µs, in order).

    They would have been seen in the time `watched`. What came as that began is not counted: where nothing
    else was seen, it is what set the beginning. The interval of the rate is the farther of Garwood's and that
    of the counts of `PIECES` of that time, as calls may come in clusters; that of the share is exact. The
    weight of an hour is its count and one more, so that no hour is ruled out by what happened to be recorded.
    None for fewer than `FEWEST_CALLS`, or at one instant.
    """
    count = len(instants)
    if count < FEWEST_CALLS or instants[0] == instants[-1]:
        return None
    daily = _rate(instants, *watched)
    client: dict[str, Any] = {
        "kind": "caller", "account": account, "mix": dict(mix), "arrivals": "poisson",
        "every": format_duration(_rounded(round(DAY / (daily.mean or 1)))),
        **({"key": key} if key else {}),
    }  # fmt: skip
    daytime = None
    if count >= FEWEST_IN_RHYTHM and instants[-1] - instants[0] >= SHORTEST_RHYTHM:
        hours = Counter(at % DAY // HOUR for at in instants)
        client["rhythm"] = {"hours": [round(24 * (hours[hour] + 1) / (count + 24), 3) for hour in range(24)]}
        daytime = chance(sum(hours[hour] for hour in DAYTIME), count)
    groups = 1 + sum(late - early > SECOND for early, late in pairwise(instants))
    seldom = (daily.mean or 0) < DAY / MINUTE  # else many come within a second by chance
    return Seen(count, count / groups if seldom else 1.0, daily, daytime, client)


def _rate(instants: Sequence[Micros], began: Micros, now: Micros) -> Estimate:
    """How many a day came after a time began, by its end."""
    pieces = Counter(PIECES * (at - began - 1) // (now - began) for at in instants if at > began)
    count, days = pieces.total(), (now - began) / DAY
    clustered = counted([pieces[number] for number in range(PIECES)])
    rate = farther(
        Estimate(count, *poisson_interval(count)), Estimate(*((end or 0) * PIECES for end in clustered))
    )
    return Estimate(*((end or 0) / days for end in rate))


def _rounded(every: Micros) -> Micros:
    """A time between calls as people write it, of three digits or more."""
    unit = MINUTE if every >= HOUR else 1_000_000 if every >= MINUTE else 1_000
    return max(1, round(every / unit)) * unit if every >= 1_000 else max(1, every)
