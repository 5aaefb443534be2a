"""Judge the cursors that are returned: each belongs to its query and continues its walk (S44, S45)."""

from __future__ import annotations

from collections.abc import Mapping, Set

from ranksim.core.clock import HOUR
from ranksim.judge.conformance.calls.pages import (
    CURSOR,
    WALK,
    Origins,
    Page,
    Query,
    Return,
    case_of,
    listed,
    pair,
)
from ranksim.judge.conformance.calls.walks import Acting
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

PROMPT = HOUR
"""A cursor refused sooner than this did not expire: that is unstated (U36), but walks must be possible."""


def judge_cursor(
    seen: Return,
    origins: Mapping[Query, Origins],
    acting: Set[Acting],
    rate: int,
    options: Options,
    tally: Tally,
) -> None:
    """A cursor is accepted under the query that it was given to, and refused under another of its list.

    Necessary: whoever gave it out, it was bound to the filters of that page (S45). A parameter counts as a
    filter only where walks show that it leaves things out. No text says that a cursor of one surface is good
    on the other.
    """
    query = seen.query
    origins = {other: pages for other, pages in origins.items() if other[4] == query[4]}
    own = origins.get(query)
    if own is not None and own.possible(seen.received):
        origin = own.latest(seen.sent)
        if origin is not None:
            _judge_return(seen, origin, rate, tally)
        return
    before = [(other, page) for other, pages in origins.items() if (page := pages.latest(seen.sent))]
    same_list = [page for other, page in before if other[:3] == query[:3]]
    if same_list and (seen.ok or seen.code == "invalid_cursor"):
        _judge_other_filters(seen, same_list[-1], acting, options, tally)
        return
    for other, page in before if seen.ok else ():
        if other[1] == query[1] and other[2] != query[2]:
            says = f"{seen.id} took the cursor of {page.id}, which is of another list"
            tally.differs(36, "invalid_cursor", seen.status, pair(page, seen, says))


def _judge_other_filters(
    seen: Return, origin: Page, acting: Set[Acting], options: Options, tally: Tally
) -> None:
    """A cursor of the same list is refused where a parameter changed that chooses items (S45)."""
    _, _, operation, filters, surface = seen.query
    changed = set(origin.query[3]) ^ set(filters)
    acts = next((name for name, _ in changed if (operation, name, surface) in acting), None)
    case = acts and case_of(f"{operation} by {acts}", surface)
    if seen.code == "invalid_cursor":
        tally.held(CURSOR, case=case, by=(origin.id, seen.id))
        if surface == "rest":  # GraphQL has no status of its own for an error (U83)
            _judge_status(seen, case, options, tally)
    elif case is not None:
        says = f"{seen.id} took the cursor of {origin.id} under other filters"
        tally.broke(CURSOR, pair(origin, seen, says), case=case)
    else:
        tally.open(CURSOR, "nothing shows that the parameter which changed chooses anything")


def _judge_return(seen: Return, origin: Page, rate: int, tally: Tally) -> None:
    """A cursor returned unchanged, under the query that gave it out, continues the walk (S44)."""
    says = f"{seen.id} returned the cursor of {origin.id} unchanged and was refused {seen.code}"
    if seen.ok:
        tally.held(WALK, case=listed(seen.query), by=(origin.id, seen.id))
    elif seen.code != "invalid_cursor":
        return
    elif seen.limit != origin.limit:
        tally.differs(35, "allowed", "refused", pair(origin, seen, says))
    elif rate == 0 or (seen.received - origin.sent) * rate > PROMPT:
        tally.differs(36, "no expiry", "refused later", pair(origin, seen, says))
    else:
        tally.broke(WALK, pair(origin, seen, says), case=listed(seen.query))


def _judge_status(seen: Return, case: str | None, options: Options, tally: Tally) -> None:
    wanted = options.default_status("invalid_cursor")
    if seen.status == wanted:
        return
    evidence = Evidence(
        f"{seen.id} was answered {seen.status}", (seen.id,), about=seen.query[2], at=seen.sent
    )
    if options.status("invalid_cursor") is None:
        tally.differs(16, wanted, seen.status, evidence)
    else:
        tally.broke(CURSOR, evidence, case=case or ANY)
