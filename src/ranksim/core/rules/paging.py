"""Keyset paging: how large a page is, what a cursor says, and which ids stand on a page (S9, S43-S46)."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import Facts

Id = TypeVar("Id", str, int)

_LIMIT = re.compile(r"0*([1-9][0-9]*)")
_CURSOR = re.compile(r"[A-Za-z0-9_-]+")
_SEAL = 12


def page_limit(text: str | None, facts: Facts, assumptions: Assumptions) -> int | None:
    """Return the size of a page from the `limit` parameter as sent, or None when it is invalid (S43, U34)."""
    if text is None:
        return min(facts.page_default, facts.page_max)
    match = _LIMIT.fullmatch(text)
    if match is None:
        return None
    # A number of more digits than any maximum has need not be read to its end.
    limit = int(match[1][:18])
    if limit > facts.page_max:
        return facts.page_max if assumptions.page_limit_over == "clamp" else None
    return limit


def bind(operation: str, account: str, filters: Mapping[str, str]) -> str:
    """Digest the query that a cursor belongs to: operation, account and the filters used (S45, U36).

    The page size is left out, so that it may change during a walk (U35), and so are parameters that the
    operation does not know (U100).
    """
    parts = [operation, account]
    for name in sorted(filters):
        parts += [name, filters[name]]
    return _digest("".join(f"{len(part)}:{part}" for part in parts)).hex()


def encode(after: str, query_digest: str) -> str:
    """Write the cursor that continues a query behind the id `after`: opaque, URL-safe text."""
    seal = _digest(f"{query_digest}:{after}")
    return urlsafe_b64encode(seal + after.encode()).decode().rstrip("=")


def decode(cursor: str, query_digest: str) -> str | None:
    """Read the id a cursor continues behind, or None when it is malformed or of another query (S45, U36).

    The seal finds mistakes; it hides and permits nothing, for a cursor carries no authority (E41).
    """
    if not _CURSOR.fullmatch(cursor) or len(cursor) % 4 == 1:
        return None
    content = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    after = content[_SEAL:].decode(errors="replace")
    return after if encode(after, query_digest) == cursor else None


def take_page(
    ids: Sequence[Id],
    after: Id | None,
    limit: int,
    keep: Callable[[Id], bool] | None = None,
    *,
    items: bool = True,
) -> tuple[list[Id], Id | None]:
    """Take the next page of `ids`: at most `limit` of those behind `after` that `keep` accepts, or of all.

    Without `items` nobody wants the page, which stays empty where it need not be made.

    `ids` ascend, which is the order of creation (U37). `after` need not be among them any more, and ids that
    come or go elsewhere shift nothing (S46, E39). Returns the page, and the id that the next page begins
    behind, or None when nothing follows: one more id is looked for, so the answer is exact (U38, E40).
    """
    page: list[Id] = []
    start = 0 if after is None else bisect_right(ids, after)
    if keep is None:
        end = start + limit
        return list(ids[start:end]) if items else [], ids[end - 1] if end < len(ids) else None
    while start < len(ids):
        for item in ids[start : start + limit + 1]:
            if not keep(item):
                continue
            if len(page) == limit:
                return page, page[-1]
            page.append(item)
        start += limit + 1
    return page, None


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_SEAL).digest()
