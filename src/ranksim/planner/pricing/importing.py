"""Recorded calls made into columns: what each was about, as rows and numbers, worked out once.

What a call does to its account is taken as far as `fleet.recorded` can follow it: domains with so many
keywords and so many tuples for each. Where an effect goes beyond, the call is taken as if it had none, or
were the first of its kind, and is counted by its reason in the account's `unmodelled`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from ranksim.core import draws
from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.callers.request_factory import on_one
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import CHECK_OF, JobKind, RateClass, Spend
from ranksim.core.draws import Purpose
from ranksim.core.rules.admission import GRANTED
from ranksim.core.rules.idempotency import is_stored
from ranksim.core.rules.slots import fold
from ranksim.core.service.bodies import BriefsBody, JobBody, KeywordsBody, RequestBody, ScanBody
from ranksim.core.service.operations import OPERATIONS
from ranksim.planner.fleet.rows import (
    CODELESS,
    FAULTY,
    LIMITED,
    NOT_FOUND,
    READ,
    REMOVE,
    UNSTATED,
    WRITE,
    CallRow,
    Records,
    to_records,
)
from ranksim.planner.pricing.back_test import accounts_in
from ranksim.planner.pricing.columns import CHUNK, OUTCOME_OF, ColumnAccount, Columns
from ranksim.planner.pricing.recording import RecordedCall, Recording, read_recording
from ranksim.planner.pricing.replay import RESOURCES, specs_of, with_numbered_hosts
from ranksim.report.progress import Tell, noted

DRY, WRONG = 1, 2
"""What an idle call is: a dry run or a repeat, which is charged and passes; or faulty, and stays so."""

BY_STATUS = {404: NOT_FOUND, 429: LIMITED}
"""The outcome that a status tells where no code of a refusal does."""

FOLDING = "casefold"

REPEATS = "repeats under an Idempotency-Key"
LISTED = "keywords that stood in their list already"
AGAIN = "keywords added again after they were removed"
BESIDE = "keywords and scans of lists made beside others"
SCANS = "scans that are changed, paused or removed"
GONE = "lists and domains that are removed"
MADE_UP = "calls about one thing that an access log does not name"
OWNED_BESIDE = "calls of accounts with further portfolios, sites, or something used"
FAILING = "jobs that failed when recorded"
BEYOND = "jobs that reserved something else than they cost"
NEW_DOMAINS = "AI scans of domains that the recording made"

UNDOING = {
    "scans.update": SCANS,
    "scans.delete": SCANS,
    "keyword_lists.delete": GONE,
    "domains.delete": GONE,
}


@dataclass(slots=True)
class ImportedList:
    """A keyword list: the domain's row, whether the domain's scans cover it, its words, those it has lost."""

    domain: int
    beside: bool = False
    words: set[str] = field(default_factory=set)
    added: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Owner:
    """What is known of one account while its calls are read, by the ids of the recording."""

    name: str
    spec: AccountSpec
    row: int
    number: int
    phase: int = 0
    calls: int = 0
    domains: dict[str, int] = field(default_factory=dict)
    lists: dict[str, ImportedList] = field(default_factory=dict)
    keywords: dict[str, tuple[str, str]] = field(default_factory=dict)
    owned: set[str] = field(default_factory=set)
    made_domains: list[str] = field(default_factory=list)
    things: dict[int, tuple[str, int]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    repeated: set[tuple[str | None, str]] = field(default_factory=set)
    unmodelled: Counter[str] = field(default_factory=Counter)

    @property
    def account(self) -> ColumnAccount:
        """The account as columns keep it."""
        made = tuple(self.made_domains)
        return ColumnAccount(
            self.name, self.spec, self.calls, self.number, made, self.things, dict(self.unmodelled)
        )

    def lists_of(self, domain: int) -> list[str]:
        """The lists of a domain."""
        return [which for which, listed in self.lists.items() if listed.domain == domain]


def columns_of(
    recording: Recording | str | Path,
    *,
    accounts: Mapping[str, AccountSpec] | str | Path | None = None,
    keywords: int = 50,
    seed: int = 1,
    progress: Tell | None = None,
) -> Columns:
    """Make columns of a recording. What nobody says of an account is taken from what its calls name.

    Recording and accounts may be files. `progress` is told how many calls were made into rows; without it a
    notebook shows that. Raises BadInput.
    """
    if not isinstance(recording, Recording):
        recording = read_recording(recording)
    timeline = ""
    if isinstance(accounts, str | Path):
        accounts, timeline = accounts_in(accounts)
    recording = with_numbered_hosts(recording)
    importer = _Importer(recording, accounts or {}, keywords, seed)
    with noted("making columns", progress) as tell:
        rows = list(importer.rows(tell))
    calls = to_records(rows, CallRow)
    return Columns(
        where=recording.where,
        accounts=tuple(owner.account for owner in importer.owners.values()),
        keys=len(importer.keys),
        things=importer.things,
        start=recording.start,
        end=recording.calls[-1].at + 1,
        calls=len(rows),
        left_out=dict(importer.left_out),
        duplicates=recording.duplicates.note,
        timeline=timeline,
        chunks=lambda: (_by_account(calls[at : at + CHUNK]) for at in range(0, len(calls), CHUNK)),
    )


def _by_account(calls: Records) -> Records:
    """A chunk with the calls of each account together, in their order."""
    return calls[np.argsort(calls["account"], kind="stable")]


class _Importer:
    def __init__(
        self, recording: Recording, described: Mapping[str, AccountSpec], keywords: int, seed: int
    ) -> None:
        self.recording = recording
        self.left_out = Counter(recording.left_out)
        self.keys: dict[tuple[str, str | None], int] = {}
        self.things = 0
        specs = specs_of(recording, described, keywords)
        self.owners = {
            name: _owner(recording, name, spec, row, seed) for row, (name, spec) in enumerate(specs.items())
        }
        referred = {(call.account, id_) for call in recording.calls for _, id_ in call.refers()}
        self.needed = referred & recording.created

    def rows(self, tell: Tell) -> Iterator[CallRow]:
        for call in self.recording.each(tell):
            owner = self.owners[call.account]
            if resource := self.recording.lacks(call, owner.owned):
                self.left_out[self.recording.why_unrepeatable(call, resource)] += 1
                continue
            if owner.spec.further or owner.spec.sites or owner.spec.used is not None:
                owner.unmodelled[OWNED_BESIDE] += 1
            row = self._row(owner, call)
            owner.calls += 1
            yield row

    def _row(self, owner: Owner, call: RecordedCall) -> CallRow:
        operation, row = OPERATIONS[call.operation], self._opened(owner, call)
        body = _drafted(owner, call) if call.drafted else (call.body or {})
        was_wrong = row.recorded in (NOT_FOUND, FAULTY) and call.code != ""
        if call.operation in SPENDING:
            _spend(owner, row, call, body)
            lasts = self.recording.lasts(call)
            row.lasts = -1 if lasts is None else lasts
        elif operation.method != "GET" and not was_wrong:
            _change(owner, row, call)
        dry = body.get("dry_run") is True and operation.spends
        if _is_repeat(owner, call) or dry:
            row.idle = row.idle or DRY
        if was_wrong:
            row.idle = WRONG
        if not row.idle:
            self._make(owner, row, call, body)
            if call.operation == "keywords.create":
                _add(owner, row, call, body)
        return row

    def _opened(self, owner: Owner, call: RecordedCall) -> CallRow:
        """The row of a call by who makes it, what it needs, and whether it reads."""
        operation = OPERATIONS[call.operation]
        row = CallRow(account=owner.row, at=call.at, recorded=recorded_outcome(call))
        if call.surface != "app" and not operation.keyless:
            row.key = self.keys.setdefault((call.account, call.key), len(self.keys))
        row.activity = READ if operation.rate == RateClass.READ else WRITE
        # The latest thing that it is about, of those that calls make, be it later.
        made = (id_ for _, id_ in call.refers() if (call.account, id_) in self.recording.created)
        row.needs = max((self._thing(owner, id_) for id_ in made), default=-1)
        if call.drafted and on_one(call.operation):
            owner.unmodelled[MADE_UP] += 1
        return row

    def _thing(self, owner: Owner, which: str) -> int:
        if which not in owner.numbers:
            owner.numbers[which] = self.things
            self.things += 1
        return owner.numbers[which]

    def _make(self, owner: Owner, row: CallRow, call: RecordedCall, body: Mapping[str, Any]) -> None:
        """Note what a call made that others are about; all that one call makes is one thing."""
        ids = [which for which, _ in call.made if (call.account, which) in self.needed]
        if not ids:
            return
        row.makes = self._thing(owner, ids[0])
        for which in ids:
            owner.numbers[which] = row.makes
        resource = call.operation.partition(".")[0]
        if resource == "domains":
            owner.domains[ids[0]] = row.domain = len(owner.domains)
            owner.made_domains.append(str(body.get("host", "")))
        elif resource == "keyword_lists":
            row.domain = owner.domains.get(str(body.get("domain_id")), 0)
            owner.lists[ids[0]] = ImportedList(row.domain, beside=bool(owner.lists_of(row.domain)))
        owner.things[row.makes] = (resource, row.activity if resource == "jobs" else row.domain)


def _owner(recording: Recording, name: str, spec: AccountSpec, row: int, seed: int) -> Owner:
    """An account with what its portfolio's things are called in the recording, in their order."""
    owner = Owner(name, spec, row, recording.numbers[name])
    made = owner.account
    portfolio = made.portfolio
    count = len(made.hosts)
    owner.phase = draws.below(count, seed, draws.entity(name), 0, Purpose.PHASE)
    each = {
        "domains": 1,
        "keyword_lists": portfolio.lists,
        "keywords": portfolio.keywords,
        "labels": portfolio.labels,
        "competitors": portfolio.competitors,
        "scans": len(portfolio.scans),
    }
    # An account without a portfolio owns nothing, although the kernel gives it a domain to stand on.
    owning = 0 if spec.portfolio is None else count
    before = {
        resource: recording.before.get((name, resource), [])[: owning * each[resource]]
        for resource in RESOURCES
    }
    owner.owned = {id_ for ids in before.values() for id_ in ids}
    owner.domains = {id_: row for row, id_ in enumerate(_padded(before["domains"], count, "domain"))}
    for place, id_ in enumerate(_padded(before["keyword_lists"], owning * portfolio.lists, "list")):
        domain, number = divmod(place, portfolio.lists)
        dealt = range(number + 1, portfolio.keywords + 1, portfolio.lists)
        owner.lists[id_] = ImportedList(domain, words={f"keyword {n}" for n in dealt})
    lists = list(owner.lists)
    words = [n for first in range(portfolio.lists) for n in range(first, portfolio.keywords, portfolio.lists)]
    for place, which in enumerate(before["keywords"]):
        domain, number = divmod(place, portfolio.keywords)
        where = domain * portfolio.lists + words[number] % portfolio.lists
        owner.keywords[which] = (lists[where], f"keyword {words[number] + 1}")
    return owner


