"""What stands above the tables of a report: the scenario, the run and the verdict on its expectations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ranksim.report import units


@dataclass(frozen=True, slots=True)
class ExpectationVerdict:
    """Whether one expectation of the scenario holds, and a sentence that says what was found."""

    holds: bool
    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """The plain facts of a run. `start` is an instant, `length` a duration (µs); `command` repeats the run.

    `overrides` are the assumptions that differ from their default: U number, statement, value; `rests_on` are
    the rows of those that the service was asked about. `invoice` is
    what all accounts pay a month (µUSD), by the plans and add-ons that they start with.
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
    overrides: tuple[tuple[str, str, str], ...] = ()
    rests_on: tuple[Mapping[str, Any], ...] = ()
    command: str = ""
    invoice: int | None = None

    @property
    def line(self) -> str:
        """The run in one line: how long, how many, which seed."""
        parts = (
            f"{units.duration(self.length)} from {units.instant(self.start)}",
            units.many(self.accounts, "account"),
            units.many(self.replications, "replication"),
            f"seed {self.seed}",
            f"policy {self.policy}",
        )
        return ", ".join(parts)

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


def numbers_of(heading: Heading, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[tuple[str, str]]:
    """The few numbers to see first, the invoice beside what the work costs the provider."""
    invoice = [] if heading.invoice is None else [("invoice of a month", units.usd(heading.invoice))]
    return [*key_numbers(tables), *invoice]


def key_numbers(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[tuple[str, str]]:
    """The few numbers to see first: label and value; a mean over the replications where there are several."""
    calls = sum(row["count"] for row in tables.get("calls", ()))
    refused = sum(row["count"] for row in tables.get("refusals", ()))
    numbers = [("calls", units.count(round(calls)))]
    if calls:
        numbers.append(("of them refused", units.percent(refused / calls)))
    if tables.get("jobs"):
        numbers.append(("jobs done", units.count(round(sum(row["done"] for row in tables["jobs"])))))
    if tables.get("endpoints"):
        events = sum(row["events"] for row in tables["endpoints"])
        numbers.append(("webhook events", units.count(round(events))))
    spent: dict[str, float] = {}
    for row in tables.get("spend", ()):
        month = row["settled_uusd"] + row["reserved_uusd"]
        spent[row["account"]] = max(month, spent.get(row["account"], 0))
    if spent:
        numbers.append(("highest provider cost of a month", units.usd(sum(spent.values()))))
    return numbers
