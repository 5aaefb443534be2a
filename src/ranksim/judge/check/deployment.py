"""A check of a deployment from its plan to its recording; and from Python, to its judgement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.policy import Policy
from ranksim.judge.check import plan as planning
from ranksim.judge.check.checking import Checking, monotonic
from ranksim.judge.check.crew import CheckRecording, Crew
from ranksim.judge.check.plan import MODELS, REPORTS, Closing
from ranksim.judge.conformance.compare import RULES, Judgement
from ranksim.judge.conformance.report.judged_trace import JudgedTrace, as_judged
from ranksim.judge.load.leaked_resources import tidy
from ranksim.judge.load.options import LoadOptions, key_in_environment, length_of
from ranksim.judge.load.run import reach_from_message


@dataclass(frozen=True, slots=True)
class CheckWanted:
    """What is to be checked: where, for how long at most (µs), which rules, what is taken for granted."""

    options: LoadOptions
    out: Path
    length: Micros
    only: tuple[str, ...] = ()
    policy: Policy | None = None
    model: bool = False
    """Whether a twin is to get the same tasks, which takes time in the end."""


Watching = Callable[[], AbstractContextManager[Callable[[Checking], None]]]
"""Begins to show a check under way; gives what is told that there is news."""

Stopping = Callable[[Checking], AbstractContextManager[None]]
"""Lets a check be stopped while it runs."""


def carried_out(
    wanted: CheckWanted,
    agreed: Callable[[planning.CheckPlan], Micros | None],
    watching: Watching = lambda: nullcontext(lambda checking: None),
    stopping: Stopping = lambda checking: nullcontext(),
    began: Micros | None = None,
    report: Callable[[Checking, Judgement], object] | None = None,
) -> tuple[Checking, CheckRecording] | None:
    """Read what there is, plan, and run the check if the plan is `agreed` to; else return None.

    What agrees returns how long it waited for somebody (µs), which does not count, or None for a no.

    Its time counts from `began`, by `monotonic`, where that is not now. `report` makes what whoever calls it
    makes of a judgement in the end.

    Raises BadInput.
    """
    planning.wanted_rules(RULES, wanted.only)
    began = monotonic() if began is None else began
    crew = Crew(
        {
            "options": asdict(wanted.options),
            "out": str(wanted.out),
            "seed": wanted.options.seed,
            "gzip": wanted.options.gzip,
            "opening": max(SECOND, began + wanted.length - Closing(wanted.length).least - monotonic()),
        }
    )
    try:
        opened = crew.opened()
        reach = reach_from_message(opened["reach"], wanted.options.target())
        read = monotonic() - began
        plan = planning.make_plan(
            reach, RULES, wanted.length, wanted.only, receiver=opened["receiver"], read=read
        )
        waited = agreed(plan)
        if waited is None:
            crew.tell(abandon=True)
            return None
        planning.check_runs(plan)
        recording = CheckRecording.of(opened)
        reports = REPORTS + MODELS * wanted.model
        with watching() as show:
            clock = recording.clock
            checking = Checking(
                plan,
                crew,
                recording,
                wanted.policy,
                show,
                began + waited,
                reports,
                lambda created, length: tidy(reach, created, clock, clock.now() + length).listed(),
                report=report,
            )
            with stopping(checking):
                checking.run()
        return checking, recording
    except BaseException:
        crew.tell(abandon=True)
        raise
    finally:
        crew.close()


def check(
    host: str = "",
    *,
    key: str = "",
    target: str | Path = "",
    length: str | timedelta = "10m",
    only: Sequence[str] = (),
    spend_cap: str = "",
    dry_run_only: bool = False,
    read_only: bool = False,
    limit_share: str = "",
    exclusive: bool | None = None,
    policy: Policy | None = None,
    out: str | Path = "",
    seed: int | None = None,
) -> JudgedTrace:
    """Check a deployment as `ranksim check --yes` does, and return the judgement; the trace lies in `out`.

    It has a base URL and a key, which without `key` is that of the environment variable RANKSIM_KEY, or is
    told by a `target` file. It takes `length` ("10m", or a timedelta) at most and spends `spend_cap` at
    most, an amount such as "5 USD", or "none" for no cap; without, 2 USD or what the target file says. `only`
    names families or rules. With `read_only` it only reads, by at most `limit_share` ("10%") of each rate
    limit. Nobody is asked. Raises BadInput.
    """
    options = LoadOptions.from_arguments(
        host, target, out, spend_cap, dry_run_only, exclusive, False, seed, read_only, limit_share
    )
    wanted = CheckWanted(options, options.directory("check"), length_of(length), tuple(only), policy)
    with key_in_environment(key):
        done = carried_out(wanted, lambda plan: 0)
    assert done is not None  # all plans are agreed to
    checking, recording = done
    return as_judged(checking.judgement or recording.judged(policy), recording.trace)
