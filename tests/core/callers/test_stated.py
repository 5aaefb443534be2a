"""A service as a scenario states it: the world that begins so shows the same accounts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.callers.stated import stated_scenario
from ranksim.core.clock import HOUR, SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules import windows
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service
from ranksim.core.service.window_table import key_windows
from ranksim.twin.facade.faults import Faults

NOW = instant("2026-03-04T10:00:00Z")

SHOWN = ("account.usage", "slots.get", "domains.list", "webhooks.list", "scans.list", "labels.list")
"""What is the same for each key, but for ids of parts of domains, instants, and what running jobs reserve."""

OWN = {
    "created_at",
    "last_full_crawl_at",
    "list_ids",
    "request_id",
    "reserved",
    "settled",
    "disabled_reason",
}


def call(service: Service, account: str, operation: str, now: int = NOW, **fields: Any) -> Any:
    environment = service.state.accounts[account].environment
    asked = Call(operation, surface="app", account=account, environment=environment, **fields)
    reply = service.handle(asked, now).reply
    service.written(reply, now)
    return reply.body


def plain(shown: Any) -> Any:
    if isinstance(shown, dict):
        return {
            name: plain(value)
            for name, value in shown.items()
            if name not in OWN and name != "disabled_at" and (name != "id" or value[:3] in ("dom", "whk"))
        }
    return [plain(each) for each in shown] if isinstance(shown, list) else shown


def shown(service: Service, now: int) -> list[Any]:
    """What each account is shown, and the headers of rate limits that each key will get."""
    accounts = [
        (id, [plain(call(service, id, each, now)) for each in SHOWN]) for id in service.state.accounts
    ]
    headers = sorted(
        (
            key.token,
            number,
            [windows.standing(now + later, *counted) for later in (0, 7 * SECOND, 50 * SECOND)],
        )
        for key in service.state.keys.values()
        for number, *counted in key_windows(service.policy, service.state, key)
    )
    return [accounts, headers]


def begun(stated: dict[str, Any]) -> Service:
    from ranksim.twin.testing.beginning import origin_of

    origin = origin_of((json.dumps(stated), None), None)
    service, _, timeline = origin.open()
    while timeline.due <= origin.start:
        timeline.act(service, Faults(), origin.start)
    return service


def account_of(service: Service, plan: str, environment: str = "production") -> str:
    return service.open_account("acme", plan, NOW, environment=environment)


words = st.lists(st.sampled_from([f"keyword {n}" for n in range(9)] + ["Schuhe", "a b"]), max_size=6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("domain"), st.integers(0, 9)),
        st.tuples(st.just("list"), st.text("ab", min_size=1, max_size=2)),
        st.tuples(st.just("words"), words),
        st.tuples(st.just("scan"), st.booleans()),
        st.tuples(st.just("unscan"), st.integers(0, 5)),
        st.tuples(st.just("unword"), st.integers(0, 9)),
        st.tuples(st.just("label"), st.sampled_from(["new", "brand"])),
        st.tuples(st.just("job"), st.sampled_from(["rank_run", "crawl"])),
        st.tuples(st.just("brief"), words),
        st.tuples(st.just("hook"), st.booleans()),
        st.tuples(st.just("key"), st.sampled_from(["main", "spare"])),
        st.tuples(st.just("plan"), st.sampled_from(["pro", "agency"])),
        st.tuples(
            st.just("calls"), st.tuples(st.integers(1, 7), st.sampled_from(("domains.list", "jobs.create")))
        ),
    ),
    max_size=25,
)


def one_of(table: dict[str, Any], number: int, account: str) -> str | None:
    owned = [id for id, row in table.items() if row.account == account]
    return owned[number % len(owned)] if owned else None


def act(service: Service, account: str, what: str, value: Any, now: int) -> None:
    """Do one step to an account, on its newest domain and list; what the service refuses has no effect."""
    state = service.state
    domain, listed = one_of(state.domains, -1, account), one_of(state.keyword_lists, -1, account)
    match what:
        case "domain":
            hosts = {row.host for row in state.domains.values() if row.account == account}
            if f"s{value}.example" not in hosts:
                call(service, account, "domains.create", now, body={"host": f"s{value}.example"})
        case "list":
            call(service, account, "keyword_lists.create", now, body={"domain_id": domain, "name": value})
        case "words":
            call(service, account, "keywords.create", now, body={"list_id": listed, "keywords": value})
        case "scan":
            pairs = [{"engine": "google", "device": "desktop"}, {"engine": "google", "device": "mobile"}]
            lists = [id for id, row in state.keyword_lists.items() if row.domain == domain]
            body = {
                "domain_id": domain,
                "name": "daily",
                "list_ids": lists[: 1 if value else None],
                "engine_devices": pairs[: 2 if value else 1],
                "geographies": [{"country": "DE"}, {"country": "US", "language": "en"}][: 1 if value else 2],
            }
            call(service, account, "scans.create", now, body=body)
        case "unscan":
            scan = one_of(state.scans, value, account)
            call(service, account, "scans.update", now, path={"id": scan or ""}, body={"active": False})
        case "unword":
            word = one_of(state.keywords, value, account)
            call(service, account, "keywords.delete", now, path={"id": word or ""})
        case "label":
            call(service, account, "labels.create", now, body={"domain_id": domain, "name": value})
        case "job":
            call(service, account, "jobs.create", now, body={"kind": value, "domain_id": domain})
        case "brief":
            call(
                service, account, "keyword_briefs.create", now, body={"domain_id": domain, "keywords": value}
            )
        case "hook":
            body = {"url": "https://erp.example/hook", "event_types": ["job.failed"][: int(value)]}
            hook = call(service, account, "webhooks.create", now, body=body)
            if value and "data" in hook:
                off = {"enabled": False}
                call(service, account, "webhooks.update", now, path={"id": hook["data"]["id"]}, body=off)
        case "key":
            service.issue_key(account, value, now, domain=domain)
        case "calls":
            count, operation = value
            for key in [key for key in state.keys.values() if key.account == account]:
                for number in range(count):
                    asked = Call(operation, key=key.token, environment=key.environment, body={})
                    service.handle(asked, now + number * 7 * SECOND // 9)
        case "plan":
            service.change_plan(account, value, now)


@pytest.mark.slow
@pytest.mark.fact("S37", "S38", "S70")
@given(
    steps, steps, st.sampled_from(windows.KINDS), st.booleans(), st.integers(0, 90 * SECOND), st.booleans()
)
def test_what_is_exported_begins_as_the_same_accounts(
    first: list[Any], second: list[Any], window: str, strict: bool, after: int, table: bool
) -> None:
    """Whatever was done to two accounts: use, slots, domains, scans, keys and windows are the same."""
    how = {
        "window": window if window in windows.NAMES else "gcra",
        "refused_calls_count": strict,
        "reset_reports": "full" if strict else "algorithm",
    }
    policy = Policy().replace(assumptions=how, facts={"rates": {"read": 5, "write": 3, "expensive": 2}})
    if table:
        policy = policy.replace(
            windows=[{"name": "own", "per": "key", "limit": "4/60s", "algorithm": window}]
        )
    service, now = Service(policy, 3), NOW
    owners = [account_of(service, "pro"), account_of(service, "pro", "sandbox")]
    for account in owners:
        service.issue_key(account, "app", now)
    for account, done in zip(owners, (first, second), strict=True):
        for what, value in done:
            now += HOUR // 60
            act(service, account, what, value, now)
    now += 7 * SECOND + after
    stated = stated_scenario(service.state, service.policy, now)
    again = begun(stated)
    assert shown(again, now) == shown(service, now)
    assert {each.secret for each in again.state.endpoints.values()} == {
        each.secret for each in service.state.endpoints.values()
    }
    assert stated_scenario(again.state, again.policy, now) == stated


def test_what_no_scenario_states_is_refused_with_a_sentence() -> None:
    service = Service(Policy(), 3)
    account = account_of(service, "pro")
    for _ in range(2):
        call(service, account, "domains.create", body={"host": "twice.example"})
    with pytest.raises(BadInput, match=r"two domains of host twice\.example, which no scenario states"):
        stated_scenario(service.state, service.policy, NOW)
    service = Service(Policy(), 3)
    account = account_of(service, "agency")
    service.state.accounts[account].books.active = 10**6
    with pytest.raises(BadInput, match="uses more slots than its plan has"):
        stated_scenario(service.state, service.policy, NOW)


def test_two_keys_with_one_token_are_refused() -> None:
    service = Service(Policy(), 3)
    account = account_of(service, "pro")
    key = service.issue_key(account, "main", NOW)
    assert service.issue_key(account, "fixed", NOW, token="my-own-token") == "my-own-token"
    with pytest.raises(BadInput, match="'again': its token is that of another key"):
        service.issue_key(account, "again", NOW, token=key)


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        ([{"of": "read", "count": 0}], r"keys\[0\]\.calls\[0\]\.count: "),
        ([{"of": "reads"}], "no window 'reads'; did you mean 'read'?"),
        ([{"of": "read", "at": "2026-03-04T10:00:01Z"}], r"calls\[0\]\.at: begins after the world"),
    ],
)
def test_what_is_wrong_with_calls_is_one_sentence(calls: list[Any], sentence: str) -> None:
    acme = {"plan": "pro", "keys": [{"name": "app", "calls": calls}]}
    with pytest.raises(BadInput, match=sentence):
        begun({"start": "2026-03-04T10:00:00Z", "length": "1d", "accounts": {"acme": acme}})


@pytest.mark.fact("S102", "S105")
def test_calls_before_the_start_are_counted_at_the_start_where_no_instant_is_stated() -> None:
    calls = [{"of": "read", "count": 598}, {"of": "read", "at": "2026-03-04T09:59:30Z"}]
    acme = {"plan": "pro", "keys": [{"name": "app", "token": "my-own-token", "calls": calls}]}
    service = begun({"start": "2026-03-04T10:00:00Z", "length": "1d", "accounts": {"acme": acme}})
    asked = Call("domains.list", key="my-own-token")
    headers = [service.handle(asked, NOW + 29 * SECOND).reply.headers for _ in range(2)]
    assert [each["RateLimit-Remaining"] for each in headers] == ["0", "0"]
    assert headers[1]["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("site", "sentence"),
    [
        ({"lists": [{"name": "a"}, {"name": "a"}]}, "two lists have one name"),
        ({"lists": [{"name": "main"}], "scans": [{"name": "s", "lists": ["mian"]}]}, "did you mean 'main'"),
        ({"lists": [{"name": "a", "keywords": 5001}], "scans": [{"name": "s"}]}, "takes 5,?001 slots where"),
        ({"labels": [""]}, "labels"),
    ],
)
def test_what_is_wrong_with_a_site_is_one_sentence(site: dict[str, Any], sentence: str) -> None:
    acme = {"plan": "pro", "sites": [{"host": "one.example", **site}]}
    with pytest.raises(BadInput, match=sentence):
        begun({"start": "2026-03-04T10:00:00Z", "length": "1d", "accounts": {"acme": acme}})
