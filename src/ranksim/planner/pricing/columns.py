"""Recorded calls as columns of integers, for millions of them: in memory, and as a Parquet file.

Such a file has a row a call, with the fields of `fleet.rows.CallRow` but for what the kernel fills in;
calls of one account stand in order of time. Its metadata `ranksim_columns` is JSON: what is known of each
account, and what was left out. Accounts go by integers: a salted digest of their names, 63 bits.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec
from ranksim.core.clock import Micros, calendar_anchor
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.extras import imported
from ranksim.core.files import new_file
from ranksim.core.records import read_lines
from ranksim.core.rules.admission import QUOTA_EXHAUSTED
from ranksim.core.service.spending import questions_of
from ranksim.core.service.synthetic_data import pages_of
from ranksim.core.tables import COLUMNS_KEY, is_parquet
from ranksim.planner.fleet.offers import Sold
from ranksim.planner.fleet.recorded_fleet import RecordedAccounts
from ranksim.planner.fleet.rows import LIMITED, CallRow, CustomerRow, DomainRow, Integers, Records, blank
from ranksim.planner.pricing.replay import SERIALS, RecordedAccount, hosts_for, stay_of
from ranksim.report import units
from ranksim.report.frames import save_csv

VERSION = 4
CHUNK = 1 << 18
"""Calls that are in memory at a time."""

COLUMNS = {
    "account": "int32",
    "key": "int32",
    "at": "int64",
    "activity": "int8",
    "idle": "int8",
    "domain": "int32",
    "size": "int32",
    "pairings": "int16",
    "places": "int16",
    "needs": "int32",
    "makes": "int32",
    "lasts": "int64",
    "fails": "int8",
    "costs": "int64",
    "estimated": "int64",
    "recorded": "int8",
}
"""The columns of a file and their types."""

SUFFIXES = ("", ".parquet", ".pq")
"""How the name of a file of columns may end."""

KEPT = ("keys", "things", "start", "end", "calls", "left_out", "duplicates", "timeline")
"""What a file says of all its calls, by the names of the fields of `Columns`."""

OUTCOME_OF = {"rate_limited": LIMITED, "allowance_exhausted": QUOTA_EXHAUSTED, **CHECK_OF}
"""Code of a refusal by a limit → its outcome, as the kernel counts it."""


@dataclass(frozen=True, slots=True)
class ColumnAccount:
    """One account of a recording: what it was on and owned, how many calls it made.

    `number` addresses its draws, as in `Recording.numbers`. `spec.plan` is "" where nobody says.
    `made_domains` are the hosts of the domains that its calls made, whose rows follow those of its portfolio.
    `things` says what calls made that others need, by number: the resource, and the row of its domain, or the
    kind of a job. `unmodelled` counts calls whose effect on later ones the kernel leaves out.
    """

    name: str
    spec: AccountSpec | RecordedAccount
    calls: int
    number: int
    made_domains: tuple[str, ...] = ()
    things: dict[int, tuple[str, int]] = field(default_factory=dict)
    unmodelled: dict[str, int] = field(default_factory=dict)

    @property
    def portfolio(self) -> PortfolioSpec:
        """What it owned when the recording began; one domain with nothing in it where it owned nothing."""
        return self.spec.portfolio or PortfolioSpec(domains=hosts_for(self.number, 1), scans=())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of its domains by row."""
        return (*self.portfolio.hosts(self.name), *self.made_domains)


@dataclass(frozen=True, slots=True, repr=False)
class Columns:
    """A recording as columns: its accounts by row, and its calls in chunks, which can be read repeatedly.

    `unnamed` says how many accounts have no name, where names were given; `duplicates` which rows of what was
    imported said the same; `timeline` what the timeline of a file of accounts has that is left out.
    """

    where: str
    accounts: tuple[ColumnAccount, ...]
    keys: int
    things: int
    start: Micros
    end: Micros
    calls: int
    left_out: dict[str, int]
    chunks: Callable[[], Iterator[Records]]
    unnamed: str = ""
    duplicates: str = ""
    timeline: str = ""

    def __repr__(self) -> str:
        calls, accounts = units.many(self.calls, "call"), units.many(len(self.accounts), "account")
        return f"<Columns: {calls} of {accounts}, {sum(self.left_out.values()):,} left out>"

    @property
    def specs(self) -> dict[str, AccountSpec]:
        """What is known of each account, by name."""
        return {account.name: account.spec for account in self.accounts}

    @property
    def unmodelled(self) -> dict[str, int]:
        """Calls whose effect on later ones the kernel leaves out, by reason."""
        counts: Counter[str] = Counter()
        for account in self.accounts:
            counts.update(account.unmodelled)
        return dict(counts)

    def renamed(self, names: Callable[[str], str]) -> Columns:
        """Return the same calls of accounts that have other names."""
        accounts = tuple(replace(account, name=names(account.name)) for account in self.accounts)
        return replace(self, accounts=accounts)


