"""Expectations: how they are written, what is refused, and what they say of a result."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from ranksim.core.clock import HOUR, MINUTE, instant, iso
from ranksim.core.errors import BadInput
from ranksim.twin.sim.expectations import Expectation, judge_expectations, write_number
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.metric_families import LOST
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.results import Result


def expect(text: Any, **fields: Any) -> Expectation:
    return Expectation.model_validate({"metric": text, **fields} if fields else text)


@pytest.mark.parametrize(
    "text",
    [
        "refusals.total <= 10",
        "refusals.total < 5.5",
        "refusals.total != 0",
        "jobs.crawl.wait.max == 10m",
        "1 <= refusals.total < 5",
        "1 < refusals.total <= 5",
        "5m <= jobs.crawl.wait.max <= 1h30m",
        "spend.acme.spent >= 15 USD",
        "jobs.crawl.wait.within.10m > 0.95",
    ],
)
def test_an_expectation_writes_itself_as_it_is_read(text: str) -> None:
    assert str(expect(text)) == text


def result(
    *refusals: int, wait: Sequence[int] = (), spend: int = 0, disabled_at: int | None = None
) -> Result:
    """A result with so many refusals in each replication."""
    histogram = Histogram()
    for value in wait:
        histogram.add(value)
    job = dict.fromkeys(
        ("queued", "started", "done", "failed", "joined", "max_waiting", "busy", "waiting"), 0
    )
    spent = {"settled_uusd": [spend], "reserved_uusd": [0], "spent_uusd": [spend], "ceiling_uusd": [spend]}
    endpoint = {
        **{"endpoint": "shop", "account": "acme", "attempts": [], "answers": {}},
        **dict.fromkeys(("events", "acknowledged", *LOST, "pending"), 0),
        **{"duplicates": 0, "disabled": 0, "disabled_spans": []},
        **{"delay": Histogram().to_plain(), "outages": [], "stretches": []},
        "disablings": [] if disabled_at is None else [[disabled_at, "20 consecutive failed deliveries"]],
    }
    refusal = {"client": "ci", "operation": "jobs.create", "outcome": "refused", "status": 402, "check": 4}
    return Result(
        "quickstart",
        1,
        [
            Replication(
                seed=0,
                start=0,
                end=HOUR,
                calls=[{**refusal, "code": "quota_exhausted", "count": count}] if count else [],
                jobs={"crawl": {**job, "queued": len(wait), "offered": 0, "wait": histogram.to_plain()}},
                endpoints=[endpoint],
                series={"spend": [{"account": "acme", "peak": spend, "t": [HOUR], **spent}]},
                notes={},
            )
            for count in refusals
        ],
    )


# Written


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("refusals.total <= 10", {"metric": "refusals.total", "at_most": 10}),
        ("refusals.total>=1", {"metric": "refusals.total", "at_least": 1}),
        ("refusals.total == 3", {"metric": "refusals.total", "equals": 3}),
        ("refusals.total = 3", {"metric": "refusals.total", "equals": 3}),
        ("refusals.total < 10", {"metric": "refusals.total", "less_than": 10}),
        ("refusals.total>0", {"metric": "refusals.total", "more_than": 0}),
        ("refusals.total != 3", {"metric": "refusals.total", "other_than": 3}),
        ("1 <= refusals.total <= 5", {"metric": "refusals.total", "between": [1, 5]}),
        ("1 <= refusals.total < 5", {"metric": "refusals.total", "at_least": 1, "less_than": 5}),
        ("1 < refusals.total <= 5", {"metric": "refusals.total", "more_than": 1, "at_most": 5}),
        (
            "0s < jobs.crawl.wait.max < 5m",
            {"metric": "jobs.crawl.wait.max", "more_than": "0s", "less_than": "5m"},
        ),
        ("refusals.share <= 0.05", {"metric": "refusals.share", "at_most": 0.05}),
        ("jobs.crawl.wait.p95 <= 5m", {"metric": "jobs.crawl.wait.p95", "at_most": "5m"}),
        (
            "1m <= deliveries.delay.max <= 1h30m",
            {"metric": "deliveries.delay.max", "between": ["1m", "1h30m"]},
        ),
        ("spend.acme.max <= 15 USD", {"metric": "spend.acme.max", "at_most": "15 USD"}),
        (
            "endpoints.shop.disabled_at >= 2026-03-01T00:00:00Z",
            {"metric": "endpoints.shop.disabled_at", "at_least": "2026-03-01T00:00:00Z"},
        ),
    ],
)
def test_the_short_form_is_the_long_one(text: str, same: dict[str, Any]) -> None:
    short = Expectation.model_validate(text)
    assert short == Expectation.model_validate(same)
    assert Expectation.model_validate_json(short.model_dump_json()) == short


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("jobs.crawl.wait.p95 <= 5m", (-float("inf"), 5 * MINUTE)),
        ("spend.acme.max == 1.5 USD", (1_500_000, 1_500_000)),
        ("endpoints.shop.disabled_at >= 2026-03-01", (instant("2026-03-01"), float("inf"))),
    ],
)
def test_values_are_kept_in_the_unit_of_the_metric(text: str, bounds: tuple[float, float]) -> None:
    assert Expectation.model_validate(text).bounds == bounds


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "refusals.total =< 3",
            "write METRIC <= VALUE (or <, >=, >, ==, !=) or LOW <= METRIC <= HIGH, found",
        ),
        (
            "5 >= refusals.total >= 1",
            "write METRIC <= VALUE (or <, >=, >, ==, !=) or LOW <= METRIC <= HIGH, found",
        ),
        ("refusal.total <= 3", "no metric 'refusal.total'; did you mean 'refusals.total'"),
        (
            "apples <= 3",
            "no metric 'apples'; metrics begin with one of calls, clients, deliveries, endpoints",
        ),
        (
            "slots.acme.mean <= 3",
            "no metric 'slots.acme.mean'; write slots.ACCOUNT and one of max_used, used",
        ),
        (
            "jobs.rank_run.within.5m >= 0.9",
            "no metric 'jobs.rank_run.within.5m'; write jobs.KIND.wait.within.",
        ),
        ("slots.max_used <= 3", "no metric 'slots.max_used'; write slots.ACCOUNT and one of"),
        ("refusals.total <= few", "expected a number, found 'few'"),
        ("refusals.total <= nan", "expected a finite number, found nan"),
        ("refusals.total <= 5m", "expected a number, found '5m'"),
        ("jobs.crawl.wait.p95 <= 5", "write a duration such as '5m', found '5'"),
        ("spend.acme.max <= 5", "write an amount such as '15 USD', found '5'"),
        ("5 <= refusals.total <= 1", "refusals.total: cannot be at least 5 and at most 1"),
        ("5 < refusals.total <= 5", "refusals.total: cannot be more than 5 and at most 5"),
        (
            {"metric": "refusals.total"},
            "refusals.total: give one of equals, other_than, at_least, more_than, at_most, less_than, ",
        ),
        (
            {"metric": "refusals.total", "at_least": 1, "more_than": 1},
            "refusals.total: at_least and more_than do not go together; give one",
        ),
        (
            {"metric": "refusals.total", "equals": 1, "at_most": 3},
            "refusals.total: equals and at_most do not go together; give one",
        ),
        (
            {"metric": "refusals.total", "at_least": 4, "at_most": 3},
            "refusals.total: cannot be at least 4 and at most 3",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Expectation.model_validate(given)
    assert str(caught.value.errors()[0]["ctx"]["error"]).startswith(message)


def test_in_a_file_a_duration_has_a_unit() -> None:
    with pytest.raises(ValidationError, match="write a duration such as '5m', found 300"):
        Expectation.model_validate_json('{"metric": "jobs.crawl.wait.p95", "at_most": 300}')
    assert expect("jobs.crawl.wait.p95", at_most=300).bounds[1] == 300


# Judged


@pytest.mark.parametrize(
    ("given", "refusals", "passed", "text"),
    [
        ("refusals.total <= 10", [12], False, "refusals.total is 12, expected at most 10: 2 above"),
        ("refusals.total <= 10", [10], True, "refusals.total is 10, as expected at most 10"),
        ("refusals.total >= 3", [1], False, "refusals.total is 1, expected at least 3: 2 below"),
        ("refusals.total == 3", [3], True, "refusals.total is 3, as expected exactly 3"),
        ("refusals.total == 3", [3, 3], True, "refusals.total is 3, as expected exactly 3"),
        ("refusals.total == 3", [0], False, "refusals.total is 0, expected exactly 3: 3 below"),
        ("refusals.total < 3", [3], False, "refusals.total is 3, expected less than 3"),
        ("refusals.total < 3", [5], False, "refusals.total is 5, expected less than 3: 2 above"),
        ("refusals.total < 3", [2], True, "refusals.total is 2, as expected less than 3"),
        ("refusals.total > 3", [3], False, "refusals.total is 3, expected more than 3"),
        ("refusals.total > 3", [4], True, "refusals.total is 4, as expected more than 3"),
        ("refusals.total != 3", [3], False, "refusals.total is 3, expected other than 3"),
        ("refusals.total != 3", [4], True, "refusals.total is 4, as expected other than 3"),
        (
            "1 < refusals.total < 5",
            [1],
            False,
            "refusals.total is 1, expected more than 1 and less than 5",
        ),
        (
            {"metric": "refusals.total", "other_than": 9, "hold": "every"},
            [10, 9, 14],
            False,
            "refusals.total is 9 in replication 1, expected other than 9 in every replication",
        ),
        (
            "1 <= refusals.total <= 5",
            [9],
            False,
            "refusals.total is 9, expected between 1 and 5: 4 above",
        ),
        (
            "refusals.total <= 11",
            [10, 12, 14],
            False,
            "refusals.total is 12 (7.032 to 18.1), expected at most 11: 1 above",
        ),
        (
            {"metric": "refusals.total", "at_most": 11, "hold": "every"},
            [10, 9, 14, 12],
            False,
            "refusals.total is 14 in replication 2, expected at most 11 in every replication: 3 above",
        ),
        (
            {"metric": "refusals.total", "at_most": 14, "hold": "every"},
            [10, 9, 14],
            True,
            "refusals.total is 9 to 14, as expected at most 14 in every replication",
        ),
        ("refusals.quota_exhausted >= 1", [2], True, "refusals.quota_exhausted is 2, as expected at least 1"),
        ("refusals.cooldown_active == 0", [2], True, "refusals.cooldown_active is 0, as expected exactly 0"),
        (
            "jobs.crawl.wait.p95 <= 5m",
            [0],
            False,
            "jobs.crawl.wait.p95: nothing was observed, expected at most 5m",
        ),
    ],
)
def test_a_finding_says_by_how_much(given: Any, refusals: list[int], passed: bool, text: str) -> None:
    finding = expect(given).judge(result(*refusals))
    assert (finding.passed, finding.text) == (passed, text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            "jobs.crawl.wait.max <= 5m",
            "jobs.crawl.wait.max is 6m30s, expected at most 5m: 1m30s above",
        ),
        ("spend.acme.max <= 15 USD", "spend.acme.max is 17.5 USD, expected at most 15 USD: 2.5 USD above"),
        (
            "endpoints.shop.disabled_at <= 1970-01-01T01:00:00Z",
            "endpoints.shop.disabled_at is 1970-01-01T02:00:00Z, "
            "expected at most 1970-01-01T01:00:00Z: 1h above",
        ),
    ],
)
def test_a_finding_speaks_in_the_unit_of_its_metric(given: str, text: str) -> None:
    found = result(0, wait=[390_000_000], spend=17_500_000, disabled_at=2 * HOUR)
    assert expect(given).judge(found).text == text


def test_an_instant_is_kept_to_the_microsecond() -> None:
    at = instant("2026-03-01T00:00:00Z")
    found = expect(f"endpoints.shop.disabled_at == {iso(at)}").judge(result(1, disabled_at=at + 1))
    assert (found.passed, found.off) == (False, 1)


@pytest.mark.parametrize(
    ("value", "text", "share"),
    [
        (0.0, "0", "0 %"),
        (0.00042, "0.00042", "0.042 %"),
        (0.0104, "0.0104", "1.04 %"),
        (1 / 3, "0.333", "33.33 %"),
        (-0.5, "-0.5", "-50 %"),
        (12.3456, "12.346", "1235 %"),
    ],
)
def test_a_small_number_is_not_shown_as_nothing(value: float, text: str, share: str) -> None:
    assert write_number(value, "count") == text
    assert write_number(value, "share") == share


def test_all_are_judged_in_order() -> None:
    texts = ("refusals.total <= 1", "refusals.total <= 3")
    assert [finding.passed for finding in judge_expectations(map(expect, texts), result(2))] == [False, True]


def test_a_metric_that_this_result_lacks_is_bad_input() -> None:
    with pytest.raises(
        BadInput, match=r"quickstart: no metric 'spend.acne.max'; did you mean 'spend.acme.max'"
    ):
        expect("spend.acne.max <= 5 USD").judge(result(0))


def test_a_mean_of_some_replications_says_of_how_many() -> None:
    """A replication without jobs has no wait, and says nothing of one."""
    waited, idle = result(0, 0, wait=[MINUTE]).replications, result(0).replications
    some = Result("some", 1, [*waited, *idle])
    finding = expect("jobs.crawl.wait.mean <= 5m").judge(some)
    told = "jobs.crawl.wait.mean is 1m in the 2 of 3 replications that observe it, as expected at most 5m"
    assert (finding.passed, finding.text) == (True, told)


def test_the_share_that_waits_a_duration_at_most_is_expected_in_per_cent() -> None:
    seen = result(0, 0, wait=(MINUTE, 5 * MINUTE, 20 * MINUTE, 20 * MINUTE))
    assert seen.metric("jobs.crawl.wait.within.5m").mean == 1 / 2
    assert "jobs.crawl.wait.within.5m" not in seen.metrics
    kept, broken = (
        expect(text).judge(seen)
        for text in ("jobs.crawl.wait.within.20m >= 99.9%", "jobs.crawl.wait.within.5m >= 95 %")
    )
    assert (kept.passed, broken.passed) == (True, False)
    assert expect("jobs.crawl.wait.within.5m >= 99.9%").at_least == 0.999
    assert broken.text == ("jobs.crawl.wait.within.5m is 50 %, expected at least 95 %: 45 points below")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("jobs.crawls.wait.within.5m", "no metric 'jobs.crawls.wait.p50'; did you mean 'jobs.crawl.wait"),
        ("jobs.crawl.wait.within.soon", "write jobs.crawl.wait.within.DURATION, such as 5m"),
    ],
)
def test_a_share_that_cannot_be_is_refused(name: str, says: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(says)):
        expect(f"{name} >= 0.5")
    with pytest.raises(BadInput, match=re.escape(says)):
        result(0).metric(name)
