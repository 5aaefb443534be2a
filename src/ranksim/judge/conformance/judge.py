"""What a judge is, and how one notes what exchanges show.

A judge is told what was observed, in order of sending, and decides when it settles: what can no longer
change before a watermark is decided then and, where its rule's horizon is over, forgotten. A history that is
read whole is a stream that ends: its last watermark is DISTANT_FUTURE.
"""

from typing import NamedTuple, Protocol

from ranksim.core.clock import Micros
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally


class Judge(Protocol):
    """Judges the rules of one module by what it is told; it wants every exchange, and no webhook attempt."""

    tally: Tally

    def wants(self, like: Observation) -> bool:
        """Return whether exchanges of this likeness matter.

        Only what many have alike can be looked at: the fields of `Observation` from `key` to `outside`.
        """
        return True

    def see(self, seen: Observation) -> None:
        """Observe the next exchange, in order of sending."""
        return

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Observe the next webhook attempt, in order of arrival."""
        return

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Decide what can no longer change, where all that was sent or came before `watermark` was shown."""


class Dated(Protocol):
    """What evidence says of a call."""

    @property
    def id(self) -> str:
        """Its name in evidence."""

    @property
    def sent(self) -> Micros:
        """When it was sent."""


class Between(NamedTuple):
    """What came between calls and may tell why they are wrong: in words behind what is said, and by id."""

    says: str = ""
    ids: tuple[str, ...] = ()


def evidence_of(
    says: str, *calls: Dated, about: str = "", expected: str = "", between: Between | None = None
) -> Evidence:
    """Return evidence that points at calls, each once, and is dated by the last of them."""
    ids = tuple(dict.fromkeys(call.id for call in calls))
    why, others = between or Between()
    beside = tuple(name for name in others if name not in ids)
    return Evidence(says + why, ids, about=about, at=calls[-1].sent, expected=expected, between=beside)
