"""`ranksim check load`: drive a deployment with Locust and record a trace, on the command line."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.core.clock import Micros
from ranksim.core.errors import BadInput, read_at
from ranksim.core.extras import missing
from ranksim.core.printable import LINES, printable
from ranksim.judge.load.cli_options import (
    DryRunOnly,
    Exclusive,
    Gzip,
    Host,
    Key,
    SpendCap,
    TargetFile,
    hold_key,
)
from ranksim.report.options import JsonNotSummary, Junit
from ranksim.report.progress import shares, show_progress
from ranksim.report.terminal import Styled, print_out, rendered

if TYPE_CHECKING:
    from ranksim.core.callers.target import Target
    from ranksim.judge.load.options import LoadOptions
    from ranksim.judge.load.summary import Summary
    from ranksim.judge.load.thresholds import Threshold
    from ranksim.judge.profiles import Profile
    from ranksim.judge.profiles.profile import Needs


def _profiles_from(incomplete: str) -> list[tuple[str, str]]:
    """The profiles that a shell completes a word to, with their aims."""
    from ranksim.judge.profiles import PROFILES

    return [(profile.name, profile.aim) for profile in PROFILES if profile.name.startswith(incomplete)]


ProfileName = Annotated[
    str, typer.Option(help="What to do; --profiles lists them.", autocompletion=_profiles_from)
]
ScenarioFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Play the clients of this scenario in place of a profile, for as long as it lasts.",
    ),
]
Clients = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Of the scenario's clients only this one; may be repeated."),
]
ListProfiles = Annotated[
    bool,
    typer.Option("--profiles", allow_from_autoenv=False, help="List the profiles with their aims, and stop."),
]
ListAllProfiles = Annotated[
    bool,
    typer.Option(
        "--all-profiles",
        allow_from_autoenv=False,
        help="List those of a check, too, and stop.",
    ),
]
Users = Annotated[int | None, typer.Option(min=1, help="How many users; the profile's own number without.")]
Duration = Annotated[
    str,
    typer.Option(
        metavar="LENGTH",
        help="How long the users go on, such as 90s or 10m; the profile's own length without.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write trace.jsonl and locust.log into this directory, which must hold no trace yet; "
        "a new one here without, such as load-burst-20260304T100000Z.",
    ),
]
Processes = Annotated[int, typer.Option(min=1, help="Worker processes that share the users.")]
Yes = Annotated[
    bool,
    typer.Option("--yes", help="Do not ask before making what cannot be removed again on other machines."),
]
Seed = Annotated[int | None, typer.Option(help="Seed of what the users draw.")]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="THRESHOLD",
        help="Exit with 1 unless this holds, such as 'p95 < 500ms', 'errors < 1 %' or 'p99 of domains.list < "
        "2s'; may be repeated.",
    ),
]

FAILED = 1


def load(
    host: Host = "",
    key: Key = "",
    target: TargetFile = None,
    profile: ProfileName = "everyday",
    scenario: ScenarioFile = None,
    client: Clients = None,
    profiles: ListProfiles = False,
    all_profiles: ListAllProfiles = False,
    users: Users = None,
    duration: Duration = "",
    out: Out = None,
    spend_cap: SpendCap = "",
    dry_run_only: DryRunOnly = False,
    exclusive: Exclusive = None,
    processes: Processes = 1,
    yes: Yes = False,
    seed: Seed = None,
    gzip: Gzip = False,
    fail_on: FailOn = None,
    junit: Junit = None,
    json: JsonNotSummary = False,
) -> None:
    """Drive a deployment with Locust, and record what was sent and answered as a trace.

    It finds out by itself what the key can exercise, reads the state before and after, receives webhooks
    where the deployment can reach this machine, and removes what it created. Ctrl-C ends the load early; the
    trace is complete all the same. Nobody else should use the account meanwhile, or say --shared.

    Examples:

    \b
      RANKSIM_KEY=... ranksim check load --host http://127.0.0.1:8080 --duration 60s
      ranksim check load --target deployment.yaml --users 40 --fail-on 'p95 < 500ms' --fail-on 'errors < 1 %'
      ranksim check load --host localhost:8080 --scenario shop.yaml --client nightly --duration 10m
    """  # fmt: skip
    from ranksim.core.files import check_outputs
    from ranksim.judge import profiles as declared
    from ranksim.judge.load.loading import OF_SCENARIO
    from ranksim.judge.load.options import LoadOptions, length_of
    from ranksim.judge.load.thresholds import Threshold

    if profiles or all_profiles:
        print_out(_listed(declared.PROFILES if all_profiles else declared.OF_LOADS))
        return
    check_locust()
    thresholds = [read_at("--fail-on", Threshold.parse, text) for text in fail_on or ()]
    check_outputs((junit,), (target, scenario))
    names, locustfile = tuple(client or ()), ""
    if names and scenario is None:
        raise BadInput("--client: expected --scenario FILE beside it, whose client it is")
    chosen = declared.profile(profile) if scenario is None else _of_scenario(scenario, names)
    if scenario is not None:
        locustfile = OF_SCENARIO.format(path=str(scenario.resolve()), clients=names)
    hold_key(host, key, target)
    options = LoadOptions.from_arguments(
        host, target or "", out or "", spend_cap, dry_run_only, exclusive, gzip, seed
    )
    length = length_of(duration, "--duration") if duration else chosen.duration
    trace = _run(options, chosen, locustfile, users or chosen.users, length, processes, yes)
    if trace is not None:
        _report(trace, options.target(), thresholds, junit, as_json=json)


def _of_scenario(path: Path, clients: tuple[str, ...]) -> "Profile":
    """Return the profile of a scenario's clients. Raises BadInput."""
    from ranksim.judge.profiles.scenario_clients import scenario_clients
    from ranksim.twin.sim.scenario import Scenario

    return scenario_clients(Scenario.load(path), clients)


