"""Libraries that only some commands want: importing them, and the line that installs them from a checkout."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ranksim.errors import BadInput


def install_line(extra: str) -> str:
    """Return the command that adds an extra of pyproject.toml to a checkout's environment."""
    return f"pip install -c constraints.txt '.[{extra}]'"


def missing(need: str, extra: str) -> BadInput:
    """Return the error that says what is needed, such as "plots need matplotlib", and how to install it."""
    return BadInput(f"{need}, which is not installed; in a checkout of ranksim: {install_line(extra)}")


def imported(module: str, need: str, extra: str) -> Any:
    """Import a module of an extra. Raises BadInput when it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise missing(need, extra) from None
