"""`ranksim serve state export|import`: backups of worlds, taken while they are served or from their files."""

from pathlib import Path
from typing import Annotated

import typer

from ranksim.core.errors import BadInput
from ranksim.core.extras import missing
from ranksim.twin.facade.control_cli import TOKEN_VARIABLES, ask_control

TIMEOUT_S = 600.0

PolicyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The policy file that the world is served under.")
]


def export_state(
    source: Annotated[
        str,
        typer.Argument(metavar="URL|FILE", help="A running deployment, or a state file that nobody serves."),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Where to write the export, itself a state file.")
    ],
    control_token: Annotated[
        str,
        typer.Option(
            envvar=["RANKSIM_SERVE_STATE_EXPORT_CONTROL_TOKEN", *TOKEN_VARIABLES],
            help="The bearer token that the control API of a running deployment wants.",
        ),
    ] = "",
    policy: PolicyFile = None,
) -> None:
    """Write a whole world into one file: state, keys, clock, saved worlds and fault rules.

    From a running deployment it is the world at one instant, whatever is asked of it meanwhile, and whether
    it keeps a state file or not.

    Examples:

    \b
      ranksim serve state export http://127.0.0.1:8080 backup.db
      ranksim serve state export world.db backup.db
    """  # fmt: skip
    if source.startswith(("http://", "https://")):
        _write(out, ask_control(source, control_token, "/export", timeout_s=TIMEOUT_S))
    else:
        _write(out, _exported(Path(source), policy))


def import_state(
    export: Annotated[
        Path, typer.Argument(metavar="EXPORT", help="What `ranksim serve state export` wrote.")
    ],
    state: Annotated[
        Path, typer.Argument(metavar="FILE", help="The state file to begin, for `serve --state`.")
    ],
    policy: PolicyFile = None,
) -> None:
    """Verify an export and begin a state file with it; what is there already is never replaced.

    Example: ranksim serve state import backup.db world.db
    """
    for end in ("", "-wal", "-acknowledged"):
        candidate = Path(f"{state}{end}")
        if candidate.exists() and candidate.stat().st_size:
            raise BadInput(f"{candidate}: is there already; remove it, or give another path")
    _write(state, _exported(export, policy))


def _write(path: Path, file: bytes) -> None:
    """Write what holds keys and secrets."""
    from ranksim.core.files import new_file

    with new_file(path, mode=0o600) as temporary:
        temporary.write_bytes(file)
    typer.echo(f"Written to {path}")


def _exported(path: Path, policy: Path | None) -> bytes:
    try:
        from ranksim.twin.facade.journal.backup import export_file
    except ModuleNotFoundError as error:
        raise missing(f"reading state files needs {error.name}", "server") from None
    from ranksim.core.contract.policy import Policy

    return export_file(path, Policy() if policy is None else Policy.load(policy))
