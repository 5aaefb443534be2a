"""Scenarios: what may be written, what it means, and one clear sentence for every mistake."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from ranksim.core.callers.programs.call_streams import Arrivals
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, instant
from ranksim.core.contract.located import Located, dotted
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.yamlfile import load_yaml
from ranksim.core.errors import BadInput
from ranksim.twin.sim.scenario import Scenario

START = "2026-01-05T00:00:00Z"

WHOLE = """\
scenario: 1
title: An agency
start: 2026-01-05T00:00:00Z
length: 30d
assumptions:
  window: gcra
accounts:
  acme:
    plan: pro
    anchor: 2026-01-31T00:00:00Z
    add_ons: {brief_pack: 2}
    keys: [main, {name: shop, domain: shop.example}]
    portfolio:
      domains: [shop.example, blog.example]
      keywords: 100
      scans:
        - {engine_devices: [google/desktop, google/mobile], geographies: [US, {country: DE}]}
  small:
    plan: free
    status: past_due
    environment: sandbox
clients:
  nightly: {kind: schedule, account: acme, key: shop, job: rank_run, every: day}
pools:
  crawl: 3
  rank_run: unlimited
  ai_scan: {capacity: 2, discipline: shortest, duration: {exponential: {mean: 4m}}}
receivers:
  erp:
    account: acme
    domain: blog.example
    script: [500, timeout, 200]
    outages: [{from: 2d, for: 1h}, {from: 2026-01-20T00:00:00Z, for: 1h}]
timeline:
  - {at: 1d, do: change_plan, account: acme, plan: agency}
  - {at: 2d, do: issue_key, account: acme, key: spare}
  - {at: 2026-01-10T00:00:00Z, do: withdraw_key, account: acme, key: spare}
  - {at: 5d, do: resize_pool, pool: crawl, capacity: unlimited}
  - {at: 6d, do: receiver_down, receiver: erp}
