"""What an outage of a receiver loses, doubles and disables."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ranksim.core.errors import BadInput
from ranksim.planner.capacity.command import PolicyFile, ScenarioFile, notes_of_time, own_of, wanted
from ranksim.planner.question import AccountName, Seed
from ranksim.report.progress import show_progress

if TYPE_CHECKING:
    from ranksim.planner.capacity.outage import OutageCost


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
    replications: Annotated[
        int | None,
        typer.Option(help="Outages to simulate beside it, with --every; 0 for none.  [default: 100]"),
    ] = None,
    scenario: ScenarioFile = None,
    account: AccountName = "",
    seed: Seed = 1,
    policy: PolicyFile = None,
) -> "OutageCost":
    """What an outage of a webhook receiver loses, doubles and disables.

    The events of a scenario are those of its own jobs, when they end: one run of it is followed.

    Examples:

    \b
      ranksim capacity outage --length 3h --every 45m --replications 200
      ranksim capacity outage --length 3h --scenario scenarios/agency-month.yaml --at 2d1h
    """
    from ranksim.planner.capacity.common import micros
    from ranksim.planner.capacity.outage import Failure, Law, Outage, outage_cost
    from ranksim.planner.capacity.outage_world import scenario_outage, simulate_outage

    lasts, fails = micros("--length", length), cast("Failure", failure)
    file = scenario if every is None else None
    _check_flags(file is not None, at, together, law, replications)
    with show_progress("simulating") as tell:
        if file is not None:
            return scenario_outage(
                file, lasts, account=account, at=at, failure=fails, policy=policy, seed=seed, progress=tell
            )
        own, used = own_of(scenario, account, policy, simulate=False)
        gap, when = micros("--every", wanted("every", every)), cast("Law", law or "poisson")
        met = Outage(lasts, gap, together or 1, when, fails)
        number = 100 if replications is None else replications
        if not number:
            answer = outage_cost(met, used)
        else:
            answer = simulate_outage(met, used, replications=number, seed=seed, progress=tell)
        return replace(answer, assumed=notes_of_time(own))


def _check_flags(
    is_own: bool, at: str | None, together: int | None, law: str | None, replications: int | None
) -> None:
    """Raise BadInput for flags about events of its own that a scenario does not need, or that want one."""
    if is_own and (together is not None or law is not None):
        raise BadInput("--together, --law: a scenario says when its events come; give --every with them")
    if is_own and replications is not None:
        raise BadInput(
            "--replications: one run of a scenario is followed, through many outages or the one of --at; "
            "leave it out, or give --every with it"
        )
    if not is_own and at is not None:
        raise BadInput("--at: only a scenario has moments; give one with --scenario FILE, without --every")
