"""Removing what runs created, beside any trace: it is not part of what is judged."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.deployment.cleanup import Created, Left, Remains, find_created, remove_created
from ranksim.judge.deployment.discovery import Reach, explore, irremovable
from ranksim.judge.load.driver import drive
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.judge.load.session import Session


def tidy(reach: Reach, created: Created, clock: AnchoredClock, until: Micros) -> list[Left]:
    """Remove what runs created, until an instant of a clock; return what is left, by kind and reason.

    It can be done where no disk has room.
    """
    remains = Remains()
    _perform(remove_created(reach, created, remains), reach.target, clock, until)
    return remains.listed()


def list_created(reach: Reach, created: Created, clock: AnchoredClock, until: Micros) -> list[Left]:
    """Return what there is of what runs created, by kind; nothing is removed."""
    remains = Remains()
    _perform(find_created(reach, created, remains), reach.target, clock, until)
    return remains.listed()


def list_marks(reach: Reach, clock: AnchoredClock, until: Micros) -> Counter[str]:
    """Return the marks that things there carry, and how many things each."""
    remains = Remains()
    _perform(find_created(reach, Created(frozenset()), remains), reach.target, clock, until)
    return remains.others


def explored(target: Target, clock: AnchoredClock, until: Micros) -> Reach:
    """Find out what the keys of a target can do. Raises BadInput where none works."""
    reach: Reach | None = _perform(explore(target), target, clock, until)
    if reach is None or not reach.main:
        reached = {} if reach is None else reach.keys
        reasons = "; ".join(f"{key.name}: {key.reason}" for key in reached.values()) or "no time was left"
        check = "check the address, which is without the /v1, and the keys"
        raise BadInput(f"no key of the target works ({reasons}); {check}")
    return reach


def kept_by(target: Target) -> dict[str, str]:
    """Ask a deployment which operations remove nothing there, and why, before a run."""
    clock = AnchoredClock.here()
    full = [name for name, key in target.keys.items() if key.purpose == "full"]
    asking = irremovable(next(iter(full or target.keys)))
    kept: dict[str, str] = _perform(asking, target, clock, clock.now() + MINUTE) or {}
    return kept


def _perform(program: Generator[Any, Any, Any], target: Target, clock: AnchoredClock, until: Micros) -> Any:
    tokens = [token for name in target.keys if (token := target.token(name))]
    recorder = PartRecorder(Path(os.devnull), part="aside", clock=clock, salt=b"", tokens=tokens)
    session = Session(target, recorder, client="tidy", until=until)
    try:
        return drive(program, session)
    finally:
        session.close()
        recorder.close()
