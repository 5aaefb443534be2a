"""Which key a token is, and what a key may see (S3, S68-S71)."""

from collections.abc import Mapping
from typing import Protocol, TypeVar


class Credential(Protocol):
    """What access reads of a key."""

    environment: str
    withdrawn: bool


KeyT = TypeVar("KeyT", bound=Credential)


def resolve(keys: Mapping[str, KeyT], token: str | None, environment: str) -> KeyT | None:
    """Find the key that a bearer token names in an environment, or None (S3, S68, U12).

    Missing, unknown, withdrawn and of the other environment are all the same None: the answer must not tell
    that a key is valid elsewhere (E48).
    """
    key = None if token is None else keys.get(token)
    if key is None or key.withdrawn or key.environment != environment:
        return None
    return key


def sees(scope: str | None, domain: str | None) -> bool:
    """Return whether a key may see what belongs to `domain` (None: to the whole account).

    A domain-scoped key sees its own domain only, and nothing account-wide (S70, U13, U97). `scope` is that
    domain, or None for a key of the whole account.
    """
    return scope is None or scope == domain