def _run(
    options: "LoadOptions",
    chosen: "Profile",
    locustfile: str,
    users: int,
    length: Micros,
    processes: int,
    yes: bool,
) -> Path | None:
    """Load, and return the trace; None where somebody did not agree to what stays."""
    from ranksim.judge.load.loading import run_load
    from ranksim.judge.load.run import trace_path

    deployment = options.target()
    trace_path(options.directory(chosen.name), options.gzip)  # says at once where nothing can be written
    if not agreed(deployment, yes=yes):
        return None
    print(printable(before(chosen, deployment, users, length)), file=sys.stderr)
    with show_progress(f"loading, {chosen.name}") as tell:
        return run_load(
            options,
            profile=chosen.name,
            length=length,
            users=users,
            processes=processes,
            progress=shares(tell),
            locustfile=locustfile,
        )


def agreed(deployment: "Target", *, yes: bool) -> bool:
    """Say what cannot be removed again, and ask whether to go on where there is any. Raises BadInput."""
    from ranksim.judge.load.leaked_resources import kept_by, staying
    from ranksim.judge.load.options import is_local

    stays = [] if deployment.dry_run_only else staying(kept_by(deployment))
    asking = not (yes or is_local(deployment))
    if not stays:
        return True
    print(printable("\n".join(stays), LINES), file=sys.stderr)
    if asking and not sys.stdin.isatty():
        raise BadInput(
            "--yes: expected beyond this machine where something made stays and nobody can be asked"
        )
    return not asking or typer.confirm("Go on, and leave it there?", default=False, err=True)


def _listed(profiles: "tuple[Profile, ...]") -> Styled:
    """Return the profiles with how long they run, what going through once takes, and their aims."""
    from rich.text import Text

    from ranksim.core.callers.target import Target
    from ranksim.judge.report.run_summary import amounts
    from ranksim.report.tables import View
    from ranksim.report.units import duration as written

    nobody = Target.simple("http://127.0.0.1", "none")
    rows = []
    for profile in profiles:
        once = _once(profile, nobody, profile.users)
        used = amounts([_of_run(profile, once, profile.duration)]) or "nothing"
        rows.append((profile.name, profile.aim, used, written(profile.duration), written(once.length)))
    headings = ("profile", "aim", "uses up at most", "runs", "once through")
    return rendered([View("Load profiles", headings, 3, tuple(rows)), Text(), Text(PROFILES_SAY)])


