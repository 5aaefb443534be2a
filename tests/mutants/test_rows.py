"""Each row of the table of mutants finds its line, once: who edits such a line mends its row as well."""

import pytest
from tests.mutants.test_mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.fact}-{mutant.file}")
def test_a_row_finds_its_line(mutant: Mutant) -> None:
    text = (ROOT / "src" / "ranksim" / mutant.file).read_text(encoding="utf-8")
    assert mutant.apply(text) != text
