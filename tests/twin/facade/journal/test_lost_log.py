"""A log that is missing, cut or damaged is told: what was acknowledged is there, or its loss is a refusal."""

import asyncio
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ranksim.core.clock import instant
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call
from ranksim.twin.facade.journal.sqlite import StateFile
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.snapshots import policy_digest
from ranksim.twin.facade.twin import Twin

START = instant("2026-03-04T10:00:00Z")
POLICY = Policy()
DIGEST = policy_digest(POLICY)


def make() -> Twin:
    return Twin(POLICY, clock="manual", start=START, sender=Scripted(), read_wall=lambda: START)


def beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}-{what}")


def killed(path: Path, to: Path) -> Path:
    """Copy what a kill leaves."""
    for one in (path, beside(path, "wal"), beside(path, "acknowledged")):
        if one.exists():
            shutil.copy(one, to / one.name)
    return to / path.name


def hosts(twin: Twin) -> int:
    return len(twin.service.state.domains)


def written(path: Path, count: int = 40) -> Any:
    """A log that is open, with so many domains, each in a write of its own."""
    twin = make()
    log = attach(twin, path)
    for number in range(count):
        twin.call(Call("domains.create", twin.keys["production"], body={"host": f"{number}.example"}))
        asyncio.run(log.commit())
    assert hosts(twin) == count
    return log


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a kill left: 40 inputs, which were acknowledged."""
    place = tmp_path_factory.mktemp("killed")
    log = written(tmp_path_factory.mktemp("live") / "state")
    path = killed(log._file._path, place)
    log.close()
    return path


@pytest.fixture
def path(left: Path, tmp_path: Path) -> Path:
    return killed(left, tmp_path)


def test_after_a_kill_all_is_there(path: Path) -> None:
    twin = make()
    log = attach(twin, path)
    assert hosts(twin) == 40
    log.close()
    assert not beside(path, "acknowledged").exists()  # the file says it itself, and is whole without others
    assert not beside(path, "wal").exists()
    attach(make(), path).close()


def flipped(wal: Path, at: int) -> None:
    damaged = bytearray(wal.read_bytes())
    damaged[at] ^= 1
    wal.write_bytes(damaged)


def deleted(wal: Path, thousandths: int) -> None:
    wal.unlink()


def cut(wal: Path, thousandths: int) -> None:
    wal.write_bytes(wal.read_bytes()[: wal.stat().st_size * thousandths // 1000])


def bit(wal: Path, thousandths: int) -> None:
    flipped(wal, wal.stat().st_size * thousandths // 1000)


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (deleted, 0),
        *((cut, where) for where in (0, 100, 500, 900, 999)),
        *((bit, where) for where in (0, 100, 300, 500, 700, 900, 999)),
    ],
)
def test_less_than_was_acknowledged_is_told_and_started_from_only_when_accepted(
    path: Path, damage: Callable[[Path, int], None], where: int, caplog: pytest.LogCaptureFixture
) -> None:
    damage(beside(path, "wal"), where)
    said = r"state: 40 inputs were acknowledged and (\d+) are there: the last (\d+) are missing"
    with pytest.raises(BadInput, match=said + r".* -wal .*--accept-loss") as refused:
        attach(make(), path)
    there, missing = map(int, re.search(said, str(refused.value)).groups())
    assert there + missing == 40
    assert missing > 0
    twin = make()
    log = attach(twin, path, accept_loss=True)
    assert hosts(twin) == there
    assert f"the last {missing} are missing" in caplog.text
    log.close()
    attach(make(), path).close()  # it was accepted once


def test_a_main_file_alone_is_told(path: Path) -> None:
    beside(path, "wal").unlink()
    beside(path, "acknowledged").unlink()
    with pytest.raises(
        BadInput, match=r"was not closed, and .*state-acknowledged, which counts .*is missing"
    ):
        attach(make(), path)
    attach(make(), path, accept_loss=True).close()


def test_an_older_copy_in_its_place_is_told(path: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    written(older, 3).close()
    older.replace(path)
    beside(path, "wal").unlink()
    with pytest.raises(BadInput, match="40 inputs were acknowledged and 3 are there"):
        attach(make(), path)


def test_another_history_of_the_same_length_is_told(path: Path, tmp_path: Path) -> None:
    log = written(tmp_path / "other", 39)
    log._file.append(b"\n")
    asyncio.run(log.commit())
    log.close()
    (tmp_path / "other").replace(path)
    beside(path, "wal").unlink()
    with pytest.raises(BadInput, match="are not those that are there"):
        attach(make(), path)


def test_a_world_that_vanished_is_told(path: Path) -> None:
    """An empty file, or none, would be a new world, with the same keys."""
    beside(path, "wal").unlink()
    for vanish in (lambda: path.unlink(), lambda: path.write_bytes(b"")):
        vanish()
        with pytest.raises(BadInput, match="40 inputs were acknowledged and 0 are there"):
            attach(make(), path)
    twin = make()
    attach(twin, path, accept_loss=True).close()
    assert hosts(twin) == 0


@pytest.mark.parametrize("slot", [0, 512])
def test_one_slot_that_was_torn_leaves_the_other(path: Path, slot: int) -> None:
    flipped(beside(path, "acknowledged"), slot + 3)
    attach(make(), path).close()


def test_a_count_that_cannot_be_read_is_told(path: Path) -> None:
    for slot in (0, 512):
        flipped(beside(path, "acknowledged"), slot + 3)
    with pytest.raises(BadInput, match="is missing or damaged"):
        attach(make(), path)


def test_a_file_from_before_there_was_a_count_opens_and_has_one_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "state"
    written(path, 5).close()
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM about WHERE name IN ('closed', 'inputs')")
    database.close()
    twin = make()
    log = attach(twin, path)
    assert hosts(twin) == 5
    assert beside(path, "acknowledged").stat().st_mode & 0o777 == 0o600
    twin.call(Call("domains.create", twin.keys["production"], body={"host": "new.example"}))
    asyncio.run(log.commit())
    other = tmp_path / "killed"
    other.mkdir()
    copy = killed(path, other)
    log.close()
    beside(copy, "wal").unlink()
    with pytest.raises(BadInput, match="7 inputs were acknowledged and 5 are there"):
        attach(make(), copy)


TOLD = "6 inputs were acknowledged and 5 are there: the last 1 are missing"


def found(path: Path, last: int) -> int | str:
    """How many writes of a file lead up to its last one, or why it is refused."""
    try:
        file = StateFile(path, DIGEST)
    except BadInput as refused:
        return str(refused).partition(": ")[2].partition(",")[0]
    file._database.close()
    return file.mark.number - last


def torn(tmp_path: Path, step: int, most: int) -> None:
    """Cut the end of what the last write put into the -wal, before and after it was acknowledged."""
    log = written(tmp_path / "state", 5)
    wal = beside(tmp_path / "state", "wal")
    before, earlier = wal.stat().st_size, beside(tmp_path / "state", "acknowledged").read_bytes()
    log._file.append(b'["advance", 1772618400000000, {}]\n')
    last = log._file.mark.number
    place = tmp_path / "torn"
    place.mkdir()
    whole = wal.read_bytes()
    assert len(whole) > before
    copies = {one: one.read_bytes() for one in tmp_path.glob("state*")}
    outcomes = set()
    for size in [*range(max(before, len(whole) - most), len(whole), step), len(whole)]:
        for acknowledged in (False, True):
            for one, content in copies.items():
                (place / one.name).write_bytes(content)
            (place / wal.name).write_bytes(whole[:size])
            if not acknowledged:
                (place / "state-acknowledged").write_bytes(earlier)
            outcomes.add((acknowledged, found(place / "state", last)))
    log.close()
    assert outcomes == {(False, -1), (False, 0), (True, TOLD), (True, 0)}


def test_a_write_torn_anywhere_loses_nothing_acknowledged_or_says_so(tmp_path: Path) -> None:
    torn(tmp_path, 509, 100_000)


@pytest.mark.heavy
def test_a_write_torn_at_every_byte_loses_nothing_acknowledged_or_says_so(tmp_path: Path) -> None:
    torn(tmp_path, 1, 4_096 + 24)  # a page, and what SQLite says of it
