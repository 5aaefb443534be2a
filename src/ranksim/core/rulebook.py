"""Which version of the rules this is: a digest of their sources, to which files are bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

RULEBOOK = ("core/clock.py", "core/draws.py", "core/contract", "core/rules", "core/service")
"""What decides how inputs lead from state to state; a file is bound to these sources."""


def rulebook_digest(parts: Sequence[str] = RULEBOOK) -> str:
    """Return what tells one version of the rules from another: a digest of the sources of these parts."""
    digest = sha256()
    for part in parts:
        for name, source in sorted(_sources(files("ranksim").joinpath(part), part)):
            digest.update(f"{name} {len(source)}\n".encode())
            digest.update(source)
    return digest.hexdigest()


def _sources(place: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    if place.is_dir():
        for inner in place.iterdir():
            yield from _sources(inner, f"{name}/{inner.name}")
    elif name.endswith(".py"):
        yield name, place.read_bytes()
