"""Webhook endpoints as a trace shows them: how they were set, what is listed, when they surely act."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, HOUR, MINUTE, Micros
from ranksim.core.contract.facts import Facts
from ranksim.core.trace import SECRET_FIELDS
from ranksim.judge.conformance.history.fields import identified
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation, ReceivedAttempt
from ranksim.judge.conformance.history.packed import ObservationLog
from ranksim.judge.conformance.judge import Judge
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally
from ranksim.judge.conformance.webhooks.failure_runs import AttemptEnd, end_of, longest_run

ENDPOINT_FIELDS = ("data.enabled", "data.disabled_reason", "data.event_types", "data.domain_id")


# Endpoints


@dataclass(frozen=True, slots=True)
class EndpointSetting:
    """How an endpoint was set by a call, or shown by a reading, in [sent, received].

    `enabled`, `types` and `domain` are None where the reply does not say; `domain` is "" for an account-wide
    endpoint. `reason` is why it is disabled: "" where the reply gives none, None where it has no such field.
    """

    seen: Observation
    enabled: bool | None
    types: tuple[str, ...] | None
    domain: str | None
    reason: str | None


def secret_of(thing: dict[str, Json]) -> str | None:
    """Return the secret that an endpoint is shown with, None without any."""
    secrets = [thing.get(name) for name in sorted(SECRET_FIELDS)]
    return next((secret for secret in secrets if isinstance(secret, str) and secret), None)


Owner: TypeAlias = tuple[str, str]
"""Environment and account: one name may be of an account in each environment."""


@dataclass(slots=True)
class ObservedEndpoint:
    """One endpoint: who owns it, and what was set and shown of it, in order of sending."""

    id: str
    owner: Owner
    settings: list[EndpointSetting] = field(default_factory=list)
    touched: list[Observation] = field(default_factory=list)
    """Calls that change the endpoint: PATCH and DELETE, those of unknown outcome too."""
    created: Observation | None = None
    secret: str | None = None
    """The secret that the creation showed."""

    def settings_until(self, instant: Micros) -> list[EndpointSetting]:
        """Return the settings whose replies came until an instant."""
        return [setting for setting in self.settings if setting.seen.received <= instant]

    def may_take(self, event_type: str) -> bool | None:
        """Whether any setting takes this type (S18, S19); None when that is not known for all time."""
        types_taken = [setting.types for setting in self.settings]
        if None in types_taken or not types_taken or self._unsure:
            return None
        return any(not types or event_type in types for types in types_taken)

    def may_reach(self, domain: str) -> bool | None:
        """Whether any setting covers this domain (S20); None when that is not known for all time."""
        domains = [setting.domain for setting in self.settings]
        if None in domains or not domains or self._unsure:
            return None
        return any(bound in ("", domain) for bound in domains)

    @property
    def _unsure(self) -> bool:
        return any(not seen.ok for seen in self.touched)

    @property
    def untouched_until(self) -> Micros:
        """When the first call was sent that may have changed the endpoint; DISTANT_FUTURE where none was."""
        return self.touched[0].sent if self.touched else DISTANT_FUTURE


def first_disabled(settings: Iterable[EndpointSetting]) -> EndpointSetting | None:
    """Return the first setting in which an endpoint is disabled."""
    return next((setting for setting in settings if setting.enabled is False), None)


@dataclass(slots=True)
class WebhookLog:
    """What a run shows of webhooks, in order: calls about endpoints, readings of the list, what came."""

    calls: ObservationLog = field(default_factory=ObservationLog)
    listings: ObservationLog = field(default_factory=ObservationLog)
    arrived: list[ReceivedAttempt] = field(default_factory=list)
    _history: EndpointHistory | None = None

    @staticmethod
    def wants(like: Observation) -> bool:
        """Return whether exchanges of this likeness show endpoints, or list attempts."""
        lists = like.operation == "webhook_deliveries.list" and like.ok
        return lists or like.operation.startswith("webhooks.")

    def add(self, seen: Observation) -> None:
        """Log what `wants`; any other exchange is left out."""
        if seen.operation == "webhook_deliveries.list":
            if seen.ok and seen.items is not None:
                self.listings.add(seen)
        elif seen.operation.startswith("webhooks."):
            self.calls.add(seen)

    def put_together(self, run: ObservedRun, facts: Facts) -> EndpointHistory:
        """Return what all of it showed, which judges of one log share."""
        if self._history is None:
            self._history = EndpointHistory.of(self, run, facts)
        return self._history


def collect_endpoints(calls: Iterable[Observation]) -> dict[str, ObservedEndpoint]:
    """Collect all endpoints that calls name, by id; an id of both environments names neither."""
    observed: dict[str, ObservedEndpoint] = {}
    doubtful: set[str] = set()
    for seen in calls:
        if seen.operation == "webhooks.test":
            continue
        owner, creates = (seen.environment, seen.account), seen.operation == "webhooks.create"
        for thing in identified(seen) if seen.ok else ():
            endpoint = observed.setdefault(thing["id"], ObservedEndpoint(thing["id"], owner))
            if endpoint.owner[0] != seen.environment:
                doubtful.add(endpoint.id)
            if creates and endpoint.created is not None:
                continue  # a replay shows what was true at the first time (E6)
            endpoint.settings.append(_setting(seen, thing))
            if creates:
                endpoint.created, endpoint.secret = seen, secret_of(thing)
        target = seen.parameters.get("id", "")
        if seen.method in ("PATCH", "DELETE") and target and (seen.ok or seen.outcome_unknown):
            observed.setdefault(target, ObservedEndpoint(target, owner)).touched.append(seen)
    for name in doubtful:
        del observed[name]
    return observed


def _setting(seen: Observation, thing: dict[str, Json]) -> EndpointSetting:
    types, bound, reason = thing.get("event_types"), thing.get("domain_id", 0), thing.get("disabled_reason")
    return EndpointSetting(
        seen,
        thing["enabled"] if isinstance(thing.get("enabled"), bool) else None,
        tuple(map(str, types)) if isinstance(types, list) else None,
        "" if bound is None else (bound if isinstance(bound, str) else None),
        (reason if isinstance(reason, str) else "") if "disabled_reason" in thing else None,
    )


# What the deployment lists of its attempts

Key = tuple[str, str, int]
"""Endpoint, event and number of an attempt."""

FEW = 100
"""A list of fewer attempts than this is not cut short by a limit on how many are kept."""

RECENT = HOUR
"""Business time for which "recent" attempts are surely kept (S40, U75)."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An attempt as GET /v1/webhook-deliveries lists it (S40, U75), and the reading that did."""

    seen: Observation
    status: int | None
    duration: int | None
    """Milliseconds from sending to the answer."""


