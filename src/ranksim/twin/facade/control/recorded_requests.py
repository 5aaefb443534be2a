"""The journal of requests: searched, counted, verified."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal, cast

from pydantic import Field, model_validator
from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.contract.quantities import Frozen
from ranksim.twin.facade.control.command import LISTED, Environment, Listed, Missing, Router
from ranksim.twin.facade.request_journal import Expected, NearMiss, RequestJournal
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.parsing import whole_number

router = Router()


class RequestsQuery(Frozen):
    """Which requests: those that have all of this. In operation and path * stands for anything."""

    operation: str | None = None
    method: str | None = None
    path: str | None = None
    key: str | None = None
    account_id: str | None = None
    environment: Environment | None = None
    surface: Literal["rest", "graphql"] | None = None
    status: int | None = None
    limit: Listed = LISTED


class VerifyBody(Frozen):
    """How many requests of a description are expected; by default at least one."""

    expected: Expected = Expected()
    times: int | None = Field(None, ge=0)
    at_least: int | None = Field(None, ge=0)
    at_most: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _check(self) -> VerifyBody:
        if self.times is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("give times, or at_least and at_most")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("at_least is more than at_most")
        return self

    def bounds(self) -> tuple[int, int | None]:
        """Return the least and the most."""
        if self.times is not None:
            return self.times, self.times
        if self.at_least is None:
            return (1 if self.at_most is None else 0), self.at_most
        return self.at_least, self.at_most


class RequestShown(TypedDict):
    """A request and its response."""

    id: int
    at: str
    surface: str
    environment: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    operations: list[str]
    account_id: str | None
    key: str | None
    status: int
    dropped: bool
    """Whether a fault dropped the connection instead of sending the answer."""
    response_headers: dict[str, str]
    response: Any


class RequestList(TypedDict):
    """Requests, newest first; `count` of all that match, `forgotten` of those not remembered any more."""

    data: list[RequestShown]
    count: int
    forgotten: int


class CountShown(TypedDict):
    """How many."""

    count: int


class DifferenceShown(TypedDict):
    """One field in which a request is not as expected."""

    field: str
    expected: Any
    found: Any


class NearMissShown(TypedDict):
    """A request that is almost as expected, and all that tells it apart."""

    request: RequestShown
    differences: list[DifferenceShown]


class VerdictShown(TypedDict):
    """Whether as many came as were expected; `message` says it in words."""

    verified: bool
    count: int
    message: str
    near_misses: list[NearMissShown]


def _journal(twin: Twin) -> RequestJournal:
    if twin.requests is None:
        raise Missing("requests: this deployment keeps no journal of requests")
    return twin.requests


@router.add("GET", "/requests")
async def list_requests(twin: Twin, query: RequestsQuery) -> RequestList:
    """Search the journal of requests, newest first."""
    journal = _journal(twin)
    entries = journal.search(Expected(**query.model_dump(exclude={"limit"})))
    newest = [cast(RequestShown, entry.shown()) for entry in entries[: -query.limit - 1 : -1]]
    return {"data": newest, "count": len(entries), "forgotten": journal.forgotten}


@router.add("DELETE", "/requests")
async def clear_requests(twin: Twin) -> CountShown:
    """Forget all requests; answers how many there were."""
    journal = _journal(twin)
    count = len(journal)
    journal.clear()
    twin.event_log.note(twin.now(), "requests.cleared", {"count": count})
    return {"count": count}


@router.add("GET", "/requests/{id}")
async def get_request(twin: Twin, given: str) -> RequestShown:
    """Read one request and its response."""
    number = whole_number(given)
    entry = None if number is None else _journal(twin).find(number)
    if entry is None:
        raise Missing(f"request: there is none with the number {given!r}, or it is not remembered any more")
    return cast(RequestShown, entry.shown())


@router.add("POST", "/requests/verify", example={"expected": {"operation": "jobs.create"}, "times": 1})
async def verify_requests(twin: Twin, body: VerifyBody) -> VerdictShown:
    """Tell whether as many requests came as were expected, and if too few which came near."""
    verdict = _journal(twin).verify(body.expected, *body.bounds())
    return {
        "verified": verdict.verified,
        "count": verdict.count,
        "message": verdict.message,
        "near_misses": [_near(miss) for miss in verdict.near_misses],
    }


def _near(miss: NearMiss) -> NearMissShown:
    differences = [cast(DifferenceShown, asdict(difference)) for difference in miss.differences]
    return {"request": cast(RequestShown, miss.entry.shown()), "differences": differences}
