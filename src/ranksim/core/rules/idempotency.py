"""Idempotency-Keys: what makes two requests the same, what is remembered (S28, S47, S48, S111, U27-U33)."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from ranksim.core.contract.assumptions import Assumptions


def is_valid(key: str, assumptions: Assumptions) -> bool:
    """Return whether a key has a legal form (U32): 1 to 255 characters, a quoted string counted inside."""
    return 1 <= len(unquoted(key)) <= assumptions.idempotency_key_max


def unquoted(key: str) -> str:
    """Return a key without the quotes of a structured-field string (U32)."""
    if len(key) >= 2 and key[0] == key[-1] == '"':
        return key[1:-1]
    return key


def fingerprint(
    operation: str,
    path: Mapping[str, str],
    query: Mapping[str, str],
    body: Mapping[str, Any] | None,
    raw: bytes | None,
    assumptions: Assumptions,
) -> str:
    """Digest what makes a request itself: operation (method and path), query and body (U28).

    The body counts as canonical JSON, or byte for byte where the policy says so and the driver has the bytes.
    """
    where = json.dumps([operation, sorted(path.items()), sorted(query.items())])
    if assumptions.fingerprint == "raw" and raw is not None:
        what = raw
    else:
        what = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    return sha256(where.encode() + b"\0" + what).hexdigest()


def is_stored(status: int, check: int, assumptions: Assumptions) -> bool:
    """Return whether a reply is remembered under its key (U29, U93).

    `check` is the spending check that refused, or 0: a refusal of the six checks is remembered whatever its
    status, which it may share with an early refusal that is not.
    """
    if assumptions.idempotency_stores == "success":
        return 200 <= status < 300
    return check > 0 or status not in assumptions.idempotency_not_stored
