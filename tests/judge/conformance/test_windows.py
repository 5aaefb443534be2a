"""Rate windows: no false alarm on any algorithm, and limits or lengths that are off are found."""

import random
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from ranksim.core.clock import DAY, DISTANT_FUTURE, MINUTE, SECOND
from ranksim.core.contract.facts import RateClass
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Header, TraceKey
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import ObservationDetail
from ranksim.judge.conformance.history.spill_file import SpillFile
from ranksim.judge.conformance.judging import judge_history
from ranksim.judge.conformance.rate.headers import HeaderJudge
from ranksim.judge.conformance.rate.windows import WindowJudge
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Verdict, merged_differences

READ, WRITE, EXPENSIVE = RateClass.READ, RateClass.WRITE, RateClass.EXPENSIVE
KINDS = ("first_hit", "clock", "sliding_log", "sliding_counter", "gcra")


class Judged:
    """The findings of the window rules on a history."""

    def __init__(self, history: History, **assumptions: Any) -> None:
        policy = Policy().replace(assumptions=assumptions) if assumptions else None
        judges = [make(Options.of(policy)) for make in (WindowJudge, HeaderJudge)]
        judge_history(history, judges)
        tallies = [judge.tally for judge in judges]
        self.findings = {found.rule.name: found for tally in tallies for found in tally.findings()}
        self.differences = {one.number: one for one in merged_differences(tallies)}

    def __getitem__(self, rule: str) -> str:
        return str(self.findings[rule].verdict)

    @property
    def deviating(self) -> dict[str, str]:
        return {
            name: finding.evidence[0].says
            for name, finding in self.findings.items()
            if finding.verdict == Verdict.DEVIATES
        }


def seconds(
    limiters: ModuleType, *at: float, rate_class: RateClass = EXPENSIVE, key: str = "main"
) -> list[Any]:
    """Calls at these seconds after the start, each taking effect after 10 ms and answered after 20 ms."""
    return [
        limiters.Sent(
            limiters.START + round(one * SECOND),
            limiters.START + round(one * SECOND) + 10_000,
            limiters.START + round(one * SECOND) + 20_000,
            rate_class,
            key,
        )
        for one in at
    ]


def later(limiters: ModuleType, limiter: Any, calls: list[Any], by: int) -> History:
    """The history of these calls made so much later."""
    moved = [
        replace(one, sent=one.sent + by, effect=one.effect + by, received=one.received and one.received + by)
        for one in calls
    ]
    found: History = limiters.history(limiter, moved)
    return found


def resumed(first: History, second: History) -> Judged:
    """Judge the first history, let its windows be forgotten, and go on with the second."""
    judge = WindowJudge(Options.of())
    for history in (first, second):
        for seen in history.seen:
            judge.see(seen)
        judge.settle(history.seen[-1].sent + DAY, first.run)
        assert not judge.logs
    judged = Judged(History(first.run, []))
    judged.findings |= {found.rule.name: found for found in judge.tally.findings()}
    return judged


# No false alarms


@pytest.mark.fact("S102", "S103", "S104", "S105", "S106", "U1", "U3", "U4", "U5", "U8", "U88")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_no_false_alarm(limiters: ModuleType, kind: str, seed: int) -> None:
    """Any algorithm and variant, one to 200 users, 0.3 to 400 ms, lost replies, a used window before."""
    rng = random.Random(f"{kind} {seed}")
    for refused_count in (False, True):
        rate_class = rng.choice((EXPENSIVE, WRITE))
        network = limiters.Network(rng, rng.choice((300, 20_000, 400_000)), rng.choice((0, 0.02)))
        limiter = limiters.Limiter(
            kind,
            refused_count,
            full_reset=rng.random() < 0.5,
            debits_write=rng.random() < 0.3,
            rounds=rng.choice(("ceil", "ceil", "floor", "round")),
        )
        for _ in range(rng.choice((0, 0, 10))):
            limiter.call(network.send(limiters.START - 30 * SECOND, rate_class))
        if rng.random() < 0.5:
            calls = network.burst(rate_class, rng.choice((1, 20, 200)))
        else:
            calls = network.steady(rate_class, rng.choice((0.7, 1, 3)))
        if limiter.debits_write:
            calls += network.steady(EXPENSIVE if rate_class == WRITE else WRITE, 0.9)
        exclusive, headers = rng.random() < 0.9, rng.random() < 0.7
        history = limiters.history(limiter, calls, exclusive=exclusive, headers=headers)
        judged = Judged(history)
        deviating = {
            rule: says for rule, says in judged.deviating.items() if rule != "rate.headers" or headers
        }
        if not headers:
            deviating.pop("rate.retry_after", None)
        assert deviating == {}, f"seed {kind} {seed}, {limiter}"
        truth = {1: kind, 3: str(limiter.debits_write), 4: str(refused_count)}
        for number in {1, 3, 4} & set(judged.differences):
            assert truth[number] in judged.differences[number].found.split(" or "), f"seed {kind} {seed}"


