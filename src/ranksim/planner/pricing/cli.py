"""`ranksim price …`: the ready questions of pricing on the command line.

A question's signature declares its flags. Every flag also has an environment variable, made by typer:
RANKSIM_PRICE_COMPARE_SEED is `--seed` of `ranksim price compare`.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.core.errors import BadInput
from ranksim.planner.pricing import command as flags
from ranksim.planner.question import AccountName, Seed, command
from ranksim.report.progress import part, show_progress

if TYPE_CHECKING:
    from ranksim.planner.pricing.back_test import BackTest
    from ranksim.planner.pricing.column_back_test import ColumnBackTest
    from ranksim.planner.pricing.compare import ComparisonAnswer
    from ranksim.planner.pricing.demand import Demand
    from ranksim.planner.pricing.recorded_sides import Side

Sides = Callable[[bool], "list[Side]"]
"""Makes the sides of a back-test, by whether A's accounts are on plans of their own."""


def compare(
    b: Annotated[
        str | None,
        typer.Option(
            "--b", metavar="CATALOGUE", help=f"{flags.CATALOGUE} Without one, A as --set changes it."
        ),
    ] = None,
    population: flags.CustomersFile = None,
    scenario: flags.ScenarioFile = None,
    account: AccountName = "",
    a: Annotated[
        str | None,
        typer.Option("--a", metavar="CATALOGUE", help=f"{flags.CATALOGUE}  [default: illustrative]"),
    ] = None,
    move: flags.Move = None,
    leave_price: flags.LeavePrice = 0.0,
    leave_refused: flags.LeaveRefused = 0.0,
    policy: flags.PolicyFile = None,
    replications: flags.Replications = 10,
    precision: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Go on until the margin's difference is known to within this share of itself.",
        ),
    ] = None,
    seed: flags.OwnSeed = None,
    threads: flags.Threads = 1,
) -> flags.Answered:
    """What catalogue B would have earned, cost and refused the customers of A.

    Both serve the same customers with the same requests; intervals are of paired differences. A recorded
    trace is judged by `ranksim compare`.

    Examples:

    \b
      ranksim price compare --b examples/pricing/tighter.yaml --population examples/pricing/population.yaml
      ranksim price compare --b examples/pricing/tighter.yaml --scenario twin/world.yaml
      ranksim price compare --population examples/pricing/population.yaml \\
          --set "policy.catalogue.plans.pro.price=149 USD"
    """
    from ranksim.planner.fleet.engine import CONSULTED
    from ranksim.planner.pricing.catalogues import catalogue_of
    from ranksim.planner.pricing.compare import compare as compared
    from ranksim.planner.pricing.own_account import compare_account

    flags.check_subject(population, scenario, account)
    if b is None:
        raise BadInput("--b: expected a catalogue, or what B changes of A, with --set policy.catalogue.…")
    other, moves = catalogue_of(b), flags.read_moves(move or ())
    demand = flags.read_demand(leave_price, leave_refused)
    under, first = flags.policy_of_flag(policy), None if a is None else catalogue_of(a)
    answer: ComparisonAnswer
    with show_progress("comparing") as tell:
        if scenario is not None:
            answer = of_account = compare_account(
                scenario, other, account=account, a=first, policy=under, moves=moves,
                replications=replications, seed=seed, precision=precision, demand=demand, progress=tell,
            )  # fmt: skip
            subject = flags.about_account(of_account.own, replications, answer.seed)
            under, consulted = of_account.own.scenario.policy, of_account.consulted
        else:
            customers, seeded = flags.read_customers(population), 1 if seed is None else seed
            answer = compared(
                customers, first or catalogue_of("illustrative"), other, policy=under, moves=moves,
                replications=replications, seed=seeded, threads=threads, precision=precision, demand=demand,
                progress=tell,
            )  # fmt: skip
            subject, consulted = flags.asked_about(customers, replications, answer.seed), CONSULTED
    a, b = answer.names
    question = f"What would catalogue B ({b}) earn, cost and refuse with the customers of A ({a})?"
    return flags.Answered(answer, f"{question} {subject}", under, consulted)


