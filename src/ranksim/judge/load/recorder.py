"""The recorder: one file of lines a process, each call written down before it is made and again after it.

A line is handed to the operating system before the request goes out, so that a process that is killed leaves
what it sent. `merging` makes the files of a run into one trace.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranksim.core.callers.steps import Send
from ranksim.core.clock import Micros
from ranksim.core.trace import digest, hide_secrets, safe_headers

BOOT = Path("/proc/sys/kernel/random/boot_id")

OURS = frozenset(
    {"kind", "id", "ended", "closed", "clock_host", "target", "environment", "api_key", "account", "client"}
    | {"surface", "operations", "method", "effect"}
)
"""Fields that hold our own words alone, which stay as they are although a key may be "main" or "test"."""


def machine() -> str:
    """Name the machine whose processes share one monotonic clock."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()


@dataclass(frozen=True, slots=True)
class AnchoredClock:
    """The monotonic clock of one machine, anchored once to wall time.

    `anchor` is wall time less monotonic time, µs; processes of one machine that share it have one clock.
    """

    anchor: Micros
    host: str
    machine: str

    @classmethod
    def here(cls) -> AnchoredClock:
        """Anchor the clock of this machine to its wall time."""
        return cls(time.time_ns() // 1000 - time.monotonic_ns() // 1000, platform.node(), machine())

    def now(self) -> Micros:
        """Read the clock: µs since the epoch, never going back."""
        return self.anchor + time.monotonic_ns() // 1000

    def described(self) -> dict[str, Any]:
        """What the header of a trace says of the clock."""
        resolution = time.get_clock_info("monotonic").resolution
        return {"host": self.host, "anchor": self.anchor, "resolution": max(1, round(resolution * 1_000_000))}


class PartRecorder:
    """Writes one part of a trace; lines of other processes are in parts of their own.

    `part` begins the ids of its exchanges, `salt` is mixed into the digests of secrets, `tokens` are keys
    that must not be written wherever they turn up, save in our own words.
    """

    def __init__(
        self, path: Path, *, part: str, clock: AnchoredClock, salt: bytes, tokens: Iterable[str] = ()
    ) -> None:
        self.path = path
        self.part = part
        self.clock = clock
        self.salt = salt
        self._hidden = {token: digest(token, salt) for token in tokens if token}
        self._count = 0
        self._file = path.open("ab", buffering=0)

    def began(self, send: Send, sent: Micros, described: Mapping[str, Any]) -> str:
        """Write a call down before it is made; `described` is what the trace says of it. Returns its id."""
        self._count += 1
        name = f"{self.part}.{self._count}"
        self._write(
            {
                "kind": "exchange",
                "id": name,
                "planned": send.planned,
                "sent": sent,
                "received": None,
                "clock_host": self.clock.host,
                "status": None,
                "effect": "unknown",
                **described,
                "request_headers": safe_headers(described["request_headers"]),
                "body": self._without_secrets(described["body"]),
            }
        )
        return name

    def ended(
        self,
        name: str,
        received: Micros | None = None,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        response: str | None = "",
        effect: str = "unknown",
        error: str | None = None,
    ) -> None:
        """Write what came of a call; without `received` no reply was seen."""
        self._write(
            {
                "ended": name,
                "received": received,
                "status": status,
                "response_headers": safe_headers(headers or {}),
                "response": self._without_secrets(response),
                "effect": effect,
                "error": error,
            }
        )

    def endpoint(self, path: str, endpoint: str) -> None:
        """Write down which webhook endpoint a path of the receiver belongs to."""
        self._write({"kind": "endpoint", "path": path, "endpoint": endpoint})

    def note(self, text: str, **details: Any) -> None:
        """Write a note at this instant."""
        self._write({"kind": "note", "t": self.clock.now(), "text": text, **details})

    def shift(self, low: Micros, high: Micros) -> None:
        """Write down by how much the leader's clock, on another machine, is ahead of the one here."""
        self._write({"kind": "shift", "low": low, "high": high})

    def _without_secrets(self, text: str | None) -> str | None:
        return None if text is None else hide_secrets(text, self.salt)

    def hide(self, token: str) -> None:
        """Never write this from now on."""
        if token:
            self._hidden[token] = digest(token, self.salt)

    def close(self) -> None:
        """Declare that nothing more will come from this process. A second call does nothing."""
        if not self._file.closed:
            self._write({"closed": self.part, "t": self.clock.now()})
            self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        safe = {name: value if name in OURS else self._safe(value) for name, value in line.items()}
        text = json.dumps(safe, ensure_ascii=False, separators=(",", ":"))
        rest = (text + "\n").encode(errors="replace")
        while rest:
            rest = rest[os.write(self._file.fileno(), rest) :]

    def _safe(self, value: Any) -> Any:
        """Return a value without what must not be written."""
        if isinstance(value, str):
            for token, alias in self._hidden.items():
                value = value.replace(token, alias)
        elif isinstance(value, Mapping):
            value = {name: self._safe(inner) for name, inner in value.items()}
        elif isinstance(value, list | tuple):
            value = [self._safe(inner) for inner in value]
        return value
