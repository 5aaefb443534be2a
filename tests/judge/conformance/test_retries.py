"""The timeline of a delivery: numbers, delays, when it stops."""

from typing import Any

import pytest
from tests.kit.traces import (
    START,
    Entry,
    attempt,
    call,
    created,
    found,
    hook,
    judged,
    listed,
    policy_of,
)

from ranksim.core.clock import SECOND
from ranksim.core.trace import Note
from ranksim.judge.conformance.webhooks import retries

DELAYS, RETRIED, ACKNOWLEDGED = retries.DELAYS, retries.RETRIED, retries.ACKNOWLEDGED
FAILED: dict[str, Any] = {"status": 500}
LATER = 400


def retry(sent: float, number: int = 2, **more: Any) -> Entry:
    return hook(sent, attempt=number, **more)


def note(text: str, seconds: float, **more: Any) -> Entry:
    return Note.model_validate({"t": START + round(seconds * SECOND), "text": text, **more})


def timeline(*gaps: float) -> list[Entry]:
    """Fail again and again, after these gaps."""
    came, entries = 0.0, [created(), hook(0, **FAILED)]
    for number, gap in enumerate(gaps, 2):
        came += gap
        entries.append(retry(came, number, **FAILED))
    return entries


ALL = (60, 300, 1800, 7200, 21600)
DONE = call("domains.list", LATER + 1, LATER + 2, [])
ENABLED_AGAIN = [
    call("webhooks.update", n, n + 1, {"id": "whk_1"}, path={"id": "whk_1"}, body={"enabled": n > 50})
    for n in (20, 80)
]


def lasted(seconds: int, status: int | None = None) -> dict[str, Any]:
    """Write an item of the list of attempts, of one that was under way so long."""
    return {**attempt(status=status), "duration_ms": seconds * 1000}


def cut_off(*waits: float, gap: float = 20, status: int | None = None) -> list[Entry]:
    """Leave attempts after these waits, `gap` seconds apart, and list each with this status."""
    names = [f"evt_{number}" for number in range(len(waits))]
    came = [hook(n * gap, n * gap + wait, event=names[n], status=None, t=0) for n, wait in enumerate(waits)]
    return [created(), *came, listed(LATER, *(attempt(event, status=status) for event in names)), DONE]


TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "1, 2": (retries.NUMBERS, [created(), hook(0, **FAILED), retry(60)], "held"),
    "1, 3: one was lost": (retries.NUMBERS, [created(), hook(0, **FAILED), retry(360, 3)], "held"),
    "1, 1 after a minute": (retries.NUMBERS, [created(), hook(0, **FAILED), retry(60, 1)], "broken"),
    "1, 1 at once, as after a crash": (retries.NUMBERS, [created(), hook(0, **FAILED), retry(5, 1)], "open"),
    "2, 1": (retries.NUMBERS, [created(), retry(0, 2, **FAILED), retry(300, 1)], "broken"),
    "2, 1, overtaken": (retries.NUMBERS, [created(), retry(0, 2, **FAILED), retry(3, 1)], "open"),
    "six": (retries.AT_MOST, timeline(*ALL), "held"),
    "seven": (retries.AT_MOST, timeline(*ALL, 21600), "broken"),
    "on time": (DELAYS, timeline(*ALL), "held"),
    "after an answer that may be lost": (DELAYS, timeline(70), "held"),
    "after silence": (DELAYS, [created(), hook(0, status=None), retry(70)], "held"),
    "too early": (DELAYS, timeline(40), "broken"),
    "doubled": (DELAYS, timeline(120), "broken"),
    "doubled, after the receiver stalled": (DELAYS, [*timeline(120), note("receiver stalled", 90)], "open"),
    "late, as it was disabled for a while": (
        DELAYS,
        [*timeline(120), *ENABLED_AGAIN],
        "open",
    ),
    "the second doubled": (DELAYS, timeline(60, 600), "broken"),
    "added up from the first": (DELAYS, timeline(60, 300, 1500), "broken"),
    "counted from the first attempt": (
        DELAYS,
        [
            created(),
            hook(0, status=None),
            retry(70, 2, status=None),
            retry(372, 3, status=None),
            retry(2200, 4, **FAILED),
            retry(9500, 5, **FAILED),
            retry(31170, 6),
        ],
        "held",
    ),
    "of a run whose first was lost": (
        DELAYS,
        [created(), retry(0, 2, **FAILED), retry(60, 3, **FAILED)],
        "open",
    ),
    "tried again": (RETRIED, timeline(60), "held"),
    "not tried again": (
        RETRIED,
        [created(), hook(0, **FAILED), listed(LATER, attempt(status=500)), DONE],
        "broken",
    ),
    "not tried again within the run": (RETRIED, [created(), hook(0, **FAILED)], "open"),
    "tried again, and lost": (
        RETRIED,
        [
            created(),
            hook(0, **FAILED),
            listed(LATER, attempt(status=500), attempt("evt_1", 2, None)),
            DONE,
        ],
        "open",
    ),
    "not tried again, and not listed": (RETRIED, [created(), hook(0, **FAILED), DONE], "open"),
    "not tried again, and listed too early": (
        RETRIED,
        [created(), hook(0, **FAILED), listed(30, attempt(status=500)), DONE],
        "open",
    ),
    "not tried again after 410": (
        RETRIED,
        [created(), hook(0, status=410), listed(LATER, attempt(status=410)), DONE],
        "differs 71",
    ),
    "not tried again at an endpoint that was deleted": (
        RETRIED,
        [
            created(),
            hook(0, **FAILED),
            call("webhooks.delete", 1, 2, status=204, reply="", path={"id": "whk_1"}),
            listed(LATER, attempt(status=500)),
            DONE,
        ],
        "open",
    ),
    "acknowledged": (ACKNOWLEDGED, [created(), hook(0)], "held"),
    "acknowledged, listed so, and sent again": (
        ACKNOWLEDGED,
        [created(), hook(0), retry(60, **FAILED), listed(LATER, attempt())],
        "broken",
    ),
    "acknowledged, and the answer lost": (
        ACKNOWLEDGED,
        [created(), hook(0), retry(60, **FAILED), listed(LATER, attempt(status=None))],
        "open",
    ),
    "acknowledged at the last moment": (
        ACKNOWLEDGED,
        [created(), hook(0, 9.8), retry(70, **FAILED)],
        "open",
    ),
    "204 is as good": (ACKNOWLEDGED, [created(), hook(0, status=204)], "held"),
    "too late, and tried again": (retries.TIMEOUT, [created(), hook(0, 12), retry(70)], "held"),
    "silent, and tried again": (retries.TIMEOUT, [created(), hook(0, status=None), retry(70)], "held"),
    "answered late, in time, and listed so": (
        retries.TIMEOUT,
        [created(), hook(0, 8), listed(LATER, lasted(8, 200)), DONE],
        "held",
    ),
    "answered late, in time, and listed as given up": (
        retries.TIMEOUT,
        [created(), hook(0, 8), listed(LATER, lasted(5)), DONE],
        "open",
    ),
    "silent, and listed as given up in time": (
        retries.TIMEOUT,
        [created(), hook(0, status=None), listed(30, lasted(10))],
        "held",
    ),
    "silent, and listed as waited for": (
        retries.TIMEOUT,
        [created(), hook(0, status=None), listed(30, lasted(20))],
        "broken",
    ),
    "cut off early, three times": (retries.TIMEOUT, cut_off(5, 5.2, 5.1), "broken"),
    "cut off early, twice": (retries.TIMEOUT, cut_off(5, 5.2), "nothing"),
    "cut off early, after other times each": (retries.TIMEOUT, cut_off(5, 3, 7, 4.4), "nothing"),
    "cut off by a restart": (retries.TIMEOUT, cut_off(5, 5.2, 5.1, gap=0.2), "nothing"),
    "cut off early, and one waited for": (retries.TIMEOUT, cut_off(5, 5.2, 5.1, 9), "nothing"),
    "cut off by what answers between": (retries.TIMEOUT, cut_off(5, 5.2, 5.1, status=504), "nothing"),
    "cut off early, of time that runs faster": (
        retries.TIMEOUT,
        [note("clock", -60, rate=2), *cut_off(5, 5.2, 5.1)],
        "nothing",
    ),
    "silent, and given up early": (
        retries.TIMEOUT,
        [created(), hook(0, status=None), listed(30, lasted(1))],
        "nothing",
    ),
    "silent, and listed as answered": (
        retries.TIMEOUT,
        [created(), hook(0, status=None), listed(30, lasted(20, status=502))],
        "nothing",
    ),
    "too late, and taken all the same": (
        retries.TIMEOUT,
        [created(), hook(0, 12), listed(LATER, attempt()), DONE],
        "broken",
    ),
    "redirected, and tried again": (retries.REDIRECT, [created(), hook(0, status=302), retry(60)], "held"),
    "redirected, and followed": (
        retries.REDIRECT,
        [
            created(),
            call("webhooks.list", -5, -4, []),
            hook(0, status=302),
            hook(0.1, endpoint="/elsewhere"),
        ],
        "broken",
    ),
    "redirected, and at an endpoint made by a lost call": (
        retries.REDIRECT,
        [
            created(),
            call("webhooks.list", -5, -4, []),
            call("webhooks.create", -3, None, body={"url": "https://r.example/elsewhere"}),
            hook(0, status=302),
            hook(0.1, endpoint="/elsewhere"),
        ],
        "open",
    ),
    "redirected, and at an endpoint from before": (
        retries.REDIRECT,
        [created(), hook(0, status=302), hook(0.1, endpoint="/elsewhere")],
        "open",
    ),
}


