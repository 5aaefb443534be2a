"""Clients of a scenario, as programs: who calls, when, with what, and how they take a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from ranksim.core.callers.programs.calendars import (
    BriefRefresher,
    KeywordSync,
    Schedule,
    brief_refresher,
    keyword_sync,
    schedule,
)
from ranksim.core.callers.programs.call_streams import AppUsers, Arrivals, Caller
from ranksim.core.callers.programs.client import Setting
from ranksim.core.callers.programs.poller import Poller, poller
from ranksim.core.callers.programs.python import Python
from ranksim.core.callers.programs.steady import steady_caller
from ranksim.core.callers.steps import Program

__all__ = [
    "AnyClient",
    "AppUsers",
    "Arrivals",
    "BriefRefresher",
    "Caller",
    "ClientSpec",
    "KeywordSync",
    "Poller",
    "Programmed",
    "Python",
    "Schedule",
    "Setting",
    "below",
    "program_of",
]

Programmed = Schedule | KeywordSync | BriefRefresher | Poller | Caller | AppUsers | Arrivals
"""The clients that are programs of ours.

Each states its `owners`, the `operations` that it calls and what it has `planned`, the last two None where
that cannot be told. They have no default: where they are read, mypy refuses a kind that leaves one out.
"""

AnyClient = Programmed | Python

ClientSpec = Annotated[AnyClient, Field(discriminator="kind")]
"""A client of a scenario, told apart by `kind`."""


def below(spec: AnyClient, folder: Path) -> AnyClient:
    """Return a client with the paths in it read from a folder, such as that of its scenario."""
    if isinstance(spec, Arrivals):
        return spec.model_copy(update={"source": spec.source.below(folder)})
    return spec


def program_of(setting: Setting, name: str, spec: Programmed) -> Program:
    """Return a client's program. Raises BadInput when the client does not fit the setting."""
    match spec:
        case Schedule():
            return schedule(setting, name, spec)
        case KeywordSync():
            return keyword_sync(setting, name, spec)
        case BriefRefresher():
            return brief_refresher(setting, name, spec)
        case Poller():
            return poller(setting, name, spec)
        case Caller(arrivals="poisson", every=int(every)):
            from ranksim.core.callers.programs.drawn import (
                poisson_caller,  # numpy draws, and takes long to read
            )

            return poisson_caller(setting, name, spec, every)
        case Caller():
            return steady_caller(setting, name, spec)
        case AppUsers():
            from ranksim.core.callers.programs.drawn import app_users

            return app_users(setting, name, spec)
        case Arrivals():
            from ranksim.core.callers.programs.recorded import recorded_calls

            return recorded_calls(setting, name, spec)
