"""A question made a command: its signature declares the flags, and its answer is given as they say."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from ranksim.core.errors import BadInput, one_among
from ranksim.report.options import SettingFlags, blaming_settings
from ranksim.report.tables import ALL
from ranksim.report.terminal import check_results

AccountName = Annotated[str, typer.Option(help="Which account of the scenario; its only one if none.")]
Seed = Annotated[int, typer.Option(help="Seed of all that is drawn.")]


def command(
    question: Callable[..., Any],
    give: Callable[..., None],
    flags: Mapping[str, Any] = MappingProxyType({}),
    read: Callable[..., Any] = dict,
    *,
    with_settings: Callable[..., dict[str, Any]] | None = None,
    tables: Collection[str] = (),
) -> Callable[..., None]:
    """Return a question as a command: flags for its parameters, and for those of `give` but its first.

    `give` takes the answer first; its `out` and `plots` are checked before the question is asked. A parameter
    `tracked` of the question is `read` from more `flags`, which have annotations by name.
    `with_settings` takes the flags --set and the parameters, and returns those that change; without it there
    is no such flag. Of `tables` are those that a parameter of that name of `give` may name, beside "all".
    """
    own = dict(inspect.signature(question).parameters)
    postponed = [parameter.name for parameter in own.values() if isinstance(parameter.annotation, str)]
    # Typer would take text for a type of its own, and make an argument of the flag.
    assert not postponed, f"{question.__module__}: leave out `from __future__ import annotations`"
    _, *output = inspect.signature(give).parameters.values()
    grouped = flags if own.pop("tracked", None) else {}
    more = grouped if with_settings is None else {**grouped, "set": SettingFlags}

    @functools.wraps(question)
    def run(**given: Any) -> None:
        check_results(given["out"], given["plots"], given.get("csv"))
        for name in given.get("tables") or ():
            if name not in (ALL, *tables):
                raise BadInput(f"--tables: expected {ALL} or {one_among(tables, name)}")
        settings = given.pop("set", None)
        if with_settings is not None and settings:
            with blaming_settings():
                given |= with_settings(settings, **given)
        of_output = {parameter.name: given.pop(parameter.name) for parameter in output}
        if grouped:
            given["tracked"] = read(**{name: given.pop(name) for name in grouped})
        give(question(**given), **of_output)

    only = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(parameter.replace(kind=only) for parameter in (*own.values(), *output)),
        *(inspect.Parameter(name, only, default=None, annotation=each) for name, each in more.items()),
    ]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
