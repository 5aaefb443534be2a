"""The table of operations: name → method, path, rate class, handler.

Every surface is built from this one table. Paths are relative to the /v1 prefix (S1, S112, U107); an
operation is `shown` when the specification states its path, else the path is an assumption.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.service import account, deliveries, jobs, resources, scans, spending, synthetic_results
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request

READ, WRITE, EXPENSIVE = RateClass.READ, RateClass.WRITE, RateClass.EXPENSIVE

Handler = Callable[[Context, Request], Reply]


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing the API can do.

    `spends` marks the seven operations that take dry_run (S29, S51), `tracking` the two of them that only
    commit future scans, whose rate class is an assumption (U2). `keyless` needs no key (S39).
    """

    name: str
    method: str
    path: str
    rate: RateClass
    handler: Handler
    shown: bool = False
    spends: bool = False
    tracking: bool = False
    keyless: bool = False

    def rate_class(self, policy: Policy) -> RateClass:
        """Return the rate class under a policy (S102-S104, U2)."""
        if self.tracking and policy.assumptions.tracking_class == "expensive":
            return EXPENSIVE
        return self.rate


TABLE = (
    Operation("domains.list", "GET", "domains", READ, resources.list_domains, shown=True),
    Operation("domains.create", "POST", "domains", WRITE, resources.create_domain),
    Operation("domains.get", "GET", "domains/{id}", READ, resources.get_domain),
    Operation("domains.update", "PATCH", "domains/{id}", WRITE, resources.update_domain),
    Operation("domains.delete", "DELETE", "domains/{id}", WRITE, resources.delete_domain),
    Operation("keyword_lists.list", "GET", "keyword-lists", READ, resources.KEYWORD_LISTS.list),
    Operation("keyword_lists.create", "POST", "keyword-lists", WRITE, resources.KEYWORD_LISTS.create),
    Operation("keyword_lists.get", "GET", "keyword-lists/{id}", READ, resources.KEYWORD_LISTS.get),
    Operation("keyword_lists.update", "PATCH", "keyword-lists/{id}", WRITE, resources.KEYWORD_LISTS.update),
    Operation("keyword_lists.delete", "DELETE", "keyword-lists/{id}", WRITE, resources.KEYWORD_LISTS.delete),
    Operation("keywords.list", "GET", "keywords", READ, resources.list_keywords, shown=True),
    Operation(
        "keywords.create",
        "POST",
        "keywords",
        WRITE,
        spending.create_keywords,
        shown=True,
        spends=True,
        tracking=True,
    ),
    Operation("keywords.get", "GET", "keywords/{id}", READ, resources.get_keyword),
    Operation("keywords.update", "PATCH", "keywords/{id}", WRITE, resources.update_keyword),
    Operation("keywords.delete", "DELETE", "keywords/{id}", WRITE, resources.delete_keyword),
    Operation("labels.list", "GET", "labels", READ, resources.LABELS.list),
    Operation("labels.create", "POST", "labels", WRITE, resources.LABELS.create),
    Operation("labels.get", "GET", "labels/{id}", READ, resources.LABELS.get),
    Operation("labels.update", "PATCH", "labels/{id}", WRITE, resources.LABELS.update),
    Operation("labels.delete", "DELETE", "labels/{id}", WRITE, resources.LABELS.delete),
    Operation("competitors.list", "GET", "competitors", READ, resources.COMPETITORS.list),
    Operation("competitors.create", "POST", "competitors", WRITE, resources.COMPETITORS.create),
    Operation("competitors.get", "GET", "competitors/{id}", READ, resources.COMPETITORS.get),
    Operation("competitors.update", "PATCH", "competitors/{id}", WRITE, resources.COMPETITORS.update),
    Operation("competitors.delete", "DELETE", "competitors/{id}", WRITE, resources.COMPETITORS.delete),
    Operation("scans.list", "GET", "scans", READ, scans.list_scans),
    Operation(
        "scans.create", "POST", "scans", WRITE, spending.create_scan, shown=True, spends=True, tracking=True
    ),
    Operation("scans.get", "GET", "scans/{id}", READ, scans.get_scan),
    Operation("scans.update", "PATCH", "scans/{id}", WRITE, scans.update_scan),
    Operation("scans.delete", "DELETE", "scans/{id}", WRITE, scans.delete_scan),
    Operation("slots.get", "GET", "slots", READ, account.get_slots, shown=True),
    Operation("jobs.list", "GET", "jobs", READ, jobs.list_jobs),
    Operation("jobs.create", "POST", "jobs", EXPENSIVE, spending.create_job, shown=True, spends=True),
    Operation("jobs.get", "GET", "jobs/{kind}/{id}", READ, jobs.get_job, shown=True),
    Operation("keyword_briefs.list", "GET", "keyword-briefs", READ, account.list_briefs, shown=True),
    Operation(
        "keyword_briefs.create",
        "POST",
        "keyword-briefs",
        EXPENSIVE,
        spending.create_briefs,
        shown=True,
        spends=True,
    ),
    Operation("positions.list", "GET", "positions", READ, synthetic_results.list_positions),
    Operation("positions.history", "GET", "positions/history", READ, synthetic_results.list_history),
    Operation("account.get", "GET", "account", READ, account.get_account),
    Operation("account.usage", "GET", "account/usage", READ, account.get_usage, shown=True),
    Operation("account.entitlements", "GET", "account/entitlements", READ, account.get_entitlements),
    Operation("webhooks.list", "GET", "webhooks", READ, deliveries.list_endpoints),
    Operation("webhooks.create", "POST", "webhooks", WRITE, deliveries.create_endpoint),
    Operation("webhooks.get", "GET", "webhooks/{id}", READ, deliveries.get_endpoint),
    Operation("webhooks.update", "PATCH", "webhooks/{id}", WRITE, deliveries.update_endpoint),
    Operation("webhooks.delete", "DELETE", "webhooks/{id}", WRITE, deliveries.delete_endpoint),
    Operation("webhooks.test", "POST", "webhooks/{id}/test", WRITE, deliveries.test_endpoint, shown=True),
    Operation(
        "webhook_deliveries.list", "GET", "webhook-deliveries", READ, deliveries.list_deliveries, shown=True
    ),
    Operation(
        "webhook_events.list",
        "GET",
        "webhook-events",
        READ,
        deliveries.list_event_types,
        shown=True,
        keyless=True,
    ),
    Operation("crawled_pages.list", "GET", "crawled-pages", READ, synthetic_results.list_crawled_pages),
    Operation("analyses.list", "GET", "analyses", READ, synthetic_results.list_analyses),
    Operation("analyses.findings", "GET", "analyses/{id}/findings", READ, synthetic_results.list_findings),
    Operation("ai_visibility.list", "GET", "ai-visibility", READ, synthetic_results.list_ai_visibility),
    Operation(
        "ai_visibility.industries", "GET", "ai-visibility/industries", READ, synthetic_results.list_industries
    ),
    Operation("backlinks.list", "GET", "backlinks", READ, synthetic_results.list_backlinks),
    Operation("integrations.list", "GET", "integrations", READ, synthetic_results.list_integrations),
)

OPERATIONS = {operation.name: operation for operation in TABLE}
"""Operation by name."""


def is_read_only(operations: Collection[str]) -> bool:
    """Return whether each of these operations only reads."""
    return all(OPERATIONS[name].method == "GET" for name in operations)
