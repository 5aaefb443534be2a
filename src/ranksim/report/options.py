"""Options that commands of several rooms share, each with its help."""

from pathlib import Path
from typing import Annotated

import typer

Plots = Annotated[bool, typer.Option(help="Whether --out draws plots, which needs matplotlib.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
ResultsDirectory = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write result.json, tables/, plots/ and page.html into this directory. It must be new, "
        "empty, or results of an earlier run, which are replaced.",
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write JUnit XML here, a test case for each rule or threshold."),
]
JsonNotText = Annotated[bool, typer.Option("--json", help="Print JSON, not text.")]
JsonNotSummary = Annotated[bool, typer.Option("--json", help="Print JSON, not a summary.")]
JsonNotTables = Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")]
