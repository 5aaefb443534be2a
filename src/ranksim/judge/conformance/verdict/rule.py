"""A rule of conformance, declared once: what it says, and which ways to break facts its cases would show.

A rule stands beside the judge that decides it. What is printed of rules is read from here: their pages and
explanations, the plan of a check, what evidence shows, and which finding only follows from another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from string import Template
from typing import Final

from ranksim.core.clock import format_duration
from ranksim.core.contract.facts import Facts

ANY: Final = "any"
"""The case of a rule that is not split, and of an instance that is of no case."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to break a fact (by its S number), and the case of a rule, or several, that would show it.

    In `says`, `{}` stands for the name of each case. A case with a word in braces is one of many: of each
    key, or of each metric.
    """

    fact: int
    says: str
    cases: str | tuple[str, ...] = ANY

    def each(self) -> Iterator[tuple[str, str]]:
        """Return for each case what the way is, and the case."""
        for case in (self.cases,) if isinstance(self.cases, str) else self.cases:
            yield self.says.replace("{}", case), case


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that a trace can show to be broken.

    `name` is "family.rule", `text` the rule in one sentence, with `$name` for stated numbers (`numbers_of`),
    `facts` the S numbers it states, `assumptions` the U numbers it leans on. `exercise` tells what run would
    exercise it, beginning with the profile's name.
    """

    name: str
    text: str
    facts: tuple[int, ...]
    assumptions: tuple[int, ...] = ()
    exercise: str = ""
    cases: tuple[str, ...] = ()
    """The cases that it has at any deployment; those of keys or plans are told by `Tally.expect`."""
    ways: tuple[Way, ...] = ()
    """The ways to break facts that its cases would show."""

    @property
    def says(self) -> str:
        """The rule in one sentence, with the numbers of the specification."""
        return self.under(Facts())

    def under(self, facts: Facts) -> str:
        """Return the rule in one sentence, with the numbers that a policy states."""
        return Template(self.text).substitute(numbers_of(facts)) if "$" in self.text else self.text


def numbers_of(facts: Facts) -> dict[str, str]:
    """Return the stated numbers that texts of rules have, by the names that they have there."""
    rates = facts.rates
    return {
        "reads": str(rates.read),
        "writes": str(rates.write),
        "expensive": str(rates.expensive),
        "window": format_duration(facts.rate_window),
        "page": str(facts.page_default),
        "largest": str(facts.page_max),
        "retention": format_duration(facts.idempotency_retention),
        "timeout": format_duration(facts.webhook_timeout),
        "delays": ", ".join(map(format_duration, facts.webhook_delays)),
        "attempts": str(facts.webhook_attempts),
    }
