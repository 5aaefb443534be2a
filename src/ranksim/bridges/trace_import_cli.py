"""`ranksim trace import`: HAR files, access logs and tables as a trace."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.core.printable import printable
from ranksim.planner.pricing.command import AccountFrom, ColumnsAre, SkipBad, read_column_names
from ranksim.report.terminal import print_out

if TYPE_CHECKING:
    from ranksim.core.trace import Trace


def import_trace(
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="HAR files, access logs, or CSV or Parquet; several are joined."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="TRACE", help="Write the trace here; .gz and .xz are packed.")],
    host: Annotated[
        str, typer.Option(metavar="URL", help="The base URL of the API, where the files have others' calls.")
    ] = "",
    sandbox: Annotated[str, typer.Option(metavar="URL", help="The base URL of its sandbox.")] = "",
    account: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=ID", help="Whose a key is, where no GET /v1/account was recorded."),
    ] = None,
    one_key: Annotated[
        bool, typer.Option("--one-key", help="All calls were sent with one key, which was not recorded.")
    ] = False,
    by_client: Annotated[
        bool, typer.Option("--by-client", help="Each client of an access log stands for a key.")
    ] = False,
    complete: Annotated[
        bool, typer.Option("--complete", help="All calls of these keys are here, none is missing.")
    ] = False,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Nobody else used these accounts meanwhile.")
    ] = False,
    longest: Annotated[
        str, typer.Option(help="The longest that a call took whose length was not recorded.")
    ] = "60s",
    columns_are: ColumnsAre = "",
    account_from: AccountFrom = "",
    skip_bad: SkipBad = False,
) -> None:
    """Make a trace of what other tools recorded, for `ranksim compare`, `calibrate` and `view`.

    Keys are told apart by their tokens, which are written nowhere; accounts come from GET /v1/account. What
    was not recorded counts neither for nor against the deployment. On a terminal it asks whose the keys are
    of which no account was recorded.

    Example: ranksim trace import session.har --out trace.jsonl
    """
    from dataclasses import replace
    from secrets import token_bytes

    from ranksim.core.clock import duration
    from ranksim.core.errors import BadInput, read_at
    from ranksim.core.files import check_outputs
    from ranksim.core.har import PRODUCTION, SANDBOX, ImportOptions, trace_of
    from ranksim.report import units

    check_outputs((out,), recordings)
    accounts = {}
    for text in account or ():
        name, equals, number = text.partition("=")
        if not equals:
            raise BadInput(f"--account: expected such as key-1=acct_9, found {text!r}")
        accounts[name] = number
    most = read_at("--longest", duration, longest)
    hosts = {name: url for name, url in ((PRODUCTION, host), (SANDBOX, sandbox)) if url}
    columns = read_column_names(columns_are)
    options = ImportOptions(
        hosts, accounts, complete, exclusive, one_key, by_client, account_from, columns, most,
        token_bytes(16), skip_bad,
    )  # fmt: skip
    trace, notes = trace_of(recordings, options)
    if answers := _accounts_from_terminal(trace):
        trace, notes = trace_of(recordings, replace(options, accounts={**accounts, **answers}))
    trace.write(out)
    owners = ", ".join(f"{name} of {key.account or 'unknown'}" for name, key in trace.header.keys.items())
    lines = [f"{units.many(len(trace.exchanges), 'call')}; keys: {owners or 'none was recorded'}"]
    lines += [f"note: {note}" for note in notes]
    print_out("\n".join([*lines, f"trace: {out}", f"next: ranksim compare {out}"]) + "\n")


def _accounts_from_terminal(trace: "Trace") -> dict[str, str]:
    """Ask on a terminal whose each key is that no GET /v1/account tells; return the answers, by key."""
    from ranksim.core.clock import iso
    from ranksim.report import units

    answers: dict[str, str] = {}
    for name in [name for name, key in trace.header.keys.items() if not key.account]:
        if not sys.stdin.isatty():
            break
        calls = [call for call in trace.exchanges if call.api_key == name]
        first = f"the first {calls[0].method} {calls[0].path} at {iso(calls[0].sent)}"
        question = f"The account of {name} ({units.many(len(calls), 'call')}, {first}); nothing if unknown"
        answers[name] = typer.prompt(printable(question), default="", show_default=False, err=True).strip()
    return {name: account for name, account in answers.items() if account}
