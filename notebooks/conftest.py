"""nbmake runs each notebook; the text that it then shows must be the text that is committed with it.

`--overwrite` commits what it shows instead. Figures are not compared: their pixels depend on fonts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from tempfile import TemporaryDirectory

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbmake import nb_run, pytest_items
from nbmake.nb_result import NotebookError, NotebookResult
from nbmake.nb_run import NotebookRun
from traitlets.config import Config

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""What a notebook says of its kernel, the same on every machine."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as sockets:
        # A port is chosen before the kernel binds it, and may be taken by then; files are its own.
        private = Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"})
        # A busy machine is no failure.
        patient = partial(NotebookClient, startup_timeout=600, iopub_timeout=600, config=private)
        patch.setattr(nb_run, "NotebookClient", patient)
        patch.setattr(pytest_items, "NotebookRun", Recorded if item.config.option.overwrite else Checked)
        return (yield)


class Recorded(NotebookRun):
    """A run whose notebook holds nothing of the machine and the moment."""

    def execute(self) -> NotebookResult:
        result = super().execute()
        result.nb.metadata = METADATA
        for number, cell in enumerate(result.nb.cells):
            cell.id = f"cell-{number}"
            cell.metadata = {}
            if cell.cell_type == "code":
                cell.outputs = joined(cell.outputs)
        return result


class Checked(NotebookRun):
    """A run that fails, too, where a notebook no longer shows the text that it was committed with."""

    def execute(self) -> NotebookResult:
        committed = nbformat.read(self.filename, 4)
        result = super().execute()
        if result.error is None:
            for index, (before, after) in enumerate(zip(committed.cells, result.nb.cells, strict=True)):
                if shown(before) != shown(after):
                    return NotebookResult(nb=result.nb, error=changed(before, after, index))
        return result


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """What was printed in several pieces, by accident of timing, as one."""
    kept: list[NotebookNode] = []
    for one in outputs:
        if one.output_type == "stream" and kept and kept[-1].get("name") == one.name:
            kept[-1].text += one.text
        else:
            kept.append(one)
    return kept


def shown(cell: NotebookNode) -> str:
    """All text among the outputs of a cell, what it prints and what it evaluates to."""
    outputs = cell.get("outputs", [])
    return "".join(one.get("text") or one.get("data", {}).get("text/plain", "") for one in outputs)


def changed(before: NotebookNode, after: NotebookNode, index: int) -> NotebookError:
    """Say what a cell was committed with, and what it shows now."""
    trace = f"{before.source}\n\ncommitted:\n{shown(before)}\n\nnow:\n{shown(after)}"
    summary = f"cell {index} shows other text than is committed; pytest --nbmake --overwrite notebooks"
    return NotebookError(summary=summary, trace=trace, failing_cell_index=index)
