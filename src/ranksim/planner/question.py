"""A question made a command: its signature declares the flags, and its answer is given as they say."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ranksim.report.terminal import check_results

AccountName = Annotated[str, typer.Option(help="Which account of the scenario; its only one if none.")]
Seed = Annotated[int, typer.Option(help="Seed of all that is drawn.")]
Plots = Annotated[bool, typer.Option(help="Whether --out draws plots, which needs matplotlib.")]


def command(
    question: Callable[..., Any], give: Callable[..., None], group: Callable[..., Any] | None = None
) -> Callable[..., None]:
    """Return a question as a command: flags for its parameters, and for those of `give` but its first.

    `give` takes the answer first; its `out` and `plots` are checked before the question is asked. A parameter
    `tracked` of the question is made of the flags of `group`.
    """
    own = dict(inspect.signature(question).parameters)
    _, *output = inspect.signature(give).parameters.values()
    grouped = inspect.signature(group).parameters if own.pop("tracked", None) and group else {}

    @functools.wraps(question)
    def run(**flags: Any) -> None:
        check_results(flags["out"], flags["plots"], flags.get("csv"))
        of_output = {parameter.name: flags.pop(parameter.name) for parameter in output}
        if group and grouped:
            flags["tracked"] = group(**{name: flags.pop(name) for name in grouped})
        give(question(**flags), **of_output)

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*own.values(), *output, *grouped.values())
    ]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