def _padded(ids: list[str], count: int, noun: str) -> list[str]:
    """Return `count` ids: those that calls name, and others for what no call names."""
    return [*ids, *(f"({noun} {number})" for number in range(len(ids), count))]


def recorded_outcome(call: RecordedCall) -> int:
    """Return the outcome that was recorded, as a number; -1 where the reply was lost."""
    if call.status is None:
        return -1
    if call.status < 400:
        return GRANTED
    if not call.code and call.status in CODELESS:
        return UNSTATED
    return OUTCOME_OF.get(call.code, BY_STATUS.get(call.status, FAULTY))


def _drafted(owner: Owner, call: RecordedCall) -> dict[str, Any]:
    """The body of a line of an access log, with the domain whose turn it is where no rule names one."""
    number, domains = owner.calls, list(owner.domains)
    domain = domains[(number + owner.phase) % len(domains)]
    lists = owner.lists_of(owner.domains[domain])
    which = lists[number // max(1, len(domains)) % len(lists)] if lists else ""
    drafts: dict[str, dict[str, Any]] = {
        "jobs.create": {"kind": "rank_run", "domain_id": domain},
        "keyword_briefs.create": {"domain_id": domain, "keywords": ["keyword"]},
        "keywords.create": {"list_id": which, "keywords": [f"drafted {number}"]},
        "scans.create": {
            "domain_id": domain,
            "list_ids": [which],
            "engine_devices": ["google/mobile"],
            "geographies": [{"country": "US"}],
        },
    }
    return drafts.get(call.operation, {}) | (call.body or {})


# What each spending operation asks for


def _spend(owner: Owner, row: CallRow, call: RecordedCall, body: Mapping[str, Any]) -> None:
    """Note what a call asks for; a faulty one asks for nothing."""
    row.activity, model, note = SPENDING[call.operation]
    kind = str(body.get("kind"))
    if model is JobBody and kind in list(JobKind):
        row.activity = Spend[kind.upper()]
        row.size = 0 if call.units is None else call.units + 1
        ending = call.ending
        if ending is not None and ending.failed:
            owner.unmodelled[FAILING] += 1
            row.fails = 1
            row.size = 1  # it costs nothing in the end
        elif ending is not None and ending.cost_of(ending.estimate) not in (None, ending.estimate):
            owner.unmodelled[BEYOND] += 1
            row.costs, row.estimated = ending.cost, ending.estimate
    try:
        request = model.model_validate(dict(body))
    except ValidationError:
        row.idle = WRONG
    else:
        note(owner, row, request)


def _job(owner: Owner, row: CallRow, body: JobBody) -> None:
    row.domain = owner.domains.get(body.domain_id, 0)
    made = row.domain >= len(owner.domains) - len(owner.made_domains)
    if body.kind == "ai_scan" and made and not row.size:
        owner.unmodelled[NEW_DOMAINS] += 1


def _briefs(owner: Owner, row: CallRow, body: BriefsBody) -> None:
    if body.keywords is not None:
        row.domain = owner.domains.get(body.domain_id or "", 0)
        row.size = len({fold(word, FOLDING) for word in body.keywords})
        return
    ids = body.keyword_ids or [body.keyword_id or ""]
    keywords = [owner.keywords[which] for which in ids if which in owner.keywords]
    wanted = {(owner.lists[where].domain, word) for where, word in keywords}
    row.size = len(wanted)
    row.domain = min((domain for domain, _ in wanted), default=0)


def _keywords(owner: Owner, row: CallRow, body: KeywordsBody) -> None:
    if listed := owner.lists.get(body.list_id):
        row.domain = listed.domain
        row.size = len({fold(word, FOLDING) for word in body.keywords} - listed.words)


def _scan(owner: Owner, row: CallRow, body: ScanBody) -> None:
    row.domain = owner.domains.get(body.domain_id, 0)
    row.pairings, row.places = len(body.pairings()), len(body.places())
    if not body.active:
        owner.unmodelled[SCANS] += 1
    if set(body.lists()) != set(owner.lists_of(row.domain)):
        owner.unmodelled[BESIDE] += 1


SPENDING: dict[str, tuple[Spend, type[RequestBody], Callable[[Owner, CallRow, Any], None]]] = {
    "jobs.create": (Spend.RANK_RUN, JobBody, _job),
    "keyword_briefs.create": (Spend.KEYWORD_BRIEFS, BriefsBody, _briefs),
    "keywords.create": (Spend.KEYWORDS, KeywordsBody, _keywords),
    "scans.create": (Spend.SCANS, ScanBody, _scan),
}
"""Operation → its activity, where its body does not say another; its body; what notes what that asks for."""


# What calls change and repeat


def _add(owner: Owner, row: CallRow, call: RecordedCall, body: Mapping[str, Any]) -> None:
    """Note what a call adds to a list, as far as it was recorded to have been added."""
    listed = owner.lists.get(str(body.get("list_id")))
    if listed is None:
        return
    words = {fold(str(word), FOLDING) for word in body.get("keywords", ())}
    if words & listed.added:
        owner.unmodelled[LISTED] += 1
    if words & listed.removed:
        owner.unmodelled[AGAIN] += 1
    if listed.beside:
        owner.unmodelled[BESIDE] += 1
    listed.added |= words - listed.words
    if row.recorded in (GRANTED, -1):
        listed.words |= words
    labels = {fold(label, FOLDING): which for which, label in call.made}
    for word, which in labels.items():
        owner.keywords[which] = (str(body["list_id"]), word)


def _change(owner: Owner, row: CallRow, call: RecordedCall) -> None:
    """Note what a call changes that spends nothing."""
    if call.operation in UNDOING:
        owner.unmodelled[UNDOING[call.operation]] += 1
    if call.operation == "keywords.delete" and call.path.get("id") in owner.keywords:
        which, word = owner.keywords[call.path["id"]]
        row.activity, row.size = REMOVE, 1
        listed = owner.lists[which]
        row.domain = listed.domain
        listed.words.discard(word)
        listed.added.discard(word)
        listed.removed.add(word)
        if listed.beside:
            owner.unmodelled[BESIDE] += 1


def _is_repeat(owner: Owner, call: RecordedCall) -> bool:
    """Whether a call repeats another one of its key; if so it is noted.

    One that was refused early, such as by the rate limit, is not remembered: the next of its key is the first
    (U93).
    """
    if call.idempotency_key is None or OPERATIONS[call.operation].method != "POST":
        return False
    which = (call.key, call.idempotency_key)
    if which in owner.repeated:
        owner.unmodelled[REPEATS] += 1
        return True
    if call.status is None or is_stored(call.status, CHECK_OF.get(call.code, 0), Assumptions()):
        owner.repeated.add(which)
    return False
