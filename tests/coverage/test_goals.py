"""How often a goal's answer is false, through whole searches over real runs: one command, which goes on.

    pytest -m heavy -s tests/coverage/test_goals.py

Each question has a population: so many replications of every value, simulated once and kept in `.cache/goals`
(or the folder that RANKSIM_GOALS_CACHE names) under a digest of the sources; so a run that was interrupted
goes on. Their mean is the truth, known exactly; of a share, that of all their trials. The search of a seed
draws its replications from the population, with replacement, and goes the whole way of a study: its looks,
its decisions, its answer.
RANKSIM_GOAL_SEEDS says how many there are (200).

An answer is false that says of a value that it meets the condition, or that the next does not, where the
population says otherwise. Undecided is never false.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import pytest
import scipy

from ranksim.core.draws import Purpose, below, entity
from ranksim.core.errors import BadInput
from ranksim.core.rulebook import RULEBOOK, rulebook_digest
from ranksim.inference.kinds import Kind
from ranksim.planner.study.condition import SIGNS, MetricCondition
from ranksim.planner.study.engines import Engine, Measurement, value_of
from ranksim.planner.study.scale import Scale
from ranksim.planner.study.study import Study

SEEDS = int(os.environ.get("RANKSIM_GOAL_SEEDS", "200"))
ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("RANKSIM_GOALS_CACHE", ROOT / ".cache" / "goals"))

RARE = """
study: 1
scenario:
  start: 2026-03-02T00:00:00Z
  length: 20m
  accounts: {acme: {plan: pro, portfolio: {domains: 1, keywords: 5}}}
  clients:
    ci: {kind: caller, account: acme, every: 20m, mix: {jobs.create: {body: {kind: ai_scan}}}}
  pools: {ai_scan: {capacity: 1, duration: 5m, failure_rate: 0.02}}
"""

WORKERS = """
study: 1
scenario:
  start: 2026-03-02T00:00:00Z
  length: 2h
  policy: {catalogue: illustrative}
  accounts: {acme: {plan: agency, portfolio: {domains: 1, keywords: 5}}}
  clients:
    ci:
      kind: caller
      account: acme
      every: 34s
      arrivals: poisson
      mix: {jobs.create: {body: {kind: ai_scan}}}
  pools: {ai_scan: {capacity: 8, duration: {exponential: {mean: 4m}}}}
"""

CALM_AND_BUSY = """
study: 1
scenario:
  start: 2026-03-02T00:00:00Z
  length: 1h
  policy: {catalogue: illustrative}
  accounts: {acme: {plan: agency, portfolio: {domains: 1, keywords: 5}}}
  clients:
    ci:
      kind: caller
      account: acme
      every: 15m
      arrivals: poisson
      mix: {jobs.create: {body: {kind: ai_scan}}}
  pools: {ai_scan: {capacity: 1, duration: 10m}}
"""

FLEET = """
study: 1
population:
  accounts: 100
  start: 2026-01-01T00:00:00Z
  length: 30d
  segments:
    shops:
      plans: pro
      portfolio: {domains: 3, keywords: 400}
      usage: {rank_run: {lognormal: {median: 10, sigma: 1, most: 200}}}
