"""Several traces of one deployment, judged jointly: what is joined, and what is not.

Each trace has a monotonic clock of its own, so instants and lengths of time are compared within a trace.
Joined are verdicts, cases and differences, which are of the deployment, and what earlier traces exclude of
how a key's windows run (`WindowJudge.earlier`). To know that nobody else used its accounts, a trace must not
lie beside another one that has them: which traces do is told by the deployment's clock, where both know it
by its Date headers, and by their wall clocks with slack. An Idempotency-Key of one trace that another has,
too, may be replayed there.

Whether traces are of one deployment is told by the addresses in their headers, environment by environment:
other machines are other deployments; another port or path of one machine may be one that was started again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final
from urllib.parse import urlsplit

from ranksim.core.addresses import LOOPBACK
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.core.trace import Header
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.packed import PackedObservations

SLACK: Final = 5 * MINUTE
"""How far the wall clocks of two machines may be apart."""

NEAR: Final = 2 * SECOND
"""How far two readings of one machine's clock, or of the deployment's several, may be apart."""

Span = tuple[Micros, Micros]


def address_notes(headers: Sequence[Header]) -> list[str]:
    """Return for each environment that traces have at several addresses of one machine, that it has.

    Raises BadInput where the addresses are of several machines.
    """
    notes = []
    for environment in dict.fromkeys(name for header in headers for name in header.targets):
        urls = {
            number: header.targets[environment].rstrip("/")
            for number, header in enumerate(headers, 1)
            if environment in header.targets
        }
        (first, url), *others = urls.items()
        for number, other in others:
            if _machine(url) != _machine(other):
                raise BadInput(
                    f"traces {first} and {number} are of different deployments: {environment} is {url} in "
                    f"one and {other} in the other; several traces are judged jointly only if they are of "
                    "one, so judge each by itself"
                )
        if len(set(urls.values())) > 1:
            places = ", ".join(dict.fromkeys(urls.values()))
            notes.append(
                f"the traces name several addresses of {environment} ({places}), which are taken for one "
                "deployment that moved"
            )
    return notes


def _machine(url: str) -> str | None:
    host = urlsplit(url).hostname
    return LOOPBACK[0] if host in LOOPBACK else host


def join(histories: Sequence[History]) -> None:
    """Note in each trace what others of the same deployment mean to it."""
    for trace, other in combinations(histories, 2):
        if _meet(trace, other) and not _apart(trace, other):
            trace.run.beside = other.run.beside = True
    keys = [_idempotency_keys(history) for history in histories]
    for number, history in enumerate(histories):
        others = set().union(*(theirs for place, theirs in enumerate(keys) if place != number))
        rows = history.seen
        if isinstance(rows, PackedObservations) and keys[number] & others:
            used = {
                seen.index
                for seen in rows.where(lambda seen: seen.method == "POST")
                if (seen.environment, seen.idempotency_key) in others
            }
            rows.unsure |= used
            rows.repeats |= used


def _idempotency_keys(history: History) -> set[tuple[str, str]]:
    return {
        (seen.environment, seen.idempotency_key)
        for seen in history.where(lambda seen: seen.method == "POST")
        if seen.idempotency_key is not None
    }


def _meet(first: History, other: History) -> bool:
    """Return whether two traces may be of one account: a key whose account is not told may be of any."""
    runs = first.run, other.run
    accounts = [{(key.environment, key.account) for key in run.header.keys.values()} for run in runs]
    if any(not owners or any(not account for _, account in owners) for owners in accounts):
        return True
    read = [{(environment, account) for (environment, _), account in run.read_as.items()} for run in runs]
    return not (accounts[0].isdisjoint(accounts[1]) and read[0].isdisjoint(read[1]))


def _apart(earlier: History, other: History) -> bool:
    """Return whether one trace surely was over before the other began, by either clock."""
    runs, spans = (earlier.run, other.run), (_span(earlier), _span(other))
    hosts = [run.header.clock.get("host") for run in runs]
    slack = NEAR if hosts[0] is not None and hosts[0] == hosts[1] else SLACK
    if _disjoint(*spans, slack):
        return True
    if not all(run.offset.bounded and run.rate == 1 for run in runs):
        return False
    first, second = (
        (began + run.offset.low, ended + run.offset.high)
        for (began, ended), run in zip(spans, runs, strict=True)
    )
    return _disjoint(first, second, NEAR)


def _disjoint(first: Span, other: Span, slack: Micros) -> bool:
    return first[1] + slack < other[0] or other[1] + slack < first[0]


def _span(history: History) -> Span:
    """Return when a trace began and ended, by its own clock."""
    run = history.run
    began = run.began if run.began is not None else run.header.started
    ended = max((seen.received for seen in history.seen if not seen.lost), default=began)
    return min(began, run.header.started or began), max(run.ended, began, ended)