@pytest.mark.parametrize("refused_count", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_false_alarm_once_windows_were_forgotten(
    limiters: ModuleType, kind: str, refused_count: bool
) -> None:
    for users, loss in ((20, 0.02), (1, 0)):
        network = limiters.Network(random.Random(kind), loss=loss)
        limiter, calls = limiters.Limiter(kind, refused_count), network.burst(EXPENSIVE, users)
        first = later(limiters, limiter, calls, 0)
        judged = resumed(first, later(limiters, limiter, calls, 3 * DAY))
        assert judged.deviating == {}
    assert judged["rate.expensive"] == "conforms"


@pytest.mark.fact("S102", "S103", "S104", "U1", "U4")
@pytest.mark.parametrize(
    ("beyond", "side"), [(1, "no more"), (2, "no more"), (-1, "no fewer"), (-3, "no fewer")]
)
@pytest.mark.parametrize("kind", KINDS)
def test_no_limit_is_pinned_on_the_side_on_which_it_is_another(
    limiters: ModuleType, kind: str, beyond: int, side: str
) -> None:
    """Another algorithm, a lost call or an unlucky moment may explain it; then it does not conform."""
    for users, loss in ((1, 0), (3, 0), (20, 0.02)):
        for refused_count in (False, True):
            network = limiters.Network(random.Random(f"{kind} {users}"), loss=loss)
            limiter = limiters.Limiter(kind, refused_count, beyond=beyond)
            found = Judged(limiters.history(limiter, network.burst(EXPENSIVE, users))).findings[
                "rate.expensive"
            ]
            conforming = [case.name for case in found.cases if case.conforms]
            assert f"key main, {side}" not in conforming


def test_an_algorithm_that_was_excluded_stays_so_once_windows_were_forgotten(limiters: ModuleType) -> None:
    """Either day can be explained, but by no one algorithm."""
    calls = limiters.Network(random.Random(1)).burst(EXPENSIVE)
    first, second = (
        later(limiters, limiters.Limiter(kind), calls, by)
        for kind, by in (("gcra", 0), ("first_hit", 3 * DAY))
    )
    assert Judged(first).deviating == Judged(second).deviating == {}
    assert "rate.expensive" in resumed(first, second).deviating


@pytest.mark.fact("S105", "U1", "U4", "U88")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_use_is_never_excluded(limiters: ModuleType, kind: str, seed: int) -> None:
    """A policy pins the truth, so that no other reading can explain what the judge gets wrong about it."""
    rng = random.Random(f"in use {kind} {seed}")
    for refused_count in (False, True):
        network = limiters.Network(rng, rng.choice((300, 20_000, 400_000, 3_000_000)), rng.choice((0, 0.02)))
        limiter = limiters.Limiter(kind, refused_count, rounds=rng.choice(("ceil", "floor", "round")))
        for before in range(rng.choice((0, 10, 40))):
            limiter.call(network.send(limiters.START - (120 - before) * SECOND, WRITE))
        calls = network.steady(WRITE, rng.choice((0.4, 0.7, 1.5)))
        if rng.random() < 0.7:
            calls += network.burst(WRITE, rng.choice((1, 20, 200)), probe=rng.choice((50_000, 3_000_000)))
        judged = Judged(limiters.history(limiter, calls), window=kind, refused_calls_count=refused_count)
        wrong = {
            rule: says for rule, says in judged.deviating.items() if rule in ("rate.write", "rate.remaining")
        }
        assert wrong == {}, f"seed {kind} {seed}, {limiter}"


# What is off is found


@pytest.mark.fact("S102", "S103", "S104")
@pytest.mark.parametrize("users", [1, 20])
@pytest.mark.parametrize("rate_class", [EXPENSIVE, WRITE, READ])
@pytest.mark.parametrize(
    ("off", "side"),
    [
        ({"beyond": 1}, "no more"),
        ({"beyond": -1}, "no fewer"),
        ({"length": 59 * SECOND}, "no more"),
        ({"length": 61 * SECOND}, "no fewer"),
    ],
    ids=str,
)
def test_a_limit_or_a_window_that_is_off_is_found(
    limiters: ModuleType, off: dict[str, int], side: str, rate_class: RateClass, users: int
) -> None:
    """From bursts of one or many users with slow probes after them, headers and all; as of its case."""
    network = limiters.Network(random.Random(1), 500)
    calls = network.burst(rate_class, users, cycles=3)
    judged = Judged(limiters.history(limiters.Limiter(**off), calls))
    assert judged.deviating
    assert all(name.startswith("rate.") for name in judged.deviating)
    about = {
        f"rate.{rate_class.label}": f"key main, {side}",
        "rate.remaining": f"key main, {rate_class.label}",
    }
    for name in judged.deviating.keys() & about:
        broken = [case.name for case in judged.findings[name].cases if case.broken]
        assert broken == [about[name]], name
    assert Judged(limiters.history(limiters.Limiter(), calls)).deviating == {}


@pytest.mark.fact("U4")
@pytest.mark.parametrize("kind", ["first_hit", "sliding_log", "sliding_counter", "gcra"])
def test_refused_calls_that_count_are_a_difference_or_break_the_policy(
    limiters: ModuleType, kind: str
) -> None:
    calls = limiters.Network(random.Random(2)).burst(EXPENSIVE)
    history = limiters.history(limiters.Limiter(kind, refused_count=True), calls)
    judged = Judged(history)
    assert judged.deviating == {}
    assert judged.differences[4].found == "True"
    assert Judged(history, window=kind, refused_calls_count=False).deviating


@pytest.mark.fact("U1")
@pytest.mark.parametrize("kind", KINDS[1:])
def test_another_algorithm_is_a_difference_or_breaks_the_policy(limiters: ModuleType, kind: str) -> None:
    calls = limiters.Network(random.Random(3)).burst(EXPENSIVE, cycles=3)
    history = limiters.history(limiters.Limiter(kind), calls)
    judged = Judged(history)
    assert judged.deviating == {}
    assert kind in judged.differences[1].found.split(" or ")
    assert Judged(history, window="first_hit", refused_calls_count=False).deviating
    assert Judged(history, window=kind, refused_calls_count=False).deviating == {}


@pytest.mark.fact("S102", "S103", "S104")
def test_without_headers_the_calls_alone_show_it(limiters: ModuleType) -> None:
    """The first burst is more than a window after the trace began, so that nothing hidden can explain it."""
    network = limiters.Network(random.Random(4), 2_000)
    calls = [*seconds(limiters, -70), *network.burst(WRITE)]
    for off in ({"beyond": 1}, {"beyond": -1}):
        history = limiters.history(limiters.Limiter(**off), calls, headers=False)
        assert Judged(history)["rate.write"] == "deviates", off
    assert Judged(limiters.history(limiters.Limiter(), calls, headers=False))["rate.write"] == "conforms"


# When nobody can tell


def test_refusals_say_nothing_when_others_may_have_used_the_key(limiters: ModuleType) -> None:
    calls = limiters.Network(random.Random(5)).burst(WRITE)
    limiter = limiters.Limiter(beyond=-1)
    history = limiters.history(limiter, calls, exclusive=False, headers=False)
    assert Judged(history)["rate.write"] == "undecided"


def test_a_limit_that_was_not_come_up_to_is_not_exercised(limiters: ModuleType) -> None:
    judged = Judged(limiters.history(limiters.Limiter(), seconds(limiters, 0, 1, 2)))
    assert judged["rate.expensive"] == "not exercised"
    assert judged["rate.remaining"] == "conforms"


def test_windows_under_a_clock_that_was_moved_are_undecided(limiters: ModuleType) -> None:
    from ranksim.judge.conformance.history.history import Pace

    history = limiters.history(limiters.Limiter(), seconds(limiters, 0, 1))
    history.run.paces = (
        Pace(limiters.START, limiters.START, 60, 60),
        Pace(limiters.START + 1, limiters.START, 1, 1),
    )
    assert Judged(history)["rate.expensive"] == "undecided"


def test_windows_in_scaled_time_are_shorter(limiters: ModuleType) -> None:
    """Ten times as fast: 6 s of the trace's clock are a window, and Reset counts the deployment's seconds."""
    from ranksim.judge.conformance.history.history import Pace

    def scaled(limiter: Any) -> History:
        history = limiters.history(limiter, limiters.Network(random.Random(6)).burst(EXPENSIVE, cycles=3))
        start = history.seen[0].sent
        for seen in history.seen:
            seen.sent, seen.received = (start + (t - start) // 10 for t in (seen.sent, seen.received))
        history.run.paces = (Pace(start, start, 10, 10),)
        return history

    assert Judged(scaled(limiters.Limiter())).deviating == {}
    assert Judged(scaled(limiters.Limiter()))["rate.expensive"] == "conforms"
    assert Judged(scaled(limiters.Limiter(length=59 * SECOND))).deviating


# Keys


@pytest.mark.fact("U8", "U9", "U87")
def test_refusals_of_a_key_that_is_not_known_say_nothing(limiters: ModuleType) -> None:
    """They come from a window of the caller, which other calls have filled."""
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(100, 103), rate_class=WRITE))
    first, second, third = history.seen
    for seen in history.seen:
        seen.limit, seen.remaining = 600, 0
    first.status, first.code = 401, "unauthorized"
    second.status, second.code, second.retry_after = 429, "rate_limited", 1
    third.status, third.code, third.retry_after = 429, "rate_limited", 1
    history.seen.insert(0, limiters.history(limiters.Limiter(), seconds(limiters, 0, key="other")).seen[0])
    history.run.began = history.seen[0].sent
    history.run.header = Header(exclusive=True, keys={"other": TraceKey(account="acme")})
    assert Judged(history).deviating == {}
    history.run.header = Header(exclusive=True, keys={"main": TraceKey(account="acme")})
    assert Judged(history, refused_calls_count=False).deviating


