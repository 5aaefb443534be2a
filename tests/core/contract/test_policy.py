"""Policies: written, read back, changed, and every mistake named."""

import pickle
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ranksim.core.clock import HOUR, MINUTE
from ranksim.core.contract.policy import CATALOGUES, Policy, shipped_catalogue
from ranksim.core.errors import BadInput


def test_default_policy() -> None:
    policy = Policy()
    assert policy.name == "default"
    assert policy.catalogue == shipped_catalogue("illustrative")
    assert policy.dump() == "name: default\ncatalogue: illustrative\n"


def test_dump_says_what_differs_and_by_which_number() -> None:
    policy = Policy().replace(
        name="what if",
        facts={"rates": {"expensive": 40}, "webhook_delays": ["1m", "2m"]},
        assumptions={"window": "gcra", "week_offset": -9 * HOUR, "replay_header": None},
        statuses={"cooldown_active": 429},
        catalogue="illustrative-metered",
    )
    lines = [" ".join(line.split()) for line in policy.dump().splitlines()]
    assert lines == [
        "name: what if",
        "facts:",
        "rates:",
        "expensive: 40 # S104",
        "webhook_delays: [1m, 2m] # S90",
        "assumptions:",
        "window: gcra # U1",
        "replay_header: # U31",
        "week_offset: -9h # U52",
        "statuses:",
        "cooldown_active: 429 # U23",
        "catalogue: illustrative-metered",
    ]
    assert Policy.parse(policy.dump()) == policy


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=12),
        "facts": st.fixed_dictionaries(
            {},
            optional={
                "page_max": st.integers(1, 10**6),
                "rate_window": st.integers(1, 10**12),
                "webhook_delays": st.lists(st.integers(0, 10**12), max_size=4).map(tuple),
            },
        ),
        "assumptions": st.fixed_dictionaries(
            {},
            optional={
                "window": st.sampled_from(["clock", "sliding_log", "gcra"]),
                "refused_calls_count": st.booleans(),
                "week_offset": st.integers(-(10**12), 10**12),
                "replay_header": st.none() | st.sampled_from(["Replayed", "true", "null", "12", "a: b #c"]),
                "inactive_statuses": st.lists(st.sampled_from(["past_due", "no", "1"])).map(tuple),
            },
        ),
        "statuses": st.fixed_dictionaries({}, optional={"created": st.integers(200, 599)}),
        "catalogue": st.sampled_from(CATALOGUES),
    },
)


@pytest.mark.slow
@given(CHANGES)
@settings(max_examples=60, deadline=None)
def test_what_is_dumped_reads_back_equal(changes: dict[str, object]) -> None:
    policy = Policy().replace(**changes)
    assert Policy.parse(policy.dump()) == policy


def test_a_changed_catalogue_reads_back_equal() -> None:
    policy = Policy().replace(
        catalogue={
            "plans": {"pro": {"slot_limit": 7, "cooldowns": {"rank_run": "2h"}}},
            "job_durations": {"crawl": {"uniform": {"low": "1m", "high": "2m"}}},
        }
    )
    pro = policy.catalogue.plans["pro"]
    assert (pro.slot_limit, pro.cooldowns["rank_run"], pro.call_cap) == (7, 2 * HOUR, 200)
    assert policy.catalogue.job_durations["crawl"].mean() == 90 * 1_000_000
    assert Policy.parse(policy.dump()) == policy


