"""Back-test: what recorded calls would have come to under other plans, call by call, and on the invoice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.clock import DAY, Micros, billing_month
from ranksim.core.contract.located import Located, validate
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.contract.quantities import Frozen
from ranksim.core.contract.yamlfile import read_yaml
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.offers import add_ons_price
from ranksim.planner.fleet.rows import CODELESS
from ranksim.planner.pricing import recorded_sides as recorded
from ranksim.planner.pricing.catalogues import CHANGES, check_customers, selling, terms_view
from ranksim.planner.pricing.demand import Demand, demand_of
from ranksim.planner.pricing.recorded_sides import RecordedAnswer, Side
from ranksim.planner.pricing.recording import (
    FIRST_BAD,
    FIRST_UNKNOWN,
    RecordedCall,
    Recording,
    read_recording,
)
from ranksim.planner.pricing.replay import (
    RecordedAccount,
    ReplayedService,
    ReplayOutcome,
    specs_of,
    stay_of,
    with_numbered_hosts,
)
from ranksim.report import units
from ranksim.report.progress import Tell, noted
from ranksim.report.table_spec import Row, Tables, TableSpec, views_of
from ranksim.report.tables import View, of_table

KEYWORDS = 50
"""Keywords that a domain tracks where nobody says."""

MOST_KEYWORDS = 100_000
"""Keywords of a domain; more take long to make, and nobody tracks so many."""

OF_STATUS = {429: "rate_limited"} | dict.fromkeys(CODELESS, recorded.NO_REASON)
"""What stands for the code of a refusal, by status, where a recording shows none."""

REFUSED, ADMITTED, OTHERWISE = "newly refused", "newly admitted", "refused otherwise"


class Accounts(Frozen):
    """Accounts by name, as in a scenario: what they were on and owned when the recording began; how long."""

    accounts: Annotated[dict[str, RecordedAccount], Field(min_length=1)]


def read_accounts(path: str | Path) -> dict[str, RecordedAccount]:
    """Read the accounts of a file, which may be a whole scenario. Raises BadInput."""
    return accounts_in(path)[0]


def accounts_in(path: str | Path) -> tuple[dict[str, RecordedAccount], str]:
    """Read the accounts of a file, and what to know of its timeline, "" if it has none. Raises BadInput."""
    located, left_out = _located_accounts(path)
    return _accounts(located), left_out


def _accounts(located: Located) -> dict[str, RecordedAccount]:
    return dict(validate(Accounts, located).accounts)


def _located_accounts(path: str | Path) -> tuple[Located, str]:
    located = read_yaml(path, "accounts")
    if not isinstance(located.data, dict) or "accounts" not in located.data:
        raise BadInput(
            f"{path}: the key accounts is missing; put the accounts under it by name, as in a scenario: "
            "accounts: {acme: {plan: pro, portfolio: {domains: 2, keywords: 40}}}"
        )
    accounts = Located(located.where, {"accounts": located.data["accounts"]}, located.lines)
    return accounts, _timeline_note(path, located.data.get("timeline"))


def _timeline_note(path: str | Path, timeline: object) -> str:
    """Say what a file's timeline has that a back-test leaves out, "" if that is nothing."""
    actions = [each for each in timeline if isinstance(each, dict)] if isinstance(timeline, list) else []
    named = units.counted_names(f"{each.get('do')} {each.get('path') or ''}".rstrip() for each in actions)
    return (
        f"Left out is the timeline of {path} ({named}): accounts and policy are as they begin."
        if named
        else ""
    )


