"""What stands above the tables of a report: the scenario, the run and the verdict on its expectations."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ranksim.report import units
from ranksim.report.readings import NO_READINGS, Readings
from ranksim.report.tables import Row, Tables

MOST_NAMED = 4
"""So many accounts are named with their plans; of more, it is told how many are on each."""

MOST_TILES = 6
"""Of what expectations ask about, so many numbers stand on top of a page and in its answer."""

LOST = re.compile(r"lost|disabled|given_up")
"""What metrics of losses are called, which nobody makes good."""

OF_LOSSES = re.compile(r"\.(lost_\w+|disabled)$")
"""Metrics that are told already where it is told how many events were lost, and whose endpoint was off."""

TELLING = re.compile(r"lost|disabled|given_up|refus|limited|exceeded|exhausted|reached|delay|wait|unanswered")
"""What metrics are called that answer a question, rather than count what was done."""


@dataclass(frozen=True, slots=True)
class ExpectationVerdict:
    """Whether one expectation of the scenario holds, and a sentence that says what was found.

    `metric` is what it is about, `found` its value with its interval, `label` what stands below that value,
    `statement` the sentence of both, and `stated` the expectation as a scenario writes it, where they are
    known.
    """

    holds: bool
    text: str
    metric: str = field(default="", compare=False)
    found: str = field(default="", compare=False)
    label: str = field(default="", compare=False)
    statement: str = field(default="", compare=False)
    stated: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Heading:
    """The plain facts of a run. `start` is an instant, `length` a duration (µs); `command` repeats the run.

    `overrides` are the assumptions that differ from their default: U number, statement, value; `rests_on` are
    the rows of those that the service was asked about, and `readings` what others would make of it, where
    they were tried. `made_up` says what the answer rests on that nobody observed. `plans` is the plan that
    each account starts with; `invoice` what all pay for their last billing month (µUSD).
    Where nothing `is_drawn`, all replications are the same.
    """

    name: str
    title: str
    description: str
    start: int
    length: int
    accounts: int
    replications: int
    seed: int
    version: str
    policy: str
    verdicts: tuple[ExpectationVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    made_up: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str, str], ...] = ()
    rests_on: tuple[Mapping[str, Any], ...] = ()
    readings: Readings = NO_READINGS
    command: str = ""
    invoice: int | None = None
    plans: Mapping[str, str] = field(default_factory=dict)
    is_drawn: bool = True

    @property
    def line(self) -> str:
        """The run in one line: how long, how many, which seed."""
        parts = (
            f"{units.duration(self.length)} from {units.instant(self.start)}",
            units.many(self.accounts, "account") + self._on_plans(),
            units.many(self.replications, "replication"),
            f"seed {self.seed}",
            f"policy {self.policy}",
        )
        return ", ".join(parts)

    def _on_plans(self) -> str:
        """Say which plan each account is on, or where they are many how many are on each."""
        if not self.plans:
            return ""
        if len(self.plans) <= MOST_NAMED:
            return f" ({', '.join(f'{account} on {plan}' for account, plan in self.plans.items())})"
        on = Counter(self.plans.values()).most_common()
        return f" ({', '.join(f'{units.count(number)} on {plan}' for plan, number in on)})"

    @property
    def averaged(self) -> str:
        """What the numbers are where there are several replications; nothing where there is one."""
        if self.replications == 1:
            return ""
        if not self.is_drawn:
            runs = units.count(self.replications)
            return f"Nothing is drawn in this world: all {runs} replications are the same."
        which = f"all {self.replications}" if self.replications <= units.FEW else "all or nearly all of them"
        return (
            f"Numbers are means over the {units.count(self.replications)} replications, with 95 % intervals "
            f"where one is known. A count without one is the same in {which}."
        )

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        return verdict_on(self.verdicts)


def verdict_on(verdicts: Sequence[ExpectationVerdict]) -> str:
    """Return in one line whether all expectations of a scenario hold."""
    if not verdicts:
        return "The scenario states no expectations."
    failed = sum(not verdict.holds for verdict in verdicts)
    if failed:
        return f"{failed} of {units.many(len(verdicts), 'expectation')} failed."
    return "The expectation holds." if len(verdicts) == 1 else f"All {len(verdicts)} expectations hold."


def tiles_of(heading: Heading, tables: Tables) -> list[tuple[str, str, bool]]:
    """The numbers that a page shows first: value, what it is, and whether it is as expected.

    They are those that the scenario expects something of, what fails before what holds, and what it costs;
    where it expects nothing, the few numbers of any run.
    """
    seen = {
        verdict.metric: verdict
        for verdict in reversed(most_telling(heading.verdicts))
        if verdict.metric and verdict.found
    }
    if not seen:
        return [(value, name, True) for name, value in headline_numbers(heading, tables)]
    tiles = [
        (verdict.found.replace("T", " "), verdict.label, verdict.holds) for verdict in reversed(seen.values())
    ]
    cost = [(value, name, True) for name, value in headline_numbers(heading, tables) if value.endswith("USD")]
    return [*tiles[:MOST_TILES], *cost]


def most_telling(verdicts: Sequence[ExpectationVerdict]) -> list[ExpectationVerdict]:
    """Verdicts with those first that fail, then those that answer a question with more than nothing.

    Of these losses come before what was refused or waited.
    """

    def rank(verdict: ExpectationVerdict) -> tuple[bool, bool, bool]:
        answers = _answers(verdict)
        return verdict.holds, not answers, not (answers and LOST.search(verdict.metric))

    return sorted(verdicts, key=rank)


def answer_of(heading: Heading, tables: Tables) -> str:
    """What came of a run, with its numbers: what was done and refused, then what expectations ask about.

    Where it expects nothing, what one would ask of any run.
    """
    if not heading.verdicts:
        return run_overview(tables)
    totals = {row["what"]: row for row in tables.get("totals", ())}
    verdicts = [
        verdict
        for verdict in most_telling(heading.verdicts)
        if verdict.found and (not verdict.holds or _answers(verdict))
    ]
    lost = ""
    if "lost" in totals and not any(verdict.metric.endswith(".lost") for verdict in verdicts):
        lost = _lost(tables, _value(totals["events"]), _value(totals["lost"]))
        verdicts = [
            verdict for verdict in verdicts if not verdict.holds or not OF_LOSSES.search(verdict.metric)
        ]
    first = dict(list({verdict.metric: verdict.statement for verdict in verdicts}.items())[:MOST_TILES])
    covered = any(verdict.metric.endswith(".given_up") for verdict in verdicts)
    given_up = _rate_limited(tables) if tables.get("given_up") and not covered else ""
    parts = [" and ".join(_work(totals)), lost, given_up, "; ".join(first.values())]
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)


def run_overview(tables: Tables) -> str:
    """Return what one would ask of any run: what never arrived, who waited longest, was refused most.

    Last is what came nearest its limit.
    """
    totals = {row["what"]: row for row in tables.get("totals", ())}
    parts = [f"Jobs done: {_value(totals['jobs_done'])}" if "jobs_done" in totals else ""]
    if "lost" in totals and totals["lost"]["value"]:
        parts.append(_lost(tables, _value(totals["events"]), _value(totals["lost"])))
    parts += [_longest_wait(tables), _most_refused(tables), _rate_limited(tables)]
    if "refused" in totals and not totals["refused"]["value"]:
        parts.append(f"None of {_value(totals['calls'])} calls was refused")
    return " ".join(f"{part}." for part in (*parts, _nearest_limit(tables)) if part)


def _longest_wait(tables: Tables) -> str:
    jobs = [row for row in tables.get("jobs", ()) if row["wait_p95"]]
    if not jobs:
        return ""
    row = max(jobs, key=lambda row: row["wait_p95"])
    wait = units.write("duration", row["wait_p95"], row["wait_p95_low"], row["wait_p95_high"])
    return f"Longest wait for a worker: {row['kind']}, {wait} at the 95th percentile"


def _most_refused(tables: Tables) -> str:
    """Say whom a spending check refused most; what rate limits put off is tried again."""
    refusals = [row for row in tables.get("refusals", ()) if row["check"] and row["count"]]
    if not refusals:
        return ""
    row = max(refusals, key=lambda row: row["count"])
    count = units.in_prose("count", row["count"], row["low"], row["high"])
    share = units.write("share", row["share"])
    return f"Refused most: {row['client']}, {count} of {row['operation']}, {share} of these ({row['code']})"


def _rate_limited(tables: Tables) -> str:
    limited = sum(row["count"] for row in tables.get("codes", ()) if row["code"] == "rate_limited")
    parts = [f"Too early for a rate limit: {units.many(limited, 'call')}"] if limited else []
    return "; ".join([*parts, *_given_up(tables)])


def _given_up(tables: Tables) -> list[str]:
    """Say who gave up how many calls, those with most first, as the rate limit refused the last try."""
    rows = sorted(tables.get("given_up", ()), key=lambda row: -float(row["count"]))
    parts = [
        f"{row['client']} gave up {units.in_prose('count', row['count'], row['low'], row['high'])} of "
        f"{row['operation']} after {row['tries']} {'try' if row['tries'] == 1 else 'tries'}"
        for row in rows[:MOST_NAMED]
    ]
    others = sum(row["count"] for row in rows[MOST_NAMED:])
    return [*parts, f"others gave up {units.many(others, 'call')}"] if others else parts


def _nearest_limit(tables: Tables) -> str:
    levels = [row for row in tables.get("levels", ()) if row["limit"] and row["highest"]]
    if not levels:
        return ""
    changed = changed_limits(tables)

    def nearest(row: Row) -> tuple[float, float]:
        samples = changed.get((row["account"], row["resource"]), [(row["highest"], row["limit"])])
        return max(samples, key=lambda sample: sample[0] / sample[1])

    used, limit, row = max(((*nearest(row), row) for row in levels), key=lambda use: use[0] / use[1])
    most, of = (units.write(row["unit"], value) for value in (used, limit))
    which = ", which changed" if (row["account"], row["resource"]) in changed else ""
    return f"Nearest its limit: {row['resource']} of {row['account']}, {most} of {of}{which}"


SAMPLED_LIMITS = {
    "slots": ("used", "limit"),
    "spend": ("spent_uusd", "ceiling_uusd"),
    "meters": ("used", "limit"),
}
"""Tables of samples, with their columns of use and limit; of `meters` each metric is a resource."""


def changed_limits(tables: Tables) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return the sampled uses and limits, by account and resource, of the limits that changed in a run."""
    samples: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for table, (used, limit) in SAMPLED_LIMITS.items():
        for row in tables.get(table, ()):
            if row[limit]:
                which = row["account"], row.get("metric", table)
                samples.setdefault(which, []).append((row[used], row[limit]))
    return {which: uses for which, uses in samples.items() if len({limit for _, limit in uses}) > 1}


