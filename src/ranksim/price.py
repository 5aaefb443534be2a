"""Answers to the ready questions of pricing, as `ranksim price` gives them.

    import ranksim as rs

    customers = rs.Population.load("examples/pricing/population.yaml")
    now = rs.Policy().catalogue
    dearer = rs.price.changed(now, {"plans.pro.price": "149 USD"})
    rs.price.compare(customers, now, dearer).sentence

The public names load their modules on first use.
"""  # fmt: skip

from __future__ import annotations

from ranksim.lazy import lazily

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from ranksim.pricing.account_compare import AccountComparison, compare_account
    from ranksim.pricing.back_test import BackTest, Side, back_test, read_accounts
    from ranksim.pricing.break_even import BreakEven, break_even
    from ranksim.pricing.catalogues import read_catalogue
    from ranksim.pricing.compare import Comparison, compare
    from ranksim.pricing.needs import Need, needs
    from ranksim.pricing.pareto import Frontier, changed, pareto, pareto_account
    from ranksim.pricing.recording import read_recording
    from ranksim.pricing.search import Demand, Search, search

MODULES = {
    "AccountComparison": "ranksim.pricing.account_compare",
    "BackTest": "ranksim.pricing.back_test",
    "BreakEven": "ranksim.pricing.break_even",
    "Comparison": "ranksim.pricing.compare",
    "Demand": "ranksim.pricing.search",
    "Frontier": "ranksim.pricing.pareto",
    "Need": "ranksim.pricing.needs",
    "Search": "ranksim.pricing.search",
    "Side": "ranksim.pricing.back_test",
    "back_test": "ranksim.pricing.back_test",
    "break_even": "ranksim.pricing.break_even",
    "changed": "ranksim.pricing.pareto",
    "compare": "ranksim.pricing.compare",
    "compare_account": "ranksim.pricing.account_compare",
    "needs": "ranksim.pricing.needs",
    "pareto": "ranksim.pricing.pareto",
    "pareto_account": "ranksim.pricing.pareto",
    "read_accounts": "ranksim.pricing.back_test",
    "read_catalogue": "ranksim.pricing.catalogues",
    "read_recording": "ranksim.pricing.recording",
    "search": "ranksim.pricing.search",
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
