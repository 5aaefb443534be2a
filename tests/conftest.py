"""What every test shares: the `fact` marker, the Hypothesis profiles and one printed seed."""

from __future__ import annotations

import os
import random
import re

import hypothesis
import pytest

HIGHEST = {"S": 115, "U": 110, "E": 50}

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, max_examples=60)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the profile and fix one Hypothesis seed for the run, so that any failure can be repeated."""
    if not config.getoption("--hypothesis-profile", None):
        hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")
    if config.getoption("--hypothesis-seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.getoption("--hypothesis-seed")
    return f"seed: repeat with --hypothesis-seed={seed}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a `fact` marker whose number the specification does not have."""
    wrong = [
        f"{item.nodeid}: {number!r}"
        for item in items
        for marker in item.iter_markers("fact")
        for number in marker.args or ("no number",)
        if not is_fact(number)
    ]
    if wrong:
        known = ", ".join(f"{letter}1-{letter}{last}" for letter, last in HIGHEST.items())
        raise pytest.UsageError(f"fact markers take numbers of {known}; not " + "; ".join(wrong))


def is_fact(number: object) -> bool:
    """Tell whether `number` names a fact, as "S47" does."""
    match = re.fullmatch(r"([SUE])([1-9]\d*)", number) if isinstance(number, str) else None
    return match is not None and int(match[2]) <= HIGHEST[match[1]]
