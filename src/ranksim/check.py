"""A deployment checked in one command: planned by reading, run by what is undecided, judged meanwhile.

    import ranksim as rs

    rs.check.check("http://127.0.0.1:8080", key="...", length="2m")  # an rs.Judgement

The public names load their modules on first use.
"""  # fmt: skip

from __future__ import annotations

from ranksim.core.lazy import lazily

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from ranksim.judge.check.deployment import check

MODULES = {
    "check": "ranksim.judge.check.deployment",
}

__all__ = [
    "check",
]

__getattr__ = lazily(__name__, MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
