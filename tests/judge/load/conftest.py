"""A scripted server, a recorder, and programs that are started, as fixtures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.runs import Recording, Running, Scripted, Start

from ranksim.testing import Server


@pytest.fixture
def server() -> Iterator[Scripted]:
    made = Scripted()
    yield made
    made.stop()


@pytest.fixture
def recording(tmp_path: Path, server: Scripted) -> Iterator[Recording]:
    made = Recording(tmp_path / "part-w1.jsonl", server.url)
    yield made
    made.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts programs, and sees to it that none is left behind."""
    started: list[Running] = []

    def begin(*words: str, name: str = "run", **variables: str) -> Running:
        started.append(Running(list(words), tmp_path, name, **variables))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


@pytest.fixture
def deployment() -> Iterator[Server]:
    with Server(clock="real", start=None) as server:
        yield server
