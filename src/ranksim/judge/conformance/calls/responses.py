"""Judge what all responses have: headers, JSON, the body of an error (S11, S73, S94-S99, S107, S114)."""

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.contract.views import NOT_SHOWN, ProblemView, QuotaMeta
from ranksim.core.service.errors import PROBLEM_JSON
from ranksim.core.trace import Exchange
from ranksim.judge.conformance.history.exchange_reader import lowered
from ranksim.judge.conformance.history.fields import (
    KINDS_OF_ANSWER,
    MARKED_ANSWERS,
    integer_or_none,
    kind_of_answer,
)
from ranksim.judge.conformance.history.graphql import snaked
from ranksim.judge.conformance.history.observation import Json, Observation, leaves
from ranksim.judge.conformance.judge import evidence_of
from ranksim.judge.conformance.verdict.rule import ANY, RAW, SAME_BODY, Breach, Cause, Requirement, Rule
from ranksim.judge.conformance.verdict.verdicts import Tally

REQUEST_ID = "header.request_id"
ECHO = "header.request_id_echo"
JSON = "header.json"
DEPRECATION = "header.deprecation"
CORS = "header.cross_origin"
ERROR = "error.body"
TYPE = "error.type"
ID = "error.request_id"
META = "error.meta"

NAMED = frozenset({*CHECK_OF, "invalid_cursor", "idempotency_mismatch"})
"""The codes that are stated (S97)."""

ERRORS = (*CHECK_OF, "invalid_cursor", "idempotency_mismatch", "400", "401", "404", "422", "429")
"""The errors that a client meets: by code where it is stated, by status where it is assumed."""

RESPONSE_RULES = (
    Rule(
        REQUEST_ID,
        "Every response carries X-Request-Id",
        (107,),
        (79,),
        cases=KINDS_OF_ANSWER,
        ways=(Breach(107, "X-Request-Id is missing ({})", "{}", MARKED_ANSWERS),),
        looks_at=("X-Request-Id",),
        by_reading=True,
    ),
    Rule(
        ECHO,
        "An X-Request-Id that the client sent is used as given",
        (107,),
        (79,),
        cases=KINDS_OF_ANSWER,
        ways=(Breach(107, "an id that was sent is replaced", "success"),),
        looks_at=(">X-Request-Id", "X-Request-Id"),
    ),
    Rule(
        JSON,
        "A response with a body is JSON and says so",
        (8, 9, 94),
        (25,),
        cases=KINDS_OF_ANSWER[:-1],
        ways=(Breach(8, "a success is no JSON", "success"),),
        looks_at=("Content-Type", RAW),
        by_reading=True,
    ),
    Rule(
        DEPRECATION,
        "A surface that is to go carries Deprecation and Sunset, both",
        (114,),
        (81,),
        exercise="everyday, once /v2 is there",
        ways=(Breach(114, "Deprecation comes without Sunset"),),
        looks_at=("Deprecation", "Sunset"),
        needs=(Requirement.SUCCESSOR,),
    ),
    Rule(
        CORS,
        "Cross-origin requests are accepted",
        (73,),
        (80,),
        exercise="everyday, sent from a page of another origin",
        ways=(
            Breach(73, "a preflight is refused", "preflight"),
            Breach(73, "a success does not allow the origin", "success"),
            Breach(73, "an error does not allow the origin", "error"),
        ),
        looks_at=(">Origin", "Access-Control-Allow-Origin", "Access-Control-Allow-Headers"),
    ),
    Rule(
        ERROR,
        "An error is a complete error body",
        (11, 94),
        (24, 25),
        exercise="ladder",
        ways=(
            Breach(94, "a field is missing of the error {}", "{}", ERRORS),
            Breach(11, "an error comes in the envelope of successes", "404"),
            Breach(2, "an error has other fields in sandbox", "in {environment}"),
        ),
        looks_at=("status", "code"),
    ),
    Rule(
        TYPE,
        "An error's type and documentation_url are its page under /api/errors",
        (95,),
        exercise="ladder",
        cases=ERRORS,
        ways=(Breach(95, "type is another page ({})", "{}", ("404", "422", "cooldown_active")),),
        looks_at=("type", "documentation_url"),
    ),
    Rule(
        ID,
        "An error's request_id is that of the response",
        (96,),
        exercise="ladder",
        cases=ERRORS,
        ways=(Breach(96, "request_id is another request's ({})", "{}", ("404", "422", "cooldown_active")),),
        looks_at=("request_id", "X-Request-Id"),
        follows=(Cause(REQUEST_ID, "what is missing cannot agree"),),
    ),
    Rule(
        META,
        "An error's meta says what its code promises",
        (98, 99),
        (7, 26),
        exercise="ladder",
        ways=(
            Breach(98, "its meta lacks a field", "quota_exhausted"),
            Breach(99, "the meta of cost_cap_reached lacks amount, ceiling or date", "cost_cap_reached"),
        ),
        looks_at=("code", "meta"),
        follows=(Cause("quota.meta", SAME_BODY), Cause("cost.meta", SAME_BODY)),
        needs=(Requirement.SPENDING,),
    ),
)

