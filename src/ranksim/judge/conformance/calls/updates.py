"""Judge updates: a PATCH that was accepted shows, until another write comes after it (S42, S49, E45).

A GraphQL mutation that surely made an update (S4) counts as the PATCH of its input.

Of the writes to one field of one resource those count that may be the last before a reading: each that may
have come before it, unless another one surely came in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import DAY, Micros
from ranksim.core.service.operations import TABLE
from ranksim.judge.conformance.history.fields import plainest, sent_body, thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally

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
class UpdateJudge(Judge):
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
        if seen.updates:
            self._patch(seen)
        elif isinstance(seen.data, dict):
            resource = self._used(seen)
            if not resource.writes:
                _drop_outdated(resource.readings, seen.sent)
            resource.readings.append(seen)

    def _patch(self, seen: Observation) -> None:
        noun, rest = _noun(seen), seen.surface == "rest"
        if seen.status in STALE and rest:
            evidence = evidence_of(f"{seen.id} was refused {seen.status}", seen, about=seen.operation)
            self.tally.broke(UNCONDITIONAL, evidence, case=noun)
        if seen.happened is False or not (seen.ok or seen.outcome_unknown) or not seen.parameters:
            return
        resource = self._used(seen)
        before = next(iter(resource.writes.values()), None)
        if before and seen.ok and rest:
            self.tally.held(UNCONDITIONAL, case=noun, by=(before[-1].id, seen.id))
        for name in (name for name in sent_body(seen) if name not in UNSETTLED):
            resource.writes.setdefault(name, []).append(seen)
            self.patched[_resource(seen)] = None

    def _used(self, seen: Observation) -> ObservedResource:
        resource = self.resources.pop(_resource(seen), None) or ObservedResource()
        self.resources[_resource(seen)] = resource
        resource.busy = seen.sent
        return resource

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
        writes = resource.writes
        over_graphql = [seen for patches in writes.values() for seen in patches if seen.surface == "graphql"]
        for name, patches in writes.items():
            # which fields a mutation changes, by whatever name it calls them, is not sure (U83)
            if mutated or any(name not in sent_body(other) for other in over_graphql):
                self.tally.open(PATCHED, "a GraphQL mutation may have changed it too", len(patches))
            else:
                readings = [seen for seen in resource.readings if name in seen.data]
                PatchedField(self.tally, name, patches, readings).judge()


def _drop_outdated(readings: list[Observation], instant: Micros) -> None:
    """Drop readings of which all fields were read again, well before an instant."""
    readings[:] = [
        early
        for number, early in enumerate(readings, 1)
        if not any(
            late.received < instant and late.data.keys() >= early.data.keys() for late in readings[number:]
        )
    ]


def _noun(seen: Observation) -> str:
    return seen.operation.partition(".")[0]


def _resource(seen: Observation) -> Resource:
    return seen.environment, seen.account, _noun(seen), seen.parameters.get("id", "")


@dataclass
class PatchedField:
    """One field of one resource: what wrote it and what showed it, each in order of sending."""

    tally: Tally
    name: str
    writes: Sequence[Observation]
    readings: Sequence[Observation]
    first: dict[str, tuple[Micros, Json]] = field(default_factory=dict)
    """The values that it had, or was to have, each with when that was first known."""

    def __post_init__(self) -> None:
        values = [(write.received, value) for write in self.writes for value in self._values(write)]
        values += [(seen.received, seen.data[self.name]) for seen in self.readings]
        for at, value in sorted(values, key=lambda observed: observed[0]):
            self.first.setdefault(repr(value), (at, value))

    def judge(self) -> None:
        """Judge the reply to each write, and each reading after one that is surely made."""
        for at, patch in enumerate(self.writes):
            self._judge_reply(patch, at)
        certain = sorted((patch for patch in self.writes if patch.ok), key=lambda patch: patch.received)
        came = done = 0
        alive: list[Observation] = []
        newest: Observation | None = None
        for seen in self.readings:
            while came < len(self.writes) and self.writes[came].sent < seen.received:
                alive.append(self.writes[came])
                came += 1
            while done < len(certain) and certain[done].received < seen.sent:
                newest = max(newest or certain[done], certain[done], key=lambda patch: patch.sent)
                done += 1
            if newest is not None:  # what ended before it was sent is surely overwritten
                since = newest.sent
                alive = [write for write in alive if write.received > since]
                last = [write for write in alive if write.sent < seen.received]
                self._judge_reading(seen, last, since)

    def _judge_reading(self, seen: Observation, writes: Sequence[Observation], since: Micros) -> None:
        """A reading shows what one of the writes that may be the last asked for, or what its reply showed.

        A deployment may write values its own way, such as a trimmed text, and lists in another order: only
        plain values prove anything that were answered as asked for, or that are another from before `since`.
        """
        value, noun = seen.data[self.name], _noun(seen)
        old = self._had(value, since)
        fits = [write for write in writes if any(value == written for written in self._values(write))]
        if fits:
            by = (writes[-1].id, seen.id)
            self.tally.held(PATCHED, case=noun, by=by)
            if any(self._had_another(self._requested(write), since) for write in fits):
                self.tally.covers(PATCHED, f"{noun}, again", by)
        elif not all(self._excluded(write, value, old) for write in writes):
            self.tally.open(PATCHED, "what a PATCH made of it is not known")
        else:
            newest = writes[-1]
            says = (
                f"{newest.id} set {self.name} to {self._requested(newest)!r}, and {seen.id} shows {value!r} "
                "afterwards"
            )
            evidence = evidence_of(says, newest, seen, about=seen.operation)
            self.tally.broke(PATCHED, evidence, case=f"{noun}, again" if old else noun)

    def _judge_reply(self, patch: Observation, at: int) -> None:
        """The reply to a PATCH does not show what was there before, if something else was asked for.

        Necessary where no other write overlaps the PATCH.
        """
        shows, name = thing_of(patch), self.name
        if not patch.ok or name not in shows:
            return
        requested, answered, noun = self._requested(patch), shows[name], _noun(patch)
        if answered == requested:
            self.tally.held(PATCHED, case=noun, by=(patch.id,))
            if self._had_another(requested, patch.sent):
                self.tally.covers(PATCHED, f"{noun}, again", (patch.id,))
            return
        overlapped = any(
            other is not patch and other.received > patch.sent and other.sent < patch.received
            for other in self.writes
        )
        if overlapped or not _apart(answered, requested) or not self._had(answered, patch.sent):
            return
        earlier = self._showed_before(answered, at)
        if earlier is not None:
            says = (
                f"{patch.id} was to set {name} to {requested!r}, and shows {answered!r} as {earlier.id} did"
            )
            evidence = evidence_of(f"{says} before", earlier, patch, about=patch.operation)
            self.tally.broke(PATCHED, evidence, case=f"{noun}, again" if at else noun)

    def _showed_before(self, value: Json, at: int) -> Observation | None:
        """Return what had shown or set a value before a write: the last reading, else the last write."""
        sent = self.writes[at].sent
        reading = next((seen for seen in reversed(self.readings) if seen.received < sent), None)
        if reading is not None and reading.data[self.name] == value:
            return reading
        return next((seen for seen in self.writes[:at][::-1] if value in self._values(seen)), reading)

    def _requested(self, write: Observation) -> Json:
        return sent_body(write)[self.name]

    def _values(self, write: Observation) -> list[Json]:
        """Return what a write asked for, and what its reply shows."""
        thing = thing_of(write)
        return [self._requested(write), *([thing[self.name]] if self.name in thing else [])]

    def _had(self, value: Json, until: Micros) -> bool:
        """Return whether this value was known before an instant."""
        return self.first.get(repr(value), (until, None))[0] < until

    def _had_another(self, value: Json, until: Micros) -> bool:
        """Return whether a value was known before an instant that `value` cannot be made of."""
        return any(at < until and _apart(other, value) for at, other in self.first.values())

    def _excluded(self, write: Observation, value: Json, old: bool) -> bool:
        """Whether a value cannot be what became of a write; over GraphQL an enum has another form."""
        requested = self._requested(write)
        apart, answered = _apart(value, requested), thing_of(write).get(self.name) if write.ok else None
        as_requested = isinstance(requested, str | int) and answered == requested
        return (apart and old) or (as_requested and (apart or write.surface != "graphql"))


def _apart(first: Json, second: Json) -> bool:
    """Return whether two values are plain, and neither is what a deployment may make of the other.

    A text may be trimmed, folded, shortened, and lose or win a scheme or a prefix.
    """
    if isinstance(first, str) and isinstance(second, str):
        letters = plainest(first), plainest(second)
        return letters[0] not in letters[1] and letters[1] not in letters[0]
    return isinstance(first, int) and isinstance(second, int) and first != second
