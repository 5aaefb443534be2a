"""Merging the parts that the processes of a run wrote into one trace, in order of time.

A part is in order already, since a call is written down when it is sent; so the parts are read side by side
and only calls whose end has not come yet are kept. A call without an end was in flight when its process was
killed, and its effect is unknown. What is broken in a part is left out and noted.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from ranksim.core.callers.http import json_text
from ranksim.core.callers.steps import Send
from ranksim.core.clock import DISTANT_FUTURE
from ranksim.core.errors import BadInput
from ranksim.core.files import new_file, packing, write_file
from ranksim.core.notes import ALONE
from ranksim.core.service.routes import path_values
from ranksim.judge.deployment.cleanup import Unknown

HEADER = "header.json"
RECEIVER = "receiver.jsonl"
PARTIAL = "partial"
UNDER_WAY = "its reply had not come yet"
CUT = "stopped without a reply being seen"

Line: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Merged:
    """What a merge found: exchanges and deliveries, calls without an end, broken lines, parts cut short."""

    exchanges: int = 0
    deliveries: int = 0
    unknown: int = 0
    broken: int = 0
    cut: list[str] = field(default_factory=list)
    elsewhere: dict[str, int] = field(default_factory=dict)
    """Parts of other machines, with the µs that are unknown between their clock and the leader's."""


def merge(directory: Path, path: Path, *, partial: bool = False) -> Merged:
    """Make one trace of the parts in a directory; .gz packs. Raises BadInput.

    `partial` says that exchanges or attempts are missing.
    """
    merged = Merged()
    with new_file(path) as temporary, packing(temporary, path) as file:
        for line in joined(directory, merged, partial=partial):
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
            file.write(text.encode(errors="replace") + b"\n")
    return merged


