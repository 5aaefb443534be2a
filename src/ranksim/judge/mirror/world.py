"""A world of what was read: a catalogue with the plans, and a scenario with the accounts.

What the API does not show is taken from the illustrative catalogue (unit costs, how long jobs take) or left
at its default, and told in notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.clock import DAY, SECOND, Micros, duration, instant, iso
from ranksim.core.contract.facts import SPENDING_OPERATIONS
from ranksim.core.contract.plans import CAPABILITY_OF, HOW_JOBS_RUN
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quantities import Distribution
from ranksim.core.har import unknown_calls_note
from ranksim.judge.mirror.jobs import (
    by_chance,
    fit_jobs,
    jobs_fitted,
    left_out,
    schedules,
    starts_of,
    unended,
)
from ranksim.judge.mirror.reading import KEYWORDS, Item, ReadAccount, Reading, StatedAccount, shows_count
from ranksim.judge.mirror.receivers import fit_receivers
from ranksim.judge.mirror.recorded import TracedAccounts, mixes
from ranksim.judge.mirror.rhythm import caller

LENGTH = "1d"
"""How long the world runs if nobody changes it."""

BUSY = 100_000
"""Calls a day from which on it runs for an hour, as a day of them takes many minutes."""

MANY = 1 << 31
"""A limit that was not told."""


@dataclass(slots=True)
class MirroredWorld:
    """What is written: catalogue, scenario, what is not as it is there, what nobody saw, and the policy."""

    catalogue: dict[str, Any]
    scenario: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    made_up: list[str] = field(default_factory=list)
    policy: dict[str, Any] = field(default_factory=lambda: {"name": "twin", "catalogue": "catalogue.yaml"})


def world_of(
    reading: Reading, host: str, now: Micros, recorded: TracedAccounts | None = None
) -> MirroredWorld:
    """Make a twin of what was read of `host` by `now`; it starts with the next full second.

    Clients call as often as keys were `recorded` to, at the same hours of the day.
    """
    now = -(-now // SECOND) * SECOND
    catalogue = Policy().catalogue
    plans: dict[str, Any] = {}
    twin = MirroredWorld({}, {})
    accounts: dict[str, Any] = {}
    clients: dict[str, Any] = {}
    receivers: dict[str, Any] = {}
    for number, read in enumerate(reading.accounts, 1):
        name = _name(read.name, accounts, number)
        terms = _plan(read, twin.notes) if read.stated is None else dict(read.stated.terms)
        plan = _plan_name(read, plans, terms)
        plans[plan] = terms
        accounts[name] = _account(read, plan, terms, now, twin.notes)
        clients |= _clients(read, name, now, recorded, twin.notes)
        receivers |= _receivers(read, name, len(receivers), twin)
    if recorded is not None and recorded.unknown:
        twin.notes.append(f"{unknown_calls_note(recorded.unknown)}; no client of the twin makes them")
    twin.notes += [
        f"key {name}: {why}, so it has no place in the twin" for name, why in reading.unknown.items()
    ]
    fits = fit_jobs(job for read in reading.accounts for job in read.lists.get("jobs.list", ()))
    twin.notes += [jobs_fitted(kind, fitted) for kind, fitted in fits.items()]
    for read in reading.accounts:
        if read.assumed:
            twin.notes.append(f"{read.name}: not shown, and so stated or assumed: {'; '.join(read.assumed)}")
            twin.made_up += read.assumed
    others = [kind for kind in catalogue.job_durations if kind not in fits]
    lengths = [f"how long jobs take and how often they fail ({', '.join(others)})"] if others else []
    unseen = ["unit costs", *lengths, "which operations an allowance is for but briefs"]
    twin.notes.append(
        "not shown by the API, and so as in the illustrative catalogue or at its default: "
        f"{', '.join(unseen)}, every assumption (U)"
    )
    priced = all(read.stated is not None and read.stated.prices_known for read in reading.accounts)
    if not priced:
        lacking = "not shown by the API, and so not known here: prices; write them into catalogue.yaml"
        twin.notes.append(lacking)
    twin.made_up += unseen
    shared = catalogue.model_dump(mode="json")
    twin.catalogue = {
        "name": "mirror",
        "note": f"Plans as {host} shows them, or as stated; it shows no prices; unit costs and durations are "
        "illustrative.",
        "prices_known": priced,
        "plans": plans,
        "unit_costs": shared["unit_costs"],
        **{part: shared[part] for part in HOW_JOBS_RUN},
    }
    for kind, fitted in fits.items():
        twin.catalogue["job_durations"][kind] = fitted.distribution
        twin.catalogue["job_failure_rates"][kind] = round(1000 * (fitted.failed.mean or 0))
    twin.scenario = {
        "scenario": 1,
        "name": "twin",
        "description": f"The accounts at {host} as they could be read on {iso(now)}.",
        "start": iso(now),
        "length": _length(clients, twin.notes),
        "policy": "policy.yaml",
        "made_up": twin.made_up,
        "accounts": accounts,
    }
    if clients:
        twin.scenario["clients"] = clients
    if receivers:
        twin.scenario["receivers"] = receivers
    return twin


def fit(twin: MirroredWorld, policy: Policy, way: Distribution | None) -> None:
    """Have a twin follow a policy found of its deployment; a call takes a draw of `way` there and back.

    Plans stay as they were read. How jobs run and what they cost is as the policy's catalogue says.
    """
    twin.policy |= {
        part: stated
        for part in ("facts", "assumptions", "statuses")
        if (stated := getattr(policy, part).model_dump(mode="json", exclude_unset=True))
    }
    catalogue = policy.catalogue.model_dump(mode="json")
    twin.catalogue |= {part: catalogue[part] for part in ("unit_costs", *HOW_JOBS_RUN)}
    if way is not None:
        written = way.model_dump(mode="json")
        twin.scenario["network"] = {"before": written, "after": written}


def learn_capabilities(twin: MirroredWorld, answers: Iterable[tuple[str, str, bool]]) -> None:
    """Have plans allow what was granted to a key, and not what was refused it for want of a capability.

    `answers` are the key's name, the operation that spends, and whether it was granted.
    """
    plans: dict[str, dict[str, Any]] = {}
    for account in twin.scenario["accounts"].values():
        for key in account["keys"]:
            plans[key if isinstance(key, str) else key["name"]] = twin.catalogue["plans"][account["plan"]]
    for key, operation, granted in sorted(set(answers), key=lambda answer: (answer[2], answer)):
        capability = twin.catalogue["capability_of"][operation]
        if key in plans:
            others = [name for name in plans[key]["capabilities"] if name != capability]
            plans[key]["capabilities"] = [*others, capability] if granted else others


def _name(given: str, taken: Mapping[str, Any], number: int) -> str:
    name = re.sub("[^A-Za-z0-9_-]+", "-", given).strip("-") or "account"
    return f"{name}-{number}" if name in taken else name


# Plans


def _plan_name(read: ReadAccount, plans: Mapping[str, Any], terms: Mapping[str, Any]) -> str:
    """The plan's name as it is shown; accounts of one plan may have limits of their own (add-ons)."""
    stated = read.single("account.get").get("plan") if read.stated is None else read.stated.plan
    name = str(stated or "mirrored")
    while name in plans and plans[name] != terms:
        name += "-again"
    return name


