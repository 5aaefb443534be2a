"""Figures as PNG."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def to_png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file, the same for the same figure."""
    stream = BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()
