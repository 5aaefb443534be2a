"""What runs created: by what was recorded of their calls, or by its marks; what is left, and removing it.

Removing goes beside any trace: it is not part of what is judged.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE, Micros
from ranksim.core.errors import BadInput
from ranksim.core.records import parsed_object, read_lines
from ranksim.judge.deployment.cleanup import KINDS, MARK, Created, Left, Remains, find_created, remove_created
from ranksim.judge.deployment.discovery import REMOVALS, Reach, explore, irremovable
from ranksim.judge.load.driver import drive
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.judge.load.session import Session
from ranksim.report import units

NOT_REMOVED = "it was not removed"

Line = Mapping[str, Any]

_Made = dict[tuple[str, str], tuple[str, str]]
"""Noun and id of what was made, to its key and domain."""


# By what was recorded


def left_over(lines: Iterable[Line]) -> list[Left]:
    """Return what calls of a trace made and no later call removed, by kind.

    What belongs to a domain goes with it, and keywords with their list. A call without a reply may have made
    something that has no id here.
    """
    made: _Made = {}
    unseen: Counter[tuple[str, str]] = Counter()
    for line in lines:
        noun, action = _operation(line)
        key, status = str(line.get("api_key")), line.get("status")
        if action == "create" and status is None:
            unseen[noun, key] += line.get("effect") != "none"
        elif action == "create" and status is not None and 200 <= status <= 299:
            thing = (parsed_object(str(line.get("response"))) or {}).get("data")
            if isinstance(thing, dict) and "id" in thing:
                made[noun, str(thing["id"])] = key, str(thing.get("domain_id"))
        elif action == "delete" and status is not None and (status < 300 or status in (404, 410)):
            made = _without(made, noun, str(line["path"]).rpartition("/")[2])
    return _grouped(made, unseen)


def _grouped(made: _Made, unseen: Counter[tuple[str, str]]) -> list[Left]:
    """Group what was made by kind and key, with what may have been made by calls without a reply."""
    groups = defaultdict[tuple[str, str], list[str]](list)
    for (noun, item), (key, _) in made.items():
        groups[noun, key].append(item)
    left = [Left(noun, key, NOT_REMOVED, tuple(ids)) for (noun, key), ids in groups.items()]
    for (noun, key), calls in unseen.items():
        if calls:
            left.append(Left(noun, key, f"{units.many(calls, 'call')} without a reply may have made some"))
    return sorted(left, key=lambda item: KINDS.index(item.kind))


def _without(made: _Made, noun: str, item: str) -> _Made:
    """Take off what was removed, and what went with it if it was a domain."""
    made.pop((noun, item), None)
    if noun != "domains":
        return made
    return {thing: maker for thing, maker in made.items() if maker[1] != item}


def created_in(lines: Iterable[Line]) -> Created:
    """Return the marks of what recorded calls created, and the URLs of their webhook endpoints.

    They are those of what was asked for: what a deployment answers may hold anything.
    """
    marks, urls = set[str](), set[str]()
    for line in lines:
        noun, action = _operation(line)
        text = line.get("body")
        if action != "create" or not isinstance(text, str):
            continue
        marks.update(MARK.findall(text))
        url = (parsed_object(text) or {}).get("url")
        if noun == "webhooks" and isinstance(url, str) and url:
            urls.add(url)
    return Created(frozenset(marks), tuple(sorted(urls)))


def recorded_lines(directory: Path) -> Iterator[Line]:
    """Return the lines that a run left in a directory: of its trace, or of its parts where it wrote none.

    Raises BadInput where there are none.
    """
    parts = sorted(directory.glob("trace*.jsonl*")) or sorted(directory.glob(".parts-*/part-*.jsonl"))
    if not parts:
        raise BadInput(f"{directory}: expected a directory with the trace of a check or a load, found none")
    for path in parts:
        for line in read_lines(path):
            yield parsed_object(line) or {}


def _operation(line: Line) -> tuple[str, str]:
    """Return noun and verb of the only operation of an exchange about what runs create, else ""."""
    operations = line.get("operations") or [""]
    noun, _, action = str(operations[0]).partition(".")
    return (noun, action) if line.get("kind") == "exchange" and noun in KINDS else ("", "")


# By their marks


def tidy(
    reach: Reach, created: Created, clock: AnchoredClock, until: Micros, *, removing: bool = True
) -> Remains:
    """Remove what runs created, or only look for it, until an instant of a clock; return what is left.

    It can be done where no disk has room. Where runs only read, nothing is looked for.
    """
    remains = Remains()
    if reach.target.read_only:
        return remains
    program = remove_created if removing else find_created
    _perform(program(reach, created, remains), reach.target, clock, until)
    return remains


def explored(target: Target, clock: AnchoredClock, until: Micros) -> Reach:
    """Find out what the keys of a target can do. Raises BadInput where none works."""
    reach: Reach | None = _perform(explore(target), target, clock, until)
    return working(Reach(target) if reach is None else reach)


def working(reach: Reach) -> Reach:
    """Return what was found out of a target, if any of its keys works. Raises BadInput."""
    if not reach.main:
        reasons = "; ".join(f"{key.name}: {key.reason}" for key in reach.keys.values())
        check = "check the address, which is without the /v1, and the keys"
        raise BadInput(f"no key of the target works ({reasons or 'no time was left'}); {check}")
    return reach


def kept_by(target: Target) -> dict[str, str]:
    """Ask a deployment which operations remove nothing there, and why, before a run."""
    clock = AnchoredClock.here()
    full = [name for name, key in target.keys.items() if key.purpose == "full"]
    asking = irremovable(next(iter(full or target.keys)))
    kept: dict[str, str] = _perform(asking, target, clock, clock.now() + MINUTE) or {}
    return kept


def staying(lacks: Mapping[str, str]) -> list[str]:
    """Say which kinds of things a deployment does not remove, so that what is made of them stays."""
    nouns = defaultdict[str, list[str]](list)
    for operation in REMOVALS:
        if operation in lacks:
            nouns[lacks[operation]].append(operation.partition(".")[0].replace("_", " "))
    if not nouns:
        return []
    kinds = "; ".join(f"{', '.join(names)} ({why})" for why, names in nouns.items())
    return [f"cannot be removed again there: {kinds}; what is made of them stays, with its mark"]


def _perform(program: Generator[Any, Any, Any], target: Target, clock: AnchoredClock, until: Micros) -> Any:
    tokens = [token for name in target.keys if (token := target.token(name))]
    recorder = PartRecorder(Path(os.devnull), part="aside", clock=clock, salt=b"", tokens=tokens)
    session = Session(target, recorder, client="tidy", until=until)
    try:
        return drive(program, session)
    finally:
        session.close()
        recorder.close()
