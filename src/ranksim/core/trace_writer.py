"""A trace written line by line, by a driver whose service stands beside it: `TraceWriter`."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.facts import JobKind
from ranksim.core.files import new_file, packing
from ranksim.core.rules import webhooks
from ranksim.core.service.calls import Answer, Attempt, Call, Reply
from ranksim.core.service.jobs import FAILED
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.routes import fill
from ranksim.core.service.spending import SPEND_OF, wanted_of
from ranksim.core.service.state import State
from ranksim.core.trace import (
    UNKNOWN_KEY,
    UNSEEN,
    Header,
    TraceKey,
    as_line,
    hide_secrets,
)


class TraceWriter:
    """Write a trace line by line; the file appears, complete, when the block ends well.

    `salt` is mixed into the digests of secrets: two traces with one salt show one secret alike. `watch` a
    service's state so that keys go by their names. The header is written last, when all keys are known.
    Raises BadInput when `path` cannot be written; .gz and .xz are packed.
    """

    def __init__(
        self, path: str | Path, *, started: Micros, salt: bytes = b"", target: str = "simulation"
    ) -> None:
        self.path = Path(path)
        self.header = Header(started=started, targets={target: ""})
        self.salt = salt
        self.target = target
        self.count = 0
        self._state: State | None = None
        self._names: dict[str, str] = {}
        self._stack = ExitStack()
        self._lines: BinaryIO | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._complete = stack.enter_context(new_file(self.path))
            self._lines = stack.enter_context(tempfile.TemporaryFile(dir=self._complete.parent))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self._finish()

    def watch(self, state: State) -> None:
        """Read the names of keys, and the secrets by which receivers verify, from a service's state."""
        self._state = state

    def write(self, entry: Mapping[str, Any]) -> None:
        """Write one entry as it is; it must hold no secret."""
        if self._lines is None:
            raise ValueError("a trace is written inside its with block")
        self._lines.write(as_line(entry).encode() + b"\n")

    def note(self, t: Micros | None, text: str, **details: Any) -> None:
        """Write a note."""
        self.write({"kind": "note", "t": t, "text": text, **details})

    def exchange(
        self,
        now: Micros,
        client: str,
        call: Call,
        reply: Reply,
        *,
        sent: Micros | None = None,
        arrived: Micros | None = None,
        received: Micros | None = None,
    ) -> None:
        """Write a call and its reply, all at `now` unless something else is said."""
        ended = now if received is None else received
        travelled = {} if arrived is None else {"arrived": arrived}
        self.write(
            {
                **self._sent(now if sent is None else sent, ended, client, call, reply),
                "status": reply.status,
                "response_headers": dict(reply.headers),
                "response": hide_secrets(as_line(reply.body) if reply.body is not None else "", self.salt),
                "effect": _effect(call, reply),
                "error": None,
                **travelled,
            }
        )

    def lost(self, sent: Micros, client: str, call: Call, arrives: bool) -> str:
        """Write a call whose reply its sender never saw, and return its id in the trace.

        One that never `arrives` has no effect.
        """
        self.write(
            {
                **self._sent(sent, None, client, call),
                "status": None,
                "response_headers": {},
                "response": "",
                "effect": "unknown" if arrives else "none",
                "error": "no reply",
            }
        )
        return f"x{self.count}"

    def unseen(self, lost: str, arrived: Micros, reply: Reply) -> None:
        """Write when a lost call, by its id in the trace, took effect, and what it was answered."""
        body = hide_secrets(as_line(reply.body) if reply.body is not None else "", self.salt)
        self.note(None, UNSEEN, call=lost, arrived=arrived, status=reply.status, response=body)

    def _sent(
        self, sent: Micros, received: Micros | None, client: str, call: Call, reply: Reply | None = None
    ) -> dict[str, Any]:
        """Return what a line says of a call, under the next number; whose it is the `reply` tells, too."""
        operation = OPERATIONS.get(call.operation)
        self.count += 1
        return {
            "kind": "exchange",
            "id": f"x{self.count}",
            "target": self.target,
            "environment": call.environment,
            "clock_host": self.target,
            "planned": None,
            "sent": sent,
            "received": received,
            "api_key": self._key_name(call.key),
            "account": self._account_name((reply and reply.account) or call.account),
            "client": client,
            "surface": call.surface,
            "operations": [call.operation] if call.operation else [],
            "method": call.method or ("" if operation is None else operation.method),
            "path": "" if operation is None else "/v1/" + fill(call.operation, call.path),
            "query": dict(call.query),
            "request_headers": _request_headers(call),
            "body": _raw_body(call),
            **self._units(call, reply),
        }

    def _units(self, call: Call, reply: Reply | None) -> dict[str, int]:
        """Return what the job that a call asks for wants, before any cap, where the service's state tells."""
        body = call.body or {}
        kind, which = body.get("kind"), body.get("domain_id")
        state = self._state
        if state is None or call.operation != "jobs.create" or not isinstance(which, str):
            return {}
        domain = state.domains.get(which)
        if kind == JobKind.RANK_RUN:
            created = None if reply is None else (reply.body or {}).get("data")
            job = state.jobs.get(created["id"]) if isinstance(created, dict) and "id" in created else None
            return {} if job is None else {"units": job.units}
        if domain is None or kind not in list(JobKind):
            return {}
        return {"units": wanted_of(state.seed, domain, SPEND_OF[kind])}

    def delivery(self, sent: Micros, answered: Micros, attempt: Attempt, answer: Answer, acted: bool) -> None:
        """Write a webhook attempt, unless it never got to its receiver."""
        if answer.status is None and not acted:
            return
        signature = attempt.headers.get("Service-Signature", "")
        stamp = re.match(r"t=(\d+),", signature)
        self.write(
            {
                "kind": "delivery",
                "received": sent,
                "answered": None if answer.status is None else answered,
                "endpoint": attempt.endpoint,
                "headers": dict(attempt.headers),
                "body": attempt.body.decode(),
                "signature": {
                    "valid": self._verified(attempt, signature, sent),
                    "t": int(stamp[1]) if stamp else None,
                    "checked_by": "ranksim",
                },
                "status": answer.status,
            }
        )

    def _verified(self, attempt: Attempt, signature: str, now: Micros) -> bool | None:
        endpoint = None if self._state is None else self._state.endpoints.get(attempt.endpoint)
        if endpoint is None:
            return None
        return webhooks.verify(endpoint.secret, signature, attempt.body, now // SECOND)

    def _key_name(self, token: str | None) -> str | None:
        return None if token is None else self._key_names().get(token, UNKNOWN_KEY)

    def _key_names(self) -> dict[str, str]:
        """Name every key. A new token under an old name is another key to whoever judges: it is numbered."""
        keys = {} if self._state is None else self._state.keys
        if len(self._names) != len(keys):
            names: dict[str, str] = {}
            for token, key in keys.items():
                plain = f"{self._account_name(key.account)}/{key.name}"
                name = next(name for name in _numbered(plain) if name not in names)
                names[name] = token
            self._names = {token: name for name, token in names.items()}
        return self._names

    def _account_name(self, account: str) -> str:
        account_state = None if self._state is None else self._state.accounts.get(account)
        return account if account_state is None else account_state.name

    def _note_jobs(self, state: State) -> None:
        """Write how each job ended, if it has, which calls and deliveries need not show."""
        for job in state.jobs.values():
            more = {"failed": job.status == FAILED, "cost": job.cost, "estimate": job.estimate}
            self.note(None, "how a job ended", job=job.id, finished_at=job.finished_at, **more)

    def _finish(self) -> None:
        """Put the header and the lines together."""
        if self._lines is None:
            return
        if self._state is not None:
            self._note_jobs(self._state)
            keys = {
                name: TraceKey(
                    account=self._account_name(key.account), environment=key.environment, domain_id=key.domain
                )
                for name, key in zip(self._key_names().values(), self._state.keys.values(), strict=True)
            }
            self.header = self.header.model_copy(update={"keys": {**self.header.keys, **keys}})
        self._lines.seek(0)
        with packing(self._complete, self.path) as file:
            file.write(as_line(self.header.model_dump()).encode() + b"\n")
            shutil.copyfileobj(self._lines, file)


def _numbered(name: str) -> Iterator[str]:
    """Yield a name, then "name.2", "name.3" and so on."""
    yield name
    yield from (f"{name}.{number}" for number in count(2))


def _request_headers(call: Call) -> dict[str, str]:
    headers = {"Idempotency-Key": call.idempotency_key, "X-Request-Id": call.request_id}
    return {name: value for name, value in headers.items() if value is not None}


def _raw_body(call: Call) -> str:
    if call.raw is not None:
        return call.raw.decode(errors="replace")
    return "" if call.body is None else as_line(call.body)


def _effect(call: Call, reply: Reply) -> str:
    operation = OPERATIONS.get(call.operation)
    changes = operation is not None and operation.method != "GET"
    return "yes" if changes and reply.status < 400 and reply.outcome in ("ok", "granted") else "none"
