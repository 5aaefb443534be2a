"""Judge idempotency: a POST repeated under one Idempotency-Key does its work once (S28, S47, S48, S111).

Exchanges are grouped by API key and Idempotency-Key. Their kin are all of that account, which count where an
account shares its keys (U27). The first execution of a group is not before its first kin was sent; so all
that took effect within 24 h of that sending is one piece of work. A group whose first reply is marked as a
replay was begun before the trace, and stays open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, MINUTE, SECOND, Micros
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.contract.views import created_by
from ranksim.core.service.operations import TABLE
from ranksim.judge.conformance.history.fields import thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation, ReceivedAttempt
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

CHECKS = frozenset(CHECK_OF)
"""Refusals of the six checks: what a repetition never comes to, because the first response stands before."""

LANDING = SECOND
"""How long after its response was received a call may still count as in flight."""

DRIFT = MINUTE
"""How far two clocks may run apart in 24 hours, many times over."""


Name: TypeAlias = tuple[str, str]
"""Environment and Idempotency-Key."""


@dataclass(frozen=True, slots=True)
class Group:
    """All POSTs under one Idempotency-Key by one API key, in order of sending, with those of its account.

    `remembered` is until when the first execution is surely remembered, `forgotten` how long after a response
    it surely is not any more, both in the trace's time. `captured`: no POST under the key is missing; else
    the first execution may be one that nobody saw, since the capture began.
    """

    posts: Sequence[Observation]
    kin: Sequence[Observation]
    about: str
    remembered: Micros
    forgotten: Micros
    captured: bool = True

    @property
    def hidden(self) -> bool:
        """Whether the work was done before the trace: its first reply is a replay."""
        first = min(self.posts, key=lambda seen: seen.received)
        others = (other for other in self.kin if other is not first)
        return first.replayed and not any(other.sent < first.received for other in others)

    def evidence(self, says: str, *posts: Observation) -> Evidence:
        """Point at posts of this group."""
        ids = tuple(dict.fromkeys(seen.id for seen in posts))
        return Evidence(says, ids, about=self.about, at=posts[-1].sent)


KEPT = 3
"""Retentions (business time) after which a key that was not used again is forgotten: as if a trace began."""


@dataclass
class IdempotencyJudge:
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

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """No rule here speaks of webhooks."""

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Judge and forget the groups whose last POST is so long ago that nothing of them is remembered."""
        horizon = KEPT * self.options.facts.idempotency_retention // max(1, run.rate)
        while self.posts:
            name, kin = next(iter(self.posts.items()))
            if watermark < DISTANT_FUTURE and kin[-1].sent + horizon >= watermark:
                break
            del self.posts[name]
            if len(kin) > 1 or kin[0].code == "idempotency_in_progress":
                for key in dict.fromkeys(seen.key for seen in kin):
                    _judge_group(_group(key, kin, run, self.options), run.rate, self.options, self.tally)


