"""The last PATCH of a field is what is shown of it."""

from typing import Any

import pytest
from tests.kit.traces import Entry, a_trace, call, found, judged

from ranksim.judge.conformance.calls import updates
from ranksim.judge.conformance.history.trace_reader import read_history


def get(sent: float, label: Any, received: float | None = None) -> Entry:
    return call(
        "domains.get",
        sent,
        sent + 1 if received is None else received,
        {"id": "d", "label": label},
        path={"id": "d"},
    )


def patch(sent: float, received: float | None, label: Any, shown: Any = "as asked", **more: Any) -> Entry:
    data = {"id": "d", "label": label if shown == "as asked" else shown}
    return call("domains.update", sent, received, data, path={"id": "d"}, body={"label": label}, **more)


TABLE: dict[str, tuple[list[Entry], str]] = {
    "shown": ([patch(0, 1, "a"), get(2, "a")], "held"),
    "forgotten": ([get(-2, "o"), patch(0, 1, "a"), get(2, "o")], "broken"),
    "without effect": ([get(-2, "o"), patch(0, 1, "a", "o")], "broken"),
    "tidied up": ([get(-2, "o"), patch(0, 1, " O ", "o"), get(2, "o")], "held"),
    "the second of two": ([patch(0, 1, "a"), patch(2, 3, "b"), get(4, "b")], "held"),
    "the first of two": ([patch(0, 1, "a"), patch(2, 3, "b"), get(4, "a")], "broken"),
    "either of two that overlap": ([patch(0, 3, "a"), patch(1, 2, "b"), get(4, "a")], "held"),
    "neither of two that overlap": ([patch(0, 3, "a"), patch(1, 2, "b"), get(4, "o")], "broken"),
    "read meanwhile": ([patch(0, 3, "a"), get(1, "o", 2)], "held"),
    "a lost one after it": ([patch(0, 1, "a"), patch(2, None, "b"), get(4, "c")], "held"),
    "a lost one that is shown": ([patch(0, 1, "a"), patch(2, None, "b"), get(4, "b")], "held"),
    "one that never was": ([patch(0, 1, "a"), patch(2, None, "b", effect="none"), get(4, "b")], "broken"),
    "a lost one after it, and what was before both": (
        [get(-2, "o"), patch(0, 1, "a"), patch(2, None, "b"), get(4, "o")],
        "broken",
    ),
    "a lost one after it, and a text much like it": (
        [get(-2, "www.b.example"), patch(0, 1, "a"), patch(2, None, "b.example"), get(4, "www.b.example")],
        "held",
    ),
    "what it replaces is shown by its reply": ([patch(0, 1, "a"), patch(2, 3, "b", "a")], "broken"),
    "another beside it": ([patch(0, 1, "a"), patch(2, 4, "b", "a"), patch(3, 5, "a")], "held"),
    "a scheme is dropped": (
        [get(-2, "b.example"), patch(0, 1, "https://b.example", "b.example")],
        "nothing",
    ),
    "a lost one that is shown, and then gone": (
        [patch(0, 1, "a"), patch(2, None, "b"), get(4, "b"), get(6, "a")],
        "broken",
    ),
    "now either of two that overlap, and now the other": (
        [patch(-2, -1, "c"), patch(0, 9, "a"), patch(1, 9, "b"), get(2, "a"), get(4, "b"), get(6, "a")],
        "broken",
    ),
    "another beside it, and what was before both": (
        [get(-2, "o"), patch(0, 2, "a", "o"), patch(1, 3, "b")],
        "broken",
    ),
    "another beside it, in its own way": ([patch(0, 2, "a", "?"), patch(1, 3, "b"), get(4, "b")], "held"),
    "in its own way, and then in another": ([patch(0, 1, "a", "x"), get(2, "y")], "broken"),
    "an error of the server that took effect later": (
        [patch(0, 1, "a", code="unavailable", status=503), patch(2, 3, "b"), get(4, "a")],
        "held",
    ),
    "refused": ([patch(0, 1, "a", code="validation_failed", status=422), get(2, "o")], "nothing"),
}


@pytest.mark.fact("S42", "S49", "E45")
@pytest.mark.parametrize(("entries", "expected"), TABLE.values(), ids=TABLE)
def test_patches(entries: list[Entry], expected: str) -> None:
    assert found(judged(updates, entries), updates.PATCHED) == expected


@pytest.mark.fact("S42", "S49")
def test_one_cause_is_one_breach_and_names_what_cannot_all_be_right() -> None:
    entries = [patch(0, 1, "a"), patch(2, 3, "b"), get(4, "a"), get(6, "a"), patch(8, 9, "c"), get(10, "c")]
    [finding, _] = judged(updates, entries).findings()
    assert [evidence.says for evidence in finding.evidence] == [
        "x2 set label to 'b', and x3 shows 'a' afterwards"
    ]
    assert (finding.held, finding.broken, finding.open) == (4, 1, 1)