@pytest.mark.fact("S81", "S87", "S88", "S89", "S90", "S93", "E24", "E26")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_retries(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(retries, entries), rule) == expected


FROM_FIRST = [
    created(),
    hook(0, status=None),
    retry(70, 2, status=None),
    retry(370, 3, status=None),
    retry(2170, 4, status=None),
    retry(9370, 5, status=None),
    retry(30970, 6),
]


def test_a_pinned_way_to_count_delays() -> None:
    """Six attempts that each take 10 s drift by 10 s each, unless delays count from the first."""
    policy = policy_of(retry_from="failure", retry_jitter_percent=0)
    assert found(judged(retries, FROM_FIRST), DELAYS) == "held"
    assert found(judged(retries, FROM_FIRST, policy), DELAYS) == "held"
    hasty = [created(), hook(0, status=None), retry(52, 2)]
    assert found(judged(retries, hasty), DELAYS) == "held"
    assert found(judged(retries, hasty, policy), DELAYS) == "broken"


def hurried(third: float, event: str) -> list[Entry]:
    """Fail three times, the second late, so that the way to count tells when the third is due."""
    came = (0, 85, third)
    return [hook(at, event=event, attempt=number, **FAILED) for number, at in enumerate(came, 1)]


@pytest.mark.fact("S90", "U67")
def test_one_way_to_count_delays_explains_all() -> None:
    """Each delivery fits one way, and no way fits both."""
    from_failure, from_first = hurried(430, "evt_1"), hurried(330, "evt_2")
    again = hook(80, event="evt_2", attempt=1, **FAILED)  # as after a crash of the sender
    for entries, expected in (
        (from_failure, "held"),
        (from_first, "differs 67"),
        (from_failure + from_first, "broken"),
        ([*from_failure, from_first[0], again, *from_first[1:]], "held"),
        ([*from_failure, *from_first, *ENABLED_AGAIN], "differs 67"),
    ):
        assert found(judged(retries, [created(), *entries]), DELAYS) == expected


@pytest.mark.parametrize(("gap", "expected"), [(1, "held"), (30, "broken")])
def test_under_scaled_time_delays_are_shorter(gap: float, expected: str) -> None:
    entries = [note("clock", -60, rate=60), *timeline(gap)]
    assert found(judged(retries, entries), DELAYS) == expected


def test_with_a_changing_pace_delays_stay_open() -> None:
    notes = [note("clock", n, business=START, rate=n + 1) for n in range(2)]
    assert found(judged(retries, [*notes, *timeline(7)]), DELAYS) == "open"


@pytest.mark.fact("S90")
@pytest.mark.parametrize(("after", "exercised"), [(3600, False), (24_000, True)])
def test_six_attempts_are_all_once_a_seventh_would_have_come(after: float, exercised: bool) -> None:
    end = sum(ALL) + after
    tally = judged(retries, [*timeline(*ALL), call("domains.list", end, end + 1, [])])
    [finding] = [one for one in tally.findings() if one.rule.name == retries.AT_MOST]
    assert [case.conforms for case in finding.cases] == [exercised]


@pytest.mark.fact("S88")
def test_patience_is_shown_by_an_answer_that_took_long_alone() -> None:
    """A sender that hangs up after 5 s tries again what was answered too late, as it should."""
    late = [created(), hook(0, 12), retry(70)]
    waited = [hook(100, 108, event="evt_2"), listed(LATER, {**lasted(8, 200), "event_id": "evt_2"})]
    hung_up = [hook(100, 108, event="evt_2"), listed(LATER, {**lasted(5), "event_id": "evt_2"})]
    for entries, verdict in ((late, "undecided"), (late + hung_up, "undecided"), (late + waited, "conforms")):
        [finding] = [one for one in judged(retries, entries).findings() if one.rule.name == retries.TIMEOUT]
        assert finding.verdict == verdict
