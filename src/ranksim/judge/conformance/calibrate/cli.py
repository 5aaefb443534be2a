"""`ranksim trace calibrate`: what a trace tells about the open choices of a deployment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ranksim.judge.conformance.calibrate.calibrate import Calibration


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
        print_out(outcome.dump() if out is None else f"{summary(outcome)}\nWritten to {out}\n")
    for finding in outcome.deviating:
        say(f"{finding.rule.name} deviates whatever is assumed; see ranksim compare")


def summary(outcome: "Calibration") -> str:
    """Return a few lines on how much was pinned."""
    from ranksim.judge.conformance.calibrate.policy_file import measure_text

    pinned = [choice for choice in outcome.choices if choice.pinned]
    lines = [f"{len(pinned)} of {len(outcome.choices)} choices pinned{':' if pinned else ''}"]
    for choice in pinned:
        mark = "" if choice.left[0] == choice.default else f" (the default is {choice.default})"
        numbers = ", ".join(f"U{number}" for number in choice.numbers)
        lines.append(f"  {numbers:9} {choice.name or choice.says}: {choice.left[0]}{mark}")
    measured = f"{len(outcome.measures)} quantities measured"
    if outcome.measures:
        measured += ", with the exchanges that show them:"
    lines.append(f"{len(outcome.statuses)} statuses seen, {measured}")
    lines += [f"  {measure_text(measure)}" for measure in outcome.measures]
    return "\n".join(lines)
