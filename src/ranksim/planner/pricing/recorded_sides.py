"""What recorded calls are served under, and what the answers of both engines of a back-test share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.clock import Micros, iso
from ranksim.core.contract.facts import JobKind
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput, check_kind
from ranksim.planner.pricing.catalogues import (
    Change,
    Moves,
    alike,
    catalogue_of,
    changes,
    check_add_ons,
    check_plan,
    check_priced,
    moved,
    name_with_moves,
    taken_over,
)
from ranksim.planner.pricing.demand import Demand, free_before
from ranksim.planner.pricing.plots import DrawnAnswer
from ranksim.report import units
from ranksim.report.frames import save_csv
from ranksim.report.table_spec import Row, TableSpec, views_of
from ranksim.report.tables import View, of_table

MOST_NAMED = 4
"""Of more accounts, or kinds of calls, than these it is told how many they are."""

MOST_SHOWN = 20
"""Customers that are shown to people, by sentence and by margin; all are in the tables."""

MOST_LISTED = 60
"""Calls, invoices and days that are shown to people, unless more of them change."""

NO_REASON = "reason not recorded"
"""What stands for the code of a refusal of which a recording shows the status alone."""

DRAWN = {
    JobKind.CRAWL: ("crawl", "pages"),
    JobKind.SITE_OPTIMIZATION: ("site optimization", "pages"),
    JobKind.AI_SCAN: ("AI scan", "questions"),
}
"""What jobs of a kind are called, and what they buy, of which it is drawn how many there are."""


@dataclass(frozen=True, slots=True, init=False)
class Side:
    """What the recording is replayed under: a catalogue, and the plan that everybody is on.

    The catalogue may be given as a file, or by the name of a shipped one. Without a plan, accounts are on the
    plan that is said of them, or on the one that `moves` names instead.
    """

    catalogue: Catalogue
    plan: str
    moves: Moves

    def __init__(self, catalogue: Catalogue | str | Path, plan: str = "", moves: Moves | None = None) -> None:
        """Take the catalogue, read first where it is a file. Raises BadInput."""
        object.__setattr__(self, "catalogue", catalogue_of(catalogue))
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "moves", moves or {})

    def sold(self) -> Catalogue:
        """The catalogue with customers moved."""
        return moved(self.catalogue, self.moves, self.catalogue.name)

    def plan_of(self, spec: AccountSpec, sold: Catalogue, unknown: str, place: Callable[[str], str]) -> str:
        """Return the plan that an account is served on, of those `sold`; `place` says where a field stands.

        Raises BadInput: with the message `unknown` if nobody says which plan it is, or for what is not sold.
        """
        plan = self.plan or spec.plan
        if not plan:
            raise BadInput(unknown)
        at = "plan" if self.plan else place("plan")
        check_plan(plan, sold, at, self.catalogue.name, movable=not self.plan)
        check_priced(sold, (plan,), "plan")
        check_add_ons(spec.add_ons, sold, place("add_ons"), self.catalogue.name)
        return plan

    @property
    def text(self) -> str:
        """The side in words."""
        return f"{self.plan or 'own plans'} of {name_with_moves(self.catalogue, self.moves)}"


def texts_of(sides: Sequence[Side], terms: Sequence[Change]) -> tuple[str, ...]:
    """Return sides in words; B's say what it changes, which are the `terms`, where they would be A's."""
    texts = tuple(side.text for side in sides)
    if not terms or len(set(texts)) > 1:
        return texts
    each = ", ".join(f"{change.path.removeprefix('plans.')} {change.b}" for change in terms)
    what = f"with {each}" if len(terms) <= 2 else f"changed in {len(terms):,} values"
    return texts[0], f"{texts[1]} {what}"


def running_alike(
    sides: Sequence[Side], demand: Demand
) -> tuple[Sequence[Side], tuple[Change, ...], tuple[str, ...]]:
    """Return sides with jobs that run alike, as far as only one of two catalogues says how they run.

    Also in what the catalogues of two sides differ, and what one has from the other. Raises BadInput unless
    there are one or two sides, and two where a price drives customers away.
    """
    for side in sides:
        check_kind("back-test", side, Side, "sides, such as Side('illustrative', plan='pro')")
    if demand.refused:
        raise BadInput("back-test: expected a Demand of price alone, found one of refused; leave that out")
    if len(sides) == 1 and demand.price:
        raise BadInput("--leave-price: of A alone no bill rises; give two plans or catalogues, A's and B's")
    if len(sides) == 1:
        return sides, (), ()
    if len(sides) != 2:
        raise BadInput(f"back-test: expected one side or two, found {len(sides)}")
    a, b = (side.catalogue for side in sides)
    both = [replace(side, catalogue=catalogue) for side, catalogue in zip(sides, alike(a, b), strict=True)]
    return both, changes(both[0].sold(), both[1].sold()), taken_over(a, b)


def invoices(money: Sequence[str], **others: str) -> TableSpec:
    """Return what the columns of invoices are: those of `money`, and others by their quantity."""
    columns = {**others, **dict.fromkeys(money, "money")}
    return TableSpec(others=columns, keys=("side",), metrics=("revenue", "cost", "margin"))


MONTHLY = dict.fromkeys(("side", "account", "plan"), "text") | {"month": "count", "begins": "text"}
"""What people are shown of each invoice before its money: `month` is the account's own number."""


