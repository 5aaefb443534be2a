"""What the commands of questions share: flags of scenario, policy and output, and readers of flags' texts."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from ranksim.core.errors import BadInput
from ranksim.report.options import Plots, ResultsDirectory, read_settings
from ranksim.report.progress import show_progress
from ranksim.report.terminal import again

if TYPE_CHECKING:
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
        "and has used. Flags of what is done stand in place of what its clients do.",
    ),
]


def give(
    answer: "ReadyAnswer",
    context: typer.Context,
    out: ResultsDirectory = None,
    plots: Plots = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Print an answer, and write it where a flag says, with the command."""
    from ranksim.report.answer import show_answer
    from ranksim.report.assumptions import Basis

    show_answer(answer, json, out, plots, Basis(command=again(context, answer.kind)))


def with_settings(
    texts: Sequence[str],
    *,
    scenario: Path | None = None,
    policy: PolicyFile = None,
    catalogue: str | None = None,
    **_: Any,
) -> dict[str, Any]:
    """Return the inputs of a question with parameters set by flags. Raises BadInput."""
    from ranksim.core.contract.located import Located
    from ranksim.core.contract.policy import policy_of, read_catalogue
    from ranksim.twin.sim.scenario import Scenario, with_parameters

    of = None if scenario is None else Scenario.load(scenario)
    under = of.policy if of is not None and policy is None else policy_of(policy)
    if catalogue is not None:
        sold = read_catalogue(Located("--catalogue", catalogue, {}), Path())
        under = under.model_copy(update={"catalogue": sold})
    settings = read_settings(texts, {**({} if of is None else of.roots), "policy": under})
    stated, under = with_parameters(settings, of, None if of is not None and under is of.policy else under)
    changed: dict[str, Any] = {"policy": under}
    if catalogue is not None:
        changed["catalogue"] = None  # it is the policy's now
    return changed if stated is None else {**changed, "scenario": stated}


TRACKED: dict[str, tuple[Any, str]] = {
    "domains": (int, "Domains.  [default: 1]"),
    "keywords": (int, "Keywords of a domain.  [default: 1]"),
    "pairings": (int, "Pairings of engine and device.  [default: 1]"),
    "geographies": (int, "Geographies.  [default: 1]"),
    "run_every": (str, "Time between two rank runs of a domain.  [default: 1d]"),
    "crawls": (int, "Crawls of a domain a month.  [default: 0]"),
    "optimizations": (int, "Site optimizations of a domain a month.  [default: 0]"),
    "pages": (int, "Pages of a domain.  [default: 100]"),
    "ai_scans": (int, "AI scans of a domain a month.  [default: 0]"),
    "questions": (int, "Questions of an AI scan.  [default: 50]"),
    "briefs": (int, "Keyword briefs of a domain a week.  [default: 0]"),
    "churn": (float, "Share of the keywords replaced in a month.  [default: 0]"),
    "start_within": (str, "Time in which all rank runs must be started.  [default: 1h]"),
    "spread": (
        str,
        "Time over which the jobs of one occasion are spread; 0s: at one instant, which it is unless a "
        "scenario says otherwise.",
    ),
    "keys": (int, "API keys that start them.  [default: 1]"),
    "add_on": (list[str], "Add-ons; may be repeated."),
}
"""What an account tracks and starts, as flags: the fields of a portfolio, with their help."""

PORTFOLIO = {
    name: Annotated[kind | None, typer.Option(metavar="NAME=COUNT" if name == "add_on" else None, help=text)]
    for name, (kind, text) in TRACKED.items()
}
"""The annotations of these flags."""


def read_portfolio(**flags: Any) -> dict[str, Any]:
    """Return the flags that are given as a portfolio names them. Raises BadInput."""
    from ranksim.planner.capacity.common import micros

    given = {name: value for name, value in flags.items() if value is not None}
    if bought := given.pop("add_on", None):
        given["add_ons"] = counts("--add-on", bought)
    for flag in ("run_every", "start_within", "spread"):
        if flag in given:
            given[flag] = micros(f"--{flag.replace('_', '-')}", given[flag])
    return given


def own_of(
    scenario: Path | None,
    account: str,
    policy: PolicyFile,
    *,
    simulate: bool = True,
    months: int = 1,
    **done: Any,
) -> "tuple[OwnAccount | None, Policy]":
    """Read the account that a question starts from, None where no scenario is given, and under which policy.

    What is simulated of it, for so many `months`, shows on stderr how far it is. Raises BadInput.
    """
    from ranksim.core.contract.policy import policy_of

    if scenario is None:
        if account:
            raise BadInput("--account: only a scenario has accounts; give one with --scenario FILE")
        return None, policy_of(policy)
    from ranksim.planner.capacity.planned import OwnAccount

    with show_progress("simulating") if simulate else nullcontext() as tell:
        own = OwnAccount(scenario, account, simulate=simulate, progress=tell, months=months, **done)
    return own, own.policy if policy is None else policy_of(policy)


def notes_of_time(own: "OwnAccount | None") -> tuple[str, ...]:
    """Return the note, if any, that an answer is about the time before the timeline sets something."""
    return () if own is None else own.notes[len(own.load.notes) :]


def wanted(flag: str, value: T | None) -> T:
    """Return what a flag says, or a scenario in its place. Raises BadInput where neither does."""
    if value is None:
        raise BadInput(f"--{flag}: expected it, or an account that says it, with --scenario FILE")
    return value


def counts(flag: str, texts: Sequence[str]) -> dict[str, int]:
    """Read NAME=COUNT flags. Raises BadInput."""
    numbers: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            raise BadInput(f"{flag}: expected NAME=COUNT such as crawl=40, found {text!r}")
        if name in numbers:
            raise BadInput(f"{flag}: {name} is given twice; give one number of each")
        numbers[name] = int(number)
    return numbers
