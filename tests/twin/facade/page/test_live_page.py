"""The live page in a real browser: each control does what it says, and text of callers runs nowhere.

.venv/bin/python -m pytest -m browser tests/twin/facade/page
"""

import json
import shlex
import subprocess
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from ranksim.testing import Server
from ranksim.twin.facade.logged_event import AnsweredCall

SPEC = spec_from_file_location("ranksim_browser", Path(__file__).with_name("browser.py"))
assert SPEC is not None
assert SPEC.loader is not None
browser = module_from_spec(SPEC)
SPEC.loader.exec_module(browser)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser.CHROMIUM is None, reason="wants Chromium"),
]

Tab = Any

LIVE = "document.readyState === 'complete' && document.getElementById('link').dataset.state === 'open'"


@pytest.fixture
def domain(server: Server) -> str:
    return str(server.client().post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"])


def page_of(chromium: Any, server: Server, width: int = 1600, **more: Any) -> Tab:
    tab = chromium.open(f"{server.url}/?token=hands", width, **more)
    tab.until(LIVE)
    return tab


@pytest.fixture
def tab(chromium: Any, server: Server, domain: str) -> Iterator[Tab]:
    made = page_of(chromium, server)
    yield made
    assert made.errors() == []
    made.close()


def says(tab: Tab, text: str) -> None:
    """Wait until the page says what came of a control."""
    tab.until(f"document.getElementById('said').textContent.includes({json.dumps(text)})")


def shows(tab: Tab, section: str, text: str) -> None:
    tab.until(f"document.getElementById('{section}').textContent.includes({json.dumps(text)})")


def choose(tab: Tab, label: str, value: str) -> None:
    tab.run(
        f"(() => {{ const it = document.querySelector('select[aria-label={json.dumps(label)}]'); "
        f"it.value = {json.dumps(value)}; it.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
    )


def type_into(tab: Tab, selector: str, text: str) -> None:
    tab.click(f"document.querySelector({json.dumps(selector)})")
    tab.run(f"document.querySelector({json.dumps(selector)}).select()")
    tab.ask("Input.insertText", text=text)


def begin(server: Server, domain: str, kind: str = "crawl") -> str:
    answer = server.client().post("/v1/jobs", json={"kind": kind, "domain_id": domain})
    return str(answer.json()["data"]["id"])


# Controls


def test_the_clock_is_moved_by_its_buttons(server: Server, domain: str, tab: Tab) -> None:
    start = server.clock.now
    tab.press_button("+1 min")
    says(tab, "+1 min: it is 2026-03-02 09:01:00")
    tab.press_button("+1 h")
    says(tab, "+1 h: it is 2026-03-02 10:01:00")
    assert server.clock.now - start == 61 * 60_000_000
    assert tab.text("#now") == "2026-03-02 10:01:00 UTC"
    job = begin(server, domain)
    shows(tab, "jobs", job)
    tab.press_button("To next event")
    shows(tab, "jobs", "done")
    other = begin(server, domain, "rank_run")
    shows(tab, "jobs", other)
    tab.press_button("Until a job is done")
    says(tab, f"{other}: it is")
    assert server.control().get(f"/jobs/{other}").json()["status"] == "done"
    choose(tab, "How time runs", "scaled:60")
    says(tab, "Time runs scaled:60")
    assert str(server.twin.clock.rate) == "scaled:60"
    before = tab.text("#now")
    tab.until(f"document.getElementById('now').textContent !== {json.dumps(before)}")


def test_jobs_are_finished_failed_and_waited_for(server: Server, domain: str, tab: Tab) -> None:
    ids = [begin(server, domain, kind) for kind in ("crawl", "rank_run", "ai_scan")]
    for job, label in zip(ids, ("Finish", "Fail", "Until done"), strict=True):
        shows(tab, "jobs", job)
        tab.press_button(f"{label} {job}")
        says(tab, job)
        line = f"[...document.querySelectorAll('.job')].find((one) => one.textContent.includes('{job}'))"
        tab.until(f"!{line}.textContent.includes('running')")
    jobs = {job: server.control().get(f"/jobs/{job}").json()["status"] for job in ids}
    assert list(jobs.values()) == ["done", "failed", "done"]


def test_an_account_is_put_on_another_plan_and_status(server: Server, tab: Tab) -> None:
    choose(tab, "Plan of demo", "agency")
    says(tab, "agency: done")
    choose(tab, "Status of demo", "past_due")
    says(tab, "past_due: done")
    account = server.control().get("/accounts").json()["data"][0]
    assert (account["plan"], account["status"]) == ("agency", "past_due")
    shows(tab, "accounts", "of 160,000")


def test_webhooks_are_tested_looked_at_and_sent_again(server: Server, tab: Tab) -> None:
    receiver = server.receiver(500)
    endpoint = server.subscribe(receiver)["id"]
    shows(tab, "webhooks", endpoint)
    tab.press_button(f"Send test to {endpoint}")
    shows(tab, "webhooks", "1 of 20")
    shows(tab, "webhooks", "delivery waiting, the next attempt")
    attempt = server.control().get("/attempts").json()["data"][0]["id"]
    tab.press_button(f"Payload of attempt {attempt}")
    shows(tab, "webhooks", "Service-Signature: t=")
    assert '"type":"webhook.test"' in tab.text(".payload").replace(" ", "")
    tab.press_button(f"Resend attempt {attempt}")
    says(tab, "done")
    server.clock.advance("0s")
    shows(tab, "webhooks", "2 of 20")
    assert len(receiver.requests) == 2
    assert tab.run("document.querySelectorAll('.timeline circle').length") >= 2


def test_faults_are_added_and_removed(server: Server, tab: Tab) -> None:
    type_into(tab, "#fault [name=operation]", "jobs.list")
    type_into(tab, "#fault [name=error_rate]", "100")
    tab.press_button("Add fault")
    says(tab, "fault_1 is in force")
    assert server.client().get("/v1/jobs").status_code == 500
    shows(tab, "faults", "1 seen: failed 1")
    tab.until(
        "[...document.querySelectorAll('.row .why')].some((one) => one.textContent.includes('fault_1'))"
    )
    tab.press_button("Remove fault_1")
    shows(tab, "faults", "No fault is in force.")
    assert server.client().get("/v1/jobs").status_code == 200
    type_into(tab, "#fault [name=operation]", "jbos.*")
    type_into(tab, "#fault [name=error_rate]", "100")
    tab.press_button("Add fault")
    says(tab, "Add a fault: ")
    assert tab.run("document.getElementById('said').className") == "bad"


def test_limits_are_switched(server: Server, domain: str, tab: Tab) -> None:
    labels = "[...document.querySelectorAll('#limits label')]"
    tab.click(f"{labels}.find((one) => one.textContent.includes('cooldown')).firstChild")
    says(tab, "cooldown off: done")
    assert server.control().get("/limits").json()["cooldown"] is False
    begin(server, domain)
    server.clock.advance("10h")
    assert begin(server, domain).startswith("job_")


def test_worlds_are_saved_forked_restored_and_begun_anew(server: Server, domain: str, tab: Tab) -> None:
    type_into(tab, "#snapshot [name=name]", "one")
    tab.press_button("Save")
    says(tab, "Save one: done")
    server.client().delete(f"/v1/domains/{domain}")
    type_into(tab, "#snapshot [name=name]", "two")
    tab.press_button("Fork")
    says(tab, "Fork as two: done")
    shows(tab, "snapshots", "two")
    tab.press_button("Restore one")
    assert server.client().get(f"/v1/domains/{domain}").status_code == 404  # it asks first
    tab.click("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Really restore?')")
    says(tab, "Restore one: done")
    assert server.client().get(f"/v1/domains/{domain}").status_code == 200
    tab.press_button("Drop two")
    says(tab, "Drop two: done")
    assert list(server.twin.snapshots) == ["one"]
    tab.press_button("Begin anew")
    tab.click(
        "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Really begin anew?')"
    )
    says(tab, "Begin anew: done")
    assert server.client().get("/v1/domains").json()["data"] == []


# Calls


def row(status: int) -> str:
    return f"[...document.querySelectorAll('.row')].find((one) => one.children[3].textContent === '{status}')"


def test_a_refused_call_says_why_and_how_to_repeat_it(server: Server, domain: str, tab: Tab) -> None:
    begin(server, domain)
    refused = server.client().post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})
    assert refused.status_code == 409
    tab.until(f"Boolean({row(409)})")
    assert "6 cooldown" in tab.run(f"{row(409)}.textContent")
    tab.click(row(409))
    tab.until("document.querySelector('#detail .curl')")
    told = tab.text("#detail")
    assert "Refused by check 6 of 6, cooldown." in told
    assert refused.json()["detail"] in told
    curl = shlex.split(tab.text("#detail .curl"))
    given = dict(part.split(": ", 1) for flag, part in pairwise(curl) if flag == "-H")
    again = server.client().request(
        curl[curl.index("-X") + 1], curl[4], headers=given, content=curl[curl.index("--data-raw") + 1]
    )
    assert again.status_code == 409
    tab.press("Escape")


