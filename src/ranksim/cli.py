"""The command line: `ranksim run`, `init`, some of the reference, and where the others are wired in.

Every flag is an environment variable too, named by its command: RANKSIM_RUN_SEED is `ranksim run --seed`.

Exit codes: 0 done, 1 an expectation of the scenario failed, 2 bad input, 70 a fault of ranksim's own,
130 interrupted (Ctrl-C or SIGTERM), 141 the reader of a pipe went away.
"""

import shlex
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ranksim.bridges import check_cli as checking
from ranksim.bridges import load_capacity_cli as load_capacity
from ranksim.bridges import load_cli as loading
from ranksim.bridges import mirror_cli as mirroring
from ranksim.bridges import trace_import_cli as tracing
from ranksim.bridges import view_cli as viewing
from ranksim.core.errors import BadInput, listed
from ranksim.core.extras import install_line
from ranksim.judge.conformance import cli as judging
from ranksim.judge.conformance.calibrate import cli as calibrating
from ranksim.judge.limits import cli as limiting
from ranksim.judge.load import record_cli as recording
from ranksim.judge.load import tidy_cli as tidying
from ranksim.planner.capacity import cli as planning
from ranksim.planner.pricing import cli as pricing
from ranksim.planner.pricing import import_cli as importing
from ranksim.planner.study import cli as studying
from ranksim.report.command_line import (
    FAILED,
    Commands,
    add_commands,
    add_group,
    new_app,
    run_app,
    spoken,
)
from ranksim.report.options import (
    JsonNotTables,
    JsonNotText,
    Plots,
    SettingFlags,
    blaming_settings,
    read_settings,
)
from ranksim.report.progress import show_progress
from ranksim.report.terminal import check_results, plan_names, print_out, rendered, say, say_code
from ranksim.twin.facade.cli import BESIDE, add_serve
from ranksim.twin.facade.state_cli import state_commands
from ranksim.twin.sim.why import cli as asking
from ranksim.twin.testing.beginning import beginning_of, origin_of

if TYPE_CHECKING:
    from ranksim.twin.sim.results import Result
    from ranksim.twin.sim.scenario import Scenario

ORDER = (
    *("run", "why", "view", "study", "capacity", "price"),
    *("serve", "check", "compare", "limits", "trace", "mirror", "explain", "init"),
)
"""The commands as they are listed: simulate and plan, fake, judge, look up."""


class InOrder(TyperGroup):
    """The commands in `ORDER`, and those that are not listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names."""
        return [*ORDER, *(name for name in self.commands if name not in ORDER)]


app = new_app(InOrder)


def main() -> None:
    """Run the command line with the arguments of this process."""
    run_app(app)


Replications = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Independent runs to average, instead of the scenario's; from 2 on numbers have intervals.",
    ),
]
RunDirectory = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write result.json, scenario.json, tables/, plots/, page.html and trace.jsonl into this "
        "directory. It must be new, empty, or results of an earlier run, which are replaced.",
    ),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the calls and webhook deliveries of the first replication here, as JSON Lines "
        "(.gz packs).",
    ),
]
ArrivalsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="TRACE",
        help="Let the scenario's replaying clients send the calls of this trace instead of their own.",
    ),
]


RunPolicy = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The policy instead of the scenario's, with the assumptions and the catalogue that it states.",
    ),
]


