"""Figures as every plot of ours begins and ends: colours, size, labels, tooltips, error bars, PNG and SVG.

Matplotlib is an extra: it is imported when a figure is made, outside pyplot's state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any, TypeAlias
from warnings import catch_warnings, filterwarnings
from xml.etree import ElementTree

from ranksim.core.extras import missing
from ranksim.core.printable import LINES, printable
from ranksim.report.tables import Row

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

BLUE, VERMILLION, GREEN, PURPLE, ORANGE = "#0072B2", "#D55E00", "#009E73", "#AA4C86", "#B87A00"
SKY, GREY, INK = "#56B4E9", "#999999", "#333333"
SKY_INK = "#2B7BA8"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE)
"""Okabe and Ito's palette; purple, orange and what sky is named in are darkened, to be read on white."""

SIZE = (6.4, 3.4)
"""Width and height of a saved plot, inches."""

PANEL = 1.1
"""The height of each panel beyond a first, inches."""

TIP = "tip: "
"""What the ids of artists begin with that have a tooltip, which follows."""

SVG = "http://www.w3.org/2000/svg"


def tip(artist: Artist, text: str) -> None:
    """Let a part of a figure tell more when it is pointed at on a page."""
    artist.set_gid(TIP + printable(text, LINES))


def to_svg(figure: Figure) -> str:
    """A figure as SVG for a page, with its tooltips: an element for wide pages and one for narrow ones.

    The same for the same figure, which is narrow afterwards.
    """
    broad = _element(figure, "broad")
    _narrow(figure)
    return broad + _element(figure, "slim")


NARROW = (4.0, 3.4)
"""Width of a figure on a narrow page, and its least height, inches."""

NARROW_TITLE = 40
"""Characters of a line of its title."""

TITLE_LINE = 0.18
"""The height of a line of a title, inches."""

NARROW_LABEL = 28
"""Characters of a line of what its axes are."""

LABEL_GAP = 4
"""What there is at least between a label and the edge of the Axes, pixels."""

NARROW_TICKS = 2, 5
"""Ticks that an axis of time has there at least and at most: for any span some interval gives so many."""


def _narrow(figure: Figure) -> None:
    """Give a figure the width of a phone, with letters as large as before."""
    from matplotlib.dates import AutoDateLocator

    figure.set_size_inches(NARROW[0], max(NARROW[1], figure.get_figheight()))
    for ax in figure.axes:
        if text := " ".join(ax.get_title().split()):  # above all, as labels leave the Axes little width
            more = len(lines := wrap(text, NARROW_TITLE)) - len(ax.get_title().split("\n"))
            ax.set_title("")
            figure.suptitle("\n".join(lines), fontsize=11)
            figure.set_figheight(figure.get_figheight() + TITLE_LINE * more)
        dated = any(isinstance(panel.xaxis.get_major_locator(), AutoDateLocator) for panel in _panels(ax))
        width = NARROW_LABEL * 2 // 3 if dated else NARROW_LABEL  # beside it stands which month it is
        label = fill(ax.get_xlabel(), width, break_long_words=False)
        crowded = longest_line(ax.get_yticklabels()) + longest_line([ax.xaxis.label]) > NARROW_TITLE
        ax.set_xlabel(label, loc="left" if dated else "right" if crowded else "center")
        ax.set_ylabel(fill(ax.get_ylabel(), NARROW_LABEL, break_long_words=False))
        for panel in _panels(ax):
            locator = panel.xaxis.get_major_locator()
            if isinstance(locator, AutoDateLocator):
                locator.minticks, most = NARROW_TICKS
                locator.maxticks = dict.fromkeys(locator.maxticks, most)
        begin_before_labels(ax)


def begin_before_labels(ax: Axes) -> None:
    """Let Axes begin further left where labels that end beside a point would lie on the names of rows."""
    labels = [
        text
        for text in ax.texts
        if text.get_horizontalalignment() == "right" and getattr(text, "xycoords", "data") == "data"
    ]
    if not labels or ax.get_xscale() != "linear":
        return
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    there, (left, right) = ax.get_window_extent(), ax.get_xlim()
    begins = [left]
    for span in (label.get_window_extent() for label in labels):
        share = (span.width + LABEL_GAP) / there.width
        if span.x0 < there.x0 and share < 1:
            end = left + (right - left) * (span.x1 - there.x0) / there.width
            begins.append((end - share * right) / (1 - share))
    if min(begins) < left:
        ax.set_xlim(left=min(begins))


def _panels(ax: Any) -> list[Any]:
    return [ax, *ax.child_axes]