def dated_invoices(invoices: Iterable[Row]) -> list[Row]:
    """Return invoices with the date on which the month of each begins."""
    return [row | {"begins": iso(row["begins"])[:10]} for row in invoices]


@dataclass(frozen=True, kw_only=True, repr=False)
class RecordedAnswer(DrawnAnswer, ABC):
    """What a back-test tells, whichever engine served the calls: a service, or the columns' compiled kernel.

    `where` names the recording; `sides` are A's text and, if there are two, B's. `left_out` counts calls that
    are not in the answer, by reason. `terms`: in what the catalogues of two sides differ, and `taken_over`
    what one has from the other. `unused` says which months are billed though nobody saw their use, `anchored`
    whose billing months are taken to begin with the recording, `assumed` what the cost of jobs rests on.
    `demand` says who leaves because of B's prices, `duplicates` which rows of the recording say the same,
    `timeline` what the timeline of a file of accounts has that is left out,
    `first_unknown` where the first call of an unknown operation stands, `first_bad` what is wrong with the
    first that cannot be read.
    """

    kind = "price back-test"

    where: str
    sides: tuple[str, ...]
    left_out: Mapping[str, int]
    terms: tuple[Change, ...] = ()
    taken_over: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    anchored: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    duplicates: str = ""
    timeline: str = ""
    first_unknown: str = ""
    first_bad: str = ""
    demand: Demand

    @property
    def title(self) -> str:
        """The title, which names the sides."""
        return f"Recorded calls under {' and '.join(map('{}: {}'.format, 'AB', self.sides))}"

    @property
    def plots(self) -> tuple[str, ...]:
        """The margins, and the refusals; these not where no call is refused, which a note says."""
        return ("outcomes", "margins") if self.refusals else ("margins",)

    @property
    def last(self) -> str:
        """The letter of the last side, A or B."""
        return "AB"[len(self.sides) - 1]

    @property
    def columns_of_outcomes(self) -> tuple[str, ...]:
        """The columns that hold what became of calls: as recorded, and under each side."""
        return ("recorded", "a", "b")[: 1 + len(self.sides)]

    @property
    def described(self) -> tuple[str, ...]:
        """The notes that say which recording was served under which sides, and who stays."""
        named = zip("AB", self.sides, strict=False)
        sides = " ".join(f"{name}: {text}." for name, text in named)
        nothing = "" if self.refusals else " No call is refused, as recorded or replayed."
        return f"{self.where}. {sides}{nothing}", *self.taken_over, *self._who_leaves()

    @property
    def if_all_stay(self) -> str:
        """What follows a sentence about bills that leave aside who leaves because of B's prices."""
        return ", if all stay" if self.demand.price else ""

    def _who_leaves(self) -> list[str]:
        """Say what is assumed of who leaves, and what B then bills."""
        if not self.demand.price:
            return [self.demand.sentence]
        bills = {name: np.array([row[name] for row in self.margins]) for name in ("revenue_a", "revenue_b")}
        share = self.demand.stay(bills["revenue_b"], bills["revenue_a"], newly_refused=False)
        billed, margin = (
            units.usd(round(float((share * [row[f"{what}_b"] for row in self.margins]).sum())))
            for what in ("revenue", "margin")
        )
        customers = units.many(len(self.margins), "customer")
        stay = f"So {float(share.sum()):.4g} of {customers} stay or come under B, which then bills {billed}"
        free = free_before(bills["revenue_b"], bills["revenue_a"])
        unmoved = self.demand.unmoved_notes(free, len(self.margins), "under B")
        return [
            self.demand.sentence,
            *unmoved,
            f"{stay} at a margin of {margin}; all else is told as if all stayed.",
        ]

    @property
    @abstractmethod
    def refusals(self) -> list[Row]:
        """Calls refused by code: as recorded, and under each side."""

    @property
    @abstractmethod
    def billed(self) -> Iterable[Row]:
        """What is billed by side and account, in one row or several."""

    @cached_property
    def margins(self) -> list[Row]:
        """The margin of each customer: first where B changes it most, or of one side where it is least."""
        sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for row in self.billed:
            for what in ("revenue", "margin"):
                sums[row["account"]][f"{what}_{row['side'].lower()}"] += row[what]
        rows: list[Row] = [{"account": account, **bills} for account, bills in sums.items()]
        if self.last == "A":
            return sorted(rows, key=lambda row: int(row["margin_a"]))
        rows = [row | {"change": row["margin_b"] - row["margin_a"]} for row in rows]
        return sorted(rows, key=lambda row: -abs(row["change"]))

    def margins_view(self, name: str) -> list[View]:
        """The first margins as a table for people, one of those of a name."""
        sides = "ab"[: len(self.sides)]
        money = [f"{what}_{side}" for what in ("revenue", "margin") for side in sides]
        money += ["change"] if self.last == "B" else []
        columns = {"account": "text"} | dict.fromkeys(money, "money")
        order = "Least first." if self.last == "A" else "Changed most first."
        note = first_note(len(self.margins), MOST_SHOWN, order)
        return of_table(name, views_of("Margins of customers", self.margins[:MOST_SHOWN], columns, note))

    def save_csv(self, path: Path) -> None:
        """Write the table that answers as CSV: calls or customers, a line each. Raises BadInput."""
        save_csv(self._spec(next(iter(self.TABLES))).in_files(self.rows()), path)

    @property
    @abstractmethod
    def unlike(self) -> list[Row]:
        """Calls that A answers otherwise than was recorded, by operation and answers."""

    def unlike_view(self) -> list[View]:
        """The calls that A answers otherwise as a table for people."""
        note = first_note(len(self.unlike), MOST_LISTED)
        return of_table(
            "unlike",
            UNLIKE.view("Calls that A answers otherwise than recorded", self.unlike[:MOST_LISTED], note),
            folded=True,
        )

    def refusals_view(self) -> list[View]:
        """The refusals as a table for people."""
        columns = {"code": "text"} | dict.fromkeys(self.columns_of_outcomes, "count")
        return of_table("refusals", views_of("Refusals", self.refusals, columns))


