"""Judge idempotency: a POST repeated under one Idempotency-Key does its work once (S28, S47, S48, S111).

Exchanges are grouped by API key and Idempotency-Key. The first execution of a group is not before the first
was sent; so all that took effect within 24 h of that sending is one piece of work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ranksim.clock import Micros
from ranksim.conformance.history import NEVER, History, Seen
from ranksim.conformance.options import Options
from ranksim.conformance.verdicts import Evidence, Rule, Tally

ONCE = "idempotency.once"
REPLAY = "idempotency.replay"
MISMATCH = "idempotency.mismatch"
IN_FLIGHT = "idempotency.in_flight"
RETENTION = "idempotency.retention"

RULES = (
    Rule(ONCE, "A POST repeated under one Idempotency-Key does its work once", (28, 47), (92,), "retry"),
    Rule(REPLAY, "A repeated POST gets the original response", (47,), (29, 31, 93), "retry"),
    Rule(MISMATCH, "One Idempotency-Key with another body is idempotency_mismatch", (48,), (17, 28), "retry"),
    Rule(IN_FLIGHT, "Only a call in flight makes its twin wait or be refused", (47,), (18, 92), "retry"),
    Rule(
        RETENTION, "A key is remembered for 24 hours, then forgotten", (111,), (30,), "retry, for over a day"
    ),
)

NOT_STORED = frozenset({"rate_limited", "unauthorized", "idempotency_in_progress", "idempotency_mismatch"})
"""Codes that say nothing about the stored response."""


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge every group of POSTs that share an API key and an Idempotency-Key."""
    shared: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for seen in history.seen:
        if seen.idempotency_key is not None and seen.method == "POST" and seen.happened is not False:
            shared[seen.environment, seen.idempotency_key].append(seen)
    for (_, name), kin in shared.items():
        for key in {seen.key for seen in kin}:
            group = [seen for seen in kin if seen.key == key]
            _judge_group(group, kin, history.rate, f"key {key}, Idempotency-Key {name}", options, tally)


def _judge_group(
    group: Sequence[Seen], kin: Sequence[Seen], rate: int, about: str, options: Options, tally: Tally
) -> None:
    _in_flight(group, kin, about, tally)
    if len(kin) < 2:
        return
    if rate == 0:
        tally.open(REPLAY, "the deployment's clock changed its pace during the run")
        return
    retention = options.facts.idempotency_retention // rate
    _mismatch(group, kin, retention, about, options, tally)
    _replay(group, retention, about, options, tally)
    _retention(group, retention, about, tally)


def _replay(group: Sequence[Seen], retention: Micros, about: str, options: Options, tally: Tally) -> None:
    """All successes within 24 h of the first sending are one piece of work, told in the same words.

    Necessary: the origin is not before the first sending, so a call that took effect sooner than that plus
    24 h met the stored response or made it. Only successes are surely stored (U29).
    """
    first = group[0]
    for twins in _by_meaning(group).values():
        near = [seen for seen in twins if seen.received < first.sent + retention and _answered(seen)]
        good = [seen for seen in near if seen.ok]
        for other in good[1:]:
            _same_work(good[0], other, about, options, tally)
        refused = [seen for seen in near if not seen.ok and 400 <= seen.status <= 499]
        _refusals(refused, good, about, options, tally)


def _same_work(one: Seen, other: Seen, about: str, options: Options, tally: Tally) -> None:
    ids = _made(one), _made(other)
    pair = (one.id, other.id)
    if None not in ids:
        says = f"two replies to one Idempotency-Key name different work: {ids[0]} and {ids[1]}"
        tally.check(ONCE, ids[0] == ids[1], Evidence(says, pair, about=about, at=other.sent))
    if ids[0] == ids[1]:
        says = f"the repeated POST was answered {other.status} with another body than the {one.status} before"
        same = one.answer == other.answer and one.status == other.status
        tally.check(REPLAY, same, Evidence(says, pair, about=about, at=other.sent))
    marker = options.default("replay_header")
    if one.received < other.sent and not other.replayed and not one.replayed and marker is not None:
        says = f"{other.id} repeats {one.id} and carries no {marker}"
        tally.differs(31, marker, "no such header", Evidence(says, pair, about=about, at=other.sent))


def _refusals(
    refused: Sequence[Seen], good: Sequence[Seen], about: str, options: Options, tally: Tally
) -> None:
    """A refusal of the six checks is replayed under U29's default; another outcome later excludes that."""
    checks = [seen for seen in refused if seen.code in STORED_REFUSALS]
    for one in checks:
        for other in (*checks, *good):
            if one.received >= other.sent:
                continue
            same = other.code == one.code and other.answer == one.answer
            evidence = Evidence(
                f"{one.id} was refused {one.code}; its repetition {other.id} was answered anew",
                (one.id, other.id),
                about=about,
                at=other.sent,
            )
            if same:
                tally.held(REPLAY)
            elif "success" in options.candidates("idempotency_stores"):
                tally.differs(29, "all", "success", evidence)
            else:
                tally.broke(REPLAY, evidence)


