"""Study files: what they say, and one clear sentence with the line for each thing that is wrong."""

from pathlib import Path

import pytest

from ranksim.core.errors import BadInput
from ranksim.planner.study.design import points
from ranksim.planner.study.study import Study
from ranksim.twin.sim.scenario import Scenario

HEAD = """study: 1
scenario:
  start: 2026-01-05T00:00:00Z
  length: 1d
  accounts:
    acme: {plan: pro, portfolio: {domains: 2, keywords: 5}}
  clients:
    nightly: {kind: schedule, account: acme, job: rank_run, every: day}
"""
LINES = HEAD.count("\n")
POOL = "scenario.pools.rank_run.capacity"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        # the file itself
        ("factor: {scenario.length: [1d]}", 1, "factor: no such field; did you mean 'factors'?"),
        ("replications: 0", 1, "replications: expected at least 1, found 0"),
        ("confidence: 95", 1, "confidence: expected less than 1.0, found 95"),
        ("population: {}", -1, "expected either scenario, to run worlds, or population, to run fleets"),
        # unknown parameters
        ("factors:\n  scenario.lenght: [1d]", 2,
         "no parameter 'scenario.lenght': scenario has no 'lenght'; did you mean 'length'?"),
        ("variants:\n  now: {}\n  then: {policy.facts.nothing: 1}", 3, "no parameter 'policy.facts.nothing'"),
        ("change: {population.accounts: 3}", 1, "no parameter 'population.accounts': no input 'population'"),
        ("change: {scenario.seed: 3}", 1, "scenario.seed is decided by the study"),
        ("goal:\n  smallest: scenario.pols\n  between: [1, 2]\n  such_that: calls.total > 1", 2,
         "goal.smallest: no parameter 'scenario.pols': scenario has no 'pols'; did you mean 'pools'?"),
        ("sensitivity:\n  parameters:\n    scenario.clients.nightly.evry: [1d, 2d]", 3, "mean 'every'?"),
        # empty designs
        ("factors: {}", 1, "factors: is empty; a design has at least one point"),
        ("factors:\n  scenario.length: []", 2, "factors.scenario.length: expected at least 1, found 0"),
        ("factors:\n  scenario.plan: [pro, agency, pro]", 2, "scenario.plan: a level is written twice"),
        ("variants: {}", 1, "variants: is empty; a design has at least one point"),
        ("sensitivity: {parameters: {}}", 1, "sensitivity.parameters: expected at least 1, found 0"),
        # values that no point can use
        ("factors:\n  scenario.length:\n    - 1d\n    - soon", 4,
         "factors.scenario.length[1]: length: 'soon' is not a duration"),
        ("variants:\n  now: {}\n  odd: {scenario.plan: gold}", 3,
         "variants.odd.scenario.plan: accounts.acme.plan: no plan 'gold'"),
        ("change: {scenario.length: soon}\nfactors: {scenario.plan: [pro]}", 1,
         "change.scenario.length: length: 'soon' is not a duration"),
        # metrics
        ("measure: [refusals.totl]", 1, "measure: no metric 'refusals.totl'; did you mean"),
        ("measure: [clients.nobody.total]", 1, "clients.nobody.total: no client 'nobody'"),
        ("measure: [jobs.rank_run.wait.within.soon]", 1, "write jobs.rank_run.wait.within.DURATION, such as"),
        ("measure: [jobs.rank.wait.within.5m]", 1, "no metric 'jobs.rank.wait.p50'"),
        ("precision: {of: nothing}", 1, "precision: no metric 'nothing'"),
        # goals
        ("goal:\n  between: [1, 2]\n  such_that: calls.total > 1", 1, "goal: write either smallest or"),
        (f"goal:\n  smallest: {POOL}\n  between: [2, 1]\n  such_that: calls.total > 1", 3,
         "goal.between: expected the lower value first, found 2 and 1"),
        (f"goal:\n  smallest: {POOL}\n  between: [0.1, 0.9]\n  such_that: calls.total > 1", 1,
         "goal.step: is missing; say how fine"),
        (f"goal:\n  smallest: {POOL}\n  between: [1, 2]\n  such_that: many calls", 4,
         "goal.such_that: expected a condition such as"),
        (f"goal:\n  smallest: {POOL}\n  between: [1, 2]\n  such_that: calls.total < 0", 1,
         "goal: cannot be reached: even 2 does not meet calls.total < 0: it comes to 2"),
        # sensitivities and baselines
        ("sensitivity:\n  samples: 6\n  parameters: {scenario.length: [1d, 2d]}", 1,
         "samples: expected a power of two, found 6"),
        ("sensitivity:\n  method: sobol\n  parameters:\n    scenario.plan: [pro, agency]", 4,
         "expected numbers, amounts or durations"),
        ("baseline: old\nvariants: {new: {}}", 1, "baseline: no point 'old'; expected one of new"),
    ],
)  # fmt: skip
def test_a_bad_study(text: str, line: int, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        Study.parse(HEAD + text + "\n", "study.yaml").run()
    where, _, said = str(caught.value).partition(": ")
    assert message in said
    assert where == f"study.yaml:{LINES + line if line > 0 else 1}"


def test_all_mistakes_of_a_study_are_told_at_once() -> None:
    text = "replications: 0\nmeasure: [refusals.totl, calls.totl]\nfactors:\n  scenario.lenght: [1d]\n"
    with pytest.raises(BadInput) as caught:
        Study.parse(HEAD + text, "study.yaml")
    told = [line.split(": ", 1)[1] for line in str(caught.value).splitlines()]
    starts = [
        "replications: expected at least 1",
        "factors.scenario.lenght: no parameter",
        "measure: no metric ",
    ]
    assert [len([line for line in told if line.startswith(start)]) for start in starts] == [1, 1, 2]
    with pytest.raises(BadInput) as caught:  # a scenario with mistakes has no parameters yet
        Study.parse(HEAD.replace("plan: pro", "plan: por") + text, "study.yaml")
    plan, replications = str(caught.value).splitlines()
    assert "no plan 'por'; did you mean 'pro'?" in plan
    assert "replications: expected at least 1" in replications


def test_a_study_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "worlds").mkdir()
    (tmp_path / "worlds" / "base.yaml").write_text(
        "\n".join(line[2:] for line in HEAD.splitlines()[2:]), encoding="utf-8"
    )
    (tmp_path / "strict.yaml").write_text("assumptions: {window: gcra}", encoding="utf-8")
    (tmp_path / "study.yaml").write_text(
        "scenario: worlds/base.yaml\npolicy: strict.yaml\n"
        "variants: {strict: {}, usual: {policy: worlds/usual.yaml}}",
        encoding="utf-8",
    )
    (tmp_path / "worlds" / "usual.yaml").write_text("assumptions: {window: clock}", encoding="utf-8")
    study = Study.load(tmp_path / "study.yaml")
    assert study.spec.name == "study"
    windows = [point.built.policy.assumptions.window for point in points(study)]
    assert windows == ["gcra", "clock"]


