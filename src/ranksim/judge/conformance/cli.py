"""`ranksim compare` and `ranksim explain`: judge a recorded trace, and tell what the ids in reports mean."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer

from ranksim.judge.load.cli_options import PinnedPolicy
from ranksim.report.options import JsonNotSummary, JsonNotText, Junit
from ranksim.report.terminal import print_out, rendered, wrapped

DEVIATES = 1


Traces = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="TRACE...",
        help="Recorded traces (.gz and .xz too), or directories of runs; several are of one deployment.",
    ),
]
ModelResult = Annotated[
    Path | None,
    typer.Option(
        metavar="RESULT",
        help="Show refusals, waits, delays and latencies beside this result of `ranksim run S --arrivals "
        "TRACE --out RESULT`: result.json or its directory.",
    ),
]
Baseline = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="TRACE",
        help="Compare with this trace of another build: latency by operation, refusals, verdicts that "
        "changed. May be given several times.",
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE",
        help="Exit with 1 unless this rule conforms: a rule, a family such as rate, a fact such as S102, "
        "or all; with :all behind, as in rate:all, in every case it has. May be given several times.",
    ),
]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write one self-contained page here.")]
Repro = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write a shell script for each rule that deviates into this directory, which makes what it "
        "needs, shows the deviation by curl and removes what it made.",
    ),
]
Processes = Annotated[
    int,
    typer.Option(min=1, help="Processes that share the families; the result does not depend on it."),
]
ListRules = Annotated[
    bool,
    typer.Option(
        "--rules", allow_from_autoenv=False, help="List the rules and what would exercise them, and stop."
    ),
]


def compare(
    traces: Traces = None,
    policy: PinnedPolicy = None,
    model: ModelResult = None,
    against: Baseline = None,
    require: Require = None,
    html: Html = None,
    junit: Junit = None,
    repro: Repro = None,
    json: JsonNotSummary = False,
    workers: Processes = 1,
    rules: ListRules = False,
) -> None:
    """Judge a trace rule by rule: did the deployment behave as the model says it should?

    A rule deviates only if no placement of the calls within their intervals explains what was seen. Exit code
    1 says that a rule deviates or a required one does not conform, 2 that the input is wrong. Catalogues are
    compared by `ranksim price compare`. With --against it says 1, too, where the build is slower by over 5 %.

    Examples:

    \b
      ranksim compare run/trace.jsonl
      ranksim compare monday tuesday run/trace.jsonl
      ranksim compare run/trace.jsonl --html page.html --require rate --require S47
      ranksim compare new --against old
    """  # fmt: skip
    from ranksim.core.errors import BadInput
    from ranksim.core.files import check_outputs
    from ranksim.judge.conformance.report.as_dict import as_document
    from ranksim.judge.report import judgement as report
    from ranksim.judge.report.build_views import build_sentence, slower
    from ranksim.report.document import as_text

    if rules:
        print_out(wrapped(_listed()))
        return
    if not traces:
        raise BadInput("compare: no trace was given; expected the file that `ranksim check load` wrote")
    found_in = traces_in(traces)
    check_outputs((html, junit), (*found_in, policy, model))
    baseline = traces_in(against or ())
    document = _judged(found_in, policy, model, baseline, tuple(require or ()), workers, repro)
    _write(document, html, junit)
    print_out(as_text(as_document(document)) if json else rendered(report.summary(document)))
    builds = document["builds"]
    if builds is not None and not json:
        print_out(f"\n{build_sentence(builds)}\n")
    if report.fails(document) or (builds is not None and slower(builds)):
        raise typer.Exit(DEVIATES)


def _ids(incomplete: str) -> list[str]:
    """The ids that a shell completes a word to."""
    from ranksim.judge.conformance.explain import names

    return [name for name in names() if name.startswith(incomplete)]


def explain(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...",
            help="What stands in a report: S105, U34, E12, rate.headers, rate, quota_exhausted.",
            autocompletion=_ids,
        ),
    ],
    json: JsonNotText = False,
) -> None:
    """Tell what an id means: its text, the rules that judge it, and the code that decides it.

    Example: ranksim explain S105 quota_exhausted
    """
    from ranksim.judge.conformance.explain import explain as explained
    from ranksim.report.document import as_text, document

    explanations = [explained(name) for name in names]
    if json:
        rows = [explanation.as_dict() for explanation in explanations]
        print_out(as_text(document("explain", "What ids mean", tables={"explained": rows})))
    else:
        print_out(wrapped("\n".join(explanation.text() for explanation in explanations)))


def show(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE... ID...",
            help="The recorded traces, or directories of runs, that were judged; then what a report names.",
        ),
    ],
) -> None:
    """Print exchanges whole, as curl lines too, with what replies around them state of windows and meters.

    An id is an exchange's, or a webhook attempt's (event and number). One of a report on several traces needs
    these traces, in the same order.

    Examples:

    \b
      ranksim trace show run/trace.jsonl 0.38
      ranksim trace show monday tuesday 2/0.38 evt_17/1
    """  # fmt: skip
    from ranksim.core.errors import BadInput
    from ranksim.judge.conformance.showing import render_ids

    first, *rest = map(Path, given)
    paths = [first, *takewhile(Path.exists, rest)]
    ids = given[len(paths) :]
    if not ids:
        raise BadInput(f"{given[-1]}: expected ids of a report behind the traces, such as 0.38")
    text, unknown = render_ids(traces_in(paths), ids)
    print_out(text)
    if unknown:
        raise BadInput(unknown)


TRACES = ("trace*.jsonl", "trace*.jsonl.gz", "trace*.jsonl.xz")
"""What traces are called in the directory of a run."""


def traces_in(given: Sequence[Path]) -> list[Path]:
    """Return the traces that are given, those of a directory and what is in it among them, each once.

    Raises BadInput for a directory without any.
    """
    from ranksim.core.errors import BadInput
    from ranksim.core.files import resolved

    traces = dict[Path, Path]()
    for path in given:
        inside = [path]
        if path.is_dir():
            inside = sorted(trace for pattern in TRACES for trace in path.rglob(pattern))
            if not inside:
                raise BadInput(f"{path}: has no trace; expected {' or '.join(TRACES)} in it or below")
        for trace in inside:
            traces.setdefault(resolved(trace), trace)
    return list(traces.values())


def _judged(
    traces: Sequence[Path],
    policy: Path | None,
    model: Path | None,
    baseline: Sequence[Path],
    required: tuple[str, ...],
    workers: int = 1,
    repro: Path | None = None,
) -> dict[str, Any]:
    from ranksim.core.contract.policy import Policy
    from ranksim.core.errors import BadInput
    from ranksim.judge.conformance.compare import RULES, check_required, compare_all
    from ranksim.judge.conformance.exhibits import exhibits
    from ranksim.judge.conformance.rate.table import table_rules
    from ranksim.judge.conformance.report.as_dict import judgement_data
    from ranksim.judge.conformance.report.builds import compare_builds
    from ranksim.judge.conformance.report.model_fit import against, read_result
    from ranksim.judge.conformance.reproduction.script import write_scripts
    from ranksim.report.progress import show_progress

    pinned_policy = None if policy is None else Policy.load(policy)
    check_required(required, (*RULES, *table_rules(pinned_policy or Policy())))
    if model is not None and len(traces) > 1:
        raise BadInput(f"--model: a result is of one trace; expected one beside it, found {len(traces)}")
    result = None if model is None else read_result(model)
    with show_progress("judging") as tell:
        judgement = compare_all(traces, pinned_policy, tell, workers)
        before = compare_all(baseline, pinned_policy, tell, workers) if baseline else None
    evidence = exhibits(traces, judgement)
    return judgement_data(
        judgement,
        trace=[str(trace) for trace in traces],
        policy=str(policy or ""),
        required=required,
        model=None if result is None else against(judgement.history, result),
        builds=None if before is None else compare_builds(before, judgement),
        exhibits=evidence,
        scripts={} if repro is None else write_scripts(traces, judgement, evidence, repro),
    )


def _write(document: dict[str, Any], html: Path | None, junit: Path | None) -> None:
    if html is None and junit is None:
        return
    from ranksim.core.files import write_file
    from ranksim.judge.report.judgement_page import page
    from ranksim.judge.report.junit import junit as as_junit

    for path, text_of in ((junit, as_junit), (html, page)):
        if path is not None:
            write_file(path, text_of(document))


def _listed() -> str:
    from ranksim.judge.conformance.compare import RULES

    rows = []
    for rule in RULES:
        facts = ", ".join(f"S{number}" for number in rule.facts)
        rows.append(f"{rule.name:26} {rule.says} ({facts}) [{rule.exercise}]")
        rows += [f"{'':26} cases: {', '.join(rule.cases)}"] if rule.cases else []
    return "\n".join(rows) + "\n"
