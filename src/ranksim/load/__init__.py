"""Loading a deployment: profiles, the recorder, and Locust users that drive them.

    import ranksim as rs

    trace = rs.load.load("http://127.0.0.1:8080", key="...", length="30s")
    rs.compare(trace)

The public names load their modules on first use.
"""  # fmt: skip

from __future__ import annotations

from ranksim.core.lazy import lazily

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from ranksim.judge.load.loading import load

MODULES = {
    "load": "ranksim.judge.load.loading",
}

__all__ = [
    "load",
]

__getattr__ = lazily(__name__, MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