def account_number(name: str, salt: str) -> int:
    """Return the integer that stands for an account's name in a file: 63 bits of a salted digest."""
    return int.from_bytes(blake2b(f"{salt}\0{name}".encode(), digest_size=8).digest(), "big") >> 1


# Files


def save_columns(
    columns: Columns, path: str | Path, salt: str | None = None, *, names: str | Path | None = None
) -> None:
    """Write columns as Parquet, accounts by their salted numbers; without a salt one is drawn, and forgotten.

    The number and the name of each account are written as CSV to `names`, to be kept apart from the columns.
    Raises BadInput without pyarrow, for a path that names another format, and where files cannot be written.
    """
    check_suffix(Path(path))
    parquet = imported("pyarrow.parquet", "columns need pyarrow", "plots")
    arrow = imported("pyarrow", "columns need pyarrow", "plots")
    drawn = token_hex(16) if salt is None else salt
    number = {account.name: str(account_number(account.name, drawn)) for account in columns.accounts}
    salted = columns.renamed(number.__getitem__)
    types = {"int8": arrow.int8(), "int16": arrow.int16(), "int32": arrow.int32(), "int64": arrow.int64()}
    schema = arrow.schema(
        [(name, types[kind]) for name, kind in COLUMNS.items()],
        metadata={COLUMNS_KEY: json.dumps(_header(salted), separators=(",", ":")).encode()},
    )
    with (
        new_file(Path(path)) as temporary,
        parquet.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for chunk in salted.chunks():
            arrays = [arrow.array(chunk[name].astype(kind)) for name, kind in COLUMNS.items()]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema), row_group_size=CHUNK)
    if names is not None:
        save_csv([{"number": number, "name": name} for name, number in number.items()], Path(names))


def check_suffix(path: Path) -> None:
    """Raise BadInput for a file of columns whose name says that it is something else than Parquet."""
    if path.suffix not in SUFFIXES:
        raise BadInput(
            f"{path}: columns are written as Parquet; name the file {path.stem}.parquet (the answers of "
            "ranksim price back-test are written as CSV with --csv)"
        )


def check_replaced(path: Path) -> None:
    """Raise BadInput for a file that columns would replace, unless it has columns itself, or nothing.

    And for a path that names another format.
    """
    check_suffix(path)
    parquet = imported("pyarrow.parquet", "columns need pyarrow", "plots")
    if not path.is_file() or not path.stat().st_size:
        return
    try:
        own = COLUMNS_KEY in (parquet.read_schema(path).metadata or {})
    except (OSError, ValueError):  # not of Parquet, or not complete
        own = False
    if not own:
        raise BadInput(
            f"{path}: is there already and no file of ranksim price import; give another path to write to"
        )


ACCOUNTS = TypeAdapter(tuple[ColumnAccount, ...])


def _header(columns: Columns) -> dict[str, Any]:
    accounts = [
        {
            "name": account.name,
            "spec": account.spec.model_dump(mode="json", exclude_defaults=True) | {"plan": account.spec.plan},
            "calls": account.calls,
            "number": account.number,
            "made_domains": list(account.made_domains),
            "things": {str(number): list(thing) for number, thing in account.things.items()},
            "unmodelled": account.unmodelled,
        }
        for account in columns.accounts
    ]
    return {"version": VERSION, "accounts": accounts} | {name: getattr(columns, name) for name in KEPT}


def read_names(path: str | Path) -> dict[str, str]:
    """Read the names that `save_columns` wrote. Raises BadInput."""
    rows = list(csv.reader(read_lines(path)))
    if not rows or rows[0] != ["number", "name"] or any(len(row) != 2 for row in rows):
        raise BadInput(
            f"{path}: expected lines of number,name under that heading, as ranksim price import writes them"
        )
    return dict(rows[1:])


