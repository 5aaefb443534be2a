"""The files of a twin of an account: a scenario, its policy and catalogue, and a state to be served."""

from __future__ import annotations

from pathlib import Path

from ranksim.core.contract.yamlfile import write_yaml
from ranksim.core.editors import copy_schemas, schema_line
from ranksim.core.files import Contents, new_directory, write_text
from ranksim.judge.mirror.world import MirroredWorld
from ranksim.twin.sim.scenario import Scenario

STATE = "world.db"
"""The file from which the twin is served."""


def write_twin(twin: MirroredWorld, out: Path) -> None:
    """Write a twin's files into a directory, instead of an earlier twin's: world.yaml, policy.yaml,
    catalogue.yaml; to be served, where what serves is installed, world.db and target.yaml. Raises BadInput.
    """
    with new_directory(out, FILES) as folder:
        texts = {
            "catalogue.yaml": schema_line("catalogue") + write_yaml(twin.catalogue),
            "policy.yaml": schema_line("policy") + write_yaml(twin.policy),
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
