"""How long a sync of keywords takes under the rate limits, and the best pace."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.planner.capacity.command import PolicyFile, ScenarioFile, notes_of_time, own_of, wanted
from ranksim.planner.question import AccountName

if TYPE_CHECKING:
    from ranksim.planner.capacity.sync import SyncTime


def sync(
    keywords: Annotated[
        int | None,
        typer.Option(
            help="Keywords to add; of a scenario, those that its keyword sync adds on an occasion, and "
            "without one those that it tracks."
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Keywords in each request.  [default: the keyword sync's, or 100]")
    ] = None,
    lists: Annotated[
        int,
        typer.Option(
            help="Keyword lists that they are dealt over, as a request is for one; of a scenario, its own."
        ),
    ] = 1,
    removals: Annotated[
        int | None,
        typer.Option(
            help="Keywords to remove, a request each; of a scenario, those that its keyword sync removes "
            "on an occasion."
        ),
    ] = None,
    latency: Annotated[str, typer.Option(help="How long a reply takes.")] = "0s",
    others: Annotated[int, typer.Option(help="Writes per window of other clients with the same key.")] = 0,
    scenario: ScenarioFile = None,
    account: AccountName = "",
    policy: PolicyFile = None,
) -> "SyncTime":
    """How long it takes to add and remove keywords under the rate limits, and how best to pace it.

    Worked out call by call under each of the five algorithms that a rate window may be (U1).

    Example: ranksim capacity sync --keywords 30000 --batch 100 --others 60
    """
    from ranksim.planner.capacity.common import expect, micros
    from ranksim.planner.capacity.own_sync import occasion_of, slots_to_come
    from ranksim.planner.capacity.sync import Sync, dealt, sync_time
    from ranksim.planner.capacity.tracked import tracked_words
    from ranksim.twin.sim.scenario_fields import scenario_notes

    own, used = own_of(scenario, account, policy, simulate=False)
    expect(lists >= 1, "--lists", "1 or more", lists)
    waited, occasion = micros("--latency", latency), None
    if own is not None and keywords is None and removals is None:
        occasion = occasion_of(own, batch, waited, others)
    if occasion is not None:
        answer = sync_time(occasion.sync, used)
    else:
        if own is not None and keywords is None:
            keywords, each = tracked_words(own.parts), own.lists
        else:
            each = dealt(wanted("keywords", keywords), lists)
        batch = 100 if batch is None else batch
        answer = sync_time(
            Sync(wanted("keywords", keywords), batch, removals or 0, waited, others, each), used
        )
    if own is None:
        return answer
    whose = () if occasion is None else (occasion.sentence,)
    room = own.room_for_words(slots_to_come(own))
    notes = (*own.left_out_notes, *notes_of_time(own), *scenario_notes(own.scenario))
    return replace(answer, remarks=(*whose, room, *notes))
