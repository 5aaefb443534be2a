"""One fake deployment: the service, its clock, and the webhook attempts under way.

Everything here runs on one event loop and touches the service synchronously, so nothing is locked: while an
attempt is under way, calls are answered at the clock's current instant.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ranksim.core.callers.stated import stated_scenario
from ranksim.core.clock import DISTANT_FUTURE, MINUTE, SECOND, Micros, iso
from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules.webhooks import sign
from ranksim.core.service import jobs
from ranksim.core.service.administration import ENVIRONMENTS
from ranksim.core.service.calls import Answer, Attempt, Call, Fault, Reply, Step, Task
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.service import Service
from ranksim.twin.facade.advance import (
    LONGEST_WAIT_FOR_A_CONDITION,
    Advance,
    AdvanceCondition,
    AdvanceUnderWay,
)
from ranksim.twin.facade.attempts import AttemptsUnderWay, SentEvents, count_answers
from ranksim.twin.facade.event_log import EventLog
from ranksim.twin.facade.faults import Faults
from ranksim.twin.facade.journal.journaled_service import (
    ADMINISTRATION,
    Administration,
    JournaledService,
    NotKept,
)
from ranksim.twin.facade.logged_event import SentAttempt
from ranksim.twin.facade.odd_deliveries import OddDeliveries
from ranksim.twin.facade.origin import Described, Origin, ReadOrigin, Still, Timeline, Unread
from ranksim.twin.facade.request_journal import RequestJournal
from ranksim.twin.facade.sender import Sender
from ranksim.twin.facade.snapshots import Snapshot, Snapshots, begin_edited_periods, policy_digest
from ranksim.twin.facade.virtual_clock import Timer, VirtualClock
from ranksim.twin.serving.wall_clock import wall


async def _nothing_to_wait_for() -> None:
    """Commit what nobody keeps."""


OLD = 10 * MINUTE
"""How old an old signature is; receivers are told to refuse what is older than five minutes (S78)."""


class Twin:
    """A fake deployment, without its HTTP surface.

    `clock` is "real", "manual" or "scaled:N"; `start` (µs) the first instant, default now; `traffic_clock`
    ("same" or "wall") what rate windows run on; `signature_clock` ("virtual" or "wall") what webhooks are
    signed with. `settle_timeout` (seconds of wall time) bounds an advance. `sender` carries attempts out.
    There are two accounts called "demo", in production and sandbox, on `plan` (default "pro"), with one key
    each in `keys`, unless `empty`; or what `origin` opens, whose policy, seed and start then count. What
    describes one as text is read by `read_origin`. The same seed gives the same keys. Raises BadInput.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        seed: int = 0,
        *,
        clock: str = "real",
        start: Micros | None = None,
        traffic_clock: str = "same",
        signature_clock: str = "virtual",
        settle_timeout: float = 60.0,
        sender: Sender | None = None,
        plan: str = "",
        empty: bool = False,
        origin: Origin | None = None,
        read_origin: ReadOrigin = Unread,
        read_wall: Callable[[], Micros] = wall,
    ) -> None:
        if origin is not None:
            policy, seed, start = origin.policy, origin.seed, origin.start
        self.policy = policy or Policy()
        self.seed = seed
        self.settle_timeout = settle_timeout
        self.sender: Sender = sender or _http_sender()
        self.odd_deliveries = OddDeliveries(self._send, self._signed_long_ago)
        self.clock = VirtualClock(clock, start, traffic_clock, signature_clock, read_wall)
        self.keys: dict[str, str] = {}
        """The first key of each environment."""
        self.faults = Faults(seed)
        self.snapshots = Snapshots()
        """What the control API saved, by name."""
        self.requests: RequestJournal | None = RequestJournal()
        """The requests that came over HTTP; None remembers none."""
        self.replies: Counter[tuple[str, int]] = Counter()
        """Operations answered, by name and status; an answer that a fault dropped is none."""
        self.delayed_requests: set[asyncio.Task[Any]] = set()
        """The requests that faults delay."""
        self.sent_events = SentEvents()
        self.attempt_counts: Counter[str] = Counter()
        """Attempts answered, by how; see `count_answers`."""
        self.event_log = EventLog()
        self.began: Callable[[Service], Service | JournaledService] = lambda service: service
        """Told when another world begins; returns the service to go on with, which may record its inputs."""
        self.commit = _nothing_to_wait_for
        """Awaited before a reply goes out, until what led to it is kept; raises NotKept if it was undone."""
        self.flushed = _nothing_to_wait_for
        """Awaited before an attempt goes out, until what led to it is kept, however long that takes."""
        self.refuses_writes = ""
        """Why nothing that writes is done for now, as a sentence; or ""."""
        plans = list(self.policy.catalogue.plans)
        self.plan = plan or ("pro" if "pro" in plans else plans[-1])
        """The plan of accounts for which no other is wanted."""
        self.first, self.empty = start, empty
        """How a reset begins: at which instant, None for the wall clock's, and whether without accounts."""
        self.origin, self.read_origin = origin, read_origin
        self.timeline: Timeline = Still()
        self.acted: Callable[[Micros], None] = lambda now: None
        """Told when the timeline has acted, and when that fell due."""
        self.attempts = AttemptsUnderWay(self._deliver, self._report_answers)
        self._timer = Timer(self.clock, self.next_due, self._ring)
        self.world_id = _new_world()
        self.service: Service | JournaledService = self._new_service(self.clock.now())
        if origin is not None:
            self.clock.jump(origin.start, origin.start)  # which windows of the scenario have read
            self.faults.reset(seed, origin.faults)
            self.resume(self.clock.now())

    # Calls

    def now(self) -> Micros:
        """Return the current instant."""
        return self.clock.now()

    def call(self, call: Call) -> Reply:
        """Answer one call at the current instant; report `written` once the reply is on its way."""
        now = self.clock.now()
        self.work(now)
        call = self._refused_write(call)
        step = self.service.handle(call, now, self.clock.traffic(now))
        self.event_log.observe(step.events)
        self.after(step.tasks, now)
        return step.reply

    def admits(self, call: Call, classes: Collection[RateClass]) -> bool:
        """Return whether access and the rate limit let a request of one of some classes through, now."""
        return self.service.admits(call, classes, self.clock.traffic(self.clock.now()))

    def call_batch(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer the calls of one GraphQL request, in order; one reply stands for all if it is refused."""
        now = self.clock.now()
        self.work(now)
        calls = [self._refused_write(call) for call in calls]
        step = self.service.handle_batch(calls, now, self.clock.traffic(now))
        self._done(step, now)
        return step.replies

    def _refused_write(self, call: Call) -> Call:
        """Return a call that fails without effect instead of one that writes while nothing can be kept."""
        if not self.refuses_writes or call.fault is not None or not may_write(call):
            return call
        fault = Fault("internal_error", self.refuses_writes)
        return replace(call, fault=fault, body=None, raw=None, idempotency_key=None)

    def written(self, reply: Reply) -> None:
        """Note that a reply was written: its Idempotency-Key is no longer in flight (U92)."""
        if reply.flight:
            self.service.written(reply, self.clock.now())

    def administer(self, method: Administration, **arguments: Any) -> Any:
        """Do what the API does not offer: a method of `ADMINISTRATION`, now. Raises BadInput."""
        if method not in ADMINISTRATION:
            raise BadInput(f"administration: expected one of {', '.join(sorted(ADMINISTRATION))}")
        now = self.clock.now()
        self.work(now)
        result = getattr(self.service, method)(now=now, **arguments)
        self.event_log.note(now, *self._administered(method, arguments, result))
        self.after([], now)
        return result

    def _administered(
        self, method: str, arguments: dict[str, Any], result: Any
    ) -> tuple[str, dict[str, Any]]:
        """Return what was administered, as an event tells it: no token of a key."""
        account = arguments.get("account")
        match method:
            case "open_account":
                opened = self.service.state.accounts[result]
                return "account.opened", {"account_id": result, "name": opened.name, "plan": opened.plan}
            case "issue_key":
                return "key.issued", {"account_id": account, "name": arguments["name"]}
            case "withdraw_key":
                key = self.service.state.keys[arguments["token"]]
                return "key.withdrawn", {"account_id": key.account, "name": key.name}
            case "waive":
                return "limits.changed", {"off": list(arguments["limits"])}
        changed = {name: value for name, value in arguments.items() if name != "account"}
        return "account.changed", {"account_id": account, **changed}

    def finish_job(self, job: str, outcome: str, error: str | None = None, cost: int | None = None) -> None:
        """End a job now, "done" or "failed", whatever was drawn for it; `cost` in µUSD. Raises BadInput."""
        now = self.clock.now()
        self.work(now)
        ending = self.service.state.jobs.get(job)
        if ending is None:
            raise BadInput(f"job: there is none with the id {job!r}")
        if ending.status in (jobs.DONE, jobs.FAILED):
            raise BadInput(f"job: {job} has ended already, {ending.status}")
        step = self.service.ended(job, outcome, now, cost, error)
        self._done(step, now)

    # Time

    def set_clock(
        self, clock: str | None = None, traffic: str | None = None, signature: str | None = None
    ) -> None:
        """Change how time runs, from here on. Raises BadInput."""
        self.work(self.clock.now())
        self.clock.set_clock(clock, traffic, signature)
        self.event_log.note(
            self.clock.now(),
            "clock.set",
            {
                "clock": str(self.clock.rate),
                "traffic_clock": self.clock.traffic_clock,
                "signature_clock": self.clock.signature,
            },
        )
        self._report_answers()
        self._timer.arm(anew=True)

    def next_due(self) -> Micros | None:
        """Return the instant of the next piece of work, or None."""
        due, acts = self.service.next_due(), self.timeline.due
        if acts == DISTANT_FUTURE:
            return due
        return acts if due is None else min(due, acts)

    async def advance(
        self,
        *,
        by: Micros | None = None,
        to: Micros | None = None,
        until: AdvanceCondition | None = None,
        timeout: float | None = None,
    ) -> Advance:
        """Move the clock on, and return when everything that fell due was done in order.

        `by` is a duration, `to` an instant; with `until` the clock stops where the condition comes true, at
        the latest there, or 400 days on without either. `timeout` (seconds of wall time) bounds the whole.
        Under every clock time stands still while attempts are under way. Raises BadInput, and
        AdvanceUnderWay.
        """
        if self.event_log.gathers:
            raise AdvanceUnderWay("clock: an advance is under way; wait until it has returned")
        self.event_log.gather()
        self.clock.hold()
        began = self.clock.now()
        try:
            target = self._target(by, to, until)
            limit = self.settle_timeout if timeout is None else timeout
            settled = await self._run_to(target, until, limit)
        finally:
            happened = self.event_log.gathered()
            self.clock.release()
            self._timer.arm(anew=True)
            if self.clock.now() > began:
                self.event_log.note(self.clock.now(), "clock.advanced", {"since": iso(began)})
        met = None if until is None else until.met(self.service.state)
        return Advance(settled, self.clock.now(), target, met, happened, self.attempts.attempts())

    def _target(self, by: Micros | None, to: Micros | None, until: AdvanceCondition | None) -> Micros:
        """Return the instant that an advance goes to at the latest. Raises BadInput."""
        if by is not None and to is not None:
            raise BadInput("clock: expected a duration (by) or an instant (to), not both")
        if by is None and to is None and until is None:
            raise BadInput("clock: expected a duration (by), an instant (to) or a condition (until)")
        if by is not None and by < 0:
            raise BadInput("clock: expected a duration of 0 or more, since clocks go forward only")
        now = self.clock.now()
        if to is None:
            to = now + (LONGEST_WAIT_FOR_A_CONDITION if by is None else by)
        if until is not None:
            until.check(self.service.state)
        self.clock.check(to)
        return to

    async def _run_to(self, target: Micros, until: AdvanceCondition | None, timeout: float) -> bool:
        """Advance from instant to instant up to `target`; return whether everything settled."""
        service, deadline = self.service, asyncio.get_running_loop().time() + timeout
        while True:
            self.work(self.clock.now())
            settled = await self.attempts.settle(deadline)
            if self.service is not service:
                if self.refuses_writes:
                    raise NotKept(self.refuses_writes)
                raise BadInput("clock: another world began while this one was advanced")
            if not settled:
                return False
            if until is not None and until.met(self.service.state):
                return True
            due = self.next_due()
            if due is None or due > target:
                if until is None:
                    self.clock.move_to(target)
                return True
            self.clock.move_to(due)

    async def advance_to_next(self, timeout: float | None = None) -> Advance:
        """Advance to the next piece of work; where there is none the clock stays."""
        due = self.next_due()
        left = 0 if due is None else max(0, due - self.now())  # no instant: a clock that runs passes it
        return await self.advance(by=left, timeout=timeout)

    # Work that falls due

    def work(self, now: Micros) -> None:
        """Do what is due at `now`, instant by instant."""
        while True:
            due = self.service.next_due()
            if (acts := self.timeline.due) <= now and (due is None or acts < due):
                self._act(acts)
            elif due is not None and due <= now:
                step = self.service.advance(due)
                self.event_log.observe(step.events)
                self._take(step.tasks, due)
            else:
                return

    def _act(self, now: Micros) -> None:
        """Do what the timeline has due at `now`."""
        steps, what = self.timeline.act(self.service, self.faults, now)
        self.event_log.note(now, "timeline.acted", what)
        self.acted(now)
        for step in steps:
            self.event_log.observe(step.events)
            self._take(step.tasks, now)

    def _done(self, step: Step, now: Micros) -> None:
        """Note what became true in a step, and carry out what it handed out."""
        self.event_log.observe(step.events)
        self.after(step.tasks, now)

    def after(self, tasks: list[Task], now: Micros) -> None:
        """Carry out what the service handed out, and do what it put on its agenda for this very instant."""
        if tasks:
            self._take(tasks, now)
        self.work(now)
        self._timer.arm()

    def _ring(self) -> None:
        self.work(self.clock.now())
        self._timer.arm(anew=True)

    # Attempts

    def _take(self, tasks: list[Task], now: Micros) -> None:
        for task in tasks:
            if isinstance(task, Attempt):
                attempt = self._signed(task)
                self.sent_events.note(self.service.state.events[task.event])
                self.attempts.add(attempt)
                self.event_log.add(SentAttempt(now, attempt))
        self.attempts.send()

    def _signed(self, attempt: Attempt) -> Attempt:
        """Sign anew where signatures tell wall time."""
        if self.clock.signature != "wall":
            return attempt
        secret = self.service.state.endpoints[attempt.endpoint].secret
        signature = sign(secret, self.clock.signed_at(self.clock.now()) // SECOND, attempt.body)
        return replace(attempt, headers={**attempt.headers, "Service-Signature": signature})

    async def _deliver(self, attempt: Attempt) -> Answer:
        """Send an attempt, once what led to it is kept."""
        await self.flushed()
        now = self.clock.now()
        fault = self.faults.pick_delivery(attempt, now)
        if fault is not None and fault.rules:
            what = " ".join([*(["late"] if fault.delay_s else []), *filter(None, [fault.delivery])])
            named = {"attempt_id": attempt.attempt, "endpoint_id": attempt.endpoint, "what_came": what}
            self.event_log.note(now, "delivery.altered", named | {"faults": list(fault.rules)})
        return await self.odd_deliveries.deliver(attempt, fault)

    async def _send(self, attempt: Attempt) -> Answer:
        down = self.timeline.answer(attempt, self.clock.now())
        return down or await self.sender.send(attempt, self.policy.facts.webhook_timeout / SECOND)

    def _signed_long_ago(self, attempt: Attempt) -> Attempt:
        """Sign an attempt as if it were sent `OLD` before."""
        secret = self.service.state.endpoints[attempt.endpoint].secret
        signed_at = int(attempt.headers["Service-Signature"].partition(",")[0].removeprefix("t="))
        signature = sign(secret, signed_at - OLD // SECOND, attempt.body)
        return replace(attempt, headers={**attempt.headers, "Service-Signature": signature})

    def _report_answers(self) -> None:
        """Report the answers that are here: as they come, or in order of sending where no time passes."""
        while (answered := self.attempts.pop_answered(ordered=self.clock.ordered)) is not None:
            self._report(*answered)

    def _report(self, attempt: Attempt, answer: Answer) -> None:
        now = self.clock.now()
        self.work(now)
        step = self.service.attempted(attempt.attempt, answer, now)
        self.event_log.observe(step.events, attempt)
        count_answers(self.attempt_counts, step.events)
        self.after(step.tasks, now)

    # Beginning and ending

    async def start(self) -> None:
        """Begin to run on this event loop: the timer, and what waits to be sent."""
        self.attempts.send()
        self._timer.arm(anew=True)

    async def close(self) -> None:
        """Stop the timer and what is being sent; attempts without an answer stay under way."""
        self._timer.stop()
        await self.attempts.stop()
        await self.sender.close()
        with suppress(NotKept):  # whoever closes the file says so
            await self.commit()

    def snapshot(self) -> bytes:
        """Return the whole world as JSON; `restore` reads it back under the same policy."""
        now = self.clock.now()
        return Snapshot(
            now,
            self.clock.traffic(now),
            self.keys,
            self.service.save(),
            self.faults.saved(),
            self.described(),
        ).dump(self.policy)

    def stated(self) -> dict[str, Any]:
        """Return, as JSON, a scenario that begins as the world stands, whose timeline goes on.

        Raises BadInput for what no scenario states.
        """
        now = self.clock.now()
        self.work(now)
        faults, traffic = self.faults.stated(now), self.clock.traffic(now)
        stated = stated_scenario(self.service.state, self.policy, now, faults, traffic)
        return self.timeline.lay_over(stated, now)

    def described(self) -> Described:
        """Return the scenario that the world began with, if any, and where its timeline stands."""
        return None if self.origin is None else (self.origin.source, self.timeline.saved())

    def describe(self, described: Described) -> None:
        """Go on from where `described` said. Raises BadInput, and then changes nothing."""
        if described is None:
            self.timeline = Still()
            return
        (text, until), stands = described
        origin = self.origin
        if origin is None or origin.source != (text, until):
            origin = self.read_origin((text, until), None)
        self.origin, self.timeline = origin, origin.timeline(stands)

    def restore(self, snapshot: bytes, *, keep_requests: bool = False) -> None:
        """Begin a new world where a snapshot was taken; what was under way then is sent again.

        The fault rules are those of then, and the journal of requests is emptied, unless it is to be kept.
        Raises BadInput, and then changes nothing.
        """
        saved = Snapshot.parse(snapshot, self.policy)
        service = Service.restore(saved.state, self.policy)
        begin_edited_periods(service.state, self.policy, saved.now)
        try:
            self.faults.resume(saved.faults)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise BadInput("snapshot: expected fault rules as a snapshot of ranksim has them") from None
        self.describe(saved.described)
        self.faults.changed()
        if self.requests is not None and not keep_requests:
            self.requests.clear()
        self.keys = dict(saved.keys)
        self._begin(service, saved.now, saved.traffic)

    def reset(self) -> None:
        """Begin anew, as at the start: accounts, keys, fault rules, the first instant; and no journal."""
        now = self.clock.wall() if self.first is None else self.first
        service = self._new_service(now)
        self.faults.reset(self.seed, () if self.origin is None else self.origin.faults)
        self._begin(service, now, None if self.origin is None else now)
        if self.requests is not None:
            self.requests.clear()

    def begin_as(self, origin: Origin) -> None:
        """Begin anew as an origin says, now and at each reset. Raises BadInput, and then changes nothing."""
        if policy_digest(origin.policy) != policy_digest(self.policy):
            raise BadInput(
                "scenario: its policy is another than the one that is served; start with ranksim serve FILE"
            )
        origin.open()
        self.origin, self.seed, self.first = origin, origin.seed, origin.start
        self.reset()

    def _new_service(self, now: Micros) -> Service:
        if self.origin is not None:
            service, self.keys, self.timeline = self.origin.open()
            return service
        service = Service(self.policy, self.seed)
        self.keys = {}
        if self.empty:
            return service
        for environment in ENVIRONMENTS:
            account = service.open_account("demo", self.plan, now, environment=environment)
            self.keys[environment] = service.issue_key(account, "demo", now)
        return service

    def _begin(self, service: Service, now: Micros, traffic: Micros | None = None) -> None:
        self.world_id = _new_world()
        self.clock.jump(now, traffic)
        self.sent_events.clear()
        self.service = self.began(service)
        self.event_log.note(now, "world.began", {"world_id": self.world_id})
        self.resume(now)

    def resume(self, now: Micros) -> None:
        """Resume a world: what was under way is sent again, under the same numbers (S93)."""
        self.work(now)
        self.attempts.forget()
        self.after(self.service.resume(now).tasks, now)


def may_write(call: Call) -> bool:
    """Return whether a call may change what is kept."""
    operation = OPERATIONS.get(call.operation)
    return operation is not None and operation.method != "GET"


def _new_world() -> str:
    return f"world_{secrets.token_hex(8)}"


def _http_sender() -> Sender:
    """Return a sender over the network, made at once: who lacks its libraries shall hear of it now."""
    from ranksim.twin.facade.http_sender import HttpSender  # read late: most worlds of tests send nothing

    return HttpSender()
