"""Recordings called again under other plans: outcomes, ids, invoices, and what cannot be replayed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from exchanges import NOON, Line, call, recorded
from typer.testing import CliRunner

import ranksim as rs
from ranksim import cli
from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec
from ranksim.core.clock import DAY, SECOND, iso
from ranksim.core.contract.policy import Policy, shipped_catalogue
from ranksim.core.errors import BadInput
from ranksim.core.trace_writer import TraceWriter
from ranksim.planner.pricing import plots
from ranksim.planner.pricing.back_test import BackTest, back_test, read_accounts
from ranksim.planner.pricing.cli import sides_of
from ranksim.planner.pricing.column_back_test import back_test_columns
from ranksim.planner.pricing.columns import save_columns
from ranksim.planner.pricing.importing import columns_of
from ranksim.planner.pricing.recorded_sides import Side, unlike_note, unlike_rows
from ranksim.planner.pricing.recording import read_recording, read_rules
from ranksim.planner.pricing.replay import ReplayedService, specs_of
from ranksim.report.figure import new_figure

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "pricing"
PLANS = shipped_catalogue("illustrative")


def brief(number: int, **fields: Any) -> Line:
    body = {"domain_id": "dom_7", "keywords": [f"word {number}"]}
    return call(number, "POST", "/v1/keyword-briefs", body, **{"status": 201} | fields)


def job(number: int, kind: str, **fields: Any) -> Line:
    body = {"kind": kind, "domain_id": "dom_7"}
    answer = {"data": {"id": f"job_{number}"}}
    return call(number, "POST", "/v1/jobs", body, **{"status": 202, "response": json.dumps(answer)} | fields)


def on(*plans: str) -> list[Side]:
    return [Side(PLANS, plan) for plan in plans]


def codes(tested: BackTest, side: str) -> list[str]:
    return [row[f"{side}_code"] for row in tested.calls]


def test_answers_nested_beyond_all_reason_tell_nothing(tmp_path: Path) -> None:
    deep = '{"data": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert recorded(tmp_path, brief(0, response=deep)).calls[0].made == ()


def test_quotas_bind_call_by_call(tmp_path: Path) -> None:
    tested = back_test(recorded(tmp_path, *(brief(n) for n in range(12))), on("starter", "pro"))
    assert codes(tested, "a") == [""] * 10 + ["quota_exhausted"] * 2
    assert codes(tested, "b") == [""] * 12
    assert [row["change"] for row in tested.calls] == [""] * 10 + ["newly admitted"] * 2
    assert (tested.total("revenue", "A"), tested.total("cost", "A")) == (29_000_000, 10 * 30_000)
    assert (tested.total("revenue", "B"), tested.total("cost", "B")) == (129_000_000, 12 * 30_000)


def test_one_side_is_compared_with_the_recording(tmp_path: Path) -> None:
    lines = [brief(n) for n in range(11)] + [brief(11, status=402, response='{"code": "quota_exhausted"}')]
    tested = back_test(recorded(tmp_path, *lines), on("starter"))
    assert [row["change"] for row in tested.calls] == [""] * 10 + ["newly refused", ""]
    assert tested.changes == [
        {
            "change": "newly refused", "operation": "keyword_briefs.create", "was": "",
            "becomes": "quota_exhausted", "calls": 1,
        }
    ]  # fmt: skip
    assert tested.refusals == [{"code": "quota_exhausted", "recorded": 1, "a": 2}]


@pytest.mark.parametrize(
    ("status", "code"),
    [(402, "reason not recorded"), (429, "rate_limited"), (404, "404"), (500, "500")],
)
def test_a_refusal_without_a_code_is_called_alike_by_both_back_tests(
    tmp_path: Path, status: int, code: str
) -> None:
    recording = recorded(tmp_path, *(brief(n) for n in range(10)), brief(10, status=status))
    tested = back_test(recording, on("starter"))
    assert codes(tested, "recorded") == [""] * 10 + [code]
    assert tested.calls[-1]["change"] == ("refused otherwise" if status == 429 else "")
    ours = {row["code"] for row in tested.refusals if row["recorded"]}
    columns = back_test_columns(columns_of(recording), on("starter"), compiled=False)
    assert ours - {"404", "500"} == {row["code"] for row in columns.refusals if row["recorded"]}


def test_a_side_against_itself_changes_nothing(tmp_path: Path) -> None:
    tested = back_test(recorded(tmp_path, *(brief(n) for n in range(12))), on("starter", "starter"))
    assert tested.changes == []
    a, b = ([{**row, "side": ""} for row in tested.invoices if row["side"] == side] for side in "AB")
    assert a == b


def test_a_rank_run_costs_what_its_domain_tracks(tmp_path: Path) -> None:
    for keywords, cost in ((50, 50 * 400), (80, 80 * 400), (0, 0)):
        tested = back_test(recorded(tmp_path, job(0, "rank_run")), on("pro"), keywords=keywords)
        assert tested.total("cost", "A") == cost


def test_accounts_say_what_they_owned(tmp_path: Path) -> None:
    owned = PortfolioSpec(domains=1, keywords=30)
    spec = AccountSpec(plan="pro", add_ons={"brief_pack": 2}, portfolio=owned)
    tested = back_test(recorded(tmp_path, job(0, "rank_run")), [Side(PLANS)], accounts={"acme": spec})
    (invoice,) = tested.invoices
    assert (invoice["plan"], invoice["price"], invoice["add_ons"]) == ("pro", 129_000_000, 30_000_000)
    assert invoice["revenue"] == 159_000_000
    assert (invoice["cost"], invoice["margin"]) == (30 * 400, 159_000_000 - 30 * 400)


def test_add_ons_extend_the_quota(tmp_path: Path) -> None:
    spec = AccountSpec(plan="starter", add_ons={"brief_pack": 1}, portfolio=PortfolioSpec())
    lines = [brief(n) for n in range(12)]
    tested = back_test(recorded(tmp_path, *lines), [Side(PLANS)], accounts={"acme": spec})
    assert codes(tested, "a") == [""] * 12


def test_a_smaller_plan_keeps_what_there_is(tmp_path: Path) -> None:
    owned = {"acme": AccountSpec(plan="pro", portfolio=PortfolioSpec(keywords=600))}
    more = call(0, "POST", "/v1/keywords", {"list_id": "list_1", "keywords": ["one more"]}, status=201)
    run = job(10, "rank_run")
    tested = back_test(recorded(tmp_path, more, run), on("pro", "starter"), accounts=owned)
    assert codes(tested, "b") == ["slot_limit_exceeded", ""]
    # 600 keywords are tracked under starter's 500 slots, and the one more under pro alone.
    assert [tested.calls[1][f"{side}_cost"] for side in "ab"] == [601 * 400, 600 * 400]


def test_ids_follow_what_was_made(tmp_path: Path) -> None:
    made = {"data": {"id": "dom_new"}}
    lines = [
        call(0, "POST", "/v1/domains", {"host": "new.example"}, status=201, response=json.dumps(made)),
        call(1, "GET", "/v1/domains/dom_new"),
        call(2, "GET", "/v1/domains/dom_old"),
        call(3, "DELETE", "/v1/domains/dom_new", status=204),
        call(4, "GET", "/v1/domains/dom_new", status=404),
    ]
    tested = back_test(recorded(tmp_path, *lines), on("pro"))
    assert [row["a"] for row in tested.calls] == [row["recorded"] for row in tested.calls]


def test_what_was_not_made_is_not_found(tmp_path: Path) -> None:
    look = call(10, "GET", "/v1/jobs/site_optimization/job_0")
    tested = back_test(recorded(tmp_path, job(0, "site_optimization"), look), on("starter", "pro"))
    assert codes(tested, "a") == ["entitlement_required", "not_found"]
    assert codes(tested, "b") == ["", ""]


def test_ids_from_before_are_matched_in_their_order(tmp_path: Path) -> None:
    recording = recorded(tmp_path, call(0, "GET", "/v1/domains/dom_2"), call(1, "GET", "/v1/domains/dom_1"))
    spec = specs_of(recording, {}, 10)["acme"].model_copy(update={"plan": "pro"})
    ids = ReplayedService(recording, {"acme": spec}, Policy(), 1).ids["acme"]
    assert ids.reference("dom_1") < ids.reference("dom_2") < "unmade"


def test_an_id_that_was_not_made_is_nobody_elses(tmp_path: Path) -> None:
    owned = {"acme": AccountSpec(plan="starter", portfolio=PortfolioSpec(keywords=500))}
    before = ReplayedService(recorded(tmp_path, brief(0)), owned, Policy(), 1)
    (account,) = before.service.state.accounts.values()
    taken = account.keywords[0]
    made = {"data": {"created": [{"id": taken, "keyword": "one more"}]}}
    body = {"list_id": "list_1", "keywords": ["one more"]}
    lines = [
        call(0, "POST", "/v1/keywords", body, status=201, response=json.dumps(made)),
        call(1, "GET", f"/v1/keywords/{taken}"),
    ]
    tested = back_test(recorded(tmp_path, *lines), on("starter"), accounts=owned)
    assert codes(tested, "a") == ["slot_limit_exceeded", "not_found"]


def test_what_was_owned_before_uses_no_allowance(tmp_path: Path) -> None:
    metered = Side(shipped_catalogue("illustrative-metered"), "team")  # 2,000 keyword changes a month
    owned = {"acme": AccountSpec(plan="team", portfolio=PortfolioSpec(keywords=2000))}
    more = call(0, "POST", "/v1/keywords", {"list_id": "list_1", "keywords": ["one more"]}, status=201)
    assert codes(back_test(recorded(tmp_path, more), [metered], accounts=owned), "a") == [""]


def test_keywords_follow_their_words(tmp_path: Path) -> None:
    made = {"data": {"created": [{"id": "kw_b", "keyword": "b"}, {"id": "kw_a", "keyword": "a"}]}}
    body = {"list_id": "list_1", "keywords": ["a", "b"]}
    lines = [
        call(0, "POST", "/v1/keywords", body, status=201, response=json.dumps(made)),
        call(1, "DELETE", "/v1/keywords/kw_b", status=204),
        call(2, "GET", "/v1/keywords/kw_b", status=404),
        call(3, "GET", "/v1/keywords/kw_a"),
    ]
    assert [row["a"] for row in back_test(recorded(tmp_path, *lines), on("pro")).calls] == [
        201,
        204,
        404,
        200,
    ]


def test_cursors_follow_pages(tmp_path: Path) -> None:
    owned = {"acme": AccountSpec(plan="pro", portfolio=PortfolioSpec(domains=3))}
    page = {"data": [], "has_more": True, "next_cursor": "theirs"}
    lines = [
        call(0, "GET", "/v1/domains", query={"limit": "2"}, response=json.dumps(page)),
        call(1, "GET", "/v1/domains", query={"limit": "2", "cursor": "theirs"}),
        call(2, "GET", "/v1/domains", query={"limit": "2", "cursor": "unheard of"}, status=400),
    ]
    tested = back_test(recorded(tmp_path, *lines), [Side(PLANS)], accounts=owned)
    assert codes(tested, "a") == ["", "", "invalid_cursor"]


def test_an_idempotency_key_is_kept(tmp_path: Path) -> None:
    header = {"request_headers": {"idempotency-key": "k1"}}
    again = brief(0) | header, brief(0) | header | {"id": "again"}
    tested = back_test(recorded(tmp_path, *again), on("pro"))
    assert [row["a_cost"] for row in tested.calls] == [30_000, 0]


def test_calls_are_made_in_order_of_time(tmp_path: Path) -> None:
    tested = back_test(recorded(tmp_path, brief(5), brief(1), brief(3)), on("pro"))
    assert [row["id"] for row in tested.calls] == ["x1", "x3", "x5"]


def test_an_invoice_for_each_billing_month(tmp_path: Path) -> None:
    later = brief(0) | {"id": "later", "sent": NOON + 35 * DAY, "received": NOON + 35 * DAY}
    tested = back_test(recorded(tmp_path, brief(0), brief(1), later), on("pro"))
    assert [(row["month"], row["price"], row["cost"]) for row in tested.invoices] == [
        (1, 129_000_000, 2 * 30_000),
        (2, 129_000_000, 30_000),
    ]
    (invoices,) = (view for view in tested.views() if view.table == "invoices")
    assert [row[3:5] for row in invoices.rows] == [
        (str(row["month"]), iso(row["begins"])[:10]) for row in tested.invoices
    ]


def test_whose_billing_months_begin_with_the_recording_is_said(tmp_path: Path) -> None:
    calls = recorded(tmp_path, *(brief(n) for n in range(3)))
    [name] = calls.accounts
    tested = back_test(calls, on("starter"))
    assert (
        f"Billing months of {name} are counted from when the recording begins, 2026-09-02T12:00:00Z, "
        "since nobody says when they begin: accounts that are described may have an anchor."
    ) in tested.notes
    spec = AccountSpec(plan="starter", anchor=calls.calls[0].at - DAY, portfolio=PortfolioSpec(domains=1))
    for anchored in (
        back_test(calls, on("starter"), accounts={name: spec}),
        back_test(calls, on("starter"), policy=Policy().replace(assumptions={"month": "calendar"})),
    ):
        assert not any("Billing months" in note for note in anchored.notes)


def test_a_failed_job_costs_nothing(tmp_path: Path) -> None:
    rates = PLANS.job_failure_rates
    failing = PLANS.model_copy(update={"job_failure_rates": {**rates, "rank_run": 1000}})
    # Of two catalogues the one that left its rates out would have the other's.
    stating = PLANS.model_copy(update={"job_failure_rates": rates})
    tested = back_test(recorded(tmp_path, job(0, "rank_run")), [Side(stating, "pro"), Side(failing, "pro")])
    assert (tested.total("cost", "A"), tested.total("cost", "B")) == (50 * 400, 0)


def test_what_cannot_be_replayed_is_counted(tmp_path: Path) -> None:
    keys = {"main": {"account": "acme"}, "sandbox": {"account": "acme", "environment": "sandbox"}}
    lines = [
        brief(0),
        call(1, "POST", "/v1/keywords"),
        call(9, "POST", "/v1/keywords", body='{"keywords": ["sho'),
        call(2, "GET", "/v1/unheard-of"),
        call(3, "POST", "/graphql", {"query": "{ domains { data { id } } }"}, surface="graphql"),
        call(4, "POST", "/graphql", surface="graphql", operations=["domains.list", "slots.get"]),
        call(5, "GET", "/v1/webhooks/whk_1"),
        call(6, "GET", "/v1/domains", api_key="unknown"),
        call(7, "GET", "/v1/domains", api_key=None),
        call(8, "GET", "/v1/domains", api_key="sandbox"),
    ]
    tested = back_test(recorded(tmp_path, *lines, keys=keys), on("pro"))
    assert dict(tested.left_out) == {
        "without a body, and no rule of --map gives one": 1,
        "with a body that is no JSON object, and no rule of --map gives one": 1,
        "of an unknown operation": 1,
        "by a GraphQL document": 2,
        "without a key that the header names": 2,
        "sent where their key does not belong": 1,
        "about webhooks from before the recording": 1,
    }
    assert len(tested.calls) == 1
    (note,) = (
        note for note in tested.notes if note.startswith("Not replayed: 1 without a body, and no rule")
    )
    assert "gives one; 1 of an unknown operation; 2 by a GraphQL document" in note
    place = f"{tmp_path}/trace.jsonl:5"
    assert f"The first of an unknown operation is {place}: 'GET /v1/unheard-of', and none is near." in (
        tested.notes
    )


def test_a_simulated_recording_is_reproduced(tmp_path: Path) -> None:
    path = tmp_path / "world.jsonl"
    scenario = rs.Scenario.load(ROOT / "scenarios" / "two-keys-one-quota.yaml")
    with TraceWriter(path, started=scenario.start) as trace:
        world = rs.World(scenario, trace=trace)
        trace.watch(world.service.state)
        world.run()
    accounts = dict(scenario.accounts)
    tested = back_test(read_recording(path), [Side(scenario.policy.catalogue)], accounts=accounts,
                       policy=scenario.policy)  # fmt: skip
    assert len(tested.calls) > 100
    assert any(row["recorded"] >= 400 for row in tested.calls)
    same = [row["a_code"] == row["recorded_code"] for row in tested.calls]
    assert sum(same) / len(same) == 1


# Access logs


def test_an_access_log_by_rules() -> None:
    recording = read_recording(EXAMPLES / "access.log", read_rules(EXAMPLES / "rules.yaml"))
    tested = back_test(recording, on("starter", "free"))
    assert [(row["account"], row["a_code"], row["b_code"]) for row in tested.calls] == [
        ("192.0.2.1", "", ""),
        ("192.0.2.1", "", "entitlement_required"),
        ("192.0.2.2", "", "entitlement_required"),
        ("192.0.2.2", "cooldown_active", "entitlement_required"),
        ("192.0.2.1", "cooldown_active", "entitlement_required"),
    ]
    assert sum(tested.left_out.values()) == 2
    assert {row["account"]: row["price"] for row in tested.invoices if row["side"] == "A"} == {
        "192.0.2.1": 29_000_000,
        "192.0.2.2": 29_000_000,
    }


def test_a_rule_about_one_thing_takes_what_was_made(tmp_path: Path) -> None:
    log, rules = tmp_path / "access.log", tmp_path / "rules.yaml"
    line = '192.0.2.1 - - [02/Sep/2026:12:00:0{} +0000] "{} /l HTTP/1.1" 200 1\n'
    log.write_text(line.format(0, "PUT") + line.format(1, "DELETE"), encoding="utf-8")
    rules.write_text(
        "rules: [{method: PUT, operation: labels.create}, {method: DELETE, operation: labels.delete}]\n",
        encoding="utf-8",
    )
    tested = back_test(read_recording(log, read_rules(rules)), on("pro"))
    assert [row["a"] for row in tested.calls] == [201, 204]


# Sides and errors


def test_a_move_with_one_catalogue_makes_b() -> None:
    a, b = sides_of([], ["illustrative"], {"pro": "agency"}, True)
    assert (a.text, b.text) == ("own plans of illustrative", "own plans of illustrative, pro → agency")


def test_a_plan_that_the_catalogue_of_a_does_not_sell_is_moved_in_a() -> None:
    (a,) = sides_of([], ["illustrative"], {"basic": "starter"}, True)
    assert a.moves == {"basic": "starter"}
    a, b = sides_of([], ["illustrative"], {"basic": "starter", "pro": "agency"}, True)
    assert (a.moves, b.moves) == ({"basic": "starter"}, {"basic": "starter", "pro": "agency"})
    a, b = sides_of([], ["illustrative"] * 2, {"basic": "starter"}, True)
    assert a.moves == b.moves == {"basic": "starter"}


def test_customers_are_moved(tmp_path: Path) -> None:
    only_pro = PLANS.model_copy(update={"name": "new", "plans": {"pro": PLANS.plans["pro"]}})
    owned = {"acme": AccountSpec(plan="starter", portfolio=PortfolioSpec())}
    lines = recorded(tmp_path, *(brief(n) for n in range(12)))
    tested = back_test(lines, [Side(PLANS), Side(only_pro, moves={"starter": "pro"})], accounts=owned)
    assert [row["price"] for row in tested.invoices] == [29_000_000, 129_000_000]
    with pytest.raises(BadInput, match=r"move: no customer is on 'startr'; expected one of .*starter"):
        back_test(lines, [Side(PLANS), Side(PLANS, moves={"startr": "pro"})], accounts=owned)
    with pytest.raises(BadInput, match=r"new has no plan 'starter'.*--move starter=PLAN"):
        back_test(lines, [Side(PLANS), Side(only_pro)], accounts=owned)


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ([], "one side or two"),
        (["starter"], "sides, such as Side('illustrative', plan='pro'), found 'starter'"),
        (on("a", "b", "c"), "one side or two"),
        (on("gold"), "illustrative has no plan 'gold'; expected one of free, starter, pro, agency"),
        ([Side(PLANS)], "nobody says which plan 'acme' is on; give --plan"),
        ([Side(PLANS, "pro", {"pro": "gold"})], "no plan 'gold'"),
    ],
)
def test_wrong_sides(sides: list[Side], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        back_test(recorded(tmp_path, brief(0)), sides)
    assert message in str(error.value)


def test_a_recording_without_a_call_that_can_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no call of it can be replayed \(1 of an unknown operation"):
        recorded(tmp_path, call(0, "GET", "/elsewhere"))
    (tmp_path / "empty").touch()
    with pytest.raises(BadInput, match="it holds none"):
        read_recording(tmp_path / "empty")
    (tmp_path / "letter").write_text("Dear all,\n")
    with pytest.raises(BadInput, match="letter:1: expected a line of an access log"):
        read_recording(tmp_path / "letter")


@pytest.mark.parametrize(
    ("called", "near"),
    [
        ("POST /v1/jbos", "the nearest is POST /v1/jobs (jobs.create)"),
        ("PUT /v1/domains/dom_7", "the nearest is PATCH /v1/domains/{id} (domains.update)"),
        ("GET /api/domains", "the nearest is GET /v1/domains (domains.list)"),
        ("GET /login", "and none is near"),
    ],
)
def test_an_unknown_operation_is_named_with_its_line_and_the_nearest(
    called: str, near: str, tmp_path: Path
) -> None:
    method, url = called.split()
    log, table = tmp_path / "access.log", tmp_path / "calls.csv"
    line = '192.0.2.1 - - [02/Sep/2026:12:00:00 +0000] "{} HTTP/1.1" 200 1\n'
    log.write_text(line.format("GET /v1/domains") + line.format(called))
    head = "time,account,method,path\n2026-09-02,acme,GET,/v1/domains\n"
    table.write_text(f"{head}2026-09-02,acme,{method},{url}\n")
    trace = recorded(tmp_path, brief(0), call(1, method, url))
    for recording, place in ((read_recording(log), f"{log}:2"), (read_recording(table), f"{table}:3"),
                             (trace, f"{trace.where}:3")):  # fmt: skip
        (note,) = (each for each in back_test(recording, on("pro")).notes if each.startswith("The first of"))
        assert note.startswith(f"The first of an unknown operation is {place}: '{called}'"), note
        assert note.rstrip(".").endswith(near)


def test_accounts_are_read_from_a_scenario(tmp_path: Path) -> None:
    accounts = read_accounts(ROOT / "scenarios" / "quickstart.yaml")
    assert {name: spec.plan for name, spec in accounts.items()} == {"acme": "pro"}
    (tmp_path / "wrong.yaml").write_text("accounts: {acme: {plan: pro, domains: 3}}\n")
    with pytest.raises(BadInput, match=r"wrong.yaml:1: accounts.acme.domains"):
        read_accounts(tmp_path / "wrong.yaml")
    (tmp_path / "none.yaml").write_text("plan: pro\n")
    with pytest.raises(
        BadInput, match=r"none.yaml: the key accounts is missing; .*accounts: {acme: {plan: pro,"
    ):
        read_accounts(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("scan", "sentence"),
    [
        ("{geographies: [us]}", "geographies[0]: expected a country code such as DE, found 'us'"),
        (
            "{geographies: [{country: US, language: English}]}",
            "geographies[0].language: expected a language code such as de, found 'English'",
        ),
        ("{engine_devices: [google]}", "engine_devices[0]: expected a pairing such as google/desktop, found"),
    ],
)
def test_what_no_scan_can_have_is_refused_where_it_stands(tmp_path: Path, scan: str, sentence: str) -> None:
    path = tmp_path / "accounts.yaml"
    path.write_text(f"accounts:\n  acme:\n    plan: pro\n    portfolio:\n      scans: [{scan}]\n")
    with pytest.raises(BadInput) as error:
        read_accounts(path)
    assert str(error.value).startswith(f"{path}:5: accounts.acme.portfolio.scans[0].{sentence}")


def test_a_plan_that_is_not_on_sale_is_refused_where_it_stands(tmp_path: Path) -> None:
    (path := tmp_path / "accounts.yaml").write_text(
        "accounts:\n  acme:\n    plan: starte\n    add_ons: {brief_pak: 1}\n"
    )
    recording = read_recording(EXAMPLES / "trace.jsonl")
    near = "expected one of free, starter, pro, agency, or say where its customers go with --move "
    near += "starte=PLAN; did you mean 'starter'?"
    with pytest.raises(BadInput) as error:
        back_test(recording, on(""), accounts=path)
    assert str(error.value) == f"{path}:3: accounts.acme.plan: illustrative has no plan 'starte'; {near}"
    with pytest.raises(BadInput, match=r"yaml:4: accounts\.acme\.add_ons: illustrative has no add-on"):
        back_test(recording, on("pro"), accounts=path)
    described = read_accounts(path)
    with pytest.raises(BadInput, match=r"^accounts\.acme\.plan: illustrative has no plan"):
        back_test(recording, on(""), accounts=described)
    columns = columns_of(recording, accounts=described)
    with pytest.raises(BadInput) as error:
        back_test_columns(columns, on(""), compiled=False)
    assert str(error.value).startswith(f"{columns.where}: accounts.acme.plan: illustrative has no plan")


def test_a_day_that_is_not_in_the_calendar_is_refused_where_it_stands(tmp_path: Path) -> None:
    (log := tmp_path / "access.log").write_text(
        'host - - [30/Feb/2026:10:05:03 +0000] "GET / HTTP/1.1" 200 2\n'
    )
    (table := tmp_path / "calls.csv").write_text("time,account,method,path\n2026-02-30,acme,GET,/v1/jobs\n")
    for path, where in ((log, f"{log}:1: "), (table, f"{table}:2: time: ")):
        with pytest.raises(BadInput, match=r"'2026-02-30.*' names a day that does not exist") as error:
            read_recording(path)
        assert str(error.value).startswith(where)


def test_calls_as_csv(tmp_path: Path) -> None:
    tested = back_test(recorded(tmp_path, *(brief(n) for n in range(12))), on("starter", "pro"))
    tested.save_csv(tmp_path / "calls.csv")
    with (tmp_path / "calls.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert (rows[11]["a"], rows[11]["a_code"], rows[11]["b_cost_uusd"]) == ("402", "quota_exhausted", "30000")


def test_the_title_of_refusals_has_room_beside_long_names() -> None:
    rows = [
        {"code": code, "recorded": 1_384, "a": 4_146, "b": 9_210}
        for code in ("reason not recorded", "quota_exhausted")
    ]
    figure = new_figure()
    ax = plots.outcomes(rows, figure.subplots())
    figure.draw_without_rendering()
    assert ax.title.get_window_extent().x1 <= figure.bbox.x1


def test_the_plot_shows_refusals(tmp_path: Path) -> None:
    tested = back_test(recorded(tmp_path, *(brief(n) for n in range(12))), on("starter", "pro"))
    ax = tested.plot("outcomes", new_figure().subplots())
    assert [bar.get_width() for bar in ax.patches] == [0, 2, 0]
    assert tested.title.startswith("Recorded calls under A: starter of ")
    assert " and B: pro of " in tested.title
    assert all(tick == int(tick) for tick in ax.get_xticks())
    calm = back_test(recorded(tmp_path, brief(0)), on("pro"))
    assert (calm.plots, calm.notes[0].partition("No call is ")[2]) == (
        ("margins",),
        "refused, as recorded or replayed.",
    )


def test_frames_have_datetimes_and_dollars(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    tested = back_test(recorded(tmp_path, *(brief(n) for n in range(3))), on("starter", "pro"))
    calls = tested.frame()
    assert str(calls["at"].dtype.tz) == "UTC"
    assert calls["a_cost_usd"].tolist() == [0.03] * 3
    assert tested.frame("invoices")["price_usd"].tolist() == [29, 129]
    raw = tested.frame("invoices", integers=True)
    assert raw["price_uusd"].tolist() == [29_000_000, 129_000_000]
    assert (tested.frame("invoices")["ends"] > calls["at"][0]).all()


def assumed(answer: BackTest) -> list[str]:
    return [note for note in answer.notes if "keywords" in note or "drawn" in note]


def test_what_the_cost_of_jobs_rests_on_is_said_where_there_are_such_jobs(tmp_path: Path) -> None:
    assert assumed(back_test(recorded(tmp_path, brief(0)), on("pro"))) == []
    jobs = recorded(tmp_path, job(0, "rank_run"), job(1, "crawl"))
    cost = "Of these jobs the recording does not say how much they want, so that their cost is the model's: "
    ranks = "1 rank run, for which 70 keywords are assumed on each of 1 domain (give --keywords or --accounts"
    drawn = ", whose pages are drawn for each domain (--seed draws others); units of their calls would tell."
    pages = f"{cost}1 crawl{drawn}"
    assert assumed(back_test(jobs, on("pro"), keywords=70)) == [f"{cost}{ranks}); 1 crawl{drawn}"]
    described = dict.fromkeys(jobs.accounts, AccountSpec(plan="pro", portfolio=PortfolioSpec(keywords=3)))
    assert assumed(back_test(jobs, on("pro"), accounts=described)) == [pages]
    optimized = [f"{cost}1 site optimization{drawn}"]
    assert assumed(back_test(recorded(tmp_path, job(0, "site_optimization")), on("pro"))) == optimized
    of_columns = back_test_columns(columns_of(jobs, keywords=70), on("pro"), compiled=False).notes
    assert f"{cost}{ranks} of ranksim price import); 1 crawl{drawn}" in of_columns


def test_jobs_whose_ends_and_ids_are_not_recorded_are_told_as_such(tmp_path: Path) -> None:
    dry = job(2, "crawl")
    dry["body"] = json.dumps(json.loads(dry["body"]) | {"dry_run": True})
    reply = json.dumps({"data": {"id": "job_9", "created_at": iso(NOON + 3 * SECOND)}})
    ended = json.dumps({"data": {"id": "job_9", "status": "done", "finished_at": iso(NOON + 9 * SECOND)}})
    recording = recorded(
        tmp_path, job(0, "crawl", response=""), job(1, "rank_run"), dry, job(3, "ai_scan", response=reply),
        call(60, "GET", "/v1/jobs/ai_scan/job_9", response=ended),
        call(61, "GET", "/v1/jobs/crawl/job_unread"), call(62, "GET", "/v1/webhooks/whk_1"),
    )  # fmt: skip
    tested = back_test(recording, on("pro"))
    columns = columns_of(recording)
    assert columns.left_out == tested.left_out == {
        "about jobs whose ids are unknown, as replies that tell them are not recorded": 1,
        "about webhooks from before the recording": 1,
    }  # fmt: skip
    fast = back_test_columns(columns, on("pro"), compiled=False)
    for answer in (tested, fast):
        (note,) = (note for note in answer.notes if "when they ended" in note)
        assert note.startswith("Of 2 jobs the recording does not say when they ended")


def test_a_job_wants_what_its_call_or_another_on_its_domain_says(tmp_path: Path) -> None:
    units = enumerate(({}, {"units": 70}, {}, {"units": 30}))
    later = [job(n * 100_000, "crawl", **more) for n, more in units]
    ranks = job(1, "rank_run", units=250)
    tested = back_test(recorded(tmp_path, *later, ranks), on("pro", "starter"), keywords=3)
    assert [row["a_cost"] for row in tested.calls] == [7_000, 250 * 400, 7_000, 7_000, 3_000]
    assert assumed(tested) == []
    capped = Policy().replace(catalogue={"plans": {"pro": {"page_cap": 50}}}).catalogue
    (cut,) = (row for row in back_test(recorded(tmp_path, *later[1:2]), [Side(capped, "pro")]).calls)
    assert cut["a_cost"] == 50 * 100


def test_calls_that_a_answers_otherwise_are_named(tmp_path: Path) -> None:
    refused = {"status": 402, "response": json.dumps({"code": "quota_exhausted"})}
    free = [brief(n, **refused) for n in range(3)]  # of which ten are left
    jobs = [job(10, "crawl"), job(11, "crawl"), job(12, "crawl", status=None, received=None)]
    recording = recorded(tmp_path, *free, *jobs, call(13, "GET", "/v1/domains"))
    tested = back_test(recording, on("starter"))
    assert tested.unlike == [
        {"operation": "keyword_briefs.create", "recorded": "402 quota_exhausted", "a": "201", "calls": 3},
        {"operation": "jobs.create", "recorded": "202", "a": "409 cooldown_active", "calls": 1},
    ]
    assert (
        "Of 6 calls whose status was recorded, A answers 33.3 % with it, the others otherwise: 3 "
        "keyword_briefs.create 201 instead of 402 quota_exhausted; 1 jobs.create 409 cooldown_active "
        "instead of 202."
    ) in tested.notes
    fast = back_test_columns(columns_of(recording), on("starter"), compiled=False)
    assert [(row["operation"], row["recorded"], row["a"], row["calls"]) for row in fast.unlike] == [
        ("keyword_briefs", "quota_exhausted", "granted", 3),
        ("crawl", "granted", "cooldown_active", 1),
    ]
    assert any(
        note.startswith("Of 6 calls whose outcome was recorded, A answers 33.3 % with it")
        for note in fast.notes
    )
    for answer in (tested, fast):
        assert "Replayed as if they had arrived: 1 without a recorded reply." in answer.notes
        (view,) = (view for view in answer.views() if view.title.startswith("Calls that A answers otherwise"))
        assert len(view.rows) == 2


def test_more_kinds_of_answers_than_a_few_are_counted() -> None:
    counts = {(f"op{n}", "200", "404"): 10 - n for n in range(6)}
    note = unlike_note(unlike_rows(counts), 90, "status")
    assert note == (
        "Of 90 calls whose status was recorded, A answers 50 % with it, the others otherwise: "
        "10 op0 404 instead of 200; 9 op1 404 instead of 200; 8 op2 404 instead of 200; "
        "7 op3 404 instead of 200; 11 others."
    )
    (one,) = unlike_rows({("jobs.create", "202", "200"): 1})
    assert unlike_note([one], 10_579, "status") == (
        "Of 10,579 calls whose status was recorded, A answers all but 1 with it, the others otherwise: "
        "1 jobs.create 200 instead of 202."
    )
    assert unlike_note([], 5, "status") == "Of 5 calls whose status was recorded, A answers 100 % with it."
    assert unlike_note([], 0, "status") == "No status was recorded of a call."


def test_calls_that_never_arrived_are_not_replayed(tmp_path: Path) -> None:
    silent: Line = {"status": None, "received": None, "error": "not sent: connection refused"}
    never = [brief(n, effect="none", **silent) for n in range(2)]
    refused = brief(3, status=402, effect="none", response=json.dumps({"code": "quota_exhausted"}))
    recording = recorded(tmp_path, *never, brief(2, effect="unknown", **silent), refused)
    tested = back_test(recording, on("starter"))
    fast = back_test_columns(columns_of(recording), on("starter"), compiled=False)
    assert [row["id"] for row in tested.calls] == ["x2", "x3"]
    assert tested.left_out == fast.left_out == {"without a reply, and without effect": 2}
    for answer in (tested, fast):
        assert "Replayed as if they had arrived: 1 without a recorded reply." in answer.notes


TIMED = """\
accounts: {acme: {plan: pro, portfolio: {domains: 1}}}
timeline:
  - {do: set, at: 10d, path: policy.catalogue.plans.pro.price, value: 99 USD}
  - {do: change_plan, at: 11d, account: acme, plan: agency}
  - {do: change_plan, at: 12d, account: acme, plan: pro}
"""


def test_that_a_timeline_of_accounts_is_left_out_is_said(tmp_path: Path) -> None:
    file, plain = tmp_path / "world.yaml", tmp_path / "plain.yaml"
    file.write_text(TIMED)
    plain.write_text(TIMED.partition("timeline")[0])
    calls = recorded(tmp_path, job(0, "rank_run"))
    left_out = (
        f"Left out is the timeline of {file} (1 × set policy.catalogue.plans.pro.price, 2 × change_plan): "
        "accounts and policy are as they begin."
    )
    tested = back_test(calls, [Side(PLANS)], accounts=file)
    save_columns(columns_of(calls, accounts=file), tmp_path / "calls.parquet", "salt")
    by_columns = back_test_columns(tmp_path / "calls.parquet", [Side(PLANS)])
    for answer in (tested, by_columns):
        assert left_out in answer.notes
    assert "the timeline of" not in " ".join(back_test(calls, [Side(PLANS)], accounts=plain).notes)
    command = ["price", "import", calls.where, "--columns", str(tmp_path / "again.parquet")]
    imported = CliRunner().invoke(cli.app, [*command, "--accounts", str(file)])
    assert f"Note: {left_out}\n" in imported.output
