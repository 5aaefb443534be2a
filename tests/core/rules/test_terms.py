"""Assumptions as the integers and masks that the rules read."""

from typing import Any

import pytest

from ranksim.core.clock import HOUR
from ranksim.core.contract.facts import Decision, Spend
from ranksim.core.contract.policy import CATALOGUES, Policy, shipped_catalogue
from ranksim.core.rules import admission
from ranksim.core.rules.books import Terms
from ranksim.core.rules.terms import capability_bits, capability_needed, checks_of, mask, terms_of


def policy(**assumptions: Any) -> Policy:
    return Policy().replace(assumptions=assumptions)


def test_the_default_terms() -> None:
    assert terms_of(Policy()) == Terms(
        join=admission.JOIN_AFTER_HEALTH,
        cost_gate=admission.AT_CEILING,
        cost_timing=admission.RESERVE,
        spent_counts_reserved=1,
        cooldown_from_finish=0,
        week_offset=0,
    )


@pytest.mark.fact("U45", "U46", "U48", "U49", "U52", "U96")
@pytest.mark.parametrize(
    ("assumption", "option", "field", "number"),
    [
        ("join", "after_health", "join", admission.JOIN_AFTER_HEALTH),
        ("join", "before_checks", "join", admission.JOIN_BEFORE_CHECKS),
        ("join", "after_checks", "join", admission.JOIN_AFTER_CHECKS),
        ("join", "never", "join", admission.JOIN_NEVER),
        ("cost_gate", "at_ceiling", "cost_gate", admission.AT_CEILING),
        ("cost_gate", "would_exceed", "cost_gate", admission.WOULD_EXCEED),
        ("cost_timing", "reserve", "cost_timing", admission.RESERVE),
        ("cost_timing", "acceptance", "cost_timing", admission.AT_ACCEPTANCE),
        ("cost_timing", "completion", "cost_timing", admission.AT_COMPLETION),
        ("spent_counts", "settled_and_reserved", "spent_counts_reserved", 1),
        ("spent_counts", "settled", "spent_counts_reserved", 0),
        ("cooldown_from", "acceptance", "cooldown_from_finish", 0),
        ("cooldown_from", "finish", "cooldown_from_finish", 1),
        ("week_offset", "-1h", "week_offset", -HOUR),
    ],
)
def test_each_option_is_its_number(assumption: str, option: str, field: str, number: int) -> None:
    assert getattr(terms_of(policy(**{assumption: option})), field) == number


def test_the_refusals_of_the_rules_are_those_of_the_contract() -> None:
    assert {refusal.name: refusal.value for refusal in Decision} == {
        name: getattr(admission, name) for name in Decision.__members__
    }
    assert [spend for spend in Spend if spend < admission.JOB_KINDS] == [
        Spend.RANK_RUN,
        Spend.CRAWL,
        Spend.SITE_OPTIMIZATION,
        Spend.AI_SCAN,
    ]


@pytest.mark.fact("S52", "S53", "S54", "S55", "S56", "S57", "S58", "S61", "U58", "U90")
@pytest.mark.parametrize(
    ("spend", "by_table", "all_but_ceiling"),
    [
        pytest.param(Spend.RANK_RUN, (2, 3, 6), (1, 2, 3, 4, 5, 6), id="rank_run: ceiling, cooldown"),
        pytest.param(Spend.CRAWL, (1, 2, 3, 6), (1, 2, 3, 4, 5, 6), id="crawl: page cap, ceiling, cooldown"),
        pytest.param(
            Spend.SITE_OPTIMIZATION,
            (1, 2, 3, 6),
            (1, 2, 3, 4, 5, 6),
            id="site_optimization: capability, ceiling, cooldown",
        ),
        pytest.param(
            Spend.AI_SCAN, (1, 2, 3), (1, 2, 3, 4, 5, 6), id="ai_scan: capability, call cap, ceiling"
        ),
        pytest.param(Spend.KEYWORD_BRIEFS, (2, 4), (1, 2, 3, 4, 5, 6), id="keyword_briefs: allowance"),
        pytest.param(Spend.KEYWORDS, (2, 5), (1, 2, 4, 5, 6), id="keywords: slots"),
        pytest.param(Spend.SCANS, (1, 2, 5), (1, 2, 4, 5, 6), id="scans: slots, dimensions"),
    ],
)
def test_which_checks_apply(
    spend: Spend, by_table: tuple[int, ...], all_but_ceiling: tuple[int, ...]
) -> None:
    assert checks_of(Policy(), spend) == mask((1, 2, 3, 4, 5, 6)) == 0b1111110
    assert checks_of(policy(checks_apply="table"), spend) == mask(by_table)
    assert checks_of(policy(ceiling_stops_tracking=False), spend) == mask(all_but_ceiling)


@pytest.mark.fact("U60")
@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_every_capability_has_a_bit_of_its_own(catalogue: str) -> None:
    sold = shipped_catalogue(catalogue)
    bits = capability_bits(sold)
    assert sorted(bits.values()) == [1 << number for number in range(len(bits))]
    assert {name for plan in sold.plans.values() for name in plan.capabilities} <= set(bits)
    assert set(sold.capability_of.values()) <= set(bits)


@pytest.mark.fact("S54", "S55", "U58", "U60")
@pytest.mark.parametrize(
    ("spend", "capability", "named_by_the_table"),
    [
        (Spend.RANK_RUN, "rank_tracking", False),
        (Spend.CRAWL, "site_crawl", False),
        (Spend.SITE_OPTIMIZATION, "site_optimization", True),
        (Spend.AI_SCAN, "ai_visibility", True),
        (Spend.KEYWORD_BRIEFS, "keyword_briefs", False),
        (Spend.KEYWORDS, "rank_tracking", False),
        (Spend.SCANS, "rank_tracking", False),
    ],
)
def test_the_capability_needed(spend: Spend, capability: str, named_by_the_table: bool) -> None:
    bits = capability_bits(Policy().catalogue)
    assert capability_needed(Policy(), spend, bits) == bits[capability]
    by_table = capability_needed(policy(checks_apply="table"), spend, bits)
    assert by_table == (bits[capability] if named_by_the_table else 0)
