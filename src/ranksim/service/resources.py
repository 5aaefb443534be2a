"""What is tracked: domains, keyword lists, keywords, labels, competitors (S5, S12, U85, U107-U110).

POST keywords spends, so it stands in `spending`. Updates are last-write-wins, field by field,
and If-Match is not looked at (S49, S50, E45).
"""

from collections.abc import Iterable, Mapping

from ranksim.clock import iso
from ranksim.rules.access import sees
from ranksim.rules.slots import fold
from ranksim.service import bodies, deliveries, slots
from ranksim.service.bodies import read
from ranksim.service.calls import Body, Reply
from ranksim.service.context import Context, Request
from ranksim.service.errors import problem
from ranksim.service.pages import paged
from ranksim.service.replies import nothing, single
from ranksim.service.resolve import OwnedT, check_ids, domain_for, drop, list_for, list_owned, record_for
from ranksim.service.scans import remove_scan
from ranksim.service.state import Competitor, Domain, Keyword, KeywordList, Label

# Domains


def show_domain(domain: Domain) -> Body:
    """Give a Domain as the API shows it (S12, S17, U43)."""
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
    body = read(bodies.DomainBody, ctx.policy, request.call.body)
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
        (),
        lambda which, _: sees(request.scope, which),
        lambda which: show_domain(domains[which]),
    )


def get_domain(ctx: Context, request: Request) -> Reply:
    """GET /v1/domains/{id}."""
    domain = domain_for(ctx, request, request.call.path["id"])
    return domain if isinstance(domain, Reply) else single(show_domain(domain))


