"""Slots of the state: plan a change without touching anything, then apply it (S23-S27, U61-U65, U94).

What a change adds is planned here, granted and booked by `rules.admission` (through `Ask.slots` and
`Ask.revived`) and then taken out of the holds by `apply_widening`. What it loses is booked by `narrow`.

`Account.holds` says which tuples `books.held` counts. It means something only while the books hold any: the
turn of the month zeroes the books, and with that every hold in the dict is void (E17).
"""

from collections.abc import Iterable, Sequence

from ranksim.core.rules.admission import held_at, hold
from ranksim.core.rules.slots import (
    Block,
    Narrowing,
    Widening,
    consume,
    difference,
    fold,
    put,
    revived_by,
    size,
    words_counted,
)
from ranksim.core.service.context import Context
from ranksim.core.service.events import PeriodTurned, SlotsFreed, SlotsHeld
from ranksim.core.service.state import Account, KeywordList, Scan

NO_WIDENING = Widening()
"""What a change adds that adds nothing."""


def tracked(ctx: Context, account: Account, domain: str) -> int:
    """Count the tuples that the active scans of a domain track: the pages of one rank run (S24)."""
    slots = 0
    for scan in (ctx.state.scans[scan_id] for scan_id in account.scans):
        if scan.domain == domain and scan.active:
            slots += _word_count(ctx, scan.lists) * len(scan.engine_devices) * len(scan.geographies)
    return slots


def fresh_words(ctx: Context, keyword_list: KeywordList, keywords: Iterable[str]) -> dict[str, str]:
    """Return what POST keywords really adds: folded word to its text, in order, first spelling kept.

    Left out is what stands in the list already, or anywhere in its domain (U64, U94), and repetitions (E43).
    """
    folding = ctx.policy.assumptions.keyword_folding
    present = [keyword_list]
    if ctx.policy.assumptions.existing_scope == "domain":
        owned = ctx.state.accounts[keyword_list.account].keyword_lists
        lists = (ctx.state.keyword_lists[list_id] for list_id in owned)
        present = [other for other in lists if other.domain == keyword_list.domain]
    fresh: dict[str, str] = {}
    for text in keywords:
        fresh.setdefault(fold(text, folding), text.strip())
    for other in present:
        for folded in fresh.keys() & other.words.keys():
            del fresh[folded]
    return fresh


def plan_keywords(
    ctx: Context, account: Account, keyword_list: KeywordList, folded: Sequence[str], now: int
) -> Widening:
    """Return what new words in a list add: nothing unless an active scan covers the list (E47)."""
    blocks = _blocks_of_words(ctx, account, keyword_list, folded)
    return _widening(ctx, account, blocks, now) if blocks else NO_WIDENING


def fit_keywords(
    ctx: Context, account: Account, keyword_list: KeywordList, folded: Sequence[str], now: int, room: int
) -> list[str]:
    """Return the longest run of words, from the first, that `room` free slots can take (U64 "partial")."""
    fitting: list[str] = []
    needed = 0
    for word in folded:
        widening = plan_keywords(ctx, account, keyword_list, [word], now)
        needed += widening.slots - widening.revived
        if needed > max(room, 0):
            break
        fitting.append(word)
    return fitting


def plan_scan(
    ctx: Context,
    account: Account,
    domain: str,
    lists: Sequence[str],
    engine_devices: Sequence[str],
    geographies: Sequence[str],
    now: int,
) -> Widening:
    """Return what a new active scan adds (S24, S25)."""
    block = Block(_owner(ctx, domain, ""), _words(ctx, lists), engine_devices, geographies)
    return _widening(ctx, account, [block], now)


def plan_scan_change(
    ctx: Context,
    account: Account,
    scan: Scan,
    lists: Sequence[str],
    engine_devices: Sequence[str],
    geographies: Sequence[str],
    active: bool,
    now: int,
) -> tuple[Widening, Narrowing]:
    """Return what a PATCH of a scan adds and loses; a paused scan counts nothing (U62, E42).

    Where what is lost is freed at once, a change that also adds is one net widening, so that exchanging one
    device for another needs no room.
    """
    owner = _owner(ctx, scan.domain, scan.id)
    before = _block_of_scan(ctx, scan)
    words = _words(ctx, lists) if active else []
    after = Block(owner, words, engine_devices, geographies)
    added, lost = difference(after, before), difference(before, after)
    freed = ctx.policy.assumptions.narrowing == "freed"
    if added and lost and freed:
        return _widening(ctx, account, added, now, freed=size(lost)), Narrowing()
    return _widening(ctx, account, added, now), Narrowing(lost, freed)


