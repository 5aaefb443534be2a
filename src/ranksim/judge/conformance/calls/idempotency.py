"""Judge idempotency: a POST repeated under one Idempotency-Key does its work once (S28, S47, S48, S111).

Exchanges are grouped by API key and Idempotency-Key. Their kin are all of that account, which count where an
account shares its keys (U27). The first execution of a group is not before its first kin was sent; so all
that took effect within 24 h of that sending is one piece of work. A group whose first reply is marked as a
replay was begun before the trace, and stays open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, MINUTE, SECOND, Micros
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.contract.views import created_by
from ranksim.core.service.operations import TABLE
from ranksim.judge.conformance.history.fields import thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import MARK, Json, Observation
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import MET_AT_ONCE, Breach, Cause, Requirement, Rule, declare
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
            Breach(47, "{} sent twice at once works twice", f"{{}}{AT_ONCE}", SPENT),
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
        needs=(Requirement.SPENDING,),
    ),
    Rule(
        IN_FLIGHT,
        "Only a call in flight makes its twin wait or be refused",
        (47,),
        (18, 92),
        ways=(Breach(47, "a key is in progress with no call in flight"),),
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
    looks_at=(">Idempotency-Key", "Idempotent-Replayed", "data.id"),
)

IN_PROGRESS, MISMATCHED = "idempotency_in_progress", "idempotency_mismatch"

LANDING = SECOND
"""How long after its response was received a call may still count as in flight."""

DRIFT = MINUTE
"""How far two clocks may run apart in 24 hours, many times over."""

Name: TypeAlias = tuple[str, str]
"""Environment and Idempotency-Key."""

KEPT = 3
"""Retentions (business time) after which a key that was not used again is forgotten: as if a trace began."""


@dataclass
class IdempotencyJudge(Judge):
    """Judges every group of POSTs that share an API key and an Idempotency-Key."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    posts: dict[Name, list[Observation]] = field(default_factory=dict)
    """POSTs by their Idempotency-Key, in order of its first use."""

    def wants(self, like: Observation) -> bool:
        """POSTs that may have happened."""
        return like.method == "POST" and like.happened is not False

    def see(self, seen: Observation) -> None:
        """Keep a POST that has an Idempotency-Key."""
        if seen.idempotency_key is not None:
            self.posts.setdefault((seen.environment, seen.idempotency_key), []).append(seen)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge and forget the groups whose last POST is so long ago that nothing of them is remembered."""
        horizon = KEPT * self.options.facts.idempotency_retention // max(1, run.rate)
        while self.posts:
            name, kin = next(iter(self.posts.items()))
            if watermark < DISTANT_FUTURE and kin[-1].sent + horizon >= watermark:
                break
            del self.posts[name]
            if len(kin) > 1 or kin[0].code == IN_PROGRESS:
                for key in dict.fromkeys(seen.key for seen in kin):
                    self._group(key, kin, run).judge(run.rate)

    def _group(self, key: str, kin: Sequence[Observation], run: ObservedRun) -> Group:
        posts, account = [seen for seen in kin if seen.key == key], run.key(key).account
        # a key of unknown account may be of any
        near = [seen for seen in kin if not account or run.key(seen.key).account in (account, "")]
        first = near[0] if "account" in self.options.candidates("idempotency_scope") else posts[0]
        retention, rate = self.options.facts.idempotency_retention, max(1, run.rate)
        earliest = first.sent if run.captured else min(first.sent, run.header.started)
        return Group(
            self.options,
            self.tally,
            posts,
            near,
            f"key {key}, Idempotency-Key {posts[0].idempotency_key}",
            earliest + (retention - DRIFT) // rate,
            -(-(retention + DRIFT) // rate),
            run.captured,
        )


@dataclass(frozen=True, slots=True)
class Group:
    """All POSTs under one Idempotency-Key by one API key, in order of sending, with those of its account.

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
        elif self._hidden:
            self.tally.open(REPLAY, "the key had been used before the run")
        else:
            self._judge_mismatches()
            twins: dict[bytes, list[Observation]] = defaultdict(list)
            for seen in self.posts:
                if not seen.lost:
                    twins[seen.fingerprint].append(seen)
            for same in twins.values():
                self._judge_replays([seen for seen in same if seen.received < self.remembered])
                self._judge_retention(same)

    @property
    def _hidden(self) -> bool:
        """Whether the work was done before the trace: its first reply is a replay."""
        first = min(self.posts, key=lambda seen: seen.received)
        others = (other for other in self.kin if other is not first)
        return first.replayed and not any(other.sent < first.received for other in others)

    def _evidence(self, says: str, *posts: Observation) -> Evidence:
        return evidence_of(says, *posts, about=self.about)

    # Repetitions

    def _judge_replays(self, near: Sequence[Observation]) -> None:
        """All successes while the key is remembered are one piece of work, answered in the same words.

        Necessary: a call that took effect before the first sending plus 24 h met the stored response or made
        it, and successes are stored under every option of U29.
        """
        good = [seen for seen in near if seen.ok]
        for other in good[1:]:
            judge = self._judge_mutation if other.surface == "graphql" else self._judge_work
            judge(good[0], other)
        if near and near[0].surface == "graphql":
            return
        if good:
            self._judge_after_success(min(good, key=lambda seen: seen.received), near)
        self._judge_after_refusal(near)

    def _judge_work(self, earlier: Observation, other: Observation) -> None:
        made = _made(earlier), _made(other)
        if made == (NOTHING, NOTHING):
            made = None, None  # the words were there: work done twice would show no trace
        if None not in made:
            says = f"two replies to one Idempotency-Key name different work: {made[0]} and {made[1]}"
            overlap = AT_ONCE if other.sent <= earlier.received and earlier.sent <= other.received else ""
            evidence = self._evidence(says, earlier, other)
            self.tally.check(ONCE, made[0] == made[1], evidence, case=f"{other.operation}{overlap}")
        # where one of them alone is JSON, `header.json` judges the other
        legible = bool(earlier.answer) == bool(other.answer)
        if legible and (made[0] == made[1] or None in made or NOTHING in made):
            before = earlier.status
            says = f"the repeated POST was answered {other.status} with another body than the {before} before"
            same = earlier.answer == other.answer and earlier.status == other.status
            self.tally.check(REPLAY, same, self._evidence(says, earlier, other), case=_replayed(other))
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

    def _judge_mutation(self, earlier: Observation, other: Observation) -> None:
        """Whether mutations heed the key is not stated (U33); two that were joined show the one job anew."""
        if earlier.answer == other.answer:
            self.tally.held(REPLAY, case=None)
            return
        made = thing_of(earlier).get("id"), thing_of(other).get("id")
        if None not in made and made[0] != made[1]:
            says = (
                f"{other.id} repeats the mutation {earlier.id} under one Idempotency-Key and did other work"
            )
            self.tally.differs(33, "honoured", "ignored", self._evidence(says, earlier, other))
        self.tally.open(REPLAY, "mutations may not heed the key (U33)")

    def _judge_after_success(self, done: Observation, near: Sequence[Observation]) -> None:
        """A repetition sent after a success was received is not refused by one of the six checks.

        Necessary: the stored success is given before any of them is made (S47); what is refused earlier, by a
        limit or a missing key, says nothing.
        """
        for seen in near:
            if seen.sent > done.received and seen.code in CHECK_OF:
                says = f"{done.id} succeeded, and its repetition {seen.id} was refused {seen.code}"
                self.tally.broke(REPLAY, self._evidence(says, done, seen), case=_replayed(seen))

    def _judge_after_refusal(self, near: Sequence[Observation]) -> None:
        """A refusal of the six checks is replayed under U29's default; another outcome excludes that."""
        refused = [seen for seen in near if seen.code in CHECK_OF]
        if not refused:
            return
        refusal = min(refused, key=lambda seen: seen.received)
        for other in near:
            if other.sent <= refusal.received or not (other.ok or other.code in CHECK_OF):
                continue
            if self._same_refusal(refusal, other):
                self.tally.held(REPLAY, case=None)  # where refusals are stored is open (U29)
                if other.replayed and refusal.answer != other.answer:
                    says = f"{other.id} replays the refusal {refusal.id} and tells another wait"
                    self.tally.differs(93, "as_given", "refreshed", self._evidence(says, refusal, other))
                continue
            says = f"{refusal.id} was refused {refusal.code}; its repetition {other.id} was answered anew"
            evidence = self._evidence(says, refusal, other)
            pinned, case = "success" not in self.options.candidates("idempotency_stores"), _replayed(other)
            self.tally.breaks_or_differs(29, "all", "success", evidence, REPLAY, case, pinned=pinned)

    def _same_refusal(self, refusal: Observation, other: Observation) -> bool:
        # the meta of a cooldown may have the time that is left now (U93)
        fresh = "refreshed" in self.options.candidates("replayed_retry_after")
        same = refusal.answer == other.answer or (fresh and refusal.code == "cooldown_active")
        return refusal.code == other.code and same

    def _judge_retention(self, twins: Sequence[Observation]) -> None:
        """A call sent well over 24 h after a success was received is not answered with that success again.

        Necessary: a success is shown only once the response stands (U30), so the origin is before that.
        """
        good = [seen for seen in twins if seen.ok and _made(seen) not in (None, NOTHING)]
        if not good or good[0].surface == "graphql":
            return
        origin = min(good, key=lambda seen: seen.received)
        for seen in good:
            if seen.sent > origin.received + self.forgotten:
                says = f"{seen.id} came over 24 h after {origin.id} and was answered with the same work"
                evidence = self._evidence(says, origin, seen)
                self.tally.check(RETENTION, _made(seen) != _made(origin), evidence)

    # Other bodies, and calls in flight

    def _judge_mismatches(self) -> None:
        """Two bodies cannot both succeed while the key is remembered, nor one that did be a mismatch later.

        Necessary: whichever took effect first was noted under the key as it did, and from then on that key is
        for its body alone (S48). Conversely a mismatch needs another body that may have come before.
        """
        firsts: dict[tuple[str, bytes], Observation] = {}
        for seen in self.kin:
            firsts.setdefault((seen.key, seen.fingerprint), seen)
        done: dict[bytes, Observation] = {}
        for seen in sorted(self.posts, key=lambda seen: seen.received):
            if seen.ok:
                done.setdefault(seen.fingerprint, seen)
        for seen in self.posts:
            if seen.code == MISMATCHED:
                self._judge_mismatch(seen, firsts.values())
            elif seen.ok and seen.received < self.remembered:
                self._judge_both_succeeded(seen, done.values())

    def _judge_both_succeeded(self, seen: Observation, done: Iterable[Observation]) -> None:
        """Hold a success against those of other bodies that came before; `done` is in order of receiving."""
        for other in done:
            if other.received > seen.received:
                return
            if other.fingerprint == seen.fingerprint or other.surface != seen.surface:
                continue
            if seen.surface == "graphql":
                says = f"{seen.id} and {other.id} are two mutations under one Idempotency-Key"
                evidence = self._evidence(f"{says}, and both were done", other, seen)
                self.tally.differs(33, "honoured", "ignored", evidence)
                continue
            says = f"{seen.id} asks for something else than {other.id} under one key, and both succeeded"
            evidence = self._evidence(says, other, seen)
            if (other.path, other.query) != (seen.path, seen.query):
                self.tally.differs(28, "method, path and query too", "the body alone", evidence)
            elif _meaning(other.body) != _meaning(seen.body):
                self.tally.broke(MISMATCH, evidence, case=_changed(other, seen))
                return

    def _judge_mismatch(self, seen: Observation, firsts: Iterable[Observation]) -> None:
        """A mismatch needs another body, and no success that had shown this very text.

        `firsts` are what each API key sent first of each meaning.
        """
        before = [other for other in firsts if other.sent < seen.received]
        others = [other for other in before if other.fingerprint != seen.fingerprint]
        by_key = {other.key: other for other in reversed(others)}
        if seen.key not in by_key:
            self._judge_without_cause(seen, before, others)
            return
        own = by_key[seen.key]
        twins = (other for other in self.posts if other.fingerprint == seen.fingerprint and other.ok)
        same = next((other for other in twins if other.received < seen.sent), None)
        if same is None or seen.surface == "graphql" or seen.received >= self.remembered:
            self.tally.held(MISMATCH, case=_changed(own, seen), by=(own.id, seen.id))
            return
        says = f"{same.id} succeeded, and its repetition {seen.id} was refused as a mismatch"
        self._judge_wording(seen, [same], self._evidence(says, same, seen))

    def _judge_without_cause(
        self, seen: Observation, before: Sequence[Observation], others: Sequence[Observation]
    ) -> None:
        """Judge a mismatch of a key that sent no other body: `others` are of other keys of its account."""
        twins = [other for other in self.posts if other.ok and other.received < seen.sent]
        says = f"{seen.id} was refused as a mismatch, and no other body came under its key"
        evidence = self._evidence(says, *(others or twins or before)[:1], seen)
        if others and "account" in self.options.candidates("idempotency_scope"):
            self.tally.differs(27, "api_key", "account", evidence)
        elif not twins:
            self.tally.open(MISMATCH, "the key may have been used before the run")
        elif not self.captured and seen.received >= self.remembered:
            self.tally.open(MISMATCH, "another body may have come under the key, not captured")
        else:
            self._judge_wording(seen, twins, evidence)

    def _judge_wording(self, seen: Observation, twins: Sequence[Observation], evidence: Evidence) -> None:
        """Note a mismatch that only another wording of the same body may explain (U28)."""
        worded = all(twin.wording != seen.wording for twin in twins)
        pinned = not worded or "raw" not in self.options.candidates("fingerprint")
        self.tally.breaks_or_differs(
            28, "canonical", "raw", evidence, MISMATCH, seen.operation, pinned=pinned
        )

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
            elif latest > seen.sent - LANDING:
                self.tally.open(IN_FLIGHT, "its twin had been answered just before")
            elif not self.captured:
                self.tally.open(IN_FLIGHT, "its twin may not have been captured")
            else:
                says = f"{seen.id} was told that its key is in progress, and no call under it was in flight"
                self.tally.broke(IN_FLIGHT, self._evidence(says, seen))


# Of one exchange


def _replayed(seen: Observation) -> str:
    """Return the case of a repetition that is answered."""
    return seen.operation + (DRY if seen.dry_run else "")


def _changed(earlier: Observation, other: Observation) -> str:
    """Return the case of a POST that another body came before."""
    return "dry, then for real" if earlier.dry_run and not other.dry_run else other.operation


def _meaning(body: Json) -> Json:
    """Return what a body asks for, without what may be left out as well (E2)."""
    if not isinstance(body, dict):
        return body
    return {name: value for name, value in body.items() if value is not None and value is not False}


NOTHING = "nothing new"
"""What a success names that created none of the words it was asked for."""


def _made(seen: Observation) -> str | None:
    """Return what work a success names: the id of a job or resource, or of the first keyword it made."""
    data = seen.data
    if not isinstance(data, dict):
        return None
    for name in ("id", "event_id"):
        if isinstance(data.get(name), str):
            return str(data[name])
    created = created_by(data)
    if created and isinstance(created[0], dict):
        return str(created[0].get("id"))
    return NOTHING if created == [] else None
