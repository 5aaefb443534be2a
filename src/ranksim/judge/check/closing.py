"""What is kept of a check's time for its end, from what the same things took before."""

from __future__ import annotations

from dataclasses import dataclass

from ranksim.core.clock import SECOND, Micros

CLOSING: Micros = 30 * SECOND
"""Of the time given, what is kept at least for reading the state after, and removing what was created."""

SHORT = 4
"""The part of a short time that is kept at least: a quarter, of less than two minutes."""

STOPPING: Micros = 5 * SECOND
"""What calls under way take to end, mostly."""

JUDGEMENTS = 2
"""How many times as long as it took before judging may take; the trace is written in this time, too."""

REPORTS = 3
"""How many times as long as judging the page and the policy may take: one for the page, the rest for options
that are tried for the policy, as many as there is time for."""

MODELS = 1
"""How many times as long as judging it may take to let a twin get the same calls."""


@dataclass(slots=True)
class Closing:
    """What the end of a check of `time` takes, all in µs; exploring and reading the state before took `read`.

    All that is written after the last judgement takes `reports` times as long as it.
    What a call costs to judge is known from the last judgement: it is that of this machine, as busy as it is.
    """

    time: Micros
    read: Micros = 0
    reports: int = REPORTS
    _per_call: Micros = 0

    @property
    def least(self) -> Micros:
        """What is kept at least."""
        return min(CLOSING, self.time // SHORT)

    def judged(self, calls: int, took: Micros) -> None:
        """Note what judging so many calls took."""
        self._per_call = -(-took // max(1, calls))

    def judging(self, calls: int) -> Micros:
        """Return what judging so many calls takes."""
        return calls * self._per_call

    def reporting(self, calls: int) -> Micros:
        """Return what is kept for all that comes after the last judgement."""
        return min(self.reports * self.judging(calls), self.time // 4)

    def after_reading(self, calls: int, removing: Micros) -> Micros:
        """Return what is kept from the moment on at which the state after is read.

        For so long the process that makes the calls removes meanwhile what was created.
        """
        beside = max(JUDGEMENTS * self.judging(calls), removing)
        return min(max(self.least // 2, beside + self.reporting(calls)), self.time // 2)

    def length(self, calls: int, removing: Micros) -> Micros:
        """Return what is kept for the end in all: half of the time, at most."""
        reading = STOPPING + self.read
        return min(max(self.least, reading + self.after_reading(calls, removing)), self.time // 2)
