"""Every procedure covers what it says: 1,000 repetitions of each cell, and the table in docs/statistics.md.

    python -m pytest -m heavy tests/coverage

Each cell covers in 93 to 97.5 % of repetitions at a nominal 95 %, or its row names it and says why not.
"""

import pytest
from tests.coverage import table
from tests.coverage.cells import Row
from tests.coverage.misses import MISSES
from tests.coverage.table import ROWS


@pytest.mark.heavy
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.group}: {row.name}")
def test_intervals_cover_as_often_as_they_say(row: Row) -> None:
    missed = table.misses(row)
    table.write()
    assert missed.keys() == table.known(row).keys(), missed


def test_the_table_has_a_line_for_each_row() -> None:
    text = table.DOCUMENT.read_text(encoding="utf-8")
    assert table.BEGIN in text
    for row in ROWS:
        assert f"| {row.name} |" in text, row.name
    for reason in {reason for known in MISSES.values() for reason in known.values()}:
        assert f": {reason}\n" in text, reason
