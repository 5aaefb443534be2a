"""Libraries that only some commands want: importing them, and the lines that install them."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from typing import Any

from ranksim.core.errors import BadInput


def install_line(extra: str) -> str:
    """Return what brings an extra of pyproject.toml: its libraries by name, and the line of a checkout.

    Names of libraries do beside any way that ranksim was installed; ranksim itself need be in no index.
    """
    named = " ".join(libraries(extra))
    here = f"pip install {named} (in a checkout: " if named else "(in a checkout: "
    return f"{here}pip install -c constraints.txt '.[{extra}]')"


def libraries(extra: str) -> list[str]:
    """Return the names of an extra's libraries, as the installed package has them."""
    try:
        lines = requires("ranksim") or []
    except PackageNotFoundError:
        return []
    wanted = (line for line in lines if re.search(rf"extra == ['\"]{extra}['\"]", line))
    names = [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in wanted]
    return [name for name in names if name != "ranksim"]


def missing(need: str, extra: str) -> BadInput:
    """Return the error that says what is needed, such as "plots need matplotlib", and how to install it."""
    return BadInput(f"{need}, which is not installed; {install_line(extra)}")


def imported(module: str, need: str, extra: str) -> Any:
    """Import a module of an extra. Raises BadInput when it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise missing(need, extra) from None
