"""What runs created and nobody removed, in lines: by kind and reason, with a few of the ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ranksim.report import units

SHOWN = 3
"""So many ids are shown of each group."""


def left_lines(groups: Sequence[Mapping[str, Any]], most: int = SHOWN) -> list[str]:
    """Return a line for each group: its `kind`, the `key` that sees it, `why` it is left, and its `ids`."""
    lines = []
    for group in groups:
        kind, ids = str(group["kind"]).replace("_", " "), group["ids"]
        where = f"with the key {group['key']}"
        if not ids:
            lines.append(f"{kind} {where} may be left: {group['why']}")
            continue
        named = ", ".join(ids[:most]) + (
            f" and {units.count(len(ids) - most)} more" if len(ids) > most else ""
        )
        lines.append(f"{units.many(len(ids), kind.removesuffix('s'))} {where}: {group['why']} ({named})")
    return lines
