"""The service: one layer under every surface. A call and `now` in; replies, tasks and events out.

The order of one call (U86): advance → access → traffic → faults of form → Idempotency-Key → handler.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop
from typing import Any, Self

from ranksim.core.clock import instant
from ranksim.core.contract.facts import JobKind, RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules import idempotency, windows
from ranksim.core.rules.access import resolve
from ranksim.core.rules.books import Books
from ranksim.core.service import administration, deliveries, jobs, saved_state
from ranksim.core.service.calls import Answer, Call, Fault, Reply, StartJob, Step
from ranksim.core.service.charging import PREFLIGHT, charged_classes
from ranksim.core.service.consulted import Consulting
from ranksim.core.service.context import JOB_ENDS, Context, Request
from ranksim.core.service.errors import problem
from ranksim.core.service.events import CallGranted, CallJoined, CallRefused, WindowRefused
from ranksim.core.service.operations import OPERATIONS, Operation
from ranksim.core.service.rate_limits import charge_window, format_retry_after
from ranksim.core.service.replies import nothing
from ranksim.core.service.state import Account, Event, State, Stored
from ranksim.core.service.traffic import charge_request, has_room
from ranksim.core.service.window_table import charge_replies, key_window

FAULTS = {
    "internal_error": "The service failed to answer.",
    "not_found": "There is nothing at this path.",
    "method_not_allowed": "This path does not support the method.",
    "payload_too_large": "The body is larger than the service accepts.",
    "unsupported_media_type": "The body is not application/json.",
    "invalid_request": "The body is not a JSON object.",
    "validation_failed": "The query has a parameter that is unknown.",
}
"""What a driver can find wrong with a request, in the order of U86; a failure of its own comes first."""

UNEVENTFUL = frozenset({"ok", "error", "dry_run", "replayed"})
"""Outcomes of calls that had nothing to do with the books."""

ENDINGS = (jobs.DONE, jobs.FAILED)

LONGEST_REQUEST_ID = 255


class Service:
    """The rulebook with its state. Deterministic: the same calls at the same instants give the same replies.

    `policy` says what the service promises, `seed` addresses its draws, and `pooled` names the job kinds that
    a driver's worker pools run; the service runs the other kinds itself. One that is `consulting` knows which
    assumptions it read. All instants are µs since the epoch and must not go backwards.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        seed: int = 0,
        pooled: Iterable[str] = (),
        *,
        consulting: bool = False,
    ) -> None:
        kinds = frozenset(pooled)
        if unknown := kinds - frozenset(JobKind):
            raise BadInput(f"pooled: expected job kinds ({', '.join(JobKind)}), found {min(unknown)!r}")
        policy = policy or Policy()
        self._consulting = consulting
        self._policies: list[Consulting] = []
        self._ctx = Context(policy, State(seed=seed), kinds)
        self._adopt(policy)

    def _adopt(self, policy: Policy) -> None:
        """Put a policy in force, whose fields are noted as they are read where the service is consulting."""
        if self._consulting:
            noted = Consulting(policy)
            self._policies.append(noted)
            self._ctx.adopt(noted.policy)
            self._ctx.terms = noted.noted(self._ctx.terms)
        else:
            self._ctx.adopt(policy)
        self._charged = {} if self._ctx.policy.windows else charged_classes(self._ctx.policy)

    @property
    def state(self) -> State:
        """All state, as plain data; read it, do not write it."""
        return self._ctx.state

    def consulted(self) -> tuple[str, ...]:
        """Return the fields of assumptions and statuses that were read so far, if it is `consulting`."""
        return tuple(sorted({name for noted in self._policies for name in noted.names()}))

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._ctx.policy

    # Calls

    def handle(self, call: Call, now: int, traffic_now: int | None = None, *, reads: bool = True) -> Step:
        """Answer one call at `now`, after all work that fell due; rate windows read `traffic_now` instead.

        `reads` False says that nobody will look at the items of a page: it then has no `data`, and all else.
        Report with `written` once the reply is on its way.
        """
        ctx = self._ctx
        agenda = ctx.state.agenda
        if agenda and agenda[0][0] <= now:
            self._advance(now)
        replies = self._answer((call,), now, now if traffic_now is None else traffic_now, reads)
        step = Step(replies, ctx.tasks, ctx.events)
        ctx.tasks, ctx.events = [], []
        return step

    def handle_batch(self, calls: Sequence[Call], now: int, traffic_now: int | None = None) -> Step:
        """Answer the calls of one GraphQL request, in order (S4, U11).

        The request is charged once, in the dearest class of its calls, or as the policy says; when it is
        refused as a whole (401, 429) one reply stands for all.
        """
        self._advance(now)
        return self._step(self._answer(calls, now, now if traffic_now is None else traffic_now, reads=True))

    def admits(self, call: Call, classes: Collection[RateClass], traffic_now: int) -> bool:
        """Return whether a request is neither refused for access nor, in each of `classes`, for traffic.

        Nothing is charged. Where the answer is False, a request of these classes is answered 401 or 429.
        """
        return has_room(self._ctx, call, classes, traffic_now)

    def written(self, reply: Reply, now: int) -> None:
        """Note that a reply was written: its Idempotency-Key is no longer in flight (U92, U30)."""
        entry = self._ctx.state.stored.get(reply.flight)
        if entry is not None:
            self._land(entry, now)

    def _land(self, entry: Stored, now: int) -> None:
        entry.in_flight = False
        if self.policy.assumptions.idempotency_from == "response":
            entry.expires = now + self.policy.facts.idempotency_retention

    # Work that falls due

    def advance(self, now: int) -> Step:
        """Do all work that is due at `now`, in order, and hand out what the driver must do."""
        self._advance(now)
        return self._step()

    def next_due(self) -> int | None:
        """Return the instant of the next piece of work, or None."""
        agenda = self._ctx.state.agenda
        return agenda[0][0] if agenda else None

    def started(self, job: str, now: int) -> Step:
        """Report that a pool's worker took up a job."""
        self._advance(now)
        jobs.started(self._ctx, job, now)
        return self._step()

    def ended(
        self, job: str, outcome: str, now: int, cost: int | None = None, error: str | None = None
    ) -> Step:
        """Report that a job ended, "done" or "failed"; `cost` in µUSD, by default the estimate.

        A job that failed costs nothing (U49). Raises BadInput.
        """
        if outcome not in ENDINGS:
            raise BadInput(f"outcome: expected one of {', '.join(ENDINGS)}, found {outcome!r}")
        if cost is not None and cost < 0:
            raise BadInput(f"cost: expected 0 µUSD or more, found {cost}")
        self._advance(now)
        jobs.ended(self._ctx, job, outcome, now, cost, error)
        self._advance(now)
        return self._step()

    def attempted(self, attempt: int, answer: Answer, now: int) -> Step:
        """Report what a receiver answered to an attempt, or that it did not."""
        self._advance(now)
        deliveries.attempted(self._ctx, attempt, answer, now)
        self._advance(now)
        return self._step()

    def resume(self, now: int) -> Step:
        """Hand out again the attempts that were under way when this state was saved (S93).

        Requests that were in flight then are not any more (U92): what they stored is replayed.
        """
        self._advance(now)
        self._ctx.tasks = [task for task in self._ctx.tasks if isinstance(task, StartJob)]
        jobs.adopt(self._ctx, now)
        for entry in self._ctx.state.stored.values():
            if entry.in_flight:
                self._land(entry, now)
        deliveries.send_again(self._ctx, now)
        return self._step()

    def _step(self, replies: list[Reply] | None = None) -> Step:
        """Hand out what came of the step under way, and begin another."""
        ctx = self._ctx
        step = Step([] if replies is None else replies, ctx.tasks, ctx.events)
        ctx.tasks, ctx.events = [], []
        return step

    def _advance(self, now: int) -> None:
        ctx = self._ctx
        agenda = ctx.state.agenda
        while agenda and agenda[0][0] <= now:
            due, _, what, which = heappop(agenda)
            if what == JOB_ENDS:
                jobs.due(ctx, which, due)
            else:
                deliveries.attempt_due(ctx, which, due)

    # One call

    def _answer(self, calls: Sequence[Call], now: int, traffic_now: int, reads: bool) -> list[Reply]:
        """Answer the calls of one request, which are one but over GraphQL, in the order of U86.

        A call over REST with a usable key is the straight way; what departs from it is in functions beside.
        """
        ctx, first = self._ctx, calls[0]
        state = ctx.state
        state.requests += 1
        ctx.wait, ctx.charged = 0, ()
        sent = first.request_id
        request_id = sent if sent and _is_echoed(sent) else "req_" + str(state.requests).zfill(12)
        headers: dict[str, str] = {"X-Request-Id": request_id}
        account, scope, key_name, owner = _NOBODY, None, "", ""
        if first.surface == "app":
            account, owner = self._account(first.account), first.account
        else:
            key = resolve(state.keys, first.key, first.environment)
            if key is not None:
                account, scope, key_name, owner = state.accounts[key.account], key.domain, key.name, key.token
            rate_class = self._charged.get(first.operation)
            if (
                key is None
                or rate_class is None
                or first.surface != "rest"
                or first.method == PREFLIGHT
                or len(calls) > 1
                or state.waived
            ):
                refused = charge_request(ctx, calls, key, traffic_now, headers)
            else:
                window, ring = key.windows[rate_class], key.rings[rate_class]
                refused = charge_window(ctx, window, ring, rate_class.label, traffic_now, headers)
            if refused is not None:
                if refused.outcome == "limited":
                    limited = WindowRefused(now, account.id, key_name, first.operation, refused.rate_class)
                    ctx.events.append(limited)
                return [_finish(refused, first, account.id, headers, request_id)]
        if len(calls) == 1:
            reply = self._execute(Request(first, now, account, scope, key_name, reads), owner, 0)
            reply.wait = ctx.wait
            if ctx.charged:
                charge_replies(ctx, calls, [reply], traffic_now, headers)
            return [_finish(reply, first, account.id, headers, request_id)]
        replies = []
        for index, call in enumerate(calls):
            reply = self._execute(Request(call, now, account, scope, key_name), owner, index)
            reply.wait = ctx.wait
            replies.append(reply)
        if ctx.charged:
            charge_replies(ctx, calls, replies, traffic_now, headers)
        pairs = zip(calls, replies, strict=True)
        return [_finish(reply, call, account.id, dict(headers), request_id) for call, reply in pairs]

    def _note(self, request: Request, reply: Reply) -> None:
        """Note what the six checks made of a call."""
        now, account, operation = request.now, request.account.id, request.call.operation
        if reply.outcome == "granted":
            self._ctx.events.append(CallGranted(now, account, operation))
        elif reply.outcome == "refused":
            self._ctx.events.append(CallRefused(now, account, operation, reply.check, reply.code))
        elif reply.outcome == "joined":
            self._ctx.events.append(CallJoined(now, account, operation))

    def _execute(self, request: Request, owner: str, index: int) -> Reply:
        """Faults of form, Idempotency-Key, handler; and what the six checks made of the call."""
        ctx, call = self._ctx, request.call
        operation = OPERATIONS.get(call.operation)
        if call.fault is not None or operation is None or call.method == PREFLIGHT:
            return self._fault(call)
        if call.idempotency_key is None or operation.method != "POST" or not owner:
            reply = operation.handler(ctx, request)
        else:
            reply = self._execute_once(request, operation, owner, index)
        if reply.outcome not in UNEVENTFUL:
            self._note(request, reply)
        return reply

    def _fault(self, call: Call) -> Reply:
        """Answer a preflight, or what the driver found wrong with a call (U86)."""
        policy = self._ctx.policy
        if call.method == PREFLIGHT:
            return nothing(policy.statuses.preflight)
        fault = call.fault or Fault("not_found")
        meta = {"errors": list(fault.errors)} if fault.errors else None
        return problem(policy, fault.code, fault.detail or FAULTS[fault.code], meta)

    def _execute_once(self, request: Request, operation: Operation, owner: str, index: int) -> Reply:
        """Run a POST under an Idempotency-Key: once, then replay (S28, S47, S48, E1-E7)."""
        ctx, call, now = self._ctx, request.call, request.now
        assumptions, stored = ctx.policy.assumptions, ctx.state.stored
        given = call.idempotency_key or ""
        if not idempotency.is_valid(given, assumptions):
            longest = assumptions.idempotency_key_max
            detail = f"An Idempotency-Key has 1 to {longest} characters."
            return problem(ctx.policy, "idempotency_key_invalid", detail)
        if assumptions.idempotency_scope == "account":
            owner = request.account.id
        name = f"{owner} {index} {idempotency.unquoted(given)}"
        print_ = idempotency.fingerprint(
            call.operation, call.path, call.query, call.body, call.raw, assumptions
        )
        entry = stored.get(name)
        if entry is not None and now < entry.expires:
            return self._repeat(entry, print_, now)
        reply = operation.handler(ctx, request)
        if idempotency.is_stored(reply.status, reply.check, assumptions):
            _forget_expired(stored, now)
            stored.pop(name, None)
            flying = assumptions.in_flight_until == "written"
            stored[name] = Stored(
                fingerprint=print_,
                expires=now + ctx.policy.facts.idempotency_retention,
                in_flight=flying,
                status=reply.status,
                body=json.dumps(reply.body),
                headers=dict(reply.headers),
                retry_at=_retry_at(reply),
                code=reply.code,
                check=reply.check,
            )
            reply.flight = name
        return reply

    def _repeat(self, entry: Stored, print_: str, now: int) -> Reply:
        """Answer a repeated Idempotency-Key: mismatch, in flight, or the stored reply (E1-E6)."""
        policy = self.policy
        if entry.fingerprint != print_:
            detail = "This Idempotency-Key was used for a different request."
            return problem(policy, "idempotency_mismatch", detail)
        if entry.in_flight:
            detail = "The first request with this Idempotency-Key has not been answered yet."
            return problem(policy, "idempotency_in_progress", detail)
        headers = dict(entry.headers)
        if "Retry-After" in headers and policy.assumptions.replayed_retry_after == "refreshed":
            headers["Retry-After"] = format_retry_after(policy.assumptions, now, max(0, entry.retry_at - now))
        if policy.assumptions.replay_header is not None:
            headers[policy.assumptions.replay_header] = "true"
        return Reply(
            entry.status,
            json.loads(entry.body),
            headers,
            code=entry.code,
            check=entry.check,
            outcome="replayed",
        )

    # What the API itself does not offer

    def open_account(
        self,
        name: str,
        plan: str,
        now: int,
        anchor: int | None = None,
        status: str = "active",
        add_ons: dict[str, int] | None = None,
        environment: str = "production",
    ) -> str:
        """Open an account and give its id; `anchor` starts its billing months, default `now` (U51, U102)."""
        self._advance(now)
        return administration.open_account(
            self._ctx, name, plan, now, anchor, status, add_ons, environment
        ).id

    def issue_key(self, account: str, name: str, now: int, domain: str | None = None, token: str = "") -> str:
        """Issue an API key, bound to one domain if that is given, and give its token (S70), drawn unless
        stated.
        """
        self._advance(now)
        return administration.issue_key(self._ctx, self._account(account), name, now, domain, token).token

    def withdraw_key(self, token: str, now: int) -> None:
        """Withdraw an API key: from now on it is unknown."""
        self._advance(now)
        if token not in self._ctx.state.keys:
            raise BadInput("token: there is no such API key")
        self._ctx.state.keys[token].withdrawn = True

    def change_plan(self, account: str, plan: str, now: int) -> None:
        """Put an account on another plan at once."""
        self._advance(now)
        administration.change_plan(self._ctx, self._account(account), plan, now)

    def change_policy(self, policy: Policy, now: int) -> None:
        """Go on under another policy: what is used stays used, limits are the new one's.

        It sells at least what the old one sells, and the state was made by neither where they differ: which
        fields of a policy these are, `ranksim.twin.sim.settings` says.
        """
        self._advance(now)
        self._adopt(policy)
        administration.renew_terms(self._ctx, now)

    def set_add_on(self, account: str, add_on: str, count: int, now: int) -> None:
        """Set how many of an add-on an account has (S109, U54)."""
        self._advance(now)
        administration.set_add_on(self._ctx, self._account(account), add_on, count)

    def set_status(self, account: str, status: str, now: int) -> None:
        """Set the status of an account's subscription (S61, U57)."""
        self._advance(now)
        administration.set_status(self._ctx, self._account(account), status)

    def set_usage(self, account: str, metrics: Mapping[str, int], spent: int, held: int, now: int) -> None:
        """Set what an account has used already: units by metric, cost of the month (µUSD), held slots."""
        self._advance(now)
        administration.set_usage(self._ctx, self._account(account), metrics, spent, held, now)

    def set_cooldown(self, account: str, spend: str, domain: str, since: int, now: int) -> None:
        """Let an operation on a domain cool down since an instant (µs), as if it had been accepted then."""
        self._advance(now)
        administration.set_cooldown(self._ctx, self._account(account), spend, domain, since)

    def count_calls(
        self, token: str, name: str, at: int, count: int, now: int, *, graphql: bool = False
    ) -> None:
        """Count calls of a key that were made at an instant (µs) in the window of a name, admitted or not."""
        self._advance(now)
        window, ring = key_window(self._ctx, self.state.keys[token], name, graphql=graphql)
        windows.count_calls(at, window, ring, count)

    def waive(self, limits: Collection[str], now: int) -> None:
        """Switch off limits, of `administration.LIMITS`, for everybody: these and no others."""
        self._advance(now)
        administration.waive(self._ctx, limits)

    def trigger_job(self, domain: str, outcome: str, now: int) -> None:
        """Have a domain's endpoints told of a job that ended, "done" or "failed", and that nobody asked for.

        Raises BadInput.
        """
        if outcome not in ENDINGS:
            raise BadInput(f"outcome: expected one of {', '.join(ENDINGS)}, found {outcome!r}")
        if domain not in self._ctx.state.domains:
            raise BadInput(f"domain: there is none with the id {domain!r}")
        self._advance(now)
        jobs.trigger(self._ctx, self._ctx.state.domains[domain], outcome, now)

    def resend(self, event: Event, endpoint: str, now: int) -> None:
        """Deliver an event to an endpoint once more, as a delivery of its own. Raises BadInput."""
        state = self._ctx.state
        if endpoint not in state.endpoints or not state.endpoints[endpoint].enabled:
            raise BadInput(f"endpoint: {endpoint} is deleted or disabled; enable it, or send to another")
        self._advance(now)
        saved = state.events.setdefault(event.id, event)
        deliveries.deliver(self._ctx, saved, state.endpoints[endpoint], now)

    def _account(self, account: str) -> Account:
        if account not in self._ctx.state.accounts:
            raise BadInput(f"account: there is none with the id {account!r}")
        return self._ctx.state.accounts[account]

    # State

    def save(self) -> bytes:
        """Return the whole state as JSON; `restore` reads it back under the same policy."""
        return saved_state.dump_state(self._ctx.state)

    @classmethod
    def restore(cls, saved: bytes, policy: Policy | None = None, pooled: Iterable[str] = ()) -> Self:
        """Make a service from a saved state. Raises BadInput when it is not one, or not of the policy."""
        service = cls(policy, pooled=pooled)
        service._ctx.state = saved_state.parse(saved, service.policy)
        return service

    def fork(self) -> Self:
        """Make a second service that continues from this one's state and shares nothing with it."""
        return self.restore(self.save(), self.policy, self._ctx.pooled)


