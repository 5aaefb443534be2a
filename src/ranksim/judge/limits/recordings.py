"""Calls under a limit from recordings: access logs, HAR files and traces, by whoever is limited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ranksim.core.clock import MILLISECOND, SECOND, Micros, instant
from ranksim.core.contract.rate_table import Weigher, check_by, who_states
from ranksim.core.errors import BadInput
from ranksim.core.records import parsed_object, read_access_log, read_whole
from ranksim.core.trace import Trace
from ranksim.judge.limits.calls import LimitedCall


def read_calls(
    source: str | Path | Trace, by: str = "", longest: Micros = SECOND, weigh: str = ""
) -> list[LimitedCall]:
    """Read the calls of a recording; `key` of each is who is limited.

    `by` is one of `PARTITIONS`, `header:NAME` or `request:/POINTER`; without, the client of an access log,
    and otherwise the key. A call of an access log took at most `longest` µs. `weigh` is where a call says how
    much it takes (`Weigher`). Raises BadInput.
    """
    weight = Weigher(weigh)
    by = check_by(by) if by else ""
    if isinstance(source, Trace):
        return list(_of_trace(source, by or "key", weight))
    path = Path(source)
    if path.is_dir():
        path = path / "trace.jsonl"
    if path.suffix in (".gz", ".xz") and ".jsonl" in path.name:
        return list(_of_trace(Trace.read(path), by or "key", weight))
    begin = read_whole(path).lstrip(b"\xef\xbb\xbf \t\r\n")[:4096]
    if not begin.startswith(b"{"):
        return list(_of_log(path, by or "client", longest))
    first = begin.splitlines()[0]
    if b'"ranksim_trace"' in first:
        return list(_of_trace(Trace.read(path), by or "key", weight))
    return list(_of_har(path, by or "key", weight))


def _of_trace(trace: Trace, by: str, weight: Weigher) -> Iterator[LimitedCall]:
    for exchange in trace.exchanges:
        headers = {name.lower(): value for name, value in (exchange.request_headers or {}).items()}
        who = _who(by, exchange.client, exchange.api_key or "", exchange.path, headers, exchange.body)
        yield LimitedCall(
            exchange.id,
            exchange.sent,
            exchange.sent + 60 * SECOND if exchange.received is None else exchange.received,
            exchange.status,
            exchange.response_headers or {},
            exchange.method,
            exchange.path,
            who,
            weight(headers, exchange.body, exchange.response_headers, exchange.response),
            headers,
        )


def _of_har(path: Path, by: str, weight: Weigher) -> Iterator[LimitedCall]:
    tokens: dict[str, str] = {}
    try:
        for number, entry in enumerate(json.loads(read_whole(path).decode("utf-8-sig"))["log"]["entries"], 1):
            request, response = entry["request"], entry["response"]
            headers = _headers(request)
            token = headers.get("authorization", "")
            key = tokens.setdefault(token, f"key-{len(tokens) + 1}" if token else "")
            below, texts = urlsplit(request["url"]).path, _texts(request, response)
            # whole milliseconds, rounded either way
            sent = instant(entry["startedDateTime"]) - MILLISECOND
            yield LimitedCall(
                f"x{number}",
                sent,
                sent + round(entry["time"] * MILLISECOND) + 3 * MILLISECOND,
                response["status"] or None,
                _headers(response),
                request["method"],
                below,
                _who(by, "", key, below, headers, texts[0]),
                weight(headers, *texts),
                headers,
            )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadInput(
            f"{path}: expected an access log, a HAR file of version 1.2, or a trace, and found other JSON"
        ) from None


def _of_log(path: Path, by: str, longest: Micros) -> Iterator[LimitedCall]:
    """Yield the calls of an access log, which writes when a call ended, in whole seconds."""
    for number, line in enumerate(read_access_log(path), 1):
        below = urlsplit(line.path).path
        yield LimitedCall(
            f"line {number}",
            max(0, line.t - longest),
            line.t + SECOND,
            line.status,
            {},
            line.method,
            below,
            _who(by, line.client, line.user, below, {}, None),
        )


def _texts(request: Any, response: Any) -> tuple[str | None, dict[str, str], str | None]:
    """Return the body of a HAR entry's request, the headers of its response, and their body."""
    posted, content = request.get("postData") or {}, response.get("content") or {}
    return posted.get("text"), _headers(response), content.get("text")


def _headers(message: Any) -> dict[str, str]:
    return {str(each["name"]).lower(): str(each["value"]) for each in message["headers"]}


def _who(by: str, client: str, key: str, path: str, headers: dict[str, str], body: str | None) -> str:
    """Return who is limited."""
    if ":" in by:
        return who_states(by, headers, parsed_object(body))
    return {"client": client, "key": key, "path": path, "all": ""}[by]


def by_who(calls: Iterable[LimitedCall]) -> dict[str, list[LimitedCall]]:
    """Return the calls of each who is limited, the busiest first."""
    parts: dict[str, list[LimitedCall]] = {}
    for call in calls:
        parts.setdefault(call.key, []).append(call)
    return dict(sorted(parts.items(), key=lambda item: -len(item[1])))
