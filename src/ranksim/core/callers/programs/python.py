"""A client that is a Python generator of the user's; the simulated world runs it as a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ranksim.core.callers.programs.planned import TrackedPart
from ranksim.core.contract.quantities import Frozen


class Python(Frozen):
    """A generator function, named "module:function", that is called as `function(world, name, **options)`.

    It yields SimPy events, such as `world.timeout(us)`, and calls with `world.call`.
    """

    kind: Literal["python"] = "python"
    function: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    options: dict[str, Any] = Field(default_factory=dict)
    account: str | None = None
    key: str | None = None

    @property
    def owners(self) -> tuple[str | None, ...]:
        """The account in whose name the client calls; None where that may be any."""
        return (self.account,)

    @property
    def operations(self) -> None:
        """None: a function may call any."""

    def planned(self, tracked: Sequence[TrackedPart], sizes: Mapping[str, int]) -> None:
        """Return None: what a function spends is not known before it runs."""