@pytest.mark.fact("S102", "E37")
@pytest.mark.parametrize(("shared", "verdict"), [(False, "conforms"), (True, "deviates")])
def test_keys_have_windows_of_their_own(limiters: ModuleType, shared: bool, verdict: str) -> None:
    network = limiters.Network(random.Random(7))
    calls = network.burst(EXPENSIVE) + network.burst(EXPENSIVE, key="second")
    judged = Judged(limiters.history(limiters.Limiter(shared=shared), calls))
    assert judged["rate.per_key"] == verdict
    assert judged["rate.expensive"] == ("undecided" if shared else "conforms")


@pytest.mark.fact("U3")
def test_expensive_calls_that_count_as_writes_are_a_difference(limiters: ModuleType) -> None:
    network = limiters.Network(random.Random(8))
    calls = network.burst(WRITE) + network.steady(EXPENSIVE, 0.9)
    judged = Judged(limiters.history(limiters.Limiter(debits_write=True), calls))
    assert judged.deviating == {}
    assert judged.differences[3].found == "True"
    assert 3 not in Judged(limiters.history(limiters.Limiter(), calls)).differences


@pytest.mark.fact("U10")
def test_dry_runs_that_are_free_are_a_difference(limiters: ModuleType) -> None:
    from dataclasses import replace

    calls = [replace(call, dry=True) for call in seconds(limiters, *range(15))]
    calls += seconds(limiters, *range(15, 25))
    judged = Judged(limiters.history(limiters.Limiter(free_dry_runs=True), calls))
    assert judged.deviating == {}
    assert judged.differences[10].found == "free"
    assert 10 not in Judged(limiters.history(limiters.Limiter(), calls)).differences


