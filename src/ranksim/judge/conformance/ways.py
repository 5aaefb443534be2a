"""In which ways a deployment could break each fact, or choose otherwise, and which case would show it.

Plain data, for the page `docs/what-is-judged.md` and for whoever breaks a deployment on purpose. The ways
that a case of a rule shows stand with their rules; here are those that none does, and the choices (U).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, get_args, get_origin

from pydantic.fields import FieldInfo

from ranksim.core.contract.assumptions import Assumptions, Statuses
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.contract.register import assumption
from ranksim.judge.conformance.calls.choices import ASSUMED
from ranksim.judge.conformance.compare import RULES
from ranksim.judge.conformance.verdict.rule import ANY

DIFFERS: Final = "assumption differs"


@dataclass(frozen=True, slots=True)
class Departure:
    """One way to break a fact ("S43"), or to choose another option of an assumption ("U34").

    `rule` and `case` would show it; `rule` is DIFFERS where it is reported as such. Where both are empty, no
    client can see it, or none that is built yet: `why` says which.
    """

    of: str
    says: str
    rule: str = ""
    case: str = ANY
    why: str = ""


def ways() -> Iterator[Departure]:
    """Yield all of them, facts first, in the order of their numbers and of the rules."""
    departures = [
        Departure(f"S{way.fact}", says, rule.name, case)
        for rule in RULES
        for way in rule.ways
        for says, case in way.each()
    ]
    departures += [Departure(f"S{number}", says, DIFFERS, f"U{choice}") for number, says, choice in DIFFERING]
    departures += [Departure(f"S{number}", says, why=why) for number, says, why in UNSEEN]
    yield from sorted(departures, key=lambda way: int(way.of[1:]))
    forms = [Departure(f"U{number}", says, DIFFERS, f"U{number}") for number, says in FORMS]
    yield from sorted((*_choices(), *_statuses(), *forms), key=lambda way: int(way.of[1:]))


DIFFERING: Final[tuple[tuple[int, str, int], ...]] = (
    (4, "calls over GraphQL do not count for rate windows", 11),
    (5, "a list, or what is one of its kind, cannot be read", 107),
    (16, "a job has no progress", 42),
    (52, "a second rank run starts beside the first", 45),
    (65, "a cooldown covers another domain", 46),
    (86, "a retry is signed with the first attempt's time", 68),
    (112, "an operation leaves /v1", 107),
)
"""Number, way, and the choice (U) by which it is told: facts of which a part is assumed."""

UNSEEN: Final[tuple[tuple[int, str, str], ...]] = (
    (
        2,
        "another rule holds in sandbox than in production",
        "as many ways as there are rules: each is judged in both, where a sandbox key is used",
    ),
    (
        6,
        "a read-only resource can be changed",
        "its path is assumed (U107), and nothing is written to guess it",
    ),
    (7, "what is unavailable is there", "where it would be is not stated, and additions are allowed (S113)"),
    (
        10,
        "a notice comes with an error",
        "its field is not stated (U82), and an unknown field is no fault (S113)",
    ),
    (69, "a cookie takes the place of a key", "a client keeps no cookies; without a key nothing works (S68)"),
    (
        72,
        "keys are managed over the API",
        "where it would be is not stated, and additions are allowed (S113)",
    ),
    (
        101,
        "research_lookups is no metric",
        "usage lists the metrics of a plan, which need not have this one (U60)",
    ),
    (
        62,
        "calls at once pass the ceiling together",
        "what each comes to is not stated: the last may cost all that is beyond it (U48)",
    ),
    (109, "an add-on gives another number than 50", "a client cannot buy one (S7)"),
    (113, "an addition breaks a client", "what a client does with it, no deployment shows"),
    (
        115,
        "a new type passes endpoints that take all",
        "there is none today; a type of no stated kind is left open",
    ),
    (70, "a job of another domain is started by a dry run", "a dry run tells of nothing that belongs to it"),
    (83, "a body has results", "fields may be added at any time (S113), so one more proves nothing"),
    (86, "a receiver verifies late", "that is the receiver's"),
)
"""Number, way, and why no client can see it."""


CALIBRATED: Final = frozenset({"limiter_order", "ceiling_stops_tracking", "in_flight_until", "reset_reports"})
"""Assumptions of which `calibrate` alone tells that their default is excluded."""

OPEN: Final = {
    "idempotency_from": "acceptance and response are one call apart, and a day is known to the minute",
    "cooldown_after_failure": "a run is accepted only once the cooldown before it is over: none counts again",
    "cap": "no text says what is beyond a cap, nor how large a cap is where it is not read",
    "checks_apply": "a refusal excludes one option, and none excludes nothing",
}
"""Why of some nobody tells it; of all others `compare` does."""


def _choices() -> Iterator[Departure]:
    """Yield the options of each assumption that is a choice, but for its default."""
    for name, about in Assumptions.model_fields.items():
        if about.annotation is bool:
            options: tuple[object, ...] = (False, True)
        else:
            options = get_args(about.annotation) if get_origin(about.annotation) is not None else ()
        if not all(isinstance(option, str | bool) for option in options):
            continue
        number = _number(about)
        for option in options:
            says = f"{name}: {str(option).lower() if isinstance(option, bool) else option}"
            if option == about.default:
                continue
            if name in CALIBRATED:
                yield Departure(number, says, why="`calibrate` pins it; no verdict depends on it")
            elif name in OPEN:
                yield Departure(number, says, why=OPEN[name])
            else:
                yield Departure(number, says, DIFFERS, number)


def _number(about: FieldInfo) -> str:
    """Return the assumption that a field is of, with which its description begins."""
    return (about.description or "").partition(":")[0].partition(",")[0]


BESIDE: Final = frozenset({*CHECK_OF, "invalid_cursor", "unauthorized"} - {"quota_exhausted"})
"""Codes whose status is judged beside their rules."""


UNREAD: Final = "`calibrate` reads it off; its case is not told from others in a reply"


def _statuses() -> Iterator[Departure]:
    """Yield each status that is assumed, as another one."""
    for name, about in Statuses.model_fields.items():
        number, says = _number(about), f"{name.replace('_', ' ')} is not {about.default}"
        if name in ASSUMED or name in BESIDE:
            yield Departure(number, says, DIFFERS, f"U{ASSUMED[name]}" if name in ASSUMED else number)
        else:
            yield Departure(number, says, why=UNREAD)


FORMS: Final[tuple[tuple[int, str], ...]] = (
    (7, "the code of a 429 is not rate_limited"),
    (25, "an error is of another media type"),
    (31, "a replay is not marked"),
    (33, "mutations ignore the key"),
    (35, "a limit cannot be changed in a walk"),
    (36, "a cursor expires, or is good for another list"),
    (38, "has_more is not exact"),
    (39, "a job has other states"),
    (42, "a job has no progress"),
    (42, "the progress of a job falls"),
    (43, "what has not happened is left out"),
    (44, "a job is found under another kind"),
    (49, "what a job had reserved stays reserved when it has failed"),
    (52, "a week begins at another hour"),
    (54, "a set of briefs costs one unit"),
    (60, "an operation needs another capability"),
    (71, "410 ends a delivery"),
    (73, "a disabled endpoint has no disabled_reason"),
    (81, "Deprecation and Sunset on /v1"),
    (83, "an error over GraphQL does not carry the error body as its extensions"),
    (89, "checks are listed in another order, or up to the first failure"),
    (106, "a job or a scan costs several units"),
)
"""Forms that no text shows, and that are told to differ: number and way."""


# The page

HEAD = """# What is judged, and what cannot be

