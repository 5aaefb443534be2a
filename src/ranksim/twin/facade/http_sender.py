"""Sending webhook attempts: one HTTP POST each, exact bytes and headers, no redirects, ten seconds.

Only time-outs and durations here are wall time (S88).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import httpcore
from httpcore import AsyncNetworkBackend, AsyncNetworkStream

from ranksim.core.addresses import Receivers
from ranksim.core.service.calls import Answer, Attempt
from ranksim.twin.serving.control_auth import WEBHOOKS

USER_AGENT = f"{WEBHOOKS}/1"

MOST_AT_ONCE = 64
"""Attempts under way to one endpoint; more wait for their turn, which is no part of the ten seconds."""

MOST_READ = 65_536
"""How much of an answer's body is read, so that its connection can be used again."""


class HttpSender:
    """Sends over the network, hundreds of endpoints at once, so that a slow one delays no other.

    Certificates are verified, against `tls` when given, else against the system's authorities. An endpoint
    whose address is none of `receivers` is refused, and the address that was checked is the one that is
    connected to. The server's own addresses are those of this machine at `own_ports`.
    """

    def __init__(
        self,
        *,
        receivers: Receivers = "others",
        tls: ssl.SSLContext | None = None,
        own_ports: set[int] | None = None,
    ) -> None:
        self._receivers, self._tls = receivers, tls
        self.own_ports = set() if own_ports is None else own_ports
        self._pool: httpcore.AsyncConnectionPool | None = None
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        """POST one attempt (S77); the answer has the status, or an error such as "timeout"."""
        async with self._turns.setdefault(attempt.endpoint, asyncio.Semaphore(MOST_AT_ONCE)):
            began = time.monotonic_ns()
            status, error = await self._post(attempt, timeout_s)
            taken = (time.monotonic_ns() - began) // 1000
        return Answer(status, error, taken)

    async def close(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None

    def _connections(self) -> httpcore.AsyncConnectionPool:
        """Make the pool when the first attempt goes out: reading the authorities' certificates takes long."""
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=self._tls or ssl.create_default_context(),
                max_connections=None,
                max_keepalive_connections=100,
                keepalive_expiry=5.0,
                network_backend=None if self._receivers == "any" else CheckedAddresses(self._refusal),
            )
        return self._pool

    def _refusal(self, address: str, port: int) -> str | None:
        """Return why no webhook goes to an address, or None."""
        ip = ipaddress.ip_address(address.partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if self._receivers == "public" and not ip.is_global:
            return "which is not a public address"
        if ip.is_link_local:
            return "which is a link-local address; --any-receiver allows it"
        if port in self.own_ports and _is_here(ip):
            return "where this deployment itself listens; --any-receiver allows it"
        return None

    async def _post(self, attempt: Attempt, timeout_s: float) -> tuple[int | None, str | None]:
        status: int | None = None
        try:
            url, headers = _target(attempt)
            async with (
                asyncio.timeout(timeout_s),
                self._connections().stream("POST", url, headers=headers, content=attempt.body) as response,
            ):
                status = response.status
                await _read(response)
        except TimeoutError:
            return (None, "timeout") if status is None else (status, None)
        except Exception as error:
            # Whatever goes wrong with a receiver is a failed attempt; once the status is here it counts.
            return (None, _explained(error)) if status is None else (status, None)
        return status, None


def _target(attempt: Attempt) -> tuple[httpcore.URL, list[tuple[bytes, bytes]]]:
    import httpx  # takes as long to read as half of the server does; `facade.server` reads it once it serves

    url = httpx.URL(attempt.url)
    host = url.netloc
    headers = [(b"Host", host), (b"User-Agent", USER_AGENT.encode()), (b"Accept", b"*/*")]
    headers += [(name.encode(), value.encode()) for name, value in attempt.headers.items()]
    headers.append((b"Content-Length", str(len(attempt.body)).encode()))
    scheme, raw_host, port, path = url.raw_scheme, url.raw_host, url.port, url.raw_path
    return httpcore.URL(scheme=scheme, host=raw_host, port=port, target=path), headers


async def _read(response: httpcore.Response) -> None:
    size = 0
    async for part in response.aiter_stream():
        size += len(part)
        if size > MOST_READ:
            return


def _explained(error: BaseException) -> str:
    """Return in a few words why no answer came."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, NotAllowed):
            return str(cause)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS certificate refused: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return "TLS handshake failed"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, socket.gaierror | UnicodeError):
            return "host not found"
        if isinstance(cause, httpcore.RemoteProtocolError | httpcore.ReadError | httpcore.WriteError):
            return "connection closed without an answer"
    if any(
        "refused" in str(cause).lower() or "connect call failed" in str(cause).lower() for cause in causes
    ):
        return "connection refused"
    if isinstance(error, httpcore.ConnectError):
        return "connection failed"
    return f"failed: {type(causes[-1]).__name__}"


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    """Walk from an error to what caused it, groups included."""
    seen: list[BaseException | None] = [error]
    while seen:
        cause = seen.pop()
        if cause is None:
            continue
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            seen += cause.exceptions
        seen.append(cause.__cause__ or cause.__context__)


def _is_here(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address is of this machine: whether something could listen there."""
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(ip), 0))
    except OSError:
        return False
    return True


class NotAllowed(Exception):
    """No webhook goes to an endpoint's address."""


class CheckedAddresses(AsyncNetworkBackend):
    """Connects to addresses for which `refusal` gives no reason not to."""

    def __init__(self, refusal: Callable[[str, int], str | None]) -> None:
        self._inner = httpcore.AnyIOBackend()
        self._refusal = refusal

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        """Resolve, check every address, and connect to the first one that takes it."""
        loop = asyncio.get_running_loop()
        resolved = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in resolved]
        for address in addresses:
            if (why := self._refusal(address, port)) is not None:
                raise NotAllowed(f"{host} is at {address}, {why}")
        for address in addresses[:-1]:
            with suppress(httpcore.ConnectError):
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
        return await self._inner.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Wait between retries of a connection."""
        await self._inner.sleep(seconds)
