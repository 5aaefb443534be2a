"""What a run makes and nobody can remove again, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ranksim.judge.deployment.discovery import REMOVALS


def staying(lacks: Mapping[str, str]) -> list[str]:
    """Say which kinds of things a deployment does not remove, so that what is made of them stays."""
    nouns = defaultdict[str, list[str]](list)
    for operation in REMOVALS:
        if operation in lacks:
            nouns[lacks[operation]].append(operation.partition(".")[0].replace("_", " "))
    kinds = "; ".join(f"{', '.join(names)} ({why})" for why, names in nouns.items())
    return (
        [f"cannot be removed again there: {kinds}; what is made of them stays, with its mark"]
        if kinds
        else []
    )