def _plan(read: ReadAccount, notes: list[str]) -> dict[str, Any]:
    entitled, usage = read.single("account.entitlements"), read.single("account.usage")
    slots = read.single("slots.get")
    dimensions = _mapping(entitled.get("dimensions"))
    for operation in ("account.entitlements", "account.usage", "slots.get"):
        if not read.single(operation):
            why = read.lacks.get(operation, "it was not answered")
            notes.append(
                f"{read.name}: {operation} could not be read ({why}), so its limits are out of reach here"
            )
    ceiling = _mapping(usage.get("cost")).get("ceiling")
    return {
        "price": "0 USD",
        "capabilities": _capabilities(entitled, read, notes),
        "quotas": {str(meter["metric"]): _quota(meter) for meter in _meters(usage)},
        "slot_limit": _natural(entitled.get("slot_limit"), _natural(slots.get("limit"), MANY)),
        "dimensions": {
            "max_engine_devices": _natural(dimensions.get("engine_devices"), MANY),
            "max_geographies": _natural(dimensions.get("geographies"), MANY),
        },
        "cost_ceiling": f"{_money(ceiling, str(MANY))} USD",
        "cooldowns": {
            name: f"{_natural(seconds, 0)}s"
            for name, seconds in _mapping(entitled.get("cooldown_seconds")).items()
            if name in SPENDING_OPERATIONS
        },
        "page_cap": _natural(entitled.get("page_cap"), MANY),
        "call_cap": _natural(entitled.get("call_cap"), MANY),
    }