@pytest.mark.fact("S42")
def test_evidence_is_small_after_a_long_history() -> None:
    """What was over long before is not told, though each PATCH of it may have been written its own way."""
    entries = [
        entry
        for at in range(0, 900, 3)
        for entry in (patch(at, at + 1, f"v{at % 20}"), get(at + 1.5, f"v{at % 20}", at + 2))
    ]
    [finding, _] = judged(updates, [*entries, get(901, "v4")]).findings()
    assert [len(evidence.exchanges) for evidence in finding.evidence] == [2]


@pytest.mark.fact("E45")
@pytest.mark.parametrize(("count", "expected"), [(100, (1, 0)), (1000, (0, 2))])
def test_many_that_meet_at_once(count: int, expected: tuple[int, int]) -> None:
    """The one that is read was surely overwritten; of too many that is not told."""
    entries = [get(-2, "o"), *(patch(number / 1000, 9, f"label {number}") for number in range(count))]
    [finding, _] = judged(updates, [*entries, get(10, "o")]).findings()
    assert (finding.broken, finding.open) == expected


def test_where_others_write_nothing_is_told() -> None:
    tally = judged(updates, [patch(0, 1, "a"), get(2, "o")], exclusive=False)
    assert found(tally, updates.PATCHED) == "nothing"


@pytest.mark.fact("S49")
@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        ([patch(0, 1, "a"), get(2, "a")], {"domains"}),
        ([get(-2, "o"), patch(0, 1, "a"), get(2, "a")], {"domains", "domains, again"}),
        ([patch(0, 1, "a"), patch(2, 3, "b"), get(4, "b")], {"domains", "domains, again"}),
        ([patch(0, 1, "a"), patch(2, 3, "a"), get(4, "a")], {"domains"}),
    ],
    ids=["one", "one over what was read", "two", "two of one value"],
)
def test_that_the_last_wins_is_shown_where_another_value_was_before(
    entries: list[Entry], shown: set[str]
) -> None:
    [finding, _] = judged(updates, entries).findings()
    assert {case.name for case in finding.cases if case.exercised} == shown


# Over GraphQL

RENAME = "mutation ($id: ID!, $input: In!) { updateDomain(id: $id, input: $input) { id label } }"
INLINE = 'mutation M { x: updateDomain(id: "d", input: {label: "b"}) { __typename id label } } # M'
WRAPPED = "mutation ($id: ID!, $input: In!) { u(id: $id, input: $input) { domain { id label } } }"
TAKES = "mutation ($id: ID!, $input: In!)"
UNSURE = {
    "a default": "mutation ($id: ID!, $input: In = {a: 1}) { u(id: $id, input: $input) { id label } }",
    "a directive": TAKES + " { u(id: $id, input: $input) @skip(if: false) { id } }",
    "an alias in the reply": TAKES + " { u(id: $id, input: $input) { id label: host } }",
    "an argument in the reply": TAKES + " { u(id: $id, input: $input) { id label(a: 1) } }",
    "a directive of all": TAKES + " @quietly { u(id: $id, input: $input) { id label } }",
    "a fragment within": TAKES + " { u(id: $id, input: $input) { id ... on Domain { label } } }",
    "a fragment": TAKES + " { u(id: $id, input: $input) { ...F } } fragment F on D { id }",
    "two operations": RENAME + ' mutation Other { updateDomain(id: "e", input: {label: "c"}) { id } }',
    "two fields": TAKES + " { u(id: $id, input: $input) { id } v(id: 1) { id } }",
    "no input": "mutation ($id: ID!, $label: String) { renameDomain(id: $id, label: $label) { id label } }",
    "more than an input": TAKES + " { u(id: $id, input: $input, force: true) { id label } }",
    "another form": TAKES + " { u(id: $id, input: $input) { id label }",
}


def mutate(
    sent: float,
    label: str,
    query: str = RENAME,
    *,
    shown: Any = None,
    id: Any = "d",
    field: str = "label",
    **more: Any,
) -> Entry:
    told = {"id": "d", field: label} if shown is None else shown
    body = {"query": query, "variables": {"id": id, "input": {field: label}}}
    reply = more.pop("reply", {"data": {"updateDomain": told}})
    received = more.pop("received", sent + 1)
    made = call(
        "domains.update", sent, received, path={"id": "d"}, body=body, surface="graphql", reply=reply, **more
    )
    return made.model_copy(update={"method": "POST", "path": "/graphql"})


