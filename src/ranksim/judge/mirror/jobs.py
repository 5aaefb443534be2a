"""How jobs run and when they and briefs are started, as those show that an account lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import Any

from ranksim.core.clock import DAY, HOUR, MINUTE, Micros, instant
from ranksim.judge.mirror.fitted import Fitted, fit_each
from ranksim.judge.mirror.reading import Item
from ranksim.judge.mirror.rhythm import Seen, caller
from ranksim.report import units

PERIODS = {12 * HOUR: "12h", DAY: "day", 7 * DAY: "week"}
"""What a schedule may be by the calendar."""

SLACK = 0.05
"""How far the usual time between two starts of a domain may be from a period."""

BRIEFS = "keyword_briefs"
"""What briefs are called beside the kinds of jobs."""

FEWEST_STARTS = 3
"""Starts of a domain from which on a calendar is looked for."""


def jobs_fitted(kind: str, fitted: Fitted) -> str:
    """Say to how many jobs of a kind something was fitted, and how sure it is."""
    length, failed = units.write("duration", *fitted.median), units.write("share", *fitted.failed)
    what = f"the median ends {length} after its request, {failed} fail"
    return f"{kind}: fitted to {fitted.count:,} jobs: {what}"


def fit_jobs(jobs: Iterable[Item]) -> dict[str, Fitted]:
    """Return by kind what the jobs that ended show, of kinds of which enough did.

    A length is counted from the request, as the API shows no start: waits for workers are part of it.
    """
    lengths: dict[str, list[Micros]] = {}
    failures: Counter[str] = Counter()
    for job in jobs:
        created, finished = (_instant(job.get(name)) for name in ("created_at", "finished_at"))
        if job.get("status") in ("done", "failed") and created is not None and finished is not None:
            kind = str(job.get("kind"))
            lengths.setdefault(kind, []).append(finished - created)
            failures[kind] += job.get("status") == "failed"
    return fit_each(lengths, failures, {kind: len(each) for kind, each in lengths.items()})


def unended(jobs: Iterable[Item], now: Micros) -> Iterator[str]:
    """Say how many jobs were under way when last seen, and of how many nobody knows whether they ended (µs).

    These were not shown after they were asked for, or that was longer ago than any job of their kind took, or
    of any kind where no end of theirs is there.
    """
    longest: dict[str, Micros] = {}
    waiting: list[tuple[str, str, Micros | None]] = []
    for job in jobs:
        kind, status = str(job.get("kind")), str(job.get("status", ""))
        created, finished = (_instant(job.get(name)) for name in ("created_at", "finished_at"))
        if created is not None and finished is not None:
            longest[kind] = max(finished - created, longest.get(kind, 0))
        elif status in ("", "queued", "running"):
            waiting.append((kind, status, created))
    of_any = max(longest.values(), default=now)
    running = sum(
        bool(status) and (created is None or now - created <= longest.get(kind, of_any))
        for kind, status, created in waiting
    )
    if running:
        were = "job was" if running == 1 else "jobs were"
        yield f"{running} {were} under way there when last seen, and not here"
    if old := len(waiting) - running:
        yield (
            f"of {units.many(old, 'job')} it is not known whether they have ended: no reply and no webhook "
            "tells, and none shows them, or they were asked for longer ago than any of the kind took, or of "
            "any kind where none of theirs ended"
        )


def by_chance(
    jobs: Iterable[Item], account: str, scheduled: Container[str], watched: tuple[Micros, Micros]
) -> Iterator[tuple[str, Seen]]:
    """Yield by name a client for each kind that an account starts often, at no calendar.

    Jobs were seen in the time `watched`, and before from the oldest of any kind on. Briefs are started for
    one keyword at a time.
    """
    starts: dict[str, list[Micros]] = {}
    for job in jobs:
        if (at := _instant(job.get("created_at"))) is not None:
            starts.setdefault(str(job.get("kind")), []).append(at)
    watched = min([watched[0], *(min(instants) for instants in starts.values())]), watched[1]
    for kind, instants in starts.items():
        mix = {"keyword_briefs.create": 1} if kind == BRIEFS else {"jobs.create": {"body": {"kind": kind}}}
        name = f"{account}-{kind}"
        if name not in scheduled and (seen := caller(account, None, mix, sorted(instants), watched)):
            yield name, seen


def starts_of(lists: Mapping[str, Iterable[Item]]) -> list[Item]:
    """Return the jobs that are listed, and the briefs as if they were jobs."""
    briefs = lists.get("keyword_briefs.list", ())
    return [*lists.get("jobs.list", ()), *({**brief, "kind": BRIEFS} for brief in briefs)]


def left_out(jobs: Iterable[Item], account: str, clients: Container[str]) -> Iterator[str]:
    """Say of which kinds no client starts any, and how to have one."""
    for kind, count in Counter(str(job.get("kind")) for job in jobs).items():
        if f"{account}-{kind}" not in clients:
            client = "brief_refresher" if kind == BRIEFS else "schedule"
            yield (
                f"{account}: {kind} came {units.many(count, 'time')}, by no calendar and too seldom for a "
                f"rate, so no client starts any here; add one of kind {client} to world.yaml"
            )


def schedules(
    jobs: Iterable[Item], account: str, hosts: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield by name a client for each kind of job that an account starts by the calendar.

    A kind goes by the calendar where most of its domains are started once a period, at about one time.
    """
    starts: dict[str, dict[str, list[Micros]]] = {}
    for job in jobs:
        at, domain = _instant(job.get("created_at")), str(job.get("domain_id"))
        if at is not None and domain in hosts:
            starts.setdefault(str(job.get("kind")), {}).setdefault(hosts[domain], []).append(at)
    for kind, by_host in starts.items():
        regular = {host: sorted(each) for host, each in by_host.items() if len(each) >= FEWEST_STARTS}
        gaps = [late - early for each in regular.values() for early, late in pairwise(each)]
        usual = median(gaps) if gaps else 0
        period = next((length for length in PERIODS if abs(usual / length - 1) <= SLACK), None)
        if period is None:
            continue
        first = min(min(each) % min(period, DAY) for each in regular.values())
        yield (
            f"{account}-{kind}",
            {
                **_work(kind, period, regular, len(hosts)), "account": account, "every": PERIODS[period],
                "at": f"{first // HOUR:02}:{first % HOUR // MINUTE:02}", **_weekday(period, regular),
            },
        )  # fmt: skip


def _work(kind: str, period: Micros, regular: Mapping[str, Sequence[Micros]], hosts: int) -> dict[str, Any]:
    """What is started each time, by which kind of client."""
    if kind == BRIEFS:
        starts = [at for each in regular.values() for at in each]
        occasions = len({at // period for at in starts})
        return {"kind": "brief_refresher", "keywords": round(len(starts) / occasions)}
    return {"kind": "schedule", "job": kind, "domains": "all" if len(regular) == hosts else sorted(regular)}


def _weekday(period: Micros, starts: Mapping[str, Sequence[Micros]]) -> dict[str, str]:
    """The day on which most starts of a week fall."""
    if PERIODS[period] != "week":
        return {}
    days = Counter((at // DAY + 3) % 7 for each in starts.values() for at in each)  # 1970 began on a Thursday
    names = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    return {"weekday": names[days.most_common(1)[0][0]]}


def _instant(text: Any) -> Micros | None:
    with suppress(ValueError, TypeError):
        return instant(text)
    return None
