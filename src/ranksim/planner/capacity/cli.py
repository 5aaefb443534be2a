"""`ranksim capacity …`: the ready questions of capacity planners on the command line.

Every flag also has an environment variable, made by typer: RANKSIM_CAPACITY_SLOTS_KEYWORDS is `--keywords` of
`ranksim capacity slots`.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from ranksim.core import clock
from ranksim.core.errors import BadInput, listed
from ranksim.report.answer import show
from ranksim.report.progress import shown
from ranksim.report.terminal import check_results, plan_names

if TYPE_CHECKING:
    from ranksim.core.contract.policy import Policy
    from ranksim.planner.capacity.planned import OwnAccount

T = TypeVar("T")

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
AccountName = Annotated[str, typer.Option(help="Which account of the scenario; its only one if none.")]
Seed = Annotated[int, typer.Option(help="Seed of all that is drawn.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write result.json, tables/, plots/ and page.html into this directory. It must be new, empty, "
        "or results of an earlier run, which are replaced.",
    ),
]
Plots = Annotated[bool, typer.Option(help="Whether --out draws plots, which needs matplotlib.")]


def slots(
    adds: Annotated[float, typer.Option(help="Fresh keywords added a day.")],
    keywords: Annotated[
        int | None, typer.Option(help="Keywords tracked at first; wanted without --scenario.")
    ] = None,
    removals: Annotated[float, typer.Option(help="Keywords removed a day, for longer than the month.")] = 0.0,
    pairings: Annotated[int | None, typer.Option(help="Pairings of engine and device.  [default: 1]")] = None,
    geographies: Annotated[int | None, typer.Option(help="Geographies.  [default: 1]")] = None,
    plan: Annotated[
        str | None,
        typer.Option(help="The plan whose slots these are.  [default: pro]", autocompletion=plan_names),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Slots, instead of the plan's.")] = None,
    law: Annotated[
        str, typer.Option(metavar="poisson|fixed", help="Additions and removals at random, or so many a day.")
    ] = "poisson",
    start: Annotated[
        str | None, typer.Option(help="When the account's billing months begin.  [default: 2026-03-01]")
    ] = None,
    scenario: ScenarioFile = None,
    account: AccountName = "",
    days: Annotated[int, typer.Option(help="Days to look ahead.")] = 31,
    replications: Annotated[int, typer.Option(help="Accounts to simulate beside it; 0 for none.")] = 0,
    seed: Seed = 1,
    policy: PolicyFile = None,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """How slots fill under churn, and the chance of slot_limit_exceeded by each day.

    What is removed stays counted to the end of the billing month, so only fresh keywords matter until then.
    A scenario begins in the midst of a billing month, with what is held to its end.

    Examples:

    \b
      ranksim capacity slots --keywords 1000 --pairings 2 --geographies 2 --adds 10 --removals 10
      ranksim capacity slots --scenario twin/world.yaml --adds 10
    """
    from ranksim.planner.capacity.common import plan_named
    from ranksim.planner.capacity.slots import Churn, Law, slot_use
    from ranksim.planner.capacity.slots_world import simulate_slot_use

    check_results(out, plots)
    own, used = _own(scenario, account, policy, simulate=False)
    begin = _read(clock.instant, "start", start or "2026-03-01")
    anchor, held, named = None, 0, plan or "pro"
    notes: tuple[str, ...] = ()
    if own is not None:
        if start is None:
            begin, anchor, held = own.now, own.anchor, own.held
        if pairings is None and geographies is None:
            pairings, geographies = max(1, own.load.each), 1
            if len(own.sizes) > 1:
                notes = (f"Added words are taken to have {pairings} slots each. {own.room_for_words()}",)
        each = (pairings or 1) * (geographies or 1)
        keywords = -(-own.load.slots // each) if keywords is None else keywords
        named = plan or own.plan.name
    churn = Churn(
        _wanted("keywords", keywords), pairings or 1, geographies or 1, adds, removals, cast("Law", law), held
    )
    most = plan_named(used, named).slot_limit if limit is None else limit
    if replications:
        with shown("simulating") as tell:
            answer = simulate_slot_use(
                churn, most, start=begin, days=days, policy=used, replications=replications, seed=seed,
                anchor=anchor, progress=tell,
            )  # fmt: skip
    else:
        answer = slot_use(churn, most, start=begin, days=days, anchor=anchor)
    show(replace(answer, notes=notes), json, out, plots)


def sync(
    keywords: Annotated[
        int | None, typer.Option(help="Keywords to add; of a scenario, those that it tracks.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Keywords in each request.")] = 100,
    lists: Annotated[
        int,
        typer.Option(
            help="Keyword lists that they are dealt over, as a request is for one; of a scenario, its own."
        ),
    ] = 1,
    removals: Annotated[int, typer.Option(help="Keywords to remove, a request each.")] = 0,
    latency: Annotated[str, typer.Option(help="How long a reply takes.")] = "0s",
    others: Annotated[int, typer.Option(help="Writes per window of other clients with the same key.")] = 0,
    scenario: ScenarioFile = None,
    account: AccountName = "",
    policy: PolicyFile = None,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """How long it takes to send keywords under the write limit, and how best to pace it.

    Worked out call by call under each of the five algorithms that a rate window may be (U1).

    Example: ranksim capacity sync --keywords 30000 --batch 100 --others 60
    """
    from ranksim.planner.capacity.common import expect
    from ranksim.planner.capacity.sync import Sync, dealt, sync_time

    check_results(out, plots)
    own, used = _own(scenario, account, policy, simulate=False)
    expect(lists >= 1, "--lists", "1 or more", lists)
    if keywords is None and own is not None:
        keywords, each = own.load.keywords, own.lists
    else:
        each = dealt(_wanted("keywords", keywords), lists)
    waited = _read(clock.duration, "latency", latency)
    sent = Sync(_wanted("keywords", keywords), batch, removals, waited, others, each)
    answer = sync_time(sent, used)
    notes = () if own is None else (own.room_for_words(),)
    show(replace(answer, notes=notes), json, out, plots)


def workers(
    jobs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=COUNT",
            help="Jobs of the peak by kind; may be repeated. Of a scenario, all that it starts.",
        ),
    ] = None,
    over: Annotated[
        str | None, typer.Option(help="How long they keep coming; 0s: all at once.  [default: 1h]")
    ] = None,
    profile: Annotated[str, typer.Option(metavar="W,W,…", help="Weights of equal parts of that time.")] = "1",
    within: Annotated[str, typer.Option(help="How long a job may wait for a worker.")] = "5m",
    target: Annotated[float, typer.Option(help="The share of jobs that must not wait longer.")] = 0.95,
    replications: Annotated[int, typer.Option(help="Peaks to simulate for each try; 0 for none.")] = 20,
    scenario: ScenarioFile = None,
    account: AccountName = "",
    seed: Seed = 1,
    policy: PolicyFile = None,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """How many workers a peak needs so that its jobs start in time.

    By formula (M/M/c with corrections), and by simulation with 95 % confidence. Jobs take as long as the
    policy's catalogue says, or the pools of a scenario, whose own jobs are simulated when they start.

    Example: ranksim capacity workers --jobs rank_run=600 --jobs crawl=40 --over 1h
    """
    from ranksim.planner.capacity.workers import peaks_of, workers_needed
    from ranksim.planner.capacity.workers_world import workers_of_scenario
    from ranksim.twin.sim.scenario import Scenario

    check_results(out, plots)
    patience = _read(clock.duration, "within", within)
    notes: tuple[str, ...] = ()
    with shown("simulating peaks") as tell:
        world = None if scenario is None else Scenario.load(scenario)
        if world is not None and world.clients and not jobs and over is None:
            if account and len(world.accounts) > 1:
                raise BadInput(
                    "--account: workers serve all accounts of a scenario; leave it out, or say with --jobs "
                    "and --over which jobs come together"
                )
            answer = workers_of_scenario(
                world if policy is None else world.replace(policy=policy),
                within=patience, target=target, replications=replications, seed=seed, progress=tell,
            )  # fmt: skip
        else:
            own, used = _own(scenario, account, policy, simulate=False)
            started = _jobs(jobs) if jobs else None if own is None else own.jobs()
            at_once = own is not None and not jobs  # as `fit` takes what nobody says
            spread = _read(clock.duration, "over", over or ("0s" if at_once else "1h"))
            pools = {} if world is None else world.pools
            peaks = peaks_of(_wanted("jobs", started), used, spread, _weights(profile), pools)
            answer = workers_needed(
                peaks, within=patience, target=target, replications=replications, seed=seed, progress=tell
            )
            notes = () if own is None or jobs else own.load.notes
    show(replace(answer, notes=(*answer.notes, *notes)), json, out, plots)


def outage(
    length: Annotated[str, typer.Option(help="How long the receiver is down.")],
    every: Annotated[
        str | None,
        typer.Option(help="Time between two events, on average, instead of a scenario's own."),
    ] = None,
    together: Annotated[
        int | None, typer.Option(help="Events that come at once each time.  [default: 1]")
    ] = None,
    law: Annotated[
        str | None,
        typer.Option(
            metavar="poisson|regular",
            help="Events at random, or evenly from a random phase.  [default: poisson]",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="When it begins, in a scenario: 2d after its start, or an instant; at any moment if none.",
        ),
    ] = None,
    failure: Annotated[
        str, typer.Option(metavar="down|late", help="Refuse every attempt, or act on it and answer too late.")
    ] = "down",
    replications: Annotated[int, typer.Option(help="Outages to simulate beside it; 0 for none.")] = 100,
    scenario: ScenarioFile = None,
    account: AccountName = "",
    seed: Seed = 1,
    policy: PolicyFile = None,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """What an outage of a webhook receiver loses, doubles and disables.

    The events of a scenario are those of its own jobs, when they end: one run of it is followed.

    Examples:

    \b
      ranksim capacity outage --length 3h --every 45m --replications 200
      ranksim capacity outage --length 3h --scenario scenarios/agency-month.yaml --at 2d1h
    """
    from ranksim.planner.capacity.outage import Failure, Law, Outage, outage_cost
    from ranksim.planner.capacity.outage_scenario import scenario_outage
    from ranksim.planner.capacity.outage_world import simulate_outage

    check_results(out, plots)
    lasts, fails = _read(clock.duration, "length", length), cast("Failure", failure)
    with shown("simulating") as tell:
        if scenario is not None and every is None:
            if together is not None or law is not None:
                raise BadInput(
                    "--together, --law: a scenario says when its events come; give --every with them"
                )
            answer = scenario_outage(
                scenario, lasts, account=account, at=at, failure=fails,
                policy=None if policy is None else _policy(policy), seed=seed, progress=tell,
            )  # fmt: skip
        else:
            if at is not None:
                raise BadInput(
                    "--at: only a scenario has moments; give one with --scenario FILE, without --every"
                )
            _, used = _own(scenario, account, policy, simulate=False)
            gap = _read(clock.duration, "every", _wanted("every", every))
            met = Outage(lasts, gap, together or 1, cast("Law", law or "poisson"), fails)
            if replications:
                answer = simulate_outage(met, used, replications=replications, seed=seed, progress=tell)
            else:
                answer = outage_cost(met, used)
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
    given["add_ons"] = _counts("add_on", bought) if bought else None
    for flag in ("run_every", "start_within", "spread"):
        if given[flag] is not None:
            given[flag] = _read(clock.duration, flag, given[flag])
    return {name: value for name, value in given.items() if value is not None}


def of_portfolio(question: Callable[..., None]) -> Callable[..., None]:
    """Let a command take what an account tracks as flags too, which it is handed as the mapping `tracked`."""
    shared = inspect.signature(portfolio_flags).parameters
    own = {name: one for name, one in inspect.signature(question).parameters.items() if name != "tracked"}

    @functools.wraps(question)
    def asked(**given: Any) -> None:
        flags = {name: given.pop(name) for name in shared}
        question(tracked=portfolio_flags(**flags), **given)

    parameters = [*own.values(), *shared.values()]
    vars(asked)["__signature__"] = inspect.Signature(
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    asked.__annotations__ = {one.name: one.annotation for one in parameters}
    return asked


@of_portfolio
def fit(
    tracked: dict[str, Any],
    scenario: ScenarioFile = None,
    account: AccountName = "",
    growth: Annotated[float, typer.Option(help="How many times as many domains to look at too.")] = 2.0,
    catalogue: Annotated[
        str | None,
        typer.Option(
            "--catalogue",
            metavar="CATALOGUE",
            help="A catalogue whose plans are asked about, in place of the policy's: a YAML file, or the "
            "name of a shipped one.",
        ),
    ] = None,
    policy: PolicyFile = None,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """Which plan fits, what it costs a month, and what breaks first as the portfolio grows.

    A row a plan: whether it fits now and grown, its price and what the work costs the provider, the use of
    each limit, what breaks first, at which size and from which day of the month, and which add-on helps.
    Starts that come together in one minute meet the rate limit too: how many are refused is said beside it.

    Examples:

    \b
      ranksim capacity fit --domains 30 --keywords 300 --pairings 4 --run-every 1d --growth 2
      ranksim capacity fit --scenario scenarios/agency-month.yaml
    """  # fmt: skip
    from ranksim.core.contract.located import Located
    from ranksim.core.contract.policy import read_catalogue
    from ranksim.planner.capacity.plan_fit import fit as fitted
    from ranksim.planner.capacity.portfolio import Portfolio

    check_results(out, plots)
    own, used = _own(scenario, account, policy, **tracked)
    load = Portfolio(**tracked).workload if own is None else own.load
    sold = None if catalogue is None else read_catalogue(Located("--catalogue", catalogue, {}), Path())
    answer = fitted(load, used, growth=growth, catalogue=sold)
    show(answer, json, out, plots)


@of_portfolio
def portfolio(
    tracked: dict[str, Any],
    plan: Annotated[
        str | None, typer.Option(help="The plan; of a scenario, the account's.", autocompletion=plan_names)
    ] = None,
    grow: Annotated[
        str, typer.Option(metavar="keywords|domains", help="What is to be as many as possible.")
    ] = "keywords",
    scenario: ScenarioFile = None,
    account: AccountName = "",
    policy: PolicyFile = None,
    out: Out = None,
    plots: Plots = True,
    json: Json = False,
) -> None:
    """The largest portfolio a plan carries: which limit binds first, and the headroom of the others.

    Example: ranksim capacity portfolio --plan agency --pairings 4 --geographies 3
    """
    from ranksim.planner.capacity.portfolio import Grown, Portfolio, largest

    check_results(out, plots)
    own, used = _own(scenario, account, policy, **tracked)
    named = own.plan.name if own is not None and plan is None else _wanted("plan", plan)
    sized = Portfolio(**tracked) if own is None else own.load
    answer = largest(sized, named, used, grow=cast("Grown", grow))
    show(answer if own is None else replace(answer, notes=own.load.notes), json, out, plots)


QUESTIONS: dict[str, tuple[Callable[..., None], str]] = {
    "slots": (slots, "How slots fill under churn, and the chance of a refusal by day."),
    "sync": (sync, "How long a sync takes under the write limit, and the best pace."),
    "workers": (workers, "How many workers a peak needs."),
    "outage": (outage, "What an outage of a receiver loses, doubles and disables."),
    "fit": (fit, "Which plan fits, for how much, and what breaks first."),
    "portfolio": (portfolio, "The largest portfolio a plan carries."),
}
"""Name of a command to its function and its short help."""


def _own(
    scenario: Path | None, account: str, policy: Path | None, *, simulate: bool = True, **done: Any
) -> "tuple[OwnAccount | None, Policy]":
    """Read the account that a question starts from, None where no scenario is given, and under which policy.

    Raises BadInput.
    """
    if scenario is None:
        if account:
            raise BadInput("--account: only a scenario has accounts; give one with --scenario FILE")
        return None, _policy(policy)
    from ranksim.planner.capacity.planned import own_account
    from ranksim.twin.sim.scenario import Scenario

    own = own_account(Scenario.load(scenario), account, simulate=simulate, **done)
    return own, own.policy if policy is None else _policy(policy)


def _wanted(flag: str, value: T | None) -> T:
    """Return what a flag says, or a scenario in its place. Raises BadInput where neither does."""
    if value is None:
        raise BadInput(f"--{flag}: expected it, or an account that says it, with --scenario FILE")
    return value


def _policy(path: Path | None) -> "Policy":
    from ranksim.core.contract.policy import Policy

    return Policy() if path is None else Policy.load(path)


def _read(read: Callable[[str], T], flag: str, text: str) -> T:
    """Read a flag's text. Raises BadInput saying what was wrong with it."""
    try:
        return read(text)
    except ValueError as error:
        raise BadInput(f"--{flag.replace('_', '-')}: {error}") from None


def _counts(flag: str, texts: Sequence[str]) -> dict[str, int]:
    """Read NAME=COUNT flags. Raises BadInput."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            raise BadInput(
                f"--{flag.replace('_', '-')}: expected NAME=COUNT such as crawl=40, found {text!r}"
            )
        if name in found:
            raise BadInput(f"--{flag.replace('_', '-')}: {name} is given twice; give one number of each")
        found[name] = int(number)
    return found


def _weights(text: str) -> tuple[float, ...]:
    """Read numbers with commas between them. Raises BadInput."""
    try:
        return tuple(float(weight) for weight in text.split(","))
    except ValueError:
        raise BadInput(f"--profile: expected weights such as 1,3,2,1, found {text!r}") from None


def _jobs(texts: Sequence[str]) -> Any:
    from ranksim.core.contract.facts import JobKind

    found = _counts("jobs", texts)
    for kind in found:
        if kind not in tuple(JobKind):
            raise BadInput(f"--jobs: no kind {kind!r}; expected one of {listed(JobKind, kind)}")
    return found
