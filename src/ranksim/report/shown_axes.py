"""Axes and figures that a notebook shows: figures are made outside pyplot, which would show them."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ranksim.report.figure import to_png


class ShownAxes(Axes):
    """Axes whose display in a notebook is their figure."""

    def _repr_png_(self) -> bytes:
        figure = self.get_figure(root=True)
        assert figure is not None
        return to_png(figure)


class ShownFigure(Figure):
    """A figure whose Axes show it, and which shows itself, at the end of a cell."""

    def add_subplot(self, *args: Any, **options: Any) -> Axes:
        """Add Axes as any figure does, which show it."""
        made: Axes = super().add_subplot(*args, **{"axes_class": ShownAxes, **options})
        return made

    def _repr_png_(self) -> bytes:
        return to_png(self)
