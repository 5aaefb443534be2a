"""The fake deployment inside a test: `World` without sockets, `Server` on a free port, any number at once.

    with World(plan="pro") as world:
        client = world.client()                    # an httpx.Client that opens no socket
        job = client.post("/v1/jobs", json={...}).json()["data"]
        world.jobs.fail(job["id"], "the crawler was blocked")
        world.clock.advance("36m")

Each world has its own event loop in a thread; nothing is global. Time stands still unless it is moved.
"""

from ranksim.core.callers.receivers import AnswerStep as Step
from ranksim.twin.receiver.receiver import Received, Receiver
from ranksim.twin.testing.clock import Clock, NotSettled
from ranksim.twin.testing.deployment import Deployment, NeedsControl, Server, asgi_app, open_target, transport
from ranksim.twin.testing.world import START, Account, World

__all__ = [
    "START",
    "Account",
    "Clock",
    "Deployment",
    "NeedsControl",
    "NotSettled",
    "Received",
    "Receiver",
    "Server",
    "Step",
    "World",
    "asgi_app",
    "open_target",
    "transport",
]
