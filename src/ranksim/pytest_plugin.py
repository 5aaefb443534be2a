"""The pytest plugin: fixtures of a fake deployment, and scenario files that are tests.

`ranksim` is one world per test (`ranksim.testing.World`), `ranksim_clock` its clock, `ranksim_receiver` a
recording webhook receiver, `ranksim_server` the same world on a port. The environment variable RANKSIM_TARGET
(inproc, server, or the URL of a real sandbox, with RANKSIM_KEY) says what the tests run on.

When a test fails, its report has the clock of each of its worlds and their last requests, with what refused
them.

Every scenario file in a tested directory is a test of its own expectations. A file is a scenario when its
name matches the ini option `ranksim_scenarios` ("*.yaml") and one of its first lines says `scenario: 1`.
Where `expected/NAME.json` stands beside it, the digest of the result must equal it; `--ranksim-update`
writes it anew. Loading the plugin imports nothing of the simulation or of the facade.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator, Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from ranksim.core.errors import BadInput
from ranksim.core.extras import missing

if TYPE_CHECKING:
    from ranksim.testing import Clock, Deployment, Receiver, World
    from ranksim.twin.sim.results import Result

SCENARIO = re.compile(r"scenario:\s*\d+\s*(#.*)?$")
LOOKED_AT = 20
"""How many lines of a file, comments apart, may come before and with `scenario: 1`."""

MOST_DIFFERENCES = 20

OWN = ("ranksim", "concurrent", "asyncio")
"""Packages whose frames say nothing of a user's mistake."""

MOST_WORLDS = 3
"""Open worlds, besides those that a failed test names, that say how they stand."""


MARKER = (
    "ranksim(world, plan, policy, seed, clock, start, traffic_clock, signature_clock, strict_query, "
    "strict_body, control_token): the world that the ranksim fixtures give; policy is a Policy and world a "
    "Scenario, or a path relative to the test's file"
)

SETTINGS = {
    "world", "plan", "policy", "seed", "clock", "start",
    "traffic_clock", "signature_clock", "settle_timeout", "strict_query", "strict_body", "control_token",
}  # fmt: skip
"""What the marker may say: settings of `ranksim.testing.World`."""


