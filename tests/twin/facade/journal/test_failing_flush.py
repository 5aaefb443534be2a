"""Flushes (fsync) that fail, then a kill or a loss of power: what was acknowledged is there, and no more."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call
from ranksim.twin.facade.journal import sqlite, write_ahead
from ranksim.twin.facade.journal.journaled_service import NotKept
from ranksim.twin.facade.journal.write_ahead import WriteAheadLog, attach
from ranksim.twin.facade.twin import Twin

from .faulty_disk import FaultyDisk
from .test_lost_log import beside, killed, make
from .test_write_ahead import until


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead, "RETRY_S", 0.0)
    monkeypatch.setattr(sqlite, "CHECKPOINT_EVERY", 3)  # so that pages are moved now and then


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    faulty = FaultyDisk()
    with faulty.installed():
        yield faulty


def kept_in(path: Path) -> list[str]:
    """The hosts of a world that a start goes on with, which must not be refused."""
    twin = make()
    attach(twin, path).close()
    return [domain.host for domain in twin.service.state.domains.values()]


def left_by_a_kill(tmp_path: Path, disk: FaultyDisk) -> list[str]:
    """What a start finds, on a disk that works again, if the server is killed now."""
    (tmp_path / "killed").mkdir()
    copy = killed(tmp_path / "state", tmp_path / "killed")
    disk.fails = lambda number, path: False
    return kept_in(copy)


async def create(twin: Twin, log: WriteAheadLog, host: str) -> bool:
    """Make a domain; return whether that was acknowledged."""
    twin.call(Call("domains.create", twin.keys["production"], body={"host": host}))
    try:
        await log.commit()
    except NotKept:
        return False
    return True


def test_what_a_failing_flush_refused_does_not_come_back_with_a_kill(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    """The whole write stands in the -wal file, in the memory of the system at least."""

    async def story() -> None:
        twin = make()
        log = attach(twin, tmp_path / "state")
        assert await create(twin, log, "kept.example")
        disk.fails = lambda number, path: True
        assert not await create(twin, log, "refused.example")
        assert disk.failed
        assert left_by_a_kill(tmp_path, disk) == ["kept.example"]
        await until(lambda: not twin.refuses_writes)
        assert await create(twin, log, "later.example")
        log.close()

    asyncio.run(story())
    assert kept_in(tmp_path / "state") == ["kept.example", "later.example"]


def test_a_reset_that_a_failing_flush_refused_does_not_come_back_with_a_kill(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    async def story() -> None:
        twin = make()
        log = attach(twin, tmp_path / "state")
        assert await create(twin, log, "kept.example")
        disk.fails = lambda number, path: True
        twin.reset()
        with pytest.raises(NotKept):
            await log.commit()
        assert left_by_a_kill(tmp_path, disk) == ["kept.example"]
        log.close()

    asyncio.run(story())


def test_a_start_whose_flushes_fail_is_refused_and_loses_nothing(tmp_path: Path, disk: FaultyDisk) -> None:
    async def story() -> None:
        twin = make()
        log = attach(twin, tmp_path / "state")
        assert await create(twin, log, "kept.example")
        killed(tmp_path / "state", tmp_path / "left")
        log.close()

    (tmp_path / "left").mkdir()
    asyncio.run(story())
    for failing in range(1, 9):
        copy = tmp_path / f"copy-{failing}"
        shutil.copytree(tmp_path / "left", copy)
        first = disk.flushes
        disk.fails = lambda number, path, at=first + failing: number == at
        with suppress(BadInput):
            attach(make(), copy / "state").close()
        disk.fails = lambda number, path: False
        assert kept_in(copy / "state") == ["kept.example"]
    assert disk.failed >= 5


HOSTS = 6


async def told(path: Path, disk: FaultyDisk, failing: range, copies: Path) -> list[str]:
    """Make domains, with a reset between, on a disk some of whose flushes fail; give those acknowledged.

    After each refusal a copy is made, as a kill would leave it, and compared.
    """
    twin = make()
    log = attach(twin, path, every=5)
    began = disk.flushes
    disk.fails = lambda number, path: number - began in failing
    acknowledged: list[str] = []
    for number in range(HOSTS):
        if number == HOSTS // 2:
            twin.reset()
            try:
                await log.commit()
                acknowledged = []
            except NotKept:
                pass
            host = ""
        else:
            host = f"{number}.example"
            if await create(twin, log, host):
                acknowledged.append(host)
        if twin.refuses_writes:
            place = copies / f"{disk.flushes}-{number}"
            place.mkdir()
            fails, disk.fails = disk.fails, lambda number, path: False
            assert kept_in(killed(path, place)) == acknowledged
            disk.fails = fails
            await until(lambda: not twin.refuses_writes)
    (copies / "killed").mkdir()
    killed(path, copies / "killed")
    (copies / "without power").mkdir()
    disk.after_a_loss_of_power(path.parent, copies / "without power")
    shutil.copy(beside(path, "acknowledged"), copies / "without power")
    await twin.close()
    log._file._database.close()
    return acknowledged


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reached", "times"),
    [(False, 1), (False, 3), (True, 1)],
    ids=["nothing reached the disk", "three times", "all reached the disk"],
)
def test_whichever_flush_fails_what_was_acknowledged_survives_a_kill_and_a_loss_of_power(
    tmp_path: Path, reached: bool, times: int
) -> None:
    failures, failing = 0, 0
    while failing <= failures:  # until there is no such flush
        failing += 1
        folder = tmp_path / str(failing)
        folder.mkdir()
        (folder / "copies").mkdir()
        disk = FaultyDisk()
        disk.reached = reached
        with disk.installed():
            several = range(failing, failing + times)
            acknowledged = asyncio.run(told(folder / "state", disk, several, folder / "copies"))
            failures += disk.failed > 0
            disk.fails = lambda number, path: False
            assert kept_in(folder / "copies" / "killed" / "state") == acknowledged
            assert kept_in(folder / "copies" / "without power" / "state") == acknowledged
    assert failures >= 12
