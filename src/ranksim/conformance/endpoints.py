"""Webhook endpoints as a trace tells of them: how they were set, and when they were seen disabled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ranksim.clock import Micros
from ranksim.conformance.history import History, Json, Seen


@dataclass(frozen=True, slots=True)
class Setting:
    """How an endpoint was set by a call, or shown by a reading, in [sent, received].

    `types` and `domain` are None where the reply does not say; `domain` is "" for an account-wide endpoint.
    """

    seen: Seen
    enabled: bool | None
    types: tuple[str, ...] | None
    domain: str | None
    reason: str | None


@dataclass(slots=True)
class Endpoint:
    """One endpoint: who owns it, and what was set and shown of it, in order of sending."""

    id: str
    account: str
    settings: list[Setting] = field(default_factory=list)
    touched: list[Seen] = field(default_factory=list)
    """Calls that change it: PATCH and DELETE, lost ones too."""
    created: Seen | None = None

    def may_take(self, event_type: str) -> bool | None:
        """Whether any setting takes this type (S18, S19); None when none is known."""
        known = [setting.types for setting in self.settings if setting.types is not None]
        if not known or any(seen.lost for seen in self.touched):
            return None
        return any(not types or event_type in types for types in known)

    def may_reach(self, domain: str) -> bool | None:
        """Whether any setting covers this domain (S20); None when none is known."""
        known = [setting.domain for setting in self.settings if setting.domain is not None]
        if not known or any(seen.lost for seen in self.touched):
            return None
        return any(bound in ("", domain) for bound in known)

    @property
    def untouched(self) -> bool:
        """Whether nobody changed it in this trace."""
        return not self.touched


def endpoints(history: History) -> dict[str, Endpoint]:
    """Collect all endpoints that a trace tells of, by id."""
    found: dict[str, Endpoint] = {}
    for seen in history.seen:
        if not seen.operation.startswith("webhooks.") or seen.operation == "webhooks.test":
            continue
        for thing in _shown(seen):
            endpoint = found.setdefault(thing["id"], Endpoint(thing["id"], seen.account))
            endpoint.settings.append(_setting(seen, thing))
            if seen.operation == "webhooks.create" and not seen.replayed:
                endpoint.created = endpoint.created or seen
        target = seen.parameters.get("id", "")
        if seen.method in ("PATCH", "DELETE") and target and (seen.ok or seen.lost):
            found.setdefault(target, Endpoint(target, seen.account)).touched.append(seen)
    return found


def _shown(seen: Seen) -> Iterator[dict[str, Json]]:
    if seen.ok:
        for thing in [seen.data] if isinstance(seen.data, dict) else (seen.items or []):
            if isinstance(thing, dict) and isinstance(thing.get("id"), str):
                yield thing


def _setting(seen: Seen, thing: dict[str, Json]) -> Setting:
    types, bound = thing.get("event_types"), thing.get("domain_id", 0)
    return Setting(
        seen,
        thing["enabled"] if isinstance(thing.get("enabled"), bool) else None,
        tuple(map(str, types)) if isinstance(types, list) else None,
        "" if bound is None else (bound if isinstance(bound, str) else None),
        thing.get("disabled_reason") if isinstance(thing.get("disabled_reason"), str) else None,
    )


@dataclass(frozen=True, slots=True)
class Listed:
    """An attempt as GET /v1/webhook-deliveries tells it (S40, U75), and the reading that told."""

    seen: Seen
    endpoint: str
    event: str
    attempt: int
    status: int | None
    error: str | None


@dataclass(slots=True)
class Listing:
    """All attempts that the deployment lists, and when it was asked."""

    attempts: dict[tuple[str, str, int], Listed] = field(default_factory=dict)
    read_from: dict[str, Micros] = field(default_factory=dict)
    """When the last whole reading of each account began."""

    def read_after(self, account: str, instant: Micros) -> bool:
        """Whether an account's whole list was read from `instant` on."""
        return self.read_from.get(account, -1) >= instant


def listing(history: History) -> Listing:
    """Collect what the deployment lists of its attempts."""
    found = Listing()
    began: dict[str, Micros] = {}
    for seen in history.by_operation("webhook_deliveries.list"):
        if not seen.ok or seen.items is None:
            continue
        for item in seen.items:
            told = _listed(seen, item)
            if told is not None:
                found.attempts[told.endpoint, told.event, told.attempt] = told
        if history.key(seen.key).domain_id is not None or not seen.query.keys() <= {"limit", "cursor"}:
            continue
        if "cursor" not in seen.query:
            began[seen.key] = seen.sent
        if seen.has_more is False and seen.key in began:
            earlier = found.read_from.get(seen.account, -1)
            found.read_from[seen.account] = max(earlier, began[seen.key])
    return found


def _listed(seen: Seen, item: Json) -> Listed | None:
    if not isinstance(item, dict):
        return None
    endpoint, event, attempt = item.get("endpoint_id"), item.get("event_id"), item.get("attempt")
    if not isinstance(endpoint, str) or not isinstance(event, str) or not isinstance(attempt, int):
        return None
    status, error = item.get("status_code"), item.get("error")
    return Listed(
        seen,
        endpoint,
        event,
        attempt,
        status if isinstance(status, int) else None,
        error if isinstance(error, str) else None,
    )
