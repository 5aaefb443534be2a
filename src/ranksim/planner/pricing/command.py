"""What the commands of pricing share: flags, readers of their texts, and how an answer is given."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ranksim.core.errors import BadInput
from ranksim.report.options import JsonNotTables, Plots
from ranksim.report.terminal import again

if TYPE_CHECKING:
    from ranksim.core.contract.policy import Policy
    from ranksim.planner.fleet.population import Population
    from ranksim.planner.pricing.own_account import OwnScenario
    from ranksim.report.answer import ReadyAnswer

MOST_ROWS = 60
"""Rows of a table that are printed; all are in what --out writes."""

CATALOGUE = "A catalogue: a YAML file, or the name of a shipped one."
ACCOUNTS = "Accounts by name, as in a scenario: plan, add-ons, portfolio."

CatalogueName = Annotated[str, typer.Option("--catalogue", metavar="CATALOGUE", help=CATALOGUE)]
Vary = Annotated[
    list[str],
    typer.Option(metavar="PATH=V,V,…", help="Values of a catalogue to try by path; may be repeated."),
]
KeywordsOfDomain = Annotated[int, typer.Option(help="Keywords of a domain where nobody says.")]
PopulationFile = Annotated[Path, typer.Option(metavar="FILE", help="The customers, a population in YAML.")]
CustomersFile = Annotated[
    Path | None,
    typer.Option("--population", metavar="FILE", help="The customers, a population in YAML; or --scenario."),
]
ScenarioFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A scenario, such as world.yaml of `ranksim mirror`: it is run as it is, for 30 days at least, "
        "and one account of it asked about. Its catalogue and policy are those of A.",
    ),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Facts and assumptions; the default policy's if not given."),
]
Replications = Annotated[int, typer.Option(help="Independent runs; at least 2, for intervals.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads; the result does not depend on it.")]
Move = Annotated[
    list[str] | None,
    typer.Option(metavar="PLAN=PLAN", help="Customers of a plan that B serves by another; may be repeated."),
]


def rules_flag(of: str) -> Any:
    """Declare the flag --map, whose variable names the command `of`."""
    return typer.Option(
        "--map",
        metavar="FILE",
        envvar=f"RANKSIM_{of}_MAP",
        help="Rules that turn lines of an access log into operations.",
    )


class Answered(NamedTuple):
    """An answer, and what it rests on: the question in words, the policy, and its fields that were read."""

    answer: "ReadyAnswer"
    question: str
    policy: "Policy | None"
    consulted: Sequence[str] = ()


def give(
    answered: Answered,
    context: typer.Context,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write result.json, tables/, plots/ and page.html here."),
    ] = None,
    plots: Plots = True,
    json: JsonNotTables = False,
) -> None:
    """Print an answer, and write it where a flag says, with what it rests on and the command."""
    from ranksim.core.contract.policy import Policy
    from ranksim.report.answer import show_answer
    from ranksim.report.assumptions import basis_of

    answer, question, policy, consulted = answered
    basis = basis_of(question, policy or Policy(), consulted, again(context, answer.kind))
    show_answer(answer, json, out, plots, basis, MOST_ROWS)


def read_moves(texts: Sequence[str]) -> dict[str, str]:
    """Read PLAN=PLAN flags. Raises BadInput."""
    moves: dict[str, str] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old or not new:
            raise BadInput(f"--move: expected PLAN=PLAN such as basic=starter, found {text!r}")
        if old in moves:
            raise BadInput(f"--move: {old} is given twice; a plan moves to one other")
        moves[old] = new
    return moves


def read_grid(texts: Sequence[str]) -> dict[str, list[object]]:
    """Read PATH=VALUE,VALUE flags; whole numbers are numbers. Raises BadInput."""
    grid: dict[str, list[object]] = {}
    for text in texts:
        path, _, values = text.partition("=")
        given = [value.strip() for value in values.split(",")]
        if not path or not all(given):
            raise BadInput(
                f'--vary: expected PATH=VALUE,VALUE such as "plans.pro.price=99 USD,129 USD", found {text!r}'
            )
        if path in grid:
            raise BadInput(f"--vary: {path} is given twice; give all its values at once, with commas")
        grid[path] = [int(value) if value.isdecimal() else value for value in given]
    return grid


def check_subject(population: Path | None, scenario: Path | None, account: str) -> None:
    """Raise BadInput unless either customers or a scenario are given."""
    if (population is None) == (scenario is None):
        given = "neither" if population is None else "both"
        raise BadInput(
            f"--population: expected either customers or an account of a --scenario, found {given}"
        )
    if scenario is None and account:
        raise BadInput("--account: only a scenario has accounts; give one with --scenario FILE")


def read_customers(population: Path | None) -> "Population":
    """Read the customers of a question that an account of a scenario may be asked, too. Raises BadInput."""
    assert population is not None, "either customers or a scenario are given"
    return read_population(population, "give it as --scenario")


def read_population(path: Path, instead: str) -> "Population":
    """Read a population; `instead` says what to do with a file that is a scenario. Raises BadInput."""
    from ranksim.planner.fleet.population import Population
    from ranksim.planner.pricing.own_account import refuse_scenario

    refuse_scenario(path, instead)
    return Population.load(path)


def policy_of_flag(path: Path | None) -> "Policy | None":
    """Read a policy, if a file is given. Raises BadInput."""
    from ranksim.core.contract.policy import Policy

    return None if path is None else Policy.load(path)


def asked_about(customers: "Population", replications: int, seed: int) -> str:
    """Return in words who is asked about, for how long and how often."""
    from ranksim.report import units

    return (
        f"{units.many(customers.accounts, 'customer')} over {units.duration(customers.length)} from "
        f"{units.instant(customers.start)}; {units.many(replications, 'replication')}, seed {seed}."
    )


def about_account(own: "OwnScenario", replications: int, seed: int) -> str:
    """Return in words which account is asked about, for how long and how often its scenario is run."""
    from ranksim.report import units

    scenario = own.scenario
    span = f"{units.duration(scenario.length)} from {units.instant(scenario.start)}"
    return (
        f"The account {own.account} of {scenario.name or 'a scenario'} over {span}; "
        f"{units.many(replications, 'replication')}, seed {seed}."
    )
