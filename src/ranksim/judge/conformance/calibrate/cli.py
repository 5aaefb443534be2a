"""`ranksim trace calibrate`: what a trace tells about the open choices of a deployment."""

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="The recorded trace (.gz and .xz too).")],
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take for granted what this policy states, and begin from it."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="POLICY.yaml", help="Write the policy here, for compare, serve and run; printed without."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Find out from a trace which options a deployment takes, and write them as a policy.

    For every assumption that the trace can pin: what is left, and the exchanges that exclude the rest. What
    it cannot pin is listed with what would. `ranksim check load --profile calibration` shows the most.

    Examples:

    \b
      ranksim trace calibrate run/trace.jsonl
      ranksim trace calibrate run/trace.jsonl --out deployment.yaml
    """  # fmt: skip
    from ranksim.core.contract.policy import Policy
    from ranksim.core.files import check_outputs, write_file
    from ranksim.judge.conformance.calibrate.calibrate import calibrate as examine
    from ranksim.report.progress import show_progress
    from ranksim.report.terminal import print_out, say

    check_outputs((out,), (trace,))
    base = None if policy is None else Policy.load(policy)
    with show_progress("calibrating") as tell:
        outcome = examine(trace, base, progress=tell)
    if out is not None:
        write_file(out, outcome.dump())
    if json:
        print_out(outcome.to_json())
    else:
        print_out(outcome.dump() if out is None else f"{outcome.summary()}\nWritten to {out}\n")
    for finding in outcome.deviating:
        say(f"{finding.rule.name} deviates whatever is assumed; see ranksim compare")