def break_even(
    population: flags.PopulationFile,
    catalogue: flags.CatalogueName = "illustrative",
    plan: Annotated[list[str] | None, typer.Option(help="Only this plan; may be repeated.")] = None,
    risk: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            parser=flags.read_ratio,
            help="Customers with a negative margin that a ceiling may let be, as a share.",
        ),
    ] = 0.01,
    level: Annotated[float, typer.Option(help="The confidence asked for.")] = 0.95,
    policy: flags.PolicyFile = None,
    replications: flags.Replications = 5,
    seed: Seed = 1,
    threads: flags.Threads = 1,
) -> flags.Answered:
    """At which price each plan breaks even, and how high its cost ceiling may be.

    Example: ranksim price break-even --population examples/pricing/population.yaml --plan pro
    """
    from ranksim.planner.fleet.engine import CONSULTED
    from ranksim.planner.pricing import catalogues
    from ranksim.planner.pricing.break_even import break_even as balanced

    customers = flags.read_population(
        population,
        "a price breaks even, and a ceiling is safe, by the share of customers with a negative margin: give "
        "a population; of one account `ranksim capacity fit --scenario` says the cost",
    )
    sold, under = catalogues.catalogue_of(catalogue), flags.policy_of_flag(policy)
    with show_progress("looking for ceilings") as tell:
        answer = balanced(
            customers, sold, policy=under, plans=plan or (), risk=risk, level=level,
            replications=replications, seed=seed, threads=threads, progress=tell,
        )  # fmt: skip
    question = (
        f"From which price on does a plan of {sold.name} lose nothing, and which ceiling of cost is safe? "
        f"{flags.asked_about(customers, replications, seed)}"
    )
    return flags.Answered(answer, question, under, CONSULTED)


def pareto(
    vary: flags.Vary,
    population: flags.CustomersFile = None,
    scenario: flags.ScenarioFile = None,
    account: AccountName = "",
    catalogue: Annotated[
        str | None,
        typer.Option("--catalogue", metavar="CATALOGUE", help=f"{flags.CATALOGUE}  [default: illustrative]"),
    ] = None,
    leave_price: flags.LeavePrice = 0.0,
    leave_refused: flags.LeaveRefused = 0.0,
    policy: flags.PolicyFile = None,
    replications: flags.Replications = 5,
    seed: flags.OwnSeed = None,
    threads: flags.Threads = 1,
) -> flags.Answered:
    """Margin against blocked customers over a grid of ceilings, quotas and prices.

    Example: ranksim price pareto --population examples/pricing/population.yaml --vary
    "plans.pro.cost_ceiling=20 USD,40 USD,90 USD" --vary "plans.pro.price=99 USD,129 USD"
    """
    from ranksim.planner.fleet.engine import CONSULTED
    from ranksim.planner.pricing.catalogues import catalogue_of
    from ranksim.planner.pricing.own_account import own_scenario
    from ranksim.planner.pricing.pareto import pareto as frontier
    from ranksim.planner.pricing.pareto import pareto_account
    from ranksim.twin.sim.scenario import scenario_of

    flags.check_subject(population, scenario, account)
    of = None if scenario is None else scenario_of(scenario)
    sold = catalogue_of(catalogue or ("illustrative" if of is None else of.policy.catalogue))
    under, grid = flags.policy_of_flag(policy), flags.read_grid(vary, sold)
    demand = flags.read_demand(leave_price, leave_refused)
    with show_progress("trying catalogues") as tell:
        if of is not None:
            answer = pareto_account(
                of, grid, account=account, catalogue=sold, policy=under, replications=replications,
                seed=seed, demand=demand, progress=tell,
            )  # fmt: skip
            own = own_scenario(of, account, under)
            subject, whom = flags.about_account(own, replications, answer.seed), "calls"
            under, consulted = own.scenario.policy, answer.consulted
        else:
            customers, seeded = flags.read_customers(population), 1 if seed is None else seed
            answer = frontier(
                customers, sold, grid, policy=under, replications=replications, seed=seeded, threads=threads,
                demand=demand, progress=tell,
            )  # fmt: skip
            subject, whom, consulted = (
                flags.asked_about(customers, replications, answer.seed),
                "customers",
                CONSULTED,
            )
    question = (
        f"Which of these values of {sold.name} earn more without blocking more {whom}: {'; '.join(vary)}? "
        f"{subject}"
    )
    return flags.Answered(answer, question, under, consulted)


