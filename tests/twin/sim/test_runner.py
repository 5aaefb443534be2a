"""Replications: seeds by index, the same bytes on any number of processes, stopping, warm-up, failures."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ranksim.core.clock import MINUTE
from ranksim.core.errors import BadInput
from ranksim.twin.sim.results import Result
from ranksim.twin.sim.runner import PILOTS, Pilot, replicate, replication_seed, run
from ranksim.twin.sim.scenario import Scenario


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import tiny_world

    return tiny_world


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def exchange(self, now: int, client: str, call: Any, reply: Any) -> None:
        self.lines.append((now, reply.outcome))


def totals(result: Result) -> list[float | None]:
    return result.values("refusals.total")


# Seeds and processes


def test_a_seed_belongs_to_the_index_of_a_replication(tiny: ModuleType) -> None:
    seeds = [replication_seed(1, index) for index in range(4)]
    assert len({*seeds, replication_seed(2, 0)}) == 5
    five = run(tiny.scenario(), replications=5, world=tiny.TinyWorld)
    assert [replication.seed for replication in five.replications][:4] == seeds
    assert totals(run(tiny.scenario(), world=tiny.TinyWorld)) == totals(five)[:3]
    assert replicate(tiny.scenario(), 1, 0, 3, world=tiny.TinyWorld) == five.replications[3]


def test_the_seed_given_stands_in_for_the_scenarios(tiny: ModuleType) -> None:
    seven = run(tiny.scenario(seed=7), world=tiny.TinyWorld)
    assert seven.seed == 7
    assert run(tiny.scenario(), seed=7, world=tiny.TinyWorld).to_json() == seven.to_json()
    assert run(tiny.scenario(), world=tiny.TinyWorld).to_json() != seven.to_json()


@pytest.mark.parametrize("integer", [np.int32, np.int64, np.uint64])
def test_numbers_of_numpy_are_numbers(tiny: ModuleType, integer: Callable[[int], int]) -> None:
    given = {"seed": integer(7), "replications": integer(2), "workers": integer(1)}
    plain = run(tiny.scenario(), seed=7, replications=2, world=tiny.TinyWorld)
    assert run(tiny.scenario(), **given, world=tiny.TinyWorld).to_json() == plain.to_json()


@pytest.mark.slow
def test_one_or_two_processes_give_the_same_bytes(tiny: ModuleType) -> None:
    one = run(tiny.scenario(), replications=5, world=tiny.TinyWorld)
    recorder = Recorder()
    two = run(tiny.scenario(), replications=5, workers=2, trace=recorder, world=tiny.TinyWorld)
    assert two.to_json() == one.to_json()
    assert len(recorder.lines) == one.scalars[0]["calls.total"]


def test_a_trace_is_of_the_first_replication(tiny: ModuleType) -> None:
    recorder = Recorder()
    result = run(tiny.scenario(), trace=recorder, world=tiny.TinyWorld)
    assert len(recorder.lines) == result.scalars[0]["calls.total"]


# Stopping


def test_precision_stops_at_the_first_replication_that_reaches_it(tiny: ModuleType) -> None:
    scenario = tiny.scenario(precision=tiny.precision(relative=0.01), replications=2)
    result = run(scenario, world=tiny.TinyWorld)
    count = len(result.replications)
    assert 2 < count < 50
    mean, low, high = result.metric("refusals.total")
    assert mean is not None
    assert low is not None
    assert high is not None
    assert (high - low) / 2 <= 0.01 * mean
    assert result.remarks == [f"refusals.total is known to within 1 % after {count} replications"]


@pytest.mark.slow
def test_processes_do_not_change_where_it_stops(tiny: ModuleType) -> None:
    scenario = tiny.scenario(precision=tiny.precision(relative=0.01), replications=2)
    one, two = (run(scenario, workers=workers, world=tiny.TinyWorld) for workers in (1, 2))
    assert one.to_json() == two.to_json()


def test_precision_gives_up_after_the_most_replications(tiny: ModuleType) -> None:
    scenario = tiny.scenario(precision=tiny.precision(relative=1e-6, max_replications=4))
    result = run(scenario, world=tiny.TinyWorld)
    assert len(result.replications) == 4
    assert result.remarks == [
        "refusals.total is not known to within 0.0001 % after 4 replications; that takes at least 30"
    ]


def test_replications_that_are_asked_for_are_made(tiny: ModuleType) -> None:
    scenario = tiny.scenario(precision=tiny.precision(relative=0.5))
    result = run(scenario, replications=6, world=tiny.TinyWorld)
    assert (len(result.replications), result.remarks) == (6, [])


def test_precision_of_what_is_never_observed_is_never_reached(tiny: ModuleType) -> None:
    scenario = tiny.scenario(precision=tiny.precision("jobs.crawl.wait.p95", max_replications=3))
    assert len(run(scenario, world=tiny.TinyWorld).replications) == 3


# Warm-up


def test_a_stated_warm_up_is_left_out(tiny: ModuleType) -> None:
    whole = run(tiny.scenario(), world=tiny.TinyWorld)
    cut = run(tiny.scenario(warm_up=20 * MINUTE), world=tiny.TinyWorld)
    (remark,) = cut.remarks
    assert re.fullmatch(r"the first 20m of \w+ are left out, as `warm_up` states", remark)
    assert [replication.start for replication in cut.replications] == [20 * MINUTE] * 3
    for with_all, without in zip(totals(whole), totals(cut), strict=True):
        assert with_all is not None
        assert without is not None
        assert with_all - without >= 200
    slots = cut.values("slots.acme.max_used")
    assert slots == totals(whole)


@pytest.mark.parametrize(("rule", "name"), [("mser", "MSER-5"), ("welch", "Welch")])
def test_pilots_find_one_warm_up_for_all_replications(tiny: ModuleType, rule: str, name: str) -> None:
    result = run(tiny.scenario(warm_up=rule, precision=tiny.precision()), world=tiny.TinyWorld)
    (start,) = {replication.start for replication in result.replications}
    assert 20 * MINUTE <= start <= 30 * MINUTE
    left_out = f"the first {start // MINUTE}m of 1h40m are left out ({name}, from the mean of 10 pilot runs)"
    assert result.remarks[0].startswith(f"{left_out}; such a rule leaves part of the start's bias")


def test_pilots_are_not_averaged(tiny: ModuleType) -> None:
    """What a cut is chosen by has other random numbers than what is cut."""
    seen: list[int] = []

    def world(scenario: Any, *, seed: int, tally: Any, trace: Any = None) -> Any:
        seen.append(seed)
        return tiny.TinyWorld(scenario, seed=seed, tally=tally, trace=trace)

    result = run(tiny.scenario(warm_up="mser", precision=tiny.precision()), world=world)
    assert len(seen) == len(set(seen)) == PILOTS + len(result.replications)


def test_a_run_too_short_to_settle_is_told(tiny: ModuleType) -> None:
    short = tiny.scenario(length=24 * MINUTE, warm_up="mser", precision=tiny.precision())
    result = run(short, world=tiny.TinyWorld)
    assert result.remarks[1].startswith(
        "refusals.total has not settled by half of the run: the run may be too"
    )


def test_a_warm_up_of_what_is_never_seen_is_refused(tiny: ModuleType) -> None:
    never = tiny.scenario(warm_up="mser", precision=tiny.precision("jobs.crawl.wait.p95"))
    with pytest.raises(
        BadInput, match=r"looks at jobs.crawl.wait.p95 over time, and a pilot run did not show"
    ):
        run(never, world=tiny.TinyWorld)


def test_a_pilot_takes_a_metric_between_samples(tiny: ModuleType) -> None:
    scenario = tiny.scenario(length=5 * MINUTE)
    pilot = Pilot("calls.granted", 0, 5 * MINUTE, MINUTE)
    tiny.TinyWorld(scenario, seed=1, tally=pilot).run()
    assert pilot.series == [1.0, 1.0, 1.0, 1.0]


# Progress and failures


def test_progress_goes_from_nothing_to_all(tiny: ModuleType) -> None:
    messages: list[tuple[float | None, str]] = []
    run(tiny.scenario(), progress=lambda *what: messages.append(what), world=tiny.TinyWorld)
    shares = [share for share, _ in messages if share is not None]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len(shares) > 100
    assert {text for _, text in messages} == {f"{done} of 3 done" for done in range(4)}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_what_goes_wrong_in_a_replication_is_raised_and_says_which(tiny: ModuleType, workers: int) -> None:
    with pytest.raises(ZeroDivisionError, match="the world ended") as caught:
        run(tiny.scenario(), workers=workers, world=tiny.BrokenWorld)
    assert caught.value.__notes__ == [f"in replication 0 of 'tiny' (seed {replication_seed(1, 0)})"]


@pytest.mark.slow
def test_a_process_that_dies_is_noticed(tiny: ModuleType) -> None:
    with pytest.raises(BadInput, match=r"one of the processes died; .* give fewer workers"):
        run(tiny.scenario(), workers=2, world=tiny.DyingWorld)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_stops_everything(tiny: ModuleType, workers: int) -> None:
    def interrupt(share: float | None, text: str) -> None:
        if not text.startswith("0 of "):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tiny.scenario(), replications=20, workers=workers, progress=interrupt, world=tiny.TinyWorld)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"workers": 0}, "workers: expected at least 1, found 0"),
        ({}, {"replications": 0}, "replications: expected at least 1, found 0"),
        ({"warm_up": "mser"}, {}, "warm_up: mser looks at the metric that precision.of names"),
        ({"precision": "refusal.total"}, {}, "precision.of: no metric 'refusal.total'; did you mean"),
        ({"precision": "slots.acne.used"}, {}, "precision.of: no metric 'slots.acne.used'; did you mean"),
        (
            {"precision": "slots.acne.used", "warm_up": "mser"},
            {},
            "precision.of: no metric 'slots.acne.used'; did you mean 'slots.acme.used'",
        ),
    ],
)
def test_bad_input_says_what_to_mend(
    tiny: ModuleType, changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    if "precision" in changes:
        changes = changes | {"precision": tiny.precision(changes["precision"])}
    with pytest.raises(BadInput) as caught:
        run(tiny.scenario(**changes), world=tiny.TinyWorld, **options)
    assert str(caught.value).startswith(message)


# A whole world

WHOLE = """
start: 2026-03-02T00:00:00Z
length: 5d
replications: 2
policy: {catalogue: illustrative}
accounts:
  acme: {plan: pro, portfolio: {domains: 3, keywords: 20}}
