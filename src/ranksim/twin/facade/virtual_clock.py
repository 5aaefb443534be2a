"""The clock of a fake deployment: real, manual or scaled, changed while running, and never going back.

Its timer rings when the next piece of work falls due.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import SECOND, Micros, instant
from ranksim.core.errors import BadInput, near
from ranksim.twin.serving.wall_clock import wall

TRAFFIC_CLOCKS = ("same", "wall")
SIGNATURE_CLOCKS = ("virtual", "wall")

LONGEST_SLEEP_S = 3600.0
"""After how long a timer looks at the clock again."""

FIRST, LAST = instant("0001-01-01T00:00:00Z"), instant("9999-12-31T23:59:59Z")
"""The first and the last instant that a timestamp can name; clocks stop there."""


def is_instant(t: object) -> bool:
    """Return whether a clock can stand at what is said to be an instant in µs."""
    return isinstance(t, int) and FIRST <= t <= LAST


_SCALED = re.compile(r"scaled:([1-9]\d{0,8})(?:/([1-9]\d{0,8}))?")


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a clock runs: `over` / `under` virtual µs for each µs of wall time; 0 stands still."""

    mode: str
    over: int
    under: int = 1

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read "real", "manual", "scaled:60" or "scaled:1/10". Raises BadInput."""
        if text == "real":
            return cls("real", 1)
        if text == "manual":
            return cls("manual", 0)
        match = _SCALED.fullmatch(text)
        if match is None:
            raise BadInput(
                f"clock: expected real, manual, scaled:60 or scaled:1/10 (whole numbers), found {text!r}"
                f"{near(text, ('real', 'manual', 'scaled:60'))}"
            )
        return cls("scaled", int(match[1]), int(match[2] or 1))

    def __str__(self) -> str:
        if self.mode != "scaled":
            return self.mode
        return f"scaled:{self.over}" if self.under == 1 else f"scaled:{self.over}/{self.under}"


class VirtualClock:
    """Tells the instant that the service lives in, and the one that its rate windows read.

    `clock` is "real", "manual" or "scaled:N" with an integer ratio (60, 1/10); `start` (µs) is the first
    instant, default the wall clock's. `traffic` "wall" lets rate windows run on the wall clock while the
    business clock does what it likes; `signature` "wall" signs webhooks with the wall clock. `read_wall` is
    replaced in tests. Raises BadInput.
    """

    def __init__(
        self,
        clock: str = "real",
        start: Micros | None = None,
        traffic: str = "same",
        signature: str = "virtual",
        read_wall: Callable[[], Micros] = wall,
    ) -> None:
        self.rate = Rate.parse(clock)
        self.wall = read_wall
        self.signature = _one_of("signature clock", signature, SIGNATURE_CLOCKS)
        self._wall_then = self.wall()
        self._then = self._wall_then if start is None else start
        if not is_instant(self._then):
            raise BadInput(
                "clock: expected a start from the year 1 to the year 9999, which timestamps can name"
            )
        self._held = False
        self.changed: Callable[[str], None] = lambda what: None
        """Told "set_clock" when the clock was set, and "moved" when an advance has ended."""
        self.traffic_clock = _one_of("traffic clock", traffic, TRAFFIC_CLOCKS)
        self.traffic_ahead = 0
        """How far traffic time is ahead of its source: a change of source never turns it back."""

    # Reading

    def now(self) -> Micros:
        """Return the current instant."""
        if self._held or not self.rate.over:
            return self._then
        passed = max(0, self.wall() - self._wall_then)
        return min(LAST, self._then + passed * self.rate.over // self.rate.under)

    def traffic(self, now: Micros) -> Micros:
        """Return the instant that rate windows read when the service's clock reads `now`."""
        if self.traffic_clock == "wall":
            return self.wall() + self.traffic_ahead
        return now + self.traffic_ahead

    def signed_at(self, now: Micros) -> Micros:
        """Return the instant that a webhook sent at `now` is signed with."""
        return self.wall() if self.signature == "wall" else now

    def wall_until(self, due: Micros) -> Micros | None:
        """Return the wall µs until the clock reads `due`, or None if it stands still."""
        if self._held or not self.rate.over:
            return None
        missing = due - self.now()
        return max(0, -(-missing * self.rate.under // self.rate.over))

    @property
    def ordered(self) -> bool:
        """Whether outcomes apply in order of sending, not of completion: attempts take no time."""
        return not self.rate.over

    # Setting

    def move_to(self, to: Micros) -> None:
        """Move the clock to a later instant. Raises BadInput for an earlier one."""
        self.check(to)
        self._then, self._wall_then = to, self.wall()

    def check(self, to: Micros) -> None:
        """Raise BadInput unless the clock can move to an instant."""
        if to < self.now():
            raise BadInput(
                "clock: expected an instant that is not in the past, since clocks go forward only; "
                "to go back restore a snapshot"
            )
        if to > LAST:
            raise BadInput("clock: expected an instant before the year 10000")

    def set_clock(
        self, clock: str | None = None, traffic: str | None = None, signature: str | None = None
    ) -> None:
        """Change how time runs from here on; None leaves as it is. Raises BadInput, and changes nothing."""
        rate = self.rate if clock is None else Rate.parse(clock)
        source = self.traffic_clock if traffic is None else _one_of("traffic clock", traffic, TRAFFIC_CLOCKS)
        signing = self.signature
        if signature is not None:
            signing = _one_of("signature clock", signature, SIGNATURE_CLOCKS)
        now = self.now()
        self._then, self._wall_then, self.rate, self.signature = now, self.wall(), rate, signing
        if source != self.traffic_clock:
            read = self.traffic(now)
            self.traffic_clock, self.traffic_ahead = source, 0
            self._catch_up(read)
        self.changed("set_clock")

    def hold(self) -> None:
        """Stand still, whatever the mode, until `release`: an advance is under way."""
        self._then, self._held = self.now(), True

    def release(self) -> None:
        """Run on from the instant that the clock stands at."""
        self._then, self._wall_then, self._held = self.now(), self.wall(), False
        self.changed("moved")

    def jump(self, to: Micros, traffic: Micros | None = None) -> None:
        """Begin another world at any instant, earlier ones included; its rate windows read `traffic` last."""
        self._then, self._wall_then, self.traffic_ahead = to, self.wall(), 0
        if traffic is not None:
            self._catch_up(traffic)

    def _catch_up(self, read: Micros) -> None:
        """Put traffic time ahead of its source as far as it takes: windows cannot go back either."""
        self.traffic_ahead += max(0, read - self.traffic(self.now()))

    # Over restarts

    def saved(self) -> dict[str, Any]:
        """Return all that `resume` needs to go on, an instant and what the wall clock read then."""
        # The start of a run is exact, and what the clock reads since is rounded.
        runs = bool(self.rate.over) and not self._held
        return {
            "clock": str(self.rate),
            "traffic_clock": self.traffic_clock,
            "signature_clock": self.signature,
            "now": self._then,
            "wall": self._wall_then if runs else self.wall(),
            "traffic_ahead": self.traffic_ahead,
        }

    def resume(self, saved: Mapping[str, Any], now: Micros, traffic: Micros) -> None:
        """Resume from what `saved` returned, at `now` and `traffic` or later; a clock that runs ran on."""
        self.rate, self.signature = Rate.parse(saved["clock"]), saved["signature_clock"]
        self.traffic_clock, self.traffic_ahead = saved["traffic_clock"], saved["traffic_ahead"]
        self._then, self._wall_then, self._held = saved["now"], saved["wall"], False
        if self.now() < now:
            self._then, self._wall_then = now, self.wall()
        self._catch_up(traffic)


class Timer:
    """Calls `ring` at the instant that `next_due` returns, where the clock runs by itself."""

    def __init__(
        self, clock: VirtualClock, next_due: Callable[[], Micros | None], ring: Callable[[], None]
    ) -> None:
        self._clock, self._next_due, self._ring = clock, next_due, ring
        self._handle: asyncio.TimerHandle | None = None
        self._armed: Micros | None = None

    def arm(self, *, anew: bool = False) -> None:
        """Set the timer to the next piece of work, `anew` even if that is the same as before."""
        due = self._next_due()
        if due == self._armed and not anew:
            return
        self.stop()
        wait = None if due is None else self._clock.wall_until(due)
        if wait is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._handle = loop.call_later(min(wait / SECOND, LONGEST_SLEEP_S), self._ring)
        self._armed = due

    def stop(self) -> None:
        """Ring no more until it is armed again."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._armed = None


def _one_of(what: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise BadInput(f"{what}: expected one of {', '.join(choices)}, found {text!r}{near(text, choices)}")
    return text
