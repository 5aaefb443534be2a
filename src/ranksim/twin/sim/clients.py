"""Clients of a world: whose calls are whose, and those that are Python generators of the user's."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ranksim.core.callers.portfolio import Actor
from ranksim.core.callers.programs import Python
from ranksim.core.callers.steps import Send
from ranksim.core.callers.target import UNKNOWN
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call
from ranksim.core.service.operations import OPERATIONS
from ranksim.twin.sim.simpy_clock import SimpyClock

STRANGE = ("", UNKNOWN)
"""What steps name where they send no key, or one that nobody has."""

NOBODYS = "none"
"""A token that no key has."""


class Credentials:
    """The keys and web apps by which the programs of a world call."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Actor, str | None]] = {}

    def add(self, actor: Actor, key: str | None) -> str:
        """Return the name by which steps use a key of an account, or without a key its web app."""
        name = actor.name if key is None else f"{actor.name}/{key}"
        self._known[name] = actor, key
        return name

    def call_of(self, send: Send, client: str) -> Call:
        """Return a client's call as the service takes it, with the token that the key has now."""
        call = Call(send.operation, None, send.path, send.query, send.body, send.idempotency_key)
        call.surface = send.surface
        if send.key in STRANGE:
            call.environment = send.environment
            call.key = None if send.key == "" else NOBODYS
            return call
        actor, key = self._known[send.key]
        call.environment = actor.environment
        if key is None:
            call.account = actor.account
        elif OPERATIONS[send.operation].keyless:
            call.caller = client
        else:
            # A key that is not issued yet is a key nobody knows.
            call.key = actor.keys.get(key, NOBODYS)
        return call


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
