"""`ranksim price …`: the ready questions of pricing on the command line.

Every flag also has an environment variable, made by typer: RANKSIM_PRICE_COMPARE_SEED is `--seed` of
`ranksim price compare`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.core.errors import BadInput
from ranksim.report.progress import part, shown
from ranksim.report.terminal import again, check_results

if TYPE_CHECKING:
    from ranksim.core.contract.policy import Policy
    from ranksim.planner.fleet.population import Population
    from ranksim.planner.pricing.account_compare import AccountComparison
    from ranksim.planner.pricing.back_test import Side
    from ranksim.planner.pricing.compare import Comparison
    from ranksim.planner.pricing.own_account import OwnScenario
    from ranksim.report.answer import ReadyAnswer
    from ranksim.report.basis import Basis

CATALOGUE = "A catalogue: a YAML file, or the name of a shipped one."

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
AccountName = Annotated[str, typer.Option(help="Which account of the scenario; its only one if none.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Facts and assumptions; the default policy's if not given."),
]
Replications = Annotated[int, typer.Option(help="Independent runs; at least 2, for intervals.")]
Seed = Annotated[int, typer.Option(help="Seed of all that is drawn.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads; the result does not depend on it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write result.json, tables/, plots/ and page.html here.")
]
Plots = Annotated[bool, typer.Option(help="Whether --out draws plots, which needs matplotlib.")]
Move = Annotated[
    list[str] | None,
    typer.Option(metavar="PLAN=PLAN", help="Customers of a plan that B serves by another; may be repeated."),
]


def compare(
    context: typer.Context,
    b: Annotated[str, typer.Option("--b", metavar="CATALOGUE", help=CATALOGUE)],
    population: CustomersFile = None,
    scenario: ScenarioFile = None,
    account: AccountName = "",
    a: Annotated[
        str | None,
        typer.Option("--a", metavar="CATALOGUE", help=f"{CATALOGUE}  [default: illustrative]"),
    ] = None,
    move: Move = None,
    policy: PolicyFile = None,
    replications: Replications = 10,
    precision: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Go on until the margin's difference is known to within this share of itself.",
        ),
    ] = None,
    seed: Seed = 1,
    threads: Threads = 1,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """What catalogue B would have earned, cost and refused the customers of A.

    Both serve the same customers with the same requests; intervals are of paired differences. A recorded
    trace is judged by `ranksim compare`.

    Examples:

    \b
      ranksim price compare --b examples/pricing/tighter.yaml --population examples/pricing/population.yaml
      ranksim price compare --b examples/pricing/tighter.yaml --scenario twin/world.yaml
    """
    from ranksim.planner.fleet.engine import CONSULTED
    from ranksim.planner.pricing.account_compare import compare_account
    from ranksim.planner.pricing.catalogues import read_catalogue
    from ranksim.planner.pricing.compare import compare as answer

    check_results(out, plots)
    _check_one(population, scenario, account)
    other, moves = read_catalogue(b), moves_of(move or ())
    under, first = _policy(policy), None if a is None else read_catalogue(a)
    found: Comparison | AccountComparison
    with shown("comparing") as tell:
        if scenario is not None:
            found = of_account = compare_account(
                scenario, other, account=account, a=first, policy=under, moves=moves,
                replications=replications, seed=seed, precision=precision, progress=tell,
            )  # fmt: skip
            about = _about_account(of_account.own, replications, seed)
            under, read = of_account.own.scenario.policy, of_account.consulted
        else:
            customers = _customers(population)
            found = answer(
                customers, first or read_catalogue("illustrative"), other, policy=under, moves=moves,
                replications=replications, seed=seed, threads=threads, precision=precision, progress=tell,
            )  # fmt: skip
            about, read = _about(customers, replications, seed), CONSULTED
    names = found.names
    question = (
        f"What would catalogue B ({names[1]}) earn, cost and refuse with the customers of A ({names[0]})? "
        f"{about}"
    )
    basis = _basis(context, "price compare", question, under, read)
    _show(found, json, out, plots, basis)


def break_even(
    context: typer.Context,
    population: PopulationFile,
    catalogue: CatalogueName = "illustrative",
    plan: Annotated[list[str] | None, typer.Option(help="Only this plan; may be repeated.")] = None,
    risk: Annotated[
        float, typer.Option(help="Customers with a negative margin that a ceiling may let be, as a share.")
    ] = 0.01,
    level: Annotated[float, typer.Option(help="The confidence asked for.")] = 0.95,
    policy: PolicyFile = None,
    replications: Replications = 5,
    seed: Seed = 1,
    threads: Threads = 1,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """At which price each plan breaks even, and how high its cost ceiling may be.

    Example: ranksim price break-even --population examples/pricing/population.yaml --plan pro
    """
    from ranksim.planner.pricing import catalogues
    from ranksim.planner.pricing.break_even import break_even as answer

    check_results(out, plots)
    customers = _population(
        population,
        "a price breaks even, and a ceiling is safe, by the share of customers with a negative margin: give "
        "a population; of one account `ranksim capacity fit --scenario` says the cost",
    )
    sold, under = catalogues.read_catalogue(catalogue), _policy(policy)
    with shown("looking for ceilings") as tell:
        found = answer(
            customers, sold, policy=under, plans=plan or (), risk=risk, level=level,
            replications=replications, seed=seed, threads=threads, progress=tell,
        )  # fmt: skip
    question = (
        f"From which price on does a plan of {sold.name} lose nothing, and which ceiling of cost is safe? "
        f"{_about(customers, replications, seed)}"
    )
    basis = _of_fleets(context, "price break-even", question, under)
    _show(found, json, out, plots, basis)


def pareto(
    context: typer.Context,
    vary: Vary,
    population: CustomersFile = None,
    scenario: ScenarioFile = None,
    account: AccountName = "",
    catalogue: Annotated[
        str | None,
        typer.Option("--catalogue", metavar="CATALOGUE", help=f"{CATALOGUE}  [default: illustrative]"),
    ] = None,
    policy: PolicyFile = None,
    replications: Replications = 5,
    seed: Seed = 1,
    threads: Threads = 1,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """Margin against blocked customers over a grid of ceilings, quotas and prices.

    Example: ranksim price pareto --population examples/pricing/population.yaml --vary
    "plans.pro.cost_ceiling=20 USD,40 USD,90 USD" --vary "plans.pro.price=99 USD,129 USD"
    """
    from ranksim.planner.fleet.engine import CONSULTED
    from ranksim.planner.pricing.catalogues import read_catalogue
    from ranksim.planner.pricing.own_account import own_scenario
    from ranksim.planner.pricing.pareto import pareto as answer
    from ranksim.planner.pricing.pareto import pareto_account
    from ranksim.twin.sim.scenario import Scenario

    check_results(out, plots)
    _check_one(population, scenario, account)
    sold, under, grid = (
        None if catalogue is None else read_catalogue(catalogue),
        _policy(policy),
        grid_of(vary),
    )
    with shown("trying catalogues") as tell:
        if scenario is not None:
            of = Scenario.load(scenario)
            found = pareto_account(
                of, grid, account=account, catalogue=sold, policy=under, replications=replications,
                seed=seed, progress=tell,
            )  # fmt: skip
            own, sold = own_scenario(of, account, under), sold or of.policy.catalogue
            about, under, whom = _about_account(own, replications, seed), own.scenario.policy, "calls"
            read = found.consulted
        else:
            customers, sold = _customers(population), sold or read_catalogue("illustrative")
            found = answer(
                customers, sold, grid, policy=under, replications=replications, seed=seed, threads=threads,
                progress=tell,
            )  # fmt: skip
            about, whom, read = _about(customers, replications, seed), "customers", CONSULTED
    question = (
        f"Which of these values of {sold.name} earn more without blocking more {whom}: {'; '.join(vary)}? "
        f"{about}"
    )
    basis = _basis(context, "price pareto", question, under, read)
    _show(found, json, out, plots, basis)


def back_test(
    context: typer.Context,
    recording: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE", help="A trace, or an access log, .gz too; or columns that ranksim import made."
        ),
    ],
    plan: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The plan that everybody is on; a second one is B's."),
    ] = None,
    catalogue: Annotated[
        list[str] | None,
        typer.Option("--catalogue", metavar="CATALOGUE", help=f"{CATALOGUE} A second one is B's."),
    ] = None,
    accounts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Accounts by name, as in a scenario: plan, add-ons, portfolio. A is then what they are on.",
        ),
    ] = None,
    move: Move = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            envvar="RANKSIM_PRICE_BACK_TEST_MAP",
            help="Rules that turn lines of an access log into operations.",
        ),
    ] = None,
    keywords: KeywordsOfDomain = 50,
    policy: PolicyFile = None,
    seed: Seed = 1,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the calls here, a line each; of columns, the customers."),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The names of the accounts of columns, as ranksim import wrote them."
        ),
    ] = None,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """What recorded calls would have come to under other plans: refusals call by call, and invoices.

    With two plans or two catalogues A is compared with B, otherwise the recording with A. Of columns,
    millions of calls take seconds, and the answer is by customer and day.

    Example: ranksim price back-test examples/pricing/trace.jsonl --plan starter --plan pro
    """
    from ranksim.core.files import check_outputs
    from ranksim.planner.pricing.back_test import back_test as answer
    from ranksim.planner.pricing.back_test import read_accounts
    from ranksim.planner.pricing.column_back_test import back_test_columns
    from ranksim.planner.pricing.columns import is_columns, read_columns, read_names
    from ranksim.planner.pricing.recording import read_recording, read_rules

    check_results(out, plots, csv)
    check_outputs((csv,), (recording, accounts, rules, policy, names, *map(Path, catalogue or ())))
    if is_columns(recording):
        if accounts is not None or rules is not None:
            raise BadInput(
                f"{recording}: --accounts and --map are for ranksim import, which made these columns"
            )
        columns = read_columns(recording, None if names is None else read_names(names))
        own = all(account.spec.plan for account in columns.accounts)
        sides = sides_of(plan or [], catalogue or ["illustrative"], moves_of(move or ()), own)
        with shown("serving recorded calls") as tell:
            tried = back_test_columns(columns, sides, policy=_policy(policy), seed=seed, progress=tell)
        if csv is not None:
            tried.save_csv(csv)
        basis = _of_fleets(context, "price back-test", _of_recording(recording), _policy(policy))
        _show(tried, json, out, plots, basis)
        return
    if names is not None:
        raise BadInput(f"{recording}: --names goes with columns, which ranksim import makes")
    sides = sides_of(plan or [], catalogue or ["illustrative"], moves_of(move or ()), accounts is not None)
    known = None if accounts is None else read_accounts(accounts)
    with shown("serving recorded calls") as tell:
        found = answer(
            read_recording(recording, () if rules is None else read_rules(rules), part(tell, 0.0, 0.2)),
            sides, accounts=known, policy=_policy(policy), keywords=keywords, seed=seed,
            progress=part(tell, 0.2, 1.0),
        )  # fmt: skip
    if csv is not None:
        found.save_csv(csv)
    basis = _basis(context, "price back-test", _of_recording(recording), _policy(policy))
    _show(found, json, out, plots, basis)


def search(
    context: typer.Context,
    columns: Annotated[Path, typer.Argument(metavar="COLUMNS", help="Recorded calls, from ranksim import.")],
    vary: Vary,
    catalogue: CatalogueName = "illustrative",
    plan: Annotated[str, typer.Option(metavar="NAME", help="The plan that everybody is on.")] = "",
    move: Move = None,
    risk: Annotated[
        float, typer.Option(help="Customers who may meet a refusal that they never met, as a share.")
    ] = 0.01,
    leave_price: Annotated[
        float, typer.Option(help="Assumed: the share of customers that leaves for each share a bill rises.")
    ] = 0.0,
    leave_refused: Annotated[
        float, typer.Option(help="Assumed: the share that leaves of those newly refused something.")
    ] = 0.0,
    level: Annotated[float, typer.Option(help="The confidence of intervals.")] = 0.95,
    policy: PolicyFile = None,
    seed: Seed = 1,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """Which catalogue of a grid earns most from recorded customers and refuses next to nobody anew.

    All candidates are tried on a few customers, the better third of them on three times as many, and so on.

    Example: ranksim price search calls.parquet --plan pro --vary "plans.pro.cost_ceiling=20 USD,90 USD"
    """
    from ranksim.planner.pricing import catalogues
    from ranksim.planner.pricing.columns import read_columns
    from ranksim.planner.pricing.own_account import refuse_scenario
    from ranksim.planner.pricing.search import Assumed, Demand
    from ranksim.planner.pricing.search import search as answer

    check_results(out, plots)
    refuse_scenario(
        columns,
        "a search wants the recorded calls of many: give columns that `ranksim import` makes; for one "
        "account there is `ranksim price pareto --scenario`",
    )
    for name, share in (("--leave-price", leave_price), ("--leave-refused", leave_refused)):
        if not 0 <= share <= 1:
            raise BadInput(f"{name}: expected a share between 0 and 1, found {share}")
    demand = Demand(Assumed(leave_price, 0.0, 1.0), Assumed(leave_refused, 0.0, 0.5))
    sold = catalogues.read_catalogue(catalogue)
    with shown("searching") as tell:
        found = answer(
            read_columns(columns), sold, grid_of(vary), plan=plan, moves=moves_of(move or ()),
            policy=_policy(policy), demand=demand, risk=risk, level=level, seed=seed,
            progress=tell,
        )  # fmt: skip
    question = (
        f"Which of these values of {sold.name} earn most from the customers of {columns.name} and refuse "
        f"next to nobody anew: {'; '.join(vary)}?"
    )
    basis = _of_fleets(context, "price search", question, _policy(policy))
    _show(found, json, out, plots, basis)


def sides_of(plans: list[str], names: list[str], moves: dict[str, str], own: bool) -> "list[Side]":
    """Return A, and B where two plans or catalogues are named; `own`: A's accounts are on their own plans.

    Raises BadInput.
    """
    from ranksim.planner.pricing.back_test import Side
    from ranksim.planner.pricing.catalogues import read_catalogue

    if len(plans) > 2 or len(names) > 2:
        raise BadInput("back-test: expected at most two plans and two catalogues, A's and B's")
    on = ["", *plans] if own and len(plans) < 2 else plans or [""]
    count = max(len(on), len(names))
    catalogues = [read_catalogue(name) for name in names]
    return [
        Side(catalogues[min(n, len(names) - 1)], on[min(n, len(on) - 1)], moves if n == count - 1 else {})
        for n in range(count)
    ]


QUESTIONS: dict[str, tuple[Callable[..., None], str]] = {
    "compare": (compare, "Catalogue A against catalogue B on the same customers."),
    "break-even": (break_even, "At which price and ceiling each plan breaks even."),
    "pareto": (pareto, "Margin against blocked customers over a grid."),
    "back-test": (back_test, "Recorded calls under other plans, and their invoices."),
    "search": (search, "The best catalogue of a grid for recorded customers."),
}
"""Name of a command to its function and its short help."""


def moves_of(texts: Sequence[str]) -> dict[str, str]:
    """Read PLAN=PLAN flags. Raises BadInput."""
    found: dict[str, str] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old or not new:
            raise BadInput(f"--move: expected PLAN=PLAN such as basic=starter, found {text!r}")
        if old in found:
            raise BadInput(f"--move: {old} is given twice; a plan moves to one other")
        found[old] = new
    return found


def grid_of(texts: Sequence[str]) -> dict[str, list[object]]:
    """Read PATH=VALUE,VALUE flags; whole numbers are numbers. Raises BadInput."""
    found: dict[str, list[object]] = {}
    for text in texts:
        path, _, values = text.partition("=")
        given = [value.strip() for value in values.split(",")]
        if not path or not all(given):
            raise BadInput(
                f'--vary: expected PATH=VALUE,VALUE such as "plans.pro.price=99 USD,129 USD", found {text!r}'
            )
        if path in found:
            raise BadInput(f"--vary: {path} is given twice; give all its values at once, with commas")
        found[path] = [int(value) if value.isdecimal() else value for value in given]
    return found


def _check_one(population: Path | None, scenario: Path | None, account: str) -> None:
    """Raise BadInput unless either customers or a scenario are given."""
    if (population is None) == (scenario is None):
        found = "neither" if population is None else "both"
        raise BadInput(
            f"--population: expected either customers or an account of a --scenario, found {found}"
        )
    if scenario is None and account:
        raise BadInput("--account: only a scenario has accounts; give one with --scenario FILE")


def _customers(population: Path | None) -> "Population":
    assert population is not None, "either customers or a scenario are given"
    return _population(population, "give it as --scenario")


def _population(path: Path, instead: str) -> "Population":
    from ranksim.planner.fleet.population import Population
    from ranksim.planner.pricing.own_account import refuse_scenario

    refuse_scenario(path, instead)
    return Population.load(path)


def _policy(path: Path | None) -> "Policy | None":
    from ranksim.core.contract.policy import Policy

    return None if path is None else Policy.load(path)


def _about(customers: "Population", replications: int, seed: int) -> str:
    """Say who is asked about, for how long and how often."""
    from ranksim.report import units

    return (
        f"{units.many(customers.accounts, 'customer')} over {units.duration(customers.length)} from "
        f"{units.instant(customers.start)}; {units.many(replications, 'replication')}, seed {seed}."
    )


def _about_account(own: "OwnScenario", replications: int, seed: int) -> str:
    """Say which account is asked about, for how long and how often its scenario is run."""
    from ranksim.report import units

    scenario = own.scenario
    span = f"{units.duration(scenario.length)} from {units.instant(scenario.start)}"
    return (
        f"The account {own.account} of {scenario.name or 'a scenario'} over {span}; "
        f"{units.many(replications, 'replication')}, seed {seed}."
    )


def _of_recording(recording: Path) -> str:
    return f"What would the calls of {recording.name} have been answered, and billed, under other plans?"


def _basis(
    context: typer.Context, kind: str, question: str, policy: "Policy | None", consulted: Sequence[str] = ()
) -> "Basis":
    from ranksim.core.contract.policy import Policy
    from ranksim.report.basis import basis_of

    return basis_of(question, policy or Policy(), consulted, again(context, kind))


def _of_fleets(context: typer.Context, kind: str, question: str, policy: "Policy | None") -> "Basis":
    """What an answer rests on that was found by serving whole fleets."""
    from ranksim.planner.fleet.engine import CONSULTED

    return _basis(context, kind, question, policy, CONSULTED)


def _show(answer: "ReadyAnswer", as_json: bool, out: Path | None, plots: bool, basis: "Basis") -> None:
    from ranksim.report.answer import show

    show(answer, as_json, out, plots, basis, MOST_ROWS)


MOST_ROWS = 60
"""Rows of a table that are printed; all are in what --out writes."""
