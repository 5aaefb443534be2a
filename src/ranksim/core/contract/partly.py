"""What is right of a file that has mistakes, read for what can still be said of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from ranksim.core.contract.located import Located, Part, known_path, near_fields, sentences, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ranksim.core.contract.located import ModelT

Path: TypeAlias = tuple[Part, ...]


ANY = "*"
"""The name in a path that stands for every name."""


class Misfit(NamedTuple):
    """What no model sees: parts of a file that do not fit together; `rests_on` are those that say so."""

    path: Path
    message: str
    rests_on: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The parts of a located value that are left out of what is read, by their paths."""

    data: Any
    paths: frozenset[Path] = frozenset()

    def more(self, paths: Iterable[Path]) -> LeftOut:
        """The same, with further parts left out."""
        return LeftOut(self.data, self.paths.union(paths))

    def kept(self, stand_ins: Mapping[Path, Any]) -> Any:
        """What is left of the data, with what stands for what is not."""
        kept = _kept(self.data, (), self.paths)
        for path in sorted(self.paths, key=len):
            standing = stand_ins.get(path, stand_ins.get((*path[:-1], ANY)))
            above = kept
            for part in path[:-1]:
                above = above.get(part) if isinstance(above, dict) else None
            if standing is not None and isinstance(above, dict):
                above[path[-1]] = standing
        return kept

    def written(self, path: Path) -> Path:
        """Where something stands in the data whose path in what is left is given: lists there are longer."""
        at: Path = ()
        for part in path:
            if isinstance(part, int):
                part = [i for i in range(part + len(self.paths) + 1) if (*at, i) not in self.paths][part]
            at = (*at, part)
        return at

    def concerns(self, path: Path) -> bool:
        """Whether something at this path, or in it, or what it is in, was left out."""
        return any(out[: len(path)] == path[: len(out)] for out in self.paths)


NOTHING = LeftOut(None)


def read_partly(
    model: type[ModelT], located: Located, stand_ins: Mapping[Path, Any] | None = None
) -> tuple[ModelT | None, list[str], LeftOut]:
    """The model that a located value describes, its mistakes, and what was left out for them.

    What is wrong is left out, and what cannot do without that; where it is the whole, there is no model.
    `stand_ins` are values by path, with ANY for each name: they stand for what is left out there, so that the
    rest is read still.
    """
    stand_ins = stand_ins or {}
    mistakes: list[str] = []
    out = LeftOut(located.data)
    before = None
    while () not in out.paths and out != before:
        before = out
        rest = Located(located.where, out.kept(stand_ins), located.lines, located.path)
        try:
            return model.model_validate_json(json.dumps(rest.data)), mistakes, out
        except ValidationError as error:
            mistakes = mistakes or sentences(model, error, located)
            wrong: set[Path] = set()
            for details in error.errors():
                path = known_path(details, rest)
                wrong.add(path[:-1] if details["type"] == "missing" and path not in stand_ins else path)
                if details["type"] == "extra_forbidden":
                    wrong |= {(*path[:-1], meant) for meant in near_fields(model, details["loc"])}
            out = out.more(out.written(path) for path in wrong)
    return None, mistakes, out


def refuse_mistakes(
    misfits: Iterable[Misfit], located: Located, mistakes: Sequence[str] = (), left_out: LeftOut = NOTHING
) -> None:
    """Raise BadInput with mistakes, and the misfits that rest on nothing left out, a line each, if any."""
    placed = [(left_out.written(misfit.path), misfit) for misfit in misfits]
    sentences = [
        str(located.error(misfit.message, *path))
        for path, misfit in placed
        if not any(map(left_out.concerns, (path, *misfit.rests_on)))
    ]
    if mistakes or sentences:
        raise together([*mistakes, *sentences])


def _kept(value: Any, at: Path, out: frozenset[Path]) -> Any:
    if isinstance(value, dict):
        return {name: _kept(part, (*at, name), out) for name, part in value.items() if (*at, name) not in out}
    if isinstance(value, list):
        return [_kept(part, (*at, i), out) for i, part in enumerate(value) if (*at, i) not in out]
    return value
