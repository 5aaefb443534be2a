"""Parameters by dotted path into a model: `policy.catalogue.plans.pro.cost_ceiling`, `scenario.length`.

A path begins with the name of an input (scenario, policy, population), goes on with fields, the keys of
mappings and the numbers of list items, and names what a study sets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import reduce
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from ranksim.core.clock import format_duration, iso
from ranksim.core.contract.quantities import Atomic
from ranksim.core.errors import BadInput

Settings: TypeAlias = Mapping[str, Any]
"""Dotted path to value, as written in a file."""

PLANS = ("scenario.plan", "population.plan")
"""Parameters that are no fields: the plan of all accounts of an input."""

Part = str | int
Tree: TypeAlias = dict[Part, Any]

ITEM_SHAPES = (list, tuple)

DEEPEST = 8
"""Steps of the paths that are hinted at."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

NUMERIC = ("i", "u", "f", "b")
"""The kinds of NumPy's numbers that have no unit."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value at the end of a path, which may itself be a mapping."""

    value: Any


def parts_of(path: str) -> tuple[Part, ...]:
    """Return the steps of a path; `scans[0]` and `scans.0` are the same item of a list."""
    words = path.replace("[", ".").replace("]", "").split(".")
    return tuple(int(word) if word.isdecimal() else word for word in words)


def check_path(path: str, roots: Mapping[str, BaseModel], reserved: Collection[str] = ()) -> None:
    """Raise BadInput, with near names, unless the path leads to something that can be set.

    `roots` are the inputs by name. `reserved` are paths that the study itself decides.
    """
    _ends(path, roots, reserved)


def check_unit(path: str, value: Any, roots: Mapping[str, BaseModel]) -> None:
    """Raise BadInput where a bare number is given for a duration, an instant or money, or for several fields.

    In Python it would be one of µs or µUSD; who writes text or a file means something else.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return
    ends = _ends(path, roots)
    mistakes = []
    for _, kind in ends:
        try:
            TypeAdapter(kind).validate_json(str(value))
            return
        except ValidationError as error:
            mistakes += [each["ctx"]["error"] for each in error.errors() if each["type"] == "value_error"]
    if mistakes:
        raise BadInput(str(mistakes[0]))
    kinds = [member for _, kind in ends for member in _members(kind)]
    fields = [set(kind.model_fields) for kind in kinds if _is_model(kind)]
    if fields and len(fields) == len(kinds):
        each = ", ".join(sorted(f".{name}" for name in set.intersection(*fields)))
        raise BadInput(f"expected the path of one of its fields, {each}; found {value!r}")


def _ends(path: str, roots: Mapping[str, BaseModel], reserved: Collection[str] = ()) -> list[tuple[Any, Any]]:
    """Return what a path leads to: the present value, or None, and the type, of each that may stand there."""
    first, *rest = parts_of(path)
    if first not in roots:
        inside = [f"{name}.{path}" for name, root in roots.items() if first in _field_names(type(root))]
        hint = f"did you mean {inside[0]!r}?" if inside else _hint(str(first), roots, path, roots)
        raise BadInput(f"no parameter {path!r}: no input {first!r}; {hint}")
    if ".".join(map(str, (first, *rest))) in reserved:
        raise BadInput(f"{path} is decided by the study, which has fields of its own for it; leave it out")
    if path in PLANS:
        return []
    root = roots[str(first)]
    at: list[tuple[Any, Any]] = [(root, type(root))]
    so_far = str(first)
    for part in rest:
        steps = [step for value, kind in at for step in _below(value, kind)]
        at = [(value, kind) for name, value, kind in steps if name == part]
        if not at:
            names = sorted({str(name) for name, _, _ in steps})
            raise BadInput(f"no parameter {path!r}: {_missing(so_far, part, names, path, roots)}")
        so_far = f"{so_far}.{part}"
    return at


def of_root(root: str, settings: Settings) -> Settings:
    """Return those of some settings whose paths begin with an input."""
    return {path: value for path, value in settings.items() if parts_of(path)[0] == root}


def tree_of(settings: Settings, root: str) -> Any:
    """Return what the settings say of one root as nested mappings; a setting of the root itself as a leaf.

    Raises BadInput where one setting is a part of another.
    """
    tree: Tree = {}
    leaf = None
    for path, value in settings.items():
        first, *rest = parts_of(path)
        if first != root:
            continue
        if not rest:
            leaf = Leaf(value)
            continue
        here = tree
        for part in rest[:-1]:
            here = here.setdefault(part, {})
            if isinstance(here, Leaf):
                raise BadInput(f"{path} is a part of what another setting sets; set one of them")
        if rest[-1] in here:
            raise BadInput(f"{path} is set together with a part of it; set one of them")
        here[rest[-1]] = Leaf(value)
    if leaf is not None and tree:
        raise BadInput(f"{root} is set together with a part of it; set one of them")
    return tree if leaf is None else leaf


def laid(old: Any, tree: Any) -> Any:
    """Return a tree in the form that a model's `replace` takes; a list is given whole, its items changed."""
    if isinstance(tree, Leaf):
        return tree.value
    if isinstance(old, ITEM_SHAPES):
        items: list[Any] = [_plain(item) if index in tree else item for index, item in enumerate(old)]
        for index, inner in tree.items():
            items[index] = _over(old[index], inner)
        return items
    return {part: laid(_part(old, part), inner) for part, inner in tree.items()}


