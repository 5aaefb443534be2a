"""Customers and catalogues whose money can be told by hand.

Four briefs a day of 0.03 USD each are 120 briefs and 3.60 USD in the 30 days of September, a billing month.
"""

from __future__ import annotations

from typing import Any

from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy, shipped_catalogue
from ranksim.planner.fleet.population import Population

USD = 1_000_000

CALENDAR = Policy().replace(assumptions={"month": "calendar"})
"""Billing months are the calendar's, so that a run over September is one of everybody's."""


def catalogue(plans: dict[str, dict[str, Any]], name: str = "flat") -> Catalogue:
    """A catalogue of plans like "pro" with 1,000 briefs a week, each with some fields of its own."""
    pro = shipped_catalogue("illustrative").plans["pro"]
    quota = pro.quotas["keyword_brief_refreshes"].model_copy(update={"limit": 1000})
    roomy = pro.model_copy(update={"quotas": {"keyword_brief_refreshes": quota}})
    made = {plan: roomy.model_copy(update={"name": plan} | fields) for plan, fields in plans.items()}
    return shipped_catalogue("illustrative").model_copy(update={"name": name, "plans": made})


def population(plans: str = "flat", accounts: int = 10, briefs: str = "4", steady: bool = True) -> Population:
    """Customers that ask for so many briefs a day, evenly, through September."""
    arrivals = "steady" if steady else "poisson"
    return Population.parse(f"""
accounts: {accounts}
start: 2026-09-01T00:00:00Z
length: 30d
segments:
  all: {{plans: {plans}, usage: {{keyword_briefs: {briefs}}}, arrivals: {arrivals}}}
""")