@pytest.mark.parametrize("name", ["scenario", "policy"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    text = f"{HEAD}policy: gone.yaml\n" if name == "policy" else "study: 1\nscenario: gone.yaml\n"
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=rf"study\.yaml:\d+: {name}: no such file as '.*gone.yaml'"):
        Study.load(tmp_path / "study.yaml")


def test_a_scenario_is_no_study(tmp_path: Path) -> None:
    (tmp_path / "week.yaml").write_text("# A week.\nscenario: 1\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"week\.yaml:\d: is a scenario; give it to ranksim run, or name it"):
        Study.load(tmp_path / "week.yaml")


def test_a_file_with_a_value_that_no_point_can_use_is_refused_as_it_is_read(tmp_path: Path) -> None:
    text = f"{HEAD}factors:\n  scenario.length:\n  - 1d\n  - a\n"
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    message = rf":{LINES + 4}: factors\.scenario\.length\[1\]: length: 'a' is not a duration"
    with pytest.raises(BadInput, match=rf"study\.yaml{message}"):
        Study.load(tmp_path / "study.yaml")
    with pytest.raises(BadInput, match=f"mine{message}"):
        Study.parse(text, "mine")


def test_a_study_from_python_says_what_is_wrong() -> None:
    scenario = Scenario.parse("\n".join(line[2:] for line in HEAD.splitlines()[2:]))
    assert Study.of(scenario, factors={"scenario.length": ["1d", "2d"]}).spec.replications == 10
    with pytest.raises(BadInput, match=r"study: factors\.scenario\.lenght: no parameter"):
        Study.of(scenario, factors={"scenario.lenght": ["1d"]})
    with pytest.raises(
        BadInput, match=r"study: factors\.scenario\.length\[1\]: length: 'a' is not a duration"
    ):
        Study.of(scenario, factors={"scenario.length": ["1d", "a"]})
    with pytest.raises(BadInput, match="study: sede: no such field; did you mean 'seed'"):
        Study.of(scenario, sede=1)
