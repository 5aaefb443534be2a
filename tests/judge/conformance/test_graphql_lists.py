"""Lists that are asked for over GraphQL are judged as the REST call that they surely are (S4, U83)."""

from typing import Any

import pytest
from tests.kit.traces import Entry, a_trace, call, found, judged

from ranksim.judge.conformance.calls import access, pages, pagination
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.spending import spending

LIST = "keywords(first: $first, after: $after, listId: $list)"
INFO = "pageInfo { hasNextPage endCursor }"
LIST_1, LIST_2 = {"list": "l1"}, {"list": "l2"}
EMPTY: dict[str, Any] = {}
ERRORS = {"errors": [{"extensions": {"code": "x"}}]}


def asked(
    sent: float,
    reply: Any,
    text: str = f"query {{ {LIST} {{ nodes {{ id }} {INFO} }} }}",
    operation: str = "keywords.list",
    status: int = 200,
    key: str = "main",
    once: str | None = None,
    /,
    **variables: Any,
) -> Entry:
    """Send a document; the reply is that of its one root field, or the whole text that is given."""
    body = {"query": text, "variables": variables}
    whole = reply if isinstance(reply, str) or "errors" in reply else {"data": {"x": reply}}
    made = call(
        operation,
        sent,
        sent + 1,
        surface="graphql",
        status=status,
        body=body,
        reply=whole,
        key=key,
        once=once,
        path={"id": "any"},
    )
    return made.model_copy(update={"method": "POST", "path": "/graphql"})


def shown(items: Any, more: bool | None = None, end: str | None = "end") -> dict[str, Any]:
    """A connection of items named by letters."""
    told = {} if more is None else {"pageInfo": {"hasNextPage": more, "endCursor": end}}
    return {"nodes": [{"id": item} for item in items], **told}


def page(
    sent: float, items: Any, more: str | None = None, after: str | None = None, /, **given: Any
) -> Entry:
    variables = {"first": 9, **given, **({} if after is None else {"after": after})}
    return asked(sent, shown(items, more is not None, more or "end"), **variables)


def rest(sent: float, items: str, more: str | None = None, /, **query: str) -> Entry:
    return call("keywords.list", sent, sent + 1, [{"id": item} for item in items], more=more, query=query)


def refused(sent: float, after: str, code: str = "invalid_cursor", /, **given: Any) -> Entry:
    return asked(sent, {"errors": [{"extensions": {"code": code}}]}, after=after, **given)


def made(sent: float, items: str) -> Entry:
    data = {"created": [{"id": item, "list_id": "l1"} for item in items]}
    return call("keywords.create", sent, sent + 1, data, body={"list_id": "l1"})


def deleted(sent: float, item: str) -> Entry:
    return call("keywords.delete", sent, sent + 0.5, status=204, reply="", path={"id": item})


def seen_of(*entries: Entry) -> Observation:
    [seen] = read_history(a_trace(entries)).seen
    return seen


# What is mapped

NODES = "{ nodes { id } }"


@pytest.mark.parametrize(
    ("text", "variables", "expected"),
    [
        (f"query {{ {LIST} {NODES} }}", {}, {}),
        (f"query {{ {LIST} {NODES} }}", {"first": None, "after": None}, {}),
        (
            f"query Q($first: Int, $after: String, $list: ID) {{ all: {LIST} {NODES} }}",
            {"first": 5, "after": "c", "list": "l1"},
            {"limit": "5", "cursor": "c", "list_id": "l1"},
        ),
        (
            f'{{ keywords(first: 7, domainId: 3, after: "c") {NODES} }}',
            {},
            {"limit": "7", "domain_id": "3", "cursor": "c"},
        ),
        (f"{{ keywords {NODES} }}", {}, {}),
        (f"{{ keywords(first: 0) {NODES} }}", {}, None),
        (f"{{ keywords(first: true) {NODES} }}", {}, None),
        (f'{{ keywords(first: "5") {NODES} }}', {}, None),
        (f"{{ keywords(last: 5) {NODES} }}", {}, None),
        (f"{{ keywords(first: 5, search: E) {NODES} }}", {}, None),
        (f"{{ keywords(first: 5, listId: [1]) {NODES} }}", {}, None),
        (f"query ($n: Int = 3) {{ keywords(first: $n) {NODES} }}", {}, None),
        (f"{{ keywords(first: 5) @skip(if: false) {NODES} }}", {}, None),
        ("{ keywords(first: 5) { ...All } } fragment All on KeywordConnection { nodes { id } }", {}, None),
        ("{ keywords(first: 5) { nodes { id: keyword } } }", {}, None),
        ("{ keywords(first: 5) { nodes { id labels(first: 1) { id } } } }", {}, None),
        (f"{{ keywords(first: 5) {NODES} domains {NODES} }}", {}, None),
        (f'{{ keywords(keyword: """a""") {NODES} }}', {}, None),
        (f"{{ keywords(first: ) {NODES} }}", {}, None),
    ],
)
def test_what_a_document_asks_for(
    text: str, variables: dict[str, Any], expected: dict[str, str] | None
) -> None:
    seen = seen_of(asked(0, shown("a", True), text, **variables))
    assert (seen.has_more is not None) == (expected is not None)
    assert seen.query == (expected or {})


