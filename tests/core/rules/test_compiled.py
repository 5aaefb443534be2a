"""The admission code compiles unchanged and decides alike on slotted rows and on NumPy records."""

from types import FunctionType
from typing import Any

import numpy as np
import pytest

from ranksim.core import clock
from ranksim.core.clock import DAY, DISTANT_PAST, HOUR, instant
from ranksim.core.rules import admission
from ranksim.core.rules.books import Ask, Books, Cooldown, Meter, Terms, record_dtype

pytestmark = pytest.mark.compiled

ASKS = 20_000
START = instant("2026-01-31T12:00:00Z")


def record(row: Any) -> Any:
    """Give a row as a record array of one."""
    made = np.zeros(1, dtype=record_dtype(type(row)))
    for name in made.dtype.names:
        made[0][name] = getattr(row, name)
    return made


def plain(made: Any) -> list[int]:
    return [int(made[0][name]) for name in made.dtype.names]


def asks(dice: np.random.Generator) -> list[Ask]:
    return [
        Ask(
            checks=int(dice.choice([126, 126, 118, 36])),
            capability=int(dice.choice([1, 1, 1, 2, 4])),
            beyond=int(dice.choice([0, 0, 0, 0, 1, 5])),
            estimate=int(dice.integers(0, 400)),
            units=int(dice.integers(0, 3)),
            slots=int(dice.integers(0, 3)),
            revived=0,
            running=int(dice.random() < 0.05),
            dry_run=int(dice.random() < 0.2),
        )
        for _ in range(ASKS)
    ]


@pytest.mark.parametrize("week_offset", [0, 9 * HOUR])
@pytest.mark.parametrize("timing", [admission.RESERVE, admission.AT_ACCEPTANCE, admission.AT_COMPLETION])
@pytest.mark.parametrize("join", range(4))
def test_interpreted_and_compiled_decide_alike(join: int, timing: int, week_offset: int) -> None:
    numba = pytest.importorskip("numba")
    from numba.extending import register_jitable

    names = (
        "days_from_civil",
        "time_of_day",
        "civil_from_days",
        "billing_month",
        "month_end",
        "_month_edge",
        "week_start",
        "week_end",
    )
    functions = [getattr(clock, name) for name in names]
    functions += [
        made for made in vars(admission).values() if isinstance(made, FunctionType) and made not in functions
    ]
    for function in functions:
        register_jitable(function)
    admit, settle = admission.admit, admission.settle

    @numba.njit
    def replay(times, asks, books, meter, cooldown, terms, decided):
        for k in range(len(times)):
            decided[k] = admit(times[k], asks[k], books[0], meter[0], cooldown[0], terms[0])
            if decided[k] == 0 and k % 3 == 0:
                settle(books[0], books[0].month_ends, asks[k].estimate, asks[k].estimate // 2, terms[0])

    dice = np.random.default_rng(join * 7 + timing)
    times = START + np.cumsum(dice.choice([0, HOUR // 4, HOUR, DAY], size=ASKS, p=[0.2, 0.4, 0.35, 0.05]))
    given = asks(dice)
    books = Books(capabilities=3, ceiling=9_000, anchor=START, slot_limit=9_000)
    meter = Meter(limit=40, period=admission.WEEK if week_offset else admission.MONTH)
    cooldown = Cooldown(length=2 * HOUR, since=DISTANT_PAST)
    terms = Terms(join=join, cost_timing=timing, week_offset=week_offset, cost_gate=join % 2)

    many = np.zeros(ASKS, dtype=record_dtype(Ask))
    for k, ask in enumerate(given):
        for name in many.dtype.names:
            many[k][name] = getattr(ask, name)
    records = [record(row) for row in (books, meter, cooldown, terms)]
    compiled = np.zeros(ASKS, dtype=np.int64)
    replay(times, many, *records, compiled)

    decided = []
    for k, (now, ask) in enumerate(zip(times.tolist(), given, strict=True)):
        decided.append(admission.admit(now, ask, books, meter, cooldown, terms))
        if decided[-1] == 0 and k % 3 == 0:
            admission.settle(books, books.month_ends, ask.estimate, ask.estimate // 2, terms)
    assert compiled.tolist() == decided
    assert len(set(decided)) >= 5, "the asks meet most decisions"
    assert [plain(made) for made in records] == [
        plain(record(row)) for row in (books, meter, cooldown, terms)
    ]
