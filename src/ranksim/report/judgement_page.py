"""A judgement as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ranksim.report.judgement import headline, run_lines


def page(judgement: Mapping[str, Any]) -> str:
    """The page as text."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in run_lines(judgement))
    title = escape(headline(judgement))
    return f"<!doctype html><title>{title}</title><h1>{title}</h1>{lines}"
