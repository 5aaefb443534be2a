"""The seven operations that spend or commit spend (S51-S58).

Each handler reads its body, resolves the rows and the ask, and then: decide → refuse, report, join, or book
and do the work.
"""

from dataclasses import dataclass

from ranksim.core import draws
from ranksim.core.contract.facts import Decision, JobKind, Spend
from ranksim.core.contract.views import (
    KeywordBriefsMadeView,
    KeywordBriefView,
    KeywordsAddedView,
    KeywordView,
)
from ranksim.core.draws import Purpose
from ranksim.core.rules import admission
from ranksim.core.rules.books import Ask
from ranksim.core.rules.slots import fold
from ranksim.core.service import jobs, slots
from ranksim.core.service.bodies import BriefsBody, JobBody, KeywordsBody, ScanBody, validate_body
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.replies import single
from ranksim.core.service.resolve import check_ids, domain_for, list_for, record_for
from ranksim.core.service.resources import made_at, show_keyword
from ranksim.core.service.scans import show_scan
from ranksim.core.service.spend_decision import (
    Rows,
    ask_for,
    beyond_dimensions,
    book,
    decide,
    refuse,
    report,
    rows_of,
    settle,
)
from ranksim.core.service.state import Account, Brief, Domain, Job, Keyword, Scan
from ranksim.core.service.synthetic_data import pages_of

SPEND_OF: dict[str, Spend] = {
    JobKind.RANK_RUN: Spend.RANK_RUN,
    JobKind.CRAWL: Spend.CRAWL,
    JobKind.SITE_OPTIMIZATION: Spend.SITE_OPTIMIZATION,
    JobKind.AI_SCAN: Spend.AI_SCAN,
}

FEWEST_QUESTIONS, MOST_QUESTIONS = 20, 80
"""Questions an AI-visibility scan asks: synthetic, drawn per domain."""


@dataclass(slots=True)
class Work:
    """What a job will buy: units after the plan's cap, their cost in µUSD, and whether a cap was exceeded."""

    units: int
    estimate: int
    beyond: bool


def work_of(ctx: Context, account: Account, domain: Domain, spend: Spend, wanted: int | None = None) -> Work:
    """Estimate a job (S52-S55, U47): units `wanted`, else results, pages or questions, cut to the cap."""
    plan, costs = ctx.plan_of(account), ctx.policy.catalogue.unit_costs
    if spend == Spend.RANK_RUN:
        units = slots.tracked(ctx, account, domain.id) if wanted is None else wanted
        return Work(units, units * costs.rank_run_page, False)
    if wanted is None:
        wanted = wanted_of(ctx.state.seed, domain, spend)
    if spend == Spend.AI_SCAN:
        cap, unit_cost = plan.call_cap, costs.ai_scan_call
    else:
        cap = plan.page_cap
        unit_cost = costs.crawl_page if spend == Spend.CRAWL else costs.site_optimization_page
    units = wanted if wanted < cap else cap
    return Work(units, units * unit_cost, wanted > cap)


def wanted_of(seed: int, domain: Domain, spend: Spend) -> int:
    """Return how many questions an AI-visibility scan of a domain asks, or pages another job looks at."""
    return questions_of(seed, domain.id) if spend == Spend.AI_SCAN else pages_of(seed, domain.host)


def questions_of(seed: int, domain: str) -> int:
    """Return how many questions an AI-visibility scan asks about the domain with that id."""
    span = MOST_QUESTIONS - FEWEST_QUESTIONS + 1
    return FEWEST_QUESTIONS + draws.below(span, seed, draws.entity(domain), 0, Purpose.SIZE)


def admit(ctx: Context, request: Request, ask: Ask, rows: Rows, running: Job | None = None) -> Reply | None:
    """Decide, and book what is granted: None then, else the reply of a dry run, a join or a refusal.

    `running` is the rank run under way that the call may join (U45).
    """
    decision = decide(ctx, request, ask, rows)
    if ask.dry_run:
        return report(ctx, request, decision, ask, rows, running)
    if decision == Decision.JOINED and running is not None:
        return single(jobs.show_job(ctx, running, request.now), ctx.policy.statuses.job_joined, "joined")
    if decision != Decision.GRANTED:
        return refuse(ctx, request, decision, ask, rows)
    book(ctx, request, ask, rows)
    return None