def _capabilities(entitled: Item, read: ReadAccount, notes: list[str]) -> list[str]:
    """The capabilities as shown; where none of ours is among them, ours, all of them, are beside them."""
    names = [str(name) for name in entitled.get("capabilities") or ()]
    nameable = sorted(set(CAPABILITY_OF.values()))
    if set(names) & set(nameable):
        tracking = CAPABILITY_OF["scans"]
        if tracking in names or not read.lists.get("scans.list"):
            return names
        notes.append(
            f"{read.name}: it has scans, so {tracking} is allowed, which is not among its capabilities"
        )
        return [*names, tracking]
    notes.append(
        f"{read.name}: what the capabilities {', '.join(names) or '(none told)'} allow is not shown, so all "
        "is allowed; write capability_of into the catalogue"
    )
    return [*names, *nameable]


def _meters(usage: Item) -> list[Item]:
    metrics = usage.get("metrics")
    rows = metrics if isinstance(metrics, list) else []
    return [row for row in rows if isinstance(row, dict) and "metric" in row]


def _quota(meter: Item) -> dict[str, Any]:
    brief = "brief" in str(meter["metric"])
    period = meter.get("period")
    return {
        "limit": _natural(meter.get("limit"), MANY),
        "period": period if period in ("week", "month") else ("week" if brief else "month"),
        "consumed_by": ["keyword_briefs"] if brief else [],
    }


# Accounts


def _account(
    read: ReadAccount, plan: str, terms: Mapping[str, Any], now: Micros, notes: list[str]
) -> dict[str, Any]:
    stated, usage = read.single("account.get"), read.single("account.usage")
    hosts = _hosts(read)
    account: dict[str, Any] = {"plan": plan, "environment": read.environment}
    status = stated.get("status")
    if isinstance(status, str):
        account["status"] = status
    anchor = stated.get("billing_anchor") or stated.get("period_start")
    if isinstance(anchor, str):
        account["anchor"] = anchor
    else:
        notes.append(f"{read.name}: its billing anchor is not shown, so its months begin with the world")
    account["keys"] = [
        name if domain not in hosts else {"name": name, "domain": hosts[domain]}
        for name, domain in read.keys.items()
    ]
    tracked = [_portfolio(host, domain, read) for domain, host in hosts.items()]
    if read.stated is not None:
        tracked = _stated_portfolios(tracked, read.stated)
    notes += _uncounted(read)
    if tracked:
        account["portfolio"], *further = tracked
        account |= {"further": further} if further else {}
    account["used"] = _used(usage, read.single("slots.get"))
    jobs = read.lists.get("jobs.list", [])
    account["used"]["cooldowns"] = list(_cooldowns(jobs, hosts, terms["cooldowns"], now))
    notes += (f"{read.name}: {each}" for each in unended(jobs, now))
    planned = sum(_planned(portfolio) for portfolio in tracked)
    active = read.single("slots.get").get("active")
    if isinstance(active, int) and active != planned:
        notes.append(
            f"{read.name}: {active} slots are active there and {planned} here, where every scan covers all "
            "lists of its domain"
        )
    return account


