"""Results, to be read only: positions and history, crawled pages, analyses, AI visibility, links (S5, S6).

They exist for the instants at which jobs of their kind finished well; before that a collection is empty and a
notice says why (S10, U82). What they say is synthetic, see `synthetic_data`.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from typing import overload

from ranksim.core.clock import DAY, Micros, instant, iso
from ranksim.core.contract import views
from ranksim.core.rules.access import sees
from ranksim.core.service import synthetic_data as data
from ranksim.core.service.bodies import invalid
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.errors import problem
from ranksim.core.service.replies import filters_of, paged
from ranksim.core.service.resources import keywords_in
from ranksim.core.service.state import Domain, Keyword

NO_POSITIONS: views.NoticeView = {
    "code": "no_positions",
    "message": "No rank run has finished yet; start one to get positions.",
}
NO_PAGES: views.NoticeView = {
    "code": "no_crawl",
    "message": "No crawl has finished yet; start one to get pages.",
}
NO_ANALYSES: views.NoticeView = {
    "code": "no_analysis",
    "message": "No site optimization has finished yet; start one.",
}
NO_SCANS: views.NoticeView = {
    "code": "no_ai_scan",
    "message": "No AI scan has finished yet; start one to get scores.",
}


class Ids(Sequence[str]):
    """Ids that are made when they are looked at: blocks of (how many, number from 0 → id), ascending."""

    def __init__(self, blocks: Sequence[tuple[int, Callable[[int], str]]]) -> None:
        self._makers = [make for _, make in blocks]
        self._starts = [0]
        for count, _ in blocks:
            self._starts.append(self._starts[-1] + count)

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self._between(start, stop)
            return [self[number] for number in range(start, stop, step)]
        number = index if index >= 0 else len(self) + index
        if not 0 <= number < len(self):
            raise IndexError(index)
        block = bisect_right(self._starts, number) - 1
        return self._makers[block](number - self._starts[block])

    def _between(self, start: int, stop: int) -> list[str]:
        """Make the ids of some numbers, block by block."""
        made: list[str] = []
        block = bisect_right(self._starts, start) - 1
        while start < stop:
            first, end = self._starts[block], min(stop, self._starts[block + 1])
            made += map(self._makers[block], range(start - first, end - first))
            start, block = end, block + 1
        return made


def visible(ctx: Context, request: Request) -> list[Domain]:
    """Return the account's domains that the key may see and the filter domain_id leaves."""
    wanted = request.call.query.get("domain_id")
    return [
        ctx.state.domains[which]
        for which in request.account.domains
        if sees(request.scope, which) and wanted in (None, which)
    ]


def number_of(which: str) -> str:
    """Return the number in an id, as text."""
    return which.rpartition("_")[2]


# Positions


@dataclass(slots=True)
class Grid:
    """What positions exist of: the keywords of lists × the places that scans look at them in.

    An address names one: keyword id, "engine/device" and geography, with spaces between; addresses of a
    keyword ascend with its places. Every keyword has room for `width` of them, so that the n-th address needs
    no counting; where a list has fewer places, the rest are void.
    """

    keywords: dict[str, Keyword]
    since: dict[str, dict[str, Micros]] = field(default_factory=dict)
    """When the first scan came that looks at a list in a place."""
    places: dict[str, list[str]] = field(default_factory=dict)
    """The places of each list, ascending."""
    width: int = 0

    def address(self, ids: Sequence[str], number: int) -> str:
        """Return the `number`-th address of keywords; void ones end in "~" and the number of their place."""
        which, number = divmod(number, self.width)
        keyword_id = ids[which]
        places = self.places[self.keywords[keyword_id].list_id]
        place = places[number] if number < len(places) else f"~ ~{number:04d}"
        return f"{keyword_id} {place}"

    def exists(self, keyword: Keyword, place: str, run: Micros) -> bool:
        """Return whether a run could see a keyword in a place: both must have been there."""
        return keyword.created_at <= run and self.since[keyword.list_id].get(place, run + 1) <= run

    def is_complete(self, run: Micros) -> bool:
        """Return whether a run saw each keyword that was there in each place: then no address is void."""
        return all(len(since) == self.width and max(since.values()) <= run for since in self.since.values())


