"""Patterns of names and paths, in which * stands for anything."""

from __future__ import annotations

import re
from functools import lru_cache


def fits(pattern: str, text: str) -> bool:
    """Tell whether a text is as a pattern says, such as "jobs.*" or "/v1/jobs/*/job_1"."""
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, re.split(r"\*+", pattern))), re.DOTALL)
