"""Judge updates: a PATCH that was accepted shows, until another write comes after it (S42, S49, E45).

A GraphQL mutation that surely made an update (S4) counts as the PATCH of its input.

Each field of each resource is run as a register: a PATCH replaces what was there, a reading shows it.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from ranksim.core.clock import DAY, DISTANT_FUTURE, Micros
from ranksim.core.service.operations import TABLE
from ranksim.judge.conformance.contradiction import contradictions
from ranksim.judge.conformance.history.fields import plainest, sent_body, thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.possible import ModelCall
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
        refuses=".*",
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
        for patched in self.fields(resource):
            # which fields a mutation changes, by whatever name it calls them, is not sure (U83)
            if mutated or patched.mutated:
                self.tally.open(PATCHED, "a GraphQL mutation may have changed it too", len(patched.writes))
            else:
                patched.judge()

    def fields(self, resource: ObservedResource) -> Iterator["PatchedField"]:
        """Yield the fields of a resource that were patched."""
        ids = {seen.id: seen for patches in resource.writes.values() for seen in patches}
        mutations = [seen for seen in ids.values() if seen.surface == "graphql"]
        for name, patches in resource.writes.items():
            readings = [seen for seen in resource.readings if name in seen.data]
            mutated = any(name not in sent_body(other) for other in mutations)
            yield PatchedField(self.tally, name, patches, readings, mutated)


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


MOST_AT_ONCE: Final = 200
"""How many PATCHes of a field may be its last before it stays open."""

NONE: Final = -1
"""The number of no value."""


class FieldState(NamedTuple):
    """What a field is by the last PATCH of it; values go by their numbers, in the order they became known.

    `earlier` is how many were known before that PATCH, `requested` is NONE before the first, and `left` is
    what its reply shows that it left, NONE where that is not sure. `exact`: it surely is as requested.
    """

    earlier: int = 0
    requested: int = NONE
    left: int = NONE
    exact: bool = False


class PatchQuestion(NamedTuple):
    """What a PATCH asks of a field, as in `FieldState`; `near` is asked by the writes that overlap it."""

    earlier: int
    requested: int
    near: tuple[int, ...]
    rest: bool


@dataclass
class FieldModel:
    """What may be shown of a field, by the values that it had or was to have, as they became known.

    A deployment may write values its own way, such as a trimmed text, and lists in another order. So a PATCH
    surely leaves what it asked for only where its reply shows that, and it is plain; over GraphQL it may have
    another form. Else it may be shown in several ways, but as no value from before that is not like it.
    The reply to a PATCH that overlaps another write may show what either leaves. Before the first PATCH
    anything is shown.
    """

    values: Sequence[Json]
    distances: dict[tuple[int, int], bool] = field(default_factory=dict)

    def step(self, state: FieldState, call: ModelCall) -> Iterator[FieldState]:
        """Return what the field is after a PATCH, or a reading, that was answered as it was."""
        question, reply = call.question, call.reply
        if not isinstance(question, PatchQuestion):
            if isinstance(reply, int) and self._shows(state, reply):
                yield state
            return
        earlier, requested = max(state.earlier, question.earlier), question.requested
        sure = question.rest and not question.near
        if not isinstance(reply, int) or reply == NONE:
            yield FieldState(earlier, requested)
        elif self.same(reply, requested):
            plain = isinstance(self.values[requested], str | int)
            yield FieldState(earlier, requested, reply if plain else NONE, plain and question.rest)
        elif self._may_become(requested, reply, question.earlier):
            yield FieldState(earlier, requested, reply if sure else NONE)
        elif any(self._may_become(other, reply, question.earlier) for other in question.near):
            yield FieldState(earlier, requested)

    def _shows(self, state: FieldState, value: int) -> bool:
        requested, left = state.requested, state.left
        if requested < 0 or self.same(value, requested):
            return True
        if state.exact or left < 0:
            return not state.exact and self._may_become(requested, value, state.earlier)
        if self.same(value, left) or not self.apart(value, requested):
            return True
        return value >= state.earlier and not self.apart(value, left)

    def _may_become(self, requested: int, value: int, earlier: int) -> bool:
        return value >= earlier or not self.apart(value, requested)

    def same(self, first: int, second: int) -> bool:
        """Return whether two values are equal, such as 1 and 1.0."""
        return first == second or (NONE not in (first, second) and self.values[first] == self.values[second])

    def apart(self, first: int, second: int) -> bool:
        """Return whether neither of two values can be made of the other."""
        if (first, second) not in self.distances:
            self.distances[first, second] = _apart(self.values[first], self.values[second])
        return self.distances[first, second]


@dataclass
class PatchedField:
    """One field of one resource: what wrote it and what showed it, each in order of sending."""

    tally: Tally
    name: str
    writes: Sequence[Observation]
    readings: Sequence[Observation]
    mutated: bool = False
    """Whether a GraphQL mutation may have changed it too."""
    numbers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What each asked for, and what it shows, by its id: the numbers of values."""

    def __post_init__(self) -> None:
        values, numbers = list[Json](), dict[str, int]()
        self.first: list[Observation] = []
        """By which exchange each value was first known."""
        for seen in sorted((*self.writes, *self.readings), key=lambda seen: seen.received):
            pair = []
            for fields in (sent_body(seen) if seen.updates else {}, thing_of(seen)):
                number = (
                    numbers.setdefault(repr(fields[self.name]), len(numbers)) if self.name in fields else NONE
                )
                if number == len(values):
                    values.append(fields[self.name])
                    self.first.append(seen)
                pair.append(number)
            self.numbers[seen.id] = pair[0], pair[1]
        self.instants = [seen.received for seen in self.first]
        self.model = FieldModel(values)

    def judge(self) -> None:
        """Run the model over all writes and readings, and note what held of those that it explains."""
        breaches, is_open = contradictions(
            self.calls(), [FieldState()], self.model.step, MOST_AT_ONCE, anywhere=True
        )
        if is_open:
            self.tally.open(PATCHED, "too many calls met at once to tell")
        seen = {seen.id: seen for seen in (*self.writes, *self.readings)}
        for evidence in breaches:
            self._broke([seen[call.id] for call in evidence])
        wrong = {max(evidence, key=lambda call: call.received).id for evidence in breaches}
        for patch in self.writes:
            requested, answered = self.numbers[patch.id]
            if patch.ok and patch.id not in wrong and self.model.same(requested, answered):
                self._held(patch, requested, patch.sent, (patch.id,))
        self._judge_readings(wrong)

    def calls(self) -> list[ModelCall]:
        """Return all writes and readings for the model, in order of sending."""
        calls = [*map(self._write, self.writes), *map(self._reading, self.readings)]
        return sorted(calls, key=lambda call: call.sent)

    def _write(self, patch: Observation) -> ModelCall:
        """Return a write as the engine sees it; what an error of the server answered may yet take effect."""
        requested, answered = self.numbers[patch.id]
        until = patch.received if patch.ok else DISTANT_FUTURE
        others = self.writes if patch.ok and not self.model.same(requested, answered) else ()
        near = {
            self.numbers[other.id][0]
            for other in others
            if other is not patch and (other.received > patch.sent or not other.ok) and other.sent < until
        }
        rest = patch.surface == "rest"
        question = PatchQuestion(self._count_before(patch.sent), requested, tuple(sorted(near)), rest)
        return ModelCall(
            patch.sent, until, question, answered if patch.ok else None, patch.id, overwrites=True
        )

    def _reading(self, seen: Observation) -> ModelCall:
        return ModelCall(seen.sent, seen.received, None, self.numbers[seen.id][1], seen.id, reads=True)

    def _broke(self, evidence: Sequence[Observation]) -> None:
        writes = [seen for seen in evidence if seen.updates]
        readings = [seen for seen in evidence if not seen.updates]
        newest, value = writes[-1], self.numbers[evidence[-1].id if not readings else readings[-1].id][1]
        sets = [f"set {self.name} to {self.model.values[self.numbers[seen.id][0]]!r}" for seen in writes]
        if readings:
            says = " and ".join(f"{seen.id} {what}" for seen, what in zip(writes, sets, strict=True))
            shows = [f"{seen.id} shows {self.model.values[self.numbers[seen.id][1]]!r}" for seen in readings]
            says += f", and {' and '.join(shows)} {'in whatever order' if shows[1:] else 'afterwards'}"
            again = value < self._count_before(newest.sent)
        else:
            before, again = self.first[value], newest is not self.writes[0]
            writes = [before, newest]
            says = f"{newest.id} was to {sets[-1]}, and shows {self.model.values[value]!r} as {before.id} did"
            says += " before"
        noun, about = _noun(newest), (readings or writes)[-1].operation
        pieces = evidence_of(says, *writes, *readings, about=about)
        self.tally.broke(PATCHED, pieces, case=f"{noun}, again" if again else noun)

    def _judge_readings(self, wrong: Collection[str]) -> None:
        """Note which readings show what a PATCH left that nothing surely overwrote, once one surely did."""
        certain = sorted((patch for patch in self.writes if patch.ok), key=lambda patch: patch.received)
        came = done = since = 0
        latest: dict[int, Micros] = {NONE: 0}
        for seen in self.readings:
            while came < len(self.writes) and self.writes[came].sent < seen.received:
                for number in self.numbers[self.writes[came].id]:
                    latest[number] = max(latest.get(number, 0), self.writes[came].received)
                came += 1
            while done < len(certain) and certain[done].received < seen.sent:
                since = max(since, certain[done].sent)
                done += 1
            value = self.numbers[seen.id][1]
            if not since or seen.id in wrong:
                continue
            if latest.get(value, 0) > since:
                self._held(seen, value, since, (self.writes[came - 1].id, seen.id))
            else:
                self.tally.open(PATCHED, "what a PATCH made of it is not known")

    def _held(self, seen: Observation, value: int, since: Micros, by: Sequence[str]) -> None:
        """Note that the rule held; that the last wins is shown where another value was known before."""
        noun = _noun(seen)
        self.tally.held(PATCHED, case=noun, by=by)
        if any(self.model.apart(other, value) for other in range(self._count_before(since))):
            self.tally.covers(PATCHED, f"{noun}, again", by)

    def _count_before(self, instant: Micros) -> int:
        """Return how many values were known before an instant."""
        return bisect_left(self.instants, instant)


def _apart(first: Json, second: Json) -> bool:
    """Return whether two values are plain, and neither is what a deployment may make of the other.

    A text may be trimmed, folded, shortened, and lose or win a scheme or a prefix.
    """
    if isinstance(first, str) and isinstance(second, str):
        letters = plainest(first), plainest(second)
        return letters[0] not in letters[1] and letters[1] not in letters[0]
    return isinstance(first, int) and isinstance(second, int) and first != second
