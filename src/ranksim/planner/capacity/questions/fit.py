"""Which plan fits, for how much, and what breaks first."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ranksim.planner.capacity.command import PolicyFile, ScenarioFile, own_of
from ranksim.planner.question import AccountName

if TYPE_CHECKING:
    from ranksim.planner.capacity.fit_answer import Fit


def fit(
    tracked: dict[str, Any],
    scenario: ScenarioFile = None,
    account: AccountName = "",
    growth: Annotated[
        str,
        typer.Option(
            metavar="FACTOR|RATE|SERIES",
            help="How many times as many domains to look at too: 2; or a growth in time, which tells until "
            "when each plan fits: '×2 / year', '5 % / month for 2 years', or factors by month, 1,1.2,1.5.",
        ),
    ] = "2",
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
) -> "Fit":
    """Which plan fits, what it costs a month, and what breaks first as the portfolio grows.

    A row a plan: whether it fits now and grown, its price and what the work costs the provider, the use of
    each limit, what breaks first, at which size and from which day of the month, and which add-on helps.
    Starts that come together in one minute meet the rate limit too: how many are refused is said beside it.

    Examples:

    \b
      ranksim capacity fit --domains 30 --keywords 300 --pairings 4 --run-every 1d --growth 2
      ranksim capacity fit --scenario scenarios/agency-month.yaml
      ranksim capacity fit --scenario scenarios/agency-month.yaml --growth '×2 / year'
    """  # fmt: skip
    from ranksim.core.contract.located import Located
    from ranksim.core.contract.policy import read_catalogue
    from ranksim.planner.capacity.growth import growth_of
    from ranksim.planner.capacity.plan_fit import fit as fitted
    from ranksim.planner.capacity.portfolio import Portfolio

    _, path = growth_of(growth)
    own, used = own_of(scenario, account, policy, months=max(1, len(path)), **tracked)
    load = Portfolio(**tracked) if own is None else own.under
    sold = None if catalogue is None else read_catalogue(Located("--catalogue", catalogue, {}), Path())
    return fitted(load, used, growth=growth, catalogue=sold)