# What headers say


def spoilt(limiters: ModuleType, spoil: Any, rounds: int = 1) -> Judged:
    """Twelve calls a second apart, with one reply changed."""
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(12)))
    spoil(history.seen)
    return Judged(history)


@pytest.mark.fact("S105")
@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("remaining", 17, "rate.remaining"),  # what the third call was told is told to the sixth
        ("remaining", 20, "rate.remaining"),
        ("remaining", 3, "rate.remaining"),
        ("remaining", 21, "rate.headers"),
        ("reset", 61, "rate.remaining"),
        ("reset", 20, "rate.remaining"),
        ("limit", 21, "rate.headers"),
        ("limit", 120, "rate.classes"),
        ("limit", None, "rate.headers"),
        ("reset", None, "rate.headers"),
        ("remaining", None, "rate.headers"),
    ],
)
def test_a_header_that_cannot_be_true(limiters: ModuleType, field: str, value: int | None, rule: str) -> None:
    """The algorithm is pinned: a log or a bucket could give some of them."""
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(12)))
    assert Judged(history, window="first_hit").deviating == {}
    setattr(history.seen[5], field, value)
    assert rule in Judged(history, window="first_hit").deviating


@pytest.mark.fact("U2", "U10")
@pytest.mark.parametrize(
    ("operation", "dry_run", "policy", "breaks"),
    [
        ("keywords.create", False, {}, False),
        ("keywords.create", False, {"tracking_class": "write"}, True),
        ("domains.create", False, {}, True),
        ("jobs.create", True, {}, False),
        ("jobs.create", True, {"dry_run_class": "read"}, True),
    ],
)
def test_a_lost_call_may_be_of_every_class_that_is_open(
    limiters: ModuleType, operation: str, dry_run: bool, policy: dict[str, Any], breaks: bool
) -> None:
    """What no reply tells of one expensive call, the next ones count."""
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(12)))
    lost = history.seen[5]
    lost.operation, lost.dry_run, lost.status, lost.received, lost.happened = (
        operation,
        dry_run,
        0,
        DISTANT_FUTURE,
        None,
    )
    lost.limit = lost.remaining = lost.reset = None
    assert ("rate.remaining" in Judged(history, **policy).deviating) == breaks


