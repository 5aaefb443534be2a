"""Disks that are full or read-only: what was answered 201 is there, what was answered 500 is not."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from ranksim.core.service.calls import Call
from ranksim.twin.facade.http import graphql
from ranksim.twin.facade.journal import write_ahead
from ranksim.twin.facade.journal.journaled_service import NotKept
from ranksim.twin.facade.journal.write_ahead import attach

from ..test_serve import serving
from .test_write_ahead import client_of, make, until

FULL = "PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", "database or disk is full"
READ_ONLY = "PRAGMA query_only = ON", "PRAGMA query_only = OFF", "attempt to write a readonly database"


@pytest.mark.parametrize(("ill", "well", "why"), [FULL, READ_ONLY], ids=["full", "read-only"])
def test_what_sqlite_cannot_write_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ill: str, well: str, why: str
) -> None:
    """Long labels fill pages; SQLite itself refuses to write more, and later takes them."""
    monkeypatch.setattr(write_ahead, "RETRY_S", 0.0)
    made: dict[int, list[str]] = {201: [], 500: []}

    async def story() -> None:
        twin = make()
        log = attach(twin, tmp_path / "state")
        async with client_of(twin) as client:

            async def create(count: int) -> None:
                for _ in range(count):
                    host = f"host-{sum(map(len, made.values()))}.example"
                    reply = await client.post("/v1/domains", json={"host": host, "label": "x" * 200})
                    made[reply.status_code].append(host)
                    if reply.status_code == 500:
                        assert f"cannot be written ({why})" in reply.json()["detail"]

            await create(5)
            log._file._database.execute(ill)
            await create(60)
            assert len(made[500]) > 20
            assert (await client.post("/_ranksim/reset")).status_code == 500
            listed = (await client.get("/v1/domains?limit=100")).json()["data"]
            assert sorted(one["host"] for one in listed) == sorted(made[201])
            log._file._database.execute(well)
            await until(lambda: not twin.refuses_writes)
            await create(5)
        await twin.close()
        log.close()

    asyncio.run(story())
    again = make()
    attach(again, tmp_path / "state").close()
    assert [domain.host for domain in again.service.state.domains.values()] == made[201]


def test_a_long_answer_is_not_asked_again_for_what_another_could_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did was kept before it was written out; the disk runs full while a thread writes it."""
    monkeypatch.setattr(graphql, "MOST_VALUES_INLINE", 0)
    monkeypatch.setattr(write_ahead, "RETRY_S", 0.0)
    ill, well, _ = READ_ONLY

    async def story() -> None:
        twin = make()
        log = attach(twin, tmp_path / "state")

        async def meanwhile(work: Callable[[], object]) -> object:
            if getattr(work, "__name__", "") == "answered":
                log._file._database.execute(ill)
                twin.call(Call("domains.create", twin.keys["production"], body={"host": "other.example"}))
            return work()

        monkeypatch.setattr(graphql, "_in_thread", meanwhile)
        async with client_of(twin) as client:
            query = 'mutation { createDomain(input: {host: "one.example"}) { id host } }'
            reply = await client.post("/graphql", json={"query": query})
            assert reply.json()["data"]["createDomain"]["host"] == "one.example"
            with pytest.raises(NotKept):
                await log.commit()
            log._file._database.execute(well)
            await until(lambda: not twin.refuses_writes)
        await twin.close()
        log.close()

    asyncio.run(story())
    again = make()
    attach(again, tmp_path / "state").close()
    assert [domain.host for domain in again.service.state.domains.values()] == ["one.example"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 KB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.heavy
def test_a_disk_that_is_full_keeps_what_was_acknowledged_and_nothing_else(small: Path) -> None:
    post, get = partial(httpx.post, timeout=60), partial(httpx.get, timeout=60)
    flags = ("--state", str(small / "state.db"), "--control-token", "secret", "--clock", "manual")
    control = {"authorization": "Bearer secret"}
    made: dict[int, list[str]] = {201: [], 500: []}

    def create(base: str, auth: dict[str, str], count: int) -> None:
        for _ in range(count):
            host = f"host-{sum(map(len, made.values()))}.example"
            reply = post(f"{base}/v1/domains", json={"host": host}, headers=auth)
            made[reply.status_code].append(host)

    def hosts(base: str, auth: dict[str, str]) -> list[str]:
        state = get(f"{base}/_ranksim/state", headers=control).json()
        return [domain["host"] for domain in state["domains"].values()]

    with serving(*flags) as one:
        waived = httpx.patch(f"{one.base}/_ranksim/limits", json={"rate": False}, headers=control, timeout=60)
        assert waived.status_code == 200
        while len(made[500]) < 100:
            create(one.base, one.auth, 1)
        assert post(f"{one.base}/_ranksim/reset", headers=control).status_code == 500
        assert hosts(one.base, one.auth) == made[201]
        assert get(f"{one.base}/v1/account", headers=one.auth).status_code == 200
        assert get(f"{one.base}/readyz").text.startswith("reads only: The state file cannot be written")
        subprocess.run(["mount", "-o", "remount,size=20m", str(small)], check=True)
        while get(f"{one.base}/readyz").text != "ok\n":
            pass
        create(one.base, one.auth, 20)
        assert hosts(one.base, one.auth) == made[201]
    with serving(*flags) as one:  # the other was killed
        assert hosts(one.base, one.auth) == made[201]
    print(f"\n{len(made[201])} answered 201 are there, {len(made[500])} answered 500 are not")
