"""What an account of a scenario tracks, counted: its domains, those that track alike together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec, ScanSpec, SiteSpec
from ranksim.core.callers.programs import KeywordSync
from ranksim.core.callers.programs.client import TrackedPart
from ranksim.planner.capacity.sync import dealt

Lists: TypeAlias = tuple[tuple[int, int], ...]
"""Of each keyword list of a domain, how many words it has and how many slots one of them takes (S23)."""


def lists_by_host(name: str, account: AccountSpec) -> Iterator[tuple[str, Lists]]:
    """Yield the domains of the account of that name by their hosts, in the order of their making."""
    for portfolio in account.portfolios:
        lists = _dealt(portfolio)
        yield from ((host, lists) for host in portfolio.hosts(name))
    for site in account.sites:
        yield site.host, _stated(site)


def parts_of_account(name: str, account: AccountSpec) -> list[TrackedPart]:
    """Return the domains of the account of that name; neighbours with as many words and slots are a part.

    Where the words of a domain differ in slots, an added one is taken to have the most.
    """
    parts = []
    for (keywords, each, slots), alike in groupby(lists_by_host(name, account), lambda pair: _size(pair[1])):
        hosts = tuple(host for host, _ in alike)
        parts.append(TrackedPart(len(hosts), keywords, each, slots, hosts))
    return parts


def tracked_slots(parts: Sequence[TrackedPart]) -> int:
    """Return how many slots all domains of some parts take."""
    return sum(part.domains * part.slots for part in parts)


def tracked_words(parts: Sequence[TrackedPart]) -> int:
    """Return how many words they track."""
    return sum(part.domains * part.keywords for part in parts)


def filled(parts: Sequence[TrackedPart], clients: Sequence[KeywordSync]) -> list[TrackedPart]:
    """Return parts of an account as they are once some clients have first filled their lists.

    One that keeps a memory adds its `keywords` beside those there are, another fills up to them.
    """
    beside = sum(client.keywords for client in clients if client.first == "memory")
    most = max((client.keywords for client in clients if client.first == "list"), default=0)

    def filled_up(part: TrackedPart) -> TrackedPart:
        more = max(beside, most - part.keywords)
        return part._replace(keywords=part.keywords + more, slots=part.slots + more * part.each)

    return [filled_up(part) for part in parts]


def active_scans(account: AccountSpec) -> list[ScanSpec]:
    """Return all scans of an account that are active."""
    scans = [scan for portfolio in account.portfolios for scan in portfolio.scans]
    scans += [scan for site in account.sites for scan in site.scans]
    return [scan for scan in scans if scan.active]


def _size(lists: Lists) -> tuple[int, int, int]:
    """Return how many words the lists have, the most slots of one, and the slots of all."""
    most = max((each for _, each in lists), default=0)
    return sum(words for words, _ in lists), most, sum(words * each for words, each in lists)


def _dealt(portfolio: PortfolioSpec) -> Lists:
    each = sum(_slots(scan) for scan in portfolio.scans if scan.active)
    return tuple((words, each) for words in dealt(portfolio.keywords, portfolio.lists))


def _stated(site: SiteSpec) -> Lists:
    scans = [scan for scan in site.scans if scan.active]
    return tuple(
        (stated.size, sum(_slots(scan) for scan in scans if scan.lists is None or stated.name in scan.lists))
        for stated in site.lists
    )


def _slots(scan: ScanSpec) -> int:
    """Slots that a scan takes of a word (S23)."""
    return len(scan.engine_devices) * len(scan.geographies)
