"""Text that others wrote, made safe to show: of a deployment, a trace, a file, a caller."""

from __future__ import annotations

from unicodedata import category

LINES = "\n\t"
"""What text of several lines keeps."""


def printable(text: str, keep: str = "") -> str:
    """Return text with all that moves a cursor, changes colours or turns the direction escaped as JSON does.

    Terminals obey ESC and C1 controls, readers' eyes bidirectional ones; half of a surrogate pair cannot be
    written at all. `keep` are characters that stay, such as `LINES`.
    """
    if text.isprintable():
        return text
    return "".join(
        character if _is_plain(character) or character in keep else _escaped(character) for character in text
    )


def _is_plain(character: str) -> bool:
    return character.isprintable() or category(character) == "Zs"  # spaces of any width are what they seem


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
