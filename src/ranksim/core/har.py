"""Recordings of other tools as traces: HAR files (of browsers, proxies, gateways), access logs and tables.

What such a file does not have is left null, which a trace takes as not recorded. Tokens are told apart and
forgotten: a key is called key-1, key-2, … in the order in which they come. Source: HTTP Archive 1.2.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ranksim.core.clock import MILLISECOND, SECOND, Micros, instant
from ranksim.core.errors import BadInput, one_among
from ranksim.core.records import parsed_object, read_whole
from ranksim.core.service.routes import offered
from ranksim.core.tables import (
    UNNAMED_KEY,
    UNREADABLE,
    Duplicates,
    columns_with,
    exchange_of,
    is_table,
    read_log,
    read_table,
)
from ranksim.core.trace import Exchange, Header, Trace, TraceKey, hide_secrets, safe_headers

Json = Any

PRODUCTION, SANDBOX = "production", "sandbox"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What recordings do not say themselves.

    `hosts` are the base URLs of the API by environment, without which everything that looks like it is taken;
    `accounts` whose keys are by their names, where no GET /v1/account was recorded. `one_key`: whether all
    calls were sent with one key, where tokens are not recorded; `by_client`: whether each client of a log
    is a key. `account_from` says what else names the account: user or address of a log, a header, a column of
    a table; `columns_are` which column holds a field, as `read_table` has it. Calls whose length was not
    recorded took at most `longest` (µs). Secrets in replies are digested with a `salt`, which who imports
    draws. `skip_bad` leaves lines of logs and rows of tables out that cannot be read.
    """

    hosts: Mapping[str, str] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    exclusive: bool = False
    one_key: bool = False
    by_client: bool = False
    account_from: str = ""
    columns_are: Mapping[str, str] = field(default_factory=dict)
    longest: Micros = 60 * SECOND
    salt: bytes = b""
    skip_bad: bool = False


def trace_of(paths: Sequence[Path], options: ImportOptions) -> tuple[Trace, list[str]]:
    """Return recordings of one run as one trace, in order of sending, and what to know of it.

    Raises BadInput for a file that is no recording, or in which no call of the API is.
    """
    importer = _HarReader(options)
    for number, path in enumerate(paths, 1):
        importer.read(path, f"{number}." if len(paths) > 1 else "")
    if not importer.exchanges:
        why = importer.first_bad or "give its --host"
        raise BadInput(f"{paths[0]}: has no call of the API among {importer.others}; {why}")
    return importer.trace(), importer.notes()


