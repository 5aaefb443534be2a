"""Swagger UI at /docs and GraphiQL at /graphql in a real browser: calls are tried, no text of callers runs.

.venv/bin/python -m pytest -m browser tests/twin/facade/page
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.twin.facade.page import browser

from ranksim.testing import Server
from ranksim.twin.facade.request_journal import split_headers

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser.CHROMIUM is None, reason="wants Chromium"),
]

Tab = Any


@pytest.fixture
def opened(chromium: Any, server: Server) -> Iterator[Any]:
    """Open pages of the server; in the end nothing went wrong in any, and no policy was broken."""
    tabs = []

    def open_page(path: str, ready: str) -> Tab:
        tabs.append(chromium.open(server.url + path))
        tabs[-1].until(ready)
        return tabs[-1]

    yield open_page
    for tab in tabs:
        assert tab.errors() == []
        tab.close()


def docs(opened: Any, token: str = "") -> Tab:
    ready = "document.querySelector('#control .opblock') || !document.getElementById('unlock').hidden"
    return opened("/docs" + token, f"document.querySelector('#service .opblock') && ({ready})")


def write(tab: Tab, element: str, text: str) -> None:
    tab.click(element)
    tab.run(f"{element}.select()")
    tab.ask("Input.insertText", text=text)


def choose(tab: Tab, element: str, value: str) -> None:
    tab.run(
        f"(() => {{ const it = {element}; it.value = {json.dumps(value)}; "
        "it.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


# Swagger UI


def authorize(tab: Tab, key: str) -> None:
    tab.click("document.querySelector('#service .authorize')")
    tab.until("document.querySelector('.auth-container input')")
    write(tab, "document.querySelector('.auth-container input')", key)
    tab.click("document.querySelector('.auth-btn-wrapper .authorize')")
    tab.until("document.querySelector('.auth-container h6')?.textContent === 'Authorized'")
    tab.click("document.querySelector('.auth-btn-wrapper .btn-done')")
    tab.until("!document.querySelector('.auth-container')")


def block(name: str) -> str:
    ending = json.dumps("-" + name.replace(".", "\\."))
    return f"[...document.querySelectorAll('.opblock')].find((it) => it.id.endsWith({ending}))"


def unfold(tab: Tab, name: str) -> None:
    tab.run(f"{block(name)}.querySelector('.opblock-summary-control').click()")
    body = f"{block(name)}.querySelector('.opblock-section-request-body')"
    filled = f"(!{body} || {body}.querySelector('textarea')?.value)"
    tab.until(f"{block(name)}.querySelector('.execute') && {filled}")
    tab.settled(f"{block(name)}.outerHTML")  # what is sent while the document is resolved is sent never


def field(name: str, parameter: str) -> str:
    row = f"[...{block(name)}.querySelectorAll('tr[data-param-name]')]"
    found = f"{row}.find((it) => it.dataset.paramName === {json.dumps(parameter)})"
    return f"{found}.querySelector('input, select')"


def fill(tab: Tab, element: str, text: str) -> None:
    write(tab, element, text)
    tab.press("Tab")  # Swagger UI takes a text in when its field is left, or a while after the last key


def send(tab: Tab, name: str) -> tuple[str, str]:
    """Send a call; return the status and the body of its answer."""
    tab.run(f"{block(name)}.querySelector('.execute').click()")
    answer = f"{block(name)}.querySelector('.live-responses-table tbody')"
    tab.until(f"{answer} && !{block(name)}.querySelector('.loading-container')")
    status = tab.run(f"{answer}.querySelector('.response-col_status').firstChild.textContent")
    return status, tab.run(f"{answer}.querySelector('.microlight')?.textContent ?? ''")


def test_an_operation_is_tried_with_its_example_and_a_key(opened: Any, server: Server) -> None:
    tab = docs(opened)
    unfold(tab, "domains.create")
    status, body = send(tab, "domains.create")
    assert (status, json.loads(body)["code"]) == ("401", "unauthorized")
    authorize(tab, server.key)
    status, body = send(tab, "domains.create")
    assert status == "201"
    made = json.loads(body)["data"]
    assert server.client().get(f"/v1/domains/{made['id']}").json()["data"] == made
    unfold(tab, "domains.get")
    fill(tab, field("domains.get", "id"), made["id"])
    assert json.loads(send(tab, "domains.get")[1])["data"] == made


def test_the_key_is_offered_operations_are_searched_and_assumptions_come_on_demand(
    opened: Any, server: Server
) -> None:
    tab = docs(opened, "?token=hands")
    tab.until("document.querySelector('#service .authorize').classList.contains('locked')")
    unfold(tab, "account.get")
    status, body = send(tab, "account.get")
    assert (status, json.loads(body)["data"]["plan"]) == ("200", "pro")
    blocks = "document.querySelectorAll('#service .opblock').length"
    total = tab.run(blocks)
    write(tab, "document.querySelector('#service .operation-filter-input')", "webhooks")
    tab.until(f"{blocks} < {total}")
    assert (
        "x-assumption"
        not in tab.run("document.querySelector('#service').textContent").partition("Servers")[2]
    )
    more = opened("/docs?assumptions", "document.querySelector('#service .opblock')")
    unfold(more, "webhooks.test")
    more.until(f"{block('webhooks.test')}.textContent.includes('x-assumption')")


def test_fields_go_into_path_query_and_headers(opened: Any, server: Server) -> None:
    tab = docs(opened)
    authorize(tab, server.key)
    unfold(tab, "jobs.list")
    fill(tab, field("jobs.list", "kind"), "crawl")
    fill(tab, field("jobs.list", "limit"), "7")
    fill(tab, field("jobs.list", "X-Request-Id"), "mine")
    assert send(tab, "jobs.list")[0] == "200"
    unfold(tab, "jobs.get")
    choose(tab, field("jobs.get", "kind"), "ai_scan")
    fill(tab, field("jobs.get", "id"), "a/b?c")
    assert send(tab, "jobs.get")[0] == "404"
    calls = [recorded.exchange for recorded in server.requests.search()]
    assert [(call.path, call.query) for call in calls] == [
        ("/v1/jobs", b"limit=7&kind=crawl"),
        ("/v1/jobs/ai_scan/a%2Fb%3Fc", b""),
    ]
    assert split_headers(calls[0].request_headers)[b"x-request-id"] == b"mine"


def test_the_sandbox_is_called_with_its_own_key(opened: Any, server: Server) -> None:
    tab = docs(opened)
    choose(tab, "document.querySelector('#service .servers select')", "/sandbox")
    authorize(tab, server.sandbox_key)
    unfold(tab, "account.get")
    assert send(tab, "account.get")[0] == "200"
    assert [recorded.exchange.path for recorded in server.requests.search()] == ["/sandbox/v1/account"]


def test_a_key_stays_in_the_memory_of_the_page(opened: Any, server: Server) -> None:
    tab = docs(opened)
    authorize(tab, server.key)
    unfold(tab, "account.get")
    assert send(tab, "account.get")[0] == "200"
    kept = "[localStorage.length, sessionStorage.length, document.cookie, location.search]"
    assert tab.run(kept) == [0, 0, "", ""]
    tab.ask("Page.reload")
    again = "performance.getEntriesByType('navigation')[0].type === 'reload'"
    tab.until(f"{again} && document.querySelector('#service .authorize.unlocked')")


def test_text_of_callers_is_shown_as_text(opened: Any, server: Server) -> None:
    evil = "<img src=x onerror=\"document.title='evil'\"><script>document.title='evil'</script>"
    server.client().post("/v1/domains", json={"host": "a.example", "path": "/x", "label": evil})
    tab = docs(opened)
    authorize(tab, server.key)
    unfold(tab, "domains.list")
    assert json.loads(send(tab, "domains.list")[1])["data"][0]["label"] == evil
    shown = "[document.title, document.querySelectorAll('img, .live-responses-table script').length]"
    assert tab.run(shown) == ["Rank tracking: API reference", 0]


def test_the_control_api_is_tried_with_the_token(opened: Any, server: Server) -> None:
    tab = docs(opened)
    assert tab.run("document.querySelector('#control .opblock')") is None
    write(tab, "document.querySelector('#unlock input')", "wrong")
    tab.press("Enter")
    tab.until("document.querySelector('#unlock [role=status]')?.textContent.includes('not the token')")
    write(tab, "document.querySelector('#unlock input')", "hands")
    tab.press("Enter")
    tab.until("document.querySelector('#control .opblock')")
    before = server.clock.now
    unfold(tab, "advance")
    status, body = send(tab, "advance")
    assert (status, json.loads(body)["settled"]) == ("200", True)
    assert server.clock.now - before == 36 * 60_000_000


# GraphiQL

SELECT = "document.querySelector('.graphiql-container select')"
EDITORS = "document.querySelectorAll('.graphiql-editor-tool .CodeMirror')"
QUERY = "document.querySelector('.graphiql-query-editor .CodeMirror').CodeMirror"
HEADERS = f"{EDITORS}[1].CodeMirror"


@pytest.mark.parametrize("environment", ["", "/sandbox"])
def test_graphql_is_tried_by_example(opened: Any, server: Server, environment: str) -> None:
    tab = opened(f"{environment}/graphql", SELECT)
    assert server.requests.count() == 0  # to open the page is no call
    choose(tab, SELECT, "createDomain")
    key = server.sandbox_key if environment else server.key
    tab.run(f"{HEADERS}.setValue({json.dumps(json.dumps({'Authorization': f'Bearer {key}'}))})")
    tab.until(f"{QUERY}.getValue().startsWith('mutation')")
    tab.click("document.querySelector('.graphiql-execute-button')")
    result = "document.querySelector('.result-window .CodeMirror').CodeMirror.getValue()"
    tab.until(f"{result}.includes('createDomain')")
    made = json.loads(tab.run(result))["data"]["createDomain"]
    client = server.client(environment="sandbox" if environment else "production")
    assert client.get(f"/v1/domains/{made['id']}").json()["data"]["host"] == made["host"]
    assert tab.run("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
