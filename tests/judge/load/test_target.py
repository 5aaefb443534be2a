"""Targets: what a file may say, and the one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from ranksim.core.callers.target import UNKNOWN, Target
from ranksim.core.errors import BadInput
from ranksim.judge.deployment.discovery import declared
from ranksim.judge.load.options import CAUTIOUS_CAP, KEY, LoadOptions, read_target

WHOLE = """
environments:
  production: https://api.example.com/v1/
  sandbox: http://localhost:8080/sandbox
graphql:
  sandbox: http://localhost:8080/graphql-sandbox
keys:
  main: {token: "env:RANKSIM_TEST_KEY"}
  scoped: {token: rk_scoped, purpose: scoped, domain_id: dom_1}
  test: {token: rk_test, environment: sandbox, purpose: other_environment, account: acc_9}
receiver: https://hooks.example.com
policy: ours.yaml
time_scale: 60
traffic_scale: 2
spend_cap: 5 USD
dry_run_only: true
exclusive: true
use_domains: [dom_1, dom_2]
failing_domain: dom_3
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "target.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSIM_TEST_KEY", "rk_secret")
    (tmp_path / "ours.yaml").write_text("name: ours\n", encoding="utf-8")
    target = read_target(write(tmp_path, WHOLE))
    assert target.environments == {
        "production": "https://api.example.com",
        "sandbox": "http://localhost:8080/sandbox",
    }
    assert target.graphql_url("production") == "https://api.example.com/graphql"
    assert target.graphql_url("sandbox") == "http://localhost:8080/graphql-sandbox"
    assert target.token("main") == "rk_secret"
    assert target.keys["scoped"].domain_id == "dom_1"
    assert target.environment_of("test") == "sandbox"
    assert target.policy == str(tmp_path / "ours.yaml")
    assert (target.time_scale, target.traffic_scale, target.spend_cap) == (60, 2, 5_000_000)
    assert target.dry_run_only
    assert target.exclusive
    assert target.usable_domains == {"dom_1", "dom_2", "dom_3"}


def test_a_base_url_and_one_key_will_do() -> None:
    target = Target.simple("http://127.0.0.1:8080/", "rk_1")
    assert target.environments == {"production": "http://127.0.0.1:8080"}
    assert (target.token("main"), target.keys["main"].purpose) == ("rk_1", "full")
    assert (target.spend_cap, target.dry_run_only, target.exclusive) == (None, False, False)


def test_only_addresses_of_the_api_lose_their_version(tmp_path: Path) -> None:
    text = BASE + (
        "keys: {main: {token: x}}\n"
        "graphql: {production: https://a.example/graphql/v1/?tenant=7}\n"
        "receiver: https://hooks.example.com/v1/\n"
    )
    target = read_target(write(tmp_path, text))
    assert target.graphql_url("production") == "https://a.example/graphql/v1/?tenant=7"
    assert target.receiver == "https://hooks.example.com/v1"


@pytest.mark.parametrize(
    "host",
    [
        "https://a.example/b c",
        "https://a.example?x=1",
        "https://a.example/v1#top",
        "https://user:pw@a.example",
        "http://a.example:port",
        "http://a.example:99999",
        "http://[::1",
        "https://a.example/bücher",
        "ftp://a.example",
    ],
)
def test_an_address_that_nothing_can_be_sent_to_is_told_at_once(host: str) -> None:
    with pytest.raises(BadInput, match=r"environments.production: expected a URL"):
        Target.simple(host, "rk_1")


@pytest.mark.parametrize("host", ["http://[::1]:8080", "http://localhost", "https://bücher.example/api"])
def test_unusual_addresses_are_fine(host: str) -> None:
    assert Target.simple(host, "rk_1").environments == {"production": host}


@pytest.mark.parametrize("token", ["rk_secret\n", "rk secret", "rk_sécret"])
def test_a_key_that_no_header_can_carry_is_told_and_not_shown(token: str) -> None:
    with pytest.raises(BadInput, match=r"keys.main.token: expected an API key") as told:
        Target.simple("http://127.0.0.1", token)
    assert "cret" not in str(told.value)


def test_a_key_that_is_not_there() -> None:
    target = Target.simple("http://127.0.0.1", "rk_1")
    assert target.token("") is None
    assert target.token(UNKNOWN) not in (None, "", "rk_1")
    assert target.environment_of(UNKNOWN) == "production"


def test_tokens_do_not_show() -> None:
    target = Target.simple("http://127.0.0.1", "rk_very_secret")
    target = target.model_copy(update={"receiver_token": "rk_very_secret"})
    assert "rk_very_secret" not in repr(target)
    assert "rk_very_secret" not in str(target.keys["main"])


BASE = "environments: {production: https://a.example}\n"

