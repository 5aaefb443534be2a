"""What a run created and nobody removed, by what was recorded of its calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

REMOVED = ("domains", "webhooks", "scans", "keyword_lists")
"""Nouns of what is removed in the end; the rest goes with its domain."""


def left_over(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return in words what calls of a trace made and no later call removed.

    What belongs to a domain goes with it. A call without a reply may have made something that has no id here.
    """
    made: dict[tuple[str, str], tuple[str, str]] = {}
    unseen = 0
    for line in lines:
        operations = line.get("operations") or []
        noun, _, done = str(operations[0] if operations else "").partition(".")
        if line.get("kind") != "exchange" or noun not in REMOVED:
            continue
        key, status = str(line.get("api_key")), line.get("status")
        if done == "create" and status is None:
            unseen += line.get("effect") != "none"
        elif done == "create" and status is not None and 200 <= status <= 299:
            thing = _data(line.get("response"))
            if thing is not None:
                made[noun, str(thing.get("id"))] = key, str(thing.get("domain_id"))
        elif done == "delete" and status is not None and (status < 300 or status in (404, 410)):
            gone = str(line["path"]).rpartition("/")[2]
            made.pop((noun, gone), None)
            if noun == "domains":
                made = {thing: told for thing, told in made.items() if told[1] != gone}
    said = [f"{noun} {which} with the key {key}" for (noun, which), (key, _) in made.items()]
    if unseen:
        said.append(f"what {unseen} calls made, if anything, whose replies were not seen")
    return said


def _data(text: object) -> Mapping[str, Any] | None:
    """Return what a creation was answered with; None where that shows no thing."""
    try:
        reply = json.loads(str(text))
    except ValueError:
        return None
    data = reply.get("data") if isinstance(reply, dict) else None
    return data if isinstance(data, dict) and "id" in data else None