ALLOWED = "access-control-allow-origin"
ALLOWED_HEADERS = "access-control-allow-headers"

DEPRECATING = frozenset({"deprecation", "sunset"})
"""The headers of a surface that is to go."""


def check_one(
    rule: str, holds: bool, says: str, seen: Observation, tally: Tally, case: str = ANY, expected: str = ""
) -> bool:
    """Note whether a rule held in one exchange, which `says` is told of where it broke; return it, too."""
    if holds:
        tally.held(rule, case=case, by=(seen.id,))
    else:
        about = seen.operation or seen.path
        evidence = evidence_of(f"{seen.id} {says}", seen, about=about, expected=expected)
        tally.broke(rule, evidence, case=case)
    return holds


def check_headers(exchange: Exchange, seen: Observation, headers: Mapping[str, str], tally: Tally) -> None:
    """Check the headers of one response, by their names in lower case."""
    _check_request_id(exchange, seen, headers.get("x-request-id", ""), tally)
    _check_versions(headers, seen, tally)
    _check_origin(exchange, headers, seen, tally)


def check_json(reply: Json, headers: Mapping[str, str], seen: Observation, tally: Tally) -> bool:
    """Return whether a response that is to have a body has a JSON object, and says so."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    says = f"is no JSON object, or says {media_type or 'no type'}"
    good = isinstance(reply, dict) and (not media_type or "json" in media_type)
    if good and media_type not in ("", PROBLEM_JSON) and seen.status >= 400 and seen.surface == "rest":
        evidence = evidence_of(f"{seen.id} is an error, and says {media_type}", seen, about=seen.operation)
        tally.differs(25, PROBLEM_JSON, media_type, evidence)
    return check_one(JSON, good, says, seen, tally, kind_of_answer(seen))


def _check_request_id(exchange: Exchange, seen: Observation, given: str, tally: Tally) -> None:
    kind = kind_of_answer(seen)
    if not given and not seen.shows("x-request-id"):
        return
    if not check_one(REQUEST_ID, bool(given), "has no X-Request-Id", seen, tally, kind):
        return
    for name, sent in (exchange.request_headers or {}).items():
        if name.lower() != "x-request-id" or not _is_plain(sent):
            continue
        if given == sent:
            tally.held(ECHO, case=kind if seen.idempotency_key is None else None, by=(seen.id,))
        elif seen.idempotency_key is not None:
            tally.open(ECHO, "a replay may be the first response to the letter (E5)")
        else:
            says = f"was sent X-Request-Id {sent!r} and gives {given!r}"
            check_one(ECHO, False, says, seen, tally, kind, f"X-Request-Id {sent}")


def _is_plain(sent: str) -> bool:
    """Whether a client's id is one that no deployment may change (U79)."""
    return 1 <= len(sent) <= 255 and sent.isascii() and sent.isprintable() and sent == sent.strip()


def _check_versions(headers: Mapping[str, str], seen: Observation, tally: Tally) -> None:
    """A surface that is to go carries both headers (S114)."""
    both = DEPRECATING & headers.keys()
    if len(both) == 2:
        tally.held(DEPRECATION, by=(seen.id,))
        evidence = evidence_of(f"{seen.id} carries Deprecation and Sunset", seen)
        tally.differs(81, "neither on /v1 now", "both", evidence)
    elif both and seen.shows("deprecation", "sunset"):
        check_one(DEPRECATION, False, f"carries {min(both).title()} alone", seen, tally)


def _check_origin(exchange: Exchange, response: Mapping[str, str], seen: Observation, tally: Tally) -> None:
    """Check the headers of a call from another origin (S73).

    A browser passes on a response to another origin only where it allows that origin, and sends the call
    itself only where a preflight succeeded and allows its headers (the Fetch standard, CORS protocol).
    """
    request = lowered(exchange.request_headers)
    origin = request.get("origin")
    if origin is None or seen.status in (429, 500) or not seen.shows(ALLOWED, ALLOWED_HEADERS):
        return
    allowed = response.get(ALLOWED, "").strip()
    if seen.method == "OPTIONS" and "access-control-request-method" in request:
        wanted = _header_names(request.get("access-control-request-headers", ""))
        named = _header_names(response.get(ALLOWED_HEADERS, ""))
        good = 200 <= seen.status <= 299 and ("*" in named or wanted <= named)
        case, says = "preflight", f"answers the preflight of {origin} with {seen.status}, and allows "
        says += f"{allowed or 'no origin'} with {', '.join(sorted(named)) or 'no headers'}"
    else:
        good, case = True, "success" if seen.status < 400 else "error"
        says = f"was sent from {origin}, and allows {allowed or 'no origin'}"
    check_one(CORS, good and allowed in ("*", origin), says, seen, tally, case)


