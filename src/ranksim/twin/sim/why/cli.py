"""`ranksim why`: when something became inevitable in a run, and what would have prevented it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.core.errors import BadInput
from ranksim.report.options import (
    JsonNotText,
    Plots,
    ResultsDirectory,
    SettingFlags,
    blaming_settings,
    read_settings,
)
from ranksim.report.progress import show_progress
from ranksim.report.terminal import again, say_code

if TYPE_CHECKING:
    from ranksim.twin.sim.scenario import Scenario


def _metrics(context: typer.Context, incomplete: str) -> list[str]:
    """The metrics that a shell completes a word to: those of the run before it, else those of every run."""
    from ranksim.twin.sim.metrics import always, metrics_named

    try:
        scenario = _read(Path(context.params["run"]), None)[0]
        own = list(metrics_named(scenario.accounts, scenario.clients, scenario.receivers))
    except (BadInput, KeyError, TypeError):
        own = []
    return sorted(name for name in (*always(), *own) if name.startswith(incomplete))


def why(
    context: typer.Context,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A directory of `ranksim run --out`, or a scenario file.")
    ],
    metric: Annotated[
        str,
        typer.Argument(
            metavar="METRIC",
            help="What to ask about: refusals.CODE, or 'jobs.rank_run.wait.max > 10m'.",
            autocompletion=_metrics,
        ),
    ],
    futures: Annotated[
        int,
        typer.Option(
            min=1,
            help="Other futures of a moment, and other worlds of a change, to try; half, but 10 at least, "
            "where these agree.",
        ),
    ] = 20,
    max_worlds: Annotated[
        int | None,
        typer.Option(min=1, help="Run about so many worlds at most; the answer says what was not tried."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of a scenario file's run; its own if not given.")
    ] = None,
    set: SettingFlags = None,
    out: ResultsDirectory = None,
    plots: Plots = True,
    json: JsonNotText = False,
) -> None:
    """When it became inevitable in a run, and the smallest change of one parameter that prevents it.

    Other futures of the run show how likely it was from each moment on, as things stood then; a run with the
    change confirms it. A scenario file, or a directory with --set, is run first.

    Examples:

    \b
      ranksim why results refusals.slot_limit_exceeded
      ranksim why scenarios/agency-month.yaml refusals.slot_limit_exceeded
    """  # fmt: skip
    from ranksim.report.answer import show_answer
    from ranksim.report.assumptions import Basis
    from ranksim.twin.sim.why.answer import why as explain

    scenario, seeds = _read(run, seed, set)
    with show_progress("asking why") as tell:
        answer = explain(scenario, seeds, metric, futures, tell, max_worlds)
    show_answer(answer, json, out, plots, Basis(command=again(context, "why")))


def _read(run: Path, seed: int | None, settings: list[str] | None = None) -> "tuple[Scenario, list[int]]":
    """The scenario of a directory or a file, with what is set, and the seeds of its runs. Raises BadInput."""
    from ranksim.twin.sim.runner import replication_seed
    from ranksim.twin.sim.scenario import Scenario, client_functions
    from ranksim.twin.sim.why.saved import saved_run

    scenario, seeds = saved_run(run) if run.is_dir() else (Scenario.load(run), [])
    drawn = (scenario.seed, scenario.replications)
    with blaming_settings():
        scenario = scenario.changed(read_settings(settings, scenario.roots), run.parent)
    if run.is_dir():
        if drawn != (scenario.seed, scenario.replications):
            raise BadInput(f"--set: {run} has the seeds of its own run; give a scenario's file to set others")
        return scenario, seeds
    say_code(run, client_functions(scenario))
    root = scenario.seed if seed is None else seed
    return scenario, [replication_seed(root, index) for index in range(scenario.replications)]
