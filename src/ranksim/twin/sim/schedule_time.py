"""A moment of a scenario, written as an instant or as the time since the scenario's start."""

from typing import Any

from pydantic import model_serializer, model_validator

from ranksim.core import clock
from ranksim.core.clock import Micros
from ranksim.core.contract.quantities import TEXT, Atomic, also


class Moment(Atomic):
    """When something happens: '2d' after the scenario's start, or at '2026-03-01T00:00:00Z'.

    `us` is the time since the start (µs), or the instant itself when `absolute`.
    """

    model_config = also(TEXT)

    us: int
    absolute: bool = False

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return {"us": value}
        for read, absolute in ((clock.duration, False), (clock.instant, True)):
            try:
                return {"us": read(value), "absolute": absolute}
            except (TypeError, ValueError):
                continue
        raise ValueError(f"write a time since the start such as '2d', or an instant, found {value!r}")

    @model_serializer
    def _write(self) -> str:
        return clock.iso(self.us) if self.absolute else clock.format_duration(self.us)

    def on(self, start: Micros) -> Micros:
        """Return the instant, for a scenario that starts at `start`."""
        return self.us if self.absolute else start + self.us
