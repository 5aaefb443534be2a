"""Clients of a scenario, as programs: who calls, when, with what, and how they take a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ranksim.core.callers.programs.calendars import (
    BriefRefresher,
    KeywordSync,
    Schedule,
    brief_refresher,
    keyword_sync,
    schedule,
)
from ranksim.core.callers.programs.call_streams import AppUsers, Arrivals, Caller, steady_caller
from ranksim.core.callers.programs.client import Setting, TrackedPart
from ranksim.core.callers.programs.poller import Poller, poller
from ranksim.core.callers.steps import Program
from ranksim.core.contract.quantities import Frozen

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


class Python(Frozen):
    """A generator function, named "module:function", that is called as `function(world, name, **options)`.

    It yields SimPy events, such as `world.timeout(us)`, and calls with `world.call`.
    """

    kind: Literal["python"] = "python"
    function: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    options: dict[str, Any] = Field(default_factory=dict)
    account: str | None = None
    key: str | None = None

    @property
    def owners(self) -> tuple[str | None, ...]:
        """The account in whose name the client calls; None where that may be any."""
        return (self.account,)

    @property
    def operations(self) -> None:
        """None: a function may call any."""

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> None:
        """Return None: what a function spends is not known before it runs."""


AnyClient = Programmed | Python

ClientSpec = Annotated[AnyClient, Field(discriminator="kind")]
"""A client of a scenario, told apart by `kind`."""


def rooted_in(spec: AnyClient, folder: Path) -> AnyClient:
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
        case Caller(arrivals="constant") | Caller(every=None):
            return steady_caller(setting, name, spec)
    from ranksim.core.callers.programs import arriving  # numpy draws, and takes long to read

    match spec:
        case Caller():
            return arriving.poisson_caller(setting, name, spec)
        case AppUsers():
            return arriving.app_users(setting, name, spec)
        case Arrivals():
            return arriving.recorded_calls(setting, name, spec)
