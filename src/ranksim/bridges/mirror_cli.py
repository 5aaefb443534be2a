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
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Write world.yaml, policy.yaml, catalogue.yaml and world.db here."),
    ] = Path("twin"),
) -> None:
    """Write what the keys may read as a world: plans and limits, what is tracked, what is used so far.

    It reads and sends nothing else. What the API does not show is said in notes, and stands in the files.

    Example: RANKSIM_KEY=... ranksim mirror --host https://sandbox.example.com --out twin
    """
    from ranksim.bridges.twin_files import FILES, STATE, write_twin
    from ranksim.core.errors import BadInput
    from ranksim.core.files import check_directory
    from ranksim.judge.load.options import LoadOptions
    from ranksim.judge.mirror.mirror import mirrored
    from ranksim.report import units

    if target is not None and host:
        raise BadInput("--host: expected either --host and a key or --target, found both")
    options = LoadOptions(host, "" if target is None else str(target))
    check_directory(out, FILES)
    twin = mirrored(options.target())
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
