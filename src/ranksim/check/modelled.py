"""What a check measured beside a twin of the accounts, made by reading before, that got the same calls."""

from __future__ import annotations

import json
from pathlib import Path

from ranksim.clock import MINUTE
from ranksim.conformance.history.history import History
from ranksim.conformance.report.model_fit import Compared, against
from ranksim.mirror.mirror import write
from ranksim.mirror.world import MirroredWorld, replay
from ranksim.sim.runner import run
from ranksim.sim.scenario import Scenario

TWIN = "twin"
"""The directory of the twin's files, beside the trace."""


def beside_twin(twin: MirroredWorld, trace: Path, history: History) -> list[Compared]:
    """Write the twin beside a trace, let it get the same calls, and set what was measured beside it.

    Raises BadInput.
    """
    began = history.run.began
    length = history.run.ended - began if began is not None else 0
    replay(twin, f"../{trace.name}", length + MINUTE)
    folder = trace.parent / TWIN
    write(twin, folder)
    result = run(Scenario.load(folder / "world.yaml"), replications=1)
    return against(history, json.loads(result.to_json()))