def bill_of(revenue: int, cost: int) -> Row:
    """Return the columns of an invoice that every engine tells, µUSD."""
    return {"revenue": revenue, "cost": cost, "margin": revenue - cost}


def months_notes(called: Sequence[Sequence[int]], beyond: int, source: str = "") -> tuple[str, ...]:
    """Say which months are billed although nobody saw them used; `called`: calls by account and month billed.

    `beyond` counts the months that reach out of the recording; `source` is the command that has --accounts.
    """
    months, silent = sum(map(len, called)), sum(list(calls).count(0) for calls in called)
    away = sum(not (calls[0] and calls[-1]) for calls in called)
    notes = []
    if beyond:
        notes.append(
            f"Months are billed in full: {beyond:,} of {months:,} reach more than a day out of the recording."
        )
    if silent:
        note = f"Of {units.many(months, 'month')} billed, {silent:,} have no call"
        if away:
            note += (
                f": {units.many(away, 'customer')} made none in the first or the last, and may have joined "
                f"later or left before: say so by joined and left in --accounts{source}"
            )
        notes.append(f"{note}.")
    return tuple(notes)


def anchored_notes(specs: Mapping[str, AccountSpec], start: Micros, policy: Policy) -> tuple[str, ...]:
    """Say of which recorded accounts nobody says when their billing months begin (U51); `start` is in µs."""
    names = [name for name, spec in specs.items() if spec.anchor is None]
    if not names or policy.assumptions.month == "calendar":
        return ()
    who = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names):,} accounts"
    return (
        f"Billing months of {who} are counted from when the recording begins, {units.instant(start)}, "
        "since nobody says when they begin: accounts that are described may have an anchor.",
    )


ENDLESS = "without a recorded end"
"""Beside the kinds of jobs: those that were accepted, and of which nobody says when they ended."""


