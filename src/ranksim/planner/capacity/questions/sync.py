"""How long a sync takes under the write limit, and the best pace."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.planner.capacity.command import PolicyFile, ScenarioFile, own_of, wanted
from ranksim.planner.question import AccountName

if TYPE_CHECKING:
    from ranksim.planner.capacity.sync import SyncTime


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
) -> "SyncTime":
    """How long it takes to send keywords under the write limit, and how best to pace it.

    Worked out call by call under each of the five algorithms that a rate window may be (U1).

    Example: ranksim capacity sync --keywords 30000 --batch 100 --others 60
    """
    from ranksim.planner.capacity.common import expect, micros
    from ranksim.planner.capacity.sync import Sync, dealt, sync_time
    from ranksim.twin.sim.scenario_fields import scenario_notes

    own, used = own_of(scenario, account, policy, simulate=False)
    expect(lists >= 1, "--lists", "1 or more", lists)
    if keywords is None and own is not None:
        keywords, each = own.load.keywords, own.lists
    else:
        each = dealt(wanted("keywords", keywords), lists)
    waited = micros("--latency", latency)
    sent = Sync(wanted("keywords", keywords), batch, removals, waited, others, each)
    answer = sync_time(sent, used)
    return (
        answer
        if own is None
        else replace(answer, remarks=(own.room_for_words(), *scenario_notes(own.scenario)))
    )
