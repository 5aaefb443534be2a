"""A short summary of a recorded load: what was answered, how fast, how late, what was refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ranksim.core.records import parsed_object, read_lines
from ranksim.judge.deployment.budget import HELD_BACK
from ranksim.judge.deployment.cleanup import TIDIED
from ranksim.judge.load.consumption import UsedUp
from ranksim.judge.load.session import LOST_ON_PURPOSE
from ranksim.judge.load.thresholds import METRICS, UNPROMISED, CallCounts, Threshold, value_text
from ranksim.judge.load.untouched import Untouched, were
from ranksim.judge.report.run_summary import left_lines
from ranksim.report import units
from ranksim.report.heading import ExpectationVerdict
from ranksim.report.tables import View

AROUND = frozenset({"explore", "before", "after", "resolve"})
"""Clients that are not users: what a run does before and after the load."""

CUT = "a program was stopped before it had been once through"
"""The note of a trace that names the client whose program it was."""

MOST_NAMED = 3
"""Programs that are named of those that were stopped."""

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
    """The users' calls of a trace: answers by status and code, counts by operation, and what came besides."""

    all_calls: CallCounts = field(default_factory=CallCounts)
    operations: dict[str, CallCounts] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    """The keys that users sent with."""
    around: int = 0
    deliveries: int = 0
    held_back: int = 0
    answers: Counter[str] = field(default_factory=Counter)
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

    @classmethod
    def held_against(
        cls, trace: Path, thresholds: Collection[Threshold], policy: str | None = None
    ) -> Summary:
        """Read a trace with all that thresholds are held against; judged by a policy, where one wants that.

        Raises BadInput.
        """
        summary = cls.of(trace)
        if any(threshold.metric == UNPROMISED for threshold in thresholds):
            from ranksim.core.contract.policy import Policy
            from ranksim.judge.conformance.compare import compare  # takes a second to import

            pinned = None if policy is None else Policy.load(policy)
            summary.all_calls.unpromised = compare(trace, pinned).unpromised
        return summary

    def lines(self) -> list[str]:
        """The summary as lines of text."""
        calls = self.all_calls
        span = units.duration(calls.last - (calls.first or 0))
        rate = f"{calls.value('rate') or 0:.3g} a second"
        lines = [f"{units.many(calls.calls, 'call')} in {span}, {rate}, {units.many(len(self.keys), 'key')}"]
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
            first = ", ".join(sorted(self.cut)[:MOST_NAMED])
            lines.append(
                f"{were(len(self.cut), 'program')} stopped before having been once through "
                f"({first}{', …' if len(self.cut) > MOST_NAMED else ''}); a longer --duration shows more"
            )
        if calls.limited:
            share = units.percent(calls.limited / calls.calls)
            lines.append(
                f"rate limits turned {share} of the calls away: they bound this load, and not only the "
                "deployment; a target file with more keys loads more"
            )
        return lines

    def judged(self, thresholds: Sequence[Threshold]) -> list[ExpectationVerdict]:
        """Return of each threshold whether it holds."""
        return [threshold.judge(self._counts(threshold)) for threshold in thresholds]

    def measured(self, threshold: Threshold) -> float | None:
        """Return what a threshold is held against, None where nothing was measured."""
        return self._counts(threshold).value(threshold.metric)

    def latencies(self) -> View:
        """The calls by operation, the most frequent first: how long they took, and how many failed."""
        measured = sorted(self.operations.items(), key=lambda pair: -pair[1].calls)
        rows = [("all", self.all_calls), *measured] if len(measured) != 1 else measured
        columns = [metric for metric in METRICS if metric != "rate"]
        return View(
            "Calls by operation",
            ("operation", "calls", *columns),
            1,
            tuple(
                (
                    name,
                    units.count(counts.calls),
                    *(value_text(column, counts.value(column)) for column in columns),
                )
                for name, counts in rows
            ),
            note="Latency is from planned sending where there is a plan, without what rate limits refused.",
        )

    def rows(self) -> list[dict[str, Any]]:
        """The calls by operation as plain data: latencies in µs, shares of 1, calls a second."""
        named = {"all": self.all_calls, **self.operations}
        return [
            {"operation": name, "calls": counts.calls, **{each: counts.value(each) for each in METRICS}}
            for name, counts in named.items()
        ]

    def _counts(self, threshold: Threshold) -> CallCounts:
        operation = threshold.operation
        return self.operations.get(operation, CallCounts()) if operation else self.all_calls

    def _exchange(self, entry: dict[str, Any]) -> None:
        if entry.get("client") in AROUND:
            self.around += 1
            return
        self.answers[_answer(entry)] += 1
        self.keys.add(str(entry["api_key"]))
        if entry.get("error") == LOST_ON_PURPOSE:
            self.all_calls.calls += 1
            return
        operation = " + ".join(entry["operations"]) or entry["path"]
        for counts in (self.all_calls, self.operations.setdefault(operation, CallCounts())):
            counts.add(entry)


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
