"""The JSON Schemas that are printed: all shipped files keep to theirs, misspelt fields do not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from typer.testing import CliRunner

from ranksim import cli
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.schema import FILES, as_text, schema, write_schemas

ROOT = Path(__file__).parents[1]
SHIPPED = [
    *(("scenario", path) for path in sorted((ROOT / "scenarios").glob("*.yaml"))),
    *(("study", path) for path in sorted((ROOT / "examples" / "studies").glob("*.yaml"))),
    *(("catalogue", path) for path in sorted((ROOT / "src/ranksim/data/catalogues").glob("*.yaml"))),
    ("catalogue", ROOT / "examples/pricing/tighter.yaml"),
    ("population", ROOT / "examples/pricing/population.yaml"),
    ("policy", ROOT / "notebooks/data/deployment.yaml"),
]


def found(kind: str, data: Any) -> list[str]:
    """What a file of a kind does wrong by its schema, in the schema's words."""
    return [error.message for error in Draft202012Validator(schema(kind)).iter_errors(data)]


def read(path: Path) -> Any:
    return json.loads(json.dumps(YAML(typ="safe").load(path), default=lambda date: f"{date.isoformat()}Z"))


@pytest.mark.parametrize("kind", FILES)
def test_it_is_a_schema(kind: str) -> None:
    Draft202012Validator.check_schema(schema(kind))


def test_what_a_file_writes_as_text_has_no_number_as_its_default() -> None:
    window = schema("policy")["$defs"]["Facts"]["properties"]["rate_window"]
    assert "default" not in window  # 60,000,000 µs
    assert {"type": "string"} in window["anyOf"]
    assert schema("scenario")["properties"]["replications"]["default"] == 1


@pytest.mark.parametrize(("kind", "path"), SHIPPED, ids=lambda given: getattr(given, "name", str(given)))
def test_shipped_files_keep_to_theirs(kind: str, path: Path) -> None:
    assert found(kind, read(path)) == []


def test_a_policy_that_is_written_keeps_to_it() -> None:
    text = Policy().replace(assumptions={"window": "gcra"}, facts={"rate_window": "30s"}).dump()
    assert found("policy", YAML(typ="safe").load(text)) == []


@pytest.mark.slow
def test_every_line_of_a_trace_keeps_to_it() -> None:
    with gzip.open(ROOT / "notebooks/data/everyday.jsonl.gz", "rt") as lines:
        validator = Draft202012Validator(schema("trace"))
        assert [error.message for line in lines for error in validator.iter_errors(json.loads(line))] == []


@pytest.mark.parametrize(
    "change",
    [
        {"lenght": "7d"},
        {"length": 7},
        {"start": 0},
        {"accounts": {}},
        {"clients": {"runs": {"kind": "shedule"}}},
        {"clients": {"calls": {"kind": "caller", "account": "acme", "mix": {"labels.make": 1}}}},
        {"pools": {"crawls": 3}},
        {"pools": {"crawl": "many"}},
        {"assumptions": {"windw": "gcra"}},
        {"catalogue": 5},
        {"catalogue": {"plans": {"pro": {"price": "1 USD"}}}},
        {"catalogue": {"extends": "illustrative", "plans": {"pro": {"prize": "1 USD"}}}},
        {"timeline": [{"at": "1d", "do": "resize"}]},
    ],
    ids=json.dumps,
)
def test_mistakes_are_found(change: dict[str, Any]) -> None:
    assert found("scenario", read(ROOT / "scenarios/quickstart.yaml") | change)


@pytest.mark.parametrize(
    "catalogue",
    [{"extends": "illustrative"}, {"extends": "x.yaml", "plans": {"free": None, "pro": {"price": "1 USD"}}}],
    ids=json.dumps,
)
def test_a_catalogue_that_extends_another_may_leave_out_the_rest(catalogue: dict[str, Any]) -> None:
    assert found("catalogue", catalogue) == []
    assert found("scenario", read(ROOT / "scenarios/quickstart.yaml") | {"catalogue": catalogue}) == []


def test_another_kind_is_refused_with_what_is_near() -> None:
    with pytest.raises(BadInput, match="did you mean 'scenario'"):
        schema("scenari")


# Where editors find them


@pytest.mark.parametrize("kind", FILES)
def test_the_shipped_schema_is_that_which_is_printed(kind: str) -> None:
    """`ranksim explain schema --out src/ranksim/data/schemas` writes them anew."""
    text = (ROOT / "src/ranksim/data/schemas" / f"{kind}.json").read_text("utf-8")
    assert text == as_text(schema(kind))


@pytest.mark.parametrize(("kind", "path"), SHIPPED, ids=lambda given: getattr(given, "name", str(given)))
def test_shipped_files_name_theirs(kind: str, path: Path) -> None:
    first = path.read_text("utf-8").partition("\n")[0]
    named = path.parent / first.removeprefix("# yaml-language-server: $schema=")
    assert named.resolve() == ROOT / "src/ranksim/data/schemas" / f"{kind}.json"


def test_all_are_written_into_a_folder(tmp_path: Path) -> None:
    write_schemas(tmp_path / "schemas")
    assert {path.stem for path in (tmp_path / "schemas").iterdir()} == set(FILES)


def test_the_documents_of_the_apis_are_printed() -> None:
    kinds = {
        "openapi": '"operationId": "domains.list"',
        "control": '"/_ranksim/clock"',
        "graphql": "type Query",
    }
    for kind, part in kinds.items():
        result = CliRunner().invoke(cli.app, ["explain", "schema", kind])
        assert result.exit_code == 0
        assert part in result.stdout
    refused = CliRunner().invoke(cli.app, ["explain", "schema", "opanapi"])
    assert refused.exit_code == 2
    assert "did you mean 'openapi'" in refused.stderr
