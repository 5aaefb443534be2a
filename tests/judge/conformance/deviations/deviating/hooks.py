"""Deviations of webhooks (S18-S22, S40, S41, S75-S93)."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from deviating.kit import HOUR, MINUTE, SECOND, Deviation, Patch, data_of
from ranksim.bridges.rehearsal import Network
from ranksim.core.contract.views import TEST_EVENT
from ranksim.core.rules import webhooks
from ranksim.core.service import deliveries
from ranksim.core.service.context import Context
from ranksim.core.service.state import Endpoint
from ranksim.twin.facade import twin

LONG = ("webhooks-long", "webhooks", "calibration")
DELAYS = (MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR)


# What is sent


def sent(change: Callable[[dict[str, str], str, int, bytes, int], None]) -> Callable[[Patch], None]:
    """Change the headers of attempts: (headers, secret, t, body, number)."""

    def apply(patch: Patch) -> None:
        def headers(
            secret: str, t: int, body: bytes, event_id: str, event_type: str, number: int
        ) -> dict[str, str]:
            made = webhooks.headers(secret, t, body, event_id, event_type, number)
            change(made, secret, t, body, number)
            return made

        patch.setattr(deliveries, "headers", headers)

    return apply


def _sign_otherwise(secret: str, t: int, body: bytes) -> str:
    return webhooks.sign(secret, t, json.dumps(json.loads(body)).encode())


def _re_serialised(made: dict[str, str], secret: str, t: int, body: bytes, number: int) -> None:
    made["Service-Signature"] = _sign_otherwise(secret, t, body)


def re_serialised(patch: Patch) -> None:
    """Sign the JSON written anew, in the facade too, which signs with its own clock."""
    sent(_re_serialised)(patch)
    patch.setattr(twin, "sign", _sign_otherwise)


def _uppercase(made: dict[str, str], secret: str, t: int, body: bytes, number: int) -> None:
    stamp, _, digest = made["Service-Signature"].rpartition("=")
    made["Service-Signature"] = f"{stamp}={digest.upper()}"


def _without_t(made: dict[str, str], secret: str, t: int, body: bytes, number: int) -> None:
    digest = hmac.new(secret.encode(), body, sha256).hexdigest()
    made["Service-Signature"] = f"t={t},v1={digest}"


def _stale(made: dict[str, str], secret: str, t: int, body: bytes, number: int) -> None:
    made["Service-Signature"] = webhooks.sign(secret, t - 400, body)


def _stuck(made: dict[str, str], secret: str, t: int, body: bytes, number: int) -> None:
    made["Service-Delivery-Attempt"] = "1"


def _from_zero(made: dict[str, str], secret: str, t: int, body: bytes, number: int) -> None:
    made["Service-Delivery-Attempt"] = str(number - 1)


def _new_event(made: dict[str, str], secret: str, t: int, body: bytes, number: int) -> None:
    made["Service-Event-Id"] += f"-{number}"


def _no_type(made: dict[str, str], secret: str, t: int, body: bytes, number: int) -> None:
    del made["Service-Event-Type"]


def payload(change: Callable[[Any], None]) -> Callable[[Patch], None]:
    """Change the job that a body tells of."""

    def apply(patch: Patch) -> None:
        def made(event_id: str, event_type: str, created_at: int, data: dict[str, Any]) -> str:
            data = json.loads(json.dumps(data))
            if "job" in data:
                change(data["job"])
            return webhooks.payload(event_id, event_type, created_at, data)

        patch.setattr(deliveries, "payload", made)

    return apply


# Who gets it


def matching(
    change: Callable[[bool, Sequence[str], str | None, str, str | None], Any],
) -> Callable[[Patch], None]:
    """Choose the endpoints of an event otherwise."""

    def apply(patch: Patch) -> None:
        def matches(
            enabled: bool, types: Sequence[str], bound_to: str | None, event_type: str, domain: str | None
        ) -> bool:
            return webhooks.matches(*change(enabled, types, bound_to, event_type, domain))

        patch.setattr(deliveries, "matches", matches)

    return apply


def emitted(change: Callable[[str, list[Endpoint]], tuple[str, list[Endpoint]]]) -> Callable[[Patch], None]:
    """Change the type and the takers of events."""

    def apply(patch: Patch) -> None:
        emit = deliveries._emit

        def made(
            ctx: Context, event_type: str, account: Any, domain: Any, data: Any, endpoints: Any, now: int
        ) -> Any:
            event_type, takers = change(event_type, list(endpoints))
            return emit(ctx, event_type, account, domain, data, takers, now)

        patch.setattr(deliveries, "_emit", made)

    return apply


def _always_completed(event_type: str, takers: list[Endpoint]) -> tuple[str, list[Endpoint]]:
    return ("job.completed" if event_type == "job.failed" else event_type), takers


def _no_failures(event_type: str, takers: list[Endpoint]) -> tuple[str, list[Endpoint]]:
    return event_type, [] if event_type == "job.failed" else takers


def _tests_of_any_only(event_type: str, takers: list[Endpoint]) -> tuple[str, list[Endpoint]]:
    if event_type != TEST_EVENT:
        return event_type, takers
    return event_type, [one for one in takers if not one.event_types]


# What then


def acknowledging(change: Callable[[int | None], int | None]) -> Callable[[Patch], None]:
    """Take an answer for another."""

    def apply(patch: Patch) -> None:
        def acknowledged(status: int | None, duration: int, facts: Any) -> bool:
            return webhooks.acknowledged(change(status), duration, facts)

        patch.setattr(deliveries, "acknowledged", acknowledged)

    return apply


def never_reset(patch: Patch) -> None:
    """Leave the count of failures as it is after a success."""
    count = deliveries._count

    def counted(ctx: Context, endpoint: Endpoint, success: bool, exhausted: bool, now: int) -> None:
        if not success:
            count(ctx, endpoint, success, exhausted, now)

    patch.setattr(deliveries, "_count", counted)


def sent_although_disabled(patch: Patch) -> None:
    """Go on with the retries of a disabled endpoint."""
    attempt_due = deliveries.attempt_due

    def disable(ctx: Context, endpoint: Endpoint, reason: str, now: int) -> None:
        endpoint.enabled, endpoint.disabled_reason, endpoint.disabled_at = False, reason, now

    def due(ctx: Context, delivery_number: str, now: int) -> None:
        delivery = ctx.state.deliveries.get(int(delivery_number))
        endpoint = None if delivery is None else ctx.state.endpoints.get(delivery.endpoint)
        if endpoint is None or endpoint.enabled:
            attempt_due(ctx, delivery_number, now)
            return
        endpoint.enabled = True
        attempt_due(ctx, delivery_number, now)
        endpoint.enabled = False

    patch.setattr(deliveries, "disable", disable)
    patch.setattr(deliveries, "attempt_due", due)


def always_said_200(patch: Patch) -> None:
    """List every attempt as answered with 200."""
    shown = deliveries.show_attempt
    patch.setattr(
        deliveries, "show_attempt", lambda record: shown(record) | {"status_code": 200, "error": None}
    )


def secret_shown(patch: Patch) -> None:
    """Tell the secret with every reading of an endpoint."""
    shown = deliveries._endpoint
    patch.setattr(deliveries, "_endpoint", lambda endpoint: shown(endpoint) | {"secret": endpoint.secret})


def _no_disabled_reason(endpoint: Any) -> None:
    endpoint["disabled_reason"] = None


ENDPOINTS = data_of("webhooks.get", "webhooks.list")

HOOKS = (
    Deviation("signed-over-re-serialised-bytes", (84,), ("webhooks",), re_serialised),
    Deviation("signature-in-uppercase", (85,), ("webhooks",), sent(_uppercase)),
    Deviation("signed-without-t", (84,), ("webhooks",), sent(_without_t)),
    Deviation("t-400s-old", (78, 86), ("webhooks",), sent(_stale)),
    Deviation(
        "retries-with-the-first-t",
        (78, 86),
        LONG,
        chooses={"signature_time": "first"},
        pinned={"signature_time": "attempt"},
    ),
    Deviation("attempt-number-stuck", (81,), ("webhooks",), sent(_stuck)),
    Deviation("attempt-number-from-zero", (81,), ("webhooks",), sent(_from_zero)),
    Deviation("event-id-new-on-each-attempt", (79,), ("webhooks",), sent(_new_event)),
    Deviation("no-event-type-header", (80,), ("webhooks",), sent(_no_type)),
    Deviation(
        "body-without-error-detail", (82,), ("webhooks",), payload(lambda job: job.pop("error_detail"))
    ),
    Deviation("results-in-the-body", (83,), ("webhooks",), payload(lambda job: job.update(positions=[1, 2]))),
    Deviation(
        "events-of-other-domains",
        (20,),
        ("webhooks",),
        matching(lambda on, types, to, kind, of: (on, types, None, kind, of)),
    ),
    Deviation(
        "unlisted-event-types",
        (19,),
        ("webhooks",),
        matching(lambda on, types, to, kind, of: (on, (), to, kind, of)),
    ),
    Deviation(
        "empty-list-takes-completed-only",
        (18,),
        ("webhooks", "everyday"),
        matching(lambda on, types, to, kind, of: (on, types or ["job.completed"], to, kind, of)),
    ),
    Deviation("failures-told-as-completed", (76,), ("webhooks",), emitted(_always_completed)),
    Deviation("failures-not-told", (76,), ("webhooks",), emitted(_no_failures)),
    Deviation("tests-only-for-empty-lists", (41,), ("webhooks",), emitted(_tests_of_any_only)),
    Deviation("delays-doubled", (90,), LONG, promises={"webhook_delays": tuple(2 * one for one in DELAYS)}),
    Deviation("no-30-min-delay", (90,), LONG, promises={"webhook_delays": DELAYS[:2] + DELAYS[3:]}),
    Deviation("five-attempts", (90,), LONG, promises={"webhook_delays": DELAYS[:4]}),
    Deviation("seven-attempts", (90,), LONG, promises={"webhook_delays": (*DELAYS[:4], HOUR, HOUR)}),
    Deviation("never-retried", (87, 90), ("webhooks",), promises={"webhook_delays": ()}),
    Deviation(
        "redirect-acknowledges",
        (89,),
        ("webhooks",),
        acknowledging(lambda status: 200 if status == 302 else status),
    ),
    Deviation(
        "gone-ends-a-delivery",
        (87,),
        ("webhooks",),
        acknowledging(lambda status: 200 if status == 410 else status),
    ),
    Deviation(
        "204-is-tried-again",
        (87,),
        LONG,
        acknowledging(lambda status: 500 if status == 204 else status),
    ),
    Deviation(
        "answer-after-12s-accepted",
        (88,),
        ("webhooks",),
        promises={"webhook_timeout": 14 * SECOND},
        network=Network(hook_timeout=14 * SECOND),
    ),
    Deviation("hangs-up-after-5s", (88,), ("webhooks",), network=Network(hook_timeout=5 * SECOND)),
    Deviation("disabled-at-19", (91,), LONG, promises={"webhook_disable_after": 19}),
    Deviation(
        "disabled-at-21",
        (91,),
        LONG,
        promises={"webhook_disable_after": 21},
        pinned={"failure_counted": "attempt"},
    ),
    Deviation("never-disabled", (91,), LONG, promises={"webhook_disable_after": 10**6}),
    Deviation("count-not-reset", (92,), LONG, never_reset),
    Deviation("sent-although-disabled", (91,), LONG, sent_although_disabled),
    Deviation("deliveries-listed-as-200", (40,), ("webhooks",), always_said_200),
    Deviation("secret-shown-again", (21,), ("webhooks", "everyday"), secret_shown),
    Deviation("no-reason-for-disabling", (22,), LONG, alter=ENDPOINTS(_no_disabled_reason)),
)

__all__ = ["HOOKS", "replace"]