def joined(
    directory: Path, merged: Merged, until: int = DISTANT_FUTURE, *, partial: bool = False
) -> Iterator[Line]:
    """Return the lines of the trace that the parts in a directory make, the header first; count in `merged`.

    `partial` is as in `merge`. With `until`, an instant before now while the run goes on, what was seen later
    is not known yet: a call whose reply came later has none. Raises BadInput.
    """
    try:
        header = json.loads((directory / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{directory / HEADER}: expected the header of a run ({error})") from None
    parts = sorted(directory.glob("part-*.jsonl"))
    endpoints = _endpoints(parts)
    torn = until == DISTANT_FUTURE and any(_is_torn(path) for path in (*parts, directory / RECEIVER))
    if partial or torn:
        header["capture"] = PARTIAL
    yield header
    streams = [_timed(_joined(part, merged)) for part in parts]
    streams.append(_timed(_received(directory / RECEIVER, endpoints, merged)))
    last = int(header.get("started", 0))
    for instant, line in heapq.merge(*streams, key=lambda pair: pair[0]):
        if instant > until:
            break
        last = max(last, instant)
        merged.exchanges += line["kind"] == "exchange"
        merged.deliveries += line["kind"] == "delivery"
        yield _line_at(line, until)
    for note in _closing(merged):
        yield {"kind": "note", "t": last, **note}


def miss(directory: Path) -> None:
    """Write into the header of a run that exchanges or attempts are missing."""
    header = directory / HEADER
    header_line = json.loads(header.read_text(encoding="utf-8")) | {"capture": PARTIAL}
    write_file(header, json.dumps(header_line))  # a full disk leaves the header as it is


def outlived(directory: Path) -> bool | None:
    """Return whether the run's own receiver noted that the run was gone; None where it has none."""
    log = directory / RECEIVER
    if not log.exists():
        return None
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        return ALONE.encode() in file.read()


def _is_torn(path: Path) -> bool:
    """Return whether the last line of a file was not written whole: the disk was full, or worse."""
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"


def _line_at(line: Line, until: int) -> Line:
    """Return what was known of a line at an instant."""
    if (line.get("received") or 0) > until and line["kind"] == "exchange":
        unknown: Line = {"received": None, "status": None, "response_headers": {}, "response": ""}
        return line | unknown | {"effect": "unknown", "error": UNDER_WAY}
    if (line.get("answered") or 0) > until:
        return line | {"answered": None, "status": None}
    return line


def lost(directory: Path) -> list[Unknown]:
    """Return the POSTs with an Idempotency-Key whose replies nobody saw, from the parts so far."""
    lines = []
    for part in sorted(directory.glob("part-*.jsonl")):
        for line in _joined(part, Merged()):
            key = line.get("request_headers", {}).get("Idempotency-Key")
            if key and line["method"] == "POST" and line["received"] is None and line["effect"] == "unknown":
                lines.append(Unknown(_sent(line, key), line["id"]))
    return lines


def _sent(line: Line, idempotency_key: str) -> Send:
    """Make the call again that a line tells of."""
    operation = line["operations"][0]
    values = path_values(operation, line["path"].strip("/").removeprefix("v1/")) or {}
    body, raw = _body(line["body"])
    return Send(
        operation,
        line["api_key"] or "",
        path={name: unquote(value) for name, value in values.items()},
        query=line["query"],
        body=body,
        raw=raw,
        idempotency_key=idempotency_key,
        environment=line["environment"],
        surface=line["surface"],
    )


def _body(text: str) -> tuple[dict[str, Any] | None, bytes | None]:
    """Return a body as an object, or as it stands where that would not be sent in the same bytes."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if isinstance(body, dict) and json_text(body) == text:
        return body, None
    return None, text.encode() or None


def _closing(merged: Merged) -> Iterator[Line]:
    """What the recorder could not see."""
    for text, name, value in (
        ("processes ended before they were done", "parts", merged.cut),
        ("parts of other machines: their calls are longer by what is unknown of their clocks", "widened",
         merged.elsewhere),
        ("broken lines were left out", "lines", merged.broken),
        ("calls were in flight when their process ended", "calls", merged.unknown),
    ):  # fmt: skip
        if value:
            yield {"text": text, name: value}


def _timed(lines: Iterator[Line]) -> Iterator[tuple[int, Line]]:
    """Return each line with its instant; one without takes that of the line before."""
    last = 0
    for line in lines:
        instant = line.get("sent", line.get("received", line.get("t")))
        last = max(last, instant if isinstance(instant, int) else 0)
        yield last, line


def _joined(part: Path, merged: Merged) -> Iterator[Line]:
    """Read a part: each call together with its end, in the order in which they were sent."""
    waiting: deque[Line] = deque()
    open_calls: dict[str, Line] = {}
    closed = False
    low, high = _shift(part)
    for line in _lines(part, merged):
        if "ended" in line:
            call = open_calls.pop(line.pop("ended"), None)
            if call is not None:
                call.update(line)
        elif "closed" in line:
            closed = True
        elif line.get("kind") == "exchange":
            open_calls[line["id"]] = line
            waiting.append(line)
        elif line.get("kind") == "note":
            waiting.append(line)
        while waiting and waiting[0].get("id") not in open_calls:
            yield _shifted(waiting.popleft(), low, high)
    name = part.name.removeprefix("part-").removesuffix(".jsonl")
    if not closed:
        merged.cut.append(name)
    if low or high:
        merged.elsewhere[name] = high - low
    merged.unknown += len(open_calls)
    for call in open_calls.values():
        call["error"] = CUT
    for line in waiting:
        yield _shifted(line, low, high)


def _shift(part: Path) -> tuple[int, int]:
    """Read how far the leader's clock was ahead of a part's: it stands first, and again near the end."""
    bounds = (0, 0)
    with part.open("rb") as file:
        first = file.readline()
        file.seek(max(0, part.stat().st_size - 4096))
        for line in _of_kind("shift", [first, *file]):
            bounds = line["low"], line["high"]
    return bounds


def _shifted(line: Line, low: int, high: int) -> Line:
    """Put a line on the leader's clock: a call becomes as much longer as is unknown of the clocks."""
    moved = {"sent": low, "received": high, "planned": (low + high) // 2, "t": (low + high) // 2}
    for name, by in moved.items():
        if by and isinstance(line.get(name), int):
            line[name] += by
    return line


def _received(path: Path, endpoints: Mapping[str, str], merged: Merged) -> Iterator[Line]:
    """Read what the receiver logged: a delivery stands there when it came and again when it was answered."""
    waiting: deque[Line] = deque()
    unanswered: dict[int, Line] = {}
    for line in _lines(path, merged) if path.exists() else ():
        number = line.get("number", 0)
        if line.get("kind") != "delivery":
            waiting.append(line)
        elif number in unanswered:
            unanswered.pop(number).update(line, **_placed(line, endpoints))
        else:
            line.update(_placed(line, endpoints))
            unanswered[number] = line
            waiting.append(line)
        while waiting and waiting[0].get("number") not in unanswered:
            yield waiting.popleft()
    yield from waiting


def _placed(line: Line, endpoints: Mapping[str, str]) -> Line:
    """Name the endpoint of a delivery; where no reply told it, it is called by its path."""
    path = line["endpoint"]
    return {"path": path, "endpoint": endpoints.get(path, path)}


def _endpoints(parts: list[Path]) -> dict[str, str]:
    """Read which path of the receiver belongs to which endpoint."""
    endpoints: dict[str, str] = {}
    for part in parts:
        with part.open("rb") as file:
            endpoints |= {line["path"]: line["endpoint"] for line in _of_kind("endpoint", file)}
    return endpoints


def _of_kind(kind: str, raws: Iterable[bytes]) -> Iterator[Line]:
    """Read the lines of one kind that are not broken, without a look at the others."""
    beginning = f'{{"kind":"{kind}",'.encode()
    for raw in raws:
        if raw.startswith(beginning):
            with suppress(ValueError):
                yield json.loads(raw)


def _lines(path: Path, merged: Merged) -> Iterator[Line]:
    with path.open("rb") as file:
        for raw in file:
            try:
                line = json.loads(raw)
            except ValueError:
                line = None
            if isinstance(line, dict):
                yield line
            else:
                merged.broken += 1