@app.command("run", short_help="Simulate a scenario and print a summary.")
def run_command(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.yaml", help="The world to simulate.")],
    seed: Annotated[
        int | None, typer.Option(help="Seed of all randomness, instead of the scenario's.")
    ] = None,
    replications: Replications = None,
    workers: Annotated[
        int,
        typer.Option(min=1, help="Processes that share the replications; the result does not depend on it."),
    ] = 1,
    out: RunDirectory = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, not a summary.")] = False,
    trace: TraceFile = None,
    arrivals: ArrivalsFile = None,
    policy: RunPolicy = None,
    set: SettingFlags = None,
    plots: Plots = True,
    keep_trace: Annotated[
        bool, typer.Option("--keep-trace/--no-trace", help="Whether --out keeps a trace.")
    ] = True,
    assumptions: Annotated[
        bool,
        typer.Option(
            "--assumptions",
            help="Run it again under every other reading of each assumption that it reads, and tell which "
            "change what is found.",
        ),
    ] = False,
) -> None:
    """Simulate a scenario, check its expectations and print a summary.

    The same scenario and seed give the same result, byte for byte. Exit code 1 says that an expectation
    failed, 2 that the input is wrong.

    Examples:

    \b
      ranksim run scenarios/quickstart.yaml
      ranksim run scenarios/quickstart.yaml --replications 20 --out results
      ranksim run scenarios/quickstart.yaml --set scenario.plan=pro
    """  # fmt: skip
    with spoken():
        from ranksim.core.files import check_outputs, new_directory
        from ranksim.report.summary import summary
        from ranksim.twin.sim.result_heading import heading_of
        from ranksim.twin.sim.runner import run as simulate

        made = _scenario(scenario, arrivals, set, policy)
        check_results(out, plots, trace)
        check_outputs((trace,), (scenario, arrivals, policy))
        with ExitStack() as stack:
            folder = None if out is None else stack.enter_context(new_directory(out))
            recorder = _open_trace(stack, made, folder if keep_trace else None, trace)
            with show_progress("simulating") as tell:
                result = simulate(made, seed, replications, workers, recorder, tell, assumptions=assumptions)
            heading = heading_of(made, result, _command(scenario, result, arrivals, policy, set, assumptions))
            if folder is not None:
                result.write_into(folder, heading, plots)
        print_out(result.to_json() if json else rendered(summary(heading, result.tables)))
        if out is not None and not json:
            csv = f"; tables are CSV, since Parquet needs pyarrow: {install_line('plots')}"
            print_out(f"\nWritten to {out}{csv if any((out / 'tables').glob('*.csv')) else ''}\n")
        failed = [verdict.text for verdict in heading.verdicts if not verdict.holds]
        for text in failed:
            say(f"expectation failed: {text}")
        if failed:
            raise typer.Exit(FAILED)


def assumptions_command(
    numbers: Annotated[
        list[str] | None,
        typer.Argument(metavar="NUMBER|WORD", help="Only these, such as U1 or window; all without."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Show the values of this policy file.")
    ] = None,
    json: JsonNotText = False,
) -> None:
    """List what the specification leaves open: what is assumed, why, how sure, and how to observe it.

    Example: ranksim explain assumptions U1 U48
    """
    with spoken():
        from ranksim.core.contract.policy import Policy
        from ranksim.report import assumptions
        from ranksim.report.document import as_text, document

        values = Policy() if policy is None else Policy.load(policy)
        rows = [assumptions.row(assumption, values) for assumption in assumptions.select(numbers or ())]
        if json:
            title = f"What is assumed under the policy {values.name}"
            print_out(as_text(document("assumptions", title, tables={"assumptions": rows})))
        else:
            print_out(rendered([assumptions.render(row) for row in rows]))


def plans_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PLAN", help="Only these plans; all without.", autocompletion=plan_names),
    ] = None,
    catalogue: Annotated[
        str, typer.Option(metavar="FILE", help="A catalogue's YAML file, or the name of a shipped one.")
    ] = "illustrative",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the catalogue here, as YAML to be changed.")
    ] = None,
    json: JsonNotTables = False,
) -> None:
    """List what a catalogue sells: plans with their limits and prices, and add-ons; and what work costs.

    Examples:

    \b
      ranksim explain plans pro agency --catalogue illustrative-metered
      ranksim explain plans --out catalogue.yaml
    """  # fmt: skip
    with spoken():
        from ranksim.core.contract.located import Located
        from ranksim.core.contract.policy import read_catalogue
        from ranksim.core.files import check_outputs, write_file
        from ranksim.report import plans
        from ranksim.report.answer import printed
        from ranksim.report.document import as_text

        sold = read_catalogue(Located("--catalogue", catalogue, {}), Path())
        if names:
            for name in names:
                if name not in sold.plans:
                    raise BadInput(f"no plan {name!r}; expected one of {listed(sold.plans, name)}")
            sold = sold.model_copy(update={"plans": {name: sold.plans[name] for name in names}})
        if out is not None:
            check_outputs((out,), (Path(catalogue),))
            write_file(out, plans.as_yaml(sold))
        if json:
            print_out(as_text(plans.as_document(sold)))
        else:
            print_out(printed(plans.sentence(sold), (), plans.views(sold)))


