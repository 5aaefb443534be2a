"""The store: what it keeps, whom it refuses."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ranksim.errors import BadInput
from ranksim.study.engines import Measurement
from ranksim.study.store import Store
from ranksim.study.study import Study

Make = Callable[..., Study]
MEANING = {"engine": "toys", "inputs": "i", "design": "d", "seed": "1", "sources": "s"}


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    observation = Measurement({"a": 1.5, "b": None}, {"w": {"buckets": [[1, 2]]}})
    with Store(path, MEANING) as store:
        store.add("p", 1, "it broke")
        store.add("p", 0, observation)
    with Store(path, MEANING) as store:
        assert list(store.results()) == [("p", 0, observation), ("p", 1, "it broke")]
        store.forget_failures()
        assert list(store.results()) == [("p", 0, observation)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]


def test_a_replication_is_never_kept_twice(tmp_path: Path) -> None:
    with Store(tmp_path / "store", MEANING) as store:
        store.add("p", 0, "once")
        with pytest.raises(sqlite3.IntegrityError):
            store.add("p", 0, "twice")


@pytest.mark.parametrize(
    ("differing", "message"),
    [
        ({"engine": "worlds"}, "with another engine"),
        ({"inputs": "x"}, "with another scenario, population or policy"),
        ({"design": "x"}, "with another design"),
        ({"seed": "2"}, "with another seed"),
        ({"sources": "x"}, "with another version of the rules or of the simulation"),
    ],
)
def test_a_store_of_another_study(tmp_path: Path, differing: dict[str, str], message: str) -> None:
    Store(tmp_path / "store", MEANING, "Mine").close()
    with pytest.raises(BadInput) as caught:
        Store(tmp_path / "store", MEANING | differing)
    assert f"store: holds results of another study, 'Mine', {message}; give another" in str(caught.value)


def test_what_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello " * 1000)
    with sqlite3.connect(tmp_path / "other") as database:
        database.execute("CREATE TABLE mine (a)")
    database.close()
    for name, message in [
        ("text", "is damaged or no store of ranksim"),
        ("other", "is a database of another program"),
        (".", "is a directory"),
    ]:
        with pytest.raises(BadInput, match=message):
            Store(tmp_path / name, MEANING)
    assert (tmp_path / "text").read_text().startswith("hello")


def test_a_store_in_use(tmp_path: Path) -> None:
    with Store(tmp_path / "store", MEANING), pytest.raises(BadInput, match="is in use by another process"):
        Store(tmp_path / "store", MEANING)


@pytest.mark.parametrize(
    ("first", "then", "accepted"),
    [
        ({}, {"replications": 5}, True),
        ({}, {"precision": {"of": "own", "relative": 0.5, "max_replications": 4}}, True),
        ({}, {"measure": ["own"], "quantiles": [0.5], "confidence": 0.9, "title": "New"}, True),
        ({}, {"seed": 2}, False),
        ({}, {"factors": {"toy.workers": [1, 2]}}, False),
        ({}, {"change": {"toy.workers": 2}}, False),
        ({}, {"goal": {"smallest": "toy.workers", "between": [1, 4], "such_that": "level > 0"}}, False),
        (
            {"goal": {"smallest": "toy.workers", "between": [1, 4], "such_that": "level > 0"}},
            {
                "goal": {
                    **{"smallest": "toy.workers", "between": [1, 4], "such_that": "level > 0"},
                    "max_replications": 50,
                }
            },
            True,
        ),
    ],
)
def test_what_is_another_study(
    tmp_path: Path, study: Make, first: dict[str, Any], then: dict[str, Any], accepted: bool
) -> None:
    study(replications=3, **first).run(store=tmp_path / "store")
    again = study(**{"replications": 3, **then})
    if accepted:
        again.run(store=tmp_path / "store")
        return
    with pytest.raises(BadInput, match="holds results of another study"):
        again.run(store=tmp_path / "store")


def test_an_edit_of_the_rules_is_another_study(
    tmp_path: Path, study: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(replications=1).run(store=tmp_path / "store")
    monkeypatch.setattr("ranksim.study.runner.rulebook_digest", lambda parts: "edited")
    with pytest.raises(BadInput, match="another version of the rules"):
        study(replications=1).run(store=tmp_path / "store")


def test_it_makes_the_directories_above_it(tmp_path: Path) -> None:
    with Store(tmp_path / "new" / "er" / "store", MEANING):
        assert (tmp_path / "new" / "er" / "store").is_file()
