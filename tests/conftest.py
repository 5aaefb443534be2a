"""What every test shares: the `fact` marker, the Hypothesis profiles and one printed seed."""

from __future__ import annotations

import gc
import math
import os
import random
import re
import signal
from collections.abc import Generator

import hypothesis
import pytest

HIGHEST = {"S": 115, "U": 112, "E": 50}

hypothesis.settings.register_profile(
    "dev",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    max_examples=20,
)
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("dev"), max_examples=100)


@pytest.fixture(autouse=True)
def the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, no line says how far something is; and stdout is as wide as a pipe.

    Processes that share tests are told a width of their own.
    """
    monkeypatch.setattr("ranksim.report.progress.PATIENCE", math.inf)
    monkeypatch.delenv("COLUMNS", raising=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fact", action="append", help="run only tests that claim this fact; may be repeated")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the profile and fix one Hypothesis seed for the run, so that any failure can be repeated.

    A shell has what it starts in the background ignore interrupts. The programs that tests start and
    interrupt would inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("--hypothesis-profile", None):
        hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")
    if config.getoption("--hypothesis-seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect with the garbage collector off, then leave out of its sight what collecting made.

    That is a million objects which live as long as the run does. To walk them takes a quarter of the time of
    collecting, and again some of that of each test which makes many objects.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.getoption("--hypothesis-seed")
    return f"seed: repeat with --hypothesis-seed={seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `--fact` does not ask for."""
    wanted = set(config.getoption("--fact") or ())
    if wanted:
        config.hook.pytest_deselected(items=[item for item in items if not wanted & claimed_by(item)])
        items[:] = [item for item in items if wanted & claimed_by(item)]


def claimed_by(item: pytest.Item) -> set[object]:
    """Give the facts that the markers of a test claim."""
    return {number for marker in item.iter_markers("fact") for number in marker.args}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose `fact` marker names a number that the specification does not have."""
    for marker in item.iter_markers("fact"):
        wrong = [number for number in marker.args if not is_fact(number)]
        if wrong or not marker.args:
            known = ", ".join(f"{letter}1-{letter}{last}" for letter, last in HIGHEST.items())
            pytest.fail(f"a fact marker takes numbers among {known}, not {wrong}", pytrace=False)


def is_fact(number: object) -> bool:
    """Tell whether `number` names a fact, as "S47" does."""
    match = re.fullmatch(r"([SUE])([1-9]\d*)", number) if isinstance(number, str) else None
    return match is not None and int(match[2]) <= HIGHEST[match[1]]
