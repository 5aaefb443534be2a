"""One fake deployment: the service, its clock, and the webhook attempts under way.

Everything here runs on one event loop and touches the service synchronously, so nothing is locked: while an
attempt is out, calls are answered at the clock's current instant.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from ranksim.clock import DAY, SECOND, Micros, iso
from ranksim.contract.policy import Policy
from ranksim.errors import BadInput
from ranksim.facade.advance_until import Condition
from ranksim.facade.event_log import Advance, AdvanceUnderWay, Happening, Happenings, told, told_job
from ranksim.facade.faults import Faults
from ranksim.facade.journal.protocol import Record, Saved, policy_digest
from ranksim.facade.request_journal import Journal
from ranksim.facade.sender import HttpSender, Sender
from ranksim.facade.virtual_clock import LAST, Timekeeper, is_instant
from ranksim.rules.webhooks import acknowledged, sign
from ranksim.service import jobs
from ranksim.service.administration import ENVIRONMENTS
from ranksim.service.calls import Answer, Attempt, Call, Reply, Task
from ranksim.service.context import JOB_ENDS
from ranksim.service.service import Service
from ranksim.serving.wall_clock import wall

log = logging.getLogger("ranksim.facade")

LONGEST_WAIT_FOR_A_CONDITION = 400 * DAY
"""How far an advance until a condition goes before it gives up."""

LONGEST_SLEEP_S = 3600.0

ADMINISTRATION = frozenset(
    {"open_account", "issue_key", "withdraw_key", "change_plan", "set_add_on", "set_status", "waive"}
)
"""What the API itself does not offer: methods of `Service` that `Twin.administer` passes on."""


@dataclass(slots=True, eq=False)
class Out:
    """An attempt that is out: the task that sends it, and the answer while it waits for its turn."""

    attempt: Attempt
    task: asyncio.Task[None] | None = None
    answer: Answer | None = None


class Twin:
    """A fake deployment, without its HTTP surface.

    `clock` is "real", "manual" or "scaled:N"; `start` (µs) the first instant, default now; `traffic_clock`
    ("same" or "wall") what rate windows run on; `signature_clock` ("virtual" or "wall") what webhooks are
    signed with. `settle_timeout` (seconds of wall time) bounds an advance. `sender` carries attempts out.
    There are two accounts called "demo", in production and sandbox, on `plan` (default "pro"), with one key
    each in `keys`, unless `empty`. The same seed gives the same keys. Raises BadInput.
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
        read_wall: Callable[[], Micros] = wall,
    ) -> None:
        self.policy = policy or Policy()
        self.seed = seed
        self.settle_timeout = settle_timeout
        self.sender: Sender = sender or HttpSender()
        self.clock = Timekeeper(clock, start, traffic_clock, signature_clock, read_wall)
        self.keys: dict[str, str] = {}
        """The first key of each environment."""
        self.record: Record | None = None
        self.commit: Callable[[], Awaitable[None]] | None = None
        """Awaited before a reply or an attempt goes out, so that what led to it is kept; raises NotKept."""
        self.faults = Faults(seed)
        self.journal: Journal | None = Journal()
        """The requests that came over HTTP; None remembers none."""
        self.snapshots: dict[str, Saved] = {}
        """What the control API saved, by name."""
        self.replies: Counter[tuple[str, int]] = Counter()
        """Operations answered, by name and status."""
        self.answers: Counter[str] = Counter()
        """Attempts answered: acknowledged, rejected with a status, or unanswered."""
        self.happenings = Happenings()
        plans = list(self.policy.catalogue.plans)
        self.plan = plan or ("pro" if "pro" in plans else plans[-1])
        """The plan of accounts for which no other is wanted."""
        self.first, self.empty = start, empty
        """How a reset begins: at which instant, None for the wall clock's, and whether without accounts."""
        self._out: dict[int, Out] = {}
        self._unsent: list[Out] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed: Micros | None = None
        self.world_id = _new_world()
        self.service = self._new_service()

    # Calls

    def now(self) -> Micros:
        """Give the current instant."""
        return self.clock.now()

    def call(self, call: Call) -> Reply:
        """Answer one call at the current instant; say `written` once the reply is on its way."""
        now = self.clock.now()
        self._work(now)
        traffic = self.clock.traffic(now)
        if self.record is not None:
            self.record("handle", now, {"call": call, "traffic_now": traffic})
        reply, tasks = self.service.handle(call, now, traffic)
        self._after(tasks, now)
        if reply.outcome == "granted":
            self._note_granted(reply, now)
        return reply

    def call_batch(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer the calls of one GraphQL request, in order; one reply stands for all if it is refused."""
        now = self.clock.now()
        self._work(now)
        traffic = self.clock.traffic(now)
        if self.record is not None:
            self.record("handle_batch", now, {"calls": list(calls), "traffic_now": traffic})
        replies, tasks = self.service.handle_batch(calls, now, traffic)
        self._after(tasks, now)
        for reply in replies:
            if reply.outcome == "granted":
                self._note_granted(reply, now)
        return replies

    def written(self, reply: Reply) -> None:
        """Note that a reply was written: its Idempotency-Key is no longer in flight (U92)."""
        if not reply.flight:
            return
        now = self.clock.now()
        if self.record is not None:
            self.record("written", now, {"flight": reply.flight})
        self.service.written(reply, now)

    def administer(self, method: str, **arguments: Any) -> Any:
        """Do what the API does not offer: a method of `ADMINISTRATION`, now. Raises BadInput."""
        if method not in ADMINISTRATION:
            raise BadInput(f"administration: expected one of {', '.join(sorted(ADMINISTRATION))}")
        now = self.clock.now()
        self._work(now)
        result = getattr(self.service, method)(now=now, **arguments)
        if self.record is not None:
            self.record(method, now, arguments)
        self._after([], now)
        return result

    def finish_job(self, job: str, outcome: str, error: str | None = None, cost: int | None = None) -> None:
        """End a job now, "done" or "failed", whatever was drawn for it; `cost` in µUSD. Raises BadInput."""
        now = self.clock.now()
        self._work(now)
        found = self.service.state.jobs.get(job)
        if found is None:
            raise BadInput(f"job: there is none with the id {job!r}")
        if found.status in (jobs.DONE, jobs.FAILED):
            raise BadInput(f"job: {job} has ended already, {found.status}")
        arguments = {"job": job, "outcome": outcome, "cost": cost, "error": error}
        tasks = self.service.ended(now=now, **arguments)  # type: ignore[arg-type]  # one dict of mixed types
        if self.record is not None:
            self.record("ended", now, arguments)
        self._note_job(job, now)
        self._after(tasks, now)

    # Time

    def set_clock(
        self, clock: str | None = None, traffic: str | None = None, signature: str | None = None
    ) -> None:
        """Change how time runs, from here on. Raises BadInput."""
        self._work(self.clock.now())
        self.clock.set_clock(clock, traffic, signature)
        now = self.clock.now()
        settings = {
            "clock": str(self.clock.rate),
            "traffic_clock": self.clock.traffic_clock,
            "signature_clock": self.clock.signature,
        }
        if self.record is not None:
            self.record("set_clock", now, settings)
        self.happenings.note(now, "clock.set", **settings)
        self._apply_answers()
        self._arm(anew=True)

    def next_due(self) -> Micros | None:
        """Give the instant of the next piece of work, or None."""
        return self.service.next_due()

    async def advance(
        self,
        *,
        by: Micros | None = None,
        to: Micros | None = None,
        until: Condition | None = None,
        timeout: float | None = None,
    ) -> Advance:
        """Move the clock on, and return when everything that fell due was done in order.

        `by` is a duration, `to` an instant; with `until` the clock stops where the condition comes true, at
        the latest there, or 400 days on without either. `timeout` (seconds of wall time) bounds the whole.
        Under every clock time stands still while attempts are out. Raises BadInput, and AdvanceUnderWay.
        """
        if self.happenings.gathered is not None:
            raise AdvanceUnderWay("clock: an advance is under way; wait until it has returned")
        happened: list[Happening] = []
        self.happenings.gathered = happened
        self.clock.hold()
        try:
            target = self._target(by, to, until)
            limit = self.settle_timeout if timeout is None else timeout
            settled = await self._run(target, until, limit)
        finally:
            self.happenings.gathered = None
            self.clock.release()
            self._arm(anew=True)
            if self.record is not None:
                self.record("moved", self.clock.now(), {})
        met = None if until is None else until.met(self.service.state)
        waiting = [out.attempt for out in self._out.values()]
        return Advance(settled, self.clock.now(), target, met, happened, waiting)

    async def advance_to_next(self, timeout: float | None = None) -> Advance:
        """Advance to the next piece of work; where there is none the clock stays."""
        due = self.next_due()
        left = 0 if due is None else max(0, due - self.now())  # no instant: a clock that runs passes it
        return await self.advance(by=left, timeout=timeout)

    def _target(self, by: Micros | None, to: Micros | None, until: Condition | None) -> Micros:
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

    async def _run(self, target: Micros, until: Condition | None, timeout: float) -> bool:
        """Go from instant to instant up to `target`; tells whether everything settled."""
        world, deadline = self.world_id, asyncio.get_running_loop().time() + timeout
        while True:
            self._work(self.clock.now())
            settled = await self._settle(deadline)
            if self.world_id != world:
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

    async def _settle(self, deadline: float) -> bool:
        """Wait until no attempt is out; False when `deadline`, of the loop's clock, comes first."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # whoever calls meanwhile is served between two instants too
        while self._out:
            self._send_unsent()
            sending = [out.task for out in self._out.values() if out.task is not None]
            left = deadline - loop.time()
            if left <= 0 or (await asyncio.wait(sending, timeout=left))[1]:
                return False
        return True

    # Work that falls due

    def _work(self, now: Micros) -> None:
        """Do what is due at `now`, instant by instant."""
        agenda = self.service.state.agenda
        while agenda and agenda[0][0] <= now:
            due = agenda[0][0]
            ending = [which for _, _, what, which in sorted(_due(agenda, due)) if what == JOB_ENDS]
            found = self.service.state.jobs
            ending = [job for job in ending if found[job].status not in (jobs.DONE, jobs.FAILED)]
            tasks = self.service.advance(due)
            if tasks and self.record is not None:
                self.record("advance", due, {})
            for job in ending:
                self._note_job(job, due)
            self._take(tasks, due)

    def _after(self, tasks: list[Task], now: Micros) -> None:
        """Take what the service handed out, and do what it put on its agenda for this very instant."""
        if tasks:
            self._take(tasks, now)
        self._work(now)
        self._arm()

    def _take(self, tasks: list[Task], now: Micros) -> None:
        for task in tasks:
            if isinstance(task, Attempt):
                attempt = self._signed(task)
                out = self._out[attempt.attempt] = Out(attempt)
                self._unsent.append(out)
                self.happenings.note(now, "attempt.sent", **told(attempt))
        self._send_unsent()

    def _signed(self, attempt: Attempt) -> Attempt:
        """Sign anew where signatures tell wall time."""
        if self.clock.signature != "wall":
            return attempt
        secret = self.service.state.endpoints[attempt.endpoint].secret
        signature = sign(secret, self.clock.signed_at(self.clock.now()) // SECOND, attempt.body)
        return replace(attempt, headers={**attempt.headers, "Service-Signature": signature})

    # Attempts

    def _send_unsent(self) -> None:
        """Begin to send what waits; outside of an event loop it goes on waiting."""
        if not self._unsent:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        unsent, self._unsent = self._unsent, []
        for out in unsent:
            out.task = loop.create_task(self._send(out))

    async def _send(self, out: Out) -> None:
        try:
            if self.commit is not None:
                await self.commit()
            answer = await self.sender.send(out.attempt, self.policy.facts.webhook_timeout / SECOND)
        except asyncio.CancelledError:
            out.task = None
            if self._is_out(out):
                self._unsent.append(out)
            raise
        except Exception as error:
            log.exception("the sender failed")
            answer = Answer(None, f"failed: {type(error).__name__}")
        if self._is_out(out):
            out.answer = answer
            self._apply_answers()

    def _is_out(self, out: Out) -> bool:
        """Tell whether an attempt still is of this world."""
        return self._out.get(out.attempt.attempt) is out

    def _apply_answers(self) -> None:
        """Report the answers that are here: as they come, or in order of sending where no time passes."""
        for out in list(self._out.values()):
            if out.answer is not None:
                self._answered(out, out.answer)
            elif self.clock.ordered:
                return

    def _answered(self, out: Out, answer: Answer) -> None:
        attempt, now = out.attempt, self.clock.now()
        self._work(now)
        del self._out[attempt.attempt]
        state = self.service.state
        endpoint = state.endpoints.get(attempt.endpoint)
        enabled = endpoint is not None and endpoint.enabled
        if self.record is not None:
            self.record("attempted", now, {"attempt": attempt.attempt, "answer": answer})
        tasks = self.service.attempted(attempt.attempt, answer, now)
        record = state.attempts[state.accounts[attempt.account].attempts[-1]]
        due = record.next_attempt_at
        acknowledges = acknowledged(answer.status, answer.duration, self.policy.facts)
        rejects = "unanswered" if record.status_code is None else "rejected"
        self.answers["acknowledged" if acknowledges else rejects] += 1
        self.happenings.note(
            now,
            "attempt.answered",
            **told(attempt),
            status_code=record.status_code,
            error=record.error,
            next_attempt_at=None if due is None else iso(due),
        )
        if endpoint is not None and enabled and not endpoint.enabled:
            self.happenings.note(
                now,
                "endpoint.disabled",
                endpoint_id=endpoint.id,
                account_id=endpoint.account,
                reason=endpoint.disabled_reason,
            )
        self._after(tasks, now)

    # The timer of a running clock

    def _arm(self, *, anew: bool = False) -> None:
        """Set the timer to the next piece of work, where time runs by itself."""
        due = self.service.next_due()
        if due == self._armed and not anew:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._armed = None
        wait = None if due is None else self.clock.wall_until(due)
        if wait is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._timer = loop.call_later(min(wait / SECOND, LONGEST_SLEEP_S), self._ring)
        self._armed = due

    def _ring(self) -> None:
        self._work(self.clock.now())
        self._arm(anew=True)

    async def start(self) -> None:
        """Begin to run on this event loop: the timer, and what waits to be sent."""
        self._send_unsent()
        self._arm(anew=True)

    async def close(self) -> None:
        """Stop the timer and what is being sent; attempts without an answer stay out."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._armed = None
        tasks = [out.task for out in self._out.values() if out.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.sender.close()
        if self.commit is not None:
            await self.commit()

    # What happens

    def _note_job(self, job: str, at: Micros) -> None:
        found = self.service.state.jobs[job]
        self.happenings.note(at, f"job.{found.status}", **told_job(found))

    def _note_granted(self, reply: Reply, at: Micros) -> None:
        data = (reply.body or {}).get("data", {})
        details = {"operation": reply.operation, "account_id": reply.account}
        if reply.operation == "jobs.create":
            details |= {"job_id": data["id"], "kind": data["kind"], "domain_id": data["domain_id"]}
        self.happenings.note(at, "call.granted", **details)

    # Worlds

    def snapshot(self) -> bytes:
        """Give the whole world as JSON; `restore` reads it back under the same policy."""
        now = self.clock.now()
        heading = {
            "ranksim_snapshot": 1,
            "policy": policy_digest(self.policy),
            "now": now,
            "traffic": self.clock.traffic(now),
            "keys": self.keys,
        }
        return json.dumps(heading)[:-1].encode() + b', "state": ' + self.service.save() + b"}"

    def restore(self, snapshot: bytes) -> None:
        """Begin a new world where a snapshot was taken; what was under way then is sent again.

        Raises BadInput, and then changes nothing.
        """
        try:
            saved = from_json(snapshot)
            now, traffic, keys = saved["now"], saved["traffic"], dict(saved["keys"])
            policy, state = saved["policy"], json.dumps(saved["state"]).encode()
            sound = is_instant(now) and isinstance(traffic, int) and abs(traffic) <= 2 * LAST
            sound = sound and all(isinstance(text, str) for pair in keys.items() for text in pair)
        except (ValueError, TypeError, KeyError):
            sound = False
        if not sound:
            raise BadInput("snapshot: expected the JSON that a snapshot of ranksim gave")
        if policy != policy_digest(self.policy):
            raise BadInput(
                "snapshot: was taken under another policy; start with the policy it was taken under"
            )
        service = Service.restore(state, self.policy)
        self.keys = keys
        self._begin(service, now, traffic)

    def save_as(self, name: str, saved: Saved) -> None:
        """Remember a saved world under a name."""
        self.snapshots[name] = saved
        if self.record is not None:
            self.record("snapshot", self.now(), {"name": name, "now": saved.now, "world": saved.world})

    def forget(self, name: str) -> None:
        """Forget a saved world. Raises KeyError."""
        del self.snapshots[name]
        if self.record is not None:
            self.record("snapshot", self.now(), {"name": name, "now": 0, "world": None})

    def reset(self) -> None:
        """Begin anew, as at the start: accounts, keys, the first instant; no fault rules and no journal."""
        self.clock.jump(self.clock.wall() if self.first is None else self.first)
        self._begin(self._new_service(), self.clock.now())
        self.faults.reset()
        if self.journal is not None:
            self.journal.clear()

    def _new_service(self) -> Service:
        service = Service(self.policy, self.seed)
        self.keys = {}
        if self.empty:
            return service
        now = self.clock.now()
        for environment in ENVIRONMENTS:
            account = service.open_account("demo", self.plan, now, environment=environment)
            self.keys[environment] = service.issue_key(account, "demo", now)
        return service

    def _begin(self, service: Service, now: Micros, traffic: Micros | None = None) -> None:
        self.service = service
        self.world_id = _new_world()
        self.clock.jump(now, traffic)
        if self.record is not None:
            self.record("began", now, {})
        self.happenings.note(now, "world.began", world_id=self.world_id)
        self.resume(now)

    def resume(self, now: Micros) -> None:
        """Go on with a world: what was under way is sent again, under the same numbers (S93)."""
        self._work(now)
        for out in self._out.values():
            if out.task is not None:
                out.task.cancel()
        self._out, self._unsent = {}, []
        if self.record is not None:
            self.record("resume", now, {})
        self._after(self.service.resume(now), now)


def _new_world() -> str:
    return f"world_{secrets.token_hex(8)}"


def _due(agenda: Sequence[tuple[int, int, str, str]], due: Micros) -> Iterator[tuple[int, int, str, str]]:
    """Yield the entries of a heap that are due, in no order, without looking at the others."""
    places = [0]
    while places:
        place = places.pop()
        if place < len(agenda) and agenda[place][0] <= due:
            yield agenda[place]
            places += (2 * place + 1, 2 * place + 2)
