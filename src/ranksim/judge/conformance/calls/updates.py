"""Judge updates: a PATCH that was accepted shows, until another write comes after it (S42, S49, E45).

A GraphQL mutation that surely made an update (S4) counts as the PATCH of its input.

Of the writes to one field of one resource those count that may be the last before a reading: each that may
have come before it, unless another one surely came in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import DAY, Micros
from ranksim.core.service.operations import TABLE
from ranksim.judge.conformance.history.fields import body_of, plainest, thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation, ReceivedAttempt
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

PATCHED = "resource.patch"
UNCONDITIONAL = "resource.unconditional"

STALE = frozenset({412, 428})
"""Statuses that refuse an update for being stale, or for not saying what it is based on (RFC 9110, 6585)."""

NOUNS = tuple(operation.name.partition(".")[0] for operation in TABLE if operation.method == "PATCH")
"""What can be patched."""

RULES = declare(
    Rule(
        PATCHED,
        "The last PATCH of a field is what is shown of it",
        (42, 49),
        (84,),
        cases=(*NOUNS, *(f"{noun}, again" for noun in NOUNS)),
        ways=(
            Breach(42, "a PATCH is accepted and changes nothing", "domains"),
            Breach(49, "the earlier of two PATCHes wins", "labels, again"),
        ),
        looks_at=(">", "data"),
    ),
    Rule(
        UNCONDITIONAL,
        "A PATCH overwrites the one before without warning: none is refused as stale",
        (49, 50),
        cases=NOUNS,
        ways=(
            Breach(49, "the second of two PATCHes is refused as stale", "labels"),
            Breach(50, "a PATCH without If-Match is refused", "domains"),
        ),
        looks_at=(">If-Match",),
    ),
    exercise="everyday",
    needs=(Requirement.SPENDING,),
)

UNSETTLED = frozenset({"enabled", "secret"})
"""Fields that the deployment changes by itself, or hides."""

Resource: TypeAlias = tuple[str, str, str, str]
"""Environment, account, the noun of its operations and id: an id may be a number that each noun counts."""


FORGOTTEN = 3 * DAY
"""Business time for which nobody read or patched a resource, after which it is judged and forgotten."""


@dataclass(slots=True)
class ObservedResource:
    """What was written to one resource and shown of it."""

    busy: Micros = 0
    """When the resource was last read or patched."""
    writes: dict[str, list[Observation]] = field(default_factory=dict)
    """Patches that may have been made, by field."""
    readings: list[Observation] = field(default_factory=list)
    """What showed it; while nobody patched it, only what may come last before a patch."""


@dataclass
class UpdateJudge:
    """Judges every field that was patched, at every later reading of it."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    resources: dict[Resource, ObservedResource] = field(default_factory=dict)
    """In the order of the last calls."""
    patched: dict[Resource, None] = field(default_factory=dict)
    """Those that were patched, in the order of their first patch."""

    def wants(self, like: Observation) -> bool:
        """Patches, and what reads a single."""
        return like.updates or (like.ok and like.method == "GET" and like.has_more is None)

    def see(self, seen: Observation) -> None:
        """Keep a patch that may have been made, and what shows a resource."""
        if not seen.updates:
            if isinstance(seen.data, dict):
                self._read(seen)
            return
        if seen.status in STALE and seen.surface == "rest":
            evidence = Evidence(
                f"{seen.id} was refused {seen.status}", (seen.id,), about=seen.operation, at=seen.sent
            )
            self.tally.broke(UNCONDITIONAL, evidence, case=_noun(seen))
        may = seen.happened is not False and (seen.ok or seen.lost or seen.status >= 500)
        if may and seen.parameters:
            before = next(iter(self._used(seen).writes.values()), None)
            if before and seen.ok and seen.surface == "rest":
                self.tally.held(UNCONDITIONAL, case=_noun(seen), by=(before[-1].id, seen.id))
            for name in (name for name in body_of(seen) if name not in UNSETTLED):
                self._used(seen).writes.setdefault(name, []).append(seen)
                self.patched[_resource(seen)] = None

    def _used(self, seen: Observation) -> ObservedResource:
        resource = self.resources.pop(_resource(seen), None) or ObservedResource()
        self.resources[_resource(seen)] = resource
        resource.busy = seen.sent
        return resource

    def _read(self, seen: Observation) -> None:
        resource = self._used(seen)
        readings = resource.readings
        if not resource.writes:
            readings[:] = [
                early
                for n, early in enumerate(readings)
                if not any(
                    late.received < seen.sent and late.data.keys() >= early.data.keys()
                    for late in readings[n + 1 :]
                )
            ]
        readings.append(seen)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """No rule here speaks of webhooks."""

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Compare what was shown of the fields of a resource that is idle with what was asked for."""
        span, idle = FORGOTTEN // max(1, run.rate), dict[Resource, ObservedResource]()
        for name, resource in self.resources.items():
            if resource.busy + span >= watermark:
                break
            idle[name] = resource
        for name in [name for name in self.patched if name in idle]:
            del self.patched[name]
            if run.exclusive:
                self._judge(run.mutable(*name[-2:]), idle[name])
        for name in idle:
            del self.resources[name]

    def _judge(self, mutated: bool, resource: ObservedResource) -> None:
        for name, patches in resource.writes.items():
            if mutated or any(
                other.surface == "graphql" and name not in body_of(other)
                for others in resource.writes.values()
                for other in others
            ):  # which fields a mutation changes, by whatever name it calls them, is not sure (U83)
                self.tally.open(PATCHED, "a GraphQL mutation may have changed it too", len(patches))
                continue
            readings = [seen for seen in resource.readings if name in seen.data]
            _judge_field(name, patches, readings, self.tally)


def _resource(seen: Observation) -> Resource:
    return seen.environment, seen.account, seen.operation.partition(".")[0], seen.parameters.get("id", "")


def _judge_field(
    name: str, writes: Sequence[Observation], readings: Sequence[Observation], tally: Tally
) -> None:
    values = FieldValues(name, writes, readings)
    for at, patch in enumerate(writes):
        _judge_reply(name, patch, writes, at, readings, values, tally)
    certain = sorted((patch for patch in writes if patch.ok), key=lambda patch: patch.received)
    came = done = 0
    alive: list[Observation] = []
    newest: Observation | None = None
    for seen in readings:
        while came < len(writes) and writes[came].sent < seen.received:
            alive.append(writes[came])
            came += 1
        while done < len(certain) and certain[done].received < seen.sent:
            newest = max(newest or certain[done], certain[done], key=lambda patch: patch.sent)
            done += 1
        if newest is not None:  # what ended before it was sent is surely overwritten
            since = newest.sent
            alive = [write for write in alive if write.received > since]
            last = [write for write in alive if write.sent < seen.received]
            _judge_reading(name, seen, last, values, since, tally)


class FieldValues:
    """The values that a field had, or was to have, each with when that was first known."""

    def __init__(self, name: str, writes: Sequence[Observation], readings: Sequence[Observation]) -> None:
        values = [(write.received, value) for write in writes for value in _values(name, write)]
        values += [(seen.received, seen.data[name]) for seen in readings]
        self.first: dict[str, tuple[Micros, Json]] = {}
        for at, value in sorted(values, key=lambda observed: observed[0]):
            self.first.setdefault(repr(value), (at, value))

    def had(self, value: Json, until: Micros) -> bool:
        """Return whether this value was known before an instant."""
        return self.first.get(repr(value), (until, None))[0] < until

    def had_another(self, value: Json, until: Micros) -> bool:
        """Return whether a value was known before an instant that `value` cannot be made of."""
        return any(at < until and _apart(other, value) for at, other in self.first.values())


def _judge_reading(
    name: str,
    seen: Observation,
    writes: Sequence[Observation],
    values: FieldValues,
    since: Micros,
    tally: Tally,
) -> None:
    """A reading shows what one of the writes that may be the last asked for, or what its reply showed.

    A deployment may write values its own way, such as a trimmed text, and lists in another order: only plain
    values prove anything that were answered as asked for, or that are another from before `since`.
    """
    value_shown, noun = seen.data[name], _noun(seen)
    old = values.had(value_shown, since)
    fits = [write for write in writes if any(value_shown == value for value in _values(name, write))]
    if fits:
        by = (writes[-1].id, seen.id)
        tally.held(PATCHED, case=noun, by=by)
        if any(values.had_another(body_of(write)[name], since) for write in fits):
            tally.covers(PATCHED, f"{noun}, again", by)
    elif not all(_excluded(name, write, value_shown, old) for write in writes):
        tally.open(PATCHED, "what a PATCH made of it is not known")
    else:
        newest = writes[-1]
        requested = body_of(newest)[name]
        says = f"{newest.id} set {name} to {requested!r}, and {seen.id} shows {value_shown!r} afterwards"
        evidence = Evidence(says, (newest.id, seen.id), about=seen.operation, at=seen.sent)
        tally.broke(PATCHED, evidence, case=f"{noun}, again" if old else noun)


def _excluded(name: str, write: Observation, value: Json, old: bool) -> bool:
    """Whether a value cannot be what became of a write; over GraphQL it may have another form (an enum's)."""
    apart = _apart(value, body_of(write)[name])
    return (apart and old) or (_taken_as_requested(name, write) and (apart or write.surface != "graphql"))


def _taken_as_requested(name: str, write: Observation) -> bool:
    """Whether a reply shows a plain value just as it was asked for."""
    requested = body_of(write)[name]
    answered = thing_of(write).get(name) if write.ok else None
    return isinstance(requested, str | int) and answered == requested


def _judge_reply(
    name: str,
    patch: Observation,
    writes: Sequence[Observation],
    at: int,
    readings: Sequence[Observation],
    values: FieldValues,
    tally: Tally,
) -> None:
    """The reply to a PATCH does not show what was there before, if that is something else than was asked for.

    Necessary where no other write overlaps the PATCH.
    """
    shows = thing_of(patch)
    if not patch.ok or name not in shows:
        return
    requested, answered, noun = body_of(patch)[name], shows[name], _noun(patch)
    if answered == requested:
        tally.held(PATCHED, case=noun, by=(patch.id,))
        if values.had_another(requested, patch.sent):
            tally.covers(PATCHED, f"{noun}, again", (patch.id,))
    elif _apart(answered, requested) and values.had(answered, patch.sent) and not _overlapped(patch, writes):
        earlier = _showed_before(name, answered, writes[:at], _last_before(readings, patch.sent))
        if earlier is not None:
            says = (
                f"{patch.id} was to set {name} to {requested!r}, and shows {answered!r} as {earlier.id} did "
                "before"
            )
            evidence = Evidence(says, (earlier.id, patch.id), about=patch.operation, at=patch.sent)
            tally.broke(PATCHED, evidence, case=f"{noun}, again" if at else noun)


def _overlapped(patch: Observation, writes: Sequence[Observation]) -> bool:
    """Return whether another write may have been made while a PATCH was."""
    return any(
        other is not patch and other.received > patch.sent and other.sent < patch.received for other in writes
    )


def _last_before(readings: Sequence[Observation], instant: Micros) -> Observation | None:
    return next((seen for seen in reversed(readings) if seen.received < instant), None)


def _showed_before(
    name: str, value: Json, writes: Sequence[Observation], reading: Observation | None
) -> Observation | None:
    """Return what had shown or set a value: the last reading, else the last of the earlier `writes`."""
    if reading is not None and reading.data[name] == value:
        return reading
    return next((seen for seen in reversed(writes) if value in _values(name, seen)), reading)


def _noun(seen: Observation) -> str:
    return seen.operation.partition(".")[0]


def _values(name: str, write: Observation) -> Iterator[Json]:
    yield body_of(write)[name]
    thing = thing_of(write)
    if name in thing:
        yield thing[name]


def _apart(first: Json, second: Json) -> bool:
    """Return whether two values are plain, and neither is what a deployment may make of the other.

    A text may be trimmed, folded, shortened, and lose or win a scheme or a prefix.
    """
    if isinstance(first, str) and isinstance(second, str):
        letters = plainest(first), plainest(second)
        return letters[0] not in letters[1] and letters[1] not in letters[0]
    return isinstance(first, int) and isinstance(second, int) and first != second
