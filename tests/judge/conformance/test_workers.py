"""Families on several processes: the same judgement, whatever their number."""

from pathlib import Path

import pytest

from ranksim.core.errors import BadInput
from ranksim.judge.conformance.compare import compare_all
from ranksim.judge.conformance.judging import FAMILIES, shared_out
from ranksim.judge.conformance.report.as_dict import judgement_data

RECORDED = Path(__file__).parents[3] / "notebooks" / "data" / "everyday.jsonl.gz"


@pytest.mark.slow
@pytest.mark.parametrize("traces", [1, 2])
def test_a_judgement_does_not_depend_on_the_number_of_processes(traces: int) -> None:
    alone, shared = (compare_all([RECORDED] * traces, workers=workers) for workers in (1, 3))
    assert shared.findings == alone.findings
    names = ["trace"] * traces
    assert judgement_data(shared, trace=names) == judgement_data(alone, trace=names)


def test_every_family_has_one_process() -> None:
    for workers in (1, 2, 3, len(FAMILIES), 100):
        portions = shared_out(workers)
        assert len(portions) == min(workers, len(FAMILIES))
        assert all(portions)
        assert sorted(map(repr, FAMILIES)) == sorted(repr(make) for portion in portions for make in portion)


def test_a_broken_trace_is_told_as_by_one_process(tmp_path: Path) -> None:
    broken = tmp_path / "trace.jsonl"
    broken.write_text('{"ranksim_trace":1}\n{"kind":"exchange"\n')
    with pytest.raises(BadInput, match=r"trace\.jsonl:2: expected one JSON object on a line"):
        compare_all([broken], workers=2)
