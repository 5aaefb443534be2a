"""How a fake begins that a scenario describes, for tests and for `ranksim serve`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranksim.core.clock import Micros
    from ranksim.core.contract.policy import Policy
    from ranksim.twin.sim.scenario import Scenario
    from ranksim.twin.sim.served import ScenarioOrigin


DEMO = files("ranksim") / "data" / "demo.yaml"
"""Ninety days of an agency."""

POLICY_PARTS = ("policy", "assumptions", "catalogue")
"""Where a scenario says its policy."""


def beginning_of(
    world: Scenario | Path | str | None,
    until: Micros | None = None,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return the settings of a `Twin` that begins as a scenario, or its file, does; None: as the demo.

    With `until` (µs) it is simulated to that instant first: clients, jobs, deliveries. Its timeline goes on
    from there. What does not act while it is served is told to `tell`. Raises BadInput.
    """
    from ranksim.twin.sim.scenario import Scenario, scenario_of  # simulations take time to read
    from ranksim.twin.sim.served import ScenarioOrigin

    scenario = Scenario.parse(DEMO.read_text("utf-8"), "demo") if world is None else scenario_of(world)
    if world is None:
        until = scenario.end
    if tell is not None and scenario.clients and until is None:
        tell(f"{scenario.name}: its clients do not act while it is served; --until simulates them first")
    origin = ScenarioOrigin(scenario, until)
    return {"policy": origin.policy, "origin": origin}


def origin_of(source: tuple[str, Micros | None], policy: Policy | None) -> ScenarioOrigin:
    """Read how a world begins from the text of a scenario, YAML or JSON, and up to when it is simulated.

    One that says no policy is of the policy passed. It names no files. Raises BadInput.
    """
    from ranksim.core.contract.yamlfile import load_yaml
    from ranksim.twin.sim.scenario import Scenario
    from ranksim.twin.sim.served import ScenarioOrigin

    text, until = source
    located = load_yaml(text, "scenario")
    parts = located.data if isinstance(located.data, dict) else {}
    stated = parts.get("policy")
    within = {("policy", "catalogue"): stated.get("catalogue")} if isinstance(stated, dict) else {}
    for path, value in ({(part,): parts.get(part) for part in POLICY_PARTS} | within).items():
        if isinstance(value, str):
            raise located.error("expected what the file says, as no files are read here", *path)
    scenario = Scenario.read(located)
    if policy is not None and not any(part in parts for part in POLICY_PARTS):
        scenario = scenario.model_copy(update={"policy": policy})
        scenario.check()
    return ScenarioOrigin(scenario, until)