EDGES = {"edges": [{"node": {"id": "a"}}], "pageInfo": {"hasNextPage": False, "endCursor": None}}


@pytest.mark.parametrize(
    ("reply", "first", "data", "more", "following"),
    [
        (shown("ab", True, "c"), 2, ("a", "b"), True, "c"),
        (shown("ab", False, "c"), 2, ("a", "b"), False, None),  # a last page may have an end, too
        (shown("ab", True, "c"), None, ("a", "b"), True, "c"),
        (shown("ab", False, "c"), None, ("a", "b"), None, None),  # which Relay says where no `first` is given
        (shown("ab", True, None), 2, ("a", "b"), True, None),
        (shown("ab"), 2, ("a", "b"), None, None),
        ({**shown("ab"), "pageInfo": {"hasNextPage": True}}, 2, ("a", "b"), None, None),
        ({**shown("ab"), "pageInfo": {"endCursor": "c"}}, 2, ("a", "b"), None, None),
        ({**shown("ab"), "pageInfo": None}, 2, ("a", "b"), None, None),
        (EDGES, 2, ("a",), False, None),
        ({"nodes": [{"id": "a"}, None]}, 2, {"nodes": [{"id": "a"}, None]}, None, None),
        ({"nodes": [{"keyword": "a"}]}, 2, {"nodes": [{"keyword": "a"}]}, None, None),
        ({"totalCount": 3}, 2, {"totalCount": 3}, None, None),
    ],
)
def test_what_a_reply_shows(
    reply: dict[str, Any], first: int | None, data: Any, more: bool | None, following: str | None
) -> None:
    seen = seen_of(asked(0, reply, first=first))
    assert (seen.data, seen.has_more, seen.next_cursor) == (data, more, following)


@pytest.mark.parametrize(
    ("job", "name"),
    [
        ({"id": "job_1", "kind": "RANK_RUN", "status": "DONE"}, "job_1"),
        ({"id": "7", "kind": "CRAWL"}, "crawl/7"),
        ({"id": 7, "kind": "crawl"}, "crawl/7"),
        ({"id": "7"}, None),
        ({"id": "7", "kind": "RankRun"}, None),
    ],
)
def test_a_job_is_named_by_its_kind_too(job: dict[str, Any], name: str | None) -> None:
    """A number may name a job of each kind, so a list that tells no kind, or another one, shows no job."""
    text = f"{{ jobs(first: 5, kind: CRAWL) {{ nodes {{ id kind status }} {INFO} }} }}"
    seen = seen_of(asked(0, {**shown("", False), "nodes": [job]}, text, "jobs.list"))
    assert seen.data == ((name,) if name else {**shown("", False), "nodes": [job]})
    assert seen.query == {"limit": "5", "kind": "crawl"}


def test_items_have_the_names_of_rest() -> None:
    text = f"{{ jobs(first: 5) {{ nodes {{ id kind status domainId }} {INFO} }} }}"
    job = {"id": "job_1", "kind": "CRAWL", "status": "DONE", "domainId": "dom_1"}
    seen = seen_of(asked(0, {**shown("", False), "nodes": [job]}, text, "jobs.list"))
    assert seen.items == [{"id": "job_1", "kind": "crawl", "status": "done", "domain_id": "dom_1"}]


@pytest.mark.parametrize(
    "entry",
    [
        asked(0, shown("a", False), "{ webhooks(first: 5) { nodes { id } } }", "webhooks.list"),
        asked(0, shown("a", False), "{ slots(first: 5) { nodes { id } } }", "slots.get"),
        asked(0, shown("a", False), f"{{ {LIST} {NODES} }}", "keywords.list", 200, "main", "k", first=5),
    ],
    ids=["endpoints", "no list", "under a key"],
)
def test_what_is_no_list_of_this_moment(entry: Entry) -> None:
    seen = seen_of(entry)
    assert (seen.query, seen.has_more) == ({}, None)


