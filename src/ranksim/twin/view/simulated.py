"""A scenario's run as the live page shows it: its events, and the state of the service at any instant.

The service is deterministic, so its state at an instant is a state saved before and the inputs since, put
before the same rules again.
"""

from __future__ import annotations

import tempfile
import zlib
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ranksim.core.clock import Micros
from ranksim.core.contract.facts import JobKind
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Reply
from ranksim.core.service.service import Service
from ranksim.core.trace_writer import TraceWriter
from ranksim.twin.facade.journal.journaled_service import JournaledService
from ranksim.twin.facade.page.overview import state_shown
from ranksim.twin.view.recording import Shown, TraceEvents

if TYPE_CHECKING:
    from ranksim.twin.sim.scenario import Scenario

INPUTS = 1_000
"""How many inputs lie between two saved states at first, so that no more are put before the rules again."""

MOST_SAVED = 64
"""How many states are saved; when there are more every other one is dropped, and half as many follow."""


class StateHistory:
    """The states of a service at all instants from now on; `service` takes the inputs and remembers them."""

    def __init__(self, service: Service, policy: Policy) -> None:
        self.service = JournaledService(service, self._remember)
        self._policies = [(0, policy)]  # how many inputs lie before each is in force
        self._instants: list[Micros] = []
        self._inputs: list[tuple[str, dict[str, Any]]] = []
        self._saved: list[tuple[int, bytes]] = []  # how many inputs lie before a state, and it, compressed
        self._every = INPUTS
        self._save()
        self._at: tuple[int, Micros, Service] | None = None  # the state that was asked for last

    def _remember(self, method: str, now: Micros, arguments: dict[str, Any]) -> None:
        # A call is told of before it takes effect, so the state is that before it.
        if method == "handle" and len(self._inputs) - self._saved[-1][0] >= self._every:
            self._save()
        if method == "change_policy":
            self._policies.append((len(self._inputs) + 1, arguments["policy"]))
        self._instants.append(now)
        self._inputs.append((method, arguments))

    def _save(self) -> None:
        self._saved.append((len(self._inputs), zlib.compress(self.service.save(), 1)))
        if len(self._saved) > MOST_SAVED:
            self._saved, self._every = self._saved[::2], 2 * self._every

    def at(self, instant: Micros) -> Service:
        """Return a service as it stood at an instant, once all of that instant had happened; only read it."""
        count = bisect_right(self._instants, instant)
        before, saved = self._saved[bisect_right(self._saved, count, key=lambda pair: pair[0]) - 1]
        if self._at is not None and before <= self._at[0] <= count and self._at[1] <= instant:
            before, _, service = self._at
        else:
            policy = next(each for since, each in reversed(self._policies) if since <= before)
            service = Service.restore(zlib.decompress(saved), policy, pooled=JobKind)
        for number in range(before, count):
            method, arguments = self._inputs[number]
            if method == "written":
                service.written(Reply(0, None, flight=arguments["flight"]), self._instants[number])
            else:
                getattr(service, method)(now=self._instants[number], **arguments)
        service.advance(instant)
        self._at = count, instant, service
        return service


class SimulatedRun:
    """The first replication of a scenario, run to its end. Raises BadInput."""

    def __init__(self, scenario: Scenario, seed: int | None = None) -> None:
        from ranksim.twin.sim.runner import replication_seed
        from ranksim.twin.sim.world import World

        self._scenario = scenario
        with tempfile.TemporaryDirectory(prefix="ranksim-view-") as folder:
            path = Path(folder) / "run.jsonl"
            root = scenario.seed if seed is None else seed
            with TraceWriter(path, started=scenario.start, salt=str(root).encode()) as trace:
                world = World(scenario, seed=replication_seed(root, 0), trace=trace)
                self._history = StateHistory(world.service, scenario.policy)
                world.service = cast(Service, self._history.service)  # it has the same methods
                world.run()
            self._events = TraceEvents(path)

    def overview(self) -> Shown:
        """Return from when to when it goes, what is in it, and that it has states."""
        recorded = self._events.overview()["recording"]
        scope = {"first": self._scenario.start, "last": self._scenario.end, "states": True}
        return {"recording": {**recorded, **scope, "name": self._scenario.name}}

    def until(self, instant: Micros) -> Shown:
        """Return the last events up to an instant, and the state as it stood then."""
        service = self._history.at(max(instant, self._scenario.start))
        state = state_shown(service.state, service.policy, instant, instant)
        return {**self._events.until(instant), "state": state}

    def exchange(self, number: int) -> Shown | None:
        """Return the exchange of an event as the control API shows those of its journal."""
        return self._events.exchange(number)
