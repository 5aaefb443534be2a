"""Whose calls are whose: the names that steps use for keys and web apps, and the calls that they become."""

from ranksim.core.callers.portfolio import Actor
from ranksim.core.callers.steps import Send
from ranksim.core.callers.target import UNKNOWN
from ranksim.core.service.calls import Call
from ranksim.core.service.operations import OPERATIONS

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
