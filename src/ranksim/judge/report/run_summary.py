"""What a run used up and left there, and what a check did beside its judgement, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ranksim.report import units

if TYPE_CHECKING:
    from ranksim.judge.profiles.profile import Needs

Plain = Mapping[str, Any]

OTHERS = ", with what others spent there"
"""What readings of accounts show that somebody else uses meanwhile."""

SHOWN_IDS = 3
"""Ids shown of each group of things that are left."""


def amounts(needs: Sequence[Needs]) -> str:
    """Return what runs use up together, such as "2 jobs, 1 slot"; "" for nothing."""
    totals = (
        (sum(need.jobs for need in needs), "job"),
        (sum(need.briefs for need in needs), "keyword brief"),
        (sum(need.slots for need in needs), "slot"),
    )
    return ", ".join(units.many(number, noun) for number, noun in totals if number)


def cap_passed(accounts: Sequence[Plain], cap: int | None, *, exclusive: bool) -> list[str]:
    """Return a line that says by how much a cap (µUSD) was passed, or none.

    Each account has its `account`, what it `spent`, its `height` (both µUSD) and what is `unread`;
    `exclusive` says that nobody else spent there.
    """
    height, spent = (sum(account[name] for account in accounts) for name in ("height", "spent"))
    if cap is None or height <= cap:
        return []
    reserved = f", {units.usd(height)} at the height with what was reserved" if height > spent else ""
    passed = "was passed" if exclusive else "may have been passed"
    others = "" if exclusive else OTHERS
    return [f"the spend cap of {units.usd(cap)} {passed}: {units.usd(spent)} spent{reserved}{others}"]


def spent_lines(accounts: Sequence[Plain], *, exclusive: bool) -> list[str]:
    """Return what was spent in all, by account where there are several, and what could not be read."""
    if not accounts:
        return ["spent nothing: nothing was called that can spend"]
    read = [account for account in accounts if not account["unread"] or account["spent"] or account["height"]]
    unread = [account for account in accounts if account["unread"]]
    line = "what was spent is not known"
    if read:
        each = ", ".join(f"{account['account']} {units.usd(account['spent'])}" for account in read)
        total = units.usd(sum(account["spent"] for account in read))
        by = "by usage before and after" + ("" if exclusive else OTHERS)
        line = f"spent {'at least ' if unread else ''}{total} {by}" + (f": {each}" if len(read) > 1 else "")
    reasons = (f"not all that {part['account']} spent is known: {part['unread']}" for part in unread)
    return [line, *reasons]


def left_lines(groups: Sequence[Plain], most: int = SHOWN_IDS) -> list[str]:
    """Return a line for each group: its `kind`, the `key` that sees it, `why` it is left, and its `ids`."""
    lines = []
    for group in groups:
        kind, ids = str(group["kind"]).replace("_", " "), group["ids"]
        where = f"with the key {group['key']}"
        if not ids:
            lines.append(f"{kind} {where} may be left: {group['why']}")
            continue
        more = f" and {units.count(len(ids) - most)} more" if len(ids) > most else ""
        counted = units.many(len(ids), kind.removesuffix("s"))
        lines.append(f"{counted} {where}: {group['why']} ({', '.join(ids[:most])}{more})")
    return lines


# A check


def check_of(judgement: Plain) -> Plain | None:
    """Return what a check did, or None where the judgement is of traces alone."""
    check: Plain | None = judgement.get("check")
    return check


def why_open(judgement: Plain, rule: Plain) -> str:
    """Return why a check did not decide a rule, and what it waits for; "" where no check tells."""
    check = check_of(judgement)
    if check is None or rule["verdict"] not in ("undecided", "not exercised"):
        return ""
    is_wanted = rule["name"] in check["rules"] or rule["verdict"] == "undecided"
    return str(check["undecided"].get(rule["name"], "" if is_wanted else "it was not asked for"))


def decided_line(check: Plain) -> str:
    """Return in a sentence how much was decided of what was asked for, and what that took."""
    rules = len(check["rules"])
    spent = "; ".join(spent_lines(check["accounts"], exclusive=check["exclusive"]))
    return (
        f"checked: {rules - len(check['undecided'])} of {units.many(rules, 'rule')} asked for decided by "
        f"{units.many(check['calls'], 'call')} of tasks, in {units.duration(check['took'])} of --time "
        f"{units.duration(check['time'])}; {spent}"
    )


def overspent(check: Plain) -> list[str]:
    """Return what stands before everything else: that more was spent than was allowed."""
    return cap_passed(check["accounts"], check["spend_cap"], exclusive=check["exclusive"])


def by_reason(undecided: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each reason with the rules that it keeps open."""
    rules: dict[str, list[str]] = defaultdict(list)
    for rule, why in undecided.items():
        rules[why].append(rule)
    return [(why, ", ".join(names)) for why, names in rules.items()]
