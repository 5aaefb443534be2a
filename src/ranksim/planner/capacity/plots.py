"""Plots of the capacity answers, from their plain rows: direct labels, intervals, units on axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ranksim.planner.capacity.growth import GrownMonth, fits_until, growth_verdict
from ranksim.planner.capacity.limits import CAPABILITY_OF
from ranksim.planner.capacity.plan_size import factor_text, used_text
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    GREEN,
    INK,
    VERMILLION,
    error_bars,
    finish,
    new_figure,
    plain_axes,
    separated,
)
from ranksim.report.tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def slots(rows: Sequence[Row], limit: int, ax: Axes | None = None) -> Axes:
    """Draw the slots used by day: the middle 90 % as a band, what was observed as points, the limit."""
    ax = new_figure().subplots() if ax is None else ax
    days = [row["day"] for row in rows]
    ax.fill_between(
        days, [row["used_p5"] for row in rows], [row["used_p95"] for row in rows],
        color=BLUE, alpha=0.2, linewidth=0,
    )  # fmt: skip
    ax.plot(days, [row["used_mean"] for row in rows], color=BLUE)
    ax.axhline(limit, color=VERMILLION, linestyle="--", linewidth=1.2)
    seen = [row for row in rows if row["observed_used"] is not None]
    _observed(ax, seen, "day", "observed_used")
    low = min(row["used_p5"] for row in rows)
    room = limit - low or 1
    ax.set_ylim(low - room * 0.05, limit + room * 0.12)
    separated(ax.yaxis)
    ax.margins(x=0)
    labels = [(rows[-1]["used_mean"], "mean; band: 5 to 95 %", BLUE), (limit, "limit", VERMILLION)]
    if seen:
        labels.append((seen[-1]["observed_used"], "points: simulated", INK))
    sentence = f"Slots under churn; a refusal by day {days[-1]}: {units.percent(rows[-1]['refused_by'])}"
    day = "day of the account, from the beginning of a billing month"
    return finish(ax, sentence, day, "slots used, held ones too", labels=labels)


WAYS = {"retry": VERMILLION, "wait": BLUE, "paced": GREEN}


def sync(rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Draw how long a sync takes, a bar for each way under each algorithm, with the calls refused."""
    ax = new_figure().subplots() if ax is None else ax
    names = list(dict.fromkeys(row["window"] for row in rows))
    through = [row for row in rows if row["time"] is not None]
    longest = max((row["time"] for row in through), default=0) / 60e6 or 1
    for row in through:
        minutes = row["time"] / 60e6
        y = names.index(row["window"]) + 0.27 * (list(WAYS).index(row["way"]) - 1)
        ax.barh(y, minutes, height=0.24, color=WAYS[row["way"]])
        refusals = [f"{units.count(row['refused'])} refused"] if row["refused"] else []
        refusals += (
            [f"{units.count(row['others_refused'])} of others refused"] if row["others_refused"] else []
        )
        text = ", ".join([row["way"], *refusals])
        ax.text(minutes + longest * 0.01, y, text, va="center", fontsize=7, color=INK)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(0, longest * 1.35)
    sentence = "Somebody is refused in every way"
    quiet = [row for row in through if not row["refused"] + row["others_refused"]]
    if quiet:
        best = min(quiet, key=lambda row: float(row["time"]))
        where = f"{best['way']} under {best['window']}"
        sentence = f"Quickest without refusals: {units.duration(best['time'])}, {where}"
    return finish(ax, sentence, "minutes from the first call to the last reply", grid="x")