class ScenarioFailed(Exception):
    """A scenario did not do what it promises; the message is for people."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the ini setting."""
    parser.addini("ranksim_scenarios", "file names collected as ranksim scenarios (a glob)", default="*.yaml")
    parser.getgroup("ranksim").addoption(
        "--ranksim-update",
        action="store_true",
        help="write expected/NAME.json beside every ranksim scenario that runs, instead of comparing with it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


# Fixtures


@pytest.fixture(name="ranksim")
def _ranksim(request: pytest.FixtureRequest) -> Iterator[World | Deployment]:
    """A fake deployment of the test's own; what RANKSIM_TARGET names if it is set."""
    try:
        from ranksim.testing import open_target

        target = os.environ.get("RANKSIM_TARGET", "") or "inproc"
        if target == "inproc" and "ranksim_server" in request.fixturenames:
            target = "server"
        world = open_target(target, os.environ.get("RANKSIM_KEY", ""), **marked(request.node))
    except BadInput as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    except ModuleNotFoundError as error:
        needs = missing(f"the fixtures of ranksim need {error.name}", "server")
        raise pytest.fail.Exception(str(needs), pytrace=False) from None
    with world:
        yield world


@pytest.fixture(name="ranksim_server")
def _ranksim_server(ranksim: World | Deployment) -> World | Deployment:
    """The same, listening at its `url`."""
    return ranksim


@pytest.fixture(name="ranksim_clock")
def _ranksim_clock(ranksim: World | Deployment) -> Clock:
    """The clock of the test's world; on a real deployment the test is skipped."""
    clock: Clock = ranksim.clock
    return clock


@pytest.fixture(name="ranksim_receiver")
def _ranksim_receiver(ranksim: World | Deployment) -> Receiver:
    """A recording receiver of the world's webhooks; on a real deployment the test is skipped."""
    receiver: Receiver = ranksim.receiver()
    return receiver


def marked(item: pytest.Item) -> dict[str, Any]:
    """What the `ranksim` markers of a test say; the closest one wins. Raises BadInput."""
    settings: dict[str, Any] = {}
    for marker in item.iter_markers("ranksim"):
        if unknown := marker.kwargs.keys() - SETTINGS:
            choices = ", ".join(sorted(SETTINGS))
            raise BadInput(f"marker ranksim: {min(unknown)} is unknown; it takes {choices}")
        if marker.args:
            raise BadInput("marker ranksim: expected settings by name, such as plan='starter'")
        settings = {**marker.kwargs, **settings}
    for name in ("policy", "world"):
        if isinstance(settings.get(name), str | Path):
            settings[name] = item.path.parent / settings[name]
    return settings


# What a world tells when a test fails


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section to the report of a test that failed: what each of its worlds tells."""
    if call.excinfo is not None and _is_mistake(call.excinfo.value):
        call.excinfo = without_own_frames(call.excinfo)
    report = yield
    if report.failed and report.when == "call" and call.excinfo is not None:
        for world in _worlds(item, call.excinfo):
            report.sections.append((f"ranksim {world.url}", _explained(world)))
    return report


def _explained(world: World) -> str:
    """Return what a world tells, or why it cannot: an error here would end the whole session."""
    try:
        return world.told()
    except Exception as error:
        return f"this world cannot be shown ({type(error).__name__}: {error})"


def _is_mistake(error: BaseException) -> bool:
    """Return whether an error is about what a test asks of a world, not about ranksim."""
    clock = sys.modules.get("ranksim.twin.testing.clock")
    return isinstance(error, BadInput) or (clock is not None and isinstance(error, clock.NotSettled))


def without_own_frames(failure: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    """Let the traceback of a user's mistake end in the user's code."""
    frames = [
        entry
        for entry in iter_frames(failure.tb)
        if entry.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in OWN
    ]
    trace = None
    for entry in reversed(frames):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    if trace is None:
        return failure
    return pytest.ExceptionInfo.from_exception(failure.value.with_traceback(trace))


def iter_frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the entries of a traceback, the outermost first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _worlds(item: pytest.Item, failure: pytest.ExceptionInfo[BaseException]) -> list[World]:
    """Find a test's worlds: its fixtures', its class's, those of functions that failed, and open ones."""
    testing = sys.modules.get("ranksim.twin.testing.world")
    if testing is None:  # a suite that has no world pays nothing
        return []
    of_class: dict[str, Any] = getattr(getattr(item, "instance", None), "__dict__", {})
    seen = [*getattr(item, "funcargs", {}).values(), *of_class.values()]
    for entry in failure.traceback:
        seen += entry.frame.f_locals.values()
    seen += sorted(testing.OPEN, key=lambda world: str(world.url))[:MOST_WORLDS]
    # by its type alone: what a proxy of a variable says of its class may raise
    worlds = {
        id(candidate): candidate
        for candidate in seen
        if issubclass(type(candidate), testing.World) and candidate.begun
    }
    return list(worlds.values())


# Scenarios


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Collect a file that is a scenario."""
    if fnmatch(file_path.name, parent.config.getini("ranksim_scenarios")) and is_scenario(file_path):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


def is_scenario(path: Path) -> bool:
    """Return whether a file says near its top that it is a scenario, without reading it as YAML.

    One that cannot be read says nothing.
    """
    try:
        return _says_so(path)
    except OSError:
        return False


def _says_so(path: Path) -> bool:
    seen = 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip() or line.startswith(("#", "---", "%")):
                continue
            if SCENARIO.match(line.rstrip()):
                return True
            seen += 1
            if seen >= LOOKED_AT:
                break
    return False


class ScenarioFile(pytest.File):
    """A scenario file."""

    def collect(self) -> Iterator[ScenarioItem]:
        """Return its one test."""
        yield ScenarioItem.from_parent(self, name="scenario")


class ScenarioItem(pytest.Item):
    """Run a scenario; it passes when its expectations hold and its digest is the expected one."""

    def runtest(self) -> None:
        """Run it. Raises BadInput or ScenarioFailed."""
        from ranksim import Scenario, run
        from ranksim.twin.sim.expectations import judge_expectations

        scenario = Scenario.load(self.path)
        result = run(scenario)
        problems = [
            finding.text for finding in judge_expectations(scenario.expect, result) if not finding.passed
        ]
        expected = self.path.parent / "expected" / f"{self.path.stem}.json"
        actual = result_digest(result)
        if self.config.getoption("--ranksim-update"):
            write_digest(expected, actual)
        elif expected.exists():
            problems += compare_digests(expected, actual)
        if problems:
            raise ScenarioFailed("\n".join(problems))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what failed without a traceback, unless it is an error of the program."""
        if isinstance(excinfo.value, (BadInput, ScenarioFailed)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name the test in reports."""
        return self.path, 0, f"scenario {self.path.stem}"


def result_digest(result: Result) -> dict[str, Any]:
    """A small summary of a result, rounded to whole numbers, that a change of behaviour would change."""
    tables = result.tables

    def counts(table: str, *names: str, of: str = "count") -> dict[str, int]:
        return {" ".join(str(row[name]) for name in names): round(row[of]) for row in tables[table]}

    def several(table: str, name: str, columns: tuple[str, ...]) -> dict[str, dict[str, int]]:
        return {row[name]: {column: round(row[column] or 0) for column in columns} for row in tables[table]}

    waits = ("wait_mean", "wait_p50", "wait_p95", "wait_p99")
    events = ("events", "acknowledged", "lost", "pending", "duplicates", "disabled")
    return {
        "scenario": result.scenario,
        "seed": result.seed,
        "replications": len(result.replications),
        "calls": counts("calls", "client", "operation", "outcome", "status"),
        "refusals": counts("refusals", "client", "operation", "check", "code"),
        "jobs": several("jobs", "kind", ("queued", "done", "failed", "joined", *waits)),
        "attempts": counts("deliveries", "endpoint", "attempt", of="sent"),
        "endpoints": several("endpoints", "endpoint", events),
    }


def write_digest(path: Path, actual: dict[str, Any]) -> None:
    """Write an expected digest, atomically."""
    from ranksim.core.files import write_file

    write_file(path, json.dumps(actual, indent=2, sort_keys=True) + "\n")


def compare_digests(expected: Path, actual: dict[str, Any]) -> list[str]:
    """The differences between the expected digest and the one found, one line each. Raises BadInput."""
    try:
        wanted = json.loads(expected.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"{expected}: not valid JSON ({error}); write it with --ranksim-update") from None
    lines = list(json_differences(wanted, actual))
    left_out = len(lines) - MOST_DIFFERENCES
    if left_out > 0:
        lines[MOST_DIFFERENCES:] = [f"and {left_out} more"]
    if lines:
        lines.insert(
            0, f"differs from {expected.parent.name}/{expected.name} (--ranksim-update writes it anew):"
        )
    return lines


def json_differences(wanted: Any, actual: Any, where: str = "") -> Iterator[str]:
    """Yield where two JSON values differ."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        for key in sorted({*wanted, *actual}):
            yield from json_differences(
                wanted.get(key), actual.get(key), f"{where} / {key}" if where else key
            )
    elif isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        for index, (left, other) in enumerate(zip(wanted, actual, strict=True)):
            yield from json_differences(left, other, f"{where} / {index}")
    elif wanted != actual:
        yield f"  {where}: expected {json.dumps(wanted)}, found {json.dumps(actual)}"