def create_job(ctx: Context, request: Request) -> Reply:
    """POST /jobs (S34, S52-S55): queue a job, or join the rank run that is under way (U45)."""
    body = validate_body(JobBody, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    domain = domain_for(ctx, request, body.domain_id)
    if isinstance(domain, Reply):
        return domain
    account, spend = request.account, SPEND_OF[body.kind]
    work = work_of(ctx, account, domain, spend, request.call.units)
    rows = rows_of(ctx, account, spend, domain.id)
    ask = ask_for(ctx, spend, dry_run=body.dry_run)
    ask.estimate = work.estimate
    ask.units = 1 if rows.metric else 0
    if work.beyond and ctx.policy.assumptions.cap == "refuse":
        ask.beyond = Decision.ENTITLEMENT_REQUIRED
    running = jobs.running_of(ctx, domain, body.kind) if spend == Spend.RANK_RUN else None
    ask.running = int(running is not None)
    reply = admit(ctx, request, ask, rows, running)
    if reply is not None:
        return reply
    which, month_ends = ctx.state.new_id("job"), account.books.month_ends
    job = Job(
        which,
        account.id,
        domain.id,
        body.kind,
        jobs.QUEUED,
        request.now,
        work.units,
        work.estimate,
        month_ends,
    )
    job.metric, job.metric_units = rows.metric, ask.units
    job.metric_ends = rows.meter.ends if rows.metric else month_ends
    view = jobs.show_job(ctx, job, request.now)
    jobs.accept(ctx, job)
    return single(view, ctx.policy.statuses.job_accepted, "granted")


def create_keywords(ctx: Context, request: Request) -> Reply:
    """POST /keywords (S32, S57, E43, E47): add keywords; slots only where an active scan covers the list."""
    body = validate_body(KeywordsBody, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    keyword_list = list_for(ctx, request, body.list_id)
    if isinstance(keyword_list, Reply):
        return keyword_list
    account, now = request.account, request.now
    fresh = slots.fresh_words(ctx, keyword_list, body.keywords)
    already = len(body.keywords) - len(fresh)
    words = list(fresh)
    rows = rows_of(ctx, account, Spend.KEYWORDS, keyword_list.domain)
    ask = ask_for(ctx, Spend.KEYWORDS, dry_run=body.dry_run)
    if ctx.policy.assumptions.over_slots == "partial" and admission.applies(
        Decision.SLOT_LIMIT_EXCEEDED, ask
    ):
        books = account.books
        room = books.slot_limit - books.active - admission.held_at(now, books)
        words = slots.fit_keywords(ctx, account, keyword_list, words, now, room) or words
    ask.units = len(words) if rows.metric else 0
    trim(ctx, request, ask, rows)
    if rows.metric:
        words = words[: ask.units]
    widening = slots.plan_keywords(ctx, account, keyword_list, words, now)
    ask.slots, ask.revived = widening.slots, widening.revived
    reply = admit(ctx, request, ask, rows)
    if reply is not None:
        return reply
    slots.apply_widening(account, widening)
    ids = ctx.state.new_ids("kw", len(words))
    created: list[KeywordView] = []
    for which, word in zip(ids, words, strict=True):
        keyword = Keyword(which, account.id, keyword_list.domain, keyword_list.id, fresh[word], word, now)
        ctx.state.keywords[which] = keyword
        keyword_list.words[word] = which
        created.append(show_keyword(keyword))
    account.keywords += ids
    answer: KeywordsAddedView = {
        "list_id": keyword_list.id,
        "created": created,
        "already_present": already,
        "slots_added": widening.slots - widening.revived,
    }
    return single(answer, ctx.policy.statuses.created, "granted")


def create_scan(ctx: Context, request: Request) -> Reply:
    """POST /scans (S33, S58): a standing order, bounded by plan dimensions and slots."""
    body = validate_body(ScanBody, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    domain = domain_for(ctx, request, body.domain_id)
    if isinstance(domain, Reply):
        return domain
    wrong = check_ids(ctx, request, domain.id, ctx.state.keyword_lists, body.lists(), "keyword list")
    if wrong is not None:
        return wrong
    account, now = request.account, request.now
    pairings, places = body.pairings(), body.places()
    rows = rows_of(ctx, account, Spend.SCANS, domain.id)
    ask = ask_for(ctx, Spend.SCANS, dry_run=body.dry_run)
    widening = None
    if body.active:
        widening = slots.plan_scan(ctx, account, domain.id, body.lists(), pairings, places, now)
        ask.slots, ask.revived = widening.slots, widening.revived
    ask.beyond = beyond_dimensions(ctx, account, pairings, places)
    ask.units = 1 if rows.metric else 0
    reply = admit(ctx, request, ask, rows)
    if reply is not None:
        return reply
    if widening is not None:
        slots.apply_widening(account, widening)
    scan = Scan(
        id=ctx.state.new_id("scan"),
        account=account.id,
        domain=domain.id,
        name=body.name or domain.label,
        lists=body.lists(),
        engine_devices=pairings,
        geographies=places,
        active=body.active,
        created_at=now,
    )
    ctx.state.scans[scan.id] = scan
    account.scans.append(scan.id)
    return single(show_scan(scan), ctx.policy.statuses.created, "granted")


def create_briefs(ctx: Context, request: Request) -> Reply:
    """POST /keyword-briefs (S35, S56, U54): one unit of the weekly allowance a keyword."""
    body = validate_body(BriefsBody, ctx.policy, request.call.body)
    if isinstance(body, Reply):
        return body
    wanted = _brief_keywords(ctx, request, body)
    if isinstance(wanted, Reply):
        return wanted
    account, now = request.account, request.now
    domains = dict.fromkeys(domain_id for domain_id, _ in wanted)
    rows = rows_of(ctx, account, Spend.KEYWORD_BRIEFS, *domains)
    ask = ask_for(ctx, Spend.KEYWORD_BRIEFS, dry_run=body.dry_run)
    ask.units = len(wanted) if rows.metric else 0
    trim(ctx, request, ask, rows)
    if rows.metric:
        wanted = wanted[: ask.units]
    ask.estimate = len(wanted) * ctx.policy.catalogue.unit_costs.keyword_brief
    reply = admit(ctx, request, ask, rows)
    if reply is not None:
        return reply
    settle(ctx, account, account.books.month_ends, ask.estimate, ask.estimate, now)
    ids = ctx.state.new_ids("brief", len(wanted))
    briefs = [
        Brief(which, account.id, domain_id, text, now)
        for which, (domain_id, text) in zip(ids, wanted, strict=True)
    ]
    ctx.state.briefs.update(zip(ids, briefs, strict=True))
    account.briefs += ids
    made = [show_brief(brief) for brief in briefs]
    answer: KeywordBriefsMadeView = {"id": made[0]["id"], "briefs": made}
    return single(answer, ctx.policy.statuses.created, "granted")


def _brief_keywords(ctx: Context, request: Request, body: BriefsBody) -> list[tuple[str, str]] | Reply:
    """Resolve the keywords of a brief request: (domain id, text), each keyword once (U54, U65)."""
    wanted: dict[tuple[str, str], str] = {}
    if body.keywords is not None:
        domain = domain_for(ctx, request, body.domain_id or "")
        if isinstance(domain, Reply):
            return domain
        folding = ctx.policy.assumptions.keyword_folding
        for text in body.keywords:
            wanted.setdefault((domain.id, fold(text, folding)), text)
    keyword_ids = body.keyword_ids or ([] if body.keyword_id is None else [body.keyword_id])
    for keyword_id in keyword_ids:
        keyword = record_for(ctx, request, ctx.state.keywords, keyword_id, "keyword")
        if isinstance(keyword, Reply):
            return keyword
        wanted.setdefault((keyword.domain, keyword.folded), keyword.text)
    return [(domain_id, text) for (domain_id, _), text in wanted.items()]


def trim(ctx: Context, request: Request, ask: Ask, rows: Rows) -> None:
    """Cut the units asked for to what is left, where the policy grants parts (U50); not to nothing."""
    partial = ctx.policy.assumptions.quota_grant == "partial"
    if partial and rows.meter.limit >= 0 and admission.applies(Decision.QUOTA_EXHAUSTED, ask):
        left = rows.meter.limit - admission.used_at(request.now, rows.meter)
        if left > 0:
            ask.units = min(ask.units, left)


def show_brief(brief: Brief) -> KeywordBriefView:
    """Return a keyword brief as the API shows it (U109)."""
    return {
        "id": brief.id,
        "domain_id": brief.domain,
        "keyword": brief.keyword,
        "summary": f"What the five best pages for “{brief.keyword}” have in common, and what they leave out.",
        "created_at": made_at(brief.created_at),
    }
