"""What is committed with the notebooks, and that nbmake's run notices when it is out of date.

`pytest notebooks` executes the notebooks themselves: see `notebooks/conftest.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 300_000
"""Bytes of a notebook, figures included."""

OF_A_MACHINE = re.compile(r"/home/|/root/|/tmp/|/Users/|[A-Z]:\\|site-packages|0x[0-9a-f]{8}")
"""Text that only the machine would show that a notebook was executed on."""


def code(notebook: NotebookNode) -> list[NotebookNode]:
    """Give the cells of code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_it_was_executed_without_traces_of_the_machine(path: Path) -> None:
    import nbformat

    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, 4)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST
    assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    assert notebook.metadata.language_info == {"name": "python"}
    assert all(cell.metadata == {} for cell in notebook.cells)
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    images = re.compile(r'"image/png": "[^"]*"')
    assert not OF_A_MACHINE.findall(images.sub("", text))


def test_there_are_six_notebooks_that_begin_with_a_title() -> None:
    import nbformat

    assert [path.stem[0] for path in NOTEBOOKS] == ["1", "2", "3", "4", "5", "6"]
    for path in NOTEBOOKS:
        first = nbformat.read(path, 4).cells[0]
        assert (first.cell_type, first.source[:2]) == ("markdown", "# ")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Let pytest with nbmake execute the notebooks of a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbmake", *words, str(folder)],
        cwd=folder, capture_output=True, text=True, check=False, env=kept,
    )  # fmt: skip


@pytest.mark.slow
def test_text_that_is_out_of_date_fails_and_overwrite_mends_it(tmp_path: Path) -> None:
    import nbformat

    shutil.copy(FOLDER / "conftest.py", tmp_path)
    cell = nbformat.v4.new_code_cell("print(1)\nprint(2)")
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text="1\n3\n")]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    path = tmp_path / "a.ipynb"
    nbformat.write(notebook, path)

    failed = run(tmp_path)
    assert failed.returncode == pytest.ExitCode.TESTS_FAILED
    assert "cell 0 shows other text than is committed" in failed.stdout
    assert "committed:\n1\n3\n" in failed.stdout
    assert "now:\n1\n2\n" in failed.stdout

    assert run(tmp_path, "--overwrite").returncode == pytest.ExitCode.OK
    (mended,) = nbformat.read(path, 4).cells
    assert [output.text for output in mended.outputs] == ["1\n2\n"]
    assert mended.metadata == {}