warm_up: 1d
"""


def parse(text: str) -> Scenario:
    return Scenario.parse(text, "s.yaml")


def test_a_whole_scenario() -> None:
    scenario = parse(WHOLE)
    assert (scenario.start, scenario.length, scenario.end) == (
        instant(START),
        30 * DAY,
        instant("2026-02-04T00:00:00Z"),
    )
    assert (scenario.name, scenario.seed, scenario.replications) == ("s", 1, 1)
    assert scenario.policy.assumptions.window == "gcra"
    assert scenario.accounts["acme"].hosts("acme") == ("shop.example", "blog.example")
    assert scenario.accounts["acme"].portfolio is not None
    assert scenario.accounts["acme"].portfolio.slots() == 800
    assert [key.name for key in scenario.accounts["acme"].keys] == ["main", "shop"]
    assert [key.name for key in scenario.accounts["small"].keys] == ["main"]
    assert scenario.pools["crawl"].capacity == 3
    assert scenario.pools["rank_run"].capacity == "unlimited"
    assert scenario.receivers["erp"].script == (500, "timeout", 200)
    outages = [outage.begin.on(scenario.start) for outage in scenario.receivers["erp"].outages]
    assert outages == [scenario.start + 2 * DAY, instant("2026-01-20T00:00:00Z")]
    assert scenario.warm_up == DAY


@pytest.mark.fact("S24", "S25")
@pytest.mark.parametrize(
    ("portfolio", "slots"),
    [
        ("{keywords: 1, scans: [{engine_devices: [g/d, g/m], geographies: [US, DE]}]}", 4),
        ("{domains: 3, keywords: 7}", 21),
        ("{keywords: 7, scans: [{}, {}]}", 14),
        ("{keywords: 7, scans: [{}, {active: false}]}", 7),
        ("{keywords: 7, scans: []}", 0),
    ],
)
def test_the_slots_of_a_portfolio(portfolio: str, slots: int) -> None:
    account = parse(MINIMAL.replace("plan: pro", f"plan: pro, portfolio: {portfolio}")).accounts["acme"]
    assert account.portfolio is not None
    assert account.portfolio.slots() == slots


def test_a_field_that_another_action_has_is_refused_with_the_fields_of_its_own() -> None:
    action = {"at": "1h", "do": "add_keywords", "account": "acme", "keywords": 5}
    with pytest.raises(BadInput) as refused:
        parse(MINIMAL).replace(timeline=[action])
    assert str(refused.value).splitlines() == [
        "replace: timeline[0].keywords: no such field; expected one of do, at, account, count, domain",
        "replace: timeline[0].count: is missing; add it",
    ]


def test_it_can_be_pickled() -> None:
    scenario = parse(WHOLE)
    assert pickle.loads(pickle.dumps(scenario)) == scenario


NIGHTLY = "clients: {{nightly: {{kind: schedule, account: acme, job: crawl, every: day, domains: {}}}}}\n"
MINIMAL = f"start: {START}\nlength: 1d\naccounts:\n  acme: {{plan: pro}}\n"


@pytest.mark.parametrize(
    ("length", "every"),
    [("1d", 432 * SECOND), ("30d", 12960 * SECOND), ("10m", 3 * SECOND), ("5s", SECOND)],
)
def test_by_default_a_run_is_sampled_two_hundred_times_at_whole_seconds(length: str, every: int) -> None:
    scenario = parse(MINIMAL.replace("1d", length))
    assert scenario.sample_every == every
    assert scenario.replace(length="100d").sample_every == 43_200 * SECOND
    assert scenario.replace(sample_every="7s").replace(length="1d").sample_every == 7 * SECOND


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title:", "titel:", "2: titel: no such field; did you mean 'title'?"),
        ("scenario: 1", "scenario: 2", "1: scenario: expected one of 1, found 2"),
        ("length: 30d", "length: 30", "4: length: write a duration such as '1h30m' or '250ms', found 30"),
        ("length: 30d", "length: 0s", "4: length: expected more than 0, found '0s'"),
        ("window: gcra", "window: gcar", "6: assumptions.window: expected one of first_hit, clock, "),
        ("window: gcra", "windows: gcra", "6: assumptions.windows: no such field; did you mean 'window'?"),
        ("plan: pro", "plan: por", "9: accounts.acme.plan: no plan 'por'; did you mean 'pro'?"),
        ("plan: free", "plan: x", "19: accounts.small.plan: no plan 'x'; expected one of free, starter, pro"),
        ("{brief_pack: 2}", "{briefs: 2}", "11: accounts.acme.add_ons.briefs: no add-on 'briefs'; "),
        (
            "domain: shop.example}",
            "domain: x.example}",
            "12: accounts.acme.keys[1].domain: no domain 'x.example'; ",
        ),
        ("keys: [main, ", "keys: [shop, ", "12: accounts.acme.keys[1]: the key 'shop' is written twice; "),
        (
            "keywords: 100",
            "keywords: 1000",
            "13: accounts.acme.portfolio: takes 8000 slots where plan 'pro' has 5000; ",
        ),
        ("past_due", "pastdue", "20: accounts.small.status: no status 'pastdue'; did you mean 'past_due'?"),
        ("crawl: 3", "crawler: 3", "25: pools.crawler: expected one of rank_run, crawl, "),
        (
            "crawl: 3",
            "crawl: {capacity: -3}",
            "25: pools.crawl.capacity: write a number of workers, or unlimited, found -3",
        ),
        ("discipline: shortest", "discipline: sjf", "27: pools.ai_scan.discipline: expected one of fifo, "),
        (
            "acme, key: shop, job",
            "acne, key: shop, job",
            "23: clients.nightly.account: no account 'acne'; ",
        ),
        ("shop, job", "shpo, job", "23: clients.nightly.key: no key 'shpo'; did you mean 'shop'?"),
        ("job: rank_run", "jobs: rank_run", "23: clients.nightly.jobs: no such field; did you mean 'job'?"),
        ("kind: schedule", "kind: scheduled", "23: clients.nightly"),
        (
            "    account: acme\n    domain",
            "    account: acne\n    domain",
            "30: receivers.erp.account: no account ",
        ),
        (
            "domain: blog.example\n",
            "domain: b.example\n",
            "31: receivers.erp.domain: no domain 'b.example'; ",
        ),
        (
            "from: 2d",
            "from: 31d",
            "33: receivers.erp.outages[0].from: 2026-02-05T00:00:00Z is outside the run, ",
        ),
        (
            "plan: agency",
            "plan: agencies",
            "35: timeline[0].plan: no plan 'agencies'; did you mean 'agency'?",
        ),
        ("do: change_plan", "do: move", "35: timeline[0]: "),
        (
            "at: 1d",
            "at: tomorrow",
            "35: timeline[0].at: write a time since the start such as '2d', or an instant",
        ),
        ("at: 1d", "at: 30d", "35: timeline[0].at: 2026-02-04T00:00:00Z is outside the run, which goes from"),
        ("at: 1d", "at: -1d", "35: timeline[0].at: 2026-01-04T00:00:00Z is outside the run, which goes from"),
        ("at: 1d, do", "when: 1d, do", "35: timeline[0].when: no such field; "),
        (
            "key: spare}\n  - {at: 5d",
            "key: spar}\n  - {at: 5d",
            "37: timeline[2].key: no key 'spar'; did you ",
        ),
        ("pool: crawl", "pool: site_optimization", "38: timeline[3].pool: no pool 'site_optimization'; "),
        (
            "receiver: erp",
            "receiver: epr",
            "39: timeline[4].receiver: no receiver 'epr'; did you mean 'erp'?",
        ),
        (
            "geographies: [US, {country: DE}]",
            "geographies: [US, DE, FR, GB, IT, ES]",
            "17: accounts.acme.portfolio.scans[0].geographies: asks for 6 where plan 'pro' has 5; make it ",
        ),
        (
            "warm_up: 1d",
            "expect: [slots.acem.used == 800]",
            "40: expect[0]: no account 'acem'; did you mean 'acme'?",
        ),
        (
            "warm_up: 1d",
            "expect: [clients.nightly.ok == 1, clients.daily.ok == 1]",
            "40: expect[1]: no client 'daily'; expected one of nightly, timeline",
        ),
        ("warm_up: 1d", "warm_up: 30d", "40: warm_up: expected less than the length of 30d"),
        (
            "warm_up: 1d",
            "warm_up: some",
            "40: warm_up: write none, mser, welch or a duration such as '1d', found ",
        ),
    ],
)
def test_every_mistake_is_one_sentence_with_its_line(old: str, new: str, message: str) -> None:
    assert WHOLE.count(old) == 1
    with pytest.raises(BadInput) as caught:
        parse(WHOLE.replace(old, new))
    assert str(caught.value).startswith(f"s.yaml:{message}")
    assert all(line.startswith("s.yaml:") for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "1: expected a mapping of fields"),
        ("start: 2026-01-05T00:00:00Z\nlength: 1d\n", "1: accounts: is missing; add it"),
        (MINIMAL.replace("{plan: pro}", "{}"), "4: accounts.acme.plan: is missing; add it"),
        (MINIMAL + "policy: none.yaml\n", "5: policy: no such file as 'none.yaml'; "),
        (MINIMAL + "catalogue: none\n", "5: catalogue: expected one of illustrative, "),
        (MINIMAL + "receivers: {x: {}}\n", "5: receivers.x.account: is missing; add it"),
        (
            MINIMAL + NIGHTLY.format("[example.com]"),
            "5: clients.nightly.domains: no domain 'example.com'; there is no domain here; add one",
        ),
        (
            MINIMAL + NIGHTLY.format("al"),
            "5: clients.nightly.domains: expected one of all or a whole number or a list, found 'al'; ",
        ),
    ],
)
def test_more_mistakes(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text)
    assert str(caught.value).startswith(f"s.yaml:{message}")


def test_all_that_does_not_fit_together_is_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        parse(MINIMAL.replace("plan: pro", "plan: por") + "receivers: {x: {account: amce}}\nwarm_up: 2d\n")
    plan, receiver, warm_up = str(caught.value).splitlines()
    assert plan == "s.yaml:4: accounts.acme.plan: no plan 'por'; did you mean 'pro'?"
    assert receiver == "s.yaml:5: receivers.x.account: no account 'amce'; did you mean 'acme'?"
    assert warm_up.startswith("s.yaml:6: warm_up: expected less than the length of 1d")


def test_names_are_told_with_the_mistakes_of_fields() -> None:
    text = WHOLE.replace("title: An agency", "title: 7").replace("do: change_plan", "do: chnge_plan")
    text = (
        text.replace("receiver: erp", "receiver: epr")
        .replace("gcra", "grca")
        .replace("plan: pro", "plan: por")
    )
    with pytest.raises(BadInput) as caught:
        parse(text)
    assert [line.partition("; did you")[0].partition(",")[0] for line in str(caught.value).splitlines()] == [
        "s.yaml:6: assumptions.window: expected one of first_hit",
        "s.yaml:2: title: expected text",
        "s.yaml:35: timeline[0]: expected do to be one of change_plan",
        "s.yaml:9: accounts.acme.plan: no plan 'por'",
        "s.yaml:39: timeline[4].receiver: no receiver 'epr'",
    ]


def every_part(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, name)
        if isinstance(part, dict | list):
            yield from every_part(part, (*path, name))


EVERYWHERE = """\
scenario: 1
start: 2026-03-02T00:00:00Z
lenght: 3d
seed: x
accounts:
  acme:
    plan: prro
    portfolio: {domains: -1, keyword: 30}
  other: {plan: starter, colour: red, keys: {a: 1}, portfolio: {keywords: many, domains: [1]}}