def _portfolio(host: str, domain: str, read: ReadAccount) -> dict[str, Any]:
    def own(operation: str) -> list[Item]:
        return [item for item in read.lists.get(operation, ()) if str(item.get("domain_id")) == domain]

    lists = own("keyword_lists.list")
    return {
        "domains": [host],
        "lists": max(1, len(lists)),
        "keywords": sum(_keywords(tracked, read) for tracked in lists),
        "scans": [_scan(scan) for scan in own("scans.list")],
        "labels": len(own("labels.list")),
        "competitors": len(own("competitors.list")),
    }


def _stated_portfolios(tracked: Iterable[dict[str, Any]], stated: StatedAccount) -> list[dict[str, Any]]:
    """Portfolios as calls show them, with as many further domains, and scans, as are stated or assumed."""
    assumed = {"keywords": stated.keywords, "scans": [_scan({})]}
    portfolios = [
        assumed | {name: part for name, part in each.items() if part or name == "keywords"}
        for each in tracked
    ]
    further = (stated.domains or 0) - len(portfolios)
    return [*portfolios, {"domains": further, **assumed}] if further else portfolios


def _keywords(keyword_list: Item, read: ReadAccount) -> int:
    """How many keywords a list has: as it says, else counted."""
    if shows_count(keyword_list):
        return int(keyword_list["keyword_count"])
    own = str(keyword_list.get("id"))
    return sum(str(word.get("list_id")) == own for word in read.lists.get(KEYWORDS, ()))


def _uncounted(read: ReadAccount) -> Iterator[str]:
    """Say of how many lists nobody can tell how many keywords they have."""
    silent = [listing for listing in read.lists.get("keyword_lists.list", ()) if not shows_count(listing)]
    words = read.lists.get(KEYWORDS, ())
    if not silent or (KEYWORDS in read.lists and all("list_id" in word for word in words)):
        return
    why = read.lacks.get(KEYWORDS, "they do not show their list")
    lists = "1 keyword list shows" if len(silent) == 1 else f"{len(silent)} keyword lists show"
    yield (
        f"{read.name}: {lists} no keyword_count, and keywords cannot be counted ({why}), so none are tracked "
        "there in this world: write how many there are into the portfolios of world.yaml"
    )


def _scan(scan: Item) -> dict[str, Any]:
    pairings, places = scan.get("engine_devices"), scan.get("geographies")
    return {
        "engine_devices": [_pairing(part) for part in pairings or ()] or ["google/desktop"],
        "geographies": [_place(part) for part in places or ()] or ["US"],
        "active": scan.get("active") is not False,
    }


def _pairing(given: Any) -> str:
    if isinstance(given, dict):
        return f"{given.get('engine', 'google')}/{given.get('device', 'desktop')}"
    return str(given)


def _place(given: Any) -> Any:
    if not isinstance(given, dict):
        return str(given)
    place = {name: str(given[name]) for name in ("country", "location_id", "language") if given.get(name)}
    return place if "country" in place else {**place, "country": "US"}


def _planned(portfolio: Mapping[str, Any]) -> int:
    factors = (len(s["engine_devices"]) * len(s["geographies"]) for s in portfolio["scans"] if s["active"])
    return int(portfolio["keywords"]) * sum(factors)


def _used(usage: Item, slots: Item) -> dict[str, Any]:
    spent = _mapping(usage.get("cost")).get("spent")
    return {
        "metrics": {str(meter["metric"]): _natural(meter.get("used"), 0) for meter in _meters(usage)},
        "spent": f"{_money(spent, '0')} USD",
        "held": _natural(slots.get("held"), 0),
    }


