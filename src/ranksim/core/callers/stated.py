"""The accounts of a service as a scenario states them: plans, keys, portfolios, what is used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from ranksim.core.callers.portfolio import (
    AccountSpec,
    CallsSpec,
    CooldownSpec,
    GeographySpec,
    KeySpec,
    ListSpec,
    SiteScanSpec,
    SiteSpec,
    UsedSpec,
)
from ranksim.core.clock import DAY, Micros, format_duration, iso
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules import admission, windows
from ranksim.core.rules.terms import terms_of
from ranksim.core.service.state import Account, Domain, Key, Scan, State
from ranksim.core.service.window_table import GRAPHQL, key_windows

LENGTH = 30 * DAY
"""How long the scenario of a world lasts that nobody limits."""

NOT_IN_IT = (
    "As a served world stood at the start. Not in it: jobs and their results, keyword briefs, events, "
    "deliveries, which keyword has which label, calls that no window counts for a key alone, keys of "
    "deleted domains, instants of creation; what jobs under way reserve is spent."
)
"""What an export says of itself."""


def stated_scenario(
    state: State,
    policy: Policy,
    now: Micros,
    faults: Iterable[Mapping[str, Any]] = (),
    traffic: Micros | None = None,
) -> dict[str, Any]:
    """Return, as JSON, a scenario whose world begins as a service stands at an instant.

    It states accounts, keys with tokens and calls in windows, which read `traffic` (µs) where that is not
    `now`, domains, lists, keywords, labels, competitors, scans, endpoints with secrets, by their ids, what is
    used, and `faults`. What it leaves out, its description says. Raises BadInput for what no scenario states.
    """
    names = _unique({id: account.name for id, account in state.accounts.items()})
    ahead = 0 if traffic is None else traffic - now
    accounts = {
        name: _account(state, policy, state.accounts[id], now, ahead).model_dump(
            mode="json", exclude_defaults=True
        )
        for id, name in names.items()
    }
    receivers, disabled = {}, []
    for id, endpoint in state.endpoints.items():
        receivers[id] = {
            "id": id,
            "account": names[endpoint.account],
            "domain": None if endpoint.domain is None else state.domains[endpoint.domain].host,
            "event_types": endpoint.event_types,
            "url": endpoint.url,
            "secret": endpoint.secret,
        }
        if not endpoint.enabled:
            off = {"at": iso(now), "do": "edit_endpoint", "receiver": id, "enabled": False}
            disabled.append(off)
    stated = {"policy": policy.model_dump(mode="json")} if policy != Policy() else {}
    return {
        "scenario": 1,
        "description": NOT_IN_IT,
        "start": iso(now),
        "length": format_duration(LENGTH),
        "seed": state.seed,
        **stated,
        "accounts": accounts,
        "receivers": receivers,
        "timeline": disabled,
        "faults": list(faults),
    }


def _account(state: State, policy: Policy, account: Account, now: Micros, ahead: Micros) -> AccountSpec:
    domains = [state.domains[id] for id in account.domains]
    hosts = [domain.host for domain in domains]
    for place, host in enumerate(hosts):
        if host in hosts[:place]:
            raise BadInput(
                f"account {account.name!r}: has two domains of host {host}, which no scenario states"
            )
    if account.books.active > account.books.slot_limit:
        raise BadInput(
            f"account {account.name!r}: uses more slots than its plan has, which no scenario states"
        )
    keys = {
        key.token: key
        for key in state.keys.values()
        if key.account == account.id and not key.withdrawn and key.domain in (None, *account.domains)
    }
    named = _unique({token: key.name for token, key in keys.items()})
    of = {id: domain.host for id, domain in state.domains.items()}
    return AccountSpec(
        plan=account.plan,
        id=account.id,
        status=account.status,
        anchor=account.books.anchor,
        add_ons={name: number for name, number in account.add_ons.items() if number},
        environment="sandbox" if account.environment == "sandbox" else "production",
        keys=tuple(
            KeySpec(
                name=named[token],
                token=token,
                domain=None if key.domain is None else of[key.domain],
                calls=_calls(policy, state, key, now, ahead),
            )
            for token, key in keys.items()
        ),
        sites=tuple(_sites(state, account, domains)),
        used=_used(state, policy, account, now),
    )


def _calls(policy: Policy, state: State, key: Key, now: Micros, ahead: Micros) -> tuple[CallsSpec, ...]:
    """Return the calls that a key's windows count, at instants of a clock that traffic is ahead of."""
    return tuple(
        CallsSpec.model_validate(
            {
                "of": name.removesuffix(GRAPHQL),
                "count": count,
                "at": at - ahead,
                "graphql": name.endswith(GRAPHQL),
            }
        )
        for name, window, ring in key_windows(policy, state, key)
        for at, count in windows.counted_calls(now + ahead, window, ring).items()
    )


