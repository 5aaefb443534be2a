"""Populations and policies of all kinds, for Hypothesis: what the tests of the kernel try."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.policy import Policy
from ranksim.core.rules.windows import NAMES
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.rows import ACTIVITIES

WORDS = st.integers(-(2**63), 2**63 - 1)
METERED = Policy().replace(catalogue="illustrative-metered")

# One kernel is compiled for all of them: policies and populations are data.


def options(field: str) -> st.SearchStrategy[Any]:
    """The values of an assumption that has a list of them."""
    annotation = Assumptions.model_fields[field].annotation
    return st.booleans() if annotation is bool else st.sampled_from(annotation.__args__)


ASSUMPTIONS = (
    "tracking_class", "expensive_debits_write", "refused_calls_count", "join", "cooldown_scope",
    "cooldown_from", "cap", "cost_gate", "cost_timing", "spent_counts", "ceiling_stops_tracking",
    "quota_grant", "month", "checks_apply", "dimension_refusal", "over_slots",
)  # fmt: skip

PLAN = st.fixed_dictionaries(
    {
        "slot_limit": st.integers(0, 400),
        "cost_ceiling": st.integers(0, 5_000_000),
        "page_cap": st.integers(0, 300),
        "call_cap": st.integers(0, 60),
        "dimensions": st.fixed_dictionaries(
            {"max_engine_devices": st.integers(0, 3), "max_geographies": st.integers(0, 3)}
        ),
        "quotas": st.fixed_dictionaries({"rank_runs": st.fixed_dictionaries({"limit": st.integers(0, 60)})}),
        "cooldowns": st.fixed_dictionaries(
            {name: st.integers(0, 2 * DAY) for name in ("rank_run", "crawl", "keyword_briefs", "keywords")}
        ),
    }
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    assumptions = {name: draw(options(name)) for name in ASSUMPTIONS}
    assumptions["window"] = draw(st.sampled_from(NAMES))
    assumptions["week_offset"] = draw(st.integers(-3 * DAY, 3 * DAY))
    rates = {name: draw(st.integers(1, 6)) for name in ("read", "write", "expensive")}
    return METERED.replace(
        facts={"rates": rates, "rate_window": draw(st.integers(SECOND, 3 * HOUR))},
        assumptions=assumptions,
        catalogue={"plans": {"team": draw(PLAN), "studio": draw(PLAN)}},
    )


@st.composite
def reactions(draw: st.DrawFn) -> dict[str, Any]:
    waits = st.sampled_from(["told", "backoff"])
    given: dict[str, Any] = {
        code: {
            "retry": draw(st.sampled_from([0.0, 0.5, 1.0])),
            "wait": draw(waits),
            "tries": draw(st.integers(1, 60)),
            "first": draw(st.integers(1, HOUR)),
            "most": draw(st.integers(1, 3 * DAY)),
        }
        for code in (
            "rate_limited",
            "cost_cap_reached",
            "quota_exhausted",
            "slot_limit_exceeded",
            "cooldown_active",
        )
    }
    return given | {"backlog": draw(st.integers(0, 12))}


@st.composite
def populations(draw: st.DrawFn) -> Population:
    rates = st.sampled_from([0.0, 0.5, 4.0, 12.0])
    segment = {
        "plans": {"team": {"weight": 1.0}, "studio": {"weight": 1.0, "add_ons": {"run_pack": 1}}},
        "portfolio": {
            "domains": {"uniform": {"low": 1, "high": 3}},
            "keywords": {"lognormal": {"median": 20, "sigma": 1.0, "most": 200}},
            "engine_devices": draw(st.integers(0, 3)),
            "geographies": draw(st.integers(0, 3)),
        },
        "usage": {activity: draw(rates) for activity in ACTIVITIES},
        "sizes": {"keyword_briefs": {"low": 1, "high": 4}, "keywords": {"low": 1, "high": 30}},
        "calendar": {
            "days": (1.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.5),
            "zones": {-5 * HOUR: 1.0, 90 * MINUTE: 1.0},
        },
        "arrivals": draw(st.sampled_from(["poisson", "steady"])),
        "after_refusal": draw(reactions()),
        "past_due": draw(st.sampled_from([0.0, 0.3])),
    }
    return Population.model_validate(
        {
            "accounts": 4,
            "start": draw(st.integers(0, 2 * 365)) * DAY + draw(st.integers(0, DAY)),
            "length": draw(st.integers(1, 40 * DAY)),
            "segments": {"some": segment},
            "joins": draw(st.sampled_from([0.0, 0.5])),
            "churn": draw(st.sampled_from([0.0, 0.5])),
            "growth": draw(st.sampled_from([0.0, 0.3, -0.3])),
        }
    )
