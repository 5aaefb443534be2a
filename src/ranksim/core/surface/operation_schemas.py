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


def collection(view: View, *filters: str, notices: bool = False, refusals: tuple[str, ...] = ()) -> Wire:
    """Answer with a page of a collection."""
    return Wire(((200, view),), paged=True, notices=notices, filters=filters, refusals=refusals)


def single(
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
    "domains.list": collection(views.DomainView),
    "domains.create": single(views.DomainView, CREATED, bodies.DomainBody, FORBIDDEN),
    "domains.get": single(views.DomainView),
    "domains.update": single(views.DomainView, 200, bodies.DomainPatch),
    "domains.delete": DELETED,
    "keyword_lists.list": collection(views.KeywordListView, "domain_id"),
    "keyword_lists.create": single(views.KeywordListView, CREATED, bodies.NamedBody, NOT_FOUND),
    "keyword_lists.get": single(views.KeywordListView),
    "keyword_lists.update": single(views.KeywordListView, 200, bodies.NamedPatch),
    "keyword_lists.delete": DELETED,
    "keywords.list": collection(views.KeywordView, "domain_id", "list_id", "label_id", "keyword"),
    "keywords.create": Wire(
        ((CREATED, views.KeywordsAddedView), DRY_RUN), bodies.KeywordsBody, refusals=NOT_FOUND
    ),
    "keywords.get": single(views.KeywordView),
    "keywords.update": single(views.KeywordView, 200, bodies.KeywordPatch),
    "keywords.delete": DELETED,
    "labels.list": collection(views.LabelView, "domain_id"),
    "labels.create": single(views.LabelView, CREATED, bodies.NamedBody, NOT_FOUND),
    "labels.get": single(views.LabelView),
    "labels.update": single(views.LabelView, 200, bodies.NamedPatch),
    "labels.delete": DELETED,
    "competitors.list": collection(views.CompetitorView, "domain_id"),
    "competitors.create": single(views.CompetitorView, CREATED, bodies.CompetitorBody, NOT_FOUND),
    "competitors.get": single(views.CompetitorView),
    "competitors.update": single(views.CompetitorView, 200, bodies.CompetitorPatch),
    "competitors.delete": DELETED,
    "scans.list": collection(views.ScanView, "domain_id", "active"),
    "scans.create": Wire(((CREATED, views.ScanView), DRY_RUN), bodies.ScanBody, refusals=NOT_FOUND),
    "scans.get": single(views.ScanView),
    "scans.update": single(views.ScanView, 200, bodies.ScanPatch),
    "scans.delete": DELETED,
    "slots.get": single(views.SlotsView, refusals=FORBIDDEN),
    "jobs.list": collection(views.JobView, "domain_id", "kind", "status"),
    "jobs.create": Wire(
        (("job_accepted", views.JobView), ("job_joined", views.JobView), DRY_RUN),
        bodies.JobBody,
        refusals=NOT_FOUND,
    ),
    "jobs.get": single(views.JobView),
    "keyword_briefs.list": collection(views.KeywordBriefView, "domain_id"),
    "keyword_briefs.create": Wire(
        ((CREATED, views.KeywordBriefsMadeView), DRY_RUN), bodies.BriefsBody, refusals=NOT_FOUND
    ),
    "positions.list": collection(views.RankPositionView, "domain_id", "keyword_id", "date", notices=True),
    "positions.history": collection(views.RankPositionView, "domain_id", "keyword_id", "date", notices=True),
    "account.get": single(views.AccountView, refusals=FORBIDDEN),
    "account.usage": single(views.UsageView, refusals=FORBIDDEN),
    "account.entitlements": single(views.EntitlementsView, refusals=FORBIDDEN),
    "webhooks.list": collection(views.WebhookView, "domain_id"),
    "webhooks.create": single(
        views.WebhookCreatedView, CREATED, deliveries.EndpointBody, (*FORBIDDEN, *NOT_FOUND)
    ),
    "webhooks.get": single(views.WebhookView),
    "webhooks.update": single(views.WebhookView, 200, deliveries.EndpointPatch, FORBIDDEN),
    "webhooks.delete": DELETED,
    "webhooks.test": single(views.TestEventView, "test_accepted", refusals=("endpoint_disabled",)),
    "webhook_deliveries.list": collection(views.DeliveryAttemptView, "endpoint_id", "event_id"),
    "webhook_events.list": Wire(((200, views.EventTypeView),), paged=True),
    "crawled_pages.list": collection(views.CrawledPageView, "domain_id", notices=True),
    "analyses.list": collection(views.AnalysisView, "domain_id", notices=True),
    "analyses.findings": collection(views.FindingView),
    "ai_visibility.list": collection(views.AiVisibilityView, "domain_id", notices=True),
    "ai_visibility.industries": collection(views.IndustryView, "domain_id", notices=True),
    "backlinks.list": collection(views.BacklinksView, "domain_id"),
    "integrations.list": collection(views.IntegrationView, "domain_id"),
}
"""Operation name to what it takes and gives."""
