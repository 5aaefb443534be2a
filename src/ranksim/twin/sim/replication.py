"""The statistics of one replication: plain data to be pickled, written as JSON and put into tables."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ranksim.core.clock import Micros

SOMETIMES = ("network", "hours", "given_up")
"""The statistics that not every run has."""


@dataclass(slots=True)
class Replication:
    """The statistics of one replication, from `start` (after the warm-up) to `end`, both µs, as plain data.

    - `calls`: rows of client, operation, outcome, status, code, check, count
    - `jobs` by kind: queued, started, done, failed, joined, max_waiting; `busy`, `offered` and `waiting` are
      the time integrals (µs) of the pool's busy workers, its capacity (None: unlimited) and its queue;
      `wait` (µs) is a histogram
    - `endpoints`: rows of endpoint, account, events, acknowledged, lost_exhausted, lost_cancelled,
      lost_suppressed (never sent, as failures had disabled it), pending, duplicates, `disabled` (how often),
      `disablings` ([instant, reason], the first few), `disabled_spans` ([begin, end] of the time it stayed
      so, the first few), `attempts` (rows of attempt, sent, acknowledged, failed), `answers` (status or error
      to count), `delay` (histogram, µs), `outages` ([begin, end] of its receiver, the first few),
      `stretches` of time, each a thousandth of the run, in which something was tried or became of an event:
      rows of its begin, the attempts that were acknowledged and that failed in it, and of the events that
      came in it the longest delay (µs, None without one) and how many were lost
    - `series` by table: rows of its names, `peak`, and lists of equal length: t and its columns
    - `invoices`: rows of account, month ("2026-03", in which the billing month begins), uusd: the price of
      the plan and add-ons that it had at the last sample of that month; None where a price is not known
    - `notes`: text to how often it was noted
    - `consulted`: the fields of the policy that the service read, which are no statistics
    - `network` by client that calls over one: `unanswered`, how many calls got no reply in time, and
      `response_time`, of the others (histogram, µs); empty without a network
    - `hours` by table, of runs longer than ten days: rows of a series' names, `profile`, rows of whether at a
      weekend (0 or 1), hour of the day (UTC), most in that hour, and how many days had that; and `days`, rows
      of the hour with the day's most, that, and of windows how many calls were refused that day; what was 0
      is left out. Of `delivering` the delays of events (µs) by when they came, and how many were lost
    - `given_up`: rows of client, operation, tries, count: the calls whose last try the rate limit refused
    """

    seed: int
    start: Micros
    end: Micros
    calls: list[dict[str, Any]]
    jobs: dict[str, dict[str, Any]]
    endpoints: list[dict[str, Any]]
    series: dict[str, list[dict[str, Any]]]
    notes: dict[str, int]
    network: dict[str, dict[str, Any]] = field(default_factory=dict)
    consulted: tuple[str, ...] = ()
    invoices: list[dict[str, Any]] = field(default_factory=list)
    hours: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    given_up: list[dict[str, Any]] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """Return the statistics as one dict, for JSON; without those of `SOMETIMES` that are empty."""
        plain = asdict(self)
        del plain["consulted"]
        return {name: value for name, value in plain.items() if value or name not in SOMETIMES}
