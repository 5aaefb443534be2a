"""Answers to the ready questions of pricing, as `ranksim price` gives them.

    import ranksim as rs

    customers = rs.Population.load("examples/pricing/population.yaml")
    now = rs.Policy().catalogue
    dearer = rs.price.changed(now, {"plans.pro.price": "149 USD"})
    rs.price.compare(customers, now, dearer).sentence

The public names load their modules on first use.
"""  # fmt: skip

from ranksim.core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