def _group(key: str, kin: Sequence[Observation], run: ObservedRun, options: Options) -> Group:
    posts = [seen for seen in kin if seen.key == key]
    account = run.key(key).account
    near = [seen for seen in kin if _one_account(account, run.key(seen.key).account)]
    first = near[0] if "account" in options.candidates("idempotency_scope") else posts[0]
    retention, rate = options.facts.idempotency_retention, max(1, run.rate)
    earliest = first.sent if run.captured else min(first.sent, run.header.started)
    return Group(
        posts,
        near,
        f"key {key}, Idempotency-Key {posts[0].idempotency_key}",
        earliest + (retention - DRIFT) // rate,
        -(-(retention + DRIFT) // rate),
        run.captured,
    )


def _one_account(first: str, other: str) -> bool:
    """Whether two keys may be of one account; a key of unknown account may be of any."""
    return first == other or not first or not other


def _judge_group(group: Group, rate: int, options: Options, tally: Tally) -> None:
    _in_flight(group, tally)
    if len(group.kin) < 2:
        return
    if rate == 0:
        tally.open(REPLAY, "the deployment's clock changed its pace during the run")
    elif group.hidden:
        tally.open(REPLAY, "the key had been used before the run")
    else:
        _mismatch(group, options, tally)
        for twins in _by_meaning(group.posts).values():
            _replay(group, twins, options, tally)
            _retention(group, twins, tally)


# Repetitions


def _replay(group: Group, twins: Sequence[Observation], options: Options, tally: Tally) -> None:
    """All successes while the key is remembered are one piece of work, answered in the same words.

    Necessary: a call that took effect before the first sending plus 24 h met the stored response or made it,
    and successes are stored under every option of U29.
    """
    near = [seen for seen in twins if seen.received < group.remembered]
    good = [seen for seen in near if seen.ok]
    for other in good[1:]:
        _same_work(group, good[0], other, options, tally)
    if near and near[0].surface == "graphql":
        return
    if good:
        _after_success(group, min(good, key=lambda seen: seen.received), near, tally)
    _after_refusal(group, near, options, tally)


def _same_work(
    group: Group, earlier: Observation, other: Observation, options: Options, tally: Tally
) -> None:
    made = _made(earlier), _made(other)
    if other.surface == "graphql":
        _same_mutation(group, earlier, other, tally)
        return
    if made == (NOTHING, NOTHING):
        made = None, None  # the words were there: work done twice would show no trace
    if None not in made:
        says = f"two replies to one Idempotency-Key name different work: {made[0]} and {made[1]}"
        overlap = AT_ONCE if other.sent <= earlier.received and earlier.sent <= other.received else ""
        case = f"{other.operation}{overlap}"
        tally.check(ONCE, made[0] == made[1], group.evidence(says, earlier, other), case=case)
    # where one of them alone is JSON, `header.json` judges the other
    legible = bool(earlier.answer) == bool(other.answer)
    if legible and (made[0] == made[1] or None in made or NOTHING in made):
        before = earlier.status
        says = f"the repeated POST was answered {other.status} with another body than the {before} before"
        same = earlier.answer == other.answer and earlier.status == other.status
        tally.check(REPLAY, same, group.evidence(says, earlier, other), case=_replayed(other))
    if earlier.received < other.sent and not earlier.replayed and not other.replayed:
        _unmarked(group, earlier, other, options, tally)


def _unmarked(group: Group, earlier: Observation, other: Observation, options: Options, tally: Tally) -> None:
    """A replay is marked by a header (U31), where the headers of both replies were recorded."""
    marker = options.default("replay_header")
    recorded = earlier.shows("idempotent-replayed") and other.shows("idempotent-replayed")
    if marker is None or not recorded:
        return
    evidence = group.evidence(f"{other.id} repeats {earlier.id} and carries no {marker}", earlier, other)
    if options.pinned("replay_header"):
        tally.broke(REPLAY, evidence, case=_replayed(other))
    else:
        tally.differs(31, marker, "no such header", evidence)


def _same_mutation(group: Group, earlier: Observation, other: Observation, tally: Tally) -> None:
    """Whether mutations heed the key is not stated (U33); two that were joined show the one job anew."""
    if earlier.answer == other.answer:
        tally.held(REPLAY, case=None)
        return
    made = thing_of(earlier).get("id"), thing_of(other).get("id")
    if None not in made and made[0] != made[1]:
        says = f"{other.id} repeats the mutation {earlier.id} under one Idempotency-Key and did other work"
        tally.differs(33, "honoured", "ignored", group.evidence(says, earlier, other))
    tally.open(REPLAY, "mutations may not heed the key (U33)")


def _after_success(group: Group, done: Observation, near: Sequence[Observation], tally: Tally) -> None:
    """A repetition sent after a success was received is not refused by one of the six checks.

    Necessary: the stored success is given before any of them is made (S47); what is refused earlier, by a
    limit or a missing key, says nothing.
    """
    for seen in near:
        if seen.sent > done.received and seen.code in CHECKS:
            says = f"{done.id} succeeded, and its repetition {seen.id} was refused {seen.code}"
            tally.broke(REPLAY, group.evidence(says, done, seen), case=_replayed(seen))


def _after_refusal(group: Group, near: Sequence[Observation], options: Options, tally: Tally) -> None:
    """A refusal of the six checks is replayed under U29's default; another outcome later excludes that."""
    refused = [seen for seen in near if seen.code in CHECKS]
    if not refused:
        return
    refusal = min(refused, key=lambda seen: seen.received)
    for other in near:
        if other.sent <= refusal.received or not (other.ok or other.code in CHECKS):
            continue
        says = f"{refusal.id} was refused {refusal.code}; its repetition {other.id} was answered anew"
        if _same_refusal(refusal, other, options):
            tally.held(REPLAY, case=None)  # where refusals are stored is open (U29)
            if other.replayed and refusal.answer != other.answer:
                says = f"{other.id} replays the refusal {refusal.id} and tells another wait"
                tally.differs(93, "as_given", "refreshed", group.evidence(says, refusal, other))
        elif "success" in options.candidates("idempotency_stores"):
            tally.differs(29, "all", "success", group.evidence(says, refusal, other))
        else:
            tally.broke(REPLAY, group.evidence(says, refusal, other), case=_replayed(other))


def _same_refusal(refusal: Observation, other: Observation, options: Options) -> bool:
    if "refreshed" in options.candidates("replayed_retry_after") and refusal.code == "cooldown_active":
        return refusal.code == other.code  # its meta may have the time that is left now (U93)
    return refusal.code == other.code and refusal.answer == other.answer


def _retention(group: Group, twins: Sequence[Observation], tally: Tally) -> None:
    """A call sent well over 24 h after a success was received is not answered with that success again.

    Necessary: a success is shown only once the response stands (U30), so the origin is before that.
    """
    good = [seen for seen in twins if seen.ok and _made(seen) not in (None, NOTHING)]
    if not good or good[0].surface == "graphql":
        return
    origin = min(good, key=lambda seen: seen.received)
    for seen in good:
        if seen.sent > origin.received + group.forgotten:
            says = f"{seen.id} came over 24 h after {origin.id} and was answered with the same work"
            tally.check(RETENTION, _made(seen) != _made(origin), group.evidence(says, origin, seen))


# Other bodies, and calls in flight


def _mismatch(group: Group, options: Options, tally: Tally) -> None:
    """Two bodies cannot both succeed while the key is remembered, nor can one that did be a mismatch later.

    Necessary: whichever took effect first was noted under the key as it did, and from then on that key is for
    its body alone (S48). Conversely a mismatch needs another body that may have come before.
    """
    firsts = _first_sent(group.kin)
    done: dict[bytes, Observation] = {}
    for seen in sorted(group.posts, key=lambda seen: seen.received):
        if seen.ok:
            done.setdefault(seen.fingerprint, seen)
    for seen in group.posts:
        if seen.code == "idempotency_mismatch":
            _cause(group, seen, firsts, options, tally)
        elif seen.ok and seen.received < group.remembered:
            _both_succeeded(group, seen, done, options, tally)


def _both_succeeded(
    group: Group, seen: Observation, done: Mapping[bytes, Observation], options: Options, tally: Tally
) -> None:
    for other in done.values():
        if other.received > seen.received:
            return  # they stand in the order of receiving
        if other.fingerprint == seen.fingerprint or other.surface != seen.surface:
            continue
        if seen.surface == "graphql":
            says = f"{seen.id} and {other.id} are two mutations under one Idempotency-Key, and both were done"
            tally.differs(33, "honoured", "ignored", group.evidence(says, other, seen))
            continue
        says = f"{seen.id} asks for something else than {other.id} under one key, and both succeeded"
        evidence = group.evidence(says, other, seen)
        if (other.path, other.query) != (seen.path, seen.query):
            tally.differs(28, "method, path and query too", "the body alone", evidence)
        elif _meaning(other.body) != _meaning(seen.body):
            tally.broke(MISMATCH, evidence, case=_changed(other, seen))
            return


def _meaning(body: Json) -> Json:
    """What a body asks for, without what may be left out as well (E2)."""
    if not isinstance(body, dict):
        return body
    return {name: value for name, value in body.items() if value is not None and value is not False}


def _cause(
    group: Group,
    seen: Observation,
    firsts: Mapping[tuple[str, bytes], Observation],
    options: Options,
    tally: Tally,
) -> None:
    """A mismatch needs another body; where a success had shown this very text, nothing hidden explains it."""
    before = [other for other in firsts.values() if other.sent < seen.received]
    others = [other for other in before if other.fingerprint != seen.fingerprint]
    own = next((other for other in others if other.key == seen.key), None)
    if own is None:
        _without_cause(group, seen, before, others, options, tally)
    elif (same := _succeeded_before(group, seen)) is None:
        tally.held(MISMATCH, case=_changed(own, seen), by=(own.id, seen.id))
    else:
        says = f"{same.id} succeeded, and its repetition {seen.id} was refused as a mismatch"
        if same.wording != seen.wording and "raw" in options.candidates("fingerprint"):
            tally.differs(28, "canonical", "raw", group.evidence(says, same, seen))
        else:
            tally.broke(MISMATCH, group.evidence(says, same, seen), case=seen.operation)


def _without_cause(
    group: Group,
    seen: Observation,
    before: Sequence[Observation],
    others: Sequence[Observation],
    options: Options,
    tally: Tally,
) -> None:
    """Judge a mismatch where its API key had sent no other body: `others` are those of its account's keys."""
    twins = [other for other in group.posts if other.ok and other.received < seen.sent]
    evidence = group.evidence(
        f"{seen.id} was refused as a mismatch, and no other body came under its key",
        *(others or twins or before)[:1],
        seen,
    )
    if others and "account" in options.candidates("idempotency_scope"):
        tally.differs(27, "api_key", "account", evidence)
    elif not twins:
        tally.open(MISMATCH, "the key may have been used before the run")
    elif not group.captured and seen.received >= group.remembered:
        tally.open(MISMATCH, "another body may have come under the key, not captured")
    elif all(twin.wording != seen.wording for twin in twins) and "raw" in options.candidates("fingerprint"):
        tally.differs(28, "canonical", "raw", evidence)
    else:
        tally.broke(MISMATCH, evidence, case=seen.operation)


def _succeeded_before(group: Group, seen: Observation) -> Observation | None:
    """Return a success of the same body that a call repeats while it is remembered."""
    if seen.surface == "graphql" or seen.received >= group.remembered:
        return None
    return next(
        (
            other
            for other in group.posts
            if other.ok and other.fingerprint == seen.fingerprint and other.received < seen.sent
        ),
        None,
    )


def _in_flight(group: Group, tally: Tally) -> None:
    """`idempotency_in_progress` needs a twin that may have been in flight: one whose interval overlaps.

    A lost twin may be in flight for ever, and one just answered may not be noted as such yet. What would have
    shown it broken is a repetition with no twin in flight, where all of them were captured.
    """
    for seen in group.posts:
        twins = [other for other in group.kin if other is not seen and other.sent < seen.received]
        flying = any(other.received > seen.sent for other in twins)
        landing = any(other.received > seen.sent - LANDING for other in twins)
        if seen.code != "idempotency_in_progress":
            if twins and not landing and group.captured and (seen.ok or seen.code == "idempotency_mismatch"):
                tally.held(IN_FLIGHT, by=(seen.id,))
        elif flying:
            tally.held(IN_FLIGHT, case=None)
        elif landing:
            tally.open(IN_FLIGHT, "its twin had been answered just before")
        elif not group.captured:
            tally.open(IN_FLIGHT, "its twin may not have been captured")
        else:
            says = f"{seen.id} was told that its key is in progress, and no call under it was in flight"
            tally.broke(IN_FLIGHT, group.evidence(says, seen))


# Of one exchange


def _replayed(seen: Observation) -> str:
    """Return the case of a repetition that is answered."""
    return seen.operation + (DRY if seen.dry_run else "")


def _changed(earlier: Observation, other: Observation) -> str:
    """Return the case of a POST that another body came before."""
    return "dry, then for real" if earlier.dry_run and not other.dry_run else other.operation


NOTHING = "nothing new"
"""What a success names that created none of the words it was asked for."""


def _made(seen: Observation) -> str | None:
    """What work a success names: the id of a job or resource, or of the first keyword it made."""
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


def _by_meaning(posts: Sequence[Observation]) -> dict[bytes, list[Observation]]:
    """Split the answered posts of a group by what was asked."""
    twins: dict[bytes, list[Observation]] = defaultdict(list)
    for seen in posts:
        if seen.received != DISTANT_FUTURE:
            twins[seen.fingerprint].append(seen)
    return twins


def _first_sent(kin: Sequence[Observation]) -> dict[tuple[str, bytes], Observation]:
    """What each API key sent first of each meaning."""
    first: dict[tuple[str, bytes], Observation] = {}
    for seen in kin:
        first.setdefault((seen.key, seen.fingerprint), seen)
    return first
