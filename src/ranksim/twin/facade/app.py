"""The HTTP surface: a plain ASGI app around a twin.

/v1 and /graphql are production, /sandbox/v1 and /sandbox/graphql the sandbox (S1). /_ranksim is the control
API, and to browsers, as / is, the live page; /openapi.json, /schema.graphql and /docs describe the service;
/livez, /readyz and /metrics are for those who run it. Everything else is answered by the service too, as a
path where there is nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

from pydantic_core import to_json

from ranksim.core.contract.policy import Policy
from ranksim.core.contract.rate_table import headers_read
from ranksim.core.service.calls import Call, Fault, Reply
from ranksim.core.service.errors import problem
from ranksim.twin.facade.answering import (
    Deprecation,
    HttpResponse,
    ServiceRequest,
    headers_about_methods,
    raw_path,
    response_headers,
)
from ranksim.twin.facade.faults import InjectedFault
from ranksim.twin.facade.http.requests import (
    JSON,
    HttpRequest,
    call_of,
    payload_of,
    read_raw,
    read_request,
)
from ranksim.twin.facade.journal.journaled_service import NotKept
from ranksim.twin.facade.metrics import metrics
from ranksim.twin.facade.page import serving as page
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.asgi import Gone, Header, Message, Receive, Scope, Send
from ranksim.twin.serving.control_auth import refusal, take_token

if TYPE_CHECKING:
    from ranksim.twin.facade.http.graphql import GraphqlEndpoint
    from ranksim.twin.facade.terminal import Terminal

log = logging.getLogger("ranksim.facade")

MIB = 1_048_576

LARGE = 65_536
"""Bytes of a body that is parsed in one turn of the loop and answered in the next."""

CONTROL = "/_ranksim"
JOURNAL = f"{CONTROL}/requests"
"""The journal of requests is in memory alone: whatever is asked of it, no file keeps it."""

SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing (RFC 9110, section 9.2.1)."""

GRAPHQL_ALLOWS = "OPTIONS, POST"
POST_ONLY = (
    "GraphQL is POST only: send the document as JSON in the body (of urql, say preferGetMethod: false)."
)