def _over(old: Any, tree: Any) -> Any:
    """Lay a tree over an item of a list, which is replaced whole."""
    if isinstance(tree, Leaf):
        return tree.value
    if isinstance(old, ITEM_SHAPES):
        return laid(old, tree)
    if isinstance(old, Atomic):
        return {part: _over(_part(old, part), inner) for part, inner in tree.items()}
    return _plain(old) | {part: _over(_part(old, part), inner) for part, inner in tree.items()}


def _plain(value: Any) -> Any:
    """The fields of a model that were set, under the names that files use."""
    if not isinstance(value, BaseModel):
        return dict(value) if isinstance(value, Mapping) else value
    fields = type(value).model_fields
    return {fields[name].alias or name: getattr(value, name) for name in value.model_fields_set}


def _part(value: Any, part: Part) -> Any:
    if isinstance(value, Atomic):
        value = value.written_as()
    if isinstance(value, BaseModel):
        return getattr(value, _field_names(type(value)).get(part, ""), None)
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, ITEM_SHAPES) and isinstance(part, int) and part < len(value):
        return value[part]
    return None


def present_value(path: str, roots: Mapping[str, BaseModel]) -> Any:
    """Return what a path leads to now, None where to nothing; `roots` are the inputs by name."""
    first, *rest = parts_of(path)
    return reduce(_part, rest, roots[str(first)])


def written_value(path: str, roots: Mapping[str, BaseModel]) -> Any:
    """Return what a path leads to now as files write it, None where to nothing, to several or to parts.

    `roots` are the inputs by name. Raises BadInput for a path that leads nowhere.
    """
    if path in PLANS:
        names = set(_plans(roots[path.partition(".")[0]]))
        return names.pop() if len(names) == 1 else None
    values = [
        TypeAdapter(kind).dump_python(value, mode="json")
        for value, kind in _ends(path, roots)
        if value is not None and (isinstance(value, Atomic) or not isinstance(value, BaseModel))
    ]
    return next(iter(values), None)


def _plans(root: Any) -> Iterator[str]:
    """Yield the plans of the accounts of a scenario, or of the segments of a population."""
    for segment in getattr(root, "segments", {}).values():
        yield from segment.plans
    if isinstance(accounts := getattr(root, "accounts", None), Mapping):
        yield from (account.plan for account in accounts.values())


def merged(old: Any, new: Any, *, every: bool = False) -> Any:
    """Lay `new` over `old`, in the form that strict validation takes: tuples, and only what was set.

    With `every` field of `old` the result states all: a judge takes what a policy states for the choice.
    """
    if isinstance(new, list | tuple):
        return tuple(merged(None, item, every=every) for item in new)
    if not isinstance(new, Mapping):
        return as_in_files(new)
    present: Mapping[Any, Any] = old if isinstance(old, Mapping) else {}
    stated: Iterable[Any] = present
    if isinstance(old, Atomic):
        present, stated = vars(old.written_as() or old), ()  # another kind takes the place of its own
    elif isinstance(old, BaseModel):
        present, stated = vars(old), vars(old) if every else old.model_fields_set
    laid_over = {key: merged(present.get(key), value, every=every) for key, value in new.items()}
    return {name: present[name] for name in stated} | laid_over


