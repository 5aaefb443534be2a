"""Clients of a simulated world: who calls the service, when, with what, and how they take a refusal."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from ranksim.sim.clients.call_streams import (
    AppUsers,
    Arrivals,
    Caller,
    start_app_users,
    start_caller,
)
from ranksim.sim.clients.common import Client, Line, Request, World
from ranksim.sim.clients.polling import Poller, start_poller
from ranksim.sim.clients.replaying import start_arrivals
from ranksim.sim.clients.scheduled import (
    BriefRefresher,
    KeywordSync,
    Schedule,
    start_brief_refresher,
    start_keyword_sync,
    start_schedule,
)
from ranksim.sim.clients.scripted import Python, start_python

__all__ = [
    "AnyClient",
    "AppUsers",
    "Arrivals",
    "BriefRefresher",
    "Caller",
    "Client",
    "ClientSpec",
    "KeywordSync",
    "Line",
    "Poller",
    "Python",
    "Request",
    "Schedule",
    "below",
    "start",
]

AnyClient = Schedule | KeywordSync | BriefRefresher | Poller | Caller | AppUsers | Arrivals | Python

ClientSpec = Annotated[AnyClient, Field(discriminator="kind")]
"""A client of a scenario, told apart by `kind`."""


def below(spec: AnyClient, folder: Path) -> AnyClient:
    """Give a client with the paths in it read from a folder, such as that of its scenario."""
    if isinstance(spec, Arrivals):
        return spec.model_copy(update={"source": spec.source.below(folder)})
    return spec


def start(world: World, name: str, spec: AnyClient) -> None:
    """Set a client to work in a world. Raises BadInput when it does not fit the world."""
    match spec:
        case Schedule():
            start_schedule(world, name, spec)
        case KeywordSync():
            start_keyword_sync(world, name, spec)
        case BriefRefresher():
            start_brief_refresher(world, name, spec)
        case Poller():
            start_poller(world, name, spec)
        case Caller():
            start_caller(world, name, spec)
        case AppUsers():
            start_app_users(world, name, spec)
        case Arrivals():
            start_arrivals(world, name, spec)
        case Python():
            start_python(world, name, spec)
