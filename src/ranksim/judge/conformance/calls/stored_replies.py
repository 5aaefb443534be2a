"""What may be stored under an Idempotency-Key, call by call: the model that is run (S47, S48).

A key is for the first request whose reply was stored: its repetitions get that reply, and other bodies are
mismatches. Before that, a mismatch says no more than that the key had been used before the run.

Left to a deployment, so that it explains what was seen: a check refuses another body before its key does
(U86); a body without what may be left out is the same, or another (E2); what was lost, failed or was refused
otherwise is stored, or not (U93); and so is what is looked at elsewhere: other keys, the other surface.
"""

import json
from collections.abc import Iterator
from itertools import product
from operator import ne
from typing import Final, NamedTuple

from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.contract.views import created_by
from ranksim.judge.conformance.history.fields import thing_of
from ranksim.judge.conformance.history.observation import Json, Observation
from ranksim.judge.conformance.possible import ModelCall
from ranksim.judge.conformance.verdict.options import Options

MISMATCHED: Final = "idempotency_mismatch"


class StorageChoice(NamedTuple):
    """What a deployment chooses, by the names of assumptions where there are any."""

    fingerprint: str
    idempotency_stores: str
    replayed_retry_after: str
    paths: str
    mutations: str


NUMBERS: Final = {
    "fingerprint": 28,
    "idempotency_stores": 29,
    "replayed_retry_after": 93,
    "paths": 28,
    "mutations": 33,
}
PATHS: Final = "method, path and query too"
IGNORED: Final = "ignored"


class KeyedRequest(NamedTuple):
    """What is asked for: as it is compared, to the letter, where, and without what may be left out."""

    fingerprint: bytes
    wording: bytes
    path: str
    meaning: str
    is_mutation: bool


OTHER: Final = KeyedRequest(b"", b"", "", "", False)
"""A request of which no more is known than that it is none of the others."""


class KeyedAnswer(NamedTuple):
    """What was answered: the work that a success names, and its words, where they tell.

    `waits` tells that the words of a refusal may have the time that is left, whatever U93 is.
    """

    code: str
    made: str | None = None
    words: tuple[int, bytes] | None = None
    waits: bool = False


class StoredReplies(NamedTuple):
    """The request that a key is for, and all answers seen to it, which agree."""

    request: KeyedRequest
    answers: frozenset[KeyedAnswer] = frozenset()


class KeyState(NamedTuple):
    """What is stored under a key; for which paths it was `used`, though it may be forgotten."""

    choice: StorageChoice
    entries: frozenset[StoredReplies] = frozenset()
    used: frozenset[str] = frozenset()


FORGETTING: Final = "forgetting"
"""The question of what is no call: the key may be forgotten from then on (S111)."""


def key_starts(options: Options, surface: str) -> list[KeyState]:
    """Return what a key may begin with, for each choice: the default first, then what is near to it."""
    rest = surface == "rest"
    named = map(options.candidates, StorageChoice._fields[:3])
    paths, mutations = (PATHS, "the body alone")[: 1 + rest], ("honoured", IGNORED)[: 2 - rest]
    choices = product(*named, paths, mutations)
    options_tried = [StorageChoice(*chosen) for chosen in choices]
    near = sorted(options_tried, key=lambda choice: sum(map(ne, choice, options_tried[0])))
    return [KeyState(choice) for choice in near]


def stored_after(state: KeyState, call: ModelCall) -> Iterator[KeyState]:
    """Yield what may be stored after a call that was answered as it was."""
    choice, request, answer = state.choice, call.question, call.reply
    if not isinstance(request, KeyedRequest):
        yield KeyState(choice, used=state.used)
        return
    shared = choice.paths == PATHS
    entry = next((kept for kept in state.entries if shared or kept.request.path == request.path), None)
    used = bool(state.used) if shared else request.path in state.used
    if not isinstance(answer, KeyedAnswer):  # whatever became of it
        yield from [state] if entry else [state, _storing(state, StoredReplies(request))]
        return
    ignored = request.is_mutation and choice.mutations == IGNORED
    raw = choice.fingerprint == "raw"
    same = entry is not None and entry.request[: 1 + raw] == request[: 1 + raw]
    if answer.code == MISMATCHED:
        if not (ignored or same) and (entry or not used):
            yield state
    elif ignored or (answer.code and not same and (entry or choice.idempotency_stores == "success")):
        yield state
    elif entry is None:
        yield _storing(state, StoredReplies(request, frozenset({answer})))
    elif (same or (entry.request.meaning == request.meaning and not raw)) and all(
        _repeats(answer, earlier, choice) for earlier in entry.answers
    ):
        yield _storing(state, StoredReplies(entry.request, entry.answers | {answer}))


def _storing(state: KeyState, stored: StoredReplies) -> KeyState:
    others = {entry for entry in state.entries if entry.request != stored.request}
    return KeyState(state.choice, frozenset({*others, stored}), state.used | {stored.request.path})


def _repeats(answer: KeyedAnswer, earlier: KeyedAnswer, choice: StorageChoice) -> bool:
    made, words = (answer.made, earlier.made), (answer.words, earlier.words)
    waits = answer.code and (answer.waits or choice.replayed_retry_after == "refreshed")
    return (
        answer.code == earlier.code
        and (made[0] == made[1] or None in made)
        and (words[0] == words[1] or None in words or bool(waits))
    )


# Observations as requests and answers


def keyed_request(seen: Observation) -> KeyedRequest:
    """Return what a POST asks for."""
    path = f"{seen.path} {sorted(seen.query.items())}"
    meaning = f"{path} {json.dumps(meaning_of(seen.body), sort_keys=True)}"
    return KeyedRequest(seen.fingerprint, seen.wording, path, meaning, seen.surface == "graphql")


def keyed_answer(seen: Observation, options: Options) -> KeyedAnswer | None:
    """Return what a POST was answered, None where that tells nothing of what is stored."""
    rest, words = seen.surface == "rest", (seen.status, seen.answer)
    if seen.code == MISMATCHED:
        return KeyedAnswer(MISMATCHED)
    if not seen.ok and not (rest and seen.code in CHECK_OF):
        return None
    waits = seen.code == "cooldown_active" and not (seen.replayed or options.pinned("replayed_retry_after"))
    return KeyedAnswer(seen.code, named_work(seen), words if rest and seen.answer else None, waits)


def meaning_of(body: Json) -> Json:
    """Return what a body asks for, without what may be left out as well (E2)."""
    if not isinstance(body, dict):
        return body
    return {name: value for name, value in body.items() if value is not None and value is not False}


NOTHING = "nothing new"
"""What a success names that created none of the words it was asked for."""


def named_work(seen: Observation) -> str | None:
    """Return what work a success names: the id of a job or resource, or of the first keyword it made."""
    data = thing_of(seen)
    for name in ("id", "event_id"):
        if isinstance(data.get(name), str):
            return str(data[name])
    created = created_by(data)
    if created and isinstance(created[0], dict):
        return str(created[0].get("id"))
    return NOTHING if created == [] else None