# What is judged

CHOOSES = [page(-9, "ab"), page(-7, "a", **LIST_1), page(-5, "ab")]

TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "each item once": (pages.ONCE, [page(0, "ab", "c"), page(2, "cd", None, "c")], "held"),
    "an item twice": (pages.ONCE, [page(0, "ab", "c"), page(2, "bc", None, "c")], "broken"),
    "an item that may have moved, by whatever id": (
        pages.ONCE,
        [
            page(0, "ab", "c"),
            asked(1.5, EMPTY, "mutation { updateKeyword(id: $id) { ok } }", "keywords.update", id="b"),
            page(4, "bc", None, "c"),
        ],
        "open",
    ),
    "left out": (pages.COMPLETE, [page(0, "ab"), page(2, "a"), page(4, "ab")], "broken"),
    "left out after its creation over REST": (
        pages.COMPLETE,
        [made(0, "b"), page(2, "a"), page(4, "ab")],
        "broken",
    ),
    "shown by REST alone": (pages.COMPLETE, [rest(0, "ab"), page(2, "a"), rest(4, "ab")], "nothing"),
    "left out where nobody asked for a page": (
        pages.COMPLETE,
        [page(0, "ab"), page(2, "a", first=None), page(4, "ab")],
        "nothing",
    ),
    "while items go": (
        pages.COMPLETE,
        [
            page(0, "abcd"),
            page(2, "ab", "c"),
            deleted(4, "b"),
            page(6, "d", None, "c"),
            page(8, "acd"),
        ],
        "broken",
    ),
    "returned unchanged": (pages.WALK, [page(0, "a", "c"), page(2, "b", None, "c")], "held"),
    "refused though unchanged": (pages.WALK, [page(0, "a", "c"), refused(2, "c", first=9)], "broken"),
    "refused by another code": (
        pages.WALK,
        [page(0, "a", "c"), refused(2, "c", "BAD_INPUT")],
        "nothing",
    ),
    "a cursor of REST": (pages.WALK, [rest(0, "a", "c"), refused(2, "c")], "nothing"),
    "other filters refused": (
        pages.CURSOR,
        [*CHOOSES, page(0, "a", "c", **LIST_1), refused(2, "c", **LIST_2)],
        "held",
    ),
    "other filters accepted": (
        pages.CURSOR,
        [*CHOOSES, page(0, "a", "c", **LIST_1), page(2, "b", None, "c", **LIST_2)],
        "broken",
    ),
    "filters that REST showed to choose": (
        pages.CURSOR,
        [
            rest(-9, "ab"),
            rest(-7, "a", list_id="l1"),
            rest(-5, "ab"),
            page(0, "a", "c", **LIST_1),
            page(2, "b", None, "c", **LIST_2),
        ],
        "open",
    ),
    "as many as asked for": (pages.LIMIT, [page(0, "abc", "c", first=3)], "held"),
    "more than asked for": (pages.LIMIT, [page(0, "abcd", "c", first=3)], "broken"),
    "more than the largest page": (pages.LIMIT, [page(0, range(201), "c", first=500)], "broken"),
    "more than the default": (pages.LIMIT, [page(0, range(51), "c", first=None)], "broken"),
    "too many, and nobody knows of how many": (
        pages.LIMIT,
        [asked(0, shown(range(51)), first=3)],
        "nothing",
    ),
    "1000 refused": (
        pages.LIMIT,
        [
            asked(
                0,
                ERRORS,
                f"{{ {LIST} {NODES} }}",
                "keywords.list",
                422,
                first=1000,
            )
        ],
        "nothing",
    ),
    "fewer than the default": (
        pages.DEFAULT,
        [page(n, range(20), f"c{n}", first=None) for n in (0, 2)] + [page(4, range(50), "c", first=50)],
        "broken",
    ),
    "the default": (pages.DEFAULT, [page(0, range(50), "c", first=None)], "held"),
    "more, and no cursor": (pages.END, [asked(0, shown("a", True, None), first=1)], "broken"),
    "more, and a cursor": (pages.END, [page(0, "a", "c", first=1)], "held"),
    "the end, which shows nothing": (pages.END, [page(0, "a")], "nothing"),
    "an empty last page": (pages.END, [page(0, "a", "c"), page(2, "", None, "c")], "held"),
}


