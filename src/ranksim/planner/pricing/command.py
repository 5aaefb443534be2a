"""What the commands of pricing share: flags, readers of their texts, and how an answer is given."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ranksim.core.errors import BadInput
from ranksim.report.options import JsonNotTables, Plots, read_settings
from ranksim.report.terminal import again

if TYPE_CHECKING:
    from ranksim.core.contract.plans import Catalogue
    from ranksim.core.contract.policy import Policy
    from ranksim.planner.fleet.population import Population
    from ranksim.planner.pricing.demand import Demand
    from ranksim.planner.pricing.own_account import OwnScenario
    from ranksim.planner.pricing.recording import Recording
    from ranksim.report.answer import ReadyAnswer
    from ranksim.report.progress import Tell

CATALOGUE_PATH = "policy.catalogue."
"""How paths of what is sold begin."""

MOST_ROWS = 60
"""Rows of a table that are printed; all are in what --out writes."""

CATALOGUE = "A catalogue: a YAML file, or the name of a shipped one."
ACCOUNTS = "Accounts by name, as in a scenario: plan, add-ons, portfolio."

CatalogueName = Annotated[str, typer.Option("--catalogue", metavar="CATALOGUE", help=CATALOGUE)]
Vary = Annotated[
    list[str],
    typer.Option(metavar="PATH=V,V,…", help="Values of a catalogue to try by path; may be repeated."),
]
ColumnsAre = Annotated[
    str,
    typer.Option(
        metavar="FIELD=COLUMN,…",
        help="Which column of CSV or Parquet is what: time, method, path; account, status, body, error_code, "
        "response, key, idempotency_key, request_id, units, duration_s, duration_ms. Those of these names "
        "need none.",
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out lines and rows that cannot be read, and count them.")
]
AccountFrom = Annotated[
    str,
    typer.Option(
        metavar="user|address|NAME",
        help="What names the account: user or address of a log, a column, or a header of calls.",
    ),
]
NamesFile = Annotated[
    Path | None,
    typer.Option(
        "--names",
        metavar="FILE",
        help="The names of the accounts of columns, as ranksim price import wrote them.",
    ),
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
OwnSeed = Annotated[
    int | None, typer.Option(help="Seed of all that is drawn.  [default: the scenario's; without one 1]")
]
Replications = Annotated[int, typer.Option(help="Independent runs; at least 2, for intervals.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads; the result does not depend on it.")]


def read_ratio(text: str | float) -> float:
    """Read 0.4, or 40 %."""
    number = str(text).strip()
    try:
        return float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        raise typer.BadParameter(f"expected a number such as 0.4 or 40%, found {number!r}") from None


LeavePrice = Annotated[
    float,
    typer.Option(
        metavar="RATIO",
        parser=read_ratio,
        help="Assumed: the share of customers that would leave if their bill doubled, such as 40%.",
    ),
]
LeaveRefused = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        parser=read_ratio,
        help="Assumed: the share that leaves of those refused in a way that they never were, such as 10%.",
    ),
]
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
        help="Rules that turn calls without a body, as of an access log, into operations.",
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
    tables: Annotated[
        list[str] | None,
        typer.Option(metavar="all|NAME", help="Print all tables, or this one; may be repeated."),
    ] = None,
) -> None:
    """Print an answer, and write it where a flag says, with what it rests on and the command."""
    from ranksim.core.contract.policy import Policy
    from ranksim.report.answer import show_answer
    from ranksim.report.assumptions import basis_of

    answer, question, policy, consulted = answered
    basis = basis_of(question, policy or Policy(), consulted, again(context, answer.kind))
    show_answer(answer, json, out, plots, basis, MOST_ROWS, tables or ())


def with_settings(
    texts: Sequence[str],
    *,
    population: Path | None = None,
    scenario: Path | None = None,
    policy: Path | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the inputs of a question with parameters set by flags; policy.catalogue is that asked about.

    Its paths may begin as those of --vary do: `plans.pro.price` is `policy.catalogue.plans.pro.price`.
    In a comparison and a back-test that is B, which is A with what is set where no B is given.
    Raises BadInput.
    """
    from ranksim.core.contract.parameters import of_root
    from ranksim.core.contract.policy import policy_of
    from ranksim.planner.fleet.population import Population
    from ranksim.planner.pricing.catalogues import catalogue_of, selling
    from ranksim.planner.pricing.pareto import changed, point_row
    from ranksim.twin.sim.scenario import Scenario

    of = None if scenario is None else Scenario.load(scenario)
    under = of.policy if of is not None and policy is None else policy_of(policy)
    which = "b" if "b" in options else "catalogue"
    of_sides = "recording" in options  # a catalogue for each, of which the last is asked about
    *others, named = (options[which] or [None]) if of_sides else [options[which]]
    own = "illustrative" if of is None else of.policy.catalogue
    sold = catalogue_of(named or options.get("a") or own)
    roots: dict[str, Any] = {} if of is None else {**of.roots}
    if population is not None:
        roots["population"] = Population.load(population)
    of_catalogue = [text.split(".")[0] in type(sold).model_fields for text in texts]
    texts = [CATALOGUE_PATH * short + text for short, text in zip(of_catalogue, texts, strict=True)]
    try:
        settings = read_settings(texts, roots | {"policy": selling(under, sold)})
        terms = {
            path.removeprefix(CATALOGUE_PATH): value
            for path, value in settings.items()
            if path.startswith(CATALOGUE_PATH)
        }
        new = changed(sold, terms) if terms else sold
    except BadInput as error:
        why = str(error).replace(CATALOGUE_PATH, "" if any(of_catalogue) else CATALOGUE_PATH)
        raise BadInput(why if why.startswith("--set") else f"--set {why}") from None
    rest = {path: value for path, value in settings.items() if not path.startswith(CATALOGUE_PATH)}
    inputs: dict[str, Any] = {}
    if terms:
        new = new.model_copy(update={"name": f"{sold.name} with {point_row(terms)['point']}"})
        inputs[which] = [*(others or [sold]), new] if of_sides else new
    if "population" in roots:
        inputs["population"] = roots["population"].changed(rest)
    if of is not None:
        inputs["scenario"] = of.changed(rest if policy is None else of_root("scenario", rest))
    if of_root("policy", rest) and (of is None or policy is not None):
        inputs["policy"] = under.changed(rest)
    return inputs