MUTATIONS: dict[str, tuple[list[Entry], str]] = {
    "shown": ([get(-2, "o"), mutate(0, "a"), get(2, "a")], "held"),
    "of what REST never showed": ([mutate(0, "a"), get(2, "o"), patch(4, 5, "b"), get(6, "o")], "open"),
    "of another field": ([patch(0, 1, "a"), mutate(2, "b", field="name"), get(4, "b")], "held"),
    "an enum": ([get(-2, "o"), mutate(0, "NEWEST_FIRST"), get(2, "newest-first")], "held"),
    "forgotten": ([get(-2, "o"), mutate(0, "a"), get(2, "o")], "broken"),
    "without effect": ([get(-2, "o"), mutate(0, "a", shown={"id": "d", "label": "o"})], "broken"),
    "after a PATCH": ([patch(0, 1, "a"), mutate(2, "b"), get(4, "b")], "held"),
    "after a PATCH that stays": ([patch(0, 1, "a"), mutate(2, "b"), get(4, "a")], "broken"),
    "before a PATCH that is lost": (
        [patch(0, 1, "a"), mutate(2, "b"), patch(4, 5, "c"), get(6, "b")],
        "broken",
    ),
    "written out": ([patch(0, 1, "a"), mutate(2, "b", INLINE), get(4, "a")], "broken"),
    "in a payload": (
        [get(-2, "o"), mutate(2, "b", WRAPPED, shown={"domain": {"id": "d", "label": "b"}}), get(4, "c")],
        "broken",
    ),
    **{
        name: ([patch(0, 1, "a"), mutate(2, "b", query), get(4, "c")], "open")
        for name, query in UNSURE.items()
    },
    "lost": ([patch(0, 1, "a"), mutate(2, "b", received=None), get(4, "b")], "open"),
    "an error": (
        [patch(0, 1, "a"), mutate(2, "b", reply={"data": None, "errors": [{"message": "no"}]}), get(4, "b")],
        "open",
    ),
    "errors of its own": (
        [
            patch(0, 1, "a"),
            mutate(2, "b", WRAPPED, shown={"domain": None, "userErrors": [{"message": "no"}]}),
            get(4, "a"),
        ],
        "open",
    ),
    "another thing is shown": (
        [patch(0, 1, "a"), mutate(2, "b", shown={"id": "x", "label": "b"}), get(4, "a")],
        "open",
    ),
    "by another id": ([patch(0, 1, "a"), mutate(2, "b", id="RG9tYWluOmQ="), get(4, "b")], "open"),
    "by its name": (
        [patch(0, 1, "a"), mutate(2, "b", "mutation { rename(host: $id) { ok } }", id="h"), get(4, "b")],
        "open",
    ),
    "of another thing that is known": (
        [
            call("domains.get", -2, -1, {"id": "e"}, path={"id": "e"}),
            patch(0, 1, "a"),
            mutate(2, "b", id="e", received=None),
            get(4, "b"),
        ],
        "broken",
    ),
    "perhaps a replay": ([patch(0, 1, "a"), mutate(2, "b", once="k"), get(4, "a")], "open"),
    "a number for an id": (
        [
            call("domains.update", 0, 1, {"id": 7, "label": "a"}, path={"id": "7"}, body={"label": "a"}),
            mutate(2, "b", id=7, received=None),
            call("domains.get", 4, 5, {"id": 7, "label": "b"}, path={"id": "7"}),
        ],
        "open",
    ),
}


@pytest.mark.fact("S4", "S42", "S49", "U83")
@pytest.mark.parametrize(("entries", "expected"), MUTATIONS.values(), ids=MUTATIONS)
def test_mutations(entries: list[Entry], expected: str) -> None:
    assert found(judged(updates, entries), updates.PATCHED) == expected


@pytest.mark.fact("S42", "U83")
@pytest.mark.parametrize(("shown", "expected"), [("b", "held"), ("c", "broken")])
def test_a_field_has_its_name_of_rest(shown: str, expected: str) -> None:
    after = call("domains.get", 2, 3, {"id": "d", "short_name": shown}, path={"id": "d"})
    entries = [get(-2, "o"), mutate(0, "b", field="shortName"), after]
    assert found(judged(updates, entries), updates.PATCHED) == expected


@pytest.mark.parametrize(
    ("noun", "ours"),
    [
        *(
            (noun, True)
            for noun in ("domains", "keyword_lists", "keywords", "labels", "competitors", "scans")
        ),
        ("webhooks", False),  # what it changes is more than its fields
    ],
)
def test_whether_a_mutation_leaves_the_accounts_ours(noun: str, ours: bool) -> None:
    made = mutate(0, "a").model_copy(update={"operations": (f"{noun}.update",)})
    history = read_history(a_trace([call(f"{noun}.get", -2, -1, {"id": "d"}, path={"id": "d"}), made]))
    [_, seen] = history.seen
    assert (history.run.exclusive, not history.run.mutated, bool(seen.parameters)) == (ours, ours, ours)
