"""Arrivals: recorded and at a rate, the same whatever their blocks, thinned and cloned by draws."""

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ranksim.core.callers import arrivals
from ranksim.core.callers.arrivals import ArrivalBlock, Piece, Replay, Rhythm
from ranksim.core.callers.programs.call_streams import Caller, chosen, instants
from ranksim.core.callers.recordings import logged_calls, traced_calls
from ranksim.core.callers.request_factory import Item
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, WEEK, Micros, instant, weekday
from ranksim.core.errors import BadInput
from ranksim.core.records import read_access_log, read_rates

DATA = Path(__file__).parents[3] / "scenarios" / "data"
NASA = DATA / "nasa-july-1995-per-second.txt.xz"
LOG = DATA / "web-access-may-2015.log.gz"
NASA_BEGAN = instant("1995-07-01T04:00:01Z")
MONDAY = instant("2026-01-05T00:00:00Z")


def flat(blocks: Iterator[ArrivalBlock]) -> tuple[list[Micros], list[int]]:
    times: list[Micros] = []
    numbers: list[int] = []
    for block in blocks:
        times += block.times.tolist()
        numbers += block.numbers.tolist()
    return times, numbers


def rates_file(tmp_path: Path, text: str = "3 0 2\n5 0 0 1\n") -> str:
    path = tmp_path / "rates.txt"
    path.write_text(text)
    return str(path)


def reading(path: str, begin: Micros = MONDAY, interval: Micros = HOUR) -> Callable[[], Iterator[Piece]]:
    return lambda: arrivals.counted_arrivals(path, begin, interval)


def logged(path: Path, spread: Micros) -> Iterator[Piece]:
    return arrivals.recorded_arrivals(logged_calls(str(path)), spread, str(path))


def traced(path: str) -> Iterator[Piece]:
    return arrivals.recorded_arrivals(traced_calls(path), 0, path)


WHOLE = Replay(MONDAY, MONDAY + WEEK, seed=7, name="client")


# The shipped data


def test_the_recorded_month_is_whole() -> None:
    counts = np.concatenate(list(read_rates(NASA)))
    assert (len(counts), int(counts.sum()), int(counts.max())) == (28 * 86_400, 1_909_434, 20)
    assert np.bincount(counts).tolist()[:4] == [1_307_502, 648_081, 268_195, 113_392]


