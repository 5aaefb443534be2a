"""What is counted of the jobs of a kind, and of the pool of workers that runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ranksim.core.clock import Micros
from ranksim.twin.sim.histogram import Histogram


@dataclass(slots=True)
class JobTally:
    """The jobs of a kind, and their pool as it stands since `changed`.

    `busy`, `offered` and `waiting` are integrals over time (µs) of the pool's `running` jobs, its `capacity`
    (None: unlimited) and its `queue`. `most_running` and `most_queued` are the most since the sample before.
    """

    changed: Micros = 0
    running: int = 0
    capacity: int | None = 0
    queue: int = 0
    most_running: int = 0
    most_queued: int = 0
    max_waiting: int = 0
    offered: int | None = 0
    busy: int = 0
    waiting: int = 0
    queued: int = 0
    started: int = 0
    done: int = 0
    failed: int = 0
    wait: Histogram = field(default_factory=Histogram)

    def pool(self, now: Micros, running: int, capacity: int | None, queue: int) -> None:
        """Note the pool's new state; the one before lasted until `now`."""
        self.pass_time(now)
        self.running, self.capacity, self.queue = running, capacity, queue
        if queue > self.most_queued:
            self.most_queued = queue
            self.max_waiting = max(self.max_waiting, queue)
        if running > self.most_running:
            self.most_running = running

    def pass_time(self, now: Micros) -> None:
        """Integrate the pool up to `now`."""
        passed = now - self.changed
        self.busy += self.running * passed
        self.waiting += self.queue * passed
        if self.capacity is None:
            self.offered = None
        elif self.offered is not None:
            self.offered += self.capacity * passed
        self.changed = now

    def sample(self) -> tuple[int, int, int | None]:
        """Return the most that ran and waited since the sample before, and how many workers there are."""
        row = self.most_running, self.most_queued, self.capacity
        self.most_running, self.most_queued = self.running, self.queue
        return row

    def reset(self, now: Micros) -> JobTally:
        """Return a tally that starts afresh, with the pool as it stands."""
        return JobTally(
            changed=now,
            running=self.running,
            capacity=self.capacity,
            queue=self.queue,
            most_running=self.running,
            most_queued=self.queue,
            max_waiting=self.queue,
            offered=None if self.capacity is None else 0,
        )

    def row(self, joined: int) -> dict[str, Any]:
        """Return the counts as plain data; `joined` calls became part of a job that was under way (E10)."""
        counts = {column: getattr(self, column) for column in ("queued", "started", "done", "failed")}
        pool = {column: getattr(self, column) for column in ("max_waiting", "busy", "offered", "waiting")}
        return {**counts, "joined": joined, **pool, "wait": self.wait.to_plain()}
