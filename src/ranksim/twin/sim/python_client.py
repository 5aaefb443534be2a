"""Clients that are Python generators of the user's: found, called and run as processes of the world."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ranksim.core.callers.programs import Python
from ranksim.core.errors import BadInput
from ranksim.twin.sim.simpy_clock import SimpyClock


def start_python(world: SimpyClock, name: str, spec: Python) -> None:
    """Start the generator as a process of the world. Raises BadInput when it cannot be found or called."""
    function = _function(name, spec.function)
    try:
        generator = function(world, name, **spec.options)
    except TypeError as error:
        raise BadInput(f"clients.{name}.options: {error}; expected the options of {spec.function}") from None
    if not hasattr(generator, "send"):
        raise BadInput(
            f"clients.{name}.function: expected a generator function, but {spec.function} has no yield"
        )
    world.process(generator)


def _function(name: str, path: str) -> Callable[..., Any]:
    module, _, attribute = path.partition(":")
    try:
        function = getattr(import_module(module), attribute)
    except ImportError as error:
        raise BadInput(
            f"clients.{name}.function: {error}; expected module:function, on the import path"
        ) from None
    except AttributeError:
        raise BadInput(f"clients.{name}.function: module {module!r} has no function {attribute!r}") from None
    if not callable(function):
        raise BadInput(f"clients.{name}.function: expected a function, found {path!r}, which is none")
    result: Callable[..., Any] = function
    return result
