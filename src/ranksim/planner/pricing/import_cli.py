"""`ranksim price import`: recorded calls as columns."""

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.planner.pricing.command import (
    ACCOUNTS,
    AccountFrom,
    ColumnsAre,
    KeywordsOfDomain,
    RecordingInput,
    SkipBad,
    read_column_names,
    rules_flag,
)
from ranksim.report.progress import part, show_progress
from ranksim.report.terminal import print_out

if TYPE_CHECKING:
    from ranksim.planner.pricing.recording import Recording

MOST_NAMED = 5
"""Customers without a description that are named."""

FAR = 2 * 365
"""Days from the median call, beyond which the instant of a call is likely wrong."""


def import_recording(
    recording: Annotated[
        Path, typer.Argument(metavar="CALLS", help="A trace, an access log or CSV, .gz too; or Parquet.")
    ],
    columns: Annotated[
        Path,
        typer.Option(
            "--columns", "--out", metavar="FILE.parquet", help="Write the calls here, as columns of integers."
        ),
    ],
    accounts: Annotated[Path | None, typer.Option(metavar="FILE", help=ACCOUNTS)] = None,
    rules: Annotated[Path | None, rules_flag("IMPORT")] = None,
    keywords: KeywordsOfDomain = 50,
    salt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What names are digested with; drawn, and forgotten, if not given."
        ),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the number of each account and its name here, as CSV."),
    ] = None,
    columns_are: ColumnsAre = "",
    account_from: AccountFrom = "",
    skip_bad: SkipBad = False,
) -> None:
    """Make columns of recorded calls, in which millions are tried under other plans within seconds.

    Accounts become salted integers; hosts, keywords, keys and all else that names anything stay out.

    Example: ranksim price import examples/pricing/trace.jsonl --columns calls.parquet
    """
    from dataclasses import replace

    from ranksim.core.extras import imported
    from ranksim.core.files import check_outputs
    from ranksim.planner.pricing.back_test import accounts_in
    from ranksim.planner.pricing.columns import check_replaced, save_columns
    from ranksim.planner.pricing.importing import columns_of
    from ranksim.planner.pricing.recorded_sides import reasons_text
    from ranksim.planner.pricing.recording import FIRST_BAD, FIRST_UNKNOWN
    from ranksim.report import units

    imported("pyarrow", "columns need pyarrow", "plots")
    check_outputs((columns, names), (recording, accounts, rules))
    check_replaced(columns)
    described, timeline = ({}, "") if accounts is None else accounts_in(accounts)
    reading = RecordingInput(rules, read_column_names(columns_are), account_from, skip_bad)
    with show_progress("reading") as tell:
        calls = reading.read(recording, part(tell, 0.0, 0.5))
        made = columns_of(calls, accounts=described, keywords=keywords, progress=part(tell, 0.5, 1.0))
        made = replace(made, timeline=timeline)
        save_columns(made, columns, salt, names=names)
    first_bad = calls.first_bad and f"{FIRST_BAD} {calls.first_bad}.\n"
    unknown = calls.first_unknown and f"{FIRST_UNKNOWN} {calls.first_unknown}.\n"
    notes = "".join(f"Note: {note}\n" for note in (made.duplicates, timeline) if note)
    print_out(
        f"{units.many(made.calls, 'call')} of {units.many(len(made.accounts), 'account')}, {_span(calls)}"
        f"Left out: {reasons_text(made.left_out)}.\n{first_bad}{unknown}{notes}"
        f"{_undescribed(calls, described, accounts)}"
        "Beyond what columns can follow, so that later calls may come out otherwise: "
        f"{reasons_text(made.unmodelled, 'none')}.\n{_without_codes(calls)}Written to {columns}\n"
    )


def _undescribed(recording: "Recording", described: Container[str], path: Path | None) -> str:
    """Say which customers of the recording a file of accounts lacks, if one is given."""
    from ranksim.report import units

    lacking = [name for name in recording.accounts if name not in described]
    if path is None or not lacking:
        return ""
    end = ", …" if len(lacking) > MOST_NAMED else "."
    return (
        f"Note: {path} lacks {units.many(len(lacking), 'customer')} of the recording, of whom nothing is "
        f"known but what their calls name: {', '.join(lacking[:MOST_NAMED])}{end}\n"
    )


def _without_codes(recording: "Recording") -> str:
    """Say how many calls were refused without an error code, by which a back-test knows refusals again."""
    from ranksim.planner.fleet.rows import UNSTATED
    from ranksim.planner.pricing.importing import recorded_outcome
    from ranksim.report import units

    codeless = sum(recorded_outcome(call) == UNSTATED for call in recording.calls)
    if not codeless:
        return ""
    return (
        f"Note: of {units.many(codeless, 'refused call')} nobody says the error code, so if a back-test "
        "refuses such a call again, that counts as met before, whatever the reason; 429 without a code is "
        "the rate limit; give codes, of a CSV as --columns-are error_code=COLUMN.\n"
    )


def _span(recording: "Recording") -> str:
    """Return from when to when calls are, and a note where some are far from the others."""
    from bisect import bisect_left, bisect_right

    from ranksim.core.clock import DAY
    from ranksim.report import units

    at = [call.at for call in recording.calls]  # in order
    span = f"from {units.instant(at[0])} to {units.instant(at[-1])}.\n"
    median = at[len(at) // 2]
    near = bisect_right(at, median + FAR * DAY) - bisect_left(at, median - FAR * DAY)
    if near == len(at):
        return span
    far = units.many(len(at) - near, "call")
    return (
        f"{span}Note: {far} {'lies' if near == len(at) - 1 else 'lie'} more than two years from the median "
        "one, and customers are billed for all months between: if an instant is wrong, correct it and import "
        "again.\n"
    )