def _used(state: State, policy: Policy, account: Account, now: Micros) -> UsedSpec:
    quotas, cooldowns = policy.catalogue.plans[account.plan].quotas, []
    for name, row in account.cooldowns.items():
        owner, _, spend = name.partition("/")
        domain = state.domains.get(owner if owner != "account" else next(iter(account.domains), ""))
        if domain is not None and row.since <= now < row.since + row.length:
            cooling = {"spend": spend, "domain": domain.host, "since": row.since}
            cooldowns.append(CooldownSpec.model_validate(cooling))
    return UsedSpec(
        metrics={metric: admission.used_at(now, account.meters[metric]) for metric in quotas},
        spent=admission.spent_at(now, account.books, terms_of(policy)),
        held=admission.held_at(now, account.books),
        cooldowns=tuple(cooldowns),
    )


def _sites(state: State, account: Account, domains: Iterable[Domain]) -> list[SiteSpec]:
    """State each domain by itself."""
    lists = _by_domain(state.keyword_lists, account.keyword_lists)
    scans = _by_domain(state.scans, account.scans)
    labels, competitors = (
        _by_domain(state.labels, account.labels),
        _by_domain(state.competitors, account.competitors),
    )
    made = []
    for domain in domains:
        names = _unique({each.id: each.name for each in lists[domain.id]})
        stated = [
            ListSpec(
                name=names[each.id], keywords=tuple(state.keywords[id].text for id in each.words.values())
            )
            for each in lists[domain.id]
        ]
        made.append(
            SiteSpec(
                host=domain.host,
                id=domain.id,
                lists=tuple(stated),
                scans=tuple(
                    _scan(scan, names) for scan in scans[domain.id] if names.keys() & set(scan.lists)
                ),
                labels=tuple(each.name for each in labels[domain.id]),
                competitors=tuple(each.host for each in competitors[domain.id]),
            )
        )
    return made


def _scan(scan: Scan, names: Mapping[str, str]) -> SiteScanSpec:
    places = []
    for text in scan.geographies:
        country, location, language = text.split("/")
        places.append(GeographySpec(country=country, location_id=location or None, language=language or None))
    return SiteScanSpec(
        name=scan.name,
        lists=tuple(names[id] for id in scan.lists if id in names),
        engine_devices=tuple(scan.engine_devices),
        geographies=tuple(places),
        active=scan.active,
    )


def _by_domain(table: Mapping[str, Any], ids: Iterable[str]) -> defaultdict[str, list[Any]]:
    grouped: defaultdict[str, list[Any]] = defaultdict(list)
    for id in ids:
        grouped[table[id].domain].append(table[id])
    return grouped


def _unique(names: Mapping[str, str]) -> dict[str, str]:
    """Return names with a number behind those that others have too."""
    made, taken = {}, set[str]()
    for id, name in names.items():
        numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
        made[id] = next(each for each in numbered if each not in taken)
        taken.add(made[id])
    return made
