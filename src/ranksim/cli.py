"""The command line: `ranksim run` and `ranksim assumptions`."""

from __future__ import annotations

import typer

import ranksim

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Simulate a rank-tracking API service."""
    if version:
        print(f"ranksim {ranksim.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    app()
