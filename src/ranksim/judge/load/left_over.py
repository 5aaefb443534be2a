"""What a run created, by what was recorded of its calls: its marks, and what nobody removed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ranksim.core.errors import BadInput
from ranksim.core.records import read_lines
from ranksim.judge.deployment.cleanup import KINDS, MARK, Created, Left
from ranksim.report import units

NOT_REMOVED = "it was not removed"

Line = Mapping[str, Any]


def left_over(lines: Iterable[Line]) -> list[Left]:
    """Return what calls of a trace made and no later call removed, by kind.

    What belongs to a domain goes with it, and keywords with their list. A call without a reply may have made
    something that has no id here.
    """
    made: dict[tuple[str, str], tuple[str, str]] = {}
    unseen: Counter[tuple[str, str]] = Counter()
    for line in lines:
        noun, done = _operation(line)
        if noun not in KINDS:
            continue
        key, status = str(line.get("api_key")), line.get("status")
        if done == "create" and status is None:
            unseen[noun, key] += line.get("effect") != "none"
        elif done == "create" and status is not None and 200 <= status <= 299:
            thing = _data(line.get("response"))
            if thing is not None:
                made[noun, str(thing.get("id"))] = key, str(thing.get("domain_id"))
        elif done == "delete" and status is not None and (status < 300 or status in (404, 410)):
            removed = str(line["path"]).rpartition("/")[2]
            made.pop((noun, removed), None)
            if noun == "domains":
                made = {thing: maker for thing, maker in made.items() if maker[1] != removed}
    groups: dict[tuple[str, str], list[str]] = {}
    for (noun, item), (key, _) in made.items():
        groups.setdefault((noun, key), []).append(item)
    left = [Left(noun, key, NOT_REMOVED, tuple(ids)) for (noun, key), ids in groups.items()]
    for (noun, key), calls in unseen.items():
        if calls:
            left.append(Left(noun, key, f"{units.many(calls, 'call')} without a reply may have made some"))
    return sorted(left, key=lambda item: KINDS.index(item.kind))


def created_in(lines: Iterable[Line]) -> Created:
    """Return the marks of what recorded calls created, and the URLs of their webhook endpoints.

    They are those of what was asked for: what a deployment answers may hold anything.
    """
    marks, urls = set[str](), set[str]()
    for line in lines:
        noun, done = _operation(line)
        text = line.get("body")
        if noun not in KINDS or done != "create" or not isinstance(text, str):
            continue
        marks.update(MARK.findall(text))
        body = _object(text)
        if noun == "webhooks" and isinstance(url := body.get("url"), str) and url:
            urls.add(url)
    return Created(frozenset(marks), tuple(sorted(urls)))


def recorded(directory: Path) -> Iterator[Line]:
    """Return the lines that a run left in a directory: of its trace, or of its parts where it wrote none.

    Raises BadInput where there are none.
    """
    parts = sorted(directory.glob("trace*.jsonl*")) or sorted(directory.glob(".parts-*/part-*.jsonl"))
    if not parts:
        raise BadInput(f"{directory}: expected a directory with the trace of a check or a load, found none")
    for path in parts:
        for line in read_lines(path):
            yield _object(line)


def _operation(line: Line) -> tuple[str, str]:
    """Return noun and verb of the only operation of an exchange, "" for anything else."""
    operations = line.get("operations") or [""]
    noun, _, done = str(operations[0]).partition(".")
    return (noun, done) if line.get("kind") == "exchange" else ("", "")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _data(text: object) -> Mapping[str, Any] | None:
    """Return what a creation was answered with; None where that shows no thing."""
    data = _object(str(text)).get("data")
    return data if isinstance(data, dict) and "id" in data else None
