"""Which assumptions a run hangs on: the same replications under every other reading of what they read."""

from __future__ import annotations

from collections.abc import Callable

from ranksim.core.contract.policy import Policy
from ranksim.report.heading import answer_of
from ranksim.report.readings import Readings, under_readings
from ranksim.report.units import many
from ranksim.twin.sim.expectations import judge_expectations
from ranksim.twin.sim.results import Result
from ranksim.twin.sim.scenario import Scenario


def readings_of_run(scenario: Scenario, result: Result, again: Callable[[Scenario], Result]) -> Readings:
    """Return what becomes of a run under other readings: which expectations hold, else what came of it.

    `again` runs a scenario with the seed and as many replications as the `result`. Raises BadInput.
    """

    def ask(policy: Policy) -> tuple[Result, set[str]]:
        done = result
        if policy is not scenario.policy:
            done = again(scenario.model_copy(update={"policy": policy}))
        return done, {name for replication in done.replications for name in replication.consulted}

    def verdict(done: Result) -> str:
        if not scenario.expect:
            return answer_of(done.heading, done.tables).rstrip(".")
        findings = judge_expectations(scenario.expect, done)
        missed = [finding.expectation for finding in findings if not finding.passed]
        failed = [f"{expectation.metric} ({expectation.wanted()})" for expectation in missed]
        if not failed:
            return "all expectations hold"
        return f"{len(failed)} of {many(len(findings), 'expectation')} failed: {', '.join(failed)}"

    return under_readings(ask, scenario.policy, verdict)[1]