def apply_widening(account: Account, widening: Widening) -> None:
    """Take the holds that a granted widening revives; admission has booked the numbers."""
    consume(account.holds, widening.tuples)


def narrow(ctx: Context, account: Account, narrowing: Narrowing, now: int) -> None:
    """Stop counting what a change loses; hold it to the end of the month unless it is freed (S26, S27)."""
    books, slots = account.books, narrowing.slots
    if slots == 0:
        return
    if narrowing.freed:
        books.active -= slots
        ctx.events.append(SlotsFreed(now, account.id, slots))
        return
    if held_at(now, books) == 0:
        account.holds.clear()
    month_ended = books.month_ends <= now
    hold(now, books, slots)
    put(account.holds, narrowing.blocks)
    if month_ended:
        ctx.events.append(PeriodTurned(now, account.id, "", books.month_ends))
    ctx.events.append(SlotsHeld(now, account.id, slots))


def hold_keywords(
    ctx: Context, account: Account, keyword_list: KeywordList, folded: Sequence[str], now: int
) -> None:
    """Hold what words that leave a list occupied (S26); also for a whole list that is deleted."""
    narrow(ctx, account, Narrowing(_blocks_of_words(ctx, account, keyword_list, folded)), now)


def hold_scan(ctx: Context, account: Account, scan: Scan, now: int) -> None:
    """Hold what a scan that is deleted occupied (S27)."""
    narrow(ctx, account, Narrowing([_block_of_scan(ctx, scan)]), now)


def _widening(ctx: Context, account: Account, blocks: Sequence[Block], now: int, freed: int = 0) -> Widening:
    holds = account.holds
    if ctx.policy.assumptions.re_add == "counts_again" or held_at(now, account.books) == 0:
        holds = {}
    return Widening(size(blocks) - freed, revived_by(blocks, holds))


def _blocks_of_words(
    ctx: Context, account: Account, keyword_list: KeywordList, folded: Sequence[str]
) -> list[Block]:
    """Return the tuples that words of a list have, each scan that covers it for itself (S24, E42)."""
    blocks = []
    for scan_id in account.scans:
        scan = ctx.state.scans[scan_id]
        if scan.active and keyword_list.id in scan.lists:
            words = _words_alone(ctx, scan, keyword_list, folded)
            owner = _owner(ctx, scan.domain, scan.id)
            blocks.append(Block(owner, words, scan.engine_devices, scan.geographies))
    return blocks


def _words_alone(ctx: Context, scan: Scan, keyword_list: KeywordList, folded: Sequence[str]) -> Sequence[str]:
    """Leave out the words that the scan counts already through another of its lists (U94)."""
    if ctx.policy.assumptions.scan_counts == "list_keyword" or len(scan.lists) == 1:
        return folded
    others = [ctx.state.keyword_lists[other].words for other in scan.lists if other != keyword_list.id]
    return [word for word in folded if not any(word in other for other in others)]


def _block_of_scan(ctx: Context, scan: Scan) -> Block:
    words = _words(ctx, scan.lists) if scan.active else []
    return Block(_owner(ctx, scan.domain, scan.id), words, scan.engine_devices, scan.geographies)


def _words(ctx: Context, lists: Sequence[str]) -> list[str]:
    assumptions = ctx.policy.assumptions
    return words_counted(
        (ctx.state.keyword_lists[list_id].words for list_id in lists), assumptions.scan_counts
    )


def _word_count(ctx: Context, lists: Sequence[str]) -> int:
    """Count the words of lists, which in one list are each another."""
    return len(ctx.state.keyword_lists[lists[0]].words) if len(lists) == 1 else len(_words(ctx, lists))


def _owner(ctx: Context, domain: str, scan: str) -> str:
    return domain if ctx.policy.assumptions.hold_identity == "tuple" else f"{domain}|{scan}"