def _kinds(incomplete: str) -> list[str]:
    from ranksim.schema import DOCUMENTS, FILES

    return [kind for kind in (*FILES, *DOCUMENTS) if kind.startswith(incomplete)]


def schema_command(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="One of scenario, policy, catalogue, population, study, target, trace, and result, which is "
            "what --json prints; or the document of an API: openapi, control (of the fake), graphql.",
            autocompletion=_kinds,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the schemas of all kinds here, as KIND.json; or a collection."
        ),
    ] = None,
    requests: Annotated[
        str,
        typer.Option(
            metavar="http|bruno",
            help="Instead of openapi or control: its requests, for editors or for Bruno.",
        ),
    ] = "",
) -> None:
    """Print the JSON Schema (draft 2020-12) of a kind of file, by which editors complete and check it.

    An editor with a YAML language server finds it by the first line of a file:
    “# yaml-language-server: $schema=schemas/scenario.json”.

    Examples:

    \b
      ranksim explain schema scenario > scenario.json
      ranksim explain schema --out schemas
      ranksim explain schema openapi > openapi.json
      ranksim explain schema openapi --requests http > ranksim.http
      ranksim explain schema openapi --requests bruno --out collection
    """  # fmt: skip
    with spoken():
        from ranksim.schema import DOCUMENTS, FILES, as_text, requests_of, schema, write_schemas

        if requests:
            print_out(requests_of(kind or "", requests, out))
            return
        if (kind is None) == (out is None):
            kinds = ", ".join((*FILES, *DOCUMENTS))
            raise BadInput(f"schema: expected a kind ({kinds}), or --out for all files")
        if kind is not None:
            print_out(DOCUMENTS[kind]() if kind in DOCUMENTS else as_text(schema(kind)))
        if out is not None:
            write_schemas(out)
            print_out(f"Written to {out}\n")


def init_command(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where; files that are there are never replaced.")
    ] = Path(),
    check: Annotated[
        bool, typer.Option("--check", help="Instead, a target file and a CI job that checks it every night.")
    ] = False,
) -> None:
    """Write a starting scenario, tests, what a CI runs, and schemas for editors.

    Example: ranksim init my-project
    """
    with spoken():
        from ranksim.project import begin_check, begin_project

        print_out(begin_check(folder) if check else begin_project(folder))


# Running


def _scenario(
    path: Path, arrivals: Path | None, settings: list[str] | None, policy: Path | None = None
) -> "Scenario":
    from ranksim.core.contract.policy import Policy
    from ranksim.twin.sim.scenario import Scenario, client_functions

    scenario = Scenario.load(path)
    if policy is not None:
        scenario = scenario.model_copy(update={"policy": Policy.load(policy)})
        try:
            scenario.check()
        except BadInput as error:
            raise BadInput(f"--policy {policy}: {error}") from None
    with blaming_settings():
        scenario = scenario.changed(read_settings(settings, scenario.roots), path.parent)
    say_code(path, client_functions(scenario))
    return scenario if arrivals is None else _with_arrivals(scenario, arrivals)


def _with_arrivals(scenario: "Scenario", trace: Path) -> "Scenario":
    """The scenario with a trace as the source of its one replaying client. Raises BadInput."""
    from ranksim.core.callers.programs.call_streams import Arrivals, Source
    from ranksim.core.trace import entries

    replaying = {name: client for name, client in scenario.clients.items() if isinstance(client, Arrivals)}
    if len(replaying) != 1:
        raise BadInput(
            f"--arrivals: {scenario.name} has {len(replaying)} clients of kind arrivals; "
            "expected one, which takes the place of its source"
        )
    next(entries(trace))  # a file that is no trace is refused now, not in the middle of the run
    ((name, client),) = replaying.items()
    client = client.model_copy(update={"source": Source(trace=str(trace))})
    return scenario.model_copy(update={"clients": {**scenario.clients, name: client}})


