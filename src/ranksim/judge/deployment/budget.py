"""What a load run may spend of somebody's money: a cap, or dry runs alone."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ranksim.core.callers.steps import Pause, Received, Send, relayed, silence
from ranksim.core.clock import SECOND, Micros
from ranksim.judge.deployment.prices import (
    HEADROOM,
    Priced,
    Prices,
    like_of,
    priced_units,
    spends,
    spent_amount,
    started_job,
    without_effect,
)

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

HELD_BACK = "calls were held back by the spend cap or --dry-run-only"
"""The note of a trace that has the number of calls which were not permitted."""


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

    def is_shown(self, now: Micros) -> bool:
        """Return whether a reading that is sent at an instant shows what it cost."""
        return self.shown_from is not None and self.shown_from <= now

    @property
    def books_later(self) -> bool:
        """Whether it began a job which may book in its end what no reading has shown."""
        return self.job is not None and not self.unbooked


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

    def take(self, spent: int, resets_at: Any) -> int:
        """Take in a reading; return by how much what is spent has grown, as far as that is not explained."""
        if resets_at != self.resets_at and spent < self.last:
            self.earlier = self.spent()
            self.first = self.most = self.last = 0
        self.resets_at = resets_at
        if self.first is None:
            self.first = self.most = self.last = spent
        grown = self.unexplained + spent - self.last
        self.last, self.most = spent, max(self.most, spent)
        return grown

    def spent(self) -> int:
        """The most that was spent at once, as readings show it; what failed jobs give back still counts."""
        return self.earlier + (0 if self.first is None else self.most - self.first)


@dataclass(slots=True)
class Budget:
    """Permits what may be sent. `cap` is µUSD for the whole run, None for no cap.

    What was spent is known from readings of account usage alone. What a call may cost at most is held from
    before it is sent until a reading that was made after its reply shows what it did cost; a job of which
    that reading shows nothing is held until it has ended. It is held by what its like cost before, doubled
    where others are under way. Where its like was never seen it goes alone, or, where its kind was seen on
    another domain, beside what asks for the same: nothing else that costs anything is under way meanwhile, it
    asks for few units, and it is taken to cost at most a few times what its kind did elsewhere, or there
    before keywords or scans were added, or what `UNSEEN` says; a job on a domain that was there before the
    run, `LARGE_JOB`. So the cap is passed by one call at most, or by those for one job at once, which cost
    more than that, and by what a deployment books of a job beyond what it showed at first. What repeats a
    call under way is taken to be done once. Without readings nothing that spends is permitted. Where accounts
    are shared by several processes, each needs its share of the cap.
    """

    cap: int | None = None
    dry_run_only: bool = False
    accounts: Mapping[str, str] = field(default_factory=dict)
    """Name of a key to its account, where known; keys of one account share what it spends."""
    prices: Prices = field(default_factory=Prices)
    refused: int = 0
    """Calls that were not permitted."""
    _accounts: dict[str, _AccountSpend] = field(default_factory=dict)
    _outstanding: list[_Outstanding] = field(default_factory=list)
    _books_at_once: bool = False
    """Whether a job was seen to cost something before its end, so that nothing then means nothing."""

    def permit(self, send: Send) -> Send | None:
        """Return what may be sent in place of a call, or None: nothing."""
        permitted: Send | None = send
        if self.dry_run_only:
            permitted = without_effect(send)
        elif self.cap is not None and spends(send) and not self._is_again(send):
            permitted = self._hold(send) if self._fits(send) else None
        self.refused += permitted is None
        return permitted

    def _hold(self, send: Send) -> Send:
        """Hold what a call may cost at most until it is known what it did cost."""
        like, units = like_of(send), priced_units(send)
        held, is_priced = self._wants(like, units), like in self.prices.seen
        self._outstanding.append(_Outstanding(send, self._name(send.key), like, units, held, is_priced))
        return send

    def must_wait(self, send: Send) -> bool:
        """Return whether a call may fit once it is known what others cost that are under way."""
        if self.cap is None or self.dry_run_only or not spends(send) or self._fits(send):
            return False
        if self._is_again(send):
            return False
        if self._of(send.key).first is None:
            return False
        alone = self.prices.most(like_of(send), priced_units(send))
        return bool(self._outstanding) and self._spent_surely() + alone <= self.cap

    def wanted(self, send: Send, now: Micros) -> Send | None:
        """Return what is to be read before it can be said whether a spending call is permitted, or None."""
        if self.cap is None or self.dry_run_only or not spends(send) or self._is_again(send):
            return None
        account = self._of(send.key)
        if account.first is None:
            return Send("account.usage", account.reader or send.key)
        if self._spent_surely() >= self.cap:
            return None
        for call in self._outstanding:
            if call.is_shown(now):
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
            self.prices.note(send, received.data)
        if send.operation == "account.usage":
            self._read(send, received)
        elif send.operation.startswith("jobs."):
            self._look(received)
        for call in self._outstanding:
            if call.send is send:
                lost = 0 if received.status else LOST
                call.shown_from, call.accepted = received.received + lost, received.ok
                call.job = started_job(call.like, received)

    def gave_up(self, send: Send, now: Micros) -> None:
        """Note that nobody listens any more to the reply of a call."""
        for call in self._outstanding:
            if call.send is send and call.shown_from is None:
                call.shown_from = now + LOST

    def _read(self, send: Send, received: Received) -> None:
        """Take in what an account has spent by now, and so what the calls cost that the reading shows."""
        cost = received.data.get("cost") if isinstance(received.data, Mapping) else None
        spent = spent_amount(cost) if isinstance(cost, Mapping) else None
        if not isinstance(cost, Mapping) or spent is None:
            return
        name, account = self._name(send.key), self._of(send.key)
        account.reader = send.key
        grown = account.take(spent, cost.get("resets_at"))
        outstanding = [call for call in self._outstanding if call.account == name]
        counted = [call for call in outstanding if call.is_shown(received.sent)]
        account.unexplained = 0
        if not all(
            call.known or call in counted for call in outstanding
        ):  # what has cost this may be another
            account.unexplained, grown = max(0, grown), 0
            counted = [call for call in counted if call.known]
        self._settle(counted, outstanding, grown)

    def _settle(self, counted: list[_Outstanding], outstanding: list[_Outstanding], grown: int) -> None:
        """Take in that the cost of an account has grown so much by calls that a reading shows."""
        prices = self.prices.seen
        self.prices.look_again({call.like for call in counted})
        expected = sum(prices.get(call.like, 0) * call.units for call in outstanding)
        new, dearer = any(call.like not in prices for call in counted), grown > expected
        for call in counted:
            price = prices.get(call.like)
            if dearer and price is None:  # it was alone with what costs nothing
                prices[call.like] = -(-(grown - expected) // call.units)
                self._books_at_once |= call.books_later
            elif dearer and price is not None and not new:  # all are dearer, as far as can be told
                seen = -(-price * grown // expected) if expected else -(-grown // call.units)
                prices[call.like] = max(price, seen)
            elif price is None and call.accepted:
                if call.books_later and not self._books_at_once:
                    call.unbooked, call.shown_from = True, None
                    continue
                prices[call.like] = 0
            self._outstanding.remove(call)

    def _look(self, received: Received) -> None:
        """Take in which jobs have ended of those that had booked nothing."""
        items = received.data if isinstance(received.data, list) else [received.data]
        unbooked = [call for call in self._outstanding if call.unbooked]
        for job in (item for item in items if isinstance(item, Mapping)):
            for call in (call for call in unbooked if call.job and call.job[1] == job.get("id")):
                call.looked = received.received
                if job.get("finished_at") is not None:
                    call.shown_from = received.received
                    call.accepted = job.get("status") != "failed"

    def _is_again(self, send: Send) -> bool:
        """Whether a call repeats one under way, which is done once (S47): nothing more is held for it."""
        return send.idempotency_key is not None and any(
            (call.send.key, call.send.idempotency_key) == (send.key, send.idempotency_key)
            for call in self._outstanding
        )

    def _fits(self, send: Send) -> bool:
        """Whether what a call may cost at most is left."""
        assert self.cap is not None
        like, units = like_of(send), priced_units(send)
        others = [
            call for call in self._outstanding if call.like != like or not self.prices.is_like_seen(like)
        ]
        if self._of(send.key).first is None or not all(call.known for call in others):
            return False
        if like not in self.prices.seen and (units > FIRST_UNITS or any(call.held for call in others)):
            return False
        return self.spent() + max(1, self._wants(like, units)) <= self.cap

    def _wants(self, like: Priced, units: int) -> int:
        """What must be left for a call (µUSD) beside those under way."""
        beside = any(call.held for call in self._outstanding)
        return self.prices.most(like, units) * (HEADROOM if beside else 1)

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
    return relayed(program, partial(_guarded_send, budget))


def _guarded_send(budget: Budget, send: Send) -> Generator[Any, Any, Received]:
    now: Micros = 0
    if budget.cap is not None and spends(send):
        now = yield from _until_known(send, budget)
    permitted = budget.permit(send)
    if permitted is None:
        return (yield from silence())
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
