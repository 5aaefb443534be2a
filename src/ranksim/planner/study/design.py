"""The points of a study: what each sets, what it is called, and whether its input fits together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import Any

from ranksim.core.contract.parameters import Settings
from ranksim.core.errors import BadInput, listed
from ranksim.planner.study.engines import Engine
from ranksim.planner.study.spec import CheckedSpec, Spec


@dataclass(frozen=True, slots=True)
class Point:
    """One input to observe: its settings, and what was built of them, or the `problem` with them.

    `key` is the digest of what the input means: points that mean the same are one. `variant` and `levels` say
    where it stands in the design.
    """

    label: str
    settings: Mapping[str, Any]
    key: str
    built: Any
    problem: str = ""
    variant: str = ""
    levels: tuple[Any, ...] = ()


def points(study: CheckedSpec) -> list[Point]:
    """Return the points of the design, in order. Raises BadInput for a value that no point can use."""
    spec = study.spec
    if not spec.has_design:
        return []
    design_points = [
        point(study, settings, label, variant, levels)
        for variant, levels, label, settings in _combinations(spec)
    ]
    _blame(study, design_points)
    return design_points


def _blame(study: CheckedSpec, design_points: list[Point]) -> None:
    """Raise BadInput for a value that no point can use; of several the one that a problem names."""
    useless = []
    for where, path, value in _values(study.spec):
        holding = [candidate for candidate in design_points if candidate.settings.get(path) == value]
        if holding and all(candidate.problem for candidate in holding):
            useless.append((where, path.partition(".")[2], holding[0].problem))
    if useless:
        where, _, problem = next(
            (candidate for candidate in useless if candidate[1] in candidate[2]), useless[0]
        )
        raise study.located.error(problem, *where)


def point(
    study: CheckedSpec,
    settings: Mapping[str, Any],
    label: str,
    variant: str = "",
    levels: tuple[Any, ...] = (),
) -> Point:
    """Build one point of a study, on top of what the study changes everywhere."""
    all_settings = {**study.spec.change, **settings}
    try:
        built = study.engine.build(all_settings)
        key = key_of(study.engine, built)
    except BadInput as error:
        return Point(label, all_settings, "", None, str(error).removeprefix("replace: "), variant, levels)
    return Point(label, all_settings, key, built, "", variant, levels)


def key_of(engine: Engine, built: Any) -> str:
    """The digest of what an input means."""
    return sha256(f"{engine.name} {engine.meaning(built)}".encode()).hexdigest()[:16]


def baseline(spec: Spec, design: list[Point], of: Point) -> Point | None:
    """Return the point that another is compared with, or None: the baseline itself has none.

    That is the baseline variant at the same levels where there are variants, else the baseline point; the
    first of them unless the spec names one.
    """
    if spec.variants and len(spec.variants) > 1:
        name = spec.baseline or next(iter(spec.variants))
        reference = next(
            candidate for candidate in design if candidate.variant == name and candidate.levels == of.levels
        )
    else:
        reference = next((candidate for candidate in design if candidate.label == spec.baseline), design[0])
    return None if reference is of else reference


def check_baseline(study: CheckedSpec, design: list[Point]) -> None:
    """Raise BadInput when the baseline that a study names is none of its points."""
    spec = study.spec
    several = spec.variants is not None and len(spec.variants) > 1
    names = list(spec.variants or ()) if several else [candidate.label for candidate in design]
    if spec.baseline and spec.baseline not in names:
        raise study.located.error(
            f"no point {spec.baseline!r}; expected one of {listed(names, spec.baseline)}",
            "baseline",
        )


def short_names(paths: list[str]) -> dict[str, str]:
    """Return for each path the shortest suffix that no other path has."""
    names = {}
    for path in paths:
        parts = path.split(".")
        ends = (".".join(parts[-size:]) for size in range(1, len(parts) + 1))
        names[path] = next(
            end for end in ends if sum(f".{other}".endswith(f".{end}") for other in paths) == 1 or end == path
        )
    return names


def _combinations(spec: Spec) -> Iterator[tuple[str, tuple[Any, ...], str, Settings]]:
    """Every variant at every combination of levels: variant, levels, label and settings."""
    factors = spec.factors or {}
    names = short_names(list(factors))
    for variant, settings in (spec.variants or {"": {}}).items():
        for levels in product(*factors.values()):
            at = dict(zip(factors, levels, strict=True))
            words = [f"{names[path]}={written(value)}" for path, value in at.items()]
            label = ", ".join([variant, *words] if variant else words)
            yield variant, levels, label or "base", {**settings, **at}


def _values(spec: Spec) -> Iterator[tuple[tuple[str | int, ...], str, Any]]:
    """Every value of the design: where it stands, its path and itself."""
    for path, value in spec.change.items():
        yield ("change", path), path, value
    for path, levels in (spec.factors or {}).items():
        for index, level in enumerate(levels):
            yield ("factors", path, index), path, level
    for name, settings in (spec.variants or {}).items():
        for path, value in settings.items():
            yield ("variants", name, path), path, value


def written(value: Any) -> str:
    """A value as people read it in a label."""
    return value if isinstance(value, str) else json.dumps(value)
