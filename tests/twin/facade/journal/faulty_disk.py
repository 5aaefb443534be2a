"""A disk whose flushes fail, below SQLite: a VFS that hands all on to the usual one, and counts flushes.

It also knows what such a disk would hold after a loss of power. A flush that succeeds makes the dirty pages
of its file durable; one that fails takes them for clean, as Linux does, and they reach the disk only if they
are written again.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any

PAGE = 4096
OK, IOERR_FSYNC = 0, 10 | 4 << 8
"""SQLite's result codes."""

Open = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_int, c_void_p)
Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class Vfs(Structure):
    """The beginning of `sqlite3_vfs`, and its methods after `xOpen`."""

    _fields_ = (
        ("version", c_int),
        ("size", c_int),
        ("longest", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("others", c_void_p * 14),
    )


class Methods(Structure):
    """`sqlite3_io_methods`."""

    _fields_ = (
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("others", c_void_p * 13),
    )


class FaultyDisk:
    """What happens to the files of SQLite from `installed` on.

    `fails` is asked at every flush, with its number from 1 and the file's path; a flush that fails has
    `reached` the disk all the same, or nothing of it has.
    """

    def __init__(self) -> None:
        self.fails: Callable[[int, Path], bool] = lambda number, path: False
        self.reached = False
        self.flushes = 0
        self.failed = 0
        self.durable: dict[Path, bytearray] = defaultdict(bytearray)
        self._dirty: dict[Path, set[int]] = defaultdict(set)
        self._paths: dict[int, Path] = {}
        self._methods: dict[int, tuple[Methods, Any, Any]] = {}
        self._alive: list[Any] = []

    def after_a_loss_of_power(self, folder: Path, place: Path) -> None:
        """Write to a place what the disk holds of the files of a folder."""
        for path, held in self.durable.items():
            if path.parent == folder and path.exists():
                (place / path.name).write_bytes(held)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Make it what SQLite uses."""
        library = ctypes.CDLL(_sqlite3.__file__)  # through it the SQLite that Python is linked with
        library.sqlite3_vfs_find.restype = POINTER(Vfs)
        library.sqlite3_vfs_find.argtypes = [c_char_p]
        library.sqlite3_vfs_register.argtypes = [POINTER(Vfs), c_int]
        library.sqlite3_vfs_unregister.argtypes = [POINTER(Vfs)]
        usual = library.sqlite3_vfs_find(None)
        ours = Vfs.from_buffer_copy(usual.contents)
        usually = ctypes.cast(usual.contents.open, Open)

        def opened(vfs: int, name: bytes | None, file: int, flags: int, out: int) -> int:
            code = usually(ctypes.addressof(usual.contents), name, file, flags, out)
            if code == OK and name is not None:
                self._paths[file] = Path(os.fsdecode(name))
                slot = c_void_p.from_address(file)
                slot.value = ctypes.addressof(self._wrapped(slot.value or 0))
            return int(code)

        opening = Open(opened)
        ours.name, ours.open, ours.next = b"faulty", ctypes.cast(opening, c_void_p).value, None
        assert library.sqlite3_vfs_register(ours, 1) == OK
        try:
            yield
        finally:
            library.sqlite3_vfs_unregister(ours)
            library.sqlite3_vfs_register(usual, 1)
            self._alive += [opening, ours]  # files that are still open call them

    def _wrapped(self, at: int) -> Methods:
        """Return a file's methods, with writes and flushes of ours."""
        if at in self._methods:
            return self._methods[at][0]
        methods = Methods.from_buffer_copy(Methods.from_address(at))
        write, sync = ctypes.cast(methods.write, Write), ctypes.cast(methods.sync, Sync)

        def written(file: int, buffer: int, amount: int, offset: int) -> int:
            code = int(write(file, buffer, amount, offset))
            if code == OK:
                self._dirty[self._paths[file]].update(range(offset // PAGE, -(-(offset + amount) // PAGE)))
            return code

        def synced(file: int, flags: int) -> int:
            self.flushes += 1
            failing = self.fails(self.flushes, self._paths[file])
            code = IOERR_FSYNC if failing else int(sync(file, flags))
            self._flushed(self._paths[file], reached=code == OK or self.reached)
            self.failed += failing
            return code

        ours = Write(written), Sync(synced)
        methods.write, methods.sync = (ctypes.cast(one, c_void_p).value for one in ours)
        self._methods[at] = methods, *ours
        return methods

    def _flushed(self, path: Path, *, reached: bool) -> None:
        if reached:
            now, held = path.read_bytes(), self.durable[path]
            held.extend(bytes(max(0, len(now) - len(held))))
            del held[len(now) :]
            for page in self._dirty[path]:
                held[page * PAGE : (page + 1) * PAGE] = now[page * PAGE : (page + 1) * PAGE]
        self._dirty[path].clear()
