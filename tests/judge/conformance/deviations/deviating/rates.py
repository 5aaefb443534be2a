"""Deviations of rate limits and their headers (S102-S107)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from deviating.kit import SECOND, Deviation, Headers, Patch, header, without
from ranksim.core.contract.facts import RateClass
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window
from ranksim.core.service import administration, rate_limits, service, traffic
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context
from ranksim.core.service.state import Key

LIMITS = {RateClass.READ: 600, RateClass.WRITE: 120, RateClass.EXPENSIVE: 20}

BURSTS = ("burst", "windows", "calibration")


def _shaped(patch: Patch, shape: Callable[[Window, RateClass], None]) -> None:
    """Make every rate window of another shape, and have replies state the right one."""
    new_window, show, problem = administration.new_window, rate_limits.write_standing, rate_limits.problem
    stated: dict[int, int] = {}

    def shaped(ctx: Context, rate_class: RateClass) -> tuple[Window, list[int]]:
        window, ring = new_window(ctx, rate_class)
        right = window.limit
        shape(window, rate_class)
        stated[window.limit] = right
        windows.start(window)
        return window, [0] * window.limit if ring else []

    def shown(ctx: Context, window: Window, left: int, reset: int, now: int, headers: Headers) -> None:
        show(ctx, window, left, reset, now, headers)
        headers["RateLimit-Limit"] = str(stated[window.limit])

    def limited(policy: Any, code: str, detail: str, meta: Any = None, **further: Any) -> Reply:
        if code == "rate_limited":
            meta = meta | {"limit": stated[meta["limit"]], "window_seconds": 60}
        return problem(policy, code, detail, meta, **further)

    for module in (administration, rate_limits):
        patch.setattr(module, "new_window", shaped)
    patch.setattr(rate_limits, "write_standing", shown)
    patch.setattr(rate_limits, "problem", limited)


def limit(rate_class: RateClass, by: int) -> Callable[[Patch], None]:
    """Admit so many more than is stated."""

    def shape(window: Window, which: RateClass) -> None:
        window.limit += by * (which == rate_class)

    return lambda patch: _shaped(patch, shape)


def length(seconds: int) -> Callable[[Patch], None]:
    """Have windows of another length."""

    def shape(window: Window, which: RateClass) -> None:
        window.length = seconds * SECOND

    return lambda patch: _shaped(patch, shape)


def _charged(patch: Patch, change: Callable[[Context, Key, Sequence[RateClass]], Any]) -> None:
    """Charge another key or other classes."""
    charge_key = rate_limits.charge_key

    def charged(
        ctx: Context, key: Key, classes: Sequence[RateClass], now: int, headers: Headers, **further: Any
    ) -> Reply | None:
        key, classes = change(ctx, key, classes)
        return charge_key(ctx, key, classes, now, headers, **further)

    patch.setattr(service, "charged_classes", lambda policy: {})  # no request goes the short way
    patch.setattr(traffic, "charge_key", charged)


def per_account(patch: Patch) -> None:
    """Let the keys of an account share their windows."""
    _charged(
        patch,
        lambda ctx, key, classes: (
            next(one for one in ctx.state.keys.values() if one.account == key.account),
            classes,
        ),
    )


def expensive_as_write(patch: Patch) -> None:
    """Count expensive calls as writes."""
    _charged(patch, lambda ctx, key, classes: (key, [min(one, RateClass.WRITE) for one in classes]))


def at_random(patch: Patch) -> None:
    """Refuse a call now and then although there is room."""
    charge_key, number = rate_limits.charge_key, count(1)

    def charged(
        ctx: Context, key: Key, classes: Sequence[RateClass], now: int, headers: Headers, **further: Any
    ) -> Reply | None:
        if next(number) % 97:
            return charge_key(ctx, key, classes, now, headers, **further)
        which = classes[0]
        window, ring = key.windows[which], key.rings[which]
        if not windows.remaining(now, window, ring):
            return charge_key(ctx, key, classes, now, headers, **further)
        wait = windows.reset_after(now, window, ring)
        return rate_limits._refuse(ctx, window, ring, which.label, now, wait, headers)

    patch.setattr(service, "charged_classes", lambda policy: {})  # no request goes the short way
    patch.setattr(traffic, "charge_key", charged)


def uncounted(patch: Patch) -> None:
    """Have Remaining go down by tens, as one that counts in batches does."""
    show = rate_limits.write_standing

    def shown(ctx: Context, window: Window, left: int, reset: int, now: int, headers: Headers) -> None:
        show(ctx, window, left, reset, now, headers)
        headers["RateLimit-Remaining"] = str(-(-int(headers["RateLimit-Remaining"]) // 10) * 10)

    patch.setattr(rate_limits, "write_standing", shown)


RATES = (
    *(
        Deviation(f"limit-{name}-{LIMITS[which] + by}", (fact,), BURSTS, limit(which, by))
        for which, name, fact in (
            (RateClass.READ, "read", 102),
            (RateClass.WRITE, "write", 103),
            (RateClass.EXPENSIVE, "expensive", 104),
        )
        for by in (-1, 1)
    ),
    Deviation("window-59s", (102, 103, 104), BURSTS, length(59)),
    Deviation("window-61s", (102, 103, 104), BURSTS, length(61)),
    Deviation(
        "refused-calls-counted",
        (102, 103, 104),
        BURSTS,
        chooses={"refused_calls_count": True},
        pinned={"refused_calls_count": False, "window": "first_hit"},
    ),
    Deviation("windows-per-account", (102, 103, 104), ("burst", "calibration", "scope"), per_account),
    Deviation("expensive-counted-as-write", (104,), ("everyday", "burst"), expensive_as_write),
    Deviation("rate-limited-at-random", (106,), ("burst", "everyday"), at_random),
    Deviation(
        "remaining-one-too-many",
        (105,),
        ("everyday", "burst"),
        alter=header("ratelimit-remaining", lambda value: str(int(value) + 1)),
    ),
    Deviation(
        "remaining-one-too-few",
        (105,),
        ("everyday", "burst"),
        alter=header("ratelimit-remaining", lambda value: str(max(0, int(value) - 1))),
    ),
    Deviation("remaining-in-tens", (105,), ("everyday", "burst"), uncounted),
    Deviation(
        "reset-in-milliseconds",
        (105,),
        ("everyday", "burst"),
        alter=header("ratelimit-reset", lambda value: value + "000"),
    ),
    Deviation("no-ratelimit-limit", (105,), ("everyday",), alter=without("ratelimit-limit")),
    Deviation("no-ratelimit-remaining", (105,), ("everyday",), alter=without("ratelimit-remaining")),
    Deviation("no-ratelimit-reset", (105,), ("everyday",), alter=without("ratelimit-reset")),
    Deviation("no-retry-after", (100,), ("burst",), alter=without("retry-after")),
    Deviation(
        "retry-after-too-short",
        (100,),
        ("burst",),
        alter=header("retry-after", lambda value: str(max(1, int(value) // 3))),
    ),
)
