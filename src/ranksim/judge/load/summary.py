"""A short summary of a recorded load: what was answered, how fast, how late, what was refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ranksim.core.clock import SECOND, Micros
from ranksim.core.records import parsed_object, read_lines
from ranksim.judge.deployment.budget import HELD_BACK
from ranksim.judge.deployment.cleanup import TIDIED
from ranksim.judge.load.consumption import UsedUp
from ranksim.judge.load.untouched import Untouched, were
from ranksim.judge.report.run_summary import left_lines
from ranksim.report import units

AROUND = frozenset({"explore", "before", "after", "resolve"})
"""Clients that are not users: what a run does before and after the load."""

CUT = "a program was stopped before it had been once through"
"""The note of a trace that names the client whose program it was."""

QUANTILES = (0.5, 0.9, 0.99, 1.0)


LIMITS = (402, 403)
"""Statuses by which an account or a key refuses one more domain; other refusals are provoked or pass."""


@dataclass(slots=True)
class RefusedDomains:
    """Domains that were asked for, from the lines of a trace: made, and refused, by the name of the key.

    Where none could be made, what goes on within one was not exercised.
    """

    bound: set[str] = field(default_factory=set)
    """Keys that are bound to one domain, and never make any."""
    environments: dict[str, str] = field(default_factory=dict)
    """Where each key belongs; it makes nothing elsewhere."""
    made: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    why: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> RefusedDomains:
        """Read a trace."""
        refused = cls()
        for line in lines:
            refused.take(line)
        return refused

    def take(self, line: Mapping[str, Any]) -> None:
        """Learn from a line."""
        if line.get("kind") != "exchange":
            for name, key in (line.get("keys") or {}).items():
                self.environments[name] = str(key.get("environment"))
                self.bound |= {name} if key.get("domain_id") else set()
            return
        key, status = str(line.get("api_key")), line.get("status")
        is_creation = line.get("operations") == ["domains.create"]
        home = self.environments.get(key) == line.get("environment")
        if status is None or not is_creation or not home or key in self.bound:
            return
        self.made[key] += status < 300
        if status in LIMITS:
            self.refused[key] += 1
            reply = parsed_object(line.get("response") or "") or {}
            self.why[key] = f"{status} {reply.get('code') or ''}".strip()

    def lines(self) -> list[str]:
        """Say of each key that was refused domains how many, and what would help."""
        return [
            f"{units.count(number)} of {units.many(self.made[key] + number, 'domain')} could not be made "
            f"with the key {key} ({self.why[key]}): what goes on within one was not exercised there; "
            "`use_domains` in a target file names some that may be used"
            for key, number in sorted(self.refused.items())
        ]


@dataclass(slots=True)
class Summary:
    """The users' calls of a trace: answers by status and code, latencies in µs, and what came besides."""

    calls: int = 0
    around: int = 0
    deliveries: int = 0
    held_back: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    latencies: list[Micros] = field(default_factory=list)
    from_planned: list[Micros] = field(default_factory=list)
    first: Micros | None = None
    last: Micros = 0
    notes: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    used_up: UsedUp = field(default_factory=UsedUp)
    left: list[Mapping[str, Any]] | None = None
    """What was created and not removed; None where that is not known."""
    untouched: Untouched = field(default_factory=Untouched)
    refused_domains: RefusedDomains = field(default_factory=RefusedDomains)

    @classmethod
    def of(cls, trace: Path) -> Summary:
        """Read a trace that a load run wrote."""
        summary = cls()
        for line in read_lines(trace):
            entry = json.loads(line)
            summary.untouched.take(entry)
            summary.refused_domains.take(entry)
            match entry.get("kind"):
                case "exchange":
                    summary._exchange(entry)
                    summary.used_up.exchange(entry)
                case "delivery":
                    summary.deliveries += 1
                case "note":
                    summary.notes.append(entry["text"])
                    summary.held_back += entry.get("calls", 0) if entry["text"] == HELD_BACK else 0
                    if entry["text"] == TIDIED:
                        summary.left = entry["left"]
                    if entry["text"] == CUT:
                        summary.cut.append(str(entry.get("client", "")))
                case _:
                    summary.used_up.header(entry)
        return summary

    @property
    def rate(self) -> float:
        """Calls a second."""
        span = self.last - (self.first or 0)
        return self.calls * SECOND / span if span > 0 else 0.0

    def lines(self) -> list[str]:
        """The summary as lines of text."""
        span = units.duration(self.last - (self.first or 0))
        lines = [f"{units.many(self.calls, 'call')} in {span}, {self.rate:.3g} a second"]
        lines += [f"  {units.count(number):>8}  {answer}" for answer, number in self.answers.most_common()]
        if self.held_back:
            lines.append(f"{were(self.held_back, 'call')} held back, to spend no more than is allowed")
        lines.append(f"{units.many(self.around, 'call')} before and after the load, "
                     f"{units.count(self.deliveries)} webhook "
                     f"{'delivery' if self.deliveries == 1 else 'deliveries'}")  # fmt: skip
        lines += self.used_up.lines()
        lines += [
            f"not all that {amount.account} spent is known: {amount.unread}"
            for amount in self.used_up.by_account()
            if amount.unread
        ]
        lines += [*self.untouched.lines(), *self.refused_domains.lines()]
        if self.left:
            lines.append("created, and not removed:")
            lines += [f"  {line}" for line in left_lines(self.left)]
        if self.cut:
            lines.append(
                f"{were(len(self.cut), 'program')} stopped before having been once through "
                f"({', '.join(sorted(self.cut))}); a longer --duration shows more"
            )
        if self.latencies:
            lines.append(f"latency from sending        {_quantiles(self.latencies)}")
        if self.from_planned:
            lines.append(f"latency from planned sending {_quantiles(self.from_planned)}")
        return lines

    def _exchange(self, entry: dict[str, Any]) -> None:
        if entry.get("client") in AROUND:
            self.around += 1
            return
        self.calls += 1
        sent, received, planned = entry["sent"], entry["received"], entry["planned"]
        self.first = sent if self.first is None else min(self.first, sent)
        self.last = max(self.last, received or sent)
        self.answers[_answer(entry)] += 1
        if received is not None:
            self.latencies.append(received - sent)
            if planned is not None:
                self.from_planned.append(received - planned)


def _answer(entry: dict[str, Any]) -> str:
    """Name what was answered: 202, 429 rate_limited, or why nothing was."""
    status = entry["status"]
    if status is None:
        return f"no reply: {entry['error']}"
    if status < 400:
        return str(status)
    reply = parsed_object(entry["response"])
    if reply is None:
        return f"{status} without a problem document"
    return f"{status} {reply.get('code') or _graphql_code(reply)}".strip()


def _graphql_code(reply: dict[str, Any]) -> str:
    """The code of the first of a GraphQL reply's errors, or ""."""
    match reply:
        case {"errors": [{"extensions": {"code": str(code)}}, *_]}:
            return code
        case _:
            return ""


def _quantiles(values: list[Micros]) -> str:
    ordered = sorted(values)
    texts = []
    for share in QUANTILES:
        at = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        name = "longest" if share == 1 else f"{share * 100:g} %"
        texts.append(f"{name} {units.duration(at)}")
    return ", ".join(texts)