_NOBODY = Account("", "", "", "", "", 0, Books())
"""The account of a request that needs no key (S39)."""


def _is_echoed(sent: str) -> bool:
    """Return whether a client's X-Request-Id is that of the reply, as sent; others get one of ours (U79)."""
    return len(sent) <= LONGEST_REQUEST_ID and sent.isascii() and sent.isprintable()


def _finish(reply: Reply, call: Call, account: str, headers: dict[str, str], request_id: str) -> Reply:
    """Put on a reply what every response carries (S96, S105, S107)."""
    if reply.headers:
        headers.update(reply.headers)
    reply.headers = headers
    reply.operation, reply.account = call.operation, account
    if reply.body is not None and "request_id" in reply.body:
        reply.body["request_id"] = request_id
    return reply


def _retry_at(reply: Reply) -> int:
    """Return the instant that Retry-After stands for, or 0."""
    meta: dict[str, Any] = (reply.body or {}).get("meta", {})
    return instant(meta["available_at"]) if "available_at" in meta else 0


def _forget_expired(stored: dict[str, Stored], now: int) -> None:
    """Drop what is older than the retention (S111); entries stand in order of acceptance."""
    while stored:
        oldest = next(iter(stored))
        if stored[oldest].expires > now:
            return
        del stored[oldest]