@dataclass(frozen=True, slots=True)
class ListSnapshot:
    """The last whole reading of an account's list: when it began, and the attempts in it."""

    began: Micros
    keys: frozenset[Key]


@dataclass(slots=True)
class Listing:
    """All attempts that the deployment lists, and the last whole reading of each account."""

    attempts: dict[Key, Listed] = field(default_factory=dict)
    readings: dict[Owner, ListSnapshot] = field(default_factory=dict)
    came: dict[Key, Micros] = field(default_factory=dict)
    """When each attempt arrived first."""
    rate: int = 1

    def complete(self, owner: Owner, since: Micros, until: Micros) -> ListSnapshot | None:
        """A whole reading that began after `until` and shows whatever was attempted from `since` on.

        "Recent" is not stated in numbers: the list goes back to `since` where it shows an attempt that came
        before, and surely where it is short and `since` is not long ago.
        """
        reading = self.readings.get(owner)
        if reading is None or reading.began <= until or self.rate == 0:
            return None
        short = len(reading.keys) < FEW and (reading.began - since) * self.rate < RECENT
        if short or any(self.came.get(key, since) < since for key in reading.keys):
            return reading
        return None


Walk: TypeAlias = tuple[Micros, Micros, frozenset[Key]]
"""When a walk of the list had its last page and when it began, and the attempts that its pages show."""


def listing(log: WebhookLog, run: ObservedRun) -> Listing:
    """Collect what the deployment lists of its attempts."""
    collected = Listing(rate=run.rate)
    for arrived in log.arrived:
        collected.came.setdefault(arrived.key, arrived.received)
    walks: dict[tuple[str, str, str], Walk] = {}
    last: dict[Key, tuple[Observation, dict[str, Json]]] = {}
    for seen in log.listings:
        page = {key: (seen, item) for item in seen.items if (key := _key(item)) is not None}
        last |= page
        if run.key(seen.key).domain_id is None and seen.query.keys() <= {"limit", "cursor"}:
            _walk_on(seen, frozenset(page), walks, collected.readings)
    collected.attempts = {key: _listed(seen, item) for key, (seen, item) in last.items()}
    return collected


def _walk_on(
    seen: Observation,
    keys: frozenset[Key],
    walks: dict[tuple[str, str, str], Walk],
    readings: dict[Owner, ListSnapshot],
) -> None:
    """Add a page to the walk whose cursor it returned; at its last page the walk is a whole reading."""
    began, owner = seen.sent, (seen.environment, seen.account)
    if "cursor" in seen.query:
        before = walks.get((seen.environment, seen.key, seen.query["cursor"]))
        if before is None or before[0] > seen.sent:
            return
        began, keys = before[1], keys | before[2]
    if seen.next_cursor is not None:
        walks[seen.environment, seen.key, seen.next_cursor] = (seen.received, began, keys)
    elif seen.has_more is False and (owner not in readings or readings[owner].began <= began):
        readings[owner] = ListSnapshot(began, keys)


