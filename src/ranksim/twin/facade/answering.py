"""One request to the service: what befalls it, its answer once that is kept, and what is noted of both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter_ns

from ranksim.core.clock import SECOND, Micros, http_date
from ranksim.core.rules.access import resolve
from ranksim.core.service.calls import Fault, Reply
from ranksim.twin.facade.fault_answers import answer_by
from ranksim.twin.facade.faults import InjectedFault
from ranksim.twin.facade.http.requests import PREFLIGHT, HttpRequest, write_headers
from ranksim.twin.facade.journal.journaled_service import NotKept
from ranksim.twin.facade.logged_event import LONGEST_TEXT, AnsweredCall
from ranksim.twin.facade.request_journal import RecordedExchange, join_headers
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.asgi import Header, Scope, Send

DROPPED = Reply(0, None, outcome="dropped")
"""What stands for the answer to a call that was dropped before its effect."""


PARTS_A_SECOND = 20
"""In how many parts a second a slow body comes."""


class Dropped(Exception):
    """The connection is to be closed without an answer; raised where the server gives no way to close it.

    `part` is what was sent of the answer: status, headers, and as much of the body; None for nothing.
    """

    def __init__(self, part: tuple[int, list[Header], bytes] | None) -> None:
        super().__init__("the connection was dropped, as a fault wanted")
        self.part = part


@dataclass(frozen=True, slots=True)
class Deprecation:
    """The old surface is deprecated since an instant, and goes away at a later one (S114, U81), in µs."""

    since: Micros
    sunset: Micros

    def headers(self) -> tuple[Header, ...]:
        """Write the two headers (RFC 9745, RFC 8594)."""
        return (
            (b"deprecation", b"@%d" % (self.since // SECOND)),
            (b"sunset", http_date(self.sunset).encode()),
        )


@dataclass(slots=True)
class HttpResponse:
    """What goes out at an instant of the service's clock, and the replies that it carries.

    `kept` where what led to it was waited for already: whatever cannot be kept later is another's.
    """

    status: int
    headers: list[Header]
    body: bytes
    replies: list[Reply]
    at: Micros
    kept: bool = False


@dataclass(slots=True)
class ServiceRequest:
    """A request on its way, which `began` at a value of `perf_counter_ns`, and the fault that befalls it."""

    twin: Twin
    scope: Scope
    send: Send
    request: HttpRequest
    began: int
    fault: InjectedFault | None

    async def suffer(self, fault: InjectedFault) -> bool:
        """Apply a fault before the effect; return whether the request goes on."""
        call = self.request.call
        if fault.delay_s:
            await self._delay(fault.delay_s)
        if fault.drop == "before":
            self._log(self.twin.now(), None)
            _drop(self.scope)
            return False
        if fault.fails:
            call.fault, call.idempotency_key = Fault("internal_error"), None
        elif fault.answer is not None and fault.answer.answers_instead:
            at = self.twin.now()
            reply = Reply(0, None, outcome="faulted", operation=call.operation)
            headers = response_headers({}, 0, at)
            await self._send(HttpResponse(0, headers, b"", [reply], at, kept=True))
            return False
        return True

    async def _delay(self, seconds: float) -> None:
        """Delay the request, as a fault wants; it is cancelled when the server ends."""
        task, delayed = asyncio.current_task(), self.twin.delayed_requests
        assert task is not None
        delayed.add(task)
        try:
            await asyncio.sleep(seconds)
        finally:
            delayed.discard(task)

    async def respond(self, ask: Callable[[], Awaitable[HttpResponse]]) -> None:
        """Send what the service answers, once it is kept; note that it was written.

        What cannot be kept was undone, and is asked again: a write is then refused, a read answered.
        """
        twin = self.twin
        answer = await ask()
        try:
            while not answer.kept:
                try:
                    await twin.commit()
                    break
                except NotKept:
                    answer = await ask()
            if wait := max((reply.wait for reply in answer.replies), default=0):
                await asyncio.sleep((twin.clock.wall_until(answer.at + wait) or 0) / SECOND)
            await self._send(answer)
        finally:
            for reply in answer.replies:
                twin.written(reply)

    async def _send(self, answer: HttpResponse) -> None:
        """Send an answer, as far as a fault lets it, and note that."""
        twin, fault = self.twin, self.fault
        drop = "" if fault is None else fault.drop
        if self.request.close:
            answer.headers.append((b"connection", b"close"))
        if fault is not None:
            await self._suffer_late(fault, answer)
        for reply in () if drop == "after" else answer.replies:
            twin.replies[reply.operation, answer.status if reply.outcome == "faulted" else reply.status] += 1
        if twin.requests is not None:
            twin.requests.record(self._exchange(answer, drop != ""))
        self._log(answer.at, answer)
        if drop == "after":
            _drop(self.scope)
            return
        status, headers = answer.status, answer.headers
        body = b"" if self.scope["method"] == "HEAD" else answer.body
        respond_at_once = self.scope.get("ranksim.respond")
        if fault is not None and (fault.bytes_per_second or drop):
            await self._send_in_parts(fault, status, headers, body)
        elif respond_at_once is not None:
            await respond_at_once(status, headers, body)
        else:
            await self.send({"type": "http.response.start", "status": status, "headers": headers})
            await self.send({"type": "http.response.body", "body": body})

    async def _send_in_parts(
        self, fault: InjectedFault, status: int, headers: list[Header], body: bytes
    ) -> None:
        """Send an answer slowly, or as far as its middle, where the connection is dropped."""
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        until = len(body) // 2 if fault.drop else len(body)
        rate = fault.bytes_per_second or max(1, until)
        size = max(1, rate // PARTS_A_SECOND) if fault.bytes_per_second else max(1, until)
        for begin in range(0, until, size):
            part = body[begin : min(begin + size, until)]
            await self.send({"type": "http.response.body", "body": part, "more_body": True})
            if fault.bytes_per_second:
                await self._delay(size / rate)
        if fault.drop:
            _drop(self.scope, (status, headers, body[:until]))
            return
        await self.send({"type": "http.response.body", "body": b""})

    async def _suffer_late(self, fault: InjectedFault, answer: HttpResponse) -> None:
        """Let an answer be late, and another, as a fault wants, and say so in it."""
        if fault.delay_after_s:
            await self._delay(fault.delay_after_s)
        if fault.answer is not None and not fault.fails:
            answer.status, answer.headers, answer.body = answer_by(
                fault.answer, answer.status, answer.headers, answer.body, answer.at
            )
        if fault.rules:
            answer.headers.append((b"ranksim-fault", ", ".join(fault.rules).encode()))
            answer.headers[:] = [
                (name, value + b", Ranksim-Fault" if name == b"access-control-expose-headers" else value)
                for name, value in answer.headers
            ]

    def _exchange(self, answer: HttpResponse, dropped: bool) -> RecordedExchange:
        """Return the exchange as the journal of requests has it."""
        first = answer.replies[0]
        return RecordedExchange(
            at=answer.at,
            surface=self.request.call.surface,
            environment=self.request.call.environment,
            method=self.scope["method"],
            path=raw_path(self.scope),
            query=self.scope["query_string"],
            request_headers=join_headers(self.scope["headers"]),
            body=self.request.call.raw or b"",
            operations=tuple(reply.operation for reply in answer.replies),
            account=first.account,
            status=answer.status,
            response_headers=join_headers(answer.headers),
            response=answer.body,
            dropped=dropped,
        )

    def _log(self, at: Micros, answer: HttpResponse | None) -> None:
        """Log a call that was answered, or dropped before its effect."""
        twin, scope, call, fault = self.twin, self.scope, self.request.call, self.fault
        replies = [] if answer is None else answer.replies
        logged = replies[0] if replies else DROPPED
        for reply in replies[1:] if logged.code == "" else ():
            if reply.code:
                logged = reply
                break
        key = resolve(twin.service.state.keys, call.key, call.environment)
        number = 0 if answer is None or twin.requests is None else twin.requests.last
        twin.event_log.add(
            AnsweredCall(
                at,
                number,
                call.surface,
                call.environment,
                scope["method"],
                raw_path(scope)[:LONGEST_TEXT],
                tuple([reply.operation for reply in replies]) or (call.operation,),
                logged.account if key is None else key.account,
                "" if key is None else key.name,
                0 if answer is None else answer.status,
                logged.code,
                logged.check,
                logged.outcome,
                logged.rate_class,
                () if fault is None else fault.rules,
                (perf_counter_ns() - self.began) // 1_000,
                scope["query_string"][:LONGEST_TEXT].decode("latin-1"),
                "" if fault is None else fault.drop,
            )
        )


def response_headers(
    named: Mapping[str, str], length: int | None, now: Micros, extra: tuple[Header, ...] = ()
) -> list[Header]:
    """Write the headers of a response, with the date of the service's clock (RFC 9110, section 6.6.1)."""
    return [(b"date", _date(now // SECOND)), *write_headers(named, length, extra)]


@lru_cache(maxsize=16)
def _date(seconds: int) -> bytes:
    return http_date(seconds * SECOND).encode()


def raw_path(scope: Scope) -> str:
    """Return the path as it was sent, percent signs included."""
    raw = scope.get("raw_path")
    path: str = scope["path"] if raw is None else raw.decode("latin-1")
    return path


def _drop(scope: Scope, part: tuple[int, list[Header], bytes] | None = None) -> None:
    """Close the connection at once, as a broken network does, when a part of the answer was sent."""
    abort = scope.get("ranksim.abort")
    if abort is None:
        raise Dropped(part)
    abort()


def headers_about_methods(method: str, allow: str, status: int) -> tuple[Header, ...]:
    """Write what OPTIONS and a 405 say of a path's methods (U80)."""
    if method == "OPTIONS":
        methods = (allow or "GET, HEAD, POST, PATCH, DELETE, OPTIONS").encode()
        return ((b"allow", methods), (b"access-control-allow-methods", methods), *PREFLIGHT)
    return ((b"allow", allow.encode()),) if allow and status == 405 else ()