MISTAKES = {
    "no key": (BASE, r"target.yaml:1: keys: is missing"),
    "no environment": ("environments: {}\nkeys: {main: {token: x}}\n", r"target.yaml:1: environments: .*1"),
    "not a URL": ("environments:\n  production: a.example\nkeys: {main: {token: x}}\n", r":2: .*https://api"),
    "empty token": (BASE + 'keys:\n  main: {token: ""}\n', r":3: keys.main.token: .*at least 1"),
    "unset variable": (BASE + "keys:\n  main: {token: env:RANKSIM_NO_SUCH}\n", r":3: .*RANKSIM_NO_SUCH"),
    "unknown purpose": (
        BASE + "keys:\n  main: {token: x, purpose: all}\n",
        r":3: .*purpose: expected one of",
    ),
    "stray environment": (
        BASE + "keys:\n  main: {token: x, environment: test}\n",
        r"'test'; expected one of",
    ),
    "stray GraphQL": (BASE + "keys: {main: {token: x}}\ngraphql: {test: https://b.example}\n", r"'test'"),
    "reserved name": (BASE + "keys: {unknown: {token: x}}\n", r"no key may be called 'unknown'"),
    "misspelt": (BASE + "keys: {main: {token: x}}\nspendcap: 5 USD\n", r":3: spendcap: .*'spend_cap'"),
    "bare money": (BASE + "keys: {main: {token: x}}\nspend_cap: 5\n", r":3: spend_cap: .*5 USD"),
    "scale of zero": (BASE + "keys: {main: {token: x}}\ntime_scale: 0\n", r":3: time_scale: .*at least 1"),
    "unset token of a receiver": (
        BASE + "keys: {main: {token: x}}\nreceiver: https://a.example\nreceiver_token: env:RANKSIM_NO_SUCH\n",
        r":4: receiver_token: .*RANKSIM_NO_SUCH is not set",
    ),
    "a token that no header can carry": (
        BASE + "keys: {main: {token: x}}\nreceiver: https://a.example\nreceiver_token: a b\n",
        r":4: receiver_token: expected an API key or token",
    ),
    "a token without a receiver": (
        BASE + "keys: {main: {token: x}}\nreceiver_token: x\n",
        r"receiver_token: there is no receiver; give its URL",
    ),
    "a domain without an id": (
        BASE + "keys: {main: {token: x}}\nuse_domains: [dom_1, '']\n",
        r":3: use_domains.*.*at least 1",
    ),
    "missing policy": (BASE + "keys: {main: {token: x}}\npolicy: none.yaml\n", r":3: policy: no such file"),
}


@pytest.mark.parametrize(("text", "says"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        read_target(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_mistaken_host_is_told_too() -> None:
    with pytest.raises(BadInput, match=r"environments.production: expected a URL"):
        Target.simple("api.example.com", "rk_1")


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("[::1]:8080/v1", "http://[::1]:8080"),
        ("https://localhost:8080", "https://localhost:8080"),
    ],
)
def test_a_base_url_of_this_machine_needs_no_scheme(
    given: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKSIM_KEY", "rk_1")
    assert LoadOptions(given).target().environments == {"production": base}


def test_another_host_needs_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSIM_KEY", "rk_1")
    for given in ("localhost.example.com", "api.example.com"):
        with pytest.raises(BadInput, match=r"--host: expected a URL such as https://api\.example\.com"):
            LoadOptions(given).target()


@pytest.mark.parametrize(
    ("host", "says", "options", "expected"),
    [
        ("http://127.0.0.1:8080", "", None, True),  # as for a bare URL
        ("https://api.example.com", "", None, False),
        ("http://127.0.0.1:8080", "exclusive: false", None, False),
        ("https://api.example.com", "exclusive: true", None, True),
        ("http://127.0.0.1:8080", "exclusive: true", False, False),
        ("https://api.example.com", "exclusive: false", True, True),
    ],
)
def test_whether_others_use_the_accounts_where_a_file_does_not_say(
    tmp_path: Path, host: str, says: str, options: bool | None, expected: bool
) -> None:
    file = write(tmp_path, f"environments: {{production: {host}}}\nkeys: {{main: {{token: k}}}}\n{says}\n")
    asked = LoadOptions.from_arguments("", file, "", "", False, options)
    assert asked.target().exclusive == expected


@pytest.mark.parametrize(
    ("host", "given", "cap"),
    [
        ("http://127.0.0.1:1", "", CAUTIOUS_CAP),  # a tunnel to production begins here, too
        ("https://api.example.com", "", CAUTIOUS_CAP),
        ("http://127.0.0.1:1", "5 USD", 5_000_000),
        ("http://127.0.0.1:1", "none", None),
    ],
)
def test_a_cap_stands_everywhere_unless_somebody_lifts_it(
    host: str, given: str, cap: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "rk_1")
    assert LoadOptions(host, spend_cap=given).target().spend_cap == cap


def test_a_target_file_has_a_cap_of_its_own_or_the_usual_one(tmp_path: Path) -> None:
    path = tmp_path / "target.yaml"
    for line, given, cap in (
        ("spend_cap: 5 USD\n", "", 5_000_000),
        ("", "", CAUTIOUS_CAP),
        ("spend_cap:\n", "", CAUTIOUS_CAP),
        ("spend_cap: 5 USD\n", "none", None),
    ):
        path.write_text(BASE + "keys: {main: {token: x}}\n" + line, encoding="utf-8")
        assert LoadOptions(file=str(path), spend_cap=given).target().spend_cap == cap


def test_a_key_knows_the_variable_that_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SECOND", "rk_live_2")
    target = Target.simple("http://127.0.0.1:1", "env:SECOND", {"SECOND": "rk_live_2"})
    assert (target.keys["main"].token, target.keys["main"].variable) == ("rk_live_2", "SECOND")
    assert Target.simple("http://127.0.0.1:1", "rk_live_2").keys["main"].variable is None
    assert declared(target, {})["main"].model_dump()["variable"] == "SECOND"
