"""How the second deployment is broken for each way of `ranksim.judge.conformance.ways`: data.

A row is a pattern of what a way says, and the switch of `deployment.py` that breaks it so; then what it must
have chosen for that to mean anything, and how many times as fast its time runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.calls.pages import OVER
from ranksim.judge.conformance.ways import Departure, ways

RESERVE = {"booking": "reserve"}
OFTEN = {"failing": 0.4}
"""Jobs that fail, which no client can bring about."""

AT_CEILING = {"at_ceiling": True}
"""Where spending is refused at the ceiling, not before it."""

ALL_GATED = AT_CEILING | {"all_gated": True}
"""Where the ceiling stops what takes slots or an allowance too: no job takes of both, and what a refused job
would have cost by itself is not told (U48)."""

FAST = 120
"""Times as fast, so that six attempts, and the wait until one is missed, take less than ten minutes."""

FASTER = 240
"""Times as fast, so that an attempt after the sixth comes within the run."""

SLOWER = 30
"""Times as fast, so that half an hour is a minute: of 15 s nobody can tell 25."""

TWICE = 2
"""Times as fast, so that what should come after 5 min, and comes after 8, comes within the run."""

WORD = r"([\w.]+)"

ROWS: tuple[tuple[Any, ...], ...] = (
    ("a valid key is refused now and then", "key-refused"),
    ("a sandbox key works in production", "any-environment production"),
    ("a production key works in sandbox", "any-environment sandbox"),
    ("a single comes without `data`", "no-data account.get"),
    ("a creation comes without `data`", "no-data domains.create"),
    ("a success is no JSON", "not-json labels.list"),
    ("a collection has no `has_more`", "no-more domains.list"),
    ("the last page has a `next_cursor`", "cursor-on-last"),
    ("a page before others has none", "cursor-missing"),
    ("an error comes in the envelope of successes", "error-in-data 404"),
    ("a Domain lacks a field when it is read", "no-field domains.get label"),
    ("a Domain lacks a field in a list", "no-field domains.list label"),
    ("a Domain lacks a field when it is created", "no-field domains.create label"),
    ("a Domain lacks a field when it is updated", "no-field domains.update label"),
    ("a Job lacks a field when it is created", "no-field jobs.create domain_id"),
    ("a Job lacks a field when it is read", "no-field jobs.get domain_id"),
    ("a Job lacks a field in a list", "no-field jobs.list domain_id"),
    ("a job that is done has no finished_at", "unfinished done"),
    ("a job that failed has no finished_at", "unfinished failed", OFTEN),
    (f"a job asked for as {WORD} is of another kind", r"other-kind \1"),
    (f"POST jobs of kind {WORD} shows another", r"other-kind \1"),
    ("a job that failed tells no reason", "reason failed", OFTEN),
    (r"a job that is done tells an error", "reason done"),
    (r"a (running|queued) job tells an error", r"reason \1"),
    ("a job that is done runs again", "runs-again done"),
    ("a job that failed runs again", "runs-again failed", OFTEN),
    ("a job that is done changes", "changes done"),
    ("a job that failed changes", "changes failed", OFTEN),
    ("a job is found under another kind", "any-kind"),
    ("a job has no progress", "no-progress"),
    ("the progress of a job falls", "progress-falls"),
    ("created_at is not ISO 8601 in UTC", "time-form created_at"),
    (r"(finished_at|last_full_crawl_at|resets_at) is not", r"time-form \1"),
    ("an endpoint that takes all types gets only some", "hook-some", OFTEN),
    (r"an endpoint that does not list (job.\w+) gets it", r"hook-unlisted \1", OFTEN),
    ("a bound endpoint gets events of another domain", "hook-any-domain"),
    ("an endpoint gets events of another account", "hook-any-account"),
    ("the secret is shown when the endpoint is read", "secret-shown webhooks.get"),
    ("the secret is shown in the list", "secret-shown webhooks.list"),
    ("the secret is shown after a PATCH", "secret-shown webhooks.update"),
    ("a disabled endpoint shows no reason", "no-reason"),
    ("pairings do not multiply slots", "slots-flat pairs"),
    ("places do not multiply slots", "slots-flat places"),
    ("keywords do not multiply slots", "slots-flat words"),
    ("a second scan of the same keywords adds nothing", "slots-flat scans"),
    ("one keyword on one engine, two devices and two places is not four slots", "slots-flat pairs"),
    ("removed keywords free their slots at once", "freed keywords"),
    ("a removed scan frees its slots at once", "freed scans"),
    ("a removed list frees its slots at once", "freed keyword_lists"),
    ("a removed domain frees its slots at once", "freed domains"),
    ("a POST ignores the key", "key-ignored webhooks.test"),
    (f"{WORD} ignores dry_run", r"dry-real \1"),
    ("a walk of GET /v1/domains ends early", "walk-ends domains.list"),
    ("a cursor of GET /v1/domains is refused", "cursor-refused domains.list"),
    ("a cursor of keywords holds under another list", "cursor-anywhere keywords.list"),
    ("a cursor under other filters goes on", "cursor-anywhere keywords.list"),
    ("keywords in a tracked list take no slots", "slots-none keywords"),
    ("a scan takes no slots", "slots-none scans"),
    ("more slots are given than the plan has", "more-slots"),
    (r"briefs take (nothing of the|of no) weekly allowance", "quota-free"),
    ("reading briefs is refused at the allowance's end", "reads-refused briefs"),
    ("what is held is not counted as used", "held-apart"),
    ("a metric has no resets_at", "no-resets"),
    ("used and remaining do not add up", "quota-sum"),
    ("used grows by itself", "used-grows"),
    ("GET /v1/webhook-events wants a key", "events-keyed"),
    ("it lists none of today's types", "no-types"),
    ("today's event types are not those two", "other-types"),
    (r"a (.xx) is listed as another status", r"listed \1"),
    ("a test event is never sent", "test-unsent"),
    ("a test event is not signed", "badly-signed test"),
    ("a PATCH is accepted and changes nothing", "patch-ignored domains"),
    ("a page without a limit has more than 50", "page-long default"),
    ("a page without a limit has fewer, and more are there", "page-short default"),
    ("a page has more than 200", "page-long largest"),
    ("a page has more than asked for", "page-long limit"),
    ("a cursor returned unchanged is refused", "cursor-refused keywords.list"),
    ("has_more is told on the last page", "more-on-last"),
    ("a walk shows an item twice", "page-twice"),
    ("a walk of several pages leaves an item out", "page-gap"),
    ("a walk by offsets leaves an item out when others are deleted", "offset-paging"),
    (f"{WORD} repeated under one key works twice", r"twice \1"),
    (f"{WORD} sent twice at once works twice", r"twice-at-once \1"),
    (f"{WORD} repeated gets another reply", r"other-replay \1"),
    (f"another body of {WORD} under one key succeeds", r"any-body-anew \1"),
    ("a real call after its dry run replays it", "dry-same"),
    ("a key is in progress with no call in flight", "always-in-flight"),
    ("the earlier of two PATCHes wins", "first-wins labels"),
    ("the second of two PATCHes is refused as stale", "stale labels"),
    ("a PATCH without If-Match is refused", "if-match domains"),
    ("a refusal to spend has another code", "other-code cost_cap_reached", AT_CEILING),
    ("cost_cap_reached has another code", "other-code cost_cap_reached", AT_CEILING),
    (f"{WORD} has another code", r"other-code \1"),
    (f"{WORD} is granted while it cools", r"granted cooldown \1"),
    (f"{WORD} is granted to several at once", r"raced \1"),
    ("calls at once pass the allowance together", "raced quota"),
    ("calls at once pass the slots together", "raced slots"),
    (f"a key reads {WORD} of another account", r"reads-account \1"),
    (f"a key is listed {WORD} of another account", r"lists-account \1"),
    (f"{WORD} cools a fifth too short", r"cools-shorter \1"),
    ("a second rank run starts beside the first", "never-joins"),
    ("a rank run that runs is joined now, and not another time", "joins-some"),
    ("a joined rank run is paid again", "join-paid", RESERVE),
    ("a rank run that has ended is joined", "joins-ended rank_run"),
    (f"a second {WORD} is joined", r"joins \1"),
    ("keywords are paid when they are added", "tracking-costs keywords"),
    ("a scan is paid when it is created", "tracking-costs scans"),
    (r"(quota|slots) refuses where (cost_ceiling) fails too", r"order \1 \2", ALL_GATED),
    (r"(\w+) refuses where (cost_ceiling) fails too", r"order \1 \2", AT_CEILING),
    (f"{WORD} refuses where {WORD} fails too", r"order \1 \2"),
    (r"a dry run names (quota|slots) where (cost_ceiling) fails too", r"dry-order \1 \2", ALL_GATED),
    (r"a dry run names (\w+) where (cost_ceiling) fails too", r"dry-order \1 \2", AT_CEILING),
    (f"a dry run names {WORD} where {WORD} fails too", r"dry-order \1 \2"),
    ("what the plan lacks is granted", "granted capability site_optimization"),
    ("AI scans are granted without the capability", "granted capability ai_scan"),
    ("a past-due account cannot read", "reads-refused past-due"),
    ("an account in order is refused as inactive", "healthy-refused"),
    (f"a past-due account is granted {WORD}", r"granted subscription \1"),
    (f"{WORD} is granted at the ceiling", r"granted cost_ceiling \1", AT_CEILING),
    ("cost_cap_reached comes before the ceiling", "ceiling-early", ALL_GATED),
    ("spent is not what is settled and reserved", "cost-sum", RESERVE),
    ("settled cost falls within a month", "cost-falls", RESERVE | OFTEN),
    ("what a job had reserved stays reserved when it has failed", "reserve-kept", RESERVE | OFTEN),
    ("an error is of another media type", "plain-errors"),
    ("failed_run_arms: true", "failed-arms", {"failed_arms": False} | OFTEN),
    ("the month's spend resets at another time", "reset cost"),
    ("more is admitted than the allowance", "quota-more"),
    ("quota_exhausted comes while it would fit", "quota-early"),
    ("a refused request keeps the units of its quota", "refusal-keeps"),
    ("briefs are granted beyond the allowance", "granted quota keyword_briefs"),
    ("slot_limit_exceeded comes for keywords that fit", "slots-early keywords"),
    ("slot_limit_exceeded comes for a scan that fits", "slots-early scans"),
    ("keywords are granted beyond the slots", "granted slots keywords"),
    ("a scan is granted beyond the slots", "granted slots scans"),
    (f"{WORD} is refused when its cooldown is over", r"cools-longer \1"),
    (f"the wait stated for {WORD} is another", r"other-wait \1"),
    ("a cooldown covers another domain", "cools-account"),
    (f"a dry run of {WORD} consumes or spends", r"dry-spends \1"),
    (f"a dry run of {WORD} says another thing than the call", r"dry-allows \1"),
    (f"a dry run of {WORD} starts a job, which turns up later", r"dry-starts \1"),
    (f"a dry run does not tell of {WORD}", r"dry-blind \1"),
    ("reads are refused at the ceiling", "reads-refused ceiling", AT_CEILING),
    (r"a (read|write) works without a key", r"keyless none \1"),
    (r"a (read|write) works with an unknown key", r"keyless unknown \1"),
    (f"a scoped key reads {WORD} of another domain", r"reads-beyond \1"),
    (f"a scoped key is listed {WORD} of another domain", r"lists-beyond \1"),
    (f"a scoped key does {WORD} for another domain", r"makes-beyond \1"),
    (f"a scoped key starts {WORD} on another domain", r"starts-beyond \1"),
    ("a scoped key creates an account-wide endpoint", "account-endpoint"),
    ("a scoped key creates an endpoint of another domain", "endpoint-beyond"),
    ("a preflight is refused", "preflight"),
    ("a success does not allow the origin", "no-cors success"),
    ("an error does not allow the origin", "no-cors error"),
    (r"the signature does not verify \((first|retry|test).*\)", r"badly-signed \1"),
    (r"t is not the time of the attempt \((first|retry|test).*\)", r"old \1"),
    (r"the body is no application/json \((first|retry|test).*\)", r"content-type \1"),
    (r"Service-Event-Type is missing \((first|retry|test).*\)", r"no-hook-header service-event-type \1"),
    (
        r"Service-Delivery-Attempt is missing \((first|retry|test).*\)",
        r"no-hook-header service-delivery-attempt \1",
    ),
    (f"{WORD} tells of another outcome", r"told-as \1", OFTEN),
    (r"an? (\w+) that is done is told to nobody", r"untold \1 done"),
    (r"an? (\w+) that failed is told to nobody", r"untold \1 failed", OFTEN),
    ("the end of a job is never sent", "untold all all"),
    ("a retry has another event id", "retry-new-id"),
    ("numbers begin anew", "numbers-anew"),
    (r"a body of (job.\w+) lacks a field", r"body-lacks \1"),
    ("the signed string has no t", "signed-bare"),
    ("a body is signed and sent otherwise", "signed-other"),
    ("the digest is another, or in capitals", "capitals"),
    ("a retry is signed with the first attempt's time", "first-time"),
    (r"no retry follows a (.xx|no answer)", r"no-retry \1"),
    (r"a (20\d) does not acknowledge", r"not-acknowledged \1"),
    ("an attempt is cut off before 10 s", "impatient"),
    ("silence is waited for longer than 10 s", "patient"),
    ("a 2xx after 10 s acknowledges", "patient"),
    ("the retry after 1 min comes at another time", "delay 1"),
    ("the retry after 5 min comes at another time", "delay 2", {}, TWICE),
    ("the retry after 30 min comes at another time", "delay 3", {}, SLOWER),
    ("the retry after 2 h comes at another time", "delay 4", {}, FAST),
    ("the retry after 6 h comes at another time", "delay 5", {}, FAST),
    ("attempt 2 is not made", "not-made 2"),
    ("attempt 3 is not made", "not-made 3", {}, TWICE),
    (r"attempt ([456]) is not made", r"not-made \1", {}, FAST),
    ("a seventh attempt is made", "seventh", {}, FASTER),
    ("an endpoint is disabled too early or too late", "disabled-early"),
    ("a success does not zero the count", "count-kept"),
    ("count_on_enable: kept", "enable-keeps-count"),
    ("on_disable: pause", "retries-paused"),
    (r"a field is missing of the error (.+)", r"error-lacks \1"),
    (r"type is another page \((.+)\)", r"error-type \1"),
    (r"request_id is another request's \((.+)\)", r"error-id \1"),
    ("quota_exhausted is no 402", "other-status quota_exhausted 403"),
    ("its meta lacks a field", "meta-lacks quota_exhausted limit"),
    ("the meta of cost_cap_reached lacks amount, ceiling or date", "meta-lacks cost_cap_reached ceiling"),
    ("it tells another ceiling than usage", "other-ceiling"),
    (f"a 429 of {WORD} calls has no Retry-After", r"no-retry-after \1"),
    (f"a {WORD} call after Retry-After is refused again", r"retry-early \1"),
    (f"a {WORD} call is refused while calls are left", r"rate-random \1"),
    (f"more {WORD} calls are admitted in 60 s", r"rate-more \1"),
    (f"fewer {WORD} calls are admitted in 60 s", r"rate-fewer \1"),
    (f"keys share a window of {WORD} calls", r"rate-shared \1"),
    (f"{WORD} counts in another class", r"other-class \1"),
    ("RateLimit-Remaining is not what was counted", "remaining"),
    (r"a RateLimit header is missing \(((?!GraphQL).+)\)", r"no-header ratelimit-remaining \1"),
    (r"X-Request-Id is missing \(((?!GraphQL).+)\)", r"no-header x-request-id \1"),
    ("an id that was sent is replaced", "id-replaced"),
    ("the weekly allowance resets on another day", "reset week"),
    ("a monthly quota resets later than in a month", "reset month"),
    ("a key is forgotten before 24 h", "forgets"),
    ("a key is remembered beyond 24 h", "remembers"),
    ("Deprecation comes without Sunset", "deprecated"),
    ("a resource has other fields in sandbox", "sandbox no-field domains.list label"),
    ("an error has other fields in sandbox", "sandbox error-lacks 401"),
    ("a list, or what is one of its kind, cannot be read", "unrouted labels"),
    ("an operation leaves /v1", "unrouted slots"),
)

NOT_BROKEN = {
    "two endpoints get different ids of one event": "this deployment always does so, and no fact forbids it",
    **{
        f"a {status} is followed": "a rehearsal's receivers hear of no second address"
        for status in (301, 302, 303, 307, 308)
    },
    **{
        f"{says}{one} {where} {other} fails too": "no operation of this deployment passes both checks"
        for says, where in (("", "refuses where"), ("a dry run names ", "where"))
        for one, other in (("quota", "capability"), ("slots", "capability"), ("slots", "quota"))
    },
    **{
        f"{what} is missing (GraphQL)": "this deployment has no GraphQL"
        for what in ("a RateLimit header", "X-Request-Id")
    },
    **{way.says: "this deployment has no GraphQL" for way in ways() if OVER in f"{way.says} {way.case}"},
}
"""Ways that have a case, and why this deployment is not broken so."""


@dataclass(frozen=True)
class Breakage:
    """A way of breaking it: the departure, the switch, what must be chosen, and how fast its time runs."""

    way: Departure
    breaks: str
    chosen: dict[str, Any] = field(default_factory=dict)
    scale: int = 1

    @property
    def name(self) -> str:
        return f"{self.way.of}: {self.way.says}"


def unbroken() -> dict[str, str]:
    """The ways that have a case and no switch here, and why."""
    broken = {one.way.says for one in breakages()}
    shown = [way.says for way in ways() if way.rule and way.of.startswith("S")]
    return {says: NOT_BROKEN.get(says, "there is no switch yet") for says in shown if says not in broken}


def hidden(one: Breakage, numbers: Any) -> str:
    """Why nobody can see a way at a deployment of these numbers in ten minutes; "" where somebody may.

    A job that a plan lacks is refused first of all, so nothing of it begins a cooldown or comes to a ceiling
    there; and a past-due account begins none. What both had begun before is over.
    """
    switch, *about = one.breaks.split()
    corner, studio = numbers.corner, numbers.studio
    lacks = [kind for kind in ("site_optimization", "ai_scan") if kind not in corner["capabilities"]]
    if switch == "granted" and about[0] in ("subscription", "cost_ceiling") and about[1] in lacks:
        which = "that is past due" if about[0] == "subscription" else "that is near its ceiling"
        return f"the account {which} lacks the capability, which refuses first"
    if switch in ("order", "dry-order") and about[0] == "cooldown":
        cools = [
            (plan, name)
            for plan in (corner, studio)
            for name, long in plan["cooldown_seconds"].items()
            if long
        ]
        if about[1] in ("capability", "subscription") and max(corner["cooldown_seconds"].values()) < BEFORE:
            return "what such an account may not begin does not cool there"
        if about[1] == "quota" and not any(
            name in ops for plan, name in cools for *_, ops in plan["quotas"].values()
        ):
            return "nothing that takes of an allowance cools there"
        if about[1] == "slots" and all(name not in ("keywords", "scans") for _, name in cools):
            return "nothing that takes slots cools there"
    if switch == "remembers":
        return "24 h do not pass in ten minutes"
    if switch == "retry-early" and numbers.window == "gcra" and about[0] in ("read", "write"):
        return "a call comes back in less than a second there, and no wait is shorter than one"
    if switch == "cools-longer":
        plans = (studio,) if about[0] in lacks else (studio, corner)
        if max(plan["cooldown_seconds"][about[0]] for plan in plans) / 2 <= 1:
            return "by half of its cooldown it is longer, which is no more than whole seconds may hide"
    if switch in ("granted", "cools-longer", "other-wait") and about[-1] == "rank_run":
        longest = max(plan["cooldown_seconds"]["rank_run"] for plan in (corner, studio))
        if longest <= min(numbers.job_seconds):
            return "a rank run that goes on is joined, and each outlasts its cooldown"
    dearest = 500 * corner["page_cap"]
    refused = one.chosen.get("at_ceiling") or "cost_cap_reached" in about or switch in AT_A_REFUSAL
    if (refused or one.breaks == "reset cost") and corner["ceiling"] > MOST_STARTED * dearest:
        return "the ceiling of the account near its limits is more than all jobs cost that ten minutes admit"
    return nothing_of(switch, about, (corner, studio))


def nothing_of(switch: str, about: list[str], plans: tuple[dict[str, Any], ...]) -> str:
    """Why a way is not seen in these plans that has to do with briefs, or with the cooldown of a kind."""
    briefs = switch in GRANTED_BRIEFS and about[-1:] in (["keyword_briefs"], ["keyword_briefs.create"])
    briefs = briefs or (switch, *about) in (("quota-free",), ("raced", "quota"))
    if briefs and not any(plan["quotas"]["brief_refreshes"][0] for plan in plans):
        return "no plan there has briefs"
    kind = about[-1] if about else ""
    cooling = switch in ("other-wait", "raced") or (switch, *about[:1]) == ("granted", "cooldown")
    lengths = [plan["cooldown_seconds"].get(kind) for plan in plans]
    if cooling and kind in ("rank_run", "crawl", "site_optimization") and not any(lengths):
        return "the kind does not cool there"
    return ""


GRANTED_BRIEFS = ("twice", "twice-at-once", "other-replay", "any-body-anew", "dry-real")
"""Switches that only show where what they name is granted."""


AT_A_REFUSAL = ("other-ceiling", "ceiling-early")
"""Switches that only a refusal for the ceiling shows."""

BEFORE = 360
"""Seconds before the run in which an account has used up what it had."""

MOST_STARTED = 200
"""Jobs that any client can start with one key in ten minutes (S104): the account near its limits has one."""


def breakages() -> list[Breakage]:
    """One for each way that a case shows and a row breaks, in the order of the page; but for NOT_BROKEN.

    A choice (U) that stands beside a fact too is tried there.
    """
    found, stated = [], {way.says for way in ways() if way.of.startswith("S")}
    for way in ways():
        if not way.rule or way.says in NOT_BROKEN or (way.of.startswith("U") and way.says in stated):
            continue
        fitting = [(row, match) for row in ROWS if (match := re.fullmatch(row[0], way.says))]
        if not fitting:
            continue  # without a switch yet
        row, match = fitting[0]
        found.append(Breakage(way, match.expand(row[1]), *row[2:]))
    return found


ALONE = re.compile(
    "key-refused|reads-refused|healthy-refused|unrouted|no-data|always-in-flight|error-in-data"
    "|no-header x-request-id success|not-made|no-retry [345n]"
    "|cursor-on-last|cursor-missing|more-on-last|page-twice|page-gap|offset-paging"
)
"""What would keep others from being seen."""

RATES = re.compile("rate-|other-class|retry-early")
"""What has calls refused, or admitted, that others wait for."""

TOGETHER = {
    "rate": 3,
    "spending": 4,
    "webhook": 5,
    "access": 4,
    "error": 3,
    "header": 3,
    "resource": 3,
    "job": 2,
}
"""How many ways of a family are tried in one run at most; of other families one is."""


def groups(found: list[Breakage]) -> list[list[Breakage]]:
    """Ways that can be tried in one run: no two are of one rule, and none keeps others from being seen."""
    made: list[list[Breakage]] = []
    for one in found:
        fitting = (
            group
            for group in made
            if all(beside(one, other) for other in group)
            and sum(family(one) == family(other) for other in group) < TOGETHER.get(family(one), 1)
        )
        group = next(fitting, None)
        if group is None:
            made.append([one])
        else:
            group.append(one)
    return made


def family(one: Breakage) -> str:
    name = one.way.rule.partition(".")[0]
    return "spending" if name in ("guards", "dry_run", "quota", "slots", "cost", "cooldown") else name


def beside(one: Breakage, other: Breakage) -> bool:
    agree = all(other.chosen.get(name, value) == value for name, value in one.chosen.items())
    same = one.scale == other.scale and agree and one.way.rule != other.way.rule
    if rate_class(one) or rate_class(other):
        return same and bool(rate_class(one) and rate_class(other)) and rate_class(one) != rate_class(other)
    return same and not ALONE.match(one.breaks) and not ALONE.match(other.breaks)


def rate_class(one: Breakage) -> str:
    """The class of calls whose limit is broken, "" where none is: each may be broken in one way at a time."""
    if not RATES.match(one.breaks):
        return ""
    of = one.breaks.rpartition(" ")[2]
    return OPERATIONS[of].rate.label if of in OPERATIONS else of