def _header_names(value: str) -> set[str]:
    """Return the names of headers that a header lists, in lower case."""
    return {name.strip().lower() for name in value.split(",")} - {""}


# Fields

Fields = Mapping[str, Callable[[Json], bool]]


def is_text(value: Json) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str)


def text_or_null(value: Json) -> bool:
    """Return whether a value is a string or null."""
    return value is None or isinstance(value, str)


CHECKS: Mapping[object, Callable[[Json], bool]] = {
    str: is_text,
    str | None: text_or_null,
    int: lambda value: integer_or_none(value) is not None,
    Mapping[str, object]: lambda value: isinstance(value, dict),
}
"""What a value of a type looks like."""

PERHAPS_NULL = frozenset({"label"})
"""Fields of a resource for which null passes, too."""


def stated_fields(view: type[Any]) -> Fields:
    """Return the fields of a view that the specification shows, and what each must look like."""
    marked = get_type_hints(view, include_extras=True)
    return {
        name: text_or_null if name in PERHAPS_NULL else CHECKS[hint]
        for name, hint in get_type_hints(view).items()
        if NOT_SHOWN not in get_args(marked[name])
    }


ERROR_FIELDS = stated_fields(ProblemView)
"""The nine fields of an error (S94)."""


def wrong_fields(thing: Json, fields: Fields) -> list[str]:
    """Name the fields that are missing or misshapen."""
    if not isinstance(thing, dict):
        return list(fields)
    return [name for name, fits in fields.items() if name not in thing or not fits(thing[name])]


def expected_names(fields: Fields) -> str:
    """Return what was expected of a thing, in words."""
    return f"the fields {', '.join(fields)}"


# Errors

QUOTA = stated_fields(QuotaMeta)
"""The meta of quota_exhausted, whose names are stated (S98); other codes' are assumed (U7, U26)."""

SPENT_VALUES = 3
"""How many values the meta of cost_cap_reached has: the amount spent, the ceiling, the reset date (S99).

Each has a digit, which a currency beside them has not.
"""


def check_error(reply: dict[str, Json], given: str, seen: Observation, tally: Tally) -> None:
    """Check the body of an error; `given` is the response's X-Request-Id."""
    case = seen.code if seen.code in NAMED else str(seen.status)
    wrong = wrong_fields(reply, ERROR_FIELDS)
    if reply.get("status") != seen.status and "status" not in wrong:
        wrong.append("status")
    tally.covers(ERROR, f"in {seen.environment}", (seen.id,), holds=not wrong)
    says = f"answered {seen.status} with wrong or missing {', '.join(wrong)}"
    expected = f"status {seen.status} in the body, and {expected_names(ERROR_FIELDS)}"
    if not check_one(ERROR, not wrong, says, seen, tally, case, expected):
        return
    url, code = reply["documentation_url"], reply["code"]
    good = reply["type"] == url and url.endswith(f"/api/errors#{code}")
    says = f"has type {reply['type']} and documentation_url {url} for {code}"
    check_one(TYPE, good, says, seen, tally, case, f"…/api/errors#{code} as both")
    if given and reply["request_id"] == given:
        tally.held(ID, case=case if seen.idempotency_key is None else None, by=(seen.id,))
    elif given and seen.idempotency_key is not None:
        tally.open(ID, "a replay may be the first response to the letter (E5)")
    elif given:
        says = f"has request_id {reply['request_id']!r} and X-Request-Id {given!r}"
        check_one(ID, False, says, seen, tally, case, f"request_id {given!r}")
    _check_meta(code, reply["meta"], seen, tally)


def check_extensions(reply: dict[str, Json], seen: Observation, tally: Tally) -> None:
    """An error of a field over GraphQL carries the whole error body as its extensions (U83)."""
    errors = reply.get("errors")
    for error in errors if isinstance(errors, list) else ():
        extensions = snaked(error.get("extensions")) if isinstance(error, dict) else None
        if wrong := wrong_fields(extensions, ERROR_FIELDS):
            says = f"{seen.id} tells an error with wrong or missing {', '.join(wrong)} in its extensions"
            evidence = evidence_of(says, seen, about=seen.operation or seen.path)
            tally.differs(83, "the error body in extensions", "another form", evidence)


def _check_meta(code: str, meta: dict[str, Json], seen: Observation, tally: Tally) -> None:
    if code == "quota_exhausted":
        lacking = wrong_fields(meta, QUOTA)
        says = f"is {code} with wrong or missing {', '.join(lacking)} in meta"
        check_one(META, not lacking, says, seen, tally, code)
    elif code == "cost_cap_reached":
        count = sum(re.search("[0-9]", str(value)) is not None for value in leaves(meta))
        says = f"is {code}, and its meta tells {count} numbers or dates, not {SPENT_VALUES}"
        check_one(META, count >= SPENT_VALUES, says, seen, tally, code)
