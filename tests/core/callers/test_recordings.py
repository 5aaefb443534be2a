"""Recordings: what stands here for the ids of a recording."""

from __future__ import annotations

from ranksim.core.callers.recordings import IdTranslation


def test_ids_of_what_was_created_are_paired_by_their_labels() -> None:
    ids = IdTranslation()
    ids.learn_created([("kw_a", "a"), ("kw_b", "b"), ("kw_c", "c")], [("k1", "b"), ("k2", "a"), ("k3", "d")])
    assert [ids.get(which) for which in ("kw_a", "kw_b", "kw_c")] == ["k2", "k1", None]
    assert ids.reference("kw_a") == "k2"
    assert ids.reference(["kw_b", "kw_c", 7]) == ["k1", "unmade_kw_c", 7]
    assert ids.reference(None) is None


def test_replies_are_paired_side_by_side_and_a_pair_once_made_stays() -> None:
    ids = IdTranslation()
    there = {"data": [{"id": "a"}, {"id": "b"}], "next_cursor": "c1"}
    ids.learn_replies(there, {"data": [{"id": "1"}, {"id": "2"}], "next_cursor": "x"})
    ids.learn_replies({"data": [{"id": "b"}, {"id": "c"}]}, {"data": [{"id": "3"}, {"id": "1"}]})
    ids.learn_replies({"data": {"id": "a"}}, {"data": {"id": "9"}})
    assert [ids.get(which) for which in ("a", "b", "c", "c1")] == ["1", "2", "3", "x"]
    given = {"list_ids": ["a", "unknown"], "cursor": "c1", "count": 2}
    assert ids.translated(given) == {"list_ids": ["1", "unknown"], "cursor": "x", "count": 2}


def test_what_is_put_stands_from_then_on() -> None:
    ids = IdTranslation()
    ids.put("c", "1")
    ids.put("c", "2")
    assert ("c" in ids, "d" in ids, ids.get("c")) == (True, False, "2")
