"""The one exception a user can meet, and the words for a name that is not known."""

from operator import index

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import UnionType
    from typing import TypeVar

    A = TypeVar("A")
    T = TypeVar("T")


class BadInput(ValueError):
    """Input of ours is wrong: a scenario, a policy, a trace line, a flag.

    The message is one sentence: where (file and line, or dotted path), what was expected, what to do.
    The command line prints it and exits with 2.
    """


def read_at(where: str, read: "Callable[[A], T]", value: "A") -> "T":
    """Return what `read` makes of a value. Raises BadInput: `where`, then what its ValueError says."""
    try:
        return read(value)
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None


def check_integer(what: str, given: object, least: int | None = None) -> int:
    """Return a whole number, NumPy's too, as an int. Raises BadInput for another, or one below `least`."""
    if not hasattr(given, "__index__") or isinstance(given, bool):
        raise BadInput(f"{what}: expected a whole number, found {given!r}")
    number = index(given)
    if least is not None and number < least:
        raise BadInput(f"{what}: expected at least {least}, found {given}")
    return number


def check_kind(what: str, value: object, kind: "type | UnionType", words: str) -> None:
    """Raise BadInput unless a value is of some kind, which `words` describe."""
    if not isinstance(value, kind):
        raise BadInput(f"{what}: expected {words}, found {value!r}")


def near(name: object, names: "Iterable[str]") -> str:
    """What to add to a refusal of a name, a hint at those that come near: "; did you mean 'pro'?", or ""."""
    from difflib import get_close_matches  # late: errors are read before an interrupt can be caught

    close = get_close_matches(str(name), [str(candidate) for candidate in names], n=2)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def listed(candidates: "Iterable[str]", name: object) -> str:
    """What there is, with commas between, and what of it comes near a name that is none of it."""
    names = list(candidates)
    return f"{', '.join(names)}{near(name, names)}"


def one_among(candidates: "Iterable[str]", name: object) -> str:
    """What was expected and what is there: "one of pro, agency, found 'prp'; did you mean 'pro'?"."""
    names = list(candidates)
    return f"one of {', '.join(names)}, found {name!r}{near(name, names)}"


def no_such(what: str, name: str, names: tuple[str, ...], otherwise: str = "") -> str:
    """Say that there is nothing of this name: what comes near, else `otherwise` or all that there is."""
    from difflib import get_close_matches  # late: errors are read before an interrupt can be caught

    close = get_close_matches(name, names, n=3)
    hint = otherwise or f"expected one of {', '.join(names)}"
    if close:
        hint = f"did you mean {' or '.join(map(repr, close))}?"
    return f"no such {what} {name!r}; {hint}"
