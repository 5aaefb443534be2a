"""A shelf keeps records out of memory, and gives back what was put."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from ranksim.judge.conformance.history import spill_file as shelves
from ranksim.judge.conformance.history.spill_file import SpillFile


@dataclass
class Record:
    name: str
    value: Any


def filled(count: int) -> SpillFile[Record]:
    shelf = SpillFile(Record)
    for number in range(count):
        shelf.put(Record(f"r{number}", {"list": [number, None, 1.5], "ids": ("a", b"b"), "big": 1 << 70}))
    return shelf


@pytest.mark.parametrize("count", [1, shelves.NEAR, shelves.NEAR + 1, 3 * shelves.NEAR])
def test_records_come_back_in_any_order(count: int) -> None:
    shelf = filled(count)
    for number in (*range(count), *reversed(range(0, count, 7)), count // 2):
        assert shelf[number] == Record(
            f"r{number}", {"list": [number, None, 1.5], "ids": ("a", b"b"), "big": 1 << 70}
        )


def test_putting_goes_on_after_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "IN_MEMORY", 1000)
    monkeypatch.setattr(shelves, "NEAR", 1)
    shelf = SpillFile(Record)
    for number in range(200):
        shelf.put(Record(str(number), "x" * number))
        assert shelf[number // 2].value == "x" * (number // 2)


def test_few_records_make_no_file_and_many_one_that_goes_with_the_shelf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened() -> int:
        """Files without a name; what else this process has open comes and goes."""
        count = 0
        for one in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
            with suppress(FileNotFoundError):  # the directory that is listed
                count += os.readlink(f"/proc/self/fd/{one}").endswith(" (deleted)")
        return count

    gc.collect()
    before, listed = opened(), os.path.isdir("/proc/self/fd")
    few = filled(10)
    assert opened() == before
    monkeypatch.setattr(shelves, "IN_MEMORY", 1000)
    many = filled(100)
    assert opened() == before + listed
    assert many[0].name == few[0].name
    del many
    gc.collect()
    assert opened() == before


FULL = f"""
import resource
from tests.judge.conformance.test_spill_file import filled
from ranksim.judge.conformance.history import spill_file
from ranksim.core.errors import BadInput
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spill_file.IN_MEMORY = 1000
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, {resource.RLIM_INFINITY}))
try:
    filled(1000)
except BadInput as error:
    print(error)
"""


def test_a_full_disk_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert "TMPDIR" in done.stdout
