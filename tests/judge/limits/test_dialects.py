"""Headers of rate limits, as many APIs write them, read as one."""

from __future__ import annotations

import pytest

from ranksim.core.clock import MINUTE, SECOND
from ranksim.judge.limits.dialects import Wait, read_headers

DRAFT_8 = {
    "RateLimit": '"20-in-2sec"; r=19; t=2',
    "RateLimit-Policy": '"20-in-2sec"; q=20; w=2; pk=:YWJjZA==:',
}


@pytest.mark.parametrize(
    ("headers", "limit", "length", "remaining", "reset"),
    [
        (DRAFT_8, 20, 2 * SECOND, 19, Wait("seconds", 2)),
        ({"ratelimit": '"a";r=5;t=9, "b";r=3;t=4'}, None, None, 3, Wait("seconds", 4)),
        (
            {"RateLimit": "limit=20, remaining=7, reset=2", "RateLimit-Policy": "20;w=2"},
            20,
            2 * SECOND,
            7,
            Wait("seconds", 2),
        ),
        (
            {"RateLimit-Limit": "100, 100;w=60", "RateLimit-Remaining": "3", "RateLimit-Reset": "1"},
            100,
            MINUTE,
            3,
            Wait("seconds", 1.0),
        ),
        (
            {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1372700873"},
            60,
            None,
            0,
            Wait("epoch", instant=1_372_700_873 * SECOND),
        ),
        (
            {"x-rate-limit-limit": "5", "x-rate-limit-remaining": "4", "x-rate-limit-reset": "1372700873123"},
            5,
            None,
            4,
            Wait("epoch-ms", instant=1_372_700_873_123_000),
        ),
        (
            {"X-RateLimit-Limit": "5", "X-RateLimit-Reset": "Wed, 21 Oct 2015 07:28:00 GMT"},
            5,
            None,
            None,
            Wait("date", instant=1_445_412_480 * SECOND),
        ),
        ({"RateLimit": "??", "X-RateLimit-Limit": "many"}, None, None, None, Wait()),
        ({}, None, None, None, Wait()),
    ],
)
def test_dialects(
    headers: dict[str, str], limit: int | None, length: int | None, remaining: int | None, reset: Wait
) -> None:
    stated = read_headers(headers)
    assert (stated.limit, stated.length, stated.remaining, stated.reset) == (limit, length, remaining, reset)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("2", Wait("seconds", 2.0)),
        ("0.5", Wait("seconds", 0.5)),
        ("Wed, 21 Oct 2015 07:28:00 GMT", Wait("date", instant=1_445_412_480 * SECOND)),
        ("soon", Wait()),
        ("-3", Wait()),
    ],
)
def test_retry_after(text: str, wait: Wait) -> None:
    assert read_headers({"Retry-After": text}).retry_after == wait