class Facade:
    """The ASGI app of a twin.

    `token` must be sent as a bearer token to the control API, which is served under `control_names`, besides
    loopback's and the address of the connection. `docs` serves the OpenAPI document, the GraphQL
    schema and the reference page. `max_body` is the largest body in bytes. With `deprecation` all of /v1 says
    so, and /v2 answers as /v1 does. Unknown query parameters and fields of bodies are refused, so that a
    client's typo is found; without `strict_query` (U100) and `strict_body` (U84) they are ignored.
    """

    def __init__(
        self,
        twin: Twin,
        *,
        token: str | None = None,
        docs: bool = True,
        max_body: int = MIB,
        deprecation: Deprecation | None = None,
        strict_query: bool = True,
        strict_body: bool = True,
        control_names: Collection[str] = (),
    ) -> None:
        self.twin = twin
        self.control_names = control_names
        self.token = token
        self.docs = docs
        self.max_body = max_body
        self.strict_query, self.strict_body = strict_query, strict_body
        self.terminal: Terminal | None = None
        """What tells of calls and webhooks beside, while this is served."""
        self.prepare: Callable[[], None] | None = None
        """What is done in a thread once this is served, so that nobody waits for it later."""
        self._endpoint: GraphqlEndpoint | None = None
        self._documents: dict[Callable[[Policy], bytes], asyncio.Future[bytes]] = {}
        deprecated: tuple[Header, ...] = () if deprecation is None else deprecation.headers()
        self._versions = [("/v1/", "production", deprecated), ("/sandbox/v1/", "sandbox", deprecated)]
        if deprecation is not None:
            self._versions += [("/v2/", "production", ()), ("/sandbox/v2/", "sandbox", ())]
        self._places: dict[str, Callable[[Scope, Receive, Send], Awaitable[None]]] = {
            "/graphql": self._graphql,
            "/sandbox/graphql": self._graphql,
            "/livez": self._alive,
            "/readyz": self._alive,
            "/metrics": self._metrics,
        }
        if docs:
            self._places |= {
                "/openapi.json": partial(self._describe, _service_document),
                "/schema.graphql": self._schema,
                "/docs/control.json": self._control_document,
                "/docs/graphql.json": partial(self._describe, _graphql_reference),
                **dict.fromkeys(page.FORMS, self._form_file),
            }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the server's start and end."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        path: str = raw_path(scope)
        try:
            for prefix, environment, headers in self._versions:
                if path.startswith(prefix):
                    await self._rest(scope, receive, send, environment, path[len(prefix) :], headers)
                    return
            if path in self._places:
                await self._places[path](scope, receive, send)
            elif page.is_wanted(path, scope):
                await self._page(path, scope, send)
            elif path == CONTROL or path.startswith(CONTROL + "/"):
                await self._control(scope, receive, send)
            else:
                environment = "sandbox" if path.startswith("/sandbox/") else "production"
                await self._rest(scope, receive, send, environment, "", ())
        except Gone:
            return
        except asyncio.CancelledError:
            if "ranksim.abort" not in scope:
                raise
            scope["ranksim.abort"]()  # the server ends, and waits no longer

    # The service

    async def _rest(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        environment: str,
        path: str,
        extra: tuple[Header, ...],
        allow: str = "",
    ) -> None:
        began = perf_counter_ns()
        request = await read_request(
            scope,
            receive,
            path,
            environment,
            most=self.max_body,
            strict_query=self.strict_query,
            strict_body=self.strict_body,
            wanted=headers_read(self.twin.policy.windows),
        )
        request.allow = request.allow or allow
        if request.call.raw is not None and len(request.call.raw) > LARGE:
            await asyncio.sleep(0)  # parsing it was work enough for one turn of the loop
        fault = self._fault_of(request.call, scope["path"])
        answering = ServiceRequest(self.twin, scope, send, request, began, fault)
        if fault is not None and not await answering.suffer(fault):
            return

        async def ask() -> HttpResponse:
            reply = self._answer(request.call)
            payload = payload_of(reply)
            more = extra + headers_about_methods(scope["method"], request.allow, reply.status)
            length, at = None if reply.body is None else len(payload), self.twin.now()
            headers = response_headers(reply.headers, length, at, more)
            return HttpResponse(reply.status, headers, payload, [reply], at)

        await answering.respond(ask)

    def _fault_of(self, call: Call, path: str) -> InjectedFault | None:
        key = self.twin.service.state.keys.get(call.key or "")
        return self.twin.faults.pick(call, path, self.twin.now(), None if key is None else key.name)

    def _answer(self, call: Call) -> Reply:
        """Ask the service; a bug of its own becomes a complete problem body too."""
        try:
            return self.twin.call(call)
        except Exception:
            log.exception("%s failed", call.operation or "a request")
            call.fault, call.idempotency_key = Fault("internal_error"), None
            return self.twin.call(call)

    async def _graphql(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter_ns()
        environment = "sandbox" if scope["path"].startswith("/sandbox") else "production"
        if scope["method"] == "OPTIONS":
            await self._rest(scope, receive, send, environment, "", (), GRAPHQL_ALLOWS)
            return
        if self.docs and page.takes_html(scope):
            await page.send_file(send, "graphql.html", scope)
            return
        from ranksim.twin.facade.http import (
            graphql,  # its schema takes a while to build, and few tests want it
        )

        headers = dict(scope["headers"])
        call = call_of(scope, headers, "", environment, headers_read(self.twin.policy.windows))
        request = HttpRequest(call, allow=GRAPHQL_ALLOWS)
        call.surface = "graphql"
        if scope["method"] != "POST":
            call.fault = Fault("method_not_allowed", POST_ONLY)
        else:
            await read_raw(request, headers, receive, self.max_body)
        fault = self._fault_of(call, scope["path"])
        answering = ServiceRequest(self.twin, scope, send, request, began, fault)
        if fault is not None and not await answering.suffer(fault):
            return
        accept = headers.get(b"accept", b"").decode("latin-1")
        if self._endpoint is None:
            self._endpoint = graphql.GraphqlEndpoint(self.twin, strict=self.strict_body)
        endpoint = self._endpoint

        async def ask() -> HttpResponse:
            given = None
            while given is None:
                try:
                    given = await endpoint.execute(call, accept)
                except NotKept:
                    continue
                except Exception:
                    log.exception("a GraphQL request failed")
                    call.fault = Fault("internal_error")
            extra = headers_about_methods(scope["method"], request.allow, given.status)
            at = self.twin.now()
            headers = response_headers(given.headers, len(given.body), at, extra)
            return HttpResponse(given.status, headers, given.body, given.replies, at, given.kept)

        await answering.respond(ask)

    def unreadable(self, caller: str, detail: str) -> tuple[int, list[Header], bytes]:
        """Refuse what came over a connection and is no HTTP request: status, headers and body.

        It is counted like a request without a key (U8), since nobody can tell whose it is.
        """
        reply = self.twin.call(Call("", method="OPTIONS", caller=caller))
        if reply.code != "rate_limited":
            refused = problem(self.twin.policy, "invalid_request", detail)
            headers = reply.headers | refused.headers
            reply = Reply(
                refused.status, (refused.body or {}) | {"request_id": headers["X-Request-Id"]}, headers
            )
        payload = payload_of(reply)
        return reply.status, response_headers(reply.headers, len(payload), self.twin.now()), payload

    # The user's hands

    async def _page(self, path: str, scope: Scope, send: Send) -> None:
        """Send a file of the live page to a browser; it asks for the token itself, as it holds nothing."""
        refused = refusal(None, scope, self.control_names)
        if refused is not None:
            from ranksim.twin.facade.control import dispatch

            await dispatch.problem_response(send, *refused)
            return
        await page.send_file(send, page.FILES[path], scope)

    async def _control(self, scope: Scope, receive: Receive, send: Send) -> None:
        from ranksim.twin.facade.control import dispatch  # its many models take a while to build

        refused = refusal(self.token, scope, self.control_names)
        if refused is not None:
            await dispatch.problem_response(send, *refused)
            return
        take_token(scope)
        if scope["path"].startswith(JOURNAL):
            await dispatch.handle(self.twin, scope, receive, send)
            return
        writes, started = scope["method"] not in SAFE, False

        async def keeping(message: Message) -> None:
            """Send nothing before what led to it is kept; a stream tells by itself what was undone."""
            nonlocal started
            try:
                await self.twin.commit()
            except NotKept:
                if not started:
                    raise
            started = True
            await send(message)

        try:
            if writes and self.twin.refuses_writes:
                raise NotKept(self.twin.refuses_writes)
            await dispatch.handle(self.twin, scope, receive, keeping)
        except NotKept as error:
            if writes:
                await dispatch.problem_response(send, 500, str(error))
            else:  # asked again, of what is kept
                await dispatch.handle(self.twin, scope, receive, send)

    # Around the service

    async def _alive(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = f"reads only: {self.twin.refuses_writes}" if self.twin.refuses_writes else "ok"
        await send_plain(send, 200, f"{text}\n".encode(), b"text/plain; charset=utf-8")

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_plain(send, 200, metrics(self.twin), b"text/plain; version=0.0.4; charset=utf-8")

    async def _describe(
        self, write: Callable[[Policy], bytes], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send a document of the service, written once, in a thread: others are answered meanwhile."""
        if write not in self._documents:
            self._documents[write] = asyncio.ensure_future(asyncio.to_thread(write, self.twin.policy))
        await send_plain(send, 200, await asyncio.shield(self._documents[write]), JSON)

    async def _schema(self, scope: Scope, receive: Receive, send: Send) -> None:
        from ranksim.core.surface import graphql_schema

        await send_plain(send, 200, graphql_schema.SDL.encode(), b"text/plain; charset=utf-8")

    async def _control_document(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = refusal(self.token, scope, self.control_names)
        if refused is None:
            await self._describe(_control_reference, scope, receive, send)
            return
        from ranksim.twin.facade.control import dispatch

        await dispatch.problem_response(send, *refused)

    async def _form_file(self, scope: Scope, receive: Receive, send: Send) -> None:
        await page.send_file(send, page.FORMS[scope["path"]], scope)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            return
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.twin.start()
                if self.terminal is not None:
                    self.terminal.start()
                if self.prepare is not None:
                    asyncio.get_running_loop().run_in_executor(None, self.prepare)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.twin.close()
                if self.terminal is not None:
                    await self.terminal.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def send_plain(send: Send, status: int, body: bytes, content_type: bytes) -> None:
    """Answer outside of the service's rules."""
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _service_document(policy: Policy) -> bytes:
    from ranksim.twin.facade.http import examples

    return to_json(examples.describe_service(policy))


def _control_reference(_: Policy) -> bytes:
    from ranksim.twin.facade.control import document

    return to_json(document.describe_control())


def _graphql_reference(policy: Policy) -> bytes:
    from ranksim.twin.facade.http import examples

    return to_json(examples.describe_graphql(policy))