MONEY = ("price", "add_ons", "revenue", "cost", "margin")
"""The columns of an invoice that are money."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BackTest(RecordedAnswer):
    """Calls as recorded, under A and, if there are two sides, under B; invoices; what was left out.

    `calls`: id, at, account, operation, recorded and its code, a and b (statuses) with codes and costs
    (µUSD), change. `invoices`: side, account, month, begins, ends, calls, plan, price, add_ons, revenue,
    cost, margin.
    """

    TABLES = MappingProxyType(
        {
            "calls": TableSpec(others={"at": "instant", "a_cost": "money", "b_cost": "money"}),
            "invoices": recorded.invoices(MONEY, begins="instant", ends="instant"),
            "terms": CHANGES,
            "unlike": recorded.UNLIKE,
            "left_out": recorded.REASONS,
        }
    )

    calls: tuple[Row, ...]
    invoices: tuple[Row, ...]

    @property
    def billed(self) -> tuple[Row, ...]:
        """What is billed by side and account, a row a month."""
        return self.invoices

    @property
    def changes(self) -> list[Row]:
        """The calls whose outcome changes, counted by kind, operation and codes."""
        before, after = self.columns_of_outcomes[-2:]
        counts = Counter(
            (row["change"], row["operation"], row[f"{before}_code"], row[f"{after}_code"])
            for row in self.calls
            if row["change"]
        )
        names = ("change", "operation", "was", "becomes")
        return [dict(zip(names, key, strict=True)) | {"calls": n} for key, n in counts.most_common()]

    @property
    def refusals(self) -> list[Row]:
        """Calls refused by code: as recorded, under A, under B."""
        counts = {
            name: Counter(row[f"{name}_code"] for row in self.calls) for name in self.columns_of_outcomes
        }
        codes = sorted({code for count in counts.values() for code in count if code})
        return [{"code": code} | {name: count[code] for name, count in counts.items()} for code in codes]

    @property
    def unlike(self) -> list[Row]:
        """Calls that A answers with another status than was recorded, counted by operation and answers."""
        return recorded.unlike_rows(
            Counter(
                (row["operation"], _answer(row, "recorded"), _answer(row, "a"))
                for row in self.calls
                if row["recorded"] not in (None, row["a"])
            )
        )

    def count(self, change: str) -> int:
        """How many calls changed in this way."""
        return sum(row["change"] == change for row in self.calls)

    def total(self, column: str, side: str) -> int:
        """A column of the invoices of one side, summed; µUSD."""
        return sum(row[column] for row in self.invoices if row["side"] == side)

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        last = self.last
        against = "A" if last == "B" else "the recording"
        money = f"{last} invoices {units.usd(self.total('revenue', last))}"
        if last == "B":
            money += f", A {units.usd(self.total('revenue', 'A'))}"
        return (
            f"Of {len(self.calls):,} calls replayed, {self.count(REFUSED):,} are newly refused and "
            f"{self.count(ADMITTED):,} newly admitted under {last}, compared with {against}; "
            f"{money}{self.if_all_stay}."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        answered = sum(row["recorded"] is not None for row in self.calls)
        return (
            *self.described,
            *recorded.answered_notes(self.unlike, len(self.calls), answered, "status"),
            *self.unused,
            *recorded.reasons_notes("Not replayed", self.left_out),
            *filter(None, (self.first_bad, self.first_unknown, self.duplicates, self.timeline)),
            *self.assumed,
            *self.anchored,
        )

    @property
    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {
            "terms": [change.row() for change in self.terms],
            "calls": list(self.calls),
            "invoices": list(self.invoices),
            "changes": self.changes,
            "refusals": self.refusals,
            "unlike": self.unlike,
            "left_out": recorded.reason_rows(self.left_out),
        }

    def views(self) -> list[View]:
        """The answer as tables for people; of the calls, those that change first."""
        money = dict.fromkeys(MONEY, "money")
        note = "Price and add-ons of whole billing months."
        views = terms_view("terms", self.terms)
        views += of_table(
            "invoices",
            views_of("Invoices", recorded.dated_invoices(self.invoices), recorded.MONTHLY | money, note),
        )
        views += self.refusals_view()
        columns = {"change": "text", "operation": "text", "was": "text", "becomes": "text", "calls": "count"}
        views += of_table("changes", views_of("Changes", self.changes, columns))
        views += self.unlike_view()
        columns = {"id": "text", "at": "instant", "account": "text", "operation": "text", "change": "text"}
        names = self.columns_of_outcomes
        ranked = sorted(self.calls, key=lambda row: not row["change"])
        most = max(recorded.MOST_LISTED, sum(bool(row["change"]) for row in self.calls))
        calls = [
            row | {name: row[f"{name}_code"] or units.text(row[name]) for name in names}
            for row in ranked[:most]
        ]
        columns |= dict.fromkeys(names, "text")
        note = recorded.first_note(len(ranked), most, "Those that change first.")
        return views + of_table("calls", views_of("Calls", calls, columns, note), folded=True)


def back_test(
    recording: Recording | str | Path,
    sides: Sequence[Side],
    *,
    accounts: Mapping[str, AccountSpec] | str | Path | None = None,
    policy: Policy | str | Path | None = None,
    keywords: int = KEYWORDS,
    seed: int = 1,
    demand: Demand | None = None,
    progress: Tell | None = None,
) -> BackTest:
    """Replay a recording under one side or two, and compare: recorded with A, or A with B.

    Recording, accounts and policy may be files. `accounts` says what accounts were on and owned; of others
    nothing is known but what their calls name, and each of their domains tracks so many `keywords`. `demand`
    says who leaves because of B's prices. `progress` is told how many calls were replayed; without it a
    notebook shows that. Raises BadInput.
    """
    if not 0 <= keywords <= MOST_KEYWORDS:
        raise BadInput(f"keywords: expected 0 to {MOST_KEYWORDS}, found {keywords}")
    base = policy_of(policy)
    if not isinstance(recording, Recording):
        recording = read_recording(recording)
    located, timeline = None, ""
    if isinstance(accounts, str | Path):
        located, timeline = _located_accounts(accounts)
        accounts = _accounts(located)
    recording = with_numbered_hosts(recording)
    sides, terms, taken_over = recorded.running_alike(sides, demand := demand_of(demand))
    described = specs_of(recording, accounts or {}, keywords)
    replays = [
        ReplayedService(
            recording, _served(described, side, bool(accounts), located), selling(base, side.sold()), seed
        )
        for side in sides
    ]
    left_out = Counter(recording.left_out)
    with noted("serving recorded calls", progress) as tell:
        outcomes = list(_outcomes(recording, replays, left_out, tell))
    if not outcomes:
        raise BadInput(
            f"{recording.where}: every call names what was there before the recording; give --accounts"
        )
    rows = [_row(call, results, replays) for call, results in outcomes]
    billed = [
        list(_invoices(replay, described, side, rows)) for replay, side in zip(replays, "ab", strict=False)
    ]
    return BackTest(
        where=recording.where,
        sides=recorded.texts_of(sides, terms),
        calls=tuple(rows),
        invoices=tuple(chain.from_iterable(billed)),
        left_out=dict(left_out),
        terms=terms,
        taken_over=taken_over,
        demand=demand,
        duplicates=recording.duplicates.note,
        timeline=timeline,
        first_bad=recording.first_bad and f"{FIRST_BAD} {recording.first_bad}.",
        first_unknown=recording.first_unknown and f"{FIRST_UNKNOWN} {recording.first_unknown}.",
        unused=_unused(billed[0], recording),
        anchored=recorded.anchored_notes(described, recording.start, base),
        assumed=recorded.assumed_notes(described, recording.unstated_jobs(described)),
    )


def _outcomes(
    recording: Recording, replays: Sequence[ReplayedService], left_out: Counter[str], tell: Tell
) -> Iterator[tuple[RecordedCall, list[ReplayOutcome]]]:
    """Yield what each call comes to at each replay; count those that cannot be made again in `left_out`."""
    for call in recording.each(tell):
        # A call that one side cannot place the others cannot either: portfolios are the same.
        if resource := replays[0].lacks(call):
            left_out[recording.why_unrepeatable(call, resource)] += 1
        else:
            yield call, [replay.call(call) for replay in replays]
    for replay in replays:
        replay.finish()


def _served(
    described: Mapping[str, AccountSpec], side: Side, stated: bool, located: Located | None
) -> dict[str, AccountSpec]:
    """Return the accounts of a side, each on its plan; `stated`: some are described by the user.

    They are in a file where they are `located`. Raises BadInput for a plan that is not on sale.
    """
    specs, sold = {}, side.sold()
    for name, spec in described.items():
        unknown = f"accounts: nobody says which plan {name!r} is on"
        unknown += (
            ", and with accounts a single plan is B's; name it among the accounts, or give two plans"
            if stated
            else "; give --plan, or name it in --accounts"
        )
        plan = side.plan_of(spec, sold, unknown, partial(_place, located, name))
        specs[name] = spec.model_copy(update={"plan": plan})
    check_customers("move", side.moves, (spec.plan for spec in specs.values()))
    return specs


def _place(located: Located | None, name: str, part: str) -> str:
    """Return where a field of an account stands."""
    if located is None:
        return f"accounts.{name}.{part}"
    return str(located.error("", "accounts", name, part)).removesuffix(": ")


def _row(call: RecordedCall, results: Sequence[ReplayOutcome], replays: Sequence[ReplayedService]) -> Row:
    row: Row = {"id": call.id, "at": call.at, "account": call.account, "operation": call.operation}
    row |= {"recorded": call.status, "recorded_code": _code(call.status, call.code)}
    for name, outcome, replay in zip("ab", results, replays, strict=False):
        row[name], row[f"{name}_code"] = outcome.status, _code(outcome.status, outcome.code)
        row[f"{name}_cost"] = replay.cost_of(outcome)
    before, after = ("recorded", "a", "b")[len(results) - 1 : len(results) + 1]
    return row | {"change": _change(row[before], row[f"{before}_code"], row[after], row[f"{after}_code"])}


def _answer(row: Row, column: str) -> str:
    """A status with the code of a refusal."""
    return f"{row[column]} {row[f'{column}_code']}".rstrip()


def _code(status: int | None, code: str) -> str:
    """The code of a refusal; where a recording shows none, what stands for it, or an error's status."""
    if status is None or status < 400:
        return ""
    return code or OF_STATUS.get(status, str(status))


