"""Webhook receivers: how fast they answer, with what, and when they are down."""

from typing import Annotated, Literal, Self
from urllib.parse import quote

from pydantic import ConfigDict, Field, model_validator

from ranksim.core.callers.receivers import Outages, by_attempt
from ranksim.core.clock import DISTANT_FUTURE, MILLISECOND, Micros
from ranksim.core.contract.quantities import Distribution, Duration, Frozen, Moment
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.service.calls import Answer, Attempt

Status = Annotated[int, Field(ge=100, le=599)]
Silence = Literal["refused", "timeout"]
"""No status: the connection is refused at once, or nothing is heard before the sender gives up."""

Answered = tuple[Answer, bool, int]
"""What the sender sees, whether the receiver acted on the event, and the µs until the sender knows."""


class OutageSpec(Frozen):
    """A stretch of time, written {from: 2h, for: 30m}, in which a receiver is down."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    begin: Moment = Field(alias="from")
    length: Annotated[Duration, Field(gt=0)] = Field(alias="for")


class ReceiverSpec(Frozen):
    """A webhook endpoint of an account and the program behind it.

    The endpoint is account-wide, or bound to the `domain` with that host; no `event_types` means all. It
    signs with `secret`, drawn if none is stated. The receiver answers after a draw of `latency` with
    `status`, or with the statuses of `script` in turn: one for each attempt number of an event, the last
    for all further ones (`script_by: attempt`), or one for each request, round and round (`cycle`). It is
    down during `outages`, and at random when `mtbf` (up time) and `mttr` (down time) are given; `when_down`
    says what a sender then sees: connection refused, no answer, or a status.
    """

    account: str
    domain: str | None = None
    event_types: tuple[str, ...] = ()
    url: str = ""
    secret: str = ""
    id: Annotated[str, Field(pattern="^whk_[0-9]{10}$")] | None = None
    latency: Distribution = Distribution(kind="constant", durations=(200 * MILLISECOND,))
    status: Status = 200
    script: Annotated[tuple[Status | Silence, ...], Field(min_length=1)] | None = None
    script_by: Literal["attempt", "cycle"] = "attempt"
    outages: tuple[OutageSpec, ...] = ()
    mtbf: Distribution | None = None
    mttr: Distribution | None = None
    when_down: Status | Silence = "refused"

    def address(self, name: str) -> str:
        """Return the URL of the endpoint; of none that is stated, one made of the receiver's name."""
        return self.url or f"https://receiver.example/{quote(name, safe='')}"

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.mtbf is None) != (self.mttr is None):
            raise ValueError("random outages want both mtbf and mttr")
        if self.mtbf is not None and self.mttr is not None and self.mtbf.mean() + self.mttr.mean() <= 0:
            raise ValueError("random outages want mtbf or mttr above zero")
        return self


class SimulatedReceiver:
    """The program behind one endpoint, as the world runs it. Ask it in order of time.

    `timeout` is how long the sender waits (µs, S88). Draws are addressed by the receiver's name and the count
    of its requests, or of its random outages. `down` is set and cleared from outside, whatever is scheduled.
    """

    def __init__(self, name: str, spec: ReceiverSpec, *, start: Micros, timeout: int, seed: int) -> None:
        self.name = name
        self.spec = spec
        self.url = spec.address(name)
        self.timeout = timeout
        self.seed = seed
        self.down = False
        self.taken_down: list[tuple[Micros, Micros]] = []
        """When it was down by the timeline, [begin, end)."""
        self.requests = 0
        self._who = entity(f"receiver/{name}")
        self._outages = Outages(
            [(o.begin.on(start), o.begin.on(start) + o.length) for o in spec.outages],
            mtbf=spec.mtbf,
            mttr=spec.mttr,
            start=start,
            seed=seed,
            who=self._who,
        )

    def switch(self, seed: int) -> None:
        """Draw of another seed from now on."""
        self.seed = self._outages.seed = seed

    def answer(self, task: Attempt, now: Micros) -> Answered:
        """Answer an attempt made at `now`. Slower than the timeout, the receiver still acts (E24)."""
        latency = self.spec.latency.at(uniform(self.seed, self._who, self.requests, Purpose.LATENCY))
        response = self.spec.when_down if self.is_down(now) else self._scripted(task)
        self.requests += 1
        if response == "refused":
            return Answer(None, "connection refused", 0), False, 0
        if response == "timeout":
            return Answer(None, "timeout", self.timeout), False, self.timeout
        acted = 200 <= response < 300
        if latency > self.timeout:
            return Answer(None, "timeout", self.timeout), acted, self.timeout
        return Answer(response, None, latency), acted, latency

    def is_down(self, now: Micros) -> bool:
        """Return whether the receiver is down at `now`; `now` never goes back."""
        scheduled = self._outages.at(now)
        return self.down or scheduled

    def outages(self, end: Micros) -> list[tuple[Micros, Micros]]:
        """Return when it is down before an instant, [begin, end) each, in no order."""
        return [*self._outages.until(end), *self.taken_down]

    def take_down(self, now: Micros) -> None:
        """Be down from now on, whatever is scheduled."""
        if not self.down:
            self.taken_down.append((now, DISTANT_FUTURE))
        self.down = True

    def bring_up(self, now: Micros) -> None:
        """End what `take_down` began."""
        if self.down:
            self.taken_down[-1] = (self.taken_down[-1][0], now)
        self.down = False

    def _scripted(self, task: Attempt) -> int | Silence:
        script = self.spec.script
        if script is None:
            return self.spec.status
        if self.spec.script_by == "cycle":
            return script[self.requests % len(script)]
        return by_attempt(script, task.number)
