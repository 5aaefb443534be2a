"""How an account stands at an instant, as plain data for whoever shows it; nothing is changed."""

from typing import Any

from typing_extensions import TypedDict

from ranksim.core.clock import SECOND, iso, month_end, week_end
from ranksim.core.contract.policy import Policy
from ranksim.core.rules import admission, windows
from ranksim.core.rules.books import Meter, Terms
from ranksim.core.rules.terms import terms_of
from ranksim.core.service.spend_decision import usd
from ranksim.core.service.state import Account, Key, State
from ranksim.core.service.window_table import key_windows

Shown = dict[str, Any]


class AccountHead(TypedDict):
    """Which account it is, and what it has been sold."""

    id: str
    name: str
    environment: str
    plan: str
    status: str
    add_ons: dict[str, int]


def head_of(account: Account) -> AccountHead:
    """Return what an account is, as whatever shows one begins."""
    return {
        "id": account.id,
        "name": account.name,
        "environment": account.environment,
        "plan": account.plan,
        "status": account.status,
        "add_ons": dict(account.add_ons),
    }


def standing_of(
    state: State, policy: Policy, account: Account, keys: list[Key], now: int, traffic_now: int
) -> Shown:
    """Return plan, status, slots, spend, quotas, cooldowns under way, and the windows of some of its keys.

    Instants are µs since the epoch; rate windows are read at `traffic_now`.
    """
    books, terms = account.books, terms_of(policy)
    resets = iso(books.month_ends if now < books.month_ends else month_end(books.anchor, now))
    return {
        **head_of(account),
        "slots": {
            "active": books.active,
            "held": admission.held_at(now, books),
            "limit": books.slot_limit,
            "resets_at": resets,
        },
        "cost": {
            "settled": usd(admission.settled_at(now, books)),
            "reserved": usd(admission.reserved_at(now, books)),
            "spent": usd(admission.spent_at(now, books, terms)),
            "ceiling": usd(books.ceiling),
            "resets_at": resets,
        },
        "quotas": [_quota(account, name, meter, now, terms) for name, meter in account.meters.items()],
        "cooldowns": _cooldowns(state, account, now),
        "keys": [_key(policy, state, key, traffic_now) for key in keys],
    }


def _quota(account: Account, name: str, meter: Meter, now: int, terms: Terms) -> Shown:
    weekly = meter.period == admission.WEEK
    ends = meter.ends
    if now >= ends:
        ends = week_end(now, terms.week_offset) if weekly else month_end(account.books.anchor, now)
    return {
        "metric": name,
        "used": admission.used_at(now, meter),
        "limit": meter.limit,
        "period": "week" if weekly else "month",
        "resets_at": iso(ends),
    }


def _cooldowns(state: State, account: Account, now: int) -> list[Shown]:
    under_way = []
    for name, cooldown in account.cooldowns.items():
        owner, _, spend = name.partition("/")
        free_at = cooldown.since + cooldown.length
        if now < free_at:
            domain = state.domains.get(owner)
            host = None if domain is None else domain.host
            under_way.append({"domain_id": owner, "host": host, "spend": spend, "free_at": iso(free_at)})
    return under_way


def _key(policy: Policy, state: State, key: Key, now: int) -> Shown:
    views = []
    for name, window, ring in key_windows(policy, state, key):
        left, reset = windows.standing(now, window, ring)
        views.append(
            {
                "class": name,
                "limit": window.limit,
                "remaining": left,
                "resets_in_micros": reset,
                "seconds": window.length // SECOND,
            }
        )
    return {"key": key.token, "name": key.name, "domain_id": key.domain, "windows": views}
