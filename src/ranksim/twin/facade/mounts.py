"""Receivers in this process: programs mounted on URLs, to which webhooks go without a socket.

What sends over the network, and httpx, are read when something is sent: most worlds of tests send nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

from ranksim.core.addresses import LOOPBACK
from ranksim.core.clock import SECOND
from ranksim.core.service.calls import Answer, Attempt
from ranksim.twin.facade.sender import NetworkSender
from ranksim.twin.receiver.receiver import Receiver
from ranksim.twin.serving.asgi import App


class Mounts:
    """A sender that knows the programs behind URLs: a `Receiver`, an ASGI app, or a WSGI app in a thread.

    The longest URL that an endpoint's begins with decides. What is mounted nowhere is sent over the network
    if it is at a loopback address, or if `network` allows it. `waits` tells whether the delay of a mounted
    `Receiver` takes wall time; where it does not, one beyond the limit is a timeout at once.
    """

    def __init__(self, *, network: bool = False, waits: Callable[[], bool] = lambda: True) -> None:
        self.network = network
        self.waits = waits
        self.apps: dict[str, Receiver | App] = {}
        self._own_ports: set[int] = set()
        self._network: NetworkSender | None = None

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        """Let the program behind the attempt's URL answer it."""
        mounted = [url for url in self.apps if _below(url, attempt.url)]
        if not mounted:
            if self.network or urlsplit(attempt.url).hostname in LOOPBACK:
                if self._network is None:
                    # The system's authorities take long to read, and say nothing about this machine.
                    tls = None if self.network else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                    self._network = NetworkSender(tls=tls, own_ports=self._own_ports)
                return await self._network.send(attempt, timeout_s)
            return Answer(None, "nothing is mounted at this URL, and it is not on this machine")
        app = self.apps[max(mounted, key=len)]
        if isinstance(app, Receiver):
            return await self._received(app, attempt, timeout_s)
        from ranksim.twin.facade import httpx_transport

        try:
            async with asyncio.timeout(timeout_s):
                return Answer(await httpx_transport.post_to_app(app, attempt))
        except TimeoutError:
            return Answer(None, "timeout", round(timeout_s * SECOND))

    def listens_at(self, port: int) -> None:
        """Send no webhook to a port of this machine, at which the world itself listens."""
        self._own_ports.add(port)

    async def close(self) -> None:
        """Close the connections."""
        if self._network is not None:
            await self._network.close()

    async def _received(self, receiver: Receiver, attempt: Attempt, timeout_s: float) -> Answer:
        import httpx

        url = httpx.URL(attempt.url)
        headers = {name.lower(): text for name, text in attempt.headers.items()}
        came = receiver.accept("POST", url.path, url.query.decode(), headers, attempt.body)
        limit = round(timeout_s * SECOND)
        late = came.step.status is None or came.step.delay > limit
        taken = limit if late else came.step.delay
        if taken and self.waits():
            await asyncio.sleep(taken / SECOND)
        receiver.answered(came, None if late else came.step.status)
        return Answer(None, "timeout", taken) if late else Answer(came.step.status, None, taken)


def _below(mounted: str, url: str) -> bool:
    """Return whether a URL is the mounted one or goes on from it, its scheme in whatever case."""
    mounted, url = urlsplit(mounted).geturl(), urlsplit(url).geturl()
    rest = url.removeprefix(mounted)
    return url.startswith(mounted) and (not rest or mounted.endswith("/") or rest[0] in "/?#")
