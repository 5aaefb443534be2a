"""Schemas beside YAML files, so that editors complete and check them; the package ships one for each kind."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

FOLDER = "schemas"


def schema_line(kind: str) -> str:
    """Return the first line of a YAML file of a kind, which has its schema in a folder beside it."""
    return f"# yaml-language-server: $schema={FOLDER}/{kind}.json\n"


def copy_schemas(folder: Path, kinds: Iterable[str]) -> None:
    """Write the schemas of some kinds of file into the folder beside files of theirs."""
    there = folder / FOLDER
    there.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        text = (files("ranksim") / "data" / FOLDER / f"{kind}.json").read_text(encoding="utf-8")
        (there / f"{kind}.json").write_text(text, encoding="utf-8")
