"""Recorded calls made again: what here stands for the ids and cursors of a recording."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = Any


class IdTranslation:
    """What stands here for each id and cursor of a recording, learnt from what the same calls got here.

    What a recorded call created, the same call creates here under another id.
    """

    def __init__(self) -> None:
        self._here: dict[str, str] = {}
        self._taken: set[str] = set()

    def __contains__(self, there: str) -> bool:
        return there in self._here

    def get(self, there: str) -> str | None:
        """Return what stands here for a recorded id or cursor, or None where nothing is known to."""
        return self._here.get(there)

    def put(self, there: str, here: str) -> None:
        """Note what stands here for a recorded id or cursor from now on."""
        self._here[there] = here
        self._taken.add(here)

    def translated(self, value: Json) -> Json:
        """Return a value with all ids and cursors replaced that are known; others stay as they are."""
        if isinstance(value, str):
            return self._here.get(value, value)
        if isinstance(value, dict):
            return {name: self.translated(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.translated(inner) for inner in value]
        return value

    def reference(self, value: Json) -> Json:
        """Return the id, or ids, of a field as they are here; what was not made here names nothing."""
        if isinstance(value, list):
            return [self.reference(one) if isinstance(one, str) else one for one in value]
        return self._here.get(value, f"unmade_{value}") if isinstance(value, str) else value

    def learn_created(self, there: Iterable[tuple[str, str]], here: Iterable[tuple[str, str]]) -> None:
        """Pair what one call created there and here, as (id, label), by their labels, such as keywords."""
        own = {label: which for which, label in here}
        for which, label in there:
            if label in own:
                self.put(which, own[label])

    def learn_replies(self, there: Json, here: Json) -> None:
        """Pair the ids and cursors of two replies to one call, side by side; a pair once made stays.

        What was there before the recording is paired as lists show it: the first unknown thing of the one
        with the first unpaired of the other.
        """
        if isinstance(there, list) and isinstance(here, list):
            for old, new in zip(self._unknown(there), self._unpaired(here), strict=False):
                self.learn_replies(old, new)
        elif isinstance(there, dict) and isinstance(here, dict):
            for name, old in there.items():
                new = here.get(name)
                if name in ("id", "next_cursor") and isinstance(old, str) and isinstance(new, str):
                    if old not in self._here and new not in self._taken:
                        self.put(old, new)
                else:
                    self.learn_replies(old, new)

    def _unknown(self, things: list[Json]) -> list[Json]:
        return [one for one in things if not (isinstance(one, dict) and one.get("id") in self._here)]

    def _unpaired(self, things: list[Json]) -> list[Json]:
        return [one for one in things if not (isinstance(one, dict) and one.get("id") in self._taken)]
