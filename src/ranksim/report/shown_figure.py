"""Axes and figures that a notebook shows: figures are made outside pyplot, which would show them."""

from io import BytesIO
from textwrap import fill
from typing import Any

import matplotlib.axes
import matplotlib.figure
import matplotlib.text

WIDEST = 60
"""Characters of a line of a title in letters of matplotlib's size: a longer one would be cut."""

SMALLER = 66
"""The same of a title whose size is given, as ours are."""


def to_png(figure: matplotlib.figure.Figure) -> bytes:
    """Return a figure as the bytes of a PNG file, the same for the same figure."""
    stream = BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


class Axes(matplotlib.axes.Axes):
    """Axes whose display in a notebook is their figure, with a title in lines that it has room for."""

    def set_title(self, label: str, *args: Any, **options: Any) -> matplotlib.text.Text:
        """Set the title as any Axes do, in several lines where it is long."""
        width = SMALLER if "fontsize" in options else WIDEST
        lines = (fill(line, width) for line in label.splitlines())
        return super().set_title("\n".join(lines), *args, **options)

    def _repr_png_(self) -> bytes:
        figure = self.get_figure(root=True)
        assert figure is not None
        return to_png(figure)


class Figure(matplotlib.figure.Figure):
    """A figure whose Axes show it, and which shows itself, at the end of a cell."""

    def add_subplot(self, *args: Any, **options: Any) -> matplotlib.axes.Axes:
        """Add Axes as any figure does, which show it."""
        made: matplotlib.axes.Axes = super().add_subplot(*args, **{"axes_class": Axes, **options})
        return made

    def _repr_png_(self) -> bytes:
        return to_png(self)