def test_calls_are_filtered_and_paused(server: Server, domain: str, tab: Tab) -> None:
    client = server.client()
    client.get("/v1/nothing")
    client.get("/v1/labels")
    tab.until(f"Boolean({row(404)})")
    shown = "[...document.querySelectorAll('.row')].map((one) => one.children[2].textContent).join(' ')"
    tab.click("document.getElementById('refused')")
    tab.until(f"{shown} === '/v1/nothing'")
    tab.click("document.getElementById('refused')")
    type_into(tab, "#find", "labels.list")
    tab.until(f"{shown} === '/v1/labels'")
    type_into(tab, "#find", "")
    tab.ask("Input.dispatchKeyEvent", type="keyDown", key="Backspace", windowsVirtualKeyCode=8)
    tab.click("document.getElementById('effects')")
    begin(server, domain)
    tab.until(f"{shown}.includes('job_')")
    tab.press_button("Pause")
    client.get("/v1/scans")
    tab.until("!document.getElementById('held').hidden")
    assert "/v1/scans" not in tab.run(shown)
    tab.press_button("Go on")
    tab.until(f"{shown}.includes('/v1/scans')")


def test_what_was_refused_over_graphql_or_dropped_is_shown_as_refused_with_its_query(
    server: Server, domain: str, tab: Tab
) -> None:
    wanted = (
        f'mutation {{ a: createJob(input: {{kind: CRAWL, domainId: "{domain}"}}) {{ job {{ id }} }}'
        f' b: createJob(input: {{kind: CRAWL, domainId: "{domain}"}}) {{ job {{ id }} }} }}'
    )
    client = server.client()
    assert client.post("/graphql", json={"query": wanted}).status_code == 200
    client.get("/v1/jobs?limit=7")
    server.faults.add("labels.list", drop_after_rate=1)
    with pytest.raises(httpx.TransportError):
        client.get("/v1/labels?limit=1")
    tab.click("document.getElementById('refused')")
    rows = "[...document.querySelectorAll('.row')]"
    tab.until(f"{rows}.length === 2")
    shown = f"{rows}.map((one) => [...one.children].slice(2, 5).map((part) => part.textContent).join(' | '))"
    assert tab.run(shown) == [
        "/v1/labels?limit=1 | 200 | dropped after it · fault_1",
        "/graphql jobs.create, jobs.create | 200 | 6 cooldown",
    ]
    assert tab.run(f"{rows}.map((one) => one.children[3].className)") == ["status bad", "status bad"]
    tab.click("document.getElementById('refused')")
    tab.until(f"{rows}.some((one) => one.children[2].textContent === '/v1/jobs?limit=7')")


