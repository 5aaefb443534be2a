"""State files verified where they lie, and worlds exported: while they are served, and from their files."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import Self

import httpx
import pytest
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.core.callers.fault_rules import FaultRule
from ranksim.core.clock import HOUR, instant
from ranksim.core.service.calls import Call
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.snapshots import SavedWorld
from ranksim.twin.facade.twin import Twin

START = instant("2026-03-04T10:00:00Z")


def make() -> Twin:
    return Twin(clock="manual", start=START, sender=Scripted(), read_wall=lambda: START)


def create(twin: Twin, host: str) -> None:
    reply = twin.call(Call("domains.create", twin.keys["production"], body={"host": host}))
    assert reply.status == 201


def tell(*words: str | Path) -> tuple[int, str]:
    """Run the command line; give its exit code and all that it printed."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def left(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.parent.glob(f"{path.name}*")}


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A file with a bit of everything."""
    path = tmp_path / "world.db"
    twin = make()
    log = attach(twin, path)
    create(twin, "a.example")
    twin.snapshots.save("one", SavedWorld(twin.now(), twin.snapshot()))
    twin.faults.add(FaultRule(operation="jobs.*", error_rate=0.5))
    twin.call(Call("webhooks.create", twin.keys["production"], body={"url": "https://a.example"}))
    create(twin, "b.example")
    asyncio.run(twin.advance(by=HOUR))
    log.close()
    return path


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """What a kill leaves, -wal and all."""
    live = tmp_path / "live.db"
    twin = make()
    log = attach(twin, live)
    for number in range(7):
        create(twin, f"{number}.example")
        asyncio.run(log.commit())
    for end in ("", "-wal", "-acknowledged"):
        shutil.copy(f"{live}{end}", tmp_path / f"killed.db{end}")
    log.close()
    return tmp_path / "killed.db"


def test_a_check_says_what_is_in_a_file_and_leaves_it_alone(closed: Path, killed: Path) -> None:
    for path, inputs, domains, ending in (
        (closed, 6, 2, "it was closed"),
        (killed, 7, 7, "it was not closed, and a start goes on from it"),
    ):
        before = left(path)
        code, said = tell("serve", "--state", path, "--check")
        assert (code, said) == (
            0,
            f"{path}: is sound: {inputs} inputs, all that were acknowledged, lead to 2 accounts, "
            f"{domains} domains and 0 jobs; {ending}\n",
        )
        assert left(path) == before


def test_a_check_finds_what_a_start_would_refuse(killed: Path, tmp_path: Path) -> None:
    wal = tmp_path / "killed.db-wal"
    wal.write_bytes(wal.read_bytes()[:-5_000])
    before = left(killed)
    code, said = tell("serve", "--state", killed, "--check")
    assert code == 2
    assert f"{killed}: 7 inputs were acknowledged and 5 are there: the last 2 are missing" in said
    assert left(killed) == before
    (tmp_path / "text").write_text("dear diary")
    (tmp_path / "empty").write_text("")
    for name, why in (("text", "is damaged or no state"), ("empty", "is empty"), ("none", "cannot be read")):
        code, said = tell("serve", "--state", tmp_path / name, "--check")
        assert code == 2
        assert f"{tmp_path / name}: {why}" in said
    assert tell("serve", "--check")[0] == 2


@pytest.mark.slow
def test_a_file_that_is_served_is_not_read_from_beside(closed: Path) -> None:
    log = attach(make(), closed)
    for words in (
        ("serve", "--state", closed, "--check"),
        ("serve", "state", "export", closed, f"{closed}.out"),
    ):
        # Another process asks: locks are a process's own.
        code, said = asyncio.run(elsewhere(*words))
        assert (code, "is in use by another process" in said) == (2, True), said
    log.close()


async def elsewhere(*words: str | Path) -> tuple[int, str]:
    import sys

    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ranksim",
        *map(str, words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


def test_an_export_of_a_file_is_the_same_world_in_one_file(
    closed: Path, killed: Path, tmp_path: Path
) -> None:
    for path in (closed, killed):
        before = left(path)
        out = tmp_path / f"backup-of-{path.name}"
        assert tell("serve", "state", "export", path, out) == (0, f"Written to {out}\n")
        assert out.stat().st_mode & 0o777 == 0o600
        assert left(path) == before
        again = tmp_path / f"{path.name}.again"
        assert tell("serve", "state", "import", out, again)[0] == 0
        worlds = []
        for one in (path, again):
            twin = make()
            log = attach(twin, one)
            worlds.append((twin.service.save(), twin.keys, twin.faults.saved(), dict(twin.snapshots)))
            worlds[-1] += (twin.now(), twin.world_id, twin.clock.saved())
            log.close()
        assert worlds[0] == worlds[1]


def test_an_import_replaces_nothing(closed: Path, tmp_path: Path) -> None:
    before = closed.read_bytes()
    code, said = tell("serve", "state", "import", closed, closed)
    assert (code, "is there already" in said) == (2, True)
    (tmp_path / "new.db-wal").write_bytes(b"something")
    code, said = tell("serve", "state", "import", closed, tmp_path / "new.db")
    assert (code, "new.db-wal: is there already" in said) == (2, True)
    assert not (tmp_path / "new.db").exists()
    assert closed.read_bytes() == before


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("dear diary")
    code, said = tell("serve", "state", "import", tmp_path / "text", tmp_path / "new.db")
    assert (code, "is damaged or no state file" in said) == (2, True)
    code, said = tell("serve", "state", "export", "http://127.0.0.1:9", tmp_path / "new.db")
    assert (code, "cannot be reached" in said) == (2, True)
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("kept", [True, False], ids=["with a state file", "in memory"])
def test_an_export_under_load_is_the_world_of_one_instant(tmp_path: Path, kept: bool) -> None:
    """Pairs of domains are made one after the other; every export has all that was acknowledged before it."""

    async def story() -> None:
        twin = make()
        log = attach(twin, tmp_path / "state.db") if kept else None
        headers = {"authorization": f"Bearer {twin.keys['production']}"}
        transport = httpx.ASGITransport(Facade(twin))
        async with httpx.AsyncClient(transport=transport, base_url="http://twin", headers=headers) as client:
            acknowledged: list[str] = []

            async def work(name: str) -> None:
                for number in range(10):
                    host = f"{name}-{number}.example"
                    reply = await client.post("/v1/domains", json={"host": host})
                    assert reply.status_code == 201
                    acknowledged.append(reply.json()["data"]["id"])

            working = [asyncio.ensure_future(work(f"w{n}")) for n in range(3)]
            for turn in range(4):
                before = list(acknowledged)
                reply = await client.get("/_ranksim/export")
                assert reply.headers["content-type"] == "application/vnd.sqlite3"
                (tmp_path / f"export-{turn}.db").write_bytes(reply.content)
                other = make()
                attach(other, tmp_path / f"export-{turn}.db").close()
                assert set(before) <= set(other.service.state.domains)
                for name in ("w0", "w1", "w2"):  # what each did is there up to one moment
                    hosts = [d.host for d in other.service.state.domains.values() if d.host.startswith(name)]
                    assert hosts == [f"{name}-{number}.example" for number in range(len(hosts))]
            await asyncio.gather(*working)
        await twin.close()
        if log is not None:
            log.close()

    asyncio.run(story())


@pytest.mark.slow
def test_a_running_deployment_is_exported_over_http(tmp_path: Path) -> None:
    from ..test_serve import serving

    flags = ("--control-token", "secret", "--seed", "3")
    with serving(*flags) as one:
        httpx.post(f"{one.base}/v1/domains", json={"host": "a.example"}, headers=one.auth, timeout=600)
        out = tmp_path / "backup.db"
        code, said = tell("serve", "state", "export", one.base, out)
        assert (code, "answered 401: Send the control token" in said) == (2, True)
        assert tell("serve", "state", "export", one.base, out, "--control-token", "secret")[0] == 0
        key = one.said["key"]
    with serving("--state", str(out)) as one:
        assert one.said["key"] == key
        found = httpx.get(f"{one.base}/v1/domains", headers=one.auth, timeout=600).json()["data"]
        assert [domain["host"] for domain in found] == ["a.example"]


@pytest.mark.slow
def test_a_deployment_is_exported_while_clients_write_to_it(tmp_path: Path) -> None:
    """Each export has what was acknowledged before it was asked for, imports, and leads to one world."""
    from ..test_serve import serving

    flags = ("--control-token", "secret", "--state", str(tmp_path / "state.db"))
    acknowledged: list[str] = []
    with serving(*flags) as one, ThreadPoolExecutor(3) as writers, Ending() as ending:

        def write(name: str) -> None:
            with httpx.Client(base_url=one.base, headers=one.auth, timeout=600) as client:
                for number in count():
                    if ending.is_set():
                        return
                    host = f"{name}-{number}.example"
                    if client.post("/v1/domains", json={"host": host}).status_code == 201:
                        acknowledged.append(host)

        httpx.patch(
            f"{one.base}/_ranksim/limits",
            json={"rate": False, "slots": False},
            headers={"authorization": "Bearer secret"},
            timeout=600,
        )
        written = [writers.submit(write, f"w{number}") for number in range(3)]
        exports = []
        for number in range(3):
            before = list(acknowledged)
            out, into = tmp_path / f"export-{number}.db", tmp_path / f"import-{number}.db"
            assert tell("serve", "state", "export", one.base, out, "--control-token", "secret")[0] == 0
            assert tell("serve", "state", "import", out, into)[0] == 0
            twin = make()
            attach(twin, into).close()
            hosts = [domain.host for domain in twin.service.state.domains.values()]
            assert set(before) <= set(hosts)
            for name in ("w0", "w1", "w2"):
                theirs = [host for host in hosts if host.startswith(name)]
                assert theirs == [f"{name}-{number}.example" for number in range(len(theirs))]
            exports.append(len(hosts))
        ending.set()
        assert not any(one.exception() for one in written)
    assert exports == sorted(exports)
    assert exports[-1] > 0


class Ending(Event):
    """Set when its block ends, however it does, so that nobody waits for who waits for it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.set()


