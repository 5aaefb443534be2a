"""A deployment read over HTTP, and the twin's files written."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from ranksim.callers.target import Target
from ranksim.clock import MINUTE, SECOND, Micros
from ranksim.contract.yamlfile import write_yaml
from ranksim.editors import copy_schemas, schema_line
from ranksim.errors import BadInput
from ranksim.files import Contents, new_directory, write_text
from ranksim.load.driver import drive
from ranksim.load.recorder import AnchoredClock, PartRecorder
from ranksim.load.session import Session
from ranksim.mirror.reading import Reading, read
from ranksim.mirror.world import MirroredWorld, world_of
from ranksim.report import units
from ranksim.sim.scenario import Scenario

STATE = "world.db"
"""The file from which the twin is served."""

PATIENCE = 30.0
"""Seconds that a call may take, to the last byte of its reply."""

READING: Micros = 10 * MINUTE
"""How long reading may take in all."""


def mirrored(target: Target, within: Micros | None = None) -> MirroredWorld:
    """Read a deployment within a time (µs), `READING` without, and make a twin of it.

    Raises BadInput where no key tells of an account, or there was not the time.
    """
    within = READING if within is None else within
    clock = AnchoredClock.here()
    with tempfile.TemporaryDirectory(prefix="ranksim-mirror-") as folder:
        tokens = [token for name in target.keys if (token := target.token(name))]
        path = Path(folder) / "read.jsonl"
        recorder = PartRecorder(path, part="0", clock=clock, salt=secrets.token_bytes(16), tokens=tokens)
        until = clock.now() + within
        session = Session(target, recorder, client="mirror", timeout=PATIENCE, until=until)
        try:
            found: Reading | None = drive(read(target), session)
        finally:
            session.close()
            recorder.close()
    if found is None:
        raise BadInput(
            f"mirror: the deployment could not be read within {units.duration(within)}; see why it answers "
            "so slowly"
        )
    if not found.accounts:
        tried = "; ".join(f"{name}: {why}" for name, why in found.unknown.items())
        raise BadInput(
            f"mirror: no key of the target tells of its account ({tried}); check the address, which is "
            "without the /v1, and give a key that is not bound to a domain"
        )
    now = clock.now() if found.date is None else found.date + SECOND  # a Date has no fraction (RFC 9110)
    return world_of(found, next(iter(target.environments.values())), now)


def write(twin: MirroredWorld, out: Path) -> None:
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
            from ranksim.mirror.served import write_state
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
