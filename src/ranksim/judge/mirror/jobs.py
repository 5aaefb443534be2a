"""How jobs run and when they are started, as the jobs show that an account lists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, stdev
from typing import Any

from ranksim.core.clock import DAY, HOUR, MINUTE, Micros, format_duration, instant
from ranksim.inference.estimate import Estimate
from ranksim.inference.means import estimate
from ranksim.inference.shares import chance
from ranksim.judge.mirror.reading import Item
from ranksim.report import units

FEWEST_ENDS = 20
"""Jobs of a kind that ended from which on their lengths and failures are taken from them."""

PERIODS = {12 * HOUR: "12h", DAY: "day", 7 * DAY: "week"}
"""What a schedule may be by the calendar."""

SLACK = 0.05
"""How far the usual time between two starts of a domain may be from a period."""

FEWEST_STARTS = 3
"""Starts of a domain from which on a calendar is looked for."""


@dataclass(frozen=True, slots=True)
class FittedJobs:
    """What the jobs of a kind show: a lognormal length and the share that failed, with 95 % intervals.

    A length is counted from the request, as the API shows no start: waits for workers are part of it.
    `median` is that of the length (µs), `sigma` the standard deviation of its logarithm; `count` jobs ended.
    """

    count: int
    median: Estimate
    sigma: float
    failed: Estimate

    @property
    def duration(self) -> Any:
        """The length as a catalogue has it."""
        length = format_duration(round(self.median.mean or 0))
        return {"lognormal": {"median": length, "sigma": round(self.sigma, 4)}} if self.sigma else length

    def sentence(self, kind: str) -> str:
        """Say of how many jobs this was fitted, and how sure it is."""
        length, failed = units.write("duration", *self.median), units.write("share", *self.failed)
        what = f"the median ends {length} after its request, {failed} fail"
        return f"{kind}: fitted to {self.count:,} jobs: {what}"


def fit_jobs(jobs: Iterable[Item]) -> dict[str, FittedJobs]:
    """Return by kind what the jobs that ended show, of kinds of which enough did.

    Lengths are taken to be lognormal: the interval is Student's, of the mean of their logarithms; that of the
    failures is exact (Clopper and Pearson).
    """
    lengths: dict[str, list[Micros]] = {}
    failures: Counter[str] = Counter()
    for job in jobs:
        created, finished = (_instant(job.get(name)) for name in ("created_at", "finished_at"))
        if job.get("status") in ("done", "failed") and created is not None and finished is not None:
            kind = str(job.get("kind"))
            lengths.setdefault(kind, []).append(max(1, finished - created))
            failures[kind] += job.get("status") == "failed"
    return {kind: _fitted(each, failures[kind]) for kind, each in lengths.items() if len(each) >= FEWEST_ENDS}


def _fitted(lengths: Sequence[Micros], failures: int) -> FittedJobs:
    logs = [math.log(length) for length in lengths]
    middle = Estimate(*(None if end is None else math.exp(end) for end in estimate(logs)))
    spread = stdev(logs) if max(lengths) - min(lengths) > 1 else 0.0
    return FittedJobs(len(lengths), middle, spread, chance(failures, len(lengths)))


def schedules(
    jobs: Iterable[Item], account: str, hosts: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield by name a client for each kind of job that an account starts by the calendar.

    A kind goes by the calendar where most of its domains are started once a period, at about one time.
    """
    starts: dict[str, dict[str, list[Micros]]] = {}
    for job in jobs:
        at, domain = _instant(job.get("created_at")), str(job.get("domain_id"))
        if at is not None and domain in hosts:
            starts.setdefault(str(job.get("kind")), {}).setdefault(hosts[domain], []).append(at)
    for kind, by_host in starts.items():
        regular = {host: sorted(each) for host, each in by_host.items() if len(each) >= FEWEST_STARTS}
        gaps = [late - early for each in regular.values() for early, late in pairwise(each)]
        usual = median(gaps) if gaps else 0
        period = next((length for length in PERIODS if abs(usual / length - 1) <= SLACK), None)
        if period is None:
            continue
        first = min(min(each) % min(period, DAY) for each in regular.values())
        yield (
            f"{account}-{kind}",
            {
                "kind": "schedule", "account": account, "job": kind, "every": PERIODS[period],
                "at": f"{first // HOUR:02}:{first % HOUR // MINUTE:02}",
                "domains": "all" if len(regular) == len(hosts) else sorted(regular),
                **_weekday(period, regular),
            },
        )  # fmt: skip


def _weekday(period: Micros, starts: Mapping[str, Sequence[Micros]]) -> dict[str, str]:
    """The day on which most starts of a week fall."""
    if PERIODS[period] != "week":
        return {}
    days = Counter((at // DAY + 3) % 7 for each in starts.values() for at in each)  # 1970 began on a Thursday
    names = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    return {"weekday": names[days.most_common(1)[0][0]]}


def _instant(text: Any) -> Micros | None:
    with suppress(ValueError, TypeError):
        return instant(text)
    return None
