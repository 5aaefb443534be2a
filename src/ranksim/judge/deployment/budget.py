"""What a load run may spend of somebody's money: a cap, or dry runs alone."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from ranksim.core.callers.steps import Pause, Received, Send, Spawn
from ranksim.core.clock import SECOND, Micros
from ranksim.core.money import MICRO_USD
from ranksim.core.service.operations import OPERATIONS

HEADROOM = 2
"""How many times as much as was seen of its like a call is taken to cost at most, beside other calls."""

ELSEWHERE = 5
"""How many times as much as its kind did on other domains a job is taken to cost at most: pages differ."""

UNSEEN: Mapping[str, int] = {
    "keywords.create": 0,
    "scans.create": 0,
    "keyword_briefs.create": 50_000,
    "rank_run": 50_000,
}
"""What a call is taken to cost at most (µUSD), each keyword of briefs, while nobody saw what its kind costs:
keywords and scans nothing (S57, S58), little what programs ask few keywords of; any other `UNSEEN_JOB`."""

UNSEEN_JOB = 1_000_000

LARGE_JOB = 10_000_000
"""What a job is taken to cost at most (µUSD) on a domain that the run did not make, while none of its kind
was seen there: nobody says how many pages such a domain has, or how many questions are asked of it."""

FIRST_UNITS = 5
"""How many units a call may ask for at most whose unit nobody saw the price of."""

LOST: Micros = 10 * SECOND
"""How long after a call without a reply a reading is taken to show what it cost."""

PATIENCE: Micros = 30 * SECOND
"""How long a call waits for what others cost to be known, before it is held back."""

SETTLING: Micros = SECOND // 5
"""Between two looks at whether it is known."""

LOOKED: Micros = 2 * SECOND
"""Between two looks at a job that has booked nothing yet."""

GROWING = frozenset({"scans.create", "scans.update", "keywords.create"})
"""What gives the jobs of a domain more to do."""

HELD_BACK = "calls were held back by the spend cap or --dry-run-only"
"""The note of a trace that has the number of calls which were not permitted."""


class Priced(NamedTuple):
    """What calls are alike in that cost the same: the kind of job, "" for none, and its domain."""

    operation: str
    kind: str
    domain: str


@dataclass(slots=True, eq=False)
class _Outstanding:
    """A call that was permitted, and of which no reading has shown yet what it cost.

    `held` (µUSD) is what it may cost at most, as far as can be known. `shown_from` is the instant from which
    on readings show it, None before its reply; `job` the (kind, id) of the job that it started. `unbooked`:
    a reading showed nothing, so it is to be seen what its job costs in its end.
    """

    send: Send
    account: str
    like: Priced
    units: int
    held: int
    known: bool
    shown_from: Micros | None = None
    accepted: bool = False
    job: tuple[str, str] | None = None
    unbooked: bool = False
    looked: Micros = 0


@dataclass(slots=True)
class _AccountSpend:
    """What is known of one account: µUSD spent at first, at most and by the last reading.

    `resets_at` is when what was spent begins anew, `earlier` what was spent by us before it last did,
    `unexplained` what a call may have cost whose reply has not come, and `reader` a key that may read it.
    """

    first: int | None = None
    most: int = 0
    last: int = 0
    resets_at: Any = None
    earlier: int = 0
    unexplained: int = 0
    reader: str = ""

    def spent(self) -> int:
        """The most that was spent at once, as readings show it; what failed jobs give back still counts."""
        return self.earlier + (0 if self.first is None else self.most - self.first)


@dataclass(slots=True)
class Budget:
    """Permits what may be sent. `cap` is µUSD for the whole run, None for no cap.

    What was spent is known from readings of account usage alone. What a call may cost at most is held from
    before it is sent until a reading that was made after its reply shows what it did cost; a job of which
    that reading shows nothing is held until it has ended. It is held by what its like cost before, doubled
    where others are under way. Where its like was never seen it goes alone: nothing else that costs anything
    is under way meanwhile, it asks for few units, and it is taken to cost at most a few times what its kind
    did elsewhere, or there before keywords or scans were added, or what `UNSEEN` says; a job on a domain that
    was there before the run, `LARGE_JOB`. So the cap is passed by one call at most, which costs more than
    that, and by what a deployment books of a job beyond what it showed at first. Without readings nothing
    that spends is permitted. Where accounts are shared by several processes, each needs its share of the cap.
    """

    cap: int | None = None
    dry_run_only: bool = False
    accounts: Mapping[str, str] = field(default_factory=dict)
    """Name of a key to its account, where known; keys of one account share what it spends."""
    failing_domain: str = ""
    """A domain whose jobs fail, as the target says: they are taken for small ones."""
    refused: int = 0
    """Calls that were not permitted."""
    _accounts: dict[str, _AccountSpend] = field(default_factory=dict)
    _prices: dict[Priced, int] = field(default_factory=dict)
    """The most that a unit of one kind was seen to cost (µUSD)."""
    _outstanding: list[_Outstanding] = field(default_factory=list)
    _made: set[str] = field(default_factory=set)
    """Domains that the run made."""
    _domains: dict[str, str] = field(default_factory=dict)
    """The domain of each list that the run made, and of each scan."""
    _grown: set[Priced] = field(default_factory=set)
    """Jobs whose domain has got more to do since it was seen what they cost."""
    _books_at_once: bool = False
    """Whether a job was seen to cost something before its end, so that nothing then means nothing."""

    def permit(self, send: Send) -> Send | None:
        """Return what may be sent in place of a call, or None: nothing."""
        permitted = self._permit(send)
        self.refused += permitted is None
        return permitted

    def _permit(self, send: Send) -> Send | None:
        if self.dry_run_only:
            return _without_effect(send)
        if not spends(send):
            return send
        if self.cap is None:
            return send
        if not self._fits(send):
            return None
        like, units = like_of(send), units_of(send)
        is_priced = like in self._prices
        held = self._wants(like, units)
        self._outstanding.append(_Outstanding(send, self._name(send.key), like, units, held, is_priced))
        return send

    def must_wait(self, send: Send) -> bool:
        """Return whether a call may fit once it is known what others cost that are under way."""
        if self.cap is None or self.dry_run_only or not spends(send) or self._fits(send):
            return False
        if self._of(send.key).first is None:
            return False
        alone = self._most(like_of(send), units_of(send))
        return bool(self._outstanding) and self._spent_surely() + alone <= self.cap

    def wanted(self, send: Send, now: Micros) -> Send | None:
        """Return what is to be read before it can be said whether a spending call is permitted, or None."""
        if self.cap is None or self.dry_run_only or not spends(send):
            return None
        account = self._of(send.key)
        if account.first is None:
            return Send("account.usage", account.reader or send.key)
        if self._spent_surely() >= self.cap:
            return None
        for call in self._outstanding:
            if call.shown_from is not None and call.shown_from <= now:
                return Send("account.usage", self._accounts[call.account].reader or call.send.key)
            if call.unbooked and call.job is not None and now - call.looked >= LOOKED:
                kind, number = call.job
                return Send("jobs.get", call.send.key, path={"kind": kind, "id": number})
        return None

    def saw(self, send: Send, received: Received) -> None:
        """Learn from an answer what was spent."""
        if self.cap is None:
            return
        if received.ok:
            self._note(send, received.data)
        if send.operation == "account.usage":
            self._read(send, received)
        elif send.operation.startswith("jobs."):
            self._look(received)
        for call in self._outstanding:
            if call.send is send:
                lost = 0 if received.status else LOST
                call.shown_from, call.accepted = received.received + lost, received.ok
                call.job = _job_of(call.like, received)

    def _note(self, send: Send, data: Any) -> None:
        """Take in what was made, which jobs may cost more for."""
        made = str(data.get("id")) if isinstance(data, Mapping) else ""
        match send.operation:
            case "domains.create":
                self._made.add(made)
            case "keyword_lists.create" | "scans.create":
                self._domains[made] = str(_fields(send).get("domain_id"))
        if send.operation in GROWING:
            fields = _fields(send)
            place = str(fields.get("list_id") or send.path.get("id") or made)
            domain = self._domains.get(place, "")
            self._grown |= {like for like in self._prices if like.kind and domain in ("", like.domain)}

    def gave_up(self, send: Send, now: Micros) -> None:
        """Note that nobody listens any more to the reply of a call."""
        for call in self._outstanding:
            if call.send is send and call.shown_from is None:
                call.shown_from = now + LOST

    def _read(self, send: Send, received: Received) -> None:
        cost = received.data.get("cost") if isinstance(received.data, Mapping) else None
        spent = spent_of(cost) if isinstance(cost, Mapping) else None
        if not isinstance(cost, Mapping) or spent is None:
            return
        name, account, resets_at = self._name(send.key), self._of(send.key), cost.get("resets_at")
        account.reader = send.key
        if resets_at != account.resets_at and spent < account.last:
            account.earlier = account.spent()
            account.first = account.most = account.last = 0
        account.resets_at = resets_at
        if account.first is None:
            account.first = account.most = account.last = spent
        grown = account.unexplained + spent - account.last
        account.last, account.most = spent, max(account.most, spent)
        outstanding = [call for call in self._outstanding if call.account == name]
        counted = [
            call for call in outstanding if call.shown_from is not None and call.shown_from <= received.sent
        ]
        if any(
            not call.known and call not in counted for call in outstanding
        ):  # it may be what has cost this
            account.unexplained = max(0, grown)
            counted = [call for call in counted if call.known]
            grown = 0
        else:
            account.unexplained = 0
        self._settle(counted, outstanding, grown)

    def _settle(self, counted: list[_Outstanding], outstanding: list[_Outstanding], grown: int) -> None:
        """Take in that the cost of an account has grown so much by calls that a reading shows."""
        self._grown -= {call.like for call in counted}
        expected = sum(self._prices.get(call.like, 0) * call.units for call in outstanding)
        new = [call for call in counted if call.like not in self._prices]
        for call in counted:
            price = self._prices.get(call.like)
            if grown > expected and price is None:  # it was alone with what costs nothing
                self._prices[call.like] = -(-(grown - expected) // call.units)
                self._books_at_once |= call.job is not None and not call.unbooked
            elif grown > expected and price is not None and not new:  # all are dearer, as far as can be told
                seen = -(-price * grown // expected) if expected else -(-grown // call.units)
                self._prices[call.like] = max(price, seen)
            elif price is None and call.accepted:
                if call.job is not None and not call.unbooked and not self._books_at_once:
                    call.unbooked, call.shown_from = True, None
                    continue
                self._prices[call.like] = 0
            self._outstanding.remove(call)

    def _look(self, received: Received) -> None:
        """Take in which jobs have ended of those that had booked nothing."""
        items = received.data if isinstance(received.data, list) else [received.data]
        for job in items:
            if not isinstance(job, Mapping):
                continue
            for call in self._outstanding:
                if call.unbooked and call.job is not None and job.get("id") == call.job[1]:
                    call.looked = received.received
                    if job.get("finished_at") is not None:
                        call.shown_from = received.received
                        call.accepted = job.get("status") != "failed"

    def _fits(self, send: Send) -> bool:
        """Whether what a call may cost at most is left."""
        assert self.cap is not None
        like = like_of(send)
        if self._of(send.key).first is None:
            return False
        if not all(call.known for call in self._outstanding):
            return False
        if like not in self._prices and units_of(send) > FIRST_UNITS:
            return False
        if like not in self._prices and any(call.held for call in self._outstanding):
            return False
        return self.spent() + max(1, self._wants(like, units_of(send))) <= self.cap

    def _wants(self, like: Priced, units: int) -> int:
        """What must be left for a call (µUSD) beside those under way."""
        beside = like in self._prices and any(call.held for call in self._outstanding)
        return self._most(like, units) * (HEADROOM if beside else 1)

    def _most(self, like: Priced, units: int) -> int:
        """What a call is taken to cost at most (µUSD)."""
        price = self._prices.get(like)
        if price is not None and like not in self._grown:
            return price * units
        small = like.domain in self._made or like.domain == (self.failing_domain or None)
        if price is None and like.operation == "jobs.create" and not small:
            return LARGE_JOB
        same = price or max(
            (amount for priced, amount in self._prices.items() if priced[:2] == like[:2]), default=0
        )
        if same:
            return min(ELSEWHERE * same, max(UNSEEN_JOB, HEADROOM * same)) * units
        return UNSEEN.get(like.kind or like.operation, UNSEEN_JOB) * units

    def _name(self, key: str) -> str:
        return self.accounts.get(key) or key

    def _of(self, key: str) -> _AccountSpend:
        return self._accounts.setdefault(self._name(key), _AccountSpend())

    def _spent_surely(self) -> int:
        return sum(account.spent() for account in self._accounts.values())

    def spent(self) -> int:
        """Return the most that this run has spent so far, as far as can be known, in µUSD."""
        return self._spent_surely() + sum(call.held for call in self._outstanding)


def guarded(program: Generator[Any, Any, Any], budget: Budget) -> Generator[Any, Any, Any]:
    """Run a program with what a budget permits; what it does not permit is answered like silence.

    Readings that the budget wants are sent in between.
    """
    answer: Any = None
    while True:
        try:
            step = program.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(step, Send):
            answer = yield from _guarded_send(step, budget)
        elif isinstance(step, Spawn):
            answer = yield Spawn(guarded(step.program, budget))
        else:
            answer = yield step


def _guarded_send(send: Send, budget: Budget) -> Generator[Any, Any, Received]:
    now: Micros = 0
    if budget.cap is not None and spends(send):
        now = yield from _until_known(send, budget)
    permitted = budget.permit(send)
    if permitted is None:
        now = yield Pause(1_000)
        return Received(0, None, {}, now, now)
    try:
        answer: Received = yield permitted
    except GeneratorExit:
        budget.gave_up(permitted, now)
        raise
    budget.saw(permitted, answer)
    return answer


def _until_known(send: Send, budget: Budget) -> Generator[Any, Any, Micros]:
    """Read what must be known before a call is permitted, and wait for it; return the present instant."""
    now: Micros = yield Pause(0)
    until = now + PATIENCE
    while True:
        wanted = budget.wanted(send, now)
        if wanted is not None:
            answer = yield wanted
            budget.saw(wanted, answer)
        if not budget.must_wait(send) or now >= until:
            return now
        now = yield Pause(SETTLING)


def account_named(environment: str, account: str) -> str:
    """Name an account for a budget, "" where it is unknown: an id may be another one's elsewhere (S1)."""
    return f"{environment} {account}" if account else ""


