"""Facts and assumptions that a page names: links to what its end tells of them, and names that fold."""

import os
import re
from collections.abc import Iterable
from functools import cache
from html import escape

from ranksim.core.contract.facts import FACTS
from ranksim.core.contract.register import register


@cache
def _statements() -> dict[str, str]:
    """Return what a page tells of each fact and assumption that it names, by number."""
    facts = {f"S{fact.number}": fact.statement for fact in FACTS}
    assumed = {
        f"U{entry.number}": f"{entry.statement}: {entry.default}; {entry.reason}. "
        f"Confidence: {entry.confidence}."
        for entry in register()
    }
    return facts | assumed


MENTION = re.compile(r'href="#([SU][0-9]+)"')


def named_here(body: Iterable[str]) -> list[str]:
    """Return what the facts and assumptions say that a page names, folded; a link there unfolds it."""
    mentioned = {name for part in body for name in MENTION.findall(part)}
    names = sorted(mentioned, key=lambda name: (name[0], int(name[1:])))
    statements = _statements()
    rows = [f'<dt id="{name}">{_on_the_site(name)}</dt><dd>{escape(statements[name])}</dd>' for name in names]
    summary = "<summary>Facts and assumptions named here</summary>"
    return ['<details class="told">', summary, "<dl>", *rows, "</dl>", "</details>"] if rows else []


DOCS = "RANKSIM_DOCS"
"""The environment variable with the address of the documents' site, to which pages link where it is set."""

PAGES = {"S": "facts", "U": "assumptions"}
"""The page of the site that tells of a fact, and of an assumption."""


def linked(name: str, text: str) -> str:
    """Return a fact's or an assumption's id as a link to what the end of the page tells of it.

    `text` is shown where one points at it.
    """
    return f'<a href="#{name}" title="{escape(text)}">{name}</a>'


def _on_the_site(name: str) -> str:
    """Return an id as a link to its page on the documents' site, where its address is known."""
    return _link(f"reference/{PAGES[name[0]]}.html#{name.lower()}", name) or name


def _link(page: str, text: str) -> str:
    """Return a link to a page of the documents' site, "" where its address is unknown."""
    base = os.environ.get(DOCS, "").rstrip("/")
    return f'<a href="{escape(base)}/{page}">{text}</a>' if base else ""


def on_validity() -> str:
    """Return where it stands what was verified, what is made up and what is not modelled, as HTML."""
    where = _link("validity.html", "May I believe this?") or "“May I believe this?” (docs/validity.md)"
    return f"{where}: what was verified, which inputs are made up, what is not modelled."


def foldable(text: str) -> str:
    """Return text as HTML in which a dotted name goes on in the next line where one is too narrow for it.

    An instant is never parted, as it would be at its hyphens.
    """
    return INSIDE.sub("<wbr>", INSTANT.sub(r'<span class="line">\g<0></span>', escape(text)))


def pieces(text: str) -> str:
    """Return text with a space wherever a page may part it."""
    return INSIDE.sub(" ", text)


INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T[\d:.]+Z")

INSIDE = re.compile(r"(?<=[a-z][._])(?=[a-z])")
"""Where a name such as policy.catalogue.plans.pro.cost_ceiling may be parted."""


def with_links(text: str) -> str:
    """Return text as HTML, with the facts and assumptions that it names linked, or told where one points."""
    statements = _statements()

    def link(name: re.Match[str]) -> str:
        return linked(name[0], statements[name[0]]) if name[0] in statements else name[0]

    return ID.sub(link, foldable(text))


ID = re.compile(r"\b[SU]\d{1,3}\b")
"""The number of a fact or an assumption."""
