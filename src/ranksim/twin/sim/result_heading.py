"""What stands above the tables of a simulated result: its scenario, its verdict, and what accounts pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ranksim.core.version import VERSION
from ranksim.report import units
from ranksim.report.assumptions import overrides, rests_on
from ranksim.report.heading import ExpectationVerdict, Heading
from ranksim.report.readings import Readings
from ranksim.twin.sim.expectations import ExpectationResult, Observed, judge_expectations
from ranksim.twin.sim.metrics import label, statement, unit_of
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.scenario_fields import made_up_note


class Headed(Observed, Protocol):
    """What a heading is of: a result."""

    seed: int
    fixed: tuple[str, ...]
    readings: Readings

    @property
    def replications(self) -> Sequence[Replication]:
        """The replications."""

    @property
    def notes(self) -> Sequence[str]:
        """Remarks on the run."""


def heading_of(scenario: Scenario, result: Headed, command: str = "") -> Heading:
    """Tell the facts of a run; `command` repeats it. Raises BadInput for a metric that it has not."""
    return Heading(
        name=scenario.name,
        title=scenario.title,
        description=scenario.description,
        start=scenario.start,
        length=scenario.length,
        accounts=len(scenario.accounts),
        replications=len(result.replications),
        is_drawn="" not in result.fixed,
        seed=result.seed,
        version=VERSION,
        policy=scenario.policy.name,
        verdicts=tuple(_verdict(finding, result) for finding in judge_expectations(scenario.expect, result)),
        notes=tuple(text for text in result.notes if text not in made_up_note(scenario)),
        made_up=made_up_note(scenario),
        overrides=overrides(scenario.policy),
        rests_on=rests_on(
            scenario.policy, (name for replication in result.replications for name in replication.consulted)
        ),
        readings=result.readings,
        command=command,
        invoice=_invoice(result),
        plans={name: account.plan for name, account in scenario.accounts.items()},
    )


def _verdict(finding: ExpectationResult, result: Headed) -> ExpectationVerdict:
    expectation, value = finding.expectation, _judged(finding, result)
    verdict = verdict_words(finding.passed, finding.text, expectation.metric, value)
    return replace(verdict, stated=str(expectation))


def verdict_words(holds: bool, text: str, metric: str, value: str) -> ExpectationVerdict:
    """Return a verdict with the words of its metric; `found` is its value with its interval."""
    words = label(metric, value), statement(metric, value.replace("T", " "))
    return ExpectationVerdict(holds, text, metric, value, *words)


def _judged(finding: ExpectationResult, result: Headed) -> str:
    """The number that was judged, a mean with its interval; nothing where none was observed."""
    metric = finding.expectation.metric
    if finding.value is None:
        return ""
    if finding.expectation.hold == "every":
        return units.write(unit_of(metric), finding.value)
    return units.in_prose(unit_of(metric), *result.metric(metric))


def _invoice(result: Headed) -> int | None:
    """What all pay for their last billing month (µUSD), a mean; None where a price is unknown."""
    latest = [{row["account"]: row["uusd"] for row in made.invoices} for made in result.replications]
    prices = [price for accounts in latest for price in accounts.values()]
    return None if None in prices else sum(prices) // len(latest)