def workers(rows: Sequence[Row], kind: str, within: int, target: float, ax: Axes | None = None) -> Axes:
    """Draw the share of jobs started in time against the workers: formula as a line, worlds as points."""
    ax = new_figure().subplots() if ax is None else ax
    counts = [row["workers"] for row in rows]
    percent = [
        {"workers": row["workers"]}
        | {name: 100 * row[name] for name in ("simulated", "simulated_low", "simulated_high")}
        for row in rows
    ]
    if rows[0]["by_formula"] is not None:
        ax.plot(counts, [100 * row["by_formula"] for row in rows], color=BLUE, marker="x")
    _observed(ax, percent, "workers", "simulated")
    ax.axhline(100 * target, color=VERMILLION, linestyle="--", linewidth=1.2)
    ax.set_xticks(counts)
    ax.set_ylim(0, 105)
    shares = [row["by_formula"] if row["simulated_low"] is None else row["simulated_low"] for row in rows]
    enough = [workers for workers, share in zip(counts, shares, strict=True) if share >= target]
    finding = f"{min(enough)} workers start" if enough else f"Not even {counts[-1]} workers start"
    some = f"{units.percent(target)} of {kind} jobs within {units.duration(within)}"
    last = rows[-1]
    labels = [(100 * target, "target", VERMILLION), (100 * last["simulated"], "simulated", INK)]
    if last["by_formula"] is not None:
        labels.insert(0, (100 * last["by_formula"], "formula", BLUE))
    sentence = f"{finding} {some}; points: simulated, with 95 % intervals"
    return finish(
        ax, sentence, "workers", f"% of jobs started within {units.duration(within)}", labels=labels
    )


