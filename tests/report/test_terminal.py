"""What commands that write results share: text for stdout, an early look at where results go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from ranksim.core.errors import BadInput
from ranksim.report import figure
from ranksim.report.progress import show_progress
from ranksim.report.tables import View
from ranksim.report.terminal import again, check_results, rendered

TABLE = View("Refusals", ("code", "count"), 1, (("quota_exhausted", "12"),))


def test_text_is_as_wide_as_the_terminal_and_ends_without_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    text = rendered([Text("[bold] is no mark, and :smile: no face"), Text(), TABLE])
    first, second, blank, *table = text.splitlines()
    assert f"{first} {second}" == "[bold] is no mark, and :smile: no face"
    assert blank == ""
    assert "quota_exhausted     12" in " ".join(table)
    assert all(line == line.rstrip() and len(line) <= 30 for line in text.splitlines())


def test_nothing_moves_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("simulating") as tell:
        tell(0.5, "half")
    assert capsys.readouterr() == ("", "")


def test_plots_that_cannot_be_drawn_are_told_before_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure, "find_spec", lambda name: None)
    check_results(None, plots=True)
    check_results(tmp_path / "new", plots=False)
    with pytest.raises(BadInput, match=r"'\.\[plots\]'\), or give --no-plots"):
        check_results(tmp_path / "new", plots=True)


def test_the_command_that_asks_again_has_what_was_given_and_not_where_results_go() -> None:
    app = typer.Typer(context_settings={"auto_envvar_prefix": "APP"})

    @app.command()
    def price(
        context: typer.Context,
        file: Path,
        vary: Annotated[list[str] | None, typer.Option()] = None,
        seed: int = 1,
        fast: bool = True,
        out: Path | None = None,
    ) -> None:
        print(again(context, "price compare"))

    words = ["my file.yaml", "--vary", "a=1,2", "--vary", "b=3 USD", "--no-fast", "--out", "there"]
    told = CliRunner().invoke(app, words, env={"APP_SEED": "7"}).output
    assert told == "ranksim price compare 'my file.yaml' --vary a=1,2 --vary 'b=3 USD' --seed 7 --no-fast\n"
    assert CliRunner().invoke(app, ["x"]).output == "ranksim price compare x\n"
