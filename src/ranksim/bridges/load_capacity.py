"""How many users a deployment bears: loads of so many users each, until a threshold no longer holds.

The number is doubled while the threshold holds, then what lies between is halved (bisection).
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ranksim.judge.load.thresholds import QUANTILES, SHARES, UNPROMISED, Threshold, value_text
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer
from ranksim.report.progress import shares, show_progress
from ranksim.report.table_spec import Row, Tables, TableSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ranksim.judge.load.options import LoadOptions

WITHIN = 0.05
"""The answer is known to this share of it, or to one user."""

NOTED = 0.01
"""The share that rate limits refused from which on an answer tells it."""

STEPS = TableSpec(
    {
        "load": "text",
        "measured": "text",
        "holds": "text",
        "calls": "count",
        "rate": "count",
        "limited": "share",
    },
    {"users": "count"},
    keys=("users",),
    metrics=("rate", "limited"),
    headings={"rate": "calls a second", "limited": "refused by rate limits"},
    title="Loads",
)


@dataclass(frozen=True, slots=True)
class LoadStep:
    """A load of so many users: the metric's value, None where nothing was measured, and what was called."""

    users: int
    value: float | None
    holds: bool
    calls: int = 0
    rate: float = 0.0
    limited: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class LoadCapacity(ReadyAnswer):
    """The loads that were tried, in ascending order, against a threshold."""

    kind = "capacity load"
    title = "How many users a deployment bears"
    TABLES = MappingProxyType({"answer": STEPS})
    plots = ("users",)

    threshold: Threshold
    steps: tuple[LoadStep, ...]

    @property
    def best(self) -> LoadStep | None:
        """The largest load below the first that fails, None where none holds."""
        fails = min((step.users for step in self.steps if not step.holds), default=None)
        holding = [step for step in self.steps if step.holds and (fails is None or step.users < fails)]
        return holding[-1] if holding else None

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        first, best = self.steps[0], self.best
        failing = next((step for step in self.steps if not step.holds), None)
        if best is None:
            return f"Not even {units.many(first.users, 'user')} may call: {self._measured(first)}."
        rate = f"{best.rate:.3g} times a second"
        holds = f"{units.many(best.users, 'user')} may call, {rate}: {self.threshold.text} holds"
        if failing is None:
            return f"{holds}; no load that was tried breaks it, try more with --most."
        return f"{holds}. {units.count(failing.users)} may not: {self._measured(failing)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """Where rate limits, and not the deployment, bound the load."""
        best = self.best
        if best is None or best.limited < NOTED:
            return ()
        share = units.percent(best.limited)
        return (f"Rate limits refused {share} of these calls; a target file with more keys loads more.",)

    @property
    def tables(self) -> Tables:
        """One row a load."""
        return {"answer": [self._row(step) for step in self.steps]}

    def _drawn(self, name: str, ax: "Axes | None") -> "Axes":
        from ranksim.report.figure import BLUE, VERMILLION, finish, new_figure

        ax = new_figure().subplots() if ax is None else ax
        scale, unit = _scale(self.threshold.metric)
        measured = [step for step in self.steps if step.value is not None]
        users = [step.users for step in measured]
        values = [(step.value or 0) * scale for step in measured]
        ax.plot(users, values, color=BLUE, linewidth=1.2)
        for holds, colour in ((True, BLUE), (False, VERMILLION)):
            ax.plot(
                [step.users for step in measured if step.holds is holds],
                [(step.value or 0) * scale for step in measured if step.holds is holds],
                "o",
                color=colour,
            )
        bound = self.threshold.bound * scale
        ax.axhline(bound, color=VERMILLION, linestyle="--", linewidth=1.2)
        ax.set_ylim(bottom=0)
        labels = [(bound, self.threshold.text, VERMILLION)]
        best = self.best
        finding = "No load holds" if best is None else f"{units.many(best.users, 'user')} may call"
        return finish(ax, finding, "users", f"{self.threshold.metric}{unit}", labels=labels)

    def _measured(self, step: LoadStep) -> str:
        return f"{self.threshold.metric} is {value_text(self.threshold.metric, step.value)}"

    def _row(self, step: LoadStep) -> Row:
        return {
            **asdict(step),
            "load": units.many(step.users, "user"),
            "measured": value_text(self.threshold.metric, step.value),
            "holds": "yes" if step.holds else "no",
        }


def _scale(metric: str) -> tuple[float, str]:
    """Return what a metric is drawn in."""
    if metric in QUANTILES:
        return 1e-3, ", ms"
    return (100.0, ", %") if metric in (*SHARES, UNPROMISED) else (1.0, ", calls a second")


def largest_load(measure: Callable[[int], LoadStep], first: int, most: int) -> tuple[LoadStep, ...]:
    """Return the loads that were tried to find the largest that holds, in ascending order.

    `measure` makes a load of so many users; it begins with `first` and goes to at most `most`.
    """
    steps: dict[int, LoadStep] = {}
    low, high, users = 0, 0, min(first, most)
    while True:
        steps[users] = measure(users)
        if steps[users].holds:
            low = users
        else:
            high = users
        if not high:
            if low == most:
                break
            users = min(2 * low, most)
        elif high - low <= max(1, WITHIN * low):
            break
        else:
            users = (low + high) // 2
    return tuple(steps[users] for users in sorted(steps))


@dataclass(slots=True)
class Loads:
    """Loads of one deployment, which together spend no more than its cap (µUSD)."""

    options: "LoadOptions"
    profile: str
    length: int
    processes: int
    folder: Path
    spent: int = 0

    def measure(self, users: int, threshold: Threshold) -> LoadStep:
        """Load with so many users."""
        from ranksim.judge.load.loading import run_load
        from ranksim.judge.load.summary import Summary

        cap = self.options.target().spend_cap
        left = "" if cap is None else units.usd(max(0, cap - self.spent))
        options = replace(
            self.options, out=str(self.folder / f"users-{users}"), spend_cap=left or self.options.spend_cap
        )
        with show_progress(f"loading, {units.many(users, 'user')}") as tell:
            trace = run_load(
                options, profile=self.profile, length=self.length, users=users, processes=self.processes,
                progress=shares(tell),
            )  # fmt: skip
        summary = Summary.held_against(trace, [threshold], self.options.target().policy)
        self.spent += summary.used_up.spent()
        counts, value = summary.all_calls, summary.measured(threshold)
        return LoadStep(
            users, value, threshold.holds(value), counts.calls, counts.value("rate") or 0.0,
            counts.value("limited") or 0.0,
        )  # fmt: skip
