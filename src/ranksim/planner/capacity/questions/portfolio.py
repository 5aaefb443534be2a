"""The largest portfolio a plan carries."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ranksim.planner.capacity.command import PolicyFile, ScenarioFile, own_of, wanted
from ranksim.planner.question import AccountName
from ranksim.report.terminal import plan_names

if TYPE_CHECKING:
    from ranksim.planner.capacity.largest import Largest


def portfolio(
    tracked: dict[str, Any],
    plan: Annotated[
        str | None,
        typer.Option(
            help="The plan; of a scenario, that which the account has at each time.",
            autocompletion=plan_names,
        ),
    ] = None,
    grow: Annotated[
        str, typer.Option(metavar="keywords|domains", help="What is to be as many as possible.")
    ] = "keywords",
    scenario: ScenarioFile = None,
    account: AccountName = "",
    policy: PolicyFile = None,
) -> "Largest":
    """The largest portfolio a plan carries: which limit binds first, and the headroom of the others.

    Example: ranksim capacity portfolio --plan agency --pairings 4 --geographies 3
    """
    from ranksim.planner.capacity.largest import Grown, largest
    from ranksim.planner.capacity.portfolio import Portfolio

    own, used = own_of(scenario, account, policy, **tracked)
    named = wanted("plan", plan) if own is None else plan
    return largest(own or Portfolio(**tracked), named or "", used, grow=cast("Grown", grow))
