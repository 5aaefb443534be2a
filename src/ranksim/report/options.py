"""Options that commands of several rooms share, each with its help."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ranksim.core.errors import BadInput

if TYPE_CHECKING:
    from pydantic import BaseModel

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
SettingFlags = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Give a parameter another value, by its path as in studies, such as "
        '"policy.catalogue.plans.pro.price=149 USD" or, of a scenario, scenario.length=7d; may be repeated.',
    ),
]


@contextmanager
def blaming_settings() -> Iterator[None]:
    """Tell of --set where what it gives is refused."""
    try:
        yield
    except BadInput as error:
        raise BadInput(str(error).replace("replace: ", "--set: ")) from None


def read_settings(texts: Sequence[str] | None, roots: Mapping[str, "BaseModel"]) -> dict[str, Any]:
    """Read PATH=VALUE flags, whose values are YAML, for inputs by name. Raises BadInput."""
    from ranksim.core.contract.parameters import check_path, check_unit
    from ranksim.core.contract.yamlfile import load_yaml

    settings: dict[str, Any] = {}
    for text in texts or ():
        path, equals, value = text.partition("=")
        if not path or not equals:
            raise BadInput(f"--set: expected PATH=VALUE such as scenario.length=7d, found {text!r}")
        if path in settings:
            raise BadInput(f"--set: {path} is given twice; give one value")
        settings[path] = load_yaml(value, f"--set {path}").data
        try:
            check_path(path, roots)
            check_unit(path, settings[path], roots)
        except BadInput as error:
            raise BadInput(f"--set {path}: {error}") from None
    return settings
