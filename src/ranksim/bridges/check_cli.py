"""`ranksim check`: from an address and a key to verdicts, on the command line."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.load.cli_options import (
    DryRunOnly,
    Exclusive,
    Gzip,
    Host,
    Key,
    PinnedPolicy,
    SpendCap,
    TargetFile,
    hold_key,
)
from ranksim.report.terminal import print_out, rendered, say, wrapped

if TYPE_CHECKING:
    from ranksim.bridges.predicting import Model
    from ranksim.core.callers.target import Target
    from ranksim.judge.check.checking import Checking
    from ranksim.judge.check.crew import CheckRecording
    from ranksim.judge.check.plan import CheckPlan
    from ranksim.judge.conformance.compare import Judgement

DEVIATES, NOTHING_CHECKED = 1, 2

PAGE, JUNIT, JSON, POLICY = "page.html", "junit.xml", "judgement.json", "policy.yaml"
SCRIPTS, TWIN = "repro", "twin"


Time = Annotated[str, typer.Option(metavar="LENGTH", help="How long the check may take, such as 10m or 1h.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULES", help="Check these families or rules only, such as rate,webhook; may be repeated."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before anything but reading is done.")]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Print the plan, and stop.")]
Require = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help="Exit with 1 unless this conforms, as in `ranksim compare`."),
]
WithModel = Annotated[
    bool,
    typer.Option(
        "--model",
        help="Fit a twin of these accounts to what the check shows, let it get the same tasks, and show "
        "where refusals, waits and latency left what it predicts.",
    ),
]
ModelOf = Annotated[
    Path | None,
    typer.Option(
        metavar="TRACE",
        help="As --model, with a twin fitted to this earlier trace, or that of a directory: what has become "
        "slower since then is seen.",
    ),
]
ReadOnly = Annotated[
    bool,
    typer.Option(
        "--read-only",
        help="Send GETs and GraphQL queries alone, and few of them: nothing is made, changed or removed, no "
        "dry run is sent, and no rate limit reached.",
    ),
]
LimitShare = Annotated[
    str,
    typer.Option(
        metavar="PERCENT",
        help="With --read-only, the part of each rate limit that it uses at most in any window; 10% without.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write all results into this directory; a new one here without."),
]
Seed = Annotated[int | None, typer.Option(help="Seed of what is drawn.")]


def check(
    host: Host = "",
    key: Key = "",
    target: TargetFile = None,
    time: Time = "10m",
    only: Only = None,
    spend_cap: SpendCap = "",
    dry_run_only: DryRunOnly = False,
    read_only: ReadOnly = False,
    limit_share: LimitShare = "",
    exclusive: Exclusive = None,
    yes: Yes = False,
    plan_only: PlanOnly = False,
    policy: PinnedPolicy = None,
    require: Require = None,
    model: WithModel = False,
    model_of: ModelOf = None,
    out: Out = None,
    seed: Seed = None,
    gzip: Gzip = False,
) -> None:
    """Check a deployment: read what there is, plan, run what decides most, and judge it rule by rule.

    The plan says what these keys can decide and what they cannot, how long it takes and what it uses up at
    most. Beyond this machine it asks before it begins. One directory then has the trace, the page, JUnit,
    JSON and a calibrated policy. Ctrl-C ends it early: what was recorded is judged, and what was created is
    removed. Exit code 1 says that a rule deviates or a required one does not conform, 2 that nothing could
    be checked.

    Examples:

    \b
      RANKSIM_KEY=... ranksim check --host localhost:8080
      ranksim check --target deployment.yaml --time 30m --only rate,webhook
      ranksim check --target production.yaml --read-only --limit-share 5%
    """  # fmt: skip
    began = monotonic_ns() // 1_000  # what is imported below takes seconds on a busy machine
    from ranksim.core.contract.policy import Policy
    from ranksim.judge.check.deployment import CheckWanted, carried_out
    from ranksim.judge.check.live import live_view
    from ranksim.judge.conformance.compare import check_required
    from ranksim.judge.load.options import LoadOptions, length_of

    length, rules, required = length_of(time, "--time"), _named(only), tuple(require or ())
    if length < MINUTE:
        raise BadInput(f"--time: expected at least a minute, such as 10m, found {time!r}")
    check_required(required)
    hold_key(host, key, target)
    options = LoadOptions.from_arguments(
        host, target or "", "", spend_cap, dry_run_only, exclusive, gzip, seed, read_only, limit_share
    )
    deployment = options.target()
    if limit_share and not deployment.read_only:
        raise BadInput("--limit-share: expected --read-only beside it, whose pace it is")
    wants_model = model or model_of is not None
    if wants_model and deployment.read_only:
        raise BadInput("--model: reads faster than --read-only does; leave one of them out")
    pinned = policy or (Path(deployment.policy) if deployment.policy else None)
    pinned_policy = None if pinned is None else Policy.load(pinned)
    agreed = _agreement(deployment, yes=yes, plan_only=plan_only)
    directory = out or Path(options.directory(CHECK))
    _check_free(directory, gzip)
    request = CheckWanted(options, directory, length, rules, pinned_policy, wants_model)
    fitted = _model(deployment, length, model_of, options.seed) if wants_model and not plan_only else None
    done = carried_out(request, agreed, live_view, _stopping, began, _try_report)
    if done is not None:
        _report(*done, fitted, str(pinned or ""), required)


CHECK = "check"
"""What the directory of results is named after, where none is given."""


def _model(deployment: "Target", length: Micros, earlier: Path | None, seed: int | None) -> "Model":
    """Read the accounts for a twin, and the run that it is to be fitted to instead of the check."""
    from ranksim.bridges.predicting import Model, Reference
    from ranksim.judge.mirror.mirror import mirrored

    reference = None if earlier is None else Reference.read(earlier)
    return Model(mirrored(deployment, length), reference, seed or 0)


def _agreement(deployment: "Target", *, yes: bool, plan_only: bool) -> "Callable[[CheckPlan], Micros | None]":
    """Return what prints a plan, and asks somebody beyond this machine whether to carry it out.

    It returns how long it waited for an answer, None for a no. Raises BadInput where nobody can be asked.
    """
    from ranksim.judge.check.checking import monotonic
    from ranksim.judge.check.plan_text import plan_lines
    from ranksim.judge.load.leaked_resources import staying
    from ranksim.judge.load.options import is_local

    asking = not (is_local(deployment) or yes or plan_only or deployment.read_only)
    if asking and not sys.stdin.isatty():
        raise BadInput(
            "--yes: expected beyond this machine where nobody can be asked; --plan-only shows the plan first"
        )

    def agreed(plan: "CheckPlan") -> Micros | None:
        print_out(wrapped("".join(f"{line}\n" for line in plan_lines(plan))))
        start = monotonic()
        go = not plan_only and _agreed(asking, bool(staying(plan.reach.lacks)))
        return monotonic() - start if go else None

    return agreed


def _agreed(asking: bool, stays: bool) -> bool:
    """Ask whether to go on, on a terminal, with what `stays` for good where something does."""
    question = "Go on, and leave there what cannot be removed?" if stays else "Go on?"
    if asking and not typer.confirm(question, default=False, err=True):
        say("nothing was done but reading")
        return False
    return True


def _try_report(checking: "Checking", judgement: "Judgement") -> None:
    """Make the reports of a judgement, and throw them away."""
    from ranksim.judge.conformance.report.as_dict import judgement_data
    from ranksim.judge.report import judgement as report
    from ranksim.judge.report.judgement_page import page

    document = judgement_data(judgement)
    document["check"] = _about(checking, checking.recording)
    rendered(report.summary(document))
    page(document)


def _report(
    checking: "Checking",
    recording: "CheckRecording",
    model: "Model | None",
    policy: str,
    required: tuple[str, ...],
) -> None:
    """Write what a check leaves, print what it found, and end with its exit code."""
    from ranksim.judge.conformance.compare import check_required
    from ranksim.judge.conformance.exhibits import exhibits
    from ranksim.judge.conformance.report.as_dict import judgement_data
    from ranksim.judge.conformance.reproduction.script import write_scripts
    from ranksim.judge.load.summary import RefusedDomains
    from ranksim.judge.report import judgement as report
    from ranksim.judge.report.run_summary import overspent

    assert checking.judgement is not None
    checking.troubles += RefusedDomains.of(recording.lines()).lines()
    judgement = checking.judgement.about({*checking.plan.rules, *check_required(required)})
    evidence, scripts = None, dict[str, str]()
    if checking.whole:
        evidence = exhibits([recording.trace], judgement)
        with suppress(OSError, BadInput):  # what else cannot be written there is told
            scripts = write_scripts([recording.trace], judgement, evidence, recording.trace.parent / SCRIPTS)
    document = judgement_data(
        judgement,
        trace=str(recording.trace) if checking.whole else str(recording.directory),
        policy=policy,
        required=required,
        model=None if model is None else model.beside(checking, recording.trace.parent / TWIN),
        exhibits=evidence,
        scripts=scripts,
    )
    document["check"] = _about(checking, recording)
    parts = [f"{line}\n" for line in overspent(document["check"])]
    parts += [
        rendered(report.summary(document)),
        wrapped("".join(_ending(document["check"], checking, recording))),
    ]
    try:
        parts += [f"{line}\n" for line in _write(document, checking, recording)]
    except (OSError, BadInput) as error:
        parts.append(f"not written: {error}\n")
    print_out(*parts, wrapped(f"{report.headline(document)}\n"))
    if report.fails(document):
        raise typer.Exit(DEVIATES)
    if not document["check"]["tasks"]:
        raise typer.Exit(NOTHING_CHECKED)


def _about(checking: "Checking", recording: "CheckRecording") -> dict[str, Any]:
    """Return what reports tell of a check beside its judgement."""
    from ranksim.judge.check.plan_text import plan_lines
    from ranksim.judge.load.untouched import Untouched

    target = checking.plan.reach.target
    return {
        "time": checking.plan.time,
        "took": checking.elapsed,
        "calls": checking.answers.total(),
        "plan": plan_lines(checking.plan),
        "rules": list(checking.plan.rules),
        "tasks": {name: count for name, count in sorted(checking.rounds.begun.items()) if count},
        "not_run": checking.not_run(),
        "titles": {task.name: task.title for task in checking.plan.tasks},
        "undecided": checking.undecided_because(),
        "troubles": checking.troubles,
        "left": [asdict(part) for part in checking.left],
        "untouched": Untouched.of(recording.lines()).lines(),
        "spent": checking.spent,
        "spend_cap": target.spend_cap,
        "exclusive": target.exclusive,
        "accounts": [asdict(part) for part in checking.money],
    }


def _ending(check: dict[str, Any], checking: "Checking", recording: "CheckRecording") -> list[str]:
    """Return the lines that say what was not decided and not run, what was used up, what was not removed."""
    from ranksim.judge.report.run_summary import by_reason, left_lines, spent_lines
    from ranksim.report import units

    decided = len(check["rules"]) - len(check["undecided"])
    lines = ["", f"decided: {decided} of {units.many(len(check['rules']), 'rule')}"]
    lines += [f"  not {names}: {why}" for why, names in by_reason(check["undecided"])]
    lines += [f"did not run: {check['titles'][name]}: {why}" for name, why in check["not_run"].items()]
    lines.append(
        f"{units.many(checking.answers.total(), 'call')} of tasks in {units.duration(checking.elapsed)}"
    )
    lines += spent_lines(check["accounts"], exclusive=check["exclusive"])
    lines += [f"trouble: {text}" for text in checking.troubles]
    lines += check["untouched"]
    if checking.left:
        lines.append("created, and not removed:")
        lines += [f"  {text}" for text in left_lines(check["left"])]
        lines.append(
            f"`ranksim check tidy {recording.trace.parent}` tries again, with the same address and keys"
        )
    if not checking.whole:
        lines.append(f"the trace was not written; what was recorded lies in {recording.directory}")
    return [f"{line}\n" for line in lines]


def _write(document: dict[str, Any], checking: "Checking", recording: "CheckRecording") -> list[str]:
    """Write the page, JUnit, JSON and the calibrated policy beside the trace; return what to say of them.

    The policy comes last: it tries as many options as time allows.
    """
    from ranksim.core.files import write_file
    from ranksim.judge.conformance.calibrate.calibrate import calibrate
    from ranksim.judge.conformance.report.as_dict import as_document
    from ranksim.judge.report.judgement_page import page
    from ranksim.judge.report.junit import junit
    from ranksim.report import units
    from ranksim.report.document import as_text

    folder, lines = recording.trace.parent, []

    names = [recording.trace.name] if recording.trace.exists() else []
    texts = {PAGE: page(document), JUNIT: junit(document), JSON: as_text(as_document(document))}
    for name, text in texts.items():
        write_file(folder / name, text)
    names += texts
    if recording.trace.exists() and checking.judgement is not None:
        calibrated = calibrate(
            checking.judgement.history, checking.policy, enough=lambda: checking.left_of_time < SECOND
        )
        write_file(folder / POLICY, calibrated.dump())
        names.append(POLICY)
        if calibrated.untried:
            untried = units.many(len(calibrated.untried), "assumption")
            lines.append(
                f"{POLICY}: there was no time to try every option of {untried}; "
                f"`ranksim trace calibrate {recording.trace}` does"
            )
    names += [f"{SCRIPTS}/"] if (folder / SCRIPTS).exists() else []
    return [*lines, f"written to {folder}: {', '.join(names)}"]


@contextmanager
def _stopping(checking: "Checking") -> Iterator[None]:
    """Have the first signal end the check in good order, and the second at once."""

    def stop(number: int, frame: object) -> None:
        checking.ask_to_stop()

    before = [signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


def _named(only: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in only or () for name in text.split(",") if name.strip())


def _check_free(out: Path, packed: bool) -> None:
    from ranksim.judge.load.run import trace_path

    if trace_path(out, packed).name not in ("trace.jsonl", "trace.jsonl.gz"):
        raise BadInput(f"{out}: holds a trace already; give another directory with --out")
