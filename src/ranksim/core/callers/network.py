"""How requests and webhooks travel: latency and loss, drawn by address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Self

from pydantic import Field, model_validator

from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.core.contract.quantities import Distribution, Duration, Frozen
from ranksim.core.draws import Purpose, bits, entity, uniform

USUAL = Distribution(kind="lognormal", durations=(15 * MILLISECOND,), sigma=0.5)
"""How long one way takes unless it is said."""

DRAWS = 4096
"""Quantiles that a distribution of latencies is read at; reading them once makes a draw a look-up."""


@dataclass(frozen=True, slots=True)
class Network:
    """How requests and webhooks travel.

    A request takes effect `before` after it was sent, and its reply arrives `after` later; its sender gives
    up after `give_up` where there is none, and an `impatient` one where it takes longer. Of the requests a
    share `loss` gets no reply: `lost_requests` of all never arrive, by default half of those, and the others
    take effect. A share `late` takes `late_by` longer to get there, so that later ones overtake it. Webhooks
    take `hook` one way, and the deployment waits `hook_timeout` for an answer (S88).
    """

    before: Distribution = USUAL
    after: Distribution = USUAL
    loss: float = 0.0
    lost_requests: float | None = None
    give_up: Micros = 3 * SECOND
    impatient: bool = False
    late: float = 0.0
    late_by: Micros = 400 * MILLISECOND
    hook: Distribution = USUAL
    hook_timeout: Micros = 10 * SECOND


Share = Annotated[float, Field(ge=0, le=1)]


class NetworkSpec(Frozen):
    """A network between clients and the service, as a scenario declares it.

    A call takes effect a draw of `before` after it was sent, and its reply arrives a draw of `after` later,
    at least 1 µs each. Of the calls the share `lost_requests` never arrives, and the share `lost_replies`
    takes effect, but its replies never arrive. A client waits `give_up` for a reply, then it is lost.
    """

    before: Distribution = USUAL
    after: Distribution = USUAL
    lost_requests: Share = 0.0
    lost_replies: Share = 0.0
    give_up: Annotated[Duration, Field(gt=0)] = 30 * SECOND

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.lost_requests + self.lost_replies > 1:
            raise ValueError("lost_requests and lost_replies are shares of all calls: expected a sum up to 1")
        return self

    def network(self) -> Network:
        """Return the network for calls to travel over."""
        loss = self.lost_requests + self.lost_replies
        return Network(self.before, self.after, loss, self.lost_requests, self.give_up, impatient=True)


@dataclass(frozen=True, slots=True)
class Way:
    """How one request travels: µs there and back; whether it arrives at all, and whether its reply does."""

    there: Micros
    back: Micros
    arrives: bool
    answered: bool


class Ways:
    """The ways over a network, each a function of the seed, of whose they are and of its number."""

    def __init__(self, network: Network, seed: int, whose: str) -> None:
        self.network, self.seed = network, seed
        self.sent = 0
        """Requests so far; the number of the latest."""
        self._before, self._after = _quantiles(network.before), _quantiles(network.after)
        self._hook = _quantiles(network.hook)
        self._who = entity(whose)
        self._unsent = network.loss / 2 if network.lost_requests is None else network.lost_requests

    def request(self, number: int) -> Way:
        """Return the way of a request."""
        network, seed, who = self.network, self.seed, self._who
        drawn = bits(seed, who, number, Purpose.LATENCY)
        there = self._before[drawn % DRAWS]
        if network.late and uniform(seed, who, number, Purpose.CHOICE) < network.late:
            there += network.late_by
        drawn_loss = uniform(seed, who, number, Purpose.LOSS) if network.loss else 1.0
        back = self._after[drawn // DRAWS % DRAWS]
        return Way(there, back, drawn_loss >= self._unsent, drawn_loss >= network.loss)

    def hook(self, number: int) -> Micros:
        """Return how long one way of a webhook takes, in µs."""
        return self._hook[bits(self.seed, self._who, number, Purpose.RECEIVER) % DRAWS]


@lru_cache(maxsize=16)
def _quantiles(distribution: Distribution) -> tuple[Micros, ...]:
    return tuple([max(1, distribution.at((index + 0.5) / DRAWS)) for index in range(DRAWS)])