def test_the_list_is_used_with_the_keyboard_alone(server: Server, tab: Tab) -> None:
    server.client().get("/v1/nothing")
    tab.until(f"Boolean({row(404)})")
    tab.run("document.getElementById('pause').focus()")
    tab.press("Tab")
    assert tab.run("document.activeElement.id") == "rows"
    tab.press("ArrowDown", "Enter")
    tab.until("document.querySelector('#detail .curl')")
    assert "/v1/nothing" in tab.text("#detail")
    active = "document.getElementById(document.getElementById('rows').getAttribute('aria-activedescendant'))"
    assert tab.run(f"{active}.getAttribute('aria-selected')") == "true"
    tab.press("Escape")
    tab.until("document.getElementById('detail').hidden")


SCRIPT = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>\"'`${window.owned = 1}"


def test_text_of_callers_runs_nowhere(server: Server, domain: str, tab: Tab) -> None:
    client = server.client(server.account(SCRIPT).key)
    client.post("/v1/keyword-lists", json={"domain_id": domain, "name": SCRIPT})
    server.client().post("/v1/keyword-lists", json={"domain_id": domain, "name": SCRIPT})
    client.get("/v1/<script>window.owned=1</script>?x=" + "<img src=x onerror=window.owned=1>")
    client.get("/v1/jobs", headers={"x-request-id": SCRIPT, "user-agent": SCRIPT})
    client.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/?<script>window.owned=1</script>"})
    job = begin(server, domain)
    server.jobs.fail(job, SCRIPT)
    server.control().post("/snapshots", json={"name": "x"})
    tab.click("document.getElementById('effects')")
    shows(tab, "jobs", SCRIPT)
    shows(tab, "accounts", SCRIPT)
    shows(tab, "webhooks", "<script>")
    tab.run("document.getElementById('rows').focus()")
    for _ in range(int(tab.run("document.querySelector('.row').getAttribute('aria-setsize')"))):
        tab.press("ArrowDown", "Enter")  # each is folded open
        tab.until("document.querySelector('#detail pre, #detail .bad, #detail .why')")
        assert tab.run("typeof window.owned") == "undefined"
        tab.press("Escape")
    assert tab.run("document.querySelectorAll('main script, main img').length") == 0


