"""A deployment checked in one command: planned by reading, run by what is undecided, judged meanwhile.

    import ranksim as rs

    rs.check.check("http://127.0.0.1:8080", key="...", length="2m")  # an rs.Judgement

The public names load their modules on first use.
"""  # fmt: skip

from ranksim.core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