def outage(curve: Sequence[tuple[int, float]], rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Draw the chance that the endpoint is disabled by a time, and at its end what simulation showed."""
    ax = new_figure().subplots() if ax is None else ax
    hours = [t / 3.6e9 for t, _ in curve]
    percent = [100 * chance for _, chance in curve]
    ax.plot(hours, percent, color=BLUE, linewidth=1.6)
    labels = [(percent[-1], "computed", BLUE)]
    seen = next(row for row in rows if row["name"] == "disabled")
    if seen["simulated"] is not None:
        edges = [100 * seen[name] for name in ("simulated", "simulated_low", "simulated_high")]
        point = {"hours": hours[-1], "seen": edges[0], "seen_low": edges[1], "seen_high": edges[2]}
        _observed(ax, [point], "hours", "seen")
        labels.append((edges[0], "simulated", INK))
    ax.set_ylim(-2, 105)
    length, chance = curve[-1]
    sentence = f"After {units.duration(length)} it is disabled with a chance of {units.percent(chance)}"
    axes = "hours since the outage began", "% chance that the endpoint is disabled"
    return finish(ax, sentence, *axes, labels=labels)


def portfolio(rows: Sequence[Row], title: str, ax: Axes | None = None) -> Axes:
    """Draw how much of each limit a portfolio uses, the tightest on top; what binds first stands out.

    Capabilities that the plan has are left out.
    """
    ax = new_figure().subplots() if ax is None else ax
    rows = [row for row in rows if not _is_there(row)]
    used = [100 * row["used"] for row in rows]
    names = [row["name"] for row in rows]
    ax.barh(names, used, color=[VERMILLION, *[BLUE] * (len(rows) - 1)], height=0.6)
    for y, (row, percent) in enumerate(zip(rows, used, strict=True)):
        need, there = (units.write(row["quantity"], row[name]) for name in ("need", "there"))
        _beside_bar(ax, percent, y, f"{need} of {there}")
    return _against_limits(ax, title, "% of the limit used", max(100, *used) * 1.4)


def fit(rows: Sequence[Row], title: str, factor: str, ax: Axes | None = None) -> Axes:
    """Draw the use of each limit of a plan now (bars) and grown (marks), what breaks first on top.

    Capabilities that the plan has are left out.
    """
    ax = new_figure().subplots() if ax is None else ax
    bars = [row for row in rows if row["used"] is not None and not _is_there(row)]
    used, grown = ([100 * row[name] for row in bars] for name in ("used", "used_grown"))
    names = [row["name"] for row in bars]
    ax.barh(names, used, color=BLUE, height=0.5)
    ax.scatter(grown, range(len(bars)), marker="|", s=260, color=VERMILLION, zorder=3)
    for y, (now, then) in enumerate(zip(used, grown, strict=True)):
        both = dict.fromkeys(used_text(share / 100) for share in (now, then))
        _beside_bar(ax, max(now, then), y, " → ".join(both))
    what = f"% of the limit used: bars at ×1, marks at {factor}"
    return _against_limits(ax, title, what, max(100, *used, *grown) * 1.25)


def growth(months: Sequence[GrownMonth], ax: Axes | None = None) -> Axes:
    """Draw the months in which each plan fits, fainter with add-ons, and what breaks then."""
    ax = new_figure().subplots() if ax is None else ax
    plans = list(months[0].sizes)
    for y, plan in enumerate(plans):
        for month in months:
            size = month.sizes[plan]
            if size.fits:
                ax.barh(
                    y, 1, left=month.month - 0.5, height=0.5, color=BLUE, alpha=0.45 if size.helps else 0.9
                )
            if month.plan == plan:
                ax.plot(month.month, y, "o", color="white", markeredgecolor=INK, markersize=6)
        end = fits_until(plan, months)
        if end < len(months):
            breaks = months[end].sizes[plan].breaks
            more = f" and {len(breaks) - 1} more" if len(breaks) > 1 else ""
            side = "right" if 2 * end > len(months) else "left"
            x = len(months) + 0.5 if side == "right" else end + 0.6
            text = f"what breaks: {breaks[0]}{more}"
            ax.text(x, y - 0.27, text, fontsize=7, color=VERMILLION, ha=side, va="bottom")
    ax.set_yticks(range(len(plans)), plans)
    ax.set_ylim(len(plans) - 0.5, -0.7)
    ax.set_xlim(0.5, len(months) + 0.5)
    ax.locator_params(axis="x", integer=True)
    if months[0].date:
        ax.locator_params(axis="x", nbins=5, steps=[1, 2, 3, 4, 6, 10])
        dates = {month.month: f"\n{month.date}" for month in months}
        ax.xaxis.set_major_formatter(lambda month, _: f"{month:.0f}{dates.get(round(month), '')}")
    first, last = (factor_text(months[end].factor) for end in (0, -1))
    what = f"month, from now on ({first} to {last}); dots: the cheapest"
    return finish(ax, growth_verdict(months), what, grid="x")


def _is_there(row: Row) -> bool:
    """Return whether a row is of a capability that the plan has: of it nothing is used up."""
    return str(row["name"]).startswith(CAPABILITY_OF) and bool(row["used"] <= 1)


def _beside_bar(ax: Axes, x: float, y: int, text: str) -> None:
    """Write a text right of what ends at x, however narrow the figure, above the lines behind it."""
    ax.annotate(
        text, (x, y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7, color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _against_limits(ax: Axes, title: str, what: str, most: float) -> Axes:
    """Finish a plot whose rows are percentages of limits, the first on top."""
    ax.axvline(100, color=INK, linestyle="--", linewidth=1)
    ax.set_xlim(0, most)
    ax.invert_yaxis()
    ax.tick_params(axis="y", labelsize=8)
    ax.set_xlabel(what)
    ax.set_title(title, wrap=True)
    plain_axes(ax, grid="x")
    ax.title.set_fontsize(9)
    return ax


def _observed(ax: Axes, rows: Sequence[Row], x: str, y: str, colour: str = INK) -> None:
    """Draw what simulated worlds showed as points, with their intervals where there are any."""
    if not rows:
        return
    values = [row[y] for row in rows]
    spans = [{"low": row[f"{y}_low"], "high": row[f"{y}_high"]} for row in rows]
    ax.errorbar(
        [row[x] for row in rows], values, yerr=error_bars(spans, values),
        fmt="o", markersize=3, color=colour, ecolor=colour, elinewidth=1,
    )  # fmt: skip
