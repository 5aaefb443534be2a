"""The store: what it keeps, whom it refuses."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random, randrange
from typing import Any

import pytest

from ranksim.core.errors import BadInput
from ranksim.planner.study.engines import Measurement
from ranksim.planner.study.store import Store
from ranksim.planner.study.study import Study

Make = Callable[..., Study]
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
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


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE results SET metrics = '{}'",
        "UPDATE results SET metrics = '{'",
        "UPDATE results SET metrics = NULL",
        "UPDATE results SET metrics = 5",
        "UPDATE results SET histograms = '{\"w\": 3}'",
        "UPDATE results SET replication = 7",
        "UPDATE results SET replication = 'one'",
        "UPDATE results SET point = x'ff'",
        "UPDATE results SET crc = 0",
        "UPDATE results SET crc = 'none'",
        "DROP TABLE results",
        "DROP TABLE about",
        f"DROP TABLE results; CREATE VIEW results AS {ENDLESS} SELECT n, n, n, n, n, n FROM c",
        f"DROP TABLE about; CREATE VIEW about AS {ENDLESS} SELECT n AS name, n AS said FROM c",
    ],
)
def test_a_store_that_was_changed_is_refused_in_a_sentence(tmp_path: Path, change: str) -> None:
    path = tmp_path / "store"
    with Store(path, MEANING) as store:
        store.add("p", 0, Measurement({"a": 1.5}, {}))
    with sqlite3.connect(path) as database:
        database.executescript(change)
    database.close()
    refused = r"store: (is damaged|was written in another format)"
    with pytest.raises(BadInput, match=refused), Store(path, MEANING) as store:
        list(store.results())


@pytest.mark.slow
def test_whichever_bit_flips_a_store_is_refused_in_a_sentence_or_the_same(tmp_path: Path) -> None:
    path, seed = tmp_path / "store", randrange(2**32)
    kept = [(f"p{number}", 0, Measurement({"a": number + 0.5}, {})) for number in range(60)]
    with Store(path, MEANING) as store:
        for row in kept:
            store.add(*row)
    whole = path.read_bytes()
    chance = Random(seed)
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            with Store(path, MEANING) as store:
                assert sorted(store.results()) == sorted(kept), f"seed {seed}"
        except BadInput:
            pass


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
    monkeypatch.setattr("ranksim.planner.study.study.rulebook_digest", lambda parts: "edited")
    with pytest.raises(BadInput, match="another version of the rules"):
        study(replications=1).run(store=tmp_path / "store")


def test_it_makes_the_directories_above_it(tmp_path: Path) -> None:
    with Store(tmp_path / "new" / "er" / "store", MEANING):
        assert (tmp_path / "new" / "er" / "store").is_file()
