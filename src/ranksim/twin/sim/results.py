"""The result of a scenario: replications in, tables, metrics, frames and plots out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from ranksim.core.errors import BadInput, check_kind, read_at
from ranksim.core.extras import imported
from ranksim.core.files import ITS_SCENARIO, MARKER, new_directory, write_text
from ranksim.inference.differences import compared
from ranksim.inference.estimate import LEVEL
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.ratios import relative_change
from ranksim.report import document
from ranksim.report.heading import ExpectationVerdict, answer_of, run_overview, verdict_on
from ranksim.report.measured import MetricComparison, MetricEstimate
from ranksim.report.readings import NO_READINGS
from ranksim.report.units import difference_unit, first_of, many
from ranksim.twin.sim import tables
from ranksim.twin.sim.metrics import (
    WITHIN,
    Scalars,
    check_name,
    sample_of,
    scalars,
    unit_of,
    unknown,
    values_of,
    with_share,
)
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.scenario_fields import settings_that_differ

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ranksim.report.heading import Heading
    from ranksim.report.progress import Tell
    from ranksim.twin.sim.expectations import Expectation
    from ranksim.twin.sim.scenario import Scenario
    from ranksim.twin.sim.why.explanation import Why


ALONE = "JSON alone knows no scenario; `Result.load` the directory of `ranksim run --out`, or run it again"
"""What a result lacks for its heading, summary, page and why."""


MOST_DIFFERING = 5
"""So many settings in which two results differ are named."""

MOST_IN_TITLE = 2
"""So many of them are named in the title of a comparison of two of one name."""


class _Frame(property):
    """A table of a result as a frame, under the table's name."""

    def __init__(self, sentence: str) -> None:
        super().__init__(lambda result: result.frame(self.table))
        self.__doc__ = sentence

    def __set_name__(self, owner: type, name: str) -> None:
        self.table = name

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type, /) -> Self: ...
        @overload
        def __get__(self, instance: Any, owner: type | None = None, /) -> pd.DataFrame: ...
        def __get__(self, instance: Any, owner: type | None = None, /) -> Any: ...


