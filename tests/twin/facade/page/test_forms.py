"""The forms of /docs and /graphql in a real browser: each does what it says; text of callers runs nowhere.

.venv/bin/python -m pytest -m browser tests/twin/facade/page
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.twin.facade.page import browser

from ranksim.testing import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser.CHROMIUM is None, reason="wants Chromium"),
]

Tab = Any


@pytest.fixture
def opened(chromium: Any, server: Server) -> Iterator[Any]:
    """Open pages of the server; in the end nothing went wrong in any."""
    tabs = []

    def open_page(path: str, width: int = 1600, **more: Any) -> Tab:
        tabs.append(chromium.open(server.url + path, width, **more))
        return tabs[-1]

    yield open_page
    for tab in tabs:
        assert tab.errors() == []
        tab.close()


def form(name: str) -> str:
    return f"document.querySelector('form[aria-label={json.dumps(name)}]')"


def field(name: str, of: str) -> str:
    selector = "textarea" if of == "body" else f"[name={json.dumps(of)}]"
    return f"{form(name)}.querySelector({json.dumps(selector)})"


def unfold(tab: Tab, name: str) -> None:
    tab.click(f"{form(name)}.closest('details').querySelector('summary')")
    tab.until(f"{form(name)}.closest('details').open")


def write(tab: Tab, element: str, text: str) -> None:
    tab.click(element)
    tab.run(f"{element}.select()")
    tab.ask("Input.insertText", text=text)


def choose(tab: Tab, element: str, value: str) -> None:
    tab.run(
        f"(() => {{ const it = {element}; it.value = {json.dumps(value)}; "
        "it.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def send(tab: Tab, name: str) -> None:
    tab.click(f"{form(name)}.querySelector('button')")


def answered(tab: Tab, name: str) -> Any:
    """Wait for the answer, and return its status line, headers and body."""
    it = form(name)
    tab.until(f"{it}.querySelector('button').textContent === 'Send' && {it}.querySelector('.answer')")
    return tab.run(f"[...{form(name)}.querySelector('.answer').children].map((one) => one.textContent)")


def test_an_operation_is_tried_with_a_key_and_its_ids_are_offered(opened: Any, server: Server) -> None:
    tab = opened("/docs")
    unfold(tab, "domains.create")
    send(tab, "domains.create")
    status, headers, body = answered(tab, "domains.create")
    assert status.startswith("POST /v1/domains → 401, ")
    assert json.loads(body)["code"] == "unauthorized"
    write(tab, "document.getElementById('key')", server.key)
    send(tab, "domains.create")
    status, headers, body = answered(tab, "domains.create")
    assert status.startswith("POST /v1/domains → 201, ")
    assert "ratelimit-remaining: 119" in headers
    made = json.loads(body)["data"]
    assert server.client().get(f"/v1/domains/{made['id']}").json()["data"] == made
    assert made["id"] in tab.run("[...document.getElementById('ids').options].map((one) => one.value)")
    unfold(tab, "domains.get")
    write(tab, field("domains.get", "id"), made["id"])
    tab.press("Enter")
    assert json.loads(answered(tab, "domains.get")[2])["data"] == made


def test_fields_go_into_path_query_and_headers(opened: Any, server: Server) -> None:
    tab = opened("/docs")
    write(tab, "document.getElementById('key')", server.key)
    unfold(tab, "jobs.list")
    choose(tab, field("jobs.list", "kind"), "crawl")
    write(tab, field("jobs.list", "limit"), "0&x")
    write(tab, field("jobs.list", "X-Request-Id"), "mine")
    send(tab, "jobs.list")
    status, headers, _ = answered(tab, "jobs.list")
    assert "→ 422" in status
    assert "x-request-id: mine" in headers
    unfold(tab, "jobs.get")
    choose(tab, field("jobs.get", "kind"), "ai_scan")
    write(tab, field("jobs.get", "id"), "a/b?c")
    send(tab, "jobs.get")
    answered(tab, "jobs.get")
    assert [(one.path, one.query) for one in (got.exchange for got in server.requests.search())] == [
        ("/v1/jobs", b"limit=0%26x&kind=crawl"),
        ("/v1/jobs/ai_scan/a%2Fb%3Fc", b""),
    ]


def test_the_sandbox_is_called_with_its_own_key(opened: Any, server: Server) -> None:
    tab = opened("/docs")
    choose(tab, "document.getElementById('environment')", "/sandbox")
    write(tab, "document.getElementById('key')", server.sandbox_key)
    unfold(tab, "account.get")
    send(tab, "account.get")
    assert answered(tab, "account.get")[0].startswith("GET /sandbox/v1/account → 200")


def test_a_key_stays_in_the_memory_of_the_page(opened: Any, server: Server) -> None:
    tab = opened("/docs")
    write(tab, "document.getElementById('key')", server.key)
    unfold(tab, "account.get")
    send(tab, "account.get")
    assert "→ 200" in answered(tab, "account.get")[0]
    kept = tab.run(
        "[localStorage.length, sessionStorage.length, document.cookie, location.href, history.length]"
    )
    assert kept[:4] == [0, 0, "", f"{server.url}/docs"]
    tab.ask("Page.reload")
    again = "performance.getEntriesByType('navigation')[0].type === 'reload'"
    tab.until(f"{again} && document.readyState === 'complete'")
    assert tab.run("document.getElementById('key').value") == ""


def test_text_of_callers_is_shown_as_text(opened: Any, server: Server) -> None:
    evil = "<img src=x onerror=\"document.title='evil'\"><script>document.title='evil'</script>"
    server.client().post("/v1/domains", json={"host": "a.example", "path": "/x", "label": evil})
    tab = opened("/docs")
    write(tab, "document.getElementById('key')", server.key)
    unfold(tab, "domains.list")
    send(tab, "domains.list")
    body = answered(tab, "domains.list")[2]
    assert json.loads(body)["data"][0]["label"] == evil
    assert tab.run("[document.title, document.querySelectorAll('img').length]") == [
        "Rank tracking: API reference",
        0,
    ]


def test_the_control_api_is_tried_with_the_token(opened: Any, server: Server) -> None:
    locked = opened("/docs")
    assert locked.run("document.querySelectorAll('form[data-whose=token]').length") == 0
    write(locked, "document.querySelector('#unlock input')", "wrong")
    locked.press("Enter")
    locked.until("document.querySelector('#unlock p')?.textContent.includes('not the token')")
    write(locked, "document.querySelector('#unlock input')", "hands")
    locked.press("Enter")
    locked.until("document.readyState === 'complete' && document.querySelector('form[aria-label=advance]')")
    before = server.clock.now
    unfold(locked, "advance")
    send(locked, "advance")
    status, _, body = answered(locked, "advance")
    assert status.startswith("POST /_ranksim/clock/advance → 200")
    assert json.loads(body)["settled"]
    assert server.clock.now - before == 36 * 60_000_000


def test_a_stream_is_shown_as_it_comes_and_stopped(opened: Any, server: Server) -> None:
    tab = opened("/docs?token=hands")
    unfold(tab, "events")
    write(tab, field("events", "after"), "0")
    send(tab, "events")
    tab.until(f"{form('events')}.querySelector('button').textContent === 'Stop'")
    server.client().get("/v1/account")
    tab.until(f"{form('events')}.querySelector('pre.body').textContent.includes('account.get')")
    send(tab, "events")
    assert answered(tab, "events")[-1] == "stopped"


def test_what_is_no_text_is_counted(opened: Any, server: Server) -> None:
    tab = opened("/docs?token=hands")
    unfold(tab, "export")
    send(tab, "export")
    assert " bytes of application/" in answered(tab, "export")[2]


def test_graphql_is_tried_by_example(opened: Any, server: Server) -> None:
    tab = opened("/graphql")
    write(tab, "document.getElementById('key')", server.key)
    choose(tab, "document.getElementById('example')", "createDomain")
    send(tab, "Query")
    status, _, body = answered(tab, "Query")
    assert status.startswith("POST /graphql → 200")
    made = json.loads(body)["data"]["createDomain"]
    assert server.client().get(f"/v1/domains/{made['id']}").json()["data"]["host"] == made["host"]
    write(tab, "document.getElementById('variables')", "{")
    send(tab, "Query")
    assert answered(tab, "Query")[0].startswith("The variables are not JSON")
    other = opened("/sandbox/graphql")
    write(other, "document.getElementById('key')", server.sandbox_key)
    choose(other, "document.getElementById('example')", "account")
    send(other, "Query")
    assert answered(other, "Query")[0].startswith("POST /sandbox/graphql → 200")


@pytest.mark.parametrize("width", [400, 1000, 1600])
@pytest.mark.parametrize("path", ["/docs?token=hands", "/graphql"])
def test_every_width_holds_the_page_and_every_control_has_a_name(opened: Any, path: str, width: int) -> None:
    tab = opened(path, width, dark=width == 400)
    assert tab.run("document.documentElement.scrollWidth") <= width
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert tab.run("document.documentElement.scrollWidth") <= width
    tree = tab.ask("Accessibility.getFullAXTree")["nodes"]
    controls = ("button", "textbox", "combobox", "form", "searchbox")
    nameless = [
        node["nodeId"]
        for node in tree
        if not node["ignored"] and node["role"]["value"] in controls and not node.get("name", {}).get("value")
    ]
    assert nameless == []