@dataclass(slots=True)
class _HarReader:
    options: ImportOptions
    exchanges: list[Exchange] = field(default_factory=list)
    others: int = 0
    """Calls that are not of the API."""
    tokens: dict[tuple[str, str], str] = field(default_factory=dict)
    """The names of keys, by their tokens, which are written nowhere, and the accounts that calls name."""
    keys: dict[str, TraceKey] = field(default_factory=dict)
    unnamed: int = 0
    """Calls of which no key was recorded."""
    unknown: list[Exchange] = field(default_factory=list)
    """The methods and paths of calls of no operation."""
    origins: set[str] = field(default_factory=set)
    duplicates: Duplicates = field(default_factory=Duplicates)
    unreadable: int = 0
    first_bad: str = ""
    """What is wrong with the first line or row that was skipped."""

    def read(self, path: Path, prefix: str) -> None:
        """Read a recording; its ids begin with a prefix."""
        if self.options.columns_are or is_table(path):
            calls = self._tabled(path)
        else:
            content = read_whole(path)
            is_json = content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
            if is_json and self.options.skip_bad:
                raise BadInput(f"{path}: is a HAR file, of which nothing is skipped; leave --skip-bad out")
            calls = self._archived(path, content) if is_json else self._logged(path)
        for number, exchange in enumerate(calls, 1):
            if exchange is None:
                self.others += 1
                continue
            self.exchanges.append(exchange.model_copy(update={"id": f"{prefix}{number}"}))
            self._learn(exchange)
            if is_unknown_call(exchange):
                self.unknown.append(exchange)

    def trace(self) -> Trace:
        """Return all that was read as a trace."""
        options, calls = self.options, sorted(self.exchanges, key=lambda exchange: exchange.sent)
        for name, account in options.accounts.items():
            if name not in self.keys:
                raise BadInput(f"--account: expected {one_among(self.keys, name)}")
            self.keys[name] = self.keys[name].model_copy(update={"account": account})
        header = Header(
            started=calls[0].sent,
            targets=dict(options.hosts) or {PRODUCTION: min(self.origins, default="")},
            keys=self.keys,
            exclusive=options.exclusive,
            capture="complete" if options.complete else "partial",
        )
        return Trace(header, calls)

    def notes(self) -> list[str]:
        """Say what was left out, and what is not known."""
        unknown = [name for name, key in self.keys.items() if not key.account]
        notes = [f"{self.others} calls of other addresses were left out"] if self.others else []
        if self.unreadable:
            notes.append(f"left out: {self.unreadable:,} {UNREADABLE}")
            notes.append(f"the first that cannot be read is {self.first_bad}")
        notes += filter(None, (self.duplicates.note.removesuffix("."),))
        if self.unknown:
            notes.append(unknown_calls_note(self.unknown))
        if unknown:
            notes.append(
                f"whose {', '.join(unknown)} is, no GET /v1/account tells; say --account {unknown[0]}=ID"
            )
        if self.unnamed:
            notes.append(
                f"of {self.unnamed} calls no key was recorded, so they are judged by their form alone; say "
                "--one-key, --account-from, or --by-client of a log, where that is so"
            )
        return notes

    def _key(self, token: str | None, environment: str, account: str = "") -> str:
        """Return the name of a key, of an account if that is named; "" where nothing tells keys apart."""
        if token is None and not account and not self.options.one_key:
            return ""
        name = self.tokens.setdefault((token or "", account), f"key-{len(self.tokens) + 1}")
        self.keys.setdefault(name, TraceKey(environment=environment, account=account))
        return name

    def _learn(self, exchange: Exchange) -> None:
        """Take the account of a key from what GET /v1/account answered."""
        self.unnamed += exchange.api_key == ""
        is_account = exchange.method == "GET" and exchange.path.endswith("/v1/account")
        if not is_account or exchange.status != 200 or exchange.api_key not in self.keys:
            return
        reply = parsed_object(exchange.response or "") or {}
        account = reply.get("data", reply)
        if isinstance(account, dict) and account.get("id"):
            key = self.keys[exchange.api_key]
            self.keys[exchange.api_key] = key.model_copy(update={"account": str(account["id"])})

    def _environment(self, url: str) -> str | None:
        """Return where a call was sent, None where that is not the API."""
        bases = sorted(self.options.hosts.items(), key=lambda item: -len(item[1]))
        for environment, base in bases:
            if url == base or url.startswith(base.rstrip("/") + "/"):
                return environment
        parts = urlsplit(url)
        if bases or not ("/v1/" in parts.path or parts.path.endswith("/graphql")):
            return None
        self.origins.add(f"{parts.scheme}://{parts.netloc}")
        if len(self.origins) > 1:
            raise BadInput(f"--host: expected which of {', '.join(sorted(self.origins))} is the API")
        return SANDBOX if "/sandbox/" in parts.path else PRODUCTION

    def _archived(self, path: Path, content: bytes) -> Iterator[Exchange | None]:
        """Yield the entries of a HAR file, None for one that is not of the API. Raises BadInput."""
        try:
            for entry in json.loads(content.decode("utf-8-sig"))["log"]["entries"]:
                request = entry["request"]
                environment = self._environment(request["url"])
                if environment is None:
                    yield None
                else:
                    timing = entry["startedDateTime"], entry["time"]
                    yield self._of_har(request, entry["response"], environment, *timing)
        except BadInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BadInput(
                f"{path}: expected a HAR file of version 1.2, whose log.entries have a request and a response"
            ) from None

    def _of_har(
        self, request: Json, response: Json, environment: str, started: str, lasted: float
    ) -> Exchange:
        url, status = urlsplit(request["url"]), response["status"] or None
        sent_headers = _headers(request)
        # Instants are whole milliseconds, and rounded either way.
        sent = instant(started) - MILLISECOND
        received = sent + math.ceil(lasted * MILLISECOND) + 2 * MILLISECOND
        content, reply = response.get("content") or {}, None
        if "text" in content:
            reply = content["text"]
            if content.get("encoding") == "base64":
                reply = base64.b64decode(reply).decode("utf-8", "replace")
        elif not content.get("size"):
            reply = ""
        posted = (request.get("postData") or {}).get("text")
        body = posted if posted is not None else "" if request.get("bodySize", 0) in (0, None) else None
        return Exchange(
            id="",
            sent=sent,
            received=None if status is None else received,
            operations=(),
            method=request["method"],
            path=url.path,
            environment=environment,
            api_key=self._key_of(sent_headers, environment),
            surface="graphql" if url.path.endswith("/graphql") else "rest",
            query=dict(parse_qsl(url.query, keep_blank_values=True)),
            request_headers=safe_headers(sent_headers),
            body=None if body is None else hide_secrets(body, self.options.salt),
            status=status,
            response_headers=safe_headers(_headers(response)) if status else {},
            response=""
            if status is None
            else None
            if reply is None
            else hide_secrets(reply, self.options.salt),
        )

    def _key_of(self, headers: Mapping[str, str], environment: str) -> str:
        lowered = {name.lower(): value for name, value in headers.items()}
        account = lowered.get(self.options.account_from.lower(), "")
        return self._key(lowered.get("authorization"), environment, account)

    def _logged(self, path: Path) -> Iterator[Exchange | None]:
        """Yield the calls of an access log, which writes when a call ended, in whole seconds."""
        stated = self.options.account_from
        for _, line in read_log(path, stated, None, self._bad, self.duplicates):
            account = {"user": line.user, "address": line.client}.get(stated, "")
            client = line.client if self.options.by_client else None
            call = exchange_of("", line.t, account, line.method, line.path, line.status, client)
            times = {"sent": max(0, line.t - self.options.longest), "received": line.t + SECOND}
            yield self._placed(call, times)

    def _tabled(self, path: Path) -> Iterator[Exchange | None]:
        """Yield the calls of a table; one whose length it lacks began or ended at its time."""
        columns = columns_with(path, self.options.columns_are, self.options.account_from)
        longest = self.options.longest
        for call in read_table(path, columns, None, self._bad, duplicates=self.duplicates):
            grain = SECOND if call.sent % SECOND == 0 else MILLISECOND  # to which instants are rounded
            before, after = (grain, grain) if (call.received or 0) > call.sent else (longest, longest + grain)
            received = None if call.received is None else call.received + after
            key = None if call.api_key == UNNAMED_KEY else call.api_key
            times = {"sent": max(0, call.sent - before), "received": received}
            query = call.query or None  # as a path is often exported without
            yield self._placed(call.model_copy(update={"api_key": key, "query": query}), times)

    def _bad(self, error: BadInput) -> None:
        """Leave out a line or row that cannot be read, where that is asked for. Raises BadInput."""
        if not self.options.skip_bad:
            raise BadInput(f"{error}; or leave out what cannot be read with --skip-bad") from None
        self.unreadable += 1
        self.first_bad = self.first_bad or str(error)

    def _placed(self, call: Exchange, times: Mapping[str, Micros | None]) -> Exchange | None:
        """Return a call of a log or a table with its key and times, None for one that is not of the API."""
        if not ("/v1/" in call.path or call.surface == "graphql"):
            return None
        environment = SANDBOX if "/sandbox/" in call.path else PRODUCTION
        body, response = (
            hide_secrets(text, self.options.salt) if text else None for text in (call.body, call.response)
        )
        key = self._key(call.api_key, environment, call.account)
        return call.model_copy(
            update={
                **times, "environment": environment, "api_key": key, "account": "", "body": body,
                "response": response,
            }
        )  # fmt: skip


def unknown_calls_note(calls: Sequence[Exchange]) -> str:
    """Say how many calls are of an unknown operation, and what the first is."""
    first = calls[0]
    return f"calls of an unknown operation: {len(calls):,}, the first {first.method} {first.path}"


def is_unknown_call(call: Exchange) -> bool:
    """Whether a call is of no operation; a CORS preflight is of any."""
    methods, _ = offered(call.path.rpartition("/v1/")[2].rstrip("/"))
    return call.surface == "rest" and call.method not in ("OPTIONS", *methods)


def _headers(message: Json) -> dict[str, str]:
    """Return headers by name; one that came several times has its values joined by commas."""
    joined: dict[str, str] = {}
    for header in message["headers"]:
        name, value = header["name"], header["value"]
        if not name.startswith(":"):  # of HTTP/2, which are no headers
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