def as_in_files(value: Any) -> Any:
    """Return a value as YAML would give it: times as text, NumPy's numbers and arrays and ranges as Python's.

    A `datetime64` of NumPy is UTC by its convention ("Datetimes and timedeltas" of NumPy's reference). Any
    other instant without a zone stays as it is, and is refused, as is what is no time (NaT).
    """
    if isinstance(value, Mapping):
        return {key: as_in_files(inner) for key, inner in value.items()}
    if isinstance(value, (*ITEM_SHAPES, range)):
        return (tuple if isinstance(value, tuple) else list)(map(as_in_files, value))
    if isinstance(value, timedelta):
        return format_duration(value // timedelta(microseconds=1))
    if isinstance(value, datetime):
        return value if value.tzinfo is None else iso((value - EPOCH) // timedelta(microseconds=1))
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("m", "M"):
        return as_in_files(list(value)) if value.ndim else _time_of_numpy(value, kind)
    return value.tolist() if kind in NUMERIC else value


def _time_of_numpy(value: Any, kind: str) -> Any:
    """A duration ("m") or an instant ("M") of NumPy as YAML would give it; NaT by that name."""
    if str(value) == "NaT":
        return "NaT"
    if kind == "m":
        return as_in_files(value.astype("timedelta64[us]").tolist())
    return f"{value.astype('datetime64[us]')}Z"


# Walking along values and their types


def _below(value: Any, annotation: Any) -> Iterator[tuple[Part, Any, Any]]:
    """Yield what stands under a value of a type, step by step: the step, the value or None, and its type."""
    for kind in _members(annotation):
        origin, arguments = get_origin(kind), get_args(kind)
        if _is_model(kind) and issubclass(kind, Atomic):
            yield from _below(value.written_as() if isinstance(value, kind) else None, kind.forms)
        elif _is_model(kind):
            if value is None or isinstance(value, kind):
                for name, field in _field_names(kind).items():
                    info = kind.model_fields[field]
                    typed = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
                    yield name, _part(value, name), typed
        elif origin in (dict, Mapping):
            for key in _keys(value, arguments[0]):
                yield key, _part(value, key), arguments[1]
        elif origin in ITEM_SHAPES:
            items = value if isinstance(value, ITEM_SHAPES) else ()  # of a union it may be of another type
            yield from ((index, item, arguments[0]) for index, item in enumerate(items))
        elif kind in (dict, Any) and isinstance(value, Mapping):
            yield from ((key, inner, Any) for key, inner in value.items())


def _field_names(kind: type[BaseModel]) -> dict[Part, str]:
    """The names of a model's fields as files write them, and as they are."""
    return {info.alias or name: name for name, info in kind.model_fields.items()}


def _members(annotation: Any) -> Iterator[Any]:
    """The members of a union, or the type itself, without its annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif get_args(annotation) and origin not in (dict, Mapping, Literal, *ITEM_SHAPES):
        for member in get_args(annotation):
            yield from _members(member)
    elif annotation is not NoneType:
        yield annotation


def _keys(mapping: Any, annotation: Any) -> tuple[Any, ...]:
    """The keys of a mapping, or None, and those that its type names."""
    literals = get_args(annotation) if get_origin(annotation) is Literal else ()
    return (*(mapping if isinstance(mapping, Mapping) else ()), *literals)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _missing(
    so_far: str, part: Part, names: Collection[str], path: str, roots: Mapping[str, BaseModel]
) -> str:
    if not names:
        return f"{so_far} has no parts"
    return f"{so_far} has no {part!r}; {_hint(str(part), names, path, roots)}"


def _hint(name: str, names: Collection[str], path: str, roots: Mapping[str, BaseModel]) -> str:
    """Hint at the name that comes near, else at a whole path whose end does, else at all names."""
    near = get_close_matches(name, names, n=1)
    if not near and not name.isdecimal():  # where an item is wrong, the rest of the path is not
        near = _near_path(path, roots)
    return f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(names)}"


def _near_path(path: str, roots: Mapping[str, BaseModel]) -> list[str]:
    """Return the path whose last steps are most like these, of those that end with the same; or nothing."""
    parts = [str(part) for part in parts_of(path)]
    ends = {
        ".".join(steps[-len(parts) :]): ".".join(steps)
        for name, root in roots.items()
        for steps in _paths((name,), root, type(root))
        if steps[-1] == parts[-1]
    }
    return [ends[end] for end in get_close_matches(".".join(parts), ends, n=1)]


def _paths(so_far: tuple[str, ...], value: Any, kind: Any) -> Iterator[tuple[str, ...]]:
    """Yield the steps of every path below a value of a type, as far as `DEEPEST`."""
    for part, inner, inner_kind in _below(value, kind) if len(so_far) < DEEPEST else ():
        yield (steps := (*so_far, str(part)))
        yield from _paths(steps, inner, inner_kind)
