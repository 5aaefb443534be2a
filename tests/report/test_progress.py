"""How far something is: lines in a pipe at intervals, whoever asked, and notebooks that somebody watches."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from ranksim.report import progress
from ranksim.report.progress import Lines, noted

PATIENCE = 5.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is for people."""
    monkeypatch.setattr(progress, "PATIENCE", PATIENCE)


def test_a_pipe_gets_a_line_now_and_then_with_what_is_left() -> None:
    now, written = [0.0], list[str]()
    tell = Lines("simulating", written.append, lambda: now[0])
    for now[0] in (0.0, 1.0, PATIENCE - 0.1, PATIENCE, PATIENCE + 0.1, 2 * PATIENCE):
        tell(now[0] / 100, "1 of 20 done")
    assert written == [
        "simulating: 1 of 20 done; 5 %, about 1m35s left",
        "simulating: 1 of 20 done; 10 %, about 1m30s left",
    ]


def test_where_nobody_knows_how_much_there_is_the_time_so_far_is_told() -> None:
    now, written = [0.0], list[str]()
    tell = Lines("asking why", written.append, lambda: now[0])
    now[0] = 6.0
    tell(None, "")
    now[0] = 12.0
    tell(None, "40 worlds")
    assert written == ["asking why: 6s", "asking why: 40 worlds"]


class Place:
    """What stands in for a display of IPython."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, data: dict[str, str], raw: bool) -> None:
        self.shown.append(data["text/plain"])

    update = display


@pytest.mark.parametrize("watched", [True, False])
def test_a_notebook_shows_it_while_somebody_sits_there(
    watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place()
    kernel = SimpleNamespace(get_parent=lambda channel: {"content": {"allow_stdin": watched}})
    shown = SimpleNamespace(DisplayHandle=lambda: place)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=kernel), display=shown)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with noted("simulating", None) as tell:
        tell(None, "1 of 2 done")
        tell(None, "2 of 2 done")
    assert place.shown == (["simulating: 1 of 2 done", "simulating: 2 of 2 done", ""] if watched else [])


def test_whoever_asked_is_told() -> None:
    told: list[tuple[float | None, str]] = []
    with noted("simulating", lambda *what: told.append(what)) as tell:
        tell(0.5, "half")
    assert told == [(0.5, "half")]