def grid_of(ctx: Context, request: Request, domains: Sequence[Domain]) -> Grid:
    """Find the places that the scans of domains look at, list by list."""
    grid = Grid(ctx.state.keywords)
    wanted = {domain.id for domain in domains}
    for scan in (ctx.state.scans[which] for which in request.account.scans):
        if scan.domain not in wanted:
            continue
        places = [f"{pairing} {place}" for pairing in scan.engine_devices for place in scan.geographies]
        for list_id in scan.lists:
            since = grid.since.setdefault(list_id, {})
            for place in places:
                since.setdefault(place, scan.created_at)
    grid.places = {list_id: sorted(since) for list_id, since in grid.since.items()}
    grid.width = max((len(places) for places in grid.places.values()), default=0)
    return grid


def keywords_of(ctx: Context, request: Request, domain: Domain, grid: Grid) -> Sequence[str]:
    """Return the tracked keywords of a domain, ascending; the filter keyword_id leaves one at most."""
    account = request.account
    if "keyword_id" in request.call.query:
        keyword = ctx.state.keywords.get(request.call.query["keyword_id"])
        tracked = keyword is not None and keyword.domain == domain.id and keyword.list_id in grid.places
        return [keyword.id] if keyword is not None and tracked else []
    if len(account.domains) == 1 and len(grid.places) == len(account.keyword_lists):
        return account.keywords
    lists = (ctx.state.keyword_lists[which] for which in grid.places)
    return keywords_in(keyword_list for keyword_list in lists if keyword_list.domain == domain.id)


def _until(ctx: Context, ids: Sequence[str], run: Micros) -> int:
    """Count the keywords, which ascend in order of creation, that a run found there: mostly all."""
    if ids and ctx.state.keywords[ids[-1]].created_at <= run:
        return len(ids)
    return bisect_right(ids, run, key=lambda which: ctx.state.keywords[which].created_at)


def _day(request: Request) -> tuple[Micros, Micros] | None:
    """Read the filter date (YYYY-MM-DD): the day's first instant and the next day's; None if wrong."""
    date = request.call.query.get("date")
    if date is None:
        return 0, request.now + 1
    try:
        start = instant(date)
    except ValueError:
        return None
    return (start, start + DAY) if len(date) == len("YYYY-MM-DD") else None


def list_positions(ctx: Context, request: Request) -> Reply:
    """GET /v1/positions: the latest of every keyword and place, or the latest of a date (U85, U110)."""
    day = _day(request)
    if day is None:
        return invalid(ctx.policy, [{"field": "date", "expected": "a date such as 2026-03-01"}])
    domains = visible(ctx, request)
    grid = grid_of(ctx, request, domains)
    runs: dict[str, Micros] = {}
    seen: list[Sequence[str]] = []
    for domain in domains:
        finished = [run for run in domain.rank_runs if day[0] <= run < day[1]]
        if finished:
            runs[domain.id] = finished[-1]
            ids = keywords_of(ctx, request, domain, grid)
            seen.append(ids[: _until(ctx, ids, finished[-1])])
    ids = seen[0] if len(seen) == 1 else list(merge(*seen))

    def keep(address: str) -> bool:
        keyword_id, _, place = address.partition(" ")
        keyword = ctx.state.keywords[keyword_id]
        return grid.exists(keyword, place, runs[keyword.domain])

    def show(address: str) -> views.RankPositionView:
        keyword = ctx.state.keywords[address.partition(" ")[0]]
        return show_position(ctx, keyword, address, runs[keyword.domain])

    return paged(
        ctx,
        request,
        Ids([(len(ids) * grid.width, partial(grid.address, ids))]),
        filters_of(request, "domain_id", "keyword_id", "date"),
        None if grid.is_complete(min(runs.values(), default=0)) else keep,
        show,
        _notice(NO_POSITIONS, [domain.rank_runs for domain in domains]),
    )


