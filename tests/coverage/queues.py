"""Queues whose truth is known, simulated by Lindley's recursion: waits of customers, in the order they come.

Time is counted in mean service times of one server. A run is the first customers of an empty queue, or of
one that has run for long. D. V. Lindley, "The theory of queues with a single server", Proc. Cambridge Phil.
Soc. 48, 1952; for several servers J. Kiefer and J. Wolfowitz, "On the theory of queues with many servers",
Trans. AMS 78, 1955.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Service = Callable[[np.random.Generator, int], Array]


def exponential(random: np.random.Generator, size: int) -> Array:
    """Service times with mean and deviation 1."""
    return random.standard_exponential(size)


def lognormal(random: np.random.Generator, size: int) -> Array:
    """Service times with mean 1 and squared coefficient of variation 2."""
    spread = math.log1p(2.0)
    return random.lognormal(-spread / 2, math.sqrt(spread), size)


@dataclass(frozen=True)
class Queue:
    """A queue with Poisson arrivals: its load, servers and service times, with their squared variation."""

    name: str
    load: float
    servers: int = 1
    service: Service = exponential
    variation: float = 1.0

    def runs(self, random: np.random.Generator, runs: int, customers: int, dropped: int = 0) -> Array:
        """Return the waits of runs from empty, a row each, without the first `dropped` customers."""
        free = np.zeros((runs, self.servers))  # how long from now until each server is free, sorted
        waits = np.empty((runs, customers))
        gap = 1 / (self.load * self.servers)
        for customer in range(dropped + customers):
            if customer >= dropped:
                waits[:, customer - dropped] = free[:, 0]
            free[:, 0] += self.service(random, runs)
            free -= gap * random.standard_exponential(runs)[:, None]
            np.maximum(free, 0.0, out=free)
            if self.servers > 1:
                free.sort(axis=1)
        return waits

    @property
    def waiting(self) -> float:
        """The chance that a customer waits at all (Erlang's C; with one server the load)."""
        offered, blocked = self.load * self.servers, 1.0
        for k in range(1, self.servers + 1):
            blocked = offered * blocked / (k + offered * blocked)
        return blocked / (1 - self.load * (1 - blocked))

    @property
    def mean(self) -> float:
        """The mean wait in the long run (Erlang; for one server Pollaczek and Khinchine)."""
        assert self.servers == 1 or self.variation == 1
        return self.waiting / (self.servers * (1 - self.load)) * (1 + self.variation) / 2

    def quantile(self, q: float) -> float:
        """The quantile of waits in the long run, with exponential service."""
        assert self.variation == 1
        return max(0.0, math.log(self.waiting / (1 - q)) / (self.servers * (1 - self.load)))


QUEUES = (
    Queue("M/M/1, load 0.5", 0.5),
    Queue("M/M/1, load 0.8", 0.8),
    Queue("M/M/4, load 0.8", 0.8, servers=4),
    Queue("M/G/1 (lognormal), load 0.7", 0.7, service=lognormal, variation=2.0),
)