@pytest.mark.fact("S105", "E14")
def test_two_calls_at_once_are_not_told_one_number(limiters: ModuleType) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, 0, 1, 1.005))
    assert Judged(history, window="first_hit").deviating == {}
    history.seen[1].remaining = history.seen[2].remaining
    assert "both told" in Judged(history, window="first_hit").deviating["rate.remaining"]


@pytest.mark.fact("S105")
def test_numbers_follow_the_order_of_calls(limiters: ModuleType) -> None:
    """Where others may use the key, too, nothing else is known of the numbers."""
    history = limiters.history(limiters.Limiter(), seconds(limiters, 0, 1, 2), exclusive=False)
    assert Judged(history, window="first_hit").deviating == {}
    history.seen[1].remaining, history.seen[2].remaining = 17, 18
    assert "was told after" in Judged(history, window="first_hit").deviating["rate.remaining"]


@pytest.mark.fact("S105", "U88")
def test_one_window_has_one_end(limiters: ModuleType) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(12)))
    history.seen[5].reset -= 3
    assert "ends one window both" in Judged(history, window="first_hit").deviating["rate.remaining"]


@pytest.mark.fact("S104", "U1")
def test_a_window_that_opened_after_silence_admits_no_more_than_its_limit(limiters: ModuleType) -> None:
    """Nothing was refused and nothing is told: only that the window opened at 100 s, and 21 were admitted.

    Of 20 nobody knows whether one more would have been refused.
    """
    calls = seconds(limiters, *range(100, 121)) + seconds(limiters, 0, rate_class=READ)
    history = limiters.history(limiters.Limiter(beyond=1), calls, headers=False)
    assert "21 calls were admitted" in Judged(history, window="first_hit").deviating["rate.expensive"]
    calls = seconds(limiters, *range(100, 120), 160.5) + seconds(limiters, 0, rate_class=READ)
    history = limiters.history(limiters.Limiter(), calls, headers=False)
    found = Judged(history, window="first_hit").findings["rate.expensive"]
    assert (found.verdict, [case.name for case in found.cases if case.held]) == (
        "undecided",
        ["key main, no fewer"],
    )


