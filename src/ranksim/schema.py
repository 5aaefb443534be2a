"""JSON Schema of the files that people write, for editors, and of results, for `ranksim explain schema`.

A schema tells fields, kinds, names and short forms. What only a whole file shows, such as a client of an
account that is not there, the commands tell that read the file.
"""

import json
from collections.abc import Callable
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, create_model

from ranksim.bridges import load_capacity_cli as load_capacity
from ranksim.core.callers.fault_rules import StatedFault
from ranksim.core.callers.target import Target
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quantities import Atomic, Frozen
from ranksim.core.errors import BadInput, no_such
from ranksim.core.files import write_file
from ranksim.core.trace import ENTRY
from ranksim.planner.capacity import cli as capacity
from ranksim.planner.fleet.population import Population
from ranksim.planner.pricing import cli as pricing
from ranksim.planner.study.spec import Spec
from ranksim.report.document import COMPARISON, KINDS, ResultDocument
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import AddFault


def _partly(kind: Any) -> Any:
    """Return a model, or a mapping of models, with nothing that must be there."""
    if get_origin(kind) is dict:
        key, value = get_args(kind)
        return GenericAlias(dict, (key, _partly(value) | None))
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or issubclass(kind, Atomic):
        return kind
    fields: dict[str, Any] = {
        name: (Annotated[_partly(info.annotation), *info.metadata], None)
        if info.metadata
        else (_partly(info.annotation), None)
        for name, info in kind.model_fields.items()
    }
    return create_model(f"{kind.__name__}Changes", __base__=Frozen, **fields)


ExtendingCatalogue = create_model("ExtendingCatalogue", __base__=_partly(Catalogue), extends=(str, ...))
AnyCatalogue = Catalogue | ExtendingCatalogue
PolicyFile = create_model("PolicyFile", __base__=Policy, catalogue=(str | AnyCatalogue, "illustrative"))
ScenarioFile = create_model(
    "ScenarioFile",
    __base__=Scenario,
    policy=(str | PolicyFile, "default"),
    assumptions=(Assumptions, None),
    catalogue=(str | AnyCatalogue, "illustrative"),
)
StudyFile = create_model(
    "StudyFile",
    __base__=Spec,
    scenario=(str | ScenarioFile, ""),
    population=(str | Population, ""),
    policy=(str | PolicyFile, "default"),
)

FILES: dict[str, TypeAdapter[Any]] = {
    "scenario": TypeAdapter(ScenarioFile),
    "policy": TypeAdapter(PolicyFile),
    "catalogue": TypeAdapter(AnyCatalogue),
    "population": TypeAdapter(Population),
    "study": TypeAdapter(StudyFile),
    "target": TypeAdapter(Target),
    "trace": ENTRY,
    "result": TypeAdapter(ResultDocument),
}
"""What reads each kind of file; of a trace, a line; a result is what `--json` prints."""


RESULTS = (
    *KINDS,
    *(f"capacity {name}" for name in {**capacity.QUESTIONS, **load_capacity.QUESTIONS}),
    *(f"price {name}" for name in pricing.QUESTIONS),
)
"""What a result may be of: the commands that print JSON."""


def _openapi() -> str:
    from ranksim.twin.facade.http.examples import describe_service

    return as_text(describe_service(Policy()))


def _control() -> str:
    from ranksim.twin.facade.control.document import control_document

    return as_text(control_document())


def _graphql() -> str:
    from ranksim.core.surface.graphql_schema import SDL

    return SDL


DOCUMENTS: dict[str, Callable[[], str]] = {"openapi": _openapi, "control": _control, "graphql": _graphql}
"""What writes the documents of the APIs that a fake serves, which generators and linters read."""


def requests_of(kind: str, form: str, out: Path | None) -> str:
    """Return the requests of an API's document as an .http file, or write them for Bruno and say so.

    Raises BadInput.
    """
    from ranksim.twin.facade.http.collection import http_file, write_bruno

    if kind != "openapi":
        raise BadInput(f"--requests: expected the document openapi, found {kind or 'none'}")
    if form not in ("http", "bruno") or (form == "bruno") != (out is not None):
        raise BadInput(
            f"--requests: expected http, which is printed, or bruno with --out DIR, found {form}"
            f"{'' if out is None else ' with --out'}"
        )
    document = json.loads(_openapi())
    if out is None:
        return http_file(document)
    return f"{write_bruno(document, out)} requests written to {out}\n"


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of file, one of `FILES`. Raises BadInput."""
    if kind not in FILES:
        raise BadInput(f"schema: {no_such('kind', kind, (*FILES, *DOCUMENTS))}")
    plain = FILES[kind].json_schema()
    _without_inner_defaults(plain)
    _refer(plain.get("$defs", {}), AddFault.__name__, StatedFault.__name__)
    if kind == "trace":
        plain["anyOf"] = plain.pop("oneOf")  # a note may have any fields beside its own
    if kind == "result":
        plain["properties"]["kind"] = {"enum": [*RESULTS, COMPARISON], **plain["properties"]["kind"]}
    about = "A line of a trace of ranksim" if kind == "trace" else f"A {kind} of ranksim"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **plain, "title": about}


def write_schemas(folder: Path) -> None:
    """Write the schemas of all kinds into a folder, each as KIND.json. Raises BadInput."""
    for kind in FILES:
        write_file(folder / f"{kind}.json", as_text(schema(kind)))


def as_text(plain: dict[str, Any]) -> str:
    """Return a schema as JSON text."""
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def _refer(definitions: dict[str, Any], name: str, base: str) -> None:
    """Let the fields that one definition has from another refer to them there."""
    inherited = definitions.get(base, {}).get("properties", {})
    for field, described in inherited.items():
        if definitions[name]["properties"][field] == described:
            definitions[name]["properties"][field] = {"$ref": f"#/$defs/{base}/properties/{field}"}


JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def _without_inner_defaults(node: Any) -> None:
    """Leave out defaults that a file writes otherwise: durations in µs, money in µUSD, whole sections."""
    if isinstance(node, dict):
        if "default" in node and JSON_TYPES.get(type(node["default"])) != node.get("type"):
            del node["default"]
        for inner in node.values():
            _without_inner_defaults(inner)
    elif isinstance(node, list):
        for inner in node:
            _without_inner_defaults(inner)