def test_replace_leaves_the_original_alone() -> None:
    policy = Policy()
    assert policy.replace(assumptions={"window": "gcra"}).assumptions.window == "gcra"
    assert policy.assumptions.window == "first_hit"
    assert policy.replace(facts={"rate_window": "2m"}).facts.rate_window == 2 * MINUTE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"assumptions": {"windw": "gcra"}},
            "replace: assumptions.windw: no such field; did you mean 'window'?",
        ),
        ({"facts": {"page_max": "x"}}, "replace: facts.page_max: expected a whole number, found 'x'"),
        (
            {"assumption": {}},
            "replace: assumption: no such field; did you mean 'assumptions'?",
        ),
        (
            {"catalogue": "best"},
            "replace: catalogue: expected one of illustrative, illustrative-metered, or a catalogue's YAML "
            "file, found 'best'",
        ),
    ],
)
def test_broken_changes(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        Policy().replace(**changes)
    assert str(caught.value) == message


def test_a_policy_travels_and_cannot_be_changed() -> None:
    policy = Policy().replace(assumptions={"window": "gcra"})
    assert pickle.loads(pickle.dumps(policy)) == policy
    with pytest.raises(ValidationError):
        policy.name = "other"


def test_catalogue_by_path_is_relative_to_the_policy(tmp_path: Path) -> None:
    text = Policy().replace(catalogue={"name": "mine"}).dump()
    catalogue = text.partition("catalogue:\n")[2]
    (tmp_path / "plans.yaml").write_text("".join(line[2:] for line in catalogue.splitlines(keepends=True)))
    (tmp_path / "policy.yaml").write_text("name: by path\ncatalogue: plans.yaml\n")
    policy = Policy.load(tmp_path / "policy.yaml")
    assert (policy.name, policy.catalogue.name) == ("by path", "mine")
    assert policy.catalogue.plans == Policy().catalogue.plans


def test_a_mistake_in_a_catalogue_file_is_placed_there(tmp_path: Path) -> None:
    (tmp_path / "plans.yaml").write_text("name: mine\nnote: x\nplan: {}\nunit_costs: {}\n")
    (tmp_path / "policy.yaml").write_text("catalogue: plans.yaml\n")
    with pytest.raises(BadInput) as caught:
        Policy.load(tmp_path / "policy.yaml")
    first, *others = str(caught.value).splitlines()
    assert first == f"{tmp_path}/plans.yaml:3: plan: no such field; did you mean 'plans'?"
    assert len(others) == 5  # all that unit_costs lacks; `plans` is not missing too
    assert all(line.startswith(f"{tmp_path}/plans.yaml:4: unit_costs.") for line in others)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        Policy.load(tmp_path / "none.yaml")
    assert str(caught.value) == (
        f"{tmp_path}/none.yaml: no such file; check the path, which is read from {Path.cwd()}"
    )
    (tmp_path / "policy.yaml").write_text("name: x\ncatalogue: none.yaml\n")
    with pytest.raises(BadInput) as caught:
        Policy.load(tmp_path / "policy.yaml")
    assert str(caught.value) == (
        f"{tmp_path}/policy.yaml:2: catalogue: no such file as '{tmp_path}/none.yaml'; "
        f"the path is relative to '{tmp_path}'"
    )
    with pytest.raises(BadInput, match="cannot be read"):
        Policy.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "policy.yaml: is empty; expected a mapping of fields"),
        ("# nothing\n", "policy.yaml: is empty; expected a mapping of fields"),
        ("- a\n", "policy.yaml:1: expected a mapping, found a list"),
        ("hello\n", "policy.yaml:1: expected a mapping, found 'hello'"),
        ("name: x\nname: y\n", "policy.yaml:2: name: written twice; remove one"),
        (
            "facts:\n  page_max: 1\n  page_max: 2\n",
            "policy.yaml:3: facts.page_max: written twice; remove one",
        ),
        ("a: b: c\n", "policy.yaml:1: not valid YAML: mapping values are not allowed here"),
        (
            "name: x\nfacts: [1,\n",
            "policy.yaml:3: not valid YAML: while parsing a flow node expected the node content, but found "
            "'<stream end>'",
        ),
        (
            "name: x\n---\nname: y\n",
            "policy.yaml:2: not valid YAML: expected a single document in the stream but found another "
            "document",
        ),
        ("? [a]\n: 1\n", "policy.yaml:1: a field name is text, found a list or mapping"),
        ("facts: &f\n  rates: *f\n", "policy.yaml:1: facts.rates: contains itself; remove the alias"),
        ("[" * 1000, "policy.yaml: nested too deeply; expected a few levels"),
        ("name: 3\n", "policy.yaml:1: name: expected text, found 3"),
        ("facts:\n- a\n", "policy.yaml:1: facts: expected a mapping, found a list"),
        ("facts:\n", "policy.yaml:1: facts: expected a mapping, found nothing"),
        ("facts:\n  page_mx: 1\n", "policy.yaml:2: facts.page_mx: no such field; did you mean 'page_max'?"),
        (
            "colour: red\n",
            "policy.yaml:1: colour: no such field; expected one of name, facts, assumptions, statuses, "
            "catalogue, windows",
        ),
        (
            "facts:\n  rates: {raed: 1}\n",
            "policy.yaml:2: facts.rates.raed: no such field; did you mean 'read'?",
        ),
        ("facts:\n  page_max: '3'\n", "policy.yaml:2: facts.page_max: expected a whole number, found '3'"),
        ("facts:\n  page_max: 3.0\n", "policy.yaml:2: facts.page_max: expected a whole number, found 3.0"),
        ("facts:\n  page_max: true\n", "policy.yaml:2: facts.page_max: expected a whole number, found true"),
        ("facts:\n  page_max: 0\n", "policy.yaml:2: facts.page_max: expected at least 1, found 0"),
        (
            "facts:\n  rate_window: 60\n",
            "policy.yaml:2: facts.rate_window: write a duration such as '1h30m' or '250ms', found 60",
        ),
        ("facts:\n  rate_window: 0\n", "policy.yaml:2: facts.rate_window: expected more than 0, found 0"),
        (
            "facts:\n  webhook_delays:\n  - 1m\n  - 5\n",
            "policy.yaml:4: facts.webhook_delays[1]: write a duration such as '1h30m' or '250ms', found 5",
        ),
        (
            "facts:\n  webhook_delays: 1m\n",
            "policy.yaml:2: facts.webhook_delays: expected a list, found '1m'",
        ),
        (
            "name: x\n\nassumptions:\n  window: foo\n",
            "policy.yaml:4: assumptions.window: expected one of first_hit, clock, sliding_log, "
            "sliding_counter, gcra, found 'foo'",
        ),
        (
            "assumptions:\n  cap: 3\n  refused_calls_count: 'yes'\n  window: foo\n",
            "policy.yaml:2: assumptions.cap: expected one of truncate, refuse, found 3\n"
            "policy.yaml:3: assumptions.refused_calls_count: expected true or false, found 'yes'\n"
            "policy.yaml:4: assumptions.window: expected one of first_hit, clock, sliding_log, "
            "sliding_counter, gcra, found 'foo'",
        ),
        (
            "assumptions:\n  refused_calls_count: yes\n",
            "policy.yaml:2: assumptions.refused_calls_count: expected true or false, found 'yes'",
        ),
        (
            "assumptions:\n  retry_jitter_percent: 51\n",
            "policy.yaml:2: assumptions.retry_jitter_percent: expected at most 50, found 51",
        ),
        ("statuses:\n  created: 99\n", "policy.yaml:2: statuses.created: expected at least 200, found 99"),
        (
            "catalogue: best\n",
            "policy.yaml:1: catalogue: expected one of illustrative, illustrative-metered, or a catalogue's "
            "YAML file, found 'best'",
        ),
        (
            "name: x\ncatalogue:\n  name: y\n",
            "policy.yaml:2: catalogue.note: is missing; add it\n"
            "policy.yaml:2: catalogue.plans: is missing; add it\n"
            "policy.yaml:2: catalogue.unit_costs: is missing; add it",
        ),
        (
            "name: x\ncatalogue: {plans: {agency: {cost_ceiling: 9 USD}}}\n",
            "policy.yaml:2: catalogue: a catalogue that extends none is written whole; add extends: "
            "illustrative to change what that sells, or set one value as "
            "--set policy.catalogue.plans.PLAN.FIELD=VALUE",
        ),
        ("catalogue: [a]\n", "policy.yaml:1: catalogue: expected a mapping, found a list"),
    ],
)
def test_broken_policies(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        Policy.parse(text, "policy.yaml")
    assert str(caught.value) == message


# Catalogues that extend another

LESS = """\
extends: illustrative
name: less
plans:
  free: null
  pro: {price: 149 USD, quotas: {keyword_brief_refreshes: {limit: 25}}, capabilities: [rank_tracking]}
unit_costs: {keyword_brief: 0.05 USD}
job_durations: {rank_run: {uniform: {low: 1m, high: 9m}}}
"""


def test_what_a_catalogue_extends_is_there_but_for_what_differs() -> None:
    shipped = shipped_catalogue("illustrative")
    less = Policy.parse("catalogue:\n" + indent(LESS, "  ")).catalogue
    pro = {
        "price": "149 USD",
        "quotas": {"keyword_brief_refreshes": {"limit": 25}},
        "capabilities": ("rank_tracking",),
    }
    same = {"name": "less", "unit_costs": {"keyword_brief": "0.05 USD"}, "plans": {"pro": pro}}
    changed = Policy().replace(catalogue=same).catalogue
    assert less.plans == {name: plan for name, plan in changed.plans.items() if name != "free"}
    assert (less.name, less.note, less.unit_costs) == ("less", shipped.note, changed.unit_costs)
    assert less.job_durations == shipped.job_durations | {"rank_run": less.job_durations["rank_run"]}
    assert less.job_durations["rank_run"].durations == (MINUTE, 9 * MINUTE)


def test_files_extend_files(tmp_path: Path) -> None:
    (tmp_path / "sold").mkdir()
    (tmp_path / "sold" / "less.yaml").write_text(LESS)
    (tmp_path / "sold" / "least.yaml").write_text("extends: less.yaml\nplans: {agency: null}\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text("catalogue: sold/least.yaml\n")
    least = Policy.load(policy).catalogue
    assert (least.name, list(least.plans)) == ("least.yaml", ["starter", "pro"])
    assert Policy.parse(Policy.load(policy).dump()).catalogue == least
    (tmp_path / "sold" / "less.yaml").write_text("extends: least.yaml\n")
    with pytest.raises(BadInput, match=r"less.yaml:1: extends: least.yaml extends itself; name another"):
        Policy.load(policy)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: ilustrative", "p:1: catalogue.extends: expected one of illustrative"),
        ("extends: illustrative, plans: {prp: {slot_limit: 1}}", "p:1: catalogue.plans.prp: illustrative "
         "has no plan 'prp', and a new one is written whole; did you mean 'pro'?"),
        ("extends: illustrative, plans: {prp: {price: 9 USD}}", "new one is written whole; did you mean"),
        ("extends: illustrative, plans: {mine: {price: 9 USD}}", "written whole; add capabilities, quotas"),
        ("extends: illustrative, plans: {pro: {slots: 1}}", "p:1: catalogue.plans.pro.slots: no such field"),
        ("extends: illustrative, plans: {pro: {price: 9}}", "p:1: catalogue.plans.pro.price: write an"),
        ("extends: illustrative, plans: 3", "p:1: catalogue.plans: expected a mapping, found 3"),
        ("extends: illustrative, add_ons: {pack: {}}", "catalogue.add_ons.pack: illustrative has no"),
        ("extends: null", "catalogue.extends: expected a mapping, found nothing"),
    ],
)  # fmt: skip
def test_what_cannot_be_extended_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        Policy.parse(f"catalogue: {{{text}}}\n", "p")
    assert message in str(refused.value)