class Result:
    """What the replications of one scenario gave.

    `level` is that of every confidence interval. `remarks` are sentences on the run as a whole.
    `expectations` are verdicts that were given earlier, where there is no scenario (`of`) to give them.
    `fixed` is how metrics begin of which nothing is drawn, "" for all: these have no interval. `readings` are
    what other assumptions would make of it, where they were tried.
    """

    def __init__(
        self,
        scenario: str,
        seed: int,
        replications: Sequence[Replication],
        *,
        level: float = LEVEL,
        remarks: Iterable[str] = (),
        expectations: Iterable[ExpectationVerdict] = (),
        fixed: Iterable[str] = (),
        of: Scenario | None = None,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.replications = list(replications)
        self.level = level
        self.remarks = list(remarks)
        self.fixed = tuple(fixed)
        self.readings = NO_READINGS
        self._expectations = tuple(expectations)
        self._of = of
        self._shares = [] if of is None else [each.metric for each in of.expect if WITHIN in each.metric]

    def __repr__(self) -> str:
        replications = many(len(self.replications), "replication")
        return f"<Result of {self.scenario!r}: seed {self.seed}, {replications}>"

    def _repr_html_(self) -> str:
        from ranksim.report.summary import run_views
        from ranksim.report.tables import fragment

        if self._of is None:
            return fragment(self.scenario, [repr(self)], run_views(self.tables))
        heading = self.heading
        verdicts = [
            f"{'holds' if verdict.holds else 'failed'}: {verdict.text}" for verdict in heading.verdicts
        ]
        lines = [heading.line, heading.averaged, heading.verdict, *verdicts]
        title, answer = heading.title or self.scenario, answer_of(heading, self.tables)
        return fragment(title, lines, run_views(self.tables), answer)

    # What was asked

    @property
    def heading(self) -> Heading:
        """The facts of the run and the verdict on it. Raises BadInput for a result from JSON alone."""
        from ranksim.twin.sim.result_heading import heading_of  # most results are asked for numbers alone

        return heading_of(self._its_scenario(), self)

    def _its_scenario(self) -> Scenario:
        if self._of is None:
            raise BadInput(f"{self.scenario}: {ALONE}")
        return self._of

    @property
    def expectations(self) -> tuple[ExpectationVerdict, ...]:
        """Whether each expectation `holds`, and a sentence (`text`) on it. Raises BadInput."""
        return self._expectations if self._of is None else self.heading.verdicts

    def summary(self) -> str:
        """Return what `ranksim run` prints. Raises BadInput for a result from JSON alone."""
        from ranksim.report.summary import summary
        from ranksim.report.terminal import rendered

        return rendered(summary(self.heading, self.tables))

    def page(self, plots: bool = True) -> str:
        """Return the HTML page that `ranksim run --out` writes. Raises BadInput."""
        from ranksim.report.summary import run_page

        return run_page(self.heading, self.tables, _drawing().svgs(self.tables) if plots else {})

    def why(
        self,
        asked: str | Expectation | ExpectationVerdict,
        futures: int = 20,
        progress: Tell | None = None,
        max_worlds: int | None = None,
    ) -> Why:
        """Tell when something became inevitable, and the change that would have prevented it.

        `asked` is a metric that only grows, such as refusals.slot_limit_exceeded, which asks for the first,
        or a metric and a bound, `jobs.rank_run.wait.max > 10m`, or one of `expectations`, which asks why it
        fails; the first replication that shows it is looked at. `futures` other futures of each moment and
        other worlds of each change are tried, in about `max_worlds` worlds at most. `progress` is told how
        many worlds have been run; without it a notebook shows that. Raises BadInput where it did not happen,
        and for a result from JSON alone.
        """
        from ranksim.twin.sim.why.answer import why  # most results are asked for numbers alone

        seeds = [replication.seed for replication in self.replications]
        return why(self._its_scenario(), seeds, asked, futures, progress, max_worlds)

    # Numbers

    @cached_property
    def scalars(self) -> list[Scalars]:
        """The metrics of each replication, with the shares of waits that are expected."""
        plain = [scalars(replication) for replication in self.replications]
        for metric in self._shares:
            plain = with_share(self.replications, plain, metric)
        return plain

    @cached_property
    def _names(self) -> list[str]:
        return sorted({name for values in self.scalars for name in values})

    @cached_property
    def metrics(self) -> dict[str, document.MetricShown]:
        """All metrics by name, as in JSON: `unit`, `value`, `low`, `high`; `metric` has one in its unit."""
        return {name: document.metric(unit_of(name), self.metric(name)) for name in self._names}

    def values(self, metric: str) -> list[float | None]:
        """Return a metric of each replication, None where nothing was observed. Raises BadInput."""
        self._check(metric)
        return values_of(with_share(self.replications, self.scalars, metric), metric)

    def sample(self, metric: str) -> MetricSample:
        """Return a metric of each replication with what its interval goes by. Raises BadInput."""
        self._check(metric)
        plain = with_share(self.replications, self.scalars, metric)
        return sample_of(plain, metric)._replace(drawn=not metric.startswith(self.fixed))

    def _check(self, metric: str) -> None:
        check_kind("metric", metric, str, "the name of one, as in `metrics`")
        if WITHIN in metric:
            read_at(self.scenario, check_name, metric)
        elif metric not in self._names:
            raise BadInput(f"{self.scenario}: {unknown(metric, self._names)}")

    def metric(self, name: str) -> MetricEstimate:
        """Return a metric's mean over replications and its interval (mean, low, high), None where unknown.

        It shows itself in its `unit`; as numbers durations are µs, money µUSD. A share of calls is that of
        the calls of all replications. Raises BadInput for a metric that does not exist.
        """
        return MetricEstimate(*interval(self.sample(name), self.level), unit_of(name), name)

    def compare(self, other: Result, metrics: Iterable[str] | None = None) -> MetricComparison:
        """Compare with another result, replication by replication: rows of self (b) minus other (a).

        A notebook shows what changed; `frame()` has all in units of pandas, what changed first. A row has the
        `metric`, its `unit`, the means `a` (other) and `b` (self), the `difference` b − a with its interval
        `low` to `high` in `difference_unit` (the same, but of instants a duration), and `gain`: how many
        times more replications independent runs would have needed for the same interval, with its own
        interval, None when nothing varies or seeds differ; how many `pairs`, in how many of them, `agreeing`,
        the difference has its sign, and whether it is `sure` (docs/statistics.md). Pairs share their random
        numbers when both results have the same seed. `metrics`, one or more, are those of both unless given,
        and shares of waits (`jobs.KIND.wait.within.10m`) that either expects. `notes` say what differs.
        Raises BadInput.
        """
        check_kind("compare", other, Result, "another result of `ranksim.run`")
        shared = {*self._names} & {*other._names} | {*self._shares, *other._shares}
        names = sorted(shared) if metrics is None else _several(metrics)
        samples = {name: (self.sample(name), other.sample(name)) for name in names}
        rows = {name: compared(*both, self.level) for name, both in samples.items()}
        units = {name: unit_of(name) for name in rows}
        compared_rows = (
            {"metric": name, "unit": units[name], "difference_unit": difference_unit(units[name])}
            | row._asdict()
            | ({} if self.seed == other.seed else dict.fromkeys(("gain", "gain_low", "gain_high")))
            for name, row in rows.items()
            if row.pairs
        )
        differing = None
        if self._of is not None and other._of is not None:
            differing = settings_that_differ(other._of, self._of)
        remarks = self._how_compared(other, differing)
        title = first_of(differing or (), MOST_IN_TITLE)
        changes = {name: relative_change(*both, self.level) for name, both in samples.items()}
        goals = [each.metric for of in (self._of, other._of) if of is not None for each in of.expect]
        return MetricComparison(other.scenario, self.scenario, compared_rows, remarks, title, changes, goals)

    def _how_compared(self, other: Result, differing: list[str] | None) -> Iterator[str]:
        """What differs between two results, None if nobody knows, and what is paired."""
        if differing:
            yield f"What differs, A and B: {first_of(differing, MOST_DIFFERING)}."
        if self.seed != other.seed and differing == []:
            yield f"Nothing but the seed differs: {other.seed} and {self.seed}."
        elif self.seed != other.seed:
            seeds = f"{other.seed} and {self.seed}"
            yield f"Seeds differ, {seeds}: pairs share no random numbers, so there is no gain."
        a, b = len(other.replications), len(self.replications)
        if a != b:
            yield f"Of {a} and {b} replications the first {min(a, b)} of both are compared."

    # Tables

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the run and on its replications, each once; `frame("notes")` says on which."""
        rows = Counter(row["text"] for row in self.tables["notes"])
        most = len(self.replications)
        return tuple(
            text if text in self.remarks or number == most else f"in {number} of {most} replications {text}"
            for text, number in rows.items()
        )

    @cached_property
    def tables(self) -> dict[str, tables.Rows]:
        """All tables as plain rows; `tables.COLUMNS` names their columns."""
        return tables.build(self.replications, self.level, self.remarks, self.fixed)

    def frame(
        self, name: str = "totals", integers: bool = False, *, metrics: Iterable[str] | None = None
    ) -> pd.DataFrame:
        """Return a table as a pandas frame, with units.

        Instants are UTC datetimes, durations timedeltas, and money is in dollars: a column `…_uusd` is then
        named `…_usd`. With `integers` times stay µs and money µUSD. Ends of intervals that are unknown, as
        those of one replication, are NaN or NaT. `replications` has a row a replication and a column for each
        of `metrics`, or of those named, under its name also where it is money. Of a table whose rows have
        units `NAME.UNIT` is those of one unit, such as totals.money, which columns name: `value_usd`, with
        `integers` `value_uusd` and of times `value_us`. Raises BadInput when there is no such table or
        metric, or no pandas.
        """
        from ranksim.report import frames

        if name == "replications":
            return self._by_replication(integers, metrics)
        if metrics is not None:
            raise BadInput(f"frame: metrics are of the table replications, found {name!r}")
        rows = frames.rows_named({**self.tables, "replications": ()}, name)
        table = str(name).partition(".")[0]
        pandas = imported("pandas", "frames need pandas", "plots")
        columns = list(tables.COLUMNS[table])
        frame: pd.DataFrame = frames.typed_without_rows(pandas.DataFrame(rows, columns=columns), {})
        by_row = [column for column in columns if column not in tables.WORDS] if "unit" in frame else []
        if not integers:
            frame = frames.with_units_of_rows(frames.with_units(frame, tables.quantities(table)), by_row)
        frame = frames.with_number_ends(frame).rename(columns=tables.names_of_money(table, integers=integers))
        return frames.named_by_unit(frame, name, by_row, integers)

    def _by_replication(self, integers: bool, metrics: Iterable[str] | None) -> pd.DataFrame:
        from ranksim.report.frames import IN_MICROS, with_units

        pandas = imported("pandas", "frames need pandas", "plots")
        columns: dict[str, Sequence[float | None]]
        if metrics is None:
            columns = {name: [values.get(name) for values in self.scalars] for name in self._names}
        else:
            columns = {name: self.values(name) for name in _several(metrics)}
        index = pandas.RangeIndex(len(self.replications), name="replication")
        frame: pd.DataFrame = pandas.DataFrame(columns, index=index)
        frame = frame.astype({name: float for name in columns if frame[name].isna().all()})
        units = {name: unit_of(name) for name in columns}
        return frame if integers else with_units(frame, {n: u for n, u in units.items() if u in IN_MICROS})

    @property
    def plots(self) -> tuple[str, ...]:
        """The names of the plots of what was used. Raises BadInput without matplotlib."""
        return tuple(_drawing().drawable(self.tables))

    def plot(self, name: str = "", ax: Axes | None = None) -> Axes:
        """Draw one of `plots`, the first unless it is named.

        Raises BadInput when there is no such plot, or no matplotlib.
        """
        plot: Callable[..., Axes] = _drawing().plot
        return plot(self.tables, name, ax=ax)

    totals = _Frame("The few numbers to see first, each with its interval.")
    operations = _Frame("Calls by operation, outcome and status, of all clients together.")
    codes = _Frame("Refused calls by check and code, all clients together, and their share of all refusals.")
    levels = _Frame("How full slots, allowances and a month's provider cost were, at the end and at most.")
    calls = _Frame("Calls by client, operation, outcome and status.")
    refusals = _Frame("Refused calls by code and check, and their share of a client's calls of an operation.")
    given_up = _Frame("Calls whose last try the rate limit refused, by client, operation and tries.")
    windows = _Frame("Rate windows over time: calls since the sample before, what remained, how full it was.")
    queues = _Frame("Worker pools over time: the most jobs that ran and waited since the sample before.")
    meters = _Frame("Metered allowances over time.")
    slots = _Frame("Keyword slots over time.")
    spend = _Frame("Provider cost of the month over time, in dollars.")
    windows_by_hour = _Frame("Rate windows of long runs: the most that they held in an hour, by hour of day.")
    windows_by_day = _Frame("Rate windows of long runs: the most that they held each day, and in which hour.")
    queues_by_hour = _Frame("Jobs that ran or waited in long runs: the most in an hour, by hour of the day.")
    queues_by_day = _Frame("Jobs that ran or waited in long runs: the most each day, and in which hour.")
    delivering_by_hour = _Frame(
        "How late webhook events of long runs arrived, by the hour in which they came."
    )
    delivering_by_day = _Frame(
        "The longest delay of webhook events of each day of long runs, and how many were lost."
    )
    jobs = _Frame("Jobs of each pool, their waits and the pool's utilisation.")
    attempts = _Frame("Webhook attempts by attempt number, of all endpoints together.")
    deliveries = _Frame("Webhook attempts by endpoint and attempt number.")
    answers = _Frame("Webhook attempts by endpoint and the status or error seen.")
    delays = _Frame("Time from event to acknowledgement, by endpoint and quantile.")
    endpoints = _Frame("What became of each endpoint's events.")
    delivering = _Frame("Webhooks over time: attempts, and of events the longest delay and how many lost.")
    outages = _Frame("When receivers of webhooks were down.")
    disabled = _Frame("When failures had disabled webhook endpoints.")

    # JSON

    def to_json(self) -> str:
        """Write the result as JSON text, the same bytes for equal results. Raises BadInput."""
        plain = document.document(
            "run",
            self.scenario,
            answer=verdict_on(self.expectations) if self.expectations else run_overview(self.tables),
            notes=[*self.readings.around(), *self.remarks],
            metrics=self.metrics,
            expectations=self.expectations,
            tables={**self.tables, **self.readings.tables()},
            scenario=self.scenario,
            seed=self.seed,
            level=self.level,
            fixed=list(self.fixed),
            replications=[replication.to_plain() for replication in self.replications],
        )
        return document.as_text(plain)

    def save(self, directory: str | Path, plots: bool = True) -> None:
        """Write what `ranksim run --out` writes, without a trace, all or nothing; `load` reads it.

        The directory must be new, empty, or results written earlier, which are replaced. Raises BadInput, as
        for a result from JSON alone, and with `plots` without matplotlib.
        """
        check_kind("directory", directory, str | Path, "the path of a directory")
        heading = self.heading
        with new_directory(Path(directory)) as folder:
            self.write_into(folder, heading, plots)

    def write_into(self, folder: Path, heading: Heading, plots: bool) -> None:
        """Write what `save` does into a directory that is empty; the page has this heading."""
        from ranksim.report.frames import save_tables
        from ranksim.report.summary import run_page

        write_text(folder / MARKER, self.to_json())
        write_text(folder / ITS_SCENARIO, json.dumps(self._its_scenario().model_dump(mode="json")))
        (folder / "tables").mkdir()
        save_tables(
            {name: tables.in_files(name, rows) for name, rows in self.tables.items()},
            {name: tables.quantities_in_files(name) for name in self.tables},
            folder / "tables",
        )
        images = {}
        if plots:
            (folder / "plots").mkdir()
            images = _drawing().save_all(self.tables, folder / "plots")
        write_text(folder / "page.html", run_page(heading, self.tables, images))

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read the result.json that `save` or `ranksim run --out` wrote, or the directory with it.

        `heading`, `summary`, `page` and `why` take the scenario.json beside it; which assumptions
        were read is not kept. Raises BadInput.
        """
        check_kind("result", path, str | Path, "the path of a result")
        if str(path).lstrip().startswith("{"):
            raise BadInput(
                "result: expected a path, found JSON; `Result.from_json` reads the text of a result"
            )
        file = Path(path, MARKER) if Path(path).is_dir() else Path(path)
        try:
            read = cls.from_json(file.read_text(encoding="utf-8"), str(file))
        except UnicodeDecodeError:
            raise BadInput(f"{file}: is no text; give a result.json, or the directory with it") from None
        except OSError as error:
            raise BadInput(
                f"{file}: cannot be read ({error.strerror}); give a directory that `ranksim run --out` wrote"
            ) from None
        if file.name == MARKER and (file.parent / ITS_SCENARIO).exists():
            from ranksim.twin.sim.why.saved import saved_run

            with suppress(BadInput):  # of another version, say: its numbers are there all the same
                read._of, _ = saved_run(file.parent)
        return read

    @classmethod
    def from_json(cls, text: str, where: str = "result") -> Result:
        """Read what `to_json` wrote; `where` names it in errors. Raises BadInput."""
        check_kind(where, text, str | bytes, "the text that `to_json` gave; `Result.load` reads a file")
        try:
            plain = json.loads(text)
        except ValueError as error:
            raise BadInput(
                f"{where}: not JSON: {error}; give a result that ranksim wrote, or its path to `Result.load`"
            ) from None
        if not document.is_a("run", plain):
            raise BadInput(
                f"{where}: expected a result of ranksim run, version {document.VERSION}; write it again"
            )
        try:
            replications = [Replication(**replication) for replication in plain["replications"]]
            read = cls(
                plain["scenario"],
                plain["seed"],
                replications,
                level=plain["level"],
                remarks=plain["notes"],
                expectations=[ExpectationVerdict(**verdict) for verdict in plain["expectations"]],
                fixed=plain.get("fixed", ()),
            )
            read._shares = [metric for metric in plain["metrics"] if WITHIN in metric]
            _ = read.scalars  # which want every field that this version counts
            return read
        except (KeyError, TypeError) as error:
            raise BadInput(f"{where}: not a complete result ({error}); write it again") from None


def _several(metrics: Iterable[str]) -> list[str]:
    """Names of metrics; one is a list of itself. Raises BadInput."""
    check_kind("metrics", metrics, Iterable, "names, as `metrics` has them")
    return [metrics] if isinstance(metrics, str) else list(metrics)


def _drawing() -> Any:
    """The plots, which want matplotlib. Raises BadInput without it."""
    imported("matplotlib", "plots need matplotlib", "plots")
    return import_module("ranksim.report.plots")
