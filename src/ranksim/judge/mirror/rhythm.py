"""Clients that call as was seen: so often, and at which hours of the day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import DAY, HOUR, MINUTE, Micros, format_duration
from ranksim.inference.counts import poisson_interval
from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import chance
from ranksim.report import units

FEWEST_CALLS = 20
"""Calls from which on a rate is taken from them."""

FEWEST_IN_RHYTHM = 100
SHORTEST_RHYTHM = 2 * DAY
"""Calls, and the time that they span, from which on their hours are looked at."""

DAYTIME = range(6, 18)
"""The hours of the day, UTC, whose share is told with its interval."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How often something came: `daily`, and the share of it in `DAYTIME`, if its hours were looked at."""

    count: int
    daily: Estimate
    daytime: Estimate | None
    client: dict[str, Any]

    def sentence(self, name: str) -> str:
        """Say of how many calls this was taken, and how sure it is."""
        rate = "{:,.1f} ({:,.1f} to {:,.1f})".format(*self.daily)
        share = "" if self.daytime is None else units.write("share", *self.daytime)
        hours = f", {share} of them between 06:00 and 18:00 UTC" if share else ""
        return f"{name}: as often as {self.count:,} calls were: {rate} a day{hours}"


def caller(account: str, key: str | None, mix: Mapping[str, Any], instants: Sequence[Micros]) -> Seen | None:
    """Return a client that makes a mix of calls as often as they came at `instants` (µs, in order).

    Calls are taken to come by chance, at a rate that depends on the hour: the interval of the rate is
    Garwood's, that of the share exact. The weight of an hour is its count and one more, so that no hour is
    ruled out by what happened to be recorded. None for fewer than `FEWEST_CALLS`, or at one instant.
    """
    count, span = len(instants), instants[-1] - instants[0] if instants else 0
    if count < FEWEST_CALLS or not span:
        return None
    days = span * count / (count - 1) / DAY
    low, high = poisson_interval(count)
    client: dict[str, Any] = {
        "kind": "caller", "account": account, "mix": dict(mix), "arrivals": "poisson",
        "every": format_duration(_rounded(round(days * DAY / count))),
        **({"key": key} if key else {}),
    }  # fmt: skip
    daytime = None
    if count >= FEWEST_IN_RHYTHM and span >= SHORTEST_RHYTHM:
        hours = Counter(at % DAY // HOUR for at in instants)
        client["rhythm"] = {"hours": [round(24 * (hours[hour] + 1) / (count + 24), 3) for hour in range(24)]}
        daytime = chance(sum(hours[hour] for hour in DAYTIME), count)
    return Seen(count, Estimate(count / days, low / days, high / days), daytime, client)


def _rounded(every: Micros) -> Micros:
    """A time between calls as people write it, of three digits or more."""
    unit = MINUTE if every >= HOUR else 1_000_000 if every >= MINUTE else 1_000
    return max(1, round(every / unit)) * unit if every >= 1_000 else max(1, every)
