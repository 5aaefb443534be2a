"""Judge the headers of responses: an id of each, JSON, deprecation, other origins (S73, S94, S107, S114)."""

from collections.abc import Mapping

from ranksim.core.trace import Exchange
from ranksim.judge.conformance.history.exchange_reader import lowered
from ranksim.judge.conformance.history.fields import KINDS_OF_ANSWER, MARKED_ANSWERS, kind_of_answer
from ranksim.judge.conformance.history.observation import Json, Observation
from ranksim.judge.conformance.judge import evidence_of
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Requirement, Rule
from ranksim.judge.conformance.verdict.verdicts import Tally

REQUEST_ID = "header.request_id"
ECHO = "header.request_id_echo"
JSON = "header.json"
DEPRECATION = "header.deprecation"
CORS = "header.cross_origin"

HEADER_RULES = (
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
        looks_at=("Content-Type",),
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
