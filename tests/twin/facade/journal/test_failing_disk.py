"""Disks that fail under a server: files that may not grow, file systems that turn read-only or are gone.

Those that mount a file system of their own want root, and are skipped without.
"""

import fcntl
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from ranksim.cli import app

from ..test_serve import Serving, serving

post, get = partial(httpx.post, timeout=60), partial(httpx.get, timeout=60)

CONTROL = {"authorization": "Bearer secret"}
FLAGS = ("--control-token", "secret", "--clock", "manual", "--state")

SHUTDOWN, WITHOUT_FLUSHING = 0x8004587D, (2).to_bytes(4, "little")
"""The ioctl after which a file system is gone, and its flag: what was not flushed is lost."""


class Writer:
    """Makes domains one after the other, and notes what was answered."""

    def __init__(self, served: Serving) -> None:
        self.served = served
        self.made: dict[int, list[str]] = {201: [], 500: []}

    def create(self, count: int) -> None:
        for _ in range(count):
            host = f"host-{sum(map(len, self.made.values()))}.example"
            body = {"host": host, "label": "x" * 200}
            reply = post(f"{self.served.base}/v1/domains", json=body, headers=self.served.auth)
            self.made[reply.status_code].append(host)

    def read(self) -> list[str]:
        assert get(f"{self.served.base}/v1/account", headers=self.served.auth).status_code == 200
        return hosts(self.served)


@contextmanager
def written(state: Path, count: int) -> Iterator[Writer]:
    """A server that keeps a file and has made so many domains, by their writer."""
    with serving(*FLAGS, str(state)) as one:
        writer = Writer(one)
        writer.create(count)
        yield writer


def hosts(served: Serving) -> list[str]:
    state = get(f"{served.base}/_ranksim/state", headers=CONTROL).json()
    return [domain["host"] for domain in state["domains"].values()]


@pytest.mark.slow
def test_a_log_that_may_not_grow_keeps_what_was_acknowledged_and_goes_on_by_itself(tmp_path: Path) -> None:
    """The limit on the size of files that a running server has is lowered, and lifted again."""
    state = tmp_path / "state.db"
    with written(state, 5) as writer:
        size = Path(f"{state}-wal").stat().st_size
        before = resource.prlimit(
            writer.served.process.pid, resource.RLIMIT_FSIZE, (size + 10_000, resource.RLIM_INFINITY)
        )
        writer.create(20)
        assert len(writer.made[500]) >= 10
        assert writer.read() == writer.made[201]
        assert "disk I/O error" in get(f"{writer.served.base}/readyz").text
        resource.prlimit(writer.served.process.pid, resource.RLIMIT_FSIZE, before)
        while get(f"{writer.served.base}/readyz").text != "ok\n":
            pass
        writer.create(5)
        assert writer.read() == writer.made[201]
    with serving(*FLAGS, str(state)) as one:
        assert hosts(one) == writer.made[201]


def run(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@pytest.fixture
def remount(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """A file system of 32 MB in the folder `disk`; what mounts it again, as after the power is back."""
    place, image = tmp_path / "disk", tmp_path / "image"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)

    def again() -> None:
        run("umount", place)
        run("mount", "-o", "loop", image, place)

    try:
        run("mkfs.ext4", "-q", image)
        run("mount", "-o", "loop", image, place)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here ({error})")
    try:
        yield again
    finally:
        run("umount", "-l", place)


@pytest.mark.heavy
def test_a_file_system_that_turns_read_only_keeps_what_was_acknowledged(
    tmp_path: Path, remount: Callable[[], None]
) -> None:
    """As they do under whoever writes when they find an error."""
    state = tmp_path / "disk" / "state.db"
    with written(state, 20) as writer:
        run("mount", "-o", "remount,abort", tmp_path / "disk")
        writer.create(20)
        assert len(writer.made[201]) >= 20
        assert len(writer.made[500]) >= 10
        assert writer.read() == writer.made[201]
    remount()
    with serving(*FLAGS, str(state)) as one:
        there = hosts(one)
    assert [host for host in there if host not in writer.made[500]] == writer.made[201]
    print(f"\nof {len(writer.made[500])} answered 500 are there: {len(there) - len(writer.made[201])}")


@pytest.mark.heavy
def test_a_file_system_that_is_gone_ends_the_server_and_keeps_what_was_acknowledged(
    tmp_path: Path, remount: Callable[[], None]
) -> None:
    """What was not flushed is lost, as with the power; nothing can be read, so nothing can be undone."""
    state = tmp_path / "disk" / "state.db"
    with written(state, 20) as writer:
        folder = os.open(state.parent, os.O_RDONLY)
        fcntl.ioctl(folder, SHUTDOWN, WITHOUT_FLUSHING)
        os.close(folder)
        with pytest.raises(httpx.TransportError):
            writer.create(20)
        code, log = writer.served.stop()
        assert code == 1
        assert "the state file can be neither written nor read" in log
        assert writer.made[500] == []
    remount()
    with serving(*FLAGS, str(state)) as one:
        assert hosts(one)[: len(writer.made[201])] == writer.made[201]


@pytest.mark.heavy
def test_a_start_from_a_read_only_file_system_is_refused_in_a_sentence(
    tmp_path: Path, remount: Callable[[], None]
) -> None:
    state = tmp_path / "disk" / "state.db"
    with written(state, 3) as writer:
        pass
    run("mount", "-o", "remount,ro", tmp_path / "disk")
    for path in (state, state.with_name("new.db")):
        said = CliRunner().invoke(app, ["serve", "--port", "0", "--state", str(path)])
        assert said.exit_code == 2
        why = "cannot be written (Read-only file system); give a path that you may write to"
        assert said.output == f"ranksim: {path}: {why}\n"
    assert CliRunner().invoke(app, ["serve", "--state", str(state), "--check"]).exit_code == 0  # in a copy
    run("mount", "-o", "remount,rw", tmp_path / "disk")
    with serving(*FLAGS, str(state)) as one:
        assert hosts(one) == writer.made[201]