def _cooldowns(
    jobs: list[Item], hosts: Mapping[str, str], lengths: Mapping[str, str], now: Micros
) -> Iterator[dict[str, Any]]:
    """What jobs cool down: each kind on each domain from its last run on, which a failed one is not (U91)."""
    last: dict[tuple[str, str], Micros] = {}
    for job in jobs:
        kind, domain = str(job.get("kind")), str(job.get("domain_id"))
        if kind not in lengths or domain not in hosts or job.get("status") == "failed":
            continue
        with suppress(ValueError):
            since = min(now, instant(str(job.get("created_at"))))  # it began while this was read
            if now < since + duration(lengths[kind]):
                last[kind, domain] = max(since, last.get((kind, domain), since))
    for (kind, domain), since in sorted(last.items()):
        yield {"spend": kind, "domain": hosts[domain], "since": iso(since)}


def _clients(
    read: ReadAccount, account: str, now: Micros, recorded: TracedAccounts | None, notes: list[str]
) -> dict[str, Any]:
    """Clients that start jobs as the account did, and call as its keys were seen to."""
    jobs = starts_of(read.lists)
    clients = dict(schedules(jobs, account, _hosts(read)))
    if clients:
        notes.append(f"started by the calendar there, and so here: {', '.join(clients)}")
    calls, watched = (recorded.calls, (recorded.began, recorded.now)) if recorded else ({}, (now, now))
    seen = dict(by_chance(jobs, account, clients, (watched[0], now)))
    for key in read.keys:
        mix, instants = mixes(calls.get(key, ()))
        if each := caller(account, key, mix, instants, watched):
            seen[f"{key}-calls"] = each
    notes += [each.sentence(name) for name, each in seen.items()]
    notes += left_out(jobs, account, clients.keys() | seen.keys())
    return clients | {name: each.client for name, each in seen.items()}


def _length(clients: Mapping[str, Any], notes: list[str]) -> str:
    calls = sum(DAY // duration(client["every"]) for client in clients.values() if client["kind"] == "caller")
    if calls < BUSY:
        return LENGTH
    notes.append(
        f"its clients make {calls:,} calls a day, as they were seen to, so it lasts 1h; set its length"
    )
    return "1h"


def _receivers(read: ReadAccount, account: str, made: int, twin: MirroredWorld) -> dict[str, Any]:
    hosts, notes = _hosts(read), twin.notes
    fits = fit_receivers(read.lists.get("webhook_deliveries.list", ()))
    receivers: dict[str, Any] = {}
    for number, endpoint in enumerate(read.lists.get("webhooks.list", ()), made + 1):
        if endpoint.get("enabled") is False:
            notes.append(f"{read.name}: endpoint {endpoint.get('id')} is disabled there, and left out here")
            continue
        bound, fitted = endpoint.get("domain_id"), fits.get(str(endpoint.get("id")))
        if fitted is None:
            twin.made_up.append(f"how the receiver endpoint-{number} answers")
        else:
            notes.append(fitted.sentence(f"endpoint-{number}"))
        receivers[f"endpoint-{number}"] = {
            "account": account,
            "url": str(endpoint.get("url") or ""),
            "event_types": [str(event_type) for event_type in endpoint.get("event_types") or ()],
            **({"domain": hosts[bound]} if bound in hosts else {}),
            **({} if fitted is None else fitted.spec),
        }
    return receivers


# Small readings


def _hosts(read: ReadAccount) -> dict[str, str]:
    """The host of each domain, by its id."""
    domains = read.lists.get("domains.list", ())
    return {str(domain.get("id")): str(domain.get("host") or domain.get("id")) for domain in domains}


def _mapping(value: Any) -> Item:
    return value if isinstance(value, dict) else {}


def _natural(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise


def _money(value: Any, otherwise: str) -> str:
    """An amount as the API writes it, a number or a text such as "12.50"."""
    text = str(value)
    return text if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else otherwise
