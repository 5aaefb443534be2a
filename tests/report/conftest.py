"""A result made by hand, as fixtures."""

import pytest
from tests.kit.results import START, Fake, Rows

from ranksim.core.clock import DAY
from ranksim.report.heading import ExpectationVerdict, Heading


@pytest.fixture
def fake() -> type[Fake]:
    return Fake


@pytest.fixture
def tables() -> dict[str, Rows]:
    return Fake().tables()


@pytest.fixture
def heading() -> Heading:
    return Heading(
        name="quickstart",
        title="A small agency & its <b>nightly</b> runs",
        description="One account tracks 300 keywords.\n\nIts pipeline starts rank runs at night.",
        start=START,
        length=10 * DAY,
        accounts=1,
        replications=20,
        seed=7,
        version="0.1.0",
        policy="default",
        verdicts=(
            ExpectationVerdict(True, "refusals.total is 110 (100 to 120), as expected at most 150"),
            ExpectationVerdict(False, "jobs.rank_run.wait.p95 is 4m, expected at most 1m: 3m above"),
        ),
        notes=("one sample in 2 is kept",),
        overrides=(("U1", "How the 60 s window of a key and class runs", "assumptions.window = gcra"),),
        command="ranksim run scenarios/quickstart.yaml --seed 7 --replications 20",
    )
