"""How many users a deployment bears: loads of so many users each, until a threshold no longer holds.

The number is doubled while the threshold holds, then what lies between is halved (bisection).
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.core.errors import BadInput
from ranksim.judge.load.cli_options import DryRunOnly, Exclusive, Key, SpendCap, TargetFile, hold_key
from ranksim.judge.load.thresholds import QUANTILES, SHARES, Threshold, value_text
from ranksim.planner.capacity.command import give
from ranksim.planner.question import command
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer, Row, Tables, TableSpec
from ranksim.report.progress import shares, show_progress

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

    def tables(self) -> Tables:
        """One row a load."""
        return {"answer": [self._row(step) for step in self.steps]}

    def draw(self, name: str = "", ax: "Axes | None" = None) -> "Axes":
        """Draw the metric against the users. Raises BadInput without matplotlib."""
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
    return (100.0, ", %") if metric in SHARES else (1.0, ", calls a second")


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


def load(
    threshold: Annotated[
        str, typer.Argument(metavar="THRESHOLD", help="What must hold, such as 'p95 < 500ms'.")
    ],
    host: Annotated[str, typer.Option(metavar="URL", help="The base URL of the deployment.")] = "",
    key: Key = "",
    target: TargetFile = None,
    profile: Annotated[str, typer.Option(help="What the users do.")] = "everyday",
    first: Annotated[int, typer.Option(min=1, help="How many users to begin with.")] = 10,
    most: Annotated[int, typer.Option(min=1, help="How many users to try at most.")] = 640,
    duration: Annotated[str, typer.Option(metavar="LENGTH", help="How long each load goes on.")] = "30s",
    traces: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the traces of the loads below this directory.")
    ] = None,
    spend_cap: SpendCap = "",
    dry_run_only: DryRunOnly = False,
    exclusive: Exclusive = None,
    processes: Annotated[int, typer.Option(min=1, help="Worker processes that share the users.")] = 1,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before making what cannot be removed again.")
    ] = False,
) -> LoadCapacity:
    """How many users a deployment bears before a threshold no longer holds.

    Each load is one of `ranksim load`, which makes what it needs and removes it. The users are doubled, then
    halved between, until the answer is known to a twentieth. All loads together spend at most --spend-cap.

    Example: ranksim capacity load 'p95 < 500ms' --target deployment.yaml --first 10
    """
    from tempfile import TemporaryDirectory

    from ranksim.bridges.load_cli import agreed, check_locust
    from ranksim.judge.load.options import LoadOptions, length_of
    from ranksim.judge.profiles import profile as profile_named

    check_locust()
    wanted = Threshold.parse(threshold)
    if wanted.metric == "rate":
        raise BadInput("THRESHOLD: more users always call more often; expected a latency or a share")
    chosen = profile_named(profile)
    hold_key(host, key, target)
    options = LoadOptions.from_arguments(
        host, target or "", "", spend_cap, dry_run_only, exclusive, False, None
    )
    deployment = options.target()
    if not agreed(deployment, yes=yes):
        raise BadInput("--yes: expected agreement to what cannot be removed again")
    with TemporaryDirectory(prefix="ranksim-loads-") as folder:
        runs = _Loads(options, chosen.name, length_of(duration), processes, traces or Path(folder))
        return LoadCapacity(wanted, largest_load(lambda users: runs.measure(users, wanted), first, most))


@dataclass(slots=True)
class _Loads:
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
        summary = Summary.of(trace)
        self.spent += summary.used_up.spent()
        counts, value = summary.all_calls, summary.measured(threshold)
        return LoadStep(
            users, value, threshold.holds(value), counts.calls, counts.value("rate") or 0.0,
            counts.value("limited") or 0.0,
        )  # fmt: skip


QUESTIONS = {"load": (command(load, give), (load.__doc__ or "").splitlines()[0])}
"""What `ranksim capacity` answers by loading a deployment."""
