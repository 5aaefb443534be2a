"""Answers to the ready questions of pricing, as `ranksim price` gives them.

    import ranksim as rs

    customers = rs.Population.load("examples/pricing/population.yaml")
    now = rs.Policy().catalogue
    dearer = rs.price.changed(now, {"plans.pro.price": "149 USD"})
    rs.price.compare(customers, now, dearer).sentence

The public names load their modules on first use.
"""  # fmt: skip

from __future__ import annotations

from ranksim.core.lazy import lazily

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from ranksim.planner.pricing.account_compare import AccountComparison, compare_account
    from ranksim.planner.pricing.back_test import BackTest, Side, back_test, read_accounts
    from ranksim.planner.pricing.break_even import BreakEven, break_even
    from ranksim.planner.pricing.catalogues import read_catalogue
    from ranksim.planner.pricing.compare import Comparison, compare
    from ranksim.planner.pricing.needs import Need, needs
    from ranksim.planner.pricing.pareto import Frontier, changed, pareto, pareto_account
    from ranksim.planner.pricing.recording import read_recording
    from ranksim.planner.pricing.search import Demand, Search, search

MODULES = {
    "AccountComparison": "ranksim.planner.pricing.account_compare",
    "BackTest": "ranksim.planner.pricing.back_test",
    "BreakEven": "ranksim.planner.pricing.break_even",
    "Comparison": "ranksim.planner.pricing.compare",
    "Demand": "ranksim.planner.pricing.search",
    "Frontier": "ranksim.planner.pricing.pareto",
    "Need": "ranksim.planner.pricing.needs",
    "Search": "ranksim.planner.pricing.search",
    "Side": "ranksim.planner.pricing.back_test",
    "back_test": "ranksim.planner.pricing.back_test",
    "break_even": "ranksim.planner.pricing.break_even",
    "changed": "ranksim.planner.pricing.pareto",
    "compare": "ranksim.planner.pricing.compare",
    "compare_account": "ranksim.planner.pricing.account_compare",
    "needs": "ranksim.planner.pricing.needs",
    "pareto": "ranksim.planner.pricing.pareto",
    "pareto_account": "ranksim.planner.pricing.pareto",
    "read_accounts": "ranksim.planner.pricing.back_test",
    "read_catalogue": "ranksim.planner.pricing.catalogues",
    "read_recording": "ranksim.planner.pricing.recording",
    "search": "ranksim.planner.pricing.search",
}

__all__ = [
    "AccountComparison",
    "BackTest",
    "BreakEven",
    "Comparison",
    "Demand",
    "Frontier",
    "Need",
    "Search",
    "Side",
    "back_test",
    "break_even",
    "changed",
    "compare",
    "compare_account",
    "needs",
    "pareto",
    "pareto_account",
    "read_accounts",
    "read_catalogue",
    "read_recording",
    "search",
]

__getattr__ = lazily(__name__, MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
