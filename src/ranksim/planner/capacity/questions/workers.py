"""How many workers a peak needs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ranksim.core.errors import BadInput, listed
from ranksim.planner.capacity.command import PolicyFile, ScenarioFile, counts, notes_of_time, own_of, wanted
from ranksim.planner.question import AccountName, Seed
from ranksim.report.progress import show_progress

if TYPE_CHECKING:
    from ranksim.planner.capacity.workers import WorkersNeeded
    from ranksim.twin.sim.scenario import Scenario


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
    assumptions: Annotated[
        bool,
        typer.Option(
            "--assumptions",
            help="Run the scenario under every other reading of the assumptions that it reads, too.",
        ),
    ] = False,
    seed: Seed = 1,
    policy: PolicyFile = None,
) -> "WorkersNeeded":
    """How many workers a peak needs so that its jobs start in time.

    By formula (M/M/c with corrections), and by simulation with 95 % confidence. Jobs take as long as the
    policy's catalogue says, or the pools of a scenario, whose own jobs are simulated when they start.

    Example: ranksim capacity workers --jobs rank_run=600 --jobs crawl=40 --over 1h
    """
    from ranksim.planner.capacity.common import expect, micros
    from ranksim.planner.capacity.workers import peaks_of, workers_needed
    from ranksim.planner.capacity.workers_world import workers_of_scenario
    from ranksim.twin.sim.scenario import scenario_of

    patience = micros("--within", within)
    world = None if scenario is None else scenario_of(scenario)
    with show_progress("simulating peaks") as tell:
        if world is not None and world.clients and not jobs and over is None:
            _refuse_one_of(world, account)
            return workers_of_scenario(
                world if policy is None else world.replace(policy=policy),
                within=patience, target=target, replications=replications, seed=seed,
                assumptions=assumptions, progress=tell,
            )  # fmt: skip
        expect(not assumptions, "--assumptions", "a scenario whose own jobs are simulated", "a peak")
        own, used = own_of(scenario, account, policy, simulate=False)
        notes = notes_of_time(own)
        if own is not None and not jobs:  # they come at once, as `fit` takes what nobody says
            over, notes = over or "0s", own.notes
        started = _jobs(jobs) if jobs else None if own is None else own.jobs()
        spread = micros("--over", over or "1h")
        pools = {} if world is None else world.pools
        peaks = peaks_of(wanted("jobs", started), used, spread, _weights(profile), pools)
        answer = workers_needed(
            peaks, within=patience, target=target, replications=replications, seed=seed, progress=tell
        )
    return replace(answer, remarks=(*answer.remarks, *notes))


def _refuse_one_of(world: "Scenario", account: str) -> None:
    """Raise BadInput where one of several accounts is named."""
    if account and len(world.accounts) > 1:
        raise BadInput(
            "--account: workers serve all accounts of a scenario; leave it out, or say with --jobs "
            "and --over which jobs come together"
        )


def _weights(text: str) -> tuple[float, ...]:
    """Read numbers with commas between them. Raises BadInput."""
    try:
        return tuple(float(weight) for weight in text.split(","))
    except ValueError:
        raise BadInput(f"--profile: expected weights such as 1,3,2,1, found {text!r}") from None


def _jobs(texts: Sequence[str]) -> Any:
    from ranksim.core.contract.facts import JobKind

    jobs = counts("--jobs", texts)
    for kind in jobs:
        if kind not in tuple(JobKind):
            raise BadInput(f"--jobs: no kind {kind!r}; expected one of {listed(JobKind, kind)}")
    return jobs
