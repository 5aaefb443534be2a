"""A deployment read over HTTP, and the twin's files written."""

from __future__ import annotations

import io
import secrets
import tempfile
from pathlib import Path
from typing import Any

from ranksim.callers.target import Target
from ranksim.editors import copy_schemas, schema_line
from ranksim.errors import BadInput
from ranksim.files import new_directory
from ranksim.load.driver import drive
from ranksim.load.recorder import AnchoredClock, PartRecorder
from ranksim.load.session import Session
from ranksim.mirror.reading import Reading, read
from ranksim.mirror.world import MirroredWorld, world_of
from ranksim.sim.scenario import Scenario

STATE = "world.db"
"""The file from which the twin is served."""

PATIENCE = 30.0
"""Seconds to wait for a reply."""


def mirrored(target: Target) -> MirroredWorld:
    """Read a deployment and make a twin of it. Raises BadInput where no key tells of an account."""
    clock = AnchoredClock.here()
    with tempfile.TemporaryDirectory(prefix="ranksim-mirror-") as folder:
        tokens = [token for name in target.keys if (token := target.token(name))]
        path = Path(folder) / "read.jsonl"
        recorder = PartRecorder(path, part="0", clock=clock, salt=secrets.token_bytes(16), tokens=tokens)
        session = Session(target, recorder, client="mirror", timeout=PATIENCE)
        try:
            found: Reading = drive(read(target), session)
        finally:
            session.close()
            recorder.close()
    if not found.accounts:
        raise BadInput(
            f"mirror: no key of the target tells of its account (tried {', '.join(found.unknown)}); check "
            "the address, which is without the /v1, and give a key that is not bound to a domain"
        )
    now = clock.now() if found.date is None else found.date
    return world_of(found, next(iter(target.environments.values())), now)


def write(twin: MirroredWorld, out: Path) -> None:
    """Write a twin's files into a new directory: world.yaml, policy.yaml, catalogue.yaml; to be served, where
    what serves is installed, world.db and target.yaml. Raises BadInput.
    """
    with new_directory(out) as folder:
        heading = "".join(f"# {note}\n" for note in twin.notes)
        policy = {"name": "twin", "catalogue": "catalogue.yaml"}
        texts = {
            "catalogue.yaml": schema_line("catalogue") + _yaml(twin.catalogue),
            "policy.yaml": schema_line("policy") + _yaml(policy),
            "world.yaml": schema_line("scenario") + heading + _yaml(twin.scenario),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        try:
            from ranksim.mirror.served import write_state
        except ModuleNotFoundError:  # without the extra nothing is served
            pass
        else:
            keys = write_state(Scenario.load(folder / "world.yaml"), folder / STATE)
            (folder / "target.yaml").write_text(schema_line("target") + _yaml(keys), encoding="utf-8")
        copy_schemas(folder, ("catalogue", "policy", "scenario", "target"))


def _yaml(data: dict[str, Any]) -> str:
    from ruamel.yaml import YAML

    stream = io.StringIO()
    writer = YAML(typ="rt", pure=True)
    writer.dump(data, stream)
    return stream.getvalue()