def read_moves(texts: Sequence[str]) -> dict[str, str]:
    """Read PLAN=PLAN flags. Raises BadInput."""
    return read_pairs("--move", "PLAN=PLAN such as basic=starter", texts)


@dataclass(frozen=True, slots=True)
class RecordingInput:
    """How a recording is read: rules of what its calls become, what its columns are, and what is skipped."""

    rules: Path | None
    columns_are: Mapping[str, str]
    account_from: str
    skip_bad: bool

    def read(self, path: Path, tell: "Tell") -> "Recording":
        """Read it, and tell how much has been read. Raises BadInput."""
        from ranksim.planner.pricing.recording import read_recording, read_rules

        return read_recording(
            path, () if self.rules is None else read_rules(self.rules), tell, columns_are=self.columns_are,
            account_from=self.account_from, skip_bad=self.skip_bad,
        )  # fmt: skip


def read_column_names(text: str) -> dict[str, str]:
    """Read --columns-are: by field of a call the name of its column. Raises BadInput."""
    return read_pairs("--columns-are", "FIELD=COLUMN such as time=ts", filter(None, text.split(",")))


def read_pairs(flag: str, expected: str, texts: Iterable[str]) -> dict[str, str]:
    """Read texts such as a=b, each name once. Raises BadInput that names the flag and what is `expected`."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise BadInput(f"{flag}: expected {expected}, found {text!r}")
        if name in pairs:
            raise BadInput(f"{flag}: {name} is given twice; give it once")
        pairs[name] = value
    return pairs


def read_grid(texts: Sequence[str], catalogue: "Catalogue") -> dict[str, list[object]]:
    """Read PATH=VALUE,VALUE flags for a catalogue; whole numbers are numbers. Raises BadInput."""
    from ranksim.planner.pricing.pareto import check_units, points_of

    grid: dict[str, list[object]] = {}
    for text in texts:
        path, _, values = text.removeprefix(CATALOGUE_PATH).partition("=")
        given = [value.strip() for value in values.split(",")]
        if not path or not all(given):
            raise BadInput(
                f'--vary: expected PATH=VALUE,VALUE such as "plans.pro.price=99 USD,129 USD", found {text!r}'
            )
        if path in grid:
            raise BadInput(f"--vary: {path} is given twice; give all its values at once, with commas")
        grid[path] = [int(value) if value.removeprefix("-").isdecimal() else value for value in given]
    try:
        points_of(grid)
        for path, choices in grid.items():
            for value in choices:
                check_units(catalogue, {path: value})
    except BadInput as error:
        raise BadInput(f"--vary: {str(error).removeprefix('grid: ')}") from None
    return grid


def read_demand(price: float, refused: float) -> "Demand":
    """Return who leaves, as --leave-price and --leave-refused say. Raises BadInput that names the flag."""
    from ranksim.planner.pricing.demand import Demand

    try:
        return Demand(price, refused)
    except BadInput as error:
        raise BadInput(f"--leave-{error}") from None


def check_subject(population: Path | None, scenario: Path | None, account: str) -> None:
    """Raise BadInput unless either customers or a scenario are given."""
    if (population is None) == (scenario is None):
        given = "neither" if population is None else "both"
        raise BadInput(
            f"--population: expected either customers or an account of a --scenario, found {given}"
        )
    if scenario is None and account:
        raise BadInput("--account: only a scenario has accounts; give one with --scenario FILE")


def read_customers(population: "Population | Path | None") -> "Population":
    """Read the customers of a question that an account of a scenario may be asked, too. Raises BadInput."""
    assert population is not None, "either customers or a scenario are given"
    return read_population(population, "give it as --scenario")


def read_population(source: "Population | Path", instead: str) -> "Population":
    """Read a population; `instead` says what to do with a file that is a scenario. Raises BadInput."""
    from ranksim.planner.fleet.population import population_of
    from ranksim.planner.pricing.own_account import refuse_scenario

    if isinstance(source, Path):
        refuse_scenario(source, instead)
    return population_of(source)


def policy_of_flag(source: "Policy | Path | None") -> "Policy | None":
    """Read a policy, if a file is given. Raises BadInput."""
    from ranksim.core.contract.policy import policy_of

    return None if source is None else policy_of(source)


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