@pytest.mark.fact("S104", "U1")
@pytest.mark.parametrize(("beyond", "verdict"), [(0, "conforms"), (2, "deviates"), (-2, "deviates")])
def test_a_sliding_counter_weighs_a_burst_wherever_its_edge_stands(
    limiters: ModuleType, beyond: int, verdict: str
) -> None:
    """Some 20 calls within a second: an edge amid them takes next to nothing from their weight."""
    calls = seconds(limiters, *(200 + number / 40 for number in range(25)))
    calls += seconds(limiters, 0, rate_class=READ)
    history = limiters.history(limiters.Limiter("sliding_counter", beyond=beyond), calls)
    pinned = Judged(history, window="sliding_counter", refused_calls_count=False)
    assert pinned["rate.expensive"] == verdict


@pytest.mark.fact("S105", "U1", "U4")
@pytest.mark.parametrize(
    "told", [lambda _: 15, lambda n: min(19, n + 1), lambda n: max(0, n - 2), lambda n: n // 2]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_false_remaining_is_found_though_the_limit_is_not_come_up_to(
    limiters: ModuleType, kind: str, told: Any
) -> None:
    """No call is refused, and no reading explains the numbers: stuck, one more, two less, half."""
    calls = limiters.Network(random.Random(5)).steady(EXPENSIVE, 0.3)
    history = limiters.history(limiters.Limiter(kind), calls)
    assert Judged(history)["rate.remaining"] == "conforms"
    for one in history.seen:
        one.remaining = told(one.remaining)
    assert Judged(history)["rate.remaining"] == "deviates"


@pytest.mark.fact("S105")
def test_a_slow_call_may_open_a_later_window_than_one_sent_after_it(limiters: ModuleType) -> None:
    slow = limiters.Sent(limiters.START, limiters.START + 90 * SECOND, limiters.START + 95 * SECOND)
    history = limiters.history(limiters.Limiter(), [slow, *seconds(limiters, 5)])
    assert [one.remaining for one in history.seen] == [19, 19]
    assert Judged(history, window="first_hit", refused_calls_count=False)["rate.remaining"] == "conforms"


@pytest.mark.fact("S105", "E36")
def test_every_response_needs_the_headers(limiters: ModuleType) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, 0, 1, 2))
    first = history.seen[0]
    first.status, first.limit, first.remaining, first.reset = 503, None, None, None
    judged = Judged(history)
    assert judged["rate.headers"] == "conforms"
    assert judged.findings["rate.headers"].open == 1
    first.status = 404
    assert Judged(history)["rate.headers"] == "deviates"


def told(**values: Any) -> SpillFile[ObservationDetail]:
    """A shelf with what one exchange told."""
    shelf = SpillFile(ObservationDetail)
    shelf.put(ObservationDetail(**values))
    return shelf