def like_of(send: Send) -> Priced:
    """Return what a spending call is like in price; a job that does not name its kind may be any."""
    if send.operation != "jobs.create":
        return Priced(send.operation, "", "")
    body = _fields(send)
    return Priced(send.operation, str(body.get("kind", "any")), str(body.get("domain_id", "")))


def units_of(send: Send) -> int:
    """Return how many times what is priced a call asks for: keywords of briefs."""
    body = _fields(send)
    lists = [body.get(name) for name in ("keyword_ids", "keywords")]
    counts = [len(items) for items in lists if isinstance(items, list)]
    return max(1, *counts) if counts and send.operation == "keyword_briefs.create" else 1


def _fields(send: Send) -> Mapping[str, Any]:
    """Return the fields of a call under the names that REST has for them, as far as it shows any."""
    body: Any = send.body
    if send.raw is not None:
        try:
            body = json.loads(send.raw)
        except (ValueError, RecursionError):
            return {}
    elif send.surface == "graphql" and body is not None:
        variables = body.get("variables") or {}
        given = variables.get("input")
        variables = {**variables, **(given if isinstance(given, Mapping) else {})}
        body = {**variables, "kind": str(variables.get("kind", "any")).lower()}
        body["domain_id"] = variables.get("domain", "")
    return body if isinstance(body, Mapping) else {}


