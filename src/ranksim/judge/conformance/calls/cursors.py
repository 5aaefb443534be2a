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
    mine = seen.query
    origins = {query: found for query, found in origins.items() if query[4] == mine[4]}
    own = origins.get(mine)
    if own is not None and own.possible(seen.received):
        origin = own.latest(seen.sent)
        if origin is not None:
            _judge_return(seen, origin, rate, tally)
        return
    before = [(query, page) for query, found in origins.items() if (page := found.latest(seen.sent))]
    same_list = [page for query, page in before if query[:3] == mine[:3]]
    if not same_list or not (seen.ok or seen.code == "invalid_cursor"):
        for query, page in before if seen.ok else ():
            if query[1] == mine[1] and query[2] != mine[2]:
                says = f"{seen.id} took the cursor of {page.id}, which is of another list"
                tally.differs(36, "invalid_cursor", seen.status, pair(page, seen, says))
        return
    changed = set(same_list[-1].query[3]) ^ set(mine[3])
    acts = next((name for name, _ in changed if (mine[2], name, mine[4]) in acting), None)
    case = acts and case_of(f"{mine[2]} by {acts}", mine[4])
    if seen.code == "invalid_cursor":
        tally.held(CURSOR, case=case, by=(same_list[-1].id, seen.id))
        if mine[4] == "rest":  # GraphQL has no status of its own for an error (U83)
            _judge_status(seen, case, options, tally)
    elif case is not None:
        says = f"{seen.id} took the cursor of {same_list[-1].id} under other filters"
        tally.broke(CURSOR, pair(same_list[-1], seen, says), case=case)
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
    found = Evidence(f"{seen.id} was answered {seen.status}", (seen.id,), about=seen.query[2], at=seen.sent)
    if options.status("invalid_cursor") is None:
        tally.differs(16, wanted, seen.status, found)
    else:
        tally.broke(CURSOR, found, case=case or ANY)
