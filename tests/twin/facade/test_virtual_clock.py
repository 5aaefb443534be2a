"""The clock: modes, changes while running, forward only, traffic and signature clocks apart."""

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, instant
from ranksim.core.errors import BadInput
from ranksim.twin.facade.virtual_clock import FIRST, LAST, Rate, VirtualClock
from ranksim.twin.serving.wall_clock import wall

START = instant("2026-03-04T10:00:00Z")
WALL = instant("2026-11-20T08:00:00Z")


class Wall:
    """A wall clock of the test's own."""

    def __init__(self) -> None:
        self.at = WALL

    def __call__(self) -> int:
        return self.at


@pytest.fixture
def wall_clock() -> Wall:
    return Wall()


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("real", Rate("real", 1)),
        ("manual", Rate("manual", 0)),
        ("scaled:60", Rate("scaled", 60)),
        ("scaled:1/10", Rate("scaled", 1, 10)),
        ("scaled:3/2", Rate("scaled", 3, 2)),
    ],
)
def test_a_rate_is_an_integer_ratio_and_writes_itself(text: str, rate: Rate) -> None:
    assert Rate.parse(text) == rate
    assert str(rate) == text


@pytest.mark.parametrize(
    "text", ["", "fast", "scaled", "scaled:", "scaled:0", "scaled:1.5", "scaled:1/0", "Real"]
)
def test_any_other_rate_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="expected real, manual, scaled:60"):
        Rate.parse(text)


def test_a_misspelt_rate_is_told_what_comes_near() -> None:
    with pytest.raises(BadInput, match="found 'manul'; did you mean 'manual'"):
        Rate.parse("manul")


@pytest.mark.parametrize(
    ("clock", "passed", "reads"),
    [
        ("real", 90 * SECOND, 90 * SECOND),
        ("manual", 90 * SECOND, 0),
        ("scaled:60", 90 * SECOND, 90 * MINUTE),
        ("scaled:1/10", 90 * SECOND, 9 * SECOND),
        ("scaled:3/2", 3, 4),
    ],
)
def test_time_runs_as_the_mode_says(wall_clock: Wall, clock: str, passed: int, reads: int) -> None:
    keeper = VirtualClock(clock, START, read_wall=wall_clock)
    wall_clock.at += passed
    assert keeper.now() == START + reads


def test_without_a_start_the_clock_begins_at_wall_time(wall_clock: Wall) -> None:
    assert VirtualClock(read_wall=wall_clock).now() == WALL


@pytest.mark.parametrize("start", [FIRST - 1, LAST + 1, instant("0000-12-31T23:59:59Z"), 10**30, -(10**30)])
def test_a_clock_does_not_begin_where_no_timestamp_leads(wall_clock: Wall, start: int) -> None:
    with pytest.raises(BadInput, match="clock: expected a start from the year 1 to the year 9999"):
        VirtualClock("manual", start, read_wall=wall_clock)


@pytest.mark.parametrize("start", [FIRST, LAST])
def test_a_clock_may_begin_at_the_first_and_the_last_instant(wall_clock: Wall, start: int) -> None:
    assert VirtualClock("manual", start, read_wall=wall_clock).now() == start


def test_a_change_of_mode_goes_on_from_the_instant_it_happens_at(wall_clock: Wall) -> None:
    keeper = VirtualClock("real", START, read_wall=wall_clock)
    wall_clock.at += MINUTE
    keeper.set_clock("scaled:60")
    wall_clock.at += SECOND
    assert keeper.now() == START + 2 * MINUTE
    keeper.set_clock("manual")
    wall_clock.at += DAY
    assert keeper.now() == START + 2 * MINUTE
    keeper.set_clock("real")
    wall_clock.at += SECOND
    assert keeper.now() == START + 2 * MINUTE + SECOND


def test_a_refused_change_changes_nothing(wall_clock: Wall) -> None:
    keeper = VirtualClock("manual", START, read_wall=wall_clock)
    for wrong in (
        {"clock": "fast"},
        {"clock": "real", "traffic": "no"},
        {"clock": "real", "signature": "no"},
    ):
        with pytest.raises(BadInput):
            keeper.set_clock(**wrong)
    assert (str(keeper.rate), keeper.traffic_clock, keeper.signature) == ("manual", "same", "virtual")


def test_clocks_go_forward_only(wall_clock: Wall) -> None:
    keeper = VirtualClock("manual", START, read_wall=wall_clock)
    keeper.move_to(START)
    keeper.move_to(START + HOUR)
    with pytest.raises(BadInput, match="forward only"):
        keeper.move_to(START + HOUR - 1)
    with pytest.raises(BadInput, match="year 10000"):
        keeper.move_to(LAST + 1)
    assert keeper.now() == START + HOUR


def test_a_running_clock_goes_on_after_a_move(wall_clock: Wall) -> None:
    keeper = VirtualClock("real", START, read_wall=wall_clock)
    keeper.move_to(START + DAY)
    wall_clock.at += SECOND
    assert keeper.now() == START + DAY + SECOND