def _element(figure: Figure, kind: str) -> str:
    """A figure as an SVG element of a class; ids of its parts are those of the class."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(printable(text.get_text(), LINES))  # else no reader of XML takes it
    stream = BytesIO()
    with rc_context({"svg.hashsalt": f"ranksim {kind}", "svg.fonttype": "none"}), catch_warnings():
        filterwarnings("ignore", "constrained_layout not applied")  # beside a name longer than the figure
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(stream.getvalue())
    for element in root.iter():
        if element.get("id", "").startswith(TIP):
            title = ElementTree.Element(f"{{{SVG}}}title")
            title.text = element.attrib.pop("id").removeprefix(TIP)
            element.insert(0, title)
    for size in ("width", "height"):  # a page gives it the room there is
        del root.attrib[size]
    root.set("class", kind)
    return ElementTree.tostring(root, encoding="unicode")


def save_figure(figure: Figure, path: Path) -> str:
    """Write a figure as a PNG file; return it as an SVG element for a page."""
    from ranksim.report.shown_figure import to_png

    path.write_bytes(to_png(figure))
    return to_svg(figure)


def as_svgs(names: Iterable[str], plot: Callable[[str, Axes], object]) -> dict[str, str]:
    """Return the plots of these names as SVG for a page, each drawn by `plot` into Axes of its own.

    Raises BadInput without matplotlib.
    """
    drawn = {}
    for name in names:
        figure = new_figure()
        plot(name, figure.subplots())
        drawn[name] = to_svg(figure)
    return drawn


def check_matplotlib() -> None:
    """Raise BadInput, saying what to install, when plots cannot be drawn here."""
    if find_spec("matplotlib") is None:
        raise missing("plots need matplotlib", "plots")


def new_figure() -> Figure:
    """An empty figure of the usual size, outside pyplot's state, that a notebook shows."""
    check_matplotlib()
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from ranksim.report.shown_figure import Figure

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    return Figure(figsize=SIZE, dpi=150, layout=layout, facecolor="white")


Label: TypeAlias = tuple[float, str, str]
"""Where a line ends, its name, its colour."""


def label_ends(ax: Axes, labels: Sequence[Label], gap: float = 0.07) -> None:
    """Write each line's name at its right end, nudged apart where the ends are close.

    `gap` is what two labels are apart at least, as a share of the height of the Axes.
    """
    to_share = ax.transScale + ax.transLimits
    ends = sorted((float(to_share.transform((0, y))[1]), label, colour) for y, label, colour in labels)
    at = -gap
    placed = []
    for y, label, colour in ends:
        at = max(y, at + gap)
        placed.append((at, label, colour))
    over = max(0.0, at - 1)
    for y, label, colour in placed:
        where = {"xycoords": "axes fraction", "annotation_clip": False}
        label_beside(ax, short_label(label), (1, y - over), (5, 0), color=colour, **where)


THOUSANDS = 1_000
"""An axis that reaches this far has separators in its numbers."""

TITLE = 66
"""Characters of a line of a title; a longer one has several."""

BESIDE_NAMES = 44
"""The same above Axes among others, to which names leave half of their width."""


def title(ax: Axes, sentence: str, width: int = TITLE) -> None:
    """Say as the title of a plot what is found in it, in lines of at most so many characters."""
    ax.set_title(fill(sentence, width), fontsize=11)


def title_above_names(ax: Axes, sentence: str) -> None:
    """Say as the title what is found, across a figure of these Axes alone: names leave them half of it."""
    from matplotlib.transforms import blended_transform_factory

    figure = ax.get_figure(root=True)
    assert figure is not None
    alone = len(figure.axes) == 1
    title(ax, sentence, TITLE if alone else BESIDE_NAMES)
    if alone:
        across = blended_transform_factory(figure.transFigure, ax.title.get_transform())
        ax.title.set_transform(across)


def longest_line(texts: Iterable[Text]) -> int:
    """Characters of the longest line of some texts of a figure."""
    return max((len(line) for text in texts for line in text.get_text().split("\n")), default=0)


def label_beside(
    ax: Axes, text: str, at: tuple[Any, Any], shift: tuple[float, float] = (0, 0), **style: Any
) -> None:
    """Write a small text beside a point of the data, shifted by so many points of type."""
    given: dict[str, Any] = {"textcoords": "offset points", "va": "center", "color": INK, "fontsize": 8}
    ax.annotate(text, at, shift, **given | style)


def finish(
    ax: Axes, sentence: str, x: str = "", y: str = "", grid: str = "y", labels: Sequence[Label] = ()
) -> Axes:
    """Name the axes, say as the title what is found, take the frame off, and label the ends of lines."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    title(ax, sentence)
    plain_axes(ax, grid)
    label_ends(ax, labels)
    return ax


def plain_axes(ax: Axes, grid: str = "y") -> None:
    """Take the frame off, and set the grid behind what is drawn."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.title.set_fontsize(11)
    ax.set_axisbelow(True)
    ax.grid(visible=True, axis="x" if grid == "x" else "y", color="#dddddd", linewidth=0.6)


def separated(axis: Axis) -> None:
    """Give the numbers of an axis their separators, where they are large: whole ones, each once."""
    from matplotlib.ticker import MaxNLocator

    low, high = sorted(axis.get_view_interval())
    if max(-low, high) >= THOUSANDS:
        axis.set_major_formatter("{x:,.0f}")
        if high - low < 2:  # too narrow for two whole numbers
            axis.set_view_interval(math.floor(low), math.ceil(high))
        locator = axis.get_major_locator()
        if isinstance(locator, MaxNLocator):
            locator.set_params(integer=True)


def error_bars(rows: Sequence[Row], values: Sequence[float]) -> list[list[float]] | None:
    """Distances from each value down to low and up to high; none where no row has an interval."""
    low = [value - or_value(row.get("low"), value) for row, value in zip(rows, values, strict=True)]
    high = [or_value(row.get("high"), value) - value for row, value in zip(rows, values, strict=True)]
    return [[max(0, d) for d in low], [max(0, d) for d in high]] if any(low) or any(high) else None


def or_value(edge: float | None, value: float) -> float:
    """Return the edge of an interval, or the value where there is none."""
    return value if edge is None else edge


def short_label(label: str, limit: int = 28) -> str:
    """Return a label that is cut where it is longer than so many characters."""
    return label if len(label) <= limit else label[: limit - 1] + "…"
