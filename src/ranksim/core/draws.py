"""Addressed random draws: a number is a function of (seed, entity, index, purpose), not of earlier draws.

So runs can be compared on common random numbers, and neither the order of the draws nor the number of
workers changes a result. *seed* names the run, *entity* who draws (`entity("acct_1")`), *index* which of its
draws this is, and *purpose* what the number is for. All four are Python integers, taken modulo 2**64.

The generator is SplitMix64 read by position: (seed, entity, purpose) are mixed into a stream, a pair of start
and odd step, and the number at an index is the finaliser of start + (index + 1) * step modulo 2**64. Sources:
G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants
of the finaliser from D. Stafford, "Better bit mixing" (variant 13, 2011).
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # 2**64 divided by the golden ratio, made odd
_FIRST = 0xBF58_476D_1CE4_E5B9
_SECOND = 0x94D0_49BB_1331_11EB
_ULP = 2.0**-53


class Purpose(IntEnum):
    """What a draw is for. The values are part of every recorded result: add new ones, never renumber."""

    JOB_DURATION = 1
    JOB_OUTCOME = 2
    JOB_COST = 3
    RETRY_JITTER = 4
    SECRET = 5
    LATENCY = 6
    OUTAGE = 7
    ARRIVAL = 8
    CHOICE = 9
    CHURN = 10
    BACKOFF = 11
    POSITION = 12
    SYNTHETIC = 13
    REPLICATION = 14
    IDENTIFIER = 15
    RECEIVER = 16
    THINK = 17
    SIZE = 18
    BOOTSTRAP = 19
    PHASE = 20
    LOSS = 21
    REPAIR = 22
    PLAN = 23
    ADD_ON = 24
    ANCHOR = 25
    GROWTH = 26
    FEEDBACK = 27


@lru_cache(maxsize=1 << 16)
def entity(name: str) -> int:
    """The 64-bit number of a named entity: its eight-byte BLAKE2b digest, the same on any machine."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def bits(seed: int, entity: int, index: int, purpose: int) -> int:
    """The draw at an address as 64 random bits, in [0, 2**64)."""
    start, step = stream(seed, entity, purpose)
    return _mix(start + (index + 1) * step & _MASK)


def bits_of_many(seed: int, entities: Sequence[int], index: int, purpose: int) -> list[int]:
    """The draws of many entities, in [0, 2**64), at once: equal, value for value, to `bits` of each."""
    import numpy as np  # most who draw do so one by one, and reading numpy takes longer than starting

    golden, start = np.uint64(_GOLDEN), _mix((_GOLDEN ^ seed) & _MASK)
    starts = _mixed(np.array(entities, np.uint64) ^ np.uint64(start + _GOLDEN & _MASK))
    starts = _mixed((starts + golden) ^ np.uint64(purpose & _MASK))
    steps = _mixed(starts + golden) | np.uint64(1)
    badly = np.bitwise_count(steps ^ steps >> np.uint64(1)) < 24
    steps[badly] ^= np.uint64(0xAAAA_AAAA_AAAA_AAAA)
    drawn: list[int] = _mixed(starts + steps * np.uint64(index + 1 & _MASK)).tolist()
    return drawn


def uniform(seed: int, entity: int, index: int, purpose: int) -> float:
    """The draw at an address as a number in the open interval (0, 1): an odd multiple of 2**-53."""
    start, step = stream(seed, entity, purpose)
    return (_mix(start + (index + 1) * step & _MASK) >> 11 | 1) * _ULP


def below(n: int, seed: int, entity: int, index: int, purpose: int) -> int:
    """The draw at an address as an integer in [0, n), for 0 < n <= 2**64.

    Multiply and shift: no value is likelier than another by more than n / 2**64. Raises ValueError for n < 1.
    """
    if n < 1:
        raise ValueError(f"below needs n >= 1, not {n}")
    return bits(seed, entity, index, purpose) * n >> 64


def derive(seed: int, entity: int, index: int, purpose: int) -> int:
    """A seed derived from a seed, as for one replication: 63 bits, so that it fits a signed column."""
    return bits(seed, entity, index, purpose) >> 1


def uniforms(seed: int, entity: int, indices: NDArray[np.int64], purpose: int) -> NDArray[np.float64]:
    """Many draws of one stream at once: equal, value for value, to `uniform` at each index.

    `indices` has any shape of one or more dimensions; the result has the same.
    """
    import numpy as np  # most who draw do so one by one, and reading numpy takes longer than starting

    start, step = stream(seed, entity, purpose)
    x = (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(step) + np.uint64(start)
    return (_mixed(x) >> np.uint64(11) | np.uint64(1)).astype(np.float64) * _ULP


@lru_cache(maxsize=1 << 16)
def stream(seed: int, entity: int, purpose: int) -> tuple[int, int]:
    """The stream of (seed, entity, purpose): its start and its odd step, for code that walks it by itself.

    The draw at an index is finalise(start + (index + 1) * step), all modulo 2**64. Each stream has a step of
    its own, so that streams are not shifted copies of each other.
    """
    start = 0
    for word in (seed, entity, purpose):
        start = _mix((start + _GOLDEN ^ word) & _MASK)
    step = _mix(start + _GOLDEN & _MASK) | 1
    # A step whose bits seldom change from one to the next mixes badly (Steele et al.).
    if (step ^ step >> 1).bit_count() < 24:
        step ^= 0xAAAA_AAAA_AAAA_AAAA
    return start, step


def _mix(x: int) -> int:
    """Stafford's finaliser, a bijection of 64-bit integers in which each input bit sways each output bit."""
    x = (x ^ x >> 30) * _FIRST & _MASK
    x = (x ^ x >> 27) * _SECOND & _MASK
    return x ^ x >> 31


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix many at once, as `_mix` does."""
    import numpy as np

    x = (x ^ x >> np.uint64(30)) * np.uint64(_FIRST)
    x = (x ^ x >> np.uint64(27)) * np.uint64(_SECOND)
    return x ^ x >> np.uint64(31)