def assumed_notes(
    specs: Mapping[str, AccountSpec], jobs: Mapping[str, int], source: str = ""
) -> tuple[str, ...]:
    """Say what the cost rests on of so many `jobs` by kind, of which no recording tells what they want.

    And how many are `ENDLESS`.
    `source` is the command that has the options which say more.
    """
    each = []
    owned = [spec.portfolio for spec in specs.values() if not spec.plan and spec.portfolio is not None]
    if (runs := jobs.get(JobKind.RANK_RUN, 0)) and owned:
        few, *more = sorted({portfolio.keywords for portfolio in owned})
        keywords = " to ".join(units.count(count) for count in (few, *more[-1:]))
        domains = units.many(sum(len(portfolio.hosts("")) for portfolio in owned), "domain")
        each.append(
            f"{units.many(runs, 'rank run')}, for which {keywords} keywords are assumed on each of {domains} "
            f"(give --keywords or --accounts{source})"
        )
    drawn = [(units.many(jobs[kind], job), wanted) for kind, (job, wanted) in DRAWN.items() if jobs.get(kind)]
    if drawn:
        wanted = " or ".join(dict.fromkeys(wanted for _, wanted in drawn))
        which = ", ".join(many for many, _ in drawn)
        each.append(f"{which}, whose {wanted} are drawn for each domain (--seed draws others)")
    notes = []
    if endless := jobs.get(ENDLESS, 0):
        notes.append(
            f"Of {units.many(endless, 'job')} the recording does not say when they ended, so that how long "
            "they last is the model's, and what begins or waits with their end may come out otherwise: "
            "cooldowns, and rank runs that join others; replies that show them ended would tell."
        )
    if not each:
        return tuple(notes)
    return (
        *notes,
        f"Of these jobs the recording does not say how much they want, so that their cost is the model's: "
        f"{'; '.join(each)}; units of their calls would tell.",
    )


UNLIKE = TableSpec(visible={"operation": "text", "recorded": "text", "a": "text", "calls": "count"})
"""The table of the calls that A answers otherwise than was recorded: how many by operation and answers."""


def unlike_rows(counts: Mapping[tuple[str, str, str], int]) -> list[Row]:
    """Return a row for each operation, recorded answer and A's, of so many calls; the most frequent first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [dict(zip(("operation", "recorded", "a"), kind, strict=True)) | {"calls": n} for kind, n in ranked]


def answered_notes(rows: Sequence[Row], calls: int, answered: int, answer: str) -> tuple[str, ...]:
    """Say what A answers otherwise, and how many of the `calls` may never have arrived: they have no reply.

    `answered` counts those whose answer was recorded, by its `answer`; `rows` are of `unlike_rows`.
    """
    silent = {"without a recorded reply": calls - answered} if calls > answered else {}
    return (
        unlike_note(rows, answered, answer),
        *reasons_notes("Replayed as if they had arrived", silent),
    )


def unlike_note(rows: Sequence[Row], calls: int, answer: str) -> str:
    """Say which share of the calls A answers as recorded, and the first kinds of those otherwise.

    `calls` counts those whose answer was recorded, by its `answer`; `rows` are of `unlike_rows`.
    """
    if not calls:
        return f"No {answer} was recorded of a call."
    others = sum(row["calls"] for row in rows)
    share = units.percent(1 - others / calls)
    if rows and share == "100 %":
        share = f"all but {others:,}"
    note = f"Of {units.many(calls, 'call')} whose {answer} was recorded, A answers {share} with it"
    if not rows:
        return f"{note}."
    each = [
        f"{row['calls']:,} {row['operation']} {row['a']} instead of {row['recorded']}"
        for row in rows[:MOST_NAMED]
    ]
    if rest := others - sum(row["calls"] for row in rows[:MOST_NAMED]):
        each.append(f"{rest:,} others")
    return f"{note}, the others otherwise: {'; '.join(each)}."


def first_note(count: int, most: int = MOST_LISTED, order: str = "") -> str:
    """Say in which `order` rows are shown and, where there are more, of how many they are the first."""
    return " ".join(filter(None, (order, f"The first {most} of {count:,}." if count > most else "")))


REASONS = TableSpec(columns=("reason", "calls"))
"""The table of how many calls there are for each reason."""


def reason_rows(counts: Mapping[str, int]) -> list[Row]:
    """Return a row of a table for each reason: how many calls there are for it."""
    return [{"reason": reason, "calls": count} for reason, count in counts.items()]


def reasons_notes(heading: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Say under a heading how much there is for each reason; nothing where there are none."""
    return (f"{heading}: {reasons_text(counts)}.",) if counts else ()


def reasons_text(counts: Mapping[str, int], nothing: str = "nothing") -> str:
    """Return a list of how many there are for each reason; `nothing` where there are none."""
    return "; ".join(f"{count:,} {reason}" for reason, count in counts.items()) or nothing