def test_the_recorded_log_is_whole() -> None:
    lines = list(read_access_log(LOG))
    assert len(lines) == 10_000
    assert len({line.client for line in lines}) == 1_753
    assert len({line.t // HOUR for line in lines}) == 84
    assert {line.t // MINUTE % 60 for line in lines} == {5}
    assert Counter(line.method for line in lines) == {"GET": 9_952, "HEAD": 42, "POST": 5, "OPTIONS": 1}
    assert lines[0].t == instant("2015-05-17T10:05:03Z")


@pytest.mark.slow
def test_the_recorded_month_streams_in_small_blocks() -> None:
    replay = Replay(MONDAY, MONDAY + DAY, name="web")
    blocks = list(arrivals.replayed(reading(str(NASA), NASA_BEGAN, SECOND), replay))
    first_day = np.concatenate(list(read_rates(NASA)))[:86_400]
    assert sum(len(block.times) for block in blocks) == first_day.sum()
    assert max(len(block.times) for block in blocks) <= arrivals.BLOCK
    times = np.concatenate([block.times for block in blocks])
    assert (np.bincount((times - MONDAY) // SECOND, minlength=86_400) == first_day).all()


# Counts


def test_counts_fall_inside_their_intervals_in_order(tmp_path: Path) -> None:
    times, numbers = flat(arrivals.replayed(reading(rates_file(tmp_path)), WHOLE))
    assert Counter((t - MONDAY) // HOUR for t in times) == {0: 3, 2: 2, 3: 5, 6: 1}
    assert times == sorted(times)
    assert sorted(numbers) == list(range(11))


@pytest.mark.parametrize("most", [1, 2, 7, 1000])
@pytest.mark.parametrize("chunk", [1, 5, 1 << 16])
def test_blocks_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, chunk: int
) -> None:
    path = rates_file(tmp_path, "3 0 2 8 1\n5 0 0 1 12\n")
    replay = replace(WHOLE, scale=1.5)
    expected = flat(arrivals.replayed(reading(path), replay))
    monkeypatch.setattr(arrivals, "read_rates", lambda p: read_rates(p, chunk))
    assert (
        flat(arrivals.replayed(lambda: arrivals.counted_arrivals(path, MONDAY, HOUR, most), replay))
        == expected
    )


def test_arrivals_are_those_of_the_seed_and_the_name(tmp_path: Path) -> None:
    read = reading(rates_file(tmp_path))
    assert flat(arrivals.replayed(read, WHOLE)) == flat(arrivals.replayed(read, WHOLE))
    assert flat(arrivals.replayed(read, WHOLE)) != flat(arrivals.replayed(read, replace(WHOLE, seed=8)))
    assert flat(arrivals.replayed(read, WHOLE)) != flat(arrivals.replayed(read, replace(WHOLE, name="other")))


# Thinning and cloning


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 1.7, 3.0, 12.25])
def test_a_scale_multiplies_the_calls(tmp_path: Path, scale: float) -> None:
    read = reading(rates_file(tmp_path, "400 0 100\n" * 10))
    times, _ = flat(arrivals.replayed(read, replace(WHOLE, scale=scale)))
    deviation = (5000 * (scale % 1) * (1 - scale % 1)) ** 0.5
    assert abs(len(times) - 5000 * scale) <= 4 * deviation


@pytest.mark.parametrize(("less", "more"), [(0.2, 0.6), (0.6, 1.0), (1.0, 1.3), (1.3, 2.0), (2.5, 4.0)])
def test_a_smaller_scale_is_part_of_a_larger(tmp_path: Path, less: float, more: float) -> None:
    read = reading(rates_file(tmp_path, "40 0 10\n" * 10))
    small, large = (
        dict(zip(*reversed(flat(arrivals.replayed(read, replace(WHOLE, scale=s)))), strict=True))
        for s in (less, more)
    )
    assert len(small) < len(large)
    assert small.items() <= large.items()


# Where a recording is placed


@pytest.mark.parametrize(
    ("align", "first"),
    [("start", MONDAY), ("recorded", MONDAY + 10 * HOUR), ("week", MONDAY + 10 * HOUR)],
)
def test_alignment(tmp_path: Path, align: str, first: Micros) -> None:
    began = MONDAY + 10 * HOUR - (3 * WEEK if align == "week" else 0)
    read = reading(rates_file(tmp_path), began)
    times, _ = flat(arrivals.replayed(read, replace(WHOLE, align=align)))
    assert times[0] // HOUR * HOUR == first


def test_alignment_by_week_joins_in_the_middle(tmp_path: Path) -> None:
    read = reading(rates_file(tmp_path), MONDAY - WEEK - 2 * HOUR)
    times, _ = flat(arrivals.replayed(read, replace(WHOLE, align="week")))
    assert Counter((t - MONDAY) // HOUR for t in times) == {0: 2, 1: 5, 4: 1}


@pytest.mark.parametrize("align", ["recorded", "week"])
@pytest.mark.parametrize("began", [MONDAY - DAY, MONDAY + 2 * DAY])
def test_a_recording_outside_the_run_is_refused(tmp_path: Path, align: str, began: Micros) -> None:
    read = reading(rates_file(tmp_path), began)
    with pytest.raises(BadInput, match=r"clients\.client\.source: nothing of it falls within 2026-01-05T"):
        list(arrivals.replayed(read, replace(WHOLE, align=align, end=MONDAY + DAY)))


@pytest.mark.parametrize(("align", "period"), [("start", 7 * HOUR), ("week", WEEK)])
def test_repetition(tmp_path: Path, align: str, period: Micros) -> None:
    replay = Replay(MONDAY, MONDAY + 2 * period, align=align, repeat=True, name="client")
    times, numbers = flat(arrivals.replayed(reading(rates_file(tmp_path)), replay))
    hours = [(t - MONDAY) // HOUR for t in times]
    assert hours[11:] == [hour + period // HOUR for hour in hours[:11]]
    assert [t % HOUR for t in times[11:]] != [t % HOUR for t in times[:11]]
    assert len(set(numbers)) == 22


def test_nothing_arrives_outside_the_run(tmp_path: Path) -> None:
    read = reading(rates_file(tmp_path, "1000 1000"))
    times, _ = flat(arrivals.replayed(read, replace(WHOLE, end=MONDAY + 90 * MINUTE)))
    assert 1400 < len(times) < 1600
    assert max(times) < MONDAY + 90 * MINUTE


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("text", ["", "0 0 0\n"])
def test_a_recording_without_calls_is_refused(tmp_path: Path, text: str, repeat: bool) -> None:
    read = reading(rates_file(tmp_path, text))
    with pytest.raises(BadInput, match=r"clients\.client\.source: holds no calls"):
        list(arrivals.replayed(read, replace(WHOLE, repeat=repeat)))


# Logs and traces


def test_the_calls_of_a_log_are_spread_over_their_hours() -> None:
    replay = Replay(MONDAY, MONDAY + WEEK, name="web")
    blocks = list(arrivals.replayed(lambda: logged(LOG, HOUR), replay))
    lines = list(read_access_log(LOG))
    first = lines[0].t // HOUR
    rows = [(t, row) for b in blocks for t, row in zip(b.times.tolist(), b.rows or (), strict=True)]
    assert Counter((t - MONDAY) // HOUR for t, _ in rows) == Counter(line.t // HOUR - first for line in lines)
    assert all((t - MONDAY) // HOUR == row.t // HOUR - first for t, row in rows)
    quarters = Counter((t - MONDAY) % HOUR // (15 * MINUTE) for t, _ in rows)
    assert all(abs(quarters[q] - 2500) < 4 * (10_000 * 3 / 16) ** 0.5 for q in range(4))
    assert all(a <= b for (a, _), (b, _) in pairwise(rows))


LINE = '{} - - [17/May/2015:{} +0000] "GET / HTTP/1.1" 200 5\n'


def test_recorded_seconds_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    with gzip.open(path, "wt") as file:
        file.write(LINE.format("a", "10:00:05") + LINE.format("b", "10:00:05") + LINE.format("c", "10:00:07"))
    replay = Replay(MONDAY, MONDAY + WEEK, name="web", scale=2.0)
    times, _ = flat(arrivals.replayed(lambda: logged(path, 0), replay))
    assert times == [MONDAY] * 4 + [MONDAY + 2 * SECOND] * 2


def test_a_log_out_of_order_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(LINE.format("a", "12:00:00") + LINE.format("b", "10:59:59"))
    with pytest.raises(BadInput, match=r"access\.log: expected calls in order of time; sort it"):
        list(logged(path, HOUR))


def test_exchanges_of_a_trace_are_put_in_the_order_they_were_sent(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    line = (
        '{{"kind":"exchange","id":"{1}","sent":{0},"received":null,"operations":["jobs.get"],"method":"GET",'
        '"path":"/v1/jobs/crawl/job_1","status":null,"api_key":"{1}"}}\n'
    )
    seconds = [(3, "c"), (1, "a"), (2, "b"), (9, "d")]
    path.write_text('{"ranksim_trace":1}\n' + "".join(line.format(s * SECOND, k) for s, k in seconds))
    blocks = list(arrivals.replayed(lambda: traced(str(path)), replace(WHOLE, align="start")))
    assert [row.client for b in blocks for row in b.rows or ()] == ["a", "b", "c", "d"]
    assert [t - MONDAY for t in flat(iter(blocks))[0]] == [0, SECOND, 2 * SECOND, 8 * SECOND]


# Rates


def test_constant_and_listed_arrivals() -> None:
    every = Caller(account="a", mix={"labels.list": Item()}, every="10s")
    times = list(instants(every, MONDAY, MONDAY + 35 * SECOND))
    assert times == [MONDAY, MONDAY + 10 * SECOND, MONDAY + 20 * SECOND, MONDAY + 30 * SECOND]
    assert list(instants(every, MONDAY, MONDAY)) == []
    given = Caller(account="a", mix={"labels.list": Item()}, times=("5us", "3us", "3us", "9us"))
    assert list(instants(given, 1, 10)) == [4, 4, 6]


def poisson(every: Micros = MINUTE, rhythm: Rhythm | None = None, seed: int = 1) -> list[Micros]:
    return flat(arrivals.poisson_arrivals(every, MONDAY, MONDAY + WEEK, seed=seed, name="p", rhythm=rhythm))[
        0
    ]


def test_a_poisson_process_has_its_rate_and_its_variance() -> None:
    times = poisson()
    hours = np.bincount([(t - MONDAY) // HOUR for t in times], minlength=168)
    assert abs(len(times) - 10_080) < 4 * 10_080**0.5
    assert 0.7 < hours.var() / hours.mean() < 1.4
    assert times == sorted(times)
    assert poisson() == times != poisson(seed=2)


def test_calls_that_hardly_ever_come_do_not_come() -> None:
    assert poisson(2_000 * WEEK) == []


def test_blocks_change_nothing_at_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rhythm = Rhythm(hours=tuple(range(24)))
    expected = poisson(rhythm=rhythm)
    monkeypatch.setattr(arrivals, "BLOCK", 7)
    assert poisson(rhythm=rhythm) == expected


def test_a_rhythm_moves_calls_and_keeps_their_number() -> None:
    office = Rhythm(hours=(0.0,) * 9 + (1.0,) * 8 + (0.0,) * 7, days=(1.0, 1.0, 1.0, 1.0, 2.0, 0.0, 0.0))
    times = poisson(rhythm=office)
    assert {t % DAY // HOUR for t in times} == set(range(9, 17))
    days = Counter(weekday(t) for t in times)
    assert set(days) == {0, 1, 2, 3, 4}
    assert 1.8 < days[4] / days[0] < 2.2
    assert abs(len(times) - 10_080) < 4 * 10_080**0.5


def test_choices_follow_their_weights() -> None:
    numbers = np.arange(20_000, dtype=np.int64)
    block = ArrivalBlock(numbers, numbers)
    picked = Counter(arrivals.chosen(block, [1.0, 3.0, 6.0], seed=1, name="c"))
    for which, share in enumerate((0.1, 0.3, 0.6)):
        assert abs(picked[which] - 20_000 * share) < 4 * (20_000 * share * (1 - share)) ** 0.5
    assert arrivals.chosen(block, [0.5], seed=1, name="c") == [0] * 20_000


@pytest.mark.parametrize("weights", [[2.0], [1.0, 3.0, 6.0], [0.1, 0.2, 0.3, 1e-9], [0.0, 1.0]])
def test_one_choice_is_that_of_many_at_once(weights: list[float]) -> None:
    numbers = np.arange(2_000, dtype=np.int64)
    many = arrivals.chosen(ArrivalBlock(numbers, numbers), weights, seed=3, name="c")
    assert [chosen(number, weights, seed=3, name="c") for number in range(2_000)] == many
