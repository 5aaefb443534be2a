"""The specified numbers, against literals written here."""

import pytest

from ranksim.core.contract.facts import (
    EVENT_TYPES,
    FACTS,
    SPENDING_OPERATIONS,
    Decision,
    Facts,
    JobKind,
    RateClass,
    Spend,
    fact,
)


def test_the_list_of_facts_is_complete_and_in_order() -> None:
    assert [entry.number for entry in FACTS] == list(range(1, 116))
    assert all(entry.statement.endswith(".") and entry.area for entry in FACTS)
    assert len({entry.statement for entry in FACTS}) == 115


def test_fact_by_number() -> None:
    assert "429" in fact(100).statement
    with pytest.raises(KeyError, match="there is no S116"):
        fact(116)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("page_default", 50, marks=pytest.mark.fact("S43")),
        pytest.param("page_max", 200, marks=pytest.mark.fact("S43")),
        pytest.param("rate_window", 60_000_000, marks=pytest.mark.fact("S102", "S103", "S104")),
        pytest.param("idempotency_retention", 86_400_000_000, marks=pytest.mark.fact("S111")),
        pytest.param("webhook_timeout", 10_000_000, marks=pytest.mark.fact("S88")),
        pytest.param("webhook_attempts", 6, marks=pytest.mark.fact("S90")),
        pytest.param("webhook_disable_after", 20, marks=pytest.mark.fact("S91")),
        pytest.param("signature_tolerance", 300_000_000, marks=pytest.mark.fact("S86")),
        pytest.param("quota_exhausted_status", 402, marks=pytest.mark.fact("S98")),
        pytest.param("rate_limited_status", 429, marks=pytest.mark.fact("S100")),
    ],
)
def test_numbers(name: str, value: int) -> None:
    assert getattr(Facts(), name) == value


@pytest.mark.fact("S102", "S103", "S104")
def test_rates() -> None:
    rates = Facts().rates
    assert [rates.of(rate_class) for rate_class in RateClass] == [600, 120, 20]
    assert [rate_class.label for rate_class in RateClass] == ["read", "write", "expensive"]


@pytest.mark.fact("S90")
def test_retry_delays_in_minutes_add_up_to_8_h_36() -> None:
    minutes = [delay // 60_000_000 for delay in Facts().webhook_delays]
    assert minutes == [1, 5, 30, 120, 360]
    assert sum(minutes) == 8 * 60 + 36


@pytest.mark.fact("S14")
def test_job_kinds() -> None:
    assert [str(kind) for kind in JobKind] == ["rank_run", "crawl", "site_optimization", "ai_scan"]


@pytest.mark.fact("S51")
def test_spending_operations() -> None:
    assert SPENDING_OPERATIONS == (
        "rank_run",
        "crawl",
        "site_optimization",
        "ai_scan",
        "keyword_briefs",
        "keywords",
        "scans",
    )
    assert [spend.value for spend in Spend] == list(range(7))
    assert SPENDING_OPERATIONS[:4] == tuple(JobKind)


@pytest.mark.fact("S59", "S60", "S61", "S62", "S63", "S64", "S65")
def test_refusals_are_in_the_order_of_the_checks() -> None:
    assert [Decision(check).code for check in range(1, 7)] == [
        "entitlement_required",
        "subscription_inactive",
        "cost_cap_reached",
        "quota_exhausted",
        "slot_limit_exceeded",
        "cooldown_active",
    ]
    assert Decision.GRANTED == 0
    assert Decision.JOINED == 7


@pytest.mark.fact("S75")
def test_event_types() -> None:
    assert EVENT_TYPES == ("job.completed", "job.failed")


def test_every_field_names_its_fact() -> None:
    numbers = {f"S{entry.number}" for entry in FACTS}
    for name, field in Facts.model_fields.items():
        named, colon, _ = (field.description or "").partition(":")
        assert colon, name
        assert set(named.split(", ")) <= numbers, name
