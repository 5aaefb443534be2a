"""How requests and webhooks travel: latency and loss, drawn by address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ranksim.clock import MILLISECOND, SECOND, Micros
from ranksim.contract.quantities import Distribution
from ranksim.draws import Purpose, bits, entity, uniform

USUAL = Distribution(kind="lognormal", durations=(15 * MILLISECOND,), sigma=0.5)
"""How long one way takes unless it is said."""

DRAWS = 4096
"""Quantiles that a distribution of latencies is read at; reading them once makes a draw a look-up."""


@dataclass(frozen=True, slots=True)
class Network:
    """How requests and webhooks travel.

    A request takes effect `before` after it was sent, and its reply arrives `after` later. Of the requests a
    share `loss` gets no reply, half of them without effect; their sender gives up after `give_up`. A share
    `late` takes `late_by` longer to get there, so that later ones overtake it. Webhooks take `hook` one way,
    and the deployment waits `hook_timeout` for an answer (S88).
    """

    before: Distribution = USUAL
    after: Distribution = USUAL
    loss: float = 0.0
    give_up: Micros = 3 * SECOND
    late: float = 0.0
    late_by: Micros = 400 * MILLISECOND
    hook: Distribution = USUAL
    hook_timeout: Micros = 10 * SECOND


@dataclass(frozen=True, slots=True)
class Way:
    """How one request travels: µs there and back; whether it arrives at all, and whether its reply does."""

    there: Micros
    back: Micros
    arrives: bool
    answered: bool


class Ways:
    """The ways over a network, each a function of the seed and of its number."""

    def __init__(self, network: Network, seed: int) -> None:
        self.network, self.seed = network, seed
        self._before, self._after = _quantiles(network.before), _quantiles(network.after)
        self._hook = _quantiles(network.hook)
        self._who = entity("rehearsal")

    def request(self, number: int) -> Way:
        """Give the way of a request."""
        network, seed, who = self.network, self.seed, self._who
        drawn = bits(seed, who, number, Purpose.LATENCY)
        there = self._before[drawn % DRAWS]
        if network.late and uniform(seed, who, number, Purpose.CHOICE) < network.late:
            there += network.late_by
        loss = uniform(seed, who, number, Purpose.LOSS) if network.loss else 1.0
        return Way(there, self._after[drawn // DRAWS % DRAWS], loss >= network.loss / 2, loss >= network.loss)

    def hook(self, number: int) -> Micros:
        """Give how long one way of a webhook takes, in µs."""
        return self._hook[bits(self.seed, self._who, number, Purpose.RECEIVER) % DRAWS]


@lru_cache(maxsize=16)
def _quantiles(distribution: Distribution) -> tuple[Micros, ...]:
    return tuple([max(1, distribution.at((index + 0.5) / DRAWS)) for index in range(DRAWS)])
