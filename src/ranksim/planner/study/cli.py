"""`ranksim study`: many runs compared, on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.report.options import Plots, ResultsDirectory, SettingFlags, read_settings
from ranksim.report.progress import show_progress
from ranksim.report.terminal import again, check_results, print_out, say, say_code

if TYPE_CHECKING:
    from ranksim.planner.study.results import StudyResult
    from ranksim.planner.study.study import Study

FAILED, INTERRUPTED = 1, 130


def study(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="The study to run.")],
    replications: Annotated[
        int | None,
        typer.Option(min=1, help="Replications of each point, instead of the file's and of its precision."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that share the work; the result does not depend on it.")
    ] = 1,
    scheduler: Annotated[
        str,
        typer.Option(metavar="tcp://HOST:PORT", help="Run on the Dask cluster of this scheduler instead."),
    ] = "",
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep every replication in this file (SQLite) as it finishes, and go on from it; "
            "NAME.study.sqlite in the working directory, unless given.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Run again what failed earlier, instead of reporting it again."),
    ] = False,
    set: SettingFlags = None,
    out: ResultsDirectory = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, not tables.")] = False,
    plots: Plots = True,
) -> None:
    """Run a study: compare variants, sweep parameters, seek a goal, measure sensitivity.

    What is finished is kept: a study that was stopped goes on where it was, and replications can be added
    later. Exit code 1 says that a point failed or a goal was not decided, 2 that the input is wrong or the
    goal cannot be reached.

    Examples:

    \b
      ranksim study examples/studies/workers.yaml --workers 2
      ranksim study examples/studies/ceiling.yaml --replications 50 --out results
    """  # fmt: skip
    from ranksim.planner.study.engines import Worlds
    from ranksim.planner.study.goal import short_budget
    from ranksim.planner.study.study import Study
    from ranksim.twin.sim.scenario import client_functions

    made = Study.load(file)
    if set:
        made = made.changed(read_settings(set, made.engine.roots()))
    if replications is not None:
        made = made.with_replications(replications)
    kept = store or Path(f"{file.stem}.study.sqlite")
    check_results(out, plots, kept)
    if isinstance(made.engine, Worlds):
        say_code(file, client_functions(made.engine.scenario))
    if short := short_budget(made):
        say(short)
    result = _run(made, kept, workers, scheduler, retry_failed)
    _give(result, kept, out, plots, json, again(context, "study"))


def _run(study: "Study", kept: Path, workers: int, scheduler: str, retry_failed: bool) -> "StudyResult":
    try:
        with show_progress("studying") as tell:
            return study.run(
                workers=workers, scheduler=scheduler or None, store=kept, retry_failed=retry_failed,
                progress=tell,
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"interrupted; what is finished is kept in {kept}")
        raise typer.Exit(INTERRUPTED) from None


def _give(result: "StudyResult", kept: Path, out: Path | None, plots: bool, json: bool, command: str) -> None:
    """Print a result, and write it where a flag says; raise Exit where something failed or was not found."""
    if out is not None:
        result.save(out, plots, result.basis(command))
    print_out(result.to_json() if json else result.summary())
    if not json:
        print_out(f"\nKept in {kept}\n" + (f"Written to {out}\n" if out is not None else ""))
    if problems := _problems(result):
        say("\n".join(problems))
        raise typer.Exit(FAILED)


def _problems(result: "StudyResult") -> list[str]:
    """What makes the exit code tell that not all went well, a line each."""
    texts = []
    if failures := result.failures:
        points = list(dict.fromkeys(row["point"] for row in failures))
        others = f" (and {len(points) - 1} more points)" if len(points) > 1 else ""
        texts.append(f"point {points[0]} failed{others}: {failures[0]['reason']}")
    for row in result.tables["goals"]:
        if row["status"] != "found":
            texts.append(f"goal {row['status']} at {row['point']}: {row['text']}")
    return texts