@pytest.mark.fact("U2", "U5", "U6", "U7", "U10")
@pytest.mark.parametrize(
    ("number", "found", "changes", "pinned"),
    [
        (2, "expensive", {"operation": "scans.create", "limit": 20}, {"tracking_class": "write"}),
        (10, "read", {"dry_run": True, "limit": 600}, {"dry_run_class": "same"}),
        (5, "epoch", {"reset": 1_772_618_417}, {"reset_format": "delta"}),
        (
            6,
            "http_date",
            {"status": 429, "code": "rate_limited", "shelf": told(retry_at=1), "remaining": 0},
            {"retry_after_format": "seconds"},
        ),
        (7, "slow_down", {"status": 429, "code": "slow_down", "retry_after": 1, "remaining": 0}, None),
    ],
)
def test_other_choices_are_differences_or_break_the_policy(
    limiters: ModuleType, number: int, found: str, changes: dict[str, Any], pinned: dict[str, str] | None
) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, 0), exclusive=False)
    for name, value in changes.items():
        setattr(history.seen[0], name, value)
    judged = Judged(history)
    assert judged.deviating == {}
    assert judged.differences[number].found == found
    if pinned is not None:
        assert Judged(history, **pinned).deviating


@pytest.mark.fact("S105", "U8")
@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"key": ""}, "conforms"),
        ({"status": 401}, "conforms"),
        ({"method": "OPTIONS"}, "conforms"),
        ({}, "deviates"),
    ],
)
def test_callers_without_a_key_may_have_a_limit_of_their_own(
    limiters: ModuleType, changes: dict[str, Any], verdict: str
) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, 0, 1))
    for name, value in {"limit": 60, "remaining": 59, **changes}.items():
        setattr(history.seen[0], name, value)
    assert Judged(history)["rate.headers"] == verdict


@pytest.mark.fact("S100")
def test_a_429_needs_retry_after(limiters: ModuleType) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(21)))
    assert Judged(history)["rate.retry_after"] == "conforms"
    history.seen[20].retry_after = None
    assert Judged(history)["rate.retry_after"] == "deviates"


@pytest.mark.fact("S106")
def test_a_429_with_calls_left(limiters: ModuleType) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(21)))
    assert Judged(history)["rate.traffic_only"] == "conforms"
    history.seen[20].remaining = 3
    assert Judged(history)["rate.traffic_only"] == "deviates"


@pytest.mark.fact("S100", "U6")
@pytest.mark.parametrize(
    ("told", "sent", "verdict"),
    [
        (40, 61, "conforms"),  # told the truth, and came after it
        (30, 51, "deviates"),  # told too little, and came in time
        (40, 55, "not exercised"),  # came too soon
    ],
)
def test_retry_after_is_honoured(limiters: ModuleType, told: int, sent: float, verdict: str) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(21), sent))
    history.seen[20].retry_after = told
    assert Judged(history)["rate.retry_after_honoured"] == verdict


@pytest.mark.fact("S100")
@pytest.mark.parametrize("told", [30, 40])
def test_no_call_after_retry_after_tells_where_others_call_too(limiters: ModuleType, told: int) -> None:
    history = limiters.history(limiters.Limiter(), seconds(limiters, *range(21), told + 21))
    history.seen[20].retry_after = told
    history.run.header = history.run.header.model_copy(update={"exclusive": False})
    assert Judged(history)["rate.retry_after_honoured"] == "undecided"


def test_retry_after_says_nothing_when_another_call_may_lie_between(limiters: ModuleType) -> None:
    calls = seconds(limiters, *range(21), 21, 51)
    history = limiters.history(limiters.Limiter(), calls)
    history.seen[20].retry_after = 30
    history.seen[21].retry_after = 60
    assert Judged(history)["rate.retry_after_honoured"] == "not exercised"


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(40))
def test_no_false_alarm_at_length(limiters: ModuleType, seed: int) -> None:
    for kind in KINDS:
        test_no_false_alarm(limiters, kind, 1000 + seed)


@pytest.mark.slow
def test_judging_many_calls_is_near_linear(limiters: ModuleType) -> None:
    """40 minutes at the limit of reads: found right, and quickly enough for this to be an ordinary test."""
    network = limiters.Network(random.Random(9), 2_000)
    calls = network.steady(READ, 1.2, lasts=40 * MINUTE)
    assert Judged(limiters.history(limiters.Limiter(), calls))["rate.read"] == "conforms"
    assert Judged(limiters.history(limiters.Limiter(beyond=1), calls)).deviating
