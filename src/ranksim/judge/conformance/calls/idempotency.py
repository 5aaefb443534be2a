"""Judge idempotency: a POST repeated under one Idempotency-Key does its work once (S28, S47, S48, S111).

Exchanges are grouped by API key and Idempotency-Key. Their kin are all of that account, which count where an
account shares its keys (U27). What is stored under a key is run (`step`) over the calls to each path, under
each reading of what is open (U28, U29, U93). The first execution of a group is not before its first kin was
sent; so all that took effect within 24 h of that sending is one piece of work. A group whose first reply is
marked as a replay was begun before the trace, and stays open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, MINUTE, SECOND, Micros
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.service.operations import TABLE
from ranksim.judge.conformance.calls.stored_replies import (
    FORGETTING,
    MISMATCHED,
    NOTHING,
    NUMBERS,
    OTHER,
    KeyedAnswer,
    KeyedRequest,
    key_starts,
    keyed_answer,
    keyed_request,
    meaning_of,
    named_work,
    stored_after,
)
from ranksim.judge.conformance.contradiction import weighed
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import MARK, Observation
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.possible import ModelCall
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import MET_AT_ONCE, RAW, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

ONCE = "idempotency.once"
REPLAY = "idempotency.replay"
MISMATCH = "idempotency.mismatch"
IN_FLIGHT = "idempotency.in_flight"
RETENTION = "idempotency.retention"

POSTS = tuple(operation.name for operation in TABLE if operation.method == "POST")
"""What may be posted under an Idempotency-Key: every POST (S28)."""

AT_ONCE = ", at once"
"""Behind the name of an operation: the repetition was sent before the first was answered."""

DRY = ", dry"

SPENT = ("jobs.create", "keywords.create", "scans.create", "keyword_briefs.create", "domains.create")
"""The POSTs whose work done twice costs, counts or shows."""

LOOKS_AT = (">Idempotency-Key", "Idempotent-Replayed", "data.id")

RULES = declare(
    Rule(
        ONCE,
        "A POST repeated under one Idempotency-Key does its work once",
        (28, 47),
        (27, 33, 92),
        cases=(*POSTS, *(f"{name}{AT_ONCE}" for name in POSTS)),
        ways=(
            Breach(111, "a key is forgotten before 24 h", "jobs.create"),
            Breach(47, "{} repeated under one key works twice", "{}", SPENT),
            Breach(47, "{} sent twice at once works twice", f"{{}}{AT_ONCE}", POSTS),
            Breach(28, "a POST ignores the key", "webhooks.test"),
        ),
        essential={MET_AT_ONCE: "no two calls under one Idempotency-Key met at once"},
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        REPLAY,
        "A repeated POST gets the original response",
        (47,),
        (29, 31, 93),
        cases=(*POSTS, *(f"{operation.name}{DRY}" for operation in TABLE if operation.spends)),
        ways=(Breach(47, "{} repeated gets another reply", "{}", SPENT),),
        looks_at=(*LOOKS_AT, RAW),
        follows=(Cause(ONCE, "another piece of work has another reply"),),
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        MISMATCH,
        "One Idempotency-Key with another body is idempotency_mismatch",
        (48,),
        (17, 28),
        cases=(*POSTS, "dry, then for real"),
        ways=(
            Breach(48, "another body of {} under one key succeeds", "{}", SPENT),
            Breach(48, "a real call after its dry run replays it", "dry, then for real"),
        ),
        looks_at=(*LOOKS_AT, f">{RAW}"),
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        IN_FLIGHT,
        "Only a call in flight makes its twin wait or be refused",
        (47,),
        (18, 92),
        ways=(Breach(47, "a key is in progress with no call in flight"),),
        refuses=".*",
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        RETENTION,
        "A key is remembered for $retention, then forgotten",
        (111,),
        (30,),
        exercise="retry, for over a day",
        ways=(Breach(111, "a key is remembered beyond 24 h"),),
        needs=(Requirement.RETENTION,),
    ),
    exercise="retry",
    looks_at=LOOKS_AT,
)

IN_PROGRESS = "idempotency_in_progress"

LANDING = SECOND
"""How long after its response was received a call may still count as in flight."""

DRIFT = MINUTE
"""How far two clocks may run apart in 24 hours, many times over."""

MOST_KINDS = 8
"""Requests and answers to them that are told apart under one key; of more, the others tell nothing."""

REMEMBERED = 3
"""Retentions (business time) after which a key that was not used again is forgotten: as if a trace began."""


@dataclass
class IdempotencyJudge(Judge):
    """Judges every group of POSTs that share an API key and an Idempotency-Key."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    posts: dict[tuple[str, str], list[Observation]] = field(default_factory=dict)
    """POSTs by environment and Idempotency-Key, in order of its first use."""

    def wants(self, like: Observation) -> bool:
        """POSTs that may have happened."""
        return like.method == "POST" and like.happened is not False

    def see(self, seen: Observation) -> None:
        """Keep a POST that has an Idempotency-Key."""
        if seen.idempotency_key is not None:
            self.posts.setdefault((seen.environment, seen.idempotency_key), []).append(seen)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge and forget the groups whose last POST is so long ago that nothing of them is remembered."""
        horizon = REMEMBERED * self.options.facts.idempotency_retention // max(1, run.rate)
        while self.posts:
            name, kin = next(iter(self.posts.items()))
            if watermark < DISTANT_FUTURE and kin[-1].sent + horizon >= watermark:
                break
            del self.posts[name]
            if len(kin) > 1 or kin[0].code == IN_PROGRESS:
                for key, surface in dict.fromkeys((seen.key, seen.surface) for seen in kin):
                    self.group(key, surface, kin, run).judge(run.rate)

    def group(self, key: str, surface: str, kin: Sequence[Observation], run: ObservedRun) -> Group:
        """Return the POSTs of one key and surface, and their kin."""
        account = run.key(key).account
        if not self.options.may_be("idempotency_scope", "account"):
            kin = [seen for seen in kin if seen.key == key]
        elif account:  # a key of unknown account may be of any
            kin = [seen for seen in kin if run.key(seen.key).account in (account, "")]
        retention, rate = self.options.facts.idempotency_retention, max(1, run.rate)
        earliest = kin[0].sent if run.captured else min(kin[0].sent, run.header.started)
        return Group(
            self.options,
            self.tally,
            [seen for seen in kin if (seen.key, seen.surface) == (key, surface)],
            kin,
            f"key {key}, Idempotency-Key {kin[0].idempotency_key}",
            earliest + (retention - DRIFT) // rate,
            -(-(retention + DRIFT) // rate),
            run.captured,
        )


@dataclass(frozen=True, slots=True)
class Group:
    """All POSTs under one Idempotency-Key by one API key and surface, in order of sending, and all kin.

    `remembered` is until when the first execution is surely remembered, `forgotten` how long after a response
    it surely is not any more, both in the trace's time. `captured`: no POST under the key is missing; else
    the first execution may be one that nobody saw, since the capture began.
    """

    options: Options
    tally: Tally
    posts: Sequence[Observation]
    kin: Sequence[Observation]
    about: str
    remembered: Micros
    forgotten: Micros
    captured: bool

    def judge(self, rate: int) -> None:
        """Judge the group by all rules, where business time ran at a `rate`, 0 for one that changed."""
        self._judge_in_flight()
        if len(self.kin) < 2:
            return
        if rate == 0:
            self.tally.open(REPLAY, "the deployment's clock changed its pace during the run")
        elif self.hidden:
            self.tally.open(REPLAY, "the key had been used before the run")
        else:
            self._judge_run()
            firsts = {(seen.key, seen.fingerprint): seen for seen in reversed(self.kin)}
            bodies = sorted(firsts.values(), key=lambda seen: (seen.key != self.posts[0].key, seen.sent))
            origins: dict[tuple[bytes, str], Observation] = {}
            for seen in self.posts:
                if seen.code == MISMATCHED:
                    self._judge_mismatch(seen, bodies)
                elif seen.ok or seen.code in CHECK_OF:
                    origin = origins.setdefault((seen.fingerprint, seen.code), seen)
                    if seen is not origin:
                        self._judge_repetition(origin, seen)

    @property
    def hidden(self) -> bool:
        """Whether the work was done before the trace: its first reply is a replay."""
        first = min(self.posts, key=lambda seen: seen.received)
        others = (other for other in self.kin if other is not first)
        return first.replayed and not any(other.sent < first.received for other in others)

    def _evidence(self, says: str, *posts: Observation) -> Evidence:
        return evidence_of(says, *posts, about=self.about)

    # What no order of the calls explains

    def _judge_run(self) -> None:
        """Run what is stored: replies break a rule where no choice explains them, or exclude a default."""
        done = [seen for seen in self.posts if seen.ok or seen.code in CHECK_OF]
        raw = self.options.must_be("fingerprint", "raw")  # so that another wording is another request
        ways = {(s.fingerprint, s.wording if raw else b"", s.code, s.status, s.answer) for s in done}
        refused = {seen.fingerprint for seen in self.posts if seen.code == MISMATCHED}
        if len(ways) < 2 and refused.isdisjoint(way[0] for way in ways):
            return  # one request was answered in one way, and mismatches are of others
        default, *_ = choices = key_starts(self.options, self.posts[0].surface)
        causes, is_open = weighed(self.calls(), choices, stored_after)
        if is_open:
            self.tally.open(REPLAY, "too many calls met at once to tell")
        for cause, start in causes:
            posts = [self.kin[int(call.id)] for call in cause]
            rules, case, says = _breach(posts[0], posts[-1])
            evidence = self._evidence(says, *posts)
            for rule in rules if start is None else ():
                self.tally.broke(rule, evidence, case=case)
            chosen = (start or default).choice
            for number, assumed, instead in zip(NUMBERS.values(), default.choice, chosen, strict=True):
                if assumed != instead:
                    self.tally.differs(number, assumed, instead, evidence)

    def calls(self) -> list[ModelCall]:
        """Return all calls for the model; those of other keys or surfaces tell nothing by their replies."""
        own, calls = {seen.id for seen in self.posts}, list[ModelCall]()
        kinds, prints = set[tuple[KeyedRequest, KeyedAnswer | None]](), set[bytes]()
        for number, seen in enumerate(self.kin):
            if seen.code == IN_PROGRESS:
                continue
            tells = seen.id in own and (self.captured or seen.received < self.remembered)
            request, answer = keyed_request(seen), keyed_answer(seen, self.options) if tells else None
            if len(kinds) < MOST_KINDS:
                kinds.add((request, answer))
                prints.add(request.fingerprint)
            elif (request, answer) not in kinds:
                answer, listed = None, request.fingerprint in prints
                request = request._replace(wording=b"") if listed else OTHER._replace(path=request.path)
            reads = answer is not None and answer.code == MISMATCHED
            calls.append(ModelCall(seen.sent, seen.received, request, answer, str(number), reads))
        late = sum(call.answered and call.received >= self.remembered for call in calls)
        calls += [ModelCall(self.remembered, DISTANT_FUTURE, FORGETTING)] * late
        return sorted(calls, key=lambda call: call.sent)

    # What is in keeping, and what a run does not tell

    def _judge_repetition(self, earlier: Observation, other: Observation) -> None:
        """Judge a reply of the same kind as one of a twin before."""
        made, by = named_work(earlier), (earlier.id, other.id)
        named = made not in (None, NOTHING) and named_work(other) not in (None, NOTHING)
        same = (earlier.status, earlier.answer) == (other.status, other.answer)
        if other.received >= self.remembered:
            late = other.sent > earlier.received + self.forgotten and other.surface == "rest"
            if late and named:
                says = f"{other.id} came over 24 h after {earlier.id} and was answered with the same work"
                self.tally.check(RETENTION, made != named_work(other), self._evidence(says, earlier, other))
        elif other.surface == "graphql" and not same:
            self.tally.open(REPLAY, "mutations may not heed the key (U33)")
        elif other.surface == "graphql" or (not other.ok and earlier.received < other.sent):
            self.tally.held(REPLAY, case=None)  # where refusals are stored is open (U29)
        elif other.ok:
            if named and made == named_work(other):
                self.tally.held(ONCE, case=_worked(earlier, other), by=by)
            if same:
                self.tally.held(REPLAY, case=_replayed(other), by=by)
            if earlier.received < other.sent and not earlier.replayed and not other.replayed:
                self._judge_unmarked(earlier, other)

    def _judge_unmarked(self, earlier: Observation, other: Observation) -> None:
        """A replay is marked by a header (U31), where the headers of both replies were recorded."""
        marker = self.options.default("replay_header")
        if marker is not None and earlier.shows(MARK) and other.shows(MARK):
            says = f"{other.id} repeats {earlier.id} and carries no {marker}"
            evidence, pinned = self._evidence(says, earlier, other), self.options.pinned("replay_header")
            self.tally.breaks_or_differs(
                31, marker, "no such header", evidence, REPLAY, _replayed(other), pinned=pinned
            )

    def _judge_mismatch(self, seen: Observation, bodies: Iterable[Observation]) -> None:
        """Count a mismatch that another body may explain, of its API key or of its account (U27)."""
        others = (
            other for other in bodies if other.sent < seen.received and other.fingerprint != seen.fingerprint
        )
        other = next(others, None)
        if other is not None and other.key == seen.key:
            self.tally.held(MISMATCH, case=_changed(other, seen), by=(other.id, seen.id))
        elif other is not None:
            says = f"{seen.id} was refused as a mismatch, and no other body came under its key"
            self.tally.differs(27, "api_key", "account", self._evidence(says, other, seen))
        elif not any(other.ok and other.received < seen.sent for other in self.posts):
            self.tally.open(MISMATCH, "the key may have been used before the run")
        elif not self.captured and seen.received >= self.remembered:
            self.tally.open(MISMATCH, "another body may have come under the key, not captured")

    def _judge_in_flight(self) -> None:
        """`idempotency_in_progress` needs a twin that may have been in flight: one whose interval overlaps.

        A lost twin may be in flight for ever, and one just answered may not be noted as such yet. What would
        have shown it broken is a repetition with no twin in flight, where all of them were captured.
        """
        for seen in self.posts:
            twins = (other for other in self.kin if other is not seen and other.sent < seen.received)
            latest = max((other.received for other in twins), default=DISTANT_PAST)
            if seen.code != IN_PROGRESS:
                landed = DISTANT_PAST < latest <= seen.sent - LANDING
                if landed and self.captured and (seen.ok or seen.code == MISMATCHED):
                    self.tally.held(IN_FLIGHT, by=(seen.id,))
            elif latest > seen.sent:
                self.tally.held(IN_FLIGHT, case=None)
                self._cover_at_once(seen)
            elif latest > seen.sent - LANDING:
                self.tally.open(IN_FLIGHT, "its twin had been answered just before")
            elif not self.captured:
                self.tally.open(IN_FLIGHT, "its twin may not have been captured")
            else:
                says = f"{seen.id} was told that its key is in progress, and no call under it was in flight"
                self.tally.broke(IN_FLIGHT, self._evidence(says, seen))

    def _cover_at_once(self, refused: Observation) -> None:
        """A call refused for a twin in flight, which did the work, did not do it again."""
        for other in self.posts:
            met = other.sent < refused.received and refused.sent < other.received
            same = other.ok and other.fingerprint == refused.fingerprint
            if met and same and named_work(other) is not None:
                self.tally.covers(ONCE, f"{other.operation}{AT_ONCE}", (other.id, refused.id))
                return


# The cases of two exchanges


def _breach(earlier: Observation, later: Observation) -> tuple[tuple[str, ...], str, str]:
    """Return which rules two replies break that cannot both be right, in which case, and what cannot be."""
    did = ["succeeded" if seen.ok else f"was refused {seen.code}" for seen in (earlier, later)]
    made = named_work(earlier), named_work(later)
    if later.code == MISMATCHED:
        return (MISMATCH,), later.operation, f"{earlier.id} {did[0]}, and its repetition {later.id} {did[1]}"
    if earlier.fingerprint != later.fingerprint and meaning_of(earlier.body) != meaning_of(later.body):
        says = f"{later.id} asks for something else than {earlier.id} under one key, and both succeeded"
        return (MISMATCH,), _changed(earlier, later), says
    if None not in made and made[0] != made[1]:
        says = f"two replies to one Idempotency-Key name different work: {made[0]} and {made[1]}"
        return (ONCE, *[REPLAY] * (NOTHING in made)), _worked(earlier, later), says
    words = " in other words" if earlier.code == later.code else ""
    says = f"{earlier.id} {did[0]}, and its repetition {later.id} {did[1]}{words}"
    return (REPLAY,), _replayed(later), says


def _worked(earlier: Observation, other: Observation) -> str:
    """Return the case of a repetition that names its work."""
    overlap = AT_ONCE if other.sent <= earlier.received and earlier.sent <= other.received else ""
    return f"{other.operation}{overlap}"


def _replayed(seen: Observation) -> str:
    """Return the case of a repetition that is answered."""
    return seen.operation + (DRY if seen.dry_run else "")


def _changed(earlier: Observation, other: Observation) -> str:
    """Return the case of a POST that another body came before."""
    return "dry, then for real" if earlier.dry_run and not other.dry_run else other.operation
