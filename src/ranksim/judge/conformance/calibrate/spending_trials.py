"""What accounts spent, judged under many options in one go: what they did is put together once for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ranksim.core.clock import Micros
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.spending import RULES, SpendingJudge, SpendingPart
from ranksim.judge.conformance.spending.statements import BusinessClock
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Tally


@dataclass(frozen=True, slots=True)
class SpendingTrial:
    """One part of judging what was spent, under some options, and what it found."""

    part: SpendingPart
    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))


@dataclass
class SpendingTrials:
    """A judge that judges each account under the options of each trial.

    Once there was `enough` it leaves out what is left, so a trial may have found less than there is.
    """

    options: Options
    trials: Sequence[SpendingTrial]
    enough: Callable[[], bool]
    cut: bool = False
    """Whether anything was left out."""
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    watching: SpendingJudge = field(init=False)

    def __post_init__(self) -> None:
        self.watching = SpendingJudge(self.options)
        self.wants = self.watching.wants

    def see(self, exchange: Observation) -> None:
        """Keep an exchange with its account."""
        self.watching.see(exchange)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Keep what may state the end of a job."""
        self.watching.see_attempt(attempt)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge each account that was idle for a month; at the end, every one."""
        clock = BusinessClock(run)
        for activity in self.watching.accounts.activity(watermark, run, self.options):
            for trial in self.trials:
                if self.enough():
                    self.cut = True
                    return
                trial.part(AccountAudit(activity, clock, trial.options, trial.tally))
