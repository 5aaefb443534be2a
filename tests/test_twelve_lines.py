"""The notebook of somebody who compares two worlds, asks for a goal and why: twelve lines, each shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

ROOT = Path(__file__).parents[1]

LINES = """\
import ranksim as rs
world = rs.Scenario.load("scenarios/quickstart.yaml").replace(length="3d", timeline=[], expect=[])
now = rs.run(world, replications=20)
roomy = rs.run(world, replications=20, settings={"scenario.pools.rank_run.capacity": 8})
change = roomy.compare(now)
change.plot()
change.frame().head()
now.metric("jobs.rank_run.wait.p95").value
pool, most = "scenario.pools.rank_run.capacity", "jobs.rank_run.wait.max < 6m"
enough = rs.Study.of(world, goal={"smallest": pool, "between": [2, 7], "such_that": most}).run()
enough.plot()
now.why("refusals.quota_exhausted")
"""


@pytest.mark.slow
def test_two_scenarios_a_figure_a_goal_and_a_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # a study keeps its replications where it is run
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    shell = InteractiveShell()
    cells: list[Any] = []
    for line in LINES.splitlines():
        cell = shell.run_cell(line)
        cell.raise_error()
        cells.append(cell.result)
    assert len(cells) == 12
    *_, figure, frame, wait, _, _, goal, why = cells
    render = shell.display_formatter.format
    for drawn in (figure, goal):
        assert render(drawn)[0]["image/png"]
    assert "<table" in render(frame)[0]["text/html"]
    assert frame["metric"].str.startswith("jobs.rank_run").any()
    assert str(wait).startswith("0 days 00:")
    assert "goal found: 5" in repr(shell.user_ns["enough"])
    assert "What prevents it" in repr(why)
    assert "Error" not in capsys.readouterr().out
