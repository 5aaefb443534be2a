"""Writing that is never half-done."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ranksim.core.errors import BadInput
from ranksim.core.files import (
    check_apart,
    check_directory,
    check_file,
    check_outputs,
    new_directory,
    new_file,
)

DOCUMENT = '{"kind": "run", "version": 1, "metrics": {}, "expectations": [], "tables": {}}'


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def results(path: Path) -> Path:
    path.mkdir()
    (path / "result.json").write_text(DOCUMENT)
    (path / "tables").mkdir()
    return path


def half_a_file(path: Path) -> None:
    with new_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt


def half_a_directory(path: Path) -> None:
    with new_directory(path) as temporary:
        (temporary / "plots").mkdir()
        raise KeyboardInterrupt


def test_a_file_appears_complete_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "trace.jsonl"
    for text in ("old", "new"):
        with new_file(path) as temporary:
            assert temporary.parent == path.parent
            temporary.write_text(text)
            assert not path.exists() or path.read_text() == "old"
        assert path.read_text() == text
    assert names(path.parent) == ["trace.jsonl"]


def test_a_file_that_fails_leaves_the_old_one_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        half_a_file(path)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["trace.jsonl"]


def test_a_directory_appears_complete_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for number in range(2):
        with new_directory(path) as temporary:
            (temporary / "result.json").write_text(DOCUMENT)
            (temporary / ("tables" if number else "plots")).mkdir()
            assert path.exists() == bool(number)
    assert names(path) == ["result.json", "tables"]
    assert names(tmp_path) == ["out"]


def test_a_directory_that_fails_leaves_the_old_one_alone(tmp_path: Path) -> None:
    path = results(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        half_a_directory(path)
    assert names(path) == ["result.json", "tables"]
    assert names(tmp_path) == ["out"]


def test_what_is_written_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with new_file(tmp_path / "file"):
            pass
        with new_directory(tmp_path / "out"):
            pass
    finally:
        os.umask(before)
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
    assert modes == {"file": 0o640, "out": 0o750}


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    results(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    with new_directory(tmp_path / "link") as temporary:
        (temporary / "page.html").touch()
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["page.html"]


def test_a_free_path_an_empty_directory_and_old_results_may_be_written_to(tmp_path: Path) -> None:
    check_directory(tmp_path / "free" / "deep")
    check_directory(tmp_path)
    check_directory(results(tmp_path / "old"))
    check_file(tmp_path / "free" / "file")
    check_file(tmp_path / "old" / "result.json")


def foreign_file(path: Path) -> Path:
    path.write_text("")
    return path


def foreign_directory(path: Path) -> Path:
    path.mkdir()
    (path / "thesis.tex").touch()
    return path


def foreign_result(path: Path) -> Path:
    path.mkdir()
    (path / "result.json").write_text('{"score": 1}')
    return path


def results_and_more(path: Path) -> Path:
    (results(path) / "thesis.tex").touch()
    return path


def below_a_file(path: Path) -> Path:
    path.write_text("")
    return path / "out"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign_file, "is a file; give the path of a directory"),
        (foreign_directory, "is not empty and holds no results of ranksim; give an empty or a new directory"),
        (foreign_result, "is not empty and holds no results of ranksim; give an empty or a new directory"),
        (
            results_and_more,
            "holds thesis.tex, which ranksim did not write; move it or give another directory",
        ),
        (below_a_file, "is a file, not a directory; give another path"),
    ],
)
def test_a_directory_that_is_not_ours_is_refused(tmp_path: Path, make: object, message: str) -> None:
    assert callable(make)
    path = make(tmp_path / "x")
    with pytest.raises(BadInput) as caught:
        check_directory(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith(message)


NOWHERE = Path("/proc/of/nobody")
"""Where not even root may write."""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no place where root may not write")
@pytest.mark.parametrize("check", [check_directory, check_file, lambda path: check_outputs((path,), ())])
def test_a_place_where_nothing_can_be_written_is_told_early(
    tmp_path: Path, check: Callable[[Path], None]
) -> None:
    (tmp_path / "link").symlink_to(NOWHERE)
    for path in (NOWHERE, tmp_path / "link"):
        with pytest.raises(BadInput) as caught:
            check(path)
        assert str(caught.value).startswith(f"{path}: cannot be written (")
    check(tmp_path / "a" / "b")
    assert names(tmp_path) == ["link"]  # looking leaves nothing behind


def test_a_mount_point_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    check_directory(tmp_path / "below")
    with pytest.raises(BadInput, match="is a mount point, which cannot be replaced; give a directory in it"):
        check_directory(tmp_path)


def test_no_file_lies_in_a_directory_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    check_apart(None, (tmp_path / "out" / "x", None))
    check_apart(tmp_path / "out", (tmp_path / "x", tmp_path / "out.csv", None))
    for path in (tmp_path / "out" / "x", tmp_path / "link" / "deep" / "x"):
        with pytest.raises(
            BadInput, match=r"x: lies in .*out, which is replaced as a whole; give another path"
        ):
            check_apart(tmp_path / "out", (path,))


def test_a_directory_or_a_pipe_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a directory; give the path of a file"):
        check_file(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="is a device or a pipe, which cannot be replaced"):
        check_file(tmp_path / "pipe")
