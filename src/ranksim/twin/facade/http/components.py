"""What operations of an OpenAPI document share, and webhook deliveries: parameters, headers, links."""

from __future__ import annotations

from typing import Any

from ranksim.core.clock import format_duration
from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.views import DELIVERED, TEST_EVENT
from ranksim.core.service.deliveries import DESCRIPTIONS
from ranksim.core.service.operations import OPERATIONS, Operation
from ranksim.twin.facade.http.response_schemas import STRING, Schema, name_of, ref


def shared_parameters(policy: Policy) -> Schema:
    """Describe the parameters of several operations, by name."""
    facts, assumptions = policy.facts, policy.assumptions
    limit: Schema = {"type": "integer", "minimum": 1, "default": facts.page_default}
    most = f"At most {facts.page_max} come"
    if assumptions.page_limit_over == "refuse":
        limit["maximum"] = facts.page_max
        most = f"At most {facts.page_max}"
    return {
        "Limit": {
            "name": "limit",
            "in": "query",
            "description": f"Items a page. {most}.",
            "schema": limit,
            "x-assumption": "U34",
        },
        "Cursor": {
            "name": "cursor",
            "in": "query",
            "description": "The `next_cursor` of the page before; belongs to its filters.",
            "schema": STRING | {"minLength": 1},
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Makes the work be done once: a repeat within "
            f"{format_duration(facts.idempotency_retention)} gets the first response.",
            "schema": STRING | {"minLength": 1, "maxLength": assumptions.idempotency_key_max},
        },
        "RequestId": {
            "name": "X-Request-Id",
            "in": "header",
            "description": "Used as given in the response.",
            "schema": STRING,
        },
    }


def shared_headers(policy: Policy) -> Schema:
    """Describe the headers of answers, by name."""
    at_least_0: Schema = {"type": "integer", "minimum": 0}
    rates = [(policy.facts.rates.of(rate_class), rate_class.label) for rate_class in RateClass]
    stated = [(entry.quota, entry.name) for entry in policy.windows] or rates
    classes = ", ".join(f"{limit} {name}" for limit, name in stated)
    waits = "An HTTP date." if policy.assumptions.retry_after_format == "http_date" else "Seconds."
    wait: Schema = {
        "description": waits,
        "schema": STRING if waits[0] == "A" else at_least_0 | {"minimum": 1},
    }
    headers: Schema = {
        "RequestId": {
            "description": "The client's X-Request-Id, or one made for it.",
            "required": True,
            "schema": STRING,
        },
        "RateLimitLimit": {
            "description": f"Requests in a window of the class charged: {classes}.",
            "required": True,
            "schema": at_least_0,
        },
        "RateLimitRemaining": {
            "description": "Requests left in the window.",
            "required": True,
            "schema": at_least_0,
        },
        "RateLimitReset": {
            "description": "Seconds until the window begins anew."
            if policy.assumptions.reset_format == "delta"
            else "When the window begins anew: seconds since the epoch.",
            "required": True,
            "schema": at_least_0,
            "x-assumption": "U5",
        },
        "RetryAfter": wait | {"required": True, "x-assumption": "U6"},
        "RetryAfterCooldown": wait | {"x-assumption": "U23"},
        "WWWAuthenticate": {"required": True, "schema": STRING, "x-assumption": "U12"},
        "Replayed": {
            "description": "The first response to this Idempotency-Key, sent again.",
            "schema": STRING | {"const": "true"},
            "x-assumption": "U31",
        },
    }
    return headers


def every_header(method: str) -> Schema:
    """Refer to the headers that every answer to a method has."""
    named = {
        "X-Request-Id": "RequestId",
        "RateLimit-Limit": "RateLimitLimit",
        "RateLimit-Remaining": "RateLimitRemaining",
        "RateLimit-Reset": "RateLimitReset",
    }
    if method == "POST":
        named["Idempotent-Replayed"] = "Replayed"
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in named.items()}


def _link(target: str, body: Any = None, **parameters: str) -> Schema:
    link: Schema = {"operationId": target}
    if parameters:
        link["parameters"] = parameters
    if body is not None:
        link["requestBody"] = body
    return link


ID, DOMAIN_ID = "$response.body#/data/id", "$response.body#/data/domain_id"

LINKS: dict[tuple[str, str], dict[str, Schema]] = {
    ("domains.create", "created"): {
        "add_list": _link("keyword_lists.create", {"domain_id": ID}),
        "add_label": _link("labels.create", {"domain_id": ID}),
        "add_competitor": _link("competitors.create", {"domain_id": ID}),
        "start_job": _link("jobs.create", {"domain_id": ID}),
        "add_webhook": _link("webhooks.create", {"domain_id": ID}),
        "read_positions": _link("positions.list", domain_id=ID),
    },
    ("keyword_lists.create", "created"): {
        "add_keywords": _link("keywords.create", {"list_id": ID}),
        "track": _link("scans.create", {"domain_id": DOMAIN_ID, "list_ids": [ID]}),
    },
    ("keywords.create", "created"): {
        verb: _link(f"keywords.{verb}", id="$response.body#/data/created/0/id")
        for verb in ("get", "update", "delete")
    },
    ("jobs.create", "job_accepted"): {
        "get": _link("jobs.get", kind="$response.body#/data/kind", id=ID),
    },
    ("analyses.list", "200"): {"read_findings": _link("analyses.findings", id="$response.body#/data/0/id")},
    ("webhooks.create", "created"): {
        "test": _link("webhooks.test", id=ID),
        "read_deliveries": _link("webhook_deliveries.list", endpoint_id=ID),
    },
}


def links_of(operation: Operation, status: int | str) -> Schema:
    """Return links: what can be done with what an operation answered, first of all with what it created."""
    links = dict(LINKS.get((operation.name, str(status)), {}))
    subject, _, verb = operation.name.partition(".")
    if verb == "create" and status == "created" and f"{subject}.get" in OPERATIONS:
        for next_verb in ("get", "update", "delete"):
            links.setdefault(next_verb, _link(f"{subject}.{next_verb}", id=ID))
    return links


def delivery_operation(policy: Policy, event_type: str) -> Schema:
    """Describe what is sent to a webhook endpoint (S77-S90)."""
    facts = policy.facts
    delays = ", ".join(map(format_duration, facts.webhook_delays))
    headers = {
        "Service-Signature": STRING | {"pattern": "^t=[0-9]+,v1=[0-9a-f]{64}$"},
        "Service-Event-Id": STRING,
        "Service-Event-Type": STRING | {"const": event_type},
        "Service-Delivery-Attempt": {"type": "integer", "minimum": 1, "maximum": facts.webhook_attempts},
    }
    delivery: Schema = {
        "operationId": f"on.{event_type}",
        "summary": DESCRIPTIONS.get(event_type, "Somebody asked for a test event."),
        "description": "v1 is the HMAC-SHA256 of `<t>.<raw body>` under the endpoint's secret, in hex.",
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "schema": schema}
            for name, schema in headers.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": ref(name_of(DELIVERED[event_type]))}},
        },
        "responses": {
            "2XX": {
                "description": f"Received. It must come within {format_duration(facts.webhook_timeout)}."
            },
            "default": {
                "description": f"Failed: tried again after {delays}."
                if delays
                else "Failed, and not tried again."
            },
        },
    }
    return delivery | {"x-assumption": "U72"} if event_type == TEST_EVENT else delivery
