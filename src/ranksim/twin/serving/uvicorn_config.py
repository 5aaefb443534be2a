"""uvicorn as our programs run it, on a connection of ours where uvicorn's insides are those it stands on."""

from __future__ import annotations

import inspect
import logging
import re
from functools import cache, partial
from hashlib import sha256
from typing import Any

import uvicorn

from ranksim.twin.serving.limits import Limits

IDLE_SECONDS = 75
"""How long a connection may be kept open without a request."""

REPLACED = {
    "HttpToolsProtocol.data_received": {"010a7ae5"},
    "HttpToolsProtocol.on_body": {"dba9c32a"},
    "HttpToolsProtocol.on_message_complete": {"1fbad42d"},
    "HttpToolsProtocol.on_response_complete": {"64e254f2", "95a14543"},
    "HttpToolsProtocol.send_400_response": {"ae5a4a37"},
    "RequestResponseCycle.send": {"abdd8601", "5fc394f2", "c1edbd7f"},
}
"""What our connection does anew instead of extending it, with digests of the sources it was compared with."""

RELIED_ON = (
    "client", "config", "cycle", "flow", "headers", "loop", "parser", "scope", "transport",
    "timeout_keep_alive", "connection_lost", "connection_made", "on_headers_complete", "pause_writing",
    "resume_writing", "shutdown", "disconnected", "keep_alive", "message_event", "more_body", "on_response",
    "response_complete", "response_started", "waiting_for_100_continue", "drain", "pause_reading",
    "resume_reading", "write_paused",
)  # fmt: skip
"""What else it reads, sets or extends, by name."""

NOT_HELD = (
    "headers without end, requests that never arrive and bodies that fill memory are not bounded, what is no "
    "HTTP is not refused with a problem, a fault that drops connections answers 500, and streams of events "
    "delay the end"
)
"""What does not hold on uvicorn's own connection."""


def differing_insides() -> list[str]:
    """Return what of uvicorn's HTTP/1.1 connection differs from what ours stands on, by name."""
    try:
        from uvicorn.protocols.http import flow_control, httptools_impl

        text = inspect.getsource(httptools_impl) + inspect.getsource(flow_control)
    except (ImportError, OSError) as error:
        if getattr(error, "name", None) == "httptools":
            raise
        return [str(error)]
    differing = [name for name in RELIED_ON if not re.search(rf"\b(self\.|def ){name}\b", text)]
    for name, digests in REPLACED.items():
        owner, _, method = name.partition(".")
        source = getattr(getattr(httptools_impl, owner, None), method, None)
        if source is None or sha256(inspect.getsource(source).encode()).hexdigest()[:8] not in digests:
            differing.append(name)
    return differing


@cache
def connection_class() -> Any:
    """Return our connection, or None where uvicorn differs from what it stands on; that is logged, once."""
    differing = differing_insides()
    if not differing:
        from ranksim.twin.serving.uvicorn_protocol import Connection

        return Connection
    logging.getLogger("ranksim.serving").warning(
        "uvicorn %s differs from what ranksim knows (%s), so its own connection serves: %s",
        *(uvicorn.__version__, ", ".join(differing), NOT_HELD),
    )
    return None


def configured(app: Any, limits: Limits | None = None, **settings: Any) -> uvicorn.Config:
    """Configure uvicorn for an app of ours; `limits` are of all its connections, `settings` uvicorn's."""
    ours = connection_class()
    usual: dict[str, Any] = {
        "http": partial(ours, limits=limits or Limits()) if ours else "auto",
        "ws": "none",
        "interface": "asgi3",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": IDLE_SECONDS,
        "timeout_graceful_shutdown": 5,
    }
    return uvicorn.Config(app, **usual | settings)
