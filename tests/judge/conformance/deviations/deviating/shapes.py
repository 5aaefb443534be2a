"""Deviations of access (S1, S3, S39, S68-S71) and of the shapes of replies (S8, S11-S17, S94-S96, S107)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from deviating.kit import Deviation, Handler, Headers, Patch, data_of, edited, handled, header, without
from ranksim.core.callers.steps import Send
from ranksim.core.rules import access
from ranksim.core.service import deliveries, resolve, resources, scans, service, traffic
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request

# Access


def resolving(change: Callable[[Any, str | None, str], Any]) -> Callable[[Patch], None]:
    """Find another key for a token."""
    return lambda patch: patch.setattr(service, "resolve", change)


def _anywhere(keys: Any, token: str | None, environment: str) -> Any:
    key = None if token is None else keys.get(token)
    return key or access.resolve(keys, token, environment)


def _anybody(keys: Any, token: str | None, environment: str) -> Any:
    return next(iter(keys.values())) if token is None else access.resolve(keys, token, environment)


def _any_token(keys: Any, token: str | None, environment: str) -> Any:
    found = access.resolve(keys, token, environment)
    return next(iter(keys.values())) if found is None and token not in keys and token else found


def scope_ignored(patch: Patch) -> None:
    """Let a domain-scoped key see all domains."""
    for module in (resources, resolve, scans):
        patch.setattr(module, "sees", lambda scope, domain: True, raising=True)


def account_wide_endpoints(patch: Patch) -> None:
    """Let a domain-scoped key create an endpoint for the account."""
    refuse = deliveries._refuse_domain
    patch.setattr(
        deliveries,
        "_refuse_domain",
        lambda ctx, request, domain: None if domain is None else refuse(ctx, request, domain),
    )


# Shapes


def errors(change: Callable[[Any], Any]) -> Any:
    """Change every error body."""

    def apply(send: Send, status: int, reply: Any) -> Any:
        return change(reply) if status >= 400 else None

    return edited(apply)


def singles(change: Callable[[Any], Any]) -> Any:
    """Change every body of a success that is not a collection."""

    def apply(send: Send, status: int, reply: Any) -> Any:
        return change(reply) if status < 300 and isinstance(reply.get("data"), dict) else None

    return edited(apply)


def _own_request_id(send: Send, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    if send.request_id is not None:
        headers["x-request-id"] = "req_of_the_deployment"
    return status, headers, body


def _spaced(domain: Any) -> None:
    domain["created_at"] = domain["created_at"].replace("T", " ").removesuffix("Z")


def _page_without_cursor(send: Send, status: int, reply: Any) -> None:
    if status < 300 and isinstance(reply.get("data"), list):
        reply.pop("next_cursor")


def _unscoped(handler: Handler, ctx: Context, request: Request) -> Reply:
    return handler(ctx, replace(request, scope=None))


def _of_any_account(handler: Handler, ctx: Context, request: Request) -> Reply:
    domain = ctx.state.domains.get(request.call.path["id"])
    owner = request.account if domain is None else ctx.state.accounts[domain.account]
    return handler(ctx, replace(request, account=owner))


def _stale(send: Send, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    if send.operation.endswith(".update") and status == 200:
        headers["content-length"] = "0"
        return 412, headers, b""
    return status, headers, body


def _deprecated(send: Send, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    headers["deprecation"] = "@1767225600"
    return status, headers, body


DOMAINS = data_of("domains.get", "domains.list", "domains.create", "domains.update")

SHAPES = (
    Deviation("wrong-environment-accepted", (3,), ("scope",), resolving(_anywhere)),
    Deviation("missing-key-accepted", (68,), ("scope",), resolving(_anybody)),
    Deviation("unknown-key-accepted", (68,), ("scope",), resolving(_any_token)),
    Deviation("other-accounts-are-read", (5,), ("scope",), handled("domains.get", _of_any_account)),
    Deviation("other-accounts-are-changed", (5,), ("scope",), handled("domains.update", _of_any_account)),
    Deviation("scoped-key-reads-other-domains", (70,), ("scope",), scope_ignored),
    Deviation("scoped-key-makes-account-endpoints", (71,), ("scope",), account_wide_endpoints),
    Deviation(
        "event-types-need-a-key",
        (39,),
        ("scope",),
        lambda patch: patch.setattr(traffic, "needs_key", lambda call: True),
    ),
    Deviation("no-request-id", (107,), ("everyday",), alter=without("x-request-id")),
    Deviation("request-id-not-echoed", (107,), ("everyday",), alter=_own_request_id),
    Deviation(
        "error-without-remedy",
        (94,),
        ("ladder", "everyday"),
        alter=errors(lambda error: error.pop("remedy") and None),
    ),
    Deviation("error-in-an-envelope", (11, 94), ("ladder",), alter=errors(lambda error: {"error": error})),
    Deviation(
        "error-type-blank", (95,), ("ladder",), alter=errors(lambda error: error.update(type="about:blank"))
    ),
    Deviation(
        "error-of-another-request",
        (96,),
        ("ladder",),
        alter=errors(lambda error: error.update(request_id="req_other")),
    ),
    Deviation("single-without-envelope", (8,), ("everyday",), alter=singles(lambda reply: reply["data"])),
    Deviation("page-without-next-cursor", (9,), ("everyday",), alter=edited(_page_without_cursor)),
    Deviation("html", (8, 94), ("everyday",), alter=header("content-type", lambda value: "text/html")),
    Deviation("timestamps-with-a-blank", (17,), ("everyday",), alter=DOMAINS(_spaced)),
    Deviation(
        "domain-without-label", (12,), ("everyday",), alter=DOMAINS(lambda domain: domain.pop("label"))
    ),
    Deviation(
        "job-without-error-detail",
        (13,),
        ("everyday",),
        alter=data_of("jobs.get", "jobs.list")(lambda job: job.pop("error_detail")),
    ),
    Deviation(
        "scoped-key-makes-lists-elsewhere",
        (70,),
        ("scope",),
        handled("keyword_lists.create", _unscoped),
    ),
    Deviation("stale-patch-refused", (49, 50), ("everyday",), alter=_stale),
    Deviation("deprecation-without-sunset", (114,), ("everyday",), alter=_deprecated),
    Deviation(
        "unknown-event-type",
        (75,),
        ("everyday",),
        alter=data_of("webhook_events.list")(lambda one: one.update(type="job.started")),
    ),
)
