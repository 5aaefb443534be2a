"""Patterns that people write, in which * stands for anything."""

import re
from fnmatch import translate
from functools import lru_cache


def fits_pattern(pattern: str, text: str) -> bool:
    """Return whether a text is as a pattern says, such as "jobs.*" or "/v1/jobs/*/job_1"."""
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(re.sub(r"[?[]", r"[\g<0>]", pattern)))
