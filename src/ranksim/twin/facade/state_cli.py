"""`ranksim serve state export|import`: backups of worlds, taken while they are served or from their files."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ranksim.core.clock import Micros
from ranksim.core.errors import BadInput, one_among
from ranksim.core.extras import missing
from ranksim.report.command_line import Commands
from ranksim.twin.facade.control_cli import TOKEN_VARIABLES, ask_control

if TYPE_CHECKING:
    from ranksim.core.contract.policy import Policy
    from ranksim.twin.facade.origin import ReadOrigin

TIMEOUT_S = 600.0
FORMS = ("state", "scenario")
SCENARIOS = (".yaml", ".yml", ".json")
"""How names of scenario files end."""

PolicyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The policy file that the world is served under.")
]


def _exporting(read_origin: "ReadOrigin") -> Callable[..., None]:
    def export_state(
        source: Annotated[
            str,
            typer.Argument(
                metavar="URL|FILE", help="A running deployment, or a state file that nobody serves."
            ),
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
        form: Annotated[
            str, typer.Option("--as", metavar="state|scenario", help="A state file, or a scenario in YAML.")
        ] = "state",
    ) -> None:
        """Write a whole world into one file: state, keys, clock, saved worlds and fault rules.

        From a running deployment it is the world at one instant, whatever is asked of it meanwhile, and
        whether it keeps a state file or not. As a scenario it is what `ranksim serve FILE` begins with:
        accounts, keys, portfolios, use, endpoints and faults as they are now, and what the timeline does
        next. What is not in it, its description says.

        Examples:

        \b
          ranksim serve state export http://127.0.0.1:8080 backup.db
          ranksim serve state export world.db backup.db
          ranksim serve state export http://127.0.0.1:8080 world.yaml --as scenario
        """  # fmt: skip
        if form not in FORMS:
            raise BadInput(f"--as: expected {one_among(FORMS, form)}")
        if source.startswith(("http://", "https://")):
            path = "/export" if form == "state" else "/state?as=scenario"
            exported = ask_control(source, control_token, path, timeout_s=TIMEOUT_S)
        elif form == "state":
            exported = _backup().export_file(Path(source), _policy(policy))
        else:
            exported = _backup().export_scenario(Path(source), _policy(policy), read_origin)
        _write(out, exported if form == "state" else _as_yaml(exported))

    return export_state


def state_commands(
    read: Callable[[Path | None, Micros | None], dict[str, Any]], read_origin: "ReadOrigin"
) -> Commands:
    """Return the commands of `ranksim serve state`; `read` reads a scenario file as settings of a `Twin`."""

    def import_state(
        export: Annotated[
            Path,
            typer.Argument(
                metavar="EXPORT",
                help="What `ranksim serve state export` wrote, or a scenario file.",
            ),
        ],
        state: Annotated[
            Path, typer.Argument(metavar="FILE", help="The state file to begin, for `serve --state`.")
        ],
        policy: PolicyFile = None,
    ) -> None:
        """Verify an export, or read a scenario, and begin a state file with it.

        What is there already is never replaced.

        Examples:

        \b
          ranksim serve state import backup.db world.db
          ranksim serve state import near.yaml world.db
        """  # fmt: skip
        for end in ("", "-wal", "-acknowledged"):
            candidate = Path(f"{state}{end}")
            if candidate.exists() and candidate.stat().st_size:
                raise BadInput(f"{candidate}: is there already; remove it, or give another path")
        if export.suffix in SCENARIOS:
            if policy is not None:
                raise BadInput("--policy: a scenario says its policy; leave it out, or write it there")
            _write(state, _backup().begin_file(read(export, None)))
        else:
            _write(state, _backup().export_file(export, _policy(policy)))

    return {
        "export": (_exporting(read_origin), "Write a world into one file."),
        "import": (import_state, "Begin a state file with it."),
    }


def _write(path: Path, file: bytes) -> None:
    """Write what holds keys and secrets."""
    from ranksim.core.files import new_file

    with new_file(path, mode=0o600) as temporary:
        temporary.write_bytes(file)
    typer.echo(f"Written to {path}")


def _as_yaml(scenario: bytes) -> bytes:
    from ranksim.core.contract.yamlfile import write_yaml
    from ranksim.core.editors import schema_line

    return (schema_line("scenario") + write_yaml(json.loads(scenario))).encode()


def _backup() -> ModuleType:
    try:
        from ranksim.twin.facade.journal import backup
    except ModuleNotFoundError as error:
        raise missing(f"reading state files needs {error.name}", "server") from None
    return backup


def _policy(path: Path | None) -> "Policy":
    from ranksim.core.contract.policy import Policy

    return Policy() if path is None else Policy.load(path)