HOSTILE = [
    "@/etc/passwd",
    "it's $(touch owned) `touch owned` \\' \"; touch owned #",
    "\x03\ntouch owned\n\x15\x1b[31m\x7f\\' two\nlines",
]


@pytest.mark.parametrize("text", HOSTILE, ids=["file", "quotes", "control"])
def test_a_copied_curl_is_one_command_whatever_was_sent(
    server: Server, tab: Tab, text: str, tmp_path: Path
) -> None:
    path = "/v1/domains/[1-9]'$(touch%20owned)"
    server.client().request("PATCH", path, content=text.encode(), headers={"x-note": "it's `touch owned`"})
    tab.until("document.querySelectorAll('.row .path').length > 1")
    tab.click("[...document.querySelectorAll('.row')].find((one) => one.children[1].textContent === 'PATCH')")
    tab.until("document.querySelector('#detail .curl')")
    script = tab.run("document.querySelector('#detail .curl').textContent")
    assert not {*map(chr, range(9)), "\x1b", "\x7f"} & set(script)  # nothing that a terminal acts upon
    said = subprocess.run(
        ["bash", "-c", "curl() { printf '%s\\0' \"$@\"; }\n" + script],
        capture_output=True, cwd=tmp_path, check=True,
    )  # fmt: skip
    given = said.stdout.decode().split("\0")
    assert given[given.index("--data-raw") + 1] == text
    assert given[:4] == ["--globoff", "-X", "PATCH", server.url + path]
    assert "x-note: it's `touch owned`" in given
    assert list(tmp_path.iterdir()) == []


# Many events, tabs, cuts


CALL = AnsweredCall(
    0, 0, "rest", "production", "GET", "/v1/jobs", ("jobs.list",), "", "", 200, "", 0, "ok", "", (), 1_000
)


def test_ten_thousand_events_scroll_and_few_rows_exist(chromium: Any, server: Server) -> None:
    now = server.clock.now

    def fill() -> None:
        for number in range(10_000):
            server.twin.event_log.add(call_at(now, number))

    server.run(fill)
    tab = page_of(chromium, server)
    tab.until("document.getElementById('list').scrollHeight >= 10000 * 24")
    tab.ask("Performance.enable", timeDomain="threadTicks")
    before = busy(tab)
    tab.run(SCROLL)
    frame = (busy(tab) - before) / FRAMES * 1_000
    print(f"\na frame of scrolling through 10,000 events takes {frame:.1f} ms of the page's thread")
    assert frame < 16
    assert tab.run("document.querySelectorAll('.row').length") < 100
    tab.run("document.getElementById('rows').focus()")
    tab.press("End")
    tab.until(
        "[...document.querySelectorAll('.row')].some((one) => one.children[2].textContent === '/v1/call/0')"
    )
    assert tab.errors() == []
    tab.close()


FRAMES = 60

SCROLL = f"""new Promise((done) => {{
  const list = document.getElementById('list');
  let step = 0;
  const next = () => {{
    if (++step > {FRAMES}) {{ done(); return; }}
    list.scrollTop = (step * 4000) % list.scrollHeight;
    requestAnimationFrame(next);
  }};
  requestAnimationFrame(next);
}})"""


def busy(tab: Tab) -> float:
    """Return the seconds that the page's thread worked on scripts, styles and layout: CPU time."""
    told = {one["name"]: one["value"] for one in tab.ask("Performance.getMetrics")["metrics"]}
    return float(told["ScriptDuration"] + told["RecalcStyleDuration"] + told["LayoutDuration"])


