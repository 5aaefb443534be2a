"""What a run spent, in sentences, by the readings of each account; a cap that was passed is said first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ranksim.report import units

Plain = Mapping[str, Any]


OTHERS = ", with what others spent there"
"""What readings of accounts show that somebody else uses meanwhile."""


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
    read = [account for account in accounts if not account["unread"] or account["spent"] or account["height"]]
    if not accounts:
        return ["spent nothing: nothing was called that can spend"]
    if not read:
        lines = ["what was spent is not known"]
    else:
        each = ", ".join(f"{account['account']} {units.usd(account['spent'])}" for account in read)
        least = "at least " if any(account["unread"] for account in accounts) else ""
        total = units.usd(sum(account["spent"] for account in read))
        by = "by usage before and after" + ("" if exclusive else OTHERS)
        lines = [f"spent {least}{total} {by}" + (f": {each}" if len(read) > 1 else "")]
    return lines + [
        f"not all that {account['account']} spent is known: {account['unread']}"
        for account in accounts
        if account["unread"]
    ]