def _job_of(like: Priced, received: Received) -> tuple[str, str] | None:
    """Return kind and id of the job that a call started, None where it did not or does not say."""
    job = received.data
    if like.operation != "jobs.create" or not received.ok or not isinstance(job, Mapping):
        return None
    return (str(job["kind"]), str(job["id"])) if "kind" in job and "id" in job else None


def spends(send: Send) -> bool:
    """Return whether a call can spend or commit spend: one of the seven, and no dry run (S51)."""
    operation = OPERATIONS.get(send.operation)
    if operation is None or not operation.spends:
        return False
    if send.body is None or send.raw is not None:
        return True
    if send.surface != "rest":
        return "dryRun: true" not in str(send.body.get("query"))
    return send.body.get("dry_run") is not True


def writes(send: Send) -> bool:
    """Return whether a call is for an operation that changes something, a dry run of it as well."""
    operation = OPERATIONS.get(send.operation)
    return operation is not None and operation.method != "GET" and send.surface != "preflight"


def _without_effect(send: Send) -> Send | None:
    """Return what may be sent in place of a call where nothing may change: reading, dry runs, or nothing."""
    if not writes(send):
        return send
    if not OPERATIONS[send.operation].spends:
        return None
    if not spends(send):
        return send
    if send.body is None or send.raw is not None or send.surface != "rest":
        return None
    return replace(send, body={**send.body, "dry_run": True})


def spent_of(cost: Mapping[str, Any]) -> int | None:
    """Read µUSD spent from the cost in account usage, text or a number; None where it does not say."""
    if "spent" in cost:
        return micros_of(cost["spent"])
    parts = [micros_of(cost[name]) for name in ("settled", "reserved") if name in cost]
    stated = [part for part in parts if part is not None]
    return sum(stated) if stated else None


def micros_of(amount: Any) -> int | None:
    """Read an amount of dollars, text or a number, as µUSD; None where it is none."""
    try:
        return int(Decimal(str(amount)) * MICRO_USD)
    except (ArithmeticError, ValueError):
        return None