def call_at(at: int, number: int) -> AnsweredCall:
    return CALL._replace(at=at, path=f"/v1/call/{number}")


def test_two_tabs_see_the_same(chromium: Any, server: Server, tab: Tab) -> None:
    other = page_of(chromium, server)
    server.client().get("/v1/nothing")
    for one in (tab, other):
        chromium.ask("Target.activateTarget", targetId=one.target)
        one.until(f"Boolean({row(404)})")
    other.press_button("+1 h")
    says(other, "+1 h: it is")
    chromium.ask("Target.activateTarget", targetId=tab.target)
    tab.until("document.getElementById('now').textContent === '2026-03-02 10:00:00 UTC'")
    other.close()


def test_the_page_finds_a_server_that_was_started_again(chromium: Any) -> None:
    settings = {"plan": "pro", "seed": 1, "control_token": "hands"}
    with Server(**settings) as first:
        port = first._listener.port
        tab = page_of(chromium, first)
        first.client().get("/v1/before")
        tab.until(f"Boolean({row(404)})")
    tab.until("document.getElementById('link').textContent.includes('cut off')")
    with Server(port=port, **settings) as second:
        tab.until(LIVE)
        tab.until("document.querySelectorAll('.row').length === 0")  # another log, whose numbers begin anew
        second.client().get("/v1/after")
        tab.until(
            "[...document.querySelectorAll('.row')].some((one) => one.textContent.includes('/v1/after'))"
        )
    tab.close()


def test_without_the_token_the_page_asks_for_it(chromium: Any, server: Server) -> None:
    tab = chromium.open(f"{server.url}/", 1000)
    tab.until("!document.getElementById('ask').hidden")
    assert tab.run("document.querySelector('main').hidden")
    assert tab.run("[...document.querySelectorAll('header button')].every((one) => one.disabled)")
    type_into(tab, "#ask input", "hands")
    tab.press("Enter")
    tab.until(f"location.search === '' && {LIVE}")
    tab.until("[...document.querySelectorAll('header button')].some((one) => !one.disabled)")
    tab.run("location.reload()")
    tab.until(f"location.search === '' && {LIVE}")
    tab.close()


def test_a_token_that_is_not_the_servers_is_said_to_be_wrong(chromium: Any, server: Server) -> None:
    tab = chromium.open(f"{server.url}/?token=feet", 1000)
    tab.until("document.getElementById('link').textContent === 'wrong token'")
    assert tab.text("#ask p") == "This is not the token that the server printed when it started."
    tab.close()


def test_the_api_is_tried_from_the_page(chromium: Any, server: Server) -> None:
    tab = page_of(chromium, server, 1000)
    tab.press_button("Try the API")
    tab.until("location.pathname === '/docs' && document.querySelector('#control .opblock')")
    tab.close()


def test_an_empty_world_shows_a_first_call_and_sends_demo_traffic(chromium: Any, server: Server) -> None:
    tab = page_of(chromium, server, 1200)
    tab.until("document.querySelector('#first pre').textContent")
    flag, header, url = shlex.split(tab.text("#first pre"))[1:]
    assert (flag, url) == ("-H", f"{server.url}/v1/account")
    answer = httpx.get(url, headers=dict([header.split(": ", 1)]))
    assert answer.json()["data"]["id"] == server.control().get("/accounts").json()["data"][0]["id"]
    tab.until("document.getElementById('first').hidden")
    tab.run("document.getElementById('demo').click()")
    says(tab, "tracks three keywords and started two jobs")
    outcomes = {one["status"] for one in server.control().get("/requests").json()["data"]}
    assert outcomes == {200, 201, 202, 404, 422}
    assert tab.errors() == []
    tab.close()


def test_equal_calls_in_a_row_are_one_line_until_each_is_shown(server: Server, tab: Tab) -> None:
    client = server.client()
    for path in ["/v1/labels"] * 3 + ["/v1/scans"] + ["/v1/labels"] * 2:
        client.get(path)
    rows = "[...document.querySelectorAll('.row')]"
    lines = f"{rows}.map((one) => [one.children[2].textContent, one.children[6].textContent.includes('×')])"
    tab.until(f"{rows}.length === 4")
    assert tab.run(lines) == [
        ["/v1/labels", True],
        ["/v1/scans", False],
        ["/v1/labels", True],
        ["/v1/domains", False],
    ]
    tab.click(f"{rows}.find((one) => one.textContent.endsWith('× 3'))")
    tab.until("document.getElementById('detail').textContent.includes('The last of 3 calls alike')")
    tab.press_button("Show each")
    tab.until(f"{rows}.length === 6")
    client.get("/v1/labels")
    tab.until(f"{rows}.length === 6 && {rows}.some((one) => one.textContent.endsWith('× 3'))")


