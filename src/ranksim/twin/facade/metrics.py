"""What a twin counts, in the text format of Prometheus (exposition format 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ranksim.core.clock import SECOND
from ranksim.twin.facade.twin import Twin

Labels = Mapping[str, str]
Samples = Iterable[tuple[Labels, float]]


def metrics(twin: Twin) -> bytes:
    """Write the metrics of a twin."""
    state, clock, answered = twin.service.state, twin.clock, twin.attempt_counts.by_outcome
    kinds = Counter((job.kind, job.status) for job in state.jobs.values())
    due = twin.next_due()
    return b"".join(
        (
            _metric(
                "requests_total",
                "counter",
                "Operations answered, by name and status; those of one GraphQL request count each.",
                (
                    ({"operation": operation, "status": str(status)}, count)
                    for (operation, status), count in sorted(twin.replies.items())
                ),
            ),
            _metric(
                "attempts_total",
                "counter",
                "Webhook attempts answered: acknowledged, rejected with a status, or unanswered.",
                (({"outcome": name}, count) for name, count in sorted(answered.items())),
            ),
            _metric(
                "attempts_out",
                "gauge",
                "Webhook attempts without an answer yet.",
                _one(len(state.attempts_out)),
            ),
            _metric(
                "jobs",
                "gauge",
                "Jobs by kind and status.",
                (({"kind": kind, "status": status}, n) for (kind, status), n in sorted(kinds.items())),
            ),
            _metric(
                "faults_total",
                "counter",
                "What fault rules did.",
                (
                    ({"fault": rule.id, "effect": effect}, count)
                    for rule in twin.faults.active.values()
                    for effect, count in sorted(rule.effects.items())
                ),
            ),
            _metric("happenings_total", "counter", "Things that happened.", _one(twin.event_log.last)),
            _metric("due_work", "gauge", "Pieces of work on the agenda.", _one(len(state.agenda))),
            _metric(
                "next_due_seconds",
                "gauge",
                "The instant of the next piece of work, since the epoch, on the twin's clock.",
                () if due is None else _one(due / SECOND),
            ),
            _metric(
                "clock_seconds", "gauge", "The twin's clock, since the epoch.", _one(twin.now() / SECOND)
            ),
            _metric(
                "clock_rate",
                "gauge",
                "Seconds of the twin's clock for each second of wall time.",
                (({"mode": clock.rate.mode}, clock.rate.over / clock.rate.under),),
            ),
            _metric(
                "writes_refused",
                "gauge",
                "1 while the state file cannot be written, and only reads are answered.",
                _one(int(bool(twin.refuses_writes))),
            ),
            _metric("world_info", "gauge", "The world that is served.", (({"world_id": twin.world_id}, 1),)),
        )
    )


def _one(value: float) -> Samples:
    return (({}, value),)


def _metric(name: str, kind: str, about: str, samples: Samples) -> bytes:
    lines = [f"# HELP ranksim_{name} {about}", f"# TYPE ranksim_{name} {kind}"]
    for labels, value in samples:
        said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"ranksim_{name}{{{said}}} {value!r}" if said else f"ranksim_{name} {value!r}")
    return ("\n".join(lines) + "\n").encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