def update_domain(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/domains/{id}: path and label."""
    body = read(bodies.DomainPatch, ctx.policy, request.call.body)
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


# Keyword lists


def show_keyword_list(keyword_list: KeywordList) -> Body:
    """Give a keyword list as the API shows it."""
    return {
        "id": keyword_list.id,
        "domain_id": keyword_list.domain,
        "name": keyword_list.name,
        "keyword_count": len(keyword_list.words),
        "created_at": iso(keyword_list.created_at),
    }


def create_keyword_list(ctx: Context, request: Request) -> Reply:
    """POST /v1/keyword-lists."""
    body = read(bodies.NamedBody, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    domain = domain_for(ctx, request, body.domain_id)
    if isinstance(domain, Reply):
        return domain
    made = KeywordList(ctx.state.new_id("list"), request.account.id, domain.id, body.name, request.now)
    ctx.state.keyword_lists[made.id] = made
    request.account.keyword_lists.append(made.id)
    return single(show_keyword_list(made), ctx.policy.statuses.created)


def list_keyword_lists(ctx: Context, request: Request) -> Reply:
    """GET /v1/keyword-lists."""
    return list_owned(ctx, request, ctx.state.keyword_lists, request.account.keyword_lists, show_keyword_list)


def get_keyword_list(ctx: Context, request: Request) -> Reply:
    """GET /v1/keyword-lists/{id}."""
    found = list_for(ctx, request, request.call.path["id"])
    return found if isinstance(found, Reply) else single(show_keyword_list(found))


def update_keyword_list(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/keyword-lists/{id}: name."""
    body = read(bodies.NamedPatch, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    found = list_for(ctx, request, request.call.path["id"])
    if isinstance(found, Reply):
        return found
    found.name = body.sent().get("name", found.name)
    return single(show_keyword_list(found))


def delete_keyword_list(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/keyword-lists/{id} with its keywords; scans go on without it, its slots are held (S26)."""
    found = list_for(ctx, request, request.call.path["id"])
    if isinstance(found, Reply):
        return found
    state, account = ctx.state, request.account
    slots.hold_keywords(ctx, account, found, list(found.words), request.now)
    for scan in (state.scans[which] for which in account.scans):
        if found.id in scan.lists:
            scan.lists.remove(found.id)
    for which in found.words.values():
        del state.keywords[which]
    account.keywords[:] = [which for which in account.keywords if which in state.keywords]
    del state.keyword_lists[found.id]
    drop(account.keyword_lists, found.id)
    return nothing(ctx.policy.statuses.deleted)


# Keywords


def show_keyword(keyword: Keyword) -> Body:
    """Give a keyword as the API shows it (U85)."""
    return {
        "id": keyword.id,
        "keyword": keyword.text,
        "domain_id": keyword.domain,
        "list_id": keyword.list_id,
        "label_ids": list(keyword.labels),
        "created_at": iso(keyword.created_at),
    }


def keywords_in(lists: Iterable[KeywordList]) -> list[str]:
    """Give the ids of the keywords of lists, ascending."""
    return sorted(which for keyword_list in lists for which in keyword_list.words.values())


def list_keywords(ctx: Context, request: Request) -> Reply:
    """GET /v1/keywords, with filters domain_id, list_id, label_id and keyword (S31, U110)."""
    keywords, query = ctx.state.keywords, request.call.query
    candidates = request.account.keywords
    if "domain_id" in query or "list_id" in query:
        # A walk through all keywords of a large account would look at most of them in vain.
        lists = (ctx.state.keyword_lists[which] for which in request.account.keyword_lists)
        candidates = keywords_in(
            one
            for one in lists
            if query.get("domain_id", one.domain) == one.domain and query.get("list_id", one.id) == one.id
        )
    folding = ctx.policy.assumptions.keyword_folding

    def keep(which: str, filters: Mapping[str, str]) -> bool:
        keyword = keywords[which]
        return (
            sees(request.scope, keyword.domain)
            and filters.get("domain_id", keyword.domain) == keyword.domain
            and filters.get("list_id", keyword.list_id) == keyword.list_id
            and ("label_id" not in filters or filters["label_id"] in keyword.labels)
            and ("keyword" not in filters or fold(filters["keyword"], folding) == keyword.folded)
        )

    names = ("domain_id", "list_id", "label_id", "keyword")
    unfiltered = request.scope is None and not any(name in query for name in names)
    return paged(
        ctx,
        request,
        candidates,
        names,
        None if unfiltered else keep,
        lambda which: show_keyword(keywords[which]),
    )


def get_keyword(ctx: Context, request: Request) -> Reply:
    """GET /v1/keywords/{id}."""
    keyword = record_for(ctx, request, ctx.state.keywords, request.call.path["id"], "keyword")
    return keyword if isinstance(keyword, Reply) else single(show_keyword(keyword))


def update_keyword(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/keywords/{id}: its labels."""
    body = read(bodies.KeywordPatch, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    keyword = record_for(ctx, request, ctx.state.keywords, request.call.path["id"], "keyword")
    if isinstance(keyword, Reply):
        return keyword
    wrong = check_ids(ctx, request, keyword.domain, ctx.state.labels, body.label_ids, "label")
    if wrong is not None:
        return wrong
    if "label_ids" in body.model_fields_set:
        keyword.labels = list(dict.fromkeys(body.label_ids))
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


# Labels


def show_label(label: Label) -> Body:
    """Give a label as the API shows it."""
    return {
        "id": label.id,
        "domain_id": label.domain,
        "name": label.name,
        "created_at": iso(label.created_at),
    }


def create_label(ctx: Context, request: Request) -> Reply:
    """POST /v1/labels."""
    body = read(bodies.NamedBody, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    domain = domain_for(ctx, request, body.domain_id)
    if isinstance(domain, Reply):
        return domain
    label = Label(ctx.state.new_id("label"), request.account.id, domain.id, body.name, request.now)
    ctx.state.labels[label.id] = label
    request.account.labels.append(label.id)
    return single(show_label(label), ctx.policy.statuses.created)


def list_labels(ctx: Context, request: Request) -> Reply:
    """GET /v1/labels."""
    return list_owned(ctx, request, ctx.state.labels, request.account.labels, show_label)


def get_label(ctx: Context, request: Request) -> Reply:
    """GET /v1/labels/{id}."""
    label = record_for(ctx, request, ctx.state.labels, request.call.path["id"], "label")
    return label if isinstance(label, Reply) else single(show_label(label))


def update_label(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/labels/{id}: name."""
    body = read(bodies.NamedPatch, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    label = record_for(ctx, request, ctx.state.labels, request.call.path["id"], "label")
    if isinstance(label, Reply):
        return label
    label.name = body.sent().get("name", label.name)
    return single(show_label(label))


def delete_label(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/labels/{id}; keywords lose it."""
    label = record_for(ctx, request, ctx.state.labels, request.call.path["id"], "label")
    if isinstance(label, Reply):
        return label
    for keyword in (ctx.state.keywords[which] for which in request.account.keywords):
        if label.id in keyword.labels:
            keyword.labels.remove(label.id)
    del ctx.state.labels[label.id]
    drop(request.account.labels, label.id)
    return nothing(ctx.policy.statuses.deleted)


# Competitors


def show_competitor(competitor: Competitor) -> Body:
    """Give a competitor as the API shows it."""
    return {
        "id": competitor.id,
        "domain_id": competitor.domain,
        "host": competitor.host,
        "created_at": iso(competitor.created_at),
    }


def create_competitor(ctx: Context, request: Request) -> Reply:
    """POST /v1/competitors."""
    body = read(bodies.CompetitorBody, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    domain = domain_for(ctx, request, body.domain_id)
    if isinstance(domain, Reply):
        return domain
    made = Competitor(ctx.state.new_id("competitor"), request.account.id, domain.id, body.host, request.now)
    ctx.state.competitors[made.id] = made
    request.account.competitors.append(made.id)
    return single(show_competitor(made), ctx.policy.statuses.created)


def list_competitors(ctx: Context, request: Request) -> Reply:
    """GET /v1/competitors."""
    return list_owned(ctx, request, ctx.state.competitors, request.account.competitors, show_competitor)


def get_competitor(ctx: Context, request: Request) -> Reply:
    """GET /v1/competitors/{id}."""
    found = record_for(ctx, request, ctx.state.competitors, request.call.path["id"], "competitor")
    return found if isinstance(found, Reply) else single(show_competitor(found))


def update_competitor(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/competitors/{id}: host."""
    body = read(bodies.CompetitorPatch, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    found = record_for(ctx, request, ctx.state.competitors, request.call.path["id"], "competitor")
    if isinstance(found, Reply):
        return found
    found.host = body.sent().get("host", found.host)
    return single(show_competitor(found))


def delete_competitor(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/competitors/{id}."""
    found = record_for(ctx, request, ctx.state.competitors, request.call.path["id"], "competitor")
    if isinstance(found, Reply):
        return found
    del ctx.state.competitors[found.id]
    drop(request.account.competitors, found.id)
    return nothing(ctx.policy.statuses.deleted)
