"""What each operation takes and gives: its body, its filters, the views of its answers.

Written once for every surface: the OpenAPI document is built from it, and GraphQL is tested against it.
"""

from dataclasses import dataclass
from typing import Any

from ranksim.core.contract import views
from ranksim.core.service import bodies, deliveries

View = type[Any]


@dataclass(frozen=True, slots=True)
class Wire:
    """What one operation takes and gives.

    `answers` are pairs of a status (200, or a field of `Statuses`) and the view under `data`, None for no
    body. `paged` makes the answer a collection, `notices` one that may carry a notice. `filters` are the
    query parameters beside limit and cursor. `refusals` are the codes that do not follow from the rest.
    """

    answers: tuple[tuple[int | str, View | None], ...]
    body: type[bodies.RequestBody] | None = None
    paged: bool = False
    notices: bool = False
    filters: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def page(view: View, *filters: str, notices: bool = False, refusals: tuple[str, ...] = ()) -> Wire:
    """Answer with a page of a collection."""
    return Wire(((200, view),), paged=True, notices=notices, filters=filters, refusals=refusals)


def one(
    view: View,
    status: int | str = 200,
    body: type[bodies.RequestBody] | None = None,
    refusals: tuple[str, ...] = (),
) -> Wire:
    """Answer with one resource."""
    return Wire(((status, view),), body, refusals=refusals)


FORBIDDEN, NOT_FOUND = ("forbidden",), ("not_found",)
CREATED, DELETED, DRY_RUN = "created", Wire((("deleted", None),)), ("dry_run", views.DryRunView)

WIRES: dict[str, Wire] = {
    "domains.list": page(views.DomainView),
    "domains.create": one(views.DomainView, CREATED, bodies.DomainBody, FORBIDDEN),
    "domains.get": one(views.DomainView),
    "domains.update": one(views.DomainView, 200, bodies.DomainPatch),
    "domains.delete": DELETED,
    "keyword_lists.list": page(views.KeywordListView, "domain_id"),
    "keyword_lists.create": one(views.KeywordListView, CREATED, bodies.NamedBody, NOT_FOUND),
    "keyword_lists.get": one(views.KeywordListView),
    "keyword_lists.update": one(views.KeywordListView, 200, bodies.NamedPatch),
    "keyword_lists.delete": DELETED,
    "keywords.list": page(views.KeywordView, "domain_id", "list_id", "label_id", "keyword"),
    "keywords.create": Wire(
        ((CREATED, views.KeywordsAddedView), DRY_RUN), bodies.KeywordsBody, refusals=NOT_FOUND
    ),
    "keywords.get": one(views.KeywordView),
    "keywords.update": one(views.KeywordView, 200, bodies.KeywordPatch),
    "keywords.delete": DELETED,
    "labels.list": page(views.LabelView, "domain_id"),
    "labels.create": one(views.LabelView, CREATED, bodies.NamedBody, NOT_FOUND),
    "labels.get": one(views.LabelView),
    "labels.update": one(views.LabelView, 200, bodies.NamedPatch),
    "labels.delete": DELETED,
    "competitors.list": page(views.CompetitorView, "domain_id"),
    "competitors.create": one(views.CompetitorView, CREATED, bodies.CompetitorBody, NOT_FOUND),
    "competitors.get": one(views.CompetitorView),
    "competitors.update": one(views.CompetitorView, 200, bodies.CompetitorPatch),
    "competitors.delete": DELETED,
    "scans.list": page(views.ScanView, "domain_id", "active"),
    "scans.create": Wire(((CREATED, views.ScanView), DRY_RUN), bodies.ScanBody, refusals=NOT_FOUND),
    "scans.get": one(views.ScanView),
    "scans.update": one(views.ScanView, 200, bodies.ScanPatch),
    "scans.delete": DELETED,
    "slots.get": one(views.SlotsView, refusals=FORBIDDEN),
    "jobs.list": page(views.JobView, "domain_id", "kind", "status"),
    "jobs.create": Wire(
        (("job_accepted", views.JobView), ("job_joined", views.JobView), DRY_RUN),
        bodies.JobBody,
        refusals=NOT_FOUND,
    ),
    "jobs.get": one(views.JobView),
    "keyword_briefs.list": page(views.KeywordBriefView, "domain_id"),
    "keyword_briefs.create": Wire(
        ((CREATED, views.KeywordBriefsMadeView), DRY_RUN), bodies.BriefsBody, refusals=NOT_FOUND
    ),
    "positions.list": page(views.PositionView, "domain_id", "keyword_id", "date", notices=True),
    "positions.history": page(views.PositionView, "domain_id", "keyword_id", "date", notices=True),
    "account.get": one(views.AccountView, refusals=FORBIDDEN),
    "account.usage": one(views.UsageView, refusals=FORBIDDEN),
    "account.entitlements": one(views.EntitlementsView, refusals=FORBIDDEN),
    "webhooks.list": page(views.WebhookView, "domain_id"),
    "webhooks.create": one(
        views.WebhookCreatedView, CREATED, deliveries.EndpointBody, (*FORBIDDEN, *NOT_FOUND)
    ),
    "webhooks.get": one(views.WebhookView),
    "webhooks.update": one(views.WebhookView, 200, deliveries.EndpointPatch, FORBIDDEN),
    "webhooks.delete": DELETED,
    "webhooks.test": one(views.TestEventView, "test_accepted", refusals=("endpoint_disabled",)),
    "webhook_deliveries.list": page(views.DeliveryAttemptView, "endpoint_id", "event_id"),
    "webhook_events.list": Wire(((200, views.EventTypeView),), paged=True),
    "crawled_pages.list": page(views.CrawledPageView, "domain_id", notices=True),
    "analyses.list": page(views.AnalysisView, "domain_id", notices=True),
    "analyses.findings": page(views.FindingView),
    "ai_visibility.list": page(views.AiVisibilityView, "domain_id", notices=True),
    "ai_visibility.industries": page(views.IndustryView, "domain_id", notices=True),
    "backlinks.list": page(views.BacklinksView, "domain_id"),
    "integrations.list": page(views.IntegrationView, "domain_id"),
}
"""Operation name to what it takes and gives."""