def test_a_disabled_endpoint_is_enabled(server: Server, tab: Tab) -> None:
    endpoint = server.subscribe(server.receiver(200))["id"]
    server.client().patch(f"/v1/webhooks/{endpoint}", json={"enabled": False})
    shows(tab, "webhooks", "disabled")
    tab.press_button(f"Enable {endpoint}")
    tab.until("!document.getElementById('webhooks').textContent.includes('disabled')")
    assert server.client().get(f"/v1/webhooks/{endpoint}").json()["data"]["enabled"]


def test_panels_fold_and_stay_so_and_jobs_that_ended_leave(server: Server, domain: str, tab: Tab) -> None:
    job = begin(server, domain)
    shows(tab, "jobs", job)
    tab.press_button(f"Finish {job}")
    tab.until(f"document.getElementById('ended').textContent.includes('{job}')")
    assert tab.text("#ended > summary") == "1 ended"
    assert not tab.run("document.getElementById('ended').open")
    tab.click("document.getElementById('h-faults')")
    tab.until("sessionStorage.getItem('ranksim-fold-faults') === 'no'")
    tab.run("window.before = true, location.reload()")
    tab.until(f"!window.before && {LIVE}")
    folds = "[...document.querySelectorAll('main section > details')].map((one) => one.open)"
    assert tab.run(folds) == [True, True, True, False, True, True]


# Screens

AXE = Path(__file__).parents[1] / "node/node_modules/axe-core/axe.min.js"


@pytest.mark.skipif(not AXE.exists(), reason="wants `npm install --prefix tests/twin/facade/node`")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_axe_finds_nothing_serious(chromium: Any, server: Server, width: int, dark: bool) -> None:
    endpoint = server.subscribe(server.receiver(200))["id"]
    server.client().patch(f"/v1/webhooks/{endpoint}", json={"enabled": False})
    tab = page_of(chromium, server, width, dark=dark)
    tab.run("document.getElementById('demo').click()")
    says(tab, "started two jobs")
    for panel in ("webhooks", "faults", "limits", "snapshots"):
        tab.run(f"document.querySelector('#{panel} > details').open = true")
    tab.click("document.querySelector('.row')")
    tab.until("document.querySelector('#detail .curl')")
    tab.run(AXE.read_text() + "; 1")
    found = "axe.run().then((all) => all.violations.map((one) => [one.impact, one.id, one.nodes[0].html]))"
    assert [one for one in tab.run(found) if one[0] in ("serious", "critical")] == []
    tab.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_every_width_holds_the_page_and_every_control_has_a_name(
    chromium: Any, server: Server, domain: str, width: int, dark: bool
) -> None:
    begin(server, domain)
    server.subscribe(server.receiver(200))
    server.control().post("/faults", json={"operation": "jobs.*", "error_rate": 0.5})
    server.control().post("/snapshots", json={"name": "one"})
    tab = page_of(chromium, server, width, dark=dark)
    shows(tab, "snapshots", "one")
    assert tab.run("document.documentElement.scrollWidth") <= width
    nodes = tab.ask("Accessibility.getFullAXTree")["nodes"]
    wanted = (
        "button",
        "textbox",
        "searchbox",
        "checkbox",
        "combobox",
        "spinbutton",
        "listbox",
        "option",
        "meter",
    )
    found = [one for one in nodes if not one["ignored"] and one["role"]["value"] in wanted]
    assert len(found) > 30
    assert [one for one in found if not one.get("name", {}).get("value")] == []
    lowest = tab.run(CONTRAST)
    print(f"\nlowest contrast at {width}: {lowest}")
    assert lowest["ratio"] >= 4.5
    tab.close()


CONTRAST = """(() => {
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const found = parts(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  let lowest = { ratio: 99 };
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || !node.offsetParent || node.disabled) continue;
    const [a, b] = [light(parts(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < lowest.ratio) lowest = { ratio, text: node.textContent.slice(0, 40) };
  }
  return lowest;
})()"""  # WCAG 2.1, 1.4.3