@pytest.mark.fact("S4", "S43", "S44", "S45", "S46", "U83")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_paging(rule: str, entries: list[Entry], expected: str) -> None:
    tally = judged(pagination, entries)
    assert found(tally, rule) == expected
    if expected == "broken":
        [finding] = [one for one in tally.findings() if one.rule.name == rule]
        assert all("over GraphQL" in case.name for case in finding.cases if case.broken)


# Ids that GraphQL may have of its own, as Relay's are (U83)


def scoped_list(*domains: str) -> Entry:
    text = f"{{ labels(first: 5) {{ nodes {{ id domainId }} {INFO} }} }}"
    nodes = [{"id": f"lab_{n}", "domainId": domain} for n, domain in enumerate(domains)]
    return asked(2, {**shown("", False), "nodes": nodes}, text, "labels.list", 200, "scoped")


@pytest.mark.fact("S4", "S70", "U83")
@pytest.mark.parametrize(
    ("domains", "expected"),
    [
        (["dom_1"], "held"),
        (["dom_1", "dom_2"], "broken"),
        (["RG9tYWluOjE=", "RG9tYWluOjI="], "nothing"),
    ],
)
def test_what_a_scoped_key_is_listed(domains: list[str], expected: str) -> None:
    other = call("labels.get", 0, 1, {"id": "lab_9", "domain_id": "dom_2"}, path={"id": "lab_9"})
    assert found(judged(access, [other, scoped_list(*domains)]), access.SCOPE) == expected


def test_what_graphql_lists_tells_no_owner() -> None:
    text = f"{{ labels(first: 5) {{ nodes {{ id domainId }} {INFO} }} }}"
    nodes = [{"id": "7", "domainId": "RG9tYWluOjE="}]
    entries = [
        asked(0, {**shown("", False), "nodes": nodes}, text, "labels.list"),
        call("labels.get", 2, 3, {"id": "7", "domain_id": "dom_1"}, path={"id": "7"}, key="scoped"),
    ]
    assert found(judged(access, entries), access.SCOPE) == "nothing"


@pytest.mark.fact("U37", "U83")
@pytest.mark.parametrize(("first", "undecided"), [("ab", 0), ("xy", 1)])
def test_an_item_that_moved_may_have_another_id(first: str, undecided: int) -> None:
    """What was changed is known by its id of REST: where GraphQL shows that one too, no other has moved."""
    changed = call("keywords.update", 2, 3, {"id": "b"}, path={"id": "b"}, body={"label_ids": []})
    entries = [rest(-2, "ab"), page(0, first, "c"), changed, page(4, f"{first[1]}c", None, "c")]
    [finding] = [one for one in judged(pagination, entries).findings() if one.rule.name == pages.ONCE]
    assert (finding.broken, finding.open) == (0, undecided)


def job_list(sent: float, *ids: str) -> Entry:
    nodes = [{"id": id, "kind": "CRAWL", "status": "DONE"} for id in ids]
    text = f"{{ jobs(first: 50) {{ nodes {{ id kind status }} {INFO} }} }}"
    return asked(sent, {**shown("", False), "nodes": nodes}, text, "jobs.list")


@pytest.mark.fact("S66", "U83")
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["j1"], ["j1"], "held"),
        (["j1"], ["j1", "j2"], "broken"),
        ([], ["Sm9iOmox", "Sm9iOmoy"], "nothing"),
    ],
)
def test_a_job_that_a_dry_run_started_is_listed(before: list[str], after: list[str], expected: str) -> None:
    body = {"kind": "crawl", "domain_id": "d1"}
    report = {"dry_run": True, "allowed": True, "would_join": None, "refusal": None, "checks": []}
    job = {"id": "j1", "kind": "crawl", "status": "queued", "domain_id": "d1"}
    entries = [
        call("jobs.create", 0, 1, job, status=202, body=body),
        job_list(2, *before),
        call("jobs.create", 4, 5, report, body={**body, "domain_id": "d2", "dry_run": True}),
        job_list(6, *after),
    ]
    tally = judged(spending, entries)
    [finding] = [one for one in tally.findings() if one.rule.name == "dry_run.queues"]
    listed = finding.held - 1  # the dry run's own reply shows no job
    assert ("broken" if finding.broken else "held" if listed else "nothing") == expected
