"""Several traces of one deployment, judged jointly."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.kit import spending
from typer.testing import CliRunner

from ranksim import cli
from ranksim.bridges.rehearsal import START, rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.core.clock import HOUR, MINUTE, SECOND, Micros
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.trace import Exchange, Header, Trace, TraceKey
from ranksim.judge.conformance.compare import compare, compare_all
from ranksim.judge.conformance.report.as_dict import judgement_data
from ranksim.judge.profiles import profile


@cache
def runs(*windows: str) -> tuple[Trace, ...]:
    """Burst and retry loads, an hour apart, each on the same deployment but for its window algorithm."""
    traces = []
    for number, window in enumerate(windows):
        policy = compact(Policy(assumptions=Assumptions.model_validate({"window": window})))
        service, target = make_world(policy, 3)
        name = ("burst", "retry")[number % 2] if len(set(windows)) == 1 else "burst"
        traces.append(
            rehearse(
                profile(name), service, target, duration=MINUTE, seed=number, start=START + number * HOUR
            )
        )
    return tuple(traces)


@pytest.mark.slow
def test_verdicts_and_cases_of_several_traces_are_added_up() -> None:
    traces = runs("first_hit", "first_hit")
    joint, apart = compare_all(traces), [compare(trace) for trace in traces]
    assert not joint.deviating
    for finding in joint.findings:
        alone = [one.finding(finding.rule.name) for one in apart]
        assert finding.held == sum(one.held for one in alone)
        assert finding.open == sum(one.open for one in alone)
        assert {case.name for case in finding.cases if case.exercised} == {
            case.name for one in alone for case in one.cases if case.exercised
        }
    assert joint.coverage[0] > max(one.coverage[0] for one in apart)
    assert all(history.run.exclusive for history in joint.histories)


def test_ids_are_told_apart_by_the_number_of_their_trace() -> None:
    trace = Trace(Header(exclusive=True), [spending.usage(0)])  # a reply without the headers that each has
    joint = compare_all([trace, trace])
    ids = {name for piece in joint.finding("rate.headers").evidence for name in piece.exchanges}
    [exchange] = trace.exchanges
    assert ids == {f"1/{exchange.id}", f"2/{exchange.id}"}
    assert set(joint.exhibits) >= ids


@pytest.mark.slow
def test_what_one_trace_excludes_no_other_may_need() -> None:
    """Each trace is explained by an algorithm, and none explains both: they are not of one deployment."""
    traces = runs("gcra", "clock")
    assert not any(compare(trace).deviating for trace in traces)
    broken = {finding.rule.name for finding in compare_all(traces).deviating}
    assert broken & {"rate.read", "rate.write", "rate.expensive"}
    assert not compare_all(runs("gcra", "gcra")).deviating


# Who lies beside whom


def lone(
    began: float, *, host: str = "one", account: str = "acme", skew: float = 0, dated: bool = True
) -> Trace:
    """A trace of a minute whose clock runs `skew` s ahead of the deployment's, which dates replies."""
    exchanges = [_late(spending.usage(began + at), round(skew * SECOND), dated) for at in (0, 60)]
    header = Header(keys={"main": TraceKey(account=account)}, exclusive=True, clock={"host": host})
    return Trace(header, exchanges)


def _late(exchange: Exchange, skew: Micros, dated: bool) -> Exchange:
    headers = exchange.response_headers if dated else {}
    assert exchange.received is not None
    moved = {"sent": exchange.sent + skew, "received": exchange.received + skew, "response_headers": headers}
    return exchange.model_copy(update=moved)


@pytest.mark.parametrize(
    ("second", "beside"),
    [
        (lone(30), True),
        (lone(30, account="other"), False),
        (lone(30, account=""), True),
        (lone(70), False),
        (lone(70, host="two", dated=False), True),
        (lone(70, host="two"), False),  # the deployment's clock tells
        (lone(400, host="two", dated=False), False),
        (lone(30, host="two", skew=3600), False),  # either clock is enough
        (lone(3600, host="two", skew=-3560, dated=False), True),
    ],
)
def test_traces_of_one_account_that_may_lie_at_one_time_are_judged_as_if_shared(
    second: Trace, beside: bool
) -> None:
    joint = compare_all([lone(0), second])
    assert [history.run.exclusive for history in joint.histories] == [not beside] * 2
    said = judgement_data(joint, trace=["one", "two"])["relied_on"]
    assert any("lie at one time" in line for line in said) == beside
    assert said[-1].startswith("verdicts, cases")


def test_an_idempotency_key_of_another_trace_may_be_replayed() -> None:
    def keyed(began: float, key: str) -> Trace:
        trace = lone(began)
        trace.exchanges.append(spending.job(began + 5, idempotency_key=key))
        return trace

    joint = compare_all([keyed(0, "k"), keyed(3600, "k"), keyed(7200, "other")])
    posts = [next(history.by_operation("jobs.create")) for history in joint.histories]
    assert [post.unsure for post in posts] == [True, True, False]


# Whether they are of one deployment


def at(**targets: str) -> Trace:
    return Trace(Header(targets=targets, keys={"main": TraceKey(account="acme")}), [spending.usage(0)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://api.example.com", "https://api.example.org"),
        ("http://127.0.0.1:8080", "http://10.0.0.7:8080"),
    ],
)
def test_traces_of_different_machines_are_refused(one: str, other: str) -> None:
    told = f"traces 1 and 3 are of different deployments: production is {one} in one and {other} in the other"
    with pytest.raises(BadInput, match=re.escape(told)):
        compare_all([at(production=one), at(sandbox=one), at(production=other)])


@pytest.mark.parametrize(
    ("second", "several"),
    [
        ({"production": "http://127.0.0.1:8080/"}, False),
        ({"production": "http://127.0.0.1:9090"}, True),
        ({"production": "http://localhost:8080"}, True),
        ({"sandbox": "http://sandbox.example.com"}, False),
        ({}, False),
    ],
)
def test_one_machine_may_have_moved_its_deployment(second: dict[str, str], several: bool) -> None:
    joint = compare_all([at(production="http://127.0.0.1:8080"), at(**second)])
    said = judgement_data(joint, trace=["one", "two"])["relied_on"]
    assert any("several addresses of production (http://127.0.0.1:8080, " in line for line in said) == several


# On the command line


def command(*words: object) -> Any:
    return CliRunner().invoke(cli.app, ["compare", *map(str, words)])


def test_directories_of_runs_are_judged_whole(tmp_path: Path) -> None:
    for number, name in enumerate(
        ("monday/trace.jsonl", "tuesday/trace-2.jsonl.gz", "wednesday/more/trace.jsonl")
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        lone(3600 * number).write(path)
    told = command(tmp_path / "monday", tmp_path, tmp_path / "monday" / "trace.jsonl", "--json")
    found = json.loads(told.stdout)
    assert [Path(one["trace"]).parent.name for one in found["traces"]] == ["monday", "tuesday", "more"]
    assert found["exchanges"] == 6
    shown = command(tmp_path).stdout
    assert "1/" in shown
    assert "instants and lengths of time are compared within a trace only" in " ".join(shown.split())


def test_a_directory_without_a_trace_and_a_result_of_one_trace_are_refused(tmp_path: Path) -> None:
    told = command(tmp_path)
    assert (told.exit_code, "has no trace" in told.stderr) == (2, True)
    for name in ("a", "b"):
        lone(0).write(tmp_path / f"trace-{name}.jsonl")
    told = command(tmp_path, "--model", tmp_path / "result.json")
    assert (told.exit_code, "a result is of one trace" in told.stderr) == (2, True)