def back_test(
    recording: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="A trace, an access log or CSV, .gz too; or columns that ranksim price import made.",
        ),
    ],
    plan: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The plan that everybody is on; a second one is B's."),
    ] = None,
    catalogue: Annotated[
        list[str] | None,
        typer.Option("--catalogue", metavar="CATALOGUE", help=f"{flags.CATALOGUE} A second one is B's."),
    ] = None,
    accounts: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"{flags.ACCOUNTS} A is then what they are on.")
    ] = None,
    move: flags.Move = None,
    leave_price: flags.LeavePrice = 0.0,
    rules: Annotated[Path | None, flags.rules_flag("PRICE_BACK_TEST")] = None,
    keywords: flags.KeywordsOfDomain = 50,
    policy: flags.PolicyFile = None,
    seed: Seed = 1,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the calls here, a line each; of columns, the customers."),
    ] = None,
    names: flags.NamesFile = None,
    columns_are: flags.ColumnsAre = "",
    account_from: flags.AccountFrom = "",
    skip_bad: flags.SkipBad = False,
) -> flags.Answered:
    """What recorded calls would have come to under other plans: refusals call by call, and invoices.

    With two plans or two catalogues A is compared with B, otherwise the recording with A. What --set changes
    is B's catalogue. Of columns, millions of calls take seconds, and the answer is by customer and day.

    Example: ranksim price back-test examples/pricing/trace.jsonl --plan starter --plan pro
    """
    from ranksim.core.files import check_outputs
    from ranksim.core.tables import is_parquet
    from ranksim.planner.fleet.engine import CONSULTED

    inputs = (recording, accounts, rules, policy, names, *(catalogue or ()))
    check_outputs((csv,), [Path(each) for each in inputs if isinstance(each, str | Path)])
    sides = partial(sides_of, plan or [], catalogue or ["illustrative"], flags.read_moves(move or ()))
    reading = flags.RecordingInput(rules, flags.read_column_names(columns_are), account_from, skip_bad)
    columns = is_parquet(recording) and not (columns_are or account_from)
    if columns and (accounts is not None or rules is not None or skip_bad):
        raise BadInput(
            f"{recording}: --accounts, --map and --skip-bad are for ranksim price import, which made these "
            "columns"
        )
    if names is not None and not columns:
        raise BadInput(f"{recording}: --names goes with columns, which ranksim price import makes")
    arguments = recording, sides, policy, seed, flags.read_demand(leave_price, 0.0)
    tested = _of_columns(*arguments, names) if columns else _of_calls(*arguments, keywords, accounts, reading)
    if csv is not None:
        tested.save_csv(csv)
    question = f"What would the calls of {recording.name} have been answered, and billed, under other plans?"
    return flags.Answered(tested, question, flags.policy_of_flag(policy), CONSULTED if columns else ())


def _of_columns(
    recording: Path, sides: Sides, policy: Path | None, seed: int, demand: "Demand", names: Path | None
) -> "ColumnBackTest":
    from ranksim.planner.pricing.column_back_test import back_test_columns
    from ranksim.planner.pricing.columns import read_columns

    columns = read_columns(recording, names)
    of = sides(all(spec.plan for spec in columns.specs.values()))
    with show_progress("serving recorded calls") as tell:
        return back_test_columns(
            columns, of, policy=flags.policy_of_flag(policy), seed=seed, demand=demand, progress=tell
        )


def _of_calls(
    recording: Path, sides: Sides, policy: Path | None, seed: int, demand: "Demand", keywords: int,
    accounts: Path | None, reading: flags.RecordingInput,
) -> "BackTest":  # fmt: skip
    from ranksim.planner.pricing.back_test import back_test

    of = sides(accounts is not None)
    with show_progress("serving recorded calls") as tell:
        calls = reading.read(recording, part(tell, 0.0, 0.2))
        return back_test(
            calls, of, accounts=accounts, policy=flags.policy_of_flag(policy), keywords=keywords, seed=seed,
            demand=demand, progress=part(tell, 0.2, 1.0),
        )  # fmt: skip


