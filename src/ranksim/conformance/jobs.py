"""Judge jobs as polled: kinds, states, and that an end is an end (S13-S16).

Polls of one job are ordered by the client's clock: a poll sent after another was received shows a later
state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ranksim.conformance.history import History, Json, Seen
from ranksim.conformance.options import Options
from ranksim.conformance.verdicts import Evidence, Rule, Tally
from ranksim.contract.facts import JobKind

KINDS = "job.kinds"
PROGRESS = "job.progress"
FINAL = "job.final"
REASON = "job.reason"
WRONG_KIND = "job.wrong_kind"

RULES = (
    Rule(KINDS, "A job's kind is one of four, and what was asked for", (14, 34), (), "everyday"),
    Rule(PROGRESS, "A job moves forward: queued, running, then done or failed", (15, 16), (39,), "everyday"),
    Rule(FINAL, "A job that has ended does not change", (15, 16), (43,), "everyday"),
    Rule(
        REASON, "error_detail gives the reason of an error ending, and only then", (13, 15), (39,), "everyday"
    ),
    Rule(WRONG_KIND, "A job is found under its own kind only", (16,), (44,), "scope"),
)

STATES = ("queued", "running", "done", "failed")
RANK = {"queued": 0, "running": 1, "done": 2, "failed": 2}


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge every job that was created or polled."""
    polls: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for seen in history.by_operation("jobs.create", "jobs.get"):
        if not seen.ok or seen.dry_run or not isinstance(seen.data, dict):
            continue
        job = seen.data
        if isinstance(job.get("id"), str):
            _judge_one(seen, job, tally)
            if not seen.replayed:  # a replay shows what was true at the first time (E6)
                polls[seen.environment, job["id"]].append(seen)
    for (_, job_id), seen_polls in polls.items():
        _judge_polls(job_id, seen_polls, tally)


def _judge_one(seen: Seen, job: dict[str, Json], tally: Tally) -> None:
    kind, status, reason = job.get("kind"), job.get("status"), job.get("error_detail")
    asked = seen.parameters.get("kind") or (seen.body or {}).get("kind")
    says = f"{seen.id} asked for a job of kind {asked} and shows kind {kind}"
    if seen.operation == "jobs.get" and seen.surface == "rest" and kind != asked and kind in set(JobKind):
        tally.differs(44, "404", f"{seen.status}", Evidence(says, (seen.id,), about=job["id"], at=seen.sent))
    else:
        holds = kind in set(JobKind) and asked in (None, kind)
        tally.check(KINDS, holds, Evidence(says, (seen.id,), about=job["id"], at=seen.sent))
    if status not in STATES:
        found = Evidence(f"{seen.id} shows status {status!r}", (seen.id,), about=job["id"], at=seen.sent)
        tally.differs(39, ", ".join(STATES), repr(status), found)
        return
    says = f"{seen.id} shows a job {status} with error_detail {reason!r}"
    found = Evidence(says, (seen.id,), about=job["id"], at=seen.sent)
    tally.check(REASON, isinstance(reason, str) == (status == "failed"), found)


def _judge_polls(job_id: str, polls: Sequence[Seen], tally: Tally) -> None:
    """Compare each poll with the one that was received last before it was sent.

    Necessary: the deployment's state at the later poll follows its state at the earlier one.
    """
    by_end = sorted(polls, key=lambda seen: seen.received)
    by_start = sorted(polls, key=lambda seen: seen.sent)
    at, known = 0, None
    for seen in by_start:
        while at < len(by_end) and by_end[at].received < seen.sent:
            known = _later(known, by_end[at])
            at += 1
        if known is not None and known is not seen:
            _judge_pair(job_id, known, seen, tally)


def _later(known: Seen | None, seen: Seen) -> Seen:
    return seen if known is None or _rank(seen) >= _rank(known) else known


def _rank(seen: Seen) -> int:
    return RANK.get(str(seen.data.get("status")), -1)


def _judge_pair(job_id: str, one: Seen, other: Seen, tally: Tally) -> None:
    before, after = one.data.get("status"), other.data.get("status")
    if before not in RANK or after not in RANK:
        tally.open(PROGRESS, "a status that is not of the four assumed")
        return
    pair = (one.id, other.id)
    says = f"the job was {before} and then {after}"
    forward = RANK[after] > RANK[before] or after == before
    tally.check(PROGRESS, forward, Evidence(says, pair, about=job_id, at=other.sent))
    if before not in ("done", "failed") or not forward:
        return
    changed = [
        name for name in ("finished_at", "error_detail", "kind", "domain_id") if _differ(one, other, name)
    ]
    says = f"the job had ended, and then its {' and '.join(changed)} changed"
    tally.check(FINAL, not changed, Evidence(says, pair, about=job_id, at=other.sent))


def _differ(one: Seen, other: Seen, name: str) -> bool:
    return name in one.data and name in other.data and one.data[name] != other.data[name]
