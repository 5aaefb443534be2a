"""Keywords of a trace: all of them where calls list them to the last page, else as many as are assumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ranksim as rs
from ranksim.core.clock import MINUTE
from ranksim.core.contract.located import Located
from ranksim.core.contract.policy import Policy
from ranksim.judge.mirror.reading import KEYWORDS
from ranksim.judge.mirror.recorded import read_recorded
from ranksim.judge.mirror.stated import stated_account
from ranksim.judge.mirror.world import world_of

CATALOGUE = Policy().catalogue


def call(method: str, where: str, reply: Any = None, key: str = "main", **query: str) -> dict[str, Any]:
    return {
        "method": method, "path": f"/v1/{where}", "status": 204 if reply is None else 200, "api_key": key,
        "query": query, "response": None if reply is None else json.dumps(reply),
    }  # fmt: skip


def page(domain: str | None, words: range, of: str = "l1", following: str | None = None) -> dict[str, Any]:
    data = [{"id": f"kw_{n}", "domain_id": domain, "list_id": of} for n in words]
    return {"data": data, "has_more": following is not None, "next_cursor": following}


def asked(
    words: range, following: str | None = None, selects: str = "id domainId listId", **variables: Any
) -> dict[str, Any]:
    """A page of keywords over GraphQL, of which other tools tell no operation."""
    keyword = {"domainId": "dom_a", "listId": "l1", "keyword": "x"}
    nodes = [
        {name: keyword[name] for name in selects.split() if name in keyword} | {"id": f"kw_{n}"}
        for n in words
    ]
    passed = ", ".join(f"{name}: ${name}" for name in variables)
    query = (
        f"query ({', '.join(f'${name}: T' for name in variables)}) {{ keywords({passed})"
        f" {{ nodes {{ {selects} }} pageInfo {{ hasNextPage endCursor }} }} }}"
    )
    info = {"hasNextPage": following is not None, "endCursor": following or "last"}
    reply = {"data": {"keywords": {"nodes": nodes, "pageInfo": info}}}
    sent = json.dumps({"query": query, "variables": variables})
    return call("POST", "", reply) | {"path": "/graphql", "surface": "graphql", "body": sent}


def portfolios(
    path: Path, calls: list[dict[str, Any]], **stated: int
) -> tuple[dict[str, tuple[int, int]], str]:
    """Return keywords and lists of each named domain of a twin of calls, and what is made up of them."""
    header = {"ranksim_trace": 1, "keys": {"main": {"account": "acme"}, "bound": {
        "account": "acme", "domain_id": "dom_b"}}}  # fmt: skip
    lines = [header] + [
        {
            "kind": "exchange",
            "id": str(n),
            "sent": n * MINUTE,
            "received": n * MINUTE,
            "operations": [],
            **each,
        }
        for n, each in enumerate(calls, 1)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    recorded = read_recorded(path, stated_account("pro", CATALOGUE, **stated))
    twin = world_of(recorded.reading, recorded.host, recorded.start, recorded)
    account = twin.scenario["accounts"]["acme"]
    [made_up] = [line for line in twin.made_up if "where no call shows it" in line]
    tracked = [account["portfolio"], *account.get("further", [])]
    counts = {each["domains"][0]: (each["keywords"], each["lists"]) for each in tracked if "lists" in each}
    return counts, made_up


A, B = "dom-a.example", "dom-b.example"
FIRST = call("GET", "keywords", page("dom_a", range(200), following="c1"), domain_id="dom_a")
LAST = call("GET", "keywords", page("dom_a", range(200, 230)), cursor="c1")
OVER_FIRST = asked(range(200), following="c1", first=200, domainId="dom_a")
OVER_LAST = asked(range(200, 230), first=200, domainId="dom_a", after="c1")
MADE = call("POST", "keywords", {"data": {"created": page("dom_a", range(230, 240))["data"]}})


@pytest.mark.parametrize(
    ("calls", "keywords", "lists"),
    [
        ([FIRST, LAST], 230, 1),
        ([FIRST, call("DELETE", "keywords/kw_3"), LAST], 229, 1),
        ([FIRST, LAST, MADE], 240, 1),
        # Read anew, it shows that somebody else took words out; half of it read, it does not
        ([FIRST, LAST, call("GET", "keywords", page("dom_a", range(7)), domain_id="dom_a")], 7, 1),
        ([FIRST, LAST, FIRST], 230, 1),
        ([call("GET", "keywords", page("dom_a", range(0)), domain_id="dom_a")], 0, 1),
        # List by list, of words that do not show their domain where they are asked for by it
        ([call("GET", "keywords", page("dom_a", range(8)), list_id="l1"),
          call("GET", "keywords", page("dom_a", range(8, 20), of="l2"), list_id="l2")], 20, 2),
        ([call("GET", "keywords", page(None, range(8)), domain_id="dom_a")], 8, 1),
        ([call("GET", "keywords", page("dom_a", range(8)))], 8, 1),
        # A list counts its words as it is made; what a listing shows is later
        ([call("POST", "keyword-lists", {"data": {"id": "l1", "domain_id": "dom_a", "keyword_count": 0}}),
          FIRST, LAST], 230, 1),
        ([FIRST, LAST, call("DELETE", "keyword-lists/l1")], 0, 1),
        # Over GraphQL, alone and beside REST, of whatever a document selects
        ([OVER_FIRST, OVER_LAST], 230, 1),
        ([{**OVER_FIRST, "operations": [KEYWORDS]}, OVER_LAST, call("DELETE", "keywords/kw_3")], 229, 1),
        ([FIRST, LAST, OVER_FIRST, OVER_LAST, MADE], 240, 1),
        ([OVER_FIRST, OVER_LAST, FIRST], 230, 1),
        ([FIRST, LAST, asked(range(7), first=9, domainId="dom_a")], 7, 1),
        ([asked(range(8), selects="id keyword", first=9, domainId="dom_a")], 8, 1),
        ([call("GET", "keyword-lists", {"data": [{"id": "l1", "domain_id": "dom_a"}]}),
          asked(range(8), selects="id keyword", first=9, domainId="dom_a")], 8, 1),
    ],
)  # fmt: skip
def test_keywords_that_calls_list_are_counted(
    calls: list[dict[str, Any]], keywords: int, lists: int, tmp_path: Path
) -> None:
    counts, made_up = portfolios(tmp_path / "trace.jsonl", calls, keywords=500)
    assert counts == {A: (keywords, lists)}
    assert "1 domain, of which calls name 1, with one scan of google/desktop" in made_up


@pytest.mark.parametrize(
    ("calls", "keywords"),
    [
        ([FIRST], 300),
        ([LAST], 300),
        ([call("GET", "keywords", page("dom_a", range(8)), domain_id="dom_a", label_id="x")], 300),
        ([{**LAST, "query": None}], 300),
        ([FIRST, call("GET", "keywords", page("dom_a", range(200, 400), following="c2"), cursor="c1")], 400),
        ([OVER_FIRST], 300),
        ([OVER_LAST, FIRST], 300),
        ([asked(range(320), following="c1", first=320, domainId="dom_a"), FIRST], 320),
        ([asked(range(8), first=9, domainId="dom_a", keyword="x")], 300),
        # Of which domain it lists nobody can tell
        ([FIRST, asked(range(500, 520), selects="id keyword", first=99)], 300),
    ],
)  # fmt: skip
def test_keywords_of_listings_that_are_not_whole_are_assumed_but_no_fewer_than_there_are(
    calls: list[dict[str, Any]], keywords: int, tmp_path: Path
) -> None:
    counts, made_up = portfolios(tmp_path / "trace.jsonl", calls, keywords=300)
    assert counts == {A: (keywords, 1)}
    assert "1 domain, of which calls name 1, with 300 keywords and one scan of google/desktop" in made_up


def test_words_whose_list_no_reply_tells_are_among_those_that_lists_count(tmp_path: Path) -> None:
    calls = [
        call("POST", "keyword-lists", {"data": {"id": "l1", "domain_id": "dom_a", "keyword_count": 290}}),
        call("POST", "keyword-lists", {"data": {"id": "l2", "domain_id": "dom_a"}}),
        asked(range(200), following="c1", selects="id keyword", first=200, domainId="dom_a"),
    ]
    assert portfolios(tmp_path / "trace.jsonl", calls, keywords=300)[0] == {A: (300, 2)}


def test_what_is_made_up_names_only_the_keywords_that_no_call_lists(tmp_path: Path) -> None:
    """A key that is bound to a domain lists all keywords of that domain alone."""
    bound = call("GET", "keywords", page("dom_b", range(300, 309)), key="bound")
    slots = call("GET", "keyword-lists", {"data": [{"id": "l9", "domain_id": "dom_a"}]}, domain_id="dom_a")
    counts, made_up = portfolios(tmp_path / "trace.jsonl", [bound, slots], domains=3, keywords=20)
    assert counts == {A: (20, 1), B: (9, 1)}
    assert (
        "3 domains, of which calls name 2, with 20 keywords where calls do not list all of them and one scan "
        "of google/desktop in US each" in made_up
    )


def test_a_twin_has_the_keywords_that_an_account_has_as_its_trace_ends(tmp_path: Path) -> None:
    """A weekly sync replaces a tenth of them, and lists them before."""
    path = tmp_path / "trace.jsonl"
    data = {
        "name": "seen", "start": "2026-03-02T00:00:00Z", "length": "15d",
        "accounts": {"acme": {
            "plan": "pro", "keys": ["main"], "portfolio": {"domains": 2, "lists": 2, "keywords": 230},
            "further": [{"domains": 1, "keywords": 30}],
        }},
        "clients": {"sync": {
            "kind": "keyword_sync", "account": "acme", "every": "week", "at": "08:00", "share": 0.1,
        }},
    }  # fmt: skip
    rs.run(rs.Scenario.read(Located("seen", data, {})), trace=path)
    recorded = read_recorded(path, stated_account("pro", CATALOGUE))
    twin = world_of(recorded.reading, recorded.host, recorded.start, recorded)
    account = twin.scenario["accounts"]["acme"]
    tracked = [(each["keywords"], each["lists"]) for each in (account["portfolio"], *account["further"])]
    assert sorted(tracked) == [(30, 1), (230, 2), (230, 2)]