For each fact of the specification (S), and each open choice with options (U): the ways in which a
deployment could break it, or choose otherwise, and the case that would show it. `scripts/what_is_judged`
writes this page from `judge.conformance.ways`; a test says that it is current. A rule is told with its
case; a word in braces stands for each key or each metric. *Assumption differs* means that `compare` tells
it, and that nothing fails. Whether a run comes to a case, its report says.
"""


def ways_page() -> str:
    """Return the page as Markdown."""
    departures = list(ways())
    facts = [way for way in departures if way.of.startswith("S")]
    choices = [way for way in departures if way.of.startswith("U")]
    lines = [
        HEAD,
        *_counted(facts, choices),
        "",
        "## Facts",
        "",
        "| fact | way | what shows it |",
        "|---|---|---|",
    ]
    lines += [f"| {way.of} | {way.says} | {_where_seen(way)} |" for way in facts]
    lines += ["", "## Open choices", ""]
    for number, same in groupby(choices, key=lambda way: way.of):
        lines.append(f"- **{number}** {assumption(int(number[1:])).statement}")
        lines += [f"  - {way.says}: {_where_seen(way)}" for way in same]
    return "\n".join(lines) + "\n"


def _counted(facts: Sequence[Departure], choices: Sequence[Departure]) -> list[str]:
    seen = [way for way in facts if way.rule]
    differing = sum(bool(way.rule) for way in choices)
    numbers = len({way.of for way in facts})
    return [
        f"- {len(facts)} ways to break {numbers} facts: {len(seen)} have a case that shows them, "
        f"{len(facts) - len(seen)} cannot be seen, with the reason.",
        f"- {len(choices)} other choices: {differing} are told as an assumption that differs, "
        f"{len(choices) - differing} are not, with the reason.",
    ]


def _where_seen(way: Departure) -> str:
    """Return the rule with its case, or why nothing shows it."""
    if not way.rule:
        return f"not seen: {way.why}"
    if way.rule == DIFFERS:
        return f"*{DIFFERS}*" if way.of == way.case else f"*{DIFFERS}* ({way.case})"
    return f"`{way.rule}`" if way.case == ANY else f"`{way.rule}`, {way.case}"
