"""GraphQL over HTTP: requests let in, and read in turn; what they say is `core.surface.graphql` (S4, U83).

Access and the rate limit come first: a request that they would refuse is refused unread. What takes long is
done in a thread, one request at a time, so that the loop goes on to answer others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from graphql import GraphQLError, OperationDefinitionNode
from pydantic_core import from_json, to_json

from ranksim.core.contract.assumptions import GraphqlLimits
from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import near
from ranksim.core.service.bodies import ERRORS_SHOWN
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.surface.graphql import (
    KNOWN,
    GraphqlRequest,
    GraphqlResponse,
    Refusal,
    collect_calls,
    copied,
    graphql_headers,
    parse_document,
    read_request_body,
    remember,
    validated,
)
from ranksim.core.surface.graphql_schema import FIELDS

MOST_INLINE = 16_384
"""Bytes of a request whose document is known that are read without going to the thread."""
MOST_VALUES_INLINE = 500
"""Values that are answered without going to the thread: some milliseconds."""
MOST_OF_A_STRANGER = 2_000
"""Characters of a document that are read for somebody without a key, who may ask for event types alone."""

READS: tuple[RateClass, ...] = (RateClass.READ,)
WRITES: tuple[RateClass, ...] = (RateClass.WRITE, RateClass.EXPENSIVE)

KEYLESS = tuple(name for name, operation in FIELDS.items() if OPERATIONS[operation].keyless)
"""Root fields that need no key."""

AWAY, AWAY_READING = Refusal("invalid_request", []), Refusal("invalid_request", [], "GET")
"""Of a request that access or the rate limit refuses, before it is read or when it is known to read."""

T = TypeVar("T")


class AnswersCalls(Protocol):
    """What answers the calls of a request: the twin."""

    policy: Policy

    def commit(self) -> Awaitable[None]:
        """Awaited until what led to a reply is kept; raises NotKept if it was undone."""

    def admits(self, call: Call, classes: Collection[RateClass]) -> bool:
        """Return whether access and the rate limit let a request of one of some classes through."""

    def call_batch(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer the calls of one request, in order; one reply stands for all if it is refused."""


class GraphqlEndpoint:
    """Answers GraphQL requests by a twin; if `strict`, none with variables that its document lacks."""

    def __init__(self, twin: AnswersCalls, *, strict: bool = False) -> None:
        self._twin, self._strict = twin, strict
        self._turn = asyncio.Lock()

    async def execute(self, call: Call, accept: str = "") -> GraphqlResponse:
        """Answer one GraphQL request, as `ranksim.core.surface.graphql.execute` says.

        Raises NotKept where what was done for a long answer could not be kept: it was undone, and is asked
        again.
        """
        twin = self._twin
        request = GraphqlRequest(twin.policy, copied(call, raw=None, fault=None))
        raw = call.raw or b""
        refusal = Refusal(call.fault.code, []) if call.fault else await self._read(raw, request)
        if refusal is None and self._strict:
            refusal = _undeclared(request)
        replies = twin.call_batch(request.charged(refusal, call.fault))
        refused = request.refused(replies, refusal, accept)
        if refused is not None:
            return refused
        headers = graphql_headers(twin.policy, accept, replies)
        if request.values <= MOST_VALUES_INLINE:
            return GraphqlResponse(200, headers, request.answered(), replies)
        await self._twin.commit()  # what is undone meanwhile would be noticed by nobody else
        assert request.replies is not None
        for key, reply in request.replies.items():  # the service goes on meanwhile, so what it said is copied
            body = from_json(to_json(reply.body))
            request.replies[key] = Reply(reply.status, body, code=reply.code, cursors=reply.cursors)
        return GraphqlResponse(200, headers, await _in_thread(request.answered), replies, kept=True)

    async def _read(self, raw: bytes, request: GraphqlRequest) -> Refusal | None:
        """Read a request and run it once, to ask; gives why it is refused, or None.

        What was read before is read at once. The rest is read in the thread, each in its turn, and no further
        than the rate limit lets it: others were charged since it came, and whether it writes is known only
        when it is parsed.
        """
        if not self._admits(request, raw, tuple(RateClass)):
            return AWAY
        limits = request.policy.assumptions.graphql_limits
        if len(raw) <= MOST_INLINE:
            if (refusal := read_request_body(raw, request)) is not None:
                return refusal
            remembered = KNOWN.get((request.text, limits))
            if isinstance(remembered, Refusal):
                return remembered
            if remembered is not None and remembered.values <= MOST_VALUES_INLINE:
                return collect_calls(remembered, request, limits)
        async with self._turn:
            return await self._read_in_turn(raw, request, limits)

    async def _read_in_turn(
        self, raw: bytes, request: GraphqlRequest, limits: GraphqlLimits
    ) -> Refusal | None:
        if not self._admits(request, raw, tuple(RateClass)):
            return AWAY
        if (refusal := await _in_thread(partial(read_request_body, raw, request))) is not None:
            return refusal
        remembered = KNOWN.get((request.text, limits))
        document = (
            await _in_thread(partial(parse_document, request.text, limits))
            if remembered is None
            else remembered
        )
        if isinstance(document, Refusal):
            return document
        classes = WRITES if document.writes else READS
        if request.policy.assumptions.dry_run_class != "same":
            classes = (*READS, *WRITES)  # a dry run may be counted as a read
        if not self._admits(request, raw, classes):
            return AWAY if document.writes else AWAY_READING
        if not document.valid:
            document = await _in_thread(partial(validated, document))
            remember(request.text, limits, document)
        if isinstance(document, Refusal):
            return document
        return await _in_thread(partial(collect_calls, document, request, limits))

    def _admits(self, request: GraphqlRequest, raw: bytes, classes: Collection[RateClass]) -> bool:
        """Return whether a request would not be refused for access or traffic, whatever it asks for."""
        if self._twin.admits(request.base, classes):
            return True
        stranger = copied(request.base, operation=FIELDS[KEYLESS[0]])
        asks = any(name.encode() in raw for name in KEYLESS)
        return asks and len(raw) <= MOST_OF_A_STRANGER and self._twin.admits(stranger, READS)


def _undeclared(request: GraphqlRequest) -> Refusal | None:
    """Refuse variables that no operation of a document declares: GraphQL ignores them, typos too."""
    if not request.variables or request.document is None:
        return None
    operations = [
        definition
        for definition in request.document.definitions
        if isinstance(definition, OperationDefinitionNode)
    ]
    declared = [
        it.variable.name.value for definition in operations for it in definition.variable_definitions or ()
    ]
    errors = [
        GraphQLError(
            f"The variable {name!r} is not declared{near(name, declared) or ';'} the document declares: "
            f"{', '.join(declared) or 'none'}. GraphQL ignores it; --no-strict-body, or strict_body=False in "
            "a test, does so too."
        )
        for name in request.variables
        if name not in declared
    ]
    return Refusal("validation_failed", errors[:ERRORS_SHOWN]) if errors else None


_THREAD = ThreadPoolExecutor(1, "ranksim graphql")


async def _in_thread(what: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREAD, what)
