"""Twenty consecutive failures disable an endpoint, and a success starts anew."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.kit.traces import (
    Entry,
    an_endpoint,
    attempt,
    call,
    created,
    found,
    hook,
    judged,
    listed,
    policy_of,
)

from ranksim.bridges.rehearsal import rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.core.clock import MINUTE
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.webhooks import auto_disable
from ranksim.judge.profiles import profile

DISABLED, RESET = auto_disable.DISABLED, auto_disable.RESET


def failures(count: int, first: float = 0, status: int = 500, start: int = 0) -> list[Entry]:
    """Fail so many events, a second apart."""
    return [hook(first + n, event=f"evt_{start + n}", status=status) for n in range(count)]


def look(sent: float, enabled: bool) -> Entry:
    reading = an_endpoint(enabled=enabled, disabled_reason=None if enabled else "20 failures")
    return call("webhooks.get", sent, sent + 0.1, reading, path={"id": "whk_1"})


def told(sent: float, count: int, **answers: Any) -> Entry:
    """List so many attempts, those in `answers` otherwise."""
    return listed(sent, *(attempt(f"evt_{n}", 1, answers.get(f"evt_{n}", 500)) for n in range(count)))


OK_10 = {"evt_10": 200}

TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "at twenty": (DISABLED, [created(), *failures(20), look(25, False), told(99, 20)], "held"),
    "at nineteen": (DISABLED, [created(), *failures(19), look(25, False), told(99, 19)], "broken"),
    "at nineteen that came, and one that did not": (
        DISABLED,
        [created(), *failures(19), look(25, False), told(99, 20)],
        "held",
    ),
    "at nineteen, with no list of what did not come": (
        DISABLED,
        [created(), *failures(19), look(25, False)],
        "open",
    ),
    "at nineteen, with 410": (
        DISABLED,
        [created(), *failures(19, status=410), look(25, False), told(99, 19)],
        "differs 71",
    ),
    "not yet at nineteen": (RESET, [created(), *failures(19), look(50, True)], "nothing"),
    "not at twenty": (DISABLED, [created(), *failures(20), look(50, True)], "differs 66"),
    "not at twenty, though seen so by the deployment": (
        DISABLED,
        [created(), *failures(20), look(25, True), told(99, 20)],
        "differs 66",
    ),
    "not yet, as the last answer may be lost": (DISABLED, [created(), *failures(20), look(25, True)], "open"),
    "attempts after twenty": (
        DISABLED,
        [created(), *failures(20), *failures(1, 60, start=20)],
        "differs 66",
    ),
    "attempts under way at twenty": (
        DISABLED,
        [created(), *failures(20), *failures(1, 23, start=20)],
        "open",
    ),
    "a success in between": (
        RESET,
        [
            created(),
            *failures(10),
            hook(10, event="evt_10"),
            *failures(10, 30, start=11),
            look(60, True),
            told(99, 21, **OK_10),
        ],
        "held",
    ),
    "disabled all the same": (
        RESET,
        [
            created(),
            *failures(10),
            hook(10, event="evt_10"),
            *failures(10, 30, start=11),
            look(60, False),
            told(99, 21, **OK_10),
        ],
        "broken",
    ),
    "a success whose answer was lost": (
        DISABLED,
        [
            created(),
            *failures(10),
            hook(10, event="evt_10"),
            *failures(10, 30, start=11),
            look(60, False),
            told(99, 21, evt_10=None),
        ],
        "held",
    ),
    "a success that overlaps the last failures": (
        DISABLED,
        [created(), *failures(10), hook(5, 14, event="evt_99"), *failures(10, 10, start=10), look(90, True)],
        "open",
    ),
    "an endpoint made disabled": (
        DISABLED,
        [created(1, -10, enabled=False), *failures(3), look(25, False), told(99, 3)],
        "nothing",
    ),
    "an endpoint that was changed": (
        DISABLED,
        [
            created(),
            *failures(3),
            call("webhooks.update", 5, None, path={"id": "whk_1"}, body={"enabled": False}),
            look(25, False),
            told(99, 3),
        ],
        "nothing",
    ),
}


@pytest.mark.fact("S91", "S92", "E22", "E25")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_disabling(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(auto_disable, entries), rule) == expected


def test_counting_by_event_is_another_way() -> None:
    entries = [created(), *failures(20), look(99, True), *failures(1, 120, start=20)]
    assert found(judged(auto_disable, entries, policy_of(failure_counted="attempt")), DISABLED) == "broken"
    assert found(judged(auto_disable, entries, policy_of(failure_counted="event")), DISABLED) == "open"


def test_under_either_way_six_failed_attempts_of_twenty_events_are_enough() -> None:
    events = [hook(n, event=f"evt_{n}", attempt=6, status=500) for n in range(20)]
    assert found(judged(auto_disable, [created(), *events, look(99, True)]), DISABLED) == "broken"


def test_the_default_excluded_is_a_difference() -> None:
    sixth = [hook(40 + n, event=f"evt_{n}", attempt=6, status=500) for n in range(20)]
    entries = [created(), *failures(20), *sixth, look(99, False), told(120, 20)]
    assert found(judged(auto_disable, entries), DISABLED) == "differs 66"


def enabled(sent: float, **shown: Any) -> Entry:
    reply = an_endpoint(**{"enabled": True} | shown)
    return call("webhooks.update", sent, sent + 0.1, reply, path={"id": "whk_1"}, body={"enabled": True})


def lost(sent: float, **sets: Any) -> Entry:
    return call("webhooks.update", sent, None, path={"id": "whk_1"}, body={"enabled": True} | sets)


OFF = [created(), *failures(20), look(40, False)]
ONCE = [*failures(1, 50, start=20)]


def retried(received: float, number: int) -> Entry:
    return hook(received, event=f"evt_{number}", attempt=2, status=500)


UNDER_WAY = [hook(24 + n / 40, event=f"evt_{40 + n}", status=None) for n in range(20)]

AGAIN: dict[str, tuple[list[Entry], str, str]] = {
    # What the run holds, and what is found where the count starts at zero, and where it is kept.
    "one failure disables it": ([*OFF, enabled(45), *ONCE, look(70, False), told(99, 21)], "broken", "held"),
    "one failure does not": ([*OFF, enabled(45), *ONCE, look(70, True), told(99, 21)], "held", "broken"),
    "it got more, long after one": (
        [*OFF, enabled(45), *ONCE, *failures(1, 90, start=21)],
        "held",
        "broken",
    ),
    "it is read too soon after one": ([*OFF, enabled(45), *ONCE, look(52, True)], "held", "held"),
    "it did not fail since": ([*OFF, enabled(45), look(70, True), told(99, 20)], "held", "held"),
    "it still shows as before": ([*OFF, enabled(45), look(46, False), told(99, 20)], "held", "held"),
    "another call may have disabled it": (
        [*OFF, enabled(45), lost(48, enabled=False), *ONCE, look(70, False), told(99, 21)],
        "held",
        "held",
    ),
    "another call may have enabled it, which disables nothing": (
        [*OFF, enabled(45), lost(48), *ONCE, look(70, False), told(99, 21)],
        "broken",
        "held",
    ),
    "nobody was told that it was enabled, but it got one more": (
        [*OFF, lost(45), *ONCE, look(70, False), told(99, 21)],
        "broken",
        "held",
    ),
    "it was not": ([*OFF, enabled(45, enabled=False), look(70, False), told(99, 20)], "held", "held"),
    "more may have failed, as nothing lists": ([*OFF, enabled(45), *ONCE, look(70, False)], "held", "held"),
    "as many more are listed that did not come": (
        [*OFF, enabled(45), *ONCE, look(70, False), told(99, 45)],
        "held",
        "held",
    ),
    "twenty were under way": (
        [
            created(),
            *failures(20),
            *UNDER_WAY,
            look(31, False),
            enabled(33),
            *ONCE,
            look(70, False),
            told(99, 21),
        ],
        "held",
        "held",
    ),
    "it got more, as another call may have enabled it": (
        [*OFF, enabled(45), *ONCE, lost(70), *failures(1, 90, start=21), told(99, 22)],
        "held",
        "held",
    ),
    "a success may have set it to zero": (
        [
            created(),
            *failures(20),
            hook(21, event="evt_90"),
            look(40, False),
            enabled(45),
            *ONCE,
            look(70, True),
            told(99, 21),
        ],
        "held",
        "held",
    ),
    "410 may have disabled it": (
        [*OFF, enabled(45), *failures(1, 50, 410, start=20), look(70, False), told(99, 21)],
        "differs 71",
        "held",
    ),
}


@pytest.mark.fact("U70")
@pytest.mark.parametrize(("entries", "zero", "kept"), AGAIN.values(), ids=AGAIN)
def test_enabled_again(entries: list[Entry], zero: str, kept: str) -> None:
    for count, expected in (("zero", zero), ("kept", kept)):
        assert found(judged(auto_disable, entries, policy_of(count_on_enable=count)), DISABLED) == expected
    open_ended = "differs 70" if (zero, kept) == ("broken", "held") else "held"
    assert found(judged(auto_disable, entries), DISABLED) == open_ended


def test_neither_count_explains_five_failures() -> None:
    entries = [*OFF, enabled(45), *failures(5, 46, start=20), look(90, False), told(99, 25)]
    assert found(judged(auto_disable, entries), DISABLED) == "differs 70"
    entries = [*OFF, enabled(45), *failures(5, 46, start=20), look(80, True), *failures(1, 90, start=25)]
    tally = judged(auto_disable, [*entries, look(120, False), told(130, 26)])
    assert found(tally, DISABLED) == "broken"
    by_attempt, kept = tally.breaches()[DISABLED].says.split("; ")[:2]
    assert "at most 6 consecutive failures, counted by attempt" in by_attempt  # set to zero (U70)
    assert "shows it enabled" in kept
    assert "after one failure beyond the kept count" in kept


FIFTY = [hook(n / 5, event=f"evt_{n}", status=500) for n in range(50)]

POWER: dict[str, tuple[list[Entry], str]] = {
    # What only the run of the endpoint shows.
    "one success breaks a run of fifty at one place": (
        [created(), *FIFTY, hook(0, 9.5, event="evt_98"), look(40, True), told(99, 50)],
        "broken",
    ),
    "two break it at two": (
        [
            created(),
            *FIFTY,
            *(hook(0, 9.5, event=f"evt_{n}") for n in (98, 99)),
            look(40, True),
            told(99, 50),
        ],
        "open",
    ),
    "it was enabled again twice": (
        [
            *OFF,
            enabled(45),
            *failures(20, 50, start=20),
            look(90, False),
            enabled(95),
            *failures(3, 100, start=40),
            look(140, False),
            told(199, 43),
        ],
        "broken",
    ),
    "nothing came at all": ([created(), look(25, False), told(99, 0)], "broken"),
    "nothing came, and more than can be listed was lost": ([created(), look(25, False)], "nothing"),
}


@pytest.mark.fact("S91", "S92", "E25")
@pytest.mark.parametrize(("entries", "expected"), POWER.values(), ids=POWER)
def test_the_endpoint_is_run(entries: list[Entry], expected: str) -> None:
    pinned = policy_of(failure_counted="attempt", count_on_enable="zero")
    assert found(judged(auto_disable, entries, pinned), DISABLED) == expected


PAUSED: dict[str, tuple[list[Entry], str]] = {
    "a retry comes of before": ([*OFF, enabled(45), retried(60, 3)], "differs 69"),
    "it was sent before, perhaps": ([*OFF, enabled(41), retried(49, 3)], "held"),
    "an attempt was made again": ([*OFF, enabled(45), hook(60, event="evt_3", status=500)], "held"),
    "it may not have been noted by then": ([*OFF, enabled(45), retried(60, 19)], "held"),
    "of a later event": ([*OFF, enabled(45), *ONCE, retried(110, 20)], "held"),
    "it came before": ([created(), *failures(20), retried(30, 3), look(40, False), enabled(45)], "held"),
    "some came to nobody": (
        [
            *OFF,
            enabled(45),
            retried(60, 15),
            told(99, 26, **dict.fromkeys(map("evt_{}".format, range(26)), None)),
        ],
        "held",
    ),
}


@pytest.mark.fact("U69")
@pytest.mark.parametrize(("entries", "expected"), PAUSED.values(), ids=PAUSED)
def test_a_paused_retry(entries: list[Entry], expected: str) -> None:
    assert found(judged(auto_disable, entries), DISABLED) == expected
    assert found(judged(auto_disable, entries, policy_of(on_disable="pause")), DISABLED) == "held"
    pinned = {"differs 69": "broken"}.get(expected, expected)
    assert found(judged(auto_disable, entries, policy_of(on_disable="cancel")), DISABLED) == pinned


def test_of_shared_accounts_nothing_is_told() -> None:
    entries, _, _ = AGAIN["one failure disables it"]
    assert found(judged(auto_disable, entries, exclusive=False), DISABLED) == "nothing"


@pytest.mark.slow
@pytest.mark.fact("U69", "U70")
@pytest.mark.parametrize(
    ("count", "on_disable", "differing"),
    [
        ("zero", "cancel", {}),
        ("zero", "pause", {69: "pause"}),
        ("kept", "cancel", {70: "kept"}),
        ("kept", "pause", {70: "kept"}),  # what was paused stays so, as one failure disables it
    ],
)
def test_a_run_tells_which_it_is(count: str, on_disable: str, differing: dict[int, str]) -> None:
    policy = compact(policy_of(count_on_enable=count, on_disable=on_disable))
    service, target = make_world(policy, seed=1)
    trace = rehearse(profile("endpoints"), service, target, duration=4 * MINUTE, seed=3)
    found = calibrate(trace)
    assert found.choice("count_on_enable").left == (count,)
    assert on_disable in found.choice("on_disable").left
    assert {one.number: one.found for one in found.differences if one.number in (66, 69, 70)} == differing


@pytest.mark.fact("S91", "U66")
def test_one_reading_explains_all_endpoints() -> None:
    """One endpoint counts attempts, the other deliveries; the policy leaves open which is right."""
    second = [
        hook(n, event=f"evt_{100 + n}", status=500, endpoint="/hooks/2") for n in range(20)
    ]  # enough, if attempts count
    reading = call("webhooks.get", 90, 90.1, an_endpoint(2), path={"id": "whk_2"})
    by_attempt = [created(), *failures(20), look(40, False)]
    by_delivery = [created(2), *second, reading]
    every = [attempt(f"evt_{n}", 1, 500) for n in range(20)]
    every += [attempt(f"evt_{100 + n}", 1, 500, "whk_2") for n in range(20)]
    assert found(judged(auto_disable, [*by_attempt, told(99, 20)]), DISABLED) == "held"
    assert found(judged(auto_disable, [*by_delivery, listed(99, *every[20:])]), DISABLED) == "differs 66"
    assert found(judged(auto_disable, [*by_attempt, *by_delivery, listed(99, *every)]), DISABLED) == "broken"


@pytest.mark.parametrize("failing", [1.0, 0.9, 0.5, 0.1])
def test_many_attempts_at_once_are_judged_or_stay_open(
    failing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five thousand attempts, a hundred a second, take few steps of the model, whatever they ended as."""
    draw, steps = Random("many"), Counter[str]()

    def counted(model: auto_disable.EndpointModel, state: auto_disable.Standing, call: Any) -> Any:
        steps["taken"] += 1
        return taken(model, state, call)

    taken = auto_disable.EndpointModel.step
    monkeypatch.setattr(auto_disable.EndpointModel, "step", counted)
    statuses = {f"evt_{n}": 500 if draw.random() < failing else 200 for n in range(5000)}
    came = [hook(int(name[4:]) / 100, event=name, status=status) for name, status in statuses.items()]
    entries = [created(), *came, look(90, False), told(199, 5000, **statuses)]
    assert found(judged(auto_disable, entries, policy_of(failure_counted="attempt")), DISABLED) in (
        "broken" if failing == 1 else "open",
    )
    assert steps["taken"] < 20_000