def list_history(ctx: Context, request: Request) -> Reply:
    """GET /v1/positions/history: every position of every finished run, oldest run first (U85, U110)."""
    day = _day(request)
    if day is None:
        return invalid(ctx.policy, [{"field": "date", "expected": "a date such as 2026-03-01"}])
    domains = visible(ctx, request)
    grid = grid_of(ctx, request, domains)
    first = min((since for sinces in grid.since.values() for since in sinces.values()), default=request.now)
    tracked = {domain.id: keywords_of(ctx, request, domain, grid) for domain in domains}
    runs = sorted(
        (run, domain.id)
        for domain in domains
        for run in domain.rank_runs
        if day[0] <= run < day[1] and run >= first
    )

    def block(run: Micros, domain: str) -> tuple[int, Callable[[int], str]]:
        start, ids = f"{run:017d} {domain} ", tracked[domain]
        return _until(ctx, ids, run) * grid.width, lambda n: start + grid.address(ids, n)

    def keep(address: str) -> bool:
        run, _, keyword_id, place = address.split(" ", 3)
        return grid.exists(ctx.state.keywords[keyword_id], place, int(run))

    def show(address: str) -> views.RankPositionView:
        run, _, rest = address.split(" ", 2)
        return show_position(ctx, ctx.state.keywords[rest.partition(" ")[0]], rest, int(run))

    return paged(
        ctx,
        request,
        Ids([block(run, domain) for run, domain in runs]),
        filters_of(request, "domain_id", "keyword_id", "date"),
        None if runs and grid.is_complete(runs[0][0]) else keep,
        show,
        _notice(NO_POSITIONS, [domain.rank_runs for domain in domains]),
    )


def show_position(ctx: Context, keyword: Keyword, address: str, run: Micros) -> views.RankPositionView:
    """Return a position as the API shows it; null says not found in depth (U85)."""
    _, pairing, place = address.split(" ")
    engine, device = pairing.split("/")
    country, location, language = place.split("/")
    seed, domain = ctx.state.seed, ctx.state.domains[keyword.domain]
    where = f"{pairing}|{place}"
    position = data.position(seed, domain.host, keyword.folded, where, domain.created_at, run)
    checked = iso(run)
    return {
        "keyword_id": keyword.id,
        "domain_id": domain.id,
        "date": checked[:10],
        "checked_at": checked,
        "engine": engine,
        "device": device,
        "country": country,
        "location_id": location or None,
        "language": language or None,
        "position": position,
        "url": None if position is None else data.page_url(domain, keyword.folded),
        "serp_features": data.serp_features(seed, keyword.folded, where, run),
    }


def _notice(notice: views.NoticeView, runs: Sequence[Sequence[Micros]]) -> views.NoticeView | None:
    """Return the notice unless there was a run."""
    return None if any(runs) else notice


# Crawled pages, analyses, AI visibility


def list_crawled_pages(ctx: Context, request: Request) -> Reply:
    """GET /v1/crawled-pages: the pages of each domain's latest crawl, no more than the plan's cap (U47)."""
    domains = visible(ctx, request)
    cap, seed = ctx.plan_of(request.account).page_cap, ctx.state.seed
    by_number = {number_of(domain.id): domain for domain in domains if domain.crawls}

    def block(number: str, domain: Domain) -> tuple[int, Callable[[int], str]]:
        return min(cap, data.pages_of(seed, domain.host)), lambda n: f"page_{number}_{n + 1:06d}"

    def show(page: str) -> views.CrawledPageView:
        _, number, position = page.split("_")
        domain = by_number[number]
        return data.crawled_page(seed, domain, page, int(position), domain.crawls[-1])

    ids = Ids([block(number, domain) for number, domain in by_number.items()])
    notice = _notice(NO_PAGES, [domain.crawls for domain in domains])
    return paged(ctx, request, ids, filters_of(request, "domain_id"), None, show, notice)


def list_analyses(ctx: Context, request: Request) -> Reply:
    """GET /v1/analyses: every finished site-optimization analysis."""
    seed = ctx.state.seed
    runs = _runs("analysis", [(domain, domain.analyses) for domain in visible(ctx, request)])

    def show(which: str, domain: Domain, run: Micros) -> views.AnalysisView:
        return {
            "id": which,
            "domain_id": domain.id,
            "score": data.site_score(seed, domain, run),
            "finding_count": data.finding_count(seed, which),
            "created_at": iso(run),
        }

    return _page(ctx, request, runs, show, NO_ANALYSES)