def read_columns(path: str | Path, names: dict[str, str] | str | Path | None = None) -> Columns:
    """Read a file that `save_columns` wrote; `names` maps its numbers to names to show. Raises BadInput.

    They may be the file that was written beside it.
    """
    path = Path(path)
    parquet = imported("pyarrow.parquet", "columns need pyarrow", "plots")
    arrow = imported("pyarrow", "columns need pyarrow", "plots")
    none = (
        f"{path}: no columns of recorded calls; make them with ranksim price import {path} --columns "
        "calls.parquet, and give these; --columns-are FIELD=COLUMN,… tells how columns of yours are named"
    )
    if path.is_file() and not is_parquet(path):
        raise BadInput(none)
    try:
        file = parquet.ParquetFile(path)
        stated = (file.schema_arrow.metadata or {}).get(COLUMNS_KEY, b"{}")
        header = json.loads(stated)
        if header["version"] != VERSION or set(file.schema_arrow.names) != set(COLUMNS):
            raise KeyError
        accounts = ACCOUNTS.validate_json(json.dumps(header["accounts"]))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; check the path, which is read from {Path.cwd()}") from None
    except (OSError, arrow.ArrowException) as error:
        raise BadInput(f"{path}: expected columns of recorded calls as Parquet ({error})") from None
    except (KeyError, TypeError, ValueError):
        older = f"{path}: expected columns of version {VERSION}; make them again with ranksim price import"
        raise BadInput(none if stated == b"{}" else older) from None

    def chunks() -> Iterator[Records]:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=CHUNK):
            made = blank(batch.num_rows, CallRow)
            for name in COLUMNS:
                made[name] = batch.column(name).to_numpy()
            yield made

    unnamed = ""
    if names is not None:
        shown_as = read_names(names) if isinstance(names, str | Path) else names
        unnamed = _unnamed(path, accounts, shown_as, "names" if isinstance(names, dict) else str(names))
        accounts = tuple(replace(owner, name=shown_as.get(owner.name, owner.name)) for owner in accounts)
    fields = {name: header[name] for name in KEPT if name in header}  # a file may lack the last
    return Columns(str(path), accounts, chunks=chunks, unnamed=unnamed, **fields)


def _unnamed(path: Path, accounts: Sequence[ColumnAccount], names: Container[str], where: str) -> str:
    """Say of how many accounts there is no name, "" if each has one. Raises BadInput where none has."""
    count = sum(account.name not in names for account in accounts)
    if count == len(accounts):
        raise BadInput(
            f"{where}: expected names of the accounts of {path}, and has none of these; give the file that "
            "ranksim price import wrote with --names beside these columns"
        )
    return f"{where} has no name of {count:,} of {units.many(len(accounts), 'account')}." if count else ""


# Accounts for the kernel


def accounts_for(columns: Columns, sold: Sequence[Sold], policy: Policy, seed: int) -> RecordedAccounts:
    """Return the accounts of a recording, each on what it is sold, with what jobs find on their domains."""
    made = blank(len(columns.accounts), CustomerRow)
    made["number"] = [account.number for account in columns.accounts]
    calendar = policy.assumptions.month == "calendar"
    for row, account in enumerate(columns.accounts):
        spec = account.spec
        made[row]["healthy"] = spec.status not in policy.assumptions.inactive_statuses
        anchor = columns.start if spec.anchor is None else spec.anchor
        made[row]["anchor"] = calendar_anchor() if calendar else anchor
        made[row]["domains"] = len(account.hosts)
        joined, left = stay_of(spec)
        made[row]["joins"], made[row]["leaves"] = max(columns.start, joined), min(columns.end, left)
    firsts: Integers = np.cumsum(made["domains"]) - made["domains"]
    domains = blank(int(made["domains"].sum()), DomainRow)
    for row, account in enumerate(columns.accounts):
        _lay_out(domains[firsts[row] : firsts[row] + len(account.hosts)], account, seed)
    accounts = RecordedAccounts(
        (), made, firsts, domains, columns.keys, columns.things, columns.start, columns.end
    )
    return resold(accounts, sold)


def resold(accounts: RecordedAccounts, sold: Sequence[Sold]) -> RecordedAccounts:
    """Return the same accounts, each on what it is sold now."""
    kinds = tuple(dict.fromkeys(sold))
    place = {kind: number for number, kind in enumerate(kinds)}
    customers = accounts.customers.copy()
    customers["offer"] = [place[kind] for kind in sold]
    return replace(accounts, sold=kinds, customers=customers)


def _lay_out(rows: Records, account: ColumnAccount, seed: int) -> None:
    portfolio = account.portfolio
    owned = len(rows) - len(account.made_domains)
    rows["keywords"][:owned] = portfolio.keywords
    tuples = sum(len(s.engine_devices) * len(s.geographies) for s in portfolio.scans if s.active)
    rows["tuples"][:owned] = tuples
    rows["pages"] = [pages_of(seed, host) for host in account.hosts]
    each = 1 + portfolio.lists + portfolio.keywords + len(portfolio.scans) + portfolio.labels
    each += portfolio.competitors
    for place in range(owned):
        domain = f"dom_{account.number * SERIALS + 2 + place * each:010d}"
        rows["questions"][place] = questions_of(seed, domain)
