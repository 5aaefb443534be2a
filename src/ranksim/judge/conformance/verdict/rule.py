"""A rule of conformance, declared once beside the judge that decides it.

Whatever is printed or planned by rules is read from their declarations: the page of what is judged,
explanations, the plan of a check, what evidence shows, and which finding only follows from another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from string import Template
from typing import Final

from ranksim.core.clock import format_duration
from ranksim.core.contract.facts import Facts

ANY: Final = "any"
"""The case of a rule that is not split, and of an instance that is of no case."""

RAW: Final = "="
"""Where a rule looks at the body as it was sent, whose bytes matter; with `>` before it, at the request's."""

MET_AT_ONCE: Final = "(.*, )?at once"
"""The cases in which several calls met, as a regular expression."""

SAME_BODY: Final = "the same error body, read for what its code promises"
"""Why a rule of an error's meta or code follows from that of its body, or the other way."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A way to break a fact (by its S number), and the case of a rule that would show it.

    For each of `names` it is one way: its name stands for `{}` in both texts. A case with a word in braces is
    one of many, too: of each key, or of each metric.
    """

    fact: int
    says: str
    case: str = ANY
    names: tuple[str, ...] = ()

    def each(self) -> Iterator[tuple[str, str]]:
        """Yield what each way is, and its case."""
        for name in self.names or ("{}",):
            yield self.says.replace("{}", name), self.case.replace("{}", name)


@dataclass(frozen=True, slots=True)
class Cause:
    """The rule from which a finding follows, and why; by the exchanges of both, if nothing else is said.

    By `place` both are about windows of the same class; by `uncounted` the cause admits too many, and every
    other window tells that nothing was counted in it. By `case` the follower's cases are the classes of the
    windows that the cause is about. `alike` windows all refuse too early, or all admit too many. With `check`
    both break in the same pairs of checks: the follower's case is "CHECK before LATER", the cause's "before
    LATER". By `account` both are about the same accounts; with `tells` evidence of the cause says, too, what
    the follower could not bring about. It is none where a rule of `unless` broke, too.
    """

    rule: str
    because: str
    place: bool = False
    uncounted: bool = False
    case: bool = False
    alike: bool = False
    check: str = ""
    account: bool = False
    tells: str = ""
    unless: tuple[str, ...] = ()


class Requirement(Enum):
    """What a rule needs of a deployment, of the keys or of the time of a check, to be decided.

    `check.prerequisites` tells which is lacking.
    """

    # keys
    SCOPED_KEY = auto()
    SCOPED_WRITER = auto()
    ENVIRONMENT = auto()
    """A second one."""
    SECOND_KEY = auto()
    OTHER_ACCOUNT = auto()
    """A key of one."""
    PAST_DUE = auto()
    LESSER_PLAN = auto()
    """A plan without some kind of work."""
    # settings
    RECEIVER = auto()
    SPENDING = auto()
    SPENDING_OR_PAST_DUE = auto()
    DOMAIN = auto()
    """One that may be used for dry runs."""
    LONG_LISTS = auto()
    RATE_LIMIT = auto()
    """One that may be reached."""
    FAILING_DOMAIN = auto()
    ALONE = auto()
    """Accounts that nobody else uses."""
    # what can be read
    USAGE = auto()
    SLOTS = auto()
    JOB_LIST = auto()
    DELIVERY_LIST = auto()
    ENDPOINT_LIST = auto()
    # stated numbers, and time
    CEILING = auto()
    """An account whose ceiling can be reached."""
    FULL_SLOTS = auto()
    NO_BRIEFS = auto()
    COOLDOWN = auto()
    EACH_COOLDOWN = auto()
    COOLDOWN_END = auto()
    COST_RESET = auto()
    SLOT_RESET = auto()
    QUOTA_RESET = auto()
    JOB_END = auto()
    RETENTION = auto()
    RETRY = auto()
    ALL_RETRIES = auto()
    SUCCESSOR = auto()
    """A next version, for which something is to go."""


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
    """Those of any deployment, if not those of its ways; `Tally.expect` adds those of keys or plans."""
    ways: tuple[Breach, ...] = ()
    """The ways to break facts that its cases would show."""
    looks_at: tuple[str, ...] = ()
    """Where it looks in an exchange, as `exhibits.found_in` reads it."""
    attempt: tuple[str, ...] = ()
    """Where it looks in a webhook attempt."""
    follows: tuple[Cause, ...] = ()
    """From which other rules its breaches may follow; the first that explains all of them is named."""
    essential: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Cases (regular expressions) of which one must have held for it to conform, and what to say if none did.

    They are what a rule is about and serial or kind traffic never meets: several calls at once, the other
    side of a limit, an end that failed.
    """
    refuses: str = ""
    """Cases (a regular expression) in which a breach is a refusal that nothing promises."""
    needs: tuple[Requirement, ...] = ()
    """Without what it cannot be decided, or not in every case."""
    by_reading: bool = False
    """Whether what a check reads before and after its tasks decides it in some case."""

    @property
    def says(self) -> str:
        """The rule in one sentence, with the numbers of the specification."""
        return self.under(Facts())

    def under(self, facts: Facts) -> str:
        """Return the rule in one sentence, with the numbers that a policy states."""
        return Template(self.text).substitute(numbers_of(facts)) if "$" in self.text else self.text


def declare(
    *rules: Rule, exercise: str = "", looks_at: tuple[str, ...] = (), needs: tuple[Requirement, ...] = ()
) -> tuple[Rule, ...]:
    """Return rules, each with what is stated for all of them, and with the cases that its ways name.

    `exercise` and `looks_at` are of rules that state none, as cases are; `needs` come before those of a rule.
    """
    return tuple(
        replace(
            rule,
            exercise=rule.exercise or exercise,
            cases=rule.cases or _cases_of(rule.ways),
            looks_at=rule.looks_at or looks_at,
            needs=(*needs, *rule.needs),
        )
        for rule in rules
    )


def _cases_of(ways: Iterable[Breach]) -> tuple[str, ...]:
    """Return the cases that ways name, but for those of each key or metric."""
    cases = (case for way in ways for _, case in way.each())
    return tuple(dict.fromkeys(case for case in cases if case != ANY and "{" not in case))


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
