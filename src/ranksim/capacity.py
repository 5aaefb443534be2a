"""Answers to the ready questions of capacity planners.

The public names load their modules on first use.
"""

from ranksim.core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