def search(
    columns: Annotated[Path, typer.Argument(metavar="COLUMNS", help="Columns, from `ranksim price import`.")],
    vary: flags.Vary,
    catalogue: flags.CatalogueName = "illustrative",
    plan: Annotated[str, typer.Option(metavar="NAME", help="The plan that everybody is on.")] = "",
    move: flags.Move = None,
    risk: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            parser=flags.read_ratio,
            help="Customers who may meet a refusal that they never met, as a share.",
        ),
    ] = 0.01,
    leave_price: flags.LeavePrice = 0.0,
    leave_refused: flags.LeaveRefused = 0.0,
    level: Annotated[float, typer.Option(help="The confidence of intervals.")] = 0.95,
    policy: flags.PolicyFile = None,
    seed: Seed = 1,
    names: flags.NamesFile = None,
) -> flags.Answered:
    """Which catalogue of a grid earns most from recorded customers and refuses next to nobody anew.

    All candidates are tried on a few customers, the better third of them on three times as many, and so on.

    Example: ranksim price search calls.parquet --plan pro --vary "plans.pro.cost_ceiling=20 USD,90 USD"
    """
    from ranksim.planner.fleet.engine import CONSULTED
    from ranksim.planner.pricing import catalogues
    from ranksim.planner.pricing.columns import read_columns
    from ranksim.planner.pricing.own_account import refuse_scenario
    from ranksim.planner.pricing.search import search as best

    refuse_scenario(
        columns,
        "a search wants the recorded calls of many: give columns that `ranksim price import` makes; for one "
        "account there is `ranksim price pareto --scenario`",
    )
    demand = flags.read_demand(leave_price, leave_refused)
    sold = catalogues.catalogue_of(catalogue)
    with show_progress("searching") as tell:
        answer = best(
            read_columns(columns, names), sold, flags.read_grid(vary, sold), plan=plan,
            moves=flags.read_moves(move or ()), policy=flags.policy_of_flag(policy), demand=demand, risk=risk,
            level=level, seed=seed, progress=tell,
        )  # fmt: skip
    question = (
        f"Which of these values of {sold.name} earn most from the customers of {columns.name} and refuse "
        f"next to nobody anew: {'; '.join(vary)}?"
    )
    return flags.Answered(answer, question, flags.policy_of_flag(policy), CONSULTED)


def sides_of(plans: list[str], names: list[str], moves: dict[str, str], own: bool) -> "list[Side]":
    """Return A, and B where two plans or catalogues are named, or moves; `own`: A's plans are the accounts'.

    Moves are B's, and A's where they are of plans that its catalogue does not sell: nobody is on these there.
    Raises BadInput.
    """
    from ranksim.planner.pricing.catalogues import catalogue_of
    from ranksim.planner.pricing.recorded_sides import Side

    if len(plans) > 2 or len(names) > 2:
        raise BadInput("back-test: expected at most two plans and two catalogues, A's and B's")
    on = ["", *plans] if own and len(plans) < 2 else plans or [""]
    catalogues = [catalogue_of(name) for name in names]
    unsold = {old: new for old, new in moves.items() if old not in catalogues[0].plans}
    count = max(len(on), len(names), 1 if moves == unsold else 2)
    return [
        Side(catalogues[min(n, len(names) - 1)], on[min(n, len(on) - 1)], moves if n else unsold)
        for n in range(count)
    ]


ASKED: dict[str, tuple[Callable[..., flags.Answered], str, str]] = {
    "compare": (
        compare,
        "Catalogue A against catalogue B on the same customers.",
        "changes differences margins needs",
    ),
    "break-even": (break_even, "At which price and ceiling each plan breaks even.", "plans trials"),
    "pareto": (pareto, "Margin against blocked customers over a grid.", "points"),
    "back-test": (
        back_test,
        "Recorded calls under other plans, and their invoices.",
        "terms invoices refusals changes unlike calls censored customers days",
    ),
    "search": (search, "The best catalogue of a grid for recorded customers.", "candidates tornado"),
}
"""Name of a command to its function, its short help, and the tables that it may print."""

QUESTIONS = {
    name: (command(function, flags.give, with_settings=flags.with_settings, tables=tables.split()), line)
    for name, (function, line, tables) in ASKED.items()
}
"""Name of a command to its function and its short help."""
