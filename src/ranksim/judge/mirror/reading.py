"""What is read of a deployment to make a twin of its accounts: reads only, as a program."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.callers.retry import pages, politely
from ranksim.core.callers.steps import Send
from ranksim.core.callers.target import Target
from ranksim.core.clock import Micros
from ranksim.judge.deployment.discovery import KeyReach, Reach, explore

OWNED = (
    "domains.list",
    "keyword_lists.list",
    "scans.list",
    "webhooks.list",
    "labels.list",
    "competitors.list",
    "jobs.list",
    "keyword_briefs.list",
    "webhook_deliveries.list",
)
"""Lists that tell what an account tracks and has run; keywords are counted by their lists."""

KEYWORDS = "keywords.list"
"""What is read, too, where a list of keywords does not show how many it has."""

KEYWORD_PAGES = 1_000
"""Pages of keywords that are read at most, of 200 each."""

NO_ACCOUNT = "it tells no account"

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StatedAccount:
    """What somebody states of an account: its plan, with terms as catalogues have them, and what it tracks.

    That is so many domains, and keywords of each where calls do not list them; None: as calls name them.
    """

    plan: str
    terms: Mapping[str, Any]
    domains: int | None = None
    keywords: int | None = None
    prices_known: bool = True


@dataclass(frozen=True, slots=True)
class ReadAccount:
    """What was read of one account: by the key that may read most, `keys` with the domain each is bound to.

    `lists` has the items of each operation of `OWNED` that could be read, `lacks` why others could not;
    keywords themselves are read where their lists do not count them. Of one that could not be read something
    is `stated`, and the rest `assumed`, in words.
    """

    name: str
    environment: str
    keys: Mapping[str, str | None]
    singles: Mapping[str, Item]
    lists: Mapping[str, list[Item]] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    stated: StatedAccount | None = None
    assumed: Sequence[str] = ()

    def single(self, operation: str) -> Item:
        """Return what was read of an object; empty where it could not be."""
        return self.singles.get(operation, {})


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a deployment: its accounts, and the keys of which none could be told, with why not.

    `date` is its own clock (µs), None where it dates no reply.
    """

    accounts: tuple[ReadAccount, ...]
    unknown: Mapping[str, str]
    date: Micros | None = None


def shows_count(keyword_list: Item) -> bool:
    """Return whether a list of keywords shows how many it has."""
    count = keyword_list.get("keyword_count")
    return isinstance(count, int) and not isinstance(count, bool) and count >= 0


def read_mirrored(target: Target) -> Generator[Any, Any, Reading]:
    """Read every account that a target has keys of."""
    reach: Reach = yield from explore(target)
    keys_of: dict[tuple[str, str], list[KeyReach]] = {}
    unknown: dict[str, str] = {}
    for key in reach.keys.values():
        if key.usable and key.account:
            keys_of.setdefault((key.environment, key.account), []).append(key)
        else:
            unknown[key.name] = key.reason or NO_ACCOUNT
    accounts = []
    for keys in keys_of.values():
        unbound = [key for key in keys if "account.get" in key.reads]
        if unbound:
            accounts.append((yield from _account(unbound[0], keys)))
        else:
            unknown |= {key.name: key.lacks.get("account.get", NO_ACCOUNT) for key in keys}
    return Reading(tuple(accounts), unknown, reach.date)


def _account(main: KeyReach, keys: Sequence[KeyReach]) -> Generator[Any, Any, ReadAccount]:
    """Read the lists of an account by the key of it that is bound to no domain."""
    lists: dict[str, list[Item]] = {}
    for operation in OWNED:
        if operation not in main.lacks:
            lists[operation] = _items((yield from pages(Send(operation, main.name))))
    lacks = dict(main.lacks)
    if not all(map(shows_count, lists.get("keyword_lists.list", ()))):
        first = yield from politely(Send(KEYWORDS, main.name))
        if first.ok and isinstance(first.data, list):
            lists[KEYWORDS] = _items((yield from pages(Send(KEYWORDS, main.name), KEYWORD_PAGES)))
        else:
            lacks[KEYWORDS] = f"{first.status} {first.code}".strip()
    singles = {name: read for name, read in main.reads.items() if isinstance(read, dict)}
    bound = {key.name: key.domain_id for key in keys}
    label = str(singles["account.get"].get("name") or "account")
    return ReadAccount(label, main.environment, bound, singles, lists, lacks)


def _items(rows: Sequence[Any]) -> list[Item]:
    return [row for row in rows if isinstance(row, dict)]