def _open_trace(stack: ExitStack, scenario: "Scenario", folder: Path | None, file: Path | None) -> Any:
    """The writer of the trace: into its own file when one is named, else beside the other results."""
    if folder is not None:
        file = file or folder / "trace.jsonl"
    if file is None:
        return None
    from ranksim.core.trace_writer import TraceWriter

    return stack.enter_context(TraceWriter(file, started=scenario.start))


# Reporting


def _command(
    scenario: Path,
    result: "Result",
    arrivals: Path | None,
    policy: Path | None,
    settings: list[str] | None,
    assumptions: bool,
) -> str:
    """The command that repeats the run."""
    words = ["ranksim", "run", str(scenario), "--seed", str(result.seed)]
    words += ["--replications", str(len(result.replications))]
    if arrivals is not None:
        words += ["--arrivals", str(arrivals)]
    if policy is not None:
        words += ["--policy", str(policy)]
    for setting in settings or ():
        words += ["--set", setting]
    words += ["--assumptions"] if assumptions else []
    return shlex.join(words)


# Commands that live with their drivers


class ById(TyperGroup):
    """A group that takes what is none of its commands for ids."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the command that explains ids where none is named."""
        if args and args[0] not in {*self.commands, "-h", "--help", "--help-all"}:
            args = ["id", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete commands, and ids."""
        ids = self.commands["id"].params[0].shell_complete(ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *ids]


REFERENCE: Commands = {
    "id": (judging.explain, "Tell what an id in a report means."),
    "assumptions": (assumptions_command, "List what the specification leaves open."),
    "plans": (plans_command, "List the plans of a catalogue."),
    "schema": (schema_command, "Print the JSON Schema of a kind of file."),
}
TRACE: Commands = {
    "show": (judging.show, "Print exchanges whole."),
    "import": (tracing.import_trace, "Make a trace of HAR files or access logs."),
    "record": (recording.record, "Pass an application's calls on, and write them down."),
    "calibrate": (calibrating.calibrate, "Find out which options a deployment takes."),
}
CHECK: Commands = {
    "load": (loading.load, "Drive a deployment and record a trace."),
    "tidy": (tidying.tidy, "Remove what earlier checks and loads created."),
}
COLUMNS: Commands = {"import": (importing.import_recording, "Make columns of recorded calls.")}

add_commands(
    app,
    {
        "why": (asking.why, "Tell when something became inevitable."),
        "view": (viewing.view, "Show a run in a browser."),
        "study": (studying.study, "Run a study: many runs compared."),
    },
)
add_group(
    app,
    "capacity",
    "Answer a question of capacity planning.",
    {**planning.QUESTIONS, **load_capacity.QUESTIONS},
)
add_group(app, "price", "Answer a question of pricing.", {**pricing.QUESTIONS, **COLUMNS})
add_serve(app, partial(beginning_of, tell=say), origin_of)
add_group(app, "check", "Check a deployment in one command: plan, run, judge.", CHECK, alone=checking.check)
add_commands(app, {"compare": (judging.compare, "Judge a recorded trace, rule by rule.")})
add_group(app, "trace", "Look into a trace, or make one of what other tools recorded.", TRACE)
add_commands(app, {"limits": (limiting.limits_command, "Test any API's rate limit: does it hold, and how?")})
add_commands(app, {"mirror": (mirroring.mirror, "Make a twin of your account, by reading.")})
add_group(app, "explain", "Tell what an id means; list assumptions, plans, schemas.", REFERENCE, group=ById)
app.command("init", short_help="Begin a project: a scenario, tests, CI.")(init_command)

FORMER = {
    "assumptions": "explain assumptions",
    "plans": "explain plans",
    "schema": "explain schema",
    "calibrate": "trace calibrate",
    "load": "check load",
    "tidy": "check tidy",
    "import": "price import",
    "trigger": "serve trigger",
    "resend": "serve resend",
    "receive": "serve receive",
}
"""The present name of each command by its former one, under which it stays for a version, unlisted."""

app.command("record", short_help="As `ranksim trace record`.", hidden=True)(spoken()(recording.record))
EVERY = {**REFERENCE, **TRACE, **CHECK, **BESIDE, **COLUMNS}
add_commands(app, {name: EVERY[name] for name in FORMER}, FORMER)
add_group(app, "state", "As `ranksim serve state`.", state_commands(beginning_of, origin_of), hidden=True)
