"""Finding what a call names, as far as its key may see it; the 404 where it may not (S70, U13, E41)."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from ranksim.core.rules.access import sees
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.errors import problem
from ranksim.core.service.replies import filters_of, paged
from ranksim.core.service.state import Domain, KeywordList


class Owned(Protocol):
    """A record that belongs to a domain of an account, or to the whole account."""

    @property
    def account(self) -> str:
        """Whose it is."""

    @property
    def domain(self) -> str | None:
        """The domain it belongs to; None: to the account."""


OwnedT = TypeVar("OwnedT", bound=Owned)


def domain_for(ctx: Context, request: Request, domain_id: str) -> Domain | Reply:
    """Find a domain by its id, or answer 404: another's (not_found) or out of the key's scope (U13)."""
    domain = ctx.state.domains.get(domain_id)
    if domain is None or domain.account != request.account.id:
        return problem(ctx.policy, "not_found", f"There is no domain {domain_id!r}.")
    if not sees(request.scope, domain.id):
        return problem(ctx.policy, "out_of_scope", f"There is no domain {domain_id!r}.")
    return domain


def record_for(
    ctx: Context, request: Request, table: Mapping[str, OwnedT], which: str, noun: str
) -> OwnedT | Reply:
    """Find what an account owns by its id, or answer 404 as `domain_for` does."""
    record = table.get(which)
    if record is None or record.account != request.account.id:
        return problem(ctx.policy, "not_found", f"There is no {noun} {which!r}.")
    if not sees(request.scope, record.domain):
        return problem(ctx.policy, "out_of_scope", f"There is no {noun} {which!r}.")
    return record


def list_for(ctx: Context, request: Request, list_id: str) -> KeywordList | Reply:
    """Find a keyword list by its id, or answer 404."""
    return record_for(ctx, request, ctx.state.keyword_lists, list_id, "keyword list")


def check_ids(
    ctx: Context, request: Request, domain: str, table: Mapping[str, OwnedT], ids: Sequence[str], noun: str
) -> Reply | None:
    """Answer 404 unless every id in a body can be seen and belongs to the domain (U86)."""
    for which in ids:
        record = record_for(ctx, request, table, which, noun)
        if isinstance(record, Reply):
            return record
        if record.domain != domain:
            return problem(ctx.policy, "not_found", f"There is no {noun} {which!r} in domain {domain}.")
    return None


def list_owned(
    ctx: Context,
    request: Request,
    table: Mapping[str, OwnedT],
    ids: Sequence[str],
    show: Callable[[OwnedT], Mapping[str, object]],
) -> Reply:
    """Answer a list of what an account owns, with the filter domain_id (U110)."""

    filters = filters_of(request, "domain_id")

    def keep(which: str) -> bool:
        domain = table[which].domain
        return sees(request.scope, domain) and filters.get("domain_id", domain) == domain

    kept = keep if filters or request.scope is not None else None
    return paged(ctx, request, ids, filters, kept, lambda which: show(table[which]))


def drop(ids: list[str], which: str) -> None:
    """Take an id out of a list of ids, which ascend."""
    position = bisect_left(ids, which)
    if position < len(ids) and ids[position] == which:
        del ids[position]