clients:
  ci:
    kind: caller
    account: acme
    every: 5m
    arrivals: poisson
    mix: {slots.get: 1, jobs.create: {body: {kind: rank_run}}}
pools:
  rank_run: {capacity: 1, duration: {exponential: {mean: 10m}}, failure_rate: 0.1}
receivers:
  shop:
    account: acme
    latency: {exponential: {mean: 5s}}
    mtbf: {exponential: {mean: 12h}}
    mttr: {exponential: {mean: 2h}}
"""


@pytest.fixture(scope="module")
def whole() -> Result:
    return run(Scenario.parse(WHOLE))


def test_the_numbers_of_a_whole_world_add_up(whole: Result) -> None:
    for values in whole.scalars:
        value = {name: number or 0.0 for name, number in values.items()}
        calls = value["calls.accepted"] + value["refusals.total"]
        assert calls == value["calls.total"] == value["clients.ci.total"] > 1000
        assert (
            value["windows.acme.main.expensive.admitted"] + value["calls.ok"] + value["calls.limited"]
            == calls
        )
        assert value["jobs.rank_run.queued"] == value["calls.granted"] > 0
        assert value["jobs.rank_run.joined"] == value["calls.joined"] > 0
        running = value["jobs.rank_run.started"] - value["jobs.rank_run.done"] - value["jobs.rank_run.failed"]
        assert running in (0, 1)
        events = value["deliveries.acknowledged"] + value["deliveries.lost"] + value["deliveries.pending"]
        assert events == value["deliveries.events"] == value["endpoints.shop.events"] > 0
        assert value["deliveries.sent"] == value["deliveries.acknowledged"] + value["deliveries.failed"]
        assert value["deliveries.duplicates"] > 0
        assert value["spend.acme.max"] >= value["spend.acme.spent"] > 0
        assert value["slots.acme.max_used"] == 60


def test_a_warm_up_keeps_the_numbers_of_a_whole_world_adding_up() -> None:
    (values,) = run(Scenario.parse(WHOLE).replace(warm_up="1d"), replications=1).scalars
    value = {name: number or 0.0 for name, number in values.items()}
    assert value["calls.accepted"] + value["refusals.total"] == value["calls.total"]
    events = value["deliveries.acknowledged"] + value["deliveries.lost"] + value["deliveries.pending"]
    assert events == value["deliveries.events"] > 0


def test_a_trace_may_be_a_file(tmp_path: Path, whole: Result) -> None:
    path = tmp_path / "trace.jsonl"
    traced = run(Scenario.parse(WHOLE), replications=1, trace=path)
    lines = path.read_text("utf-8").splitlines()
    exchanges = [line for line in lines if '"kind":"exchange"' in line]
    assert len(exchanges) == whole.scalars[0]["calls.total"]
    assert traced.replications[0] == whole.replications[0]
    assert '"api_key":"acme/main"' in exchanges[0]


@pytest.mark.parametrize("counts", ["settled_and_reserved", "settled"])
def test_what_is_spent_is_what_the_policy_counts(counts: str) -> None:
    scenario = Scenario.parse(WHOLE).replace(
        length="1d", assumptions={"spent_counts": counts}, pools={"rank_run": {"duration": "1h"}}
    )
    result = run(scenario, replications=1)
    spent, settled = (result.metric(f"spend.acme.{field}").mean for field in ("spent", "settled"))
    assert spent is not None
    assert settled is not None
    assert (spent > settled) == (counts == "settled_and_reserved")


def test_peaks_do_not_depend_on_how_often_is_sampled() -> None:
    """Late on the last day of a month and of a week there is most, which is reset at midnight."""
    late = {"account": "acme", "at": "23:30"}
    scenario = Scenario.model_validate(
        {
            "start": "2026-03-05T00:00:00Z",
            "length": "40d",
            "accounts": {"acme": {"plan": "pro", "portfolio": {"domains": 2, "keywords": 100}}},
            "policy": {"assumptions": {"month": "calendar"}},
            "clients": {
                "runs": {"kind": "schedule", "job": "rank_run", **late},
                "briefs": {"kind": "brief_refresher", "keywords": 3, "every": "day", **late},
                "sync": {"kind": "keyword_sync", "every": "day", "share": 0.1, **late},
            },
            "pools": {"rank_run": {"capacity": "unlimited", "duration": "1m", "failure_rate": 0}},
        }
    )
    metrics = ("spend.acme.max", "meters.acme.keyword_brief_refreshes.max", "slots.acme.max_used")
    peaks = {
        tuple(run(scenario.replace(sample_every=every)).metric(metric).mean for metric in metrics)
        for every in ("5m", "1h", "7h", "1d")
    }
    ((spent, briefs, used),) = peaks
    cost = scenario.policy.catalogue.unit_costs
    assert spent == 27 * (200 * cost.rank_run_page + 3 * cost.keyword_brief)  # of March; of April 13 days
    assert (briefs, used) == (7 * 3, 200 + 27 * 20)
