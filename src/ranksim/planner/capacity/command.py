"""What the commands of questions share: flags of scenario, policy and output, and readers of flags' texts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from ranksim.core import clock
from ranksim.core.errors import BadInput
from ranksim.planner.question import Plots

if TYPE_CHECKING:
    from ranksim.core.clock import Micros
    from ranksim.core.contract.policy import Policy
    from ranksim.planner.capacity.planned import OwnAccount
    from ranksim.report.answer import ReadyAnswer

T = TypeVar("T")

if TYPE_CHECKING:
    PolicyFile: TypeAlias = "Policy | str | Path | None"
else:  # a flag is a file; who calls a question in Python may give a policy itself
    PolicyFile = Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy; the default one if not given.")
    ]
ScenarioFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A scenario, such as world.yaml of `ranksim mirror`, that says what an account tracks, has done "
        "and has used. Flags stand in place of what it says.",
    ),
]


def give(
    answer: "ReadyAnswer",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write result.json, tables/, plots/ and page.html into this directory. It must be new, "
            "empty, or results of an earlier run, which are replaced.",
        ),
    ] = None,
    plots: Plots = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Print an answer, and write it where a flag says."""
    from ranksim.report.answer import show

    show(answer, json, out, plots)


def portfolio_flags(
    domains: Annotated[int | None, typer.Option(help="Domains.  [default: 1]")] = None,
    keywords: Annotated[int | None, typer.Option(help="Keywords of a domain.  [default: 1]")] = None,
    pairings: Annotated[int | None, typer.Option(help="Pairings of engine and device.  [default: 1]")] = None,
    geographies: Annotated[int | None, typer.Option(help="Geographies.  [default: 1]")] = None,
    run_every: Annotated[
        str | None, typer.Option(help="Time between two rank runs of a domain.  [default: 1d]")
    ] = None,
    crawls: Annotated[int | None, typer.Option(help="Crawls of a domain a month.  [default: 0]")] = None,
    optimizations: Annotated[
        int | None, typer.Option(help="Site optimizations of a domain a month.  [default: 0]")
    ] = None,
    pages: Annotated[int | None, typer.Option(help="Pages of a domain.  [default: 100]")] = None,
    ai_scans: Annotated[int | None, typer.Option(help="AI scans of a domain a month.  [default: 0]")] = None,
    questions: Annotated[int | None, typer.Option(help="Questions of an AI scan.  [default: 50]")] = None,
    briefs: Annotated[
        int | None, typer.Option(help="Keyword briefs of a domain a week.  [default: 0]")
    ] = None,
    churn: Annotated[
        float | None, typer.Option(help="Share of the keywords replaced in a month.  [default: 0]")
    ] = None,
    start_within: Annotated[
        str | None, typer.Option(help="Time in which all rank runs must be started.  [default: 1h]")
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            help="Time over which the jobs of one occasion are spread; 0s: at one instant, which it is "
            "unless a scenario says otherwise.",
        ),
    ] = None,
    keys: Annotated[int | None, typer.Option(help="API keys that start them.  [default: 1]")] = None,
    add_on: Annotated[
        list[str] | None, typer.Option(metavar="NAME=COUNT", help="Add-ons; may be repeated.")
    ] = None,
) -> dict[str, Any]:
    """What an account tracks and starts, as flags; return the given ones as a portfolio names them."""
    given = dict(locals())
    bought = given.pop("add_on")
    given["add_ons"] = counts("add_on", bought) if bought else None
    for flag in ("run_every", "start_within", "spread"):
        if given[flag] is not None:
            given[flag] = duration_of(flag, given[flag])
    return {name: value for name, value in given.items() if value is not None}


def own_of(
    scenario: Path | None, account: str, policy: PolicyFile, *, simulate: bool = True, **done: Any
) -> "tuple[OwnAccount | None, Policy]":
    """Read the account that a question starts from, None where no scenario is given, and under which policy.

    Raises BadInput.
    """
    from ranksim.core.contract.policy import policy_of

    if scenario is None:
        if account:
            raise BadInput("--account: only a scenario has accounts; give one with --scenario FILE")
        return None, policy_of(policy)
    from ranksim.planner.capacity.planned import OwnAccount
    from ranksim.twin.sim.scenario import Scenario

    own = OwnAccount(Scenario.load(scenario), account, simulate=simulate, **done)
    return own, own.policy if policy is None else policy_of(policy)


def wanted(flag: str, value: T | None) -> T:
    """Return what a flag says, or a scenario in its place. Raises BadInput where neither does."""
    if value is None:
        raise BadInput(f"--{flag}: expected it, or an account that says it, with --scenario FILE")
    return value


def duration_of(flag: str, text: str) -> "Micros":
    """Read a flag's text as a duration (µs). Raises BadInput saying what was wrong with it."""
    return _read(clock.duration, flag, text)


def instant_of(flag: str, text: str) -> "Micros":
    """Read a flag's text as an instant (µs). Raises BadInput saying what was wrong with it."""
    return _read(clock.instant, flag, text)


def _read(read: Callable[[str], T], flag: str, text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise BadInput(f"--{flag.replace('_', '-')}: {error}") from None


def counts(flag: str, texts: Sequence[str]) -> dict[str, int]:
    """Read NAME=COUNT flags. Raises BadInput."""
    numbers: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            raise BadInput(
                f"--{flag.replace('_', '-')}: expected NAME=COUNT such as crawl=40, found {text!r}"
            )
        if name in numbers:
            raise BadInput(f"--{flag.replace('_', '-')}: {name} is given twice; give one number of each")
        numbers[name] = int(number)
    return numbers
