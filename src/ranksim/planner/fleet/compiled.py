"""The kernel compiled by Numba, from outside: the rules and the kernel know nothing of it.

Numba's cache does not notice that a function imported from another file was edited. So the cache lies in a
directory named after the sources of everything that is compiled, and an edit makes a new one. It is below
`NUMBA_CACHE_DIR` where that is set, else below the user's cache directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import FunctionType, ModuleType
from typing import Any

from ranksim.core import clock, draws
from ranksim.core.rules import admission, windows
from ranksim.planner.fleet import judging, kernel, recorded, requests

SOURCES = ("core/clock.py", "core/draws.py", "core/contract", "core/rules", "planner/fleet")
"""The parts of the package that the compiled kernel is made of, constants included."""

MODULES = (clock, windows, admission, requests, judging, kernel, recorded)
"""The modules whose functions are compiled as they are."""

_compiling = Lock()


def available() -> bool:
    """Return whether Numba can be imported."""
    try:
        import_module("numba")
    except ImportError:
        return False
    return True


QUICK = {
    "error_model": "numpy",
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""How inner functions are compiled: nothing divides by 0, and Python never calls them. The code of each is
copied to where it is called, so that no array's references are counted on the way: a quarter of the time."""


def compiled(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return `kernel.draw`, `kernel.run` or `recorded.run`, compiled: a first call compiles, or loads."""
    with _compiling:
        return _compiled(run)


@cache
def _teach_rules() -> None:
    """Let the compiler read every function of `MODULES` but those that it begins with."""
    from numba.extending import register_jitable

    _teach_draws()
    for module in MODULES:
        for function in functions_of(module):
            if function not in (requests.stream, requests.draw_number, kernel.draw, kernel.run, recorded.run):
                register_jitable(**QUICK)(function)


@cache
def _compiled(run: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    _teach_rules()
    directory = cache_directory()
    with _cache_below(directory):
        # Numba would fall back to a directory that is not named after the sources.
        kept = is_writable(directory)
        ready: Callable[..., Any] = numba.njit(nogil=True, cache=kept, error_model="numpy")(run)
    return ready


def functions_of(module: ModuleType) -> list[FunctionType]:
    """List the functions that a module defines itself."""
    return [
        made
        for made in vars(module).values()
        if isinstance(made, FunctionType) and made.__module__ == module.__name__
    ]


def cache_directory() -> Path:
    """The directory of this version's compiled code."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    base = Path(given) if given else _user_cache()
    return base / "ranksim-fleet" / source_digest(Path(clock.__file__).parents[1])


def is_writable(directory: Path) -> bool:
    """Return whether compiled code can be kept in a directory, which is made if need be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


def source_digest(package: Path) -> str:
    """A digest of the sources that are compiled, by path and content."""
    digest = blake2b(digest_size=12)
    for part in SOURCES:
        files = [package / part] if part.endswith(".py") else sorted((package / part).rglob("*.py"))
        for file in files:
            digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@contextmanager
def _cache_below(directory: Path) -> Iterator[None]:
    """Let the functions that are made meanwhile keep their compiled code in a directory."""
    config: Any = import_module("numba").config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(directory)
    try:
        yield
    finally:
        config.CACHE_DIR = before


@cache
def _teach_draws() -> None:
    """Register bodies in 64-bit arithmetic for the two functions that draw."""
    import numpy as np
    from numba.extending import overload, register_jitable

    mix: Any = register_jitable(draws._mix)
    golden, flip = np.uint64(draws._GOLDEN), np.uint64(0xAAAA_AAAA_AAAA_AAAA)
    unit, eleven = np.uint64(1), np.uint64(11)

    @register_jitable
    def ones(x: Any) -> Any:
        count = 0
        while x != np.uint64(0):
            x &= x - unit
            count += 1
        return count

    @overload(requests.stream)
    def stream(seed: Any, entity: Any, purpose: Any) -> Any:
        def body(seed: Any, entity: Any, purpose: Any) -> Any:
            start = mix(golden ^ np.uint64(seed))
            start = mix(start + golden ^ np.uint64(entity))
            start = mix(start + golden ^ np.uint64(purpose))
            step = mix(start + golden) | unit
            if ones(step ^ (step >> unit)) < 24:
                step ^= flip
            return start, step

        return body

    @overload(requests.draw_number)
    def drawn(source: Any, index: Any) -> Any:
        def body(source: Any, index: Any) -> Any:
            return np.int64(mix(source[0] + (np.uint64(index) + unit) * source[1]) >> eleven)

        return body