"""

QUESTIONS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "rare failures": (RARE, 500, {
        "largest": "scenario.pools.ai_scan.failure_rate", "between": [0.01, 0.2], "step": 0.01,
        "such_that": "jobs.ai_scan.failed <= 0.02", "max_replications": 40,
    }),
    "failures": (RARE, 500, {
        "largest": "scenario.pools.ai_scan.failure_rate", "between": [0.02, 0.3], "step": 0.04,
        "such_that": "jobs.ai_scan.failed <= 0.12", "max_replications": 320,
    }),
    "workers within five minutes": (WORKERS, 200, {
        "smallest": "scenario.pools.ai_scan.capacity", "between": [6, 13],
        "such_that": "jobs.ai_scan.wait.within.5m >= 95%", "max_replications": 320,
    }),
    "workers of a few jobs": (CALM_AND_BUSY, 1000, {
        "smallest": "scenario.pools.ai_scan.capacity", "between": [1, 4],
        "such_that": "jobs.ai_scan.wait.within.5m >= 61%", "max_replications": 320,
    }),
    "ceiling": (FLEET, 200, {
        "largest": "policy.catalogue.plans.pro.cost_ceiling", "between": ["50 USD", "85 USD"],
        "step": "5 USD", "such_that": "margin.negative < 1%", "max_replications": 160,
    }),
    "largest portfolio": (FLEET, 200, {
        "largest": "population.segments.shops.portfolio.keywords", "between": [200, 900], "step": 100,
        "such_that": "margin.mean >= 64 USD", "max_replications": 320,
    }),
}  # fmt: skip
"""A study, how many replications of each value its population has, and the goal."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """An engine that draws its replications from a population of those of another."""

    inner: Engine
    size: int
    needed: tuple[str, ...]
    file: Path
    kept: dict[str, list[Measurement]] = field(default_factory=dict)

    name: ClassVar[str] = "drawn"
    sources: ClassVar[tuple[str, ...]] = ()
    usual: ClassVar[tuple[str, ...]] = ()

    def roots(self) -> Mapping[str, Any]:
        return self.inner.roots()

    def check_path(self, path: str) -> None:
        self.inner.check_path(path)

    def check_metric(self, metric: str) -> None:
        self.inner.check_metric(metric)

    def unit_of(self, metric: str) -> str:
        return self.inner.unit_of(metric)

    def kind_of(self, metric: str) -> Kind:
        return self.inner.kind_of(metric)

    def trials_of(self, metric: str) -> str | None:
        return self.inner.trials_of(metric)

    def has_independent_trials(self, metric: str) -> bool:
        return self.inner.has_independent_trials(metric)

    def is_drawn(self, built: Any, metric: str) -> bool:
        return True

    def build(self, settings: Any) -> Any:
        return json.dumps(settings), self.inner.build(settings)

    def meaning(self, built: Any) -> str:
        return self.inner.meaning(built[1])

    def observe(self, built: Any, seed: int, index: int) -> Measurement:
        return self.population(built)[below(self.size, seed, entity("goal"), index, Purpose.CHOICE)]

    def population(self, built: Any) -> list[Measurement]:
        """Every replication of a value; what the file does not have is simulated and added to it."""
        if not self.kept and self.file.exists():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.kept.setdefault(row["point"], []).append(Measurement(row["metrics"], row["waits"]))
        point, made = built
        known = self.kept.setdefault(point, [])
        with self.file.open("a", encoding="utf-8") as file:
            for index in range(len(known), self.size):
                seen = self.inner.observe(made, 1, index)
                values = {name: seen.metrics[name] for name in self.needed if name in seen.metrics}
                known.append(Measurement(values, seen.histograms))
                row = {"point": point, "metrics": values, "waits": seen.histograms}
                file.write(json.dumps(row) + "\n")
        return known


def engine_of(question: str) -> Drawn:
    """The engine of a question, with its population as far as it is known."""
    text, size, goal = QUESTIONS[question]
    study = Study.parse(text + f"goal: {json.dumps(goal)}\nmeasure: []\n")
    needed = tuple(dict.fromkeys(goal["such_that"].split()[:1] + list(study.needed)))
    sources = rulebook_digest((*RULEBOOK, "core/callers", "twin/sim", "planner/fleet"))
    digest = sha256(f"{text} {needed} {sources}".encode()).hexdigest()[:16]
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", encoding="utf-8")
    return Drawn(study.engine, size, needed, CACHE / f"{question.replace(' ', '-')}-{size}-{digest}.jsonl")


def meets(engine: Drawn, goal: Mapping[str, Any], value: Any) -> bool:
    """Whether the whole population of a value meets the condition."""
    metric, sign, _ = goal["such_that"].split(maxsplit=2)
    bound = MetricCondition.parse(goal["such_that"], engine).bound
    parameter = goal.get("largest") or goal["smallest"]
    population = engine.population(engine.build({parameter: value}))
    return SIGNS[sign](truth_of(engine, metric, population), bound)


def truth_of(engine: Drawn, metric: str, population: Sequence[Measurement]) -> float:
    """A metric of a whole population: its mean, or the share of all trials that hit."""
    trials = engine.trials_of(metric)
    seen = [
        (value, 1.0 if trials is None else value_of(one, trials, engine.unit_of(trials)) or 0.0)
        for one in population
        if (value := value_of(one, metric, engine.unit_of(metric))) is not None
    ]
    return sum(value * of for value, of in seen) / sum(of for _, of in seen)


def false(engine: Drawn, goal: Mapping[str, Any], row: Mapping[str, Any] | None) -> bool:
    """Whether what a search says is not so; `row` None says that no value meets the condition."""
    scale = Scale.between(*goal["between"], goal.get("step"))
    values = [scale.value(index) for index in range(scale.count)]
    if "largest" in goal:
        values.reverse()  # the hardest first
    if row is None:
        return meets(engine, goal, values[-1])
    if row["answer"] is None:
        return False
    place = values.index(row["answer"])
    if not meets(engine, goal, values[place]):
        return True
    return row["status"] == "found" and place > 0 and meets(engine, goal, values[place - 1])


def rows(engine: Drawn, goal: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any] | None, int]]:
    """What each seed's search says, and how many replications it took."""
    metric = goal["such_that"].split()[0]
    for seed in range(1, SEEDS + 1):
        study = Study.of(engine, goal=dict(goal), measure=[metric], seed=seed)
        try:
            result = study.run()
        except BadInput:
            yield None, 0
        else:
            (row,) = result.tables["goals"]
            yield row, sum(one["replications"] for one in result.tables["candidates"])


@pytest.mark.heavy
@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_false_as_seldom_as_it_says(question: str) -> None:
    goal = QUESTIONS[question][2]
    engine = engine_of(question)
    found = list(rows(engine, goal))
    wrong = sum(false(engine, goal, row) for row, _ in found)
    answers: dict[str, int] = {}
    for row, _ in found:
        said = "none" if row is None else f"{row['answer']} {row['status']}"
        answers[said] = answers.get(said, 0) + 1
    spent = sum(count for _, count in found) / len(found)
    print(f"\n{question}: {wrong} of {len(found)} false, {spent:.0f} replications each; {answers}")
    chance = scipy.stats.binomtest(wrong, len(found), 0.05, alternative="greater").pvalue
    assert chance > 0.01, f"{wrong} of {len(found)} answers are false, where 5 % may be"
