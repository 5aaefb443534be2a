"""How slots fill under churn, and the chance of a refusal by day."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ranksim.planner.capacity.command import PolicyFile, ScenarioFile, notes_of_time, own_of, wanted
from ranksim.planner.question import AccountName, Seed
from ranksim.report.progress import show_progress
from ranksim.report.terminal import plan_names

if TYPE_CHECKING:
    from ranksim.planner.capacity.planned import OwnAccount
    from ranksim.planner.capacity.slots import SlotUse


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
) -> "SlotUse":
    """How slots fill under churn, and the chance of slot_limit_exceeded by each day.

    What is removed stays counted to the end of the billing month, so only fresh keywords matter until then.
    A scenario begins in the midst of a billing month, with what is held to its end, and what its keyword
    syncs add comes beside --adds.

    Examples:

    \b
      ranksim capacity slots --keywords 1000 --pairings 2 --geographies 2 --adds 10 --removals 10
      ranksim capacity slots --scenario twin/world.yaml --adds 10
    """
    from ranksim.core.clock import DAY
    from ranksim.planner.capacity.common import moment, plan_named
    from ranksim.planner.capacity.own_sync import slot_changes
    from ranksim.planner.capacity.slots import Churn, Law, SlotChange, day_of_month, slot_use
    from ranksim.planner.capacity.slots_world import simulate_slot_use
    from ranksim.planner.capacity.workload import MONTH
    from ranksim.twin.sim.scenario_fields import scenario_notes

    own, used = own_of(scenario, account, policy, simulate=False)
    begin, anchor, held = moment("--start", start or "2026-03-01"), None, 0
    if own is not None and start is None:
        begin, anchor, held = own.now, own.anchor, own.held
    notes, others, beside = tuple[str, ...](), list[SlotChange](), 0
    if own is not None:
        first, _ = day_of_month(begin, anchor)
        others = list(slot_changes(own, max(first, own.now), first + days * DAY + MONTH))
        plan = plan or own.plan.name
        keywords, beside, pairings, geographies, notes = _tracked(own, keywords, pairings, geographies)
        notes += (*own.left_out_notes, *notes_of_time(own), *scenario_notes(own.scenario))
    words = wanted("keywords", keywords)
    churn = Churn(words, pairings or 1, geographies or 1, adds, removals, cast("Law", law), held, beside)
    most = plan_named(used, plan or "pro").slot_limit if limit is None else limit
    if not replications:
        exact = slot_use(churn, most, start=begin, days=days, anchor=anchor, others=others)
        return replace(exact, notes=notes)
    with show_progress("simulating") as tell:
        answer = simulate_slot_use(
            churn, most, start=begin, days=days, policy=used, replications=replications, seed=seed,
            anchor=anchor, others=others, progress=tell,
        )  # fmt: skip
    return replace(answer, notes=notes)


def _tracked(
    own: "OwnAccount", keywords: int | None, pairings: int | None, geographies: int | None
) -> tuple[int, int, int, int, tuple[str, ...]]:
    """Return what an account tracks, where flags do not say it, and notes on that.

    That is in words of one size, and what its slots are more than those of such words.
    """
    from ranksim.planner.capacity.own_sync import slots_to_come
    from ranksim.planner.capacity.tracked import tracked_slots

    notes: tuple[str, ...] = ()
    if pairings is None and geographies is None:
        pairings, geographies = max(1, own.load.each), 1
        notes = (own.room_for_words(slots_to_come(own)),)
        if len(own.sizes) > 1:
            notes = (f"Added words are taken to have {pairings} slots each. {notes[0]}",)
    each = (pairings or 1) * (geographies or 1)
    words, beside = divmod(tracked_slots(own.parts), each) if keywords is None else (keywords, 0)
    return words, beside, pairings or 1, geographies or 1, notes