NEAR = """\
scenario: 1
start: 2026-03-27T10:00:00Z
length: 1d
accounts:
  acme: {plan: pro, keys: [{name: main, token: my-fixed-key}], portfolio: {domains: 2, keywords: 7}}
"""


def test_a_scenario_becomes_a_state_file_and_a_scenario_again(tmp_path: Path) -> None:
    near, state, out = tmp_path / "near.yaml", tmp_path / "world.db", tmp_path / "out.yaml"
    near.write_text(NEAR, encoding="utf-8")
    assert tell("serve", "state", "import", near, state) == (0, f"Written to {state}\n")
    assert tell("serve", "state", "export", state, out, "--as", "scenario") == (0, f"Written to {out}\n")
    stated = out.read_text(encoding="utf-8")
    assert "token: my-fixed-key" in stated
    assert "site2.acme.example" in stated
    again = tmp_path / "again.db"
    assert tell("serve", "state", "import", out, again) == (0, f"Written to {again}\n")
    code, said = tell("serve", "state", "export", state, out, "--as", "yaml")
    assert (code, said) == (2, "ranksim: --as: expected one of state, scenario, found 'yaml'\n")
    code, said = tell("serve", "state", "import", near, tmp_path / "more.db", "--policy", "policy.yaml")
    assert (code, said[:50]) == (2, "ranksim: --policy: a scenario says its policy; lea")
