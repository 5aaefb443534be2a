"""What a check measured beside a twin of the accounts, made by reading before, that got the same calls."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from ranksim.bridges.twin_files import write
from ranksim.core.clock import MINUTE
from ranksim.core.trace_writer import TraceWriter
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import read
from ranksim.judge.conformance.report.model_fit import Compared, against
from ranksim.judge.mirror.world import MirroredWorld, replay
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario

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
    world = Scenario.load(folder / "world.yaml")
    with tempfile.TemporaryDirectory(prefix="ranksim-twin-") as aside:
        with TraceWriter(Path(aside) / "trace.jsonl", started=world.start) as writer:
            result = run(world, trace=writer)
        simulated = read(Path(aside) / "trace.jsonl")
        return against(history, json.loads(result.to_json()), simulated)
