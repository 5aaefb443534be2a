"""The files of a twin of an account: a scenario, its policy and catalogue, and a state to be served.

What a check measured is set beside a twin of the accounts, made by reading before, that got the same calls.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ranksim.core.clock import MINUTE
from ranksim.core.contract.yamlfile import write_yaml
from ranksim.core.editors import copy_schemas, schema_line
from ranksim.core.files import Contents, new_directory, write_text
from ranksim.core.trace_writer import TraceWriter
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.mirror.world import MirroredWorld, replay_trace
from ranksim.twin.sim.scenario import Scenario

if TYPE_CHECKING:
    from ranksim.judge.conformance.report.model_fit import Compared

STATE = "world.db"
"""The file from which the twin is served."""


def write_twin(twin: MirroredWorld, out: Path) -> None:
    """Write a twin's files into a directory, instead of an earlier twin's: world.yaml, policy.yaml,
    catalogue.yaml; to be served, where what serves is installed, world.db and target.yaml. Raises BadInput.
    """
    with new_directory(out, FILES) as folder:
        policy = {"name": "twin", "catalogue": "catalogue.yaml"}
        texts = {
            "catalogue.yaml": schema_line("catalogue") + write_yaml(twin.catalogue),
            "policy.yaml": schema_line("policy") + write_yaml(policy),
            "world.yaml": schema_line("scenario") + write_yaml(twin.scenario, twin.notes),
        }
        for name, text in texts.items():
            write_text(folder / name, text)
        try:
            from ranksim.bridges.twin_state import write_state
        except ModuleNotFoundError:  # without the extra nothing is served
            pass
        else:
            keys = write_state(Scenario.load(folder / "world.yaml"), folder / STATE)
            write_text(folder / "target.yaml", schema_line("target") + write_yaml(keys))
        copy_schemas(folder, ("catalogue", "policy", "scenario", "target"))


def _is_twin(directory: Path) -> bool:
    try:
        return CATALOGUE_NAME in (directory / "catalogue.yaml").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False


CATALOGUE_NAME = "name: mirror"
"""The line of its catalogue by which a twin is known."""

FILES = Contents(
    frozenset({"world.yaml", "policy.yaml", "catalogue.yaml", "target.yaml", "schemas", STATE}), _is_twin
)
"""What a twin's directory has."""

TWIN = "twin"
"""The directory of the twin's files, beside the trace."""


def beside_twin(twin: MirroredWorld, trace: Path, history: History) -> list[Compared]:
    """Write the twin beside a trace, let it get the same calls, and set what was measured beside it.

    Raises BadInput.
    """
    from ranksim.judge.conformance.report.model_fit import against
    from ranksim.twin.sim.runner import run

    began = history.run.began
    length = history.run.ended - began if began is not None else 0
    replay_trace(twin, f"../{trace.name}", length + MINUTE)
    folder = trace.parent / TWIN
    write_twin(twin, folder)
    world = Scenario.load(folder / "world.yaml")
    with tempfile.TemporaryDirectory(prefix="ranksim-twin-") as aside:
        with TraceWriter(Path(aside) / "trace.jsonl", started=world.start) as writer:
            result = run(world, trace=writer)
        simulated = read_history(Path(aside) / "trace.jsonl")
        return against(history, json.loads(result.to_json()), simulated)