def list_findings(ctx: Context, request: Request) -> Reply:
    """GET /v1/analyses/{id}/findings."""
    which = request.call.path["id"]
    owned = [ctx.state.domains[domain] for domain in request.account.domains]
    runs = _runs("analysis", [(domain, domain.analyses) for domain in owned])
    if which not in runs:
        return problem(ctx.policy, "not_found", f"There is no analysis {which!r}.")
    domain, _ = runs[which]
    if not sees(request.scope, domain.id):
        return problem(ctx.policy, "out_of_scope", f"There is no analysis {which!r}.")

    def show(finding: str) -> views.FindingView:
        return data.finding(ctx.state.seed, domain, which, finding, int(number_of(finding)))

    count = data.finding_count(ctx.state.seed, which)
    start = which.replace("analysis", "finding")
    return paged(ctx, request, [f"{start}_{n + 1:03d}" for n in range(count)], {}, None, show)


def list_ai_visibility(ctx: Context, request: Request) -> Reply:
    """GET /v1/ai-visibility: the scores of every finished AI-visibility scan."""
    runs = _runs("aivisibility", [(domain, domain.ai_scans) for domain in visible(ctx, request)])

    def show(which: str, domain: Domain, run: Micros) -> views.AiVisibilityView:
        return data.visibility(ctx.state.seed, domain, which, run)

    return _page(ctx, request, runs, show, NO_SCANS)


def list_industries(ctx: Context, request: Request) -> Reply:
    """GET /v1/ai-visibility/industries: the industries that the AI-visibility scans of a domain ask about."""
    industries = {
        f"industry_{number_of(domain.id)}_{number}": (domain, name, number == 0)
        for domain in visible(ctx, request)
        if domain.ai_scans
        for number, name in enumerate(data.industries(ctx.state.seed, domain))
    }

    def show(which: str, domain: Domain, name: str, active: bool) -> views.IndustryView:
        return {"id": which, "domain_id": domain.id, "name": name, "active": active}

    return _page(ctx, request, industries, show, NO_SCANS)


# What no job produces


def list_backlinks(ctx: Context, request: Request) -> Reply:
    """GET /v1/backlinks: a summary a domain."""
    domains = {domain.id: (domain,) for domain in visible(ctx, request)}
    return _page(ctx, request, domains, lambda which, domain: data.backlinks(ctx.state.seed, domain))


def list_integrations(ctx: Context, request: Request) -> Reply:
    """GET /v1/integrations: the status of each of a domain's integrations."""
    integrations = {
        f"integration_{number_of(domain.id)}_{kind.replace('_', '-')}": (domain, kind)
        for domain in visible(ctx, request)
        for kind in data.INTEGRATIONS
    }

    def show(which: str, domain: Domain, kind: str) -> views.IntegrationView:
        status = data.integration_status(ctx.state.seed, domain, kind)
        return {"id": which, "domain_id": domain.id, "kind": kind, "status": status}

    return _page(ctx, request, integrations, show)


def _page(
    ctx: Context,
    request: Request,
    table: Mapping[str, tuple[object, ...]],
    show: Callable[..., Mapping[str, object]],
    notice: views.NoticeView | None = None,
) -> Reply:
    """Answer with a page of a table by id, each entry shown by `show(id, *entry)`; empty, with a notice."""
    ids, filters = list(table), filters_of(request, "domain_id")
    return paged(
        ctx, request, ids, filters, None, lambda which: show(which, *table[which]), None if ids else notice
    )


def _runs(noun: str, owners: Sequence[tuple[Domain, Sequence[Micros]]]) -> dict[str, tuple[Domain, Micros]]:
    """Name the finished runs of some domains, oldest first: id → domain and instant."""
    runs = {
        f"{noun}_{run:017d}_{number_of(domain.id)}": (domain, run) for domain, runs in owners for run in runs
    }
    return dict(sorted(runs.items()))
