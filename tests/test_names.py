"""One name, one thing: no class name stands for two things anywhere in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "ranksim"

# Names that may stand for two things, each with its reason.
MAY_BE_TWO: dict[str, str] = {
    "Clock": "fixtures are annotated with `ranksim.testing.Clock`; what a player needs of one is a protocol",
    "World": "`ranksim.World` and `ranksim.testing.World` are both promised",
    "Until": "the document of the control API names a schema so, and programs say it",
}

# Names that still stand for two things. The list only shrinks.
STILL_TWO: set[str] = {
    "Account", "CooldownInterpretation", "Deployment", "Received", "Server", "Tally", "Until",
}  # fmt: skip


def test_no_class_name_stands_for_two_things() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    allowed = MAY_BE_TWO.keys() | STILL_TWO
    doubled = {name: found for name, found in places.items() if len(found) > 1 and name not in allowed}
    assert not doubled, "give each thing a name of its own"
