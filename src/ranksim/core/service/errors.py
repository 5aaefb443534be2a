"""Every error code of the service: its title and remedy, and the problem body that carries it (S94-S99)."""

from typing import cast

from ranksim.core.contract.policy import Policy
from ranksim.core.contract.views import Meta, ProblemView
from ranksim.core.service.calls import Body, Reply

DOCS_URL = "https://docs.rank-tracker.example"
"""The {docs_url} of the specification, which gives none."""

PROBLEM_JSON = "application/problem+json"

TEXTS: dict[str, tuple[str, str]] = {
    "unauthorized": ("Missing or unknown API key", "Send a valid key of this environment as a bearer token."),
    "forbidden": ("Not allowed with this key", "Use a key that is not bound to one domain."),
    "not_found": ("No such resource", "Check the path and the id."),
    "out_of_scope": ("No such resource", "Check the path and the id."),
    "method_not_allowed": ("Method not allowed", "Use a method that this path supports."),
    "payload_too_large": ("Body too large", "Send a smaller body."),
    "unsupported_media_type": ("Unsupported media type", "Send application/json."),
    "invalid_request": ("Malformed request", "Send a JSON object in UTF-8."),
    "validation_failed": ("Invalid field", "Correct the fields named in meta and send the request again."),
    "invalid_cursor": ("Invalid cursor", "Start the walk again without a cursor, with the same filters."),
    "idempotency_key_invalid": ("Invalid Idempotency-Key", "Send a key of 1 to 255 characters."),
    "idempotency_mismatch": ("Idempotency-Key reused", "Use a new Idempotency-Key for a different request."),
    "idempotency_in_progress": ("Request in progress", "Wait for the first request to be answered."),
    "rate_limited": ("Rate limit exceeded", "Wait for Retry-After seconds."),
    "entitlement_required": ("Not in your plan", "Change to a plan that includes this."),
    "subscription_inactive": ("Subscription inactive", "Settle the outstanding payment."),
    "cost_cap_reached": ("Monthly cost ceiling reached", "Wait for the reset date or change plan."),
    "quota_exhausted": ("Allowance used up", "Wait for the reset, buy an add-on or change plan."),
    "allowance_exhausted": ("Weekly allowance used up", "Wait for the reset or buy an add-on."),
    "slot_limit_exceeded": ("Not enough keyword slots", "Track less, wait for held slots, or change plan."),
    "cooldown_active": ("Run again too soon", "Wait until the time in meta."),
    "endpoint_disabled": ("Endpoint is disabled", "Enable the endpoint first."),
    "internal_error": ("Internal error", "Try again; if it persists, report the request id."),
}
"""Code to (title, remedy)."""


def status_of(policy: Policy, code: str) -> int:
    """Return the HTTP status of an error code (S98, S100, U12-U24)."""
    if code == "quota_exhausted":
        return policy.facts.quota_exhausted_status
    if code == "rate_limited":
        return policy.facts.rate_limited_status
    status: int = getattr(policy.statuses, code)
    return status


def problem(policy: Policy, code: str, detail: str, meta: Meta | None = None, *, check: int = 0) -> Reply:
    """Build an error reply with the complete problem body (S94); `Service.handle` fills in `request_id`."""
    title, remedy = TEXTS[code]
    status = status_of(policy, code)
    public = "not_found" if code == "out_of_scope" else code
    url = f"{DOCS_URL}/api/errors#{public}"
    body: ProblemView = {
        "type": url,
        "title": title,
        "status": status,
        "code": public,
        "detail": detail,
        "remedy": remedy,
        "meta": meta or {},
        "request_id": "",
        "documentation_url": url,
    }
    return Reply(
        status,
        cast(Body, body),
        headers={"Content-Type": PROBLEM_JSON},
        code=public,
        check=check,
        outcome="refused" if check else "error",
    )
