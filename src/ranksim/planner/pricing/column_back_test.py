"""Back-test of columns: what each customer of a long recording would have been billed and refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ranksim.core.clock import DAY, iso
from ranksim.core.contract.facts import Decision
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.planner.fleet.offers import Sold
from ranksim.planner.fleet.rows import ACTIVITIES, OUTCOMES, REFUSED, CallRow, Integers, Records, blank
from ranksim.planner.pricing import recorded_sides as recorded
from ranksim.planner.pricing.audit import Audit, audit, sample
from ranksim.planner.pricing.catalogues import CHANGES, terms_view
from ranksim.planner.pricing.column_run import (
    KINDS,
    BilledMonths,
    ColumnRun,
    newly_refused,
    refusals_of,
    tally,
    unlike_outcomes,
    unstated_jobs,
    unstated_notes,
)
from ranksim.planner.pricing.columns import Columns, read_columns
from ranksim.planner.pricing.demand import Demand, demand_of
from ranksim.planner.pricing.recorded_sides import RecordedAnswer, Side
from ranksim.report import units
from ranksim.report.progress import Tell, noted, part
from ranksim.report.table_spec import Row, Tables, TableSpec, views_of
from ranksim.report.tables import View, of_table

SERVED = (Decision.GRANTED, Decision.JOINED)
"""The outcomes that are no refusals and no errors."""

MONEY = ("revenue", "cost", "margin")
"""The columns of customers and invoices that are money."""


@dataclass(frozen=True, slots=True)
class ServedSide:
    """What the accounts of columns got under one side: arrays with a row an account, money in µUSD.

    `refused` counts calls by kind as in `KINDS`, `again` those of them whose reason was not recorded when
    they were refused before; `days` has rows (account, day, activity, outcome, calls).
    """

    side: Side
    sold: tuple[Sold, ...]
    refused: Integers
    again: Integers
    billed: BilledMonths
    revenue: Integers
    days: Integers
    audit: Audit

    @property
    def cost(self) -> Integers:
        """What serving each account cost."""
        made: Integers = self.billed.spend.sum(axis=1)
        return made


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ColumnBackTest(RecordedAnswer):
    """Recorded calls in columns under one side or two, customer by customer.

    `refused_then` counts the calls of each account that were refused when they were recorded, by kind as in
    `KINDS`, `refused_anew` those that the last side refuses and that were served before, under A or when they
    were recorded, and `admitted_anew` all those that it serves and that were refused before.
    `otherwise` counts the calls that A answers otherwise than was recorded, by operation and outcomes, of
    those `answered` when they were recorded.
    """

    TABLES = MappingProxyType(
        {
            "customers": TableSpec(others=dict.fromkeys(MONEY, "money")),
            "invoices": recorded.invoices(MONEY, begins="instant", ends="instant"),
            "days": TableSpec(others={"day": "date"}),
            "terms": CHANGES,
            "unlike": recorded.UNLIKE,
            **dict.fromkeys(("left_out", "unmodelled"), recorded.REASONS),
        }
    )

    columns: Columns
    served: tuple[ServedSide, ...]
    refused_then: Integers
    refused_anew: Integers
    admitted_anew: int
    otherwise: Mapping[tuple[str, str, str], int]
    answered: int
    engine: str

    @property
    def share(self) -> float:
        """The share of accounts that meet a refusal under the last side that they never met before."""
        first, *others = self.served
        before = first.refused if others else self.refused_then + first.again
        return float(newly_refused(self.served[-1].refused, before).mean())

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        last, name = self.served[-1], self.last
        against = "under A" if name == "B" else "when they were recorded"
        billed, cost = (units.usd(int(amounts.sum())) for amounts in (last.revenue, last.cost))
        money = f"{name} bills {billed} at a provider cost of {cost}"
        if name == "B":
            first = self.served[0]
            money += f", A {units.usd(int(first.revenue.sum()))} at {units.usd(int(first.cost.sum()))}"
        calls, base = units.many(self.columns.calls, "call"), "A" if name == "B" else "the recording"
        count = int(self.refused_anew.sum())
        of = f" (of {units.many(int((self.refused_anew > 0).sum()), 'customer')})" if count else ""
        return (
            f"Of {calls} of {units.many(len(self.columns.accounts), 'customer')}, {count:,} are newly "
            f"refused{of} and {self.admitted_anew:,} newly admitted under {name}, compared with {base}; "
            f"{int(last.refused.sum()):,} are refused in all. {units.percent(self.share)} of the customers "
            f"meet a refusal that they never met {against}. {money}{self.if_all_stay}."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        failing = any(any(served.side.catalogue.job_failure_rates.values()) for served in self.served)
        return (
            *self.described,
            *recorded.answered_notes(self.unlike, self.columns.calls, self.answered, "outcome"),
            *self.unused,
            *self._audits(),
            *filter(None, (self.columns.unnamed, self.duplicates, self.timeline)),
            *recorded.reasons_notes("Not in the columns", self.left_out),
            *recorded.reasons_notes(
                "Beyond what is followed, so that later calls may come out otherwise", self.columns.unmodelled
            ),
            "Worker pools that customers share and webhooks are not there; jobs start at once, last as "
            "long as was recorded where that is known, and none fails unless that was recorded"
            + (", although the catalogue lets some fail." if failing else "."),
            *self.assumed,
            *self.anchored,
            *unstated_notes(self.refused_then),
            *self._gave_up(),
            *((f"engine: {self.engine}",) if self.engine != "compiled" else ()),
        )

    def _audits(self) -> Iterator[str]:
        """Say what the audit of each side came to, of both at once where it is the same."""
        letters: defaultdict[str, list[str]] = defaultdict(list)
        for name, served in self._by_letter():
            letters[served.audit.text].append(name)
        for text, names in letters.items():
            yield f"Audit of {' and '.join(names)}: {text}"

    def _gave_up(self) -> list[str]:
        """Say what is not known of customers who were refused something when they were recorded."""
        customers = int(self.refused_then.any(axis=1).sum())
        if not customers:
            return []
        return [
            f"{units.many(customers, 'customer')} met a refusal when they were recorded: what they gave up "
            "asking for then is not in the recording, so under wider limits they would use at least what is "
            "shown."
        ]

    def _by_letter(self) -> Iterator[tuple[str, ServedSide]]:
        return zip("AB", self.served, strict=False)

    @property
    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {
            "terms": [change.row() for change in self.terms],
            "customers": self.customers,
            "invoices": list(self._invoices()),
            "days": [row for name, served in self._by_letter() for row in self._days(name, served.days)],
            "refusals": self.refusals,
            "unlike": self.unlike,
            "censored": self.censored,
            "left_out": recorded.reason_rows(self.left_out),
            "unmodelled": recorded.reason_rows(self.columns.unmodelled),
        }

    @property
    def billed(self) -> list[Row]:
        """What is billed by side and account."""
        return self.customers

    @cached_property
    def customers(self) -> list[Row]:
        """A row a customer and side, with the sentence that one would send them."""
        rows = []
        for name, served in self._by_letter():
            days, cost = _days_by_account(served.days), served.cost
            for row, account in enumerate(self.columns.accounts):
                customer: Row = {"side": name, "account": account.name, "plan": served.sold[row][0]}
                customer |= {"calls": int(served.billed.calls[row])}
                customer |= recorded.bill_of(int(served.revenue[row]), int(cost[row]))
                customer |= {OUTCOMES[o]: int(served.refused[row, k]) for k, o in enumerate(REFUSED)}
                rows.append(customer | {"sentence": self._sentence(served, row, days.get(row, ()))})
        return rows

    def _sentence(self, served: ServedSide, row: int, days: Sequence[int]) -> str:
        plan, months = served.sold[row][0], int(served.billed.months[row])
        on = served.side.moves.get(plan, plan)
        billed = (
            f"On {on} you would have been billed {units.usd(int(served.revenue[row]))} for "
            f"{units.many(months, 'month')}"
        )
        refused, calls = int(served.refused[row].sum()), int(served.billed.calls[row])
        if not refused:
            return f"{billed}, and none of your {calls:,} calls would have been refused."
        codes = ", ".join(
            f"{int(served.refused[row, k]):,} {OUTCOMES[o]} "
            f"({_before(int(self.refused_then[row, k]), int(served.again[row, k]))})"
            for k, o in enumerate(REFUSED)
            if served.refused[row, k]
        )
        return (
            f"{billed}, and {refused:,} of your {calls:,} calls would have been refused on "
            f"{units.many(len(days), 'day')}, first on {_date(days[0])}: {codes}."
        )

    def _invoices(self) -> Iterator[Row]:
        for row, account in enumerate(self.columns.accounts):
            for name, served in self._by_letter():
                billed = served.billed
                count = int(billed.months[row])
                for month in range(count):
                    invoice: Row = {"side": name, "account": account.name, "month": month + 1}
                    invoice |= {edge: int(getattr(billed, edge)[row, month]) for edge in ("begins", "ends")}
                    invoice["calls"] = int(billed.called[row, month])
                    bill = recorded.bill_of(int(served.revenue[row]) // count, int(billed.spend[row, month]))
                    yield invoice | {"plan": served.sold[row][0]} | bill

    def _days(self, name: str, days: Integers) -> Iterator[Row]:
        for account, day, activity, outcome, calls in days.tolist():
            yield {
                "side": name,
                "account": self.columns.accounts[account].name,
                "day": _date(day),
                "operation": ACTIVITIES[activity],
                "code": OUTCOMES[outcome],
                "calls": calls,
            }

    @property
    def refusals(self) -> list[Row]:
        """Calls refused by code: as recorded, and under each side."""
        counts = [refused.sum(axis=0) for refused in (self.refused_then, *(s.refused for s in self.served))]
        rows = zip(KINDS, *(of_side.tolist() for of_side in counts), strict=True)
        columns = ("code", *self.columns_of_outcomes)
        return [dict(zip(columns, row, strict=True)) for row in rows if any(row[1:])]

    @property
    def unlike(self) -> list[Row]:
        """Calls that A answers otherwise than was recorded, by operation and outcomes."""
        return recorded.unlike_rows(self.otherwise)

    @property
    def censored(self) -> list[Row]:
        """By code: customers and calls that it refused when recorded, and customers it refuses still."""
        rows = []
        last = self.served[-1]
        for k, code in enumerate(KINDS):
            then = self.refused_then[:, k]
            if then.any():
                now = last.refused[:, k] if code in OUTCOMES else last.again.sum(axis=1)
                still = (then > 0) & (now > 0)
                row: Row = {"code": code, "customers": int((then > 0).sum())}
                rows.append(row | {"calls": int(then.sum()), "still_refused": int(still.sum())})
        return rows

    def views(self) -> list[View]:
        """The answer as tables for people; of the customers, those with the most calls refused."""
        views = terms_view("terms", self.terms) + self.margins_view("customers") + self.refusals_view()
        columns = {"code": "text", "customers": "count", "calls": "count", "still_refused": "count"}
        views += self.unlike_view()
        title = "Demand that old limits cut short"
        cut = views_of(title, self.censored, columns, "At least; see the notes.")
        views += of_table("censored", cut, folded=True)
        customers = [row for row in self.customers if row["side"] == self.last]
        customers = [row for row in customers if _calls_refused(row)] or customers
        customers.sort(key=_calls_refused, reverse=True)
        columns = {"account": "text", "sentence": "text"}
        title = f"Customers under {self.last}"
        note = recorded.first_note(len(customers), recorded.MOST_SHOWN, "Most refused first.")
        most = views_of(title, customers[: recorded.MOST_SHOWN], columns, note)
        views += of_table("customers", most, folded=not any(map(_calls_refused, customers)))
        columns = recorded.MONTHLY | {"calls": "count"}
        count = sum(int(served.billed.months.sum()) for served in self.served)
        rows = recorded.dated_invoices(islice(self._invoices(), recorded.MOST_LISTED))
        columns |= dict.fromkeys(MONEY, "money")
        invoices = views_of("Invoices", rows, columns, recorded.first_note(count))
        views += of_table("invoices", invoices, folded=True)
        days = self.served[-1].days
        most_calls = days[np.argsort(-days[:, 4], kind="stable")[: recorded.MOST_LISTED]]
        columns = dict.fromkeys(("account", "day", "operation", "code"), "text") | {"calls": "count"}
        title = f"Days with refusals under {self.last}"
        note = recorded.first_note(len(days), order="Most calls first.")
        refused = views_of(title, list(self._days(self.last, most_calls)), columns, note)
        return views + of_table("days", refused, folded=True)


def _before(stated: int, unstated: int) -> str:
    """Say how often a code was met when recorded, and how often it may have been: nobody recorded why."""
    reason = f"{recorded.NO_REASON}{f' of {unstated:,}' if stated else ''}" if unstated else ""
    count = f"{stated + unstated:,}" if stated + unstated else "never"
    return ", ".join(filter(None, (f"{count} before", reason)))


def _calls_refused(customer: Row) -> int:
    return sum(customer[OUTCOMES[outcome]] for outcome in REFUSED)


def _date(day: int) -> str:
    return iso(day * DAY)[:10]


def _days_by_account(days: Integers) -> dict[int, list[int]]:
    """The days on which each account has calls refused, in order."""
    by_account: defaultdict[int, list[int]] = defaultdict(list)
    for account, day in np.unique(days[:, :2], axis=0).tolist():
        by_account[account].append(day)
    return by_account


def back_test_columns(
    columns: Columns | str | Path,
    sides: Sequence[Side],
    *,
    policy: Policy | str | Path | None = None,
    seed: int = 1,
    compiled: bool | None = None,
    audited: bool = True,
    demand: Demand | None = None,
    progress: Tell | None = None,
) -> ColumnBackTest:
    """Serve all recorded calls under one side or two, in one pass over the columns.

    Columns and policy may be files. One call in a thousand is made again at a service and compared, unless
    `audited` is False. `demand` says who leaves because of B's prices. `progress` is told how many were
    served, and that they are compared; without it a notebook shows that. Raises BadInput.
    """
    if not isinstance(columns, Columns):
        columns = read_columns(columns)
    base = policy_of(policy)
    sides, terms, taken_over = recorded.running_alike(sides, demand := demand_of(demand))
    runs = [ColumnRun(columns, side, base, seed, compiled) for side in sides]
    tests = [_Test(run, seed, audited) for run in runs]
    then, anew = refusals_of(columns), np.zeros(len(columns.accounts), dtype=np.int64)
    served, admitted, answered = 0, 0, 0
    unstated, otherwise = Counter[str](), Counter[tuple[str, str, str]]()
    with noted("serving recorded calls", progress) as tell:
        serving, comparing = part(tell, 0.0, 0.5), part(tell, 0.5, 1.0)
        for chunk in columns.chunks():
            tally(then, chunk, "recorded")
            unstated += unstated_jobs(columns, chunk)
            outcomes = [chunk["recorded"]]
            for number, test in enumerate(tests, 1):
                outcomes.append(test.serve(chunk if test is tests[-1] else chunk.copy()))
                served += len(chunk)
                of_side = "" if len(tests) == 1 else f" under {'AB'[number - 1]}"
                serving(served / (len(tests) * columns.calls), f"{units.many(len(chunk), 'call')}{of_side}")
            answered += int((chunk["recorded"] >= 0).sum())
            otherwise += unlike_outcomes(chunk, outcomes[1])
            newly = np.isin(outcomes[-1], REFUSED) & np.isin(outcomes[-2], SERVED)
            was_refused = np.isin(outcomes[-2], list(KINDS.values()))
            admitted += int((was_refused & np.isin(outcomes[-1], SERVED)).sum())
            anew += np.bincount(chunk["account"][newly], minlength=len(anew))
        done = []
        for number, test in enumerate(tests):
            comparing(number / len(tests), f"comparing {units.many(len(test.chosen), 'customer')}")
            done.append(test.done())
    return ColumnBackTest(
        where=columns.where,
        sides=recorded.texts_of(sides, terms),
        left_out=columns.left_out,
        columns=columns,
        served=tuple(done),
        refused_then=then,
        refused_anew=anew,
        admitted_anew=admitted,
        otherwise=otherwise,
        answered=answered,
        engine=runs[0].fleet.engine,
        terms=terms,
        taken_over=taken_over,
        demand=demand,
        duplicates=columns.duplicates,
        timeline=columns.timeline,
        unused=_unused(done[0].billed, runs[0]),
        anchored=recorded.anchored_notes(columns.specs, columns.start, base),
        assumed=recorded.assumed_notes(columns.specs, unstated, " of ranksim price import"),
    )


def _unused(billed: BilledMonths, run: ColumnRun) -> tuple[str, ...]:
    """The notes of the months that one side bills."""
    months = billed.months.tolist()
    is_billed = np.arange(billed.ends.shape[1]) < billed.months[:, None]
    outside = (billed.begins < run.columns.start - DAY) | (billed.ends > run.columns.end + DAY)
    beyond = int((is_billed & outside).sum())
    called = [calls[:count] for calls, count in zip(billed.called.tolist(), months, strict=True)]
    return recorded.months_notes(called, beyond, " of ranksim price import")


class _Test:
    """One side while the columns pass by: its run, who is refused on which day, and calls to audit."""

    def __init__(self, run: ColumnRun, seed: int, audited: bool) -> None:
        self.run, self.seed = run, seed
        self.days: list[Integers] = []
        self.chosen = sample(run.columns, seed) if audited else []
        self.is_chosen = np.zeros(len(run.columns.accounts), dtype=np.bool_)
        self.is_chosen[self.chosen] = True
        self.kept: list[Records] = []

    def serve(self, chunk: Records) -> Integers:
        """Serve a chunk, note who is refused, and return what its calls come to."""
        self.run.serve(chunk)
        refused = chunk[np.isin(chunk["outcome"], REFUSED)]
        if len(refused):
            columns = refused["account"], refused["at"] // DAY, refused["activity"], refused["outcome"]
            days = np.stack(columns, axis=1)
            kinds, counts = np.unique(days, axis=0, return_counts=True)
            self.days.append(np.column_stack([kinds, counts]))
        if self.chosen:
            self.kept.append(chunk[self.is_chosen[chunk["account"]]])
        return np.asarray(chunk["outcome"])

    def done(self) -> ServedSide:
        run, billed = self.run, self.run.billed()
        kept = np.concatenate([blank(0, CallRow), *self.kept])
        return ServedSide(
            side=run.side,
            sold=run.sold,
            refused=run.refused,
            again=run.again,
            billed=billed,
            revenue=billed.months * run.monthly(run.policy.catalogue),
            days=_merged(self.days),
            audit=audit(run.columns, kept, run.sold, run.policy, self.seed),
        )


def _merged(days: Sequence[Integers]) -> Integers:
    """The same days of two chunks as one row."""
    if not days:
        return np.zeros((0, 5), dtype=np.int64)
    rows = np.concatenate(days)
    kinds, place = np.unique(rows[:, :4], axis=0, return_inverse=True)
    counts = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(counts, place.reshape(-1), rows[:, 4])
    return np.column_stack([kinds, counts])