PROFILES_SAY = (
    "Lengths and amounts are for the profile's own users and one key of a full account, where all is "
    "admitted. No deployment says before what a job costs: --spend-cap bounds the money, --dry-run-only "
    "spends none."
)


def _once(chosen: "Profile", deployment: "Target", users: int) -> "Needs":
    """What going through a profile once takes, with one key of an account that nothing is known of."""
    from ranksim.judge.deployment.discovery import KeyReach, Reach

    key = KeyReach("main", next(iter(deployment.environments)), "full", usable=True)
    return chosen.once(Reach(deployment, {"main": key}, "main"), users)


def _of_run(profile: "Profile", once: "Needs", length: Micros) -> "Needs":
    """What a run of a length takes, which goes through a profile again and again unless that ends."""
    return once.times(1 if profile.ends else max(1, -(-length // once.length)))


def before(chosen: "Profile", deployment: "Target", users: int, length: Micros) -> str:
    """Say how long a profile runs, how long it takes to go through it once, and what it may use up.

    Nothing was read there as yet, so amounts are for one key of an account that nothing is known of.
    """
    from ranksim.judge.report.run_summary import amounts
    from ranksim.report import units

    once = _once(chosen, deployment, users)
    used = amounts([_of_run(chosen, once, length)])
    spends = f"uses up at most {used}" if used else "spends nothing"
    unknown = chosen.needs is None  # a scenario's clients
    if unknown:
        spends = "uses up what its clients ask for, and what they track from the start"
    if (used or unknown) and deployment.dry_run_only:
        spends = "sends dry runs only"
    elif (used or unknown) and deployment.spend_cap is not None:
        spends += f", and stops spending at {units.usd(deployment.spend_cap)}"
    return (
        f"{chosen.name}: runs {units.duration(length)}, "
        + ("" if unknown else f"goes through once in about {units.duration(once.length)}, ")
        + spends
    )


def _report(
    trace: Path, deployment: "Target", thresholds: "list[Threshold]", junit: Path | None, *, as_json: bool
) -> None:
    """Print what a load found, its verdict last. Exits with 1 where a threshold does not hold."""
    from ranksim.core.files import write_file
    from ranksim.judge.load.leaked_resources import left_over, recorded_lines
    from ranksim.judge.load.summary import Summary
    from ranksim.judge.load.thresholds import verdict_lines
    from ranksim.judge.report.junit import junit_of_checks
    from ranksim.report.document import as_text, document

    summary = Summary.held_against(trace, thresholds, deployment.policy)
    if summary.left is None:
        summary.left = [asdict(part) for part in left_over(recorded_lines(trace.parent))]
    verdicts = summary.judged(thresholds)
    if junit is not None:
        cases = {each.metric: "" if each.holds else each.text for each in verdicts}
        write_file(junit, junit_of_checks("load", cases))
    lines = _lines(summary, trace, deployment)
    if as_json:
        answer, rows = "".join(verdict_lines(verdicts)[-1:]), {"operations": summary.rows()}
        result = document("load", "Load", answer=answer, notes=lines, expectations=verdicts, tables=rows)
        print_out(as_text(result))
    else:
        lines += verdict_lines(verdicts)
        print_out(rendered([summary.latencies()]))
        print_out("".join(f"{line}\n" for line in lines))
    if not all(each.holds for each in verdicts):
        raise typer.Exit(FAILED)


def _lines(summary: "Summary", trace: Path, deployment: "Target") -> list[str]:
    """Return what a load found, in lines, and what can be done next."""
    from ranksim.judge.report.run_summary import cap_passed

    words = ["ranksim", "compare", str(trace)]
    if deployment.policy is not None:
        words += ["--policy", deployment.policy]
    spent = [asdict(part) for part in summary.used_up.by_account()]
    lines = cap_passed(spent, deployment.spend_cap, exclusive=deployment.exclusive)
    lines += summary.lines()
    if summary.left:
        lines.append(f"`ranksim check tidy {trace.parent}` tries again, with the same address and keys")
    return [*lines, f"trace: {trace}", f"next: {shlex.join(words)}"]


def check_locust() -> None:
    """Raise BadInput where Locust is not installed."""
    from importlib.util import find_spec

    if find_spec("locust") is None:
        raise missing("loading needs locust", "load")
