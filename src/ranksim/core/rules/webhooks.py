"""Webhook rules: who gets an event, what is sent and signed, what counts as received, when to try again."""

import hmac
import re
from collections.abc import Sequence
from functools import lru_cache

from pydantic_core import to_json

from ranksim.core.clock import Micros, iso
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import Facts
from ranksim.core.contract.views import JobEventDataView, TestEventDataView

_SIGNATURE = re.compile(r"t=([0-9]{1,15}),v1=(\S+)")


# Who


def matches(
    enabled: bool, event_types: Sequence[str], bound_to: str | None, event_type: str, domain: str | None
) -> bool:
    """Return whether an endpoint gets an event of `event_type` about `domain`.

    `event_types` and `bound_to` are the endpoint's. An empty list takes every type, those of later versions
    included; an explicit list takes what it names and nothing else, even if it names every type of today
    (S18, S19, S115, E29). An endpoint is account-wide (None) or bound to one domain (S20).
    """
    return (
        enabled
        and (not event_types or event_type in event_types)
        and (bound_to is None or bound_to == domain)
    )


# What


def payload(
    event_id: str, event_type: str, created_at: Micros, data: JobEventDataView | TestEventDataView
) -> str:
    """Write the body of an event; every attempt sends exactly these characters (S82, U68).

    `data` names things and holds no results (S83).
    """
    event = {"id": event_id, "type": event_type, "created_at": iso(created_at), "data": data}
    return to_json(event).decode()


def sign(secret: str, t: int, body: bytes) -> str:
    """Write the Service-Signature of a raw body signed at Unix second `t` (S78, S84, S85)."""
    return f"t={t},v1={_digest(secret, t, body)}"


def verify(secret: str, header: str, body: bytes, now: int, tolerance: int = 300) -> bool:
    """Check a Service-Signature as a receiver should: raw body, constant time, recent (S86).

    `now` and `tolerance` are in seconds; a signature from the future is refused like one from the past (U77,
    E34).
    """
    match = _SIGNATURE.fullmatch(header)
    if match is None or abs(now - int(match[1])) > tolerance:
        return False
    return hmac.compare_digest(_digest(secret, int(match[1]), body).encode(), match[2].encode())


def headers(secret: str, t: int, body: bytes, event_id: str, event_type: str, number: int) -> dict[str, str]:
    """Return the headers of attempt `number`, counted from 1, signed at Unix second `t` (S77-S81)."""
    return {
        "Content-Type": "application/json",
        "Service-Signature": sign(secret, t, body),
        "Service-Event-Id": event_id,
        "Service-Event-Type": event_type,
        "Service-Delivery-Attempt": str(number),
    }


def _digest(secret: str, t: int, body: bytes) -> str:
    signature = _keyed(secret).copy()
    signature.update(b"%d.%b" % (t, body))
    return signature.hexdigest()


@lru_cache(maxsize=1 << 10)  # taking in the key is a third of the work, and an endpoint signs with one
def _keyed(secret: str) -> hmac.HMAC:
    return hmac.new(secret.encode(), digestmod="sha256")


# What then


def acknowledged(status: int | None, duration: Micros, facts: Facts) -> bool:
    """Return whether an answer acknowledges a delivery: any 2xx in time, and nothing else (S87-S89).

    `status` is None when no answer came. A 2xx after the timeout fails although the receiver has acted (E24).
    """
    return status is not None and 200 <= status <= 299 and duration <= facts.webhook_timeout


JITTER = 1_000_000
"""The draw that shifts a retry by the whole of the jitter."""


def retry_at(
    failures: int,
    failed_at: Micros,
    first_failed_at: Micros,
    draw: int,
    facts: Facts,
    assumptions: Assumptions,
) -> Micros | None:
    """Return the instant of the next attempt after `failures` failed ones (1 or more), or None for no more.

    Each delay runs from the failure before it; or, with `retry_from: first_attempt`, the delays add up from
    the first failure, so that slow answers do not shift the schedule. Only the newest delay is jittered, by
    `draw` in [-JITTER, JITTER]: the least shortens it most (S90, U67).
    """
    if failures > len(facts.webhook_delays):
        return None
    delay = facts.webhook_delays[failures - 1]
    delay += delay * assumptions.retry_jitter_percent * draw // (100 * JITTER)
    if assumptions.retry_from == "failure":
        return failed_at + delay
    return max(failed_at, first_failed_at + sum(facts.webhook_delays[: failures - 1]) + delay)
