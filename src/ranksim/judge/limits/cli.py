"""`ranksim limits`: what a rate limit really does, by probing an API, or by a recording."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.report.options import JsonNotText, Junit
from ranksim.report.progress import show_progress
from ranksim.report.terminal import print_out, say, wrapped

if TYPE_CHECKING:
    from ranksim.judge.limits.driver import ProbeRequest
    from ranksim.judge.limits.limits import JudgedLimits
    from ranksim.judge.limits.probing import ProbePlan

BROKEN = 1

Header = Annotated[
    list[str] | None,
    typer.Option(
        "-H",
        "--header",
        metavar="'NAME: VALUE'",
        help="A header of each call; env:TOKEN in the value stands for that environment variable.",
    ),
]
Method = Annotated[str, typer.Option("-X", "--method", help="The method of each call.")]
Data = Annotated[str, typer.Option("-d", "--data", help="The body of each call.")]
Quotas = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CALLS/TIME",
        help="The limit, such as 600/60s; without it is read from headers or found.",
    ),
]
OtherKey = Annotated[
    str,
    typer.Option(
        metavar="'NAME: VALUE'", help="A header of another caller: does it have a limit of its own?"
    ),
]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Show what would be called, and stop.")]
Unasked = Annotated[bool, typer.Option("--yes", help="Do not ask before probing beyond this machine.")]
OtherAddress = Annotated[
    str, typer.Option(metavar="IP", help="Another address of this machine: does it have a limit of its own?")
]


def limits_command(
    source: Annotated[
        list[str],
        typer.Argument(metavar="URL|FILE...", help="What to probe; or an access log, HAR file or trace."),
    ],
    limit: Quotas = None,
    header: Header = None,
    method: Method = "GET",
    data: Data = "",
    time: Annotated[str, typer.Option(help="How long to probe, at most.")] = "5m",
    max_calls: Annotated[int, typer.Option(min=1, metavar="N", help="The most calls to make.")] = 5000,
    refused: Annotated[
        str, typer.Option(metavar="STATUS,...", help="The statuses by which the limit refuses.")
    ] = "429",
    other_key: OtherKey = "",
    other_address: OtherAddress = "",
    by: Annotated[
        str,
        typer.Option(
            help="Whom a recording's limit is for: client, key, path, all, header:NAME or request:/POINTER."
        ),
    ] = "",
    windows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table of windows, of a recording, instead of --limit."),
    ] = None,
    longest: Annotated[str, typer.Option(help="The longest that a call of an access log took.")] = "1s",
    shared: Annotated[
        bool, typer.Option("--shared", help="Others use the limit meanwhile: no refusal comes too early.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the instants at which rounds begin.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="TRACE", help="Write the calls here, as a trace to judge again.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page here.")
    ] = None,
    junit: Junit = None,
    json: JsonNotText = False,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Show what would be called, and stop.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before probing beyond this machine.")
    ] = False,
) -> None:
    """Test a rate limit: does it hold, by which algorithm, and are its headers true?

    Of an API it sends a plan of calls, GET unless told otherwise, each round after an idle time of two
    windows, and ends at the first sign of harm. Of a recording it judges the calls that are there. It says
    that a limit is broken only where no placement of the calls explains them under any algorithm. Exit code 1
    says that it is broken, 2 that the input is wrong.

    Examples:

    \b
      ranksim limits https://api.example.com/widgets -H 'Authorization: env:TOKEN' --limit 600/60s --time 3m
      ranksim limits http://127.0.0.1:8000/ --limit 20/2s
      ranksim limits access.log --limit 100/1s --by client
    """  # fmt: skip
    from ranksim.core.errors import BadInput
    from ranksim.core.files import check_outputs

    probing = [text.startswith(("http://", "https://")) for text in source]
    if any(probing) != all(probing):
        raise BadInput("limits: expected URLs or recordings, and found both")
    check_outputs((out, html, junit), () if all(probing) else [Path(text) for text in source])
    statuses = _statuses(refused)
    if not all(probing):
        paths = [Path(text) for text in source]
        judgement = _recorded(paths, limit or (), windows, by, longest, statuses, shared=shared)
        _report(replace(judgement, about=" ".join(source)), html, junit, json=json)
        return
    from ranksim.judge.limits.probing import ProbePlan, as_trace, probe

    plan = ProbePlan(
        tuple(_endpoint(url, header or (), method, data) for url in source),
        _one_quota(limit),
        _others(source[0], header or (), method, data, other_key, other_address),
        max_calls,
        _length(time),
        statuses,
        shared,
        seed,
    )
    _say_plan(plan, json=json)
    if plan_only or not _agreed(plan, yes=yes):
        return
    with show_progress("probing") as tell:
        judgement, calls = probe(plan, tell)
    if out is not None:
        as_trace(calls, plan.endpoint.url).write(out)
    _report(replace(judgement, about=source[0]), html, junit, json=json)


def _statuses(text: str) -> tuple[int, ...]:
    from ranksim.core.errors import BadInput

    parts = text.split(",")
    if not all(part.strip().isdigit() and 400 <= int(part) <= 599 for part in parts):
        raise BadInput(f"--refused: expected statuses from 400 to 599, such as 429,503, found {text!r}")
    return tuple(int(part) for part in parts)


def _length(text: str) -> int:
    from ranksim.core.clock import duration
    from ranksim.core.errors import BadInput, read_at

    length = read_at("--time", duration, text)
    if length <= 0:
        raise BadInput(f"--time: expected more than nothing, found {text!r}")
    return length


def _one_quota(texts: Sequence[str] | None) -> str:
    from ranksim.core.errors import BadInput

    if len(texts or ()) > 1:
        raise BadInput("--limit: expected one limit of an API that is probed; several are for recordings")
    return texts[0] if texts else ""


def _endpoint(url: str, headers: Sequence[str], method: str, data: str, source: str = "") -> "ProbeRequest":
    from ranksim.judge.limits.driver import ProbeRequest

    named = dict(_header(text) for text in headers)
    return ProbeRequest(url, method.upper(), named, data.encode() if data else None, source)


def _header(text: str) -> tuple[str, str]:
    """Read `Name: value`, with environment variables where env:NAME stands."""
    import os
    import re

    from ranksim.core.errors import BadInput

    name, colon, value = text.partition(":")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise BadInput(f"--header: expected such as 'Authorization: Bearer …', found {text!r}")

    def variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise BadInput(f"--header: {name}: the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    value = re.sub(r"\benv:(\w+)", variable, value.strip())
    if not value.isprintable():
        raise BadInput(f"--header: {name}: expected a value that can be sent in a header")
    return name, value


def _others(
    url: str, headers: Sequence[str], method: str, data: str, key: str, address: str
) -> "dict[str, ProbeRequest]":
    others = {}
    if key:
        name = _header(key)[0].lower()
        same = [text for text in headers if _header(text)[0].lower() != name]
        others["key"] = _endpoint(url, [*same, key], method, data)
    if address:
        others["address"] = _endpoint(url, headers, method, data, address)
    return others


def _recorded(
    paths: Sequence[Path],
    limits: Sequence[str],
    windows: Path | None,
    by: str,
    longest: str,
    statuses: Sequence[int],
    *,
    shared: bool,
) -> "JudgedLimits":
    from ranksim.core.clock import duration
    from ranksim.core.contract.rate_table import WindowTable
    from ranksim.core.errors import BadInput, read_at
    from ranksim.judge.limits.limits import judge_calls
    from ranksim.judge.limits.recordings import read_calls
    from ranksim.judge.limits.windows_file import judge_windows

    if bool(limits) == (windows is not None) or (windows is not None and by):
        raise BadInput(
            "--limit: expected the limit that a recording is held against, such as 100/1s, or --windows"
        )
    most = read_at("--longest", duration, longest)
    if windows is not None:
        return judge_windows(
            paths, WindowTable.load(str(windows)), refused=statuses, shared=shared, longest=most
        )
    calls = [call for path in paths for call in read_calls(path, by, most)]
    if not calls:
        raise BadInput(f"{paths[0]}: has no calls")
    return judge_calls(calls, limits, refused=statuses, shared=shared)


def _say_plan(plan: "ProbePlan", *, json: bool) -> None:
    """Say before anything is sent what will be."""
    from ranksim.judge.limits.lines import WIDTH

    text = plan.described()
    if json:
        say(text)
    else:
        print_out(wrapped(f"{'plan':{WIDTH}}{text}\n", WIDTH))


def _agreed(plan: "ProbePlan", *, yes: bool) -> bool:
    """Ask whether to go on, beyond this machine."""
    from ranksim.core.errors import BadInput

    if plan.is_local or yes:
        return True
    if not sys.stdin.isatty():
        raise BadInput(
            "--yes: expected beyond this machine where nobody can be asked; --plan-only shows the plan first"
        )
    if not typer.confirm("Is this API yours to test? Go on?", default=False, err=True):
        say("nothing was sent")
        return False
    return True


def _report(judgement: "JudgedLimits", html: Path | None, junit: Path | None, *, json: bool) -> None:
    from ranksim.core.files import write_file
    from ranksim.judge.limits.lines import WIDTH
    from ranksim.judge.report.junit import junit_of_checks

    if junit is not None:
        cases = {
            f"{part.who or 'calls'}: {part.quota}": ""
            if part not in judgement.broken or part.judged.evidence is None
            else part.judged.evidence.says
            for part in judgement.parts
        }
        write_file(junit, junit_of_checks("limits", cases))
    if html is not None:
        write_file(html, judgement.page())
    text = wrapped(f"{judgement.summary()}\n", WIDTH)
    print_out(judgement.to_json() if json else text)
    if judgement.broken:
        raise typer.Exit(BROKEN)