def _key(item: Json) -> Key | None:
    if not isinstance(item, dict):
        return None
    endpoint, event, attempt = item.get("endpoint_id"), item.get("event_id"), item.get("attempt")
    if isinstance(endpoint, str) and isinstance(event, str) and isinstance(attempt, int):
        return endpoint, event, attempt
    return None


def _listed(seen: Observation, item: dict[str, Json]) -> Listed:
    status, duration = item.get("status_code"), item.get("duration_ms")
    return Listed(
        seen, status if isinstance(status, int) else None, duration if isinstance(duration, int) else None
    )


# Endpoints that surely act

GRACE = MINUTE
"""How late an attempt may be made under load before its absence counts; the specification names no time."""


@dataclass(slots=True)
class EndpointHistory:
    """Endpoints, what came to each and what is listed of them."""

    run: ObservedRun
    facts: Facts
    endpoints: dict[str, ObservedEndpoint]
    listed: Listing
    came: dict[str, list[ReceivedAttempt]]
    unheard: Counter[str]
    """Attempts at each endpoint that are listed and never arrived."""
    _steady: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, log: WebhookLog, run: ObservedRun, facts: Facts) -> EndpointHistory:
        """Put together what a run showed."""
        came: dict[str, list[ReceivedAttempt]] = defaultdict(list)
        for arrived in log.arrived:
            came[arrived.endpoint].append(arrived)
        listed = listing(log, run)
        unheard = Counter(endpoint for endpoint, _, _ in listed.attempts.keys() - listed.came.keys())
        return cls(run, facts, collect_endpoints(log.calls), listed, came, unheard)

    def ends(self, endpoint: str, until: Micros = DISTANT_FUTURE) -> list[AttemptEnd]:
        """Place the outcomes of all attempts that came to an endpoint until an instant."""
        ends = []
        for came in self.came.get(endpoint, ()):
            if came.received <= until:
                listed = self.listed.attempts.get(came.key)
                status, duration = (None, None) if listed is None else (listed.status, listed.duration)
                ends.append(end_of(came, status, duration, self.facts))
        return ends

    def steady(self, endpoint: ObservedEndpoint) -> bool:
        """Whether an endpoint made in this trace was surely never disabled, by a call or by its failures."""
        if endpoint.id not in self._steady:
            self._steady[endpoint.id] = (
                self.run.exclusive
                and endpoint.created is not None
                and not endpoint.touched
                and first_disabled(endpoint.settings) is None
                and longest_run(self.ends(endpoint.id), "attempt") + self.unheard[endpoint.id]
                < self.facts.webhook_disable_after
            )
        return self._steady[endpoint.id]

    def since_creation(self, endpoint: ObservedEndpoint, until: Micros) -> ListSnapshot | None:
        """A whole reading that began after `until` and lists all attempts at an endpoint made in this trace.

        It goes back to the endpoint's creation, or to the first attempt that came.
        """
        assert endpoint.created is not None
        reading = self.listed.complete(endpoint.owner, endpoint.created.sent, until)
        came = self.came.get(endpoint.id)
        if reading is None and came:
            return self.listed.complete(endpoint.owner, came[0].received + 1, until)
        return reading


@dataclass
class WebhookJudge(Judge):
    """Logs what a run shows of webhooks and judges at the end, as endpoints and lists may be shown late."""

    options: Options
    tally: Tally
    log: WebhookLog = field(default_factory=WebhookLog)
    logs: bool = True
    """Whether it keeps the log itself; where several judges share one, the first of them does."""
    run: ObservedRun = field(init=False)
    ledger: EndpointHistory = field(init=False)

    def wants(self, like: Observation) -> bool:
        """What shows endpoints or attempts."""
        return WebhookLog.wants(like)

    def see(self, seen: Observation) -> None:
        """Log an exchange."""
        if self.logs:
            self.log.add(seen)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Log an attempt that arrived."""
        if self.logs:
            self.log.arrived.append(attempt)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """At the end, judge the whole log."""
        if watermark == DISTANT_FUTURE:
            self.run, self.ledger = run, self.log.put_together(run, self.options.facts)
            self.conclude()
            del self.log, self.ledger  # what the last of these judges forgets makes room

    @abstractmethod
    def conclude(self) -> None:
        """Judge what `run` and `ledger` hold."""


def share_log(judges: Iterable[Judge]) -> None:
    """Let all judges of webhooks look at one log."""
    log: WebhookLog | None = None
    for judge in judges:
        if isinstance(judge, WebhookJudge):
            judge.log, judge.logs = log or judge.log, log is None
            log = judge.log


def attempt_evidence(
    says: str, *attempts: ReceivedAttempt, exchanges: Sequence[str] = (), expected: str = ""
) -> Evidence:
    """Return evidence that points at attempts of one endpoint, and at exchanges; dated by the last."""
    names, last = tuple(attempt.name for attempt in attempts), attempts[-1]
    return Evidence(says, tuple(exchanges), names, attempts[0].endpoint, last.received, expected)