def test_the_clock_stops_at_the_last_instant_that_can_be_written(wall_clock: Wall) -> None:
    keeper = VirtualClock("scaled:999999999", START, read_wall=wall_clock)
    wall_clock.at += DAY
    assert keeper.now() == LAST


def test_a_wall_clock_that_is_set_back_moves_nothing_back(wall_clock: Wall) -> None:
    keeper = VirtualClock("real", START, read_wall=wall_clock)
    wall_clock.at -= HOUR
    assert keeper.now() == START


def test_held_the_clock_stands_still(wall_clock: Wall) -> None:
    keeper = VirtualClock("scaled:60", START, read_wall=wall_clock)
    wall_clock.at += SECOND
    keeper.hold()
    wall_clock.at += HOUR
    assert keeper.now() == START + MINUTE
    assert keeper.wall_until(START + HOUR) is None
    keeper.release()
    wall_clock.at += SECOND
    assert keeper.now() == START + 2 * MINUTE


@pytest.mark.parametrize(
    ("clock", "wall_time"),
    [
        ("real", HOUR),
        ("scaled:60", MINUTE),
        ("scaled:1/2", 2 * HOUR),
        ("scaled:7", -(-HOUR // 7)),
        ("manual", None),
    ],
)
def test_how_long_until_an_instant(wall_clock: Wall, clock: str, wall_time: int | None) -> None:
    keeper = VirtualClock(clock, START, read_wall=wall_clock)
    assert keeper.wall_until(START + HOUR) == wall_time
    if wall_time is not None:
        assert keeper.wall_until(START - 1) == 0
        wall_clock.at += wall_time
        assert keeper.now() >= START + HOUR


def test_rate_windows_can_run_on_the_wall_clock(wall_clock: Wall) -> None:
    keeper = VirtualClock("manual", START, traffic="wall", read_wall=wall_clock)
    assert keeper.traffic(keeper.now()) == WALL
    wall_clock.at += MINUTE
    assert keeper.traffic(keeper.now()) == WALL + MINUTE


def test_traffic_time_never_goes_back_when_its_source_changes(wall_clock: Wall) -> None:
    keeper = VirtualClock("manual", START, read_wall=wall_clock)
    assert keeper.traffic(START) == START
    keeper.set_clock(traffic="wall")
    assert keeper.traffic(START) == WALL
    wall_clock.at += MINUTE
    keeper.set_clock(traffic="same")
    assert keeper.traffic(START) == WALL + MINUTE
    keeper.move_to(START + HOUR)
    assert keeper.traffic(keeper.now()) == WALL + MINUTE + HOUR


def test_signatures_can_tell_wall_time(wall_clock: Wall) -> None:
    keeper = VirtualClock("manual", START, read_wall=wall_clock)
    assert keeper.signed_at(START) == START
    keeper.set_clock(signature="wall")
    assert keeper.signed_at(START) == WALL


@pytest.mark.parametrize("clock", ["real", "manual", "scaled:60", "scaled:1/3", "scaled:7/3"])
def test_a_clock_goes_on_over_a_restart_to_the_microsecond(wall_clock: Wall, clock: str) -> None:
    keeper = VirtualClock(clock, START, read_wall=wall_clock)
    for step in (0, 1, 1, SECOND, 2):
        wall_clock.at += step
        after = VirtualClock(read_wall=wall_clock)
        after.resume(keeper.saved(), keeper.now(), keeper.traffic(keeper.now()))
        assert after.now() == keeper.now()
        wall_clock.at += 1
        assert after.now() == keeper.now()
        assert after.saved() == keeper.saved()


def test_a_clock_that_is_resumed_is_not_before_what_was_seen(wall_clock: Wall) -> None:
    saved = VirtualClock("real", START, traffic="wall", read_wall=wall_clock).saved()
    after = VirtualClock(read_wall=wall_clock)
    after.resume(saved, START + HOUR, WALL + DAY)
    assert (after.now(), after.traffic(after.now())) == (START + HOUR, WALL + DAY)


def test_another_world_may_begin_earlier(wall_clock: Wall) -> None:
    keeper = VirtualClock("real", START, read_wall=wall_clock)
    keeper.jump(START - DAY)
    wall_clock.at += SECOND
    assert keeper.now() == START - DAY + SECOND


def test_traffic_time_of_another_world_is_not_before_what_its_windows_read(wall_clock: Wall) -> None:
    keeper = VirtualClock("manual", START, traffic="wall", read_wall=wall_clock)
    for read, expected in ((WALL + DAY, WALL + DAY), (WALL - DAY, WALL), (None, WALL)):
        keeper.jump(START, read)
        assert keeper.traffic(START) == expected


def test_the_wall_clock_is_microseconds_and_does_not_go_back() -> None:
    first, second = wall(), wall()
    assert instant("2020-01-01T00:00:00Z") < first <= second < LAST
