"""`ranksim mirror`: a twin of your own account, by reading alone."""

from pathlib import Path
from typing import Annotated

import typer

from ranksim.report.terminal import print_out


def mirror(
    host: Annotated[str, typer.Option(metavar="URL", help="The base URL, without the /v1.")] = "",
    target: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A target file with several keys, instead of --host.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A trace of calls to it: the twin's clients call as these did. Without a host or a target "
            "the accounts are as the trace shows them.",
        ),
    ] = None,
    plan: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --trace alone: the plan of accounts that it does not show, of --catalogue.",
        ),
    ] = "",
    catalogue: Annotated[
        str,
        typer.Option(
            "--catalogue",
            metavar="CATALOGUE",
            help="What --plan is of: a YAML file, or the name of a shipped one.",
        ),
    ] = "illustrative",
    domains: Annotated[
        int | None,
        typer.Option(min=1, help="With --plan: domains of an account; by default as many as calls name."),
    ] = None,
    keywords: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="With --plan: keywords of a domain of which calls do not list all; by default as many as "
            "calls put in, else 50.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Write world.yaml, policy.yaml, catalogue.yaml and world.db here."),
    ] = Path("twin"),
) -> None:
    """Write what the keys may read as a world: plans and limits, what is tracked, what is used so far.

    It reads and sends nothing else. What the API does not show is said in notes, and stands in the files.
    How long jobs take, how receivers answer and who starts what when is fitted to what there is to see.
    What is stated by --plan, --domains and --keywords stays marked as made up in all answers.

    Examples:

    \b
      RANKSIM_KEY=... ranksim mirror --host https://sandbox.example.com --out twin
      ranksim mirror --trace trace.jsonl --plan agency --domains 20 --out twin
    """
    from ranksim.bridges.twin_files import FILES, STATE, write_twin
    from ranksim.core.contract.located import Located
    from ranksim.core.contract.policy import read_catalogue
    from ranksim.core.errors import BadInput
    from ranksim.core.files import check_directory
    from ranksim.judge.load.options import LoadOptions
    from ranksim.judge.mirror.mirror import mirrored
    from ranksim.judge.mirror.recorded import read_recorded
    from ranksim.judge.mirror.stated import stated_account
    from ranksim.judge.mirror.world import world_of
    from ranksim.report import units

    if target is not None and host:
        raise BadInput("--host: expected either --host and a key or --target, found both")
    if plan and (trace is None or target is not None or host):
        raise BadInput(
            "--plan: expected --trace, and no host, which tells the plans itself; leave --plan out"
        )
    if not plan and (domains is not None or keywords is not None):
        raise BadInput("--domains and --keywords: expected --plan, too, whose accounts they are of")
    check_directory(out, FILES)
    stated = None
    if plan:
        stated = stated_account(
            plan, read_catalogue(Located("--catalogue", catalogue, {}), Path()), domains, keywords
        )
    recorded = None if trace is None else read_recorded(trace, stated)
    if recorded is not None and target is None and not host:
        twin = world_of(recorded.reading, recorded.host, recorded.start, recorded)
    else:
        options = LoadOptions(host, "" if target is None else str(target))
        twin = mirrored(options.target(), recorded=recorded)
    write_twin(twin, out)
    accounts = list(twin.scenario["accounts"])
    option = f" --account {accounts[0]}" if len(accounts) > 1 else ""
    lines = [f"Written to {out}: {units.many(len(accounts), 'account')}, {', '.join(accounts)}"]
    lines += [f"note: {note}" for note in twin.notes]
    lines += [
        f"next: ranksim run {out}/world.yaml",
        f"      ranksim serve --policy {out}/policy.yaml --state {out}/{STATE}",
        f"      ranksim capacity fit --scenario {out}/world.yaml{option}",
        f"      ranksim price compare --scenario {out}/world.yaml{option} --b CATALOGUE",
    ]
    print_out("\n".join(lines) + "\n")
