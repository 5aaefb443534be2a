"""The pages that describe the API: whole, tidy, and with forms that begin with what is taken."""

from html.parser import HTMLParser

import pytest
from graphql import OperationDefinitionNode, parse, validate
from graphql.execution.values import get_variable_values
from pydantic import TypeAdapter

from ranksim.core.contract.policy import Policy
from ranksim.core.service.operations import OPERATIONS, TABLE
from ranksim.core.surface.graphql import FIELDS, SCHEMA
from ranksim.core.surface.graphql_cost import measured
from ranksim.twin.facade.control.document import document as control_document
from ranksim.twin.facade.control.routes import BODIES, PREFIX, ROUTES
from ranksim.twin.facade.http.examples import examples
from ranksim.twin.facade.http.graphql_page import example_of, graphql_page
from ranksim.twin.facade.http.openapi import reference_page


class Page(HTMLParser):
    """Notes what a page refers to, and whether its elements are closed in order."""

    VOID = ("meta", "link", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.leads: list[str] = []
        self.loads: list[str | None] = []
        self.forms: list[tuple[str | None, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("style", "img", "iframe")
        if tag not in self.VOID:
            self.open.append(tag)
        given = dict(attrs)
        assert not [name for name in given if name == "style" or name.startswith("on")]
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag in ("script", "link"):
            self.loads.append(given.get("src") or given.get("href"))
            return
        if tag == "form" and "data-path" in given:
            self.forms.append((given["data-method"], given["data-path"]))
        self.leads += [given["href"] or ""] if "href" in given else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def pages() -> dict[str, str]:
    return {
        "reference": reference_page(Policy()),
        "with control": reference_page(Policy(), control_document(), BODIES),
        "graphql": graphql_page(Policy()),
    }


@pytest.mark.parametrize("name", ["reference", "with control", "graphql"])
def test_a_page_needs_its_own_script_and_style_alone_and_leads_nowhere_else(name: str) -> None:
    read = Page()
    text = pages()[name]
    read.feed(text)
    assert read.open == []
    assert "url(" not in text
    assert "@import" not in text
    assert len(read.ids) == len(set(read.ids))
    assert read.loads == ["data:,", "/docs/docs.css", "/docs/docs.js"]
    outside = {lead for lead in read.leads if not lead.startswith("#")}
    assert outside <= {"/openapi.json", "/schema.graphql", "/graphql", "/docs"}
    assert {lead[1:] for lead in read.leads if lead.startswith("#")} <= set(read.ids)


def test_every_operation_is_described_and_can_be_tried() -> None:
    found = pages()
    service, control = Page(), Page()
    service.feed(found["reference"])
    control.feed(found["with control"])
    assert set(OPERATIONS) <= set(service.ids)
    assert service.forms == [(one.method, f"/v1/{one.path}") for one in TABLE]
    commands = {(one.method, PREFIX + one.path) for one in ROUTES} | {("GET", f"{PREFIX}/events")}
    assert set(control.forms) == set(service.forms) | commands
    assert "/_ranksim/" not in found["reference"]


def test_forms_of_the_control_api_begin_with_bodies_that_it_takes() -> None:
    takes = {one.command.__name__: one.body for one in ROUTES if one.body is not None}
    assert BODIES.keys() == takes.keys()
    for name, body in BODIES.items():
        TypeAdapter(takes[name]).validate_python(body, strict=False)


def test_the_graphql_page_has_an_example_of_each_root_field_and_tells_the_limits() -> None:
    policy, answered = Policy(), examples(Policy())
    limits = policy.assumptions.graphql_limits
    for name, operation in FIELDS.items():
        query, variables = example_of(name, answered[operation])
        node = parse(query)
        assert isinstance(measured(node, limits, SCHEMA), int), name
        assert validate(SCHEMA, node) == [], name
        [one] = node.definitions
        assert isinstance(one, OperationDefinitionNode)
        declared = one.variable_definitions or ()
        assert not isinstance(get_variable_values(SCHEMA, declared, variables), list), name  # of errors
    text = graphql_page(policy.replace(assumptions={"graphql_limits": {"depth": 7}}))
    assert "<li>7 levels of selections, one in another</li>" in text
    assert "<li>2,000 tokens of the document</li>" in text


def test_every_operation_has_an_example_that_the_service_answered() -> None:
    found = examples(Policy())
    assert found.keys() == OPERATIONS.keys()
    assert {name: one.status for name, one in found.items() if one.status >= 300} == {}
    assert [name for name, one in found.items() if '"data": []' in one.answer] == []
    brief = found["keyword_briefs.create"]
    assert (brief.method, brief.target, brief.status) == ("POST", "/v1/keyword-briefs", 201)
    text = reference_page(Policy())
    assert text.count("<summary>Example</summary>") == len(OPERATIONS)
    assert "curl -X POST &quot;$BASE/v1/keyword-briefs&quot;" in text
