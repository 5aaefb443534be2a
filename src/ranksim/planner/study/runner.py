"""Running a study: its points replicated, its goals sought, its sensitivity measured, its result made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from ranksim.core.rulebook import rulebook_digest
from ranksim.planner.study import goal, pools, sensitivity
from ranksim.planner.study.design import Point, check_baseline, key_of, point, points
from ranksim.planner.study.results import StudyResult, make_tables
from ranksim.planner.study.runs import Runs
from ranksim.planner.study.spec import CheckedSpec
from ranksim.planner.study.store import Store
from ranksim.report.progress import Tell


def run(
    study: CheckedSpec,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    store: Path | None = None,
    retry_failed: bool = False,
    tell: Tell,
) -> StudyResult:
    """Run what the store does not hold yet, and give the result; `Study.run` says what the arguments are.

    Raises BadInput, also for a goal that can be reached from no point, when everything else is done.
    """
    design = points(study)
    check_baseline(study, design)
    moved = sensitivity.points(study)
    with (
        Store(store, meaning(study, design), study.spec.title or study.spec.name) as kept,
        pools.opened(workers, scheduler) as pool,
    ):
        if retry_failed:
            kept.forget_failures()
        runs = Runs(study, kept, pool, study.needed, tell)
        counts = runs.replicate([*design, *moved])
        sought = study.spec.goal
        findings = [goal.seek(study, sought, at, runs) for at in _starts(study, design)] if sought else []
        result = StudyResult(study, make_tables(study, design, moved, findings, runs, counts))
    if findings and all(finding.status == "unreachable" for finding in findings):
        where = f"{findings[0].point}: " if len(findings) > 1 else ""
        raise study.located.error(
            f"{where}cannot be reached: {findings[0].text}; widen between, or ask for less", "goal"
        )
    return result


def meaning(study: CheckedSpec, design: Sequence[Point]) -> dict[str, str]:
    """Return what the rows of a study's store mean, as digests by name."""
    engine, spec = study.engine, study.spec
    base = point(study, {}, "base")
    described = spec.model_dump(mode="json", include={"factors", "variants", "change"})
    if spec.goal is not None:
        described["goal"] = spec.goal.model_dump(mode="json", exclude={"max_replications"})
    if spec.sensitivity is not None:
        described["sensitivity"] = spec.sensitivity.model_dump(mode="json")
    described["points"] = [design_point.key for design_point in design]
    return {
        "engine": engine.name,
        "inputs": key_of(engine, engine.build({})),
        "design": _digest([described, base.key]),
        "seed": str(spec.seed),
        "sources": rulebook_digest(engine.sources),
    }


def _starts(study: CheckedSpec, design: Sequence[Point]) -> list[Point]:
    """The points from which the goal is sought: those of the design that differ beside its parameter."""
    starts: dict[str, Point] = {}
    varied = study.spec.goal.parameter if study.spec.goal else ""
    for design_point in design:
        others = {path: value for path, value in design_point.settings.items() if path != varied}
        starts.setdefault(json.dumps(others, sort_keys=True), design_point)
    return list(starts.values()) if len(starts) > 1 else [point(study, {}, "base")]


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
