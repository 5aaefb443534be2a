"""How a fake begins that a scenario describes, for tests and for `ranksim serve`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import Micros

if TYPE_CHECKING:
    from ranksim.twin.sim.scenario import Scenario


DEMO = files("ranksim") / "data" / "demo.yaml"
"""Ninety days of an agency."""


def beginning_of(
    world: Scenario | Path | str | None,
    until: Micros | None = None,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return the settings of a `Twin` that begins as a scenario, or its file, does; None: as the demo.

    With `until` (µs) it is service_at to that instant first: clients, jobs, deliveries. What a worker pool
    had taken in is run by the fake from then on. What does not act while it is served is told to `tell`.
    Raises BadInput.
    """
    from ranksim.core.service.service import Service
    from ranksim.twin.sim.opening import service_at, service_at_start  # simulations take time to read
    from ranksim.twin.sim.scenario import Scenario, scenario_of

    scenario = Scenario.parse(DEMO.read_text("utf-8"), "demo") if world is None else scenario_of(world)
    if world is None:
        until = scenario.end
    _tell_idle(scenario, until, tell)
    if until is None:
        beginning = {
            "policy": scenario.policy,
            "start": scenario.start,
            "begin": partial(service_at_start, scenario),
        }
        return {**beginning, "seed": scenario.seed}
    service, keys = service_at(scenario, until)
    saved, policy = service.save(), service.policy
    return {
        "policy": policy,
        "start": until,
        "seed": scenario.seed,
        "begin": lambda: (Service.restore(saved, policy), dict(keys)),
    }


def _tell_idle(scenario: Scenario, until: Micros | None, tell: Callable[[str], None] | None) -> None:
    """Say which parts of a scenario do not act while it is served, if any."""
    parts = [name for name in ("clients", "timeline") if getattr(scenario, name)]
    if tell is not None and parts and until is None:
        what = " and ".join(parts)
        tell(f"{scenario.name}: its {what} do not act while it is served; --until simulates them first")
