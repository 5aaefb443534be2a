"""What a twin counts, in the text format of Prometheus (exposition format 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ranksim.core.clock import SECOND
from ranksim.twin.facade.twin import Twin

Sample = tuple[tuple[str, ...], float]

FAMILIES = {
    "requests_total": (
        ("operation", "status"),
        "Operations answered, by name and status; those of one GraphQL request count each.",
    ),
    "attempts_total": (
        ("outcome",),
        "Webhook attempts answered: acknowledged, rejected with a status, or unanswered.",
    ),
    "attempts_out": ((), "Webhook attempts without an answer yet."),
    "jobs": (("kind", "status"), "Jobs by kind and status."),
    "faults_total": (("fault", "effect"), "What fault rules did."),
    "happenings_total": ((), "Things that happened."),
    "due_work": ((), "Pieces of work on the agenda."),
    "next_due_seconds": ((), "The instant of the next piece of work, since the epoch, on the twin's clock."),
    "clock_seconds": ((), "The twin's clock, since the epoch."),
    "clock_rate": (("mode",), "Seconds of the twin's clock for each second of wall time."),
    "writes_refused": ((), "1 while the state file cannot be written, and only reads are answered."),
    "world_info": (("world_id",), "The world that is served."),
}
"""Labels and help of each metric; those that end with `_total` are counters, the others gauges."""


def metrics(twin: Twin) -> bytes:
    """Write the metrics of a twin."""
    state, rate, due = twin.service.state, twin.clock.rate, twin.next_due()
    jobs = Counter((job.kind, job.status) for job in state.jobs.values())
    effects = (
        ((rule.id, effect), count)
        for rule in twin.faults.active.values()
        for effect, count in sorted(rule.effects.items())
    )
    samples: dict[str, float | Iterable[Sample]] = {
        "requests_total": (
            ((name, str(status)), count) for (name, status), count in sorted(twin.replies.items())
        ),
        "attempts_total": (((name,), count) for name, count in sorted(twin.attempt_counts.items())),
        "attempts_out": len(state.attempts_out),
        "jobs": sorted(jobs.items()),
        "faults_total": effects,
        "happenings_total": twin.event_log.last,
        "due_work": len(state.agenda),
        "next_due_seconds": () if due is None else due / SECOND,
        "clock_seconds": twin.now() / SECOND,
        "clock_rate": [((rate.mode,), rate.over / rate.under)],
        "writes_refused": int(bool(twin.refuses_writes)),
        "world_info": [((twin.world_id,), 1)],
    }
    return b"".join(_family(name, *FAMILIES[name], samples[name]) for name in FAMILIES)


def _family(name: str, labels: tuple[str, ...], help: str, samples: float | Iterable[Sample]) -> bytes:
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = [f"# HELP ranksim_{name} {help}", f"# TYPE ranksim_{name} {kind}"]
    for values, value in [((), samples)] if isinstance(samples, int | float) else samples:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in zip(labels, values, strict=True))
        lines.append(f"ranksim_{name}{{{pairs}}} {value!r}" if pairs else f"ranksim_{name} {value!r}")
    return ("\n".join(lines) + "\n").encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
