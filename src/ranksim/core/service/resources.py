"""What is tracked: domains, keyword lists, keywords, labels, competitors (S5, S12, U85, U107-U110).

POST keywords spends, so it stands in `spending`. Updates are last-write-wins, field by field,
and If-Match is not looked at (S49, S50, E45).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Generic, TypeVar

from ranksim.core.clock import iso
from ranksim.core.contract.views import CompetitorView, DomainView, KeywordListView, KeywordView, LabelView
from ranksim.core.rules.access import sees
from ranksim.core.rules.slots import fold
from ranksim.core.service import bodies, deliveries, slots
from ranksim.core.service.bodies import validate_body
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.errors import problem
from ranksim.core.service.replies import filters_of, nothing, paged, single
from ranksim.core.service.resolve import OwnedT, check_ids, domain_for, drop, list_owned, record_for
from ranksim.core.service.scans import remove_scan
from ranksim.core.service.state import Account, Competitor, Domain, Keyword, KeywordList, Label, State

RecordT = TypeVar("RecordT", KeywordList, Label, Competitor)
BodyT = TypeVar("BodyT", bodies.NamedBody, bodies.CompetitorBody)

# Domains


def show_domain(domain: Domain) -> DomainView:
    """Return a Domain as the API shows it (S12, S17, U43)."""
    crawled = domain.last_full_crawl_at
    return {
        "id": domain.id,
        "host": domain.host,
        "path": domain.path,
        "label": domain.label,
        "created_at": iso(domain.created_at),
        "last_full_crawl_at": None if crawled is None else iso(crawled),
    }


def create_domain(ctx: Context, request: Request) -> Reply:
    """POST /v1/domains; not for a domain-scoped key (U97)."""
    body = validate_body(bodies.DomainBody, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    if request.scope is not None:
        return problem(ctx.policy, "forbidden", "A key that is bound to one domain cannot add domains.")
    label = body.host if body.label is None else body.label
    domain = Domain(ctx.state.new_id("dom"), request.account.id, body.host, body.path, label, request.now)
    ctx.state.domains[domain.id] = domain
    request.account.domains.append(domain.id)
    return single(show_domain(domain), ctx.policy.statuses.created)


def list_domains(ctx: Context, request: Request) -> Reply:
    """GET /v1/domains (S30, S70)."""
    domains = ctx.state.domains
    return paged(
        ctx,
        request,
        request.account.domains,
        {},
        None if request.scope is None else lambda which: sees(request.scope, which),
        lambda which: show_domain(domains[which]),
    )


def get_domain(ctx: Context, request: Request) -> Reply:
    """GET /v1/domains/{id}."""
    domain = domain_for(ctx, request, request.call.path["id"])
    return domain if isinstance(domain, Reply) else single(show_domain(domain))


def update_domain(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/domains/{id}: path and label."""
    body = validate_body(bodies.DomainPatch, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    domain = domain_for(ctx, request, request.call.path["id"])
    if isinstance(domain, Reply):
        return domain
    changes = body.sent()
    domain.path = changes.get("path", domain.path)
    domain.label = changes.get("label", domain.label)
    return single(show_domain(domain))


def delete_domain(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/domains/{id} and all that belongs to it but its jobs and briefs; slots are held (S27)."""
    domain = domain_for(ctx, request, request.call.path["id"])
    if isinstance(domain, Reply):
        return domain
    state, account = ctx.state, request.account
    for scan in [state.scans[which] for which in account.scans]:
        if scan.domain == domain.id:
            remove_scan(ctx, account, scan, request.now)
    for endpoint in [state.endpoints[which] for which in account.endpoints]:
        if endpoint.domain == domain.id:
            deliveries.remove_endpoint(ctx, endpoint, request.now)
    _forget(state.keyword_lists, account.keyword_lists, domain.id)
    _forget(state.keywords, account.keywords, domain.id)
    _forget(state.labels, account.labels, domain.id)
    _forget(state.competitors, account.competitors, domain.id)
    for name in [name for name in account.cooldowns if name.startswith(f"{domain.id}/")]:
        del account.cooldowns[name]
    del state.domains[domain.id]
    drop(account.domains, domain.id)
    return nothing(ctx.policy.statuses.deleted)


def _forget(table: dict[str, OwnedT], ids: list[str], domain: str) -> None:
    """Delete every record of a domain from a table and from the account's ids."""
    for which in ids:
        if table[which].domain == domain:
            del table[which]
    ids[:] = [which for which in ids if which in table]


# Keyword lists, labels and competitors: what belongs to a domain and has one text of its own


@dataclass(frozen=True, slots=True)
class Resource(Generic[RecordT, BodyT]):
    """The five operations on one kind of resource that belongs to a domain.

    `table` returns all records of the kind, `owned` the ids of an account's. The fields of the body of a
    PATCH are those of the record. `release` ends what depends on a record that is about to be deleted.
    """

    noun: str
    prefix: str
    table: Callable[[State], dict[str, RecordT]]
    owned: Callable[[Account], list[str]]
    show: Callable[[RecordT], Mapping[str, object]]
    post: type[BodyT]
    make: Callable[[str, Request, BodyT], RecordT]
    patch: type[bodies.RequestBody]
    release: Callable[[Context, Request, RecordT], None]

    def create(self, ctx: Context, request: Request) -> Reply:
        """POST to the collection."""
        body = validate_body(self.post, ctx.policy, request.call.body)
        if isinstance(body, Reply):
            return body
        domain = domain_for(ctx, request, body.domain_id)
        if isinstance(domain, Reply):
            return domain
        record = self.make(ctx.state.new_id(self.prefix), request, body)
        self.table(ctx.state)[record.id] = record
        self.owned(request.account).append(record.id)
        return single(self.show(record), ctx.policy.statuses.created)

    def list(self, ctx: Context, request: Request) -> Reply:
        """GET the collection."""
        return list_owned(ctx, request, self.table(ctx.state), self.owned(request.account), self.show)

    def get(self, ctx: Context, request: Request) -> Reply:
        """GET one."""
        record = self._find(ctx, request)
        return record if isinstance(record, Reply) else single(self.show(record))

    def update(self, ctx: Context, request: Request) -> Reply:
        """PATCH one."""
        body = validate_body(self.patch, ctx.policy, request.call.body)
        if isinstance(body, Reply):
            return body
        record = self._find(ctx, request)
        if isinstance(record, Reply):
            return record
        for name, value in body.sent().items():
            setattr(record, name, value)
        return single(self.show(record))

    def delete(self, ctx: Context, request: Request) -> Reply:
        """DELETE one, and what `release` ends."""
        record = self._find(ctx, request)
        if isinstance(record, Reply):
            return record
        self.release(ctx, request, record)
        del self.table(ctx.state)[record.id]
        drop(self.owned(request.account), record.id)
        return nothing(ctx.policy.statuses.deleted)

    def _find(self, ctx: Context, request: Request) -> RecordT | Reply:
        return record_for(ctx, request, self.table(ctx.state), request.call.path["id"], self.noun)


def _show_keyword_list(keyword_list: KeywordList) -> KeywordListView:
    return {
        "id": keyword_list.id,
        "domain_id": keyword_list.domain,
        "name": keyword_list.name,
        "keyword_count": len(keyword_list.words),
        "created_at": iso(keyword_list.created_at),
    }


def _release_keyword_list(ctx: Context, request: Request, keyword_list: KeywordList) -> None:
    """Delete a list's keywords; scans go on without it, its slots are held (S26)."""
    state, account = ctx.state, request.account
    slots.hold_keywords(ctx, account, keyword_list, list(keyword_list.words), request.now)
    for scan in (state.scans[which] for which in account.scans):
        if keyword_list.id in scan.lists:
            scan.lists.remove(keyword_list.id)
    for which in keyword_list.words.values():
        del state.keywords[which]
    account.keywords[:] = [which for which in account.keywords if which in state.keywords]


KEYWORD_LISTS = Resource(
    noun="keyword list",
    prefix="list",
    table=lambda state: state.keyword_lists,
    owned=lambda account: account.keyword_lists,
    show=_show_keyword_list,
    post=bodies.NamedBody,
    make=lambda id, request, body: KeywordList(
        id, request.account.id, body.domain_id, body.name, request.now
    ),
    patch=bodies.NamedPatch,
    release=_release_keyword_list,
)


def _show_label(label: Label) -> LabelView:
    return {
        "id": label.id,
        "domain_id": label.domain,
        "name": label.name,
        "created_at": iso(label.created_at),
    }


def _release_label(ctx: Context, request: Request, label: Label) -> None:
    """Take a label off the keywords that carry it."""
    for keyword in (ctx.state.keywords[which] for which in request.account.keywords):
        if label.id in keyword.labels:
            keyword.labels = tuple(other for other in keyword.labels if other != label.id)


LABELS = Resource(
    noun="label",
    prefix="label",
    table=lambda state: state.labels,
    owned=lambda account: account.labels,
    show=_show_label,
    post=bodies.NamedBody,
    make=lambda id, request, body: Label(id, request.account.id, body.domain_id, body.name, request.now),
    patch=bodies.NamedPatch,
    release=_release_label,
)


def _show_competitor(competitor: Competitor) -> CompetitorView:
    return {
        "id": competitor.id,
        "domain_id": competitor.domain,
        "host": competitor.host,
        "created_at": iso(competitor.created_at),
    }


COMPETITORS = Resource(
    noun="competitor",
    prefix="competitor",
    table=lambda state: state.competitors,
    owned=lambda account: account.competitors,
    show=_show_competitor,
    post=bodies.CompetitorBody,
    make=lambda id, request, body: Competitor(id, request.account.id, body.domain_id, body.host, request.now),
    patch=bodies.CompetitorPatch,
    release=lambda ctx, request, competitor: None,
)


# Keywords


made_at = lru_cache(maxsize=256)(iso)
"""Write the instant at which something was made, as thousands of keywords are at one."""


def show_keyword(keyword: Keyword) -> KeywordView:
    """Return a keyword as the API shows it (U85)."""
    return {
        "id": keyword.id,
        "keyword": keyword.text,
        "domain_id": keyword.domain,
        "list_id": keyword.list_id,
        "label_ids": list(keyword.labels),
        "created_at": made_at(keyword.created_at),
    }


SELECTED = frozenset({"domain_id", "list_id"})
"""The filters of keywords that say whose lists are looked at, so that they need no look at each keyword."""


def keywords_in(lists: Iterable[KeywordList]) -> list[str]:
    """Return the ids of the keywords of lists, ascending, as they do in each list."""
    return sorted(chain.from_iterable(keyword_list.words.values() for keyword_list in lists))


def list_keywords(ctx: Context, request: Request) -> Reply:
    """GET /v1/keywords, with filters domain_id, list_id, label_id and keyword (S31, U110)."""
    keywords, query = ctx.state.keywords, request.call.query
    candidates = request.account.keywords
    if not SELECTED.isdisjoint(query):
        # A walk through all keywords of a large account would look at most of them in vain.
        lists = (ctx.state.keyword_lists[which] for which in request.account.keyword_lists)
        candidates = keywords_in(
            keyword_list
            for keyword_list in lists
            if query.get("domain_id", keyword_list.domain) == keyword_list.domain
            and query.get("list_id", keyword_list.id) == keyword_list.id
        )
    folding = ctx.policy.assumptions.keyword_folding

    filters = filters_of(request, "domain_id", "list_id", "label_id", "keyword")

    def keep(which: str) -> bool:
        keyword = keywords[which]
        return (
            sees(request.scope, keyword.domain)
            and filters.get("domain_id", keyword.domain) == keyword.domain
            and filters.get("list_id", keyword.list_id) == keyword.list_id
            and ("label_id" not in filters or filters["label_id"] in keyword.labels)
            and ("keyword" not in filters or fold(filters["keyword"], folding) == keyword.folded)
        )

    return paged(
        ctx,
        request,
        candidates,
        filters,
        keep if filters.keys() - SELECTED or request.scope is not None else None,
        lambda which: show_keyword(keywords[which]),
    )


def get_keyword(ctx: Context, request: Request) -> Reply:
    """GET /v1/keywords/{id}."""
    keyword = record_for(ctx, request, ctx.state.keywords, request.call.path["id"], "keyword")
    return keyword if isinstance(keyword, Reply) else single(show_keyword(keyword))


def update_keyword(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/keywords/{id}: its labels."""
    body = validate_body(bodies.KeywordPatch, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    keyword = record_for(ctx, request, ctx.state.keywords, request.call.path["id"], "keyword")
    if isinstance(keyword, Reply):
        return keyword
    wrong = check_ids(ctx, request, keyword.domain, ctx.state.labels, body.label_ids, "label")
    if wrong is not None:
        return wrong
    if "label_ids" in body.model_fields_set:
        keyword.labels = tuple(dict.fromkeys(body.label_ids))
    return single(show_keyword(keyword))


def delete_keyword(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/keywords/{id}; its slots are held to the end of the month (S26, E18)."""
    keyword = record_for(ctx, request, ctx.state.keywords, request.call.path["id"], "keyword")
    if isinstance(keyword, Reply):
        return keyword
    keyword_list = ctx.state.keyword_lists[keyword.list_id]
    slots.hold_keywords(ctx, request.account, keyword_list, [keyword.folded], request.now)
    del keyword_list.words[keyword.folded]
    del ctx.state.keywords[keyword.id]
    drop(request.account.keywords, keyword.id)
    return nothing(ctx.policy.statuses.deleted)
