"""Fields of requests and replies, parsed: REST and GraphQL alike, in the names of REST.

Whatever is missing or of another form is None or empty, never guessed.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from ranksim.core.clock import Micros, instant
from ranksim.core.contract.facts import CHECK_OF
from ranksim.judge.conformance.history.graphql import arguments, snaked
from ranksim.judge.conformance.history.observation import Json, Observation


def plain(seen: Observation) -> dict[str, Json]:
    """Return the data of a single as a mapping in the names of REST; empty when it is none."""
    data = snaked(seen.data) if seen.surface == "graphql" else seen.data
    return data if isinstance(data, dict) else {}


def thing_of(seen: Observation) -> dict[str, Json]:
    """Return what a creation made, out of the payload that GraphQL wraps it in."""
    made = plain(seen)
    inner = [value for value in made.values() if isinstance(value, dict) and value]
    return inner[0] if seen.surface == "graphql" and "id" not in made and len(inner) == 1 else made


def sent_body(seen: Observation) -> Mapping[str, Json]:
    """Return what a call sent, a GraphQL input in the names of REST; empty when it cannot be read."""
    sent = seen.body
    if not isinstance(sent, dict):
        return {}
    if seen.surface != "graphql":
        return sent
    given = arguments(sent.get("query"), sent.get("variables")).get("input")
    body = snaked(given) if isinstance(given, dict) and seen.operation else {}
    if isinstance(body.get("kind"), str):
        body["kind"] = body["kind"].lower()
    return body


def identified(seen: Observation) -> Iterator[dict[str, Json]]:
    """Return the things with an id that a reply shows: its single, or the items of its collection."""
    for thing in [seen.data] if isinstance(seen.data, dict) else seen.items or ():
        if isinstance(thing, dict) and isinstance(thing.get("id"), str):
            yield thing


def event_job(body: Json) -> dict[str, Json] | None:
    """Return the job that the body of a webhook tells of, None without any."""
    data = body.get("data") if isinstance(body, dict) else None
    job = data.get("job") if isinstance(data, dict) else None
    return job if isinstance(job, dict) else None


KINDS_OF_ANSWER: Final = (
    *("success", "created", "dry run", "refused by a check"),
    *("400", "401", "404", "422", "429", "GraphQL"),
)
"""The kinds of answers that a deployment may make in different places of its code."""

MARKED_ANSWERS: Final = tuple(kind for kind in KINDS_OF_ANSWER if kind != "400")
"""Those of which the ways to leave a header out are told one by one."""


def kind_of_answer(seen: Observation) -> str:
    """Return which of `KINDS_OF_ANSWER` an exchange got, or its status where it is another one."""
    if seen.surface == "graphql":
        return "GraphQL"
    if seen.code in CHECK_OF:
        return "refused by a check"
    if not seen.ok:
        return str(seen.status)
    return "dry run" if seen.dry_run else "created" if seen.method == "POST" else "success"


STATES: Final = ("queued", "running", "done", "failed")
"""The states of a job by the names that are assumed (U39)."""

STATE_OF: Final = {
    **{name: name for name in STATES},
    **dict.fromkeys(("pending", "waiting", "scheduled", "accepted"), "queued"),
    **dict.fromkeys(("in_progress", "processing", "started"), "running"),
    **dict.fromkeys(("completed", "complete", "succeeded", "success", "finished"), "done"),
    **dict.fromkeys(("error", "errored", "failure"), "failed"),
}


def state_of(job: Mapping[str, Json]) -> str:
    """Return a job's state by the name that is assumed for it, "" for one of a name that is not usual (U39).

    An end by another name than the assumed one is taken for an end only if it says when, or why, it ended.
    """
    status = str(job.get("status")).lower()
    state = STATE_OF.get(status, "")
    ended = state in ("done", "failed") and status != state
    return "" if ended and not (job.get("finished_at") or job.get("error_detail")) else state


def integer_or_none(value: Json) -> int | None:
    """Read an integer, which JSON may write as 20.0; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def instant_or_none(value: Json) -> Micros | None:
    """Read an ISO 8601 instant; None for anything else."""
    return _instant_or_none(value) if isinstance(value, str) else None


@lru_cache(maxsize=1 << 13)  # many replies show the same things
def _instant_or_none(text: str) -> Micros | None:
    try:
        return instant(text)
    except ValueError:
        return None


@lru_cache(maxsize=1 << 13)
def plainest(word: str) -> str:
    """Return what any way to fold or tidy a text could leave of it (U65): its letters and digits."""
    folded = unicodedata.normalize("NFKD", word).casefold()
    return "".join(filter(str.isalnum, folded)) or folded.strip()