def _answers(verdict: ExpectationVerdict) -> bool:
    """Whether a verdict answers a question, rather than counts what was done, with more than nothing."""
    return TELLING.search(verdict.metric) is not None and verdict.found != "0"


def _work(totals: Mapping[str, Row]) -> Iterator[str]:
    """Say how many jobs were done, and which share of calls was refused."""
    if "jobs_done" in totals:
        jobs = _value(totals["jobs_done"])
        yield f"{jobs} {'job was' if jobs == '1' else 'jobs were'} done"
    if "refused" in totals:
        share, calls = totals["refused"], _value(totals["calls"])
        refused = f"{_value(share)} of {calls} calls were refused"
        yield refused if share["value"] else f"none of {calls} calls was refused"


def _lost(tables: Tables, events: str, lost: str) -> str:
    """Say how many webhook events never arrive, and how many of them were not even sent."""
    off = [row for row in tables.get("endpoints", ()) if row["lost_suppressed"]]
    text = f"{lost} of {events} webhook events {'was' if lost == '1' else 'were'} lost"
    if not off:
        return text
    names = [row["endpoint"] for row in off]
    who = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} endpoints"
    number = sum(row["lost_suppressed"] for row in off)
    return f"{text}, {units.count(number)} of them never sent: {who} had been disabled after failures"


TOTALS = {
    "calls": "calls",
    "refused": "of them refused",
    "jobs_done": "jobs done",
    "events": "webhook events",
    "lost": "of them lost",
    "provider_cost": "highest provider cost of a month",
}
"""What the rows of the table `totals` are called."""


def headline_numbers(heading: Heading, tables: Tables) -> list[tuple[str, str]]:
    """Return the few numbers to see first, each with its interval, and the invoice: label and value."""
    invoice = [] if heading.invoice is None else [("invoice of the last month", units.usd(heading.invoice))]
    return [*((TOTALS[row["what"]], _value(row)) for row in tables.get("totals", ())), *invoice]


def _value(row: Row) -> str:
    return units.in_prose(row["unit"], row["value"], row["low"], row["high"])
