"""Loading a deployment: profiles, the recorder, and Locust users that drive them.

    import ranksim as rs

    trace = rs.load.load("http://127.0.0.1:8080", key="...", length="30s")
    rs.compare(trace)

The public names load their modules on first use.
"""  # fmt: skip

from ranksim.core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