clients:
  nightly: {kind: shedule, account: acmee}
  b: {kind: poller, account: acmee, every: -1}
receivers:
  erp: {account: acmee, outages: [{from: 9d, for: 1h}]}
timeline:
  - {at: 1d, do: receiver_down, receiver: erpp}
  - {at: 9d, do: nosuch, receiver: erpp}
expect:
  - clients.nightlyy.ok >= 1
  - clients.nightly.ok >= 1
"""


def test_all_mistakes_of_a_file_are_told_in_one_round() -> None:
    """Of fields and of names, each once, though length, kinds and operations are unknown."""
    with pytest.raises(BadInput) as caught:
        Scenario.parse(EVERYWHERE)
    told = [line.partition(": ")[2] for line in str(caught.value).splitlines()]
    assert [line.partition(": ")[0] for line in told] == [
        "lenght", "seed", "accounts.acme.portfolio.domains", "accounts.acme.portfolio.keyword",
        "accounts.other.keys", "accounts.other.portfolio.domains[0]",
        "accounts.other.portfolio.keywords", "accounts.other.colour", "clients.nightly", "clients.b.every",
        "timeline[1]", "clients.b.operation", "clients.b.account", "clients.nightly.account",
        "timeline[1].receiver", "accounts.acme.plan", "receivers.erp.account", "timeline[0].receiver",
        "expect[0]",
    ]  # fmt: skip
    assert told[2] == "accounts.acme.portfolio.domains: expected at least 1, found -1"
    assert told[-1] == "expect[0]: no client 'nightlyy'; did you mean 'nightly'?"


@pytest.mark.parametrize(
    ("how", "renamed"),
    [("misspelt", {"accounts.acme", "pools.crawl", "receivers.erp"}), ("meaningless", set())],
)
def test_a_mistake_of_a_field_never_makes_a_name_wrong_that_is_right(how: str, renamed: set[str]) -> None:
    whole = load_yaml(WHOLE, "s.yaml")
    told: dict[str, list[str]] = {}
    for path in every_part(whole.data):
        data = deepcopy(whole.data)
        *above, last = path
        place = reduce(lambda value, part: value[part], above, data)
        if how == "misspelt" and isinstance(place, dict):
            place[f"{last}x"] = place.pop(last)
        else:
            place[last] = [[1.5]]
        try:
            Scenario.read(Located("s.yaml", data, {}))
        except BadInput as error:
            sentences = str(error).splitlines()
            about = [dotted(tuple(path[:length])) for length in range(1, len(path) + 1)]
            told[dotted(path)] = [one for one in sentences if not any(f" {part}" in one for part in about)]
    assert len(told) > 60
    assert {path for path, sentences in told.items() if sentences} == renamed


def test_the_policy_may_be_a_file_beside_the_scenario_and_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("assumptions: {window: gcra, reset_format: epoch}\n", "utf-8")
    path = tmp_path / "day.yaml"
    path.write_text(MINIMAL + "policy: p.yaml\nassumptions: {window: clock}\n", "utf-8")
    scenario = Scenario.load(path)
    said = scenario.policy.assumptions
    assert (scenario.name, said.window, said.reset_format) == ("day", "clock", "epoch")


def test_recordings_are_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "rates.txt").write_text("5 5 5", "utf-8")
    source = "source: {rates: rates.txt}, mix: {account.get: {}}"
    text = MINIMAL + f"clients: {{old: {{kind: arrivals, account: acme, accounts: [acme], {source}}}}}\n"
    path = tmp_path / "s.yaml"
    path.write_text(text, "utf-8")
    made = Scenario.load(path).clients["old"]
    assert isinstance(made, Arrivals)
    assert made.source.rates == str(tmp_path / "rates.txt")
    path.write_text(text.replace("[acme]", "[acne]"), "utf-8")
    with pytest.raises(BadInput, match=r"s\.yaml:5: clients\.old\.accounts\[0\]: no account 'acne'; did you"):
        Scenario.load(path)


def test_the_quickstart_reads() -> None:
    quickstart = Scenario.load(Path(__file__).parents[3] / "scenarios" / "quickstart.yaml")
    assert quickstart.name == "quickstart"
    assert quickstart.clients
    assert quickstart.expect


def test_the_policy_may_be_written_inline_with_another_catalogue() -> None:
    text = (
        MINIMAL.replace("pro", "free")
        + "policy: {assumptions: {window: clock}}\ncatalogue: illustrative-metered\n"
    )
    policy = parse(text).policy
    assert (policy.assumptions.window, policy.catalogue.name) == ("clock", "illustrative-metered")


def test_a_catalogue_takes_the_place_of_the_whole_one_as_the_docs_say() -> None:
    with pytest.raises(
        BadInput, match="5: catalogue: a catalogue that extends none is written whole; add ext"
    ):
        parse(MINIMAL + "catalogue: {plans: {pro: {slot_limit: 10000}}}\n")
    docs = Path(__file__).parents[3] / "docs" / "scenarios.md"
    (row,) = [line for line in docs.read_text("utf-8").splitlines() if line.startswith("| `policy` |")]
    assert "a `catalogue` beside it takes the place of the policy's whole" in row


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.yaml: no such file"):
        Scenario.load(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({"seed": 7}, lambda s: s.seed == 7),
        ({"length": "20d"}, lambda s: s.length == 20 * DAY),
        ({"length": 20 * DAY}, lambda s: s.length == 20 * DAY),
        ({"plan": "agency"}, lambda s: [a.plan for a in s.accounts.values()] == ["agency", "agency"]),
        ({"accounts": {"small": {"plan": "pro"}}}, lambda s: s.accounts["small"].status == "past_due"),
        ({"accounts": {"new": {"plan": "pro"}}}, lambda s: list(s.accounts) == ["acme", "small", "new"]),
        (
            {"plan": "agency", "accounts": {"acme": {"portfolio": {"keywords": 5}}}},
            lambda s: (s.accounts["acme"].plan, s.accounts["acme"].portfolio.slots()) == ("agency", 40),
        ),
        ({"pools": {"ai_scan": {"capacity": 9}}}, lambda s: s.pools["ai_scan"].discipline == "shortest"),
        (
            {"pools": {"ai_scan": {"duration": "5m"}}},
            lambda s: s.pools["ai_scan"].duration.mean() == 5 * MINUTE,
        ),
        ({"pools": {"crawl": "unlimited"}}, lambda s: s.pools["crawl"].capacity == "unlimited"),
        ({"receivers": {"erp": {"script": [200]}}}, lambda s: s.receivers["erp"].domain == "blog.example"),
        ({"timeline": []}, lambda s: s.timeline == ()),
        (
            {"timeline": [{"at": "1h", "do": "add_keywords", "account": "acme", "count": 3}]},
            lambda s: s.timeline[0].at.on(0) == HOUR,
        ),
        ({"assumptions": {"window": "clock"}}, lambda s: s.policy.assumptions.window == "clock"),
        ({"policy": {"name": "mine"}}, lambda s: s.policy.name == "mine"),
        ({"policy": Policy()}, lambda s: s.policy == Policy()),
        ({"warm_up": "mser"}, lambda s: s.warm_up == "mser"),
    ],
)
def test_replace(changes: dict[str, Any], read: Any) -> None:
    scenario = parse(WHOLE)
    changed = scenario.replace(**changes)
    assert read(changed)
    assert scenario == parse(WHOLE)


def test_replacing_the_catalogue_keeps_the_rest_of_the_policy() -> None:
    scenario = parse(MINIMAL.replace("pro", "free") + "assumptions: {window: clock}\n")
    policy = scenario.replace(catalogue="illustrative-metered").policy
    assert (policy.assumptions.window, policy.catalogue.name) == ("clock", "illustrative-metered")


def test_a_client_may_use_a_key_that_is_issued_later() -> None:
    client = {"later": {"kind": "poller", "account": "acme", "operation": "slots.get", "every": "1h"}}
    scenario = parse(WHOLE).replace(clients={"later": client["later"] | {"key": "spare"}})
    assert scenario.clients["later"].key == "spare"


@pytest.mark.parametrize(("withdrawn", "fine"), [("1h", False), ("2h", False), ("3h", True)])
def test_a_key_can_be_withdrawn_only_once_it_was_issued(withdrawn: str, fine: bool) -> None:
    text = MINIMAL + (
        f"timeline:\n- {{at: {withdrawn}, do: withdraw_key, account: acme, key: late}}\n"
        "- {at: 2h, do: issue_key, account: acme, key: late}\n"
    )
    if fine:
        assert parse(text).timeline
        return
    with pytest.raises(BadInput, match=r"^s\.yaml:6: timeline\[0\]\.key: no key 'late'; "):
        parse(text)


def test_every_account_of_recorded_arrivals_has_the_key() -> None:
    text = MINIMAL.replace("{plan: pro}", "{plan: pro, keys: [main, spare]}\n  other: {plan: pro}") + (
        "clients:\n"
        "  c: {kind: arrivals, account: acme, accounts: [other], key: spare,"
        " source: {log: x.log}, mix: {account.get: 1}}\n"
    )
    with pytest.raises(BadInput, match=r"^s\.yaml:7: clients\.c\.key: no key 'spare' of account 'other'; "):
        parse(text)


@pytest.mark.parametrize(
    ("at", "way_out"),
    [
        ("30d", "for 30d; leave it out, choose an earlier moment, or a length of more than 30d"),
        ("31d12h", "for 30d; leave it out, choose an earlier moment, or a length of more than 31d12h"),
        ("-1d", "for 30d; leave it out, or choose a moment from the start on"),
    ],
)
def test_of_a_moment_outside_the_run_it_is_said_what_to_do(at: str, way_out: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(WHOLE.replace("at: 1d", f"at: {at}"))
    assert str(caught.value).partition("\n")[0].endswith(way_out)


def test_replace_without_changes_changes_nothing() -> None:
    scenario = parse(WHOLE)
    assert scenario.replace() == scenario


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plan": "free"}, "replace: accounts.acme.portfolio: takes 800 slots where plan 'free' has 50; "),
        ({"plan": "gold"}, "replace: accounts.acme.plan: no plan 'gold'; expected one of free, "),
        ({"lenght": "1d"}, "replace: lenght: no such field; did you mean 'length'?"),
        (
            {"length": "3d"},
            "replace: receivers.erp.outages[1].from: 2026-01-20T00:00:00Z is outside the run, ",
        ),
        ({"accounts": {"new": {}}}, "replace: accounts.new.plan: is missing; add it"),
        ({"assumptions": {"window": "x"}}, "replace: assumptions.window: expected one of "),
    ],
)
def test_a_wrong_replacement_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(WHOLE).replace(**changes)
    assert str(caught.value).startswith(message)


def test_a_scenario_put_together_in_python_can_be_checked() -> None:
    scenario = parse(MINIMAL)
    scenario.check()
    wrong = scenario.model_copy(update={"warm_up": 2 * DAY})
    with pytest.raises(BadInput, match="scenario: warm_up: expected less than"):
        wrong.model_copy(update={"name": ""}).check()