def _change(was: int | None, code: str, becomes: int, new_code: str) -> str:
    """How an outcome changes, by status and code; "" for not at all, and where no reply was recorded."""
    if was is None:
        return ""
    if (was < 400) != (becomes < 400):
        return ADMITTED if becomes < 400 else REFUSED
    # An access log shows statuses alone, which tell no code from another.
    return OTHERWISE if code not in (new_code, recorded.NO_REASON) and not code.isdecimal() else ""


def _unused(invoices: Sequence[Row], recording: Recording) -> tuple[str, ...]:
    """The notes of the months that one side bills."""
    first, last = recording.start - DAY, recording.calls[-1].at + DAY
    called: defaultdict[str, list[int]] = defaultdict(list)
    for row in invoices:
        called[row["account"]].append(row["calls"])
    beyond = sum(row["begins"] < first or row["ends"] > last for row in invoices)
    return recorded.months_notes(list(called.values()), beyond)


def _invoices(
    replay: ReplayedService, described: Mapping[str, AccountSpec], letter: str, rows: Sequence[Row]
) -> Iterator[Row]:
    """Yield one row an account and billing month that the recording touches; price and add-ons are whole."""
    catalogue = replay.service.policy.catalogue
    last = replay.recording.calls[-1].at
    by_account: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_account[row["account"]].append(row)
    for name, calls in by_account.items():
        account = replay.service.state.accounts[replay.actors[name].account]
        extras = add_ons_price(catalogue, account.add_ons.items())
        price = catalogue.plans[account.plan].price
        joined, left = stay_of(described[name])
        stay = max(joined, replay.start), min(last, left - 1)
        for number, (begins, ends) in enumerate(_months(account.books.anchor, *stay), 1):
            inside = [row[f"{letter}_cost"] for row in calls if begins <= row["at"] < ends]
            cost = sum(inside)
            bill = {"price": price, "add_ons": extras} | recorded.bill_of(price + extras, cost)
            month: Row = {"month": number, "begins": begins, "ends": ends, "calls": len(inside)}
            month["plan"] = account.plan
            yield {"side": letter.upper(), "account": name} | month | bill


def _months(anchor: Micros, first: Micros, last: Micros) -> Iterator[tuple[Micros, Micros]]:
    begins, ends = billing_month(anchor, first)
    yield begins, ends
    while ends <= last:
        begins, ends = billing_month(anchor, ends)
        yield begins, ends
