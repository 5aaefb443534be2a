"""The YAML reader that policies and scenarios share."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from ranksim.core.contract.located import validate
from ranksim.core.contract.quantities import Frozen, Instant
from ranksim.core.contract.yamlfile import load_yaml, read_yaml
from ranksim.core.errors import BadInput


class Cat(Frozen):
    kind: Literal["cat"]
    lives: int = 9


class Dog(Frozen):
    kind: Literal["dog"]
    tricks: list[str] = Field(default_factory=list)


class House(Frozen):
    born: Instant = 0
    pets: tuple[Annotated[Cat | Dog, Field(discriminator="kind")], ...] = ()
    names: dict[str, str] = Field(default_factory=dict)
    codes: tuple[Annotated[str, Field(min_length=2, pattern="^[a-z]+$")], ...] = Field((), max_length=2)
    best: Cat | None = None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", "a"),
        ("12", 12),
        ("010", 10),
        ("-1_000", -1000),
        ("0x1f", 31),
        ("1.5", 1.5),
        ("-.inf", float("-inf")),
        (".INF", float("inf")),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("~", None),
        ("'12'", "12"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T09:00:00Z", "2026-01-31T09:00:00Z"),
        ("[1, {b: 2}]", [1, {"b": 2}]),
        ("&x {b: 1}", {"b": 1}),
    ],
)
def test_scalars(text: str, value: object) -> None:
    data = load_yaml(f"a: {text}", "f").data["a"]
    assert data == value
    assert type(data) is type(value)


@pytest.mark.parametrize(
    ("text", "tag"), [("!!int abc", "int"), ("!!float x", "float"), ("!!bool yes", "bool"), ("-_", "int"),
                      ("._", "float"), ("9" * 5000, "int")],
)  # fmt: skip
def test_a_scalar_that_is_not_of_its_type_is_refused(text: str, tag: str) -> None:
    found = text.rpartition(" ")[2][:40]
    with pytest.raises(BadInput) as caught:
        load_yaml(f"a:\n  b: {text}", "f")
    assert str(caught.value) == (
        f"f:2: a.b: expected a value of type {tag}, found {found!r}; put it in quotes if it is text"
    )


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(BadInput, match=r"^f:1: a: expected a value of type str, found '\\ud800'; "):
        load_yaml('a: "\\uD800"', "f")


def test_field_names_stay_as_written() -> None:
    assert load_yaml("2024: a\ntrue: b\n", "f").data == {"2024": "a", "true": "b"}


def test_an_alias_may_be_used_twice() -> None:
    assert load_yaml("a: &x [1]\nb: *x\n", "f").data == {"a": [1], "b": [1]}


def test_a_part_keeps_its_place() -> None:
    located = load_yaml("a:\n  b:\n  - 1\n  - c: 2\n", "f.yaml")
    part = located["a"]["b"]
    assert part.data == [1, {"c": 2}]
    assert str(part.error("wrong", 1, "c")) == "f.yaml:4: a.b[1].c: wrong"
    assert str(part.error("wrong")) == "f.yaml:2: a.b: wrong"
    assert str(located.error("wrong", "a", "z")) == "f.yaml:1: a.z: wrong"
    assert str(located.error("wrong")) == "f.yaml:1: wrong"


def test_validate() -> None:
    text = "born: 2026-01-31\npets:\n- {kind: cat}\n- {kind: dog, tricks: [sit]}\nnames: {a: b}\n"
    house = validate(House, load_yaml(text, "f"))
    assert house.born == 1_769_817_600_000_000
    assert house.pets == (Cat(kind="cat"), Dog(kind="dog", tricks=["sit"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pets:\n- {kind: cat}\n- {kind: cow}\n",
            "f:3: pets[1]: expected kind to be one of cat, dog, found 'cow'",
        ),
        ("pets:\n- {lives: 3}\n", "f:2: pets[0]: kind is missing; add it"),
        ("pets:\n- kind: cat\n  lifes: 3\n", "f:3: pets[0].lifes: no such field; did you mean 'lives'?"),
        ("pets:\n- kind: dog\n  tricks: [1]\n", "f:3: pets[0].tricks[0]: expected text, found 1"),
        ("codes: [ab, cd, ef]\n", "f:1: codes: expected at most 2, found 3"),
        ("codes: [a]\n", "f:1: codes[0]: expected at least 2 characters, found 'a'"),
        ("codes: [A1]\n", "f:1: codes[0]: expected text that matches ^[a-z]+$, found 'A1'"),
        ("names:\n  a: 1\n", "f:2: names.a: expected text, found 1"),
        ("best:\n  kind: dog\n", "f:2: best.kind: expected one of cat, found 'dog'"),
        (
            "born: never\n",
            "f:1: born: 'never' is not an ISO 8601 instant with a zone, such as 2026-03-01T00:00:00Z",
        ),
    ],
)
def test_places_in_unions_and_containers(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        validate(House, load_yaml(text, "f"))
    assert str(caught.value) == message


def test_files_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: \xff\n")
    with pytest.raises(BadInput) as caught:
        read_yaml(path)
    assert str(caught.value) == f"{path}: not UTF-8 text; save the file as UTF-8"
    path.write_bytes(b"a: \x00\n")
    with pytest.raises(BadInput) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(f"{path}")
    assert "not valid YAML" in str(caught.value)


@pytest.mark.parametrize("style", [">", ">-"])
def test_folded_text_is_one_line(style: str) -> None:
    text = f"name: {style}\n  first line\n  second line\n"
    assert load_yaml(text, "x.yaml").data["name"].rstrip("\n") == "first line second line"