STORED_REFUSALS = frozenset(
    {
        "entitlement_required",
        "subscription_inactive",
        "cost_cap_reached",
        "quota_exhausted",
        "slot_limit_exceeded",
        "cooldown_active",
    }
)


def _mismatch(
    group: Sequence[Seen], kin: Sequence[Seen], retention: Micros, about: str, options: Options, tally: Tally
) -> None:
    """Another body, sent after a success was received and within 24 h of the first sending, cannot succeed.

    Necessary: that success was stored under the key before it was received, and for at least 24 h from the
    first sending. Conversely a mismatch needs another body that may have come before.
    """
    anchors = _first_successes(group)
    for seen in group:
        if seen.code == "idempotency_mismatch":
            _cause(seen, kin, about, options, tally)
        elif seen.ok and seen.received < group[0].sent + retention:
            for anchor in anchors:
                if anchor.fingerprint != seen.fingerprint and anchor.received < seen.sent:
                    says = f"{seen.id} has another body than {anchor.id} under one key, and both succeeded"
                    tally.broke(MISMATCH, Evidence(says, (anchor.id, seen.id), about=about, at=seen.sent))
                    break


def _cause(seen: Seen, kin: Sequence[Seen], about: str, options: Options, tally: Tally) -> None:
    before = [other for other in kin if other is not seen and other.sent < seen.received]
    other_body = [other for other in before if other.fingerprint != seen.fingerprint]
    evidence = Evidence(
        f"{seen.id} was refused as a mismatch, and no other body came under its key",
        (*(other.id for other in before[:1]), seen.id),
        about=about,
        at=seen.sent,
    )
    if any(other.key == seen.key for other in other_body):
        tally.held(MISMATCH)
    elif other_body and "account" in options.candidates("idempotency_scope"):
        tally.differs(27, "api_key", "account", evidence)
    elif any(other.wording != seen.wording for other in before) and "raw" in options.candidates(
        "fingerprint"
    ):
        tally.differs(28, "canonical", "raw", evidence)
    else:
        tally.broke(MISMATCH, evidence)


def _in_flight(group: Sequence[Seen], kin: Sequence[Seen], about: str, tally: Tally) -> None:
    """`idempotency_in_progress` needs a twin that may have been in flight: one whose interval overlaps.

    A lost twin may be in flight for ever.
    """
    for seen in group:
        if seen.code != "idempotency_in_progress":
            continue
        twins = [o for o in kin if o is not seen and o.sent < seen.received and o.received > seen.sent]
        says = f"{seen.id} was told that its key is in progress, and no call under it was in flight"
        tally.check(IN_FLIGHT, bool(twins), Evidence(says, (seen.id,), about=about, at=seen.sent))


def _retention(group: Sequence[Seen], retention: Micros, about: str, tally: Tally) -> None:
    """A call sent 24 h after any success was received cannot be answered with that success again.

    Necessary: a success is shown only once the response stands (U30), so the origin is before that.
    """
    good = [seen for seen in group if seen.ok and _made(seen) is not None]
    if not good:
        return
    origin = min(good, key=lambda seen: seen.received)
    for seen in good:
        if seen.sent >= origin.received + retention and seen.fingerprint == origin.fingerprint:
            says = f"{seen.id} came over 24 h after {origin.id} and was answered with the same work"
            fresh = _made(seen) != _made(origin)
            tally.check(RETENTION, fresh, Evidence(says, (origin.id, seen.id), about=about, at=seen.sent))


# Of one exchange


def _answered(seen: Seen) -> bool:
    return seen.received != NEVER and seen.code not in NOT_STORED and seen.status < 500


def _made(seen: Seen) -> str | None:
    """What work a success names: the id of a job or resource, or of the first keyword it made."""
    data = seen.data
    if not isinstance(data, dict):
        return None
    for name in ("id", "event_id"):
        if isinstance(data.get(name), str):
            return str(data[name])
    created = data.get("created")
    if isinstance(created, list) and created and isinstance(created[0], dict):
        return str(created[0].get("id"))
    return None


def _by_meaning(group: Sequence[Seen]) -> dict[bytes, list[Seen]]:
    """Split a group by what was asked."""
    twins: dict[bytes, list[Seen]] = defaultdict(list)
    for seen in group:
        twins[seen.fingerprint].append(seen)
    return twins


def _first_successes(group: Sequence[Seen]) -> list[Seen]:
    """The success received first of each meaning."""
    first: dict[bytes, Seen] = {}
    for seen in sorted(group, key=lambda seen: seen.received):
        if seen.ok:
            first.setdefault(seen.fingerprint, seen)
    return list(first.values())
